/* fft_library.cc: fft_library.h on the C++ header of KISS FFT: this file is why GT needs a C++ compiler. */
#include "engines/cpu/fft_library.h"

#include <cmath>
#include <complex>
#include <new>
#include <vector>

#include <kissfft.hh>

typedef std::complex<double> number;

namespace {

const double pi = 3.14159265358979323846;

/* Beyond this prime factor Bluestein's algorithm is faster. */
const int64_t largest_factor = 23;

int64_t largest_prime_factor(int64_t n)
{
    int64_t largest = 1;
    for (int64_t p = 2; p * p <= n; p++)
        for (; n % p == 0; n /= p)
            largest = p;
    return n > largest ? n : largest;
}

int64_t power_of_two(int64_t at_least)
{
    int64_t size = 1;
    while (size < at_least)
        size *= 2;
    return size;
}

} // namespace

struct gt_fft_plan {
    int64_t n, size; /* size: of the library's transforms */
    int references;
    bool shared; /* the library's butterflies for 2 to 5 keep no state, the general one does */
    kissfft<double> transform, back;
    std::vector<number> chirp, filter; /* Bluestein; empty: the library computes the transform itself */

    gt_fft_plan(int64_t n, int64_t size, bool inverse, bool shared)
        : n(n), size(size), references(1), shared(shared), transform((size_t)size, size == n && inverse),
          back(size == n ? 1 : (size_t)size, true)
    {
    }
};

/*
 * Bluestein: jk = (j^2 + k^2 - (j - k)^2) / 2 turns the sum over j of x_j w^(jk) into a convolution with the chirp
 * w^(-j^2/2), which transforms of a power of two compute. j^2 is taken modulo 2n, so that the angle stays small and exact.
 */
static void plan_chirp(gt_fft_plan *plan, bool inverse)
{
    std::vector<number> padded((size_t)plan->size);
    plan->chirp.resize((size_t)plan->n);
    plan->filter.resize((size_t)plan->size);
    int64_t square = 0; /* k^2 mod 2n */
    for (int64_t k = 0; k < plan->n; k++) {
        double angle = (inverse ? pi : -pi) * (double)square / (double)plan->n;
        number w(std::cos(angle), std::sin(angle));
        plan->chirp[(size_t)k] = w;
        padded[(size_t)k] = std::conj(w);
        padded[(size_t)((plan->size - k) % plan->size)] = std::conj(w);
        square = (square + 2 * k + 1) % (2 * plan->n);
    }
    plan->transform.transform(padded.data(), plan->filter.data());
    for (number &x : plan->filter)
        x /= (double)plan->size;
}

extern "C" gt_fft_plan *gt__fft_plan_new(int64_t n, bool inverse)
{
    try {
        int64_t factor = largest_prime_factor(n);
        bool direct = factor <= largest_factor;
        gt_fft_plan *plan = new gt_fft_plan(n, direct ? n : power_of_two(2 * n - 1), inverse, !direct || factor <= 5);
        if (!direct)
            plan_chirp(plan, inverse);
        return plan;
    } catch (const std::bad_alloc &) {
        return nullptr;
    }
}

extern "C" gt_fft_plan *gt__fft_plan_retain(gt_fft_plan *plan)
{
    plan->references++;
    return plan;
}

extern "C" gt_fft_plan *gt__fft_plan_for_thread(gt_fft_plan *plan)
{
    if (plan->shared)
        return gt__fft_plan_retain(plan);
    try {
        gt_fft_plan *copy = new gt_fft_plan(*plan);
        copy->references = 1;
        return copy;
    } catch (const std::bad_alloc &) {
        return nullptr;
    }
}

extern "C" void gt__fft_plan_release(gt_fft_plan *plan)
{
    if (plan && --plan->references == 0)
        delete plan;
}

extern "C" int64_t gt__fft_plan_work(const gt_fft_plan *plan)
{
    return plan->chirp.empty() ? 0 : 2 * plan->size;
}

extern "C" void gt__fft_plan_run(const gt_fft_plan *plan, const double *in, double *out, double *work)
{
    const number *x = reinterpret_cast<const number *>(in);
    number *y = reinterpret_cast<number *>(out);
    if (plan->n == 1) {
        y[0] = x[0];
        return;
    }
    if (plan->chirp.empty()) {
        plan->transform.transform(x, y);
        return;
    }
    number *a = reinterpret_cast<number *>(work), *b = a + plan->size;
    for (int64_t k = 0; k < plan->size; k++)
        a[k] = k < plan->n ? x[k] * plan->chirp[(size_t)k] : number();
    plan->transform.transform(a, b);
    for (int64_t k = 0; k < plan->size; k++)
        b[k] *= plan->filter[(size_t)k];
    plan->back.transform(b, a);
    for (int64_t k = 0; k < plan->n; k++)
        y[k] = a[k] * plan->chirp[(size_t)k];
}

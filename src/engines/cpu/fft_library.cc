/* fft_library.cc: fft_library.h on the C++ header of KISS FFT: this file is why GT needs a C++ compiler. */
#include "engines/cpu/fft_library.h"

#include <cmath>
#include <complex>
#include <new>
#include <vector>

namespace {

/* A number of each line. It is all that the library asks of a type of real numbers. The operators are templates so that a
 * product with an integer, of which the library makes angles, is a product of doubles. */
template <typename real, int count> struct numbers_of {
    typedef real vector __attribute__((vector_size(count * sizeof(real))));
    vector value;

    numbers_of() = default;
    numbers_of(double x) : value(vector() + (real)x)
    {
    }
    operator double() const
    {
        return value[0];
    }
    numbers_of &operator+=(const numbers_of &other)
    {
        value += other.value;
        return *this;
    }
    numbers_of &operator-=(const numbers_of &other)
    {
        value -= other.value;
        return *this;
    }
    numbers_of &operator*=(const numbers_of &other)
    {
        value *= other.value;
        return *this;
    }
    numbers_of operator-() const
    {
        numbers_of result;
        result.value = -value;
        return result;
    }
};

template <typename real, int count> numbers_of<real, count> operator+(numbers_of<real, count> a, const numbers_of<real, count> &b)
{
    return a += b;
}

template <typename real, int count> numbers_of<real, count> operator-(numbers_of<real, count> a, const numbers_of<real, count> &b)
{
    return a -= b;
}

template <typename real, int count> numbers_of<real, count> operator*(numbers_of<real, count> a, const numbers_of<real, count> &b)
{
    return a *= b;
}

typedef numbers_of<float, GT_FFT_LANES> lanes;

} // namespace

#include <kissfft.hh>

typedef std::complex<double> number;
typedef std::complex<lanes> number_of_lanes;

namespace {

const double pi = 3.14159265358979323846;

/* Beyond this size one line fills the nearest cache. */
const int64_t largest_of_lanes = 1 << 14;

/* The library's factors are private. An explicit instantiation may name them all the same. */
struct factors {
    typedef std::vector<number_of_lanes> kissfft<lanes>::*member;
    friend member find(factors);
};

template <typename Tag, typename Tag::member Member> struct exposed {
    friend typename Tag::member find(Tag)
    {
        return Member;
    }
};

template struct exposed<factors, &kissfft<lanes>::_twiddles>;

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
    std::vector<kissfft<lanes>> side_by_side; /* one, or none */

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

/* The factors in double, rounded once. */
static void plan_lanes(gt_fft_plan *plan, bool inverse)
{
    plan->side_by_side.emplace_back((size_t)plan->n, inverse);
    std::vector<number_of_lanes> &all = plan->side_by_side[0].*find(factors());
    for (int64_t k = 0; k < plan->n; k++) {
        double angle = (inverse ? 2 : -2) * pi * (double)k / (double)plan->n;
        all[(size_t)k] = number_of_lanes(std::cos(angle), std::sin(angle));
    }
}

extern "C" gt_fft_plan *gt__fft_plan_new(int64_t n, bool inverse)
{
    try {
        int64_t factor = largest_prime_factor(n);
        bool direct = factor <= largest_factor;
        gt_fft_plan *plan = new gt_fft_plan(n, direct ? n : power_of_two(2 * n - 1), inverse, !direct || factor <= 5);
        if (!direct)
            plan_chirp(plan, inverse);
        else if (n > 1 && n <= largest_of_lanes)
            plan_lanes(plan, inverse);
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

extern "C" bool gt__fft_plan_has_lanes(const gt_fft_plan *plan)
{
    return !plan->side_by_side.empty();
}

extern "C" void gt__fft_plan_run_lanes(const gt_fft_plan *plan, const float (*in)[GT_FFT_LANES],
                                       float (*out)[GT_FFT_LANES])
{
    plan->side_by_side[0].transform(reinterpret_cast<const number_of_lanes *>(in),
                                    reinterpret_cast<number_of_lanes *>(out));
}

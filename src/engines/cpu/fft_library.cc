/* fft_library.cc: fft_library.h on the C++ header of KISS FFT: this file is why GT needs a C++ compiler. */
#include "engines/cpu/fft_library.h"

#include <cmath>
#include <complex>
#include <new>
#include <vector>

#include "engines/cpu/fft_lanes.h"

#include <kissfft.hh>

typedef std::complex<double> number;

namespace
{

const double pi = 3.14159265358979323846;

/* Beyond this size several lines side by side leave the second cache. */
const int64_t largest_of_lanes = 1 << 13;

/* Below this size one number at a time is as fast. */
const int64_t smallest_to_split = 32;

/* Beyond this prime factor Bluestein's algorithm is faster. */
const int64_t largest_factor = 23;

/* The library's factors are private. An explicit instantiation may name them all the same. */
struct narrow_factors {
    typedef std::vector<std::complex<lanes<float>>> kissfft<lanes<float>>::*member;
    friend member find(narrow_factors);
};

struct wide_factors {
    typedef std::vector<std::complex<lanes<double>>> kissfft<lanes<double>>::*member;
    friend member find(wide_factors);
};

template <typename Tag, typename Tag::member Member> struct exposed {
    friend typename Tag::member find(Tag)
    {
        return Member;
    }
};

template struct exposed<narrow_factors, &kissfft<lanes<float>>::_twiddles>;
template struct exposed<wide_factors, &kissfft<lanes<double>>::_twiddles>;

std::vector<std::complex<lanes<float>>> &factors_of(kissfft<lanes<float>> &library)
{
    return library.*find(narrow_factors());
}

std::vector<std::complex<lanes<double>>> &factors_of(kissfft<lanes<double>> &library)
{
    return library.*find(wide_factors());
}

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

/* exp(-2 pi i k / n) */
number turn(int64_t k, int64_t n)
{
    double angle = -2 * pi * (double)k / (double)n;
    return number(std::cos(angle), std::sin(angle));
}

/* ---- one precision ------------------------------------------------------------------------------------------ */

/*
 * Powers of two go by Stockham's algorithm, radix 4, and 4 or 8 at the end: the library keeps a copy of its factors for each lane and reads them with
 * large strides, which costs more than the arithmetic. A stage of n reads columns p, p + n / 4, ... and writes them side by side,
 * so that the results end in order; `step` such transforms lie side by side in memory.
 */
template <typename real> struct powers_of_two {
    typedef typename lanes<real>::vector vector;
    int64_t n = 0; /* 0: not one */
    real direction = -1;
    std::vector<real> factors; /* of each stage but the last: w, w^2, w^3 for each p; re, im */

    void plan(int64_t size, bool inverse)
    {
        n = size;
        direction = inverse ? 1 : -1;
        for (int64_t stage = n; stage > 8; stage /= 4)
            for (int64_t p = 0; p < stage / 4; p++)
                for (int64_t power = 1; power < 4; power++) {
                    number w = turn(power * p, stage);
                    factors.push_back((real)w.real());
                    factors.push_back((real)(inverse ? -w.imag() : w.imag()));
                }
    }

    /* Four numbers to four sums, before they are turned. x, y: re, im. */
    static inline void butterfly(real direction, const vector *a, const vector *b, const vector *c,
                                 const vector *d, vector *re, vector *im)
    {
        vector sum_re = a[0] + c[0], sum_im = a[1] + c[1], less_re = a[0] - c[0], less_im = a[1] - c[1];
        vector other_re = b[0] + d[0], other_im = b[1] + d[1];
        vector across_re = direction * (d[1] - b[1]), across_im = direction * (b[0] - d[0]);
        re[0] = sum_re + other_re;
        im[0] = sum_im + other_im;
        re[1] = less_re + across_re;
        im[1] = less_im + across_im;
        re[2] = sum_re - other_re;
        im[2] = sum_im - other_im;
        re[3] = less_re - across_re;
        im[3] = less_im - across_im;
    }

    void stage(int64_t size, int64_t step, const real *w, const vector *__restrict x, vector *__restrict y) const
    {
        int64_t quarter = size / 4 * step;
        const real to = direction;
        for (int64_t p = 0; p < size / 4; p++, w += 6) {
            const vector *a = x + 2 * p * step;
            vector *out = y + 8 * p * step;
            for (int64_t q = 0; q < 2 * step; q += 2) {
                vector re[4], im[4];
                butterfly(to, a + q, a + q + 2 * quarter, a + q + 4 * quarter, a + q + 6 * quarter, re, im);
                out[q] = re[0];
                out[q + 1] = im[0];
                for (int k = 1; k < 4; k++) {
                    out[q + 2 * k * step] = re[k] * w[2 * k - 2] - im[k] * w[2 * k - 1];
                    out[q + 2 * k * step + 1] = re[k] * w[2 * k - 1] + im[k] * w[2 * k - 2];
                }
            }
        }
    }

    /* Eight numbers, from the sums of the even and the odd four: X[k] and X[k + 4] are E[k] +- w^k O[k]. */
    static inline void join_eight(real to, vector *re, vector *im)
    {
        const real half = (real)0.70710678118654752440;
        vector *odd_re = re + 4, *odd_im = im + 4;
        vector r = odd_re[1], i = odd_im[1];
        odd_re[1] = half * (r - to * i);
        odd_im[1] = half * (i + to * r);
        r = odd_re[2];
        odd_re[2] = -to * odd_im[2];
        odd_im[2] = to * r;
        r = odd_re[3], i = odd_im[3];
        odd_re[3] = half * (-r - to * i);
        odd_im[3] = half * (to * r - i);
        for (int k = 0; k < 4; k++) {
            r = odd_re[k], i = odd_im[k];
            odd_re[k] = re[k] - r;
            odd_im[k] = im[k] - i;
            re[k] += r;
            im[k] += i;
        }
    }

    /* Two, four or eight numbers: the last stage, where nothing is turned. */
    template <int size> void last_stage(int64_t step, const vector *from, vector *to) const
    {
        for (int64_t q = 0; q < 2 * step; q += 2) {
            vector re[8], im[8];
            const vector *in = from + q;
            if (size == 2) {
                re[0] = in[0] + in[2 * step];
                im[0] = in[1] + in[2 * step + 1];
                re[1] = in[0] - in[2 * step];
                im[1] = in[1] - in[2 * step + 1];
            } else {
                const int64_t next = size / 4 * 2 * step;
                butterfly(direction, in, in + next, in + 2 * next, in + 3 * next, re, im);
                if (size == 8) {
                    in += 2 * step;
                    butterfly(direction, in, in + next, in + 2 * next, in + 3 * next, re + 4, im + 4);
                    join_eight(direction, re, im);
                }
            }
            for (int k = 0; k < size; k++) {
                to[q + 2 * k * step] = re[k];
                to[q + 2 * k * step + 1] = im[k];
            }
        }
    }

    /* x is overwritten. The last stage may be in place: it writes where it reads. */
    void transform(vector *x, vector *y) const
    {
        const real *w = factors.data();
        int64_t size = n, step = 1;
        vector *from = x, *to = y;
        for (; size > 8; size /= 4, step *= 4) {
            stage(size, step, w, from, to);
            w += 6 * (size / 4);
            vector *other = from;
            from = to;
            to = other;
        }
        if (size == 8)
            last_stage<8>(step, from, y);
        else if (size == 4)
            last_stage<4>(step, from, y);
        else
            last_stage<2>(step, from, y);
    }
};

/* Transforms of n numbers in vectors. With the factors in double, rounded once. */
template <typename real> struct vector_plan {
    typedef typename lanes<real>::vector vector;
    std::vector<kissfft<lanes<real>>> library; /* one, or none */
    powers_of_two<real> powers;                /* in its place */
    std::vector<real> joins; /* of one line in lanes: exp(-2 pi i l k / n), in vectors over l: re, im */
    std::vector<real> turns; /* of real lines of n: exp(-2 pi i k / n) for k <= n / 2 */

    void plan(int64_t n, bool inverse)
    {
        if (n > 1 && n == power_of_two(n)) {
            powers.plan(n, inverse);
            return;
        }
        library.emplace_back((size_t)n, inverse);
        std::vector<std::complex<lanes<real>>> &all = factors_of(library[0]);
        for (int64_t k = 0; k < n; k++) {
            number w = inverse ? std::conj(turn(k, n)) : turn(k, n);
            all[(size_t)k] = std::complex<lanes<real>>(w.real(), w.imag());
        }
    }

    void plan_joins(int64_t n, bool inverse)
    {
        const int count = lanes<real>::count;
        joins.resize((size_t)(2 * n));
        for (int64_t k = 0; k < n / count; k++)
            for (int l = 0; l < count; l++) {
                number w = turn(l * k, n);
                joins[(size_t)(2 * count * k + l)] = (real)w.real();
                joins[(size_t)(2 * count * k + count + l)] = (real)(inverse ? -w.imag() : w.imag());
            }
    }

    void plan_turns(int64_t n)
    {
        turns.resize((size_t)(n + 2));
        for (int64_t k = 0; k <= n / 2; k++) {
            number w = turn(k, n);
            turns[(size_t)(2 * k)] = (real)w.real();
            turns[(size_t)(2 * k + 1)] = (real)w.imag();
        }
    }

    /* in may be overwritten */
    void transform(vector *in, vector *out) const
    {
        if (powers.n) {
            powers.transform(in, out);
            return;
        }
        library[0].transform(reinterpret_cast<const std::complex<lanes<real>> *>(in),
                             reinterpret_cast<std::complex<lanes<real>> *>(out));
    }
};

/* ---- real lines --------------------------------------------------------------------------------------------- */

/*
 * y[0..n/2] from the transform z of the n / 2 pairs (x[2k], x[2k+1]): the even and the odd elements' transforms are
 * recovered from the symmetry, and combined. V is a number, or a vector of numbers of several lines. sign: -1 conjugates y.
 */
template <typename V, typename real>
void unpack_spectrum(int64_t n, const real *turns, real sign, const V *__restrict z, V *__restrict y)
{
    int64_t half = n / 2;
    const real part = (real)0.5;
    y[0] = z[0] + z[1];
    y[2 * half] = z[0] - z[1];
    y[1] = y[2 * half + 1] = V();
    for (int64_t k = 1; k < half; k++) {
        const V *a = z + 2 * k, *b = z + 2 * (half - k);
        const real *w = turns + 2 * k;
        V even_re = part * (a[0] + b[0]), even_im = part * (a[1] - b[1]);
        V odd_re = part * (a[1] + b[1]), odd_im = part * (b[0] - a[0]);
        y[2 * k] = even_re + w[0] * odd_re - w[1] * odd_im;
        y[2 * k + 1] = sign * (even_im + w[0] * odd_im + w[1] * odd_re);
    }
}

/* The reverse: the spectrum of the pairs. The imaginary parts of the ends do not count. */
template <typename V, typename real>
void pack_spectrum(int64_t n, const real *turns, real sign, const V *__restrict y, V *__restrict z)
{
    int64_t half = n / 2;
    z[0] = y[0] + y[2 * half];
    z[1] = y[0] - y[2 * half];
    for (int64_t k = 1; k < half; k++) {
        const V *a = y + 2 * k, *b = y + 2 * (half - k);
        const real *w = turns + 2 * k;
        V even_re = a[0] + b[0], even_im = sign * (a[1] - b[1]), re = a[0] - b[0], im = sign * (a[1] + b[1]);
        V odd_re = re * w[0] + im * w[1], odd_im = im * w[0] - re * w[1];
        z[2 * k] = even_re - odd_im;
        z[2 * k + 1] = even_im + odd_re;
    }
}

/* ---- one line in lanes -------------------------------------------------------------------------------------- */

/* The last step of a transform in L parts: L outputs, of parts that are already turned. direction: -1, inverse 1. */
inline void butterfly(lanes<double>::vector *re, lanes<double>::vector *im, double direction)
{
    (void)direction;
    lanes<double>::vector r = re[1], i = im[1];
    re[1] = re[0] - r;
    im[1] = im[0] - i;
    re[0] += r;
    im[0] += i;
}

inline void butterfly(lanes<float>::vector *re, lanes<float>::vector *im, float direction)
{
    typedef lanes<float>::vector vector;
    vector even_re = re[0] + re[2], even_im = im[0] + im[2], odd_re = re[1] + re[3], odd_im = im[1] + im[3];
    vector a_re = re[0] - re[2], a_im = im[0] - im[2];
    vector b_re = -direction * (im[1] - im[3]), b_im = direction * (re[1] - re[3]); /* direction i (x1 - x3) */
    re[0] = even_re + odd_re;
    im[0] = even_im + odd_im;
    re[1] = a_re + b_re;
    im[1] = a_im + b_im;
    re[2] = even_re - odd_re;
    im[2] = even_im - odd_im;
    re[3] = a_re - b_re;
    im[3] = a_im - b_im;
}

/* n complex numbers, n a multiple of the lanes. work: room for 2 n numbers twice. */
template <typename real>
void transform_split(const vector_plan<real> &plan, int64_t n, bool inverse, const real *in, real *out, real scale,
                     typename lanes<real>::vector *work)
{
    typedef typename lanes<real>::vector vector;
    const int count = lanes<real>::count;
    int64_t part = n / count;
    vector *apart = work, *done = work + 2 * part;
    for (int64_t k = 0; k < part; k++)
        split_pairs(load(in + 2 * count * k), load(in + 2 * count * k + count), &apart[2 * k], &apart[2 * k + 1]);
    plan.transform(apart, done);
    const real *w = plan.joins.data();
    int64_t k = 0;
    for (; k < part; k += count) {
        int width = part - k < count ? (int)(part - k) : count; /* the last few may be less than a vector */
        vector re[count] = {}, im[count] = {};
        for (int j = 0; j < width; j++) {
            vector c = load(w + 2 * count * (k + j)), s = load(w + 2 * count * (k + j) + count);
            vector x = done[2 * (k + j)], y = done[2 * (k + j) + 1];
            re[j] = (x * c - y * s) * scale;
            im[j] = (x * s + y * c) * scale;
        }
        transpose(re);
        transpose(im);
        butterfly(re, im, (real)(inverse ? 1 : -1));
        for (int l = 0; l < count; l++) {
            vector a, b;
            real *to = out + 2 * (l * part + k);
            if (width == count) {
                join_pairs(re[l], im[l], &a, &b);
                store(to, a);
                store(to + count, b);
                continue;
            }
            for (int j = 0; j < width; j++) {
                to[2 * j] = re[l][j];
                to[2 * j + 1] = im[l][j];
            }
        }
    }
}

} // namespace

/* ---- plans -------------------------------------------------------------------------------------------------- */

struct gt_fft_plan {
    enum way { SIDE_BY_SIDE, SPLIT, ONE_BY_ONE };

    gt_fft_use use;
    bool packed;           /* real lines as half as many complex numbers */
    bool inverse;          /* of the complex transform */
    bool flip;             /* conjugate: a real transform in the other direction */
    int64_t n;             /* complex numbers of the transform */
    int64_t size;          /* of the library's transforms, one by one */
    int64_t input, output; /* real numbers of a line */
    int references; /* atomic: a thread that was left behind (detach.h) may release the last one */
    bool shared; /* the library's butterflies for 2 to 5 keep no state, the general one does */
    way how;
    vector_plan<float> narrow;
    vector_plan<double> wide;
    std::vector<kissfft<double>> transform, back; /* one by one; back: Bluestein's */
    std::vector<number> chirp, filter;            /* Bluestein; empty: the library computes the transform itself */
    int64_t scratch;                              /* real numbers of either precision, in all */
};

/*
 * Bluestein: jk = (j^2 + k^2 - (j - k)^2) / 2 turns the sum over j of x_j w^(jk) into a convolution with the chirp
 * w^(-j^2/2), which transforms of a power of two compute. j^2 is taken modulo 2n, so that the angle stays small and exact.
 */
static void plan_chirp(gt_fft_plan *plan)
{
    std::vector<number> padded((size_t)plan->size);
    plan->chirp.resize((size_t)plan->n);
    plan->filter.resize((size_t)plan->size);
    int64_t square = 0; /* k^2 mod 2n */
    for (int64_t k = 0; k < plan->n; k++) {
        double angle = (plan->inverse ? pi : -pi) * (double)square / (double)plan->n;
        number w(std::cos(angle), std::sin(angle));
        plan->chirp[(size_t)k] = w;
        padded[(size_t)k] = std::conj(w);
        padded[(size_t)((plan->size - k) % plan->size)] = std::conj(w);
        square = (square + 2 * k + 1) % (2 * plan->n);
    }
    plan->transform[0].transform(padded.data(), plan->filter.data());
    for (number &x : plan->filter)
        x /= (double)plan->size;
}

static void plan_one_by_one(gt_fft_plan *plan, bool direct)
{
    plan->size = direct ? plan->n : power_of_two(2 * plan->n - 1);
    plan->transform.emplace_back((size_t)plan->size, direct && plan->inverse);
    if (!direct) {
        plan->back.emplace_back((size_t)plan->size, true);
        plan_chirp(plan);
    }
    if (plan->packed)
        plan->wide.plan_turns(plan->use.n);
    plan->scratch = 4 * plan->use.n + 8 + (direct ? 0 : 4 * plan->size);
}

template <typename real> static void plan_vectors(gt_fft_plan *plan, vector_plan<real> *to)
{
    const int count = lanes<real>::count;
    bool split = plan->how == gt_fft_plan::SPLIT;
    to->plan(split ? plan->n / count : plan->n, plan->inverse);
    if (split)
        to->plan_joins(plan->n, plan->inverse);
    if (plan->packed)
        to->plan_turns(plan->use.n);
    /* Two areas of vectors; split: the line itself, packed, besides. */
    plan->scratch = split ? 4 * plan->n + 2 * plan->use.n + 8 : 2 * count * (2 * plan->n + 2);
}

extern "C" gt_fft_plan *gt__fft_plan_new(const gt_fft_use *use)
{
    gt_fft_plan *plan = nullptr;
    try {
        plan = new gt_fft_plan();
        plan->use = *use;
        plan->references = 1;
        plan->packed = use->kind != GT_FFT_COMPLEX && use->n % 2 == 0;
        plan->n = plan->packed ? use->n / 2 : use->n;
        plan->inverse = use->kind == GT_FFT_COMPLEX ? use->inverse : use->kind == GT_FFT_TO_REAL;
        plan->flip = use->kind == GT_FFT_REAL ? use->inverse : use->kind == GT_FFT_TO_REAL && !use->inverse;
        int64_t half = 2 * (use->n / 2 + 1);
        plan->input = use->kind == GT_FFT_COMPLEX ? 2 * use->n : use->kind == GT_FFT_REAL ? use->n : half;
        plan->output = use->kind == GT_FFT_COMPLEX ? 2 * use->n : use->kind == GT_FFT_REAL ? half : use->n;
        int64_t factor = largest_prime_factor(plan->n);
        bool direct = factor <= largest_factor, vectors = direct && (plan->packed || use->kind == GT_FFT_COMPLEX);
        int count = use->wide ? (int)lanes<double>::count : (int)lanes<float>::count;
        plan->shared = !direct || factor <= 5;
        plan->how = vectors && use->several && plan->n > 1 && plan->n <= largest_of_lanes
                        ? gt_fft_plan::SIDE_BY_SIDE
                    : vectors && plan->n % count == 0 && plan->n >= smallest_to_split ? gt_fft_plan::SPLIT
                                                                                      : gt_fft_plan::ONE_BY_ONE;
        if (plan->how == gt_fft_plan::ONE_BY_ONE)
            plan_one_by_one(plan, direct);
        else if (use->wide)
            plan_vectors(plan, &plan->wide);
        else
            plan_vectors(plan, &plan->narrow);
        return plan;
    } catch (const std::bad_alloc &) {
        delete plan;
        return nullptr;
    }
}

extern "C" gt_fft_plan *gt__fft_plan_retain(gt_fft_plan *plan)
{
    __atomic_add_fetch(&plan->references, 1, __ATOMIC_RELAXED);
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
    if (plan && __atomic_sub_fetch(&plan->references, 1, __ATOMIC_ACQ_REL) == 0)
        delete plan;
}

extern "C" int gt__fft_plan_lines(const gt_fft_plan *plan)
{
    return plan->how != gt_fft_plan::SIDE_BY_SIDE ? 1
           : plan->use.wide                       ? (int)lanes<double>::count
                                                  : (int)lanes<float>::count;
}

extern "C" size_t gt__fft_plan_work(const gt_fft_plan *plan)
{
    return (size_t)plan->scratch * sizeof(double);
}

/* ---- running them ------------------------------------------------------------------------------------------- */

template <typename real>
static void run_side_by_side(const gt_fft_plan *plan, const vector_plan<real> &vectors, const void *const *in,
                             void *const *out, int count, real scale, void *work)
{
    typedef typename lanes<real>::vector vector;
    const int all = lanes<real>::count;
    const real *from[all];
    real *to[all], sign = plan->flip ? -1 : 1;
    vector *a = (vector *)work, *b = a + 2 * plan->n + 2;
    for (int l = 0; l < all; l++) { /* unused lanes repeat the last line */
        from[l] = (const real *)in[l < count ? l : count - 1];
        to[l] = (real *)out[l < count ? l : count - 1];
    }
    gather(from, plan->input, a);
    if (plan->use.kind == GT_FFT_TO_REAL) {
        pack_spectrum(plan->use.n, vectors.turns.data(), sign, a, b);
        vectors.transform(b, a);
        scatter(a, plan->output, scale, to, count);
    } else if (plan->use.kind == GT_FFT_REAL) {
        vectors.transform(a, b);
        unpack_spectrum(plan->use.n, vectors.turns.data(), sign, b, a);
        scatter(a, plan->output, scale, to, count);
    } else {
        vectors.transform(a, b);
        scatter(b, plan->output, scale, to, count);
    }
}

/* Groups of lanes: their numbers come from whole cache lines. */
const int column_groups = 4;

template <typename real>
static void run_columns(const gt_fft_plan *plan, const vector_plan<real> &vectors, const real *in, real *out,
                        int64_t stride, int count, real scale, void *work)
{
    typedef typename lanes<real>::vector vector;
    const int all = lanes<real>::count;
    int groups = (count + all - 1) / all;
    int64_t area = 2 * plan->n;
    vector *a = (vector *)work, *b = a + groups * area;
    for (int64_t k = 0; k < plan->n; k++)
        for (int g = 0; g < groups; g++) {
            const real *from = in + 2 * (k * stride + g * all);
            real rest[2 * all] = {};
            if (count - g * all < all) { /* the last group may be less than a vector */
                std::memcpy(rest, from, (size_t)(count - g * all) * 2 * sizeof(real));
                from = rest;
            }
            split_pairs(load(from), load(from + all), &a[g * area + 2 * k], &a[g * area + 2 * k + 1]);
        }
    for (int g = 0; g < groups; g++)
        vectors.transform(a + g * area, b + g * area);
    for (int64_t k = 0; k < plan->n; k++)
        for (int g = 0; g < groups; g++) {
            real *to = out + 2 * (k * stride + g * all), rest[2 * all];
            bool whole = count - g * all >= all;
            vector first, second;
            join_pairs(b[g * area + 2 * k] * scale, b[g * area + 2 * k + 1] * scale, &first, &second);
            store(whole ? to : rest, first);
            store((whole ? to : rest) + all, second);
            if (!whole)
                std::memcpy(to, rest, (size_t)(count - g * all) * 2 * sizeof(real));
        }
}

extern "C" int gt__fft_plan_columns(const gt_fft_plan *plan)
{
    bool possible = plan->how == gt_fft_plan::SIDE_BY_SIDE && plan->use.kind == GT_FFT_COMPLEX;
    return possible ? column_groups * gt__fft_plan_lines(plan) : 0;
}

extern "C" size_t gt__fft_plan_columns_work(const gt_fft_plan *plan)
{
    return (size_t)(2 * column_groups * 2 * plan->n) * sizeof(lanes<double>::vector);
}

extern "C" void gt__fft_plan_run_columns(const gt_fft_plan *plan, const void *in, void *out, int64_t stride,
                                         int count, double scale, void *work)
{
    if (plan->use.wide)
        run_columns(plan, plan->wide, (const double *)in, (double *)out, stride, count, scale, work);
    else
        run_columns(plan, plan->narrow, (const float *)in, (float *)out, stride, count, (float)scale, work);
}

template <typename real>
static void run_split(const gt_fft_plan *plan, const vector_plan<real> &vectors, const real *in, real *out,
                      real scale, void *work)
{
    typedef typename lanes<real>::vector vector;
    vector *areas = (vector *)work;
    real *line = (real *)work + 4 * plan->n, sign = plan->flip ? -1 : 1;
    if (plan->use.kind == GT_FFT_TO_REAL) {
        pack_spectrum(plan->use.n, vectors.turns.data(), sign, in, line);
        transform_split(vectors, plan->n, plan->inverse, line, out, scale, areas);
    } else if (plan->use.kind == GT_FFT_REAL) {
        transform_split(vectors, plan->n, plan->inverse, in, line, scale, areas);
        unpack_spectrum(plan->use.n, vectors.turns.data(), sign, line, out);
    } else {
        transform_split(vectors, plan->n, plan->inverse, in, out, scale, areas);
    }
}

/* out = the transform of in; the two do not overlap. */
static void transform_one(const gt_fft_plan *plan, const double *in, double *out, double *work)
{
    const number *x = reinterpret_cast<const number *>(in);
    number *y = reinterpret_cast<number *>(out);
    if (plan->n == 1) {
        y[0] = x[0];
        return;
    }
    if (plan->chirp.empty()) {
        plan->transform[0].transform(x, y);
        return;
    }
    number *a = reinterpret_cast<number *>(work), *b = a + plan->size;
    for (int64_t k = 0; k < plan->size; k++)
        a[k] = k < plan->n ? x[k] * plan->chirp[(size_t)k] : number();
    plan->transform[0].transform(a, b);
    for (int64_t k = 0; k < plan->size; k++)
        b[k] *= plan->filter[(size_t)k];
    plan->back[0].transform(b, a);
    for (int64_t k = 0; k < plan->n; k++)
        y[k] = a[k] * plan->chirp[(size_t)k];
}

/* A real line of odd length, or half a spectrum of one, as complex numbers. */
static void widen(const gt_fft_plan *plan, const double *line, double *to)
{
    for (int64_t k = 0; k < plan->n; k++) {
        bool mirrored = 2 * k >= plan->input;
        int64_t at = mirrored ? plan->n - k : k;
        bool real = plan->use.kind == GT_FFT_REAL;
        double sign = (plan->flip && !real) != mirrored ? -1 : 1;
        to[2 * k] = real ? line[k] : line[2 * at];
        to[2 * k + 1] = real || k == 0 ? 0 : sign * line[2 * at + 1];
    }
}

/* In double, whatever the line is in. */
template <typename real>
static void run_one(const gt_fft_plan *plan, const real *in, real *out, double scale, double *work)
{
    double *a = work, *b = a + 2 * plan->use.n + 4, *rest = b + 2 * plan->use.n + 4, sign = plan->flip ? -1 : 1;
    bool to_real = plan->use.kind == GT_FFT_TO_REAL, complex = plan->use.kind == GT_FFT_COMPLEX;
    for (int64_t k = 0; k < plan->input; k++)
        a[k] = in[k];
    if (!plan->packed && !complex)
        widen(plan, a, b);
    else if (plan->packed && to_real)
        pack_spectrum(plan->use.n, plan->wide.turns.data(), sign, a, b);
    bool moved = (!plan->packed && !complex) || to_real;
    double *from = moved ? b : a, *to = moved ? a : b;
    transform_one(plan, from, to, rest);
    if (plan->packed && !to_real) {
        unpack_spectrum(plan->use.n, plan->wide.turns.data(), sign, to, from);
        to = from;
    }
    int64_t step = to_real && !plan->packed ? 2 : 1; /* only the real parts */
    for (int64_t k = 0; k < plan->output; k++) {
        bool turned = plan->flip && !plan->packed && plan->use.kind == GT_FFT_REAL && k % 2;
        out[k] = (real)((turned ? -scale : scale) * to[step * k]);
    }
}

template <typename real>
static void run(const gt_fft_plan *plan, const vector_plan<real> &vectors, const void *const *in, void *const *out,
                int count, double scale, void *work)
{
    if (plan->how == gt_fft_plan::SIDE_BY_SIDE)
        run_side_by_side(plan, vectors, in, out, count, (real)scale, work);
    else if (plan->how == gt_fft_plan::SPLIT)
        run_split(plan, vectors, (const real *)in[0], (real *)out[0], (real)scale, work);
    else
        run_one(plan, (const real *)in[0], (real *)out[0], scale, (double *)work);
}

extern "C" void gt__fft_plan_run(const gt_fft_plan *plan, const void *const *in, void *const *out, int count,
                                 double scale, void *work)
{
    if (plan->use.wide)
        run(plan, plan->wide, in, out, count, scale, work);
    else
        run(plan, plan->narrow, in, out, count, scale, work);
}

R"cuda(
/*
 * prelude.cuh: what every kernel starts with: integer types, dtypes as types, conversions between stored elements and
 * numbers, and the functions that the op table's expressions call. core/convert.h and core/half.h define the same for the
 * host; results are equal bit by bit.
 */
#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define HUGE_VAL __longlong_as_double(0x7ff0000000000000LL)
#define GT_NAN __longlong_as_double(0x7ff8000000000000LL)
/* Threads in a block and, if that is to be ensured, blocks on a processor. */
#define GT_ENTRY(...) extern "C" __global__ void __launch_bounds__(__VA_ARGS__)
#define GT_PARAM(type) const __grid_constant__ type
#define GT_DYNAMIC_SHARED(type, name)                                                                             \
    extern __shared__ __align__(16) unsigned char gt_dynamic_shared[];                                            \
    type *name = (type *)gt_dynamic_shared
#endif
#define GT_F __device__ __forceinline__

/* ---- errors: gt_cuda_errors of generate.h ------------------------------------------------------------------- */

struct gt_errors {
    uint32_t code, unused;
    int64_t value[3];
};

/* The first thread that reports wins. */
GT_F void gt_report(gt_errors *errors, uint32_t code, int64_t a, int64_t b, int64_t c)
{
    if (atomicCAS(&errors->code, 0u, code) == 0u) {
        errors->value[0] = a;
        errors->value[1] = b;
        errors->value[2] = c;
    }
}

/* ---- bits --------------------------------------------------------------------------------------------------- */

#ifdef __CUDACC_RTC__
GT_F float gt_half_to_float(uint16_t h)
{
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}
GT_F uint16_t gt_float_to_half(float f)
{
    uint16_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}
GT_F uint16_t gt_float_to_bfloat16(float f)
{
    uint16_t h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}
/* Two units in the last place. */
GT_F float gt_exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
GT_F uint32_t gt_bits(float f) { return __float_as_uint(f); }
GT_F float gt_from_bits(uint32_t u) { return __uint_as_float(u); }
GT_F uint64_t gt_bits(double f) { return (uint64_t)__double_as_longlong(f); }
GT_F double gt_from_bits(uint64_t u) { return __longlong_as_double((long long)u); }
GT_F uint32_t gt_high_product(uint32_t a, uint32_t b) { return __umulhi(a, b); }
GT_F uint64_t gt_high_product(uint64_t a, uint64_t b) { return __umul64hi(a, b); }
/* Never fused. */
GT_F float gt_exact_add(float a, float b) { return __fadd_rn(a, b); }
GT_F float gt_exact_product(float a, float b) { return __fmul_rn(a, b); }
GT_F double gt_exact_add(double a, double b) { return __dadd_rn(a, b); }
GT_F double gt_exact_product(double a, double b) { return __dmul_rn(a, b); }
/* Numbers out of range become the nearest in range, as the instructions do; NaN becomes 0, which not all of them do. */
GT_F int32_t gt_to_int32(float x) { return x != x ? 0 : __float2int_rz(x); }
GT_F int32_t gt_to_int32(double x) { return x != x ? 0 : __double2int_rz(x); }
GT_F int64_t gt_to_int64(float x) { return x != x ? 0 : (int64_t)__float2ll_rz(x); }
GT_F int64_t gt_to_int64(double x) { return x != x ? 0 : (int64_t)__double2ll_rz(x); }
#else
GT_F float gt_exp2_fast(float x) { return exp2f(x); }
#endif
#define GT_LOG2_E 1.44269504088896340736f
GT_F float gt_bfloat16_to_float(uint16_t h) { return gt_from_bits((uint32_t)h << 16); }

/* ---- numbers in registers ----------------------------------------------------------------------------------- */

template <class R> struct gt_complex {
    R re, im;
};
typedef gt_complex<float> gt_c64;
typedef gt_complex<double> gt_c128;

template <class R> GT_F gt_complex<R> operator+(gt_complex<R> a, gt_complex<R> b)
{
    return {a.re + b.re, a.im + b.im};
}

template <class T> struct gt_traits;
template <> struct gt_traits<int32_t> {
    typedef uint32_t U;
    enum { integer = 1 };
    GT_F static int32_t least() { return (int32_t)0x80000000; }
    GT_F static int32_t most() { return 0x7fffffff; }
};
template <> struct gt_traits<int64_t> {
    typedef uint64_t U;
    enum { integer = 1 };
    GT_F static int64_t least() { return (int64_t)0x8000000000000000LL; }
    GT_F static int64_t most() { return 0x7fffffffffffffffLL; }
};
template <> struct gt_traits<float> {
    typedef uint32_t U;
    enum { integer = 0 };
    GT_F static float least() { return -gt_from_bits(0x7f800000u); }
    GT_F static float most() { return gt_from_bits(0x7f800000u); }
};
template <> struct gt_traits<double> {
    typedef uint64_t U;
    enum { integer = 0 };
    GT_F static double least() { return -HUGE_VAL; }
    GT_F static double most() { return HUGE_VAL; }
};

/* ---- dtypes ------------------------------------------------------------------------------------------------- */

/* raw: as it lies in memory. T: what it is loaded as. load and store convert between them; store takes every T. */
#define GT_INTEGER_DTYPE(name, type, T_)                                                                          \
    struct name {                                                                                                 \
        typedef type raw;                                                                                         \
        typedef T_ T;                                                                                             \
        GT_F static T load(raw x) { return (T)x; }                                                                \
        GT_F static raw store(int32_t x) { return (raw)x; }                                                       \
        GT_F static raw store(int64_t x) { return (raw)x; }                                                       \
        GT_F static raw store(float x) { return (raw)gt_to_int32(x); }                                            \
        GT_F static raw store(double x) { return (raw)gt_to_int32(x); }                                           \
        template <class R> GT_F static raw store(gt_complex<R> x) { return store(x.re); }                         \
    };
GT_INTEGER_DTYPE(gt_u8, uint8_t, int32_t)
GT_INTEGER_DTYPE(gt_i8, int8_t, int32_t)
GT_INTEGER_DTYPE(gt_i16, int16_t, int32_t)
GT_INTEGER_DTYPE(gt_i32, int32_t, int32_t)
struct gt_i64 {
    typedef int64_t raw;
    typedef int64_t T;
    GT_F static T load(raw x) { return x; }
    GT_F static raw store(int32_t x) { return x; }
    GT_F static raw store(int64_t x) { return x; }
    GT_F static raw store(float x) { return gt_to_int64(x); }
    GT_F static raw store(double x) { return gt_to_int64(x); }
    template <class R> GT_F static raw store(gt_complex<R> x) { return store(x.re); }
};
struct gt_bool {
    typedef uint8_t raw;
    typedef int32_t T;
    GT_F static T load(raw x) { return (T)x; }
    template <class N> GT_F static raw store(N x) { return x != 0; }
    template <class R> GT_F static raw store(gt_complex<R> x) { return x.re != 0 || x.im != 0; }
};
#define GT_FLOAT_DTYPE(name, type, T_, to, from)                                                                  \
    struct name {                                                                                                 \
        typedef type raw;                                                                                         \
        typedef T_ T;                                                                                             \
        GT_F static T load(raw x) { return from(x); }                                                             \
        template <class N> GT_F static raw store(N x) { return to((T)x); }                                        \
        template <class R> GT_F static raw store(gt_complex<R> x) { return store(x.re); }                         \
    };
GT_FLOAT_DTYPE(gt_f16, uint16_t, float, gt_float_to_half, gt_half_to_float)
GT_FLOAT_DTYPE(gt_bf16, uint16_t, float, gt_float_to_bfloat16, gt_bfloat16_to_float)
GT_FLOAT_DTYPE(gt_f32, float, float, , )
GT_FLOAT_DTYPE(gt_f64, double, double, , )
#define GT_COMPLEX_DTYPE(name, R_)                                                                                \
    struct name {                                                                                                 \
        typedef gt_complex<R_> raw;                                                                               \
        typedef gt_complex<R_> T;                                                                                 \
        GT_F static T load(raw x) { return x; }                                                                   \
        template <class N> GT_F static raw store(N x) { return {(R_)x, 0}; }                                      \
        template <class R> GT_F static raw store(gt_complex<R> x) { return {(R_)x.re, (R_)x.im}; }                \
    };
GT_COMPLEX_DTYPE(gt_complex64, float)
GT_COMPLEX_DTYPE(gt_complex128, double)

/* Elements that are only moved: 1, 2, 4, 8 or 16 bytes. */
struct gt_sixteen {
    uint64_t low, high;
};
#define GT_MOVED_DTYPE(name, type)                                                                                \
    struct name {                                                                                                 \
        typedef type raw;                                                                                         \
        typedef type T;                                                                                           \
        GT_F static T load(raw x) { return x; }                                                                   \
        GT_F static raw store(T x) { return x; }                                                                  \
    };
GT_MOVED_DTYPE(gt_b1, uint8_t)
GT_MOVED_DTYPE(gt_b2, uint16_t)
GT_MOVED_DTYPE(gt_b4, uint32_t)
GT_MOVED_DTYPE(gt_b8, uint64_t)
GT_MOVED_DTYPE(gt_b16, gt_sixteen)

/* Number to number; floats saturate on their way to integers. */
template <class T> struct gt_convert {
    template <class N> GT_F static T from(N x) { return (T)x; }
};
template <> struct gt_convert<int32_t> {
    GT_F static int32_t from(int32_t x) { return x; }
    GT_F static int32_t from(int64_t x) { return (int32_t)x; }
    GT_F static int32_t from(float x) { return gt_to_int32(x); }
    GT_F static int32_t from(double x) { return gt_to_int32(x); }
};
template <> struct gt_convert<int64_t> {
    GT_F static int64_t from(int32_t x) { return x; }
    GT_F static int64_t from(int64_t x) { return x; }
    GT_F static int64_t from(float x) { return gt_to_int64(x); }
    GT_F static int64_t from(double x) { return gt_to_int64(x); }
};

template <class R> struct gt_convert<gt_complex<R>> {
    template <class N> GT_F static gt_complex<R> from(N x) { return {(R)x, 0}; }
    template <class Q> GT_F static gt_complex<R> from(gt_complex<Q> x) { return {(R)x.re, (R)x.im}; }
};

/* V elements, read and written at once; vectors of more than 16 bytes in pieces of 16. */
template <class R, int V> struct alignas(sizeof(R) * V < 16 ? sizeof(R) * V : 16) gt_vector {
    R at[V];
};

/* ---- the functions of the op table's expressions ------------------------------------------------------------ */

#define GT_MATH1(name, f, d)                                                                                      \
    GT_F float gt_##name(float x) { return f(x); }                                                                \
    GT_F double gt_##name(double x) { return d(x); }
GT_MATH1(sqrt, sqrtf, sqrt)
GT_MATH1(exp, expf, exp)
GT_MATH1(exp2, exp2f, exp2)
GT_MATH1(expm1, expm1f, expm1)
GT_MATH1(log, logf, log)
GT_MATH1(log2, log2f, log2)
GT_MATH1(log10, log10f, log10)
GT_MATH1(log1p, log1pf, log1p)
GT_MATH1(sin, sinf, sin)
GT_MATH1(cos, cosf, cos)
GT_MATH1(tan, tanf, tan)
GT_MATH1(asin, asinf, asin)
GT_MATH1(acos, acosf, acos)
GT_MATH1(atan, atanf, atan)
GT_MATH1(sinh, sinhf, sinh)
GT_MATH1(cosh, coshf, cosh)
GT_MATH1(tanh, tanhf, tanh)
GT_MATH1(asinh, asinhf, asinh)
GT_MATH1(acosh, acoshf, acosh)
GT_MATH1(atanh, atanhf, atanh)
GT_MATH1(erf, erff, erf)
GT_MATH1(erfc, erfcf, erfc)
GT_MATH1(floor, floorf, floor)
GT_MATH1(ceil, ceilf, ceil)
GT_MATH1(round, rintf, rint)
GT_MATH1(trunc, truncf, trunc)
GT_MATH1(abs, fabsf, fabs)
#define GT_WHOLE1(name)                                                                                           \
    GT_F int32_t gt_##name(int32_t x) { return x; }                                                               \
    GT_F int64_t gt_##name(int64_t x) { return x; }
GT_WHOLE1(floor)
GT_WHOLE1(ceil)
GT_WHOLE1(round)
GT_WHOLE1(trunc)
GT_F int32_t gt_abs(int32_t x) { return x < 0 ? (int32_t)(0u - (uint32_t)x) : x; }
GT_F int64_t gt_abs(int64_t x) { return x < 0 ? (int64_t)(0ull - (uint64_t)x) : x; }

GT_F float gt_atan2(float x, float y) { return atan2f(x, y); }
GT_F double gt_atan2(double x, double y) { return atan2(x, y); }
GT_F float gt_hypot(float x, float y) { return hypotf(x, y); }
GT_F double gt_hypot(double x, double y) { return hypot(x, y); }
GT_F float gt_copysign(float x, float y) { return copysignf(x, y); }
GT_F double gt_copysign(double x, double y) { return copysign(x, y); }
GT_F float gt_pow(float x, float y) { return powf(x, y); }
GT_F double gt_pow(double x, double y) { return pow(x, y); }
GT_F float gt_fmod(float x, float y) { return fmodf(x, y); }
GT_F double gt_fmod(double x, double y) { return fmod(x, y); }

template <class T> GT_F bool gt_isnan(T x) { return x != x; }
GT_F bool gt_isinf(float x) { return fabsf(x) == gt_traits<float>::most(); }
GT_F bool gt_isinf(double x) { return fabs(x) == HUGE_VAL; }
GT_F bool gt_isinf(int32_t) { return false; }
GT_F bool gt_isinf(int64_t) { return false; }
template <class T> GT_F T gt_maximum(T x, T y) { return (x > y) | (x != x) ? x : y; }
template <class T> GT_F T gt_minimum(T x, T y) { return (x < y) | (x != x) ? x : y; }
template <class T> GT_F T gt_clamp(T x, T least, T most)
{
    T raised = x < least ? least : x;
    return raised > most ? most : raised;
}

/* Rounded down, from the exact remainder: x / y may itself round up to a whole number. */
GT_F double gt_floor_divide(double x, double y)
{
    if (y == 0)
        return x / y;
    double r = fmod(x, y), quotient = (x - r) / y;
    if (r != 0 && (y < 0) != (r < 0))
        quotient -= 1;
    if (quotient == 0)
        return copysign(0.0, x / y);
    double whole = floor(quotient);
    return quotient - whole > 0.5 ? whole + 1 : whole;
}
/* In double the quotient of two floats is exact enough to be rounded down at once, except where it is huge. */
GT_F float gt_floor_divide(float x, float y)
{
    double quotient = (double)x / (double)y;
    if (!(fabs(quotient) < 268435456.0) | gt_isinf(y))
        return (float)gt_floor_divide((double)x, (double)y);
    return (float)floor(quotient);
}
GT_F float gt_trunc_divide(float x, float y) { return (float)trunc((double)x / (double)y); }
GT_F double gt_trunc_divide(double x, double y) { return trunc(x / y); }

/* tanh(log(1 + e^x)) is n / (n + 2) for n = e^x (e^x + 2), and 1 long before that overflows. */
template <class T> GT_F T gt_mish(T x)
{
    T e = gt_exp(x > 20 ? (T)20 : x), n = e * (e + 2);
    return x * (n / (n + 2));
}
template <class T> GT_F T gt_mish_slope(T x)
{
    T a = x > 20 ? (T)20 : x, e = gt_exp(a), n = e * (e + 2), inverse = 1 / (n + 2);
    return inverse * (n + 4 * a * e * (e + 1) * inverse);
}
/* The slope of x sigmoid(u): w is x times the slope of u. With e^-u finite, 1 - s needs no difference. */
template <class T> GT_F T gt_gate_slope(T u, T w)
{
    const T limit = sizeof(T) == 4 ? (T)80 : (T)700;
    T e = gt_exp(u < -limit ? limit : -u), s = 1 / (1 + e);
    return s * (1 + w * (e * s));
}

/* Integers wrap around. A division by zero gives 0; divisors are checked before. */
#define GT_INTEGER_MATH(T, U)                                                                                     \
    GT_F T gt_pow(T x, T y)                                                                                       \
    {                                                                                                             \
        U power = 1, base = (U)x;                                                                                 \
        if (y < 0)                                                                                                \
            return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;                                                   \
        for (U left = (U)y; left; left >>= 1) {                                                                   \
            power = left & 1 ? power * base : power;                                                              \
            base *= base;                                                                                         \
        }                                                                                                         \
        return (T)power;                                                                                          \
    }                                                                                                             \
    GT_F T gt_fmod(T x, T y) { return y == 0 || y == -1 ? 0 : x % y; }                                            \
    GT_F T gt_trunc_divide(T x, T y) { return y == 0 ? 0 : y == -1 ? (T)(0 - (U)x) : x / y; }                     \
    GT_F T gt_floor_divide(T x, T y)                                                                              \
    {                                                                                                             \
        if (y == 0 || y == -1)                                                                                    \
            return gt_trunc_divide(x, y);                                                                         \
        T quotient = x / y;                                                                                       \
        return x - quotient * y != 0 && (x < 0) != (y < 0) ? quotient - 1 : quotient;                             \
    }                                                                                                             \
    GT_F T gt_shift_left(T x, T y) { return (y < 0) | (y >= 8 * (T)sizeof(T)) ? 0 : (T)((U)x << y); }             \
    GT_F T gt_shift_right(T x, T y)                                                                               \
    {                                                                                                             \
        return x >> ((y < 0) | (y >= 8 * (T)sizeof(T)) ? 8 * (T)sizeof(T) - 1 : y);                               \
    }                                                                                                             \
    GT_F U gt_divisor(U a, U b)                                                                                   \
    {                                                                                                             \
        while (b) {                                                                                               \
            U rest = a % b;                                                                                       \
            a = b;                                                                                                \
            b = rest;                                                                                             \
        }                                                                                                         \
        return a;                                                                                                 \
    }                                                                                                             \
    GT_F T gt_gcd(T x, T y) { return (T)gt_divisor((U)gt_abs(x), (U)gt_abs(y)); }                                 \
    GT_F T gt_lcm(T x, T y)                                                                                       \
    {                                                                                                             \
        U divisor = gt_divisor((U)gt_abs(x), (U)gt_abs(y));                                                       \
        return divisor == 0 ? 0 : (T)((U)gt_abs(x) / divisor * (U)gt_abs(y));                                     \
    }
GT_INTEGER_MATH(int32_t, uint32_t)
GT_INTEGER_MATH(int64_t, uint64_t)

/* Python's sign rule: the remainder has the divisor's sign. */
template <class T> GT_F T gt_remainder(T x, T y)
{
    T r = gt_fmod(x, y);
    return (r != 0) & ((r < 0) != (y < 0)) ? r + y : r;
}

template <class T> GT_F T gt_logit(T x, T eps)
{
    T most = 1 - eps;
    T c = (eps >= 0) & (x < eps) ? eps : x;
    c = (eps >= 0) & (x > most) ? most : c;
    return gt_log(c / (1 - c));
}
GT_F float gt_lgamma(float x) { return lgammaf(x); }
GT_F double gt_lgamma(double x) { return lgamma(x); }
template <class T> GT_F T gt_ndtr(T x) { return (T)0.5 * gt_erfc(x * (T)-0.70710678118654752440); }
template <class T> GT_F T gt_mantissa(T x)
{
    int exponent;
    return (T)frexp((double)x, &exponent);
}
template <class T> GT_F T gt_exponent(T x)
{
    int exponent = 0;
    frexp((double)x, &exponent);
    return (T)(x - x == 0 ? exponent : 0);
}

/* ---- complex numbers: the functions of core/complex.def's expressions --------------------------------------- */

template <class R> GT_F gt_complex<R> operator-(gt_complex<R> a) { return {-a.re, -a.im}; }
template <class R> GT_F gt_complex<R> operator-(gt_complex<R> a, gt_complex<R> b) { return {a.re - b.re, a.im - b.im}; }
template <class R> GT_F gt_complex<R> gt_multiply(gt_complex<R> a, gt_complex<R> b)
{
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class R> GT_F gt_complex<R> gt_scale(gt_complex<R> a, R factor) { return {a.re * factor, a.im * factor}; }
/* Smith's method: divides by the larger part first, so nothing overflows that need not. */
template <class R> GT_F gt_complex<R> gt_divide(gt_complex<R> x, gt_complex<R> y)
{
    if (gt_abs(y.re) >= gt_abs(y.im)) {
        if (y.re == 0 && y.im == 0)
            return {x.re / gt_abs(y.re), x.im / gt_abs(y.im)};
        R ratio = y.im / y.re, factor = 1 / (y.re + y.im * ratio);
        return {(x.re + x.im * ratio) * factor, (x.im - x.re * ratio) * factor};
    }
    R ratio = y.re / y.im, factor = 1 / (y.re * ratio + y.im);
    return {(x.re * ratio + x.im) * factor, (x.im * ratio - x.re) * factor};
}
template <class R> GT_F bool gt_truth(gt_complex<R> x) { return x.re != 0 || x.im != 0; }
template <class R> GT_F R gt_abs(gt_complex<R> x) { return gt_hypot(x.re, x.im); }
template <class R> GT_F R gt_angle(gt_complex<R> x) { return gt_atan2(x.im, x.re); }
template <class R> GT_F gt_complex<R> gt_direction(gt_complex<R> x)
{
    R size = gt_abs(x);
    return size == 0 ? gt_complex<R>{0, 0} : gt_complex<R>{x.re / size, x.im / size};
}
template <class R> GT_F gt_complex<R> gt_exp(gt_complex<R> x)
{
    R e = gt_exp(x.re);
    if (x.im == 0 || e == 0)
        return {e, e == 0 ? (R)0 : x.im};
    return {e * gt_cos(x.im), e * gt_sin(x.im)};
}
template <class R> GT_F gt_complex<R> gt_log(gt_complex<R> x) { return {gt_log(gt_abs(x)), gt_angle(x)}; }
template <class R> GT_F gt_complex<R> gt_sqrt(gt_complex<R> x)
{
    if (x.re == 0 && x.im == 0)
        return {0, x.im};
    R root = gt_sqrt((gt_abs(x.re) + gt_abs(x)) / 2), other = gt_abs(x.im) / (2 * root);
    return x.re >= 0 ? gt_complex<R>{root, gt_copysign(other, x.im)} : gt_complex<R>{other, gt_copysign(root, x.im)};
}
template <class R> GT_F gt_complex<R> gt_sinh(gt_complex<R> x)
{
    return {gt_sinh(x.re) * gt_cos(x.im), gt_cosh(x.re) * gt_sin(x.im)};
}
template <class R> GT_F gt_complex<R> gt_cosh(gt_complex<R> x)
{
    return {gt_cosh(x.re) * gt_cos(x.im), gt_sinh(x.re) * gt_sin(x.im)};
}
template <class R> GT_F gt_complex<R> gt_sin(gt_complex<R> x)
{
    return {gt_sin(x.re) * gt_cosh(x.im), gt_cos(x.re) * gt_sinh(x.im)};
}
template <class R> GT_F gt_complex<R> gt_cos(gt_complex<R> x)
{
    return {gt_cos(x.re) * gt_cosh(x.im), -gt_sin(x.re) * gt_sinh(x.im)};
}
/* exp(a + ib) - 1 = (expm1(a) cos b - 2 sin^2(b/2)) + i exp(a) sin b */
template <class R> GT_F gt_complex<R> gt_expm1(gt_complex<R> x)
{
    R half = gt_sin(x.im / 2);
    return {gt_expm1(x.re) * gt_cos(x.im) - 2 * half * half, gt_exp(x.re) * gt_sin(x.im)};
}
/* |1 + x|^2 = 1 + (a (2 + a) + b^2): near 0 the logarithm of that keeps the digits */
template <class R> GT_F gt_complex<R> gt_log1p(gt_complex<R> x)
{
    if (gt_abs(x.re) > (R)0.5 || gt_abs(x.im) > (R)0.5)
        return gt_log(gt_complex<R>{1 + x.re, x.im});
    return {gt_log1p(x.re * (2 + x.re) + x.im * x.im) / 2, gt_atan2(x.im, 1 + x.re)};
}
template <class R> GT_F gt_complex<R> gt_sinc(gt_complex<R> x)
{
    gt_complex<R> angle = gt_scale(x, (R)3.14159265358979323846);
    return gt_truth(x) ? gt_divide(gt_sin(angle), angle) : gt_complex<R>{1, 0};
}
template <class R> GT_F gt_complex<R> gt_lerp(gt_complex<R> x, gt_complex<R> y, gt_complex<R> z)
{
    bool near = z.re * z.re + z.im * z.im < (R)0.25;
    return near ? x + gt_multiply(z, y - x) : y - gt_multiply(y - x, gt_complex<R>{1, 0} - z);
}

/* In these, R is the type of the parts. */
#define MAKE(re, im) (gt_complex<R>{(R)(re), (R)(im)})
#define RE(x) ((x).re)
#define IM(x) ((x).im)
#define MUL(x, y) gt_multiply(x, y)
#define DIV(x, y) gt_divide(x, y)
#define SCALE(x, factor) gt_scale(x, (R)(factor))
#define ANGLE(x) gt_angle(x)
#define TRUTH(x) gt_truth(x)
#define SGN(x) gt_direction(x)
#define SINC(x) gt_sinc(x)
#define LERP(x, y, z) gt_lerp(x, y, z)

#define SELECT(condition, a, b) ((condition) ? (a) : (b))
#define SQRT(x) gt_sqrt(x)
#define EXP(x) gt_exp(x)
#define EXP2(x) gt_exp2(x)
#define EXPM1(x) gt_expm1(x)
#define LOG(x) gt_log(x)
#define LOG2(x) gt_log2(x)
#define LOG10(x) gt_log10(x)
#define LOG1P(x) gt_log1p(x)
#define SIN(x) gt_sin(x)
#define COS(x) gt_cos(x)
#define TAN(x) gt_tan(x)
#define ASIN(x) gt_asin(x)
#define ACOS(x) gt_acos(x)
#define ATAN(x) gt_atan(x)
#define ATAN2(x, y) gt_atan2(x, y)
#define SINH(x) gt_sinh(x)
#define COSH(x) gt_cosh(x)
#define TANH(x) gt_tanh(x)
#define ASINH(x) gt_asinh(x)
#define ACOSH(x) gt_acosh(x)
#define ATANH(x) gt_atanh(x)
#define HYPOT(x, y) gt_hypot(x, y)
#define ERF(x) gt_erf(x)
#define ERFC(x) gt_erfc(x)
#define MISH(x) gt_mish(x)
#define MISH_SLOPE(x) gt_mish_slope(x)
#define GATE_SLOPE(u, w) gt_gate_slope(u, w)
#define COPYSIGN(x, y) gt_copysign(x, y)
#define POW(x, y) gt_pow(x, y)
#define FLOOR(x) gt_floor(x)
#define CEIL(x) gt_ceil(x)
#define ROUND(x) gt_round(x)
#define TRUNC(x) gt_trunc(x)
#define ABS(x) gt_abs(x)
#define ISNAN(x) gt_isnan(x)
#define ISINF(x) gt_isinf(x)
#define MAXIMUM(x, y) gt_maximum<T>(x, y)
#define MINIMUM(x, y) gt_minimum<T>(x, y)
#define CLAMP(x, p, q) gt_clamp<T>(x, p, q)
#define FMOD(x, y) gt_fmod(x, y)
#define REMAINDER(x, y) gt_remainder(x, y)
#define FLOOR_DIVIDE(x, y) gt_floor_divide(x, y)
#define TRUNC_DIVIDE(x, y) gt_trunc_divide(x, y)
#define SHIFT_LEFT(x, y) gt_shift_left(x, y)
#define SHIFT_RIGHT(x, y) gt_shift_right(x, y)
#define GCD(x, y) gt_gcd(x, y)
#define LCM(x, y) gt_lcm(x, y)
#define LOGIT(x, eps) gt_logit(x, eps)
#define LGAMMA(x) gt_lgamma(x)
#define NDTR(x) gt_ndtr(x)
#define FREXP_MANTISSA(x) gt_mantissa(x)
#define FREXP_EXPONENT(x) gt_exponent(x)

/* ---- threads ------------------------------------------------------------------------------------------------ */

/* Any struct of whole words, from the lane `delta` further. All lanes of the warp take part. */
template <class S> GT_F S gt_shuffle_down(S value, int delta, int width)
{
    union words {
        S value;
        uint32_t word[sizeof(S) / 4];
        GT_F words() {}
    } in, out;
    in.value = value;
#pragma unroll
    for (int k = 0; k < (int)(sizeof(S) / 4); k++)
        out.word[k] = __shfl_down_sync(0xffffffffu, in.word[k], delta, width);
    return out.value;
}
template <class S> GT_F S gt_shuffle_xor(S value, int mask)
{
    union words {
        S value;
        uint32_t word[sizeof(S) / 4];
        GT_F words() {}
    } in, out;
    in.value = value;
#pragma unroll
    for (int k = 0; k < (int)(sizeof(S) / 4); k++)
        out.word[k] = __shfl_xor_sync(0xffffffffu, in.word[k], mask, 32);
    return out.value;
}

/* ---- copies to shared memory that go on while the thread computes: cards from sm_80 on -------------------------- */

#ifdef __CUDACC_RTC__
GT_F uint32_t gt_shared_address(const void *at) { return (uint32_t)__cvta_generic_to_shared(at); }
/* Begin to copy SIZE bytes to shared memory, or to fill them with 0. */
template <int SIZE> GT_F void gt_copy_begin(void *to, const void *from, bool inside)
{
    if constexpr (SIZE == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(gt_shared_address(to)), "l"(from),
                     "r"(inside ? 16 : 0)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(gt_shared_address(to)), "l"(from),
                     "r"(inside ? SIZE : 0), "n"(SIZE)
                     : "memory");
}
GT_F void gt_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/* Until all but the last LATER groups of this thread's copies are there. */
template <int LATER> GT_F void gt_copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory"); }
#else
template <int SIZE> void gt_copy_begin(void *to, const void *from, bool inside) { shim_copy_begin(to, from, SIZE, inside); }
inline void gt_copy_commit() { shim_copy_commit(); }
template <int LATER> void gt_copy_wait() { shim_copy_wait(LATER); }
#endif
)cuda"

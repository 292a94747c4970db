/*
 * kernel_math.h: the functions that kernel expressions in core/ops.def may call: EXP(x), SELECT(c, a, b), ...
 *
 * Each works on float, double and, where that is meaningful, int32_t and int64_t; the type of its first argument selects
 * the version.
 * The float versions are branch-free arithmetic on 32-bit lanes, so that a plain loop around them becomes vector
 * code on every instruction set; their errors stay below 2 or 3 units in the last place (with fused multiply-add), and
 * infinities, NaN, denormals and signed zeros come out as in C's <math.h>. The double versions call <math.h>.
 * Compile users with -fno-math-errno -fno-trapping-math -fwrapv. A GPU engine, whose compiler sees the same
 * expressions as text, defines the same names over its own functions. Read kernels.c of the CPU engine next.
 */
#ifndef GT_ENGINES_CPU_KERNEL_MATH_H
#define GT_ENGINES_CPU_KERNEL_MATH_H

#include <math.h>
#include <stdint.h>

#define GT_MATH static inline __attribute__((always_inline, unused))

/* Fused only in hardware: a call into the C library costs far more than the lost half bit. */
#if defined(__aarch64__) || defined(__FMA__)
#define GT_FUSED 1
#define GT_FMA_F32(a, b, c) __builtin_fmaf(a, b, c)
#define GT_FMA_F64(a, b, c) __builtin_fma(a, b, c)
#else
#define GT_FUSED 0
#define GT_FMA_F32(a, b, c) ((a) * (b) + (c))
#define GT_FMA_F64(a, b, c) ((a) * (b) + (c))
#endif

/* SIN, COS and TAN of a float beyond this (or any, without fused multiply-add) call the C library. */
#define GT_SIN_LIMIT_F32 (GT_FUSED ? 65536.0f : -1.0f)

GT_MATH uint32_t gt__bits_f32(float x)
{
    return (union {
               float f;
               uint32_t u;
           }){.f = x}
        .u;
}

GT_MATH float gt__from_bits_f32(uint32_t u)
{
    return (union {
               uint32_t u;
               float f;
           }){.u = u}
        .f;
}

GT_MATH uint64_t gt__bits_f64(double x)
{
    return (union {
               double f;
               uint64_t u;
           }){.f = x}
        .u;
}

GT_MATH double gt__from_bits_f64(uint64_t u)
{
    return (union {
               uint64_t u;
               double f;
           }){.u = u}
        .f;
}

/* condition ? a : b by bits: compilers generate worse code for two or more successive selects on the same number. */
GT_MATH float gt__select_f32(int condition, float a, float b)
{
    uint32_t mask = -(uint32_t)condition;
    return gt__from_bits_f32((gt__bits_f32(a) & mask) | (gt__bits_f32(b) & ~mask));
}

GT_MATH double gt__select_f64(int condition, double a, double b)
{
    uint64_t mask = -(uint64_t)condition;
    return gt__from_bits_f64((gt__bits_f64(a) & mask) | (gt__bits_f64(b) & ~mask));
}

/* 2^n for -126 <= n <= 127; other n give an arbitrary number, without undefined behaviour. */
GT_MATH float gt__exp2i_f32(int32_t n)
{
    return gt__from_bits_f32((uint32_t)(n + 127) << 23);
}

/*
 * x = n ln2 + r with |r| <= ln2 / 2. Adding 1.5 * 2^23 rounds to an integer; with 254 more, the low nine bits of
 * *m are n + 254, twice the bias of an exponent. The high part of ln2 has 9 bits, so n times it is exact without
 * fused multiply-add too.
 */
GT_MATH float gt__exp_reduce_f32(float x, uint32_t *m)
{
    const float magic = 12583166.0f;
    float t = GT_FMA_F32(x, 1.44269502f, magic);
    *m = gt__bits_f32(t);
    float k = t - magic;
    float r = GT_FMA_F32(k, -0.693359375f, x);
    return GT_FMA_F32(k, 2.12194440e-4f, r);
}

/* e^r - 1 on |r| <= ln2 / 2; pairs of terms rather than one long chain of dependent steps */
GT_MATH float gt__exp_tail_f32(float r)
{
    float s = r * r;
    float low = GT_FMA_F32(r, 0.166665703f, 0.5f);
    float high = GT_FMA_F32(r, 0.00836438034f, 0.041666545f);
    high = GT_FMA_F32(s, 0.00139276846f, high);
    return GT_FMA_F32(GT_FMA_F32(high, s, low), s, r);
}

/*
 * Scaled in two steps, so that results in the denormal range are rounded once. Out of range the arithmetic
 * gives arbitrary numbers: a select at the end is cheaper than clamping at the start.
 */
GT_MATH float gt__exp_f32(float x)
{
    uint32_t m;
    float r = gt__exp_reduce_f32(x, &m);
    float p = gt__exp_tail_f32(r) + 1.0f;
    uint32_t half = m >> 1;
    float y = p * gt__from_bits_f32(half << 23) * gt__from_bits_f32((m - half) << 23);
    y = gt__select_f32(x > 89.0f, HUGE_VALF, y);
    return gt__select_f32(x < -104.0f, 0.0f, y);
}

/* 2^x: x is split exactly into an integer and a fraction. */
GT_MATH float gt__exp2_f32(float x)
{
    const float magic = 12583166.0f;
    float t = x + magic;
    uint32_t m = gt__bits_f32(t), half = m >> 1;
    float p = gt__exp_tail_f32((x - (t - magic)) * 0.693147182f) + 1.0f;
    float y = p * gt__from_bits_f32(half << 23) * gt__from_bits_f32((m - half) << 23);
    y = gt__select_f32(x > 129.0f, HUGE_VALF, y);
    return gt__select_f32(x < -151.0f, 0.0f, y);
}

/* 2^n (e^r - 1) + (2^n - 1), with 2^(n-1) in place of 2^n so that n = 128 does not overflow early. */
GT_MATH float gt__expm1_f32(float x)
{
    uint32_t m;
    float r = gt__exp_reduce_f32(x, &m);
    float scale = gt__from_bits_f32((m - 128) << 23);
    float y = GT_FMA_F32(scale, gt__exp_tail_f32(r), scale - 0.5f) * 2.0f;
    y = gt__select_f32(x > 89.0f, HUGE_VALF, y);
    y = gt__select_f32(x < -30.0f, -1.0f, y);
    return gt__select_f32(__builtin_fabsf(x) < 1e-8f, x, y); /* halving a denormal would lose its last bit */
}

/* log(2^k (1 + f)) for f in [sqrt(1/2) - 1, sqrt(2) - 1] */
GT_MATH float gt__log_tail_f32(float f, float k)
{
    float s = f * f, s2 = s * s;
    float p0 = GT_FMA_F32(f, -0.24999997f, 0.333333313f);
    float p2 = GT_FMA_F32(f, -0.166678026f, 0.200007156f);
    float p4 = GT_FMA_F32(f, -0.124256872f, 0.142490581f);
    float p6 = GT_FMA_F32(f, -0.114797339f, 0.116854198f);
    float low = GT_FMA_F32(p2, s, p0), high = GT_FMA_F32(p6, s, p4);
    float p = GT_FMA_F32(GT_FMA_F32(s2, 0.0697161183f, high), s2, low);
    float y = GT_FMA_F32(k, -2.12194440e-4f, s * f * p);
    y = GT_FMA_F32(s, -0.5f, y);
    return GT_FMA_F32(k, 0.693359375f, f + y);
}

/* The exponent of x with its significand, *f + 1, in [sqrt(1/2), sqrt(2)). */
GT_MATH int32_t gt__log_reduce_f32(float x, float *f)
{
    const uint32_t root_half = 0x3f3504f3u;
    uint32_t shifted = gt__bits_f32(x) - root_half;
    *f = gt__from_bits_f32((shifted & 0x007fffffu) + root_half) - 1.0f;
    return (int32_t)shifted >> 23;
}

/* y for a finite x > least; otherwise the special values of a logarithm with its pole at `least`. */
GT_MATH float gt__log_special_f32(float x, float least, float y)
{
    float below = gt__select_f32(x == least, -HUGE_VALF, NAN);
    float finite = gt__select_f32(x > least, y, below);
    return gt__select_f32(x < HUGE_VALF, finite, x);
}

/* The exponent of x and, in *f, its significand minus 1; denormals are scaled into the normal range first. */
GT_MATH float gt__log_split_f32(float x, float *f)
{
    int tiny = x < 1.17549435e-38f;
    int32_t k = gt__log_reduce_f32(x * gt__select_f32(tiny, 8388608.0f, 1.0f), f);
    return (float)k - gt__select_f32(tiny, 23.0f, 0.0f);
}

GT_MATH float gt__log_f32(float x)
{
    float f;
    float exponent = gt__log_split_f32(x, &f);
    return gt__log_special_f32(x, 0.0f, gt__log_tail_f32(f, exponent));
}

/* The logarithm to another base: the exponent's share, a constant in two parts, is added last. */
GT_MATH float gt__log2_f32(float x)
{
    float f;
    float exponent = gt__log_split_f32(x, &f);
    float y = gt__log_tail_f32(f, 0.0f);
    return gt__log_special_f32(x, 0.0f, GT_FMA_F32(y, 1.44269502f, GT_FMA_F32(y, 1.92596303e-8f, exponent)));
}

GT_MATH float gt__log10_f32(float x)
{
    float f;
    float exponent = gt__log_split_f32(x, &f);
    float y = gt__log_tail_f32(f, 0.0f);
    float low = GT_FMA_F32(exponent, 4.6050390e-6f, y * -1.01030501e-8f);
    return gt__log_special_f32(x, 0.0f, GT_FMA_F32(exponent, 0.301025391f, GT_FMA_F32(y, 0.434294492f, low)));
}

/* The exponent is that of 1 + x, but f is formed from x itself, whose low bits 1 + x has lost. */
GT_MATH float gt__log1p_f32(float x)
{
    float unused;
    int large = x > 1e18f;
    float scaled = x * gt__select_f32(large, 5.42101086e-20f, 1.0f); /* by 2^-64 */
    float one = gt__select_f32(large, 0.0f, 1.0f);
    int32_t k = gt__log_reduce_f32(scaled + one, &unused);
    float shrink = gt__exp2i_f32(-k);
    float f = GT_FMA_F32(scaled, shrink, one * shrink - 1.0f);
    float y = gt__log_tail_f32(f, (float)k + gt__select_f32(large, 64.0f, 0.0f));
    return gt__select_f32(x == 0.0f, x, gt__log_special_f32(x, -1.0f, y));
}

/* Below 1 an odd polynomial; above, 1 less one that approximates erfc around 2.5; beyond 3.925, 1. */
GT_MATH float gt__erf_f32(float x)
{
    float a = __builtin_fabsf(x);
    float s = x * x, s2 = s * s; /* each polynomial is valid only in its own range */
    float p0 = GT_FMA_F32(s, -0.37612626f, 0.128379166f);
    float p2 = GT_FMA_F32(s, -0.0268542115f, 0.112835944f);
    float p4 = GT_FMA_F32(s, -0.00080168643f, 0.00518908724f);
    float p = GT_FMA_F32(GT_FMA_F32(GT_FMA_F32(s2, 7.87587487e-05f, p4), s2, p2), s2, p0);
    float t = a - 2.5f, t2 = t * t, t4 = t2 * t2;
    float q0 = GT_FMA_F32(t, -0.00217810646f, 0.000406958483f);
    float q2 = GT_FMA_F32(t, -0.00835285801f, 0.00544575043f);
    float q4 = GT_FMA_F32(t, -0.00610458525f, 0.00862024166f);
    float q6 = GT_FMA_F32(t, -0.00056856632f, 0.00280831126f);
    float q8 = GT_FMA_F32(t, 0.000277880259f, -0.00027754248f);
    float q10 = GT_FMA_F32(t, -2.08366509e-05f, -6.56558987e-05f);
    float low = GT_FMA_F32(GT_FMA_F32(q6, t2, q4), t4, GT_FMA_F32(q2, t2, q0));
    float high = GT_FMA_F32(t4, 9.72077123e-06f, GT_FMA_F32(q10, t2, q8));
    float complement = GT_FMA_F32(high, t4 * t4, low);
    complement = gt__select_f32(a > 3.925f, 0.0f, complement);
    float large = __builtin_copysignf(1.0f - complement, x);
    return gt__select_f32(a < 1.0f, GT_FMA_F32(x, p, x), large);
}

/* tanh(log(1 + e^x)) is n / (n + 2) for n = e^x (e^x + 2), and 1 long before that overflows. */
#define GT_MATH_GATES(suffix, T, exponential, limit)                                                              \
    GT_MATH T gt__mish_##suffix(T x)                                                                              \
    {                                                                                                             \
        T e = exponential(gt__select_##suffix(x > 20, 20, x)), n = e * (e + 2);                                   \
        return x * (n / (n + 2));                                                                                 \
    }                                                                                                             \
    GT_MATH T gt__mish_slope_##suffix(T x)                                                                        \
    {                                                                                                             \
        T a = gt__select_##suffix(x > 20, 20, x), e = exponential(a), n = e * (e + 2), inverse = 1 / (n + 2);     \
        return inverse * (n + 4 * a * e * (e + 1) * inverse);                                                     \
    }                                                                                                             \
    /* The slope of x sigmoid(u): w is x times the slope of u. With e^-u finite, 1 - s needs no difference. */    \
    GT_MATH T gt__gate_slope_##suffix(T u, T w)                                                                   \
    {                                                                                                             \
        T e = exponential(gt__select_##suffix(u < -limit, limit, -u)), s = 1 / (1 + e);                           \
        return s * (1 + w * (e * s));                                                                             \
    }
GT_MATH_GATES(f32, float, gt__exp_f32, 80)
GT_MATH_GATES(f64, double, exp, 700)
#undef GT_MATH_GATES

#include "engines/cpu/kernel_math_angles.h"

/* log2 of |x|, as a double good to 2^-44; zero and infinity become numbers beyond any float's logarithm. */
GT_MATH double gt__pow_log2(float x)
{
    const uint64_t root_half = 0x3fe6a09e667f3bcdull;
    double a = (double)__builtin_fabsf(x);
    uint64_t shifted = gt__bits_f64(a) - root_half;
    double m = gt__from_bits_f64((shifted & 0x000fffffffffffffull) + root_half);
    double k = (double)((int64_t)shifted >> 52);
    double f = (m - 1.0) / (m + 1.0);
    double s = f * f;
    double p = 0.28310105034388616;
    p = GT_FMA_F64(p, s, 0.31989243436159814);
    p = GT_FMA_F64(p, s, 0.4122095544082238);
    p = GT_FMA_F64(p, s, 0.5770779396096877);
    p = GT_FMA_F64(p, s, 0.9617966941219199);
    p = GT_FMA_F64(p, s, 2.885390081777846);
    double y = gt__select_f64(a == 0.0, -1e300, GT_FMA_F64(p, f, k));
    y = gt__select_f64(a > 3.5e38, 1e300, y);
    return gt__select_f64(a != a, a, y);
}

/* 2^t, rounded once to float: infinity or zero beyond float's range. */
GT_MATH float gt__pow_exp2(double t)
{
    const double magic = 6755399441055744.0; /* 1.5 * 2^52 */
    double limited = gt__select_f64(t > 200.0, 200.0, gt__select_f64(t < -200.0, -200.0, t));
    double shifted = limited + magic;
    double r = limited - (shifted - magic);
    double p = 1.5304726715749116e-05;
    p = GT_FMA_F64(p, r, 0.00015471062302062388);
    p = GT_FMA_F64(p, r, 0.0013333475235376947);
    p = GT_FMA_F64(p, r, 0.00961802140583381);
    p = GT_FMA_F64(p, r, 0.05550410908778885);
    p = GT_FMA_F64(p, r, 0.24022651245369198);
    p = GT_FMA_F64(p, r, 0.6931471805565743);
    p = GT_FMA_F64(p, r, 0.9999999999562088);
    uint64_t exponent = gt__bits_f64(shifted) - 0x4338000000000000ull;
    return (float)(p * gt__from_bits_f64((exponent + 1023) << 52));
}

/* |x|^y in double, then the sign and the special values of C's pow. */
GT_MATH float gt__pow_f32(float x, float y)
{
    float magnitude = gt__pow_exp2((double)y * gt__pow_log2(x));
    float half = y * 0.5f;
    int whole = y == __builtin_floorf(y);
    int odd = whole & (half != __builtin_floorf(half));
    float sign = gt__select_f32(odd, __builtin_copysignf(1.0f, x), 1.0f);
    int undefined = (x < 0.0f) & (x > -HUGE_VALF) & (whole ^ 1);
    int one = ((__builtin_fabsf(x) == 1.0f) & (__builtin_fabsf(y) == HUGE_VALF)) | (x == 1.0f) | (y == 0.0f);
    return gt__select_f32(one, 1.0f, gt__select_f32(undefined, NAN, magnitude * sign));
}

/*
 * The remainder of two floats by way of double: while the quotient is below 2^28 it is on the right side of each whole
 * number, and its product with y is exact. The remainder has the dividend's sign, that of zero too.
 */
GT_MATH float gt__fmod_f32(float x, float y)
{
    double quotient = __builtin_trunc((double)x / (double)y);
    if (__builtin_expect(!(__builtin_fabs(quotient) < 0x1p28) | !(__builtin_fabsf(y) < HUGE_VALF), 0))
        return fmodf(x, y);
    return __builtin_copysignf((float)((double)x - quotient * (double)y), x);
}

/* Python's sign rules: the remainder has the divisor's sign, the quotient is rounded down. */
GT_MATH float gt__remainder_f32(float x, float y)
{
    float r = gt__fmod_f32(x, y);
    return gt__select_f32((r != 0.0f) & ((r < 0.0f) != (y < 0.0f)), r + y, r);
}

GT_MATH double gt__remainder_f64(double x, double y)
{
    double r = fmod(x, y);
    return ((r != 0.0) & ((r < 0.0) != (y < 0.0))) ? r + y : r;
}

GT_MATH double gt__floor_divide_f64(double x, double y)
{
    double r = fmod(x, y);
    double quotient = (x - r) / y;
    if (y == 0.0)
        return x / y;
    if (r != 0.0 && (y < 0.0) != (r < 0.0))
        quotient -= 1.0;
    if (quotient == 0.0)
        return copysign(0.0, x / y);
    double whole = floor(quotient);
    return quotient - whole > 0.5 ? whole + 1.0 : whole;
}

/* In double the quotient of two floats is exact enough to be rounded down at once, except where it is huge. */
GT_MATH float gt__floor_divide_f32(float x, float y)
{
    double quotient = (double)x / (double)y;
    if (__builtin_expect(!(__builtin_fabs(quotient) < 0x1p28) | !(__builtin_fabsf(y) < HUGE_VALF), 0))
        return (float)gt__floor_divide_f64((double)x, (double)y);
    return (float)__builtin_floor(quotient);
}

GT_MATH float gt__trunc_divide_f32(float x, float y)
{
    return (float)__builtin_trunc((double)x / (double)y);
}

GT_MATH double gt__trunc_divide_f64(double x, double y)
{
    return __builtin_trunc(x / y);
}

/*
 * Integers of T's width (U: unsigned), wrapping around. The power is PyTorch's: a negative exponent gives 0 except for
 * the bases 1 and -1. Division by zero gives 0, without a trap: callers of integer kernels check the divisors first.
 * Shifts by a negative number, or by the width or more, leave only the sign.
 */
#define GT_MATH_INTEGER(suffix, T, U)                                                                             \
    GT_MATH T gt__select_##suffix(int condition, T a, T b)                                                        \
    {                                                                                                             \
        return condition ? a : b;                                                                                 \
    }                                                                                                             \
    GT_MATH T gt__same_##suffix(T x)                                                                              \
    {                                                                                                             \
        return x;                                                                                                 \
    }                                                                                                             \
    GT_MATH int gt__never_##suffix(T x)                                                                           \
    {                                                                                                             \
        (void)x;                                                                                                  \
        return 0;                                                                                                 \
    }                                                                                                             \
    GT_MATH T gt__abs_##suffix(T x)                                                                               \
    {                                                                                                             \
        return x < 0 ? (T)(0 - (U)x) : x;                                                                         \
    }                                                                                                             \
    GT_MATH T gt__pow_##suffix(T x, T y)                                                                          \
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
    GT_MATH T gt__fmod_##suffix(T x, T y)                                                                         \
    {                                                                                                             \
        return y == 0 || y == -1 ? 0 : x % y;                                                                     \
    }                                                                                                             \
    GT_MATH T gt__remainder_##suffix(T x, T y)                                                                    \
    {                                                                                                             \
        T r = gt__fmod_##suffix(x, y);                                                                            \
        return r != 0 && (r < 0) != (y < 0) ? r + y : r;                                                          \
    }                                                                                                             \
    GT_MATH T gt__trunc_divide_##suffix(T x, T y)                                                                 \
    {                                                                                                             \
        return y == 0 ? 0 : y == -1 ? (T)(0 - (U)x) : x / y;                                                      \
    }                                                                                                             \
    GT_MATH T gt__floor_divide_##suffix(T x, T y)                                                                 \
    {                                                                                                             \
        if (y == 0 || y == -1)                                                                                    \
            return gt__trunc_divide_##suffix(x, y);                                                               \
        T quotient = x / y;                                                                                       \
        return x - quotient * y != 0 && (x < 0) != (y < 0) ? quotient - 1 : quotient;                             \
    }                                                                                                             \
    GT_MATH T gt__shift_left_##suffix(T x, T y)                                                                   \
    {                                                                                                             \
        const T width = 8 * (T)sizeof(T);                                                                         \
        return ((y < 0) | (y >= width)) ? 0 : (T)((U)x << (y & (width - 1)));                                     \
    }                                                                                                             \
    GT_MATH T gt__shift_right_##suffix(T x, T y)                                                                  \
    {                                                                                                             \
        const T width = 8 * (T)sizeof(T);                                                                         \
        return x >> (((y < 0) | (y >= width)) ? width - 1 : y);                                                   \
    }
GT_MATH_INTEGER(i32, int32_t, uint32_t)
GT_MATH_INTEGER(i64, int64_t, uint64_t)
#undef GT_MATH_INTEGER

/* maximum and minimum of NaN and anything are NaN; a clamp keeps NaN. */
#define GT_MATH_ORDER(suffix, T)                                                                                  \
    GT_MATH T gt__maximum_##suffix(T x, T y)                                                                      \
    {                                                                                                             \
        return gt__select_##suffix((x > y) | (x != x), x, y);                                                     \
    }                                                                                                             \
    GT_MATH T gt__minimum_##suffix(T x, T y)                                                                      \
    {                                                                                                             \
        return gt__select_##suffix((x < y) | (x != x), x, y);                                                     \
    }                                                                                                             \
    GT_MATH T gt__clamp_##suffix(T x, T least, T most)                                                            \
    {                                                                                                             \
        T raised = gt__select_##suffix(x < least, least, x);                                                      \
        return gt__select_##suffix(raised > most, most, raised);                                                  \
    }
GT_MATH_ORDER(f32, float)
GT_MATH_ORDER(f64, double)
GT_MATH_ORDER(i32, int32_t)
GT_MATH_ORDER(i64, int64_t)
#undef GT_MATH_ORDER

GT_MATH int gt__isnan_f32(float x)
{
    return x != x;
}

GT_MATH int gt__isnan_f64(double x)
{
    return x != x;
}

GT_MATH int gt__isinf_f32(float x)
{
    return __builtin_fabsf(x) == HUGE_VALF;
}

GT_MATH int gt__isinf_f64(double x)
{
    return __builtin_fabs(x) == HUGE_VAL;
}

#define GT_FLOAT_FUNCTION(x, float_version, double_version)                                                       \
    _Generic((x), float : float_version, double : double_version)
#define GT_NUMBER_FUNCTION(x, float_version, double_version, integer_version)                                     \
    _Generic((x), float                                                                                           \
             : float_version, double                                                                              \
             : double_version, int32_t                                                                            \
             : integer_version##_i32, int64_t                                                                     \
             : integer_version##_i64)

#define SELECT(condition, a, b) GT_NUMBER_FUNCTION(a, gt__select_f32, gt__select_f64, gt__select)(condition, a, b)
#define EXP(x) GT_FLOAT_FUNCTION(x, gt__exp_f32, exp)(x)
#define EXP2(x) GT_FLOAT_FUNCTION(x, gt__exp2_f32, exp2)(x)
#define EXPM1(x) GT_FLOAT_FUNCTION(x, gt__expm1_f32, expm1)(x)
#define LOG(x) GT_FLOAT_FUNCTION(x, gt__log_f32, log)(x)
#define LOG2(x) GT_FLOAT_FUNCTION(x, gt__log2_f32, log2)(x)
#define LOG10(x) GT_FLOAT_FUNCTION(x, gt__log10_f32, log10)(x)
#define LOG1P(x) GT_FLOAT_FUNCTION(x, gt__log1p_f32, log1p)(x)
#define SIN(x) GT_FLOAT_FUNCTION(x, gt__sin_f32, sin)(x)
#define COS(x) GT_FLOAT_FUNCTION(x, gt__cos_f32, cos)(x)
#define TAN(x) GT_FLOAT_FUNCTION(x, gt__tan_f32, tan)(x)
#define ASIN(x) GT_FLOAT_FUNCTION(x, gt__asin_f32, asin)(x)
#define ACOS(x) GT_FLOAT_FUNCTION(x, gt__acos_f32, acos)(x)
#define ATAN(x) GT_FLOAT_FUNCTION(x, gt__atan_f32, atan)(x)
#define ATAN2(x, y) GT_FLOAT_FUNCTION(x, gt__atan2_f32, atan2)(x, y)
#define SINH(x) GT_FLOAT_FUNCTION(x, gt__sinh_f32, sinh)(x)
#define COSH(x) GT_FLOAT_FUNCTION(x, gt__cosh_f32, cosh)(x)
#define TANH(x) GT_FLOAT_FUNCTION(x, gt__tanh_f32, tanh)(x)
#define ASINH(x) GT_FLOAT_FUNCTION(x, gt__asinh_f32, asinh)(x)
#define ACOSH(x) GT_FLOAT_FUNCTION(x, gt__acosh_f32, acosh)(x)
#define ATANH(x) GT_FLOAT_FUNCTION(x, gt__atanh_f32, atanh)(x)
#define HYPOT(x, y) GT_FLOAT_FUNCTION(x, gt__hypot_f32, hypot)(x, y)
#define ERF(x) GT_FLOAT_FUNCTION(x, gt__erf_f32, erf)(x)
#define MISH(x) GT_FLOAT_FUNCTION(x, gt__mish_f32, gt__mish_f64)(x)
#define MISH_SLOPE(x) GT_FLOAT_FUNCTION(x, gt__mish_slope_f32, gt__mish_slope_f64)(x)
#define GATE_SLOPE(u, w) GT_FLOAT_FUNCTION(u, gt__gate_slope_f32, gt__gate_slope_f64)(u, w)
#define SQRT(x) GT_FLOAT_FUNCTION(x, __builtin_sqrtf, __builtin_sqrt)(x)
#define COPYSIGN(x, y) GT_FLOAT_FUNCTION(x, __builtin_copysignf, __builtin_copysign)(x, y)
#define POW(x, y) GT_NUMBER_FUNCTION(x, gt__pow_f32, pow, gt__pow)(x, y)
#define FLOOR(x) GT_NUMBER_FUNCTION(x, __builtin_floorf, __builtin_floor, gt__same)(x)
#define CEIL(x) GT_NUMBER_FUNCTION(x, __builtin_ceilf, __builtin_ceil, gt__same)(x)
#define ROUND(x) GT_NUMBER_FUNCTION(x, __builtin_rintf, __builtin_rint, gt__same)(x) /* halves to even */
#define TRUNC(x) GT_NUMBER_FUNCTION(x, __builtin_truncf, __builtin_trunc, gt__same)(x)
#define ABS(x) GT_NUMBER_FUNCTION(x, __builtin_fabsf, __builtin_fabs, gt__abs)(x)
#define ISNAN(x) GT_NUMBER_FUNCTION(x, gt__isnan_f32, gt__isnan_f64, gt__never)(x)
#define ISINF(x) GT_NUMBER_FUNCTION(x, gt__isinf_f32, gt__isinf_f64, gt__never)(x)
#define MAXIMUM(x, y) GT_NUMBER_FUNCTION(x, gt__maximum_f32, gt__maximum_f64, gt__maximum)(x, y)
#define MINIMUM(x, y) GT_NUMBER_FUNCTION(x, gt__minimum_f32, gt__minimum_f64, gt__minimum)(x, y)
#define CLAMP(x, p, q) GT_NUMBER_FUNCTION(x, gt__clamp_f32, gt__clamp_f64, gt__clamp)(x, p, q)
#define FMOD(x, y) GT_NUMBER_FUNCTION(x, gt__fmod_f32, fmod, gt__fmod)(x, y)
#define REMAINDER(x, y) GT_NUMBER_FUNCTION(x, gt__remainder_f32, gt__remainder_f64, gt__remainder)(x, y)
#define FLOOR_DIVIDE(x, y)                                                                                        \
    GT_NUMBER_FUNCTION(x, gt__floor_divide_f32, gt__floor_divide_f64, gt__floor_divide)(x, y)
#define TRUNC_DIVIDE(x, y)                                                                                        \
    GT_NUMBER_FUNCTION(x, gt__trunc_divide_f32, gt__trunc_divide_f64, gt__trunc_divide)(x, y)
#define SHIFT_LEFT(x, y) _Generic((x), int32_t : gt__shift_left_i32, int64_t : gt__shift_left_i64)(x, y)
#define SHIFT_RIGHT(x, y) _Generic((x), int32_t : gt__shift_right_i32, int64_t : gt__shift_right_i64)(x, y)

#include "engines/cpu/kernel_math_special.h"

#endif

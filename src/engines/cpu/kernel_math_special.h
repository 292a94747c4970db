/*
 * kernel_math_special.h: the part of kernel_math.h with special functions. Doubles use engines/special.h, and so do floats,
 * rounded, except for those that people use in large tensors: erfc, erfinv and digamma of a float are branch-free, so that
 * their loops become vector code. kernel_math.h includes it last; the same rules hold.
 */
#ifndef GT_ENGINES_CPU_KERNEL_MATH_SPECIAL_H
#define GT_ENGINES_CPU_KERNEL_MATH_SPECIAL_H

#include "engines/special.h"

/* ---- float versions as vector code -------------------------------------------------------------------------- */

/* exp(x^2) erfc(x) for 0 <= x <= 10.2: t = 4 / (4 + x) times a polynomial around t = 0.64 */
GT_MATH float gt__erfcx_near_f32(float x)
{
    float t = 4.0f / (4.0f + x), u = t - 0.64f;
    float p = GT_FMA_F32(u, -0.197335505f, -0.221943883f);
    p = GT_FMA_F32(u, p, 0.291025646f);
    p = GT_FMA_F32(u, p, 1.25869544f);
    p = GT_FMA_F32(u, p, 2.26070379f);
    p = GT_FMA_F32(u, p, 2.82589851f);
    p = GT_FMA_F32(u, p, 2.74874819f);
    p = GT_FMA_F32(u, p, 2.17526431f);
    p = GT_FMA_F32(u, p, 1.42943575f);
    p = GT_FMA_F32(u, p, 0.786018998f);
    p = GT_FMA_F32(u, p, 0.361073842f);
    return t * p;
}

/* exp(-x^2): x^2 is the square of x with 12 bits, which is exact, and a rest. */
GT_MATH float gt__exp_square_f32(float x)
{
    float high = gt__from_bits_f32(gt__bits_f32(x) & 0xfffff000u);
    float rest = -(x - high) * (x + high);
    return gt__exp_f32(-high * high) * (gt__exp_tail_f32(rest) + 1.0f);
}

GT_MATH float gt__erfc_f32(float x)
{
    float a = __builtin_fabsf(x);
    float limited = gt__select_f32(a > 10.2f, 10.2f, a);
    float y = gt__exp_square_f32(limited) * gt__erfcx_near_f32(limited);
    y = gt__select_f32(x < 0.0f, 2.0f - y, y);
    return gt__select_f32(x != x, x, y);
}

/* erfinv(x) / x is smooth in w = -log(1 - x^2); beyond w = 5, in sqrt(w). */
GT_MATH float gt__erfinv_f32(float x)
{
    float w = -gt__log_f32((1.0f - x) * (1.0f + x));
    float u = w - 2.5f;
    float p = GT_FMA_F32(u, -8.73983097e-9f, 2.32858445e-8f);
    p = GT_FMA_F32(u, p, 4.6542873e-7f);
    p = GT_FMA_F32(u, p, -3.46335617e-6f);
    p = GT_FMA_F32(u, p, -4.9597435e-6f);
    p = GT_FMA_F32(u, p, 0.000218346915f);
    p = GT_FMA_F32(u, p, -0.00125274842f);
    p = GT_FMA_F32(u, p, -0.00417738976f);
    p = GT_FMA_F32(u, p, 0.246640289f);
    p = GT_FMA_F32(u, p, 1.50140936f);
    float v = __builtin_sqrtf(w) - 3.16303399f;
    float q = GT_FMA_F32(v, 0.000111571657f, -0.000141990313f);
    q = GT_FMA_F32(v, q, -0.000342055392f);
    q = GT_FMA_F32(v, q, 0.00123543014f);
    q = GT_FMA_F32(v, q, -0.00224607173f);
    q = GT_FMA_F32(v, q, 0.00332270216f);
    q = GT_FMA_F32(v, q, -0.00475817792f);
    q = GT_FMA_F32(v, q, 0.00647664182f);
    q = GT_FMA_F32(v, q, 1.00423258f);
    q = GT_FMA_F32(v, q, 2.99650545f);
    float y = x * gt__select_f32(w < 5.0f, p, q);
    float a = __builtin_fabsf(x);
    y = gt__select_f32(a == 1.0f, x * HUGE_VALF, y);
    return gt__select_f32(a <= 1.0f, y, NAN);
}

/*
 * log z - 1/(2z) - 1/(12 z^2) + ..., after six steps to the right where z < 6; left of 0, reflected. The six quotients 1 / z
 * have one denominator, z (z + 1) ... (z + 5), in s = z (z + 5).
 */
GT_MATH float gt__digamma_f32(float x)
{
    int left = x < 0.0f;
    float fraction = x - __builtin_rintf(x);
    float reflection = gt__select_f32(left, -3.14159274f / gt__tan_f32(3.14159274f * fraction), 0.0f);
    float z = gt__select_f32(left, 1.0f - x, x);
    int near = z < 6.0f;
    float w = gt__select_f32(near, z, 1.0f);
    float s = w * (w + 5.0f), a = s + 4.0f, b = s + 6.0f;
    float shift = GT_FMA_F32(w, 2.0f, 5.0f) * (1.0f / s + 1.0f / a + 1.0f / b);
    float far = gt__select_f32(near, z + 6.0f, z);
    float inverse = 1.0f / far, t = inverse * inverse;
    float series = GT_FMA_F32(t, GT_FMA_F32(t, -0.00396825397f, 0.00833333377f), -0.0833333358f);
    float y = gt__log_f32(far) + GT_FMA_F32(t, series, -0.5f * inverse);
    y = y - gt__select_f32(near, shift, 0.0f) + reflection;
    y = gt__select_f32(left & (fraction == 0.0f), NAN, y);
    return gt__select_f32(x == 0.0f, __builtin_copysignf(HUGE_VALF, -x), y);
}

/* ---- the rest ------------------------------------------------------------------------------------------------ */

/* lgammaf would write a global variable. */
GT_MATH float gt__lgamma_f32(float x)
{
    int sign;
    return lgammaf_r(x, &sign);
}

GT_MATH double gt__ndtr_f64(double x)
{
    return 0.5 * erfc(-x * M_SQRT1_2);
}

GT_MATH float gt__ndtr_f32(float x)
{
    return 0.5f * gt__erfc_f32(x * -0.707106769f);
}

/* x log(c / (1 - c)) without bounds (eps < 0), or with c between eps and 1 - eps */
#define GT_MATH_SPECIAL(suffix, T, log_of)                                                                        \
    GT_MATH T gt__logit_##suffix(T x, T eps)                                                                      \
    {                                                                                                             \
        T most = 1 - eps;                                                                                         \
        T c = gt__select_##suffix((eps >= 0) & (x < eps), eps, x);                                                \
        c = gt__select_##suffix((eps >= 0) & (x > most), most, c);                                                \
        return log_of(c / (1 - c));                                                                               \
    }                                                                                                             \
    GT_MATH T gt__frexp_mantissa_##suffix(T x)                                                                    \
    {                                                                                                             \
        int exponent;                                                                                             \
        return (T)frexp((double)x, &exponent);                                                                    \
    }                                                                                                             \
    GT_MATH T gt__frexp_exponent_##suffix(T x)                                                                    \
    {                                                                                                             \
        int exponent = 0;                                                                                         \
        frexp((double)x, &exponent);                                                                              \
        return (T)(x - x == 0 ? exponent : 0);                                                                    \
    }
GT_MATH_SPECIAL(f32, float, gt__log_f32)
GT_MATH_SPECIAL(f64, double, log)
#undef GT_MATH_SPECIAL

/* Of the magnitudes; a product that does not fit wraps around. */
#define GT_MATH_GCD(suffix, T, U)                                                                                 \
    GT_MATH U gt__magnitude_##suffix(T x)                                                                         \
    {                                                                                                             \
        return x < 0 ? 0 - (U)x : (U)x;                                                                           \
    }                                                                                                             \
    GT_MATH U gt__divisor_##suffix(U a, U b)                                                                      \
    {                                                                                                             \
        while (b) {                                                                                               \
            U rest = a % b;                                                                                       \
            a = b;                                                                                                \
            b = rest;                                                                                             \
        }                                                                                                         \
        return a;                                                                                                 \
    }                                                                                                             \
    GT_MATH T gt__gcd_##suffix(T x, T y)                                                                          \
    {                                                                                                             \
        return (T)gt__divisor_##suffix(gt__magnitude_##suffix(x), gt__magnitude_##suffix(y));                     \
    }                                                                                                             \
    GT_MATH T gt__lcm_##suffix(T x, T y)                                                                          \
    {                                                                                                             \
        U a = gt__magnitude_##suffix(x), b = gt__magnitude_##suffix(y), divisor = gt__divisor_##suffix(a, b);     \
        return divisor == 0 ? 0 : (T)(a / divisor * b);                                                           \
    }
GT_MATH_GCD(i32, int32_t, uint32_t)
GT_MATH_GCD(i64, int64_t, uint64_t)
#undef GT_MATH_GCD

/* Floats by way of doubles. */
#define GT_ROUNDED1(name)                                                                                         \
    GT_MATH float gt__##name##_f32(float x)                                                                       \
    {                                                                                                             \
        return (float)gt__special_##name((double)x);                                                              \
    }
#define GT_ROUNDED2(name)                                                                                         \
    GT_MATH float gt__##name##_f32(float x, float y)                                                              \
    {                                                                                                             \
        return (float)gt__special_##name((double)x, (double)y);                                                   \
    }
#define GT_ROUNDED3(name)                                                                                         \
    GT_MATH float gt__##name##_f32(float x, float y, float z)                                                     \
    {                                                                                                             \
        return (float)gt__special_##name((double)x, (double)y, (double)z);                                        \
    }
GT_ROUNDED1(erfcx)
GT_ROUNDED1(log_ndtr)
GT_ROUNDED1(ndtri)
GT_ROUNDED1(i0)
GT_ROUNDED1(i0e)
GT_ROUNDED1(i1)
GT_ROUNDED1(i1e)
GT_ROUNDED2(bessel)
GT_ROUNDED2(polygamma)
GT_ROUNDED2(zeta)
GT_ROUNDED2(gammainc)
GT_ROUNDED2(gammaincc)
GT_ROUNDED2(gamma_slope)
GT_ROUNDED3(dirichlet_slope)
GT_ROUNDED3(nextafter)
#undef GT_ROUNDED1
#undef GT_ROUNDED2
#undef GT_ROUNDED3

/* Hermite's polynomials end where PyTorch's do: that degree depends on the dtype. */
GT_MATH float gt__polynomial_f32(float x, float n, float kind)
{
    return (float)gt__special_polynomial((double)x, (double)n, (double)kind, 128);
}

GT_MATH double gt__polynomial_f64(double x, double n, double kind)
{
    return gt__special_polynomial(x, n, kind, 512);
}

#define ERFC(x) GT_FLOAT_FUNCTION(x, gt__erfc_f32, erfc)(x)
#define ERFCX(x) GT_FLOAT_FUNCTION(x, gt__erfcx_f32, gt__special_erfcx)(x)
#define ERFINV(x) GT_FLOAT_FUNCTION(x, gt__erfinv_f32, gt__special_erfinv)(x)
#define NDTR(x) GT_FLOAT_FUNCTION(x, gt__ndtr_f32, gt__ndtr_f64)(x)
#define NDTRI(x) GT_FLOAT_FUNCTION(x, gt__ndtri_f32, gt__special_ndtri)(x)
#define LOG_NDTR(x) GT_FLOAT_FUNCTION(x, gt__log_ndtr_f32, gt__special_log_ndtr)(x)
#define LGAMMA(x) GT_FLOAT_FUNCTION(x, gt__lgamma_f32, gt__special_lgamma)(x)
#define DIGAMMA(x) GT_FLOAT_FUNCTION(x, gt__digamma_f32, gt__special_digamma)(x)
#define POLYGAMMA(x, n) GT_FLOAT_FUNCTION(x, gt__polygamma_f32, gt__special_polygamma)(x, n)
#define ZETA(s, q) GT_FLOAT_FUNCTION(s, gt__zeta_f32, gt__special_zeta)(s, q)
#define GAMMAINC(a, x) GT_FLOAT_FUNCTION(a, gt__gammainc_f32, gt__special_gammainc)(a, x)
#define GAMMAINCC(a, x) GT_FLOAT_FUNCTION(a, gt__gammaincc_f32, gt__special_gammaincc)(a, x)
#define GAMMA_SLOPE(a, x) GT_FLOAT_FUNCTION(a, gt__gamma_slope_f32, gt__special_gamma_slope)(a, x)
#define DIRICHLET_SLOPE(x, a, total)                                                                              \
    GT_FLOAT_FUNCTION(x, gt__dirichlet_slope_f32, gt__special_dirichlet_slope)(x, a, total)
#define I0(x) GT_FLOAT_FUNCTION(x, gt__i0_f32, gt__special_i0)(x)
#define I0E(x) GT_FLOAT_FUNCTION(x, gt__i0e_f32, gt__special_i0e)(x)
#define I1(x) GT_FLOAT_FUNCTION(x, gt__i1_f32, gt__special_i1)(x)
#define I1E(x) GT_FLOAT_FUNCTION(x, gt__i1e_f32, gt__special_i1e)(x)
#define BESSEL(x, kind) GT_FLOAT_FUNCTION(x, gt__bessel_f32, gt__special_bessel)(x, kind)
#define POLYNOMIAL(x, n, kind) GT_FLOAT_FUNCTION(x, gt__polynomial_f32, gt__polynomial_f64)(x, n, kind)
#define LOGIT(x, eps) GT_FLOAT_FUNCTION(x, gt__logit_f32, gt__logit_f64)(x, eps)
#define NEXTAFTER(x, y, bits) GT_FLOAT_FUNCTION(x, gt__nextafter_f32, gt__special_nextafter)(x, y, bits)
#define FREXP_MANTISSA(x) GT_FLOAT_FUNCTION(x, gt__frexp_mantissa_f32, gt__frexp_mantissa_f64)(x)
#define FREXP_EXPONENT(x) GT_FLOAT_FUNCTION(x, gt__frexp_exponent_f32, gt__frexp_exponent_f64)(x)
#define GCD(x, y) _Generic((x), int32_t : gt__gcd_i32, int64_t : gt__gcd_i64)(x, y)
#define LCM(x, y) _Generic((x), int32_t : gt__lcm_i32, int64_t : gt__lcm_i64)(x, y)

#endif

/*
 * special_real.h: the special functions by the names that the op table's expressions use, for doubles. The reference engine
 * pastes the expressions over them, and so do tests. cpu/kernel_math_special.h has the names for every type.
 */
#ifndef GT_ENGINES_SPECIAL_REAL_H
#define GT_ENGINES_SPECIAL_REAL_H

#include <math.h>

#include "engines/special.h"

static inline double gt__real_logit(double x, double eps)
{
    if (eps >= 0)
        x = x < eps ? eps : x > 1 - eps ? 1 - eps : x;
    return log(x / (1 - x));
}

static inline double gt__real_mantissa(double x)
{
    int exponent;
    return frexp(x, &exponent);
}

static inline double gt__real_exponent(double x)
{
    int exponent = 0;
    frexp(x, &exponent);
    return isfinite(x) ? exponent : 0;
}

#define ERFC(x) erfc(x)
#define ERFCX(x) gt__special_erfcx(x)
#define ERFINV(x) gt__special_erfinv(x)
#define NDTR(x) (erfc(-(x)*M_SQRT1_2) / 2)
#define NDTRI(x) gt__special_ndtri(x)
#define LOG_NDTR(x) gt__special_log_ndtr(x)
#define LGAMMA(x) gt__special_lgamma(x)
#define DIGAMMA(x) gt__special_digamma(x)
#define POLYGAMMA(x, n) gt__special_polygamma(x, n)
#define ZETA(s, q) gt__special_zeta(s, q)
#define GAMMAINC(a, x) gt__special_gammainc(a, x)
#define GAMMAINCC(a, x) gt__special_gammaincc(a, x)
#define GAMMA_SLOPE(a, x) gt__special_gamma_slope(a, x)
#define DIRICHLET_SLOPE(x, a, total) gt__special_dirichlet_slope(x, a, total)
#define I0(x) gt__special_i0(x)
#define I0E(x) gt__special_i0e(x)
#define I1(x) gt__special_i1(x)
#define I1E(x) gt__special_i1e(x)
#define BESSEL(x, kind) gt__special_bessel(x, kind)
#define POLYNOMIAL(x, n, kind) gt__special_polynomial(x, n, kind, 512)
#define LOGIT(x, eps) gt__real_logit(x, eps)
#define NEXTAFTER(x, y, bits) gt__special_nextafter(x, y, bits)
#define FREXP_MANTISSA(x) gt__real_mantissa(x)
#define FREXP_EXPONENT(x) gt__real_exponent(x)

#endif

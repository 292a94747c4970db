/*
 * special.h: special functions of doubles, for the expressions of the op table: the gamma and error functions and their
 * relatives, Bessel and Airy functions, orthogonal polynomials.
 *
 * Domains, poles and limits are PyTorch's. Host engines share these: the CPU engine uses them for float64 and, rounded, for
 * float32; kernel_math_special.h has faster ones for some float32 rows. special.c has the gamma and error functions,
 * special_bessel.c the others.
 */
#ifndef GT_ENGINES_SPECIAL_H
#define GT_ENGINES_SPECIAL_H

#include "core/error.h" /* gt.h: the kinds */

/* The sum of c[k] T_k(u), T_k Chebyshev's polynomials, -1 <= u <= 1. Clenshaw's recurrence. */
static inline double gt__chebyshev_sum(const double *c, int count, double u)
{
    double next = 0, after = 0;
    for (int k = count - 1; k > 0; k--) {
        double b = 2 * u * next - after + c[k];
        after = next;
        next = b;
    }
    return u * next - after + c[0];
}
#define GT_CHEBYSHEV(series, u) gt__chebyshev_sum(series, (int)(sizeof(series) / sizeof *(series)), u)

/* ---- special.c ---------------------------------------------------------------------------------------------- */

double gt__special_lgamma(double x);
double gt__special_digamma(double x);
double gt__special_polygamma(double x, double n); /* the n-th derivative of digamma, n >= 0 */
double gt__special_zeta(double s, double q);      /* Hurwitz: the sum of (q + k)^-s over k >= 0 */
double gt__special_gammainc(double a, double x);  /* regularised, lower and upper */
double gt__special_gammaincc(double a, double x);
double gt__special_erfinv(double y);
double gt__special_ndtri(double p);
double gt__special_erfcx(double x); /* exp(x^2) erfc(x) */
double gt__special_log_ndtr(double x);

/* The neighbour of x towards y among the floats with that many bits of fraction: 52, 23, 10 (float16) or 7 (bfloat16). */
double gt__special_nextafter(double x, double y, double bits);

/*
 * How a sample moves with its distribution's parameter while its quantile stays: -(dF/da) / (dF/dx). Of a gamma
 * distribution with shape a; of a Dirichlet distribution's component x with concentration a of `total`, over 1 - x.
 */
double gt__special_gamma_slope(double a, double x);
double gt__special_dirichlet_slope(double x, double a, double total);

/* ---- special_bessel.c --------------------------------------------------------------------------------------- */

double gt__special_i0(double x);
double gt__special_i0e(double x); /* exp(-|x|) I0(x) */
double gt__special_i1(double x);
double gt__special_i1e(double x);

/* By gt_bessel_kind and gt_polynomial_kind, of gt.h. */
double gt__special_bessel(double x, double kind);

/* Of degree n, rounded towards zero; 0 for a negative one. Hermite's are NaN above degree `limit`. */
double gt__special_polynomial(double x, double n, double kind, int limit);

#endif

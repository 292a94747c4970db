/*
 * complex_template.h: the functions that the expressions of core/complex.def are written in, for one precision.
 *
 * Define before including it:
 *     C        the complex type (float _Complex)
 *     R        the type of its parts (float)
 *     F(name)  the function of <math.h> or <complex.h> for R (name##f)
 *     N(name)  a name for this precision (name##_c64)
 * The macros in capitals stay defined, for whatever N is at the time; include complex_template_end.h when done.
 *
 * Products and quotients are written out: C's own operators go through a function that repairs infinities, which PyTorch
 * does not do and which is several times as slow.
 */
#define MAKE(re, im) __builtin_complex((R)(re), (R)(im))
#define RE(x) F(creal)(x)
#define IM(x) F(cimag)(x)
#define MUL(x, y) N(multiply)(x, y)
#define DIV(x, y) N(divide)(x, y)
#define SCALE(x, factor) MAKE(RE(x) * (R)(factor), IM(x) * (R)(factor))
#define ABS(x) F(hypot)(RE(x), IM(x))
#define ANGLE(x) F(atan2)(IM(x), RE(x))
#define TRUTH(x) (RE(x) != 0 || IM(x) != 0)
#define SGN(x) N(direction)(x)
#define SQRT(x) F(csqrt)(x)
#define EXP(x) F(cexp)(x)
#define LOG(x) F(clog)(x)
#define SIN(x) F(csin)(x)
#define COS(x) F(ccos)(x)
#define TAN(x) F(ctan)(x)
#define ASIN(x) F(casin)(x)
#define ACOS(x) F(cacos)(x)
#define ATAN(x) F(catan)(x)
#define SINH(x) F(csinh)(x)
#define COSH(x) F(ccosh)(x)
#define TANH(x) F(ctanh)(x)
#define ASINH(x) F(casinh)(x)
#define ACOSH(x) F(cacosh)(x)
#define ATANH(x) F(catanh)(x)
#define EXPM1(x) N(exp_minus_one)(x)
#define LOG1P(x) N(log_plus_one)(x)
#define SINC(x) N(sinc)(x)
#define POW(x, y) N(power)(x, y)
#define LERP(x, y, z) N(lerp)(x, y, z)

static inline C N(multiply)(C x, C y)
{
    R a = RE(x), b = IM(x), c = RE(y), d = IM(y);
    return MAKE(a * c - b * d, a * d + b * c);
}

/* Smith's method: divides by the larger part first, so nothing overflows that need not. */
static inline C N(divide)(C x, C y)
{
    R a = RE(x), b = IM(x), c = RE(y), d = IM(y);
    if (F(fabs)(c) >= F(fabs)(d)) {
        if (c == 0 && d == 0)
            return MAKE(a / F(fabs)(c), b / F(fabs)(d));
        R ratio = d / c, factor = 1 / (c + d * ratio);
        return MAKE((a + b * ratio) * factor, (b - a * ratio) * factor);
    }
    R ratio = c / d, factor = 1 / (c * ratio + d);
    return MAKE((a * ratio + b) * factor, (b * ratio - a) * factor);
}

/* x / |x|, and 0 at 0 */
static inline C N(direction)(C x)
{
    R size = ABS(x);
    return size == 0 ? MAKE(0, 0) : MAKE(RE(x) / size, IM(x) / size);
}

/* exp(a + ib) - 1 = (expm1(a) cos b - 2 sin^2(b/2)) + i exp(a) sin b: no digits are lost near 0 */
static inline C N(exp_minus_one)(C x)
{
    R a = RE(x), b = IM(x), half = F(sin)(b / 2);
    return MAKE(F(expm1)(a) * F(cos)(b) - 2 * half * half, F(exp)(a) * F(sin)(b));
}

/* |1 + x|^2 = 1 + (a (2 + a) + b^2): near 0 the logarithm of that keeps the digits */
static inline C N(log_plus_one)(C x)
{
    R a = RE(x), b = IM(x);
    if (F(fabs)(a) > (R)0.5 || F(fabs)(b) > (R)0.5)
        return LOG(MAKE(1 + a, b));
    return MAKE(F(log1p)(a * (2 + a) + b * b) / 2, F(atan2)(b, 1 + a));
}

static inline C N(sinc)(C x)
{
    C angle = SCALE(x, 3.14159265358979323846);
    return TRUTH(x) ? DIV(SIN(angle), angle) : MAKE(1, 0);
}

static inline C N(power)(C x, C y)
{
    if (!TRUTH(y))
        return MAKE(1, 0);
    if (!TRUTH(x) && RE(y) > 0)
        return MAKE(0, 0);
    return F(cpow)(x, y);
}

static inline C N(lerp)(C x, C y, C z)
{
    bool small = RE(z) * RE(z) + IM(z) * IM(z) < (R)0.25;
    return small ? x + MUL(z, y - x) : y - MUL(y - x, MAKE(1, 0) - z);
}

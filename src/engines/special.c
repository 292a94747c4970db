/*
 * special.c: the gamma function's relatives, and the error function's. special.h has the list.
 *
 * Methods: asymptotic series after a shift of the argument (digamma, trigamma, zeta), power series, continued fractions and
 * Temme's uniform expansion (the incomplete gamma function), Chebyshev series (the others). The coefficients were computed
 * with 40 digits.
 */
#include "engines/special.h"

#include <math.h>
#include <stdbool.h>

enum { MOST_TERMS = 20000 };
#define PRECISION 1.1102230246251565e-16 /* 2^-53 */

/* ---- gamma -------------------------------------------------------------------------------------------------- */

/* Not lgamma, which writes a global variable. */
double gt__special_lgamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

/* For x >= 10: log x - 1/(2x) - the sum of B2k / (2k x^2k). */
static double digamma_far(double x)
{
    static const double b[] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12};
    double s = 1 / (x * x), sum = 0;
    for (int k = 6; k >= 0; k--)
        sum = (sum + b[k]) * s;
    return log(x) - 0.5 / x - sum;
}

double gt__special_digamma(double x)
{
    double reflection = 0;
    if (x == 0)
        return copysign(INFINITY, -x);
    if (x < 0) {
        double fraction = x - nearbyint(x);
        if (fraction == 0 || isinf(x))
            return NAN;
        reflection = -M_PI / tan(M_PI * fraction);
        x = 1 - x;
    }
    if (x == 10)
        return reflection + 2.25175258906672110764;
    double shift = 0;
    for (; x < 10; x += 1)
        shift += 1 / x;
    return reflection + (isinf(x) ? x : digamma_far(x)) - shift;
}

static double trigamma(double x)
{
    double sign = 1, result = 0;
    if (x < 0.5) {
        double sine = sin(M_PI * x);
        sign = -1;
        result = -M_PI * M_PI / (sine * sine);
        x = 1 - x;
    }
    for (; x < 10; x += 1)
        result += 1 / (x * x);
    static const double b[] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6};
    double s = 1 / (x * x), sum = 0;
    for (int k = 6; k >= 0; k--)
        sum = (sum + b[k]) * s;
    return sign * (result + (1 + 0.5 / x + sum) / x);
}

double gt__special_polygamma(double x, double n)
{
    if (!(n >= 0))
        return NAN;
    if (n == 0)
        return gt__special_digamma(x);
    if (n == 1)
        return trigamma(x);
    return (fmod(floor(n), 2) != 0 ? 1 : -1) * tgamma(n + 1) * gt__special_zeta(n + 1, x);
}

/* B2k / (2k)! */
static const double euler_maclaurin[] = {
    8.3333333333333333333e-2,  -1.3888888888888888889e-3,  3.3068783068783068783e-5,  -8.2671957671957671958e-7,
    2.0876756987868098979e-8,  -5.2841901386874931848e-10, 1.3382536530684678833e-11, -3.3896802963225828668e-13,
    8.5860620562778445641e-15, -2.174868698558061873e-16,  5.5090028283602295152e-18, -1.3954464685812523341e-19,
};

/* For s > 1, q > 0: a sum of the first terms, then Euler's and Maclaurin's formula for the others. */
static double zeta_right(double s, double q)
{
    double sum = pow(q, -s), term = sum;
    for (int k = 0; k < 9; k++) {
        q += 1;
        term = pow(q, -s);
        sum += term;
        if (fabs(term) < PRECISION * fabs(sum))
            return sum;
    }
    sum += term * q / (s - 1) - 0.5 * term;
    double factor = 1;
    for (int k = 0; k < 12; k++) {
        factor *= s + 2 * k;
        term /= q;
        double part = factor * term * euler_maclaurin[k];
        sum += part;
        if (fabs(part) < PRECISION * fabs(sum))
            break;
        factor *= s + 2 * k + 1;
        term /= q;
    }
    return sum;
}

/*
 * The terms left of 0, which are a difference of two such sums, and those right of it. It does not call gt__special_zeta: a
 * compiler for cards would copy functions that call each other into each other, level by level, which takes minutes.
 */
static double zeta_left(double s, double q)
{
    if (q == floor(q))
        return INFINITY;
    if (isinf(s))
        return INFINITY;
    if (s != floor(s))
        return NAN; /* a power of a negative number */
    double first = -q - floor(-q), sign = fmod(s, 2) == 0 ? 1 : -1;
    return sign * (zeta_right(s, first) - zeta_right(s, 1 - q)) + zeta_right(s, 1 - first);
}

double gt__special_zeta(double s, double q)
{
    if (s == 1)
        return INFINITY;
    if (s < 1)
        return NAN;
    return q <= 0 ? zeta_left(s, q) : zeta_right(s, q);
}

/* ---- the incomplete gamma function -------------------------------------------------------------------------- */

/* t - log(1 + t) */
static double excess(double t)
{
    if (fabs(t) > 0.4)
        return t - log1p(t);
    double power = t * t, sum = 0;
    for (int k = 2; k < 60; k++, power *= -t) {
        double part = power / k;
        sum += part;
        if (fabs(part) < PRECISION * fabs(sum))
            break;
    }
    return sum;
}

/* Stirling's factor: gamma(a) / (sqrt(2 pi / a) a^a e^-a), a >= 10 */
static double stirling_factor(double a)
{
    double s = 1 / (a * a);
    double sum =
        1.0 / 12 - s * (1.0 / 360 - s * (1.0 / 1260 - s * (1.0 / 1680 - s * (1.0 / 1188 - s * 691.0 / 360360))));
    return exp(sum / a);
}

/* x^a e^-x / gamma(a): x times the density */
static double gamma_weight(double a, double x)
{
    if (a >= 10)
        return sqrt(a / (2 * M_PI)) * exp(-a * excess((x - a) / a)) / stirling_factor(a);
    if (x > 600 || a < 1e-300)
        return exp(a * log(x) - x) / tgamma(a);
    return pow(x, a) * exp(-x) / tgamma(a);
}

/*
 * The sum of x^n / (a (a + 1) ... (a + n)): gammainc / gamma_weight. If `slope` is given, the derivative of that sum by a is
 * stored there.
 */
static double lower_series(double a, double x, double *slope)
{
    double term = 1 / a, sum = term, harmonic = 1 / a, derived = term * harmonic;
    for (int n = 1; n < MOST_TERMS; n++) {
        term *= x / (a + n);
        harmonic += 1 / (a + n);
        sum += term;
        derived += term * harmonic;
        if (term < PRECISION * sum && (!slope || term * harmonic < PRECISION * derived))
            break;
    }
    if (slope)
        *slope = -derived;
    return sum;
}

/*
 * The continued fraction 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / ...)): gammaincc / gamma_weight, for
 * x > a. By Lentz's method, with the derivative by a on request.
 */
static double upper_fraction(double a, double x, double *slope)
{
    const double tiny = 1e-300;
    double b = x + 1 - a, c = 1 / tiny, d = 1 / b, h = d;
    double dc = 0, dd = d * d, dh = dd; /* derivatives by a; b' is -1 */
    for (int n = 1; n < MOST_TERMS; n++) {
        double an = n * (a - n), dan = n;
        b += 2;
        double below = an * d + b, over = b + an / c;
        double dbelow = dan * d + an * dd - 1, dover = -1 + dan / c - an * dc / (c * c);
        d = 1 / (below == 0 ? tiny : below);
        dd = -dbelow * d * d;
        c = over == 0 ? tiny : over;
        dc = dover;
        double step = c * d, dstep = dc * d + c * dd;
        dh = dh * step + h * dstep;
        h *= step;
        if (fabs(step - 1) < PRECISION * 2 && (!slope || fabs(dstep) < PRECISION * 4))
            break;
    }
    if (slope)
        *slope = dh;
    return h;
}

/* Temme's expansion: coefficients of eta^n in c_k, the factor of a^-k. */
enum { TEMME_ROWS = 8, TEMME_TERMS = 22 };
static const double temme[TEMME_ROWS][TEMME_TERMS] = {
    {
        -3.3333333333333333333e-1,  8.3333333333333333333e-2,   -1.4814814814814814815e-2,
        1.1574074074074074074e-3,   3.5273368606701940035e-4,   -1.787551440329218107e-4,
        3.9192631785224377817e-5,   -2.1854485106799921615e-6,  -1.8540622107151599607e-6,
        8.296711340953086005e-7,    -1.7665952736826079304e-7,  6.7078535434014985804e-9,
        1.0261809784240308043e-8,   -4.3820360184533531866e-9,  9.1476995822367902342e-10,
        -2.5514193994946249767e-11, -5.8307721325504250675e-11, 2.4361948020667416244e-11,
        -5.0276692801141755891e-12, 1.1004392031956134771e-13,  3.3717632624009853788e-13,
        -1.3923887224181620659e-13,
    },
    {
        -1.8518518518518518519e-3,  -3.4722222222222222222e-3,  2.6455026455026455026e-3,
        -9.9022633744855967078e-4,  2.0576131687242798354e-4,   -4.0187757201646090535e-7,
        -1.8098550334489977837e-5,  7.6491609160811100846e-6,   -1.6120900894563446004e-6,
        4.6471278028074343423e-9,   1.3786334469157209593e-7,   -5.752545603517704964e-8,
        1.1951628599778147324e-8,   -1.7543241719747647624e-11, -1.0091543710600412627e-9,
        4.1627929918425826362e-10,  -8.5639070264929806381e-11, 6.0672151016047586151e-14,
        7.1624989648114853901e-12,  -2.9331866437714371174e-12, 5.9966963656836887233e-13,
        -2.1671786527323314102e-16,
    },
    {
        4.1335978835978835979e-3,  -2.6813271604938271605e-3, 7.7160493827160493827e-4,
        2.0093878600823045267e-6,  -1.0736653226365160522e-4, 5.2923448829120125416e-5,
        -1.2760635188618727713e-5, 3.4235787340961380742e-8,  1.3721957309062933206e-6,
        -6.2989921383800550229e-7, 1.4280614206064241792e-7,  -2.0477098421990866015e-10,
        -1.4092529910867521053e-8, 6.2289740849220220336e-9,  -1.3670488396617113499e-9,
        9.4283561590146781955e-13, 1.287225240008931806e-10,  -5.5645956134363321147e-11,
        1.1975935546366981004e-11, -4.168978225183863504e-15, -1.094064042788459441e-12,
        4.6622399463901357463e-13,
    },
    {
        6.4943415637860082305e-4,   2.2947209362139917695e-4,  -4.6918949439525571213e-4,
        2.6772063206283885296e-4,   -7.5618016718839764107e-5, -2.3965051138672966519e-7,
        1.1082654115347302361e-5,   -5.6749528269915965675e-6, 1.4230900732435883915e-6,
        -2.7861080291528142241e-11, -1.695840409193027729e-7,  8.0994649053880823634e-8,
        -1.9111168485973654061e-8,  2.3928620439808117969e-12, 2.0620131815488798437e-9,
        -9.4604966618551321738e-10, 2.1541049775774907838e-10, -1.388823336813903046e-14,
        -2.1894761681963939406e-11, 9.7909989511716851257e-12, -2.1782191880180962115e-12,
        6.2088195734079014258e-17,
    },
    {
        -8.618882909167116986e-4,   7.8403922172006662747e-4,   -2.9907248030319017973e-4,
        -1.4638452578843418178e-6,  6.6414982154651221867e-5,   -3.9683650471794346644e-5,
        1.1375726970678419098e-5,   2.5074972262375328017e-10,  -1.6954149536558306015e-6,
        8.9075075322053096888e-7,   -2.2929348340008048706e-7,  2.956794137544049047e-11,
        2.886582974270878363e-8,    -1.4189739437803219389e-8,  3.4463580499464897066e-9,
        -2.3024517174528067132e-13, -3.9409233028046405275e-10, 1.8602338968504501913e-10,
        -4.3563230050566180438e-11, 1.2786001016296231266e-15,  4.679275026657919462e-12,
        -2.1492464706134828541e-12,
    },
    {
        -3.3679855336635815031e-4,  -6.9728137583658577743e-5,  2.7727532449593920787e-4,
        -1.99325705161888477e-4,    6.7977804779372078388e-5,   1.4190629206439670148e-7,
        -1.3594048189768693278e-5,  8.0184702563342015397e-6,   -2.2914811765080951704e-6,
        -3.2524735512984539517e-10, 3.4652846491085264956e-7,   -1.8447187191171343277e-7,
        4.8240967037894180756e-8,   -1.7989466721743515303e-14, -6.3061945000135234352e-9,
        3.1624176287745679377e-9,   -7.84092425369742929e-10,   5.1926791652540407238e-15,
        9.3589442423067835846e-11,  -4.513426216163278231e-11,  1.0799129993116827041e-11,
        -3.6618867126852520109e-17,
    },
    {
        5.3130793646399222317e-4,  -5.9216643735369388286e-4,  2.7087820967180448277e-4,
        7.9023532326603278721e-7,  -8.1539693675619687509e-5,  5.61168275310624965e-5,
        -1.8329116582843375567e-5, -3.0796134506033047826e-9,  3.4651553688036090867e-6,
        -2.0291327396058603727e-6, 5.7887928631490037089e-7,   2.3386306738266569893e-13,
        -8.8286007463304835251e-8, 4.7435958880408127803e-8,   -1.2545415020710382446e-8,
        8.6496488580102924713e-14, 1.6846058979264062708e-9,   -8.5754928235775947286e-10,
        2.1598224929232125188e-10, -7.6132305204761538683e-16, -2.6639822008536143714e-11,
        1.3065700536611057295e-11,
    },
    {
        3.4436760689237767125e-4,   5.1717909082605921934e-5,   -3.3493161081142236312e-4,
        2.8126951547632370227e-4,   -1.0976582244684731024e-4,  -1.2741009095484485379e-7,
        2.7744451511563644157e-5,   -1.8263488805711332661e-5,  5.7876949497350523989e-6,
        4.9387589339362703998e-10,  -1.0595367014026042734e-6,  6.1667143761104074786e-7,
        -1.7562973359060461938e-7,  -1.2974473287015438707e-12, 2.6954236062889659837e-8,
        -1.4578352908731270977e-8,  3.8876459593861749981e-9,   -3.8810022510194121255e-17,
        -5.3279941738772867209e-10, 2.7437977643314845126e-10,  -6.9957960920705679094e-11,
        2.589986387486848098e-17,
    },
};

typedef struct uniform {
    double lambda, eta;  /* x / a, and +-sqrt(2 (lambda - 1 - log lambda)) */
    double sum;          /* of c_k(eta) a^-k */
    double by_eta, by_a; /* its derivatives */
} uniform;

static bool uniform_start(double a, double x, double least, uniform *u)
{
    u->lambda = x / a;
    double t = (x - a) / a;
    if (!(a >= least) || !(t > -0.9 && t < 2.5))
        return false;
    u->eta = copysign(sqrt(2 * excess(t)), t);
    return fabs(u->eta) < 1;
}

static void uniform_sum(double a, uniform *u)
{
    double sum = 0, by_eta = 0, by_inverse = 0, inverse = 1 / a;
    for (int k = TEMME_ROWS - 1; k >= 0; k--) {
        double c = 0, slope = 0;
        for (int n = TEMME_TERMS - 1; n >= 0; n--) {
            slope = slope * u->eta + c;
            c = c * u->eta + temme[k][n];
        }
        by_inverse = by_inverse * inverse + sum;
        sum = sum * inverse + c;
        by_eta = by_eta * inverse + slope;
    }
    u->sum = sum;
    u->by_eta = by_eta;
    u->by_a = -by_inverse * inverse * inverse;
}

/* Of the lower (sign -1) or upper (1) function. */
static double uniform_value(double a, uniform *u, double sign)
{
    uniform_sum(a, u);
    double rest = exp(-0.5 * a * u->eta * u->eta) / sqrt(2 * M_PI * a) * u->sum;
    return 0.5 * erfc(sign * u->eta * sqrt(a / 2)) + sign * rest;
}

/* Where both are equally good, the smaller of the two functions is computed and the other is 1 minus it. */
static double incomplete_gamma(double a, double x, bool upper)
{
    uniform u;
    if (x < 0 || a < 0 || (isinf(a) && isinf(x)))
        return NAN;
    if (a == 0)
        return x > 0 ? !upper : NAN;
    if (x == 0 || isinf(a))
        return upper;
    if (isinf(x))
        return !upper;
    if (x != x || a != a)
        return NAN;
    if (uniform_start(a, x, 50, &u))
        return uniform_value(a, &u, upper ? 1 : -1);
    if (x <= 1 ? x < a || a > 0.5 : x < a + 1) {
        double lower = gamma_weight(a, x) * lower_series(a, x, 0);
        return upper ? 1 - lower : lower;
    }
    if (x <= 1) {
        /* Both are small or a is: 1 - x^a / gamma(a + 1) (1 + a sum of (-x)^n / ((a + n) n!)), without a difference */
        double term = 1, sum = 0;
        for (int n = 1; n < 60 && fabs(term) > PRECISION; n++) {
            term *= -x / n;
            sum += term / (a + n);
        }
        double log_first = a * log(x) - gt__special_lgamma(a + 1);
        double above = -expm1(log_first) - exp(log_first) * a * sum;
        return upper ? above : 1 - above;
    }
    double above = gamma_weight(a, x) * upper_fraction(a, x, 0);
    return upper ? above : 1 - above;
}

double gt__special_gammainc(double a, double x)
{
    return incomplete_gamma(a, x, false);
}

double gt__special_gammaincc(double a, double x)
{
    return incomplete_gamma(a, x, true);
}

/* ---- slopes of samples -------------------------------------------------------------------------------------- */

/* The derivative of the upper function by a, over the density; both have the factor exp(-a eta^2 / 2). */
static double uniform_slope(double a, double x, uniform *u)
{
    double eta = u->eta, ratio = fabs(eta) < 1e-8 ? 1 : (u->lambda - 1) / eta; /* -a eta' */
    uniform_sum(a, u);
    double first = ratio - eta / 2;
    double rest = -ratio / a * (u->by_eta - a * eta * u->sum) - (eta * eta / 2 + 0.5 / a) * u->sum + u->by_a;
    return x / a * stirling_factor(a) * (first + rest);
}

double gt__special_gamma_slope(double a, double x)
{
    uniform u;
    double slope;
    if (!(x >= 0) || !(a > 0) || isinf(a) || isinf(x))
        return NAN;
    if (x == 0)
        return 0;
    if (uniform_start(a, x, 20, &u))
        return uniform_slope(a, x, &u);
    double rate = log(x) - gt__special_digamma(a);
    if (x > a + 1 && x > 1.2) {
        double upper = upper_fraction(a, x, &slope);
        return x * (rate * upper + slope);
    }
    double lower = lower_series(a, x, &slope);
    return -x * (rate * lower + slope);
}

/*
 * With I the regularised incomplete beta function: I_x(a, b) = x^a (1-x)^b / (a B(a, b)) S, S the sum of x^n (a+b)_n /
 * (a+1)_n. The derivative of I by a (or by b), times a B / (x^a (1-x)^b).
 */
static double beta_slope(double x, double a, double b, bool by_a)
{
    double term = 1, sum = 1, weight = 0, derived = 0;
    for (int n = 0; n < MOST_TERMS; n++) {
        term *= (a + b + n) / (a + 1 + n) * x;
        weight += 1 / (a + b + n) - (by_a ? 1 / (a + 1 + n) : 0);
        sum += term;
        derived += term * weight;
        if (term < PRECISION * sum && fabs(term * weight) <= PRECISION * fabs(derived))
            break;
    }
    double both = gt__special_digamma(a + b);
    double rate =
        by_a ? log(x) - 1 / a - gt__special_digamma(a) + both : log1p(-x) - gt__special_digamma(b) + both;
    return sum * rate + derived;
}

double gt__special_dirichlet_slope(double x, double a, double total)
{
    double b = total - a;
    if (!(x >= 0 && x <= 1) || !(a > 0) || !(b > 0))
        return NAN;
    if (x == 0 || x == 1)
        return 0;
    if (x <= (a + 1) / (total + 2))
        return -x / a * beta_slope(x, a, b, true);
    return x / b * beta_slope(1 - x, b, a, false);
}

/* ---- the normal distribution -------------------------------------------------------------------------------- */

/* The quantile of 1/2 + q over q, by q^2 in [0, 0.425^2]. */
static const double quantile_central[] = {
    2.873473539227901629,      4.2495236874574608087e-1,  6.9863176334793576323e-2,  1.4427118125591741567e-2,
    3.3201004870131951147e-3,  8.1380657612034742498e-4,  2.07868407537473789e-4,    5.4657253667737963058e-5,
    1.4683873473200249842e-5,  4.0107389782585187897e-6,  1.1099824248795094533e-6,  3.1048977381831367752e-7,
    8.7623994242518104567e-8,  2.4913574468428181983e-8,  7.1287271406675888345e-9,  2.0510368569795625847e-9,
    5.9294613304866371489e-10, 1.7214207115839077103e-10, 5.0162713974905009605e-11, 1.4666377850066189218e-11,
    4.3009540621173008403e-12, 1.2646797027235999368e-12, 3.7278749232698612099e-13, 1.1013181717350947055e-13,
    3.2602627094865210498e-14, 9.6695970167717469672e-15, 2.8728720300938122914e-15, 8.549085397951056201e-16,
    2.5478156257687059482e-16, 7.6035446852687453189e-17, 2.2720786063283474339e-17, 6.7975609493070539252e-18,
};

/* The quantile of 1 - p, by sqrt(-log p) in [1.6, 5] and in [5, 27.5]. */
static const double quantile_tail[] = {
    4.0841833357997577515,      2.6077978868878657751,     -4.1394143742295314624e-2,  8.9487802130837048748e-3,
    -2.0041920608440797132e-3,  4.5993754992500008546e-4,  -1.0756875957829014413e-4,  2.556077111280422902e-5,
    -6.1587675293353842093e-6,  1.5023772772006271166e-6,  -3.7055388240057447544e-7,  9.2295169782277771711e-8,
    -2.3188200101606841711e-8,  5.8703159265223553324e-9,  -1.4960787008534088597e-9,  3.8351944938942753004e-10,
    -9.8821303150932622449e-11, 2.5578767064215093348e-11, -6.6473774084859534281e-12, 1.7336965374853799505e-12,
    -4.536145654219543972e-13,  1.19029607341738661e-13,   -3.1315514488616041405e-14, 8.2584601171167950566e-15,
    -2.1826554518141017244e-15, 5.7801674998077024012e-16, -1.53354490496968131e-16,   4.0756121472500888391e-17,
    -1.0848645362204086047e-17,
};
static const double quantile_far_tail[] = {
    2.2765350301460162245e+1,   1.6040023398592149041e+1,  -4.361215019391088457e-2,   1.5235644681509584567e-2,
    -5.4464101368649701402e-3,  1.9762336791844310559e-3,  -7.2468757845005244406e-4,  2.6785386219306122355e-4,
    -9.9614741523864361295e-5,  3.7230819454431488367e-5,  -1.3971879105451312377e-5,  5.2613477055656554827e-6,
    -1.987070107293449528e-6,   7.5237768004117810278e-7,  -2.8551804528663180325e-7,  1.085679751537028948e-7,
    -4.1357749841189394054e-8,  1.5780901568641193041e-8,  -6.0307598643513878659e-9,  2.307986615088125236e-9,
    -8.8446227489717375114e-10, 3.3937531566550275766e-10, -1.3038008829403297348e-10, 5.0147755994338968021e-11,
    -1.9310039214679008285e-11, 7.4437329631940507167e-12, -2.8725044900668451788e-12, 1.109636065464273001e-12,
    -4.2908056775489893911e-13, 1.6608281008469840621e-13, -6.4346889774442099217e-14, 2.4953825832749395067e-14,
    -9.6859704886412899056e-15, 3.7630089096425153384e-15, -1.4631978107961677134e-15, 5.6942430132094465017e-16,
    -2.2178054938757141052e-16, 8.6447939851664453115e-17,
};

static double quantile_middle(double q)
{
    return q * GT_CHEBYSHEV(quantile_central, q * q / 0.0903125 - 1);
}

/* Of 1 - p, for 0 < p <= 0.075. */
static double quantile_outer(double p)
{
    double r = sqrt(-log(p));
    if (r <= 5)
        return GT_CHEBYSHEV(quantile_tail, (r - 3.3) / 1.7);
    return GT_CHEBYSHEV(quantile_far_tail, (r - 16.25) / 11.25);
}

double gt__special_ndtri(double p)
{
    if (p == 0)
        return -INFINITY;
    if (p == 1)
        return INFINITY;
    if (!(p > 0 && p < 1))
        return NAN;
    double q = p - 0.5;
    if (fabs(q) <= 0.425)
        return quantile_middle(q);
    return q < 0 ? -quantile_outer(p) : quantile_outer(1 - p);
}

double gt__special_erfinv(double y)
{
    double size = fabs(y);
    if (!(size <= 1))
        return NAN;
    if (size == 1)
        return copysign(INFINITY, y);
    if (size <= 0.85)
        return quantile_middle(y / 2) * M_SQRT1_2;
    return copysign(quantile_outer((1 - size) / 2) * M_SQRT1_2, y);
}

/* erfcx(x) / t by t = 4 / (4 + x), in [0.0725, 1] */
static const double erfcx_series[] = {
    4.222574311479581947e-1,    3.7621711335794828226e-1,  1.4112878190842497833e-1,  4.4959312570408858537e-2,
    1.2132584358408316446e-2,   2.7342279712130222925e-3,  4.978507248850003203e-4,   6.7751570632192197278e-5,
    5.2982010271205692275e-6,   -2.151395133272650718e-7,  -1.2549392791794828531e-7, -1.2603212490365548486e-8,
    1.0463850555895864073e-9,   3.7738798979893493393e-10, 1.0643471680695416705e-11, -8.0563928865537308578e-12,
    -7.9847000655403187219e-13, 1.617933068831264618e-13,  2.8551571827427456564e-14, -3.437551665652434102e-15,
    -9.0134082808745350188e-16, 8.5216180043595359522e-17, 2.7924774932731087914e-17, -2.6271413401874437619e-18,
    -8.6886449064988124691e-19,
};

double gt__special_erfcx(double x)
{
    if (x < 0)
        return x < -26.7 ? INFINITY : 2 * exp(x * x) - gt__special_erfcx(-x);
    if (x > 50) { /* the asymptotic series */
        double s = x * x;
        return x > 1e8 ? 1 / (sqrt(M_PI) * x) : (s * (s + 4.5) + 2) / (x * (s * (s + 5) + 3.75)) / sqrt(M_PI);
    }
    double t = 4 / (4 + x);
    return t * GT_CHEBYSHEV(erfcx_series, (t - 0.53625) / 0.46375);
}

double gt__special_log_ndtr(double x)
{
    double t = x * M_SQRT1_2;
    return x < -1 ? log(gt__special_erfcx(-t) / 2) - t * t : log1p(-erfc(t) / 2);
}

/* `given` comes with the record, so anything but the fractions of the dtypes counts as float64's. */
double gt__special_nextafter(double x, double y, double given)
{
    int bits = given == 7 || given == 10 || given == 23 ? (int)given : 52;
    int least = bits == 52 ? -1022 : bits == 10 ? -14 : -126;
    if (x != x || y != y)
        return x + y;
    if (x == y)
        return y;
    if (x == 0)
        return copysign(ldexp(1.0, least - bits), y);
    int exponent;
    double half = frexp(x, &exponent); /* x is 2 half 2^(exponent - 1) */
    exponent = exponent - 1 < least ? least : exponent - 1;
    bool outward = (x < y) == (x > 0);
    if (!outward && fabs(half) == 0.5 && exponent > least)
        exponent--;
    if (isinf(x))
        return copysign(ldexp(2 - ldexp(1.0, -bits), bits == 52 ? 1023 : -least + 1), x);
    double step = copysign(ldexp(1.0, exponent - bits), x);
    return outward ? x + step : x - step;
}

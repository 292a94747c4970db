/*
 * draws.c: the gamma distribution by Marsaglia and Tsang's method, the Poisson and the binomial distribution by inversion or,
 * where that takes long, by Hoermann's transformed rejection (PTRS, BTRS). draws.h says where the randomness comes from.
 */
#include "core/draws.h"

#include <float.h>
#include <math.h>

#include "core/philox.h"

/* More proposals than this are never rejected in a row: each is accepted with a probability of more than 1/2. */
enum { MOST_PROPOSALS = 1000 };

typedef struct uniforms {
    double first, second; /* in [0, 1) */
} uniforms;

/* Block `number` of an element's sequence. */
static gt_philox_block draw_block(gt_random key, int64_t element, unsigned number)
{
    uint64_t stream = key.stream + ((uint64_t)(number + 1) << 40);
    gt_philox_block counter = {.word = {(uint32_t)element, (uint32_t)((uint64_t)element >> 32), (uint32_t)stream,
                                        (uint32_t)(stream >> 32)}};
    return gt__philox(counter, (uint32_t)key.seed, (uint32_t)(key.seed >> 32));
}

static uint64_t pair_of(gt_philox_block block, unsigned first)
{
    return (uint64_t)block.word[first + 1] << 32 | block.word[first];
}

static uniforms draw(gt_random key, int64_t element, unsigned number)
{
    gt_philox_block block = draw_block(key, element, number);
    return (uniforms){.first = (double)(pair_of(block, 0) >> 11) * 0x1p-53,
                      .second = (double)(pair_of(block, 2) >> 11) * 0x1p-53};
}

static double log_factorial(double n)
{
    int sign;
    return lgamma_r(n + 1, &sign);
}

/* ---- gamma, Dirichlet ----------------------------------------------------------------------------------------- */

/*
 * d v, v the cube of a normal number around 1; shape >= 1. One block for each proposal: 53 bits of a radius, 32 of an angle,
 * 32 to accept it.
 */
static double draw_large_gamma(gt_random key, int64_t element, double shape)
{
    double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (unsigned k = 0; k < MOST_PROPOSALS; k++) {
        gt_philox_block block = draw_block(key, element, k);
        double radius = (double)(pair_of(block, 0) >> 11) * 0x1p-53;
        double x = sqrt(-2 * log1p(-radius)) * cos(2 * M_PI * 0x1p-32 * block.word[2]);
        double v = 1 + c * x, u = 1 - block.word[3] * 0x1p-32;
        if (v <= 0)
            continue;
        v = v * v * v;
        if (u < 1 - 0.0331 * x * x * x * x || log(u) < 0.5 * x * x + d * (1 - v + log(v)))
            return d * v;
    }
    return d;
}

/* Below shape 1: a number of shape + 1, times u^(1 / shape). */
static double log_boost(gt_random key, int64_t element, double shape)
{
    return log1p(-draw(key, element, MOST_PROPOSALS).first) / shape;
}

double gt__draw_log_gamma(gt_random key, int64_t element, double shape)
{
    if (!(shape > 0) || isinf(shape))
        return shape == 0 ? -INFINITY : NAN;
    if (shape >= 1)
        return log(draw_large_gamma(key, element, shape));
    return log(draw_large_gamma(key, element, shape + 1)) + log_boost(key, element, shape);
}

static double smallest(gt_dtype dtype)
{
    return dtype == GT_FLOAT64 ? DBL_MIN : dtype == GT_FLOAT16 ? 0x1p-14 : (double)FLT_MIN;
}

double gt__draw_gamma(gt_random key, int64_t element, double shape, gt_dtype dtype)
{
    double least = smallest(dtype);
    if (!(shape >= 0) || isinf(shape))
        return NAN;
    double number = shape >= 1  ? draw_large_gamma(key, element, shape)
                    : shape > 0 ? exp(log_boost(key, element, shape)) * draw_large_gamma(key, element, shape + 1)
                                : 0;
    return number < least ? least : number;
}

void gt__draw_dirichlet(gt_random key, int64_t first, int64_t n, gt_dtype dtype, double *numbers)
{
    double most = -INFINITY, sum = 0, least = smallest(dtype);
    double unit = dtype == GT_FLOAT64    ? DBL_EPSILON
                  : dtype == GT_FLOAT32  ? (double)FLT_EPSILON
                  : dtype == GT_BFLOAT16 ? 0x1p-7
                                         : 0x1p-10;
    for (int64_t k = 0; k < n; k++) {
        numbers[k] = gt__draw_log_gamma(key, first + k, numbers[k]);
        most = numbers[k] > most ? numbers[k] : most;
    }
    for (int64_t k = 0; k < n; k++)
        sum += numbers[k] = exp(numbers[k] - most);
    for (int64_t k = 0; k < n; k++) {
        double share = numbers[k] / sum;
        numbers[k] = share < least ? least : share > 1 - unit ? 1 - unit : share;
    }
}

/* ---- Poisson -------------------------------------------------------------------------------------------------- */

/* The first k whose distribution function exceeds u. */
static double poisson_search(double rate, double u)
{
    double p = exp(-rate), sum = p, k = 0;
    while (u >= sum && k < 200) {
        k += 1;
        p *= rate / k;
        sum += p;
    }
    return k;
}

double gt__draw_poisson(gt_random key, int64_t element, double rate)
{
    if (!(rate >= 0) || isinf(rate))
        return NAN;
    if (rate < 10)
        return poisson_search(rate, draw(key, element, 0).first);
    double b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
    double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), vr = 0.9277 - 3.6224 / (b - 2);
    for (unsigned n = 0; n < MOST_PROPOSALS; n++) {
        uniforms pair = draw(key, element, n);
        double u = pair.first - 0.5, v = 1 - pair.second, us = 0.5 - fabs(u);
        double k = floor((2 * a / us + b) * u + rate + 0.43);
        if (us >= 0.07 && v <= vr)
            return k;
        if (!(k >= 0) || (us < 0.013 && v > us))
            continue;
        if (log(v * inverse_alpha / (a / (us * us) + b)) <= k * log(rate) - rate - log_factorial(k))
            return k;
    }
    return floor(rate);
}

/* ---- binomial ------------------------------------------------------------------------------------------------- */

static double binomial_search(double n, double p, double u)
{
    double odds = p / (1 - p), chance = exp(n * log1p(-p)), sum = chance, k = 0;
    while (u >= sum && k < n && k < 200) {
        k += 1;
        chance *= (n - k + 1) / k * odds;
        sum += chance;
    }
    return k;
}

/* p <= 1/2, n p >= 10 */
static double binomial_reject(gt_random key, int64_t element, double n, double p)
{
    double spread = sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * spread, a = -0.0873 + 0.0248 * b + 0.01 * p;
    double alpha = (2.83 + 5.1 / b) * spread, vr = 0.92 - 4.2 / b, log_odds = log(p) - log1p(-p);
    double mode = floor((n + 1) * p), at_mode = log_factorial(mode) + log_factorial(n - mode);
    for (unsigned attempt = 0; attempt < MOST_PROPOSALS; attempt++) {
        uniforms pair = draw(key, element, attempt);
        double u = pair.first - 0.5, v = 1 - pair.second, us = 0.5 - fabs(u);
        double k = floor((2 * a / us + b) * u + n * p + 0.5);
        if (us >= 0.07 && v <= vr)
            return k;
        if (!(k >= 0 && k <= n))
            continue;
        double bound = at_mode - log_factorial(k) - log_factorial(n - k) + (k - mode) * log_odds;
        if (log(v * alpha / (a / (us * us) + b)) <= bound)
            return k;
    }
    return mode;
}

double gt__draw_binomial(gt_random key, int64_t element, double trials, double p)
{
    if (trials <= 0 || p <= 0)
        return 0;
    if (p >= 1)
        return trials;
    if (p != p || trials != trials || isinf(trials))
        return NAN;
    trials = floor(trials);
    double smaller = p <= 0.5 ? p : 1 - p;
    double k = trials * smaller >= 10 ? binomial_reject(key, element, trials, smaller)
                                      : binomial_search(trials, smaller, draw(key, element, 0).first);
    return p <= 0.5 ? k : trials - k;
}

/*
 * random.c: fills arrays from the Philox stream, many blocks at a time so that compilers make vector code of it.
 *
 * Everything works on chunks of LANES blocks in small arrays: draw the words, turn words into numbers, copy out
 * the requested part. The mathematics is spelled out here, not taken from libm: the same numbers
 * on every machine, and it vectorises. philox.h has the generator, random.h the meaning.
 */
#include "core/random.h"

#include <math.h>
#include <string.h>

#include "core/half.h"
#include "core/philox.h"

enum { LANES = 32, FLOATS = 4 * LANES, DOUBLES = 2 * LANES };

/* LANES blocks side by side: the loop body is gt__philox for a lane, and lanes become vector elements. */
static void draw(gt_random key, uint64_t first_block, uint32_t words[FLOATS])
{
    uint32_t key0 = (uint32_t)key.seed, key1 = (uint32_t)(key.seed >> 32);
    for (unsigned lane = 0; lane < LANES; lane++) {
        uint64_t block = first_block + lane;
        gt_philox_block counter = {.word = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)key.stream,
                                            (uint32_t)(key.stream >> 32)}};
        counter = gt__philox(counter, key0, key1);
        for (unsigned k = 0; k < 4; k++)
            words[4 * lane + k] = counter.word[k];
    }
}

static void draw_uniform_float(gt_random key, uint64_t chunk, float uniform[FLOATS])
{
    uint32_t words[FLOATS];
    draw(key, chunk * LANES, words);
    for (unsigned k = 0; k < FLOATS; k++)
        uniform[k] = (float)(int32_t)(words[k] >> 8) * 0x1p-24f;
}

static void draw_bits(gt_random key, uint64_t chunk, uint64_t bits[DOUBLES])
{
    uint32_t words[FLOATS];
    draw(key, chunk * LANES, words);
    for (unsigned k = 0; k < DOUBLES; k++)
        bits[k] = (uint64_t)words[2 * k + 1] << 32 | words[2 * k];
}

static void draw_uniform_double(gt_random key, uint64_t chunk, double uniform[DOUBLES])
{
    uint64_t bits[DOUBLES];
    draw_bits(key, chunk, bits);
    for (unsigned k = 0; k < DOUBLES; k++)
        uniform[k] = (double)(int64_t)(bits[k] >> 11) * 0x1p-53;
}

/* log(x) for 0 < x <= 1, normal: x = m * 2^e with m near 1, and log(m) = 2 atanh((m - 1) / (m + 1)). */
static inline float log_unit(float x)
{
    int32_t bits = (int32_t)gt__float_bits(x);
    int32_t exponent = (bits - 0x3f3504f3) >> 23; /* m lies in [sqrt(1/2), sqrt(2)) */
    float m = gt__float_from_bits((uint32_t)(bits - exponent * (1 << 23)));
    float s = (m - 1.0f) / (m + 1.0f);
    float s2 = s * s;
    float series = 1.0f + s2 * (1.0f / 3 + s2 * (1.0f / 5 + s2 * (1.0f / 7 + s2 * (1.0f / 9))));
    return 2.0f * s * series + (float)exponent * 0.693147180559945309f;
}

/* sin and cos of 2 pi u for 0 <= u < 1: subtract the nearest quarter turn, which is exact, then Taylor. */
static inline void turn(float u, float *sine, float *cosine)
{
    int32_t quarter = (int32_t)(u * 4.0f + 0.5f);
    float a = (u - (float)quarter * 0.25f) * 6.28318530717958648f;
    float a2 = a * a;
    float s = a * (1 + a2 * (-1.0f / 6 + a2 * (1.0f / 120 + a2 * (-1.0f / 5040 + a2 * (1.0f / 362880)))));
    float c = 1 + a2 * (-1.0f / 2 + a2 * (1.0f / 24 + a2 * (-1.0f / 720 + a2 * (1.0f / 40320))));
    c += a2 * a2 * a2 * a2 * a2 * (-1.0f / 3628800);
    float swapped_sine = quarter & 1 ? c : s;
    float swapped_cosine = quarter & 1 ? s : c;
    *sine = quarter & 2 ? -swapped_sine : swapped_sine;
    *cosine = (quarter + 1) & 2 ? -swapped_cosine : swapped_cosine;
}

static void draw_normal_float(gt_random key, uint64_t chunk, float normal[FLOATS])
{
    float uniform[FLOATS];
    draw_uniform_float(key, chunk, uniform);
    for (unsigned k = 0; k < FLOATS; k += 2) {
        float sine, cosine;
        float radius = sqrtf(-2.0f * log_unit(1.0f - uniform[k])); /* 1 - u is never 0 */
        turn(uniform[k + 1], &sine, &cosine);
        normal[k] = radius * cosine;
        normal[k + 1] = radius * sine;
    }
}

/* The same two functions for doubles, with as many terms as those need. */
static inline double log_unit_double(double x)
{
    int64_t bits;
    double m;
    memcpy(&bits, &x, sizeof bits);
    int64_t exponent = (bits - 0x3fe6a09e667f3bcd) >> 52;
    bits -= exponent * ((int64_t)1 << 52);
    memcpy(&m, &bits, sizeof m);
    double s = (m - 1.0) / (m + 1.0);
    double s2 = s * s;
    double series = 1.0 / 23;
    series = 1.0 / 21 + s2 * series;
    series = 1.0 / 19 + s2 * series;
    series = 1.0 / 17 + s2 * series;
    series = 1.0 / 15 + s2 * series;
    series = 1.0 / 13 + s2 * series;
    series = 1.0 / 11 + s2 * series;
    series = 1.0 / 9 + s2 * series;
    series = 1.0 / 7 + s2 * series;
    series = 1.0 / 5 + s2 * series;
    series = 1.0 / 3 + s2 * series;
    series = 1.0 + s2 * series;
    return 2.0 * s * series + (double)exponent * 0.693147180559945309417;
}

static inline void turn_double(double u, double *sine, double *cosine)
{
    int32_t quarter = (int32_t)(u * 4.0 + 0.5);
    double a = (u - (double)quarter * 0.25) * 6.28318530717958647693;
    double a2 = a * a;
    double s = 1.0 / 355687428096000;
    s = -1.0 / 1307674368000 + a2 * s;
    s = 1.0 / 6227020800 + a2 * s;
    s = -1.0 / 39916800 + a2 * s;
    s = 1.0 / 362880 + a2 * s;
    s = -1.0 / 5040 + a2 * s;
    s = 1.0 / 120 + a2 * s;
    s = -1.0 / 6 + a2 * s;
    s = a + a * (a2 * s);
    double c = -1.0 / 6402373705728000;
    c = 1.0 / 20922789888000 + a2 * c;
    c = -1.0 / 87178291200 + a2 * c;
    c = 1.0 / 479001600 + a2 * c;
    c = -1.0 / 3628800 + a2 * c;
    c = 1.0 / 40320 + a2 * c;
    c = -1.0 / 720 + a2 * c;
    c = 1.0 / 24 + a2 * c;
    c = -1.0 / 2 + a2 * c;
    c = 1.0 + a2 * c;
    double swapped_sine = quarter & 1 ? c : s;
    double swapped_cosine = quarter & 1 ? s : c;
    *sine = quarter & 2 ? -swapped_sine : swapped_sine;
    *cosine = (quarter + 1) & 2 ? -swapped_cosine : swapped_cosine;
}

static void draw_normal_double(gt_random key, uint64_t chunk, double normal[DOUBLES])
{
    double uniform[DOUBLES];
    draw_uniform_double(key, chunk, uniform);
    for (unsigned k = 0; k < DOUBLES; k += 2) {
        double sine, cosine;
        double radius = sqrt(-2.0 * log_unit_double(1.0 - uniform[k]));
        turn_double(uniform[k + 1], &sine, &cosine);
        normal[k] = radius * cosine;
        normal[k + 1] = radius * sine;
    }
}

/* Draw the chunks that hold elements first..first+count; whole chunks go straight to `out`. */
#define FILL(name, type, per_chunk, draw_chunk)                                                                   \
    void name(gt_random key, int64_t first, int64_t count, type *out)                                             \
    {                                                                                                             \
        for (int64_t done = 0; done < count;) {                                                                   \
            uint64_t chunk = (uint64_t)(first + done) / per_chunk;                                                \
            int64_t skip = (first + done) % per_chunk;                                                            \
            int64_t take = per_chunk - skip < count - done ? per_chunk - skip : count - done;                     \
            if (take == per_chunk) {                                                                              \
                draw_chunk(key, chunk, out + done);                                                               \
            } else {                                                                                              \
                type part[per_chunk];                                                                             \
                draw_chunk(key, chunk, part);                                                                     \
                memcpy(out + done, part + skip, (size_t)take * sizeof(type));                                     \
            }                                                                                                     \
            done += take;                                                                                         \
        }                                                                                                         \
    }

FILL(gt__random_uniform_float, float, FLOATS, draw_uniform_float)
FILL(gt__random_uniform_double, double, DOUBLES, draw_uniform_double)
FILL(gt__random_normal_float, float, FLOATS, draw_normal_float)
FILL(gt__random_normal_double, double, DOUBLES, draw_normal_double)

/* bits * range / 2^64 + low, modulo 2^64: a range above 2^63 does not fit an int64_t but works. */
static inline int64_t scale(uint64_t bits, int64_t low, uint64_t range)
{
    unsigned __int128 product = (unsigned __int128)bits * range;
    return (int64_t)((uint64_t)low + (uint64_t)(product >> 64));
}

void gt__random_integer(gt_random key, int64_t first, int64_t count, int64_t low, int64_t high, int64_t *out)
{
    uint64_t range = (uint64_t)high - (uint64_t)low;
    uint64_t bits[DOUBLES];
    for (int64_t done = 0; done < count;) {
        int64_t skip = (first + done) % DOUBLES;
        int64_t take = DOUBLES - skip < count - done ? DOUBLES - skip : count - done;
        draw_bits(key, (uint64_t)(first + done) / DOUBLES, bits);
        for (int64_t k = 0; k < take; k++)
            out[done + k] = scale(bits[skip + k], low, range);
        done += take;
    }
}

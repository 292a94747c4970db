/*
 * test_random.c: the random generator and the 16-bit floats: known answers, independence of splits, rough
 * statistics.
 */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "core/half.h"
#include "core/philox.h"
#include "core/random.h"

/* The known answers that its authors publish with Philox4x32-10. */
static void test_known_answers(const void *argument)
{
    (void)argument;
    static const struct {
        gt_philox_block counter;
        uint32_t key[2];
        gt_philox_block block;
    } known[] = {
        {.counter = {.word = {0, 0, 0, 0}},
         .key = {0, 0},
         .block = {.word = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
        {.counter = {.word = {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
         .key = {0xffffffff, 0xffffffff},
         .block = {.word = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
        {.counter = {.word = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
         .key = {0xa4093822, 0x299f31d0},
         .block = {.word = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
    };
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        gt_philox_block block = gt__philox(known[k].counter, known[k].key[0], known[k].key[1]);
        CHECK_EQ(memcmp(&block, &known[k].block, sizeof block), 0);
    }
}

/* Element i is word i % 4 of block i / 4 of the stream, with the seed as the key. */
static void test_counting(const void *argument)
{
    (void)argument;
    gt_random key = {.seed = UINT64_C(0x123456789abcdef0), .stream = UINT64_C(0xfedcba9876543210)};
    int64_t first = (INT64_C(1) << 34) + 1;
    float uniform[300];
    gt__random_uniform_float(key, first, 300, uniform);
    for (int64_t k = 0; k < 300; k++) {
        uint64_t block = (uint64_t)(first + k) / 4;
        gt_philox_block counter = {.word = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)key.stream,
                                            (uint32_t)(key.stream >> 32)}};
        uint32_t word = gt__philox(counter, (uint32_t)key.seed, (uint32_t)(key.seed >> 32)).word[(first + k) % 4];
        CHECK(uniform[k] == (float)(word >> 8) / 16777216.0f);
    }
}

enum { NUMBERS = 5000 };

/* Every function, drawn at once and in pieces, gives the same numbers. */
#define CHECK_SPLITS(type, call)                                                                                  \
    do {                                                                                                          \
        static type whole[NUMBERS], parts[NUMBERS];                                                               \
        type *out = whole;                                                                                        \
        int64_t first = 0, count = NUMBERS;                                                                       \
        call;                                                                                                     \
        for (first = 0; first < NUMBERS; first += count) {                                                        \
            count = 1 + first % 300;                                                                              \
            count = count < NUMBERS - first ? count : NUMBERS - first;                                            \
            out = parts + first;                                                                                  \
            call;                                                                                                 \
        }                                                                                                         \
        CHECK_EQ(memcmp(whole, parts, sizeof whole), 0);                                                          \
    } while (0)

static void test_splits(const void *argument)
{
    (void)argument;
    gt_random key = {.seed = 7, .stream = 9};
    CHECK_SPLITS(float, gt__random_uniform_float(key, first, count, out));
    CHECK_SPLITS(double, gt__random_uniform_double(key, first, count, out));
    CHECK_SPLITS(float, gt__random_normal_float(key, first, count, out));
    CHECK_SPLITS(double, gt__random_normal_double(key, first, count, out));
    CHECK_SPLITS(int64_t, gt__random_integer(key, first, count, -3, 11, out));
}

static void test_statistics(const void *argument)
{
    (void)argument;
    enum { N = 1 << 20 };
    static float x[N], u[N];
    static int64_t n[N];
    gt_random key = {.seed = 42, .stream = 1};
    double mean = 0, square = 0, fourth = 0, worst = 0;
    gt__random_uniform_float(key, 0, N, u);
    gt__random_normal_float(key, 0, N, x);
    gt__random_integer(key, 0, N, -3, 4, n);
    int64_t seen[7] = {0};
    for (int k = 0; k < N; k++) {
        CHECK(u[k] >= 0 && u[k] < 1);
        CHECK(n[k] >= -3 && n[k] < 4);
        seen[n[k] + 3]++;
        mean += x[k] / (double)N;
        square += (double)x[k] * x[k] / N;
        fourth += pow(x[k], 4) / N;
    }
    CHECK(fabs(mean) < 0.005 && fabs(square - 1) < 0.01 && fabs(fourth - 3) < 0.1);
    for (int k = 0; k < 7; k++)
        CHECK(fabs((double)seen[k] * 7 / N - 1) < 0.02);
    for (int k = 0; k < N; k += 2) { /* the float formulas against libm's doubles */
        double radius = sqrt(-2 * log(1 - (double)u[k])), angle = 2 * M_PI * u[k + 1];
        worst = fmax(worst, fmax(fabs(x[k] - radius * cos(angle)), fabs(x[k + 1] - radius * sin(angle))));
    }
    CHECK(worst < 2e-6);
}

/* The double formulas against libm. */
static void test_normal_doubles(const void *argument)
{
    (void)argument;
    enum { N = 1 << 16 };
    static double x[N], u[N];
    gt_random key = {.seed = 42, .stream = 2};
    double worst = 0;
    gt__random_uniform_double(key, 0, N, u);
    gt__random_normal_double(key, 0, N, x);
    for (int k = 0; k < N; k += 2) {
        double radius = sqrt(-2 * log(1 - u[k])), angle = 2 * M_PI * u[k + 1];
        worst = fmax(worst, fmax(fabs(x[k] - radius * cos(angle)), fabs(x[k + 1] - radius * sin(angle))));
    }
    CHECK(worst < 1e-14);
}

/* randint over more than half of the 64-bit range. */
static void test_wide_range(const void *argument)
{
    (void)argument;
    int64_t n[1000], below = 0;
    gt__random_integer((gt_random){.seed = 1, .stream = 1}, 0, 1000, INT64_MIN, INT64_MAX, n);
    for (int k = 0; k < 1000; k++)
        below += n[k] < 0;
    CHECK(below > 400 && below < 600);
}

static void test_half(const void *argument)
{
    (void)argument;
    static const struct {
        float value;
        uint16_t half;
    } known[] = {
        {.value = 0.0f, .half = 0x0000},     {.value = -0.0f, .half = 0x8000},
        {.value = 1.0f, .half = 0x3c00},     {.value = 65504.0f, .half = 0x7bff},
        {.value = 65519.0f, .half = 0x7bff}, {.value = 65520.0f, .half = 0x7c00},
        {.value = INFINITY, .half = 0x7c00}, {.value = 0x1p-24f, .half = 0x0001},
        {.value = 0x1p-25f, .half = 0x0000}, {.value = 0x1.8p-24f, .half = 0x0002},
        {.value = 0x1p-14f, .half = 0x0400}, {.value = 2049.0f, .half = 0x6800},
        {.value = 2051.0f, .half = 0x6802},  {.value = -1e30f, .half = 0xfc00},
    };
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        CHECK_EQ(gt__float_to_half(known[k].value), known[k].half);
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float value = gt__half_to_float((uint16_t)bits), wide = gt__bfloat16_to_float((uint16_t)bits);
        CHECK(isnan(value) ? isnan(gt__half_to_float(gt__float_to_half(value)))
                           : gt__float_to_half(value) == bits);
        CHECK(isnan(wide) ? isnan(gt__bfloat16_to_float(gt__float_to_bfloat16(wide)))
                          : gt__float_to_bfloat16(wide) == bits);
    }
    CHECK_EQ(gt__float_to_bfloat16(1.00390625f), 0x3f80); /* ties go to even */
    CHECK_EQ(gt__float_to_bfloat16(1.01171875f), 0x3f82);
    CHECK_EQ(gt__float_to_bfloat16(3.4e38f), 0x7f80);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("philox known answers", test_known_answers, NULL);
    check_run("counting", test_counting, NULL);
    check_run("splits", test_splits, NULL);
    check_run("statistics", test_statistics, NULL);
    check_run("normal doubles", test_normal_doubles, NULL);
    check_run("wide range", test_wide_range, NULL);
    check_run("16-bit floats", test_half, NULL);
    return check_end();
}

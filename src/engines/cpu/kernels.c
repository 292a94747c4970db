/*
 * kernels.c: every inner loop of the CPU engine, compiled once per instruction set into one table each.
 *
 * The elementwise loops are the expressions of core/ops.def, pasted; the conversions are those of core/convert.h; there
 * are no vector intrinsics, except for one conversion. The build compiles this file as
 *     -DGT_KERNELS=baseline                                                                      everywhere
 *     -DGT_KERNELS=avx2   -mavx2 -mfma -mf16c                                                    on x86-64
 *     -DGT_KERNELS=avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c
 *                         -mprefer-vector-width=512                                              on x86-64
 * each time with -O3 -fno-math-errno -fno-trapping-math -fwrapv: without the first two the compilers keep math
 * loops scalar, and integer arithmetic is meant to wrap. cpu.c picks the table. Read kernels_template.h next.
 */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* loops around libm calls stay scalar, which is fine */
#endif
#pragma GCC diagnostic ignored "-Wtautological-compare" /* x != x tests for NaN, which an integer never is */

#include <string.h>
#if defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "engines/cpu/kernels.h"

#include "core/convert.h"
#include "engines/cpu/kernel_math.h"

#ifndef GT_KERNELS
#error "compile with -DGT_KERNELS=<table name>, see above"
#endif

#define GLUE_(a, b) a##_##b
#define GLUE(a, b) GLUE_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)
#define UNUSED(name) (void)(name)

/* Iterations touch only position i of each operand, also when the result replaces an operand. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

/* Channels that an inner loop of a convolution computes at once: three vectors each, as many as the registers hold. */
#if defined(__aarch64__) || defined(__AVX512F__)
#define GT_CONV_CHANNELS 8
#else
#define GT_CONV_CHANNELS 4
#endif
/* The same if channels are the lanes. */
#define DOT_CHANNELS(type)                                                                                        \
    ((int)(VECTOR_BYTES / sizeof(type) > GT_CONV_CHANNELS ? VECTOR_BYTES / sizeof(type) : GT_CONV_CHANNELS))

enum { ROW_VECTORS = 8, ROW_BLOCK = 4096, ROW_AHEAD = 1024 /* bytes */, COLUMN_BLOCK = GT_FEW_ROWS };

/* p and q of a row, as the compute type; integers saturate. */
static inline float from_double_f32(double value)
{
    return (float)value;
}

static inline double from_double_f64(double value)
{
    return value;
}

static inline int64_t from_double_i64(double value)
{
    return gt__double_to_int64(value);
}

static inline int32_t from_double_i32(double value)
{
    return gt__double_to_int32(value);
}

#define from_double_i8 from_double_i32
#define from_double_u8 from_double_i32

/* Four windows of 2x2 floats side by side: compilers do not vectorise a loop over them on every machine. In a window the first of
 * the largest counts, or the last NaN. */
enum { PAIRS = 4 };
typedef float pair_floats __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t pair_ints __attribute__((vector_size(16), aligned(4), may_alias));

typedef struct pair_windows {
    pair_ints second, second_below; /* -1: the right one of the upper (lower) pair counts */
    pair_ints under;                /* -1: the lower pair counts */
    pair_floats most;
} pair_windows;

static inline pair_ints replaces(pair_floats x, pair_floats y)
{
    return (x > y) | (x != x);
}

static inline pair_floats choose_floats(pair_ints take, pair_floats x, pair_floats y)
{
    return (pair_floats)((take & (pair_ints)x) | (~take & (pair_ints)y));
}

/* Of a row of x: the left ones of four pairs, and the right ones. */
static inline void split_pairs(const float *x, pair_floats *left, pair_floats *right)
{
    pair_floats a = *(const pair_floats *)x, b = *(const pair_floats *)(x + PAIRS);
    *left = __builtin_shufflevector(a, b, 0, 2, 4, 6);
    *right = __builtin_shufflevector(a, b, 1, 3, 5, 7);
}

static inline pair_windows look_at_pairs(const float *top, const float *bottom)
{
    pair_windows w;
    pair_floats left, right, left_below, right_below;
    split_pairs(top, &left, &right);
    split_pairs(bottom, &left_below, &right_below);
    w.second = replaces(right, left);
    w.second_below = replaces(right_below, left_below);
    pair_floats upper = choose_floats(w.second, right, left);
    pair_floats lower = choose_floats(w.second_below, right_below, left_below);
    w.under = replaces(lower, upper);
    w.most = choose_floats(w.under, lower, upper);
    return w;
}

/* A row of at least PAIRS windows; the last ones may be computed twice. arg may be NULL. */
static inline __attribute__((always_inline)) void max_pairs_wide(const float *x, int64_t row, int64_t below,
                                                                 int64_t count, float *best, int32_t *arg)
{
    for (int64_t next = 0; next < count; next += PAIRS) {
        int64_t o = next + PAIRS <= count ? next : count - PAIRS;
        pair_windows w = look_at_pairs(x + row + 2 * o, x + below + 2 * o);
        *(pair_floats *)(best + o) = w.most;
        if (!arg)
            continue;
        pair_ints at = (pair_ints){0, 2, 4, 6} + (int32_t)(row + 2 * o);
        pair_ints lower = at + (int32_t)(below - row) - w.second_below;
        *(pair_ints *)(arg + o) = (w.under & lower) | (~w.under & (at - w.second));
    }
}

/* Two rows of a gradient by x, from a row of windows. */
static inline void spread_pairs_wide(const float *top, const float *bottom, int64_t count, const float *y,
                                     float *out, float *out_below)
{
    for (int64_t next = 0; next < count; next += PAIRS) {
        int64_t o = next + PAIRS <= count ? next : count - PAIRS;
        pair_windows w = look_at_pairs(top + 2 * o, bottom + 2 * o);
        pair_ints g =
            (pair_ints)(*(const pair_floats *)(y + o) + 0.0f); /* -0 becomes 0, as where gradients are added */
        pair_ints upper = g & ~w.under, lower = g & w.under;
        pair_floats left = (pair_floats)(upper & ~w.second), right = (pair_floats)(upper & w.second);
        pair_floats left_below = (pair_floats)(lower & ~w.second_below);
        pair_floats right_below = (pair_floats)(lower & w.second_below);
        *(pair_floats *)(out + 2 * o) = __builtin_shufflevector(left, right, 0, 4, 1, 5);
        *(pair_floats *)(out + 2 * o + PAIRS) = __builtin_shufflevector(left, right, 2, 6, 3, 7);
        *(pair_floats *)(out_below + 2 * o) = __builtin_shufflevector(left_below, right_below, 0, 4, 1, 5);
        *(pair_floats *)(out_below + 2 * o + PAIRS) = __builtin_shufflevector(left_below, right_below, 2, 6, 3, 7);
    }
}
#define WIDE_PAIRS 1

#define T float
#define STORED float
#define ACCUMULATOR double
#define SUFFIX f32
#define LEAST (-HUGE_VALF)
#define MOST HUGE_VALF
#define INTEGER 0
#define FOLDS 1
#define TO_COMPUTE(value) GT_STORE_FROM(float32, value)
#if defined(__aarch64__)
#define NATIVE_MAX vmaxq_f32
#define NATIVE_MIN vminq_f32
#endif
#include "engines/cpu/kernels_template.h"

#undef WIDE_PAIRS

#define T double
#define STORED double
#define ACCUMULATOR double
#define SUFFIX f64
#define LEAST (-HUGE_VAL)
#define MOST HUGE_VAL
#define INTEGER 0
#define FOLDS 1
#define TO_COMPUTE(value) GT_STORE_FROM(float64, value)
#if defined(__aarch64__)
#define NATIVE_MAX vmaxq_f64
#define NATIVE_MIN vminq_f64
#endif
#include "engines/cpu/kernels_template.h"

#define T int64_t
#define STORED int64_t
#define ACCUMULATOR int64_t
#define SUFFIX i64
#define LEAST INT64_MIN
#define MOST INT64_MAX
#define INTEGER 1
#define FOLDS 1
#define TO_COMPUTE(value) GT_STORE_FROM(int64, value)
#include "engines/cpu/kernels_template.h"

#define T int32_t
#define STORED int32_t
#define ACCUMULATOR int64_t
#define SUFFIX i32
#define LEAST INT32_MIN
#define MOST INT32_MAX
#define INTEGER 1
#define FOLDS 0
#define TO_COMPUTE(value) GT_STORE_FROM(int32, value)
#include "engines/cpu/kernels_template.h"

#define T int32_t
#define STORED int8_t
#define ACCUMULATOR int64_t
#define SUFFIX i8
#define LEAST INT8_MIN
#define MOST INT8_MAX
#define INTEGER 1
#define FOLDS 0
#define TO_COMPUTE(value) GT_STORE_FROM(int8, value)
#include "engines/cpu/kernels_template.h"

#define T int32_t
#define STORED uint8_t
#define ACCUMULATOR int64_t
#define SUFFIX u8
#define LEAST 0
#define MOST UINT8_MAX
#define INTEGER 1
#define FOLDS 0
#define TO_COMPUTE(value) GT_STORE_FROM(uint8, value)
#include "engines/cpu/kernels_template.h"

/* ---- float functions with a fast loop for moderate arguments ----------------------------------------------- */

#define EXP_LIMIT 87.0f
enum { WIDE = VECTOR_BYTES / (int)sizeof(float) };
typedef float wide __attribute__((vector_size(VECTOR_BYTES), aligned(4)));
typedef uint32_t wide_bits __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t wide_ints __attribute__((vector_size(VECTOR_BYTES)));

/*
 * gt__exp_f32 for |x| <= 87, where the result is a normal number: no special cases, and the power of two is added to the
 * exponent's bits.
 */
static inline wide wide_exp(wide x)
{
    const float magic = 12583166.0f;
    wide t = x * 1.44269502f + magic;
    wide k = t - magic;
    wide r = k * 2.12194440e-4f + (k * -0.693359375f + x);
    wide s = r * r;
    wide high = s * 0.00139276846f + (r * 0.00836438034f + 0.041666545f);
    wide p = (high * s + (r * 0.166665703f + 0.5f)) * s + r + 1.0f;
    return (wide)((wide_bits)p + ((wide_bits)t << 23) - (254u << 23));
}

#define MODERATE(name, expr)                                                                                      \
    static inline wide moderate_##name(wide x)                                                                    \
    {                                                                                                             \
        return expr;                                                                                              \
    }                                                                                                             \
    static void name##_moderate(void *out, const void *xs, const void *y, const void *z, const double *pq,        \
                                int64_t count)                                                                    \
    {                                                                                                             \
        float *to = out;                                                                                          \
        const float *from = xs;                                                                                   \
        int64_t i = 0;                                                                                            \
        /* Two at a time: the chains of dependent steps are long, and two chains fill the pipelines. */           \
        for (; i + 2 * WIDE <= count; i += 2 * WIDE) {                                                            \
            wide a = *(const wide *)(from + i), b = *(const wide *)(from + i + WIDE);                             \
            *(wide *)(to + i) = moderate_##name(a);                                                               \
            *(wide *)(to + i + WIDE) = moderate_##name(b);                                                        \
        }                                                                                                         \
        name##_f32(to + i, from + i, y, z, pq, count - i);                                                        \
    }
MODERATE(exp, wide_exp(x))
MODERATE(sigmoid, 1.0f / (1.0f + wide_exp(-x)))
MODERATE(silu, x / (1.0f + wide_exp(-x)))

/* Whether |x| <= limit everywhere. Without the sign bit floats are ordered like integers, with NaN the largest. */
static bool all_within(const float *x, int64_t count, float limit)
{
    int32_t limit_bits = (int32_t)gt__bits_f32(limit), any = 0;
    wide_ints beyond = {0};
    int64_t i = 0;
    for (; i + WIDE <= count; i += WIDE) {
        wide_ints magnitude = (wide_ints) * (const wide *)(x + i) & 0x7fffffff;
        beyond |= magnitude > limit_bits;
    }
    for (int lane = 0; lane < WIDE; lane++)
        any |= beyond[lane];
    for (; i < count; i++)
        any |= (int32_t)(gt__bits_f32(x[i]) & 0x7fffffffu) > limit_bits;
    return !any;
}

/* The fast loop for tiles whose arguments are all within the limit, the slow one for others. */
static void by_tiles(gt_elementwise_kernel fast, gt_elementwise_kernel slow, float limit, float *out,
                     const float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i += GT_TILE) {
        int64_t tile = count - i < GT_TILE ? count - i : GT_TILE;
        (all_within(x + i, tile, limit) ? fast : slow)(out + i, x + i, NULL, NULL, NULL, tile);
    }
}

static float library_sinc(float x)
{
    float angle = x * 3.14159274f;
    return x == 0.0f ? 1.0f : sinf(angle) / angle;
}

#define LIBRARY(name, function)                                                                                   \
    static void name##_library(void *out, const void *x, const void *y, const void *z, const double *pq,          \
                               int64_t count)                                                                     \
    {                                                                                                             \
        UNUSED(y), UNUSED(z), UNUSED(pq);                                                                         \
        for (int64_t i = 0; i < count; i++)                                                                       \
            ((float *)out)[i] = function(((const float *)x)[i]);                                                  \
    }
LIBRARY(sin, sinf)
LIBRARY(cos, cosf)
LIBRARY(tan, tanf)
LIBRARY(sinc, library_sinc)

#define GUARDED(name, fast, slow, limit)                                                                          \
    static void name##_guarded(void *out, const void *x, const void *y, const void *z, const double *pq,          \
                               int64_t count)                                                                     \
    {                                                                                                             \
        UNUSED(y), UNUSED(z), UNUSED(pq);                                                                         \
        by_tiles(fast, slow, limit, out, x, count);                                                               \
    }
GUARDED(sin, sin_f32, sin_library, GT_SIN_LIMIT_F32)
GUARDED(cos, cos_f32, cos_library, GT_SIN_LIMIT_F32)
GUARDED(tan, tan_f32, tan_library, GT_SIN_LIMIT_F32)
GUARDED(sinc, sinc_f32, sinc_library, GT_SIN_LIMIT_F32 / 4)
GUARDED(exp, exp_moderate, exp_f32, EXP_LIMIT)
GUARDED(sigmoid, sigmoid_moderate, sigmoid_f32, EXP_LIMIT)
GUARDED(silu, silu_moderate, silu_f32, EXP_LIMIT)

/* ---- softmax ----------------------------------------------------------------------------------------------- */

/* The elements of a tile that wide_exp cannot compute: too small ones become 0, NaN stays NaN. */
static void repair_exps(float *out, const float *x, int64_t count, float shift)
{
    INDEPENDENT for (int64_t i = 0; i < count; i++)
    {
        float d = x[i] - shift;
        out[i] = d >= -EXP_LIMIT ? out[i] : d != d ? d : 0.0f;
    }
}

/* out[i] = exp(x[i] - shift), which is at most 1; returns the sum. At most GT_TILE elements; out is not x. */
static float exps_below_f32(float *out, const float *x, int64_t count, float shift)
{
    wide_ints all = ~(wide_ints){0};
    int64_t i = 0;
    for (; i + 4 * WIDE <= count; i += 4 * WIDE) {
        for (int k = 0; k < 4; k++) {
            wide d = *(const wide *)(x + i + k * WIDE) - shift;
            wide_ints ordinary = d >= -EXP_LIMIT;
            all &= ordinary;
            d = (wide)(((wide_ints)d & ordinary) | ((wide_ints)((wide){0} - EXP_LIMIT) & ~ordinary));
            *(wide *)(out + i + k * WIDE) = wide_exp(d);
        }
    }
    int32_t fine = -1;
    for (int lane = 0; lane < WIDE; lane++)
        fine &= all[lane];
    if (!fine)
        repair_exps(out, x, i, shift);
    for (; i < count; i++)
        out[i] = gt__exp_f32(x[i] - shift);
    return block_sum_f32(out, count, 0);
}

static double exps_below_f64(double *out, const double *x, int64_t count, double shift)
{
    INDEPENDENT for (int64_t i = 0; i < count; i++) out[i] = exp(x[i] - shift);
    return block_sum_f64(out, count, 0);
}

#define T float
#define SUFFIX f32
#include "engines/cpu/kernels_softmax_template.h"

#define T double
#define SUFFIX f64
#include "engines/cpu/kernels_softmax_template.h"

/* ---- layer normalisation ----------------------------------------------------------------------------------- */

#define T float
#define SUFFIX f32
#include "engines/cpu/kernels_norm_template.h"

#define T double
#define SUFFIX f64
#include "engines/cpu/kernels_norm_template.h"

/* ---- halves ------------------------------------------------------------------------------------------------ */

#if defined(__aarch64__)
/* The only vector intrinsics: without them gcc 12 narrows floats to halves one at a time. */
static void store_halves(void *to, int64_t stride, const void *tile, int64_t count)
{
    const float *source = tile;
    uint16_t *target = to;
    int64_t i = 0;
    if (stride == 1)
        for (; i + 8 <= count; i += 8) {
            float16x8_t halves = vcvt_high_f16_f32(vcvt_f16_f32(vld1q_f32(source + i)), vld1q_f32(source + i + 4));
            vst1q_u16(target + i, vreinterpretq_u16_f16(halves));
        }
    store_float16_f32(target + i * stride, stride, source + i, count - i);
}
#define store_float16_f32 store_halves /* in the table below */
#endif

/* ---- the table --------------------------------------------------------------------------------------------- */

#define UNARY_ENTRY(name, suffix)                                                                                 \
    {                                                                                                             \
        [0] = name##_##suffix                                                                                     \
    }
#define BINARY_ENTRY(name, suffix)                                                                                \
    {                                                                                                             \
        [0] = name##_##suffix, [GT_CONSTANT_X] = name##_x_##suffix, [GT_CONSTANT_Y] = name##_y_##suffix           \
    }
#define TERNARY_ENTRY(name, suffix)                                                                               \
    {                                                                                                             \
        [0] = name##_##suffix, [GT_CONSTANT_Y] = name##_y_##suffix, [GT_CONSTANT_Z] = name##_z_##suffix,          \
        [GT_CONSTANT_Y | GT_CONSTANT_Z] = name##_yz_##suffix                                                      \
    }
#define ENTRIES_FLT(ENTRY, name)                                                                                  \
    [GT_OP_##name] = {[GT_COMPUTE_F32] = ENTRY(name, f32), [GT_COMPUTE_F64] = ENTRY(name, f64)},
#define ENTRIES_NUM(ENTRY, name)                                                                                  \
    [GT_OP_##name] = {[GT_COMPUTE_F32] = ENTRY(name, f32), [GT_COMPUTE_F64] = ENTRY(name, f64),                   \
                      [GT_COMPUTE_I64] = ENTRY(name, i64), [GT_COMPUTE_I32] = ENTRY(name, i32),                   \
                      [GT_COMPUTE_I8] = ENTRY(name, i8),   [GT_COMPUTE_U8] = ENTRY(name, u8)},
#define ENTRIES_BITS(ENTRY, name)                                                                                 \
    [GT_OP_##name] = {[GT_COMPUTE_I64] = ENTRY(name, i64),                                                        \
                      [GT_COMPUTE_I32] = ENTRY(name, i32),                                                        \
                      [GT_COMPUTE_I8] = ENTRY(name, i8),                                                          \
                      [GT_COMPUTE_U8] = ENTRY(name, u8)},
#define ENTRIES_INT ENTRIES_BITS
#define ENTRIES_ARITH ENTRIES_NUM
#define ENTRIES_BOOL ENTRIES_NUM

#define BY_COMPUTE(name)                                                                                          \
    {                                                                                                             \
        [GT_COMPUTE_F32] = name##_f32, [GT_COMPUTE_F64] = name##_f64, [GT_COMPUTE_I64] = name##_i64               \
    }
#define FLOATS(name)                                                                                              \
    {                                                                                                             \
        [GT_COMPUTE_F32] = name##_f32, [GT_COMPUTE_F64] = name##_f64                                              \
    }
#define BY_EVERY_COMPUTE(name)                                                                                    \
    {                                                                                                             \
        [GT_COMPUTE_F32] = name##_f32, [GT_COMPUTE_F64] = name##_f64, [GT_COMPUTE_I64] = name##_i64,              \
        [GT_COMPUTE_I32] = name##_i32, [GT_COMPUTE_I8] = name##_i8, [GT_COMPUTE_U8] = name##_u8                   \
    }
#define LOAD_ENTRY(name, dtype, type) [dtype] = BY_EVERY_COMPUTE(load_##name),
#define STORE_ENTRY(name, dtype, type) [dtype] = BY_EVERY_COMPUTE(store_##name),
#define FOLD_ENTRIES(kind)                                                                                        \
    {                                                                                                             \
        [GT_FOLD_SUM] = BY_COMPUTE(kind##_sum), [GT_FOLD_PROD] = BY_COMPUTE(kind##_prod),                         \
        [GT_FOLD_MAX] = BY_COMPUTE(kind##_max), [GT_FOLD_MIN] = BY_COMPUTE(kind##_min),                           \
        [GT_FOLD_ANY] = BY_COMPUTE(kind##_any), [GT_FOLD_ALL] = BY_COMPUTE(kind##_all),                           \
        [GT_FOLD_SQUARES] = BY_COMPUTE(kind##_squares), [GT_FOLD_ABS] = FLOATS(kind##_abs),                       \
        [GT_FOLD_ABS_MAX] = FLOATS(kind##_abs_max), [GT_FOLD_ABS_MIN] = FLOATS(kind##_abs_min),                   \
        [GT_FOLD_NONZERO] = FLOATS(kind##_nonzero), [GT_FOLD_POWERS] = FLOATS(kind##_powers),                     \
        [GT_FOLD_EXPS] = FLOATS(kind##_exps),                                                                     \
    }

#define CONV_ENTRIES(name)                                                                                        \
    {                                                                                                             \
        [GT_COMPUTE_F32] = {name##_f32, name##_one_f32}, [GT_COMPUTE_F64] = {name##_f64, name##_one_f64},         \
        [GT_COMPUTE_I64] = {name##_i64, name##_one_i64},                                                          \
    }

const gt_kernels GLUE(gt__kernels, GT_KERNELS) = {
    .name = TEXT(GT_KERNELS),
    .compounds = GLUE(gt__compounds, GT_KERNELS),
#if defined(__AVX2__)
    .tiles = &GLUE(gt__product_tiles, GT_KERNELS),
#endif
    .elementwise =
        {
#define UNARY(name, types, expr, grad) ENTRIES_##types(UNARY_ENTRY, name)
#define UNARY_PQ(name, types, expr, grad) ENTRIES_##types(UNARY_ENTRY, name)
#define BINARY(name, types, expr, grad) ENTRIES_##types(BINARY_ENTRY, name)
#define BINARY_PQ(name, types, expr, grad) ENTRIES_##types(BINARY_ENTRY, name)
#define TERNARY(name, types, expr, grad) ENTRIES_##types(TERNARY_ENTRY, name)
#include "core/ops.def"
        },
    .cube = BY_EVERY_COMPUTE(cube),
    .guarded = {[GT_OP_sin] = sin_guarded,
                [GT_OP_cos] = cos_guarded,
                [GT_OP_tan] = tan_guarded,
                [GT_OP_sinc] = sinc_guarded,
                [GT_OP_exp] = exp_guarded,
                [GT_OP_sigmoid] = sigmoid_guarded,
                [GT_OP_silu] = silu_guarded},
    .load = {GT_STORED_TYPES(LOAD_ENTRY)},
    .store = {GT_STORED_TYPES(STORE_ENTRY)},
    .fold_row = FOLD_ENTRIES(row),
    .fold_column = FOLD_ENTRIES(column),
    .fold_few = FOLD_ENTRIES(few),
    .argmax = BY_COMPUTE(argmax),
    .argmin = BY_COMPUTE(argmin),
    .softmax_row = FLOATS(softmax_row),
    .softmax_column = FLOATS(softmax_column),
    .softmax_backward_row = FLOATS(softmax_backward_row),
    .norm_row = FLOATS(norm_row),
    .norm_backward_row = FLOATS(norm_backward_row),
    .norm_weight_rows = FLOATS(norm_weight_rows),
    .vector_bytes = VECTOR_BYTES,
    .conv_channels = GT_CONV_CHANNELS,
    .conv_dot_channels = {[GT_COMPUTE_F32] = DOT_CHANNELS(float),
                          [GT_COMPUTE_F64] = DOT_CHANNELS(double),
                          [GT_COMPUTE_I64] = DOT_CHANNELS(int64_t)},
    .conv_panel = CONV_ENTRIES(conv_panel),
    .conv_dot = CONV_ENTRIES(conv_dot),
    .pool_max = BY_COMPUTE(pool_max),
    .pool_max_spread = pool_max_spread_f32,
    .pool_sum = BY_COMPUTE(pool_sum),
    .pool_spread = BY_COMPUTE(pool_spread),
};

/*
 * kernels.c: every inner loop of the CPU engine, compiled once per instruction set into one table each.
 *
 * The elementwise loops are the expressions of ops.def, pasted; the conversions are those of convert.h; nothing
 * here names a vector instruction. The build compiles this file as
 *     -DGT_KERNELS=baseline                                                                      everywhere
 *     -DGT_KERNELS=avx2   -mavx2 -mfma -mf16c                                                    on x86-64
 *     -DGT_KERNELS=avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c
 *                         -mprefer-vector-width=512                                              on x86-64
 * each time with -O3 -fno-math-errno -fno-trapping-math -fwrapv: without the first two the compilers keep math
 * loops scalar, and integer arithmetic is meant to wrap. cpu.c picks the table. Read kernels_typed.h next.
 */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* loops around libm calls stay scalar, and may */
#endif
#pragma GCC diagnostic ignored "-Wtautological-compare" /* x != x asks for NaN, which integers never are */

#include "kernels.h"

#include "convert.h"
#include "kernel_math.h"

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

enum { ROW_VECTORS = 8, ROW_BLOCK = 4096, COLUMN_BLOCK = 64 };

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

#define T float
#define ACCUMULATOR double
#define SUFFIX f32
#define LEAST (-HUGE_VALF)
#define MOST HUGE_VALF
#define INTEGER 0
#define TO_COMPUTE(value) GT_STORE_FROM(float32, value)
#include "kernels_typed.h"

#define T double
#define ACCUMULATOR double
#define SUFFIX f64
#define LEAST (-HUGE_VAL)
#define MOST HUGE_VAL
#define INTEGER 0
#define TO_COMPUTE(value) GT_STORE_FROM(float64, value)
#include "kernels_typed.h"

#define T int64_t
#define ACCUMULATOR int64_t
#define SUFFIX i64
#define LEAST INT64_MIN
#define MOST INT64_MAX
#define INTEGER 1
#define TO_COMPUTE(value) GT_STORE_FROM(int64, value)
#include "kernels_typed.h"

/* ---- sine and cosine of floats that may be huge ------------------------------------------------------------ */

/* The vector loop where every argument of a tile is within its range, the C library's function where not. */
static void within_limit(gt_elementwise_kernel fast, float (*slow)(float), float *out, const float *x,
                         int64_t count)
{
    for (int64_t i = 0; i < count; i += GT_TILE) {
        int64_t tile = count - i < GT_TILE ? count - i : GT_TILE;
        int beyond = 0;
        for (int64_t j = 0; j < tile; j++)
            beyond |= __builtin_fabsf(x[i + j]) > GT_SIN_LIMIT_F32;
        if (!beyond)
            fast(out + i, x + i, NULL, NULL, NULL, tile);
        else
            for (int64_t j = 0; j < tile; j++)
                out[i + j] = slow(x[i + j]);
    }
}

static void sin_any(void *out, const void *x, const void *y, const void *z, const double *pq, int64_t count)
{
    UNUSED(y), UNUSED(z), UNUSED(pq);
    within_limit(sin_f32, sinf, out, x, count);
}

static void cos_any(void *out, const void *x, const void *y, const void *z, const double *pq, int64_t count)
{
    UNUSED(y), UNUSED(z), UNUSED(pq);
    within_limit(cos_f32, cosf, out, x, count);
}

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
    [GT_OP_##name] = {[GT_COMPUTE_F32] = ENTRY(name, f32),                                                        \
                      [GT_COMPUTE_F64] = ENTRY(name, f64),                                                        \
                      [GT_COMPUTE_I64] = ENTRY(name, i64)},
#define ENTRIES_ARITH ENTRIES_NUM
#define ENTRIES_BOOL ENTRIES_NUM

#define BY_COMPUTE(name)                                                                                          \
    {                                                                                                             \
        [GT_COMPUTE_F32] = name##_f32, [GT_COMPUTE_F64] = name##_f64, [GT_COMPUTE_I64] = name##_i64               \
    }
#define LOAD_ENTRY(name, dtype, type) [dtype] = BY_COMPUTE(load_##name),
#define STORE_ENTRY(name, dtype, type) [dtype] = BY_COMPUTE(store_##name),
#define FOLD_ENTRIES(kind)                                                                                        \
    {                                                                                                             \
        [GT_FOLD_SUM] = BY_COMPUTE(kind##_sum), [GT_FOLD_PROD] = BY_COMPUTE(kind##_prod),                         \
        [GT_FOLD_MAX] = BY_COMPUTE(kind##_max), [GT_FOLD_MIN] = BY_COMPUTE(kind##_min),                           \
        [GT_FOLD_ANY] = BY_COMPUTE(kind##_any), [GT_FOLD_ALL] = BY_COMPUTE(kind##_all),                           \
        [GT_FOLD_SQUARES] = BY_COMPUTE(kind##_squares),                                                           \
    }

const gt_kernels GLUE(gt__kernels, GT_KERNELS) = {
    .name = TEXT(GT_KERNELS),
    .elementwise =
        {
#define UNARY(name, types, expr, grad) ENTRIES_##types(UNARY_ENTRY, name)
#define UNARY_PQ(name, types, expr, grad) ENTRIES_##types(UNARY_ENTRY, name)
#define BINARY(name, types, expr, grad) ENTRIES_##types(BINARY_ENTRY, name)
#define TERNARY(name, types, expr, grad) ENTRIES_##types(TERNARY_ENTRY, name)
#include "ops.def"
        },
    .cube = BY_COMPUTE(cube),
    .sin_any = sin_any,
    .cos_any = cos_any,
    .load = {GT_STORED_TYPES(LOAD_ENTRY)},
    .store = {GT_STORED_TYPES(STORE_ENTRY)},
    .fold_row = FOLD_ENTRIES(row),
    .fold_column = FOLD_ENTRIES(column),
    .argmax = BY_COMPUTE(argmax),
    .argmin = BY_COMPUTE(argmin),
};

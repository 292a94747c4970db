/*
 * kernels.h: the table of inner loops, one table per instruction set, chosen once when the engine opens.
 *
 * A kernel works on contiguous memory of one compute type: f32 (for float32, float16, bfloat16), f64, i64 (for every
 * integer and bool) or, elementwise and twice as fast, i32 (for all of them but int64). kernels.c is compiled once per
 * table; read it next.
 */
#ifndef GT_CPU_KERNELS_H
#define GT_CPU_KERNELS_H

#include "op.h"

typedef enum gt_compute { GT_COMPUTE_F32, GT_COMPUTE_F64, GT_COMPUTE_I64, GT_COMPUTE_I32, GT_COMPUTE_COUNT } gt_compute;

/* Elements in a tile: four tiles of the widest type stay in a 32 KiB L1 cache. */
enum { GT_TILE = 1024 };

/* Which operands are one value (broadcast) rather than a run: bit 0 is x, bit 1 is y, bit 2 is z. */
enum { GT_CONSTANT_X = 1, GT_CONSTANT_Y = 2, GT_CONSTANT_Z = 4, GT_CONSTANT_COUNT = 8 };

/* out[i] = f(x[i], y[i], z[i]; pq[0], pq[1]); BOOL rows write bytes 0 and 1. out may be x (or y, or z) itself. */
typedef void (*gt_elementwise_kernel)(void *out, const void *x, const void *y, const void *z, const double *pq,
                                      int64_t count);
typedef void (*gt_load_kernel)(void *tile, const void *from, int64_t stride, int64_t count);
typedef void (*gt_store_kernel)(void *to, int64_t stride, const void *tile, int64_t count);

/* What a reduction accumulates. Accumulators are double (f32, f64) or int64_t (i64), whatever is reduced. */
typedef enum gt_fold {
    GT_FOLD_SUM,
    GT_FOLD_PROD,
    GT_FOLD_MAX,
    GT_FOLD_MIN,
    GT_FOLD_ANY,
    GT_FOLD_ALL,
    GT_FOLD_SQUARES, /* the sum of (x - center)^2 */
    /* the others exist for f32 and f64 only */
    GT_FOLD_ABS, /* the sum of |x| */
    GT_FOLD_ABS_MAX,
    GT_FOLD_ABS_MIN,
    GT_FOLD_NONZERO, /* how many are not 0 */
    GT_FOLD_POWERS,  /* the sum of |x|^center */
    GT_FOLD_EXPS,    /* the sum of exp(x - center) */
    GT_FOLD_COUNT
} gt_fold;

/* accumulator[0] op= x[0..count) */
typedef void (*gt_fold_row_kernel)(void *accumulator, const void *x, int64_t count, const double *center);
/* accumulator[j] op= x[i * stride + j] for i < rows, j < count; count <= GT_TILE; center is per column */
typedef void (*gt_fold_column_kernel)(void *accumulator, const void *x, int64_t stride, int64_t rows,
                                      int64_t count, const double *center);
/* The first position at which x is its own maximum (or minimum), NaN counting as the extreme; count > 0. */
typedef int64_t (*gt_arg_kernel)(const void *x, int64_t count);

/* softmax of a line, or its logarithm; out may be x. Of `width` lines side by side: rows are `stride` elements apart. */
typedef void (*gt_softmax_row_kernel)(void *out, const void *x, int64_t count, bool logarithm);
typedef void (*gt_softmax_column_kernel)(void *out, int64_t out_stride, const void *x, int64_t stride, int64_t rows,
                                         int64_t width, bool logarithm);
/* The gradient of x from that of the result, g, and the result y; out may be g. All with the same strides but out. */
typedef void (*gt_softmax_backward_row_kernel)(void *out, const void *g, const void *y, int64_t count, bool logarithm);
enum { GT_SOFTMAX_COLUMNS = 64 };

typedef struct gt_kernels {
    const char *name;
    /* [opcode][compute][constants]; at least one operand is no constant, and a condition never is one */
    gt_elementwise_kernel elementwise[GT_OP_COUNT][GT_COMPUTE_COUNT][GT_CONSTANT_COUNT];
    gt_elementwise_kernel cube[GT_COMPUTE_COUNT];
    gt_elementwise_kernel guarded[GT_OP_COUNT]; /* f32: a faster loop for moderate arguments inside; NULL: there is none */
    gt_load_kernel load[GT_DTYPE_COUNT][GT_COMPUTE_COUNT];
    gt_store_kernel store[GT_DTYPE_COUNT][GT_COMPUTE_COUNT];
    gt_fold_row_kernel fold_row[GT_FOLD_COUNT][GT_COMPUTE_COUNT];
    gt_fold_column_kernel fold_column[GT_FOLD_COUNT][GT_COMPUTE_COUNT];
    gt_arg_kernel argmax[GT_COMPUTE_COUNT];
    gt_arg_kernel argmin[GT_COMPUTE_COUNT];
    gt_softmax_row_kernel softmax_row[GT_COMPUTE_COUNT]; /* f32 and f64, as the next two */
    gt_softmax_column_kernel softmax_column[GT_COMPUTE_COUNT];
    gt_softmax_backward_row_kernel softmax_backward_row[GT_COMPUTE_COUNT];
} gt_kernels;

extern const gt_kernels gt__kernels_baseline;
#if defined(__x86_64__)
extern const gt_kernels gt__kernels_avx2;
extern const gt_kernels gt__kernels_avx512;
#endif

/* The fastest table this machine can run. */
const gt_kernels *gt__kernels_choose(void);

#endif

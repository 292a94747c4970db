/*
 * kernels.h: the table of inner loops, one table per instruction set, chosen once when the engine opens.
 *
 * A kernel works on contiguous memory of one compute type: f32 (for float32, float16, bfloat16), f64, i64 (for every
 * integer and bool) or, for faster elementwise ops, i32 (for int32 and bool), i8 and u8 (8 bits in memory, 32-bit
 * arithmetic). kernels.c is compiled once per table; read it next.
 */
#ifndef GT_ENGINES_CPU_KERNELS_H
#define GT_ENGINES_CPU_KERNELS_H

#include "core/op.h"
#include "engines/cpu/parallel.h"
#include "engines/cpu/product_tile.h"

typedef enum gt_compute {
    GT_COMPUTE_F32,
    GT_COMPUTE_F64,
    GT_COMPUTE_I64,
    GT_COMPUTE_I32,
    GT_COMPUTE_I8,
    GT_COMPUTE_U8,
    GT_COMPUTE_COUNT
} gt_compute;

/* Elements in a tile: four tiles of the widest type stay in a 32 KiB L1 cache. */
enum { GT_TILE = 1024 };

/* Which operands are one value (broadcast) rather than a run: bit 0 is x, bit 1 is y, bit 2 is z. */
enum { GT_CONSTANT_X = 1, GT_CONSTANT_Y = 2, GT_CONSTANT_Z = 4, GT_CONSTANT_COUNT = 8 };

/* out[i] = f(x[i], y[i], z[i]; pq[0], pq[1]); BOOL rows write bytes 0 and 1. out may be x (or y, or z) itself. */
typedef void (*gt_elementwise_kernel)(void *out, const void *x, const void *y, const void *z, const double *pq,
                                      int64_t count);
typedef void (*gt_load_kernel)(void *tile, const void *from, int64_t stride, int64_t count);
typedef void (*gt_store_kernel)(void *to, int64_t stride, const void *tile, int64_t count);

/* What a reduction accumulates. Accumulators are double (f32, f64) or int64_t (i64). */
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
    GT_FOLD_NONZERO, /* the number of elements that are not 0 */
    GT_FOLD_POWERS,  /* the sum of |x|^center */
    GT_FOLD_EXPS,    /* the sum of exp(x - center) */
    GT_FOLD_COUNT
} gt_fold;

/* accumulator[0] op= x[0..count) */
typedef void (*gt_fold_row_kernel)(void *accumulator, const void *x, int64_t count, const double *center);
/* accumulator[j] op= x[i * stride + j] for i < rows, j < count; count <= GT_TILE; center is per column */
typedef void (*gt_fold_column_kernel)(void *accumulator, const void *x, int64_t stride, int64_t rows,
                                      int64_t count, const double *center);
/* out[j] = x[j] op x[stride + j] op ..., without accumulators: 0 < rows <= GT_FEW_ROWS, any count up to GT_TILE */
typedef void (*gt_fold_few_kernel)(void *out, const void *x, int64_t stride, int64_t rows, int64_t count);
enum { GT_FEW_ROWS = 64 };
/* The first position at which x is its own maximum (or minimum), NaN counting as the extreme; count > 0. */
typedef int64_t (*gt_arg_kernel)(const void *x, int64_t count);

/* For kernels that may take long: whether the work was cancelled. They ask every GT_LOOK_ELEMENTS elements, and return if so. */
typedef struct gt_look {
    gt_parallel *parallel;
    int64_t left; /* elements to the next look; 0: the work was cancelled */
} gt_look;
enum { GT_LOOK_ELEMENTS = 1 << 18 };

static inline bool gt__look_due(gt_look *look, int64_t elements)
{
    look->left -= elements;
    if (__builtin_expect(look->left > 0, 1))
        return false;
    if (gt__parallel_poll(look->parallel)) {
        look->left = 0;
        return true;
    }
    look->left = GT_LOOK_ELEMENTS;
    return false;
}

/* softmax of a line, or its logarithm; out is not x. Of `width` lines side by side: rows are `stride` elements apart. */
typedef void (*gt_softmax_row_kernel)(void *out, const void *x, int64_t count, bool logarithm, gt_look *look);
typedef void (*gt_softmax_column_kernel)(void *out, int64_t out_stride, const void *x, int64_t stride,
                                         int64_t rows, int64_t width, bool logarithm, gt_look *look);
/* The gradient of x from that of the result, g, and the result y; out may be g. All with the same strides but out. */
typedef void (*gt_softmax_backward_row_kernel)(void *out, const void *g, const void *y, int64_t count,
                                               bool logarithm, gt_look *look);
enum { GT_SOFTMAX_COLUMNS = 64 };
/* Layer normalisation of a line (norm.c), float and double. The gradient of x from that of the result, g; out may be g or x. */
typedef void (*gt_norm_row_kernel)(void *out, const void *x, const void *w, const void *b, double mean,
                                   double scale, int64_t count);
typedef void (*gt_norm_backward_row_kernel)(void *out, const void *g, const void *x, const void *w, double mean,
                                            double scale, int64_t count);
/* sums[j] += g[i][j] (x[i][j] - mean[i]) scale[i], over `rows` lines that are `stride` elements apart. */
typedef void (*gt_norm_weight_rows_kernel)(void *sums, const void *g, const void *x, int64_t stride,
                                           const double *mean, const double *scale, int64_t rows, int64_t width);
/* Convolutions (conv.h). One vector of neighbouring elements: its place in the planes (tap 0), and in the result or in the
 * other factor. */
typedef struct gt_conv_place {
    int64_t source;
    int64_t out;
    int32_t lanes; /* lanes in use */
} gt_conv_place;

/* out[channel][place] = start[channel] + sum over taps of weights[tap][channel] * source[offsets[tap] + place] */
typedef struct gt_conv_panel {
    const void *weights;    /* (taps, conv_channels), or (taps) for one channel */
    const int64_t *offsets; /* in bytes; all else counts in elements */
    int64_t taps;
    const void *source;
    const gt_conv_place *places;
    int64_t vectors;
    const void *start; /* conv_channels or 1 numbers, or NULL: 0 */
    void *out;
    int64_t channel_stride, step; /* of out: between channels, and between the elements of a vector */
    int channels;                 /* to store */
    bool add;                     /* add to out */
} gt_conv_panel;

/*
 * out[channel][tap] += the sum over places and their lanes of gradient * source[offsets[tap] + place.source + lane], where the
 * gradient is at (place.out + lane, channel) of (positions, conv_dot_channels); unused positions are zero.
 */
typedef struct gt_conv_dot {
    const void *gradient;
    int channels; /* to store */
    const void *source;
    const int64_t *offsets; /* in bytes */
    int64_t taps;
    const gt_conv_place *places;
    int64_t vectors;
    void *out;
    int64_t out_stride; /* between channels */
} gt_conv_dot;

/* [0]: conv_channels (conv_dot_channels) channels at a time; [1]: one */
typedef void (*gt_conv_panel_kernel)(const gt_conv_panel *panel);
typedef void (*gt_conv_dot_kernel)(const gt_conv_dot *dot);

/*
 * Pooling (pool.c). Windows of one axis: window o has the positions begin[o], begin[o] + step, ... before end[o], all inside.
 * If they are evenly spaced, position o * step_between + start[k] belongs to tap k of window o, for low[k] <= o < high[k].
 */
typedef struct gt_pool_axis {
    int64_t in, out;
    const int64_t *begin, *end;
    int64_t step;
    bool even;
    int64_t stride, taps;
    const int64_t *start, *low, *high;
} gt_pool_axis;

/* One plane x (in[0], in[1], in[2]) and its windows y (out[0], out[1], out[2]). */
/* best[o] = the largest of the window, arg[o] its flat position; -1, and the least number, for an empty one. arg may be NULL. */
typedef void (*gt_pool_max_kernel)(const gt_pool_axis *axes, const void *x, void *best, int32_t *arg,
                                   gt_look *look);
/* The gradient of x from that of the maxima, y. False: not for such windows, and nothing was written. */
typedef bool (*gt_pool_max_spread_kernel)(const gt_pool_axis *axes, const void *x, const void *y, void *out);
/* y[o] = the sum of the window; or, backward, x[i] += y[o] for every window o that contains i. */
typedef void (*gt_pool_sum_kernel)(const gt_pool_axis *axes, const void *x, void *y, gt_look *look);
typedef void (*gt_pool_spread_kernel)(const gt_pool_axis *axes, void *x, const void *y, gt_look *look);

/*
 * Several float32 steps that follow each other, in one loop. An operand of a step is the result of an earlier one (by its
 * number), an input (GT_COMPOUND_IN + its number) or the next number (GT_COMPOUND_NUMBER). Results that are not outputs are
 * not needed elsewhere. Each step rounds as it does alone. An output may replace an input.
 */
enum { GT_COMPOUND_STEPS = 13, GT_COMPOUND_INPUTS = 4, GT_COMPOUND_NUMBERS = 8, GT_COMPOUND_OUTPUTS = 3 };
enum { GT_COMPOUND_IN = 32, GT_COMPOUND_NUMBER = 64 };
typedef void (*gt_compound_kernel)(float *const *out, const float *const *in, const float *number, int64_t count);
typedef struct gt_compound {
    gt_compound_kernel kernel; /* NULL ends a list */
    uint8_t steps, inputs, numbers, outputs;
    struct {
        uint16_t op;
        uint8_t operand[2];
        bool output;
    } step[GT_COMPOUND_STEPS];
} gt_compound;

typedef struct gt_kernels {
    const char *name;
    const gt_compound *compounds;  /* longer ones first */
    const gt_product_tiles *tiles; /* of products of float32 matrices; NULL: none */
    /* [opcode][compute][constants]; at least one operand is not constant, and a condition never is */
    gt_elementwise_kernel elementwise[GT_OP_COUNT][GT_COMPUTE_COUNT][GT_CONSTANT_COUNT];
    gt_elementwise_kernel cube[GT_COMPUTE_COUNT];
    gt_elementwise_kernel guarded[GT_OP_COUNT]; /* f32: with a faster loop for moderate arguments; may be NULL */
    gt_load_kernel load[GT_DTYPE_COUNT][GT_COMPUTE_COUNT];
    gt_store_kernel store[GT_DTYPE_COUNT][GT_COMPUTE_COUNT];
    gt_fold_row_kernel fold_row[GT_FOLD_COUNT][GT_COMPUTE_COUNT];
    gt_fold_column_kernel fold_column[GT_FOLD_COUNT][GT_COMPUTE_COUNT];
    gt_fold_few_kernel fold_few[GT_FOLD_COUNT][GT_COMPUTE_COUNT];
    gt_arg_kernel argmax[GT_COMPUTE_COUNT];
    gt_arg_kernel argmin[GT_COMPUTE_COUNT];
    gt_softmax_row_kernel softmax_row[GT_COMPUTE_COUNT]; /* f32 and f64, as the next two */
    gt_softmax_column_kernel softmax_column[GT_COMPUTE_COUNT];
    gt_softmax_backward_row_kernel softmax_backward_row[GT_COMPUTE_COUNT];
    gt_norm_row_kernel norm_row[GT_COMPUTE_COUNT]; /* f32 and f64, as the next two */
    gt_norm_backward_row_kernel norm_backward_row[GT_COMPUTE_COUNT];
    gt_norm_weight_rows_kernel norm_weight_rows[GT_COMPUTE_COUNT];
    int vector_bytes, conv_channels, conv_dot_channels[GT_COMPUTE_COUNT];
    gt_conv_panel_kernel conv_panel[GT_COMPUTE_COUNT][2];
    gt_conv_dot_kernel conv_dot[GT_COMPUTE_COUNT][2];
    gt_pool_max_kernel pool_max[GT_COMPUTE_COUNT];
    gt_pool_max_spread_kernel pool_max_spread; /* f32 */
    gt_pool_sum_kernel pool_sum[GT_COMPUTE_COUNT];
    gt_pool_spread_kernel pool_spread[GT_COMPUTE_COUNT];
} gt_kernels;

extern const gt_kernels gt__kernels_baseline;
extern const gt_compound gt__compounds_baseline[];
#if defined(__x86_64__)
extern const gt_kernels gt__kernels_avx2;
extern const gt_kernels gt__kernels_avx512;
extern const gt_compound gt__compounds_avx2[];
extern const gt_compound gt__compounds_avx512[];
#endif

/* The fastest table this machine can run. */
const gt_kernels *gt__kernels_choose(void);

#endif

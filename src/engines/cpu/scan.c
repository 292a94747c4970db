/*
 * scan.c: cumsum, cumprod, logcumsumexp, cummax and cummin along an axis.
 *
 * Sums are kept wider than the result: double for float32, float for sums of the 16-bit floats, 64 bits for the integers.
 * Where the axis is the last in memory a line is one run; otherwise a group of neighbouring lines advances
 * together, one accumulator each, so that memory is walked in order and the additions vectorise. Threads share the
 * lines.
 */
#include <math.h>

#include "core/convert.h"
#include "engines/cpu/movement.h"

enum { GROUP = 256 };

/* A kernel takes `width` lines, to_step and from_step apart. */
typedef struct scanning scanning;
typedef void (*scan_kernel)(const scanning *s, void *to, int64_t to_step, const void *from, int64_t from_step,
                            int64_t width);

struct scanning {
    gt_loop lines; /* views: out, in */
    int64_t n;
    int64_t to_stride; /* along the axis */
    int64_t from_stride;
    gt_dtype to_dtype;
    gt_dtype from_dtype;
    char *to;
    char *from;
    scan_kernel kernel;
};

#define SCAN_KERNEL(scan, name, from_type, to_name, to_type, sum_type, first, STEP)                               \
    static void scan##_##name(const scanning *s, void *to, int64_t to_step, const void *from, int64_t from_step,  \
                              int64_t width)                                                                      \
    {                                                                                                             \
        sum_type sum[GROUP], one = (sum_type)(first);                                                             \
        to_type *t = to;                                                                                          \
        const from_type *f = from;                                                                                \
        for (int64_t k = 0; width == 1 && k < s->n; k++) { /* one line: the sum stays in a register */            \
            one = STEP(one, (sum_type)gt__load_##name(f[k * s->from_stride]));                                    \
            t[k * s->to_stride] = GT_STORE_FROM(to_name, one);                                                    \
        }                                                                                                         \
        for (int64_t j = 0; j < width; j++)                                                                       \
            sum[j] = (sum_type)(first);                                                                           \
        for (int64_t k = 0; width > 1 && k < s->n; k++, t += s->to_stride, f += s->from_stride) {                 \
            for (int64_t j = 0; j < width; j++) {                                                                 \
                sum[j] = STEP(sum[j], (sum_type)gt__load_##name(f[j * from_step]));                               \
                t[j * to_step] = GT_STORE_FROM(to_name, sum[j]);                                                  \
            }                                                                                                     \
        }                                                                                                         \
    }

/* log(exp(a) + exp(x)); the difference of equal infinities is NaN, but their result is the infinity. */
static inline double log_add_exp(double a, double x)
{
    double most = a > x || a != a ? a : x, least = a > x || a != a ? x : a;
    return isinf(most) && most == least ? most : most + log1p(exp(least - most));
}

#define ADD(a, x) ((a) + (x))
#define MULTIPLY(a, x) ((a) * (x))
#define ACCUMULATE(scan, half, first, STEP)                                                                       \
    SCAN_KERNEL(scan, boolean, uint8_t, int64, int64_t, uint64_t, first, STEP)                                    \
    SCAN_KERNEL(scan, uint8, uint8_t, int64, int64_t, uint64_t, first, STEP)                                      \
    SCAN_KERNEL(scan, int8, int8_t, int64, int64_t, uint64_t, first, STEP)                                        \
    SCAN_KERNEL(scan, int16, int16_t, int64, int64_t, uint64_t, first, STEP)                                      \
    SCAN_KERNEL(scan, int32, int32_t, int64, int64_t, uint64_t, first, STEP)                                      \
    SCAN_KERNEL(scan, int64, int64_t, int64, int64_t, uint64_t, first, STEP)                                      \
    SCAN_KERNEL(scan, float16, uint16_t, float16, uint16_t, half, first, STEP)                                    \
    SCAN_KERNEL(scan, bfloat16, uint16_t, bfloat16, uint16_t, half, first, STEP)                                  \
    SCAN_KERNEL(scan, float32, float, float32, float, double, first, STEP)                                        \
    SCAN_KERNEL(scan, float64, double, float64, double, double, first, STEP)
ACCUMULATE(cumsum, float, 0, ADD)
ACCUMULATE(cumprod, double, 1,
           MULTIPLY) /* in double: a product may leave float's (and bfloat16's) range and come back */
SCAN_KERNEL(logcumsumexp, boolean, uint8_t, float32, float, double, -HUGE_VAL, log_add_exp)
SCAN_KERNEL(logcumsumexp, uint8, uint8_t, float32, float, double, -HUGE_VAL, log_add_exp)
SCAN_KERNEL(logcumsumexp, int8, int8_t, float32, float, double, -HUGE_VAL, log_add_exp)
SCAN_KERNEL(logcumsumexp, int16, int16_t, float32, float, double, -HUGE_VAL, log_add_exp)
SCAN_KERNEL(logcumsumexp, int32, int32_t, float32, float, double, -HUGE_VAL, log_add_exp)
SCAN_KERNEL(logcumsumexp, int64, int64_t, float32, float, double, -HUGE_VAL, log_add_exp)
SCAN_KERNEL(logcumsumexp, float16, uint16_t, float16, uint16_t, double, -HUGE_VAL, log_add_exp)
SCAN_KERNEL(logcumsumexp, bfloat16, uint16_t, bfloat16, uint16_t, double, -HUGE_VAL, log_add_exp)
SCAN_KERNEL(logcumsumexp, float32, float, float32, float, double, -HUGE_VAL, log_add_exp)
SCAN_KERNEL(logcumsumexp, float64, double, float64, double, double, -HUGE_VAL, log_add_exp)

/* cummax, cummin: the position of the extreme so far; the last of equals, and NaN is the extreme. */
#define EXTREME_KERNEL(scan, name, type, beats)                                                                   \
    static void scan##_##name(const scanning *s, void *to, int64_t to_step, const void *from, int64_t from_step,  \
                              int64_t width)                                                                      \
    {                                                                                                             \
        for (int64_t j = 0; j < width; j++) {                                                                     \
            int64_t *t = (int64_t *)to + j * to_step, best = 0;                                                   \
            const type *f = (const type *)from + j * from_step;                                                   \
            for (int64_t k = 0; k < s->n; k++) {                                                                  \
                __typeof__(gt__load_##name(*f)) x = gt__load_##name(f[k * s->from_stride]);                       \
                __typeof__(x) a = gt__load_##name(f[best * s->from_stride]);                                      \
                best = x beats a || x != x ? k : best;                                                            \
                t[k * s->to_stride] = best;                                                                       \
            }                                                                                                     \
        }                                                                                                         \
    }
#define CUMMAX_KERNEL(name, dtype, type) EXTREME_KERNEL(cummax, name, type, >=)
#define CUMMIN_KERNEL(name, dtype, type) EXTREME_KERNEL(cummin, name, type, <=)
GT_STORED_TYPES(CUMMAX_KERNEL)
GT_STORED_TYPES(CUMMIN_KERNEL)

static scan_kernel choose_kernel(gt_opcode op, gt_dtype dtype)
{
#define SCAN_ENTRIES(scan)                                                                                        \
    static const scan_kernel scan##_kernels[] = {                                                                 \
        [GT_BOOL] = scan##_boolean,    [GT_UINT8] = scan##_uint8,       [GT_INT8] = scan##_int8,                  \
        [GT_INT16] = scan##_int16,     [GT_INT32] = scan##_int32,       [GT_INT64] = scan##_int64,                \
        [GT_FLOAT16] = scan##_float16, [GT_BFLOAT16] = scan##_bfloat16, [GT_FLOAT32] = scan##_float32,            \
        [GT_FLOAT64] = scan##_float64};
    SCAN_ENTRIES(cumsum)
    SCAN_ENTRIES(cumprod)
    SCAN_ENTRIES(logcumsumexp)
    SCAN_ENTRIES(cummax)
    SCAN_ENTRIES(cummin)
    return op == GT_OP_cumsum         ? cumsum_kernels[dtype]
           : op == GT_OP_cumprod      ? cumprod_kernels[dtype]
           : op == GT_OP_logcumsumexp ? logcumsumexp_kernels[dtype]
           : op == GT_OP_cummax       ? cummax_kernels[dtype]
                                      : cummin_kernels[dtype];
}

/* Positions are lines. */
static void scan_lines(void *context, int64_t begin, int64_t end)
{
    const scanning *s = context;
    int last = s->lines.rank - 1;
    int64_t side_by_side = s->to_stride == 1 ? 1 : GROUP;
    while (begin < end) {
        int64_t offset[GT_LOOP_VIEWS];
        int64_t width = s->lines.shape[last] - begin % s->lines.shape[last];
        width = gt__min(gt__min(width, side_by_side), end - begin);
        gt__loop_offsets(&s->lines, s->lines.rank, begin, offset);
        s->kernel(s, gt__at(s->to, s->to_dtype, offset[0]), s->lines.stride[0][last],
                  gt__at(s->from, s->from_dtype, offset[1]), s->lines.stride[1][last], width);
        begin += width;
    }
}

gt_err gt__cpu_scan(gt_engine *engine, const gt_call *call)
{
    const gt_view *in = call->in[0], *out = call->out;
    int64_t axis = call->ins->imm[0].i;
    scanning s = {
        .n = gt__view_size(in, axis),
        .to_stride = gt__view_stride(out, axis),
        .from_stride = gt__view_stride(in, axis),
        .to_dtype = (gt_dtype)out->meta.dtype,
        .from_dtype = (gt_dtype)in->meta.dtype,
        .to = out->data,
        .from = in->data,
        .kernel = choose_kernel(call->op, (gt_dtype)in->meta.dtype),
    };
    if (out->meta.numel == 0)
        return GT_OK;
    int64_t count = gt__lines_start(&s.lines, &in->meta, axis);
    gt__lines_add(&s.lines, out, axis);
    gt__lines_add(&s.lines, in, axis);
    gt__loop_collapse(&s.lines);
    gt_cpu *cpu = gt__cpu(engine);
    int64_t grain = s.to_stride == 1 ? gt__grain(s.n) : gt__lines_across(cpu, count, s.n);
    gt__parallel_for(cpu->parallel, count, grain, scan_lines, &s);
    return GT_OK;
}

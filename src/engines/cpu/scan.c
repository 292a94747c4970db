/*
 * scan.c: cumsum, cumprod, logcumsumexp, cummax and cummin along an axis.
 *
 * Sums are kept wider than the result: double for the floats, 64 bits for the integers.
 * Where the axis is the last in memory a line is one run, and a few lines advance together, because each addition waits
 * for the one before it. Few long lines are cut into segments for cumsum: their sums say where each segment starts.
 * Otherwise a group of neighbouring lines advances together, one accumulator each, so that memory is walked in order
 * and the additions vectorise. Threads share the lines.
 */
#include <math.h>
#include <stdlib.h>

#include "core/convert.h"
#include "engines/cpu/box.h"
#include "engines/cpu/movement.h"

enum {
    GROUP = 256,
    SEGMENT = 8192,    /* elements */
    ENOUGH_LINES = 32, /* for any number of threads: fewer long lines are cut into segments */
    POLL = 1 << 18     /* elements between two looks whether the work was cancelled */
};

/* A kernel takes `width` lines, to_step and from_step apart. */
typedef struct scanning scanning;
typedef void (*scan_kernel)(const scanning *s, void *to, int64_t to_step, const void *from, int64_t from_step,
                            int64_t width);
/* Lines of `count` neighbouring elements. sums: where each begins, and then ends, as the kernel's sum type; or NULL. */
typedef void (*dense_kernel)(void *to, int64_t to_step, const void *from, int64_t from_step, int64_t width,
                             int64_t count, void *sums);
typedef union total {
    double f64;
    uint64_t u64;
} total;
typedef void (*total_kernel)(const void *from, int64_t count, void *result);

struct scanning {
    const gt_cpu *cpu;
    gt_loop lines; /* views: out, in */
    int64_t n;
    int64_t to_stride; /* along the axis */
    int64_t from_stride;
    gt_dtype to_dtype;
    gt_dtype from_dtype;
    char *to;
    char *from;
    scan_kernel kernel;
    dense_kernel dense; /* NULL: the other */
    dense_kernel wide;  /* of doubles, for tiles of them; or NULL */
    total first;        /* where a line begins */
    /* lines in segments */
    total_kernel total;
    int64_t segments; /* of a line; 0: whole lines */
    total *starts;    /* (lines, segments) */
};

#define SCAN_KERNEL(scan, name, from_type, to_name, to_type, sum_type, first, STEP)                               \
    static void scan##_##name(const scanning *s, void *to, int64_t to_step, const void *from, int64_t from_step,  \
                              int64_t width)                                                                      \
    {                                                                                                             \
        sum_type sum[GROUP];                                                                                      \
        to_type *t = to;                                                                                          \
        const from_type *f = from;                                                                                \
        for (int64_t j = 0; j < width; j++)                                                                       \
            sum[j] = (sum_type)(first);                                                                           \
        int64_t left = POLL / width;                                                                              \
        for (int64_t k = 0; k < s->n; k++, t += s->to_stride, f += s->from_stride) {                              \
            if (--left == 0) {                                                                                    \
                left = POLL / width;                                                                              \
                if (gt__parallel_poll(s->cpu->parallel))                                                          \
                    return;                                                                                       \
            }                                                                                                     \
            for (int64_t j = 0; j < width; j++) {                                                                 \
                sum[j] = STEP(sum[j], (sum_type)gt__load_##name(f[j * from_step]));                               \
                t[j * to_step] = GT_STORE_FROM(to_name, sum[j]);                                                  \
            }                                                                                                     \
        }                                                                                                         \
    }                                                                                                             \
    static void scan##_dense_##name(void *to, int64_t to_step, const void *from, int64_t from_step,               \
                                    int64_t width, int64_t count, void *sums)                                     \
    {                                                                                                             \
        sum_type *starts = sums;                                                                                  \
        int64_t j = 0;                                                                                            \
        for (; j + 4 <= width; j += 4) {                                                                          \
            const from_type *f = (const from_type *)from + j * from_step, *g = f + from_step, *h = g + from_step, \
                            *i = h + from_step;                                                                   \
            to_type *restrict t = (to_type *)to + j * to_step, *restrict u = t + to_step,                         \
                              *restrict v = u + to_step, *restrict w = v + to_step;                               \
            sum_type a = (sum_type)(first), b = a, c = a, d = a;                                                  \
            if (starts)                                                                                           \
                a = starts[j], b = starts[j + 1], c = starts[j + 2], d = starts[j + 3];                           \
            for (int64_t k = 0; k < count; k++) {                                                                 \
                a = STEP(a, (sum_type)gt__load_##name(f[k]));                                                     \
                b = STEP(b, (sum_type)gt__load_##name(g[k]));                                                     \
                c = STEP(c, (sum_type)gt__load_##name(h[k]));                                                     \
                d = STEP(d, (sum_type)gt__load_##name(i[k]));                                                     \
                t[k] = GT_STORE_FROM(to_name, a);                                                                 \
                u[k] = GT_STORE_FROM(to_name, b);                                                                 \
                v[k] = GT_STORE_FROM(to_name, c);                                                                 \
                w[k] = GT_STORE_FROM(to_name, d);                                                                 \
            }                                                                                                     \
            if (starts)                                                                                           \
                starts[j] = a, starts[j + 1] = b, starts[j + 2] = c, starts[j + 3] = d;                           \
        }                                                                                                         \
        for (; j < width; j++) {                                                                                  \
            const from_type *f = (const from_type *)from + j * from_step;                                         \
            to_type *t = (to_type *)to + j * to_step;                                                             \
            sum_type a = starts ? starts[j] : (sum_type)(first);                                                  \
            for (int64_t k = 0; k < count; k++) {                                                                 \
                a = STEP(a, (sum_type)gt__load_##name(f[k]));                                                     \
                t[k] = GT_STORE_FROM(to_name, a);                                                                 \
            }                                                                                                     \
            if (starts)                                                                                           \
                starts[j] = a;                                                                                    \
        }                                                                                                         \
    }

/* The sum of a segment. */
#define TOTAL_KERNEL(name, from_type, sum_type)                                                                   \
    static void total_##name(const void *from, int64_t count, void *result)                                       \
    {                                                                                                             \
        enum { PARTS = 8 };                                                                                       \
        const from_type *f = from;                                                                                \
        sum_type part[PARTS] = {0}, sum = 0;                                                                      \
        int64_t k = 0;                                                                                            \
        for (; k + PARTS <= count; k += PARTS)                                                                    \
            for (int p = 0; p < PARTS; p++)                                                                       \
                part[p] += (sum_type)gt__load_##name(f[k + p]);                                                   \
        for (int p = 0; p < PARTS; p++)                                                                           \
            sum += part[p];                                                                                       \
        for (; k < count; k++)                                                                                    \
            sum += (sum_type)gt__load_##name(f[k]);                                                               \
        *(sum_type *)result = sum;                                                                                \
    }
TOTAL_KERNEL(boolean, uint8_t, uint64_t)
TOTAL_KERNEL(uint8, uint8_t, uint64_t)
TOTAL_KERNEL(int8, int8_t, uint64_t)
TOTAL_KERNEL(int16, int16_t, uint64_t)
TOTAL_KERNEL(int32, int32_t, uint64_t)
TOTAL_KERNEL(int64, int64_t, uint64_t)
TOTAL_KERNEL(float16, uint16_t, double)
TOTAL_KERNEL(bfloat16, uint16_t, double)
TOTAL_KERNEL(float32, float, double)
TOTAL_KERNEL(float64, double, double)

/* log(exp(a) + exp(x)); the difference of equal infinities is NaN, but their result is the infinity. */
static inline double log_add_exp(double a, double x)
{
    double most = a > x || a != a ? a : x, least = a > x || a != a ? x : a;
    return isinf(most) && most == least ? most : most + log1p(exp(least - most));
}

#define ADD(a, x) ((a) + (x))
#define MULTIPLY(a, x) ((a) * (x))
#define ACCUMULATE(scan, first, STEP)                                                                             \
    SCAN_KERNEL(scan, boolean, uint8_t, int64, int64_t, uint64_t, first, STEP)                                    \
    SCAN_KERNEL(scan, uint8, uint8_t, int64, int64_t, uint64_t, first, STEP)                                      \
    SCAN_KERNEL(scan, int8, int8_t, int64, int64_t, uint64_t, first, STEP)                                        \
    SCAN_KERNEL(scan, int16, int16_t, int64, int64_t, uint64_t, first, STEP)                                      \
    SCAN_KERNEL(scan, int32, int32_t, int64, int64_t, uint64_t, first, STEP)                                      \
    SCAN_KERNEL(scan, int64, int64_t, int64, int64_t, uint64_t, first, STEP)                                      \
    SCAN_KERNEL(scan, float16, uint16_t, float16, uint16_t, double, first, STEP)                                  \
    SCAN_KERNEL(scan, bfloat16, uint16_t, bfloat16, uint16_t, double, first, STEP)                                \
    SCAN_KERNEL(scan, float32, float, float32, float, double, first, STEP)                                        \
    SCAN_KERNEL(scan, float64, double, float64, double, double, first, STEP)
ACCUMULATE(cumsum, 0, ADD)
ACCUMULATE(cumprod, 1, MULTIPLY) /* a product may leave the range of a narrower type and come back */
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
            for (int64_t k = 0; k < s->n;) {                                                                      \
                if (k && gt__parallel_poll(s->cpu->parallel))                                                     \
                    return;                                                                                       \
                for (int64_t end = gt__min(s->n, k + POLL); k < end; k++) {                                       \
                    __typeof__(gt__load_##name(*f)) x = gt__load_##name(f[k * s->from_stride]);                   \
                    __typeof__(x) a = gt__load_##name(f[best * s->from_stride]);                                  \
                    best = x beats a || x != x ? k : best;                                                        \
                    t[k * s->to_stride] = best;                                                                   \
                }                                                                                                 \
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

/* NULL for cummax and cummin. */
static dense_kernel choose_dense(gt_opcode op, gt_dtype dtype)
{
#define DENSE_ENTRY(name, dtype, type)                                                                            \
    [dtype] = {cumsum_dense_##name, cumprod_dense_##name, logcumsumexp_dense_##name},
    static const dense_kernel kernels[GT_DTYPE_COUNT][3] = {GT_STORED_TYPES(DENSE_ENTRY)};
    return op == GT_OP_cumsum         ? kernels[dtype][0]
           : op == GT_OP_cumprod      ? kernels[dtype][1]
           : op == GT_OP_logcumsumexp ? kernels[dtype][2]
                                      : NULL;
}

static total_kernel choose_total(gt_dtype dtype)
{
#define TOTAL_ENTRY(name, dtype, type) [dtype] = total_##name,
    static const total_kernel kernels[GT_DTYPE_COUNT] = {GT_STORED_TYPES(TOTAL_ENTRY)};
    return kernels[dtype];
}

/* ---- tiles -------------------------------------------------------------------------------------------------- */

/*
 * Lines of narrow floats, through tiles of doubles: the conversions vectorise, and only the additions wait for one another.
 * Short lines fill a tile together; of longer ones, a few advance by pieces.
 */
static void scan_tiles(const scanning *s, char *to, int64_t to_step, const char *from, int64_t from_step,
                       int64_t width, int64_t count, total *start)
{
    enum { TOGETHER = 4 };
    _Alignas(64) double in[GT_TILE], out[GT_TILE];
    int64_t piece = gt__min(count, GT_TILE / TOGETHER), most = count <= piece ? GT_TILE / piece : TOGETHER;
    int64_t from_size = (int64_t)gt__dtype_size(s->from_dtype), to_size = (int64_t)gt__dtype_size(s->to_dtype);
    for (int64_t lines; width > 0; width -= lines, to += lines * to_step * to_size) {
        total carry[TOGETHER];
        lines = gt__min(width, most);
        for (int64_t k = 0; k < count; k += piece) {
            int64_t part = gt__min(piece, count - k);
            gt_box box;
            if (k % POLL < piece && k && gt__parallel_poll(s->cpu->parallel))
                return;
            gt__box_set(&box, 2, (int64_t[]){lines, part}, (int64_t[]){from_step, 1});
            gt__box_load(s->cpu, GT_COMPUTE_F64, s->from_dtype, &box, from + k * from_size, in);
            s->wide(out, part, in, part, lines, part, k ? carry : start);
            for (int64_t j = 0; j < lines && count > piece; j++)
                carry[j].f64 = out[(j + 1) * part - 1];
            gt__box_set(&box, 2, (int64_t[]){lines, part}, (int64_t[]){to_step, 1});
            gt__box_store(s->cpu, GT_COMPUTE_F64, s->to_dtype, &box, out, to + k * to_size);
        }
        from += lines * from_step * from_size;
        start = start ? start + lines : NULL;
    }
}

/* A piece of each line after the other, so that cancelled work ends. */
static void scan_pieces(const scanning *s, char *to, int64_t to_step, const char *from, int64_t from_step,
                        int64_t width, int64_t count)
{
    total sums[GROUP];
    int64_t from_size = (int64_t)gt__dtype_size(s->from_dtype), to_size = (int64_t)gt__dtype_size(s->to_dtype);
    int64_t piece = POLL / width;
    for (int64_t j = 0; j < width; j++)
        sums[j] = s->first;
    for (int64_t k = 0; k < count; k += piece) {
        if (k && gt__parallel_poll(s->cpu->parallel))
            return;
        s->dense(to + k * to_size, to_step, from + k * from_size, from_step, width, gt__min(piece, count - k),
                 sums);
    }
}

/* At most GROUP lines. */
static void scan_dense(const scanning *s, void *to, int64_t to_step, const void *from, int64_t from_step,
                       int64_t width, int64_t count, total *start)
{
    bool one_by_one = width < 4 && s->from_dtype == GT_FLOAT32; /* there is nothing to do during an addition */
    if (s->wide && !one_by_one)
        scan_tiles(s, to, to_step, from, from_step, width, count, start);
    else if (!start && count * width > POLL)
        scan_pieces(s, to, to_step, from, from_step, width, count);
    else
        s->dense(to, to_step, from, from_step, width, count, start);
}

/* ---- segments ----------------------------------------------------------------------------------------------- */

/* Positions are segments of all lines. Sum each but the last of a line, whose sum is not needed. */
static void sum_segments(void *context, int64_t begin, int64_t end)
{
    const scanning *s = context;
    for (; begin < end; begin++) {
        int64_t line = begin / s->segments, number = begin % s->segments, offset[GT_LOOP_VIEWS];
        if (number == s->segments - 1)
            continue;
        gt__loop_offsets(&s->lines, s->lines.rank, line, offset);
        s->total(gt__at(s->from, s->from_dtype, offset[1] + number * SEGMENT), SEGMENT, s->starts + begin);
    }
}

/* The sums of all segments before each, in place of its own. */
static void find_starts(const scanning *s, int64_t lines)
{
    for (int64_t line = 0; line < lines; line++) {
        total *start = s->starts + line * s->segments, sum = {0};
        for (int64_t k = 0; k < s->segments; k++) {
            total own = start[k];
            start[k] = sum;
            if (s->from_dtype >= GT_FLOAT16)
                sum.f64 += own.f64;
            else
                sum.u64 += own.u64;
        }
    }
}

static void scan_segments(void *context, int64_t begin, int64_t end)
{
    const scanning *s = context;
    for (int64_t width; begin < end; begin += width) {
        int64_t line = begin / s->segments, number = begin % s->segments, offset[GT_LOOP_VIEWS];
        int64_t whole = s->n / SEGMENT - number; /* segments that are not cut short */
        width = whole > 0 ? gt__min(whole, end - begin) : 1;
        gt__loop_offsets(&s->lines, s->lines.rank, line, offset);
        scan_dense(s, gt__at(s->to, s->to_dtype, offset[0] + number * SEGMENT), SEGMENT,
                   gt__at(s->from, s->from_dtype, offset[1] + number * SEGMENT), SEGMENT, width,
                   whole > 0 ? SEGMENT : s->n % SEGMENT, s->starts + begin);
    }
}

static gt_err run_segments(gt_cpu *cpu, scanning *s, int64_t lines)
{
    void *starts = NULL;
    s->segments = (s->n + SEGMENT - 1) / SEGMENT;
    GT_TRY(gt__cpu_scratch(cpu, (size_t)(lines * s->segments) * sizeof *s->starts, &starts));
    s->starts = starts;
    gt__parallel_for(cpu->parallel, lines * s->segments, 4, sum_segments, s);
    for (int64_t line = 0; line < lines; line++) /* its sum is not needed, but it is read */
        s->starts[(line + 1) * s->segments - 1] = (total){0};
    find_starts(s, lines);
    gt__parallel_for(cpu->parallel, lines * s->segments, 4, scan_segments, s);
    free(starts);
    return GT_OK;
}

/* ---- lines -------------------------------------------------------------------------------------------------- */

/* Positions are lines. */
static void scan_lines(void *context, int64_t begin, int64_t end)
{
    const scanning *s = context;
    int last = s->lines.rank - 1;
    while (begin < end) {
        int64_t offset[GT_LOOP_VIEWS];
        int64_t width = s->lines.shape[last] - begin % s->lines.shape[last];
        width = gt__min(gt__min(width, GROUP), end - begin);
        gt__loop_offsets(&s->lines, s->lines.rank, begin, offset);
        void *to = gt__at(s->to, s->to_dtype, offset[0]), *from = gt__at(s->from, s->from_dtype, offset[1]);
        if (s->dense)
            scan_dense(s, to, s->lines.stride[0][last], from, s->lines.stride[1][last], width, s->n, NULL);
        else
            s->kernel(s, to, s->lines.stride[0][last], from, s->lines.stride[1][last], width);
        begin += width;
        if (begin < end && s->n * width > GT_CPU_GRAIN && gt__parallel_poll(s->cpu->parallel))
            return;
    }
}

gt_err gt__cpu_scan(gt_engine *engine, const gt_call *call)
{
    const gt_view *in = call->in[0], *out = call->out;
    int64_t axis = call->ins->imm[0].i;
    scanning s = {
        .cpu = gt__cpu(engine),
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
    if (s.to_stride == 1 && s.from_stride == 1)
        s.dense = choose_dense(call->op, s.from_dtype);
    bool narrow = s.from_dtype == GT_FLOAT16 || s.from_dtype == GT_BFLOAT16 || s.from_dtype == GT_FLOAT32;
    if (call->op == GT_OP_logcumsumexp)
        s.first.f64 = -HUGE_VAL;
    else if (call->op == GT_OP_cumprod && s.from_dtype >= GT_FLOAT16)
        s.first.f64 = 1;
    else if (call->op == GT_OP_cumprod)
        s.first.u64 = 1;
    if (s.dense && narrow && call->op != GT_OP_logcumsumexp)
        s.wide = choose_dense(call->op, GT_FLOAT64);
    if (s.dense && call->op == GT_OP_cumsum && s.n >= 4 * SEGMENT && count < ENOUGH_LINES) {
        s.total = choose_total(s.from_dtype);
        return run_segments(cpu, &s, count);
    }
    int64_t grain = s.to_stride == 1 ? gt__grain(s.n) : gt__lines_across(cpu, count, s.n);
    gt__parallel_for(cpu->parallel, count, grain, scan_lines, &s);
    return GT_OK;
}

/*
 * pool.c: runs MAX_POOL, MAX_INDEX and POOL: maxima and averages of windows, and their gradients.
 *
 * The windows of each axis are computed once; then threads take whole planes, and the kernels of
 * kernels_pool_template.h do one plane each. The gradient finds the position of each maximum again, from x: that is
 * cheaper than to keep it.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engines/cpu/movement.h"
#include "core/window.h"

typedef struct pooling {
    gt_cpu *cpu;
    gt_opcode op;
    gt_compute compute;
    gt_pool_axis axis[GT_MAX_SPATIAL];
    double *divisors[GT_MAX_SPATIAL]; /* of each window, along each axis; a window's divisor is their product */
    double divisor;                   /* replaces the divisors if not 0 */
    void *memory;                     /* of the arrays above */
    int64_t planes, x_plane, y_plane; /* elements of x and y in a plane */
    const char *a, *x;
    char *out;
    bool empty;         /* some window has no elements */
    atomic_bool failed; /* no memory for a plane */
} pooling;

/* ---- windows ----------------------------------------------------------------------------------------------- */

/* Window o, clipped to the axis; an empty one has begin >= end. */
static void clip(const gt_window *w, int axis, int64_t o, int64_t in, int64_t out, int64_t *begin, int64_t *end)
{
    if (w->kernel[axis] == 0) {
        *begin = o * in / out;
        *end = ((o + 1) * in + out - 1) / out;
        return;
    }
    int64_t step = w->dilation[axis], first = o * w->stride[axis] - w->padding[axis];
    *end = gt__min(first + (w->kernel[axis] - 1) * step + 1, in);
    *begin = first < 0 ? first + (-first + step - 1) / step * step : first;
}

/* The divisor of an average, along one axis. As in PyTorch, positions further behind the end than `padding` never
 * count. */
static double count_along(const gt_window *w, int axis, int64_t o, int64_t in, int64_t begin, int64_t end)
{
    if (w->kernel[axis] == 0 || !w->count_padding)
        return (double)(end - begin);
    int64_t first = o * w->stride[axis] - w->padding[axis];
    return (double)(gt__min(first + w->kernel[axis], in + w->padding[axis]) - first);
}

static int64_t ceil_divided(int64_t a, int64_t b)
{
    return a > 0 ? (a + b - 1) / b : 0;
}

/* The taps of evenly spaced windows that are inside for some window, and for which. */
static void set_taps(gt_pool_axis *a, const gt_window *w, int axis, int64_t *start, int64_t *low, int64_t *high)
{
    int64_t step = w->dilation[axis], padding = w->padding[axis], furthest = (a->out - 1) * a->stride - padding;
    int64_t first = ceil_divided(-furthest, step), behind = ceil_divided(a->in + padding, step);
    for (int64_t k = first; k < gt__min(w->kernel[axis], behind); k++) {
        int64_t at = k * step - padding, from = ceil_divided(-at, a->stride);
        int64_t to = gt__min(ceil_divided(a->in - at, a->stride), a->out);
        if (from >= to)
            continue;
        start[a->taps] = at;
        low[a->taps] = from;
        high[a->taps++] = to;
    }
}

/* The most taps that set_taps can find. */
static int64_t tap_room(const gt_window *w, int axis, int64_t in, int64_t out)
{
    int64_t reach = in + (out > 0 ? (out - 1) * w->stride[axis] : 0);
    return w->kernel[axis] ? gt__min(w->kernel[axis], reach / w->dilation[axis] + 2) : 0;
}

/* Missing axes, in front, are of size 1 with windows of 1. */
static gt_window three_axes(const gt_window *given, int spatial)
{
    int missing = GT_MAX_SPATIAL - spatial;
    gt_window w = *given;
    for (int axis = 0; axis < GT_MAX_SPATIAL; axis++) {
        bool real = axis >= missing;
        w.kernel[axis] = real ? given->kernel[axis - missing] : 1;
        w.stride[axis] = real ? given->stride[axis - missing] : 1;
        w.padding[axis] = real ? given->padding[axis - missing] : 0;
        w.dilation[axis] = real ? given->dilation[axis - missing] : 1;
    }
    return w;
}

static void set_windows(pooling *p, const gt_window *w, int axis, int64_t **numbers)
{
    gt_pool_axis *a = &p->axis[axis];
    int64_t room = tap_room(w, axis, a->in, a->out);
    int64_t *begin = *numbers, *end = begin + a->out, *start = end + a->out, *low = start + room,
            *high = low + room;
    double *divisors = (double *)(high + room);
    a->begin = begin;
    a->end = end;
    a->step = w->kernel[axis] ? w->dilation[axis] : 1;
    a->stride = w->stride[axis];
    a->even = w->kernel[axis] > 0;
    a->start = start;
    a->low = low;
    a->high = high;
    for (int64_t o = 0; o < a->out; o++) {
        clip(w, axis, o, a->in, a->out, &begin[o], &end[o]);
        divisors[o] = count_along(w, axis, o, a->in, begin[o], end[o]);
        p->empty |= begin[o] >= end[o];
    }
    if (a->even && a->out > 0)
        set_taps(a, w, axis, start, low, high);
    p->divisors[axis] = divisors;
    *numbers = (int64_t *)(divisors + a->out);
}

/* x and y have the same rank: the last `spatial` axes of x are divided into the windows that y has. */
static gt_err plan(pooling *p, const gt_call *call, const gt_meta *x, const gt_meta *y)
{
    int spatial = call->ins->rank, kept = x->rank - spatial;
    gt_window given = gt__window_read(call->tail), w = three_axes(&given, spatial);
    int64_t numbers = 0;
    p->divisor = (double)w.divisor;
    p->planes = p->x_plane = p->y_plane = 1;
    for (int axis = 0; axis < kept; axis++)
        p->planes *= x->shape[axis];
    for (int axis = 0; axis < GT_MAX_SPATIAL; axis++) {
        gt_pool_axis *a = &p->axis[axis];
        int from = axis - (GT_MAX_SPATIAL - spatial);
        a->in = from < 0 ? 1 : x->shape[kept + from];
        a->out = from < 0 ? 1 : y->shape[kept + from];
        p->x_plane *= a->in;
        p->y_plane *= a->out;
        numbers += 3 * a->out + 3 * tap_room(&w, axis, a->in, a->out);
    }
    if (p->x_plane > INT32_MAX)
        return gt__fail(GT_ERR_UNSUPPORTED, "%s of planes of more than 2^31 elements",
                        gt__op_table[call->op].name);
    GT_TRY(gt__cpu_scratch(p->cpu, (size_t)numbers * sizeof(int64_t), &p->memory));
    int64_t *next = p->memory;
    for (int axis = 0; axis < GT_MAX_SPATIAL; axis++)
        set_windows(p, &w, axis, &next);
    return GT_OK;
}

/* ---- maxima ------------------------------------------------------------------------------------------------ */

/* Use the positions of the maxima, plane by plane; an empty window has none. */
#define MAX_PLANES(suffix, T)                                                                                     \
    static void pick_##suffix(const pooling *p, int64_t plane, const int32_t *arg)                                \
    {                                                                                                             \
        const T *a = (const T *)p->a + plane * p->x_plane;                                                        \
        T *out = (T *)p->out + plane * p->y_plane;                                                                \
        for (int64_t o = 0; o < p->y_plane; o++)                                                                  \
            out[o] = arg[o] < 0 ? 0 : a[arg[o]];                                                                  \
    }                                                                                                             \
    static void scatter_##suffix(const pooling *p, int64_t plane, const int32_t *arg)                             \
    {                                                                                                             \
        const T *y = (const T *)p->a + plane * p->y_plane;                                                        \
        T *out = (T *)p->out + plane * p->x_plane;                                                                \
        memset(out, 0, (size_t)p->x_plane * sizeof(T));                                                           \
        for (int64_t o = 0; o < p->y_plane; o++)                                                                  \
            if (arg[o] >= 0)                                                                                      \
                out[arg[o]] += y[o];                                                                              \
    }
MAX_PLANES(f32, float)
MAX_PLANES(f64, double)
MAX_PLANES(i64, uint64_t)

static void write_index(const pooling *p, int64_t plane, const int32_t *arg)
{
    int64_t *out = (int64_t *)p->out + plane * p->y_plane;
    for (int64_t o = 0; o < p->y_plane; o++)
        out[o] = arg[o] < 0 ? 0 : arg[o];
}

static void max_planes(void *context, int64_t begin, int64_t end)
{
    static void (*const pick[])(const pooling *, int64_t, const int32_t *) = {pick_f32, pick_f64, pick_i64};
    static void (*const scatter[])(const pooling *, int64_t, const int32_t *) = {scatter_f32, scatter_f64,
                                                                                 scatter_i64};
    pooling *p = context;
    gt_look look = {.parallel = p->cpu->parallel, .left = GT_LOOK_ELEMENTS};
    int64_t size = (int64_t)gt__compute_size(p->compute);
    gt_pool_max_kernel kernel = p->cpu->kernels->pool_max[p->compute];
    if (p->op == GT_OP_max_pool && p->a == p->x && !p->empty) {
        for (int64_t plane = begin; plane < end; plane++)
            kernel(p->axis, p->x + plane * p->x_plane * size, p->out + plane * p->y_plane * size, NULL, &look);
        return;
    }
    void *memory = NULL;
    if (gt__cpu_scratch(p->cpu, (size_t)p->y_plane * (sizeof(int64_t) + sizeof(int32_t)), &memory) != GT_OK) {
        atomic_store(&p->failed, true);
        return;
    }
    int32_t *arg = (int32_t *)((int64_t *)memory + p->y_plane);
    bool direct = p->op == GT_OP_max_pool_input && p->compute == GT_COMPUTE_F32;
    for (int64_t plane = begin; plane < end; plane++) {
        const char *x = p->x + plane * p->x_plane * size;
        if (direct && p->cpu->kernels->pool_max_spread(p->axis, x, p->a + plane * p->y_plane * size,
                                                       p->out + plane * p->x_plane * size))
            continue;
        kernel(p->axis, x, memory, arg, &look);
        if (gt__parallel_cancelled(p->cpu->parallel)) /* the positions are not complete */
            break;
        if (p->op == GT_OP_max_pool_index)
            write_index(p, plane, arg);
        else
            (p->op == GT_OP_max_pool ? pick : scatter)[p->compute](p, plane, arg);
    }
    free(memory);
}

/* ---- averages ---------------------------------------------------------------------------------------------- */

/* to[o] = from[o] / the divisor of window o. */
#define DIVIDE(suffix, T)                                                                                         \
    static void divide_##suffix(const pooling *p, const void *from, void *to)                                     \
    {                                                                                                             \
        const T *in = from;                                                                                       \
        T *out = to;                                                                                              \
        for (int64_t d = 0; d < p->axis[0].out; d++)                                                              \
            for (int64_t h = 0; h < p->axis[1].out; h++) {                                                        \
                double rows = p->divisors[0][d] * p->divisors[1][h];                                              \
                for (int64_t w = 0; w < p->axis[2].out; w++, in++, out++) {                                       \
                    T by = (T)(p->divisor != 0 ? p->divisor : rows * p->divisors[2][w]);                          \
                    *out = by != 0 ? *in / by : 0;                                                                \
                }                                                                                                 \
            }                                                                                                     \
    }
DIVIDE(f32, float)
DIVIDE(f64, double)

static void divide(const pooling *p, const void *from, void *to)
{
    (p->compute == GT_COMPUTE_F32 ? divide_f32 : divide_f64)(p, from, to);
}

static void average_planes(void *context, int64_t begin, int64_t end)
{
    const pooling *p = context;
    gt_look look = {.parallel = p->cpu->parallel, .left = GT_LOOK_ELEMENTS};
    int64_t size = (int64_t)gt__compute_size(p->compute);
    for (int64_t plane = begin; plane < end; plane++) {
        char *out = p->out + plane * p->y_plane * size;
        p->cpu->kernels->pool_sum[p->compute](p->axis, p->a + plane * p->x_plane * size, out, &look);
        divide(p, out, out);
    }
}

static void spread_planes(void *context, int64_t begin, int64_t end)
{
    pooling *p = context;
    int64_t size = (int64_t)gt__compute_size(p->compute);
    gt_look look = {.parallel = p->cpu->parallel, .left = GT_LOOK_ELEMENTS};
    void *shares = NULL;
    if (gt__cpu_scratch(p->cpu, (size_t)(p->y_plane * size), &shares) != GT_OK) {
        atomic_store(&p->failed, true);
        return;
    }
    for (int64_t plane = begin; plane < end; plane++) {
        char *out = p->out + plane * p->x_plane * size;
        divide(p, p->a + plane * p->y_plane * size, shares);
        memset(out, 0, (size_t)(p->x_plane * size));
        p->cpu->kernels->pool_spread[p->compute](p->axis, out, shares, &look);
    }
    free(shares);
}

/* ---- the ops ----------------------------------------------------------------------------------------------- */

static gt_err run(pooling *p, const gt_call *call, const gt_meta *x, const gt_meta *y, gt_parallel_body body)
{
    gt_dense in[2] = {0}, out = {0};
    bool index = p->op == GT_OP_max_pool_index, same = call->operands > 1 &&
                                                       call->in[1]->data == call->in[0]->data &&
                                                       p->op == GT_OP_max_pool && call->in[0]->contiguous;
    gt_err err = plan(p, call, x, y);
    for (unsigned k = 0; k < call->operands && !(k && same) && err == GT_OK; k++)
        err = gt__dense_read(p->cpu, call->in[k], p->compute, &in[k]);
    if (err == GT_OK && !index)
        err = gt__dense_result(p->cpu, call->out, p->compute, &out);
    if (err == GT_OK) {
        p->a = in[0].data;
        p->x = same || index ? p->a : in[1].data;
        p->out = index ? call->out->data : out.data;
        gt__parallel_for(p->cpu->parallel, p->planes, gt__grain(p->x_plane + p->y_plane), body, p);
        if (atomic_load(&p->failed))
            err = gt__fail(GT_ERR_MEMORY, "the worker has no memory for %s", gt__op_table[p->op].name);
    }
    if (err == GT_OK)
        gt__dense_finish(p->cpu, call->out, p->compute, &out);
    free(in[0].scratch);
    free(in[1].scratch);
    free(out.scratch);
    free(p->memory);
    return err;
}

gt_err gt__cpu_max_pool(gt_engine *engine, const gt_call *call)
{
    const gt_view *x = call->op == GT_OP_max_pool_index ? call->in[0] : call->in[1];
    const gt_view *y = call->op == GT_OP_max_pool_input ? call->in[0] : call->out;
    pooling p = {.cpu = gt__cpu(engine), .op = call->op, .compute = gt__cpu_compute((gt_dtype)x->meta.dtype)};
    return call->out->meta.numel ? run(&p, call, &x->meta, &y->meta, max_planes) : GT_OK;
}

gt_err gt__cpu_average(gt_engine *engine, const gt_call *call)
{
    bool forward = call->op == GT_OP_avg_pool;
    const gt_view *x = forward ? call->in[0] : call->out, *y = forward ? call->out : call->in[0];
    pooling p = {.cpu = gt__cpu(engine), .op = call->op, .compute = gt__cpu_compute((gt_dtype)x->meta.dtype)};
    return call->out->meta.numel ? run(&p, call, &x->meta, &y->meta, forward ? average_planes : spread_planes)
                                 : GT_OK;
}

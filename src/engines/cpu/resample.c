/*
 * resample.c: runs RESAMPLE (one axis stretched or shrunk, and the gradient of that) and IM2COL (im2col and
 * col2im).
 *
 * Both compute where elements come from; the gradient adds where the other direction copies. A resampled tensor is
 * (outer, axis, inner): threads take pieces of outer and inner, and rows of inner are vectors.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engines/cpu/movement.h"
#include "core/window.h"

/* ---- resample ---------------------------------------------------------------------------------------------- */

enum { MOST_SOURCES = 4, INNER_PIECE = 1024 };

typedef struct resampling {
    bool forward;
    int sources;                        /* of an element */
    int64_t outer, size, source, inner; /* size: of the side whose elements have sources */
    int64_t piece, pieces;              /* of inner */
    int64_t *at;                        /* (size, sources) */
    double *weight;
    const void *in;
    void *out;
} resampling;

static double cubic_near(double t)
{
    return ((1.25 * t) - 2.25) * t * t + 1;
}

static double cubic_far(double t)
{
    return ((-0.75 * t + 3.75) * t - 6) * t + 3;
}

/* Nearest neighbours are found in single precision, as PyTorch does. */
static void set_sources(const resampling *r, gt_resample_mode mode, bool aligned, double step, int64_t o)
{
    int64_t *at = r->at + o * r->sources, last = r->source - 1;
    double *weight = r->weight + o * r->sources,
           position = aligned ? (double)o * step : ((double)o + 0.5) * step - 0.5;
    if (mode <= GT_RESAMPLE_NEAREST_EXACT) {
        float whole = floorf(((float)o + (mode == GT_RESAMPLE_NEAREST ? 0.0f : 0.5f)) * (float)step);
        at[0] = gt__min((int64_t)whole, last);
        weight[0] = 1;
    } else if (mode == GT_RESAMPLE_LINEAR) {
        position = position > 0 ? position : 0;
        at[0] = gt__min((int64_t)position, last);
        at[1] = gt__min(at[0] + 1, last);
        weight[1] = fmin(position - (double)at[0], 1);
        weight[0] = 1 - weight[1];
    } else {
        double whole = floor(position), t = position - whole;
        const double weights[] = {cubic_far(t + 1), cubic_near(t), cubic_near(1 - t), cubic_far(2 - t)};
        for (int k = 0; k < MOST_SOURCES; k++) {
            int64_t from = (int64_t)whole + k - 1;
            at[k] = from < 0 ? 0 : gt__min(from, last);
            weight[k] = weights[k];
        }
    }
}

/*
 * Forward, an element is a weighted sum of `sources` others, computed for single elements (inner 1) or for rows of inner.
 * The gradient adds each element to its sources.
 */
#define RESAMPLE(suffix, T)                                                                                       \
    static void gather_##suffix(const resampling *r, const T *in, T *out)                                         \
    {                                                                                                             \
        const int64_t *at = r->at;                                                                                \
        if (r->sources == 1)                                                                                      \
            for (int64_t o = 0; o < r->size; o++)                                                                 \
                out[o] = in[at[o]];                                                                               \
        else if (r->sources == 2)                                                                                 \
            for (int64_t o = 0; o < r->size; o++)                                                                 \
                out[o] = in[at[2 * o]] * (T)r->weight[2 * o] + in[at[2 * o + 1]] * (T)r->weight[2 * o + 1];       \
        else                                                                                                      \
            for (int64_t o = 0; o < r->size; o++) {                                                               \
                out[o] = 0;                                                                                       \
                for (int64_t s = o * r->sources; s < (o + 1) * r->sources; s++)                                   \
                    out[o] += in[at[s]] * (T)r->weight[s];                                                        \
            }                                                                                                     \
    }                                                                                                             \
    static void combine_##suffix(const resampling *r, int64_t o, const T *in, T *restrict out, int64_t count)     \
    {                                                                                                             \
        const int64_t *at = r->at + o * r->sources;                                                               \
        const double *weight = r->weight + o * r->sources;                                                        \
        const T *a = in + at[0] * r->inner;                                                                       \
        if (r->sources == 1) {                                                                                    \
            memcpy(out, a, (size_t)count * sizeof(T));                                                            \
            return;                                                                                               \
        }                                                                                                         \
        const T *b = in + at[1] * r->inner;                                                                       \
        T p = (T)weight[0], q = (T)weight[1];                                                                     \
        for (int64_t k = 0; k < count; k++)                                                                       \
            out[k] = a[k] * p + b[k] * q;                                                                         \
        for (int s = 2; s < r->sources; s++) {                                                                    \
            a = in + at[s] * r->inner;                                                                            \
            p = (T)weight[s];                                                                                     \
            for (int64_t k = 0; k < count; k++)                                                                   \
                out[k] += a[k] * p;                                                                               \
        }                                                                                                         \
    }                                                                                                             \
    static void scatter_##suffix(const resampling *r, const T *in, T *out, int64_t count)                         \
    {                                                                                                             \
        for (int64_t k = 0; k < r->source; k++)                                                                   \
            memset(out + k * r->inner, 0, (size_t)count * sizeof(T));                                             \
        for (int64_t s = 0; s < r->size * r->sources; s++) {                                                      \
            const T *from = in + s / r->sources * r->inner;                                                       \
            T *to = out + r->at[s] * r->inner, weight = (T)r->weight[s];                                          \
            if (r->inner == 1)                                                                                    \
                *to += *from * weight;                                                                            \
            else                                                                                                  \
                for (int64_t k = 0; k < count; k++)                                                               \
                    to[k] += from[k] * weight;                                                                    \
        }                                                                                                         \
    }                                                                                                             \
    /* Pieces begin <= t < end: all of the axis, a stretch of inner. */                                           \
    static void resample_##suffix(void *context, int64_t begin, int64_t end)                                      \
    {                                                                                                             \
        const resampling *r = context;                                                                            \
        for (int64_t task = begin; task < end; task++) {                                                          \
            int64_t outer = task / r->pieces, first = task % r->pieces * r->piece;                                \
            int64_t count = gt__min(r->piece, r->inner - first);                                                  \
            int64_t source = outer * r->source * r->inner + first, element = outer * r->size * r->inner + first;  \
            const T *in = (const T *)r->in + (r->forward ? source : element);                                     \
            T *out = (T *)r->out + (r->forward ? element : source);                                               \
            if (!r->forward)                                                                                      \
                scatter_##suffix(r, in, out, count);                                                              \
            else if (r->inner == 1)                                                                               \
                gather_##suffix(r, in, out);                                                                      \
            else                                                                                                  \
                for (int64_t o = 0; o < r->size; o++)                                                             \
                    combine_##suffix(r, o, in, out + o * r->inner, count);                                        \
        }                                                                                                         \
    }
RESAMPLE(f32, float)
RESAMPLE(f64, double)
RESAMPLE(i64, uint64_t)

static gt_err resample_plan(gt_cpu *cpu, resampling *r, const gt_call *call)
{
    static const int sources[] = {1, 1, 2, MOST_SOURCES};
    int64_t axis = call->ins->imm[0].i & 0xff;
    gt_resample_mode mode = (gt_resample_mode)(call->ins->imm[0].i >> 8);
    const gt_meta *in = &call->in[0]->meta, *out = &call->out->meta;
    *r = (resampling){.forward = call->op == GT_OP_resample, .sources = sources[mode], .outer = 1, .inner = 1};
    for (int k = 0; k < in->rank; k++)
        *(k < axis ? &r->outer : &r->inner) *= k == axis ? 1 : in->shape[k];
    r->size = r->forward ? out->shape[axis] : in->shape[axis];
    r->source = r->forward ? in->shape[axis] : out->shape[axis];
    r->piece = gt__min(r->inner, INNER_PIECE);
    r->pieces = (r->inner + r->piece - 1) / r->piece;
    void *memory = NULL;
    GT_TRY(gt__cpu_scratch(cpu, (size_t)(r->size * r->sources) * (sizeof *r->at + sizeof *r->weight), &memory));
    r->at = memory;
    r->weight = (double *)(r->at + r->size * r->sources);
    for (int64_t o = 0; o < r->size; o++)
        set_sources(r, mode, call->tail[0].i64[1], call->ins->imm[1].f, o);
    return GT_OK;
}

/* Run over dense memory; frees the tables of `r` at the end. */
static gt_err run_dense(gt_cpu *cpu, const gt_call *call, gt_compute compute, int64_t tasks, int64_t grain,
                        const gt_parallel_body *bodies, const void **in, void **out, void *context)
{
    gt_dense from = {0}, to = {0};
    gt_err err = gt__dense_read(cpu, call->in[0], compute, &from);
    if (err == GT_OK)
        err = gt__dense_result(cpu, call->out, compute, &to);
    if (err == GT_OK) {
        *in = from.data;
        *out = to.data;
        gt__parallel_for(cpu->parallel, tasks, grain, bodies[compute], context);
        gt__dense_finish(cpu, call->out, compute, &to);
    }
    free(from.scratch);
    free(to.scratch);
    return err;
}

gt_err gt__cpu_resample(gt_engine *engine, const gt_call *call)
{
    static const gt_parallel_body bodies[] = {resample_f32, resample_f64, resample_i64};
    resampling r;
    if (call->out->meta.numel == 0)
        return GT_OK;
    GT_TRY(resample_plan(gt__cpu(engine), &r, call));
    int64_t work = (r.size + r.source) * r.piece;
    gt_err err = run_dense(gt__cpu(engine), call, gt__cpu_compute((gt_dtype)call->out->meta.dtype),
                           r.outer * r.pieces, gt__grain(work), bodies, &r.in, &r.out, &r);
    free(r.at);
    return err;
}

/* ---- im2col and col2im -------------------------------------------------------------------------------------- */

enum { POLL = 1 << 20 }; /* elements between two looks whether the work was cancelled */

typedef struct unfolding {
    gt_parallel *parallel;
    gt_window w;
    bool forward;
    int spatial;
    int64_t channels, image[GT_MAX_SPATIAL], windows[GT_MAX_SPATIAL];
    int64_t image_plane, kernel, columns;
    const void *in;
    void *out;
} unfolding;

/* False: the work was cancelled. */
static bool clear(const unfolding *u, void *to, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += POLL) {
        if (at && gt__parallel_poll(u->parallel))
            return false;
        memset((char *)to + at, 0, bytes - at < POLL ? bytes - at : POLL);
    }
    return true;
}

/*
 * One image and channel at a time: its rows of columns, `kernel` of them, each of all windows in row-major
 * order. Windows along the last axis are low <= o < high where they are inside.
 */
#define UNFOLD(suffix, T)                                                                                         \
    static void unfold_##suffix(void *context, int64_t begin, int64_t end)                                        \
    {                                                                                                             \
        const unfolding *u = context;                                                                             \
        int last = u->spatial - 1;                                                                                \
        int64_t width = u->windows[last], stride = u->w.stride[last], since = 0;                                  \
        for (int64_t plane = begin; plane < end; plane++) {                                                       \
            const T *in = (const T *)u->in + plane * (u->forward ? u->image_plane : u->kernel * u->columns);      \
            T *out = (T *)u->out + plane * (u->forward ? u->kernel * u->columns : u->image_plane);                \
            if (!u->forward && !clear(u, out, sizeof(T) * (size_t)u->image_plane))                                \
                return;                                                                                           \
            for (int64_t k = 0; k < u->kernel; k++) {                                                             \
                if (u->forward && !clear(u, out + k * u->columns, sizeof(T) * (size_t)u->columns))                \
                    return;                                                                                       \
                for (int64_t column = 0; column < u->columns; column += width) {                                  \
                    int64_t row = row_of(u, k, column), from, low, high;                                          \
                    since += width;                                                                               \
                    if (since > POLL && gt__parallel_poll(u->parallel))                                           \
                        return;                                                                                   \
                    since = since > POLL ? 0 : since;                                                             \
                    if (row < 0)                                                                                  \
                        continue;                                                                                 \
                    from = inside(u, k % u->w.kernel[last], &low, &high);                                         \
                    int64_t at = row * u->image[last] + from;                                                     \
                    for (int64_t o = low; o < high; o++)                                                          \
                        if (u->forward)                                                                           \
                            out[k * u->columns + column + o] = in[at + o * stride];                               \
                        else                                                                                      \
                            out[at + o * stride] += in[k * u->columns + column + o];                              \
                }                                                                                                 \
            }                                                                                                     \
        }                                                                                                         \
    }

/* The row of the image under tap k of the windows from `column` on; -1: padding. */
static int64_t row_of(const unfolding *u, int64_t k, int64_t column)
{
    int64_t row = 0, unit = 1;
    k /= u->w.kernel[u->spatial - 1];
    column /= u->windows[u->spatial - 1];
    for (int axis = u->spatial - 2; axis >= 0; axis--) {
        int64_t o = column % u->windows[axis], tap = k % u->w.kernel[axis];
        int64_t at = o * u->w.stride[axis] - u->w.padding[axis] + tap * u->w.dilation[axis];
        if (at < 0 || at >= u->image[axis])
            return -1;
        row += at * unit;
        unit *= u->image[axis];
        column /= u->windows[axis];
        k /= u->w.kernel[axis];
    }
    return row;
}

/* Where window 0 would begin along the last axis at this tap, and which windows are inside there. */
static int64_t inside(const unfolding *u, int64_t tap, int64_t *low, int64_t *high)
{
    int last = u->spatial - 1;
    int64_t stride = u->w.stride[last], from = tap * u->w.dilation[last] - u->w.padding[last];
    int64_t behind = u->image[last] - from;
    *low = from < 0 ? (-from + stride - 1) / stride : 0;
    *high = gt__min(behind > 0 ? (behind + stride - 1) / stride : 0, u->windows[last]);
    return from;
}

UNFOLD(f32, float)
UNFOLD(f64, double)
UNFOLD(i64, uint64_t)

gt_err gt__cpu_im2col(gt_engine *engine, const gt_call *call)
{
    static const gt_parallel_body bodies[] = {unfold_f32, unfold_f64, unfold_i64};
    unfolding u = {.parallel = gt__cpu(engine)->parallel,
                   .w = gt__window_read(call->tail),
                   .forward = call->op == GT_OP_im2col,
                   .spatial = call->ins->rank};
    const gt_meta *image = u.forward ? &call->in[0]->meta : &call->out->meta;
    if (call->out->meta.numel == 0)
        return GT_OK;
    u.channels = image->shape[1];
    u.image_plane = u.kernel = u.columns = 1;
    for (int axis = 0; axis < u.spatial; axis++) {
        u.image[axis] = image->shape[2 + axis];
        u.windows[axis] = u.forward ? u.w.size[axis] : u.w.from[axis];
        u.image_plane *= u.image[axis];
        u.kernel *= u.w.kernel[axis];
        u.columns *= u.windows[axis];
    }
    return run_dense(gt__cpu(engine), call, gt__cpu_compute((gt_dtype)call->out->meta.dtype),
                     image->shape[0] * u.channels, gt__grain(u.kernel * u.columns), bodies, &u.in, &u.out, &u);
}

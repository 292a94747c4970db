/*
 * engines/reference/window.c: defines convolutions, pooling, im2col and resample.
 *
 * Each is a list of pairs of elements of two tensors (and an element of the weight). The row says which tensor is the
 * result, and every pair adds its product there. So an op and its gradients share one loop.
 */
#include <math.h>
#include <stdlib.h>

#include "engines/reference/reference.h"
#include "core/window.h"

/* ---- sums, kept exactly until the end ---------------------------------------------------------------------- */

typedef struct total {
    double real;
    uint64_t integer; /* modulo 2^64 */
} total;

static gt_err totals_new(const gt_view *out, total **totals)
{
    *totals = calloc((size_t)out->meta.numel + 1, sizeof **totals);
    return *totals ? GT_OK : gt__fail(GT_ERR_MEMORY, "out of memory");
}

static void totals_finish(const gt_view *out, total *totals)
{
    for (int64_t flat = 0; flat < out->meta.numel; flat++)
        if (gt__dtype_is_float(out->meta.dtype))
            gt__reference_put_real(out, flat, totals[flat].real);
        else
            gt__reference_put_integer(out, flat, (int64_t)totals[flat].integer);
    free(totals);
}

static void add_product(total *to, const gt_view *a, int64_t i, const gt_view *b, int64_t j)
{
    if (gt__dtype_is_float(a->meta.dtype))
        to->real += gt__reference_real(a, i) * gt__reference_real(b, j);
    else
        to->integer += (uint64_t)gt__reference_integer(a, i) * (uint64_t)gt__reference_integer(b, j);
}

static void add_scaled(total *to, const gt_view *a, int64_t i, double factor)
{
    to->real += gt__reference_real(a, i) * factor;
    to->integer += (uint64_t)gt__reference_integer(a, i);
}

/* ---- convolutions ------------------------------------------------------------------------------------------- */

typedef struct convolution {
    gt_window w;
    int spatial;
    const gt_view *x, *weight, *y;
} convolution;

/* The element of x under weight_index in window y_index; false: padding. */
static bool meets(const convolution *c, const int64_t *y_index, const int64_t *weight_index, int64_t *x_index)
{
    int64_t group = y_index[1] / (c->weight->meta.shape[0] / c->w.groups);
    x_index[0] = y_index[0];
    x_index[1] = group * c->weight->meta.shape[1] + weight_index[1];
    for (int axis = 0; axis < c->spatial; axis++) {
        int64_t at = y_index[2 + axis] * c->w.stride[axis] - c->w.padding[axis] +
                     weight_index[2 + axis] * c->w.dilation[axis];
        if (at < 0 || at >= c->x->meta.shape[2 + axis])
            return false;
        x_index[2 + axis] = at;
    }
    return true;
}

static void add_pair(const gt_call *call, const convolution *c, int64_t x, int64_t weight, int64_t y,
                     total *totals)
{
    if (call->op == GT_OP_conv)
        add_product(&totals[y], c->x, x, c->weight, weight);
    else if (call->op == GT_OP_conv_input)
        add_product(&totals[x], c->y, y, c->weight, weight);
    else
        add_product(&totals[weight], c->y, y, c->x, x);
}

static void add_bias(const gt_call *call, total *totals)
{
    const gt_view *bias = call->in[2];
    for (int64_t flat = 0; bias->meta.rank && flat < call->out->meta.numel; flat++) {
        int64_t index[GT_MAX_RANK];
        gt__reference_index(&call->out->meta, flat, index);
        add_scaled(&totals[flat], bias, index[1], 1);
    }
}

gt_err gt__reference_conv(const gt_call *call)
{
    convolution c = {.w = gt__window_read(call->tail), .spatial = call->ins->rank};
    c.x = call->op == GT_OP_conv ? call->in[0] : call->op == GT_OP_conv_input ? call->out : call->in[1];
    c.weight = call->op == GT_OP_conv_weight ? call->out : call->in[1];
    c.y = call->op == GT_OP_conv ? call->out : call->in[0];
    const gt_meta *y = &c.y->meta, *weight = &c.weight->meta;
    int64_t row = weight->shape[0] ? weight->numel / weight->shape[0] : 0;
    total *totals;
    GT_TRY(totals_new(call->out, &totals));
    for (int64_t i = 0; i < y->numel; i++) {
        int64_t y_index[GT_MAX_RANK], weight_index[GT_MAX_RANK], x_index[GT_MAX_RANK];
        gt__reference_index(y, i, y_index);
        for (int64_t j = y_index[1] * row; j < (y_index[1] + 1) * row; j++) {
            gt__reference_index(weight, j, weight_index);
            if (meets(&c, y_index, weight_index, x_index))
                add_pair(call, &c, gt__reference_flat(&c.x->meta, x_index), j, i, totals);
        }
    }
    if (call->op != GT_OP_conv_weight)
        add_bias(call, totals);
    totals_finish(call->out, totals);
    return GT_OK;
}

/* ---- pooling: windows over the last axes of x --------------------------------------------------------------- */

typedef struct pooling {
    gt_window w;
    int spatial, kept; /* axes */
    const gt_meta *x, *y;
} pooling;

static pooling pooling_of(const gt_call *call, const gt_meta *x, const gt_meta *y)
{
    int spatial = call->ins->rank;
    return (pooling){
        .w = gt__window_read(call->tail), .spatial = spatial, .kept = x->rank - spatial, .x = x, .y = y};
}

/* Positions first, first + step, ... before `end`, of window o along an axis, padding included. */
static void window_along(const pooling *p, int axis, int64_t o, int64_t *first, int64_t *end, int64_t *step)
{
    int64_t in = p->x->shape[p->kept + axis], windows = p->y->shape[p->kept + axis], kernel = p->w.kernel[axis];
    if (kernel == 0) {
        *first = o * in / windows;
        *end = ((o + 1) * in + windows - 1) / windows;
        *step = 1;
        return;
    }
    *first = o * p->w.stride[axis] - p->w.padding[axis];
    *step = p->w.dilation[axis];
    *end = *first + (kernel - 1) * *step + 1;
}

/* The next element of x in the window of y's element; x_index starts as -1 everywhere. False: no more elements. */
typedef struct walk {
    int64_t first[GT_MAX_SPATIAL], end[GT_MAX_SPATIAL], step[GT_MAX_SPATIAL], at[GT_MAX_SPATIAL];
    int64_t index[GT_MAX_RANK];
    bool begun;
} walk;

static void walk_begin(const pooling *p, int64_t y_flat, walk *w)
{
    gt__reference_index(p->y, y_flat, w->index);
    w->begun = false;
    for (int axis = 0; axis < p->spatial; axis++)
        window_along(p, axis, w->index[p->kept + axis], &w->first[axis], &w->end[axis], &w->step[axis]);
}

static bool walk_inside(const pooling *p, walk *w)
{
    for (int axis = 0; axis < p->spatial; axis++) {
        if (w->at[axis] < 0 || w->at[axis] >= p->x->shape[p->kept + axis])
            return false;
        w->index[p->kept + axis] = w->at[axis];
    }
    return true;
}

static bool walk_next(const pooling *p, walk *w, int64_t *x_flat)
{
    for (;;) {
        int axis = p->spatial - 1;
        if (!w->begun) {
            for (int k = 0; k < p->spatial; k++)
                if ((w->at[k] = w->first[k]) >= w->end[k])
                    return false;
            w->begun = true;
        } else {
            while (axis >= 0 && (w->at[axis] += w->step[axis]) >= w->end[axis]) {
                w->at[axis] = w->first[axis];
                axis--;
            }
            if (axis < 0)
                return false;
        }
        if (walk_inside(p, w)) {
            *x_flat = gt__reference_flat(p->x, w->index);
            return true;
        }
    }
}

/* As in PyTorch: `padding` elements on both sides count, positions further behind the end do not. */
static double divisor(const pooling *p, int64_t y_flat)
{
    walk w;
    double padded = 1, inside = 1;
    walk_begin(p, y_flat, &w);
    for (int axis = 0; axis < p->spatial; axis++) {
        int64_t in = p->x->shape[p->kept + axis], padding = p->w.kernel[axis] ? p->w.padding[axis] : 0;
        padded *= (double)((w.end[axis] < in + padding ? w.end[axis] : in + padding) - w.first[axis]);
        inside *= (double)((w.end[axis] < in ? w.end[axis] : in) - (w.first[axis] > 0 ? w.first[axis] : 0));
    }
    return p->w.divisor ? (double)p->w.divisor : p->w.count_padding ? padded : inside;
}

gt_err gt__reference_average(const gt_call *call)
{
    bool forward = call->op == GT_OP_avg_pool;
    const gt_view *in = call->in[0];
    pooling p = pooling_of(call, forward ? &in->meta : &call->out->meta, forward ? &call->out->meta : &in->meta);
    total *totals;
    GT_TRY(totals_new(call->out, &totals));
    for (int64_t y = 0; y < p.y->numel; y++) {
        walk w;
        walk_begin(&p, y, &w);
        for (int64_t x; walk_next(&p, &w, &x);)
            add_scaled(&totals[forward ? y : x], in, forward ? x : y, 1 / divisor(&p, y));
    }
    totals_finish(call->out, totals);
    return GT_OK;
}

/* The first largest element of the window; the last NaN, if there is one. -1: only padding. */
static int64_t largest(const pooling *p, const gt_view *x, int64_t y)
{
    walk w;
    int64_t best = -1, flat;
    walk_begin(p, y, &w);
    while (walk_next(p, &w, &flat)) {
        bool is_nan = gt__dtype_is_float(x->meta.dtype) && isnan(gt__reference_real(x, flat));
        if (best < 0 || is_nan || gt__reference_less(x, best, flat))
            best = flat;
    }
    return best;
}

gt_err gt__reference_max_pool(const gt_call *call)
{
    bool scatters = call->op == GT_OP_max_pool_input, indexes = call->op == GT_OP_max_pool_index;
    const gt_view *a = call->in[0], *x = indexes ? a : call->in[1];
    pooling p = pooling_of(call, &x->meta, scatters ? &a->meta : &call->out->meta);
    int64_t plane = 1;
    for (int axis = 0; axis < p.spatial; axis++)
        plane *= x->meta.shape[p.kept + axis];
    total *totals;
    GT_TRY(totals_new(call->out, &totals));
    for (int64_t y = 0; y < p.y->numel; y++) {
        int64_t best = largest(&p, x, y);
        if (best < 0)
            continue;
        if (indexes)
            totals[y].integer = (uint64_t)(best % plane);
        else if (scatters)
            add_scaled(&totals[best], a, y, 1);
        else
            add_scaled(&totals[y], a, best, 1);
    }
    totals_finish(call->out, totals);
    return GT_OK;
}

/* ---- im2col: the elements of each window as a column -------------------------------------------------------- */

gt_err gt__reference_im2col(const gt_call *call)
{
    bool forward = call->op == GT_OP_im2col;
    const gt_view *image = forward ? call->in[0] : call->out, *columns = forward ? call->out : call->in[0];
    gt_window w = gt__window_read(call->tail);
    int spatial = call->ins->rank;
    const int64_t *windows = forward ? w.size : w.from;
    total *totals;
    GT_TRY(totals_new(call->out, &totals));
    for (int64_t flat = 0; flat < columns->meta.numel; flat++) {
        int64_t column[3], index[GT_MAX_RANK];
        gt__reference_index(&columns->meta, flat, column);
        bool inside = true;
        int64_t row = column[1], window = column[2];
        for (int axis = spatial - 1; axis >= 0; axis--) {
            int64_t k = row % w.kernel[axis], o = window % windows[axis];
            row /= w.kernel[axis];
            window /= windows[axis];
            index[2 + axis] = o * w.stride[axis] - w.padding[axis] + k * w.dilation[axis];
            inside &= index[2 + axis] >= 0 && index[2 + axis] < image->meta.shape[2 + axis];
        }
        index[0] = column[0];
        index[1] = row;
        if (!inside)
            continue;
        int64_t at = gt__reference_flat(&image->meta, index);
        add_scaled(&totals[forward ? flat : at], call->in[0], forward ? at : flat, 1);
    }
    totals_finish(call->out, totals);
    return GT_OK;
}

/* ---- resample: one axis, each element from at most four ---------------------------------------------------- */

enum { MOST_SOURCES = 4 };

static double cubic(double distance)
{
    double t = fabs(distance);
    return t <= 1 ? (1.25 * t - 2.25) * t * t + 1 : t < 2 ? ((-0.75 * t + 3.75) * t - 6) * t + 3 : 0;
}

static int64_t clamped(int64_t at, int64_t size)
{
    return at < 0 ? 0 : at >= size ? size - 1 : at;
}

/* The sources of element o and their weights. Nearest neighbours are computed in single precision, as in PyTorch. */
static int sources(gt_resample_mode mode, bool aligned, double step, int64_t o, int64_t size, int64_t *at,
                   double *weight)
{
    double position = aligned ? (double)o * step : ((double)o + 0.5) * step - 0.5, whole = floor(position);
    switch (mode) {
    case GT_RESAMPLE_NEAREST:
    case GT_RESAMPLE_NEAREST_EXACT:
        at[0] =
            clamped((int64_t)floorf(((float)o + (mode == GT_RESAMPLE_NEAREST ? 0.0f : 0.5f)) * (float)step), size);
        weight[0] = 1;
        return 1;
    case GT_RESAMPLE_LINEAR:
        position = position < 0 ? 0 : position;
        at[0] = clamped((int64_t)position, size);
        at[1] = clamped(at[0] + 1, size);
        weight[1] = fmin(position - (double)at[0], 1);
        weight[0] = 1 - weight[1];
        return 2;
    default:
        for (int k = 0; k < MOST_SOURCES; k++) {
            at[k] = clamped((int64_t)whole + k - 1, size);
            weight[k] = cubic(position - whole - k + 1);
        }
        return MOST_SOURCES;
    }
}

gt_err gt__reference_resample(const gt_call *call)
{
    bool forward = call->op == GT_OP_resample, aligned = call->tail[0].i64[1];
    int axis = call->ins->imm[0].i & 0xff;
    const gt_meta *long_side = forward ? &call->out->meta : &call->in[0]->meta;
    const gt_meta *source = forward ? &call->in[0]->meta : &call->out->meta;
    total *totals;
    GT_TRY(totals_new(call->out, &totals));
    for (int64_t flat = 0; flat < long_side->numel; flat++) {
        int64_t index[GT_MAX_RANK], at[MOST_SOURCES];
        double weight[MOST_SOURCES];
        gt__reference_index(long_side, flat, index);
        int count = sources((gt_resample_mode)(call->ins->imm[0].i >> 8), aligned, call->ins->imm[1].f,
                            index[axis], source->shape[axis], at, weight);
        for (int k = 0; k < count; k++) {
            index[axis] = at[k];
            int64_t other = gt__reference_flat(source, index);
            add_scaled(&totals[forward ? flat : other], call->in[0], forward ? other : flat, weight[k]);
        }
    }
    totals_finish(call->out, totals);
    return GT_OK;
}

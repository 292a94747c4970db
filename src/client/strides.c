/* strides.c: see strides.h. */
#include "client/strides.h"

#include <stdlib.h>
#include <string.h>

void gt__strides_contiguous(const gt_meta *meta, gt_strides *out)
{
    int64_t step = 1;
    out->offset = 0;
    for (int axis = meta->rank - 1; axis >= 0; axis--) {
        out->step[axis] = step;
        step *= meta->shape[axis] ? meta->shape[axis] : 1;
    }
}

bool gt__strides_are_contiguous(const gt_meta *meta, const gt_strides *strides)
{
    int64_t step = 1;
    if (meta->numel == 0)
        return true;
    for (int axis = meta->rank - 1; axis >= 0; axis--) {
        if (meta->shape[axis] != 1 && strides->step[axis] != step)
            return false;
        step *= meta->shape[axis];
    }
    return true;
}

bool gt__strides_overlap(const gt_meta *meta, const gt_strides *strides)
{
    for (unsigned axis = 0; axis < meta->rank; axis++)
        if (meta->shape[axis] > 1 && strides->step[axis] == 0)
            return meta->numel > 0;
    return false;
}

/* Axes of more than one element, by descending distance; the others follow. Returns how many have more than one. */
static unsigned sorted_axes(const gt_meta *meta, const gt_strides *strides, int *order)
{
    unsigned count = 0, rest;
    for (unsigned axis = 0; axis < meta->rank; axis++) {
        if (meta->shape[axis] == 1 || strides->step[axis] == 0)
            continue;
        unsigned place = count++;
        while (place && llabs(strides->step[order[place - 1]]) < llabs(strides->step[axis])) {
            order[place] = order[place - 1];
            place--;
        }
        order[place] = (int)axis;
    }
    rest = count;
    for (unsigned axis = 0; axis < meta->rank; axis++)
        if (meta->shape[axis] == 1 || strides->step[axis] == 0)
            order[rest++] = (int)axis;
    return count;
}

bool gt__strides_may_overlap(const gt_meta *meta, const gt_strides *strides)
{
    int order[GT_MAX_RANK];
    int64_t reach = 0; /* from the first to the last element of the inner axes */
    if (meta->numel < 2)
        return false;
    if (gt__strides_overlap(meta, strides))
        return true;
    for (unsigned k = sorted_axes(meta, strides, order); k-- > 0;) {
        int64_t step = llabs(strides->step[order[k]]);
        if (step <= reach)
            return true;
        reach += step * (meta->shape[order[k]] - 1);
    }
    return false;
}

bool gt__strides_are_dense(const gt_meta *meta, const gt_strides *strides)
{
    int order[GT_MAX_RANK];
    if (meta->numel < 2)
        return true;
    if (gt__strides_overlap(meta, strides))
        return false;
    int64_t step = 1;
    for (unsigned k = sorted_axes(meta, strides, order); k-- > 0;) {
        if (strides->step[order[k]] != step)
            return false;
        step *= meta->shape[order[k]];
    }
    return true;
}

/*
 * From the last axis to the first: old axes that continue each other form a run, and new axes must fill each run exactly.
 */
bool gt__strides_reshape(const gt_meta *from, const gt_strides *strides, const gt_meta *to, gt_strides *out)
{
    int into = to->rank - 1;
    if (from->numel == 0) {
        if (gt__meta_same_shape(from, to))
            *out = *strides;
        else
            gt__strides_contiguous(to, out);
        out->offset = strides->offset;
        return true;
    }
    out->offset = strides->offset;
    int64_t run = 1, filled = 1, step = from->rank ? strides->step[from->rank - 1] : 1;
    for (int axis = from->rank - 1; axis >= 0; axis--) {
        run *= from->shape[axis];
        bool ends = axis == 0 || (from->shape[axis - 1] != 1 && strides->step[axis - 1] != run * step);
        if (!ends)
            continue;
        for (; into >= 0 && (filled < run || to->shape[into] == 1); into--) {
            out->step[into] = filled * step;
            filled *= to->shape[into];
        }
        if (filled != run)
            return false;
        if (axis > 0)
            step = strides->step[axis - 1];
        run = filled = 1;
    }
    for (; into >= 0 && from->rank == 0; into--) /* all sizes are 1 */
        out->step[into] = 1;
    return into < 0;
}

bool gt__strides_are_usual(const gt_meta *meta, const gt_strides *strides)
{
    gt_strides usual;
    gt__strides_contiguous(meta, &usual);
    return strides->offset == 0 && !memcmp(strides->step, usual.step, meta->rank * sizeof *usual.step);
}

/* ---- results of elementwise operations ----------------------------------------------------------------------- */

/* The operands' strides along the axes of the result: 0 where they are broadcast. */
static void broadcast_steps(const gt_meta *meta, const gt_laid *operand, int64_t *steps)
{
    gt_strides contiguous;
    const gt_strides *strides = operand->strides;
    if (!strides) {
        gt__strides_contiguous(operand->meta, &contiguous);
        strides = &contiguous;
    }
    for (int axis = 0; axis < meta->rank; axis++) {
        int own = axis - (meta->rank - operand->meta->rank);
        bool moves = own >= 0 && operand->meta->shape[own] == meta->shape[axis];
        steps[axis] = moves ? strides->step[own] : 0;
    }
}

/* Whether axis a should come after b, from the innermost: 1, -1, or 0: the operands do not say. */
static int axis_order(const gt_meta *meta, const int64_t (*steps)[GT_MAX_RANK], unsigned count, int a, int b)
{
    for (unsigned k = 0; k < count; k++) {
        int64_t first = steps[k][a], second = steps[k][b];
        if (first == 0 || second == 0)
            continue;
        if (first != second)
            return first < second ? -1 : 1;
        if (meta->shape[a] > meta->shape[b])
            return 1;
    }
    return 0;
}

/* All operands have the result's shape and the same strides, without gaps: the result has them, too. */
static bool same_dense(const gt_meta *meta, const gt_laid *operands, unsigned count)
{
    for (unsigned k = 0; k < count; k++) {
        const gt_strides *first = operands[0].strides, *own = operands[k].strides;
        if (!first || !own || !gt__meta_same_shape(meta, operands[k].meta) ||
            memcmp(first->step, own->step, meta->rank * sizeof *own->step) || !gt__strides_are_dense(meta, own))
            return false;
    }
    return count != 0;
}

void gt__strides_of_result(const gt_meta *meta, const gt_laid *operands, unsigned count, gt_strides *out)
{
    enum { MOST = 4 };
    int64_t steps[MOST][GT_MAX_RANK], step = 1;
    int order[GT_MAX_RANK]; /* from the innermost axis */
    bool contiguous = true;
    count = count < MOST ? count : MOST;
    for (unsigned k = 0; k < count; k++) {
        broadcast_steps(meta, &operands[k], steps[k]);
        contiguous = contiguous && gt__meta_same_shape(meta, operands[k].meta) &&
                     (!operands[k].strides || gt__strides_are_contiguous(meta, operands[k].strides));
    }
    gt__strides_contiguous(meta, out);
    if (contiguous)
        return;
    if (same_dense(meta, operands, count)) {
        memcpy(out->step, operands[0].strides->step, meta->rank * sizeof *out->step);
        return;
    }
    for (int k = 0; k < meta->rank; k++)
        order[k] = meta->rank - 1 - k;
    for (int k = 1; k < meta->rank; k++)
        for (int place = k, before = k - 1; before >= 0; before--) { /* ambiguous pairs are passed over */
            int found = axis_order(meta, (const int64_t(*)[GT_MAX_RANK])steps, count, order[before], order[place]);
            if (found < 0)
                break;
            if (found == 0)
                continue;
            int axis = order[before];
            order[before] = order[place];
            order[place] = axis;
            place = before;
        }
    bool usual = true;
    for (int k = 0; k < meta->rank; k++)
        usual = usual && order[k] == meta->rank - 1 - k;
    for (int k = 0; k < meta->rank && !usual; k++) {
        out->step[order[k]] = step;
        step *= meta->shape[order[k]];
    }
}

/* ---- permuted storages ----------------------------------------------------------------------------------------- */

/* How far a distance in memory goes along each axis of the value; `axes` are the moving ones, the outermost first. */
static void split_distance(const gt_strides *layout, const int *axes, unsigned count, int64_t distance,
                           int64_t *along)
{
    for (unsigned k = 0; k < count; k++) {
        along[axes[k]] = distance / layout->step[axes[k]];
        distance %= layout->step[axes[k]];
    }
}

bool gt__strides_to_value(const gt_meta *root, const gt_strides *layout, const gt_meta *view,
                          const gt_strides *strides, gt_strides *out)
{
    gt_strides usual;
    int axes[GT_MAX_RANK];
    int64_t low[GT_MAX_RANK], high[GT_MAX_RANK], along[GT_MAX_RANK];
    unsigned count = sorted_axes(root, layout, axes);
    gt__strides_contiguous(root, &usual);
    split_distance(layout, axes, count, strides->offset, low);
    out->offset = 0;
    for (unsigned k = 0; k < count; k++) {
        high[axes[k]] = low[axes[k]];
        out->offset += low[axes[k]] * usual.step[axes[k]];
    }
    for (unsigned axis = 0; axis < view->rank; axis++) {
        out->step[axis] = 0;
        if (view->shape[axis] < 2)
            continue;
        split_distance(layout, axes, count, strides->step[axis], along);
        for (unsigned k = 0; k < count; k++) {
            int64_t most = along[axes[k]] * (view->shape[axis] - 1);
            out->step[axis] += along[axes[k]] * usual.step[axes[k]];
            (most < 0 ? low : high)[axes[k]] += most;
        }
    }
    for (unsigned k = 0; k < count; k++)
        if (view->numel && (low[axes[k]] < 0 || high[axes[k]] >= root->shape[axes[k]]))
            return false;
    return true;
}

/* ---- placing ------------------------------------------------------------------------------------------------- */

/* Axes of a view without those of one element; neighbours that continue each other are one. */
typedef struct run {
    int64_t count, step;
} run;

static unsigned merged_runs(const gt_meta *view, const gt_strides *strides, const int *order, unsigned count,
                            run *runs)
{
    unsigned merged = 0;
    for (unsigned k = 0; k < count; k++) {
        int64_t size = view->shape[order[k]], step = strides->step[order[k]];
        if (merged && runs[merged - 1].step == step * size) {
            runs[merged - 1].count *= size;
            runs[merged - 1].step = step;
        } else {
            runs[merged++] = (run){.count = size, .step = step};
        }
    }
    return merged;
}

/* Place a run on axes of the shape from `axis` outwards: it may fill an axis and go on along the next. */
static bool place_run(run r, const int64_t *distance, gt_placing *out)
{
    int axis = (int)out->rank - 1;
    int64_t length = llabs(r.step);
    while (axis > 0 && (out->shape[axis] == 1 || distance[axis - 1] <= length))
        axis--;
    while (axis >= 0 && r.count > 1) {
        int64_t step = r.step / distance[axis], size = out->shape[axis], last;
        if (size == 1) {
            axis--;
            continue;
        }
        if (r.step % distance[axis] || out->count[axis] != 1)
            return false;
        last = out->start[axis] + step * (r.count - 1);
        int64_t count = r.count;
        if (last < 0 || last >= size) {
            if (step < 1 || size % step || out->start[axis] >= step || r.count % (size / step))
                return false;
            count = size / step;
        }
        out->step[axis] = step;
        out->count[axis] = count;
        r.count /= count;
        r.step = distance[axis--] * size;
    }
    return r.count == 1;
}

/* Place the runs in the shape that `out` has. */
static bool place_in_shape(const run *runs, unsigned count, int64_t offset, gt_placing *out)
{
    int64_t distance[GT_MAX_RANK], next = 1;
    for (int axis = (int)out->rank - 1; axis >= 0; axis--) {
        distance[axis] = next;
        next *= out->shape[axis];
        out->start[axis] = offset / distance[axis] % out->shape[axis];
        out->step[axis] = out->count[axis] = 1;
    }
    for (unsigned k = 0; k < count; k++)
        if (!place_run(runs[k], distance, out))
            return false;
    return true;
}

/* A shape whose axes have the distances of the runs. */
static bool shape_of_runs(const run *runs, unsigned count, int64_t numel, gt_placing *out)
{
    int64_t outer = numel;
    out->rank = 0;
    if (count >= GT_MAX_RANK)
        return false;
    for (unsigned k = 0; k < count; k++) {
        if (runs[k].step <= 0 || outer % runs[k].step)
            return false;
        out->shape[out->rank++] = outer / runs[k].step;
        outer = runs[k].step;
    }
    if (outer > 1)
        out->shape[out->rank++] = outer;
    return true;
}

/* No elements: an empty slice. */
static bool place_nothing(const gt_meta *root, gt_placing *out)
{
    out->rank = root->rank;
    out->ordered = true;
    memcpy(out->shape, root->shape, sizeof out->shape);
    for (unsigned axis = 0; axis < root->rank; axis++) {
        out->start[axis] = 0;
        out->step[axis] = 1;
        out->count[axis] = axis || !root->shape[0] ? root->shape[axis] : 0;
    }
    return root->rank != 0;
}

bool gt__strides_place(const gt_meta *root, const gt_meta *view, const gt_strides *strides, gt_placing *out)
{
    if (view->numel == 0)
        return place_nothing(root, out);
    run runs[GT_MAX_RANK] = {{.count = 1}};
    unsigned moving = sorted_axes(view, strides, out->order);
    unsigned count = merged_runs(view, strides, out->order, moving, runs);
    out->ordered = true;
    for (unsigned k = 1; k < moving; k++)
        out->ordered = out->ordered && out->order[k - 1] < out->order[k];
    out->rank = root->rank;
    memcpy(out->shape, root->shape, sizeof out->shape);
    if (place_in_shape(runs, count, strides->offset, out))
        return true;
    if (count == 1) {
        out->rank = 1;
        out->shape[0] = root->numel;
        return place_in_shape(runs, count, strides->offset, out);
    }
    return shape_of_runs(runs, count, root->numel, out) && place_in_shape(runs, count, strides->offset, out);
}

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

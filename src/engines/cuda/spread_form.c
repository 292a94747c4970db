/*
 * spread_form.c: where the gradients of attention go. A model that computes queries, keys and values by one layer, and takes them apart
 * with `q, k, v = x.view(...).permute(...)`, puts their gradients together again: zeros, to which the three are assigned, and
 * a copy in the order of the layer's result. The gradients can be stored there at once. Read chain.h and pair_form.c first.
 */
#include <string.h>

#include "core/attention.h"
#include "engines/cuda/chain.h"

enum { RANK = 4 }; /* of queries, keys and values: batch, head, row, column */

/* What is known while the steps behind the gradients are walked through. */
typedef struct walk {
    const gt_plan *plan;
    const gt_plan_value *packed, *whole; /* the gradients, one after the other; the zeros */
    const gt_meta *part;                 /* of each */
    uint32_t buffer;                     /* that has the zeros and what was assigned */
    int axis;                            /* of the zeros: which of the three; -1: not known yet */
    int64_t place[3];                    /* of queries, keys and values on it; -1: not assigned yet */
} walk;

/* An axis of the zeros as an axis of a part. */
static int part_axis(const walk *w, int axis)
{
    return axis < w->axis ? axis : axis - 1;
}

/* Which of the three an assigned value is; -1: none, or not as the kernels store it. */
static int which_part(const walk *w, const gt_plan_value *value)
{
    int64_t one = w->part->shape[2] * w->part->shape[3];
    const int64_t stride[RANK] = {w->part->shape[1] * 3 * one, 3 * one, w->part->shape[3], 1};
    int extra = value->view.meta.rank - RANK, axis = 0;
    if (value->buffer != w->packed->buffer || extra < 0 || extra > 1)
        return -1;
    for (int k = 0; k < value->view.meta.rank; k++) {
        if (extra == 1 && k == w->axis) { /* of size one */
            if (value->view.meta.shape[k] != 1)
                return -1;
            continue;
        }
        if (value->view.meta.shape[k] != w->part->shape[axis] ||
            (value->view.meta.shape[k] > 1 && value->view.stride[k] != stride[axis]))
            return -1;
        axis++;
    }
    int64_t at = (value->offset - w->packed->offset) / (int64_t)gt__dtype_size((gt_dtype)w->part->dtype);
    return at % one == 0 && at / one < 3 ? (int)(at / one) : -1;
}

/* The zeros: three parts along one axis. */
static bool add_zeros(walk *w, const gt_plan_step *step)
{
    const gt_plan_value *value = &w->plan->values[step->result];
    w->whole = value;
    w->buffer = value->buffer;
    return step->kind == GT_STEP_RUN && value->view.meta.rank == RANK + 1 &&
           value->view.meta.dtype == w->part->dtype && value->view.meta.numel == 3 * w->part->numel;
}

/* The axis along which an assignment covers one of three. */
static bool find_axis(walk *w, const gt_slot *tail)
{
    const gt_meta *whole = &w->whole->view.meta;
    int found = -1;
    for (int axis = 0; axis < whole->rank; axis++) {
        if (tail[0].i64[axis] == 0 && tail[1].i64[axis] == 1 && tail[2].i64[axis] == whole->shape[axis])
            continue;
        if (found >= 0 || tail[2].i64[axis] != 1 || whole->shape[axis] != 3)
            return false;
        found = axis;
    }
    if (found < 0 || (w->axis >= 0 && w->axis != found))
        return false;
    w->axis = found;
    for (int axis = 0; axis < whole->rank; axis++)
        if (axis != found && whole->shape[axis] != w->part->shape[part_axis(w, axis)])
            return false;
    return true;
}

static bool add_assignment(walk *w, const gt_plan_step *step)
{
    const gt_slot *tail = step->record + 1;
    if (!w->whole || step->moves || step->operand[0] == GT_PLAN_LITERAL || step->operand[1] == GT_PLAN_LITERAL ||
        !find_axis(w, tail))
        return false;
    const gt_plan_value *to = &w->plan->values[step->operand[0]];
    int part = which_part(w, &w->plan->values[step->operand[1]]);
    if (to->buffer != w->buffer || to->offset != 0 || !to->view.contiguous || part < 0 || w->place[part] >= 0)
        return false;
    w->place[part] = tail[0].i64[w->axis];
    w->buffer = w->plan->values[step->result].buffer;
    return true;
}

/* The copy: how far apart its elements are along the axes of the zeros. */
static bool find_strides(const walk *w, const gt_plan_step *step, int64_t stride[RANK + 1])
{
    const gt_plan_value *from = &w->plan->values[step->operand[0]], *to = &w->plan->values[step->result];
    const gt_view *view = &from->view;
    int64_t before = 1, after = 1;
    if (from->buffer != w->buffer || from->offset != 0 || view->meta.rank != RANK + 1 ||
        view->meta.numel != w->whole->view.meta.numel || !to->view.contiguous || to->offset != 0 ||
        to->view.meta.dtype != w->part->dtype)
        return false;
    for (int axis = RANK; axis >= 0; axis--, before *= w->whole->view.meta.shape[axis + 1]) {
        int64_t size = w->whole->view.meta.shape[axis];
        int found = -1;
        after = 1;
        for (int k = RANK; k >= 0 && found < 0; k--) {
            if (view->meta.shape[k] == size && view->stride[k] == before)
                found = k;
            else
                after *= view->meta.shape[k];
        }
        if (found < 0 || size < 2) /* of axes with one element it cannot be told which is which */
            return false;
        stride[axis] = after;
    }
    return true;
}

static bool dies_at(const gt_plan *plan, uint32_t buffer, uint32_t step)
{
    return plan->buffers[buffer].role == GT_PLAN_INNER && plan->buffers[buffer].last_use <= step;
}

bool gt__cuda_spread_find(const gt_plan *plan, uint32_t backward, gt_cuda_spread *spread)
{
    const gt_plan_step *gradients = &plan->steps[backward];
    const gt_meta *q = &plan->values[gradients->operand[1]].view.meta;
    walk w = {
        .plan = plan, .packed = &plan->values[gradients->result], .part = q, .axis = -1, .place = {-1, -1, -1}};
    unsigned assigned = 0;
    if (q->rank != RANK || !gt__meta_same_shape(q, &plan->values[gradients->operand[2]].view.meta) ||
        w.packed->view.meta.numel != 3 * q->numel || gradients->group != backward)
        return false;
    for (uint32_t k = backward + 1; k < plan->step_count; k++) {
        const gt_plan_step *step = &plan->steps[k];
        if (step->kind == GT_STEP_VIEW)
            continue;
        if (step->group != k)
            return false;
        if (step->op == GT_OP_full && !w.whole) {
            if (!add_zeros(&w, step))
                return false;
        } else if (step->op == GT_OP_assign && assigned < 3) {
            uint32_t before = w.buffer;
            if (!add_assignment(&w, step) || (before != w.buffer && !dies_at(plan, before, k)))
                return false;
            assigned++;
        } else {
            int64_t stride[RANK + 1];
            if (assigned < 3 || gt__op_table[step->op].form != GT_FORM_RESHAPE || step->kind != GT_STEP_RUN ||
                !find_strides(&w, step, stride) || !dies_at(plan, w.buffer, k) ||
                !dies_at(plan, w.packed->buffer, k) || stride[w.axis == RANK ? RANK - 1 : RANK] != 1)
                return false;
            *spread = (gt_cuda_spread){.end = k, .result = step->result};
            for (int part = 0; part < 3; part++)
                spread->at[part] = w.place[part] * stride[w.axis];
            for (int axis = 0, to = 0; axis <= RANK; axis++)
                if (axis != w.axis)
                    spread->stride[to++] = stride[axis];
            return true;
        }
    }
    return false;
}

void gt__cuda_spread_settle(gt_plan *plan, uint32_t backward, const gt_cuda_spread *spread)
{
    for (uint32_t k = backward; k <= spread->end; k++) {
        uint32_t buffer = plan->values[plan->steps[k].result].buffer;
        plan->steps[k].group = backward;
        if (plan->steps[k].kind != GT_STEP_VIEW && k < spread->end)
            plan->buffers[buffer].role = GT_PLAN_NONE;
    }
}

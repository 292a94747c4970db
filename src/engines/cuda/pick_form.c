/*
 * pick_form.c: log_softmax whose result is only picked from, one element of each row, and read by its own gradient, as cross entropy
 * does. The result is as large as the logits, in float32. Instead, the step keeps two numbers for each row, the maximum and the
 * logarithm of the sum of exponentials, and the steps that read the result compute the elements from the logits. Read chain.h first.
 */
#include <string.h>

#include "engines/cuda/chain.h"

static const gt_plan_value *value_of(const gt_plan *plan, uint32_t step, unsigned k)
{
    uint32_t value = plan->steps[step].operand[k];
    return value == GT_PLAN_LITERAL ? NULL : &plan->values[value];
}

static bool reads(const gt_plan *plan, uint32_t step, uint32_t buffer)
{
    for (unsigned k = 0; plan->steps[step].kind != GT_STEP_VIEW && k < plan->steps[step].operands; k++) {
        const gt_plan_value *value = value_of(plan, step, k);
        if (value && value->buffer == buffer)
            return true;
    }
    return false;
}

static bool along_last_axis(const gt_plan *plan, uint32_t step, const gt_meta *meta)
{
    return meta->rank > 0 && plan->steps[step].record->ins.imm[0].i == meta->rank - 1;
}

/* All of the result of the step `forward`, in rows as it has them. */
static bool is_result(const gt_plan *plan, uint32_t forward, const gt_plan_value *value)
{
    const gt_plan_value *result = &plan->values[plan->steps[forward].result];
    return value && value->buffer == result->buffer && value->offset == 0 && value->view.contiguous &&
           gt__meta_same_shape(&value->view.meta, &result->view.meta);
}

/* result[i, index[i]]. */
static bool is_pick(const gt_plan *plan, uint32_t forward, uint32_t step)
{
    const gt_plan_step *s = &plan->steps[step];
    if (s->op != GT_OP_gather || s->kind != GT_STEP_RUN || !is_result(plan, forward, value_of(plan, step, 0)))
        return false;
    const gt_meta *from = &value_of(plan, step, 0)->view.meta;
    const gt_plan_value *index = value_of(plan, step, 1), *out = &plan->values[s->result];
    int last = from->rank - 1;
    bool picks = along_last_axis(plan, step, from) && index && index->view.meta.rank == from->rank &&
                 index->view.meta.shape[last] == 1 && out->view.contiguous && out->view.meta.dtype == GT_FLOAT32;
    for (int axis = 0; picks && axis < last; axis++)
        picks = index->view.meta.shape[axis] == from->shape[axis];
    return picks;
}

static bool is_gradient(const gt_plan *plan, uint32_t forward, uint32_t step)
{
    const gt_plan_step *s = &plan->steps[step];
    const gt_plan_value *g = value_of(plan, step, 0), *y = value_of(plan, step, 1);
    return s->op == GT_OP_log_softmax_backward && s->kind == GT_STEP_RUN && s->compute == GT_FLOAT32 && g &&
           is_result(plan, forward, y) && g->buffer != y->buffer && along_last_axis(plan, step, &y->view.meta);
}

/* The value that has the logits: what a cast before the step reads, if that does not run. */
static uint32_t logits_of(const gt_plan *plan, uint32_t forward, const gt_cuda_rows *rows)
{
    uint32_t x = plan->steps[forward].operand[0];
    for (unsigned k = 0; rows && k < rows->count; k++)
        if (rows->change[k].kind == GT_ROW_READS &&
            plan->values[rows->change[k].of].buffer == plan->values[x].buffer)
            return rows->change[k].instead;
    return x;
}

bool gt__cuda_picks_find(const gt_plan *plan, uint32_t forward, const gt_cuda_rows *rows, gt_cuda_picks *picks)
{
    const gt_plan_step *step = &plan->steps[forward];
    const gt_plan_value *y = &plan->values[step->result];
    const gt_meta *meta = &y->view.meta;
    if (step->op != GT_OP_log_softmax || step->kind != GT_STEP_RUN || step->compute != GT_FLOAT32 ||
        step->operand[0] == GT_PLAN_LITERAL || meta->dtype != GT_FLOAT32 || meta->numel == 0 ||
        !along_last_axis(plan, forward, meta) || plan->buffers[y->buffer].role != GT_PLAN_INNER)
        return false;
    uint32_t x = logits_of(plan, forward, rows), logits = plan->values[x].buffer,
             end = plan->buffers[y->buffer].last_use;
    gt_plan_role role = plan->buffers[logits].role;
    if (!plan->values[x].view.contiguous || plan->values[x].view.meta.numel != meta->numel ||
        (role != GT_PLAN_INNER && role != GT_PLAN_OUTPUT))
        return false;
    *picks = (gt_cuda_picks){.forward = forward, .last = end, .logits = x};
    for (uint32_t k = forward + 1; k <= end; k++) {
        if (plan->steps[k].kind == GT_STEP_IN_PLACE && plan->values[plan->steps[k].result].buffer == logits)
            return false;
        if (!reads(plan, k, y->buffer))
            continue;
        if (picks->readers == GT_PICK_READERS || (!is_pick(plan, forward, k) && !is_gradient(plan, forward, k)))
            return false;
        picks->reader[picks->readers++] = k;
    }
    picks->bytes = (size_t)(meta->numel / meta->shape[meta->rank - 1]) * 2 * sizeof(float);
    return picks->readers > 0;
}

void gt__cuda_picks_settle(gt_plan *plan, const gt_cuda_picks *picks)
{
    gt__cuda_read_until(&plan->buffers[plan->values[picks->logits].buffer], picks->last);
    plan->buffers[plan->values[plan->steps[picks->forward].result].buffer].role = GT_PLAN_NONE;
}

void gt__cuda_picks_change(const gt_cuda_picks *picks, const gt_plan *plan, void *const *buffer, gt_view *in,
                           const gt_view **views, gt_call *call)
{
    gt_view x = gt__plan_view(plan, picks->logits, buffer);
    bool gradient = call->op == GT_OP_log_softmax_backward, sparse = gradient && call->operands == 3;
    x.meta.rank = 2; /* all of its rows */
    x.meta.shape[1] = plan->values[plan->steps[picks->forward].result]
                          .view.meta.shape[plan->values[plan->steps[picks->forward].result].view.meta.rank - 1];
    x.meta.shape[0] = x.meta.numel / x.meta.shape[1];
    x.stride[0] = x.meta.shape[1];
    x.stride[1] = 1;
    if (call->op == GT_OP_gather)
        in[2] = in[1];
    else if (!sparse)
        in[2] = (gt_view){.data = NULL};
    in[gradient ? 1 : 0] = x;
    if (!gradient)
        in[1] = x;
    in[3] = (gt_view){.data = (void *)(uintptr_t)picks->moments, .contiguous = true};
    in[3].meta.dtype = GT_FLOAT32;
    for (unsigned k = 0; k < 4; k++)
        views[k] = &in[k];
    call->op = gradient ? GT_OP_log_softmax_backward : GT_OP_log_softmax;
    call->compute = GT_FLOAT32;
    call->operands = 4;
}

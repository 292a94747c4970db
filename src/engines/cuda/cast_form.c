/*
 * cast_form.c: casts of halves to float32 that need not run, because elementwise steps alone read their results: these read the halves,
 * which is the same number. So the gradients of a model that computes in halves are read by the optimizer's update as they are. Read
 * chain.h first.
 */
#include <stdlib.h>
#include <string.h>

#include "engines/cuda/chain.h"

static bool is_whole(const gt_plan_value *value)
{
    return value->offset == 0 && value->view.contiguous;
}

static bool is_elementwise(const gt_plan_step *step)
{
    gt_form form = (gt_form)gt__op_table[step->op].form;
    return step->kind == GT_STEP_RUN && (step->compute == GT_FLOAT32 || step->compute == GT_FLOAT64) &&
           (form == GT_FORM_UNARY || form == GT_FORM_BINARY || form == GT_FORM_TERNARY);
}

/* A step that can be left out if all that read its result read its operand instead. */
static bool is_widening(const gt_plan *plan, uint32_t number)
{
    const gt_plan_step *step = &plan->steps[number];
    if (gt__op_table[step->op].form != GT_FORM_CAST || step->kind != GT_STEP_RUN ||
        step->operand[0] == GT_PLAN_LITERAL)
        return false;
    const gt_plan_value *from = &plan->values[step->operand[0]], *to = &plan->values[step->result];
    gt_plan_role role = plan->buffers[from->buffer].role;
    return gt__dtype_is_half((gt_dtype)from->view.meta.dtype) && to->view.meta.dtype == GT_FLOAT32 &&
           from->view.contiguous && to->view.meta.numel > 0 && plan->buffers[to->buffer].role == GT_PLAN_INNER &&
           (role == GT_PLAN_INNER || role == GT_PLAN_OUTPUT);
}

/* All steps that read a buffer are elementwise and read all of it in order, and until the last one nothing is written over
 * `from`. */
static bool can_be_left_out(const gt_plan *plan, uint32_t cast)
{
    uint32_t buffer = plan->values[plan->steps[cast].result].buffer,
             from = plan->values[plan->steps[cast].operand[0]].buffer;
    bool read = false;
    for (uint32_t k = cast + 1; k <= plan->buffers[buffer].last_use; k++) {
        const gt_plan_step *step = &plan->steps[k];
        if (step->kind == GT_STEP_IN_PLACE && plan->values[step->result].buffer == from)
            return false;
        for (unsigned operand = 0; step->kind != GT_STEP_VIEW && operand < step->operands; operand++) {
            const gt_plan_value *value =
                step->operand[operand] == GT_PLAN_LITERAL ? NULL : &plan->values[step->operand[operand]];
            if (!value || value->buffer != buffer)
                continue;
            if (!is_elementwise(step) || !is_whole(value))
                return false;
            read = true;
        }
    }
    return read;
}

gt_err gt__cuda_casts_find(const gt_plan *plan, gt_cuda_casts *casts)
{
    casts->left_out = calloc(plan->step_count + 1, sizeof *casts->left_out);
    casts->instead = malloc((plan->value_count + 1) * sizeof *casts->instead);
    if (!casts->left_out || !casts->instead)
        return gt__fail(GT_ERR_MEMORY, "no memory for a program");
    memset(casts->instead, 0xff, (plan->value_count + 1) * sizeof *casts->instead);
    for (uint32_t k = 0; k < plan->step_count; k++) {
        if (!is_widening(plan, k) || !can_be_left_out(plan, k))
            continue;
        casts->left_out[k] = true;
        uint32_t buffer = plan->values[plan->steps[k].result].buffer;
        for (uint32_t value = 0; value < plan->value_count; value++)
            if (plan->values[value].buffer == buffer)
                casts->instead[value] = plan->steps[k].operand[0];
    }
    return GT_OK;
}

void gt__cuda_casts_free(gt_cuda_casts *casts)
{
    free(casts->left_out);
    free(casts->instead);
}

void gt__cuda_casts_settle(gt_plan *plan, const gt_cuda_casts *casts)
{
    for (uint32_t k = 0; k < plan->step_count; k++) {
        if (!casts->left_out[k])
            continue;
        gt_plan_buffer *from = &plan->buffers[plan->values[plan->steps[k].operand[0]].buffer],
                       *to = &plan->buffers[plan->values[plan->steps[k].result].buffer];
        gt__cuda_read_until(from, to->last_use);
        to->role = GT_PLAN_NONE;
    }
}

void gt__cuda_casts_change(const gt_cuda_casts *casts, const gt_plan *plan, const gt_plan_step *step,
                           void *const *buffer, gt_view *in)
{
    for (unsigned k = 0; k < step->operands; k++) {
        if (step->operand[k] == GT_PLAN_LITERAL || casts->instead[step->operand[k]] == GT_CAST_NONE)
            continue;
        gt_view halves = gt__plan_view(plan, casts->instead[step->operand[k]], buffer);
        in[k].data = halves.data;
        in[k].meta.dtype = halves.meta.dtype;
    }
}

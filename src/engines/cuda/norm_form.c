/*
 * norm_form.c: the gradients of layer norm in one plan. Those of its operand, weight and bias are three steps, one behind the other, that
 * read the same gradient and two of them the same operand: they run as one, which reads both once. Read chain.h first.
 */
#include <string.h>

#include "engines/cuda/chain.h"

/* The next step that computes something; the plan's count: there is none. */
static uint32_t step_after(const gt_plan *plan, uint32_t step)
{
    do
        step++;
    while (step < plan->step_count && plan->steps[step].kind == GT_STEP_VIEW);
    return step;
}

static bool is_run(const gt_plan *plan, uint32_t step, gt_opcode op)
{
    return step < plan->step_count && plan->steps[step].op == op && plan->steps[step].kind == GT_STEP_RUN;
}

static bool has_contiguous_result(const gt_plan *plan, uint32_t step)
{
    return plan->values[plan->steps[step].result].view.contiguous;
}

/* The sum of g over all axes before those that are normalised. */
static bool is_bias(const gt_plan *plan, uint32_t step, uint32_t backward, uint32_t weight)
{
    if (!is_run(plan, step, GT_OP_sum) || !has_contiguous_result(plan, step) ||
        !gt__cuda_same_operand(plan, plan->steps[step].operand[0], plan->steps[backward].operand[0]))
        return false;
    int64_t axis = plan->steps[backward].record->ins.imm[0].i;
    const gt_meta *bias = &plan->values[plan->steps[step].result].view.meta,
                  *other = &plan->values[plan->steps[weight].result].view.meta;
    return axis > 0 && plan->steps[step].record->ins.imm[0].u == ((uint64_t)1 << axis) - 1 &&
           bias->numel == other->numel && bias->dtype == other->dtype;
}

bool gt__cuda_norm_find(const gt_plan *plan, uint32_t backward, gt_cuda_norm *norm)
{
    const gt_plan_step *step = &plan->steps[backward];
    uint32_t weight = step_after(plan, backward);
    if (!is_run(plan, backward, GT_OP_layer_norm_backward) ||
        !is_run(plan, weight, GT_OP_layer_norm_backward_weight) || !has_contiguous_result(plan, backward) ||
        !has_contiguous_result(plan, weight) ||
        !gt__cuda_same_operand(plan, step->operand[0], plan->steps[weight].operand[0]) ||
        !gt__cuda_same_operand(plan, step->operand[1], plan->steps[weight].operand[1]))
        return false;
    uint32_t bias = step_after(plan, weight);
    norm->has_bias = is_bias(plan, bias, backward, weight);
    norm->backward = backward;
    norm->weight = weight;
    norm->last = norm->has_bias ? bias : weight;
    return true;
}

void gt__cuda_norm_settle(gt_plan *plan, const gt_cuda_norm *norm)
{
    for (uint32_t step = norm->backward + 1; step <= norm->last; step++)
        plan->steps[step].group = plan->steps[norm->backward].group;
}

bool gt__cuda_norm_holds(const gt_cuda_norm *norm, const gt_plan *plan)
{
    const gt_instruction *backward = &plan->steps[norm->backward].record->ins,
                         *weight = &plan->steps[norm->weight].record->ins;
    return memcmp(backward->imm, weight->imm, sizeof backward->imm) == 0 &&
           (!norm->has_bias ||
            plan->steps[norm->last].record->ins.imm[0].u == ((uint64_t)1 << backward->imm[0].i) - 1);
}

void gt__cuda_norm_change(const gt_cuda_norm *norm, const gt_plan *plan, void *const *buffer, gt_view *in,
                          const gt_view **views, gt_call *call)
{
    in[3] = in[4] = gt__plan_view(plan, plan->steps[norm->weight].result, buffer);
    if (norm->has_bias)
        in[4] = gt__plan_view(plan, plan->steps[norm->last].result, buffer);
    else
        in[4].data = NULL;
    views[3] = &in[3];
    views[4] = &in[4];
    call->operands = 5;
}

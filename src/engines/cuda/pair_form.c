/*
 * pair_form.c: attention and its gradients in one plan. The gradients need the logarithm of each query's sum of exponentials, and the
 * product of its gradient with its result. Where the plan has both steps, the first keeps the logarithms and its result lives
 * on, so that the second need not compute attention again. The step that packs queries and gradient for it need not run, if nothing
 * else reads its result. Read chain.h first.
 */
#include <stdlib.h>
#include <string.h>

#include "core/attention.h"
#include "engines/cuda/chain.h"

static bool same_view(const gt_view *a, const gt_view *b)
{
    bool same = a->meta.rank == b->meta.rank && a->meta.dtype == b->meta.dtype;
    for (unsigned axis = 0; same && axis < a->meta.rank; axis++)
        same = a->meta.shape[axis] == b->meta.shape[axis] &&
               (a->meta.shape[axis] == 1 || a->stride[axis] == b->stride[axis]);
    return same;
}

bool gt__cuda_same_operand(const gt_plan *plan, uint32_t a, uint32_t b)
{
    if (a == GT_PLAN_LITERAL || b == GT_PLAN_LITERAL)
        return false;
    const gt_plan_value *first = &plan->values[a], *second = &plan->values[b];
    return first->buffer == second->buffer && first->offset == second->offset &&
           same_view(&first->view, &second->view);
}

static uint32_t buffer_of(const gt_plan *plan, uint32_t value)
{
    return plan->values[value].buffer;
}

/* A step after `from` and before `to` writes into the buffer in place. */
static bool is_overwritten(const gt_plan *plan, uint32_t buffer, uint32_t from, uint32_t to)
{
    for (uint32_t k = from + 1; k < to; k++)
        if (plan->steps[k].kind == GT_STEP_IN_PLACE && buffer_of(plan, plan->steps[k].result) == buffer)
            return true;
    return false;
}

/* The step that put queries and gradients side by side for the step `backward`; itself: there is none. */
static uint32_t find_cat(const gt_plan *plan, uint32_t backward)
{
    uint32_t packed = plan->steps[backward].operand[0];
    for (uint32_t k = backward; k-- > 0;) {
        const gt_plan_step *step = &plan->steps[k];
        if (step->kind == GT_STEP_VIEW || buffer_of(plan, step->result) != buffer_of(plan, packed))
            continue;
        bool fits = step->op == GT_OP_cat && step->kind == GT_STEP_RUN && step->operands == 2 &&
                    gt__cuda_same_operand(plan, step->result, packed) &&
                    step->record->ins.imm[0].i == plan->values[packed].view.meta.rank - 1;
        return fits ? k : backward;
    }
    return backward;
}

/* The step whose gradients the step `backward` computes; itself: there is none. */
static uint32_t find_forward(const gt_plan *plan, uint32_t backward)
{
    const gt_plan_step *step = &plan->steps[backward];
    uint32_t cat = find_cat(plan, backward);
    for (uint32_t k = cat; cat < backward && k-- > 0;) {
        const gt_plan_step *before = &plan->steps[k];
        if (before->op != GT_OP_attention || before->kind != GT_STEP_RUN ||
            !gt__cuda_same_operand(plan, before->operand[0], plan->steps[cat].operand[0]) ||
            !gt__cuda_same_operand(plan, before->operand[1], step->operand[1]) ||
            !gt__cuda_same_operand(plan, before->operand[2], step->operand[2]))
            continue;
        bool changed = is_overwritten(plan, buffer_of(plan, before->result), k, backward);
        for (unsigned operand = 0; operand < 3; operand++)
            changed |= is_overwritten(plan, buffer_of(plan, before->operand[operand]), k, backward);
        return changed ? backward : k;
    }
    return backward;
}

/* A buffer can be made to live until a later step: it is the plan's own. */
static bool can_live(const gt_plan *plan, uint32_t buffer)
{
    return plan->buffers[buffer].role == GT_PLAN_INNER || plan->buffers[buffer].role == GT_PLAN_OUTPUT;
}

/* Whether the step `backward` can read what the step `cat` packs for it where it is. */
static bool is_apart(const gt_plan *plan, uint32_t cat, uint32_t backward)
{
    const gt_plan_step *step = &plan->steps[cat];
    uint32_t packed = buffer_of(plan, step->result);
    if (plan->buffers[packed].role != GT_PLAN_INNER || plan->buffers[packed].last_use != backward)
        return false;
    for (unsigned k = 0; k < 2; k++) {
        uint32_t value = step->operand[k];
        if (value == GT_PLAN_LITERAL || !can_live(plan, buffer_of(plan, value)) ||
            plan->values[value].view.meta.dtype != plan->values[step->result].view.meta.dtype ||
            is_overwritten(plan, buffer_of(plan, value), cat, backward))
            return false;
    }
    for (uint32_t k = cat + 1; k < backward; k++)
        for (unsigned operand = 0; plan->steps[k].kind != GT_STEP_VIEW && operand < plan->steps[k].operands;
             operand++)
            if (plan->steps[k].operand[operand] != GT_PLAN_LITERAL &&
                buffer_of(plan, plan->steps[k].operand[operand]) == packed)
                return false;
    return true;
}

bool gt__cuda_pair_find(const gt_plan *plan, uint32_t backward, gt_cuda_pair *pair)
{
    const gt_plan_step *step = &plan->steps[backward];
    if (step->op != GT_OP_attention_backward || step->kind != GT_STEP_RUN || step->operand[0] == GT_PLAN_LITERAL)
        return false;
    uint32_t forward = find_forward(plan, backward);
    if (forward == backward || !plan->values[plan->steps[forward].result].view.contiguous)
        return false;
    const gt_meta *result = &plan->values[plan->steps[forward].result].view.meta;
    if (result->numel == 0)
        return false;
    int64_t queries = result->numel / result->shape[result->rank - 1];
    uint32_t cat = find_cat(plan, backward);
    *pair = (gt_cuda_pair){.forward = forward,
                           .cat = cat,
                           .backward = backward,
                           .apart = is_apart(plan, cat, backward),
                           .bytes = (size_t)queries * 2 * sizeof(float)};
    pair->spreads = gt__cuda_spread_find(plan, backward, &pair->spread);
    return true;
}

void gt__cuda_pair_settle(gt_plan *plan, const gt_cuda_pair *pair)
{
    const gt_plan_step *cat = &plan->steps[pair->cat];
    gt__cuda_read_until(&plan->buffers[buffer_of(plan, plan->steps[pair->forward].result)], pair->backward);
    if (pair->spreads)
        gt__cuda_spread_settle(plan, pair->backward, &pair->spread);
    if (!pair->apart)
        return;
    for (unsigned k = 0; k < 2; k++)
        gt__cuda_read_until(&plan->buffers[buffer_of(plan, cat->operand[k])], pair->backward);
    plan->buffers[buffer_of(plan, cat->result)].role = GT_PLAN_NONE;
}

/* The kernels read it where it is, by 16 bytes, or a copy of it. */
static bool is_aligned(const gt_plan *plan, uint32_t value, void *const *buffer)
{
    gt_view view = gt__plan_view(plan, value, buffer);
    return !view.contiguous || (uintptr_t)view.data % 16 == 0;
}

bool gt__cuda_pair_holds(const gt_cuda_pair *pair, const gt_plan *plan, void *const *buffer)
{
    const gt_plan_step *forward = &plan->steps[pair->forward], *backward = &plan->steps[pair->backward];
    bool holds = !pair->apart || is_aligned(plan, plan->steps[pair->cat].operand[1], buffer);
    for (unsigned k = 0; k < 3; k++)
        holds &= is_aligned(plan, forward->operand[k], buffer);
    return holds &&
           memcmp(forward->record->ins.imm, backward->record->ins.imm, sizeof forward->record->ins.imm) == 0;
}

void gt__cuda_pair_change(const gt_cuda_pair *pair, const gt_plan *plan, uint32_t step, void *const *buffer,
                          gt_view *in, const gt_view **views, gt_view *out, gt_call *call)
{
    in[3] = (gt_view){.data = (void *)(uintptr_t)pair->moments, .contiguous = true};
    in[3].meta.dtype = GT_FLOAT32;
    call->operands = 4;
    if (step == pair->backward) {
        in[4] = gt__plan_view(plan, plan->steps[pair->forward].result, buffer);
        in[5] = in[6] = (gt_view){.data = NULL};
        call->operands = 7;
    }
    if (step == pair->backward && pair->apart) {
        in[0] = gt__plan_view(plan, plan->steps[pair->cat].operand[0], buffer);
        in[5] = gt__plan_view(plan, plan->steps[pair->cat].operand[1], buffer);
    }
    if (step == pair->backward && pair->spreads) {
        in[6] = gt__plan_view(plan, pair->spread.result, buffer);
        memcpy(in[6].meta.shape, pair->spread.at, sizeof pair->spread.at);
        memcpy(in[6].stride, pair->spread.stride, sizeof pair->spread.stride);
        out->data = in[6].data;
    }
    for (unsigned k = 3; k < call->operands; k++)
        views[k] = &in[k];
}

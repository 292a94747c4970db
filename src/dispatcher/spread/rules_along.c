/*
 * rules_along.c: the rules of ops along an axis where that axis is the split one. along.c, pick.c and join.c have the steps
 * that they lead to. See rules.c for the table, and for what happens where another axis is split.
 */
#include "dispatcher/spread/along.h"
#include "dispatcher/spread/rules.h"

/* Operand 0 is split along this axis, and there is something to compute. */
static bool is_along(const gt_task *task, int64_t axis)
{
    return gt__rule_has_parts(task, 0) && task->source[0].layout->axis == axis && task->source[0].meta->numel;
}

/* Several steps on operand 0 as it is. */
static gt_err plan_steps(const gt_task *task, gt_plan *plan, gt_steps *run)
{
    plan->operand[0] = gt__layout_retain(task->source[0].layout);
    plan->run = run;
    return GT_OK;
}

gt_err gt__plan_softmax(gt_task *task, gt_plan *plan)
{
    return is_along(task, task->ins->imm[0].i) ? plan_steps(task, plan, gt__run_softmax)
                                               : gt__plan_along(task, plan);
}

gt_err gt__plan_softmax_backward(gt_task *task, gt_plan *plan)
{
    int lead = gt__rule_lead(task);
    if (lead < 0 || task->source[lead].layout->axis != task->ins->imm[0].i || !task->out.numel)
        return gt__plan_alike(task, plan);
    gt_layout *like = task->source[lead].layout;
    plan->run = gt__run_softmax_backward;
    GT_TRY(gt__rule_want(task, plan, 0, like, like->axis));
    return gt__rule_want(task, plan, 1, like, like->axis);
}

/* ---- with another axis split --------------------------------------------------------------------------------- */

/* The longest axis but `along` that all tensors have in the same size; -1: there is none of at least two elements. */
static int other_axis(const gt_task *task, unsigned along)
{
    int best = -1;
    const gt_meta *first = task->source[0].meta;
    for (unsigned d = 0; d < first->rank; d++) {
        bool fits = d != along && first->shape[d] > 1;
        for (unsigned k = 1; k < task->count && fits; k++)
            fits = !task->source[k].meta || task->source[k].meta->shape[d] == first->shape[d];
        if (fits && (best < 0 || first->shape[d] > first->shape[best]))
            best = (int)d;
    }
    return best;
}

/* All operands go to parts along another axis. The result comes back to parts like those of operand 0. */
static gt_err plan_elsewhere(const gt_task *task, gt_plan *plan, unsigned along, int other)
{
    const gt_layout *like = task->source[0].layout;
    int64_t size = other < 0 ? 1 : task->out.shape[other], length = task->out.shape[along];
    gt_layout *there = gt__layout_even_like(like, other < 0 ? 0 : (unsigned)other, size);
    for (unsigned k = 0; k < task->count && there; k++)
        plan->operand[k] = task->source[k].meta ? gt__layout_retain(there) : NULL;
    gt__layout_release(there);
    if (length == task->source[0].meta->shape[along])
        plan->result = gt__layout_retain(task->source[0].layout);
    else if (length >= like->count)
        plan->result = gt__layout_even_like(like, along, length);
    plan->run = gt__run_elsewhere;
    return there && (plan->result || length < like->count) ? GT_OK : gt__spread_no_memory();
}

/* Parts are scanned, and what came before each is added. Not products of floats: 0 times a part that overflows alone is no number. */
gt_err gt__plan_scan(gt_task *task, gt_plan *plan)
{
    int64_t along = task->ins->imm[0].i;
    gt_opcode op = (gt_opcode)task->ins->op;
    if (!is_along(task, along))
        return gt__plan_along(task, plan);
    if (op == GT_OP_cumprod && gt__dtype_is_inexact((gt_dtype)task->out.dtype))
        return plan_elsewhere(task, plan, (unsigned)along, other_axis(task, (unsigned)along));
    return plan_steps(task, plan,
                      op == GT_OP_cummax || op == GT_OP_cummin ? gt__run_positions_so_far : gt__run_scan);
}

/* Lines are sorted where they are whole: a matrix goes to parts along another axis, a vector to one worker. */
gt_err gt__plan_argsort(gt_task *task, gt_plan *plan)
{
    int64_t along = task->ins->imm[0].i;
    return is_along(task, along) ? plan_elsewhere(task, plan, (unsigned)along, other_axis(task, (unsigned)along))
                                 : gt__plan_along(task, plan);
}

/* ---- picking ------------------------------------------------------------------------------------------------- */

gt_err gt__plan_argreduce(gt_task *task, gt_plan *plan)
{
    int64_t along = task->ins->imm[0].i;
    if (along < 0 && gt__rule_has_parts(task, 0) && task->source[0].meta->numel)
        return plan_steps(task, plan, gt__run_argreduce_all);
    return is_along(task, along) ? plan_steps(task, plan, gt__run_argreduce) : gt__plan_along(task, plan);
}

gt_err gt__plan_topk(gt_task *task, gt_plan *plan)
{
    return is_along(task, task->ins->imm[0].i) && task->out.numel ? plan_steps(task, plan, gt__run_topk)
                                                                  : gt__plan_along(task, plan);
}

/* Operand 0 as it is, the others on each of its workers. */
static gt_err plan_picking(const gt_task *task, gt_plan *plan, gt_steps *run)
{
    for (unsigned k = 1; k < task->count; k++)
        GT_TRY(gt__rule_want(task, plan, k, task->source[0].layout, -1));
    return plan_steps(task, plan, run);
}

/* An index with fewer elements than a part is best sent to every part. */
static bool is_short(const gt_task *task)
{
    return task->source[1].meta->numel <= task->source[0].meta->numel / task->source[0].layout->count;
}

/* Complex numbers are not picked by sums, which lose the sign of an imaginary zero. */
static bool sums_exactly(const gt_task *task)
{
    return !gt__dtype_is_complex((gt_dtype)task->out.dtype);
}

/* out = a[:axis] + index.shape + a[axis+1:]: split as the index is, or as `a` is along another axis; partial where `a` is split
 * along this one. */
gt_err gt__plan_take(gt_task *task, gt_plan *plan)
{
    const gt_meta *index = task->source[1].meta;
    unsigned along = (unsigned)task->ins->imm[0].i;
    bool picks = is_along(task, along) && task->out.numel && sums_exactly(task);
    if (picks && (task->out.numel <= task->source[0].meta->numel || !gt__rule_has_parts(task, 1)))
        return plan_picking(task, plan, gt__run_take);
    if (gt__rule_has_parts(task, 1)) {
        gt_layout *like = task->source[1].layout;
        GT_TRY(gt__rule_want(task, plan, 0, like, -1));
        GT_TRY(gt__rule_want(task, plan, 1, like, like->axis));
        return gt__rule_give(plan, like, GT_SPLIT, along + like->axis);
    }
    if (!gt__rule_has_parts(task, 0) || task->source[0].layout->axis == along)
        return gt__rule_whole(task, plan);
    gt_layout *like = task->source[0].layout;
    GT_TRY(gt__rule_want(task, plan, 0, like, like->axis));
    GT_TRY(gt__rule_want(task, plan, 1, like, -1));
    return gt__rule_give(plan, like, GT_SPLIT, like->axis < along ? like->axis : like->axis + index->rank - 1u);
}

gt_err gt__plan_gather(gt_task *task, gt_plan *plan)
{
    unsigned along = (unsigned)task->ins->imm[0].i;
    if (is_along(task, along) && task->out.numel) {
        int other = other_axis(task, along);
        if (sums_exactly(task) && (other < 0 || is_short(task)))
            return plan_picking(task, plan, gt__run_gather);
        return other < 0 ? gt__rule_whole(task, plan) : plan_elsewhere(task, plan, along, other);
    }
    if (!gt__rule_has_parts(task, 0) && gt__rule_has_parts(task, 1) && task->source[1].layout->axis == along) {
        gt_layout *like = task->source[1].layout;
        GT_TRY(gt__rule_want(task, plan, 0, like, -1));
        plan->operand[1] = gt__layout_retain(like);
        plan->result = gt__layout_retain(like);
        return GT_OK;
    }
    return gt__plan_indexed(task, plan);
}

/* Each member adds its own part of the source, so the result is partial; only the first member adds to the tensor, the
 * others to zeros. */
static gt_err plan_partial_scatter(const gt_task *task, gt_plan *plan, gt_layout *like)
{
    gt_layout *first = gt__spread_alone(task->session, like->member[0].worker);
    if (!first)
        return gt__spread_no_memory();
    plan->operand[0] = gt__layout_retain(first);
    plan->only_first = true;
    GT_TRY(gt__rule_want(task, plan, 1, like, like->axis));
    GT_TRY(gt__rule_want(task, plan, 2, like, like->axis));
    return gt__rule_give(plan, like, GT_PARTIAL, 0);
}

gt_err gt__plan_scatter(gt_task *task, gt_plan *plan)
{
    const gt_source *index = &task->source[1], *src = &task->source[2];
    unsigned along = (unsigned)task->ins->imm[0].i;
    if (is_along(task, along) && index->meta->numel) {
        int other = other_axis(task, along);
        return other < 0 || is_short(task) ? plan_picking(task, plan, gt__run_scatter)
                                           : plan_elsewhere(task, plan, along, other);
    }
    unsigned lead = gt__rule_has_parts(task, 2) && src->layout->axis == along ? 2 : 1;
    bool adds = task->ins->op == GT_OP_scatter_add && src->meta && gt__meta_same_shape(index->meta, src->meta);
    if (adds && gt__rule_has_parts(task, lead) && task->source[lead].layout->axis == along)
        return plan_partial_scatter(task, plan, task->source[lead].layout);
    return gt__plan_indexed(task, plan);
}

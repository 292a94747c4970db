/* rules_move.c: the rules of ops that move or make data: views, indexing, creation. See rules.c. */
#include "dispatcher/spread/rules.h"

/* ---- views ------------------------------------------------------------------------------------------------- */

static void localize_shape(const gt_task *task, const gt_plan *plan, unsigned member, gt_slot *record)
{
    (void)task;
    if (plan->result->kind == GT_SPLIT)
        record[1].i64[plan->result->axis] = plan->result->member[member].count;
}

static bool partial_here(const gt_task *task)
{
    return task->source[0].layout->kind == GT_PARTIAL && gt__rule_within(task, task->source[0].layout);
}

gt_err gt__plan_permute(gt_task *task, gt_plan *plan)
{
    if (partial_here(task))
        return gt__rule_as_is(task, plan);
    if (!gt__rule_has_parts(task, 0))
        return gt__rule_whole(task, plan);
    for (unsigned d = 0; d < task->out.rank; d++)
        if ((task->ins->imm[0].u >> (8 * d) & 0xff) == task->source[0].layout->axis)
            return gt__rule_keep(task, plan, d);
    return gt__rule_whole(task, plan);
}

gt_err gt__plan_expand(gt_task *task, gt_plan *plan)
{
    if (partial_here(task))
        return gt__rule_as_is(task, plan);
    if (!gt__rule_has_parts(task, 0))
        return gt__rule_whole(task, plan);
    const gt_meta *a = task->source[0].meta;
    unsigned axis = task->source[0].layout->axis, d = axis + task->out.rank - a->rank;
    if (a->shape[axis] != task->out.shape[d])
        return gt__rule_whole(task, plan);
    plan->localize = localize_shape;
    return gt__rule_keep(task, plan, d);
}

/* The starts of the parts in a reshaped tensor: one of its axes begins where the split one does, and no part ends inside
 * a row of it. */
static gt_layout *reshaped(const gt_layout *from, const gt_meta *a, const gt_meta *out)
{
    int64_t before = 1, inner = 1, outer = 1;
    for (unsigned d = 0; d < from->axis; d++)
        before *= a->shape[d];
    for (unsigned d = from->axis + 1u; d < a->rank; d++)
        inner *= a->shape[d];
    for (unsigned d = 0; d < out->rank; outer *= out->shape[d++]) {
        if (outer != before || out->shape[d] < from->count)
            continue;
        int64_t row = out->numel / outer / out->shape[d];
        gt_layout *layout = gt__layout_like(from, GT_SPLIT, d);
        bool fits = layout;
        for (unsigned k = 0; fits && k < from->count; k++) {
            gt_member *member = &layout->member[k];
            fits = member->start * inner % row == 0 && member->count * inner % row == 0;
            member->start = member->start * inner / row;
            member->count = member->count * inner / row;
        }
        if (fits)
            return layout;
        gt__layout_release(layout);
    }
    return NULL;
}

gt_err gt__plan_reshape(gt_task *task, gt_plan *plan)
{
    if (partial_here(task))
        return gt__rule_as_is(task, plan);
    if (!gt__rule_has_parts(task, 0) || !task->out.numel ||
        !(plan->result = reshaped(task->source[0].layout, task->source[0].meta, &task->out)))
        return gt__rule_whole(task, plan);
    plan->operand[0] = gt__layout_retain(task->source[0].layout);
    plan->localize = localize_shape;
    return GT_OK;
}

/* ---- movement ---------------------------------------------------------------------------------------------- */

/* In a part that starts later the diagonal is elsewhere. One that is further away than a number can say is outside of all parts. */
static void localize_triangle(const gt_task *task, const gt_plan *plan, unsigned member, gt_slot *record)
{
    unsigned axis = plan->result->axis;
    int64_t start = plan->result->member[member].start, *diagonal = &record->ins.imm[0].i;
    if (plan->result->kind == GT_SPLIT && axis + 2u == task->out.rank)
        *diagonal = *diagonal > INT64_MAX - start ? INT64_MAX : *diagonal + start;
    else if (plan->result->kind == GT_SPLIT && axis + 1u == task->out.rank)
        *diagonal = *diagonal < INT64_MIN + start ? INT64_MIN : *diagonal - start;
}

gt_err gt__plan_triangle(gt_task *task, gt_plan *plan)
{
    if (!gt__rule_has_parts(task, 0))
        return gt__rule_whole(task, plan);
    plan->localize = localize_triangle;
    return gt__rule_keep(task, plan, task->source[0].layout->axis);
}

/* Tensors of one rank that are indexed along one axis: all split alike along another, where their sizes agree. */
gt_err gt__plan_indexed(gt_task *task, gt_plan *plan)
{
    int lead = gt__rule_lead(task);
    if (lead < 0)
        return gt__rule_whole(task, plan);
    gt_layout *like = task->source[lead].layout;
    int64_t size = task->source[lead].meta->shape[like->axis];
    bool fits = like->axis != task->ins->imm[0].i;
    for (unsigned k = 0; fits && k < task->count; k++)
        fits = !task->source[k].meta || task->source[k].meta->shape[like->axis] == size;
    if (!fits)
        return gt__rule_whole(task, plan);
    for (unsigned k = 0; k < task->count; k++)
        GT_TRY(gt__rule_want(task, plan, k, like, like->axis));
    plan->result = gt__layout_retain(like);
    return GT_OK;
}

/* ---- creation ---------------------------------------------------------------------------------------------- */

/* Random numbers of a part: runs of the whole tensor's elements (op.h). */
static void localize_random(const gt_task *task, const gt_plan *plan, unsigned member, gt_slot *record)
{
    const gt_layout *layout = plan->result;
    if (layout->kind != GT_SPLIT)
        return;
    int64_t inner = 1;
    for (unsigned d = layout->axis + 1u; d < task->out.rank; d++)
        inner *= task->out.shape[d];
    record[1].i64[layout->axis] = layout->member[member].count;
    record[2].i64[2] = layout->member[member].start * inner;
    record[2].i64[3] = layout->member[member].count * inner;
    record[2].i64[4] = task->out.shape[layout->axis] * inner;
}

/* The i-th number is start + i * step in the whole and in a part (op.h). */
static void localize_range(const gt_task *task, const gt_plan *plan, unsigned member, gt_slot *record)
{
    (void)task;
    localize_shape(task, plan, member, record);
    if (plan->result->kind == GT_SPLIT)
        record[1].i64[1] = plan->result->member[member].start;
}

static void localize_eye(const gt_task *task, const gt_plan *plan, unsigned member, gt_slot *record)
{
    localize_shape(task, plan, member, record);
    if (plan->result->kind == GT_SPLIT)
        record[1].i64[2] +=
            plan->result->axis == 0 ? plan->result->member[member].start : -plan->result->member[member].start;
}

gt_err gt__plan_create(gt_task *task, gt_plan *plan)
{
    gt_target *target = task->target;
    gt_form form = (gt_form)gt__op_table[task->ins->op].form;
    bool small = target && target->automatic &&
                 (gt__meta_bytes(&task->out) < GT_AUTOMATIC_BYTES || task->out.shape[0] < target->count);
    if (!target || small)
        return gt__rule_whole(task, plan);
    if (!(plan->result = gt__target_layout(target, task->ins->flags, &task->out)))
        return GT_ERR_VALUE;
    plan->localize = form == GT_FORM_RANDOM   ? localize_random
                     : form == GT_FORM_ARANGE ? localize_range
                     : form == GT_FORM_EYE    ? localize_eye
                                              : localize_shape;
    return GT_OK;
}

/* A copy under a scope is placed exactly as the scope says. */
gt_err gt__plan_copy(gt_task *task, gt_plan *plan)
{
    if (!task->target || task->target->automatic || task->ins->flags & GT_FLAG_BACKWARD)
        return gt__plan_elementwise(task, plan);
    if (!(plan->result = gt__target_layout(task->target, task->ins->flags, &task->out)))
        return GT_ERR_VALUE;
    plan->operand[0] = gt__layout_retain(plan->result);
    return GT_OK;
}

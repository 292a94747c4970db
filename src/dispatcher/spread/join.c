/*
 * join.c: cat, slices and assignments along the split axis.
 *
 *     cat     the result is split evenly; each member gets the pieces of the operands that lie in its part
 *     slice   each member keeps what its part has of the slice. If the slice runs backwards, the parts are in the opposite
 *             order, and nothing is moved
 *     assign  each member assigns to its part what lies in it
 *
 * Read rules.h first.
 */
#include <string.h>

#include "core/record.h"
#include "dispatcher/spread/along.h"
#include "dispatcher/spread/make.h"
#include "dispatcher/spread/moving.h"
#include "dispatcher/spread/rules.h"

/* ---- cat ----------------------------------------------------------------------------------------------------- */

/* Leave out the operands of which the member gets nothing. */
static void localize_cat(const gt_task *task, const gt_plan *plan, unsigned member, gt_slot *record)
{
    (void)plan;
    (void)member;
    uint64_t *ids = gt__record_operands(&record->ins, record + 1).id;
    unsigned count = 0;
    for (unsigned k = 0; k < task->count; k++)
        if (ids[k])
            ids[count++] = ids[k];
    memset(ids + count, 0, (task->count - count) * sizeof *ids);
    record->ins.imm[1].i = count;
    record->ins.tail = (uint16_t)((count + 7) / 8);
}

/* The parts of an operand that begins at `offset` of the result: over the members that get some of it. *layout is NULL if
 * it is empty. */
static gt_err pieces(const gt_layout *result, int64_t offset, int64_t size, gt_layout **layout)
{
    gt_member piece[GT_MAX_PARTIES];
    unsigned count = 0;
    *layout = NULL;
    for (unsigned k = 0; k < result->count; k++) {
        const gt_member *part = &result->member[k];
        int64_t begin = part->start > offset ? part->start : offset, end = part->start + part->count;
        end = end < offset + size ? end : offset + size;
        if (begin < end)
            piece[count++] = (gt_member){.worker = part->worker, .start = begin - offset, .count = end - begin};
    }
    if (!count)
        return GT_OK;
    if (!(*layout = gt__layout_new(GT_SPLIT, result->axis, count)))
        return gt__spread_no_memory();
    memcpy((*layout)->member, piece, count * sizeof piece[0]);
    return GT_OK;
}

/* Operands of the result's dtype, then the cat: a member may have no operand of the dtype that the others are promoted to. */
static gt_err run_cast_and_cat(gt_task *task, const gt_plan *plan, gt_handle *result)
{
    gt_maker m = gt__make_begin(task->session);
    gt_handle *operand[GT_MAX_CAT];
    (void)plan;
    for (unsigned k = 0; k < task->count; k++)
        operand[k] = gt__make_cast(&m, task->source[k].handle, (gt_dtype)task->out.dtype);
    gt_step cat = {.record = task->record, .count = task->count, .operand = operand};
    return gt__make_end(&m, gt__make(&m, &cat), result);
}

gt_err gt__plan_cat(gt_task *task, gt_plan *plan)
{
    unsigned axis = (unsigned)task->ins->imm[0].i, casts = 0;
    int lead = gt__rule_lead(task);
    if (lead < 0 || task->source[lead].layout->axis != axis)
        return gt__plan_alike(task, plan);
    for (unsigned k = 0; k < task->count; k++)
        casts += task->source[k].meta->dtype != task->out.dtype;
    if (casts >= GT_MAKE_MOST)
        return gt__rule_whole(task, plan);
    if (casts) {
        plan->run = run_cast_and_cat;
        return GT_OK;
    }
    const gt_layout *like = task->source[lead].layout;
    int64_t offset = 0;
    if (!(plan->result = gt__layout_even_like(like, axis, task->out.shape[axis])))
        return gt__spread_no_memory();
    for (unsigned k = 0; k < task->count; k++) {
        int64_t size = task->source[k].meta->shape[axis];
        GT_TRY(pieces(plan->result, offset, size, &plan->operand[k]));
        offset += size;
    }
    plan->localize = localize_cat;
    return GT_OK;
}

/* ---- slices -------------------------------------------------------------------------------------------------- */

/* The elements start, start + step, ... of an axis. */
typedef struct stride {
    int64_t start, step, count, extent;
} stride;

static stride stride_of(const gt_slot *tail, const gt_meta *meta, unsigned axis)
{
    return (stride){.start = tail[0].i64[axis],
                    .step = tail[1].i64[axis],
                    .count = tail[2].i64[axis],
                    .extent = meta->shape[axis]};
}

/* How many of them lie in a part, and the position of the first one in the slice. */
static int64_t taken(const stride *s, const gt_member *part, int64_t *first)
{
    int64_t begin = part->start, start = s->start, step = s->step;
    if (step < 0) { /* the same seen from the end */
        begin = s->extent - part->start - part->count;
        start = s->extent - 1 - start;
        step = -step;
    }
    int64_t end = begin + part->count;
    *first = begin <= start ? 0 : (begin - start - 1) / step + 1;   /* the step may be any size */
    int64_t last = end <= start ? 0 : (end - start - 1) / step + 1; /* first one past the part */
    last = last < s->count ? last : s->count;
    return last > *first ? last - *first : 0;
}

/* The k-th member that the slice meets. */
static const gt_member *met(const stride *s, const gt_layout *layout, unsigned k)
{
    return &layout->member[s->step < 0 ? layout->count - 1 - k : k];
}

/* Start and count of the slice in a member's part. */
static int64_t localize_stride(const stride *s, const gt_member *part, unsigned axis, gt_slot *tail)
{
    int64_t first, count = taken(s, part, &first);
    tail[0].i64[axis] = count ? s->start + first * s->step - part->start : 0;
    tail[2].i64[axis] = count;
    return count;
}

static void localize_slice(const gt_task *task, const gt_plan *plan, unsigned member, gt_slot *record)
{
    unsigned axis = plan->operand[0]->axis;
    stride s = stride_of(task->record + 1, task->source[0].meta, axis);
    localize_stride(&s, &plan->operand[0]->member[member], axis, record + 1);
}

/* The parts of the slice: *from has the members that it meets, in its order, with what they have; *to what they get of it. An
 * empty slice is on the first member. */
static gt_err met_parts(const stride *s, const gt_layout *layout, gt_layout **from, gt_layout **to)
{
    unsigned count = 0;
    int64_t first;
    for (unsigned k = 0; k < layout->count; k++)
        count += taken(s, &layout->member[k], &first) > 0;
    *from = gt__layout_new(GT_SPLIT, layout->axis, count ? count : 1);
    *to = gt__layout_new(GT_SPLIT, layout->axis, count ? count : 1);
    if (!*from || !*to)
        return gt__spread_no_memory();
    (*from)->member[0] = layout->member[0];
    (*to)->member[0].worker = layout->member[0].worker;
    for (unsigned k = 0, at = 0; k < layout->count; k++) {
        const gt_member *part = met(s, layout, k);
        int64_t size = taken(s, part, &first);
        if (!size)
            continue;
        (*from)->member[at] = *part;
        (*to)->member[at++] = (gt_member){.worker = part->worker, .start = first, .count = size};
    }
    return GT_OK;
}

gt_err gt__plan_slice(gt_task *task, gt_plan *plan)
{
    if (task->source[0].layout->kind == GT_PARTIAL && gt__rule_within(task, task->source[0].layout))
        return gt__rule_as_is(task, plan);
    unsigned axis = task->source[0].layout->axis;
    if (!gt__rule_has_parts(task, 0) || !task->record[2].i64[axis])
        return gt__rule_whole(task, plan);
    stride s = stride_of(task->record + 1, task->source[0].meta, axis);
    plan->localize = localize_slice;
    gt__moving_parts(task, axis, task->source[0].layout);
    GT_TRY(met_parts(&s, task->source[0].layout, &plan->operand[0], &plan->result));
    if (plan->result->count == 1) { /* on one worker */
        plan->result->kind = GT_REPLICATED;
        plan->result->axis = 0;
        plan->result->member[0] = (gt_member){.worker = plan->result->member[0].worker};
    }
    return GT_OK;
}

/* ---- assignments --------------------------------------------------------------------------------------------- */

/* A member whose part the slice does not meet keeps what it has. */
static void localize_assign(const gt_task *task, const gt_plan *plan, unsigned member, gt_slot *record)
{
    const gt_layout *parts = plan->operand[0];
    if (parts->kind != GT_SPLIT)
        return;
    stride s = stride_of(task->record + 1, task->source[0].meta, parts->axis);
    if (localize_stride(&s, &parts->member[member], parts->axis, record + 1))
        return;
    gt_instruction copy = {.op = GT_OP_copy, .scope = record->ins.scope, .site = record->ins.site};
    copy.operand[0] = record->ins.operand[0];
    record->ins = copy;
}

/* The axis of the tensor that the source's split axis is assigned to, if the source is not broadcast along it; -1: it is. */
static int assigned_axis(const gt_task *task)
{
    const gt_meta *a = task->source[0].meta, *src = task->source[1].meta;
    unsigned axis = task->source[1].layout->axis, to = axis + a->rank - src->rank;
    return src->rank <= a->rank && src->shape[axis] == task->record[3].i64[to] ? (int)to : -1;
}

/* The tensor is split, or becomes so as the source is: the gradient of a slice is the parts in a tensor of zeros. */
gt_err gt__plan_assign(gt_task *task, gt_plan *plan)
{
    const gt_meta *a = task->source[0].meta, *src = task->source[1].meta;
    bool by_source = !gt__rule_has_parts(task, 0);
    int axis = !by_source                           ? task->source[0].layout->axis
               : src && gt__rule_has_parts(task, 1) ? assigned_axis(task)
                                                    : -1;
    if (axis < 0 || !task->record[2].i64[axis])
        return gt__rule_whole(task, plan);
    stride s = stride_of(task->record + 1, a, (unsigned)axis);
    const gt_layout *like = task->source[by_source].layout;
    plan->operand[0] = by_source && s.count != s.extent ? gt__layout_even_like(like, (unsigned)axis, s.extent)
                                                        : gt__layout_like(like, GT_SPLIT, (unsigned)axis);
    if (!plan->operand[0])
        return gt__spread_no_memory();
    plan->result = gt__layout_retain(plan->operand[0]);
    plan->localize = localize_assign;
    if (plan->result->kind == GT_SPLIT)
        gt__moving_parts(task, (unsigned)axis, plan->result);
    if (!src)
        return GT_OK;
    int src_axis = axis - (int)a->rank + src->rank;
    if (src_axis < 0 || src->shape[src_axis] != s.count || !s.count || plan->result->kind != GT_SPLIT)
        return gt__rule_want(task, plan, 1, plan->result, -1);
    gt_layout *from;
    gt_err err = met_parts(&s, plan->result, &from, &plan->operand[1]);
    gt__layout_release(from);
    if (err == GT_OK)
        plan->operand[1]->axis = (uint8_t)src_axis;
    return err;
}

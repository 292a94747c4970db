/*
 * reduce.c: reductions over the split axis: the instructions that follow once each member has reduced its own part
 * (gt_combine).
 *
 *     sum                 nothing: the members' sums are the result, which is partial
 *     mean                weighted by the member's share of the axis: partial
 *     var                 variance around the member's mean, plus that mean's distance from the overall mean: partial
 *     batch_moments       the same, for a mean and a variance of each channel: partial
 *     amax, norm, ...     gathered and reduced again, by every member
 *
 * rules.c chooses, spread.c calls. Read spread.h first.
 */
#include <string.h>

#include "dispatcher/spread/spread.h"
#include "dispatcher/worker_stream.h"

/* One more instruction for a worker, with its tail; the result's slot is the caller's. */
static gt_err emit_record(gt_session *session, int32_t worker, gt_instruction ins, const gt_slot *tail,
                          uint32_t *slot)
{
    gt_slot *out;
    GT_TRY(gt__spread_reserve(session, worker, 1u + ins.tail, &out));
    GT_TRY(gt__spread_slot(session, worker, slot));
    out->ins = ins;
    out->ins.result = *slot;
    out->ins.scope = session->spreading->scope;
    out->ins.site = session->spreading->site;
    if (tail)
        memcpy(out + 1, tail, ins.tail * sizeof *tail);
    gt__worker_put(gt__spread_worker(session, worker), 1u + ins.tail);
    return GT_OK;
}

static gt_err emit(gt_session *session, int32_t worker, gt_instruction ins, uint32_t *slot)
{
    return emit_record(session, worker, ins, NULL, slot);
}

/* The same with the tensor in *slot as the first operand; it is freed afterwards. */
static gt_err apply(gt_session *session, int32_t worker, gt_instruction ins, uint32_t *slot)
{
    GT_TRY(gt__spread_temporary(session, worker, *slot));
    ins.operand[0] = *slot;
    return emit(session, worker, ins, slot);
}

static gt_instruction times(double factor)
{
    gt_instruction multiply = {.op = GT_OP_mul, .literals = GT_LITERAL_FLOAT << 2};
    multiply.literal[1].f = factor;
    return multiply;
}

/* A bit for each axis that is reduced: all but the channels, those that the record names, or all. */
static uint64_t reduced_axes(const gt_task *task)
{
    uint64_t named = task->ins->op == GT_OP_batch_moments ? ~(uint64_t)2 : task->ins->imm[0].u;
    return named ? named : ~(uint64_t)0;
}

/* The fraction of the reduced elements that a member has. */
static double share(const gt_task *task, const gt_layout *layout, unsigned member)
{
    double parts = 1;
    uint64_t mask = reduced_axes(task);
    for (unsigned d = 0; layout->kind == GT_MESHED && d < layout->mesh.rank; d++)
        if (layout->mesh.axis[d].kind == GT_SPLIT && mask >> layout->mesh.axis[d].axis & 1)
            parts *= layout->mesh.axis[d].size;
    if (layout->kind == GT_MESHED)
        return 1 / parts;
    return (double)layout->member[member].count / (double)task->source[0].meta->shape[layout->axis];
}

static gt_err weigh(const gt_task *task, const gt_layout *from, uint32_t *slots)
{
    gt_err err = GT_OK;
    unsigned done = 0;
    while (done < from->count && err == GT_OK) {
        err = apply(task->session, from->member[done].worker, times(share(task, from, done)), &slots[done]);
        done += err == GT_OK;
    }
    for (unsigned k = 0; k < from->count && err != GT_OK; k++)
        if (k != done) /* that one was freed */
            gt__worker_free_tensor(gt__spread_worker(task->session, from->member[k].worker), slots[k]);
    return err;
}

/* slots: the variance of each part. Of all: the sum over the parts of share (variance + (mean - mean of all)^2) elements /
 * (elements - correction). */
static gt_err vary(const gt_task *task, const gt_plan *plan, const uint32_t *parts, uint32_t *slots)
{
    const gt_layout *from = plan->operand[0];
    gt_session *session = task->session;
    uint32_t means[GT_MAX_PARTIES], shares[GT_MAX_PARTIES], mean[GT_MAX_PARTIES];
    double elements = gt__reduced_elements(task);
    bool halves = gt__dtype_is_half((gt_dtype)task->out.dtype);
    const gt_instruction widen = {.op = GT_OP_cast, .dtype = GT_FLOAT32},
                         narrow = {.op = GT_OP_cast, .dtype = task->out.dtype};
    gt_instruction average = {.op = GT_OP_mean, .flags = task->ins->flags & GT_FLAG_KEEPDIM};
    gt_meta wide = task->out;
    average.imm[0] = task->ins->imm[0];
    if (halves)
        wide.dtype = GT_FLOAT32;
    for (unsigned k = 0; k < from->count; k++) {
        int32_t worker = from->member[k].worker;
        average.operand[0] = parts[k];
        if (halves) { /* their means are too coarse for a difference */
            gt_instruction cast = widen;
            cast.operand[0] = parts[k];
            GT_TRY(emit(session, worker, cast, &means[k]));
            GT_TRY(apply(session, worker, average, &means[k]));
            GT_TRY(apply(session, worker, widen, &slots[k]));
        } else
            GT_TRY(emit(session, worker, average, &means[k]));
        gt_instruction weighed = times(share(task, from, k));
        weighed.operand[0] = means[k];
        GT_TRY(emit(session, worker, weighed, &shares[k]));
        GT_TRY(gt__spread_temporary(session, worker, shares[k]));
    }
    GT_TRY(gt__spread_sum_all(session, plan->result, &wide, shares, mean));
    for (unsigned k = 0; k < from->count; k++) {
        int32_t worker = from->member[k].worker;
        gt_instruction minus = {.op = GT_OP_sub, .operand = {0, mean[k]}},
                       plus = {.op = GT_OP_add, .operand = {0, slots[k]}};
        GT_TRY(gt__spread_temporary(session, worker, slots[k]));
        GT_TRY(apply(session, worker, minus, &means[k]));
        GT_TRY(apply(session, worker, (gt_instruction){.op = GT_OP_square}, &means[k]));
        GT_TRY(apply(session, worker, plus, &means[k]));
        double factor = share(task, from, k) * elements / (elements - task->ins->imm[1].f);
        GT_TRY(apply(session, worker, times(factor), &means[k]));
        if (halves)
            GT_TRY(apply(session, worker, narrow, &means[k]));
        slots[k] = means[k];
    }
    return GT_OK;
}

/* A row of a member's part of a tensor (2, channels), as (1, channels). */
static gt_err row_of(const gt_task *task, const gt_plan *plan, unsigned member, uint32_t from, int64_t row,
                     uint32_t *slot)
{
    gt_meta part;
    gt__layout_part(plan->result, member, &task->out, &part);
    gt_slot spec[3] = {{.i64 = {row, 0}}, {.i64 = {1, 1}}, {.i64 = {1, part.shape[1]}}};
    gt_instruction slice = {.op = GT_OP_slice, .tail = 3, .operand = {from}};
    return emit_record(task->session, plan->result->member[member].worker, slice, spec, slot);
}

/* slots: the mean and the variance of each part. Of all: the sums over the parts of share mean, and of share (variance +
 * (mean - mean of all)^2). */
static gt_err merge_moments(const gt_task *task, const gt_plan *plan, uint32_t *slots)
{
    const gt_layout *from = plan->operand[0];
    gt_session *session = task->session;
    uint32_t means[GT_MAX_PARTIES], shares[GT_MAX_PARTIES], mean[GT_MAX_PARTIES], variance;
    gt_meta row;
    GT_TRY(gt__meta_set(&row, (gt_dtype)task->out.dtype, 2, (int64_t[]){1, task->out.shape[1]}));
    for (unsigned k = 0; k < from->count; k++) {
        int32_t worker = from->member[k].worker;
        gt_instruction weighed = times(share(task, from, k));
        GT_TRY(row_of(task, plan, k, slots[k], 0, &means[k]));
        weighed.operand[0] = means[k];
        GT_TRY(emit(session, worker, weighed, &shares[k]));
        GT_TRY(gt__spread_temporary(session, worker, shares[k]));
    }
    GT_TRY(gt__spread_sum_all(session, plan->result, &row, shares, mean));
    for (unsigned k = 0; k < from->count; k++) {
        int32_t worker = from->member[k].worker;
        uint32_t apart = means[k];
        GT_TRY(row_of(task, plan, k, slots[k], 1, &variance));
        GT_TRY(gt__spread_temporary(session, worker, variance));
        GT_TRY(gt__spread_temporary(session, worker, slots[k]));
        GT_TRY(apply(session, worker, (gt_instruction){.op = GT_OP_sub, .operand = {0, mean[k]}}, &apart));
        GT_TRY(apply(session, worker, (gt_instruction){.op = GT_OP_square}, &apart));
        GT_TRY(apply(session, worker, (gt_instruction){.op = GT_OP_add, .operand = {0, variance}}, &apart));
        GT_TRY(gt__spread_temporary(session, worker, apart));
        gt_slot both = {.u64 = {means[k], apart}};
        gt_instruction join = {.op = GT_OP_cat, .tail = 1};
        join.imm[1].i = 2;
        GT_TRY(emit_record(session, worker, join, &both, &slots[k]));
        GT_TRY(apply(session, worker, times(share(task, from, k)), &slots[k]));
    }
    return GT_OK;
}

/* Each part has become one element along the split axis: gather those and reduce them. */
static gt_err reduce_again(const gt_task *task, const gt_layout *from, uint32_t *slots)
{
    gt_meta rows = *task->source[0].meta;
    uint64_t mask = reduced_axes(task);
    gt_err err = GT_OK;
    for (unsigned k = 0; k < from->count; k++) {
        gt_err kept = gt__spread_temporary(task->session, from->member[k].worker, slots[k]);
        err = err == GT_OK ? kept : err;
    }
    gt_layout *ones = err == GT_OK ? gt__layout_like(from, GT_SPLIT, from->axis) : NULL;
    if (!ones)
        return gt__spread_no_memory();
    rows.dtype = task->out.dtype;
    rows.numel = 1;
    for (unsigned d = 0; d < rows.rank; d++) {
        if (mask >> d & 1)
            rows.shape[d] = d == from->axis ? from->count : 1;
        rows.numel *= rows.shape[d];
    }
    for (unsigned k = 0; k < from->count; k++) {
        ones->member[k].start = k;
        ones->member[k].count = 1;
    }
    uint32_t gathered[GT_MAX_PARTIES];
    err = gt__spread_gather_all(task->session, ones, &rows, slots, gathered);
    gt__layout_release(ones);
    gt_instruction again = *task->ins;
    again.flags &= GT_FLAG_KEEPDIM;
    unsigned done = 0;
    while (done < from->count && err == GT_OK) {
        again.operand[0] = gathered[done];
        err = emit(task->session, from->member[done].worker, again, &slots[done]);
        done += err == GT_OK;
    }
    while (err != GT_OK && done-- > 0)
        gt__worker_free_tensor(gt__spread_worker(task->session, from->member[done].worker), slots[done]);
    return err;
}

double gt__reduced_elements(const gt_task *task)
{
    const gt_meta *a = task->source[0].meta;
    uint64_t mask = reduced_axes(task);
    double elements = 1;
    for (unsigned axis = 0; axis < a->rank; axis++)
        elements *= mask >> axis & 1 ? (double)a->shape[axis] : 1;
    return elements;
}

gt_err gt__spread_combine(const gt_task *task, const gt_plan *plan, const uint32_t *parts, uint32_t *slots)
{
    switch (plan->combine) {
    case GT_COMBINE_WEIGHED:
        return weigh(task, plan->operand[0], slots);
    case GT_COMBINE_VARYING:
        return vary(task, plan, parts, slots);
    case GT_COMBINE_MOMENTS:
        return merge_moments(task, plan, slots);
    case GT_COMBINE_AGAIN:
        return reduce_again(task, plan->operand[0], slots);
    case GT_COMBINE_NOTHING:
        break;
    }
    return GT_OK;
}

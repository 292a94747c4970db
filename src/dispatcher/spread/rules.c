/*
 * rules.c: what each form of op does to layouts: the table of sharding rules.
 *
 * A rule looks at the op and the layouts of its operands, and chooses the layout that each operand must have and the one
 * that the result gets (gt_plan). All layouts of a plan are over the same workers, so that the record runs once for each
 * member, on that member's parts. There are few rules:
 *
 *     elementwise   operands and result are split alike; an operand broadcast along the split axis must be whole
 *     along, alike  ops along one axis (argmax, cumsum, sort, softmax, cat): split along any other; along that axis they
 *                   take several steps (rules_along.c)
 *     reduce        split along an axis that is kept: stays split; along a reduced one: sum, mean and var are partial,
 *                   the others reduce twice (reduce.c)
 *     matmul        rows or columns or batch split: so is the result; the contraction split: partial
 *     channels      batch norm: split along channels, or along another axis, and then moments and sums are partial
 *     window        convolutions and pooling: the batch is split, gradients of weights are partial
 *     matrix, solve split along the axes before the matrices
 *     attention     split along batches, heads and (forward) queries
 *     views         permute, reshape, expand, slice: where the split axis goes
 *     cat, assign   each member gets the pieces that lie in its part (join.c)
 *     take, gather, scatter: split along an axis that is not indexed; along that axis in several steps (rules_along.c)
 *     tril, layer_norm: split along an axis that the op does not mix
 *     creation      every member makes its part
 *
 * These rules know layouts along one axis. On a mesh of workers they are applied to one axis of the mesh after the other
 * (rules_mesh.c).
 *
 * Without a rule for a combination the operands are gathered and the op is computed whole, on every worker that had a
 * part: always right, and counted in the statistics.
 */
#include <string.h>

#include "core/fft.h"
#include "dispatcher/spread/moving.h"
#include "dispatcher/spread/rules.h"
#include "dispatcher/workers.h"

/* ---- choosing workers -------------------------------------------------------------------------------------- */

static bool asked_for(const gt_target *target, int32_t worker)
{
    for (unsigned k = 0; k < target->count; k++)
        if (target->worker[k] == worker)
            return true;
    return false;
}

bool gt__rule_within(const gt_task *task, const gt_layout *layout)
{
    if (!task->target || task->target->automatic)
        return true;
    for (unsigned k = 0; k < layout->count; k++)
        if (!(k < task->target->count && task->target->worker[k] == layout->member[k].worker) &&
            !asked_for(task->target, layout->member[k].worker))
            return false;
    return true;
}

/* The worker of the target with most of the operands' bytes. */
static int32_t heaviest_worker(const gt_task *task)
{
    int32_t best = task->target && !task->target->automatic ? task->target->worker[0] : task->session->home->index;
    size_t most = 0;
    for (unsigned k = 0; k < task->count; k++) {
        const gt_source *source = &task->source[k];
        if (!source->meta || !gt__rule_within(task, source->layout) || source->layout->kind != GT_REPLICATED)
            continue;
        size_t bytes = gt__meta_bytes(source->meta) + 1;
        if (bytes > most) {
            most = bytes;
            best = source->layout->member[0].worker;
        }
    }
    return best;
}

/* Where to compute with whole operands: on all workers that have parts or copies already, else on one. */
static gt_layout *whole_layout(const gt_task *task)
{
    const gt_layout *best = NULL;
    if (task->target && !task->target->split && !task->target->automatic)
        return gt__layout_asked(gt__layout_replicated(task->target->worker, task->target->count), task->target);
    for (unsigned k = 0; k < task->count; k++) {
        const gt_source *source = &task->source[k];
        if (source->meta && source->layout->count > 1 && gt__rule_within(task, source->layout) &&
            (!best || source->layout->count > best->count))
            best = source->layout;
    }
    if (best)
        return gt__layout_like(best, GT_REPLICATED, 0);
    gt_layout *alone = gt__spread_alone(task->session, heaviest_worker(task));
    return alone ? gt__layout_retain(alone) : NULL;
}

gt_err gt__rule_whole(gt_task *task, gt_plan *plan)
{
    if (!(plan->result = whole_layout(task)))
        return gt__spread_no_memory();
    for (unsigned k = 0; k < task->count; k++) {
        plan->operand[k] = task->source[k].meta ? gt__layout_retain(plan->result) : NULL;
        plan->gathers |= gt__rule_is_split(&task->source[k]);
    }
    return GT_OK;
}

gt_err gt__rule_want(const gt_task *task, gt_plan *plan, unsigned k, const gt_layout *like, int axis)
{
    if (!task->source[k].meta)
        return GT_OK;
    const gt_layout *have = task->source[k].layout;
    if (axis >= 0 && have->kind == GT_SPLIT && have->axis == axis && gt__layout_equal(have, like))
        plan->operand[k] = gt__layout_retain(task->source[k].layout);
    else
        plan->operand[k] =
            gt__layout_like(like, axis < 0 ? GT_REPLICATED : GT_SPLIT, axis < 0 ? 0 : (unsigned)axis);
    return plan->operand[k] ? GT_OK : gt__spread_no_memory();
}

gt_err gt__rule_give(gt_plan *plan, const gt_layout *like, gt_layout_kind kind, unsigned axis)
{
    plan->result = gt__layout_like(like, kind, axis);
    return plan->result ? GT_OK : gt__spread_no_memory();
}

int gt__rule_lead(const gt_task *task)
{
    int best = -1;
    for (unsigned k = 0; k < task->count; k++)
        if (gt__rule_is_split(&task->source[k]) && gt__rule_within(task, task->source[k].layout) &&
            (best < 0 || task->source[k].meta->numel > task->source[best].meta->numel))
            best = (int)k;
    return best;
}

/* Whether the scope wants the result split, though no operand is. */
static bool wants_parts(const gt_task *task)
{
    const gt_target *target = task->target;
    if (!target || !target->split || target->automatic || target->count < 2)
        return false;
    for (unsigned k = 0; k < task->count; k++)
        if (task->source[k].meta && task->source[k].layout->count > 1 &&
            gt__rule_within(task, task->source[k].layout))
            return false; /* replicated on the target's workers: it stays so */
    return true;
}

/* The split that the scope asks for, of this result; NULL: the result has no such axis, or it is too short. */
static gt_layout *wanted_parts(const gt_task *task)
{
    gt_target *target = task->target;
    int64_t axis = target->axis < 0 ? target->axis + task->out.rank : target->axis;
    if (axis < 0 || axis >= task->out.rank || task->out.shape[axis] < 2)
        return NULL;
    return gt__layout_asked(gt__layout_even((unsigned)axis, task->out.shape[axis], target->worker, target->count),
                            target);
}

/* ---- elementwise ------------------------------------------------------------------------------------------- */

/* Sums of these dtypes may be taken of the summands: integers wrap and bools saturate, which another dtype would not undo. */
static bool adds_alike(const gt_meta *operand, const gt_meta *out)
{
    gt_dtype from = (gt_dtype)operand->dtype, to = (gt_dtype)out->dtype;
    return from == to || gt__dtype_is_inexact(from);
}

/* Partial tensors need not be added up first: partial + partial is partial, and so is partial times a number. */
static bool stays_partial(const gt_task *task)
{
    const gt_source *a = &task->source[0], *b = task->count > 1 ? &task->source[1] : NULL;
    switch ((gt_opcode)task->ins->op) {
    case GT_OP_add:
    case GT_OP_sub:
        return a->meta && b->meta && a->layout->kind == GT_PARTIAL && b->layout->kind == GT_PARTIAL &&
               gt__layout_same_workers(a->layout, b->layout) && gt__rule_within(task, a->layout) &&
               gt__meta_same_shape(a->meta, b->meta) && adds_alike(a->meta, &task->out) &&
               adds_alike(b->meta, &task->out);
    case GT_OP_neg:
        return task->ins->flags & GT_FLAG_BACKWARD && a->layout->kind == GT_PARTIAL &&
               gt__rule_within(task, a->layout);
    case GT_OP_mul:
    case GT_OP_div:
        return task->ins->flags & GT_FLAG_BACKWARD && a->meta && !b->meta && a->layout->kind == GT_PARTIAL &&
               gt__dtype_is_float((gt_dtype)a->meta->dtype) && gt__rule_within(task, a->layout);
    default:
        return false;
    }
}

gt_err gt__rule_as_is(const gt_task *task, gt_plan *plan)
{
    plan->result = gt__layout_retain(task->source[0].layout);
    for (unsigned k = 0; k < task->count; k++)
        plan->operand[k] = task->source[k].meta ? gt__layout_retain(plan->result) : NULL;
    return GT_OK;
}

/* Operand k's axis that lines up with axis d of a result of the given rank; -1: it is broadcast along it. */
static int lined_up(const gt_task *task, unsigned k, unsigned d)
{
    const gt_meta *meta = task->source[k].meta;
    int axis = (int)d - (int)(task->out.rank - meta->rank);
    return axis >= 0 && meta->shape[axis] == task->out.shape[d] ? axis : -1;
}

gt_err gt__plan_elementwise(gt_task *task, gt_plan *plan)
{
    if (stays_partial(task))
        return gt__rule_as_is(task, plan);
    gt_layout *like = NULL;
    unsigned d = 0;
    int lead = gt__rule_lead(task);
    if (lead >= 0) {
        like = gt__layout_retain(task->source[lead].layout);
        d = like->axis + task->out.rank - task->source[lead].meta->rank;
        if (task->out.shape[d] != task->source[lead].meta->shape[like->axis]) { /* size 1, broadcast */
            gt__layout_release(like);
            return gt__rule_whole(task, plan);
        }
    } else if (wants_parts(task) && (like = wanted_parts(task)) && like->kind == GT_SPLIT)
        d = like->axis;
    else {
        gt__layout_release(like);
        return gt__rule_whole(task, plan);
    }
    gt_err err = GT_OK;
    for (unsigned k = 0; k < task->count && err == GT_OK; k++)
        if (task->source[k].meta)
            err = gt__rule_want(task, plan, k, like, lined_up(task, k, d));
    if (err == GT_OK && d == like->axis)
        plan->result = gt__layout_retain(like);
    else if (err == GT_OK)
        err = gt__rule_give(plan, like, GT_SPLIT, d);
    gt__layout_release(like);
    return err;
}

/* ---- along an axis, and reductions ------------------------------------------------------------------------- */

gt_err gt__rule_keep(gt_task *task, gt_plan *plan, unsigned axis)
{
    plan->operand[0] = gt__layout_retain(task->source[0].layout);
    return gt__rule_give(plan, task->source[0].layout, GT_SPLIT, axis);
}

bool gt__rule_has_parts(const gt_task *task, unsigned k)
{
    return gt__rule_is_split(&task->source[k]) && gt__rule_within(task, task->source[k].layout);
}

/* The result's axis that `axis` of the operand becomes once the axes of the mask are removed. */
static unsigned reduced_axis(const gt_task *task, uint64_t mask, unsigned axis)
{
    if (task->ins->flags & GT_FLAG_KEEPDIM)
        return axis;
    return axis - (unsigned)__builtin_popcountll(mask & (((uint64_t)1 << axis) - 1));
}

gt_err gt__plan_along(gt_task *task, gt_plan *plan)
{
    gt_form form = (gt_form)gt__op_table[task->ins->op].form;
    bool argreduce = form == GT_FORM_ARGREDUCE;
    int64_t along = form == GT_FORM_RESAMPLE ? task->ins->imm[0].i & 0xff
                    : form == GT_FORM_UNFOLD ? task->record[1].i64[0]
                                             : task->ins->imm[0].i;
    if (!gt__rule_has_parts(task, 0) || along < 0 || task->source[0].layout->axis == along)
        return gt__rule_whole(task, plan);
    unsigned axis = task->source[0].layout->axis;
    return gt__rule_keep(task, plan, argreduce ? reduced_axis(task, (uint64_t)1 << along, axis) : axis);
}

/* The two axes of a matrix, or of its diagonal, must be whole; the others, the batch, may be split. */
static gt_err plan_matrix(gt_task *task, gt_plan *plan)
{
    const gt_source *a = &task->source[0];
    uint64_t pair = (uint64_t)3 << (a->meta->rank - 2u);
    if (gt__op_table[task->ins->op].form == GT_FORM_DIAGONAL)
        pair = (uint64_t)1 << (task->ins->imm[1].u & 0xff) | (uint64_t)1 << (task->ins->imm[1].u >> 8 & 0xff);
    if (!gt__rule_has_parts(task, 0) || pair >> a->layout->axis & 1)
        return gt__rule_whole(task, plan);
    return gt__rule_keep(task, plan, reduced_axis(task, pair, a->layout->axis));
}

/* Transformed axes must be whole; the others may be split. */
static gt_err plan_fft(gt_task *task, gt_plan *plan)
{
    const gt_source *a = &task->source[0];
    if (!gt__rule_has_parts(task, 0) || gt__fft_unpack(task->ins->imm[0].u).axes >> a->layout->axis & 1)
        return gt__rule_whole(task, plan);
    return gt__rule_keep(task, plan, a->layout->axis);
}

/* The axis of the parts is the last one, and whole. */
static gt_err plan_parts(gt_task *task, gt_plan *plan)
{
    const gt_source *a = &task->source[0];
    bool joins = gt__op_table[task->ins->op].form == GT_FORM_AS_COMPLEX;
    if (!gt__rule_has_parts(task, 0) || (joins && a->layout->axis + 1u == a->meta->rank))
        return gt__rule_whole(task, plan);
    return gt__rule_keep(task, plan, a->layout->axis);
}

/* Two operands, whose batches are broadcast. */
static gt_err plan_solve(gt_task *task, gt_plan *plan)
{
    int lead = gt__rule_lead(task);
    if (lead < 0)
        return gt__rule_whole(task, plan);
    gt_layout *like = task->source[lead].layout;
    unsigned d = like->axis + task->out.rank - task->source[lead].meta->rank;
    if (d + 2 >= task->out.rank || lined_up(task, (unsigned)lead, d) < 0)
        return gt__rule_whole(task, plan);
    for (unsigned k = 0; k < task->count; k++)
        GT_TRY(gt__rule_want(task, plan, k, like, lined_up(task, k, d)));
    return gt__rule_give(plan, like, GT_SPLIT, d);
}

/* All operands split alike, along an axis that the op does not run along. */
gt_err gt__plan_alike(gt_task *task, gt_plan *plan)
{
    int lead = gt__rule_lead(task);
    if (lead < 0 || task->source[lead].layout->axis == task->ins->imm[0].i)
        return gt__rule_whole(task, plan);
    gt_layout *like = task->source[lead].layout;
    for (unsigned k = 0; k < task->count; k++)
        GT_TRY(gt__rule_want(task, plan, k, like, like->axis));
    plan->result = gt__layout_retain(like);
    return GT_OK;
}

/* Batches and heads may be split, and so may the queries of the forward row if each of them sees all keys. */
static gt_err plan_attention(gt_task *task, gt_plan *plan)
{
    int lead = gt__rule_lead(task);
    if (lead < 0)
        return gt__rule_whole(task, plan);
    gt_layout *like = task->source[lead].layout;
    unsigned rank = task->source[lead].meta->rank;
    bool by_query =
        lead == 0 && like->axis + 2u == rank && task->ins->op == GT_OP_attention && !task->ins->imm[1].i;
    if (like->axis + 2u >= rank && !by_query)
        return gt__rule_whole(task, plan);
    for (unsigned k = 0; k < task->count; k++)
        GT_TRY(gt__rule_want(task, plan, k, like, by_query && k ? -1 : (int)like->axis));
    return gt__rule_give(plan, like, GT_SPLIT, like->axis);
}

/* Normalised lines stay whole. Weights are whole, and their gradients are partial: sums over the lines. */
static gt_err plan_layer_norm(gt_task *task, gt_plan *plan)
{
    unsigned lines =
        task->ins->op == GT_OP_layer_norm ? 1 : 2; /* operands that are lines; the others are weights */
    int lead = gt__rule_lead(task);
    if (lead < 0 || lead >= (int)lines || task->source[lead].layout->axis >= task->ins->imm[0].i)
        return gt__rule_whole(task, plan);
    gt_layout *like = task->source[lead].layout;
    for (unsigned k = 0; k < task->count; k++)
        GT_TRY(gt__rule_want(task, plan, k, like, k < lines ? like->axis : -1));
    return gt__rule_give(plan, like, task->ins->op == GT_OP_layer_norm_backward_weight ? GT_PARTIAL : GT_SPLIT,
                         like->axis);
}

/* Channels may be split. If another axis is, the numbers of the channels are whole, and sums are partial. */
static gt_err plan_channels(gt_task *task, gt_plan *plan)
{
    gt_opcode op = (gt_opcode)task->ins->op;
    bool moments = op == GT_OP_batch_moments, sums = op == GT_OP_batch_norm_backward_affine;
    unsigned whole = moments || op == GT_OP_batch_norm ? 1 : 2; /* operands with samples; the others are numbers */
    int lead = gt__rule_lead(task);
    if (lead < 0 || lead >= (int)whole)
        return gt__rule_whole(task, plan);
    gt_layout *like = task->source[lead].layout;
    bool by_channel = like->axis == 1;
    for (unsigned k = 0; k < task->count; k++)
        GT_TRY(gt__rule_want(task, plan, k, like, k < whole ? like->axis : by_channel ? 1 : -1));
    if (moments && !by_channel)
        plan->combine = GT_COMBINE_MOMENTS;
    return gt__rule_give(plan, like, (moments || sums) && !by_channel ? GT_PARTIAL : GT_SPLIT, like->axis);
}

/* Windows slide over the last axes; the batch axes before them may be split. Gradients of weights are sums over the
 * batch: partial. */
static gt_err plan_window(gt_task *task, gt_plan *plan)
{
    gt_form form = (gt_form)gt__op_table[task->ins->op].form;
    unsigned lines = form == GT_FORM_CONV_WEIGHT || form == GT_FORM_MAX_POOL ? 2 : 1; /* the others are weights */
    int lead = gt__rule_lead(task);
    if (lead < 0 || lead >= (int)lines || task->source[lead].layout->axis != 0 ||
        task->source[lead].meta->rank <= task->ins->rank)
        return gt__rule_whole(task, plan);
    gt_layout *like = task->source[lead].layout;
    for (unsigned k = 0; k < task->count; k++)
        GT_TRY(gt__rule_want(task, plan, k, like, k < lines ? 0 : -1));
    return gt__rule_give(plan, like, form == GT_FORM_CONV_WEIGHT ? GT_PARTIAL : GT_SPLIT, 0);
}

/* Whether reducing the reduced parts once more gives the reduction of the whole. */
static bool reduces_again(const gt_instruction *ins)
{
    switch ((gt_opcode)ins->op) {
    case GT_OP_amax:
    case GT_OP_amin:
    case GT_OP_any:
    case GT_OP_all:
    case GT_OP_prod:
    case GT_OP_logsumexp:
        return true;
    case GT_OP_norm:
        return ins->imm[1].f != 0; /* of order 0 it counts */
    default:
        return false;
    }
}

static gt_err plan_reduce(gt_task *task, gt_plan *plan)
{
    gt_source *a = &task->source[0];
    gt_opcode op = (gt_opcode)task->ins->op;
    uint64_t mask = task->ins->imm[0].u;
    if (!mask)
        mask = ((uint64_t)1 << a->meta->rank) - 1;
    if (op == GT_OP_sum && a->layout->kind == GT_PARTIAL && gt__rule_within(task, a->layout) &&
        adds_alike(a->meta, &task->out))
        return gt__rule_as_is(task, plan);
    if (!gt__rule_has_parts(task, 0))
        return gt__rule_whole(task, plan);
    if (!(mask >> a->layout->axis & 1))
        return gt__rule_keep(task, plan, reduced_axis(task, mask, a->layout->axis));
    bool varies = op == GT_OP_var && gt__reduced_elements(task) > task->ins->imm[1].f;
    if (op == GT_OP_sum || op == GT_OP_mean || varies) {
        plan->combine = varies ? GT_COMBINE_VARYING : op == GT_OP_mean ? GT_COMBINE_WEIGHED : GT_COMBINE_NOTHING;
        plan->operand[0] = gt__layout_retain(a->layout);
        return gt__rule_give(plan, a->layout, GT_PARTIAL, 0);
    }
    if (!reduces_again(task->ins))
        return gt__rule_whole(task, plan);
    plan->combine = GT_COMBINE_AGAIN;
    plan->operand[0] = gt__layout_retain(a->layout);
    return gt__rule_give(plan, a->layout, GT_REPLICATED, 0);
}

/* ---- matmul ------------------------------------------------------------------------------------------------ */

/* The role of an axis of operand k, and the axis of the result that it becomes. */
typedef enum role { CONTRACTED, OWN, BATCH } role;

static role matmul_role(const gt_task *task, unsigned k, unsigned axis, unsigned *result_axis)
{
    const gt_meta *meta = task->source[k].meta;
    unsigned contracted = k == 0 ? meta->rank - 1u : meta->rank == 1 ? 0 : meta->rank - 2u;
    if (axis == contracted)
        return CONTRACTED;
    unsigned trailing = (task->source[0].meta->rank > 1) + (task->source[1].meta->rank > 1);
    unsigned batch = task->out.rank - trailing;
    if (axis + 2 >= meta->rank) { /* rows of the left operand, columns of the right one */
        *result_axis = k == 0 ? batch : task->out.rank - 1u;
        return OWN;
    }
    *result_axis = batch - (meta->rank - 2u) + axis;
    return BATCH;
}

/* The axis of operand k that is batch axis d of the result; -1: it is broadcast along it. */
static int matmul_batch_axis(const gt_task *task, unsigned k, unsigned d)
{
    const gt_meta *meta = task->source[k].meta;
    unsigned trailing = (task->source[0].meta->rank > 1) + (task->source[1].meta->rank > 1);
    int batch = (int)task->out.rank - (int)trailing, own = meta->rank > 2 ? meta->rank - 2 : 0;
    int axis = (int)d - (batch - own);
    return axis >= 0 && axis < own && meta->shape[axis] == task->out.shape[d] ? axis : -1;
}

static gt_err plan_product(gt_task *task, gt_plan *plan, unsigned k, const gt_layout *like, unsigned axis)
{
    unsigned result_axis = 0;
    const gt_meta *other = task->source[!k].meta;
    switch (matmul_role(task, k, axis, &result_axis)) {
    case CONTRACTED:
        GT_TRY(gt__rule_want(task, plan, k, like, (int)axis));
        GT_TRY(gt__rule_want(task, plan, !k, like,
                             k == 1             ? other->rank - 1
                             : other->rank == 1 ? 0
                                                : other->rank - 2));
        return gt__rule_give(plan, like, GT_PARTIAL, 0);
    case OWN:
        GT_TRY(gt__rule_want(task, plan, k, like, (int)axis));
        GT_TRY(gt__rule_want(task, plan, !k, like, -1));
        return gt__rule_give(plan, like, GT_SPLIT, result_axis);
    case BATCH:
        if (task->source[k].meta->shape[axis] != task->out.shape[result_axis])
            break;
        GT_TRY(gt__rule_want(task, plan, k, like, (int)axis));
        GT_TRY(gt__rule_want(task, plan, !k, like, matmul_batch_axis(task, !k, result_axis)));
        return gt__rule_give(plan, like, GT_SPLIT, result_axis);
    }
    return gt__rule_whole(task, plan);
}

/* No operand is split: split the result as the scope asks for, or where that pays. */
static gt_err plan_new_product(gt_task *task, gt_plan *plan)
{
    const gt_meta *a = task->source[0].meta, *b = task->source[1].meta;
    const gt_target *target = task->target;
    gt_layout *like = NULL;
    if (wants_parts(task))
        like = wanted_parts(task);
    else if (target && target->automatic && target->count > 1 && task->out.rank &&
             (double)task->out.numel * (double)a->shape[a->rank - 1] >= GT_AUTOMATIC_PRODUCTS &&
             task->out.shape[0] >= target->count)
        like = gt__layout_even(0, task->out.shape[0], target->worker, target->count);
    gt_err err = GT_OK;
    if (!like || like->kind != GT_SPLIT)
        err = gt__rule_whole(task, plan);
    else {
        unsigned d = like->axis, trailing = (a->rank > 1) + (b->rank > 1), batch = task->out.rank - trailing;
        int axis_a = d < batch ? matmul_batch_axis(task, 0, d) : -1,
            axis_b = d < batch ? matmul_batch_axis(task, 1, d) : -1;
        if (d == batch && a->rank > 1)
            axis_a = a->rank - 2;
        else if (d >= batch)
            axis_b = b->rank - 1;
        err = gt__rule_want(task, plan, 0, like, axis_a);
        if (err == GT_OK)
            err = gt__rule_want(task, plan, 1, like, axis_b);
        if (err == GT_OK)
            plan->result = gt__layout_retain(like);
    }
    gt__layout_release(like);
    return err;
}

static gt_err plan_matmul(gt_task *task, gt_plan *plan)
{
    bool a = gt__rule_has_parts(task, 0), b = gt__rule_has_parts(task, 1);
    if (!a && !b)
        return plan_new_product(task, plan);
    unsigned k = b && (!a || task->source[1].meta->numel > task->source[0].meta->numel), unused;
    if (a &&
        b) { /* only if both are split along the contracted axis can both stay; otherwise gather the smaller */
        unsigned axis_a = task->source[0].layout->axis, axis_b = task->source[1].layout->axis;
        bool contracted_a = matmul_role(task, 0, axis_a, &unused) == CONTRACTED;
        bool contracted_b = matmul_role(task, 1, axis_b, &unused) == CONTRACTED;
        if (contracted_a != contracted_b)
            k = contracted_a ? 1 : 0; /* a sum of whole matrices costs more than a gathered operand */
    }
    return plan_product(task, plan, k, task->source[k].layout, task->source[k].layout->axis);
}

/* Rows or columns may be divided, with the bias along the columns; where sums are divided, each part would add the bias. */
static gt_err plan_linear(gt_task *task, gt_plan *plan)
{
    unsigned result_axis = 0;
    if (!gt__rule_has_parts(task, 0) && !gt__rule_has_parts(task, 1)) {
        GT_TRY(plan_new_product(task, plan));
        if (!plan->result || plan->result->kind != GT_SPLIT)
            return GT_OK;
        return gt__rule_want(task, plan, 2, plan->result, plan->result->axis + 1u == task->out.rank ? 0 : -1);
    }
    unsigned k = gt__rule_has_parts(task, 0) ? 0 : 1;
    const gt_layout *like = task->source[k].layout;
    if (matmul_role(task, k, like->axis, &result_axis) == CONTRACTED)
        return gt__rule_whole(task, plan);
    GT_TRY(plan_product(task, plan, k, like, like->axis));
    return plan->result ? gt__rule_want(task, plan, 2, like, k == 1 ? 0 : -1) : GT_OK;
}

/* ------------------------------------------------------------------------------------------------------------- */

static gt_rule *const rules[] = {
    [GT_FORM_UNARY] = gt__plan_elementwise,
    [GT_FORM_BINARY] = gt__plan_elementwise,
    [GT_FORM_TERNARY] = gt__plan_elementwise,
    [GT_FORM_CAST] = gt__plan_elementwise,
    [GT_FORM_WRAP_INDEX] = gt__plan_elementwise,
    [GT_FORM_COPY] = gt__plan_copy,
    [GT_FORM_REDUCE] = plan_reduce,
    [GT_FORM_ARGREDUCE] = gt__plan_argreduce,
    [GT_FORM_SCAN] = gt__plan_scan,
    [GT_FORM_ARGSORT] = gt__plan_argsort,
    [GT_FORM_TOPK] = gt__plan_topk,
    [GT_FORM_SOFTMAX] = gt__plan_softmax,
    [GT_FORM_SOFTMAX_BACKWARD] = gt__plan_softmax_backward,
    [GT_FORM_LAYER_NORM] = plan_layer_norm,
    [GT_FORM_MOMENTS] = plan_channels,
    [GT_FORM_BATCH_NORM] = plan_channels,
    [GT_FORM_CONV] = plan_window,
    [GT_FORM_CONV_WEIGHT] = plan_window,
    [GT_FORM_MAX_POOL] = plan_window,
    [GT_FORM_MAX_INDEX] = plan_window,
    [GT_FORM_POOL] = plan_window,
    [GT_FORM_IM2COL] = plan_window,
    [GT_FORM_RESAMPLE] = gt__plan_along,
    [GT_FORM_MATRIX] = plan_matrix,
    [GT_FORM_SOLVE] = plan_solve,
    [GT_FORM_MATMUL] = plan_matmul,
    [GT_FORM_LINEAR] = plan_linear,
    [GT_FORM_ATTENTION] = plan_attention,
    [GT_FORM_FFT] = plan_fft,
    [GT_FORM_PERMUTE] = gt__plan_permute,
    [GT_FORM_EXPAND] = gt__plan_expand,
    [GT_FORM_RESHAPE] = gt__plan_reshape,
    [GT_FORM_SLICE] = gt__plan_slice,
    [GT_FORM_DIAGONAL] = plan_matrix,
    [GT_FORM_AS_REAL] = plan_parts,
    [GT_FORM_AS_COMPLEX] = plan_parts,
    [GT_FORM_UNFOLD] = gt__plan_along,
    [GT_FORM_CAT] = gt__plan_cat,
    [GT_FORM_TRIANGLE] = gt__plan_triangle,
    [GT_FORM_TAKE] = gt__plan_take,
    [GT_FORM_GATHER] = gt__plan_gather,
    [GT_FORM_SCATTER] = gt__plan_scatter,
    [GT_FORM_ASSIGN] = gt__plan_assign,
    [GT_FORM_FULL] = gt__plan_create,
    [GT_FORM_ARANGE] = gt__plan_create,
    [GT_FORM_EYE] = gt__plan_create,
    [GT_FORM_RANDOM] = gt__plan_create,
    [GT_FORM_CONTROL] = NULL,
};

gt_err gt__rule_apply(gt_task *task, gt_plan *plan)
{
    unsigned form = gt__op_table[task->ins->op].form;
    gt_rule *rule = form < sizeof rules / sizeof rules[0] && rules[form] ? rules[form] : gt__rule_whole;
    return rule(task, plan);
}

/* The layout as which the rules, which do not know meshes, see an operand; NULL: as it is, or out of memory. Parts on workers
 * outside the target will be moved to it: seen as already moved. A tensor on a mesh will be gathered: seen as whole. */
static gt_layout *seen_as(const gt_task *task, const gt_source *source)
{
    const gt_target *target = task->target;
    const gt_layout *layout = source->layout;
    if (layout->kind == GT_MESHED)
        return gt__layout_like(layout, GT_REPLICATED, 0);
    if (!target || !target->split || target->automatic || target->count < 2 || gt__rule_within(task, layout))
        return NULL;
    return gt__layout_even(layout->axis, source->meta->shape[layout->axis], target->worker, target->count);
}

static gt_err relocate(gt_task *task, gt_plan *plan)
{
    for (unsigned k = 0; k < task->count; k++) {
        gt_source *source = &task->source[k];
        bool meshed = source->meta && source->layout->kind == GT_MESHED;
        if (!meshed && !gt__rule_is_split(source))
            continue;
        gt_layout *there = seen_as(task, source);
        if (meshed && !there)
            return gt__spread_no_memory();
        plan->gathers |= meshed;
        source->layout = there ? there : source->layout;
    }
    return GT_OK;
}

static void relocate_back(gt_task *task)
{
    for (unsigned k = 0; k < task->count; k++) {
        gt_source *source = &task->source[k];
        if (source->spread && source->layout != source->spread->layout) {
            gt__layout_release(source->layout);
            source->layout = source->spread->layout;
        }
    }
}

gt_err gt__spread_plan(gt_task *task, gt_plan *plan)
{
    bool planned = false;
    gt_err err = gt__mesh_plan(task, plan, &planned);
    if (planned)
        gt__moving_unknown(task);
    if (err == GT_OK && !planned) {
        err = relocate(task, plan);
        if (err == GT_OK)
            err = gt__rule_apply(task, plan);
        relocate_back(task);
    }
    for (unsigned k = 0; err == GT_OK && plan->gathers && plan->result && k < plan->result->count; k++)
        gt__spread_worker(task->session, plan->result->member[k].worker)->traffic.gathers++;
    return err;
}

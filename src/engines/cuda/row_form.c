/*
 * row_form.c: steps around operations on rows (softmax, layer norm, reductions) that need not run. Read chain.h first.
 *
 *     a cast to float32 that only such operations read: their kernels read halves as well;
 *     a cast of such a result, if nothing else reads it: the kernel stores halves;
 *     the gradient of log_softmax that is zero but for one element of each row, as that of cross entropy: the kernel takes
 *     the elements and their positions instead of the whole tensor.
 *
 * The steps from the first to the last one that is concerned are one group of the plan, and run in their order.
 */
#include <string.h>

#include "engines/cuda/chain.h"

enum { FARTHEST = 24 }; /* steps from the first to the last of a group */

static const gt_plan_value *result_of(const gt_plan *plan, uint32_t step)
{
    return &plan->values[plan->steps[step].result];
}

static gt_form form_of(const gt_plan *plan, uint32_t step)
{
    return (gt_form)gt__op_table[plan->steps[step].op].form;
}

/* The value of operand k; NULL: a literal. */
static const gt_plan_value *operand_of(const gt_plan *plan, uint32_t step, unsigned k)
{
    uint32_t value = plan->steps[step].operand[k];
    return value == GT_PLAN_LITERAL ? NULL : &plan->values[value];
}

/* All elements of a buffer, in order. */
static bool is_whole(const gt_plan_value *value)
{
    return value->offset == 0 && value->view.contiguous;
}

static bool is_half(gt_dtype dtype)
{
    return dtype == GT_FLOAT16 || dtype == GT_BFLOAT16;
}

static bool reads(const gt_plan *plan, uint32_t step, uint32_t buffer)
{
    for (unsigned k = 0; plan->steps[step].kind != GT_STEP_VIEW && k < plan->steps[step].operands; k++) {
        const gt_plan_value *value = operand_of(plan, step, k);
        if (value && value->buffer == buffer)
            return true;
    }
    return false;
}

/* It exists only until a step not far away. */
static bool is_inner(const gt_plan *plan, uint32_t buffer, uint32_t first)
{
    const gt_plan_buffer *b = &plan->buffers[buffer];
    return b->role == GT_PLAN_INNER && b->last_use <= first + FARTHEST;
}

static bool is_row_step(const gt_plan *plan, uint32_t step)
{
    gt_form form = form_of(plan, step);
    return plan->steps[step].kind == GT_STEP_RUN &&
           (form == GT_FORM_SOFTMAX || form == GT_FORM_SOFTMAX_BACKWARD || form == GT_FORM_LAYER_NORM);
}

static void add(gt_cuda_rows *rows, gt_row_change change, uint32_t *last, uint32_t reaches)
{
    rows->change[rows->count++] = change;
    *last = reaches > *last ? reaches : *last;
}

/* Whether a step writes into the buffer in place, after `from` and not after `to`: what is read later would be another value. */
static bool is_overwritten(const gt_plan *plan, uint32_t buffer, uint32_t from, uint32_t to)
{
    for (uint32_t k = from + 1; k <= to; k++)
        if (plan->steps[k].kind == GT_STEP_IN_PLACE && result_of(plan, k)->buffer == buffer)
            return true;
    return false;
}

/* ---- casts --------------------------------------------------------------------------------------------------- */

static void absorb_cast_before(const gt_plan *plan, uint32_t cast, uint32_t first, gt_cuda_rows *rows,
                               uint32_t *last)
{
    const gt_plan_step *step = &plan->steps[cast];
    const gt_plan_value *from = operand_of(plan, cast, 0), *to = result_of(plan, cast);
    if (form_of(plan, cast) != GT_FORM_CAST || step->kind != GT_STEP_RUN || !from ||
        rows->count == GT_ROW_CHANGES || to->view.meta.dtype != GT_FLOAT32 ||
        !is_half((gt_dtype)from->view.meta.dtype) || !from->view.contiguous || to->view.meta.numel == 0 ||
        !is_inner(plan, to->buffer, first))
        return;
    uint32_t end = plan->buffers[to->buffer].last_use;
    if (is_overwritten(plan, from->buffer, cast, end))
        return;
    for (uint32_t k = cast + 1; k <= end; k++) {
        if (!reads(plan, k, to->buffer))
            continue;
        if (!is_row_step(plan, k) && form_of(plan, k) != GT_FORM_REDUCE)
            return;
        for (unsigned operand = 0; operand < plan->steps[k].operands; operand++) {
            const gt_plan_value *value = operand_of(plan, k, operand);
            if (value && value->buffer == to->buffer && !is_whole(value))
                return;
        }
    }
    add(rows, (gt_row_change){.kind = GT_ROW_READS, .step = cast, .of = step->result, .instead = step->operand[0]},
        last, end);
}

static void absorb_cast_after(const gt_plan *plan, uint32_t row, uint32_t first, gt_cuda_rows *rows,
                              uint32_t *last)
{
    const gt_plan_value *result = result_of(plan, row);
    if (!is_row_step(plan, row) || plan->steps[row].op == GT_OP_layer_norm_backward_weight ||
        rows->count == GT_ROW_CHANGES || result->view.meta.dtype != GT_FLOAT32 ||
        plan->steps[row].compute != GT_FLOAT32 || result->view.meta.numel == 0 ||
        !is_inner(plan, result->buffer, first))
        return;
    uint32_t cast = plan->buffers[result->buffer].last_use;
    for (uint32_t k = row + 1; k < cast; k++)
        if (reads(plan, k, result->buffer))
            return;
    const gt_plan_value *from =
        cast > row && form_of(plan, cast) == GT_FORM_CAST ? operand_of(plan, cast, 0) : NULL;
    if (!from || plan->steps[cast].kind != GT_STEP_RUN || from->buffer != result->buffer || !is_whole(from) ||
        !is_half((gt_dtype)result_of(plan, cast)->view.meta.dtype) || !is_whole(result_of(plan, cast)))
        return;
    add(rows,
        (gt_row_change){.kind = GT_ROW_STORES,
                        .step = cast,
                        .of = plan->steps[row].result,
                        .instead = plan->steps[cast].result},
        last, cast);
}

/* ---- gradients with one element in each row ------------------------------------------------------------------ */

/* The only step after `step` that reads a buffer that dies there; 0: there is none. */
static uint32_t only_reader(const gt_plan *plan, uint32_t step, uint32_t buffer, uint32_t last)
{
    uint32_t reader = 0;
    for (uint32_t k = step + 1; k <= last; k++)
        if (reads(plan, k, buffer)) {
            if (reader)
                return 0;
            reader = k;
        }
    return reader;
}

/* out[i, index[i]] = src[i], of a zero tensor. */
static bool is_one_a_row(const gt_plan *plan, uint32_t scatter, uint32_t zeros)
{
    const gt_plan_step *step = &plan->steps[scatter];
    const gt_meta *out = &result_of(plan, scatter)->view.meta;
    if ((step->op != GT_OP_scatter && step->op != GT_OP_scatter_add) ||
        (step->kind != GT_STEP_RUN && step->kind != GT_STEP_IN_PLACE) || out->rank == 0 ||
        step->record->ins.imm[0].i != out->rank - 1)
        return false;
    const gt_plan_value *base = operand_of(plan, scatter, 0), *index = operand_of(plan, scatter, 1),
                        *src = operand_of(plan, scatter, 2);
    return base && index && src && base->buffer == zeros && is_whole(base) && index->view.meta.rank == out->rank &&
           src->view.meta.rank == out->rank && index->view.meta.shape[out->rank - 1] == 1 &&
           index->view.meta.numel * out->shape[out->rank - 1] == out->numel &&
           src->view.meta.numel == index->view.meta.numel && src->view.meta.dtype == out->dtype;
}

static void absorb_scatter(const gt_plan *plan, uint32_t full, gt_cuda_rows *rows, uint32_t *last)
{
    const gt_plan_value *zeros = result_of(plan, full);
    if (form_of(plan, full) != GT_FORM_FULL || plan->steps[full].record->ins.imm[0].u != 0 ||
        zeros->view.meta.dtype != GT_FLOAT32 || zeros->view.meta.numel == 0 ||
        !is_inner(plan, zeros->buffer, full))
        return;
    uint32_t end = plan->buffers[zeros->buffer].last_use, scatter = 0;
    for (uint32_t k = full + 1; k <= end && !scatter; k++)
        scatter = reads(plan, k, zeros->buffer) ? k : 0;
    if (!scatter || !is_one_a_row(plan, scatter, zeros->buffer))
        return;
    const gt_plan_value *gradient = result_of(plan, scatter);
    if (!is_inner(plan, gradient->buffer, full) || (gradient->buffer != zeros->buffer && end != scatter))
        return;
    end = plan->buffers[gradient->buffer].last_use;
    uint32_t row = only_reader(plan, scatter, gradient->buffer, end);
    if (!row || plan->steps[row].op != GT_OP_log_softmax_backward || !operand_of(plan, row, 0) ||
        !operand_of(plan, row, 1) || operand_of(plan, row, 0)->buffer != gradient->buffer ||
        operand_of(plan, row, 1)->buffer == gradient->buffer || !is_whole(operand_of(plan, row, 0)) ||
        plan->steps[row].record->ins.imm[0].i != gradient->view.meta.rank - 1 ||
        plan->steps[row].compute != GT_FLOAT32 ||
        !gt__meta_same_shape(&operand_of(plan, row, 0)->view.meta, &gradient->view.meta) ||
        is_overwritten(plan, operand_of(plan, scatter, 1)->buffer, scatter, row) ||
        is_overwritten(plan, operand_of(plan, scatter, 2)->buffer, scatter, row))
        return;
    add(rows, (gt_row_change){.kind = GT_ROW_ZEROS, .step = full, .of = plan->steps[full].result}, last, row);
    add(rows, (gt_row_change){.kind = GT_ROW_SPARSE, .step = scatter, .of = plan->steps[scatter].result}, last,
        row);
}

/* ---- the interface ------------------------------------------------------------------------------------------- */

void gt__cuda_rows_form(const gt_plan *plan, uint32_t first, gt_cuda_rows *rows, uint32_t *last)
{
    rows->count = 0;
    *last = first;
    absorb_scatter(plan, first, rows, last);
    absorb_cast_before(plan, first, first, rows, last);
    absorb_cast_after(plan, first, first, rows, last);
    for (uint32_t k = first + 1; k <= *last;
         k++) { /* as far as the group reaches anyway, and where it can reach further */
        if (gt__cuda_rows_skip(rows, k))
            continue;
        absorb_cast_before(plan, k, first, rows, last);
        absorb_cast_after(plan, k, first, rows, last);
    }
}

bool gt__cuda_rows_skip(const gt_cuda_rows *rows, uint32_t step)
{
    for (unsigned k = 0; k < rows->count; k++)
        if (rows->change[k].step == step)
            return true;
    return false;
}

bool gt__cuda_rows_hold(const gt_cuda_rows *rows, const gt_plan *plan)
{
    for (unsigned k = 0; k < rows->count; k++)
        if (rows->change[k].kind == GT_ROW_ZEROS && plan->steps[rows->change[k].step].record->ins.imm[0].u != 0)
            return false;
    return true;
}

/* The same elements elsewhere, in another dtype. */
static void place(gt_view *view, const gt_plan *plan, uint32_t value, void *const *buffer)
{
    gt_view there = gt__plan_view(plan, value, buffer);
    view->data = there.data;
    view->meta.dtype = there.meta.dtype;
}

bool gt__cuda_rows_change(const gt_cuda_rows *rows, const gt_plan *plan, const gt_plan_step *step,
                          void *const *buffer, gt_view *in, const gt_view **views, gt_view *out, gt_call *call)
{
    bool changed = false;
    for (unsigned c = 0; c < rows->count; c++) {
        const gt_row_change *change = &rows->change[c];
        uint32_t of = plan->values[change->of].buffer;
        if (change->kind == GT_ROW_STORES && change->of == step->result) {
            place(out, plan, change->instead, buffer);
            changed = true;
        }
        for (unsigned k = 0; k < step->operands; k++) {
            if (step->operand[k] == GT_PLAN_LITERAL || plan->values[step->operand[k]].buffer != of)
                continue;
            changed = true;
            if (change->kind == GT_ROW_READS)
                place(&in[k], plan, change->instead, buffer);
            if (change->kind == GT_ROW_SPARSE && k == 0) {
                const uint32_t *operand = plan->steps[change->step].operand;
                in[0] = gt__plan_view(plan, operand[2], buffer);
                in[2] = gt__plan_view(plan, operand[1], buffer);
                views[2] = &in[2];
                call->operands = 3;
            }
        }
    }
    return changed;
}

void gt__cuda_rows_settle(gt_plan *plan, const gt_cuda_rows *rows)
{
    for (unsigned k = 0; k < rows->count; k++)
        plan->buffers[plan->values[rows->change[k].of].buffer].role = GT_PLAN_NONE;
}

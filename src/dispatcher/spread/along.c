/*
 * along.c: ops along the split axis whose result has as many elements: softmax, scans, and those that are computed with
 * another axis split.
 *
 *     softmax       each part's maximum, the maximum of these; exponentials; their sums, the sum of these; a quotient
 *     cumsum, ...   a scan of each part, then the total of the parts before it is added
 *     cummax, ...   the same with positions: the elements at them are compared
 *     argsort, ...  an all-to-all to another axis, the op on whole lines, and back
 *
 * Halves are computed in float32 and rounded once, as on one worker. rules_along.c chooses; read make.h first.
 */
#include "dispatcher/spread/along.h"

#include "dispatcher/spread/make.h"

/* In the dtype of the result, or float32 where that is a half. */
static gt_handle *widened(gt_maker *m, gt_handle *a, const gt_task *task)
{
    gt_dtype dtype = (gt_dtype)task->out.dtype;
    return gt__make_cast(m, a, gt__dtype_is_half(dtype) ? GT_FLOAT32 : dtype);
}

/* ---- softmax ------------------------------------------------------------------------------------------------- */

gt_err gt__run_softmax(gt_task *task, const gt_plan *plan, gt_handle *result)
{
    gt_maker m = gt__make_begin(task->session);
    unsigned axis = (unsigned)task->ins->imm[0].i;
    gt_handle *x = widened(&m, gt__make_operand(&m, task, plan, 0), task);
    gt_handle *most = gt__make_reduced(&m, GT_OP_amax, x, axis);
    gt_handle *below = gt__make_binary(&m, GT_OP_sub, x, most);
    gt__make_drop(&m, x);
    gt_handle *powers = gt__make_unary(&m, GT_OP_exp, below);
    gt_handle *sum = gt__make_reduced(&m, GT_OP_sum, powers, axis), *out;
    if (task->ins->op == GT_OP_softmax) {
        gt__make_drop(&m, below);
        out = gt__make_binary(&m, GT_OP_div, powers, sum);
    } else {
        gt__make_drop(&m, powers);
        out = gt__make_binary(&m, GT_OP_sub, below, gt__make_unary(&m, GT_OP_log, sum));
    }
    return gt__make_end(&m, gt__make_cast(&m, out, (gt_dtype)task->out.dtype), result);
}

/* softmax: out (g - sum(g out)); log_softmax: g - exp(out) sum(g). */
gt_err gt__run_softmax_backward(gt_task *task, const gt_plan *plan, gt_handle *result)
{
    gt_maker m = gt__make_begin(task->session);
    unsigned axis = (unsigned)task->ins->imm[0].i;
    gt_handle *g = widened(&m, gt__make_operand(&m, task, plan, 0), task), *gradient;
    gt_handle *out = widened(&m, gt__make_operand(&m, task, plan, 1), task);
    if (task->ins->op == GT_OP_softmax_backward) {
        gt_handle *weighed = gt__make_binary(&m, GT_OP_mul, g, out);
        gt_handle *sum = gt__make_reduced(&m, GT_OP_sum, weighed, axis);
        gt__make_drop(&m, weighed);
        gradient = gt__make_binary(&m, GT_OP_mul, gt__make_binary(&m, GT_OP_sub, g, sum), out);
    } else {
        gt_handle *sum = gt__make_reduced(&m, GT_OP_sum, g, axis), *powers = gt__make_unary(&m, GT_OP_exp, out);
        gradient = gt__make_binary(&m, GT_OP_sub, g, gt__make_binary(&m, GT_OP_mul, powers, sum));
    }
    return gt__make_end(&m, gt__make_cast(&m, gradient, (gt_dtype)task->out.dtype), result);
}

/* ---- scans --------------------------------------------------------------------------------------------------- */

/* What the steps of a scan share. */
typedef struct scan {
    gt_maker m;
    unsigned axis;
    gt_opcode op;
    gt_layout *parts, *ones, *whole; /* of the tensor; one element for each part; all of these on every member */
} scan;

static scan scan_begin(const gt_task *task, const gt_plan *plan)
{
    scan s = {.m = gt__make_begin(task->session), .axis = (unsigned)task->ins->imm[0].i};
    s.op = (gt_opcode)task->ins->op;
    s.parts = plan->operand[0];
    s.ones = gt__make_ones(&s.m, s.parts);
    s.whole = gt__make_whole(&s.m, s.parts);
    return s;
}

static gt_err scan_end(scan *s, gt_handle *made, gt_handle *result)
{
    gt__layout_release(s->ones);
    gt__layout_release(s->whole);
    return gt__make_end(&s->m, made, result);
}

static gt_handle *scanned(scan *s, gt_handle *a, gt_layout *at)
{
    gt_instruction ins = {.op = (uint16_t)s->op};
    ins.imm[0].i = s->axis;
    return gt__make_here(&s->m, ins, &a, &at, at, NULL);
}

static gt_handle *gathered(scan *s, gt_handle *a, gt_handle *index, gt_layout *at)
{
    gt_instruction ins = {.op = GT_OP_gather};
    ins.imm[0].i = s->axis;
    return gt__make_here(&s->m, ins, (gt_handle *[]){a, index}, (gt_layout *[]){at, at}, at, NULL);
}

static void localize_last(const gt_task *task, const gt_plan *plan, unsigned member, gt_slot *record)
{
    (void)task;
    record[1].i64[plan->parts->axis] = plan->parts->member[member].count - 1;
}

/* The first member has no part before it, and uses nothing of what it gets here. */
static void localize_before(const gt_task *task, const gt_plan *plan, unsigned member, gt_slot *record)
{
    (void)task;
    record[1].i64[plan->parts->axis] = member ? member - 1 : 0;
}

/* One element along the axis, for each member. */
static gt_handle *element(scan *s, gt_handle *a, gt_layout *at, gt_localize *localize)
{
    if (s->m.err != GT_OK)
        return NULL;
    gt_slot record[4] = {{.ins = {.op = GT_OP_slice, .tail = 3}}};
    for (unsigned d = 0; d < a->meta.rank; d++) {
        record[2].i64[d] = 1;
        record[3].i64[d] = d == s->axis ? 1 : a->meta.shape[d];
    }
    gt_meta out = gt__make_meta(&a->meta, s->axis, s->parts->count, (gt_dtype)a->meta.dtype);
    return gt__make(&s->m, &(gt_step){.record = record,
                                      .count = 1,
                                      .operand = &a,
                                      .at = &at,
                                      .result = s->ones,
                                      .parts = s->parts,
                                      .localize = localize,
                                      .out = &out});
}

/* The first member has no part before it: its result is the operand that the others combine with more. */
static void become_copy(gt_slot *record, unsigned operand)
{
    uint64_t id = record->ins.operand[operand];
    record->ins = (gt_instruction){.op = GT_OP_copy, .scope = record->ins.scope, .site = record->ins.site};
    record->ins.operand[0] = id;
}

static void localize_combined(const gt_task *task, const gt_plan *plan, unsigned member, gt_slot *record)
{
    (void)plan;
    if (!member)
        become_copy(record, task->ins->op == GT_OP_where ? 1 : 0);
}

gt_err gt__run_scan(gt_task *task, const gt_plan *plan, gt_handle *result)
{
    scan s = scan_begin(task, plan);
    gt_handle *x = widened(&s.m, gt__make_operand(&s.m, task, plan, 0), task);
    gt_handle *within = scanned(&s, x, s.parts);
    gt__make_drop(&s.m, x);
    gt_handle *totals = scanned(&s, element(&s, within, s.parts, localize_last), s.whole);
    gt_handle *before = element(&s, totals, s.whole, localize_before);
    gt_slot record = {.ins = {.op = s.op == GT_OP_cumsum    ? GT_OP_add
                                    : s.op == GT_OP_cumprod ? GT_OP_mul
                                                            : GT_OP_logaddexp}};
    gt_handle *out = gt__make(&s.m, &(gt_step){.record = &record,
                                               .count = 2,
                                               .operand = (gt_handle *[]){within, before},
                                               .at = (gt_layout *[]){s.parts, s.ones},
                                               .result = s.parts,
                                               .localize = localize_combined,
                                               .out = within ? &within->meta : NULL});
    return scan_end(&s, gt__make_cast(&s.m, out, (gt_dtype)task->out.dtype), result);
}

/* Whether the element comes after those of the parts before: at least as large (cummax), or NaN. */
static gt_handle *comes_after(scan *s, gt_handle *value, gt_handle *before)
{
    if (s->m.err != GT_OK)
        return NULL;
    gt_meta out = gt__make_meta(&value->meta, s->axis, value->meta.shape[s->axis], GT_BOOL);
    gt_instruction ins = {.op = s->op == GT_OP_cummax ? GT_OP_ge : GT_OP_le};
    gt_handle *reaches = gt__make_here(&s->m, ins, (gt_handle *[]){value, before},
                                       (gt_layout *[]){s->parts, s->ones}, s->parts, &out);
    if (!gt__dtype_is_float((gt_dtype)value->meta.dtype))
        return reaches;
    return gt__make_binary(&s->m, GT_OP_logical_or, reaches, gt__make_unary(&s->m, GT_OP_isnan, value));
}

gt_err gt__run_positions_so_far(gt_task *task, const gt_plan *plan, gt_handle *result)
{
    scan s = scan_begin(task, plan);
    gt_handle *x = gt__make_operand(&s.m, task, plan, 0);
    gt_handle *within = scanned(&s, x, s.parts), *value = gathered(&s, x, within, s.parts);
    gt_slot add = {.ins = {.op = GT_OP_add, .literals = GT_LITERAL_INT << 2}};
    gt_handle *position = gt__make(&s.m, &(gt_step){.record = &add,
                                                    .count = 2,
                                                    .operand = (gt_handle *[]){within, NULL},
                                                    .at = (gt_layout *[]){s.parts, NULL},
                                                    .result = s.parts,
                                                    .parts = s.parts,
                                                    .localize = gt__localize_start});
    gt__make_drop(&s.m, within);
    gt_handle *values = element(&s, value, s.parts, localize_last);
    gt_handle *positions = element(&s, position, s.parts, localize_last);
    gt_handle *best = scanned(&s, values, s.whole);
    gt_handle *value_before = element(&s, gathered(&s, values, best, s.whole), s.whole, localize_before);
    gt_handle *position_before = element(&s, gathered(&s, positions, best, s.whole), s.whole, localize_before);
    gt_handle *after = comes_after(&s, value, value_before);
    gt_slot where = {.ins = {.op = GT_OP_where}};
    gt_handle *out = gt__make(&s.m, &(gt_step){.record = &where,
                                               .count = 3,
                                               .operand = (gt_handle *[]){after, position, position_before},
                                               .at = (gt_layout *[]){s.parts, s.parts, s.ones},
                                               .result = s.parts,
                                               .localize = localize_combined,
                                               .out = &task->out});
    return scan_end(&s, out, result);
}

/* ---- with another axis split --------------------------------------------------------------------------------- */

/* A slice or an assignment takes all of a member's part along the dimensions of a mesh that are split. */
static void localize_counts(const gt_task *task, const gt_plan *plan, unsigned member, gt_slot *record)
{
    const gt_mesh *mesh = &plan->operand[0]->mesh;
    gt_meta part;
    gt__layout_part(plan->operand[0], member, task->source[0].meta, &part);
    for (unsigned d = 0; d < mesh->rank; d++)
        if (mesh->axis[d].kind == GT_SPLIT)
            record[3].i64[mesh->axis[d].axis] = part.shape[mesh->axis[d].axis];
}

gt_err gt__run_elsewhere(gt_task *task, const gt_plan *plan, gt_handle *result)
{
    gt_maker m = gt__make_begin(task->session);
    gt_handle *operand[GT_MAX_CAT];
    gt_form form = (gt_form)gt__op_table[task->ins->op].form;
    gt_layout *there = NULL;
    for (unsigned k = 0; k < task->count; k++) {
        operand[k] = task->source[k].handle;
        there = there ? there : plan->operand[k];
    }
    gt_handle *out = gt__make(
        &m, &(gt_step){.record = task->record,
                       .count = task->count,
                       .operand = operand,
                       .at = plan->operand,
                       .result = there,
                       .localize = form == GT_FORM_SLICE || form == GT_FORM_ASSIGN ? localize_counts : NULL,
                       .out = &task->out});
    return gt__make_end(&m, plan->result ? gt__make_moved(&m, out, plan->result) : out, result);
}

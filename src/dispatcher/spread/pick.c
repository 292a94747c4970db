/*
 * pick.c: ops along the split axis that pick elements: argmax, topk, take, gather, scatter.
 *
 *     argmax, topk  each part's candidates, with their positions in the whole; the candidates of all parts on every member,
 *                   and the best of these. Candidates are in the order of the parts, so the lower position wins among equals
 *     take, gather  each member picks what its part has, and -0 elsewhere: x + -0 is x for every x, so that the sum is what
 *                   was picked, bit for bit. The result is partial
 *     scatter       each member writes what is meant for its part, and the rest into a line that is cut off again
 *
 * rules_along.c chooses; read make.h first.
 */
#include "dispatcher/spread/along.h"

#include <string.h>

#include "dispatcher/spread/make.h"

/* What the steps share. */
typedef struct picking {
    gt_maker m;
    unsigned axis;
    gt_layout *parts; /* of operand 0 */
    gt_layout *whole; /* on every member: equal tensors, or those of its part */
} picking;

static picking picking_begin(const gt_task *task, const gt_plan *plan)
{
    picking p = {.m = gt__make_begin(task->session), .axis = (unsigned)task->ins->imm[0].i};
    p.parts = plan->operand[0];
    p.whole = gt__make_whole(&p.m, p.parts);
    return p;
}

static gt_err picking_end(picking *p, gt_handle *made, gt_handle *result)
{
    gt__layout_release(p->whole);
    return gt__make_end(&p->m, made, result);
}

static gt_instruction along(const picking *p, gt_opcode op)
{
    gt_instruction ins = {.op = (uint16_t)op};
    ins.imm[0].i = p->axis;
    return ins;
}

/* On every member, with what it has. */
static gt_handle *here(picking *p, gt_instruction ins, gt_handle *a, gt_handle *b)
{
    return gt__make_here(&p->m, ins, (gt_handle *[]){a, b}, (gt_layout *[]){p->whole, p->whole}, p->whole, NULL);
}

/* With a number that depends on the member's part. */
static gt_handle *with_number(picking *p, gt_opcode op, gt_handle *a, gt_layout *at, gt_localize *localize)
{
    gt_slot record = {.ins = {.op = (uint16_t)op, .literals = GT_LITERAL_INT << 2}};
    return gt__make(&p->m, &(gt_step){.record = &record,
                                      .count = 2,
                                      .operand = (gt_handle *[]){a, NULL},
                                      .at = (gt_layout *[]){at, NULL},
                                      .result = at,
                                      .parts = p->parts,
                                      .localize = localize});
}

void gt__localize_start(const gt_task *task, const gt_plan *plan, unsigned member, gt_slot *record)
{
    (void)task;
    record->ins.literal[1].i = plan->parts->member[member].start;
}

/* ---- candidates ---------------------------------------------------------------------------------------------- */

/* The elements at these positions in the parts. */
static gt_handle *elements_at(picking *p, gt_handle *a, gt_handle *position, gt_layout *candidates)
{
    if (p->m.err != GT_OK)
        return NULL;
    gt_meta out = gt__make_meta(&position->meta, p->axis, position->meta.shape[p->axis], (gt_dtype)a->meta.dtype);
    return gt__make_here(&p->m, along(p, GT_OP_gather), (gt_handle *[]){a, position},
                         (gt_layout *[]){p->parts, candidates}, candidates, &out);
}

/* Each part's best elements: their values, and their positions in the part. */
static void find_candidates(picking *p, gt_instruction ins, gt_handle *a, gt_layout *candidates,
                            gt_localize *localize, gt_handle **value, gt_handle **position)
{
    *value = *position = NULL;
    if (p->m.err != GT_OK || !candidates)
        return;
    const gt_member *last = &candidates->member[candidates->count - 1];
    gt_meta out = gt__make_meta(&a->meta, p->axis, last->start + last->count, GT_INT64);
    gt_slot record = {.ins = ins};
    *position = gt__make(&p->m, &(gt_step){.record = &record,
                                           .count = 1,
                                           .operand = &a,
                                           .at = &p->parts,
                                           .result = candidates,
                                           .parts = p->parts,
                                           .localize = localize,
                                           .out = &out});
    *value = elements_at(p, a, *position, candidates);
}

gt_err gt__run_argreduce(gt_task *task, const gt_plan *plan, gt_handle *result)
{
    picking p = picking_begin(task, plan);
    gt_layout *ones = gt__make_ones(&p.m, p.parts);
    gt_instruction ins = along(&p, (gt_opcode)task->ins->op);
    gt_handle *value, *position;
    ins.flags = GT_FLAG_KEEPDIM;
    find_candidates(&p, ins, gt__make_operand(&p.m, task, plan, 0), ones, NULL, &value, &position);
    position = with_number(&p, GT_OP_add, position, ones, gt__localize_start);
    gt_handle *best = here(&p, ins, value, NULL), *found = here(&p, along(&p, GT_OP_gather), position, best);
    gt__layout_release(ones);
    return picking_end(&p, gt__make_reshaped(&p.m, found, &task->out), result);
}

/* Elements in front of each line, and behind each element, of the split axis. */
static int64_t elements_before(const gt_meta *meta, unsigned axis)
{
    int64_t elements = 1;
    for (unsigned d = 0; d < axis; d++)
        elements *= meta->shape[d];
    return elements;
}

static int64_t elements_behind(const gt_meta *meta, unsigned axis)
{
    return meta->numel / elements_before(meta, axis) / meta->shape[axis];
}

static void localize_length(const gt_task *task, const gt_plan *plan, unsigned member, gt_slot *record)
{
    (void)task;
    record[1].i64[0] = plan->result->member[member].count;
}

/* Each part as a line. */
static gt_handle *flattened(picking *p, gt_handle *a, gt_layout *lines)
{
    if (p->m.err != GT_OK)
        return NULL;
    gt_slot record[2] = {{.ins = {.op = GT_OP_reshape, .tail = 1, .rank = 1}}};
    gt_meta out = {.rank = 1, .dtype = a->meta.dtype, .numel = a->meta.numel, .shape = {a->meta.numel}};
    return gt__make(&p->m, &(gt_step){.record = record,
                                      .count = 1,
                                      .operand = &a,
                                      .at = &p->parts,
                                      .result = lines,
                                      .localize = localize_length,
                                      .out = &out});
}

/* A part has rows of `count` and the whole has rows of `extent`, with `behind` elements in each: position l of the part
 * is number l + l / (count behind) (extent - count) behind + start behind of the whole. */
static void localize_row(const gt_task *task, const gt_plan *plan, unsigned member, gt_slot *record)
{
    const gt_member *part = &plan->parts->member[member];
    const gt_layout *last = plan->parts;
    int64_t extent = last->member[last->count - 1].start + last->member[last->count - 1].count;
    int64_t behind = record->ins.literal[1].i;
    (void)task;
    record->ins.literal[1].i = record->ins.op == GT_OP_floor_divide ? part->count * behind
                               : record->ins.op == GT_OP_mul        ? (extent - part->count) * behind
                                                                    : part->start * behind;
}

static gt_handle *by_row(picking *p, gt_opcode op, gt_handle *a, int64_t behind, gt_layout *at,
                         const gt_layout *parts)
{
    gt_slot record = {.ins = {.op = (uint16_t)op, .literals = GT_LITERAL_INT << 2}};
    record.ins.literal[1].i = behind;
    return gt__make(&p->m, &(gt_step){.record = &record,
                                      .count = 2,
                                      .operand = (gt_handle *[]){a, NULL},
                                      .at = (gt_layout *[]){at, NULL},
                                      .result = at,
                                      .parts = parts,
                                      .localize = localize_row});
}

/* The first in the whole of the best elements. Parts lie one behind the other only if they are split along the first axis:
 * otherwise the candidates are put in order first. */
gt_err gt__run_argreduce_all(gt_task *task, const gt_plan *plan, gt_handle *result)
{
    picking p = picking_begin(task, plan);
    gt_layout *split = p.parts, *lines = gt__layout_like(split, GT_SPLIT, 0), *ones = NULL;
    gt_handle *a = gt__make_operand(&p.m, task, plan, 0), *value = NULL, *position = NULL;
    int64_t before = elements_before(task->source[0].meta, split->axis);
    int64_t behind = elements_behind(task->source[0].meta, split->axis);
    if (!lines)
        p.m.err = gt__spread_no_memory();
    for (unsigned k = 0; lines && k < lines->count; k++) {
        lines->member[k].start *= before * behind;
        lines->member[k].count *= before * behind;
    }
    p.axis = 0;
    gt_handle *flat = lines ? flattened(&p, a, lines) : NULL;
    gt_instruction ins = along(&p, (gt_opcode)task->ins->op);
    ins.flags = GT_FLAG_KEEPDIM;
    if (lines) {
        p.parts = lines;
        ones = gt__make_ones(&p.m, lines);
        find_candidates(&p, ins, flat, ones, NULL, &value, &position);
    }
    if (before > 1) {
        gt_handle *row = by_row(&p, GT_OP_floor_divide, position, behind, ones, split);
        position = gt__make_binary(&p.m, GT_OP_add, position, by_row(&p, GT_OP_mul, row, behind, ones, split));
    }
    position = by_row(&p, GT_OP_add, position, behind, ones, split);
    if (before > 1) {
        gt_handle *order = here(&p, along(&p, GT_OP_argsort), position, NULL);
        position = here(&p, along(&p, GT_OP_gather), position, order);
        value = here(&p, along(&p, GT_OP_gather), value, order);
    }
    gt_handle *best = here(&p, ins, value, NULL), *found = here(&p, along(&p, GT_OP_gather), position, best);
    gt__layout_release(lines);
    gt__layout_release(ones);
    return picking_end(&p, gt__make_reshaped(&p.m, found, &task->out), result);
}

static void localize_topk(const gt_task *task, const gt_plan *plan, unsigned member, gt_slot *record)
{
    (void)task;
    record->ins.imm[1].i = plan->result->member[member].count;
}

gt_err gt__run_topk(gt_task *task, const gt_plan *plan, gt_handle *result)
{
    picking p = picking_begin(task, plan);
    gt_layout *candidates = gt__layout_like(p.parts, GT_SPLIT, p.axis);
    int64_t start = 0, k = task->ins->imm[1].i;
    if (!candidates)
        p.m.err = gt__spread_no_memory();
    for (unsigned j = 0; candidates && j < candidates->count; j++) {
        gt_member *member = &candidates->member[j];
        member->start = start;
        member->count = member->count < k ? member->count : k;
        start += member->count;
    }
    gt_instruction ins = along(&p, GT_OP_topk);
    ins.flags = task->ins->flags & GT_FLAG_SMALLEST;
    ins.imm[1].i = k;
    gt_handle *value, *position;
    find_candidates(&p, ins, gt__make_operand(&p.m, task, plan, 0), candidates, localize_topk, &value, &position);
    position = with_number(&p, GT_OP_add, position, candidates, gt__localize_start);
    gt_handle *best = here(&p, ins, value, NULL), *found = here(&p, along(&p, GT_OP_gather), position, best);
    gt__layout_release(candidates);
    return picking_end(&p, found, result);
}

/* ---- indices ------------------------------------------------------------------------------------------------- */

static void shape_of(const gt_meta *meta, gt_slot *tail)
{
    memset(tail, 0, sizeof *tail);
    memcpy(tail->i64, meta->shape, meta->rank * sizeof meta->shape[0]);
}

/* Zeros like this that take no memory, on every member. */
static gt_handle *zeros_like(picking *p, const gt_meta *meta)
{
    gt_slot record[2] = {{.ins = {.op = GT_OP_full, .dtype = meta->dtype, .tail = 1, .rank = meta->rank}}};
    gt_layout *none = NULL;
    for (unsigned d = 0; d < meta->rank; d++)
        record[1].i64[d] = 1;
    gt_handle *zero = gt__make(&p->m, &(gt_step){.record = record, .at = &none, .result = p->whole});
    record->ins = (gt_instruction){.op = GT_OP_expand, .tail = 1, .rank = meta->rank};
    shape_of(meta, &record[1]);
    return gt__make(
        &p->m, &(gt_step){.record = record, .count = 1, .operand = &zero, .at = &p->whole, .result = p->whole});
}

static gt_handle *reshaped(picking *p, gt_handle *a, const gt_meta *like)
{
    gt_slot record[2] = {{.ins = {.op = GT_OP_reshape, .tail = 1, .rank = like->rank}}};
    shape_of(like, &record[1]);
    return gt__make(&p->m,
                    &(gt_step){.record = record, .count = 1, .operand = &a, .at = &p->whole, .result = p->whole});
}

/* An axis of this size, after and before axes of size 1. */
static gt_meta line_along(unsigned axis, unsigned rank, int64_t size, gt_dtype dtype)
{
    gt_meta line = {.rank = (uint8_t)rank, .dtype = (uint8_t)dtype, .numel = size};
    for (unsigned d = 0; d < rank; d++)
        line.shape[d] = d == axis ? size : 1;
    return line;
}

/* What the record's op picks at the index from zeros that are as long as the whole: zeros, in the index's shape. */
static gt_handle *picked_zeros(picking *p, const gt_task *task, gt_handle *index)
{
    int64_t extent = task->source[0].meta->shape[p->axis];
    if (task->ins->op == GT_OP_take) {
        gt_meta line = line_along(p->axis, p->axis + 1, extent, GT_INT64);
        gt_instruction take = along(p, GT_OP_take);
        take.imm[1] = task->ins->imm[1];
        return reshaped(p, here(p, take, zeros_like(p, &line), index), &index->meta);
    }
    gt_meta lines = gt__make_meta(&index->meta, p->axis, extent, GT_INT64);
    return here(p, along(p, GT_OP_gather), zeros_like(p, &lines), index);
}

/* The first of zeros to which the record's op has written zeros at the index. */
static gt_handle *written_zeros(picking *p, const gt_task *task, gt_handle *index)
{
    unsigned rank = index->meta.rank;
    gt_meta target = line_along(p->axis, rank, task->source[0].meta->shape[p->axis], GT_UINT8);
    gt_meta line = line_along(p->axis, rank, index->meta.numel, GT_INT64);
    gt_slot record = {.ins = along(p, (gt_opcode)task->ins->op)};
    record.ins.imm[1] = task->ins->imm[1];
    record.ins.literals = GT_LITERAL_INT << 4;
    gt_handle *zeros = zeros_like(p, &target);
    gt_handle *written =
        gt__make(&p->m, &(gt_step){.record = &record,
                                   .count = 3,
                                   .operand = (gt_handle *[]){zeros, reshaped(p, index, &line), NULL},
                                   .at = (gt_layout *[]){p->whole, p->whole, NULL},
                                   .result = p->whole});
    gt_slot first[4] = {{.ins = {.op = GT_OP_slice, .tail = 3}}};
    for (unsigned d = 0; d < rank; d++)
        first[2].i64[d] = first[3].i64[d] = 1;
    return gt__make(
        &p->m, &(gt_step){.record = first, .count = 1, .operand = &written, .at = &p->whole, .result = p->whole});
}

/* The index plus 0. The 0 depends on the index: if that is out of bounds, the record's op fails with the size of the whole, as it
 * does on one worker. */
static gt_handle *in_bounds(picking *p, const gt_task *task, gt_handle *index)
{
    if (p->m.err != GT_OK)
        return NULL;
    bool scatters = gt__op_table[task->ins->op].form == GT_FORM_SCATTER;
    gt_handle *zero = scatters ? written_zeros(p, task, index) : picked_zeros(p, task, index);
    return here(p, (gt_instruction){.op = GT_OP_add}, index, zero);
}

static gt_handle *with_literal(picking *p, gt_opcode op, gt_handle *a, int64_t number)
{
    gt_instruction ins = {.op = (uint16_t)op, .literals = GT_LITERAL_INT << 2};
    ins.literal[1].i = number;
    return here(p, ins, a, NULL);
}

/* Negative indices count from the end. */
static gt_handle *wrapped(picking *p, gt_handle *index, int64_t extent)
{
    gt_handle *negative = with_literal(p, GT_OP_lt, index, 0), *moved = with_literal(p, GT_OP_add, index, extent);
    return gt__make_here(&p->m, (gt_instruction){.op = GT_OP_where}, (gt_handle *[]){negative, moved, index},
                         (gt_layout *[]){p->whole, p->whole, p->whole}, p->whole, NULL);
}

static void localize_count(const gt_task *task, const gt_plan *plan, unsigned member, gt_slot *record)
{
    (void)task;
    record->ins.literal[record->ins.op == GT_OP_where ? 2 : 1].i = plan->parts->member[member].count;
}

/* `where` with a number for those that are not in the member's part. */
static gt_handle *or_else(picking *p, gt_handle *inside, gt_handle *a, gt_literal kind, gt_imm number,
                          gt_localize *localize, gt_layout *result)
{
    gt_slot record = {.ins = {.op = GT_OP_where, .literals = (uint8_t)(kind << 4)}};
    record.ins.literal[2] = number;
    return gt__make(&p->m, &(gt_step){.record = &record,
                                      .count = 3,
                                      .operand = (gt_handle *[]){inside, a, NULL},
                                      .at = (gt_layout *[]){p->whole, p->whole, NULL},
                                      .result = result,
                                      .parts = p->parts,
                                      .localize = localize,
                                      .out = a ? &a->meta : NULL});
}

/* Positions in each member's part, and which of them are inside; the others are 0, or for `scatter` the line behind the
 * part. */
static gt_handle *in_part(picking *p, const gt_task *task, gt_handle *index, gt_handle **inside)
{
    index = in_bounds(p, task, index);
    if (task->ins->op == GT_OP_take && task->ins->imm[1].u == GT_TAKE_WRAPPED)
        index = wrapped(p, index, task->source[0].meta->shape[p->axis]);
    gt_handle *local = with_number(p, GT_OP_sub, index, p->whole, gt__localize_start);
    *inside = here(p, (gt_instruction){.op = GT_OP_logical_and}, with_literal(p, GT_OP_ge, local, 0),
                   with_number(p, GT_OP_lt, local, p->whole, localize_count));
    bool scatters = gt__op_table[task->ins->op].form == GT_FORM_SCATTER;
    return or_else(p, *inside, local, GT_LITERAL_INT, (gt_imm){.i = 0}, scatters ? localize_count : NULL,
                   p->whole);
}

/* What was picked in its part, and nothing elsewhere: a partial result. */
static gt_handle *summand(picking *p, gt_handle *inside, gt_handle *picked)
{
    if (p->m.err != GT_OK)
        return NULL;
    gt_layout *partial = gt__layout_like(p->parts, GT_PARTIAL, 0);
    gt_dtype dtype = (gt_dtype)picked->meta.dtype;
    bool is_float = gt__dtype_is_float(dtype);
    gt_literal kind = is_float ? GT_LITERAL_FLOAT : dtype == GT_BOOL ? GT_LITERAL_BOOL : GT_LITERAL_INT;
    gt_imm nothing = {.i = 0};
    if (is_float)
        nothing.f = -0.0;
    gt_handle *made = partial ? or_else(p, inside, picked, kind, nothing, NULL, partial) : NULL;
    if (!partial)
        p->m.err = gt__spread_no_memory();
    gt__layout_release(partial);
    return made;
}

/* What each member has at the index, which is something else where the index is not inside its part. */
static gt_handle *picked_here(picking *p, const gt_task *task, const gt_plan *plan, gt_handle **inside)
{
    gt_handle *a = gt__make_operand(&p->m, task, plan, 0), *index = gt__make_operand(&p->m, task, plan, 1);
    gt_handle *local = in_part(p, task, index, inside);
    return gt__make_here(&p->m, along(p, (gt_opcode)task->ins->op), (gt_handle *[]){a, local},
                         (gt_layout *[]){p->parts, p->whole}, p->whole, NULL);
}

gt_err gt__run_gather(gt_task *task, const gt_plan *plan, gt_handle *result)
{
    picking p = picking_begin(task, plan);
    gt_handle *inside, *picked = picked_here(&p, task, plan, &inside);
    return picking_end(&p, summand(&p, inside, picked), result);
}

gt_err gt__run_take(gt_task *task, const gt_plan *plan, gt_handle *result)
{
    picking p = picking_begin(task, plan);
    gt_handle *inside, *picked = picked_here(&p, task, plan, &inside);
    gt_meta lines = task->source[1].handle->meta; /* the index, broadcast over the axes behind */
    for (unsigned d = p.axis + 1; d < task->source[0].meta->rank; d++)
        lines.shape[lines.rank++] = 1;
    return picking_end(&p, summand(&p, reshaped(&p, inside, &lines), picked), result);
}

/* ---- scatter ------------------------------------------------------------------------------------------------- */

static void localize_cut(const gt_task *task, const gt_plan *plan, unsigned member, gt_slot *record)
{
    (void)task;
    record[3].i64[plan->parts->axis] = plan->result->member[member].count;
}

/* The first elements along the axis of what each member has, as many as `result` says. */
static gt_handle *first_of(picking *p, gt_handle *a, gt_layout *at, gt_layout *result, int64_t extent)
{
    if (p->m.err != GT_OK)
        return NULL;
    gt_slot record[4] = {{.ins = {.op = GT_OP_slice, .tail = 3}}};
    for (unsigned d = 0; d < a->meta.rank; d++) {
        record[2].i64[d] = 1;
        record[3].i64[d] = a->meta.shape[d];
    }
    gt_meta out = gt__make_meta(&a->meta, p->axis, extent, (gt_dtype)a->meta.dtype);
    return gt__make(&p->m, &(gt_step){.record = record,
                                      .count = 1,
                                      .operand = &a,
                                      .at = &at,
                                      .result = result,
                                      .parts = p->parts,
                                      .localize = localize_cut,
                                      .out = &out});
}

/* Each part with one more line behind it. */
static gt_handle *extended(picking *p, gt_handle *a, gt_layout *ones, gt_layout *longer)
{
    gt_slot record[2] = {{.ins = {.op = GT_OP_cat, .tail = 1}}};
    record->ins.imm[0].i = p->axis;
    record->ins.imm[1].i = 2;
    gt_handle *line = first_of(p, a, p->parts, ones, p->parts->count);
    if (!line)
        return NULL;
    gt_meta out =
        gt__make_meta(&a->meta, p->axis, a->meta.shape[p->axis] + p->parts->count, (gt_dtype)a->meta.dtype);
    return gt__make(&p->m, &(gt_step){.record = record,
                                      .count = 2,
                                      .operand = (gt_handle *[]){a, line},
                                      .at = (gt_layout *[]){p->parts, ones},
                                      .result = longer,
                                      .out = &out});
}

gt_err gt__run_scatter(gt_task *task, const gt_plan *plan, gt_handle *result)
{
    picking p = picking_begin(task, plan);
    gt_layout *ones = gt__make_ones(&p.m, p.parts), *longer = gt__layout_like(p.parts, GT_SPLIT, p.axis);
    gt_handle *a = gt__make_operand(&p.m, task, plan, 0), *index = gt__make_operand(&p.m, task, plan, 1);
    gt_handle *src = task->source[2].meta ? gt__make_operand(&p.m, task, plan, 2) : NULL, *inside;
    for (unsigned k = 0; longer && k < longer->count; k++) {
        longer->member[k].start += k;
        longer->member[k].count++;
    }
    if (!longer)
        p.m.err = gt__spread_no_memory();
    gt_handle *local = in_part(&p, task, index, &inside),
              *target = ones && longer ? extended(&p, a, ones, longer) : NULL;
    gt_handle *written = gt__make(&p.m, &(gt_step){.record = task->record,
                                                   .count = 3,
                                                   .operand = (gt_handle *[]){target, local, src},
                                                   .at = (gt_layout *[]){longer, p.whole, src ? p.whole : NULL},
                                                   .result = longer,
                                                   .out = target ? &target->meta : NULL});
    gt_handle *out = first_of(&p, written, longer, p.parts, task->out.shape[p.axis]);
    gt__layout_release(ones);
    gt__layout_release(longer);
    return picking_end(&p, out, result);
}

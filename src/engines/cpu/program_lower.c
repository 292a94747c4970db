/*
 * program_lower.c: translates a group of steps into tile operations. Read program.h first.
 *
 * Every value has a home: its memory, or scratch if only the group uses it. Kernels read homes directly where they hold the
 * compute type; if not, an operation loads a copy, which later readers use, too. program_place.c then gives scratch to the
 * operations.
 */
#include <stdlib.h>
#include <string.h>

#include "engines/cpu/program.h"

/* How a kernel finds an operand. */
typedef struct operand {
    uint16_t slot;
    gt_level level;
    bool one; /* a single number */
} operand;

/* A copy of a value (or buffer of the group) as the compute type. */
typedef struct copy {
    uint32_t value, slot;
    gt_compute compute;
    gt_dtype narrow;
    gt_level level;
    bool gathered; /* at positions of one shape; others of the group have as many, and another shape */
    gt_access access;
} copy;

typedef struct lowering {
    const gt_cpu *cpu;
    gt_plan *plan;
    const gt_forming *forming;
    const gt_group *group;
    gt_fused *fused;
    unsigned slot_room, op_room, gather_room, number_room, choice_room, copy_room, copies;
    copy *copy;
    uint16_t *home; /* by member: its result's slot */
    int64_t row;    /* that rows are walked by; 0: not */
    bool prepares;  /* operations being added run once for many tiles */
    bool no_memory;
    gt_tile_op dummy; /* without memory these are changed in place of new ones */
    gt_tile_gather dummy_gather;
} lowering;

/* ---- parts --------------------------------------------------------------------------------------------------- */

static void *grow(lowering *l, void *array, unsigned *room, unsigned count, size_t size)
{
    if (count < *room)
        return array;
    unsigned more = *room ? 2 * *room : 16;
    void *grown = realloc(array, more * size);
    if (!grown) {
        l->no_memory = true;
        return array;
    }
    *room = more;
    return grown;
}

static uint16_t slot_add(lowering *l, gt_slot_place place, gt_level level, size_t size)
{
    gt_fused *f = l->fused;
    f->slots = grow(l, f->slots, &l->slot_room, f->slot_count, sizeof *f->slots);
    if (l->no_memory)
        return 0;
    f->slots[f->slot_count] = (gt_tile_slot){
        .place = place, .level = level, .size = (uint8_t)size, .region = GT_NO_REGION, .first = UINT32_MAX};
    return (uint16_t)f->slot_count++;
}

static uint16_t slot_of_memory(lowering *l, uint32_t value, gt_level level)
{
    const gt_plan_value *v = &l->plan->values[value];
    uint16_t slot = slot_add(l, GT_PLACE_MEMORY, level, gt__dtype_size((gt_dtype)v->view.meta.dtype));
    if (!l->no_memory) {
        l->fused->slots[slot].buffer = v->buffer;
        l->fused->slots[slot].offset = v->offset;
    }
    return slot;
}

/* Add an operation; it can be changed until the next one is added. Never NULL: without memory, a dummy. */
static gt_tile_op *op_add(lowering *l, void (*run)(const gt_tile_op *, gt_tile *), gt_level level, uint16_t out,
                          unsigned inputs, const uint16_t *in)
{
    gt_fused *f = l->fused;
    f->ops = grow(l, f->ops, &l->op_room, f->op_count, sizeof *f->ops);
    if (l->no_memory)
        return &l->dummy;
    unsigned at = f->op_count++;
    if (l->prepares) { /* these come first */
        memmove(f->ops + f->before + 1, f->ops + f->before, (at - f->before) * sizeof *f->ops);
        at = f->before++;
    }
    gt_tile_op *op = &f->ops[at];
    *op = (gt_tile_op){.run = run, .out = out, .level = (uint8_t)level, .inputs = (uint8_t)inputs};
    for (unsigned k = 0; k < inputs; k++)
        op->in[k] = in[k];
    return op;
}

static gt_tile_gather *gather_add(lowering *l, uint32_t *number)
{
    gt_fused *f = l->fused;
    f->gathers = grow(l, f->gathers, &l->gather_room, f->gather_count, sizeof *f->gathers);
    *number = f->gather_count;
    return l->no_memory ? &l->dummy_gather : &f->gathers[f->gather_count++];
}

/* The kernel of the operation added last depends on the number in a slot. */
static void choice_add(lowering *l, uint16_t slot, unsigned constants)
{
    gt_fused *f = l->fused;
    f->choices = grow(l, f->choices, &l->choice_room, f->choice_count, sizeof *f->choices);
    if (!l->no_memory)
        f->choices[f->choice_count++] = (gt_tile_choice){
            .op = f->op_count - 1 - f->before, .number = (uint32_t)f->slots[slot].offset, .constants = constants};
}

static copy *copy_find(lowering *l, const copy *wanted)
{
    for (unsigned k = 0; k < l->copies; k++) {
        copy *c = &l->copy[k];
        if (c->value == wanted->value && c->compute == wanted->compute && c->narrow == wanted->narrow &&
            c->level == wanted->level && c->gathered == wanted->gathered &&
            (!c->gathered || gt__access_same(&c->access, &wanted->access)))
            return c;
    }
    return NULL;
}

static void copy_note(lowering *l, copy c)
{
    l->copy = grow(l, l->copy, &l->copy_room, l->copies, sizeof *l->copy);
    if (!l->no_memory)
        l->copy[l->copies++] = c;
}

/* ---- operands ------------------------------------------------------------------------------------------------ */

static uint16_t home_of(const lowering *l, uint32_t buffer)
{
    for (unsigned k = l->group->members; k-- > 0;)
        if (l->plan->values[l->plan->steps[l->group->member[k].step].result].buffer == buffer)
            return l->home[k];
    return 0;
}

static const gt_plan_value *value_of(const lowering *l, uint32_t value)
{
    return &l->plan->values[value];
}

/* The elements of a slot as the compute type, with the bits that `narrow` has. */
static uint16_t convert(lowering *l, uint16_t from, gt_level level, gt_dtype dtype, gt_compute compute,
                        gt_dtype narrow)
{
    gt_dtype native = gt__native_dtype(compute);
    bool is_native = gt__elementwise_reads_as(dtype, native);
    if (is_native && narrow == native)
        return from;
    uint16_t slot = from;
    if (!is_native) {
        slot = slot_add(l, GT_PLACE_SCRATCH, level, gt__compute_size(compute));
        op_add(l, gt__tile_load, level, slot, 1, &from)->load = l->cpu->kernels->load[dtype][compute];
    }
    if (narrow == native)
        return slot;
    uint16_t less = slot_add(l, GT_PLACE_SCRATCH, level, gt__dtype_size(narrow));
    op_add(l, gt__tile_store, level, less, 1, &slot)->store = l->cpu->kernels->store[narrow][compute];
    slot = slot_add(l, GT_PLACE_SCRATCH, level, gt__compute_size(compute));
    op_add(l, gt__tile_load, level, slot, 1, &less)->load = l->cpu->kernels->load[narrow][compute];
    return slot;
}

static uint16_t gathered(lowering *l, uint32_t value, const gt_access *access, gt_level level, gt_compute compute,
                         bool raw)
{
    const gt_plan_value *v = value_of(l, value);
    gt_dtype dtype = (gt_dtype)v->view.meta.dtype;
    size_t size = gt__dtype_size(dtype), to_size = raw ? size : gt__compute_size(compute);
    uint16_t from = slot_of_memory(l, value, GT_LEVEL_COLUMN); /* the base: the same for all tiles */
    uint16_t slot = slot_add(l, GT_PLACE_SCRATCH, level, to_size);
    uint32_t number;
    *gather_add(l, &number) =
        (gt_tile_gather){.load = raw ? NULL : l->cpu->kernels->load[dtype][compute],
                         .move = raw ? gt__cpu_row_mover(dtype, dtype) : NULL,
                         .from_size = (int64_t)size,
                         .to_size = (int64_t)to_size,
                         .as_is = raw || gt__elementwise_reads_as(dtype, gt__native_dtype(compute)),
                         .slot = slot,
                         .access = *access};
    op_add(l, gt__tile_gather_run, level, slot, 1, &from)->gather =
        (void *)(uintptr_t)number; /* see fix_gathers */
    return slot;
}

static uint16_t number_of(lowering *l, const gt_plan_step *step, unsigned k, gt_compute compute, gt_dtype narrow)
{
    gt_fused *f = l->fused;
    gt_tile_number n = {.compute = compute, .narrow = narrow, .operand = k};
    if (step->operand[k] == GT_PLAN_LITERAL) {
        n.ins = &step->record->ins;
        n.dtype = gt__native_dtype(compute); /* its kind decides */
    } else {
        const gt_plan_value *v = value_of(l, step->operand[k]);
        n.buffer = v->buffer;
        n.offset = v->offset;
        n.dtype = (gt_dtype)v->view.meta.dtype;
    }
    f->numbers = grow(l, f->numbers, &l->number_room, f->number_count, sizeof *f->numbers);
    uint16_t slot = slot_add(l, GT_PLACE_NUMBER, GT_LEVEL_COLUMN, gt__compute_size(compute));
    if (l->no_memory)
        return 0;
    f->slots[slot].offset = f->number_count;
    f->numbers[f->number_count++] = n;
    return slot;
}

/* What an elementwise operand loses before it is used: see elementwise.h. */
static gt_dtype narrowed(const gt_plan_step *step, unsigned k, gt_compute compute, const gt_meta *meta)
{
    gt_dtype dtype = meta ? (gt_dtype)meta->dtype : GT_DTYPE_COUNT;
    bool one = !meta || meta->numel == 1;
    if (one && gt__elementwise_narrow(step->compute) && dtype != step->compute)
        return gt__number_dtype((gt_opcode)step->record->ins.op, k, !meta, step->compute);
    if (meta && gt__elementwise_rounds(step->compute, dtype))
        return step->compute;
    return gt__native_dtype(compute);
}

/* Operand k of a step as the compute type, at the positions of `space`, or at rows or columns. */
static operand operand_of(lowering *l, const gt_plan_step *step, gt_fusible kind, gt_level space, unsigned k,
                          gt_compute compute)
{
    bool elementwise = kind == GT_FUSIBLE_ELEMENTWISE;
    gt_dtype native = gt__native_dtype(compute);
    if (step->operand[k] == GT_PLAN_LITERAL)
        return (operand){
            .slot = number_of(l, step, k, compute, elementwise ? narrowed(step, k, compute, NULL) : native),
            .level = GT_LEVEL_COLUMN,
            .one = true};
    uint32_t value = step->operand[k];
    const gt_plan_value *v = value_of(l, value);
    gt_dtype dtype = (gt_dtype)v->view.meta.dtype;
    gt_dtype narrow = elementwise ? narrowed(step, k, compute, &v->view.meta) : native;
    gt_level made = gt__group_made(l->forming, v->buffer);
    bool one = v->view.meta.numel == 1;
    gt_access access;
    gt__access_find(&v->view, gt__member_space(l->plan, step, kind), &access);
    bool same = one || (access.rank == 1 && access.stride[0] == 0); /* everywhere */
    if (made == GT_LEVEL_COUNT && same && elementwise)
        return (operand){.slot = number_of(l, step, k, compute, narrow), .level = GT_LEVEL_COLUMN, .one = true};
    gt_level level = made;
    if (made == GT_LEVEL_COUNT) {
        bool rows = l->row && space == GT_LEVEL_FULL;
        level = gt__access_flat(&access)                     ? space
                : rows && gt__access_column(&access, l->row) ? GT_LEVEL_COLUMN
                : rows && gt__access_row(&access, l->row)    ? GT_LEVEL_ROW
                                                             : GT_LEVEL_COUNT;
    }
    gt_level keyed = level == GT_LEVEL_COUNT ? space : level;
    copy wanted = {.value = made == GT_LEVEL_COUNT ? value : UINT32_MAX - v->buffer,
                   .compute = compute,
                   .narrow = narrow,
                   .level = keyed,
                   .gathered = level == GT_LEVEL_COUNT,
                   .access = access};
    const copy *known = copy_find(l, &wanted);
    if (known)
        return (operand){.slot = (uint16_t)known->slot, .level = keyed, .one = one};
    uint16_t slot;
    l->prepares = level == GT_LEVEL_COLUMN;
    if (level == GT_LEVEL_COUNT) {
        slot = gathered(l, value, &access, space, compute, false);
        slot = convert(l, slot, space, native, compute, narrow);
    } else {
        slot = made == GT_LEVEL_COUNT ? slot_of_memory(l, value, level) : home_of(l, v->buffer);
        slot = convert(l, slot, level, dtype, compute, narrow);
    }
    l->prepares = false;
    wanted.slot = slot;
    copy_note(l, wanted);
    return (operand){.slot = slot, .level = keyed, .one = one};
}

/* An operand that is a number, a row or a column, at every position of `space`. */
static uint16_t spread(lowering *l, operand o, gt_level space, size_t size)
{
    if (o.level == space)
        return o.slot;
    void (*run)(const gt_tile_op *, gt_tile *) = o.one                        ? gt__tile_fill
                                                 : o.level == GT_LEVEL_COLUMN ? gt__tile_spread_columns
                                                                              : gt__tile_spread_rows;
    uint16_t slot = slot_add(l, GT_PLACE_SCRATCH, space, size);
    gt_dtype same = size == 1 ? GT_UINT8 : size == 2 ? GT_INT16 : size == 4 ? GT_INT32 : GT_INT64;
    gt_tile_op *op = op_add(l, run, space, slot, 1, &o.slot);
    op->move = gt__cpu_row_mover(same, same);
    op->dtype = same;
    return slot;
}

/* ---- members ------------------------------------------------------------------------------------------------- */

/* Where a member's kernel writes `written`; store_result converts it. */
static uint16_t result_slot(lowering *l, const gt_member *m, uint16_t home, gt_dtype written)
{
    gt_dtype dtype = (gt_dtype)value_of(l, l->plan->steps[m->step].result)->view.meta.dtype;
    return dtype == written ? home : slot_add(l, GT_PLACE_SCRATCH, m->level, gt__dtype_size(written));
}

static void store_result(lowering *l, const gt_member *m, uint16_t home, uint16_t slot, gt_compute compute)
{
    gt_dtype dtype = (gt_dtype)value_of(l, l->plan->steps[m->step].result)->view.meta.dtype;
    if (slot != home)
        op_add(l, gt__tile_store, m->level, home, 1, &slot)->store = l->cpu->kernels->store[dtype][compute];
}

static void lower_elementwise(lowering *l, const gt_member *m, uint16_t home)
{
    const gt_plan_step *step = &l->plan->steps[m->step];
    gt_compute compute = gt__elementwise_compute(step->op, step->compute);
    const gt_meta *out = &value_of(l, step->result)->view.meta;
    gt_dtype written = gt__elementwise_written(step->op, compute, (gt_dtype)out->dtype);
    int64_t element = (int64_t)gt__compute_size(compute);
    operand o[GT_MAX_OPERANDS];
    unsigned constants = 0;
    bool single = out->numel == 1, rows = false;
    for (unsigned k = 0; k < step->operands; k++) {
        o[k] = operand_of(l, step, m->kind, m->level, k, compute);
        if (o[k].one || (o[k].level == GT_LEVEL_ROW && m->level == GT_LEVEL_FULL))
            constants |= 1u << k;
    }
    constants = gt__elementwise_constants(constants, step->operands);
    uint16_t in[GT_MAX_OPERANDS];
    int64_t steps[GT_MAX_OPERANDS];
    for (unsigned k = 0; k < step->operands; k++) {
        bool constant = constants >> k & 1;
        bool row = o[k].level == GT_LEVEL_ROW && m->level == GT_LEVEL_FULL;
        bool column = o[k].level == GT_LEVEL_COLUMN && !o[k].one;
        bool short_row = l->row < GT_SHORTEST_ROW;
        in[k] = o[k].slot;
        steps[k] = row ? element : column || o[k].one ? 0 : element * l->row;
        if (single || (constant && o[k].one && !row))
            continue;
        if ((row && (!constant || short_row)) || (column && short_row) || (o[k].one && !row)) {
            in[k] = spread(l, o[k], m->level, (size_t)element);
            steps[k] = element * l->row;
            constants &= ~(1u << k);
        } else
            rows |= row || column;
    }
    uint16_t slot = result_slot(l, m, home, written);
    gt_tile_op *op = op_add(l, rows ? gt__tile_apply_rows : gt__tile_apply, m->level, slot, step->operands, in);
    op->over_operand = gt__dtype_size(written) == (size_t)element;
    op->op = step->op;
    op->compute = compute;
    op->apply.kernel = gt__elementwise_kernel(l->cpu->kernels, step->op, compute, constants, NULL);
    op->apply.pq = &step->record->ins.imm[0].f;
    op->apply.out_step = (int64_t)gt__dtype_size(written) * l->row;
    memcpy(op->apply.in_step, steps, sizeof steps[0] * step->operands);
    bool number = step->op == GT_OP_pow && constants == GT_CONSTANT_Y && o[1].one &&
                  (step->operand[1] == GT_PLAN_LITERAL || value_of(l, step->operand[1])->view.meta.numel == 1);
    if (number)
        choice_add(l, o[1].slot, constants);
    store_result(l, m, home, slot, compute);
}

/* ---- several members at once ----------------------------------------------------------------------------------- */

static uint16_t home_add(lowering *l, unsigned number);

static void add_compound(lowering *l, const gt_compound_match *m)
{
    const gt_compound *c = m->compound;
    uint16_t in[GT_COMPOUND_INPUTS] = {0}, out[GT_COMPOUND_OUTPUTS] = {0}, number[GT_COMPOUND_NUMBERS] = {0};
    for (unsigned k = 0; k < m->inputs; k++) {
        uint32_t buffer = value_of(l, m->input[k])->buffer;
        in[k] = gt__group_made(l->forming, buffer) == GT_LEVEL_COUNT
                    ? slot_of_memory(l, m->input[k], GT_LEVEL_FULL)
                    : home_of(l, buffer);
    }
    for (unsigned k = 0; k < m->numbers; k++)
        number[k] = number_of(l, m->number_step[k], m->number_operand[k], GT_COMPUTE_F32, GT_FLOAT32);
    unsigned outputs = 0;
    for (unsigned s = 0; s < c->steps; s++)
        if (c->step[s].output)
            out[outputs++] = home_add(l, m->member[s]);
    gt_tile_op *op = op_add(l, gt__tile_compound, GT_LEVEL_FULL, out[0], m->inputs, in);
    op->more_outs = (uint8_t)(outputs - 1);
    memcpy(op->more_out, out + 1, sizeof op->more_out);
    op->over_operand = true;
    op->compound.kernel = c->kernel;
    op->compound.numbers = (uint8_t)m->numbers;
    memcpy(op->compound.number, number, sizeof number);
}

/* ---- members that move or work on rows ------------------------------------------------------------------------- */

static void lower_move(lowering *l, const gt_member *m, uint16_t home)
{
    const gt_plan_step *step = &l->plan->steps[m->step];
    uint32_t value = step->operand[0];
    const gt_plan_value *v = value_of(l, value);
    gt_dtype from = (gt_dtype)v->view.meta.dtype, to = (gt_dtype)value_of(l, step->result)->view.meta.dtype;
    gt_level made = gt__group_made(l->forming, v->buffer);
    gt_access access;
    gt__access_find(&v->view, &v->view.meta, &access);
    uint16_t slot;
    if (made != GT_LEVEL_COUNT)
        slot = spread(l, (operand){.slot = home_of(l, v->buffer), .level = made}, m->level, gt__dtype_size(from));
    else if (gt__access_flat(&access))
        slot = slot_of_memory(l, value, m->level);
    else
        slot = gathered(l, value, &access, m->level, GT_COMPUTE_COUNT, true);
    op_add(l, gt__tile_move, m->level, home, 1, &slot)->move = gt__cpu_row_mover(to, from);
}

/* Operand k at every position, as the compute type. */
static uint16_t full_operand(lowering *l, const gt_plan_step *step, gt_fusible kind, unsigned k,
                             gt_compute compute)
{
    operand o = operand_of(l, step, kind, GT_LEVEL_FULL, k, compute);
    return spread(l, o, GT_LEVEL_FULL, gt__compute_size(compute));
}

static void lower_reduce(lowering *l, const gt_member *m, uint16_t home)
{
    const gt_plan_step *step = &l->plan->steps[m->step];
    gt_dtype dtype = (gt_dtype)value_of(l, step->operand[0])->view.meta.dtype;
    gt_compute compute = gt__cpu_reduce_compute(step->op, dtype);
    uint16_t in = full_operand(l, step, m->kind, 0, compute);
    gt_tile_op *op = op_add(l, gt__tile_reduce, GT_LEVEL_ROW, home, 1, &in);
    op->beside = gt__cpu_reduce_beside(l->cpu, compute, l->group->count / l->row, l->row);
    op->ins = &step->record->ins;
    op->op = step->op;
    op->compute = compute;
    op->dtype = (gt_dtype)value_of(l, step->result)->view.meta.dtype;
}

static void lower_softmax(lowering *l, const gt_member *m, uint16_t home)
{
    const gt_plan_step *step = &l->plan->steps[m->step];
    gt_compute compute = gt__cpu_compute((gt_dtype)value_of(l, step->result)->view.meta.dtype);
    uint16_t in[2];
    for (unsigned k = 0; k < step->operands; k++)
        in[k] = full_operand(l, step, m->kind, k, compute);
    uint16_t slot = result_slot(l, m, home, gt__native_dtype(compute));
    gt_tile_op *op = op_add(l, gt__tile_softmax, GT_LEVEL_FULL, slot, step->operands, in);
    op->op = step->op;
    op->compute = compute;
    store_result(l, m, home, slot, compute);
}

/* A weight of a normalisation: as many numbers as a row has. */
static uint16_t weight_operand(lowering *l, const gt_plan_step *step, unsigned k, gt_compute compute)
{
    size_t size = gt__compute_size(compute);
    uint16_t slot;
    l->prepares = true;
    if (step->operand[k] == GT_PLAN_LITERAL) {
        operand o = {.slot = number_of(l, step, k, compute, gt__native_dtype(compute)), .one = true};
        o.level = GT_LEVEL_COUNT;
        slot = spread(l, o, GT_LEVEL_COLUMN, size);
    } else {
        const gt_plan_value *v = value_of(l, step->operand[k]);
        gt_access access;
        gt__access_find(&v->view, &v->view.meta, &access);
        gt_dtype dtype = (gt_dtype)v->view.meta.dtype;
        slot = gt__access_flat(&access) ? convert(l, slot_of_memory(l, step->operand[k], GT_LEVEL_COLUMN),
                                                  GT_LEVEL_COLUMN, dtype, compute, gt__native_dtype(compute))
                                        : gathered(l, step->operand[k], &access, GT_LEVEL_COLUMN, compute, false);
    }
    l->prepares = false;
    return slot;
}

static void lower_norm(lowering *l, const gt_member *m, uint16_t home)
{
    const gt_plan_step *step = &l->plan->steps[m->step];
    gt_compute compute = gt__cpu_compute((gt_dtype)value_of(l, step->result)->view.meta.dtype);
    unsigned full = step->op == GT_OP_layer_norm ? 1 : 2;
    uint16_t in[3];
    for (unsigned k = 0; k < 3; k++)
        in[k] = k < full ? full_operand(l, step, m->kind, k, compute) : weight_operand(l, step, k, compute);
    uint16_t slot = result_slot(l, m, home, gt__native_dtype(compute));
    gt_tile_op *op = op_add(l, gt__tile_norm, GT_LEVEL_FULL, slot, 3, in);
    op->op = step->op;
    op->compute = compute;
    op->ins = &step->record->ins;
    store_result(l, m, home, slot, compute);
}

/* Room for sums of a result, in each part. */
static void sum_set(lowering *l, gt_tile_op *op, const gt_plan_step *step, gt_compute compute)
{
    const gt_meta *out = &value_of(l, step->result)->view.meta;
    op->ins = &step->record->ins;
    op->op = step->op;
    op->compute = compute;
    op->dtype = (gt_dtype)out->dtype;
    op->sum.results = out->numel;
    op->sum.offset = l->fused->sums;
    l->fused->sums += gt__line_aligned((size_t)out->numel * sizeof(double));
}

static void lower_sum(lowering *l, const gt_member *m, uint16_t home)
{
    const gt_plan_step *step = &l->plan->steps[m->step];
    gt_compute compute =
        gt__cpu_reduce_compute(step->op, (gt_dtype)value_of(l, step->operand[0])->view.meta.dtype);
    uint16_t in = full_operand(l, step, m->kind, 0, compute);
    bool all = value_of(l, step->result)->view.meta.numel == 1;
    gt_tile_op *op = op_add(l, all ? gt__tile_sum_all : gt__tile_sum_columns, GT_LEVEL_FULL, home, 1, &in);
    sum_set(l, op, step, compute);
}

static void lower_norm_sum(lowering *l, const gt_member *m, uint16_t home)
{
    const gt_plan_step *step = &l->plan->steps[m->step];
    gt_compute compute = gt__cpu_compute((gt_dtype)value_of(l, step->operand[1])->view.meta.dtype);
    uint16_t in[2];
    for (unsigned k = 0; k < 2; k++)
        in[k] = full_operand(l, step, m->kind, k, compute);
    sum_set(l, op_add(l, gt__tile_norm_sum, GT_LEVEL_FULL, home, 2, in), step, compute);
}

/* Where the result of a member goes. */
static uint16_t home_add(lowering *l, unsigned number)
{
    const gt_member *m = &l->group->member[number];
    uint32_t result = l->plan->steps[m->step].result;
    const gt_plan_value *v = value_of(l, result);
    bool none = l->plan->buffers[v->buffer].role == GT_PLAN_NONE;
    l->home[number] = none ? slot_add(l, GT_PLACE_SCRATCH, m->level, gt__dtype_size((gt_dtype)v->view.meta.dtype))
                           : slot_of_memory(l, result, m->level);
    return l->home[number];
}

static void lower_member(lowering *l, unsigned number)
{
    static void (*const lower[])(lowering *, const gt_member *, uint16_t) = {
        [GT_FUSIBLE_ELEMENTWISE] = lower_elementwise,
        [GT_FUSIBLE_MOVE] = lower_move,
        [GT_FUSIBLE_REDUCE] = lower_reduce,
        [GT_FUSIBLE_SOFTMAX] = lower_softmax,
        [GT_FUSIBLE_NORM] = lower_norm,
        [GT_FUSIBLE_SUM] = lower_sum,
        [GT_FUSIBLE_NORM_SUM] = lower_norm_sum,
    };
    const gt_member *m = &l->group->member[number];
    lower[m->kind](l, m, home_add(l, number));
}

/* In their order. Members that one loop computes together come at the place of the last of them. */
static gt_err lower_members(lowering *l)
{
    unsigned members = l->group->members, found = 0;
    gt_compound_match *match = malloc((members / 2 + 1) * sizeof *match);
    uint8_t last[GT_FUSED_MEMBERS] = {0}; /* 1 + the match that ends there */
    uint64_t taken = 0;
    if (!match)
        return gt__fail(GT_ERR_MEMORY, "no memory for a program");
    for (unsigned k = 0; k < members; k++)
        if (!(taken >> k & 1) && gt__compound_find(l->cpu->kernels->compounds, l->plan, l->forming, l->group,
                                                   taken, k, &match[found])) {
            const gt_compound_match *m = &match[found++];
            taken |= m->members;
            last[m->member[m->compound->steps - 1]] = (uint8_t)found;
        }
    for (unsigned k = 0; k < members; k++)
        if (last[k])
            add_compound(l, &match[last[k] - 1]);
        else if (!(taken >> k & 1))
            lower_member(l, k);
    free(match);
    return GT_OK;
}

/* ---- a group ------------------------------------------------------------------------------------------------- */

/* Buffers whose last use is in the group need no memory. */
static void drop_buffers(gt_plan *plan, const gt_group *group)
{
    uint32_t last = group->member[group->members - 1].step;
    for (unsigned k = 0; k < group->members; k++) {
        gt_plan_buffer *buffer = &plan->buffers[plan->values[plan->steps[group->member[k].step].result].buffer];
        bool sums = gt__fusible_sums(group->member[k].kind); /* they need memory, if only to be ignored */
        if (buffer->role == GT_PLAN_INNER && buffer->last_use <= last && !sums)
            buffer->role = GT_PLAN_NONE;
    }
}

/* Arrays have their final places: numbers of gathers become addresses. */
static void fix_gathers(gt_fused *f)
{
    for (unsigned k = 0; k < f->op_count; k++)
        if (f->ops[k].run == gt__tile_gather_run)
            f->ops[k].gather = &f->gathers[(uintptr_t)f->ops[k].gather];
    for (unsigned k = 0; k < f->choice_count; k++)
        f->choices[k].op += f->before;
}

gt_err gt__group_lower(const gt_cpu *cpu, gt_plan *plan, const gt_forming *forming, const gt_group *group,
                       gt_fused **out)
{
    uint16_t home[GT_FUSED_MEMBERS];
    gt_fused *f = *out = calloc(1, sizeof *f);
    if (!f)
        return gt__fail(GT_ERR_MEMORY, "no memory for a program");
    lowering l = {.cpu = cpu, .plan = plan, .forming = forming, .group = group, .fused = f, .home = home};
    l.row = group->row;
    f->count = group->count;
    f->row = l.row;
    drop_buffers(plan, group);
    gt_err err = lower_members(&l);
    if (err == GT_OK && l.no_memory)
        err = gt__fail(GT_ERR_MEMORY, "no memory for a program");
    if (err == GT_OK) {
        fix_gathers(f);
        err = gt__fused_place(f, plan, group);
    }
    free(l.copy);
    if (err != GT_OK) {
        gt__fused_free(f);
        *out = NULL;
    }
    return err;
}

void gt__fused_free(gt_fused *fused)
{
    if (!fused)
        return;
    free(fused->slots);
    free(fused->ops);
    free(fused->gathers);
    free(fused->numbers);
    free(fused->choices);
    free(fused);
}

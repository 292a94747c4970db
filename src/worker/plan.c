/* plan.c: plans one record, or a sequence of them. See plan.h; read run.c next. */
#include "worker/plan.h"

#include <stdlib.h>
#include <string.h>

#include "core/record.h"
#include "worker/store.h"
#include "worker/views.h"

/* ---- one record --------------------------------------------------------------------------------------------- */

/* Operand 0 can be overwritten with the result: an assignment or scatter to a contiguous tensor that the other operands
 * do not read. */
static bool fits_in_place(const gt_instruction *ins, const gt_view *const *in)
{
    gt_form form = (gt_form)gt__op_table[ins->op].form;
    if (form != GT_FORM_ASSIGN && form != GT_FORM_SCATTER)
        return false;
    for (unsigned k = 1; k < gt__op_operands((gt_opcode)ins->op); k++)
        if (in[k] == in[0])
            return false;
    return in[0]->contiguous;
}

gt_err gt__step_plan(const gt_instruction *ins, const gt_slot *tail, const gt_view *const *in,
                     const gt_meta *const *meta, bool alone, gt_view *out, gt_step *step)
{
    step->out = out;
    GT_TRY(gt__op_infer(ins, tail, meta, &out->meta, &step->compute));
    gt_form form = (gt_form)gt__op_table[ins->op].form;
    bool moves_nothing = (form >= GT_FORM_RESHAPE && form <= GT_FORM_UNFOLD) && gt__view_of(in[0], ins, tail, out);
    if (moves_nothing)
        step->kind = GT_STEP_VIEW;
    else if (form == GT_FORM_UPLOAD)
        step->kind = GT_STEP_UPLOAD;
    else if (alone && fits_in_place(ins, in)) {
        step->kind = GT_STEP_IN_PLACE;
        *out = *in[0];
    } else {
        step->kind = GT_STEP_RUN;
        gt__view_set_contiguous(out);
    }
    return GT_OK;
}

/* ---- sequences: names ---------------------------------------------------------------------------------------- */

#define NO_VALUE UINT32_MAX

/* A plan being made: what is known of ids, values and buffers beyond what the plan keeps. */
typedef struct planning {
    gt_plan *plan;
    const gt_plan_source *source;
    uint32_t parameter; /* of the source: the first one of the record at hand */
    uint32_t *index;    /* id to value: open addressing, NO_VALUE is empty */
    uint32_t mask;
    const gt_plan_input **given; /* by value: the input that it is, or NULL */
    bool *freed;                 /* by value: the sequence ended it */
    uint32_t *live;              /* by buffer: values in it that are not freed */
    uint32_t operand_next;
} planning;

/* The place in the index for an id, whether it is there or not. */
static uint32_t *place_of(const planning *p, uint64_t id)
{
    uint32_t at = (uint32_t)(id * 0x9E3779B97F4A7C15u >> 32) & p->mask;
    while (p->index[at] != NO_VALUE && p->plan->values[p->index[at]].id != id)
        at = (at + 1) & p->mask;
    return &p->index[at];
}

static uint32_t value_add(planning *p, uint64_t id, uint32_t buffer)
{
    gt_plan *plan = p->plan;
    uint32_t value = plan->value_count++;
    plan->values[value] = (gt_plan_value){.id = id, .buffer = buffer};
    *place_of(p, id) = value;
    p->live[buffer]++;
    return value;
}

static uint32_t buffer_add(planning *p, gt_plan_role role, size_t bytes)
{
    gt_plan *plan = p->plan;
    plan->buffers[plan->buffer_count] =
        (gt_plan_buffer){.role = role, .bytes = bytes, .memory = GT_PLAN_NO_MEMORY};
    return plan->buffer_count++;
}

/* The buffer of an input, and where the input lies in it: that of another input that shares its memory, or a new one. */
static uint32_t input_buffer(planning *p, const gt_plan_input *input, int64_t *offset)
{
    gt_plan *plan = p->plan;
    *offset = 0;
    for (uint32_t k = 0; k < plan->input_count && input->memory; k++) {
        const gt_plan_input *other = p->given[plan->inputs[k]];
        if (other->memory != input->memory)
            continue;
        const gt_plan_value *value = &plan->values[plan->inputs[k]];
        *offset = value->offset + ((const char *)input->view->data - (const char *)other->view->data);
        return value->buffer;
    }
    uint32_t buffer = buffer_add(p, GT_PLAN_INPUT, 0);
    plan->buffers[buffer].number = plan->input_count;
    return buffer;
}

static uint32_t input_add(planning *p, const gt_plan_input *input)
{
    gt_plan *plan = p->plan;
    int64_t offset;
    uint32_t buffer = input_buffer(p, input, &offset), value = value_add(p, input->id, buffer);
    plan->values[value].view = *input->view;
    plan->values[value].view.data = NULL;
    plan->values[value].offset = offset;
    p->given[value] = input;
    plan->buffers[buffer].sharers++;
    plan->inputs[plan->input_count++] = value;
    return value;
}

/* The value of an id that a record reads: made before, or an input. */
static gt_err value_read(planning *p, const gt_instruction *ins, uint64_t id, uint32_t *value)
{
    *value = *place_of(p, id);
    if (*value != NO_VALUE && !p->freed[*value])
        return GT_OK;
    for (unsigned k = 0; k < p->source->input_count && *value == NO_VALUE; k++)
        if (p->source->inputs[k].id == id) {
            *value = input_add(p, &p->source->inputs[k]);
            return GT_OK;
        }
    return gt__fail(GT_ERR_PROTOCOL, "%s names tensor %llu, which the sequence does not have",
                    gt__op_table[ins->op].name, (unsigned long long)id);
}

static void value_free(planning *p, uint64_t id)
{
    uint32_t value = *place_of(p, id);
    if (value == NO_VALUE || p->freed[value])
        return;
    p->freed[value] = true;
    p->plan->values[value].dies = p->given[value] != NULL;
    p->live[p->plan->values[value].buffer]--;
}

/* ---- sequences: steps ---------------------------------------------------------------------------------------- */

/* Views are planned at a dummy address; the difference to it is the view's offset. */
#define ORIGIN ((uintptr_t)1 << 46)

/* Whether the record, the next one, begins elsewhere in each run. */
static bool find_moves(planning *p, const gt_slot *record)
{
    uint32_t slot = (uint32_t)(record - p->plan->records);
    bool moves = false;
    for (; p->parameter < p->source->parameters && p->source->parameter[p->parameter].slot <= slot; p->parameter++)
        moves |= p->source->parameter[p->parameter].slot == slot &&
                 gt__path_word_moves(&p->source->parameter[p->parameter]);
    if (moves)
        p->plan->moving[p->plan->moving_count++] = p->plan->step_count;
    return moves;
}

/* Can a step be a view in each run? A slice that moves only in a buffer of its own. An input may lie where numbers can, but not pairs
 * of them. Else it is a copy. */
static void plan_view(const planning *p, const gt_slot *record, gt_plan_role role, bool moves, gt_step *step)
{
    bool input = role == GT_PLAN_INPUT, pairs = gt__op_table[record->ins.op].form == GT_FORM_AS_COMPLEX;
    if ((!moves || (input && !p->source->fixed_addresses)) && !(pairs && input))
        return;
    step->kind = GT_STEP_RUN;
    gt__view_set_contiguous(step->out);
}

/* The buffer of a step's result, and where the result lies in it. */
static uint32_t result_buffer(planning *p, const gt_step *step, const uint32_t *operand, bool moves,
                              int64_t *offset)
{
    const gt_plan *plan = p->plan;
    *offset = 0;
    if (step->kind == GT_STEP_RUN)
        return buffer_add(p, GT_PLAN_INNER, gt__meta_bytes(&step->out->meta));
    uint32_t first = plan->values[operand[0]].buffer;
    if (step->kind == GT_STEP_VIEW && moves) {
        uint32_t buffer = buffer_add(p, GT_PLAN_INPUT, 0);
        plan->buffers[buffer].number = plan->buffers[first].number;
        return buffer;
    }
    *offset = (int64_t)((uintptr_t)step->out->data - ORIGIN);
    return first;
}

static gt_err step_add(planning *p, const gt_slot *record)
{
    gt_plan *plan = p->plan;
    const gt_instruction *ins = &record->ins;
    const gt_view *in[GT_MAX_CAT];
    const gt_meta *meta[GT_MAX_CAT];
    gt_view view[GT_MAX_CAT], literal = {0}, out = {0};
    gt_operands operands = gt__record_operands(ins, record + 1);
    uint32_t number = plan->step_count, *operand = plan->operand_room + p->operand_next;
    for (unsigned k = 0; k < operands.count; k++) {
        operand[k] = GT_PLAN_LITERAL;
        in[k] = &literal;
        meta[k] = NULL;
        if (!gt__operand_is_tensor(&operands, k))
            continue;
        GT_TRY(value_read(p, ins, operands.id[k], &operand[k]));
        gt_plan_value *value = &plan->values[operand[k]];
        value->last_use = number;
        view[k] = value->view;
        view[k].data = (void *)(ORIGIN + (uintptr_t)value->offset);
        in[k] = &view[k];
        for (unsigned before = 0; before < k; before++)
            if (operand[before] == operand[k])
                in[k] = in[before];
        meta[k] = &in[k]->meta;
    }
    bool consumes = gt__record_consumed(ins) && operand[0] != GT_PLAN_LITERAL;
    const gt_plan_value *first = consumes ? &plan->values[operand[0]] : NULL;
    bool alone = first && plan->buffers[first->buffer].role == GT_PLAN_INNER && p->live[first->buffer] == 1;
    gt_step step;
    GT_TRY(gt__step_plan(ins, record + 1, in, meta, alone, &out, &step));
    if (step.kind == GT_STEP_UPLOAD)
        return gt__fail(GT_ERR_UNSUPPORTED, "an upload cannot be planned");
    if (*place_of(p, ins->result) != NO_VALUE)
        return gt__fail(GT_ERR_PROTOCOL, "tensor %llu is made twice", (unsigned long long)ins->result);
    bool moves = find_moves(p, record);
    int64_t offset;
    if (step.kind == GT_STEP_VIEW)
        plan_view(p, record, plan->buffers[plan->values[operand[0]].buffer].role, moves, &step);
    uint32_t buffer = result_buffer(p, &step, operand, moves, &offset), result = value_add(p, ins->result, buffer);
    gt_plan_value *value = &plan->values[result];
    value->view = out;
    value->view.data = NULL;
    value->offset = offset;
    value->last_use = number;
    if (consumes)
        value_free(p, ins->operand[0]);
    plan->steps[plan->step_count++] = (gt_plan_step){.kind = step.kind,
                                                     .op = (gt_opcode)ins->op,
                                                     .compute = step.compute,
                                                     .record = record,
                                                     .operands = operands.count,
                                                     .operand = operand,
                                                     .result = result,
                                                     .group = number,
                                                     .moves = moves};
    p->operand_next += operands.count;
    return GT_OK;
}

static gt_err record_add(planning *p, const gt_slot *record)
{
    const gt_instruction *ins = &record->ins;
    if (ins->op < GT_OP_FIRST_CONTROL)
        return step_add(p, record);
    if (ins->op != GT_OP_free)
        return gt__fail(GT_ERR_UNSUPPORTED, "%s cannot be planned", gt__op_table[ins->op].name);
    for (unsigned k = 0; k < GT_FREE_IDS; k++)
        if (gt__free_ids(ins)[k])
            value_free(p, gt__free_ids(ins)[k]);
    return GT_OK;
}

/* ---- sequences: memory --------------------------------------------------------------------------------------- */

/* Values that are made and not freed are outputs, and so are their buffers. */
static void find_outputs(planning *p)
{
    gt_plan *plan = p->plan;
    uint32_t numbers = 0;
    for (uint32_t k = 0; k < plan->step_count; k++) {
        uint32_t result = plan->steps[k].result;
        gt_plan_value *value = &plan->values[result];
        gt_plan_buffer *buffer = &plan->buffers[value->buffer];
        if (p->freed[result])
            continue;
        value->last_use = GT_PLAN_LIVES;
        plan->outputs[plan->output_count++] = result;
        if (buffer->role == GT_PLAN_INNER) {
            buffer->role = GT_PLAN_OUTPUT;
            buffer->number = numbers++;
        }
    }
    for (uint32_t k = 0; k < plan->value_count; k++) {
        gt_plan_buffer *buffer = &plan->buffers[plan->values[k].buffer];
        bool lives = buffer->role == GT_PLAN_OUTPUT || (p->given[k] && !plan->values[k].dies);
        uint32_t last = lives ? GT_PLAN_LIVES : plan->values[k].last_use;
        buffer->last_use = last > buffer->last_use ? last : buffer->last_use;
    }
    for (uint32_t k = 0; k < plan->moving_count; k++) /* it lies in the memory of another buffer */
        if (plan->steps[plan->moving[k]].kind == GT_STEP_VIEW)
            plan->buffers[plan->values[plan->steps[plan->moving[k]].operand[0]].buffer].last_use = GT_PLAN_LIVES;
}

/* ---- sequences: life ------------------------------------------------------------------------------------------ */

void gt__plan_free(gt_plan **where)
{
    gt_plan *plan = *where;
    if (!plan)
        return;
    free(plan->records);
    free(plan->steps);
    free(plan->values);
    free(plan->buffers);
    free(plan->inputs);
    free(plan->outputs);
    free(plan->memories);
    free(plan->operand_room);
    free(plan->moving);
    free(plan);
    *where = NULL;
}

/* Upper bounds for the number of steps and of the ids that they name. */
static gt_err count_records(const gt_slot *records, size_t slots, size_t *steps, size_t *operands)
{
    *steps = *operands = 0;
    for (size_t at = 0; at < slots;) {
        unsigned length;
        GT_TRY(gt__instruction_check(records + at, slots - at, &length));
        ++*steps;
        *operands += gt__record_operands(&records[at].ins, records + at + 1).count;
        at += length;
    }
    return GT_OK;
}

static gt_err planning_run(planning *p)
{
    gt_plan *plan = p->plan;
    const gt_plan_source *source = p->source;
    if (source->slots)
        memcpy(plan->records, source->records, source->slots * sizeof *source->records);
    for (uint32_t k = 0; k < source->parameters; k++)
        *gt__record_word(plan->records + source->parameter[k].slot, source->parameter[k].word) = source->value[k];
    for (size_t at = 0; at < source->slots; at += 1u + plan->records[at].ins.tail)
        GT_TRY(record_add(p, plan->records + at));
    find_outputs(p);
    return GT_OK;
}

gt_err gt__plan_make(const gt_plan_source *source, gt_plan **out)
{
    size_t steps, operands, slots = source->slots;
    *out = NULL;
    GT_TRY(count_records(source->records, slots, &steps, &operands));
    size_t values = steps + source->input_count + 1, places = 16;
    while (places < 2 * values)
        places *= 2;
    gt_plan *plan = calloc(1, sizeof *plan);
    planning p = {.plan = plan, .source = source, .mask = (uint32_t)places - 1};
    p.index = malloc(places * sizeof *p.index);
    p.given = calloc(values, sizeof(*p.given));
    p.freed = calloc(values, sizeof *p.freed);
    p.live = calloc(values, sizeof *p.live);
    gt_err err = plan && p.index && p.given && p.freed && p.live ? GT_OK : GT_ERR_MEMORY;
    if (err == GT_OK) {
        memset(p.index, 0xff, places * sizeof *p.index);
        plan->records = malloc((slots + 1) * sizeof *plan->records);
        plan->steps = calloc(steps + 1, sizeof *plan->steps);
        plan->values = calloc(values, sizeof *plan->values);
        plan->buffers = calloc(values, sizeof *plan->buffers);
        plan->inputs = calloc(values, sizeof *plan->inputs);
        plan->outputs = calloc(values, sizeof *plan->outputs);
        plan->operand_room = calloc(operands + 1, sizeof *plan->operand_room);
        plan->moving = calloc(steps + 1, sizeof *plan->moving);
        bool all = plan->records && plan->steps && plan->values && plan->buffers && plan->inputs &&
                   plan->outputs && plan->operand_room && plan->moving;
        err = all ? GT_OK : GT_ERR_MEMORY;
    }
    if (err == GT_OK)
        err = planning_run(&p);
    else
        gt__error_set("out of memory");
    free(p.index);
    free(p.given);
    free(p.freed);
    free(p.live);
    if (err != GT_OK)
        gt__plan_free(&plan);
    *out = plan;
    return err;
}

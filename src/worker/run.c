/* run.c: see run.h. */
#include "worker/run.h"

#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "worker/worker.h"

/* ---- one record --------------------------------------------------------------------------------------------- */

/* If the engine has queued the work, or an operand is late, `entry` becomes late. An error: without memory for a
 * flight this waited for the work, and the work failed. */
static gt_err keep_late(gt_worker *worker, gt_token token, const gt_decoded *d, gt_entry *entry)
{
    gt_origin origin = gt__worker_origin(worker, d->ins);
    gt_token latest = token ? token : gt__late_latest(d->flight, d->flights);
    gt_err err;
    gt_flight *flight = gt__late_fly(worker, latest, &origin, d->flight, d->flights, &err);
    GT_TRY(err);
    entry->flight = flight;
    entry->state = flight ? GT_ENTRY_LATE : GT_ENTRY_TENSOR;
    if (token)
        gt__timing_fly(worker, flight, d->ins->op, false);
    return GT_OK;
}

gt_err gt__step_run(gt_worker *worker, const gt_decoded *d, const gt_step *step, gt_entry *entry)
{
    gt_engine *engine = worker->engine;
    if (step->kind == GT_STEP_IN_PLACE) {
        entry->buffer = d->first->buffer;
        entry->buffer->references++;
    } else
        GT_TRY(gt__store_allocate(worker->store, &entry->view, &entry->buffer));
    gt_call call = {.op = (gt_opcode)d->ins->op,
                    .compute = step->compute,
                    .ins = d->ins,
                    .tail = d->tail,
                    .operands = d->count,
                    .in = d->view,
                    .out = step->out,
                    .literals = d->literals,
                    .timed = gt__timing_on(&worker->timing)};
    if (d->literals)
        memcpy(call.value, d->value, sizeof call.value);
    gt_token token = 0;
    if (call.timed)
        gt__timing_memory(worker);
    gt_err err = engine->ops->run(engine, &call, &token);
    gt__late_given(&worker->late, token);
    entry->state = GT_ENTRY_TENSOR;
    if (err == GT_OK && __builtin_expect(token || d->flights, 0))
        err = keep_late(worker, token, d, entry);
    if (err != GT_OK)
        gt__buffer_release(worker->store, entry->buffer);
    return err;
}

void gt__step_view(gt_worker *worker, const gt_decoded *d, gt_entry *entry)
{
    (void)worker;
    entry->buffer = d->first->buffer;
    entry->buffer->references++;
    entry->state = d->first->state;
    if (entry->state == GT_ENTRY_LATE) {
        entry->flight = d->first->flight;
        entry->flight->references++;
    }
}

/* ---- sequences ---------------------------------------------------------------------------------------------- */

/* What a run knows of a value. A complete value has neither. */
typedef struct fate {
    gt_poison *poison; /* a reference */
    gt_flight *flight; /* a reference; was not settled when checked */
} fate;

struct gt_sequence {
    gt_plan *plan;
    gt_program *program; /* NULL if the engine did not compile the plan */
    uint64_t compile_ns; /* that took so long */
    gt_op_bytes *bytes;  /* of all results, by op */
    unsigned byte_count;
    gt_buffer **memories; /* the plan's, during a run */
    gt_buffer **
        buffers; /* of the plan's inputs and outputs, during a run; without a program, of values that it does without */
    void **address;      /* the same */
    fate *fates;         /* by value */
    gt_flight **flights; /* room for those of the inputs */
    gt_token last;       /* of the program's last run */
    bool has_run;
    bool paused;     /* a run has not ended: the bindings are in use */
    bool one_by_one; /* that run is without the program */
    unsigned at;     /* the step that it goes on with */
    uint64_t *slots; /* of its inputs, then of its outputs */
};

bool gt__sequence_compiled(const gt_sequence *sequence)
{
    return sequence->program != NULL;
}

const gt_plan *gt__sequence_plan(const gt_sequence *sequence, uint64_t *compile_ns)
{
    *compile_ns = sequence->compile_ns;
    return sequence->plan;
}

const gt_op_bytes *gt__sequence_bytes(const gt_sequence *sequence, unsigned *count)
{
    *count = sequence->byte_count;
    return sequence->bytes;
}

static bool count_bytes(gt_sequence *s)
{
    uint64_t bytes[GT_OP_COUNT] = {0};
    for (unsigned k = 0; k < s->plan->step_count; k++)
        bytes[s->plan->steps[k].op] += gt__meta_bytes(&s->plan->values[s->plan->steps[k].result].view.meta);
    for (unsigned op = 0; op < GT_OP_COUNT; op++)
        s->byte_count += bytes[op] != 0;
    s->bytes = malloc((s->byte_count + 1) * sizeof *s->bytes);
    s->byte_count = 0;
    for (unsigned op = 0; s->bytes && op < GT_OP_COUNT; op++)
        if (bytes[op])
            s->bytes[s->byte_count++] = (gt_op_bytes){.op = (gt_opcode)op, .bytes = bytes[op]};
    return s->bytes != NULL;
}

void gt__sequence_set_word(gt_sequence *sequence, uint32_t slot, uint32_t word, uint64_t value)
{
    *gt__record_word(sequence->plan->records + slot, word) = value;
}

static void unbind(gt_worker *worker, gt_sequence *s);

void gt__sequence_rest(gt_worker *worker, gt_sequence *s)
{
    if (s->paused)
        unbind(worker, s);
    s->paused = false;
    gt__late_wait(worker, s->last);
}

void gt__sequence_free(gt_worker *worker, gt_sequence **where)
{
    gt_sequence *s = *where;
    if (!s)
        return;
    if (worker->path_counts.newest == s)
        worker->path_counts.newest = NULL;
    gt__sequence_rest(worker, s); /* its flights point to the plan */
    if (s->program)
        worker->engine->ops->free_program(worker->engine, s->program);
    gt__plan_free(&s->plan);
    free(s->bytes);
    free(s->slots);
    free(s->memories);
    free(s->buffers);
    free(s->address);
    free(s->flights);
    free(s->fates);
    free(s);
    *where = NULL;
}

static gt_err allocate_bytes(gt_store *store, size_t bytes, gt_buffer **buffer)
{
    gt_view view;
    GT_TRY(gt__meta_set(&view.meta, GT_UINT8, 1, (int64_t[]){(int64_t)bytes}));
    return gt__store_allocate(store, &view, buffer);
}

/* A plan that the engine declines runs step by step, and so does one that it fails to compile: that is reported, and not tried again
 * in each run. */
static void sequence_compile(gt_worker *worker, gt_sequence *s)
{
    gt_engine *engine = worker->engine;
    if (!engine->ops->compile)
        return;
    uint64_t began_ns = gt__now_ns();
    gt_err err = engine->ops->compile(engine, s->plan, &s->program);
    if (err != GT_OK && err != GT_ERR_UNSUPPORTED)
        gt__log_error("worker %s: a hot path of %u instructions is not compiled, they run one by one: %s",
                      worker->name, s->plan->step_count, gt_error_text());
    s->compile_ns = s->program ? gt__now_ns() - began_ns : 0;
    worker->path_counts.programs += s->program != NULL;
    worker->path_counts.compile_ns += s->compile_ns;
}

gt_err gt__sequence_new(gt_worker *worker, gt_plan *plan, gt_sequence **out)
{
    gt_sequence *s = calloc(1, sizeof *s);
    gt_err err = GT_ERR_MEMORY;
    if (s) {
        s->plan = plan;
        s->buffers = calloc(plan->buffer_count + 1, sizeof(*s->buffers));
        s->address = calloc(plan->buffer_count + 1, sizeof(*s->address));
        s->fates = calloc(plan->value_count + 1, sizeof *s->fates);
        s->flights = calloc(plan->input_count + 1, sizeof(*s->flights));
        if (s->buffers && s->address && s->fates && s->flights && count_bytes(s))
            err = GT_OK;
    } else
        gt__plan_free(&plan);
    if (err != GT_OK)
        gt__error_set("out of memory");
    if (err == GT_OK) {
        sequence_compile(worker, s);
        err = gt__plan_place(plan);
    }
    if (err == GT_OK) {
        s->memories = calloc(plan->memory_count + 1, sizeof(*s->memories));
        err = s->memories ? GT_OK : gt__fail(GT_ERR_MEMORY, "out of memory");
    }
    if (err != GT_OK)
        gt__sequence_free(worker, &s);
    worker->path_counts.plans += s != NULL;
    worker->path_counts.newest = s;
    *out = s;
    return err;
}

/* ---- sequences: binding -------------------------------------------------------------------------------------- */

static bool looks_as_planned(const gt_view *view, const gt_view *planned)
{
    unsigned rank = planned->meta.rank;
    return view->meta.dtype == planned->meta.dtype && gt__meta_same_shape(&view->meta, &planned->meta) &&
           memcmp(view->stride, planned->stride, rank * sizeof view->stride[0]) == 0;
}

/* Inputs that are planned to share memory must lie in it as they did. */
static gt_err bind_input(gt_sequence *s, const gt_plan_value *value, const gt_entry *entry, uint64_t slot)
{
    char *address = (char *)entry->view.data - value->offset;
    gt_buffer *shared = s->buffers[value->buffer];
    if (!looks_as_planned(&entry->view, &value->view) ||
        (shared && (shared != entry->buffer || s->address[value->buffer] != address)))
        return gt__fail(GT_ERR_VALUE, "a sequence's input does not look as planned: slot %llu",
                        (unsigned long long)slot);
    if (!shared)
        entry->buffer->references++;
    s->buffers[value->buffer] = entry->buffer;
    s->address[value->buffer] = address;
    return GT_OK;
}

static gt_err bind_inputs(gt_worker *worker, gt_sequence *s, const uint64_t *inputs)
{
    const gt_plan *plan = s->plan;
    for (uint32_t k = 0; k < plan->input_count; k++) {
        const gt_plan_value *value = &plan->values[plan->inputs[k]];
        gt_entry *entry = gt__store_find(worker->store, inputs[k]);
        if (entry)
            gt__store_settle(worker->store, entry);
        if (!entry || entry->state == GT_ENTRY_EMPTY || entry->state == GT_ENTRY_FILLING)
            return gt__fail(GT_ERR_INTERNAL, "a sequence's input is not there: slot %llu",
                            (unsigned long long)inputs[k]);
        fate *f = &s->fates[plan->inputs[k]];
        if (entry->state == GT_ENTRY_POISON) {
            f->poison = entry->poison;
            f->poison->references++;
            continue;
        }
        GT_TRY(bind_input(s, value, entry, inputs[k]));
        if (entry->state == GT_ENTRY_LATE) {
            f->flight = entry->flight;
            f->flight->references++;
        }
    }
    return GT_OK;
}

/* Where a slice that moves lies in this run, as a view of its operand's memory. */
static void bind_slice(gt_sequence *s, const gt_plan_step *step)
{
    const gt_plan *plan = s->plan;
    const gt_plan_value *result = &plan->values[step->result];
    gt_buffer *memory = s->buffers[plan->values[step->operand[0]].buffer];
    if (!memory)
        return; /* the operand failed */
    gt_view view = gt__plan_view(plan, step->operand[0], s->address);
    gt__plan_cut(step->record + 1, &result->view.meta, &view);
    memory->references++;
    s->buffers[result->buffer] = memory;
    s->address[result->buffer] = view.data;
}

/* Slices and assignments that begin elsewhere in each run. Those that leave their tensor fail. */
static void bind_moving(gt_worker *worker, gt_sequence *s)
{
    const gt_plan *plan = s->plan;
    for (uint32_t k = 0; k < plan->moving_count; k++) {
        const gt_plan_step *step = &plan->steps[plan->moving[k]];
        const gt_instruction *ins = &step->record->ins;
        const gt_meta *meta[GT_MAX_OPERANDS];
        gt_meta inferred;
        gt_dtype compute;
        for (unsigned operand = 0; operand < step->operands; operand++)
            meta[operand] =
                step->operand[operand] == GT_PLAN_LITERAL ? NULL : &plan->values[step->operand[operand]].view.meta;
        gt_err err = gt__op_infer(ins, step->record + 1, meta, &inferred, &compute);
        if (err != GT_OK) {
            gt_origin origin = gt__worker_origin(worker, ins);
            s->fates[step->result].poison = gt__worker_failure(worker, &origin, err, gt_error_text());
        } else if (step->kind == GT_STEP_VIEW)
            bind_slice(s, step);
    }
}

/* That of inputs which die and whose memory no other tensor has, or a new one. Such a buffer has the references of their entries
 * and of this run, and the inputs lie at its beginning: they may be a part of what it held. */
static gt_err bind_memory(gt_worker *worker, gt_sequence *s, const gt_plan_memory *memory, gt_buffer **out)
{
    gt_buffer *donor = memory->donor == GT_PLAN_NO_DONOR ? NULL : s->buffers[memory->donor];
    if (!donor || donor->references != s->plan->buffers[memory->donor].sharers + 1 || donor->segment ||
        s->address[memory->donor] != donor->memory)
        return allocate_bytes(worker->store, memory->bytes, out);
    donor->references++;
    *out = donor;
    return GT_OK;
}

static gt_err bind_memories(gt_worker *worker, gt_sequence *s)
{
    const gt_plan *plan = s->plan;
    for (uint32_t k = 0; k < plan->memory_count; k++)
        GT_TRY(bind_memory(worker, s, &plan->memories[k], &s->memories[k]));
    for (uint32_t k = 0; k < plan->buffer_count; k++) {
        const gt_plan_buffer *buffer = &plan->buffers[k];
        if (buffer->role != GT_PLAN_INNER && buffer->role != GT_PLAN_OUTPUT)
            continue;
        gt_buffer *memory = s->memories[buffer->memory];
        s->address[k] = (char *)memory->memory + buffer->offset;
        if (buffer->role == GT_PLAN_OUTPUT) {
            s->buffers[k] = memory;
            memory->references++;
        }
    }
    return GT_OK;
}

/* For running step by step: memory for the buffers that the engine's program does without. */
static gt_err bind_rest(gt_worker *worker, gt_sequence *s)
{
    for (uint32_t k = 0; k < s->plan->buffer_count; k++)
        if (s->plan->buffers[k].role == GT_PLAN_NONE) {
            GT_TRY(allocate_bytes(worker->store, s->plan->buffers[k].bytes, &s->buffers[k]));
            s->address[k] = s->buffers[k]->memory;
        }
    return GT_OK;
}

/* ---- sequences: running -------------------------------------------------------------------------------------- */

static void set_poison(fate *f, gt_poison *poison)
{
    f->poison = poison;
    poison->references++;
}

/* One step on the engine. */
static gt_err run_on_engine(gt_worker *worker, gt_sequence *s, const gt_plan_step *step, gt_token *token)
{
    gt_view view[GT_MAX_CAT], out;
    const gt_view *in[GT_MAX_CAT];
    gt_call call = gt__plan_call(s->plan, step, s->address, view, in, &out);
    gt__cancel_step(&worker->cancel.engine, step->op);
    gt_err err = worker->engine->ops->run(worker->engine, &call, token);
    gt__late_given(&worker->late, *token);
    return err;
}

static void run_step(gt_worker *worker, gt_sequence *s, const gt_plan_step *step)
{
    fate *result = &s->fates[step->result];
    gt_flight *flights[GT_MAX_CAT];
    unsigned count = 0;
    if (result->poison) /* bind_moving */
        return;
    for (unsigned k = 0; k < step->operands; k++) {
        const fate *f = step->operand[k] == GT_PLAN_LITERAL ? NULL : &s->fates[step->operand[k]];
        if (f && f->poison) {
            set_poison(result, f->poison);
            return;
        }
        if (f && f->flight)
            flights[count++] = f->flight;
    }
    if (step->kind == GT_STEP_VIEW) {
        result->flight = count ? flights[0] : NULL;
        if (result->flight)
            result->flight->references++;
        return;
    }
    gt_token token = 0;
    gt_origin origin = gt__worker_origin(worker, &step->record->ins);
    gt_err err = run_on_engine(worker, s, step, &token);
    if (err == GT_OK && (token || count))
        result->flight =
            gt__late_fly(worker, token ? token : gt__late_latest(flights, count), &origin, flights, count, &err);
    if (err != GT_OK)
        result->poison = gt__worker_failure(worker, &origin, err, gt_error_text());
}

static bool inputs_are_there(const gt_sequence *s)
{
    const gt_plan *plan = s->plan;
    bool there = true;
    for (uint32_t k = 0; k < plan->input_count; k++)
        there &= !s->fates[plan->inputs[k]].poison;
    for (uint32_t k = 0; k < plan->moving_count; k++)
        there &= !s->fates[plan->steps[plan->moving[k]].result].poison;
    return there;
}

/* The first `steps` steps and their groups may have written over an input. */
static bool has_written_over(const gt_sequence *s, unsigned steps)
{
    const gt_plan *plan = s->plan;
    for (unsigned k = 0; k < plan->step_count && plan->steps[k].group <= steps; k++) {
        uint32_t memory = plan->buffers[plan->values[plan->steps[k].result].buffer].memory;
        uint32_t donor = memory == GT_PLAN_NO_MEMORY ? GT_PLAN_NO_DONOR : plan->memories[memory].donor;
        if (donor != GT_PLAN_NO_DONOR && s->buffers[donor] == s->memories[memory])
            return true;
    }
    return false;
}

/* The program's work is queued, or inputs are late: so are the outputs. */
static gt_err program_late(gt_worker *worker, gt_sequence *s, gt_token token)
{
    const gt_plan *plan = s->plan;
    unsigned count = 0;
    for (uint32_t k = 0; k < plan->input_count; k++)
        if (s->fates[plan->inputs[k]].flight)
            s->flights[count++] = s->fates[plan->inputs[k]].flight;
    gt_err err = GT_OK;
    if (token || count) {
        gt_origin origin = gt__worker_origin(worker, &plan->steps[plan->step_count - 1].record->ins);
        gt_token latest = token ? token : gt__late_latest(s->flights, count);
        gt_flight *flight = gt__late_fly(worker, latest, &origin, s->flights, count, &err);
        if (token)
            gt__timing_fly(worker, flight, origin.op, false);
        if (flight)
            flight->plan = plan;
        s->last = latest;
        for (uint32_t k = 0; k < plan->output_count && flight; k++) {
            s->fates[plan->outputs[k]].flight = flight;
            flight->references++;
        }
        gt__flight_release(&worker->late, flight);
    }
    return err;
}

static void poison_outputs(gt_worker *worker, gt_sequence *s, const gt_instruction *ins, gt_err err)
{
    gt_origin origin = gt__worker_origin(worker, ins);
    gt_poison *poison = gt__worker_failure(worker, &origin, err, gt_error_text());
    for (uint32_t k = 0; k < s->plan->output_count; k++)
        set_poison(&s->fates[s->plan->outputs[k]], poison);
    gt__poison_release(poison);
}

/* Run the engine's program. False: it did not run, or failed, and running the steps one by one finds the outputs that
 * fail. If it was cancelled, or failed after it had written over an input, all outputs fail, as they do after a later
 * failure. */
static bool run_program(gt_worker *worker, gt_sequence *s)
{
    unsigned failed = s->at;
    gt_token token = 0;
    if (!s->program || !s->plan->step_count || !inputs_are_there(s))
        return false;
    gt_err err = worker->engine->ops->run_program(worker->engine, s->program, s->address,
                                                  gt__timing_on(&worker->timing), &failed, &token);
    gt__late_given(&worker->late, token);
    if (err == GT_ERR_INTERRUPTED) {
        s->paused = true;
        s->at = failed;
        return true;
    }
    if (err == GT_OK)
        err = program_late(worker, s, token);
    else if (err != GT_ERR_CANCELLED && !has_written_over(s, failed))
        return false;
    if (err != GT_OK)
        poison_outputs(worker, s, &s->plan->steps[failed].record->ins, err);
    return true;
}

static void keep_output(gt_worker *worker, gt_sequence *s, uint32_t value, gt_entry *entry)
{
    fate *f = &s->fates[value];
    gt__store_clear(worker->store, entry);
    if (f->poison) {
        entry->poison = f->poison;
        f->poison = NULL;
        entry->state = GT_ENTRY_POISON;
        return;
    }
    entry->view = gt__plan_view(s->plan, value, s->address);
    entry->buffer = s->buffers[s->plan->values[value].buffer];
    entry->buffer->references++;
    entry->flight = f->flight;
    f->flight = NULL;
    entry->state = entry->flight ? GT_ENTRY_LATE : GT_ENTRY_TENSOR;
    gt__store_settle(worker->store, entry);
}

/* Release the buffers and fates of this run. */
static void unbind(gt_worker *worker, gt_sequence *s)
{
    for (uint32_t k = 0; k < s->plan->buffer_count; k++)
        if (s->buffers[k]) {
            gt__buffer_release(worker->store, s->buffers[k]);
            s->buffers[k] = NULL;
        }
    for (uint32_t k = 0; k < s->plan->memory_count; k++)
        if (s->memories[k]) {
            gt__buffer_release(worker->store, s->memories[k]);
            s->memories[k] = NULL;
        }
    for (uint32_t k = 0; k < s->plan->value_count; k++) {
        if (s->fates[k].poison)
            gt__poison_release(s->fates[k].poison);
        gt__flight_release(&worker->late, s->fates[k].flight);
        s->fates[k] = (fate){0};
    }
}

static void clear_dead(gt_worker *worker, const gt_plan *plan, const uint64_t *inputs)
{
    for (uint32_t k = 0; k < plan->input_count; k++)
        if (plan->values[plan->inputs[k]].dies)
            gt__store_clear(worker->store, gt__store_find(worker->store, inputs[k]));
}

/* Until now its steps ran one by one, and the pool has the memory that they needed, in other sizes. It goes back before the
 * sequence takes memory; what other records need of it is allocated again. A sequence that needs little of the memory is a
 * small part of the program: the pool is left to the rest of it. */
static void start_running(gt_worker *worker, gt_sequence *s)
{
    enum { LITTLE = 4 }; /* a quarter of what is pooled */
    const gt_store *store = worker->store;
    size_t bytes = 0;
    for (uint32_t k = 0; k < s->plan->memory_count; k++)
        bytes += s->plan->memories[k].bytes;
    if (store->bytes_held - store->bytes_used <= LITTLE * bytes)
        gt__store_trim(worker->store);
    s->has_run = true;
}

/* From step s->at on, each on its own. */
static gt_err run_steps(gt_worker *worker, gt_sequence *s)
{
    const unsigned first = s->at;
    if (!s->one_by_one)
        GT_TRY(bind_rest(worker, s));
    s->one_by_one = true;
    for (unsigned k = first; k < s->plan->step_count; k++) {
        if (k > first && gt__cancel_pauses(&worker->cancel.engine)) {
            s->paused = true;
            s->at = k;
            return GT_OK;
        }
        run_step(worker, s, &s->plan->steps[k]);
    }
    return GT_OK;
}

/* Go on with a run, to its end or until it pauses. */
static gt_err go_on(gt_worker *worker, gt_sequence *s, const uint64_t *inputs, const uint64_t *outputs)
{
    const gt_plan *plan = s->plan;
    gt_err err = GT_OK;
    s->paused = false;
    if (s->one_by_one)
        err = run_steps(worker, s);
    else if (!run_program(worker, s)) {
        s->at = 0;
        err = run_steps(worker, s);
    }
    if (s->paused)
        return GT_OK;
    if (err == GT_OK)
        clear_dead(worker, plan, inputs);
    for (uint32_t k = 0; k < plan->output_count && err == GT_OK; k++) {
        gt_entry *entry = gt__store_entry(worker->store, outputs[k]); /* the table may have shrunk in a pause */
        if (entry)
            keep_output(worker, s, plan->outputs[k], entry);
        else
            err = gt__fail(GT_ERR_MEMORY, "out of memory");
    }
    unbind(worker, s);
    return err;
}

/* Room for the slots of a run that pauses. */
static bool make_slots(gt_sequence *s)
{
    if (!s->slots)
        s->slots = malloc((s->plan->input_count + s->plan->output_count + 1) * sizeof *s->slots);
    return s->slots != NULL;
}

gt_err gt__sequence_run(gt_worker *worker, gt_sequence *s, const uint64_t *inputs, const uint64_t *outputs)
{
    const gt_plan *plan = s->plan;
    gt_err err = GT_OK;
    if (s->paused) { /* the rest of that run was dropped */
        unbind(worker, s);
        s->paused = false;
    }
    if (worker->cancel.engine.pause_ns && !make_slots(s))
        worker->cancel.engine.pause_ns = 0;
    for (uint32_t k = 0; k < plan->output_count; k++) { /* first: entries may move */
        gt_entry *entry = gt__store_entry(worker->store, outputs[k]);
        if (!entry)
            return gt__fail(GT_ERR_INTERNAL, "slot %llu is out of range", (unsigned long long)outputs[k]);
    }
    err = bind_inputs(worker, s, inputs);
    if (err == GT_OK)
        bind_moving(worker, s);
    if (err == GT_OK && !s->has_run)
        start_running(worker, s);
    if (err == GT_OK)
        err = bind_memories(worker, s);
    if (err != GT_OK) {
        unbind(worker, s);
        return err;
    }
    s->at = 0;
    s->one_by_one = false;
    err = go_on(worker, s, inputs, outputs);
    if (s->paused) {
        memcpy(s->slots, inputs, plan->input_count * sizeof *inputs);
        memcpy(s->slots + plan->input_count, outputs, plan->output_count * sizeof *outputs);
    }
    return err;
}

gt_err gt__sequence_resume(gt_worker *worker, gt_sequence *s)
{
    return go_on(worker, s, s->slots, s->slots + s->plan->input_count);
}

bool gt__sequence_paused(const gt_sequence *sequence)
{
    return sequence->paused;
}

const uint64_t *gt__sequence_slots(const gt_sequence *sequence)
{
    return sequence->slots;
}

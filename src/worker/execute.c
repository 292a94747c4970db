/*
 * execute.c: one computing record, from slot numbers to a result in the store: decode, plan, run.
 *
 * A failure becomes poison in the result slot; poisoned operands pass their poison on. Most records, elementwise ops on
 * whole tensors of one shape and dtype, take a fast path through the same three steps.
 */
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "core/record.h"
#include "worker/run.h"
#include "worker/upload.h"
#include "worker/worker.h"

enum { MOST_TEXT = 1200 }; /* bytes of a failure's text */

/* ---- failures ----------------------------------------------------------------------------------------------- */

gt_poison *gt__worker_failure(gt_worker *worker, const gt_origin *origin, gt_err err, const char *why)
{
    const char *name = origin->op == GT_OP_wrap_index ? "indexing" : gt__op_table[origin->op].name;
    size_t length = strlen(name);
    char text[MOST_TEXT];
    if (strncmp(why, name, length) == 0 && why[length] == ':')
        why += length + 2;
    snprintf(text, sizeof text, "%s: %s (on %s)", name, why, worker->name);
    gt__log(GT_LOG_WORKER, "%s", text);
    gt_poison *poison = gt__poison_new(err, text);
    poison->origin = *origin;
    return poison;
}

/* The first failure: its text names the operation and the worker. */
static void keep_failure(gt_worker *worker, const gt_instruction *ins, gt_err err, gt_entry *entry)
{
    gt_origin origin = gt__worker_origin(worker, ins);
    entry->poison = gt__worker_failure(worker, &origin, err, gt_error_text());
    entry->state = GT_ENTRY_POISON;
}

static void keep_poison(gt_entry *entry, gt_poison *shared)
{
    entry->poison = shared;
    shared->references++;
    entry->state = GT_ENTRY_POISON;
}

/* ---- the three steps ---------------------------------------------------------------------------------------- */

/* Operand 0 dies with the record, and no other tensor, worker or client uses its memory. */
static bool owns_operand(const gt_decoded *d)
{
    return d->ins->flags & GT_FLAG_CONSUMES && d->first && d->first->buffer->references == 1 &&
           !d->first->buffer->segment;
}

static gt_err decoded_run(gt_worker *worker, const gt_decoded *d, gt_entry *result)
{
    gt_step step;
    GT_TRY(gt__step_plan(d->ins, d->tail, d->view, d->meta, owns_operand(d), &result->view, &step));
    switch (step.kind) {
    case GT_STEP_VIEW:
        gt__step_view(worker, d, result);
        return GT_OK;
    case GT_STEP_UPLOAD:
        return gt__upload_start(worker, d->ins, d->tail, result);
    default:
        return gt__step_run(worker, d, &step, result);
    }
}

/* An operand that dies with the record. */
static void consume(gt_worker *worker, const gt_instruction *ins)
{
    uint64_t dies = gt__record_consumed(ins);
    gt_entry *consumed = dies ? gt__store_find(worker->store, dies) : NULL;
    if (consumed)
        gt__store_clear(worker->store, consumed);
}

/* Not inlined: a gt_decoded has room for the longest operand list, and the fast path must not pay for that frame. */
static __attribute__((noinline)) void execute_fully(gt_worker *worker, const gt_instruction *ins,
                                                    const gt_slot *tail, gt_entry *result)
{
    gt_decoded decoded;
    gt_err err = gt__decode(worker->store, ins, tail, &decoded);
    if (err == GT_OK && decoded.poison)
        keep_poison(result, decoded.poison);
    else if (err == GT_OK)
        err = decoded_run(worker, &decoded, result);
    if (err != GT_OK)
        keep_failure(worker, ins, err, result);
    consume(worker, ins);
}

/*
 * The fast path: elementwise on whole tensors of one shape and dtype, or on one and a literal, into recycled memory.
 * False: it did nothing, and the caller takes the slow path, execute_fully.
 */
static bool execute_alike(gt_worker *worker, const gt_instruction *ins, gt_entry *result)
{
    const gt_op_row *row = &gt__op_table[ins->op];
    if (!row->keeps || ins->flags & ~GT_FLAG_UPDATES ||
        worker->store->worker) /* an asynchronous engine needs flights */
        return false;
    const gt_view *in[2] = {NULL, NULL};
    const gt_meta *meta[2] = {NULL, NULL};
    gt_view literal;
    gt_call call = {
        .op = (gt_opcode)ins->op, .ins = ins, .operands = row->operands, .in = in, .out = &result->view};
    for (unsigned k = 0; k < row->operands; k++) {
        if (gt__literal(ins, k) != GT_LITERAL_NONE) {
            call.value[k] = gt__literal_operand(ins, k, &literal);
            call.literals |= (uint8_t)(1 << k);
            in[k] = &literal;
            continue;
        }
        const gt_entry *entry = gt__store_find(worker->store, ins->operand[k]);
        if (!entry || entry->state != GT_ENTRY_TENSOR || !entry->view.contiguous)
            return false;
        in[k] = &entry->view;
        meta[k] = &entry->view.meta;
    }
    const gt_meta *like = gt__op_result_like((gt_opcode)ins->op, ins->literals, meta[0], meta[1]);
    gt_buffer *buffer = like ? gt__store_reuse(worker->store, gt__store_class(gt__meta_bytes(like))) : NULL;
    if (!buffer)
        return false;
    const int64_t *stride = in[like == meta[0] ? 0 : 1]->stride;
    gt__meta_copy(&result->view.meta, like);
    memcpy(result->view.stride, stride, (like->rank <= 2 ? 2 : GT_MAX_RANK) * sizeof *stride);
    result->view.contiguous = true;
    result->view.data = buffer->memory;
    result->buffer = buffer;
    call.compute = (gt_dtype)like->dtype;
    gt_err err = worker->engine->ops->run(worker->engine, &call, &(gt_token){0});
    result->state = GT_ENTRY_TENSOR;
    if (__builtin_expect(err != GT_OK, 0)) {
        gt__buffer_release(worker->store, buffer);
        keep_failure(worker, ins, err, result);
    }
    return true;
}

/* The empty entry of a record's result; NULL: out of range. Operands point into the table, so this is first: it may grow. */
static inline gt_entry *entry_for(gt_worker *worker, const gt_instruction *ins)
{
    gt_entry *result = gt__store_entry(worker->store, ins->result);
    if (__builtin_expect(!result, 0))
        gt__log_error("worker %s: slot %llu is out of range", worker->name, (unsigned long long)ins->result);
    else if (__builtin_expect(result->state != GT_ENTRY_EMPTY, 0))
        gt__store_clear(worker->store, result);
    return result;
}

void gt__worker_execute(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail)
{
    gt_entry *result = entry_for(worker, ins);
    if (__builtin_expect(result && !execute_alike(worker, ins, result), 0))
        execute_fully(worker, ins, tail, result);
}

void gt__worker_refuse(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail)
{
    gt_entry *result = gt__store_entry(worker->store, ins->result);
    gt_instruction refused = *ins;
    char text[MOST_TEXT];
    const bool again = ins->flags & GT_FLAG_POISON;
    refused.op = (uint16_t)ins->operand[0];
    if (!result || refused.op >= GT_OP_COUNT || (!again && (!refused.op || refused.op >= GT_OP_FIRST_CONTROL)))
        return;
    size_t bytes = ins->imm[1].u < sizeof text ? ins->imm[1].u : sizeof text - 1;
    memcpy(text, tail, bytes);
    text[bytes] = 0;
    gt__store_clear(worker->store, result);
    if (again) {
        result->poison = gt__poison_new((gt_err)ins->imm[0].i, text);
        result->poison->origin = (gt_origin){.op = refused.op, .scope = ins->scope, .site = ins->site};
        result->state = GT_ENTRY_POISON;
        return;
    }
    gt__error_set("%s", text);
    keep_failure(worker, &refused, (gt_err)ins->imm[0].i, result);
}

void gt__worker_fail(gt_worker *worker, const gt_instruction *ins, gt_err err)
{
    gt_entry *result = entry_for(worker, ins);
    if (result)
        keep_failure(worker, ins, err, result);
    consume(worker, ins);
}

/* ---- whole tensors ------------------------------------------------------------------------------------------ */

gt_err gt__worker_copy(gt_worker *worker, const gt_view *from, const gt_view *to, bool timed, gt_token *token)
{
    gt_instruction copy = {.op = GT_OP_copy, .dtype = from->meta.dtype};
    gt_call call = {.op = GT_OP_copy,
                    .compute = (gt_dtype)from->meta.dtype,
                    .ins = &copy,
                    .operands = 1,
                    .in = &from,
                    .out = to,
                    .timed = timed};
    *token = 0;
    gt_err err = worker->engine->ops->run(worker->engine, &call, token);
    gt__late_given(&worker->late, *token);
    return err;
}

static gt_err copy_whole(gt_worker *worker, const gt_entry *entry, gt_whole *whole)
{
    gt_instruction copy = {.op = GT_OP_copy, .dtype = entry->view.meta.dtype};
    gt_token token;
    whole->view.meta = entry->view.meta;
    GT_TRY(gt__store_allocate(worker->store, &whole->view, &whole->buffer));
    gt_err err = gt__worker_copy(worker, &entry->view, &whole->view, false, &token);
    if (err == GT_OK && token) {
        gt_origin origin = gt__worker_origin(worker, &copy);
        gt_flight *operand = entry->state == GT_ENTRY_LATE ? entry->flight : NULL;
        whole->flight = gt__late_fly(worker, token, &origin, &operand, 1, &err);
    }
    if (err != GT_OK) {
        gt__buffer_release(worker->store, whole->buffer);
        whole->buffer = NULL;
    }
    return err;
}

gt_err gt__worker_whole(gt_worker *worker, const gt_entry *entry, gt_whole *whole)
{
    *whole = (gt_whole){0};
    if (!entry->view.contiguous)
        return copy_whole(worker, entry, whole);
    whole->view = entry->view;
    whole->buffer = entry->buffer;
    whole->buffer->references++;
    if (entry->state == GT_ENTRY_LATE) {
        whole->flight = entry->flight;
        whole->flight->references++;
    }
    return GT_OK;
}

void gt__whole_release(gt_worker *worker, gt_whole *whole)
{
    if (whole->buffer)
        gt__buffer_release(worker->store, whole->buffer);
    gt__flight_release(&worker->late, whole->flight);
    *whole = (gt_whole){0};
}

gt_err gt__whole_wait(gt_worker *worker, const gt_whole *whole)
{
    if (!whole->flight)
        return GT_OK;
    gt__late_wait(worker, whole->flight->token);
    const gt_poison *poison = whole->flight->poison;
    return poison ? gt__fail(poison->err, "%s", poison->text) : GT_OK;
}

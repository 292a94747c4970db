/*
 * peers.c: the instructions that involve other workers: send, recv and the collectives.
 *
 * Place in the flow: worker.c -> here -> exchange (moves) or collective.h. Poison travels: who receives from a
 * failed tensor gets its failure.
 */
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "worker/worker.h"

/* Buffers that were lent to other workers and are ours alone again. */
void gt__peers_reclaim(gt_worker *worker)
{
    void *buffer;
    while (worker->exchange && (buffer = worker->exchange->ops->reclaim(worker->exchange)))
        gt__buffer_release(worker->store, buffer);
}

static void keep(const gt_worker *worker, gt_entry *entry, gt_err err)
{
    entry->poison = gt__poison_new(err, gt_error_text());
    entry->poison->origin = worker->exchange->failed;
    entry->state = GT_ENTRY_POISON;
}

/* The entry for a result, empty. NULL: the number is absurd. */
static gt_entry *result_entry(gt_worker *worker, const gt_instruction *ins)
{
    gt_entry *entry = gt__store_entry(worker->store, ins->result);
    if (entry && entry->state != GT_ENTRY_EMPTY)
        gt__store_clear(worker->store, entry);
    return entry;
}

/* ---- moves -------- */

static gt_err post_tensor(gt_worker *worker, int32_t to, uint64_t tag, const gt_entry *entry)
{
    gt_exchange *exchange = worker->exchange;
    gt_view view;
    gt_buffer *temporary;
    GT_TRY(gt__worker_contiguous(worker, entry, &view, &temporary));
    size_t bytes = gt__meta_bytes(&view.meta);
    bool lends = worker->engine->ops->host_memory;
    void *host = lends ? NULL : malloc(bytes + 1);
    gt_err err = GT_OK;
    if (err == GT_OK && !lends)
        err = host ? worker->engine->ops->read(worker->engine, view.data, host, bytes, &(gt_token){0})
                   : gt__fail(GT_ERR_MEMORY, "out of memory");
    if (err == GT_OK && lends) {
        gt_buffer *lent = temporary ? temporary : entry->buffer;
        lent->references++;
        err = gt__exchange_post(exchange, to, tag, 0, view.data, bytes, lent);
        lent->references -= err != GT_OK;
    } else if (err == GT_OK)
        err = gt__exchange_post(exchange, to, tag, 0, host, bytes, NULL);
    free(host);
    if (temporary)
        gt__buffer_release(worker->store, temporary);
    return err;
}

static void send_tensor(gt_worker *worker, const gt_instruction *ins)
{
    gt_exchange *exchange = worker->exchange;
    const gt_entry *entry = gt__store_find(worker->store, ins->operand[0]);
    int32_t to = (int32_t)ins->imm[0].i;
    uint64_t tag = ins->imm[1].u;
    gt_err err = GT_OK;
    const char *why = "the sender has no such tensor";
    if (!entry || (entry->state != GT_ENTRY_TENSOR && entry->state != GT_ENTRY_POISON))
        err = GT_ERR_INTERNAL;
    else if (entry->state == GT_ENTRY_POISON) {
        err = entry->poison->err;
        why = entry->poison->text;
        exchange->failed = entry->poison->origin;
    } else if ((err = post_tensor(worker, to, tag, entry)) != GT_OK)
        why = gt_error_text();
    if (err != GT_OK)
        gt__exchange_post_failure(exchange, to, tag, 0, err, why);
}

static gt_err receive_tensor(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail, gt_entry *entry)
{
    gt_exchange *exchange = worker->exchange;
    gt_message *message;
    gt_view *view = &entry->view;
    GT_TRY(gt__meta_set(&view->meta, (gt_dtype)ins->dtype, ins->rank, tail[0].i64));
    GT_TRY(gt__exchange_take(exchange, (int32_t)ins->imm[0].i, ins->imm[1].u, 0, &message));
    gt_err err = message->err != GT_OK ? gt__exchange_failure(exchange, message) : GT_OK;
    if (err == GT_OK && message->bytes != gt__meta_bytes(&view->meta))
        err = gt__fail(GT_ERR_PROTOCOL, "recv: %zu bytes came for a tensor of %zu", message->bytes,
                       gt__meta_bytes(&view->meta));
    if (err == GT_OK)
        err = gt__store_allocate(worker->store, view, &entry->buffer);
    if (err == GT_OK && message->bytes) {
        err = worker->engine->ops->write(worker->engine, view->data, message->data, message->bytes, &(gt_token){0});
        if (err != GT_OK)
            gt__buffer_release(worker->store, entry->buffer);
    }
    exchange->ops->done(exchange, message);
    return err;
}

/* ---- collectives -------- */

static gt_meta part_of(const gt_collective_call *call, bool after, unsigned axis)
{
    gt_meta part = *call->whole;
    int64_t start, count;
    gt__party_part(call, call->self, after, axis, &start, &count);
    part.numel = part.shape[axis] ? part.numel / part.shape[axis] * count : 0;
    part.shape[axis] = count;
    return part;
}

/* What each collective's result is like. */
static gt_meta result_meta(const gt_collective_call *call)
{
    bool parts = call->op == GT_OP_reduce_scatter || call->op == GT_OP_all_to_all;
    return parts ? part_of(call, true, call->axis_after) : *call->whole;
}

static gt_err check_call(const gt_collective_call *call)
{
    bool in_parts = call->op != GT_OP_all_reduce && call->op != GT_OP_broadcast;
    if (call->self >= call->count ||
        (in_parts && (call->axis >= call->whole->rank || call->axis_after >= call->whole->rank)))
        return gt__fail(GT_ERR_PROTOCOL, "%s: party %u of %u, axes %u and %u", gt__op_table[call->op].name,
                        call->self, call->count, call->axis, call->axis_after);
    return GT_OK;
}

/* The operand as the call wants it: contiguous, or the reason why there is none. */
static gt_err take_operand(gt_worker *worker, const gt_instruction *ins, gt_collective_call *call, gt_view *in,
                           gt_buffer **temporary)
{
    bool expected = call->op != GT_OP_broadcast || call->self == 0;
    const gt_entry *entry = expected ? gt__store_find(worker->store, ins->operand[0]) : NULL;
    if (!expected)
        return GT_OK;
    if (entry && entry->state == GT_ENTRY_POISON) {
        worker->exchange->failed = entry->poison->origin;
        return gt__fail(entry->poison->err, "%s", entry->poison->text);
    }
    if (!entry || entry->state != GT_ENTRY_TENSOR)
        return gt__fail(GT_ERR_INTERNAL, "%s: the worker has no such tensor", gt__op_table[call->op].name);
    GT_TRY(gt__worker_contiguous(worker, entry, in, temporary));
    call->in = in;
    call->buffer = *temporary ? *temporary : entry->buffer;
    return GT_OK;
}

/* `entry` NULL: there is no place for the result. The others hear of that, as of everything that keeps us from
 * taking part. */
static gt_err run_collective(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail, gt_entry *entry)
{
    gt_meta whole;
    gt_view in;
    gt_buffer *temporary = NULL;
    GT_TRY(gt__meta_set(&whole, (gt_dtype)ins->dtype, ins->rank, tail[0].i64));
    gt_collective_call call = {.op = (gt_opcode)ins->op,
                               .tag = ins->imm[0].u,
                               .self = (unsigned)ins->operand[1],
                               .count = (unsigned)ins->imm[1].u,
                               .party = (const gt_partner *)(tail + 1),
                               .axis = ins->operand[2] & 0xff,
                               .axis_after = ins->operand[2] >> 8 & 0xff,
                               .whole = &whole};
    GT_TRY(check_call(&call));
    gt_poison *poison = NULL;
    gt_err err = entry ? take_operand(worker, ins, &call, &in, &temporary)
                       : gt__fail(GT_ERR_MEMORY, "the worker has no room for another tensor");
    if (err == GT_OK) {
        entry->view.meta = result_meta(&call);
        err = gt__store_allocate(worker->store, &entry->view, &entry->buffer);
    }
    if (err == GT_OK) {
        call.out = &entry->view;
        call.out_buffer = entry->buffer;
    } else
        call.poison = poison = gt__poison_new(err, gt_error_text());
    err = worker->collective->ops->run(worker->collective, &call);
    if (err != GT_OK && call.out)
        gt__buffer_release(worker->store, entry->buffer);
    if (poison)
        gt__poison_release(poison);
    if (temporary)
        gt__buffer_release(worker->store, temporary);
    return err;
}

/* -------- */

static void introduce(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail)
{
    char name[sizeof(gt_slot)], address[sizeof(gt_slot)];
    memcpy(name, tail, sizeof name);
    memcpy(address, tail + 1, sizeof address);
    name[sizeof name - 1] = address[sizeof address - 1] = 0;
    worker->exchange->ops->introduce(worker->exchange, (int32_t)ins->result, ins->operand[0], name, address);
}

bool gt__peers_handle(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail)
{
    gt_entry *entry;
    gt_err err;
    gt__peers_reclaim(worker);
    if (worker->exchange)
        worker->exchange->failed = gt__worker_origin(worker, ins);
    switch ((gt_opcode)ins->op) {
    case GT_OP_peer:
        introduce(worker, ins, tail);
        return true;
    case GT_OP_send:
        send_tensor(worker, ins);
        return true;
    case GT_OP_recv:
        if (!(entry = result_entry(worker, ins)))
            return true;
        err = receive_tensor(worker, ins, tail, entry);
        break;
    case GT_OP_all_reduce:
    case GT_OP_reduce_scatter:
    case GT_OP_all_gather:
    case GT_OP_broadcast:
    case GT_OP_all_to_all:
        entry = result_entry(worker, ins);
        err = run_collective(worker, ins, tail, entry);
        break;
    default:
        return false;
    }
    if (err == GT_OK)
        entry->state = GT_ENTRY_TENSOR;
    else if (entry)
        keep(worker, entry, err);
    gt__peers_reclaim(worker);
    return true;
}

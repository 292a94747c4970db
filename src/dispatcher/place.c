/*
 * place.c: the last stage of every chain: decides where a record runs and writes it into that worker's link.
 *
 * There is a fast path and a slow path. Most sessions have all their tensors on one worker, their home: client ids
 * become that worker's slots, results get a handle with the inferred shape, and a record on a tensor that was lost with
 * a worker makes another lost tensor. A session that spreads tensors over several workers takes the slow path,
 * spread/spread.c, for all records that the fast path (place_alike) does not take. Records for which there is no room
 * wait in front of this stage (output.h).
 *
 * Sharding is a path of this stage and not a modifier. Modifiers rewrite a stream of client ids, which says nothing of
 * workers, so that they can be combined in any order. Sharding decides on which workers a record runs, from where the
 * parts of its operands are: that is in the handles, which are made here and nowhere else. As a modifier it would need
 * handles of its own for the parts, and every operand of every record would be looked up twice.
 */
#include "dispatcher/place.h"

#include <assert.h>
#include <string.h>

#include "core/record.h"
#include "dispatcher/answers.h"
#include "dispatcher/download.h"
#include "dispatcher/spread/spread.h"
#include "dispatcher/state.h"
#include "dispatcher/worker_stream.h"

/* Where to write a record for the home worker, whose link has room for it. Without a worker: a scratch buffer. */
static gt_slot *room_at_home(gt_session *session, unsigned slots)
{
    if (!session->home)
        return session->dispatcher->scratch;
    gt_slot *out = gt__link_reserve(session->home->link, slots);
    assert(out);
    return out;
}

/* ---- computing records ------------------------------------------------------------------------------------- */

typedef struct operands {
    const gt_meta *meta[GT_MAX_CAT];
    unsigned count;
    bool lost;
    uint32_t reason; /* why */
} operands;

/* Replace the ids in `out` (a copy of the record, in the worker's link) by slots. */
static gt_err find_operands(gt_session *session, const gt_slot *record, gt_slot *out, operands *o)
{
    const gt_instruction *ins = &record->ins;
    gt_operands from = gt__record_operands(ins, record + 1);
    uint64_t *slots = gt__record_operands(&out->ins, out + 1).id;
    o->count = from.count;
    o->lost = false;
    o->reason = 0;
    for (unsigned k = 0; k < from.count; k++) {
        o->meta[k] = NULL;
        if (!gt__operand_is_tensor(&from, k))
            continue;
        const gt_handle *handle = gt__handles_find(&session->handles, from.id[k]);
        if (!handle || from.id[k] == ins->result)
            return gt__session_unknown(ins, from.id[k]);
        o->meta[k] = &handle->meta;
        if (handle->worker == GT_NO_WORKER) {
            o->lost = true;
            o->reason = handle->slot;
        }
        slots[k] = handle->slot;
    }
    return GT_OK;
}

/* Drop a tensor. Records that use its slot again come later in the worker's stream, which is executed in order. *slot is
 * 0 if no worker had it. False: there is no such tensor. */
static bool drop_tensor(gt_session *session, uint64_t id, uint32_t *slot)
{
    int32_t worker;
    if (!gt__handles_remove(&session->handles, id, &worker, slot))
        return false;
    if (worker == GT_NO_WORKER)
        *slot = 0;
    else
        gt__slot_number_free(&session->dispatcher->workers[worker]->slots, *slot);
    return true;
}

/*
 * The fast path for the most common records: one slot, elementwise, all operands on the home worker, the result like an
 * operand. There is room for a slot. False: nothing was done, place_compute will.
 */
static inline __attribute__((always_inline)) bool place_alike(gt_session *session, const gt_slot *record)
{
    const gt_instruction *ins = &record->ins;
    gt_dispatch_worker *worker = session->home;
    const gt_op_row *row = &gt__op_table[ins->op];
    const gt_meta *metas[2] = {NULL, NULL};
    uint64_t slots[2] = {ins->operand[0], ins->operand[1]};
    if (!row->keeps || ins->flags & ~GT_FLAG_UPDATES || (ins->scope && ins->scope != session->plain_scope) ||
        !worker || !worker->slots.free_count)
        return false;
    for (unsigned k = 0; k < row->operands; k++) {
        if (gt__literal(ins, k) != GT_LITERAL_NONE)
            continue;
        const gt_handle *handle = gt__handles_find(&session->handles, slots[k]);
        if (!handle || handle->worker != worker->index)
            return false;
        metas[k] = &handle->meta;
        slots[k] = handle->slot;
    }
    const gt_meta *like = gt__op_result_like((gt_opcode)ins->op, ins->literals, metas[0], metas[1]);
    if (__builtin_expect(session->quota != NULL, 0) && like &&
        !gt__quota_admits(session, 1, gt__meta_bytes(like), 0))
        return false;
    gt_handle *result = like ? gt__handles_insert_now(&session->handles, ins->result) : NULL;
    if (!result)
        return false;
    gt_slot *out = worker->link->write_next;
    int64_t elements = like->numel;
    uint32_t slot = worker->slots.free[--worker->slots.free_count];
    out[0] = record[0];
    out->ins.result = slot;
    out->ins.operand[0] = slots[0];
    out->ins.operand[1] = slots[1];
    result->worker = worker->index;
    result->slot = slot;
    result->scope = ins->scope;
    result->site = ins->site;
    gt__meta_copy(&result->meta, like);
    gt__worker_commit(worker, 1);
    worker->instructions++;
    if (__builtin_expect(session->quota != NULL, 0))
        gt__quota_hold(session, result); /* without memory for that, it does not count */
    if (__builtin_expect(elements >= GT_SHARE_SMALL >> row->slowness, 0))
        gt__share_pass(session, worker, ins->op, elements);
    return true;
}

/* A record that would pass a limit of the session. handle NULL: or one on results that were left out for that reason. */
static __attribute__((noinline)) gt_err refuse(gt_session *session, const gt_slot *record, gt_handle *handle)
{
    int32_t worker;
    uint32_t slot;
    uint64_t consumed = gt__record_consumed(&record->ins);
    if (handle)
        GT_TRY(gt__quota_refuse(session, record, handle));
    if (consumed && gt__handles_remove(&session->handles, consumed, &worker, &slot) && worker != GT_NO_WORKER) {
        gt__worker_free_tensor(session->home, slot);
        gt__worker_flush_frees(session->home);
    }
    return GT_OK;
}

static gt_err place_compute(gt_session *session, const gt_slot *record)
{
    const gt_instruction *ins = &record->ins;
    unsigned length = 1u + ins->tail;
    gt_dispatch_worker *worker = session->home;
    if (__builtin_expect(session->left_out != NULL, 0) && gt__quota_misses(session, record))
        return refuse(session, record, NULL);
    gt_slot *out = room_at_home(session, length);
    if (__builtin_expect(ins->scope && ins->scope != session->plain_scope, 0)) {
        gt__signals_look_up(session, ins->scope);
        session->plain_scope = ins->scope;
    }
    out[0] = record[0];
    if (length > 1)
        memcpy(out + 1, record + 1, (length - 1) * sizeof *out);
    operands o;
    gt_dtype compute;
    gt_handle *handle = NULL;
    /* The result's handle first: inserting may move the operands' handles. */
    GT_TRY(gt__handles_insert(&session->handles, ins->result, &handle));
    handle->worker = GT_NO_WORKER;
    handle->slot = 0;
    handle->scope = ins->scope;
    handle->site = ins->site;
    handle->meta.rank = 0;
    GT_TRY(find_operands(session, record, out, &o));
    if (__builtin_expect(ins->flags & GT_FLAG_REFUSED && !o.lost, 0)) {
        o.lost = true;
        o.reason = ins->site;
    }
    handle->slot = o.reason;
    GT_TRY(gt__op_infer(ins, record + 1, o.meta, &handle->meta, &compute));
    bool refused = false;
    if (__builtin_expect(session->quota && !o.lost, 0))
        GT_TRY(gt__quota_charge(session, record, handle, &refused));
    if (__builtin_expect(refused, 0))
        return refuse(session, record, handle);
    if (__builtin_expect(ins->op == GT_OP_upload && ins->imm[1].u, 0))
        o.lost |= !gt__relay_name(session, &out->ins.imm[1].u);
    if (worker && !o.lost) {
        uint32_t slot = gt__slot_number_new(&worker->slots);
        if (!slot)
            return gt__fail(GT_ERR_MEMORY, "too many tensors on worker %s", worker->name);
        handle->worker = worker->index;
        handle->slot = slot;
        out->ins.result = slot;
        gt__worker_commit(worker, length);
        worker->instructions++;
        gt__share_placed(session, worker, ins, o.meta, o.count, &handle->meta);
    } else if (ins->op == GT_OP_upload && ins->imm[1].u)
        gt__relay_unused(session, ins->imm[1].u);
    uint32_t consumed = 0;
    bool sent = handle->worker != GT_NO_WORKER;
    if (gt__record_consumed(ins))
        drop_tensor(session, gt__record_consumed(ins), &consumed);
    if (consumed && !sent) { /* the record was not sent, so the consumed slot is freed by one of its own */
        out->ins = (gt_instruction){.op = GT_OP_free, .result = consumed};
        gt__worker_commit(worker, 1);
    }
    return GT_OK;
}

/* ---- control records --------------------------------------------------------------------------------------- */

static gt_err place_free(gt_session *session, const gt_slot *record)
{
    gt_dispatch_worker *worker = session->home;
    gt_slot *out = room_at_home(session, 1);
    *out = *record;
    const uint64_t *ids = gt__free_ids(&record->ins);
    uint64_t *slots = gt__free_ids(&out->ins), any = 0, unknown = 0;
    for (unsigned k = 0; k < GT_FREE_IDS; k++) {
        uint32_t slot = 0;
        if (ids[k] && !drop_tensor(session, ids[k], &slot))
            unknown = ids[k]; /* the other slots are still freed on the worker */
        slots[k] = slot;
        any |= slot;
    }
    if (worker && any)
        gt__worker_commit(worker, 1);
    return unknown && !session->left_out ? gt__session_unknown(&record->ins, unknown) : GT_OK;
}

static gt_err place_data(gt_session *session, const gt_slot *record)
{
    gt_handle *handle = gt__handles_find(&session->handles, record->ins.operand[0]);
    if (!handle)
        return session->left_out ? GT_OK : gt__session_unknown(&record->ins, record->ins.operand[0]);
    if (!session->home || handle->worker != session->home->index)
        return GT_OK; /* the upload was complete and has been placed elsewhere: it stays as it is */
    gt_slot *out = room_at_home(session, 1u + record->ins.tail);
    memcpy(out, record, (1u + record->ins.tail) * sizeof *out);
    out->ins.operand[0] = handle->slot;
    gt__worker_commit(session->home, 1u + record->ins.tail);
    gt__share_bytes(session, session->home, record->ins.tail * sizeof *out);
    return session->spreading ? gt__spread_data(session, handle, &record->ins) : GT_OK;
}

static gt_err place_fetch(gt_session *session, const gt_slot *record)
{
    gt_handle *handle = gt__handles_find(&session->handles, record->ins.operand[0]);
    if (!handle)
        return gt__answer_unknown(session, &record->ins);
    if (handle->worker == GT_NO_WORKER) {
        gt__answer_failure(session, record->ins.result, GT_ERR_CONNECTION, gt__session_lost(session, handle));
        return GT_OK;
    }
    if (!session->home) { /* a tensor on other workers, which take no new clients */
        gt__answer_failure(session, record->ins.result, GT_ERR_CONNECTION, session->lost);
        return GT_OK;
    }
    if (session->spreading)
        return gt__spread_fetch(session, handle, record);
    if (!record->ins.imm[0].u && gt__meta_bytes(&handle->meta) > GT_DOWNLOAD_PART)
        return gt__download_start(session, handle, record->ins.result);
    gt_slot *out = room_at_home(session, 1);
    *out = *record;
    out->ins.operand[0] = handle->slot;
    if (out->ins.imm[0].u && !gt__relay_name(session, &out->ins.imm[0].u)) {
        gt__answer_failure(session, record->ins.result, GT_ERR_CONNECTION, GT_HOME_LOST);
        return GT_OK;
    }
    GT_TRY(gt__session_expect(session, record, &out->ins));
    gt__worker_commit(session->home, 1);
    gt__share_bytes(session, session->home, gt__meta_bytes(&handle->meta));
    return GT_OK;
}

static gt_err place_sync(gt_session *session, const gt_slot *record)
{
    if (!session->home) {
        gt__answer_failure(session, record->ins.result, GT_ERR_CONNECTION, session->lost);
        return GT_OK;
    }
    if (session->spreading)
        return gt__spread_sync(session, record);
    gt_slot *out = room_at_home(session, 1);
    *out = *record;
    GT_TRY(gt__session_expect(session, record, &out->ins));
    gt__worker_commit(session->home, 1);
    return GT_OK;
}

static gt_err place_tensor(gt_session *session, const gt_slot *record)
{
    if (!session->spreading)
        return place_compute(session, record);
    return !session->holding && place_alike(session, record) ? GT_OK : gt__spread_compute(session, record);
}

gt_err gt__place(gt_session *session, const gt_slot *record)
{
    const gt_instruction *ins = &record->ins;
    switch ((gt_opcode)ins->op) {
    case GT_OP_upload:
        GT_TRY(place_tensor(session, record));
        gt__fillings_note(&session->fillings, &session->handles, ins);
        return GT_OK;
    case GT_OP_free:
        return session->spreading ? gt__spread_free(session, record) : place_free(session, record);
    case GT_OP_data:
        GT_TRY(place_data(session, record));
        gt__fillings_note(&session->fillings, &session->handles, ins);
        return GT_OK;
    case GT_OP_fetch:
        return place_fetch(session, record);
    case GT_OP_sync:
        return place_sync(session, record);
    case GT_OP_stats:
        if (ins->flags & GT_FLAG_WORKERS)
            return gt__reports_inquire(session, ins->result);
        gt__reports_refresh(session->dispatcher);
        gt__answer_stats(session, ins->result);
        return GT_OK;
    case GT_OP_placement:
        return gt__answer_placement(session, ins);
    case GT_OP_config:
        return gt__spread_config(session, record);
    case GT_OP_repeat:
        return gt__paths_place(session, record);
    case GT_OP_forget:
        gt__relay_forget(session, ins->imm[0].u);
        return GT_OK;
    default:
        return place_tensor(session, record);
    }
}

/* Nothing waits, nothing is spread, it is the session's turn, and the home worker has room for a slot. */
static inline bool is_open(const gt_session *session)
{
    const gt_dispatch_worker *home = session->home;
    return !gt__output_waits(&session->output) && !session->spreading && home && !home->closed &&
           home->owner == session->number && gt__slot_queue_empty(&home->backlog.outbox) &&
           home->link->write_end > home->link->write_next;
}

/* Most records take the fast path, the others the slow path. */
static gt_err step(gt_modifier *modifier, const gt_slot *record)
{
    gt_session *session = modifier->session;
    if (__builtin_expect(is_open(session), 1)) {
        if (place_alike(session, record))
            return GT_OK;
        if (record->ins.op == GT_OP_free)
            return place_free(session, record);
        if (record->ins.op < GT_OP_FIRST_CONTROL && !record->ins.tail)
            return place_compute(session, record);
    }
    return gt__output_put(session, record);
}

const gt_modifier_ops gt__modifier_place = {
    .name = "place",
    .size = sizeof(gt_modifier),
    .step = step,
};

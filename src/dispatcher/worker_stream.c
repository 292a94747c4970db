/* worker_stream.c: see worker_stream.h. */
#include "dispatcher/worker_stream.h"

#include <string.h>

#include "core/record.h"
#include "dispatcher/download.h"
#include "dispatcher/session.h"
#include "dispatcher/state.h"

void gt__worker_wait_for_room(gt_dispatch_worker *worker)
{
    worker->backlog.behind = true;
    gt__peer_wake(worker->peer); /* so that its link is armed for room before the loop sleeps */
}

static unsigned batch(const gt_dispatch_worker *worker)
{
    unsigned wanted = worker->peer->dispatcher->worker_batch;
    return wanted ? wanted : worker->link->batch;
}

size_t gt__worker_batch_room(const gt_dispatch_worker *worker)
{
    ptrdiff_t room = worker->link->write_end - worker->link->write_next; /* negative once the link is lost */
    size_t most = batch(worker);
    return room < 0 ? 0 : (size_t)room < most ? (size_t)room : most;
}

void gt__worker_flush_batch(gt_dispatch_worker *worker)
{
    if (worker->link->unflushed >= batch(worker))
        gt__link_flush(worker->link);
}

/* Without telling whose the record is. */
static gt_slot *reserve(gt_dispatch_worker *worker, unsigned slots)
{
    gt_slot *out = gt__worker_room(worker, slots);
    worker->backlog.into_outbox = !out;
    return out ? out : gt__slot_queue_reserve(&worker->backlog.outbox, slots);
}

void gt__worker_put(gt_dispatch_worker *worker, unsigned slots)
{
    if (!worker->backlog.into_outbox) {
        gt__worker_commit(worker, slots);
        return;
    }
    gt__slot_queue_commit(&worker->backlog.outbox, slots);
    gt__worker_wait_for_room(worker);
}

bool gt__worker_own_fully(gt_dispatch_worker *worker, uint64_t session)
{
    gt_slot *out = reserve(worker, 1);
    if (!out)
        return false;
    out->ins = (gt_instruction){.op = GT_OP_share};
    out->ins.imm[0].u = session;
    out->ins.imm[1].u = GT_SHARE_OWNER;
    gt__worker_put(worker, 1);
    worker->owner = session;
    return true;
}

gt_slot *gt__worker_reserve(gt_dispatch_worker *worker, unsigned slots)
{
    return gt__worker_own(worker, worker->peer->dispatcher->turn) ? reserve(worker, slots) : NULL;
}

void gt__worker_slots_are_free(gt_dispatch_worker *worker, const gt_instruction *ins)
{
    const uint64_t *slots = gt__free_ids(ins);
    for (unsigned k = 0; k < GT_FREE_IDS; k++)
        if (slots[k])
            gt__slot_number_park(&worker->slots, (uint32_t)slots[k]);
}

void gt__worker_tell(gt_dispatch_worker *worker, const gt_instruction *ins)
{
    gt_slot *out = reserve(worker, 1);
    if (!out)
        return; /* out of memory: the worker keeps the tensors, and their slots are not used again */
    out->ins = *ins;
    gt__worker_put(worker, 1);
    if (ins->op == GT_OP_free && !worker->backlog.into_outbox)
        gt__worker_slots_are_free(worker, ins);
}

void gt__worker_free_tensor(gt_dispatch_worker *worker, uint32_t slot)
{
    if (gt__free_append(&worker->backlog.frees, &worker->backlog.free_count, slot))
        gt__worker_flush_frees(worker);
}

void gt__worker_flush_frees(gt_dispatch_worker *worker)
{
    if (!worker->backlog.free_count)
        return;
    gt__worker_tell(worker, &worker->backlog.frees);
    worker->backlog.free_count = 0;
}

bool gt__worker_catch_up(gt_dispatch_worker *worker)
{
    bool progress = false;
    const gt_slot *record;
    while ((record = gt__slot_queue_first(&worker->backlog.outbox))) {
        unsigned length = 1u + record->ins.tail;
        gt_slot *out = gt__link_reserve(worker->link, length);
        if (!out) {
            gt__worker_wait_for_room(worker);
            return progress;
        }
        memcpy(out, record, length * sizeof *out);
        gt__worker_commit(worker, length);
        if (record->ins.op == GT_OP_free)
            gt__worker_slots_are_free(worker, &record->ins);
        gt__slot_queue_pop(&worker->backlog.outbox);
        progress = true;
    }
    worker->backlog.behind = false;
    gt__downloads_continue(worker);
    return progress || !worker->backlog.behind;
}

void gt__worker_drop_backlog(gt_dispatch_worker *worker)
{
    gt__slot_queue_clear(&worker->backlog.outbox);
    worker->backlog.free_count = 0;
    worker->backlog.behind = false;
}

/* deferred.c: see deferred.h. */
#include "worker/peers/deferred.h"

#include <stdlib.h>
#include <string.h>

#include "core/record.h"
#include "worker/worker.h"

enum {
    MOST_SLOTS = 64 << 10,  /* of records put aside: 4 MiB; then the worker waits for the first */
    MOST_TENSORS = 1 << 27, /* more than a store has slots */
};

/* ---- which tensors a record touches ------------------------------------------------------------------------ */

/* Two records conflict if both use a tensor and one of them writes or frees it. Two reads do not conflict. */
static bool is_write(unsigned use)
{
    return use & (GT_ID_WRITTEN | GT_ID_FREED);
}

static uint32_t uses(const gt_deferred *d, const uint32_t *counts, uint64_t slot)
{
    return slot < d->tensor_capacity ? counts[slot] : 0;
}

/* Whether a record must wait for one that was put aside. */
static bool conflicts(const gt_deferred *d, const gt_slot *record)
{
    for (gt_record_ids ids = gt__record_ids(record); gt__record_ids_next(&ids);)
        if (uses(d, d->writes, *ids.id) || (is_write(ids.use) && uses(d, d->reads, *ids.id)))
            return true;
    return false;
}

static bool make_room(gt_deferred *d, const gt_slot *record)
{
    uint64_t last = 0;
    for (gt_record_ids ids = gt__record_ids(record); gt__record_ids_next(&ids);)
        last = *ids.id > last ? *ids.id : last;
    if (last < d->tensor_capacity)
        return true;
    size_t capacity = d->tensor_capacity ? d->tensor_capacity : 256;
    while (capacity <= last && capacity < MOST_TENSORS)
        capacity *= 2;
    if (capacity <= last)
        return false; /* out of range: its execution refuses it */
    uint32_t *reads = realloc(d->reads, capacity * sizeof *reads);
    if (reads)
        d->reads = reads;
    uint32_t *writes = reads ? realloc(d->writes, capacity * sizeof *writes) : NULL;
    if (!writes)
        return false;
    d->writes = writes;
    memset(d->reads + d->tensor_capacity, 0, (capacity - d->tensor_capacity) * sizeof *reads);
    memset(d->writes + d->tensor_capacity, 0, (capacity - d->tensor_capacity) * sizeof *writes);
    d->tensor_capacity = capacity;
    return true;
}

static void count(gt_deferred *d, const gt_slot *record, int change)
{
    for (gt_record_ids ids = gt__record_ids(record); gt__record_ids_next(&ids);) {
        if (ids.use & GT_ID_READ)
            d->reads[*ids.id] += (uint32_t)change;
        if (is_write(ids.use))
            d->writes[*ids.id] += (uint32_t)change;
    }
}

/* ---- putting aside ----------------------------------------------------------------------------------------- */

static bool put_aside(gt_deferred *d, const gt_slot *record)
{
    if (!make_room(d, record) || !gt__slot_queue_append(&d->records, record))
        return false;
    d->count++;
    count(d, record, 1);
    return true;
}

static bool arrived(gt_worker *worker, const gt_instruction *recv, int wait_ms)
{
    gt_exchange *exchange = worker->exchange;
    if (wait_ms) /* a peer may wait for our messages */
        gt__late_pay(worker);
    return gt__exchange_ready(exchange, (int32_t)recv->imm[0].i, recv->imm[1].u, 0, wait_ms);
}

/* Records that may overtake others, or be overtaken. */
static bool is_movable(unsigned op)
{
    return op < GT_OP_FIRST_CONTROL || op == GT_OP_free || op == GT_OP_data || op == GT_OP_send ||
           op == GT_OP_recv;
}

/* The records that follow are of another session, and records before it wait: it also waits, so that each of them runs for its
 * own session. */
static bool change_owner(gt_worker *worker, const gt_slot *record)
{
    if (gt__slot_queue_slots(&worker->deferred.records) > MOST_SLOTS || !put_aside(&worker->deferred, record)) {
        gt__deferred_run(worker, -1);
        return false;
    }
    gt__store_set_owner(worker->store, record->ins.imm[0].u ? record->ins.imm[0].u : GT_STORE_NOBODY);
    return true;
}

bool gt__deferred_takes(gt_worker *worker, const gt_slot *record)
{
    gt_deferred *d = &worker->deferred;
    if (d->count)
        gt__deferred_run(worker, 0);
    if (worker->timing.watched) /* logs show records in order */
        gt__deferred_run(worker, -1);
    if (d->count && record->ins.op == GT_OP_share && record->ins.imm[1].u == GT_SHARE_OWNER)
        return change_owner(worker, record);
    if (!is_movable(record->ins.op)) {
        if (record->ins.op != GT_OP_stats && record->ins.op != GT_OP_forget && record->ins.op != GT_OP_share &&
            record->ins.op != GT_OP_stand_in && record->ins.op != GT_OP_mark)
            gt__deferred_run(worker, -1);
        return false;
    }
    if (worker->timing.watched)
        return false;
    bool waits = record->ins.op == GT_OP_recv && !arrived(worker, &record->ins, 0);
    if (!waits && !(d->count && conflicts(d, record)))
        return false;
    uint64_t first_owner = d->count ? d->owner : worker->store->owner;
    if (gt__slot_queue_slots(&d->records) > MOST_SLOTS || !put_aside(d, record)) {
        gt__deferred_run(worker, -1);
        return false;
    }
    d->owner = first_owner;
    return true;
}

/* ---- running ----------------------------------------------------------------------------------------------- */

void gt__deferred_run(gt_worker *worker, int wait_ms)
{
    gt_deferred *d = &worker->deferred;
    while (d->count) {
        const gt_slot *record = gt__slot_queue_first(&d->records);
        if (record->ins.op == GT_OP_recv && !arrived(worker, &record->ins, wait_ms))
            return;
        uint64_t owner = worker->store->owner;
        gt__store_set_owner(worker->store, d->owner);
        d->running = true;
        gt__worker_run_record(worker, record);
        d->running = false;
        d->owner = worker->store->owner;
        gt__store_set_owner(worker->store, owner);
        count(d, record, -1);
        gt__slot_queue_pop(&d->records);
        d->count--;
        if (wait_ms > 0)
            wait_ms = 0;
    }
}

void gt__deferred_free(gt_deferred *deferred)
{
    gt__slot_queue_free(&deferred->records);
    free(deferred->reads);
    free(deferred->writes);
    *deferred = (gt_deferred){0};
}

/*
 * worker_stream.h: writing into a worker's stream.
 *
 * Records of sessions go straight into the worker's link: gt__worker_room, then gt__worker_commit. Placement looks for
 * room before it takes a record, and the session waits where there is none (output.h). What cannot wait (frees, moves
 * between workers, parts of downloads) is written with gt__worker_reserve and gt__worker_put: what the link has no room
 * for goes to the worker's outbox, which comes before everything else when there is room again.
 */
#ifndef GT_DISPATCHER_WORKER_STREAM_H
#define GT_DISPATCHER_WORKER_STREAM_H

#include "dispatcher/workers.h"

/* Room in the link, unless something waits for it already. */
static inline gt_slot *gt__worker_room(const gt_dispatch_worker *worker, unsigned slots)
{
    return gt__slot_queue_empty(&worker->backlog.outbox) ? gt__link_reserve(worker->link, slots) : NULL;
}

/* A record of so many slots is written at the end of the worker's stream. */
static inline void gt__worker_commit(gt_dispatch_worker *worker, unsigned slots)
{
    const gt_slot *record = worker->link->write_next;
    gt__link_commit(worker->link, slots);
    worker->records++;
    if (__builtin_expect(worker->observed, 0))
        gt__observe_sent(worker, record);
}

/* Slots that can be written before a look at the link is worth it: up to its end, or to where a batch is full. */
size_t gt__worker_batch_room(const gt_dispatch_worker *worker);
/* Send what was written if that is a batch. */
void gt__worker_flush_batch(gt_dispatch_worker *worker);

/* Room for a record in its stream, in the link or else in the outbox, behind what waits there; then put it there. NULL:
 * out of memory. */
gt_slot *gt__worker_reserve(gt_dispatch_worker *worker, unsigned slots);
void gt__worker_put(gt_dispatch_worker *worker, unsigned slots);
/* Send a free (of worker slots) or a forget, now or when there is room. The slots of a free can be handed out again
 * once it is in the stream. */
void gt__worker_tell(gt_dispatch_worker *worker, const gt_instruction *ins);
/* Free a slot with the next record that is full of them, or when gt__worker_flush_frees says so. */
void gt__worker_free_tensor(gt_dispatch_worker *worker, uint32_t slot);
void gt__worker_flush_frees(gt_dispatch_worker *worker);

/* The link had no room just now: have gt__worker_catch_up called when it has some. */
void gt__worker_wait_for_room(gt_dispatch_worker *worker);
/* Send what waits for room, as far as there is any; true if something went. */
bool gt__worker_catch_up(gt_dispatch_worker *worker);
/* The worker is gone: what waits is dropped. */
void gt__worker_drop_backlog(gt_dispatch_worker *worker);

#endif

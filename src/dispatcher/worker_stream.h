/*
 * worker_stream.h: writing into a worker's stream.
 *
 * Records of sessions go straight into the worker's link: gt__worker_room, then gt__worker_commit. Placement looks for
 * room before it takes a record, and the session waits if there is none (output.h). Records that cannot wait (frees,
 * moves between workers, parts of downloads) are written with gt__worker_reserve and gt__worker_put: those that the link
 * has no room for go to the worker's outbox, which is sent before everything else when there is room again.
 *
 * A worker clears memory that goes from one session to another, so it is told whose records follow: a `share` record where the
 * session changes. gt__worker_reserve does that by itself, for the session whose turn it is. What is written in other ways needs
 * gt__worker_own before, unless no memory is taken for it (answers, marks, frees).
 */
#ifndef GT_DISPATCHER_WORKER_STREAM_H
#define GT_DISPATCHER_WORKER_STREAM_H

#include "dispatcher/workers.h"

#define GT_OWNER_UNTOLD UINT64_MAX /* a worker that joined was told nothing yet */

bool gt__worker_own_fully(gt_dispatch_worker *worker, uint64_t session);
/* The records that follow are of this session; 0: not known, or of none. False: out of memory. */
static inline bool gt__worker_own(gt_dispatch_worker *worker, uint64_t session)
{
    return __builtin_expect(worker->owner == session, 1) || gt__worker_own_fully(worker, session);
}

/* Room in the link; NULL as well while the outbox waits for it, or holds records back. */
static inline gt_slot *gt__worker_room(const gt_dispatch_worker *worker, unsigned slots)
{
    return gt__slot_queue_empty(&worker->backlog.outbox) && !worker->backlog.holding
               ? gt__link_reserve(worker->link, slots)
               : NULL;
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

/* Slots that can be written at once: up to the end of the link's window, and no more than a batch. */
size_t gt__worker_batch_room(const gt_dispatch_worker *worker);
/* Flush the link if a batch was written. */
void gt__worker_flush_batch(gt_dispatch_worker *worker);

/* Room for a record in the link or, failing that, at the end of the outbox; then the record is there. NULL: out of
 * memory. */
gt_slot *gt__worker_reserve(gt_dispatch_worker *worker, unsigned slots);
void gt__worker_put(gt_dispatch_worker *worker, unsigned slots);
/* The slots of a free that is in the link can be used again, by records that come later in the stream. */
void gt__worker_slots_are_free(gt_dispatch_worker *worker, const gt_instruction *ins);
/* Send a free (of worker slots) or a forget, now or when there is room. The slots of a free can be handed out again
 * once it is in the stream. */
void gt__worker_tell(gt_dispatch_worker *worker, const gt_instruction *ins);
/* Collect slots to free: sent when a record is full of them, and by gt__worker_flush_frees. */
void gt__worker_free_tensor(gt_dispatch_worker *worker, uint32_t slot);
void gt__worker_flush_frees(gt_dispatch_worker *worker);

/* The link had no room just now: have gt__worker_catch_up called when it has some. */
void gt__worker_wait_for_room(gt_dispatch_worker *worker);
/* Send the outbox, as far as there is room; true if something was sent. */
bool gt__worker_catch_up(gt_dispatch_worker *worker);
/* The worker is gone: drop all that waits for it. */
void gt__worker_drop_backlog(gt_dispatch_worker *worker);

#endif

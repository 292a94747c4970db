/*
 * deferred.h: records that wait for another worker. No worker stands still for another one that is slow, or gone silently.
 *
 * A recv whose data has not arrived is put aside (aside.h), and so is a collective: it is started, which sends what the other
 * parties need, and finished when their messages are there. Every later record that needs the result is put aside, too, or would
 * overwrite or free a tensor that a record put aside still reads. All other records run: those of other sessions, and those of the same
 * session that do not depend on it. This is how the stages of a pipeline overlap, and the sums of several gradients.
 *
 * The records of a session that are put aside run in their order, as soon as the first of them can. The answers to a session keep
 * their order; those to different sessions do not (dispatcher/pending.h).
 *
 * Streams cannot deadlock: all of them have collectives and moves in the same order, and of all that wait, the first in that order has
 * everything that it waits for sent, or on its way. Collectives of the engines themselves (NCCL) wait for all records before
 * them: engines queue them in the same order everywhere.
 *
 * While the dispatcher watches, the worker waits a moment for the records put aside, so that logs show records in their order and
 * how long a worker waited. If another worker does not answer for longer, the others go on all the same.
 *
 * The dispatcher is told of a session of which much is put aside, and sends no more of it. Executing what was put aside counts for
 * its own session.
 *
 * Place in the flow: worker.c asks before every record, if records are put aside or the record may wait.
 */
#ifndef GT_WORKER_PEERS_DEFERRED_H
#define GT_WORKER_PEERS_DEFERRED_H

#include "worker/peers/aside.h"

struct gt_deferred {
    unsigned count;           /* records put aside */
    uint64_t ahead;           /* of the stream's records, those that were taken before others that were executed */
    gt_aside *asides;         /* by session */
    gt_slot_uses uses;        /* of slots, by all of them */
    gt_slot_uses hidden_uses; /* and of hidden slots */
    bool running;             /* one of them is executed: */
    uint64_t number;          /* its number in the stream; otherwise that of the record at hand */
    gt_path_plans *plans;     /* its path, if it is a run */
    bool unwanted;            /* its client is gone */
    uint64_t seen;            /* gt_exchange.news when they were last looked at */
    bool more;                /* some could go on, but had their turn */
    uint64_t turn_ns;         /* until then the stream has its turn */
    bool overtaken;           /* while watched: one of them waits so long that others run before it */
    uint64_t waits_since_ns;  /* the worker waits since then for the first of each session; 0: it does not */
};

/* Records that are put aside, or started, if other workers are not as far. */
static inline bool gt__deferred_may_wait(unsigned op)
{
    return op >= GT_OP_recv && op <= GT_OP_all_to_all;
}

/* The number in the stream of the record that is executed, as so many were before, and it. */
static inline uint64_t gt__deferred_number(const gt_deferred *deferred, uint64_t records)
{
    return deferred->running ? deferred->number : records + deferred->ahead;
}

/* The number of the first record that was put aside; UINT64_MAX: none was. */
uint64_t gt__deferred_oldest(const gt_deferred *deferred);
/* True: the record was taken, and is executed now or later. False: execute it now. */
bool gt__deferred_takes(gt_worker *worker, const gt_slot *record);
/* The stream is empty: execute the records that can run, or wait a moment. */
void gt__deferred_idle(gt_worker *worker);
/* Tell the dispatcher how long it took to execute records that had been put aside. Before each answer to a mark. */
void gt__deferred_tell(gt_worker *worker);
/* The client of a session is gone. */
void gt__deferred_leave(gt_worker *worker, uint64_t owner);
void gt__deferred_free(gt_worker *worker);

#endif

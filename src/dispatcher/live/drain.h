/*
 * drain.h: a worker leaves, and those that use it go on: `gt drain`.
 *
 * The sessions that use the worker are moved one by one (evacuate.h), each at a moment between two of its records. A session
 * whose tensors are all on this worker goes to any other. A sharded session keeps the number and the order of its parts: they go to a
 * worker that it does not use yet or, if there is none, to a stand-in, a second worker in the process of another one
 * (recover/stand_in.h). When all tensors have arrived, the worker gets a goodbye at the end of its stream, and ends.
 *
 * A worker that joins under the number of one that left gets back what its successor has for it.
 */
#ifndef GT_DISPATCHER_LIVE_DRAIN_H
#define GT_DISPATCHER_LIVE_DRAIN_H

#include "dispatcher/workers.h"

/* A worker, by its name or number, is to leave. *life: of the worker, for the monitor that ordered it (gt__monitors_tell). */
gt_err gt__drain_order(gt_dispatcher *dispatcher, const char *which, uint64_t *life);
/* The same, of the dispatcher itself. */
void gt__drain_worker(gt_dispatch_worker *worker);
/* Have one that is to leave stay, because the session, which is being recovered, has no other one to stand in for the dead worker. False:
 * none is to leave. */
bool gt__drain_revoke(const gt_session *session, const gt_dispatch_worker *dead);
/* The worker is gone: tell those who wait for that, if it was to leave. */
void gt__drain_ended(gt_dispatch_worker *worker, const char *reason);
/* A worker has joined. */
void gt__live_joined(gt_dispatch_worker *worker);
/* Every turn, while something is to be moved. */
void gt__live_turn(gt_dispatcher *dispatcher);

#endif

/*
 * stand_in.h: a worker joins the server a second time, as the worker of a number whose own worker is dead.
 *
 * A sharded program goes on with as many parts as before. The stand-in is a whole worker in a thread of this process: it has a
 * link, a store and an engine of its own, and shares only the device. It leaves when a replacement comes, when no program
 * needs it any more (dispatcher/recover/stand_in.c), or with this worker.
 */
#ifndef GT_WORKER_STAND_IN_H
#define GT_WORKER_STAND_IN_H

#include "worker/worker.h"

/* The record says which number and name it gets. Failures are logged, and told to the dispatcher. */
void gt__stand_in_start(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail);
/* Now and then: free those that have ended. Returns for how long, of wait_ms (-1: no limit), the worker may sleep until the next call. */
int gt__stand_ins_check(gt_worker *worker, int wait_ms);
/* End all of them, and wait for that. */
void gt__stand_ins_end(gt_worker *worker);

#endif

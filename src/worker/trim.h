/*
 * trim.h: when the worker gives unused memory back to the system.
 *
 * The pool keeps memory for reuse (store.h). When a client has left, blocks that the other clients do not use for a second
 * are given back. When nothing at all comes for a few seconds, the whole pool is. A client that works pays nothing for this.
 */
#ifndef GT_WORKER_TRIM_H
#define GT_WORKER_TRIM_H

#include "worker/worker.h"

/* A client has left. */
void gt__trim_soon(gt_worker *worker);
/* Now and then while there is work: give memory back if it is time. */
void gt__trim_look(gt_worker *worker);
/* Milliseconds to wait for records at most, so that memory is given back in time; -1: no limit. `quiet_ns`: when the worker
 * ran out of records. */
int gt__trim_patience_ms(const gt_worker *worker, uint64_t quiet_ns, int patience_ms);
/* After such a wait, in which no record came. */
void gt__trim_idle(gt_worker *worker, uint64_t quiet_ns);

#endif

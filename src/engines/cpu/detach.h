/*
 * detach.h: work that cannot be interrupted (one call of LAPACK) on a thread of its own.
 *
 * The thread of the pool that asked for it waits, and looks every GT_CANCEL_MS whether the work was cancelled. Then it leaves
 * the other thread behind: that one finishes with the lowest priority, in memory of its own, and frees it. So the worker serves
 * its other clients at once. User: linalg.c.
 */
#ifndef GT_ENGINES_CPU_DETACH_H
#define GT_ENGINES_CPU_DETACH_H

#include <stdbool.h>

#include "engines/cpu/parallel.h"

typedef struct gt_detacher gt_detacher; /* the threads that one engine has left behind */

/* NULL: no memory. */
gt_detacher *gt__detacher_new(void);
/* Waits for the threads that were left behind. NULL is fine. */
void gt__detacher_free(gt_detacher *detacher);

/*
 * Run work(job) on a thread of its own. True: it is done, and the job is the caller's again. False: the work was cancelled; the
 * job belongs to the other thread, which calls drop(job) at its end. So `work` must touch nothing but the job and what it owns.
 * Without a thread, work runs on the calling one. If too many threads are left behind, this waits for one of them to end.
 */
bool gt__detach_run(gt_detacher *detacher, gt_parallel *parallel, void work(void *job), void drop(void *job),
                    void *job);

#endif

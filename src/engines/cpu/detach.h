/*
 * detach.h: work that cannot be interrupted (one call of LAPACK) on a thread of its own.
 *
 * The thread of the pool that asked for it waits, and looks every GT_CANCEL_MS whether the work was cancelled. Then it leaves
 * the other thread behind: that one finishes with a low priority, in memory of its own, and frees it. So the worker serves
 * its other clients at once.
 *
 * The threads left behind belong to the process: an engine closes without waiting for them. The process waits for them before it
 * exits (so does dlclose), since they run code of libraries that exit would tear down. Users: linalg.c, fft.c.
 */
#ifndef GT_ENGINES_CPU_DETACH_H
#define GT_ENGINES_CPU_DETACH_H

#include <stdbool.h>

#include "engines/cpu/parallel.h"

/* With so many threads left behind, which hold memory, work runs on the calling thread and cannot be cancelled. There may be a few
 * more: as many as ask for one at the same time. */
enum { GT_DETACH_MOST = 8 };

/*
 * Run work(job) on a thread of its own. True: it is done, and the job is the caller's again. False: the work was cancelled; the
 * job belongs to the other thread, which calls drop(job) at its end. So `work` must touch nothing but the job and what it owns.
 * Without a thread, work runs on the calling one. Work that is cancelled already is dropped here.
 */
bool gt__detach_run(gt_parallel *parallel, void work(void *job), void drop(void *job), void *job);

/* Threads of this process that were left behind and are not done. */
int gt__detach_left(void);

#endif

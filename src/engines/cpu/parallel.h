/*
 * parallel.h: a small thread pool, one per engine.
 *
 * One thread at a time (the worker's) calls gt__parallel_for; it takes part in the work itself. Idle threads yield
 * for at most 20 us after the last call and then block, so an idle engine costs nothing.
 */
#ifndef GT_ENGINES_CPU_PARALLEL_H
#define GT_ENGINES_CPU_PARALLEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engines/engine.h"

typedef struct gt_parallel gt_parallel;

/* Does the work for positions begin <= i < end. Runs on any thread of the pool; must not call gt__parallel_for. */
typedef void (*gt_parallel_body)(void *context, int64_t begin, int64_t end);

/* A pool of `threads` threads, including the caller's (1 starts none). `cancel` is borrowed; NULL: none. */
gt_err gt__parallel_new(int threads, gt_cancel *cancel, gt_parallel **parallel);
void gt__parallel_free(gt_parallel *parallel); /* NULL is fine */
int gt__parallel_threads(const gt_parallel *parallel);

/*
 * Run `body` over 0 <= i < count in chunks of at least `grain` positions, and return when all are done. With one
 * chunk that is a plain call. Chunks begin at multiples of `grain`. A grain should be tens of microseconds of work: between
 * every few of them the pool looks whether the work was cancelled. Then the rest is not done, nor is any work of later calls,
 * until gt__parallel_resume. So code behind a call must not trust memory that the call was to fill, beyond its size.
 */
void gt__parallel_for(gt_parallel *parallel, int64_t count, int64_t grain, gt_parallel_body body, void *context);

/* For loops whose single positions take long, and for serial ones: call it every millisecond or so. True: the work was
 * cancelled, return soon. Any thread of the pool may call it. */
bool gt__parallel_poll(gt_parallel *parallel);
/* The work was cancelled: returns why, and the pool works again. By the thread that calls gt__parallel_for. */
const char *gt__parallel_resume(gt_parallel *parallel);

/* The beginning of a gt_parallel: every call of the engine asks whether it was cancelled. */
typedef struct gt_parallel_head {
    int threads;           /* the caller included */
    atomic_bool cancelled; /* the rest of the work need not be done */
} gt_parallel_head;

static inline bool gt__parallel_cancelled(const gt_parallel *parallel)
{
    return atomic_load_explicit(&((const gt_parallel_head *)(const void *)parallel)->cancelled,
                                memory_order_relaxed);
}

#endif

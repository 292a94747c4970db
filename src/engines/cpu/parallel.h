/*
 * parallel.h: a small thread pool, one per engine.
 *
 * One thread at a time (the worker's) calls gt__parallel_for; it takes part in the work itself. Idle threads yield
 * for at most 20 us after the last call and then block, so an idle engine costs nothing.
 */
#ifndef GT_ENGINES_CPU_PARALLEL_H
#define GT_ENGINES_CPU_PARALLEL_H

#include <stdint.h>

#include "core/error.h"

typedef struct gt_parallel gt_parallel;

/* Does the work for positions begin <= i < end. Runs on any thread of the pool; must not call gt__parallel_for. */
typedef void (*gt_parallel_body)(void *context, int64_t begin, int64_t end);

/* A pool of `threads` threads, including the caller's (1 starts none). */
gt_err gt__parallel_new(int threads, gt_parallel **parallel);
void gt__parallel_free(gt_parallel *parallel); /* NULL is fine */
int gt__parallel_threads(const gt_parallel *parallel);

/*
 * Run `body` over 0 <= i < count in chunks of at least `grain` positions, and return when all are done. With one
 * chunk, or one thread, that is a plain call. Chunks begin at multiples of `grain`.
 */
void gt__parallel_for(gt_parallel *parallel, int64_t count, int64_t grain, gt_parallel_body body, void *context);

#endif

/*
 * cancel.h: ends work that is not wanted any more: the running operation, and records that wait in the stream.
 *
 * The dispatcher tells, ahead of the stream (link.h, urge), which records belong to a client that is gone: as a range of
 * their numbers. Computing records of such a range fail without being run, as any failed record does: their results are
 * poison, operands that they consume are freed. Frees, questions, and what other workers take part in are executed as ever.
 * The running operation is ended by its engine, which asks here every GT_CANCEL_MS (engine.h); so is one that runs for
 * longer than the limit, --max-op-seconds.
 */
#ifndef GT_WORKER_CANCEL_H
#define GT_WORKER_CANCEL_H

#include "core/record_range.h"
#include "engines/engine.h"

typedef struct gt_worker gt_worker;

enum { GT_CANCEL_RANGES = 64 };

typedef struct gt_canceller {
    gt_cancel engine;  /* what the engine asks */
    uint64_t limit_ns; /* that an operation may take; 0: no limit */
    uint64_t looked_ticks;
    uint64_t began_ns;                 /* when the operation was first looked at, */
    uint64_t began_record, began_step; /* and which that was */
    unsigned held;                     /* the current record must not be cancelled: other workers wait for it */
    unsigned ranges;
    gt_record_range range[GT_CANCEL_RANGES]; /* records that are not wanted */
    char why[128];
} gt_canceller;

void gt__canceller_init(gt_worker *worker);
/* No operation may take longer. 0, or more than the limit so far: nothing changes. */
void gt__canceller_limit(gt_worker *worker, double seconds);
/* Before a large record: whether to fail it without running it. The error's text is set. */
bool gt__cancel_skips(gt_worker *worker);

#endif

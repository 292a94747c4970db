/*
 * runs.h: which records in a worker's stream are of which session, for those that may not be executed yet. When a client is
 * gone, its workers are told ahead of their streams that these records are not wanted (worker/cancel.h).
 *
 * A run is what one turn of a session wrote into the stream. Records that were written outside of its turns, or long ago with
 * many turns of others since, are not known to be its own: they are executed.
 */
#ifndef GT_DISPATCHER_RUNS_H
#define GT_DISPATCHER_RUNS_H

#include <stdint.h>

typedef struct gt_session gt_session;
typedef struct gt_dispatch_worker gt_dispatch_worker;

enum { GT_RUNS = 256 }; /* a power of two */

typedef struct gt_run {
    uint64_t session, first, end; /* its number; records first <= n < end */
} gt_run;

typedef struct gt_runs {
    uint64_t from; /* in a session's turn: the number of the first record of it */
    uint64_t done; /* records up to this number are executed */
    uint32_t first, count;
    gt_run run[GT_RUNS]; /* a ring */
} gt_runs;

/* Around all that writes records of the session. */
void gt__runs_begin(const gt_session *session);
void gt__runs_end(const gt_session *session);
/* The session is gone: the records of its runs are not wanted. */
void gt__runs_cancel(const gt_session *session);
/* A worker joined. */
void gt__runs_reset(gt_runs *runs);

#endif

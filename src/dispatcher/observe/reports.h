/* reports.h: workers' reports (core/report.h), for monitors and for clients that ask for statistics: reports.c. */
#ifndef GT_DISPATCHER_OBSERVE_REPORTS_H
#define GT_DISPATCHER_OBSERVE_REPORTS_H

#include "core/instruction.h"
#include "core/report.h"
#include "dispatcher/pending.h"

typedef struct gt_dispatcher gt_dispatcher;
typedef struct gt_dispatch_worker gt_dispatch_worker;

/* The last report of a worker. */
typedef struct gt_reported {
    gt_report report;
    gt_report_row rows[GT_OP_COUNT];
    unsigned row_count;
    uint64_t queue;          /* records that it had been sent and not executed when the report came */
    unsigned due;            /* reports asked for and not there yet */
    uint64_t clock_error_ns; /* of the worker's watched.clock_offset_ns */
} gt_reported;

/* Ask every worker that does not owe a report for one. */
void gt__reports_ask(gt_dispatcher *dispatcher);
/* Answer a client's `stats` once the workers have reported. */
gt_err gt__reports_inquire(gt_session *session, uint64_t ticket);
gt_err gt__report_take(gt_dispatch_worker *worker, const gt_pending *asked, const gt_slot *record);
void gt__inquiry_settle(gt_inquiry *inquiry); /* one worker less to wait for; NULL: no client waits */
void gt__inquiry_forget_session(gt_inquiry *inquiry, const gt_session *session);

#endif

/* reports.h: workers' reports (core/report.h), for monitors and for clients that ask for statistics: reports.c. */
#ifndef GT_DISPATCHER_OBSERVE_REPORTS_H
#define GT_DISPATCHER_OBSERVE_REPORTS_H

#include "core/instruction.h"
#include "core/report.h"
#include "dispatcher/pending.h"

typedef struct gt_dispatcher gt_dispatcher;
typedef struct gt_dispatch_worker gt_dispatch_worker;

enum { GT_REPORT_PROMPT_NS = 20000000 }; /* a report that takes longer waits behind work */

/* What is known of a worker: its last report, or its statement. */
typedef struct gt_reported {
    gt_report report;
    gt_report_row rows[GT_OP_COUNT];
    unsigned row_count;
    uint64_t queue;          /* records that it had been sent and not executed */
    uint64_t sent;           /* records that it had been sent when its page was asked for */
    uint64_t waiting;        /* records that its clients have emitted and the dispatcher has not taken */
    uint64_t line;           /* gt__line_key of what it executes, or executed last; 0: not known */
    uint32_t scope;          /* and the scope; of a hot path (GT_LINE_PATH), its number on the worker plus one */
    unsigned doing;          /* gt_opcode that it executes; 0: none, or not known */
    unsigned step;           /* gt_opcode: if that is a hot path, the step that it is in; 0: not known */
    uint64_t doing_ns;       /* for so long; 0: it began just now */
    unsigned due;            /* reports asked for and not there yet */
    uint64_t asked_ns;       /* when the first of those was */
    uint64_t silent_ns;      /* so long after the report it has not answered: it is busy */
    uint64_t clock_error_ns; /* of the worker's watched.clock_offset_ns */
} gt_reported;

/* Bring worker->reported up to date, as far as that takes no answer of a worker. */
void gt__reports_refresh(gt_dispatcher *dispatcher);
/* The lines that it has spent time on; `lines` has room for GT_LINES, and this many are filled. */
unsigned gt__reports_lines(const gt_dispatch_worker *worker, gt_line *lines);
/* Ask every worker without a statement that does not owe a report for one. Whether some are due now. */
bool gt__reports_ask(gt_dispatcher *dispatcher);
/* Whether a worker has not answered yet that has a statement: it does so soon. */
bool gt__reports_awaited(const gt_dispatcher *dispatcher);
/* Whether a worker that was asked has not answered yet, whatever it has to answer with. */
bool gt__reports_outstanding(const gt_dispatcher *dispatcher);
/* Answer a client's `stats` once the workers have reported. */
gt_err gt__reports_inquire(gt_session *session, uint64_t ticket);
gt_err gt__report_take(gt_dispatch_worker *worker, const gt_pending *asked, const gt_slot *record);
void gt__inquiry_settle(gt_inquiry *inquiry); /* one worker less to wait for; NULL: no client waits */
/* A question of this session is not answered any more. False: it is not of this session, or was taken back. */
bool gt__inquiry_take_back(gt_inquiry *inquiry, const gt_session *session, uint64_t *ticket);

#endif

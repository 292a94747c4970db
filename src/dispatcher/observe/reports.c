/*
 * reports.c: workers' reports (core/report.h), for monitors and for clients that ask for statistics.
 *
 * The question is a record in the worker's stream, behind the client's earlier records, so the report counts all of them.
 * A worker whose link has no room is not asked: its last report is used again.
 */
#include "dispatcher/observe/reports.h"

#include <stdlib.h>
#include <string.h>

#include "dispatcher/answers.h"
#include "dispatcher/state.h"
#include "dispatcher/worker_stream.h"

/* A client's question, until every worker that was asked has answered. */
struct gt_inquiry {
    gt_session *session; /* NULL: it left */
    uint64_t ticket;
    unsigned outstanding;
};

static bool ask(gt_dispatch_worker *worker, gt_inquiry *inquiry)
{
    gt_slot *out = gt__worker_room(worker, 1); /* not the outbox: answers come in the order of the questions */
    gt_pending pending = {.op = GT_OP_stats, .asked_ns = gt__now_ns(), .inquiry = inquiry};
    if (!out || gt__pendings_add(&worker->pendings, &pending) != GT_OK)
        return false;
    out->ins = (gt_instruction){.op = GT_OP_stats};
    gt__worker_commit(worker, 1);
    gt__link_flush(worker->link);
    worker->reported.due++;
    return true;
}

void gt__reports_ask(gt_dispatcher *dispatcher)
{
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        gt_dispatch_worker *worker = dispatcher->workers[index];
        if (worker->peer && !worker->reported.due)
            ask(worker, NULL);
    }
}

gt_err gt__reports_inquire(gt_session *session, uint64_t ticket)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    gt_inquiry *inquiry = malloc(sizeof *inquiry);
    if (!inquiry)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    *inquiry = (gt_inquiry){.session = session, .ticket = ticket};
    for (int32_t index = 0; index < dispatcher->worker_count; index++)
        if (dispatcher->workers[index]->peer)
            inquiry->outstanding += ask(dispatcher->workers[index], inquiry);
    if (inquiry->outstanding)
        return GT_OK;
    free(inquiry);
    gt__answer_stats(session, ticket);
    return GT_OK;
}

void gt__inquiry_settle(gt_inquiry *inquiry)
{
    if (!inquiry || --inquiry->outstanding)
        return;
    if (inquiry->session)
        gt__answer_stats(inquiry->session, inquiry->ticket);
    free(inquiry);
}

void gt__inquiry_forget_session(gt_inquiry *inquiry, const gt_session *session)
{
    if (inquiry && inquiry->session == session)
        inquiry->session = NULL;
}

/* The worker's clock minus ours: 0 on the same host; else estimated from the quickest exchange so far. */
static void set_clock(gt_dispatch_worker *worker, const gt_pending *asked, uint64_t worker_ns)
{
    uint64_t now = gt__now_ns(), took = now - asked->asked_ns;
    if (worker->link->transport != &gt__transport_tcp ||
        (worker->reported.clock_error_ns && took > worker->reported.clock_error_ns))
        return;
    worker->reported.clock_error_ns = took;
    worker->watched.clock_offset_ns = (int64_t)(worker_ns - (asked->asked_ns + took / 2));
}

gt_err gt__report_take(gt_dispatch_worker *worker, const gt_pending *asked, const gt_slot *record)
{
    uint64_t bytes = record->ins.imm[1].u, rows = (bytes - sizeof(gt_report)) / sizeof(gt_report_row);
    worker->reported.due--;
    if (record->ins.op != GT_OP_reply || !(record->ins.flags & GT_FLAG_LAST) || bytes < sizeof(gt_report) ||
        rows > GT_OP_COUNT) {
        gt__inquiry_settle(asked->inquiry); /* the client gets its answer without it */
        return gt__fail(GT_ERR_PROTOCOL, "malformed report");
    }
    const uint8_t *from = record[1].bytes;
    memcpy(&worker->reported.report, from, sizeof worker->reported.report);
    worker->reported.queue = worker->records - worker->reported.report.records;
    worker->reported.row_count = 0;
    for (uint64_t k = 0; k < rows; k++) {
        gt_report_row row;
        memcpy(&row, from + sizeof(gt_report) + k * sizeof row, sizeof row);
        if (row.op && row.op < GT_OP_COUNT)
            worker->reported.rows[worker->reported.row_count++] = row;
    }
    set_clock(worker, asked, worker->reported.report.now_ns);
    gt__inquiry_settle(asked->inquiry);
    return GT_OK;
}

/*
 * reports.c: workers' statistics (core/report.h), for monitors and for clients that ask for them.
 *
 * A report is for a client that waits: the question is a record in the stream of each worker, and those that the client uses answer
 * it when they have executed the client's earlier records, so the reports count all of them. A worker that the client does not use is
 * not asked while its link has no room: what is known of it is used.
 *
 * All others get what is known now, without waiting for any worker: the statement in the worker's page. That of a worker behind
 * ZeroMQ is a copy, which it is asked for: another thread of it answers at once, and the next monitor sees the answer. A worker whose page
 * has not come yet is asked for a report. While it owes one, it is busy: the question is behind its work.
 */
#include "dispatcher/observe/reports.h"

#include <stdlib.h>
#include <string.h>

#include "dispatcher/answers.h"
#include "dispatcher/live/evacuate.h"
#include "dispatcher/state.h"
#include "dispatcher/worker_stream.h"

/* A client's question, until every worker that was asked has answered. */
struct gt_inquiry {
    gt_session *session; /* NULL: it left */
    uint64_t ticket;
    unsigned outstanding;
};

/* all: the report counts all that the session whose turn it is has sent, and a link without room does not matter. */
static bool ask(gt_dispatch_worker *worker, gt_inquiry *inquiry, bool all)
{
    gt_slot *out = all ? gt__worker_reserve(worker, 1) : gt__worker_room(worker, 1);
    gt_pending pending = {.op = GT_OP_stats, .asked_ns = gt__now_ns(), .inquiry = inquiry};
    gt_instruction question = {.op = GT_OP_stats, .flags = all ? GT_FLAG_LAST : 0};
    if (!out || gt__pendings_add(&worker->pendings, &pending, &question) != GT_OK)
        return false;
    out->ins = question;
    if (all)
        gt__worker_put(worker, 1);
    else
        gt__worker_commit(worker, 1);
    gt__link_flush(worker->link);
    if (!worker->reported.due++)
        worker->reported.asked_ns = pending.asked_ns;
    return true;
}

static const gt_statement *statement_of(const gt_dispatch_worker *worker, gt_page_time *time)
{
    const gt_link_ops *ops = worker->link->ops;
    const gt_statement *statement = ops->peer_page ? ops->peer_page(worker->link, time) : NULL;
    return statement && statement->joined_ns ? statement : NULL;
}

bool gt__reports_ask(gt_dispatcher *dispatcher)
{
    bool due = false;
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        gt_dispatch_worker *worker = dispatcher->workers[index];
        gt_page_time time;
        if (!worker->peer)
            continue;
        const gt_link_ops *ops = worker->link->ops;
        bool asked = ops->ask_page && ops->ask_page(worker->link);
        if (asked)
            worker->reported.sent = worker->records;
        due |= asked;
        if (!asked && !statement_of(worker, &time))
            due |= worker->reported.due || ask(worker, NULL, false);
    }
    return due;
}

bool gt__reports_awaited(const gt_dispatcher *dispatcher)
{
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        const gt_dispatch_worker *worker = dispatcher->workers[index];
        gt_page_time time = {0};
        if (worker->peer && worker->link->ops->ask_page && statement_of(worker, &time) && time.awaited)
            return true;
    }
    return false;
}

bool gt__reports_outstanding(const gt_dispatcher *dispatcher)
{
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        const gt_dispatch_worker *worker = dispatcher->workers[index];
        gt_page_time time = {0};
        if (worker->peer && !statement_of(worker, &time) && worker->reported.due)
            return true;
        if (time.awaited)
            return true;
    }
    return false;
}

gt_err gt__reports_inquire(gt_session *session, uint64_t ticket)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    gt_inquiry *inquiry = malloc(sizeof *inquiry);
    if (!inquiry)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    gt__reports_refresh(dispatcher); /* of those that cannot be asked now */
    *inquiry = (gt_inquiry){.session = session, .ticket = ticket};
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        gt_dispatch_worker *worker = dispatcher->workers[index];
        if (worker->peer)
            inquiry->outstanding += ask(worker, inquiry, gt__session_uses(session, worker));
    }
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

bool gt__inquiry_take_back(gt_inquiry *inquiry, const gt_session *session, uint64_t *ticket)
{
    if (!inquiry || inquiry->session != session)
        return false;
    *ticket = inquiry->ticket;
    inquiry->session = NULL;
    return true;
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

/* Records that were sent and not executed; what was executed is the worker's word. */
static uint64_t left(uint64_t sent, uint64_t executed)
{
    return sent > executed ? sent - executed : 0;
}

gt_err gt__report_take(gt_dispatch_worker *worker, const gt_pending *asked, const gt_slot *record)
{
    uint64_t bytes = record->ins.imm[1].u;
    uint64_t rows = bytes < sizeof(gt_report) ? 0 : (bytes - sizeof(gt_report)) / sizeof(gt_report_row);
    if (--worker->reported.due)
        worker->reported.asked_ns = gt__now_ns(); /* this report has the time until now */
    if (record->ins.op != GT_OP_reply || !(record->ins.flags & GT_FLAG_LAST) || bytes < sizeof(gt_report) ||
        rows > GT_OP_COUNT) {
        gt__inquiry_settle(asked->inquiry); /* the client gets its answer without it */
        return gt__fail(GT_ERR_PROTOCOL, "malformed report");
    }
    const uint8_t *from = record[1].bytes;
    memcpy(&worker->reported.report, from, sizeof worker->reported.report);
    worker->reported.queue = left(worker->records, worker->reported.report.records);
    worker->reported.row_count = 0;
    for (uint64_t k = 0; k < rows; k++) {
        gt_report_row row;
        memcpy(&row, from + sizeof(gt_report) + k * sizeof row, sizeof row);
        if (row.op && row.op < GT_OP_COUNT)
            worker->reported.rows[worker->reported.row_count++] = row;
    }
    worker->reported.doing = GT_OP_INVALID;
    worker->reported.silent_ns = 0;
    set_clock(worker, asked, worker->reported.report.now_ns);
    gt__inquiry_settle(asked->inquiry);
    return GT_OK;
}

/* ---- statements --------------------------------------------------------------------------------------------- */

/* A row for each op that it has executed. What only reports have is taken from the last one. */
static void take_rows(gt_reported *reported, const gt_statement *statement)
{
    uint32_t on_host[GT_OP_COUNT] = {0};
    for (unsigned k = 0; k < reported->row_count; k++)
        on_host[reported->rows[k].op] = reported->rows[k].on_host;
    reported->row_count = 0;
    for (unsigned op = 1; op < GT_OP_COUNT; op++) {
        const struct gt_statement_row *sums = &statement->row[op];
        gt_report_row row = {
            .op = op, .on_host = on_host[op], .count = sums->count, .ns = sums->ns, .bytes = sums->bytes};
        if (op == reported->doing &&
            !(statement->idle & 1)) /* waiting for another worker takes none of its time */
            row.ns += reported->doing_ns;
        if (row.count && op != GT_OP_mark) /* marks are the dispatcher's own */
            reported->rows[reported->row_count++] = row;
    }
}

/* `time`: of the statement; its times are on the worker's clock, too. */
static void take_statement(gt_dispatch_worker *worker, const gt_statement *statement, const gt_page_time *time)
{
    gt_reported *reported = &worker->reported;
    uint64_t doing = statement->doing, since_ns = gt__doing_since_ns(doing), idle = statement->idle;
    uint64_t joined_ns = statement->joined_ns, now = time->at_ns;
    unsigned op = gt__doing_op(doing);
    uint64_t line = statement->line, scope = statement->scope;
    reported->line = line;
    reported->scope = (uint32_t)scope == (uint32_t)line ? (uint32_t)(scope >> 32) : 0; /* else of another record */
    reported->doing = op < GT_OP_COUNT ? op : GT_OP_INVALID;
    uint64_t step = statement->step;
    reported->step = reported->doing == GT_OP_repeat && step < GT_OP_COUNT ? (unsigned)step : GT_OP_INVALID;
    reported->doing_ns = op && since_ns && now > since_ns ? now - since_ns : 0;
    reported->report = (gt_report){.now_ns = now,
                                   .up_ns = now > joined_ns ? now - joined_ns : 0,
                                   .idle_ns = gt__idle_ns(idle, now),
                                   .records = statement->records,
                                   .tensors = gt__slot_numbers_used(&worker->slots),
                                   .bytes_used = statement->bytes_used,
                                   .bytes_pooled = statement->bytes_pooled,
                                   .bytes_limit = statement->bytes_limit,
                                   .path_runs = statement->path_runs,
                                   .path_fallbacks = statement->path_fallbacks,
                                   .path_plans = statement->path_plans,
                                   .path_programs = statement->path_programs,
                                   .path_compile_ns = statement->path_compile_ns};
    gt__report_card(statement, &reported->report);
    if (time->error_ns && (!reported->clock_error_ns || time->error_ns < reported->clock_error_ns)) {
        reported->clock_error_ns = time->error_ns;
        worker->watched.clock_offset_ns = time->offset_ns;
    }
    reported->silent_ns = 0;
    uint64_t executed = reported->report.records,
             sent = worker->link->ops->ask_page ? reported->sent : worker->records;
    reported->queue = left(sent, executed);
    take_rows(reported, statement);
}

unsigned gt__reports_lines(const gt_dispatch_worker *worker, gt_line *lines)
{
    gt_page_time time;
    const gt_statement *statement = statement_of(worker, &time);
    unsigned count = 0;
    for (unsigned k = 0; k < GT_LINES && statement; k++) {
        const struct gt_statement_line *from = &statement->lines[k];
        gt_line line = {.key = atomic_load_explicit(&from->key, memory_order_acquire)};
        line.ns = atomic_load_explicit(&from->ns, memory_order_acquire);
        line.count = atomic_load_explicit(&from->count, memory_order_acquire);
        if (line.key && line.key == from->key) /* else it is being replaced */
            lines[count++] = line;
    }
    return count;
}

void gt__reports_refresh(gt_dispatcher *dispatcher)
{
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        gt_dispatch_worker *worker = dispatcher->workers[index];
        if (!worker->peer)
            continue;
        gt_page_time time;
        const gt_statement *statement = statement_of(worker, &time);
        if (statement) {
            if (statement->records >= worker->reported.report.records) /* else a copy older than the last report */
                take_statement(worker, statement, &time);
            continue;
        }
        uint64_t silent_ns = worker->reported.due ? gt__now_ns() - worker->reported.asked_ns : 0;
        worker->reported.silent_ns = silent_ns > GT_REPORT_PROMPT_NS ? silent_ns : 0;
        if (worker->reported.silent_ns)
            worker->reported.queue = left(worker->records, worker->reported.report.records);
    }
}

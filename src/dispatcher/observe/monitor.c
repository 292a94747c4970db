/* monitor.c: serves monitors. See monitor.h. */
#include "dispatcher/observe/monitor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatcher/live/drain.h"
#include "dispatcher/observe/inspect.h"
#include "dispatcher/observe/reports.h"
#include "dispatcher/state.h"
#include "dispatcher/stats.h"
#include "core/log.h"

enum {
    LEAST_INTERVAL_MS = 20,
    TOGETHER_MS = LEAST_INTERVAL_MS / 2, /* monitors whose statistics are due so soon get those of another */
    POSTPONED_MS = 5,                    /* what a monitor gets waits for workers' answers, */
    POSTPONED = 4,                       /* so often: it comes within 50 ms */
    LINES_MS = 50,                       /* a line waits at most this long for more lines */
    REST = 20,   /* so many times as long as a client's tensors took, they are not looked at */
    A_TURN = 16, /* records that a monitor may send in a turn of the loop */
};

struct gt_monitor {
    gt_monitor *next;
    gt_peer *peer;
    uint64_t topics, interval_ns;
    uint64_t stats_due_ns, lines_due_ns;
    uint64_t stats_again_ns;                 /* not before that, whatever it asks for */
    uint64_t asks_again_ns;                  /* nor are workers asked for it */
    bool asked;                              /* workers were, for what it gets next */
    bool prompt;                             /* it gets that as soon as all have answered */
    unsigned postponed;                      /* how often that was, because answers are late */
    uint64_t client;                         /* the one that GT_TOPIC_CLIENT tells of; 0: none */
    uint64_t client_due_ns, client_again_ns; /* as for statistics */
    char *rest;                              /* a text whose end had no room yet; NULL: none */
    uint64_t rest_topic;
    size_t rest_sent, rest_bytes;
    uint64_t lost;   /* lines */
    uint64_t drains; /* it waits for this worker (its life) to leave; 0: for none */
    bool reloads;    /* it waits for the files to be read */
    size_t filled;   /* bytes of lines */
    char lines[GT_MAX_CHUNK];
};

/* ---- sending ------------------------------------------------------------------------------------------------ */

static bool send_piece(gt_monitor *monitor, uint64_t topic, const char *text, uint64_t offset, size_t bytes,
                       bool last)
{
    gt_link *link = monitor->peer->link;
    unsigned tail = gt__slots_for(bytes);
    gt_slot *record = gt__link_reserve(link, 1 + tail);
    if (!record)
        return false;
    record->ins = (gt_instruction){.op = GT_OP_reply, .tail = (uint16_t)tail, .result = topic};
    record->ins.flags = last ? GT_FLAG_LAST : 0;
    record->ins.operand[0] = monitor->lost;
    record->ins.imm[0].u = offset;
    record->ins.imm[1].u = bytes;
    memcpy(record + 1, text, bytes);
    gt__slots_pad(record + 1, bytes);
    gt__link_commit(link, 1 + tail);
    return true;
}

static void send_lines(gt_monitor *monitor)
{
    if (!monitor->filled)
        return;
    if (monitor->rest || !send_piece(monitor, GT_TOPIC_LINES, monitor->lines, 0, monitor->filled, true))
        for (const char *at = monitor->lines;
             (at = memchr(at, '\n', (size_t)(monitor->lines + monitor->filled - at))); at++)
            monitor->lost++;
    monitor->filled = 0;
}

/* Pieces of a text from `offset` on, as many as have room. Returns where the next one begins. */
static size_t send_pieces(gt_monitor *monitor, uint64_t topic, const char *text, size_t offset, size_t bytes)
{
    while (offset < bytes) {
        size_t piece = bytes - offset < GT_MAX_CHUNK ? bytes - offset : GT_MAX_CHUNK;
        if (!send_piece(monitor, topic, text + offset, offset, piece, offset + piece == bytes))
            break;
        offset += piece;
    }
    return offset;
}

/* A text longer than the link has room for is completed in later turns: the statistics of a thousand clients are longer than a
 * ring. One that has no room at all is dropped: the monitor has not read earlier ones. */
static void send_text(gt_monitor *monitor, uint64_t topic, const char *text)
{
    size_t bytes = text ? strlen(text) : 0, sent = monitor->rest ? 0 : send_pieces(monitor, topic, text, 0, bytes);
    if (!sent || sent == bytes || !(monitor->rest = malloc(bytes)))
        return;
    memcpy(monitor->rest, text, bytes);
    monitor->rest_topic = topic;
    monitor->rest_sent = sent;
    monitor->rest_bytes = bytes;
}

static void send_rest(gt_monitor *monitor)
{
    if (!monitor->rest)
        return;
    monitor->rest_sent =
        send_pieces(monitor, monitor->rest_topic, monitor->rest, monitor->rest_sent, monitor->rest_bytes);
    if (monitor->rest_sent < monitor->rest_bytes)
        return;
    free(monitor->rest);
    monitor->rest = NULL;
}

void gt__monitors_line(gt_dispatcher *dispatcher, const char *line, size_t length)
{
    for (gt_monitor *monitor = dispatcher->monitors; monitor; monitor = monitor->next) {
        if (!(monitor->topics & GT_TOPIC_LINES))
            continue;
        if (monitor->filled + length > sizeof monitor->lines)
            send_lines(monitor);
        if (!monitor->filled)
            monitor->lines_due_ns = gt__now_ns() + LINES_MS * 1000000ull;
        memcpy(monitor->lines + monitor->filled, line, length);
        monitor->filled += length;
    }
}

/* Walking a million tensors takes long: after that the next one may come later. */
static void send_client(gt_monitor *monitor, uint64_t now)
{
    gt_dispatcher *dispatcher = monitor->peer->dispatcher;
    if (monitor->topics & GT_TOPIC_CLIENT) {
        char *json = gt__inspect_client(dispatcher, monitor->peer, monitor->client);
        send_text(monitor, GT_TOPIC_CLIENT, json);
        free(json);
    }
    if (monitor->topics & GT_TOPIC_PROGRESS && !monitor->rest) {
        char line[512];
        gt__reports_refresh(dispatcher);
        send_text(monitor, GT_TOPIC_PROGRESS,
                  gt__inspect_progress(dispatcher, monitor->peer, monitor->client, line, sizeof line));
    }
    monitor->asked = false;
    uint64_t rest_ns = REST * (gt__now_ns() - now), least_ns = LEAST_INTERVAL_MS * 1000000ull;
    monitor->client_again_ns = now + (rest_ns > least_ns ? rest_ns : least_ns);
    monitor->client_due_ns = now + (rest_ns > monitor->interval_ns ? rest_ns : monitor->interval_ns);
}

/* When a monitor gets what tells of workers; UINT64_MAX: never. */
static uint64_t tells_of_workers_ns(const gt_monitor *monitor)
{
    uint64_t stats = monitor->topics & GT_TOPIC_STATS ? monitor->stats_due_ns : UINT64_MAX;
    uint64_t client = monitor->client ? monitor->client_due_ns : UINT64_MAX;
    return stats < client ? stats : client;
}

/* Workers that have to be asked are asked a little before: their answers are fresh then. */
static void ask_ahead(gt_dispatcher *dispatcher, uint64_t now)
{
    bool ask = false;
    for (gt_monitor *monitor = dispatcher->monitors; monitor; monitor = monitor->next) {
        uint64_t due_ns = tells_of_workers_ns(monitor);
        if (monitor->asked || due_ns == UINT64_MAX || now + GT_REPORT_PROMPT_NS < due_ns)
            continue;
        ask = monitor->asked = true;
    }
    if (ask)
        gt__reports_ask(dispatcher);
}

/* A monitor that asks waits for the workers that were asked, and no longer than for them. */
static void hasten(gt_dispatcher *dispatcher)
{
    bool answered = false;
    for (gt_monitor *monitor = dispatcher->monitors; monitor; monitor = monitor->next) {
        if (!monitor->prompt)
            continue;
        if (!answered && gt__reports_outstanding(dispatcher))
            return;
        answered = true;
        monitor->prompt = false;
        if (monitor->stats_again_ns < monitor->stats_due_ns)
            monitor->stats_due_ns = monitor->stats_again_ns;
        if (monitor->client_again_ns < monitor->client_due_ns)
            monitor->client_due_ns = monitor->client_again_ns;
    }
}

/* Answers of workers are late: have the statistics that are due wait a little. */
static void postpone(gt_dispatcher *dispatcher, uint64_t now)
{
    if (!gt__reports_awaited(dispatcher))
        return;
    for (gt_monitor *monitor = dispatcher->monitors; monitor; monitor = monitor->next)
        if (monitor->topics & GT_TOPIC_STATS && now >= monitor->stats_due_ns && monitor->postponed < POSTPONED) {
            monitor->postponed++;
            monitor->stats_due_ns = now + POSTPONED_MS * 1000000ull;
        }
}

void gt__monitors_turn(gt_dispatcher *dispatcher)
{
    uint64_t now = gt__now_ns(), due = now + TOGETHER_MS * 1000000ull;
    char *json = NULL;
    bool ask = false;
    ask_ahead(dispatcher, now);
    hasten(dispatcher);
    postpone(dispatcher, now);
    for (const gt_monitor *monitor = dispatcher->monitors; monitor && !ask; monitor = monitor->next)
        ask = monitor->topics & GT_TOPIC_STATS && now >= monitor->stats_due_ns && !monitor->rest;
    if (ask)
        gt__reports_refresh(dispatcher);
    for (gt_monitor *monitor = dispatcher->monitors; monitor; monitor = monitor->next) {
        send_rest(monitor);
        if (monitor->filled && now >= monitor->lines_due_ns && !monitor->rest)
            send_lines(monitor);
        if (ask && monitor->topics & GT_TOPIC_STATS && due >= monitor->stats_due_ns && !monitor->rest) {
            bool all =
                gt__stats_of_all(monitor->peer); /* one text for all of those that are due, or will be soon */
            char *text = all && json ? json : gt__dispatcher_stats(dispatcher, monitor->peer);
            send_text(monitor, GT_TOPIC_STATS, text);
            if (all)
                json = text;
            else
                free(text);
            monitor->stats_due_ns = now + monitor->interval_ns;
            monitor->stats_again_ns = now + LEAST_INTERVAL_MS * 1000000ull;
            monitor->asked = monitor->prompt = false;
            monitor->postponed = 0;
        }
        if (monitor->client && now >= monitor->client_due_ns && !monitor->rest)
            send_client(monitor, now);
        gt__link_flush(monitor->peer->link);
    }
    free(json);
}

int gt__monitors_timeout_ms(const gt_dispatcher *dispatcher)
{
    uint64_t due = UINT64_MAX;
    for (const gt_monitor *monitor = dispatcher->monitors; monitor; monitor = monitor->next) {
        if (monitor->rest)
            continue; /* nothing is due before that has been sent: its link wakes us when it has room */
        if (monitor->filled && monitor->lines_due_ns < due)
            due = monitor->lines_due_ns;
        if (monitor->topics & GT_TOPIC_STATS && monitor->stats_due_ns < due)
            due = monitor->stats_due_ns;
        if (monitor->client && monitor->client_due_ns < due)
            due = monitor->client_due_ns;
        uint64_t workers_ns = tells_of_workers_ns(monitor);
        if (!monitor->asked && workers_ns != UINT64_MAX && workers_ns - GT_REPORT_PROMPT_NS < due)
            due = workers_ns - GT_REPORT_PROMPT_NS;
    }
    return due == UINT64_MAX ? -1 : gt__remaining_ms(due);
}

/* ---- asking ------------------------------------------------------------------------------------------------- */

static void decide_trace(gt_dispatcher *dispatcher)
{
    bool wanted = false;
    for (const gt_monitor *monitor = dispatcher->monitors; monitor; monitor = monitor->next)
        wanted |= monitor->topics & GT_TOPIC_LINES;
    gt__observer_trace(dispatcher, wanted);
}

void gt__monitors_tell(gt_dispatcher *dispatcher, uint64_t life, uint64_t topic, const char *text)
{
    for (gt_monitor *monitor = dispatcher->monitors; monitor; monitor = monitor->next)
        if (monitor->drains == life) {
            send_text(monitor, topic, text);
            monitor->drains = topic == GT_TOPIC_ORDER_NEWS ? life : 0;
        }
}

void gt__monitors_reloaded(gt_dispatcher *dispatcher, const char *failure)
{
    char text[160];
    unsigned long long tensors = dispatcher->resharded.tensors;
    snprintf(text, sizeof text, "the server has read its files again; %llu tensor%s placed in another way now",
             tensors, tensors == 1 ? " is" : "s are");
    for (gt_monitor *monitor = dispatcher->monitors; monitor; monitor = monitor->next)
        if (monitor->reloads) {
            send_text(monitor, failure ? GT_TOPIC_ORDER_FAILED : GT_TOPIC_ORDER_DONE, failure ? failure : text);
            monitor->reloads = false;
        }
}

/* What goes wrong at once is told at once. */
static void take_order(gt_monitor *monitor, const gt_slot *record)
{
    gt_dispatcher *dispatcher = monitor->peer->dispatcher;
    char text[sizeof *record + 1] = "";
    memcpy(text, record + 1, sizeof *record);
    gt_err err = GT_OK;
    if (!gt__stats_of_all(monitor->peer))
        err =
            gt__fail(GT_ERR_CONNECTION, "only the server's own user, and holders of a worker's key, may do that");
    else if (record->ins.imm[0].u == GT_ORDERS_DRAIN) {
        err = gt__drain_order(dispatcher, text, &monitor->drains);
        if (err == GT_OK)
            send_text(monitor, GT_TOPIC_ORDER_NEWS, "the worker's tensors are moved to others; then it leaves");
    } else if (record->ins.imm[0].u == GT_ORDERS_RELOAD) {
        monitor->reloads = true;
        gt__dispatcher_reload(dispatcher); /* not here: it may end this monitor */
    } else
        err = gt__fail(GT_ERR_VALUE, "the server does not know this order");
    if (err != GT_OK)
        send_text(monitor, GT_TOPIC_ORDER_FAILED, gt_error_text());
}

gt_err gt__monitor_serve(gt_monitor *monitor, bool *progress)
{
    gt_link *link = monitor->peer->link;
    size_t available;
    const gt_slot *slots;
    for (unsigned left = A_TURN; left && (slots = gt__link_peek(link, &available)); left--) {
        unsigned length;
        gt_slot record = slots[0];
        GT_TRY(gt__instruction_check(&record, available, &length));
        if (record.ins.op == GT_OP_order) {
            gt_slot order[2] = {record, slots[1]};
            gt__link_consume(link, length);
            take_order(monitor, order);
            *progress = true;
            continue;
        }
        if (record.ins.op == GT_OP_goodbye)
            return gt__fail(GT_ERR_CONNECTION, "the monitor said goodbye");
        if (record.ins.op != GT_OP_watch)
            return gt__fail(GT_ERR_PROTOCOL, "a monitor may not send %s", gt__op_table[record.ins.op].name);
        gt__link_consume(link, length);
        uint64_t interval_ms = record.ins.imm[1].u < LEAST_INTERVAL_MS ? LEAST_INTERVAL_MS : record.ins.imm[1].u;
        monitor->interval_ns = (interval_ms < 3600000 ? interval_ms : 3600000) * 1000000;
        monitor->topics = record.ins.imm[0].u;
        monitor->client = monitor->topics & (GT_TOPIC_CLIENT | GT_TOPIC_PROGRESS) ? record.ins.operand[0] : 0;
        monitor->client_due_ns = monitor->client_again_ns;
        if (!gt__stats_of_all(monitor->peer) && monitor->topics & GT_TOPIC_LINES)
            return gt__fail(GT_ERR_CONNECTION,
                            "only the server's own user, and holders of a worker's key, may trace "
                            "the instructions of all clients");
        monitor->stats_due_ns = monitor->stats_again_ns;
        if (monitor->topics & (GT_TOPIC_STATS | GT_TOPIC_CLIENT | GT_TOPIC_PROGRESS) &&
            gt__now_ns() >= monitor->asks_again_ns && gt__reports_ask(monitor->peer->dispatcher)) {
            monitor->asked = monitor->prompt = true;
            monitor->asks_again_ns = gt__now_ns() + LEAST_INTERVAL_MS * 1000000ull;
            uint64_t reported_ns = gt__now_ns() + GT_REPORT_PROMPT_NS + 1000000;
            monitor->stats_due_ns = reported_ns > monitor->stats_due_ns ? reported_ns : monitor->stats_due_ns;
            monitor->client_due_ns = reported_ns > monitor->client_due_ns ? reported_ns : monitor->client_due_ns;
        }
        decide_trace(monitor->peer->dispatcher);
        *progress = true;
    }
    return link->dead ? gt__fail(GT_ERR_CONNECTION, "%s", link->reason) : GT_OK;
}

/* ---- life --------------------------------------------------------------------------------------------------- */

gt_err gt__monitor_new(gt_peer *peer)
{
    gt_monitor *monitor = calloc(1, sizeof *monitor);
    if (!monitor)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    monitor->peer = peer;
    monitor->next = peer->dispatcher->monitors;
    peer->dispatcher->monitors = monitor;
    peer->monitor = monitor;
    gt__peer_log(peer, GT_LOG_STATUS, "connected by %s", gt__link_name(peer->link));
    return GT_OK;
}

void gt__monitor_free(gt_monitor *monitor)
{
    gt_dispatcher *dispatcher = monitor->peer->dispatcher;
    gt_monitor **where = &dispatcher->monitors;
    while (*where != monitor)
        where = &(*where)->next;
    *where = monitor->next;
    monitor->peer->monitor = NULL;
    free(monitor->rest);
    free(monitor);
    decide_trace(dispatcher);
}

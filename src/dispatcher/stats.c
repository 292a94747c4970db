/*
 * stats.c: the dispatcher's statistics as JSON, for gt.debug and monitors (monitor.h). Counters only grow.
 *
 *   instructions, turns, sleeps, cpu_seconds, seconds       the dispatcher: since it started
 *   workers[]  name, engine, index, link, draining          the worker; draining: it gets no new clients
 *              exchange                                     how it passes data to other workers: local, mesh or ucx; +nccl: and collectives
 *              instructions, records, sessions, tensors,    the dispatcher's counts: sent to it, living on it, and answers
 *              pending, queue                               owed; instructions for it that are not executed yet, also those that wait
 *                                                           in the links of clients whose home it is
 *              doing{}                                      the op that it executes, also in a hot path (the path's seconds, then),
 *                                                           for how long, the client and its line
 *                                                           and scope, as far as they are known; null: none is known.
 *                                                           path{}, as for clients
 *              busy_seconds, idle_seconds, ops{}, memory{}  from its statement, or its last report (report.h); all 0 before
 *              paths{}                                      the first. Hot paths, the same
 *              device{}                                     its graphics card: name, utilisation (0 to 1), celsius, watts,
 *                                                           memory_used and memory_total (bytes, of all processes); those
 *                                                           that the driver does not tell are null. null: it has no card
 *   clients[]  number, name, link, user, host, worker (its home; "+": it uses others, too), instructions, queued, seconds, weight, tensors, bytes, modifiers{}, paths{};
 *              queued: not executed yet, as far as the worker has answered; waiting: emitted, and not taken by the dispatcher
 *              yet: the client's link holds them, or its quota; seconds: of workers' time until now (share.h)
 *              line, scope: of its last instruction that a worker was seen executing; "": not known. path{}: number and
 *              instructions of the hot path that it was; null: none. Of a path, line is its lines, and scope all its scopes
 *              detached: it has no client for now (live/handover.h); `line` says for how long it is kept. So it does for a
 *              client that has lost its connection
 *              traffic{}, also of workers: sent and received bytes and records, over its link; sent: to it
 *   links[]    link, role, and the same: of all clients and workers that are and were there
 *   errors[]   the last failures that clients were told of (observe/failures.c)
 */
#include "dispatcher/live/handover.h"
#include "dispatcher/stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dispatcher/observe/failures.h"
#include "dispatcher/observe/link_traffic.h"
#include "dispatcher/observe/path_place.h"
#include "dispatcher/session.h"
#include "dispatcher/spread/spread.h"
#include "dispatcher/state.h"
#include "dispatcher/workers.h"

/* Bytes of the character of valid UTF-8 that begins here; 0: there is none. *code is its number. */
static unsigned decode_character(const unsigned char *at, unsigned *code)
{
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned length = *at < 0x80 ? 1 : *at >> 5 == 6 ? 2 : *at >> 4 == 14 ? 3 : *at >> 3 == 30 ? 4 : 0;
    *code = length == 1 ? *at : *at & (0x7fu >> length);
    for (unsigned k = 1; k < length; k++) {
        if (at[k] >> 6 != 2)
            return 0;
        *code = *code << 6 | (at[k] & 0x3fu);
    }
    bool valid = length && *code >= least[length] && *code <= 0x10ffff && *code >> 11 != 0x1b; /* no surrogate */
    return valid ? length : 0;
}

void gt__stats_name(FILE *json, const char *name)
{
    for (unsigned length, code; *name; name += length) {
        length = decode_character((const unsigned char *)name, &code);
        if (length && (code < ' ' || (code >= 127 && code < 160)))
            continue; /* control characters: terminals obey them */
        if (length && (code == '"' || code == '\\'))
            fputc('\\', json);
        fwrite(length ? name : "\xef\xbf\xbd", 1, length ? length : 3, json);
        length = length ? length : 1;
    }
}

static double seconds(uint64_t ns)
{
    return (double)ns * 1e-9;
}

static uint64_t up_ns(const gt_dispatch_worker *worker)
{
    return worker->reported.report.up_ns + worker->reported.silent_ns;
}

static uint64_t busy_ns(const gt_dispatch_worker *worker)
{
    uint64_t up = up_ns(worker), idle = worker->reported.report.idle_ns;
    return up > idle ? up - idle : 0;
}

/* "ops": {"add": {"count": 3, "seconds": 0.000001, "bytes": 96}, ...}. "on_host" is there if it is not 0. */
static void write_report(FILE *json, const gt_dispatch_worker *worker)
{
    const gt_report *report = &worker->reported.report;
    uint64_t up = up_ns(worker), busy = busy_ns(worker), total = 0, bytes = 0;
    const char *separator = "";
    fputs("\"ops\": {", json);
    for (unsigned k = 0; k < worker->reported.row_count; k++) {
        const gt_report_row *row = &worker->reported.rows[k];
        total += row->op < GT_OP_FIRST_CONTROL ? row->count : 0;
        bytes += row->bytes;
        fprintf(json, "%s\"%s\": {\"count\": %llu, \"seconds\": %.9f, \"bytes\": %llu", separator,
                gt__op_table[row->op].name, (unsigned long long)row->count, seconds(row->ns),
                (unsigned long long)row->bytes);
        if (row->on_host)
            fprintf(json, ", \"on_host\": %u", (unsigned)row->on_host);
        fputc('}', json);
        separator = ", ";
    }
    fprintf(json,
            "}, \"total_instructions\": %llu, \"hot_instructions\": null, \"unique_sequences\": null, "
            "\"hot_sequences\": null, "
            "\"up_seconds\": %.6f, \"busy_seconds\": %.6f, \"idle_seconds\": %.6f, \"bytes\": %llu, \"memory\": "
            "{\"tensors\": %llu, \"used\": %llu, \"pooled\": %llu, \"limit\": %llu}, \"paths\": {\"runs\": %llu, "
            "\"fallbacks\": %llu, \"plans\": %llu, \"compiled\": %llu, \"compile_seconds\": %.6f}",
            (unsigned long long)total, seconds(up), seconds(busy), seconds(report->idle_ns),
            (unsigned long long)bytes, (unsigned long long)report->tensors, (unsigned long long)report->bytes_used,
            (unsigned long long)report->bytes_pooled, (unsigned long long)report->bytes_limit,
            (unsigned long long)report->path_runs, (unsigned long long)report->path_fallbacks,
            (unsigned long long)report->path_plans, (unsigned long long)report->path_programs,
            seconds(report->path_compile_ns));
}

static void write_sensor(FILE *json, const char *name, bool known, double value)
{
    if (known)
        fprintf(json, ", \"%s\": %.15g", name, value);
    else
        fprintf(json, ", \"%s\": null", name);
}

static void write_device(FILE *json, const gt_report *report)
{
    gt_card card;
    char name[GT_CARD_NAME + 1] = "";
    gt__card_unpack(report->card, &card);
    if (!(card.known & GT_CARD_THERE)) {
        fputs(", \"device\": null", json);
        return;
    }
    memcpy(name, report->card_name, GT_CARD_NAME);
    fputs(", \"device\": {\"name\": \"", json);
    gt__stats_name(json, name);
    fputc('"', json);
    write_sensor(json, "utilisation", card.known & GT_CARD_BUSY, card.busy);
    write_sensor(json, "celsius", card.known & GT_CARD_CELSIUS, card.celsius);
    write_sensor(json, "watts", card.known & GT_CARD_WATTS, card.watts);
    write_sensor(json, "memory_used", card.known & GT_CARD_MEMORY, (double)report->card_used);
    write_sensor(json, "memory_total", card.known & GT_CARD_MEMORY, (double)report->card_memory);
    fputc('}', json);
}

/* The session whose record the worker executes, or executed last; NULL: it is not known, or gone. */
static gt_session *session_at(const gt_dispatch_worker *worker)
{
    const gt_reported *reported = &worker->reported;
    for (const gt_peer *peer = reported->line ? worker->peer->dispatcher->peers : NULL; peer; peer = peer->next)
        if (peer->session && (uint32_t)peer->session->number == reported->line >> 32)
            return peer->session;
    return NULL;
}

/* Where a worker is in the program of the session that it works for. */
static gt_seen place_of(const gt_session *session, const gt_dispatch_worker *worker)
{
    const gt_reported *reported = &worker->reported;
    gt_seen seen = {.scope = reported->scope, .site = (uint32_t)reported->line};
    if (seen.site & GT_LINE_PATH) {
        seen.path = seen.scope ? (uint32_t)(gt__paths_on(session, worker, seen.scope - 1) + 1) : 0;
        seen.scope = 0;
    }
    return seen;
}

/* "line": "train.py:12", "scope": "forward", "path": null; "" where they are not known. Of a hot path: "train.py:12-20", all its
 * scopes, and its number and instructions. */
static void write_place(FILE *json, const gt_session *session, const gt_seen *seen)
{
    const char *line = gt__session_site(session, seen->site & ~(uint32_t)GT_LINE_PATH);
    const char *name = gt__spread_scope_name(session, seen->scope);
    const gt_path_place *path = seen->path ? gt__path_place(session, seen->path - 1) : NULL;
    fputs("\"line\": \"", json);
    gt__stats_name(json, path && *path->lines ? path->lines : line ? line : "");
    fputs("\", \"scope\": \"", json);
    gt__stats_name(json, path ? path->scopes : name ? name : "");
    if (path)
        fprintf(json, "\", \"path\": {\"number\": %u, \"instructions\": %u}", seen->path - 1, path->instructions);
    else
        fputs("\", \"path\": null", json);
}

static void write_doing(FILE *json, const gt_dispatch_worker *worker, const gt_peer *viewer)
{
    const gt_reported *reported = &worker->reported;
    if (!reported->doing) {
        fputs("\"doing\": null, ", json);
        return;
    }
    const gt_session *session = session_at(worker);
    fprintf(json, "\"doing\": {\"op\": \"%s\", \"seconds\": %.6f",
            gt__op_table[reported->step ? reported->step : reported->doing].name, seconds(reported->doing_ns));
    if (session && gt__stats_may_see(viewer, session->peer)) {
        fprintf(json, ", \"client\": %llu, ", (unsigned long long)session->number);
        gt_seen seen = place_of(session, worker);
        write_place(json, session, &seen);
    }
    fputs("}, ", json);
}

static void write_worker(FILE *json, const gt_dispatch_worker *worker, const gt_peer *viewer)
{
    fputs("{\"name\": \"", json);
    gt__stats_name(json, worker->name);
    fputs("\", \"engine\": \"", json);
    gt__stats_name(json, worker->engine);
    fprintf(json,
            "\", \"index\": %d, \"instructions\": %llu, \"records\": %llu, \"sessions\": %llu, \"tensors\": %u, "
            "\"pending\": %u, \"queue\": %llu, \"moves\": %llu, \"collectives\": %llu, \"gathers\": %llu, "
            "\"bytes_moved\": %llu, \"link\": \"%s\", \"exchange\": \"%s\", \"draining\": %s, ",
            worker->index, (unsigned long long)worker->instructions, (unsigned long long)worker->records,
            (unsigned long long)worker->sessions, gt__slot_numbers_used(&worker->slots), worker->pendings.count,
            (unsigned long long)(worker->reported.queue + worker->reported.waiting),
            (unsigned long long)worker->traffic.moves, (unsigned long long)worker->traffic.collectives,
            (unsigned long long)worker->traffic.gathers, (unsigned long long)worker->traffic.bytes,
            gt__link_name(worker->link), worker->exchange ? worker->exchange : "",
            worker->draining || worker->leaving.wanted ? "true" : "false");
    gt__link_traffic_write(worker->peer, json);
    fputs(", ", json);
    write_doing(json, worker, viewer);
    write_report(json, worker);
    write_device(json, &worker->reported.report);
    fputc('}', json);
}

enum {
    PATIENCE_NS = 100000, /* sums that take longer than that are kept, */
    KEPT_FOR = 20,        /* for so many times as long as they took, so that they take a small part of the time */
};

/* The bytes of a session's tensors. They are not counted as they come and go, which would cost every record something.
 * The sum of a million takes milliseconds: it is kept, so that asking often does not hold up the others. */
static uint64_t bytes_of(gt_session *session)
{
    gt_counted *counted = &session->counted;
    uint64_t now = gt__now_ns();
    bool old = counted->took_ns < PATIENCE_NS || now - counted->at_ns > KEPT_FOR * counted->took_ns;
    if (counted->at_ns && (counted->instructions == session->instructions || !old))
        return counted->bytes;
    uint32_t cursor = 0;
    const gt_handle *handle;
    counted->bytes = 0;
    while ((handle = gt__handles_next(&session->handles, &cursor)))
        counted->bytes += gt__meta_bytes(&handle->meta);
    counted->instructions = session->instructions;
    counted->at_ns = gt__now_ns();
    counted->took_ns = counted->at_ns - now;
    return counted->bytes;
}

/* Whether it has sent anything to other workers than its home. Scopes without a configuration do not. */
static bool uses_others(const gt_session *session)
{
    const gt_spreading *spreading = session->spreading;
    for (int32_t index = 0; spreading && index < spreading->reached_capacity; index++)
        if (spreading->reached[index] && session->dispatcher->workers[index] != session->home)
            return true;
    return false;
}

/* Workers tell now and then how far they are: a worker that has executed everything is known to sooner by its statement. */
static uint64_t queued_of(const gt_session *session)
{
    const gt_dispatch_worker *home = session->home;
    bool is_done = home && home->reported.report.up_ns && !home->reported.queue && !uses_others(session);
    return is_done ? 0 : session->account.queued;
}

static void write_client(FILE *json, gt_session *session)
{
    fprintf(json, "{\"number\": %llu, \"name\": \"", (unsigned long long)session->number);
    gt__stats_name(json, session->name);
    fputs("\", \"user\": \"", json);
    gt__stats_name(json, session->link->user);
    fputs("\", \"host\": \"", json);
    gt__stats_name(json, *session->link->host ? session->link->host : "localhost");
    fputs("\", \"worker\": \"", json);
    if (session->home)
        gt__stats_name(json, session->home->name);
    fprintf(json,
            "%s\", \"instructions\": %llu, \"queued\": %llu, \"waiting\": %llu, \"seconds\": %.6f, \"weight\": "
            "%g, \"tensors\": %u, "
            "\"bytes\": %llu, "
            "\"link\": \"%s\", \"detached\": %s, ",
            uses_others(session) ? "+" : "", (unsigned long long)session->instructions,
            (unsigned long long)queued_of(session), (unsigned long long)session->seen.waiting,
            session->account.shown_ns * 1e-9, session->account.weight, session->handles.count,
            (unsigned long long)bytes_of(session), gt__link_name(session->link),
            gt__session_is_detached(session) ? "true" : "false");
    int away_ms = gt__link_away_ms(session->link);
    if (gt__session_is_detached(session))
        fprintf(json, "\"line\": \"detached, for %.0f s more\", \"scope\": \"\", \"path\": null",
                gt__handover_left_s(session));
    else if (away_ms >= 0)
        fprintf(json, "\"line\": \"connection lost, waits %.0f s more\", \"scope\": \"\", \"path\": null",
                away_ms * 1e-3);
    else
        write_place(json, session, &session->seen);
    fputs(", ", json);
    gt__link_traffic_write(session->peer, json);
    fputs(", \"modifiers\": ", json);
    gt__chain_stats(session->chain, json);
    fputs(", \"paths\": ", json);
    gt__paths_stats(session, json);
    fputc('}', json);
}

bool gt__stats_of_all(const gt_peer *viewer)
{
    return !viewer->stranger || viewer->link->trust == GT_TRUST_USER || viewer->link->trust == GT_TRUST_WORKER;
}

bool gt__stats_may_see(const gt_peer *viewer, const gt_peer *peer)
{
    return gt__stats_of_all(viewer) || !strcmp(viewer->link->user, peer->link->user);
}

/* Note the lines of the sessions that workers are executing, and the time that they have used. */
static void see_sessions(const gt_dispatcher *dispatcher)
{
    for (int32_t index = 0; index < dispatcher->worker_count; index++)
        dispatcher->workers[index]->reported.waiting = 0;
    for (const gt_peer *peer = dispatcher->peers; peer; peer = peer->next) {
        gt_session *session = peer->session;
        if (!session)
            continue;
        gt__share_look_begin(&session->account);
        session->seen.waiting = session->link->ops->unread(session->link);
        if (session->home)
            session->home->reported.waiting += session->seen.waiting;
    }
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        gt_dispatch_worker *worker = dispatcher->workers[index];
        if (!worker->peer)
            continue;
        gt_session *session = session_at(worker);
        if (session) {
            uint64_t waiting = session->seen.waiting;
            session->seen = place_of(session, worker);
            session->seen.waiting = waiting;
        }
        gt__share_look(worker, session, busy_ns(worker));
    }
    for (const gt_peer *peer = dispatcher->peers; peer; peer = peer->next)
        if (peer->session)
            gt__share_look_end(&peer->session->account);
}

char *gt__dispatcher_stats(const gt_dispatcher *dispatcher, const gt_peer *viewer)
{
    char *text = NULL;
    size_t size = 0;
    FILE *json = open_memstream(&text, &size);
    if (!json)
        return NULL;
    see_sessions(dispatcher);
    uint64_t instructions = dispatcher->past_instructions;
    for (const gt_peer *peer = dispatcher->peers; peer; peer = peer->next)
        instructions += peer->session ? peer->session->instructions : 0;
    struct timespec cpu;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    fprintf(
        json,
        "{\"instructions\": %llu, \"turns\": %llu, \"sleeps\": %llu, \"cpu_seconds\": %.6f, \"seconds\": %.6f, "
        "\"recoveries\": %llu, \"snapshots\": %llu, \"workers\": [",
        (unsigned long long)instructions, (unsigned long long)dispatcher->turns,
        (unsigned long long)dispatcher->sleeps, (double)cpu.tv_sec + (double)cpu.tv_nsec * 1e-9,
        (double)(gt__now_ns() - dispatcher->started_ns) * 1e-9, (unsigned long long)dispatcher->recovery.count,
        (unsigned long long)dispatcher->recovery.snapshots);
    const char *separator = "";
    for (int32_t index = 0; index < dispatcher->worker_count; index++)
        if (dispatcher->workers[index]->peer) {
            fputs(separator, json);
            write_worker(json, dispatcher->workers[index], viewer);
            separator = ", ";
        }
    fputs("], \"clients\": [", json);
    separator = "";
    for (const gt_peer *peer = dispatcher->peers; peer; peer = peer->next)
        if (peer->session && gt__stats_may_see(viewer, peer)) {
            fputs(separator, json);
            write_client(json, peer->session);
            separator = ", ";
        }
    fputs("], ", json);
    gt__link_traffic_write_all(dispatcher, json);
    fputs(", \"errors\": ", json);
    gt__failures_write(dispatcher, viewer, json);
    fputc('}', json);
    if (fclose(json)) { /* out of memory: the text is not complete */
        free(text);
        return NULL;
    }
    return text;
}

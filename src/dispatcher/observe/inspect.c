/*
 * inspect.c: one client in detail, as JSON. See inspect.h; monitor.c sends it (GT_TOPIC_CLIENT).
 *
 *   number, found                             found: false if there is no such client, or the monitor may not see it; then
 *                                             there is nothing else
 *   name, user, tensors, bytes                as in the statistics (stats.c)
 *   largest[]  id, dtype, shape[], bytes,     its largest tensors, the largest first. place: as Tensor.placement says it.
 *              place, line, scope             line: the line of the program that made it; "": not known. scope: its signal
 *   lines[]    line, path, seconds, count,    the lines that workers spent time on for it (path: a hot path, "train.py:41-58", and
 *              tensors, bytes                 count is its runs), and that made its tensors, in the order of seconds and bytes.
 *                                             Seconds are measured or sampled by the workers, as far as their links have a
 *                                             page (core/report.h)
 *   paths[]    number, instructions, ops[],   its hot paths; ops: the first of their operations. group: by op, where the path was
 *              compiled, seconds, group[]     compiled: those of one group run as one. seconds: that compiling took. compiled: null if the
 *                                             worker has not said
 *
 * Tensors that share memory count each by itself, as in the statistics.
 */
#include "dispatcher/observe/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatcher/observe/path_place.h"
#include "dispatcher/session.h"
#include "dispatcher/spread/spread.h"
#include "dispatcher/state.h"
#include "dispatcher/stats.h"
#include "dispatcher/workers.h"

enum {
    LARGEST = 100, /* tensors that are listed */
    LINES = 100,   /* and lines: so many by seconds, and by bytes */
};

/* A line of the client's program. */
typedef struct line_sums {
    uint32_t site;
    const char *text; /* "": not known */
    bool path, listed;
    uint64_t tensors, bytes, ns, count;
} line_sums;

typedef struct inspection {
    const gt_session *session;
    const gt_handle *largest[LARGEST]; /* in descending order of bytes */
    unsigned largest_count;
    line_sums *line; /* by site, from 0 (unknown) to site_count, then the hot paths that begin there */
    uint32_t site_count;
    uint64_t bytes;
} inspection;

static void keep_largest(inspection *seen, const gt_handle *handle, uint64_t bytes)
{
    unsigned at = seen->largest_count;
    if (at == LARGEST && bytes <= gt__meta_bytes(&seen->largest[LARGEST - 1]->meta))
        return;
    if (at == LARGEST)
        at--;
    else
        seen->largest_count++;
    for (; at && gt__meta_bytes(&seen->largest[at - 1]->meta) < bytes; at--)
        seen->largest[at] = seen->largest[at - 1];
    seen->largest[at] = handle;
}

static void look_at_tensors(inspection *seen, gt_session *session)
{
    uint32_t cursor = 0;
    const gt_handle *handle;
    while ((handle = gt__handles_next(&session->handles, &cursor))) {
        uint64_t bytes = gt__meta_bytes(&handle->meta);
        line_sums *line = &seen->line[handle->site <= seen->site_count ? handle->site : 0];
        line->tensors++;
        line->bytes += bytes;
        seen->bytes += bytes;
        keep_largest(seen, handle, bytes);
    }
}

static void write_line(FILE *json, const gt_session *session, uint32_t site)
{
    const char *line = gt__session_site(session, site);
    fputs("\"line\": \"", json);
    gt__stats_name(json, line ? line : "");
    fputc('"', json);
}

static void write_tensor(FILE *json, gt_session *session, const gt_handle *handle)
{
    char place[1024];
    const char *scope = gt__spread_scope_name(session, handle->scope);
    fprintf(json, "{\"id\": %llu, \"dtype\": \"%s\", \"shape\": [", (unsigned long long)handle->id,
            gt__dtype_name((gt_dtype)handle->meta.dtype));
    for (unsigned k = 0; k < handle->meta.rank; k++)
        fprintf(json, "%s%lld", k ? ", " : "", (long long)handle->meta.shape[k]);
    fprintf(json, "], \"bytes\": %llu, \"place\": \"%s\", ", (unsigned long long)gt__meta_bytes(&handle->meta),
            gt__spread_text(session, handle, place, sizeof place));
    write_line(json, session, handle->site);
    fputs(", \"scope\": \"", json);
    gt__stats_name(json, scope ? scope : "");
    fputs("\"}", json);
}

static void look_at_workers(inspection *seen, const gt_session *session)
{
    const gt_dispatcher *dispatcher = session->dispatcher;
    gt_line lines[GT_LINES];
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        const gt_dispatch_worker *worker = dispatcher->workers[index];
        unsigned count = worker->peer ? gt__reports_lines(worker, lines) : 0;
        for (unsigned k = 0; k < count; k++) {
            uint32_t site = (uint32_t)lines[k].key & ~(uint32_t)GT_LINE_PATH;
            bool path = lines[k].key & GT_LINE_PATH;
            if (lines[k].key >> 32 != (uint32_t)session->number || site > seen->site_count)
                continue;
            line_sums *line = &seen->line[site + (path ? seen->site_count + 1 : 0)];
            line->ns += lines[k].ns;
            line->count += lines[k].count;
        }
    }
}

static int by_seconds(const void *left, const void *right)
{
    const line_sums *a = left, *b = right;
    return (a->ns < b->ns) - (a->ns > b->ns);
}

static int by_bytes(const void *left, const void *right)
{
    const line_sums *a = left, *b = right;
    return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

static int by_both(const void *left, const void *right)
{
    const line_sums *a = left, *b = right;
    int order = by_seconds(a, b) ? by_seconds(a, b) : by_bytes(a, b);
    return order ? order : (a->site > b->site) - (a->site < b->site);
}

static int by_text(const void *left, const void *right)
{
    const line_sums *a = left, *b = right;
    return a->path != b->path ? a->path - b->path : strcmp(a->text, b->text);
}

/* Statements on one line have sites of their own: add them up. Paths that begin there are shown apart. Returns how many are left. */
static uint32_t merge_lines(line_sums *lines, uint32_t count)
{
    uint32_t kept = 0;
    qsort(lines, count, sizeof *lines, by_text);
    for (uint32_t k = 0; k < count; k++) {
        line_sums *last = kept ? &lines[kept - 1] : NULL;
        if (!last || lines[k].path || by_text(last, &lines[k])) {
            lines[kept++] = lines[k];
            continue;
        }
        last->tensors += lines[k].tensors;
        last->bytes += lines[k].bytes;
        last->ns += lines[k].ns;
        last->count += lines[k].count;
        last->site = lines[k].site < last->site ? lines[k].site : last->site;
    }
    return kept;
}

/* Mark the first LINES lines in this order. */
static void list_first(line_sums *lines, uint32_t count, int (*order)(const void *, const void *))
{
    qsort(lines, count, sizeof *lines, order);
    for (uint32_t k = 0; k < count && k < LINES; k++)
        lines[k].listed = true;
}

static void write_lines(FILE *json, inspection *seen)
{
    uint32_t used = 0, sites = seen->site_count + 1;
    for (uint32_t k = 0; k < 2 * sites; k++)
        if (seen->line[k].tensors || seen->line[k].count) {
            seen->line[used] = seen->line[k];
            const char *text = gt__session_site(seen->session, k % sites);
            seen->line[used].site = k % sites;
            seen->line[used].text = text ? text : "";
            seen->line[used++].path = k >= sites;
        }
    used = merge_lines(seen->line, used);
    list_first(seen->line, used, by_seconds);
    list_first(seen->line, used, by_bytes);
    qsort(seen->line, used, sizeof *seen->line, by_both);
    const char *separator = "{";
    for (const line_sums *line = seen->line; line < seen->line + used; line++) {
        if (!line->listed)
            continue;
        int32_t path = line->path ? gt__paths_from(seen->session, line->site) : -1;
        const gt_path_place *place = path >= 0 ? gt__path_place(seen->session, (uint32_t)path) : NULL;
        fputs(separator, json);
        if (place) {
            fputs("\"line\": \"", json);
            gt__stats_name(json, place->lines);
            fputc('"', json);
        } else
            write_line(json, seen->session, line->site);
        fprintf(json, ", \"path\": %s, \"seconds\": %.6f, \"count\": %llu, \"tensors\": %llu, \"bytes\": %llu}",
                line->path ? "true" : "false", (double)line->ns * 1e-9, (unsigned long long)line->count,
                (unsigned long long)line->tensors, (unsigned long long)line->bytes);
        separator = ", {";
    }
}

static gt_err write_client(FILE *json, gt_session *session)
{
    inspection seen = {.session = session, .site_count = session->sites.count};
    seen.line = calloc(2 * ((size_t)seen.site_count + 1), sizeof *seen.line);
    if (!seen.line)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    look_at_tensors(&seen, session);
    look_at_workers(&seen, session);
    fputs(", \"name\": \"", json);
    gt__stats_name(json, session->name);
    fputs("\", \"user\": \"", json);
    gt__stats_name(json, session->link->user);
    fprintf(json, "\", \"tensors\": %u, \"bytes\": %llu, \"largest\": [", session->handles.count,
            (unsigned long long)seen.bytes);
    for (unsigned k = 0; k < seen.largest_count; k++) {
        fputs(k ? ", " : "", json);
        write_tensor(json, session, seen.largest[k]);
    }
    fputs("], \"lines\": [", json);
    write_lines(json, &seen);
    fputs("], \"paths\": ", json);
    gt__paths_inspect(session, json);
    free(seen.line);
    return GT_OK;
}

/* NULL: there is no such client, or the viewer may not see it. */
static gt_session *find_session(const gt_dispatcher *dispatcher, const gt_peer *viewer, uint64_t number)
{
    for (const gt_peer *peer = dispatcher->peers; peer; peer = peer->next)
        if (peer->session && peer->session->number == number && gt__stats_may_see(viewer, peer))
            return peer->session;
    return NULL;
}

char *gt__inspect_client(const gt_dispatcher *dispatcher, const gt_peer *viewer, uint64_t number)
{
    char *text = NULL;
    size_t size = 0;
    FILE *json = open_memstream(&text, &size);
    if (!json)
        return NULL;
    gt_session *session = find_session(dispatcher, viewer, number);
    fprintf(json, "{\"number\": %llu, \"found\": %s", (unsigned long long)number, session ? "true" : "false");
    gt_err err = session ? write_client(json, session) : GT_OK;
    fputc('}', json);
    if (fclose(json) || err != GT_OK) { /* out of memory: the text is not complete */
        free(text);
        return NULL;
    }
    return text;
}

/* ---- progress ----------------------------------------------------------------------------------------------- */

/* ", worker_0: matmul for 3.2 s at train.py:5" for a worker that executes something of the session, or is its home. */
static size_t write_worker(const gt_session *session, const gt_dispatch_worker *worker, char *text, size_t size)
{
    const gt_reported *reported = &worker->reported;
    uint32_t site = (uint32_t)reported->line & ~(uint32_t)GT_LINE_PATH;
    const char *op = reported->doing == GT_OP_repeat ? "a hot path" : gt__op_table[reported->doing].name;
    const char *line = gt__session_site(session, site);
    double seconds = (double)reported->doing_ns * 1e-9;
    bool ours = reported->line >> 32 == (uint32_t)session->number && reported->doing;
    int32_t number = ours && reported->scope && (uint32_t)reported->line & GT_LINE_PATH
                         ? gt__paths_on(session, worker, reported->scope - 1)
                         : -1;
    const gt_path_place *path = number >= 0 ? gt__path_place(session, (uint32_t)number) : NULL;
    if (path)
        return (size_t)snprintf(text, size, ", %s: path %d for %.1f s: %s, %u instructions%s%s", worker->name,
                                number, seconds, path->lines, path->instructions, *path->scopes ? " in " : "",
                                path->scopes);
    if (ours)
        return (size_t)snprintf(text, size, ", %s: %s for %.1f s%s%s", worker->name, op, seconds,
                                line ? " at " : "", line ? line : "");
    if (worker != session->home)
        return 0;
    if (reported->silent_ns)
        return (size_t)snprintf(text, size, ", %s: busy for %.1f s", worker->name,
                                (double)reported->silent_ns * 1e-9);
    return (size_t)snprintf(text, size, reported->doing ? ", %s works for another client" : ", %s", worker->name);
}

char *gt__inspect_progress(const gt_dispatcher *dispatcher, const gt_peer *viewer, uint64_t number, char *line,
                           size_t size)
{
    const gt_session *session = find_session(dispatcher, viewer, number);
    line[0] = 0;
    if (!session)
        return line;
    if (!session->home) {
        snprintf(line, size, "no worker is there");
        return line;
    }
    uint64_t left = session->account.queued + session->link->ops->unread(session->link);
    size_t used =
        (size_t)snprintf(line, size, "%llu instruction%s left", (unsigned long long)left, left == 1 ? "" : "s");
    for (int32_t index = 0; index < dispatcher->worker_count && used < size; index++)
        if (dispatcher->workers[index]->peer)
            used += write_worker(session, dispatcher->workers[index], line + used, size - used);
    return line;
}

/*
 * inspect.c: one client in detail, as JSON. See inspect.h; monitor.c sends it (GT_TOPIC_CLIENT).
 *
 *   number, found                             found: false if there is no such client, or the monitor may not see it; then
 *                                             there is nothing else
 *   name, user, tensors, bytes                as in the statistics (stats.c)
 *   largest[]  id, dtype, shape[], bytes,     its largest tensors, the largest first. place: as Tensor.placement says it.
 *              place, line, scope             line: the line of the program that made it; "": not known. scope: its signal
 *   lines[]    line, tensors, bytes           the lines that made its tensors, in the order of bytes
 *
 * Tensors that share memory count each by itself, as in the statistics.
 */
#include "dispatcher/observe/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatcher/session.h"
#include "dispatcher/spread/spread.h"
#include "dispatcher/state.h"
#include "dispatcher/stats.h"

enum {
    LARGEST = 100, /* tensors that are listed */
    LINES = 200,   /* and lines */
};

/* A line of the client's program. */
typedef struct line_sums {
    uint32_t site;
    uint64_t tensors, bytes;
} line_sums;

typedef struct inspection {
    const gt_session *session;
    const gt_handle *largest[LARGEST]; /* in descending order of bytes */
    unsigned largest_count;
    line_sums *line; /* by site, from 0 (unknown) to site_count */
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

static int by_bytes(const void *left, const void *right)
{
    const line_sums *a = left, *b = right;
    return a->bytes != b->bytes ? (a->bytes < b->bytes) - (a->bytes > b->bytes)
                                : (a->site > b->site) - (a->site < b->site);
}

static void write_lines(FILE *json, inspection *seen)
{
    uint32_t used = 0;
    for (uint32_t site = 0; site <= seen->site_count; site++)
        if (seen->line[site].tensors) {
            seen->line[used] = seen->line[site];
            seen->line[used++].site = site;
        }
    qsort(seen->line, used, sizeof *seen->line, by_bytes);
    for (uint32_t k = 0; k < used && k < LINES; k++) {
        fputs(k ? ", {" : "{", json);
        write_line(json, seen->session, seen->line[k].site);
        fprintf(json, ", \"tensors\": %llu, \"bytes\": %llu}", (unsigned long long)seen->line[k].tensors,
                (unsigned long long)seen->line[k].bytes);
    }
}

static gt_err write_client(FILE *json, gt_session *session)
{
    inspection seen = {.session = session, .site_count = session->sites.count};
    seen.line = calloc((size_t)seen.site_count + 1, sizeof *seen.line);
    if (!seen.line)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    look_at_tensors(&seen, session);
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
    fputc(']', json);
    free(seen.line);
    return GT_OK;
}

char *gt__inspect_client(const gt_dispatcher *dispatcher, const gt_peer *viewer, uint64_t number)
{
    char *text = NULL;
    size_t size = 0;
    FILE *json = open_memstream(&text, &size);
    if (!json)
        return NULL;
    gt_session *session = NULL;
    for (const gt_peer *peer = dispatcher->peers; peer && !session; peer = peer->next)
        if (peer->session && peer->session->number == number && gt__stats_may_see(viewer, peer))
            session = peer->session;
    fprintf(json, "{\"number\": %llu, \"found\": %s", (unsigned long long)number, session ? "true" : "false");
    gt_err err = session ? write_client(json, session) : GT_OK;
    fputc('}', json);
    if (fclose(json) || err != GT_OK) { /* out of memory: the text is not complete */
        free(text);
        return NULL;
    }
    return text;
}

/* path_place.c: see path_place.h. stats.c and inspect.c show it. */
#include "dispatcher/observe/path_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatcher/paths.h"
#include "dispatcher/session.h"
#include "dispatcher/spread/spread.h"

enum { MOST_SCOPES = 8 }; /* that are named */

/* The lines of one file. */
typedef struct line_range {
    const char *file; /* the text of one of its places */
    size_t length;    /* of the file's name in it */
    long first, last;
} line_range;

static void add_line(line_range *range, const char *place)
{
    const char *colon = place ? strrchr(place, ':') : NULL;
    if (!colon)
        return;
    size_t length = (size_t)(colon - place);
    long line = strtol(colon + 1, NULL, 10);
    if (!range->file)
        *range = (line_range){.file = place, .length = length, .first = line, .last = line};
    if (length != range->length || memcmp(place, range->file, length) != 0)
        return;
    range->first = line < range->first ? line : range->first;
    range->last = line > range->last ? line : range->last;
}

static void add_scope(const gt_session *session, uint32_t scope, uint32_t *named, unsigned *count,
                      gt_path_place *place)
{
    const char *name = gt__spread_scope_name(session, scope);
    for (unsigned k = 0; k < *count && name; k++)
        if (named[k] == scope)
            return;
    size_t used = strlen(place->scopes);
    if (!name || *count == MOST_SCOPES)
        return;
    named[(*count)++] = scope;
    snprintf(place->scopes + used, sizeof place->scopes - used, "%s%s", used ? ", " : "", name);
}

static void find_place(const gt_session *session, const gt_path *path, gt_path_place *place)
{
    line_range range = {0};
    uint32_t named[MOST_SCOPES];
    unsigned scopes = 0;
    *place = (gt_path_place){.instructions = path->count};
    for (uint32_t at = 0; at < path->slots; at += 1u + path->records[at].ins.tail) {
        const gt_instruction *ins = &path->records[at].ins;
        if (ins->op >= GT_OP_FIRST_CONTROL)
            continue;
        add_line(&range, gt__session_site(session, ins->site));
        add_scope(session, ins->scope, named, &scopes, place);
    }
    if (range.file && range.last > range.first)
        snprintf(place->lines, sizeof place->lines, "%.*s:%ld-%ld", (int)range.length, range.file, range.first,
                 range.last);
    else if (range.file)
        snprintf(place->lines, sizeof place->lines, "%s", range.file);
}

const gt_path_place *gt__path_place(const gt_session *session, uint32_t number)
{
    gt_slot run = {.ins = {.op = GT_OP_repeat, .result = number}};
    const gt_path *path = gt__paths_find(session, &run);
    gt_path_place **kept = gt__paths_shown(session, number);
    if (path && !*kept && (*kept = malloc(sizeof **kept)))
        find_place(session, path, *kept);
    return path ? *kept : NULL;
}

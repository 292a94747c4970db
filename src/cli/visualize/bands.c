/*
 * cli/visualize/bands.c: the scopes of signals, where their instructions were executed. In each worker's lane, the instructions of
 * a scope that follow each other are one band. Bands that are too narrow to see are added up in columns, each of which has
 * the colour of the scope with the most time. Part of the layout (cli/visualize/layout.c), before the bars.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/visualize/visualize.h"

/* What a worker executed; scope -1: outside of all scopes. */
typedef struct piece_of_work {
    int32_t lane, scope;
    uint32_t visit;
    double start, end;
    size_t operations;
} piece_of_work;

uint32_t gt__scope_colour(int32_t scope)
{
    /* Apart from each other, and paler than the colours of operations. */
    static const uint32_t colours[GT_SCOPE_COLOURS] = {0x8fb8de, 0xf2b880, 0x9fd0a5, 0xcbb0e0,
                                                       0xe6a5a5, 0x8fd0cd, 0xd9cf82, 0xb9b9b9};
    return colours[(unsigned)scope % GT_SCOPE_COLOURS];
}

static int by_lane_and_time(const void *left, const void *right)
{
    const piece_of_work *a = left, *b = right;
    if (a->lane != b->lane)
        return a->lane < b->lane ? -1 : 1;
    return (a->start > b->start) - (a->start < b->start);
}

/* Whether an operation tells that the worker left a scope: frees and reads of values belong to none. */
static bool counts(const gt_timeline_event *event)
{
    return event->event == GT_EVENT_WORKER_RECV && event->category != GT_CATEGORY_FREE &&
           event->category != GT_CATEGORY_GET_DATA && event->category != GT_CATEGORY_SYNC;
}

/* The work of all lanes in the order of its execution, joined where a scope goes on. */
static piece_of_work *collect(const gt_picture *picture, const gt_timeline *timeline, size_t *count)
{
    piece_of_work *work = NULL;
    size_t capacity = 0, joined = 0;
    *count = 0;
    for (size_t k = 0; k < timeline->count; k++) {
        const gt_timeline_event *event = &timeline->events[k];
        if (counts(event))
            *GT_PUSH(work, *count, capacity) = (piece_of_work){.lane = picture->lane_of[event->party],
                                                               .scope = event->scope,
                                                               .visit = event->scope < 0 ? 0 : event->visit,
                                                               .start = event->start,
                                                               .end = event->start + event->duration,
                                                               .operations = 1};
    }
    if (*count)
        qsort(work, *count, sizeof *work, by_lane_and_time);
    for (size_t k = 0; k < *count; k++) {
        piece_of_work *last = joined ? &work[joined - 1] : NULL;
        if (last && last->lane == work[k].lane && last->scope == work[k].scope && last->visit == work[k].visit) {
            last->end = fmax(last->end, work[k].end);
            last->operations++;
        } else
            work[joined++] = work[k];
    }
    *count = joined;
    return work;
}

static void add_band(gt_picture *picture, const piece_of_work *work)
{
    double f = picture->font, x = gt__picture_x(picture, work->start);
    const gt_lane *lane = &picture->lanes[work->lane];
    gt_band *band = GT_PUSH(picture->bands, picture->band_count, picture->band_capacity);
    *band = (gt_band){.lane = work->lane,
                      .scope = work->scope,
                      .x = x,
                      .width = fmax(gt__picture_x(picture, work->end) - x, 0.12 * f),
                      .start = work->start,
                      .end = work->end,
                      .operations = work->operations};
    const char *name = picture->scopes[work->scope].name;
    if (lane->band_height > 0.9 * f && gt__text_width(name, 0.8 * f) < band->width - 0.4 * f) {
        snprintf(band->label, sizeof band->label, "%s", name);
        gt__text_whole(band->label);
    }
}

enum { TOLD_APART = 16 }; /* scopes in one column */

/* Narrow bands in the same place. */
typedef struct column {
    piece_of_work parts[TOLD_APART];
    size_t count;
    double right; /* seconds: where it ends */
} column;

/* The column as one band, of the scope with the most time. */
static void finish(gt_picture *picture, column *c)
{
    if (!c->count)
        return;
    piece_of_work most = c->parts[0];
    double first = most.start, last = most.end;
    size_t operations = 0;
    for (size_t k = 0; k < c->count; k++) {
        const piece_of_work *part = &c->parts[k];
        operations += part->operations;
        first = fmin(first, part->start);
        last = fmax(last, part->end);
        if (part->end - part->start > most.end - most.start)
            most = *part;
    }
    most.start = first;
    most.end = last;
    most.operations = operations;
    add_band(picture, &most);
    c->count = 0;
}

/* Add a narrow band; `width` is that of a column, in seconds. */
static void add_narrow(gt_picture *picture, column *c, const piece_of_work *work, double width)
{
    if (c->count && (work->lane != c->parts[0].lane || work->start > c->right))
        finish(picture, c);
    if (!c->count)
        c->right = work->start + width;
    size_t k = 0;
    while (k < c->count && c->parts[k].scope != work->scope)
        k++;
    if (k == c->count && k < TOLD_APART)
        c->parts[c->count++] = *work;
    else {
        k = k < TOLD_APART ? k : TOLD_APART - 1;
        c->parts[k].end += work->end - work->start;
        c->parts[k].operations += work->operations;
    }
}

void gt__picture_bands(gt_picture *picture, const gt_timeline *timeline)
{
    size_t count;
    double narrow = 0.3 * picture->font * picture->seconds_per_point;
    piece_of_work *work = collect(picture, timeline, &count);
    column open = {.count = 0};
    for (size_t k = 0; k < count; k++) {
        if (work[k].scope < 0)
            continue;
        if (work[k].end - work[k].start < narrow) {
            add_narrow(picture, &open, &work[k], narrow);
            continue;
        }
        finish(picture, &open);
        add_band(picture, &work[k]);
    }
    finish(picture, &open);
    free(work);
}

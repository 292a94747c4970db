/*
 * cli/visualize/bands.c: the scopes of signals, where their instructions were executed. In each worker's lane, the instructions of
 * a scope that follow each other are one band. Bands that are too narrow to see are added up in columns, each of which has
 * the colour of the scope with the most time. Part of the layout (cli/visualize/layout.c), before the bars.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/visualize/visualize.h"

uint32_t gt__scope_colour(int32_t scope)
{
    /* Apart from each other, and paler than the colours of operations. */
    static const uint32_t colours[GT_SCOPE_COLOURS] = {0x8fb8de, 0xf2b880, 0x9fd0a5, 0xcbb0e0,
                                                       0xe6a5a5, 0x8fd0cd, 0xd9cf82, 0xb9b9b9};
    return colours[(unsigned)scope % GT_SCOPE_COLOURS];
}

static int by_party_and_time(const void *left, const void *right)
{
    const gt_scope_span *a = left, *b = right;
    if (a->party != b->party)
        return a->party < b->party ? -1 : 1;
    return (a->start > b->start) - (a->start < b->start);
}

/* Whether an operation tells that the worker left a scope: frees and reads of values belong to none. */
static bool counts(const gt_timeline_event *event)
{
    return event->event == GT_EVENT_WORKER_RECV && event->category != GT_CATEGORY_FREE &&
           event->category != GT_CATEGORY_GET_DATA && event->category != GT_CATEGORY_SYNC;
}

/* The spans of a collection while it grows. */
typedef struct span_list {
    gt_scope_span *spans;
    size_t count, capacity;
} span_list;

static void add_span(span_list *list, const gt_timeline_event *event, const gt_timeline_part *part, double start,
                     double end)
{
    *GT_PUSH(list->spans, list->count, list->capacity) =
        (gt_scope_span){.party = event->party,
                        .scope = part->scope,
                        .visit = part->scope < 0 ? 0 : part->visit,
                        .start = start,
                        .end = end,
                        .operations = part->operations};
}

/* The scopes inside a hot path, as far as its bar shows them. */
static void add_path_spans(span_list *list, const gt_timeline *timeline, const gt_timeline_event *event)
{
    double done = event->whole_start, last = event->start + event->duration;
    for (uint32_t k = 0; k < event->part_count; k++) {
        const gt_timeline_part *part = &timeline->parts[event->first_part + k];
        double start = done;
        done = event->whole_start + part->end * event->whole_duration;
        if (done >= event->start && start <= last)
            add_span(list, event, part, fmax(start, event->start), fmin(done, last));
    }
}

gt_scope_span *gt__timeline_scope_spans(const gt_timeline *timeline, size_t *count)
{
    span_list list = {0};
    size_t joined = 0;
    for (size_t k = 0; k < timeline->count; k++) {
        const gt_timeline_event *event = &timeline->events[k];
        gt_timeline_part whole = {.scope = event->scope, .visit = event->visit, .operations = 1};
        if (counts(event) && event->part_count)
            add_path_spans(&list, timeline, event);
        else if (counts(event))
            add_span(&list, event, &whole, event->start, event->start + event->duration);
    }
    gt_scope_span *spans = list.spans;
    if (list.count)
        qsort(spans, list.count, sizeof *spans, by_party_and_time);
    for (size_t k = 0; k < list.count; k++) {
        gt_scope_span *last = joined ? &spans[joined - 1] : NULL;
        if (last && last->party == spans[k].party && last->scope == spans[k].scope &&
            last->visit == spans[k].visit) {
            last->end = fmax(last->end, spans[k].end);
            last->operations += spans[k].operations;
        } else
            spans[joined++] = spans[k];
    }
    *count = joined;
    return spans;
}

static void add_band(gt_picture *picture, const gt_scope_span *work)
{
    double f = picture->font, x = gt__picture_x(picture, work->start);
    int32_t index = picture->lane_of[work->party];
    const gt_lane *lane = &picture->lanes[index];
    gt_band *band = GT_PUSH(picture->bands, picture->band_count, picture->band_capacity);
    *band = (gt_band){.lane = index,
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
    gt_scope_span parts[TOLD_APART];
    size_t count;
    double right; /* seconds: where it ends */
} column;

/* The column as one band, of the scope with the most time. */
static void finish(gt_picture *picture, column *c)
{
    if (!c->count)
        return;
    gt_scope_span most = c->parts[0];
    double first = most.start, last = most.end;
    size_t operations = 0;
    for (size_t k = 0; k < c->count; k++) {
        const gt_scope_span *part = &c->parts[k];
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
static void add_narrow(gt_picture *picture, column *c, const gt_scope_span *work, double width)
{
    if (c->count && (work->party != c->parts[0].party || work->start > c->right))
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
    gt_scope_span *work = gt__timeline_scope_spans(timeline, &count);
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

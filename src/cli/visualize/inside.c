/*
 * cli/visualize/inside.c: what is inside the run of a hot path. A worker executes it as one operation, with one bar; the log
 * still has the client's lines that it consists of, behind the line of the run. From them follow the path's lines in the
 * program, its scopes, and when about each of them was reached: the path's time is divided as the same lines took when they were
 * executed one by one. Part of gt__timeline_causes (cli/visualize/cause.c).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/visualize/visualize.h"

void gt__path_read(gt_path_reader *reader, const gt_timeline_event *event, int32_t index, gt_path_member *members)
{
    members[index].path = -1;
    if (event->instructions) {
        *reader = (gt_path_reader){.path = index, .last = index, .left = event->instructions};
    } else if (reader->left && gt__detail(event->details, "op").length) {
        reader->left--;
        members[index].path = reader->path;
        members[reader->last].next = index;
        reader->last = index;
    }
}

/* ---- how long lines take -------------------------------------------------------------------------------------- */

/* The shortest time of an op at a line of the program, among those executed outside of paths. */
typedef struct measured {
    const gt_timeline_event *line; /* a client's; NULL: free */
    double seconds;
} measured;

typedef struct measurements {
    measured *entries;
    size_t size;
} measurements;

static measured *find_measured(const measurements *all, const gt_timeline_event *line)
{
    uint64_t hash = 14695981039346656037u ^ (uint64_t)line->party;
    for (const char *at = line->label; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 1099511628211u;
    for (int k = 0; k < line->place.length; k++)
        hash = (hash ^ (unsigned char)line->place.at[k]) * 1099511628211u;
    for (hash ^= hash >> 32;; hash++) {
        measured *entry = &all->entries[hash & (all->size - 1)];
        const gt_timeline_event *other = entry->line;
        if (!other ||
            (other->party == line->party && strcmp(other->label, line->label) == 0 &&
             other->place.length == line->place.length &&
             (!line->place.length || memcmp(other->place.at, line->place.at, (size_t)line->place.length) == 0)))
            return entry;
    }
}

static void measure(measurements *all, const gt_timeline *timeline)
{
    all->size = 64;
    while (all->size < 2 * timeline->count)
        all->size *= 2;
    all->entries = gt__zeroed(all->size, sizeof *all->entries);
    for (size_t k = 0; k < timeline->count; k++) {
        const gt_timeline_event *request = &timeline->events[k];
        if (request->event != GT_EVENT_WORKER_SEND || request->cause < 0 || request->partner < 0 ||
            request->instructions)
            continue;
        double seconds = timeline->events[request->partner].duration;
        measured *entry = find_measured(all, &timeline->events[request->cause]);
        if (!entry->line || seconds < entry->seconds)
            *entry = (measured){.line = &timeline->events[request->cause], .seconds = seconds};
    }
}

/* The weight of a line in its path; below 0: it was never executed alone. */
static double weight_of(const measurements *all, const gt_timeline_event *line)
{
    const measured *entry = find_measured(all, line);
    return entry->line ? fmax(entry->seconds, 1e-9) : -1;
}

/* ---- one run -------------------------------------------------------------------------------------------------- */

/* The lines of one run, and what they add up to. */
typedef struct run {
    int32_t *lines;
    double *weights;
    size_t count, capacity, weight_capacity;
} run;

/* Lines that were never executed alone count as much as the others do on average; a view is as good as nothing. */
static void weigh(run *r, const gt_timeline *timeline, const measurements *all)
{
    double known = 0, total = 0;
    size_t weight_count = 0, known_count = 0;
    for (size_t k = 0; k < r->count; k++) {
        double weight = weight_of(all, &timeline->events[r->lines[k]]);
        *GT_PUSH(r->weights, weight_count, r->weight_capacity) = weight;
        known += weight > 0 ? weight : 0;
        known_count += weight > 0;
    }
    double usual = known_count ? known / (double)known_count : 1;
    for (size_t k = 0; k < r->count; k++) {
        bool view = timeline->events[r->lines[k]].category == GT_CATEGORY_VIEW;
        r->weights[k] = r->weights[k] > 0 ? r->weights[k] : view ? 1e-3 * usual : usual;
        total += r->weights[k];
    }
    for (size_t k = 0; k < r->count; k++)
        r->weights[k] /= total;
}

/* "train.py:41" of its file, and its number. */
static bool split_place(gt_piece place, gt_piece *file, long *number)
{
    const char *colon = place.length ? memrchr(place.at, ':', (size_t)place.length) : NULL;
    if (!colon)
        return false;
    *file = (gt_piece){.at = place.at, .length = (int)(colon - place.at)};
    *number = strtol(colon + 1, NULL, 10);
    return true;
}

/* The path's lines in the program: "train.py:41-58", of the file with the first of them. */
static gt_piece places(gt_timeline *timeline, const run *r)
{
    gt_piece file = {0}, other;
    long least = 0, most = 0, number;
    for (size_t k = 0; k < r->count; k++) {
        if (!split_place(timeline->events[r->lines[k]].place, &other, &number))
            continue;
        if (!file.length) {
            file = other;
            least = most = number;
        } else if (file.length == other.length && memcmp(file.at, other.at, (size_t)file.length) == 0) {
            least = number < least ? number : least;
            most = number > most ? number : most;
        }
    }
    if (!file.length)
        return file;
    size_t size = (size_t)file.length + 64;
    char *text = gt__zeroed(size, 1);
    int length = snprintf(text, size, "%.*s:%ld", file.length, file.at, least);
    if (most > least)
        length += snprintf(text + length, size - (size_t)length, "-%ld", most);
    *GT_PUSH(timeline->texts, timeline->text_count, timeline->text_capacity) = text;
    return (gt_piece){.at = text, .length = length};
}

/* Successive lines of the same scope are one part. */
static void add_parts(gt_timeline *timeline, gt_timeline_event *path, const run *r, gt_path_member *members)
{
    double done = 0;
    path->first_part = (uint32_t)timeline->part_count;
    for (size_t k = 0; k < r->count; k++) {
        const gt_timeline_event *line = &timeline->events[r->lines[k]];
        gt_timeline_part *last =
            timeline->part_count > path->first_part ? &timeline->parts[timeline->part_count - 1] : NULL;
        members[r->lines[k]].from = done;
        members[r->lines[k]].to = done = fmin(done + r->weights[k], 1);
        if (!last || last->scope != line->scope || last->visit != line->visit) {
            last = GT_PUSH(timeline->parts, timeline->part_count, timeline->part_capacity);
            *last = (gt_timeline_part){.scope = line->scope, .visit = line->visit};
        }
        last->end = done;
        last->operations++;
    }
    timeline->parts[timeline->part_count - 1].end = 1;
    path->part_count = (uint32_t)timeline->part_count - path->first_part;
    path->place = places(timeline, r);
}

/* What a worker's line knows from the client's. */
static void inherit(gt_timeline_event *event, const gt_timeline_event *path)
{
    event->place = path->place;
    event->first_part = path->first_part;
    event->part_count = path->part_count;
}

void gt__timeline_inside(gt_timeline *timeline, gt_path_member *members)
{
    measurements all = {0};
    run r = {0};
    for (size_t k = 0; k < timeline->count; k++) {
        gt_timeline_event *event = &timeline->events[k];
        if (event->event != GT_EVENT_RECV || !event->instructions || !members[k].next)
            continue;
        if (!all.size)
            measure(&all, timeline);
        r.count = 0;
        for (int32_t line = members[k].next; line; line = members[line].next)
            *GT_PUSH(r.lines, r.count, r.capacity) = line;
        weigh(&r, timeline, &all);
        add_parts(timeline, event, &r, members);
    }
    for (size_t k = 0; k < timeline->count; k++) {
        gt_timeline_event *event = &timeline->events[k];
        if (event->event != GT_EVENT_WORKER_SEND || !event->instructions || event->cause < 0 ||
            !timeline->events[event->cause].part_count)
            continue; /* not a run: the definition of a path names it as well */
        inherit(event, &timeline->events[event->cause]);
        if (event->partner >= 0)
            inherit(&timeline->events[event->partner], event);
    }
    free(r.lines);
    free(r.weights);
    free(all.entries);
}

/*
 * cli/visualize/bars.c: the contents of the lanes: a bar for each operation, a marker for each event.
 *
 * Items that fit are drawn one by one. Items that are too narrow, or that would overlap, are added up in columns: of bars,
 * the share of time of each kind of work; of markers, their number. So 100,000 events are as readable as 10. Part of
 * the layout (cli/visualize/layout.c).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/visualize/visualize.h"

/* A column of a lane: sums by category. */
typedef struct sums {
    double seconds[GT_CATEGORY_COUNT];
    size_t count[GT_CATEGORY_COUNT], total;
    uint64_t first, last; /* markers: their sequence numbers */
    /* Bars: how many are in the column, also with a part only, and the longest of them, to be named. */
    size_t bars[GT_CATEGORY_COUNT];
    const gt_timeline_event *longest[GT_CATEGORY_COUNT];
    double longest_seconds[GT_CATEGORY_COUNT];
} sums;

static sums *columns_new(const gt_picture *picture, double width, size_t *count)
{
    *count = (size_t)((picture->right - picture->left) / width) + 1;
    return gt__zeroed(*count * picture->lane_count, sizeof(sums));
}

static size_t column_at(const gt_picture *picture, double x, double width, size_t count)
{
    double index = floor((x - picture->left) / width);
    return (size_t)fmin(fmax(index, 0), (double)(count - 1));
}

/* ---- bars --------------------------------------------------------------------------------------------------- */

typedef struct span {
    int32_t lane;
    double start, end;
    bool waiting;
} span;

/* A worker's operation makes one bar, or two: before that (`before`) its wait for other workers. */
static bool bar_of(const gt_picture *picture, const gt_timeline_event *event, bool before, span *out)
{
    double ready = event->start + event->wait;
    if (event->event != GT_EVENT_WORKER_RECV || (before && event->wait <= 0))
        return false;
    *out = (span){.lane = picture->lane_of[event->party],
                  .start = before ? event->start : ready,
                  .end = before ? ready : event->start + event->duration,
                  .waiting = before};
    return true;
}

enum { PATH_OPS = 64 }; /* different ops of a path that are told apart */

/* Names of ops in a path, with how often each comes. */
typedef struct op_count {
    const char *name;
    int length, count, rank; /* rank: the lower, the sooner it is named */
} op_count;

/* Products and convolutions first, views last; the others by how often they come. */
static int rank_of(const char *name, int length)
{
    char op[32];
    snprintf(op, sizeof op, "%.*s", length, name);
    switch (gt__category_of_command("", op)) {
    case GT_CATEGORY_MATMUL:
    case GT_CATEGORY_CONV:
    case GT_CATEGORY_LINALG:
        return 0;
    case GT_CATEGORY_VIEW:
        return 2;
    default:
        return 1;
    }
}

static int by_weight(const void *left, const void *right)
{
    const op_count *a = left, *b = right;
    return a->rank != b->rank ? a->rank - b->rank : b->count - a->count;
}

/* Count the ops of a list such as "matmul,add,relu,add". Returns how many different ones there are. */
static int count_ops(const char *list, op_count *ops)
{
    int different = 0;
    for (const char *at = list; *at && strcmp(at, "...") != 0;) {
        int length = (int)strcspn(at, ","), k = 0;
        while (k < different && (ops[k].length != length || strncmp(ops[k].name, at, (size_t)length) != 0))
            k++;
        if (k == different && k < PATH_OPS)
            ops[different++] = (op_count){.name = at, .length = length, .rank = rank_of(at, length)};
        if (k < different)
            ops[k].count++;
        at += length + (at[length] == ',');
    }
    qsort(ops, (size_t)different, sizeof *ops, by_weight);
    return different;
}

void gt__path_label(const gt_timeline_event *event, double width, double font, char *label, size_t size)
{
    op_count ops[PATH_OPS];
    int different = count_ops(event->label, ops);
    char text[80];
    int length = snprintf(text, sizeof text, "%u ops", event->instructions);
    for (int k = 0; gt__text_width(text, font) < width && (size_t)length < sizeof text; k++) {
        snprintf(label, size, "%s", text);
        if (k == different)
            return;
        if (k) /* the last name was followed by an ellipsis */
            length -= (int)sizeof "…" - 1;
        length += snprintf(text + length, sizeof text - (size_t)length, "%s %d %.*s%s", k ? "," : ":",
                           ops[k].count, ops[k].length, ops[k].name, k + 1 < different ? "…" : "");
    }
}

static void label_bar(gt_box *box, const gt_timeline_event *event, double font)
{
    double room = box->width - 0.4 * font;
    const char *waits = "waits";
    bool for_others = box->waiting && event->event == GT_EVENT_WORKER_RECV;
    if (for_others && gt__text_width(waits, 0.9 * font) < room)
        snprintf(box->label, sizeof box->label, "%s", waits);
    if (for_others)
        return; /* the bar behind it has the name */
    if (event->instructions)
        gt__path_label(event, room, 0.9 * font, box->label, sizeof box->label);
    else if (gt__text_width(event->label, 0.9 * font) < room)
        snprintf(box->label, sizeof box->label, "%s", event->label);
    gt__text_whole(box->label);
    snprintf(box->id, sizeof box->id, "#%llu", (unsigned long long)event->sequence);
    if (box->waiting || gt__text_width(box->id, 0.75 * font) > box->width - 0.2 * font)
        box->id[0] = 0; /* of a wait, the request shows it */
}

static void add_bar(gt_picture *picture, const gt_timeline *timeline, const gt_timeline_event *event,
                    const span *bar)
{
    gt_lane *lane = &picture->lanes[bar->lane];
    double x = gt__picture_x(picture, bar->start), width = gt__picture_x(picture, bar->end) - x;
    gt_box *box = GT_PUSH(picture->boxes, picture->box_count, picture->box_capacity);
    *box = (gt_box){
        .lane = bar->lane,
        .x = x,
        .y = lane->bar_top,
        .width = fmax(width, 0.12 * picture->font),
        .height = lane->bar_height,
        .start = bar->start,
        .duration = bar->end - bar->start,
        .sequence = event->sequence,
        .count = 1,
        .category = event->category,
        .waiting = bar->waiting,
        .failed = event->failed && !(bar->waiting && lane->kind == GT_PARTY_WORKER),
    };
    gt__event_title(timeline, event, bar->end - bar->start, box->title, sizeof box->title);
    if (bar->waiting && lane->kind == GT_PARTY_WORKER)
        snprintf(box->title + strlen(box->title), sizeof box->title - strlen(box->title),
                 ", waits for other workers");
    if (lane->bar_height > 1.2 * picture->font)
        label_bar(box, event, picture->font);
}

/* One operation by its own title; of several, their kind and the longest one. */
static void title_of_column(const gt_timeline *timeline, const sums *column, int category, char *title,
                            size_t size)
{
    char took[32];
    int used = 0;
    if (column->bars[category] > 1)
        used = snprintf(title, size, "%zu × %s, %s; the longest: ", column->bars[category],
                        gt__category_table[category].name,
                        gt__duration_text(column->seconds[category], took, sizeof took));
    gt__event_title(timeline, column->longest[category], column->longest_seconds[category], title + used,
                    size - (size_t)used);
}

/* The column as boxes, the largest kind of work at the bottom; its height is the share of busy time. */
static void add_column(gt_picture *picture, const gt_timeline *timeline, int32_t lane_index, double x,
                       double width, const sums *column)
{
    const gt_lane *lane = &picture->lanes[lane_index];
    double seconds = width * picture->seconds_per_point, busy = 0;
    for (int k = 0; k < GT_CATEGORY_COUNT; k++)
        busy += column->seconds[k];
    double share = fmin(busy / seconds, 1), y = lane->bar_top + lane->bar_height;
    double visible = lane->bar_height * fmax(share, 0.08);
    for (int k = 0; k < GT_CATEGORY_COUNT; k++) {
        if (!column->count[k] && column->seconds[k] <= 0)
            continue; /* time without a count: the bar began in an earlier column */
        double part = busy > 0 ? column->seconds[k] / busy : (double)column->count[k] / (double)column->total;
        gt_box *box = GT_PUSH(picture->boxes, picture->box_count, picture->box_capacity);
        *box = (gt_box){
            .lane = lane_index,
            .x = x,
            .y = y -= visible * part,
            .width = width,
            .height = visible * part,
            .start = gt__picture_time(picture, x),
            .duration = column->seconds[k],
            .count = column->count[k],
            .category = (uint8_t)k,
            .aggregated = true,
            .waiting = lane->kind == GT_PARTY_CLIENT,
        };
        title_of_column(timeline, column, k, box->title, sizeof box->title);
    }
}

/* Distribute the bar over the columns it touches. */
static void add_to_columns(const gt_picture *picture, const span *bar, const gt_timeline_event *event,
                           double width, sums *lane, size_t count)
{
    unsigned category = event->category;
    double x0 = gt__picture_x(picture, bar->start), x1 = gt__picture_x(picture, bar->end);
    size_t first = column_at(picture, x0, width, count), last = column_at(picture, x1, width, count);
    for (size_t k = first; k <= last; k++) {
        double left = picture->left + (double)k * width;
        lane[k].seconds[category] += fmax(0, fmin(x1, left + width) - fmax(x0, left)) * picture->seconds_per_point;
        lane[k].bars[category]++;
        if (lane[k].longest[category] && lane[k].longest_seconds[category] >= bar->end - bar->start)
            continue;
        lane[k].longest[category] = event;
        lane[k].longest_seconds[category] = bar->end - bar->start;
    }
    lane[first].count[category]++;
}

/* The bars of all lanes while they are placed, in two passes: first narrow ones are counted, then they are drawn or added
 * up. */
typedef struct placing {
    gt_picture *picture;
    const gt_timeline *timeline;
    sums *columns;
    size_t count; /* columns of a lane */
    double width; /* of a column */
    int pass;
} placing;

/* for_others: of a worker, which waits for other workers. */
static void place_bar(placing *p, const gt_timeline_event *event, const span *bar, bool for_others)
{
    gt_picture *picture = p->picture;
    double x = gt__picture_x(picture, bar->start), narrow = 0.3 * picture->font;
    bool wide = gt__picture_x(picture, bar->end) - x >= narrow;
    sums *lane = p->columns + (size_t)bar->lane * p->count;
    sums *at = lane + column_at(picture, x, p->width, p->count);
    if (p->pass == 0) {
        double *total = for_others ? &picture->lanes[bar->lane].waited : &picture->lanes[bar->lane].busy;
        *total += bar->end - bar->start;
        at->total += !wide && !for_others;
    } else if (wide || (at->total == 1 && !for_others))
        add_bar(picture, p->timeline, event, bar);
    else if (!for_others) /* a short wait looks like any time without work */
        add_to_columns(picture, bar, event, p->width, lane, p->count);
}

void gt__picture_bars(gt_picture *picture, const gt_timeline *timeline)
{
    placing p = {.picture = picture, .timeline = timeline, .width = 0.2 * picture->font};
    p.columns = columns_new(picture, p.width, &p.count);
    span bar;
    for (p.pass = 0; p.pass < 2; p.pass++) {
        for (size_t k = 0; k < 2 * timeline->count; k++)
            if (bar_of(picture, &timeline->events[k / 2], k % 2 == 0, &bar))
                place_bar(&p, &timeline->events[k / 2], &bar, k % 2 == 0);
        for (size_t k = 0; k < timeline->wait_count; k++) {
            const gt_timeline_wait *wait = &timeline->waits[k];
            bar = (span){.lane = picture->lane_of[wait->event.party],
                         .start = wait->start,
                         .end = wait->end,
                         .waiting = true};
            place_bar(&p, &wait->event, &bar, false);
        }
    }
    for (size_t lane = 0; lane < picture->lane_count; lane++)
        for (size_t k = 0; k < p.count; k++)
            add_column(picture, timeline, (int32_t)lane, picture->left + (double)k * p.width, p.width,
                       &p.columns[lane * p.count + k]);
    free(p.columns);
}

/* ---- markers ------------------------------------------------------------------------------------------------ */

enum {
    FEW_EVENTS = 150, /* the most events of a small picture */
    SWARM = 9,        /* markers in one place drawn one by one, in a small picture */
    HEAP = 3,         /* the same in a larger one */
};

double gt__marker_time(const gt_timeline *timeline, const gt_timeline_event *event)
{
    if (event->event == GT_EVENT_WORKER_RECV)
        return event->start + event->duration;
    if (event->event == GT_EVENT_WORKER_SEND && event->partner >= 0)
        return fmax(event->time, timeline->events[event->partner].start);
    return event->time;
}

double gt__dispatcher_y(const gt_picture *picture, bool worker_side)
{
    const gt_lane *lane = &picture->lanes[picture->lane_of[0]];
    return lane->top + lane->height * (worker_side ? 0.72 : 0.28);
}

static double marker_radius(const gt_picture *picture, uint64_t bytes)
{
    return picture->font * (0.29 + 0.045 * log10(1 + (double)bytes / 64));
}

static bool is_worker_side(const gt_timeline_event *event)
{
    return event->event == GT_EVENT_WORKER_SEND || event->event == GT_EVENT_WORKER_RECV;
}

/* Place the marker of an event in its party's lane, or (echo) in the dispatcher's; false: there is no such marker. */
static bool place(const gt_picture *picture, const gt_timeline *timeline, const gt_timeline_event *event,
                  bool echo, gt_marker *marker)
{
    int32_t own = picture->lane_of[event->party], dispatcher = picture->lane_of[0];
    if (event->event == GT_EVENT_SIGNAL || (echo && (own == dispatcher || event->event >= GT_EVENT_CONNECT)))
        return false;
    const gt_lane *lane = &picture->lanes[echo ? dispatcher : own];
    *marker = (gt_marker){
        .lane = echo ? dispatcher : own,
        .x = gt__picture_x(picture, echo ? event->time : gt__marker_time(timeline, event)),
        .y = lane->strip,
        .radius = echo ? 0.16 * picture->font : marker_radius(picture, event->bytes),
        .sequence = event->sequence,
        .count = 1,
        .event = event->event,
        .category = event->category,
        .failed = event->failed,
        .echo = echo,
    };
    if (lane->kind == GT_PARTY_DISPATCHER)
        marker->y = gt__dispatcher_y(picture, is_worker_side(event));
    return true;
}

/* Columns on a base line. The height is the square root of the number, so that small ones stay visible. */
static void add_heaps(gt_picture *picture, int32_t lane_index, double base, double room, double width,
                      size_t limit, const sums *columns, size_t count)
{
    size_t most = 0;
    for (size_t k = 0; k < count; k++)
        most = columns[k].total > most ? columns[k].total : most;
    for (size_t k = 0; k < count; k++) {
        if (columns[k].total <= limit)
            continue;
        double y = base, height = room * fmax(0.15, sqrt((double)columns[k].total / (double)most));
        for (int category = 0; category < GT_CATEGORY_COUNT; category++) {
            size_t number = columns[k].count[category];
            if (!number)
                continue;
            double part = height * (double)number / (double)columns[k].total;
            *GT_PUSH(picture->markers, picture->marker_count, picture->marker_capacity) = (gt_marker){
                .lane = lane_index,
                .x = picture->left + ((double)k + 0.5) * width,
                .y = y,
                .radius = 0.5 * width,
                .height = part,
                .count = number,
                .category = (uint8_t)category,
                .echo = picture->lanes[lane_index].kind == GT_PARTY_DISPATCHER,
            };
            if (y == base)
                snprintf(picture->markers[picture->marker_count - 1].id, sizeof picture->markers->id,
                         "#%llu–#%llu", (unsigned long long)columns[k].first, (unsigned long long)columns[k].last);
            y -= part;
        }
    }
}

/* Number client requests and errors where the numbers do not touch; not frees, which are of no interest. */
static bool wants_id(const gt_picture *picture, const gt_marker *marker)
{
    const gt_lane *lane = &picture->lanes[marker->lane];
    if (marker->echo || lane->height < 4 * picture->font)
        return false;
    if (marker->height > 0)
        return lane->kind == GT_PARTY_CLIENT && *marker->id;
    return (marker->event == GT_EVENT_RECV && marker->category != GT_CATEGORY_FREE) ||
           marker->event == GT_EVENT_ERROR;
}

static int by_x(const void *left, const void *right)
{
    double difference = ((const gt_marker *)left)->x - ((const gt_marker *)right)->x;
    return (difference > 0) - (difference < 0);
}

static void add_ids(gt_picture *picture)
{
    double *last = gt__zeroed(picture->lane_count, sizeof *last), f = picture->font;
    for (size_t k = 0; k < picture->lane_count; k++)
        last[k] = -1e9;
    if (picture->marker_count)
        qsort(picture->markers, picture->marker_count, sizeof *picture->markers, by_x);
    for (size_t k = 0; k < picture->marker_count; k++) {
        gt_marker *marker = &picture->markers[k];
        if (marker->height == 0)
            snprintf(marker->id, sizeof marker->id, "#%llu", (unsigned long long)marker->sequence);
        double half = 0.5 * gt__text_width(marker->id, 0.75 * f) + 0.15 * f;
        if (wants_id(picture, marker) && marker->x - half >= last[marker->lane] &&
            marker->x + half < picture->width)
            last[marker->lane] = marker->x + half;
        else
            marker->id[0] = 0;
    }
    free(last);
}

/* Neighbours that would hide each other are moved: three above each other, the next three beside them. `last` is the
 * previous one, at its original place. */
static void step_aside(const gt_picture *picture, gt_marker *marker, gt_marker *last)
{
    static const double rows[] = {0, -1, 1};
    double step = 0.4 * picture->font * (picture->lanes[marker->lane].height / (5.2 * picture->font));
    double distance = marker->x - last->x;
    last->count = distance >= marker->radius + last->radius ? 0 : last->count + 1;
    if (distance > 0.5 * marker->radius)
        last->count %= 3; /* another moment: it stays in place */
    last->x = marker->x;
    last->radius = marker->radius;
    marker->y += step * rows[last->count % 3];
    marker->x += 2.1 * marker->radius * (double)(last->count / 3 % 3);
}

/* The two sides of a lane: the dispatcher's have clients and workers, other lanes use one side only. */
static void lane_side(const gt_picture *picture, size_t lane_index, int side, double *base, double *room)
{
    const gt_lane *lane = &picture->lanes[lane_index];
    double f = picture->font * lane->height / (5.2 * picture->font);
    bool dispatcher = lane->kind == GT_PARTY_DISPATCHER;
    *room = dispatcher ? 0.42 * lane->height : 1.5 * f;
    *base = dispatcher ? lane->top + lane->height * (side ? 0.95 : 0.47) : lane->strip + 0.7 * f;
}

void gt__picture_markers(gt_picture *picture, const gt_timeline *timeline)
{
    double width = 0.8 * picture->font;
    size_t count, limit = timeline->count <= FEW_EVENTS ? SWARM : HEAP;
    sums *columns[2] = {columns_new(picture, width, &count), columns_new(picture, width, &count)};
    gt_marker *last = gt__zeroed(2 * picture->lane_count, sizeof *last), marker;
    for (int pass = 0; pass < 2; pass++)
        for (size_t k = 0; k < 2 * timeline->count; k++) {
            const gt_timeline_event *event = &timeline->events[k / 2];
            if (!place(picture, timeline, event, k % 2, &marker))
                continue;
            int side = picture->lanes[marker.lane].kind == GT_PARTY_DISPATCHER && is_worker_side(event);
            sums *at = &columns[side][(size_t)marker.lane * count + column_at(picture, marker.x, width, count)];
            bool alone = event->event >= GT_EVENT_CONNECT; /* connects, disconnects and errors are always shown */
            if (pass == 0 && !alone) {
                at->count[event->category]++;
                at->first = at->total++ ? at->first : event->sequence;
                at->last = event->sequence;
            }
            if (pass == 0 || (at->total > limit && !alone))
                continue;
            step_aside(picture, &marker, &last[2 * marker.lane + side]);
            *GT_PUSH(picture->markers, picture->marker_count, picture->marker_capacity) = marker;
        }
    for (size_t lane = 0; lane < picture->lane_count; lane++)
        for (int side = 0; side < 2; side++) {
            double base, room;
            lane_side(picture, lane, side, &base, &room);
            add_heaps(picture, (int32_t)lane, base, room, width, limit, columns[side] + lane * count, count);
        }
    add_ids(picture);
    free(last);
    free(columns[0]);
    free(columns[1]);
}

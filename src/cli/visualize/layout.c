/*
 * cli/visualize/layout.c: the size of the picture, and the positions of its lanes and its legend.
 *
 * Second stage of `gt visualize`. axis.c maps time, bars.c and notes.c fill the lanes, flow.c draws across them; draw.c is
 * next. Lengths are in points; everything is a multiple of the font size.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/visualize/visualize.h"

enum {
    MAX_CLIENTS = 24, /* lanes; further parties share the last one */
    MAX_WORKERS = 64,
    MOST_LEGEND_SCOPES = 24,
};

/* An estimate for DejaVu Sans; the exact width is known only when drawing. */
double gt__text_width(const char *text, double font)
{
    double width = 0;
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if ((c & 0xc0) != 0x80)
            width += c == '#' ? 0.84 : c == ' ' || c == ':' ? 0.34 : c >= 'A' && c <= 'Z' ? 0.71 : 0.61;
    }
    return width * font;
}

const char *gt__duration_text(double seconds, char *text, size_t size)
{
    static const char *const units[] = {"s", "ms", "µs", "ns"};
    int unit = 0;
    for (; unit < 3 && seconds < 1; unit++)
        seconds *= 1000;
    int digits = (int)fmax(0, 2 - (seconds >= 10) - (seconds >= 100));
    snprintf(text, size, "%.*f %s", unit == 3 ? 0 : digits, seconds, units[unit]);
    return text;
}

/* Append `before` and the text, at most `most` bytes of it. */
static void append(char *text, size_t size, const char *before, gt_piece more, int most)
{
    size_t used = strlen(text);
    if (!more.length)
        return;
    snprintf(text + used, size - used, "%s%.*s", before, more.length < most ? more.length : most, more.at);
    gt__text_whole(text);
}

/* The scope of an operation, or those of a path, each once. */
static void append_scopes(char *text, size_t size, const gt_timeline *timeline, const gt_timeline_event *event)
{
    enum { MOST_NAMED = 4 };
    int32_t scopes[MOST_NAMED] = {event->scope};
    int count = event->scope >= 0;
    for (uint32_t k = 0; k < event->part_count && count < MOST_NAMED; k++) {
        int32_t scope = timeline->parts[event->first_part + k].scope;
        bool known = scope < 0;
        for (int named = 0; named < count; named++)
            known |= scopes[named] == scope;
        if (!known)
            scopes[count++] = scope;
    }
    for (int k = 0; k < count; k++) {
        const char *name = timeline->scopes[scopes[k]].name;
        append(text, size,
               k           ? ", "
               : count > 1 ? ", scopes "
                           : ", scope ",
               (gt_piece){.at = name, .length = (int)strlen(name)}, count > 1 ? 24 : 40);
    }
}

void gt__event_title(const gt_timeline *timeline, const gt_timeline_event *event, double seconds, char *title,
                     size_t size)
{
    char took[32], path[80] = "";
    if (event->instructions)
        gt__path_label(event, INFINITY, 1, path, sizeof path);
    const char *label = *path ? path : event->label;
    title[0] = 0;
    append(title, size, "", (gt_piece){.at = label, .length = (int)strlen(label)}, *path ? (int)sizeof path : 60);
    append(title, size, " ", event->shape, 40);
    append(title, size, ", ", event->place, 60);
    append_scopes(title, size, timeline, event);
    size_t used = strlen(title);
    snprintf(title + used, size - used, ", %s, #%llu", gt__duration_text(seconds, took, sizeof took),
             (unsigned long long)event->sequence);
}

/* ---- lanes -------------------------------------------------------------------------------------------------- */

typedef struct ordered_party {
    int32_t party;
    const gt_party *what;
} ordered_party;

/* Clients, the dispatcher, workers; within a kind by name, worker_2 before worker_10. */
static int by_lane(const void *left, const void *right)
{
    const gt_party *a = ((const ordered_party *)left)->what, *b = ((const ordered_party *)right)->what;
    return a->kind != b->kind ? (int)a->kind - (int)b->kind : strverscmp(a->name, b->name);
}

/* By its program, if the log says it; the number is below. */
static void name_lane(gt_lane *lane, const gt_party *party)
{
    static const char *const kinds[] = {"Client", "Dispatcher", "Worker"};
    bool cut = strlen(party->name) > 22;
    char name[23];
    snprintf(name, cut ? 22 : sizeof name, "%s", party->name);
    gt__text_whole(name);
    bool named = party->program && *party->program;
    snprintf(named ? lane->note : lane->name, sizeof lane->name, "%s%s%s%s", kinds[party->kind], *name ? " " : "",
             name, cut ? "…" : "");
    if (!named)
        return;
    append(lane->name, sizeof lane->name, "",
           (gt_piece){.at = party->program, .length = (int)strlen(party->program)}, 28);
    if (strlen(party->program) > strlen(lane->name))
        snprintf(lane->name + strlen(lane->name), 8, "…");
}

static void make_lanes(gt_picture *picture, const gt_timeline *timeline)
{
    ordered_party *order = gt__zeroed(timeline->party_count, sizeof *order);
    picture->lane_of = gt__zeroed(timeline->party_count, sizeof *picture->lane_of);
    size_t count = 0, limit[] = {MAX_CLIENTS, 1, MAX_WORKERS}, made[3] = {0}, folded[3] = {0};
    for (size_t k = 0; k < timeline->party_count; k++) {
        picture->lane_of[k] = -1;
        const gt_party *party = &timeline->parties[k];
        if (party->events || party->waits || party->kind == GT_PARTY_DISPATCHER)
            order[count++] = (ordered_party){.party = (int32_t)k, .what = &timeline->parties[k]};
    }
    qsort(order, count, sizeof *order, by_lane);
    for (size_t k = 0; k < count; k++) {
        gt_party_kind kind = order[k].what->kind;
        if (made[kind] < limit[kind]) {
            gt_lane *lane = GT_PUSH(picture->lanes, picture->lane_count, picture->lane_capacity);
            *lane = (gt_lane){.kind = kind};
            name_lane(lane, order[k].what);
            made[kind]++;
        } else
            folded[kind]++;
        gt_lane *lane = &picture->lanes[picture->lane_count - 1];
        if (folded[kind]) {
            snprintf(lane->name, sizeof lane->name, "%zu more %s", folded[kind] + 1,
                     kind == GT_PARTY_CLIENT ? "clients" : "workers");
            lane->note[0] = 0;
        }
        lane->events += order[k].what->events;
        picture->lane_of[order[k].party] = (int32_t)picture->lane_count - 1;
    }
    free(order);
}

/* The more lanes, the lower each. */
static void place_lanes(gt_picture *picture, double top)
{
    double f = picture->font, scale = picture->lane_count <= 12 ? 1 : picture->lane_count <= 24 ? 0.75 : 0.5;
    picture->top = top;
    for (size_t k = 0; k < picture->lane_count; k++) {
        gt_lane *lane = &picture->lanes[k];
        bool scopes = picture->scope_count && lane->kind == GT_PARTY_WORKER;
        double bands = scopes ? 1.45 * f * scale : 0;
        lane->top = top;
        lane->height = bands + 5.2 * f * scale;
        lane->band_top = top + 0.25 * f * scale;
        lane->band_height = scopes ? 1.3 * f * scale : 0;
        lane->bar_top = top + bands + 0.5 * f * scale;
        lane->bar_height = 2.2 * f * scale;
        lane->strip = top + bands + 4.2 * f * scale;
        top += lane->height;
    }
    picture->bottom = top;
    for (size_t k = 0; k < picture->signal_count; k++) {
        gt_signal_line *line = &picture->signals[k];
        line->label_y = *line->name ? picture->top - 0.7 * f - 1.4 * f * line->row : picture->top;
    }
}

/* ---- legend ------------------------------------------------------------------------------------------------- */

static void add_item(gt_picture *picture, gt_legend_kind kind, unsigned which, const char *text, double *x,
                     double *y)
{
    double f = picture->font, width = 2.8 * f + gt__text_width(text, 0.9 * f);
    if (*x + width > picture->width - f) {
        *x = f;
        *y += 1.8 * f;
    }
    *GT_PUSH(picture->legend, picture->legend_count, picture->legend_capacity) =
        (gt_legend_item){.kind = kind, .which = (uint8_t)which, .x = *x, .y = *y, .text = text};
    *x += width;
}

/* The scopes that have bands, on lines of their own. */
static void add_scopes(gt_picture *picture, double *x, double *y)
{
    bool *used = gt__zeroed(picture->scope_count + 1, sizeof *used), any = false;
    for (size_t k = 0; k < picture->band_count; k++)
        used[picture->bands[k].scope] = true;
    for (size_t k = 0, shown = 0; k < picture->scope_count && shown < MOST_LEGEND_SCOPES; k++) {
        if (!used[k])
            continue;
        if (!any) {
            *x = picture->font;
            *y += 1.8 * picture->font;
        }
        any = true;
        shown++;
        add_item(picture, GT_LEGEND_SCOPE, (unsigned)k % GT_SCOPE_COLOURS, picture->scopes[k].name, x, y);
    }
    free(used);
}

/* Only entries that the picture uses. */
static void make_legend(gt_picture *picture)
{
    static const char *const meanings[] = {
        [GT_EVENT_RECV] = "RECV: from a client",
        [GT_EVENT_SEND] = "SEND: to a client",
        [GT_EVENT_WORKER_SEND] = "WORKER_SEND",
        [GT_EVENT_WORKER_RECV] = "WORKER_RECV",
        [GT_EVENT_CONNECT] = "CONNECT",
        [GT_EVENT_DISCONNECT] = "DISCONNECT",
        [GT_EVENT_SIGNAL] = "SIGNAL, where workers reach it",
        [GT_EVENT_ERROR] = "ERROR",
    };
    bool category[GT_CATEGORY_COUNT] = {false}, event[GT_EVENT_COUNT] = {false}, waiting = false, heap = false;
    for (size_t k = 0; k < picture->box_count; k++) {
        category[picture->boxes[k].category] = true;
        waiting |= picture->boxes[k].waiting;
        heap |= picture->boxes[k].aggregated;
    }
    for (size_t k = 0; k < picture->marker_count; k++) {
        const gt_marker *marker = &picture->markers[k];
        if (marker->event < GT_EVENT_CONNECT)
            category[marker->category] = true;
        heap |= marker->height > 0;
        event[marker->event] |= marker->height == 0;
    }
    double f = picture->font, x = f, y = picture->bottom + 5.6 * f;
    for (unsigned k = 0; k < GT_CATEGORY_COUNT; k++)
        if (category[k])
            add_item(picture, GT_LEGEND_CATEGORY, k, gt__category_table[k].name, &x, &y);
    x = f;
    y += 1.8 * f;
    for (unsigned k = 0; k < GT_EVENT_COUNT; k++)
        if (event[k] || (k == GT_EVENT_SIGNAL && picture->signal_count))
            add_item(picture, GT_LEGEND_EVENT, k, meanings[k], &x, &y);
    if (waiting)
        add_item(picture, GT_LEGEND_WAITING, 0, "waits for a value, or for other workers", &x, &y);
    if (heap)
        add_item(picture, GT_LEGEND_HEAP, 0, "many together: share of time, number of events", &x, &y);
    add_scopes(picture, &x, &y);
    picture->height = y + 1.6 * f;
}

/* ---- everything --------------------------------------------------------------------------------------------- */

static void choose_size(gt_picture *picture, const gt_timeline *timeline)
{
    picture->font = 10;
    double f = picture->font, inches = 10 + 2 * log10(fmax(1, (double)timeline->count / 20));
    picture->width = 72 * fmin(inches, 16);
    double names = 0;
    for (size_t k = 0; k < picture->lane_count; k++)
        names = fmax(names, fmax(gt__text_width(picture->lanes[k].name, f),
                                 gt__text_width(picture->lanes[k].note, 0.8 * f)));
    picture->left = names + 2 * f;
    picture->right = picture->width - 2 * f;
}

static void write_title(gt_picture *picture, const gt_timeline *timeline)
{
    size_t clients = 0, workers = gt__timeline_workers(timeline);
    for (size_t k = 0; k < timeline->party_count; k++)
        clients += timeline->parties[k].kind == GT_PARTY_CLIENT &&
                   timeline->parties[k].events + timeline->parties[k].waits > 0;
    snprintf(picture->title, sizeof picture->title, "%zu event%s, %zu client%s, %zu worker%s, %.3f s",
             timeline->count, timeline->count == 1 ? "" : "s", clients, clients == 1 ? "" : "s", workers,
             workers == 1 ? "" : "s", gt__timeline_end(timeline) - gt__timeline_begin(timeline));
}

void gt__picture_layout(gt_picture *picture, const gt_timeline *timeline, gt_arrow_choice arrows)
{
    picture->wanted_arrows = arrows;
    picture->scopes = timeline->scopes;
    picture->scope_count = timeline->scope_count;
    make_lanes(picture, timeline);
    choose_size(picture, timeline);
    write_title(picture, timeline);
    gt__picture_axis(picture, timeline);
    place_lanes(picture, 2.6 * picture->font + 1.4 * picture->font * gt__picture_signals(picture, timeline));
    gt__picture_ticks(picture);
    gt__picture_bands(picture, timeline);
    gt__picture_bars(picture, timeline);
    gt__picture_notes(picture, timeline);
    gt__picture_markers(picture, timeline);
    gt__picture_arrows(picture, timeline);
    make_legend(picture);
}

void gt__picture_free(gt_picture *picture)
{
    free(picture->lane_of);
    free(picture->lanes);
    free(picture->boxes);
    free(picture->bands);
    free(picture->notes);
    free(picture->markers);
    free(picture->arrows);
    free(picture->signals);
    free(picture->ticks);
    free(picture->legend);
    *picture = (gt_picture){0};
}

/*
 * cli/visualize/flow.c: drawing across lanes: arrows from lane to lane, and the user's signals as lines through all lanes.
 *
 * Instructions travel to a worker in batches, and it tells of their ends in batches: each batch has one arrow, to the start of its
 * first operation or from the end of its last. Many arrows between the same lanes at about the same time become one
 * whose width shows their number. Part of the layout (cli/visualize/layout.c).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/visualize/visualize.h"

enum {
    FEW_EVENTS = 150,
    FEW_ARROWS = 240,    /* in the whole picture: up to here each is drawn */
    MANY_ARROWS = 160,   /* the target number if there are more */
    ARROWS_TOGETHER = 3, /* between the same lanes in one place, drawn one by one */
    FEWEST_COLUMNS = 8,
};

/* ---- batches ------------------------------------------------------------------------------------------------ */

static const double AT_ONCE =
    10e-6; /* seconds between lines of one batch, at most; of a full page, what it shows as one moment */

/* A worker's batch: its lines of one kind that were written at once. */
typedef struct batch {
    size_t speaker; /* the event with the batch's arrow, plus one; 0: there was none yet */
    double told;    /* the last line */
} batch;

/* For each event, the messages that its arrow stands for: 1, or those of its batch; 0: another one's arrow stands for it. */
static size_t *find_batches(const gt_picture *picture, const gt_timeline *timeline)
{
    size_t *messages = gt__zeroed(timeline->count + 1, sizeof *messages);
    batch *batches = gt__zeroed(2 * timeline->party_count, sizeof *batches);
    double moment = timeline->count <= FEW_EVENTS ? 0 : 0.5 * picture->font * picture->seconds_per_point;
    double at_once = fmax(AT_ONCE, moment);
    for (size_t k = 0; k < timeline->count; k++) {
        const gt_timeline_event *event = &timeline->events[k];
        messages[k] = 1;
        bool sent = event->event == GT_EVENT_WORKER_SEND;
        if (picture->wanted_arrows == GT_ARROWS_ALL || (!sent && event->event != GT_EVENT_WORKER_RECV))
            continue;
        batch *last = &batches[2 * event->party + sent];
        bool goes_on = last->speaker && fabs(event->told - last->told) <= at_once;
        if (goes_on) {
            size_t other = last->speaker - 1, speaker = sent ? other : k, silent = sent ? k : other;
            messages[speaker] += messages[silent];
            messages[silent] = 0;
        }
        if (!goes_on || !sent)
            last->speaker = k + 1;
        last->told = event->told;
    }
    free(batches);
    return messages;
}

/* ---- arrows ------------------------------------------------------------------------------------------------- */

/* The arrow of an event for this many messages; false: it has none. `move`: the arrow to the other worker of a move. */
static bool arrow_of(const gt_picture *picture, const gt_timeline *timeline, const gt_timeline_event *event,
                     size_t messages, bool move, gt_arrow *arrow)
{
    int32_t own = picture->lane_of[event->party], dispatcher = picture->lane_of[0];
    int32_t peer = event->peer >= 0 ? picture->lane_of[event->peer] : -1;
    const gt_lane *lane = &picture->lanes[own];
    if (event->event > GT_EVENT_WORKER_RECV || own == dispatcher || (move && (peer < 0 || peer == own)))
        return false;
    if (!move && (!messages || event->told > picture->end))
        return false; /* of a batch that has one, or told after what is shown */
    double f = picture->font;
    *arrow = (gt_arrow){
        .from = own,
        .to = dispatcher,
        .x0 = gt__picture_x(picture, gt__marker_time(timeline, event)),
        .y0 = lane->kind == GT_PARTY_WORKER ? lane->bar_top : lane->strip,
        .x1 = gt__picture_x(picture, event->told),
        .y1 = gt__dispatcher_y(picture, lane->kind == GT_PARTY_WORKER),
        .width = f * (0.05 + 0.03 * log10(1 + (double)event->bytes / 64)),
        .count = move ? 1 : messages,
        .event = event->event,
        .category = event->category,
    };
    if (move) {
        bool down = picture->lanes[peer].top > lane->top;
        arrow->to = peer;
        arrow->x1 = arrow->x0;
        arrow->y0 = lane->bar_top + (down ? lane->bar_height : 0);
        arrow->y1 = picture->lanes[peer].bar_top + (down ? 0 : picture->lanes[peer].bar_height);
        return event->event == GT_EVENT_WORKER_RECV;
    }
    if (event->event == GT_EVENT_SEND || event->event == GT_EVENT_WORKER_SEND) {
        gt_arrow back = *arrow;
        arrow->from = back.to, arrow->to = back.from;
        arrow->x0 = back.x1, arrow->x1 = back.x0;
        arrow->y0 = back.y1, arrow->y1 = back.y0;
    }
    return true;
}

/* Many arrows between the same lanes. */
typedef struct bundle {
    size_t arrows, count;       /* count: messages */
    double x0, x1, first, last; /* sums of x0 and x1; the least and the greatest x0 */
    gt_arrow any;
    size_t category[GT_CATEGORY_COUNT];
} bundle;

/* Bundles between different lanes stand side by side if there is room: `shift`, from 0 to 1, is this one's place. */
static void add_bundle(gt_picture *picture, const bundle *many, double width, double shift)
{
    gt_arrow *arrow = GT_PUSH(picture->arrows, picture->arrow_count, picture->arrow_capacity);
    *arrow = many->any;
    arrow->count = many->count;
    double middle = many->x0 / (double)many->arrows, slant = many->x1 / (double)many->arrows - middle;
    arrow->x0 = fmin(fmax(middle + width * (shift - 0.5), many->first), many->last);
    arrow->x1 = arrow->x0 + slant;
    arrow->width = picture->font * fmin(0.06 + 0.05 * log10((double)many->count), 0.25);
    for (int k = 0; k < GT_CATEGORY_COUNT; k++)
        if (many->category[k] > many->category[arrow->category])
            arrow->category = (uint8_t)k;
}

/* Columns for the bundles: wider if there are too many arrows to distinguish. *together: how many arrows between the
 * same lanes in one column are still drawn one by one. */
static size_t count_columns(const gt_picture *picture, const gt_timeline *timeline, const size_t *messages,
                            size_t *together)
{
    size_t lanes = picture->lane_count, arrows = 0, ways = 0;
    bool *used = gt__zeroed(lanes * lanes, sizeof *used);
    gt_arrow arrow;
    for (size_t k = 0; k < 2 * timeline->count; k++)
        if (arrow_of(picture, timeline, &timeline->events[k / 2], messages[k / 2], k % 2, &arrow)) {
            bool *way = &used[(size_t)arrow.from * lanes + (size_t)arrow.to];
            ways += !*way;
            *way = true;
            arrows++;
        }
    free(used);
    *together = arrows <= FEW_ARROWS ? FEW_ARROWS : ARROWS_TOGETHER;
    size_t finest = (size_t)((picture->right - picture->left) / (1.6 * picture->font));
    size_t wanted = arrows <= FEW_ARROWS || !ways ? finest : MANY_ARROWS / ways;
    wanted = wanted < FEWEST_COLUMNS ? FEWEST_COLUMNS : wanted;
    return wanted < finest ? wanted : finest;
}

void gt__picture_arrows(gt_picture *picture, const gt_timeline *timeline)
{
    if (picture->wanted_arrows == GT_ARROWS_NONE)
        return;
    size_t *messages = find_batches(picture, timeline);
    size_t lanes = picture->lane_count, together, columns = count_columns(picture, timeline, messages, &together);
    double width = (picture->right - picture->left) / (double)columns;
    bundle *bundles = gt__zeroed(lanes * lanes * columns, sizeof *bundles);
    gt_arrow arrow;
    for (int pass = 0; pass < 2; pass++)
        for (size_t k = 0; k < 2 * timeline->count; k++) {
            if (!arrow_of(picture, timeline, &timeline->events[k / 2], messages[k / 2], k % 2, &arrow))
                continue;
            double place = fmin(fmax(floor((arrow.x0 - picture->left) / width), 0), (double)(columns - 1));
            bundle *at = &bundles[((size_t)arrow.from * lanes + (size_t)arrow.to) * columns + (size_t)place];
            if (pass == 0) {
                at->first = at->arrows ? fmin(at->first, arrow.x0) : arrow.x0;
                at->last = at->arrows ? fmax(at->last, arrow.x0) : arrow.x0;
                at->arrows++;
                at->count += arrow.count;
                at->x0 += arrow.x0;
                at->x1 += arrow.x1;
                at->any = arrow;
                at->category[arrow.category] += arrow.count;
            } else if (at->arrows <= together)
                *GT_PUSH(picture->arrows, picture->arrow_count, picture->arrow_capacity) = arrow;
        }
    for (size_t k = 0; k < lanes * lanes * columns; k++)
        if (bundles[k].arrows > together) {
            size_t way = bundles[k].any.from == picture->lane_of[0] ? 2 * (size_t)bundles[k].any.to + 1
                                                                    : 2 * (size_t)bundles[k].any.from;
            add_bundle(picture, &bundles[k], width, ((double)way + 0.5) / (double)(2 * lanes));
        }
    free(bundles);
    free(messages);
}

/* ---- signals ------------------------------------------------------------------------------------------------ */

/* The signal's name: name=NAME or name="NAME" in the details, else the details, else the command. */
static void signal_name(const gt_timeline_event *event, char *name, size_t size)
{
    gt_piece found = gt__detail_text(event->details, "name");
    if (found.at)
        snprintf(name, size, "%.*s", found.length, found.at);
    else
        snprintf(name, size, "%s", *event->details ? event->details : event->command);
    gt__text_whole(name);
}

/* Several signals at one moment: all their names if they fit, else their number. */
static void join_signal(gt_signal_line *line, const gt_timeline_event *event)
{
    char name[sizeof line->name];
    signal_name(event, name, sizeof name);
    size_t length = strlen(line->name), more = strlen(name);
    line->count++;
    line->joined &= length + 2 + more < sizeof line->name;
    if (line->joined)
        snprintf(line->name + length, sizeof line->name - length, ", %s", name);
}

enum { LABEL_ROWS = 3 };

static int label_signal(const gt_picture *picture, gt_signal_line *line, double last[LABEL_ROWS])
{
    double f = picture->font, width = gt__text_width(line->name, 0.85 * f) + (line->joined ? 0 : 2 * f) + f;
    double x = fmin(line->x + 0.3 * f, picture->width - width);
    for (int row = 0; row < LABEL_ROWS; row++)
        if (x >= last[row]) {
            last[row] = x + width;
            line->label_x = x;
            line->row = row;
            return row + 1;
        }
    line->name[0] = 0;
    return 0;
}

static int by_start(const void *left, const void *right)
{
    const gt_timeline_event *a = *(const gt_timeline_event *const *)left,
                            *b = *(const gt_timeline_event *const *)right;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return (a->sequence > b->sequence) - (a->sequence < b->sequence);
}

/* The signals that are no bands, where the workers reached them. */
int gt__picture_signals(gt_picture *picture, const gt_timeline *timeline)
{
    double last[LABEL_ROWS] = {-1e9, -1e9, -1e9};
    int rows = 0;
    size_t count = 0, capacity = 0;
    const gt_timeline_event **signals = NULL;
    for (size_t k = 0; k < timeline->count; k++)
        if (timeline->events[k].event == GT_EVENT_SIGNAL && !timeline->events[k].is_band)
            *GT_PUSH(signals, count, capacity) = &timeline->events[k];
    if (count)
        qsort(signals, count, sizeof *signals, by_start);
    for (size_t k = 0; k < count; k++) {
        double x = gt__picture_x(picture, signals[k]->start);
        gt_signal_line *before = picture->signal_count ? &picture->signals[picture->signal_count - 1] : NULL;
        if (before && x - before->x < 0.25 * picture->font) {
            join_signal(before, signals[k]);
            continue;
        }
        gt_signal_line *line = GT_PUSH(picture->signals, picture->signal_count, picture->signal_capacity);
        *line = (gt_signal_line){.x = x, .count = 1, .joined = true};
        signal_name(signals[k], line->name, sizeof line->name);
    }
    for (size_t k = 0; k < picture->signal_count; k++)
        rows = (int)fmax(rows, label_signal(picture, &picture->signals[k], last));
    free(signals);
    return rows;
}

/*
 * cli/visualize/notes.c: names of operations whose bars are too narrow for text. Such bars that follow each other closely
 * get one note, "relu, sum, GetData", in the empty lane after them, if it fits before the next bar. Part of the layout
 * (cli/visualize/layout.c), after the bars.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/visualize/visualize.h"

enum { FEW_EVENTS = 1000, MOST_NAMES = 5 }; /* in a picture; in a note */

/* The narrow bars of a lane since the last bar with a name. */
typedef struct cluster {
    const char *names[MOST_NAMES];
    unsigned counts[MOST_NAMES];
    unsigned runs; /* more than MOST_NAMES: no note */
    double end;    /* x */
} cluster;

static void write_names(const cluster *c, char *text, size_t size)
{
    size_t used = 0;
    for (unsigned k = 0; k < c->runs && used < size; k++) {
        const char *comma = k ? ", " : "";
        used += (size_t)(c->counts[k] > 1
                             ? snprintf(text + used, size - used, "%s%s ×%u", comma, c->names[k], c->counts[k])
                             : snprintf(text + used, size - used, "%s%s", comma, c->names[k]));
    }
    gt__text_whole(text);
}

/* The next bar of the lane begins at `next`: write the note before it. */
static void finish(gt_picture *picture, int32_t lane, cluster *c, double next)
{
    double f = picture->font;
    gt_note note = {.lane = lane,
                    .x = c->end + 0.3 * f,
                    .y = picture->lanes[lane].bar_top + 0.5 * picture->lanes[lane].bar_height};
    if (c->runs && c->runs <= MOST_NAMES) {
        write_names(c, note.text, sizeof note.text);
        if (note.x + gt__text_width(note.text, 0.8 * f) < next - 0.3 * f)
            *GT_PUSH(picture->notes, picture->note_count, picture->note_capacity) = note;
    }
    c->runs = 0;
}

static void add_name(cluster *c, const char *name)
{
    if (c->runs && c->runs <= MOST_NAMES && strcmp(c->names[c->runs - 1], name) == 0) {
        c->counts[c->runs - 1]++;
        return;
    }
    if (c->runs < MOST_NAMES) {
        c->names[c->runs] = name;
        c->counts[c->runs] = 1;
    }
    c->runs += c->runs <= MOST_NAMES;
}

void gt__picture_notes(gt_picture *picture, const gt_timeline *timeline)
{
    double f = picture->font;
    if (timeline->count > FEW_EVENTS)
        return;
    cluster *clusters = gt__zeroed(picture->lane_count, sizeof *clusters);
    for (size_t k = 0; k < timeline->count; k++) { /* a worker's operations are in the order of their ends */
        const gt_timeline_event *event = &timeline->events[k];
        int32_t lane = picture->lane_of[event->party];
        if (event->event != GT_EVENT_WORKER_RECV || picture->lanes[lane].bar_height <= 1.2 * f ||
            event->category == GT_CATEGORY_FREE || event->category == GT_CATEGORY_HOT_PATH)
            continue;
        cluster *c = &clusters[lane];
        double x = gt__picture_x(picture, event->start),
               end = gt__picture_x(picture, event->start + event->duration);
        if (x - c->end > f)
            finish(picture, lane, c, x);
        if (gt__text_width(event->label, 0.9 * f) < end - x - 0.4 * f)
            c->runs = 0; /* this bar shows its name and ends the cluster */
        else
            add_name(c, event->label);
        c->end = end > c->end ? end : c->end;
    }
    for (size_t lane = 0; lane < picture->lane_count; lane++)
        finish(picture, (int32_t)lane, &clusters[lane], picture->right);
    free(clusters);
}

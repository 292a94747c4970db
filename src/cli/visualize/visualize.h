/*
 * cli/visualize/visualize.h: the data that the stages of `gt visualize` pass on.
 *
 *     log file --parse--> gt_timeline --layout--> gt_picture --draw--> PNG, SVG, PDF
 *                              |                       '--dump--> JSON (--dump-layout)
 *                              '--chrome--> Chrome trace JSON
 *
 * visualize.c is the command. Only draw.c depends on Cairo, only parse.c on the format of a log.
 */
#ifndef GT_CLI_VISUALIZE_VISUALIZE_H
#define GT_CLI_VISUALIZE_VISUALIZE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/array.h"
#include "cli/category.h"
#include "cli/json.h"
#include "dispatcher/observe/log_text.h"

/* ---- the timeline: what a log says -------------------------------------------------------------------------- */

const char *gt__event_name(gt_event event); /* "RECV" */

typedef enum gt_party_kind { GT_PARTY_CLIENT, GT_PARTY_DISPATCHER, GT_PARTY_WORKER } gt_party_kind;

typedef struct gt_party {
    gt_party_kind kind;
    const char *name; /* as in the log, without CLIENT or WORKER */
    size_t events;
} gt_party;

/* One line. The timeline owns the texts. */
typedef struct gt_timeline_event {
    double time;            /* seconds since the dispatcher started */
    double start, duration; /* WORKER_RECV: when the worker ran it; measured, or estimated from the log's lines */
    uint64_t sequence, bytes;
    const char *command, *details, *label; /* label: the op's name, else the command without "Worker" */
    int32_t party;                         /* of timeline->parties */
    int32_t partner;                       /* the matching request or answer; -1: none */
    int32_t peer;                          /* the other worker of a move; -1: none */
    uint8_t event, category;               /* gt_event, gt_category */
    bool failed;
    uint32_t instructions; /* of a hot path, whose label is their list; 0: it is none, or not known */
} gt_timeline_event;

/* A hot path that was run: which ops it has, by the client and its number for it. */
typedef struct gt_timeline_path {
    int32_t party;
    uint64_t number;
    uint32_t instructions;
    const char *ops; /* "matmul,add,relu"; a long list ends with "..." */
} gt_timeline_path;

typedef struct gt_timeline {
    gt_timeline_event *events; /* sorted by time */
    size_t count, capacity;
    gt_party *parties; /* in the order of appearance; [0] is the dispatcher */
    size_t party_count, party_capacity;
    int32_t *party_index; /* hash table by kind and name: index in parties plus one; 0: free */
    size_t index_size;
    char **texts; /* the files' contents, cut into pieces */
    size_t text_count, text_capacity;
    gt_timeline_path *paths;
    size_t path_count, path_capacity;
    size_t malformed; /* lines that could not be read */
} gt_timeline;

/* Read a log into the timeline; malformed lines are reported on `complaints` with their number and skipped. */
gt_err gt__timeline_read(gt_timeline *timeline, const char *path, FILE *complaints);
/* After the last read: sort, find the partners, keep what happened between `from` and `to`. */
void gt__timeline_finish(gt_timeline *timeline, double from, double to);
void gt__timeline_free(gt_timeline *timeline);
double gt__timeline_begin(const gt_timeline *timeline);
double gt__timeline_end(const gt_timeline *timeline);
size_t gt__timeline_workers(const gt_timeline *timeline);

/* ---- the picture: what is drawn, in points (1/72 inch) ------------------------------------------------------ */

typedef struct gt_lane {
    gt_party_kind kind;
    char name[80];
    double top, height;
    double bar_top, bar_height; /* where the bars are */
    double strip;               /* y of the markers' middle */
    double busy;                /* seconds, in bars */
    size_t events;
} gt_lane;

/* A bar of one operation, or (count > 1, or aggregated) a part of a column that represents many. */
typedef struct gt_box {
    int32_t lane;
    double x, y, width, height;
    double start, duration; /* seconds */
    uint64_t sequence;
    size_t count;
    uint8_t category;
    bool aggregated, waiting, failed;
    char label[80], id[16]; /* empty: no room */
} gt_box;

/* The names of operations whose bars are too narrow for text, after the last one. */
typedef struct gt_note {
    int32_t lane;
    double x, y; /* where it begins, and its middle */
    char text[160];
} gt_note;

/* One event, or (height > 0) a heap: a column centred at x that stands on y and represents `count` events. */
typedef struct gt_marker {
    int32_t lane;
    double x, y, radius, height;
    uint64_t sequence;
    size_t count;
    uint8_t event, category;
    bool failed;
    bool echo;   /* the dispatcher's side of an event in another lane */
    char id[32]; /* "#7"; "#7–#19" of a heap, at its foot */
} gt_marker;

typedef struct gt_arrow {
    int32_t from, to; /* lanes */
    double x0, y0, x1, y1, width;
    size_t count;
    uint8_t event, category;
} gt_arrow;

typedef struct gt_signal_line {
    double x, label_x, label_y;
    int row; /* of the labels, from below */
    size_t count;
    bool joined;   /* the name stands for all `count` signals */
    char name[64]; /* empty: no room */
} gt_signal_line;

/* A part of the time axis with events. Between two stretches the axis is broken. */
typedef struct gt_stretch {
    double begin, end; /* seconds */
    double x;          /* where it begins */
} gt_stretch;
enum { GT_MAX_STRETCHES = 12, GT_BREAK_WIDTH = 2 }; /* the width is in font sizes */

typedef struct gt_tick {
    double x;
    char text[24];
} gt_tick;

typedef enum gt_legend_kind {
    GT_LEGEND_CATEGORY,
    GT_LEGEND_EVENT,
    GT_LEGEND_WAITING,
    GT_LEGEND_HEAP
} gt_legend_kind;

typedef struct gt_legend_item {
    gt_legend_kind kind;
    uint8_t which; /* gt_category or gt_event */
    double x, y;
    const char *text;
} gt_legend_item;

typedef struct gt_picture {
    double width, height, font;      /* font: the size of text, and the unit of all lengths */
    double left, right, top, bottom; /* of the plot */
    double begin, end;               /* seconds at left and right */
    double seconds_per_point;
    gt_stretch stretches[GT_MAX_STRETCHES];
    int stretch_count;
    char axis[64], title[160];
    gt_lane *lanes;
    gt_box *boxes;
    gt_note *notes;
    gt_marker *markers;
    gt_arrow *arrows;
    gt_signal_line *signals;
    gt_tick *ticks;
    gt_legend_item *legend;
    size_t lane_count, box_count, note_count, marker_count, arrow_count, signal_count, tick_count, legend_count;
    size_t lane_capacity, box_capacity, note_capacity, marker_capacity, arrow_capacity, signal_capacity,
        tick_capacity, legend_capacity;
    int32_t *lane_of; /* by party; -1: a party without events */
} gt_picture;

void gt__picture_layout(gt_picture *picture, const gt_timeline *timeline);
void gt__picture_free(gt_picture *picture);

/* Steps of gt__picture_layout. axis.c: time; bars.c and notes.c: the contents of the lanes; flow.c: drawing across them. */
void gt__picture_axis(gt_picture *picture, const gt_timeline *timeline);
void gt__picture_ticks(gt_picture *picture);
double gt__picture_x(const gt_picture *picture, double time);
double gt__picture_time(const gt_picture *picture, double x);
void gt__picture_bars(gt_picture *picture, const gt_timeline *timeline);
void gt__picture_notes(gt_picture *picture, const gt_timeline *timeline);
void gt__picture_markers(gt_picture *picture, const gt_timeline *timeline);
void gt__picture_arrows(gt_picture *picture, const gt_timeline *timeline);
/* Returns the rows of labels that they take above the plot. */
int gt__picture_signals(gt_picture *picture, const gt_timeline *timeline);

/* The time of an event's marker: that of the event, which for an operation is its end. */
double gt__marker_time(const gt_timeline *timeline, const gt_timeline_event *event);
/* y of the dispatcher's side of an event. */
double gt__dispatcher_y(const gt_picture *picture, bool worker_side);

/* Drop the last character of a text if it was cut in the middle of its bytes. */
void gt__text_whole(char *text);
/* The estimated width of a text in a font of this size. */
double gt__text_width(const char *text, double font);

typedef enum gt_picture_format { GT_PICTURE_PNG, GT_PICTURE_SVG, GT_PICTURE_PDF } gt_picture_format;

/* *width and *height: pixels in a PNG, points elsewhere. */
gt_err gt__picture_draw(const gt_picture *picture, gt_picture_format format, double dpi, const char *path,
                        int *width, int *height);

/* Everything the picture has, as JSON. */
void gt__picture_dump(const gt_picture *picture, FILE *json);

/* The timeline as a trace for Perfetto and chrome://tracing. */
gt_err gt__timeline_chrome(const gt_timeline *timeline, const char *path);

#endif

/*
 * cli/visualize/visualize.h: the data that the stages of `gt visualize` pass on.
 *
 *     log file --parse--> gt_timeline --layout--> gt_picture --draw--> PNG, SVG, PDF
 *                              |                       '--dump--> JSON (--dump-layout)
 *                              '--chrome--> Chrome trace JSON
 *
 * visualize.c is the command. Only parse.c depends on the format of a log, only canvas_cairo.c on Cairo. cause.c connects
 * the lines of a timeline: what a worker executed, with the line of the program that asked for it.
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
    const char *name;    /* as in the log, without CLIENT or WORKER */
    const char *program; /* of a client: "train.py:4711"; NULL: not known */
    size_t events, waits;
} gt_party;

/* A part of a line's text. */
typedef struct gt_piece {
    const char *at;
    int length; /* 0: there is none */
} gt_piece;

/* One line. The timeline owns the texts. */
typedef struct gt_timeline_event {
    double time;            /* seconds since the dispatcher started */
    double told;            /* the same; of an operation, when the dispatcher learned of its end */
    double start, duration; /* WORKER_RECV: when the worker ran it; measured, or estimated from the log's lines */
    double wait;            /* of the duration, from its start: it waited for other workers */
    uint64_t sequence, bytes;
    const char *command, *details, *label; /* label: the op's name, else the command without "Worker" */
    int32_t party;                         /* of timeline->parties */
    int32_t partner;                       /* the matching request or answer; -1: none */
    int32_t peer;                          /* the other worker of a move; -1: none */
    int32_t cause;                         /* WORKER_SEND: the client's line that it executes; -1: none */
    int32_t scope;                         /* of timeline->scopes: the signal that it was emitted in; -1: none */
    uint32_t visit;                        /* tells apart how often scopes were entered */
    gt_piece place, shape;   /* "train.py:12" and "(32,10)": of the program's line, and of the result */
    uint8_t event, category; /* gt_event, gt_category */
    bool failed;
    bool is_band;                       /* SIGNAL: the work of its scope is shown as bands */
    uint32_t instructions;              /* of a hot path, whose label is their list; 0: it is none, or not known */
    uint32_t first_part, part_count;    /* of a hot path: which of timeline->parts are its scopes, in order */
    double whole_start, whole_duration; /* WORKER_RECV: before it was cut to the window */
} gt_timeline_event;

/* A client waits for an answer. Of one that began before the window or ends behind it, the part inside. */
typedef struct gt_timeline_wait {
    gt_timeline_event event; /* the answer */
    double start, end;
    int32_t request, answer; /* events; -1: outside of the window */
} gt_timeline_wait;

/* A hot path that was run: which ops it has, by the client and its number for it. */
typedef struct gt_timeline_path {
    int32_t party;
    uint64_t number;
    uint32_t instructions;
    const char *ops; /* "matmul,add,relu"; a long list ends with "..." */
} gt_timeline_path;

/* Successive instructions of a hot path in the same scope. */
typedef struct gt_timeline_part {
    int32_t scope; /* -1: outside of all scopes */
    uint32_t visit;
    double end; /* when it was done, about: a share of the path's time */
    size_t operations;
} gt_timeline_part;

/* A signal around instructions: gt.signal.context('forward'), or its gradients. */
typedef struct gt_timeline_scope {
    const char *name;
} gt_timeline_scope;

typedef struct gt_timeline {
    gt_timeline_event *events; /* sorted by time; `start` of a SIGNAL: when the workers reached it */
    size_t count, capacity;
    gt_timeline_scope *scopes;
    size_t scope_count, scope_capacity;
    gt_party *parties; /* in the order of appearance; [0] is the dispatcher */
    size_t party_count, party_capacity;
    int32_t *party_index; /* hash table by kind and name: index in parties plus one; 0: free */
    size_t index_size;
    char **texts; /* the files' contents, cut into pieces, and names made from them */
    size_t text_count, text_capacity;
    gt_timeline_path *paths;
    size_t path_count, path_capacity;
    gt_timeline_part *parts;
    size_t part_count, part_capacity;
    gt_timeline_wait *waits; /* sorted by their ends */
    size_t wait_count, wait_capacity;
    size_t malformed; /* lines that could not be read */
} gt_timeline;

/* Read a log into the timeline; malformed lines are reported on `complaints` with their number and skipped. */
gt_err gt__timeline_read(gt_timeline *timeline, const char *path, FILE *complaints);
/* After the last read: sort, find the partners, keep what happened between `from` and `to`. */
void gt__timeline_finish(gt_timeline *timeline, double from, double to);
void gt__timeline_free(gt_timeline *timeline);
/* Part of it, cause.c: which line of a client caused what workers did, in which scope; when the workers reached a signal; who
 * waited for whom. After the partners are known. */
void gt__timeline_causes(gt_timeline *timeline);

/* Part of that, inside.c: which lines of a client are inside of a hot path's run. */
typedef struct gt_path_reader { /* of each client, while its lines are read in their order */
    int32_t path, last;         /* events: the run, and the line of it that was read last */
    uint32_t left;              /* lines of the run that follow */
} gt_path_reader;

/* For each event. */
typedef struct gt_path_member {
    int32_t path, next; /* the run's line, -1: none; of a run and its lines, the following line, 0: none */
    double from, to;    /* when it was executed, about: shares of the run's time */
} gt_path_member;

/* The next line of a client, an instruction or the run of a path. */
void gt__path_read(gt_path_reader *reader, const gt_timeline_event *event, int32_t index, gt_path_member *members);
/* After causes and scopes are known: the parts and the places of paths. */
void gt__timeline_inside(gt_timeline *timeline, gt_path_member *members);

/* What a worker executed of one scope, one after another; scope -1: outside of all scopes. */
typedef struct gt_scope_span {
    int32_t party, scope;
    uint32_t visit;
    double start, end;
    size_t operations;
} gt_scope_span;

/* The spans of all workers, by worker and time; malloc'ed. */
gt_scope_span *gt__timeline_scope_spans(const gt_timeline *timeline, size_t *count);
/* The value of `key=` in a line's details; length 0: no such key. Quoted text, which comes last, is not searched. */
gt_piece gt__detail(const char *details, const char *key);
/* The quoted text, or word, behind `key=`; length 0: no such key. */
gt_piece gt__detail_text(const char *details, const char *key);
/* Whether two events concern the same tensor, as far as their details say. */
bool gt__event_same_tensor(const gt_timeline_event *a, const gt_timeline_event *b);
int32_t gt__timeline_party(gt_timeline *timeline, gt_party_kind kind, const char *name); /* -1: unknown */
double gt__timeline_begin(const gt_timeline *timeline);
double gt__timeline_end(const gt_timeline *timeline);
size_t gt__timeline_workers(const gt_timeline *timeline);

/* ---- the picture: what is drawn, in points (1/72 inch) ------------------------------------------------------ */

typedef struct gt_lane {
    gt_party_kind kind;
    char name[80], note[80]; /* note: below the name, "client 1" */
    double top, height;
    double band_top, band_height; /* where the names of scopes are; height 0: the picture has none */
    double bar_top, bar_height;   /* where the bars are */
    double strip;                 /* y of the markers' middle */
    double busy, waited;          /* seconds, in bars; of workers for each other */
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
    char title[256];        /* "matmul (64,10), train.py:12, 1.5 ms": what a reader sees who points at it */
} gt_box;

/* The instructions of one scope that a worker executed one after another. */
typedef struct gt_band {
    int32_t lane, scope;
    double x, width;
    double start, end; /* seconds */
    size_t operations;
    char label[64]; /* empty: no room */
} gt_band;

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
    GT_LEGEND_HEAP,
    GT_LEGEND_SCOPE
} gt_legend_kind;

typedef struct gt_legend_item {
    gt_legend_kind kind;
    uint8_t which; /* gt_category, gt_event or the number of a scope's colour */
    double x, y;
    const char *text;
} gt_legend_item;

/* Which messages have an arrow. Both sides send many at once: by default each such batch has one arrow. */
typedef enum gt_arrow_choice { GT_ARROWS_BATCHES, GT_ARROWS_ALL, GT_ARROWS_NONE } gt_arrow_choice;

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
    gt_band *bands;
    gt_note *notes;
    gt_marker *markers;
    gt_arrow *arrows;
    gt_signal_line *signals;
    gt_tick *ticks;
    gt_legend_item *legend;
    size_t lane_count, box_count, band_count, note_count, marker_count, arrow_count, signal_count, tick_count,
        legend_count;
    size_t lane_capacity, box_capacity, band_capacity, note_capacity, marker_capacity, arrow_capacity,
        signal_capacity, tick_capacity, legend_capacity;
    int32_t *lane_of;                /* by party; -1: a party without events */
    const gt_timeline_scope *scopes; /* of the timeline */
    size_t scope_count;
    gt_arrow_choice wanted_arrows;
} gt_picture;

void gt__picture_layout(gt_picture *picture, const gt_timeline *timeline, gt_arrow_choice arrows);
void gt__picture_free(gt_picture *picture);

/* Steps of gt__picture_layout. axis.c: time; bands.c, bars.c and notes.c: the contents of the lanes; flow.c: drawing
 * across them. */
void gt__picture_axis(gt_picture *picture, const gt_timeline *timeline);
void gt__picture_ticks(gt_picture *picture);
double gt__picture_x(const gt_picture *picture, double time);
double gt__picture_time(const gt_picture *picture, double x);
void gt__picture_bands(gt_picture *picture, const gt_timeline *timeline);
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

/* "1.52 ms" */
const char *gt__duration_text(double seconds, char *text, size_t size);
/* What is in a path, as far as there is room: "35 ops: 5 matmul, 4 mul…"; unchanged if there is none. */
void gt__path_label(const gt_timeline_event *event, double width, double font, char *label, size_t size);
/* What a line says of an operation: "matmul (64,10), train.py:12, scope forward, 1.52 ms, #17", and of a hot path: "35 ops: 5
 * matmul…, train.py:12-20, scopes forward, update, 9.1 ms, #40". */
void gt__event_title(const gt_timeline *timeline, const gt_timeline_event *event, double seconds, char *title,
                     size_t size);
/* Scopes have colours in turn. */
enum { GT_SCOPE_COLOURS = 8 };
uint32_t gt__scope_colour(int32_t scope);

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

/* The timeline as a trace for Perfetto, speedscope and chrome://tracing; compressed if the path ends with .gz. */
gt_err gt__timeline_chrome(const gt_timeline *timeline, const char *path);

#endif

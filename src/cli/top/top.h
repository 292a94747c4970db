/*
 * cli/top/top.h: shared by the parts of `gt top`.
 *
 *     dispatcher --statistics--> gt_top (cli/top/model.c: rates and smoothed shares; cli/top/history.c: the last minutes)
 *                --one client--> gt_top_detail (cli/top/detail.c)
 *                                   |--> cli/top/screen.c: ncurses; cli/top/pages.c, cli/top/client_page.c draw; cli/top/keys.c
 *                                   '--> cli/top/print.c: --once, --json
 *
 * cli/top/top.c is the command and its loop. core/cards.h has the graphics cards of this host.
 */
#ifndef GT_CLI_TOP_TOP_H
#define GT_CLI_TOP_TOP_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/category.h"
#include "core/cards.h"
#include "core/error.h"

/* ---- the model ---------------------------------------------------------------------------------------------- */

struct gt_json;

/* The last measurements of something, one for each look. */
enum { GT_HISTORY = 2400 };
typedef struct gt_history {
    unsigned count; /* ever; the last GT_HISTORY of them are in `value`, by number modulo GT_HISTORY */
    float value[GT_HISTORY];
} gt_history;

/* history.c. *history is made when it is first added to. */
void gt__history_add(gt_history **history, double value);
/* The mean of `per` measurements, of which the last is `ago` before the latest one; NAN: so many were not made. */
double gt__history_mean(const gt_history *history, unsigned ago, unsigned per);
/* The largest of the last `count`; 0 if there are none. */
double gt__history_peak(const gt_history *history, unsigned count);

/* One op's totals, or its smoothed rates. */
typedef struct gt_top_op {
    double count, seconds, bytes;
} gt_top_op;

/* A hot path that is being run; no instructions: none is. */
typedef struct gt_top_path {
    double number, instructions;
} gt_top_path;

typedef struct gt_top_worker {
    char name[64], engine[32], link[16], exchange[16];
    double index;
    bool present, measured;          /* present: in the last statistics; measured: in two reports */
    double share[GT_CATEGORY_COUNT]; /* of its time, by category; smoothed. The rest is idle */
    double idle;                     /* share of its time */
    double ops, bytes;               /* per second; smoothed */
    double memory, limit;            /* bytes */
    double tensors, queue;           /* queue: records not executed yet */
    char doing[32];                  /* the op that it executes; empty: none is known */
    double doing_seconds;            /* for so long */
    char doing_line[128];            /* of the program; empty: not known */
    double doing_client;             /* for this client; 0: not known */
    gt_top_path doing_path;
    gt_card card;                 /* that its engine computes on; nothing known: none */
    gt_history *busy, *used;      /* share of its time; bytes */
    double up, idle_seconds;      /* of the last report */
    gt_top_op total[GT_OP_COUNT]; /* of the last report */
    gt_top_op rate[GT_OP_COUNT];  /* per second; smoothed. seconds: the share of its time */
} gt_top_worker;

typedef struct gt_top_client {
    char name[64], link[16], user[48];
    double number; /* its number at the dispatcher */
    bool present;
    char worker[66]; /* its home, "+": it uses others, too */
    char line[128],
        scope[64]; /* that a worker was last seen executing for it; empty: not known. Of a path: all of them */
    gt_top_path path;
    gt_history *spent; /* device time per second */
    double share;      /* of the time that workers spend on clients; if none is known, of all instructions */
    double tensors, bytes, instructions;
    double rate;          /* instructions per second; smoothed */
    double seconds, time; /* of workers: total, and per second; smoothed */
} gt_top_client;

typedef struct gt_top {
    gt_top_worker *workers;
    gt_top_client *clients;
    size_t worker_count, worker_capacity, client_count, client_capacity;
    size_t samples;            /* statistics received */
    double seconds;            /* since the dispatcher started */
    double sample;             /* seconds between the last two statistics */
    double cpu_seconds, cpu;   /* of its thread: total, current share */
    double instructions, rate; /* total, per second */
    gt_history *busy, *used;   /* of all workers: their mean share, all bytes */
} gt_top;

/* Take the dispatcher's statistics; false: malformed. */
bool gt__top_take(gt_top *top, const struct gt_json *stats);
/* The same from their text. */
bool gt__top_update(gt_top *top, const char *json);
/* Whether rates are known: every worker has reported twice. */
bool gt__top_measured(const gt_top *top);
void gt__top_clear(gt_top *top);

typedef enum gt_top_order {
    GT_TOP_BY_NAME,
    GT_TOP_BY_ACTIVITY,
    GT_TOP_BY_OPS,
    GT_TOP_BY_BYTES,
    GT_TOP_BY_MEMORY,
    GT_TOP_ORDERS
} gt_top_order;
extern const char *const gt__top_orders[GT_TOP_ORDERS];

/* Names in ascending order, everything else descending; `reversed`: the opposite. */
void gt__top_sort(gt_top *top, gt_top_order order, bool reversed);

/* The ops that took time, longest first; returns how many of `ops` are filled. */
size_t gt__top_ops(const gt_top *top, gt_opcode ops[GT_OP_COUNT], gt_top_op rates[GT_OP_COUNT]);

/* Divide a bar of `width` cells by a worker's shares: cells[k] gets a category, or GT_CATEGORY_COUNT for idle. */
void gt__top_bar(const gt_top_worker *worker, int width, unsigned char *cells);

/* "1.2k", "34M", "5.6G": at most five characters; "?": not a number. binary: 1K is 1024. */
char *gt__short_number(double value, bool binary, char text[16]);
/* "NVIDIA H200  97%  memory 1.4G/140G  59 C  657 W"; "-" for what is not known. */
char *gt__card_line(const gt_card *card, char text[128]);
/* A worker's name, or "NAME+", in `width` columns (at least 8, at most 64). One that is too long loses its middle; if it then looks like
 * another worker's, its end is its index. */
char *gt__top_short_name(const gt_top *top, const char *name, int width, char text[72]);

/* ---- one client: detail.c ------------------------------------------------------------------------------------ */

/* A line of its program, or the hot path that begins there. */
typedef struct gt_top_line {
    char line[128];
    bool path;
    double seconds, count, tensors, bytes;
} gt_top_line;

typedef struct gt_top_tensor {
    char dtype[16], shape[64], place[64], line[128], scope[64];
    double id, bytes;
} gt_top_tensor;

typedef struct gt_top_detail {
    double number;                  /* of the client; 0: nothing is known yet */
    bool found;                     /* false: it is gone */
    double tensors, bytes, seconds; /* seconds: of all lines */
    gt_top_line *lines;
    gt_top_tensor *largest;
    size_t line_count, line_capacity, largest_count, largest_capacity;
} gt_top_detail;

/* Take what the dispatcher says of a client (dispatcher/observe/inspect.c); false: malformed. */
bool gt__detail_update(gt_top_detail *detail, const char *json);
void gt__detail_clear(gt_top_detail *detail);

/* ---- showing it --------------------------------------------------------------------------------------------- */

typedef enum gt_top_page {
    GT_TOP_BOTH, /* workers and clients */
    GT_TOP_OPERATIONS,
    GT_TOP_CLIENTS,
    GT_TOP_WORKERS,
    GT_TOP_PAGES
} gt_top_page;

typedef struct gt_top_view {
    gt_top_order order;
    bool reversed, paused, help;
    gt_top_page page;
    double selected;       /* the number of the client that the cursor is on; 0: the first one */
    double shown;          /* of the client whose details are shown; 0: none is */
    bool tensors;          /* the cursor keys move its tensors, not its lines */
    int scroll;            /* lines that the list without a cursor was moved by: workers, lines or tensors */
    size_t first_client;   /* in the list, that is visible */
    char filter[48];       /* clients without this text are hidden */
    bool typing;           /* the filter is being typed */
    double interval, span; /* seconds between two looks; that graphs show at least */
    const char *address;
    unsigned servers, which; /* dispatchers on this host, and the index of this one */
    char message[160];       /* shown instead of data: why there is none */
} gt_top_view;

/* Whether the filter lets a client through. */
bool gt__top_passes(const gt_top_view *view, const gt_top_client *client);

void gt__top_print(const gt_top *top, const gt_top_view *view, FILE *out);
void gt__top_print_json(const gt_top *top, const gt_top_view *view, FILE *out);
void gt__detail_print(const gt_top_detail *detail, FILE *out);
/* Members of its objects, without the braces. */
void gt__top_write_summary(const gt_top *top, FILE *out);
void gt__top_write_worker(const gt_top_worker *worker, FILE *out);
void gt__top_write_client(const gt_top_client *client, FILE *out);

typedef enum gt_top_action { GT_TOP_NOTHING, GT_TOP_REDRAW, GT_TOP_NEXT_SERVER, GT_TOP_QUIT } gt_top_action;

/* `plain`: without colours. */
gt_err gt__screen_open(bool plain);
void gt__screen_close(void);
void gt__screen_draw(gt_top *top, const gt_top_detail *detail, gt_top_view *view);
/* keys.c: handle typed keys, without waiting. */
gt_top_action gt__screen_keys(const gt_top *top, gt_top_view *view);

#endif

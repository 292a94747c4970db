/*
 * top.h: what the parts of `gt top` share.
 *
 *     dispatcher --statistics--> gt_top (cli/top/model.c: rates and smoothed shares)
 *                                   |--> cli/top/screen.c: ncurses, keys
 *                                   '--> cli/top/print.c: --once, --json
 *
 * top.c is the command and its loop.
 */
#ifndef GT_CLI_TOP_TOP_H
#define GT_CLI_TOP_TOP_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/category.h"
#include "core/error.h"

/* ---- the model ---------------------------------------------------------------------------------------------- */

/* What one op took, or took since the statistics before; smoothed where it is a rate. */
typedef struct gt_top_op {
    double count, seconds, bytes;
} gt_top_op;

typedef struct gt_top_worker {
    char name[64], engine[32], link[16];
    double index;
    bool present, measured;          /* in the last statistics; measured: it has been there for two reports */
    double share[GT_CATEGORY_COUNT]; /* of its time, by what it did; smoothed. The rest is idle */
    double idle;                     /* share of its time */
    double ops, bytes;               /* a second; smoothed */
    double memory, limit;            /* bytes */
    double tensors, queue;           /* records that it has not done yet */
    double up, idle_seconds;         /* of the last report */
    gt_top_op total[GT_OP_COUNT];    /* of the last report */
    gt_top_op rate[GT_OP_COUNT];     /* a second; smoothed. seconds: the share of its time */
} gt_top_worker;

typedef struct gt_top_client {
    char name[64], link[16];
    double number; /* what the dispatcher calls it */
    bool present;
    double share; /* of all instructions */
    double tensors, bytes, instructions;
    double rate; /* instructions a second; smoothed */
} gt_top_client;

typedef struct gt_top {
    gt_top_worker *workers;
    gt_top_client *clients;
    size_t worker_count, worker_capacity, client_count, client_capacity;
    size_t samples;            /* statistics taken */
    double seconds;            /* since the dispatcher started */
    double cpu_seconds, cpu;   /* of its thread: in all, share now */
    double instructions, rate; /* in all, a second */
} gt_top;

/* Take the dispatcher's statistics (JSON); false: they make no sense. */
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

/* Names ascend, all else descends; `reversed`: the other way round. */
void gt__top_sort(gt_top *top, gt_top_order order, bool reversed);

/* The ops that took time, the most of it first; returns how many of `ops` are filled. */
size_t gt__top_ops(const gt_top *top, gt_opcode ops[GT_OP_COUNT], gt_top_op rates[GT_OP_COUNT]);

/* Cut a bar of `width` cells by the shares of a worker: cells[k] gets a category, or GT_CATEGORY_COUNT where it is
 * idle. */
void gt__top_bar(const gt_top_worker *worker, int width, unsigned char *cells);

/* "1.2k", "34M", "5.6G": at most five characters for what there is; "?" is no amount. binary: 1024 to a K. */
char *gt__short_number(double value, bool binary, char text[16]);

/* ---- showing it --------------------------------------------------------------------------------------------- */

typedef struct gt_top_view {
    gt_top_order order;
    bool reversed, paused, help;
    int page; /* 0: workers and clients, 1: operations, 2: clients */
    const char *address;
    unsigned servers, which; /* dispatchers that run here, and which of them this is */
    char message[160];       /* in place of the data: why there is none */
} gt_top_view;
enum { GT_TOP_PAGES = 3 };

void gt__top_print(const gt_top *top, const gt_top_view *view, FILE *out);
void gt__top_print_json(const gt_top *top, const gt_top_view *view, FILE *out);

typedef enum gt_top_action { GT_TOP_NOTHING, GT_TOP_REDRAW, GT_TOP_NEXT_SERVER, GT_TOP_QUIT } gt_top_action;

/* `plain`: without colours. */
gt_err gt__screen_open(bool plain);
void gt__screen_close(void);
void gt__screen_draw(gt_top *top, const gt_top_view *view);
/* Take what was typed, without waiting. */
gt_top_action gt__screen_keys(gt_top_view *view);

#endif

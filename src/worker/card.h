/*
 * card.h: what the graphics card of a worker's engine does (core/cards.h), for statistics.
 *
 * A thread of its own asks the driver once a second and writes into the worker's statement (core/report.h): the driver takes
 * milliseconds at times, and the stream must not wait for it. Without a card, or without the driver's library, there is no thread.
 */
#ifndef GT_WORKER_CARD_H
#define GT_WORKER_CARD_H

#include <pthread.h>
#include <stdbool.h>

#include "core/cards.h"
#include "core/report.h"

typedef struct gt_worker gt_worker;

typedef struct gt_card_watch {
    bool started;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool ends; /* under the mutex */
    gt_statement *statement;
    char bus_id[GT_CARD_BUS_ID];
} gt_card_watch;

/* The worker has joined and has its statement. */
void gt__card_watch_start(gt_worker *worker);
/* Before the link closes, which has the statement. */
void gt__card_watch_end(gt_worker *worker);

#endif

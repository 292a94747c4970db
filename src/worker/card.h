/*
 * card.h: what the graphics card of a worker's engine does (core/cards.h), for statistics.
 *
 * A thread of its own asks the driver once a second and writes into the worker's statement (core/report.h): the driver takes
 * milliseconds at times, and the stream must not wait for it. Without a card, or without the driver's library, there is no thread.
 */
#ifndef GT_WORKER_CARD_H
#define GT_WORKER_CARD_H

typedef struct gt_worker gt_worker;
typedef struct gt_card_watch gt_card_watch;

/* The worker has joined and has its statement. */
void gt__card_watch_start(gt_worker *worker);
/* Before the link closes, which has the statement. Waits a second at most: a driver whose card is lost may never answer. */
void gt__card_watch_end(gt_worker *worker);
/* How many cards this host has; 0 if its driver does not say so within a second. */
unsigned gt__cards_of_host(void);

#endif

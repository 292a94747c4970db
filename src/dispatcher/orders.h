/*
 * orders.h: what the owner of a server has its dispatcher do while it runs: the dashboard's buttons. They wait in a short queue
 * for the loop's next turn.
 */
#ifndef GT_DISPATCHER_ORDERS_H
#define GT_DISPATCHER_ORDERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct gt_dispatcher gt_dispatcher;

typedef enum gt_order_kind {
    GT_ORDER_DISCONNECT, /* the client of this number */
    GT_ORDER_DRAIN, /* the worker of this index gets no new clients and no new spread tensors, unless a config names it */
    GT_ORDER_RESUME, /* it does again */
} gt_order_kind;

enum { GT_MOST_ORDERS = 64 };

typedef struct gt_orders {
    pthread_mutex_t lock;
    unsigned count;
    struct gt_order {
        gt_order_kind kind;
        uint64_t number;
    } waiting[GT_MOST_ORDERS];
} gt_orders;

void gt__orders_init(gt_orders *orders);
void gt__orders_free(gt_orders *orders);
/* From any thread. False: too many wait already. A client or worker that has left meanwhile is none to do anything about. */
bool gt__dispatcher_order(gt_dispatcher *dispatcher, gt_order_kind kind, uint64_t number);
/* The loop: do what waits. */
void gt__orders_take(gt_dispatcher *dispatcher);

#endif

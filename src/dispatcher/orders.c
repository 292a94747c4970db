/* orders.c: see orders.h. Place in the flow: the server's other threads -> here -> loop.c. */
#include "dispatcher/orders.h"

#include "core/log.h"
#include "dispatcher/session.h"
#include "dispatcher/spread/spread.h"
#include "dispatcher/state.h"
#include "dispatcher/workers.h"

void gt__orders_init(gt_orders *orders)
{
    pthread_mutex_init(&orders->lock, NULL);
}

void gt__orders_free(gt_orders *orders)
{
    pthread_mutex_destroy(&orders->lock);
}

bool gt__dispatcher_order(gt_dispatcher *dispatcher, gt_order_kind kind, uint64_t number)
{
    gt_orders *orders = &dispatcher->orders;
    pthread_mutex_lock(&orders->lock);
    bool room = orders->count < GT_MOST_ORDERS;
    if (room)
        orders->waiting[orders->count++] = (struct gt_order){.kind = kind, .number = number};
    pthread_mutex_unlock(&orders->lock);
    if (room)
        gt__dispatcher_wake(dispatcher);
    return room;
}

static void disconnect(gt_dispatcher *dispatcher, uint64_t number)
{
    for (gt_peer *peer = dispatcher->peers; peer; peer = peer->next)
        if (peer->session && peer->session->number == number) {
            gt__peer_end(peer, "the administrator of the server disconnected this client");
            return;
        }
}

/* Sessions without a worker may have one again, and spread tensors that come have other targets. */
static void drain(gt_dispatcher *dispatcher, uint64_t index, bool on)
{
    if (index >= (uint64_t)dispatcher->worker_count || !dispatcher->workers[index]->peer)
        return;
    gt_dispatch_worker *worker = dispatcher->workers[index];
    worker->draining = on;
    gt__log(GT_LOG_STATUS, "worker %s gets %s", worker->name, on ? "no new clients" : "new clients again");
    for (gt_peer *peer = dispatcher->peers; peer; peer = peer->next) {
        if (peer->session && !on && !peer->session->home)
            gt__session_new_worker(peer->session);
        if (peer->session && peer->session->spreading)
            peer->session->spreading->target_valid = false;
    }
}

void gt__orders_take(gt_dispatcher *dispatcher)
{
    struct gt_order taken[GT_MOST_ORDERS];
    gt_orders *orders = &dispatcher->orders;
    pthread_mutex_lock(&orders->lock);
    unsigned count = orders->count;
    for (unsigned k = 0; k < count; k++)
        taken[k] = orders->waiting[k];
    orders->count = 0;
    pthread_mutex_unlock(&orders->lock);
    for (unsigned k = 0; k < count; k++)
        if (taken[k].kind == GT_ORDER_DISCONNECT)
            disconnect(dispatcher, taken[k].number);
        else
            drain(dispatcher, taken[k].number, taken[k].kind == GT_ORDER_DRAIN);
}

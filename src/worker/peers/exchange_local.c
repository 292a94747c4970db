/*
 * exchange_local.c: the exchange between the worker threads of one process.
 *
 * A board has a box for each worker. A message is a pointer to the sender's memory: the receiver reads it in
 * place, and hands it back to the sender when it is done. See exchange.h.
 */
#include <poll.h>
#include <stdlib.h>

#include "worker/peers/mailbox.h"

typedef struct box {
    gt_mailbox mailbox; /* not taken yet */
    pthread_cond_t arrived;
    uint64_t news; /* gt_exchange.news */
    bool gone;     /* its worker has left */
} box;

struct gt_board {
    pthread_mutex_t mutex;     /* guards the boxes */
    box boxes[GT_MAX_PARTIES]; /* by worker; a box exists before its worker joins, so that others can post to it */
};

typedef struct local {
    gt_exchange base;
    gt_board *board;
    size_t sent;                    /* messages that were not handed back */
    _Atomic(gt_message *) returned; /* those that were: a list that only grows, until all of it is taken */
    gt_message *back;               /* of these, those that were taken */
    bool left;
} local;

gt_board *gt__board_new(void)
{
    gt_board *board = calloc(1, sizeof *board);
    if (!board)
        return NULL;
    pthread_mutex_init(&board->mutex, NULL);
    for (int k = 0; k < GT_MAX_PARTIES; k++)
        gt__condition_init(&board->boxes[k].arrived);
    return board;
}

void gt__board_free(gt_board *board)
{
    if (!board)
        return;
    for (int k = 0; k < GT_MAX_PARTIES; k++) {
        pthread_cond_destroy(&board->boxes[k].arrived);
        gt__mailbox_empty(&board->boxes[k].mailbox);
    }
    pthread_mutex_destroy(&board->mutex);
    free(board);
}

static box *box_of(gt_board *board, int32_t worker)
{
    return worker >= 0 && worker < GT_MAX_PARTIES ? &board->boxes[worker] : NULL;
}

static gt_err join(gt_exchange *exchange, int32_t self, gt_life life, uint64_t key)
{
    (void)life;
    (void)key;
    local *l = (local *)exchange;
    box *own = box_of(l->board, self);
    if (!own)
        return gt__fail(GT_ERR_VALUE, "worker %d: a process has at most %d workers", self, GT_MAX_PARTIES);
    exchange->self = self;
    pthread_mutex_lock(&l->board->mutex);
    own->gone = false;
    pthread_mutex_unlock(&l->board->mutex);
    exchange->mutex = &l->board->mutex;
    exchange->arrived = &own->arrived;
    exchange->news = &own->news;
    exchange->mailbox = &own->mailbox;
    return GT_OK;
}

/* Hand a message back to its sender, who may free it at once. */
static void hand_back(gt_message *message)
{
    local *sender = message->owner;
    message->next = atomic_load_explicit(&sender->returned, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&sender->returned, &message->next, message, memory_order_release,
                                                  memory_order_relaxed))
        continue;
}

static void put(gt_exchange *exchange, int32_t to, gt_message *message)
{
    local *l = (local *)exchange;
    message->owner = l;
    l->sent++;
    pthread_mutex_lock(&l->board->mutex);
    box *theirs = box_of(l->board, to);
    if (!theirs || theirs->gone) /* the receiver is gone */
        hand_back(message);
    else {
        gt__mailbox_put(&theirs->mailbox, message);
        theirs->news++;
        pthread_cond_signal(&theirs->arrived);
    }
    pthread_mutex_unlock(&l->board->mutex);
}

static gt_err expect(gt_exchange *exchange, int32_t from)
{
    const box *theirs = box_of(((local *)exchange)->board, from);
    return !theirs || theirs->gone ? gt__fail(GT_ERR_CONNECTION, "worker %d is gone", from) : GT_OK;
}

static void done(gt_exchange *exchange, gt_message *message)
{
    (void)exchange;
    hand_back(message);
}

/* Take what was handed back. */
static void collect(local *l)
{
    if (!atomic_load_explicit(&l->returned, memory_order_relaxed)) /* most often */
        return;
    gt_message *message = atomic_exchange_explicit(&l->returned, NULL, memory_order_acquire);
    for (gt_message *next; message; message = next) {
        next = message->next;
        message->next = l->back;
        l->back = message;
        l->sent--;
    }
}

static void *reclaim(gt_exchange *exchange)
{
    local *l = (local *)exchange;
    void *lent = NULL;
    if (!l->back)
        collect(l);
    while (l->back && !lent) {
        gt_message *message = l->back;
        l->back = message->next;
        lent = message->lent;
        gt__message_free(exchange, message);
    }
    return lent;
}

static void introduce(gt_exchange *exchange, int32_t worker, gt_life life, const char *name, const char *address)
{
    (void)exchange;
    (void)worker;
    (void)life;
    (void)name;
    (void)address;
}

static const char *address(gt_exchange *exchange)
{
    (void)exchange;
    return "";
}

/* With the mutex: return the messages in a box of one sender, or of all (-1). */
static void send_back(box *one, int32_t from)
{
    for (gt_message *message = gt__mailbox_empty(&one->mailbox), *next; message; message = next) {
        next = message->next;
        if (from >= 0 && message->key.from != from)
            gt__mailbox_put(&one->mailbox, message);
        else
            hand_back(message);
    }
}

/* Return all messages that will not be taken: those in our box, and ours in other boxes. */
static void leave(gt_exchange *exchange)
{
    local *l = (local *)exchange;
    box *own = box_of(l->board, exchange->self);
    pthread_mutex_lock(&l->board->mutex);
    for (int32_t k = 0; k < GT_MAX_PARTIES && own; k++) {
        box *one = &l->board->boxes[k];
        send_back(one, one == own ? -1 : exchange->self);
        own->gone = true;
        one->news++;
        pthread_cond_broadcast(&one->arrived);
    }
    pthread_mutex_unlock(&l->board->mutex);
    for (collect(l); l->sent; collect(l))
        poll(NULL, 0, 1); /* a receiver may still read one */
    l->left = true;
}

static void close_local(gt_exchange *exchange)
{
    local *l = (local *)exchange;
    if (!l->left)
        leave(exchange);
    while (l->back) {
        gt_message *message = l->back;
        l->back = message->next;
        gt__message_free(exchange, message);
    }
    gt__exchange_free(exchange);
}

static const gt_exchange_ops local_ops = {
    .name = "local",
    .by_reference = true,
    .put = put,
    .expect = expect,
    .done = done,
    .reclaim = reclaim,
    .introduce = introduce,
    .address = address,
    .join = join,
    .leave = leave,
    .close = close_local,
};

gt_err gt__exchange_local(gt_board *board, const atomic_bool *stop, gt_exchange **exchange)
{
    local *l = calloc(1, sizeof *l);
    if (!l)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    gt_err err = gt__exchange_init(&l->base, &local_ops, stop);
    if (err != GT_OK) {
        gt__exchange_free(&l->base);
        return err;
    }
    l->board = board;
    *exchange = &l->base;
    return GT_OK;
}

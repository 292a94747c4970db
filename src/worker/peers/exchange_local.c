/*
 * exchange_local.c: the exchange between the worker threads of one process.
 *
 * A board has a box for each worker. A message is a pointer to the sender's memory: the receiver reads it in
 * place. The sender finds out by a flag in the message that the receiver is done. See exchange.h.
 */
#include <poll.h>
#include <stdlib.h>

#include "worker/peers/exchange.h"

typedef struct box {
    gt_message *messages; /* not taken yet */
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
    void *sent; /* gt_messages that the receiver may still use */
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
    for (int k = 0; k < GT_MAX_PARTIES; k++)
        pthread_cond_destroy(&board->boxes[k].arrived);
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
    exchange->messages = &own->messages;
    return GT_OK;
}

/* The message is in two lists at once: the receiver's box by `next`, the sender's by `owner`. */
static void put(gt_exchange *exchange, int32_t to, gt_message *message)
{
    local *l = (local *)exchange;
    message->owner = l->sent;
    l->sent = message;
    pthread_mutex_lock(&l->board->mutex);
    box *theirs = box_of(l->board, to);
    if (!theirs || theirs->gone) /* the receiver is gone */
        atomic_store_explicit(&message->returned, true, memory_order_release);
    else {
        message->next = theirs->messages;
        theirs->messages = message;
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
    atomic_store_explicit(&message->returned, true, memory_order_release);
}

static void *reclaim(gt_exchange *exchange)
{
    for (void **where = &((local *)exchange)->sent; *where;) {
        gt_message *message = *where;
        if (!atomic_load_explicit(&message->returned, memory_order_acquire)) {
            where = &message->owner;
            continue;
        }
        void *lent = message->lent;
        *where = message->owner;
        gt__message_free(exchange, message);
        if (lent)
            return lent;
    }
    return NULL;
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

/* With the mutex: return the messages in a box of one sender, or of all (-1). The sender may free a returned message at
 * once. */
static void send_back(box *one, int32_t from)
{
    for (gt_message **where = &one->messages; *where;) {
        gt_message *message = *where;
        if (from >= 0 && message->key.from != from) {
            where = &message->next;
            continue;
        }
        *where = message->next;
        atomic_store_explicit(&message->returned, true, memory_order_release);
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
    for (gt_message *message = l->sent; message; message = message->owner)
        while (!atomic_load_explicit(&message->returned, memory_order_acquire))
            poll(NULL, 0, 1); /* a receiver may still read it */
    l->left = true;
}

static void close_local(gt_exchange *exchange)
{
    local *l = (local *)exchange;
    if (!l->left)
        leave(exchange);
    while (l->sent) {
        gt_message *message = l->sent;
        l->sent = message->owner;
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

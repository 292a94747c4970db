/*
 * exchange_local.c: the exchange between the worker threads of one process.
 *
 * A board has a box for each worker. A message is a pointer to the sender's memory: the receiver reads it in
 * place. The sender finds out by a flag in the message that the receiver is done. See exchange.h.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exchange.h"

enum { LOOK_UP_MS = 100 }; /* how long a wait may go without a look at *stop */

typedef struct box {
    gt_message *messages; /* that nobody has taken */
    pthread_cond_t arrived;
    bool there, gone;
} box;

struct gt_board {
    pthread_mutex_t mutex; /* guards everything below */
    box **boxes;
    int32_t count;
};

typedef struct local {
    gt_exchange base;
    gt_board *board;
    void *sent; /* gt_messages of which the receiver may not be done */
} local;

gt_board *gt__board_new(void)
{
    gt_board *board = calloc(1, sizeof *board);
    if (board)
        pthread_mutex_init(&board->mutex, NULL);
    return board;
}

void gt__board_free(gt_board *board)
{
    if (!board)
        return;
    for (int32_t k = 0; k < board->count; k++) {
        pthread_cond_destroy(&board->boxes[k]->arrived);
        free(board->boxes[k]);
    }
    free(board->boxes);
    pthread_mutex_destroy(&board->mutex);
    free(board);
}

/* With the mutex held; NULL: out of memory. */
static box *box_of(gt_board *board, int32_t worker)
{
    while (board->count <= worker) {
        box **boxes = realloc(board->boxes, ((size_t)board->count + 1) * sizeof(*boxes));
        if (boxes)
            board->boxes = boxes;
        box *new = boxes ? calloc(1, sizeof *new) : NULL;
        if (!new)
            return NULL;
        pthread_cond_init(&new->arrived, NULL);
        boxes[board->count++] = new;
    }
    return board->boxes[worker];
}

static gt_err join(gt_exchange *exchange, int32_t self, uint64_t key)
{
    (void)key;
    local *l = (local *)exchange;
    exchange->self = self;
    pthread_mutex_lock(&l->board->mutex);
    box *own = box_of(l->board, self);
    if (own) {
        own->there = true;
        own->gone = false;
    }
    pthread_mutex_unlock(&l->board->mutex);
    return own ? GT_OK : gt__fail(GT_ERR_MEMORY, "out of memory");
}

static gt_message *message_new(int32_t from, uint64_t tag, uint32_t number, gt_err err, const void *data,
                               size_t bytes, void *lent)
{
    gt_message *message = malloc(sizeof *message + (lent ? 0 : bytes));
    if (!message)
        return NULL;
    *message = (gt_message){.key = {.from = from, .tag = tag, .number = number},
                            .err = err,
                            .data = lent ? data : message + 1,
                            .bytes = bytes,
                            .lent = lent};
    if (!lent && bytes)
        memcpy(message + 1, data, bytes);
    return message;
}

/* The message is in two lists at once: the receiver's box by `next`, the sender's by `owner`. */
static gt_err post(gt_exchange *exchange, int32_t to, uint64_t tag, uint32_t number, gt_err err, const void *data,
                   size_t bytes, void *lent)
{
    local *l = (local *)exchange;
    gt_message *message = message_new(exchange->self, tag, number, err, data, bytes, lent);
    if (!message)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    message->owner = l->sent;
    l->sent = message;
    pthread_mutex_lock(&l->board->mutex);
    box *theirs = box_of(l->board, to);
    if (!theirs || theirs->gone)
        atomic_store(&message->returned, true); /* nobody will want it */
    else {
        message->next = theirs->messages;
        theirs->messages = message;
        pthread_cond_signal(&theirs->arrived);
    }
    pthread_mutex_unlock(&l->board->mutex);
    return GT_OK;
}

static void wait_a_moment(box *own, pthread_mutex_t *mutex, int milliseconds)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += milliseconds * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&own->arrived, mutex, &until);
}

static gt_message **look_for(box *own, int32_t from, uint64_t tag, uint32_t number)
{
    for (gt_message **where = &own->messages; *where; where = &(*where)->next)
        if ((*where)->key.tag == tag && (*where)->key.number == number && (*where)->key.from == from)
            return where;
    return NULL;
}

/* With the mutex: whether nothing will come any more, and why. */
static gt_err hopeless(const local *l, int32_t from)
{
    const box *theirs = from < l->board->count ? l->board->boxes[from] : NULL;
    if (theirs && theirs->gone)
        return gt__fail(GT_ERR_CONNECTION, "worker %d is gone", from);
    if (l->base.stop && atomic_load_explicit(l->base.stop, memory_order_relaxed))
        return gt__fail(GT_ERR_CONNECTION, "the worker is stopping");
    return GT_OK;
}

/* With the mutex: wait until the message is there (not NULL), or nothing will come, or the time is over. */
static gt_message **await(local *l, int32_t from, uint64_t tag, uint32_t number, int timeout_ms, gt_err *err)
{
    box *own = box_of(l->board, l->base.self);
    gt_message **found;
    *err = GT_OK;
    for (int waited = 0; !(found = look_for(own, from, tag, number)) && (*err = hopeless(l, from)) == GT_OK;) {
        int moment = timeout_ms < 0 || timeout_ms - waited > LOOK_UP_MS ? LOOK_UP_MS : timeout_ms - waited;
        if (moment <= 0)
            break;
        wait_a_moment(own, &l->board->mutex, moment);
        waited += moment;
    }
    return found;
}

static gt_err take(gt_exchange *exchange, int32_t from, uint64_t tag, uint32_t number, gt_message **message)
{
    local *l = (local *)exchange;
    gt_err err;
    pthread_mutex_lock(&l->board->mutex);
    gt_message **found = await(l, from, tag, number, -1, &err);
    if (found) {
        *message = *found;
        *found = (*message)->next;
    }
    pthread_mutex_unlock(&l->board->mutex);
    return err;
}

static bool ready(gt_exchange *exchange, int32_t from, uint64_t tag, uint32_t number, int timeout_ms)
{
    local *l = (local *)exchange;
    gt_err err;
    pthread_mutex_lock(&l->board->mutex);
    bool there = await(l, from, tag, number, timeout_ms, &err) || err != GT_OK;
    pthread_mutex_unlock(&l->board->mutex);
    return there;
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
        free(message);
        if (lent)
            return lent;
    }
    return NULL;
}

static void introduce(gt_exchange *exchange, int32_t worker, const char *name, const char *address)
{
    (void)exchange;
    (void)worker;
    (void)name;
    (void)address;
}

static const char *address(gt_exchange *exchange)
{
    (void)exchange;
    return "";
}

/* What others still want of us is theirs to take: wait for them, unless they are gone too. What we did not take is
 * returned to its senders. */
static void close_local(gt_exchange *exchange)
{
    local *l = (local *)exchange;
    pthread_mutex_lock(&l->board->mutex);
    for (int32_t k = 0; k < l->board->count; k++) {
        box *one = l->board->boxes[k];
        if (k == exchange->self) {
            one->gone = one->there;
            for (gt_message *message = one->messages; message; message = message->next)
                atomic_store(&message->returned, true);
            one->messages = NULL;
        } else { /* take back what nobody will come for: we are going */
            for (gt_message **where = &one->messages; *where;)
                if ((*where)->key.from == exchange->self) {
                    atomic_store(&(*where)->returned, true);
                    *where = (*where)->next;
                } else
                    where = &(*where)->next;
        }
        pthread_cond_broadcast(&one->arrived);
    }
    pthread_mutex_unlock(&l->board->mutex);
    while (l->sent) { /* a receiver that is reading is done in a moment */
        gt_message *message = l->sent;
        while (!atomic_load_explicit(&message->returned, memory_order_acquire))
            sched_yield();
        l->sent = message->owner;
        free(message);
    }
    free(l);
}

static const gt_exchange_ops local_ops = {
    .name = "local",
    .by_reference = true,
    .post = post,
    .take = take,
    .ready = ready,
    .done = done,
    .reclaim = reclaim,
    .introduce = introduce,
    .address = address,
    .join = join,
    .close = close_local,
};

gt_err gt__exchange_local(gt_board *board, const atomic_bool *stop, gt_exchange **exchange)
{
    local *l = calloc(1, sizeof *l);
    if (!l)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    l->base = (gt_exchange){.ops = &local_ops, .self = -1, .stop = stop};
    l->board = board;
    *exchange = &l->base;
    return GT_OK;
}

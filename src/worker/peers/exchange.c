/*
 * exchange.c: the common code of all exchanges: making messages, reporting failures, and waiting for messages. The
 * bytes of a failure's message are its origin and its NUL-terminated text, or empty. See exchange.h; next: peers.c.
 */
#include "worker/peers/mailbox.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "link/link.h"
#include "core/log.h"

enum {
    LONGEST = 1024,                  /* bytes of a failure's text */
    LOOK_UP_MS = 100,                /* between checks of *stop during a wait */
    STOCK = 2 * (int)GT_MAX_PARTIES, /* messages: a party's failures in both steps of the largest collective */
};

/* ---- life --------------------------------------------------------------------------------------------------- */

gt_err gt__exchange_init(gt_exchange *exchange, const gt_exchange_ops *ops, const atomic_bool *stop)
{
    *exchange = (gt_exchange){.ops = ops, .way = ops->name, .self = -1, .stop = stop};
    exchange->stock = calloc(STOCK, sizeof *exchange->stock);
    if (!exchange->stock)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    for (int k = 0; k < STOCK; k++)
        gt__message_free(exchange, &exchange->stock[k]);
    return GT_OK;
}

void gt__exchange_free(gt_exchange *exchange)
{
    free(exchange->stock);
    free(exchange);
}

void gt__condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* ---- posting ------------------------------------------------------------------------------------------------ */

static bool is_of_stock(const gt_exchange *exchange, const gt_message *message)
{
    return message >= exchange->stock && message < exchange->stock + STOCK;
}

void gt__message_free(gt_exchange *exchange, gt_message *message)
{
    if (!is_of_stock(exchange, message)) {
        free(message);
        return;
    }
    message->next = exchange->spare;
    exchange->spare = message;
}

/* Whether the worker that the current instruction means has lost this index to another. */
static bool is_replaced(const gt_exchange *exchange, int32_t worker)
{
    return worker >= 0 && worker < GT_MAX_PARTIES && exchange->replaced[worker] > exchange->record;
}

/* A successor would keep for ever what its predecessor was to take: no worker gets that. */
static void put(gt_exchange *exchange, int32_t to, gt_message *message)
{
    exchange->ops->put(exchange, is_replaced(exchange, to) ? -1 : to, message);
}

static gt_err post(gt_exchange *exchange, int32_t to, gt_message content)
{
    size_t copied = content.lent ? 0 : content.bytes;
    gt_message *message = copied <= SIZE_MAX - sizeof *message ? malloc(sizeof *message + copied) : NULL;
    if (!message)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    *message = content;
    if (copied)
        message->data = memcpy(message + 1, content.data, copied);
    put(exchange, to, message);
    return GT_OK;
}

gt_err gt__exchange_post(gt_exchange *exchange, int32_t to, uint64_t tag, uint32_t number, const void *data,
                         size_t bytes, void *lent)
{
    gt_message_key key = {.from = exchange->self, .tag = tag, .number = number};
    return post(exchange, to, (gt_message){.key = key, .data = data, .bytes = bytes, .lent = lent});
}

gt_err gt__exchange_post_tensor(gt_exchange *exchange, int32_t to, uint64_t tag, const void *data, size_t bytes,
                                void *lent, bool exposed)
{
    gt_message_key key = {.from = exchange->self, .tag = tag};
    return post(
        exchange, to,
        (gt_message){.key = key, .data = data, .bytes = bytes, .lent = lent, .tensor = true, .exposed = exposed});
}

void gt__exchange_post_failure(gt_exchange *exchange, int32_t to, uint64_t tag, uint32_t number, gt_err err,
                               const char *text)
{
    char bytes[sizeof(gt_origin) + LONGEST] = {0};
    size_t length = strnlen(text, LONGEST - 1);
    gt_message content = {.key = {.from = exchange->self, .tag = tag, .number = number}, .err = err};
    memcpy(bytes, &exchange->failed, sizeof(gt_origin));
    memcpy(bytes + sizeof(gt_origin), text, length);
    content.data = bytes;
    content.bytes = sizeof(gt_origin) + length + 1;
    if (post(exchange, to, content) == GT_OK)
        return;
    gt_message *message = exchange->spare;
    if (!message) {
        gt__log_error("worker %d cannot even tell worker %d of a failure: %s", exchange->self, to, text);
        return;
    }
    exchange->spare = message->next;
    content.data = NULL;
    content.bytes = 0;
    *message = content;
    put(exchange, to, message);
}

gt_err gt__exchange_failure(gt_exchange *exchange, const gt_message *message)
{
    if (message->bytes < sizeof(gt_origin))
        return gt__fail(message->err, "what worker %d was to send did not come: %s", message->key.from,
                        gt_error_name(message->err));
    size_t length = message->bytes - sizeof(gt_origin);
    memcpy(&exchange->failed, message->data, sizeof(gt_origin));
    if (!exchange->failed.worker)
        exchange->failed.worker = (uint32_t)message->key.from + 1;
    return gt__fail(message->err, "%.*s", (int)(length < LONGEST ? length : LONGEST),
                    (const char *)message->data + sizeof(gt_origin));
}

/* ---- taking ------------------------------------------------------------------------------------------------- */

static void wait_a_moment(gt_exchange *exchange, int milliseconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += milliseconds * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(exchange->arrived, exchange->mutex, &until);
}

/* With the mutex: may the current instruction still get messages of this worker? */
static gt_err expect(gt_exchange *exchange, int32_t from)
{
    if (is_replaced(exchange, from))
        return gt__fail(GT_ERR_CONNECTION, "worker %d is gone: another has taken its place", from);
    return exchange->ops->expect(exchange, from);
}

/* With the mutex: wait until the message is there (not NULL), its sender is gone, or the time is over. */
static gt_message *await(gt_exchange *exchange, int32_t from, uint64_t tag, uint32_t number, int timeout_ms,
                         gt_err *err)
{
    const gt_message_key key = {.from = from, .number = number, .tag = tag};
    uint64_t deadline = timeout_ms ? gt__deadline_ns(timeout_ms) : 0;
    for (;;) {
        gt_message *found = gt__mailbox_find(exchange->mailbox, &key, GT_MESSAGE_HERE);
        *err = found ? GT_OK : expect(exchange, from);
        bool stops = exchange->stop && atomic_load_explicit(exchange->stop, memory_order_relaxed);
        if (!found && *err == GT_OK && stops)
            *err = gt__fail(GT_ERR_CONNECTION, "the worker is stopping");
        int left = timeout_ms ? gt__remaining_ms(deadline) : 0; /* -1: no limit */
        if (found || *err != GT_OK || left == 0)
            return found;
        wait_a_moment(exchange, left < 0 || left > LOOK_UP_MS ? LOOK_UP_MS : left);
    }
}

static gt_err take(gt_exchange *exchange, int32_t from, uint64_t tag, uint32_t number, int timeout_ms,
                   gt_message **message)
{
    gt_err err;
    pthread_mutex_lock(exchange->mutex);
    *message = await(exchange, from, tag, number, timeout_ms, &err);
    if (*message)
        gt__mailbox_remove(exchange->mailbox, *message);
    pthread_mutex_unlock(exchange->mutex);
    return err;
}

gt_err gt__exchange_reaches(gt_exchange *exchange, int32_t worker)
{
    pthread_mutex_lock(exchange->mutex);
    gt_err err = exchange->ops->expect(exchange, worker);
    pthread_mutex_unlock(exchange->mutex);
    return err;
}

gt_err gt__exchange_take(gt_exchange *exchange, int32_t from, uint64_t tag, uint32_t number, gt_message **message)
{
    return take(exchange, from, tag, number, -1, message);
}

gt_err gt__exchange_look(gt_exchange *exchange, int32_t from, uint64_t tag, uint32_t number, gt_message **message)
{
    return take(exchange, from, tag, number, 0, message);
}

gt_message *gt__exchange_claim(gt_exchange *exchange, int32_t from, uint64_t tag, uint32_t number)
{
    const gt_message_key key = {.from = from, .number = number, .tag = tag};
    pthread_mutex_lock(exchange->mutex);
    gt_message *message = gt__mailbox_find(exchange->mailbox, &key, GT_MESSAGE_ANNOUNCED);
    if (message)
        message->state = GT_MESSAGE_CLAIMED;
    pthread_mutex_unlock(exchange->mutex);
    return message;
}

bool gt__exchange_wait(gt_exchange *exchange, uint64_t *seen, int timeout_ms)
{
    pthread_mutex_lock(exchange->mutex);
    if (*exchange->news == *seen && timeout_ms)
        wait_a_moment(exchange, timeout_ms);
    bool any = *exchange->news != *seen;
    *seen = *exchange->news;
    pthread_mutex_unlock(exchange->mutex);
    return any;
}

bool gt__exchange_ready(gt_exchange *exchange, int32_t from, uint64_t tag, uint32_t number, int timeout_ms)
{
    gt_err err;
    pthread_mutex_lock(exchange->mutex);
    bool there = await(exchange, from, tag, number, timeout_ms, &err) || err != GT_OK;
    pthread_mutex_unlock(exchange->mutex);
    return there;
}

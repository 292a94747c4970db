/* card.c: see card.h. */
#include "worker/card.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/cards.h"
#include "core/log.h"
#include "core/report.h"
#include "core/thread.h"
#include "worker/worker.h"

enum { PERIOD_S = 1, PATIENCE_S = 1 };

/* Freed by the thread or by gt__card_watch_end, whichever is done with it last. */
struct gt_card_watch {
    pthread_t thread;
    char bus_id[GT_CARD_BUS_ID];
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t changed;
    gt_statement *statement; /* NULL: the watch ends */
    bool is_done, is_left;   /* the thread is, by gt__card_watch_end */
};

static void state(_Atomic uint64_t *field, uint64_t value)
{
    atomic_store_explicit(field, value, memory_order_relaxed);
}

/* `card` is stored last: a reader that sees it also sees the name. */
static void publish(gt_statement *statement, const gt_card *card)
{
    uint64_t name[GT_CARD_NAME / sizeof(uint64_t)];
    memcpy(name, card->name, sizeof name);
    for (size_t k = 0; k < sizeof name / sizeof name[0]; k++)
        state(&statement->card_name[k], name[k]);
    state(&statement->card_used, card->used);
    state(&statement->card_memory, card->memory);
    atomic_store_explicit(&statement->card, gt__card_pack(card), memory_order_release);
}

static struct timespec after(int seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += seconds;
    return until;
}

static void watch_free(gt_card_watch *watch)
{
    pthread_mutex_destroy(&watch->mutex);
    pthread_cond_destroy(&watch->changed);
    free(watch);
}

static void *watch_main(void *argument)
{
    gt_card_watch *watch = argument;
    gt_card card;
    bool known = gt__card_read(watch->bus_id, &card);
    if (!known)
        gt__log(GT_LOG_STATUS, "the driver's library does not tell of the card at %s", watch->bus_id);
    pthread_mutex_lock(&watch->mutex);
    while (known && watch->statement) {
        publish(watch->statement, &card);
        struct timespec until = after(PERIOD_S);
        for (int timed_out = 0; watch->statement && !timed_out;)
            timed_out = pthread_cond_timedwait(&watch->changed, &watch->mutex, &until);
        if (!watch->statement)
            break;
        pthread_mutex_unlock(&watch->mutex);
        if (!gt__card_read(watch->bus_id, &card))
            card = (gt_card){0}; /* it has been lost: old values would look true */
        pthread_mutex_lock(&watch->mutex);
    }
    watch->is_done = true;
    bool left = watch->is_left;
    pthread_cond_signal(&watch->changed);
    pthread_mutex_unlock(&watch->mutex);
    if (left)
        watch_free(watch);
    return NULL;
}

void gt__card_watch_start(gt_worker *worker)
{
    const gt_engine_ops *ops = worker->engine->ops;
    char bus_id[GT_CARD_BUS_ID];
    pthread_condattr_t monotonic;
    if (!ops->card || !ops->card(worker->engine, bus_id))
        return;
    gt_card_watch *watch = calloc(1, sizeof *watch);
    if (watch) {
        memcpy(watch->bus_id, bus_id, sizeof bus_id);
        watch->statement = worker->timing.statement;
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(&watch->changed, &monotonic);
        pthread_condattr_destroy(&monotonic);
        pthread_mutex_init(&watch->mutex, NULL);
        if (gt__thread_start(&watch->thread, watch_main, watch) == GT_OK) {
            worker->card = watch;
            return;
        }
        watch_free(watch);
    }
    gt__log_warning("worker %s: no thread to ask about its card", worker->name);
}

void gt__card_watch_end(gt_worker *worker)
{
    gt_card_watch *watch = worker->card;
    worker->card = NULL;
    if (!watch)
        return;
    struct timespec until = after(PATIENCE_S);
    pthread_mutex_lock(&watch->mutex);
    watch->statement = NULL;
    pthread_cond_signal(&watch->changed);
    for (int timed_out = 0; !watch->is_done && !timed_out;)
        timed_out = pthread_cond_timedwait(&watch->changed, &watch->mutex, &until);
    bool is_done = watch->is_done;
    watch->is_left = !is_done;
    if (!is_done)
        pthread_detach(watch->thread);
    pthread_mutex_unlock(&watch->mutex);
    if (!is_done)
        return;
    pthread_join(watch->thread, NULL);
    watch_free(watch);
}

/* ---- how many there are ---------------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t changed;
    bool is_asked, is_known;
    unsigned count;
} host = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *count_main(void *unused)
{
    (void)unused;
    unsigned count = gt__cards_count();
    pthread_mutex_lock(&host.mutex);
    host.count = count;
    host.is_known = true;
    pthread_cond_broadcast(&host.changed);
    pthread_mutex_unlock(&host.mutex);
    return NULL;
}

unsigned gt__cards_of_host(void)
{
    struct timespec until = after(PATIENCE_S);
    pthread_t thread;
    pthread_mutex_lock(&host.mutex);
    if (!host.is_asked && gt__thread_start(&thread, count_main, NULL) == GT_OK) {
        host.is_asked = true;
        pthread_detach(thread);
    }
    for (int timed_out = 0; host.is_asked && !host.is_known && !timed_out;)
        timed_out = pthread_cond_clockwait(&host.changed, &host.mutex, CLOCK_MONOTONIC, &until);
    unsigned count = host.count;
    pthread_mutex_unlock(&host.mutex);
    return count;
}

/* card.c: see card.h. */
#include "worker/card.h"

#include <signal.h>
#include <string.h>
#include <time.h>

#include "core/log.h"
#include "worker/worker.h"

enum { PERIOD_S = 1 };

static void state(_Atomic uint64_t *field, uint64_t value)
{
    atomic_store_explicit(field, value, memory_order_relaxed);
}

/* The word with `known` comes last: whoever sees it sees the name, too. */
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

/* False: the watch ends. */
static bool pause_watch(gt_card_watch *watch)
{
    struct timespec until;
    int timed_out = 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += PERIOD_S;
    pthread_mutex_lock(&watch->mutex);
    while (!watch->ends && !timed_out)
        timed_out = pthread_cond_timedwait(&watch->changed, &watch->mutex, &until);
    bool ends = watch->ends;
    pthread_mutex_unlock(&watch->mutex);
    return !ends;
}

static void *watch_main(void *argument)
{
    gt_card_watch *watch = argument;
    gt_card card;
    bool known = gt__card_read(watch->bus_id, &card);
    if (!known)
        gt__log(GT_LOG_STATUS, "the driver's library does not tell of the card at %s", watch->bus_id);
    while (known) {
        publish(watch->statement, &card);
        known = pause_watch(watch);
        if (known && !gt__card_read(watch->bus_id, &card))
            card = (gt_card){0}; /* it has been lost: old values would look true */
    }
    return NULL;
}

void gt__card_watch_start(gt_worker *worker)
{
    gt_card_watch *watch = &worker->card;
    const gt_engine_ops *ops = worker->engine->ops;
    pthread_condattr_t monotonic;
    sigset_t all, before;
    watch->statement = worker->timing.statement;
    if (!ops->card || !ops->card(worker->engine, watch->bus_id))
        return;
    watch->ends = false;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&watch->mutex, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the user's threads */
    watch->started = pthread_create(&watch->thread, NULL, watch_main, watch) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (watch->started)
        return;
    gt__log_warning("worker %s: no thread to ask about its card", worker->name);
    pthread_mutex_destroy(&watch->mutex);
    pthread_cond_destroy(&watch->changed);
}

void gt__card_watch_end(gt_worker *worker)
{
    gt_card_watch *watch = &worker->card;
    if (!watch->started)
        return;
    pthread_mutex_lock(&watch->mutex);
    watch->ends = true;
    pthread_cond_signal(&watch->changed);
    pthread_mutex_unlock(&watch->mutex);
    pthread_join(watch->thread, NULL);
    pthread_mutex_destroy(&watch->mutex);
    pthread_cond_destroy(&watch->changed);
    watch->started = false;
}

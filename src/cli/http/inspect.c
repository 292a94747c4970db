/*
 * cli/http/inspect.c: clients in detail, for the browsers that look at one: a second monitor, with a thread of its own. See
 * http.h.
 *
 * A client's tensors are counted by the dispatcher when it is asked, so it is asked once a second at most, for one client after
 * the other, and not at all while no browser looks at one.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/array.h"
#include "cli/http/http.h"
#include "core/thread.h"
#include "cli/watcher.h"
#include "dispatcher/dispatcher.h"

enum {
    MOST_CLIENTS = 16,     /* that are looked at */
    WANTED_MS = 5000,      /* after the last request for one */
    PAUSE_MS = 1000,       /* between two questions */
    ANSWER_MS = 5000,      /* after that it is asked again: it had no memory for the answer */
    ONCE_MS = 3600 * 1000, /* the dispatcher's own interval: it answers at once, and is asked again before that */
};

typedef struct looked_at {
    uint64_t number; /* 0: unused */
    uint64_t wanted_ns, asked_ns;
    gt_shared_text *text; /* NULL: none came yet */
} looked_at;

struct gt_inspector {
    pthread_t thread;
    gt_link *link;
    pthread_mutex_t lock; /* for what follows */
    pthread_cond_t changed;
    bool stopping;
    looked_at clients[MOST_CLIENTS];
};

static bool is_wanted(const looked_at *client)
{
    return client->number && gt__now_ns() - client->wanted_ns < WANTED_MS * 1000000ull;
}

/* The one that waits longest. 0: none. */
static uint64_t choose(gt_inspector *inspector)
{
    looked_at *best = NULL;
    for (int k = 0; k < MOST_CLIENTS; k++)
        if (is_wanted(&inspector->clients[k]) && (!best || inspector->clients[k].asked_ns < best->asked_ns))
            best = &inspector->clients[k];
    if (!best)
        return 0;
    best->asked_ns = gt__now_ns();
    return best->number;
}

static looked_at *find(gt_inspector *inspector, uint64_t number)
{
    for (int k = 0; k < MOST_CLIENTS; k++)
        if (inspector->clients[k].number == number)
            return &inspector->clients[k];
    return NULL;
}

/* Wait for a client that is looked at; 0: stop. */
static uint64_t next_client(gt_inspector *inspector)
{
    uint64_t number = 0;
    pthread_mutex_lock(&inspector->lock);
    while (!inspector->stopping && !(number = choose(inspector)))
        pthread_cond_wait(&inspector->changed, &inspector->lock);
    pthread_mutex_unlock(&inspector->lock);
    return number;
}

static void pause_or_stop(gt_inspector *inspector)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += PAUSE_MS / 1000;
    pthread_mutex_lock(&inspector->lock);
    while (!inspector->stopping && !pthread_cond_timedwait(&inspector->changed, &inspector->lock, &until))
        ;
    pthread_mutex_unlock(&inspector->lock);
}

/* A text begins with the number of its client: an answer may come after the next question. */
static void keep(gt_inspector *inspector, const char *text)
{
    unsigned long long number = 0;
    if (sscanf(text, "{\"number\": %llu", &number) != 1)
        return;
    gt_shared_text *fresh = gt__shared_text_new(text, strlen(text));
    pthread_mutex_lock(&inspector->lock);
    looked_at *client = find(inspector, number);
    if (client) {
        gt_shared_text *before = client->text;
        client->text = fresh;
        fresh = before;
    }
    pthread_mutex_unlock(&inspector->lock);
    if (fresh)
        gt__shared_text_release(fresh->text);
}

static void *inspect(void *argument)
{
    gt_inspector *inspector = argument;
    gt_watcher watcher = {0};
    uint64_t topic, number;
    gt_err err = gt__watcher_adopt(&watcher, inspector->link, 0, ONCE_MS);
    while (err == GT_OK && (number = next_client(inspector))) {
        err = gt__watcher_ask(&watcher, GT_TOPIC_CLIENT, ONCE_MS, number);
        do
            err = err == GT_OK || err == GT_ERR_INTERRUPTED ? gt__watcher_next(&watcher, ANSWER_MS, &topic) : err;
        while (err == GT_ERR_INTERRUPTED);
        if (err == GT_OK && topic == GT_TOPIC_CLIENT)
            keep(inspector, watcher.text);
        err = err == GT_ERR_TIMEOUT ? GT_OK : err;
        pause_or_stop(inspector);
    }
    gt__watcher_close(&watcher);
    return NULL;
}

char *gt__inspector_text(gt_inspector *inspector, uint64_t number, size_t *bytes)
{
    gt_shared_text *text = NULL, *dropped = NULL;
    pthread_mutex_lock(&inspector->lock);
    looked_at *client = find(inspector, number);
    for (int k = 0; k < MOST_CLIENTS && !client; k++)
        if (!is_wanted(&inspector->clients[k])) {
            client = &inspector->clients[k];
            dropped = client->text;
            *client = (looked_at){.number = number};
        }
    if (client && !is_wanted(client) && client->text) { /* it was looked at long ago */
        dropped = client->text;
        client->text = NULL;
    }
    if (client) {
        client->wanted_ns = gt__now_ns();
        text = client->text ? gt__shared_text_retain(client->text) : NULL;
        pthread_cond_signal(&inspector->changed);
    }
    pthread_mutex_unlock(&inspector->lock);
    if (dropped)
        gt__shared_text_release(dropped->text);
    *bytes = text ? text->bytes : 0;
    return text ? text->text : NULL;
}

gt_err gt__inspector_start(gt_dispatcher *dispatcher, gt_inspector **out)
{
    gt_inspector *inspector = gt__zeroed(1, sizeof *inspector);
    pthread_condattr_t monotonic;
    gt_err err = gt__monitor_link(dispatcher, &inspector->link);
    if (err != GT_OK) {
        free(inspector);
        return err;
    }
    pthread_mutex_init(&inspector->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&inspector->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    err = gt__thread_start(&inspector->thread, inspect, inspector);
    if (err != GT_OK) {
        gt__link_close(inspector->link);
        pthread_cond_destroy(&inspector->changed);
        pthread_mutex_destroy(&inspector->lock);
        free(inspector);
        return err;
    }
    *out = inspector;
    return GT_OK;
}

void gt__inspector_stop(gt_inspector **where)
{
    gt_inspector *inspector = *where;
    pthread_mutex_lock(&inspector->lock);
    inspector->stopping = true;
    pthread_cond_signal(&inspector->changed);
    pthread_mutex_unlock(&inspector->lock);
    pthread_join(inspector->thread, NULL);
    for (int k = 0; k < MOST_CLIENTS; k++)
        if (inspector->clients[k].text)
            gt__shared_text_release(inspector->clients[k].text->text);
    pthread_cond_destroy(&inspector->changed);
    pthread_mutex_destroy(&inspector->lock);
    free(inspector);
    *where = NULL;
}

/* detach.c: see detach.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* SCHED_IDLE */
#endif
#include "engines/cpu/detach.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

/* Threads left behind, beyond which the next job waits: they hold memory. A cancelled call adds one for each thread of the pool. */
enum { MOST_LEFT = 8 };

typedef struct task {
    gt_detacher *detacher;
    struct task *next; /* of those left behind */
    pthread_t thread;
    void (*work)(void *);
    void (*drop)(void *);
    void *job;
    bool is_left; /* the caller is gone */
    bool is_done;
} task;

struct gt_detacher {
    pthread_mutex_t mutex; /* of all below, and of the tasks' state */
    pthread_cond_t done;   /* a task is done */
    task *left;
    int left_count;
};

gt_detacher *gt__detacher_new(void)
{
    gt_detacher *detacher = calloc(1, sizeof *detacher);
    if (!detacher)
        return NULL;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&detacher->mutex, NULL);
    pthread_cond_init(&detacher->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return detacher;
}

/* Join the threads left behind that are done; `all`: every one. With the mutex held, which is given up for a moment. */
static void reap(gt_detacher *detacher, bool all)
{
    for (task **at = &detacher->left; *at;) {
        task *t = *at;
        if (!t->is_done && !all) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        detacher->left_count--;
        pthread_mutex_unlock(&detacher->mutex);
        pthread_join(t->thread, NULL);
        free(t);
        pthread_mutex_lock(&detacher->mutex);
        at = &detacher->left; /* it may have changed */
    }
}

void gt__detacher_free(gt_detacher *detacher)
{
    if (!detacher)
        return;
    pthread_mutex_lock(&detacher->mutex);
    reap(detacher, true);
    pthread_mutex_unlock(&detacher->mutex);
    pthread_mutex_destroy(&detacher->mutex);
    pthread_cond_destroy(&detacher->done);
    free(detacher);
}

static void *thread_main(void *argument)
{
    task *t = argument;
    gt_detacher *detacher = t->detacher;
    t->work(t->job);
    pthread_mutex_lock(&detacher->mutex);
    if (t->is_left) { /* drop the job before the task counts as done: until then its memory is in use */
        pthread_mutex_unlock(&detacher->mutex);
        t->drop(t->job);
        pthread_mutex_lock(&detacher->mutex);
    }
    t->is_done = true;
    pthread_cond_broadcast(&detacher->done);
    pthread_mutex_unlock(&detacher->mutex);
    return NULL;
}

/* Wait until a task is done, or the next look is due; with the mutex held. False: the work was cancelled. */
static bool wait_a_moment(gt_detacher *detacher, gt_parallel *parallel)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += GT_CANCEL_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (pthread_cond_timedwait(&detacher->done, &detacher->mutex, &until) == 0)
        return true;
    pthread_mutex_unlock(&detacher->mutex);
    bool cancelled = gt__parallel_poll(parallel);
    pthread_mutex_lock(&detacher->mutex);
    return !cancelled;
}

bool gt__detach_run(gt_detacher *detacher, gt_parallel *parallel, void work(void *job), void drop(void *job),
                    void *job)
{
    task *t = malloc(sizeof *t);
    pthread_mutex_lock(&detacher->mutex);
    reap(detacher, false);
    while (detacher->left_count >= MOST_LEFT) {
        if (!wait_a_moment(detacher, parallel)) {
            pthread_mutex_unlock(&detacher->mutex);
            free(t);
            drop(job);
            return false;
        }
        reap(detacher, false);
    }
    pthread_mutex_unlock(&detacher->mutex);
    if (t)
        *t = (task){.detacher = detacher, .work = work, .drop = drop, .job = job};
    if (!t || pthread_create(&t->thread, NULL, thread_main, t) != 0) {
        free(t);
        work(job);
        return true;
    }
    pthread_mutex_lock(&detacher->mutex);
    while (!t->is_done) {
        if (wait_a_moment(detacher, parallel) || t->is_done)
            continue;
        t->is_left = true;
        t->next = detacher->left;
        detacher->left = t;
        detacher->left_count++;
        pthread_setschedparam(t->thread, SCHED_IDLE,
                              &(struct sched_param){0}); /* refused: it competes for a core */
        pthread_mutex_unlock(&detacher->mutex);
        return false;
    }
    pthread_mutex_unlock(&detacher->mutex);
    pthread_join(t->thread, NULL);
    free(t);
    return true;
}

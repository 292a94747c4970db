/* detach.c: see detach.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* SCHED_IDLE */
#endif
#include "engines/cpu/detach.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

typedef struct task {
    struct task *next; /* of those left behind */
    pthread_t thread;
    void (*work)(void *);
    void (*drop)(void *);
    void *job;
    bool is_left; /* the caller is gone */
    bool is_done;
} task;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool is_ready;         /* the process will wait for the threads left behind */
static pthread_mutex_t mutex; /* of all below, and of the tasks' state */
static pthread_cond_t done;   /* a task is done */
static task *left;            /* to be joined */
static int left_count;

/* ---- the process -------------------------------------------------------------------------------------------- */

static void reset(void)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&mutex, NULL);
    pthread_cond_init(&done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    left = NULL; /* a child of fork has none of the threads */
    left_count = 0;
}

/* Join the threads left behind that are done; `all`: every one. With the mutex held, which is given up for a moment. */
static void reap(bool all)
{
    for (task **at = &left; *at;) {
        task *t = *at;
        if (!t->is_done && !all) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        left_count--;
        pthread_mutex_unlock(&mutex);
        pthread_join(t->thread, NULL);
        free(t);
        pthread_mutex_lock(&mutex);
        at = &left; /* it may have changed */
    }
}

static void wait_for_all(void)
{
    pthread_mutex_lock(&mutex);
    reap(true);
    pthread_mutex_unlock(&mutex);
}

static void start(void)
{
    reset();
    is_ready = atexit(wait_for_all) == 0 && pthread_atfork(NULL, NULL, reset) == 0;
}

int gt__detach_left(void)
{
    pthread_once(&once, start);
    pthread_mutex_lock(&mutex);
    reap(false);
    int count = left_count;
    pthread_mutex_unlock(&mutex);
    return count;
}

/* ---- one task ----------------------------------------------------------------------------------------------- */

static void *thread_main(void *argument)
{
    task *t = argument;
    t->work(t->job);
    pthread_mutex_lock(&mutex);
    if (t->is_left) { /* drop the job before the task counts as done: until then its memory is in use */
        pthread_mutex_unlock(&mutex);
        t->drop(t->job);
        pthread_mutex_lock(&mutex);
    }
    t->is_done = true;
    pthread_cond_broadcast(&done);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

/* Wait until a task is done, or the next look is due; with the mutex held. False: the work was cancelled. */
static bool wait_a_moment(gt_parallel *parallel)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += GT_CANCEL_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (pthread_cond_timedwait(&done, &mutex, &until) == 0)
        return true;
    pthread_mutex_unlock(&mutex);
    bool cancelled = gt__parallel_poll(parallel);
    pthread_mutex_lock(&mutex);
    return !cancelled;
}

/* Wait until few enough threads are left behind. False: the work was cancelled. */
static bool await_room(gt_parallel *parallel)
{
    bool wanted = true;
    pthread_mutex_lock(&mutex);
    reap(false);
    while (wanted && left_count >= GT_DETACH_MOST) {
        wanted = wait_a_moment(parallel);
        reap(false);
    }
    pthread_mutex_unlock(&mutex);
    return wanted;
}

/* NULL: there is no memory, or no thread, for it. */
static task *begin(void work(void *job), void drop(void *job), void *job)
{
    task *t = is_ready ? malloc(sizeof *t) : NULL;
    sigset_t all, before;
    if (!t)
        return NULL;
    *t = (task){.work = work, .drop = drop, .job = job};
    sigfillset(&all); /* signals are for the program's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool created = pthread_create(&t->thread, NULL, thread_main, t) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (created)
        return t;
    free(t);
    return NULL;
}

/* With the mutex held, before the task is done. */
static void leave(task *t)
{
    t->is_left = true;
    t->next = left;
    left = t;
    left_count++;
    pthread_setschedparam(t->thread, SCHED_IDLE, &(struct sched_param){0}); /* refused: it competes for a core */
}

bool gt__detach_run(gt_parallel *parallel, void work(void *job), void drop(void *job), void *job)
{
    pthread_once(&once, start);
    if (!await_room(parallel)) {
        drop(job);
        return false;
    }
    task *t = begin(work, drop, job);
    if (!t) {
        work(job);
        return true;
    }
    pthread_mutex_lock(&mutex);
    while (!t->is_done) {
        if (wait_a_moment(parallel) || t->is_done)
            continue;
        leave(t);
        pthread_mutex_unlock(&mutex);
        return false;
    }
    pthread_mutex_unlock(&mutex);
    pthread_join(t->thread, NULL);
    free(t);
    return true;
}

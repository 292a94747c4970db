/* detach.c: see detach.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_tryjoin_np, gettid */
#endif
#include "engines/cpu/detach.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/thread.h"

enum { LEFT_NICE = 19 };

typedef struct task {
    struct task *next; /* of those left behind */
    pthread_t thread;
    pid_t number; /* the kernel's, for its priority; 0: it has not started */
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

/* With the mutex held: forget the threads left behind that have ended. Waits for none of them: their priority is low. */
static void reap(void)
{
    for (task **at = &left; *at;) {
        task *t = *at;
        if (!t->is_done || pthread_tryjoin_np(t->thread, NULL) != 0) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        left_count--;
        free(t);
    }
}

static void wait_for_all(void)
{
    pthread_mutex_lock(&mutex);
    while (left) {
        task *t = left;
        left = t->next;
        left_count--;
        pthread_mutex_unlock(&mutex);
        pthread_join(t->thread, NULL);
        free(t);
        pthread_mutex_lock(&mutex);
    }
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
    reap();
    int count = left_count;
    pthread_mutex_unlock(&mutex);
    return count;
}

/* ---- one task ----------------------------------------------------------------------------------------------- */

static void *thread_main(void *argument)
{
    task *t = argument;
    pthread_mutex_lock(&mutex);
    t->number = (pid_t)syscall(SYS_gettid);
    pthread_mutex_unlock(&mutex);
    t->work(t->job);
    pthread_mutex_lock(&mutex);
    if (t->is_left) { /* drop the job before the task counts as done: until then its memory is in use */
        pthread_mutex_unlock(&mutex);
        t->drop(t->job);
        pthread_mutex_lock(&mutex);
    }
    t->is_done = true;
    pthread_mutex_unlock(&mutex);
    /* Not with the mutex locked: the thread that wakes up would wait for this one, whose priority is low. */
    pthread_cond_broadcast(&done);
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

static bool has_room(void)
{
    pthread_mutex_lock(&mutex);
    reap();
    bool room = left_count < GT_DETACH_MOST;
    pthread_mutex_unlock(&mutex);
    return room;
}

/* NULL: there is no memory or no thread for it, or too many are left behind. */
static task *begin(void work(void *job), void drop(void *job), void *job)
{
    task *t = is_ready && has_room() ? malloc(sizeof *t) : NULL;
    if (!t)
        return NULL;
    *t = (task){.work = work, .drop = drop, .job = job};
    if (gt__thread_start(&t->thread, thread_main, t) == GT_OK)
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
    if (t->number)
        setpriority(PRIO_PROCESS, (id_t)t->number, LEFT_NICE); /* refused: it competes for a core */
}

bool gt__detach_run(gt_parallel *parallel, void work(void *job), void drop(void *job), void *job)
{
    pthread_once(&once, start);
    if (gt__parallel_poll(parallel)) {
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

/*
 * embedded.c: a server inside the client's process: a dispatcher thread, and a thread for each worker.
 *
 * They are connected by pairs of memory links. Other processes cannot connect.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/client.h"
#include "dispatcher/dispatcher.h"
#include "core/log.h"
#include "core/settings.h"
#include "worker/worker.h"

typedef struct embedded_worker {
    pthread_t thread;
    gt_worker_options options;
    gt_link *link;
    char name[32];
    sem_t opened;       /* posted when its engine is open, or failed */
    atomic_bool failed; /* then `err` and `why` are set, and do not change any more */
    gt_err err;
    char why[1024];
} embedded_worker;

struct gt_embedded {
    gt_dispatcher *dispatcher;
    pthread_t thread;
    bool dispatching;
    gt_board *board;  /* through which the workers find each other */
    atomic_bool stop; /* workers stop after their current instruction */
    int workers;      /* started */
    embedded_worker worker[];
};

_Atomic(const struct gt_modifier_ops *) gt__embedded_modifier;

static _Thread_local bool serves;

bool gt__embedded_serves(void)
{
    return serves;
}

gt_err gt__embedded_refuse(void)
{
    return gt__fail(GT_ERR_INTERNAL,
                    "this thread does GT's work and cannot wait for it: methods of engines and modifiers "
                    "compute with NumPy, PyTorch or means of their own");
}

static void *dispatcher_main(void *argument)
{
    serves = true;
    pthread_setname_np(pthread_self(), "gt dispatcher");
    gt__dispatcher_run(argument);
    return NULL;
}

/* In the worker's thread. */
static void note_failure(embedded_worker *worker, gt_err err)
{
    worker->err = err;
    snprintf(worker->why, sizeof worker->why, "%s", gt_error_text());
    atomic_store(&worker->failed, true);
}

static void engine_opened(void *context, gt_err err)
{
    embedded_worker *worker = context;
    if (err != GT_OK)
        note_failure(worker, err);
    sem_post(&worker->opened);
}

static void *worker_main(void *argument)
{
    embedded_worker *worker = argument;
    serves = true;
    pthread_setname_np(pthread_self(), "gt worker");
    gt_err err = gt__worker_run(&worker->options, worker->link);
    if (err != GT_OK && err != GT_ERR_CONNECTION && !atomic_load(&worker->failed)) {
        gt__log_error("worker %s: %s", worker->name, gt_error_text());
        note_failure(worker, err);
    }
    return NULL;
}

/* With all signals blocked: handlers, and Ctrl-C, belong to the user's threads. */
static gt_err start_thread(pthread_t *thread, void *(*main)(void *), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(thread, NULL, main, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed ? gt__fail(GT_ERR_INTERNAL, "cannot start a thread") : GT_OK;
}

/* A pair of links: one end for the dispatcher, the other for the caller. */
static gt_err join_dispatcher(gt_embedded *embedded, gt_link **ours)
{
    gt_link *theirs;
    GT_TRY(gt__link_memory_pair(ours, &theirs));
    gt_err err = gt__dispatcher_adopt(embedded->dispatcher, theirs);
    if (err != GT_OK) {
        gt__link_close(*ours);
        *ours = NULL;
    }
    return err;
}

static gt_err start_worker(gt_embedded *embedded, const char *backend, int threads)
{
    embedded_worker *worker = &embedded->worker[embedded->workers];
    snprintf(worker->name, sizeof worker->name, embedded->workers ? "auto_worker_%d" : "auto_worker",
             embedded->workers);
    worker->options = (gt_worker_options){.number = embedded->workers + 1,
                                          .name = worker->name,
                                          .backend = backend,
                                          .threads = threads,
                                          .stop = &embedded->stop,
                                          .board = embedded->board,
                                          .opened = engine_opened,
                                          .context = worker};
    GT_TRY(join_dispatcher(embedded, &worker->link));
    sem_init(&worker->opened, 0, 0);
    gt_err err = start_thread(&worker->thread, worker_main, worker);
    if (err == GT_OK)
        embedded->workers++;
    else {
        gt__link_close(worker->link);
        sem_destroy(&worker->opened);
    }
    return err;
}

gt_err gt__embedded_failure(gt_embedded *embedded)
{
    for (int k = 0; k < embedded->workers; k++) {
        const embedded_worker *worker = &embedded->worker[k];
        if (atomic_load(&worker->failed))
            return gt__fail(worker->err, "%s", worker->why);
    }
    return GT_OK;
}

/* An engine that cannot be opened (a device that is missing, or full) is an error here, and not a worker that never comes. */
static gt_err await_engines(gt_embedded *embedded)
{
    for (int k = 0; k < embedded->workers; k++)
        while (sem_wait(&embedded->worker[k].opened) < 0 && errno == EINTR)
            continue;
    return gt__embedded_failure(embedded);
}

static gt_err check_backend(const char *backend)
{
    const gt_engine_ops *ops;
    return gt__engine_find(backend ? backend : getenv("GT_BACKEND"), &ops);
}

gt_err gt__embedded_start(int workers, const char *backend, gt_embedded **out, gt_link **link)
{
    if (workers < 1 || workers > GT_MAX_EMBEDDED_WORKERS)
        return gt__fail(GT_ERR_VALUE, "an embedded server has 1 to %d workers, not %d", GT_MAX_EMBEDDED_WORKERS,
                        workers);
    GT_TRY(check_backend(backend));
    gt_embedded *embedded = calloc(1, sizeof *embedded + (size_t)workers * sizeof embedded->worker[0]);
    if (!embedded)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    *link = NULL;
    gt__descriptors_raise();
    gt_dispatcher_options options = {.listen = false, .last_modifier = atomic_load(&gt__embedded_modifier)};
    embedded->board = gt__board_new();
    gt_err err = embedded->board ? gt__dispatcher_new(&options, &embedded->dispatcher)
                                 : gt__fail(GT_ERR_MEMORY, "out of memory");
    for (int k = 0; k < workers && err == GT_OK; k++)
        err = start_worker(embedded, backend, gt__threads_per_worker(workers));
    if (err == GT_OK)
        err = await_engines(embedded);
    if (err == GT_OK)
        err = join_dispatcher(embedded, link);
    if (err == GT_OK)
        err = start_thread(&embedded->thread, dispatcher_main, embedded->dispatcher);
    embedded->dispatching = err == GT_OK;
    if (err != GT_OK) {
        if (*link)
            gt__link_close(*link);
        *link = NULL;
        gt__embedded_stop(&embedded);
    }
    *out = embedded;
    return err;
}

int gt__embedded_port(const gt_embedded *embedded)
{
    return gt__dispatcher_port(embedded->dispatcher);
}

void gt__embedded_stop(gt_embedded **where)
{
    gt_embedded *embedded = *where;
    *where = NULL;
    if (!embedded)
        return;
    if (!gt__dispatcher_logs(embedded->dispatcher)) /* else they execute what they were sent: the log shows it */
        atomic_store(&embedded->stop, true);
    if (embedded->dispatching) {
        gt__dispatcher_stop(embedded->dispatcher);
        pthread_join(embedded->thread, NULL);
    }
    atomic_store(&embedded->stop, true);
    gt__dispatcher_free(&embedded->dispatcher); /* closes its ends of the links; the workers then stop */
    for (int k = 0; k < embedded->workers; k++) {
        pthread_join(embedded->worker[k].thread, NULL);
        sem_destroy(&embedded->worker[k].opened);
    }
    gt__board_free(embedded->board);
    free(embedded);
}

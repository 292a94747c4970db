/* stand_in.c: see stand_in.h. */
#include "worker/stand_in.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/thread.h"

enum { STOP_POLL_MS = 200, LOOK_MS = 100 };

struct gt_stand_in {
    struct gt_stand_in *next;
    pthread_t thread;
    atomic_bool stop, done;
    bool failed; /* written before `done` */
    gt_worker_options options;
    char name[sizeof(gt_slot) + 1];
};

static void *run(void *context)
{
    struct gt_stand_in *stand_in = context;
    gt_err err = gt__worker_run(&stand_in->options, NULL);
    stand_in->failed = err != GT_OK && !atomic_load(&stand_in->stop);
    if (stand_in->failed)
        gt__log(GT_LOG_STATUS, "the stand-in for worker %s ended: %s", stand_in->name, gt_error_text());
    atomic_store(&stand_in->done, true);
    return NULL;
}

/* Tell the dispatcher, which may ask another worker. One that was welcomed before it failed is ignored there. */
static bool refuse(gt_worker *worker, uint64_t number)
{
    gt_slot *out = worker->link->dead ? NULL : gt__link_reserve(worker->link, 2);
    if (!out)
        return worker->link->gone;
    memset(out, 0, 2 * sizeof *out);
    out->ins = (gt_instruction){.op = GT_OP_stand_in, .tail = 1};
    out->ins.imm[0].u = number;
    gt__link_commit(worker->link, 2);
    gt__link_flush(worker->link);
    return true;
}

/* Free those that have ended; with `all` the others, too, when they have. */
static void reap(gt_worker *worker, bool all)
{
    for (struct gt_stand_in **where = &worker->stand_ins; *where;) {
        struct gt_stand_in *stand_in = *where;
        bool done = atomic_load(&stand_in->done);
        if (!all && (!done || (stand_in->failed && !refuse(worker, (uint64_t)stand_in->options.number - 1)))) {
            where = &stand_in->next;
            continue;
        }
        *where = stand_in->next;
        pthread_join(stand_in->thread, NULL);
        free(stand_in);
    }
}

int gt__stand_ins_check(gt_worker *worker, int wait_ms)
{
    if (__builtin_expect(!worker->stand_ins, 1))
        return wait_ms;
    reap(worker, false);
    return worker->stand_ins && (wait_ms < 0 || wait_ms > LOOK_MS) ? LOOK_MS : wait_ms;
}

void gt__stand_in_start(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail)
{
    reap(worker, false);
    struct gt_stand_in *stand_in = calloc(1, sizeof *stand_in);
    if (!stand_in || ins->imm[0].u >= GT_MAX_PARTIES || !worker->options->address) {
        gt__log_error("worker %s cannot stand in for worker number %llu", worker->name,
                      (unsigned long long)ins->imm[0].u);
        free(stand_in);
        refuse(worker, ins->imm[0].u);
        return;
    }
    memcpy(stand_in->name, tail, sizeof *tail);
    stand_in->options = *worker->options;
    stand_in->options.name = stand_in->name;
    stand_in->options.named = false;
    stand_in->options.number = (int)ins->imm[0].u + 1;
    stand_in->options.stand_in = true;
    stand_in->options.stop = &stand_in->stop;
    stand_in->options.stop_poll_ms = STOP_POLL_MS;
    stand_in->options.opened = NULL;
    if (gt__thread_start(&stand_in->thread, run, stand_in) != GT_OK) {
        gt__log_error("worker %s has no stand-in for %s: %s", worker->name, stand_in->name, gt_error_text());
        free(stand_in);
        refuse(worker, ins->imm[0].u);
        return;
    }
    stand_in->next = worker->stand_ins;
    worker->stand_ins = stand_in;
}

void gt__stand_ins_end(gt_worker *worker)
{
    for (struct gt_stand_in *stand_in = worker->stand_ins; stand_in; stand_in = stand_in->next)
        atomic_store(&stand_in->stop, true);
    reap(worker, true);
}

/* runs.c: see runs.h. Place in the flow: session.c calls around each turn, share.c when a worker has answered a mark. */
#include "dispatcher/runs.h"

#include "core/record_range.h"
#include "dispatcher/session.h"
#include "dispatcher/state.h"
#include "dispatcher/worker_stream.h"

/* The workers that a turn of the session writes to: its home, or any. NULL: no more. */
static gt_dispatch_worker *next_worker(const gt_session *session, int32_t *index)
{
    const gt_dispatcher *dispatcher = session->dispatcher;
    if (!session->spreading)
        return (*index)++ ? NULL : session->home;
    while (*index < dispatcher->worker_count) {
        gt_dispatch_worker *worker = dispatcher->workers[(*index)++];
        if (worker->link)
            return worker;
    }
    return NULL;
}

void gt__runs_begin(const gt_session *session)
{
    int32_t index = 0;
    gt_dispatch_worker *worker;
    session->dispatcher->turn = session->number;
    while ((worker = next_worker(session, &index)))
        worker->runs.from = worker->records + 1;
}

static gt_run *run_at(gt_runs *runs, uint32_t k)
{
    return &runs->run[(runs->first + k) % GT_RUNS];
}

/* The runs that are executed go, and the oldest if there is no room. */
static void add(gt_runs *runs, const gt_run *run)
{
    gt_run *last = runs->count ? run_at(runs, runs->count - 1) : NULL;
    if (last && last->session == run->session && last->end == run->first) {
        last->end = run->end;
        return;
    }
    while (runs->count && (runs->count == GT_RUNS || run_at(runs, 0)->end <= runs->done + 1)) {
        runs->first = (runs->first + 1) % GT_RUNS;
        runs->count--;
    }
    *run_at(runs, runs->count++) = *run;
}

void gt__runs_end(const gt_session *session)
{
    int32_t index = 0;
    gt_dispatch_worker *worker;
    session->dispatcher->turn = 0;
    while ((worker = next_worker(session, &index))) {
        gt_run run = {.session = session->number, .first = worker->runs.from, .end = worker->records + 1};
        if (run.first && run.end > run.first)
            add(&worker->runs, &run);
        worker->runs.from = 0;
    }
}

void gt__runs_cancel(const gt_session *session)
{
    for (int32_t index = 0; index < session->dispatcher->worker_count; index++) {
        gt_dispatch_worker *worker = session->dispatcher->workers[index];
        for (uint32_t k = 0; worker->link && k < worker->runs.count; k++) {
            const gt_run *run = run_at(&worker->runs, k);
            uint64_t first = run->first > worker->runs.done ? run->first : worker->runs.done + 1;
            if (run->session == session->number && run->end > first)
                worker->link->ops->urge(worker->link, gt__record_range_pack((gt_record_range){first, run->end}));
        }
    }
}

void gt__runs_reset(gt_runs *runs)
{
    runs->from = runs->done = 0;
    runs->first = runs->count = 0;
}

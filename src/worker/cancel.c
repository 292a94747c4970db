/* cancel.c: see cancel.h. Place in the flow: worker.c and paths.c ask before a record, engines during one. */
#include "worker/cancel.h"

#include <math.h>
#include <stdio.h>

#include "worker/worker.h"

static const char client_is_gone[] = "cancelled: its client is gone";

/* ---- ranges ------------------------------------------------------------------------------------------------- */

/* The number of the record that is executed. */
static uint64_t current(const gt_worker *worker)
{
    return gt__deferred_number(&worker->deferred, worker->timing.records);
}

/* Take what the dispatcher has told; forget what is past. */
static void learn(gt_worker *worker)
{
    gt_canceller *c = &worker->cancel;
    uint64_t word, now = worker->timing.records + worker->deferred.ahead;
    unsigned kept = 0;
    for (unsigned k = 0; k < c->ranges; k++)
        if (c->range[k].end > now)
            c->range[kept++] = c->range[k];
    c->ranges = kept;
    if (!worker->link || !worker->link->ops->urged)
        return;
    for (unsigned k = 0; k < GT_LINK_URGENT && worker->link->ops->urged(worker->link, &word); k++)
        if (c->ranges < GT_CANCEL_RANGES)
            c->range[c->ranges++] = gt__record_range_unpack(word, now);
}

static bool is_unwanted(const gt_worker *worker)
{
    const gt_canceller *c = &worker->cancel;
    uint64_t number = current(worker);
    if (worker->deferred.unwanted)
        return true;
    for (unsigned k = 0; k < c->ranges; k++)
        if (number >= c->range[k].first && number < c->range[k].end)
            return true;
    return false;
}

/* ---- looks -------------------------------------------------------------------------------------------------- */

bool gt__cancel_skips(gt_worker *worker)
{
    gt_canceller *c = &worker->cancel;
    uint64_t ticks = gt__timing_on(&worker->timing) ? worker->timing.start_ticks : gt__ticks();
    if (gt__tick_span_ns(&worker->timing.clock, ticks - c->looked_ticks) >= GT_CANCEL_MS * 1000000u) {
        c->looked_ticks = ticks;
        learn(worker);
    }
    if (__builtin_expect(!c->ranges && !worker->deferred.unwanted, 1) || !is_unwanted(worker))
        return false;
    gt__error_set("%s", client_is_gone);
    return true;
}

static bool is_over_limit(gt_worker *worker)
{
    gt_canceller *c = &worker->cancel;
    uint64_t now_ns = gt__now_ns(), record = worker->timing.records;
    if (record != c->began_record || c->engine.step != c->began_step) {
        c->began_record = record;
        c->began_step = c->engine.step;
        c->began_ns = now_ns;
    }
    return now_ns - c->began_ns > c->limit_ns;
}

static const char *look(void *context)
{
    gt_worker *worker = context;
    gt_canceller *c = &worker->cancel;
    c->looked_ticks = gt__ticks();
    learn(worker);
    if (c->held)
        return NULL;
    if ((c->ranges || worker->deferred.unwanted) && is_unwanted(worker))
        return client_is_gone;
    return c->limit_ns && is_over_limit(worker) ? c->why : NULL;
}

void gt__canceller_init(gt_worker *worker)
{
    worker->cancel = (gt_canceller){.engine = {.look = look, .context = worker}};
}

void gt__canceller_limit(gt_worker *worker, double seconds)
{
    gt_canceller *c = &worker->cancel;
    uint64_t ns = seconds > 0 ? (uint64_t)fmin(seconds * 1e9, 1e18) : 0;
    if (!ns || (c->limit_ns && ns > c->limit_ns))
        return;
    c->limit_ns = ns;
    snprintf(c->why, sizeof c->why, "cancelled: it ran for longer than --max-op-seconds %g allows", seconds);
}

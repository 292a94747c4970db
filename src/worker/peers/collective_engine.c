/*
 * collective_engine.c: collectives that the workers' engines hold among themselves (NCCL), where all parties' engines are of
 * one league (engine.h). All others take the collective that this one wraps.
 *
 * Engines know nothing of poison. So the parties first tell each other, by the exchange, whether they have their operand,
 * and what their engines have kept of earlier collectives. If one has no operand, none calls its engine, and all have its failure.
 *
 * What was called may still fail at one party alone. It tells the others, whose engines ask for that as long as their work waits.
 */
#include <stdlib.h>
#include <string.h>

#include "worker/worker.h"

typedef struct own {
    gt_collective base;
    gt_worker *worker;
    gt_collective *others; /* for parties that have no league in common */
} own;

/* Whether the engines of all parties can hold collectives, and no two of them sit in one place. */
static bool of_one_league(const own *o, const gt_collective_call *call)
{
    const gt_worker *worker = o->worker;
    uint64_t league[GT_MAX_PARTIES];
    if (!worker->league || call->count > GT_MAX_PARTIES)
        return false;
    for (unsigned k = 0; k < call->count; k++) {
        int64_t party = call->party[k].worker;
        if (party < 0 || party >= GT_MAX_PARTIES)
            return false;
        league[k] = k == call->self ? worker->league : gt__worker_meant(worker, party)->league;
        if (league[k] >> 32 != worker->league >> 32)
            return false;
        for (unsigned other = 0; other < k && (uint32_t)league[k]; other++)
            if (league[other] == league[k])
                return false;
    }
    return true;
}

/* ---- what the parties tell each other -------------------------------------------------------------------------- */

/* Tell all parties how it went here: a failure, or GT_OK and a number. An error: one of them hears that instead. */
static gt_err tell(const own *o, const gt_group_call *call, uint32_t number, gt_err err, const char *text,
                   uint64_t value)
{
    gt_exchange *exchange = o->worker->exchange;
    gt_err unsent = GT_OK;
    for (unsigned k = 0; k < call->count; k++) {
        int32_t to = (int32_t)call->party[k].worker;
        if (k == call->self)
            continue;
        gt_err sent = err ? err : gt__exchange_post(exchange, to, call->tag, number, &value, sizeof value, NULL);
        if (sent != GT_OK)
            gt__exchange_post_failure(exchange, to, call->tag, number, sent, err ? text : gt_error_text());
        if (!err && sent)
            unsent = sent;
    }
    return unsent;
}

/* One party's word. */
static gt_err hear_one(gt_exchange *exchange, int32_t from, uint64_t tag, uint32_t number, uint64_t *value)
{
    gt_message *message = NULL;
    GT_TRY(gt__exchange_take(exchange, from, tag, number, &message));
    gt_err err = message->err != GT_OK ? gt__exchange_failure(exchange, message) : GT_OK;
    if (err == GT_OK && message->bytes != sizeof *value)
        err = gt__fail(GT_ERR_PROTOCOL, "worker %d told its state in %zu bytes", from, message->bytes);
    if (err == GT_OK)
        memcpy(value, message->data, sizeof *value);
    exchange->ops->done(exchange, message);
    return err;
}

/* The first failure among the parties, with `ours` among them; all of their messages are taken. GT_OK: whether all have the same
 * number as we, and whether one has GT_NO_CIRCLE. */
static gt_err hear(const own *o, const gt_group_call *call, uint32_t number, const gt_poison *ours, uint64_t value,
                   bool *same, bool *declined)
{
    gt_exchange *exchange = o->worker->exchange;
    gt_origin origin = exchange->failed;
    gt_poison *first = ours ? gt__poison_new(ours->err, ours->text) : NULL;
    *same = true;
    *declined = value == GT_NO_CIRCLE;
    for (unsigned k = 0; k < call->count; k++) {
        uint64_t theirs = value;
        if (k == call->self)
            continue;
        gt_err err = hear_one(exchange, (int32_t)call->party[k].worker, call->tag, number, &theirs);
        *same = *same && theirs == value;
        *declined = *declined || theirs == GT_NO_CIRCLE;
        if (err != GT_OK && !first) {
            first = gt__poison_new(err, gt_error_text());
            origin = exchange->failed;
        }
    }
    exchange->failed = origin;
    if (!first)
        return GT_OK;
    gt_err err = gt__fail(first->err, "%s", first->text);
    gt__poison_release(first);
    return err;
}

static gt_err share(const gt_group_call *call, void *bytes, size_t size)
{
    gt_exchange *exchange = ((const own *)call->context)->worker->exchange;
    gt_message *message = NULL;
    for (unsigned k = 1; k < call->count && call->self == 0; k++)
        GT_TRY(gt__exchange_post(exchange, (int32_t)call->party[k].worker, call->tag, GT_NOTE_SHARED, bytes, size,
                                 NULL));
    if (call->self == 0)
        return GT_OK;
    GT_TRY(gt__exchange_take(exchange, (int32_t)call->party[0].worker, call->tag, GT_NOTE_SHARED, &message));
    gt_err err = message->err != GT_OK ? gt__exchange_failure(exchange, message) : GT_OK;
    if (err == GT_OK && message->bytes != size)
        err = gt__fail(GT_ERR_PROTOCOL, "party 0 shared %zu bytes instead of %zu", message->bytes, size);
    if (err == GT_OK && size)
        memcpy(bytes, message->data, size);
    exchange->ops->done(exchange, message);
    return err;
}

static gt_err agree(const gt_group_call *call, gt_err err)
{
    const own *o = call->context;
    gt_poison *failed = err ? gt__poison_new(err, gt_error_text()) : NULL;
    bool same, declined;
    tell(o, call, GT_NOTE_AGREED, err, failed ? failed->text : "", 0);
    err = hear(o, call, GT_NOTE_AGREED, failed, 0, &same, &declined);
    if (failed)
        gt__poison_release(failed);
    return err;
}

/* ---- while the work is queued ------------------------------------------------------------------------------------ */

static gt_err lost(void *context, uint64_t tag, int64_t party, uint64_t life)
{
    const gt_worker *worker = ((const own *)context)->worker;
    gt_exchange *exchange = worker->exchange;
    gt_origin current = exchange->failed; /* of another record */
    uint64_t nothing;
    if (worker->introduced[party].life != life)
        return gt__fail(GT_ERR_CONNECTION, "worker %lld is gone: another has taken its place", (long long)party);
    if (!gt__exchange_ready(exchange, (int32_t)party, tag, GT_NOTE_GIVEN_UP, 0))
        return GT_OK;
    gt_err err = hear_one(exchange, (int32_t)party, tag, GT_NOTE_GIVEN_UP, &nothing);
    exchange->failed = current;
    return err;
}

static void give_up(void *context, uint64_t tag, int64_t party, gt_err err)
{
    gt_exchange *exchange = ((const own *)context)->worker->exchange;
    uint64_t at_hand = exchange->record;
    exchange->record =
        UINT64_MAX; /* at any time: the record at hand may be one that was put aside before this party came */
    gt__exchange_post_failure(exchange, (int32_t)party, tag, GT_NOTE_GIVEN_UP, err, gt_error_text());
    exchange->record = at_hand;
}

/* ---- running ------------------------------------------------------------------------------------------------------ */

/* Call the engine, if all parties do. GT_ERR_UNSUPPORTED: none does, or none can. */
static gt_err call_engine(const own *o, const gt_collective_call *call, gt_group_call *group, gt_token *token)
{
    gt_engine *engine = o->worker->engine;
    const gt_poison *poison = call->poison;
    bool same, declined, keeps = engine->ops->circle && !poison;
    uint64_t circle = keeps ? engine->ops->circle(engine, group) : 0;
    gt_err unsent =
        tell(o, group, GT_NOTE_STATUS, poison ? poison->err : GT_OK, poison ? poison->text : "", circle);
    GT_TRY(hear(o, group, GT_NOTE_STATUS, poison, circle, &same, &declined));
    if (declined && !unsent)
        return GT_ERR_UNSUPPORTED;
    group->anew = !same || circle == 0;
    gt_err err = unsent ? gt__fail(unsent, "out of memory") : engine->ops->collective(engine, group, token);
    gt__late_given(&o->worker->late, *token);
    if (err != GT_OK && err != GT_ERR_UNSUPPORTED) {
        gt_poison *failed = gt__poison_new(err, gt_error_text());
        tell(o, group, GT_NOTE_GIVEN_UP, err, failed->text, 0);
        gt__fail(err, "%s", failed->text);
        gt__poison_release(failed);
    }
    return err;
}

static gt_err run(gt_collective *collective, const gt_collective_call *call)
{
    own *o = (own *)collective;
    uint64_t lives[GT_MAX_PARTIES];
    gt_token token = 0;
    if (!of_one_league(o, call))
        return o->others->ops->run(o->others, call);
    for (unsigned k = 0; k < call->count; k++)
        lives[k] = gt__worker_meant(o->worker, call->party[k].worker)->life;
    gt_group_call group = {.op = call->op,
                           .tag = call->tag,
                           .self = call->self,
                           .count = call->count,
                           .party = call->party,
                           .life = lives,
                           .axis = call->axis,
                           .axis_after = call->axis_after,
                           .whole = call->whole,
                           .in = call->in,
                           .out = call->out,
                           .timed = call->timed,
                           .share = share,
                           .agree = agree,
                           .lost = lost,
                           .give_up = give_up,
                           .context = o};
    gt_err err = call_engine(o, call, &group, &token);
    if (err == GT_ERR_UNSUPPORTED)
        return o->others->ops->run(o->others, call);
    if (err == GT_OK && token && call->token)
        *call->token = token;
    else if (err == GT_OK)
        err = gt__late_wait(o->worker, token);
    return err;
}

/* Those of the engines are queued by all of them in the same order. */
static bool keeps_order(gt_collective *collective, const gt_collective_call *call)
{
    return of_one_league((own *)collective, call);
}

static gt_passage *start(gt_collective *collective, const gt_collective_call *call)
{
    own *o = (own *)collective;
    return of_one_league(o, call) ? NULL : o->others->ops->start(o->others, call);
}

static void close_own(gt_collective *collective)
{
    own *o = (own *)collective;
    o->others->ops->close(o->others);
    free(o);
}

static const gt_collective_ops own_ops = {
    .name = "engine", .run = run, .start = start, .keeps_order = keeps_order, .close = close_own};

gt_err gt__collective_engine(gt_worker *worker, gt_collective **collective)
{
    own *o = malloc(sizeof *o);
    if (!o)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    *o = (own){.base.ops = &own_ops, .worker = worker, .others = *collective};
    *collective = &o->base;
    return GT_OK;
}

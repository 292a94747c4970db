/*
 * collective_engine.c: collectives that the workers' engines hold among themselves (NCCL), where all parties' engines are of
 * one group. All others take the collective that this one wraps.
 *
 * Engines know nothing of poison. So the parties first tell each other, by the exchange, whether they have their operand.
 * If one has not, none calls its engine, and all have its failure.
 */
#include <stdlib.h>
#include <string.h>

#include "worker/worker.h"

enum { STATUS = 2, SHARED = 3 }; /* message numbers; collective_host.c has 0 and 1 */

typedef struct own {
    gt_collective base;
    gt_worker *worker;
    gt_collective *others; /* for parties that have no group in common */
} own;

static bool of_one_group(const own *o, const gt_collective_call *call)
{
    const gt_worker *worker = o->worker;
    for (unsigned k = 0; k < call->count; k++) {
        int64_t party = call->party[k].worker;
        if (k != call->self && (party < 0 || party >= GT_MAX_PARTIES || worker->group_of[party] != worker->group))
            return false;
    }
    return worker->group != 0;
}

static void tell_status(const own *o, const gt_collective_call *call)
{
    gt_exchange *exchange = o->worker->exchange;
    for (unsigned k = 0; k < call->count; k++) {
        int32_t to = (int32_t)call->party[k].worker;
        if (k == call->self)
            continue;
        gt_err err =
            call->poison ? call->poison->err : gt__exchange_post(exchange, to, call->tag, STATUS, NULL, 0, NULL);
        if (err != GT_OK)
            gt__exchange_post_failure(exchange, to, call->tag, STATUS, err,
                                      call->poison ? call->poison->text : gt_error_text());
    }
}

/* The first failure among the parties; all of their messages are taken. */
static gt_err hear_status(const own *o, const gt_collective_call *call)
{
    gt_exchange *exchange = o->worker->exchange;
    gt_origin origin = exchange->failed;
    gt_poison *first = NULL;
    if (call->poison)
        first = gt__poison_new(call->poison->err, call->poison->text);
    for (unsigned k = 0; k < call->count; k++) {
        gt_message *message = NULL;
        if (k == call->self)
            continue;
        gt_err err = gt__exchange_take(exchange, (int32_t)call->party[k].worker, call->tag, STATUS, &message);
        if (err == GT_OK && message->err != GT_OK)
            err = gt__exchange_failure(exchange, message);
        if (err != GT_OK && !first) {
            first = gt__poison_new(err, gt_error_text());
            origin = exchange->failed;
        }
        if (message)
            exchange->ops->done(exchange, message);
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
        GT_TRY(gt__exchange_post(exchange, (int32_t)call->party[k].worker, call->tag, SHARED, bytes, size, NULL));
    if (call->self == 0)
        return GT_OK;
    GT_TRY(gt__exchange_take(exchange, (int32_t)call->party[0].worker, call->tag, SHARED, &message));
    gt_err err = message->err != GT_OK ? gt__exchange_failure(exchange, message) : GT_OK;
    if (err == GT_OK && message->bytes != size)
        err = gt__fail(GT_ERR_PROTOCOL, "party 0 shared %zu bytes instead of %zu", message->bytes, size);
    if (err == GT_OK && size)
        memcpy(bytes, message->data, size);
    exchange->ops->done(exchange, message);
    return err;
}

static gt_err run(gt_collective *collective, const gt_collective_call *call)
{
    own *o = (own *)collective;
    gt_engine *engine = o->worker->engine;
    if (!of_one_group(o, call))
        return o->others->ops->run(o->others, call);
    tell_status(o, call);
    GT_TRY(hear_status(o, call));
    gt_group_call group = {.op = call->op,
                           .tag = call->tag,
                           .self = call->self,
                           .count = call->count,
                           .party = call->party,
                           .axis = call->axis,
                           .axis_after = call->axis_after,
                           .whole = call->whole,
                           .in = call->in,
                           .out = call->out,
                           .timed = call->timed,
                           .share = share,
                           .context = o};
    gt_token token = 0;
    gt_err err = engine->ops->collective(engine, &group, &token);
    gt__late_given(&o->worker->late, token);
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
    return of_one_group((own *)collective, call);
}

static gt_passage *start(gt_collective *collective, const gt_collective_call *call)
{
    own *o = (own *)collective;
    return of_one_group(o, call) ? NULL : o->others->ops->start(o->others, call);
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

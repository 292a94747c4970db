/*
 * collective_lent.c: collectives whose parties' engines read each other's memory (loans.h). All others take the
 * collective that this one wraps.
 *
 * Each party lends its operand to those that need it, and computes its own result from theirs by calls of its engine:
 * sums in the order of the parties, so that all get the same bits. Each party computes the whole sum: devices read faster than
 * parts of it could meet again. Every party gets one message of each party that it needs, a loan or a failure, so none waits in
 * vain.
 */
#include <stdlib.h>
#include <string.h>

#include "worker/worker.h"

typedef struct lent {
    gt_collective base;
    gt_worker *worker;
    gt_collective *others; /* for parties that have no group in common */
} lent;

/* A collective at one party. */
typedef struct passage {
    gt_passage base;
    gt_worker *worker;
    const gt_collective_call *call;
    gt_poison *failed; /* the first failure, ours or another party's */
    bool taken[GT_MAX_PARTIES];
    gt_borrowed borrowed[GT_MAX_PARTIES]; /* of the parties from which one was taken */
} passage;

static bool all_lend(const gt_worker *worker, const gt_collective_call *call)
{
    for (unsigned k = 0; k < call->count; k++)
        if (k != call->self && !gt__loans_with(worker, call->party[k].worker))
            return false;
    return call->count > 1;
}

/* ---- the parties' operands ---------------------------------------------------------------------------------- */

/* Whether party k has an operand that the others need. */
static bool gives(const gt_collective_call *call, unsigned k)
{
    return call->op != GT_OP_broadcast || k == 0;
}

/* The operand of party k. */
static gt_meta operand_meta(const gt_collective_call *call, unsigned k)
{
    int64_t start, count;
    if (call->op != GT_OP_all_gather && call->op != GT_OP_all_to_all)
        return *call->whole;
    gt__party_part(call, k, false, call->axis, &start, &count);
    return gt__meta_narrowed(call->whole, call->axis, count);
}

static void fail(passage *p, gt_err err)
{
    if (p->failed)
        return;
    p->failed = gt__poison_new(err, gt_error_text());
    p->failed->origin = p->worker->exchange->failed;
}

static void lend_ours(passage *p)
{
    const gt_collective_call *call = p->call;
    gt_exchange *exchange = p->worker->exchange;
    for (unsigned k = 0; k < call->count && gives(call, call->self); k++) {
        int32_t to = (int32_t)call->party[k].worker;
        if (k == call->self)
            continue;
        gt_err err = p->failed ? p->failed->err
                               : gt__loan_post(p->worker, to, call->tag, call->in->data,
                                               gt__meta_bytes(&call->in->meta), call->buffer);
        if (err == GT_OK)
            continue;
        fail(p, err);
        exchange->failed = p->failed->origin;
        gt__exchange_post_failure(exchange, to, call->tag, 0, p->failed->err, p->failed->text);
    }
}

static void borrow_theirs(passage *p)
{
    const gt_collective_call *call = p->call;
    gt_origin own = p->worker->exchange->failed;
    for (unsigned k = 0; k < call->count; k++) {
        if (k == call->self || !gives(call, k))
            continue;
        gt_meta meta = operand_meta(call, k);
        gt_err err = gt__loan_take(p->worker, (int32_t)call->party[k].worker, call->tag, gt__meta_bytes(&meta),
                                   &p->borrowed[k]);
        p->taken[k] = err == GT_OK;
        if (err != GT_OK)
            fail(p, err);
        p->worker->exchange->failed = own;
    }
}

/* ---- computing ---------------------------------------------------------------------------------------------- */

/* The operand of party k, or, with `part`, of its elements those that our result has, along axis_after. */
static gt_view operand_view(const passage *p, unsigned k, bool part)
{
    const gt_collective_call *call = p->call;
    gt_view view = {.data = k == call->self ? call->in->data : p->borrowed[k].memory,
                    .meta = operand_meta(call, k)};
    gt__view_set_contiguous(&view);
    if (part) {
        int64_t start, count, size = (int64_t)gt__dtype_size((gt_dtype)view.meta.dtype);
        gt__party_part(call, call->self, true, call->axis_after, &start, &count);
        view.data = (uint8_t *)view.data + start * view.stride[call->axis_after] * size;
        view.meta = gt__meta_narrowed(&view.meta, call->axis_after, count);
        gt__view_update_contiguous(&view);
    }
    return view;
}

static gt_err compute(const passage *p, gt_instruction ins, const gt_view *const *in, unsigned operands,
                      const gt_view *out, gt_token *token)
{
    gt_engine *engine = p->worker->engine;
    gt_call call = {.op = (gt_opcode)ins.op,
                    .compute = (gt_dtype)out->meta.dtype,
                    .ins = &ins,
                    .operands = operands,
                    .in = in,
                    .out = out,
                    .timed = p->call->timed};
    ins.dtype = out->meta.dtype;
    *token = 0;
    gt_err err = engine->ops->run(engine, &call, token);
    gt__late_given(&p->worker->late, *token);
    return err;
}

/* The sum of all parties' operands, or of our parts of them. No sum is written over its operand: they alternate between the
 * result and a spare. */
static gt_err add_up(const passage *p, bool part, gt_token *token)
{
    const gt_collective_call *call = p->call;
    gt_engine *engine = p->worker->engine;
    gt_view spare = *call->out, sum = operand_view(p, 0, part);
    size_t bytes = gt__meta_bytes(&call->out->meta);
    gt_err err = GT_OK;
    if (call->count > 2)
        GT_TRY(engine->ops->alloc(engine, bytes, &spare.data));
    for (unsigned k = 1; k < call->count && err == GT_OK; k++) {
        const gt_view *to = (call->count - k) % 2 ? call->out : &spare;
        gt_view next = operand_view(p, k, part);
        err = compute(p, (gt_instruction){.op = GT_OP_add}, (const gt_view *[]){&sum, &next}, 2, to, token);
        sum = *to;
    }
    if (call->count > 2)
        engine->ops->release(engine, spare.data, bytes); /* in the order of the queue */
    return err;
}

/* The parties' operands one behind the other along the axis in which they were parts. */
static gt_err join(const passage *p, bool part, gt_token *token)
{
    const gt_collective_call *call = p->call;
    gt_view views[GT_MAX_PARTIES];
    const gt_view *in[GT_MAX_PARTIES] = {NULL};
    int64_t start[GT_MAX_PARTIES], count;
    unsigned joined = 0;
    for (unsigned k = 0; k < call->count; k++) {
        unsigned at = joined;
        gt__party_part(call, k, false, call->axis, &start[k], &count);
        views[k] = operand_view(p, k, part);
        if (views[k].meta.numel == 0)
            continue;
        for (joined++; at > 0 && start[in[at - 1] - views] > start[k]; at--)
            in[at] = in[at - 1];
        in[at] = &views[k];
    }
    gt_instruction ins = {.op = GT_OP_cat, .imm = {{.i = call->axis}, {.i = joined}}};
    return joined ? compute(p, ins, in, joined, call->out, token) : GT_OK;
}

static gt_err make_result(const passage *p, gt_token *token)
{
    const gt_collective_call *call = p->call;
    gt_view first;
    *token = 0;
    if (call->out->meta.numel == 0)
        return GT_OK;
    switch (call->op) {
    case GT_OP_all_reduce:
        return add_up(p, false, token);
    case GT_OP_reduce_scatter:
        return add_up(p, true, token);
    case GT_OP_all_gather:
        return join(p, false, token);
    case GT_OP_all_to_all:
        return join(p, true, token);
    default:
        first = operand_view(p, 0, false);
        return gt__worker_copy(p->worker, &first, call->out, call->timed, token);
    }
}

/* Only what is used is set: it is large. */
static void begin(passage *p, gt_worker *worker, const gt_collective_call *call)
{
    p->worker = worker;
    p->call = call;
    p->failed = NULL;
    memset(p->taken, 0, call->count * sizeof *p->taken);
    if (call->poison)
        fail(p, gt__fail(call->poison->err, "%s", call->poison->text));
    lend_ours(p);
}

static gt_err take_part(passage *p)
{
    gt_worker *worker = p->worker;
    gt_token token = 0, last;
    gt_err err = GT_OK;
    borrow_theirs(p);
    if (!p->failed)
        err = make_result(p, &token);
    last = worker->late.last; /* after an error, too: some of the work may be queued */
    for (unsigned k = 0; k < p->call->count; k++)
        if (p->taken[k])
            gt__loan_return(worker, last, &p->borrowed[k]);
    if (p->failed) {
        worker->exchange->failed = p->failed->origin;
        return gt__fail(p->failed->err, "%s", p->failed->text);
    }
    if (err == GT_OK && token && p->call->token)
        *p->call->token = token;
    else if (err == GT_OK)
        err = gt__late_wait(worker, token);
    return err;
}

static gt_err end(passage *p)
{
    gt_err err = take_part(p);
    if (p->failed)
        gt__poison_release(p->failed);
    return err;
}

static gt_err run(gt_collective *collective, const gt_collective_call *call)
{
    lent *l = (lent *)collective;
    if (!all_lend(l->worker, call))
        return l->others->ops->run(l->others, call);
    passage p;
    begin(&p, l->worker, call);
    return end(&p);
}

static bool advance(gt_passage *passage_of, gt_err *err)
{
    passage *p = (passage *)passage_of;
    const gt_collective_call *call = p->call;
    for (unsigned k = 0; k < call->count; k++)
        if (k != call->self && gives(call, k) &&
            !gt__loan_has_come(p->worker, (int32_t)call->party[k].worker, call->tag))
            return false;
    *err = end(p);
    free(p);
    return true;
}

static void abandon(gt_passage *passage_of)
{
    passage *p = (passage *)passage_of;
    if (p->failed)
        gt__poison_release(p->failed);
    free(p);
}

static gt_passage *start(gt_collective *collective, const gt_collective_call *call)
{
    lent *l = (lent *)collective;
    if (!all_lend(l->worker, call))
        return l->others->ops->start(l->others, call);
    passage *p = malloc(sizeof *p);
    if (!p)
        return NULL;
    begin(p, l->worker, call);
    p->base = (gt_passage){.advance = advance, .abandon = abandon};
    return &p->base;
}

static void close_lent(gt_collective *collective)
{
    lent *l = (lent *)collective;
    l->others->ops->close(l->others);
    free(l);
}

static const gt_collective_ops lent_ops = {.name = "lent", .run = run, .start = start, .close = close_lent};

gt_err gt__collective_lent(gt_worker *worker, gt_collective **collective)
{
    lent *l = malloc(sizeof *l);
    if (!l)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    *l = (lent){.base.ops = &lent_ops, .worker = worker, .others = *collective};
    *collective = &l->base;
    return GT_OK;
}

/*
 * collective_host.c: collectives over an exchange, for engines of all kinds.
 *
 * All collectives are made of two steps, in which each party sends to each other party directly:
 *
 *     scatter   each party gives party k part k, and party k adds them up: reduce_scatter
 *     gather    each party gives all others its own part: all_gather; all_to_all gives a part of it
 *
 * and all_reduce is one after the other: every element crosses to another worker 2 (n-1)/n times, which is
 * optimal, and in two steps where a ring takes 2 (n-1). Sums run in the order of the parties: all workers
 * get the same bits. Between threads (an exchange by reference) the others read a party's memory where it is, and
 * nothing is packed or sent.
 *
 * A large all_reduce goes in pieces, each with its two steps: while one is added up, the next is on its way, and the sums of
 * the one before are.
 *
 * The steps are deadlock-free, also after a failure: in each step every party gets one message of each other party,
 * data or a failure. A party that has failed, or received a failure, sends that failure in the remaining steps.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/peers/collective.h"
#include "worker/worker.h"

enum {
    SMALL = 16 << 10,          /* bytes: below, each party adds up everything, which saves a step */
    BLOCK = 32 << 10,          /* elements added up at a time: they stay in the cache */
    LARGE_BROADCAST = 1 << 20, /* bytes: from here on a broadcast is a scatter and a gather */
    PIECE = 8 << 20,           /* bytes: an all_reduce of twice as many goes in pieces of at least so many */
    MOST_PIECES = 16
};
_Static_assert(2 * MOST_PIECES <= GT_FIRST_NOTE, "each piece has two steps");

typedef struct host {
    gt_collective base;
    gt_exchange *exchange;
    gt_engine *engine, *adder; /* the adder is synchronous, on host memory: the engine itself, or a cpu engine */
    gt_store *store;
    bool direct; /* the engine's memory may be read and written here */
} host;

/* A window on a party's part: element (0,...,0) and strides, host memory. */
typedef struct window {
    const uint8_t *data;
    int64_t stride[GT_MAX_RANK];
} window;

void gt__party_part(const gt_collective_call *call, unsigned k, bool after, unsigned axis, int64_t *start,
                    int64_t *count)
{
    gt__partner_part(call->party, call->count, k, after, call->whole->shape[axis], start, count);
}

static void row_major(const gt_meta *meta, int64_t *stride)
{
    int64_t step = 1;
    for (unsigned d = meta->rank; d-- > 0;) {
        stride[d] = step;
        step *= meta->shape[d];
    }
}

/* Copy a box of elements between two windows. */
static void copy_box(const gt_meta *box, const window *from, uint8_t *to, const int64_t *to_stride)
{
    size_t size = gt__dtype_size((gt_dtype)box->dtype);
    int64_t run = 1, index[GT_MAX_RANK] = {0};
    int inner = box->rank;
    while (inner > 0 && from->stride[inner - 1] == run && to_stride[inner - 1] == run)
        run *= box->shape[--inner]; /* these dimensions are one run in both */
    if (box->numel == 0)
        return;
    for (;;) {
        int64_t source = 0, target = 0;
        for (int d = 0; d < inner; d++) {
            source += index[d] * from->stride[d];
            target += index[d] * to_stride[d];
        }
        memcpy(to + target * (int64_t)size, from->data + source * (int64_t)size, (size_t)run * size);
        int d = inner - 1;
        while (d >= 0 && ++index[d] == box->shape[d])
            index[d--] = 0;
        if (d < 0)
            return;
    }
}

/* The elements start..start+count along an axis of a contiguous tensor. */
static window window_at(const gt_meta *meta, const void *data, unsigned axis, int64_t start)
{
    window w = {0};
    row_major(meta, w.stride);
    w.data = (const uint8_t *)data + start * w.stride[axis] * (int64_t)gt__dtype_size((gt_dtype)meta->dtype);
    return w;
}

/* ---- giving and getting ------------------------------------------------------------------------------------ */

/* One party's way through a collective: one step, or two. In each, a message of each party that it expects one of. */
typedef struct passage {
    host *h;
    const gt_collective_call *call;
    gt_err err;   /* the first failure, ours or received: from then on we send it instead of data */
    uint8_t *out; /* host memory, as `in`; NULL if the passage has failed */
    const uint8_t *in;
    gt_buffer *buffer, *out_buffer; /* of in and out; NULL: they are a copy on the host, in `staged` */
    uint8_t *staged;
    int64_t elements; /* of the flat tensor; those of one piece, whose messages have numbers from `first` on */
    uint32_t first;
    unsigned step;
    gt_message *messages[GT_MAX_PARTIES]; /* of the step, by party */
    bool gone[GT_MAX_PARTIES];            /* and parties of which none will come */
    char why[1024];
} passage;

/* Set the passage's failure from the thread's error, if it is the first. */
static void fail(passage *p, gt_err err)
{
    if (p->err != GT_OK)
        return;
    p->err = err;
    snprintf(p->why, sizeof p->why, "%s", gt_error_text());
}

/* Send party k these bytes in this step, or our failure. */
static void lend(passage *p, unsigned k, uint32_t number, const void *data, size_t bytes, gt_buffer *buffer)
{
    gt_exchange *exchange = p->h->exchange;
    int32_t to = (int32_t)p->call->party[k].worker;
    if (p->err == GT_OK) {
        if (buffer)
            buffer->references++;
        gt_err err = gt__exchange_post(exchange, to, p->call->tag, number, data, bytes, buffer);
        if (err == GT_OK)
            return;
        if (buffer)
            buffer->references--;
        fail(p, err);
    }
    gt__exchange_post_failure(exchange, to, p->call->tag, number, p->err, p->why);
}

/* Give party k the elements start..start+count along an axis of a contiguous tensor: the tensor itself, if the
 * receiver reads it in place, else a packed copy. */
static void give(passage *p, unsigned k, uint32_t number, const gt_meta *meta, const void *data, gt_buffer *buffer,
                 unsigned axis, int64_t start, int64_t count)
{
    if (p->err != GT_OK || p->h->exchange->ops->by_reference) {
        lend(p, k, number, data, gt__meta_bytes(meta), buffer);
        return;
    }
    gt_meta part = gt__meta_narrowed(meta, axis, count);
    window w = window_at(meta, data, axis, start);
    int64_t packed[GT_MAX_RANK];
    row_major(&part, packed);
    bool whole_rows = memcmp(packed, w.stride, part.rank * sizeof packed[0]) == 0 || axis == 0;
    if (whole_rows) {
        lend(p, k, number, w.data, gt__meta_bytes(&part), buffer);
        return;
    }
    uint8_t *bytes = malloc(gt__meta_bytes(&part) + 1);
    if (bytes)
        copy_box(&part, &w, bytes, packed);
    else
        fail(p, gt__fail(GT_ERR_MEMORY, "out of memory"));
    lend(p, k, number, bytes, gt__meta_bytes(&part), NULL);
    free(bytes);
}

/* The elements that party k gave of its tensor `meta`, from its message of this step. False: the passage has failed. */
static bool get(passage *p, unsigned k, const gt_meta *meta, unsigned axis, int64_t start, int64_t count,
                window *w)
{
    gt_exchange *exchange = p->h->exchange;
    const gt_message *message = p->messages[k];
    gt_meta part = gt__meta_narrowed(meta, axis, count);
    bool reference = exchange->ops->by_reference;
    size_t expected = gt__meta_bytes(reference ? meta : &part);
    gt_err err = GT_OK;
    if (!message) {
        int32_t from = (int32_t)p->call->party[k].worker;
        err = gt__exchange_look(exchange, from, p->call->tag, p->first + p->step, &p->messages[k]);
        if (err == GT_OK) /* it was, a moment ago */
            err = gt__fail(GT_ERR_CONNECTION, "worker %d is gone", from);
    } else if (message->err != GT_OK) {
        gt_origin first = exchange->failed;
        err = gt__exchange_failure(exchange, message);
        if (p->err != GT_OK) /* it is not the first failure */
            exchange->failed = first;
    } else if (message->bytes != expected)
        err = gt__fail(GT_ERR_PROTOCOL, "a part of %zu bytes came where %zu were expected", message->bytes,
                       expected);
    if (err != GT_OK) {
        fail(p, err);
        return false;
    }
    *w = reference ? window_at(meta, message->data, axis, start) : window_at(&part, message->data, axis, 0);
    return true;
}

/* Whether a message of party k comes in this step. */
static bool is_expected(const passage *p, unsigned k)
{
    const gt_collective_call *call = p->call;
    return k != call->self && (call->op != GT_OP_broadcast || p->step || (call->self && k == 0));
}

/* Take the messages of this step that have arrived. True: no more will come. */
static bool have_arrived(passage *p)
{
    const gt_collective_call *call = p->call;
    bool all = true;
    for (unsigned k = 0; k < call->count; k++) {
        if (!is_expected(p, k) || p->messages[k] || p->gone[k])
            continue;
        gt_err err = gt__exchange_look(p->h->exchange, (int32_t)call->party[k].worker, call->tag,
                                       p->first + p->step, &p->messages[k]);
        p->gone[k] = err != GT_OK;
        all &= p->messages[k] || p->gone[k];
    }
    return all;
}

static void give_back(passage *p)
{
    for (unsigned k = 0; k < p->call->count; k++) {
        if (p->messages[k])
            p->h->exchange->ops->done(p->h->exchange, p->messages[k]);
        p->messages[k] = NULL;
        p->gone[k] = false;
    }
}

/* ---- adding up --------------------------------------------------------------------------------------------- */

static gt_err add(host *h, const gt_view *a, const gt_view *b, const gt_view *out)
{
    gt_instruction ins = {.op = GT_OP_add};
    const gt_view *in[] = {a, b};
    gt_call call = {
        .op = GT_OP_add, .compute = (gt_dtype)out->meta.dtype, .ins = &ins, .operands = 2, .in = in, .out = out};
    return h->adder->ops->run(h->adder, &call, &(gt_token){0});
}

static gt_view view_of(const gt_meta *meta, const window *w)
{
    gt_view view = {.data = (void *)w->data, .meta = *meta};
    memcpy(view.stride, w->stride, sizeof view.stride);
    gt__view_update_contiguous(&view);
    return view;
}

/* The sum of `count` windows of one shape into contiguous memory; sums alternate between two spare buffers. */
static gt_err add_block(host *h, const gt_meta *meta, const window *from, unsigned count, uint8_t *to,
                        uint8_t *spare[2])
{
    gt_view out = {.data = to, .meta = *meta}, sum = view_of(meta, &from[0]);
    gt__view_set_contiguous(&out);
    if (count == 1)
        copy_box(meta, &from[0], to, out.stride);
    for (unsigned k = 1; k < count; k++) {
        gt_view next = view_of(meta, &from[k]), into = out;
        if (k + 1 < count)
            into.data = spare[k % 2];
        GT_TRY(add(h, &sum, &next, &into));
        sum = into;
    }
    return GT_OK;
}

/* Block by block where the windows are one run of elements each, else at once. */
static gt_err add_up(host *h, const gt_meta *meta, const window *from, unsigned count, uint8_t *to)
{
    size_t size = gt__dtype_size((gt_dtype)meta->dtype);
    int64_t packed[GT_MAX_RANK];
    row_major(meta, packed);
    bool flat = true;
    for (unsigned k = 0; k < count; k++)
        flat &= memcmp(packed, from[k].stride, meta->rank * sizeof packed[0]) == 0;
    int64_t block = flat && meta->numel > BLOCK ? BLOCK : meta->numel;
    uint8_t few[2 * SMALL], *memory = few;
    if (2 * (size_t)block * size > sizeof few)
        memory = malloc(2 * (size_t)block * size);
    gt_err err = memory ? GT_OK : gt__fail(GT_ERR_MEMORY, "out of memory");
    for (int64_t done = 0; done < meta->numel && err == GT_OK; done += block) {
        gt_meta part = *meta;
        window some[GT_MAX_PARTIES] = {{0}};
        if (flat) {
            part.rank = 1;
            part.numel = part.shape[0] = block < meta->numel - done ? block : meta->numel - done;
        }
        for (unsigned k = 0; k < count; k++) {
            some[k] = from[k];
            if (flat) {
                some[k].stride[0] = 1;
                some[k].data += done * (int64_t)size;
            }
        }
        err = add_block(h, &part, some, count, to + done * (int64_t)size,
                        (uint8_t *[]){memory, memory + (size_t)block * size});
    }
    if (memory != few)
        free(memory);
    return err;
}

/* ---- the two steps ----------------------------------------------------------------------------------------- */

/* A party's elements along an axis. */
typedef struct range {
    int64_t start, count;
} range;

/* Send each party its range of our tensor. */
static void scatter_send(passage *p, const gt_meta *meta, unsigned axis, const range *ranges)
{
    for (unsigned k = 0; k < p->call->count; k++)
        if (k != p->call->self)
            give(p, k, p->first + p->step, meta, p->in, p->buffer, axis, ranges[k].start, ranges[k].count);
}

/* Add up our own range of all parties' tensors into `to`, contiguous. */
static void scatter_take(passage *p, const gt_meta *meta, unsigned axis, const range *own, uint8_t *to)
{
    const gt_collective_call *call = p->call;
    window windows[GT_MAX_PARTIES];
    for (unsigned k = 0; k < call->count; k++)
        if (k != call->self)
            get(p, k, meta, axis, own->start, own->count, &windows[k]);
        else if (p->err == GT_OK)
            windows[k] = window_at(meta, p->in, axis, own->start);
    if (p->err != GT_OK)
        return;
    gt_meta part = gt__meta_narrowed(meta, axis, own->count);
    gt_err err = add_up(p->h, &part, windows, call->count, to);
    if (err != GT_OK)
        fail(p, err);
}

/* Send our range of the whole, a tensor at `data`, to all. */
static void gather_send(passage *p, const gt_meta *meta, const void *data, gt_buffer *buffer, unsigned axis,
                        const range *ranges)
{
    gt_meta own = gt__meta_narrowed(meta, axis, ranges[p->call->self].count);
    for (unsigned k = 0; k < p->call->count; k++)
        if (k != p->call->self)
            lend(p, k, p->first + p->step, data, gt__meta_bytes(&own), buffer);
}

/* Copy the ranges of all parties along an axis of `meta` into the whole at `to`. Ours is a tensor at `data`. */
static void gather_take(passage *p, const gt_meta *meta, const void *data, unsigned axis, const range *ranges,
                        uint8_t *to)
{
    int64_t stride[GT_MAX_RANK];
    row_major(meta, stride);
    for (unsigned k = 0; k < p->call->count; k++) {
        gt_meta part = gt__meta_narrowed(meta, axis, ranges[k].count);
        window w;
        if (k != p->call->self)
            get(p, k, &part, axis, 0, part.shape[axis], &w);
        else if (p->err == GT_OK)
            w = window_at(&part, data, axis, 0);
        if (p->err != GT_OK)
            continue; /* the other messages are taken nevertheless: one may be the first failure */
        uint8_t *place = to + ranges[k].start * stride[axis] * (int64_t)gt__dtype_size((gt_dtype)meta->dtype);
        if (place != w.data)
            copy_box(&part, &w, place, stride);
    }
}

/* ---- the collectives --------------------------------------------------------------------------------------- */

static void even_ranges(int64_t extent, unsigned count, range *ranges)
{
    for (unsigned k = 0; k < count; k++) {
        int64_t begin = extent * k / count;
        ranges[k] = (range){.start = begin, .count = extent * (k + 1) / count - begin};
    }
}

static void party_ranges(const gt_collective_call *call, bool after, unsigned axis, range *ranges)
{
    for (unsigned k = 0; k < call->count; k++)
        gt__party_part(call, k, after, axis, &ranges[k].start, &ranges[k].count);
}

/* The elements that the passage is for, in a row. */
static gt_meta flattened(const passage *p)
{
    gt_meta flat = *p->call->whole;
    flat.rank = 1;
    flat.shape[0] = flat.numel = p->elements;
    return flat;
}

/* An all_reduce or broadcast: is it a scatter and a gather? Otherwise each party gets all of it in one step. */
static bool has_parts(const passage *p)
{
    const gt_collective_call *call = p->call;
    size_t bytes = (size_t)p->elements * gt__dtype_size((gt_dtype)call->whole->dtype);
    if (call->op == GT_OP_all_reduce)
        return bytes > SMALL;
    return call->op == GT_OP_broadcast && !p->h->exchange->ops->by_reference && call->count > 2 &&
           bytes >= LARGE_BROADCAST;
}

static void parts_of(const passage *p, const gt_meta *flat, range *ranges)
{
    even_ranges(flat->numel, p->call->count, ranges);
    for (unsigned k = 0; k < p->call->count && !has_parts(p); k++)
        ranges[k] = (range){.start = 0, .count = flat->numel};
}

/* Our own part of the result; NULL if the passage has failed. */
static uint8_t *place_of(const passage *p, const gt_meta *flat, const range *ranges)
{
    int64_t element = ranges[p->call->self].start;
    return p->out ? p->out + (size_t)element * gt__dtype_size((gt_dtype)flat->dtype) : NULL;
}

/* The operand is split along one axis and the result along another: take our range of each party's part. */
static void all_to_all_send(passage *p, const range *before, const range *after)
{
    const gt_collective_call *call = p->call;
    gt_meta own = gt__meta_narrowed(call->whole, call->axis, before[call->self].count);
    scatter_send(p, &own, call->axis_after, after);
}

static void all_to_all_take(passage *p, const range *before, const range *after)
{
    const gt_collective_call *call = p->call;
    const range *own_after = &after[call->self];
    gt_meta result = gt__meta_narrowed(call->whole, call->axis_after, own_after->count);
    int64_t stride[GT_MAX_RANK], size = (int64_t)gt__dtype_size((gt_dtype)result.dtype);
    row_major(&result, stride);
    for (unsigned k = 0; k < call->count; k++) {
        gt_meta part = gt__meta_narrowed(call->whole, call->axis, before[k].count);
        window w;
        if (k != call->self)
            get(p, k, &part, call->axis_after, own_after->start, own_after->count, &w);
        else if (p->err == GT_OK)
            w = window_at(&part, p->in, call->axis_after, own_after->start);
        if (p->err != GT_OK)
            continue;
        gt_meta box = gt__meta_narrowed(&part, call->axis_after, own_after->count);
        copy_box(&box, &w, p->out + before[k].start * stride[call->axis] * size, stride);
    }
}

/* Party 0 sends its tensor to all: whole, or, if it is large, by a scatter and a gather. */
static void broadcast_take(passage *p, const gt_meta *flat, const range *ranges)
{
    const gt_collective_call *call = p->call;
    const range *own = &ranges[call->self];
    window w;
    if (call->self)
        get(p, 0, flat, 0, own->start, own->count, &w);
    if (p->err == GT_OK && call->self)
        memcpy(place_of(p, flat, ranges), w.data, (size_t)own->count * gt__dtype_size((gt_dtype)flat->dtype));
    else if (p->err == GT_OK)
        memcpy(p->out, p->in, gt__meta_bytes(flat));
}

static void send_step(passage *p)
{
    const gt_collective_call *call = p->call;
    range ranges[GT_MAX_PARTIES], after[GT_MAX_PARTIES];
    gt_meta flat = flattened(p);
    switch (call->op) {
    case GT_OP_reduce_scatter:
        party_ranges(call, true, call->axis_after, ranges);
        scatter_send(p, call->whole, call->axis_after, ranges);
        return;
    case GT_OP_all_gather:
        party_ranges(call, false, call->axis, ranges);
        gather_send(p, call->whole, p->in, p->buffer, call->axis, ranges);
        return;
    case GT_OP_all_to_all:
        party_ranges(call, false, call->axis, ranges);
        party_ranges(call, true, call->axis_after, after);
        all_to_all_send(p, ranges, after);
        return;
    default:
        parts_of(p, &flat, ranges);
        if (p->step)
            gather_send(p, &flat, place_of(p, &flat, ranges), p->out_buffer, 0, ranges);
        else if (call->op == GT_OP_all_reduce || call->self == 0)
            scatter_send(p, &flat, 0, ranges);
    }
}

static void take_step(passage *p)
{
    const gt_collective_call *call = p->call;
    range ranges[GT_MAX_PARTIES], after[GT_MAX_PARTIES];
    gt_meta flat = flattened(p);
    switch (call->op) {
    case GT_OP_reduce_scatter:
        party_ranges(call, true, call->axis_after, ranges);
        scatter_take(p, call->whole, call->axis_after, &ranges[call->self], p->out);
        return;
    case GT_OP_all_gather:
        party_ranges(call, false, call->axis, ranges);
        gather_take(p, call->whole, p->in, call->axis, ranges, p->out);
        return;
    case GT_OP_all_to_all:
        party_ranges(call, false, call->axis, ranges);
        party_ranges(call, true, call->axis_after, after);
        all_to_all_take(p, ranges, after);
        return;
    default:
        parts_of(p, &flat, ranges);
        if (p->step)
            gather_take(p, &flat, place_of(p, &flat, ranges), 0, ranges, p->out);
        else if (call->op == GT_OP_all_reduce)
            scatter_take(p, &flat, 0, &ranges[call->self], place_of(p, &flat, ranges));
        else
            broadcast_take(p, &flat, ranges);
    }
}

/* ---- memory ------------------------------------------------------------------------------------------------- */

/* Wait for work that the engine has queued. */
static gt_err finish(const host *h, gt_token token)
{
    if (!token)
        return GT_OK;
    gt__late_given(&h->store->worker->late, token);
    return gt__late_wait(h->store->worker, token);
}

/* Memory that only the engine can touch, or that its queue still uses, is copied through the host and not lent. */
static void memory_read(gt_worker *worker, void *object, const gt_completion *done)
{
    (void)worker;
    (void)done;
    free(object);
}

/* Write the result to the engine's memory, at once or by its queue. Takes `memory`, in which `from` lies. */
static gt_err write_result(const host *h, const gt_collective_call *call, uint8_t *memory, const uint8_t *from)
{
    gt_token token = 0;
    gt_err err = h->engine->ops->write(h->engine, call->out->data, from, gt__meta_bytes(&call->out->meta),
                                       call->timed, &token);
    if (err == GT_OK && token && call->token) {
        gt__late_given(&h->store->worker->late, token);
        gt__late_when(h->store->worker, token, memory_read, memory);
        *call->token = token;
        return GT_OK;
    }
    if (err == GT_OK)
        err = finish(h, token);
    free(memory);
    return err;
}

/* Copy the operand to the host, and make room for the result. */
static void stage(passage *p)
{
    const gt_collective_call *call = p->call;
    gt_engine *engine = p->h->engine;
    bool readable = engine->ops->host_memory; /* and complete: peers.c has waited for it */
    size_t in_bytes = call->in && !readable ? gt__meta_bytes(&call->in->meta) : 0;
    uint8_t *memory = p->staged = malloc(in_bytes + gt__meta_bytes(&call->out->meta) + 1);
    gt_err err = memory ? GT_OK : gt__fail(GT_ERR_MEMORY, "out of memory");
    gt_token token = 0;
    if (err == GT_OK && in_bytes)
        err = engine->ops->read(engine, call->in->data, memory, in_bytes, false, &token);
    if (err == GT_OK)
        err = finish(p->h, token);
    if (err != GT_OK)
        fail(p, err);
    p->in = readable && call->in ? call->in->data : memory;
    p->out = memory ? memory + in_bytes : NULL;
}

static void prepare(passage *p, host *h, const gt_collective_call *call)
{
    *p = (passage){.h = h, .call = call, .elements = call->whole->numel};
    if (call->poison)
        fail(p, gt__fail(call->poison->err, "%s", call->poison->text));
    else if (!h->direct)
        stage(p);
    else {
        p->in = call->in ? call->in->data : NULL;
        p->out = call->out->data;
        p->buffer = call->buffer;
        p->out_buffer = call->out_buffer;
    }
}

/* As far as messages have arrived. True: it is over. */
static bool go_on(passage *p)
{
    for (; have_arrived(p); send_step(p)) {
        take_step(p);
        give_back(p);
        if (++p->step > has_parts(p))
            return true;
    }
    return false;
}

/* ---- pieces ------------------------------------------------------------------------------------------------- */

/* A passage, of one piece or several. */
typedef struct in_pieces {
    gt_passage base;
    passage whole;    /* what the pieces have in common, and the first failure */
    gt_origin failed; /* its origin */
    unsigned count;
    bool over[MOST_PIECES];
    passage piece[];
} in_pieces;

/* How many: the same for all parties. Between threads there is one: nothing is on its way. */
static unsigned pieces_of(const host *h, const gt_collective_call *call)
{
    bool may_be = call->op == GT_OP_all_reduce && !h->exchange->ops->by_reference;
    size_t pieces = may_be ? gt__meta_bytes(call->whole) / PIECE : 1;
    return pieces < 2 ? 1 : pieces < MOST_PIECES ? (unsigned)pieces : MOST_PIECES;
}

/* Piece k of `count`, whose first step is sent. */
static void begin(passage *p, const passage *whole, unsigned k, unsigned count)
{
    const gt_meta *meta = whole->call->whole;
    int64_t start = meta->numel * k / count;
    size_t bytes = (size_t)start * gt__dtype_size((gt_dtype)meta->dtype);
    *p = *whole;
    p->staged = NULL;
    p->first = 2 * k;
    p->elements = meta->numel * (k + 1) / count - start;
    if (p->in)
        p->in += bytes;
    if (p->out)
        p->out += bytes;
    send_step(p);
}

/* A piece is over: keep its failure, if it is the first. */
static void note_end(const passage *p, passage *whole, gt_origin *failed)
{
    if (p->err == GT_OK || whole->err != GT_OK)
        return;
    whole->err = p->err;
    memcpy(whole->why, p->why, sizeof whole->why);
    *failed = p->h->exchange->failed;
}

/* All pieces are over. */
static gt_err conclude(passage *whole, const gt_origin *failed)
{
    if (whole->staged && whole->err == GT_OK) {
        gt_err written = write_result(whole->h, whole->call, whole->staged, whole->out);
        if (written != GT_OK)
            fail(whole, written);
    } else
        free(whole->staged);
    if (whole->err == GT_OK)
        return GT_OK;
    whole->h->exchange->failed = *failed;
    return gt__fail(whole->err, "%s", whole->why);
}

/* One piece after the other: also when there is no memory for all of them. */
static gt_err run(gt_collective *collective, const gt_collective_call *call)
{
    enum { LOOK_UP_MS = 100 }; /* *stop may be set */
    host *h = (host *)collective;
    passage whole, p;
    uint64_t seen = 0;
    unsigned count = pieces_of(h, call);
    prepare(&whole, h, call);
    gt_origin failed = h->exchange->failed;
    for (unsigned k = 0; k < count; k++) {
        for (begin(&p, &whole, k, count); !go_on(&p);)
            gt__exchange_wait(h->exchange, &seen, LOOK_UP_MS);
        note_end(&p, &whole, &failed);
    }
    return conclude(&whole, &failed);
}

static bool advance(gt_passage *passage_of, gt_err *err)
{
    in_pieces *all = (in_pieces *)passage_of;
    bool over = true;
    for (unsigned k = 0; k < all->count; k++) {
        if (!all->over[k] && go_on(&all->piece[k])) {
            all->over[k] = true;
            note_end(&all->piece[k], &all->whole, &all->failed);
        }
        over &= all->over[k];
    }
    if (!over)
        return false;
    *err = conclude(&all->whole, &all->failed);
    free(all);
    return true;
}

static void abandon(gt_passage *passage_of)
{
    in_pieces *all = (in_pieces *)passage_of;
    for (unsigned k = 0; k < all->count; k++)
        give_back(&all->piece[k]);
    free(all->whole.staged);
    free(all);
}

static gt_passage *start(gt_collective *collective, const gt_collective_call *call)
{
    host *h = (host *)collective;
    unsigned count = pieces_of(h, call);
    in_pieces *all = malloc(sizeof *all + count * sizeof all->piece[0]);
    if (!all)
        return NULL;
    all->base = (gt_passage){.advance = advance, .abandon = abandon};
    all->count = count;
    memset(all->over, 0, sizeof all->over);
    prepare(&all->whole, h, call);
    all->failed = h->exchange->failed;
    for (unsigned k = 0; k < count; k++)
        begin(&all->piece[k], &all->whole, k, count);
    return &all->base;
}

static void close_host(gt_collective *collective)
{
    host *h = (host *)collective;
    if (h->adder && h->adder != h->engine)
        h->adder->ops->close(h->adder);
    free(h);
}

static const gt_collective_ops host_ops = {.name = "host", .run = run, .start = start, .close = close_host};

gt_err gt__collective_host(gt_exchange *exchange, gt_engine *engine, gt_store *store, gt_collective **collective)
{
    host *h = calloc(1, sizeof *h);
    if (!h)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    *h = (host){.base.ops = &host_ops, .exchange = exchange, .engine = engine, .adder = engine, .store = store};
    h->direct = engine->ops->host_memory && !engine->ops->asynchronous;
    if (!h->direct) {
        gt_engine_options options = {.threads = 1};
        h->adder = NULL;
        gt_err err = gt__engine_cpu.open(&options, &h->adder);
        if (err != GT_OK) {
            close_host(&h->base);
            return err;
        }
    }
    *collective = &h->base;
    return GT_OK;
}

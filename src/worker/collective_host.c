/*
 * collective_host.c: collectives over an exchange, for engines of all kinds.
 *
 * Everything is made of two exchanges of parts, each party with each other, directly:
 *
 *     scatter   everybody gives party k part k, and party k adds up what it gets: reduce_scatter
 *     gather    everybody gives everybody its own part: all_gather; all_to_all gives a part of it
 *
 * and all_reduce is one after the other: every element crosses to another worker 2 (n-1)/n times, which is the
 * least there is, and in two steps where a ring takes 2 (n-1). Sums run in the order of the parties: all workers
 * get the same bits. Between threads (an exchange by reference) the others read a party's memory where it is, and
 * nothing is packed or sent.
 */
#include <stdlib.h>
#include <string.h>

#include "collective.h"

enum {
    SMALL = 16 << 10,         /* bytes: below, everybody adds up everything, which saves a step */
    BLOCK = 32 << 10,         /* elements added up at a time: they stay in the cache */
    LARGE_BROADCAST = 1 << 20 /* bytes: from here on a broadcast is a scatter and a gather */
};

typedef struct host {
    gt_collective base;
    gt_exchange *exchange;
    gt_engine *engine, *adder; /* the adder works on host memory: the engine itself, or the reference one */
    gt_store *store;
} host;

/* A window on some party's part: element (0,...,0) and strides, host memory. */
typedef struct window {
    const uint8_t *data;
    int64_t stride[GT_MAX_RANK];
} window;

void gt__party_part(const gt_collective_call *call, unsigned k, bool after, unsigned axis, int64_t *start,
                    int64_t *count)
{
    int64_t begin = after ? call->party[k].start_after : call->party[k].start, end = call->whole->shape[axis];
    for (unsigned other = 0; other < call->count; other++) {
        int64_t next = after ? call->party[other].start_after : call->party[other].start;
        if (next > begin && next < end)
            end = next;
    }
    *start = begin;
    *count = end - begin;
}

static gt_meta narrowed(const gt_meta *meta, unsigned axis, int64_t count)
{
    gt_meta part = *meta;
    part.numel = meta->shape[axis] ? meta->numel / meta->shape[axis] * count : 0;
    part.shape[axis] = count;
    return part;
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

/* ---- giving and getting ---------------------------------------------------------------------------------------
 * */

/* Tell every other party that we have nothing for it, and why; what they give us is not wanted either. */
static gt_err tell_failure(host *h, const gt_collective_call *call, uint32_t number, gt_err failure,
                           const char *why)
{
    char text[1024];
    strncpy(text, why, sizeof text - 1);
    text[sizeof text - 1] = 0;
    for (unsigned k = 0; k < call->count; k++)
        if (k != call->self)
            GT_TRY(gt__exchange_post_failure(h->exchange, (int32_t)call->party[k].worker, call->tag, number, failure,
                                             text));
    for (unsigned k = 0; k < call->count; k++) {
        gt_message *message;
        if (k == call->self || (call->op == GT_OP_broadcast && number == 0))
            continue;
        if (h->exchange->ops->take(h->exchange, (int32_t)call->party[k].worker, call->tag, number, &message) ==
            GT_OK)
            h->exchange->ops->done(h->exchange, message);
    }
    return gt__fail(failure, "%s", text);
}

/* A large broadcast is a part to each, which they then give each other. */
static bool in_parts(const host *h, const gt_collective_call *call)
{
    return !h->exchange->ops->by_reference && call->count > 2 && gt__meta_bytes(call->whole) >= LARGE_BROADCAST;
}

/* We cannot take part: the others hear of it instead of waiting for us. Who only receives a broadcast takes what the
 * root gives, as it was posted, and fails when it is its turn to give. */
static gt_err refuse(host *h, const gt_collective_call *call, gt_err failure, const char *why)
{
    char text[1024];
    gt_message *message;
    if (call->op != GT_OP_broadcast || call->self == 0)
        return tell_failure(h, call, 0, failure, why);
    strncpy(text, why, sizeof text - 1);
    text[sizeof text - 1] = 0;
    GT_TRY(h->exchange->ops->take(h->exchange, (int32_t)call->party[0].worker, call->tag, 0, &message));
    gt_err first = message->err != GT_OK ? gt__exchange_failure(h->exchange, message) : GT_OK;
    h->exchange->ops->done(h->exchange, message);
    if (first != GT_OK || !in_parts(h, call))
        return first != GT_OK ? first : gt__fail(failure, "%s", text);
    return tell_failure(h, call, 1, failure, text);
}

/* Lend a contiguous tensor to party k. */
static gt_err lend(host *h, const gt_collective_call *call, unsigned k, uint32_t number, const void *data,
                   size_t bytes, gt_buffer *buffer)
{
    if (buffer)
        buffer->references++;
    gt_err err = h->exchange->ops->post(h->exchange, (int32_t)call->party[k].worker, call->tag, number, GT_OK,
                                        data, bytes, buffer);
    if (err != GT_OK && buffer)
        buffer->references--;
    return err;
}

/* Give party k the elements start..start+count along an axis of a contiguous tensor: the tensor itself, if that is
 * read where it is, else a packed copy. */
static gt_err give(host *h, const gt_collective_call *call, unsigned k, uint32_t number, const gt_meta *meta,
                   const void *data, gt_buffer *buffer, unsigned axis, int64_t start, int64_t count)
{
    gt_meta part = narrowed(meta, axis, count);
    window w = window_at(meta, data, axis, start);
    int64_t packed[GT_MAX_RANK];
    if (h->exchange->ops->by_reference)
        return lend(h, call, k, number, data, gt__meta_bytes(meta), buffer);
    row_major(&part, packed);
    bool whole_rows = memcmp(packed, w.stride, part.rank * sizeof packed[0]) == 0 || axis == 0;
    if (whole_rows)
        return lend(h, call, k, number, w.data, gt__meta_bytes(&part), buffer);
    uint8_t *bytes = malloc(gt__meta_bytes(&part) + 1);
    if (!bytes)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    copy_box(&part, &w, bytes, packed);
    gt_err err = lend(h, call, k, number, bytes, gt__meta_bytes(&part), NULL);
    free(bytes);
    return err;
}

/* What party k gave of its tensor `meta`: those elements, wherever they are. */
static gt_err get(host *h, const gt_collective_call *call, unsigned k, uint32_t number, const gt_meta *meta,
                  unsigned axis, int64_t start, int64_t count, gt_message **message, window *w)
{
    gt_meta part = narrowed(meta, axis, count);
    bool reference = h->exchange->ops->by_reference;
    GT_TRY(h->exchange->ops->take(h->exchange, (int32_t)call->party[k].worker, call->tag, number, message));
    if ((*message)->err != GT_OK)
        return gt__exchange_failure(h->exchange, *message);
    if ((*message)->bytes != gt__meta_bytes(reference ? meta : &part))
        return gt__fail(GT_ERR_PROTOCOL, "a part of %zu bytes came where %zu were expected", (*message)->bytes,
                        gt__meta_bytes(&part));
    *w = reference ? window_at(meta, (*message)->data, axis, start) : window_at(&part, (*message)->data, axis, 0);
    return GT_OK;
}

static void give_back(host *h, gt_message **messages, unsigned count)
{
    for (unsigned k = 0; k < count; k++)
        if (messages[k])
            h->exchange->ops->done(h->exchange, messages[k]);
}

/* ---- adding up ------------------------------------------------------------------------------------------------
 * */

static gt_err add(host *h, const gt_view *a, const gt_view *b, const gt_view *out)
{
    gt_instruction ins = {.op = GT_OP_add};
    const gt_view *in[] = {a, b};
    gt_call call = {
        .op = GT_OP_add, .compute = (gt_dtype)out->meta.dtype, .ins = &ins, .operands = 2, .in = in, .out = out};
    return h->adder->ops->run(h->adder, &call);
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
    uint8_t *memory = malloc(2 * (size_t)block * size + 64);
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
    free(memory);
    return err;
}

/* ---- the two steps --------------------------------------------------------------------------------------------
 * */

/* A party's elements along an axis. */
typedef struct range {
    int64_t start, count;
} range;

/* Add up our own range of everybody's tensors into `to`, contiguous. *alone: the failure is ours, nobody else
 * knows. */
static gt_err scatter_step(host *h, const gt_collective_call *call, const gt_meta *meta, const void *data,
                           unsigned axis, const range *ranges, uint8_t *to, bool *alone)
{
    const uint32_t number = 0;
    gt_message *messages[GT_MAX_PARTIES] = {NULL};
    window windows[GT_MAX_PARTIES];
    const range *own = &ranges[call->self];
    gt_err err = GT_OK;
    for (unsigned k = 0; k < call->count && err == GT_OK; k++)
        if (k != call->self)
            err = give(h, call, k, number, meta, data, call->buffer, axis, ranges[k].start, ranges[k].count);
    for (unsigned k = 0; k < call->count;
         k++) { /* all of them, even if one failed: they are waiting to be taken */
        gt_err got = GT_OK;
        if (k == call->self)
            windows[k] = window_at(meta, data, axis, own->start);
        else
            got = get(h, call, k, number, meta, axis, own->start, own->count, &messages[k], &windows[k]);
        err = err == GT_OK ? got : err;
    }
    gt_meta part = narrowed(meta, axis, own->count);
    *alone = err == GT_OK;
    if (err == GT_OK)
        err = add_up(h, &part, windows, call->count, to);
    give_back(h, messages, call->count);
    return err;
}

/* Copy everybody's range along an axis of `meta` into the whole at `to`; ours, at `data`, is a tensor of its own.
 * */
static gt_err gather_step(host *h, const gt_collective_call *call, const gt_meta *meta, const void *data,
                          gt_buffer *buffer, unsigned axis, const range *ranges, uint32_t number, uint8_t *to)
{
    gt_meta own = narrowed(meta, axis, ranges[call->self].count);
    gt_err err = GT_OK;
    int64_t stride[GT_MAX_RANK];
    row_major(meta, stride);
    for (unsigned k = 0; k < call->count && err == GT_OK; k++)
        if (k != call->self)
            err = lend(h, call, k, number, data, gt__meta_bytes(&own), buffer);
    for (unsigned k = 0; k < call->count; k++) {
        gt_meta part = narrowed(meta, axis, ranges[k].count);
        gt_message *message = NULL;
        gt_err got = GT_OK;
        window w = window_at(&part, data, axis, 0);
        uint8_t *place = to + ranges[k].start * stride[axis] * (int64_t)gt__dtype_size((gt_dtype)meta->dtype);
        if (k != call->self)
            got = get(h, call, k, number, &part, axis, 0, part.shape[axis], &message, &w);
        if (got == GT_OK && place != w.data)
            copy_box(&part, &w, place, stride);
        give_back(h, &message, 1);
        err = err == GT_OK ? got : err;
    }
    return err;
}

/* ---- the collectives ------------------------------------------------------------------------------------------
 * */

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

static gt_err all_reduce(host *h, const gt_collective_call *call, const uint8_t *in, uint8_t *out)
{
    range ranges[GT_MAX_PARTIES];
    gt_meta flat = *call->whole;
    flat.rank = 1;
    flat.shape[0] = flat.numel;
    bool alone = false;
    if (gt__meta_bytes(&flat) <= SMALL) {
        for (unsigned k = 0; k < call->count; k++)
            ranges[k] = (range){.start = 0, .count = flat.numel};
        return scatter_step(h, call, &flat, in, 0, ranges, out, &alone);
    }
    even_ranges(flat.numel, call->count, ranges);
    uint8_t *own = out + (size_t)ranges[call->self].start * gt__dtype_size((gt_dtype)flat.dtype);
    gt_err err = scatter_step(h, call, &flat, in, 0, ranges, own, &alone);
    if (err != GT_OK)
        return alone ? tell_failure(h, call, 1, err, gt_error_text()) : err;
    return gather_step(h, call, &flat, own, call->out_buffer, 0, ranges, 1, out);
}

/* Ours is split along one axis, and the result along another: of each party's part, our range. */
static gt_err all_to_all(host *h, const gt_collective_call *call, const uint8_t *in, uint8_t *out)
{
    range before[GT_MAX_PARTIES], after[GT_MAX_PARTIES];
    party_ranges(call, false, call->axis, before);
    party_ranges(call, true, call->axis_after, after);
    gt_meta own = narrowed(call->whole, call->axis, before[call->self].count);
    gt_meta result = narrowed(call->whole, call->axis_after, after[call->self].count);
    int64_t stride[GT_MAX_RANK], size = (int64_t)gt__dtype_size((gt_dtype)own.dtype);
    row_major(&result, stride);
    gt_err err = GT_OK;
    for (unsigned k = 0; k < call->count && err == GT_OK; k++)
        if (k != call->self)
            err = give(h, call, k, 0, &own, in, call->buffer, call->axis_after, after[k].start, after[k].count);
    for (unsigned k = 0; k < call->count; k++) {
        gt_meta part = narrowed(call->whole, call->axis, before[k].count);
        gt_message *message = NULL;
        gt_err got = GT_OK;
        window w = window_at(&own, in, call->axis_after, after[k].start);
        if (k != call->self)
            got = get(h, call, k, 0, &part, call->axis_after, after[call->self].start, after[call->self].count,
                      &message, &w);
        gt_meta box = narrowed(&part, call->axis_after, after[call->self].count);
        if (got == GT_OK)
            copy_box(&box, &w, out + before[k].start * stride[call->axis] * size, stride);
        give_back(h, &message, 1);
        err = err == GT_OK ? got : err;
    }
    return err;
}

/* Party 0 gives its tensor to all: as it is, or a part to each, which they then give each other. */
static gt_err broadcast(host *h, const gt_collective_call *call, const uint8_t *in, uint8_t *out)
{
    gt_meta flat = *call->whole;
    flat.rank = 1;
    flat.shape[0] = flat.numel;
    size_t bytes = gt__meta_bytes(&flat), size = gt__dtype_size((gt_dtype)flat.dtype);
    bool parts = in_parts(h, call);
    range ranges[GT_MAX_PARTIES];
    even_ranges(flat.numel, call->count, ranges);
    gt_message *message = NULL;
    window w;
    if (call->self == 0) {
        for (unsigned k = 1; k < call->count; k++)
            GT_TRY(give(h, call, k, 0, &flat, in, call->buffer, 0, parts ? ranges[k].start : 0,
                        parts ? ranges[k].count : flat.numel));
        memcpy(out, in, bytes);
    } else {
        const range *own = &ranges[call->self];
        int64_t start = parts ? own->start : 0, count = parts ? own->count : flat.numel;
        gt_err err = get(h, call, 0, 0, &flat, 0, start, count, &message, &w);
        if (err == GT_OK)
            memcpy(out + (size_t)start * size, w.data, (size_t)count * size);
        give_back(h, &message, 1);
        GT_TRY(err);
    }
    if (!parts)
        return GT_OK;
    return gather_step(h, call, &flat, out + (size_t)ranges[call->self].start * size, call->out_buffer, 0, ranges,
                       1, out);
}

static gt_err run_on_host(host *h, const gt_collective_call *call, const uint8_t *in, uint8_t *out)
{
    range ranges[GT_MAX_PARTIES];
    bool alone;
    switch (call->op) {
    case GT_OP_all_reduce:
        return all_reduce(h, call, in, out);
    case GT_OP_reduce_scatter:
        party_ranges(call, true, call->axis_after, ranges);
        return scatter_step(h, call, call->whole, in, call->axis_after, ranges, out, &alone);
    case GT_OP_all_gather:
        party_ranges(call, false, call->axis, ranges);
        return gather_step(h, call, call->whole, in, call->buffer, call->axis, ranges, 0, out);
    case GT_OP_all_to_all:
        return all_to_all(h, call, in, out);
    default:
        return broadcast(h, call, in, out);
    }
}

/* Memory that only the engine can touch goes through the host, and nothing of it is lent. */
static gt_err run_staged(host *h, const gt_collective_call *call)
{
    size_t in_bytes = call->in ? gt__meta_bytes(&call->in->meta) : 0, out_bytes = gt__meta_bytes(&call->out->meta);
    uint8_t *memory = malloc(in_bytes + out_bytes + 64);
    gt_err err = memory ? GT_OK : gt__fail(GT_ERR_MEMORY, "out of memory");
    if (err == GT_OK && call->in)
        err = h->engine->ops->read(h->engine, call->in->data, memory, in_bytes);
    if (err != GT_OK) {
        free(memory);
        return refuse(h, call, err, gt_error_text());
    }
    gt_collective_call staged = *call;
    staged.buffer = staged.out_buffer = NULL;
    err = run_on_host(h, &staged, memory, memory + in_bytes);
    if (err == GT_OK)
        err = h->engine->ops->write(h->engine, call->out->data, memory + in_bytes, out_bytes);
    free(memory);
    return err;
}

static gt_err run(gt_collective *collective, const gt_collective_call *call)
{
    host *h = (host *)collective;
    if (call->poison)
        return refuse(h, call, call->poison->err, call->poison->text);
    if (!h->engine->ops->host_memory)
        return run_staged(h, call);
    return run_on_host(h, call, call->in ? call->in->data : NULL, call->out->data);
}

static void close_host(gt_collective *collective)
{
    host *h = (host *)collective;
    if (h->adder && h->adder != h->engine)
        h->adder->ops->close(h->adder);
    free(h);
}

static const gt_collective_ops host_ops = {.name = "host", .run = run, .close = close_host};

gt_err gt__collective_host(gt_exchange *exchange, gt_engine *engine, gt_store *store, gt_collective **collective)
{
    host *h = calloc(1, sizeof *h);
    if (!h)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    *h = (host){.base.ops = &host_ops, .exchange = exchange, .engine = engine, .adder = engine, .store = store};
    if (!engine->ops->host_memory) {
        gt_engine_options options = {.threads = 1};
        h->adder = NULL;
        gt_err err = gt__engine_reference.open(&options, &h->adder);
        if (err != GT_OK) {
            close_host(&h->base);
            return err;
        }
    }
    *collective = &h->base;
    return GT_OK;
}

/*
 * batch.c: chains that are not recorded wait for others with the same kernel and become one launch. An optimizer updates a hundred
 * parameters by as many short sequences; a launch for each costs the host more than the card needs for it.
 *
 * At most one launch waits. It is queued before anything else goes to the stream, before the stream is told to write numbers (so
 * before every wait), when it has no room for the next chain, and when it is enough work for the card. A chain joins only if no chain in it
 * writes what another one uses. By then the tokens of most of its calls are given, so if it cannot be queued, they fail by completions.
 */
#include <stdlib.h>
#include <string.h>

#include "engines/cuda/cuda.h"

enum {
    SPANS = GT_CUDA_PARAM_MAX / sizeof(uint64_t), /* a table has a word for each */
    ENOUGH = 1 << 15, /* blocks: 0.2 to 0.5 ms of work for a large card, more than the host takes to add them */
};

struct gt_cuda_batch {
    CUfunction function;                        /* NULL: no launch waits */
    gt_chain_span span[SPANS + GT_CHAIN_SPANS]; /* apart from each other, sorted */
    unsigned spans;
    gt_cuda_launch launch;
    gt_token token[SPANS]; /* of the calls whose chains it has: those that they were to get */
    unsigned tokens;
    gt_token before; /* last work before the call that added the last chain */
};

/* The first span that ends behind an address. */
static unsigned find_span(const gt_cuda_batch *batch, uint64_t address)
{
    unsigned low = 0, high = batch->spans;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (batch->span[middle].end > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static bool interferes(const gt_cuda_batch *batch, const gt_chain_span *s)
{
    for (unsigned k = find_span(batch, s->start); k < batch->spans && batch->span[k].start < s->end; k++)
        if (s->written || batch->span[k].written)
            return true;
    return false;
}

/* Spans that overlap become one, which is written if one of them is. */
static void add_span(gt_cuda_batch *batch, const gt_chain_span *s)
{
    unsigned first = find_span(batch, s->start), last = first;
    gt_chain_span whole = *s;
    for (; last < batch->spans && batch->span[last].start < s->end; last++) {
        const gt_chain_span *other = &batch->span[last];
        whole.start = other->start < whole.start ? other->start : whole.start;
        whole.end = other->end > whole.end ? other->end : whole.end;
        whole.written |= other->written;
    }
    memmove(batch->span + first + 1, batch->span + last, (batch->spans - last) * sizeof *batch->span);
    batch->span[first] = whole;
    batch->spans = batch->spans - (last - first) + 1;
}

/* The launch has failed, with the text of gt_error_text. Most of the calls are over; the last one may be running still. */
static gt_err fail_calls(gt_cuda *cuda, const gt_cuda_batch *batch, gt_err err)
{
    bool running = cuda->given <= batch->before;
    for (unsigned k = 0; k + running < batch->tokens; k++)
        GT_TRY(gt__cuda_item_failed_later(cuda, batch->token[k], err));
    return running ? gt__cuda_item_failed(cuda, 0, err) : GT_OK;
}

void gt__cuda_batch_launch(gt_cuda *cuda)
{
    gt_cuda_batch *batch = cuda->batch;
    CUfunction function = batch->function;
    cuda->batch_waits = false;
    batch->function = NULL;
    gt_err err = gt__cuda_launch_now(cuda, function, &batch->launch);
    if (err != GT_OK && !cuda->broken && fail_calls(cuda, batch, err) != GT_OK)
        gt__cuda_queue_break(cuda, gt_error_text());
}

static bool join(gt_cuda_batch *batch, const gt_cuda_chain *chain, void *const *buffer, const gt_chain_span *spans,
                 unsigned count)
{
    if (memcmp(&batch->launch.key, &chain->key, sizeof chain->key) != 0 || batch->spans + count > SPANS)
        return false;
    for (unsigned k = 0; k < count; k++)
        if (interferes(batch, &spans[k]))
            return false;
    return gt__cuda_chain_append(chain, buffer, &batch->launch);
}

/* A launch of this chain alone, which waits. */
static gt_err begin(gt_cuda *cuda, gt_cuda_batch *batch, const gt_cuda_part *part, void *const *buffer)
{
    gt__cuda_launching(cuda);
    GT_TRY(gt__cuda_lower_chains(part, 1, buffer, &cuda->work));
    GT_TRY(gt__cuda_kernel(cuda, &cuda->work.launch[0], &batch->function));
    batch->launch = cuda->work.launch[0];
    batch->spans = batch->tokens = 0;
    cuda->batch_waits = true;
    return GT_OK;
}

/* The running call has a chain in the launch that waits. It gets the next number, unless other work of the call comes first, and then the
 * launch is queued before that. */
static void note_call(gt_cuda *cuda, gt_cuda_batch *batch)
{
    gt_token token = cuda->last + 1;
    batch->before = cuda->running.before;
    if (batch->tokens && batch->token[batch->tokens - 1] == token)
        return;
    batch->token[batch->tokens++] = token;
}

/* Add a chain to the launch that waits, or have it begin one. *blocks: of this chain. */
static gt_err add(gt_cuda *cuda, const gt_cuda_part *part, void *const *buffer, uint32_t *blocks)
{
    gt_chain_span spans[GT_CHAIN_SPANS];
    unsigned count = gt__cuda_chain_spans(part->chain, buffer, spans);
    if (!cuda->batch && !(cuda->batch = calloc(1, sizeof *cuda->batch)))
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    uint32_t before = cuda->batch->launch.grid[0];
    if (!cuda->batch_waits || !join(cuda->batch, part->chain, buffer, spans, count)) {
        GT_TRY(begin(cuda, cuda->batch, part, buffer));
        before = 0;
    }
    for (unsigned k = 0; k < count; k++)
        add_span(cuda->batch, &spans[k]);
    note_call(cuda, cuda->batch);
    *blocks = cuda->batch->launch.grid[0] - before;
    return GT_OK;
}

static gt_err state_of(const gt_cuda *cuda)
{
    return cuda->broken ? gt__fail(GT_ERR_INTERNAL, "%s", cuda->broken_text) : GT_OK;
}

gt_err gt__cuda_batch_add(gt_cuda *cuda, const gt_cuda_part *part, void *const *buffer)
{
    uint32_t blocks;
    GT_TRY(add(cuda, part, buffer, &blocks));
    if (cuda->batch->launch.grid[0] >= ENOUGH)
        gt__cuda_batch_launch(cuda);
    return state_of(cuda);
}

gt_err gt__cuda_batch_add_timed(gt_cuda *cuda, const gt_cuda_part *part, void *const *buffer)
{
    uint32_t blocks;
    gt_err err = GT_OK;
    GT_TRY(gt__cuda_clock_set(cuda)); /* not later: it waits for what was queued */
    GT_TRY(add(cuda, part, buffer, &blocks));
    cuda->running.part = (double)blocks / cuda->batch->launch.grid[0];
    if (!cuda->running.start) { /* it joined a launch that waits, and still does when the mark is queued */
        cuda->batch_waits = false;
        err = gt__cuda_mark_here(cuda, &cuda->running.start);
    }
    gt__cuda_batch_launch(cuda);
    return err == GT_OK ? state_of(cuda) : err;
}

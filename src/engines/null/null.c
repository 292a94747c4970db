/*
 * null.c: an engine that computes nothing: memory is a placeholder, and all reads return zeros. benchmarks/ measures
 * the cost of the stream itself with it.
 */
#include <stdlib.h>
#include <string.h>

#include "engines/engine.h"
#include "engines/host_memory.h"

enum { ALIGNMENT = 64 };

static gt_err open_null(const gt_engine_options *options, gt_engine **engine)
{
    (void)options;
    *engine = calloc(1, sizeof **engine);
    if (!*engine)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    (*engine)->ops = &gt__engine_null;
    return GT_OK;
}

static void close_null(gt_engine *engine)
{
    free(engine);
}

/* The machine's memory: tensors of this engine take none. */
static uint64_t memory_limit(gt_engine *engine, unsigned sharers)
{
    (void)engine;
    (void)sharers;
    return gt__memory_limit(1);
}

/* A placeholder: its contents are never read. */
static gt_err allocate(gt_engine *engine, size_t bytes, void **memory)
{
    (void)engine;
    (void)bytes;
    *memory = aligned_alloc(ALIGNMENT, ALIGNMENT);
    return *memory ? GT_OK : gt__fail(GT_ERR_MEMORY, "the system has no memory for it");
}

static void release(gt_engine *engine, void *memory, size_t bytes)
{
    (void)engine;
    (void)bytes;
    free(memory);
}

static gt_err write_nothing(gt_engine *engine, void *to, const void *host, size_t bytes, bool timed,
                            gt_token *token)
{
    (void)timed;
    (void)token;
    (void)engine;
    (void)to;
    (void)host;
    (void)bytes;
    return GT_OK;
}

static gt_err read_zeros(gt_engine *engine, const void *from, void *host, size_t bytes, bool timed,
                         gt_token *token)
{
    (void)timed;
    (void)token;
    (void)engine;
    (void)from;
    memset(host, 0, bytes);
    return GT_OK;
}

static gt_err run(gt_engine *engine, const gt_call *call, gt_token *token)
{
    (void)token;
    (void)engine;
    (void)call;
    return GT_OK;
}

const gt_engine_ops gt__engine_null = {
    .name = "null",
    .host_memory = false,
    .open = open_null,
    .close = close_null,
    .memory_limit = memory_limit,
    .alloc = allocate,
    .release = release,
    .write = write_nothing,
    .read = read_zeros,
    .run = run,
};

/*
 * counting.c: an engine as a plug-in, complete: it lets the cpu engine do everything and counts the calls of each op.
 *
 *     GT_ENGINE_PATH=build/examples/engines GT_BACKEND=counting GT_VERBOSE=1 python your_script.py
 *
 * prints the counts when the worker ends: "[gt] counting: add 3, matmul 1". docs/engines.md walks through it. Outside
 * of this tree's build:
 *
 *     cc -shared -fPIC -D_GNU_SOURCE -Iinclude -Isrc -Ibuild/include counting.c \
 *         build/libgt_plugin_core.a -lm -Wl,--exclude-libs,ALL -o gt-engine-counting.so
 */
#include <stdio.h>
#include <stdlib.h>

#include "engines/plugin.h"

typedef struct counting {
    gt_engine engine; /* first: a gt_engine * of this engine is a counting * */
    gt_engine *cpu;
    uint64_t calls[GT_OP_COUNT];
} counting;

static const gt_engine_ops engine_counting;

static gt_engine *cpu_of(gt_engine *engine)
{
    return ((counting *)engine)->cpu;
}

/* ---- opening and closing ------------------------------------------------------------------------------------- */

static gt_err counting_open(const gt_engine_options *options, gt_engine **engine)
{
    const gt_engine_ops *cpu;
    GT_TRY(gt__engine_find("cpu", &cpu));
    counting *c = calloc(1, sizeof *c);
    if (!c)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    c->engine.ops = &engine_counting;
    gt_err err = cpu->open(options, &c->cpu);
    if (err) {
        free(c);
        return err;
    }
    *engine = &c->engine;
    return GT_OK;
}

/* "add 3, matmul 1", as much of it as fits. */
static void print_counts(const counting *c)
{
    char line[900] = "";
    size_t length = 0;
    for (unsigned op = 0; op < GT_OP_COUNT && length < sizeof line; op++)
        if (c->calls[op])
            length += (size_t)snprintf(line + length, sizeof line - length, "%s%s %llu", length ? ", " : "",
                                       gt__op_table[op].name, (unsigned long long)c->calls[op]);
    gt__log(GT_LOG_STATUS, "counting: %s", length ? line : "nothing");
}

static void counting_close(gt_engine *engine)
{
    if (!engine)
        return;
    print_counts((counting *)engine);
    cpu_of(engine)->ops->close(cpu_of(engine));
    free(engine);
}

/* ---- memory -------------------------------------------------------------------------------------------------- */

static uint64_t counting_memory_limit(gt_engine *engine, unsigned sharers)
{
    return cpu_of(engine)->ops->memory_limit(cpu_of(engine), sharers);
}

static gt_err counting_alloc(gt_engine *engine, size_t bytes, void **memory)
{
    return cpu_of(engine)->ops->alloc(cpu_of(engine), bytes, memory);
}

static void counting_release(gt_engine *engine, void *memory, size_t bytes)
{
    cpu_of(engine)->ops->release(cpu_of(engine), memory, bytes);
}

static gt_err counting_write(gt_engine *engine, void *to, const void *host, size_t bytes, bool timed,
                             gt_token *token)
{
    return cpu_of(engine)->ops->write(cpu_of(engine), to, host, bytes, timed, token);
}

static gt_err counting_read(gt_engine *engine, const void *from, void *host, size_t bytes, bool timed,
                            gt_token *token)
{
    return cpu_of(engine)->ops->read(cpu_of(engine), from, host, bytes, timed, token);
}

/* ---- computing ----------------------------------------------------------------------------------------------- */

static gt_err counting_run(gt_engine *engine, const gt_call *call, gt_token *token)
{
    ((counting *)engine)->calls[call->op]++;
    return cpu_of(engine)->ops->run(cpu_of(engine), call, token);
}

static const gt_engine_ops engine_counting = {
    .name = "counting",
    .host_memory = true,
    .open = counting_open,
    .close = counting_close,
    .memory_limit = counting_memory_limit,
    .alloc = counting_alloc,
    .release = counting_release,
    .write = counting_write,
    .read = counting_read,
    .run = counting_run,
};

GT_ENGINE_PLUGIN(engine_counting);

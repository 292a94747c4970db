/* cuda_calls.h: vectors on the CUDA engine, for its tests. */
#ifndef GT_TESTS_CUDA_CALLS_H
#define GT_TESTS_CUDA_CALLS_H

#include <dlfcn.h>

#include <string.h>

#include "check.h"
#include "engine_calls.h"

enum { SIZE = 1000, BYTES = SIZE * (int)sizeof(float) };

/* How often the fake driver was called; of a real one, 0. */
static inline uint64_t driver_calls(void)
{
    uint64_t (*calls)(void) = NULL;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library)
        *(void **)&calls = dlsym(library, "fake_driver_calls");
    return calls ? calls() : 0;
}

static inline gt_view vector(void *data)
{
    return vector_view(data, GT_FLOAT32, SIZE);
}

static inline gt_token put(gt_engine *engine, void *to, const void *host, size_t bytes)
{
    gt_token token = 0;
    CHECK_EQ(engine->ops->write(engine, to, host, bytes, false, &token), GT_OK);
    return token;
}

static inline void *filled(gt_engine *engine, float number)
{
    float host[SIZE];
    void *memory = take_memory(engine, BYTES);
    for (int k = 0; k < SIZE; k++)
        host[k] = number;
    put(engine, memory, host, BYTES);
    /* Not pinned, so it was copied already: it may change now. */
    memset(host, 0, sizeof host);
    return memory;
}

static inline gt_token add_number(gt_engine *engine, void *out, void *a, double number, bool timed)
{
    vector_call c;
    gt_token token = 0;
    vector_call_literal(&c, GT_OP_add, vector(out), vector(a), number);
    c.call.timed = timed;
    CHECK_EQ(engine->ops->run(engine, &c.call, &token), GT_OK);
    memset(&c, 0xee, sizeof c);
    return token;
}

static inline void wait_for(gt_engine *engine, gt_token token)
{
    for (gt_completion c = {0}; c.token < token;) {
        if (!CHECK(engine->ops->completed(engine, true, &c)))
            return;
        CHECK_EQ(c.err, GT_OK);
    }
}

static inline void get(gt_engine *engine, const void *from, void *host, size_t bytes)
{
    gt_token token = 0;
    CHECK_EQ(engine->ops->read(engine, from, host, bytes, false, &token), GT_OK);
    wait_for(engine, token);
}

static inline void check_vector(gt_engine *engine, const void *from, float number)
{
    float host[SIZE];
    get(engine, from, host, BYTES);
    for (int k = 0; k < SIZE; k++)
        if (!CHECK(host[k] == number))
            return;
}

#endif

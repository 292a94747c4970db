/* engine_calls.h: calls on vectors of float32, written out by hand. For test_late.c and test_far.c. */
#ifndef GT_TESTS_ENGINE_CALLS_H
#define GT_TESTS_ENGINE_CALLS_H

#include <stdlib.h>

#include "check.h"
#include "engines/engine.h"

/* A call with everything it points to. */
typedef struct vector_call {
    gt_call call;
    gt_instruction ins;
    gt_slot tail[4];
    gt_view in[GT_MAX_OPERANDS], out;
    const gt_view *views[GT_MAX_OPERANDS];
} vector_call;

static inline gt_view vector_view(void *data, gt_dtype dtype, int64_t size)
{
    return (gt_view){.data = data,
                     .contiguous = true,
                     .meta = {.numel = size, .dtype = (uint8_t)dtype, .rank = 1, .shape = {size}},
                     .stride = {1}};
}

/* Memory of the engine; NULL if it has none. */
static inline void *take_memory(gt_engine *engine, size_t bytes)
{
    void *memory;
    return engine->ops->alloc(engine, bytes, &memory) == GT_OK ? memory : NULL;
}

/* out = op(in[0], in[1]); points into *c */
static inline void vector_call_set(vector_call *c, gt_opcode op, gt_view out, gt_view a, gt_view b)
{
    *c = (vector_call){.ins = {.op = (uint16_t)op}, .in = {a, b}, .out = out};
    c->views[0] = &c->in[0];
    c->views[1] = &c->in[1];
    c->call = (gt_call){.op = op,
                        .compute = GT_FLOAT32,
                        .ins = &c->ins,
                        .tail = c->tail,
                        .operands = 2,
                        .in = c->views,
                        .out = &c->out};
}

/* out = op(a, number) */
static inline void vector_call_literal(vector_call *c, gt_opcode op, gt_view out, gt_view a, double number)
{
    gt_view literal = {.contiguous = true, .meta = {.numel = 1, .dtype = GT_FLOAT64}};
    vector_call_set(c, op, out, a, literal);
    c->ins.literals = GT_LITERAL_FLOAT << 2;
    c->ins.literal[1].f = number;
    c->call.literals = 1 << 1;
    c->call.value[1].f = number;
}

/* Opened, or NULL and the test has failed. */
static inline gt_engine *open_engine(const char *name)
{
    const gt_engine_ops *ops;
    gt_engine *engine = NULL;
    if (!CHECK_EQ(gt__engine_find(name, &ops), GT_OK) ||
        !CHECK_EQ(ops->open(&(gt_engine_options){.threads = 1}, &engine), GT_OK)) {
        fprintf(stderr, "%s\n", gt_error_text());
        return NULL;
    }
    return engine;
}

#endif

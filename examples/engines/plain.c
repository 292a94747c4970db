/*
 * plain.c: a complete engine for docs/engines.md. It computes a few ops on float32 with loops of its own and leaves all
 * others to GT's reference engine, which it counts for the statistics.
 *
 *     GT_ENGINE_PATH=build/examples/engines GT_BACKEND=plain python your_script.py
 */
#include <stdlib.h>
#include <string.h>

#include "engines/plugin.h"

typedef struct plain {
    gt_engine engine; /* first: a gt_engine * of this engine is a plain * */
    gt_engine *reference;
    uint32_t host_calls[GT_OP_COUNT];
} plain;

static const gt_engine_ops engine_plain;

static plain *plain_of(gt_engine *engine)
{
    return (plain *)engine;
}

static gt_err plain_open(const gt_engine_options *options, gt_engine **engine)
{
    gt_engine_options inner = *options;
    GT_TRY(gt__engine_find("reference", &inner.ops));
    plain *made = calloc(1, sizeof *made);
    if (!made)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    made->engine.ops = &engine_plain;
    gt_err err = inner.ops->open(&inner, &made->reference);
    if (err) {
        free(made);
        return err;
    }
    *engine = &made->engine;
    return GT_OK;
}

static void plain_close(gt_engine *engine)
{
    plain_of(engine)->reference->ops->close(plain_of(engine)->reference);
    free(engine);
}

/* ---- memory: the host's -------------------------------------------------------------------------------------- */

static uint64_t plain_memory_limit(gt_engine *engine, unsigned sharers)
{
    gt_engine *reference = plain_of(engine)->reference;
    return reference->ops->memory_limit(reference, sharers);
}

static gt_err plain_alloc(gt_engine *engine, size_t bytes, void **memory)
{
    (void)engine;
    *memory = aligned_alloc(64, bytes / 64 * 64 + 64);
    return *memory ? GT_OK : gt__fail(GT_ERR_MEMORY, "the system has no memory for it");
}

static void plain_release(gt_engine *engine, void *memory, size_t bytes)
{
    (void)engine;
    (void)bytes;
    free(memory);
}

static gt_err plain_write(gt_engine *engine, void *to, const void *host, size_t bytes, bool timed, gt_token *token)
{
    (void)engine;
    (void)timed;
    (void)token; /* 0: it is done */
    if (bytes)
        memcpy(to, host, bytes);
    return GT_OK;
}

static gt_err plain_read(gt_engine *engine, const void *from, void *host, size_t bytes, bool timed,
                         gt_token *token)
{
    return plain_write(engine, host, from, bytes, timed, token);
}

/* ---- arithmetic ---------------------------------------------------------------------------------------------- */

/* Operand k as n contiguous floats, or as one that is repeated; NULL: neither. */
static const float *floats(const gt_call *call, unsigned k, int64_t n, float *number, int64_t *step)
{
    const gt_view *in = call->in[k];
    *step = in->meta.numel == n;
    if (call->literals >> k & 1) { /* a number in the instruction */
        if (in->meta.dtype == GT_BOOL)
            return NULL;
        *number = in->meta.dtype == GT_INT64 ? (float)call->value[k].i : (float)call->value[k].f;
        *step = 0;
        return number;
    }
    return in->meta.dtype == GT_FLOAT32 && in->contiguous && (in->meta.numel == n || in->meta.numel == 1)
               ? in->data
               : NULL;
}

static bool run_elementwise(const gt_call *call)
{
    int64_t n = call->out->meta.numel, x_step = 0, y_step = 0;
    float x_number, y_number = 0, *out = call->out->data;
    const float *x = floats(call, 0, n, &x_number, &x_step), *y = &y_number;
    if (call->operands == 2)
        y = floats(call, 1, n, &y_number, &y_step);
    if (!x || !y || call->compute != GT_FLOAT32 || call->out->meta.dtype != GT_FLOAT32)
        return false;
#define LOOP(expression)                                                                                          \
    for (int64_t k = 0; k < n; k++) {                                                                             \
        float a = x[k * x_step], b = y[k * y_step];                                                               \
        (void)b;                                                                                                  \
        out[k] = (expression);                                                                                    \
    }                                                                                                             \
    return true
    switch ((unsigned)call->op) {
    case GT_OP_add:
        LOOP(a + b);
    case GT_OP_sub:
        LOOP(a - b);
    case GT_OP_mul:
        LOOP(a * b);
    case GT_OP_div:
        LOOP(a / b);
    case GT_OP_relu:
        LOOP(a <= 0 ? 0 : a);
    default:
        return false;
    }
#undef LOOP
}

/* out (N, M) = a (N, K) @ b (K, M), with any strides */
static bool run_matmul(const gt_call *call)
{
    const gt_view *a = call->in[0], *b = call->in[1];
    if (a->meta.rank != 2 || b->meta.rank != 2 || a->meta.dtype != GT_FLOAT32 || b->meta.dtype != GT_FLOAT32)
        return false;
    float *out = call->out->data;
    int64_t K = a->meta.shape[1], M = b->meta.shape[1];
    for (int64_t flat = 0; flat < call->out->meta.numel; flat++) {
        const float *x = (const float *)a->data + flat / M * a->stride[0];
        const float *y = (const float *)b->data + flat % M * b->stride[1];
        double sum = 0;
        for (int64_t k = 0; k < K; k++)
            sum += (double)x[k * a->stride[1]] * y[k * b->stride[0]];
        out[flat] = (float)sum;
    }
    return true;
}

static gt_err plain_run(gt_engine *engine, const gt_call *call, gt_token *token)
{
    plain *self = plain_of(engine);
    unsigned form = gt__op_table[call->op].form;
    if ((form == GT_FORM_UNARY || form == GT_FORM_BINARY) && run_elementwise(call))
        return GT_OK;
    if (form == GT_FORM_MATMUL && run_matmul(call))
        return GT_OK;
    self->host_calls[call->op]++;
    return self->reference->ops->run(self->reference, call, token);
}

static uint32_t plain_host_calls(gt_engine *engine, gt_opcode op)
{
    return plain_of(engine)->host_calls[op];
}

static const gt_engine_ops engine_plain = {
    .name = "plain",
    .host_memory = true,
    .open = plain_open,
    .close = plain_close,
    .memory_limit = plain_memory_limit,
    .alloc = plain_alloc,
    .release = plain_release,
    .write = plain_write,
    .read = plain_read,
    .run = plain_run,
    .host_calls = plain_host_calls,
};

GT_ENGINE_PLUGIN(engine_plain);

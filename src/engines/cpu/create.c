/*
 * create.c: new tensors: full, arange, eye and random numbers.
 *
 * Each fills chunks that fit the L1 cache, in a type that holds the numbers (float, double or int64_t), and lets a
 * row mover (convert.c) round them to the dtype. Random numbers come from core/random.c: they depend on seed,
 * stream and position only, so threads may divide the positions in any way.
 */
#include <string.h>

#include "engines/cpu/movement.h"
#include "core/random.h"

enum { CHUNK = 1024 };

typedef struct creation {
    const gt_call *call;
    gt_dtype dtype;
    char *to;
    gt_row_mover from_float;
    gt_row_mover from_double;
    gt_row_mover from_integer;
} creation;

/* Fill all positions of the result with a body whose positions are elements. */
static gt_err create(gt_engine *engine, const gt_call *call, int64_t count, int64_t grain, gt_parallel_body body)
{
    gt_dtype dtype = (gt_dtype)call->out->meta.dtype;
    creation c = {
        .call = call,
        .dtype = dtype,
        .to = call->out->data,
        .from_float = gt__cpu_row_mover(dtype, GT_FLOAT32),
        .from_double = gt__cpu_row_mover(dtype, GT_FLOAT64),
        .from_integer = gt__cpu_row_mover(dtype, GT_INT64),
    };
    if (call->out->meta.numel > 0)
        gt__parallel_for(gt__cpu(engine)->parallel, count, grain, body, &c);
    return GT_OK;
}

/* ---- full, arange, eye -------------------------------------------------------------------------------------- */

static void fill(void *context, int64_t begin, int64_t end)
{
    const creation *c = context;
    gt_imm value = c->call->ins->imm[0];
    gt_row_mover move = gt__dtype_is_float(c->dtype) ? c->from_double : c->from_integer;
    if (gt__dtype_is_complex(c->dtype))
        gt__cpu_row_mover(c->dtype, GT_COMPLEX128)(gt__at(c->to, c->dtype, begin), 1, c->call->ins->imm, 0,
                                                   end - begin);
    else
        move(gt__at(c->to, c->dtype, begin), 1, &value, 0, end - begin);
}

gt_err gt__cpu_full(gt_engine *engine, const gt_call *call)
{
    return create(engine, call, call->out->meta.numel, GT_CPU_GRAIN, fill);
}

static void count_up(void *context, int64_t begin, int64_t end)
{
    const creation *c = context;
    gt_imm start = c->call->ins->imm[0], step = c->call->ins->imm[1];
    int64_t origin = c->call->tail[0].i64[1];
    union {
        double real[CHUNK];
        int64_t integer[CHUNK];
    } chunk;
    for (int64_t first = begin; first < end; first += CHUNK) {
        int64_t count = gt__min(CHUNK, end - first);
        if (gt__dtype_is_float(c->dtype)) {
            for (int64_t k = 0; k < count; k++)
                chunk.real[k] = start.f + (double)(origin + first + k) * step.f;
            c->from_double(gt__at(c->to, c->dtype, first), 1, chunk.real, 1, count);
        } else {
            for (int64_t k = 0; k < count; k++)
                chunk.integer[k] = (int64_t)(start.u + (uint64_t)(origin + first + k) * step.u);
            c->from_integer(gt__at(c->to, c->dtype, first), 1, chunk.integer, 1, count);
        }
    }
}

gt_err gt__cpu_arange(gt_engine *engine, const gt_call *call)
{
    return create(engine, call, call->out->meta.numel, GT_CPU_GRAIN, count_up);
}

/* Positions are rows. */
static void identity_rows(void *context, int64_t begin, int64_t end)
{
    const creation *c = context;
    int64_t columns = c->call->out->meta.shape[1], one = 1;
    memset(gt__at(c->to, c->dtype, begin * columns), 0,
           (size_t)((end - begin) * columns) * gt__dtype_size(c->dtype));
    for (int64_t row = begin; row < end; row++) {
        int64_t column = row + c->call->tail[0].i64[2];
        if (column >= 0 && column < columns)
            c->from_integer(gt__at(c->to, c->dtype, row * columns + column), 1, &one, 1, 1);
    }
}

gt_err gt__cpu_eye(gt_engine *engine, const gt_call *call)
{
    const int64_t *shape = call->out->meta.shape;
    return create(engine, call, shape[0], gt__grain(shape[1]), identity_rows);
}

/* ---- random numbers ----------------------------------------------------------------------------------------- */

static gt_random random_key(const creation *c)
{
    return (gt_random){.seed = c->call->ins->imm[0].u, .stream = c->call->ins->imm[1].u};
}

/* The element number at a position, and the count of positions from there with consecutive numbers: core/op.h, RANDOM. */
static int64_t element_at(const creation *c, int64_t position, int64_t *count)
{
    const int64_t *runs = c->call->tail[1].i64 + 2, first = runs[0], run = runs[1], step = runs[2];
    if (!run)
        return first + position;
    *count = gt__min(*count, run - position % run);
    return first + position / run * step + position % run;
}

/* A body that draws with `draw`, straight into the result if that has the drawn dtype. */
#define RANDOM_BODY(name, type, drawn_dtype, mover, ...)                                                          \
    static void name(void *context, int64_t begin, int64_t end)                                                   \
    {                                                                                                             \
        const creation *c = context;                                                                              \
        type chunk[CHUNK];                                                                                        \
        for (int64_t position = begin, count; position < end; position += count) {                                \
            count = gt__min(CHUNK, end - position);                                                               \
            int64_t first = element_at(c, position, &count);                                                      \
            void *to = gt__at(c->to, c->dtype, position);                                                         \
            type *drawn = c->dtype == drawn_dtype ? to : chunk;                                                   \
            __VA_ARGS__;                                                                                          \
            if (drawn == chunk)                                                                                   \
                c->mover(to, 1, chunk, 1, count);                                                                 \
        }                                                                                                         \
    }
RANDOM_BODY(uniform, float, GT_FLOAT32, from_float, gt__random_uniform_float(random_key(c), first, count, drawn))
RANDOM_BODY(uniform_wide, double, GT_FLOAT64, from_double,
            gt__random_uniform_double(random_key(c), first, count, drawn))
RANDOM_BODY(normal, float, GT_FLOAT32, from_float, gt__random_normal_float(random_key(c), first, count, drawn))
RANDOM_BODY(normal_wide, double, GT_FLOAT64, from_double,
            gt__random_normal_double(random_key(c), first, count, drawn))
RANDOM_BODY(integers, int64_t, GT_INT64, from_integer,
            gt__random_integer(random_key(c), first, count, c->call->tail[1].i64[0], c->call->tail[1].i64[1],
                               drawn))

gt_err gt__cpu_random(gt_engine *engine, const gt_call *call)
{
    enum { RANDOM_GRAIN = GT_CPU_GRAIN / 8 }; /* a drawn number costs about as much as eight copied ones */
    bool wide = call->out->meta.dtype == GT_FLOAT64;
    gt_parallel_body body = integers;
    if (call->op == GT_OP_rand)
        body = wide ? uniform_wide : uniform;
    else if (call->op == GT_OP_randn)
        body = wide ? normal_wide : normal;
    return create(engine, call, call->out->meta.numel, RANDOM_GRAIN, body);
}

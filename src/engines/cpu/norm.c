/*
 * norm.c: layer normalisation and its two gradients, each in one pass over the lines.
 *
 * A line is the unit of normalisation: the last axes. With m its mean, r = 1 / sqrt(variance + eps) and
 * h = (x - m) r:
 *     forward           out = h w + b
 *     backward          out = r (g w - mean(g w) - h mean(g w h))
 *     backward_weight   out = the sum of g h over all lines
 * The gradients compute m and r again: a pass over x costs less than keeping them for every line.
 */
#include <math.h>
#include <stdlib.h>

#include "engines/cpu/movement.h"

/* An operand as contiguous memory of the compute type. */
typedef struct source {
    const void *data;
    void *scratch; /* the copy, if one was made */
} source;

typedef struct normalisation {
    const gt_cpu *cpu;
    gt_compute compute;
    int64_t lines, n;
    double eps;
    source x, g, weight, bias;
    void *out;
    double *mean, *scale; /* m and r of every line; backward_weight only */
} normalisation;

static gt_err prepare(gt_cpu *cpu, const gt_view *view, gt_dtype native, int64_t count, source *s)
{
    s->data = view->data;
    if (view->contiguous && view->meta.dtype == native && view->meta.numel == count)
        return GT_OK;
    gt_view wide = *view;
    if (view->meta.rank == 0 && count != 1) { /* a literal: the same for every element */
        GT_TRY(gt__meta_set(&wide.meta, (gt_dtype)view->meta.dtype, 1, &count));
        wide.stride[0] = 0;
        wide.contiguous = false;
    }
    GT_TRY(gt__cpu_scratch(cpu, (size_t)count * gt__dtype_size(native), &s->scratch));
    gt__cpu_copy_view(cpu, &wide, native, s->scratch);
    s->data = s->scratch;
    return GT_OK;
}

static void line_moments(const normalisation *c, int64_t line, double *mean, double *scale)
{
    const char *x = (const char *)c->x.data + (size_t)(line * c->n) * gt__compute_size(c->compute);
    double sum = 0, squares = 0;
    c->cpu->kernels->fold_row[GT_FOLD_SUM][c->compute](&sum, x, c->n, NULL);
    *mean = sum / (double)c->n;
    c->cpu->kernels->fold_row[GT_FOLD_SQUARES][c->compute](&squares, x, c->n, mean);
    *scale = 1 / sqrt(squares / (double)c->n + c->eps);
}

enum { LANES = 8, COLUMNS = 64 };

/* The loops, once a type. Sums have LANES accumulators so that they vectorise. */
#define NORM_LOOPS(T)                                                                                             \
    static void forward_##T(void *context, int64_t begin, int64_t end)                                            \
    {                                                                                                             \
        const normalisation *c = context;                                                                         \
        const T *restrict w = c->weight.data, *restrict b = c->bias.data;                                         \
        for (int64_t line = begin; line < end; line++) {                                                          \
            const T *restrict x = (const T *)c->x.data + line * c->n;                                             \
            T *restrict out = (T *)c->out + line * c->n;                                                          \
            double mean, scale;                                                                                   \
            line_moments(c, line, &mean, &scale);                                                                 \
            T m = (T)mean, r = (T)scale;                                                                          \
            for (int64_t i = 0; i < c->n; i++)                                                                    \
                out[i] = (x[i] - m) * r * w[i] + b[i];                                                            \
        }                                                                                                         \
    }                                                                                                             \
                                                                                                                  \
    static void backward_##T(void *context, int64_t begin, int64_t end)                                           \
    {                                                                                                             \
        const normalisation *c = context;                                                                         \
        const T *restrict w = c->weight.data;                                                                     \
        for (int64_t line = begin; line < end; line++) {                                                          \
            const T *restrict x = (const T *)c->x.data + line * c->n;                                             \
            const T *restrict g = (const T *)c->g.data + line * c->n;                                             \
            T *restrict out = (T *)c->out + line * c->n;                                                          \
            double mean, scale;                                                                                   \
            line_moments(c, line, &mean, &scale);                                                                 \
            T m = (T)mean, r = (T)scale, sum[LANES] = {0}, product[LANES] = {0};                                  \
            int64_t whole = c->n - c->n % LANES;                                                                  \
            for (int64_t i = 0; i < whole; i += LANES)                                                            \
                for (int k = 0; k < LANES; k++) {                                                                 \
                    T gw = g[i + k] * w[i + k];                                                                   \
                    sum[k] += gw;                                                                                 \
                    product[k] += gw * (x[i + k] - m);                                                            \
                }                                                                                                 \
            for (int64_t i = whole; i < c->n; i++) {                                                              \
                sum[0] += g[i] * w[i];                                                                            \
                product[0] += g[i] * w[i] * (x[i] - m);                                                           \
            }                                                                                                     \
            double sum_all = 0, product_all = 0;                                                                  \
            for (int k = 0; k < LANES; k++) {                                                                     \
                sum_all += (double)sum[k];                                                                        \
                product_all += (double)product[k];                                                                \
            }                                                                                                     \
            T average = (T)(sum_all / (double)c->n), slope = (T)(product_all * scale * scale / (double)c->n);     \
            for (int64_t i = 0; i < c->n; i++)                                                                    \
                out[i] = r * (g[i] * w[i] - average - (x[i] - m) * slope);                                        \
        }                                                                                                         \
    }                                                                                                             \
                                                                                                                  \
    /* Columns begin <= j < end, in blocks that stay in registers and the nearest cache. */                       \
    static void weight_##T(void *context, int64_t begin, int64_t end)                                             \
    {                                                                                                             \
        const normalisation *c = context;                                                                         \
        for (int64_t first = begin; first < end; first += COLUMNS) {                                              \
            int64_t width = end - first < COLUMNS ? end - first : COLUMNS;                                        \
            T sum[COLUMNS] = {0};                                                                                 \
            for (int64_t line = 0; line < c->lines; line++) {                                                     \
                const T *restrict x = (const T *)c->x.data + line * c->n + first;                                 \
                const T *restrict g = (const T *)c->g.data + line * c->n + first;                                 \
                T m = (T)c->mean[line], r = (T)c->scale[line];                                                    \
                for (int64_t j = 0; j < width; j++)                                                               \
                    sum[j] += g[j] * ((x[j] - m) * r);                                                            \
            }                                                                                                     \
            for (int64_t j = 0; j < width; j++)                                                                   \
                ((T *)c->out)[first + j] = sum[j];                                                                \
        }                                                                                                         \
    }
NORM_LOOPS(float)
NORM_LOOPS(double)

#define SUM_LOOP(T)                                                                                               \
    static void add_line_##T(T *restrict sum, const T *restrict g, const T *restrict x, T m, T r, int64_t n)      \
    {                                                                                                             \
        for (int64_t j = 0; j < n; j++)                                                                           \
            sum[j] += g[j] * ((x[j] - m) * r);                                                                    \
    }
SUM_LOOP(float)
SUM_LOOP(double)

static void all_moments(void *context, int64_t begin, int64_t end)
{
    const normalisation *c = context;
    for (int64_t line = begin; line < end; line++)
        line_moments(c, line, &c->mean[line], &c->scale[line]);
}

static gt_parallel_body body_of(gt_opcode op, gt_compute compute)
{
    bool wide = compute == GT_COMPUTE_F64;
    if (op == GT_OP_layer_norm)
        return wide ? forward_double : forward_float;
    return wide ? backward_double : backward_float;
}

void gt__cpu_norm_rows(const gt_cpu *cpu, const gt_instruction *ins, gt_compute compute, const void *const *in,
                       int64_t rows, int64_t n, void *out)
{
    bool forward = ins->op == GT_OP_layer_norm;
    normalisation c = {.cpu = cpu, .compute = compute, .lines = rows, .n = n, .eps = ins->imm[1].f, .out = out};
    c.x.data = in[forward ? 0 : 1];
    c.g.data = in[0];
    c.weight.data = in[forward ? 1 : 2];
    c.bias.data = in[2];
    body_of((gt_opcode)ins->op, compute)(&c, 0, rows);
}

void gt__cpu_norm_sum(const gt_cpu *cpu, const gt_instruction *ins, gt_compute compute, const void *g,
                      const void *x, int64_t rows, int64_t n, void *sums)
{
    normalisation c = {.cpu = cpu, .compute = compute, .n = n, .eps = ins->imm[1].f, .x.data = x};
    for (int64_t line = 0; line < rows; line++) {
        double mean, scale;
        line_moments(&c, line, &mean, &scale);
        int64_t at = line * n;
        if (compute == GT_COMPUTE_F64)
            add_line_double(sums, (const double *)g + at, (const double *)x + at, mean, scale, n);
        else
            add_line_float(sums, (const float *)g + at, (const float *)x + at, (float)mean, (float)scale, n);
    }
}

static gt_err run(gt_cpu *cpu, const gt_call *call, normalisation *c)
{
    bool wide = c->compute == GT_COMPUTE_F64;
    int64_t grain = GT_CPU_GRAIN / 4 / c->n + 1;
    if (call->op != GT_OP_layer_norm_backward_weight) {
        gt__parallel_for(cpu->parallel, c->lines, grain, body_of(call->op, c->compute), c);
        return GT_OK;
    }
    void *moments = NULL;
    GT_TRY(gt__cpu_scratch(cpu, (size_t)c->lines * 2 * sizeof *c->mean, &moments));
    c->mean = moments;
    c->scale = c->mean + c->lines;
    gt__parallel_for(cpu->parallel, c->lines, grain, all_moments, c);
    gt__parallel_for(cpu->parallel, c->n, COLUMNS, wide ? weight_double : weight_float, c);
    free(moments);
    return GT_OK;
}

static gt_err prepare_all(gt_cpu *cpu, const gt_call *call, gt_dtype native, normalisation *c)
{
    bool forward = call->op == GT_OP_layer_norm;
    int64_t count = c->lines * c->n;
    GT_TRY(prepare(cpu, call->in[forward ? 0 : 1], native, count, &c->x));
    if (!forward)
        GT_TRY(prepare(cpu, call->in[0], native, count, &c->g));
    if (call->op != GT_OP_layer_norm_backward_weight)
        GT_TRY(prepare(cpu, call->in[forward ? 1 : 2], native, c->n, &c->weight));
    return forward ? prepare(cpu, call->in[2], native, c->n, &c->bias) : GT_OK;
}

gt_err gt__cpu_layer_norm(gt_engine *engine, const gt_call *call)
{
    gt_cpu *cpu = gt__cpu(engine);
    const gt_meta *x = &call->in[call->op == GT_OP_layer_norm ? 0 : 1]->meta;
    normalisation c = {.cpu = cpu, .compute = gt__cpu_compute((gt_dtype)x->dtype), .lines = 1, .n = 1};
    gt_dtype native = c.compute == GT_COMPUTE_F64 ? GT_FLOAT64 : GT_FLOAT32;
    for (int64_t axis = 0; axis < x->rank; axis++)
        *(axis < call->ins->imm[0].i ? &c.lines : &c.n) *= x->shape[axis];
    c.eps = call->ins->imm[1].f;
    if (call->out->meta.numel == 0)
        return GT_OK;
    void *converted = NULL;
    c.out = call->out->data;
    gt_err err = prepare_all(cpu, call, native, &c);
    if (err == GT_OK && x->dtype != native) {
        err = gt__cpu_scratch(cpu, (size_t)call->out->meta.numel * gt__dtype_size(native), &converted);
        c.out = converted;
    }
    if (err == GT_OK)
        err = run(cpu, call, &c);
    if (err == GT_OK && converted) {
        gt_view from = *call->out;
        from.data = converted;
        from.meta.dtype = (uint8_t)native;
        gt__cpu_move(cpu, call->out, &from);
    }
    free(converted);
    free(c.x.scratch);
    free(c.g.scratch);
    free(c.weight.scratch);
    free(c.bias.scratch);
    return err;
}

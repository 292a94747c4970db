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
#include <string.h>

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

static const void *line_of(const normalisation *c, const source *s, int64_t line)
{
    return (const char *)s->data + (size_t)(line * c->n) * gt__compute_size(c->compute);
}

static void line_moments(const normalisation *c, int64_t line, double *mean, double *scale)
{
    const void *x = line_of(c, &c->x, line);
    double sum = 0, squares = 0;
    c->cpu->kernels->fold_row[GT_FOLD_SUM][c->compute](&sum, x, c->n, NULL);
    *mean = sum / (double)c->n;
    c->cpu->kernels->fold_row[GT_FOLD_SQUARES][c->compute](&squares, x, c->n, mean);
    *scale = 1 / sqrt(squares / (double)c->n + c->eps);
}

enum { COLUMNS = 64 };

static void *out_line(const normalisation *c, int64_t line)
{
    return (char *)c->out + (size_t)(line * c->n) * gt__compute_size(c->compute);
}

static void forward(void *context, int64_t begin, int64_t end)
{
    const normalisation *c = context;
    for (int64_t line = begin; line < end; line++) {
        double mean, scale;
        line_moments(c, line, &mean, &scale);
        c->cpu->kernels->norm_row[c->compute](out_line(c, line), line_of(c, &c->x, line), c->weight.data,
                                              c->bias.data, mean, scale, c->n);
    }
}

static void backward(void *context, int64_t begin, int64_t end)
{
    const normalisation *c = context;
    for (int64_t line = begin; line < end; line++) {
        double mean, scale;
        line_moments(c, line, &mean, &scale);
        c->cpu->kernels->norm_backward_row[c->compute](out_line(c, line), line_of(c, &c->g, line),
                                                       line_of(c, &c->x, line), c->weight.data, mean, scale, c->n);
    }
}

/* Columns begin <= j < end of backward_weight, in blocks that stay in the nearest cache. */
static void weight_columns(void *context, int64_t begin, int64_t end)
{
    const normalisation *c = context;
    size_t size = gt__compute_size(c->compute);
    for (int64_t first = begin; first < end; first += COLUMNS) {
        int64_t width = gt__min(end - first, COLUMNS);
        size_t offset = (size_t)first * size;
        void *sums = (char *)c->out + offset;
        memset(sums, 0, (size_t)width * size);
        c->cpu->kernels->norm_weight_rows[c->compute](sums, (const char *)c->g.data + offset,
                                                      (const char *)c->x.data + offset, c->n, c->mean, c->scale,
                                                      c->lines, width);
    }
}

static void all_moments(void *context, int64_t begin, int64_t end)
{
    const normalisation *c = context;
    for (int64_t line = begin; line < end; line++)
        line_moments(c, line, &c->mean[line], &c->scale[line]);
}

void gt__cpu_norm_rows(const gt_cpu *cpu, const gt_instruction *ins, gt_compute compute, const void *const *in,
                       int64_t rows, int64_t n, void *out)
{
    bool is_forward = ins->op == GT_OP_layer_norm;
    normalisation c = {.cpu = cpu, .compute = compute, .lines = rows, .n = n, .eps = ins->imm[1].f, .out = out};
    c.x.data = in[is_forward ? 0 : 1];
    c.g.data = in[0];
    c.weight.data = in[is_forward ? 1 : 2];
    c.bias.data = in[2];
    (is_forward ? forward : backward)(&c, 0, rows);
}

void gt__cpu_norm_sum(const gt_cpu *cpu, const gt_instruction *ins, gt_compute compute, const void *g,
                      const void *x, int64_t rows, int64_t n, void *sums)
{
    normalisation c = {.cpu = cpu, .compute = compute, .n = n, .eps = ins->imm[1].f, .x.data = x, .g.data = g};
    for (int64_t line = 0; line < rows; line++) {
        double mean, scale;
        line_moments(&c, line, &mean, &scale);
        cpu->kernels->norm_weight_rows[compute](sums, line_of(&c, &c.g, line), line_of(&c, &c.x, line), n, &mean,
                                                &scale, 1, n);
    }
}

static gt_err run(gt_cpu *cpu, const gt_call *call, normalisation *c)
{
    int64_t grain = GT_CPU_GRAIN / 4 / c->n + 1;
    if (call->op != GT_OP_layer_norm_backward_weight) {
        gt__parallel_for(cpu->parallel, c->lines, grain, call->op == GT_OP_layer_norm ? forward : backward, c);
        return GT_OK;
    }
    void *moments = NULL;
    GT_TRY(gt__cpu_scratch(cpu, (size_t)c->lines * 2 * sizeof *c->mean, &moments));
    c->mean = moments;
    c->scale = c->mean + c->lines;
    gt__parallel_for(cpu->parallel, c->lines, grain, all_moments, c);
    gt__parallel_for(cpu->parallel, c->n, COLUMNS, weight_columns, c);
    free(moments);
    return GT_OK;
}

static gt_err prepare_all(gt_cpu *cpu, const gt_call *call, gt_dtype native, normalisation *c)
{
    bool is_forward = call->op == GT_OP_layer_norm;
    int64_t count = c->lines * c->n;
    GT_TRY(prepare(cpu, call->in[is_forward ? 0 : 1], native, count, &c->x));
    if (!is_forward)
        GT_TRY(prepare(cpu, call->in[0], native, count, &c->g));
    if (call->op != GT_OP_layer_norm_backward_weight)
        GT_TRY(prepare(cpu, call->in[is_forward ? 1 : 2], native, c->n, &c->weight));
    return is_forward ? prepare(cpu, call->in[2], native, c->n, &c->bias) : GT_OK;
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

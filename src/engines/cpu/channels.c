/*
 * channels.c: normalisation of channels, the second axis of x (N, C, ...): batch_moments, batch_norm and its gradients. One
 * pass each, over planes: the elements of one channel of one sample, which are neighbours. Planes of one element, as of (N, C),
 * would be short loops: there a row, all channels of a sample, is the loop.
 *
 * Moments are summed around a pivot, the mean of the first few elements, so that a large mean costs no digits.
 */
#include <math.h>
#include <stdlib.h>

#include "engines/cpu/movement.h"

enum { LANES = 16, COLUMNS = 64, PIVOT = 64, FLUSH = 128, TASKS = 4 };

/* Of one channel, or a part of it. Moments: elements, mean, squares around it. Sums: of g h and of g. */
typedef struct totals {
    double count, first, second;
} totals;

typedef struct normalisation {
    gt_opcode op;
    bool wide; /* double, not float */
    int64_t samples, channels, inner;
    double eps;
    gt_dense x, g, out;
    double *mean;      /* of each channel */
    double *a, *b, *d; /* out = a g + b (x - mean) + d; forward: without a */
    int64_t parts;     /* sums: parts of the samples, each with its own totals */
    totals *totals;    /* (parts, channels) */
} normalisation;

/* ---- sums --------------------------------------------------------------------------------------------------- */

/* The loops, once a type. Sums have LANES accumulators so that they vectorise. */
#define SUM_LOOPS(T)                                                                                              \
    static void plane_moments_##T(const T *restrict x, int64_t n, T pivot, double *first, double *second)         \
    {                                                                                                             \
        T sum[LANES] = {0}, squares[LANES] = {0};                                                                 \
        int64_t whole = n - n % LANES;                                                                            \
        for (int64_t i = 0; i < whole; i += LANES)                                                                \
            for (int k = 0; k < LANES; k++) {                                                                     \
                T d = x[i + k] - pivot;                                                                           \
                sum[k] += d;                                                                                      \
                squares[k] += d * d;                                                                              \
            }                                                                                                     \
        for (int64_t i = whole; i < n; i++) {                                                                     \
            T d = x[i] - pivot;                                                                                   \
            sum[i - whole] += d;                                                                                  \
            squares[i - whole] += d * d;                                                                          \
        }                                                                                                         \
        for (int k = 0; k < LANES; k++) {                                                                         \
            *first += (double)sum[k];                                                                             \
            *second += (double)squares[k];                                                                        \
        }                                                                                                         \
    }                                                                                                             \
                                                                                                                  \
    static void plane_sums_##T(const T *restrict g, const T *restrict x, int64_t n, T mean, double *first,        \
                               double *second)                                                                    \
    {                                                                                                             \
        T product[LANES] = {0}, sum[LANES] = {0};                                                                 \
        int64_t whole = n - n % LANES;                                                                            \
        for (int64_t i = 0; i < whole; i += LANES)                                                                \
            for (int k = 0; k < LANES; k++) {                                                                     \
                product[k] += g[i + k] * (x[i + k] - mean);                                                       \
                sum[k] += g[i + k];                                                                               \
            }                                                                                                     \
        for (int64_t i = whole; i < n; i++) {                                                                     \
            product[i - whole] += g[i] * (x[i] - mean);                                                           \
            sum[i - whole] += g[i];                                                                               \
        }                                                                                                         \
        for (int k = 0; k < LANES; k++) {                                                                         \
            *first += (double)product[k];                                                                         \
            *second += (double)sum[k];                                                                            \
        }                                                                                                         \
    }                                                                                                             \
                                                                                                                  \
    static double pivot_##T(const T *x, int64_t stride, int64_t n)                                                \
    {                                                                                                             \
        double sum = 0;                                                                                           \
        n = n < PIVOT ? n : PIVOT;                                                                                \
        for (int64_t i = 0; i < n; i++)                                                                           \
            sum += (double)x[i * stride];                                                                         \
        return isfinite(sum) ? (double)(T)(sum / (double)n) : 0;                                                  \
    }                                                                                                             \
                                                                                                                  \
    static void sum_planes_##T(const normalisation *c, int64_t channel, int64_t begin, int64_t end, totals *t)    \
    {                                                                                                             \
        const T *x = (const T *)c->x.data, *g = (const T *)c->g.data;                                             \
        double first = 0, second = 0;                                                                             \
        double around =                                                                                           \
            g ? c->mean[channel] : pivot_##T(x + (begin * c->channels + channel) * c->inner, 1, c->inner);        \
        for (int64_t sample = begin; sample < end; sample++) {                                                    \
            int64_t at = (sample * c->channels + channel) * c->inner;                                             \
            if (g)                                                                                                \
                plane_sums_##T(g + at, x + at, c->inner, (T)around, &first, &second);                             \
            else                                                                                                  \
                plane_moments_##T(x + at, c->inner, (T)around, &first, &second);                                  \
        }                                                                                                         \
        *t = finished(c, (double)((end - begin) * c->inner), around, first, second);                              \
    }                                                                                                             \
                                                                                                                  \
    /* Up to COLUMNS channels side by side, in planes of one element. */                                          \
    static void sum_columns_##T(const normalisation *c, int64_t channel, int64_t width, int64_t begin,            \
                                int64_t end, totals *t)                                                           \
    {                                                                                                             \
        const T *x = (const T *)c->x.data + channel, *g = (const T *)c->g.data;                                   \
        double first[COLUMNS] = {0}, second[COLUMNS] = {0};                                                       \
        T around[COLUMNS] = {0};                                                                                  \
        for (int64_t j = 0; j < width; j++)                                                                       \
            around[j] =                                                                                           \
                (T)(g ? c->mean[channel + j] : pivot_##T(x + begin * c->channels + j, c->channels, end - begin)); \
        for (int64_t sample = begin; sample < end; sample += FLUSH) {                                             \
            T one[COLUMNS] = {0}, two[COLUMNS] = {0};                                                             \
            for (int64_t s = sample; s < end && s < sample + FLUSH; s++) {                                        \
                const T *restrict row = x + s * c->channels;                                                      \
                const T *restrict slope = g ? g + s * c->channels + channel : NULL;                               \
                for (int64_t j = 0; slope && j < width; j++) {                                                    \
                    one[j] += slope[j] * (row[j] - around[j]);                                                    \
                    two[j] += slope[j];                                                                           \
                }                                                                                                 \
                for (int64_t j = 0; !slope && j < width; j++) {                                                   \
                    one[j] += row[j] - around[j];                                                                 \
                    two[j] += (row[j] - around[j]) * (row[j] - around[j]);                                        \
                }                                                                                                 \
            }                                                                                                     \
            for (int64_t j = 0; j < width; j++) {                                                                 \
                first[j] += (double)one[j];                                                                       \
                second[j] += (double)two[j];                                                                      \
            }                                                                                                     \
        }                                                                                                         \
        for (int64_t j = 0; j < width; j++)                                                                       \
            t[j] = finished(c, (double)(end - begin), (double)around[j], first[j], second[j]);                    \
    }

/* Sums around the pivot to moments; the others stay sums. */
static totals finished(const normalisation *c, double count, double pivot, double first, double second)
{
    if (c->op != GT_OP_batch_moments)
        return (totals){.count = count, .first = first, .second = second};
    double squares = second - first * first / count;
    return (totals){.count = count, .first = pivot + first / count, .second = squares < 0 ? 0 : squares};
}

SUM_LOOPS(float)
SUM_LOOPS(double)

static totals merged(const normalisation *c, totals a, totals b)
{
    if (c->op != GT_OP_batch_moments)
        return (totals){.count = a.count + b.count, .first = a.first + b.first, .second = a.second + b.second};
    double count = a.count + b.count, apart = b.first - a.first;
    return (totals){.count = count,
                    .first = a.first + apart * (b.count / count),
                    .second = a.second + b.second + apart * apart * (a.count * b.count / count)};
}

/* Work item: a block of channels (one channel, or COLUMNS of them) in one part of the samples. */
static int64_t block_width(const normalisation *c)
{
    return c->inner == 1 ? COLUMNS : 1;
}

static void sum_items(void *context, int64_t begin, int64_t end)
{
    const normalisation *c = context;
    int64_t width = block_width(c), blocks = (c->channels + width - 1) / width;
    for (int64_t item = begin; item < end; item++) {
        int64_t part = item / blocks, channel = item % blocks * width;
        int64_t first = c->samples * part / c->parts, last = c->samples * (part + 1) / c->parts;
        int64_t few = gt__min(width, c->channels - channel);
        totals *t = &c->totals[part * c->channels + channel];
        if (c->inner == 1)
            (c->wide ? sum_columns_double : sum_columns_float)(c, channel, few, first, last, t);
        else
            (c->wide ? sum_planes_double : sum_planes_float)(c, channel, first, last, t);
    }
}

static void store_totals(const normalisation *c, int64_t channel, totals t, double inverse_deviation)
{
    double first = t.first, second = t.second;
    if (c->op == GT_OP_batch_moments)
        second /= t.count;
    else
        first *= inverse_deviation;
    if (c->wide) {
        ((double *)c->out.data)[channel] = first;
        ((double *)c->out.data)[c->channels + channel] = second;
    } else {
        ((float *)c->out.data)[channel] = (float)first;
        ((float *)c->out.data)[c->channels + channel] = (float)second;
    }
}

static gt_err run_sums(gt_cpu *cpu, normalisation *c)
{
    void *room = NULL;
    int64_t width = block_width(c), blocks = (c->channels + width - 1) / width;
    int64_t wanted = (TASKS * (int64_t)gt__parallel_threads(cpu->parallel) + blocks - 1) / blocks;
    int64_t of_item = c->samples * c->inner * gt__min(width, c->channels);
    wanted = gt__min(wanted, of_item / GT_CPU_GRAIN + 1);
    c->parts = gt__min(wanted, c->samples > 1 ? c->samples : 1);
    GT_TRY(gt__cpu_scratch(cpu, (size_t)(c->parts * c->channels) * sizeof *c->totals, &room));
    c->totals = room;
    gt__parallel_for(cpu->parallel, blocks * c->parts, gt__grain(of_item / c->parts), sum_items, c);
    for (int64_t channel = 0; channel < c->channels; channel++) {
        totals all = c->totals[channel];
        for (int64_t part = 1; part < c->parts; part++)
            all = merged(c, all, c->totals[part * c->channels + channel]);
        store_totals(c, channel, all, c->b ? c->b[channel] : 1);
    }
    free(room);
    return GT_OK;
}

/* ---- elementwise -------------------------------------------------------------------------------------------- */

#define APPLY_LOOPS(T)                                                                                            \
    static void apply_planes_##T(void *context, int64_t begin, int64_t end)                                       \
    {                                                                                                             \
        const normalisation *c = context;                                                                         \
        for (int64_t plane = begin; plane < end; plane++) {                                                       \
            int64_t channel = plane % c->channels;                                                                \
            const T *restrict x = (const T *)c->x.data + plane * c->inner;                                        \
            T *restrict out = (T *)c->out.data + plane * c->inner;                                                \
            T mean = (T)c->mean[channel], b = (T)c->b[channel], d = (T)c->d[channel];                             \
            if (!c->g.data) {                                                                                     \
                for (int64_t i = 0; i < c->inner; i++)                                                            \
                    out[i] = (x[i] - mean) * b + d;                                                               \
                continue;                                                                                         \
            }                                                                                                     \
            const T *restrict g = (const T *)c->g.data + plane * c->inner;                                        \
            T a = (T)c->a[channel];                                                                               \
            for (int64_t i = 0; i < c->inner; i++)                                                                \
                out[i] = a * g[i] + b * (x[i] - mean) + d;                                                        \
        }                                                                                                         \
    }                                                                                                             \
                                                                                                                  \
    /* Columns begin <= j < end of all rows. */                                                                   \
    static void apply_columns_##T(void *context, int64_t begin, int64_t end)                                      \
    {                                                                                                             \
        const normalisation *c = context;                                                                         \
        for (int64_t first = begin; first < end; first += COLUMNS) {                                              \
            int64_t width = gt__min(end - first, COLUMNS);                                                        \
            T mean[COLUMNS], a[COLUMNS], b[COLUMNS], d[COLUMNS];                                                  \
            for (int64_t j = 0; j < width; j++) {                                                                 \
                mean[j] = (T)c->mean[first + j];                                                                  \
                a[j] = c->g.data ? (T)c->a[first + j] : 0;                                                        \
                b[j] = (T)c->b[first + j];                                                                        \
                d[j] = (T)c->d[first + j];                                                                        \
            }                                                                                                     \
            for (int64_t sample = 0; sample < c->samples; sample++) {                                             \
                int64_t at = sample * c->channels + first;                                                        \
                const T *restrict x = (const T *)c->x.data + at;                                                  \
                const T *restrict g = c->g.data ? (const T *)c->g.data + at : NULL;                               \
                T *restrict out = (T *)c->out.data + at;                                                          \
                for (int64_t j = 0; g && j < width; j++)                                                          \
                    out[j] = a[j] * g[j] + b[j] * (x[j] - mean[j]) + d[j];                                        \
                for (int64_t j = 0; !g && j < width; j++)                                                         \
                    out[j] = (x[j] - mean[j]) * b[j] + d[j];                                                      \
            }                                                                                                     \
        }                                                                                                         \
    }
APPLY_LOOPS(float)
APPLY_LOOPS(double)

static void run_apply(gt_cpu *cpu, normalisation *c)
{
    if (c->inner == 1)
        gt__parallel_for(cpu->parallel, c->channels, gt__lines_across(cpu, c->channels, c->samples),
                         c->wide ? apply_columns_double : apply_columns_float, c);
    else
        gt__parallel_for(cpu->parallel, c->samples * c->channels, gt__grain(c->inner),
                         c->wide ? apply_planes_double : apply_planes_float, c);
}

/* ---- operands ----------------------------------------------------------------------------------------------- */

static double number(const normalisation *c, const gt_dense *dense, int64_t row, int64_t channel)
{
    int64_t at = row * c->channels + channel;
    return c->wide ? ((const double *)dense->data)[at] : (double)((const float *)dense->data)[at];
}

/* The numbers of each channel from those of the operands: moments and affine (NULL: 1 and 0), or what batch_norm_backward gets. */
static void set_forward(normalisation *c, const gt_dense *moments, const gt_dense *affine)
{
    for (int64_t k = 0; k < c->channels; k++) {
        double scale = 1 / sqrt(number(c, moments, 1, k) + c->eps);
        c->mean[k] = number(c, moments, 0, k);
        c->b[k] = affine ? scale * number(c, affine, 0, k) : scale;
        c->d[k] = affine ? number(c, affine, 1, k) : 0;
    }
}

static void set_backward(normalisation *c, const gt_dense *s, int64_t rows, int64_t elements)
{
    for (int64_t k = 0; k < c->channels; k++) {
        double scale = 1 / sqrt(number(c, s, 1, k) + c->eps), n = (double)elements;
        double weight = rows == (elements ? 6 : 4) ? number(c, s, 2, k) : 1;
        c->mean[k] = number(c, s, 0, k);
        c->a[k] = scale * weight;
        c->b[k] = elements ? -c->a[k] * scale * number(c, s, rows - 2, k) / n : 0;
        c->d[k] = elements ? -c->a[k] * number(c, s, rows - 1, k) / n : 0;
    }
}

static gt_err prepare_numbers(gt_cpu *cpu, const gt_call *call, gt_compute compute, normalisation *c)
{
    gt_dense last = {0}, affine = {0};
    bool forward = c->op == GT_OP_batch_norm, plain = forward && call->in[2]->meta.rank == 0;
    gt_err err = gt__dense_read(cpu, call->in[forward ? 1 : 2], compute, &last);
    if (err == GT_OK && forward && !plain)
        err = gt__dense_read(cpu, call->in[2], compute, &affine);
    if (err == GT_OK && c->op == GT_OP_batch_norm_backward)
        set_backward(c, &last, call->in[2]->meta.shape[0], call->ins->imm[0].i);
    else if (err == GT_OK)
        set_forward(c, &last, forward && !plain ? &affine : NULL);
    free(last.scratch);
    free(affine.scratch);
    return err;
}

static gt_err run(gt_cpu *cpu, const gt_call *call, gt_compute compute, normalisation *c)
{
    unsigned k = c->op == GT_OP_batch_moments || c->op == GT_OP_batch_norm ? 0 : 1;
    GT_TRY(gt__dense_read(cpu, call->in[k], compute, &c->x));
    if (k)
        GT_TRY(gt__dense_read(cpu, call->in[0], compute, &c->g));
    GT_TRY(gt__dense_result(cpu, call->out, compute, &c->out));
    if (c->op != GT_OP_batch_moments)
        GT_TRY(prepare_numbers(cpu, call, compute, c));
    if (c->op == GT_OP_batch_moments || c->op == GT_OP_batch_norm_backward_affine)
        GT_TRY(run_sums(cpu, c));
    else
        run_apply(cpu, c);
    gt__dense_finish(cpu, call->out, compute, &c->out);
    return GT_OK;
}

gt_err gt__cpu_channels(gt_engine *engine, const gt_call *call)
{
    gt_cpu *cpu = gt__cpu(engine);
    bool first = call->op == GT_OP_batch_moments || call->op == GT_OP_batch_norm;
    const gt_meta *x = &call->in[first ? 0 : 1]->meta;
    normalisation c = {.op = call->op,
                       .wide = x->dtype == GT_FLOAT64,
                       .samples = x->shape[0],
                       .channels = x->shape[1],
                       .inner = 1,
                       .eps = call->ins->imm[1].f};
    void *room = NULL;
    for (int axis = 2; axis < x->rank; axis++)
        c.inner *= x->shape[axis];
    if (call->out->meta.numel == 0)
        return GT_OK;
    if (call->op != GT_OP_batch_moments) {
        GT_TRY(gt__cpu_scratch(cpu, (size_t)c.channels * 4 * sizeof *c.mean, &room));
        c.mean = room;
        c.a = c.mean + c.channels;
        c.b = c.a + c.channels;
        c.d = c.b + c.channels;
    }
    gt_err err = run(cpu, call, gt__cpu_compute((gt_dtype)x->dtype), &c);
    free(room);
    free(c.x.scratch);
    free(c.g.scratch);
    free(c.out.scratch);
    return err;
}

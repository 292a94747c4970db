/*
 * channels.c: normalisation of channels, the second axis of x (N, C, ...): batch_moments, batch_norm and its gradients. One
 * pass each, over planes: the elements of one channel of one sample, which are neighbours. Planes of one element, as of (N, C),
 * would be short loops: there a row, all channels of a sample, is the loop.
 *
 * Moments are summed around a pivot, the mean of a few elements, so that a large mean costs no digits. float32 has few of them:
 * a pivot serves a short stretch, whose sums then go to sums around the first pivot, in double.
 */
#include <math.h>
#include <stdlib.h>

#include "engines/cpu/movement.h"

enum { LANES = 16, ROWS = 4, PIVOT = 64, STRETCH = 16, FLUSH = 32, TASKS = 4 };

/* Of one channel, or a part of it. Moments: elements, mean, squares around it. Sums: of g h and of g. */
typedef struct totals {
    double count, first, second;
} totals;

/* A contiguous tensor like x. Halves are converted in tiles. */
typedef struct plane_source {
    const char *data;
    gt_dtype dtype;
    void *scratch; /* the copy, if it was not contiguous */
} plane_source;

typedef struct normalisation {
    const gt_cpu *cpu;
    gt_opcode op;
    gt_compute compute;
    int64_t samples, channels, inner;
    double eps;
    plane_source x, g; /* g without data: there is none */
    char *out;
    gt_dtype out_dtype;
    double *mean;      /* of each channel */
    double *a, *b, *d; /* out = a g + b (x - mean) + d; forward: without a */
    int64_t parts;     /* sums: parts of the samples, each with its own totals */
    totals *totals;    /* (parts, channels) */
} normalisation;

static bool is_wide(const normalisation *c)
{
    return c->compute == GT_COMPUTE_F64;
}

/* Elements from `at` on in the compute type: in place, or converted to the tile. */
static const void *read_run(const normalisation *c, const plane_source *s, int64_t at, int64_t count, void *tile)
{
    const char *from = s->data + (size_t)at * gt__dtype_size(s->dtype);
    if (s->dtype == gt__native_dtype(c->compute))
        return from;
    gt__cpu_load_tile(c->cpu, c->compute, s->dtype, from, 1, count, tile);
    return tile;
}

/* Where to put the elements from `at` on: in place, or in the tile, which write_run then stores. */
static void *room_for_run(const normalisation *c, int64_t at, void *tile)
{
    bool native = c->out_dtype == gt__native_dtype(c->compute);
    return native ? c->out + (size_t)at * gt__dtype_size(c->out_dtype) : tile;
}

static void write_run(const normalisation *c, int64_t at, int64_t count, const void *tile)
{
    if (c->out_dtype != gt__native_dtype(c->compute))
        gt__cpu_store_tile(c->cpu, c->compute, c->out_dtype, tile,
                           c->out + (size_t)at * gt__dtype_size(c->out_dtype), 1, count);
}

/* Elements at a time: everything if nothing is converted; of moments, what one pivot serves. */
static int64_t run_length(const normalisation *c)
{
    bool native = c->x.dtype == gt__native_dtype(c->compute);
    return native && c->op != GT_OP_batch_moments ? c->inner : gt__min(c->inner, GT_TILE);
}

/* ---- sums --------------------------------------------------------------------------------------------------- */

/* Add to sums around one pivot the sums of n differences and of their squares around another, `apart` from it. */
static inline void add_stretch(double *first, double *second, double apart, double n, double one, double two)
{
    *first += one + n * apart;
    *second += two + apart * (2 * one + n * apart);
}

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
    /* ROWS rows of x, and of g if there is one; the last ones may be missing. */                                 \
    static void add_rows_##T(T *restrict one, T *restrict two, const T *const *g, const T *const *x,              \
                             const T *restrict around, int64_t rows, int64_t width)                               \
    {                                                                                                             \
        const T *restrict x0 = x[0], *restrict x1 = x[1], *restrict x2 = x[2], *restrict x3 = x[3];               \
        if (rows < ROWS)                                                                                          \
            for (int64_t r = 0; r < rows; r++)                                                                    \
                for (int64_t j = 0; j < width; j++) {                                                             \
                    T apart = x[r][j] - around[j], factor = g ? g[r][j] : apart;                                  \
                    one[j] += g ? factor * apart : apart;                                                         \
                    two[j] += g ? factor : apart * apart;                                                         \
                }                                                                                                 \
        else if (g) {                                                                                             \
            const T *restrict g0 = g[0], *restrict g1 = g[1], *restrict g2 = g[2], *restrict g3 = g[3];           \
            for (int64_t j = 0; j < width; j++) {                                                                 \
                T m = around[j];                                                                                  \
                one[j] +=                                                                                         \
                    (g0[j] * (x0[j] - m) + g1[j] * (x1[j] - m)) + (g2[j] * (x2[j] - m) + g3[j] * (x3[j] - m));    \
                two[j] += (g0[j] + g1[j]) + (g2[j] + g3[j]);                                                      \
            }                                                                                                     \
        } else                                                                                                    \
            for (int64_t j = 0; j < width; j++) {                                                                 \
                T m = around[j], d0 = x0[j] - m, d1 = x1[j] - m, d2 = x2[j] - m, d3 = x3[j] - m;                  \
                one[j] += (d0 + d1) + (d2 + d3);                                                                  \
                two[j] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3);                                              \
            }                                                                                                     \
    }                                                                                                             \
                                                                                                                  \
    static T pivot_##T(const T *x, int64_t n)                                                                     \
    {                                                                                                             \
        T sum[LANES] = {0}, all = 0;                                                                              \
        int64_t rows = gt__min(n, PIVOT) / LANES, single = rows ? 0 : n;                                          \
        for (int64_t r = 0; r < rows; r++)                                                                        \
            for (int k = 0; k < LANES; k++)                                                                       \
                sum[k] += x[r * LANES + k];                                                                       \
        for (int64_t i = 0; i < single; i++)                                                                      \
            sum[i] = x[i];                                                                                        \
        for (int k = 0; k < LANES; k++)                                                                           \
            all += sum[k];                                                                                        \
        return isfinite(all) ? all / (T)(rows * LANES + single) : 0;                                              \
    }                                                                                                             \
                                                                                                                  \
    /* The same for columns: the mean of ROWS rows; of fewer, some count twice. */                                \
    static void column_pivots_##T(const T *const *x, int64_t rows, int64_t width, T *restrict pivot)              \
    {                                                                                                             \
        const T *restrict x0 = x[0], *restrict x1 = x[rows > 1], *restrict x2 = x[rows / 2],                      \
                          *restrict x3 = x[rows - 1];                                                             \
        for (int64_t j = 0; j < width; j++) {                                                                     \
            T sum = (x0[j] + x1[j]) + (x2[j] + x3[j]);                                                            \
            pivot[j] = isfinite(sum) ? sum / ROWS : 0;                                                            \
        }                                                                                                         \
    }                                                                                                             \
                                                                                                                  \
    static void sum_planes_##T(const normalisation *c, int64_t channel, int64_t begin, int64_t end, totals *t)    \
    {                                                                                                             \
        T tile[2][GT_TILE], pivot = 0;                                                                            \
        double first = 0, second = 0, base = NAN;                                                                 \
        int64_t most = run_length(c), left = 0; /* elements that the pivot still serves */                        \
        for (int64_t sample = begin; sample < end; sample++)                                                      \
            for (int64_t done = 0, n; done < c->inner; done += n) {                                               \
                int64_t at = (sample * c->channels + channel) * c->inner + done;                                  \
                n = gt__min(most, c->inner - done);                                                               \
                const T *x = read_run(c, &c->x, at, n, tile[0]);                                                  \
                if (c->g.data) {                                                                                  \
                    plane_sums_##T(read_run(c, &c->g, at, n, tile[1]), x, n, (T)c->mean[channel], &first,         \
                                   &second);                                                                      \
                    continue;                                                                                     \
                }                                                                                                 \
                if (left <= 0) {                                                                                  \
                    pivot = pivot_##T(x, n);                                                                      \
                    base = isnan(base) ? (double)pivot : base;                                                    \
                    left = STRETCH * gt__min(n, PIVOT);                                                           \
                }                                                                                                 \
                left -= n;                                                                                        \
                double one = 0, two = 0;                                                                          \
                plane_moments_##T(x, n, pivot, &one, &two);                                                       \
                if (5 * one * one > 4 * (double)n * two && isfinite(two)) { /* over 2 deviations away */          \
                    pivot += (T)(one / (double)n);                                                                \
                    one = two = 0;                                                                                \
                    plane_moments_##T(x, n, pivot, &one, &two);                                                   \
                }                                                                                                 \
                add_stretch(&first, &second, (double)pivot - base, (double)n, one, two);                          \
            }                                                                                                     \
        *t = finished(c, (double)((end - begin) * c->inner), base, first, second);                                \
    }                                                                                                             \
                                                                                                                  \
    /* add_stretch, or without pivots plain sums, of each column. */                                              \
    static void add_columns_##T(double *restrict first, double *restrict second, const T *restrict one,           \
                                const T *restrict two, const T *restrict pivot, const T *restrict base, double n, \
                                int64_t width)                                                                    \
    {                                                                                                             \
        if (!pivot)                                                                                               \
            for (int64_t j = 0; j < width; j++) {                                                                 \
                first[j] += (double)one[j];                                                                       \
                second[j] += (double)two[j];                                                                      \
            }                                                                                                     \
        else                                                                                                      \
            for (int64_t j = 0; j < width; j++)                                                                   \
                add_stretch(&first[j], &second[j], (double)pivot[j] - (double)base[j], n, (double)one[j],         \
                            (double)two[j]);                                                                      \
    }                                                                                                             \
                                                                                                                  \
    /* `width` channels side by side, at most GT_TILE, in planes of one element. */                               \
    static void sum_columns_##T(const normalisation *c, int64_t channel, int64_t width, int64_t begin,            \
                                int64_t end, totals *t)                                                           \
    {                                                                                                             \
        T tile[2][ROWS][GT_TILE], around[GT_TILE], base[GT_TILE], one[GT_TILE], two[GT_TILE];                     \
        double first[GT_TILE], second[GT_TILE];                                                                   \
        for (int64_t j = 0; j < width; j++) {                                                                     \
            around[j] = base[j] = c->mean ? (T)c->mean[channel + j] : 0;                                          \
            first[j] = second[j] = 0;                                                                             \
        }                                                                                                         \
        for (int64_t from = begin; from < end; from += FLUSH) {                                                   \
            int64_t until = gt__min(end, from + FLUSH);                                                           \
            memset(one, 0, (size_t)width * sizeof *one);                                                          \
            memset(two, 0, (size_t)width * sizeof *two);                                                          \
            for (int64_t s = from; s < until; s += ROWS) {                                                        \
                const T *rows[2][ROWS] = {{NULL}};                                                                \
                int64_t few = gt__min(ROWS, until - s);                                                           \
                for (int64_t r = 0; r < few; r++) {                                                               \
                    int64_t at = (s + r) * c->channels + channel;                                                 \
                    rows[0][r] = read_run(c, &c->x, at, width, tile[0][r]);                                       \
                    rows[1][r] = c->g.data ? read_run(c, &c->g, at, width, tile[1][r]) : NULL;                    \
                }                                                                                                 \
                if (!c->g.data && s == from)                                                                      \
                    column_pivots_##T(rows[0], few, width, around);                                               \
                if (!c->g.data && s == begin)                                                                     \
                    memcpy(base, around, (size_t)width * sizeof *base);                                           \
                add_rows_##T(one, two, c->g.data ? rows[1] : NULL, rows[0], around, few, width);                  \
            }                                                                                                     \
            add_columns_##T(first, second, one, two, c->g.data ? NULL : around, base, (double)(until - from),     \
                            width);                                                                               \
        }                                                                                                         \
        for (int64_t j = 0; j < width; j++)                                                                       \
            t[j] = finished(c, (double)(end - begin), (double)base[j], first[j], second[j]);                      \
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

/* Work item: a block of channels (one channel, or GT_TILE of them) in one part of the samples. */
static int64_t block_width(const normalisation *c)
{
    return c->inner == 1 ? GT_TILE : 1;
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
            (is_wide(c) ? sum_columns_double : sum_columns_float)(c, channel, few, first, last, t);
        else
            (is_wide(c) ? sum_planes_double : sum_planes_float)(c, channel, first, last, t);
    }
}

static void store_totals(const normalisation *c, int64_t channel, totals t, double inverse_deviation)
{
    double first = t.first, second = t.second;
    if (c->op == GT_OP_batch_moments)
        second /= t.count;
    else
        first *= inverse_deviation;
    if (is_wide(c)) {
        ((double *)c->out)[channel] = first;
        ((double *)c->out)[c->channels + channel] = second;
    } else {
        ((float *)c->out)[channel] = (float)first;
        ((float *)c->out)[c->channels + channel] = (float)second;
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
        T tile[3][GT_TILE];                                                                                       \
        int64_t most = run_length(c);                                                                             \
        for (int64_t plane = begin; plane < end; plane++) {                                                       \
            int64_t channel = plane % c->channels;                                                                \
            T mean = (T)c->mean[channel], b = (T)c->b[channel], d = (T)c->d[channel];                             \
            T a = c->g.data ? (T)c->a[channel] : 0;                                                               \
            for (int64_t done = 0, n; done < c->inner; done += n) {                                               \
                int64_t at = plane * c->inner + done;                                                             \
                n = gt__min(most, c->inner - done);                                                               \
                const T *restrict x = read_run(c, &c->x, at, n, tile[0]);                                         \
                const T *restrict g = c->g.data ? read_run(c, &c->g, at, n, tile[1]) : NULL;                      \
                T *restrict out = room_for_run(c, at, tile[2]);                                                   \
                if (g)                                                                                            \
                    for (int64_t i = 0; i < n; i++)                                                               \
                        out[i] = a * g[i] + b * (x[i] - mean) + d;                                                \
                else                                                                                              \
                    for (int64_t i = 0; i < n; i++)                                                               \
                        out[i] = (x[i] - mean) * b + d;                                                           \
                write_run(c, at, n, out);                                                                         \
            }                                                                                                     \
        }                                                                                                         \
    }                                                                                                             \
                                                                                                                  \
    /* Planes of one element: samples begin <= s < end, by tiles of channels. */                                  \
    static void apply_rows_##T(void *context, int64_t begin, int64_t end)                                         \
    {                                                                                                             \
        const normalisation *c = context;                                                                         \
        T tile[3][GT_TILE], mean[GT_TILE], a[GT_TILE], b[GT_TILE], d[GT_TILE];                                    \
        for (int64_t first = 0; first < c->channels; first += GT_TILE) {                                          \
            int64_t width = gt__min(c->channels - first, GT_TILE);                                                \
            for (int64_t j = 0; j < width; j++) {                                                                 \
                mean[j] = (T)c->mean[first + j];                                                                  \
                a[j] = c->g.data ? (T)c->a[first + j] : 0;                                                        \
                b[j] = (T)c->b[first + j];                                                                        \
                d[j] = (T)c->d[first + j];                                                                        \
            }                                                                                                     \
            for (int64_t sample = begin; sample < end; sample++) {                                                \
                int64_t at = sample * c->channels + first;                                                        \
                const T *restrict x = read_run(c, &c->x, at, width, tile[0]);                                     \
                const T *restrict g = c->g.data ? read_run(c, &c->g, at, width, tile[1]) : NULL;                  \
                T *restrict out = room_for_run(c, at, tile[2]);                                                   \
                if (g)                                                                                            \
                    for (int64_t j = 0; j < width; j++)                                                           \
                        out[j] = a[j] * g[j] + b[j] * (x[j] - mean[j]) + d[j];                                    \
                else                                                                                              \
                    for (int64_t j = 0; j < width; j++)                                                           \
                        out[j] = (x[j] - mean[j]) * b[j] + d[j];                                                  \
                write_run(c, at, width, out);                                                                     \
            }                                                                                                     \
        }                                                                                                         \
    }
APPLY_LOOPS(float)
APPLY_LOOPS(double)

static void run_apply(gt_cpu *cpu, normalisation *c)
{
    if (c->inner == 1)
        gt__parallel_for(cpu->parallel, c->samples, gt__grain(c->channels),
                         is_wide(c) ? apply_rows_double : apply_rows_float, c);
    else
        gt__parallel_for(cpu->parallel, c->samples * c->channels, gt__grain(c->inner),
                         is_wide(c) ? apply_planes_double : apply_planes_float, c);
}

/* ---- operands ----------------------------------------------------------------------------------------------- */

static double number(const normalisation *c, const gt_dense *dense, int64_t row, int64_t channel)
{
    int64_t at = row * c->channels + channel;
    return is_wide(c) ? ((const double *)dense->data)[at] : (double)((const float *)dense->data)[at];
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

static gt_err prepare_numbers(gt_cpu *cpu, const gt_call *call, normalisation *c)
{
    gt_dense last = {0}, affine = {0};
    bool forward = c->op == GT_OP_batch_norm, plain = forward && call->in[2]->meta.rank == 0;
    gt_err err = gt__dense_read(cpu, call->in[forward ? 1 : 2], c->compute, &last);
    if (err == GT_OK && forward && !plain)
        err = gt__dense_read(cpu, call->in[2], c->compute, &affine);
    if (err == GT_OK && c->op == GT_OP_batch_norm_backward)
        set_backward(c, &last, call->in[2]->meta.shape[0], call->ins->imm[0].i);
    else if (err == GT_OK)
        set_forward(c, &last, forward && !plain ? &affine : NULL);
    free(last.scratch);
    free(affine.scratch);
    return err;
}

static gt_err read_planes(gt_cpu *cpu, const gt_view *view, plane_source *s)
{
    *s = (plane_source){.data = view->data, .dtype = (gt_dtype)view->meta.dtype};
    if (view->contiguous)
        return GT_OK;
    GT_TRY(gt__cpu_scratch(cpu, (size_t)view->meta.numel * gt__dtype_size(s->dtype), &s->scratch));
    gt__cpu_copy_view(cpu, view, s->dtype, s->scratch);
    s->data = s->scratch;
    return GT_OK;
}

static gt_err run(gt_cpu *cpu, const gt_call *call, normalisation *c)
{
    unsigned k = c->op == GT_OP_batch_moments || c->op == GT_OP_batch_norm ? 0 : 1;
    GT_TRY(read_planes(cpu, call->in[k], &c->x));
    if (k)
        GT_TRY(read_planes(cpu, call->in[0], &c->g));
    if (c->op != GT_OP_batch_moments)
        GT_TRY(prepare_numbers(cpu, call, c));
    if (c->op == GT_OP_batch_moments || c->op == GT_OP_batch_norm_backward_affine)
        return run_sums(cpu, c);
    run_apply(cpu, c);
    return GT_OK;
}

gt_err gt__cpu_channels(gt_engine *engine, const gt_call *call)
{
    gt_cpu *cpu = gt__cpu(engine);
    bool first = call->op == GT_OP_batch_moments || call->op == GT_OP_batch_norm;
    const gt_meta *x = &call->in[first ? 0 : 1]->meta;
    normalisation c = {.cpu = cpu,
                       .op = call->op,
                       .compute = gt__cpu_compute((gt_dtype)x->dtype),
                       .samples = x->shape[0],
                       .channels = x->shape[1],
                       .inner = 1,
                       .eps = call->ins->imm[1].f,
                       .out = call->out->data,
                       .out_dtype = (gt_dtype)call->out->meta.dtype};
    void *room = NULL;
    for (int axis = 2; axis < x->rank; axis++)
        c.inner *= x->shape[axis];
    if (c.inner == 0) /* planes without elements: there may be any number of them */
        c.samples = 0;
    if (call->out->meta.numel == 0)
        return GT_OK;
    if (call->op != GT_OP_batch_moments) {
        GT_TRY(gt__cpu_scratch(cpu, (size_t)c.channels * 4 * sizeof *c.mean, &room));
        c.mean = room;
        c.a = c.mean + c.channels;
        c.b = c.a + c.channels;
        c.d = c.b + c.channels;
    }
    gt_err err = run(cpu, call, &c);
    free(room);
    free(c.x.scratch);
    free(c.g.scratch);
    return err;
}

/*
 * sparse.c: products with a sparse matrix, given by the positions (2, count) of its elements and their values.
 *
 * Threads divide the rows of the result, so entries are grouped by row first: for free if they are sorted already, as those
 * of a coalesced matrix are, else by counting. The order of entries within a row is kept, so results do not depend on
 * the number of threads. Read movement.h first.
 */
#include <stdlib.h>
#include <string.h>

#include "engines/cpu/movement.h"

/* One row of the index tensor, read and checked. */
typedef struct places {
    const int64_t *numbers;
    void *scratch;
} places;

static gt_err read_places(gt_cpu *cpu, const gt_view *indices, int row, int64_t size, places *p)
{
    gt_view one = *indices;
    one.meta.rank = 1;
    one.meta.shape[0] = one.meta.numel = indices->meta.shape[1];
    one.stride[0] = indices->stride[1];
    one.data = gt__at(indices->data, (gt_dtype)indices->meta.dtype, row * indices->stride[0]);
    one.contiguous = one.stride[0] == 1 || one.meta.numel < 2;
    return gt__cpu_read_index(cpu, &one, 0, row, size, &p->numbers, &p->scratch);
}

/* ---- groups ------------------------------------------------------------------------------------------------- */

typedef struct groups {
    int64_t *start; /* of each row, and the end */
    int64_t *order; /* entries by row; NULL: as they are */
} groups;

static gt_err group_rows(const gt_cpu *cpu, const int64_t *rows, int64_t count, int64_t row_count, groups *g)
{
    bool sorted = true;
    void *memory = NULL;
    for (int64_t k = 1; k < count; k++)
        sorted &= rows[k - 1] <= rows[k];
    size_t words = (size_t)row_count + 2 + (sorted ? 0 : (size_t)count);
    GT_TRY(gt__cpu_scratch(cpu, words * sizeof(int64_t), &memory));
    g->start = memory;
    g->order = sorted ? NULL : g->start + row_count + 2;
    memset(g->start, 0, ((size_t)row_count + 2) * sizeof(int64_t));
    /* Counted one place further, so that filling in the order moves each start to its place. */
    for (int64_t k = 0; k < count; k++)
        g->start[rows[k] + 2]++;
    for (int64_t row = 1; row < row_count + 2; row++)
        g->start[row] += g->start[row - 1];
    if (sorted)
        memmove(g->start, g->start + 1, ((size_t)row_count + 1) * sizeof(int64_t));
    for (int64_t k = 0; !sorted && k < count; k++)
        g->order[g->start[rows[k] + 1]++] = k;
    return GT_OK;
}

/* ---- sparse_mm: out (rows, width) = sparse (rows, columns) @ dense (columns, width) ----------------------------- */

typedef struct product {
    groups g;
    const int64_t *columns;
    const void *values, *dense;
    void *out;
    int64_t width;
} product;

#define PRODUCT_ROWS(name, T)                                                                                     \
    static void name(void *context, int64_t begin, int64_t end)                                                   \
    {                                                                                                             \
        const product *p = context;                                                                               \
        const T *values = p->values, *dense = p->dense;                                                           \
        const int64_t width = p->width;                                                                           \
        for (int64_t row = begin; row < end; row++) {                                                             \
            T *restrict out = (T *)p->out + row * width;                                                          \
            for (int64_t j = 0; j < width; j++)                                                                   \
                out[j] = 0;                                                                                       \
            for (int64_t k = p->g.start[row]; k < p->g.start[row + 1]; k++) {                                     \
                int64_t entry = p->g.order ? p->g.order[k] : k;                                                   \
                const T value = values[entry];                                                                    \
                const T *x = dense + p->columns[entry] * width;                                                   \
                for (int64_t j = 0; j < width; j++)                                                               \
                    out[j] += value * x[j];                                                                       \
            }                                                                                                     \
        }                                                                                                         \
    }
PRODUCT_ROWS(product_rows_float, float)
PRODUCT_ROWS(product_rows_double, double)

/* ---- sampled_mm: out (count) = the products of row i of a and row j of b at the places (i, j) -------------------- */

typedef struct sampling {
    const int64_t *rows, *columns;
    const void *a, *b;
    void *out;
    int64_t width;
} sampling;

/* Eight sums at a time: compilers may not reorder one. */
#define SAMPLES(name, T)                                                                                          \
    static void name(void *context, int64_t begin, int64_t end)                                                   \
    {                                                                                                             \
        const sampling *s = context;                                                                              \
        for (int64_t k = begin; k < end; k++) {                                                                   \
            const T *a = (const T *)s->a + s->rows[k] * s->width,                                                 \
                    *b = (const T *)s->b + s->columns[k] * s->width;                                              \
            T sums[8] = {0}, total = 0;                                                                           \
            int64_t j = 0;                                                                                        \
            for (; j + 8 <= s->width; j += 8)                                                                     \
                for (int lane = 0; lane < 8; lane++)                                                              \
                    sums[lane] += a[j + lane] * b[j + lane];                                                      \
            for (; j < s->width; j++)                                                                             \
                total += a[j] * b[j];                                                                             \
            for (int lane = 0; lane < 8; lane++)                                                                  \
                total += sums[lane];                                                                              \
            ((T *)s->out)[k] = total;                                                                             \
        }                                                                                                         \
    }
SAMPLES(samples_float, float)
SAMPLES(samples_double, double)

/* ------------------------------------------------------------------------------------------------------------- */

static gt_err run_product(gt_cpu *cpu, const gt_call *call, const places *rows, const places *columns,
                          const gt_dense *operand)
{
    int64_t row_count = call->out->meta.shape[0], count = call->in[0]->meta.shape[1];
    product p = {.columns = columns->numbers,
                 .values = operand[1].data,
                 .dense = operand[2].data,
                 .out = call->out->data,
                 .width = call->out->meta.shape[1]};
    GT_TRY(group_rows(cpu, rows->numbers, count, row_count, &p.g));
    int64_t work = row_count ? count * p.width / row_count + p.width + 1 : 1; /* of a row, on average */
    gt__parallel_for(cpu->parallel, row_count, gt__grain(work),
                     call->out->meta.dtype == GT_FLOAT64 ? product_rows_double : product_rows_float, &p);
    free(p.g.start);
    return GT_OK;
}

static gt_err run_samples(gt_cpu *cpu, const gt_call *call, const places *rows, const places *columns,
                          const gt_dense *operand)
{
    sampling s = {.rows = rows->numbers,
                  .columns = columns->numbers,
                  .a = operand[1].data,
                  .b = operand[2].data,
                  .out = call->out->data,
                  .width = call->in[1]->meta.shape[1]};
    gt__parallel_for(cpu->parallel, call->out->meta.numel, gt__grain(s.width + 1),
                     call->out->meta.dtype == GT_FLOAT64 ? samples_double : samples_float, &s);
    return GT_OK;
}

gt_err gt__cpu_sparse(gt_engine *engine, const gt_call *call)
{
    gt_cpu *cpu = gt__cpu(engine);
    bool samples = call->op == GT_OP_sampled_mm;
    int first = samples ? 0 : (int)call->ins->imm[1].i; /* the row of the indices that names rows of the result */
    int64_t rows = samples ? call->in[1]->meta.shape[0] : call->out->meta.shape[0];
    gt_compute compute = gt__cpu_compute((gt_dtype)call->out->meta.dtype);
    gt_dense operand[3] = {{0}};
    places to = {0}, from = {0};
    gt_err err = read_places(cpu, call->in[0], first, rows, &to);
    if (err == GT_OK)
        err = read_places(cpu, call->in[0], 1 - first, call->in[2]->meta.shape[0], &from);
    for (unsigned k = 1; k < 3 && err == GT_OK; k++)
        err = gt__dense_read(cpu, call->in[k], compute, &operand[k]);
    if (err == GT_OK && call->out->meta.numel > 0)
        err = (samples ? run_samples : run_product)(cpu, call, &to, &from, operand);
    free(to.scratch);
    free(from.scratch);
    free(operand[1].scratch);
    free(operand[2].scratch);
    return err;
}

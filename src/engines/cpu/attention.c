/*
 * attention.c: attention and its gradients without the matrix of all scores. Read core/attention.h first.
 *
 * A block is some queries of one batch. Its scores (rows, keys) stay in the cache between the product with the keys, the
 * softmax and the product with the values. The gradients compute the scores again: keeping them would cost more memory than
 * everything else together. With P the weights, all for one block:
 *     D = g v'    S = P (D - sum(P D))    of q: S k scale    of k, added up: S' q scale    of v, added up: P' g
 * Blocks that see few keys (causal) compute only those. Half precision is computed in float32 and rounded once. Products are
 * OpenBLAS's or, on x86-64, our own, on the calling thread; our threads share the blocks.
 */
#include <cblas.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/attention.h"
#include "engines/cpu/movement.h"
#include "engines/cpu/product.h"

enum {
    TILE_SCORES = 64 * 1024, /* of a block: they fit the second-level cache */
    LEAST_ROWS = 16,
    MOST_ROWS = 256,
    CAUSAL_ROWS = 32, /* longer blocks compute more scores that are not seen */
};

/* A matrix of each batch: rows are `row` elements apart, elements of a row are neighbours. */
typedef struct operand {
    char *data;
    int64_t row;
    int64_t batch_stride[GT_MAX_RANK];
    void *scratch; /* the copy, if one was made */
} operand;

typedef struct attention {
    gt_cpu *cpu;
    gt_compute compute;
    size_t size; /* of an element */
    gt_attention_sizes n;
    double scale;
    int64_t period, rows, blocks; /* queries of a block, blocks of a batch */
    operand q, k, v;
    gt_loop batch; /* views: q, k, v */
    char *out;
    int64_t result; /* elements of a batch's result */
    /* backward only: each batch's blocks are divided into parts that add up their own gradients of k and v */
    int64_t parts;
    char *sums; /* (batches, parts, keys, width + value width); NULL: one part, which writes to the result */
    atomic_bool out_of_memory;
} attention;

/* Where one batch's matrices are. */
typedef struct head {
    const char *q, *g, *k, *v;
    char *out;
} head;

/* ---- operands ----------------------------------------------------------------------------------------------- */

static gt_err prepare(attention *a, const gt_view *view, gt_dtype native, operand *x)
{
    unsigned rank = view->meta.rank;
    int64_t columns = view->meta.shape[rank - 1], stride = columns;
    bool readable = view->meta.dtype == native && view->stride[rank - 1] == 1 &&
                    view->stride[rank - 2] >= columns && view->stride[rank - 2] <= INT32_MAX;
    if (readable) {
        x->data = view->data;
        x->row = view->stride[rank - 2];
        memcpy(x->batch_stride, view->stride, sizeof x->batch_stride);
        return GT_OK;
    }
    GT_TRY(gt__cpu_scratch(a->cpu, (size_t)view->meta.numel * a->size, &x->scratch));
    gt__cpu_copy_view(a->cpu, view, native, x->scratch);
    x->data = x->scratch;
    x->row = columns;
    for (int axis = (int)rank - 2; axis >= 0; axis--) {
        if (axis + 2 < (int)rank)
            x->batch_stride[axis] = stride;
        stride *= view->meta.shape[axis];
    }
    return GT_OK;
}

static head head_of(const attention *a, int64_t batch)
{
    int64_t offset[GT_LOOP_VIEWS], size = (int64_t)a->size;
    gt__loop_offsets(&a->batch, a->batch.rank, batch, offset);
    head h = {.q = a->q.data + offset[0] * size,
              .k = a->k.data + offset[1] * size,
              .v = a->v.data + offset[2] * size,
              .out = a->out + batch * a->result * size};
    h.g = h.q + a->n.width * size; /* of the backward row: beside the query */
    return h;
}

/* ---- blocks ------------------------------------------------------------------------------------------------- */

typedef struct factor {
    const void *data;
    int64_t row;
    bool transposed;
} factor;

/* out (m, n) = alpha a (m, k) @ b (k, n) + beta out */
static void multiply(const attention *a, int64_t m, int64_t n, int64_t k, double alpha, factor x, factor y,
                     double beta, void *out, int64_t row)
{
    CBLAS_TRANSPOSE of_x = x.transposed ? CblasTrans : CblasNoTrans,
                    of_y = y.transposed ? CblasTrans : CblasNoTrans;
    blasint rows = (blasint)m, columns = (blasint)n, inner = (blasint)k;
    /* BLAS wants distances of at least 1, even of rows without elements. */
    blasint x_row = (blasint)(x.row + !x.row), y_row = (blasint)(y.row + !y.row), out_row = (blasint)(row + !row);
    gt_product own = {.m = m,
                      .n = n,
                      .k = k,
                      .a = x.data,
                      .b = y.data,
                      .a_row = x.transposed ? 1 : x.row,
                      .a_column = x.transposed ? x.row : 1,
                      .b_row = y.transposed ? 1 : y.row,
                      .b_column = y.transposed ? y.row : 1,
                      .out = out,
                      .out_row = row,
                      .scale = (float)alpha,
                      .adds = beta != 0};
    if (a->compute == GT_COMPUTE_F32 && a->cpu->kernels->tiles && m > 1 && n > 1 && k > 0 &&
        gt__product(a->cpu, &own))
        return;
    if (a->compute == GT_COMPUTE_F64)
        cblas_dgemm(CblasRowMajor, of_x, of_y, rows, columns, inner, alpha, x.data, x_row, y.data, y_row, beta,
                    out, out_row);
    else
        cblas_sgemm(CblasRowMajor, of_x, of_y, rows, columns, inner, (float)alpha, x.data, x_row, y.data, y_row,
                    (float)beta, out, out_row);
}

/* The weights (rows, keys) of queries first <= i < first + rows. Returns how many keys any of them sees. */
static int64_t weigh(const attention *a, const head *h, int64_t first, int64_t rows, char *weights)
{
    int64_t columns = 0, keys = a->n.keys, size = (int64_t)a->size;
    for (int64_t i = first; i < first + rows && columns < keys; i++) {
        int64_t seen = gt__attention_seen(i, a->period, keys);
        columns = seen > columns ? seen : columns;
    }
    if (columns == 0)
        return 0;
    multiply(a, rows, columns, a->n.width, a->scale,
             (factor){.data = h->q + first * a->q.row * size, .row = a->q.row},
             (factor){.data = h->k, .row = a->k.row, .transposed = true}, 0, weights, keys);
    gt_look look = {.parallel = a->cpu->parallel, .left = GT_LOOK_ELEMENTS};
    for (int64_t i = 0; i < rows; i++) {
        char *row = weights + i * keys * size;
        int64_t seen = gt__attention_seen(first + i, a->period, keys);
        a->cpu->kernels->softmax_row[a->compute](row, row, seen, false, &look);
        memset(row + seen * size, 0, (size_t)((columns - seen) * size));
    }
    return columns;
}

/* Blocks begin <= t < end, numbered through all batches. */
static void forward_blocks(void *context, int64_t begin, int64_t end)
{
    attention *a = context;
    int64_t size = (int64_t)a->size, width = a->n.value_width;
    char *weights = malloc((size_t)(a->rows * a->n.keys * size));
    if (!weights) {
        atomic_store(&a->out_of_memory, true);
        return;
    }
    for (; begin < end && !gt__parallel_poll(a->cpu->parallel); begin++) {
        head h = head_of(a, begin / a->blocks);
        int64_t first = begin % a->blocks * a->rows, rows = gt__min(a->rows, a->n.queries - first);
        int64_t columns = weigh(a, &h, first, rows, weights);
        multiply(a, rows, width, columns, 1, (factor){.data = weights, .row = a->n.keys},
                 (factor){.data = h.v, .row = a->v.row}, 0, h.out + first * width * size, width);
    }
    free(weights);
}

/* The gradients from one block; those of k and v are added up. `slopes` lies behind the weights. */
static void backward_block(const attention *a, const head *h, int64_t first, char *weights, char *of_keys,
                           char *of_values)
{
    int64_t size = (int64_t)a->size, keys = a->n.keys, width = a->n.width, value_width = a->n.value_width;
    int64_t rows = gt__min(a->rows, a->n.queries - first);
    char *slopes = weights + a->rows * keys * size;
    factor q = {.data = h->q + first * a->q.row * size, .row = a->q.row};
    factor g = {.data = h->g + first * a->q.row * size, .row = a->q.row};
    int64_t columns = weigh(a, h, first, rows, weights);
    multiply(a, rows, columns, value_width, 1, g, (factor){.data = h->v, .row = a->v.row, .transposed = true}, 0,
             slopes, keys);
    multiply(a, columns, value_width, rows, 1, (factor){.data = weights, .row = keys, .transposed = true}, g, 1,
             of_values, value_width);
    gt_look look = {.parallel = a->cpu->parallel, .left = GT_LOOK_ELEMENTS};
    for (int64_t i = 0; i < rows; i++) {
        char *row = slopes + i * keys * size;
        a->cpu->kernels->softmax_backward_row[a->compute](row, row, weights + i * keys * size, columns, false,
                                                          &look);
    }
    multiply(a, rows, width, columns, a->scale, (factor){.data = slopes, .row = keys},
             (factor){.data = h->k, .row = a->k.row}, 0, h->out + first * width * size, width);
    multiply(a, columns, width, rows, a->scale, (factor){.data = slopes, .row = keys, .transposed = true}, q, 1,
             of_keys, width);
}

/* Parts begin <= t < end, numbered through all batches. */
static void backward_parts(void *context, int64_t begin, int64_t end)
{
    attention *a = context;
    int64_t size = (int64_t)a->size, both = a->n.keys * (a->n.width + a->n.value_width);
    char *weights = malloc((size_t)(2 * a->rows * a->n.keys * size));
    if (!weights) {
        atomic_store(&a->out_of_memory, true);
        return;
    }
    for (; begin < end; begin++) {
        head h = head_of(a, begin / a->parts);
        int64_t part = begin % a->parts, stop = (part + 1) * a->blocks / a->parts;
        char *of_keys = a->sums ? a->sums + begin * both * size : h.out + a->n.queries * a->n.width * size;
        memset(of_keys, 0, (size_t)(both * size)); /* all floats write 0 as zero bytes */
        for (int64_t block = part * a->blocks / a->parts; block < stop && !gt__parallel_poll(a->cpu->parallel);
             block++)
            backward_block(a, &h, block * a->rows, weights, of_keys, of_keys + a->n.keys * a->n.width * size);
    }
    free(weights);
}

/* Of each batch, the sum of what its parts have added up. */
static void add_parts(void *context, int64_t begin, int64_t end)
{
    const attention *a = context;
    int64_t size = (int64_t)a->size, both = a->n.keys * (a->n.width + a->n.value_width);
    for (int64_t batch = begin; batch < end; batch++) {
        char *to = a->out + (batch * a->result + a->n.queries * a->n.width) * size;
        const char *from = a->sums + batch * a->parts * both * size;
        memcpy(to, from, (size_t)(both * size));
        for (int64_t part = 1; part < a->parts; part++) {
            if (a->compute == GT_COMPUTE_F64)
                cblas_daxpy((blasint)both, 1, (const double *)(from + part * both * size), 1, (double *)to, 1);
            else
                cblas_saxpy((blasint)both, 1, (const float *)(from + part * both * size), 1, (float *)to, 1);
        }
    }
}

/* ---- the whole ---------------------------------------------------------------------------------------------- */

static void plan_blocks(attention *a)
{
    int64_t most = a->period ? CAUSAL_ROWS : MOST_ROWS, threads = gt__parallel_threads(a->cpu->parallel);
    int64_t rows = TILE_SCORES / (a->n.keys + 1);
    rows = rows < LEAST_ROWS ? LEAST_ROWS : rows > most ? most : rows / 8 * 8;
    a->rows = gt__min(rows, a->n.queries);
    a->blocks = (a->n.queries + a->rows - 1) / a->rows;
    a->parts = a->n.batches < 2 * threads ? gt__min(a->blocks, threads) : 1;
}

/* The batch axes, for all operands. */
static void plan_batch(attention *a, const gt_meta *q)
{
    const operand *operands[] = {&a->q, &a->k, &a->v};
    a->batch = (gt_loop){.rank = q->rank - 2, .views = 3};
    for (int axis = 0; axis < a->batch.rank; axis++) {
        a->batch.shape[axis] = q->shape[axis];
        for (int view = 0; view < 3; view++)
            a->batch.stride[view][axis] = operands[view]->batch_stride[axis];
    }
    if (a->batch.rank > 0)
        gt__loop_collapse(&a->batch);
}

static gt_err run(attention *a, const gt_call *call)
{
    gt_parallel *parallel = a->cpu->parallel;
    int64_t work = a->rows * a->n.keys * a->n.width + 1, grain = GT_CPU_GRAIN * 4 / work + 1;
    if (call->op == GT_OP_attention) {
        gt__parallel_for(parallel, a->n.batches * a->blocks, grain, forward_blocks, a);
    } else {
        void *sums = NULL;
        int64_t both = a->n.keys * (a->n.width + a->n.value_width);
        if (a->parts > 1)
            GT_TRY(gt__cpu_scratch(a->cpu, (size_t)(a->n.batches * a->parts * both) * a->size, &sums));
        a->sums = sums;
        gt__parallel_for(parallel, a->n.batches * a->parts, grain / 4 + 1, backward_parts, a);
        if (sums)
            gt__parallel_for(parallel, a->n.batches, GT_CPU_GRAIN / (both + 1) + 1, add_parts, a);
        free(sums);
    }
    return atomic_load(&a->out_of_memory) ? gt__fail(GT_ERR_MEMORY, "out of memory") : GT_OK;
}

/* BLAS counts in 32 bits, and a thread's scores must be allocatable. */
static bool too_long(const gt_attention_sizes *n)
{
    return n->queries > INT32_MAX || n->keys > INT32_MAX / MOST_ROWS || n->width > INT32_MAX ||
           n->value_width > INT32_MAX || n->keys * (n->width + n->value_width) > INT32_MAX;
}

gt_err gt__cpu_attention(gt_engine *engine, const gt_call *call)
{
    const gt_meta *q = &call->in[0]->meta;
    attention a = {.cpu = gt__cpu(engine),
                   .compute = gt__cpu_compute((gt_dtype)q->dtype),
                   .n = gt__attention_sizes(q, &call->in[1]->meta, &call->in[2]->meta),
                   .scale = call->ins->imm[0].f,
                   .period = call->ins->imm[1].i};
    gt_dtype native = a.compute == GT_COMPUTE_F64 ? GT_FLOAT64 : GT_FLOAT32;
    a.size = gt__dtype_size(native);
    if (call->out->meta.numel == 0)
        return GT_OK;
    if (a.n.queries == 0 || a.n.keys == 0) { /* nothing to weigh: all sums are empty */
        memset(call->out->data, 0, gt__meta_bytes(&call->out->meta));
        return GT_OK;
    }
    if (too_long(&a.n))
        return gt__fail(GT_ERR_UNSUPPORTED, "%s: the matrices are too large", gt__op_table[call->op].name);
    a.result = call->out->meta.numel / a.n.batches;
    plan_blocks(&a);
    gt_dense out = {.data = NULL};
    gt_err err = prepare(&a, call->in[0], native, &a.q);
    err = err == GT_OK ? prepare(&a, call->in[1], native, &a.k) : err;
    err = err == GT_OK ? prepare(&a, call->in[2], native, &a.v) : err;
    err = err == GT_OK ? gt__dense_result(a.cpu, call->out, a.compute, &out) : err;
    if (err == GT_OK) {
        plan_batch(&a, q);
        a.out = out.data;
        err = run(&a, call);
    }
    if (err == GT_OK)
        gt__dense_finish(a.cpu, call->out, a.compute, &out);
    free(out.scratch);
    free(a.q.scratch);
    free(a.k.scratch);
    free(a.v.scratch);
    return err;
}

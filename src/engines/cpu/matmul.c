/*
 * matmul.c: runs MATMUL, by OpenBLAS or our own loops (product.h) for floats and plain loops for integers.
 *
 * Every product is out (batch, m, n) = a (batch, m, k) @ b (batch, k, n); a 1-d operand is a single row or column.
 * A matrix that BLAS can read (unit stride one way, any leading dimension the other) is used where it is, any
 * other is copied first; half precision is computed in float32. OpenBLAS is limited to the calling thread: our
 * threads divide batches, or the rows and columns of one product. Read cpu.h first.
 */
#include <cblas.h>
#include <stdlib.h>
#include <string.h>

#include "engines/cpu/movement.h"
#include "engines/cpu/product.h"

enum {
    SMALL_PRODUCT = 128 * 1024,  /* multiplications: up to here one thread is faster */
    PIECE_PRODUCT = 1024 * 1024, /* that a third thread is worth: each has memory of its own for what it packs */
    TINY_PRODUCT = 8 * 8 * 8,    /* multiplications below which a BLAS call costs more than a plain loop */
    PIECE_ALIGNMENT = 8,         /* rows or columns: the unit of BLAS kernels */
    BATCH_TASKS = 2,             /* of a thread, if there are several products */
    OWN_TASKS =
        4, /* of a thread, if they are product_x86.c's, which packs cheaply: threads are not equally fast */
    COPY_COST = 16, /* of an element that BLAS packs, in multiplications */
    POLL = 1 << 24, /* multiplications between two looks whether the work was cancelled */
};

/* Multiplications of float32 in one call of BLAS, which cannot be interrupted: about 0.2 s. A piece with more is cut
 * into slabs, which costs less than a percent since their sides stay long. */
#define SLAB_PRODUCT ((int64_t)4 << 30)
enum {
    LEAST_SLAB = 512,       /* rows or columns */
    LEAST_VECTOR_SLAB = 64, /* of a product with a vector, for which BLAS packs nothing */
    /* Terms: where each element is a sum of more than twice as many, it is computed in parts of so many. BLAS adds parts of some
     * hundred terms to the result as well; if their length divides this number the sum is the same, else it may be rounded
     * differently. */
    SLAB_TERMS = 3840,
};

/* One operand: its matrices lie `loop`'s offsets from data; element (i, j) is at i * row + j * column. */
typedef struct matrix {
    char *data;
    int64_t rows, columns;
    int64_t row, column; /* strides, in elements */
    int64_t batch_stride[GT_MAX_RANK];
    void *scratch; /* the copy, if one was made */
} matrix;

typedef struct product {
    gt_cpu *cpu;
    gt_compute compute;
    gt_dtype dtype; /* of the operands and the result while they are multiplied */
    size_t size;    /* of an element */
    int64_t m, n, k;
    matrix a, b;
    char *out;     /* contiguous (batch, m, n) */
    gt_loop batch; /* views: a, b */
    int64_t batches;
    bool plain;                        /* integers, and sizes beyond BLAS's int */
    bool own;                          /* by product.h */
    int64_t row_piece, column_piece;   /* rows and columns of the result that a piece has */
    int64_t row_pieces, column_pieces; /* of each product */
} product;

/* A rectangle of one product: what one BLAS call computes. */
typedef struct block {
    int64_t m, n, k;
    const char *a, *b;
    char *out;
    bool adds; /* to what out has; not for products with a vector */
} block;

/* ---- operands ---------------------------------------------------------------------------------------------- */

static int64_t at_least_one(int64_t value)
{
    return value > 1 ? value : 1;
}

/* The stride of an axis of size 1 is unused: set it so that BLAS can read the matrix. */
static void settle_strides(matrix *x)
{
    if (x->columns == 1)
        x->column = x->rows == 1 || x->row != 1 ? 1 : at_least_one(x->rows);
    if (x->rows == 1)
        x->row = x->column == 1 ? at_least_one(x->columns) : 1;
}

static bool readable(const matrix *x)
{
    return (x->column == 1 && x->row >= at_least_one(x->columns)) ||
           (x->row == 1 && x->column >= at_least_one(x->rows));
}

/* The matrix at the end of a view; `column_vector` says what a 1-d operand is. */
static void describe(matrix *x, const gt_view *view, bool column_vector)
{
    int rank = view->meta.rank;
    const int64_t *shape = view->meta.shape, *stride = view->stride;
    *x = (matrix){.data = view->data};
    if (rank == 1) {
        x->rows = column_vector ? shape[0] : 1;
        x->columns = column_vector ? 1 : shape[0];
        x->row = x->column = stride[0];
    } else {
        x->rows = shape[rank - 2];
        x->columns = shape[rank - 1];
        x->row = stride[rank - 2];
        x->column = stride[rank - 1];
    }
    for (int axis = 0; axis < rank - 2; axis++)
        x->batch_stride[axis] = stride[axis];
    settle_strides(x);
}

/* Exchange the last two axes. */
static void transpose_view(gt_view *view)
{
    int last = view->meta.rank - 1;
    int64_t size = view->meta.shape[last], stride = view->stride[last];
    view->meta.shape[last] = view->meta.shape[last - 1];
    view->stride[last] = view->stride[last - 1];
    view->meta.shape[last - 1] = size;
    view->stride[last - 1] = stride;
}

/*
 * Replace the operand by a copy of the given dtype, with the order of its axes in memory, which BLAS can read either way;
 * broadcast batch axes stay broadcast.
 */
static gt_err copy_operand(product *p, matrix *x, const gt_view *view, gt_dtype dtype, bool column_vector)
{
    gt_view source = *view, copy;
    bool crossed = view->meta.rank >= 2 && x->row == 1 && x->column != 1;
    for (int axis = 0; axis < (int)view->meta.rank - 2; axis++)
        if (view->stride[axis] == 0 && view->meta.shape[axis] > 1)
            source.meta.shape[axis] = 1;
    source.contiguous = false;
    GT_TRY(gt__meta_set(&source.meta, (gt_dtype)view->meta.dtype, view->meta.rank, source.meta.shape));
    if (crossed)
        transpose_view(&source);
    copy = source;
    int64_t stride = 1;
    for (int axis = (int)view->meta.rank - 1; axis >= 0; axis--) {
        bool broadcast = axis < (int)view->meta.rank - 2 && source.meta.shape[axis] != view->meta.shape[axis];
        copy.stride[axis] = broadcast ? 0 : stride;
        stride *= source.meta.shape[axis];
    }
    void *scratch = NULL;
    GT_TRY(gt__cpu_scratch(p->cpu, (size_t)stride * gt__dtype_size(dtype), &scratch));
    gt__cpu_copy_view(p->cpu, &source, dtype, scratch);
    copy.data = scratch;
    if (crossed)
        transpose_view(&copy);
    describe(x, &copy, column_vector);
    x->scratch = scratch;
    return GT_OK;
}

static gt_err prepare_operand(product *p, matrix *x, const gt_view *view, gt_dtype dtype, bool column_vector)
{
    describe(x, view, column_vector);
    if (view->meta.dtype == dtype && (readable(x) || p->compute == GT_COMPUTE_I64))
        return GT_OK;
    return copy_operand(p, x, view, dtype, column_vector);
}

/* ---- one block --------------------------------------------------------------------------------------------- */

/* Plain loops: integers (which wrap), and float products too small for BLAS. Four rows of b at a time. */
#define PLAIN_PRODUCT(name, T)                                                                                    \
    static void name(const product *p, const block *x)                                                            \
    {                                                                                                             \
        const int64_t n = x->n, k = x->k, row = p->b.row, column = p->b.column, step = p->a.column;               \
        const T *a = (const T *)x->a;                                                                             \
        T *restrict out = (T *)x->out;                                                                            \
        for (int64_t i = 0; i < x->m; i++, a += p->a.row, out += p->n) {                                          \
            const T *b = (const T *)x->b;                                                                         \
            int64_t l = 0;                                                                                        \
            for (int64_t j = 0; j < n && !x->adds; j++)                                                           \
                out[j] = 0;                                                                                       \
            for (; l + 4 <= k && column == 1; l += 4, b += 4 * row) {                                             \
                const T a0 = a[l * step], a1 = a[(l + 1) * step];                                                 \
                const T a2 = a[(l + 2) * step], a3 = a[(l + 3) * step];                                           \
                for (int64_t j = 0; j < n; j++)                                                                   \
                    out[j] += a0 * b[j] + a1 * b[j + row] + a2 * b[j + 2 * row] + a3 * b[j + 3 * row];            \
            }                                                                                                     \
            for (; l < k; l++, b += row)                                                                          \
                for (int64_t j = 0; j < n; j++)                                                                   \
                    out[j] += a[l * step] * b[j * column];                                                        \
        }                                                                                                         \
    }
PLAIN_PRODUCT(plain_product_f32, float)
PLAIN_PRODUCT(plain_product_f64, double)
PLAIN_PRODUCT(plain_product_i64, uint64_t)

typedef struct layout {
    CBLAS_TRANSPOSE transpose;
    blasint leading;
} layout;

static layout layout_of(const matrix *x)
{
    bool plain = x->column == 1 && x->row >= at_least_one(x->columns);
    return plain ? (layout){.transpose = CblasNoTrans, .leading = (blasint)x->row}
                 : (layout){.transpose = CblasTrans, .leading = (blasint)x->column};
}

/* out (m, 1) = a (m, k) @ b (k, 1), or out (1, n) = a (1, k) @ b (k, n), which is b's transpose times a. */
static void vector_product(const product *p, const block *x)
{
    bool column = x->n == 1;
    layout l = layout_of(column ? &p->a : &p->b);
    bool plain = (l.transpose == CblasNoTrans) == column;
    CBLAS_TRANSPOSE transpose = plain ? CblasNoTrans : CblasTrans;
    /* The stored matrix, row-major: (results, k) if plain, (k, results) if transposed. */
    int64_t results = column ? x->m : x->n;
    blasint rows = (blasint)(plain ? results : x->k), columns = (blasint)(plain ? x->k : results);
    blasint step = (blasint)(column ? p->b.row : p->a.column), out_step = (blasint)(column ? p->n : 1);
    const void *matrix_data = column ? x->a : x->b, *vector = column ? x->b : x->a;
    if (p->compute == GT_COMPUTE_F32)
        cblas_sgemv(CblasRowMajor, transpose, rows, columns, 1.0f, matrix_data, l.leading, vector, step, 0.0f,
                    (float *)x->out, out_step);
    else
        cblas_dgemv(CblasRowMajor, transpose, rows, columns, 1.0, matrix_data, l.leading, vector, step, 0.0,
                    (double *)x->out, out_step);
}

static void dot_product(const product *p, const block *x)
{
    blasint k = (blasint)x->k, step_a = (blasint)p->a.column, step_b = (blasint)p->b.row;
    if (p->compute == GT_COMPUTE_F32)
        *(float *)x->out = cblas_sdot(k, (const float *)x->a, step_a, (const float *)x->b, step_b);
    else
        *(double *)x->out = cblas_ddot(k, (const double *)x->a, step_a, (const double *)x->b, step_b);
}

/* False: there is no memory for it. */
static bool own_product(const product *p, const block *x)
{
    return gt__product(p->cpu, &(gt_product){.m = x->m,
                                             .n = x->n,
                                             .k = x->k,
                                             .a = (const float *)x->a,
                                             .b = (const float *)x->b,
                                             .a_row = p->a.row,
                                             .a_column = p->a.column,
                                             .b_row = p->b.row,
                                             .b_column = p->b.column,
                                             .out = (float *)x->out,
                                             .out_row = p->n,
                                             .scale = 1,
                                             .adds = x->adds});
}

static void matrix_product(const product *p, const block *x)
{
    layout a = layout_of(&p->a), b = layout_of(&p->b);
    blasint m = (blasint)x->m, n = (blasint)x->n, k = (blasint)x->k, leading = (blasint)p->n;
    if (p->compute == GT_COMPUTE_F32)
        cblas_sgemm(CblasRowMajor, a.transpose, b.transpose, m, n, k, 1.0f, (const float *)x->a, a.leading,
                    (const float *)x->b, b.leading, x->adds ? 1.0f : 0.0f, (float *)x->out, leading);
    else
        cblas_dgemm(CblasRowMajor, a.transpose, b.transpose, m, n, k, 1.0, (const double *)x->a, a.leading,
                    (const double *)x->b, b.leading, x->adds ? 1.0 : 0.0, (double *)x->out, leading);
}

static void complex_product(const product *p, const block *x)
{
    static const double one[2] = {1, 0}, zero[2] = {0, 0};
    static const float one_f[2] = {1, 0}, zero_f[2] = {0, 0};
    layout a = layout_of(&p->a), b = layout_of(&p->b);
    blasint m = (blasint)x->m, n = (blasint)x->n, k = (blasint)x->k, leading = (blasint)p->n;
    if (p->dtype == GT_COMPLEX64)
        cblas_cgemm(CblasRowMajor, a.transpose, b.transpose, m, n, k, one_f, x->a, a.leading, x->b, b.leading,
                    x->adds ? one_f : zero_f, x->out, leading);
    else
        cblas_zgemm(CblasRowMajor, a.transpose, b.transpose, m, n, k, one, x->a, a.leading, x->b, b.leading,
                    x->adds ? one : zero, x->out, leading);
}

static void multiply(const product *p, const block *x)
{
    static void (*const plain[])(const product *, const block *) = {
        [GT_COMPUTE_F32] = plain_product_f32,
        [GT_COMPUTE_F64] = plain_product_f64,
        [GT_COMPUTE_I64] = plain_product_i64,
    };
    if (gt__dtype_is_complex(p->dtype))
        complex_product(p, x);
    else if (p->own && own_product(p, x))
        return;
    else if (p->plain || x->m * x->n * x->k <= TINY_PRODUCT)
        plain[p->compute](p, x);
    else if (x->m == 1 && x->n == 1)
        dot_product(p, x);
    else if (x->m == 1 || x->n == 1)
        vector_product(p, x);
    else
        matrix_product(p, x);
}

/* ---- the whole --------------------------------------------------------------------------------------------- */

/* The size of a piece if `whole` rows or columns are cut into `pieces`. */
static int64_t piece_of(int64_t whole, int64_t pieces, int64_t unit)
{
    int64_t piece = (whole + pieces - 1) / pieces;
    return (piece + unit - 1) / unit * unit;
}

/* The part of a block from (row, column) on, with the terms from `term` on: at most as large as `most` says. The last terms are
 * not left to a part of their own. */
static block slab_of(const product *p, const block *x, int64_t row, int64_t column, int64_t term,
                     const block *most)
{
    int64_t size = (int64_t)p->size, terms = x->k - term;
    return (block){.m = gt__min(most->m, x->m - row),
                   .n = gt__min(most->n, x->n - column),
                   .k = terms < 2 * most->k ? terms : most->k,
                   .a = x->a + (row * p->a.row + term * p->a.column) * size,
                   .b = x->b + (term * p->b.row + column * p->b.column) * size,
                   .out = x->out + (row * p->n + column) * size,
                   .adds = term > 0};
}

/* How long one of this dtype takes, in multiplications of float32. */
static int64_t multiplications(gt_dtype dtype)
{
    return dtype == GT_COMPLEX128 ? 8 : dtype == GT_COMPLEX64 ? 4 : dtype == GT_FLOAT64 ? 2 : 1;
}

/* Sides of slabs. Plain loops compute row after row and pack nothing: a few rows, then a few terms of one, four at a time. */
static block slab_size(const product *p, const block *x)
{
    block most = *x;
    if (p->plain) {
        most.n = gt__min(most.n, POLL / 4);
        most.k = gt__min(most.k, POLL / most.n & ~3);
        most.m = gt__min(most.m, at_least_one(POLL / (most.n * most.k)));
        return most;
    }
    bool vector = p->m == 1 || p->n == 1;
    int64_t least = vector ? LEAST_VECTOR_SLAB : LEAST_SLAB;
    int64_t largest = SLAB_PRODUCT / multiplications(p->dtype);
    /* The whole product decides, so that the number of threads does not change the result. */
    if (!vector && most.k > 2 * SLAB_TERMS && (double)p->m * (double)p->n * (double)p->k > (double)largest)
        most.k = SLAB_TERMS;
    while (most.m * most.n * most.k > largest && (most.m > least || most.n > least)) {
        int64_t *longer = most.m > most.n ? &most.m : &most.n;
        *longer = piece_of(*longer, 2, PIECE_ALIGNMENT);
    }
    return most;
}

/* A block in slabs, if it is large. */
static void multiply_slabs(const product *p, const block *x)
{
    block most = slab_size(p, x);
    for (int64_t row = 0; row < x->m; row += most.m)
        for (int64_t column = 0; column < x->n; column += most.n)
            for (int64_t term = 0; term < x->k && !gt__parallel_poll(p->cpu->parallel);) {
                block slab = slab_of(p, x, row, column, term, &most);
                multiply(p, &slab);
                term += slab.k;
            }
}

/* Pieces begin <= t < end, numbered through all products of the batch. */
static void run_pieces(void *context, int64_t begin, int64_t end)
{
    const product *p = context;
    int64_t offset[GT_LOOP_VIEWS], size = (int64_t)p->size, pieces = p->row_pieces * p->column_pieces;
    for (int64_t task = begin; task < end; task++) {
        int64_t number = task / pieces, piece = task % pieces;
        int64_t row = piece / p->column_pieces * p->row_piece;
        int64_t column = piece % p->column_pieces * p->column_piece;
        gt__loop_offsets(&p->batch, p->batch.rank, number, offset);
        block x = {
            .m = gt__min(p->row_piece, p->m - row), .n = gt__min(p->column_piece, p->n - column), .k = p->k};
        x.a = p->a.data + (offset[0] + row * p->a.row) * size;
        x.b = p->b.data + (offset[1] + column * p->b.column) * size;
        x.out = p->out + (number * p->m * p->n + row * p->n + column) * size;
        if (x.m * x.n * x.k > POLL)
            multiply_slabs(p, &x);
        else
            multiply(p, &x);
    }
}

static bool too_long(const matrix *x)
{
    return x->rows > INT32_MAX || x->columns > INT32_MAX || x->row > INT32_MAX || x->column > INT32_MAX;
}

/* The whole product decides by what it is computed, so that the number of threads does not change the result. */
static void choose_loops(product *p)
{
    p->plain = p->compute == GT_COMPUTE_I64 || too_long(&p->a) || too_long(&p->b);
    p->own = p->compute == GT_COMPUTE_F32 && !p->plain && !gt__dtype_is_complex(p->dtype) &&
             p->m * p->n * p->k > TINY_PRODUCT && gt__product_pays(p->cpu, p->m, p->n);
}

/* Batches feed the threads if there are enough of them. Otherwise each product is cut into a grid of pieces: BLAS packs the rows
 * of a and the columns of b that a piece needs, so pieces that are long and narrow cost more than square ones. */
static void plan_pieces(product *p)
{
    int64_t threads = gt__parallel_threads(p->cpu->parallel), work = p->m * p->n * p->k;
    const gt_product_tiles *tiles = p->own ? p->cpu->kernels->tiles : NULL;
    int64_t tasks = threads * (tiles ? OWN_TASKS : BATCH_TASKS);
    int64_t column_unit = tiles ? tiles->vectors * tiles->lanes : PIECE_ALIGNMENT;
    bool cut = threads > 1 && p->batches < tasks && work > SMALL_PRODUCT;
    int64_t wanted = p->batches == 1 && !tiles ? threads : (tasks + p->batches - 1) / p->batches;
    int64_t most = work / PIECE_PRODUCT > 2 ? work / PIECE_PRODUCT : 2;
    int64_t pieces = cut ? gt__min(wanted, most) : 1;
    double least = 0;
    for (int64_t rows = pieces; rows >= 1; rows--) {
        int64_t m = piece_of(p->m, rows, PIECE_ALIGNMENT), n = piece_of(p->n, pieces / rows, column_unit);
        double cost = (double)m * (double)n + COPY_COST * (double)(m + n);
        if (rows < pieces && cost >= least)
            continue;
        least = cost;
        p->row_piece = m;
        p->column_piece = n;
    }
    p->row_pieces = (p->m + p->row_piece - 1) / p->row_piece;
    p->column_pieces = (p->n + p->column_piece - 1) / p->column_piece;
}

/* Products with one b, as of a linear layer, are one product with more rows if those of a follow each other: b is packed once. */
static void join_rows(product *p)
{
    matrix joined = p->a;
    joined.rows = p->m * p->batches;
    bool follow = p->batch.rank == 1 && p->batch.stride[0][0] == p->m * p->a.row && p->batch.stride[1][0] == 0;
    if (!follow || (p->compute != GT_COMPUTE_I64 && !readable(&joined)))
        return;
    p->a = joined;
    p->m = joined.rows;
    p->batches = 1;
    p->batch.rank = 0;
}

/* The batch axes of the result, for both operands. */
static void plan_batch(product *p, const gt_call *call)
{
    const gt_view *view[2] = {call->in[0], call->in[1]};
    const matrix *x[2] = {&p->a, &p->b};
    int rank[2], longest = 0;
    for (int side = 0; side < 2; side++) {
        rank[side] = view[side]->meta.rank > 2 ? view[side]->meta.rank - 2 : 0;
        longest = rank[side] > longest ? rank[side] : longest;
    }
    p->batch = (gt_loop){.rank = longest, .views = 2};
    p->batches = 1;
    for (int axis = 0; axis < longest; axis++) {
        p->batch.shape[axis] = call->out->meta.shape[axis];
        p->batches *= call->out->meta.shape[axis];
        for (int side = 0; side < 2; side++) {
            int own = axis - (longest - rank[side]);
            bool walked = own >= 0 && view[side]->meta.shape[own] != 1;
            p->batch.stride[side][axis] = walked ? x[side]->batch_stride[own] : 0;
        }
    }
    if (longest > 0)
        gt__loop_collapse(&p->batch);
    join_rows(p);
}

/* Half precision and narrow integers: compute in a wider copy of the result, then round it into place. */
static gt_err run_product(product *p, const gt_call *call, gt_dtype dtype)
{
    const gt_view *out = call->out;
    void *wide = NULL;
    int64_t work = p->m * p->n * p->k;
    p->out = out->data;
    if (out->meta.dtype != dtype) {
        GT_TRY(gt__cpu_scratch(p->cpu, (size_t)out->meta.numel * p->size, &wide));
        p->out = wide;
    }
    int64_t grain = work > 0 && work < SMALL_PRODUCT ? SMALL_PRODUCT / work : 1;
    gt__parallel_for(p->cpu->parallel, p->batches * p->row_pieces * p->column_pieces, grain, run_pieces, p);
    if (wide) {
        gt_view view = *out;
        view.data = wide;
        view.meta.dtype = (uint8_t)dtype;
        gt__cpu_copy_view(p->cpu, &view, (gt_dtype)out->meta.dtype, out->data);
        free(wide);
    }
    return GT_OK;
}

gt_err gt__cpu_matmul(gt_engine *engine, const gt_call *call)
{
    const gt_view *out = call->out;
    product p = {.cpu = gt__cpu(engine), .compute = gt__cpu_compute((gt_dtype)out->meta.dtype)};
    gt_dtype dtype = gt__dtype_is_complex(call->compute) ? call->compute
                     : p.compute == GT_COMPUTE_F32       ? GT_FLOAT32
                     : p.compute == GT_COMPUTE_F64       ? GT_FLOAT64
                                                         : GT_INT64;
    p.dtype = dtype;
    p.size = gt__dtype_size(dtype);
    if (out->meta.numel == 0)
        return GT_OK;
    gt_err err = prepare_operand(&p, &p.a, call->in[0], dtype, false);
    if (err == GT_OK)
        err = prepare_operand(&p, &p.b, call->in[1], dtype, true);
    p.m = p.a.rows;
    p.k = p.a.columns;
    p.n = p.b.columns;
    if (err == GT_OK && gt__dtype_is_complex(dtype) && (too_long(&p.a) || too_long(&p.b)))
        err = gt__fail(GT_ERR_UNSUPPORTED, "matmul: complex matrices of more than 2^31 - 1 rows or columns");
    if (err == GT_OK && p.k == 0) {
        memset(out->data, 0, gt__meta_bytes(&out->meta)); /* all dtypes write 0 as zero bytes */
    } else if (err == GT_OK) {
        plan_batch(&p, call);
        choose_loops(&p);
        plan_pieces(&p);
        err = run_product(&p, call, dtype);
    }
    free(p.a.scratch);
    free(p.b.scratch);
    return err;
}

/* The sum with the bias rounds; the product before it is exact as its compute dtype. */
gt_err gt__cpu_linear(gt_engine *engine, const gt_call *call)
{
    const gt_view *out = call->out;
    gt_view exact = *out;
    gt_dtype dtype = gt__dtype_is_half((gt_dtype)out->meta.dtype) ? GT_FLOAT32 : (gt_dtype)out->meta.dtype;
    void *wide = NULL;
    if (out->meta.numel == 0)
        return GT_OK;
    if (out->meta.dtype != dtype) {
        GT_TRY(gt__cpu_scratch(gt__cpu(engine), (size_t)out->meta.numel * gt__dtype_size(dtype), &wide));
        exact.data = wide;
        exact.meta.dtype = (uint8_t)dtype;
    }
    gt_instruction ins = {.op = GT_OP_matmul}, sum = {.op = GT_OP_add};
    gt_call first = {
        .op = GT_OP_matmul, .compute = dtype, .ins = &ins, .operands = 2, .in = call->in, .out = &exact};
    gt_err err = gt__cpu_matmul(engine, &first);
    const gt_view *terms[] = {&exact, call->in[2]};
    gt_call second = {
        .op = GT_OP_add, .compute = dtype, .ins = &sum, .operands = 2, .in = terms, .out = call->out};
    if (err == GT_OK)
        err = gt__cpu_elementwise(engine, &second);
    free(wide);
    return err;
}

/*
 * product.c: matrix products by cuBLASLt.
 *
 * Every product is out (batch, m, n) = a (batch, m, k) @ b (batch, k, n); a 1-d operand is a row or a column. cuBLASLt reads
 * matrices by columns, so it computes out' = b' @ a': a row-major matrix is, by columns, its own transpose. A matrix with
 * unit stride one way is used where it is; any other, and one of another dtype, is copied first.
 *
 * An epilogue is what the library does to the result before it stores it. A bias is added to the sums before they are rounded.
 *
 * A shape's algorithm is chosen once: the library proposes several, and for large products the fastest of them is measured.
 */
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "engines/cuda/cuda.h"

enum {
    PROPOSALS = 8,
    TIMED_RUNS = 2,
    MOST_SHAPES = 4096,
    WORKSPACE = 32 << 20,
    WIDE_RESULT = 1024, /* columns */
    BEST_ALIGNMENT =
        16, /* bytes; with more, the algorithm and so the bits would depend on where an operand lies */
};

static const double worth_measuring = 4e9; /* multiplications and additions */

/* One operand: element (i, j) of matrix number t is at i * row + j * column + the batch's offset. */
typedef struct matrix {
    CUdeviceptr data, scratch;
    int64_t rows, columns, row, column;
    int rank; /* of the batch */
    int64_t batch_shape[GT_MAX_RANK], batch_stride[GT_MAX_RANK];
} matrix;

/* What the choice of an algorithm depends on, as cuBLASLt sees it. */
typedef struct shape {
    int64_t m, n, k; /* of out', so m are columns of the result */
    int64_t leading_a, leading_b;
    int64_t batch, stride_a, stride_b;
    uint8_t dtype, transpose_a, transpose_b, kind; /* gt_product_kind */
    uint16_t alignment_a, alignment_b, alignment_out;
    uint16_t unused; /* 0 */
    uint32_t epilogue;
} shape;

_Static_assert(sizeof(shape) == 80, "compared and hashed by its bytes");

/* What is done to the result, as cuBLASLt calls it; 0: nothing. */
typedef struct epilogue {
    uint32_t kind;
    CUdeviceptr bias; /* of BIAS: as long as the result's rows, at a multiple of 16 bytes */
} epilogue;

typedef struct chosen {
    shape key;
    bool used;
    bool impossible; /* the library has no algorithm for it */
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, out;
    cublasLtMatmulAlgo_t algorithm;
} chosen;

struct gt_cuda_products {
    const gt_cuda_blas *blas; /* NULL: not here */
    cublasLtHandle_t handle;
    CUdeviceptr workspace;
    chosen *table; /* open addressing */
    size_t capacity, count;
};

/* ---- what cuBLASLt calls things ------------------------------------------------------------------------------------ */

typedef struct numbers {
    int type, result, compute, scale;
    const void *one, *zero;
} numbers;

/* Dtypes that have a product here; false: none. */
static bool numbers_of(gt_dtype dtype, gt_product_kind kind, numbers *n)
{
    static const double one[2] = {1, 0}, zero[2] = {0, 0};
    static const float one_f[2] = {1, 0}, zero_f[2] = {0, 0};
    static const struct {
        gt_dtype dtype;
        int type, compute, scale;
    } rows[] = {
        {.dtype = GT_FLOAT32, .type = CUDA_R_32F, .compute = CUBLAS_COMPUTE_32F, .scale = CUDA_R_32F},
        {.dtype = GT_FLOAT16, .type = CUDA_R_16F, .compute = CUBLAS_COMPUTE_32F, .scale = CUDA_R_32F},
        {.dtype = GT_BFLOAT16, .type = CUDA_R_16BF, .compute = CUBLAS_COMPUTE_32F, .scale = CUDA_R_32F},
        {.dtype = GT_FLOAT64, .type = CUDA_R_64F, .compute = CUBLAS_COMPUTE_64F, .scale = CUDA_R_64F},
        {.dtype = GT_COMPLEX64, .type = CUDA_C_32F, .compute = CUBLAS_COMPUTE_32F, .scale = CUDA_C_32F},
        {.dtype = GT_COMPLEX128, .type = CUDA_C_64F, .compute = CUBLAS_COMPUTE_64F, .scale = CUDA_C_64F},
    };
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
        if (rows[k].dtype == dtype) {
            bool wide = rows[k].compute == CUBLAS_COMPUTE_64F, fast = kind == GT_PRODUCT_FAST;
            *n = (numbers){.type = rows[k].type,
                           .result =
                               kind == GT_PRODUCT_WIDE && gt__dtype_is_half(dtype) ? CUDA_R_32F : rows[k].type,
                           .compute = fast && dtype == GT_FLOAT32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : rows[k].compute,
                           .scale = rows[k].scale,
                           .one = wide ? (const void *)one : one_f,
                           .zero = wide ? (const void *)zero : zero_f};
            return true;
        }
    return false;
}

static gt_err blas_failed(int status, const char *what)
{
    return gt__fail(GT_ERR_INTERNAL, "cuda: cuBLASLt: %s failed with status %d", what, status);
}

#define BLAS_TRY(what, expression)                                                                                \
    do {                                                                                                          \
        int status_ = (expression);                                                                               \
        if (status_ != CUBLAS_STATUS_SUCCESS)                                                                     \
            return blas_failed(status_, what);                                                                    \
    } while (0)

/* ---- operands --------------------------------------------------------------------------------------------------------- */

static int64_t at_least_one(int64_t value)
{
    return value > 1 ? value : 1;
}

/* Row-major with unit stride along rows, or the other way round. */
static bool by_rows(const matrix *x)
{
    return x->column == 1 && x->row >= at_least_one(x->columns);
}

static bool by_columns(const matrix *x)
{
    return x->row == 1 && x->column >= at_least_one(x->rows);
}

/* The matrix at the end of a view; `column_vector` says what a 1-d operand is. */
static void describe(matrix *x, const gt_view *view, bool column_vector)
{
    int rank = view->meta.rank;
    const int64_t *size = view->meta.shape, *stride = view->stride;
    *x = (matrix){.data = (CUdeviceptr)(uintptr_t)view->data, .rank = rank > 2 ? rank - 2 : 0};
    if (rank == 1) {
        x->rows = column_vector ? size[0] : 1;
        x->columns = column_vector ? 1 : size[0];
        x->row = x->column = stride[0];
    } else {
        x->rows = size[rank - 2];
        x->columns = size[rank - 1];
        x->row = stride[rank - 2];
        x->column = stride[rank - 1];
    }
    for (int axis = 0; axis < x->rank; axis++) {
        x->batch_shape[axis] = size[axis];
        x->batch_stride[axis] = stride[axis];
    }
    /* The stride along an axis of one element is unused: choose it so that the matrix can be read. */
    if (x->columns == 1)
        x->column = x->rows == 1 || x->row != 1 ? 1 : at_least_one(x->rows);
    if (x->rows == 1)
        x->row = x->column == 1 ? at_least_one(x->columns) : 1;
}

/* Replace the operand by a row-major copy of the given dtype; broadcast batch axes stay broadcast. */
static gt_err copy_operand(gt_cuda *cuda, matrix *x, const gt_view *view, gt_dtype dtype, bool column_vector)
{
    gt_view source = *view, copy;
    unsigned batch_rank = view->meta.rank > 2 ? view->meta.rank - 2u : 0;
    for (unsigned axis = 0; axis < batch_rank; axis++)
        if (view->stride[axis] == 0 && view->meta.shape[axis] > 1)
            source.meta.shape[axis] = 1;
    source.contiguous = false;
    GT_TRY(gt__meta_set(&source.meta, (gt_dtype)view->meta.dtype, view->meta.rank, source.meta.shape));
    copy = source;
    copy.meta.dtype = (uint8_t)dtype;
    int64_t stride = 1;
    for (unsigned axis = view->meta.rank; axis-- > 0;) {
        copy.stride[axis] = stride;
        stride *= at_least_one(source.meta.shape[axis]);
    }
    copy.contiguous = true;
    GT_TRY(gt__cuda_scratch_take(cuda, gt__meta_bytes(&copy.meta), &x->scratch));
    copy.data = (void *)(uintptr_t)x->scratch;
    gt_opcode op = view->meta.dtype == dtype ? GT_OP_copy : GT_OP_cast;
    gt_instruction ins = {.op = (uint16_t)op, .dtype = (uint8_t)dtype};
    const gt_view *in = &source;
    gt_call call = {.op = op, .compute = dtype, .ins = &ins, .operands = 1, .in = &in, .out = &copy};
    CUdeviceptr scratch = x->scratch;
    gt_err err = gt__cuda_run_kernels(cuda, &call, GT_CUDA_NO_STEP);
    copy.meta = view->meta; /* the whole shape again, with broadcast axes */
    for (unsigned axis = 0; axis < batch_rank; axis++)
        if (source.meta.shape[axis] != view->meta.shape[axis])
            copy.stride[axis] = 0;
    describe(x, &copy, column_vector);
    x->scratch = scratch;
    return err;
}

static gt_err prepare(gt_cuda *cuda, matrix *x, const gt_view *view, gt_dtype dtype, bool column_vector)
{
    describe(x, view, column_vector);
    if (view->meta.dtype == dtype && (by_rows(x) || by_columns(x)))
        return GT_OK;
    return copy_operand(cuda, x, view, dtype, column_vector);
}

/* ---- choosing an algorithm ---------------------------------------------------------------------------------------------- */

static uint16_t alignment_of(CUdeviceptr address)
{
    uint64_t bits = (uint64_t)address | BEST_ALIGNMENT;
    return (uint16_t)(bits & -bits);
}

static chosen *find(const gt_cuda_products *p, const shape *key)
{
    size_t at = (size_t)gt__cuda_hash(key, sizeof *key) & (p->capacity - 1);
    while (p->table[at].used && memcmp(&p->table[at].key, key, sizeof *key) != 0)
        at = (at + 1) & (p->capacity - 1);
    return &p->table[at];
}

static void chosen_free(const gt_cuda_blas *blas, chosen *c)
{
    if (c->product)
        blas->product_free(c->product);
    cublasLtMatrixLayout_t layouts[] = {c->a, c->b, c->out};
    for (int k = 0; k < 3; k++)
        if (layouts[k])
            blas->layout_free(layouts[k]);
}

static void forget_all(gt_cuda_products *p)
{
    for (size_t k = 0; k < p->capacity; k++)
        if (p->table[k].used)
            chosen_free(p->blas, &p->table[k]);
    if (p->table)
        memset(p->table, 0, p->capacity * sizeof *p->table);
    p->count = 0;
}

static gt_err layout_new(const gt_cuda_blas *blas, int type, int64_t rows, int64_t columns, int64_t leading,
                         int64_t batch, int64_t stride, cublasLtMatrixLayout_t *layout)
{
    int32_t count = (int32_t)batch;
    BLAS_TRY("a layout", blas->layout_new(layout, type, (uint64_t)rows, (uint64_t)columns, leading));
    if (batch == 1)
        return GT_OK;
    BLAS_TRY("a layout", blas->layout_set(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
    BLAS_TRY("a layout",
             blas->layout_set(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
    return GT_OK;
}

static gt_err set_addresses(const gt_cuda_blas *blas, const chosen *c, const epilogue *e)
{
    if (e->kind)
        BLAS_TRY("an epilogue",
                 blas->product_set(c->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &e->bias, sizeof e->bias));
    return GT_OK;
}

static gt_err describe_product(const gt_cuda_blas *blas, const numbers *n, const shape *s, const epilogue *e,
                               chosen *c)
{
    int32_t transpose_a = s->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    int32_t transpose_b = s->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    BLAS_TRY("a product", blas->product_new(&c->product, n->compute, n->scale));
    BLAS_TRY("a product",
             blas->product_set(c->product, CUBLASLT_MATMUL_DESC_TRANSA, &transpose_a, sizeof transpose_a));
    BLAS_TRY("a product",
             blas->product_set(c->product, CUBLASLT_MATMUL_DESC_TRANSB, &transpose_b, sizeof transpose_b));
    if (e->kind)
        BLAS_TRY("an epilogue",
                 blas->product_set(c->product, CUBLASLT_MATMUL_DESC_EPILOGUE, &e->kind, sizeof e->kind));
    GT_TRY(set_addresses(blas, c, e)); /* proposals depend on how they are aligned */
    GT_TRY(layout_new(blas, n->type, s->transpose_a ? s->k : s->m, s->transpose_a ? s->m : s->k, s->leading_a,
                      s->batch, s->stride_a, &c->a));
    GT_TRY(layout_new(blas, n->type, s->transpose_b ? s->n : s->k, s->transpose_b ? s->k : s->n, s->leading_b,
                      s->batch, s->stride_b, &c->b));
    return layout_new(blas, n->result, s->m, s->n, s->m, s->batch, s->m * s->n, &c->out);
}

static gt_err propose(gt_cuda_products *p, const shape *s, const chosen *c,
                      cublasLtMatmulHeuristicResult_t *results, int *count)
{
    const gt_cuda_blas *blas = p->blas;
    cublasLtMatmulPreference_t preference;
    uint64_t workspace = WORKSPACE;
    const struct {
        int attribute;
        uint32_t value;
    } alignments[] = {
        {.attribute = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, .value = s->alignment_a},
        {.attribute = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, .value = s->alignment_b},
        {.attribute = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, .value = s->alignment_out},
        {.attribute = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, .value = s->alignment_out},
    };
    BLAS_TRY("a preference", blas->preference_new(&preference));
    int status =
        blas->preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    for (size_t k = 0; k < sizeof alignments / sizeof alignments[0] && status == CUBLAS_STATUS_SUCCESS; k++)
        status = blas->preference_set(preference, alignments[k].attribute, &alignments[k].value,
                                      sizeof alignments[k].value);
    *count = 0;
    if (status == CUBLAS_STATUS_SUCCESS)
        status = blas->heuristic(p->handle, c->product, c->a, c->b, c->out, c->out, preference, PROPOSALS, results,
                                 count);
    blas->preference_free(preference);
    if (status != CUBLAS_STATUS_SUCCESS)
        *count = 0;
    return GT_OK;
}

/* The addresses of one product. */
typedef struct place {
    CUdeviceptr a, b, out;
} place;

static int multiply(gt_cuda *cuda, const chosen *c, const numbers *n, const cublasLtMatmulAlgo_t *algorithm,
                    const place *at)
{
    const gt_cuda_products *p = cuda->products;
    void *out = (void *)(uintptr_t)at->out;
    return p->blas->multiply(p->handle, c->product, n->one, (const void *)(uintptr_t)at->a, c->a,
                             (const void *)(uintptr_t)at->b, c->b, n->zero, out, c->out, out, c->out, algorithm,
                             (void *)(uintptr_t)p->workspace, WORKSPACE, cuda->stream);
}

/* Milliseconds of one run on this card; negative: it does not work. */
static float measure(gt_cuda *cuda, const chosen *c, const numbers *n, const cublasLtMatmulAlgo_t *algorithm,
                     const place *at, CUevent start, CUevent end)
{
    const gt_cuda_driver *driver = cuda->driver;
    float ms = -1;
    if (multiply(cuda, c, n, algorithm, at) != CUBLAS_STATUS_SUCCESS ||
        driver->event_record(start, cuda->stream) != CUDA_SUCCESS)
        return -1;
    for (int k = 0; k < TIMED_RUNS; k++)
        if (multiply(cuda, c, n, algorithm, at) != CUBLAS_STATUS_SUCCESS)
            return -1;
    if (driver->event_record(end, cuda->stream) != CUDA_SUCCESS || driver->event_wait(end) != CUDA_SUCCESS ||
        driver->event_elapsed(&ms, start, end) != CUDA_SUCCESS)
        return -1;
    return ms / TIMED_RUNS;
}

/* The fastest of the proposals, by measurement, or the first. */
static int fastest(gt_cuda *cuda, const chosen *c, const numbers *n,
                   const cublasLtMatmulHeuristicResult_t *results, int count, const place *at)
{
    CUevent start = NULL, end = NULL;
    int best = 0;
    float best_ms = -1, first_ms = -1;
    const shape *s = &c->key;
    if (count < 2 || cuda->capturing ||
        2.0 * (double)s->m * (double)s->n * (double)s->k * (double)s->batch < worth_measuring)
        return 0;
    gt__cuda_comms_wait(cuda);
    if (cuda->driver->event_new(&start, CU_EVENT_DEFAULT) == CUDA_SUCCESS &&
        cuda->driver->event_new(&end, CU_EVENT_DEFAULT) == CUDA_SUCCESS)
        for (int k = 0; k < count; k++) {
            float ms = results[k].state == CUBLAS_STATUS_SUCCESS
                           ? measure(cuda, c, n, &results[k].algo, at, start, end)
                           : -1;
            if (ms >= 0 && (best_ms < 0 || ms < best_ms)) {
                best_ms = ms;
                best = k;
            }
            first_ms = k ? first_ms : ms;
        }
    gt__log(GT_LOG_STATUS,
            "cuda: a product of %lld x %lld x %lld: proposal %d of %d takes %.3f ms, the first %.3f ms",
            (long long)s->n, (long long)s->k, (long long)s->m, best + 1, count, (double)best_ms, (double)first_ms);
    if (start)
        cuda->driver->event_free(start);
    if (end)
        cuda->driver->event_free(end);
    return best;
}

static gt_err choose(gt_cuda *cuda, const shape *key, const numbers *n, const place *at, const epilogue *e,
                     const chosen **out)
{
    gt_cuda_products *p = cuda->products;
    chosen *c = find(p, key);
    if (__builtin_expect(!c->used, 0)) {
        if (p->count >= MOST_SHAPES) {
            forget_all(p);
            c = find(p, key);
        }
        cublasLtMatmulHeuristicResult_t results[PROPOSALS];
        int count = 0;
        chosen fresh = {.key = *key, .used = true};
        gt_err err = describe_product(p->blas, n, key, e, &fresh);
        if (err == GT_OK)
            err = propose(p, key, &fresh, results, &count);
        if (err != GT_OK) {
            chosen_free(p->blas, &fresh);
            return err;
        }
        fresh.impossible = count == 0;
        if (count)
            fresh.algorithm = results[fastest(cuda, &fresh, n, results, count, at)].algo;
        *c = fresh;
        p->count++;
    }
    *out = c;
    GT_TRY(set_addresses(p->blas, c, e));
    return c->impossible ? gt__fail(GT_ERR_UNSUPPORTED, "cuBLASLt has no algorithm for this product") : GT_OK;
}

/* ---- the whole ------------------------------------------------------------------------------------------------------------ */

/* The batch axes of a product, for both operands; the result's are contiguous. */
typedef struct batch {
    int rank;
    int64_t shape[GT_MAX_RANK], stride_a[GT_MAX_RANK], stride_b[GT_MAX_RANK];
} batch;

static int64_t stride_along(const matrix *x, int axis, int rank)
{
    int own = axis - (rank - x->rank);
    return own >= 0 && x->batch_shape[own] != 1 ? x->batch_stride[own] : 0;
}

/* The batch axes, from the last; neighbours that both operands walk evenly become one. */
static void collect_batch(const matrix *a, const matrix *b, const gt_view *out, batch *g)
{
    int rank = a->rank > b->rank ? a->rank : b->rank;
    g->rank = 0;
    for (int axis = rank - 1; axis >= 0; axis--) {
        int64_t size = out->meta.shape[axis], stride_a = stride_along(a, axis, rank),
                stride_b = stride_along(b, axis, rank);
        int last = g->rank - 1;
        if (size == 1)
            continue;
        if (last >= 0 && stride_a == g->stride_a[last] * g->shape[last] &&
            stride_b == g->stride_b[last] * g->shape[last]) {
            g->shape[last] *= size;
            continue;
        }
        g->shape[g->rank] = size;
        g->stride_a[g->rank] = stride_a;
        g->stride_b[g->rank++] = stride_b;
    }
}

/* One matrix b for all of a's, whose rows follow each other: it is one product with more rows. */
static void fold_rows(matrix *a, batch *g, int64_t *m)
{
    while (g->rank && g->stride_b[0] == 0 && by_rows(a) && (*m == 1 || g->stride_a[0] == a->row * *m)) {
        if (*m == 1 && g->stride_a[0] < at_least_one(a->columns))
            return;
        if (*m == 1)
            a->row = g->stride_a[0];
        *m *= g->shape[0];
        a->rows = *m;
        g->rank--;
        memmove(g->shape, g->shape + 1, (size_t)g->rank * sizeof *g->shape);
        memmove(g->stride_a, g->stride_a + 1, (size_t)g->rank * sizeof *g->stride_a);
        memmove(g->stride_b, g->stride_b + 1, (size_t)g->rank * sizeof *g->stride_b);
    }
}

/* The innermost batch axis is cuBLASLt's; the others are loops here. dtype: of the operands. */
static gt_err multiply_all(gt_cuda *cuda, const matrix *a, const matrix *b, const batch *g, gt_dtype dtype,
                           gt_product_kind kind, const epilogue *e, CUdeviceptr out)
{
    numbers n = {0};
    int64_t size = (int64_t)gt__dtype_size(dtype), count = 1, inner = g->rank ? g->shape[0] : 1;
    int64_t result_size = kind == GT_PRODUCT_WIDE && gt__dtype_is_half(dtype) ? (int64_t)sizeof(float) : size;
    int64_t stride_a = g->rank ? g->stride_a[0] : 0, stride_b = g->rank ? g->stride_b[0] : 0;
    if (inner > INT32_MAX)
        return gt__fail(GT_ERR_UNSUPPORTED, "cuBLASLt has no batches of %lld products", (long long)inner);
    numbers_of(dtype, kind, &n);
    shape key;
    memset(&key, 0, sizeof key);
    key.m = b->columns;
    key.n = a->rows;
    key.k = a->columns;
    key.leading_a = by_rows(b) ? b->row : b->column;
    key.leading_b = by_rows(a) ? a->row : a->column;
    key.transpose_a = !by_rows(b);
    key.transpose_b = !by_rows(a);
    key.batch = inner;
    key.stride_a = stride_b;
    key.stride_b = stride_a;
    key.dtype = (uint8_t)dtype;
    key.kind = (uint8_t)kind;
    key.epilogue = e->kind;
    for (int axis = 1; axis < g->rank; axis++)
        count *= g->shape[axis];
    for (int64_t t = 0; t < count; t++) {
        int64_t offset_a = 0, offset_b = 0, rest = t;
        for (int axis = 1; axis < g->rank; axis++) {
            offset_a += rest % g->shape[axis] * g->stride_a[axis];
            offset_b += rest % g->shape[axis] * g->stride_b[axis];
            rest /= g->shape[axis];
        }
        place at = {.a = b->data + (CUdeviceptr)(offset_b * size),
                    .b = a->data + (CUdeviceptr)(offset_a * size),
                    .out = out + (CUdeviceptr)(t * inner * key.m * key.n * result_size)};
        const chosen *c;
        key.alignment_a = alignment_of(at.a);
        key.alignment_b = alignment_of(at.b);
        key.alignment_out = alignment_of(at.out); /* behind other results of a batch it may be any element's */
        GT_TRY(choose(cuda, &key, &n, &at, e, &c));
        int status = multiply(cuda, c, &n, &c->algorithm, &at);
        if (status != CUBLAS_STATUS_SUCCESS)
            return gt__cuda_queue_check(cuda) ? blas_failed(status, "a product")
                                              : gt__fail(GT_ERR_INTERNAL, "%s", cuda->broken_text);
        cuda->launches++;
    }
    return GT_OK;
}

/* Open the library when the first product comes: it is large. */
static gt_err products_open(gt_cuda *cuda)
{
    gt_cuda_products *p = cuda->products;
    if (!p) {
        p = cuda->products = calloc(1, sizeof *p);
        if (!p)
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        gt__cuda_comms_wait(cuda);
        p->capacity = 2 * MOST_SHAPES;
        p->table = calloc(p->capacity, sizeof *p->table);
        if (!p->table)
            p->capacity = 0;
        else if (gt__cuda_open_blas(&p->blas) != GT_OK)
            p->blas = NULL;
        if (p->blas && p->blas->handle_new(&p->handle) != CUBLAS_STATUS_SUCCESS) {
            p->blas = NULL;
            gt__error_set("cublasLtCreate failed");
        }
        if (!p->blas)
            gt__log_error("cuda: %s: matrix products run on the host, which is slow", gt_error_text());
    }
    if (!p->blas)
        return gt__fail(GT_ERR_UNSUPPORTED, "there is no cuBLASLt");
    if (!p->workspace) { /* again, if there was no memory at the last product */
        uint64_t taken;
        GT_TRY(gt__cuda_take(cuda, WORKSPACE, &taken));
        p->workspace = taken;
    }
    return GT_OK;
}

/*
 * Tensor cores read TF32 numbers along k only. cuBLASLt makes up for one operand that lies the other way, not for two: gradients of
 * weights take 1.6 times as long. One is then copied, which costs less where the result is wide.
 */
static bool reads_badly(const matrix *a, const matrix *b, gt_dtype dtype, gt_product_kind kind)
{
    double work = 2.0 * (double)a->rows * (double)a->columns * (double)b->columns;
    return dtype == GT_FLOAT32 && kind == GT_PRODUCT_FAST && !by_rows(a) && !by_columns(b) &&
           b->columns >= WIDE_RESULT && work >= worth_measuring;
}

/* Copy the operand so that it lies the other way, if there is memory for that. */
static gt_err turn(gt_cuda *cuda, matrix *a, const gt_view *view, gt_dtype dtype)
{
    matrix turned = *a;
    gt_err err = copy_operand(cuda, &turned, view, dtype, false);
    if (err == GT_OK) {
        *a = turned;
        return GT_OK;
    }
    if (turned.scratch)
        gt__cuda_scratch_release(cuda, turned.scratch);
    return err == GT_ERR_MEMORY ? GT_OK : err;
}

/* out = in[0] @ in[1]; dtype: of the operands. */
static gt_err product_of(gt_cuda *cuda, const gt_view *const *in, const gt_view *out, gt_dtype dtype,
                         gt_product_kind kind, const epilogue *e)
{
    matrix a = {0}, b = {0};
    GT_TRY(products_open(cuda));
    gt_err err = prepare(cuda, &a, in[0], dtype, false);
    if (err == GT_OK)
        err = prepare(cuda, &b, in[1], dtype, true);
    if (err == GT_OK && reads_badly(&a, &b, dtype, kind))
        err = turn(cuda, &a, in[0], dtype);
    if (err == GT_OK) {
        batch g;
        int64_t m = a.rows;
        collect_batch(&a, &b, out, &g);
        fold_rows(&a, &g, &m);
        err = multiply_all(cuda, &a, &b, &g, dtype, kind, e, (CUdeviceptr)(uintptr_t)out->data);
    }
    if (a.scratch)
        gt__cuda_scratch_release(cuda, a.scratch);
    if (b.scratch)
        gt__cuda_scratch_release(cuda, b.scratch);
    return err;
}

gt_err gt__cuda_product(gt_cuda *cuda, const gt_call *call)
{
    const gt_view *out = call->out;
    gt_product_kind kind = (gt_product_kind)call->ins->imm[0].i;
    gt_dtype dtype = (gt_dtype)(kind == GT_PRODUCT_WIDE ? call->in[0] : out)->meta.dtype;
    numbers unused;
    if (call->op != GT_OP_matmul || call->literals || !numbers_of(dtype, kind, &unused))
        return gt__fail(GT_ERR_UNSUPPORTED, "not a product of floats");
    if (out->meta.numel == 0)
        return GT_OK;
    if (call->in[0]->meta.numel == 0) { /* zero is written as zero bytes in all dtypes */
        GT_CUDA_TRY(cuda, "a fill",
                    cuda->driver->memory_set((CUdeviceptr)(uintptr_t)out->data, 0, gt__meta_bytes(&out->meta),
                                             cuda->stream));
        return GT_OK;
    }
    return product_of(cuda, call->in, out, dtype, kind, &(epilogue){0});
}

/* ---- with a bias ------------------------------------------------------------------------------------------------ */

/* The product in a dtype that is not rounded, and a sum that is. */
static gt_err add_bias(gt_cuda *cuda, const gt_call *call)
{
    const gt_view *out = call->out;
    gt_view wide = *out;
    bool half = gt__dtype_is_half((gt_dtype)out->meta.dtype);
    CUdeviceptr scratch = 0;
    if (half) {
        wide.meta.dtype = GT_FLOAT32;
        GT_TRY(gt__cuda_scratch_take(cuda, gt__meta_bytes(&wide.meta), &scratch));
        wide.data = (void *)(uintptr_t)scratch;
    }
    gt_instruction product = {.op = GT_OP_matmul, .imm = {{.i = half ? GT_PRODUCT_WIDE : call->ins->imm[0].i}}},
                   sum = {.op = GT_OP_add};
    gt_call first = {.op = GT_OP_matmul,
                     .compute = (gt_dtype)out->meta.dtype,
                     .ins = &product,
                     .operands = 2,
                     .in = call->in,
                     .out = &wide};
    gt_err err = gt__cuda_product(cuda, &first);
    const gt_view *terms[] = {&wide, call->in[2]};
    gt_call second = {.op = GT_OP_add,
                      .compute = (gt_dtype)wide.meta.dtype,
                      .ins = &sum,
                      .operands = 2,
                      .in = terms,
                      .out = out};
    if (err == GT_OK)
        err = gt__cuda_run_kernels(cuda, &second, GT_CUDA_NO_STEP);
    if (scratch)
        gt__cuda_scratch_release(cuda, scratch);
    return err;
}

/* cuBLASLt adds it, in dtypes that the tensor cores compute in. */
static bool has_epilogue(const gt_call *call)
{
    const gt_view *bias = call->in[2];
    gt_dtype dtype = (gt_dtype)call->out->meta.dtype;
    return (gt__dtype_is_half(dtype) || dtype == GT_FLOAT32) && call->in[0]->meta.numel &&
           (bias->meta.numel == 1 || bias->stride[0] == 1) && (uintptr_t)bias->data % 16 == 0;
}

gt_err gt__cuda_linear(gt_cuda *cuda, const gt_call *call)
{
    if (call->literals)
        return gt__fail(GT_ERR_UNSUPPORTED, "not a product of tensors");
    if (call->out->meta.numel == 0)
        return GT_OK;
    gt_err err = GT_ERR_UNSUPPORTED;
    if (has_epilogue(call))
        err = product_of(
            cuda, call->in, call->out, (gt_dtype)call->out->meta.dtype, (gt_product_kind)call->ins->imm[0].i,
            &(epilogue){.kind = CUBLASLT_EPILOGUE_BIAS, .bias = (CUdeviceptr)(uintptr_t)call->in[2]->data});
    return err == GT_ERR_UNSUPPORTED ? add_bias(cuda, call) : err;
}

void gt__cuda_products_close(gt_cuda *cuda)
{
    gt_cuda_products *p = cuda->products;
    if (!p)
        return;
    forget_all(p);
    if (p->handle)
        p->blas->handle_free(p->handle);
    free(p->table);
    free(p);
}

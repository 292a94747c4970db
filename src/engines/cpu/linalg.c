/*
 * engines/cpu/linalg.c: linear algebra on batches of matrices, with OpenBLAS's LAPACK.
 *
 * A call is planned once (sizes, LAPACK's workspace), then each thread takes matrices of the batch: copies one
 * in, calls LAPACK, writes the results out in the packed layout of core/linalg.h. The templates have the work on one
 * matrix, in each type. LAPACK's matrices are column-major: a row-major matrix is passed as its own
 * transpose where possible. A matrix without a result (singular, not finite) fails the call; the first one is reported.
 */
#include "core/linalg.h"

#include <cblas.h>
#include <complex.h>
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engines/cpu/detach.h"
#include "engines/cpu/lapack.h"
#include "engines/cpu/movement.h"

/* Why a matrix has no result. */
enum { SINGULAR = 1, SINGULAR_SYSTEM, SINGULAR_FACTOR, NOT_POSITIVE, NOT_FINITE, NOT_CONVERGED, BAD_PIVOTS };

typedef struct linalg {
    gt_cpu *cpu;
    const gt_call *call;
    gt_opcode op;
    int m, n, k; /* a (m, n), k = min(m, n); SOLVE: b (n, k) */
    int columns; /* of the packed result */
    gt_vectors vectors;
    bool upper, unit, hermitian;
    gt_loop batch; /* views: a, b */
    int64_t row_stride[2], column_stride[2];
    int64_t result; /* of one matrix, in elements of the operand's dtype */
    /* Elements of workspace for one matrix: copies, LAPACK's own, real numbers for complex routines, integers. */
    size_t area[3], work, reals, integers;
    bool is_long; /* a matrix takes a tenth of a second or more, and LAPACK cannot be interrupted: see detach.h */
} linalg;

/* What the threads of a call report. */
typedef struct outcome {
    const linalg *s;
    _Atomic uint64_t
        failure; /* of the first matrix that failed: number << 32 | info << 3 | reason; all ones: no failure */
    _Atomic bool no_memory;
} outcome;

/* One thread's workspace, cut up. */
typedef struct workspace {
    void *area[3], *work, *reals;
    int *integers;
} workspace;

/* ---- failures ----------------------------------------------------------------------------------------------- */

static uint64_t failure(int reason, int info)
{
    return (uint64_t)(info < 0 ? -info : info) << 3 | (unsigned)reason;
}

/* Keep the failure of the first matrix, in whatever order threads report. */
static void keep_failure(outcome *all, int64_t matrix, uint64_t what)
{
    uint64_t mine = (uint64_t)matrix << 32 | what, known = all->failure;
    while (mine < known && !atomic_compare_exchange_weak(&all->failure, &known, mine))
        ;
}

/* In PyTorch's words. */
static gt_err failed(const outcome *all)
{
    uint64_t what = all->failure;
    if (what == UINT64_MAX)
        return GT_OK;
    char where[48] = "";
    int info = (int)(what >> 3 & ((1u << 29) - 1));
    if (all->s->call->in[0]->meta.rank > 2)
        snprintf(where, sizeof where, "(Batch element %llu): ", (unsigned long long)(what >> 32));
    switch (what & 7) {
    case SINGULAR:
        return gt__fail(GT_ERR_LINALG,
                        "%sThe diagonal element %d is zero, the inversion could not be completed because "
                        "the input matrix is singular.",
                        where, info);
    case SINGULAR_SYSTEM:
        return gt__fail(GT_ERR_LINALG, "%sThe solver failed because the input matrix is singular.", where);
    case SINGULAR_FACTOR:
        return gt__fail(
            GT_ERR_LINALG,
            "%sU[%d,%d] is zero and using it on lu_solve would result in a division by zero. If you still "
            "want to perform the factorization, consider calling linalg.lu(A, pivot) or "
            "linalg.lu_factor_ex(A, pivot)",
            where, info, info);
    case NOT_POSITIVE:
        return gt__fail(GT_ERR_LINALG,
                        "%sThe factorization could not be completed because the input is not "
                        "positive-definite (the leading minor of order %d is not positive-definite).",
                        where, info);
    case NOT_FINITE:
        return gt__fail(GT_ERR_LINALG,
                        "%sThe algorithm failed to converge because the input matrix contained non-finite "
                        "values.",
                        where);
    case BAD_PIVOTS:
        return gt__fail(GT_ERR_LINALG, "%sldl_solve: the pivots are not those of ldl_factor.", where);
    default:
        return gt__fail(GT_ERR_LINALG,
                        "%sThe algorithm failed to converge because the input matrix is ill-conditioned or "
                        "has too many repeated singular or eigenvalues (error code: %d).",
                        where, info);
    }
}

/* ---- one matrix, in each type ------------------------------------------------------------------------------- */

#define T float
#define R float
#define NAME(name) name##_float
#define LAPACK(name) s##name##_
#define CBLAS(name) cblas_s##name
#define ALPHA_ONE 1
#define ALPHA_ZERO 0
#define ADJOINT CblasTrans
#include "engines/cpu/linalg_template.h"
#include "engines/cpu/linalg_real_template.h"
#include "engines/cpu/linalg_decompose_template.h"

#define T double
#define R double
#define NAME(name) name##_double
#define LAPACK(name) d##name##_
#define CBLAS(name) cblas_d##name
#define ALPHA_ONE 1
#define ALPHA_ZERO 0
#define ADJOINT CblasTrans
#include "engines/cpu/linalg_template.h"
#include "engines/cpu/linalg_real_template.h"
#include "engines/cpu/linalg_decompose_template.h"

#define T float _Complex
#define R float
#define NAME(name) name##_complex64
#define LAPACK(name) c##name##_
#define CBLAS(name) cblas_c##name
#define ALPHA_ONE (&(T){1})
#define ALPHA_ZERO (&(T){0})
#define ADJOINT CblasConjTrans
#include "engines/cpu/linalg_template.h"
#include "engines/cpu/linalg_complex_template.h"
#include "engines/cpu/linalg_decompose_template.h"

#define T double _Complex
#define R double
#define NAME(name) name##_complex128
#define LAPACK(name) z##name##_
#define CBLAS(name) cblas_z##name
#define ALPHA_ONE (&(T){1})
#define ALPHA_ZERO (&(T){0})
#define ADJOINT CblasConjTrans
#include "engines/cpu/linalg_template.h"
#include "engines/cpu/linalg_complex_template.h"
#include "engines/cpu/linalg_decompose_template.h"

static bool plan(linalg *s)
{
    switch ((gt_dtype)s->call->in[0]->meta.dtype) {
    case GT_FLOAT32:
        return plan_float(s);
    case GT_FLOAT64:
        return plan_double(s);
    case GT_COMPLEX64:
        return plan_complex64(s);
    default:
        return plan_complex128(s);
    }
}

static uint64_t run(const linalg *s, workspace *w, const void *a, const void *b, void *out)
{
    switch ((gt_dtype)s->call->in[0]->meta.dtype) {
    case GT_FLOAT32:
        return run_float(s, w, a, b, out);
    case GT_FLOAT64:
        return run_double(s, w, a, b, out);
    case GT_COMPLEX64:
        return run_complex64(s, w, a, b, out);
    default:
        return run_complex128(s, w, a, b, out);
    }
}

/* ---- batches ------------------------------------------------------------------------------------------------ */

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static size_t workspace_bytes(const linalg *s, size_t size)
{
    size_t bytes =
        round_up(s->work * size) + round_up(s->reals * sizeof(double)) + round_up(s->integers * sizeof(int));
    for (int k = 0; k < 3; k++)
        bytes += round_up(s->area[k] * size);
    return bytes;
}

static workspace workspace_cut(const linalg *s, size_t size, char *memory)
{
    workspace w;
    for (int k = 0; k < 3; k++) {
        w.area[k] = memory;
        memory += round_up(s->area[k] * size);
    }
    w.work = memory;
    w.reals = memory + round_up(s->work * size);
    w.integers = (int *)((char *)w.reals + round_up(s->reals * sizeof(double)));
    return w;
}

/* ---- long matrices ------------------------------------------------------------------------------------------ */

/* One matrix with all that LAPACK needs, so that it can be left behind: it points to nothing outside of itself. */
typedef struct lone_matrix {
    linalg s; /* its call is this one's */
    gt_call call;
    gt_instruction ins;
    gt_view view[2];
    const gt_view *in[2];
    workspace w;
    void *memory;  /* of all that follows, and of w */
    char *from[2]; /* contiguous either way */
    char *result;
    uint64_t what; /* of run */
} lone_matrix;

static void drop_matrix(void *job)
{
    lone_matrix *lone = job;
    free(lone->memory);
    free(lone);
}

static void run_lone(void *job)
{
    lone_matrix *lone = job;
    lone->what = run(&lone->s, &lone->w, lone->from[0], lone->from[1], lone->result);
}

/* Copy operand `which`, in the order in which it lies in memory. */
static void copy_matrix(lone_matrix *lone, int which, const char *from, size_t size)
{
    const gt_meta *meta = &lone->view[which].meta;
    int64_t rows = gt__rows(meta), columns = gt__columns(meta);
    int64_t *outer = &lone->s.row_stride[which], *inner = &lone->s.column_stride[which];
    if (*outer == 1 && *inner != 1) {
        int64_t *other = outer, count = rows;
        outer = inner;
        inner = other;
        rows = columns;
        columns = count;
    }
    char *to = lone->from[which];
    for (int64_t r = 0; r < rows; r++, to += (size_t)columns * size) {
        const char *row = from + r * *outer * (int64_t)size;
        if (*inner == 1)
            memcpy(to, row, (size_t)columns * size);
        for (int64_t c = 0; c < columns && *inner != 1; c++)
            memcpy(to + c * (int64_t)size, row + c * *inner * (int64_t)size, size);
    }
    *outer = columns;
    *inner = 1;
}

/* NULL: no memory for it. */
static lone_matrix *take_matrix(const linalg *s, const char *const *from, size_t size)
{
    size_t bytes[3] = {0}, all = workspace_bytes(s, size);
    for (int k = 0; k < s->batch.views; k++)
        bytes[k] = round_up((size_t)(gt__rows(&s->call->in[k]->meta) * gt__columns(&s->call->in[k]->meta)) * size);
    bytes[2] = round_up((size_t)s->result * size);
    lone_matrix *lone = calloc(1, sizeof *lone);
    if (!lone)
        return NULL;
    if (gt__cpu_scratch(s->cpu, all + bytes[0] + bytes[1] + bytes[2], &lone->memory) != GT_OK) {
        free(lone);
        return NULL;
    }
    lone->s = *s;
    lone->call = *s->call;
    lone->ins = *s->call->ins;
    lone->s.cpu = NULL; /* it may be closed while this runs */
    lone->s.call = &lone->call;
    lone->call.ins = &lone->ins;
    lone->call.in = lone->in;
    lone->call.out = NULL;
    lone->call.tail = NULL;
    lone->w = workspace_cut(s, size, lone->memory);
    lone->from[0] = (char *)lone->memory + all;
    lone->from[1] = lone->from[0] + bytes[0];
    lone->result = lone->from[1] + bytes[1];
    for (int k = 0; k < s->batch.views; k++) {
        lone->view[k] = *s->call->in[k];
        lone->view[k].data = NULL;
        lone->in[k] = &lone->view[k];
        copy_matrix(lone, k, from[k], size);
    }
    return lone;
}

/* False: there is no memory for copies, and the matrix was not computed. */
static bool run_detached(const linalg *s, const char *const *from, char *to, size_t size, uint64_t *what)
{
    lone_matrix *lone = take_matrix(s, from, size);
    *what = 0;
    if (!lone)
        return false;
    if (gt__detach_run(s->cpu->parallel, run_lone, drop_matrix, lone)) {
        memcpy(to, lone->result, (size_t)s->result * size);
        *what = lone->what;
        drop_matrix(lone);
    }
    return true;
}

/* An estimate, in multiplications of float32: LAPACK's own loops are slower than products. A matrix that is computed aside takes a
 * tenth of a second or so, of which copies and a thread are a few hundredths. */
static bool is_long(const linalg *s)
{
    double m = s->m, n = s->n, k = s->k, work = m * n * k;
    bool iterates = false;
    switch (s->op) {
    case GT_OP_solve:
        work += n * n * n;
        break;
    case GT_OP_cholesky:
        work /= 4;
        break;
    case GT_OP_qr:
        work += m * (double)s->columns * k;
        break;
    case GT_OP_svd:
    case GT_OP_pinv:
    case GT_OP_cofactor:
    case GT_OP_eigh:
    case GT_OP_eig:
        iterates = true;
        work += s->vectors == GT_VECTORS_FULL ? (m > n ? m * m : n * n) * k : 0;
        break;
    default:
        break;
    }
    work *= (double)gt__dtype_size((gt_dtype)s->call->in[0]->meta.dtype) / sizeof(float);
    return s->cpu->cancel && work > (iterates ? 0x1p28 : 0x1p31);
}

/* ---- all of them -------------------------------------------------------------------------------------------- */

/* One thread's matrices. False: no memory. */
static bool run_share(outcome *all, int64_t begin, int64_t end, void **memory)
{
    const linalg *s = all->s;
    size_t size = gt__dtype_size((gt_dtype)s->call->in[0]->meta.dtype);
    bool large = s->is_long || (int64_t)s->m * s->n * s->k > GT_CPU_GRAIN;
    for (int64_t matrix = begin; matrix < end && !(large && gt__parallel_poll(s->cpu->parallel)); matrix++) {
        int64_t offset[GT_LOOP_VIEWS];
        const char *from[2] = {NULL};
        gt__loop_offsets(&s->batch, s->batch.rank, matrix, offset);
        for (int k = 0; k < s->batch.views; k++)
            from[k] = (const char *)s->call->in[k]->data + offset[k] * (int64_t)size;
        char *to = (char *)s->call->out->data + matrix * s->result * (int64_t)size;
        uint64_t what;
        if (!s->is_long || !run_detached(s, from, to, size, &what)) {
            if (!*memory && gt__cpu_scratch(s->cpu, workspace_bytes(s, size), memory) != GT_OK)
                return false;
            workspace w = workspace_cut(s, size, *memory);
            what = run(s, &w, from[0], from[1], to);
        }
        if (what)
            keep_failure(all, matrix, what);
    }
    return true;
}

static void run_matrices(void *context, int64_t begin, int64_t end)
{
    outcome *all = context;
    void *memory = NULL; /* a workspace, if one is needed */
    if (!run_share(all, begin, end, &memory))
        all->no_memory = true;
    free(memory);
}

/* The batch axes of an operand, and the strides of its matrices. */
static void add_operand(linalg *s, int which)
{
    gt_view batch = *s->call->in[which];
    unsigned rank = batch.meta.rank;
    s->row_stride[which] = batch.stride[rank - 2];
    s->column_stride[which] = batch.stride[rank - 1];
    batch.meta.rank = (uint8_t)(rank - 2);
    gt__loop_add(&s->batch, &batch);
}

/* The batch of results: their axes without those of one matrix. Returns its size. */
static int64_t start_batch(linalg *s)
{
    gt_meta batch = s->call->out->meta;
    unsigned drop = s->op == GT_OP_det ? 0 : s->op == GT_OP_slogdet ? 1 : 2;
    int64_t matrices = 1;
    batch.rank = (uint8_t)(batch.rank - drop);
    for (unsigned axis = 0; axis < batch.rank; axis++)
        matrices *= batch.shape[axis];
    gt__loop_start(&s->batch, &batch);
    for (unsigned k = 0; k < s->call->operands; k++)
        add_operand(s, (int)k);
    gt__loop_collapse(&s->batch);
    return matrices;
}

gt_err gt__cpu_linalg(gt_engine *engine, const gt_call *call)
{
    const gt_meta *a = &call->in[0]->meta, *out = &call->out->meta;
    bool solves = gt__op_table[call->op].form == GT_FORM_SOLVE;
    int64_t m = call->op == GT_OP_ldl_solve ? gt__columns(a) : gt__rows(a), n = gt__columns(a);
    int64_t k = solves ? gt__columns(&call->in[1]->meta) : gt__min(m, n);
    if (out->numel == 0)
        return GT_OK;
    if (m > INT32_MAX / 4 || n > INT32_MAX / 4 || k > INT32_MAX / 4)
        return gt__fail(GT_ERR_UNSUPPORTED, "matrices of %lld by %lld are too large for LAPACK", (long long)m,
                        (long long)n);
    linalg s = {.cpu = gt__cpu(engine), .call = call, .op = call->op, .m = (int)m, .n = (int)n, .k = (int)k};
    int64_t matrices = start_batch(&s);
    /* In elements of the operand's dtype: a complex number is two real ones. */
    s.result = out->numel / matrices *
               (int64_t)(gt__dtype_size((gt_dtype)out->dtype) / gt__dtype_size((gt_dtype)a->dtype));
    if (call->op == GT_OP_qr || call->op == GT_OP_svd || call->op == GT_OP_eigh || call->op == GT_OP_eig) {
        s.vectors = (gt_vectors)call->ins->imm[0].i;
        s.columns = (int)gt__columns(out);
        s.upper = call->ins->imm[1].i != 0;
    }
    if (call->op == GT_OP_solve_triangular) {
        s.upper = call->ins->imm[0].i & GT_TRIANGLE_UPPER;
        s.unit = call->ins->imm[0].i & GT_TRIANGLE_UNIT;
    }
    s.hermitian = (call->op == GT_OP_ldl || call->op == GT_OP_ldl_solve) && call->ins->imm[0].i;
    if (!plan(&s))
        return gt__fail(GT_ERR_UNSUPPORTED, "matrices of %lld by %lld are too large for LAPACK", (long long)m,
                        (long long)n);
    s.is_long = is_long(&s);
    outcome all = {.s = &s, .failure = UINT64_MAX};
    int64_t cost = gt__min((int64_t)1 << 40, m * n) * (k + 1); /* an estimate of the multiplications */
    gt__parallel_for(s.cpu->parallel, matrices, gt__grain(cost), run_matrices, &all);
    return all.no_memory ? gt__fail(GT_ERR_MEMORY, "the worker has no memory for the workspace of %s",
                                    gt__op_table[call->op].name)
                         : failed(&all);
}

/*
 * engine_linalg.h: cases of linear algebra for test_engine.c. Most rows have one right result, which both engines must give;
 * singular and eigenvectors have several, so there each engine's must be orthonormal and give the matrix back.
 */
#ifndef GT_TESTS_ENGINE_LINALG_H
#define GT_TESTS_ENGINE_LINALG_H

#include <complex.h>

#include "check.h"
#include "engine_fixture.h"
#include "core/linalg.h"

static const shape matrix_shapes[] = {
    {2, 0, 0},    {2, 1, 1},     {2, 4, 4},   {3, 2, 5, 5}, {4, 2, 3, 4, 4}, {3, 0, 3, 3},
    {2, 40, 40},  {3, 33, 6, 6}, {2, 5, 3},   {2, 3, 5},    {2, 0, 3},       {2, 3, 0},
    {3, 2, 6, 2}, {3, 2, 2, 6},  {2, 45, 23}, {2, 7, 1},    {1, 3},          {0},
};

/* Square matrices get a heavy diagonal: positive definite, as far as the lower triangle goes, and far from singular. */
static void make_regular(const tensor *a)
{
    const gt_meta *meta = &a->view.meta;
    if (meta->rank < 2 || gt__rows(meta) != gt__columns(meta))
        return;
    int64_t n = gt__rows(meta);
    for (int64_t k = 0; k < meta->numel; k++)
        if (k % (n * n) / n == k % n)
            gt__reference_put_real(&a->view, k, 6 * (double)n + draw_real(0, 3));
}

/* ---- vectors that are determined only up to a turn ------------------------------------------------------------- */

/* Element (i, j) of one matrix of a batch, `columns` wide and of `size` elements, from `first`. */
static double _Complex element(const gt_view *view, int64_t first, int64_t columns, int64_t i, int64_t j)
{
    return gt__reference_complex(view, first + i * columns + j);
}

typedef struct packed {
    const gt_view *out;
    int64_t first, c; /* of this matrix in out; its columns */
} packed;

static bool orthonormal(const packed *p, int64_t row, int64_t rows, int64_t columns, double allowed)
{
    for (int64_t i = 0; i < columns; i++)
        for (int64_t j = 0; j <= i; j++) {
            double _Complex dot = 0;
            for (int64_t k = row; k < row + rows; k++)
                dot += conj(element(p->out, p->first, p->c, k, i)) * element(p->out, p->first, p->c, k, j);
            if (!(cabs(dot - (i == j)) <= allowed))
                return false;
        }
    return true;
}

/* left diag(values) right, k terms, against a (m, n); right is vh^T for svd, v for eigh, whose a is what its triangle says. */
static bool gives_back(const operation *o, const packed *p, int64_t matrix, int64_t left, int64_t middle,
                       int64_t right, double allowed)
{
    const gt_view *a = &o->in[0]->view;
    int64_t m = gt__rows(&a->meta), n = gt__columns(&a->meta), k = m < n ? m : n;
    bool symmetric = o->ins.op == GT_OP_eigh, upper = o->ins.imm[1].i != 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double _Complex sum = 0;
            for (int64_t t = 0; t < k; t++) {
                double _Complex last = element(p->out, p->first, p->c, right + j, t);
                sum += element(p->out, p->first, p->c, left + i, t) * element(p->out, p->first, p->c, middle, t) *
                       (symmetric ? conj(last) : last);
            }
            bool mirrored = symmetric && (upper ? i > j : i < j);
            double _Complex given = element(a, matrix * m * n, n, mirrored ? j : i, mirrored ? i : j);
            double _Complex expected = symmetric && i == j ? creal(given) : mirrored ? conj(given) : given;
            if (!(cabs(sum - expected) <= allowed))
                return false;
        }
    return true;
}

/* eig: A v = w v for columns of length 1, and the values add up to the trace. */
static bool has_eigenvectors(const operation *o, const gt_view *out)
{
    const gt_view *a = &o->in[0]->view;
    int64_t n = gt__rows(&a->meta), size = gt__rows(&out->meta) * n;
    bool vectors = o->ins.imm[0].i != GT_VECTORS_NONE;
    double unit = (out->meta.dtype == GT_COMPLEX128 ? 0x1p-44 : 0x1p-14) * (double)(n * n + 1);
    for (int64_t matrix = 0; size && matrix < out->meta.numel / size; matrix++) {
        double _Complex trace = 0;
        for (int64_t j = 0; j < n; j++) {
            double _Complex w = gt__reference_complex(out, matrix * size + j);
            double length = 0;
            trace += w - gt__reference_complex(a, matrix * n * n + j * n + j);
            for (int64_t i = 0; vectors && i < n; i++) {
                double _Complex v = gt__reference_complex(out, matrix * size + n + i * n + j), sum = -w * v;
                for (int64_t k = 0; k < n; k++)
                    sum += gt__reference_complex(a, matrix * n * n + i * n + k) *
                           gt__reference_complex(out, matrix * size + n + k * n + j);
                length += creal(v * conj(v));
                if (!(cabs(sum) <= unit))
                    return false;
            }
            if (vectors && !(fabs(length - 1) <= unit))
                return false;
        }
        if (!(cabs(trace) <= unit * (double)n))
            return false;
    }
    return true;
}

static bool is_decomposition(const operation *o, const gt_view *out)
{
    const gt_meta *a = &o->in[0]->view.meta;
    if (o->ins.op == GT_OP_eig)
        return has_eigenvectors(o, out);
    int64_t m = gt__rows(a), n = gt__columns(a), k = m < n ? m : n,
            size = gt__rows(&out->meta) * gt__columns(&out->meta);
    bool svd = o->ins.op == GT_OP_svd, full = o->ins.imm[0].i == GT_VECTORS_FULL;
    double unit = gt__dtype_real((gt_dtype)out->meta.dtype) == GT_FLOAT64 ? 0x1p-46 : 0x1p-17;
    for (int64_t matrix = 0; size && matrix < out->meta.numel / size; matrix++) {
        packed p = {.out = out, .first = matrix * size, .c = gt__columns(&out->meta)};
        double scale = k ? cabs(element(out, p.first, p.c, svd ? m : 0, svd ? 0 : k - 1)) + 1 : 1;
        int64_t middle = svd ? m : 0, left = svd ? 0 : 1, right = svd ? m + 1 : 1;
        if (!orthonormal(&p, left, m, svd && full ? m : k, unit) ||
            !orthonormal(&p, right, n, svd && full ? n : k, unit) ||
            !gives_back(o, &p, matrix, left, middle, right, unit * scale * (double)(m + n)))
            return false;
    }
    return true;
}

static void vectors_case(const operation *o)
{
    gt_engine *const engines[] = {fixture_now.reference, fixture_now.tested};
    const gt_meta *metas[] = {&o->in[0]->view.meta};
    gt_meta meta = {0};
    gt_dtype compute;
    if (gt__op_infer(&o->ins, o->tail, metas, &meta, &compute) != GT_OK) {
        fixture_now.refused++;
        return;
    }
    fixture_now.cases++;
    for (int which = 0; which < 2; which++) {
        gt_view out;
        bool overrun;
        gt_err err = run_on(engines[which], o, &meta, compute, &out, &overrun);
        if (err != GT_OK || overrun || !is_decomposition(o, &out)) {
            fixture_now.failed++;
            fprintf(stderr, "%s: not the decomposition (%s)\n", engines[which]->ops->name,
                    err ? gt_error_text() : "");
            describe(o, &meta, compute);
        }
        free(out.data);
    }
}

/* ---- cases -------------------------------------------------------------------------------------------------- */

/* Cofactors of many factors: near 1, or small ones among large would be compared to more digits than there are. */
static void make_small(const tensor *a)
{
    for (int64_t k = 0; k < a->view.meta.numel; k++)
        gt__reference_put_complex(&a->view, k,
                                  gt__reference_complex(&a->view, k) / (6 * (double)gt__rows(&a->view.meta)));
}

static void matrix_case(gt_opcode op, const tensor *a)
{
    for (int64_t choice = 0;
         choice < (op == GT_OP_qr || op == GT_OP_svd || op == GT_OP_eigh || op == GT_OP_eig ? 3 : 1); choice++) {
        operation o = operation_new(op, 1, a, NULL, NULL);
        o.ins.imm[0].i = choice;
        if (op == GT_OP_ldl)
            o.ins.imm[0].i = draw_integer(0, 2);
        if (op == GT_OP_eigh)
            o.ins.imm[1].i = draw_integer(0, 2);
        if (op == GT_OP_pinv) {
            o.ins.imm[0].f = draw_integer(0, 2) ? -1 : 1e-4;
            o.ins.imm[1].f = 0;
        }
        o.terms = op == GT_OP_ldl ? 40000 : 400;
        if (op == GT_OP_eig || ((op == GT_OP_svd || op == GT_OP_eigh) && choice != GT_VECTORS_NONE))
            vectors_case(&o);
        else
            run_case(&o);
    }
}

static void generate_matrix(gt_opcode op)
{
    for (int dtype = 0; dtype < GT_DTYPE_COUNT; dtype++)
        for (size_t k = 0; k < sizeof matrix_shapes / sizeof *matrix_shapes; k++)
            for (int how = 0; how < LAYOUTS; how++) {
                if (how == REPEATED && matrix_shapes[k][0] < 3)
                    continue; /* of equal rows: whether such a matrix is singular is a matter of rounding */
                if (op == GT_OP_cofactor && (how == REPEATED || matrix_shapes[k][1] > 20))
                    continue; /* slow by minors, and larger than float32 */
                tensor a = tensor_new((gt_dtype)dtype, matrix_shapes[k], (layout)how, PLAIN);
                if (op != GT_OP_ldl || how % 2) /* blocks of 2 by 2 come from small diagonals */
                    make_regular(&a);
                if (op == GT_OP_cofactor && a.view.meta.rank >= 2)
                    make_small(&a);
                if (op != GT_OP_det || a.view.meta.rank < 2 || gt__rows(&a.view.meta) < 20)
                    matrix_case(op, &a);
                tensor_free(&a);
            }
}

static const shape equations[][2] = {
    {{2, 4, 4}, {2, 4, 3}},       {{3, 2, 4, 4}, {2, 4, 1}}, {{2, 4, 4}, {3, 5, 4, 2}},
    {{3, 1, 3, 3}, {3, 2, 3, 3}}, {{2, 0, 0}, {2, 0, 2}},    {{2, 3, 3}, {2, 3, 0}},
    {{3, 0, 3, 3}, {2, 3, 2}},    {{2, 40, 40}, {2, 40, 7}}, {{3, 2, 1, 1}, {2, 1, 5}},
    {{2, 3, 3}, {2, 4, 1}},       {{2, 3, 3}, {1, 3}},       {{3, 40, 5, 5}, {3, 40, 5, 2}},
};

/* A row below the factors: pivots that exchange no rows, of blocks of 1 by 1 or 2 by 2. */
static void put_pivots(const tensor *a, bool pairs)
{
    const gt_meta *meta = &a->view.meta;
    if (meta->rank < 2 || gt__rows(meta) != gt__columns(meta) + 1)
        return;
    int64_t n = gt__columns(meta);
    for (int64_t k = 0; k < meta->numel; k++) {
        int64_t row = k / n % (n + 1), column = k % n;
        bool paired = pairs && (column % 2 || column + 1 < n);
        if (row == n)
            gt__reference_put_real(&a->view, k, (double)(paired ? -(column / 2 * 2 + 2) : column + 1));
        else if (row == column || (row == column + 1 && column % 2 == 0)) /* of a block: LAPACK divides by it */
            gt__reference_put_real(&a->view, k, (row == column ? 6 * (double)n : 1) + draw_real(0, 3));
    }
}

static void generate_solve(gt_opcode op)
{
    for (int dtype = 0; dtype < GT_DTYPE_COUNT; dtype++)
        for (size_t k = 0; k < sizeof equations / sizeof *equations; k++)
            for (int how = 0; how < LAYOUTS; how++) {
                if (how == REPEATED && equations[k][0][0] < 3)
                    continue;
                shape sizes;
                memcpy(sizes, equations[k][0], sizeof sizes);
                if (op == GT_OP_ldl_solve && sizes[0] >= 2)
                    sizes[sizes[0] - 1]++;
                tensor a = tensor_new((gt_dtype)dtype, sizes, (layout)how, PLAIN);
                tensor b = tensor_new((gt_dtype)dtype, equations[k][1], (layout)((how * 2 + 1) % LAYOUTS), PLAIN);
                make_regular(&a);
                put_pivots(&a, how % 2);
                int64_t choices = op == GT_OP_solve_triangular ? 4 : op == GT_OP_ldl_solve ? 2 : 1;
                for (int64_t triangle = 0; triangle < choices; triangle++) {
                    operation o = operation_new(op, 2, &a, &b, NULL);
                    o.ins.imm[0].i = triangle;
                    o.terms = 400;
                    bool grows =
                        op == GT_OP_ldl_solve || triangle & GT_TRIANGLE_UNIT; /* without a heavy diagonal */
                    if (!grows || gt__columns(&a.view.meta) < 6)
                        run_case(&o);
                }
                tensor_free(&a);
                tensor_free(&b);
            }
}

/* ---- matrices without a result -------------------------------------------------------------------------------- */

static void check_failure(gt_opcode op, const tensor *a, const tensor *b, const char *text)
{
    operation o = operation_new(op, b ? 2 : 1, a, b, NULL);
    CHECK_EQ(run_case(&o), GT_ERR_LINALG);
    if (!CHECK(strstr(gt_error_text(), text) != NULL))
        fprintf(stderr, "%s: %s\n", gt__op_table[op].name, gt_error_text());
}

/* The third of five has no result; whichever thread meets it first. */
static void test_no_result(const void *argument)
{
    (void)argument;
    tensor a = tensor_new(GT_FLOAT32, (shape){3, 5, 3, 3}, TRANSPOSED, PLAIN);
    tensor b = tensor_new(GT_FLOAT32, (shape){2, 3, 1}, CONTIGUOUS, PLAIN);
    make_regular(&a);
    for (int64_t k = 18; k < 27; k++)
        gt__reference_put_real(&a.view, k, 0);
    check_failure(GT_OP_inverse, &a, NULL, "(Batch element 2): The diagonal element 1 is zero");
    check_failure(GT_OP_solve, &a, &b, "(Batch element 2): The solver failed");
    check_failure(GT_OP_cholesky, &a, NULL, "(Batch element 2): The factorization could not be completed");
    gt__reference_put_real(&a.view, 19, NAN);
    gt__reference_put_real(&a.view, 21, INFINITY);
    check_failure(GT_OP_svd, &a, NULL, "(Batch element 2): The algorithm failed to converge");
    check_failure(GT_OP_eigh, &a, NULL, "non-finite");
    check_failure(GT_OP_eig, &a, NULL, "non-finite");
    check_failure(GT_OP_pinv, &a, NULL, "non-finite");
    tensor_free(&a);
    tensor_free(&b);
}

#endif

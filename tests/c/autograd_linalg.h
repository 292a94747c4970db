/*
 * autograd_linalg.h: functions of linear algebra for test_autograd.c to differentiate. Inputs lie between 0.55 and 1.95; each
 * function first makes a matrix of them that is far from singular. Singular and eigenvectors have no sign, so
 * what is differentiated has none either.
 */
#ifndef GT_TESTS_AUTOGRAD_LINALG_H
#define GT_TESTS_AUTOGRAD_LINALG_H

#include "client_fixture.h"

/* a with 4 more on the diagonal; a is released. */
static gt_err add_diagonal(gt_err err, gt_tensor *a, gt_tensor **out)
{
    gt_tensor *eye = NULL, *scaled = NULL;
    if (err != GT_OK)
        return err;
    int64_t n = gt_tensor_shape(a)[gt_tensor_rank(a) - 1];
    err = gt_eye(gt_tensor_client(a), GT_FLOAT64, n, n, &eye);
    err = err ? err : gt_mul_scalar(eye, 4, &scaled);
    err = err ? err : gt_add(a, scaled, out);
    gt_tensor_release(a);
    gt_tensor_release(eye);
    gt_tensor_release(scaled);
    return err;
}

static gt_err transposed(gt_tensor *a, gt_tensor **out)
{
    return gt_transpose(a, gt_tensor_rank(a) - 2, gt_tensor_rank(a) - 1, out);
}

/* Regular, and a a^T + 4, which is symmetric and positive definite. */
static gt_err regular(gt_tensor **in, gt_tensor **out)
{
    return add_diagonal(GT_OK, gt_tensor_retain(in[0]), out);
}

static gt_err positive(gt_tensor **in, gt_tensor **out)
{
    gt_tensor *other, *product = NULL;
    GT_TRY(transposed(in[0], &other));
    gt_err err = gt_matmul(in[0], other, &product);
    gt_tensor_release(other);
    return add_diagonal(err, product, out);
}

#define OF_MATRIX(name, make, call)                                                                               \
    static gt_err name(gt_tensor **in, gt_tensor **out)                                                           \
    {                                                                                                             \
        gt_tensor *a;                                                                                             \
        GT_TRY(make(in, &a));                                                                                     \
        gt_err err = call;                                                                                        \
        gt_tensor_release(a);                                                                                     \
        return err;                                                                                               \
    }
OF_MATRIX(run_inverse, regular, gt_inverse(a, out))
OF_MATRIX(run_det, regular, gt_det(a, out))
OF_MATRIX(run_cofactor, regular, gt__emit_matrix(GT_OP_cofactor, a, (gt_imm){.i = 0}, (gt_imm){.i = 0}, out))
OF_MATRIX(run_cholesky, positive, gt_cholesky(a, out))
OF_MATRIX(run_eigvalsh, positive, gt_eigvalsh(a, false, out))
OF_MATRIX(run_solve, regular, gt_solve(a, in[1], out))
OF_MATRIX(run_solve_upper, regular, gt_solve_triangular(a, in[1], true, false, out))
OF_MATRIX(run_solve_unit, regular, gt_solve_triangular(a, in[1], false, true, out))

static gt_err run_pinv(gt_tensor **in, gt_tensor **out)
{
    return gt_pinv(in[0], -1, 0, out);
}

static gt_err run_svdvals(gt_tensor **in, gt_tensor **out)
{
    return gt_svdvals(in[0], out);
}

static gt_err run_slogdet(gt_tensor **in, gt_tensor **out)
{
    gt_tensor *a, *sign = NULL;
    GT_TRY(regular(in, &a));
    gt_err err = gt_slogdet(a, &sign, out);
    gt_tensor_release(a);
    gt_tensor_release(sign);
    return err;
}

/* sin(left) * middle @ cos(right), or of their sizes: something of all factors. Releases them. */
static gt_err combine(gt_err err, gt_tensor *left, gt_tensor *middle, gt_tensor *right, bool sizes,
                      gt_tensor **out)
{
    gt_tensor *step[3] = {NULL};
    err = err ? err : (sizes ? gt_abs : gt_sin)(left, &step[0]);
    err = err ? err : middle ? gt_mul(step[0], middle, &step[1]) : gt_copy(step[0], &step[1]);
    err = err ? err : (sizes ? gt_abs : gt_cos)(right, &step[2]);
    err = err ? err : gt_matmul(step[1], step[2], out);
    gt_tensor *const used[] = {left, middle, right, step[0], step[1], step[2]};
    for (int k = 0; k < 6; k++)
        gt_tensor_release(used[k]);
    return err;
}

static gt_err run_qr(gt_tensor **in, gt_tensor **out)
{
    gt_tensor *q = NULL, *r = NULL;
    gt_err err = gt_qr(in[0], false, &q, &r);
    return combine(err, q, NULL, r, false, out);
}

static gt_err run_svd(gt_tensor **in, gt_tensor **out)
{
    gt_tensor *u = NULL, *s = NULL, *vh = NULL;
    gt_err err = gt_svd(in[0], false, &u, &s, &vh);
    return combine(err, u, s, vh, true, out);
}

static gt_err run_eigh(gt_tensor **in, gt_tensor **out)
{
    gt_tensor *a, *w = NULL, *v = NULL, *turned = NULL;
    GT_TRY(positive(in, &a));
    gt_err err = gt_eigh(a, true, &w, &v);
    gt_tensor_release(a);
    err = err ? err : transposed(v, &turned);
    return combine(err, v, w, turned, true, out);
}

#define LINALG_FUNCTIONS                                                                                          \
    {.name = "inverse", .run = run_inverse, .inputs = {{3, {2, 3, 3}}}},                                          \
        {.name = "det", .run = run_det, .inputs = {{3, {2, 3, 3}}}},                                              \
        {.name = "cofactor", .run = run_cofactor, .inputs = {{3, {2, 3, 3}}}},                                    \
        {.name = "slogdet", .run = run_slogdet, .inputs = {{3, {2, 3, 3}}}},                                      \
        {.name = "cholesky", .run = run_cholesky, .inputs = {{3, {2, 3, 3}}}},                                    \
        {.name = "pinv, tall", .run = run_pinv, .inputs = {{2, {4, 2}}}},                                         \
        {.name = "pinv, wide", .run = run_pinv, .inputs = {{2, {2, 4}}}},                                         \
        {.name = "qr, tall", .run = run_qr, .inputs = {{3, {2, 4, 2}}}},                                          \
        {.name = "qr, wide", .run = run_qr, .inputs = {{2, {2, 4}}}},                                             \
        {.name = "svd, tall", .run = run_svd, .inputs = {{2, {4, 2}}}},                                           \
        {.name = "svd, wide", .run = run_svd, .inputs = {{2, {3, 4}}}},                                           \
        {.name = "svdvals", .run = run_svdvals, .inputs = {{2, {3, 4}}}},                                         \
        {.name = "eigh", .run = run_eigh, .inputs = {{2, {3, 3}}}},                                               \
        {.name = "eigvalsh", .run = run_eigvalsh, .inputs = {{2, {3, 3}}}},                                       \
        {.name = "solve", .run = run_solve, .inputs = {{2, {3, 3}}, {3, {2, 3, 2}}}},                             \
        {.name = "solve, a vector", .run = run_solve, .inputs = {{2, {3, 3}}, {1, {3}}}},                         \
        {.name = "solve_triangular", .run = run_solve_upper, .inputs = {{3, {2, 3, 3}}, {2, {3, 2}}}},            \
        {.name = "solve_triangular, unit", .run = run_solve_unit, .inputs = {{2, {3, 3}}, {2, {3, 2}}}},

#endif

/*
 * linalg.c: the linear algebra of gt.h. A decomposition is one instruction whose result packs all factors (core/linalg.h);
 * the functions here return them as views. gradients/linalg.c has the rules.
 */
#include "core/linalg.h"

#include <string.h>

#include "client/client.h"

gt_err gt__emit_matrix(gt_opcode op, gt_tensor *a, gt_imm first, gt_imm second, gt_tensor **out)
{
    gt_instruction prototype = {.op = (uint16_t)op, .imm = {first, second}};
    return gt__emit(a->client, prototype, NULL, &a, 1, out);
}

static gt_imm integer(int64_t value)
{
    return (gt_imm){.i = value};
}

static gt_imm number(double value)
{
    return (gt_imm){.f = value};
}

/* ---- one result --------------------------------------------------------------------------------------------- */

gt_err gt_inverse(gt_tensor *a, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    return gt__emit_matrix(GT_OP_inverse, a, integer(0), integer(0), out);
}

gt_err gt_pinv(gt_tensor *a, double rtol, double atol, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    return gt__emit_matrix(GT_OP_pinv, a, number(rtol), number(atol), out);
}

gt_err gt_det(gt_tensor *a, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    return gt__emit_matrix(GT_OP_det, a, integer(0), integer(0), out);
}

gt_err gt_cholesky(gt_tensor *a, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    return gt__emit_matrix(GT_OP_cholesky, a, integer(0), integer(0), out);
}

/* ---- pieces of a packed result ------------------------------------------------------------------------------ */

/* A block of each packed matrix. */
static gt_err cut(gt_tensor *packed, int64_t first_row, int64_t rows, int64_t columns, gt_tensor **out)
{
    unsigned rank = packed->meta.rank;
    int64_t start[GT_MAX_RANK] = {0}, step[GT_MAX_RANK], count[GT_MAX_RANK];
    for (unsigned axis = 0; axis < rank; axis++) {
        step[axis] = 1;
        count[axis] = packed->meta.shape[axis];
    }
    start[rank - 2] = first_row;
    count[rank - 2] = rows;
    count[rank - 1] = columns;
    return gt_slice(packed, start, step, count, out);
}

static gt_err cut_transposed(gt_tensor *packed, int64_t first_row, int64_t rows, int64_t columns, gt_tensor **out)
{
    gt_tensor *piece;
    GT_TRY(cut(packed, first_row, rows, columns, &piece));
    gt_err err = gt_transpose(piece, piece->meta.rank - 2, piece->meta.rank - 1, out);
    gt_tensor_release(piece);
    return err;
}

/* One element of the last axis, without that axis. */
static gt_err cut_last(gt_tensor *a, int64_t which, gt_tensor **out)
{
    gt_tensor *piece;
    unsigned rank = a->meta.rank;
    int64_t start[GT_MAX_RANK] = {0}, step[GT_MAX_RANK], count[GT_MAX_RANK];
    for (unsigned axis = 0; axis < rank; axis++) {
        step[axis] = 1;
        count[axis] = a->meta.shape[axis];
    }
    start[rank - 1] = which;
    count[rank - 1] = 1;
    GT_TRY(gt_slice(a, start, step, count, &piece));
    gt_err err = gt_reshape(piece, (int)rank - 1, count, out);
    gt_tensor_release(piece);
    return err;
}

/* The real parts, of numbers that have no others. Takes the tensor, also on failure. */
static gt_err real_parts(gt_tensor *numbers, gt_tensor **out)
{
    gt_tensor *pairs;
    if (!gt__dtype_is_complex((gt_dtype)numbers->meta.dtype)) {
        *out = numbers;
        return GT_OK;
    }
    gt_err err = gt_view_as_real(numbers, &pairs);
    gt_tensor_release(numbers);
    GT_TRY(err);
    err = cut_last(pairs, 0, out);
    gt_tensor_release(pairs);
    return err;
}

/* One row of each packed matrix, as vectors. */
static gt_err cut_row(gt_tensor *packed, int64_t row, int64_t columns, gt_tensor **out)
{
    gt_tensor *piece;
    int64_t shape[GT_MAX_RANK];
    unsigned rank = packed->meta.rank;
    GT_TRY(cut(packed, row, 1, columns, &piece));
    memcpy(shape, piece->meta.shape, sizeof shape);
    shape[rank - 2] = columns;
    gt_err err = gt_reshape(piece, (int)rank - 1, shape, out);
    gt_tensor_release(piece);
    return err;
}

static gt_err cut_reals(gt_tensor *packed, int64_t row, int64_t columns, gt_tensor **out)
{
    gt_tensor *piece;
    GT_TRY(cut_row(packed, row, columns, &piece));
    return real_parts(piece, out);
}

/* Deliver the results, or release those that were made before a failure. */
static gt_err deliver(gt_err err, gt_tensor *packed, gt_tensor **const *to, gt_tensor **results, int count)
{
    gt_tensor_release(packed);
    for (int k = 0; k < count; k++) {
        if (err == GT_OK)
            *to[k] = results[k];
        else
            gt_tensor_release(results[k]);
    }
    return err;
}

gt_err gt_slogdet(gt_tensor *a, gt_tensor **sign, gt_tensor **logabsdet)
{
    GT_CLEAR(sign);
    GT_CLEAR(logabsdet);
    GT_REQUIRE(a, sign, logabsdet);
    gt_tensor *packed, *numbers, *results[2] = {NULL};
    GT_TRY(gt__emit_matrix(GT_OP_slogdet, a, integer(0), integer(0), &packed));
    gt_err err = cut_last(packed, 0, &results[0]);
    if (err == GT_OK)
        err = cut_last(packed, 1, &numbers);
    if (err == GT_OK)
        err = real_parts(numbers, &results[1]);
    return deliver(err, packed, (gt_tensor * *const[]){sign, logabsdet}, results, 2);
}

gt_err gt_qr(gt_tensor *a, bool complete, gt_tensor **q, gt_tensor **r)
{
    GT_CLEAR(q);
    GT_CLEAR(r);
    GT_REQUIRE(a, q, r);
    gt_tensor *packed, *results[2] = {NULL};
    gt_meta meta = a->meta; /* emitting may wait, and another thread release a */
    GT_TRY(gt__emit_matrix(GT_OP_qr, a, integer(complete ? GT_VECTORS_FULL : GT_VECTORS_REDUCED), integer(0),
                           &packed));
    int64_t m = gt__rows(&meta), n = gt__columns(&meta), columns = gt__columns(&packed->meta);
    gt_err err = cut(packed, 0, m, columns, &results[0]);
    if (err == GT_OK)
        err = cut_transposed(packed, m, n, columns, &results[1]);
    return deliver(err, packed, (gt_tensor * *const[]){q, r}, results, 2);
}

gt_err gt_svd(gt_tensor *a, bool full, gt_tensor **u, gt_tensor **s, gt_tensor **vh)
{
    GT_CLEAR(u);
    GT_CLEAR(s);
    GT_CLEAR(vh);
    GT_REQUIRE(a, u, s, vh);
    gt_tensor *packed, *results[3] = {NULL};
    gt_meta meta = a->meta; /* as in gt_qr */
    GT_TRY(
        gt__emit_matrix(GT_OP_svd, a, integer(full ? GT_VECTORS_FULL : GT_VECTORS_REDUCED), integer(0), &packed));
    int64_t m = gt__rows(&meta), n = gt__columns(&meta), least = m < n ? m : n;
    gt_err err = cut(packed, 0, m, full ? m : least, &results[0]);
    if (err == GT_OK)
        err = cut_reals(packed, m, least, &results[1]);
    if (err == GT_OK)
        err = cut_transposed(packed, m + 1, n, full ? n : least, &results[2]);
    return deliver(err, packed, (gt_tensor * *const[]){u, s, vh}, results, 3);
}

/* w and v of a packed result. */
static gt_err emit_eigen(gt_opcode op, gt_tensor *a, bool upper, gt_tensor **w, gt_tensor **v)
{
    gt_tensor *packed, *results[2] = {NULL};
    GT_TRY(gt__emit_matrix(op, a, integer(GT_VECTORS_REDUCED), integer(upper), &packed));
    int64_t n = gt__columns(&packed->meta);
    gt_err err = (op == GT_OP_eig ? cut_row : cut_reals)(packed, 0, n, &results[0]);
    if (err == GT_OK)
        err = cut(packed, 1, n, n, &results[1]);
    return deliver(err, packed, (gt_tensor * *const[]){w, v}, results, 2);
}

gt_err gt_eigh(gt_tensor *a, bool upper, gt_tensor **w, gt_tensor **v)
{
    GT_CLEAR(w);
    GT_CLEAR(v);
    GT_REQUIRE(a, w, v);
    return emit_eigen(GT_OP_eigh, a, upper, w, v);
}

gt_err gt_eig(gt_tensor *a, gt_tensor **w, gt_tensor **v)
{
    GT_CLEAR(w);
    GT_CLEAR(v);
    GT_REQUIRE(a, w, v);
    return emit_eigen(GT_OP_eig, a, false, w, v);
}

static gt_err only_values(gt_opcode op, gt_tensor *a, int64_t upper, gt_tensor **out)
{
    gt_tensor *packed;
    GT_TRY(gt__emit_matrix(op, a, integer(GT_VECTORS_NONE), integer(upper), &packed));
    gt_err err = (op == GT_OP_eig ? cut_row : cut_reals)(packed, 0, gt__columns(&packed->meta), out);
    gt_tensor_release(packed);
    return err;
}

gt_err gt_svdvals(gt_tensor *a, gt_tensor **s)
{
    GT_ARGUMENTS(s, a);
    return only_values(GT_OP_svd, a, 0, s);
}

gt_err gt_eigvalsh(gt_tensor *a, bool upper, gt_tensor **w)
{
    GT_ARGUMENTS(w, a);
    return only_values(GT_OP_eigh, a, upper, w);
}

gt_err gt_eigvals(gt_tensor *a, gt_tensor **w)
{
    GT_ARGUMENTS(w, a);
    return only_values(GT_OP_eig, a, 0, w);
}

/* ---- equations ---------------------------------------------------------------------------------------------- */

/* PyTorch's rule: one vector, or as many as there are matrices. */
static bool are_vectors(const gt_meta *a, const gt_meta *b)
{
    if (b->rank == 1)
        return true;
    bool same = a->rank >= 2 && b->rank == a->rank - 1;
    for (unsigned axis = 0; same && axis < b->rank; axis++)
        same = a->shape[axis] == b->shape[axis];
    return same;
}

static gt_err emit_solve(gt_opcode op, gt_tensor *a, gt_tensor *b, int64_t triangle, gt_tensor **out)
{
    gt_instruction prototype = {.op = (uint16_t)op, .imm = {integer(triangle)}};
    return gt__emit(a->client, prototype, NULL, (gt_tensor *[]){a, b}, 2, out);
}

gt_err gt_solve(gt_tensor *a, gt_tensor *b, gt_tensor **out)
{
    GT_ARGUMENTS(out, a, b);
    if (!are_vectors(&a->meta, &b->meta) || b->meta.rank == GT_MAX_RANK)
        return emit_solve(GT_OP_solve, a, b, 0, out);
    int64_t shape[GT_MAX_RANK];
    gt_tensor *columns, *solved;
    memcpy(shape, b->meta.shape, sizeof shape);
    shape[b->meta.rank] = 1;
    gt_tensor_retain(a); /* the first emission may wait, and another thread release a */
    gt_err err = gt_reshape(b, b->meta.rank + 1, shape, &columns);
    if (err == GT_OK)
        err = emit_solve(GT_OP_solve, a, columns, 0, &solved);
    gt_tensor_release(columns);
    gt_tensor_release(a);
    GT_TRY(err);
    err = gt_reshape(solved, solved->meta.rank - 1, solved->meta.shape, out);
    gt_tensor_release(solved);
    return err;
}

gt_err gt_solve_triangular(gt_tensor *a, gt_tensor *b, bool upper, bool unitriangular, gt_tensor **out)
{
    GT_ARGUMENTS(out, a, b);
    int64_t triangle = (upper ? GT_TRIANGLE_UPPER : 0) | (unitriangular ? GT_TRIANGLE_UNIT : 0);
    return emit_solve(GT_OP_solve_triangular, a, b, triangle, out);
}

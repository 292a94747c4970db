/*
 * linalg.c: gradient rules of linear algebra. Read steps.h first.
 *
 * A decomposition's rule cuts the packed result and its gradient into factors (core/linalg.h). The gradient of unused
 * vectors is zero, not absent. So quotients by differences of singular values or eigenvalues leave out equal values:
 * there the vectors are not determined, and a function that does not depend on their choice has no such part.
 */
#include "client/gradients/steps.h"
#include "core/linalg.h"

/* ---- steps -------------------------------------------------------------------------------------------------- */

static gt_tensor *matrix_step(gt_frame *f, gt_opcode op, gt_tensor *a)
{
    STEP(gt__emit_matrix(op, a, (gt_imm){.i = 0}, (gt_imm){.i = 0}, &result_));
}

static gt_tensor *decomposed(gt_frame *f, gt_opcode op, gt_tensor *a, int64_t upper)
{
    STEP(gt__emit_matrix(op, a, (gt_imm){.i = GT_VECTORS_REDUCED}, (gt_imm){.i = upper}, &result_));
}

static gt_tensor *solved(gt_frame *f, gt_tensor *a, gt_tensor *b)
{
    gt_instruction prototype = {.op = GT_OP_solve};
    STEP(gt__emit(a->client, prototype, NULL, (gt_tensor *[]){a, b}, 2, &result_));
}

static gt_tensor *solved_triangular(gt_frame *f, gt_tensor *a, gt_tensor *b, bool upper, bool unit)
{
    STEP(gt_solve_triangular(a, b, upper, unit, &result_));
}

static gt_tensor *lower(gt_frame *f, gt_tensor *a, int64_t diagonal)
{
    STEP(gt_tril(a, diagonal, &result_));
}

static gt_tensor *upper(gt_frame *f, gt_tensor *a, int64_t diagonal)
{
    STEP(gt_triu(a, diagonal, &result_));
}

/* Rows first_row.. and the first columns of each matrix. */
static gt_tensor *block(gt_frame *f, gt_tensor *a, int64_t first_row, int64_t rows, int64_t columns)
{
    gt_slot spec[3];
    if (!a)
        return NULL;
    unsigned rank = a->meta.rank;
    for (unsigned d = 0; d < rank; d++) {
        spec[0].i64[d] = 0;
        spec[1].i64[d] = 1;
        spec[2].i64[d] = a->meta.shape[d];
    }
    spec[0].i64[rank - 2] = first_row;
    spec[2].i64[rank - 2] = rows;
    spec[2].i64[rank - 1] = columns;
    return SLICE(a, spec);
}

/* Rows joined below each other. */
static gt_tensor *below(gt_frame *f, gt_tensor *a, gt_tensor *b)
{
    STEP(gt_cat((gt_tensor *[]){a, b}, 2, a->meta.rank - 2, &result_));
}

/* Numbers (...) as matrices (..., 1, 1). */
static gt_tensor *as_matrices(gt_frame *f, gt_tensor *a)
{
    int64_t shape[GT_MAX_RANK + 2];
    if (!a)
        return NULL;
    memcpy(shape, a->meta.shape, a->meta.rank * sizeof shape[0]);
    shape[a->meta.rank] = shape[a->meta.rank + 1] = 1;
    return RESHAPE(a, a->meta.rank + 2u, shape);
}

/* a / b where b is not 0; elsewhere 0, without a gradient. */
static gt_tensor *quotient(gt_frame *f, gt_tensor *a, gt_tensor *b)
{
    gt_tensor *zero = NUMBER(eq, b, 0);
    return ZERO_WHERE(zero, DIV(a, ADD(b, zero)));
}

/* For a row of numbers (..., 1, n): the matrix of b_j - b_i. */
static gt_tensor *differences(gt_frame *f, gt_tensor *row)
{
    return SUB(row, T(row));
}

/* ---- elimination -------------------------------------------------------------------------------------------- */

RULE(inverse, OUT)
{
    gt_tensor *transposed = T(f->out);
    GX(NEG(MATMUL(MATMUL(transposed, f->g), transposed)));
}

/* dP = -P dA P + P P^T dA^T (1 - A P) + (1 - P A) dA^T P^T P */
RULE(pinv, X | OUT)
{
    gt_tensor *p = f->out, *pt = T(p), *gt = T(f->g);
    gt_tensor *first = MATMUL(MATMUL(pt, f->g), pt);
    gt_tensor *left = MATMUL(MATMUL(gt, p), pt), *right = MATMUL(pt, MATMUL(p, gt));
    gt_tensor *second = SUB(left, MATMUL(f->x, MATMUL(p, left)));
    gt_tensor *third = SUB(right, MATMUL(MATMUL(right, p), f->x));
    GX(SUB(ADD(second, third), first));
}

/* With C = det(A) A^-T: (<g, C> C - C g^T C) / det(A) */
RULE(cofactor, X | OUT)
{
    gt_tensor *C = f->out, *product = MUL(f->g, C);
    uint32_t last_two = product ? 3u << (product->meta.rank - 2) : 0;
    gt_tensor *along = MUL(REDUCED(sum, product, last_two, true), C);
    gt_tensor *across = MATMUL(MATMUL(C, T(f->g)), C);
    GX(DIV(SUB(along, across), as_matrices(f, matrix_step(f, GT_OP_det, f->x))));
}

RULE(det, X)
{
    GX(MUL(as_matrices(f, f->g), matrix_step(f, GT_OP_cofactor, f->x)));
}

/* The sign is constant; d log|det| = <A^-T, dA>. */
RULE(slogdet, X)
{
    const gt_meta *in = &f->node->operands[0].meta;
    gt_slot spec[3];
    int64_t shape[GT_MAX_RANK];
    unsigned rank = in->rank;
    for (unsigned d = 0; d + 2 < rank; d++) {
        spec[0].i64[d] = 0;
        spec[1].i64[d] = 1;
        spec[2].i64[d] = shape[d] = in->shape[d];
    }
    spec[0].i64[rank - 2] = spec[1].i64[rank - 2] = spec[2].i64[rank - 2] = 1;
    shape[rank - 2] = shape[rank - 1] = 1;
    GX(MUL(RESHAPE(SLICE(f->g, spec), rank, shape), T(matrix_step(f, GT_OP_inverse, f->x))));
}

/* L^-T S L^-1 / 2 with S = L^T gL, its lower triangle mirrored */
RULE(cholesky, OUT)
{
    gt_tensor *Lt = T(f->out), *p = MATMUL(Lt, f->g);
    gt_tensor *S = ADD(lower(f, p, 0), T(lower(f, p, -1)));
    gt_tensor *half = solved_triangular(f, Lt, S, true, false);
    GX(SCALE(T(solved_triangular(f, Lt, T(half), true, false)), 0.5));
}

/* A X = B: gB = A^-T g, gA = -gB X^T */
RULE(solve, X | OUT)
{
    gt_tensor *gb = solved(f, T(f->x), f->g);
    GX(NEG(MATMUL(gb, T(f->out))));
    GY(gb);
}

RULE(solve_triangular, X | OUT)
{
    int64_t triangle = f->node->ins.imm[0].i;
    bool is_upper = triangle & GT_TRIANGLE_UPPER, unit = triangle & GT_TRIANGLE_UNIT;
    gt_tensor *gb = solved_triangular(f, T(f->x), f->g, !is_upper, unit);
    if (f->wanted[0]) {
        gt_tensor *ga = NEG(MATMUL(gb, T(f->out)));
        GX(is_upper ? upper(f, ga, unit) : lower(f, ga, unit ? -1 : 0));
    }
    GY(gb);
}

/* ---- decompositions ----------------------------------------------------------------------------------------- */

/* m >= n: (gQ + Q M) R^-T, M = gR R^T - Q^T gQ, its upper triangle mirrored. */
static void qr_tall(gt_frame *f, gt_tensor *q, gt_tensor *r, gt_tensor *gQ, gt_tensor *gR)
{
    gt_tensor *M = upper(f, SUB(MATMUL(gR, T(r)), MATMUL(T(q), gQ)), 0);
    gt_tensor *left = ADD(gQ, MATMUL(q, ADD(M, T(upper(f, M, 1)))));
    GX(T(solved_triangular(f, r, T(left), true, false))); /* X r^T = left is r X^T = left^T */
}

/* m < n: Q (gR + [N 0]), N = tril(M - M^T) R1^-T, M = Q^T gQ - gR R^T, R1 the square part of R. */
static void qr_wide(gt_frame *f, int64_t m, gt_tensor *q, gt_tensor *r, gt_tensor *gQ, gt_tensor *gRt)
{
    int64_t n = r ? gt__columns(&r->meta) : 0;
    gt_tensor *M = SUB(MATMUL(T(q), gQ), MATMUL(T(gRt), T(r)));
    gt_tensor *skew = lower(f, SUB(M, T(M)), 0);
    gt_tensor *Nt = solved_triangular(f, block(f, r, 0, m, m), T(skew), true, false);
    gt_tensor *square = ADD(block(f, gRt, 0, m, m), Nt);
    GX(MATMUL(q, T(below(f, square, block(f, gRt, m, n - m, m)))));
}

RULE(qr, OUT)
{
    const gt_meta *in = &f->node->operands[0].meta;
    int64_t m = gt__rows(in), n = gt__columns(in), c = gt__columns(&f->node->out);
    if (c > n) {
        f->err = gt__fail(GT_ERR_VALUE,
                          "The QR decomposition is not differentiable when mode='complete' and nrows > ncols");
        return;
    }
    gt_tensor *q = block(f, f->out, 0, m, c), *r = T(block(f, f->out, m, n, c));
    gt_tensor *gQ = block(f, f->g, 0, m, c), *gRt = block(f, f->g, m, n, c);
    if (m >= n)
        qr_tall(f, q, r, gQ, T(gRt));
    else
        qr_wide(f, m, q, r, gQ, gRt);
}

/* V (diag(gw) + skew(V^T gV) / 2 / (w_j - w_i)) V^T with skew(A) = A - A^T: symmetric, as A is */
RULE(eigh, X | OUT)
{
    bool only_values = f->node->ins.imm[0].i == GT_VECTORS_NONE;
    int64_t n = gt__columns(&f->node->out);
    gt_tensor *packed = only_values ? decomposed(f, GT_OP_eigh, f->x, f->node->ins.imm[1].i) : f->out;
    gt_tensor *V = block(f, packed, 1, n, n), *inner = MUL(V, block(f, f->g, 0, 1, n));
    if (!only_values) {
        gt_tensor *along = MATMUL(T(V), block(f, f->g, 1, n, n));
        gt_tensor *turns = SCALE(SUB(along, T(along)), 0.5);
        inner = ADD(inner, MATMUL(V, quotient(f, turns, differences(f, block(f, packed, 0, 1, n)))));
    }
    GX(MATMUL(inner, T(V)));
}

/*
 * U (diag(gs) + (skew(U^T gU) s_j + s_i skew(V^T gV)) / (s_j^2 - s_i^2)) V^T, and the parts of gU and gV outside the spaces
 * that U and V span: (1 - U U^T) gU / s V^T and U / s ((1 - V V^T) gV)^T.
 */
static void svd_rule(gt_frame *f, gt_tensor *packed, int64_t m, int64_t n)
{
    int64_t k = m < n ? m : n;
    gt_tensor *U = block(f, packed, 0, m, k), *s = block(f, packed, m, 1, k), *V = block(f, packed, m + 1, n, k);
    gt_tensor *gU = block(f, f->g, 0, m, k), *gV = block(f, f->g, m + 1, n, k);
    gt_tensor *UtgU = MATMUL(T(U), gU), *VtgV = MATMUL(T(V), gV), *one = PLUS(SCALE(s, 0), 1);
    gt_tensor *turns = ADD(MUL(SUB(UtgU, T(UtgU)), s), MUL(T(s), SUB(VtgV, T(VtgV))));
    gt_tensor *inner = quotient(f, turns, differences(f, MUL(s, s)));
    gt_tensor *left = ADD(MUL(U, block(f, f->g, m, 1, k)), MATMUL(U, inner)), *inverse = quotient(f, one, s);
    if (m > k)
        left = ADD(left, MUL(SUB(gU, MATMUL(U, UtgU)), inverse));
    gt_tensor *gradient = MATMUL(left, T(V));
    if (n > k)
        gradient = ADD(gradient, MATMUL(MUL(U, inverse), T(SUB(gV, MATMUL(V, VtgV)))));
    GX(gradient);
}

RULE(svd, X | OUT)
{
    const gt_meta *in = &f->node->operands[0].meta;
    int64_t m = gt__rows(in), n = gt__columns(in), k = m < n ? m : n;
    if (f->node->ins.imm[0].i != GT_VECTORS_NONE) {
        svd_rule(f, f->out, m, n);
        return;
    }
    gt_tensor *packed = decomposed(f, GT_OP_svd, f->x, 0);
    GX(MATMUL(MUL(block(f, packed, 0, m, k), f->g), T(block(f, packed, m + 1, n, k))));
}

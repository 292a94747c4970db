/*
 * linalg.c: gradient rules of linear algebra. Read steps.h first.
 *
 * A decomposition's rule cuts the packed result and its gradient into factors (core/linalg.h). The gradient of unused
 * vectors is zero, not absent. So quotients by differences of singular values or eigenvalues leave out equal values:
 * there the vectors are not determined, and a function that does not depend on their choice has no such part.
 *
 * x^H is the adjoint, of real matrices the transpose. Rules that core/complex.def lists as CONJ are written for real numbers.
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

/* The real parts: the gradient of numbers that are complex in a packed result, and always real. */
static gt_tensor *real_part(gt_frame *f, gt_tensor *a)
{
    return gt__step_is_complex(a) ? SCALE(ADD(a, CONJ(a)), 0.5) : a;
}

/* Of each matrix the imaginary parts of the diagonal; a must be complex. */
static gt_tensor *imaginary_diagonal(gt_frame *f, gt_tensor *a)
{
    gt_tensor *diagonal = lower(f, upper(f, a, 0), 0);
    return SCALE(SUB(diagonal, CONJ(diagonal)), 0.5);
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

/* dP = -P dA P + P P^H dA^H (1 - A P) + (1 - P A) dA^H P^H P */
RULE(pinv, X | OUT)
{
    gt_tensor *p = f->out, *ph = H(p), *gh = H(f->g);
    gt_tensor *first = MATMUL(MATMUL(ph, f->g), ph);
    gt_tensor *left = MATMUL(MATMUL(gh, p), ph), *right = MATMUL(ph, MATMUL(p, gh));
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

/* Element `which` of each pair of numbers (..., 2), as matrices (..., 1, 1). */
static gt_tensor *of_pair(gt_frame *f, gt_tensor *pairs, int64_t which)
{
    gt_slot spec[3];
    int64_t shape[GT_MAX_RANK + 1];
    if (!pairs)
        return NULL;
    unsigned rank = pairs->meta.rank;
    for (unsigned d = 0; d < rank; d++) {
        spec[0].i64[d] = d + 1 == rank ? which : 0;
        spec[1].i64[d] = 1;
        spec[2].i64[d] = shape[d] = d + 1 == rank ? 1 : pairs->meta.shape[d];
    }
    shape[rank] = 1;
    return RESHAPE(SLICE(pairs, spec), rank + 1, shape);
}

/* d log|det| = Re <A^-T, dA>. A real sign is constant; a complex one turns: d sign = i sign Im <A^-T, dA>. */
RULE(slogdet, X)
{
    gt_tensor *factor = real_part(f, of_pair(f, f->g, 1));
    if (gt__step_is_complex(f->x)) {
        gt_tensor *sign = of_pair(f, matrix_step(f, GT_OP_slogdet, f->x), 0);
        gt_tensor *turned = MUL(of_pair(f, f->g, 0), CONJ(sign));
        factor = ADD(factor, SCALE(SUB(turned, CONJ(turned)), 0.5));
    }
    GX(MUL(factor, H(matrix_step(f, GT_OP_inverse, f->x))));
}

/* L^-H S L^-1 / 2 with S = L^H gL, its lower triangle mirrored */
RULE(cholesky, OUT)
{
    gt_tensor *Lh = H(f->out), *p = MATMUL(Lh, f->g);
    gt_tensor *S = ADD(lower(f, p, 0), H(lower(f, p, -1)));
    gt_tensor *half = solved_triangular(f, Lh, S, true, false);
    GX(SCALE(H(solved_triangular(f, Lh, H(half), true, false)), 0.5));
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

/* m >= n: (gQ + Q M) R^-H, M = gR R^H - Q^H gQ, its upper triangle mirrored, its diagonal real. */
static void qr_tall(gt_frame *f, gt_tensor *q, gt_tensor *r, gt_tensor *gQ, gt_tensor *gR)
{
    gt_tensor *M = upper(f, SUB(MATMUL(gR, H(r)), MATMUL(H(q), gQ)), 0), *whole = ADD(M, H(upper(f, M, 1)));
    if (gt__step_is_complex(M))
        whole = SUB(whole, imaginary_diagonal(f, M));
    gt_tensor *left = ADD(gQ, MATMUL(q, whole));
    GX(H(solved_triangular(f, r, H(left), true, false))); /* X r^H = left is r X^H = left^H */
}

/* m < n: Q (gR + [N 0]), N = tril(M - M^H) R1^-H, its diagonal halved, M = Q^H gQ - gR R^H, R1 the square part of R. */
static void qr_wide(gt_frame *f, int64_t m, gt_tensor *q, gt_tensor *r, gt_tensor *gQ, gt_tensor *gRt)
{
    int64_t n = r ? gt__columns(&r->meta) : 0;
    gt_tensor *M = SUB(MATMUL(H(q), gQ), MATMUL(T(gRt), H(r)));
    gt_tensor *skew = lower(f, SUB(M, H(M)), 0);
    if (gt__step_is_complex(M))
        skew = SUB(skew, imaginary_diagonal(f, M));
    gt_tensor *Nh = solved_triangular(f, block(f, r, 0, m, m), H(skew), true, false);
    gt_tensor *square = ADD(block(f, gRt, 0, m, m), CONJ(Nh));
    GX(MATMUL(q, T(below(f, square, block(f, gRt, m, n - m, m)))));
}

RULE(geqrf, 0)
{
    gt__step_refuse(f, 0, "geqrf");
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

/* V (diag(gw) + skew(V^H gV) / 2 / (w_j - w_i)) V^H with skew(A) = A - A^H: Hermitian, as A is */
RULE(eigh, X | OUT)
{
    bool only_values = f->node->ins.imm[0].i == GT_VECTORS_NONE;
    int64_t n = gt__columns(&f->node->out);
    gt_tensor *packed = only_values ? decomposed(f, GT_OP_eigh, f->x, f->node->ins.imm[1].i) : f->out;
    gt_tensor *V = block(f, packed, 1, n, n), *inner = MUL(V, real_part(f, block(f, f->g, 0, 1, n)));
    if (!only_values) {
        gt_tensor *along = MATMUL(H(V), block(f, f->g, 1, n, n));
        gt_tensor *turns = SCALE(SUB(along, H(along)), 0.5);
        inner = ADD(inner, MATMUL(V, quotient(f, turns, differences(f, block(f, packed, 0, 1, n)))));
    }
    GX(MATMUL(inner, H(V)));
}

/*
 * U (diag(gs) + (skew(U^H gU) s_j + s_i skew(V^H gV)) / (s_j^2 - s_i^2)) V^H, and the parts of gU and gV outside the spaces
 * that U and V span: (1 - U U^H) gU / s V^H and U / s ((1 - V V^H) gV)^H. Complex vectors are determined up to a phase that u_j
 * and v_j share; what gU and gV say of the difference of their phases is i Im(u_j^H gu_j) / s_j on the diagonal.
 */
static void svd_rule(gt_frame *f, gt_tensor *packed, int64_t m, int64_t n)
{
    int64_t k = m < n ? m : n;
    gt_tensor *U = block(f, packed, 0, m, k), *s = block(f, packed, m, 1, k);
    gt_tensor *V = CONJ(block(f, packed, m + 1, n, k));
    gt_tensor *gU = block(f, f->g, 0, m, k), *gV = CONJ(block(f, f->g, m + 1, n, k));
    gt_tensor *UgU = MATMUL(H(U), gU), *VgV = MATMUL(H(V), gV), *one = PLUS(SCALE(s, 0), 1);
    gt_tensor *turns = ADD(MUL(SUB(UgU, H(UgU)), s), MUL(T(s), SUB(VgV, H(VgV))));
    gt_tensor *inner = quotient(f, turns, differences(f, MUL(s, s))), *inverse = quotient(f, one, s);
    if (gt__step_is_complex(UgU))
        inner = ADD(inner, MUL(imaginary_diagonal(f, UgU), inverse));
    gt_tensor *left = ADD(MUL(U, real_part(f, block(f, f->g, m, 1, k))), MATMUL(U, inner));
    if (m > k)
        left = ADD(left, MUL(SUB(gU, MATMUL(U, UgU)), inverse));
    gt_tensor *gradient = MATMUL(left, H(V));
    if (n > k)
        gradient = ADD(gradient, MATMUL(MUL(U, inverse), H(SUB(gV, MATMUL(V, VgV)))));
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
    GX(MATMUL(MUL(block(f, packed, 0, m, k), real_part(f, f->g)), T(block(f, packed, m + 1, n, k))));
}

/* ---- factors of symmetric matrices ------------------------------------------------------------------------- */

RULE(ldl, 0)
{
    gt__step_refuse_all(f, "linalg_ldl_factor_ex");
}
RULE(ldl_solve, 0)
{
    gt__step_refuse_all(f, "linalg_ldl_solve");
}

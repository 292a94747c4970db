/*
 * linalg.h: how the rows of linear algebra pack several results into one tensor, and their options.
 *
 * An instruction has one result. A decomposition has several factors: the worker computes them together and packs them as
 * rows of one matrix, so that each factor is a slice: client/linalg.c cuts, client/gradients/linalg.c cuts and joins.
 * a is (..., m, n), k = min(m, n):
 *
 *   row       imm[0]            imm[1]            result
 *   inverse                                       (..., n, n)
 *   cofactor                                      (..., n, n)
 *   pinv      rtol.f            atol.f            (..., n, m)
 *   det                                           (...)
 *   slogdet                                       (..., 2): the sign, log |det|
 *   cholesky  1 = never fail                      (..., n, n); never fail: NaN where the diagonal would not be positive
 *   lu        1 = fail if U is singular           (..., m + 1, n + 1): L and U in one (m, n), as LAPACK has them; below:
 *                                                 the k pivots, from 1; right: row i of P A is this row of A, from 0
 *   ldl       1 = Hermitian                       (..., n + 1, n): L and D in one (n, n), as LAPACK has them; below: the
 *                                                 pivots, from 1
 *   geqrf                                         (..., m + 1, n): R and the reflections in one (m, n), as LAPACK has
 *                                                 them; below: the k factors
 *   qr        gt_vectors.i                        (..., m + n, c): q (m, c), then r^T (n, c); c = k, full: m
 *   svd       gt_vectors.i                        (..., m + 1 + n, c): u (m, c), s, vh^T (n, c); c = k, full: max(m, n),
 *                                                 and zeros where u or vh has fewer. Only values: (..., 1, k)
 *   eigh      gt_vectors.i      1 = upper         (..., 1 + n, n): w, then v. Only values: (..., 1, n)
 *   eig       gt_vectors.i                        the same, complex
 *
 * Numbers that are real anyway (logarithms, singular values, pivots) are complex where the matrices are. ldl_solve's a is the
 * result of ldl, its imm[0] that of ldl.
 */
#ifndef GT_CORE_LINALG_H
#define GT_CORE_LINALG_H

#include "core/instruction.h"

/* Which vectors a decomposition returns. */
typedef enum gt_vectors {
    GT_VECTORS_REDUCED = 0,
    GT_VECTORS_FULL = 1,
    GT_VECTORS_NONE = 2,
} gt_vectors;

/* Bits of solve_triangular's imm[0]. */
typedef enum gt_triangle {
    GT_TRIANGLE_UPPER = 1 << 0,
    GT_TRIANGLE_UNIT = 1 << 1,
} gt_triangle;

/* The last two sizes. */
static inline int64_t gt__rows(const gt_meta *meta)
{
    return meta->shape[meta->rank - 2];
}

static inline int64_t gt__columns(const gt_meta *meta)
{
    return meta->shape[meta->rank - 1];
}

/* pinv: singular values up to this limit count as 0. */
static inline double gt__pinv_cutoff(double rtol, double atol, double largest, int64_t m, int64_t n,
                                     gt_dtype dtype)
{
    double precision = dtype == GT_FLOAT64 ? 0x1p-52 : 0x1p-23;
    double relative = (rtol < 0 ? (double)(m > n ? m : n) * precision : rtol) * largest;
    return relative > atol ? relative : atol;
}

#endif

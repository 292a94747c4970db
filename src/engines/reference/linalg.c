/*
 * engines/reference/linalg.c: the reference engine's linear algebra: Gaussian elimination, and the decompositions of
 * engines/reference/decompose.c, ldl.c and eigenvalues.c. One matrix of the batch at a time, in complex numbers of two doubles,
 * rounded when written: a real matrix is a complex one without imaginary parts. core/linalg.h says how results are packed.
 */
#include "core/linalg.h"

#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engines/reference/reference.h"

typedef double _Complex number;

/* One matrix of a call: a (m, n), its result, and the result's place in the output. */
typedef struct matrix {
    const gt_call *call;
    int64_t m, n, k, c; /* k = min(m, n); c: columns of a packed result */
    const number *a;
    number *out;
} matrix;

static gt_err no_memory(void)
{
    return gt__fail(GT_ERR_MEMORY, "out of memory");
}

/* In a batch an error says which matrix it is about, as PyTorch's do. */
static gt_err of_matrix(const gt_call *call, int64_t which, gt_err err)
{
    char text[512];
    if (err != GT_ERR_LINALG || call->in[0]->meta.rank <= 2)
        return err;
    snprintf(text, sizeof text, "%s", gt_error_text());
    return gt__fail(err, "(Batch element %lld): %s", (long long)which, text);
}

/* ---- elimination -------------------------------------------------------------------------------------------- */

static void swap_rows(number *a, int64_t columns, int64_t i, int64_t j)
{
    for (int64_t k = 0; k < columns; k++) {
        number kept = a[i * columns + k];
        a[i * columns + k] = a[j * columns + k];
        a[j * columns + k] = kept;
    }
}

/*
 * Make a (n, n) upper triangular by subtracting rows from those below, the largest pivot first, and do the same to b (n, k).
 * *sign changes with each exchange of rows. Returns the position of the first zero on the diagonal, from 1; 0: no zero.
 */
static int64_t eliminate(number *a, int64_t n, number *b, int64_t k, number *sign)
{
    int64_t zero = 0;
    for (int64_t p = 0; p < n; p++) {
        int64_t best = p;
        for (int64_t i = p + 1; i < n; i++)
            best = gt__reference_size(a[i * n + p]) > gt__reference_size(a[best * n + p]) ? i : best;
        if (best != p) {
            swap_rows(a, n, p, best);
            swap_rows(b, k, p, best);
            *sign = -*sign;
        }
        if (a[p * n + p] == 0) {
            zero = zero ? zero : p + 1;
            continue;
        }
        for (int64_t i = p + 1; i < n; i++) {
            number factor = a[i * n + p] / a[p * n + p];
            for (int64_t j = p; j < n; j++)
                a[i * n + j] -= factor * a[p * n + j];
            for (int64_t j = 0; j < k; j++)
                b[i * k + j] -= factor * b[p * k + j];
        }
    }
    return zero;
}

/* b (n, k) becomes x with a x = b; a is triangular. */
static void substitute(const number *a, int64_t n, number *b, int64_t k, bool upper, bool unit)
{
    for (int64_t step = 0; step < n; step++) {
        int64_t i = upper ? n - 1 - step : step;
        for (int64_t column = 0; column < k; column++) {
            number rest = b[i * k + column];
            for (int64_t j = upper ? i + 1 : 0; j < (upper ? n : i); j++)
                rest -= a[i * n + j] * b[j * k + column];
            b[i * k + column] = unit ? rest : rest / a[i * n + i];
        }
    }
}

/* The determinant divided by its absolute value, the logarithm of that, and in *product itself. a is destroyed. */
static number determinant(number *a, int64_t n, double *logarithm, number *product)
{
    number sign = 1;
    *logarithm = 0;
    eliminate(a, n, NULL, 0, &sign);
    *product = sign;
    for (int64_t p = 0; p < n; p++) {
        double size = cabs(a[p * n + p]);
        *logarithm += log(size);
        *product *= a[p * n + p];
        sign *= size == 0 ? 0 : a[p * n + p] / size;
    }
    return sign;
}

static gt_err run_determinant(const matrix *x)
{
    number *a = malloc((size_t)(x->n * x->n + 1) * sizeof *a), product;
    double logarithm;
    if (!a)
        return no_memory();
    memcpy(a, x->a, (size_t)(x->n * x->n) * sizeof *a);
    number sign = determinant(a, x->n, &logarithm, &product);
    x->out[0] = x->call->op == GT_OP_det ? product : sign;
    if (x->call->op == GT_OP_slogdet)
        x->out[1] = logarithm;
    free(a);
    return GT_OK;
}

static gt_err run_inverse(const matrix *x)
{
    number *a = malloc((size_t)(x->n * x->n + 1) * sizeof *a), sign = 1;
    if (!a)
        return no_memory();
    memcpy(a, x->a, (size_t)(x->n * x->n) * sizeof *a);
    for (int64_t k = 0; k < x->n * x->n; k++)
        x->out[k] = k / x->n == k % x->n;
    int64_t zero = eliminate(a, x->n, x->out, x->n, &sign);
    if (!zero)
        substitute(a, x->n, x->out, x->n, true, false);
    free(a);
    return zero ? gt__fail(GT_ERR_LINALG,
                           "The diagonal element %lld is zero, the inversion could not be completed because "
                           "the input matrix is singular.",
                           (long long)zero)
                : GT_OK;
}

/* Each cofactor is the determinant of the matrix without its row and column. */
static gt_err run_cofactor(const matrix *x)
{
    int64_t n = x->n;
    number *minor = malloc((size_t)(n * n + 1) * sizeof *minor), product;
    double logarithm;
    if (!minor)
        return no_memory();
    for (int64_t row = 0; row < n; row++)
        for (int64_t column = 0; column < n; column++) {
            int64_t at = 0;
            for (int64_t k = 0; k < n * n; k++)
                if (k / n != row && k % n != column)
                    minor[at++] = x->a[k];
            determinant(minor, n - 1, &logarithm, &product);
            x->out[row * n + column] = (row + column) % 2 ? -product : product;
        }
    free(minor);
    return GT_OK;
}

static gt_err run_cholesky(const matrix *x)
{
    int64_t n = x->n;
    number *l = x->out;
    memset(l, 0, (size_t)(n * n) * sizeof *l);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            number rest = i == j ? creal(x->a[i * n + j]) : x->a[i * n + j];
            for (int64_t k = 0; k < j; k++)
                rest -= l[i * n + k] * conj(l[j * n + k]);
            if (i == j && !(creal(rest) > 0) && x->call->ins->imm[0].i) {
                l[i * n + i] = NAN;
                return GT_OK;
            }
            if (i == j && !(creal(rest) > 0))
                return gt__fail(GT_ERR_LINALG,
                                "The factorization could not be completed because the input is not "
                                "positive-definite (the leading minor of order %lld is not positive-definite).",
                                (long long)i + 1);
            l[i * n + j] = i == j ? sqrt(creal(rest)) : rest / l[j * n + j];
        }
    return GT_OK;
}

/* out (m + 1, n + 1), as core/linalg.h says: elimination that keeps its factors below the diagonal. */
static gt_err run_lu(const matrix *x)
{
    int64_t width = x->n + 1, zero = 0;
    number *a = x->out, *pivots = a + x->m * width;
    for (int64_t i = 0; i < x->m; i++) {
        memcpy(a + i * width, x->a + i * x->n, (size_t)x->n * sizeof *a);
        a[i * width + x->n] = (double)i;
    }
    memset(pivots, 0, (size_t)width * sizeof *a);
    for (int64_t p = 0; p < x->k; p++) {
        int64_t best = p;
        for (int64_t i = p + 1; i < x->m; i++)
            best = gt__reference_size(a[i * width + p]) > gt__reference_size(a[best * width + p]) ? i : best;
        swap_rows(a, width, p, best);
        pivots[p] = (double)best + 1;
        if (a[p * width + p] == 0) {
            zero = zero ? zero : p + 1;
            continue;
        }
        for (int64_t i = p + 1; i < x->m; i++) {
            number factor = a[i * width + p] /= a[p * width + p];
            for (int64_t j = p + 1; j < x->n; j++)
                a[i * width + j] -= factor * a[p * width + j];
        }
    }
    return zero && x->call->ins->imm[0].i
               ? gt__fail(GT_ERR_LINALG,
                          "U[%lld,%lld] is zero and using it on lu_solve would result in a division by zero.",
                          (long long)zero, (long long)zero)
               : GT_OK;
}

/* ---- decompositions ----------------------------------------------------------------------------------------- */

static gt_err check_finite(const matrix *x)
{
    for (int64_t k = 0; k < x->m * x->n; k++)
        if (!isfinite(creal(x->a[k])) || !isfinite(cimag(x->a[k])))
            return gt__fail(GT_ERR_LINALG,
                            "The algorithm failed to converge because the input matrix contained non-finite "
                            "values.");
    return GT_OK;
}

/* out (m + 1, n): the reflections and r in one matrix, then the k factors. */
static gt_err run_geqrf(const matrix *x)
{
    number *tau = x->out + x->m * x->n;
    memset(tau, 0, (size_t)x->n * sizeof *tau);
    memcpy(x->out, x->a, (size_t)(x->m * x->n) * sizeof *tau);
    gt__reference_reflections(x->out, x->m, x->n, tau);
    return GT_OK;
}

static gt_err run_qr(const matrix *x)
{
    number *r = malloc((size_t)(x->c * x->n + 1) * sizeof *r);
    bool fine = r && gt__reference_qr(x->a, x->m, x->n, x->c, x->out, r);
    for (int64_t i = 0; fine && i < x->c; i++)
        for (int64_t j = 0; j < x->n; j++)
            x->out[(x->m + j) * x->c + i] = r[i * x->n + j];
    free(r);
    return fine ? GT_OK : no_memory();
}

/* The first `columns` columns of a square matrix; the other columns of the result, c in all, are zero. */
static void put_vectors(const number *square, int64_t n, int64_t columns, number *out, int64_t c)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < c; j++)
            out[i * c + j] = j < columns ? square[i * n + j] : 0;
}

static void put_svd(const matrix *x, const number *u, const double *s, const number *v)
{
    gt_vectors vectors = (gt_vectors)x->call->ins->imm[0].i;
    bool full = vectors == GT_VECTORS_FULL;
    number *values = vectors == GT_VECTORS_NONE ? x->out : x->out + x->m * x->c, *below = values + x->c;
    for (int64_t j = 0; j < x->c; j++)
        values[j] = j < x->k ? s[j] : 0;
    if (vectors == GT_VECTORS_NONE)
        return;
    put_vectors(u, x->m, full ? x->m : x->k, x->out, x->c);
    put_vectors(v, x->n, full ? x->n : x->k, below, x->c);
    for (int64_t k = 0; k < x->n * x->c; k++)
        below[k] = conj(below[k]);
}

/* v diag(1 / s) u^H */
static void put_pinv(const matrix *x, const number *u, const double *s, const number *v)
{
    const gt_imm *tolerance = x->call->ins->imm;
    double cutoff = gt__pinv_cutoff(tolerance[0].f, tolerance[1].f, s[0], x->m, x->n,
                                    gt__dtype_real((gt_dtype)x->call->out->meta.dtype));
    for (int64_t i = 0; i < x->n; i++)
        for (int64_t j = 0; j < x->m; j++) {
            number sum = 0;
            for (int64_t k = 0; k < x->k; k++)
                sum += s[k] > cutoff ? v[i * x->n + k] / s[k] * conj(u[j * x->m + k]) : 0;
            x->out[i * x->m + j] = sum;
        }
}

static gt_err run_svd(const matrix *x)
{
    GT_TRY(check_finite(x));
    number *u = malloc((size_t)(x->m * x->m + x->n * x->n + x->k + 1) * sizeof *u), *v = u + x->m * x->m;
    double *s = (double *)(v + x->n * x->n);
    bool fine = u && gt__reference_svd(x->a, x->m, x->n, u, s, v);
    if (fine)
        (x->call->op == GT_OP_svd ? put_svd : put_pinv)(x, u, s, v);
    free(u);
    return fine ? GT_OK : no_memory();
}

static gt_err run_eigh(const matrix *x)
{
    int64_t n = x->n;
    bool upper = x->call->ins->imm[1].i != 0, values_only = x->call->ins->imm[0].i == GT_VECTORS_NONE;
    GT_TRY(check_finite(x));
    number *a = malloc((size_t)(2 * n * n + n + 1) * sizeof *a), *v = a + n * n;
    double *w = (double *)(v + n * n);
    if (!a)
        return no_memory();
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            bool given = upper ? i < j : i > j;
            a[i * n + j] = i == j ? creal(x->a[i * n + i]) : given ? x->a[i * n + j] : conj(x->a[j * n + i]);
        }
    gt__reference_eigh(a, n, w, v);
    for (int64_t k = 0; k < n; k++)
        x->out[k] = w[k];
    if (!values_only)
        memcpy(x->out + n, v, (size_t)(n * n) * sizeof *v);
    free(a);
    return GT_OK;
}

static gt_err run_eig(const matrix *x)
{
    GT_TRY(check_finite(x));
    return gt__reference_eig(x->a, x->n, x->call->ins->imm[0].i != GT_VECTORS_NONE, x->out);
}

/* out (n + 1, n): the factors, then the pivots. */
static gt_err run_ldl(const matrix *x)
{
    int64_t n = x->n;
    for (int64_t k = 0; k < n * n; k++)
        x->out[k] = k / n >= k % n ? x->a[k] : 0;
    gt__reference_ldl(x->out, n, x->call->ins->imm[0].i != 0, x->out + n * n);
    return GT_OK;
}

/* ---- batches ------------------------------------------------------------------------------------------------ */

static gt_err run_matrix(const matrix *x)
{
    switch (x->call->op) {
    case GT_OP_det:
    case GT_OP_slogdet:
        return run_determinant(x);
    case GT_OP_inverse:
        return run_inverse(x);
    case GT_OP_cofactor:
        return run_cofactor(x);
    case GT_OP_cholesky:
        return run_cholesky(x);
    case GT_OP_lu:
        return run_lu(x);
    case GT_OP_ldl:
        return run_ldl(x);
    case GT_OP_geqrf:
        return run_geqrf(x);
    case GT_OP_qr:
        return run_qr(x);
    case GT_OP_svd:
    case GT_OP_pinv:
        return run_svd(x);
    case GT_OP_eigh:
        return run_eigh(x);
    case GT_OP_eig:
        return run_eig(x);
    default:
        return gt__fail(GT_ERR_UNSUPPORTED, "the reference engine does not run %s",
                        gt__op_table[x->call->op].name);
    }
}

gt_err gt__reference_matrix(const gt_call *call)
{
    const gt_view *in = call->in[0], *out = call->out;
    int64_t m = gt__rows(&in->meta), n = gt__columns(&in->meta), batch = 1;
    if (out->meta.numel == 0)
        return GT_OK;
    for (unsigned axis = 0; axis + 2 < in->meta.rank; axis++)
        batch *= in->meta.shape[axis];
    int64_t size = out->meta.numel / batch;
    number *numbers = malloc((size_t)(m * n + size) * sizeof *numbers);
    if (!numbers)
        return no_memory();
    matrix x = {.call = call, .m = m, .n = n, .k = m < n ? m : n, .a = numbers, .out = numbers + m * n};
    x.c = call->op == GT_OP_qr || call->op == GT_OP_svd ? gt__columns(&out->meta) : 0;
    gt_err err = GT_OK;
    for (int64_t which = 0; which < batch && err == GT_OK; which++) {
        for (int64_t k = 0; k < m * n; k++)
            numbers[k] = gt__reference_complex(in, which * m * n + k);
        err = of_matrix(call, which, run_matrix(&x));
        for (int64_t k = 0; k < size && err == GT_OK; k++)
            gt__reference_put_complex(out, which * size + k, x.out[k]);
    }
    free(numbers);
    return err;
}

static gt_err solve_one(const gt_call *call, number *a, int64_t n, number *b, int64_t k)
{
    int64_t option = call->ins->imm[0].i;
    number sign = 1;
    if (call->op == GT_OP_solve_triangular) {
        substitute(a, n, b, k, option & GT_TRIANGLE_UPPER, option & GT_TRIANGLE_UNIT);
        return GT_OK;
    }
    if (call->op == GT_OP_ldl_solve) {
        if (!gt__reference_ldl_solve(a, n, option != 0, a + n * n, b, k))
            return gt__fail(GT_ERR_LINALG, "ldl_solve: the pivots are not those of ldl_factor.");
        return GT_OK;
    }
    if (eliminate(a, n, b, k, &sign))
        return gt__fail(GT_ERR_LINALG, "The solver failed because the input matrix is singular.");
    substitute(a, n, b, k, true, false);
    return GT_OK;
}

/* Operand `which` repeated to the batch of the result. */
static gt_view broadcast_operand(const gt_call *call, unsigned which)
{
    const gt_view *in = call->in[which];
    gt_meta meta = call->out->meta;
    meta.shape[meta.rank - 2] = gt__rows(&in->meta);
    meta.shape[meta.rank - 1] = gt__columns(&in->meta);
    return gt__reference_broadcast(in, &meta);
}

gt_err gt__reference_solve(const gt_call *call)
{
    const gt_view *out = call->out;
    if (out->meta.numel == 0)
        return GT_OK;
    int64_t n = gt__rows(&out->meta), k = gt__columns(&out->meta), batch = out->meta.numel / (n * k);
    gt_view a = broadcast_operand(call, 0), b = broadcast_operand(call, 1);
    int64_t size = gt__rows(&a.meta) * n;
    number *numbers = malloc((size_t)(size + n * k) * sizeof *numbers), *x = numbers + size;
    if (!numbers)
        return no_memory();
    gt_err err = GT_OK;
    for (int64_t which = 0; which < batch && err == GT_OK; which++) {
        for (int64_t j = 0; j < size; j++)
            numbers[j] = gt__reference_complex(&a, which * size + j);
        for (int64_t j = 0; j < n * k; j++)
            x[j] = gt__reference_complex(&b, which * n * k + j);
        err = of_matrix(call, which, solve_one(call, numbers, n, x, k));
        for (int64_t j = 0; j < n * k && err == GT_OK; j++)
            gt__reference_put_complex(out, which * n * k + j, x[j]);
    }
    free(numbers);
    return err;
}

/*
 * linalg_complex.c: the reference engine's equations of complex matrices, and eigenvalues of all square ones: elimination with
 * pivots, and QR steps on a Hessenberg matrix. Matrices are row-major double _Complex.
 */
#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/linalg.h"
#include "engines/reference/reference.h"

typedef double _Complex number;

/* ---- equations ---------------------------------------------------------------------------------------------- */

static void swap(number *a, int64_t columns, int64_t i, int64_t j)
{
    for (int64_t k = 0; k < columns; k++) {
        number kept = a[i * columns + k];
        a[i * columns + k] = a[j * columns + k];
        a[j * columns + k] = kept;
    }
}

/* Makes a (n, n) upper triangular, and does the same to b (n, k). The position of the first zero pivot, from 1, or 0. */
static int64_t eliminate(number *a, int64_t n, number *b, int64_t k)
{
    for (int64_t p = 0; p < n; p++) {
        int64_t best = p;
        for (int64_t i = p + 1; i < n; i++)
            best = cabs(a[i * n + p]) > cabs(a[best * n + p]) ? i : best;
        swap(a, n, p, best);
        swap(b, k, p, best);
        if (a[p * n + p] == 0)
            return p + 1;
        for (int64_t i = p + 1; i < n; i++) {
            number factor = a[i * n + p] / a[p * n + p];
            for (int64_t j = p; j < n; j++)
                a[i * n + j] -= factor * a[p * n + j];
            for (int64_t j = 0; j < k; j++)
                b[i * k + j] -= factor * b[p * k + j];
        }
    }
    return 0;
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

static gt_err solve_one(const gt_call *call, number *a, int64_t n, number *b, int64_t k)
{
    int64_t triangle = call->ins->imm[0].i;
    if (call->op == GT_OP_solve_triangular) {
        substitute(a, n, b, k, triangle & GT_TRIANGLE_UPPER, triangle & GT_TRIANGLE_UNIT);
        return GT_OK;
    }
    int64_t zero = eliminate(a, n, b, k);
    if (zero && call->op == GT_OP_inverse)
        return gt__fail(
            GT_ERR_LINALG,
            "The diagonal element %lld is zero, the inversion could not be completed because the input "
            "matrix is singular.",
            (long long)zero);
    if (zero)
        return gt__fail(GT_ERR_LINALG, "The solver failed because the input matrix is singular.");
    substitute(a, n, b, k, true, false);
    return GT_OK;
}

/* Operand `which` repeated to the batch of the result. */
static gt_view repeated(const gt_call *call, unsigned which)
{
    const gt_view *in = call->in[which];
    gt_meta meta = call->out->meta;
    meta.shape[meta.rank - 2] = gt__rows(&in->meta);
    meta.shape[meta.rank - 1] = gt__columns(&in->meta);
    return gt__reference_broadcast(in, &meta);
}

gt_err gt__reference_complex_solve(const gt_call *call)
{
    const gt_view *out = call->out;
    if (out->meta.numel == 0)
        return GT_OK;
    bool inverts = call->op == GT_OP_inverse;
    int64_t n = gt__rows(&out->meta), k = gt__columns(&out->meta), batch = out->meta.numel / (n * k);
    gt_view a = repeated(call, 0), b = repeated(call, inverts ? 0 : 1);
    number *numbers = malloc((size_t)(n * n + n * k) * sizeof *numbers), *x = numbers + n * n;
    if (!numbers)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    gt_err err = GT_OK;
    for (int64_t which = 0; which < batch && err == GT_OK; which++) {
        for (int64_t j = 0; j < n * n; j++)
            numbers[j] = gt__reference_complex(&a, which * n * n + j);
        for (int64_t j = 0; j < n * k; j++)
            x[j] = inverts ? j / k == j % k : gt__reference_complex(&b, which * n * k + j);
        err = solve_one(call, numbers, n, x, k);
        for (int64_t j = 0; j < n * k && err == GT_OK; j++)
            gt__reference_put_complex(out, which * n * k + j, x[j]);
    }
    free(numbers);
    return err;
}

/* ---- eigenvalues -------------------------------------------------------------------------------------------- */

/* A = q t q^H all the time; t becomes upper triangular. */
typedef struct schur {
    int64_t n;
    number *t, *q;
} schur;

/* The rotation of rows i and i + 1 that turns x, y into r, 0. */
typedef struct rotation {
    number c, s;
} rotation;

static rotation rotation_of(number x, number y)
{
    double r = sqrt(creal(x * conj(x)) + creal(y * conj(y)));
    return r == 0 ? (rotation){.c = 1} : (rotation){.c = x / r, .s = y / r};
}

static void rotate_rows(const schur *f, rotation g, int64_t i)
{
    for (int64_t k = 0; k < f->n; k++) {
        number *x = f->t + i * f->n + k, *y = x + f->n, old = *x;
        *x = conj(g.c) * old + conj(g.s) * *y;
        *y = g.c * *y - g.s * old;
    }
}

static void rotate_columns(number *a, int64_t n, rotation g, int64_t i)
{
    for (int64_t k = 0; k < n; k++) {
        number *x = a + k * n + i, *y = x + 1, old = *x;
        *x = old * g.c + *y * g.s;
        *y = conj(g.c) * *y - conj(g.s) * old;
    }
}

static void similar(const schur *f, rotation g, int64_t i)
{
    rotate_rows(f, g, i);
    rotate_columns(f->t, f->n, g, i);
    rotate_columns(f->q, f->n, g, i);
}

/* Zeros below the first diagonal under the main one. */
static void make_hessenberg(const schur *f)
{
    for (int64_t column = 0; column + 2 < f->n; column++)
        for (int64_t row = f->n - 1; row > column + 1; row--)
            similar(f, rotation_of(f->t[(row - 1) * f->n + column], f->t[row * f->n + column]), row - 1);
}

/* The eigenvalue of the last 2 by 2 block of the first m rows that is nearer to its corner. */
static number shift_of(const schur *f, int64_t m)
{
    const number *x = f->t + (m - 2) * f->n + m - 2, *y = x + f->n;
    number half = (x[0] + y[1]) / 2, root = csqrt(half * half - (x[0] * y[1] - x[1] * y[0]));
    return cabs(half + root - y[1]) < cabs(half - root - y[1]) ? half + root : half - root;
}

static bool triangularise(const schur *f, rotation *turns)
{
    make_hessenberg(f);
    int64_t m = f->n, n = f->n;
    for (int step = 1; m > 1; step++) {
        number *below = f->t + (m - 1) * n + m - 2;
        if (cabs(*below) <= 0x1p-52 * (cabs(below[1]) + cabs(below[-n]))) {
            *below = 0;
            m--;
            step = 0;
            continue;
        }
        if (step == 300)
            return false;
        number shift =
            step % 10 ? shift_of(f, m) : below[1] + cabs(*below); /* now and then another, against cycles */
        for (int64_t k = 0; k < n; k++)
            f->t[k * n + k] -= shift;
        for (int64_t k = 0; k + 1 < m; k++) {
            turns[k] = rotation_of(f->t[k * n + k], f->t[(k + 1) * n + k]);
            rotate_rows(f, turns[k], k);
        }
        for (int64_t k = 0; k + 1 < m; k++) {
            rotate_columns(f->t, n, turns[k], k);
            rotate_columns(f->q, n, turns[k], k);
        }
        for (int64_t k = 0; k < n; k++)
            f->t[k * n + k] += shift;
    }
    return true;
}

/* Vector `which` of t by substitution into y, then of A, of length 1, as a column of v (n, n). */
static void put_vector(const schur *f, int64_t which, number *y, number *v)
{
    int64_t n = f->n;
    double length = 0;
    memset(y, 0, (size_t)n * sizeof *y);
    y[which] = 1;
    for (int64_t i = which - 1; i >= 0; i--) {
        number sum = 0, difference = f->t[which * n + which] - f->t[i * n + i];
        for (int64_t j = i + 1; j <= which; j++)
            sum += f->t[i * n + j] * y[j];
        y[i] = sum / (cabs(difference) < 0x1p-52 ? 0x1p-52 : difference);
    }
    for (int64_t i = 0; i < n; i++) {
        number sum = 0;
        for (int64_t j = 0; j <= which; j++)
            sum += f->q[i * n + j] * y[j];
        v[i * n + which] = sum;
        length += creal(sum * conj(sum));
    }
    for (int64_t i = 0; i < n; i++)
        v[i * n + which] /= sqrt(length);
}

/* One matrix: its values and vectors, behind each other in `out` (1 + n, n). */
static gt_err decompose(const schur *f, rotation *turns, number *y, number *out)
{
    int64_t n = f->n;
    for (int64_t k = 0; k < n * n; k++) {
        f->q[k] = k / n == k % n;
        if (!isfinite(creal(f->t[k])) || !isfinite(cimag(f->t[k])))
            return gt__fail(GT_ERR_LINALG, "The algorithm failed to converge because the input matrix contained "
                                           "non-finite values.");
    }
    if (!triangularise(f, turns))
        return gt__fail(GT_ERR_LINALG, "The algorithm failed to converge.");
    for (int64_t k = 0; k < n; k++) {
        out[k] = f->t[k * n + k];
        put_vector(f, k, y, out + n);
    }
    return GT_OK;
}

gt_err gt__reference_eig(const gt_call *call)
{
    const gt_view *in = call->in[0], *out = call->out;
    if (out->meta.numel == 0)
        return GT_OK;
    int64_t n = gt__rows(&in->meta), size = gt__rows(&out->meta) * n, batch = in->meta.numel / (n * n);
    number *numbers = malloc((size_t)(3 * n * n + 4 * n) * sizeof *numbers), *results = numbers + 2 * n * n;
    if (!numbers)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    schur f = {.n = n, .t = numbers, .q = numbers + n * n};
    rotation *turns = (rotation *)(results + n + n * n); /* n of them, then a vector */
    gt_err err = GT_OK;
    for (int64_t which = 0; which < batch && err == GT_OK; which++) {
        for (int64_t k = 0; k < n * n; k++)
            f.t[k] = gt__dtype_is_complex((gt_dtype)in->meta.dtype) ? gt__reference_complex(in, which * n * n + k)
                                                                    : gt__reference_real(in, which * n * n + k);
        err = decompose(&f, turns, (number *)(turns + n), results);
        for (int64_t k = 0; k < size && err == GT_OK; k++)
            gt__reference_put_complex(out, which * size + k, results[k]);
    }
    free(numbers);
    return err;
}

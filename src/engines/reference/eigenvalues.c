/*
 * eigenvalues.c: the reference engine's eigenvalues and eigenvectors of any square matrix: QR steps on a Hessenberg matrix.
 * For engines/reference/linalg.c.
 */
#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engines/reference/reference.h"

typedef double _Complex number;

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

gt_err gt__reference_eig(const number *a, int64_t n, bool vectors, number *out)
{
    number *numbers = malloc((size_t)(2 * n * n + 3 * n + 1) * sizeof *numbers);
    if (!numbers)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    schur f = {.n = n, .t = numbers, .q = numbers + n * n};
    rotation *turns = (rotation *)(f.q + n * n); /* n of them, then a vector */
    memcpy(f.t, a, (size_t)(n * n) * sizeof *a);
    for (int64_t k = 0; k < n * n; k++)
        f.q[k] = k / n == k % n;
    bool found = triangularise(&f, turns);
    for (int64_t k = 0; found && k < n; k++) {
        out[k] = f.t[k * n + k];
        if (vectors)
            put_vector(&f, k, (number *)(turns + n), out + n);
    }
    free(numbers);
    return found ? GT_OK : gt__fail(GT_ERR_LINALG, "The algorithm failed to converge.");
}

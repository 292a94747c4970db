/*
 * engines/reference/decompose.c: the reference engine's decompositions of one matrix, by the simplest methods:
 * Householder reflections and Jacobi rotations. For engines/reference/linalg.c.
 */
#include <stdlib.h>
#include <string.h>

#include "engines/reference/reference.h"

typedef double _Complex number;

static void set_identity(number *a, int64_t n)
{
    memset(a, 0, (size_t)(n * n) * sizeof *a);
    for (int64_t k = 0; k < n; k++)
        a[k * n + k] = 1;
}

/* ---- QR by reflections -------------------------------------------------------------------------------------- */

/*
 * Make a column zero below its diagonal, and real on it: the reflection's vector, from 1 on the diagonal, takes the place of the
 * zeros. Returns its factor tau; 0: the column is so already.
 */
static number reflection(number *a, int64_t m, int64_t n, int64_t column)
{
    number *diagonal = &a[column * n + column];
    double below = 0;
    for (int64_t i = column + 1; i < m; i++)
        below += creal(a[i * n + column] * conj(a[i * n + column]));
    if (below == 0 && cimag(*diagonal) == 0)
        return 0;
    double length = sqrt(creal(*diagonal * conj(*diagonal)) + below);
    double beta = creal(*diagonal) < 0 ? length : -length; /* away from the element: nothing cancels */
    number tau = (beta - *diagonal) / beta;
    for (int64_t i = column + 1; i < m; i++)
        a[i * n + column] /= *diagonal - beta;
    *diagonal = beta;
    return tau;
}

/* Element i of reflection `column`, whose vector is kept in a. */
static number vector_element(const number *a, int64_t n, int64_t column, int64_t i)
{
    return i < column ? 0 : i == column ? 1 : a[i * n + column];
}

/* b (m, width), from column `first`, = (1 - factor v v^H) b with the vector of reflection `column` of a (m, n) */
static void reflect(const number *a, int64_t m, int64_t n, int64_t column, number factor, number *b, int64_t width,
                    int64_t first)
{
    for (int64_t j = first; j < width; j++) {
        number dot = 0;
        for (int64_t i = column; i < m; i++)
            dot += conj(vector_element(a, n, column, i)) * b[i * width + j];
        for (int64_t i = column; i < m; i++)
            b[i * width + j] -= factor * dot * vector_element(a, n, column, i);
    }
}

void gt__reference_reflections(number *a, int64_t m, int64_t n, number *tau)
{
    for (int64_t column = 0; column < (m < n ? m : n); column++) {
        tau[column] = reflection(a, m, n, column);
        reflect(a, m, n, column, conj(tau[column]), a, n, column + 1);
    }
}

bool gt__reference_qr(const number *a, int64_t m, int64_t n, int64_t c, number *q, number *r)
{
    int64_t k = m < n ? m : n;
    number *factors = malloc((size_t)(m * n + m * m + k + 1) * sizeof *factors), *product = factors + m * n;
    number *tau = product + m * m;
    if (!factors)
        return false;
    memcpy(factors, a, (size_t)(m * n) * sizeof *factors);
    gt__reference_reflections(factors, m, n, tau);
    set_identity(product, m);
    for (int64_t column = k - 1; column >= 0; column--)
        reflect(factors, m, n, column, tau[column], product, m, 0);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < c; j++)
            q[i * c + j] = product[i * m + j];
    for (int64_t i = 0; i < c; i++)
        for (int64_t j = 0; j < n; j++)
            r[i * n + j] = i > j ? 0 : factors[i * n + j];
    free(factors);
    return true;
}

/* ---- eigenvalues by rotations ------------------------------------------------------------------------------- */

enum { MOST_SWEEPS = 100 };

/* A rotation of columns p and q, after q is multiplied by `phase`. */
typedef struct rotation {
    double cosine, sine;
    number phase;
} rotation;

/* The rotation that makes [a b; conj(b) d] diagonal. */
static rotation rotation_of(double a, number b, double d)
{
    double size = cabs(b), theta = (d - a) / (2 * size);
    double tangent = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
    double cosine = 1 / sqrt(tangent * tangent + 1);
    return (rotation){.cosine = cosine, .sine = tangent * cosine, .phase = conj(b) / size};
}

/* Rotate two vectors in their plane; each has `count` elements, `stride` apart. */
static void rotate(number *x, number *y, int64_t stride, int64_t count, rotation turn)
{
    for (int64_t k = 0; k < count; k++) {
        number old = x[k * stride], other = y[k * stride] * turn.phase;
        x[k * stride] = turn.cosine * old - turn.sine * other;
        y[k * stride] = turn.sine * old + turn.cosine * other;
    }
}

static double off_diagonal(const number *a, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            sum += i == j ? 0 : creal(a[i * n + j] * conj(a[i * n + j]));
    return sum;
}

static void swap_columns(number *a, int64_t rows, int64_t columns, int64_t i, int64_t j)
{
    for (int64_t row = 0; row < rows; row++) {
        number kept = a[row * columns + i];
        a[row * columns + i] = a[row * columns + j];
        a[row * columns + j] = kept;
    }
}

void gt__reference_eigh(number *a, int64_t n, double *w, number *v)
{
    set_identity(v, n);
    for (int sweep = 0; sweep < MOST_SWEEPS && off_diagonal(a, n) > 0; sweep++)
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) {
                double beside = fabs(creal(a[p * n + p])) + fabs(creal(a[q * n + q]));
                if (cabs(a[p * n + q]) <= 0x1p-60 * beside) { /* turns by rounding errors would add up */
                    a[p * n + q] = a[q * n + p] = 0;
                    continue;
                }
                rotation turn = rotation_of(creal(a[p * n + p]), a[p * n + q], creal(a[q * n + q])), rows = turn;
                rows.phase = conj(turn.phase);
                rotate(&a[p], &a[q], n, n, turn);
                rotate(&a[p * n], &a[q * n], 1, n, rows);
                rotate(&v[p], &v[q], n, n, turn);
                a[p * n + q] = a[q * n + p] = 0; /* to rounding */
            }
    for (int64_t k = 0; k < n; k++)
        w[k] = creal(a[k * n + k]);
    for (int64_t k = 0; k < n; k++) { /* the least first */
        int64_t least = k;
        for (int64_t j = k + 1; j < n; j++)
            least = w[j] < w[least] ? j : least;
        double kept = w[k];
        w[k] = w[least];
        w[least] = kept;
        swap_columns(v, n, n, k, least);
    }
}

/* ---- singular values: columns rotated until they are orthogonal ------------------------------------------------ */

static number dot_columns(const number *a, int64_t m, int64_t n, int64_t i, int64_t j)
{
    number sum = 0;
    for (int64_t row = 0; row < m; row++)
        sum += conj(a[row * n + i]) * a[row * n + j];
    return sum;
}

static double square_of_column(const number *a, int64_t m, int64_t n, int64_t i)
{
    return creal(dot_columns(a, m, n, i, i));
}

/* Rotate the columns of a (m, n), and of v with them, until all pairs are orthogonal to rounding. */
static void make_orthogonal(number *a, int64_t m, int64_t n, number *v)
{
    bool turned = true;
    set_identity(v, n);
    for (int sweep = 0; sweep < MOST_SWEEPS && turned; sweep++) {
        turned = false;
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) {
                double pp = square_of_column(a, m, n, p), qq = square_of_column(a, m, n, q);
                number pq = dot_columns(a, m, n, p, q);
                if (cabs(pq) <= 1e-15 * sqrt(pp * qq))
                    continue;
                turned = true;
                rotation turn = rotation_of(pp, pq, qq);
                rotate(&a[p], &a[q], n, m, turn);
                rotate(&v[p], &v[q], n, n, turn);
            }
    }
}

/* Column `at` of u (m, m): a unit vector orthogonal to the columns before it, from the first axis not in their span. */
static void complete_column(number *u, int64_t m, int64_t at)
{
    for (int64_t axis = 0; axis < m; axis++) {
        for (int64_t i = 0; i < m; i++)
            u[i * m + at] = i == axis;
        for (int twice = 0; twice < 2; twice++) /* twice, against rounding */
            for (int64_t j = 0; j < at; j++) {
                number along = dot_columns(u, m, m, j, at);
                for (int64_t i = 0; i < m; i++)
                    u[i * m + at] -= along * u[i * m + j];
            }
        double length = sqrt(square_of_column(u, m, m, at));
        if (length > 0.5 / sqrt((double)m)) {
            for (int64_t i = 0; i < m; i++)
                u[i * m + at] /= length;
            return;
        }
    }
}

/* m >= n */
static void svd_tall(number *a, int64_t m, int64_t n, number *u, double *s, number *v)
{
    make_orthogonal(a, m, n, v);
    for (int64_t k = 0; k < n; k++)
        s[k] = sqrt(square_of_column(a, m, n, k));
    for (int64_t k = 0; k < n; k++) { /* the largest first */
        int64_t most = k;
        for (int64_t j = k + 1; j < n; j++)
            most = s[j] > s[most] ? j : most;
        double kept = s[k];
        s[k] = s[most];
        s[most] = kept;
        swap_columns(a, m, n, k, most);
        swap_columns(v, n, n, k, most);
    }
    for (int64_t k = 0; k < m; k++) {
        if (k >= n || s[k] <= 1e-14 * s[0] || s[k] == 0) {
            complete_column(u, m, k);
            continue;
        }
        for (int64_t i = 0; i < m; i++)
            u[i * m + k] = a[i * n + k] / s[k];
    }
}

bool gt__reference_svd(const number *a, int64_t m, int64_t n, number *u, double *s, number *v)
{
    number *copy = malloc((size_t)(m * n) * sizeof *copy);
    if (!copy)
        return false;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            copy[m >= n ? i * n + j : j * m + i] = m >= n ? a[i * n + j] : conj(a[i * n + j]);
    if (m >= n)
        svd_tall(copy, m, n, u, s, v);
    else
        svd_tall(copy, n, m, v, s, u); /* of the adjoint */
    free(copy);
    return true;
}

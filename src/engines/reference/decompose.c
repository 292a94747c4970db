/*
 * engines/reference/decompose.c: the reference engine's decompositions of one matrix, by the simplest methods:
 * Householder reflections and Jacobi rotations. For engines/reference/linalg.c; matrices are row-major doubles.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engines/reference/reference.h"

static void set_identity(double *a, int64_t n)
{
    memset(a, 0, (size_t)(n * n) * sizeof *a);
    for (int64_t k = 0; k < n; k++)
        a[k * n + k] = 1;
}

/* ---- QR by reflections -------------------------------------------------------------------------------------- */

/* The vector of the reflection that zeroes a column below its diagonal; false: the column is zero there already. */
static bool reflection(const double *r, int64_t m, int64_t n, int64_t column, double *v)
{
    double below = 0;
    for (int64_t i = 0; i < m; i++)
        v[i] = i < column ? 0 : r[i * n + column];
    for (int64_t i = column + 1; i < m; i++)
        below += v[i] * v[i];
    if (below == 0)
        return false;
    double length = sqrt(v[column] * v[column] + below);
    v[column] += v[column] < 0 ? -length : length; /* away from zero: the new diagonal gets the other sign */
    return true;
}

/* a (rows, columns) = (I - 2 v v^T / v^T v) a */
static void reflect(double *a, int64_t rows, int64_t columns, const double *v)
{
    double square = 0;
    for (int64_t i = 0; i < rows; i++)
        square += v[i] * v[i];
    for (int64_t j = 0; j < columns; j++) {
        double dot = 0;
        for (int64_t i = 0; i < rows; i++)
            dot += v[i] * a[i * columns + j];
        for (int64_t i = 0; i < rows; i++)
            a[i * columns + j] -= 2 * dot / square * v[i];
    }
}

bool gt__reference_qr(const double *a, int64_t m, int64_t n, int64_t c, double *q, double *r)
{
    double *full = malloc((size_t)(m * n + m * m + m) * sizeof *full), *product = full + m * n,
           *v = product + m * m;
    if (!full)
        return false;
    memcpy(full, a, (size_t)(m * n) * sizeof *full);
    set_identity(product, m); /* becomes q^T: all reflections, one after the other */
    for (int64_t column = 0; column < (m < n ? m : n); column++)
        if (reflection(full, m, n, column, v)) {
            reflect(full, m, n, v);
            reflect(product, m, m, v);
        }
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < c; j++)
            q[i * c + j] = product[j * m + i];
    for (int64_t i = 0; i < c; i++)
        for (int64_t j = 0; j < n; j++)
            r[i * n + j] = i > j ? 0 : full[i * n + j];
    free(full);
    return true;
}

/* ---- eigenvalues by rotations ------------------------------------------------------------------------------- */

enum { MOST_SWEEPS = 100 };

/* The cosine and sine that make [a b; b d] diagonal. */
static void rotation(double a, double b, double d, double *cosine, double *sine)
{
    double theta = (d - a) / (2 * b);
    double tangent = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
    *cosine = 1 / sqrt(tangent * tangent + 1);
    *sine = tangent * *cosine;
}

/* Rotate two vectors in their plane; each has `count` elements, `stride` apart. */
static void rotate(double *x, double *y, int64_t stride, int64_t count, double cosine, double sine)
{
    for (int64_t k = 0; k < count; k++) {
        double old = x[k * stride];
        x[k * stride] = cosine * old - sine * y[k * stride];
        y[k * stride] = sine * old + cosine * y[k * stride];
    }
}

static double off_diagonal(const double *a, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            sum += i == j ? 0 : a[i * n + j] * a[i * n + j];
    return sum;
}

static void swap_columns(double *a, int64_t rows, int64_t columns, int64_t i, int64_t j)
{
    for (int64_t row = 0; row < rows; row++) {
        double kept = a[row * columns + i];
        a[row * columns + i] = a[row * columns + j];
        a[row * columns + j] = kept;
    }
}

void gt__reference_eigh(double *a, int64_t n, double *w, double *v)
{
    set_identity(v, n);
    for (int sweep = 0; sweep < MOST_SWEEPS && off_diagonal(a, n) > 0; sweep++)
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) {
                double cosine, sine;
                if (a[p * n + q] == 0)
                    continue;
                rotation(a[p * n + p], a[p * n + q], a[q * n + q], &cosine, &sine);
                rotate(&a[p], &a[q], n, n, cosine, sine);         /* columns */
                rotate(&a[p * n], &a[q * n], 1, n, cosine, sine); /* rows */
                rotate(&v[p], &v[q], n, n, cosine, sine);
            }
    for (int64_t k = 0; k < n; k++)
        w[k] = a[k * n + k];
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

static double dot_columns(const double *a, int64_t m, int64_t n, int64_t i, int64_t j)
{
    double sum = 0;
    for (int64_t row = 0; row < m; row++)
        sum += a[row * n + i] * a[row * n + j];
    return sum;
}

/* Rotate the columns of a (m, n), and of v with them, until all pairs are orthogonal to rounding. */
static void make_orthogonal(double *a, int64_t m, int64_t n, double *v)
{
    bool turned = true;
    set_identity(v, n);
    for (int sweep = 0; sweep < MOST_SWEEPS && turned; sweep++) {
        turned = false;
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) {
                double pp = dot_columns(a, m, n, p, p), pq = dot_columns(a, m, n, p, q),
                       qq = dot_columns(a, m, n, q, q);
                double cosine, sine;
                if (fabs(pq) <= 1e-15 * sqrt(pp * qq))
                    continue;
                turned = true;
                rotation(pp, pq, qq, &cosine, &sine);
                rotate(&a[p], &a[q], n, m, cosine, sine);
                rotate(&v[p], &v[q], n, n, cosine, sine);
            }
    }
}

/* Column `at` of u (m, m): a unit vector orthogonal to the columns before it, from the first axis not in their span. */
static void complete_column(double *u, int64_t m, int64_t at)
{
    for (int64_t axis = 0; axis < m; axis++) {
        for (int64_t i = 0; i < m; i++)
            u[i * m + at] = i == axis;
        for (int twice = 0; twice < 2; twice++) /* twice, against rounding */
            for (int64_t j = 0; j < at; j++) {
                double along = dot_columns(u, m, m, j, at);
                for (int64_t i = 0; i < m; i++)
                    u[i * m + at] -= along * u[i * m + j];
            }
        double length = sqrt(dot_columns(u, m, m, at, at));
        if (length > 0.5 / sqrt((double)m)) {
            for (int64_t i = 0; i < m; i++)
                u[i * m + at] /= length;
            return;
        }
    }
}

/* m >= n */
static void svd_tall(double *a, int64_t m, int64_t n, double *u, double *s, double *v)
{
    make_orthogonal(a, m, n, v);
    for (int64_t k = 0; k < n; k++)
        s[k] = sqrt(dot_columns(a, m, n, k, k));
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

bool gt__reference_svd(const double *a, int64_t m, int64_t n, double *u, double *s, double *v)
{
    double *copy = malloc((size_t)(m * n) * sizeof *copy);
    if (!copy)
        return false;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            copy[m >= n ? i * n + j : j * m + i] = a[i * n + j];
    if (m >= n)
        svd_tall(copy, m, n, u, s, v);
    else
        svd_tall(copy, n, m, v, s, u); /* of the transpose */
    free(copy);
    return true;
}

/*
 * engines/reference/ldl.c: the reference engine's decomposition P A P^T = L D L^T of symmetric matrices, and of Hermitian ones with
 * L^H, by the method of Bunch and Kaufman: D has blocks of 1 by 1 and, where a pivot on the diagonal would be too small, of 2 by 2.
 * Pivots are written as LAPACK's sytrf and hetrf write them. For engines/reference/linalg.c.
 */
#include "engines/reference/reference.h"

typedef double _Complex number;

/* a (n, n), of which only the lower triangle is kept. */
typedef struct triangle {
    number *a;
    int64_t n;
    bool hermitian;
} triangle;

static number *at(const triangle *t, int64_t row, int64_t column)
{
    return &t->a[row * t->n + column];
}

static number turned(const triangle *t, number x)
{
    return t->hermitian ? conj(x) : x;
}

/* An element by its place in the whole matrix. */
static number whole(const triangle *t, int64_t row, int64_t column)
{
    return row >= column ? *at(t, row, column) : turned(t, *at(t, column, row));
}

static double size_of(const triangle *t, number x, bool diagonal)
{
    return diagonal && t->hermitian ? fabs(creal(x)) : gt__reference_size(x);
}

/* The largest element of a column between two rows, and its row; `except` does not count. */
static double largest(const triangle *t, int64_t column, int64_t first, int64_t except, int64_t *row)
{
    double most = 0;
    *row = first;
    for (int64_t i = first; i < t->n; i++)
        if (i != except && size_of(t, whole(t, i, column), false) > most) {
            most = size_of(t, whole(t, i, column), false);
            *row = i;
        }
    return most;
}

/* Exchange rows and columns i < j of the part that is not yet decomposed, from `first`. */
static void exchange(const triangle *t, int64_t first, int64_t i, int64_t j)
{
    number kept;
    if (i == j)
        return;
    for (int64_t k = j + 1; k < t->n; k++) {
        kept = *at(t, k, i);
        *at(t, k, i) = *at(t, k, j);
        *at(t, k, j) = kept;
    }
    for (int64_t k = i + 1; k < j; k++) {
        kept = turned(t, *at(t, k, i));
        *at(t, k, i) = turned(t, *at(t, j, k));
        *at(t, j, k) = kept;
    }
    *at(t, j, i) = turned(t, *at(t, j, i));
    kept = *at(t, i, i);
    *at(t, i, i) = *at(t, j, j);
    *at(t, j, j) = kept;
    for (int64_t k = first; k < i; k++) { /* the first column of a block of 2 by 2 */
        kept = *at(t, i, k);
        *at(t, i, k) = *at(t, j, k);
        *at(t, j, k) = kept;
    }
}

/* Subtract what the block of `width` columns from k explains of the rest, and write L in its place. */
static void eliminate_block(const triangle *t, int64_t k, int64_t width)
{
    number d = *at(t, k, k), b = width == 2 ? *at(t, k + 1, k) : 0, e = width == 2 ? *at(t, k + 1, k + 1) : 1;
    number determinant = d * e - b * turned(t, b);
    for (int64_t j = k + width; j < t->n; j++) {
        number x = *at(t, j, k), y = width == 2 ? *at(t, j, k + 1) : 0;
        /* Row j of L: [x y] times the inverse of the block. */
        number first = width == 2 ? (x * e - y * b) / determinant : x / d;
        number second = width == 2 ? (y * d - x * turned(t, b)) / determinant : 0;
        for (int64_t i = j; i < t->n; i++)
            *at(t, i, j) -=
                *at(t, i, k) * turned(t, first) + (width == 2 ? *at(t, i, k + 1) * turned(t, second) : 0);
        /* Rows below read x and y of their own row only. */
        *at(t, j, k) = first;
        if (width == 2)
            *at(t, j, k + 1) = second;
        if (t->hermitian)
            *at(t, j, j) = creal(*at(t, j, j));
    }
}

void gt__reference_ldl(number *a, int64_t n, bool hermitian, number *pivots)
{
    const double limit = (1 + sqrt(17.0)) / 8;
    triangle t = {.a = a, .n = n, .hermitian = hermitian};
    for (int64_t k = 0, width; k < n; k += width) {
        int64_t row, other, pivot = k;
        double diagonal = size_of(&t, *at(&t, k, k), true), most = largest(&t, k, k + 1, k, &row);
        width = 1;
        if (hermitian)
            *at(&t, k, k) = creal(*at(&t, k, k));
        if (diagonal == 0 && most == 0) { /* nothing to eliminate */
            pivots[k] = (double)k + 1;
            continue;
        }
        if (diagonal < limit * most) {
            double beside = largest(&t, row, k, row, &other);
            if (diagonal >= limit * most * (most / beside))
                pivot = k;
            else if (size_of(&t, *at(&t, row, row), true) >= limit * beside)
                pivot = row;
            else {
                pivot = row;
                width = 2;
            }
        }
        exchange(&t, k, k + width - 1, pivot);
        if (hermitian)
            for (int64_t i = k; i < k + width; i++)
                *at(&t, i, i) = creal(*at(&t, i, i));
        eliminate_block(&t, k, width);
        for (int64_t i = k; i < k + width; i++)
            pivots[i] = width == 1 ? (double)pivot + 1 : -((double)pivot + 1);
    }
}

static void swap_rows(number *b, int64_t columns, int64_t i, int64_t j)
{
    for (int64_t c = 0; c < columns; c++) {
        number kept = b[i * columns + c];
        b[i * columns + c] = b[j * columns + c];
        b[j * columns + c] = kept;
    }
}

/* The columns of the block at k. */
static int64_t width_at(const number *pivots, int64_t k)
{
    return creal(pivots[k]) < 0 ? 2 : 1;
}

/* Rows of b below the block at k less their part of its rows: L^-1. */
static void forward(const triangle *t, int64_t k, int64_t width, number *b, int64_t columns)
{
    for (int64_t i = k + width; i < t->n; i++)
        for (int64_t j = k; j < k + width; j++)
            for (int64_t c = 0; c < columns; c++)
                b[i * columns + c] -= *at(t, i, j) * b[j * columns + c];
}

/* D^-1 */
static void divide(const triangle *t, int64_t k, int64_t width, number *b, int64_t columns)
{
    number d = *at(t, k, k), below = width == 2 ? *at(t, k + 1, k) : 0, e = width == 2 ? *at(t, k + 1, k + 1) : 1;
    number determinant = d * e - below * turned(t, below);
    for (int64_t c = 0; c < columns; c++) {
        number *x = &b[k * columns + c], *y = x + columns, first = *x;
        if (width == 1) {
            *x /= d;
            continue;
        }
        *x = (e * first - turned(t, below) * *y) / determinant;
        *y = (d * *y - below * first) / determinant;
    }
}

/* L^-T, or L^-H. */
static void backward(const triangle *t, int64_t k, int64_t width, number *b, int64_t columns)
{
    for (int64_t j = k; j < k + width; j++)
        for (int64_t i = k + width; i < t->n; i++)
            for (int64_t c = 0; c < columns; c++)
                b[j * columns + c] -= turned(t, *at(t, i, j)) * b[i * columns + c];
}

void gt__reference_ldl_solve(const number *a, int64_t n, bool hermitian, const number *pivots, number *b,
                             int64_t k)
{
    triangle t = {.a = (number *)a, .n = n, .hermitian = hermitian};
    int64_t block = 0, width;
    for (; block < n; block += width) {
        width = width_at(pivots, block);
        swap_rows(b, k, block + width - 1, (int64_t)fabs(creal(pivots[block])) - 1);
        forward(&t, block, width, b, k);
        divide(&t, block, width, b, k);
    }
    while (block > 0) {
        width = width_at(pivots, block - 1);
        block -= width;
        backward(&t, block, width, b, k);
        swap_rows(b, k, block + width - 1, (int64_t)fabs(creal(pivots[block])) - 1);
    }
}

/*
 * product.h: products of float32 matrices by loops of our own, on processors where these are faster than OpenBLAS. Used by
 * matmul.c.
 */
#ifndef GT_ENGINES_CPU_PRODUCT_H
#define GT_ENGINES_CPU_PRODUCT_H

#include "engines/cpu/cpu.h"

/* Terms of a sum that are added up in registers; longer sums are computed in parts of so many. */
enum { GT_PRODUCT_TERMS = 384 };

/* out (m, n) = a (m, k) @ b (k, n), or out += a @ b. Element (i, j) of an operand is at i * row + j * column. */
typedef struct gt_product {
    int64_t m, n, k;
    const float *a, *b;
    int64_t a_row, a_column, b_row, b_column;
    float *out;
    int64_t out_row;
    bool adds;
} gt_product;

/* Whether gt__product is there and faster for a product of this size. */
bool gt__product_pays(int64_t m, int64_t n);
/* Runs in the calling thread. A sum does not depend on where in the result it is, nor on m and n. False: there is no memory. */
bool gt__product(const gt_cpu *cpu, const gt_product *p);

#endif

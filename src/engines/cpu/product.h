/*
 * product.h: products of float32 matrices by loops of our own, on processors where these are faster than OpenBLAS: 64-bit ARM
 * (product_arm.c), and x86-64 with AVX2 or AVX-512 (product_x86.c). Used by matmul.c and attention.c.
 */
#ifndef GT_ENGINES_CPU_PRODUCT_H
#define GT_ENGINES_CPU_PRODUCT_H

#include "engines/cpu/cpu.h"

/* Terms of a sum that are added up in registers; longer sums are computed in parts of so many. */
enum { GT_PRODUCT_TERMS = 384 };

/* out (m, n) = scale * (a (m, k) @ b (k, n)), or out += that. Element (i, j) of an operand is at i * row + j * column. */
typedef struct gt_product {
    int64_t m, n, k;
    const float *a, *b;
    int64_t a_row, a_column, b_row, b_column;
    float *out;
    int64_t out_row;
    float scale; /* on ARM only 1 */
    bool adds;
} gt_product;

/* Whether gt__product is there and faster for a product of this size. */
bool gt__product_pays(const gt_cpu *cpu, int64_t m, int64_t n);
/* Runs in the calling thread. A sum does not depend on where in the result it is, nor on m and n. False: there is no memory. */
bool gt__product(const gt_cpu *cpu, const gt_product *p);

/* For the files that implement these: memory of the calling thread, which keeps it. NULL: there is none. */
float *gt__product_copies(const gt_cpu *cpu, int64_t elements);

#endif

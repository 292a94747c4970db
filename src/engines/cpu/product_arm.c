/*
 * product_arm.c: products of float32 matrices on 64-bit ARM.
 *
 * As in other libraries, blocks of both operands are copied first: b into strips of COLUMNS columns, a into strips of
 * ROWS rows, both in the order in which the inner loop (tile) reads them. A tile of the result stays in registers over all
 * terms of a block. A strip of b stays in the L1 cache, the block of a in the L2 cache.
 *
 * The inner loop is like that of convolutions (kernels_conv_template.h): what it multiplies next is read as soon as a register
 * is free. A Neoverse V1 reaches 83 to 90 % of its peak that way, OpenBLAS 0.3.21 53 to 73 %, the former if b is transposed,
 * as in a linear layer.
 */
#include "engines/cpu/product.h"

#include <string.h>

#if defined(__aarch64__)

enum {
    LANES = 4,
    ROWS = 8, /* of a tile */
    VECTORS = 3,
    COLUMNS = VECTORS * LANES,
    BLOCK_ROWS = 128, /* of a */
    BLOCK_COLUMNS = 480,
    LEAST_ROWS = 16, /* of a product that pays: fewer leave too much of a tile unused */
    LEAST_COLUMNS = 9,
};

typedef float four __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));

bool gt__product_pays(const gt_cpu *cpu, int64_t m, int64_t n)
{
    (void)cpu;
    return m >= LEAST_ROWS && n >= LEAST_COLUMNS;
}

/* ---- copies ------------------------------------------------------------------------------------------------- */

/* Four lines of four elements become columns. */
static inline void transpose(const float *from, int64_t line, float *to, int64_t width)
{
    four a = *(const four *)from, b = *(const four *)(from + line);
    four c = *(const four *)(from + 2 * line), d = *(const four *)(from + 3 * line);
    four ab_even = __builtin_shufflevector(a, b, 0, 4, 2, 6), ab_odd = __builtin_shufflevector(a, b, 1, 5, 3, 7);
    four cd_even = __builtin_shufflevector(c, d, 0, 4, 2, 6), cd_odd = __builtin_shufflevector(c, d, 1, 5, 3, 7);
    *(four *)to = __builtin_shufflevector(ab_even, cd_even, 0, 1, 4, 5);
    *(four *)(to + width) = __builtin_shufflevector(ab_odd, cd_odd, 0, 1, 4, 5);
    *(four *)(to + 2 * width) = __builtin_shufflevector(ab_even, cd_even, 2, 3, 6, 7);
    *(four *)(to + 3 * width) = __builtin_shufflevector(ab_odd, cd_odd, 2, 3, 6, 7);
}

/* Lines of an operand: rows of a, or columns of b. Element t of line i is at i * line + t * step. */
typedef struct lines {
    const float *data;
    int64_t line, step;
} lines;

/* to (terms, width) of `width` lines. */
static inline void pack_strip(lines x, int64_t terms, int width, float *to)
{
    int64_t t = 0;
    for (; x.step == 1 && t + LANES <= terms; t += LANES)
        for (int i = 0; i < width; i += LANES)
            transpose(x.data + i * x.line + t, x.line, to + t * width + i, width);
    for (; t < terms; t++)
        for (int i = 0; i < width; i++)
            to[t * width + i] = x.data[i * x.line + t * x.step];
}

/* to (strips, terms, width) of lines whose elements of one term are neighbours: some strips at a time, so that what is read is
 * long enough for the processor to read ahead. */
static inline void pack_neighbours(lines x, int64_t strips, int64_t terms, int width, float *to)
{
    enum { AT_ONCE = 8 };
    for (int64_t first = 0; first < strips; first += AT_ONCE) {
        int64_t count = strips - first < AT_ONCE ? strips - first : AT_ONCE;
        for (int64_t t = 0; t < terms; t++) {
            const float *from = x.data + first * width + t * x.step;
            float *strip = to + (first * terms + t) * width;
            for (int64_t k = 0; k < count; k++, from += width, strip += terms * width)
                memcpy(strip, from, (size_t)width * sizeof *to);
        }
    }
}

/* to (strips, terms, width), the last strip with zeros for lines that are not there. */
static inline void pack(lines x, int64_t count, int64_t terms, int width, float *to)
{
    int64_t strips = count / width, left = count % width;
    if (x.line == 1)
        pack_neighbours(x, strips, terms, width, to);
    else
        for (int64_t k = 0; k < strips; k++)
            pack_strip((lines){.data = x.data + k * width * x.line, .line = x.line, .step = x.step}, terms, width,
                       to + k * terms * width);
    x.data += strips * width * x.line;
    to += strips * terms * width;
    for (int64_t t = 0; t < terms && left; t++)
        for (int i = 0; i < width; i++)
            to[t * width + i] = i < left ? x.data[i * x.line + t * x.step] : 0;
}

/* ---- one tile ----------------------------------------------------------------------------------------------- */

/* out (m, n), the corner of a tile, = a (terms, ROWS) @ b (terms, COLUMNS); or out += that. There is memory behind b for another
 * term, which is read and not used. */
static void tile(const float *a, const float *b, int64_t terms, float *out, int64_t row, int64_t m, int64_t n,
                 bool adds)
{
    four sum[ROWS][VECTORS], x[VECTORS];
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < VECTORS; j++)
            sum[i][j] = (four){0};
    for (int j = 0; j < VECTORS; j++)
        x[j] = *(const four *)(b + j * LANES);
    for (int64_t t = 0; t < terms; t++, a += ROWS) {
        b += COLUMNS;
        four factors[] = {*(const four *)a, *(const four *)(a + LANES)};
        for (int j = 0; j < VECTORS; j++) {
            for (int i = 0; i < ROWS; i++)
                sum[i][j] += x[j] * factors[i / LANES][i % LANES];
            x[j] = *(const four *)(b + j * LANES);
        }
    }
    for (int i = 0; i < ROWS && m >= ROWS && n >= COLUMNS; i++)
        for (int j = 0; j < VECTORS; j++) {
            four *to = (four *)(out + i * row + j * LANES);
            if (adds)
                sum[i][j] += *to;
            *to = sum[i][j];
        }
    for (int i = 0; i < ROWS && i < m && (m < ROWS || n < COLUMNS); i++)
        for (int j = 0; j < COLUMNS && j < n; j++) {
            float *to = out + i * row + j;
            *to = (adds ? *to : 0) + sum[i][j / LANES][j % LANES];
        }
}

/* ---- the whole ---------------------------------------------------------------------------------------------- */

static int64_t rounded_up(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* All rows of the result, for a block of b that was packed: its columns from `column` on, its terms from `term` on. */
static void multiply_rows(const gt_product *p, int64_t column, int64_t columns, int64_t term, int64_t terms,
                          const float *packed_b, float *packed_a)
{
    for (int64_t first = 0; first < p->m; first += BLOCK_ROWS) {
        int64_t rows = p->m - first < BLOCK_ROWS ? p->m - first : BLOCK_ROWS;
        lines a = {.data = p->a + first * p->a_row + term * p->a_column, .line = p->a_row, .step = p->a_column};
        pack(a, rows, terms, ROWS, packed_a);
        for (int64_t j = 0; j < columns; j += COLUMNS)
            for (int64_t i = 0; i < rows; i += ROWS)
                tile(packed_a + i * terms, packed_b + j * terms, terms,
                     p->out + (first + i) * p->out_row + column + j, p->out_row, rows - i, columns - j,
                     p->adds || term > 0);
    }
}

bool gt__product(const gt_cpu *cpu, const gt_product *p)
{
    int64_t most_terms = p->k < GT_PRODUCT_TERMS ? p->k : GT_PRODUCT_TERMS;
    int64_t block_rows = rounded_up(p->m < BLOCK_ROWS ? p->m : BLOCK_ROWS, ROWS);
    int64_t block_columns = rounded_up(p->n < BLOCK_COLUMNS ? p->n : BLOCK_COLUMNS, COLUMNS);
    /* The last elements: see tile. */
    float *packed_a = gt__product_copies(cpu, most_terms * (block_rows + block_columns) + COLUMNS);
    if (!packed_a)
        return false;
    float *packed_b = packed_a + most_terms * block_rows;
    for (int64_t column = 0; column < p->n; column += BLOCK_COLUMNS) {
        int64_t columns = p->n - column < BLOCK_COLUMNS ? p->n - column : BLOCK_COLUMNS;
        for (int64_t term = 0; term < p->k; term += GT_PRODUCT_TERMS) {
            int64_t terms = p->k - term < GT_PRODUCT_TERMS ? p->k - term : GT_PRODUCT_TERMS;
            lines b = {
                .data = p->b + term * p->b_row + column * p->b_column, .line = p->b_column, .step = p->b_row};
            pack(b, columns, terms, COLUMNS, packed_b);
            multiply_rows(p, column, columns, term, terms, packed_b, packed_a);
        }
    }
    return true;
}

#endif

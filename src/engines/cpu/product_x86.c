/*
 * product_x86.c: products of float32 matrices on x86-64 with AVX2 or AVX-512. OpenBLAS chooses its loops by the processor's model
 * and takes 128-bit ones for a model it does not know; these are chosen by instruction set.
 *
 * Operands are copied into strips, as wide as a tile (product_tile.h), in the order in which tiles read them; except where a copy costs more
 * than it gains: rows of a are read where they are, unless they compete for the same places of a cache, and so is b for few rows. A panel is
 * what is multiplied at a time: it fits the second-level cache, even if two threads share one. Threads that copied b together and then read
 * each other's copies were slower (16 threads, 1000x1000: 2.2 ms instead of 1.8), since most of them lay in other cores' caches.
 */
#include "engines/cpu/product.h"

#if defined(__x86_64__)

enum {
    PANEL_ROWS = 140,
    PANEL_COLUMNS = 512,
    CROWDED_STRIDE = 1024, /* rows so many elements apart compete for the same places of the first-level cache: */
    CROWDED_COLUMNS = 64,  /* they are copied if there are more columns than these */
    DIRECT_STRIPS = 5,     /* of a: up to here b is read where it is, */
    ALIGNED_STRIPS = 10,   /* or up to here if no vector of b is in two cache lines, and its rows do not compete */
    GROUP = 4, /* strips of b that are copied side by side, since short pieces of a row are slow to read */
    GROUP_TERMS = 96,
};

/* Rows and columns of the result, and terms of their sums, from `row`, `column` and `term` on. */
typedef struct panel {
    const gt_product *p;
    const gt_product_tiles *tiles;
    int64_t row, rows, column, columns, term, terms;
    int64_t width, padded; /* of a strip of b, of all */
    int64_t strips;        /* of a */
    int64_t direct;        /* columns of b that are read where they are; the others are copied */
    float *a, *b;          /* copies; a NULL: rows are read where they are */
} panel;

static int64_t least(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

static int64_t quotient_up(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit;
}

/* Rows are divided evenly, so that no tile is much lower than others. */
static int64_t strip_row(const panel *x, int64_t strip)
{
    return x->rows * strip / x->strips;
}

/* ---- copies ------------------------------------------------------------------------------------------------- */

static void pack_a(const panel *x)
{
    const gt_product *p = x->p;
    for (int64_t strip = 0; strip < x->strips; strip++) {
        int64_t first = strip_row(x, strip), height = strip_row(x, strip + 1) - first;
        gt_product_lines lines = {.data = p->a + (x->row + first) * p->a_row + x->term * p->a_column,
                                  .line = p->a_row,
                                  .step = p->a_column};
        x->tiles->pack(lines, height, x->terms, height, x->a + first * x->terms);
    }
}

/* Columns from `column` to the end of a group of strips, terms from `term` on. */
static void pack_group(const panel *x, int64_t column, int64_t term)
{
    const gt_product *p = x->p;
    int64_t end = least(column + GROUP * x->width, x->columns), terms = least(GROUP_TERMS, x->terms - term);
    for (; column < end; column += x->width) {
        int64_t width = least(x->width, x->padded - column);
        gt_product_lines lines = {.data = p->b + (x->term + term) * p->b_row + (x->column + column) * p->b_column,
                                  .line = p->b_column,
                                  .step = p->b_row};
        x->tiles->pack(lines, least(width, x->columns - column), terms, width,
                       x->b + column * x->terms + term * width);
    }
}

static void pack_b(const panel *x)
{
    for (int64_t column = x->direct; column < x->columns; column += GROUP * x->width)
        for (int64_t term = 0; term < x->terms; term += GROUP_TERMS)
            pack_group(x, column, term);
}

/* ---- the whole ---------------------------------------------------------------------------------------------- */

/* All rows of the panel, for the strip of b that begins at `column`. */
static void multiply_strip(const panel *x, int64_t column, float *edge)
{
    const gt_product *p = x->p;
    int64_t width = least(x->width, x->padded - column);
    bool direct = column < x->direct;
    gt_product_tile tile = {.terms = x->terms,
                            .out_row = p->out_row,
                            .columns = least(width, x->columns - column),
                            .edge = edge,
                            .scale = p->scale,
                            .adds = p->adds || x->term > 0};
    tile.b = direct ? p->b + x->term * p->b_row + x->column + column : x->b + column * x->terms;
    tile.b_step = direct ? p->b_row : width;
    for (int64_t strip = 0; strip < x->strips; strip++) {
        int64_t row = strip_row(x, strip), height = strip_row(x, strip + 1) - row;
        tile.a = x->a ? x->a + row * x->terms : p->a + (x->row + row) * p->a_row + x->term * p->a_column;
        tile.a_row = x->a ? 1 : p->a_row;
        tile.a_step = x->a ? height : p->a_column;
        tile.out = p->out + (x->row + row) * p->out_row + x->column + column;
        x->tiles->tile[height - 1][width / x->tiles->lanes - 1](&tile);
    }
}

/* Panels with some columns and some terms, one below the other; b is copied once for all of them. */
static void multiply_columns(panel *x, int64_t panel_rows, bool direct_b)
{
    _Alignas(64) float edge[GT_PRODUCT_MOST_ELEMENTS];
    x->padded = quotient_up(x->columns, x->tiles->lanes) * x->tiles->lanes;
    x->direct = direct_b ? x->columns / x->width * x->width : 0;
    pack_b(x);
    for (x->row = 0; x->row < x->p->m; x->row += panel_rows) {
        x->rows = least(panel_rows, x->p->m - x->row);
        x->strips = quotient_up(x->rows, x->tiles->rows);
        if (x->a)
            pack_a(x);
        for (int64_t column = 0; column < x->columns; column += x->width)
            multiply_strip(x, column, edge);
    }
}

bool gt__product(const gt_cpu *cpu, const gt_product *p)
{
    const gt_product_tiles *tiles = cpu->kernels->tiles;
    int64_t most_terms = least(p->k, GT_PRODUCT_TERMS), unit = tiles->lanes;
    int64_t rows = quotient_up(p->m, quotient_up(p->m, PANEL_ROWS)); /* evenly, in steps of whole tiles */
    rows = least(p->m, quotient_up(rows, tiles->rows) * tiles->rows);
    bool crowded = p->a_row % CROWDED_STRIDE == 0;
    bool direct_a = p->a_column == 1 && (!crowded || p->n <= CROWDED_COLUMNS);
    bool aligned = p->b_row % unit == 0 && p->b_row % CROWDED_STRIDE != 0;
    bool direct_b = p->b_column == 1 && p->m <= (aligned ? ALIGNED_STRIPS : DIRECT_STRIPS) * tiles->rows;
    int64_t a_elements = direct_a ? 0 : quotient_up(rows * most_terms, unit) * unit;
    int64_t b_elements = quotient_up(least(p->n, PANEL_COLUMNS), unit) * unit * most_terms;
    float *copies = gt__product_copies(cpu, a_elements + b_elements);
    if (!copies)
        return false;
    panel x = {.p = p, .tiles = tiles, .width = tiles->vectors * unit};
    x.a = direct_a ? NULL : copies;
    x.b = copies + a_elements;
    for (x.column = 0; x.column < p->n; x.column += PANEL_COLUMNS)
        for (x.term = 0; x.term < p->k; x.term += GT_PRODUCT_TERMS) {
            x.columns = least(PANEL_COLUMNS, p->n - x.column);
            x.terms = least(GT_PRODUCT_TERMS, p->k - x.term);
            multiply_columns(&x, rows, direct_b);
        }
    return true;
}

bool gt__product_pays(const gt_cpu *cpu, int64_t m, int64_t n)
{
    return cpu->kernels->tiles && m > 1 && n > 1;
}

#endif

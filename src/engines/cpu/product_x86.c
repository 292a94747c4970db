/*
 * product_x86.c: products of float32 matrices on x86-64 with AVX2 or AVX-512. OpenBLAS chooses its loops by the processor's model
 * and takes 128-bit ones for a model it does not know; these are chosen by instruction set.
 *
 * Both operands are copied into strips, as wide as a tile (product_tile.h), in the order in which tiles read them. A panel is
 * what is copied at a time. One thread takes panels that fit its second-level cache. A product that all threads share has larger
 * ones: they copy them together, then compute blocks of the result, so that nothing is copied twice. Every element is a sum of
 * GT_PRODUCT_TERMS terms in order, then of those sums in order, whatever the panels and the threads.
 */
#include "engines/cpu/product.h"

#if defined(__x86_64__)

enum {
    PANEL_ROWS = 140, /* of a thread */
    PANEL_COLUMNS = 512,
    PANEL_ELEMENTS = 1 << 20, /* of a product that threads share: of each operand */
    DIRECT_COLUMNS =
        256,          /* up to here rows of a are read where they are: they would be read too rarely from a copy */
    BLOCK_ROWS = 280, /* of the result: so many of a fit the second-level cache */
    GROUP = 4,        /* strips of b that are copied side by side, since short pieces of a row are slow to read */
    GROUP_TERMS = 96,
    PARTS = 4,       /* of a thread: as many as the chunks of parallel.c */
    TASK = 1 << 17,  /* multiplications that a task is worth */
    SAVED = 1 << 15, /* elements that a thread need not copy: from here on, sharing is worth two meetings */
};

typedef struct panel {
    const gt_product *p;
    const gt_product_tiles *tiles;
    int64_t row, rows, column, columns, term, terms;
    int64_t width, padded; /* of a strip of b, of all */
    int64_t row_strips, column_strips;
    int64_t row_blocks, column_blocks;
    int64_t direct_columns; /* of b: they are read where they are; the rest is copied */
    float *a, *b;           /* copies; a NULL: rows are read where they are */
    bool packs_b;
    int64_t parts;
} panel;

static int64_t least(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

static int64_t quotient_up(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit;
}

/* ---- copies ------------------------------------------------------------------------------------------------- */

/* Rows are divided evenly, so that no tile is much lower than others. */
static int64_t strip_row(const panel *x, int64_t strip)
{
    return x->rows * strip / x->row_strips;
}

static void pack_a(const panel *x, int64_t strip, int64_t block)
{
    const gt_product *p = x->p;
    int64_t first = strip_row(x, strip), height = strip_row(x, strip + 1) - first;
    int64_t term = block * GT_PRODUCT_TERMS, terms = least(GT_PRODUCT_TERMS, x->terms - term);
    gt_product_lines lines = {.data = p->a + (x->row + first) * p->a_row + (x->term + term) * p->a_column,
                              .line = p->a_row,
                              .step = p->a_column};
    x->tiles->pack(lines, height, terms, height, x->a + term * x->rows + first * terms);
}

/* Some strips, some terms. */
static void pack_b(const panel *x, int64_t group, int64_t part)
{
    const gt_product *p = x->p;
    int64_t first = part * GROUP_TERMS, terms = least(GROUP_TERMS, x->terms - first);
    int64_t block = first / GT_PRODUCT_TERMS * GT_PRODUCT_TERMS;
    int64_t block_terms = least(GT_PRODUCT_TERMS, x->terms - block);
    for (int64_t strip = group * GROUP; strip < least((group + 1) * GROUP, x->column_strips); strip++) {
        int64_t column = strip * x->width, width = least(x->width, x->padded - column);
        gt_product_lines lines = {.data = p->b + (x->term + first) * p->b_row + (x->column + column) * p->b_column,
                                  .line = p->b_column,
                                  .step = p->b_row};
        if (column >= x->direct_columns)
            x->tiles->pack(lines, least(width, x->columns - column), terms, width,
                           x->b + block * x->padded + column * block_terms + (first - block) * width);
    }
}

/* Where the work for parts begin <= i < end lies among `units`, of which each has this weight. */
typedef struct share {
    int64_t before, units, weight;
} share;

static int64_t unit_at(const share *s, int64_t position)
{
    int64_t unit = position <= s->before ? 0 : quotient_up(position - s->before, s->weight);
    return least(unit, s->units);
}

static void pack_parts(void *context, int64_t begin, int64_t end)
{
    const panel *x = context;
    int64_t blocks = quotient_up(x->terms, GT_PRODUCT_TERMS), groups = quotient_up(x->column_strips, GROUP);
    int64_t term_parts = quotient_up(x->terms, GROUP_TERMS);
    share a = {.units = x->a ? x->row_strips * blocks : 0, .weight = x->tiles->rows * GT_PRODUCT_TERMS};
    share b = {.before = a.units * a.weight,
               .units = x->packs_b ? groups * term_parts : 0,
               .weight = GROUP * x->width * GROUP_TERMS};
    int64_t all = b.before + b.units * b.weight, from = all / x->parts * begin, to = all / x->parts * end;
    to = end == x->parts ? all : to;
    for (int64_t unit = unit_at(&a, from); unit < unit_at(&a, to); unit++)
        pack_a(x, unit % x->row_strips, unit / x->row_strips);
    for (int64_t unit = unit_at(&b, from); unit < unit_at(&b, to); unit++)
        pack_b(x, unit / term_parts, unit % term_parts);
}

/* ---- blocks of the result ----------------------------------------------------------------------------------- */

/* The tiles of rows first <= i < last (strips), for one strip of b and some terms. */
static void multiply_strip(const panel *x, int64_t first, int64_t last, int64_t strip, int64_t term, float *edge)
{
    const gt_product *p = x->p;
    int64_t column = strip * x->width, width = least(x->width, x->padded - column);
    bool direct = column < x->direct_columns;
    gt_product_tile tile = {.terms = least(GT_PRODUCT_TERMS, x->terms - term),
                            .out_row = p->out_row,
                            .columns = least(width, x->columns - column),
                            .edge = edge,
                            .scale = p->scale,
                            .adds = p->adds || x->term + term > 0};
    tile.b = direct ? p->b + (x->term + term) * p->b_row + x->column + column
                    : x->b + term * x->padded + column * tile.terms;
    tile.b_step = direct ? p->b_row : width;
    for (int64_t i = first; i < last; i++) {
        int64_t row = strip_row(x, i), height = strip_row(x, i + 1) - row;
        tile.a = x->a ? x->a + term * x->rows + row * tile.terms
                      : p->a + (x->row + row) * p->a_row + (x->term + term) * p->a_column;
        tile.a_row = x->a ? 1 : p->a_row;
        tile.a_step = x->a ? height : p->a_column;
        tile.out = p->out + (x->row + row) * p->out_row + x->column + column;
        x->tiles->tile[height - 1][width / x->tiles->lanes - 1](&tile);
    }
}

/* Blocks begin <= i < end; those with the same columns follow each other. */
static void multiply_blocks(void *context, int64_t begin, int64_t end)
{
    const panel *x = context;
    _Alignas(64) float edge[GT_PRODUCT_MOST_ELEMENTS];
    for (int64_t block = begin; block < end; block++) {
        int64_t rows = block % x->row_blocks, columns = block / x->row_blocks;
        int64_t first = x->row_strips * rows / x->row_blocks, last = x->row_strips * (rows + 1) / x->row_blocks;
        int64_t strip_end = x->column_strips * (columns + 1) / x->column_blocks;
        for (int64_t term = 0; term < x->terms; term += GT_PRODUCT_TERMS)
            for (int64_t strip = x->column_strips * columns / x->column_blocks; strip < strip_end; strip++)
                multiply_strip(x, first, last, strip, term, edge);
    }
}

/* Blocks that keep all threads busy until the end: of some numbers of blocks, those that take the least time. */
static void plan_blocks(panel *x, int64_t threads)
{
    int64_t strip_rows = quotient_up(x->rows, x->row_strips), best = INT64_MAX;
    int64_t fewest = quotient_up(x->row_strips, BLOCK_ROWS / strip_rows);
    int64_t work = strip_rows * x->width * x->terms; /* of a tile */
    for (int64_t row_blocks = fewest; row_blocks <= least(x->row_strips, fewest + PARTS * threads); row_blocks++)
        for (int64_t column_blocks = 1;
             column_blocks <= x->column_strips && row_blocks * column_blocks <= fewest + PARTS * threads;
             column_blocks++) {
            int64_t high = quotient_up(x->row_strips, row_blocks);
            int64_t wide = quotient_up(x->column_strips, column_blocks);
            int64_t rounds = quotient_up(row_blocks * column_blocks, threads);
            /* A block reads its strips of both operands: about as long as computing one tile in ten. */
            int64_t time = rounds * (10 * high * wide + high + 2 * wide + TASK / work);
            if (time >= best)
                continue;
            best = time;
            x->row_blocks = row_blocks;
            x->column_blocks = column_blocks;
        }
}

/* ---- the whole ---------------------------------------------------------------------------------------------- */

static void run_panel(gt_parallel *parallel, panel *x)
{
    x->row_strips = quotient_up(x->rows, x->tiles->rows);
    x->row_blocks = x->column_blocks = x->parts = 1;
    if (!parallel) {
        pack_parts(x, 0, 1);
        multiply_blocks(x, 0, 1);
        return;
    }
    x->parts = PARTS * gt__parallel_threads(parallel);
    plan_blocks(x, gt__parallel_threads(parallel));
    gt__parallel_for(parallel, x->parts, 1, pack_parts, x);
    gt__parallel_for(parallel, x->row_blocks * x->column_blocks, 1, multiply_blocks, x);
}

/* Sides of the largest panel. */
static void plan_panels(const gt_product *p, bool shared, panel *most)
{
    const gt_product_tiles *tiles = most->tiles;
    int64_t terms = least(p->k, GT_PRODUCT_TERMS), unit = tiles->rows;
    most->width = tiles->vectors * tiles->lanes;
    most->rows = shared ? PANEL_ELEMENTS / terms : PANEL_ROWS;
    most->columns = shared ? PANEL_ELEMENTS / terms / most->width * most->width : PANEL_COLUMNS;
    if (p->m > most->rows) /* evenly */
        most->rows = quotient_up(quotient_up(p->m, quotient_up(p->m, most->rows)), unit) * unit;
    most->rows = least(most->rows, p->m);
    most->columns = least(most->columns, p->n);
    most->padded = quotient_up(most->columns, tiles->lanes) * tiles->lanes;
    int64_t longer = most->rows > most->padded ? most->rows : most->padded;
    int64_t blocks = shared ? PANEL_ELEMENTS / (terms * longer) : 1;
    most->terms = least(p->k, (blocks > 1 ? blocks : 1) * GT_PRODUCT_TERMS);
}

static bool run(const gt_cpu *cpu, gt_parallel *parallel, const gt_product *p)
{
    panel most = {.p = p, .tiles = cpu->kernels->tiles};
    plan_panels(p, parallel, &most);
    bool direct_a = p->a_column == 1 && p->n <= DIRECT_COLUMNS;
    bool direct_b = p->b_column == 1 && p->m <= most.tiles->rows;
    int64_t a_elements = direct_a ? 0 : quotient_up(most.rows * most.terms, most.tiles->lanes) * most.tiles->lanes;
    float *copies = gt__product_copies(cpu, a_elements + most.padded * most.terms);
    if (!copies)
        return false;
    for (int64_t term = 0; term < p->k; term += most.terms)
        for (int64_t column = 0; column < p->n; column += most.columns)
            for (int64_t row = 0; row < p->m; row += most.rows) {
                panel x = most;
                x.a = direct_a ? NULL : copies;
                x.b = copies + a_elements;
                x.term = term;
                x.terms = least(most.terms, p->k - term);
                x.column = column;
                x.columns = least(most.columns, p->n - column);
                x.padded = quotient_up(x.columns, x.tiles->lanes) * x.tiles->lanes;
                x.column_strips = quotient_up(x.columns, x.width);
                x.direct_columns = direct_b ? x.columns / x.width * x.width : 0;
                x.row = row;
                x.rows = least(most.rows, p->m - row);
                x.packs_b = row == 0;
                run_panel(parallel, &x);
            }
    return true;
}

bool gt__product_pays(const gt_cpu *cpu, int64_t m, int64_t n)
{
    return cpu->kernels->tiles && m > 1 && n > 1;
}

bool gt__product(const gt_cpu *cpu, const gt_product *p)
{
    return run(cpu, NULL, p);
}

bool gt__product_shared(const gt_cpu *cpu, const gt_product *p, int64_t row_piece, int64_t column_piece)
{
    double threads = gt__parallel_threads(cpu->parallel), work = (double)p->m * (double)p->n * (double)p->k;
    double alone = 1 / (double)row_piece + 1 / (double)column_piece, shared = 1 / (double)p->m + 1 / (double)p->n;
    if (!cpu->kernels->tiles || work / threads * (alone - shared) < SAVED)
        return false;
    return run(cpu, cpu->parallel, p);
}

#endif

/*
 * product_tile.h: the inner loops of product_x86.c, compiled once per instruction set (product_tile.c).
 */
#ifndef GT_ENGINES_CPU_PRODUCT_TILE_H
#define GT_ENGINES_CPU_PRODUCT_TILE_H

#include <stdbool.h>
#include <stdint.h>

/* out = scale * (a @ b), or out += that, for one tile. Term t of row i of a is at i * a_row + t * a_step, that of column j of b
 * at j + t * b_step. b is read to the tile's whole width. */
typedef struct gt_product_tile {
    const float *a, *b;
    int64_t a_row, a_step, b_step, terms;
    float *out;
    int64_t out_row;
    int64_t columns; /* that are stored, at most the width */
    float *edge;     /* room for a tile */
    float scale;
    bool adds;
} gt_product_tile;

/* Lines of an operand: rows of a, or columns of b. Element t of line i is at i * line + t * step. */
typedef struct gt_product_lines {
    const float *data;
    int64_t line, step;
} gt_product_lines;

enum { GT_PRODUCT_MOST_ROWS = 14, GT_PRODUCT_MOST_VECTORS = 2, GT_PRODUCT_MOST_ELEMENTS = 14 * 32 };

typedef void (*gt_product_tile_kernel)(const gt_product_tile *tile);

typedef struct gt_product_tiles {
    int rows, vectors, lanes; /* of the largest tile; lanes of a vector */
    /* [height - 1][vectors - 1] */
    gt_product_tile_kernel tile[GT_PRODUCT_MOST_ROWS][GT_PRODUCT_MOST_VECTORS];
    /* to (terms, width) = the lines, and zeros for those that are missing */
    void (*pack)(gt_product_lines x, int64_t lines, int64_t terms, int64_t width, float *to);
} gt_product_tiles;

#if defined(__x86_64__)
extern const gt_product_tiles gt__product_tiles_avx2;
extern const gt_product_tiles gt__product_tiles_avx512;
#endif

#endif

/*
 * box.h: a part of a strided view as a contiguous tile, and back.
 *
 * A box is a range of positions along each of a few axes. Its elements, in row-major order, make a tile of the compute type that one
 * kernel call can process, however short the view's rows are. elementwise.c is the user; movement.c and program_tile.c transpose with it.
 */
#ifndef GT_ENGINES_CPU_BOX_H
#define GT_ENGINES_CPU_BOX_H

#include "engines/cpu/cpu.h"

typedef struct gt_box {
    int rank;
    int64_t shape[GT_MAX_RANK];
    int64_t stride[GT_MAX_RANK]; /* of the view, in elements */
} gt_box;

/* The box of a view with these strides, its axes merged where they walk as one: at least one axis is left. */
void gt__box_set(gt_box *box, int rank, const int64_t *shape, const int64_t *stride);

/* Whether the box is `count` elements in a row. */
static inline bool gt__box_is_row(const gt_box *box)
{
    return box->rank == 1 && (box->stride[0] == 1 || box->shape[0] == 1);
}

/* Gather at most GT_TILE elements at `from` into a tile of the compute type; convert a tile and store it at `to`. */
void gt__box_load(const gt_cpu *cpu, gt_compute compute, gt_dtype dtype, const gt_box *box, const void *from,
                  void *tile);
void gt__box_store(const gt_cpu *cpu, gt_compute compute, gt_dtype dtype, const gt_box *box, const void *tile,
                   void *to);

/* Make `count` copies of the first `bytes` of a tile, the first one included. */
void gt__repeat(char *tile, int64_t bytes, int64_t count);
/* to (rows, columns): each of the `rows` numbers of `size` bytes `columns` times. */
void gt__spread(int64_t size, void *to, const void *numbers, int64_t rows, int64_t columns);

/* to (rows, columns) = from (columns, rows) transposed, elements of `size` bytes; strides between rows of each. */
void gt__transpose(int64_t size, void *to, int64_t to_stride, const void *from, int64_t from_stride, int64_t rows,
                   int64_t columns);

#endif

/*
 * box.c: gathers a box of a strided view into a contiguous tile, and scatters a tile into a box.
 *
 * Three shapes of boxes have a fast way: a repeated part is loaded once and copied inside the tile; a column that is repeated along
 * the rows is read once and spread; a box whose elements run along its second-last axis is transposed by vectors. Read box.h first.
 */
#include "engines/cpu/box.h"

#include <string.h>

#include "engines/cpu/movement.h"

/* ---- transposing -------------------------------------------------------------------------------------------- */

#define TRANSPOSE(type)                                                                                           \
    static void transpose_##type(void *to, int64_t to_stride, const void *from, int64_t from_stride,              \
                                 int64_t rows, int64_t columns)                                                   \
    {                                                                                                             \
        type *restrict t = to;                                                                                    \
        const type *restrict f = from;                                                                            \
        for (int64_t i = 0; i < rows; i++)                                                                        \
            for (int64_t j = 0; j < columns; j++)                                                                 \
                t[i * to_stride + j] = f[j * from_stride + i];                                                    \
    }
TRANSPOSE(uint8_t)
TRANSPOSE(uint16_t)
TRANSPOSE(uint32_t)
TRANSPOSE(uint64_t)
TRANSPOSE(gt_sixteen_bytes)

/* Squares of four by four (32 bits) or two by two (64 bits) elements in vector registers. */
typedef uint32_t four __attribute__((vector_size(16), aligned(4), may_alias));
typedef uint64_t two __attribute__((vector_size(16), aligned(8), may_alias));

static inline void square_32(uint32_t *t, int64_t to_stride, const uint32_t *f, int64_t from_stride)
{
    four a = *(const four *)f, b = *(const four *)(f + from_stride);
    four c = *(const four *)(f + 2 * from_stride), d = *(const four *)(f + 3 * from_stride);
    four ac_low = __builtin_shufflevector(a, c, 0, 4, 1, 5), ac_high = __builtin_shufflevector(a, c, 2, 6, 3, 7);
    four bd_low = __builtin_shufflevector(b, d, 0, 4, 1, 5), bd_high = __builtin_shufflevector(b, d, 2, 6, 3, 7);
    *(four *)t = __builtin_shufflevector(ac_low, bd_low, 0, 4, 1, 5);
    *(four *)(t + to_stride) = __builtin_shufflevector(ac_low, bd_low, 2, 6, 3, 7);
    *(four *)(t + 2 * to_stride) = __builtin_shufflevector(ac_high, bd_high, 0, 4, 1, 5);
    *(four *)(t + 3 * to_stride) = __builtin_shufflevector(ac_high, bd_high, 2, 6, 3, 7);
}

static inline void square_64(uint64_t *t, int64_t to_stride, const uint64_t *f, int64_t from_stride)
{
    two a = *(const two *)f, b = *(const two *)(f + from_stride);
    *(two *)t = __builtin_shufflevector(a, b, 0, 2);
    *(two *)(t + to_stride) = __builtin_shufflevector(a, b, 1, 3);
}

#define TRANSPOSE_SQUARES(bits, side)                                                                             \
    static void transpose_##bits(void *to, int64_t to_stride, const void *from, int64_t from_stride,              \
                                 int64_t rows, int64_t columns)                                                   \
    {                                                                                                             \
        uint##bits##_t *t = to;                                                                                   \
        const uint##bits##_t *f = from;                                                                           \
        int64_t i = 0, whole = columns / side * side;                                                             \
        for (; i + side <= rows; i += side) {                                                                     \
            for (int64_t j = 0; j < whole; j += side)                                                             \
                square_##bits(t + i * to_stride + j, to_stride, f + j * from_stride + i, from_stride);            \
            if (whole < columns)                                                                                  \
                transpose_uint##bits##_t(t + i * to_stride + whole, to_stride, f + whole * from_stride + i,       \
                                         from_stride, side, columns - whole);                                     \
        }                                                                                                         \
        transpose_uint##bits##_t(t + i * to_stride, to_stride, f + i, from_stride, rows - i, columns);            \
    }
TRANSPOSE_SQUARES(32, 4)
TRANSPOSE_SQUARES(64, 2)

void gt__transpose(int64_t size, void *to, int64_t to_stride, const void *from, int64_t from_stride, int64_t rows,
                   int64_t columns)
{
    (size == 1   ? transpose_uint8_t
     : size == 2 ? transpose_uint16_t
     : size == 4 ? transpose_32
     : size == 8 ? transpose_64
                 : transpose_gt_sixteen_bytes)(to, to_stride, from, from_stride, rows, columns);
}

/* ---- boxes -------------------------------------------------------------------------------------------------- */

void gt__box_set(gt_box *box, int rank, const int64_t *shape, const int64_t *stride)
{
    int last = -1;
    for (int axis = 0; axis < rank; axis++) {
        if (shape[axis] == 1)
            continue;
        if (last >= 0 && box->stride[last] == stride[axis] * shape[axis]) {
            box->shape[last] *= shape[axis];
            box->stride[last] = stride[axis];
        } else {
            last++;
            box->shape[last] = shape[axis];
            box->stride[last] = stride[axis];
        }
    }
    if (last < 0) {
        last = 0;
        box->shape[0] = 1;
        box->stride[0] = 0;
    }
    box->rank = last + 1;
}

typedef struct walk {
    const gt_box *box;
    gt_compute compute;
    bool native; /* the view has the compute type */
    gt_load_kernel load;
    gt_store_kernel store;
    int64_t size;      /* of the view's elements, in bytes */
    int64_t tile_size; /* of the tile's */
} walk;

static walk walk_new(const gt_cpu *cpu, gt_compute compute, gt_dtype dtype, const gt_box *box)
{
    return (walk){.box = box,
                  .compute = compute,
                  .native = gt__native_dtype(compute) == dtype,
                  .load = cpu->kernels->load[dtype][compute],
                  .store = cpu->kernels->store[dtype][compute],
                  .size = (int64_t)gt__dtype_size(dtype),
                  .tile_size = (int64_t)gt__compute_size(compute)};
}

/* Whether the last two axes are to be transposed. */
static bool crosses(const gt_box *box)
{
    int last = box->rank - 1;
    return last > 0 && box->stride[last] != 1 && box->stride[last] != 0 && box->stride[last - 1] == 1;
}

void gt__repeat(char *tile, int64_t bytes, int64_t count)
{
    int64_t done = bytes, all = bytes * count;
    for (; done < all; done *= 2)
        memcpy(tile + done, tile, (size_t)(all - done < done ? all - done : done));
}

#define SPREAD(type)                                                                                              \
    static void spread_##type(type *restrict tile, const type *restrict numbers, int64_t rows, int64_t columns)   \
    {                                                                                                             \
        for (int64_t i = 0; i < rows; i++)                                                                        \
            for (int64_t j = 0; j < columns; j++)                                                                 \
                *tile++ = numbers[i];                                                                             \
    }
SPREAD(uint8_t)
SPREAD(uint16_t)
SPREAD(uint32_t)
SPREAD(uint64_t)

void gt__spread(int64_t size, void *to, const void *numbers, int64_t rows, int64_t columns)
{
    if (size == 1)
        spread_uint8_t(to, numbers, rows, columns);
    else if (size == 2)
        spread_uint16_t(to, numbers, rows, columns);
    else if (size == 4)
        spread_uint32_t(to, numbers, rows, columns);
    else
        spread_uint64_t(to, numbers, rows, columns);
}

/* The last two axes, (rows, columns). */
static void load_plane(const walk *w, const char *from, char *tile)
{
    _Alignas(64) char numbers[GT_TILE * sizeof(double)];
    const gt_box *box = w->box;
    int last = box->rank - 1;
    int64_t rows = box->shape[last - 1], columns = box->shape[last];
    int64_t down = box->stride[last - 1], across = box->stride[last];
    if (down == 0) {
        w->load(tile, from, across, columns);
        gt__repeat(tile, columns * w->tile_size, rows);
    } else if (across == 0) {
        w->load(numbers, from, down, rows);
        gt__spread(w->tile_size, tile, numbers, rows, columns);
    } else if (crosses(box) && w->native) {
        gt__transpose(w->size, tile, columns, from, across, rows, columns);
    } else if (crosses(box)) {
        if (across == rows)
            w->load(numbers, from, 1, rows * columns);
        for (int64_t j = 0; across != rows && j < columns; j++)
            w->load(numbers + j * rows * w->tile_size, from + j * across * w->size, 1, rows);
        gt__transpose(w->tile_size, tile, columns, numbers, rows, rows, columns);
    } else {
        for (int64_t i = 0; i < rows; i++)
            w->load(tile + i * columns * w->tile_size, from + i * down * w->size, across, columns);
    }
}

static void load_axis(const walk *w, int axis, const char *from, char *tile)
{
    const gt_box *box = w->box;
    if (axis == box->rank - 2) {
        load_plane(w, from, tile);
        return;
    }
    if (axis == box->rank - 1) {
        w->load(tile, from, box->stride[axis], box->shape[axis]);
        return;
    }
    int64_t bytes = w->tile_size, count = box->stride[axis] == 0 ? 1 : box->shape[axis];
    for (int inner = axis + 1; inner < box->rank; inner++)
        bytes *= box->shape[inner];
    for (int64_t i = 0; i < count; i++)
        load_axis(w, axis + 1, from + i * box->stride[axis] * w->size, tile + i * bytes);
    gt__repeat(tile, bytes * count, box->shape[axis] / count);
}

void gt__box_load(const gt_cpu *cpu, gt_compute compute, gt_dtype dtype, const gt_box *box, const void *from,
                  void *tile)
{
    walk w = walk_new(cpu, compute, dtype, box);
    load_axis(&w, 0, from, tile);
}

static void store_plane(const walk *w, const char *tile, char *to)
{
    _Alignas(64) char numbers[GT_TILE * sizeof(double)];
    const gt_box *box = w->box;
    int last = box->rank - 1;
    int64_t rows = box->shape[last - 1], columns = box->shape[last];
    int64_t down = box->stride[last - 1], across = box->stride[last];
    if (crosses(box) && w->native) {
        gt__transpose(w->size, to, across, tile, columns, columns, rows);
    } else if (crosses(box)) {
        gt__transpose(w->tile_size, numbers, rows, tile, columns, columns, rows);
        for (int64_t j = 0; j < columns; j++)
            w->store(to + j * across * w->size, 1, numbers + j * rows * w->tile_size, rows);
    } else {
        for (int64_t i = 0; i < rows; i++)
            w->store(to + i * down * w->size, across, tile + i * columns * w->tile_size, columns);
    }
}

static void store_axis(const walk *w, int axis, const char *tile, char *to)
{
    const gt_box *box = w->box;
    if (axis == box->rank - 2) {
        store_plane(w, tile, to);
        return;
    }
    if (axis == box->rank - 1) {
        w->store(to, box->stride[axis], tile, box->shape[axis]);
        return;
    }
    int64_t bytes = w->tile_size;
    for (int inner = axis + 1; inner < box->rank; inner++)
        bytes *= box->shape[inner];
    for (int64_t i = 0; i < box->shape[axis]; i++)
        store_axis(w, axis + 1, tile + i * bytes, to + i * box->stride[axis] * w->size);
}

void gt__box_store(const gt_cpu *cpu, gt_compute compute, gt_dtype dtype, const gt_box *box, const void *tile,
                   void *to)
{
    walk w = walk_new(cpu, compute, dtype, box);
    store_axis(&w, 0, tile, to);
}

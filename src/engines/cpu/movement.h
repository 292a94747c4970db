/*
 * movement.h: moving elements between strided views of any dtypes; shared by movement, index, sort, create and
 * scan.
 *
 * A row mover (convert.c) handles one run of elements; gt__cpu_move (movement.c) walks whole views with it.
 */
#ifndef GT_ENGINES_CPU_MOVEMENT_H
#define GT_ENGINES_CPU_MOVEMENT_H

#include <string.h>

#include "engines/cpu/cpu.h"

/* An element of complex128, to be moved. */
typedef struct gt_sixteen_bytes {
    uint64_t half[2];
} gt_sixteen_bytes;

/* to[k * to_stride] = from[k * from_stride] for k < count, converted as core/convert.h says; the two do not overlap. */
typedef void (*gt_row_mover)(void *to, int64_t to_stride, const void *from, int64_t from_stride, int64_t count);

gt_row_mover gt__cpu_row_mover(gt_dtype to, gt_dtype from);

/* Write `from`, broadcast to the shape of `to`, into `to`, which may be strided itself, as an assigned slice is. */
void gt__cpu_move(gt_cpu *cpu, const gt_view *to, const gt_view *from);

/* A contiguous copy of `view` as `dtype` at `to`. */
void gt__cpu_copy_view(gt_cpu *cpu, const gt_view *view, gt_dtype dtype, void *to);

/*
 * For ops that work on contiguous memory of their compute type: operands in that form (their own memory, or a copy in
 * scratch), and a result in that form, which gt__dense_finish converts if it is not in place. The caller frees scratch,
 * which may be NULL.
 */
typedef struct gt_dense {
    void *data;
    void *scratch;
} gt_dense;

gt_err gt__dense_read(gt_cpu *cpu, const gt_view *view, gt_compute compute, gt_dense *dense);
gt_err gt__dense_result(gt_cpu *cpu, const gt_view *out, gt_compute compute, gt_dense *dense);
void gt__dense_finish(gt_cpu *cpu, const gt_view *out, gt_compute compute, const gt_dense *dense);

/*
 * The numbers of an index tensor, row-major, as an int64_t array: its own memory if possible, or a copy in
 * *scratch, which the caller frees (NULL otherwise). Fails if one lies outside [low, size); negative ones stay.
 * `axis` is for the message.
 */
gt_err gt__cpu_read_index(gt_cpu *cpu, const gt_view *index, int64_t low, int64_t axis, int64_t size,
                          const int64_t **numbers, void **scratch);

/*
 * The lines of a tensor along one axis: a loop over its other axes. Every view added has the rank of `meta` (or 0:
 * one element for all lines) and at least its sizes. Collapse it before use; returns the number of lines.
 */
int64_t gt__lines_start(gt_loop *lines, const gt_meta *meta, int64_t axis);
void gt__lines_add(gt_loop *lines, const gt_view *view, int64_t axis);

/* Stride of an axis, 0 for a 0-d view. */
static inline int64_t gt__view_stride(const gt_view *view, int64_t axis)
{
    return view->meta.rank ? view->stride[axis] : 0;
}

static inline int64_t gt__view_size(const gt_view *view, int64_t axis)
{
    return view->meta.rank ? view->meta.shape[axis] : 1;
}

/* Element `offset` of memory of this dtype. */
static inline void *gt__at(void *data, gt_dtype dtype, int64_t offset)
{
    return (char *)data + offset * (int64_t)gt__dtype_size(dtype);
}

static inline int64_t gt__min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* memcpy for rows of a few elements, where a call would cost more than the copy. */
enum { GT_SHORT_COPY = 256 };
static inline void gt__copy_short(char *to, const char *from, int64_t bytes)
{
    /* Blocks of a fixed size are single instructions; the last one may overlap the one before. */
#define GT_COPY_BLOCKS(size)                                                                                      \
    if (bytes >= size) {                                                                                          \
        for (int64_t k = 0; k < bytes - size; k += size)                                                          \
            memcpy(to + k, from + k, size);                                                                       \
        memcpy(to + bytes - size, from + bytes - size, size);                                                     \
        return;                                                                                                   \
    }
    GT_COPY_BLOCKS(16)
    GT_COPY_BLOCKS(8)
    GT_COPY_BLOCKS(4)
    GT_COPY_BLOCKS(2)
    GT_COPY_BLOCKS(1)
#undef GT_COPY_BLOCKS
}

/* Lines per chunk for a thread that crosses them: fewer would make threads share cache lines. */
static inline int64_t gt__lines_across(const gt_cpu *cpu, int64_t lines, int64_t elements_per_line)
{
    enum { APART = 64 };
    int64_t threads = gt__parallel_threads(cpu->parallel), share = (lines + threads - 1) / threads;
    int64_t enough =
        lines * elements_per_line < GT_CPU_GRAIN ? lines : 1; /* too little work for several threads */
    share = (share + APART - 1) / APART * APART;
    return share > enough ? share : enough;
}

/* Positions per chunk, for about GT_CPU_GRAIN elements of work. */
static inline int64_t gt__grain(int64_t elements_per_position)
{
    int64_t grain = GT_CPU_GRAIN / (elements_per_position ? elements_per_position : 1);
    return grain ? grain : 1;
}

#endif

/*
 * window.h: where the windows of convolutions, pooling and im2col lie: the tail of their records.
 *
 * Window o along an axis reads the positions  o * stride - padding + k * dilation,  0 <= k < kernel;  those
 * outside the tensor are padding. Records say how many windows there are (or, in the other direction, how long
 * the axis is): `size`, so padding behind the end, 'same', ceil_mode and output_padding need no fields of their
 * own. client/spatial.c computes sizes from PyTorch's arguments.
 */
#ifndef GT_CORE_WINDOW_H
#define GT_CORE_WINDOW_H

#include <string.h>

#include "core/instruction.h"

enum { GT_MAX_SPATIAL = 3, GT_WINDOW_TAIL = 3 };

/* Axis 0 is the first spatial one; a record's `rank` is the number of spatial axes. Each number is at most
 * INT32_MAX. */
typedef struct gt_window {
    int64_t kernel[GT_MAX_SPATIAL]; /* pooling: 0 divides the axis evenly ("adaptive"); not used by convolutions */
    int64_t stride[GT_MAX_SPATIAL];
    int64_t padding[GT_MAX_SPATIAL];
    int64_t dilation[GT_MAX_SPATIAL];
    int64_t size[GT_MAX_SPATIAL]; /* the result's spatial axes */
    int64_t from[GT_MAX_SPATIAL]; /* col2im: windows along each axis */
    int64_t groups;               /* convolutions */
    int64_t divisor;              /* avg_pool: the divisor of sums; 0: the number of elements */
    int64_t count_padding;        /* avg_pool: padding counts as elements */
    int64_t unused[3];
} gt_window;

_Static_assert(sizeof(gt_window) == GT_WINDOW_TAIL * sizeof(gt_slot), "a window is three slots");

static inline gt_window gt__window_read(const gt_slot *tail)
{
    gt_window window;
    memcpy(&window, tail, sizeof window);
    return window;
}

static inline void gt__window_write(gt_slot *tail, const gt_window *window)
{
    memcpy(tail, window, sizeof *window);
}

#endif

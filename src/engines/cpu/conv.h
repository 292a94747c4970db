/*
 * conv.h: convolutions on the CPU engine: shared by conv.c, conv_pack.c and conv_weight.c. The inner loops are in
 * kernels_conv_template.h.
 *
 * There is no im2col. A tensor is copied once, per image and group, into planes with its padding around it, divided by
 * stride: plane f holds every stride-th element from f on. Then, for every tap of the kernel, neighbouring windows
 * read neighbouring elements, and each tap is at a constant offset: an output vector is the sum over (channel, tap) of
 * a weight times the vector at source + offset[tap]. A transposed convolution is the same, with a pass for each phase of its
 * stride; a gradient of weights is the inner product of such vectors.
 */
#ifndef GT_ENGINES_CPU_CONV_H
#define GT_ENGINES_CPU_CONV_H

#include "engines/cpu/movement.h"
#include "core/window.h"

/* ---- conv_pack.c ------------------------------------------------------------------------------------------- */

/* The sizes of a convolution along three axes; missing ones, in front, have size 1. */
typedef struct gt_conv_shape {
    struct gt_conv_sizes {
        int64_t x, kernel, y, stride, padding, dilation;
    } axis[GT_MAX_SPATIAL];
} gt_conv_shape;

/* Neighbouring axes along which nothing slides (1x1 convolutions) become one. */
void gt__conv_shape(gt_conv_shape *shape, const gt_window *w, int spatial, const int64_t *x, const int64_t *kernel,
                    const int64_t *y);

/* One axis of a pass. Plane f, index u holds source element u * stride + phases[f] - padding. */
typedef struct gt_conv_axis {
    int64_t source; /* size of the source tensor */
    int64_t stride, padding;
    int64_t planes, reach; /* the largest shift */
    int64_t taps;
    int64_t *tap, *plane, *shift; /* of each used tap: its number in the kernel, its plane, its shift there */
    int64_t *phases;              /* of each plane */
    int64_t count;                /* outputs of this pass; output t reads from index origin + t on ... */
    int64_t origin;
    int64_t out, out_start, out_step; /* ... and is at out_start + t * out_step, of `out` */
} gt_conv_axis;

typedef struct gt_conv_pass {
    gt_conv_axis axis[GT_MAX_SPATIAL];
    int64_t channels; /* of the source, in a group */
    int64_t taps;     /* of all axes together */
    void *memory;     /* of the arrays in the axes */
} gt_conv_pass;

/* conv: from x to y. */
gt_err gt__conv_plan(const gt_cpu *cpu, const gt_conv_shape *shape, int64_t channels, gt_conv_pass *pass);
/* conv_input: from y to those x that are first[axis], first[axis] + stride[axis], ... */
gt_err gt__conv_plan_transposed(const gt_cpu *cpu, const gt_conv_shape *shape, int64_t channels,
                                const int64_t *first, gt_conv_pass *pass);
void gt__conv_pass_free(gt_conv_pass *pass);

/* A box of outputs, lo <= t < hi along each axis, and the planes it reads, in elements. */
typedef struct gt_conv_box {
    int64_t lo[GT_MAX_SPATIAL], hi[GT_MAX_SPATIAL];
    int64_t length[GT_MAX_SPATIAL]; /* of a plane */
    int64_t plane, channel;         /* sizes: of one plane, of all planes of a channel */
    int64_t elements; /* of all channels of a group, and padding so that a vector may read over the end */
    int64_t touched;  /* elements that this box uses */
    int64_t vectors;
    bool overlap;  /* the last vector of a row begins earlier instead of being shorter */
    bool in_place; /* the source can be used as the planes */
} gt_conv_box;

/* Computes the other fields from lo and hi. may_overlap: an output may be computed twice. */
gt_err gt__conv_box_measure(const gt_conv_pass *pass, int lanes, bool may_overlap, gt_conv_box *box);
/* Copy channels [first, end) of a group's source to its planes. padded: another image was there in the same box, so the padding
 * around it is zero already. */
void gt__conv_pack(const gt_conv_pass *pass, const gt_conv_box *box, size_t size, const void *source,
                   int64_t first, int64_t end, bool padded, void *planes);
/* offsets[channel * taps + tap], in bytes, for elements of `size` */
void gt__conv_offsets(const gt_conv_pass *pass, const gt_conv_box *box, int64_t size, int64_t *offsets);
/* The vectors of a box; `out` counts in one channel of the output tensor. */
void gt__conv_places(const gt_conv_pass *pass, const gt_conv_box *box, int lanes, gt_conv_place *places);
/* The tap of the kernel, row-major, that is number `tap` of the pass. */
int64_t gt__conv_tap(const gt_conv_pass *pass, const gt_conv_shape *shape, int64_t tap);

/* ---- channels of the result, in tiles that an inner loop computes at once --------------------------------------- */

typedef struct gt_conv_tile {
    int64_t first;
    int channels;
    bool one; /* for the loop that takes one channel */
} gt_conv_tile;

static inline int64_t gt__conv_tiles(int64_t channels, int at_once)
{
    int64_t left = channels % at_once;
    return channels / at_once + (left > 2 ? 1 : left);
}

static inline gt_conv_tile gt__conv_tile(int64_t channels, int at_once, int64_t number)
{
    int64_t whole = channels / at_once, left = channels % at_once;
    if (number < whole)
        return (gt_conv_tile){.first = number * at_once, .channels = at_once};
    if (left > 2)
        return (gt_conv_tile){.first = whole * at_once, .channels = (int)left};
    return (gt_conv_tile){.first = whole * at_once + number - whole, .channels = 1, .one = true};
}

#endif

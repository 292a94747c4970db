/*
 * strides.h: where the elements of a view lie in its storage: arithmetic on offsets and strides, in elements. The storage is
 * dense, and usually contiguous. No tensors here, only numbers. PyTorch's rules: which reshape is a view, what is contiguous.
 */
#ifndef GT_CLIENT_STRIDES_H
#define GT_CLIENT_STRIDES_H

#include "core/op.h"

typedef struct gt_strides {
    int64_t offset;
    int64_t step[GT_MAX_RANK]; /* for each axis; unspecified past the rank */
} gt_strides;

void gt__strides_contiguous(const gt_meta *meta, gt_strides *out);
bool gt__strides_are_contiguous(const gt_meta *meta, const gt_strides *strides);
/* Whether two elements certainly share a place: an axis of more than one element that does not move. */
bool gt__strides_overlap(const gt_meta *meta, const gt_strides *strides);
/* Whether two elements perhaps share a place. */
bool gt__strides_may_overlap(const gt_meta *meta, const gt_strides *strides);
/* Whether each place between the first and the last has exactly one element. */
bool gt__strides_are_dense(const gt_meta *meta, const gt_strides *strides);
/* The strides of the same elements in the shape of `to`; false: a copy is needed. */
bool gt__strides_reshape(const gt_meta *from, const gt_strides *strides, const gt_meta *to, gt_strides *out);

/* Whether the strides are those of gt__strides_contiguous, also along axes of size 1. */
bool gt__strides_are_usual(const gt_meta *meta, const gt_strides *strides);

/* An operand of an elementwise operation. */
typedef struct gt_laid {
    const gt_meta *meta;
    const gt_strides *strides; /* NULL: contiguous */
} gt_laid;

/* Where PyTorch's elementwise operations put the result of shape `meta`: in the order of the operands' elements in memory. */
void gt__strides_of_result(const gt_meta *meta, const gt_laid *operands, unsigned count, gt_strides *out);

/*
 * A storage may be permuted: its value, of shape `root`, lies in memory as `layout` says. Convert strides in that memory to
 * strides in the value, as if it were contiguous. False: the view's elements are not regular there.
 */
bool gt__strides_to_value(const gt_meta *root, const gt_strides *layout, const gt_meta *view,
                          const gt_strides *strides, gt_strides *out);

/*
 * How elements of a contiguous tensor are assigned by one record. Of the tensor in shape `shape` they are the slice start, step,
 * count, if their source is first permuted by `order` and reshaped to `count`.
 */
typedef struct gt_placing {
    unsigned rank; /* of shape */
    int64_t shape[GT_MAX_RANK], start[GT_MAX_RANK], step[GT_MAX_RANK], count[GT_MAX_RANK];
    int order[GT_MAX_RANK]; /* axes of the source, all of them */
    bool ordered;           /* the source stays as it is */
} gt_placing;

/* Find a placing for the elements of a view in a storage of shape `root`. Axes that do not move are dropped from it: they are
 * written once. False: there is none, so the elements must be scattered. */
bool gt__strides_place(const gt_meta *root, const gt_meta *view, const gt_strides *strides, gt_placing *out);

#endif

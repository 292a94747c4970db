/*
 * loop.h: loops over several strided views at once: broadcast, collapse, and find positions. For engines that walk over elements.
 */
#ifndef GT_ENGINES_LOOP_H
#define GT_ENGINES_LOOP_H

#include "engines/engine.h"

enum { GT_LOOP_VIEWS = 4 };

typedef struct gt_loop {
    int rank;  /* at least 1 after gt__loop_collapse */
    int views; /* at most GT_LOOP_VIEWS */
    int64_t shape[GT_MAX_RANK];
    int64_t stride[GT_LOOP_VIEWS][GT_MAX_RANK]; /* in elements of that view */
} gt_loop;

/* A loop over `shape`, no views yet. */
void gt__loop_start(gt_loop *loop, const gt_meta *meta);
/* Add a view, broadcast to the loop's shape (its axes are the trailing ones); returns its number. */
int gt__loop_add(gt_loop *loop, const gt_view *view);
/* Drop axes of size 1 and merge neighbours that are one axis in every view. The order of elements is kept. */
void gt__loop_collapse(gt_loop *loop);
/* Offsets (in elements) of every view at row-major position `position` of the first `rank` axes. */
void gt__loop_offsets(const gt_loop *loop, int rank, int64_t position, int64_t *offset);

/* How one view is walked in the order of positions: collapsed axes. */
typedef struct gt_access {
    int rank;
    int64_t shape[GT_MAX_RANK], stride[GT_MAX_RANK];
} gt_access;

/* How `view` is walked if its positions are the elements of `over`, to which it is broadcast. */
void gt__access_find(const gt_view *view, const gt_meta *over, gt_access *access);
/* Position k is element k. */
bool gt__access_flat(const gt_access *access);
bool gt__access_same(const gt_access *a, const gt_access *b);

#endif

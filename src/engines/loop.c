/*
 * loop.c: iterates over several strided views at once. See loop.h.
 *
 * Collapsing makes the common cases fast: a contiguous operand becomes one axis, a row bias or a column two, whatever
 * their rank.
 */
#include "engines/loop.h"

void gt__loop_start(gt_loop *loop, const gt_meta *meta)
{
    loop->rank = meta->rank;
    loop->views = 0;
    for (int axis = 0; axis < meta->rank; axis++)
        loop->shape[axis] = meta->shape[axis];
}

int gt__loop_add(gt_loop *loop, const gt_view *view)
{
    int number = loop->views++;
    int missing = loop->rank - view->meta.rank;
    for (int axis = 0; axis < loop->rank; axis++) {
        int own = axis - missing;
        bool walked = own >= 0 && view->meta.shape[own] != 1;
        loop->stride[number][axis] = walked ? view->stride[own] : 0;
    }
    return number;
}

static bool walks_as_one(const gt_loop *loop, int outer, int inner)
{
    for (int view = 0; view < loop->views; view++)
        if (loop->stride[view][outer] != loop->stride[view][inner] * loop->shape[inner])
            return false;
    return true;
}

static void move_axis(gt_loop *loop, int to, int from)
{
    loop->shape[to] = loop->shape[from];
    for (int view = 0; view < loop->views; view++)
        loop->stride[view][to] = loop->stride[view][from];
}

void gt__loop_collapse(gt_loop *loop)
{
    int rank = 0;
    for (int axis = 0; axis < loop->rank; axis++) {
        if (loop->shape[axis] == 1)
            continue;
        /* Place the axis, and merge it with the one before if the two are contiguous. */
        move_axis(loop, rank, axis);
        if (rank > 0 && walks_as_one(loop, rank - 1, rank)) {
            int64_t outer = loop->shape[rank - 1];
            move_axis(loop, rank - 1, rank);
            loop->shape[rank - 1] *= outer;
        } else {
            rank++;
        }
    }
    if (rank == 0) {
        loop->shape[0] = 1;
        for (int view = 0; view < loop->views; view++)
            loop->stride[view][0] = 0;
        rank = 1;
    }
    loop->rank = rank;
}

void gt__loop_offsets(const gt_loop *loop, int rank, int64_t position, int64_t *offset)
{
    for (int view = 0; view < loop->views; view++)
        offset[view] = 0;
    for (int axis = rank - 1; axis >= 0; axis--) {
        int64_t index = position % loop->shape[axis];
        position /= loop->shape[axis];
        for (int view = 0; view < loop->views; view++)
            offset[view] += index * loop->stride[view][axis];
    }
}

void gt__access_find(const gt_view *view, const gt_meta *over, gt_access *access)
{
    gt_loop loop;
    int64_t stride = 1;
    gt__loop_start(&loop, over);
    gt__loop_add(&loop, view);
    loop.views = 2; /* the second: the positions themselves */
    for (int axis = loop.rank - 1; axis >= 0; axis--) {
        loop.stride[1][axis] = loop.shape[axis] == 1 ? 0 : stride;
        stride *= loop.shape[axis];
    }
    gt__loop_collapse(&loop);
    access->rank = loop.rank;
    for (int axis = 0; axis < loop.rank; axis++) {
        access->shape[axis] = loop.shape[axis];
        access->stride[axis] = loop.stride[0][axis];
    }
}

bool gt__access_flat(const gt_access *access)
{
    return access->rank == 1 && (access->stride[0] == 1 || access->shape[0] == 1);
}

bool gt__access_same(const gt_access *a, const gt_access *b)
{
    bool same = a->rank == b->rank;
    for (int axis = 0; same && axis < a->rank; axis++)
        same = a->shape[axis] == b->shape[axis] && a->stride[axis] == b->stride[axis];
    return same;
}

/*
 * layout.h: where a tensor lives, as an algebra.
 *
 * A layout says which workers hold a tensor, and what each of them holds:
 *
 *     replicated  every member has the whole tensor; with one member, the tensor is simply on that worker
 *     split       member k has the elements start..start+count along one axis; parts may differ in size and are
 *                 never empty
 *     partial     every member has a tensor of the whole shape, and the tensor is their sum, not added up yet
 *     meshed      the members form a grid (core/mesh.h), and along each of its axes the tensor is one of the above. Parts are
 *                 of equal size, and no dimension is split along two axes. At least one axis is not replicated
 *
 * Layouts are immutable and shared: the tensors of a stream use a handful of them, and one pointer comparison
 * tells most of them apart. See spread.h for the tensors that have one, rules.c for what each op does
 * to them, docs/sharding.md for the user's view.
 */
#ifndef GT_DISPATCHER_SPREAD_LAYOUT_H
#define GT_DISPATCHER_SPREAD_LAYOUT_H

#include "core/instruction.h"
#include "core/mesh.h"
#include "core/op.h"

typedef struct gt_member {
    int32_t worker;
    int64_t start, count; /* split: along the axis */
} gt_member;

/* What a signal asks for: shared by the layouts that were made for it. */
typedef struct gt_target {
    uint32_t references;
    uint32_t scope; /* that asks; `backward`: for gradients */
    bool backward;
    bool split;     /* along `axis`; else replicated */
    bool automatic; /* by GT_AUTO_SHARD, not by a signal: only where it pays */
    bool even;      /* new tensors must divide into equal parts: the line is the only axis of a mesh */
    int64_t axis;   /* may be negative: from the end */
    gt_mesh mesh;   /* rank 0: none; otherwise `axis` is not used. At least two axes, of two workers or more */
    unsigned count;
    int32_t worker[GT_MAX_PARTIES];
} gt_target;

typedef struct gt_layout {
    uint32_t references;
    uint8_t kind; /* gt_layout_kind */
    uint8_t axis; /* split */
    uint16_t count;
    gt_target *asked;   /* the signal that wanted it, or the layout that it was made like; NULL: none did */
    gt_mesh mesh;       /* meshed */
    gt_member member[]; /* meshed: the last axis varies fastest */
} gt_layout;

gt_target *gt__target_retain(gt_target *target);
void gt__target_release(gt_target *target); /* NULL is fine */
/* The same workers, in the same order, in the same way. */
bool gt__target_equal(const gt_target *a, const gt_target *b);
/* The layout is what this target wants, unless that has no references: a rule's own. NULL stays NULL. */
gt_layout *gt__layout_asked(gt_layout *layout, gt_target *target);
/* The same layout with the worker `to` in the place of `from`, which is a member, or asked for. NULL: out of memory. */
gt_layout *gt__layout_moved(const gt_layout *layout, int32_t from, int32_t to);

/* Members with worker -1 and nothing set; one reference, the caller's. NULL: out of memory. */
gt_layout *gt__layout_new(gt_layout_kind kind, unsigned axis, unsigned count);
gt_layout *gt__layout_retain(gt_layout *layout);
void gt__layout_release(gt_layout *layout); /* NULL is fine */

/* Replicated over these workers. */
gt_layout *gt__layout_replicated(const int32_t *workers, unsigned count);
/* An axis of `extent` in parts as equal as possible, the larger ones first; over fewer workers where there are fewer
 * elements. A tensor too small to be split is on the first worker. */
gt_layout *gt__layout_even(unsigned axis, int64_t extent, const int32_t *workers, unsigned count);
/* The same over the workers of another layout. */
gt_layout *gt__layout_even_like(const gt_layout *like, unsigned axis, int64_t extent);
/* On the mesh of these workers as the mesh says; replicated, if it is along all axes. */
gt_layout *gt__layout_meshed(const gt_mesh *mesh, const int32_t *workers);
/* The same workers in the same order, of another kind; split: with the parts of `like`, which is split too. */
gt_layout *gt__layout_like(const gt_layout *like, gt_layout_kind kind, unsigned axis);

bool gt__layout_equal(const gt_layout *a, const gt_layout *b);
/* The same workers in the same order. */
bool gt__layout_same_workers(const gt_layout *a, const gt_layout *b);
/* The same workers in any order. */
bool gt__layout_same_set(const gt_layout *a, const gt_layout *b);
/* The member on a worker; -1: none. */
int gt__layout_find(const gt_layout *layout, int32_t worker);
/* Both are meshed, over meshes of the same sizes; and of the same workers. */
bool gt__layout_same_grid(const gt_layout *a, const gt_layout *b);
bool gt__layout_same_mesh(const gt_layout *a, const gt_layout *b);
/* How many members have something of their own: parts or summands. Of copies, one. */
unsigned gt__layout_parts(const gt_layout *layout);
/* Some summands are not added up. */
bool gt__layout_is_partial(const gt_layout *layout);
/* The part of a tensor like `whole` that a member holds, and where it starts along each dimension. */
void gt__layout_starts(const gt_layout *layout, unsigned member, const gt_meta *whole, int64_t *starts);

void gt__layout_part(const gt_layout *layout, unsigned member, const gt_meta *whole, gt_meta *part);

/* "split(axis=0, workers=[0,1])", "mesh(data=2 split(axis=0), model=2 replicated, workers=[0,1,2,3])": writes at most `size` bytes and returns `text`. */
char *gt__layout_text(const gt_layout *layout, char *text, size_t size);

#endif

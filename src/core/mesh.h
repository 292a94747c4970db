/*
 * mesh.h: a grid of workers with named axes, and how a tensor lies on it.
 *
 *     mesh: {data: 4, model: 2}      # workers 0..7: 4 lines of 2, the last axis varies fastest
 *     shard: {0: data, 1: model}     # dimension 0 split along `data`, dimension 1 along `model`
 *
 * Along each axis of the mesh a tensor is replicated, split or partial, independently of the other axes. A config has
 * one for each signal that names mesh axes (config.h); the dispatcher has one in each layout (spread/layout.h).
 */
#ifndef GT_CORE_MESH_H
#define GT_CORE_MESH_H

#include <stdbool.h>
#include <stdint.h>

enum { GT_MESH_AXES = 4, GT_MESH_NAME = 23 };

/* What the workers of a list have of a tensor; GT_MESHED: see the axes of the mesh. */
typedef enum gt_layout_kind { GT_REPLICATED, GT_SPLIT, GT_PARTIAL, GT_MESHED } gt_layout_kind;

typedef struct gt_mesh_axis {
    char name[GT_MESH_NAME + 1];
    int32_t size;
    uint8_t kind; /* gt_layout_kind, but GT_MESHED */
    int8_t axis;  /* split: the dimension of the tensor; in a config it may be negative: from the end */
    uint16_t unused;
} gt_mesh_axis;

_Static_assert(sizeof(gt_mesh_axis) == 32, "two axes to a slot of a config record");

typedef struct gt_mesh {
    uint32_t rank; /* 0: no mesh */
    gt_mesh_axis axis[GT_MESH_AXES];
} gt_mesh;

/* How many workers it has. */
static inline unsigned gt__mesh_count(const gt_mesh *mesh)
{
    unsigned count = 1;
    for (unsigned d = 0; d < mesh->rank; d++)
        count *= (unsigned)mesh->axis[d].size;
    return count;
}

/* How far apart the members are that follow each other along an axis. */
static inline unsigned gt__mesh_stride(const gt_mesh *mesh, unsigned axis)
{
    unsigned stride = 1;
    for (unsigned d = axis + 1; d < mesh->rank; d++)
        stride *= (unsigned)mesh->axis[d].size;
    return stride;
}

/* The position of a member along an axis. */
static inline unsigned gt__mesh_at(const gt_mesh *mesh, unsigned axis, unsigned member)
{
    return member / gt__mesh_stride(mesh, axis) % (unsigned)mesh->axis[axis].size;
}

#endif

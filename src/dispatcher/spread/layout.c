/* layout.c: layouts: making, comparing and printing them. See layout.h. */
#include "dispatcher/spread/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/instruction.h"

gt_layout *gt__layout_new(gt_layout_kind kind, unsigned axis, unsigned count)
{
    gt_layout *layout = malloc(sizeof *layout + count * sizeof layout->member[0]);
    if (!layout)
        return NULL;
    *layout = (gt_layout){.references = 1, .kind = (uint8_t)kind, .axis = (uint8_t)axis, .count = (uint16_t)count};
    for (unsigned k = 0; k < count; k++)
        layout->member[k] = (gt_member){.worker = -1};
    return layout;
}

gt_layout *gt__layout_retain(gt_layout *layout)
{
    layout->references++;
    return layout;
}

void gt__layout_release(gt_layout *layout)
{
    if (!layout || --layout->references)
        return;
    gt__target_release(layout->asked);
    free(layout);
}

gt_target *gt__target_retain(gt_target *target)
{
    if (target)
        target->references++;
    return target;
}

void gt__target_release(gt_target *target)
{
    if (target && --target->references == 0)
        free(target);
}

gt_layout *gt__layout_asked(gt_layout *layout, gt_target *target)
{
    if (!layout || !target || target->automatic || !target->references)
        return layout;
    gt__target_release(layout->asked);
    layout->asked = gt__target_retain(target);
    return layout;
}

gt_layout *gt__layout_moved(const gt_layout *layout, int32_t from, int32_t to)
{
    gt_layout *moved = gt__layout_like(layout, (gt_layout_kind)layout->kind, layout->axis);
    gt_target *asked = moved && layout->asked ? malloc(sizeof *asked) : NULL;
    if (!moved || (layout->asked && !asked)) {
        gt__layout_release(moved);
        return NULL;
    }
    moved->mesh = layout->mesh;
    for (unsigned k = 0; k < moved->count; k++)
        if (moved->member[k].worker == from)
            moved->member[k].worker = to;
    if (!asked)
        return moved;
    *asked = *layout->asked;
    asked->references = 1;
    for (unsigned k = 0; k < asked->count; k++)
        if (asked->worker[k] == from)
            asked->worker[k] = to;
    gt__target_release(moved->asked);
    moved->asked = asked;
    return moved;
}

gt_layout *gt__layout_replicated(const int32_t *workers, unsigned count)
{
    gt_layout *layout = gt__layout_new(GT_REPLICATED, 0, count);
    for (unsigned k = 0; layout && k < count; k++)
        layout->member[k].worker = workers[k];
    return layout;
}

gt_layout *gt__layout_even(unsigned axis, int64_t extent, const int32_t *workers, unsigned count)
{
    if (extent < (int64_t)count)
        count = extent > 0 ? (unsigned)extent : 1;
    if (count == 1)
        return gt__layout_replicated(workers, 1);
    gt_layout *layout = gt__layout_new(GT_SPLIT, axis, count);
    int64_t start = 0;
    for (unsigned k = 0; layout && k < count; k++) {
        int64_t part = extent / count + (k < extent % count);
        layout->member[k] = (gt_member){.worker = workers[k], .start = start, .count = part};
        start += part;
    }
    return layout;
}

gt_layout *gt__layout_even_like(const gt_layout *like, unsigned axis, int64_t extent)
{
    int32_t workers[GT_MAX_PARTIES];
    for (unsigned k = 0; k < like->count; k++)
        workers[k] = like->member[k].worker;
    return gt__layout_asked(gt__layout_even(axis, extent, workers, like->count), like->asked);
}

gt_layout *gt__layout_meshed(const gt_mesh *mesh, const int32_t *workers)
{
    bool whole = true;
    for (unsigned d = 0; d < mesh->rank; d++)
        whole &= mesh->axis[d].kind == GT_REPLICATED;
    gt_layout *layout = gt__layout_replicated(workers, gt__mesh_count(mesh));
    if (layout && !whole) {
        layout->kind = GT_MESHED;
        layout->mesh = *mesh;
    }
    return layout;
}

gt_layout *gt__layout_like(const gt_layout *like, gt_layout_kind kind, unsigned axis)
{
    gt_layout *layout = gt__layout_new(kind, kind == GT_SPLIT ? axis : 0, like->count);
    for (unsigned k = 0; layout && k < like->count; k++) {
        layout->member[k].worker = like->member[k].worker;
        if (kind == GT_SPLIT)
            layout->member[k] = like->member[k];
    }
    return gt__layout_asked(layout, like->asked);
}

bool gt__layout_same_workers(const gt_layout *a, const gt_layout *b)
{
    if (a == b)
        return true;
    if (a->count != b->count)
        return false;
    for (unsigned k = 0; k < a->count; k++)
        if (a->member[k].worker != b->member[k].worker)
            return false;
    return true;
}

bool gt__layout_same_grid(const gt_layout *a, const gt_layout *b)
{
    bool same = a->kind == GT_MESHED && b->kind == GT_MESHED && a->mesh.rank == b->mesh.rank;
    for (unsigned d = 0; same && d < a->mesh.rank; d++)
        same = a->mesh.axis[d].size == b->mesh.axis[d].size;
    return same;
}

bool gt__layout_same_mesh(const gt_layout *a, const gt_layout *b)
{
    return gt__layout_same_grid(a, b) && gt__layout_same_workers(a, b);
}

unsigned gt__layout_parts(const gt_layout *layout)
{
    unsigned parts = layout->kind == GT_REPLICATED || layout->kind == GT_MESHED ? 1 : layout->count;
    for (unsigned d = 0; layout->kind == GT_MESHED && d < layout->mesh.rank; d++)
        parts *= layout->mesh.axis[d].kind == GT_REPLICATED ? 1 : (unsigned)layout->mesh.axis[d].size;
    return parts;
}

bool gt__layout_is_partial(const gt_layout *layout)
{
    bool partial = layout->kind == GT_PARTIAL;
    for (unsigned d = 0; layout->kind == GT_MESHED && d < layout->mesh.rank; d++)
        partial |= layout->mesh.axis[d].kind == GT_PARTIAL;
    return partial;
}

/* Names do not matter. */
static bool same_placement(const gt_mesh *a, const gt_mesh *b)
{
    bool same = a->rank == b->rank;
    for (unsigned d = 0; same && d < a->rank; d++)
        same = a->axis[d].size == b->axis[d].size && a->axis[d].kind == b->axis[d].kind &&
               (a->axis[d].kind != GT_SPLIT || a->axis[d].axis == b->axis[d].axis);
    return same;
}

bool gt__target_equal(const gt_target *a, const gt_target *b)
{
    return a->split == b->split && a->automatic == b->automatic && a->axis == b->axis && a->count == b->count &&
           same_placement(&a->mesh, &b->mesh) && !memcmp(a->worker, b->worker, a->count * sizeof a->worker[0]);
}

bool gt__layout_equal(const gt_layout *a, const gt_layout *b)
{
    if (a == b)
        return true;
    if (a->kind != b->kind || !gt__layout_same_workers(a, b))
        return false;
    if (a->kind == GT_MESHED)
        return same_placement(&a->mesh, &b->mesh);
    if (a->kind != GT_SPLIT)
        return true;
    if (a->axis != b->axis)
        return false;
    for (unsigned k = 0; k < a->count; k++)
        if (a->member[k].start != b->member[k].start || a->member[k].count != b->member[k].count)
            return false;
    return true;
}

int gt__layout_find(const gt_layout *layout, int32_t worker)
{
    for (unsigned k = 0; k < layout->count; k++)
        if (layout->member[k].worker == worker)
            return (int)k;
    return -1;
}

bool gt__layout_same_set(const gt_layout *a, const gt_layout *b)
{
    if (a->count != b->count)
        return false;
    for (unsigned k = 0; k < a->count; k++)
        if (gt__layout_find(b, a->member[k].worker) < 0)
            return false;
    return true;
}

void gt__layout_part(const gt_layout *layout, unsigned member, const gt_meta *whole, gt_meta *part)
{
    *part = *whole;
    for (unsigned d = 0; layout->kind == GT_MESHED && d < layout->mesh.rank; d++) {
        const gt_mesh_axis *axis = &layout->mesh.axis[d];
        if (axis->kind == GT_SPLIT) {
            part->shape[axis->axis] /= axis->size;
            part->numel /= axis->size;
        }
    }
    if (layout->kind != GT_SPLIT)
        return;
    int64_t extent = whole->shape[layout->axis], count = layout->member[member].count;
    part->shape[layout->axis] = count;
    part->numel = extent ? whole->numel / extent * count : 0;
}

void gt__layout_starts(const gt_layout *layout, unsigned member, const gt_meta *whole, int64_t *starts)
{
    memset(starts, 0, whole->rank * sizeof *starts);
    if (layout->kind == GT_SPLIT)
        starts[layout->axis] = layout->member[member].start;
    for (unsigned d = 0; layout->kind == GT_MESHED && d < layout->mesh.rank; d++) {
        const gt_mesh_axis *axis = &layout->mesh.axis[d];
        if (axis->kind == GT_SPLIT)
            starts[axis->axis] = whole->shape[axis->axis] / axis->size * gt__mesh_at(&layout->mesh, d, member);
    }
}

char *gt__layout_text(const gt_layout *layout, char *text, size_t size)
{
    static const char *const kinds[] = {
        [GT_REPLICATED] = "replicated", [GT_SPLIT] = "split", [GT_PARTIAL] = "partial", [GT_MESHED] = "mesh"};
    if (layout->kind == GT_REPLICATED && layout->count == 1) {
        snprintf(text, size, "single(worker=%d)", layout->member[0].worker);
        return text;
    }
    size_t length = (size_t)snprintf(text, size, "%s(", kinds[layout->kind]);
    if (layout->kind == GT_SPLIT && length < size)
        length += (size_t)snprintf(text + length, size - length, "axis=%u, ", layout->axis);
    for (unsigned d = 0; layout->kind == GT_MESHED && d < layout->mesh.rank && length < size; d++) {
        const gt_mesh_axis *axis = &layout->mesh.axis[d];
        length +=
            (size_t)snprintf(text + length, size - length, "%s=%d %s", axis->name, axis->size, kinds[axis->kind]);
        if (axis->kind == GT_SPLIT && length < size)
            length += (size_t)snprintf(text + length, size - length, "(axis=%d)", axis->axis);
        if (length < size)
            length += (size_t)snprintf(text + length, size - length, ", ");
    }
    if (length < size)
        length += (size_t)snprintf(text + length, size - length, "workers=[");
    for (unsigned k = 0; k < layout->count && length < size; k++)
        length += (size_t)snprintf(text + length, size - length, k ? ",%d" : "%d", layout->member[k].worker);
    if (length < size)
        snprintf(text + length, size - length, "])");
    return text;
}

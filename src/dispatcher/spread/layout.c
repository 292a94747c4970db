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

bool gt__target_equal(const gt_target *a, const gt_target *b)
{
    return a->split == b->split && a->automatic == b->automatic && a->axis == b->axis && a->count == b->count &&
           !memcmp(a->worker, b->worker, a->count * sizeof a->worker[0]);
}

gt_layout *gt__layout_asked(gt_layout *layout, gt_target *target)
{
    if (!layout || !target || target->automatic)
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
    for (unsigned k = 0; k < moved->count; k++)
        if (moved->member[k].worker == from)
            moved->member[k].worker = to;
    if (!asked)
        return moved;
    *asked = *layout->asked;
    asked->references = 0;
    for (unsigned k = 0; k < asked->count; k++)
        if (asked->worker[k] == from)
            asked->worker[k] = to;
    return gt__layout_asked(moved, asked);
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

bool gt__layout_equal(const gt_layout *a, const gt_layout *b)
{
    if (a == b)
        return true;
    if (a->kind != b->kind || !gt__layout_same_workers(a, b))
        return false;
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
    if (layout->kind != GT_SPLIT)
        return;
    int64_t extent = whole->shape[layout->axis], count = layout->member[member].count;
    part->shape[layout->axis] = count;
    part->numel = extent ? whole->numel / extent * count : 0;
}

char *gt__layout_text(const gt_layout *layout, char *text, size_t size)
{
    static const char *const kinds[] = {
        [GT_REPLICATED] = "replicated", [GT_SPLIT] = "split", [GT_PARTIAL] = "partial"};
    if (layout->kind == GT_REPLICATED && layout->count == 1) {
        snprintf(text, size, "single(worker=%d)", layout->member[0].worker);
        return text;
    }
    size_t length = (size_t)snprintf(text, size, "%s(", kinds[layout->kind]);
    if (layout->kind == GT_SPLIT && length < size)
        length += (size_t)snprintf(text + length, size - length, "axis=%u, ", layout->axis);
    if (length < size)
        length += (size_t)snprintf(text + length, size - length, "workers=[");
    for (unsigned k = 0; k < layout->count && length < size; k++)
        length += (size_t)snprintf(text + length, size - length, k ? ",%d" : "%d", layout->member[k].worker);
    if (length < size)
        snprintf(text + length, size - length, "])");
    return text;
}

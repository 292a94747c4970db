/* codec.c: see codec.h. */
#include "dispatcher/journal/codec.h"

#include <stdlib.h>

static size_t padded(size_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

const void *gt__frame_take(gt_frame_cursor *cursor, uint64_t count, size_t size)
{
    const uint8_t *at = cursor->at;
    if (count > cursor->left / size || padded((size_t)count * size) > cursor->left)
        return NULL;
    cursor->at += padded((size_t)count * size);
    cursor->left -= padded((size_t)count * size);
    return at;
}

/* ---- writing ------------------------------------------------------------------------------------------------ */

static size_t layout_bytes(const gt_layout *layout)
{
    if (!layout)
        return 0;
    size_t bytes = sizeof(gt_frame_layout) + layout->count * sizeof(gt_frame_member);
    return bytes + (layout->asked ? sizeof(gt_frame_target) + padded(layout->asked->count * sizeof(int32_t)) : 0);
}

size_t gt__saved_frame_bytes(const gt_saved *saved)
{
    return sizeof(gt_frame_tensor) + padded(saved->copy_count * sizeof(int32_t)) +
           padded(saved->part_count * sizeof(int32_t)) + layout_bytes(saved->layout);
}

static void encode_target(const gt_target *target, uint8_t *to)
{
    gt_frame_target *frame = (gt_frame_target *)to;
    *frame = (gt_frame_target){.scope = target->scope,
                               .backward = target->backward,
                               .split = target->split,
                               .automatic = target->automatic,
                               .axis = target->axis,
                               .mesh = target->mesh,
                               .workers = target->count};
    memcpy(frame + 1, target->worker, target->count * sizeof *target->worker);
}

static void encode_layout(const gt_layout *layout, uint8_t *to)
{
    gt_frame_layout *frame = (gt_frame_layout *)to;
    gt_frame_member *member = (gt_frame_member *)(frame + 1);
    *frame = (gt_frame_layout){.kind = layout->kind,
                               .axis = layout->axis,
                               .members = layout->count,
                               .has_target = layout->asked != NULL,
                               .mesh = layout->mesh};
    for (unsigned k = 0; k < layout->count; k++)
        member[k] = (gt_frame_member){.worker = layout->member[k].worker,
                                      .start = layout->member[k].start,
                                      .count = layout->member[k].count};
    if (layout->asked)
        encode_target(layout->asked, (uint8_t *)(member + layout->count));
}

void gt__saved_encode(const gt_saved *saved, uint64_t number, void *to)
{
    gt_frame_tensor *frame = to;
    *frame = (gt_frame_tensor){.number = number,
                               .id = saved->id,
                               .scope = saved->scope,
                               .site = saved->site,
                               .reason = saved->reason,
                               .dtype = saved->meta.dtype,
                               .rank = saved->meta.rank,
                               .ahead = saved->ahead,
                               .has_layout = saved->layout != NULL,
                               .copies = saved->copy_count,
                               .parts = saved->part_count};
    memcpy(frame->shape, saved->meta.shape, saved->meta.rank * sizeof frame->shape[0]);
    int32_t *copies = (int32_t *)(frame + 1);
    if (saved->copy_count)
        memcpy(copies, saved->copies, saved->copy_count * sizeof *copies);
    int32_t *workers = copies + padded(saved->copy_count * sizeof *copies) / sizeof *copies;
    for (unsigned k = 0; k < saved->part_count; k++)
        workers[k] = saved->part[k].worker;
    if (saved->layout)
        encode_layout(saved->layout,
                      (uint8_t *)(workers + padded(saved->part_count * sizeof *workers) / sizeof *workers));
}

/* ---- reading ------------------------------------------------------------------------------------------------ */

static bool are_workers(const int32_t *workers, unsigned count)
{
    for (unsigned k = 0; k < count; k++)
        if (workers[k] < 0 || workers[k] >= GT_MAX_PARTIES)
            return false;
    return true;
}

/* A target's axes may be negative; `meta` is NULL then. */
static bool is_mesh(const gt_mesh *mesh, unsigned workers, const gt_meta *meta)
{
    uint64_t count = 1;
    if (mesh->rank > GT_MESH_AXES)
        return false;
    for (unsigned d = 0; d < mesh->rank; d++) {
        const gt_mesh_axis *axis = &mesh->axis[d];
        if (axis->size < 1 || axis->size > GT_MAX_PARTIES || axis->kind > GT_PARTIAL ||
            !memchr(axis->name, 0, sizeof axis->name))
            return false;
        if (axis->kind == GT_SPLIT && meta &&
            (axis->axis < 0 || axis->axis >= meta->rank || meta->shape[axis->axis] % axis->size))
            return false;
        count *= (uint64_t)axis->size;
    }
    return count == workers;
}

static gt_target *decode_target(gt_frame_cursor *cursor)
{
    const gt_frame_target *frame = gt__frame_take(cursor, 1, sizeof *frame);
    const int32_t *workers = frame ? gt__frame_take(cursor, frame->workers, sizeof *workers) : NULL;
    if (!workers || frame->workers > GT_MAX_PARTIES || !are_workers(workers, frame->workers) ||
        (frame->mesh.rank && !is_mesh(&frame->mesh, frame->workers, NULL)))
        return NULL;
    gt_target *target = calloc(1, sizeof *target);
    if (!target)
        return NULL;
    *target = (gt_target){.references = 1,
                          .scope = frame->scope,
                          .backward = frame->backward,
                          .split = frame->split,
                          .automatic = frame->automatic,
                          .axis = frame->axis,
                          .mesh = frame->mesh,
                          .count = frame->workers};
    memcpy(target->worker, workers, frame->workers * sizeof *workers);
    return target;
}

static bool is_member(const gt_frame_layout *frame, const gt_frame_member *member, const gt_meta *meta)
{
    if (member->worker < 0 || member->worker >= GT_MAX_PARTIES)
        return false;
    return frame->kind != GT_SPLIT || (member->start >= 0 && member->count >= 0 && frame->axis < meta->rank &&
                                       member->start <= meta->shape[frame->axis] &&
                                       member->count <= meta->shape[frame->axis] - member->start);
}

static gt_layout *decode_layout(gt_frame_cursor *cursor, const gt_meta *meta)
{
    const gt_frame_layout *frame = gt__frame_take(cursor, 1, sizeof *frame);
    const gt_frame_member *member = frame ? gt__frame_take(cursor, frame->members, sizeof *member) : NULL;
    if (!member || !frame->members || frame->members > GT_MAX_PARTIES || frame->kind > GT_MESHED ||
        frame->axis >= GT_MAX_RANK || (frame->kind == GT_MESHED && !is_mesh(&frame->mesh, frame->members, meta)))
        return NULL;
    for (unsigned k = 0; k < frame->members; k++)
        if (!is_member(frame, &member[k], meta))
            return NULL;
    gt_target *asked = frame->has_target ? decode_target(cursor) : NULL;
    if (frame->has_target && !asked)
        return NULL;
    gt_layout *layout = gt__layout_new((gt_layout_kind)frame->kind, frame->axis, frame->members);
    if (!layout) {
        gt__target_release(asked);
        return NULL;
    }
    layout->asked = asked;
    layout->mesh = frame->mesh;
    for (unsigned k = 0; k < frame->members; k++)
        layout->member[k] =
            (gt_member){.worker = (int32_t)member[k].worker, .start = member[k].start, .count = member[k].count};
    return layout;
}

/* How many parts a tensor has that is not lost: as saved_new of snapshot.c has it. */
static unsigned parts_of(const gt_layout *layout, unsigned copies)
{
    return layout && layout->kind != GT_REPLICATED ? layout->count + (copies > 0) : 1;
}

static void make_parts(gt_saved *saved, const int32_t *workers)
{
    for (unsigned k = 0; k < saved->part_count; k++) {
        gt_saved_part *part = &saved->part[k];
        part->worker = workers[k];
        part->meta = saved->meta;
        if (saved->layout && k < saved->layout->count)
            gt__layout_part(saved->layout, k, &saved->meta, &part->meta);
    }
}

gt_saved *gt__saved_decode(gt_frame_cursor cursor, uint64_t *number)
{
    const gt_frame_tensor *frame = gt__frame_take(&cursor, 1, sizeof *frame);
    const int32_t *copies = frame ? gt__frame_take(&cursor, frame->copies, sizeof *copies) : NULL;
    const int32_t *workers = copies ? gt__frame_take(&cursor, frame->parts, sizeof *workers) : NULL;
    gt_meta meta = {0};
    if (!workers || !frame->id || frame->copies > GT_MAX_PARTIES || frame->parts > GT_MAX_PARTIES + 1 ||
        !are_workers(copies, frame->copies) || !are_workers(workers, frame->parts) ||
        gt__meta_set(&meta, (gt_dtype)frame->dtype, frame->rank, frame->shape) != GT_OK)
        return NULL;
    gt_layout *layout = frame->has_layout ? decode_layout(&cursor, &meta) : NULL;
    gt_saved *saved = (frame->has_layout && !layout) || cursor.left
                          ? NULL
                          : calloc(1, sizeof *saved + frame->parts * sizeof saved->part[0]);
    if (!saved) {
        gt__layout_release(layout);
        return NULL;
    }
    *number = frame->number;
    *saved = (gt_saved){.references = 1,
                        .reason = frame->reason,
                        .id = frame->id,
                        .scope = frame->scope,
                        .site = frame->site,
                        .meta = meta,
                        .layout = layout,
                        .ahead = frame->ahead,
                        .part_count = frame->parts};
    bool ok = !frame->parts || frame->parts == parts_of(layout, frame->copies);
    if (ok && frame->copies && (ok = (saved->copies = malloc(frame->copies * sizeof *copies)) != NULL)) {
        memcpy(saved->copies, copies, frame->copies * sizeof *copies);
        saved->copy_count = frame->copies;
    }
    if (ok) {
        make_parts(saved, workers);
        return saved;
    }
    gt__saved_release(saved);
    return NULL;
}

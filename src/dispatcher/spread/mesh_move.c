/*
 * mesh_move.c: brings tensors to layouts on a mesh of workers, and from them to others.
 *
 * Between two layouts on the same mesh the axes change one after the other: a collective on each line of workers along the
 * axis, or a slice where each of them has all. So a sum over the axis `data` is added up between the workers of each line
 * along `data`, and the others do not take part. Everything else is made of pieces: for each member, slices of the parts
 * that others have, sent to it and joined. Read move.c first.
 */
#include <string.h>

#include "dispatcher/spread/move.h"
#include "dispatcher/worker_stream.h"

/* ---- one axis ------------------------------------------------------------------------------------------------ */

/* The members of a line along axis d, from `head` on, as a layout of their own. `meta` is the tensor of the line. */
static gt_layout *line_of(const gt_layout *layout, unsigned d, unsigned head, const gt_mesh_axis *as,
                          const gt_meta *meta)
{
    unsigned stride = gt__mesh_stride(&layout->mesh, d), size = (unsigned)as->size;
    bool split = as->kind == GT_SPLIT;
    gt_layout *line = gt__layout_new((gt_layout_kind)as->kind, split ? (unsigned)as->axis : 0, size);
    int64_t count = split ? meta->shape[as->axis] / size : 0;
    for (unsigned k = 0; line && k < size; k++)
        line->member[k] =
            (gt_member){.worker = layout->member[head + k * stride].worker, .start = k * count, .count = count};
    return line;
}

static gt_opcode collective_between(const gt_mesh_axis *before, const gt_mesh_axis *after)
{
    if (before->kind == GT_SPLIT)
        return after->kind == GT_SPLIT ? GT_OP_all_to_all : GT_OP_all_gather;
    return after->kind == GT_SPLIT ? GT_OP_reduce_scatter : GT_OP_all_reduce;
}

/* A collective on one line. */
static gt_err change_line(gt_session *session, const gt_layout *from, unsigned d, unsigned head,
                          const gt_mesh_axis *after, const gt_meta *meta, const uint32_t *in, uint32_t *out)
{
    const gt_mesh_axis *before = &from->mesh.axis[d];
    unsigned stride = gt__mesh_stride(&from->mesh, d);
    uint32_t line_in[GT_MAX_PARTIES], line_out[GT_MAX_PARTIES];
    gt_layout *line = line_of(from, d, head, before, meta), *wanted = line_of(from, d, head, after, meta);
    gt_err err = line && wanted ? GT_OK : gt__spread_no_memory();
    for (int k = 0; k < before->size; k++)
        line_in[k] = in[head + (unsigned)k * stride];
    if (err == GT_OK)
        err =
            gt__move_collective(session, collective_between(before, after), line, wanted, meta, line_in, line_out);
    for (int k = 0; k < before->size && err == GT_OK; k++)
        out[head + (unsigned)k * stride] = line_out[k];
    gt__layout_release(line);
    gt__layout_release(wanted);
    return err;
}

/* The tensor of a line along axis d: split along the other axes. */
static gt_meta meta_of_lines(const gt_layout *layout, unsigned d, const gt_meta *whole)
{
    gt_meta meta = *whole;
    for (unsigned other = 0; other < layout->mesh.rank; other++) {
        const gt_mesh_axis *axis = &layout->mesh.axis[other];
        if (other != d && axis->kind == GT_SPLIT) {
            meta.shape[axis->axis] /= axis->size;
            meta.numel /= axis->size;
        }
    }
    return meta;
}

/* A collective on each line along axis d, whose tensors are like `meta`; out[] are the caller's. */
static gt_err change_lines(gt_session *session, const gt_layout *from, unsigned d, const gt_mesh_axis *after,
                           const gt_meta *meta, const uint32_t *in, uint32_t *out)
{
    gt_err err = GT_OK;
    memset(out, 0, from->count * sizeof *out);
    for (unsigned head = 0; head < from->count && err == GT_OK; head++)
        if (!gt__mesh_at(&from->mesh, d, head))
            err = change_line(session, from, d, head, after, meta, in, out);
    for (unsigned k = 0; k < from->count && err != GT_OK; k++)
        if (out[k])
            gt__worker_free_tensor(gt__spread_worker(session, from->member[k].worker), out[k]);
    return err;
}

/* Along axis d the tensor becomes what `after` says, from parts or summands; out[] are the caller's. */
static gt_err change_axis(gt_session *session, const gt_layout *from, unsigned d, const gt_mesh_axis *after,
                          const gt_meta *whole, const uint32_t *in, uint32_t *out)
{
    gt_meta meta = meta_of_lines(from, d, whole);
    return change_lines(session, from, d, after, &meta, in, out);
}

gt_err gt__mesh_sum(gt_session *session, const gt_layout *layout, unsigned d, const gt_meta *meta,
                    const uint32_t *in, uint32_t *out)
{
    const gt_mesh_axis whole = {.kind = GT_REPLICATED, .size = layout->mesh.axis[d].size};
    return change_lines(session, layout, d, &whole, meta, in, out);
}

/* Each member keeps its part along axis d; out[] are temporaries. */
static gt_err cut_axis(gt_session *session, const gt_layout *from, unsigned d, const gt_mesh_axis *after,
                       const gt_meta *whole, const uint32_t *in, uint32_t *out)
{
    gt_meta meta = meta_of_lines(from, d, whole);
    int64_t starts[GT_MAX_RANK] = {0}, counts[GT_MAX_RANK];
    memcpy(counts, meta.shape, meta.rank * sizeof counts[0]);
    counts[after->axis] /= after->size;
    for (unsigned k = 0; k < from->count; k++) {
        starts[after->axis] = counts[after->axis] * gt__mesh_at(&from->mesh, d, k);
        GT_TRY(gt__move_slice(session, from->member[k].worker, in[k], &meta, starts, counts, NULL, &out[k]));
    }
    return GT_OK;
}

/* ---- on the same mesh ---------------------------------------------------------------------------------------- */

static bool is_same(const gt_mesh_axis *a, const gt_mesh_axis *b)
{
    return a->kind == b->kind && (a->kind != GT_SPLIT || a->axis == b->axis);
}

/* Whether a dimension is split along an axis other than d. */
static bool is_taken(const gt_mesh *mesh, unsigned d, int dimension)
{
    for (unsigned other = 0; other < mesh->rank; other++)
        if (other != d && mesh->axis[other].kind == GT_SPLIT && mesh->axis[other].axis == dimension)
            return true;
    return false;
}

static void place_axis(gt_mesh_axis *axis, const gt_mesh_axis *as)
{
    axis->kind = as->kind;
    axis->axis = as->kind == GT_SPLIT ? as->axis : 0;
}

/* A copy that is changed axis by axis; NULL: out of memory. */
static gt_layout *working_copy(const gt_layout *layout)
{
    gt_layout *copy = gt__layout_new(GT_MESHED, 0, layout->count);
    if (!copy)
        return NULL;
    copy->mesh = layout->mesh;
    memcpy(copy->member, layout->member, layout->count * sizeof layout->member[0]);
    return copy;
}

/* One axis of slots[], which are replaced by temporaries. */
static gt_err step_axis(gt_session *session, gt_layout *now, unsigned d, const gt_mesh_axis *after,
                        const gt_meta *whole, uint32_t *slots)
{
    uint32_t out[GT_MAX_PARTIES];
    if (now->mesh.axis[d].kind == GT_REPLICATED)
        GT_TRY(cut_axis(session, now, d, after, whole, slots, out));
    else {
        GT_TRY(change_axis(session, now, d, after, whole, slots, out));
        gt_err err = GT_OK;
        for (unsigned k = 0; k < now->count; k++) {
            gt_err kept = gt__spread_temporary_own(session, now->member[k].worker, out[k]);
            err = err == GT_OK ? kept : err;
        }
        GT_TRY(err);
    }
    place_axis(&now->mesh.axis[d], after);
    memcpy(slots, out, now->count * sizeof out[0]);
    return GT_OK;
}

gt_err gt__mesh_sum_all(gt_session *session, const gt_layout *from, const gt_meta *meta, const uint32_t *in,
                        uint32_t *out)
{
    gt_layout *now = working_copy(from);
    gt_err err = now ? GT_OK : gt__spread_no_memory();
    memcpy(out, in, from->count * sizeof *out);
    for (unsigned d = 0; d < from->mesh.rank && err == GT_OK; d++) {
        const gt_mesh_axis whole = {.kind = GT_REPLICATED, .size = from->mesh.axis[d].size};
        if (from->mesh.axis[d].kind == GT_PARTIAL)
            err = step_axis(session, now, d, &whole, meta, out);
    }
    gt__layout_release(now);
    return err;
}

/* From the source's layout to another on the same mesh: first what becomes whole, so that no dimension is split along two
 * axes in between, then what changes from parts to parts, then what is cut. */
static gt_err convert(gt_session *session, const gt_source *source, const gt_mesh *want, uint32_t *slots)
{
    gt_layout *now = working_copy(source->layout);
    gt_err err = now ? GT_OK : gt__spread_no_memory();
    for (unsigned k = 0; k < source->layout->count; k++)
        slots[k] = gt__source_slot(source, k);
    for (unsigned round = 0; round < 3; round++)
        for (unsigned d = 0; err == GT_OK && d < want->rank; d++) {
            gt_mesh_axis after = want->axis[d], *is = &now->mesh.axis[d];
            if (is_same(is, &after) || (round < 2 && is->kind == GT_REPLICATED) ||
                (round == 0 && after.kind != GT_REPLICATED))
                continue;
            if (after.kind == GT_PARTIAL) {
                err = gt__fail(GT_ERR_INTERNAL, "summands of a tensor that has none");
                break;
            }
            if (after.kind == GT_SPLIT && is_taken(&now->mesh, d, after.axis))
                after.kind = GT_REPLICATED; /* for now */
            err = step_axis(session, now, d, &after, source->meta, slots);
        }
    gt__layout_release(now);
    return err;
}

/* ---- pieces -------------------------------------------------------------------------------------------------- */

/* One member of a layout gets what it needs of a tensor. */
typedef struct delivery {
    gt_session *session;
    const gt_source *source;
    int32_t to;
    int64_t starts[GT_MAX_RANK], counts[GT_MAX_RANK];
    unsigned axes; /* along which the source is split */
    struct {
        unsigned dimension, parts, stride; /* between the members that have parts that follow each other */
    } axis[GT_MESH_AXES];
} delivery;

static void find_axes(delivery *g)
{
    const gt_layout *from = g->source->layout;
    if (from->kind == GT_SPLIT) {
        g->axes = 1;
        g->axis[0].dimension = from->axis;
        g->axis[0].parts = from->count;
        g->axis[0].stride = 1;
    }
    for (unsigned d = 0; from->kind == GT_MESHED && d < from->mesh.rank; d++)
        if (from->mesh.axis[d].kind == GT_SPLIT) {
            g->axis[g->axes].dimension = (unsigned)from->mesh.axis[d].axis;
            g->axis[g->axes].parts = (unsigned)from->mesh.axis[d].size;
            g->axis[g->axes++].stride = gt__mesh_stride(&from->mesh, d);
        }
}

/* The overlap of what is needed and the part of a member along one dimension; empty: count 0. */
static int64_t overlap(const delivery *g, unsigned dimension, int64_t start, int64_t count, int64_t *begin)
{
    int64_t first = g->starts[dimension], end = first + g->counts[dimension];
    *begin = first > start ? first : start;
    end = end < start + count ? end : start + count;
    return end > *begin ? end - *begin : 0;
}

/* What `member` has of it. */
static gt_err deliver_piece(delivery *g, unsigned member, uint32_t *slot)
{
    const gt_layout *from = g->source->layout;
    int32_t worker = from->member[member].worker;
    int64_t has[GT_MAX_RANK], starts[GT_MAX_RANK], counts[GT_MAX_RANK];
    gt_meta part;
    bool all = true;
    *slot = gt__source_slot(g->source, member);
    uint32_t here = from->kind == GT_REPLICATED ? gt__move_whole_on(g->source, g->to) : 0;
    if (here) {
        worker = g->to;
        *slot = here;
    }
    gt__layout_part(from, member, g->source->meta, &part);
    gt__layout_starts(from, member, g->source->meta, has);
    for (unsigned d = 0; d < part.rank; d++) {
        counts[d] = overlap(g, d, has[d], part.shape[d], &starts[d]);
        starts[d] -= has[d];
        all &= counts[d] == part.shape[d];
    }
    if (!all) {
        GT_TRY(gt__move_slice(g->session, worker, *slot, &part, starts, counts, NULL, slot));
        GT_TRY(gt__meta_set(&part, (gt_dtype)part.dtype, part.rank, counts));
    }
    if (worker == g->to)
        return GT_OK;
    GT_TRY(gt__move_tensor(g->session, worker, *slot, g->to, &part, NULL, slot));
    return gt__spread_temporary_own(g->session, g->to, *slot);
}

/* The pieces of the members that differ from `member` in the position along axes `depth` and later, joined. */
static gt_err deliver(delivery *g, unsigned depth, unsigned member, uint32_t *slot)
{
    uint32_t pieces[GT_MAX_PARTIES] = {0};
    unsigned count = 0;
    if (depth >= g->axes || depth == GT_MESH_AXES)
        return deliver_piece(g, member, slot);
    unsigned dimension = g->axis[depth].dimension;
    for (unsigned k = 0; k < g->axis[depth].parts; k++) {
        unsigned other = member + k * g->axis[depth].stride;
        int64_t has[GT_MAX_RANK], begin;
        gt_meta part;
        gt__layout_part(g->source->layout, other, g->source->meta, &part);
        gt__layout_starts(g->source->layout, other, g->source->meta, has);
        if (overlap(g, dimension, has[dimension], part.shape[dimension], &begin))
            GT_TRY(deliver(g, depth + 1, other, &pieces[count++]));
    }
    *slot = pieces[0];
    return count == 1 ? GT_OK : gt__move_cat(g->session, g->to, pieces, count, dimension, NULL, slot);
}

/* Where the search for pieces begins: of copies, the one on the worker itself, or one that others do not use. */
static unsigned first_member(const delivery *g, const gt_layout *wanted, unsigned t)
{
    const gt_layout *from = g->source->layout;
    int own = gt__layout_find(from, g->to);
    unsigned member = own >= 0 ? (unsigned)own : gt__layout_same_grid(from, wanted) ? t : t % from->count;
    for (unsigned k = 0; k < g->axes; k++)
        member -= member / g->axis[k].stride % g->axis[k].parts * g->axis[k].stride;
    return member;
}

/* ---- layouts ------------------------------------------------------------------------------------------------- */

bool gt__mesh_scatters(const gt_layout *from, const gt_layout *wanted)
{
    bool scatters = false;
    for (unsigned d = 0; wanted && gt__layout_same_mesh(from, wanted) && d < from->mesh.rank; d++)
        scatters |= from->mesh.axis[d].kind == GT_PARTIAL && wanted->mesh.axis[d].kind == GT_SPLIT;
    return scatters;
}

gt_err gt__mesh_settle(gt_session *session, gt_source *source, const gt_layout *wanted)
{
    for (unsigned d = 0; source->layout->kind == GT_MESHED && d < source->layout->mesh.rank; d++) {
        const gt_layout *from = source->layout;
        gt_mesh mesh = from->mesh;
        gt_mesh_axis after = {.kind = GT_REPLICATED, .size = mesh.axis[d].size};
        if (mesh.axis[d].kind != GT_PARTIAL)
            continue;
        if (wanted && gt__layout_same_mesh(from, wanted))
            place_axis(&after, &wanted->mesh.axis[d]);
        if (after.kind == GT_PARTIAL)
            continue;
        if (after.kind == GT_SPLIT && is_taken(&mesh, d, after.axis))
            after.kind = GT_REPLICATED;
        uint32_t in[GT_MAX_PARTIES], out[GT_MAX_PARTIES];
        int32_t workers[GT_MAX_PARTIES];
        for (unsigned k = 0; k < from->count; k++) {
            in[k] = gt__source_slot(source, k);
            workers[k] = from->member[k].worker;
        }
        place_axis(&mesh.axis[d], &after);
        gt_layout *settled = gt__layout_meshed(&mesh, workers);
        if (!settled)
            return gt__spread_no_memory();
        unsigned count = from->count;
        gt_err err = change_axis(session, from, d, &after, source->meta, in, out);
        if (err != GT_OK)
            gt__layout_release(settled);
        else if ((err = gt__spread_set(session, source->handle, settled, out)) != GT_OK)
            for (unsigned k = 0; k < count; k++)
                gt__worker_free_tensor(gt__spread_worker(session, workers[k]), out[k]);
        GT_TRY(err);
        *source = gt__spread_source(session, source->handle);
    }
    return GT_OK;
}

gt_err gt__mesh_arrange(gt_session *session, gt_source *source, const gt_layout *wanted, uint32_t *slots)
{
    const gt_layout *from = source->layout;
    if (gt__layout_same_mesh(from, wanted))
        return convert(session, source, &wanted->mesh, slots);
    if (wanted->kind == GT_REPLICATED && gt__layout_same_set(from, wanted)) {
        gt_mesh whole = from->mesh;
        uint32_t out[GT_MAX_PARTIES];
        for (unsigned d = 0; d < whole.rank; d++)
            whole.axis[d].kind = GT_REPLICATED;
        GT_TRY(convert(session, source, &whole, out));
        for (unsigned k = 0; k < from->count; k++)
            slots[gt__layout_find(wanted, from->member[k].worker)] = out[k];
        return GT_OK;
    }
    if (gt__layout_is_partial(wanted))
        return gt__fail(GT_ERR_INTERNAL, "summands of a tensor that has none");
    for (unsigned t = 0; t < wanted->count; t++) {
        delivery g = {.session = session, .source = source, .to = wanted->member[t].worker};
        gt_meta part;
        gt__layout_part(wanted, t, source->meta, &part);
        gt__layout_starts(wanted, t, source->meta, g.starts);
        memcpy(g.counts, part.shape, part.rank * sizeof part.shape[0]);
        find_axes(&g);
        GT_TRY(deliver(&g, 0, first_member(&g, wanted, t), &slots[t]));
    }
    return GT_OK;
}

/* sums.c: gradients that wait for their sums. See sums.h. */
#include "dispatcher/spread/sums.h"

#include <stdlib.h>
#include <string.h>

#include "core/path.h"
#include "core/record.h"
#include "core/settings.h"
#include "dispatcher/spread/move.h"
#include "dispatcher/worker_stream.h"

enum {
    MOST_WAITING = 1 << 12,
    AHEAD_BYTES = 1 << 20,   /* of small ones: they are added up while the pass goes on */
    JOINED_BYTES = 64 << 10, /* up to here, a message costs more than a copy */
    BUCKET_BYTES = 4 << 20,
};

/* ---- the list ----------------------------------------------------------------------------------------------- */

static gt_spread *spread_of(const gt_session *session, const gt_handle *handle)
{
    return handle && handle->worker == GT_SPREAD ? session->spreading->table[handle->slot] : NULL;
}

static bool is_large(const gt_spread *spread)
{
    return spread->waits > JOINED_BYTES;
}

/* It waits, or not any more. */
static void count(gt_sums *sums, const gt_spread *spread, int more)
{
    sums->waiting += spread->waits ? (size_t)more : 0;
    sums->large += is_large(spread) ? (size_t)more : 0;
    sums->bytes += is_large(spread) ? 0 : (size_t)more * spread->waits;
}

void gt__sums_leave(gt_session *session, gt_spread *spread)
{
    count(&session->spreading->sums, spread, -1);
    spread->waits = 0;
}

/* Forget tensors that wait no more. */
static void compact(gt_session *session)
{
    gt_sums *sums = &session->spreading->sums;
    size_t left = 0;
    for (size_t k = 0; k < sums->count; k++) {
        const gt_spread *spread = spread_of(session, gt__handles_find(&session->handles, sums->ids[k]));
        if (spread && spread->waits)
            sums->ids[left++] = sums->ids[k];
    }
    sums->count = left;
}

/* Nothing waits: each of them is added up when it is needed. */
static void clear(gt_session *session)
{
    gt_sums *sums = &session->spreading->sums;
    compact(session);
    for (size_t k = 0; k < sums->count; k++)
        gt__sums_leave(session, spread_of(session, gt__handles_find(&session->handles, sums->ids[k])));
    sums->count = 0;
}

/* What each worker has of a tensor; along a mesh parts are equal. */
static gt_meta local_meta(const gt_layout *layout, const gt_meta *whole)
{
    gt_meta part;
    gt__layout_part(layout, 0, whole, &part);
    return part;
}

/* Have a tensor wait, if it has summands. */
static gt_err wait_for_sum(gt_session *session, const gt_handle *handle)
{
    gt_sums *sums = &session->spreading->sums;
    gt_spread *spread = spread_of(session, handle);
    if (!spread || spread->waits || sums->when == GT_SUMS_ALONE || !gt__layout_is_partial(spread->layout))
        return GT_OK;
    if (sums->count == sums->capacity)
        compact(session);
    if (sums->count == MOST_WAITING)
        return GT_OK;
    if (2 * sums->count >= sums->capacity) {
        size_t capacity = sums->capacity ? 2 * sums->capacity : 64;
        uint64_t *ids = realloc(sums->ids, capacity * sizeof *ids);
        if (!ids)
            return gt__spread_no_memory();
        sums->ids = ids;
        sums->capacity = capacity;
    }
    const gt_meta meta = local_meta(spread->layout, &handle->meta);
    spread->waits = gt__meta_bytes(&meta);
    count(sums, spread, 1);
    sums->ids[sums->count++] = handle->id;
    return GT_OK;
}

void gt__sums_free(gt_sums *sums)
{
    free(sums->ids);
}

/* ---- buckets ------------------------------------------------------------------------------------------------ */

/* The only axis of a mesh along which there are summands; -1: there are several. */
static int summed_axis(const gt_layout *layout)
{
    int found = -1;
    for (unsigned d = 0; d < layout->mesh.rank; d++)
        if (layout->mesh.axis[d].kind == GT_PARTIAL) {
            if (found >= 0)
                return -1;
            found = (int)d;
        }
    return found;
}

/* Whether the same workers add up both, along the same axis. */
static bool are_alike(const gt_source *a, const gt_source *b)
{
    if (a->meta->dtype != b->meta->dtype || a->layout->kind != b->layout->kind)
        return false;
    if (a->layout->kind == GT_MESHED)
        return gt__layout_same_mesh(a->layout, b->layout) && summed_axis(a->layout) == summed_axis(b->layout);
    return gt__layout_same_workers(a->layout, b->layout);
}

static bool may_be_joined(const gt_source *source)
{
    const gt_meta meta = local_meta(source->layout, source->meta);
    return meta.numel && gt__meta_bytes(&meta) <= JOINED_BYTES &&
           (source->layout->kind != GT_MESHED || summed_axis(source->layout) >= 0);
}

/* Tensors that one collective adds up. */
typedef struct bucket {
    gt_source *source;
    unsigned count;
    gt_meta flat; /* all of them, end to end */
} bucket;

/* What member k has of them, end to end: a temporary. */
static gt_err join(gt_session *session, const bucket *b, unsigned k, uint32_t *slot)
{
    uint32_t rows[GT_MAX_CAT];
    int32_t worker = b->source->layout->member[k].worker;
    for (unsigned j = 0; j < b->count; j++) {
        const gt_meta meta = local_meta(b->source[j].layout, b->source[j].meta);
        GT_TRY(
            gt__move_reshape(session, worker, gt__source_slot(&b->source[j], k), 1, &meta.numel, NULL, &rows[j]));
        GT_TRY(gt__spread_temporary(session, worker, rows[j]));
    }
    return gt__move_cat(session, worker, rows, b->count, 0, NULL, slot);
}

/* The sums of what join made; out[] are the caller's. */
static gt_err add_up(gt_session *session, const bucket *b, const uint32_t *in, uint32_t *out)
{
    const gt_layout *from = b->source->layout;
    if (from->kind == GT_MESHED)
        return gt__mesh_sum(session, from, (unsigned)summed_axis(from), &b->flat, in, out);
    gt_layout *whole = gt__layout_like(from, GT_REPLICATED, 0);
    gt_err err = whole ? gt__move_collective(session, GT_OP_all_reduce, from, whole, &b->flat, in, out)
                       : gt__spread_no_memory();
    gt__layout_release(whole);
    return err;
}

/* The layout of a tensor when it is added up; NULL: out of memory. */
static gt_layout *summed_layout(const gt_layout *from)
{
    if (from->kind != GT_MESHED)
        return gt__layout_like(from, GT_REPLICATED, 0);
    gt_mesh mesh = from->mesh;
    int32_t workers[GT_MAX_PARTIES];
    gt_mesh_axis *summed = &mesh.axis[summed_axis(from)];
    summed->kind = GT_REPLICATED;
    summed->axis = 0;
    for (unsigned k = 0; k < from->count; k++)
        workers[k] = from->member[k].worker;
    return gt__layout_meshed(&mesh, workers);
}

/* Give a tensor its sum: the elements from `start` on of sums[], as a view. */
static gt_err cut_out(gt_session *session, const bucket *b, gt_source *source, int64_t start, const uint32_t *sums)
{
    const gt_meta meta = local_meta(source->layout, source->meta);
    gt_layout *after = summed_layout(source->layout);
    uint32_t slots[GT_MAX_PARTIES], row;
    unsigned made = 0;
    gt_err err = after ? GT_OK : gt__spread_no_memory();
    for (unsigned k = 0; err == GT_OK && k < after->count; k++) {
        int32_t worker = after->member[k].worker;
        const gt_aim aim = {.layout = after, .member = k, .whole = source->meta};
        err = gt__move_slice(session, worker, sums[k], &b->flat, &start, &meta.numel, NULL, &row);
        if (err == GT_OK)
            err = gt__move_reshape(session, worker, row, meta.rank, meta.shape, &aim, &slots[k]);
        made += err == GT_OK;
    }
    if (err == GT_OK) {
        err = gt__spread_set(session, source->handle, gt__layout_retain(after), slots);
        *source = gt__spread_source(session, source->handle);
    }
    for (unsigned k = 0; k < made && err != GT_OK; k++)
        gt__worker_free_tensor(gt__spread_worker(session, after->member[k].worker), slots[k]);
    gt__layout_release(after);
    return err;
}

static gt_err add_up_bucket(gt_session *session, bucket *b)
{
    uint32_t in[GT_MAX_PARTIES], out[GT_MAX_PARTIES];
    gt_layout *members = gt__layout_retain(b->source->layout);
    int64_t start = 0;
    gt_err err = GT_OK;
    for (unsigned k = 0; k < members->count && err == GT_OK; k++)
        err = join(session, b, k, &in[k]);
    if (err == GT_OK)
        err = add_up(session, b, in, out);
    bool summed = err == GT_OK;
    for (unsigned k = 0; k < members->count && summed; k++) {
        gt_err kept = gt__spread_temporary(session, members->member[k].worker, out[k]);
        err = err == GT_OK ? kept : err;
    }
    for (unsigned j = 0; j < b->count && err == GT_OK; j++) {
        const gt_meta meta = local_meta(b->source[j].layout, b->source[j].meta);
        err = cut_out(session, b, &b->source[j], start, out);
        start += meta.numel;
    }
    gt__layout_release(members);
    return err;
}

/* ---- adding up ---------------------------------------------------------------------------------------------- */

/* Add up a tensor, in a bucket with those behind it that fit. Their handles are taken out. */
static gt_err add_up_first(gt_session *session, gt_handle **handles, size_t count)
{
    gt_source sources[GT_MAX_CAT] = {gt__spread_source(session, handles[0])};
    bucket b = {.source = sources, .count = 1};
    size_t elements = (size_t)local_meta(sources[0].layout, sources[0].meta).numel;
    size_t most = BUCKET_BYTES / gt__dtype_size((gt_dtype)sources[0].meta->dtype);
    handles[0] = NULL;
    for (size_t k = 1; k < count && may_be_joined(&sources[0]) && b.count < GT_MAX_CAT; k++) {
        const gt_source other = handles[k] ? gt__spread_source(session, handles[k]) : (gt_source){0};
        if (!other.handle || !may_be_joined(&other) || !are_alike(&sources[0], &other))
            continue;
        size_t more = (size_t)local_meta(other.layout, other.meta).numel;
        if (elements + more > most)
            break;
        elements += more;
        sources[b.count++] = other;
        handles[k] = NULL;
    }
    const int64_t length = (int64_t)elements;
    GT_TRY(b.count > 1 ? gt__meta_set(&b.flat, (gt_dtype)sources[0].meta->dtype, 1, &length) : GT_OK);
    GT_TRY(b.count > 1 ? add_up_bucket(session, &b) : gt__spread_settle(session, &sources[0], NULL));
    for (unsigned k = 0; k < b.count; k++)
        sources[k].spread->ahead = true;
    return GT_OK;
}

/* Add up what waits: all of it, or only large tensors. */
static gt_err flush(gt_session *session, bool all)
{
    gt_sums *sums = &session->spreading->sums;
    size_t taken = 0, left = 0;
    compact(session);
    gt_handle **handles = sums->count ? malloc(sums->count * sizeof(*handles)) : NULL;
    if (sums->count && !handles)
        return gt__spread_no_memory();
    for (size_t k = 0; k < sums->count; k++) {
        gt_handle *handle = gt__handles_find(&session->handles, sums->ids[k]);
        gt_spread *spread = spread_of(session, handle);
        if (!all && !is_large(spread))
            sums->ids[left++] = sums->ids[k];
        else if (spread->waits) { /* otherwise it was in the list twice */
            gt__sums_leave(session, spread);
            handles[taken++] = handle;
        }
    }
    sums->count = left;
    gt_err err = GT_OK;
    for (size_t k = 0; k < taken && err == GT_OK; k++)
        if (handles[k])
            err = add_up_first(session, handles + k, taken - k);
    free(handles);
    return err;
}

gt_err gt__sums_need(gt_session *session, const gt_handle *handle)
{
    const gt_spread *spread = spread_of(session, handle);
    bool known = session->spreading->sums.when != GT_SUMS_UNKNOWN;
    return spread && spread->waits && known ? flush(session, true) : GT_OK;
}

/* ---- what a program does ------------------------------------------------------------------------------------ */

void gt__sums_settled(gt_session *session, gt_spread *spread, bool in_parts)
{
    gt_sums *sums = &session->spreading->sums;
    if (!spread->waits)
        return;
    gt__sums_leave(session, spread);
    if (in_parts) {
        sums->when = GT_SUMS_ALONE;
        clear(session);
    } else if (sums->when == GT_SUMS_UNKNOWN)
        sums->when = sums->accumulates ? GT_SUMS_WHEN_NEEDED : GT_SUMS_AHEAD;
}

void gt__sums_parted(gt_session *session, const gt_spread *spread)
{
    if (!spread || !spread->ahead)
        return;
    session->spreading->sums.when = GT_SUMS_ALONE;
    clear(session);
}

/* What a record does with tensors of the list. */
typedef struct uses {
    unsigned operands, waiting, partial, ahead;
} uses;

static uses look_at(const gt_session *session, const gt_slot *record)
{
    uses u = {0};
    gt_operands operands = gt__record_operands(&record->ins, record + 1);
    for (unsigned k = 0; k < operands.count; k++) {
        if (!gt__operand_is_tensor(&operands, k))
            continue;
        const gt_spread *spread = spread_of(session, gt__handles_find(&session->handles, operands.id[k]));
        u.operands++;
        u.waiting += spread && spread->waits;
        u.partial += spread && gt__layout_is_partial(spread->layout);
        u.ahead += spread && spread->ahead;
    }
    return u;
}

/* They are not results of the pass: something is computed from them. */
static void operands_leave(gt_session *session, const gt_slot *record)
{
    gt_operands operands = gt__record_operands(&record->ins, record + 1);
    for (unsigned k = 0; k < operands.count; k++) {
        gt_spread *spread = gt__operand_is_tensor(&operands, k)
                                ? spread_of(session, gt__handles_find(&session->handles, operands.id[k]))
                                : NULL;
        if (spread && spread->waits)
            gt__sums_leave(session, spread);
    }
}

gt_err gt__sums_before(gt_session *session, const gt_slot *record)
{
    gt_sums *sums = &session->spreading->sums;
    bool adds = record->ins.op == GT_OP_add;
    sums->passes_on = false;
    if (sums->when == GT_SUMS_ALONE || (!sums->waiting && !adds))
        return GT_OK;
    const uses u = look_at(session, record);
    if (record->ins.flags & GT_FLAG_BACKWARD) {
        if (u.waiting)
            operands_leave(session, record);
        bool enough = sums->bytes >= AHEAD_BYTES;
        return sums->when == GT_SUMS_AHEAD && (sums->large || enough) ? flush(session, enough) : GT_OK;
    }
    if (adds && u.waiting && u.operands == 2 && u.partial == 2) { /* gradients of two passes, not added up yet */
        operands_leave(session, record);
        sums->passes_on = sums->accumulates = true;
        return GT_OK;
    }
    if (adds && u.ahead && u.operands == 2 && u.ahead + u.waiting == 2)
        sums->when = GT_SUMS_WHEN_NEEDED; /* the same, and the first one was added up: a waste */
    bool now = sums->when == GT_SUMS_AHEAD || (sums->when == GT_SUMS_WHEN_NEEDED && u.waiting);
    return now ? flush(session, true) : GT_OK;
}

gt_err gt__sums_after(gt_session *session, const gt_slot *record, const gt_handle *result)
{
    bool waits = record->ins.flags & GT_FLAG_BACKWARD || session->spreading->sums.passes_on;
    return waits ? wait_for_sum(session, result) : GT_OK;
}

/* ---- paths -------------------------------------------------------------------------------------------------- */

static gt_err flush_and_free(gt_session *session)
{
    gt_err err = flush(session, true);
    gt__spread_free_temporaries(session);
    return err;
}

gt_err gt__sums_before_run(gt_session *session, const gt_path *path, const gt_slot *run)
{
    const gt_sums *sums = &session->spreading->sums;
    size_t inputs = 0;
    for (uint32_t k = 0; k < path->inputs && sums->when == GT_SUMS_WHEN_NEEDED && sums->waiting; k++) {
        const gt_spread *spread = spread_of(session, gt__handles_find(&session->handles, gt__path_word(run, k)));
        inputs += spread && spread->waits;
    }
    /* A run that has all of them adds up what it needs together. One that has a few would do that for each few. */
    bool now = sums->when == GT_SUMS_AHEAD ? sums->waiting : inputs && inputs < sums->waiting;
    return now ? flush_and_free(session) : GT_OK;
}

gt_err gt__sums_recorded(gt_session *session)
{
    return session->spreading->sums.when == GT_SUMS_AHEAD ? flush_and_free(session) : GT_OK;
}

gt_err gt__sums_after_run(gt_session *session, const gt_path *path, const gt_slot *run)
{
    bool needed = session->spreading->sums.when == GT_SUMS_WHEN_NEEDED;
    for (uint32_t k = 0; k < path->outputs && needed; k++) {
        uint64_t id = run->ins.operand[0] + path->offset[path->output[k]];
        GT_TRY(wait_for_sum(session, gt__handles_find(&session->handles, id)));
    }
    return GT_OK;
}

gt_err gt__sums_record(gt_session *session, const gt_path *path, const gt_slot *run)
{
    bool needed = session->spreading->sums.when == GT_SUMS_WHEN_NEEDED;
    clear(session);
    for (uint32_t k = 0; k < path->inputs && needed; k++)
        GT_TRY(wait_for_sum(session, gt__handles_find(&session->handles, gt__path_word(run, k))));
    return GT_OK;
}

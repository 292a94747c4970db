/*
 * move.c: brings tensors from one layout to another, by instructions to their workers.
 *
 * Between the same workers a change of layout is one collective: a partial tensor becomes whole (all_reduce) or split
 * (reduce_scatter), a split one whole (all_gather) or split along another axis (all_to_all), and a tensor on one worker is
 * copied to several (broadcast). Everything else is made of moves: slices on the workers that have the data, a send and
 * a recv for each, and a cat on the worker where they arrive. Whole copies stay with the tensor: one that was needed on a
 * worker once tends to be needed there again, and tensors do not change. Layouts on a mesh are mesh_move.c's. Read
 * spread.h first.
 */
#include <stdlib.h>
#include <string.h>

#include "core/record.h"
#include "dispatcher/moves.h"
#include "dispatcher/spread/move.h"
#include "dispatcher/worker_stream.h"

/* ---- records ----------------------------------------------------------------------------------------------- */

gt_err gt__spread_reach(gt_session *session, int32_t worker)
{
    gt_spreading *s = session->spreading;
    if (worker < s->reached_capacity && s->reached[worker])
        return GT_OK;
    if (worker >= s->reached_capacity) {
        int32_t capacity = session->dispatcher->worker_count;
        bool *reached = realloc(s->reached, (size_t)capacity * sizeof *reached);
        if (!reached)
            return gt__spread_no_memory();
        memset(reached + s->reached_capacity, 0, (size_t)(capacity - s->reached_capacity) * sizeof *reached);
        s->reached = reached;
        s->reached_capacity = capacity;
    }
    s->reached[worker] = true;
    if (!session->home || session->home->index != worker)
        gt__share_spread(session);
    return GT_OK;
}

gt_err gt__spread_reserve(gt_session *session, int32_t index, unsigned slots, gt_slot **out)
{
    GT_TRY(gt__spread_reach(session, index));
    *out = gt__worker_reserve(gt__spread_worker(session, index), slots);
    return *out ? GT_OK : gt__spread_no_memory();
}

gt_err gt__spread_slot(gt_session *session, int32_t worker, uint32_t *slot)
{
    *slot = gt__slot_number_new(&gt__spread_worker(session, worker)->slots);
    return *slot ? GT_OK
                 : gt__fail(GT_ERR_MEMORY, "too many tensors on worker %s",
                            gt__spread_worker(session, worker)->name);
}

gt_err gt__spread_temporary(gt_session *session, int32_t worker, uint32_t slot)
{
    gt_spreading *s = session->spreading;
    if (s->temporary_count == s->temporary_capacity) {
        size_t capacity = s->temporary_capacity ? 2 * s->temporary_capacity : 64;
        gt_temporary *temporaries = realloc(s->temporaries, capacity * sizeof *temporaries);
        if (!temporaries) {
            if (gt__spread_worker(session, worker)->peer)
                gt__worker_free_tensor(gt__spread_worker(session, worker), slot);
            return gt__spread_no_memory();
        }
        s->temporaries = temporaries;
        s->temporary_capacity = capacity;
    }
    s->temporaries[s->temporary_count++] = (gt_temporary){.worker = worker, .slot = slot};
    return GT_OK;
}

gt_err gt__spread_temporary_own(gt_session *session, int32_t worker, uint32_t slot)
{
    GT_TRY(gt__spread_temporary(session, worker, slot));
    session->spreading->temporaries[session->spreading->temporary_count - 1].own = true;
    return GT_OK;
}

bool gt__spread_keep(gt_session *session, int32_t worker, uint32_t slot)
{
    gt_spreading *s = session->spreading;
    for (size_t k = s->temporary_count; k-- > 0;) {
        const gt_temporary found = s->temporaries[k];
        if (found.worker != worker || found.slot != slot)
            continue;
        if (found.own)
            s->temporaries[k] = s->temporaries[--s->temporary_count];
        return found.own;
    }
    return false;
}

void gt__spread_free_temporaries(gt_session *session)
{
    gt_spreading *s = session->spreading;
    for (size_t k = 0; k < s->temporary_count; k++) {
        gt_dispatch_worker *worker = gt__spread_worker(session, s->temporaries[k].worker);
        if (worker->peer)
            gt__worker_free_tensor(worker, s->temporaries[k].slot);
    }
    s->temporary_count = 0;
}

/* A record caused by the client's record that is being placed: a failure is reported with that record's scope and site. */
static gt_instruction caused(const gt_session *session, gt_opcode op)
{
    return (gt_instruction){.op = op, .scope = session->spreading->scope, .site = session->spreading->site};
}

/* The next record makes this slot; NULL: of no tensor's layout. */
static void announce(const gt_session *session, int32_t worker, uint32_t slot, const gt_aim *made)
{
    if (made && gt__spread_worker(session, worker)->observed)
        gt__observe_part(gt__spread_worker(session, worker), slot, made->layout, made->member, made->whole);
}

gt_err gt__move_slice(gt_session *session, int32_t worker, uint32_t from, const gt_meta *meta,
                      const int64_t *starts, const int64_t *counts, const gt_aim *made, uint32_t *slot)
{
    gt_slot *out;
    GT_TRY(gt__spread_slot(session, worker, slot));
    GT_TRY(gt__spread_temporary(session, worker, *slot));
    GT_TRY(gt__spread_reserve(session, worker, 4, &out));
    memset(out, 0, 4 * sizeof *out);
    out->ins = caused(session, GT_OP_slice);
    out->ins.tail = 3;
    out->ins.result = *slot;
    out->ins.operand[0] = from;
    for (unsigned d = 0; d < meta->rank; d++) {
        out[1].i64[d] = starts[d];
        out[2].i64[d] = 1;
        out[3].i64[d] = counts[d];
    }
    announce(session, worker, *slot, made);
    gt__worker_put(gt__spread_worker(session, worker), 4);
    return GT_OK;
}

gt_err gt__move_reshape(gt_session *session, int32_t worker, uint32_t from, unsigned rank, const int64_t *shape,
                        const gt_aim *made, uint32_t *slot)
{
    gt_slot *out;
    GT_TRY(gt__spread_reserve(session, worker, 2, &out));
    GT_TRY(gt__spread_slot(session, worker, slot));
    memset(out, 0, 2 * sizeof *out);
    out->ins = caused(session, GT_OP_reshape);
    out->ins.tail = 1;
    out->ins.rank = (uint8_t)rank;
    out->ins.result = *slot;
    out->ins.operand[0] = from;
    memcpy(out[1].i64, shape, rank * sizeof shape[0]);
    announce(session, worker, *slot, made);
    gt__worker_put(gt__spread_worker(session, worker), 2);
    return GT_OK;
}

/* A tensor laid out as one that came from another worker would be: one row of all its elements is a view if it is contiguous, and a
 * copy if it is not. */
static gt_err compact(gt_session *session, int32_t worker, uint32_t from, const gt_meta *meta, const gt_aim *made,
                      uint32_t *slot)
{
    uint32_t row;
    GT_TRY(gt__move_reshape(session, worker, from, 1, &meta->numel, NULL, &row));
    GT_TRY(gt__spread_temporary(session, worker, row));
    return gt__move_reshape(session, worker, row, meta->rank, meta->shape, made, slot);
}

/* The part start..start+count of a tensor along an axis, as a temporary view where it is. */
static gt_err slice(gt_session *session, int32_t worker, uint32_t from, const gt_meta *meta, unsigned axis,
                    int64_t start, int64_t count, const gt_aim *made, uint32_t *slot)
{
    int64_t starts[GT_MAX_RANK] = {0}, counts[GT_MAX_RANK];
    memcpy(counts, meta->shape, meta->rank * sizeof counts[0]);
    starts[axis] = start;
    counts[axis] = count;
    return gt__move_slice(session, worker, from, meta, starts, counts, made, slot);
}

gt_err gt__move_tensor(gt_session *session, int32_t from, uint32_t from_slot, int32_t to, const gt_meta *meta,
                       const gt_aim *made, uint32_t *slot)
{
    GT_TRY(gt__spread_reach(session, from));
    GT_TRY(gt__spread_reach(session, to));
    GT_TRY(gt__spread_slot(session, to, slot));
    announce(session, to, *slot, made);
    gt_move moved = {.from = gt__spread_worker(session, from), .to = gt__spread_worker(session, to)};
    moved.slot = from_slot;
    moved.arrives = *slot;
    moved.meta = meta;
    moved.scope = session->spreading->scope;
    moved.site = session->spreading->site;
    moved.flags = session->spreading->syncs ? GT_FLAG_LAST : 0;
    gt_err err = gt__worker_move(&moved);
    if (err != GT_OK)
        gt__slot_number_free(&moved.to->slots, *slot);
    return err;
}

gt_err gt__move_cat(gt_session *session, int32_t worker, const uint32_t *slots, unsigned count, unsigned axis,
                    const gt_aim *made, uint32_t *slot)
{
    gt_slot *out;
    unsigned tail = (count + 7) / 8;
    GT_TRY(gt__spread_slot(session, worker, slot));
    GT_TRY(gt__spread_temporary_own(session, worker, *slot));
    GT_TRY(gt__spread_reserve(session, worker, 1 + tail, &out));
    memset(out, 0, (1 + tail) * sizeof *out);
    out->ins = caused(session, GT_OP_cat);
    out->ins.tail = (uint16_t)tail;
    out->ins.result = *slot;
    out->ins.imm[0].i = axis;
    out->ins.imm[1].i = count;
    uint64_t *ids = gt__record_operands(&out->ins, out + 1).id;
    for (unsigned k = 0; k < count; k++)
        ids[k] = slots[k];
    announce(session, worker, *slot, made);
    gt__worker_put(gt__spread_worker(session, worker), 1 + tail);
    return GT_OK;
}

/* Room in the stream of every member, and slots for the results: for all of them, or for none. */
static gt_err reserve_all(gt_session *session, const gt_layout *members, unsigned slots, gt_slot **records,
                          uint32_t *results)
{
    unsigned done = 0;
    gt_err err = GT_OK;
    while (done < members->count && err == GT_OK) {
        int32_t index = members->member[done].worker;
        err = gt__spread_reserve(session, index, slots, &records[done]);
        if (err == GT_OK)
            err = gt__spread_slot(session, index, &results[done]);
        done += err == GT_OK;
    }
    while (err != GT_OK && done-- > 0)
        gt__slot_number_free(&gt__spread_worker(session, members->member[done].worker)->slots, results[done]);
    return err;
}

/* A member's share of a tensor: all of it where it is not split. */
static double share(const gt_layout *layout, const gt_meta *meta, int32_t worker)
{
    int member = layout->kind == GT_SPLIT ? gt__layout_find(layout, worker) : -1;
    return member < 0 ? 1 : (double)layout->member[member].count / (double)meta->shape[layout->axis];
}

/* The bytes that a collective brings to a member from others. */
static uint64_t arriving(gt_opcode op, const gt_layout *from, const gt_layout *to, const gt_meta *meta,
                         unsigned member)
{
    int32_t worker = from->member[member].worker;
    double before = share(from, meta, worker), after = share(to, meta, worker), others = from->count - 1.0, times;
    switch (op) {
    case GT_OP_broadcast:
        times = member ? 1 : 0;
        break;
    case GT_OP_all_reduce: /* its share of every other part, then the sums of the others' shares */
        times = 2 * others / from->count;
        break;
    case GT_OP_reduce_scatter:
        times = others * after;
        break;
    default: /* all_gather, all_to_all: the elements that it needs and does not have */
        times = after * (1 - before);
    }
    return (uint64_t)(times * (double)gt__meta_bytes(meta) + 0.5);
}

gt_err gt__move_collective(gt_session *session, gt_opcode op, const gt_layout *from, const gt_layout *to,
                           const gt_meta *meta, const uint32_t *in, uint32_t *out)
{
    gt_slot *records[GT_MAX_PARTIES];
    unsigned tail = 1 + (from->count + 1u) / 2;
    GT_TRY(reserve_all(session, from, 1 + tail, records, out));
    gt_partner parties[GT_MAX_PARTIES + 1] = {{0}};
    for (unsigned k = 0; k < from->count; k++) {
        int after = gt__layout_find(to, from->member[k].worker);
        parties[k] = (gt_partner){.worker = from->member[k].worker,
                                  .start = from->member[k].start,
                                  .start_after = after < 0 ? 0 : to->member[after].start};
    }
    uint64_t tag = session->dispatcher->next_tag++;
    for (unsigned k = 0; k < from->count; k++) {
        gt_slot *record = records[k];
        gt_dispatch_worker *worker = gt__spread_worker(session, from->member[k].worker);
        record->ins = caused(session, op);
        record->ins.dtype = meta->dtype;
        record->ins.rank = meta->rank;
        record->ins.tail = (uint16_t)tail;
        record->ins.result = out[k];
        record->ins.operand[0] = in[k];
        record->ins.operand[1] = k;
        record->ins.operand[2] = from->axis | (uint64_t)to->axis << 8;
        record->ins.imm[0].u = tag;
        record->ins.imm[1].u = from->count;
        record[1] = (gt_slot){0};
        memcpy(record[1].i64, meta->shape, meta->rank * sizeof meta->shape[0]);
        memcpy(record + 2, parties, (tail - 1) * sizeof *record);
        int after = gt__layout_find(to, worker->index);
        if (after >= 0)
            announce(session, worker->index, out[k],
                     &(gt_aim){.layout = to, .member = (unsigned)after, .whole = meta});
        gt__worker_put(worker, 1 + tail);
        worker->traffic.collectives++;
        worker->traffic.bytes += arriving(op, from, to, meta, k);
    }
    return GT_OK;
}

/* ---- whole copies ------------------------------------------------------------------------------------------- */

uint32_t gt__move_whole_on(const gt_source *source, int32_t worker)
{
    int member = source->layout->kind == GT_REPLICATED ? gt__layout_find(source->layout, worker) : -1;
    if (member >= 0)
        return gt__source_slot(source, (unsigned)member);
    for (const gt_whole_copy *copy = source->spread ? source->spread->copies : NULL; copy; copy = copy->next)
        if (copy->worker == worker)
            return copy->slot;
    return 0;
}

/* Keep a copy with the tensor, which becomes a spread one if it was not; on failure the copy is freed. */
static gt_err keep_copy(gt_session *session, gt_source *source, int32_t worker, uint32_t slot)
{
    gt_whole_copy *copy = malloc(sizeof *copy);
    gt_err err = copy ? GT_OK : gt__spread_no_memory();
    if (err == GT_OK && !source->spread) {
        uint32_t own = source->handle->slot;
        err = gt__spread_set(session, source->handle, gt__layout_retain(source->layout), &own);
        if (err == GT_OK)
            *source = gt__spread_source(session, source->handle);
    }
    if (err != GT_OK) {
        gt__worker_free_tensor(gt__spread_worker(session, worker), slot);
        free(copy);
        return err;
    }
    *copy = (gt_whole_copy){.next = source->spread->copies, .worker = worker, .slot = slot};
    source->spread->copies = copy;
    return GT_OK;
}

/* Before a tensor is copied for the first time: where it is, it becomes laid out like its copies. A product may round in another
 * way if an operand is laid out in another way, and the result is not to depend on where the tensor was. */
static gt_err make_alike(gt_session *session, gt_source *source)
{
    const gt_layout *layout = source->layout;
    if (source->meta->rank < 2 || (source->spread && source->spread->copies))
        return GT_OK;
    for (unsigned k = 0; k < layout->count; k++) {
        const gt_aim made = {.layout = layout, .member = k, .whole = source->meta};
        int32_t worker = layout->member[k].worker;
        uint32_t *own = source->spread ? &source->spread->slot[k] : &source->handle->slot, before = *own, after;
        GT_TRY(compact(session, worker, before, source->meta, &made, &after));
        *own = after;
        GT_TRY(gt__spread_temporary(session, worker, before));
    }
    return GT_OK;
}

/* Copy a whole tensor to workers that do not have it: one move, or a broadcast to several. */
static gt_err spread_whole(gt_session *session, gt_source *source, const int32_t *missing, unsigned count)
{
    int32_t root = source->layout->member[0].worker;
    GT_TRY(make_alike(session, source));
    if (count == 1) {
        uint32_t slot;
        GT_TRY(gt__move_tensor(session, root, gt__source_slot(source, 0), missing[0], source->meta, NULL, &slot));
        return keep_copy(session, source, missing[0], slot);
    }
    uint32_t in[GT_MAX_PARTIES + 1] = {gt__source_slot(source, 0)}, out[GT_MAX_PARTIES + 1];
    gt_layout *parties = gt__layout_new(GT_REPLICATED, 0, count + 1);
    if (!parties)
        return gt__spread_no_memory();
    parties->member[0].worker = root;
    for (unsigned k = 0; k < count; k++)
        parties->member[1 + k].worker = missing[k];
    gt_err err = count < GT_MAX_PARTIES
                     ? gt__move_collective(session, GT_OP_broadcast, parties, parties, source->meta, in, out)
                     : gt__fail(GT_ERR_VALUE, "more than %d workers", GT_MAX_PARTIES);
    if (err == GT_OK) {
        err = gt__spread_temporary(session, root, out[0]); /* the root's result is its operand again */
        for (unsigned k = 0; k < count; k++) {
            gt_err kept = keep_copy(session, source, missing[k], out[1 + k]);
            err = err == GT_OK ? kept : err;
        }
    }
    gt__layout_release(parties);
    return err;
}

static gt_err replicate(gt_session *session, gt_source *source, const gt_layout *wanted, uint32_t *slots)
{
    int32_t missing[GT_MAX_PARTIES];
    unsigned count = 0;
    for (unsigned k = 0; k < wanted->count; k++)
        if (!gt__move_whole_on(source, wanted->member[k].worker))
            missing[count++] = wanted->member[k].worker;
    if (count)
        GT_TRY(spread_whole(session, source, missing, count));
    for (unsigned k = 0; k < wanted->count; k++)
        slots[k] = gt__move_whole_on(source, wanted->member[k].worker);
    return GT_OK;
}

/* ---- from parts --------------------------------------------------------------------------------------------- */

/* The part of `source` that member t of `wanted` needs and member s has: bounds along one axis, relative to the
 * part. */
typedef struct piece {
    unsigned axis;
    int64_t start, count;
    bool all; /* of what member s has */
} piece;

static piece overlap(const gt_layout *from, unsigned s, const gt_layout *wanted, unsigned t, const gt_meta *part)
{
    if (wanted->kind != GT_SPLIT)
        return (piece){.count = 1, .all = true};
    const gt_member *have = &from->member[s], *want = &wanted->member[t];
    int64_t begin = want->start, end = want->start + want->count;
    if (from->kind == GT_SPLIT && from->axis == wanted->axis) {
        begin = begin > have->start ? begin : have->start;
        end = end < have->start + have->count ? end : have->start + have->count;
        begin -= have->start;
        end -= have->start;
    }
    return (piece){.axis = wanted->axis,
                   .start = begin,
                   .count = end > begin ? end - begin : 0,
                   .all = begin == 0 && end == part->shape[wanted->axis]};
}

/* Bring one piece from member s to a worker. */
static gt_err fetch_piece(gt_session *session, const gt_source *source, unsigned s, const piece *p, int32_t to,
                          const gt_aim *made, uint32_t *slot)
{
    int32_t from = source->layout->member[s].worker;
    gt_meta part;
    gt__layout_part(source->layout, s, source->meta, &part);
    *slot = gt__source_slot(source, s);
    if (!p->all) {
        GT_TRY(slice(session, from, *slot, &part, p->axis, p->start, p->count, from == to ? made : NULL, slot));
        part.numel = part.shape[p->axis] ? part.numel / part.shape[p->axis] * p->count : 0;
        part.shape[p->axis] = p->count;
    }
    if (from == to && p->all)
        return GT_OK;
    if (from == to) {
        GT_TRY(compact(session, to, *slot, &part, made, slot));
        return gt__spread_temporary(session, to, *slot);
    }
    GT_TRY(gt__move_tensor(session, from, *slot, to, &part, made, slot));
    return gt__spread_temporary_own(session, to, *slot);
}

/* Put together the part of a split tensor that member t of `wanted` needs. */
static gt_err assemble(gt_session *session, const gt_source *source, const gt_layout *wanted, unsigned t,
                       uint32_t *slot)
{
    uint32_t pieces[GT_MAX_PARTIES];
    unsigned count = 0;
    int32_t to = wanted->member[t].worker;
    const gt_aim made = {.layout = wanted, .member = t, .whole = source->meta};
    for (unsigned s = 0; s < source->layout->count; s++) {
        gt_meta part;
        gt__layout_part(source->layout, s, source->meta, &part);
        piece p = overlap(source->layout, s, wanted, t, &part);
        bool complete =
            wanted->kind == GT_SPLIT && wanted->axis == source->layout->axis && p.count == wanted->member[t].count;
        if (p.count)
            GT_TRY(fetch_piece(session, source, s, &p, to, complete ? &made : NULL, &pieces[count++]));
    }
    if (count == 1) {
        *slot = pieces[0];
        return GT_OK;
    }
    return gt__move_cat(session, to, pieces, count, source->layout->axis, &made, slot);
}

static bool is_whole_on_all(const gt_source *source, const gt_layout *wanted)
{
    for (unsigned k = 0; k < wanted->count; k++)
        if (!gt__move_whole_on(source, wanted->member[k].worker))
            return false;
    return true;
}

/* A part of a tensor that some worker has whole: sliced on the worker that needs it, or sent to it. */
static gt_err cut(gt_session *session, const gt_source *source, const gt_layout *wanted, unsigned t,
                  uint32_t *slot)
{
    const gt_member *member = &wanted->member[t];
    uint32_t here = gt__move_whole_on(source, member->worker);
    const gt_aim made = {.layout = wanted, .member = t, .whole = source->meta};
    if (here) {
        GT_TRY(slice(session, member->worker, here, source->meta, wanted->axis, member->start, member->count,
                     &made, slot));
        if (is_whole_on_all(source, wanted))
            return GT_OK;
        gt_meta part;
        gt__layout_part(wanted, t, source->meta, &part);
        GT_TRY(compact(session, member->worker, *slot, &part, &made, slot));
        return gt__spread_temporary(session, member->worker, *slot);
    }
    unsigned s = t % source->layout->count; /* spread the work of sending */
    piece p = {.axis = wanted->axis, .start = member->start, .count = member->count};
    return fetch_piece(session, source, s, &p, member->worker, &made, slot);
}

/* ---- layouts ------------------------------------------------------------------------------------------------ */

/* A collective whose results, in the order of `wanted`, are temporaries. */
static gt_err exchange(gt_session *session, gt_opcode op, const gt_layout *from, const gt_layout *wanted,
                       const gt_meta *meta, const uint32_t *in, uint32_t *slots)
{
    uint32_t out[GT_MAX_PARTIES];
    GT_TRY(gt__move_collective(session, op, from, wanted, meta, in, out));
    gt_err err = GT_OK;
    for (unsigned k = 0; k < from->count; k++) {
        int32_t worker = from->member[k].worker;
        gt_err kept = gt__spread_temporary_own(session, worker, out[k]);
        err = err == GT_OK ? kept : err;
        slots[gt__layout_find(wanted, worker)] = out[k];
    }
    return err;
}

/* The whole tensor on every member, by one collective. */
static gt_err exchange_all(gt_session *session, gt_opcode op, const gt_layout *from, const gt_meta *meta,
                           const uint32_t *in, uint32_t *out)
{
    gt_layout *wanted = gt__layout_like(from, GT_REPLICATED, 0);
    gt_err err = wanted ? exchange(session, op, from, wanted, meta, in, out) : gt__spread_no_memory();
    gt__layout_release(wanted);
    return err;
}

gt_err gt__spread_gather_all(gt_session *session, const gt_layout *from, const gt_meta *meta, const uint32_t *in,
                             uint32_t *out)
{
    return exchange_all(session, GT_OP_all_gather, from, meta, in, out);
}

gt_err gt__spread_sum_all(gt_session *session, const gt_layout *from, const gt_meta *meta, const uint32_t *in,
                          uint32_t *out)
{
    return from->kind == GT_MESHED ? gt__mesh_sum_all(session, from, meta, in, out)
                                   : exchange_all(session, GT_OP_all_reduce, from, meta, in, out);
}

/* Replace the parts of a tensor by the results of a collective. */
static gt_err exchange_own(gt_session *session, gt_opcode op, gt_source *source, gt_layout *after)
{
    const gt_layout *from = source->layout;
    uint32_t in[GT_MAX_PARTIES], out[GT_MAX_PARTIES], slots[GT_MAX_PARTIES];
    for (unsigned k = 0; k < from->count; k++)
        in[k] = gt__source_slot(source, k);
    GT_TRY(gt__move_collective(session, op, from, after, source->meta, in, out));
    for (unsigned k = 0; k < from->count; k++)
        slots[gt__layout_find(after, from->member[k].worker)] = out[k];
    gt_err err = gt__spread_set(session, source->handle, gt__layout_retain(after), slots);
    for (unsigned k = 0; k < after->count && err != GT_OK; k++)
        gt__worker_free_tensor(gt__spread_worker(session, after->member[k].worker), slots[k]);
    *source = gt__spread_source(session, source->handle);
    return err;
}

gt_err gt__spread_settle(gt_session *session, gt_source *source, gt_layout *wanted)
{
    const gt_layout *from = source->layout;
    if (!gt__layout_is_partial(from))
        return GT_OK;
    bool scatter = wanted && wanted->kind == GT_SPLIT && gt__layout_same_set(from, wanted);
    gt__sums_settled(session, source->spread, scatter || gt__mesh_scatters(from, wanted));
    if (from->kind == GT_MESHED)
        return gt__mesh_settle(session, source, wanted);
    gt_layout *after = scatter ? gt__layout_retain(wanted) : gt__layout_like(from, GT_REPLICATED, 0);
    if (!after)
        return gt__spread_no_memory();
    gt_err err = exchange_own(session, scatter ? GT_OP_reduce_scatter : GT_OP_all_reduce, source, after);
    gt__layout_release(after);
    return err;
}

bool gt__spread_can_turn(const gt_layout *from, const gt_layout *to)
{
    return from->kind == GT_SPLIT && to->kind == GT_SPLIT && from->axis != to->axis &&
           gt__layout_same_set(from, to);
}

gt_err gt__spread_turn(gt_session *session, gt_source *source, gt_layout *wanted)
{
    return exchange_own(session, GT_OP_all_to_all, source, wanted);
}

gt_err gt__spread_arrange(gt_session *session, gt_source *source, gt_layout *wanted, uint32_t *slots)
{
    if (gt__layout_is_partial(source->layout) && !gt__layout_equal(source->layout, wanted))
        GT_TRY(gt__spread_settle(session, source, wanted));
    const gt_layout *from = source->layout;
    if (gt__layout_parts(wanted) > gt__layout_parts(from))
        gt__sums_parted(session, source->spread);
    if (gt__layout_equal(from, wanted)) {
        for (unsigned k = 0; k < wanted->count; k++)
            slots[k] = gt__source_slot(source, k);
        return GT_OK;
    }
    if (from->kind == GT_MESHED || wanted->kind == GT_MESHED)
        return gt__mesh_arrange(session, source, wanted, slots);
    if (from->kind == GT_REPLICATED && wanted->kind == GT_REPLICATED)
        return replicate(session, source, wanted, slots);
    bool same = from->kind == GT_SPLIT && from->count > 1 && gt__layout_same_set(from, wanted);
    if (same && wanted->kind == GT_REPLICATED)
        return exchange(session, GT_OP_all_gather, from, wanted, source->meta, source->spread->slot, slots);
    if (gt__spread_can_turn(from, wanted))
        return exchange(session, GT_OP_all_to_all, from, wanted, source->meta, source->spread->slot, slots);
    for (unsigned t = 0; t < wanted->count; t++)
        GT_TRY(from->kind == GT_SPLIT ? assemble(session, source, wanted, t, &slots[t])
                                      : cut(session, source, wanted, t, &slots[t]));
    return GT_OK;
}

/* snapshot.c: see snapshot.h. */
#include "dispatcher/recover/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "dispatcher/recover/recover.h"
#include "dispatcher/state.h"
#include "dispatcher/spread/spread.h"
#include "dispatcher/worker_stream.h"

static gt_err no_memory(void)
{
    return gt__fail(GT_ERR_MEMORY, "out of memory");
}

void gt__saved_release(gt_saved *saved)
{
    if (!saved || --saved->references)
        return;
    for (unsigned k = 0; k < saved->part_count; k++) {
        free(saved->part[k].data);
        gt__spooled_release(saved->part[k].spooled);
        gt__hold_release(saved->part[k].hold);
        free(saved->part[k].failure);
    }
    gt__layout_release(saved->layout);
    free(saved->copies);
    free(saved);
}

void gt__snapshot_free_some(gt_snapshot **where, size_t *tensors)
{
    gt_snapshot *snapshot = *where;
    for (; snapshot->count && *tensors; --*tensors)
        gt__saved_release(snapshot->tensor[--snapshot->count]);
    if (snapshot->count)
        return;
    free(snapshot->tensor);
    free(snapshot->index);
    free(snapshot);
    *where = NULL;
}

void gt__snapshot_free(gt_snapshot **where)
{
    if (*where)
        gt__snapshot_free_some(where, &(size_t){SIZE_MAX});
}

static size_t failure_bytes(const gt_slot *failure)
{
    return (1u + failure->ins.tail) * sizeof *failure;
}

/* ---- taking one --------------------------------------------------------------------------------------------- */

/* Where the tensor's place is in the index, or would be. */
static uint32_t *place_in_index(const gt_snapshot *snapshot, uint64_t id)
{
    size_t mask = ((size_t)1 << snapshot->index_bits) - 1;
    size_t at = (size_t)(id * 0x9E3779B97F4A7C15u >> (64 - snapshot->index_bits));
    while (snapshot->index[at] && snapshot->tensor[snapshot->index[at] - 1]->id != id)
        at = (at + 1) & mask;
    return &snapshot->index[at];
}

static gt_saved *find_saved(const gt_snapshot *snapshot, uint64_t id)
{
    uint32_t place = snapshot ? *place_in_index(snapshot, id) : 0;
    return place ? snapshot->tensor[place - 1] : NULL;
}

static const gt_spread *spread_of(const gt_session *session, const gt_handle *handle)
{
    return handle->worker == GT_SPREAD ? session->spreading->table[handle->slot] : NULL;
}

/* Whether what was saved is still how the tensor is placed. */
static bool is_placed_alike(const gt_saved *saved, const gt_handle *handle, const gt_spread *spread)
{
    if (!saved->part_count || handle->worker == GT_NO_WORKER)
        return false;
    if (!spread)
        return !saved->layout && saved->part[0].worker == handle->worker;
    unsigned k = 0;
    for (const gt_whole_copy *copy = spread->copies; copy; copy = copy->next, k++)
        if (k == saved->copy_count || saved->copies[k] != copy->worker)
            return false;
    return k == saved->copy_count && saved->layout && gt__layout_equal(saved->layout, spread->layout);
}

bool gt__snapshot_has(const gt_session *session, const gt_snapshot *snapshot, const gt_handle *handle)
{
    const gt_saved *saved = find_saved(snapshot, handle->id);
    return saved && is_placed_alike(saved, handle, spread_of(session, handle));
}

static bool note_copies(gt_saved *saved, const gt_spread *spread)
{
    unsigned count = 0;
    for (const gt_whole_copy *copy = spread->copies; copy; copy = copy->next)
        count++;
    if (count && !(saved->copies = malloc(count * sizeof *saved->copies)))
        return false;
    for (const gt_whole_copy *copy = spread->copies; copy; copy = copy->next)
        saved->copies[saved->copy_count++] = copy->worker;
    return true;
}

/* Where part k of a tensor is, and its slot there. */
static int32_t place_of(const gt_handle *handle, const gt_spread *spread, unsigned k, uint32_t *slot)
{
    bool member = spread && k < spread->layout->count;
    *slot = !spread ? handle->slot : member ? spread->slot[k] : spread->copies->slot;
    return !spread ? handle->worker : member ? spread->layout->member[k].worker : spread->copies->worker;
}

/* One without bytes. */
static gt_saved *saved_new(const gt_handle *handle, const gt_spread *spread)
{
    unsigned parts = handle->worker != GT_NO_WORKER;
    if (spread && spread->layout->kind != GT_REPLICATED)
        parts = spread->layout->count + (spread->copies != NULL);
    gt_saved *saved = calloc(1, sizeof *saved + parts * sizeof saved->part[0]);
    if (!saved)
        return NULL;
    *saved = (gt_saved){.references = 1,
                        .id = handle->id,
                        .scope = handle->scope,
                        .site = handle->site,
                        .meta = handle->meta,
                        .part_count = parts};
    if (!parts)
        saved->reason = handle->slot;
    if (spread) {
        saved->layout = gt__layout_retain(spread->layout);
        saved->ahead = spread->ahead;
    }
    for (unsigned k = 0; k < parts; k++) {
        uint32_t slot;
        saved->part[k].worker = place_of(handle, spread, k, &slot);
        saved->part[k].meta = handle->meta;
        if (spread && k < spread->layout->count)
            gt__layout_part(spread->layout, k, &handle->meta, &saved->part[k].meta);
    }
    if (!spread || note_copies(saved, spread))
        return saved;
    gt__saved_release(saved);
    return NULL;
}

/* Have the worker answer with the tensor in this slot, which goes into `part`. */
static gt_err fetch(gt_session *session, gt_snapshot *snapshot, const gt_saved *saved, gt_saved_part *part,
                    uint32_t slot)
{
    gt_dispatch_worker *worker = session->dispatcher->workers[part->worker];
    gt_slot *out = gt__worker_reserve(worker, 1);
    if (!out)
        return no_memory();
    gt_pending pending = {.session = session, .op = GT_OP_fetch, .tensor = saved->id, .save = part};
    gt_instruction question = {.op = GT_OP_fetch, .operand = {slot}};
    GT_TRY(gt__pendings_add(&worker->pendings, &pending, &question));
    out->ins = question;
    out->ins.flags = snapshot->strided ? 0 : GT_FLAG_INNER;
    gt__worker_put(worker, 1);
    snapshot->outstanding++;
    gt__share_records(session, worker, 1);
    return GT_OK;
}

/* Ask for the first element only: whether the worker has the tensor. */
static gt_err confirm(gt_session *session, gt_snapshot *snapshot, const gt_saved *saved, gt_saved_part *part,
                      uint32_t slot)
{
    enum { SLICE = 4 };
    gt_dispatch_worker *worker = session->dispatcher->workers[part->worker];
    uint32_t first = gt__slot_number_new(&worker->slots);
    gt_slot *out = first ? gt__worker_reserve(worker, SLICE) : NULL;
    if (!out)
        return no_memory();
    memset(out, 0, SLICE * sizeof *out);
    out->ins = (gt_instruction){.op = GT_OP_slice, .tail = SLICE - 1, .result = first, .operand = {slot}};
    for (unsigned axis = 0; axis < part->meta.rank; axis++)
        out[2].i64[axis] = out[3].i64[axis] = 1; /* from 0, in steps of 1, one element */
    gt__worker_put(worker, SLICE);
    gt_err err = fetch(session, snapshot, saved, part, first);
    gt__worker_tell(worker, &(gt_instruction){.op = GT_OP_free, .result = first});
    return err;
}

/* Whether the value of a part, besides those that were asked for, fits into what the server may use. */
static bool has_room(const gt_session *session, const gt_snapshot *snapshot, uint64_t bytes)
{
    const gt_dispatcher *dispatcher = session->dispatcher;
    uint64_t used = dispatcher->recovery.used + snapshot->asked_bytes, most = dispatcher->recovery.most;
    return dispatcher->recovery.spool ? gt__spool_has_room(dispatcher->recovery.spool, snapshot->due_bytes + bytes)
                                      : bytes <= most && used <= most - bytes;
}

/* Ask the worker for all of a part. One without bytes may have failed, too. */
static gt_err ask_all(gt_session *session, gt_snapshot *snapshot, const gt_saved *saved, gt_saved_part *part,
                      uint32_t slot)
{
    size_t bytes = gt__meta_bytes(&part->meta);
    if (bytes && !session->dispatcher->recovery.spool) {
        if (!(part->data = malloc(bytes)))
            return no_memory();
        snapshot->bytes += bytes;
    }
    GT_TRY(fetch(session, snapshot, saved, part, slot));
    gt__share_bytes(session, session->dispatcher->workers[part->worker], bytes);
    snapshot->asked_bytes += bytes;
    snapshot->due_bytes += bytes;
    return GT_OK;
}

/* Ask the worker for a part. The data of an upload is held; whether the worker has taken it is not known. What does not fit may have
 * failed, and others before it: then it needs no room. One without bytes needs none, and has no first element. */
static gt_err ask(gt_session *session, gt_snapshot *snapshot, const gt_saved *saved, gt_saved_part *part,
                  uint32_t slot)
{
    size_t bytes = gt__meta_bytes(&part->meta);
    if (!part->hold && (!bytes || has_room(session, snapshot, bytes)))
        return ask_all(session, snapshot, saved, part, slot);
    part->postponed = !part->hold;
    snapshot->postponed += part->postponed;
    return confirm(session, snapshot, saved, part, slot);
}

/* That its next tensor takes. */
static uint64_t memory_of(const gt_saved *saved)
{
    uint64_t bytes = sizeof *saved + saved->part_count * sizeof saved->part[0];
    for (unsigned k = 0; k < saved->part_count; k++) {
        const gt_saved_part *part = &saved->part[k];
        bytes += part->data ? gt__meta_bytes(&part->meta) : 0;
        bytes += part->failure ? failure_bytes(part->failure) : 0;
    }
    return bytes;
}

static void put(gt_snapshot *snapshot, gt_saved *saved)
{
    *place_in_index(snapshot, saved->id) = snapshot->count + 1;
    snapshot->tensor[snapshot->count++] = saved;
}

static gt_err save(gt_session *session, gt_snapshot *snapshot, const gt_snapshot *before, const gt_handle *handle,
                   unsigned *slots)
{
    const gt_spread *spread = spread_of(session, handle);
    gt_saved *saved = find_saved(before, handle->id);
    gt_err err = GT_OK;
    if (saved && is_placed_alike(saved, handle, spread)) {
        saved->references++;
        snapshot->bytes += memory_of(saved);
    } else {
        saved = saved_new(handle, spread);
        if (!saved)
            return no_memory();
        snapshot->bytes += memory_of(saved);
        if (!spread && saved->part_count)
            saved->part[0].hold = gt__holds_find(&session->recovery->holds, saved->id, &saved->meta);
        for (unsigned k = 0; k < saved->part_count && err == GT_OK; k++) {
            uint32_t slot;
            place_of(handle, spread, k, &slot);
            err = ask(session, snapshot, saved, &saved->part[k], slot);
        }
        *slots += saved->part_count;
    }
    put(snapshot, saved);
    return err;
}

/* The parts of the next tensor that were postponed, and have not failed. */
static gt_err save_rest(gt_session *session, gt_snapshot *snapshot, unsigned *slots)
{
    gt_saved *saved = snapshot->tensor[snapshot->rest++];
    const gt_handle *handle = gt__handles_find(&session->handles, saved->id);
    const gt_spread *spread = handle ? spread_of(session, handle) : NULL;
    for (unsigned k = 0; k < saved->part_count; k++) {
        gt_saved_part *part = &saved->part[k];
        uint32_t slot;
        if (!part->postponed)
            continue;
        part->postponed = false;
        snapshot->postponed--;
        if (part->failure)
            continue;
        if (!handle || !is_placed_alike(saved, handle, spread))
            return gt__fail(GT_ERR_UNSUPPORTED, "the tensor was placed in another way meanwhile");
        if (!has_room(session, snapshot, gt__meta_bytes(&part->meta)))
            return gt__fail(GT_ERR_MEMORY, "its tensors take more %s allows",
                            session->dispatcher->recovery.spool ? "of the disk than --recover-disk"
                                                                : "memory than --recover-memory");
        place_of(handle, spread, k, &slot);
        GT_TRY(ask_all(session, snapshot, saved, part, slot));
        ++*slots;
    }
    return GT_OK;
}

/* With room for so many tensors. */
static gt_err make_snapshot(uint32_t capacity, gt_snapshot **out)
{
    gt_snapshot *snapshot = calloc(1, sizeof *snapshot);
    *out = snapshot;
    if (!snapshot)
        return no_memory();
    snapshot->capacity = capacity;
    snapshot->index_bits = 4;
    while ((size_t)1 << snapshot->index_bits < 2 * (size_t)snapshot->capacity)
        snapshot->index_bits++;
    snapshot->tensor = malloc(((size_t)snapshot->capacity + 1) * sizeof *snapshot->tensor);
    snapshot->index = calloc((size_t)1 << snapshot->index_bits, sizeof *snapshot->index);
    if (snapshot->tensor && snapshot->index)
        return GT_OK;
    gt__snapshot_free(out);
    return no_memory();
}

gt_err gt__snapshot_new(const gt_session *session, bool strided, gt_snapshot **out)
{
    GT_TRY(make_snapshot(session->handles.count, out));
    (*out)->strided = strided;
    (*out)->asking = true;
    (*out)->sums_when = session->spreading ? (int)session->spreading->sums.when : -1;
    return GT_OK;
}

gt_err gt__snapshot_of(gt_saved **tensors, uint32_t count, gt_snapshot **out)
{
    GT_TRY(make_snapshot(count, out));
    for (uint32_t k = 0; k < count; k++) {
        (*out)->bytes += memory_of(tensors[k]);
        put(*out, tensors[k]);
    }
    return GT_OK;
}

gt_err gt__snapshot_ask(gt_session *session, gt_snapshot *snapshot, const gt_snapshot *before, unsigned *slots)
{
    const gt_handle *handle = gt__handles_next(&session->handles, &snapshot->cursor);
    bool room = snapshot->count < snapshot->capacity;
    gt_err err = GT_OK;
    *slots = 1;
    if (handle && room)
        err = save(session, snapshot, before, handle, slots);
    else if (!handle && snapshot->waits && !snapshot->failed)
        err = save_rest(session, snapshot, slots);
    snapshot->failed |= err != GT_OK || (handle && !room);
    snapshot->waits |= !handle;
    snapshot->asking = (handle || snapshot->postponed) && !snapshot->failed;
    return err;
}

/* Memory for a part that goes to the disk, while it comes. False: there is too much that was not written yet. */
static bool make_room(const gt_session *session, gt_snapshot *snapshot, gt_saved_part *part, size_t bytes)
{
    const gt_dispatcher *dispatcher = session->dispatcher;
    if (part->data)
        return true;
    snapshot->behind |= dispatcher->recovery.used + gt__spool_memory(dispatcher->recovery.spool) + bytes >
                        dispatcher->recovery.most;
    part->data = snapshot->behind ? NULL : malloc(bytes);
    return part->data;
}

/* All of a part has come. */
static void spool(const gt_session *session, gt_snapshot *snapshot, gt_saved_part *part, size_t bytes)
{
    if (!snapshot->failed)
        part->spooled = gt__spool_put(session->dispatcher->recovery.spool, part->data, bytes);
    if (!part->spooled)
        free(part->data);
    snapshot->failed |= !part->spooled;
    part->data = NULL;
}

/* The part does not exist: that is its value, too. One that failed with a connection is computed again, when the journal is placed. */
static bool keep_failure(gt_snapshot *snapshot, gt_saved_part *part, const gt_slot *record)
{
    size_t bytes = failure_bytes(record);
    bool lasts = record->ins.flags & GT_FLAG_POISON && record->ins.imm[0].i != GT_ERR_CONNECTION;
    if (!lasts || !(part->failure = malloc(bytes)))
        return false;
    memcpy(part->failure, record, bytes);
    snapshot->bytes += bytes - (part->data ? gt__meta_bytes(&part->meta) : 0);
    free(part->data);
    gt__hold_release(part->hold);
    part->data = NULL;
    part->hold = NULL;
    return true;
}

/* Whether this is a piece of its value, which is in the part from then on. */
static bool keep_piece(const gt_session *session, gt_snapshot *snapshot, gt_saved_part *part,
                       const gt_slot *record)
{
    const gt_instruction *ins = &record->ins;
    size_t bytes = gt__meta_bytes(&part->meta);
    if (ins->op != GT_OP_reply || ins->imm[0].u > bytes || ins->imm[1].u > bytes - ins->imm[0].u ||
        ins->imm[1].u > ins->tail * sizeof *record)
        return false;
    if (part->hold || part->postponed || !bytes)
        return true;
    if (session->dispatcher->recovery.spool && (snapshot->failed || !make_room(session, snapshot, part, bytes)))
        return false;
    memcpy(part->data + ins->imm[0].u, record + 1, ins->imm[1].u);
    return true;
}

void gt__snapshot_piece(gt_session *session, gt_saved_part *part, const gt_slot *record)
{
    gt_snapshot *snapshot = session->recovery->saving;
    const gt_instruction *ins = &record->ins;
    bool whole = !part->hold && !part->postponed, failure = ins->op == GT_OP_failure;
    size_t bytes = whole ? gt__meta_bytes(&part->meta) : 0;
    bool failed = failure && keep_failure(snapshot, part, record);
    snapshot->failed |= !failed && !keep_piece(session, snapshot, part, record);
    if (!failure && !(ins->flags & GT_FLAG_LAST))
        return;
    snapshot->outstanding--;
    snapshot->due_bytes -= bytes;
    if (failed)
        snapshot->asked_bytes -= bytes;
    else if (bytes && session->dispatcher->recovery.spool)
        spool(session, snapshot, part, bytes);
}

/* Consecutive snapshots share tensors: those that were changed with another one are as they should be. */
bool gt__snapshot_moved(gt_snapshot *snapshot, int32_t from, int32_t to)
{
    for (uint32_t k = 0; snapshot && k < snapshot->count; k++) {
        gt_saved *saved = snapshot->tensor[k];
        int member = saved->layout ? gt__layout_find(saved->layout, from) : -1;
        if (member >= 0) {
            gt_layout *layout = gt__layout_moved(saved->layout, from, to);
            if (!layout)
                return false;
            gt__layout_release(saved->layout);
            saved->layout = layout;
        }
        for (unsigned part = 0; part < saved->part_count; part++)
            if (saved->part[part].worker == from)
                saved->part[part].worker = to;
        for (unsigned copy = 0; copy < saved->copy_count; copy++)
            if (saved->copies[copy] == from)
                saved->copies[copy] = to;
    }
    return true;
}

bool gt__snapshot_gathered(const gt_snapshot *snapshot, int32_t worker)
{
    bool moved = false;
    for (uint32_t k = 0; snapshot && k < snapshot->count; k++) {
        gt_saved *saved = snapshot->tensor[k];
        if (saved->part_count && saved->part[0].worker != worker) {
            saved->part[0].worker = worker;
            moved = true;
        }
    }
    return moved;
}

/* ---- bringing it back --------------------------------------------------------------------------------------- */

static gt_err reserve(gt_session *session, gt_dispatch_worker *worker, unsigned slots, gt_slot **out)
{
    if (session->spreading)
        return gt__spread_reserve(session, worker->index, slots, out);
    *out = gt__worker_reserve(worker, slots);
    return *out ? GT_OK : no_memory();
}

/* Bytes of the next piece. */
static size_t next_piece(const gt_fill *fill)
{
    size_t left = gt__meta_bytes(&fill->part->meta) - fill->offset;
    return left < GT_MAX_CHUNK ? left : GT_MAX_CHUNK;
}

bool gt__saved_fill_is_ready(const gt_session *session)
{
    const gt_fills *fills = &session->recovery->fills;
    const gt_fill *fill = fills->count ? &fills->fill[fills->count - 1] : NULL;
    return !fill || !fill->part->spooled || gt__spooled_ready(fill->part->spooled, fill->offset, next_piece(fill));
}

/* The next piece of a part, from *offset on: an upload, or more data for it. */
static gt_err send_piece(gt_session *session, gt_fill *fill)
{
    gt_dispatch_worker *worker = session->dispatcher->workers[fill->worker];
    const gt_saved_part *part = fill->part;
    size_t bytes = gt__meta_bytes(&part->meta), piece = next_piece(fill);
    unsigned head = fill->offset ? 1 : 2, length = head + gt__slots_for(piece);
    gt_slot *out;
    GT_TRY(reserve(session, worker, length, &out));
    if (fill->offset) {
        out->ins = (gt_instruction){.op = GT_OP_data, .operand = {fill->slot}};
        out->ins.imm[0].u = fill->offset;
        out->ins.imm[1].u = piece;
    } else {
        out->ins = (gt_instruction){.op = GT_OP_upload, .result = fill->slot};
        out->ins.dtype = part->meta.dtype;
        out->ins.rank = part->meta.rank;
        out->ins.imm[0].u = bytes;
        memset(out + 1, 0, sizeof *out);
        memcpy(out[1].i64, part->meta.shape, part->meta.rank * sizeof part->meta.shape[0]);
    }
    out->ins.tail = (uint16_t)(length - 1);
    if (part->hold && !gt__segment_read(part->hold->segment, fill->offset, out + head, piece))
        return gt__fail(GT_ERR_CONNECTION, "a shared segment of the client cannot be read");
    if (part->spooled && !gt__spooled_read(part->spooled, fill->offset, out + head, piece))
        return gt__fail(GT_ERR_CONNECTION, "a snapshot cannot be read from the disk");
    if (piece && part->data)
        memcpy(out + head, part->data + fill->offset, piece);
    gt__slots_pad(out + head, piece);
    gt__worker_put(worker, length);
    gt__share_bytes(session, worker, piece);
    fill->offset += piece;
    return GT_OK;
}

static bool is_filled(const gt_fill *fill)
{
    return fill->offset >= gt__meta_bytes(&fill->part->meta);
}

gt_err gt__saved_fill(gt_session *session)
{
    gt_fills *fills = &session->recovery->fills;
    GT_TRY(send_piece(session, &fills->fill[fills->count - 1]));
    fills->count -= is_filled(&fills->fill[fills->count - 1]);
    return GT_OK;
}

/* The first piece at once, unless the disk has it; the others by gt__saved_fill. */
static gt_err upload(gt_session *session, const gt_saved_part *part, int32_t worker, uint32_t slot)
{
    gt_fills *fills = &session->recovery->fills;
    if (fills->count == fills->capacity) {
        uint32_t capacity = fills->capacity ? 2 * fills->capacity : 8;
        gt_fill *grown = realloc(fills->fill, capacity * sizeof *grown);
        if (!grown)
            return no_memory();
        fills->fill = grown;
        fills->capacity = capacity;
    }
    fills->fill[fills->count++] = (gt_fill){.part = part, .worker = worker, .slot = slot};
    return part->spooled ? GT_OK : gt__saved_fill(session);
}

/* The worker fails it again. Numbers of records in streams that have ended say nothing any more. */
static gt_err restore_failure(gt_session *session, const gt_slot *failure, gt_dispatch_worker *worker,
                              uint32_t slot)
{
    unsigned length = 1u + failure->ins.tail;
    gt_slot *out;
    GT_TRY(reserve(session, worker, length, &out));
    memcpy(out, failure, length * sizeof *out);
    out->ins.result = slot;
    out->ins.operand[1] = out->ins.operand[2] = 0;
    gt__worker_put(worker, length);
    return GT_OK;
}

static gt_err restore_part(gt_session *session, const gt_saved_part *part, int32_t index, uint32_t *slot)
{
    gt_dispatch_worker *worker = session->dispatcher->workers[index];
    *slot = gt__slot_number_new(&worker->slots);
    if (!*slot)
        return gt__fail(GT_ERR_MEMORY, "too many tensors on worker %s", worker->name);
    return part->failure ? restore_failure(session, part->failure, worker, *slot)
                         : upload(session, part, index, *slot);
}

/* Its parts by the members of its layout, and its copies. */
static gt_err restore_spread(gt_session *session, const gt_saved *saved, gt_handle *handle)
{
    const gt_layout *layout = saved->layout;
    bool replicated = layout->kind == GT_REPLICATED;
    gt_spread *spread = malloc(sizeof *spread + layout->count * sizeof spread->slot[0]);
    gt_err err = spread ? gt__spread_make_room(session, 1) : no_memory();
    if (err != GT_OK) {
        free(spread);
        return err;
    }
    *spread = (gt_spread){.layout = gt__layout_retain(saved->layout), .ahead = saved->ahead};
    memset(spread->slot, 0, layout->count * sizeof spread->slot[0]);
    gt__spread_put(session, handle, spread);
    for (unsigned k = 0; k < layout->count; k++)
        GT_TRY(
            restore_part(session, &saved->part[replicated ? 0 : k], layout->member[k].worker, &spread->slot[k]));
    gt_whole_copy **end = &spread->copies;
    for (unsigned k = 0; k < saved->copy_count; k++) {
        gt_whole_copy *copy = calloc(1, sizeof *copy);
        if (!copy)
            return no_memory();
        *end = copy;
        end = &copy->next;
        copy->worker = saved->copies[k];
        GT_TRY(restore_part(session, &saved->part[saved->part_count - 1], copy->worker, &copy->slot));
    }
    return GT_OK;
}

gt_err gt__saved_restore(gt_session *session, const gt_saved *saved)
{
    gt_handle *handle;
    GT_TRY(gt__handles_insert(&session->handles, saved->id, &handle));
    *handle = (gt_handle){.id = saved->id,
                          .worker = GT_NO_WORKER,
                          .slot = saved->reason,
                          .scope = saved->scope,
                          .site = saved->site,
                          .meta = saved->meta};
    if (!saved->part_count)
        return GT_OK;
    if (session->quota && !saved->part[0].failure) /* what was refused was not counted */
        GT_TRY(gt__quota_hold(session, handle));
    if (saved->layout)
        return restore_spread(session, saved, handle);
    int32_t index = saved->part[0].worker;
    uint32_t slot;
    GT_TRY(restore_part(session, &saved->part[0], index, &slot));
    handle->worker = index;
    handle->slot = slot;
    return GT_OK;
}

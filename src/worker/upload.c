/*
 * upload.c: see upload.h.
 *
 * Data in the stream is written to the engine's memory piece by piece. Data in a segment is used in place if the engine
 * works on host memory and the segment is large enough, and copied otherwise. An asynchronous engine may read its
 * source after `write` returns: pieces of the stream are copied for it, and a segment is kept until the write is done.
 */
#include "worker/upload.h"

#include <stdlib.h>
#include <string.h>

#include "worker/worker.h"

/* Small uploads are copied out of the segment at once. So are all uploads while a certain number of segments are in
 * use, because each costs its client and the dispatcher a descriptor. So are integers and masks: the client could still
 * change them, and an index must not change after it was checked. */
enum { ADOPT_BYTES = 1 << 20, MAX_ADOPTED = 128 };

static gt_err upload_adopt(gt_worker *worker, gt_segment *segment, gt_entry *entry)
{
    GT_TRY(gt__store_wrap_segment(worker->store, segment, &entry->buffer));
    entry->view.data = entry->buffer->memory;
    gt__view_set_contiguous(&entry->view);
    return GT_OK;
}

/* The origin of an upload's failure: it names the upload, also when a later piece fails. */
static gt_origin upload_origin(const gt_worker *worker, const gt_instruction *ins)
{
    gt_origin origin = gt__worker_origin(worker, ins);
    origin.op = GT_OP_upload;
    return origin;
}

static void segment_copied(gt_worker *worker, void *object, const gt_completion *done)
{
    (void)worker;
    (void)done;
    gt__segment_done(object);
    gt__segment_release(object);
}

static void copy_read(gt_worker *worker, void *object, const gt_completion *done)
{
    (void)worker;
    (void)done;
    free(object);
}

/* A copy of temporary bytes for an asynchronous engine. *copy is NULL if the engine is synchronous. */
static gt_err copy_for_engine(const gt_worker *worker, const void *from, size_t bytes, void **copy)
{
    *copy = NULL;
    if (!worker->engine->ops->asynchronous)
        return GT_OK;
    *copy = malloc(bytes);
    return *copy ? memcpy(*copy, from, bytes), GT_OK : gt__fail(GT_ERR_MEMORY, "out of memory");
}

/* Queue a write of `bytes` to the entry's memory, behind what was written before. `stays`: the bytes stay valid until
 * *token is completed. */
static gt_err write_piece(gt_worker *worker, const gt_instruction *ins, gt_entry *entry, uint64_t offset,
                          const void *from, size_t bytes, bool stays, gt_token *token)
{
    gt_engine *engine = worker->engine;
    void *copy = NULL;
    *token = 0;
    if (!bytes)
        return GT_OK;
    if (!stays)
        GT_TRY(copy_for_engine(worker, from, bytes, &copy));
    gt_err err = engine->ops->write(engine, (uint8_t *)entry->view.data + offset, copy ? copy : from, bytes,
                                    gt__timing_on(&worker->timing), token);
    gt__late_given(&worker->late, *token);
    if (err != GT_OK || !*token) {
        free(copy);
        return err;
    }
    gt_origin origin = upload_origin(worker, ins);
    gt_flight *before = entry->flight;
    entry->flight = gt__late_fly(worker, *token, &origin, &before, 1, &err);
    gt__flight_release(&worker->late, before);
    gt__timing_fly(worker, entry->flight, ins->op, false);
    if (copy)
        gt__late_when(worker, *token, copy_read, copy);
    return err;
}

/* Memory for the entry's tensor, and its first bytes. */
static gt_err upload_copy(gt_worker *worker, const gt_instruction *ins, gt_entry *entry, const void *from,
                          size_t bytes, bool stays, gt_token *token)
{
    GT_TRY(gt__store_allocate(worker->store, &entry->view, &entry->buffer));
    entry->flight = NULL;
    gt_err err = write_piece(worker, ins, entry, 0, from, bytes, stays, token);
    if (err != GT_OK)
        gt__buffer_release(worker->store, entry->buffer);
    return err;
}

static gt_err upload_from_segment(gt_worker *worker, const gt_instruction *ins, gt_entry *entry)
{
    size_t bytes = gt__meta_bytes(&entry->view.meta);
    gt_segment *segment =
        worker->link->ops->segment ? worker->link->ops->segment(worker->link, ins->imm[1].u) : NULL;
    if (!segment)
        return gt__fail(GT_ERR_INTERNAL, "upload: the segment is missing");
    bool adopt = worker->engine->ops->host_memory && bytes >= ADOPT_BYTES &&
                 worker->store->adopted < MAX_ADOPTED && gt__dtype_is_float((gt_dtype)entry->view.meta.dtype);
    gt_token token = 0;
    gt_err err = gt__segment_map(segment);
    if (err == GT_OK && segment->bytes < bytes)
        err = gt__fail(GT_ERR_INTERNAL, "upload: the segment is too small");
    entry->flight = NULL;
    if (err == GT_OK) {
        if (!adopt)
            gt__pins_use(worker, segment, bytes);
        gt__segment_busy(segment); /* the client wrote the data before it set the word */
        err = adopt ? upload_adopt(worker, segment, entry)
                    : upload_copy(worker, ins, entry, segment->data, bytes, true, &token);
    }
    if (err == GT_OK && token)
        gt__late_when(worker, token, segment_copied, gt__segment_retain(segment));
    else if (err != GT_OK || !adopt)
        gt__segment_done(segment);
    return err;
}

/* The entry's state after so many of its bytes were written or queued. */
static void set_filled(gt_entry *entry, uint64_t filled)
{
    entry->filled = filled;
    entry->state = filled < gt__meta_bytes(&entry->view.meta) ? GT_ENTRY_FILLING
                   : entry->flight                            ? GT_ENTRY_LATE
                                                              : GT_ENTRY_TENSOR;
}

gt_err gt__upload_start(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail, gt_entry *entry)
{
    size_t bytes = gt__meta_bytes(&entry->view.meta);
    if (ins->imm[1].u)
        GT_TRY(upload_from_segment(worker, ins, entry));
    else {
        gt_token token;
        bytes = bytes < GT_MAX_CHUNK ? bytes : GT_MAX_CHUNK;
        GT_TRY(upload_copy(worker, ins, entry, tail + 1, bytes, false, &token));
    }
    set_filled(entry, bytes);
    return GT_OK;
}

void gt__upload_append(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail)
{
    gt_entry *entry = gt__store_find(worker->store, ins->operand[0]);
    if (!entry || entry->state != GT_ENTRY_FILLING)
        return; /* poisoned at its start, which the reader sees, or complete already */
    uint64_t bytes = ins->imm[1].u, whole = gt__meta_bytes(&entry->view.meta);
    bool fits = ins->imm[0].u == entry->filled && bytes <= whole - entry->filled;
    gt_token token = 0;
    gt_err err = fits ? write_piece(worker, ins, entry, entry->filled, tail, bytes, false, &token)
                      : gt__fail(GT_ERR_PROTOCOL, "upload: pieces out of order");
    if (err != GT_OK) {
        gt_origin origin = upload_origin(worker, ins);
        gt_poison *poison = gt__worker_failure(worker, &origin, err, gt_error_text());
        gt__store_clear(worker->store, entry);
        entry->poison = poison;
        entry->state = GT_ENTRY_POISON;
        return;
    }
    set_filled(entry, entry->filled + bytes);
}

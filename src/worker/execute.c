/*
 * execute.c: one instruction, from slot numbers to a result in the store.
 *
 * resolve operands -> infer (which also validates) -> a view, an upload, or memory plus the engine -> keep the result.
 * Whatever fails becomes poison in the result slot; operands that are poison pass theirs on.
 */
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "worker/views.h"
#include "worker/worker.h"

typedef struct operands {
    const gt_view *view[GT_MAX_CAT];
    const gt_meta *meta[GT_MAX_CAT]; /* NULL: a literal */
    unsigned count;
    gt_view literal[GT_MAX_OPERANDS];
    gt_imm value[GT_MAX_OPERANDS];
    gt_poison *poison; /* of the first poisoned operand */
} operands;

static void literal_view(const gt_instruction *ins, unsigned k, gt_view *view, gt_imm *value)
{
    static const gt_dtype dtypes[] = {
        [GT_LITERAL_BOOL] = GT_BOOL, [GT_LITERAL_INT] = GT_INT64, [GT_LITERAL_FLOAT] = GT_FLOAT64};
    *value = ins->literal[k];
    if (gt__literal(ins, k) == GT_LITERAL_BOOL)
        *(uint8_t *)value = ins->literal[k].i != 0;
    view->data = NULL;
    view->meta.numel = 1;
    view->meta.rank = 0;
    view->meta.dtype = (uint8_t)dtypes[gt__literal(ins, k)];
    view->contiguous = true;
}

static gt_err resolve_slot(gt_worker *worker, const gt_instruction *ins, uint64_t slot, operands *o)
{
    gt_entry *entry = gt__store_find(worker->store, slot);
    if (__builtin_expect(!entry || entry->state != GT_ENTRY_TENSOR, 0)) {
        if (!entry || entry->state == GT_ENTRY_EMPTY)
            return gt__fail(GT_ERR_INTERNAL, "%s: the worker has no tensor in slot %llu",
                            gt__op_table[ins->op].name, (unsigned long long)slot);
        if (entry->state == GT_ENTRY_FILLING)
            return gt__fail(GT_ERR_PROTOCOL, "%s: an operand's upload is not complete",
                            gt__op_table[ins->op].name);
        if (!o->poison)
            o->poison = entry->poison;
    }
    o->view[o->count] = &entry->view;
    o->meta[o->count] = &entry->view.meta;
    o->count++;
    return GT_OK;
}

static gt_err resolve(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail, operands *o)
{
    if (ins->op == GT_OP_cat) {
        for (int64_t k = 0; k < ins->imm[1].i; k++)
            GT_TRY(resolve_slot(worker, ins, tail[k / 8].u64[k % 8], o));
        return GT_OK;
    }
    unsigned count = gt__op_operands((gt_opcode)ins->op);
    for (unsigned k = 0; k < count; k++) {
        if (gt__literal(ins, k) == GT_LITERAL_NONE) {
            GT_TRY(resolve_slot(worker, ins, ins->operand[k], o));
            continue;
        }
        literal_view(ins, k, &o->literal[k], &o->value[k]);
        o->view[o->count] = &o->literal[k];
        o->meta[o->count++] = NULL;
    }
    return GT_OK;
}

/* ---- uploads ----------------------------------------------------------------------------------------------- */

/* Small uploads are copied out of the segment at once, and so are all beyond a number, so that a few segments serve any
 * number of tensors: each one in use costs its client and the dispatcher a descriptor. So are integers and masks: the
 * client could still change them, and an index must stay what it was when it was checked. */
enum { ADOPT_BYTES = 1 << 20, MAX_ADOPTED = 128 };

/* Memory for the view, filled with the first `bytes` of it. */
static gt_err upload_copy(gt_worker *worker, const void *from, size_t bytes, gt_view *view, gt_buffer **buffer)
{
    GT_TRY(gt__store_allocate(worker->store, view, buffer));
    gt_err err = bytes ? worker->engine->ops->write(worker->engine, view->data, from, bytes, &(gt_token){0}) : GT_OK;
    if (err != GT_OK)
        gt__buffer_release(worker->store, *buffer);
    return err;
}

static gt_err upload_adopt(gt_worker *worker, gt_segment *segment, gt_view *view, gt_buffer **buffer)
{
    GT_TRY(gt__store_wrap_segment(worker->store, segment, buffer));
    view->data = (*buffer)->memory;
    gt__view_set_contiguous(view);
    return GT_OK;
}

static gt_err upload_from_segment(gt_worker *worker, uint64_t id, gt_view *view, gt_buffer **buffer)
{
    size_t bytes = gt__meta_bytes(&view->meta);
    gt_segment *segment = worker->link->ops->segment ? worker->link->ops->segment(worker->link, id) : NULL;
    if (!segment)
        return gt__fail(GT_ERR_INTERNAL, "upload: the segment is missing");
    bool adopt = worker->engine->ops->host_memory && bytes >= ADOPT_BYTES &&
                 worker->store->adopted < MAX_ADOPTED && gt__dtype_is_float((gt_dtype)view->meta.dtype);
    gt_err err = gt__segment_map(segment);
    if (err == GT_OK && segment->bytes < bytes)
        err = gt__fail(GT_ERR_INTERNAL, "upload: the segment is too small");
    if (err == GT_OK) {
        gt__segment_busy(segment); /* the client wrote the data before it set the word */
        err = adopt ? upload_adopt(worker, segment, view, buffer)
                    : upload_copy(worker, segment->data, bytes, view, buffer);
    }
    if (err != GT_OK || !adopt)
        gt__segment_done(segment);
    return err;
}

static gt_err start_upload(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail, gt_view *view,
                           gt_buffer **buffer, uint64_t *filled)
{
    size_t bytes = gt__meta_bytes(&view->meta);
    if (ins->imm[1].u) {
        *filled = bytes;
        return upload_from_segment(worker, ins->imm[1].u, view, buffer);
    }
    *filled = bytes < GT_MAX_CHUNK ? bytes : GT_MAX_CHUNK;
    return upload_copy(worker, tail + 1, *filled, view, buffer);
}

void gt__worker_append(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail)
{
    gt_entry *entry = gt__store_find(worker->store, ins->operand[0]);
    if (!entry || entry->state != GT_ENTRY_FILLING)
        return; /* poisoned at its start: the reader will hear of that. Or complete: what is there stays */
    uint64_t bytes = ins->imm[1].u, whole = gt__meta_bytes(&entry->view.meta);
    bool fits = ins->imm[0].u == entry->filled && bytes <= whole - entry->filled;
    uint8_t *to = (uint8_t *)entry->view.data + entry->filled;
    gt_err err = fits ? worker->engine->ops->write(worker->engine, to, tail, bytes, &(gt_token){0})
                      : gt__fail(GT_ERR_PROTOCOL, "upload: pieces out of order");
    if (err != GT_OK) {
        gt__store_clear(worker->store, entry);
        entry->poison = gt__poison_new(err, gt_error_text());
        entry->state = GT_ENTRY_POISON;
        return;
    }
    entry->filled += bytes;
    if (entry->filled == whole)
        entry->state = GT_ENTRY_TENSOR;
}

/* ---- running ----------------------------------------------------------------------------------------------- */

static bool may_update_in_place(const gt_instruction *ins, const operands *o, const gt_entry *first)
{
    gt_form form = (gt_form)gt__op_table[ins->op].form;
    for (unsigned k = 1; k < o->count; k++)
        if (o->view[k] == &first->view)
            return false; /* what is read must not change meanwhile */
    return (ins->flags & GT_FLAG_CONSUMES) && (form == GT_FORM_ASSIGN || form == GT_FORM_SCATTER) &&
           first->view.contiguous && first->buffer->references == 1 && !first->buffer->segment;
}

static gt_err run_engine(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail, const operands *o,
                         gt_dtype compute, gt_view *view, gt_buffer **buffer)
{
    const gt_entry *first = ins->flags & GT_FLAG_CONSUMES ? gt__store_find(worker->store, ins->operand[0]) : NULL;
    if (first && may_update_in_place(ins, o, first)) {
        *view = first->view;
        *buffer = first->buffer;
        first->buffer->references++;
    } else
        GT_TRY(gt__store_allocate(worker->store, view, buffer));
    uint8_t literals = 0;
    for (unsigned k = 0; k < o->count && k < GT_MAX_OPERANDS; k++)
        literals |= (uint8_t)(!o->meta[k] << k);
    gt_call call = {.op = (gt_opcode)ins->op,
                    .literals = literals,
                    .value = {o->value[0], o->value[1], o->value[2]},
                    .compute = compute,
                    .ins = ins,
                    .tail = tail,
                    .operands = o->count,
                    .in = o->view,
                    .out = view};
    gt_err err = worker->engine->ops->run(worker->engine, &call, &(gt_token){0});
    if (err != GT_OK)
        gt__buffer_release(worker->store, *buffer);
    return err;
}

static gt_err compute_result(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail, const operands *o,
                             gt_view *view, gt_buffer **buffer, uint64_t *filled)
{
    gt_dtype compute;
    GT_TRY(gt__op_infer(ins, tail, o->meta, &view->meta, &compute));
    switch ((gt_form)gt__op_table[ins->op].form) {
    case GT_FORM_UPLOAD:
        return start_upload(worker, ins, tail, view, buffer, filled);
    case GT_FORM_RESHAPE:
    case GT_FORM_PERMUTE:
    case GT_FORM_EXPAND:
    case GT_FORM_SLICE:
    case GT_FORM_DIAGONAL:
    case GT_FORM_UNFOLD:
        if (gt__view_of(o->view[0], ins, tail, view)) {
            *buffer = gt__store_entry(worker->store, ins->operand[0])->buffer;
            (*buffer)->references++;
            return GT_OK;
        }
        return run_engine(worker, ins, tail, o, compute, view, buffer);
    default:
        return run_engine(worker, ins, tail, o, compute, view, buffer);
    }
}

static void keep_poison(gt_entry *entry, gt_poison *shared)
{
    entry->poison = shared;
    shared->references++;
    entry->state = GT_ENTRY_POISON;
}

/* The first failure: says which operation it was, and where. */
static void keep_failure(gt_worker *worker, const gt_instruction *ins, gt_err err, gt_entry *entry)
{
    const char *name = ins->op == GT_OP_wrap_index ? "indexing" : gt__op_table[ins->op].name;
    const char *why = gt_error_text();
    size_t length = strlen(name);
    char text[1200];
    if (strncmp(why, name, length) == 0 && why[length] == ':')
        why += length + 2;
    snprintf(text, sizeof text, "%s: %s (on %s)", name, why, worker->name);
    gt__log(GT_LOG_WORKER, "%s", text);
    entry->poison = gt__poison_new(err, text);
    entry->poison->origin = gt__worker_origin(worker, ins);
    entry->state = GT_ENTRY_POISON;
}

/*
 * The straight way for what streams are made of: elementwise on whole float tensors of one shape, or on one and a
 * literal, into memory that was used before. False: nothing was done, the long way will do it.
 */
static bool execute_alike(gt_worker *worker, const gt_instruction *ins, gt_entry *result)
{
    const gt_op_row *row = &gt__op_table[ins->op];
    if (!row->alike || ins->flags)
        return false;
    const gt_view *in[2] = {NULL, NULL}, *like = NULL;
    gt_view literal;
    gt_imm value[2] = {{0}};
    uint8_t literals = 0;
    for (unsigned k = 0; k < row->operands; k++) {
        if (gt__literal(ins, k) != GT_LITERAL_NONE) {
            literal_view(ins, k, &literal, &value[k]);
            literals |= (uint8_t)(1 << k);
            in[k] = &literal;
            continue;
        }
        const gt_entry *entry = gt__store_find(worker->store, ins->operand[k]);
        if (!entry || entry->state != GT_ENTRY_TENSOR || !entry->view.contiguous)
            return false;
        in[k] = &entry->view;
        if (!like)
            like = in[k];
        else if (in[k] != like &&
                 (in[k]->meta.dtype != like->meta.dtype || !gt__meta_same_shape(&in[k]->meta, &like->meta)))
            return false;
    }
    if (!like || !gt__dtype_is_float((gt_dtype)like->meta.dtype))
        return false;
    gt_buffer *buffer = gt__store_reuse(worker->store, gt__store_class(gt__meta_bytes(&like->meta)));
    if (!buffer)
        return false;
    gt__meta_copy(&result->view.meta, &like->meta);
    if (like->meta.rank <= 2)
        memcpy(result->view.stride, like->stride, 2 * sizeof like->stride[0]);
    else
        memcpy(result->view.stride, like->stride, sizeof like->stride);
    result->view.contiguous = true;
    result->view.data = buffer->memory;
    result->buffer = buffer;
    gt_call call = {.op = (gt_opcode)ins->op,
                    .literals = literals,
                    .value = {value[0], value[1]},
                    .compute = (gt_dtype)like->meta.dtype,
                    .ins = ins,
                    .operands = row->operands,
                    .in = in,
                    .out = &result->view};
    gt_err err = worker->engine->ops->run(worker->engine, &call, &(gt_token){0});
    result->state = GT_ENTRY_TENSOR;
    if (__builtin_expect(err != GT_OK, 0)) {
        gt__buffer_release(worker->store, buffer);
        keep_failure(worker, ins, err, result);
    }
    return true;
}

/* Apart, so that the straight way does without the room that the operands of the longest record take. */
static __attribute__((noinline)) void execute_fully(gt_worker *worker, const gt_instruction *ins,
                                                    const gt_slot *tail, gt_entry *result)
{
    operands o;
    o.count = 0;
    o.poison = NULL;
    gt_buffer *buffer = NULL;
    gt_err err = resolve(worker, ins, tail, &o);
    if (err == GT_OK && !o.poison)
        err = compute_result(worker, ins, tail, &o, &result->view, &buffer, &result->filled);
    if (err != GT_OK) {
        keep_failure(worker, ins, err, result);
    } else if (o.poison)
        keep_poison(result, o.poison);
    else {
        bool filling = ins->op == GT_OP_upload && result->filled < gt__meta_bytes(&result->view.meta);
        result->buffer = buffer;
        result->state = filling ? GT_ENTRY_FILLING : GT_ENTRY_TENSOR;
    }
    gt_entry *consumed = ins->flags & GT_FLAG_CONSUMES ? gt__store_find(worker->store, ins->operand[0]) : NULL;
    if (consumed)
        gt__store_clear(worker->store, consumed);
}

void gt__worker_execute(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail)
{
    /* Grow the table for the result first: operands below point into it. */
    gt_entry *result = gt__store_entry(worker->store, ins->result);
    if (!result) {
        gt__log_error("worker %s: slot %llu is out of range", worker->name, (unsigned long long)ins->result);
        return;
    }
    if (__builtin_expect(result->state != GT_ENTRY_EMPTY, 0))
        gt__store_clear(worker->store, result);
    if (__builtin_expect(!execute_alike(worker, ins, result), 0))
        execute_fully(worker, ins, tail, result);
}

gt_err gt__worker_contiguous(gt_worker *worker, const gt_entry *entry, gt_view *view, gt_buffer **temporary)
{
    *temporary = NULL;
    if (entry->view.contiguous) {
        *view = entry->view;
        return GT_OK;
    }
    gt_instruction copy = {.op = GT_OP_copy, .dtype = entry->view.meta.dtype};
    const gt_view *in = &entry->view;
    view->meta = entry->view.meta;
    GT_TRY(gt__store_allocate(worker->store, view, temporary));
    gt_call call = {.op = GT_OP_copy,
                    .compute = (gt_dtype)entry->view.meta.dtype,
                    .ins = &copy,
                    .operands = 1,
                    .in = &in,
                    .out = view};
    gt_err err = worker->engine->ops->run(worker->engine, &call, &(gt_token){0});
    if (err != GT_OK) {
        gt__buffer_release(worker->store, *temporary);
        *temporary = NULL;
    }
    return err;
}

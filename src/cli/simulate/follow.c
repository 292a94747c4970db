/*
 * cli/simulate/follow.c: follows the stream of one worker: what is in each slot, which record made it, and so what each record
 * needs and costs. As the worker itself does it, record by record (op_infer.c).
 */
#include <stdlib.h>
#include <string.h>

#include "cli/simulate/simulate.h"
#include "core/record.h"
#include "dispatcher/paths.h"
#include "worker/peers/collective.h"

typedef struct slot_state {
    gt_sim_tensor tensor;
    uint32_t maker; /* item, plus one; 0: the slot is empty */
} slot_state;

struct gt_follower {
    gt_streams *streams;
    gt_sim_stream *stream;
    slot_state *slots;
    size_t slot_count;
    gt_path_pieces pieces;
    size_t paths[GT_WORKER_PATHS]; /* by number: of streams->paths, plus one */
};

gt_follower *gt__follower_new(gt_streams *streams, unsigned worker)
{
    gt_follower *f = gt__zeroed(1, sizeof *f);
    *f = (gt_follower){.streams = streams, .stream = &streams->stream[worker]};
    return f;
}

void gt__follower_free(gt_follower **where)
{
    if (*where) {
        gt__path_pieces_free(&(*where)->pieces);
        free((*where)->slots);
    }
    free(*where);
    *where = NULL;
}

static slot_state *slot_at(gt_follower *f, uint64_t slot)
{
    if (slot >= f->slot_count) {
        size_t count = 2 * (size_t)slot + 64;
        f->slots = realloc(f->slots, count * sizeof *f->slots);
        if (!f->slots)
            gt__out_of_memory();
        memset(f->slots + f->slot_count, 0, (count - f->slot_count) * sizeof *f->slots);
        f->slot_count = count;
    }
    return &f->slots[slot];
}

/* What a record reads; NULL: the worker has no such tensor. */
static const slot_state *operand_at(gt_follower *f, uint64_t slot)
{
    const slot_state *state = slot < f->slot_count ? &f->slots[slot] : NULL;
    return state && state->maker ? state : NULL;
}

static gt_err unknown(const gt_instruction *ins, uint64_t slot)
{
    return gt__fail(GT_ERR_PROTOCOL, "%s of slot %llu, which has no tensor", gt__op_table[ins->op].name,
                    (unsigned long long)slot);
}

/* ---- items --------------------------------------------------------------------------------------------------- */

static uint32_t shape_number(gt_streams *s, const gt_meta *meta)
{
    for (size_t k = s->shape_count; k-- > 0;)
        if (s->shapes[k].dtype == meta->dtype && gt__meta_same_shape(&s->shapes[k], meta))
            return (uint32_t)k + 1;
    *GT_PUSH(s->shapes, s->shape_count, s->shape_capacity) = *meta;
    return (uint32_t)s->shape_count;
}

static gt_sim_item *item_new(gt_follower *f, uint32_t cause, gt_sim_kind kind, const gt_slot *record)
{
    gt_sim_stream *stream = f->stream;
    gt_sim_item *item = GT_PUSH(stream->items, stream->count, stream->capacity);
    *item = (gt_sim_item){.cause = cause,
                          .kind = (uint8_t)kind,
                          .needs = (uint32_t)stream->need_count,
                          .peer = -1,
                          .bytes = (1u + record->ins.tail) * sizeof *record};
    f->streams->causes[cause].items++;
    return item;
}

static void need(gt_follower *f, gt_sim_item *item, const slot_state *state)
{
    gt_sim_stream *stream = f->stream;
    *GT_PUSH(stream->needs, stream->need_count, stream->need_capacity) = state->maker - 1;
    item->need_count++;
}

/* The item makes the tensor in this slot. */
static void make(gt_follower *f, gt_sim_item *item, uint64_t slot, const gt_meta *meta, uint64_t permuted)
{
    slot_state *state = slot_at(f, slot);
    *state = (slot_state){.tensor = {.meta = *meta, .permuted = permuted}, .maker = (uint32_t)f->stream->count};
    item->shape = shape_number(f->streams, meta);
}

static void empty(gt_follower *f, uint64_t slot)
{
    if (slot < f->slot_count)
        f->slots[slot].maker = 0;
}

/* ---- records ------------------------------------------------------------------------------------------------- */

static gt_err compute(gt_follower *f, uint32_t cause, const gt_slot *record)
{
    const gt_instruction *ins = &record->ins;
    gt_operands operands = gt__record_operands(ins, record + 1);
    const gt_sim_tensor *tensor[GT_MAX_CAT];
    const gt_meta *meta[GT_MAX_CAT];
    gt_meta out;
    gt_dtype compute_dtype;
    gt_sim_item *item = item_new(f, cause, GT_SIM_COMPUTE, record);
    for (unsigned k = 0; k < operands.count; k++) {
        tensor[k] = NULL;
        meta[k] = NULL;
        if (!gt__operand_is_tensor(&operands, k))
            continue;
        const slot_state *state = operand_at(f, operands.id[k]);
        if (!state)
            return unknown(ins, operands.id[k]);
        need(f, item, state);
        tensor[k] = &state->tensor;
        meta[k] = &state->tensor.meta;
    }
    GT_TRY(gt__op_infer(ins, record + 1, meta, &out, &compute_dtype));
    item->work = gt__work_of(f->streams, record, tensor, operands.count, &out);
    bool permutes = ins->op == GT_OP_permute && !tensor[0]->permuted;
    uint64_t consumed = gt__record_consumed(ins);
    if (consumed)
        empty(f, consumed);
    make(f, item, ins->result, &out, permutes ? ins->imm[0].u : 0);
    return GT_OK;
}

static gt_err take_collective(gt_follower *f, uint32_t cause, const gt_slot *record)
{
    const gt_instruction *ins = &record->ins;
    const gt_partner *party = (const gt_partner *)(record + 2);
    unsigned parties = (unsigned)ins->imm[1].u, self = (unsigned)ins->operand[1];
    unsigned after = ins->operand[2] >> 8 & 0xff;
    gt_meta whole, out;
    GT_TRY(gt__meta_set(&whole, (gt_dtype)ins->dtype, ins->rank, record[1].i64));
    out = whole;
    if (ins->op == GT_OP_reduce_scatter || ins->op == GT_OP_all_to_all) {
        int64_t start, count;
        gt__partner_part(party, parties, self, true, whole.shape[after], &start, &count);
        out = gt__meta_narrowed(&whole, after, count);
    }
    gt_sim_item *item = item_new(f, cause, GT_SIM_COLLECTIVE, record);
    bool receives = ins->op == GT_OP_broadcast && self;
    const slot_state *state = receives ? NULL : operand_at(f, ins->operand[0]);
    if (!receives && !state)
        return unknown(ins, ins->operand[0]);
    if (state)
        need(f, item, state);
    item->tag = ins->imm[0].u;
    item->bytes = gt__meta_bytes(&whole);
    item->work = gt__work_of_move(f->streams, (gt_opcode)ins->op, &whole, parties, (double)gt__meta_bytes(&out));
    make(f, item, ins->result, &out, 0);
    return GT_OK;
}

static gt_err take_move(gt_follower *f, uint32_t cause, const gt_slot *record)
{
    const gt_instruction *ins = &record->ins;
    bool sends = ins->op == GT_OP_send;
    gt_sim_item *item = item_new(f, cause, sends ? GT_SIM_SEND : GT_SIM_RECV, record);
    gt_meta meta;
    const slot_state *state = sends ? operand_at(f, ins->operand[0]) : NULL;
    if (sends && !state)
        return unknown(ins, ins->operand[0]);
    item->last = sends && ins->flags & GT_FLAG_LAST;
    if (sends) {
        meta = state->tensor.meta;
        need(f, item, state);
    } else
        GT_TRY(gt__meta_set(&meta, (gt_dtype)ins->dtype, ins->rank, record[1].i64));
    item->peer = (int32_t)ins->imm[0].i;
    item->tag = ins->imm[1].u;
    item->work = gt__work_of_move(f->streams, (gt_opcode)ins->op, &meta, 1, (double)gt__meta_bytes(&meta));
    item->shape = shape_number(f->streams, &meta);
    if (!sends) {
        item->bytes = gt__meta_bytes(&meta);
        make(f, item, ins->result, &meta, 0);
    }
    return GT_OK;
}

/* A question of a client, more bytes of an upload, or slots that are free. */
static gt_err take_control(gt_follower *f, uint32_t cause, const gt_slot *record)
{
    const gt_instruction *ins = &record->ins;
    bool asks = ins->op == GT_OP_fetch || ins->op == GT_OP_sync, reads = asks && ins->op == GT_OP_fetch;
    gt_sim_item *item = item_new(f, cause,
                                 asks                    ? GT_SIM_ANSWER
                                 : ins->op == GT_OP_free ? GT_SIM_FREE
                                                         : GT_SIM_COMPUTE,
                                 record);
    gt_meta none = {0};
    slot_state *state = NULL;
    if (reads || ins->op == GT_OP_data) {
        if (!operand_at(f, ins->operand[0]))
            return unknown(ins, ins->operand[0]);
        state = slot_at(f, ins->operand[0]);
        need(f, item, state);
        item->shape = reads ? shape_number(f->streams, &state->tensor.meta) : 0;
    }
    item->work = gt__work_of_move(f->streams, (gt_opcode)ins->op, reads ? &state->tensor.meta : &none, 1,
                                  reads ? (double)gt__meta_bytes(&state->tensor.meta) : 0);
    if (ins->op == GT_OP_data)
        state->maker = (uint32_t)f->stream->count;
    item->last = asks;
    f->streams->causes[cause].answers += asks;
    const uint64_t *freed = gt__free_ids(ins);
    for (unsigned k = 0; ins->op == GT_OP_free && k < GT_FREE_IDS; k++)
        empty(f, freed[k]);
    return GT_OK;
}

/* The definition of a hot path, or a piece of it. */
static gt_err learn_path(gt_follower *f, const gt_slot *record)
{
    gt_streams *s = f->streams;
    gt_path *path = NULL;
    if (record->ins.result >= GT_WORKER_PATHS)
        return gt__fail(GT_ERR_PROTOCOL, "path %llu is not a number of one",
                        (unsigned long long)record->ins.result);
    if (record->ins.imm[1].u)
        GT_TRY(gt__path_piece(&f->pieces, record, &path));
    f->paths[record->ins.result] = 0;
    if (!path)
        return GT_OK;
    *GT_PUSH(s->paths, s->path_count, s->path_capacity) =
        (struct gt_sim_path){.path = path, .hash = gt__path_hash(path)};
    f->paths[record->ins.result] = s->path_count;
    return GT_OK;
}

static gt_err run_path(gt_follower *f, uint32_t cause, const gt_slot *record)
{
    const gt_instruction *ins = &record->ins;
    size_t known = ins->result < GT_WORKER_PATHS ? f->paths[ins->result] : 0;
    if (ins->operand[0])
        return GT_OK; /* the rest of a run that was paused */
    if (!known)
        return gt__fail(GT_ERR_PROTOCOL, "a run of a path that is not known");
    struct gt_sim_path found = f->streams->paths[known - 1];
    const gt_path *path = found.path;
    const gt_sim_tensor **inputs = gt__zeroed(path->inputs + 1, sizeof(const gt_sim_tensor *));
    gt_sim_item *item = item_new(f, cause, GT_SIM_COMPUTE, record);
    gt_err err = GT_OK;
    for (uint32_t k = 0; k < path->inputs && err == GT_OK; k++) {
        const slot_state *state = operand_at(f, gt__path_word(record, k));
        if (!state)
            err = unknown(ins, gt__path_word(record, k));
        else {
            need(f, item, state);
            inputs[k] = &state->tensor;
        }
    }
    if (err == GT_OK)
        err = gt__work_of_path(f->streams, &found, inputs, &item->work);
    free(inputs);
    for (uint32_t k = 0; k < path->inputs && err == GT_OK; k++)
        if (path->dies[k])
            empty(f, gt__path_word(record, k));
    for (uint32_t k = 0; k < path->outputs && err == GT_OK; k++)
        make(f, item, gt__path_word(record, path->inputs + k), &f->streams->works[item->work].outputs[k], 0);
    return err;
}

gt_err gt__follow(gt_follower *f, uint32_t cause, const gt_slot *record)
{
    gt_opcode op = (gt_opcode)record->ins.op;
    if (f->stream->count >= UINT32_MAX - 1)
        return gt__fail(GT_ERR_VALUE, "the tape is too long: more than %u records for one worker", UINT32_MAX - 1);
    if (op < GT_OP_FIRST_CONTROL)
        return compute(f, cause, record);
    switch (op) {
    case GT_OP_send:
    case GT_OP_recv:
        f->streams->tags = record->ins.imm[1].u >= f->streams->tags ? record->ins.imm[1].u + 1 : f->streams->tags;
        return take_move(f, cause, record);
    case GT_OP_all_reduce:
    case GT_OP_reduce_scatter:
    case GT_OP_all_gather:
    case GT_OP_broadcast:
    case GT_OP_all_to_all:
        f->streams->tags = record->ins.imm[0].u >= f->streams->tags ? record->ins.imm[0].u + 1 : f->streams->tags;
        return take_collective(f, cause, record);
    case GT_OP_path:
        return learn_path(f, record);
    case GT_OP_repeat:
        return run_path(f, cause, record);
    case GT_OP_free:
    case GT_OP_data:
    case GT_OP_fetch:
    case GT_OP_sync:
        return take_control(f, cause, record);
    default:
        return gt__fail(GT_ERR_PROTOCOL, "a worker is sent %s, which cannot be simulated", gt__op_table[op].name);
    }
}

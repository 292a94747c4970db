/*
 * records.h: inputs that are rows of slots. libFuzzer's own mutations hardly ever make a valid record, so ours inserts whole
 * groups: an op of the table, taken from record_examples.h, behind records that make the operands it needs. Ids in such records
 * count back from the record (1: the tensor made last), so that they still fit after records before them were taken away;
 * records_number makes ids of them.
 */
#ifndef GT_TESTS_FUZZ_RECORDS_H
#define GT_TESTS_FUZZ_RECORDS_H

#include "random_numbers.h"
#include "record_examples.h"
#include "core/record.h"
#include "fuzz.h"

enum { RECORDS_GROUP = EXAMPLE_SLOTS + 2 * GT_MAX_OPERANDS };

/* A record that makes a tensor of this shape and dtype: two slots. */
static inline void record_filling(const gt_meta *meta, uint64_t value, gt_slot *out)
{
    memset(out, 0, 2 * sizeof *out);
    out->ins = (gt_instruction){.op = GT_OP_full, .dtype = meta->dtype, .rank = meta->rank, .tail = 1};
    out->ins.imm[0].f = (double)value;
    if (!gt__dtype_is_inexact((gt_dtype)meta->dtype))
        out->ins.imm[0].u = value;
    memcpy(out[1].i64, meta->shape, sizeof meta->shape);
}

/* An op behind the records that make its operands. Returns the slots used, RECORDS_GROUP at most. */
static inline unsigned record_group(numbers *n, gt_slot *out)
{
    static example e;
    unsigned slots = 0;
    gt_opcode op = (gt_opcode)(1 + numbers_below(n, GT_OP_COUNT - 1));
    example_make(op, &e);
    if (op < GT_OP_FIRST_CONTROL) {
        unsigned operands = op == GT_OP_cat ? 1 : gt__op_operands(op);
        gt_operands ids = gt__record_operands(&e.record->ins, e.record + 1);
        for (unsigned k = 0; k < operands; k++, slots += 2)
            record_filling(&e.operand[k], numbers_below(n, 3), out + slots);
        for (unsigned k = 0; k < ids.count; k++)
            ids.id[k] = op == GT_OP_cat ? 1 : operands - k;
    }
    unsigned length = 1u + e.record->ins.tail;
    memcpy(out + slots, e.record, length * sizeof *out);
    return slots + length;
}

/* The records of an input, one after another; false at the end, or where the rest is no record. */
static inline bool records_next(const gt_slot *slots, size_t count, size_t *at, unsigned *length)
{
    if (*at >= count || gt__instruction_check(slots + *at, count - *at, length) != GT_OK)
        return false;
    return true;
}

/* Replace what counts back by ids: results get the next id, operands those of the tensors they mean. */
static inline void records_number(gt_slot *record, uint64_t *next)
{
    for (gt_record_ids ids = gt__record_ids(record); gt__record_ids_next(&ids);)
        if (ids.id != ids.result && *ids.id < *next)
            *ids.id = *next - *ids.id;
    if (record->ins.op < GT_OP_FIRST_CONTROL)
        record->ins.result = (*next)++;
}

static inline size_t records_mutate(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    numbers n = {.state = seed + 1u};
    size_t count = size / sizeof(gt_slot), room = most / sizeof(gt_slot);
    gt_slot *slots = malloc((room + 1) * sizeof *slots);
    memcpy(slots, data, count * sizeof *slots);
    gt_slot group[RECORDS_GROUP];
    size_t at = numbers_below(&n, count + 1), end = at;
    unsigned length;
    switch (count ? numbers_below(&n, 8) : 0) {
    case 0:
    case 1:
    case 2: /* insert */
        length = record_group(&n, group);
        if (count + length > room)
            break;
        memmove(slots + at + length, slots + at, (count - at) * sizeof *slots);
        memcpy(slots + at, group, length * sizeof *slots);
        count += length;
        break;
    case 3: /* take away */
        end = at + numbers_below(&n, count - at + 1);
        memmove(slots + at, slots + end, (count - end) * sizeof *slots);
        count -= end - at;
        break;
    case 4: /* one word */
        if (at < count)
            slots[at].u64[numbers_below(&n, 8)] = numbers_next(&n) >> numbers_below(&n, 64);
        break;
    default:
        if (at < count)
            LLVMFuzzerMutate(slots[at].bytes, sizeof *slots, sizeof *slots);
        break;
    }
    size = count * sizeof *slots;
    memcpy(data, slots, size);
    free(slots);
    return size;
}

#endif

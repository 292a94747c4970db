/*
 * record.h: which tensors a record names, and where in the record their ids are. Nothing else knows that.
 *
 * Ids are 64-bit words of the record: its operands (some of which may be literals), the list in the tail of a cat, the
 * six ids of a free, and its result. The functions return pointers to these words, so that a reader can also replace
 * ids by slots: write through them only where the record is your own. Records were checked before
 * (gt__instruction_check).
 *
 *     gt__record_operands  what a computing record reads, in order, literals included
 *     gt__record_ids       every id of any record, with what happens to its tensor
 *     gt__free_ids         the ids of a free
 */
#ifndef GT_CORE_RECORD_H
#define GT_CORE_RECORD_H

#include "core/instruction.h"

enum { GT_FREE_IDS = 6 };

_Static_assert(offsetof(gt_instruction, operand) == offsetof(gt_instruction, result) + 8 &&
                   offsetof(gt_instruction, imm) == offsetof(gt_instruction, operand) + 24 &&
                   offsetof(gt_instruction, scope) == offsetof(gt_instruction, imm) + 16,
               "the ids of a free are six consecutive words");

/* ---- free --------------------------------------------------------------------------------------------------- */

/* GT_FREE_IDS ids; 0: unused. */
static inline uint64_t *gt__free_ids(const gt_instruction *ins)
{
    return (uint64_t *)((char *)ins + offsetof(gt_instruction, result));
}

/* Append an id to a free record that has *count of them, 0 to begin one. True: the record is full. */
static inline bool gt__free_append(gt_instruction *ins, unsigned *count, uint64_t id)
{
    if (!*count)
        *ins = (gt_instruction){.op = GT_OP_free};
    gt__free_ids(ins)[(*count)++] = id;
    return *count == GT_FREE_IDS;
}

/* ---- operands ----------------------------------------------------------------------------------------------- */

typedef struct gt_operands {
    uint64_t *id; /* `count` words of the record */
    unsigned count;
    unsigned literals; /* as in the record; 0 for a cat, which has none */
} gt_operands;

/* The operands of a computing record; none for the others. */
static inline gt_operands gt__record_operands(const gt_instruction *ins, const gt_slot *tail)
{
    if (__builtin_expect(ins->op == GT_OP_cat, 0))
        return (gt_operands){.id = (uint64_t *)tail->u64, .count = (unsigned)ins->imm[1].u};
    return (gt_operands){
        .id = (uint64_t *)ins->operand, .count = gt__op_operands((gt_opcode)ins->op), .literals = ins->literals};
}

/* Whether operand k is a tensor; otherwise it is a literal, gt__literal says of which kind. */
static inline bool gt__operand_is_tensor(const gt_operands *operands, unsigned k)
{
    return !operands->literals || !(operands->literals >> (2 * k) & 3);
}

/* The operand that dies with the record: its tensor may be updated in place. 0: none does. */
static inline uint64_t gt__record_consumed(const gt_instruction *ins)
{
    return ins->flags & GT_FLAG_CONSUMES && ins->op < GT_OP_FIRST_CONTROL ? ins->operand[0] : 0;
}

/* The tensor that a client's record is about: what it makes, fills, reads or, of several, frees first. 0: none. */
static inline uint64_t gt__record_subject(const gt_instruction *ins)
{
    return ins->op == GT_OP_fetch || ins->op == GT_OP_data          ? ins->operand[0]
           : ins->op < GT_OP_FIRST_CONTROL || ins->op == GT_OP_free ? ins->result
                                                                    : 0;
}

/* ---- all ids ------------------------------------------------------------------------------------------------ */

/* What a record does with a tensor; an operand that it consumes is read and freed. */
typedef enum gt_id_use { GT_ID_READ = 1 << 0, GT_ID_WRITTEN = 1 << 1, GT_ID_FREED = 1 << 2 } gt_id_use;

/*
 * Walks the ids of a record: operands first, the result last. Literals and unused places (0) are left out.
 *
 *     for (gt_record_ids ids = gt__record_ids(record); gt__record_ids_next(&ids);)
 *         look_at(*ids.id, ids.use);
 */
typedef struct gt_record_ids {
    uint64_t *id; /* the one at hand */
    unsigned use; /* gt_id_use */
    uint64_t *next, *result;
    unsigned left, literals, use_first, use_others; /* of next[] */
} gt_record_ids;

static inline gt_record_ids gt__record_ids(const gt_slot *record)
{
    const gt_instruction *ins = &record->ins;
    gt_record_ids ids = {.next = (uint64_t *)ins->operand, .use_first = GT_ID_READ, .use_others = GT_ID_READ};
    if (ins->op < GT_OP_FIRST_CONTROL) {
        gt_operands operands = gt__record_operands(ins, record + 1);
        ids.next = operands.id;
        ids.left = operands.count;
        ids.literals = operands.literals;
        ids.use_first = ins->flags & GT_FLAG_CONSUMES ? GT_ID_READ | GT_ID_FREED : GT_ID_READ;
        ids.result = (uint64_t *)&ins->result;
        return ids;
    }
    switch ((gt_opcode)ins->op) {
    case GT_OP_free:
        ids.next = gt__free_ids(ins);
        ids.left = GT_FREE_IDS;
        ids.use_first = ids.use_others = GT_ID_FREED;
        break;
    case GT_OP_data:
        ids.left = 1;
        ids.use_first = GT_ID_WRITTEN;
        break;
    case GT_OP_fetch:
    case GT_OP_placement:
    case GT_OP_name:
    case GT_OP_send:
        ids.left = 1;
        break;
    case GT_OP_all_reduce:
    case GT_OP_reduce_scatter:
    case GT_OP_all_gather:
    case GT_OP_broadcast:
    case GT_OP_all_to_all:
        ids.left = 1;
        ids.result = (uint64_t *)&ins->result;
        break;
    case GT_OP_recv:
        ids.result = (uint64_t *)&ins->result;
        break;
    default:
        break;
    }
    return ids;
}

static inline bool gt__record_ids_next(gt_record_ids *ids)
{
    while (ids->left) {
        bool literal = ids->literals & 3;
        ids->id = ids->next++;
        ids->use = ids->use_first;
        ids->use_first = ids->use_others;
        ids->literals >>= 2;
        ids->left--;
        if (!literal && *ids->id)
            return true;
    }
    ids->id = ids->result;
    ids->use = GT_ID_WRITTEN;
    ids->result = NULL;
    return ids->id && *ids->id;
}

#endif

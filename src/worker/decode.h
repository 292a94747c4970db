/*
 * decode.h: the first step of executing a record: look up its operands.
 *
 * A record comes in with slot numbers; a gt_decoded has views and metadata. plan.h is next, run.h after that.
 */
#ifndef GT_WORKER_DECODE_H
#define GT_WORKER_DECODE_H

#include "worker/store.h"

typedef struct gt_decoded {
    const gt_instruction *ins;
    const gt_slot *tail;
    unsigned count;                  /* operands */
    const gt_view *view[GT_MAX_CAT]; /* a literal's has no data */
    const gt_meta *meta[GT_MAX_CAT]; /* NULL for a literal */
    gt_flight *flight[GT_MAX_CAT];   /* of operands that are late; borrowed */
    unsigned flights;                /* in flight[] */
    gt_entry *first;                 /* operand 0's; NULL if none or a literal */
    uint8_t literals;                /* as in gt_call */
    gt_imm value[GT_MAX_OPERANDS];
    gt_view literal[GT_MAX_OPERANDS]; /* the views of literals */
    gt_poison *poison;                /* of the first poisoned operand */
} gt_decoded;

/* Look up the operands of a checked computing record. With poison, views of poisoned operands are not valid. Entries must
 * not move while it is used. */
gt_err gt__decode(gt_store *store, const gt_instruction *ins, const gt_slot *tail, gt_decoded *decoded);

/* Operand k of ins is a literal: its value, and a 0-d view without data. */
static inline gt_imm gt__decode_literal(const gt_instruction *ins, unsigned k, gt_view *view)
{
    static const uint8_t dtypes[] = {
        [GT_LITERAL_BOOL] = GT_BOOL, [GT_LITERAL_INT] = GT_INT64, [GT_LITERAL_FLOAT] = GT_FLOAT64};
    gt_imm value = ins->literal[k];
    if (gt__literal(ins, k) == GT_LITERAL_BOOL)
        *(uint8_t *)&value = ins->literal[k].i != 0;
    view->data = NULL;
    view->contiguous = true;
    view->meta.numel = 1;
    view->meta.rank = 0;
    view->meta.dtype = dtypes[gt__literal(ins, k)];
    return value;
}

#endif

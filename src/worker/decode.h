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

#endif

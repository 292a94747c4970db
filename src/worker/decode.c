/* decode.c: see decode.h; read plan.c next. */
#include "worker/decode.h"

#include "core/record.h"

static gt_err look_up(gt_store *store, const gt_instruction *ins, uint64_t slot, gt_decoded *d)
{
    gt_entry *entry = gt__store_find(store, slot);
    if (!entry || entry->state == GT_ENTRY_EMPTY)
        return gt__fail(GT_ERR_INTERNAL, "%s: the worker has no tensor in slot %llu", gt__op_table[ins->op].name,
                        (unsigned long long)slot);
    gt__store_settle(store, entry);
    if (entry->state == GT_ENTRY_FILLING)
        return gt__fail(GT_ERR_PROTOCOL, "%s: an operand's upload is not complete", gt__op_table[ins->op].name);
    if (entry->state == GT_ENTRY_POISON && !d->poison)
        d->poison = entry->poison;
    if (entry->state == GT_ENTRY_LATE)
        d->flight[d->flights++] = entry->flight;
    if (!d->count)
        d->first = entry;
    d->view[d->count] = &entry->view;
    d->meta[d->count++] = &entry->view.meta;
    return GT_OK;
}

gt_err gt__decode(gt_store *store, const gt_instruction *ins, const gt_slot *tail, gt_decoded *d)
{
    d->ins = ins;
    d->tail = tail;
    d->count = d->flights = 0;
    d->first = NULL;
    d->literals = 0;
    d->poison = NULL;
    gt_operands operands = gt__record_operands(ins, tail);
    for (unsigned k = 0; k < operands.count; k++) {
        if (gt__operand_is_tensor(&operands, k)) {
            GT_TRY(look_up(store, ins, operands.id[k], d));
            continue;
        }
        d->literals |= (uint8_t)(1 << k);
        d->value[k] = gt__literal_operand(ins, k, &d->literal[k]);
        d->view[d->count] = &d->literal[k];
        d->meta[d->count++] = NULL;
    }
    return GT_OK;
}

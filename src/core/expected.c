/* expected.c: see expected.h. */
#include "core/expected.h"

#include <string.h>

#include "core/record.h"

/* Most tails are one slot: without a call. */
static bool is_same(const gt_slot *a, const gt_slot *b, unsigned slots)
{
    uint64_t different = 0;
    if (slots != 1)
        return memcmp(a, b, slots * sizeof *a) == 0;
    for (unsigned k = 0; k < 8; k++)
        different |= a->u64[k] ^ b->u64[k];
    return !different;
}

bool gt__expected_tail_fits(const gt_expected *e, uint64_t *cell, const gt_slot *record)
{
    const uint64_t *ids = gt__record_operands(&record->ins, record + 1).id;
    if (record->ins.op != GT_OP_cat) {
        unsigned moving = 0;
        uint64_t different = 0;
        if (!e->tail_stores)
            return is_same(e->tails.slot, record + 1, record->ins.tail);
        for (unsigned k = 0; k < 8; k++)
            if (e->tail_stores >> k & 1)
                cell[e->tail_cell + moving++] = record[1].u64[k];
            else
                different |= record[1].u64[k] ^ e->tails.slot->u64[k];
        return !different && is_same(e->tails.slot + 1, record + 2, record->ins.tail - 1u);
    }
    for (uint64_t k = 0; k < record->ins.imm[1].u; k++) {
        if (e->tails.id[k].binds) {
            if (ids[k] >= cell[GT_CELL_FIRST])
                return false;
            cell[e->tails.id[k].cell] = ids[k];
        }
        if (ids[k] - cell[e->tails.id[k].cell] != e->tails.id[k].word)
            return false;
    }
    return true;
}

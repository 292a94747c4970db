/* pending.c: see pending.h. */
#include "dispatcher/pending.h"

#include <stdlib.h>

gt_err gt__pendings_add(gt_pendings *pendings, const gt_pending *pending, gt_instruction *record)
{
    if (pendings->count == pendings->capacity) {
        uint32_t capacity = pendings->capacity ? pendings->capacity * 2 : 16;
        gt_pending *ring = malloc(capacity * sizeof *ring);
        if (!ring)
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        for (uint32_t k = 0; k < pendings->count; k++)
            ring[k] = *gt__pendings_at(pendings, k);
        free(pendings->ring);
        pendings->ring = ring;
        pendings->capacity = capacity;
        pendings->first = 0;
    }
    gt_pending *last = gt__pendings_at(pendings, pendings->count++);
    *last = *pending;
    last->number = record->result = pending->op == GT_OP_mark ? 0 : ++pendings->asked;
    return GT_OK;
}

uint32_t gt__pendings_find(const gt_pendings *pendings, uint64_t number)
{
    for (uint32_t k = 0; k < pendings->count; k++)
        if (gt__pendings_at(pendings, k)->number == number)
            return k;
    return UINT32_MAX;
}

gt_pending gt__pendings_take(gt_pendings *pendings, uint32_t k)
{
    gt_pending taken = *gt__pendings_at(pendings, k);
    for (; k; k--) /* those before it are few: they wait */
        *gt__pendings_at(pendings, k) = *gt__pendings_at(pendings, k - 1);
    pendings->first = (pendings->first + 1) % pendings->capacity;
    pendings->count--;
    return taken;
}

void gt__pendings_free(gt_pendings *pendings)
{
    free(pendings->ring);
    *pendings = (gt_pendings){0};
}

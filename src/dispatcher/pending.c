/* pending.c: see pending.h. */
#include "dispatcher/pending.h"

#include <stdlib.h>

gt_err gt__pendings_add(gt_pendings *pendings, const gt_pending *pending)
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
    *gt__pendings_at(pendings, pendings->count++) = *pending;
    return GT_OK;
}

gt_pending gt__pendings_take(gt_pendings *pendings)
{
    gt_pending first = *gt__pendings_at(pendings, 0);
    pendings->first = (pendings->first + 1) % pendings->capacity;
    pendings->count--;
    return first;
}

void gt__pendings_free(gt_pendings *pendings)
{
    free(pendings->ring);
    *pendings = (gt_pendings){0};
}

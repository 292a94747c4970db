/* hold.c: see hold.h. */
#include "dispatcher/recover/hold.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_OF_ALL = 2048, /* of all sessions: each takes a descriptor */
    MOST_RECENT = 64,   /* that the journal names: the client would have used these segments again */
    MOST_LASTING = 64,  /* that only snapshots have: each takes a descriptor here and in the client */
    /* Bytes that take too long to copy within a turn. --recover-memory alone bounds how many such uploads are held. */
    LARGE = 16 << 20,
};

bool gt__holds_take(gt_holds *holds, gt_segment *segment, const gt_slot *upload)
{
    uint64_t bytes = upload->ins.imm[0].u;
    if (bytes < LARGE && (*holds->total >= MOST_OF_ALL || holds->count >= MOST_RECENT))
        return false;
    if (holds->count == holds->capacity) {
        uint32_t capacity = holds->capacity ? 2 * holds->capacity : 8;
        gt_hold **grown = realloc(holds->hold, capacity * sizeof(*grown));
        if (!grown)
            return false;
        holds->hold = grown;
        holds->capacity = capacity;
    }
    gt_hold *hold = malloc(sizeof *hold);
    if (!hold)
        return false;
    *hold = (gt_hold){.references = 1, .id = upload->ins.result, .bytes = bytes, .of = holds};
    hold->segment = gt__segment_retain(segment);
    gt__segment_hold(segment, true);
    holds->hold[holds->count++] = hold;
    holds->alive++;
    ++*holds->total;
    holds->bytes += bytes;
    holds->recent += bytes;
    return true;
}

gt_hold *gt__holds_find(const gt_holds *holds, uint64_t id, const gt_meta *meta)
{
    if (holds->alive - holds->count >= MOST_LASTING)
        return NULL;
    for (uint32_t k = holds->count; k-- > 0;)
        if (holds->hold[k]->id == id) {
            if (holds->hold[k]->bytes != gt__meta_bytes(meta))
                return NULL;
            holds->hold[k]->references++;
            return holds->hold[k];
        }
    return NULL;
}

void gt__hold_release(gt_hold *hold)
{
    if (!hold || --hold->references)
        return;
    gt__segment_hold(hold->segment, false);
    gt__segment_release(hold->segment);
    hold->of->alive--;
    --*hold->of->total;
    hold->of->bytes -= hold->bytes;
    free(hold);
}

void gt__holds_drop(gt_holds *holds, uint32_t count)
{
    for (uint32_t k = 0; k < count; k++) {
        holds->recent -= holds->hold[k]->bytes;
        gt__hold_release(holds->hold[k]);
    }
    holds->count -= count;
    if (holds->count)
        memmove(holds->hold, holds->hold + count, holds->count * sizeof(*holds->hold));
}

void gt__holds_free(gt_holds *holds)
{
    gt__holds_drop(holds, holds->count);
    free(holds->hold);
    *holds = (gt_holds){.total = holds->total};
}

/* slot_queue.c: see slot_queue.h. */
#include "core/slot_queue.h"

#include <stdlib.h>

enum {
    FIRST_CAPACITY = 64,
    KEPT_CAPACITY = 256, /* of an empty queue: 16 KiB */
};

gt_slot *gt__slot_queue_reserve(gt_slot_queue *queue, unsigned slots)
{
    if (queue->most && gt__slot_queue_slots(queue) + slots > queue->most)
        return NULL;
    /* Moved only when more than half of the array is free at its beginning, so each slot moves about once. */
    if (queue->first > queue->end / 2 && queue->end + slots > queue->capacity) {
        queue->end -= queue->first;
        memmove(queue->slots, queue->slots + queue->first, queue->end * sizeof *queue->slots);
        queue->first = 0;
    }
    if (queue->end + slots > queue->capacity) {
        size_t capacity = queue->capacity ? queue->capacity * 2 : FIRST_CAPACITY;
        while (capacity < queue->end + slots)
            capacity *= 2;
        gt_slot *grown = realloc(queue->slots, capacity * sizeof *grown);
        if (!grown)
            return NULL;
        queue->slots = grown;
        queue->capacity = capacity;
    }
    return queue->slots + queue->end;
}

bool gt__slot_queue_append(gt_slot_queue *queue, const gt_slot *record)
{
    unsigned length = 1u + record->ins.tail;
    gt_slot *out = gt__slot_queue_reserve(queue, length);
    if (!out)
        return false;
    memcpy(out, record, length * sizeof *out);
    gt__slot_queue_commit(queue, length);
    return true;
}

void gt__slot_queue_relax(gt_slot_queue *queue)
{
    if (gt__slot_queue_empty(queue) && queue->capacity > KEPT_CAPACITY)
        gt__slot_queue_free(queue);
}

void gt__slot_queue_free(gt_slot_queue *queue)
{
    free(queue->slots);
    *queue = (gt_slot_queue){.most = queue->most};
}

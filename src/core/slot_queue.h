/*
 * slot_queue.h: records that wait, first in first out: answers that a client has not made room for, records for a
 * worker whose link is full, what a modifier emitted beyond the room there is.
 *
 * The records lie one after the other in one growing array. A zeroed queue is empty and may grow without limit; set
 * `most` to bound it. Pointers into the queue are valid until the next reserve.
 */
#ifndef GT_CORE_SLOT_QUEUE_H
#define GT_CORE_SLOT_QUEUE_H

#include <assert.h>

#include "core/instruction.h"

typedef struct gt_slot_queue {
    gt_slot *slots;
    size_t first, end, capacity; /* in slots; all records are gone: first and end are 0 */
    size_t most;                 /* slots that may wait; 0: any number */
} gt_slot_queue;

static inline bool gt__slot_queue_empty(const gt_slot_queue *queue)
{
    return !queue->end;
}

/* Slots that wait. */
static inline size_t gt__slot_queue_slots(const gt_slot_queue *queue)
{
    return queue->end - queue->first;
}

/* Room for a record at the end, and then: the record is there. NULL: out of memory, or it would be too many. */
gt_slot *gt__slot_queue_reserve(gt_slot_queue *queue, unsigned slots);
static inline void gt__slot_queue_commit(gt_slot_queue *queue, unsigned slots)
{
    queue->end += slots;
}

/* Both for a copy of `record`. False: as for NULL. */
bool gt__slot_queue_append(gt_slot_queue *queue, const gt_slot *record);

/* The record that waits longest; NULL: none does. */
static inline const gt_slot *gt__slot_queue_first(const gt_slot_queue *queue)
{
    return queue->end ? queue->slots + queue->first : NULL;
}

/* That record is done with. */
static inline void gt__slot_queue_pop(gt_slot_queue *queue)
{
    queue->first += 1u + queue->slots[queue->first].ins.tail;
    if (queue->first == queue->end)
        queue->first = queue->end = 0;
}

/* Room before all others for a record of `slots` slots, which is there then. One that was as long was taken from the queue since
 * the last reserve, and others are left in it. */
static inline gt_slot *gt__slot_queue_unpop(gt_slot_queue *queue, unsigned slots)
{
    assert(queue->end && queue->first >= slots);
    queue->first -= slots;
    return queue->slots + queue->first;
}

/* Drop all records; the memory stays. */
static inline void gt__slot_queue_clear(gt_slot_queue *queue)
{
    queue->first = queue->end = 0;
}

/* If it is empty: free the memory of what waited, unless that is little. */
void gt__slot_queue_relax(gt_slot_queue *queue);

void gt__slot_queue_free(gt_slot_queue *queue);

#endif

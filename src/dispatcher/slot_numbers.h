/*
 * slot_numbers.h: the numbers by which a worker knows its tensors: dense, from 1 on, used again once they are free.
 *
 * A worker executes its stream in order, so a number is free for later records as soon as the record that frees it is
 * written: gt__slot_number_free. But a worker defers records that wait for another worker's data, and every later record
 * that touches their slots with them. So that new tensors do not get such slots, numbers freed by the dispatcher itself
 * are parked: used again only when GT_PARKED_SLOTS others were freed after them.
 */
#ifndef GT_DISPATCHER_SLOT_NUMBERS_H
#define GT_DISPATCHER_SLOT_NUMBERS_H

#include <stdint.h>

enum { GT_PARKED_SLOTS = 1024 };

typedef struct gt_slot_numbers {
    uint32_t *free, free_count, free_capacity;
    uint32_t last;                                               /* the highest that was ever given out */
    uint32_t parked[GT_PARKED_SLOTS], parked_count, parked_next; /* ring; 0: unused */
} gt_slot_numbers;

/* 0: out of memory. */
uint32_t gt__slot_number_new(gt_slot_numbers *numbers);
/* There is always room for it. */
static inline void gt__slot_number_free(gt_slot_numbers *numbers, uint32_t number)
{
    numbers->free[numbers->free_count++] = number;
}
void gt__slot_number_park(gt_slot_numbers *numbers, uint32_t number);

static inline uint32_t gt__slot_numbers_used(const gt_slot_numbers *numbers)
{
    return numbers->last - numbers->free_count - numbers->parked_count;
}

/* All numbers are free: another worker has the entry. */
void gt__slot_numbers_clear(gt_slot_numbers *numbers);
void gt__slot_numbers_free(gt_slot_numbers *numbers);

#endif

/* slot_numbers.c: see slot_numbers.h. */
#include "dispatcher/slot_numbers.h"

#include <stdlib.h>
#include <string.h>

uint32_t gt__slot_number_new(gt_slot_numbers *numbers)
{
    if (numbers->free_count)
        return numbers->free[--numbers->free_count];
    /* Room to take every number back is made here, so that freeing never fails. */
    if (numbers->last >= numbers->free_capacity) {
        uint32_t capacity = numbers->free_capacity ? numbers->free_capacity * 2 : 256;
        uint32_t *grown = realloc(numbers->free, capacity * sizeof *grown);
        if (!grown)
            return 0;
        numbers->free = grown;
        numbers->free_capacity = capacity;
    }
    return ++numbers->last;
}

void gt__slot_number_park(gt_slot_numbers *numbers, uint32_t number)
{
    uint32_t *place = &numbers->parked[numbers->parked_next++ % GT_PARKED_SLOTS];
    if (*place)
        gt__slot_number_free(numbers, *place);
    else
        numbers->parked_count++;
    *place = number;
}

void gt__slot_numbers_clear(gt_slot_numbers *numbers)
{
    numbers->free_count = numbers->last = numbers->parked_count = numbers->parked_next = 0;
    memset(numbers->parked, 0, sizeof numbers->parked);
}

void gt__slot_numbers_free(gt_slot_numbers *numbers)
{
    free(numbers->free);
    *numbers = (gt_slot_numbers){0};
}

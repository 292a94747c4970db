/* array.h: arrays that grow, for the tools, which end when memory runs out: they have nothing to save. */
#ifndef GT_CLI_ARRAY_H
#define GT_CLI_ARRAY_H

#include <stddef.h>

_Noreturn void gt__out_of_memory(void);
void *gt__zeroed(size_t count, size_t item_bytes); /* calloc */
/* Room for one more in an array. */
void gt__array_room(void **items, size_t count, size_t *capacity, size_t item_bytes);
#define GT_PUSH(items, count, capacity)                                                                           \
    (gt__array_room((void **)&(items), (count), &(capacity), sizeof *(items)), &(items)[(count)++])

#endif

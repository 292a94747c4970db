/* array.h: growable arrays for the tools. A tool exits when memory runs out: it has no state to save. */
#ifndef GT_CLI_ARRAY_H
#define GT_CLI_ARRAY_H

#include <stddef.h>

_Noreturn void gt__out_of_memory(void);
void *gt__zeroed(size_t count, size_t item_bytes); /* calloc */
/* Make room for one more item in an array. */
void gt__array_room(void **items, size_t count, size_t *capacity, size_t item_bytes);
#define GT_PUSH(items, count, capacity)                                                                           \
    (gt__array_room((void **)&(items), (count), &(capacity), sizeof *(items)), &(items)[(count)++])

#endif

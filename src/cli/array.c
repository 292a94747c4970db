/* array.c: see array.h. */
#include "cli/array.h"

#include <stdio.h>
#include <stdlib.h>

void gt__out_of_memory(void)
{
    fputs("gt: out of memory\n", stderr);
    exit(1);
}

void *gt__zeroed(size_t count, size_t item_bytes)
{
    void *items = calloc(count, item_bytes);
    if (!items)
        gt__out_of_memory();
    return items;
}

void gt__array_room(void **items, size_t count, size_t *capacity, size_t item_bytes)
{
    if (count < *capacity)
        return;
    *capacity = *capacity ? 2 * *capacity : 64;
    *items = realloc(*items, *capacity * item_bytes);
    if (!*items)
        gt__out_of_memory();
}

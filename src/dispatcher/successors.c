/* successors.c: see successors.h. */
#include "dispatcher/successors.h"

#include <stdlib.h>

bool gt__successors_pass(gt_successors *successors, int32_t from, int32_t to, bool named)
{
    if (successors->count == successors->capacity) { /* room for one more, before anything changes */
        unsigned capacity = successors->capacity ? 2 * successors->capacity : 4;
        gt_successor *list = realloc(successors->list, capacity * sizeof *list);
        if (!list)
            return false;
        successors->list = list;
        successors->capacity = capacity;
    }
    bool has_own = false;
    for (unsigned k = 0; k < successors->count; k++) {
        has_own |= successors->list[k].number == from;
        if (successors->list[k].worker == from)
            successors->list[k].worker = to;
        if (successors->list[k].worker == successors->list[k].number)
            successors->list[k--] = successors->list[--successors->count];
    }
    if (named && !has_own && from != to)
        successors->list[successors->count++] = (gt_successor){.number = from, .worker = to};
    return true;
}

void gt__successors_forget(gt_successors *successors, int32_t number)
{
    for (unsigned k = 0; k < successors->count; k++)
        if (successors->list[k].number == number)
            successors->list[k--] = successors->list[--successors->count];
}

void gt__successors_free(gt_successors *successors)
{
    free(successors->list);
    *successors = (gt_successors){0};
}

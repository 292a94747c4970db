/*
 * successors.h: which worker a number means to a session that names workers by number, where it is not the worker of that number.
 *
 * A worker that was drained (live/drain.h) has given its tensors to another, its successor. The session goes on with as many
 * parts as before, in the same order: wherever its config names the drained worker, the successor is meant.
 */
#ifndef GT_DISPATCHER_SUCCESSORS_H
#define GT_DISPATCHER_SUCCESSORS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct gt_successor {
    int32_t number, worker;
} gt_successor;

/* A zeroed one is empty: every number means the worker of that number. */
typedef struct gt_successors {
    gt_successor *list;
    unsigned count, capacity;
} gt_successors;

static inline int32_t gt__successors_find(const gt_successors *successors, int32_t number)
{
    for (unsigned k = 0; k < successors->count; k++)
        if (successors->list[k].number == number)
            return successors->list[k].worker;
    return number;
}
/* Wherever `from` was meant, it is `to` from now on. `named`: configs may have the number of `from`. False: out of memory. */
bool gt__successors_pass(gt_successors *successors, int32_t from, int32_t to, bool named);
/* This number means the worker of that number again. */
void gt__successors_forget(gt_successors *successors, int32_t number);
void gt__successors_free(gt_successors *successors);

#endif

/*
 * fillings.h: a session's uploads whose pieces have not all come. Until they have, the tensor cannot be saved (recover/keep.c) or
 * moved (live/evacuate.c).
 */
#ifndef GT_DISPATCHER_FILLINGS_H
#define GT_DISPATCHER_FILLINGS_H

#include "core/instruction.h"
#include "dispatcher/handles.h"

typedef struct gt_filling {
    uint64_t id, bytes;
} gt_filling;

typedef struct gt_fillings {
    gt_filling *filling;
    uint32_t count, capacity;
    bool lost_count; /* there were too many, or no memory for one: it is not known which are complete */
} gt_fillings;

/* An upload or a piece of one was placed. Not when it is received: it may wait for room, and the tensor be moved meanwhile. */
void gt__fillings_note(gt_fillings *fillings, const gt_handles *handles, const gt_instruction *ins);
/* Whether pieces are still to come. Those of tensors that were freed before are not. */
bool gt__fillings_any(gt_fillings *fillings, const gt_handles *handles);
void gt__fillings_free(gt_fillings *fillings);

#endif

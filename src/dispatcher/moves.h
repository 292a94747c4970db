/* moves.h: a tensor from one worker to another: a send in the stream of the one, and a recv in that of the other. */
#ifndef GT_DISPATCHER_MOVES_H
#define GT_DISPATCHER_MOVES_H

#include "core/op.h"
#include "dispatcher/workers.h"

typedef struct gt_move {
    gt_dispatch_worker *from, *to;
    uint32_t slot;        /* on `from`, where it stays */
    uint32_t arrives;     /* on `to` */
    uint8_t flags;        /* of the send */
    const gt_meta *meta;  /* of what is moved */
    uint32_t scope, site; /* of the record that it is moved for: a failure names them */
} gt_move;

/* In the turn of the session that has the tensor (runs.h). An error: out of memory, and nothing was written. */
gt_err gt__worker_move(const gt_move *move);

#endif

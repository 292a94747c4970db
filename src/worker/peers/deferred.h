/*
 * deferred.h: records that wait for data of another worker.
 *
 * A recv whose data has not arrived is put aside, and so is every later record that needs its result, or would
 * overwrite or free a tensor that a record put aside still reads. All other records run: this is how the stages of
 * a pipeline overlap. Records put aside run in their order, as soon as the first of them can. Collectives and
 * answers wait for all of them, so that the workers' streams keep their deadlock-free order.
 *
 * Place in the flow: worker.c asks before every record, if records are put aside or the record is a recv.
 */
#ifndef GT_WORKER_PEERS_DEFERRED_H
#define GT_WORKER_PEERS_DEFERRED_H

#include <stdint.h>

#include "core/slot_queue.h"

typedef struct gt_worker gt_worker;

typedef struct gt_deferred {
    unsigned count; /* records put aside */
    bool running;   /* one of them is being executed */
    uint64_t owner; /* the session of the first (store.h) */
    gt_slot_queue records;
    uint32_t *reads, *writes; /* by tensor slot: how many of them read it, and make or free it */
    size_t tensor_capacity;
} gt_deferred;

/* True: the record was put aside. False: execute it now. */
bool gt__deferred_takes(gt_worker *worker, const gt_slot *record);
/* Execute the deferred records that can run. wait_ms > 0: wait that long for the first one; -1: execute all of them. */
void gt__deferred_run(gt_worker *worker, int wait_ms);
void gt__deferred_free(gt_deferred *deferred);

#endif

/*
 * parts.h: what a sharded run of a path is for each worker.
 *
 * A run on tensors that are spread over workers is expanded (paths.c), and each worker gets records of its own: its
 * computations, and moves and collectives between them. The computations are the same whenever the path runs, but for their
 * slots. So while a run is expanded the records for each worker wait in its outbox. Then each stretch of computations
 * that came before is replaced by one `repeat`, of a path that only this worker has.
 */
#ifndef GT_DISPATCHER_PARTS_H
#define GT_DISPATCHER_PARTS_H

#include "core/path.h"

typedef struct gt_session gt_session;
typedef struct gt_part gt_part;
typedef struct gt_dispatch_worker gt_dispatch_worker;

/* Memory that all parts of a session use in turn. */
typedef struct gt_parts_scratch {
    gt_slot *records;
    size_t record_capacity;
    uint64_t *cell;
    size_t cell_capacity;
    uint64_t *number; /* by slot, if its stamp is the present one */
    uint32_t *stamp, now;
    size_t slot_capacity;
} gt_parts_scratch;

/* Before a run is expanded: hold back what the workers are sent from now on. */
void gt__parts_begin(gt_session *session);
/* After it: send that, with `*parts`, those of this path. */
gt_err gt__parts_end(gt_session *session, gt_parts_scratch *scratch, gt_part **parts);
/* The path is gone: so are its parts, here and on the workers. */
void gt__parts_free(gt_session *session, gt_part **parts);
void gt__parts_scratch_free(gt_parts_scratch *scratch);

/* A number for a path on the worker that no other has; GT_WORKER_PATHS: there is none. */
uint32_t gt__worker_path_number(const gt_dispatch_worker *worker);
/* Send the definition of a path, and that it is gone. False: out of memory. */
bool gt__worker_tell_path(gt_dispatch_worker *worker, uint32_t number, const gt_slot *definition, size_t slots);
void gt__worker_forget_path(gt_dispatch_worker *worker, uint32_t number);

#endif

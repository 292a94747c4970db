/* upload.h: data from clients, in the stream or in a shared segment, to tensors. */
#ifndef GT_WORKER_UPLOAD_H
#define GT_WORKER_UPLOAD_H

#include "worker/decode.h"

/* The upload of ins begins, or is done if its data is all there: entry->view has its shape. Sets the entry's state. */
gt_err gt__upload_start(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail, gt_entry *entry);
/* More bytes of an upload. */
void gt__upload_append(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail);

#endif

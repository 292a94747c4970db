/*
 * pins.h: shared segments that an engine transfers from and to again and again. An engine with `pin` copies between pinned memory
 * and its device without a copy on the host. Pinning takes longer than such a copy, so a segment is pinned when it is used a
 * second time: clients recycle their segments. It stays pinned until its client forgets it or the worker ends.
 */
#ifndef GT_WORKER_PINS_H
#define GT_WORKER_PINS_H

#include "link/segment.h"

typedef struct gt_worker gt_worker;

typedef struct gt_pin {
    gt_segment *segment; /* a reference */
    bool pinned, tried;
} gt_pin;

typedef struct gt_pins {
    gt_pin *pins;
    unsigned count, capacity;
    size_t bytes; /* pinned */
} gt_pins;

/* `bytes` of a mapped segment are transferred next. */
void gt__pins_use(gt_worker *worker, gt_segment *segment, size_t bytes);
/* The client forgot a segment. Work that is queued may still use it. */
void gt__pins_forget(gt_worker *worker, uint64_t id);
/* Nothing is queued any more. */
void gt__pins_free(gt_worker *worker);

#endif

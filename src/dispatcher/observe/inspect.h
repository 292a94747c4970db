/* inspect.h: one client in detail: what its tensors are, and which of its lines made them. For monitors: inspect.c. */
#ifndef GT_DISPATCHER_OBSERVE_INSPECT_H
#define GT_DISPATCHER_OBSERVE_INSPECT_H

#include <stddef.h>
#include <stdint.h>

typedef struct gt_dispatcher gt_dispatcher;
typedef struct gt_peer gt_peer;

/* The client of this number as JSON; the fields are listed in inspect.c. malloc'ed; NULL: out of memory. */
char *gt__inspect_client(const gt_dispatcher *dispatcher, const gt_peer *viewer, uint64_t number);

/* What the instructions of a client wait for, in one line: "12 instructions left, worker_0: matmul for 3.2 s at train.py:5".
 * Returns `line`, which is empty if there is no such client. The reports of the workers must be fresh. */
char *gt__inspect_progress(const gt_dispatcher *dispatcher, const gt_peer *viewer, uint64_t number, char *line,
                           size_t size);

#endif

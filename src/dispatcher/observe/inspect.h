/* inspect.h: one client in detail: what its tensors are, and which of its lines made them. For monitors: inspect.c. */
#ifndef GT_DISPATCHER_OBSERVE_INSPECT_H
#define GT_DISPATCHER_OBSERVE_INSPECT_H

#include <stdint.h>

typedef struct gt_dispatcher gt_dispatcher;
typedef struct gt_peer gt_peer;

/* The client of this number as JSON; the fields are listed in inspect.c. malloc'ed; NULL: out of memory. */
char *gt__inspect_client(const gt_dispatcher *dispatcher, const gt_peer *viewer, uint64_t number);

#endif

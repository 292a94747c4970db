/*
 * origin.h: where a failure began: the instruction, where in the user's program it was issued, and the worker. It
 * travels with the poison of all tensors computed from it, to other workers too, and to the client that reads one.
 */
#ifndef GT_WORKER_ORIGIN_H
#define GT_WORKER_ORIGIN_H

#include <stdint.h>

typedef struct gt_origin {
    uint64_t number;      /* of the record in that worker's stream; 0 if not one record */
    uint32_t scope, site; /* the record's own */
    uint32_t worker;      /* its index, plus one; 0: the worker that holds this */
    uint32_t op;
} gt_origin;

#endif

/*
 * origin.h: where a failure began: the instruction, where in the user's program it was issued, and the worker. It goes with
 * the poison of everything computed from there, to other workers too, and at last to whoever reads.
 */
#ifndef GT_WORKER_ORIGIN_H
#define GT_WORKER_ORIGIN_H

#include <stdint.h>

typedef struct gt_origin {
    uint64_t number;      /* of the record in that worker's stream; 0: no single one */
    uint32_t scope, site; /* the record's own */
    uint32_t worker;      /* its index, plus one; 0: the worker that has this */
    uint32_t op;
} gt_origin;

#endif

/*
 * bounds.h: what the client knows of the values of an integer tensor, so that a wrong index fails at its line.
 *
 * The worker checks every index, but it tells of a bad one later. Where the range of the values is known for little work (they
 * came from the host, from arange or randint, or are part of such), an indexing op is checked before it is emitted.
 */
#ifndef GT_CLIENT_BOUNDS_H
#define GT_CLIENT_BOUNDS_H

#include "client/client.h"

typedef enum gt_bounds_kind {
    GT_UNBOUNDED,
    GT_BOUNDED,     /* every value is within low..high */
    GT_BOUNDED_BOTH /* and both low and high occur */
} gt_bounds_kind;

/* Scan an upload; large ones stay unbounded. */
void gt__bounds_scan(gt_tensor *tensor, const void *data);
/* The bounds of a result of an integer dtype, from the instruction and its operands. */
void gt__bounds_infer(const gt_instruction *ins, const gt_slot *tail, gt_tensor *const *in, unsigned count,
                      gt_tensor *result);

/*
 * Whether a value of the tensor lies outside low..high: *found, and *value is one that does. Unbounded tensors pass, because
 * the worker checks them. If the bounds leave it open, this waits for the smallest and the largest value, and the bounds are exact
 * from then on. A smallest value that is *ignored (NULL: none) is allowed, and the values between it and `low` are left to the
 * worker.
 */
gt_err gt__bounds_check(gt_tensor *tensor, int64_t low, int64_t high, const int64_t *ignored, bool *found,
                        int64_t *value);

/* Whether gt__emit must look at the index of this record before it emits it: it may be out of range. */
bool gt__bounds_suspect(const gt_instruction *ins, gt_tensor *const *in);
/* Look, waiting if necessary: GT_ERR_INDEX if it is. The caller holds the operands. */
gt_err gt__bounds_check_index(const gt_instruction *ins, gt_tensor *const *in);

#endif

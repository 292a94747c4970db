/*
 * intercept.h: modes of a thread or the process that change ops before they are emitted.
 *
 *   autocast       floats of some ops are converted to a narrower or a wider dtype first (gt.autocast)
 *   default dtype  what integers become where a result is floating (gt.set_default_dtype)
 *   synchronous    every op waits for its result, so that a failure is raised at its line (GT_SYNC)
 *   batched        operands of vmap (batch.h)
 *
 * Emission tests one variable for all of them: gt__signals_active (signals.h) counts the threads that are in a scope, and
 * every mode that is on adds one to it. While it is 0, nothing here runs.
 */
#ifndef GT_CLIENT_INTERCEPT_H
#define GT_CLIENT_INTERCEPT_H

#include "client/client.h"

/* Which list of PyTorch's decides: its CPU's or its GPU's. */
typedef enum gt_autocast_device { GT_AUTOCAST_CPU, GT_AUTOCAST_CUDA, GT_AUTOCAST_DEVICES } gt_autocast_device;

typedef struct gt_autocast {
    bool on[GT_AUTOCAST_DEVICES];
    gt_dtype dtype[GT_AUTOCAST_DEVICES]; /* float16 or bfloat16 */
} gt_autocast;

/* This thread's autocast; set returns the previous one. */
gt_autocast gt__autocast_get(void);
gt_autocast gt__autocast_set(gt_autocast state);
/* Off for all devices, the dtypes kept; returns the previous state. */
gt_autocast gt__autocast_pause(void);

/* The dtype of floats that the user names none for: process-wide. */
extern gt_dtype gt__default_dtype;
gt_err gt__default_dtype_set(gt_dtype dtype);

/* Products of float32 may be rounded to fewer digits (core/op.h, gt_product_kind): process-wide. */
extern _Atomic bool gt__fast_products;
/* Convolutions of float32 may not; by default they may, as in PyTorch. */
extern _Atomic bool gt__exact_convolutions;

/* Every op waits, in all threads. GT_SYNC=1 at the start of the process has the same effect. */
void gt__synchronous_set(bool on);
bool gt__synchronous(void);

/* Backward passes of this thread refuse NaN and name the op that made it. Returns the previous setting. */
extern _Thread_local bool gt__anomaly_wanted;
bool gt__anomaly_set(bool on);
/* After a gradient rule: GT_ERR_VALUE if a result has a NaN. Waits for the values. */
gt_err gt__anomaly_check(const gt_node *node, gt_tensor *const *results);

/* For gt__emit, while gt__signals_on: true if the op was emitted, changed, by this call; *err is its outcome. */
bool gt__intercept(gt_client *client, const gt_instruction *prototype, gt_slot *tail, gt_tensor *const *in,
                   unsigned count, gt_tensor **out, gt_err *err);

#endif

/*
 * layers.h: parts of a network whose ops are one node of the tape.
 *
 * Each has a predicate: whether the operands fit without a conversion or a check, and nothing intercepts ops (autocast, vmap,
 * signals). Otherwise the caller composes it from ordinary ops.
 */
#ifndef GT_CLIENT_LAYERS_H
#define GT_CLIENT_LAYERS_H

#include "client/client.h"

/* a (..., inputs) @ transpose(weight (outputs, inputs)) + bias (outputs,), which may be NULL. */
bool gt__linear_is_plain(const gt_tensor *a, const gt_tensor *weight, const gt_tensor *bias);
gt_err gt__emit_linear(gt_tensor *a, gt_tensor *weight, gt_tensor *bias, gt_tensor **out);

typedef enum gt_reduction { GT_REDUCE_NONE, GT_REDUCE_SUM, GT_REDUCE_MEAN } gt_reduction;

/* -scores[n, target[n], ...]: of scores (N, C, ...) or (C,), and int64 classes (N, ...) or (). Plain: all are known to be in
 * range, and none of them is `ignored`. */
bool gt__nll_is_plain(const gt_tensor *scores, const gt_tensor *target, int64_t ignored);
gt_err gt__emit_nll(gt_tensor *scores, gt_tensor *target, gt_reduction reduction, gt_tensor **out);

#endif

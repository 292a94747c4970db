/*
 * along.h: records along the split axis that take several steps (make.h). rules_along.c chooses them: it sets gt_plan.run to
 * one of these and gt_plan.operand to the layouts that it wants.
 */
#ifndef GT_DISPATCHER_SPREAD_ALONG_H
#define GT_DISPATCHER_SPREAD_ALONG_H

#include "dispatcher/spread/spread.h"

typedef gt_err gt_steps(gt_task *task, const gt_plan *plan, gt_handle *result);

/* along.c: as many elements along the axis as before. */
gt_steps gt__run_softmax, gt__run_softmax_backward, gt__run_scan, gt__run_positions_so_far;
/* The operands go to parts along another axis, plan->operand, and the result comes back, to plan->result if it is there. */
gt_steps gt__run_elsewhere;

/* pick.c: some of the elements. */
gt_steps gt__run_argreduce, gt__run_argreduce_all, gt__run_topk, gt__run_take, gt__run_gather, gt__run_scatter;

/* The number of operand 1 is where the member's part of plan->parts starts. */
gt_localize gt__localize_start;

#endif

/*
 * rules.h: helpers that the rules share. rules.c has the table and most rules, rules_move.c those of views, indexing and
 * creation, rules_along.c those of ops along the split axis, rules_mesh.c applies them on a mesh. Read spread.h (gt_task, gt_plan) first.
 */
#ifndef GT_DISPATCHER_SPREAD_RULES_H
#define GT_DISPATCHER_SPREAD_RULES_H

#include "dispatcher/spread/spread.h"

/* rules_mesh.c: plan a record on a mesh of workers; *planned is false where no operand and no target is on one. */
gt_err gt__mesh_plan(gt_task *task, gt_plan *plan, bool *planned);
/* rules_mesh_along.c: the same for an op along a dimension that is split. */
gt_err gt__mesh_plan_along(gt_task *task, gt_plan *plan, bool *planned);
/* rules.c: the rule of the record's op. No layout is meshed. */
gt_err gt__rule_apply(gt_task *task, gt_plan *plan);

/* Bytes from which GT_AUTO_SHARD splits a new tensor, and multiplications from which it splits a product. Below, a
 * second worker costs more (a few microseconds an instruction, a copy of the other operand) than it saves. */
#define GT_AUTOMATIC_BYTES ((size_t)4 << 20)
#define GT_AUTOMATIC_PRODUCTS 64e6

typedef gt_err gt_rule(gt_task *task, gt_plan *plan);

static inline bool gt__rule_is_split(const gt_source *source)
{
    return source->meta && source->layout->kind == GT_SPLIT;
}

/* Whether all workers of a layout are in the target of the scope. */
bool gt__rule_within(const gt_task *task, const gt_layout *layout);
/* Operand k is split, over workers of the target. */
bool gt__rule_has_parts(const gt_task *task, unsigned k);
/* The split operand with most elements, of those on workers of the target; -1: there is none. */
int gt__rule_lead(const gt_task *task);

/* All operands whole: where there is no rule. */
gt_err gt__rule_whole(gt_task *task, gt_plan *plan);
/* All operands and the result have the layout of operand 0. */
gt_err gt__rule_as_is(const gt_task *task, gt_plan *plan);
/* The result is split along `axis` as operand 0 is along its own; no other operand. */
gt_err gt__rule_keep(gt_task *task, gt_plan *plan, unsigned axis);
/* Set operand k to the split of the plan along `axis` of its own, or whole if that is negative. */
gt_err gt__rule_want(const gt_task *task, gt_plan *plan, unsigned k, const gt_layout *like, int axis);
/* And the result. */
gt_err gt__rule_give(gt_plan *plan, const gt_layout *like, gt_layout_kind kind, unsigned axis);

gt_rule gt__plan_along,
    gt__plan_alike; /* an op along an axis that is whole; gt__plan_alike: of several operands */
gt_rule gt__plan_softmax, gt__plan_softmax_backward, gt__plan_scan, gt__plan_argsort, gt__plan_argreduce,
    gt__plan_topk, gt__plan_take, gt__plan_gather, gt__plan_scatter;
gt_rule gt__plan_cat, gt__plan_slice, gt__plan_assign; /* join.c */
gt_rule gt__plan_elementwise, gt__plan_permute, gt__plan_expand, gt__plan_reshape, gt__plan_triangle,
    gt__plan_indexed, gt__plan_create, gt__plan_copy;

#endif

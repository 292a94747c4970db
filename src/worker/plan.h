/*
 * plan.h: the second step of executing a record: how to compute the result, and its shape, dtype and strides.
 *
 * One record is planned into a gt_step on its way to run.h. A sequence of records is planned once into a gt_plan
 * (engines/plan.h), with the last use of every value, and run many times.
 */
#ifndef GT_WORKER_PLAN_H
#define GT_WORKER_PLAN_H

#include "engines/plan.h"

typedef struct gt_step {
    gt_step_kind kind;
    gt_dtype compute; /* as in gt_call */
    gt_view *out;     /* the result: shape, dtype and strides; data only if it is a view of operand 0 */
} gt_step;

/*
 * Infer the result, which is the last check of the record, and decide how it is made. in[] are the operands' views,
 * meta[] their metadata, NULL for literals. `alone`: operand 0 dies with the instruction and owns
 * its memory alone. Fills `out`.
 */
gt_err gt__step_plan(const gt_instruction *ins, const gt_slot *tail, const gt_view *const *in,
                     const gt_meta *const *meta, bool alone, gt_view *out, gt_step *step);

/* How an input of a sequence looks when it is planned: its id and its view. Inputs with the same memory (not NULL) are planned
 * to share it as they do now: their data tells how they lie. */
typedef struct gt_plan_input {
    uint64_t id;
    const gt_view *view;
    const void *memory;
} gt_plan_input;

/*
 * Plan a sequence: computing records and frees, one after the other in `slots` slots. Ids that are read and not made
 * there must be among the inputs. Buffers have no memory until gt__plan_place. GT_ERR_UNSUPPORTED: the sequence holds a
 * record that cannot be planned (an upload, a question); GT_ERR_VALUE and the like: a record that would fail.
 */
gt_err gt__plan_new(const gt_slot *records, size_t slots, const gt_plan_input *inputs, unsigned input_count,
                    gt_plan **plan);
/* Give the outputs and inner buffers their places in the plan's memories, once, after the engine has grouped the steps. */
gt_err gt__plan_place(gt_plan *plan);
void gt__plan_free(gt_plan **plan);

#endif

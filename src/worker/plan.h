/*
 * plan.h: the second step of executing a record: how to compute the result, and its shape, dtype and strides.
 *
 * One record is planned into a gt_step on its way to run.h. A sequence of records is planned once into a gt_plan
 * (engines/plan.h), with the last use of every value, and run many times.
 */
#ifndef GT_WORKER_PLAN_H
#define GT_WORKER_PLAN_H

#include "core/path.h"
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

/* What a plan is made of; all of it is borrowed. */
typedef struct gt_plan_source {
    const gt_slot *records; /* computing records and frees, one after the other */
    size_t slots;
    const gt_plan_input *inputs;
    unsigned input_count;
    const gt_path_word *parameter; /* words that may differ from run to run, in the order of the records */
    const uint64_t *value;         /* their values in the run that it is made for */
    uint32_t parameters;
    bool fixed_addresses; /* the engine's */
} gt_plan_source;

/*
 * Plan a sequence. Ids that are read and not made there must be among the inputs. Buffers have no memory until
 * gt__plan_place. GT_ERR_UNSUPPORTED: the sequence holds a record that cannot be planned (an upload, a question);
 * GT_ERR_VALUE and the like: a record that would fail.
 */
gt_err gt__plan_make(const gt_plan_source *source, gt_plan **plan);
/* The same for records in which only literals and immediates differ from run to run. */
static inline gt_err gt__plan_new(const gt_slot *records, size_t slots, const gt_plan_input *inputs,
                                  unsigned input_count, gt_plan **plan)
{
    return gt__plan_make(
        &(gt_plan_source){.records = records, .slots = slots, .inputs = inputs, .input_count = input_count}, plan);
}
/* Give the outputs and inner buffers their places in the plan's memories, once, after the engine has grouped the steps. */
gt_err gt__plan_place(gt_plan *plan);
void gt__plan_free(gt_plan **plan);

#endif

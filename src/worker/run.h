/*
 * run.h: the third step of executing a record: memory for the result, and the engine.
 *
 * run.c runs one planned step, and whole plans (engines/plan.h): step by step, or as the program that the engine
 * compiled. A result is a tensor, late (late.h), or poison.
 */
#ifndef GT_WORKER_RUN_H
#define GT_WORKER_RUN_H

#include "worker/decode.h"
#include "worker/plan.h"

/* Run a step of kind RUN or IN_PLACE into `entry`, whose view is step->out: its state is set if this succeeds. */
gt_err gt__step_run(gt_worker *worker, const gt_decoded *decoded, const gt_step *step, gt_entry *entry);
/* The entry becomes a view of the step's operand 0. */
void gt__step_view(gt_worker *worker, const gt_decoded *decoded, gt_entry *entry);

/* A plan and the engine's program for it, if it made one. Memory is the store's, for the time of each run. */
typedef struct gt_sequence gt_sequence;

/* Takes the plan, also on failure. */
gt_err gt__sequence_new(gt_worker *worker, gt_plan *plan, gt_sequence **sequence);
/*
 * Run it: inputs[k] and outputs[k] are the store's slots for the plan's inputs and outputs. Inputs must look as planned
 * (GT_ERR_VALUE: nothing was done). An output that depends on a failed step or input is poison. The other outputs
 * are not affected, unless the engine's program had already written over an input. Inputs that die with the sequence
 * are cleared from the store.
 */
gt_err gt__sequence_run(gt_worker *worker, gt_sequence *sequence, const uint64_t *inputs, const uint64_t *outputs);
/*
 * While worker->cancel.engine.pause_ns is set, a run may end early, GT_OK and paused, and goes on with gt__sequence_resume,
 * after which it may be paused again. Its inputs and outputs must stay as they are meanwhile: inputs that die are cleared, and
 * outputs stored, when it ends.
 */
gt_err gt__sequence_resume(gt_worker *worker, gt_sequence *sequence);
bool gt__sequence_paused(const gt_sequence *sequence);
/* Nothing of it is used when this returns: a paused run is dropped, and runs that the engine has not ended are waited for. */
void gt__sequence_rest(gt_worker *worker, gt_sequence *sequence);
/* Of the run that was last paused: the slots of its inputs, then of its outputs. */
const uint64_t *gt__sequence_slots(const gt_sequence *sequence);
/* Change a word of the record at a slot: a literal, an immediate, or where it begins. */
void gt__sequence_set_word(gt_sequence *sequence, uint32_t slot, uint32_t word, uint64_t value);
/* Its plan, and how long the engine took to compile it; 0: it did not. */
const gt_plan *gt__sequence_plan(const gt_sequence *sequence, uint64_t *compile_ns);
/* The bytes of all results of a run, by op: *count of them. */
typedef struct gt_op_bytes {
    gt_opcode op;
    uint64_t bytes;
} gt_op_bytes;
const gt_op_bytes *gt__sequence_bytes(const gt_sequence *sequence, unsigned *count);
/* Whether the engine compiled it. */
bool gt__sequence_compiled(const gt_sequence *sequence);
void gt__sequence_free(gt_worker *worker, gt_sequence **sequence);

#endif

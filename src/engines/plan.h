/*
 * plan.h: a sequence of instructions, planned once to be run many times. Engine-neutral: worker/plan.c makes plans,
 * worker/run.c executes them step by step, and an engine may compile one (engine.h).
 *
 * Values are tensors; a value lies in a buffer at an offset, with strides. Inputs are read and not made by the
 * sequence; outputs are made and live on after it; all other values are inner: their last use is known, and buffers
 * whose lives do not overlap share memory: inner buffers lie at planned offsets of one block, in the memory of inputs
 * that have died, or in that of outputs that are not made yet.
 *
 * An engine that compiles a plan may run neighbouring steps as one: it gives them one group number. An inner buffer
 * that is made and last used in one group need not exist: its role becomes NONE. Memory is shared after that, by groups:
 * a buffer that is read in a group shares memory with one that is made in it only if all steps of the group that read it
 * are elementwise, come no later than the step that makes the other one, and read element k for element k; or if an
 * assignment or scatter, alone in its group, consumes it.
 *
 * The literals and immediates of a record may change from run to run; engines read them from the record in each run. So may
 * where a slice or an assignment begins (`moves`). Such a slice of an input is a view in a buffer of its own, whose address is
 * another in each run; of other values, and for engines that need fixed addresses, it is a copy.
 */
#ifndef GT_ENGINES_PLAN_H
#define GT_ENGINES_PLAN_H

#include "engines/engine.h"

#define GT_PLAN_LITERAL UINT32_MAX /* instead of a value: the operand is a literal of the record */
#define GT_PLAN_LIVES UINT32_MAX   /* instead of a step: it outlives the sequence */

typedef struct gt_plan_value {
    uint64_t id;       /* its name in the records */
    uint32_t buffer;   /* that holds it; inputs that are views of one tensor share one */
    int64_t offset;    /* bytes: of element (0,...,0) in the buffer */
    uint32_t last_use; /* the last step that reads it, else the step that makes it; or GT_PLAN_LIVES */
    bool dies;         /* an input that the sequence frees */
    gt_view view;      /* without data */
} gt_plan_value;

typedef enum gt_plan_role {
    GT_PLAN_INPUT,
    GT_PLAN_OUTPUT,
    GT_PLAN_INNER,
    GT_PLAN_NONE, /* inner, and never in memory: address NULL */
} gt_plan_role;

#define GT_PLAN_NO_MEMORY UINT32_MAX
#define GT_PLAN_NO_DONOR UINT32_MAX

typedef struct gt_plan_buffer {
    gt_plan_role role;
    size_t bytes;     /* OUTPUT, INNER, NONE */
    uint32_t number;  /* INPUT, OUTPUT: which of them; the first, if inputs share it, or have a slice that moves */
    uint32_t sharers; /* INPUT: how many inputs lie in it; 0: it is that of a slice that moves */
    uint32_t last_use; /* a step, or GT_PLAN_LIVES */
    /* The engine reads it at steps that have other operands, too: nothing is written over it up to last_use. */
    bool read_elsewhere;
    uint32_t memory; /* OUTPUT, INNER: which of the plan's memories it lies in */
    size_t offset;   /* in it; OUTPUT: 0 */
} gt_plan_buffer;

/* Outputs each have one of their own. */
typedef struct gt_plan_memory {
    size_t bytes;
    /* An INPUT buffer that dies, and whose memory this is after its last use, if the worker finds that no other tensor uses it.
     * Else GT_PLAN_NO_DONOR. */
    uint32_t donor;
} gt_plan_memory;

typedef enum gt_step_kind {
    GT_STEP_RUN,      /* the engine computes it into memory of its own */
    GT_STEP_IN_PLACE, /* the engine computes it into the memory of operand 0, which dies with it */
    GT_STEP_VIEW,     /* other strides on operand 0's memory; no computation */
    GT_STEP_UPLOAD,   /* data from the client; not in plans */
} gt_step_kind;

typedef struct gt_plan_step {
    gt_step_kind kind;
    gt_opcode op;
    gt_dtype compute;
    const gt_slot *record; /* in the plan's copy */
    unsigned operands;
    const uint32_t *operand; /* values, or GT_PLAN_LITERAL */
    uint32_t result;         /* a value */
    uint32_t group;          /* the number of the first step that it runs as one with; at first its own number */
    bool moves;              /* a slice or an assignment that may begin elsewhere in each run */
} gt_plan_step;

struct gt_plan {
    gt_slot *records;
    gt_plan_step *steps;
    unsigned step_count;
    gt_plan_value *values;
    uint32_t value_count;
    gt_plan_buffer *buffers;
    uint32_t buffer_count;
    uint32_t *inputs, input_count;   /* values, in the order of their first use */
    uint32_t *outputs, output_count; /* values, in the order they are made */
    gt_plan_memory *memories;
    uint32_t memory_count;
    uint32_t *operand_room;
    uint32_t *moving, moving_count; /* steps that move, in order */
    bool marked; /* the program asked for it (gt.compile, `compile: true`): compiling may take long */
};

/* ---- for engines that run steps one by one -------------------------------------------------------------------- */

/* Where a value lies in a run. */
static inline gt_view gt__plan_view(const gt_plan *plan, uint32_t value, void *const *buffer)
{
    gt_view view = plan->values[value].view;
    view.data = (char *)buffer[plan->values[value].buffer] + plan->values[value].offset;
    return view;
}

/* Make a slice of the operand's view. tail: of the record; result: what the slice looks like. */
static inline void gt__plan_cut(const gt_slot *tail, const gt_meta *result, gt_view *view)
{
    int64_t first = 0;
    for (unsigned axis = 0; axis < view->meta.rank; axis++) {
        first += tail[0].i64[axis] * view->stride[axis];
        view->stride[axis] *=
            result->shape[axis] > 1 ? tail[1].i64[axis] : 1; /* else it may be too large to multiply */
    }
    if (result->numel) /* an empty slice may begin past the end */
        view->data = (char *)view->data + first * (int64_t)gt__dtype_size((gt_dtype)result->dtype);
    view->meta = *result;
    view->contiguous = false;
}

/* A slice that is copied: its call is that of a copy, of an operand that was cut. */
static inline bool gt__plan_copies(const gt_plan_step *step)
{
    return step->op == GT_OP_slice && step->kind == GT_STEP_RUN;
}

/* The call of a step. in and views: room for its operands. */
static inline gt_call gt__plan_call(const gt_plan *plan, const gt_plan_step *step, void *const *buffer,
                                    gt_view *in, const gt_view **views, gt_view *out)
{
    const gt_instruction *ins = &step->record->ins;
    *out = gt__plan_view(plan, step->result, buffer);
    gt_call call = {.op = step->op,
                    .compute = step->compute,
                    .ins = ins,
                    .tail = step->record + 1,
                    .operands = step->operands,
                    .in = views,
                    .out = out};
    for (unsigned k = 0; k < step->operands; k++) {
        views[k] = &in[k];
        if (step->operand[k] != GT_PLAN_LITERAL) {
            in[k] = gt__plan_view(plan, step->operand[k], buffer);
            continue;
        }
        call.literals |= (uint8_t)(1 << k);
        call.value[k] = gt__literal_operand(ins, k, &in[k]);
    }
    if (gt__plan_copies(step)) {
        call.op = GT_OP_copy;
        gt__plan_cut(call.tail, &out->meta, &in[0]);
    }
    return call;
}

#endif

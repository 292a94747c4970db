/*
 * make.h: intermediate tensors of a record that takes several steps.
 *
 * Most records become one record for each worker (gt_plan). An op along the split axis takes several: softmax is a maximum,
 * a difference, an exponential, a sum and a quotient. A rule gives such a record a function, gt_plan.run, which is a
 * short program of steps. A step is an instruction on spread tensors like those of the client: the rules choose the layouts,
 * or the program names them.
 *
 * Once a step has failed, the steps that follow do nothing and return NULL, so that a program checks for errors once, at
 * its end. gt__make_end frees what was made, but for the result.
 */
#ifndef GT_DISPATCHER_SPREAD_MAKE_H
#define GT_DISPATCHER_SPREAD_MAKE_H

#include "dispatcher/spread/spread.h"

enum { GT_MAKE_MOST = 40 /* intermediates of one record */ };

typedef struct gt_maker {
    gt_session *session;
    gt_err err;
    unsigned count;
    gt_handle made[GT_MAKE_MOST];
} gt_maker;

/* One step. The tensors are those of the client or were made by steps before. */
typedef struct gt_step {
    const gt_slot *record; /* with its tail; ids are filled in */
    unsigned count;        /* operands; NULL where the record has a literal */
    gt_handle *const *operand;
    gt_layout *const *at; /* by operand; NULL: the rules choose, and what follows is not used */
    gt_layout *result;
    const gt_layout *parts; /* for `localize` */
    gt_localize *localize;
    const gt_meta *out; /* NULL: inferred */
} gt_step;

gt_maker gt__make_begin(gt_session *session);
/* The result of the record is this tensor, which was made; the others are freed. NULL: there was an error. */
gt_err gt__make_end(gt_maker *m, gt_handle *made, gt_handle *result);
/* Free an intermediate that is not used any more; one that was not made here stays. */
void gt__make_drop(gt_maker *m, gt_handle *made);

gt_handle *gt__make(gt_maker *m, const gt_step *step);
/* Operand k in the layout of the plan: itself or a copy. */
gt_handle *gt__make_operand(gt_maker *m, const gt_task *task, const gt_plan *plan, unsigned k);
gt_handle *gt__make_moved(gt_maker *m, gt_handle *a, gt_layout *layout);

/* Where the rules choose. */
gt_handle *gt__make_unary(gt_maker *m, gt_opcode op, gt_handle *a);
gt_handle *gt__make_binary(gt_maker *m, gt_opcode op, gt_handle *a, gt_handle *b);
gt_handle *gt__make_reduced(gt_maker *m, gt_opcode op, gt_handle *a,
                            unsigned axis);                          /* the axis stays, of size 1 */
gt_handle *gt__make_cast(gt_maker *m, gt_handle *a, gt_dtype dtype); /* itself if it is that */
gt_handle *gt__make_reshaped(gt_maker *m, gt_handle *a, const gt_meta *like);

/* On each member of a layout by itself, with whatever that member has of the operands: the shape of the whole is not
 * checked. */
gt_handle *gt__make_here(gt_maker *m, gt_instruction ins, gt_handle *const *operand, gt_layout *const *at,
                         gt_layout *result, const gt_meta *out);

/* A tensor with another size along an axis, or of another dtype. */
gt_meta gt__make_meta(const gt_meta *like, unsigned axis, int64_t size, gt_dtype dtype);

/* Layouts for steps, the caller's; NULL, and the maker has failed: out of memory. */
gt_layout *gt__make_whole(gt_maker *m, const gt_layout *like); /* replicated over the same workers */
gt_layout *gt__make_ones(gt_maker *m, const gt_layout *like);  /* one element for each member */

#endif

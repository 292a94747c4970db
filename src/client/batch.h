/*
 * batch.h: batched tensors, the values inside a vmap.
 *
 * vmap(f)(x) runs f once on tensors that hide an axis. A batched tensor has the shape that f sees; its `base` is the tensor
 * with all samples, the hidden axis in front; its `batch` is the level of the vmap, a number that grows with nesting. An op
 * with a batched operand is emitted as one op on the bases (batch_rules.c: a rule for each form of the op table), or, for
 * forms without a rule, once for each sample. Nested vmaps hide several axes: the base is itself batched, at a lower level.
 *
 * Autograd records the ops on the bases, so a batched tensor has the node of its base, and gradients have the shapes of
 * bases. gt__batch_strip and gt__batch_restore convert at the ends of a backward pass.
 *
 * A live batched tensor counts in gt__signals_active, as modes do (intercept.h): other tensors cost nothing.
 */
#ifndef GT_CLIENT_BATCH_H
#define GT_CLIENT_BATCH_H

#include "client/autograd.h"
#include "client/client.h"

/* What random ops do inside a vmap. */
typedef enum gt_randomness { GT_RANDOMNESS_ERROR, GT_RANDOMNESS_SAME, GT_RANDOMNESS_DIFFERENT } gt_randomness;

enum { GT_MAX_LEVELS = GT_MAX_RANK };

/* Begin and end a vmap over `size` samples, on this thread. */
gt_err gt__batch_enter(int64_t size, gt_randomness randomness, uint32_t *level);
void gt__batch_exit(uint32_t level);
/* Whether this thread is inside a vmap. */
bool gt__batch_active(void);

/* The batched tensor of a tensor whose first axis is hidden. */
gt_err gt__batch_wrap(gt_tensor *tensor, uint32_t level, gt_tensor **out);
/* The tensor with the axis of a level in front; a tensor that does not depend on the sample is expanded. */
gt_err gt__batch_unwrap(gt_tensor *tensor, uint32_t level, gt_tensor **out);
/* The same value, batched at every level of this thread. */
gt_err gt__batch_expand_all(gt_tensor *tensor, gt_tensor **out);

/*
 * The tensor as nodes know it, that of `like`: for each level of like, its axis in front. Levels that like does not have stay
 * hidden: a backward pass may itself be batched. restore undoes it.
 */
gt_err gt__batch_strip(gt_tensor *tensor, const gt_tensor *like, gt_tensor **out);
gt_err gt__batch_restore(gt_tensor *tensor, const gt_tensor *like, gt_tensor **out);

/* gt__autograd_run where outputs or inputs are batched: on their bases, the results batched as the inputs are. */
bool gt__batch_any(gt_tensor *const *tensors, unsigned count);
gt_err gt__batch_autograd(gt_tensor *const *outputs, gt_tensor *const *gradients, unsigned count,
                          gt_tensor *const *inputs, unsigned input_count, gt_tensor **results,
                          gt_backward_options options);

/* For gt__intercept: emit an op with batched operands, or a random op inside a vmap. */
gt_err gt__batch_emit(gt_client *client, const gt_instruction *prototype, gt_slot *tail, gt_tensor *const *in,
                      unsigned count, gt_tensor **out);
gt_err gt__batch_emit_random(gt_client *client, const gt_instruction *prototype, const gt_slot *tail,
                             gt_tensor **out);

/* gt_tensor_release lets go of a batched tensor; gt__tensor_alias makes another. */
void gt__batch_count(int change);
/* The error for reading the value of a batched tensor. */
gt_err gt__batch_refuse_value(void);

/* Called once for each op that is emitted sample by sample; set by the language binding. May be NULL. */
extern void (*gt__batch_slow_hook)(const char *op);

/* ---- for batch_rules.c ------------------------------------------------------------------------------------- */

enum { GT_BATCH_TEMPORARIES = 16 };

/* One op: logical operands in[], their bases where they are batched, the inferred logical result. */
typedef struct gt_batching {
    gt_client *client;
    int64_t size; /* samples */
    uint32_t level;
    gt_randomness randomness;
    gt_instruction ins;                 /* to be changed and emitted */
    gt_slot *tail, own[GT_MAX_CAT / 8]; /* own: room for a changed tail */
    gt_tensor *const *in;
    unsigned count;
    gt_tensor **base; /* NULL: not batched */
    gt_meta out;
    gt_dtype compute;
    gt_tensor *temporary[GT_BATCH_TEMPORARIES];
    unsigned temporaries;
    gt_err err;
} gt_batching;

/* The rule of the op's form: the result with the hidden axis in front, or NULL: f->err, or (GT_OK) there is no rule. */
gt_tensor *gt__batch_rule(gt_batching *f);

#endif

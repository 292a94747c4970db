/*
 * steps.h: the words gradient rules are written in. The rules are in this folder, one file a family; rules.c collects them.
 *
 * A rule reads its frame f: the gradient f->g of the row's result and the saved values f->x, f->y, f->z (operands) and
 * f->out. It sets the operands' gradients with GX, GY and GZ. Each step emits one op and returns its result, which the
 * frame releases when the rule ends. A failed step returns NULL, and every later step passes that on, so rules need no
 * error handling. The caller (client/backward.c) undoes broadcasting.
 */
#ifndef GT_CLIENT_GRADIENTS_STEPS_H
#define GT_CLIENT_GRADIENTS_STEPS_H

#include <math.h>
#include <string.h>

#include "client/autograd.h"

enum { GT_MAX_TEMPORARIES = 64 };

typedef struct gt_frame {
    gt_node *node;
    gt_tensor *g, *x, *y, *z, *out;
    const bool *wanted;
    bool create_graph; /* the gradient will be differentiated itself: rules may not use rows without a rule */
    gt_tensor **results;
    gt_tensor *temporary[GT_MAX_TEMPORARIES];
    unsigned count;
    gt_err err;
} gt_frame;

/* ---- rules -------------------------------------------------------------------------------------------------- */

typedef struct gt_gradient {
    void (*rule)(gt_frame *f);
    uint16_t saves; /* GT_SAVE_*: the values the rule reads */
} gt_gradient;

/* Every DIFF row has one. */
#define DECLARE_DIFF(name) extern const gt_gradient gt__gradient_##name;
#define DECLARE_NONE(name)
#define OP(name, form, types, grad) DECLARE_##grad(name)
#include "core/ops.def"
#undef DECLARE_DIFF
#undef DECLARE_NONE

/*
 * RULE(name, what to save) { body }. A DIFF row without a rule does not link (gt__gradient_NAME is undefined); a rule
 * without a DIFF row does not compile (gt__gradient_NAME is undeclared).
 */
#define RULE(name, what)                                                                                          \
    static void rule_##name(gt_frame *f);                                                                         \
    __typeof__(gt__gradient_##name) gt__gradient_##name = {.rule = rule_##name, .saves = (what)};                 \
    static void rule_##name(gt_frame *f)
#define X GT_SAVE_0
#define Y GT_SAVE_1
#define Z GT_SAVE_2
#define OUT GT_SAVE_OUT
/* Read only for the gradient of x, or of y: not saved where that gradient is not wanted. */
#define FOR_X(saves) ((saves) << GT_SAVE_FOR_0)
#define FOR_Y(saves) ((saves) << GT_SAVE_FOR_1)

/* Deliver operand k's gradient, if it is wanted and every step so far worked. */
#define GRADIENT(k, value)                                                                                        \
    do {                                                                                                          \
        if (f->wanted[k]) {                                                                                       \
            gt_tensor *value_ = (value);                                                                          \
            if (value_ && f->err == GT_OK)                                                                        \
                f->results[k] = gt_tensor_retain(value_);                                                         \
        }                                                                                                         \
    } while (0)
#define GX(value) GRADIENT(0, value)
#define GY(value) GRADIENT(1, value)
#define GZ(value) GRADIENT(2, value)

/* PyTorch has no gradient for operand k either, and says so in a backward pass that wants it. */
void gt__step_refuse(gt_frame *f, unsigned k, const char *name);
/* The same where PyTorch has no rule at all: its node is called NotImplemented (backward.c). */
void gt__step_refuse_all(gt_frame *f, const char *name);

/* ---- steps -------------------------------------------------------------------------------------------------- */

/* In capitals: the frame is f, and an op goes by its name in the table. */
#define EMIT(op, a) gt__step_unary(f, GT_OP_##op, a)
#define EMIT2(op, a, b) gt__step_binary(f, GT_OP_##op, a, b)
#define NUMBER(op, a, value) gt__step_number(f, GT_OP_##op, a, value)
#define WITH_OPERAND(op, a, k) gt__step_with_operand(f, GT_OP_##op, a, k)
#define REDUCED(op, a, axes, keepdims) gt__step_reduce(f, GT_OP_##op, a, axes, keepdims)
#define NEG(a) EMIT(neg, a)
#define ADD(a, b) EMIT2(add, a, b)
#define SUB(a, b) EMIT2(sub, a, b)
#define MUL(a, b) EMIT2(mul, a, b)
#define DIV(a, b) EMIT2(div, a, b)
#define SCALE(a, value) NUMBER(mul, a, value)
#define PLUS(a, value) NUMBER(add, a, value)
#define WHERE(condition, a, b) gt__step_where(f, condition, a, b)
#define WHERE_OR_ZERO(condition, a) gt__step_where_or_zero(f, condition, a)
#define ZERO_WHERE(condition, a) gt__step_zero_where(f, condition, a)
#define MATMUL(a, b) gt__step_matmul(f, a, b)
#define T(a) gt__step_transpose(f, a)
#define CONJ(a) gt__step_conjugate(f, a)
#define H(a) gt__step_adjoint(f, a)
#define RESHAPE(a, rank, ...) gt__step_reshape(f, a, rank, __VA_ARGS__) /* the shape may be a compound literal */
#define EXPAND(a, rank, shape) gt__step_expand(f, a, rank, shape)
#define SLICE(a, spec) gt__step_slice(f, a, spec)
#define CAST(a, dtype) gt__step_cast(f, a, dtype)
#define FILLED(meta, value) gt__step_full(f, meta, value)
#define ZEROS(meta) FILLED(meta, 0)
#define OPERAND(k, saved, like) gt__step_operand(f, k, saved, like)
#define IS_LITERAL(k) (gt__literal(&f->node->ins, k) != GT_LITERAL_NONE)

gt_tensor *gt__step_unary(gt_frame *f, gt_opcode op, gt_tensor *a);
gt_tensor *gt__step_binary(gt_frame *f, gt_opcode op, gt_tensor *a, gt_tensor *b);
/* a op value */
gt_tensor *gt__step_number(gt_frame *f, gt_opcode op, gt_tensor *a, double value);
/* a op (operand k of the node), be it a saved tensor or a literal */
gt_tensor *gt__step_with_operand(gt_frame *f, gt_opcode op, gt_tensor *a, unsigned k);
double gt__step_literal(const gt_instruction *ins, unsigned k);
/* Operand k. If it is a literal: a tensor full of it, of the shape and dtype of `like`. */
gt_tensor *gt__step_operand(gt_frame *f, unsigned k, gt_tensor *saved, gt_tensor *like);
gt_tensor *gt__step_reduce(gt_frame *f, gt_opcode op, gt_tensor *a, uint32_t axes, bool keepdims);
gt_tensor *gt__step_where(gt_frame *f, gt_tensor *condition, gt_tensor *a, gt_tensor *b);
/* condition ? a : 0, and condition ? 0 : a */
gt_tensor *gt__step_where_or_zero(gt_frame *f, gt_tensor *condition, gt_tensor *a);
gt_tensor *gt__step_zero_where(gt_frame *f, gt_tensor *condition, gt_tensor *a);
gt_tensor *gt__step_matmul(gt_frame *f, gt_tensor *a, gt_tensor *b);
/* The last two axes swapped; of complex numbers the conjugates; both. */
gt_tensor *gt__step_transpose(gt_frame *f, gt_tensor *a);
gt_tensor *gt__step_conjugate(gt_frame *f, gt_tensor *a);
gt_tensor *gt__step_adjoint(gt_frame *f, gt_tensor *a);
bool gt__step_is_complex(const gt_tensor *a); /* NULL is not */
gt_tensor *gt__step_reshape(gt_frame *f, gt_tensor *a, unsigned rank, const int64_t *shape);
gt_tensor *gt__step_expand(gt_frame *f, gt_tensor *a, unsigned rank, const int64_t *shape);
/* spec: start, step and count of every axis, as in a record's tail */
gt_tensor *gt__step_slice(gt_frame *f, gt_tensor *a, const gt_slot *spec);
gt_tensor *gt__step_cast(gt_frame *f, gt_tensor *a, gt_dtype dtype);
/* A new tensor of meta's shape and dtype. */
gt_tensor *gt__step_full(gt_frame *f, const gt_meta *meta, double value);

/* ---- more steps --------------------------------------------------------------------------------------------- */

/* Keep a step's result until the rule ends. Takes the tensor. */
gt_tensor *gt__step_keep(gt_frame *f, gt_err err, gt_tensor *tensor);

/* The body of a function that is a step: `call` puts its result into result_. */
#define STEP(call)                                                                                                \
    do {                                                                                                          \
        gt_tensor *result_ = NULL;                                                                                \
        if (f->err != GT_OK)                                                                                      \
            return NULL;                                                                                          \
        gt_err err_ = (call);                                                                                     \
        return gt__step_keep(f, err_, result_);                                                                   \
    } while (0)

#endif

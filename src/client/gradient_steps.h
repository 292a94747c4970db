/*
 * gradient_steps.h: the words gradient rules are written in. Included by gradients.c alone.
 *
 * A rule reads the gradient g of its result and the saved values x, y, z (operands) and out, and sets gx, gy, gz. Temporaries
 * are released by the frame; a failed step leaves NULL, which every later step passes on, so rules need no error handling.
 * Broadcasting is undone by the caller (autograd.c).
 */
#ifndef GT_CLIENT_GRADIENT_STEPS_H
#define GT_CLIENT_GRADIENT_STEPS_H

#include <math.h>
#include <string.h>

#include "client/autograd.h"

enum { MAX_TEMPORARIES = 64 };

typedef struct frame {
    gt_node *node;
    gt_tensor *g, *x, *y, *z, *out;
    const bool *wanted;
    bool create_graph; /* the gradient will be differentiated itself: rules may not use rows without one */
    gt_tensor **results;
    gt_tensor *temporary[MAX_TEMPORARIES];
    unsigned count;
    gt_err err;
} frame;

/* ---- steps ------------------------------------------------------------------------------------------------- */

/* Keep a step's result until the rule ends. */
static gt_tensor *keep(frame *f, gt_err err, gt_tensor *tensor)
{
    if (err != GT_OK) {
        f->err = err;
        return NULL;
    }
    if (f->count == MAX_TEMPORARIES) {
        gt_tensor_release(tensor);
        f->err = gt__fail(GT_ERR_INTERNAL, "%s: the gradient rule is too long", gt__op_table[f->node->op].name);
        return NULL;
    }
    return f->temporary[f->count++] = tensor;
}

#define STEP(call)                                                                                                \
    do {                                                                                                          \
        gt_tensor *result_ = NULL;                                                                                \
        if (f->err != GT_OK)                                                                                      \
            return NULL;                                                                                          \
        gt_err err_ = (call);                                                                                     \
        return keep(f, err_, result_);                                                                            \
    } while (0)

static gt_tensor *unary(frame *f, gt_opcode op, gt_tensor *a)
{
    STEP(gt__emit_unary(op, a, &result_));
}

static gt_tensor *binary(frame *f, gt_opcode op, gt_tensor *a, gt_tensor *b)
{
    STEP(gt__emit_binary(op, a, b, &result_));
}

/* a op value */
static gt_tensor *number(frame *f, gt_opcode op, gt_tensor *a, double value)
{
    STEP(gt__emit_binary_literal(op, a, GT_LITERAL_FLOAT, (gt_imm){.f = value}, false, &result_));
}

/* value op a */
static gt_tensor *number_first(frame *f, gt_opcode op, double value, gt_tensor *a)
{
    STEP(gt__emit_binary_literal(op, a, GT_LITERAL_FLOAT, (gt_imm){.f = value}, true, &result_));
}

/* A _PQ row with the numbers p and q. */
static gt_tensor *binary_numbers(frame *f, gt_opcode op, gt_tensor *a, gt_tensor *b, double p, double q)
{
    STEP(gt__emit_binary_numbers(op, a, b, p, q, &result_));
}

static gt_tensor *reduce(frame *f, gt_opcode op, gt_tensor *a, uint32_t axes, bool keepdims)
{
    STEP(gt__emit_reduce(op, a, axes, keepdims, 0, &result_));
}

/* condition ? a : 0, and condition ? 0 : a */
static gt_tensor *where_or_zero(frame *f, gt_tensor *condition, gt_tensor *a)
{
    STEP(gt__emit_ternary(GT_OP_where, condition, a, GT_LITERAL_NONE, (gt_imm){0}, NULL, GT_LITERAL_INT,
                          (gt_imm){0}, &result_));
}

static gt_tensor *zero_where(frame *f, gt_tensor *condition, gt_tensor *a)
{
    STEP(gt__emit_ternary(GT_OP_where, condition, NULL, GT_LITERAL_INT, (gt_imm){0}, a, GT_LITERAL_NONE,
                          (gt_imm){0}, &result_));
}

static gt_tensor *where_tensors(frame *f, gt_tensor *condition, gt_tensor *a, gt_tensor *b)
{
    STEP(gt_where(condition, a, b, &result_));
}

static gt_tensor *reshape(frame *f, gt_tensor *a, unsigned rank, const int64_t *shape)
{
    STEP(gt_reshape(a, (int)rank, shape, &result_));
}

static gt_tensor *expand(frame *f, gt_tensor *a, unsigned rank, const int64_t *shape)
{
    STEP(gt_expand(a, (int)rank, shape, &result_));
}

static gt_tensor *matmul(frame *f, gt_tensor *a, gt_tensor *b)
{
    STEP(gt_matmul(a, b, &result_));
}

static gt_tensor *swap_last(frame *f, gt_tensor *a)
{
    STEP(gt_transpose(a, a->meta.rank - 2, a->meta.rank - 1, &result_));
}

static gt_tensor *cast(frame *f, gt_tensor *a, gt_dtype dtype)
{
    STEP(gt_cast(a, dtype, &result_));
}

static gt_tensor *slice(frame *f, gt_tensor *a, const gt_slot *spec)
{
    STEP(gt_slice(a, spec[0].i64, spec[1].i64, spec[2].i64, &result_));
}

static gt_tensor *gather(frame *f, gt_tensor *a, gt_tensor *index, int axis)
{
    STEP(gt_gather(a, index, axis, &result_));
}

static gt_tensor *scatter_add(frame *f, gt_tensor *a, gt_tensor *index, gt_tensor *src, int axis)
{
    STEP(gt_scatter_add(a, index, src, axis, &result_));
}

static gt_tensor *wrap_index(frame *f, gt_tensor *index, int64_t size, int axis)
{
    STEP(gt__emit_wrap_index(index, size, axis, &result_));
}

static gt_tensor *filled(frame *f, const gt_meta *meta, double value)
{
    STEP(gt_full(f->node->client, (gt_dtype)meta->dtype, meta->rank, meta->shape, value, &result_));
}

static gt_tensor *zeros(frame *f, const gt_meta *meta)
{
    return filled(f, meta, 0);
}

static gt_tensor *permute(frame *f, gt_tensor *a, const int *axes)
{
    STEP(gt_permute(a, axes, &result_));
}

/* start + i * step for i < count, int64 */
static gt_tensor *ramp(frame *f, int64_t count, int64_t step)
{
    STEP(gt__emit_arange(f->node->client, GT_INT64, count, GT_LITERAL_INT, (gt_imm){.i = 0}, (gt_imm){.i = step},
                         &result_));
}

/* A row of form SCAN or SOFTMAX. */
static gt_tensor *along(frame *f, gt_opcode op, gt_tensor *a, int64_t axis)
{
    STEP(gt__emit_along(op, a, NULL, (int)axis, &result_));
}

static gt_tensor *assign(frame *f, gt_tensor *a, const gt_slot *spec, gt_tensor *src)
{
    STEP(gt__emit_assign(a, spec[0].i64, spec[1].i64, spec[2].i64, src, GT_LITERAL_FLOAT, (gt_imm){.f = 0}, false,
                         &result_));
}

/* The slice of every axis reversed or not, as gt_slice wants it. */
static gt_tensor *flip(frame *f, gt_tensor *a, int64_t axis)
{
    gt_slot spec[3];
    if (f->err != GT_OK)
        return NULL;
    for (unsigned d = 0; d < a->meta.rank; d++) {
        bool reversed = d == axis && a->meta.shape[d] > 0;
        spec[0].i64[d] = reversed ? a->meta.shape[d] - 1 : 0;
        spec[1].i64[d] = reversed ? -1 : 1;
        spec[2].i64[d] = a->meta.shape[d];
    }
    return slice(f, a, spec);
}

/* A scan from the end. */
static gt_tensor *along_reversed(frame *f, gt_opcode op, gt_tensor *a, int64_t axis)
{
    return flip(f, along(f, op, flip(f, a, axis), axis), axis);
}

#define NEG(a) unary(f, GT_OP_neg, a)
#define ADD(a, b) binary(f, GT_OP_add, a, b)
#define SUB(a, b) binary(f, GT_OP_sub, a, b)
#define MUL(a, b) binary(f, GT_OP_mul, a, b)
#define DIV(a, b) binary(f, GT_OP_div, a, b)
#define SCALE(a, number_) number(f, GT_OP_mul, a, number_)
#define PLUS(a, number_) number(f, GT_OP_add, a, number_)
#define ONE_MINUS(a) number_first(f, GT_OP_sub, 1, a)
#define SQUARE(a) unary(f, GT_OP_square, a)

/* ---- operands that may be literals ------------------------------------------------------------------------- */

/* a op (operand k of the node), be it a saved tensor or a literal. */
static gt_tensor *with_operand(frame *f, gt_opcode op, gt_tensor *a, unsigned k)
{
    const gt_instruction *ins = &f->node->ins;
    if (gt__literal(ins, k) == GT_LITERAL_NONE)
        return binary(f, op, a, k == 0 ? f->x : f->y);
    STEP(gt__emit_binary_literal(op, a, gt__literal(ins, k), ins->literal[k], false, &result_));
}

static double literal_value(const gt_instruction *ins, unsigned k)
{
    return gt__literal(ins, k) == GT_LITERAL_FLOAT ? ins->literal[k].f : (double)ins->literal[k].i;
}

static bool is_literal(const frame *f, unsigned k)
{
    return gt__literal(&f->node->ins, k) != GT_LITERAL_NONE;
}

/* Operand k, or where it is a literal a tensor full of it, as large as `like`. */
static gt_tensor *operand_tensor(frame *f, unsigned k, gt_tensor *saved, gt_tensor *like)
{
    if (!is_literal(f, k))
        return saved;
    double value = literal_value(&f->node->ins, k);
    STEP(gt_full(f->node->client, (gt_dtype)like->meta.dtype, like->meta.rank, like->meta.shape, value, &result_));
}

/* ---- the table --------------------------------------------------------------------------------------------- */

/* RULE(name, what to save) { body }: f is the frame; set gx/gy/gz through GX, GY, GZ. */
#define RULE(name, saves)                                                                                         \
    enum { saves_##name = (saves) };                                                                              \
    static void rule_##name(frame *f)
#define X GT_SAVE_0
#define Y GT_SAVE_1
#define Z GT_SAVE_2
#define OUT GT_SAVE_OUT
/* What only the gradient of x, or of y, takes: where that is not wanted, nothing need be kept for it. */
#define FOR_X(saves) ((saves) << GT_SAVE_FOR_0)
#define FOR_Y(saves) ((saves) << GT_SAVE_FOR_1)
/* The numbers of a _PQ row. */
#define P (f->node->ins.imm[0].f)
#define Q (f->node->ins.imm[1].f)

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

#endif

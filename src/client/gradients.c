/*
 * gradients.c: one rule per differentiable row of the op table, written in ordinary ops.
 *
 * A rule reads the gradient g of its result and the saved values x, y, z (operands) and out, and sets gx, gy, gz. Temporaries
 * are released by the frame; a failed step leaves NULL, which every later step passes on, so rules need no error handling.
 * Broadcasting is undone by the caller (autograd.c). A DIFF row without RULE(...) here does not compile.
 */
#include <math.h>
#include <string.h>

#include "autograd.h"

enum { MAX_TEMPORARIES = 24 };

typedef struct frame {
    gt_node *node;
    gt_tensor *g, *x, *y, *z, *out;
    const bool *wanted;
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

#define STEP(call)                                                                                             \
    do {                                                                                                       \
        gt_tensor *result_ = NULL;                                                                             \
        if (f->err != GT_OK)                                                                                   \
            return NULL;                                                                                       \
        gt_err err_ = (call);                                                                                  \
        return keep(f, err_, result_);                                                                         \
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

static gt_tensor *reduce(frame *f, gt_opcode op, gt_tensor *a, uint32_t axes, bool keepdims)
{
    STEP(gt__emit_reduce(op, a, axes, keepdims, 0, &result_));
}

/* condition ? a : 0, and condition ? 0 : a */
static gt_tensor *where_or_zero(frame *f, gt_tensor *condition, gt_tensor *a)
{
    STEP(gt__emit_where(condition, a, GT_LITERAL_NONE, (gt_imm){0}, NULL, GT_LITERAL_INT, (gt_imm){0}, &result_));
}

static gt_tensor *zero_where(frame *f, gt_tensor *condition, gt_tensor *a)
{
    STEP(gt__emit_where(condition, NULL, GT_LITERAL_INT, (gt_imm){0}, a, GT_LITERAL_NONE, (gt_imm){0}, &result_));
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

static gt_tensor *wrap_index(frame *f, gt_tensor *index, int64_t size)
{
    STEP(gt__emit_wrap_index(index, size, &result_));
}

static gt_tensor *zeros(frame *f, const gt_meta *meta)
{
    STEP(gt_full(f->node->client, (gt_dtype)meta->dtype, meta->rank, meta->shape, 0, &result_));
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

#define NEG(a) unary(f, GT_OP_neg, a)
#define ADD(a, b) binary(f, GT_OP_add, a, b)
#define SUB(a, b) binary(f, GT_OP_sub, a, b)
#define MUL(a, b) binary(f, GT_OP_mul, a, b)
#define DIV(a, b) binary(f, GT_OP_div, a, b)
#define SCALE(a, number_) number(f, GT_OP_mul, a, number_)
#define PLUS(a, number_) number(f, GT_OP_add, a, number_)
#define ONE_MINUS(a) number_first(f, GT_OP_sub, 1, a)

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

/* ---- the table --------------------------------------------------------------------------------------------- */

/* RULE(name, what to save) { body }: f is the frame; set gx/gy/gz through GX, GY, GZ. */
#define RULE(name, saves)                                                                                      \
    enum { saves_##name = (saves) };                                                                           \
    static void rule_##name(frame *f)
#define X GT_SAVE_0
#define Y GT_SAVE_1
#define Z GT_SAVE_2
#define OUT GT_SAVE_OUT

/* Deliver operand k's gradient, if it is wanted and every step so far worked. */
#define GRADIENT(k, value)                                                                                     \
    do {                                                                                                       \
        if (f->wanted[k]) {                                                                                    \
            gt_tensor *value_ = (value);                                                                       \
            if (value_ && f->err == GT_OK)                                                                     \
                f->results[k] = gt_tensor_retain(value_);                                                      \
        }                                                                                                      \
    } while (0)
#define GX(value) GRADIENT(0, value)
#define GY(value) GRADIENT(1, value)
#define GZ(value) GRADIENT(2, value)

/* ---- one operand ------------------------------------------------------------------------------------------- */

RULE(neg, 0) { GX(NEG(f->g)); }
RULE(abs, X) { GX(MUL(f->g, unary(f, GT_OP_sign, f->x))); }
RULE(sign, 0) { GX(zeros(f, &f->node->out)); }
RULE(square, X) { GX(MUL(f->g, SCALE(f->x, 2))); }
RULE(sqrt, OUT) { GX(DIV(f->g, SCALE(f->out, 2))); }
RULE(rsqrt, OUT) { GX(MUL(f->g, SCALE(MUL(f->out, MUL(f->out, f->out)), -0.5))); }
RULE(reciprocal, OUT) { GX(MUL(f->g, NEG(MUL(f->out, f->out)))); }
RULE(exp, OUT) { GX(MUL(f->g, f->out)); }
RULE(expm1, OUT) { GX(MUL(f->g, PLUS(f->out, 1))); }
RULE(log, X) { GX(DIV(f->g, f->x)); }
RULE(log1p, X) { GX(DIV(f->g, PLUS(f->x, 1))); }
RULE(sin, X) { GX(MUL(f->g, unary(f, GT_OP_cos, f->x))); }
RULE(cos, X) { GX(MUL(f->g, NEG(unary(f, GT_OP_sin, f->x)))); }
RULE(tanh, OUT) { GX(MUL(f->g, ONE_MINUS(MUL(f->out, f->out)))); }
RULE(sigmoid, OUT) { GX(MUL(f->g, MUL(f->out, ONE_MINUS(f->out)))); }
RULE(erf, X) { GX(MUL(f->g, SCALE(unary(f, GT_OP_exp, NEG(MUL(f->x, f->x))), M_2_SQRTPI))); }
RULE(relu, OUT) { GX(where_or_zero(f, number(f, GT_OP_gt, f->out, 0), f->g)); }
RULE(softplus, X) { GX(MUL(f->g, unary(f, GT_OP_sigmoid, f->x))); }
RULE(floor, 0) { GX(zeros(f, &f->node->out)); }
RULE(ceil, 0) { GX(zeros(f, &f->node->out)); }
RULE(round, 0) { GX(zeros(f, &f->node->out)); }

/* Phi(x) + x phi(x) */
RULE(gelu, X)
{
    gt_tensor *cdf = SCALE(PLUS(unary(f, GT_OP_erf, SCALE(f->x, M_SQRT1_2)), 1), 0.5);
    gt_tensor *density = SCALE(unary(f, GT_OP_exp, SCALE(MUL(f->x, f->x), -0.5)), 0.5 * M_2_SQRTPI * M_SQRT1_2);
    GX(MUL(f->g, ADD(cdf, MUL(f->x, density))));
}

RULE(silu, X)
{
    gt_tensor *s = unary(f, GT_OP_sigmoid, f->x);
    GX(MUL(f->g, MUL(s, PLUS(MUL(f->x, ONE_MINUS(s)), 1))));
}

RULE(clamp, X)
{
    gt_tensor *above = number(f, GT_OP_ge, f->x, f->node->ins.imm[0].f);
    gt_tensor *below = number(f, GT_OP_le, f->x, f->node->ins.imm[1].f);
    GX(where_or_zero(f, binary(f, GT_OP_logical_and, above, below), f->g));
}

/* ---- two and three operands -------------------------------------------------------------------------------- */

RULE(add, 0)
{
    GX(f->g);
    GY(f->g);
}

RULE(sub, 0)
{
    GX(f->g);
    GY(NEG(f->g));
}

RULE(mul, X | Y)
{
    GX(with_operand(f, GT_OP_mul, f->g, 1));
    GY(with_operand(f, GT_OP_mul, f->g, 0));
}

RULE(div, Y | OUT)
{
    gt_tensor *quotient = with_operand(f, GT_OP_div, f->g, 1);
    GX(quotient);
    GY(NEG(MUL(quotient, f->out)));
}

static gt_tensor *power_gradient_base(frame *f)
{
    if (is_literal(f, 1)) {
        double exponent = literal_value(&f->node->ins, 1);
        if (exponent == 0)
            return zeros(f, &f->node->operands[0].meta);
        return MUL(f->g, SCALE(number(f, GT_OP_pow, f->x, exponent - 1), exponent));
    }
    gt_tensor *base = is_literal(f, 0) ? number(f, GT_OP_add, SCALE(f->y, 0), literal_value(&f->node->ins, 0)) : f->x;
    gt_tensor *slope = MUL(f->y, binary(f, GT_OP_pow, base, PLUS(f->y, -1)));
    return MUL(f->g, zero_where(f, number(f, GT_OP_eq, f->y, 0), slope));
}

static gt_tensor *power_gradient_exponent(frame *f)
{
    if (is_literal(f, 0)) {
        double base = literal_value(&f->node->ins, 0);
        return base == 0 ? zeros(f, &f->node->operands[1].meta) : SCALE(MUL(f->g, f->out), log(base));
    }
    /* 0 ** y has no slope in y for y >= 0 */
    gt_tensor *slope = MUL(f->out, unary(f, GT_OP_log, f->x));
    gt_tensor *flat = binary(f, GT_OP_logical_and, number(f, GT_OP_eq, f->x, 0), number(f, GT_OP_ge, f->y, 0));
    return MUL(f->g, zero_where(f, flat, slope));
}

RULE(pow, X | Y | OUT)
{
    GX(power_gradient_base(f));
    GY(power_gradient_exponent(f));
}

/* Where the operands are equal each gets half, as in PyTorch. `loses` is the comparison by which operand 0 loses. */
static void pick_rule(frame *f, gt_opcode loses, gt_opcode wins)
{
    bool left = is_literal(f, 0);
    gt_tensor *known = left ? f->y : f->x;
    unsigned other = left ? 0 : 1;
    gt_tensor *equal = with_operand(f, GT_OP_eq, known, other);
    gt_tensor *shared = where_tensors(f, equal, SCALE(f->g, 0.5), f->g);
    /* compare `known op other`; if the literal came first the sense turns around */
    gt_tensor *zero_left = with_operand(f, left ? wins : loses, known, other);
    gt_tensor *zero_right = with_operand(f, left ? loses : wins, known, other);
    GX(zero_where(f, zero_left, shared));
    GY(zero_where(f, zero_right, shared));
}

RULE(maximum, X | Y) { pick_rule(f, GT_OP_lt, GT_OP_gt); }
RULE(minimum, X | Y) { pick_rule(f, GT_OP_gt, GT_OP_lt); }

RULE(remainder, X | Y)
{
    GX(f->g);
    if (f->wanted[1]) {
        gt_tensor *base = is_literal(f, 0) ? number(f, GT_OP_add, SCALE(f->y, 0), literal_value(&f->node->ins, 0)) : f->x;
        GY(NEG(MUL(f->g, binary(f, GT_OP_floor_divide, base, f->y))));
    }
}

RULE(where, X)
{
    GY(where_or_zero(f, f->x, f->g));
    GZ(zero_where(f, f->x, f->g));
}

/* ---- reductions -------------------------------------------------------------------------------------------- */

static uint32_t reduced_axes(const frame *f)
{
    uint32_t all = (1u << f->node->operands[0].meta.rank) - 1, axes = (uint32_t)f->node->ins.imm[0].u;
    return axes ? axes : all;
}

/* The operand's shape with size 1 along the reduced axes. */
static void kept_shape(const frame *f, int64_t *shape)
{
    const gt_meta *in = &f->node->operands[0].meta;
    for (unsigned axis = 0; axis < in->rank; axis++)
        shape[axis] = reduced_axes(f) >> axis & 1 ? 1 : in->shape[axis];
}

/* A reduced tensor, stretched back over the operand's shape. */
static gt_tensor *stretch(frame *f, gt_tensor *a)
{
    const gt_meta *in = &f->node->operands[0].meta;
    int64_t shape[GT_MAX_RANK];
    kept_shape(f, shape);
    return expand(f, reshape(f, a, in->rank, shape), in->rank, in->shape);
}

static double reduced_count(const frame *f)
{
    const gt_meta *in = &f->node->operands[0].meta;
    double count = 1;
    for (unsigned axis = 0; axis < in->rank; axis++)
        if (reduced_axes(f) >> axis & 1)
            count *= (double)in->shape[axis];
    return count;
}

RULE(sum, 0) { GX(stretch(f, f->g)); }
RULE(mean, 0) { GX(stretch(f, SCALE(f->g, 1 / reduced_count(f)))); }

RULE(var, X)
{
    double count = reduced_count(f), correction = f->node->ins.imm[1].f;
    gt_tensor *centred = SUB(f->x, reduce(f, GT_OP_mean, f->x, reduced_axes(f), true));
    GX(MUL(stretch(f, SCALE(f->g, 2 / (count - correction))), centred));
}

/* The product of the others: with one zero among them only that element has a slope, with two none has. */
RULE(prod, X)
{
    gt_tensor *is_zero = number(f, GT_OP_eq, f->x, 0);
    gt_tensor *filled = where_tensors(f, is_zero, PLUS(SCALE(f->x, 0), 1), f->x);
    gt_tensor *rest = reduce(f, GT_OP_prod, filled, reduced_axes(f), true);
    gt_tensor *zeros_there = reduce(f, GT_OP_sum, is_zero, reduced_axes(f), true);
    gt_tensor *others = SUB(zeros_there, cast(f, is_zero, GT_INT64));
    gt_tensor *slope = where_or_zero(f, number(f, GT_OP_eq, others, 0), DIV(rest, filled));
    GX(MUL(stretch(f, f->g), slope));
}

/* Shared evenly between all elements that reach the extreme. */
static void extreme_rule(frame *f)
{
    gt_tensor *reached = cast(f, binary(f, GT_OP_eq, f->x, stretch(f, f->out)), (gt_dtype)f->g->meta.dtype);
    gt_tensor *share = DIV(reached, reduce(f, GT_OP_sum, reached, reduced_axes(f), true));
    GX(MUL(stretch(f, f->g), share));
}

RULE(amax, X | OUT) { extreme_rule(f); }
RULE(amin, X | OUT) { extreme_rule(f); }

RULE(cumsum, 0)
{
    int64_t axis = f->node->ins.imm[0].i;
    gt_tensor *reversed = flip(f, f->g, axis), *summed = NULL;
    gt_err err = f->err == GT_OK ? gt_cumsum(reversed, (int)axis, &summed) : f->err;
    GX(flip(f, keep(f, err, summed), axis));
}

/* ---- products ---------------------------------------------------------------------------------------------- */

/* A 1-d operand is a row (left) or a column (right) of a matrix. */
static gt_tensor *as_matrix(frame *f, gt_tensor *a, bool left)
{
    if (!a || a->meta.rank != 1)
        return a;
    int64_t size = a->meta.shape[0];
    return reshape(f, a, 2, left ? (int64_t[]){1, size} : (int64_t[]){size, 1});
}

RULE(matmul, X | Y)
{
    const gt_meta *a = &f->node->operands[0].meta, *b = &f->node->operands[1].meta;
    gt_tensor *left = as_matrix(f, f->x, true), *right = as_matrix(f, f->y, false), *g = f->g;
    if (a->rank == 1 || b->rank == 1) {
        /* give the gradient back the row and column that the 1-d operands took away */
        int64_t shape[GT_MAX_RANK + 2];
        unsigned rank = f->node->out.rank, batch = rank - (a->rank > 1) - (b->rank > 1);
        memcpy(shape, f->node->out.shape, batch * sizeof shape[0]);
        shape[batch] = a->rank == 1 ? 1 : a->shape[a->rank - 2];
        shape[batch + 1] = b->rank == 1 ? 1 : b->shape[b->rank - 1];
        g = reshape(f, g, batch + 2, shape);
    }
    if (f->wanted[0] && f->err == GT_OK) {
        gt_tensor *gx = matmul(f, g, swap_last(f, right));
        if (a->rank == 1 && f->err == GT_OK) { /* (..., 1, k): sum the batch, drop the row */
            uint32_t batch = (1u << (gx->meta.rank - 1)) - 1;
            gx = reduce(f, GT_OP_sum, gx, batch, false);
        }
        GX(gx);
    }
    if (f->wanted[1] && f->err == GT_OK) {
        gt_tensor *gy = matmul(f, swap_last(f, left), g);
        if (b->rank == 1 && f->err == GT_OK) {
            uint32_t batch = ((1u << gy->meta.rank) - 1) & ~(1u << (gy->meta.rank - 2));
            gy = reduce(f, GT_OP_sum, gy, batch, false);
        }
        GY(gy);
    }
}

/* ---- views and movement ------------------------------------------------------------------------------------ */

RULE(reshape, 0)
{
    const gt_meta *in = &f->node->operands[0].meta;
    GX(reshape(f, f->g, in->rank, in->shape));
}

RULE(permute, 0)
{
    uint64_t packed = f->node->ins.imm[0].u;
    int inverse[GT_MAX_RANK];
    for (unsigned axis = 0; axis < f->node->out.rank; axis++)
        inverse[packed >> (8 * axis) & 0xff] = (int)axis;
    gt_tensor *result = NULL;
    gt_err err = gt_permute(f->g, inverse, &result);
    GX(keep(f, err, result));
}

RULE(expand, 0) { GX(f->g); }
RULE(slice, 0) { GX(assign(f, zeros(f, &f->node->operands[0].meta), f->node->tail, f->g)); }
RULE(cast, 0) { GX(cast(f, f->g, (gt_dtype)f->node->operands[0].meta.dtype)); }
RULE(copy, 0) { GX(f->g); }

RULE(cat, 0)
{
    int64_t axis = f->node->ins.imm[0].i, offset = 0;
    for (unsigned k = 0; k < f->node->count && f->err == GT_OK; k++) {
        const gt_meta *in = &f->node->operands[k].meta;
        gt_slot spec[3];
        for (unsigned d = 0; d < in->rank; d++) {
            spec[0].i64[d] = d == axis ? offset : 0;
            spec[1].i64[d] = 1;
            spec[2].i64[d] = in->shape[d];
        }
        offset += in->shape[axis];
        if (!f->wanted[k])
            continue;
        gt_tensor *part = NULL, *typed = NULL;
        f->err = gt_slice(f->g, spec[0].i64, spec[1].i64, spec[2].i64, &part);
        if (f->err == GT_OK && in->dtype != f->g->meta.dtype) {
            f->err = gt_cast(part, (gt_dtype)in->dtype, &typed);
            gt_tensor_release(part);
            part = typed;
        }
        f->results[k] = part;
    }
}

static gt_tensor *triangle(frame *f, gt_tensor *a, bool lower)
{
    int64_t diagonal = f->node->ins.imm[0].i;
    STEP(lower ? gt_tril(a, diagonal, &result_) : gt_triu(a, diagonal, &result_));
}

RULE(tril, 0) { GX(triangle(f, f->g, true)); }
RULE(triu, 0) { GX(triangle(f, f->g, false)); }

/* Rows taken several times get the sum of their gradients. */
RULE(take, Y)
{
    const gt_meta *in = &f->node->operands[0].meta, *index = &f->node->operands[1].meta;
    unsigned axis = (unsigned)f->node->ins.imm[0].i;
    int64_t flat[GT_MAX_RANK], line[GT_MAX_RANK];
    for (unsigned d = 0; d < in->rank; d++) {
        flat[d] = d == axis ? index->numel : in->shape[d];
        line[d] = d == axis ? index->numel : 1;
    }
    gt_tensor *wrapped = wrap_index(f, f->y, in->shape[axis]);
    gt_tensor *positions = expand(f, reshape(f, wrapped, in->rank, line), in->rank, flat);
    GX(scatter_add(f, zeros(f, in), positions, reshape(f, f->g, in->rank, flat), (int)axis));
}

RULE(gather, Y)
{
    GX(scatter_add(f, zeros(f, &f->node->operands[0].meta), f->y, f->g, (int)f->node->ins.imm[0].i));
}

/* The gradient of a scatter's operand: zero where something was written over it. */
static gt_tensor *without_scattered(frame *f)
{
    gt_tensor *none = zeros(f, &f->node->operands[1].meta), *typed = cast(f, none, (gt_dtype)f->g->meta.dtype);
    STEP(gt_scatter(f->g, f->y, typed, (int)f->node->ins.imm[0].i, &result_));
}

/* Only as much of src as the index reached was used. */
static gt_tensor *gathered_into_src(frame *f)
{
    const gt_meta *src = &f->node->operands[2].meta;
    gt_tensor *used = gather(f, f->g, f->y, (int)f->node->ins.imm[0].i);
    if (!used || gt__meta_same_shape(&used->meta, src))
        return used;
    gt_slot spec[3];
    for (unsigned d = 0; d < src->rank; d++) {
        spec[0].i64[d] = 0;
        spec[1].i64[d] = 1;
        spec[2].i64[d] = used->meta.shape[d];
    }
    return assign(f, zeros(f, src), spec, used);
}

RULE(scatter, Y)
{
    if (f->wanted[0])
        GX(without_scattered(f));
    if (f->wanted[2])
        GZ(gathered_into_src(f));
}

RULE(scatter_add, Y)
{
    GX(f->g);
    if (f->wanted[2])
        GZ(gathered_into_src(f));
}

RULE(assign, 0)
{
    GX(assign(f, f->g, f->node->tail, NULL));
    GY(slice(f, f->g, f->node->tail));
}

/* ------------------------------------------------------------------------------------------------------------ */

#define ENTRY_DIFF(name) [GT_OP_##name] = {.rule = rule_##name, .saves = saves_##name},
#define ENTRY_NONE(name)
static const struct {
    void (*rule)(frame *);
    uint8_t saves;
} rules[GT_OP_COUNT] = {
#define OP(name, form, types, grad) ENTRY_##grad(name)
#include "ops.def"
};

unsigned gt__gradient_saves(gt_opcode op)
{
    return rules[op].saves;
}

static gt_tensor *retain_saved(gt_tensor *saved)
{
    return saved ? gt_tensor_retain(saved) : NULL;
}

gt_err gt__gradient_rule(gt_node *node, gt_tensor *gradient, const bool *wanted, bool create_graph,
                         gt_tensor **results)
{
    frame f = {.node = node, .g = gradient, .wanted = wanted, .results = results};
    /* References of our own: a step may wait for room, and another thread's pass drop what the node saved. */
    f.x = retain_saved(node->saved[0]);
    f.y = retain_saved(node->saved[1]);
    f.z = retain_saved(node->saved[2]);
    /* For a second derivative the saved result must lead back to this node. */
    if (create_graph && node->saved_out)
        f.err = gt__tensor_alias(node->saved_out, node, &f.out);
    else
        f.out = retain_saved(node->saved_out);
    if (f.err == GT_OK)
        rules[node->op].rule(&f);
    for (unsigned k = 0; k < f.count; k++)
        gt_tensor_release(f.temporary[k]);
    gt_tensor_release(f.x);
    gt_tensor_release(f.y);
    gt_tensor_release(f.z);
    gt_tensor_release(f.out);
    return f.err;
}

/*
 * gradients_reduce.h: gradient rules of reductions, scans and products. Included by gradients.c alone;
 * gradient_steps.h has the words.
 */
#ifndef GT_CLIENT_GRADIENTS_REDUCE_H
#define GT_CLIENT_GRADIENTS_REDUCE_H

#include "client/gradient_steps.h"

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

RULE(sum, 0)
{
    GX(stretch(f, f->g));
}
RULE(mean, 0)
{
    GX(stretch(f, SCALE(f->g, 1 / reduced_count(f))));
}

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

/* What an extreme's gradient is divided into: shared evenly between all elements that reach it. They are counted as
 * integers, since halves are few. */
static gt_tensor *shares(frame *f, gt_tensor *reached)
{
    gt_tensor *count = reduce(f, GT_OP_sum, reached, reduced_axes(f), true);
    return DIV(cast(f, reached, (gt_dtype)f->g->meta.dtype), count);
}

static void extreme_rule(frame *f)
{
    GX(MUL(stretch(f, f->g), shares(f, binary(f, GT_OP_eq, f->x, stretch(f, f->out)))));
}

RULE(amax, X | OUT)
{
    extreme_rule(f);
}
RULE(amin, X | OUT)
{
    extreme_rule(f);
}

RULE(logsumexp, X | OUT)
{
    GX(MUL(stretch(f, f->g), unary(f, GT_OP_exp, SUB(f->x, stretch(f, f->out)))));
}

/* sign(x) |x|^(p-1) g / norm^(p-1), and 0 where there is no slope: at the origin. */
static gt_tensor *norm_slope(frame *f, double p)
{
    gt_tensor *sign = unary(f, GT_OP_sign, f->x), *norm = stretch(f, f->out), *g = stretch(f, f->g);
    if (p == 1)
        return MUL(g, sign);
    if (isinf(p))
        return MUL(g, MUL(sign, shares(f, binary(f, GT_OP_eq, unary(f, GT_OP_abs, f->x), norm))));
    gt_tensor *nowhere = number(f, GT_OP_eq, norm, 0);
    if (p == 2)
        return zero_where(f, nowhere, MUL(g, DIV(f->x, norm)));
    gt_tensor *power = number(f, GT_OP_pow, unary(f, GT_OP_abs, f->x), p - 1);
    gt_tensor *slope = MUL(sign, zero_where(f, number(f, GT_OP_eq, f->x, 0), power));
    return zero_where(f, nowhere, MUL(DIV(g, number(f, GT_OP_pow, norm, p - 1)), slope));
}

RULE(norm, X | OUT)
{
    double p = f->node->ins.imm[1].f;
    GX(p == 0 ? zeros(f, &f->node->operands[0].meta) : norm_slope(f, p));
}

/* ---- along an axis ----------------------------------------------------------------------------------------- */

RULE(cumsum, 0)
{
    GX(along_reversed(f, GT_OP_cumsum, f->g, f->node->ins.imm[0].i));
}

/*
 * Before the first zero: the sum of g_j out_j over what comes after, divided by x. At it: the same with that zero taken
 * out of the products. Behind it every product has it as a factor.
 */
RULE(cumprod, X | OUT)
{
    int64_t axis = f->node->ins.imm[0].i;
    gt_tensor *is_zero = number(f, GT_OP_eq, f->x, 0), *before = along(f, GT_OP_cumsum, is_zero, axis);
    gt_tensor *first = binary(f, GT_OP_logical_and, is_zero, number(f, GT_OP_eq, before, 1));
    gt_tensor *ones = filled(f, &f->node->operands[0].meta, 1);
    gt_tensor *without = along(f, GT_OP_cumprod, where_tensors(f, first, ones, f->x), axis);
    gt_tensor *at_zero = along_reversed(f, GT_OP_cumsum, MUL(f->g, without), axis);
    gt_tensor *elsewhere =
        DIV(along_reversed(f, GT_OP_cumsum, MUL(f->g, f->out), axis), where_tensors(f, is_zero, ones, f->x));
    GX(where_tensors(f, number(f, GT_OP_eq, before, 0), elsewhere, where_or_zero(f, first, at_zero)));
}

/* sum over j >= i of g_j exp(x_i - out_j) for the positive (or, negated, the negative) g, in logarithms. */
static gt_tensor *log_scan_slope(frame *f, bool positive)
{
    int64_t axis = f->node->ins.imm[0].i;
    gt_tensor *g = positive ? f->g : NEG(f->g), *none = filled(f, &f->node->out, -INFINITY);
    gt_tensor *logs =
        where_tensors(f, number(f, GT_OP_gt, g, 0), unary(f, GT_OP_log, unary(f, GT_OP_abs, g)), none);
    gt_tensor *sums = along_reversed(f, GT_OP_logcumsumexp, SUB(logs, f->out), axis);
    return unary(f, GT_OP_exp, ADD(sums, f->x));
}

RULE(logcumsumexp, X | OUT)
{
    GX(SUB(log_scan_slope(f, true), log_scan_slope(f, false)));
}

static gt_tensor *softmax_backward(frame *f, gt_opcode op, gt_tensor *g, gt_tensor *out)
{
    STEP(gt__emit_along(op, g, out, (int)f->node->ins.imm[0].i, &result_));
}

static gt_tensor *line_sum(frame *f, gt_tensor *a)
{
    return reduce(f, GT_OP_sum, a, f->node->out.rank ? 1u << f->node->ins.imm[0].i : 0, true);
}

RULE(softmax, OUT)
{
    GX(softmax_backward(f, GT_OP_softmax_backward, f->g, f->out));
}
RULE(log_softmax, OUT)
{
    GX(softmax_backward(f, GT_OP_log_softmax_backward, f->g, f->out));
}

/* of y (x - sum(x y)) by x, the first gradient, and y, the first result */
RULE(softmax_backward, X | Y)
{
    GX(softmax_backward(f, GT_OP_softmax_backward, f->g, f->y));
    if (f->wanted[1])
        GY(SUB(MUL(f->g, SUB(f->x, line_sum(f, MUL(f->x, f->y)))), MUL(f->x, line_sum(f, MUL(f->g, f->y)))));
}

/* of x - exp(y) sum(x) */
RULE(log_softmax_backward, X | Y)
{
    gt_tensor *product = MUL(f->g, unary(f, GT_OP_exp, f->y));
    GX(SUB(f->g, line_sum(f, product)));
    if (f->wanted[1])
        GY(NEG(MUL(product, line_sum(f, f->x))));
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

/* Whether operand k is a transposed matrix, as weights are in x @ w.t(). */
static bool is_transposed(const frame *f, unsigned k)
{
    const gt_node *maker = f->node->operands[k].node;
    unsigned rank = f->node->operands[k].meta.rank;
    return maker && maker->op == GT_OP_permute && rank >= 2 &&
           (maker->ins.imm[0].u >> (8 * (rank - 1)) & 0xff) == rank - 2;
}

/* (..., rows, n) as (all the rows, n): a product with one matrix is one product, whatever the batch. */
static gt_tensor *flatten_rows(frame *f, gt_tensor *a)
{
    if (!a || a->meta.rank <= 2)
        return a;
    int64_t rows = 1, columns = a->meta.shape[a->meta.rank - 1];
    for (unsigned axis = 0; axis + 1 < a->meta.rank; axis++)
        rows *= a->meta.shape[axis];
    return reshape(f, a, 2, (int64_t[]){rows, columns});
}

/* transpose(a) @ b. Where the gradient will be transposed back, it is computed the other way round, so that in the end
 * its rows lie as the operand's do. */
static gt_tensor *transposed_product(frame *f, gt_tensor *a, gt_tensor *b, bool other_way)
{
    return other_way ? swap_last(f, matmul(f, swap_last(f, b), a)) : matmul(f, swap_last(f, a), b);
}

RULE(matmul, FOR_X(Y) | FOR_Y(X))
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
        bool one_matrix = b->rank == 2;
        gt_tensor *rows = one_matrix ? flatten_rows(f, left) : left, *g_rows = one_matrix ? flatten_rows(f, g) : g;
        gt_tensor *gy = transposed_product(f, rows, g_rows, is_transposed(f, 1));
        if (b->rank == 1 && f->err == GT_OK) {
            uint32_t batch = ((1u << gy->meta.rank) - 1) & ~(1u << (gy->meta.rank - 2));
            gy = reduce(f, GT_OP_sum, gy, batch, false);
        }
        GY(gy);
    }
}

#endif

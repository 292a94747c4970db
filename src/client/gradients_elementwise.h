/*
 * gradients_elementwise.h: gradient rules of elementwise rows. Included by gradients.c alone;
 * gradient_steps.h has the words.
 */
#ifndef GT_CLIENT_GRADIENTS_ELEMENTWISE_H
#define GT_CLIENT_GRADIENTS_ELEMENTWISE_H

#include "client/gradient_steps.h"

/* ---- one operand ------------------------------------------------------------------------------------------- */

RULE(neg, 0)
{
    GX(NEG(f->g));
}
RULE(abs, X)
{
    GX(MUL(f->g, unary(f, GT_OP_sign, f->x)));
}
RULE(sign, 0)
{
    GX(zeros(f, &f->node->out));
}
RULE(square, X)
{
    GX(MUL(f->g, SCALE(f->x, 2)));
}
RULE(sqrt, OUT)
{
    GX(DIV(f->g, SCALE(f->out, 2)));
}
RULE(rsqrt, OUT)
{
    GX(MUL(f->g, SCALE(MUL(f->out, MUL(f->out, f->out)), -0.5)));
}
RULE(reciprocal, OUT)
{
    GX(MUL(f->g, NEG(MUL(f->out, f->out))));
}
RULE(exp, OUT)
{
    GX(MUL(f->g, f->out));
}
RULE(exp2, OUT)
{
    GX(MUL(f->g, SCALE(f->out, M_LN2)));
}
RULE(expm1, OUT)
{
    GX(MUL(f->g, PLUS(f->out, 1)));
}
RULE(log, X)
{
    GX(DIV(f->g, f->x));
}
RULE(log2, X)
{
    GX(DIV(f->g, SCALE(f->x, M_LN2)));
}
RULE(log10, X)
{
    GX(DIV(f->g, SCALE(f->x, M_LN10)));
}
RULE(log1p, X)
{
    GX(DIV(f->g, PLUS(f->x, 1)));
}
RULE(erf, X)
{
    GX(MUL(f->g, SCALE(unary(f, GT_OP_exp, NEG(SQUARE(f->x))), M_2_SQRTPI)));
}
RULE(floor, 0)
{
    GX(zeros(f, &f->node->out));
}
RULE(ceil, 0)
{
    GX(zeros(f, &f->node->out));
}
RULE(round, 0)
{
    GX(zeros(f, &f->node->out));
}
RULE(trunc, 0)
{
    GX(zeros(f, &f->node->out));
}
RULE(frac, 0)
{
    GX(f->g);
}

/* ---- angles ------------------------------------------------------------------------------------------------- */

RULE(sin, X)
{
    GX(MUL(f->g, unary(f, GT_OP_cos, f->x)));
}
RULE(cos, X)
{
    GX(MUL(f->g, NEG(unary(f, GT_OP_sin, f->x))));
}
RULE(tan, OUT)
{
    GX(MUL(f->g, PLUS(SQUARE(f->out), 1)));
}
RULE(asin, X)
{
    GX(MUL(f->g, unary(f, GT_OP_rsqrt, ONE_MINUS(SQUARE(f->x)))));
}
RULE(acos, X)
{
    GX(NEG(MUL(f->g, unary(f, GT_OP_rsqrt, ONE_MINUS(SQUARE(f->x))))));
}
RULE(atan, X)
{
    GX(DIV(f->g, PLUS(SQUARE(f->x), 1)));
}
RULE(sinh, X)
{
    GX(MUL(f->g, unary(f, GT_OP_cosh, f->x)));
}
RULE(cosh, X)
{
    GX(MUL(f->g, unary(f, GT_OP_sinh, f->x)));
}
RULE(tanh, OUT)
{
    GX(binary(f, GT_OP_tanh_backward, f->g, f->out));
}
RULE(asinh, X)
{
    GX(MUL(f->g, unary(f, GT_OP_rsqrt, PLUS(SQUARE(f->x), 1))));
}
RULE(acosh, X)
{
    GX(MUL(f->g, unary(f, GT_OP_rsqrt, PLUS(SQUARE(f->x), -1))));
}
RULE(atanh, X)
{
    GX(DIV(f->g, ONE_MINUS(SQUARE(f->x))));
}

/* (cos(pi x) - sinc(x)) / x, and 0 at 0 */
RULE(sinc, X | OUT)
{
    gt_tensor *slope = DIV(SUB(unary(f, GT_OP_cos, SCALE(f->x, M_PI)), f->out), f->x);
    GX(zero_where(f, number(f, GT_OP_eq, f->x, 0), MUL(f->g, slope)));
}

/* ---- activations: one instruction each, and one more rule for its own gradient ------------------------------ */

RULE(relu, OUT)
{
    GX(binary(f, GT_OP_relu_backward, f->g, f->out));
}
RULE(sigmoid, OUT)
{
    GX(binary(f, GT_OP_sigmoid_backward, f->g, f->out));
}
RULE(gelu, X)
{
    GX(binary(f, GT_OP_gelu_backward, f->g, f->x));
}
RULE(gelu_tanh, X)
{
    GX(binary(f, GT_OP_gelu_tanh_backward, f->g, f->x));
}
RULE(silu, X)
{
    GX(binary(f, GT_OP_silu_backward, f->g, f->x));
}
RULE(softplus, X)
{
    GX(binary(f, GT_OP_softplus_backward, f->g, f->x));
}
RULE(logsigmoid, X)
{
    GX(binary(f, GT_OP_logsigmoid_backward, f->g, f->x));
}
RULE(mish, X)
{
    GX(binary(f, GT_OP_mish_backward, f->g, f->x));
}
RULE(hardsigmoid, X)
{
    GX(binary(f, GT_OP_hardsigmoid_backward, f->g, f->x));
}
RULE(hardswish, X)
{
    GX(binary(f, GT_OP_hardswish_backward, f->g, f->x));
}
RULE(softsign, X)
{
    GX(DIV(f->g, SQUARE(PLUS(unary(f, GT_OP_abs, f->x), 1))));
}
RULE(relu6, X)
{
    GX(binary_numbers(f, GT_OP_hardtanh_backward, f->g, f->x, 0, 6));
}
RULE(hardtanh, X)
{
    GX(binary_numbers(f, GT_OP_hardtanh_backward, f->g, f->x, P, Q));
}
RULE(clamp, X)
{
    GX(binary_numbers(f, GT_OP_clamp_backward, f->g, f->x, P, Q));
}
RULE(leaky_relu, X)
{
    GX(binary_numbers(f, GT_OP_leaky_relu_backward, f->g, f->x, P, 0));
}
RULE(elu, X)
{
    GX(binary_numbers(f, GT_OP_elu_backward, f->g, f->x, P, Q));
}

RULE(selu, X)
{
    const double scale = 1.0507009873554804934, alpha = 1.6732632423543772848;
    GX(SCALE(binary_numbers(f, GT_OP_elu_backward, f->g, f->x, alpha, 1), scale));
}

/*
 * What these rows compute is linear in the gradient x, so its own gradient is the same row again. Through y it needs the
 * second derivative of the activation, which is zero for those made of straight lines.
 */
#define SAME_ROW(gradient) with_operand(f, (gt_opcode)f->node->op, gradient, 1)
#define PRODUCT with_operand(f, GT_OP_mul, f->g, 0)
#define SAME_ROW_NUMBERS(gradient) binary_numbers(f, (gt_opcode)f->node->op, gradient, f->y, P, Q)

static void straight_rule(frame *f, gt_tensor *same_row)
{
    GX(same_row);
    GY(zeros(f, &f->node->operands[1].meta));
}

RULE(relu_backward, Y)
{
    straight_rule(f, SAME_ROW(f->g));
}
RULE(hardsigmoid_backward, Y)
{
    straight_rule(f, SAME_ROW(f->g));
}
RULE(clamp_backward, Y)
{
    straight_rule(f, SAME_ROW_NUMBERS(f->g));
}
RULE(hardtanh_backward, Y)
{
    straight_rule(f, SAME_ROW_NUMBERS(f->g));
}
RULE(leaky_relu_backward, Y)
{
    straight_rule(f, SAME_ROW_NUMBERS(f->g));
}

RULE(tanh_backward, X | Y)
{
    GX(SAME_ROW(f->g));
    GY(MUL(PRODUCT, SCALE(f->y, -2)));
}

RULE(sigmoid_backward, X | Y)
{
    GX(SAME_ROW(f->g));
    GY(MUL(PRODUCT, PLUS(SCALE(f->y, -2), 1)));
}

/* phi(y) (2 - y^2) */
RULE(gelu_backward, X | Y)
{
    GX(SAME_ROW(f->g));
    if (f->wanted[1]) {
        gt_tensor *square = SQUARE(f->y);
        gt_tensor *density = SCALE(unary(f, GT_OP_exp, SCALE(square, -0.5)), 0.5 * M_2_SQRTPI * M_SQRT1_2);
        GY(MUL(PRODUCT, MUL(density, number_first(f, GT_OP_sub, 2, square))));
    }
}

/* With s = sigmoid(y): s (1 - s) (2 + y (1 - 2 s)). */
RULE(silu_backward, X | Y)
{
    GX(SAME_ROW(f->g));
    if (f->wanted[1]) {
        gt_tensor *s = unary(f, GT_OP_sigmoid, f->y);
        gt_tensor *bend = PLUS(MUL(f->y, PLUS(SCALE(s, -2), 1)), 2);
        GY(MUL(binary(f, GT_OP_sigmoid_backward, PRODUCT, s), bend));
    }
}

/* With u = a y + b y^3 and s = sigmoid(u): s (1 - s) (2 u' + y u'' + y u'^2 (1 - 2 s)). */
RULE(gelu_tanh_backward, X | Y)
{
    const double a = 1.5957691216057308, b = 0.07135481627260025;
    GX(SAME_ROW(f->g));
    if (f->wanted[1]) {
        gt_tensor *square = SQUARE(f->y);
        gt_tensor *s = unary(f, GT_OP_sigmoid, MUL(f->y, PLUS(SCALE(square, b), a)));
        gt_tensor *slope = PLUS(SCALE(square, 3 * b), a);
        gt_tensor *straight = PLUS(SCALE(square, 12 * b), 2 * a); /* 2 u' + y u'' */
        gt_tensor *bend = MUL(f->y, MUL(SQUARE(slope), PLUS(SCALE(s, -2), 1)));
        GY(MUL(binary(f, GT_OP_sigmoid_backward, PRODUCT, s), ADD(straight, bend)));
    }
}

RULE(softplus_backward, X | Y)
{
    GX(SAME_ROW(f->g));
    GY(binary(f, GT_OP_sigmoid_backward, PRODUCT, unary(f, GT_OP_sigmoid, f->y)));
}

RULE(logsigmoid_backward, X | Y)
{
    GX(SAME_ROW(f->g));
    GY(NEG(binary(f, GT_OP_sigmoid_backward, PRODUCT, unary(f, GT_OP_sigmoid, f->y))));
}

/* With s = sigmoid(y), t = tanh(softplus(y)) and u = s (1 - t^2): u (2 + y (1 - s - 2 s t)). */
RULE(mish_backward, X | Y)
{
    GX(SAME_ROW(f->g));
    if (f->wanted[1]) {
        gt_tensor *s = unary(f, GT_OP_sigmoid, f->y);
        gt_tensor *t = unary(f, GT_OP_tanh, unary(f, GT_OP_softplus, f->y));
        gt_tensor *u = MUL(s, ONE_MINUS(SQUARE(t)));
        gt_tensor *turn = MUL(f->y, SUB(ONE_MINUS(s), SCALE(MUL(s, t), 2)));
        GY(MUL(PRODUCT, MUL(u, PLUS(turn, 2))));
    }
}

/* 1/3 between -3 and 3 */
RULE(hardswish_backward, X | Y)
{
    GX(SAME_ROW(f->g));
    GY(SCALE(binary_numbers(f, GT_OP_hardtanh_backward, PRODUCT, f->y, -3, 3), 1.0 / 3));
}

/* Below 0 it has itself as derivative, q times. */
RULE(elu_backward, X | Y)
{
    GX(SAME_ROW_NUMBERS(f->g));
    if (f->wanted[1]) {
        gt_tensor *product = PRODUCT;
        GY(zero_where(f, number(f, GT_OP_gt, f->y, 0), SCALE(SAME_ROW_NUMBERS(product), Q)));
    }
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

RULE(mul, FOR_X(Y) | FOR_Y(X))
{
    GX(with_operand(f, GT_OP_mul, f->g, 1));
    GY(with_operand(f, GT_OP_mul, f->g, 0));
}

RULE(div, Y | FOR_Y(OUT))
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
    gt_tensor *base = operand_tensor(f, 0, f->x, f->y);
    gt_tensor *slope = MUL(f->y, binary(f, GT_OP_pow, base, PLUS(f->y, -1)));
    return MUL(f->g, zero_where(f, number(f, GT_OP_eq, f->y, 0), slope));
}

static gt_tensor *power_gradient_exponent(frame *f)
{
    if (is_literal(f, 0)) {
        double base = literal_value(&f->node->ins, 0);
        gt_tensor *slope = SCALE(f->out, log(base));
        return MUL(f->g, base == 0 ? zero_where(f, number(f, GT_OP_ge, f->y, 0), slope) : slope);
    }
    /* 0 ** y has no slope in y for y >= 0 */
    gt_tensor *slope = MUL(f->out, unary(f, GT_OP_log, f->x));
    gt_tensor *flat = binary(f, GT_OP_logical_and, number(f, GT_OP_eq, f->x, 0), number(f, GT_OP_ge, f->y, 0));
    return MUL(f->g, zero_where(f, flat, slope));
}

RULE(pow, X | Y | FOR_Y(OUT))
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

RULE(maximum, X | Y)
{
    pick_rule(f, GT_OP_lt, GT_OP_gt);
}
RULE(minimum, X | Y)
{
    pick_rule(f, GT_OP_gt, GT_OP_lt);
}

RULE(remainder, X | Y)
{
    GX(f->g);
    GY(NEG(MUL(f->g, binary(f, GT_OP_floor_divide, operand_tensor(f, 0, f->x, f->y), f->y))));
}

RULE(fmod, X | Y)
{
    GX(f->g);
    GY(NEG(MUL(f->g, binary(f, GT_OP_trunc_divide, operand_tensor(f, 0, f->x, f->y), f->y))));
}

/* x / (x^2 + y^2) and y / (x^2 + y^2); none at the origin */
RULE(atan2, X | Y)
{
    gt_tensor *x = operand_tensor(f, 0, f->x, f->y), *y = operand_tensor(f, 1, f->y, f->x);
    gt_tensor *squares = ADD(SQUARE(x), SQUARE(y));
    gt_tensor *share = zero_where(f, number(f, GT_OP_eq, squares, 0), DIV(f->g, squares));
    GX(MUL(share, y));
    GY(NEG(MUL(share, x)));
}

RULE(hypot, X | Y | OUT)
{
    gt_tensor *share = DIV(f->g, f->out);
    GX(MUL(share, f->x));
    GY(MUL(share, f->y));
}

/* The sign that x was given, times its own; none at 0. */
RULE(copysign, X | OUT)
{
    GX(MUL(f->g, zero_where(f, number(f, GT_OP_eq, f->x, 0), DIV(f->out, f->x))));
    GY(zeros(f, &f->node->operands[1].meta));
}

/* 1 / (1 + exp(y - x)): of an infinity, too */
RULE(logaddexp, X | Y)
{
    if (f->wanted[0])
        GX(MUL(f->g, unary(f, GT_OP_sigmoid, with_operand(f, GT_OP_sub, f->x, 1))));
    if (f->wanted[1])
        GY(MUL(f->g, unary(f, GT_OP_sigmoid, with_operand(f, GT_OP_sub, f->y, 0))));
}

RULE(where, X)
{
    GY(where_or_zero(f, f->x, f->g));
    GZ(zero_where(f, f->x, f->g));
}

/* x + z (y - x); y and z may be literals */
RULE(lerp, X | Y | Z)
{
    bool number_weight = is_literal(f, 2);
    double weight = number_weight ? literal_value(&f->node->ins, 2) : 0;
    GX(number_weight ? SCALE(f->g, 1 - weight) : MUL(f->g, ONE_MINUS(f->z)));
    GY(number_weight ? SCALE(f->g, weight) : MUL(f->g, f->z));
    GZ(MUL(f->g, SUB(operand_tensor(f, 1, f->y, f->x), f->x)));
}

#endif

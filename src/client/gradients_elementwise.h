/*
 * gradients_elementwise.h: gradient rules of elementwise rows. Included by gradients.c alone; gradient_steps.h has the words.
 */
#ifndef GT_CLIENT_GRADIENTS_ELEMENTWISE_H
#define GT_CLIENT_GRADIENTS_ELEMENTWISE_H

#include "gradient_steps.h"

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

#endif

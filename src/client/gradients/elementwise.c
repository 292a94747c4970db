/* elementwise.c: gradient rules of elementwise rows. Read steps.h first. */
#include "client/gradients/steps.h"

/* ---- steps -------------------------------------------------------------------------------------------------- */

#define SQUARE(a) EMIT(square, a)
#define ONE_MINUS(a) number_minus(f, 1, a)
/* The numbers of a _PQ row. */
#define P (f->node->ins.imm[0].f)
#define Q (f->node->ins.imm[1].f)

static gt_tensor *number_minus(gt_frame *f, double value, gt_tensor *a)
{
    STEP(gt__emit_binary_literal(GT_OP_sub, a, GT_LITERAL_FLOAT, (gt_imm){.f = value}, true, &result_));
}

/* A _PQ row with the numbers p and q. */
static gt_tensor *binary_numbers(gt_frame *f, gt_opcode op, gt_tensor *a, gt_tensor *b, double p, double q)
{
    STEP(gt__emit_binary_numbers(op, a, b, p, q, &result_));
}

/* ---- one operand ------------------------------------------------------------------------------------------- */

RULE(neg, 0)
{
    GX(NEG(f->g));
}
RULE(abs, X)
{
    GX(MUL(f->g, EMIT(sgn, f->x)));
}
RULE(sign, 0)
{
    GX(ZEROS(&f->node->out));
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
    GX(MUL(f->g, SCALE(EMIT(exp, NEG(SQUARE(f->x))), M_2_SQRTPI)));
}
RULE(floor, 0)
{
    GX(ZEROS(&f->node->out));
}
RULE(ceil, 0)
{
    GX(ZEROS(&f->node->out));
}
RULE(round, 0)
{
    GX(ZEROS(&f->node->out));
}
RULE(trunc, 0)
{
    GX(ZEROS(&f->node->out));
}
RULE(frac, 0)
{
    GX(f->g);
}

/* ---- angles ------------------------------------------------------------------------------------------------- */

RULE(sin, X)
{
    GX(MUL(f->g, EMIT(cos, f->x)));
}
RULE(cos, X)
{
    GX(MUL(f->g, NEG(EMIT(sin, f->x))));
}
RULE(tan, OUT)
{
    GX(MUL(f->g, PLUS(SQUARE(f->out), 1)));
}
RULE(asin, X)
{
    GX(MUL(f->g, EMIT(rsqrt, ONE_MINUS(SQUARE(f->x)))));
}
RULE(acos, X)
{
    GX(NEG(MUL(f->g, EMIT(rsqrt, ONE_MINUS(SQUARE(f->x))))));
}
RULE(atan, X)
{
    GX(DIV(f->g, PLUS(SQUARE(f->x), 1)));
}
RULE(sinh, X)
{
    GX(MUL(f->g, EMIT(cosh, f->x)));
}
RULE(cosh, X)
{
    GX(MUL(f->g, EMIT(sinh, f->x)));
}
RULE(tanh, OUT)
{
    GX(EMIT2(tanh_backward, f->g, f->out));
}
RULE(asinh, X)
{
    GX(MUL(f->g, EMIT(rsqrt, PLUS(SQUARE(f->x), 1))));
}
RULE(acosh, X)
{
    /* two roots: one of the product would be on the wrong side of the cut for half of the complex numbers */
    bool is_complex = f->x && gt__dtype_is_complex((gt_dtype)f->x->meta.dtype);
    GX(is_complex ? MUL(f->g, MUL(EMIT(rsqrt, PLUS(f->x, -1)), EMIT(rsqrt, PLUS(f->x, 1))))
                  : MUL(f->g, EMIT(rsqrt, PLUS(SQUARE(f->x), -1))));
}
RULE(atanh, X)
{
    GX(DIV(f->g, ONE_MINUS(SQUARE(f->x))));
}

/* (cos(pi x) - sinc(x)) / x, and 0 at 0 */
RULE(sinc, X | OUT)
{
    gt_tensor *slope = DIV(SUB(EMIT(cos, SCALE(f->x, M_PI)), f->out), f->x);
    GX(ZERO_WHERE(NUMBER(eq, f->x, 0), MUL(f->g, slope)));
}

/* ---- activations: one instruction each, and one more rule for its own gradient ------------------------------ */

RULE(relu, OUT)
{
    GX(EMIT2(relu_backward, f->g, f->out));
}
RULE(sigmoid, OUT)
{
    GX(EMIT2(sigmoid_backward, f->g, f->out));
}
RULE(gelu, X)
{
    GX(EMIT2(gelu_backward, f->g, f->x));
}
RULE(gelu_tanh, X)
{
    GX(EMIT2(gelu_tanh_backward, f->g, f->x));
}
RULE(silu, X)
{
    GX(EMIT2(silu_backward, f->g, f->x));
}
RULE(softplus, X)
{
    GX(EMIT2(softplus_backward, f->g, f->x));
}
RULE(logsigmoid, X)
{
    GX(EMIT2(logsigmoid_backward, f->g, f->x));
}
RULE(mish, X)
{
    GX(EMIT2(mish_backward, f->g, f->x));
}
RULE(hardsigmoid, X)
{
    GX(EMIT2(hardsigmoid_backward, f->g, f->x));
}
RULE(hardswish, X)
{
    GX(EMIT2(hardswish_backward, f->g, f->x));
}
RULE(softsign, X)
{
    GX(DIV(f->g, SQUARE(PLUS(EMIT(abs, f->x), 1))));
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
 * These rows are linear in x, the gradient, so the rule for x is the same row again. The rule for y needs the second
 * derivative of the activation, which is zero for piecewise linear ones.
 */
#define SAME_ROW(gradient) gt__step_with_operand(f, (gt_opcode)f->node->op, gradient, 1)
#define PRODUCT WITH_OPERAND(mul, f->g, 0)
#define SAME_ROW_NUMBERS(gradient) binary_numbers(f, (gt_opcode)f->node->op, gradient, f->y, P, Q)

static void linear_rule(gt_frame *f, gt_tensor *same_row)
{
    GX(same_row);
    GY(ZEROS(&f->node->operands[1].meta));
}

RULE(relu_backward, Y)
{
    linear_rule(f, SAME_ROW(f->g));
}
RULE(hardsigmoid_backward, Y)
{
    linear_rule(f, SAME_ROW(f->g));
}
RULE(clamp_backward, Y)
{
    linear_rule(f, SAME_ROW_NUMBERS(f->g));
}
RULE(hardtanh_backward, Y)
{
    linear_rule(f, SAME_ROW_NUMBERS(f->g));
}
RULE(leaky_relu_backward, Y)
{
    linear_rule(f, SAME_ROW_NUMBERS(f->g));
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
        gt_tensor *density = SCALE(EMIT(exp, SCALE(square, -0.5)), 0.5 * M_2_SQRTPI * M_SQRT1_2);
        GY(MUL(PRODUCT, MUL(density, number_minus(f, 2, square))));
    }
}

/* With s = sigmoid(y): s (1 - s) (2 + y (1 - 2 s)). */
RULE(silu_backward, X | Y)
{
    GX(SAME_ROW(f->g));
    if (f->wanted[1]) {
        gt_tensor *s = EMIT(sigmoid, f->y);
        gt_tensor *bend = PLUS(MUL(f->y, PLUS(SCALE(s, -2), 1)), 2);
        GY(MUL(EMIT2(sigmoid_backward, PRODUCT, s), bend));
    }
}

/* With u = a y + b y^3 and s = sigmoid(u): s (1 - s) (2 u' + y u'' + y u'^2 (1 - 2 s)). */
RULE(gelu_tanh_backward, X | Y)
{
    const double a = 1.5957691216057308, b = 0.07135481627260025;
    GX(SAME_ROW(f->g));
    if (f->wanted[1]) {
        gt_tensor *square = SQUARE(f->y);
        gt_tensor *s = EMIT(sigmoid, MUL(f->y, PLUS(SCALE(square, b), a)));
        gt_tensor *slope = PLUS(SCALE(square, 3 * b), a);
        gt_tensor *straight = PLUS(SCALE(square, 12 * b), 2 * a); /* 2 u' + y u'' */
        gt_tensor *bend = MUL(f->y, MUL(SQUARE(slope), PLUS(SCALE(s, -2), 1)));
        GY(MUL(EMIT2(sigmoid_backward, PRODUCT, s), ADD(straight, bend)));
    }
}

RULE(softplus_backward, X | Y)
{
    GX(SAME_ROW(f->g));
    GY(EMIT2(sigmoid_backward, PRODUCT, EMIT(sigmoid, f->y)));
}

RULE(logsigmoid_backward, X | Y)
{
    GX(SAME_ROW(f->g));
    GY(NEG(EMIT2(sigmoid_backward, PRODUCT, EMIT(sigmoid, f->y))));
}

/* With s = sigmoid(y), t = tanh(softplus(y)) and u = s (1 - t^2): u (2 + y (1 - s - 2 s t)). */
RULE(mish_backward, X | Y)
{
    GX(SAME_ROW(f->g));
    if (f->wanted[1]) {
        gt_tensor *s = EMIT(sigmoid, f->y);
        gt_tensor *t = EMIT(tanh, EMIT(softplus, f->y));
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

/* Below 0 the derivative of this row is q times the row itself. */
RULE(elu_backward, X | Y)
{
    GX(SAME_ROW_NUMBERS(f->g));
    if (f->wanted[1]) {
        gt_tensor *product = PRODUCT;
        GY(ZERO_WHERE(NUMBER(gt, f->y, 0), SCALE(SAME_ROW_NUMBERS(product), Q)));
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
    GX(WITH_OPERAND(mul, f->g, 1));
    GY(WITH_OPERAND(mul, f->g, 0));
}

RULE(div, Y | FOR_Y(OUT))
{
    gt_tensor *quotient = WITH_OPERAND(div, f->g, 1);
    GX(quotient);
    GY(NEG(MUL(quotient, f->out)));
}

static gt_tensor *power_gradient_base(gt_frame *f)
{
    if (IS_LITERAL(1)) {
        double exponent = gt__step_literal(&f->node->ins, 1);
        if (exponent == 0)
            return ZEROS(&f->node->operands[0].meta);
        return MUL(f->g, SCALE(NUMBER(pow, f->x, exponent - 1), exponent));
    }
    gt_tensor *base = OPERAND(0, f->x, f->y);
    gt_tensor *slope = MUL(f->y, EMIT2(pow, base, PLUS(f->y, -1)));
    return MUL(f->g, ZERO_WHERE(NUMBER(eq, f->y, 0), slope));
}

static gt_tensor *power_gradient_exponent(gt_frame *f)
{
    bool is_complex = gt__dtype_is_complex((gt_dtype)f->node->out.dtype);
    if (IS_LITERAL(0) && !is_complex) {
        double base = gt__step_literal(&f->node->ins, 0);
        gt_tensor *slope = SCALE(f->out, log(base));
        return MUL(f->g, base == 0 ? ZERO_WHERE(NUMBER(ge, f->y, 0), slope) : slope);
    }
    /* 0 ** y has no slope in y for y >= 0 */
    gt_tensor *base = IS_LITERAL(0) ? FILLED(&f->node->out, gt__step_literal(&f->node->ins, 0)) : f->x;
    if (is_complex)
        base = CAST(base, (gt_dtype)f->node->out.dtype);
    gt_tensor *size = f->y;
    if (f->y && gt__dtype_is_complex((gt_dtype)f->y->meta.dtype))
        size = CAST(f->y, gt__dtype_real((gt_dtype)f->y->meta.dtype));
    gt_tensor *slope = MUL(f->out, EMIT(log, base));
    gt_tensor *flat = EMIT2(logical_and, NUMBER(eq, base, 0), NUMBER(ge, size, 0));
    return MUL(f->g, ZERO_WHERE(flat, slope));
}

RULE(pow, X | Y | FOR_Y(OUT))
{
    GX(power_gradient_base(f));
    GY(power_gradient_exponent(f));
}

/* Where the operands are equal each gets half, as in PyTorch. `loses` is the comparison by which operand 0 loses. */
static void pick_rule(gt_frame *f, gt_opcode loses, gt_opcode wins)
{
    bool left = IS_LITERAL(0);
    gt_tensor *known = left ? f->y : f->x;
    unsigned other = left ? 0 : 1;
    gt_tensor *equal = WITH_OPERAND(eq, known, other);
    gt_tensor *shared = WHERE(equal, SCALE(f->g, 0.5), f->g);
    /* compare `known op other`; a literal as operand 0 reverses the comparison */
    gt_tensor *zero_left = gt__step_with_operand(f, left ? wins : loses, known, other);
    gt_tensor *zero_right = gt__step_with_operand(f, left ? loses : wins, known, other);
    GX(ZERO_WHERE(zero_left, shared));
    GY(ZERO_WHERE(zero_right, shared));
}

RULE(maximum, X | Y)
{
    pick_rule(f, GT_OP_lt, GT_OP_gt);
}
RULE(minimum, X | Y)
{
    pick_rule(f, GT_OP_gt, GT_OP_lt);
}

/* The rounded quotient: its own gradients, for a second derivative, are 0. */
static gt_tensor *whole_quotient(gt_frame *f, gt_opcode op)
{
    gt_tensor *quotient = gt__step_binary(f, op, OPERAND(0, f->x, f->y), f->y);
    if (quotient)
        gt__autograd_rounds(quotient->node);
    return quotient;
}

RULE(remainder, X | Y)
{
    GX(f->g);
    GY(NEG(MUL(f->g, whole_quotient(f, GT_OP_floor_divide))));
}

RULE(fmod, X | Y)
{
    GX(f->g);
    GY(NEG(MUL(f->g, whole_quotient(f, GT_OP_trunc_divide))));
}

RULE(floor_divide, 0)
{
    gt__step_refuse_all(f, "floor_divide");
}
/* Also of div(..., rounding_mode='floor'): gt__autograd_rounds. */
RULE(trunc_divide, 0)
{
    GX(ZEROS(&f->node->operands[0].meta));
    GY(ZEROS(&f->node->operands[1].meta));
}

/* y / (x^2 + y^2) and -x / (x^2 + y^2); 0 at the origin */
RULE(atan2, X | Y)
{
    gt_tensor *x = OPERAND(0, f->x, f->y), *y = OPERAND(1, f->y, f->x);
    gt_tensor *squares = ADD(SQUARE(x), SQUARE(y));
    gt_tensor *share = ZERO_WHERE(NUMBER(eq, squares, 0), DIV(f->g, squares));
    GX(MUL(share, y));
    GY(NEG(MUL(share, x)));
}

RULE(hypot, FOR_X(X) | FOR_Y(Y) | OUT)
{
    gt_tensor *share = DIV(f->g, f->out);
    GX(MUL(share, f->x));
    GY(MUL(share, f->y));
}

/* sign(out) * sign(x); 0 at 0 */
RULE(copysign, FOR_X(X | OUT))
{
    GX(MUL(f->g, ZERO_WHERE(NUMBER(eq, f->x, 0), DIV(f->out, f->x))));
    GY(ZEROS(&f->node->operands[1].meta));
}

/* 1 / (1 + exp(y - x)): right for infinities too */
RULE(logaddexp, X | Y)
{
    if (f->wanted[0])
        GX(MUL(f->g, EMIT(sigmoid, WITH_OPERAND(sub, f->x, 1))));
    if (f->wanted[1])
        GY(MUL(f->g, EMIT(sigmoid, WITH_OPERAND(sub, f->y, 0))));
}

RULE(where, X)
{
    GY(WHERE_OR_ZERO(f->x, f->g));
    GZ(ZERO_WHERE(f->x, f->g));
}

/* x + z (y - x); y and z may be literals */
RULE(lerp, X | Y | Z)
{
    bool number_weight = IS_LITERAL(2);
    double weight = number_weight ? gt__step_literal(&f->node->ins, 2) : 0;
    GX(number_weight ? SCALE(f->g, 1 - weight) : MUL(f->g, ONE_MINUS(f->z)));
    GY(number_weight ? SCALE(f->g, weight) : MUL(f->g, f->z));
    GZ(MUL(f->g, SUB(OPERAND(1, f->y, f->x), f->x)));
}

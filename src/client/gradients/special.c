/* special.c: gradient rules of the special functions, and of samples that move with their parameters. Read steps.h first. */
#include "client/gradients/steps.h"

#define SQUARE(a) EMIT(square, a)
#define ROOT_PI 1.77245385090551602730
#define ROOT_2PI 2.50662827463100050242

static gt_tensor *numbers(gt_frame *f, gt_opcode op, gt_tensor *a, double p)
{
    STEP(gt__emit_numbers(op, a, p, 0, &result_));
}

/* ---- the error function and the normal distribution -------------------------------------------------------- */

RULE(erfc, X)
{
    GX(MUL(f->g, SCALE(EMIT(exp, NEG(SQUARE(f->x))), -M_2_SQRTPI)));
}
RULE(erfinv, OUT)
{
    GX(MUL(f->g, SCALE(EMIT(exp, SQUARE(f->out)), ROOT_PI / 2)));
}
RULE(erfcx, X | OUT)
{
    GX(MUL(f->g, PLUS(SCALE(MUL(f->x, f->out), 2), -M_2_SQRTPI)));
}
RULE(ndtr, X)
{
    GX(MUL(f->g, SCALE(EMIT(exp, SCALE(SQUARE(f->x), -0.5)), 1 / ROOT_2PI)));
}
RULE(ndtri, OUT)
{
    GX(MUL(f->g, SCALE(EMIT(exp, SCALE(SQUARE(f->out), 0.5)), ROOT_2PI)));
}
RULE(log_ndtr, X)
{
    GX(SCALE(DIV(f->g, EMIT(erfcx, SCALE(f->x, -M_SQRT1_2))), M_SQRT2 / ROOT_PI));
}

/* ---- the gamma function -------------------------------------------------------------------------------------- */

RULE(lgamma, X)
{
    GX(MUL(f->g, EMIT(digamma, f->x)));
}
RULE(digamma, X)
{
    GX(MUL(f->g, numbers(f, GT_OP_polygamma, f->x, 1)));
}
RULE(polygamma, X)
{
    GX(MUL(f->g, numbers(f, GT_OP_polygamma, f->x, f->node->ins.imm[0].f + 1)));
}

/* y^(x-1) e^-y / gamma(x) */
static gt_tensor *gamma_density(gt_frame *f)
{
    gt_tensor *x = OPERAND(0, f->x, f->y);
    gt_tensor *exponent = SUB(SUB(MUL(PLUS(x, -1), EMIT(log, f->y)), f->y), EMIT(lgamma, x));
    return MUL(f->g, EMIT(exp, exponent));
}

RULE(igamma, X | Y)
{
    gt__step_refuse(f, 0, "igamma: input");
    GY(gamma_density(f));
}
RULE(igammac, X | Y)
{
    gt__step_refuse(f, 0, "igammac: input");
    GY(NEG(gamma_density(f)));
}
RULE(zeta, X | Y)
{
    gt__step_refuse(f, 0, "zeta");
    if (f->wanted[1]) {
        gt_tensor *x = OPERAND(0, f->x, f->y);
        GY(NEG(MUL(f->g, MUL(x, EMIT2(zeta, PLUS(x, 1), f->y)))));
    }
}
RULE(standard_gamma_grad, 0)
{
    gt__step_refuse(f, 0, "_standard_gamma_grad");
    gt__step_refuse(f, 1, "_standard_gamma_grad");
}
RULE(dirichlet_grad, 0)
{
    for (unsigned k = 0; k < 3; k++)
        gt__step_refuse(f, k, "_dirichlet_grad");
}

/* ---- samples -------------------------------------------------------------------------------------------------- */

/* How many there are does not follow from how likely they are. */
RULE(bernoulli, 0)
{
    GX(ZEROS(&f->node->operands[0].meta));
}
RULE(poisson, 0)
{
    GX(ZEROS(&f->node->operands[0].meta));
}
RULE(binomial, 0)
{
    gt__step_refuse(f, 0, "binomial");
}
RULE(standard_gamma, X | OUT)
{
    GX(MUL(f->g, EMIT2(standard_gamma_grad, f->x, f->out)));
}

static gt_tensor *dirichlet_slope(gt_frame *f, gt_tensor *total)
{
    STEP(gt__emit_ternary(GT_OP_dirichlet_grad, f->out, f->x, GT_LITERAL_NONE, (gt_imm){.i = 0}, total,
                          GT_LITERAL_NONE, (gt_imm){.i = 0}, &result_));
}

/* A share that grows takes from the others in proportion to them. */
RULE(dirichlet, X | OUT)
{
    uint32_t last = 1u << (f->out->meta.rank - 1);
    gt_tensor *mean = REDUCED(sum, MUL(f->out, f->g), last, true);
    GX(MUL(dirichlet_slope(f, REDUCED(sum, f->x, last, true)), SUB(f->g, mean)));
}

/* ---- Bessel functions ---------------------------------------------------------------------------------------- */

RULE(i0, X)
{
    GX(MUL(f->g, EMIT(i1, f->x)));
}
RULE(i0e, X | OUT)
{
    GX(MUL(f->g, SUB(EMIT(i1e, f->x), MUL(EMIT(sign, f->x), f->out))));
}

/* slope where |x| is not tiny, 1/2 elsewhere */
static gt_tensor *half_at_zero(gt_frame *f, gt_tensor *slope)
{
    double tiny = f->g->meta.dtype == GT_FLOAT64 ? 0x1p-52 : 0x1p-23;
    gt_tensor *far = NUMBER(gt, EMIT(abs, f->x), tiny);
    return MUL(f->g, WHERE(far, slope, FILLED(&f->node->out, 0.5)));
}

RULE(i1, X | OUT)
{
    GX(half_at_zero(f, SUB(EMIT(i0, f->x), DIV(f->out, f->x))));
}
RULE(i1e, X | OUT)
{
    gt_tensor *bend = MUL(f->out, ADD(EMIT(sign, f->x), EMIT(reciprocal, f->x)));
    GX(half_at_zero(f, SUB(EMIT(i0e, f->x), bend)));
}

/* ---- logarithms ---------------------------------------------------------------------------------------------- */

RULE(entr, X)
{
    GX(MUL(f->g, NEG(PLUS(EMIT(log, f->x), 1))));
}

/* g / (x (1 - x)); outside the bounds 0, or NaN outside 0..1 where there are none */
RULE(logit, X)
{
    double eps = f->node->ins.imm[0].f, low = eps < 0 ? 0 : eps;
    gt_tensor *slope = DIV(f->g, MUL(f->x, PLUS(NEG(f->x), 1)));
    gt_tensor *inside = EMIT2(logical_and, NUMBER(ge, f->x, low), NUMBER(le, f->x, 1 - low));
    GX(eps < 0 ? WHERE(inside, slope, FILLED(&f->node->out, NAN)) : WHERE_OR_ZERO(inside, slope));
}

/* By x: xlogy(g, y), 0 where x is 0 and y is not in the logarithm's domain, which ends at `end`. By y: g x / (y - end). */
static void product_rule(gt_frame *f, gt_opcode op, double end)
{
    gt_tensor *y = OPERAND(1, f->y, f->x);
    if (f->wanted[0]) {
        gt_tensor *outside = EMIT2(logical_and, NUMBER(eq, f->x, 0), NUMBER(le, y, end));
        GX(ZERO_WHERE(outside, gt__step_binary(f, op, f->g, y)));
    }
    if (f->wanted[1])
        GY(DIV(MUL(f->g, OPERAND(0, f->x, f->y)), end == 0 ? y : PLUS(y, -end)));
}

RULE(xlogy, X | Y)
{
    product_rule(f, GT_OP_xlogy, 0);
}
RULE(xlog1py, X | Y)
{
    product_rule(f, GT_OP_xlog1py, -1);
}

RULE(logaddexp2, X | Y)
{
    if (f->wanted[0])
        GX(MUL(f->g, EMIT(sigmoid, SCALE(WITH_OPERAND(sub, f->x, 1), M_LN2))));
    if (f->wanted[1])
        GY(MUL(f->g, EMIT(sigmoid, SCALE(WITH_OPERAND(sub, f->y, 0), M_LN2))));
}

/* ---- parts of numbers ---------------------------------------------------------------------------------------- */

RULE(frexp_mantissa, X)
{
    GX(DIV(f->g, EMIT(exp2, EMIT(frexp_exponent, f->x))));
}
RULE(nextafter, 0)
{
    gt__step_refuse(f, 0, "nextafter");
    gt__step_refuse(f, 1, "nextafter");
}
RULE(heaviside, 0)
{
    gt__step_refuse_all(f, "heaviside");
}

/*
 * norm.c: gradient rules of normalisation. Read steps.h first.
 *
 * The rows that compute these gradients in one pass have no rule. Where the gradient will be differentiated itself, the
 * rule emits ordinary ops instead.
 */
#include "client/gradients/steps.h"

static gt_tensor *layer_norm_half(gt_frame *f, gt_opcode op)
{
    const gt_instruction *ins = &f->node->ins;
    gt_tensor *weight = op == GT_OP_layer_norm_backward && !IS_LITERAL(1) ? f->y : NULL;
    STEP(gt__emit_layer_norm(op, (gt_tensor *[]){f->g, f->x, weight}, ins->imm[0].i, ins->imm[1].f, &result_));
}

RULE(layer_norm, X | Y)
{
    uint32_t axes = (1u << f->x->meta.rank) - (1u << f->node->ins.imm[0].i);
    if (f->create_graph) {
        gt_tensor *centred = SUB(f->x, REDUCED(mean, f->x, axes, true));
        gt_tensor *variance = REDUCED(mean, MUL(centred, centred), axes, true);
        gt_tensor *scale = EMIT(rsqrt, PLUS(variance, f->node->ins.imm[1].f));
        gt_tensor *h = MUL(centred, scale), *gw = WITH_OPERAND(mul, f->g, 1);
        gt_tensor *along = MUL(h, REDUCED(mean, MUL(gw, h), axes, true));
        GX(MUL(scale, SUB(SUB(gw, REDUCED(mean, gw, axes, true)), along)));
        GY(MUL(f->g, h));
    } else {
        if (f->wanted[0])
            GX(layer_norm_half(f, GT_OP_layer_norm_backward));
        if (f->wanted[1])
            GY(layer_norm_half(f, GT_OP_layer_norm_backward_weight));
    }
    GZ(f->g);
}

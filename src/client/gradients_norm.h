/*
 * gradients_norm.h: gradient rules of normalisation. Included by gradients.c alone; gradient_steps.h has the words.
 *
 * Rows that compute a gradient in one walk have no rule of their own; where a second derivative may be asked for, the same
 * is said in ordinary ops.
 */
#ifndef GT_CLIENT_GRADIENTS_NORM_H
#define GT_CLIENT_GRADIENTS_NORM_H

#include "client/gradient_steps.h"

static gt_tensor *layer_norm_half(frame *f, gt_opcode op)
{
    const gt_instruction *ins = &f->node->ins;
    gt_tensor *weight = op == GT_OP_layer_norm_backward && !is_literal(f, 1) ? f->y : NULL;
    STEP(gt__emit_layer_norm(op, (gt_tensor *[]){f->g, f->x, weight}, ins->imm[0].i, ins->imm[1].f, &result_));
}

RULE(layer_norm, X | Y)
{
    uint32_t axes = (1u << f->x->meta.rank) - (1u << f->node->ins.imm[0].i);
    if (f->create_graph) {
        gt_tensor *centred = SUB(f->x, reduce(f, GT_OP_mean, f->x, axes, true));
        gt_tensor *variance = reduce(f, GT_OP_mean, MUL(centred, centred), axes, true);
        gt_tensor *scale = unary(f, GT_OP_rsqrt, PLUS(variance, f->node->ins.imm[1].f));
        gt_tensor *h = MUL(centred, scale), *gw = with_operand(f, GT_OP_mul, f->g, 1);
        gt_tensor *along = MUL(h, reduce(f, GT_OP_mean, MUL(gw, h), axes, true));
        GX(MUL(scale, SUB(SUB(gw, reduce(f, GT_OP_mean, gw, axes, true)), along)));
        GY(MUL(f->g, h));
    } else {
        if (f->wanted[0])
            GX(layer_norm_half(f, GT_OP_layer_norm_backward));
        if (f->wanted[1])
            GY(layer_norm_half(f, GT_OP_layer_norm_backward_weight));
    }
    GZ(f->g);
}

#endif

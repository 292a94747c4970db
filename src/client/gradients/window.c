/*
 * window.c: gradient rules of convolutions, pooling, im2col and resample. Read steps.h first.
 *
 * conv, conv_input and conv_weight are the three derivatives of one sum over products x * weight * y, so the rule of each
 * consists of the other two. Each other pair likewise consists of mutual derivatives. So all of them can be
 * differentiated any number of times.
 */
#include "client/gradients/steps.h"
#include "client/spatial.h"

/* The row `op` with the node's window, its result's spatial axes being those of `like`. */
static gt_tensor *windowed(gt_frame *f, gt_opcode op, gt_tensor *a, gt_tensor *b, const gt_meta *like)
{
    gt_window w = gt__window_read(f->node->tail);
    int spatial = f->node->ins.rank;
    memcpy(w.size, like->shape + like->rank - spatial, (size_t)spatial * sizeof *w.size);
    STEP(gt__emit_window(op, a, b, NULL, spatial, &w, &result_));
}

static const gt_meta *operand(const gt_frame *f, unsigned k)
{
    return &f->node->operands[k].meta;
}

/* A bias is added to every element of its channel. */
static gt_tensor *bias_gradient(gt_frame *f)
{
    return REDUCED(sum, f->g, ((1u << f->g->meta.rank) - 1) & ~2u, false);
}

RULE(conv, FOR_X(Y) | FOR_Y(X))
{
    GX(windowed(f, GT_OP_conv_input, f->g, f->y, operand(f, 0)));
    GY(windowed(f, GT_OP_conv_weight, f->g, f->x, operand(f, 1)));
    if (!IS_LITERAL(2))
        GZ(bias_gradient(f));
}

RULE(conv_input, FOR_X(Y) | FOR_Y(X))
{
    GX(windowed(f, GT_OP_conv, f->g, f->y, operand(f, 0)));
    GY(windowed(f, GT_OP_conv_weight, f->x, f->g, operand(f, 1)));
    if (!IS_LITERAL(2))
        GZ(bias_gradient(f));
}

RULE(conv_weight, FOR_X(Y) | FOR_Y(X))
{
    GX(windowed(f, GT_OP_conv, f->y, f->g, operand(f, 0)));
    GY(windowed(f, GT_OP_conv_input, f->x, f->g, operand(f, 1)));
}

/* The position of the maximum is constant, so the second operand has no gradient. */
RULE(max_pool, Y)
{
    GX(windowed(f, GT_OP_max_pool_input, f->g, f->y, operand(f, 0)));
}
RULE(max_pool_input, Y)
{
    GX(windowed(f, GT_OP_max_pool, f->g, f->y, operand(f, 0)));
}
RULE(avg_pool, 0)
{
    GX(windowed(f, GT_OP_avg_pool_input, f->g, NULL, operand(f, 0)));
}
RULE(avg_pool_input, 0)
{
    GX(windowed(f, GT_OP_avg_pool, f->g, NULL, operand(f, 0)));
}

static gt_tensor *columns(gt_frame *f, gt_opcode op)
{
    gt_window w = gt__window_read(f->node->tail);
    int spatial = f->node->ins.rank;
    if (op == GT_OP_col2im) {
        memcpy(w.from, w.size, sizeof w.from);
        memcpy(w.size, operand(f, 0)->shape + 2, (size_t)spatial * sizeof *w.size);
    } else
        memcpy(w.size, w.from, sizeof w.size);
    STEP(gt__emit_window(op, f->g, NULL, NULL, spatial, &w, &result_));
}

RULE(im2col, 0)
{
    GX(columns(f, GT_OP_col2im));
}
RULE(col2im, 0)
{
    GX(columns(f, GT_OP_im2col));
}

static gt_tensor *resampled(gt_frame *f, gt_opcode op)
{
    const gt_instruction *ins = &f->node->ins;
    int64_t size = operand(f, 0)->shape[ins->imm[0].i & 0xff];
    STEP(gt__emit_resample(op, f->g, ins->imm[0], ins->imm[1].f, size, f->node->tail[0].i64[1], &result_));
}

RULE(resample, 0)
{
    GX(resampled(f, GT_OP_resample_input));
}
RULE(resample_input, 0)
{
    GX(resampled(f, GT_OP_resample));
}

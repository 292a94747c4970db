/*
 * norm.c: gradient rules of normalisation and attention. Read steps.h first.
 *
 * The rows that compute these gradients in one pass have no rule. Where the gradient will be differentiated itself, the
 * rule emits ordinary ops instead.
 */
#include "client/gradients/steps.h"
#include "core/attention.h"

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

/* ---- batch norm --------------------------------------------------------------------------------------------- */

static gt_tensor *batch_norm_row(gt_frame *f, gt_opcode op, gt_tensor *last, int64_t elements)
{
    STEP(gt__emit_batch_norm(op, (gt_tensor *[]){f->g, f->x, last}, elements, f->node->ins.imm[1].f, &result_));
}

static gt_tensor *rows_together(gt_frame *f, gt_tensor *const *rows, int count)
{
    STEP(gt_cat(rows, count, 0, &result_));
}

/* Row `row` of a tensor (rows, C), to be broadcast against x. */
static gt_tensor *channel_numbers(gt_frame *f, gt_tensor *rows, int64_t row)
{
    int64_t shape[GT_MAX_RANK];
    gt_slot spec[3] = {{.i64 = {row, 0}}, {.i64 = {1, 1}}, {.i64 = {1, f->x->meta.shape[1]}}};
    for (unsigned axis = 0; axis < f->x->meta.rank; axis++)
        shape[axis] = axis == 1 ? f->x->meta.shape[1] : 1;
    return rows ? RESHAPE(SLICE(rows, spec), f->x->meta.rank, shape) : NULL;
}

/* In ordinary ops, which have gradients themselves; halves are widened as the rows do. */
static void batch_norm_composed(gt_frame *f)
{
    gt_dtype dtype = (gt_dtype)f->node->out.dtype, wide = dtype == GT_FLOAT64 ? GT_FLOAT64 : GT_FLOAT32;
    bool of_x = f->node->ins.imm[0].i;
    uint32_t axes = ((1u << f->x->meta.rank) - 1) & ~2u;
    gt_tensor *x = CAST(f->x, wide), *g = CAST(f->g, wide);
    gt_tensor *centred = SUB(x, of_x ? REDUCED(mean, x, axes, true) : channel_numbers(f, f->y, 0));
    gt_tensor *variance = of_x ? REDUCED(mean, MUL(centred, centred), axes, true) : channel_numbers(f, f->y, 1);
    gt_tensor *scale = EMIT(rsqrt, PLUS(variance, f->node->ins.imm[1].f)), *h = MUL(centred, scale);
    gt_tensor *gw = IS_LITERAL(2) ? g : MUL(g, channel_numbers(f, f->z, 0));
    if (of_x) {
        gt_tensor *along = MUL(h, REDUCED(mean, MUL(gw, h), axes, true));
        GX(CAST(MUL(scale, SUB(SUB(gw, REDUCED(mean, gw, axes, true)), along)), dtype));
    } else
        GX(CAST(MUL(scale, gw), dtype));
    if (f->wanted[2] && f->err == GT_OK) {
        const int64_t *shape = (int64_t[]){1, f->x->meta.shape[1]};
        gt_tensor *sums[] = {RESHAPE(REDUCED(sum, MUL(g, h), axes, true), 2, shape),
                             RESHAPE(REDUCED(sum, g, axes, true), 2, shape)};
        GZ(sums[0] && sums[1] ? rows_together(f, sums, 2) : NULL);
    }
}

RULE(batch_norm, X | Y | Z)
{
    if (f->create_graph) {
        batch_norm_composed(f);
        return;
    }
    int64_t channels = f->x->meta.shape[1];
    int64_t elements = f->node->ins.imm[0].i && channels ? f->x->meta.numel / channels : 0;
    gt_tensor *sums = NULL;
    if (elements || f->wanted[2])
        sums = batch_norm_row(f, GT_OP_batch_norm_backward_affine, f->y, 0);
    GZ(sums);
    if (!f->wanted[0] || f->err != GT_OK)
        return;
    gt_tensor *rows[3] = {f->y};
    int count = 1;
    if (!IS_LITERAL(2))
        rows[count++] = f->z;
    if (elements)
        rows[count++] = sums;
    gt_tensor *packed = count > 1 ? rows_together(f, rows, count) : rows[0];
    GX(packed ? batch_norm_row(f, GT_OP_batch_norm_backward, packed, elements) : NULL);
}

/* ---- attention ---------------------------------------------------------------------------------------------- */

static gt_tensor *side_by_side(gt_frame *f, gt_tensor *a, gt_tensor *b)
{
    STEP(gt_cat((gt_tensor *[]){a, b}, 2, a->meta.rank - 1, &result_));
}

static gt_tensor *attention_backward(gt_frame *f, gt_tensor *query_and_g)
{
    const gt_instruction *ins = &f->node->ins;
    STEP(gt__emit_attention(GT_OP_attention_backward, (gt_tensor *[]){query_and_g, f->y, f->z}, ins->imm[0].f,
                            ins->imm[1].i, &result_));
}

/* The gradient that begins at `first` in the last axis of `packed`, in the shape of `like`. */
static gt_tensor *unpacked(gt_frame *f, gt_tensor *packed, int64_t first, const gt_meta *like)
{
    if (!packed)
        return NULL;
    gt_slot spec[3];
    unsigned last = packed->meta.rank - 1u;
    for (unsigned axis = 0; axis <= last; axis++) {
        spec[0].i64[axis] = axis == last ? first : 0;
        spec[1].i64[axis] = 1;
        spec[2].i64[axis] = axis == last ? like->shape[last] * like->shape[last + 1] : like->shape[axis];
    }
    return RESHAPE(SLICE(packed, spec), like->rank, like->shape);
}

static gt_tensor *positions(gt_frame *f, int64_t count)
{
    STEP(gt_arange(f->g->client, GT_INT64, 0, (double)count, 1, &result_));
}

static gt_tensor *softmax_along(gt_frame *f, gt_opcode op, gt_tensor *a, gt_tensor *out)
{
    STEP(gt__emit_along(op, a, out, a->meta.rank - 1, &result_));
}

/* The weights that the queries give to the keys, softmax(q k' scale), as a tensor. */
static gt_tensor *attention_weights(gt_frame *f, gt_tensor *q, gt_tensor *k)
{
    const gt_instruction *ins = &f->node->ins;
    gt_tensor *scores = SCALE(MATMUL(q, T(k)), ins->imm[0].f);
    if (ins->imm[1].i && scores) {
        int64_t queries = scores->meta.shape[scores->meta.rank - 2],
                keys = scores->meta.shape[scores->meta.rank - 1];
        gt_tensor *last =
            NUMBER(remainder, RESHAPE(positions(f, queries), 2, (int64_t[]){queries, 1}), (double)ins->imm[1].i);
        gt_tensor *hidden = EMIT2(lt, last, positions(f, keys));
        scores = hidden ? WHERE(hidden, FILLED(&scores->meta, -INFINITY), scores) : NULL;
    }
    return scores ? softmax_along(f, GT_OP_softmax, scores, NULL) : NULL;
}

/* The gradients in ordinary ops, which have gradients themselves; half precision is widened as the kernel does. */
static void attention_composed(gt_frame *f)
{
    gt_dtype dtype = (gt_dtype)f->node->out.dtype, wide = dtype == GT_FLOAT64 ? GT_FLOAT64 : GT_FLOAT32;
    double scale = f->node->ins.imm[0].f;
    gt_tensor *q = CAST(f->x, wide), *k = CAST(f->y, wide), *v = CAST(f->z, wide), *g = CAST(f->g, wide);
    gt_tensor *weights = attention_weights(f, q, k), *slopes = weights ? MATMUL(g, T(v)) : NULL;
    gt_tensor *scores = slopes ? softmax_along(f, GT_OP_softmax_backward, slopes, weights) : NULL;
    GX(CAST(SCALE(MATMUL(scores, k), scale), dtype));
    GY(CAST(SCALE(MATMUL(T(scores), q), scale), dtype));
    GZ(CAST(MATMUL(T(weights), g), dtype));
}

RULE(attention, X | Y | Z)
{
    const gt_meta *q = &f->node->operands[0].meta, *k = &f->node->operands[1].meta;
    const gt_meta *v = &f->node->operands[2].meta;
    if (f->create_graph) {
        attention_composed(f);
        return;
    }
    gt_attention_sizes n = gt__attention_sizes(q, k, v);
    int64_t first = n.queries * n.width, second = first + n.keys * n.width;
    gt_tensor *both = side_by_side(f, f->x, f->g), *packed = both ? attention_backward(f, both) : NULL;
    GX(unpacked(f, packed, 0, q));
    GY(unpacked(f, packed, first, k));
    GZ(unpacked(f, packed, second, v));
}

/*
 * gradients_move.h: gradient rules of views and data movement. Included by gradients.c alone; gradient_steps.h has the words.
 */
#ifndef GT_CLIENT_GRADIENTS_MOVE_H
#define GT_CLIENT_GRADIENTS_MOVE_H

#include "gradient_steps.h"

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

#endif

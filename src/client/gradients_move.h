/*
 * gradients_move.h: gradient rules of views and data movement. Included by gradients.c alone;
 * gradient_steps.h has the words.
 */
#ifndef GT_CLIENT_GRADIENTS_MOVE_H
#define GT_CLIENT_GRADIENTS_MOVE_H

#include "client/gradient_steps.h"

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
    GX(permute(f, f->g, inverse));
}

RULE(expand, 0)
{
    GX(f->g);
}
RULE(slice, 0)
{
    GX(assign(f, zeros(f, &f->node->operands[0].meta), f->node->tail, f->g));
}
/* Zeros with g on the diagonal: with both axes last and merged, the diagonal is a slice. */
RULE(diagonal, 0)
{
    const gt_meta *in = &f->node->operands[0].meta;
    unsigned axis1 = f->node->ins.imm[1].u & 0xff, axis2 = f->node->ins.imm[1].u >> 8 & 0xff, batch = 0;
    int64_t offset = f->node->ins.imm[0].i, columns = in->shape[axis2], shape[GT_MAX_RANK];
    int back[GT_MAX_RANK];
    gt_slot spec[3];
    gt_meta flat = *in;
    for (unsigned axis = 0; axis < in->rank; axis++) {
        if (axis == axis1 || axis == axis2)
            continue;
        back[axis] = (int)batch;
        spec[0].i64[batch] = 0;
        spec[1].i64[batch] = 1;
        spec[2].i64[batch] = flat.shape[batch] = shape[batch] = in->shape[axis];
        batch++;
    }
    back[axis1] = (int)batch;
    back[axis2] = (int)batch + 1;
    shape[batch] = in->shape[axis1];
    shape[batch + 1] = columns;
    flat.rank = (uint8_t)(batch + 1);
    flat.shape[batch] = in->shape[axis1] * columns;
    spec[2].i64[batch] = f->node->out.shape[batch];
    spec[0].i64[batch] = spec[2].i64[batch] == 0 ? 0 : offset >= 0 ? offset : -offset * columns;
    spec[1].i64[batch] = columns + 1;
    GX(permute(f, reshape(f, assign(f, zeros(f, &flat), spec, f->g), batch + 2, shape), back));
}

/* Every element gets the sum of what its places in the windows got. */
RULE(unfold, 0)
{
    const gt_meta *in = &f->node->operands[0].meta, *out = &f->node->out;
    unsigned axis = (unsigned)f->node->tail[0].i64[0], rank = in->rank;
    int64_t size = f->node->tail[0].i64[1], windows = rank ? out->shape[axis] : 1;
    int64_t flat[GT_MAX_RANK] = {0}, line[GT_MAX_RANK] = {0}, count = windows * size;
    int order[GT_MAX_RANK];
    if (rank == 0) {
        GX(size ? reshape(f, f->g, 0, NULL) : zeros(f, in));
        return;
    }
    for (unsigned d = 0; d < rank; d++) {
        flat[d] = d == axis ? count : in->shape[d];
        line[d] = d == axis ? count : 1;
        order[d < axis + 1 ? d : d + 1] = (int)d;
    }
    order[axis + 1] = (int)rank; /* the elements of a window, next to the windows */
    gt_tensor *first =
        reshape(f, ramp(f, windows, windows > 1 ? f->node->tail[0].i64[2] : 1), 2, (int64_t[]){windows, 1});
    gt_tensor *index = reshape(f, ADD(first, ramp(f, size, 1)), rank, line);
    gt_tensor *lines = reshape(f, permute(f, f->g, order), rank, flat);
    GX(scatter_add(f, zeros(f, in), expand(f, index, rank, flat), lines, (int)axis));
}

RULE(cast, 0)
{
    GX(cast(f, f->g, (gt_dtype)f->node->operands[0].meta.dtype));
}
RULE(copy, 0)
{
    GX(f->g);
}

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

RULE(tril, 0)
{
    GX(triangle(f, f->g, true));
}
RULE(triu, 0)
{
    GX(triangle(f, f->g, false));
}

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
    gt_tensor *wrapped = wrap_index(f, f->y, in->shape[axis], (int)axis);
    gt_tensor *positions = expand(f, reshape(f, wrapped, in->rank, line), in->rank, flat);
    GX(scatter_add(f, zeros(f, in), positions, reshape(f, f->g, in->rank, flat), (int)axis));
}

RULE(gather, Y)
{
    GX(scatter_add(f, zeros(f, &f->node->operands[0].meta), f->y, f->g, (int)f->node->ins.imm[0].i));
}

static gt_tensor *overwritten(frame *f, gt_tensor *a, gt_tensor *src, int axis)
{
    STEP(gt_scatter(a, f->y, src, axis, &result_));
}

/* The gradient of a scatter's operand: zero where something was written over it. */
static gt_tensor *without_scattered(frame *f)
{
    gt_meta index = f->node->operands[1].meta;
    index.dtype = f->node->out.dtype;
    return overwritten(f, f->g, zeros(f, &index), (int)f->node->ins.imm[0].i);
}

/* The corner of a tensor that an index reaches. */
static void corner(const gt_meta *index, gt_slot *spec)
{
    for (unsigned d = 0; d < index->rank; d++) {
        spec[0].i64[d] = 0;
        spec[1].i64[d] = 1;
        spec[2].i64[d] = index->shape[d];
    }
}

/* Only as much of src as the index reached was used. */
static gt_tensor *into_src(frame *f, gt_tensor *used)
{
    const gt_meta *src = &f->node->operands[2].meta;
    gt_slot spec[3];
    if (!used || gt__meta_same_shape(&used->meta, src))
        return used;
    corner(&used->meta, spec);
    return assign(f, zeros(f, src), spec, used);
}

static gt_tensor *gathered_into_src(frame *f)
{
    return into_src(f, gather(f, f->g, f->y, (int)f->node->ins.imm[0].i));
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

/* ---- scatter_reduce: x is a, y the index, z src ------------------------------------------------------------ */

typedef struct scattering {
    gt_scatter_kind kind;
    bool without_self;
    int axis;
    gt_tensor *src;   /* what was used of it, of the index's shape */
    gt_tensor *gself; /* the gradients */
    gt_tensor *gsrc;
} scattering;

static gt_tensor *scatter_product(frame *f, const scattering *s, gt_tensor *a, gt_tensor *src)
{
    STEP(gt_scatter_reduce(a, f->y, src, s->axis, GT_SCATTER_PROD, !s->without_self, &result_));
}

static gt_tensor *gathered(frame *f, const scattering *s, gt_tensor *a)
{
    return gather(f, a, f->y, s->axis);
}

/* g divided by a count for each element: a start of 0 or 1, and what meets there. Counted in float32 at least: 257 is no
 * bfloat16. */
static gt_tensor *divided_by_count(frame *f, const scattering *s, gt_tensor *start, gt_tensor *met)
{
    gt_dtype dtype = (gt_dtype)f->g->meta.dtype, wide = dtype == GT_FLOAT64 ? dtype : GT_FLOAT32;
    gt_tensor *count = scatter_add(f, cast(f, start, wide), f->y, cast(f, met, wide), s->axis);
    return cast(f, DIV(f->g, number(f, GT_OP_maximum, count, 1)), dtype);
}

static void mean_rule(frame *f, scattering *s)
{
    gt_meta index = f->node->operands[1].meta;
    index.dtype = f->g->meta.dtype;
    s->gself = divided_by_count(f, s, filled(f, &f->g->meta, !s->without_self), filled(f, &index, 1));
    s->gsrc = gathered(f, s, s->gself);
}

/* Shared evenly between all that reach the extreme. */
static void scattered_extreme_rule(frame *f, scattering *s)
{
    gt_dtype dtype = (gt_dtype)f->g->meta.dtype;
    gt_tensor *self_reached = cast(f, binary(f, GT_OP_eq, f->x, f->out), dtype);
    gt_tensor *src_reached = cast(f, binary(f, GT_OP_eq, s->src, gathered(f, s, f->out)), dtype);
    gt_tensor *share = divided_by_count(f, s, s->without_self ? zeros(f, &f->g->meta) : self_reached, src_reached);
    s->gself = MUL(self_reached, share);
    s->gsrc = MUL(src_reached, gathered(f, s, share));
}

/* The product of the others: where one factor is zero, it alone has a slope, with two none has. */
static void product_rule(frame *f, scattering *s)
{
    gt_tensor *self_zero = number(f, GT_OP_eq, f->x, 0), *src_zero = number(f, GT_OP_eq, s->src, 0);
    gt_tensor *self = where_tensors(f, self_zero, filled(f, &f->node->operands[0].meta, 1), f->x);
    s->gself = DIV(MUL(f->g, scatter_product(f, s, self, s->src)), self);
    gt_tensor *zeros_there =
        scatter_add(f, zeros(f, &f->g->meta), f->y, cast(f, src_zero, (gt_dtype)f->g->meta.dtype), s->axis);
    gt_tensor *alone = binary(f, GT_OP_logical_and, src_zero, number(f, GT_OP_eq, gathered(f, s, zeros_there), 1));
    gt_tensor *ones = s->src ? filled(f, &s->src->meta, 1) : NULL;
    gt_tensor *rest = scatter_product(f, s, f->x, where_tensors(f, alone, ones, s->src));
    gt_tensor *elsewhere = DIV(gathered(f, s, MUL(f->g, f->out)), where_tensors(f, src_zero, ones, s->src));
    s->gsrc = where_tensors(f, alone, gathered(f, s, MUL(f->g, rest)), elsewhere);
}

RULE(scatter_reduce, X | Y | Z | OUT)
{
    uint64_t imm = f->node->ins.imm[1].u;
    scattering s = {.kind = (gt_scatter_kind)(imm & ~(uint64_t)GT_SCATTER_WITHOUT_SELF),
                    .without_self = imm & GT_SCATTER_WITHOUT_SELF,
                    .axis = (int)f->node->ins.imm[0].i};
    gt_slot spec[3];
    corner(&f->node->operands[1].meta, spec);
    s.src = slice(f, f->z, spec);
    if (s.kind == GT_SCATTER_SUM) {
        s.gself = f->g;
        s.gsrc = gathered(f, &s, f->g);
    } else if (s.kind == GT_SCATTER_MEAN)
        mean_rule(f, &s);
    else if (s.kind == GT_SCATTER_PROD)
        product_rule(f, &s);
    else
        scattered_extreme_rule(f, &s);
    if (s.without_self && s.gself && f->wanted[0]) {
        gt_meta index = f->node->operands[1].meta;
        index.dtype = f->g->meta.dtype;
        s.gself = overwritten(f, s.gself, zeros(f, &index), s.axis);
    }
    GX(s.gself);
    if (f->wanted[2])
        GZ(into_src(f, s.gsrc));
}

RULE(assign, 0)
{
    GX(assign(f, f->g, f->node->tail, NULL));
    GY(slice(f, f->g, f->node->tail));
}

#endif

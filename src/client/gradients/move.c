/* move.c: gradient rules of views and data movement. Read steps.h first. */
#include "client/gradients/steps.h"

/* ---- steps -------------------------------------------------------------------------------------------------- */

static gt_tensor *permute(gt_frame *f, gt_tensor *a, const int *axes)
{
    STEP(gt_permute(a, axes, &result_));
}

/* i * step for i < count, int64 */
static gt_tensor *ramp(gt_frame *f, int64_t count, int64_t step)
{
    STEP(gt__emit_arange(f->node->client, GT_INT64, count, GT_LITERAL_INT, (gt_imm){.i = 0}, (gt_imm){.i = step},
                         &result_));
}

static gt_tensor *gather(gt_frame *f, gt_tensor *a, gt_tensor *index, int axis)
{
    STEP(gt_gather(a, index, axis, &result_));
}

static gt_tensor *scatter_add(gt_frame *f, gt_tensor *a, gt_tensor *index, gt_tensor *src, int axis)
{
    STEP(gt_scatter_add(a, index, src, axis, &result_));
}

static gt_tensor *wrap_index(gt_frame *f, gt_tensor *index, int64_t size, int axis)
{
    STEP(gt__emit_wrap_index(index, size, axis, &result_));
}

/* a with src (NULL: zeros) in the slice `spec` */
static gt_tensor *assign(gt_frame *f, gt_tensor *a, const gt_slot *spec, gt_tensor *src)
{
    STEP(gt__emit_assign(a, spec[0].i64, spec[1].i64, spec[2].i64, src, GT_LITERAL_FLOAT, (gt_imm){.f = 0}, 0,
                         &result_));
}

/* Zeros with src in the slice `spec`. The zeros are this step's alone: src is written into them. */
static gt_tensor *pad(gt_frame *f, const gt_meta *meta, const gt_slot *spec, gt_tensor *src)
{
    gt_tensor *zeros = ZEROS(meta);
    STEP(gt__emit_assign(zeros, spec[0].i64, spec[1].i64, spec[2].i64, src, GT_LITERAL_NONE, (gt_imm){0}, 1,
                         &result_));
}

/* The same with src added at the index; how: 0, or GT_SCATTER_STEPWISE. */
static gt_tensor *add_to_zeros(gt_frame *f, const gt_meta *meta, gt_tensor *index, gt_tensor *src, int axis,
                               int64_t how)
{
    gt_tensor *zeros = ZEROS(meta);
    STEP(gt__emit_scatter(GT_OP_scatter_add, zeros, index, src, axis, how, 1, &result_));
}

/* ---- views and movement ------------------------------------------------------------------------------------ */

RULE(reshape, 0)
{
    const gt_meta *in = &f->node->operands[0].meta;
    GX(RESHAPE(f->g, in->rank, in->shape));
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
    GX(pad(f, &f->node->operands[0].meta, f->node->tail, f->g));
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
    GX(permute(f, RESHAPE(pad(f, &flat, spec, f->g), batch + 2, shape), back));
}

/* An element's gradient is the sum over all windows that contain it. */
RULE(unfold, 0)
{
    const gt_meta *in = &f->node->operands[0].meta, *out = &f->node->out;
    unsigned axis = (unsigned)f->node->tail[0].i64[0], rank = in->rank;
    int64_t size = f->node->tail[0].i64[1], windows = rank ? out->shape[axis] : 1;
    int64_t flat[GT_MAX_RANK] = {0}, line[GT_MAX_RANK] = {0}, count = windows * size;
    int order[GT_MAX_RANK];
    if (rank == 0) {
        GX(size ? RESHAPE(f->g, 0, NULL) : ZEROS(in));
        return;
    }
    for (unsigned d = 0; d < rank; d++) {
        flat[d] = d == axis ? count : in->shape[d];
        line[d] = d == axis ? count : 1;
        order[d < axis + 1 ? d : d + 1] = (int)d;
    }
    order[axis + 1] = (int)rank; /* the elements of a window, next to the windows */
    gt_tensor *first =
        RESHAPE(ramp(f, windows, windows > 1 ? f->node->tail[0].i64[2] : 1), 2, (int64_t[]){windows, 1});
    gt_tensor *index = RESHAPE(ADD(first, ramp(f, size, 1)), rank, line);
    gt_tensor *lines = RESHAPE(permute(f, f->g, order), rank, flat);
    GX(add_to_zeros(f, in, EXPAND(index, rank, flat), lines, (int)axis, 0));
}

RULE(cast, 0)
{
    GX(CAST(f->g, (gt_dtype)f->node->operands[0].meta.dtype));
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

static gt_tensor *triangle(gt_frame *f, gt_tensor *a, bool lower)
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

/* Rows taken several times get the sum of their gradients. Halves are rounded as often as in PyTorch, where index_select along
 * the first or last of several axes sums in float32, and embeddings and x[index] do not. */
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
    gt_tensor *positions = EXPAND(RESHAPE(wrapped, in->rank, line), in->rank, flat);
    gt_tensor *rows = RESHAPE(f->g, in->rank, flat);
    bool wide = f->node->ins.imm[1].u == GT_TAKE_SELECTED && in->rank > 1 && (axis == 0 || axis == in->rank - 1u);
    GX(add_to_zeros(f, in, positions, rows, (int)axis, wide ? 0 : GT_SCATTER_STEPWISE));
}

RULE(gather, Y)
{
    GX(add_to_zeros(f, &f->node->operands[0].meta, f->y, f->g, (int)f->node->ins.imm[0].i, 0));
}

static gt_tensor *overwritten(gt_frame *f, gt_tensor *a, gt_tensor *src, int axis)
{
    STEP(gt_scatter(a, f->y, src, axis, &result_));
}

/* The gradient of a scatter's operand: zero where it was overwritten. */
static gt_tensor *without_scattered(gt_frame *f)
{
    gt_meta index = f->node->operands[1].meta;
    index.dtype = f->node->out.dtype;
    return overwritten(f, f->g, ZEROS(&index), (int)f->node->ins.imm[0].i);
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

/* The gradient of src: zero outside the corner that the index reaches. */
static gt_tensor *into_src(gt_frame *f, gt_tensor *used)
{
    const gt_meta *src = &f->node->operands[2].meta;
    gt_slot spec[3];
    if (!used || gt__meta_same_shape(&used->meta, src))
        return used;
    corner(&used->meta, spec);
    return pad(f, src, spec, used);
}

static gt_tensor *gathered_into_src(gt_frame *f)
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
    gt_tensor *src;   /* the part that was used, of the index's shape */
    gt_tensor *gself; /* the gradients */
    gt_tensor *gsrc;
} scattering;

static gt_tensor *scatter_product(gt_frame *f, const scattering *s, gt_tensor *a, gt_tensor *src)
{
    STEP(gt_scatter_reduce(a, f->y, src, s->axis, GT_SCATTER_PROD, !s->without_self, &result_));
}

static gt_tensor *gathered(gt_frame *f, const scattering *s, gt_tensor *a)
{
    return gather(f, a, f->y, s->axis);
}

/* g divided by a count for each element: a start of 0 or 1, and what is scattered there. Counted in float32 at least:
 * bfloat16 has no 257. */
static gt_tensor *divided_by_count(gt_frame *f, const scattering *s, gt_tensor *start, gt_tensor *met)
{
    gt_dtype dtype = (gt_dtype)f->g->meta.dtype, wide = dtype == GT_FLOAT64 ? dtype : GT_FLOAT32;
    gt_tensor *count = scatter_add(f, CAST(start, wide), f->y, CAST(met, wide), s->axis);
    return CAST(DIV(f->g, NUMBER(maximum, count, 1)), dtype);
}

static void mean_rule(gt_frame *f, scattering *s)
{
    gt_meta index = f->node->operands[1].meta;
    index.dtype = f->g->meta.dtype;
    s->gself = divided_by_count(f, s, FILLED(&f->g->meta, !s->without_self), FILLED(&index, 1));
    s->gsrc = gathered(f, s, s->gself);
}

/* Shared evenly between all that reach the extreme. */
static void scattered_extreme_rule(gt_frame *f, scattering *s)
{
    gt_dtype dtype = (gt_dtype)f->g->meta.dtype;
    gt_tensor *self_reached = CAST(EMIT2(eq, f->x, f->out), dtype);
    gt_tensor *src_reached = CAST(EMIT2(eq, s->src, gathered(f, s, f->out)), dtype);
    gt_tensor *share = divided_by_count(f, s, s->without_self ? ZEROS(&f->g->meta) : self_reached, src_reached);
    s->gself = MUL(self_reached, share);
    s->gsrc = MUL(src_reached, gathered(f, s, share));
}

/* The product of the other factors. With one zero, only that factor has a slope; with two, none has. */
static void product_rule(gt_frame *f, scattering *s)
{
    gt_tensor *self_zero = NUMBER(eq, f->x, 0), *src_zero = NUMBER(eq, s->src, 0);
    gt_tensor *self = WHERE(self_zero, FILLED(&f->node->operands[0].meta, 1), f->x);
    s->gself = DIV(MUL(f->g, scatter_product(f, s, self, s->src)), self);
    gt_tensor *zeros_there =
        add_to_zeros(f, &f->g->meta, f->y, CAST(src_zero, (gt_dtype)f->g->meta.dtype), s->axis, 0);
    gt_tensor *alone = EMIT2(logical_and, src_zero, NUMBER(eq, gathered(f, s, zeros_there), 1));
    gt_tensor *ones = s->src ? FILLED(&s->src->meta, 1) : NULL;
    gt_tensor *rest = scatter_product(f, s, f->x, WHERE(alone, ones, s->src));
    gt_tensor *elsewhere = DIV(gathered(f, s, MUL(f->g, f->out)), WHERE(src_zero, ones, s->src));
    s->gsrc = WHERE(alone, gathered(f, s, MUL(f->g, rest)), elsewhere);
}

RULE(scatter_reduce, X | Y | Z | OUT)
{
    uint64_t imm = f->node->ins.imm[1].u;
    scattering s = {.kind = (gt_scatter_kind)(imm & ~(uint64_t)GT_SCATTER_WITHOUT_SELF),
                    .without_self = imm & GT_SCATTER_WITHOUT_SELF,
                    .axis = (int)f->node->ins.imm[0].i};
    gt_slot spec[3];
    corner(&f->node->operands[1].meta, spec);
    s.src = SLICE(f->z, spec);
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
        s.gself = overwritten(f, s.gself, ZEROS(&index), s.axis);
    }
    GX(s.gself);
    if (f->wanted[2])
        GZ(into_src(f, s.gsrc));
}

RULE(assign, 0)
{
    GX(assign(f, f->g, f->node->tail, NULL));
    GY(SLICE(f->g, f->node->tail));
}

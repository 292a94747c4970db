/*
 * batch_rules.c: how each form of the op table is emitted on operands with a hidden axis in front. Read batch.h first.
 *
 * A rule returns the result with that axis in front, borrowed from the frame f; reshaping it to the exact shape is the
 * caller's job. A step returns NULL on failure and passes NULL on, as gradient rules do.
 */
#include <string.h>

#include "client/batch.h"
#include "core/fft.h"
#include "core/window.h"

/* ---- steps ------------------------------------------------------------------------------------------------- */

/* *made is read after the call that sets it, whatever the order in which the arguments are evaluated. */
static gt_tensor *keep(gt_batching *f, gt_err err, gt_tensor *const *made)
{
    if (err != GT_OK) {
        f->err = err;
        return NULL;
    }
    if (f->temporaries == GT_BATCH_TEMPORARIES) {
        gt_tensor_release(*made);
        f->err = gt__fail(GT_ERR_INTERNAL, "vmap: a rule has too many steps");
        return NULL;
    }
    return f->temporary[f->temporaries++] = *made;
}

static gt_tensor *emit(gt_batching *f, gt_tensor *const *in, unsigned count)
{
    gt_tensor *out = NULL;
    return f->err == GT_OK ? keep(f, gt__emit(f->client, f->ins, f->tail, in, count, &out), &out) : NULL;
}

static gt_tensor *emit_one(gt_batching *f, gt_tensor *a)
{
    return a ? emit(f, &a, 1) : NULL;
}

static gt_tensor *reshape(gt_batching *f, gt_tensor *a, unsigned rank, const int64_t *shape)
{
    gt_tensor *out = NULL;
    return a && f->err == GT_OK ? keep(f, gt_reshape(a, (int)rank, shape, &out), &out) : NULL;
}

static gt_tensor *expand(gt_batching *f, gt_tensor *a, unsigned rank, const int64_t *shape)
{
    gt_tensor *out = NULL;
    return a && f->err == GT_OK ? keep(f, gt_expand(a, (int)rank, shape, &out), &out) : NULL;
}

static gt_tensor *binary(gt_batching *f, gt_opcode op, gt_tensor *a, gt_tensor *b)
{
    gt_tensor *out = NULL;
    return a && b && f->err == GT_OK ? keep(f, gt__emit_binary(op, a, b, &out), &out) : NULL;
}

/* Axis `from` becomes axis `to`; the others keep their order. */
static gt_tensor *move_axis(gt_batching *f, gt_tensor *a, unsigned from, unsigned to)
{
    int axes[GT_MAX_RANK];
    unsigned next = 0;
    gt_tensor *out = NULL;
    if (!a || f->err != GT_OK)
        return NULL;
    if (from == to)
        return a;
    for (unsigned axis = 0; axis < a->meta.rank; axis++) {
        if (next == from)
            next++;
        axes[axis] = axis == to ? (int)from : (int)next++;
    }
    return keep(f, gt_permute(a, axes, &out), &out);
}

/* ---- operands ---------------------------------------------------------------------------------------------- */

/* Operand k with the hidden axis: expanded where it is not batched. NULL for a literal. */
static gt_tensor *whole(gt_batching *f, unsigned k)
{
    if (f->base[k] || !f->in[k])
        return f->base[k];
    const gt_meta *meta = &f->in[k]->meta;
    int64_t shape[GT_MAX_RANK + 1] = {f->size};
    memcpy(shape + 1, meta->shape, meta->rank * sizeof *shape);
    return expand(f, f->in[k], meta->rank + 1u, shape);
}

/* Operand k for broadcasting against logical rank `rank`: (size, 1, ..., shape); itself where it is not batched. */
static gt_tensor *aligned(gt_batching *f, unsigned k, unsigned rank)
{
    if (!f->base[k])
        return f->in[k];
    const gt_meta *meta = &f->in[k]->meta;
    if (meta->rank >= rank)
        return f->base[k];
    int64_t shape[GT_MAX_RANK + 1] = {f->size};
    unsigned extra = rank - meta->rank;
    for (unsigned axis = 0; axis < extra; axis++)
        shape[1 + axis] = 1;
    memcpy(shape + 1 + extra, meta->shape, meta->rank * sizeof *shape);
    return reshape(f, f->base[k], rank + 1, shape);
}

/* A logical 0-d operand as (size, 1): forms with an axis then have one. */
static gt_tensor *with_axis(gt_batching *f, gt_tensor *base)
{
    if (base->meta.rank > 1)
        return base;
    return reshape(f, base, 2, (int64_t[]){f->size, 1});
}

/* (size, n, ...) -> (size * n, ...), and a shape that begins with size * n. */
static gt_tensor *fold(gt_batching *f, gt_tensor *base)
{
    int64_t shape[GT_MAX_RANK];
    if (!base)
        return NULL;
    shape[0] = base->meta.shape[0] * base->meta.shape[1];
    memcpy(shape + 1, base->meta.shape + 2, (base->meta.rank - 2u) * sizeof *shape);
    return reshape(f, base, base->meta.rank - 1u, shape);
}

/* ---- elementwise ------------------------------------------------------------------------------------------- */

static gt_tensor *rule_direct(gt_batching *f)
{
    return emit_one(f, f->base[0]);
}

/* A logical 0-d operand gives way in promotion; its base has an axis and would not. */
static gt_tensor *promoted(gt_batching *f, unsigned k, gt_tensor *operand)
{
    bool condition = f->ins.op == GT_OP_where && k == 0;
    if (!operand || condition || !f->base[k] || f->in[k]->meta.rank || f->in[k]->meta.dtype == f->compute)
        return operand;
    gt_tensor *out = NULL;
    return keep(f, gt_cast(operand, f->compute, &out), &out);
}

static gt_tensor *rule_elementwise(gt_batching *f)
{
    gt_tensor *in[GT_MAX_OPERANDS] = {NULL};
    for (unsigned k = 0; k < f->count; k++)
        if (f->in[k])
            in[k] = promoted(f, k, aligned(f, k, f->out.rank));
    return emit(f, in, f->count);
}

/* ---- reductions and scans ---------------------------------------------------------------------------------- */

static gt_tensor *rule_reduce(gt_batching *f)
{
    unsigned rank = f->in[0]->meta.rank;
    uint64_t all = ((uint64_t)1 << (rank ? rank : 1)) - 1;
    f->ins.imm[0].u = (f->ins.imm[0].u && rank ? f->ins.imm[0].u : all) << 1;
    return emit_one(f, with_axis(f, f->base[0]));
}

static gt_tensor *rule_argreduce(gt_batching *f)
{
    gt_tensor *a = with_axis(f, f->base[0]);
    if (f->ins.imm[0].i == -1) {
        a = reshape(f, a, 2, (int64_t[]){f->size, f->in[0]->meta.numel});
        f->ins.imm[0].i = 0;
    }
    f->ins.imm[0].i++;
    return emit_one(f, a);
}

static gt_tensor *rule_along(gt_batching *f)
{
    f->ins.imm[0].i++;
    return emit_one(f, with_axis(f, f->base[0]));
}

static gt_tensor *rule_softmax_backward(gt_batching *f)
{
    gt_tensor *in[] = {whole(f, 0), whole(f, 1)};
    f->ins.imm[0].i++;
    for (unsigned k = 0; k < 2 && f->err == GT_OK; k++)
        in[k] = with_axis(f, in[k]);
    return emit(f, in, 2);
}

/* ---- products and norms ------------------------------------------------------------------------------------ */

/* Operand k as matrices: (size, 1, ..., rows, columns) of `rank` logical axes. Of a vector, a row or a column is made. */
static gt_tensor *as_matrices(gt_batching *f, unsigned k, unsigned rank)
{
    const gt_meta *meta = &f->in[k]->meta;
    bool batched = f->base[k];
    int64_t shape[GT_MAX_RANK + 2];
    unsigned used = 0, matrix = meta->rank == 1 ? 2 : meta->rank;
    if (batched)
        shape[used++] = f->size;
    for (unsigned axis = matrix; batched && axis < rank; axis++)
        shape[used++] = 1;
    if (meta->rank == 1) {
        shape[used++] = k == 0 ? 1 : meta->shape[0];
        shape[used++] = k == 0 ? meta->shape[0] : 1;
    } else {
        memcpy(shape + used, meta->shape, meta->rank * sizeof *shape);
        used += meta->rank;
    }
    return reshape(f, batched ? f->base[k] : f->in[k], used, shape);
}

static gt_tensor *rule_matmul(gt_batching *f)
{
    unsigned a = f->in[0]->meta.rank, b = f->in[1]->meta.rank;
    if (f->base[0] && !f->base[1] && b <= 2) /* the samples are more rows of one product */
        return emit(f, (gt_tensor *[]){f->base[0], f->in[1]}, 2);
    if (!f->base[0] && f->base[1] && a == 2 && b == 1) {
        gt_tensor *turned = move_axis(f, f->in[0], 1, 0); /* a v = v a' for each v */
        return turned ? emit(f, (gt_tensor *[]){f->base[1], turned}, 2) : NULL;
    }
    unsigned rank = a > b ? a : b;
    if (rank < 2)
        rank = 2;
    gt_tensor *in[] = {as_matrices(f, 0, rank), as_matrices(f, 1, rank)};
    return emit(f, in, 2);
}

static gt_tensor *rule_attention(gt_batching *f)
{
    gt_tensor *in[] = {whole(f, 0), whole(f, 1), whole(f, 2)};
    return emit(f, in, 3);
}

/* layer_norm without weight and bias, of x along the last axes. */
static gt_tensor *normalized(gt_batching *f, gt_tensor *x, int64_t first)
{
    gt_tensor *out = NULL;
    if (!x || f->err != GT_OK)
        return NULL;
    return keep(f, gt_layer_norm(x, NULL, NULL, (int)first, f->ins.imm[1].f, &out), &out);
}

static gt_tensor *rule_layer_norm(gt_batching *f)
{
    int64_t first = f->ins.imm[0].i;
    bool forward = f->ins.op == GT_OP_layer_norm;
    unsigned rank = f->in[forward ? 0 : 1]->meta.rank;
    if (forward && f->base[0] && !f->base[1] && !f->base[2]) {
        f->ins.imm[0].i++;
        return emit(f, (gt_tensor *[]){f->base[0], f->in[1], f->in[2]}, 3);
    }
    if (forward) {
        gt_tensor *y = normalized(f, f->base[0] ? f->base[0] : f->in[0], first + (f->base[0] != NULL));
        if (f->in[1])
            y = binary(f, GT_OP_mul, y, aligned(f, 1, rank));
        return f->in[2] ? binary(f, GT_OP_add, y, aligned(f, 2, rank)) : y;
    }
    gt_tensor *g = whole(f, 0), *x = whole(f, 1);
    if (f->ins.op == GT_OP_layer_norm_backward) {
        if (f->in[2])
            g = binary(f, GT_OP_mul, g, aligned(f, 2, rank));
        f->ins.imm[0].i++;
        f->ins.literals |= GT_LITERAL_FLOAT << 4;
        f->ins.literal[2].f = 1;
        return g && x ? emit(f, (gt_tensor *[]){g, x, NULL}, 3) : NULL;
    }
    /* The weight's gradient is a sum over all axes before `first`, but not over the samples. */
    gt_tensor *product = binary(f, GT_OP_mul, g, normalized(f, x, first + 1)), *out = NULL;
    if (!product || first == 0)
        return product;
    return keep(f, gt_sum(product, (((uint32_t)1 << first) - 1) << 1, false, &out), &out);
}

/* ---- windows ----------------------------------------------------------------------------------------------- */

/* (size, n, channels, ...) -> (n, size * channels, ...): samples become groups of channels. */
static gt_tensor *as_channels(gt_batching *f, unsigned k)
{
    gt_tensor *moved = move_axis(f, whole(f, k), 0, 1);
    int64_t shape[GT_MAX_RANK];
    if (!moved)
        return NULL;
    const gt_meta *meta = &moved->meta;
    shape[0] = meta->shape[0];
    shape[1] = meta->shape[1] * meta->shape[2];
    memcpy(shape + 2, meta->shape + 3, (meta->rank - 3u) * sizeof *shape);
    return reshape(f, moved, meta->rank - 1u, shape);
}

static gt_tensor *from_channels(gt_batching *f, gt_tensor *y)
{
    int64_t shape[GT_MAX_RANK + 1];
    if (!y)
        return NULL;
    const gt_meta *meta = &y->meta;
    shape[0] = meta->shape[0];
    shape[1] = f->size;
    shape[2] = f->size ? meta->shape[1] / f->size : 0;
    memcpy(shape + 3, meta->shape + 2, (meta->rank - 2u) * sizeof *shape);
    return move_axis(f, reshape(f, y, meta->rank + 1u, shape), 1, 0);
}

/* Rows of channels: (size, rows, channels) -> (rows, size * channels). */
static gt_tensor *rows_as_channels(gt_batching *f, unsigned k)
{
    gt_tensor *moved = move_axis(f, whole(f, k), 0, 1);
    if (!moved)
        return NULL;
    const int64_t *shape = moved->meta.shape;
    return reshape(f, moved, 2, (int64_t[]){shape[0], shape[1] * shape[2]});
}

/* The samples of x (size, N, channels, ...) become channels; so do those of the numbers of the channels. */
static gt_tensor *rule_channels(gt_batching *f)
{
    gt_tensor *in[GT_MAX_OPERANDS] = {NULL};
    bool forward = f->ins.op == GT_OP_batch_moments || f->ins.op == GT_OP_batch_norm;
    for (unsigned k = 0; k < f->count; k++)
        if (f->in[k]) {
            in[k] = k < (forward ? 1u : 2u) ? as_channels(f, k) : rows_as_channels(f, k);
            if (!in[k])
                return NULL;
        }
    return from_channels(f, emit(f, in, f->count));
}

/* Multiply the groups of the record's window by the number of samples. */
static void widen_groups(gt_batching *f)
{
    gt_window window = gt__window_read(f->tail);
    window.groups *= f->size;
    gt__window_write(f->own, &window);
    f->tail = f->own;
}

static gt_tensor *rule_conv(gt_batching *f)
{
    if (f->base[0] && !f->base[1] && !f->base[2])
        return emit(f, (gt_tensor *[]){fold(f, f->base[0]), f->in[1], f->in[2]}, 3);
    gt_tensor *x = as_channels(f, 0), *weight = fold(f, whole(f, 1)), *bias = whole(f, 2);
    if (bias)
        bias = fold(f, bias);
    widen_groups(f);
    return x && weight ? from_channels(f, emit(f, (gt_tensor *[]){x, weight, bias}, 3)) : NULL;
}

static gt_tensor *rule_conv_weight(gt_batching *f)
{
    gt_tensor *in[] = {as_channels(f, 0), as_channels(f, 1)};
    widen_groups(f);
    return in[0] && in[1] ? emit(f, in, 2) : NULL;
}

static gt_tensor *rule_both_whole(gt_batching *f)
{
    gt_tensor *in[] = {whole(f, 0), whole(f, 1)};
    return in[0] && in[1] ? emit(f, in, 2) : NULL;
}

static gt_tensor *rule_im2col(gt_batching *f)
{
    return emit_one(f, fold(f, f->base[0]));
}

/* max_pool_index counts positions in the spatial axes, so further axes in front change nothing. */
static gt_tensor *rule_resample(gt_batching *f)
{
    f->ins.imm[0].i++; /* the axis is the low byte */
    return emit_one(f, f->base[0]);
}

static gt_tensor *rule_solve(gt_batching *f)
{
    unsigned rank = f->out.rank;
    gt_tensor *in[] = {aligned(f, 0, rank), aligned(f, 1, rank)};
    return in[0] && in[1] ? emit(f, in, 2) : NULL;
}

static gt_tensor *rule_fft(gt_batching *f)
{
    gt_fft_spec spec = gt__fft_unpack(f->ins.imm[0].u);
    spec.axes <<= 1;
    if (spec.kind != GT_FFT_COMPLEX)
        spec.half++;
    f->ins.imm[0].u = gt__fft_pack(spec);
    return emit_one(f, f->base[0]);
}

/* ---- views and movement ------------------------------------------------------------------------------------ */

/* A copy of the shape in the record's tail, the samples in front. */
static void widen_shape(gt_batching *f)
{
    memcpy(f->own[0].i64 + 1, f->tail[0].i64, (GT_MAX_RANK - 1) * sizeof(int64_t));
    f->own[0].i64[0] = f->size;
    f->ins.rank++;
    f->tail = f->own;
}

static gt_tensor *rule_reshape(gt_batching *f)
{
    widen_shape(f);
    return emit_one(f, f->base[0]);
}

static gt_tensor *rule_expand(gt_batching *f)
{
    gt_tensor *a = aligned(f, 0, f->out.rank);
    widen_shape(f);
    return emit_one(f, a);
}

static gt_tensor *rule_permute(gt_batching *f)
{
    uint64_t packed = 0;
    for (unsigned axis = 0; axis < f->in[0]->meta.rank; axis++)
        packed |= ((f->ins.imm[0].u >> (8 * axis) & 0xff) + 1) << (8 * (axis + 1));
    f->ins.imm[0].u = packed;
    return emit_one(f, f->base[0]);
}

/* Start, step and count with those of the samples in front: all of them. */
static void widen_slice(gt_batching *f)
{
    const int64_t first[] = {0, 1, f->size};
    for (unsigned k = 0; k < 3; k++) {
        memcpy(f->own[k].i64 + 1, f->tail[k].i64, (GT_MAX_RANK - 1) * sizeof(int64_t));
        f->own[k].i64[0] = first[k];
    }
    f->tail = f->own;
}

static gt_tensor *rule_slice(gt_batching *f)
{
    widen_slice(f);
    return emit_one(f, f->base[0]);
}

static gt_tensor *rule_assign(gt_batching *f)
{
    gt_tensor *a = whole(f, 0), *source = f->in[1] ? aligned(f, 1, f->in[0]->meta.rank) : NULL;
    widen_slice(f);
    return a ? emit(f, (gt_tensor *[]){a, source}, 2) : NULL;
}

static gt_tensor *rule_diagonal(gt_batching *f)
{
    f->ins.imm[1].u += 0x0101; /* both axes */
    return emit_one(f, f->base[0]);
}

static gt_tensor *rule_unfold(gt_batching *f)
{
    f->own[0] = f->tail[0];
    f->own[0].i64[0]++;
    f->tail = f->own;
    return emit_one(f, with_axis(f, f->base[0]));
}

static gt_tensor *rule_cat(gt_batching *f)
{
    gt_tensor *in[GT_MAX_CAT];
    if (f->count > GT_BATCH_TEMPORARIES / 2)
        for (unsigned k = 0; k < f->count; k++)
            if (!f->base[k])
                return NULL; /* too many to expand here: sample by sample */
    for (unsigned k = 0; k < f->count; k++)
        if (!(in[k] = whole(f, k)))
            return NULL;
    memset(f->own, 0, sizeof f->own);
    f->ins.imm[0].i++;
    f->tail = f->own;
    return emit(f, in, f->count);
}

/* Both differ by sample: rows of all samples in one table, and indices into it. */
static gt_tensor *take_both(gt_batching *f, int64_t axis)
{
    gt_tensor *a = fold(f, move_axis(f, f->base[0], (unsigned)axis + 1, 1)), *index = f->base[1], *starts = NULL,
              *wide = NULL;
    int64_t shape[GT_MAX_RANK + 1] = {f->size};
    if (!a)
        return NULL;
    gt_imm zero = {.i = 0}, step = {.i = f->in[0]->meta.shape[axis]};
    starts = keep(f, gt__emit_arange(f->client, GT_INT64, f->size, GT_LITERAL_INT, zero, step, &starts), &starts);
    for (unsigned k = 1; k < index->meta.rank; k++)
        shape[k] = 1;
    starts = reshape(f, starts, index->meta.rank, shape);
    /* Checked here: an index past the end of its sample's rows would be one of the next sample. */
    wide = keep(f, gt__emit_wrap_index(index, f->in[0]->meta.shape[axis], (int)axis, &wide), &wide);
    gt_tensor *number = NULL;
    number = wide ? keep(f, gt_cast(wide, GT_INT64, &number), &number) : NULL;
    index = binary(f, GT_OP_add, number, starts);
    f->ins.imm[0].i = 0;
    f->ins.imm[1].i = 1; /* no index is negative now */
    return a && index ? emit(f, (gt_tensor *[]){a, index}, 2) : NULL;
}

/* The result of take along axis 0 has the index's axes in front; move them back behind `axis` others. */
static gt_tensor *put_back(gt_batching *f, gt_tensor *result, int64_t axis, unsigned index_rank)
{
    for (int64_t k = 0; result && k < axis; k++) /* (size, index..., a[:axis]..., rest): one axis at a time */
        result = move_axis(f, result, (unsigned)(1 + index_rank + k), (unsigned)(1 + k));
    return result;
}

static gt_tensor *rule_take(gt_batching *f)
{
    int64_t axis = f->ins.imm[0].i;
    unsigned index_rank = f->in[1]->meta.rank;
    if (!f->base[1]) {
        f->ins.imm[0].i++;
        return emit(f, (gt_tensor *[]){f->base[0], f->in[1]}, 2);
    }
    if (!f->base[0]) /* a[:axis] + (size, index...) + rest */
        return move_axis(f, emit(f, (gt_tensor *[]){f->in[0], f->base[1]}, 2), (unsigned)axis, 0);
    if (axis > 4)
        return NULL;
    return put_back(f, take_both(f, axis), axis, index_rank);
}

static gt_tensor *rule_gather(gt_batching *f)
{
    f->ins.imm[0].i++;
    return rule_both_whole(f);
}

static gt_tensor *rule_scatter(gt_batching *f)
{
    gt_tensor *in[] = {whole(f, 0), whole(f, 1), whole(f, 2)};
    f->ins.imm[0].i++;
    return in[0] && in[1] ? emit(f, in, 3) : NULL;
}

static gt_tensor *rule_search(gt_batching *f)
{
    if (!f->base[0] && f->in[0]->meta.rank == 1)
        return emit(f, (gt_tensor *[]){f->in[0], f->base[1]}, 2);
    gt_tensor *sorted = whole(f, 0), *values = whole(f, 1);
    if (f->in[0]->meta.rank == 1)
        values = reshape(f, values, 2, (int64_t[]){f->size, f->in[1]->meta.numel});
    return sorted && values ? emit(f, (gt_tensor *[]){sorted, values}, 2) : NULL;
}

static gt_tensor *rule_sample(gt_batching *f)
{
    if (f->randomness != GT_RANDOMNESS_DIFFERENT) {
        f->err = gt__fail(
            GT_ERR_VALUE,
            f->randomness == GT_RANDOMNESS_ERROR
                ? "vmap: called random operation while in randomness error mode. Please either use the "
                  "'same' or 'different' randomness flags on vmap or perform the randomness operation out "
                  "of vmap"
                : "vmap: %s of batched probabilities with randomness='same' is not supported",
            gt__op_table[f->ins.op].name);
        return NULL;
    }
    if (f->ins.op == GT_OP_binomial) /* trials and probabilities are its first axis */
        return emit_one(f, move_axis(f, f->base[0], 0, 1));
    bool rows = f->ins.op == GT_OP_multinomial && f->in[0]->meta.rank == 2;
    return emit_one(f, rows ? fold(f, f->base[0]) : f->base[0]);
}

static gt_tensor *rule_mask_index(gt_batching *f)
{
    f->err = gt__fail(GT_ERR_VALUE,
                      "vmap: It looks like you're attempting to use a Tensor in some data-dependent control "
                      "flow or for a result whose shape depends on values. We don't support that yet, please "
                      "shout over at the project.");
    return NULL;
}

/* ------------------------------------------------------------------------------------------------------------ */

static gt_tensor *(*const rules[])(gt_batching *) = {
    [GT_FORM_UNARY] = rule_direct,
    [GT_FORM_BINARY] = rule_elementwise,
    [GT_FORM_TERNARY] = rule_elementwise,
    [GT_FORM_REDUCE] = rule_reduce,
    [GT_FORM_ARGREDUCE] = rule_argreduce,
    [GT_FORM_SCAN] = rule_along,
    [GT_FORM_SOFTMAX] = rule_along,
    [GT_FORM_SOFTMAX_BACKWARD] = rule_softmax_backward,
    [GT_FORM_MATMUL] = rule_matmul,
    [GT_FORM_ATTENTION] = rule_attention,
    [GT_FORM_LAYER_NORM] = rule_layer_norm,
    [GT_FORM_MOMENTS] = rule_channels,
    [GT_FORM_BATCH_NORM] = rule_channels,
    [GT_FORM_CONV] = rule_conv,
    [GT_FORM_CONV_WEIGHT] = rule_conv_weight,
    [GT_FORM_MAX_POOL] = rule_both_whole,
    [GT_FORM_MAX_INDEX] = rule_direct,
    [GT_FORM_POOL] = rule_direct,
    [GT_FORM_IM2COL] = rule_im2col,
    [GT_FORM_RESAMPLE] = rule_resample,
    [GT_FORM_MATRIX] = rule_direct,
    [GT_FORM_SOLVE] = rule_solve,
    [GT_FORM_FFT] = rule_fft,
    [GT_FORM_AS_REAL] = rule_direct,
    [GT_FORM_AS_COMPLEX] = rule_direct,
    [GT_FORM_RESHAPE] = rule_reshape,
    [GT_FORM_PERMUTE] = rule_permute,
    [GT_FORM_EXPAND] = rule_expand,
    [GT_FORM_SLICE] = rule_slice,
    [GT_FORM_DIAGONAL] = rule_diagonal,
    [GT_FORM_UNFOLD] = rule_unfold,
    [GT_FORM_CAST] = rule_direct,
    [GT_FORM_COPY] = rule_direct,
    [GT_FORM_CAT] = rule_cat,
    [GT_FORM_TRIANGLE] = rule_direct,
    [GT_FORM_TAKE] = rule_take,
    [GT_FORM_GATHER] = rule_gather,
    [GT_FORM_SCATTER] = rule_scatter,
    [GT_FORM_ASSIGN] = rule_assign,
    [GT_FORM_WRAP_INDEX] = rule_direct,
    [GT_FORM_MASK_INDEX] = rule_mask_index,
    [GT_FORM_ARGSORT] = rule_along,
    [GT_FORM_TOPK] = rule_along,
    [GT_FORM_SAMPLE] = rule_sample,
    [GT_FORM_SEARCH] = rule_search,
};

gt_tensor *gt__batch_rule(gt_batching *f)
{
    unsigned form = gt__op_table[f->ins.op].form;
    for (unsigned k = 0; k < f->count; k++)
        if (f->in[k] && f->in[k]->meta.rank == GT_MAX_RANK) {
            f->err = gt__fail(GT_ERR_VALUE, "vmap: a tensor has at most %d dimensions, those of vmap included",
                              GT_MAX_RANK);
            return NULL;
        }
    if (form >= sizeof rules / sizeof *rules || !rules[form])
        return NULL;
    return rules[form](f);
}

/*
 * op_infer_move.c: inference of views, data movement, indexing, sorting, samples and creation. Read op_infer.c first: it has
 * the table of forms and the helpers.
 */
#include <string.h>

#include "core/op_infer.h"

/* ---- helpers ----------------------------------------------------------------------------------------------- */

static gt_err check_index_dtype(const gt_inference *s, const gt_meta *index)
{
    if (gt__dtype_is_inexact((gt_dtype)index->dtype) || index->dtype == GT_BOOL)
        return gt__fail(GT_ERR_TYPE, "%s(): Expected dtype int32/int64 for index, not %s", s->row->name,
                        gt__dtype_name((gt_dtype)index->dtype));
    return GT_OK;
}

/* The tail's start, step, count must stay inside `a`. Fills the shape of the slice. */
static gt_err slice_shape(const gt_inference *s, const gt_meta *a, gt_meta *slice)
{
    const int64_t *start = s->tail[0].i64, *step = s->tail[1].i64, *count = s->tail[2].i64;
    for (unsigned axis = 0; axis < a->rank; axis++) {
        int64_t size = a->shape[axis], last;
        if (count[axis] < 0 || start[axis] < 0 || start[axis] > size || step[axis] == 0)
            goto bad;
        if (count[axis] == 0)
            continue;
        if (__builtin_mul_overflow(step[axis], count[axis] - 1, &last) ||
            __builtin_add_overflow(last, start[axis], &last) || last < 0 || last >= size || start[axis] >= size)
            goto bad;
        continue;
    bad:
        return gt__fail(GT_ERR_INDEX, "%s: start %lld, step %lld, count %lld leaves dimension %u of size %lld",
                        s->row->name, (long long)start[axis], (long long)step[axis], (long long)count[axis], axis,
                        (long long)size);
    }
    return gt__meta_set(slice, (gt_dtype)a->dtype, a->rank, count);
}

/* ---- views ------------------------------------------------------------------------------------------------- */

gt_err gt__infer_reshape(gt_inference *s)
{
    const gt_meta *a = s->in[0];
    GT_TRY(gt__meta_set(s->out, (gt_dtype)a->dtype, s->ins->rank, s->tail[0].i64));
    if (s->out->numel != a->numel) {
        char text[128];
        return gt__fail(GT_ERR_VALUE, "shape '%s' is invalid for input of size %lld",
                        gt__sizes_text(s->out->rank, s->out->shape, text, sizeof text), (long long)a->numel);
    }
    return GT_OK;
}

gt_err gt__infer_permute(gt_inference *s)
{
    const gt_meta *a = s->in[0];
    uint64_t packed = s->ins->imm[0].u;
    unsigned seen = 0;
    gt__infer_copy_shape(s->out, a);
    s->out->dtype = a->dtype;
    for (unsigned axis = 0; axis < a->rank; axis++) {
        unsigned from = packed >> (8 * axis) & 0xff;
        if (from >= a->rank || seen >> from & 1)
            return gt__fail(GT_ERR_VALUE, "permute: the axes must be each of the %u dimensions once", a->rank);
        seen |= 1u << from;
        s->out->shape[axis] = a->shape[from];
    }
    return GT_OK;
}

gt_err gt__infer_expand(gt_inference *s)
{
    const gt_meta *a = s->in[0];
    GT_TRY(gt__meta_set(s->out, (gt_dtype)a->dtype, s->ins->rank, s->tail[0].i64));
    char from[128], to[128];
    if (s->out->rank < a->rank)
        return gt__fail(
            GT_ERR_VALUE,
            "expand(Tensor{%s}, size=%s): the number of sizes provided (%u) must be greater or equal to "
            "the number of dimensions in the tensor (%u)",
            gt__sizes_text(a->rank, a->shape, from, sizeof from),
            gt__sizes_text(s->out->rank, s->out->shape, to, sizeof to), s->out->rank, a->rank);
    for (unsigned axis = s->out->rank - a->rank; axis < s->out->rank; axis++) {
        int64_t size = a->shape[axis + a->rank - s->out->rank];
        if (size != 1 && size != s->out->shape[axis])
            return gt__fail(GT_ERR_VALUE,
                            "The expanded size of the tensor (%lld) must match the existing size (%lld) at "
                            "non-singleton dimension %u.  Target sizes: %s.  Tensor sizes: %s",
                            (long long)s->out->shape[axis], (long long)size, axis,
                            gt__sizes_text(s->out->rank, s->out->shape, to, sizeof to),
                            gt__sizes_text(a->rank, a->shape, from, sizeof from));
    }
    return GT_OK;
}

gt_err gt__infer_slice(gt_inference *s)
{
    return slice_shape(s, s->in[0], s->out);
}

gt_err gt__infer_diagonal(gt_inference *s)
{
    const gt_meta *a = s->in[0];
    uint64_t packed = s->ins->imm[1].u;
    unsigned axis1 = packed & 0xff, axis2 = packed >> 8 & 0xff, rank = 0;
    int64_t offset = s->ins->imm[0].i, shape[GT_MAX_RANK];
    GT_TRY(gt__infer_check_axis(s, axis1, a->rank));
    GT_TRY(gt__infer_check_axis(s, axis2, a->rank));
    if (axis1 == axis2 || packed >> 16)
        return gt__fail(GT_ERR_VALUE, "diagonal dimensions cannot be identical %u, %u", axis1, axis2);
    for (unsigned axis = 0; axis < a->rank; axis++)
        if (axis != axis1 && axis != axis2)
            shape[rank++] = a->shape[axis];
    /* (i, i + offset), or (i - offset, i): as many as fit into both axes */
    int64_t rows = a->shape[axis1], columns = a->shape[axis2], left = 0;
    if (offset >= 0)
        left = columns > offset ? columns - offset : 0;
    else
        left = rows > -(offset + 1) ? rows + offset : 0;
    int64_t other = offset >= 0 ? rows : columns;
    shape[rank++] = left < other ? left : other;
    return gt__meta_set(s->out, (gt_dtype)a->dtype, rank, shape);
}

gt_err gt__infer_unfold(gt_inference *s)
{
    const gt_meta *a = s->in[0];
    int64_t axis = s->tail[0].i64[0], size = s->tail[0].i64[1], step = s->tail[0].i64[2];
    int64_t shape[GT_MAX_RANK + 1], length = 1;
    if (a->rank || axis != 0)
        GT_TRY(gt__infer_check_axis(s, axis, a->rank));
    length = a->rank ? a->shape[axis] : 1;
    if (size < 0 || size > length)
        return gt__fail(GT_ERR_VALUE, "maximum size for tensor at dimension %lld is %lld but size is %lld",
                        (long long)axis, (long long)length, (long long)size);
    if (step <= 0)
        return gt__fail(GT_ERR_VALUE, "unfold: step is %lld but must be > 0", (long long)step);
    memcpy(shape, a->shape, a->rank * sizeof shape[0]);
    if (a->rank)
        shape[axis] = (length - size) / step + 1;
    shape[a->rank] = size;
    return gt__meta_set(s->out, (gt_dtype)a->dtype, a->rank + 1u, shape);
}

gt_err gt__infer_as_real(gt_inference *s)
{
    const gt_meta *a = s->in[0];
    int64_t shape[GT_MAX_RANK + 1];
    if (!gt__dtype_is_complex((gt_dtype)a->dtype))
        return gt__fail(GT_ERR_VALUE, "view_as_real is only supported for complex tensors");
    memcpy(shape, a->shape, a->rank * sizeof shape[0]);
    shape[a->rank] = 2;
    return gt__meta_set(s->out, gt__dtype_real((gt_dtype)a->dtype), a->rank + 1u, shape);
}

gt_err gt__infer_as_complex(gt_inference *s)
{
    const gt_meta *a = s->in[0];
    if (a->dtype != GT_FLOAT32 && a->dtype != GT_FLOAT64)
        return gt__fail(
            GT_ERR_VALUE,
            "view_as_complex is only supported for float32 and float64 tensors, but got a tensor of %s",
            gt__dtype_name((gt_dtype)a->dtype));
    if (a->rank == 0)
        return gt__fail(GT_ERR_VALUE, "Input tensor must have one or more dimensions");
    if (a->shape[a->rank - 1] != 2)
        return gt__fail(GT_ERR_VALUE, "Tensor must have a last dimension of size 2");
    return gt__meta_set(s->out, gt__dtype_complex((gt_dtype)a->dtype), a->rank - 1u, a->shape);
}

/* ---- data movement ----------------------------------------------------------------------------------------- */

gt_err gt__infer_cast(gt_inference *s)
{
    gt__infer_copy_shape(s->out, s->in[0]);
    s->out->dtype = s->ins->dtype;
    return GT_OK;
}

gt_err gt__infer_copy(gt_inference *s)
{
    *s->out = *s->in[0];
    return GT_OK;
}

gt_err gt__infer_cat(gt_inference *s)
{
    int64_t axis = s->ins->imm[0].i, total = 0, count = s->ins->imm[1].i;
    const gt_meta *first = s->in[0];
    GT_TRY(gt__infer_check_axis(s, axis, first->rank));
    for (int64_t k = 0; k < count; k++) {
        const gt_meta *a = s->in[k];
        if (a->rank != first->rank)
            return gt__fail(GT_ERR_VALUE, "Tensors must have same number of dimensions: got %u and %u",
                            first->rank, a->rank);
        for (unsigned d = 0; d < first->rank; d++)
            if (d != axis && a->shape[d] != first->shape[d])
                return gt__fail(GT_ERR_VALUE,
                                "Sizes of tensors must match except in dimension %lld. Expected size %lld but got "
                                "size %lld for tensor number %lld in the list.",
                                (long long)axis, (long long)first->shape[d], (long long)a->shape[d], (long long)k);
        if (__builtin_add_overflow(total, a->shape[axis], &total))
            return gt__fail(GT_ERR_MEMORY, "cat: the result is too large");
    }
    int64_t shape[GT_MAX_RANK];
    memcpy(shape, first->shape, sizeof shape);
    shape[axis] = total;
    GT_TRY(gt__infer_dtype(s, gt__infer_promoted(s, (unsigned)count)));
    return gt__meta_set(s->out, (gt_dtype)s->out->dtype, first->rank, shape);
}

gt_err gt__infer_triangle(gt_inference *s)
{
    if (s->in[0]->rank < 2)
        return gt__fail(GT_ERR_VALUE, "%s: the input tensor must have at least 2 dimensions", s->row->name);
    return gt__infer_copy(s);
}

gt_err gt__infer_take(gt_inference *s)
{
    const gt_meta *a = s->in[0], *index = s->in[1];
    int64_t axis = s->ins->imm[0].i, shape[2 * GT_MAX_RANK];
    GT_TRY(gt__infer_check_axis(s, axis, a->rank));
    GT_TRY(check_index_dtype(s, index));
    if (s->ins->imm[1].u > GT_TAKE_SELECTED)
        return gt__fail(GT_ERR_VALUE, "take: unknown kind of index %llu", (unsigned long long)s->ins->imm[1].u);
    unsigned rank = 0;
    for (unsigned d = 0; d < a->rank; d++)
        if (d != axis)
            shape[rank++] = a->shape[d];
        else
            for (unsigned k = 0; k < index->rank; k++)
                shape[rank++] = index->shape[k];
    return gt__meta_set(s->out, (gt_dtype)a->dtype, rank, shape);
}

/* Except along `axis`, an index may not reach past the tensor it indexes. */
static gt_err check_index_shape(const gt_inference *s, const gt_meta *index, const gt_meta *a, int64_t axis)
{
    if (index->rank != a->rank)
        return gt__fail(
            GT_ERR_VALUE,
            "Index tensor must have the same number of dimensions as %s tensor: %s of %u and %u dimensions",
            s->ins->op == GT_OP_gather ? "input" : "self", s->row->name, index->rank, a->rank);
    for (unsigned d = 0; d < a->rank; d++)
        if (d != axis && index->shape[d] > a->shape[d]) {
            char text_a[128], text_b[128];
            return gt__fail(GT_ERR_VALUE,
                            "Size does not match at dimension %u expected index %s to be no larger than %s apart "
                            "from dimension %lld",
                            d, gt__sizes_text(index->rank, index->shape, text_a, sizeof text_a),
                            gt__sizes_text(a->rank, a->shape, text_b, sizeof text_b), (long long)axis);
        }
    return GT_OK;
}

gt_err gt__infer_gather(gt_inference *s)
{
    const gt_meta *a = s->in[0], *index = s->in[1];
    GT_TRY(gt__infer_check_axis(s, s->ins->imm[0].i, a->rank));
    GT_TRY(check_index_dtype(s, index));
    GT_TRY(check_index_shape(s, index, a, s->ins->imm[0].i));
    gt__infer_copy_shape(s->out, index);
    s->out->dtype = a->dtype;
    return GT_OK;
}

/* A number that is assigned must fit, but x[0] = 1e9 is infinite in halves, as in PyTorch. */
static gt_err check_element(const gt_inference *s, unsigned k)
{
    gt_dtype dtype = (gt_dtype)s->in[0]->dtype;
    return gt__dtype_is_half(dtype) ? GT_OK : gt__infer_check_literal(s, k, dtype);
}

gt_err gt__infer_scatter(gt_inference *s)
{
    const gt_meta *a = s->in[0], *index = s->in[1], *src = s->in[2];
    if (s->ins->op == GT_OP_scatter_reduce &&
        (s->ins->imm[1].u & ~(uint64_t)GT_SCATTER_WITHOUT_SELF) >= GT_SCATTER_KINDS)
        return gt__fail(GT_ERR_VALUE, "scatter_reduce: unknown reduction %lld", (long long)s->ins->imm[1].i);
    GT_TRY(gt__infer_check_axis(s, s->ins->imm[0].i, a->rank));
    GT_TRY(check_index_dtype(s, index));
    GT_TRY(check_index_shape(s, index, a, s->ins->imm[0].i));
    if (src) {
        GT_TRY(check_index_shape(s, index, src, -1));
        if (src->dtype != a->dtype)
            return gt__fail(GT_ERR_TYPE, "%s: expected self and src to have the same dtype, but got %s and %s",
                            s->row->name, gt__dtype_name((gt_dtype)a->dtype),
                            gt__dtype_name((gt_dtype)src->dtype));
    }
    GT_TRY(check_element(s, 2));
    return gt__infer_copy(s);
}

gt_err gt__infer_assign(gt_inference *s)
{
    gt_meta slice = {0}, wide = {0};
    GT_TRY(slice_shape(s, s->in[0], &slice));
    if (s->in[1]) {
        if (gt__meta_broadcast(&slice, s->in[1], &wide) != GT_OK || !gt__meta_same_shape(&wide, &slice)) {
            char text_a[128], text_b[128];
            return gt__fail(GT_ERR_VALUE, "a value of shape %s cannot be broadcast into a slice of shape %s",
                            gt__sizes_text(s->in[1]->rank, s->in[1]->shape, text_a, sizeof text_a),
                            gt__sizes_text(slice.rank, slice.shape, text_b, sizeof text_b));
        }
    }
    GT_TRY(check_element(s, 1));
    return gt__infer_copy(s);
}

gt_err gt__infer_wrap_index(gt_inference *s)
{
    GT_TRY(check_index_dtype(s, s->in[0]));
    if (s->ins->imm[0].i < 0)
        return gt__fail(GT_ERR_VALUE, "wrap_index: negative size");
    return gt__infer_unary(s);
}

gt_err gt__infer_mask_index(gt_inference *s)
{
    const gt_meta *mask = s->in[0];
    int64_t count = s->ins->imm[0].i;
    if (mask->dtype != GT_BOOL)
        return gt__fail(GT_ERR_TYPE, "a mask must be a bool tensor, not %s",
                        gt__dtype_name((gt_dtype)mask->dtype));
    if (count < 0 || count > mask->numel)
        return gt__fail(GT_ERR_VALUE, "mask_index: %lld of %lld elements", (long long)count,
                        (long long)mask->numel);
    return gt__meta_set(s->out, GT_INT64, 1, &count);
}

gt_err gt__infer_topk(gt_inference *s)
{
    const gt_meta *a = s->in[0];
    int64_t axis = s->ins->imm[0].i, k = s->ins->imm[1].i, shape[GT_MAX_RANK] = {0};
    if (a->rank || axis != 0)
        GT_TRY(gt__infer_check_axis(s, axis, a->rank));
    if (k < 0 || k > (a->rank ? a->shape[axis] : 1))
        return gt__fail(GT_ERR_VALUE, "topk: selected index k out of range");
    memcpy(shape, a->shape, a->rank * sizeof shape[0]);
    if (a->rank)
        shape[axis] = k;
    return gt__meta_set(s->out, GT_INT64, a->rank, shape);
}

/* Messages are PyTorch's. */
gt_err gt__infer_sample(gt_inference *s)
{
    const gt_meta *a = s->in[0];
    int64_t samples = s->tail[0].i64[0], shape[2] = {samples, samples};
    if (!gt__dtype_is_float((gt_dtype)a->dtype))
        return gt__fail(GT_ERR_TYPE, "%s only supports floating-point dtypes for input, got: %s", s->row->name,
                        gt__dtype_name((gt_dtype)a->dtype));
    if (s->ins->op == GT_OP_binomial) {
        if (a->rank < 1 || a->shape[0] != 2)
            return gt__fail(GT_ERR_VALUE, "binomial takes a tensor of trials and one of probabilities, stacked");
        return gt__meta_set(s->out, (gt_dtype)a->dtype, a->rank - 1u, a->shape + 1);
    }
    if (s->ins->op == GT_OP_dirichlet && a->rank < 1)
        return gt__fail(GT_ERR_VALUE, "dirichlet: the concentration must have a dimension");
    if (s->ins->op != GT_OP_multinomial)
        return gt__infer_copy(s);
    if (a->rank < 1 || a->rank > 2)
        return gt__fail(GT_ERR_VALUE, "prob_dist must be 1 or 2 dim");
    if (samples <= 0)
        return gt__fail(GT_ERR_VALUE, "cannot sample n_sample <= 0 samples");
    if (a->shape[a->rank - 1] == 0)
        return gt__fail(GT_ERR_VALUE, "multinomial: there are no categories to sample from");
    if (!s->tail[0].i64[1] && samples > a->shape[a->rank - 1])
        return gt__fail(GT_ERR_VALUE, "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
    if (a->rank == 2)
        shape[0] = a->shape[0];
    return gt__meta_set(s->out, GT_INT64, a->rank, shape);
}

/* A 1-d sorted tensor is searched for all values; otherwise each line of values has its own sorted line. */
gt_err gt__infer_search(gt_inference *s)
{
    const gt_meta *sorted = s->in[0], *values = s->in[1];
    bool fits = sorted->rank == 1 || (sorted->rank > 1 && values->rank == sorted->rank);
    for (unsigned axis = 0; fits && axis + 1 < sorted->rank; axis++)
        fits = sorted->shape[axis] == values->shape[axis];
    if (!fits) {
        char text_a[128], text_b[128];
        return gt__fail(GT_ERR_VALUE,
                        "searchsorted: boundaries tensor should be 1 dimension or the first N-1 dimensions of "
                        "boundaries %s and values %s must match",
                        gt__sizes_text(sorted->rank, sorted->shape, text_a, sizeof text_a),
                        gt__sizes_text(values->rank, values->shape, text_b, sizeof text_b));
    }
    if (sorted->dtype != values->dtype)
        return gt__fail(GT_ERR_TYPE,
                        "searchsorted: boundaries and values should have the same dtype, but got %s and %s",
                        gt__dtype_name((gt_dtype)sorted->dtype), gt__dtype_name((gt_dtype)values->dtype));
    gt__infer_copy_shape(s->out, values);
    s->out->dtype = GT_INT64;
    return GT_OK;
}

/* ---- creation ---------------------------------------------------------------------------------------------- */

gt_err gt__infer_full(gt_inference *s)
{
    return gt__meta_set(s->out, (gt_dtype)s->ins->dtype, s->ins->rank, s->tail[0].i64);
}

/* The record may create a part of a larger tensor. Its start there must be far from overflow. */
static gt_err check_origin(gt_inference *s, unsigned word)
{
    const int64_t origin = s->tail[0].i64[word], limit = (int64_t)1 << 61;
    if (origin > limit || origin < -limit)
        return gt__fail(GT_ERR_VALUE, "%s: the part's start %lld is out of range", s->row->name,
                        (long long)origin);
    return gt__infer_full(s);
}

gt_err gt__infer_eye(gt_inference *s)
{
    if (s->ins->rank != 2)
        return gt__fail(GT_ERR_VALUE, "eye: the result has two dimensions");
    return check_origin(s, 2);
}

gt_err gt__infer_arange(gt_inference *s)
{
    if (s->ins->rank != 1)
        return gt__fail(GT_ERR_VALUE, "arange: the result has one dimension");
    if (gt__dtype_is_complex((gt_dtype)s->ins->dtype))
        return gt__fail(GT_ERR_UNSUPPORTED, "arange is not supported for complex dtypes");
    return check_origin(s, 1);
}

/* A part is made of runs of runs[1] elements, the first at element runs[0] of the whole, the next runs[2] later, and so
 * on. No element number may overflow. */
static gt_err check_runs(const gt_inference *s, const int64_t *runs)
{
    int64_t last, limit = (int64_t)1 << 61;
    bool bad = runs[0] < 0 || runs[1] < 0 || runs[2] < 0 || runs[0] > limit;
    if (!bad && runs[1])
        bad =
            runs[1] > limit || __builtin_mul_overflow(s->out->numel / runs[1] + 1, runs[2], &last) || last > limit;
    return bad ? gt__fail(GT_ERR_VALUE, "%s: the part's element numbers overflow", s->row->name) : GT_OK;
}

gt_err gt__infer_random(gt_inference *s)
{
    bool is_float = gt__dtype_is_float((gt_dtype)s->ins->dtype);
    if (gt__dtype_is_complex((gt_dtype)s->ins->dtype) || (s->ins->op != GT_OP_randint && !is_float))
        return gt__fail(GT_ERR_TYPE, "%s needs a floating dtype, not %s", s->row->name,
                        gt__dtype_name((gt_dtype)s->ins->dtype));
    const int64_t *range = s->tail[1].i64;
    if (s->ins->op == GT_OP_randint && range[0] >= range[1])
        return gt__fail(GT_ERR_VALUE, "randint expects low < high, but got %lld >= %lld", (long long)range[0],
                        (long long)range[1]);
    GT_TRY(gt__infer_full(s));
    return check_runs(s, range + 2);
}

gt_err gt__infer_upload(gt_inference *s)
{
    GT_TRY(gt__infer_full(s));
    if (s->ins->imm[0].u != gt__meta_bytes(s->out))
        return gt__fail(GT_ERR_PROTOCOL, "upload: %lld bytes for a tensor of %zu", (long long)s->ins->imm[0].i,
                        gt__meta_bytes(s->out));
    return GT_OK;
}

/*
 * op_infer_window.c: the part of inference for convolutions, pooling, im2col and resample. Read op_infer.c and
 * window.h first.
 *
 * Like all inference it trusts nothing. A record that passes has spatial axes that exist, numbers whose products fit in
 * 63 bits, channels that match, and sizes that a tensor can have. Windows may lie anywhere: engines treat positions
 * outside the tensor as padding.
 */
#include <math.h>

#include "core/op_infer.h"
#include "core/window.h"

static gt_err refuse(const gt_op_row *row, const char *what, int64_t number)
{
    return gt__fail(GT_ERR_VALUE, "%s: %s %lld is out of range", row->name, what, (long long)number);
}

static bool within(int64_t number, int64_t low)
{
    return number >= low && number <= INT32_MAX;
}

static gt_err check_window(const gt_op_row *row, unsigned spatial, const gt_window *w)
{
    if (spatial < 1 || spatial > GT_MAX_SPATIAL)
        return refuse(row, "number of spatial dimensions", spatial);
    for (unsigned axis = 0; axis < spatial; axis++) {
        if (!within(w->kernel[axis], 0))
            return refuse(row, "kernel size", w->kernel[axis]);
        if (!within(w->stride[axis], 1))
            return refuse(row, "stride", w->stride[axis]);
        if (!within(w->padding[axis], 0))
            return refuse(row, "padding", w->padding[axis]);
        if (!within(w->dilation[axis], 1))
            return refuse(row, "dilation", w->dilation[axis]);
        if (!within(w->size[axis], 0) || !within(w->from[axis], 0))
            return refuse(row, "size", w->size[axis]);
    }
    return GT_OK;
}

static gt_err check_rank(const gt_op_row *row, const gt_meta *a, unsigned least, unsigned most)
{
    char text[128];
    if (a->rank < least || a->rank > most)
        return gt__fail(GT_ERR_VALUE, "%s: expected %s%u dimensions, but got a tensor of shape %s", row->name,
                        least == most ? "" : "at least ", least,
                        gt__sizes_text(a->rank, a->shape, text, sizeof text));
    for (unsigned axis = 0; axis < a->rank; axis++)
        if (a->shape[axis] > INT32_MAX)
            return gt__fail(GT_ERR_VALUE, "%s: dimension %u is too large in shape %s", row->name, axis,
                            gt__sizes_text(a->rank, a->shape, text, sizeof text));
    return GT_OK;
}

static gt_err check_same_dtype(const gt_op_row *row, const gt_meta *a, const gt_meta *b)
{
    if (a->dtype == b->dtype)
        return GT_OK;
    return gt__fail(GT_ERR_TYPE, "%s: Input type (%s) and weight type (%s) should be the same", row->name,
                    gt__dtype_c_name((gt_dtype)a->dtype), gt__dtype_c_name((gt_dtype)b->dtype));
}

/* The first `kept` sizes of a, then the window's. */
static gt_err with_size(const gt_meta *a, unsigned kept, unsigned spatial, const gt_window *w, gt_meta *out)
{
    int64_t shape[GT_MAX_RANK + GT_MAX_SPATIAL];
    memcpy(shape, a->shape, kept * sizeof *shape);
    memcpy(shape + kept, w->size, spatial * sizeof *shape);
    return gt__meta_set(out, (gt_dtype)a->dtype, kept + spatial, shape);
}

/* ---- convolutions ------------------------------------------------------------------------------------------ */

static gt_err check_groups(const gt_op_row *row, int64_t groups, int64_t channels)
{
    if (!within(groups, 1) || channels % groups)
        return gt__fail(GT_ERR_VALUE, "%s: %lld channels cannot be divided into %lld groups", row->name,
                        (long long)channels, (long long)groups);
    return GT_OK;
}

static gt_err check_bias(const gt_op_row *row, const gt_meta *like, const gt_meta *bias, int64_t channels)
{
    if (!bias)
        return GT_OK;
    GT_TRY(check_same_dtype(row, like, bias));
    if (bias->rank != 1 || bias->shape[0] != channels) {
        char text[128];
        return gt__fail(
            GT_ERR_VALUE, "%s: expected bias to be 1-dimensional with %lld elements, but got bias of shape %s",
            row->name, (long long)channels, gt__sizes_text(bias->rank, bias->shape, text, sizeof text));
    }
    return GT_OK;
}

static gt_err wrong_channels(const gt_meta *a, const gt_meta *weight, int64_t groups, int64_t wanted)
{
    char text_a[128], text_b[128];
    return gt__fail(GT_ERR_VALUE,
                    "Given groups=%lld, weight of size %s, expected input%s to have %lld channels, but got %lld "
                    "channels instead",
                    (long long)groups, gt__sizes_text(weight->rank, weight->shape, text_a, sizeof text_a),
                    gt__sizes_text(a->rank, a->shape, text_b, sizeof text_b), (long long)wanted,
                    (long long)a->shape[1]);
}

static gt_err infer_conv(gt_inference *s, const gt_window *w, unsigned spatial)
{
    const gt_meta *a = s->in[0], *weight = s->in[1];
    int64_t shape[GT_MAX_SPATIAL + 2];
    GT_TRY(check_rank(s->row, a, spatial + 2, spatial + 2));
    GT_TRY(check_rank(s->row, weight, spatial + 2, spatial + 2));
    GT_TRY(check_same_dtype(s->row, a, weight));
    GT_TRY(check_groups(s->row, w->groups, weight->shape[0]));
    int64_t inner = weight->shape[1] * w->groups; /* both fit in 31 bits */
    bool forward = s->ins->op == GT_OP_conv;
    int64_t wanted = forward ? inner : weight->shape[0], channels = forward ? weight->shape[0] : inner;
    if (a->shape[1] != wanted)
        return wrong_channels(a, weight, w->groups, wanted);
    GT_TRY(check_bias(s->row, a, s->in[2], channels));
    shape[0] = a->shape[0];
    shape[1] = channels;
    memcpy(shape + 2, w->size, spatial * sizeof *shape);
    return gt__meta_set(s->out, (gt_dtype)a->dtype, spatial + 2, shape);
}

static gt_err infer_conv_weight(gt_inference *s, const gt_window *w, unsigned spatial)
{
    const gt_meta *y = s->in[0], *x = s->in[1];
    int64_t shape[GT_MAX_SPATIAL + 2];
    GT_TRY(check_rank(s->row, y, spatial + 2, spatial + 2));
    GT_TRY(check_rank(s->row, x, spatial + 2, spatial + 2));
    GT_TRY(check_same_dtype(s->row, y, x));
    GT_TRY(check_groups(s->row, w->groups, y->shape[1]));
    GT_TRY(check_groups(s->row, w->groups, x->shape[1]));
    if (y->shape[0] != x->shape[0])
        return gt__fail(GT_ERR_VALUE, "%s: batches of %lld and %lld", s->row->name, (long long)y->shape[0],
                        (long long)x->shape[0]);
    shape[0] = y->shape[1];
    shape[1] = x->shape[1] / w->groups;
    memcpy(shape + 2, w->size, spatial * sizeof *shape);
    return gt__meta_set(s->out, (gt_dtype)y->dtype, spatial + 2, shape);
}

/* ---- pooling ----------------------------------------------------------------------------------------------- */

static gt_err infer_max_pool(gt_inference *s, const gt_window *w, unsigned spatial)
{
    const gt_meta *a = s->in[0], *x = s->in[1];
    GT_TRY(check_rank(s->row, x, spatial, GT_MAX_RANK));
    unsigned kept = x->rank - spatial;
    gt_meta result = {0};
    GT_TRY(check_same_dtype(s->row, a, x));
    GT_TRY(with_size(x, kept, spatial, w, &result));
    if (s->ins->op == GT_OP_max_pool) {
        *s->out = result;
        if (gt__meta_same_shape(a, x))
            return GT_OK;
    } else { /* size is that of x; y has one element for each window */
        *s->out = *x;
        bool fits = a->rank == x->rank && gt__meta_same_shape(&result, x);
        for (unsigned axis = 0; fits && axis < kept; axis++)
            fits = a->shape[axis] == x->shape[axis];
        if (fits)
            return check_rank(s->row, a, spatial, GT_MAX_RANK);
    }
    char text_a[128], text_b[128];
    return gt__fail(GT_ERR_VALUE, "%s: shapes %s and %s do not fit each other", s->row->name,
                    gt__sizes_text(a->rank, a->shape, text_a, sizeof text_a),
                    gt__sizes_text(x->rank, x->shape, text_b, sizeof text_b));
}

static gt_err infer_pool(gt_inference *s, const gt_window *w, unsigned spatial)
{
    const gt_meta *a = s->in[0];
    GT_TRY(check_rank(s->row, a, spatial, GT_MAX_RANK));
    bool averages = s->row->form == GT_FORM_POOL;
    if (averages && !gt__dtype_is_float((gt_dtype)a->dtype))
        return gt__fail(GT_ERR_UNSUPPORTED, "\"%s\" not implemented for '%s'", s->row->name,
                        gt__dtype_kind((gt_dtype)a->dtype));
    for (unsigned axis = 0; averages && axis < spatial; axis++)
        if (w->dilation[axis] != 1)
            return refuse(s->row, "dilation", w->dilation[axis]);
    if (averages && (w->divisor < -INT32_MAX || w->divisor > INT32_MAX))
        return refuse(s->row, "divisor", w->divisor);
    GT_TRY(with_size(a, a->rank - spatial, spatial, w, s->out));
    if (!averages)
        s->out->dtype = GT_INT64;
    return GT_OK;
}

/* ---- im2col and resample ----------------------------------------------------------------------------------- */

static bool product(const int64_t *numbers, unsigned count, int64_t *result)
{
    *result = 1;
    for (unsigned k = 0; k < count; k++)
        if (__builtin_mul_overflow(*result, numbers[k], result))
            return false;
    return true;
}

static gt_err infer_im2col(gt_inference *s, const gt_window *w, unsigned spatial)
{
    const gt_meta *a = s->in[0];
    bool unfolds = s->ins->op == GT_OP_im2col;
    int64_t kernel, windows, shape[GT_MAX_SPATIAL + 2];
    GT_TRY(check_rank(s->row, a, unfolds ? spatial + 2 : 3, unfolds ? spatial + 2 : 3));
    if (!product(w->kernel, spatial, &kernel) || !product(unfolds ? w->size : w->from, spatial, &windows) ||
        kernel == 0)
        return gt__fail(GT_ERR_VALUE, "%s: the windows are empty or too many", s->row->name);
    shape[0] = a->shape[0];
    if (unfolds) {
        shape[2] = windows;
        if (__builtin_mul_overflow(a->shape[1], kernel, &shape[1]))
            return gt__fail(GT_ERR_MEMORY, "%s: the result is too large", s->row->name);
        return gt__meta_set(s->out, (gt_dtype)a->dtype, 3, shape);
    }
    if (a->shape[1] % kernel || a->shape[2] != windows)
        return gt__fail(
            GT_ERR_VALUE,
            "%s: expected (N, C * %lld, %lld) for these windows, but got an input of %lld rows and %lld columns",
            s->row->name, (long long)kernel, (long long)windows, (long long)a->shape[1], (long long)a->shape[2]);
    shape[1] = a->shape[1] / kernel;
    memcpy(shape + 2, w->size, spatial * sizeof *shape);
    return gt__meta_set(s->out, (gt_dtype)a->dtype, spatial + 2, shape);
}

gt_err gt__infer_resample(gt_inference *s)
{
    const gt_meta *a = s->in[0];
    int64_t axis = s->ins->imm[0].i & 0xff, mode = s->ins->imm[0].i >> 8, size = s->tail[0].i64[0];
    double step = s->ins->imm[1].f;
    GT_TRY(check_rank(s->row, a, 1, GT_MAX_RANK));
    if (axis >= a->rank)
        return refuse(s->row, "axis", axis);
    if (mode < 0 || mode >= GT_RESAMPLE_COUNT)
        return refuse(s->row, "mode", mode);
    bool empty = size == 0 && a->numel == 0;
    if (!within(size, 1) && !empty)
        return refuse(s->row, "size", size);
    if (a->shape[axis] == 0 && a->numel == 0 && !empty)
        return refuse(s->row, "input size", 0);
    if (!isfinite(step) || step < 0 || step > INT32_MAX)
        return gt__fail(GT_ERR_VALUE, "%s: step %g is out of range", s->row->name, step);
    if (a->dtype == GT_BOOL || (mode >= GT_RESAMPLE_LINEAR && !gt__dtype_is_float((gt_dtype)a->dtype)))
        return gt__fail(GT_ERR_UNSUPPORTED, "\"%s\" not implemented for '%s'", s->row->name,
                        gt__dtype_kind((gt_dtype)a->dtype));
    int64_t shape[GT_MAX_RANK];
    memcpy(shape, a->shape, sizeof shape);
    shape[axis] = size;
    return gt__meta_set(s->out, (gt_dtype)a->dtype, a->rank, shape);
}

gt_err gt__infer_window(gt_inference *s)
{
    gt_window w = gt__window_read(s->tail);
    unsigned spatial = s->ins->rank;
    GT_TRY(check_window(s->row, spatial, &w));
    if (s->in[0]->dtype == GT_BOOL && s->ins->op != GT_OP_im2col)
        return gt__fail(GT_ERR_TYPE, "%s is not supported for bool tensors", s->row->name);
    bool product = s->row->form == GT_FORM_CONV || s->row->form == GT_FORM_CONV_WEIGHT;
    if (product && s->ins->imm[0].u > GT_PRODUCT_FAST)
        return gt__fail(GT_ERR_PROTOCOL, "%s: %llu is no kind of product", s->row->name,
                        (unsigned long long)s->ins->imm[0].u);
    switch ((gt_form)s->row->form) {
    case GT_FORM_CONV:
        return infer_conv(s, &w, spatial);
    case GT_FORM_CONV_WEIGHT:
        return infer_conv_weight(s, &w, spatial);
    case GT_FORM_MAX_POOL:
        return infer_max_pool(s, &w, spatial);
    case GT_FORM_IM2COL:
        return infer_im2col(s, &w, spatial);
    default:
        return infer_pool(s, &w, spatial);
    }
}

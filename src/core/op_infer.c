/*
 * op_infer.c: the one place that says what shape and dtype an instruction's result has, and refuses what is wrong.
 *
 * Client, dispatcher and worker all run it (see op.h), so it trusts nothing in the instruction or its tail: every
 * axis, count and size is checked here. One function a form, here and in op_infer_move.c,
 * op_infer_window.c and op_infer_linalg.c; the table at the end lists them.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/convert.h"
#include "core/op_infer.h"

typedef gt_inference inference;

/* ---- dtypes ------------------------------------------------------------------------------------------------ */

enum { CATEGORY_BOOL, CATEGORY_INT, CATEGORY_FLOAT, CATEGORY_COMPLEX };

static int category(gt_dtype dtype)
{
    return dtype == GT_BOOL              ? CATEGORY_BOOL
           : gt__dtype_is_complex(dtype) ? CATEGORY_COMPLEX
           : gt__dtype_is_float(dtype)   ? CATEGORY_FLOAT
                                         : CATEGORY_INT;
}

/*
 * PyTorch's rule: tensors with dimensions decide, then 0-d tensors, then Python numbers. An operand of lower priority
 * changes the result only if its category (bool < int < float < complex) is higher; a complex one of lower priority leaves
 * floats their precision.
 */
typedef struct promotion {
    gt_dtype dtype[3]; /* by priority: 0 dimensioned, 1 zero-dimensional, 2 literal */
    bool present[3];
} promotion;

static void promotion_add(promotion *p, int priority, gt_dtype dtype)
{
    p->dtype[priority] = p->present[priority] ? gt__dtype_promote(p->dtype[priority], dtype) : dtype;
    p->present[priority] = true;
}

static gt_dtype promotion_result(const promotion *p)
{
    bool any = false;
    gt_dtype result = GT_FLOAT32;
    for (int priority = 0; priority < 3; priority++) {
        if (!p->present[priority])
            continue;
        gt_dtype dtype = p->dtype[priority];
        if (!any)
            result = dtype;
        else if (category(dtype) > category(result))
            result = gt__dtype_is_float(result) ? gt__dtype_complex(result) : dtype;
        any = true;
    }
    return result;
}

static void promotion_add_operand(promotion *p, const inference *s, unsigned k)
{
    static const gt_dtype literal_dtypes[] = {
        [GT_LITERAL_BOOL] = GT_BOOL, [GT_LITERAL_INT] = GT_INT64, [GT_LITERAL_FLOAT] = GT_FLOAT32};
    if (s->in[k])
        promotion_add(p, s->in[k]->rank == 0, (gt_dtype)s->in[k]->dtype);
    else
        promotion_add(p, 2, literal_dtypes[gt__literal(s->ins, k)]);
}

gt_dtype gt__infer_promoted(const inference *s, unsigned count)
{
    promotion p = {0};
    for (unsigned k = 0; k < count; k++)
        promotion_add_operand(&p, s, k);
    return promotion_result(&p);
}

/* PyTorch's words: most are the names of its kernels. */
static gt_err refuse_bool(const inference *s)
{
    static const char *const kernels[GT_OP_COUNT] = {
        [GT_OP_abs] = "abs_cpu",
        [GT_OP_floor] = "floor_vml_cpu",
        [GT_OP_ceil] = "ceil_vml_cpu",
        [GT_OP_round] = "round_vml_cpu",
        [GT_OP_trunc] = "trunc_vml_cpu",
        [GT_OP_pow] = "pow",
        [GT_OP_fmod] = "fmod_cpu",
        [GT_OP_remainder] = "remainder_cpu",
        [GT_OP_floor_divide] = "div_floor_cpu",
        [GT_OP_conv] = "slow_conv2d_cpu",
        [GT_OP_trunc_divide] = "div_trunc_cpu",
    };
    switch (s->ins->op) {
    case GT_OP_neg:
        return gt__fail(GT_ERR_TYPE,
                        "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
                        "invert a mask, use the `~` or `logical_not()` operator instead.");
    case GT_OP_relu:
        return gt__fail(GT_ERR_TYPE, "Boolean inputs not supported for relu");
    case GT_OP_relu6:
    case GT_OP_hardtanh:
        return gt__fail(GT_ERR_TYPE, "Bool inputs not supported for hardtanh");
    default:
        return gt__fail(GT_ERR_UNSUPPORTED, "\"%s\" not implemented for 'Bool'",
                        kernels[s->ins->op] ? kernels[s->ins->op] : s->row->name);
    }
}

gt_err gt__infer_dtype(inference *s, gt_dtype promoted)
{
    gt_dtype compute = promoted, result = promoted;
    switch ((gt_types)s->row->types) {
    case GT_TYPES_ARITH:
        if (promoted == GT_BOOL)
            return refuse_bool(s);
        break;
    case GT_TYPES_FLT:
        if (!gt__dtype_is_inexact(promoted))
            compute = result = GT_FLOAT32;
        break;
    case GT_TYPES_BOOL:
        result = GT_BOOL;
        break;
    case GT_TYPES_BITS:
    case GT_TYPES_INT:
        if (gt__dtype_is_inexact(promoted) || (promoted == GT_BOOL && s->row->types == GT_TYPES_INT))
            return s->ins->op == GT_OP_bitwise_not
                       ? gt__fail(GT_ERR_TYPE,
                                  "~ (operator.invert) is only implemented on integer and Boolean-type tensors")
                       : gt__fail(GT_ERR_UNSUPPORTED, "\"%s_cpu\" not implemented for '%s'", s->row->name,
                                  gt__dtype_kind(promoted));
        break;
    case GT_TYPES_SUM:
        if (!gt__dtype_is_inexact(promoted))
            compute = result = GT_INT64;
        break;
    case GT_TYPES_INDEX:
        result = GT_INT64;
        break;
    case GT_TYPES_NUM:
    case GT_TYPES_SAME:
        break;
    }
    if (s->ins->op == GT_OP_abs || s->ins->op == GT_OP_angle)
        result = gt__dtype_real(result);
    s->compute = compute;
    s->out->dtype = (uint8_t)result;
    return GT_OK;
}

/* ---- helpers ----------------------------------------------------------------------------------------------- */

gt_err gt__infer_check_axis(const inference *s, int64_t axis, unsigned rank)
{
    if (axis < 0 || axis >= (int64_t)rank)
        return gt__fail(GT_ERR_INDEX, "%s: axis %lld is out of range for a tensor of %u dimensions", s->row->name,
                        (long long)axis, rank);
    return GT_OK;
}

static gt_err refuse_empty_axis(const inference *s, unsigned axis)
{
    return gt__fail(GT_ERR_INDEX, "%s: expected reduction dim %u to have non-zero size", s->row->name, axis);
}

gt_err gt__infer_check_literal(const inference *s, unsigned k, gt_dtype dtype)
{
    gt_literal kind = gt__literal(s->ins, k);
    return kind == GT_LITERAL_NONE ? GT_OK : gt__dtype_check_number(dtype, kind, s->ins->literal[k]);
}

/* ---- elementwise ------------------------------------------------------------------------------------------- */

/* The bounds are doubles. Infinite ones are no bounds, and a double cannot hold all numbers of int64. */
static gt_err check_bounds(const inference *s)
{
    gt_dtype dtype = (gt_dtype)s->in[0]->dtype;
    for (unsigned k = 0; k < 2; k++) {
        double bound = s->ins->imm[k].f;
        if (!isfinite(bound) || dtype == GT_INT64 || gt__dtype_is_inexact(dtype))
            continue;
        GT_TRY(gt__dtype_check_number(dtype, GT_LITERAL_INT, (gt_imm){.i = gt__double_to_int64(bound)}));
    }
    return GT_OK;
}

gt_err gt__infer_unary(inference *s)
{
    if (s->ins->op == GT_OP_clamp)
        GT_TRY(check_bounds(s));
    gt__infer_copy_shape(s->out, s->in[0]);
    return gt__infer_dtype(s, (gt_dtype)s->in[0]->dtype);
}

/* As in PyTorch the exponent of integers must be one of their dtype. */
static gt_err check_exponent(const inference *s, gt_dtype promoted)
{
    if (gt__dtype_is_inexact(promoted))
        return GT_OK;
    if (gt__literal(s->ins, 1) == GT_LITERAL_INT && s->ins->literal[1].i < 0)
        return gt__fail(GT_ERR_VALUE, "Integers to negative integer powers are not allowed.");
    return gt__infer_check_literal(s, 1, promoted);
}

/* PyTorch refuses a bool on either side of a minus, whatever the other operand is. */
static gt_err check_subtraction(const inference *s)
{
    if (s->in[0] && s->in[1] && s->in[0]->dtype == GT_BOOL && s->in[1]->dtype == GT_BOOL)
        return gt__fail(GT_ERR_TYPE,
                        "Subtraction, the `-` operator, with two bool tensors is not supported. Use the "
                        "`^` or `logical_xor()` operator instead.");
    for (unsigned k = 0; k < 2; k++)
        if (s->in[k] ? s->in[k]->dtype == GT_BOOL : gt__literal(s->ins, k) == GT_LITERAL_BOOL)
            return gt__fail(GT_ERR_TYPE,
                            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are "
                            "trying to invert a mask, use the `~` or `logical_not()` operator instead.");
    return GT_OK;
}

static gt_err infer_binary(inference *s)
{
    const gt_meta *a = s->in[0], *b = s->in[1];
    if (s->ins->op == GT_OP_sub)
        GT_TRY(check_subtraction(s));
    if (a && b) {
        if (gt__meta_same_shape(a, b))
            gt__infer_copy_shape(s->out, a);
        else
            GT_TRY(gt__meta_broadcast(a, b, s->out));
        if (a->dtype == b->dtype)
            return gt__infer_dtype(s, (gt_dtype)a->dtype);
    } else if (a || b)
        gt__infer_copy_shape(s->out, a ? a : b);
    else
        return gt__fail(GT_ERR_VALUE, "%s needs a tensor operand", s->row->name);
    gt_dtype promoted = gt__infer_promoted(s, 2);
    if (s->ins->op == GT_OP_pow)
        GT_TRY(check_exponent(s, promoted));
    return gt__infer_dtype(s, promoted);
}

/* Operand 0 of where is a condition and does not take part in promotion. */
static gt_err infer_ternary(inference *s)
{
    const gt_meta *first = s->in[0];
    bool conditional = s->ins->op == GT_OP_where;
    if (conditional && first->dtype != GT_BOOL)
        return gt__fail(GT_ERR_TYPE, "%s expected condition to be a bool tensor, but got %s", s->row->name,
                        gt__dtype_name((gt_dtype)first->dtype));
    gt_meta shape = *first;
    promotion p = {0};
    if (!conditional)
        promotion_add_operand(&p, s, 0);
    for (unsigned k = 1; k < 3; k++) {
        promotion_add_operand(&p, s, k);
        if (s->in[k]) {
            gt_meta wider = shape;
            GT_TRY(gt__meta_broadcast(&shape, s->in[k], &wider));
            shape = wider;
        }
    }
    gt__infer_copy_shape(s->out, &shape);
    gt_dtype promoted = promotion_result(&p);
    for (unsigned k = 1; conditional && k < 3 && !gt__dtype_is_half(promoted); k++)
        GT_TRY(gt__infer_check_literal(s, k, promoted));
    return gt__infer_dtype(s, promoted);
}

/* ---- reductions -------------------------------------------------------------------------------------------- */

/* The shape of `a` without the axes of the mask (or with size 1 there). */
static gt_err reduced_shape(inference *s, const gt_meta *a, uint64_t mask)
{
    bool keepdim = s->ins->flags & GT_FLAG_KEEPDIM;
    int64_t shape[GT_MAX_RANK];
    unsigned rank = 0;
    for (unsigned axis = 0; axis < a->rank; axis++)
        if (!(mask >> axis & 1))
            shape[rank++] = a->shape[axis];
        else if (keepdim)
            shape[rank++] = 1;
    return gt__meta_set(s->out, (gt_dtype)s->out->dtype, rank, shape);
}

static gt_err infer_reduce(inference *s)
{
    const gt_meta *a = s->in[0];
    uint64_t mask = s->ins->imm[0].u, all = ((uint64_t)1 << a->rank) - 1;
    if (mask & ~all)
        return gt__fail(GT_ERR_INDEX, "%s: an axis is out of range for a tensor of %u dimensions", s->row->name,
                        a->rank);
    double p = s->ins->imm[1].f;
    bool extreme = s->ins->op == GT_OP_amax || s->ins->op == GT_OP_amin;
    if (!mask && extreme && a->numel == 0)
        return gt__fail(
            GT_ERR_VALUE,
            "%s(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim "
            "with the 'dim' argument.",
            s->row->name);
    if (!mask)
        mask = all;
    if (extreme || (s->ins->op == GT_OP_norm && (p < 0 || p > DBL_MAX)))
        for (unsigned axis = 0; axis < a->rank; axis++)
            if ((mask >> axis & 1) && a->shape[axis] == 0)
                return refuse_empty_axis(s, axis);
    GT_TRY(gt__infer_dtype(s, (gt_dtype)a->dtype));
    return reduced_shape(s, a, mask);
}

static gt_err infer_argreduce(inference *s)
{
    const gt_meta *a = s->in[0];
    int64_t axis = s->ins->imm[0].i;
    uint64_t mask = ((uint64_t)1 << a->rank) - 1;
    if (axis != -1) {
        if (!(a->rank == 0 && axis == 0)) /* PyTorch lets a 0-d tensor be reduced over axis 0 */
            GT_TRY(gt__infer_check_axis(s, axis, a->rank));
        mask = a->rank ? (uint64_t)1 << axis : 0;
        if (a->rank && a->shape[axis] == 0)
            return refuse_empty_axis(s, (unsigned)axis);
    } else if (a->numel == 0)
        return gt__fail(GT_ERR_INDEX, "%s(): Expected reduction dim to be specified for input.numel() == 0.",
                        s->row->name);
    GT_TRY(gt__infer_dtype(s, (gt_dtype)a->dtype));
    return reduced_shape(s, a, mask);
}

static gt_err infer_scan(inference *s)
{
    if (s->in[0]->rank || s->ins->imm[0].i != 0)
        GT_TRY(gt__infer_check_axis(s, s->ins->imm[0].i, s->in[0]->rank));
    return gt__infer_unary(s);
}

static gt_err infer_softmax_backward(inference *s)
{
    const gt_meta *g = s->in[0], *out = s->in[1];
    if (!gt__meta_same_shape(g, out) || g->dtype != out->dtype || !gt__dtype_is_float((gt_dtype)g->dtype))
        return gt__fail(GT_ERR_VALUE, "%s: gradient and result must have the same shape and floating dtype",
                        s->row->name);
    return infer_scan(s);
}

/* ---- products ---------------------------------------------------------------------------------------------- */

/* PyTorch's messages: they differ by the number of dimensions, since its products of matrices and vectors are different
 * functions. */
static gt_err matmul_mismatch(const gt_meta *a, const gt_meta *b)
{
    long long inner = a->shape[a->rank - 1], other = b->shape[b->rank == 1 ? 0 : b->rank - 2];
    if (a->rank == 1 && b->rank == 1)
        return gt__fail(
            GT_ERR_VALUE,
            "inconsistent tensor size, expected tensor [%lld] and src [%lld] to have the same number of "
            "elements, but got %lld and %lld elements respectively",
            inner, other, inner, other);
    if (a->rank > 2 && b->rank > 2) { /* the batches fit, or the caller would have said so */
        long long matrix = inner * a->shape[a->rank - 2], batch = a->numel / (matrix ? matrix : 1);
        return gt__fail(
            GT_ERR_VALUE,
            "Expected size for first two dimensions of batch2 tensor to be: [%lld, %lld] but got: [%lld, "
            "%lld].",
            batch, inner, batch, other);
    }
    long long rows = inner ? a->numel / inner : a->rank > 1 ? a->shape[a->rank - 2] : 1;
    if (b->rank == 1)
        return gt__fail(GT_ERR_VALUE, "size mismatch, got input (%lld), mat (%lldx%lld), vec (%lld)", rows, rows,
                        inner, other);
    return gt__fail(GT_ERR_VALUE, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)", rows,
                    inner, other, (long long)b->shape[b->rank - 1]);
}

static gt_err infer_matmul(inference *s)
{
    const gt_meta *a = s->in[0], *b = s->in[1];
    if (s->ins->imm[0].u > GT_PRODUCT_WIDE)
        return gt__fail(GT_ERR_PROTOCOL, "matmul: %llu is no kind of product",
                        (unsigned long long)s->ins->imm[0].u);
    if (a->dtype != b->dtype)
        return gt__fail(GT_ERR_TYPE, "expected m1 and m2 to have the same dtype, but got: %s != %s",
                        gt__dtype_c_name((gt_dtype)a->dtype), gt__dtype_c_name((gt_dtype)b->dtype));
    if (a->dtype == GT_BOOL)
        return gt__fail(GT_ERR_UNSUPPORTED, "\"%s\" not implemented for 'Bool'",
                        a->rank > 2 || b->rank > 2     ? "bmm"
                        : a->rank == 1 && b->rank == 1 ? "dot"
                        : a->rank == 1 || b->rank == 1 ? "addmv_impl_cpu"
                                                       : "addmm_impl_cpu_");
    if (a->rank == 0 || b->rank == 0)
        return gt__fail(GT_ERR_VALUE, "both arguments to matmul need to be at least 1D, but they are %uD and %uD",
                        a->rank, b->rank);
    /* Batch dimensions broadcast; a 1-d operand loses its row or column in the result. */
    gt_meta batch;
    batch.rank = 0;
    if (a->rank > 2 || b->rank > 2) {
        gt_meta batch_a = *a, batch_b = *b;
        batch_a.rank = (uint8_t)(a->rank > 2 ? a->rank - 2 : 0);
        batch_b.rank = (uint8_t)(b->rank > 2 ? b->rank - 2 : 0);
        batch.dtype = a->dtype;
        GT_TRY(gt__meta_broadcast(&batch_a, &batch_b, &batch));
    }
    if (a->shape[a->rank - 1] != b->shape[b->rank == 1 ? 0 : b->rank - 2])
        return matmul_mismatch(a, b);
    int64_t shape[GT_MAX_RANK + 2];
    unsigned rank = batch.rank;
    memcpy(shape, batch.shape, rank * sizeof shape[0]);
    if (a->rank > 1)
        shape[rank++] = a->shape[a->rank - 2];
    if (b->rank > 1)
        shape[rank++] = b->shape[b->rank - 1];
    GT_TRY(gt__infer_dtype(s, (gt_dtype)a->dtype));
    bool wide = s->ins->imm[0].i == GT_PRODUCT_WIDE && gt__dtype_is_half((gt_dtype)a->dtype);
    return gt__meta_set(s->out, wide ? GT_FLOAT32 : (gt_dtype)s->out->dtype, rank, shape);
}

/* The client checks what users give: these are errors of a record. */
static gt_err infer_linear(inference *s)
{
    const gt_meta *a = s->in[0], *b = s->in[1], *bias = s->in[2];
    if (s->ins->imm[0].u > GT_PRODUCT_FAST)
        return gt__fail(GT_ERR_PROTOCOL, "linear: %llu is no kind of product",
                        (unsigned long long)s->ins->imm[0].u);
    if (!a || !b || !bias || !gt__dtype_is_float((gt_dtype)a->dtype) || b->dtype != a->dtype ||
        bias->dtype != a->dtype)
        return gt__fail(GT_ERR_TYPE, "linear: expected operands of one floating-point dtype");
    if (a->rank == 0 || b->rank != 2 || bias->rank != 1 || bias->shape[0] != b->shape[1])
        return gt__fail(GT_ERR_VALUE, "linear: expected a tensor, a matrix, and a bias as long as its rows");
    if (a->shape[a->rank - 1] != b->shape[0])
        return matmul_mismatch(a, b);
    int64_t shape[GT_MAX_RANK];
    memcpy(shape, a->shape, a->rank * sizeof shape[0]);
    shape[a->rank - 1] = b->shape[1];
    GT_TRY(gt__infer_dtype(s, (gt_dtype)a->dtype));
    return gt__meta_set(s->out, (gt_dtype)s->out->dtype, a->rank, shape);
}

/* ---- normalisation ----------------------------------------------------------------------------------------- */

/* The operand must have meta's dtype and shape. */
static gt_err check_norm_operand(const inference *s, unsigned k, const gt_meta *meta)
{
    const gt_meta *operand = s->in[k];
    if (operand->dtype != meta->dtype)
        return gt__fail(GT_ERR_TYPE, "%s: expected operands of one dtype, but got %s and %s", s->row->name,
                        gt__dtype_name((gt_dtype)meta->dtype), gt__dtype_name((gt_dtype)operand->dtype));
    if (gt__meta_same_shape(operand, meta))
        return GT_OK;
    char wanted[128], got[128];
    return gt__fail(GT_ERR_VALUE, "%s: expected an operand of shape %s, but got one of shape %s", s->row->name,
                    gt__sizes_text(meta->rank, meta->shape, wanted, sizeof wanted),
                    gt__sizes_text(operand->rank, operand->shape, got, sizeof got));
}

static gt_err infer_layer_norm(inference *s)
{
    bool forward = s->ins->op == GT_OP_layer_norm;
    const gt_meta *x = forward ? s->in[0] : s->in[1];
    int64_t first = s->ins->imm[0].i;
    GT_TRY(gt__infer_check_axis(s, first, x->rank));
    if (!gt__dtype_is_float((gt_dtype)x->dtype))
        return gt__fail(GT_ERR_UNSUPPORTED, "\"%s\" not implemented for '%s'", s->row->name,
                        gt__dtype_kind((gt_dtype)x->dtype));
    gt_meta line;
    GT_TRY(gt__meta_set(&line, (gt_dtype)x->dtype, x->rank - (unsigned)first, x->shape + first));
    if (!forward)
        GT_TRY(check_norm_operand(s, 0, x));
    for (unsigned k = forward ? 1 : 2; k < 3; k++)
        if (s->in[k])
            GT_TRY(check_norm_operand(s, k, &line));
    s->compute = (gt_dtype)x->dtype;
    *s->out = s->ins->op == GT_OP_layer_norm_backward_weight ? line : *x;
    return GT_OK;
}

/* Tensors (rows, channels) that go with x (N, C, ...): float32 for halves. */
static gt_err set_channels(const inference *s, const gt_meta *x, int64_t rows, gt_meta *channels)
{
    if (x->rank < 2)
        return gt__fail(GT_ERR_VALUE, "%s: expected a tensor of at least 2 dimensions, but got one of %u",
                        s->row->name, x->rank);
    if (!gt__dtype_is_float((gt_dtype)x->dtype))
        return gt__fail(GT_ERR_UNSUPPORTED, "\"batch_norm\" not implemented for '%s'",
                        gt__dtype_kind((gt_dtype)x->dtype));
    return gt__meta_set(channels, x->dtype == GT_FLOAT64 ? GT_FLOAT64 : GT_FLOAT32, 2,
                        (int64_t[]){rows, x->shape[1]});
}

static gt_err infer_moments(inference *s)
{
    GT_TRY(set_channels(s, s->in[0], 2, s->out));
    s->compute = (gt_dtype)s->out->dtype;
    return GT_OK;
}

static gt_err infer_batch_norm(inference *s)
{
    bool forward = s->ins->op == GT_OP_batch_norm, backward = s->ins->op == GT_OP_batch_norm_backward;
    const gt_meta *x = forward ? s->in[0] : s->in[1];
    int64_t elements = s->ins->imm[0].i, rows = 2;
    if (backward && s->in[2]->rank == 2) { /* with or without weight and bias */
        int64_t least = elements ? 4 : 2;
        rows = s->in[2]->shape[0] > least ? least + 2 : least;
    }
    if (elements < 0)
        return gt__fail(GT_ERR_VALUE, "%s: %lld elements in a channel", s->row->name, (long long)elements);
    gt_meta channels;
    GT_TRY(set_channels(s, x, rows, &channels));
    if (!forward)
        GT_TRY(check_norm_operand(s, 0, x));
    for (unsigned k = forward ? 1 : 2; k < 3; k++)
        if (s->in[k])
            GT_TRY(check_norm_operand(s, k, &channels));
    s->compute = (gt_dtype)channels.dtype;
    *s->out = forward || backward ? *x : channels;
    return GT_OK;
}

static gt_err infer_linalg(inference *s)
{
    return gt__infer_linalg(s->ins, s->in, s->out);
}

/* ------------------------------------------------------------------------------------------------------------ */

static gt_err (*const infer_form[])(inference *) = {
    [GT_FORM_UNARY] = gt__infer_unary,
    [GT_FORM_BINARY] = infer_binary,
    [GT_FORM_TERNARY] = infer_ternary,
    [GT_FORM_REDUCE] = infer_reduce,
    [GT_FORM_ARGREDUCE] = infer_argreduce,
    [GT_FORM_SCAN] = infer_scan,
    [GT_FORM_SOFTMAX] = infer_scan,
    [GT_FORM_SOFTMAX_BACKWARD] = infer_softmax_backward,
    [GT_FORM_MATMUL] = infer_matmul,
    [GT_FORM_LINEAR] = infer_linear,
    [GT_FORM_SPARSE] = gt__infer_sparse,
    [GT_FORM_ATTENTION] = gt__infer_attention,
    [GT_FORM_FFT] = gt__infer_fft,
    [GT_FORM_LAYER_NORM] = infer_layer_norm,
    [GT_FORM_MOMENTS] = infer_moments,
    [GT_FORM_BATCH_NORM] = infer_batch_norm,
    [GT_FORM_CONV] = gt__infer_window,
    [GT_FORM_CONV_WEIGHT] = gt__infer_window,
    [GT_FORM_MAX_POOL] = gt__infer_window,
    [GT_FORM_MAX_INDEX] = gt__infer_window,
    [GT_FORM_POOL] = gt__infer_window,
    [GT_FORM_IM2COL] = gt__infer_window,
    [GT_FORM_RESAMPLE] = gt__infer_resample,
    [GT_FORM_MATRIX] = infer_linalg,
    [GT_FORM_SOLVE] = infer_linalg,
    [GT_FORM_RESHAPE] = gt__infer_reshape,
    [GT_FORM_PERMUTE] = gt__infer_permute,
    [GT_FORM_EXPAND] = gt__infer_expand,
    [GT_FORM_SLICE] = gt__infer_slice,
    [GT_FORM_DIAGONAL] = gt__infer_diagonal,
    [GT_FORM_AS_REAL] = gt__infer_as_real,
    [GT_FORM_AS_COMPLEX] = gt__infer_as_complex,
    [GT_FORM_UNFOLD] = gt__infer_unfold,
    [GT_FORM_CAST] = gt__infer_cast,
    [GT_FORM_COPY] = gt__infer_copy,
    [GT_FORM_CAT] = gt__infer_cat,
    [GT_FORM_TRIANGLE] = gt__infer_triangle,
    [GT_FORM_TAKE] = gt__infer_take,
    [GT_FORM_GATHER] = gt__infer_gather,
    [GT_FORM_SCATTER] = gt__infer_scatter,
    [GT_FORM_ASSIGN] = gt__infer_assign,
    [GT_FORM_WRAP_INDEX] = gt__infer_wrap_index,
    [GT_FORM_MASK_INDEX] = gt__infer_mask_index,
    [GT_FORM_ARGSORT] = infer_scan,
    [GT_FORM_TOPK] = gt__infer_topk,
    [GT_FORM_SAMPLE] = gt__infer_sample,
    [GT_FORM_SEARCH] = gt__infer_search,
    [GT_FORM_FULL] = gt__infer_full,
    [GT_FORM_ARANGE] = gt__infer_arange,
    [GT_FORM_EYE] = gt__infer_eye,
    [GT_FORM_RANDOM] = gt__infer_random,
    [GT_FORM_UPLOAD] = gt__infer_upload,
    [GT_FORM_CONTROL] = NULL,
};

/* Only these operands may be literals: elementwise ones, the source of assign and scatter, and a bias (it is 0). */
static bool literal_allowed(const gt_op_row *row, unsigned k)
{
    switch ((gt_form)row->form) {
    case GT_FORM_BINARY:
        return true;
    case GT_FORM_TERNARY:
    case GT_FORM_ASSIGN:
        return k >= 1;
    case GT_FORM_LAYER_NORM:
        return row == &gt__op_table[GT_OP_layer_norm] ? k >= 1 : k == 2;
    case GT_FORM_BATCH_NORM:
        return row == &gt__op_table[GT_OP_batch_norm] && k == 2;
    case GT_FORM_SCATTER:
    case GT_FORM_CONV:
        return k == 2;
    default:
        return false;
    }
}

/* PyTorch's words, which programs match on. */
static gt_err refuse_complex(const inference *s, gt_dtype dtype)
{
    bool compares =
        s->ins->op == GT_OP_lt || s->ins->op == GT_OP_le || s->ins->op == GT_OP_gt || s->ins->op == GT_OP_ge;
    return gt__fail(GT_ERR_UNSUPPORTED, "\"%s%s\" not implemented for '%s'", s->row->name, compares ? "_cpu" : "",
                    gt__dtype_kind(dtype));
}

gt_err gt__op_infer(const gt_instruction *ins, const gt_slot *tail, const gt_meta *const *in, gt_meta *out,
                    gt_dtype *compute)
{
    const gt_op_row *row = &gt__op_table[ins->op];
    inference s = {.ins = ins, .tail = tail, .row = row, .in = in, .out = out};
    out->dtype = 0; /* helpers that fill the shape keep the dtype they find */
    unsigned operands = gt__op_operands((gt_opcode)ins->op);
    for (unsigned k = 0; k < operands; k++) {
        if (!in[k] && !literal_allowed(row, k))
            return gt__fail(GT_ERR_VALUE, "%s: operand %u must be a tensor", row->name, k);
        if (in[k] && gt__dtype_is_complex((gt_dtype)in[k]->dtype) && !gt__op_complex[ins->op])
            return refuse_complex(&s, (gt_dtype)in[k]->dtype);
    }
    if (__builtin_expect(ins->flags & GT_FLAG_CONSUMES, 0) && (operands == 0 || !in[0]))
        return gt__fail(GT_ERR_PROTOCOL, "%s has no tensor to consume", row->name);
    GT_TRY(infer_form[row->form](&s));
    bool elementwise = row->form == GT_FORM_UNARY || row->form == GT_FORM_BINARY || row->form == GT_FORM_TERNARY ||
                       row->form == GT_FORM_REDUCE || row->form == GT_FORM_SCAN;
    *compute = elementwise ? s.compute : (gt_dtype)out->dtype;
    return GT_OK;
}

/*
 * engines/reference/lines.c: defines the ops along one axis: scans, softmax and its gradient, searches in sorted lines.
 *
 * With the axis moved to the end, a line is `count` consecutive elements.
 */
#include <math.h>

#include "engines/reference/reference.h"

/* ---- scans -------------------------------------------------------------------------------------------------- */

static double log_add_exp(double a, double x)
{
    double most = fmax(a, x);
    if (isnan(a) || isnan(x))
        return NAN;
    return isinf(most) ? most : most + log(exp(a - most) + exp(x - most));
}

static void accumulate_reals(gt_opcode op, const gt_view *in, const gt_view *out, int64_t first, int64_t count)
{
    double total = op == GT_OP_cumprod ? 1 : op == GT_OP_logcumsumexp ? -INFINITY : 0;
    for (int64_t k = first; k < first + count; k++) {
        double x = gt__reference_real(in, k);
        total = op == GT_OP_cumprod ? total * x : op == GT_OP_logcumsumexp ? log_add_exp(total, x) : total + x;
        gt__reference_put_real(out, k, total);
    }
}

static void accumulate_integers(gt_opcode op, const gt_view *in, const gt_view *out, int64_t first, int64_t count)
{
    uint64_t total = op == GT_OP_cumprod;
    for (int64_t k = first; k < first + count; k++) {
        uint64_t x = (uint64_t)gt__reference_integer(in, k);
        total = op == GT_OP_cumprod ? total * x : total + x;
        gt__reference_put_integer(out, k, (int64_t)total);
    }
}

/* The last position of the extreme so far; NaN is more extreme than any number. */
static void positions_of_extremes(gt_opcode op, const gt_view *in, const gt_view *out, int64_t first,
                                  int64_t count)
{
    int64_t best = first;
    for (int64_t k = first; k < first + count; k++) {
        bool nan = gt__dtype_is_float(in->meta.dtype) && isnan(gt__reference_real(in, k));
        bool was_nan = gt__dtype_is_float(in->meta.dtype) && isnan(gt__reference_real(in, best));
        bool beaten = op == GT_OP_cummax ? !gt__reference_less(in, k, best) : !gt__reference_less(in, best, k);
        if (nan || (!was_nan && beaten))
            best = k;
        gt__reference_put_integer(out, k, best - first);
    }
}

gt_err gt__reference_scan(const gt_call *call)
{
    uint64_t axis = UINT64_C(1) << call->ins->imm[0].i;
    int64_t count;
    gt_view in = gt__reference_axes_last(call->in[0], axis, &count);
    gt_view out = gt__reference_axes_last(call->out, axis, &count);
    for (int64_t first = 0; first < out.meta.numel; first += count) {
        if (call->op == GT_OP_cummax || call->op == GT_OP_cummin)
            positions_of_extremes(call->op, &in, &out, first, count);
        else if (gt__dtype_is_float(out.meta.dtype))
            accumulate_reals(call->op, &in, &out, first, count);
        else
            accumulate_integers(call->op, &in, &out, first, count);
    }
    return GT_OK;
}

/* ---- softmax ------------------------------------------------------------------------------------------------ */

gt_err gt__reference_softmax(const gt_call *call)
{
    uint64_t axis = UINT64_C(1) << call->ins->imm[0].i;
    int64_t count;
    gt_view in = gt__reference_axes_last(call->in[0], axis, &count);
    gt_view out = gt__reference_axes_last(call->out, axis, &count);
    for (int64_t first = 0; first < out.meta.numel; first += count) {
        double most = -INFINITY, sum = 0;
        for (int64_t k = first; k < first + count; k++)
            most = fmax(most, gt__reference_real(&in, k));
        for (int64_t k = first; k < first + count; k++)
            sum += exp(gt__reference_real(&in, k) - most);
        for (int64_t k = first; k < first + count; k++) {
            double x = gt__reference_real(&in, k) - most;
            gt__reference_put_real(&out, k, call->op == GT_OP_softmax ? exp(x) / sum : x - log(sum));
        }
    }
    return GT_OK;
}

/* d out_i / d x_j is y_i (delta_ij - y_j), and delta_ij - exp(y_j) for the logarithm. */
gt_err gt__reference_softmax_backward(const gt_call *call)
{
    uint64_t axis = UINT64_C(1) << call->ins->imm[0].i;
    int64_t count;
    gt_view g = gt__reference_axes_last(call->in[0], axis, &count);
    gt_view y = gt__reference_axes_last(call->in[1], axis, &count);
    gt_view out = gt__reference_axes_last(call->out, axis, &count);
    bool logarithm = call->op == GT_OP_log_softmax_backward;
    for (int64_t first = 0; first < out.meta.numel; first += count) {
        double sum = 0;
        for (int64_t k = first; k < first + count; k++)
            sum += gt__reference_real(&g, k) * (logarithm ? 1 : gt__reference_real(&y, k));
        for (int64_t k = first; k < first + count; k++) {
            double gradient = gt__reference_real(&g, k), result = gt__reference_real(&y, k);
            gt__reference_put_real(&out, k, logarithm ? gradient - exp(result) * sum : result * (gradient - sum));
        }
    }
    return GT_OK;
}

/* ---- searches ----------------------------------------------------------------------------------------------- */

/* The number of elements of its sorted line that are less than a value, or (right) less or equal. NaN is the largest. */
gt_err gt__reference_search(const gt_call *call)
{
    const gt_view *sorted = call->in[0], *values = call->in[1];
    bool right = call->ins->imm[0].i != 0, real = gt__dtype_is_float(sorted->meta.dtype);
    int64_t n = sorted->meta.shape[sorted->meta.rank - 1];
    for (int64_t flat = 0; flat < values->meta.numel; flat++) {
        int64_t line = sorted->meta.rank == 1 ? 0 : flat / values->meta.shape[values->meta.rank - 1], place = 0;
        double x = gt__reference_real(values, flat);
        int64_t integer = real ? 0 : gt__reference_integer(values, flat);
        for (; place < n; place++) {
            int64_t at = line * n + place;
            bool before =
                real    ? (right ? !(gt__reference_real(sorted, at) > x) : !(gt__reference_real(sorted, at) >= x))
                : right ? gt__reference_integer(sorted, at) <= integer
                        : gt__reference_integer(sorted, at) < integer;
            if (!before)
                break;
        }
        gt__reference_put_integer(call->out, flat, place);
    }
    return GT_OK;
}

/* ---- sparse matrices ---------------------------------------------------------------------------------------- */

/* Every place in range, or an error that names the first that is not. */
static gt_err check_places(const gt_view *indices, int64_t row, int64_t size)
{
    int64_t count = indices->meta.shape[1];
    for (int64_t k = 0; k < count; k++) {
        int64_t place = gt__reference_integer(indices, row * count + k);
        if (place < 0 || place >= size)
            return gt__fail(GT_ERR_INDEX, "index %lld is out of bounds for dimension %lld with size %lld",
                            (long long)place, (long long)row, (long long)size);
    }
    return GT_OK;
}

static double product_of_rows(const gt_call *call, int64_t i, int64_t j)
{
    int64_t width = call->in[1]->meta.shape[1];
    double sum = 0;
    for (int64_t k = 0; k < width; k++)
        sum += gt__reference_real(call->in[1], i * width + k) * gt__reference_real(call->in[2], j * width + k);
    return sum;
}

/* The sum over the entries of row i of value times row j of the dense matrix, at column k. */
static double sparse_product(const gt_call *call, int64_t first, int64_t i, int64_t k)
{
    const gt_view *indices = call->in[0], *dense = call->in[2];
    int64_t count = indices->meta.shape[1], width = dense->meta.shape[1];
    double sum = 0;
    for (int64_t e = 0; e < count; e++)
        if (gt__reference_integer(indices, first * count + e) == i)
            sum += gt__reference_real(call->in[1], e) *
                   gt__reference_real(dense, gt__reference_integer(indices, (1 - first) * count + e) * width + k);
    return sum;
}

gt_err gt__reference_sparse(const gt_call *call)
{
    const gt_view *indices = call->in[0], *out = call->out;
    bool samples = call->op == GT_OP_sampled_mm;
    int64_t first = samples ? 0 : call->ins->imm[1].i, count = indices->meta.shape[1];
    GT_TRY(check_places(indices, first, samples ? call->in[1]->meta.shape[0] : out->meta.shape[0]));
    GT_TRY(check_places(indices, 1 - first, call->in[2]->meta.shape[0]));
    for (int64_t k = 0; k < out->meta.numel; k++) {
        int64_t width = samples ? 1 : out->meta.shape[1];
        gt__reference_put_real(out, k,
                               samples ? product_of_rows(call, gt__reference_integer(indices, k),
                                                         gt__reference_integer(indices, count + k))
                                       : sparse_product(call, first, k / width, k % width));
    }
    return GT_OK;
}

/*
 * engines/reference/channels.c: defines the normalisation of channels: of x (N, C, ...) the elements with the same second
 * coordinate. ops.def and op.h say what the operands are.
 */
#include <math.h>

#include "engines/reference/reference.h"

/* The elements of channel c: element k of it is at flat position at(all, c, k). */
typedef struct channels {
    const gt_view *x;
    int64_t count, inner, elements; /* of channels; neighbours of a channel in a row; elements of a channel */
} channels;

static channels channels_of(const gt_view *x)
{
    channels all = {.x = x, .count = x->meta.shape[1], .inner = 1};
    for (int axis = 2; axis < x->meta.rank; axis++)
        all.inner *= x->meta.shape[axis];
    all.elements = x->meta.shape[0] * all.inner;
    return all;
}

static int64_t at(const channels *all, int64_t c, int64_t k)
{
    return (k / all->inner * all->count + c) * all->inner + k % all->inner;
}

/* Row `row` of a (rows, C) operand. */
static double number(const gt_view *view, int64_t row, int64_t c)
{
    return gt__reference_real(view, row * view->meta.shape[1] + c);
}

gt_err gt__reference_moments(const gt_call *call)
{
    channels all = channels_of(call->in[0]);
    for (int64_t c = 0; c < all.count; c++) {
        double sum = 0, squares = 0;
        for (int64_t k = 0; k < all.elements; k++)
            sum += gt__reference_real(all.x, at(&all, c, k));
        double mean = sum / (double)all.elements;
        for (int64_t k = 0; k < all.elements; k++)
            squares += pow(gt__reference_real(all.x, at(&all, c, k)) - mean, 2);
        gt__reference_put_real(call->out, c, mean);
        gt__reference_put_real(call->out, all.count + c, squares / (double)all.elements);
    }
    return GT_OK;
}

static double inverse_deviation(const gt_call *call, double variance)
{
    return 1 / sqrt(variance + call->ins->imm[1].f);
}

static void normalise(const gt_call *call, const channels *all, int64_t c)
{
    const gt_view *moments = call->in[1], *affine = call->in[2];
    bool literal = affine->meta.rank == 0;
    double scale = inverse_deviation(call, number(moments, 1, c)) * (literal ? 1 : number(affine, 0, c));
    for (int64_t k = 0; k < all->elements; k++) {
        int64_t flat = at(all, c, k);
        double h = (gt__reference_real(all->x, flat) - number(moments, 0, c)) * scale;
        gt__reference_put_real(call->out, flat, h + (literal ? 0 : number(affine, 1, c)));
    }
}

static void sum_gradients(const gt_call *call, const channels *all, int64_t c)
{
    double product = 0, sum = 0, mean = number(call->in[2], 0, c);
    for (int64_t k = 0; k < all->elements; k++) {
        int64_t flat = at(all, c, k);
        double g = gt__reference_real(call->in[0], flat);
        product += g * (gt__reference_real(all->x, flat) - mean);
        sum += g;
    }
    gt__reference_put_real(call->out, c, product * inverse_deviation(call, number(call->in[2], 1, c)));
    gt__reference_put_real(call->out, all->count + c, sum);
}

/* The element's direct gradient; if the moments are of x, less the parts through the mean and the variance. */
static void propagate(const gt_call *call, const channels *all, int64_t c)
{
    const gt_view *g = call->in[0], *s = call->in[2];
    int64_t elements = call->ins->imm[0].i, rows = s->meta.shape[0];
    double scale = inverse_deviation(call, number(s, 1, c)), mean = number(s, 0, c);
    double weight = rows == (elements ? 6 : 4) ? number(s, 2, c) : 1;
    double product = elements ? number(s, rows - 2, c) / (double)elements : 0;
    double sum = elements ? number(s, rows - 1, c) / (double)elements : 0;
    for (int64_t k = 0; k < all->elements; k++) {
        int64_t flat = at(all, c, k);
        double h = (gt__reference_real(all->x, flat) - mean) * scale;
        double direct = gt__reference_real(g, flat);
        gt__reference_put_real(call->out, flat, (elements ? direct - sum - h * product : direct) * scale * weight);
    }
}

gt_err gt__reference_batch_norm(const gt_call *call)
{
    bool forward = call->op == GT_OP_batch_norm;
    channels all = channels_of(call->in[forward ? 0 : 1]);
    for (int64_t c = 0; c < all.count; c++)
        if (forward)
            normalise(call, &all, c);
        else if (call->op == GT_OP_batch_norm_backward_affine)
            sum_gradients(call, &all, c);
        else
            propagate(call, &all, c);
    return GT_OK;
}

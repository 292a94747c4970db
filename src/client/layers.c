/* layers.c: linear layers and the loss of classes, each as one node of the tape. See layers.h. */
#include "client/layers.h"

#include "client/autograd.h"
#include "client/signals.h"

/* Attach a node to *out, which was computed from `in` without being recorded. On failure *out becomes NULL. */
static gt_err record(const gt_custom_rule *rule, unsigned saves, gt_tensor *const *in, unsigned count,
                     gt_tensor **out)
{
    gt_err err = gt__autograd_record_custom(rule, saves, in, count, out);
    if (err != GT_OK)
        gt__replace(out, NULL);
    return err;
}

/* ---- linear -------------------------------------------------------------------------------------------------- */

/*
 * The forward pass is several records. Recorded one by one they would take as many nodes, and the gradient of the weight would
 * arrive transposed: every update of a training step would then read it across its rows. The rule here makes that gradient in
 * the weight's own order.
 */

/* All axes but the last as one. *out is the caller's. */
static gt_err as_matrix(gt_tensor *a, gt_tensor **out)
{
    int last = a->meta.rank - 1;
    int64_t rows = 1;
    if (last == 1) {
        *out = gt_tensor_retain(a);
        return GT_OK;
    }
    for (int axis = 0; axis < last; axis++)
        rows *= a->meta.shape[axis];
    return gt_reshape(a, 2, (int64_t[]){rows, a->meta.shape[last]}, out);
}

/* transpose(g) @ a, over all rows. */
static gt_err weight_gradient(gt_tensor *g, gt_tensor *a, gt_tensor **out)
{
    gt_tensor *rows = NULL, *inputs = NULL, *columns = NULL;
    gt_err err = as_matrix(g, &rows);
    if (err == GT_OK)
        err = as_matrix(a, &inputs);
    if (err == GT_OK)
        err = gt_transpose(rows, 0, 1, &columns);
    if (err == GT_OK)
        err = gt_matmul(columns, inputs, out);
    gt_tensor_release(rows);
    gt_tensor_release(inputs);
    gt_tensor_release(columns);
    return err;
}

static gt_err linear_rule(void *context, gt_node *node, gt_tensor *gradient, const bool *wanted,
                          gt_tensor **results)
{
    (void)context;
    gt_err err = GT_OK;
    gt_tensor *a = node->saved[0], *weight = node->saved[1];
    /* Own references: while an emission waits for room, another thread's pass may drop the node's values. */
    if (a)
        gt_tensor_retain(a);
    if (weight)
        gt_tensor_retain(weight);
    if (node->count > 2 && wanted[2])
        results[2] = gt_tensor_retain(gradient); /* the pass sums it over the rows */
    if (wanted[0])
        err = gt_matmul(gradient, weight, &results[0]);
    if (err == GT_OK && wanted[1])
        err = weight_gradient(gradient, a, &results[1]);
    gt_tensor_release(a);
    gt_tensor_release(weight);
    return err;
}

/* The value; the caller decides what is recorded. Halves are rounded once, after the bias. */
static gt_err linear_value(gt_tensor *a, gt_tensor *weight, gt_tensor *bias, gt_tensor **out)
{
    gt_dtype dtype = (gt_dtype)a->meta.dtype;
    bool wide = bias && gt__dtype_is_half(dtype);
    gt_tensor *columns, *product, *sum;
    GT_TRY(gt_transpose(weight, 0, 1, &columns));
    gt_err err = (wide ? gt__emit_wide_product : gt_matmul)(a, columns, &product);
    gt_tensor_release(columns);
    GT_TRY(err);
    if (bias) {
        err = gt_add(product, bias, &sum);
        gt_tensor_release(product);
        product = sum;
        GT_TRY(err);
    }
    if (wide && bias->meta.dtype == dtype) {
        err = gt_cast(product, dtype, &sum);
        gt_tensor_release(product);
        product = sum;
        GT_TRY(err);
    }
    *out = product;
    return GT_OK;
}

/* The value of a plain layer, not recorded. Halves are rounded once, after the bias. */
static gt_err plain_value(gt_tensor *a, gt_tensor *weight, gt_tensor *bias, gt_tensor **out)
{
    gt_tensor *columns;
    if (!bias || !gt__dtype_is_half((gt_dtype)a->meta.dtype))
        return linear_value(a, weight, bias, out);
    GT_TRY(gt_transpose(weight, 0, 1, &columns));
    gt_err err = gt__emit_biased_product(a, columns, bias, out);
    gt_tensor_release(columns);
    return err;
}

bool gt__linear_is_plain(const gt_tensor *a, const gt_tensor *weight, const gt_tensor *bias)
{
    return !gt__modes_on() && weight->meta.rank == 2 && a->meta.rank > 0 &&
           a->meta.shape[a->meta.rank - 1] == weight->meta.shape[1] &&
           gt__dtype_is_float((gt_dtype)a->meta.dtype) && a->meta.dtype == weight->meta.dtype &&
           (!bias || (bias->meta.rank == 1 && bias->meta.shape[0] == weight->meta.shape[0] &&
                      bias->meta.dtype == a->meta.dtype));
}

gt_err gt__emit_linear(gt_tensor *a, gt_tensor *weight, gt_tensor *bias, gt_tensor **out)
{
    /* PyTorch saves the weight transposed, and the input as a matrix. */
    gt_custom_rule layer = {.rule = linear_rule,
                            .name = bias ? "AddmmBackward0" : "MmBackward0",
                            .views = (uint8_t)(1 << 1 | (a->meta.rank != 2))};
    gt_tensor *in[] = {a, weight, bias};
    unsigned count = bias ? 3 : 2;
    *out = NULL;
    if (!gt__grad_enabled() || !(a->node || weight->node || (bias && bias->node)))
        return plain_value(a, weight, bias, out);
    for (unsigned k = 0; k < count; k++)
        gt_tensor_retain(in[k]); /* an emission that waits lets other threads run */
    bool before = gt__grad_enable(false);
    gt_err err = plain_value(a, weight, bias, out);
    gt__grad_enable(before);
    if (err == GT_OK)
        err = record(&layer, GT_SAVE_1 << GT_SAVE_FOR_0 | GT_SAVE_0 << GT_SAVE_FOR_1, in, count, out);
    for (unsigned k = 0; k < count; k++)
        gt_tensor_release(in[k]);
    return err;
}

gt_err gt_linear(gt_tensor *a, gt_tensor *weight, gt_tensor *bias, gt_tensor **out)
{
    GT_ARGUMENTS(out, a, weight);
    if (weight->meta.rank != 2)
        return gt__fail(GT_ERR_VALUE, "linear: the weight must be a matrix (outputs, inputs), but has rank %u",
                        (unsigned)weight->meta.rank);
    return gt__linear_is_plain(a, weight, bias) ? gt__emit_linear(a, weight, bias, out)
                                                : linear_value(a, weight, bias, out);
}

/* ---- the loss of classes --------------------------------------------------------------------------------------- */

static unsigned class_axis(const gt_meta *scores)
{
    return scores->rank > 1 ? 1 : 0;
}

/* The classes as an index of gather and scatter: with the axis of the scores. *out is the caller's. */
static gt_err class_index(const gt_meta *scores, gt_tensor *target, gt_tensor **out)
{
    int64_t shape[GT_MAX_RANK];
    for (unsigned axis = 0; axis < scores->rank; axis++)
        shape[axis] = axis == class_axis(scores) ? 1 : scores->shape[axis];
    return gt_reshape(target, scores->rank, shape, out);
}

/* Losses of one reduction share a rule. The reduction is in the node's instruction: what the sum was divided by. */
static gt_err nll_rule(void *context, gt_node *node, gt_tensor *gradient, const bool *wanted, gt_tensor **results)
{
    (void)context;
    const gt_meta *scores = &node->operands[0].meta;
    gt_tensor *target = gt_tensor_retain(node->saved[1]); /* another thread's pass may drop it */
    gt_tensor *index = NULL, *scaled = NULL, *spread = NULL, *zeros = NULL;
    int64_t shape[GT_MAX_RANK];
    bool reduced = node->out.rank < target->meta.rank;
    if (!wanted[0]) {
        gt_tensor_release(target);
        return GT_OK;
    }
    gt_err err = class_index(scores, target, &index);
    if (err == GT_OK)
        err = gt__emit_binary_literal(GT_OP_div, gradient, GT_LITERAL_FLOAT, node->ins.imm[0], false, &scaled);
    if (err == GT_OK && reduced)
        err = gt_expand(scaled, index->meta.rank, index->meta.shape, &spread);
    else if (err == GT_OK)
        err = gt_reshape(scaled, index->meta.rank, index->meta.shape, &spread);
    for (unsigned axis = 0; axis < scores->rank; axis++)
        shape[axis] = scores->shape[axis];
    if (err == GT_OK)
        err = gt__emit_full(node->client, (gt_dtype)scores->dtype, scores->rank, shape, GT_LITERAL_FLOAT,
                            (gt_imm){.f = 0}, &zeros);
    if (err == GT_OK)
        err = gt__emit_scatter(GT_OP_scatter, zeros, index, spread, (int)class_axis(scores), 0, 1, &results[0]);
    gt_tensor_release(target);
    gt_tensor_release(index);
    gt_tensor_release(scaled);
    gt_tensor_release(spread);
    gt_tensor_release(zeros);
    return err;
}

static gt_err nll_value(gt_tensor *scores, gt_tensor *target, gt_reduction reduction, double divisor,
                        gt_tensor **out)
{
    gt_tensor *index, *picked, *whole = NULL;
    GT_TRY(class_index(&scores->meta, target, &index));
    gt_err err = gt_gather(scores, index, (int)class_axis(&scores->meta), &picked);
    gt_tensor_release(index);
    GT_TRY(err);
    if (reduction == GT_REDUCE_NONE)
        err = gt_reshape(picked, target->meta.rank, target->meta.shape, &whole);
    else
        err = gt_sum(picked, 0, false, &whole);
    gt_tensor_release(picked);
    if (err == GT_OK)
        err = gt__emit_binary_literal(GT_OP_div, whole, GT_LITERAL_FLOAT, (gt_imm){.f = divisor}, false, out);
    gt_tensor_release(whole);
    return err;
}

bool gt__nll_is_plain(const gt_tensor *scores, const gt_tensor *target, int64_t ignored)
{
    const gt_meta *meta = &scores->meta;
    unsigned axis = class_axis(meta), own = 0;
    if (gt__modes_on() || !gt__dtype_is_float((gt_dtype)meta->dtype) || !meta->rank ||
        target->meta.dtype != GT_INT64 || target->meta.rank != meta->rank - 1 || scores->client != target->client)
        return false;
    for (unsigned k = 0; k < meta->rank; k++)
        if (k != axis && meta->shape[k] != target->meta.shape[own++])
            return false;
    int64_t classes = meta->shape[axis];
    return target->bounded && target->low >= 0 && target->high < classes && !(ignored >= 0 && ignored < classes);
}

gt_err gt__emit_nll(gt_tensor *scores, gt_tensor *target, gt_reduction reduction, gt_tensor **out)
{
    static const gt_custom_rule losses = {.rule = nll_rule, .name = "NllLossBackward0"};
    gt_tensor *in[] = {scores, target};
    double divisor = reduction == GT_REDUCE_MEAN ? -(double)target->meta.numel : -1.0;
    *out = NULL;
    if (!gt__grad_enabled() || !scores->node)
        return nll_value(scores, target, reduction, divisor, out);
    gt_tensor_retain(scores); /* an emission that waits lets other threads run */
    gt_tensor_retain(target);
    bool before = gt__grad_enable(false);
    gt_err err = nll_value(scores, target, reduction, divisor, out);
    gt__grad_enable(before);
    if (err == GT_OK)
        err = record(&losses, GT_SAVE_1, in, 2, out);
    if (err == GT_OK)
        (*out)->node->ins.imm[0].f = divisor;
    gt_tensor_release(scores);
    gt_tensor_release(target);
    return err;
}

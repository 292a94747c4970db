/*
 * autograd_functions.h: the part of test_autograd.c that lists what is differentiated besides the rows of gt/ops.def that
 * have one signature: each function, and the shapes to differentiate it at. Included in the middle of it.
 */
#ifndef GT_TESTS_AUTOGRAD_FUNCTIONS_H
#define GT_TESTS_AUTOGRAD_FUNCTIONS_H

#include "autograd_linalg.h"

static gt_err run_power_literal(gt_tensor **in, gt_tensor **out)
{
    return gt_pow_scalar(in[0], 2.5, out);
}

static gt_err run_batch_norm(gt_tensor **in, gt_tensor **out)
{
    gt_tensor *moments;
    gt_err err = gt_batch_moments(in[0], &moments);
    if (err)
        return err;
    err = gt_batch_norm(in[0], moments, in[1], in[2], true, 0.1, out);
    gt_tensor_release(moments);
    return err;
}

/* Without weight and bias, and with moments that are not of the input. */
static gt_err run_batch_norm_fixed(gt_tensor **in, gt_tensor **out)
{
    gt_tensor *moments;
    gt_err err = gt_full(gt_tensor_client(in[0]), gt_tensor_dtype(in[0]), 2, (int64_t[]){2, 2}, 0.5, &moments);
    if (err)
        return err;
    err = gt_batch_norm(in[0], moments, NULL, NULL, false, 0.1, out);
    gt_tensor_release(moments);
    return err;
}

static gt_err run_layer_norm(gt_tensor **in, gt_tensor **out)
{
    return gt_layer_norm(in[0], in[1], in[2], 1, 0.1, out);
}

static gt_err run_attention(gt_tensor **in, gt_tensor **out)
{
    return gt_attention(in[0], in[1], in[2], 0.5, 0, out);
}

static gt_err run_attention_causal(gt_tensor **in, gt_tensor **out)
{
    return gt_attention(in[0], in[1], in[2], 0.5, 2, out);
}

static gt_err run_matmul(gt_tensor **in, gt_tensor **out)
{
    return gt_matmul(in[0], in[1], out);
}

static gt_err run_reshape(gt_tensor **in, gt_tensor **out)
{
    return gt_reshape(in[0], 2, (int64_t[]){3, -1}, out);
}

static gt_err run_permute(gt_tensor **in, gt_tensor **out)
{
    return gt_permute(in[0], (int[]){2, 0, 1}, out);
}

static gt_err run_expand(gt_tensor **in, gt_tensor **out)
{
    return gt_expand(in[0], 3, (int64_t[]){2, 2, 3}, out);
}

static gt_err run_slice(gt_tensor **in, gt_tensor **out)
{
    return gt_slice(in[0], (int64_t[]){1, 3}, (int64_t[]){1, -2}, (int64_t[]){2, 2}, out);
}

static gt_err run_assign(gt_tensor **in, gt_tensor **out)
{
    return gt_assign(in[0], (int64_t[]){1, 0}, (int64_t[]){1, 2}, (int64_t[]){2, 2}, in[1], out);
}

static gt_err run_cat(gt_tensor **in, gt_tensor **out)
{
    return gt_cat((gt_tensor *[]){in[0], in[1], in[0]}, 3, 1, out);
}

static gt_err run_tril(gt_tensor **in, gt_tensor **out)
{
    return gt_tril(in[0], 0, out);
}

static gt_err run_triu(gt_tensor **in, gt_tensor **out)
{
    return gt_triu(in[0], 1, out);
}

#define ALONG(name)                                                                                               \
    static gt_err run_##name(gt_tensor **in, gt_tensor **out)                                                     \
    {                                                                                                             \
        return gt_##name(in[0], 1, out);                                                                          \
    }
ALONG(cumsum)
ALONG(cumprod)
ALONG(logcumsumexp)
ALONG(softmax)
ALONG(log_softmax)

#define NORM(name, order)                                                                                         \
    static gt_err run_##name(gt_tensor **in, gt_tensor **out)                                                     \
    {                                                                                                             \
        return gt_norm(in[0], order, 1u << 1, false, out);                                                        \
    }
NORM(norm_one, 1)
NORM(norm_two, 2)
NORM(norm_three, 3)
NORM(norm_half, 0.5)
NORM(norm_most, INFINITY)
NORM(norm_least, -INFINITY)

/* The rules of the gradients of softmax, as functions of a gradient and a result. */
static gt_err run_softmax_backward(gt_tensor **in, gt_tensor **out)
{
    return gt__emit_along(GT_OP_softmax_backward, in[0], in[1], 1, out);
}

static gt_err run_log_softmax_backward(gt_tensor **in, gt_tensor **out)
{
    return gt__emit_along(GT_OP_log_softmax_backward, in[0], in[1], 1, out);
}

static gt_err run_diagonal(gt_tensor **in, gt_tensor **out)
{
    return gt_diagonal(in[0], -1, 2, 0, out);
}

static gt_err run_unfold(gt_tensor **in, gt_tensor **out)
{
    return gt_unfold(in[0], 1, 3, 2, out);
}

static gt_err run_lerp(gt_tensor **in, gt_tensor **out)
{
    return gt_lerp(in[0], in[1], in[2], out);
}

static gt_err run_where(gt_tensor **in, gt_tensor **out)
{
    gt_tensor *condition;
    GT_TRY(gt_gt(in[0], in[1], &condition));
    gt_err err = gt_where(condition, in[0], in[1], out);
    gt_tensor_release(condition);
    return err;
}

/* The same index for all: 2 rows of 2, into axis 1 of length 3. */
static gt_err with_index(gt_tensor **in, gt_err (*run)(gt_tensor *const *in, gt_tensor *index, gt_tensor **out),
                         gt_tensor **out)
{
    gt_tensor *index;
    GT_TRY(gt_from_data(gt_tensor_client(in[0]), GT_INT64, 2, (int64_t[]){2, 2}, (int64_t[]){2, 0, 1, 1}, &index));
    gt_err err = run(in, index, out);
    gt_tensor_release(index);
    return err;
}

static gt_err indexed_take(gt_tensor *const *in, gt_tensor *index, gt_tensor **out)
{
    return gt_take(in[0], index, 1, out);
}

static gt_err indexed_gather(gt_tensor *const *in, gt_tensor *index, gt_tensor **out)
{
    return gt_gather(in[0], index, 1, out);
}

static gt_err indexed_scatter_add(gt_tensor *const *in, gt_tensor *index, gt_tensor **out)
{
    return gt_scatter_add(in[0], index, in[1], 1, out);
}

#define SCATTER_REDUCE(name, reduction, include_self)                                                             \
    static gt_err indexed_##name(gt_tensor *const *in, gt_tensor *index, gt_tensor **out)                         \
    {                                                                                                             \
        return gt_scatter_reduce(in[0], index, in[1], 1, reduction, include_self, out);                           \
    }                                                                                                             \
    static gt_err run_##name(gt_tensor **in, gt_tensor **out)                                                     \
    {                                                                                                             \
        return with_index(in, indexed_##name, out);                                                               \
    }
SCATTER_REDUCE(scatter_sum, GT_SCATTER_SUM, false)
SCATTER_REDUCE(scatter_prod, GT_SCATTER_PROD, true)
SCATTER_REDUCE(scatter_prod_alone, GT_SCATTER_PROD, false)
SCATTER_REDUCE(scatter_mean, GT_SCATTER_MEAN, true)
SCATTER_REDUCE(scatter_mean_alone, GT_SCATTER_MEAN, false)
SCATTER_REDUCE(scatter_amax, GT_SCATTER_AMAX, true)
SCATTER_REDUCE(scatter_amin, GT_SCATTER_AMIN, false)

static gt_err run_take(gt_tensor **in, gt_tensor **out)
{
    return with_index(in, indexed_take, out);
}

static gt_err run_gather(gt_tensor **in, gt_tensor **out)
{
    return with_index(in, indexed_gather, out);
}

static gt_err run_scatter_add(gt_tensor **in, gt_tensor **out)
{
    return with_index(in, indexed_scatter_add, out);
}

/* softplus(tanh(x W1 + b1) W2 + b2); x (2,3), W1 (3,4), b1 (4), W2 (4,2), b2 (2) */
static gt_err run_network(gt_tensor **in, gt_tensor **out)
{
    gt_tensor *step[5] = {NULL};
    gt_err err = gt_matmul(in[0], in[1], &step[0]);
    err = err ? err : gt_add(step[0], in[2], &step[1]);
    err = err ? err : gt_tanh(step[1], &step[2]);
    err = err ? err : gt_matmul(step[2], in[3], &step[3]);
    err = err ? err : gt_add(step[3], in[4], &step[4]);
    err = err ? err : gt_softplus(step[4], out);
    release_all(step, COUNT(step));
    return err;
}

/* (a b)^2 + a: a is used on two paths of different length */
static gt_err run_shared(gt_tensor **in, gt_tensor **out)
{
    gt_tensor *product, *squared;
    GT_TRY(gt_mul(in[0], in[1], &product));
    gt_err err = gt_mul(product, product, &squared);
    gt_tensor_release(product);
    GT_TRY(err);
    err = gt_add(squared, in[0], out);
    gt_tensor_release(squared);
    return err;
}

static const function others[] = {
    LINALG_FUNCTIONS{.name = "power of a literal", .run = run_power_literal, .inputs = {{2, {2, 3}}}},
    {.name = "attention", .run = run_attention, .inputs = {{3, {2, 2, 3}}, {3, {2, 4, 3}}, {3, {2, 4, 2}}}},
    {.name = "attention, causal", .run = run_attention_causal, .inputs = {{2, {4, 3}}, {2, {3, 3}}, {2, {3, 2}}}},
    {.name = "batch_norm", .run = run_batch_norm, .inputs = {{3, {2, 2, 3}}, {1, {2}}, {1, {2}}}},
    {.name = "batch_norm_fixed", .run = run_batch_norm_fixed, .inputs = {{3, {2, 2, 3}}}},
    {.name = "layer_norm", .run = run_layer_norm, .inputs = {{3, {2, 2, 3}}, {2, {2, 3}}, {2, {2, 3}}}},
    {.name = "matmul", .run = run_matmul, .inputs = {{2, {2, 3}}, {2, {3, 4}}}},
    {.name = "matmul, batches", .run = run_matmul, .inputs = {{3, {2, 2, 3}}, {2, {3, 2}}}},
    {.name = "matmul, vector", .run = run_matmul, .inputs = {{2, {2, 3}}, {1, {3}}}},
    {.name = "reshape", .run = run_reshape, .inputs = {{2, {2, 3}}}},
    {.name = "permute", .run = run_permute, .inputs = {{3, {2, 3, 2}}}},
    {.name = "expand", .run = run_expand, .inputs = {{2, {2, 1}}}},
    {.name = "slice", .run = run_slice, .inputs = {{2, {3, 4}}}},
    {.name = "assign", .run = run_assign, .inputs = {{2, {3, 4}}, {1, {2}}}},
    {.name = "cat", .run = run_cat, .inputs = {{2, {2, 3}}, {2, {2, 1}}}},
    {.name = "tril", .run = run_tril, .inputs = {{2, {3, 3}}}},
    {.name = "triu", .run = run_triu, .inputs = {{2, {3, 3}}}},
    {.name = "cumsum", .run = run_cumsum, .inputs = {{2, {2, 4}}}},
    {.name = "cumprod", .run = run_cumprod, .inputs = {{2, {2, 4}}}},
    {.name = "logcumsumexp", .run = run_logcumsumexp, .inputs = {{2, {2, 4}}}},
    {.name = "softmax", .run = run_softmax, .inputs = {{2, {2, 4}}}},
    {.name = "log_softmax", .run = run_log_softmax, .inputs = {{2, {2, 4}}}},
    {.name = "norm_one", .run = run_norm_one, .inputs = {{2, {2, 4}}}},
    {.name = "norm_two", .run = run_norm_two, .inputs = {{2, {2, 4}}}},
    {.name = "norm_three", .run = run_norm_three, .inputs = {{2, {2, 4}}}},
    {.name = "norm_half", .run = run_norm_half, .inputs = {{2, {2, 4}}}},
    {.name = "norm_most", .run = run_norm_most, .inputs = {{2, {2, 4}}}},
    {.name = "norm_least", .run = run_norm_least, .inputs = {{2, {2, 4}}}},
    {.name = "softmax_backward", .run = run_softmax_backward, .inputs = {{2, {2, 4}}, {2, {2, 4}}}},
    {.name = "log_softmax_backward", .run = run_log_softmax_backward, .inputs = {{2, {2, 4}}, {2, {2, 4}}}},
    {.name = "diagonal", .run = run_diagonal, .inputs = {{3, {3, 2, 4}}}},
    {.name = "unfold", .run = run_unfold, .inputs = {{3, {2, 7, 2}}}},
    {.name = "scatter_sum", .run = run_scatter_sum, .inputs = {{2, {2, 3}}, {2, {3, 2}}}},
    {.name = "scatter_prod", .run = run_scatter_prod, .inputs = {{2, {2, 3}}, {2, {3, 2}}}},
    {.name = "scatter_prod_alone", .run = run_scatter_prod_alone, .inputs = {{2, {2, 3}}, {2, {3, 2}}}},
    {.name = "scatter_mean", .run = run_scatter_mean, .inputs = {{2, {2, 3}}, {2, {3, 2}}}},
    {.name = "scatter_mean_alone", .run = run_scatter_mean_alone, .inputs = {{2, {2, 3}}, {2, {3, 2}}}},
    {.name = "scatter_amax", .run = run_scatter_amax, .inputs = {{2, {2, 3}}, {2, {3, 2}}}},
    {.name = "scatter_amin", .run = run_scatter_amin, .inputs = {{2, {2, 3}}, {2, {3, 2}}}},
    {.name = "where", .run = run_where, .inputs = {{2, {2, 3}}, {2, {2, 3}}}},
    {.name = "lerp", .run = run_lerp, .inputs = {{2, {2, 3}}, {2, {2, 3}}, {1, {3}}}},
    {.name = "take", .run = run_take, .inputs = {{2, {2, 3}}}},
    {.name = "gather", .run = run_gather, .inputs = {{2, {2, 3}}}},
    {.name = "scatter_add", .run = run_scatter_add, .inputs = {{2, {2, 3}}, {2, {2, 2}}}},
    {.name = "conv", .run = run_conv, .inputs = {{4, {1, 4, 4, 4}}, {4, {4, 2, 2, 2}}, {1, {4}}}},
    {.name = "conv_input", .run = run_conv_transpose, .inputs = {{3, {2, 2, 3}}, {3, {2, 3, 2}}, {1, {3}}}},
    {.name = "conv_weight", .run = run_conv_weight, .inputs = {{3, {2, 2, 4}}, {3, {2, 3, 3}}}},
    {.name = "max_pool", .run = run_max_pool, .inputs = {{4, {2, 2, 4, 4}}}},
    {.name = "max_pool_input", .run = run_max_pool_input, .inputs = {{2, {2, 4}}}},
    {.name = "avg_pool", .run = run_avg_pool, .inputs = {{4, {2, 1, 5, 4}}}},
    {.name = "avg_pool_input", .run = run_avg_pool_input, .inputs = {{2, {2, 4}}}},
    {.name = "adaptive_avg_pool", .run = run_adaptive_avg_pool, .inputs = {{3, {2, 2, 7}}}},
    {.name = "im2col", .run = run_im2col, .inputs = {{3, {2, 2, 5}}}},
    {.name = "col2im", .run = run_col2im, .inputs = {{3, {2, 4, 3}}}},
    {.name = "resample", .run = run_resample, .inputs = {{3, {2, 4, 3}}}},
    {.name = "resample_input", .run = run_resample_input, .inputs = {{3, {2, 6, 3}}}},
    {.name = "shared", .run = run_shared, .inputs = {{2, {2, 3}}, {1, {3}}}},
    {.name = "network", .run = run_network, .inputs = {{2, {2, 3}}, {2, {3, 4}}, {1, {4}}, {2, {4, 2}}, {1, {2}}}},
};

#endif

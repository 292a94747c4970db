/* autograd_windows.h: convolutions, pooling, im2col and resample as functions for test_autograd.c to
 * differentiate. */
#ifndef GT_TESTS_AUTOGRAD_WINDOWS_H
#define GT_TESTS_AUTOGRAD_WINDOWS_H

#include "client/spatial.h"

static gt_err run_conv(gt_tensor **in, gt_tensor **out)
{
    return gt_conv(in[0], in[1], in[2], 2, (int64_t[]){2, 1}, (int64_t[]){1, 0}, (int64_t[]){1, 2}, 2, out);
}

static gt_err run_conv_transpose(gt_tensor **in, gt_tensor **out)
{
    return gt_conv_transpose(in[0], in[1], in[2], 1, (int64_t[]){2}, (int64_t[]){1}, (int64_t[]){1}, 1,
                             (int64_t[]){2}, out);
}

/* The row itself: there is no function for it, only the gradient of conv. */
static gt_err run_conv_weight(gt_tensor **in, gt_tensor **out)
{
    gt_window w = {.stride = {1}, .padding = {1}, .dilation = {1}, .size = {2}, .groups = 1};
    return gt__emit_window(GT_OP_conv_weight, in[0], in[1], NULL, 1, &w, out);
}

static gt_err run_max_pool(gt_tensor **in, gt_tensor **out)
{
    return gt_max_pool(in[0], 2, (int64_t[]){2, 3}, (int64_t[]){2, 1}, (int64_t[]){0, 1}, (int64_t[]){1, 1}, false,
                       out);
}

/* The second operand says where the maxima are; a little more or less does not move them. */
static gt_err run_max_pool_input(gt_tensor **in, gt_tensor **out)
{
    gt_window w = {.kernel = {2}, .stride = {1}, .dilation = {1}, .size = {5}};
    gt_tensor *x;
    GT_TRY(gt_arange(gt_tensor_client(in[0]), GT_FLOAT64, 0, 10, 1, &x));
    gt_tensor *shaped = NULL;
    gt_err err = gt_reshape(x, 2, (int64_t[]){2, 5}, &shaped);
    gt_tensor_release(x);
    GT_TRY(err);
    err = gt__emit_window(GT_OP_max_pool_input, in[0], shaped, NULL, 1, &w, out);
    gt_tensor_release(shaped);
    return err;
}

static gt_err run_avg_pool(gt_tensor **in, gt_tensor **out)
{
    return gt_avg_pool(in[0], 2, (int64_t[]){2, 3}, (int64_t[]){2, 1}, (int64_t[]){1, 1}, true, false, 0, out);
}

static gt_err run_avg_pool_input(gt_tensor **in, gt_tensor **out)
{
    gt_window w = {.kernel = {2}, .stride = {1}, .dilation = {1}, .size = {5}};
    return gt__emit_window(GT_OP_avg_pool_input, in[0], NULL, NULL, 1, &w, out);
}

static gt_err run_adaptive_avg_pool(gt_tensor **in, gt_tensor **out)
{
    return gt_adaptive_avg_pool(in[0], 1, (int64_t[]){3}, out);
}

static gt_err run_im2col(gt_tensor **in, gt_tensor **out)
{
    return gt_im2col(in[0], 1, (int64_t[]){2}, (int64_t[]){2}, (int64_t[]){1}, (int64_t[]){2}, out);
}

static gt_err run_col2im(gt_tensor **in, gt_tensor **out)
{
    return gt_col2im(in[0], 1, (int64_t[]){4}, (int64_t[]){2}, (int64_t[]){1}, (int64_t[]){0}, (int64_t[]){1},
                     out);
}

static gt_err run_resample(gt_tensor **in, gt_tensor **out)
{
    return gt_resample(in[0], 1, 7, GT_RESAMPLE_CUBIC, false, 0, out);
}

static gt_err run_resample_input(gt_tensor **in, gt_tensor **out)
{
    gt_imm axis_and_mode = {.i = 1 | GT_RESAMPLE_LINEAR << 8};
    return gt__emit_resample(GT_OP_resample_input, in[0], axis_and_mode, 0.5, 3, false, out);
}

#endif

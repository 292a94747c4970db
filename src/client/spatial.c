/*
 * spatial.c: convolutions, pooling, interpolation and im2col with PyTorch's arguments: checks them, computes the sizes that
 * records carry (core/window.h), and emits. The gradient rules in gradients/window.c emit the same rows.
 */
#include "client/spatial.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "client/intercept.h"

typedef gt_window window;

gt_err gt__emit_window(gt_opcode op, gt_tensor *a, gt_tensor *b, gt_tensor *bias, int spatial, const gt_window *w,
                       gt_tensor **out)
{
    gt_instruction prototype = {.op = (uint16_t)op, .rank = (uint8_t)spatial, .tail = GT_WINDOW_TAIL};
    gt_slot tail[GT_WINDOW_TAIL];
    gt_form form = (gt_form)gt__op_table[op].form;
    if (form == GT_FORM_CONV && !bias)
        prototype.literals = GT_LITERAL_INT << 4; /* no bias */
    if (form == GT_FORM_CONV || form == GT_FORM_CONV_WEIGHT) {
        bool exact = atomic_load_explicit(&gt__exact_convolutions, memory_order_relaxed);
        prototype.imm[0].i = exact ? GT_PRODUCT_EXACT : GT_PRODUCT_FAST;
    }
    gt__window_write(tail, w);
    return gt__emit(a->client, prototype, tail, (gt_tensor *[]){a, b, bias}, gt__op_operands(op), out);
}

/* ---- arguments --------------------------------------------------------------------------------------------- */

static const char *sizes_text(int spatial, const int64_t *sizes, char *text, size_t size)
{
    size_t length = 0;
    text[0] = 0;
    for (int axis = 0; axis < spatial && length < size; axis++)
        length +=
            (size_t)snprintf(text + length, size - length, axis ? " x %lld" : "%lld", (long long)sizes[axis]);
    return text;
}

static gt_err check_spatial(const char *name, gt_tensor *a, int spatial, int kept)
{
    if (spatial < 1 || spatial > GT_MAX_SPATIAL)
        return gt__fail(GT_ERR_VALUE, "%s: 1 to %d spatial dimensions, not %d", name, GT_MAX_SPATIAL, spatial);
    if (a->meta.rank < spatial + kept || a->meta.rank > GT_MAX_RANK) {
        char text[128];
        return gt__fail(GT_ERR_VALUE, "%s: expected at least %d dimensions, but got an input of shape %s", name,
                        spatial + kept, gt__sizes_text(a->meta.rank, a->meta.shape, text, sizeof text));
    }
    return GT_OK;
}

static gt_err check_numbers(const char *name, const char *what, int spatial, const int64_t *numbers, int64_t least)
{
    for (int axis = 0; axis < spatial; axis++)
        if (numbers[axis] < least || numbers[axis] > INT32_MAX)
            return gt__fail(GT_ERR_VALUE, "%s: %s should be %s, but got %lld", name, what,
                            least > 0 ? "greater than zero" : "not negative", (long long)numbers[axis]);
    return GT_OK;
}

static void copy_numbers(int64_t *to, const int64_t *from, int spatial)
{
    memcpy(to, from, (size_t)spatial * sizeof *to);
}

static gt_err fill(const char *name, window *w, int spatial, const int64_t *kernel, const int64_t *stride,
                   const int64_t *padding, const int64_t *dilation)
{
    GT_TRY(check_numbers(name, "kernel size", spatial, kernel, 1));
    GT_TRY(check_numbers(name, "stride", spatial, stride, 1));
    GT_TRY(check_numbers(name, "padding", spatial, padding, 0));
    GT_TRY(check_numbers(name, "dilation", spatial, dilation, 1));
    copy_numbers(w->kernel, kernel, spatial);
    copy_numbers(w->stride, stride, spatial);
    copy_numbers(w->padding, padding, spatial);
    copy_numbers(w->dilation, dilation, spatial);
    return GT_OK;
}

/* ---- convolutions ------------------------------------------------------------------------------------------ */

static gt_err check_weight(const char *name, gt_tensor *x, gt_tensor *weight, int spatial)
{
    GT_TRY(check_spatial(name, x, spatial, 2));
    char text[128];
    if (weight->meta.rank != spatial + 2)
        return gt__fail(GT_ERR_VALUE, "%s: expected a weight of %d dimensions, but got shape %s", name,
                        spatial + 2, gt__sizes_text(weight->meta.rank, weight->meta.shape, text, sizeof text));
    if (x->meta.rank != spatial + 2)
        return gt__fail(GT_ERR_VALUE, "%s: expected an input of %d dimensions, but got shape %s", name,
                        spatial + 2, gt__sizes_text(x->meta.rank, x->meta.shape, text, sizeof text));
    return GT_OK;
}

gt_err gt__emit_conv(gt_tensor *x, gt_tensor *weight, gt_tensor *bias, int spatial, const int64_t *stride,
                     const int64_t *padding, const int64_t *behind, const int64_t *dilation, int64_t groups,
                     gt_tensor **out)
{
    window w = {.groups = groups};
    GT_TRY(check_weight("conv", x, weight, spatial));
    const int64_t *kernel = weight->meta.shape + 2, *size = x->meta.shape + 2;
    GT_TRY(fill("conv", &w, spatial, kernel, stride, padding, dilation));
    GT_TRY(check_numbers("conv", "padding", spatial, behind, 0));
    GT_TRY(check_numbers("conv", "input size", spatial, size, 0));
    bool fits = true;
    int64_t padded[GT_MAX_SPATIAL];
    for (int axis = 0; axis < spatial; axis++) {
        int64_t extent = dilation[axis] * (kernel[axis] - 1) + 1;
        padded[axis] = size[axis] + padding[axis] + behind[axis];
        fits &= padded[axis] >= extent;
        w.size[axis] = fits ? (padded[axis] - extent) / stride[axis] + 1 : 0;
    }
    if (!fits) {
        char text_a[96], text_b[96];
        return gt__fail(
            GT_ERR_VALUE,
            "Calculated padded input size per channel: (%s). Kernel size: (%s). Kernel size can't be greater "
            "than actual input size",
            sizes_text(spatial, padded, text_a, sizeof text_a),
            sizes_text(spatial, kernel, text_b, sizeof text_b));
    }
    return gt__emit_window(GT_OP_conv, x, weight, bias, spatial, &w, out);
}

gt_err gt_conv(gt_tensor *x, gt_tensor *weight, gt_tensor *bias, int spatial, const int64_t *stride,
               const int64_t *padding, const int64_t *dilation, int64_t groups, gt_tensor **out)
{
    GT_ARGUMENTS(out, x, weight, stride, padding, dilation);
    return gt__emit_conv(x, weight, bias, spatial, stride, padding, padding, dilation, groups, out);
}

gt_err gt_conv_transpose(gt_tensor *x, gt_tensor *weight, gt_tensor *bias, int spatial, const int64_t *stride,
                         const int64_t *padding, const int64_t *output_padding, int64_t groups,
                         const int64_t *dilation, gt_tensor **out)
{
    GT_ARGUMENTS(out, x, weight, stride, padding, output_padding, dilation);
    window w = {.groups = groups};
    const char *name = "conv_transpose";
    GT_TRY(check_weight(name, x, weight, spatial));
    const int64_t *kernel = weight->meta.shape + 2, *size = x->meta.shape + 2;
    GT_TRY(fill(name, &w, spatial, kernel, stride, padding, dilation));
    GT_TRY(check_numbers(name, "output padding", spatial, output_padding, 0));
    GT_TRY(check_numbers(name, "input size", spatial, size, 1));
    for (int axis = 0; axis < spatial; axis++) {
        if (output_padding[axis] >= stride[axis] && output_padding[axis] >= dilation[axis])
            return gt__fail(
                GT_ERR_VALUE,
                "output padding must be smaller than either stride or dilation, but got output_padding %lld, "
                "stride %lld and dilation %lld",
                (long long)output_padding[axis], (long long)stride[axis], (long long)dilation[axis]);
        w.size[axis] = (size[axis] - 1) * stride[axis] - 2 * padding[axis] + dilation[axis] * (kernel[axis] - 1) +
                       output_padding[axis] + 1;
        if (w.size[axis] <= 0)
            return gt__fail(GT_ERR_VALUE,
                            "Given input size per channel: (%lld). Calculated output size per channel: "
                            "(%lld). Output size is too small",
                            (long long)size[axis], (long long)w.size[axis]);
    }
    return gt__emit_window(GT_OP_conv_input, x, weight, bias, spatial, &w, out);
}

/* ---- pooling ----------------------------------------------------------------------------------------------- */

/* The number of windows along an axis; with `ceil`, the last one may reach past the end. */
static int64_t window_count(int64_t size, int64_t padding, int64_t stride, int64_t extent, bool ceil)
{
    int64_t room = size + 2 * padding - extent + (ceil ? stride - 1 : 0);
    if (room < 0)
        return 0;
    int64_t count = room / stride + 1;
    return ceil && (count - 1) * stride >= size + padding ? count - 1 : count;
}

static gt_err plan_pool(const char *name, gt_tensor *x, int spatial, const int64_t *kernel, const int64_t *stride,
                        const int64_t *padding, const int64_t *dilation, bool ceil, window *w)
{
    GT_TRY(check_spatial(name, x, spatial, 0));
    GT_TRY(fill(name, w, spatial, kernel, stride, padding, dilation));
    const int64_t *size = x->meta.shape + x->meta.rank - spatial;
    GT_TRY(check_numbers(name, "input size", spatial, size, 1));
    for (int axis = 0; axis < spatial; axis++) {
        int64_t extent = dilation[axis] * (kernel[axis] - 1) + 1;
        if (padding[axis] > extent / 2)
            return gt__fail(
                GT_ERR_VALUE,
                "pad should be at most half of effective kernel size, but got pad=%lld, kernel_size=%lld and "
                "dilation=%lld",
                (long long)padding[axis], (long long)kernel[axis], (long long)dilation[axis]);
        w->size[axis] = window_count(size[axis], padding[axis], stride[axis], extent, ceil);
        if (w->size[axis] < 1) {
            char text[96];
            return gt__fail(GT_ERR_VALUE, "%s: Given input size: (%s). Output size is too small", name,
                            sizes_text(spatial, size, text, sizeof text));
        }
    }
    return GT_OK;
}

gt_err gt_max_pool(gt_tensor *x, int spatial, const int64_t *kernel, const int64_t *stride, const int64_t *padding,
                   const int64_t *dilation, bool ceil_mode, gt_tensor **out)
{
    GT_ARGUMENTS(out, x, kernel, stride, padding, dilation);
    window w = {0};
    GT_TRY(plan_pool("max_pool", x, spatial, kernel, stride, padding, dilation, ceil_mode, &w));
    return gt__emit_window(GT_OP_max_pool, x, x, NULL, spatial, &w, out);
}

gt_err gt_max_pool_index(gt_tensor *x, int spatial, const int64_t *kernel, const int64_t *stride,
                         const int64_t *padding, const int64_t *dilation, bool ceil_mode, gt_tensor **out)
{
    GT_ARGUMENTS(out, x, kernel, stride, padding, dilation);
    window w = {0};
    GT_TRY(plan_pool("max_pool", x, spatial, kernel, stride, padding, dilation, ceil_mode, &w));
    return gt__emit_window(GT_OP_max_pool_index, x, NULL, NULL, spatial, &w, out);
}

gt_err gt_avg_pool(gt_tensor *x, int spatial, const int64_t *kernel, const int64_t *stride, const int64_t *padding,
                   bool ceil_mode, bool count_include_pad, int64_t divisor_override, gt_tensor **out)
{
    GT_ARGUMENTS(out, x, kernel, stride, padding);
    window w = {.divisor = divisor_override, .count_padding = count_include_pad};
    static const int64_t ones[GT_MAX_SPATIAL] = {1, 1, 1};
    GT_TRY(plan_pool("avg_pool", x, spatial, kernel, stride, padding, ones, ceil_mode, &w));
    return gt__emit_window(GT_OP_avg_pool, x, NULL, NULL, spatial, &w, out);
}

static gt_err plan_adaptive(const char *name, gt_tensor *x, int spatial, const int64_t *size, window *w)
{
    GT_TRY(check_spatial(name, x, spatial, 0));
    GT_TRY(check_numbers(name, "output size", spatial, size, 0));
    for (int axis = 0; axis < spatial; axis++) {
        w->stride[axis] = w->dilation[axis] = 1;
        if (x->meta.shape[x->meta.rank - spatial + axis] == 0)
            return gt__fail(GT_ERR_VALUE, "%s: Expected input to have non-zero size for non-batch dimensions",
                            name);
    }
    copy_numbers(w->size, size, spatial);
    return GT_OK;
}

gt_err gt_adaptive_avg_pool(gt_tensor *x, int spatial, const int64_t *size, gt_tensor **out)
{
    GT_ARGUMENTS(out, x, size);
    window w = {0};
    GT_TRY(plan_adaptive("adaptive_avg_pool", x, spatial, size, &w));
    return gt__emit_window(GT_OP_avg_pool, x, NULL, NULL, spatial, &w, out);
}

gt_err gt_adaptive_max_pool(gt_tensor *x, int spatial, const int64_t *size, gt_tensor **out)
{
    GT_ARGUMENTS(out, x, size);
    window w = {0};
    GT_TRY(plan_adaptive("adaptive_max_pool", x, spatial, size, &w));
    return gt__emit_window(GT_OP_max_pool, x, x, NULL, spatial, &w, out);
}

gt_err gt_adaptive_max_pool_index(gt_tensor *x, int spatial, const int64_t *size, gt_tensor **out)
{
    GT_ARGUMENTS(out, x, size);
    window w = {0};
    GT_TRY(plan_adaptive("adaptive_max_pool", x, spatial, size, &w));
    return gt__emit_window(GT_OP_max_pool_index, x, NULL, NULL, spatial, &w, out);
}

/* ---- im2col and resample ----------------------------------------------------------------------------------- */

/* How many windows im2col has along each axis of an image of this size. */
static gt_err count_windows(const char *name, const window *w, int spatial, const int64_t *size, int64_t *windows)
{
    GT_TRY(check_numbers(name, "image size", spatial, size, 1));
    for (int axis = 0; axis < spatial; axis++) {
        int64_t extent = w->dilation[axis] * (w->kernel[axis] - 1) + 1;
        windows[axis] = window_count(size[axis], w->padding[axis], w->stride[axis], extent, false);
        if (windows[axis] < 1) {
            char text_a[96], text_b[96];
            return gt__fail(
                GT_ERR_VALUE,
                "%s: Given input with spatial size (%s), kernel_size=(%s), the array of sliding blocks has a "
                "size that is not positive",
                name, sizes_text(spatial, size, text_a, sizeof text_a),
                sizes_text(spatial, w->kernel, text_b, sizeof text_b));
        }
    }
    return GT_OK;
}

gt_err gt_im2col(gt_tensor *x, int spatial, const int64_t *kernel, const int64_t *stride, const int64_t *padding,
                 const int64_t *dilation, gt_tensor **out)
{
    GT_ARGUMENTS(out, x, kernel, stride, padding, dilation);
    window w = {0};
    GT_TRY(check_spatial("im2col", x, spatial, 2));
    GT_TRY(fill("im2col", &w, spatial, kernel, stride, padding, dilation));
    GT_TRY(count_windows("im2col", &w, spatial, x->meta.shape + 2, w.size));
    return gt__emit_window(GT_OP_im2col, x, NULL, NULL, spatial, &w, out);
}

gt_err gt_col2im(gt_tensor *columns, int spatial, const int64_t *size, const int64_t *kernel,
                 const int64_t *stride, const int64_t *padding, const int64_t *dilation, gt_tensor **out)
{
    GT_ARGUMENTS(out, columns, size, kernel, stride, padding, dilation);
    window w = {0};
    if (spatial < 1 || spatial > GT_MAX_SPATIAL)
        return gt__fail(GT_ERR_VALUE, "col2im: 1 to %d spatial dimensions, not %d", GT_MAX_SPATIAL, spatial);
    GT_TRY(fill("col2im", &w, spatial, kernel, stride, padding, dilation));
    GT_TRY(count_windows("col2im", &w, spatial, size, w.from));
    copy_numbers(w.size, size, spatial);
    return gt__emit_window(GT_OP_col2im, columns, NULL, NULL, spatial, &w, out);
}

gt_err gt__emit_resample(gt_opcode op, gt_tensor *a, gt_imm axis_and_mode, double step, int64_t size, bool aligned,
                         gt_tensor **out)
{
    gt_instruction prototype = {.op = (uint16_t)op, .tail = 1, .imm = {axis_and_mode, {.f = step}}};
    gt_slot tail = {.i64 = {size, aligned}};
    return gt__emit(a->client, prototype, &tail, &a, 1, out);
}

gt_err gt_resample(gt_tensor *a, int axis, int64_t size, gt_resample_mode mode, bool align_corners, double scale,
                   gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    if (axis < 0 || axis >= a->meta.rank)
        return gt__fail(GT_ERR_INDEX, "resample: axis %d is out of range for a tensor of %u dimensions", axis,
                        a->meta.rank);
    double from = (double)a->meta.shape[axis], step = size > 0 ? from / (double)size : 0;
    if (align_corners && mode >= GT_RESAMPLE_LINEAR)
        step = size > 1 ? (from - 1) / (double)(size - 1) : 0;
    else if (scale > 0)
        step = 1 / scale;
    gt_imm packed = {.i = axis | (int64_t)mode << 8};
    return gt__emit_resample(GT_OP_resample, a, packed, step, size, align_corners && mode >= GT_RESAMPLE_LINEAR,
                             out);
}

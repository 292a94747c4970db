/*
 * autograd_api.c: the gradient functions of gt.h, the counterpart of python/extension/autograd.c. Recording and the
 * backward walk are in autograd.c and backward.c. Tests: tests/c/test_autograd.c.
 */
#include <stdlib.h>

#include "client/storage.h"

bool gt_tensor_requires_grad(const gt_tensor *tensor)
{
    return tensor && tensor->node;
}

gt_err gt_tensor_set_requires_grad(gt_tensor *tensor, bool wanted)
{
    GT_REQUIRE(tensor);
    if (wanted)
        return gt__tensor_require_grad(tensor);
    gt_node *node = tensor->node;
    if (node && node->op != GT_OP_INVALID)
        return gt__fail(GT_ERR_VALUE, "this tensor was computed from others that require gradients; use "
                                      "gt_detach");
    tensor->node = NULL;
    gt__node_release(node);
    return GT_OK;
}

gt_err gt_detach(gt_tensor *a, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    return gt__tensor_detach(a, out);
}

gt_err gt_tensor_grad(gt_tensor *tensor, gt_tensor **gradient)
{
    GT_ARGUMENTS(gradient, tensor);
    if (!tensor->node)
        return GT_OK;
    GT_TRY(gt__node_gradient(tensor->node, gradient));
    gt_tensor_retain(*gradient);
    return GT_OK;
}

void gt_tensor_clear_grad(gt_tensor *tensor)
{
    if (tensor && tensor->node)
        gt__node_drop_gradient(tensor->node);
}

gt_err gt_backward(gt_tensor *loss, gt_tensor *gradient, bool retain_graph)
{
    GT_REQUIRE(loss);
    gt_backward_options options = {.retain_graph = retain_graph};
    return gt__autograd_run(&loss, &gradient, 1, NULL, 0, NULL, options);
}

static gt_err check_list(const char *name, gt_tensor *const *tensors, int count)
{
    for (int k = 0; k < count; k++)
        if (!tensors[k])
            return gt__fail(GT_ERR_VALUE, "gt_grad: %s[%d] is NULL", name, k);
    return GT_OK;
}

/* results: room for a gradient of each input, all NULL. */
static gt_err grad(gt_tensor *const *outputs, gt_tensor *const *output_gradients, int output_count,
                   gt_tensor *const *inputs, int input_count, gt_backward_options options, gt_tensor **results)
{
    if (!results)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    GT_TRY(check_list("outputs", outputs, output_count));
    GT_TRY(check_list("inputs", inputs, input_count));
    return gt__autograd_run(outputs, output_gradients, (unsigned)output_count, inputs, (unsigned)input_count,
                            results, options);
}

gt_err gt_grad(gt_tensor *const *outputs, gt_tensor *const *output_gradients, int output_count,
               gt_tensor *const *inputs, int input_count, bool retain_graph, bool create_graph,
               gt_tensor **gradients)
{
    GT_REQUIRE(gradients);
    if (output_count < 1 || input_count < 1)
        return gt__fail(GT_ERR_VALUE, "gt_grad needs at least one output and one input");
    gt_backward_options options = {
        .retain_graph = retain_graph || create_graph, .create_graph = create_graph, .allow_unused = true};
    gt_tensor **results = calloc((size_t)input_count, sizeof(gt_tensor *));
    gt_err err = !outputs  ? gt__null_argument(__func__, "outputs", 0)
                 : !inputs ? gt__null_argument(__func__, "inputs", 0)
                           : grad(outputs, output_gradients, output_count, inputs, input_count, options, results);
    for (int k = 0; k < input_count; k++) /* last: the gradients may be written over the inputs */
        gradients[k] = results ? results[k] : NULL;
    free(results);
    return err;
}

bool gt_set_grad_enabled(bool enabled)
{
    return gt__grad_enable(enabled);
}

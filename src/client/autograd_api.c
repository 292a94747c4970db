/*
 * autograd_api.c: the gradient functions of gt.h. They say in C what python/extension/autograd.c says in Python;
 * recording and the backward walk are in autograd.c. Tests: tests/c/test_autograd.c.
 */
#include <stdlib.h>

#include "client/autograd.h"

bool gt_tensor_requires_grad(const gt_tensor *tensor)
{
    return tensor->node != NULL;
}

gt_err gt_tensor_set_requires_grad(gt_tensor *tensor, bool wanted)
{
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
    return gt__tensor_detach(a, out);
}

gt_err gt_tensor_grad(gt_tensor *tensor, gt_tensor **gradient)
{
    bool there = tensor->node && tensor->node->gradient;
    *gradient = there ? gt_tensor_retain(tensor->node->gradient) : NULL;
    return GT_OK;
}

void gt_tensor_clear_grad(gt_tensor *tensor)
{
    if (!tensor->node)
        return;
    gt_tensor *gradient = tensor->node->gradient;
    tensor->node->gradient = NULL;
    gt_tensor_release(gradient);
}

gt_err gt_backward(gt_tensor *loss, gt_tensor *gradient, bool retain_graph)
{
    gt_backward_options options = {.retain_graph = retain_graph};
    return gt__autograd_run(&loss, &gradient, 1, NULL, 0, NULL, options);
}

gt_err gt_grad(gt_tensor *const *outputs, gt_tensor *const *output_gradients, int output_count,
               gt_tensor *const *inputs, int input_count, bool retain_graph, bool create_graph,
               gt_tensor **gradients)
{
    if (output_count < 1 || input_count < 1)
        return gt__fail(GT_ERR_VALUE, "gt_grad needs at least one output and one input");
    gt_backward_options options = {
        .retain_graph = retain_graph || create_graph, .create_graph = create_graph, .allow_unused = true};
    gt_tensor **results = calloc((size_t)input_count, sizeof(gt_tensor *));
    if (!results)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    gt_err err = gt__autograd_run(outputs, output_gradients, (unsigned)output_count, inputs, (unsigned)input_count,
                                  results, options);
    for (int k = 0; k < input_count && err == GT_OK; k++)
        gradients[k] = results[k];
    free(results);
    return err;
}

bool gt_set_grad_enabled(bool enabled)
{
    return gt__grad_enable(enabled);
}

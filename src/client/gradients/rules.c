/*
 * rules.c: the table of gradient rules, one for each DIFF row of core/ops.def, and how client/autograd.c calls them.
 *
 * Rules emit ordinary ops, so they are the same on every engine and can be differentiated again. Read steps.h, then the
 * family you are after: elementwise, reduce (with scans and matmul), move, norm, window, linalg.
 */
#include "client/gradients/steps.h"

#define ENTRY_DIFF(name) [GT_OP_##name] = &gt__gradient_##name,
#define ENTRY_NONE(name)
static const gt_gradient *const gradients[GT_OP_COUNT] = {
#define OP(name, form, types, grad) ENTRY_##grad(name)
#include "core/ops.def"
};

unsigned gt__gradient_saves(gt_opcode op)
{
    return gradients[op]->saves;
}

static gt_tensor *retain_saved(gt_tensor *saved)
{
    return saved ? gt_tensor_retain(saved) : NULL;
}

gt_err gt__gradient_rule(gt_node *node, gt_tensor *gradient, const bool *wanted, bool create_graph,
                         gt_tensor **results)
{
    gt_frame f = {.node = node, .g = gradient, .wanted = wanted, .create_graph = create_graph, .results = results};
    /* Own references: while a step waits for room, another thread's pass may drop the node's saved values. */
    f.x = retain_saved(node->saved[0]);
    f.y = retain_saved(node->saved[1]);
    f.z = retain_saved(node->saved[2]);
    /* For a second derivative the saved result must lead back to this node. */
    if (create_graph && node->saved_out)
        f.err = gt__tensor_alias(node->saved_out, node, &f.out);
    else
        f.out = retain_saved(node->saved_out);
    if (f.err == GT_OK)
        gradients[node->op]->rule(&f);
    for (unsigned k = 0; k < f.count; k++)
        gt_tensor_release(f.temporary[k]);
    gt_tensor_release(f.x);
    gt_tensor_release(f.y);
    gt_tensor_release(f.z);
    gt_tensor_release(f.out);
    return f.err;
}

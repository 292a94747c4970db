/*
 * gradients.c: one rule per differentiable row of the op table, written in ordinary ops.
 *
 * The rules are in gradients_*.h by family, all in this one translation unit: a DIFF row without a RULE(...) there does not
 * compile.
 */
#include "client/gradients_elementwise.h"
#include "client/gradients_linalg.h"
#include "client/gradients_move.h"
#include "client/gradients_norm.h"
#include "client/gradients_reduce.h"
#include "client/gradients_window.h"

#define ENTRY_DIFF(name) [GT_OP_##name] = {.rule = rule_##name, .saves = saves_##name},
#define ENTRY_NONE(name)
static const struct {
    void (*rule)(frame *);
    uint16_t saves;
} rules[GT_OP_COUNT] = {
#define OP(name, form, types, grad) ENTRY_##grad(name)
#include "core/ops.def"
};

unsigned gt__gradient_saves(gt_opcode op)
{
    return rules[op].saves;
}

static gt_tensor *retain_saved(gt_tensor *saved)
{
    return saved ? gt_tensor_retain(saved) : NULL;
}

gt_err gt__gradient_rule(gt_node *node, gt_tensor *gradient, const bool *wanted, bool create_graph,
                         gt_tensor **results)
{
    frame f = {.node = node, .g = gradient, .wanted = wanted, .create_graph = create_graph, .results = results};
    /* References of our own: a step may wait for room, and another thread's pass drop what the node saved. */
    f.x = retain_saved(node->saved[0]);
    f.y = retain_saved(node->saved[1]);
    f.z = retain_saved(node->saved[2]);
    /* For a second derivative the saved result must lead back to this node. */
    if (create_graph && node->saved_out)
        f.err = gt__tensor_alias(node->saved_out, node, &f.out);
    else
        f.out = retain_saved(node->saved_out);
    if (f.err == GT_OK)
        rules[node->op].rule(&f);
    for (unsigned k = 0; k < f.count; k++)
        gt_tensor_release(f.temporary[k]);
    gt_tensor_release(f.x);
    gt_tensor_release(f.y);
    gt_tensor_release(f.z);
    gt_tensor_release(f.out);
    return f.err;
}

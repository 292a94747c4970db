/*
 * rules.c: the table of gradient rules, one for each DIFF row of core/ops.def, and how client/backward.c calls them.
 *
 * Rules emit ordinary ops, so they are the same on every engine and can be differentiated again. Read steps.h, then the
 * family you are after: elementwise, reduce (with scans and matmul), move, norm, window, linalg,
 * complex.
 */
#include "client/gradients/steps.h"

/* Copies, not pointers: every recorded op reads `saves`, and there one more dependent load is measurable. */
static gt_gradient gradients[GT_OP_COUNT];

__attribute__((constructor)) static void collect_rules(void)
{
#define COLLECT_DIFF(name) gradients[GT_OP_##name] = gt__gradient_##name;
#define COLLECT_NONE(name)
#define OP(name, form, types, grad) COLLECT_##grad(name)
#include "core/ops.def"
}

unsigned gt__gradient_saves(gt_opcode op)
{
    return gradients[op].saves;
}

/*
 * Does the rule compute g * f'(x) where complex numbers want g * conj(f'(x))? Then conj(rule(conj(g))) is right. A product
 * with a number, which is real, is right as it is.
 */
static bool wants_conjugates(const gt_node *node)
{
    return gt__dtype_is_complex((gt_dtype)node->out.dtype) && gt__op_complex[node->op] == GT_COMPLEX_CONJ &&
           !((node->op == GT_OP_mul || node->op == GT_OP_div) && node->ins.literals);
}

static gt_err conjugate_results(unsigned count, gt_tensor **results)
{
    for (unsigned k = 0; k < count; k++) {
        gt_tensor *other = NULL;
        if (!results[k] || !gt__dtype_is_complex((gt_dtype)results[k]->meta.dtype))
            continue;
        GT_TRY(gt_conj(results[k], &other));
        gt_tensor_release(results[k]);
        results[k] = other;
    }
    return GT_OK;
}

/* A user depends on which in-place operations PyTorch refuses, so where a rule here reads more than PyTorch's, that is not
 * checked. */
unsigned gt__gradient_checks(const gt_node *node)
{
    switch (node->op) {
    case GT_OP_div:
    case GT_OP_sinc:
        return GT_SAVE_0 | GT_SAVE_1;
    case GT_OP_lerp:
        return !node->saved[2] ? 0 : node->operands[2].node ? GT_SAVE_0 | GT_SAVE_1 | GT_SAVE_2 : GT_SAVE_2;
    case GT_OP_scatter_add: /* the index is for the gradient of the source */
        return GT_SAVE_0 | (node->operands[2].node ? GT_SAVE_1 : 0) | GT_SAVE_2;
    case GT_OP_svd: /* PyTorch's have the vectors, not the matrix */
    case GT_OP_eigh:
        return GT_SAVE_OUT;
    case GT_OP_remainder:
    case GT_OP_fmod:
        return node->operands[1].node ? GT_SAVE_0 | GT_SAVE_1 : 0;
    default:
        return GT_SAVE_0 | GT_SAVE_1 | GT_SAVE_2 | GT_SAVE_OUT;
    }
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
    bool conjugates = wants_conjugates(node);
    if (f.err == GT_OK && conjugates)
        f.g = gt__step_unary(&f, GT_OP_conj, gradient);
    if (f.err == GT_OK)
        gradients[node->op].rule(&f);
    if (f.err == GT_OK && conjugates)
        f.err = conjugate_results(node->count, results);
    for (unsigned k = 0; k < f.count; k++)
        gt_tensor_release(f.temporary[k]);
    gt_tensor_release(f.x);
    gt_tensor_release(f.y);
    gt_tensor_release(f.z);
    gt_tensor_release(f.out);
    return f.err;
}

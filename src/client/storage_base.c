/*
 * storage_base.c: the tensor that views are views of: its object's alias. See storage.h.
 *
 * That is the family's first alias, until the object changes its shape in place (unsqueeze_(), t_()). It then has a view of the
 * first alias, the face of the family. The views that were taken before still belong to the object: if it becomes a leaf, they
 * require a gradient.
 */
#include "client/storage.h"

gt_alias *gt__alias_base(gt_alias *family)
{
    return family->face ? family->face : family;
}

bool gt__alias_base_is_leaf(const gt_alias *family)
{
    const gt_node *node = gt__alias_node(family);
    return !node || node->op == GT_OP_INVALID || (family->face && family->face->node);
}

void gt__alias_change_face(gt_alias *before, gt_alias *view)
{
    bool invertible = view->kind == GT_CUT_RESHAPE || view->kind == GT_CUT_PERMUTE;
    bool base = gt__alias_is_base(before);
    if (view->storage != before->storage) { /* resize_() */
        view->creation = view->creation == GT_CREATED_NO_GRAD ? GT_CREATED_PLAIN : view->creation;
        return;
    }
    view->creation = before->creation;
    view->maker = before->maker;
    view->output = before->output;
    if (base && !before->node)
        before->family->face = invertible && view->parent == before ? view : NULL;
    else if (!base)
        view->made_at = before->made_at;
}

/* The inverse of a cut that is a reshape or a permutation. */
static gt_err invert(const gt_alias *alias, gt_tensor *value, gt_tensor **out)
{
    const gt_meta *meta = &alias->parent->shell.meta;
    int axes[GT_MAX_RANK];
    if (alias->kind == GT_CUT_RESHAPE)
        return gt_reshape(value, meta->rank, meta->shape, out);
    for (int k = 0; k < meta->rank; k++)
        axes[alias->arguments.imm[0].u >> (8 * k) & 0xff] = k;
    return gt_permute(value, axes, out);
}

/* The family's tensor as it is computed from that of its face, whose node is the leaf. */
static gt_err computed_from(gt_alias *face, gt_node *leaf, gt_tensor **out)
{
    gt_tensor *value, *next;
    GT_TRY(gt__alias_cut(face, &value));
    GT_TRY(gt__tensor_alias(value, leaf, &value));
    bool before = gt__grad_enable(true);
    gt_err err = GT_OK;
    for (const gt_alias *alias = face; alias != face->family && err == GT_OK; alias = alias->parent)
        if ((err = invert(alias, value, &next)) == GT_OK)
            gt__replace(&value, next);
    gt__grad_enable(before);
    if (err != GT_OK)
        gt__replace(&value, NULL);
    *out = value;
    return err;
}

gt_err gt__alias_set_face_node(gt_alias *face, gt_node *leaf)
{
    gt_tensor *computed = NULL;
    if (leaf)
        GT_TRY(computed_from(face, leaf, &computed));
    gt_node *node = computed ? gt__node_retain(computed->node) : NULL, *before = face->node;
    gt_tensor_release(computed);
    gt_err err = gt__alias_set_node(face->family, node);
    if (err != GT_OK) {
        gt__node_release(node);
        return err;
    }
    face->node = leaf;
    face->tracked = face->known = false;
    gt__alias_drop_cut(face);
    gt__node_release(before);
    return GT_OK;
}

/*
 * storage_cut.c: the values of aliases. See storage.h.
 *
 * An alias is cut from the value of its parent when it is used: by the operation that made the view, or (as_strided) by the
 * positions of its elements. The cut is recorded if the view has a gradient.
 */
#include "client/storage.h"

/* What an alias is cut from: its parent, or for STRIDED the elements that PyTorch's as_strided has its gradient from. */
static gt_alias *source_of(const gt_alias *alias, bool recorded, bool rebased)
{
    const gt_alias *parent = alias->parent;
    bool changed = alias->made_at != alias->versions->count;
    if (alias->kind != GT_CUT_STRIDED)
        return alias->parent;
    if (recorded && !changed && !rebased && !gt__strides_may_overlap(&parent->shell.meta, &parent->strides))
        return alias->parent;
    return alias->family->whole || recorded ? alias->family : &alias->storage->root;
}

/* flat[positions]: any elements. */
static gt_err cut_strided(const gt_alias *alias, const gt_alias *from, gt_tensor *value, gt_tensor **out)
{
    const gt_meta *meta = &alias->shell.meta;
    gt_tensor *positions, *flat, *taken = NULL;
    int64_t numel = value->meta.numel;
    gt_err err;
    if (!gt__alias_covers(from) || meta->dtype != value->meta.dtype) {
        bool shared = !from->whole && gt__strides_may_overlap(&from->shell.meta, &from->strides);
        if (shared && value->node)
            return gt__fail(
                GT_ERR_UNSUPPORTED,
                "as_strided() of a tensor that requires a gradient and has several elements in one place is "
                "not supported: clone() it");
        err = from->whole ? gt__memory_flat(alias->storage, value, (gt_dtype)meta->dtype, &flat)
                          : gt__memory_with(from, value, (gt_dtype)meta->dtype, &flat);
        GT_TRY(err);
        err = gt__memory_take(flat, meta, &alias->strides, out);
        gt_tensor_release(flat);
        return err;
    }
    GT_TRY(gt__emit_positions(alias->storage, meta, &alias->strides, &positions));
    err = gt_reshape(value, 1, &numel, &flat);
    if (err == GT_OK) {
        err = gt_take(flat, positions, 0, &taken);
        gt_tensor_release(flat);
    }
    gt_tensor_release(positions);
    GT_TRY(err);
    err = gt_reshape(taken, meta->rank, meta->shape, out);
    gt_tensor_release(taken);
    return err;
}

static gt_err cut_slice(const gt_alias *alias, gt_tensor *value, gt_tensor **out)
{
    const gt_meta *meta = &alias->shell.meta;
    const int64_t(*window)[GT_MAX_RANK] = alias->arguments.window;
    bool whole = true;
    for (unsigned axis = 0; axis < value->meta.rank; axis++)
        whole = whole && window[2][axis] == value->meta.shape[axis] && window[1][axis] == 1;
    gt_tensor *slice;
    if (whole)
        slice = gt_tensor_retain(value);
    else
        GT_TRY(gt_slice(value, window[0], window[1], window[2], &slice));
    if (!whole && gt__meta_same_shape(&slice->meta, meta)) {
        *out = slice;
        return GT_OK;
    }
    gt_err err = gt_reshape(slice, meta->rank, meta->shape, out);
    gt_tensor_release(slice);
    return err;
}

/* Emit the cut on the value of `from`. */
static gt_err emit_cut(const gt_alias *alias, const gt_alias *from, gt_tensor *value, gt_tensor **out)
{
    const gt_meta *meta = &alias->shell.meta;
    const gt_cut_arguments *arguments = &alias->arguments;
    gt_instruction prototype = {.imm = {arguments->imm[0], arguments->imm[1]}};
    switch ((gt_cut)alias->kind) {
    case GT_CUT_NONE:
        return gt__tensor_alias(value, alias->node, out);
    case GT_CUT_RESHAPE:
        return gt_reshape(value, meta->rank, meta->shape, out);
    case GT_CUT_EXPAND:
        return gt_expand(value, meta->rank, meta->shape, out);
    case GT_CUT_SLICE:
        return cut_slice(alias, value, out);
    case GT_CUT_UNFOLD:
        return gt_unfold(value, (int)arguments->unfold[0], arguments->unfold[1], arguments->unfold[2], out);
    case GT_CUT_STRIDED:
        return cut_strided(alias, from, value, out);
    case GT_CUT_REAL:
        return gt_view_as_real(value, out);
    case GT_CUT_COMPLEX:
        return gt_view_as_complex(value, out);
    case GT_CUT_PERMUTE:
        prototype.op = GT_OP_permute;
        break;
    case GT_CUT_DIAGONAL:
        prototype.op = GT_OP_diagonal;
        break;
    }
    return gt__emit(value->client, prototype, NULL, &value, 1, out);
}

/*
 * Whose gradient the cut has. PyTorch keeps the grad_fn of a view as it was made, until a write to its base gives it another
 * one. A view made without a grad_fn, of a base that requires a gradient by now, is a leaf until then.
 */
typedef enum history { RECORDED, OWN, NEW_LEAF, NO_HISTORY } history;

static history history_of(const gt_alias *alias)
{
    bool changed = alias->made_at != alias->versions->count;
    bool tracked = alias->family != alias && gt__alias_node(alias->family);
    if (alias->family == alias || (alias->family->face == alias && alias->node))
        return OWN;
    if (changed && alias->creation != GT_CREATED_PLAIN && (tracked || alias->tracked))
        return NO_HISTORY; /* gt__alias_check_use refuses it where it matters */
    if (alias->tracked || (changed && tracked))
        return RECORDED;
    return !tracked || alias->node || !gt__dtype_is_inexact((gt_dtype)alias->shell.meta.dtype) ? OWN : NEW_LEAF;
}

/* A new cut of `value`, as the history wants it. */
static gt_err cut_from(gt_alias *alias, const gt_alias *from, gt_tensor *value, history of, gt_tensor **out)
{
    gt_tensor *cut, *own;
    bool before = gt__grad_enabled(), switched = value->node && before != (of == RECORDED);
    if (switched)
        gt__grad_enable(of == RECORDED);
    gt_err err = emit_cut(alias, from, value, &cut);
    if (switched)
        gt__grad_enable(before);
    GT_TRY(err);
    if (of == NEW_LEAF && !alias->node) {
        err = gt__node_new_leaf(alias->shell.client, &alias->shell.meta, &alias->node);
        if (err == GT_OK)
            alias->node->discards = true;
    }
    if (err == GT_OK && of != RECORDED && of != NO_HISTORY && alias->node && !cut->node &&
        gt__alias_requires_grad(alias)) {
        err = gt__tensor_alias(cut, alias->node, &own);
        gt_tensor_release(cut);
        cut = err == GT_OK ? own : NULL;
    }
    if (err != GT_OK)
        gt_tensor_release(cut);
    *out = cut;
    return err;
}

static void keep_cut(gt_alias *alias, gt_tensor *cut, history of)
{
    if (of == RECORDED && cut->node) {
        gt_node *leaf = alias->node;
        if (leaf)
            leaf->leaf = (gt_leaf){.moved = true};
        alias->node = NULL;
        alias->tracked = true;
        alias->made_at = alias->versions->count;
        gt__node_release(leaf);
    }
    gt__alias_link_cut(alias, cut);
    gt__alias_stamp(cut, alias->versions);
    gt_node *retaining = alias->retaining;
    if (__builtin_expect(retaining != NULL, 0) && !alias->anchored) {
        alias->retaining = NULL;
        if (cut->node)
            gt__node_move_gradient(retaining, cut->node);
        gt__node_release(retaining);
    }
}

/*
 * A view keeps its history when its base no longer requires a gradient; after a write it has one that leads nowhere. Replaces
 * *value, which is the caller's.
 */
static gt_err with_history(const gt_alias *alias, gt_tensor **value)
{
    gt_tensor *recorded;
    gt_node *nowhere = NULL;
    bool changed = alias->made_at != alias->versions->count;
    /* Also of a view of a view that was made a leaf: it follows the base from now on. */
    bool ended = changed && !gt__alias_node(alias->family);
    if (((*value)->node && !ended) || !alias->tracked)
        return GT_OK;
    if (changed || !alias->history) {
        GT_TRY(gt__node_new_leaf((*value)->client, &(*value)->meta, &nowhere));
        nowhere->discards = true;
    }
    gt_err err = gt__tensor_alias(*value, nowhere ? nowhere : alias->history, &recorded);
    gt__node_release(nowhere);
    GT_TRY(err);
    gt_tensor_release(*value);
    *value = recorded;
    return GT_OK;
}

gt_err gt__alias_replay(gt_alias *view, bool rebased, gt_tensor **out)
{
    gt_tensor *value;
    if (gt__alias_is_base(view)) {
        GT_TRY(gt__alias_cut(view, &value));
        *out = gt_tensor_retain(value);
        return GT_OK;
    }
    gt_alias *from = source_of(view, true, rebased);
    GT_TRY(gt__alias_replay(from, from->rebased, &value));
    bool before = gt__grad_enable(true);
    gt_err err = emit_cut(view, from, value, out);
    gt__grad_enable(before);
    gt_tensor_release(value);
    return err;
}

/* What a view is cut from, the caller's. A view that was written to since belongs to the base, not to the view between. */
static gt_err source_value(gt_alias *alias, gt_alias *from, history of, gt_tensor **out)
{
    gt_tensor *value;
    if (of == RECORDED && alias->made_at != alias->versions->count && gt__alias_node(alias->family) &&
        !gt__alias_is_base(from))
        return gt__alias_replay(from, from->rebased, out);
    GT_TRY(gt__alias_cut(from, &value));
    *out = gt_tensor_retain(value);
    return GT_OK;
}

gt_err gt__alias_cut(gt_alias *alias, gt_tensor **out)
{
    gt_err err = GT_OK;
    if (__builtin_expect(alias->kept != NULL, 0)) {
        gt_node *kept = alias->kept;
        alias->kept = NULL;
        if (alias->made_at == alias->versions->count)
            err = gt__alias_cut_again(alias, kept, out);
        gt__node_release(kept);
        GT_TRY(err);
    }
    while (!alias->cut) {
        gt_tensor *value, *cut;
        history of = history_of(alias);
        gt_alias *from = source_of(alias, of == RECORDED, alias->rebased);
        uint32_t writes = alias->storage->writes;
        GT_TRY(source_value(alias, from, of, &value));
        err = of == RECORDED ? with_history(alias, &value) : GT_OK;
        if (err == GT_OK)
            err = cut_from(alias, from, value, of, &cut);
        gt_tensor_release(value);
        GT_TRY(err);
        if (alias->cut || writes != alias->storage->writes)
            gt_tensor_release(cut); /* another thread cut it, or wrote, while the emission waited */
        else
            keep_cut(alias, cut, of);
    }
    *out = alias->cut;
    return GT_OK;
}

gt_err gt__alias_cut_again(gt_alias *alias, gt_node *node, gt_tensor **out)
{
    while (!alias->cut) {
        gt_tensor *value, *cut, *own;
        gt_alias *from = source_of(alias, false, alias->rebased);
        GT_TRY(gt__alias_cut(from, &value));
        uint32_t writes = alias->storage->writes;
        gt_tensor_retain(value);
        bool before = gt__grad_enable(false);
        /* Not an alias of a tensor whose node may lead to the one that saves it: neither would ever be freed. */
        gt_err err = alias->kind == GT_CUT_NONE && value->node
                         ? gt_reshape(value, value->meta.rank, value->meta.shape, &cut)
                         : emit_cut(alias, from, value, &cut);
        gt__grad_enable(before);
        gt_tensor_release(value);
        GT_TRY(err);
        err = gt__tensor_alias(cut, node, &own);
        gt_tensor_release(cut);
        GT_TRY(err);
        if (alias->cut || writes != alias->storage->writes)
            gt_tensor_release(own);
        else
            keep_cut(alias, own, OWN);
    }
    *out = alias->cut;
    return GT_OK;
}

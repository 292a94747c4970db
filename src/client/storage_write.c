/*
 * storage_write.c: writes through aliases. See storage.h.
 *
 * A view's elements lie in the storage at an offset with strides. Where they are a slice of the storage in some shape, one
 * `assign` writes them, otherwise one `scatter`. The record consumes the storage's value, so that the worker writes in place.
 */
#include "client/names.h"
#include "client/storage.h"

#include <string.h>

#include "client/signals.h"

/* ---- PyTorch's refusals ---------------------------------------------------------------------------------------- */

static const char *maker_of(const gt_alias *alias, unsigned *output)
{
    *output = alias->maker ? alias->output : 0;
    if (alias->maker)
        return alias->maker;
    switch ((gt_cut)alias->kind) {
    case GT_CUT_NONE:
        return "AliasBackward0";
    case GT_CUT_RESHAPE:
        return "ViewBackward0";
    case GT_CUT_PERMUTE:
        return "PermuteBackward0";
    case GT_CUT_EXPAND:
        return "ExpandBackward0";
    case GT_CUT_SLICE:
        return alias->shell.meta.rank < alias->parent->shell.meta.rank ? "SelectBackward0" : "SliceBackward0";
    case GT_CUT_DIAGONAL:
        return "DiagonalBackward0";
    case GT_CUT_UNFOLD:
        return "UnfoldBackward0";
    case GT_CUT_REAL:
        return "ViewAsRealBackward0";
    case GT_CUT_COMPLEX:
        return "ViewAsComplexBackward0";
    case GT_CUT_STRIDED:
        break;
    }
    return "AsStridedBackward0";
}

static gt_err refuse(const gt_alias *alias, const char *what, const char *what_without_grad)
{
    unsigned output;
    const char *maker = maker_of(alias, &output);
    const char *why =
        alias->creation == GT_CREATED_MULTI
            ? "This view is the output of a function that returns multiple views. Such functions do not allow the "
              "output views to be modified inplace. You should replace the inplace operation by an out-of-place "
              "one."
            : "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code "
              "by "
              "moving both the view and the inplace either both inside the no_grad block (if you don't want the "
              "inplace to be tracked) or both outside (if you want the inplace to be tracked).";
    if (alias->tracked && alias->creation == GT_CREATED_NO_GRAD)
        return gt__fail(GT_ERR_VALUE,
                        "Output %u of %s is a view of a view which was created in no_grad mode and %s. %s", output,
                        maker, what_without_grad, why);
    if (alias->tracked)
        return gt__fail(GT_ERR_VALUE, "Output %u of %s is a view and %s. %s", output, maker, what, why);
    return gt__fail(GT_ERR_VALUE, "A view was created in no_grad mode and %s. %s", what_without_grad, why);
}

static gt_err refuse_use(const gt_alias *alias)
{
    return refuse(alias, "its base or another view of its base has been modified inplace",
                  "its base or another view of its base has been modified inplace with grad mode enabled");
}

gt_err gt__alias_check_use(const gt_alias *alias)
{
    if (alias->creation == GT_CREATED_PLAIN || alias->family == alias || !gt__grad_enabled() ||
        !(alias->tracked || gt__alias_node(alias->family)) || alias->made_at == alias->versions->count)
        return GT_OK;
    return refuse_use(alias);
}

gt_err gt__alias_check_leaf(const gt_alias *view)
{
    if (view->made_at == view->versions->count || !gt__alias_node(view->family))
        return GT_OK;
    return view->creation == GT_CREATED_PLAIN
               ? gt__fail(GT_ERR_VALUE, "leaf variable has been moved into the graph interior")
               : refuse_use(view);
}

gt_err gt__alias_check_write(gt_alias *alias, bool source_tracked)
{
    bool requires_grad = gt__alias_requires_grad(alias);
    if (!gt__grad_enabled() || !(requires_grad || source_tracked))
        return GT_OK;
    if (!gt__alias_is_base(alias)) {
        if (alias->creation != GT_CREATED_PLAIN)
            return refuse(alias, "is being modified inplace", "is being modified inplace with grad mode enabled");
        if (requires_grad && gt__alias_base_is_leaf(alias->family))
            return gt__fail(
                GT_ERR_VALUE,
                "a view of a leaf Variable that requires grad is being used in an in-place operation.");
        if (requires_grad && !gt__alias_is_known(alias))
            return gt__fail(GT_ERR_VALUE,
                            "a leaf Variable that requires grad is being used in an in-place operation.");
    } else if (requires_grad && gt__alias_base_is_leaf(alias->family)) {
        return gt__fail(GT_ERR_VALUE,
                        "a leaf Variable that requires grad is being used in an in-place operation.");
    }
    return GT_OK;
}

/* ---- operations on views -------------------------------------------------------------------------------------- */

/*
 * In PyTorch the gradient of an in-place operation on a view flows to the base, not through the nodes of the view and of those
 * that it was taken of: their hooks are not called, and as_strided has its gradient from the base. The operation is recorded
 * with the view's node here. So the view is cut once more, before the operation; if that succeeds, its nodes get the other cut
 * as their operand. In v.add_(v) only the first operand is the tensor that is changed; the gradient of the second one flows
 * through the nodes of the view.
 */
static bool needs_detour(const gt_alias *alias)
{
    if (gt__alias_is_base(alias))
        return false;
    if (alias->kind == GT_CUT_STRIDED && !alias->rebased)
        return true;
    for (const gt_alias *view = alias; view->family != view; view = view->parent) {
        const gt_node *node = view->cut ? view->cut->node : NULL;
        if (node && (node->hooks || node->keeps_gradient))
            return true;
    }
    return false;
}

gt_err gt__alias_begin_write(gt_alias *alias, bool twice)
{
    gt_tensor *cut, *detour;
    gt_node *before;
    gt__alias_drop_detour(alias); /* of an operation that failed */
    if (__builtin_expect(!needs_detour(alias), 1))
        return GT_OK;
    GT_TRY(gt__alias_cut(alias, &cut));
    if (!cut->node)
        return GT_OK;
    before = gt__node_retain(cut->node);
    gt_err err = gt__alias_replay(alias, true, &detour);
    gt__alias_drop_detour(alias); /* of another thread, while the emission waited */
    if (err == GT_OK && detour->node) {
        alias->detour = detour;
        alias->detour_of = before;
        alias->detour_self = twice;
        return GT_OK;
    }
    gt__node_release(before);
    if (err == GT_OK)
        gt_tensor_release(detour);
    return err;
}

/* The node's operands that are `from` become `to`; with `once` only the first of them. */
static void replace_operand(gt_node *node, gt_node *from, gt_node *to, bool once)
{
    for (unsigned k = 0; k < node->count; k++)
        if (node->operands[k].node == from) {
            node->operands[k].node = gt__node_retain(to);
            gt__node_release(from);
            if (once)
                return;
        }
}

/* The operation that is written now, with the node `result`, has nodes newer than the detour. */
static void record_in_base(gt_alias *alias, gt_node *result)
{
    if (__builtin_expect(!alias->detour, 1))
        return;
    gt_node *from = alias->detour_of, *to = alias->detour->node;
    bool once = alias->detour_self;
    if (!result) { /* it does not depend on the view */
        gt__alias_drop_detour(alias);
        return;
    }
    if (once && result->count && result->operands[0].node == from) {
        replace_operand(result, from, to, true);
    } else {
        for (gt_node *node = to->client->newest_node; node && node->sequence > to->sequence; node = node->older)
            replace_operand(node, from, to, once);
    }
    gt__alias_drop_detour(alias);
}

/* ---- the source ---------------------------------------------------------------------------------------------- */

/* Positions in memory become positions in the value. *positions is the caller's. */
static gt_err memory_to_value(const gt_storage *storage, gt_tensor **positions)
{
    const gt_meta *meta = &storage->root.shell.meta;
    gt_strides usual;
    gt_tensor *sum = NULL, *part = NULL, *next;
    gt_err err = GT_OK;
    gt__strides_contiguous(meta, &usual);
    for (int axis = 0; axis < meta->rank && err == GT_OK; axis++) {
        const struct {
            gt_opcode op;
            int64_t number;
        } steps[] = {{GT_OP_floor_divide, storage->root.strides.step[axis]},
                     {GT_OP_remainder, meta->shape[axis]},
                     {GT_OP_mul, usual.step[axis]}};
        if (meta->shape[axis] < 2)
            continue;
        gt__replace(&part, gt_tensor_retain(*positions));
        for (unsigned k = 0; k < 3 && err == GT_OK; k++)
            if ((err = gt__emit_binary_literal(steps[k].op, part, GT_LITERAL_INT, (gt_imm){.i = steps[k].number},
                                               false, &next)) == GT_OK)
                gt__replace(&part, next);
        if (err == GT_OK && sum && (err = gt_add(sum, part, &next)) == GT_OK)
            gt__replace(&part, next);
        if (err == GT_OK)
            gt__replace(&sum, gt_tensor_retain(part));
    }
    gt__replace(&part, NULL);
    if (err == GT_OK && sum)
        gt__replace(positions, gt_tensor_retain(sum));
    gt__replace(&sum, NULL);
    return err;
}

/* Flat positions as the strides say. */
static gt_err emit_regular(gt_client *client, const gt_meta *meta, const gt_strides *strides, gt_tensor **out)
{
    gt_tensor *sum = NULL, *ramp, *next;
    int64_t shape[GT_MAX_RANK], numel = meta->numel, offset = strides->offset;
    gt_err err = GT_OK;
    bool inner = gt__signal_inner(true);
    for (int axis = 0; axis < meta->rank && err == GT_OK; axis++) {
        int64_t size = meta->shape[axis], rank = meta->rank - axis;
        if (size == 1 || strides->step[axis] == 0)
            continue;
        err = gt__emit_arange(client, GT_INT64, size, GT_LITERAL_INT, (gt_imm){.i = sum ? 0 : offset},
                              (gt_imm){.i = strides->step[axis]}, &ramp);
        shape[0] = size;
        for (int64_t k = 1; k < rank; k++)
            shape[k] = 1;
        if (err == GT_OK && rank > 1) {
            err = gt_reshape(ramp, (int)rank, shape, &next);
            gt__replace(&ramp, err == GT_OK ? next : NULL);
        }
        if (err == GT_OK && sum) {
            err = gt_add(sum, ramp, &next);
            gt__replace(&ramp, err == GT_OK ? next : NULL);
        }
        if (err == GT_OK)
            gt__replace(&sum, ramp);
    }
    if (err == GT_OK && !sum)
        err = gt__emit_full(client, GT_INT64, 0, NULL, GT_LITERAL_INT, (gt_imm){.i = offset}, &sum);
    if (err == GT_OK && sum->meta.numel != numel &&
        (err = gt_expand(sum, meta->rank, meta->shape, &next)) == GT_OK)
        gt__replace(&sum, next);
    if (err == GT_OK && (err = gt_reshape(sum, 1, &numel, &next)) == GT_OK)
        gt__replace(&sum, next);
    gt__signal_inner(inner);
    if (err != GT_OK)
        gt__replace(&sum, NULL);
    *out = sum;
    return err;
}

gt_err gt__emit_positions(gt_storage *storage, const gt_meta *meta, const gt_strides *strides, gt_tensor **out)
{
    gt_strides local;
    bool regular = gt__storage_place(storage, meta, strides, &local);
    GT_TRY(emit_regular(storage->root.shell.client, meta, regular ? &local : strides, out));
    if (regular)
        return GT_OK;
    gt_err err = memory_to_value(storage, out);
    if (err != GT_OK)
        gt__replace(out, NULL);
    return err;
}

/* What is written, in the shape of the view; NULL for a number. *out is the caller's. */
static gt_err full_source(const gt_meta *view, const gt_written *written, gt_tensor **out)
{
    gt_tensor *source = written->tensor, *fitted;
    *out = NULL;
    if (!source)
        return GT_OK;
    gt_tensor_retain(source);
    if (source->meta.rank > view->rank) { /* leading sizes of 1 */
        gt_err err =
            gt_reshape(source, view->rank, source->meta.shape + (source->meta.rank - view->rank), &fitted);
        gt__replace(&source, err == GT_OK ? fitted : NULL);
        GT_TRY(err);
    }
    if (!gt__meta_same_shape(&source->meta, view)) {
        gt_err err = gt_expand(source, view->rank, view->shape, &fitted);
        gt__replace(&source, err == GT_OK ? fitted : NULL);
        GT_TRY(err);
    }
    *out = source;
    return GT_OK;
}

/* Reorder the source (taken) for the assignment. */
static gt_err placed_source(const gt_placing *placing, gt_tensor **source)
{
    gt_tensor *next;
    if (!*source)
        return GT_OK;
    if (!placing->ordered) {
        gt_err err = gt_permute(*source, placing->order, &next);
        gt__replace(source, err == GT_OK ? next : NULL);
        GT_TRY(err);
    }
    gt_meta wanted = {.rank = (uint8_t)placing->rank};
    memcpy(wanted.shape, placing->count, sizeof wanted.shape);
    if (gt__meta_same_shape(&(*source)->meta, &wanted))
        return GT_OK;
    gt_err err = gt_reshape(*source, (int)placing->rank, placing->count, &next);
    gt__replace(source, err == GT_OK ? next : NULL);
    return err;
}

/* ---- the assignment -------------------------------------------------------------------------------------------- */

/* A write through an alias with these versions drops all cuts. Those of other versions may be saved for gradients. */
static gt_err drop_cuts(gt_storage *storage, const gt_versions *writer)
{
    for (gt_alias *alias = storage->fresh; alias; alias = alias->after)
        if (__builtin_expect(alias->versions != writer, 0)) {
            GT_TRY(gt__saved_note(alias));
            if (alias->tracked && alias->owner && !alias->kept && alias->cut->node)
                alias->kept = gt__node_retain(alias->cut->node);
        }
    while (storage->fresh)
        gt__alias_drop_cut(storage->fresh);
    return GT_OK;
}

gt_err gt__alias_prepare(gt_alias *root, const gt_versions *writer, unsigned slots)
{
    gt_storage *storage = root->storage;
    do { /* until no other thread has cut a view meanwhile */
        GT_TRY(drop_cuts(storage, writer));
        GT_TRY(gt__client_prepare_update(root->shell.client, slots));
    } while (storage->fresh);
    return GT_OK;
}

/* Elements of `base` at the given places replaced. With `root` the base is its value, which is consumed if it can be. */
typedef struct target {
    gt_storage *storage;
    gt_alias *root;            /* or NULL: */
    const gt_versions *writer; /* with root: of the alias that is written through */
    gt_tensor *base;           /* borrowed */
    const gt_meta *view;
    const gt_strides *strides;
} target;

/* Slots of the records below. */
enum { WRITE_SLOTS = 2 + 4 + 2 };

static gt_err begin(const target *t, gt_tensor **base, unsigned *held)
{
    *base = t->base;
    *held = 0;
    if (!t->root)
        return GT_OK;
    GT_TRY(gt__alias_prepare(t->root, t->writer, WRITE_SLOTS));
    *base = t->root->cut; /* of this moment: another thread may have written while we waited */
    *held = 1;
    return GT_OK;
}

/* In another shape; consumes the tensor if that was possible before. *out is the caller's. */
static gt_err reshaped(gt_tensor *a, unsigned rank, const int64_t *shape, unsigned held, gt_tensor **out)
{
    return gt__emit_reshape(a, (int)rank, shape, held, out);
}

/* Source is NULL for a number. */
static gt_err assign_placed(const target *t, const gt_placing *placing, gt_tensor *source,
                            const gt_written *written, gt_tensor **out)
{
    gt_tensor *base, *flat, *written_flat;
    unsigned held;
    GT_TRY(begin(t, &base, &held));
    gt_meta meta = base->meta, wanted = {.rank = (uint8_t)placing->rank};
    memcpy(wanted.shape, placing->shape, sizeof wanted.shape);
    if (gt__meta_same_shape(&meta, &wanted))
        return gt__emit_assign(base, placing->start, placing->step, placing->count, source, written->kind,
                               written->number, held, out);
    GT_TRY(reshaped(base, placing->rank, placing->shape, held, &flat));
    gt_err err = gt__emit_assign(flat, placing->start, placing->step, placing->count, source, written->kind,
                                 written->number, 1, &written_flat);
    gt_tensor_release(flat);
    GT_TRY(err);
    err = reshaped(written_flat, meta.rank, meta.shape, 1, out);
    gt_tensor_release(written_flat);
    return err;
}

/* Write `elements` at flat `positions`. */
static gt_err scatter(const target *t, gt_opcode op, gt_tensor *positions, gt_tensor *elements, gt_tensor **out)
{
    gt_tensor *base, *flat, *scattered;
    unsigned held;
    GT_TRY(begin(t, &base, &held));
    gt_meta meta = base->meta;
    GT_TRY(reshaped(base, 1, &meta.numel, held, &flat));
    int64_t how = op == GT_OP_scatter_add ? GT_SCATTER_STEPWISE : 0; /* index_put of PyTorch */
    gt_err err = gt__emit_scatter(op, flat, positions, elements, 0, how, 1, &scattered);
    gt_tensor_release(flat);
    GT_TRY(err);
    err = reshaped(scattered, meta.rank, meta.shape, 1, out);
    gt_tensor_release(scattered);
    return err;
}

/* The elements have no order that a slice could follow. */
static gt_err assign_scattered(const target *t, gt_tensor *source, const gt_written *written, gt_tensor **out)
{
    const gt_tensor *base = t->root ? t->root->cut : t->base;
    gt_client *client = base->client;
    gt_tensor *positions, *elements = NULL;
    int64_t count = t->view->numel;
    GT_TRY(gt__emit_positions(t->storage, t->view, t->strides, &positions));
    gt_err err = source ? gt_reshape(source, 1, &count, &elements)
                        : gt__emit_full(client, (gt_dtype)base->meta.dtype, 1, &count, written->kind,
                                        written->number, &elements);
    if (err == GT_OK)
        err = scatter(t, GT_OP_scatter, positions, elements, out);
    gt_tensor_release(positions);
    gt_tensor_release(elements);
    return err;
}

/* Of a source with several elements for one place, the first. *source is the caller's. */
static gt_err first_of_each(const gt_meta *once, gt_tensor **source)
{
    int64_t start[GT_MAX_RANK] = {0}, step[GT_MAX_RANK], count[GT_MAX_RANK];
    const gt_meta *meta = &(*source)->meta;
    bool several = false;
    for (int k = 0; k < meta->rank; k++) {
        int axis = once->rank - meta->rank + k;
        bool dropped = axis >= 0 && once->shape[axis] == 1 && meta->shape[k] > 1;
        step[k] = 1;
        count[k] = dropped ? 1 : meta->shape[k];
        several = several || dropped;
    }
    gt_tensor *first;
    if (!several)
        return GT_OK;
    GT_TRY(gt_slice(*source, start, step, count, &first));
    gt__replace(source, first);
    return GT_OK;
}

static gt_err assign(const target *where, const gt_written *written, gt_tensor **out)
{
    const gt_meta *base = where->root ? &where->root->shell.meta : &where->base->meta;
    gt_meta once = *where->view; /* elements that share a place are written once */
    for (unsigned axis = 0; axis < once.rank; axis++)
        if (once.numel && once.shape[axis] > 1 && where->strides->step[axis] == 0) {
            once.numel /= once.shape[axis];
            once.shape[axis] = 1;
        }
    target t = *where;
    t.view = &once;
    gt_placing placing;
    gt_tensor *source = gt_tensor_retain(written->tensor);
    gt_err err = source && once.numel != where->view->numel ? first_of_each(&once, &source) : GT_OK;
    gt_written fitting = {.tensor = source};
    if (err == GT_OK)
        err = full_source(t.view, &fitting, &source);
    gt_tensor_release(fitting.tensor);
    GT_TRY(err);
    gt_strides local;
    bool placed = gt__storage_place(t.storage, t.view, t.strides, &local) &&
                  gt__strides_place(base, t.view, &local, &placing);
    err = placed ? placed_source(&placing, &source) : GT_OK;
    if (err == GT_OK)
        err = placed ? assign_placed(&t, &placing, source, written, out)
                     : assign_scattered(&t, source, written, out);
    gt_tensor_release(source);
    return err;
}

gt_err gt__memory_assign(gt_tensor *flat, const gt_meta *view, const gt_strides *strides,
                         const gt_written *written, gt_tensor **out)
{
    gt_storage usual = {.root = {.shell = {.client = flat->client}}};
    target t = {.storage = &usual, .base = flat, .view = view, .strides = strides};
    return assign(&t, written, out);
}

/* ---- the next value -------------------------------------------------------------------------------------------- */

/* *value becomes the same value under this node (borrowed), as a tensor that nothing else refers to. */
static gt_err own_value(gt_tensor **value, gt_node *node)
{
    gt_tensor *own;
    if ((*value)->references == 1 && !(*value)->node) {
        (*value)->node = node ? gt__node_retain(node) : NULL;
        return GT_OK;
    }
    if ((*value)->references == 1 && (*value)->node == node)
        return GT_OK;
    if ((*value)->node && (*value)->node != node) {
        /* Not an alias of it: its node may lead to one that saves this value, and neither would ever be freed. */
        bool before = gt__grad_enable(false);
        gt_err err = gt_reshape(*value, (*value)->meta.rank, (*value)->meta.shape, &own);
        gt__grad_enable(before);
        GT_TRY(err);
        own->node = node ? gt__node_retain(node) : NULL;
        gt__replace(value, own);
        return GT_OK;
    }
    GT_TRY(gt__tensor_alias(*value, node, &own));
    gt__replace(value, own);
    return GT_OK;
}

/* PyTorch's CopySlices, which a backward pass goes through once, unless the graph is retained. */
static void mark_written_view(const gt_alias *alias, gt_node *node)
{
    if (node && !gt__alias_is_base(alias))
        node->keeps_values = true;
}

/* The family has another node after a write: retain_grad() goes with its tensor, unless it stays with an earlier shape. */
static void move_gradient(const gt_alias *family, gt_node *before, gt_node *after)
{
    if (before && after && !(family->face && family->face->anchored))
        gt__node_move_gradient(before, after);
}

/*
 * The storage gets its next value (taken, also on failure). If it was recorded, its node becomes that of the alias's family;
 * other families keep their nodes.
 */
static gt_err store(gt_alias *alias, gt_tensor *value, bool recorded)
{
    gt_storage *storage = alias->storage;
    gt_alias *root = &storage->root, *family = alias->family;
    gt_node *node = recorded && family == root ? value->node : root->cut->node, *before = NULL;
    gt_node *family_node = recorded && family != root && value->node ? gt__node_retain(value->node) : NULL;
    if (recorded) {
        mark_written_view(alias, value->node);
        alias->known = true;
        if (family->idle)
            family->idle->leaf.moved = true;
    }
    gt_node *family_before = recorded ? gt__alias_node(family) : NULL;
    gt_err err = own_value(&value, node);
    if (err == GT_OK && root->versions != alias->versions && root->cut->id)
        err = gt__saved_note(root);
    if (err == GT_OK)
        err = drop_cuts(storage, alias->versions);
    if (err != GT_OK) {
        gt__node_release(family_node);
        gt_tensor_release(value);
        return err;
    }
    gt_tensor *old = root->cut;
    root->cut = value;
    value->inference = root->shell.inference;
    storage->writes++;
    alias->versions->count++;
    if (value->base && value->base == old->base) /* gt__alias_touch */
        gt__alias_stamp_object(value, root->versions);
    else
        gt__alias_stamp(value, root->versions);
    if (family_node) {
        before = family->node;
        family->node = family_node;
    }
    if (__builtin_expect(family_before != NULL, 0))
        move_gradient(family, family_before, family == root ? node : family_node);
    if (__builtin_expect(storage->saved != NULL, 0)) {
        const gt_versions *writer = alias->versions;
        gt__alias_retain(root); /* what is freed there may run user code */
        err = gt__saved_update(storage, writer);
        gt__alias_release(root);
    }
    if (__builtin_expect(old->name != 0, 0))
        gt__name_follow(old, value);
    gt_tensor_release(old); /* last: they may free hooks, which run user code */
    gt__node_release(before);
    return err;
}

/* The real numbers of a complex storage, or the other way round. */
static bool is_other_type(const gt_alias *alias)
{
    return alias->shell.meta.dtype != alias->storage->root.shell.meta.dtype;
}

/* All elements are new: no assignment is needed. */
static gt_err write_all(gt_alias *alias, const gt_written *written, bool recorded)
{
    const gt_meta *meta = &alias->storage->root.shell.meta;
    gt_tensor *value, *shaped;
    GT_TRY(full_source(&alias->shell.meta, written, &value));
    if (recorded && value->references > 2) { /* another tensor, with a node of its own: a copy of it */
        gt_err err = gt_copy(value, &shaped);
        gt__replace(&value, err == GT_OK ? shaped : NULL);
        GT_TRY(err);
    }
    if (!gt__meta_same_shape(&value->meta, meta)) {
        gt_err err = gt_reshape(value, meta->rank, meta->shape, &shaped);
        gt__replace(&value, err == GT_OK ? shaped : NULL);
        GT_TRY(err);
    }
    return store(alias, value, recorded);
}

/*
 * A recorded write in a family that has a part of the storage: its tensor is put into the storage's elements, then what is
 * written, and the family's next tensor is taken from there.
 */
static gt_err write_in_part(gt_alias *alias, const gt_written *written)
{
    gt_alias *family = alias->family;
    gt_tensor *own, *mixed, *next, *flat, *value = NULL;
    GT_TRY(gt__alias_cut(family, &own));
    gt_tensor_retain(own);
    gt_err err = gt__memory_with(family, own, (gt_dtype)alias->storage->root.shell.meta.dtype, &mixed);
    gt_tensor_release(own);
    GT_TRY(err);
    err = gt__memory_replace(mixed, &alias->shell.meta, &alias->strides, written, &next);
    gt_tensor_release(mixed);
    GT_TRY(err);
    err = gt__memory_as(next, (gt_dtype)family->shell.meta.dtype, &flat);
    if (err == GT_OK) {
        err = gt__memory_take(flat, &family->shell.meta, &family->strides, &own);
        gt_tensor_release(flat);
    }
    if (err == GT_OK && (err = gt__memory_value(alias->storage, next, &value)) != GT_OK)
        gt_tensor_release(own);
    gt_tensor_release(next);
    GT_TRY(err);
    err = store(alias, value, false);
    if (err == GT_OK) {
        gt_node *before = family->node;
        family->node = own->node ? gt__node_retain(own->node) : NULL;
        mark_written_view(alias, family->node);
        alias->known = true;
        move_gradient(family, before, family->node);
        gt__node_release(before);
    }
    gt_tensor_release(own);
    return err;
}

/* A write through x.real, view_as_real(x) or view_as_complex(x). */
static gt_err write_other_type(gt_alias *alias, const gt_written *written, bool recorded)
{
    gt_storage *storage = alias->storage;
    gt_tensor *base, *flat, *next, *value;
    if (recorded && !alias->family->whole)
        return write_in_part(alias, written);
    GT_TRY(gt__tensor_alias(storage->root.cut, recorded ? gt__alias_node(alias->family) : NULL, &base));
    gt_err err = gt__memory_flat(storage, base, (gt_dtype)base->meta.dtype, &flat);
    gt_tensor_release(base);
    GT_TRY(err);
    err = gt__memory_replace(flat, &alias->shell.meta, &alias->strides, written, &next);
    gt_tensor_release(flat);
    GT_TRY(err);
    err = gt__memory_value(storage, next, &value);
    gt_tensor_release(next);
    return err == GT_OK ? store(alias, value, recorded) : err;
}

/* A recorded write in a family over all of the storage, but not the root's. */
static gt_err write_apart(gt_alias *alias, const gt_written *written)
{
    gt_tensor *base, *next;
    GT_TRY(gt__tensor_alias(alias->storage->root.cut, alias->family->node, &base));
    target t = {.storage = alias->storage, .base = base, .view = &alias->shell.meta, .strides = &alias->strides};
    gt_err err = assign(&t, written, &next);
    gt_tensor_release(base);
    return err == GT_OK ? store(alias, next, true) : err;
}

static gt_err write_now(gt_alias *alias, const gt_written *written, bool recorded)
{
    gt_alias *root = &alias->storage->root;
    gt_tensor *next;
    if (__builtin_expect(is_other_type(alias), 0))
        return write_other_type(alias, written, recorded);
    /* What is copied from elsewhere leaves the old value with a gradient of 0, which the assignment records. */
    bool copied = recorded && written->tensor && written->tensor->references > 1 && gt__alias_node(alias->family);
    if (gt__alias_covers(alias) && written->tensor && !copied && (!recorded || written->tensor->node) &&
        (alias->family->whole || !recorded))
        return write_all(alias, written, recorded);
    if (recorded && !alias->family->whole)
        return write_in_part(alias, written);
    if (recorded && alias->family != root)
        return write_apart(alias, written);
    target t = {.storage = alias->storage,
                .root = root,
                .writer = alias->versions,
                .view = &alias->shell.meta,
                .strides = &alias->strides};
    GT_TRY(assign(&t, written, &next));
    return store(alias, next, recorded);
}

static bool is_recorded(const gt_alias *alias, bool source_tracked)
{
    return (source_tracked || gt__alias_node(alias->family)) && gt__grad_enabled() &&
           gt__dtype_is_inexact((gt_dtype)alias->shell.meta.dtype);
}

gt_err gt__alias_write(gt_alias *alias, const gt_written *written)
{
    bool recorded = is_recorded(alias, written->tensor && written->tensor->node);
    bool before = gt__grad_enable(recorded);
    if (recorded)
        record_in_base(alias, written->tensor ? written->tensor->node : NULL);
    gt_tensor *cut;
    gt_err err = write_now(alias, written, recorded);
    if (recorded && err == GT_OK) {
        alias->rebased = alias->kind == GT_CUT_STRIDED;
        if (__builtin_expect(alias->retaining != NULL, 0)) /* which goes to the new node now */
            err = gt__alias_cut(alias, &cut);
    }
    gt__grad_enable(before);
    return err;
}

gt_err gt__alias_touch(gt_alias *alias)
{
    const gt_alias *root = &alias->storage->root;
    gt_tensor *same;
    GT_TRY(gt__tensor_alias(root->cut, root->cut->node, &same));
    return store(alias, same, false);
}

bool gt__alias_can_scatter(const gt_alias *alias, bool source_tracked)
{
    if (alias->storage->permuted || is_other_type(alias))
        return false;
    return alias->family == &alias->storage->root || !is_recorded(alias, source_tracked);
}

gt_err gt__alias_scatter(gt_alias *alias, gt_opcode op, gt_tensor *positions, gt_tensor *elements)
{
    bool recorded = is_recorded(alias, elements->node != NULL);
    gt_tensor *next = NULL;
    target t = {.storage = alias->storage, .root = &alias->storage->root, .writer = alias->versions};
    bool before = gt__grad_enable(recorded);
    if (recorded)
        record_in_base(alias, elements->node);
    gt_err err = scatter(&t, op, positions, elements, &next);
    if (err == GT_OK)
        err = store(alias, next, recorded);
    if (recorded && err == GT_OK)
        alias->rebased = alias->kind == GT_CUT_STRIDED;
    gt__grad_enable(before);
    return err;
}

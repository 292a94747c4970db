/* storage.c: storages and aliases: making, freeing, their nodes. See storage.h; storage_cut.c has their values, storage_write.c the writes. */
#include "client/storage.h"

#include <stdlib.h>
#include <string.h>

#include "client/signals.h"

enum { LONGEST_CHAIN = 16 }; /* of views of views */

/* Freed ones, for reuse: views are taken in hot loops. One thread at a time is here, as for clients. */
static gt_storage *spare_storages;
static gt_alias *spare_aliases;

void gt__storage_free_spares(void)
{
    while (spare_storages) {
        gt_storage *next = spare_storages->next_spare;
        free(spare_storages);
        spare_storages = next;
    }
    while (spare_aliases) {
        gt_alias *next = spare_aliases->after;
        free(spare_aliases);
        spare_aliases = next;
    }
}

/* ---- versions ------------------------------------------------------------------------------------------------ */

static gt_versions *versions_new(uint32_t count)
{
    gt_versions *versions = malloc(sizeof *versions);
    if (versions)
        *versions = (gt_versions){.references = 1, .count = count};
    return versions;
}

void gt__alias_stamp_object(gt_tensor *tensor, gt_versions *versions)
{
    if (tensor->versions != versions) {
        gt__versions_release(tensor->versions);
        tensor->versions = gt__versions_retain(versions);
    }
    tensor->version = versions->count;
    tensor->overwritten = false;
}

/* Values that are saved for gradients tell by this whether they were overwritten. */
void gt__alias_stamp(gt_tensor *tensor, gt_versions *versions)
{
    gt__alias_stamp_object(tensor, versions);
    if (tensor->node && tensor->node->saved_out && tensor->node->saved_out == tensor->base)
        gt__alias_stamp_object(tensor->base, versions);
}

/* The first stamp of a tensor. A saved result of which another object has a storage, too, belongs to that one. */
static void stamp_first(gt_tensor *tensor, gt_versions *versions)
{
    const gt_versions *others = !tensor->versions && tensor->base ? tensor->base->versions : NULL;
    if (__builtin_expect(others && others->references > 1, 0))
        gt__alias_stamp_object(tensor, versions);
    else
        gt__alias_stamp(tensor, versions);
}

/* ---- making -------------------------------------------------------------------------------------------------- */

/* What every alias begins with. The caller sets the rest. */
static void alias_begin(gt_alias *alias, gt_storage *storage, gt_client *client, const gt_meta *meta, void *owner)
{
    alias->references = 1;
    alias->kind = GT_CUT_NONE;
    alias->creation = GT_CREATED_PLAIN;
    alias->whole = alias->tracked = alias->known = alias->ghost = alias->foreign = alias->rebased = false;
    alias->detour_self = alias->anchored = false;
    alias->output = alias->depth = 0;
    alias->members = 0;
    alias->storage = storage;
    alias->parent = NULL;
    alias->family = alias;
    alias->cut = NULL;
    alias->before = alias->after = NULL;
    alias->node = NULL;
    alias->owner = owner;
    alias->idle = alias->history = alias->kept = alias->retaining = alias->detour_of = NULL;
    alias->detour = NULL;
    alias->maker = NULL;
    alias->gradient_of = NULL;
    alias->face = NULL;
    alias->shell.references = 1;
    alias->shell.client = client;
    alias->shell.id = 0;
    alias->shell.base = NULL;
    alias->shell.node = NULL;
    alias->shell.versions = NULL;
    alias->shell.batch = 0;
    alias->shell.bounded = 0;
    alias->shell.inference = 0;
    gt__meta_copy(&alias->shell.meta, meta);
    storage->aliases++;
    storage->owners += owner != NULL;
    client->live++;
}

/*
 * The root takes the tensor's node: it is the only place of the family's node, unless other values refer to the tensor.
 */
gt_err gt__storage_new(gt_tensor *tensor, void *owner, gt_alias **out)
{
    gt_storage *storage = spare_storages;
    gt_versions *versions =
        tensor->versions ? gt__versions_retain(tensor->versions) : versions_new(tensor->version);
    if (storage)
        spare_storages = storage->next_spare;
    else
        storage = malloc(sizeof *storage);
    if (!storage || !versions) {
        free(storage);
        gt__versions_release(versions);
        gt_tensor_release(tensor);
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    }
    storage->aliases = storage->owners = storage->writes = storage->ghosts = 0;
    storage->saved = NULL;
    storage->permuted = false;
    storage->fresh = NULL;
    gt_alias *root = &storage->root;
    alias_begin(root, storage, tensor->client, &tensor->meta, owner);
    root->whole = true;
    root->versions = versions;
    root->made_at = versions->count;
    root->cut = tensor;
    root->shell.inference = tensor->inference;
    gt__strides_contiguous(&tensor->meta, &root->strides);
    stamp_first(tensor, versions);
    *out = root;
    return GT_OK;
}

void gt__storage_lay(gt_alias *root, const gt_strides *strides)
{
    root->strides = *strides;
    root->storage->permuted = !gt__strides_are_contiguous(&root->shell.meta, strides);
}

bool gt__storage_place(const gt_storage *storage, const gt_meta *meta, const gt_strides *strides, gt_strides *out)
{
    *out = *strides;
    return !storage->permuted ||
           gt__strides_to_value(&storage->root.shell.meta, &storage->root.strides, meta, strides, out);
}

/* An alias of parent's storage, with its retained parent. */
static gt_alias *alias_new(gt_alias *parent, const gt_meta *meta, void *owner)
{
    gt_alias *alias = spare_aliases;
    if (alias)
        spare_aliases = alias->after;
    else if (!(alias = malloc(sizeof *alias)))
        return NULL;
    alias_begin(alias, parent->storage, parent->shell.client, meta, owner);
    alias->parent = gt__alias_retain(parent);
    alias->depth = (uint16_t)(parent->depth + 1);
    alias->shell.inference = parent->shell.inference;
    return alias;
}

/*
 * A view of a view of a view ... is cut from all elements of its family at once, so that chains stay short: as a slice, or by
 * the positions of its elements.
 */
static void cut_from_family(gt_alias **parent, gt_cut *kind, const gt_meta *meta, const gt_strides *strides,
                            gt_cut_arguments *arguments)
{
    gt_alias *family = (*parent)->family;
    gt_placing placing;
    bool plain = (*parent)->creation == GT_CREATED_PLAIN && gt__grad_enabled() && !(*parent)->node;
    if ((*parent)->depth < LONGEST_CHAIN || !family->whole || !plain || meta->numel == 0 ||
        meta->dtype != family->shell.meta.dtype)
        return;
    gt_meta shape = family->shell.meta;
    gt_strides local;
    bool placed = gt__storage_place(family->storage, meta, strides, &local) &&
                  gt__strides_place(&shape, meta, &local, &placing) && placing.ordered &&
                  placing.rank == shape.rank && !gt__strides_overlap(meta, strides);
    for (unsigned k = 0; placed && k < shape.rank; k++)
        placed = placing.shape[k] == shape.shape[k];
    *parent = family;
    *kind = placed ? GT_CUT_SLICE : GT_CUT_STRIDED;
    if (placed) {
        memcpy(arguments->window[0], placing.start, sizeof placing.start);
        memcpy(arguments->window[1], placing.step, sizeof placing.step);
        memcpy(arguments->window[2], placing.count, sizeof placing.count);
    }
}

gt_err gt__alias_view(gt_alias *parent, gt_cut kind, const gt_cut_arguments *arguments, const gt_meta *meta,
                      const gt_strides *strides, void *owner, gt_alias **out)
{
    gt_cut_arguments own;
    if (__builtin_expect(parent->depth >= LONGEST_CHAIN, 0)) {
        if (arguments)
            own = *arguments;
        arguments = &own;
        cut_from_family(&parent, &kind, meta, strides, &own);
    }
    gt_alias *alias = alias_new(parent, meta, owner);
    if (!alias)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    bool recorded = gt__grad_enabled();
    alias->kind = (uint8_t)kind;
    alias->family = parent->family;
    alias->family->members += owner != NULL;
    alias->versions = gt__versions_retain(parent->versions);
    alias->made_at = alias->versions->count;
    alias->creation = recorded ? parent->creation : GT_CREATED_NO_GRAD;
    alias->tracked = alias->known = recorded && gt__alias_requires_grad(parent);
    if (recorded && !parent->known)
        gt__alias_follow(parent);
    if (alias->tracked && parent == alias->family)
        alias->history = gt__node_retain(gt__alias_node(parent));
    alias->strides = *strides;
    if (arguments)
        alias->arguments = *arguments;
    *out = alias;
    /* A record belongs to the scope that is active now. And a view of a leaf that may get another node is of this one. */
    if (__builtin_expect(gt__signals_on() || (alias->tracked && parent->family != parent && !parent->tracked),
                         0)) {
        gt_tensor *cut;
        gt_err err = gt__alias_cut(alias, &cut);
        if (err != GT_OK) {
            gt__alias_disown(alias);
            return err;
        }
    }
    return GT_OK;
}

gt_err gt__alias_apart(gt_alias *alias, gt_node *node, bool counted, void *owner, gt_alias **out)
{
    gt_versions *versions = counted ? gt__versions_retain(alias->versions) : versions_new(0);
    gt_alias *other = versions ? alias_new(alias, &alias->shell.meta, owner) : NULL;
    if (!other) {
        gt__versions_release(versions);
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    }
    other->whole = alias->whole;
    other->versions = versions;
    other->made_at = versions->count;
    other->node = node ? gt__node_retain(node) : NULL;
    other->strides = alias->strides;
    *out = other;
    return GT_OK;
}

void gt__alias_count_as(gt_alias *alias, gt_versions *versions)
{
    gt__versions_retain(versions);
    gt__versions_release(alias->versions);
    alias->versions = versions;
    alias->made_at = versions->count;
    alias->foreign = true;
}

gt_err gt__alias_restamp(gt_alias *alias)
{
    gt_tensor *own, *before = alias->cut;
    alias->foreign = alias->versions->references > 1 + (before != NULL);
    if (!alias->foreign || !before || before->version == alias->versions->count)
        return GT_OK;
    GT_TRY(gt__tensor_alias(before, before->node,
                            &own)); /* nodes that have saved the other one tell by its version */
    gt__alias_stamp_object(own, alias->versions);
    alias->cut = own;
    gt_tensor_release(before);
    return GT_OK;
}

/* ---- freeing ------------------------------------------------------------------------------------------------- */

gt_alias *gt__alias_retain(gt_alias *alias)
{
    alias->references++;
    return alias;
}

static void unlink_fresh(gt_alias *alias)
{
    *(alias->before ? &alias->before->after : &alias->storage->fresh) = alias->after;
    if (alias->after)
        alias->after->before = alias->before;
    alias->before = alias->after = NULL;
}

void gt__alias_link_cut(gt_alias *alias, gt_tensor *cut)
{
    alias->cut = cut;
    cut->inference = alias->shell.inference;
    alias->before = NULL;
    alias->after = alias->storage->fresh;
    if (alias->after)
        alias->after->before = alias;
    alias->storage->fresh = alias;
}

void gt__alias_drop_cut(gt_alias *alias)
{
    gt_tensor *cut = alias->cut;
    if (!cut)
        return;
    if (alias != &alias->storage->root)
        unlink_fresh(alias);
    alias->known = gt__alias_is_known(alias);
    if (__builtin_expect(cut->node && cut->node->keeps_gradient, 0) && alias->owner && alias->family != alias &&
        !alias->retaining)
        alias->retaining = gt__node_retain(cut->node);
    alias->cut = NULL;
    if (__builtin_expect(alias->ghost, 0))
        gt__ghost_end(alias);
    gt_tensor_release(cut); /* last: it may free hooks, which run user code, and other ghosts */
}

gt_err gt__alias_keep_value(gt_alias *alias, gt_tensor *value)
{
    gt_alias *ghost = alias_new(alias, &alias->shell.meta, NULL);
    if (!ghost)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    ghost->whole = alias->whole;
    ghost->versions = gt__versions_retain(alias->versions);
    ghost->made_at = ghost->versions->count;
    ghost->strides = alias->strides;
    gt__alias_link_cut(ghost, gt_tensor_retain(value));
    gt__alias_stamp(value, ghost->versions);
    gt__alias_release(ghost);
    return GT_OK;
}

/* A family that is no longer in use lets go of its node: the graph behind it may be large. */
static void forget_history(gt_alias *family)
{
    if (family->owner || family->members)
        return;
    gt_node *node = family->node;
    family->node = NULL;
    gt__node_release(node);
    /* What is left of the family shows other families where their elements lie. */
    for (gt_alias *view = family->storage->fresh, *next; view; view = next) {
        next = view->after;
        if (view->family == family && view->cut->node && !view->ghost)
            gt__alias_drop_cut(view);
    }
    gt_tensor *value = family->cut, *detached;
    if (!value || !value->node)
        return;
    if (family != &family->storage->root) {
        gt__alias_drop_cut(family);
    } else if (value->references == 1) {
        node = value->node;
        value->node = NULL;
        gt__node_release(node);
    } else if (gt__tensor_detach(value, &detached) == GT_OK) { /* else the graph stays until the storage goes */
        family->cut = detached;
        gt__alias_stamp(detached, family->versions);
        if (family->storage->owners) /* a failure loses only what a write through x.data would do to it */
            (void)gt__alias_keep_value(family, value);
        gt_tensor_release(value);
    }
}

static void storage_release(gt_storage *storage)
{
    if (--storage->aliases)
        return;
    gt_tensor *value = storage->root.cut;
    storage->root.cut = NULL;
    storage->next_spare = spare_storages;
    spare_storages = storage;
    gt_tensor_release(value);
}

/* The leaf of a view that is freed. */
static void forget_view(gt_node *leaf, const gt_alias *view)
{
    if (leaf && leaf->op == GT_OP_INVALID && leaf->leaf.view == view)
        leaf->leaf.view = NULL;
}

void gt__alias_release(gt_alias *alias)
{
    while (alias && --alias->references == 0) {
        if (__builtin_expect(alias->cut && gt__ghost_keep(alias), 0))
            return;
        gt_storage *storage = alias->storage;
        gt_alias *parent = alias->parent;
        gt_client *client = alias->shell.client;
        gt_node *node = alias->node, *idle = alias->idle, *history = alias->history, *kept = alias->kept,
                *retaining = alias->retaining;
        alias->node = alias->idle = alias->history = alias->kept = alias->retaining = NULL;
        gt__alias_drop_detour(alias);
        forget_view(node, alias);
        forget_view(idle, alias);
        if (alias->family->face == alias)
            alias->family->face = NULL;
        if (alias != &storage->root)
            gt__alias_drop_cut(alias);
        gt__versions_release(alias->versions);
        if (alias != &storage->root) {
            alias->after = spare_aliases;
            spare_aliases = alias;
        }
        storage_release(storage);
        gt__node_release(node);
        gt__node_release(idle);
        gt__node_release(history);
        gt__node_release(kept);
        gt__node_release(retaining);
        client->live--;
        gt__client_maybe_destroy(client);
        alias = parent;
    }
}

void gt__alias_drop_detour(gt_alias *alias)
{
    gt_tensor *detour = alias->detour;
    gt_node *node = alias->detour_of;
    if (__builtin_expect(!detour, 1))
        return;
    alias->detour = NULL;
    alias->detour_of = NULL;
    gt_tensor_release(detour);
    gt__node_release(node);
}

void gt__alias_leave(gt_alias *alias)
{
    gt_alias *family = alias->family;
    gt_node *history = alias->history, *kept = alias->kept, *retaining = alias->retaining;
    if (!alias->owner)
        return;
    alias->owner = NULL;
    alias->history = alias->kept = alias->retaining = NULL;
    gt__alias_retain(alias); /* what is freed here may run user code */
    gt__alias_drop_detour(alias);
    alias->storage->owners--;
    family->members -= family != alias;
    gt__node_release(history);
    gt__node_release(kept);
    gt__node_release(retaining);
    forget_history(family);
    if (!alias->storage->owners)
        gt__ghost_end_all(alias->storage);
    gt__alias_release(alias);
}

void gt__alias_disown(gt_alias *alias)
{
    gt__alias_leave(alias);
    gt__alias_release(alias);
}

/* ---- nodes -------------------------------------------------------------------------------------------------- */

gt_node *gt__alias_node(const gt_alias *alias)
{
    if (alias == &alias->storage->root)
        return alias->cut->node;
    return alias->node;
}

bool gt__alias_requires_grad(const gt_alias *alias)
{
    return (alias->node && !alias->node->discards) || alias->tracked || gt__alias_node(alias->family);
}

void gt__alias_follow(gt_alias *alias)
{
    bool changed = alias->made_at != alias->versions->count;
    alias->known = alias->known || alias->tracked || (changed && gt__alias_node(alias->family));
}

bool gt__alias_is_known(const gt_alias *alias)
{
    return alias->known ||
           (alias->cut && alias->cut->node && alias->cut->node != alias->node && alias->cut->node->used);
}

/* The views of a family are cut anew when it gets another node, unless they have a history of their own. */
static void drop_cuts_without_history(gt_alias *family)
{
    for (gt_alias *view = family->storage->fresh, *next; view; view = next) {
        next = view->after;
        if (view->family == family && view != family && !view->tracked && !view->ghost)
            gt__alias_drop_cut(view);
    }
}

gt_err gt__alias_set_node(gt_alias *alias, gt_node *node)
{
    gt_node *before = alias->node;
    if (__builtin_expect(alias->family->face == alias, 0))
        return gt__alias_set_face_node(alias, node);
    drop_cuts_without_history(alias);
    if (alias == &alias->storage->root) {
        if (alias->cut->references > 1) { /* saved values keep the tensor as it is */
            gt_tensor *own, *old = alias->cut;
            GT_TRY(gt__tensor_alias(old, node, &own));
            gt__node_release(node);
            alias->cut = own;
            gt__alias_stamp(own, alias->versions);
            gt_tensor_release(old);
            return GT_OK;
        }
        before = alias->cut->node;
        alias->cut->node = node;
    } else {
        gt__alias_drop_cut(alias); /* while its node tells whether the cut was a leaf; may run user code */
        before = alias->node;
        if (node && alias->family != alias)
            node->leaf.view = alias;
        alias->node = node;
    }
    gt__node_release(before);
    return GT_OK;
}

bool gt__alias_covers(const gt_alias *alias)
{
    return alias->whole || (!alias->storage->permuted && alias->strides.offset == 0 &&
                            alias->shell.meta.numel == alias->storage->root.shell.meta.numel &&
                            gt__strides_are_contiguous(&alias->shell.meta, &alias->strides));
}

bool gt__alias_alone(const gt_alias *alias)
{
    return alias->whole && alias->owner && alias->storage->owners == 1 && !alias->storage->ghosts &&
           !alias->idle && !alias->foreign && gt__strides_are_usual(&alias->shell.meta, &alias->strides);
}

/* ---- gradients ----------------------------------------------------------------------------------------------- */

void gt__alias_own(gt_alias *alias, void *owner)
{
    alias->owner = owner;
    alias->storage->owners++;
    alias->family->members += alias->family != alias;
}

bool gt__node_has_gradient(const gt_node *node)
{
    return node->gradient || node->shared_gradient;
}

gt_err gt__node_gradient(gt_node *node, gt_tensor **out)
{
    gt_alias *alias = node->shared_gradient;
    *out = node->gradient;
    if (!alias)
        return GT_OK;
    gt__alias_retain(alias); /* the cut may wait, and other threads may drop the gradient */
    gt_err err = gt__alias_cut(alias, out);
    if (node->shared_gradient != alias)
        *out = node->gradient;
    gt__alias_release(alias);
    return err;
}

void gt__node_drop_gradient(gt_node *node)
{
    gt_alias *alias = node->shared_gradient;
    gt_tensor *gradient = node->gradient;
    node->shared_gradient = NULL;
    node->gradient = NULL;
    gt_tensor_release(gradient);
    if (!alias)
        return;
    if (alias->gradient_of == node)
        alias->gradient_of = NULL;
    if (--alias->storage->owners == 0)
        gt__ghost_end_all(alias->storage);
    gt__alias_release(alias);
}

void gt__node_set_gradient(gt_node *node, gt_alias *alias)
{
    gt__alias_retain(alias);
    alias->storage->owners++;
    gt__node_drop_gradient(node);
    node->shared_gradient = alias;
    alias->gradient_of = node;
}

void gt__node_move_gradient(gt_node *from, gt_node *to)
{
    if (!from->keeps_gradient || from == to || from->op == GT_OP_INVALID)
        return;
    from->keeps_gradient = false;
    to->keeps_gradient = true;
    gt__node_drop_gradient(to);
    to->gradient = from->gradient;
    to->shared_gradient = from->shared_gradient;
    from->gradient = NULL;
    from->shared_gradient = NULL;
    if (to->shared_gradient && to->shared_gradient->gradient_of == from)
        to->shared_gradient->gradient_of = to;
}

gt_err gt__node_share_gradient(gt_node *node, gt_alias **out)
{
    if (!node->shared_gradient) {
        gt_tensor *own = gt_tensor_retain(node->gradient), *alias;
        if (own->references > 2) { /* others have the tensor, too: it must not be marked as overwritten */
            gt_err err = gt__tensor_alias(own, own->node, &alias);
            gt_tensor_release(own);
            GT_TRY(err);
            own = alias;
        }
        GT_TRY(gt__storage_new(own, NULL, out));
        gt__node_set_gradient(node, *out);
        gt__alias_release(*out);
    }
    *out = node->shared_gradient;
    return GT_OK;
}

/*
 * storage_saved.c: values that the graph has saved, when a write through x.data changes their memory. See storage.h.
 *
 * PyTorch's nodes save tensors that share memory with their operands. A write that counts (gt_versions) makes backward raise.
 * One that does not, through x.data, is not noticed: backward reads the changed elements. Here a node saves a value, so such a
 * write replaces it in the nodes that have it. That takes a walk over the tape, only if something besides the storage holds
 * the value.
 *
 * A view that was freed, but whose value is saved, stays in its storage as a ghost, so that its value can be cut anew.
 */
#include <stdlib.h>

#include "client/storage.h"

/* A value that something may have saved, and the alias that it is a value of. Both retained. */
struct gt_saved {
    gt_saved *next;
    gt_alias *alias;
    gt_tensor *value;
};

/* The result of an operation whose gradient needs it: the node has the value, the object an alias of it. */
static bool is_saved_result(const gt_tensor *value)
{
    return value->node && value->node->saved_out && value->node->saved_out == value->base;
}

static bool is_held(const gt_alias *alias)
{
    const gt_tensor *value = alias->cut;
    if (is_saved_result(value))
        return true;
    if (value->references == 1)
        return false;
    uint32_t known = 1 + (alias->storage->root.cut->base == value);
    for (const gt_alias *other = alias->storage->fresh; other; other = other->after)
        known += other->cut->base == value;
    return value->references > known;
}

gt_err gt__saved_note(gt_alias *alias)
{
    if (!is_held(alias))
        return GT_OK;
    gt_saved *saved = malloc(sizeof *saved);
    if (!saved)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    *saved = (gt_saved){alias->storage->saved, gt__alias_retain(alias), gt_tensor_retain(alias->cut)};
    alias->storage->saved = saved;
    return GT_OK;
}

void gt__saved_replace(gt_tensor *old, gt_tensor *value, bool rebound)
{
    /* The newest nodes first; one reference is the caller's. */
    for (gt_node *node = old->client->newest_node; node && old->references > 1; node = node->older) {
        unsigned views = rebound && node->op == GT_NODE_CUSTOM ? node->custom.views : 0;
        for (unsigned k = 0; k < GT_MAX_OPERANDS; k++)
            if (node->saved[k] == old && !(views >> k & 1)) {
                node->saved[k] = gt_tensor_retain(value);
                gt_tensor_release(old);
            }
        if (node->saved_out == old && !value->node) {
            node->saved_out = gt_tensor_retain(value);
            gt_tensor_release(old);
        }
    }
}

/* The node of the result gets the new value, without a node: else neither would ever be freed. */
static gt_err replace_result(gt_alias *alias)
{
    gt_tensor *value = alias->cut, *own;
    gt_node *node = value->node;
    if (!value->base) {
        GT_TRY(gt__tensor_alias(value, node, &own));
        gt__alias_stamp(own, alias->versions);
        value->node = NULL;
        gt__node_release(node); /* the alias has it, too */
        alias->cut = own;       /* its base keeps the value */
        gt_tensor_release(value);
        value = own;
    }
    gt_tensor *before = node->saved_out;
    node->saved_out = gt_tensor_retain(value->base);
    gt__alias_stamp(value->base, alias->versions);
    gt_tensor_release(before);
    return GT_OK;
}

static gt_err update(const gt_saved *saved)
{
    gt_alias *alias = saved->alias;
    gt_tensor *value;
    bool result = is_saved_result(saved->value);
    GT_TRY(gt__alias_cut_again(alias, saved->value->node, &value));
    if (result && value->node == saved->value->node) {
        GT_TRY(replace_result(alias));
        value = alias->cut;
    }
    gt__saved_replace(saved->value, value, false);
    return GT_OK;
}

gt_err gt__saved_update(gt_storage *storage, const gt_versions *writer)
{
    gt_err err = GT_OK;
    gt_saved *saved = storage->saved;
    storage->saved = NULL;
    while (saved) {
        gt_saved *next = saved->next;
        if (err == GT_OK && saved->alias->versions != writer)
            err = update(saved);
        gt_tensor_release(saved->value);
        gt__alias_release(saved->alias);
        free(saved);
        saved = next;
    }
    return err;
}

/* ---- ghosts ---------------------------------------------------------------------------------------------------- */

enum { FEW_GHOSTS = 64 };

static gt_alias *ghosts; /* one thread at a time is here, as for clients */
static unsigned ghost_count, ghost_limit = FEW_GHOSTS;

static bool is_ghost_worthy(const gt_alias *alias)
{
    return alias->parent && alias->storage->owners && is_held(alias);
}

bool gt__ghost_keep(gt_alias *alias)
{
    if (!is_ghost_worthy(alias))
        return false;
    alias->references = 1;
    alias->ghost = true;
    alias->ghost_before = NULL;
    alias->ghost_after = ghosts;
    if (ghosts)
        ghosts->ghost_before = alias;
    ghosts = alias;
    alias->storage->ghosts++;
    if (++ghost_count > ghost_limit) {
        gt__ghost_sweep();
        ghost_limit = FEW_GHOSTS + 2 * ghost_count;
    }
    return true;
}

void gt__ghost_end(gt_alias *alias)
{
    *(alias->ghost_before ? &alias->ghost_before->ghost_after : &ghosts) = alias->ghost_after;
    if (alias->ghost_after)
        alias->ghost_after->ghost_before = alias->ghost_before;
    alias->ghost = false;
    alias->storage->ghosts--;
    ghost_count--;
    gt__alias_release(alias);
}

/* Whether something besides the ghost needs its value. A saved result is also needed while its node is in use. */
static bool is_still_held(const gt_alias *ghost)
{
    const gt_tensor *value = ghost->cut;
    if (value->node && value->references == 1 && value->node->references == 1)
        return false;
    return is_held(ghost);
}

void gt__ghost_sweep(void)
{
    for (gt_alias *ghost = ghosts, *next; ghost; ghost = next) {
        next = ghost->ghost_after;
        if (is_still_held(ghost))
            continue;
        if (next)
            gt__alias_retain(next); /* what is freed here may run user code */
        gt__alias_drop_cut(ghost);
        bool ended = next && !next->ghost;
        if (next)
            gt__alias_release(next);
        if (ended)
            next = ghosts;
    }
}

void gt__ghost_end_all(gt_storage *storage)
{
    if (!storage->ghosts)
        return;
    gt__alias_retain(&storage->root);
    while (storage->ghosts) {
        gt_alias *ghost = storage->fresh;
        while (!ghost->ghost)
            ghost = ghost->after;
        gt__alias_drop_cut(ghost);
    }
    gt__alias_release(&storage->root);
}

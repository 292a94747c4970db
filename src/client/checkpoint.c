#include "client/checkpoint.h"

#include "core/error.h"
#include "core/op.h"

uint64_t gt__tape_position(const gt_client *client)
{
    return client->next_node;
}

/* The oldest node at or after a position. */
static gt_node *first_since(const gt_client *client, uint64_t begin)
{
    gt_node *node = client->newest_node, *first = NULL;
    for (; node && node->sequence >= begin; node = node->older)
        first = node;
    return first;
}

/* Releasing a value may free hooks, which run user code: the node and its successor are retained meanwhile. */
static void drop_values(gt_node *node)
{
    gt_tensor *values[] = {node->saved[0], node->saved[1], node->saved[2], node->saved_out};
    node->saved[0] = node->saved[1] = node->saved[2] = node->saved_out = NULL;
    node->dropped = true;
    for (unsigned k = 0; k < sizeof values / sizeof *values; k++)
        gt_tensor_release(values[k]);
}

gt_err gt__checkpoint_drop(gt_client *client, uint64_t begin, gt_hook hook, void *context, void (*retain)(void *),
                           void (*free)(void *))
{
    gt_err err = GT_OK;
    gt_node *node = first_since(client, begin);
    if (node)
        gt__node_retain(node);
    while (node) {
        if (err == GT_OK && gt__node_has_saved(node)) {
            gt_hook_entry *entry;
            err = gt__node_hook(node, hook, context, free, false, &entry);
            if (err == GT_OK) {
                retain(context);
                gt__hook_release(entry);
                drop_values(node);
            }
        }
        gt_node *next = node->newer ? gt__node_retain(node->newer) : NULL;
        gt__node_release(node);
        node = next;
    }
    return err;
}

static gt_err differs(const char *what)
{
    return gt__fail(
        GT_ERR_VALUE,
        "checkpoint: %s when the forward pass was computed again: the function must do the same both times", what);
}

static void take_values(gt_node *node, const gt_node *from)
{
    for (unsigned k = 0; k < GT_MAX_OPERANDS; k++)
        node->saved[k] = from->saved[k] ? gt_tensor_retain(from->saved[k]) : NULL;
    node->saved_out = from->saved_out ? gt_tensor_retain(from->saved_out) : NULL;
    node->dropped = false;
}

gt_err gt__checkpoint_restore(gt_client *client, uint64_t begin, uint64_t end, uint64_t again)
{
    if (client->next_node - again != end - begin)
        return differs("a different number of operations was recorded");
    gt_node *from = first_since(client, again);
    for (gt_node *node = first_since(client, begin); node && node->sequence < end; node = node->newer) {
        if (!node->dropped)
            continue;
        while (from && from->sequence - again < node->sequence - begin)
            from = from->newer;
        if (!from || from->sequence - again != node->sequence - begin || from->op != node->op)
            return differs("another operation was recorded");
        if (!gt__meta_same_shape(&from->out, &node->out) || from->out.dtype != node->out.dtype)
            return differs("a tensor had another shape or dtype");
        if (!from->dropped) /* else it is part of an inner region, which has its own hook */
            take_values(node, from);
    }
    return GT_OK;
}

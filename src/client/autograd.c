/* autograd.c: nodes, recording, hooks. See autograd.h; the backward walk is in backward.c, the rules are in gradients/. */
#include "client/autograd.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/batch.h"
#include "client/intercept.h"
#include "client/signals.h"
#include "client/storage.h"

_Thread_local bool gt__grad_enabled_here = true;
_Atomic int gt__grad_disabled_threads;
_Thread_local bool gt__inference_here;

bool gt__grad_enable(bool enabled)
{
    bool before = gt__grad_enabled_here;
    gt__grad_enabled_here = enabled;
    if (before != enabled)
        atomic_fetch_add_explicit(&gt__grad_disabled_threads, before - enabled, memory_order_relaxed);
    return before;
}

/* ---- nodes ------------------------------------------------------------------------------------------------- */

static gt_node *node_new(gt_client *client, gt_opcode op)
{
    gt_node *node = client->spare_nodes;
    if (node)
        client->spare_nodes = node->next_spare;
    else if (!(node = malloc(sizeof *node)))
        return NULL;
    node->references = 1;
    node->op = (uint16_t)op;
    node->consumed = node->keeps_gradient = node->keeps_values = node->dropped = node->discards = node->used =
        false;
    node->count = 0;
    node->client = client;
    node->sequence = client->next_node++;
    node->gradient = NULL;
    node->shared_gradient = NULL;
    node->arrivals = NULL;
    node->hooks = NULL;
    node->running_hooks = 0;
    node->operands = node->fixed;
    node->saved[0] = node->saved[1] = node->saved[2] = node->saved_out = NULL;
    node->newer = NULL;
    node->older = client->newest_node;
    *(node->older ? &node->older->newer : &client->oldest_node) = node;
    client->newest_node = node;
    return node;
}

gt_node *gt__node_retain(gt_node *node)
{
    node->references++;
    return node;
}

void gt__replace(gt_tensor **where, gt_tensor *tensor)
{
    gt_tensor *before = *where;
    *where = tensor;
    gt_tensor_release(before);
}

void gt__node_drop_saved(gt_node *node)
{
    if (gt__node_has_saved(node)) {
        for (unsigned k = 0; k < GT_MAX_OPERANDS; k++)
            gt__replace(&node->saved[k], NULL);
        gt__replace(&node->saved_out, NULL);
    }
    if (__builtin_expect(node->op == GT_NODE_CUSTOM, 0) && node->custom.drop)
        node->custom.drop(node->custom.context);
}

void gt__node_sweep_hooks(gt_node *node, bool all)
{
    gt_hook_entry *out = NULL, **where = &node->hooks;
    while (*where) {
        gt_hook_entry *entry = *where;
        if (!all && !entry->removed) {
            where = &entry->next;
            continue;
        }
        *where = entry->next;
        entry->node = NULL;
        entry->next = out;
        out = entry;
    }
    while (out) {
        gt_hook_entry *entry = out;
        out = entry->next;
        if (entry->free)
            entry->free(entry->context);
        gt__hook_release(entry);
    }
}

/* No recursion, since a chain may be 100,000 ops long: nodes without references wait in a list of their client. */
void gt__node_release(gt_node *node)
{
    if (!node || --node->references)
        return;
    gt_client *client = node->client;
    node->next_spare = client->dying_nodes;
    client->dying_nodes = node;
    if (client->releasing_nodes)
        return;
    client->releasing_nodes = true;
    client->live++; /* keeps the client allocated during this loop */
    while ((node = client->dying_nodes)) {
        client->dying_nodes = node->next_spare;
        gt__node_drop_saved(node);
        if (node->gradient || node->shared_gradient)
            gt__node_drop_gradient(node);
        if (node->hooks)
            gt__node_sweep_hooks(node, true);
        if (__builtin_expect(node->op == GT_NODE_CUSTOM, 0) && node->custom.free)
            node->custom.free(node->custom.context);
        for (unsigned k = 0; k < node->count; k++)
            if (node->operands[k].node)
                gt__node_release(node->operands[k].node);
        if (node->operands != node->fixed)
            free(node->operands);
        *(node->older ? &node->older->newer : &client->oldest_node) = node->newer;
        *(node->newer ? &node->newer->older : &client->newest_node) = node->older;
        node->next_spare = client->spare_nodes;
        client->spare_nodes = node;
    }
    client->releasing_nodes = false;
    client->live--;
    if (__builtin_expect(client->closed, 0))
        gt__client_maybe_destroy(client);
}

void gt__node_free_spares(gt_client *client)
{
    while (client->spare_nodes) {
        gt_node *next = client->spare_nodes->next_spare;
        free(client->spare_nodes);
        client->spare_nodes = next;
    }
}

/* ---- tensors ----------------------------------------------------------------------------------------------- */

gt_err gt__node_new_leaf(gt_client *client, const gt_meta *meta, gt_node **out)
{
    if (!gt__dtype_is_inexact((gt_dtype)meta->dtype))
        return gt__fail(GT_ERR_TYPE, "only Tensors of floating point and complex dtype can require gradients");
    gt_node *leaf = node_new(client, GT_OP_INVALID);
    if (!leaf)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    leaf->out = *meta;
    leaf->leaf = (gt_leaf){.view = NULL};
    *out = leaf;
    return GT_OK;
}

gt_err gt__tensor_require_grad(gt_tensor *tensor)
{
    return tensor->node ? GT_OK : gt__node_new_leaf(tensor->client, &tensor->meta, &tensor->node);
}

gt_err gt__tensor_detach(gt_tensor *tensor, gt_tensor **out)
{
    return gt__tensor_alias(tensor, NULL, out);
}

/* ---- recording --------------------------------------------------------------------------------------------- */

/* The node of an operand, retained. A leaf that keeps no gradient needs none. */
static gt_node *edge_to(gt_node *node)
{
    if (!node || node->discards)
        return NULL;
    node->used = true;
    return gt__node_retain(node);
}

static gt_err save_values(gt_node *node, unsigned saves, gt_tensor *const *in, gt_tensor **out)
{
    if (node->operands[0].node)
        saves |= saves >> GT_SAVE_FOR_0;
    if (node->count > 1 && node->operands[1].node)
        saves |= saves >> GT_SAVE_FOR_1;
    node->keeps_values = node->ins.literals && (node->op == GT_OP_mul || node->op == GT_OP_div);
    if (!(saves & (GT_SAVE_0 | GT_SAVE_1 | GT_SAVE_2 | GT_SAVE_OUT)))
        return GT_OK;
    for (unsigned k = 0; k < node->count && k < GT_MAX_OPERANDS; k++)
        if (saves >> k & 1 && in[k]) {
            if (__builtin_expect(in[k]->inference, 0))
                return gt__fail(
                    GT_ERR_VALUE,
                    "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
                    "inference mode in computation tracked by autograd. To work around this, you can make a "
                    "clone to get a normal tensor and use it in autograd, or use `gt.no_grad()` instead of "
                    "`gt.inference_mode()`.");
            node->saved[k] = gt_tensor_retain(in[k]);
        }
    node->keeps_values |= saves & GT_SAVE_OUT || gt__node_has_saved(node);
    if (!(saves & GT_SAVE_OUT))
        return GT_OK;
    /* The node keeps the value itself; what the caller gets is an alias that points to the node. */
    gt_tensor *value = *out, *alias;
    GT_TRY(gt__tensor_alias(value, NULL, &alias));
    node->saved_out = value;
    *out = alias;
    return GT_OK;
}

/* Whether a gradient can be asked for: the result of a differentiable op on floats. */
static bool worth_recording(gt_opcode op, const gt_tensor *result)
{
    return gt__op_table[op].differentiable && gt__dtype_is_inexact((gt_dtype)result->meta.dtype);
}

/* Fill a new node, except its instruction, and attach it to the result. Takes the node, also on failure. */
static gt_err node_finish(gt_node *node, unsigned saves, gt_tensor *const *in, unsigned count, gt_tensor **out)
{
    gt__meta_copy(&node->out, &(*out)->meta);
    for (unsigned k = 0; k < count; k++) {
        node->operands[k].node = in[k] ? edge_to(in[k]->node) : NULL;
        if (in[k])
            gt__meta_copy(&node->operands[k].meta, &in[k]->meta);
    }
    node->count = count;
    gt_err err = save_values(node, saves, in, out);
    if (err != GT_OK)
        gt__node_release(node);
    else
        (*out)->node = node;
    return err;
}

gt_err gt__autograd_record(const gt_instruction *ins, const gt_slot *tail, gt_tensor *const *in, unsigned count,
                           gt_tensor **out)
{
    gt_opcode op = (gt_opcode)ins->op;
    if (!worth_recording(op, *out))
        return GT_OK;
    gt_node *node = node_new((*out)->client, op);
    if (!node)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    if (count > GT_MAX_OPERANDS && !(node->operands = malloc(count * sizeof *node->operands))) {
        node->operands = node->fixed;
        gt__node_release(node);
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    }
    node->ins = *ins;
    if (op != GT_OP_cat && ins->tail && ins->tail <= 3)
        memcpy(node->tail, tail, ins->tail * sizeof *tail);
    return node_finish(node, gt__gradient_saves(op), in, count, out);
}

gt_err gt__autograd_record_elementwise(gt_opcode op, uint8_t literals, uint64_t first, uint64_t second,
                                       gt_tensor *const *in, unsigned count, gt_tensor **out)
{
    if (!worth_recording(op, *out))
        return GT_OK;
    gt_node *node = node_new((*out)->client, op);
    if (!node)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    node->ins = (gt_instruction){.op = (uint16_t)op, .literals = literals, .operand = {first, second}};
    return node_finish(node, gt__gradient_saves(op), in, count, out);
}

/* Of a node that stands for several ops. */
static gt_instruction custom_instruction(void)
{
    return (gt_instruction){.scope = gt__signals_on() ? gt__signal_current().scope : 0,
                            .site = gt__site_hooks.current ? gt__site_hooks.current() : 0};
}

gt_err gt__autograd_record_reduce(gt_opcode op, gt_tensor *a, uint32_t axes, double parameter, gt_tensor **out)
{
    gt_instruction ins = custom_instruction();
    ins.op = (uint16_t)op;
    ins.imm[0].u = axes;
    ins.imm[1].f = parameter;
    return gt__autograd_record(&ins, &(gt_slot){.i64 = {0}}, &a, 1, out);
}

gt_err gt__autograd_record_custom(const gt_custom_rule *rule, unsigned saves, gt_tensor *const *in, unsigned count,
                                  gt_tensor **out)
{
    gt_node *node = node_new((*out)->client, GT_OP_INVALID);
    if (!node)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    node->op = GT_NODE_CUSTOM;
    node->custom = *rule;
    node->ins = custom_instruction();
    return node_finish(node, saves, in, count, out);
}

gt_err gt__autograd_custom(gt_tensor *value, gt_tensor *const *in, unsigned count, gt_custom_rule rule, bool keeps,
                           gt_tensor **out)
{
    gt_node *node = node_new(value->client, GT_OP_INVALID);
    if (!node)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    if (count > GT_MAX_OPERANDS && !(node->operands = malloc(count * sizeof *node->operands))) {
        node->operands = node->fixed;
        gt__node_release(node);
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    }
    gt_tensor *result;
    gt_err err = gt__tensor_alias(value, node, &result);
    gt__node_release(node); /* the result's, or freed */
    GT_TRY(err);
    node->op = GT_NODE_CUSTOM;
    node->custom = rule;
    node->keeps_values = keeps;
    node->ins = custom_instruction();
    node->out = value->meta;
    node->count = count;
    for (unsigned k = 0; k < count; k++) {
        node->operands[k].node = in[k] ? edge_to(in[k]->node) : NULL;
        if (in[k])
            node->operands[k].meta = in[k]->meta;
    }
    *out = result;
    return GT_OK;
}

void gt__autograd_save_nothing(gt_node *node, gt_opcode op)
{
    if (!node || node->op != op || !node->ins.literals)
        return;
    gt__node_drop_saved(node);
    node->keeps_values = false;
}

void gt__autograd_rounds(gt_node *node)
{
    if (node && node->op == GT_OP_floor_divide)
        node->op = GT_OP_trunc_divide;
}

void gt__autograd_watch(gt_node *node, gt_tensor *value)
{
    unsigned checks = gt__gradient_checks(node);
    for (unsigned k = GT_MAX_OPERANDS; k-- > 0;) {
        if (node->saved[k] || !(checks >> k & 1))
            continue;
        node->saved[k] = gt_tensor_retain(value);
        node->keeps_values = true;
        return;
    }
}

/* ---- hooks ------------------------------------------------------------------------------------------------- */

gt_err gt__tensor_hook(gt_tensor *tensor, gt_hook hook, void *context, void (*release)(void *), bool after,
                       gt_hook_entry **out)
{
    if (!tensor->node)
        return gt__fail(GT_ERR_VALUE, "cannot register a hook on a tensor that doesn't require gradient");
    return gt__node_hook(tensor->node, hook, context, release, after, out);
}

gt_err gt__node_hook(gt_node *node, gt_hook hook, void *context, void (*release)(void *), bool after,
                     gt_hook_entry **out)
{
    gt_hook_entry *entry = malloc(sizeof *entry), **last = &node->hooks;
    if (!entry)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    *entry = (gt_hook_entry){
        .references = 2, .after = after, .node = node, .hook = hook, .context = context, .free = release};
    while (*last)
        last = &(*last)->next;
    *last = entry;
    *out = entry;
    return GT_OK;
}

void gt__hook_remove(gt_hook_entry *entry)
{
    entry->removed = true;
    if (entry->node && !entry->node->running_hooks)
        gt__node_sweep_hooks(entry->node, false);
}

void gt__hook_release(gt_hook_entry *entry)
{
    if (--entry->references == 0)
        free(entry);
}

/* autograd.c: recording and the backward walk. See autograd.h; the rules are in gradients.c. */
#include "autograd.h"

#include <stdlib.h>
#include <string.h>

_Thread_local bool gt__grad_enabled = true;

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
    node->consumed = node->keeps_gradient = false;
    node->saved_mask = 0;
    node->count = 0;
    node->client = client;
    node->sequence = client->next_node++;
    node->gradient = node->arriving = NULL;
    node->hooks = NULL;
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

static void drop_saved(gt_node *node)
{
    for (unsigned k = 0; k < GT_MAX_OPERANDS; k++) {
        gt_tensor_release(node->saved[k]);
        node->saved[k] = NULL;
    }
    gt_tensor_release(node->saved_out);
    node->saved_out = NULL;
}

static void hooks_free(gt_node *node)
{
    while (node->hooks) {
        gt_hook_entry *entry = node->hooks;
        node->hooks = entry->next;
        if (entry->free)
            entry->free(entry->context);
        free(entry);
    }
}

/* A chain of 100,000 ops must not recurse 100,000 deep: nodes that reach zero wait in a list on their client. */
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
    client->live++; /* the client outlives this loop, whatever it releases */
    while ((node = client->dying_nodes)) {
        client->dying_nodes = node->next_spare;
        drop_saved(node);
        gt_tensor_release(node->gradient);
        gt_tensor_release(node->arriving);
        hooks_free(node);
        for (unsigned k = 0; k < node->count; k++)
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

gt_err gt__tensor_require_grad(gt_tensor *tensor)
{
    if (tensor->node)
        return GT_OK;
    if (!gt__dtype_is_float((gt_dtype)tensor->meta.dtype))
        return gt__fail(GT_ERR_TYPE, "only tensors of floating point dtype can require gradients");
    gt_node *leaf = node_new(tensor->client, GT_OP_INVALID);
    if (!leaf)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    leaf->out = tensor->meta;
    tensor->node = leaf;
    return GT_OK;
}

gt_err gt__tensor_detach(gt_tensor *tensor, gt_tensor **out)
{
    return gt__tensor_alias(tensor, NULL, out);
}

/* ---- recording --------------------------------------------------------------------------------------------- */

static gt_err save_values(gt_node *node, unsigned saves, gt_tensor *const *in, gt_tensor **out)
{
    node->saved_mask = (uint8_t)saves;
    for (unsigned k = 0; k < node->count && k < GT_MAX_OPERANDS; k++)
        if (saves >> k & 1 && in[k])
            node->saved[k] = gt_tensor_retain(in[k]);
    if (!(saves & GT_SAVE_OUT))
        return GT_OK;
    /* The node keeps the value itself; what the caller gets is an alias that points to the node. */
    gt_tensor *value = *out, *alias;
    GT_TRY(gt__tensor_alias(value, NULL, &alias));
    node->saved_out = value;
    *out = alias;
    return GT_OK;
}

gt_err gt__autograd_record(const gt_instruction *ins, const gt_slot *tail, gt_tensor *const *in, unsigned count,
                           gt_tensor **out)
{
    gt_opcode op = (gt_opcode)ins->op;
    if (!gt__op_table[op].differentiable || !gt__dtype_is_float((gt_dtype)(*out)->meta.dtype))
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
    node->out = (*out)->meta;
    for (unsigned k = 0; k < count; k++) {
        node->operands[k].node = in[k] && in[k]->node ? gt__node_retain(in[k]->node) : NULL;
        if (in[k])
            node->operands[k].meta = in[k]->meta;
    }
    node->count = count;
    if (op != GT_OP_cat && ins->tail && ins->tail <= 3)
        memcpy(node->tail, tail, ins->tail * sizeof *tail);
    gt_err err = save_values(node, gt__gradient_saves(op), in, out);
    if (err != GT_OK) {
        gt__node_release(node);
        return err;
    }
    (*out)->node = node;
    return GT_OK;
}

/* ---- backward ---------------------------------------------------------------------------------------------- */

typedef struct heap {
    gt_node **nodes; /* borrowed: kept alive by the outputs and by their consumers until popped */
    size_t count, capacity;
} heap;

typedef struct pass {
    heap queue;
    gt_tensor *const *inputs; /* wanted results, by node; NULL: accumulate into leaves */
    unsigned input_count;
    gt_tensor **results;
    gt_backward_options options;
} pass;

static gt_err heap_push(heap *h, gt_node *node)
{
    if (h->count == h->capacity) {
        size_t capacity = h->capacity ? h->capacity * 2 : 64;
        gt_node **nodes = realloc(h->nodes, capacity * sizeof(gt_node *));
        if (!nodes)
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        h->nodes = nodes;
        h->capacity = capacity;
    }
    size_t place = h->count++;
    while (place && h->nodes[(place - 1) / 2]->sequence < node->sequence) {
        h->nodes[place] = h->nodes[(place - 1) / 2];
        place = (place - 1) / 2;
    }
    h->nodes[place] = gt__node_retain(node);
    return GT_OK;
}

static gt_node *heap_pop(heap *h)
{
    gt_node *top = h->nodes[0], *last = h->nodes[--h->count];
    size_t place = 0;
    for (;;) {
        size_t child = 2 * place + 1;
        if (child >= h->count)
            break;
        if (child + 1 < h->count && h->nodes[child + 1]->sequence > h->nodes[child]->sequence)
            child++;
        if (h->nodes[child]->sequence <= last->sequence)
            break;
        h->nodes[place] = h->nodes[child];
        place = child;
    }
    h->nodes[place] = last;
    return top;
}

/* Sum a gradient over the axes along which its operand was broadcast. Takes *gradient, replaces it. */
static gt_err sum_to_shape(gt_tensor **gradient, const gt_meta *target)
{
    const gt_meta *from = &(*gradient)->meta;
    if (gt__meta_same_shape(from, target))
        return GT_OK;
    unsigned extra = from->rank - target->rank;
    uint32_t axes = 0;
    for (unsigned axis = 0; axis < from->rank; axis++)
        if (axis < extra || (target->shape[axis - extra] == 1 && from->shape[axis] != 1))
            axes |= 1u << axis;
    gt_tensor *summed = NULL, *shaped = NULL;
    gt_err err = axes ? gt_sum(*gradient, axes, true, &summed) : GT_OK;
    if (err == GT_OK)
        err = gt_reshape(summed ? summed : *gradient, target->rank, target->shape, &shaped);
    gt_tensor_release(summed);
    if (err != GT_OK)
        return err;
    gt_tensor_release(*gradient);
    *gradient = shaped;
    return GT_OK;
}

/* Add `gradient` (taken) to what has arrived at `node`. */
static gt_err arrive(pass *p, gt_node *node, gt_tensor *gradient)
{
    if (!node->arriving) {
        node->arriving = gradient;
        return heap_push(&p->queue, node);
    }
    gt_tensor *sum;
    gt_err err = gt_add(node->arriving, gradient, &sum);
    gt_tensor_release(gradient);
    GT_TRY(err);
    gt_tensor_release(node->arriving);
    node->arriving = sum;
    return GT_OK;
}

static gt_err run_hooks(gt_node *node, gt_tensor **gradient)
{
    for (gt_hook_entry *entry = node->hooks, *next; entry; entry = next) {
        next = entry->next;
        gt_tensor *replaced = *gradient;
        GT_TRY(entry->hook(entry->context, &replaced));
        if (replaced != *gradient) {
            gt_tensor_release(*gradient);
            *gradient = replaced;
        }
    }
    return GT_OK;
}

/* If this node is one of the inputs asked for, deliver. */
static gt_err deliver(pass *p, const gt_node *node, gt_tensor *gradient)
{
    for (unsigned k = 0; k < p->input_count; k++)
        if (p->inputs[k]->node == node) {
            gt_tensor_release(p->results[k]);
            p->results[k] = gt_tensor_retain(gradient);
        }
    return GT_OK;
}

/* Add to .grad, at leaves and where retain_grad() asked for it. */
static gt_err accumulate(pass *p, gt_node *leaf, gt_tensor *gradient)
{
    if (!leaf->gradient) {
        /* Without a graph of its own the gradient is plain data. */
        if (p->options.create_graph) {
            leaf->gradient = gt_tensor_retain(gradient);
            return GT_OK;
        }
        return gt__tensor_detach(gradient, &leaf->gradient);
    }
    gt_tensor *sum;
    GT_TRY(gt_add(leaf->gradient, gradient, &sum));
    gt_tensor_release(leaf->gradient);
    leaf->gradient = sum;
    return GT_OK;
}

static gt_err propagate(pass *p, gt_node *node, gt_tensor *gradient)
{
    bool wanted_few[GT_MAX_OPERANDS], *wanted = wanted_few;
    gt_tensor *results_few[GT_MAX_OPERANDS], **results = results_few;
    if (node->consumed)
        return gt__fail(GT_ERR_VALUE, "trying to backward through the graph a second time; specify retain_graph=True "
                                      "the first time");
    if (node->count > GT_MAX_OPERANDS) {
        wanted = malloc(node->count * sizeof *wanted);
        results = malloc(node->count * sizeof(gt_tensor *));
        if (!wanted || !results) {
            free(wanted);
            free(results);
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        }
    }
    for (unsigned k = 0; k < node->count; k++) {
        wanted[k] = node->operands[k].node != NULL;
        results[k] = NULL;
    }
    gt_err err = gt__gradient_rule(node, gradient, wanted, p->options.create_graph, results);
    for (unsigned k = 0; k < node->count; k++) {
        if (err == GT_OK && results[k] && wanted[k]) {
            err = sum_to_shape(&results[k], &node->operands[k].meta);
            if (err == GT_OK) {
                err = arrive(p, node->operands[k].node, results[k]);
                continue;
            }
        }
        gt_tensor_release(results[k]);
    }
    if (wanted != wanted_few) {
        free(wanted);
        free(results);
    }
    if (err == GT_OK && !p->options.retain_graph) {
        drop_saved(node);
        node->consumed = true;
    }
    return err;
}

static gt_err process(pass *p, gt_node *node)
{
    gt_tensor *gradient = node->arriving;
    node->arriving = NULL;
    bool leaf = node->op == GT_OP_INVALID;
    gt_err err = run_hooks(node, &gradient);
    if (err == GT_OK && p->input_count)
        err = deliver(p, node, gradient);
    else if (err == GT_OK && (leaf || node->keeps_gradient))
        err = accumulate(p, node, gradient);
    if (err == GT_OK && !leaf)
        err = propagate(p, node, gradient);
    gt_tensor_release(gradient);
    return err;
}

static gt_err start_output(pass *p, gt_tensor *output, gt_tensor *gradient)
{
    if (!output->node)
        return gt__fail(GT_ERR_VALUE, "the tensor does not require grad and does not have a grad_fn");
    if (gradient) {
        if (!gt__meta_same_shape(&gradient->meta, &output->meta)) {
            char a[128], b[128];
            return gt__fail(GT_ERR_VALUE, "the gradient has shape %s, the output %s",
                            gt__shape_text(gradient->meta.rank, gradient->meta.shape, a, sizeof a),
                            gt__shape_text(output->meta.rank, output->meta.shape, b, sizeof b));
        }
        return arrive(p, output->node, gt_tensor_retain(gradient));
    }
    if (output->meta.numel != 1)
        return gt__fail(GT_ERR_VALUE, "grad can be implicitly created only for scalar outputs");
    gt_tensor *one;
    GT_TRY(gt_full(output->client, (gt_dtype)output->meta.dtype, output->meta.rank, output->meta.shape, 1.0, &one));
    return arrive(p, output->node, one);
}

/* After a failure: forget what had arrived at nodes still in the queue. */
static void abandon(pass *p)
{
    while (p->queue.count) {
        gt_node *node = heap_pop(&p->queue);
        gt_tensor_release(node->arriving);
        node->arriving = NULL;
        gt__node_release(node);
    }
}

gt_err gt__autograd_run(gt_tensor *const *outputs, gt_tensor *const *gradients, unsigned count,
                        gt_tensor *const *inputs, unsigned input_count, gt_tensor **results,
                        gt_backward_options options)
{
    pass p = {.inputs = inputs, .input_count = input_count, .results = results, .options = options};
    bool before = gt__grad_enabled;
    gt_err err = GT_OK;
    gt__grad_enabled = options.create_graph;
    for (unsigned k = 0; k < count && err == GT_OK; k++)
        err = start_output(&p, outputs[k], gradients ? gradients[k] : NULL);
    while (err == GT_OK && p.queue.count) {
        gt_node *node = heap_pop(&p.queue);
        err = process(&p, node);
        gt__node_release(node);
    }
    gt__grad_enabled = before;
    abandon(&p);
    free(p.queue.nodes);
    for (unsigned k = 0; k < input_count && err == GT_OK; k++)
        if (!results[k] && !options.allow_unused)
            err = gt__fail(GT_ERR_VALUE, "one of the differentiated tensors appears to not have been used in the graph; "
                                         "set allow_unused=True if this is the desired behavior");
    if (err != GT_OK)
        for (unsigned k = 0; k < input_count; k++) {
            gt_tensor_release(results[k]);
            results[k] = NULL;
        }
    return err;
}

/* ---- hooks ------------------------------------------------------------------------------------------------- */

gt_err gt__tensor_hook(gt_tensor *tensor, gt_hook hook, void *context, void (*release)(void *), uint64_t *number)
{
    if (!tensor->node)
        return gt__fail(GT_ERR_VALUE, "cannot register a hook on a tensor that doesn't require gradient");
    gt_hook_entry *entry = malloc(sizeof *entry);
    if (!entry)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    *entry = (gt_hook_entry){.hook = hook, .context = context, .free = release, .number = tensor->client->next_node++};
    gt_hook_entry **last = &tensor->node->hooks;
    while (*last)
        last = &(*last)->next;
    *last = entry;
    *number = entry->number;
    return GT_OK;
}

void gt__tensor_unhook(gt_tensor *tensor, uint64_t number)
{
    if (!tensor->node)
        return;
    for (gt_hook_entry **where = &tensor->node->hooks; *where; where = &(*where)->next)
        if ((*where)->number == number) {
            gt_hook_entry *entry = *where;
            *where = entry->next;
            if (entry->free)
                entry->free(entry->context);
            free(entry);
            return;
        }
}

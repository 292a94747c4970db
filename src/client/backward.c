/* backward.c: the backward walk. See autograd.h; nodes and recording are in autograd.c, the rules in gradients/. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/batch.h"
#include "client/intercept.h"
#include "client/signals.h"
#include "client/storage.h"

/*
 * The gradient that has arrived at a node in one pass. The node lists it, so that the next gradient is added to it, and the
 * pass queues it. A node has one for each pass in progress: see gt__autograd_run.
 */
struct gt_arrival {
    gt_arrival *next; /* another pass's at the same node; or in the list of spares */
    const struct pass *pass;
    gt_node *node;       /* retained */
    gt_tensor *gradient; /* the sum so far */
    int axis;            /* it is zero but for [from, to) of this axis; -1: not known */
    int64_t from, to;
};

/* What most passes get by with, without an allocation. */
typedef struct room {
    gt_arrival arrivals[8];
    gt_arrival *places[16];
} room;

typedef struct heap {
    gt_arrival **arrivals; /* a heap: the newest node is first */
    size_t count, capacity;
} heap;

/* Sequence numbers of nodes, ascending. */
typedef struct node_set {
    uint64_t *numbers;
    size_t count, capacity;
} node_set;

typedef struct pass {
    heap queue;
    room *room;
    unsigned used; /* arrivals of the room */
    gt_arrival *spare;
    gt_tensor *const *inputs; /* the tensors whose gradients are wanted; NULL: all leaves */
    unsigned input_count;
    gt_tensor **results; /* of the inputs; NULL: gradients are added to .grad */
    node_set targets;    /* the inputs' nodes, */
    node_set leading;    /* and all nodes that lead to one; a pass visits no others */
    gt_backward_options options;
} pass;

static gt_err heap_grow(pass *p)
{
    heap *h = &p->queue;
    bool ours = h->arrivals != p->room->places;
    size_t capacity = h->capacity * 2;
    gt_arrival **arrivals = realloc(ours ? h->arrivals : NULL, capacity * sizeof(gt_arrival *));
    if (!arrivals)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    if (!ours)
        memcpy(arrivals, h->arrivals, h->count * sizeof(gt_arrival *));
    h->arrivals = arrivals;
    h->capacity = capacity;
    return GT_OK;
}

static gt_err heap_push(pass *p, gt_arrival *arrival)
{
    heap *h = &p->queue;
    if (h->count == h->capacity)
        GT_TRY(heap_grow(p));
    size_t place = h->count++;
    while (place && h->arrivals[(place - 1) / 2]->node->sequence < arrival->node->sequence) {
        h->arrivals[place] = h->arrivals[(place - 1) / 2];
        place = (place - 1) / 2;
    }
    h->arrivals[place] = arrival;
    return GT_OK;
}

static gt_arrival *heap_pop(heap *h)
{
    gt_arrival *top = h->arrivals[0], *last = h->arrivals[--h->count];
    size_t place = 0;
    for (;;) {
        size_t child = 2 * place + 1;
        if (child >= h->count)
            break;
        if (child + 1 < h->count && h->arrivals[child + 1]->node->sequence > h->arrivals[child]->node->sequence)
            child++;
        if (h->arrivals[child]->node->sequence <= last->node->sequence)
            break;
        h->arrivals[place] = h->arrivals[child];
        place = child;
    }
    h->arrivals[place] = last;
    return top;
}

/* ---- which nodes a pass visits ------------------------------------------------------------------------------ */

static gt_err set_add(node_set *set, uint64_t number)
{
    if (set->count == set->capacity) {
        size_t capacity = set->capacity ? set->capacity * 2 : 64;
        uint64_t *numbers = realloc(set->numbers, capacity * sizeof *numbers);
        if (!numbers)
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        set->numbers = numbers;
        set->capacity = capacity;
    }
    set->numbers[set->count++] = number;
    return GT_OK;
}

static bool set_has(const node_set *set, const gt_node *node)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set->numbers[middle] < node->sequence)
            low = middle + 1;
        else
            high = middle;
    }
    return low < set->count && set->numbers[low] == node->sequence;
}

static int number_order(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Whether the pass needs a gradient for this node. */
static bool is_of_use(const pass *p, const gt_node *node)
{
    return !p->input_count || set_has(&p->leading, node);
}

static bool leads_somewhere(const pass *p, const gt_node *node)
{
    for (unsigned k = 0; k < node->count; k++)
        if (node->operands[k].node && is_of_use(p, node->operands[k].node))
            return true;
    return false;
}

/*
 * Collect the nodes that lead to an input, from the oldest input to the newest output. As in PyTorch, other nodes are neither
 * computed nor consumed: after grad(loss, h), h.backward() still works.
 */
static gt_err find_leading(pass *p, gt_tensor *const *outputs, unsigned count)
{
    gt_client *client = p->inputs[0]->client;
    gt_node *node = p->inputs[0]->node;
    uint64_t newest = 0;
    for (unsigned k = 0; k < p->input_count; k++) {
        if (p->inputs[k]->client != client)
            return gt__fail(GT_ERR_VALUE, "the tensors belong to different clients");
        gt_node *input = p->inputs[k]->node;
        node = input->sequence < node->sequence ? input : node;
        input->keeps_gradient |= !p->results;
        GT_TRY(set_add(&p->targets, input->sequence));
    }
    qsort(p->targets.numbers, p->targets.count, sizeof *p->targets.numbers, number_order);
    for (unsigned k = 0; k < count; k++) {
        if (outputs[k]->client != client)
            return gt__fail(GT_ERR_VALUE, "the tensors belong to different clients");
        if (outputs[k]->node && outputs[k]->node->sequence > newest)
            newest = outputs[k]->node->sequence;
    }
    for (; node && node->sequence <= newest; node = node->newer)
        if (set_has(&p->targets, node) || leads_somewhere(p, node))
            GT_TRY(set_add(&p->leading, node->sequence));
    return GT_OK;
}

/* ---- the walk ---------------------------------------------------------------------------------------------- */

/* Replace *gradient by one with the shape and dtype of the operand `target`: sum over the axes along which it was broadcast,
 * and undo the promotion. */
static gt_err fit(gt_tensor **gradient, const gt_meta *target)
{
    const gt_meta *from = &(*gradient)->meta;
    gt_tensor *fitted;
    if (!gt__meta_same_shape(from, target)) {
        unsigned extra = from->rank - target->rank;
        uint32_t axes = 0;
        for (unsigned axis = 0; axis < from->rank; axis++)
            if (axis < extra || (target->shape[axis - extra] == 1 && from->shape[axis] != 1))
                axes |= 1u << axis;
        if (axes) {
            bool only_extra = axes == (1u << extra) - 1;
            GT_TRY(gt_sum(*gradient, axes, !only_extra, &fitted));
            gt__replace(gradient, fitted);
        }
        if (!gt__meta_same_shape(&(*gradient)->meta, target)) {
            GT_TRY(gt_reshape(*gradient, target->rank, target->shape, &fitted));
            gt__replace(gradient, fitted);
        }
    }
    if ((*gradient)->meta.dtype != target->dtype) {
        GT_TRY(gt_cast(*gradient, (gt_dtype)target->dtype, &fitted));
        gt__replace(gradient, fitted);
    }
    return GT_OK;
}

static gt_err arrive_first(pass *p, gt_node *node, gt_tensor *gradient)
{
    gt_arrival *arrival = p->spare;
    if (arrival)
        p->spare = arrival->next;
    else if (p->used < sizeof p->room->arrivals / sizeof *arrival)
        arrival = &p->room->arrivals[p->used++];
    else if (!(arrival = malloc(sizeof *arrival))) {
        gt_tensor_release(gradient);
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    }
    *arrival = (gt_arrival){.next = node->arrivals, .pass = p, .node = node, .gradient = gradient, .axis = -1};
    gt_err err = heap_push(p, arrival);
    if (err != GT_OK) {
        arrival->next = p->spare;
        p->spare = arrival;
        gt_tensor_release(gradient);
        return err;
    }
    node->arrivals = arrival;
    gt__node_retain(node);
    return GT_OK;
}

/* What has arrived at `node` in this pass; NULL: nothing. */
static gt_arrival *find_arrival(const pass *p, const gt_node *node)
{
    gt_arrival *arrival = node->arrivals;
    while (arrival && arrival->pass != p)
        arrival = arrival->next;
    return arrival;
}

/* Add `gradient` (taken) to what has arrived at `node` in this pass. */
static gt_err arrive(pass *p, gt_node *node, gt_tensor *gradient)
{
    if (!is_of_use(p, node)) {
        gt_tensor_release(gradient);
        return GT_OK;
    }
    gt_arrival *arrival = find_arrival(p, node);
    if (!arrival)
        return arrive_first(p, node, gradient);
    gt_tensor *sum;
    gt_err err = gt_add(arrival->gradient, gradient, &sum);
    gt_tensor_release(gradient);
    GT_TRY(err);
    gt__replace(&arrival->gradient, sum);
    arrival->axis = -1;
    return GT_OK;
}

/* Whether the gradient of `node`, a slice, can be added to the part of its operand's gradient that it is cut from. */
static bool adds_to_part(const pass *p, const gt_node *node, const gt_tensor *gradient)
{
    if (p->options.create_graph || gt__anomaly_wanted || gt__signals_on() || !node->operands[0].node)
        return false;
    const gt_arrival *arrival = find_arrival(p, node->operands[0].node);
    return arrival && !arrival->gradient->batch && !gradient->batch &&
           arrival->gradient->meta.dtype == gradient->meta.dtype &&
           gt__meta_same_shape(&arrival->gradient->meta, &node->operands[0].meta);
}

/* The axis along which a slice is cut, if it is one, and without steps; -1: it is another kind of slice. */
static int cut_axis(const gt_node *node)
{
    const gt_meta *whole = &node->operands[0].meta;
    const int64_t *start = node->tail[0].i64, *step = node->tail[1].i64, *count = node->tail[2].i64;
    int cut = -1;
    for (int axis = 0; axis < whole->rank; axis++) {
        if (start[axis] == 0 && count[axis] == whole->shape[axis] && step[axis] == 1)
            continue;
        if (cut >= 0 || step[axis] != 1)
            return -1;
        cut = axis;
    }
    return cut;
}

/* The first gradient of an operand is that of this slice: it is zero elsewhere. */
static void note_part(const pass *p, const gt_node *node)
{
    gt_arrival *arrival = find_arrival(p, node->operands[0].node);
    int axis = cut_axis(node);
    if (!arrival || axis < 0)
        return;
    arrival->axis = axis;
    arrival->from = node->tail[0].i64[axis];
    arrival->to = arrival->from + node->tail[2].i64[axis];
}

/* Whether the part of the operand's gradient that a slice is cut from is zero so far. What was there before and this part are known
 * as one stretch from now on. */
static bool part_is_zero(gt_arrival *arrival, const gt_node *node)
{
    if (arrival->axis < 0 || cut_axis(node) != arrival->axis) {
        arrival->axis = -1;
        return false;
    }
    int64_t from = node->tail[0].i64[arrival->axis], to = from + node->tail[2].i64[arrival->axis];
    bool zero = to <= arrival->from || from >= arrival->to;
    arrival->from = from < arrival->from ? from : arrival->from;
    arrival->to = to > arrival->to ? to : arrival->to;
    return zero;
}

/* Add it there, in place. Zeros with the gradient in them would be as large as the operand, for each of its slices. */
static gt_err add_to_part(const pass *p, const gt_node *node, gt_tensor *gradient)
{
    gt_arrival *arrival = find_arrival(p, node->operands[0].node);
    const int64_t *start = node->tail[0].i64, *step = node->tail[1].i64, *count = node->tail[2].i64;
    gt_tensor *whole, *part, *sum = NULL;
    gt_err err = GT_OK;
    if (part_is_zero(arrival, node)) {
        sum = gt_tensor_retain(gradient);
    } else {
        GT_TRY(gt_slice(arrival->gradient, start, step, count, &part));
        err = gt_add(part, gradient, &sum);
        gt_tensor_release(part);
    }
    if (err == GT_OK) /* the part is freed first: the worker writes into memory that nothing else reads */
        err = gt__client_prepare_update(gradient->client, 4);
    if (err == GT_OK)
        err = gt__emit_assign(arrival->gradient, start, step, count, sum, GT_LITERAL_NONE, (gt_imm){0}, 1, &whole);
    gt_tensor_release(sum);
    GT_TRY(err);
    gt__replace(&arrival->gradient, whole);
    return GT_OK;
}

/* Take the newest node that has a gradient. The caller releases both. */
static gt_node *next_node(pass *p, gt_tensor **gradient)
{
    gt_arrival *arrival = heap_pop(&p->queue), **where = &arrival->node->arrivals;
    while (*where != arrival)
        where = &(*where)->next;
    *where = arrival->next;
    arrival->next = p->spare;
    p->spare = arrival;
    *gradient = arrival->gradient;
    return arrival->node;
}

static gt_err run_hook(gt_hook_entry *entry, gt_tensor **gradient)
{
    gt_tensor *replaced = *gradient;
    GT_TRY(entry->hook(entry->context, &replaced));
    if (replaced == *gradient)
        return GT_OK;
    const gt_meta *old = &(*gradient)->meta, *new = &replaced->meta;
    if (gt__meta_same_shape(old, new) && old->dtype == new->dtype) {
        gt__replace(gradient, replaced);
        return GT_OK;
    }
    char was[128], is[128];
    gt__sizes_text(old->rank, old->shape, was, sizeof was);
    gt__sizes_text(new->rank, new->shape, is, sizeof is);
    gt_err err = gt__fail(GT_ERR_VALUE, "a hook has changed its gradient from %s %s to %s %s",
                          gt__dtype_name((gt_dtype)old->dtype), was, gt__dtype_name((gt_dtype) new->dtype), is);
    gt_tensor_release(replaced);
    return err;
}

/* A hook may remove hooks, itself included, and add new ones, which this pass does not call. */
static gt_err run_hooks(gt_node *node, bool after, gt_tensor **gradient)
{
    gt_hook_entry *last = node->hooks;
    gt_err err = GT_OK;
    if (!last)
        return GT_OK;
    while (last->next)
        last = last->next;
    node->running_hooks++;
    for (gt_hook_entry *entry = node->hooks; entry && err == GT_OK; entry = entry == last ? NULL : entry->next)
        if (!entry->removed && entry->after == after)
            err = run_hook(entry, gradient);
    if (--node->running_hooks == 0)
        gt__node_sweep_hooks(node, false);
    return err;
}

static void deliver(pass *p, const gt_node *node, gt_tensor *gradient)
{
    for (unsigned k = 0; k < p->input_count; k++)
        if (p->inputs[k]->node == node) {
            gt_tensor_release(p->results[k]);
            p->results[k] = gt_tensor_retain(gradient);
        }
}

/* *gradient becomes the next .grad, the caller's: the sum with the present one. */
static gt_err add_to_gradient(pass *p, gt_node *leaf, gt_tensor *gradient, gt_tensor **next)
{
    gt_tensor *before;
    GT_TRY(gt__node_gradient(leaf, &before));
    if (before) {
        gt_tensor_retain(before);
        gt_err err = gt_add(before, gradient, next);
        gt_tensor_release(before);
        return err;
    }
    if (!p->options.create_graph) /* the gradient requires no gradient itself */
        return gt__tensor_detach(gradient, next);
    *next = gt_tensor_retain(gradient);
    return GT_OK;
}

/* PyTorch refuses the gradient of a leaf that is one no more. */
static gt_err check_leaf(const gt_node *leaf)
{
    if (leaf->op != GT_OP_INVALID)
        return GT_OK;
    if (leaf->leaf.moved)
        return gt__fail(GT_ERR_VALUE, "leaf variable has been moved into the graph interior");
    return leaf->leaf.view ? gt__alias_check_leaf(leaf->leaf.view) : GT_OK;
}

/* Add to .grad: at leaves, and at nodes with retain_grad(). In place, if a binding has its memory. */
static gt_err accumulate(pass *p, gt_node *leaf, gt_tensor *gradient)
{
    gt_tensor *before, *after;
    gt_alias *shared;
    uint32_t writes;
    bool disturbed;
    GT_TRY(check_leaf(leaf));
    if (leaf->discards)
        return GT_OK;
    do {
        before = leaf->gradient;
        shared = leaf->shared_gradient;
        writes = shared ? shared->storage->writes : 0;
        GT_TRY(add_to_gradient(p, leaf, gradient, &after));
        /* While gt_add waited for room, another thread may have changed the gradient. */
        disturbed = leaf->gradient != before || leaf->shared_gradient != shared ||
                    (shared && shared->storage->writes != writes);
        if (disturbed)
            gt_tensor_release(after);
    } while (disturbed);
    if (shared && !p->options.create_graph &&
        leaf->op == GT_OP_INVALID) { /* a retained gradient is a new tensor */
        gt__alias_retain(shared);
        gt_err err = gt__alias_write(shared, &(gt_written){.tensor = after});
        gt__alias_release(shared);
        gt_tensor_release(after);
        return err;
    }
    gt__node_drop_gradient(leaf);
    leaf->gradient = after;
    return GT_OK;
}

/* The name of a node that is not that of its row; NULL: it is. */
static const char *special_name(const gt_node *node)
{
    switch (node->op) {
    case GT_NODE_CUSTOM:
        return node->custom.name;
    case GT_OP_trunc_divide:
        return "DivBackward2";
    case GT_OP_floor_divide:
    case GT_OP_heaviside:
    case GT_OP_ldl:
    case GT_OP_ldl_solve:
        return "NotImplemented";
    case GT_OP_amax:
    case GT_OP_amin:
        break;
    default:
        return NULL;
    }
    switch ((int)node->ins.imm[1].f) {
    case GT_EXTREME_OF_ALL:
        return node->op == GT_OP_amax ? "MaxBackward1" : "MinBackward1";
    case GT_MEDIAN_OF_ALL:
        return "MedianBackward0";
    case GT_NANMEDIAN_OF_ALL:
        return "NanmedianBackward0";
    default:
        return NULL;
    }
}

char *gt__node_name(const gt_node *node, char *text, size_t size)
{
    const char *special = special_name(node);
    if (special) {
        snprintf(text, size, "%s", special);
        return text;
    }
    const char *from = node->op == GT_OP_INVALID  ? "accumulate_grad"
                       : node->op == GT_OP_assign ? "copy_slices"
                                                  : gt__op_table[node->op].name;
    bool bare = node->op == GT_OP_INVALID || node->op == GT_OP_assign;
    size_t length = 0;
    bool capital = true;
    for (; *from && length + 12 < size; from++) {
        if (*from == '_')
            capital = true;
        else {
            text[length++] = capital && *from >= 'a' && *from <= 'z' ? (char)(*from - 'a' + 'A') : *from;
            capital = false;
        }
    }
    snprintf(text + length, size - length, "%s", bare ? "" : "Backward0");
    return text;
}

static bool is_overwritten(const gt_tensor *saved)
{
    return saved->overwritten || (saved->versions && saved->versions->count != saved->version);
}

/* PyTorch's name of a type: FloatTensor. */
static const char *type_name(gt_dtype dtype)
{
    switch (dtype) {
    case GT_FLOAT32:
        return "FloatTensor";
    case GT_FLOAT64:
        return "DoubleTensor";
    case GT_FLOAT16:
        return "HalfTensor";
    case GT_BFLOAT16:
        return "BFloat16Tensor";
    case GT_INT64:
        return "LongTensor";
    case GT_INT32:
        return "IntTensor";
    case GT_BOOL:
        return "BoolTensor";
    default:
        return "Tensor";
    }
}

/* The gradient of a node cannot be computed if a value that it saved was changed in place. */
static gt_err check_saved(const gt_node *node)
{
    gt_tensor *const saved[] = {node->saved[0], node->saved[1], node->saved[2], node->saved_out};
    unsigned checks = gt__gradient_checks(node);
    for (unsigned k = 0; k < 4; k++) {
        const gt_tensor *value = saved[k];
        if (!value || !(checks >> k & 1) || !is_overwritten(value))
            continue;
        const gt_node *maker = k == 3 ? node : value->node;
        char shape[256] = "", name[64], origin[96] = "";
        for (size_t axis = 0, length = 0; axis < value->meta.rank; axis++)
            length += (size_t)snprintf(shape + length, sizeof shape - length, "%s%lld", axis ? ", " : "",
                                       (long long)value->meta.shape[axis]);
        if (maker && maker->op != GT_OP_INVALID)
            snprintf(origin, sizeof origin, ", which is output 0 of %s,", gt__node_name(maker, name, sizeof name));
        uint32_t now = value->versions ? value->versions->count : value->version + 1u;
        return gt__fail(GT_ERR_VALUE,
                        "one of the variables needed for gradient computation has been modified by an inplace "
                        "operation: [gt.%s [%s]]%s is at version %u; expected version %u instead. Hint: enable "
                        "anomaly detection to find the operation that failed to compute its gradient, with "
                        "gt.autograd.set_detect_anomaly(True).",
                        type_name((gt_dtype)value->meta.dtype), shape, origin, now, (unsigned)value->version);
    }
    return GT_OK;
}

/* Whether the node can be gone through. */
static gt_err check_node(const gt_node *node)
{
    if (node->consumed && node->keeps_values)
        return gt__fail(GT_ERR_VALUE,
                        "Trying to backward through the graph a second time (or directly access saved tensors "
                        "after they have already been freed). Saved intermediate values of the graph are freed "
                        "when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to "
                        "backward through the graph a second time or if you need to access saved tensors after "
                        "calling backward.");
    if (node->dropped)
        return gt__fail(GT_ERR_VALUE, "the values of a checkpoint were not computed again");
    return check_saved(node);
}

static void consume(const pass *p, gt_node *node)
{
    if (p->options.retain_graph)
        return;
    node->consumed = true;
    gt__node_drop_saved(node);
}

static gt_err propagate(pass *p, gt_node *node, gt_tensor *gradient)
{
    bool wanted_few[GT_MAX_OPERANDS], *wanted = wanted_few;
    gt_tensor *results_few[GT_MAX_OPERANDS], **results = results_few;
    GT_TRY(check_node(node));
    bool first_part = false;
    if (__builtin_expect(node->op == GT_OP_slice, 0)) {
        if (adds_to_part(p, node, gradient)) {
            GT_TRY(add_to_part(p, node, gradient));
            consume(p, node);
            return GT_OK;
        }
        first_part = node->operands[0].node && !find_arrival(p, node->operands[0].node);
    }
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
        wanted[k] = node->operands[k].node && is_of_use(p, node->operands[k].node);
        results[k] = NULL;
    }
    gt_err err = __builtin_expect(node->op == GT_NODE_CUSTOM, 0)
                     ? node->custom.rule(node->custom.context, node, gradient, wanted, results)
                     : gt__gradient_rule(node, gradient, wanted, p->options.create_graph, results);
    if (__builtin_expect(gt__anomaly_wanted, 0) && err == GT_OK)
        err = gt__anomaly_check(node, results);
    for (unsigned k = 0; k < node->count; k++) {
        if (err == GT_OK && results[k] && wanted[k]) {
            err = fit(&results[k], &node->operands[k].meta);
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
    if (first_part && err == GT_OK)
        note_part(p, node);
    if (err == GT_OK)
        consume(p, node);
    return err;
}

static gt_signal_state node_signal(const gt_node *node)
{
    uint32_t scope = node->op == GT_OP_INVALID ? 0 : node->ins.scope;
    return (gt_signal_state){.scope = scope, .backward = scope != 0};
}

/* Takes the node and the gradient. */
static gt_err process(pass *p, gt_node *node, gt_tensor *gradient)
{
    bool leaf = node->op == GT_OP_INVALID;
    gt_err err = run_hooks(node, false, &gradient);
    /* The rule runs under the signal of its forward op, not under the one around the call of backward. */
    gt_signal_state signal = node_signal(node), before = {0};
    bool signals = signal.scope || gt__signals_on();
    if (__builtin_expect(signals, 0))
        before = gt__signal_replace(signal);
    bool asked = p->input_count ? set_has(&p->targets, node) : leaf;
    if (err == GT_OK && asked && p->results)
        deliver(p, node, gradient);
    if (err == GT_OK && (leaf ? asked && !p->results : node->keeps_gradient)) {
        err = accumulate(p, node, gradient);
        if (err == GT_OK && leaf)
            err = run_hooks(node, true, &gradient);
    }
    if (err == GT_OK && leads_somewhere(p, node)) {
        err = propagate(p, node, gradient);
    } else if (err == GT_OK && !leaf && !p->input_count) { /* its operands are views without a history */
        err = check_node(node);
        if (err == GT_OK)
            consume(p, node);
    }
    if (__builtin_expect(signals, 0))
        gt__signal_replace(before);
    gt_tensor_release(gradient);
    gt__node_release(node);
    return err;
}

static gt_err start_output(pass *p, gt_tensor *output, gt_tensor *gradient)
{
    if (!output->node)
        return gt__fail(GT_ERR_VALUE, "element 0 of tensors does not require grad and does not have a grad_fn");
    if (gradient) {
        if (!gt__meta_same_shape(&gradient->meta, &output->meta)) {
            char a[128], b[128];
            return gt__fail(GT_ERR_VALUE,
                            "Mismatch in shape: grad_output[0] has a shape of gt.Size(%s) and output[0] has a "
                            "shape of gt.Size(%s).",
                            gt__sizes_text(gradient->meta.rank, gradient->meta.shape, a, sizeof a),
                            gt__sizes_text(output->meta.rank, output->meta.shape, b, sizeof b));
        }
        gt_tensor *fitted = gt_tensor_retain(gradient);
        gt_err err = fit(&fitted, &output->meta);
        if (err == GT_OK)
            return arrive(p, output->node, fitted);
        gt_tensor_release(fitted);
        return err;
    }
    if (output->meta.numel != 1)
        return gt__fail(GT_ERR_VALUE, "grad can be implicitly created only for scalar outputs");
    if (gt__dtype_is_complex((gt_dtype)output->meta.dtype))
        return gt__fail(GT_ERR_VALUE, "grad can be implicitly created only for real scalar outputs but got gt.%s",
                        gt__dtype_name((gt_dtype)output->meta.dtype));
    gt_tensor *one;
    GT_TRY(
        gt_full(output->client, (gt_dtype)output->meta.dtype, output->meta.rank, output->meta.shape, 1.0, &one));
    return arrive(p, output->node, one);
}

/* Free the pass. After a failure the queue still holds gradients. */
static void pass_end(pass *p)
{
    while (p->queue.count) {
        gt_tensor *gradient;
        gt_node *node = next_node(p, &gradient);
        gt_tensor_release(gradient);
        gt__node_release(node);
    }
    if (p->queue.arrivals != p->room->places)
        free(p->queue.arrivals);
    free(p->targets.numbers);
    free(p->leading.numbers);
    while (p->spare) {
        gt_arrival *next = p->spare->next;
        if (p->spare < p->room->arrivals || p->spare >= p->room->arrivals + p->used)
            free(p->spare);
        p->spare = next;
    }
}

gt_err gt__autograd_run(gt_tensor *const *outputs, gt_tensor *const *gradients, unsigned count,
                        gt_tensor *const *inputs, unsigned input_count, gt_tensor **results,
                        gt_backward_options options)
{
    if (gt__signals_on() && (gt__batch_any(outputs, count) || gt__batch_any(inputs, input_count)))
        return gt__batch_autograd(outputs, gradients, count, inputs, input_count, results, options);
    room space;
    pass p = {.queue = {.arrivals = space.places, .capacity = sizeof space.places / sizeof *space.places},
              .room = &space,
              .inputs = inputs,
              .input_count = input_count,
              .results = results,
              .options = options};
    gt_err err = GT_OK;
    for (unsigned k = 0; k < input_count; k++)
        if (!inputs[k]->node)
            return gt__fail(GT_ERR_VALUE, "One of the differentiated Tensors does not require grad");
    if (input_count)
        err = find_leading(&p, outputs, count);
    bool before = gt__grad_enable(options.create_graph);
    gt_autocast casting = gt__autocast_pause(); /* gradients have the dtypes of the forward pass */
    for (unsigned k = 0; k < count && err == GT_OK; k++) {
        gt_signal_state around = gt__signal_current();
        if (outputs[k]->node)
            gt__signal_replace(node_signal(outputs[k]->node));
        err = start_output(&p, outputs[k], gradients ? gradients[k] : NULL);
        gt__signal_replace(around);
    }
    while (err == GT_OK && p.queue.count) {
        gt_tensor *gradient;
        gt_node *node = next_node(&p, &gradient);
        err = process(&p, node, gradient);
    }
    gt__grad_enable(before);
    gt__autocast_set(casting);
    pass_end(&p);
    gt__ghost_sweep();
    for (unsigned k = 0; results && k < input_count && err == GT_OK; k++)
        if (!results[k] && !options.allow_unused)
            err = gt__fail(GT_ERR_VALUE,
                           "One of the differentiated Tensors appears to not have been used in the graph. "
                           "Set allow_unused=True if this is the desired behavior.");
    if (err != GT_OK)
        for (unsigned k = 0; results && k < input_count; k++) {
            gt_tensor_release(results[k]);
            results[k] = NULL;
        }
    return err;
}

/*
 * autograd.h: gradients, purely abstract: a tape of what was emitted, and rules that emit more of the same.
 *
 * A tensor that needs a gradient points to a node: a leaf (where gradients arrive) or the op that made it. A node keeps edges
 * to the nodes of its operands, and only those values its rule needs. Backward walks nodes from the newest to the oldest
 * (a consumer is always newer), adds up what arrives, calls the rule, and drops what was saved. Nothing here waits or
 * touches data. The rules are in gradients/.
 */
#ifndef GT_CLIENT_AUTOGRAD_H
#define GT_CLIENT_AUTOGRAD_H

#include "client/client.h"

/* What a rule wants kept from the forward pass: in any case, or (shifted) for the gradient of operand 0 or 1 alone. */
enum {
    GT_SAVE_0 = 1 << 0, /* operand 0's value */
    GT_SAVE_1 = 1 << 1,
    GT_SAVE_2 = 1 << 2,
    GT_SAVE_OUT = 1 << 3,
    GT_SAVE_FOR_0 = 4,
    GT_SAVE_FOR_1 = 8,
};

/*
 * Called with the gradient that arrived, which it borrows. To replace it, a hook puts a tensor of the same shape
 * and dtype into *gradient and gives up its reference to that one.
 */
typedef gt_err (*gt_hook)(void *context, gt_tensor **gradient);

/* One hook of a node. Whoever registered it holds a reference too; that keeps neither the node nor the context. */
typedef struct gt_hook_entry {
    struct gt_hook_entry *next;
    uint32_t references;
    bool removed;  /* to be taken out when no hook of the node runs */
    gt_node *node; /* NULL: taken out, or the node is gone */
    gt_hook hook;
    void (*free)(void *context);
    void *context;
} gt_hook_entry;

/* What has arrived at a node in one backward pass: autograd.c. */
typedef struct gt_arrival gt_arrival;

typedef struct gt_operand_info {
    gt_node *node; /* NULL: no gradient wanted there, or a literal */
    gt_meta meta;
} gt_operand_info;

struct gt_node {
    uint32_t references;
    uint16_t op; /* GT_OP_INVALID: a leaf */
    bool consumed;
    bool keeps_gradient; /* retain_grad(): a gradient is kept though this is no leaf */
    bool keeps_values;   /* saved ones, until a pass consumes them */
    unsigned count;      /* operands */
    gt_client *client;
    uint64_t sequence;    /* grows with every node */
    gt_tensor *gradient;  /* .grad */
    gt_arrival *arrivals; /* one for each backward pass that has reached this node and not handled it yet */
    gt_hook_entry *hooks;
    unsigned running_hooks; /* passes that are walking `hooks` now */
    gt_instruction ins;     /* immediates, flags, literals */
    gt_slot tail[3];        /* shape or slice, where the op has one */
    gt_meta out;
    gt_operand_info fixed[GT_MAX_OPERANDS], *operands; /* operands == fixed unless there are more (cat) */
    gt_tensor *saved[GT_MAX_OPERANDS], *saved_out;
    gt_node *next_spare;    /* free list, and the worklist of a release */
    gt_node *older, *newer; /* all nodes of the client */
};

/* Whether new ops are recorded, on this thread. */
extern _Thread_local bool gt__grad_enabled_here;
/* Threads on which they are not: while there is none, nobody need look at the variable above, which takes a call. */
extern _Atomic int gt__grad_disabled_threads;

static inline bool gt__grad_enabled(void)
{
    return !atomic_load_explicit(&gt__grad_disabled_threads, memory_order_relaxed) || gt__grad_enabled_here;
}

/* Returns what it was. */
bool gt__grad_enable(bool enabled);

/* Record that *out was computed by `ins`; called by emit.c when an operand has a node. May replace *out by an alias. */
gt_err gt__autograd_record(const gt_instruction *ins, const gt_slot *tail, gt_tensor *const *in, unsigned count,
                           gt_tensor **out);

/* The same for an elementwise op whose record has nothing but operands: ids or literals. */
gt_err gt__autograd_record_elementwise(gt_opcode op, uint8_t literals, uint64_t first, uint64_t second,
                                       gt_tensor *const *in, unsigned count, gt_tensor **out);

gt_node *gt__node_retain(gt_node *node);
void gt__node_release(gt_node *node);
void gt__node_free_spares(gt_client *client);
/* Make a leaf of a tensor that has no node; floating dtypes only. */
gt_err gt__tensor_require_grad(gt_tensor *tensor);
/* A tensor with the same value and without a node. */
gt_err gt__tensor_detach(gt_tensor *tensor, gt_tensor **out);
/* The same value under another node (may be NULL; retained). */
gt_err gt__tensor_alias(gt_tensor *tensor, gt_node *node, gt_tensor **out);

typedef struct gt_backward_options {
    bool retain_graph, create_graph;
    bool allow_unused;
} gt_backward_options;

/*
 * Backward from `count` outputs. gradients[k] may be NULL for a scalar output. Without `inputs` the gradients
 * are added to the leaves' .grad. With them (input_count > 0) only what leads to them is computed and used up, and the
 * gradients are added to their .grad or, given results[] (all NULL before; yours; NULL where unused and allowed),
 * delivered there. A pass keeps its state to itself: a hook may start another one, over the same nodes or others, and so
 * may another thread while this one waits.
 */
gt_err gt__autograd_run(gt_tensor *const *outputs, gt_tensor *const *gradients, unsigned count,
                        gt_tensor *const *inputs, unsigned input_count, gt_tensor **results,
                        gt_backward_options options);

/*
 * A hook on the gradient of this tensor. Takes context, if it succeeds: `free` gets it when the hook is gone,
 * and never while the hook runs. *entry is yours to release, and to remove the hook with: from its node,
 * whatever the tensor's name stands for by then.
 */
gt_err gt__tensor_hook(gt_tensor *tensor, gt_hook hook, void *context, void (*free)(void *),
                       gt_hook_entry **entry);
void gt__hook_remove(gt_hook_entry *entry); /* once or more often */
void gt__hook_release(gt_hook_entry *entry);

/* gradients/rules.c: the values a row's rule wants saved, and the rule: results[k] gets operand k's gradient, yours, or
 * NULL. Only wanted[k] need be computed; a result may still have the broadcast shape and the promoted dtype. */
unsigned gt__gradient_saves(gt_opcode op);
gt_err gt__gradient_rule(gt_node *node, gt_tensor *gradient, const bool *wanted, bool create_graph,
                         gt_tensor **results);

#endif

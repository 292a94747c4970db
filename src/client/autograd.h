/*
 * autograd.h: gradients: a tape of the emitted ops, and rules that emit further ops.
 *
 * A tensor that needs a gradient points to a node: a leaf, where gradients are kept, or the op that made the tensor. A node
 * has edges to the nodes of its operands and saves only the values that its rule needs. Backward walks the nodes from the
 * newest to the oldest (a consumer is always newer than its operands), adds up the gradients that arrive, calls the rule, and
 * drops the saved values. Nothing here waits or touches data. The rules are in gradients/.
 */
#ifndef GT_CLIENT_AUTOGRAD_H
#define GT_CLIENT_AUTOGRAD_H

#include "client/client.h"

/* Which values of the forward pass a rule needs: always, or (shifted) only for the gradient of operand 0 or 1. */
enum {
    GT_SAVE_0 = 1 << 0, /* operand 0's value */
    GT_SAVE_1 = 1 << 1,
    GT_SAVE_2 = 1 << 2,
    GT_SAVE_OUT = 1 << 3,
    GT_SAVE_FOR_0 = 4,
    GT_SAVE_FOR_1 = 8,
};

/*
 * Called with a gradient, which it borrows. To replace it, a hook stores a tensor of the same shape and dtype in *gradient;
 * the pass takes that reference.
 */
typedef gt_err (*gt_hook)(void *context, gt_tensor **gradient);

/* A hook of a node. The node and the registering code hold a reference each; the latter keeps neither node nor context alive. */
typedef struct gt_hook_entry {
    struct gt_hook_entry *next;
    uint32_t references;
    bool removed;  /* unlink it once no hook of the node runs */
    bool after;    /* call it when .grad has the gradient, not before */
    gt_node *node; /* NULL: unlinked, or the node was freed */
    gt_hook hook;
    void (*free)(void *context);
    void *context;
} gt_hook_entry;

/* The gradient of a node in one backward pass: backward.c. */
typedef struct gt_arrival gt_arrival;

/*
 * The rule of a node that is no op of the table: several ops as one (layers.c), or a Function written by the user. `rule` gets
 * what gt__gradient_rule gets; `drop` lets go of saved values that the context has, `free` of everything; both are optional. The
 * name lives as long as the context.
 */
typedef struct gt_custom_rule {
    gt_err (*rule)(void *context, gt_node *node, gt_tensor *gradient, const bool *wanted, gt_tensor **results);
    void (*drop)(void *context);
    void (*free)(void *context);
    void *context;
    const char *name;
    uint8_t
        views; /* operands, by bit, of which PyTorch's node saves a view: it has the old memory after x.data = y */
} gt_custom_rule;

enum { GT_NODE_CUSTOM = UINT16_MAX };

/* What a leaf knows of its tensor. */
typedef struct gt_leaf {
    struct gt_alias *view; /* the view that it is the leaf of, borrowed; NULL: none */
    bool moved;            /* an in-place operation has made the tensor a computed one */
} gt_leaf;

typedef struct gt_operand_info {
    gt_node *node; /* NULL: needs no gradient, or a literal */
    gt_meta meta;
} gt_operand_info;

struct gt_node {
    uint32_t references;
    uint16_t op; /* GT_OP_INVALID: a leaf; GT_NODE_CUSTOM */
    bool consumed;
    bool keeps_gradient; /* retain_grad(): keep the gradient of a node that is not a leaf */
    bool keeps_values;   /* it has saved values, until a pass consumes them */
    bool dropped;        /* its saved values must be computed again first: checkpoint.h */
    bool discards;  /* a leaf that keeps no gradient: a view that was made without a history (storage.c), or it
                            requires none for now */
    bool used;      /* it is, or was, the node of an operand */
    unsigned count; /* operands */
    gt_client *client;
    uint64_t sequence;                /* increases with every node */
    gt_tensor *gradient;              /* .grad, */
    struct gt_alias *shared_gradient; /* or its memory, once a binding has asked for it (storage.h) */
    gt_arrival *arrivals;             /* of each backward pass that has yet to process this node */
    gt_hook_entry *hooks;
    unsigned running_hooks; /* passes that run `hooks` now */
    gt_tensor *saved[GT_MAX_OPERANDS], *saved_out;
    gt_node *next_spare;       /* free list, and the worklist of a release */
    gt_node *older, *newer;    /* all nodes of the client */
    gt_operand_info *operands; /* `fixed`, unless there are more (cat) */
    gt_instruction ins;        /* immediates, flags, literals */
    gt_meta out;
    gt_operand_info fixed[GT_MAX_OPERANDS];
    union {
        gt_slot tail[3];       /* shape or slice, where the op has one */
        gt_custom_rule custom; /* GT_NODE_CUSTOM */
        gt_leaf leaf;          /* GT_OP_INVALID */
    };
};

static inline bool gt__node_has_saved(const gt_node *node)
{
    return node->saved[0] || node->saved[1] || node->saved[2] || node->saved_out;
}

/* Whether new ops are recorded, on this thread. */
extern _Thread_local bool gt__grad_enabled_here;
/* Threads that record nothing. While it is 0, the thread-local variable, which takes a function call, need not be read. */
extern _Atomic int gt__grad_disabled_threads;

static inline bool gt__grad_enabled(void)
{
    return !atomic_load_explicit(&gt__grad_disabled_threads, memory_order_relaxed) || gt__grad_enabled_here;
}

/* Returns the previous setting. */
bool gt__grad_enable(bool enabled);

/*
 * Whether this thread is in inference mode. A binding marks the tensors that it makes in that mode (gt_tensor.inference): outside
 * it refuses to change them in place, and recording refuses to save them. Nothing is recorded in inference mode.
 */
extern _Thread_local bool gt__inference_here;

/* Record that *out was computed by `ins`; called by emit.c when an operand has a node. May replace *out by an alias. */
gt_err gt__autograd_record(const gt_instruction *ins, const gt_slot *tail, gt_tensor *const *in, unsigned count,
                           gt_tensor **out);

/* The same for an elementwise op, whose record has only operands (ids or literals). */
gt_err gt__autograd_record_elementwise(gt_opcode op, uint8_t literals, uint64_t first, uint64_t second,
                                       gt_tensor *const *in, unsigned count, gt_tensor **out);

/* Record that *out was computed from `a` by ops that were not recorded, as if it were a reduction: gt__emit_reduce. */
gt_err gt__autograd_record_reduce(gt_opcode op, gt_tensor *a, uint32_t axes, double parameter, gt_tensor **out);

/* Record that *out was computed from `in` by ops that were not recorded: the node has this rule, and saves those values. */
gt_err gt__autograd_record_custom(const gt_custom_rule *rule, unsigned saves, gt_tensor *const *in, unsigned count,
                                  gt_tensor **out);

/* A tensor of the same value as `value`, computed from `in` (NULL: an argument without a gradient) by a custom rule, whose
 * context it takes on success. keeps: there are saved values, which one backward pass consumes. */
gt_err gt__autograd_custom(gt_tensor *value, gt_tensor *const *in, unsigned count, gt_custom_rule rule, bool keeps,
                           gt_tensor **out);

/* PyTorch's node of this operation saves nothing: several passes may go through it. For operations with a number, whose rules
 * need no value. */
void gt__autograd_save_nothing(gt_node *node, gt_opcode op);

/* The node is that of a quotient which was rounded down as PyTorch's div() does it: its gradients are 0, not refused. */
void gt__autograd_rounds(gt_node *node);

/* PyTorch's node saves this value, too: a pass that goes through this one refuses a value that was overwritten. For nodes whose
 * rule does not read the places that are free. */
void gt__autograd_watch(gt_node *node, gt_tensor *value);

gt_node *gt__node_retain(gt_node *node);
void gt__node_release(gt_node *node);
void gt__node_free_spares(gt_client *client);
/* The node of a leaf; floating dtypes only. */
gt_err gt__node_new_leaf(gt_client *client, const gt_meta *meta, gt_node **out);
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
 * Backward from `count` outputs. gradients[k] may be NULL for a scalar output. Without `inputs`, gradients are added to the
 * .grad of the leaves. With them (input_count > 0), only nodes that lead to the inputs are computed and consumed. Their
 * gradients are added to their .grad or, if results[] is given (all NULL before), delivered there: the caller's, or NULL for
 * an unused input where that is allowed. Passes are independent: a hook, or another thread while this one waits, may start
 * another pass over the same nodes.
 */
gt_err gt__autograd_run(gt_tensor *const *outputs, gt_tensor *const *gradients, unsigned count,
                        gt_tensor *const *inputs, unsigned input_count, gt_tensor **results,
                        gt_backward_options options);

/*
 * Add a hook to the gradient of this tensor. On success it takes the context: `free` gets it when the hook is removed or the
 * node freed, but never while the hook runs. *entry is the caller's, to remove the hook and to release.
 */
gt_err gt__tensor_hook(gt_tensor *tensor, gt_hook hook, void *context, void (*free)(void *), bool after,
                       gt_hook_entry **entry);
gt_err gt__node_hook(gt_node *node, gt_hook hook, void *context, void (*free)(void *), bool after,
                     gt_hook_entry **entry);
void gt__hook_remove(gt_hook_entry *entry); /* repeated calls do nothing */
void gt__hook_release(gt_hook_entry *entry);

/* ---- between autograd.c and backward.c -------------------------------------------------------------------- */

/* Put a tensor into *where. The old one is released last: releasing may free hooks, which run user code that reads *where. */
void gt__replace(gt_tensor **where, gt_tensor *tensor);
void gt__node_drop_saved(gt_node *node);
/* Unlink the removed hooks, or all of them. Their contexts are freed last: that may release the node itself. */
void gt__node_sweep_hooks(gt_node *node, bool all);

/* "AddBackward0": PyTorch's name for the node of a row. Returns `text`. */
char *gt__node_name(const gt_node *node, char *text, size_t size);

/* gradients/rules.c: the values that a row's rule needs saved, those of them that PyTorch saves, too (GT_SAVE_0 to _OUT), and the rule: results[k] becomes the gradient of operand k,
 * the caller's, or NULL. Only wanted ones need be computed. A result may have the broadcast shape and the promoted dtype. */
unsigned gt__gradient_saves(gt_opcode op);
unsigned gt__gradient_checks(const gt_node *node);
gt_err gt__gradient_rule(gt_node *node, gt_tensor *gradient, const bool *wanted, bool create_graph,
                         gt_tensor **results);

#endif

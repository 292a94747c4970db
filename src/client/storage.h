/*
 * storage.h: tensors that share memory, as PyTorch's views do.
 *
 * The stream is functional: a gt_tensor is a value. A language binding whose tensors can be written through views gives them
 * aliases. All aliases of one storage see the same elements. The storage has a value, that of its root alias, which covers all
 * elements in order. Any other alias knows its parent and how it is cut from it (a slice, a permutation, ...), and where its
 * elements lie in the storage. Taking a view emits nothing: an alias is cut when its value is needed. A write through an alias
 * makes the storage's next value: one assignment, in place on the worker. It also drops the cuts of all others, which are cut
 * anew at their next use.
 *
 * Gradients: a family is an alias with a node of its own (the root; x.detach(), x.data) and the views taken of it. A write is
 * recorded on the family's tensor, so that the gradient flows as through PyTorch's CopySlices. Other families see the new
 * elements and keep their nodes.
 *
 * Read next: strides.h (where elements lie), storage.c, storage_cut.c, storage_write.c.
 */
#ifndef GT_CLIENT_STORAGE_H
#define GT_CLIENT_STORAGE_H

#include "client/autograd.h"
#include "client/strides.h"

typedef struct gt_alias gt_alias;
typedef struct gt_storage gt_storage;
typedef struct gt_saved gt_saved; /* storage_saved.c */

/* How an alias is cut from its parent. */
typedef enum gt_cut {
    GT_CUT_NONE, /* the same elements: detach(), .data */
    GT_CUT_RESHAPE,
    GT_CUT_PERMUTE,
    GT_CUT_EXPAND,
    GT_CUT_SLICE, /* and a reshape, if that changes the shape */
    GT_CUT_DIAGONAL,
    GT_CUT_UNFOLD,
    GT_CUT_STRIDED, /* any elements of the storage */
    GT_CUT_REAL,    /* complex numbers as pairs along a new last axis; its strides are in real numbers */
    GT_CUT_COMPLEX, /* pairs along the last axis as complex numbers */
} gt_cut;

/* The arguments of a cut, beside the shape of the result. */
typedef union gt_cut_arguments {
    int64_t window[3][GT_MAX_RANK]; /* SLICE: start, step, count for each axis of the parent */
    gt_imm imm[2];                  /* PERMUTE, DIAGONAL: as in the record */
    int64_t unfold[3];              /* UNFOLD: axis, size, step */
} gt_cut_arguments;

/* Which in-place operations PyTorch refuses on a view, while operations are recorded. */
typedef enum gt_creation {
    GT_CREATED_PLAIN,
    GT_CREATED_NO_GRAD, /* while nothing was recorded */
    GT_CREATED_MULTI,   /* one of several results: chunk(), split(), unbind(), iteration */
} gt_creation;

struct gt_alias {
    uint32_t references; /* the owner, children, a node whose gradient it is */
    uint8_t kind;        /* gt_cut */
    uint8_t creation;    /* gt_creation */
    bool whole;          /* covers the storage, in its shape and order */
    bool tracked;        /* the cut was recorded when it was made, so PyTorch's view has a grad_fn */
    bool foreign;        /* maybe `versions` count writes to other memory, too: that before x.data = y */
    bool known; /* PyTorch has computed that grad_fn. Until then it takes the view for a leaf in check_write */
    uint16_t output;  /* MULTI: which of the results */
    uint16_t depth;   /* ancestors */
    uint32_t members; /* of a family: other aliases in it that have an owner */
    gt_storage *storage;
    gt_alias *parent;      /* retained; NULL: the root */
    gt_alias *family;      /* an ancestor or itself */
    gt_versions *versions; /* counts the writes that gradients must know of: shared by all but .data */
    uint32_t made_at;      /* the version when it was taken, or last cut for gradients */
    gt_tensor *cut;        /* the present value; NULL: cut it. The root always has one: the value of the storage */
    gt_alias *before, *after; /* the storage's aliases that have a cut, except the root */
    gt_node *node;            /* of a family other than the root's, or of a leaf that is a view; else NULL */
    gt_node *history;         /* of a tracked view: its family's node when it was taken */
    gt_node *kept;      /* of a view whose cut a write has dropped that does not count for it: the cut's node */
    gt_tensor *detour;  /* of an in-place operation that has begun: the view as PyTorch's CopySlices cuts it */
    gt_node *detour_of; /* the node of the view's own cut, which the detour replaces as an operand */
    bool detour_self;   /* the view is an argument of that operation, too: only its first operand is replaced */
    bool anchored;      /* `retaining` stays: retain_grad() was called before unsqueeze_() */
    gt_node *retaining; /* of a view whose cut was dropped: the cut's node, if it keeps its gradient */
    gt_node *idle;      /* of a leaf that requires no gradient for now, and has one from before; else NULL */
    bool rebased;       /* STRIDED: was written to, so that its gradient is that of its base */
    bool ghost;         /* freed, but its cut is saved for a gradient (storage_saved.c) */
    gt_alias *ghost_before, *ghost_after;
    void *owner;          /* the binding's object; NULL: it was freed */
    gt_node *gradient_of; /* the node whose gradient it is, borrowed; the last of several */
    gt_alias *face;    /* of a family: the view that its object has now, after unsqueeze_(); borrowed, or NULL */
    const char *maker; /* MULTI: the name that PyTorch gives to the operation: "SplitBackward0" */
    gt_tensor shell;   /* its metadata for the owner to read, without a value */
    gt_strides strides;
    gt_cut_arguments arguments;
};

struct gt_storage {
    uint32_t aliases; /* that exist */
    uint32_t owners;  /* aliases with an owner, or that are a gradient */
    uint32_t writes;  /* so far */
    uint32_t ghosts;  /* in `fresh` */
    bool permuted;    /* the elements of the value are not in memory in their order: root.strides says where */
    gt_saved *saved;  /* values that the write in progress replaces */
    gt_alias *fresh;  /* list of aliases with a cut, except the root */
    gt_storage *next_spare;
    gt_alias root;
};

/* A new storage whose value is the tensor (taken, also on failure). *out is the root, the caller's. */
gt_err gt__storage_new(gt_tensor *tensor, void *owner, gt_alias **out);

/* The elements of a new storage lie so, dense: only views and their strides show that. */
void gt__storage_lay(gt_alias *root, const gt_strides *strides);

/*
 * A view of `parent`, cut as `kind` and `arguments` say, with the given metadata and strides. *out is the caller's. Emits
 * nothing, unless a signal is active.
 */
gt_err gt__alias_view(gt_alias *parent, gt_cut kind, const gt_cut_arguments *arguments, const gt_meta *meta,
                      const gt_strides *strides, void *owner, gt_alias **out);
/* A family of its own over the same elements, under `node` (retained; may be NULL). `counted`: writes through either count for
 * both, as for x.detach(); x.data counts for itself. */
gt_err gt__alias_apart(gt_alias *alias, gt_node *node, bool counted, void *owner, gt_alias **out);

/* Writes through a new alias count as those through the alias before it did: x.data = y. */
void gt__alias_count_as(gt_alias *alias, gt_versions *versions);
/* The present value of such an alias is of the present version, whatever was written elsewhere. */
gt_err gt__alias_restamp(gt_alias *alias);

gt_alias *gt__alias_retain(gt_alias *alias);
void gt__alias_release(gt_alias *alias);
/* The owner was freed; releases its reference. */
void gt__alias_disown(gt_alias *alias);

/* The present value, *out, borrowed: the next write drops it. May emit and wait. */
gt_err gt__alias_cut(gt_alias *alias, gt_tensor **out);
/* The node of a family, or of a leaf that is a view; NULL: none of its own. */
gt_node *gt__alias_node(const gt_alias *alias);
/* PyTorch's requires_grad, without cutting. */
bool gt__alias_requires_grad(const gt_alias *alias);
/* Give a leaf another node (taken on success; may be NULL). */
gt_err gt__alias_set_node(gt_alias *alias, gt_node *node);
/* PyTorch computes the grad_fn of a view whose base was written to now, since it is asked for. */
void gt__alias_follow(gt_alias *alias);
/* Whether it has computed it. */
bool gt__alias_is_known(const gt_alias *alias);
/* Whether PyTorch refuses to use the view in a recorded operation, since a write has made its history ambiguous. */
gt_err gt__alias_check_use(const gt_alias *alias);
/* Whether PyTorch refuses to add to the gradient of a view that was made a leaf, since its base was written to. */
gt_err gt__alias_check_leaf(const gt_alias *view);

/* What is written: a tensor of the alias's dtype that broadcasts to its shape, or a number. */
typedef struct gt_written {
    gt_tensor *tensor; /* borrowed; NULL: the number */
    gt_literal kind;
    gt_imm number;
} gt_written;

/* PyTorch's checks before an in-place operation on an alias. `source_tracked`: an operand needs a gradient. */
gt_err gt__alias_check_write(gt_alias *alias, bool source_tracked);
/* After the checks, before an operation that is recorded computes what is written. `twice`: the alias is also an argument of the
 * operation: v.add_(v). */
gt_err gt__alias_begin_write(gt_alias *alias, bool twice);
/* Write through the alias; gt__alias_check_write was successful. */
gt_err gt__alias_write(gt_alias *alias, const gt_written *written);
/* An in-place operation that changed no element: unsqueeze_(). */
gt_err gt__alias_touch(gt_alias *alias);
/* Write single elements: scatter or scatter_add at flat positions in the storage. False: not where gradients are recorded for a
 * family other than the root's. */
bool gt__alias_can_scatter(const gt_alias *alias, bool source_tracked);
gt_err gt__alias_scatter(gt_alias *alias, gt_opcode op, gt_tensor *positions, gt_tensor *elements);
/*
 * For code that makes the next value of the root itself (a scatter), consuming the present one: drops all other cuts, and waits
 * until `slots` slots can be emitted without waiting. Then gt__alias_write with the new value. `writer`: the versions of the
 * alias that is written through.
 */
gt_err gt__alias_prepare(gt_alias *root, const gt_versions *writer, unsigned slots);

/* Whether the alias is the only one in use, so that its owner can do without a storage. */
bool gt__alias_alone(const gt_alias *alias);

void gt__storage_free_spares(void);

/* ---- .grad ------------------------------------------------------------------------------------------------------ */

bool gt__node_has_gradient(const gt_node *node);
/* The gradient's present value, borrowed; NULL: none. */
gt_err gt__node_gradient(gt_node *node, gt_tensor **out);
/* The memory of the gradient, which exists. Borrowed. From now on gradients are added to it in place. */
gt_err gt__node_share_gradient(gt_node *node, gt_alias **out);
void gt__node_set_gradient(gt_node *node, gt_alias *alias); /* retains the alias */
void gt__node_drop_gradient(gt_node *node);
/* An in-place operation gives a tensor another node: retain_grad() goes with the tensor, and so does .grad. */
void gt__node_move_gradient(gt_node *from, gt_node *to);
/* An alias without an owner gets one; an owner lets go of its alias, and keeps its reference. */
void gt__alias_own(gt_alias *alias, void *owner);
void gt__alias_leave(gt_alias *alias);

/* ---- storage_base.c ---------------------------------------------------------------------------------------------- */

/* The alias of the family's object, which PyTorch calls the base of the views: the family, or its face. */
gt_alias *gt__alias_base(gt_alias *family);
static inline bool gt__alias_is_base(const gt_alias *alias)
{
    return alias->family == alias || alias->family->face == alias;
}
/* Whether PyTorch's base is a leaf, or has no node. */
bool gt__alias_base_is_leaf(const gt_alias *family);
/* The object of the base has this view of it from now on: x.unsqueeze_(). */
void gt__alias_change_face(gt_alias *before, gt_alias *view);
/* gt__alias_set_node of a face. */
gt_err gt__alias_set_face_node(gt_alias *face, gt_node *leaf);

/* ---- between storage.c, storage_cut.c and storage_write.c ------------------------------------------------------ */

void gt__alias_drop_cut(gt_alias *alias);
void gt__alias_drop_detour(gt_alias *alias);
void gt__alias_link_cut(gt_alias *alias,
                        gt_tensor *cut); /* takes the cut of an alias that has none and is not the root */
/* Whether the alias has all elements of the storage in their order, maybe in another shape. */
bool gt__alias_covers(const gt_alias *alias);
/* The tensor is the alias's present value: it tells by `versions` whether it was overwritten since. */
void gt__alias_stamp(gt_tensor *tensor, gt_versions *versions);
/* The same, but a value that its node has saved counts as overwritten from now on. */
void gt__alias_stamp_object(gt_tensor *tensor, gt_versions *versions);
/* As gt__alias_cut, after a write that does not count for the alias: it keeps its node (borrowed). */
gt_err gt__alias_cut_again(gt_alias *alias, gt_node *node, gt_tensor **out);
/* A new cut of a view, from the base: PyTorch's history of it after a write. `rebased`: as if it was written to. *out is the
 * caller's. */
gt_err gt__alias_replay(gt_alias *view, bool rebased, gt_tensor **out);
/* Flat positions in the storage's value of all elements of a view, int64. */
gt_err gt__emit_positions(gt_storage *storage, const gt_meta *meta, const gt_strides *strides, gt_tensor **out);
/* The strides of a view in the storage's value; false: it is permuted, and they are not regular there. */
bool gt__storage_place(const gt_storage *storage, const gt_meta *meta, const gt_strides *strides, gt_strides *out);

/* ---- storage_memory.c: flat tensors with the elements of a storage in the order of memory. Results are the caller's -- */

/* The storage's value, flat, as elements of this type. */
gt_err gt__memory_flat(const gt_storage *storage, gt_tensor *value, gt_dtype dtype, gt_tensor **out);
/* The opposite, of elements of the storage's own type. */
gt_err gt__memory_value(const gt_storage *storage, gt_tensor *flat, gt_tensor **out);
/* The same memory as elements of this type: the flat tensor's own, or complex numbers in place of pairs, or pairs. A real number
 * without a partner at the end is left out. */
gt_err gt__memory_as(gt_tensor *flat, gt_dtype dtype, gt_tensor **out);
/* All elements, without a gradient except where the part lies: there they are those of `own`. */
gt_err gt__memory_with(const gt_alias *part, gt_tensor *own, gt_dtype dtype, gt_tensor **out);
/* The elements of a view, and memory where they are replaced. */
gt_err gt__memory_take(gt_tensor *flat, const gt_meta *view, const gt_strides *strides, gt_tensor **out);
gt_err gt__memory_assign(gt_tensor *flat, const gt_meta *view, const gt_strides *strides,
                         const gt_written *written, gt_tensor **out);
/* The same where the view may be of another type than the memory. */
gt_err gt__memory_replace(gt_tensor *flat, const gt_meta *view, const gt_strides *strides,
                          const gt_written *written, gt_tensor **out);

/* ---- storage_saved.c ------------------------------------------------------------------------------------------- */

/* A node may have saved this value of the alias, which is not its cut, or will not be any more: a ghost has it from now on. */
gt_err gt__alias_keep_value(gt_alias *alias, gt_tensor *value);
/* Before a write that does not count for the alias: its present value may be saved. */
gt_err gt__saved_note(gt_alias *alias);
/* After it: nodes that have saved such values get the new ones. */
gt_err gt__saved_update(gt_storage *storage, const gt_versions *writer);
/* Nodes that have saved `old`, of which the caller has a reference, get another value. `rebound`: the value is of other memory, so
 * what PyTorch's nodes save as views stays. */
void gt__saved_replace(gt_tensor *old, gt_tensor *value, bool rebound);
/* An alias without references stays as a ghost, if its cut is saved: true. */
bool gt__ghost_keep(gt_alias *alias);
void gt__ghost_end(gt_alias *alias);         /* its cut was dropped */
void gt__ghost_end_all(gt_storage *storage); /* no object has the storage any more */
void gt__ghost_sweep(void);                  /* end those whose cut is no longer saved */

#endif

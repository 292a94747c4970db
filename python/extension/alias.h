/* alias.h: Tensor objects that share memory, for the files that make views. See alias.c. */
#ifndef GT_PYTHON_ALIAS_H
#define GT_PYTHON_ALIAS_H

#include "extension.h"

#include "client/signals.h"
#include "client/storage.h"

/* The alias of an object, made if it has none yet. Borrowed; NULL: exception. */
gt_alias *gt__py_alias(PyObject *self);
/* A new object with this alias (taken, also on failure), which counts it as its owner already. */
PyObject *gt__py_wrap_alias(gt_alias *alias);
/* The object of an alias; a new one if it was freed. */
PyObject *gt__py_object_of(gt_alias *alias);

const gt_meta *gt__py_meta(PyObject *self);

static inline bool gt__py_is_leaf(const gt_tensor *tensor)
{
    return !tensor->node || tensor->node->op == GT_OP_INVALID;
}

/* "[2, 3]" in PyTorch's messages: a list. */
PyObject *gt__py_size_list(unsigned rank, const int64_t *shape);
void gt__py_strides(PyObject *self, gt_strides *out);

/* layout.c: the new object `result` (may be NULL: an exception) with the strides that PyTorch gives to it. */
PyObject *gt__py_lay(PyObject *result, const gt_strides *strides);
/* As gt__py_result, for an elementwise operation on the operands, tensors or numbers; at most 4. */
PyObject *gt__py_elementwise(gt_err err, gt_tensor *out, PyObject *const *operands, int count);
/* The result has the shape of `like`, and keeps its format: clone(), zeros_like(). */
PyObject *gt__py_preserved(PyObject *result, PyObject *like);

typedef enum gt_py_format {
    GT_PY_PRESERVE,
    GT_PY_CONTIGUOUS,
    GT_PY_CHANNELS_LAST,
    GT_PY_CHANNELS_LAST_3D,
} gt_py_format;

/* An argument memory_format=; NULL or None leave *format alone. */
int gt__py_format(PyObject *object, gt_py_format *format);
/* The new object `result` in this format, or (PRESERVE) in that of `like`. */
PyObject *gt__py_formatted(PyObject *result, PyObject *like, gt_py_format format);
bool gt__py_has_format(PyObject *self, gt_py_format format);

/* Views: new objects. `kind` and the like are those of gt__alias_view. */
PyObject *gt__py_view(PyObject *self, gt_cut kind, const gt_cut_arguments *arguments, const gt_meta *meta,
                      const gt_strides *strides);
/* In another shape. Where the strides do not allow that: an exception if `view`, otherwise a copy. */
PyObject *gt__py_reshape(PyObject *self, int rank, const int64_t *shape, bool view);
/* These axes of self, in order, and new ones of size 1 (-1). Those left out have size 1. */
PyObject *gt__py_with_axes(PyObject *self, unsigned rank, const int *axes);
PyObject *gt__py_permute(PyObject *self, const int *axes);
PyObject *gt__py_expand(PyObject *self, int rank, const int64_t *shape);
/* A window of every axis, then only these axes and new ones (-1 - k: before axis k). Those left out have one element. */
PyObject *gt__py_slice(PyObject *self, const gt_cut_arguments *window, int rank, const int *axes);
int gt__py_slice_strides(PyObject *self, const gt_cut_arguments *window, int rank, const int *axes, gt_meta *meta,
                         gt_strides *out);
PyObject *gt__py_diagonal(PyObject *self, int64_t offset, int axis1, int axis2);
/* Any elements of the memory of self. */
int gt__py_strided(PyObject *self, int rank, const int64_t *shape, const gt_strides *strides, PyObject **out);
PyObject *gt__py_unfold(PyObject *self, int axis, int64_t size, int64_t step);
PyObject *gt__py_view_as_real(PyObject *self);
PyObject *gt__py_view_as_complex(PyObject *self);

/* products.c: gt_matmul, where the node saves what PyTorch's saves: a copy of some operands. The objects of the operands tell
 * their strides; they need not be tensors. */
gt_err gt__py_multiply(PyObject *x, gt_tensor *a, PyObject *y, gt_tensor *b, gt_tensor **out);
/* The same for a linear layer, before it is emitted: in[0] is the caller's, and may be replaced. */
gt_err gt__py_linear_input(PyObject *x, PyObject *weight, gt_tensor **in);

/* The view is one of several results of an operation. `maker` is static. */
void gt__py_mark_piece(PyObject *view, const char *maker, unsigned output);

/* The tensor that has the name of an object: its own, or that of the memory which it covers. NULL: it is a view of a part. */
gt_tensor *gt__py_name_holder(PyObject *self);
/* Whether the object, whose value is `a`, has a name. */
bool gt__py_has_name(PyObject *self, const gt_tensor *a);
/* The object goes on with the value `cut`, without the memory that has had its name. */
void gt__py_take_name(PyObject *self, gt_tensor *cut);
/* self, which may be new, shares the memory of `other` from now on, under this node. */
int gt__py_share(PyObject *self, PyObject *other, gt_node *node, bool counted);
/* self becomes the view, a new object with an alias, which has no value from now on: squeeze_(), t_(). */
int gt__py_become_view(PyObject *self, PyObject *view);
/* _own(result): the tensor, or those of a tuple, share memory with no other. Returns the result. */
PyObject *gt__py_own(PyObject *module, PyObject *result);
/* _parts(views): tensors in the memory of the views that autograd does not take for views: unsafe_split(). */
PyObject *gt__py_parts(PyObject *module, PyObject *views);
/* The result was picked, or written, at this key: its tensors may not change before the backward pass. */
int gt__py_watch_key(PyObject *result, PyObject *key);
/* What is written of self lies as `meta` and `strides` say. An operand that shares some of these places is refused, as PyTorch
 * does; one that has the same is, too, unless allowed. */
int gt__py_check_operand(PyObject *self, const gt_meta *meta, const gt_strides *strides, PyObject *operand,
                         bool same_allowed);
/* gt__py_refuse_overlap for what lies as `meta` and `strides` say. */
int gt__py_refuse_places(const gt_meta *meta, const gt_strides *strides);
/* Whether the operand is what would be written anyway: the same places, with the same gradient. */
bool gt__py_same_memory(const gt_alias *alias, const gt_meta *meta, const gt_strides *strides, PyObject *operand);
/* Write through the alias that self has. The checks were made. */
int gt__py_write(PyObject *self, const gt_written *written);

#endif

/*
 * alias.c: Tensor objects that share memory: views, detach(), .data, gradients.
 *
 * A view is an object with an alias (client/storage.h). Its `tensor` is the alias's shell, which has metadata and no value, so
 * that every user of the value must come through gt__py_use. The first view of a tensor gives that one an alias, too. When it
 * is the last of its storage in use, it loses it again. Shapes of views are computed here, without emitting anything.
 */
#include "alias.h"

#include <string.h>

/* ---- objects with an alias --------------------------------------------------------------------------------- */

gt_alias *gt__py_alias(PyObject *self)
{
    TensorObject *object = (TensorObject *)self;
    if (object->alias)
        return object->alias;
    gt_alias *root;
    gt_err err = gt__storage_new(gt_tensor_retain(object->tensor), object, &root);
    if (err != GT_OK) {
        gt__py_raise(err);
        return NULL;
    }
    gt_tensor_release(object->tensor);
    object->tensor = &root->shell;
    object->alias = root;
    return root;
}

/* The object gets an alias (taken) in place of what it has. */
static void set_alias(TensorObject *object, gt_alias *alias)
{
    gt_alias *before = object->alias;
    gt_tensor *tensor = before ? NULL : object->tensor;
    object->tensor = &alias->shell;
    object->alias = alias;
    alias->owner = object;
    if (before && before->gradient_of && before->gradient_of->shared_gradient == before)
        gt__node_set_gradient(before->gradient_of, alias); /* x.grad.data = ... */
    if (before && before->idle && !alias->idle) {          /* the object keeps its .grad */
        alias->idle = before->idle;
        before->idle = NULL;
        if (alias->idle->leaf.view == before)
            alias->idle->leaf.view = alias;
    }
    if (before)
        gt__alias_disown(before);
    gt_tensor_release(tensor);
}

/* The object gets a value (taken) of its own. */
static void set_plain(TensorObject *object, gt_tensor *tensor)
{
    gt_alias *alias = object->alias;
    object->tensor = tensor;
    object->alias = NULL;
    gt__alias_disown(alias);
}

gt_tensor *gt__py_use_alias(PyObject *self)
{
    return LIKELY(!((TensorObject *)self)->tensor->client->waiting) ? gt__py_cut(self) : gt__py_use_later(self);
}

gt_tensor *gt__py_cut(PyObject *self)
{
    TensorObject *object = (TensorObject *)self;
    gt_err err = GT_OK;
    for (;;) {
        gt_alias *alias = object->alias;
        if (!alias)
            return object->tensor;
        if (UNLIKELY(alias->creation != GT_CREATED_PLAIN) && (err = gt__alias_check_use(alias)) != GT_OK)
            break;
        if (UNLIKELY(alias->foreign) && (err = gt__alias_restamp(alias)) != GT_OK)
            break;
        gt_tensor *cut = alias->cut;
        if (!cut) {
            gt__alias_retain(alias); /* other threads run if the emission waits */
            err = gt__alias_cut(alias, &cut);
            bool same = object->alias == alias;
            gt__alias_release(alias);
            if (err != GT_OK)
                break;
            if (!same) /* the object got another alias, or none */
                continue;
        }
        if (gt__alias_alone(alias)) {
            gt__py_take_name(self, cut);
            set_plain(object, gt_tensor_retain(cut));
        }
        return cut;
    }
    gt__py_raise(err);
    return NULL;
}

PyObject *gt__py_wrap_alias(gt_alias *alias)
{
    PyObject *result = gt__py_wrap(NULL);
    if (!result) {
        gt__alias_disown(alias);
        return NULL;
    }
    ((TensorObject *)result)->tensor = &alias->shell;
    ((TensorObject *)result)->alias = alias;
    alias->owner = result;
    return result;
}

PyObject *gt__py_object_of(gt_alias *alias)
{
    if (alias->owner)
        return Py_NewRef((PyObject *)alias->owner);
    gt__alias_retain(alias);
    gt__alias_own(alias, alias); /* the object becomes its owner */
    return gt__py_wrap_alias(alias);
}

PyObject *gt__py_size_list(unsigned rank, const int64_t *shape)
{
    PyObject *sizes = gt__py_sizes((int)rank, shape), *list = sizes ? PySequence_List(sizes) : NULL;
    Py_XDECREF(sizes);
    return list;
}

/* ---- making views ------------------------------------------------------------------------------------------ */

const gt_meta *gt__py_meta(PyObject *self)
{
    return &((TensorObject *)self)->tensor->meta;
}

void gt__py_strides(PyObject *self, gt_strides *out)
{
    const gt_alias *alias = ((TensorObject *)self)->alias;
    if (alias)
        *out = alias->strides;
    else
        gt__strides_contiguous(gt__py_meta(self), out);
}

PyObject *gt__py_view(PyObject *self, gt_cut kind, const gt_cut_arguments *arguments, const gt_meta *meta,
                      const gt_strides *strides)
{
    gt_alias *parent = gt__py_alias(self), *view;
    if (!parent || (gt__signals_on() && gt__py_enter(parent->shell.client) < 0))
        return NULL;
    gt_err err = parent->creation == GT_CREATED_PLAIN ? GT_OK : gt__alias_check_use(parent);
    if (err == GT_OK)
        err = gt__alias_view(parent, kind, arguments, meta, strides, self, &view);
    return err == GT_OK ? gt__py_wrap_alias(view) : gt__py_raise(err);
}

void gt__py_mark_piece(PyObject *view, const char *maker, unsigned output)
{
    gt_alias *alias = gt__py_is_tensor(view) ? ((TensorObject *)view)->alias : NULL;
    if (!alias || !gt__grad_enabled())
        return;
    alias->creation = GT_CREATED_MULTI;
    alias->maker = maker;
    alias->output = (uint16_t)output;
}

/* PyTorch follows the history of a view before it looks at the arguments. */
static gt_err check_use(PyObject *self)
{
    const gt_alias *alias = ((TensorObject *)self)->alias;
    return alias && alias->creation != GT_CREATED_PLAIN ? gt__alias_check_use(alias) : GT_OK;
}

/* The result's metadata, as the server will infer it. */
static gt_err infer(PyObject *self, const gt_instruction *prototype, const gt_slot *tail, gt_meta *meta)
{
    const gt_meta *in = gt__py_meta(self);
    gt_dtype compute;
    return gt__op_infer(prototype, tail, &in, meta, &compute);
}

/* The metadata of a reshape; a size may be -1. */
static gt_err infer_shape(PyObject *self, gt_opcode op, int rank, const int64_t *shape, gt_meta *meta)
{
    const gt_meta *from = gt__py_meta(self);
    gt_instruction prototype = {.op = (uint16_t)op, .dtype = from->dtype, .rank = (uint8_t)rank, .tail = 1};
    gt_slot tail = {.i64 = {0}};
    if (rank < 0 || rank > GT_MAX_RANK)
        return gt__fail(GT_ERR_VALUE, "a tensor has at most %d dimensions, not %d", GT_MAX_RANK, rank);
    if (rank)
        memcpy(tail.i64, shape, (size_t)rank * sizeof *shape);
    if (op == GT_OP_reshape)
        GT_TRY(gt__reshape_sizes(from, rank, tail.i64));
    return infer(self, &prototype, &tail, meta);
}

PyObject *gt__py_reshape(PyObject *self, int rank, const int64_t *shape, bool view)
{
    gt_meta meta;
    gt_strides strides, shaped;
    gt_err err = view ? check_use(self) : GT_OK;
    if (err == GT_OK)
        err = infer_shape(self, GT_OP_reshape, rank, shape, &meta);
    if (err != GT_OK)
        return gt__py_raise(err);
    gt__py_strides(self, &strides);
    if (gt__strides_reshape(gt__py_meta(self), &strides, &meta, &shaped))
        return gt__py_view(self, GT_CUT_RESHAPE, NULL, &meta, &shaped);
    if (view)
        return PyErr_Format(PyExc_RuntimeError,
                            "view size is not compatible with input tensor's size and stride (at least one "
                            "dimension spans across two contiguous subspaces). Use .reshape(...) instead.");
    gt_tensor *a = gt__py_use(self), *out = NULL;
    if (!a)
        return NULL;
    err = gt_reshape(a, meta.rank, meta.shape, &out);
    return gt__py_result(err, out);
}

/* As PyTorch has it: an axis of one element may have any step, so a product may wrap around. Nothing is read by it. */
static int64_t product(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

PyObject *gt__py_with_axes(PyObject *self, unsigned rank, const int *axes)
{
    const gt_meta *from = gt__py_meta(self);
    gt_meta meta = {.numel = from->numel, .dtype = from->dtype, .rank = (uint8_t)rank};
    gt_strides strides, shaped;
    gt__py_strides(self, &strides);
    shaped.offset = strides.offset;
    for (unsigned k = 0; k < rank; k++) {
        int axis = axes[k];
        meta.shape[k] = axis < 0 ? 1 : from->shape[axis];
    }
    for (int k = (int)rank - 1; k >= 0; k--) { /* a new axis: as PyTorch has it */
        int next = k + 1 < (int)rank ? axes[k + 1] : -1;
        if (axes[k] >= 0)
            shaped.step[k] = strides.step[axes[k]];
        else if (next >= 0)
            shaped.step[k] = product(from->shape[next], strides.step[next]);
        else
            shaped.step[k] = k + 1 < (int)rank ? shaped.step[k + 1] : 1;
    }
    return gt__py_view(self, GT_CUT_RESHAPE, NULL, &meta, &shaped);
}

PyObject *gt__py_permute(PyObject *self, const int *axes)
{
    const gt_meta *from = gt__py_meta(self);
    gt_meta meta = {.numel = from->numel, .dtype = from->dtype, .rank = from->rank};
    gt_cut_arguments arguments = {.imm = {{.u = 0}}};
    gt_strides strides, permuted;
    gt__py_strides(self, &strides);
    permuted.offset = strides.offset;
    for (unsigned k = 0; k < from->rank; k++) {
        meta.shape[k] = from->shape[axes[k]];
        permuted.step[k] = strides.step[axes[k]];
        arguments.imm[0].u |= (uint64_t)axes[k] << (8 * k);
    }
    return gt__py_view(self, GT_CUT_PERMUTE, &arguments, &meta, &permuted);
}

PyObject *gt__py_expand(PyObject *self, int rank, const int64_t *shape)
{
    const gt_meta *from = gt__py_meta(self);
    gt_meta meta;
    gt_strides strides, expanded;
    gt_err err = check_use(self);
    if (err == GT_OK)
        err = infer_shape(self, GT_OP_expand, rank, shape, &meta);
    if (err != GT_OK)
        return gt__py_raise(err);
    gt__py_strides(self, &strides);
    expanded.offset = strides.offset;
    int extra = meta.rank - from->rank;
    for (int axis = meta.rank - 1; axis >= 0; axis--) {
        int own = axis - extra;
        if (own >= 0)
            expanded.step[axis] = from->shape[own] == meta.shape[axis] ? strides.step[own] : 0;
        else
            expanded.step[axis] = meta.shape[axis] != 1  ? 0
                                  : axis + 1 < meta.rank ? meta.shape[axis + 1] * expanded.step[axis + 1]
                                                         : 1;
    }
    return gt__py_view(self, GT_CUT_EXPAND, NULL, &meta, &expanded);
}

int gt__py_slice_strides(PyObject *self, const gt_cut_arguments *window, int rank, const int *axes, gt_meta *meta,
                         gt_strides *out)
{
    const gt_meta *from = gt__py_meta(self);
    gt_strides strides, before;
    if (rank > GT_MAX_RANK) {
        PyErr_Format(PyExc_RuntimeError, "the result would have %d dimensions; tensors have at most %d", rank,
                     GT_MAX_RANK);
        return -1;
    }
    gt__py_strides(self, &strides);
    before = strides;
    *meta = (gt_meta){.numel = 1, .dtype = from->dtype, .rank = (uint8_t)rank};
    out->offset = strides.offset;
    for (int axis = 0; axis < from->rank; axis++) {
        out->offset += product(window->window[0][axis], strides.step[axis]);
        strides.step[axis] = product(strides.step[axis], window->window[1][axis]);
    }
    for (int k = rank - 1; k >= 0; k--) {
        int next = -1 - axes[k]; /* of a new axis: the one that it stands before */
        meta->shape[k] = axes[k] < 0 ? 1 : window->window[2][axes[k]];
        meta->numel *= meta->shape[k];
        out->step[k] = axes[k] >= 0        ? strides.step[axes[k]]
                       : next < from->rank ? product(from->shape[next], before.step[next])
                                           : 1;
    }
    return 0;
}

PyObject *gt__py_slice(PyObject *self, const gt_cut_arguments *window, int rank, const int *axes)
{
    gt_meta meta;
    gt_strides strides;
    if (gt__py_slice_strides(self, window, rank, axes, &meta, &strides) < 0)
        return NULL;
    return gt__py_view(self, GT_CUT_SLICE, window, &meta, &strides);
}

PyObject *gt__py_diagonal(PyObject *self, int64_t offset, int axis1, int axis2)
{
    gt_instruction prototype = {.op = GT_OP_diagonal, .imm = {{.i = offset}, {.i = axis1 | axis2 << 8}}};
    gt_cut_arguments arguments = {.imm = {prototype.imm[0], prototype.imm[1]}};
    gt_meta meta;
    gt_strides strides, cut;
    gt_err err = check_use(self);
    if (err == GT_OK)
        err = infer(self, &prototype, NULL, &meta);
    if (err != GT_OK)
        return gt__py_raise(err);
    gt__py_strides(self, &strides);
    int to = 0;
    for (int axis = 0; axis < gt__py_meta(self)->rank; axis++)
        if (axis != axis1 && axis != axis2)
            cut.step[to++] = strides.step[axis];
    cut.step[to] = strides.step[axis1] + strides.step[axis2];
    cut.offset = strides.offset;
    if (meta.shape[to]) /* an empty diagonal may lie outside */
        cut.offset += offset >= 0 ? offset * strides.step[axis2] : -offset * strides.step[axis1];
    return gt__py_view(self, GT_CUT_DIAGONAL, &arguments, &meta, &cut);
}

PyObject *gt__py_unfold(PyObject *self, int axis, int64_t size, int64_t step)
{
    gt_instruction prototype = {.op = GT_OP_unfold, .tail = 1};
    gt_slot tail = {.i64 = {axis, size, step}};
    gt_cut_arguments arguments = {.unfold = {axis, size, step}};
    gt_meta meta;
    gt_strides strides;
    gt_err err = check_use(self);
    if (err == GT_OK)
        err = infer(self, &prototype, &tail, &meta);
    if (err != GT_OK)
        return gt__py_raise(err);
    gt__py_strides(self, &strides);
    int rank = gt__py_meta(self)->rank;
    strides.step[rank] = rank ? strides.step[axis] : 1;
    if (rank && __builtin_mul_overflow(strides.step[axis], step, &strides.step[axis]))
        strides.step[axis] = 1; /* of a single window */
    return gt__py_view(self, GT_CUT_UNFOLD, &arguments, &meta, &strides);
}

PyObject *gt__py_view_as_real(PyObject *self)
{
    const gt_meta *from = gt__py_meta(self);
    gt_strides strides;
    gt_err err = check_use(self);
    if (err != GT_OK)
        return gt__py_raise(err);
    if (!gt__dtype_is_complex((gt_dtype)from->dtype))
        return PyErr_Format(PyExc_RuntimeError, "view_as_real is only supported for complex tensors");
    if (from->rank == GT_MAX_RANK)
        return PyErr_Format(PyExc_RuntimeError, "tensors have at most %d dimensions", GT_MAX_RANK);
    gt_meta meta = *from;
    meta.dtype = (uint8_t)gt__dtype_real((gt_dtype)from->dtype);
    meta.shape[meta.rank++] = 2;
    meta.numel *= 2;
    gt__py_strides(self, &strides);
    strides.offset *= 2;
    for (unsigned k = 0; k < from->rank; k++)
        strides.step[k] = product(strides.step[k], 2);
    strides.step[from->rank] = 1;
    return gt__py_view(self, GT_CUT_REAL, NULL, &meta, &strides);
}

/* Why PyTorch cannot show these real numbers as complex ones; NULL: it can. */
static const char *not_pairs(const gt_meta *meta, const gt_strides *strides)
{
    if (!meta->rank)
        return "Input tensor must have one or more dimensions";
    if (meta->shape[meta->rank - 1] != 2)
        return "Tensor must have a last dimension of size 2";
    for (int k = 0; k < meta->rank - 1; k++)
        if (strides->step[k] % 2)
            return "Tensor must have a stride divisible by 2 for all but last dimension";
    if (strides->step[meta->rank - 1] != 1)
        return "Tensor must have a last dimension with stride 1";
    return strides->offset % 2 ? "Tensor must have a storage_offset divisible by 2" : NULL;
}

PyObject *gt__py_view_as_complex(PyObject *self)
{
    const gt_meta *from = gt__py_meta(self);
    gt_strides strides;
    gt_err err = check_use(self);
    if (err != GT_OK)
        return gt__py_raise(err);
    if (from->dtype != GT_FLOAT32 && from->dtype != GT_FLOAT64)
        return PyErr_Format(
            PyExc_RuntimeError,
            "view_as_complex is only supported for half, float and double tensors, but got a tensor "
            "of scalar type: %s",
            gt__dtype_name((gt_dtype)from->dtype));
    gt__py_strides(self, &strides);
    const char *problem = not_pairs(from, &strides);
    if (problem) {
        PyErr_SetString(PyExc_RuntimeError, problem);
        return NULL;
    }
    gt_meta meta = *from;
    meta.dtype = from->dtype == GT_FLOAT32 ? GT_COMPLEX64 : GT_COMPLEX128;
    meta.rank--;
    meta.numel /= 2;
    strides.offset /= 2;
    for (unsigned k = 0; k < meta.rank; k++)
        strides.step[k] /= 2;
    return gt__py_view(self, GT_CUT_COMPLEX, NULL, &meta, &strides);
}

int gt__py_strided(PyObject *self, int rank, const int64_t *shape, const gt_strides *strides, PyObject **out)
{
    gt_alias *alias = gt__py_alias(self);
    gt_meta meta;
    if (!alias)
        return -1;
    gt_err err = gt__meta_set(&meta, (gt_dtype)alias->shell.meta.dtype, (unsigned)rank, shape);
    if (err != GT_OK) {
        gt__py_raise(err);
        return -1;
    }
    int64_t last = strides->offset, reach, size = (int64_t)gt__dtype_size((gt_dtype)meta.dtype);
    const gt_meta *all = &alias->storage->root.shell.meta;
    int64_t room = all->numel * (int64_t)gt__dtype_size((gt_dtype)all->dtype) / size;
    bool far = false; /* further than a number of bytes can say */
    for (int k = 0; k < rank && meta.numel; k++)
        far = far || __builtin_mul_overflow(strides->step[k], shape[k] - 1, &reach) ||
              __builtin_add_overflow(last, reach, &last);
    far = far || last >= INT64_MAX / size || last < INT64_MIN / size;
    if (strides->offset < 0 || (meta.numel && (far || last >= room))) {
        PyObject *sizes = gt__py_size_list((unsigned)rank, shape);
        PyObject *steps = sizes ? gt__py_size_list((unsigned)rank, strides->step) : NULL;
        if (steps && far)
            PyErr_Format(PyExc_RuntimeError, "Storage size calculation overflowed with sizes=%R and strides=%R",
                         sizes, steps);
        else if (steps)
            PyErr_Format(
                PyExc_RuntimeError,
                "setStorage: sizes %R, strides %R, storage offset %lld, and itemsize %lld requiring a storage "
                "size of %lld are out of bounds for storage of size %lld",
                sizes, steps, (long long)strides->offset, (long long)size, (long long)((last + 1) * size),
                (long long)(room * size));
        Py_XDECREF(sizes);
        Py_XDECREF(steps);
        return -1;
    }
    *out = gt__py_view(self, GT_CUT_STRIDED, NULL, &meta, strides);
    return *out ? 0 : -1;
}

/* ---- the same elements apart from gradients ------------------------------------------------------------------ */

PyObject *gt__py_detached(PyObject *self, bool counted)
{
    gt_alias *alias = gt__py_alias(self), *apart;
    if (!alias)
        return NULL;
    gt_err err = gt__alias_apart(alias, NULL, counted, self, &apart);
    return err == GT_OK ? gt__py_wrap_alias(apart) : gt__py_raise(err);
}

int gt__py_share(PyObject *self, PyObject *other, gt_node *node, bool counted)
{
    gt_alias *alias = gt__py_alias(other), *apart;
    if (!alias)
        return -1;
    gt_err err = gt__alias_apart(alias, node, counted, self, &apart);
    if (err != GT_OK) {
        gt__py_raise(err);
        return -1;
    }
    set_alias((TensorObject *)self, apart);
    return 0;
}

/*
 * The node that keeps the gradient of a tensor whose shape changes in place; the caller's, may be NULL. In PyTorch that is the one
 * for which retain_grad() was called: .grad keeps its shape.
 */
static gt_node *retained_by(const TensorObject *object, const gt_tensor *value)
{
    if (object->alias && object->alias->anchored)
        return gt__node_retain(object->alias->retaining);
    return value->node->keeps_gradient ? gt__node_retain(value->node) : NULL;
}

int gt__py_become_view(PyObject *self, PyObject *view)
{
    TensorObject *object = (TensorObject *)self, *from = (TensorObject *)view;
    gt_alias *alias = from->alias;
    gt_tensor *value = gt__py_requires_grad(self) ? gt__py_use(self) : NULL;
    if (PyErr_Occurred())
        return -1;
    gt_node *retaining = value ? retained_by(object, value) : NULL, *node = NULL;
    gt_tensor *cut;
    gt_err err = retaining ? gt__alias_cut(alias, &cut) : GT_OK;
    if (err == GT_OK && retaining && cut->node)
        node = gt__node_retain(cut->node);
    if (err == GT_OK)
        err = gt__alias_touch(alias);
    if (err != GT_OK) {
        gt__node_release(retaining);
        gt__node_release(node);
        gt__py_raise(err);
        return -1;
    }
    if (value && !gt__grad_enabled()) { /* nothing is recorded: it keeps its node */
        gt__node_release(retaining);
        gt__node_release(node);
        return gt__py_share(self, view, gt__alias_node(object->alias), true);
    }
    alias->retaining = retaining;
    alias->anchored = retaining != NULL;
    if (object->alias)
        gt__alias_change_face(object->alias, alias);
    if (node &&
        alias->creation == GT_CREATED_PLAIN) { /* its graph leads through the node that keeps the gradient */
        alias->made_at = alias->versions->count;
        alias->kept = node;
        node = NULL;
    }
    gt__node_release(node);
    from->alias = NULL; /* it goes to the other object; the caller frees this one */
    from->tensor = NULL;
    set_alias(object, alias);
    return 0;
}

/* The result of a function is no view, though it was made by one: it gets a value of its own. */
static int own_result(PyObject *self)
{
    TensorObject *object = (TensorObject *)self;
    gt_tensor *cut, *own;
    if (!object->alias || gt__alias_is_base(object->alias))
        return 0;
    gt_strides strides = object->alias->strides;
    if (!(cut = gt__py_use(self)))
        return -1;
    if (!object->alias)
        return 0;
    gt_err err = gt__tensor_alias(cut, cut->node, &own);
    if (err != GT_OK) {
        gt__py_raise(err);
        return -1;
    }
    set_plain(object, own);
    strides.offset = 0;
    if (gt__strides_are_dense(&own->meta, &strides))
        gt__py_lay(self, &strides);
    return 0;
}

PyObject *gt__py_own(PyObject *module, PyObject *result)
{
    (void)module;
    if (gt__py_is_tensor(result))
        return own_result(result) < 0 ? NULL : Py_NewRef(result);
    for (Py_ssize_t k = 0; PyTuple_Check(result) && k < PyTuple_GET_SIZE(result); k++) {
        PyObject *item = PyTuple_GET_ITEM(result, k);
        if (gt__py_is_tensor(item) && own_result(item) < 0)
            return NULL;
    }
    return Py_NewRef(result);
}

/* A tensor with the memory and gradient of the view that is not a view itself: each has a version of its own, so that a write
 * through one does not raise the version of the other. */
static PyObject *part_of(PyObject *view)
{
    gt_tensor *cut = gt__py_use(view);
    gt_alias *alias = ((TensorObject *)view)->alias, *apart;
    if (!cut || !alias)
        return cut ? Py_NewRef(view) : NULL;
    gt_err err = gt__alias_apart(alias, gt__grad_enabled() ? cut->node : NULL, false, view, &apart);
    return err == GT_OK ? gt__py_wrap_alias(apart) : gt__py_raise(err);
}

PyObject *gt__py_parts(PyObject *module, PyObject *views)
{
    (void)module;
    if (!PyTuple_Check(views))
        return PyErr_Format(PyExc_TypeError, "expected a tuple");
    PyObject *parts = PyTuple_New(PyTuple_GET_SIZE(views));
    for (Py_ssize_t k = 0; parts && k < PyTuple_GET_SIZE(views); k++) {
        PyObject *part = part_of(PyTuple_GET_ITEM(views, k));
        if (!part)
            Py_CLEAR(parts);
        else
            PyTuple_SET_ITEM(parts, k, part);
    }
    return parts;
}

/* ---- operands that share memory with what is written --------------------------------------------------------- */

typedef enum Overlap { APART, SAME_PLACES, PARTLY, UNKNOWN } Overlap;

/* As PyTorch decides it: only for tensors that fill their memory. */
static Overlap overlap_of(const gt_meta *meta, const gt_strides *strides, const gt_alias *other)
{
    const gt_meta *its = &other->shell.meta;
    int64_t first = strides->offset, second = other->strides.offset;
    if (meta->numel == 0 || its->numel == 0)
        return APART;
    if (meta->dtype != its->dtype)
        return UNKNOWN;
    if (!gt__strides_are_dense(meta, strides) || !gt__strides_are_dense(its, &other->strides))
        return UNKNOWN;
    if (first == second && meta->numel == its->numel) {
        bool same = meta->rank == its->rank;
        for (unsigned k = 0; same && k < meta->rank; k++)
            same = strides->step[k] == other->strides.step[k];
        return same ? SAME_PLACES : PARTLY;
    }
    return first < second + its->numel && second < first + meta->numel ? PARTLY : APART;
}

static int refuse_overlap(void)
{
    PyErr_SetString(
        PyExc_RuntimeError,
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
        "single memory location. Please clone() the tensor before performing the operation.");
    return -1;
}

int gt__py_check_operand(PyObject *self, const gt_meta *meta, const gt_strides *strides, PyObject *operand,
                         bool same_allowed)
{
    const gt_alias *alias = ((TensorObject *)self)->alias;
    const gt_alias *other = gt__py_is_tensor(operand) ? ((TensorObject *)operand)->alias : NULL;
    if (LIKELY(!alias || !other || alias->storage != other->storage))
        return 0;
    Overlap overlap = overlap_of(meta, strides, other);
    if (overlap != PARTLY && (same_allowed || overlap != SAME_PLACES))
        return 0;
    return refuse_overlap();
}

bool gt__py_same_memory(const gt_alias *alias, const gt_meta *meta, const gt_strides *strides, PyObject *operand)
{
    const gt_alias *other = gt__py_is_tensor(operand) ? ((TensorObject *)operand)->alias : NULL;
    if (!alias || !other || alias->family != other->family || meta->dtype != other->shell.meta.dtype ||
        strides->offset != other->strides.offset || !gt__meta_same_shape(meta, &other->shell.meta))
        return false;
    if (gt__alias_requires_grad(other) && !gt__alias_node(alias->family)) /* the copy is recorded */
        return false;
    for (unsigned k = 0; k < meta->rank; k++)
        if (strides->step[k] != other->strides.step[k])
            return false;
    return true;
}

int gt__py_check_operands(PyObject *self, gt_py_args args, Py_ssize_t count)
{
    gt_alias *alias = ((TensorObject *)self)->alias;
    bool tracked = false, aliased = alias != NULL;
    for (Py_ssize_t k = 0; k < count; k++) {
        if (!gt__py_is_tensor(args[k]))
            continue;
        tracked = tracked || gt__py_requires_grad(args[k]);
        aliased = aliased || ((TensorObject *)args[k])->alias;
    }
    if (gt__py_check_write(self, tracked) < 0)
        return -1;
    if (LIKELY(!aliased))
        return 0;
    bool recorded = gt__grad_enabled() && (tracked || gt__py_requires_grad(self));
    for (Py_ssize_t k = 0; k < count; k++) {
        gt_alias *other = gt__py_is_tensor(args[k]) ? ((TensorObject *)args[k])->alias : NULL;
        gt_err err = other ? gt__alias_check_use(other) : GT_OK;
        if (other && recorded && err == GT_OK) /* also if the operation is refused after this */
            gt__alias_follow(other);
        if (err != GT_OK) {
            gt__py_raise(err);
            return -1;
        }
    }
    for (Py_ssize_t k = 0; alias && k < count; k++)
        if (args[k] != self && gt__py_check_operand(self, &alias->shell.meta, &alias->strides, args[k], true) < 0)
            return -1;
    if (!alias || !recorded)
        return 0;
    bool twice = false;
    for (Py_ssize_t k = 0; k < count; k++)
        twice = twice || args[k] == self;
    gt__alias_retain(alias); /* other threads run if an emission waits */
    gt_err err = gt__alias_begin_write(alias, twice);
    gt__alias_release(alias);
    if (err != GT_OK)
        gt__py_raise(err);
    return err == GT_OK ? 0 : -1;
}

int gt__py_check_apart(PyObject *self, PyObject *const *operands, Py_ssize_t count)
{
    const gt_alias *alias = ((TensorObject *)self)->alias;
    for (Py_ssize_t k = 0; k < count; k++) {
        if (operands[k] == self && gt__py_meta(self)->numel)
            return refuse_overlap();
        if (alias && gt__py_check_operand(self, &alias->shell.meta, &alias->strides, operands[k], false) < 0)
            return -1;
    }
    return 0;
}

/* self._check_apart(operands...): none of them has memory of self, as PyTorch's writes by index require. */
static PyObject *method_check_apart(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)kwnames;
    return gt__py_check_apart(self, args, nargs) < 0 ? NULL : Py_NewRef(Py_None);
}

/* self._check_write(operands...): the first step of an in-place method that is written in Python. */
static PyObject *method_check_write(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)kwnames;
    return gt__py_check_operands(self, args, nargs) < 0 ? NULL : Py_NewRef(Py_None);
}

/* self._base: the tensor that it is a view of, or None. While its object lives, it is that object. */
static PyObject *get_base(PyObject *self, void *closure)
{
    (void)closure;
    const gt_alias *alias = ((TensorObject *)self)->alias;
    if (!alias || gt__alias_is_base(alias))
        Py_RETURN_NONE;
    return gt__py_object_of(gt__alias_base(alias->family));
}

static PyObject *method_is_view(PyObject *self, PyObject *unused)
{
    (void)unused;
    const gt_alias *alias = ((TensorObject *)self)->alias;
    return PyBool_FromLong(alias && !gt__alias_is_base(alias));
}

/* How many elements the memory has in which it lies. */
static PyObject *get_room(PyObject *self, void *closure)
{
    (void)closure;
    const gt_meta *meta = gt__py_meta(self);
    const gt_alias *alias = ((TensorObject *)self)->alias;
    const gt_meta *all = alias ? &alias->storage->root.shell.meta : meta;
    return PyLong_FromLongLong(all->numel * (int64_t)gt__dtype_size((gt_dtype)all->dtype) /
                               (int64_t)gt__dtype_size((gt_dtype)meta->dtype));
}

PyGetSetDef gt__py_alias_attributes[] = {
    {.name = "_room", .get = get_room, .doc = "How many elements its memory has."},
    {.name = "_base", .get = get_base, .doc = "The tensor that this one is a view of; None: it is no view."},
    {.name = NULL},
};

PyMethodDef gt__py_alias_methods[] = {
    {.ml_name = "_is_view", .ml_meth = method_is_view, .ml_flags = METH_NOARGS, .ml_doc = "_is_view()"},
    FAST("_check_apart", method_check_apart, "_check_apart(operands...): that none has memory of self."),
    FAST("_check_write", method_check_write, "_check_write(*operands): whether it may be written in place."),
    {.ml_name = NULL},
};

/* ---- writing ----------------------------------------------------------------------------------------------- */

int gt__py_write(PyObject *self, const gt_written *written)
{
    gt_alias *alias = ((TensorObject *)self)->alias;
    gt__alias_retain(alias); /* other threads run if an emission waits */
    gt_err err = gt__alias_write(alias, written);
    gt__alias_release(alias);
    if (err != GT_OK)
        gt__py_raise(err);
    return err == GT_OK ? 0 : -1;
}

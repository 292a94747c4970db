/* inplace.c: in-place operations: what is checked before them, how a tensor gets its next value or other memory, versions. */
#include "alias.h"

#include "client/names.h"

gt_err gt__py_held(PyObject *self, gt_tensor *a, unsigned slots, unsigned *held)
{
    *held = 0;
    if (!self)
        return GT_OK;
    TensorObject *object = (TensorObject *)self;
    gt_alias *alias = object->alias;
    if (alias && alias->parent)
        return GT_OK; /* the value of a view is not what the write changes */
    if (alias) {
        gt__alias_retain(alias);
        gt_err err = gt__alias_prepare(alias, alias->versions, slots);
        *held = err == GT_OK && object->alias == alias && alias->cut == a ? 2 : 0;
        gt__alias_release(alias);
        return err;
    }
    GT_TRY(gt__client_prepare_update(a->client, slots));
    *held = object->tensor == a ? 2 : 0;
    return GT_OK;
}

int gt__py_refuse_overlap(PyObject *self)
{
    const gt_alias *alias = ((TensorObject *)self)->alias;
    return alias ? gt__py_refuse_places(&alias->shell.meta, &alias->strides) : 0;
}

int gt__py_refuse_places(const gt_meta *meta, const gt_strides *strides)
{
    if (!gt__strides_overlap(meta, strides))
        return 0;
    PyErr_SetString(PyExc_RuntimeError,
                    "unsupported operation: more than one element of the written-to tensor refers to a single "
                    "memory location. Please clone() the tensor before performing the operation.");
    return -1;
}

int gt__py_check_inference(PyObject *self)
{
    const TensorObject *object = (TensorObject *)self;
    const gt_alias *alias = object->alias;
    if (LIKELY(!object->tensor->inference) || gt__inference_here)
        return 0;
    if (alias && alias->parent && alias->family == alias)
        return 0; /* PyTorch does not count writes through detach() and .data, and lets them pass */
    PyErr_SetString(
        PyExc_RuntimeError,
        "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a "
        "normal tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more "
        "details.");
    return -1;
}

static int check_write(PyObject *self, bool source_tracked)
{
    const TensorObject *object = (TensorObject *)self;
    gt_err err = GT_OK;
    if (object->alias)
        err = gt__alias_check_write(object->alias, source_tracked);
    else if (UNLIKELY(object->tensor->node && gt__py_is_leaf(object->tensor) && gt__grad_enabled()))
        err = gt__fail(GT_ERR_VALUE, "a leaf Variable that requires grad is being used in an in-place operation.");
    if (LIKELY(err == GT_OK))
        return gt__py_check_inference(self);
    gt__py_raise(err);
    return -1;
}

PyObject *gt__py_fail_write(PyObject *self)
{
    gt_alias *alias = ((TensorObject *)self)->alias;
    if (UNLIKELY(alias && alias->detour)) {
        gt__alias_retain(alias); /* what is freed here may run user code */
        gt__alias_drop_detour(alias);
        gt__alias_release(alias);
    }
    return NULL;
}

int gt__py_check_write(PyObject *self, bool source_tracked)
{
    gt__py_fail_write(self); /* an operation before this one */
    return check_write(self, source_tracked);
}

/* The whole of a recorded tensor is replaced by a value without a gradient: it stays recorded, with a gradient of 0. */
static gt_err overwrite_all(gt_tensor *old, gt_tensor *value, gt_tensor **out)
{
    int64_t start[GT_MAX_RANK] = {0}, step[GT_MAX_RANK];
    for (int k = 0; k < GT_MAX_RANK; k++)
        step[k] = 1;
    return gt__emit_assign(old, start, step, old->meta.shape, value, GT_LITERAL_NONE, (gt_imm){.i = 0}, 0, out);
}

/* What an object of value `old` gets in place of `tensor`: a tensor that no other object has, under the right node. */
static gt_err next_value(gt_tensor *old, gt_tensor *tensor, gt_tensor **out)
{
    bool recording = gt__grad_enabled();
    if (UNLIKELY(old->node && recording && !tensor->node && old->id))
        GT_TRY(overwrite_all(old, tensor, out));
    else if (UNLIKELY(old->node && !recording)) /* the node stays, with its gradient; only the value changes */
        GT_TRY(gt__tensor_alias(tensor, old->node, out));
    else if (UNLIKELY(tensor->references > 1))
        GT_TRY(recording && tensor->node ? gt_copy(tensor, out) : gt__tensor_detach(tensor, out));
    else
        *out = gt_tensor_retain(tensor);
    if (UNLIKELY(old->node && (*out)->node))
        gt__node_move_gradient(old->node, (*out)->node);
    (*out)->version = old->version + 1;
    (*out)->inference = old->inference;
    return GT_OK;
}

/*
 * The operation that changes a tensor in place may need its old value for the gradient. As PyTorch, which saves a copy, it does
 * not count as overwritten then.
 */
static gt_err keep_old_value(gt_node *node, const gt_tensor *old)
{
    gt_tensor *copy, *saved = node ? node->saved[0] : NULL;
    if (!saved || saved != old)
        return GT_OK;
    GT_TRY(gt__tensor_alias(saved, saved->node, &copy));
    node->saved[0] = copy;
    gt_tensor_release(saved);
    return GT_OK;
}

int gt__py_rebind(PyObject *self, gt_tensor *tensor)
{
    TensorObject *object = (TensorObject *)self;
    gt_tensor *old = object->tensor, *next = NULL;
    if (UNLIKELY(check_write(self, tensor->node != NULL) < 0)) {
        gt_tensor_release(tensor);
        return -1;
    }
    gt_err err =
        UNLIKELY(tensor->node) ? keep_old_value(tensor->node, object->alias ? object->alias->cut : old) : GT_OK;
    if (UNLIKELY(err != GT_OK)) {
        gt_tensor_release(tensor);
        gt__py_raise(err);
        return -1;
    }
    if (UNLIKELY(object->alias != NULL)) {
        int status = gt__py_refuse_overlap(self) < 0 ? -1 : gt__py_write(self, &(gt_written){.tensor = tensor});
        /* The operation may have saved its result, which is the memory that was written. */
        if (status == 0 && tensor->node && tensor->node->saved_out && tensor->node->saved_out == tensor->base &&
            object->alias && (err = gt__alias_keep_value(object->alias, tensor->base)) != GT_OK) {
            gt__py_raise(err);
            status = -1;
        }
        gt_tensor_release(tensor);
        return status;
    }
    gt_tensor_retain(old); /* another thread may write meanwhile */
    err = next_value(old, tensor, &next);
    gt_tensor_release(tensor);
    if (err != GT_OK) {
        gt_tensor_release(old);
        gt__py_raise(err);
        return -1;
    }
    if (old->versions) { /* it had views, whose values may be saved */
        old->versions->count++;
        gt__alias_stamp(next, old->versions);
    }
    old->overwritten = true;
    if (old->node && old->node->saved_out && old->node->saved_out == old->base)
        old->base->overwritten = true;
    if (UNLIKELY(object->alias != NULL)) { /* it got one while the emission waited */
        int status = gt__py_write(self, &(gt_written){.tensor = next});
        gt_tensor_release(next);
        gt_tensor_release(old);
        return status;
    }
    gt_tensor *before = object->tensor;
    object->tensor = next;
    if (UNLIKELY(before->name))
        gt__name_follow(before, next);
    gt_tensor_release(before);
    gt_tensor_release(old);
    return 0;
}

/* ---- other memory ---------------------------------------------------------------------------------------------- */

/* PyTorch's graph saves a leaf itself, not its memory: after x.data = y it has saved y. */
static int replace_saved(PyObject *self, gt_tensor *old)
{
    if (old->references == 1 || !gt__meta_same_shape(&old->meta, gt__py_meta(self)) ||
        old->meta.dtype != gt__py_meta(self)->dtype)
        return 0;
    bool before = gt__grad_enable(false);
    gt_tensor *value = gt__py_use(self);
    gt__grad_enable(before);
    if (value)
        gt__saved_replace(old, value, true);
    return value ? 0 : -1;
}

/* The object's value as far as it has one. The caller's, may be NULL. */
static gt_tensor *present_value(PyObject *self)
{
    const TensorObject *object = (TensorObject *)self;
    return gt_tensor_retain(object->alias ? object->alias->cut : object->tensor);
}

static int share_value(PyObject *self, PyObject *value)
{
    const gt_meta *meta = gt__py_meta(value);
    gt_client *client = ((TensorObject *)value)->tensor->client;
    bool before = gt__grad_enable(false); /* no matter whether its history can still be used */
    gt_tensor *old = gt__py_requires_grad(self) ? gt__py_use(self) : NULL;
    gt__grad_enable(before);
    gt_node *node = old ? old->node : NULL;
    if (PyErr_Occurred())
        return -1;
    if (!node || (node->op != GT_OP_INVALID && node->client != client))
        return gt__py_share(self, value, NULL, false);
    gt_node *leaf = NULL;
    /* A leaf belongs to the tape of its client: the other client gets a new leaf. */
    gt_err err = client == node->client ? GT_OK : gt__node_new_leaf(client, meta, &leaf);
    if (err != GT_OK) {
        gt__py_raise(err);
        return -1;
    }
    int status = gt__py_share(self, value, leaf ? leaf : node, false);
    gt__node_release(leaf);
    return status;
}

int gt__py_set_value(PyObject *self, PyObject *value, bool counted)
{
    gt_tensor *old = present_value(self);
    gt_alias *own = gt__py_alias(self);
    if (!own) {
        gt_tensor_release(old);
        return -1;
    }
    bool named = old && old->name && own == &own->storage->root; /* not x.detach(), which has the name of x */
    gt_versions *versions = gt__versions_retain(own->versions);
    int status = share_value(self, value);
    if (status == 0)
        versions->count += counted;
    if (status == 0 && ((TensorObject *)self)->alias)
        gt__alias_count_as(((TensorObject *)self)->alias, versions);
    gt__versions_release(versions);
    if (status == 0 && old && gt__py_is_leaf(old) && !counted)
        status = replace_saved(self, old);
    gt_tensor *holder = status == 0 && named ? gt__py_name_holder(self) : NULL;
    if (holder) /* others that share the old memory have no right to the name */
        gt__name_follow(old, holder);
    gt_tensor_release(old);
    return status;
}

/* self._set(value): as self.data = value, but an in-place operation: set_(), resize_(). */
static PyObject *method_set(PyObject *self, PyObject *value)
{
    if (!gt__py_is_tensor(value))
        return PyErr_Format(PyExc_TypeError, "expected a Tensor, not %s", Py_TYPE(value)->tp_name);
    return gt__py_set_value(self, value, true) < 0 ? NULL : Py_NewRef(self);
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

gt_tensor *gt__py_name_holder(PyObject *self)
{
    const TensorObject *object = (TensorObject *)self;
    if (!object->alias)
        return object->tensor;
    return gt__alias_covers(object->alias) ? object->alias->storage->root.cut : NULL;
}

bool gt__py_has_name(PyObject *self, const gt_tensor *a)
{
    const gt_tensor *holder = gt__py_name_holder(self);
    return holder && holder->name && holder->id == a->id;
}

void gt__py_take_name(PyObject *self, gt_tensor *cut)
{
    if (UNLIKELY(gt__py_has_name(self, cut)))
        cut->name = gt__py_name_holder(self)->name;
}

/* self._name(text): what the program calls the tensor, for `gt replay`. */
static PyObject *method_name(PyObject *self, PyObject *object)
{
    const char *text = PyUnicode_Check(object) ? PyUnicode_AsUTF8(object) : NULL;
    if (!text)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "a name is a string");
    gt_tensor *holder = gt__py_name_holder(self);
    gt_err err = holder ? gt__name_give(holder, text) : GT_OK;
    return err == GT_OK ? Py_NewRef(Py_None) : gt__py_raise(err);
}

/* ---- versions ----------------------------------------------------------------------------------------------------- */

static PyObject *get_version(PyObject *self, void *closure)
{
    (void)closure;
    const TensorObject *object = (TensorObject *)self;
    const gt_versions *versions = object->alias ? object->alias->versions : object->tensor->versions;
    if (object->tensor->inference)
        return PyErr_Format(PyExc_RuntimeError, "Inference tensors do not track version counter.");
    return PyLong_FromUnsignedLong(versions ? versions->count : object->tensor->version);
}

/* The node of an operation that was recorded now; NULL: none was. */
static gt_node *recorded_node(PyObject *result)
{
    const TensorObject *object = (TensorObject *)result;
    gt_node *node = object->alias ? gt__alias_node(object->alias->family) : object->tensor->node;
    return node && gt__grad_enabled() && node->op != GT_OP_INVALID ? node : NULL;
}

int gt__py_watch_key(PyObject *result, PyObject *key)
{
    gt_node *node = recorded_node(result);
    bool several = PyTuple_Check(key);
    Py_ssize_t count = several ? PyTuple_GET_SIZE(key) : 1;
    for (Py_ssize_t k = 0; node && k < count; k++) {
        PyObject *item = several ? PyTuple_GET_ITEM(key, k) : key;
        if (!gt__py_is_tensor(item) || !gt__py_meta(item)->rank)
            continue;
        gt_tensor *value = gt__py_use(item);
        if (!value)
            return -1;
        gt__autograd_watch(node, value);
    }
    return 0;
}

/* self._watch(tensors...): self is the result of an operation that saves these in PyTorch. Returns self. */
static PyObject *method_watch(PyObject *self, PyObject *tensors)
{
    return gt__py_watch_key(self, tensors) < 0 ? NULL : Py_NewRef(self);
}

/* self._value(): the same value as an object of its own, still recorded. Methods in place compute with it. */
static PyObject *method_value(PyObject *self, PyObject *unused)
{
    (void)unused;
    gt_tensor *tensor = gt__py_use(self), *out = NULL;
    if (!tensor)
        return NULL;
    gt_err err = gt__tensor_alias(tensor, tensor->node, &out);
    return gt__py_result(err, out);
}

PyMethodDef gt__py_inplace_methods[] = {
    {.ml_name = "_set", .ml_meth = method_set, .ml_flags = METH_O, .ml_doc = "_set(value): share its memory."},
    {.ml_name = "_watch",
     .ml_meth = method_watch,
     .ml_flags = METH_VARARGS,
     .ml_doc = "_watch(*tensors): they may not change before the backward pass."},
    {.ml_name = "_name", .ml_meth = method_name, .ml_flags = METH_O, .ml_doc = "_name(text): for tapes."},
    NOARGS("_value", method_value, "The same value, apart from in-place changes."),
    {.ml_name = NULL},
};

PyGetSetDef gt__py_inplace_attributes[] = {
    {.name = "_version", .get = get_version, .doc = "how often it was changed in place"},
    {.name = NULL},
};

/* inplace.c: in-place operations: what is checked before them, and how a tensor gets its next value. */
#include "alias.h"

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
    gt_tensor_release(before);
    gt_tensor_release(old);
    return 0;
}

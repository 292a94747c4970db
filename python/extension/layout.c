/*
 * layout.c: where the elements of results lie in memory.
 *
 * Elements are on the workers, in their order. What a user sees, stride(), is_contiguous() and which view() is refused, is
 * PyTorch's: the result of an elementwise operation, a cast or a clone keeps the order of permuted operands. Such a result is
 * the root of a storage with these strides. Results of contiguous operands, nearly all, need none.
 */
#include "alias.h"

#include <string.h>

static bool is_usual(PyObject *object)
{
    const gt_alias *alias = gt__py_is_tensor(object) ? ((TensorObject *)object)->alias : NULL;
    if (!alias)
        return true;
    gt_strides strides = alias->strides;
    strides.offset = 0;
    return gt__strides_are_usual(&alias->shell.meta, &strides);
}

PyObject *gt__py_lay(PyObject *result, const gt_strides *strides)
{
    if (!result || gt__strides_are_usual(gt__py_meta(result), strides))
        return result;
    gt_alias *root = gt__py_alias(result);
    if (root && !root->parent)
        gt__storage_lay(root, strides);
    return result;
}

PyObject *gt__py_elementwise(gt_err err, gt_tensor *out, PyObject *const *operands, int count)
{
    static const gt_meta number = {.numel = 1};
    PyObject *result = gt__py_result(err, out);
    gt_laid laid[4];
    gt_strides strides;
    bool usual = true;
    for (int k = 0; k < count; k++) {
        const gt_alias *alias = gt__py_is_tensor(operands[k]) ? ((TensorObject *)operands[k])->alias : NULL;
        usual = usual && is_usual(operands[k]);
        laid[k].strides = alias ? &alias->strides : NULL;
        laid[k].meta = gt__py_is_tensor(operands[k]) ? gt__py_meta(operands[k]) : &number;
    }
    if (LIKELY(usual) || !result)
        return result;
    gt__strides_of_result(gt__py_meta(result), laid, (unsigned)count, &strides);
    return gt__py_lay(result, &strides);
}

PyObject *gt__py_preserved(PyObject *result, PyObject *like)
{
    gt_strides strides, own;
    if (LIKELY(is_usual(like)) || !result || !gt__meta_same_shape(gt__py_meta(result), gt__py_meta(like)))
        return result;
    gt__py_strides(like, &own);
    gt__strides_of_result(gt__py_meta(result), &(gt_laid){gt__py_meta(like), &own}, 1, &strides);
    return gt__py_lay(result, &strides);
}

/* ---- memory formats -------------------------------------------------------------------------------------------- */

int gt__py_format(PyObject *object, gt_py_format *format)
{
    static const char *const names[] = {"preserve_format", "contiguous_format", "channels_last",
                                        "channels_last_3d"};
    if (!object || object == Py_None)
        return 0;
    PyObject *text = PyObject_Repr(object);
    const char *name = text ? PyUnicode_AsUTF8(text) : NULL, *dot = name ? strrchr(name, '.') : NULL;
    int found = -1;
    for (int k = 0; dot && k < 4; k++)
        found = strcmp(dot + 1, names[k]) ? found : k;
    Py_XDECREF(text);
    if (found < 0 && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "memory_format must be a gt.memory_format, not %s",
                     Py_TYPE(object)->tp_name);
    *format = found < 0 ? *format : (gt_py_format)found;
    return found < 0 ? -1 : 0;
}

/* NCHW with the channels innermost. -1: a tensor of this rank has no such strides. */
static int channels_last(const gt_meta *meta, gt_py_format format, gt_strides *out)
{
    int rank = format == GT_PY_CHANNELS_LAST ? 4 : 5;
    if (meta->rank != rank) {
        PyErr_Format(PyExc_RuntimeError, "required rank %d tensor to use channels_last%s format", rank,
                     rank == 4 ? "" : "_3d");
        return -1;
    }
    int64_t step = 1;
    *out = (gt_strides){.offset = 0};
    for (int k = 0; k < rank; k++) { /* channels, then the last axis to the first of the image, then samples */
        int axis = k == 0 ? 1 : k == rank - 1 ? 0 : rank - k;
        out->step[axis] = step;
        step *= meta->shape[axis] > 1 ? meta->shape[axis] : 1;
    }
    return 0;
}

PyObject *gt__py_formatted(PyObject *result, PyObject *like, gt_py_format format)
{
    gt_strides strides;
    if (!result || format == GT_PY_CONTIGUOUS)
        return result;
    if (format == GT_PY_PRESERVE)
        return gt__py_preserved(result, like);
    if (channels_last(gt__py_meta(result), format, &strides) < 0) {
        Py_DECREF(result);
        return NULL;
    }
    return gt__py_lay(result, &strides);
}

bool gt__py_has_format(PyObject *self, gt_py_format format)
{
    const gt_meta *meta = gt__py_meta(self);
    gt_strides strides, wanted;
    gt__py_strides(self, &strides);
    if (format == GT_PY_PRESERVE)
        return true;
    if (format == GT_PY_CONTIGUOUS)
        return gt__strides_are_contiguous(meta, &strides);
    if (meta->rank != (format == GT_PY_CHANNELS_LAST ? 4 : 5) || channels_last(meta, format, &wanted) < 0)
        return false;
    for (unsigned k = 0; k < meta->rank; k++)
        if (meta->shape[k] != 1 && strides.step[k] != wanted.step[k])
            return false;
    return true;
}

/* self._packed(): with its elements in their order. A new tensor, as composed functions return, just forgets its strides. */
static PyObject *method_packed(PyObject *self, PyObject *unused)
{
    (void)unused;
    gt_alias *alias = ((TensorObject *)self)->alias;
    gt_strides strides;
    if (!alias || gt__strides_are_contiguous(&alias->shell.meta, &alias->strides))
        return Py_NewRef(self);
    if (alias->parent || alias->storage->owners > 1)
        return PyObject_CallMethod(self, "contiguous", NULL);
    gt__strides_contiguous(&alias->shell.meta, &strides);
    gt__storage_lay(alias, &strides);
    return Py_NewRef(self);
}

/* self._laid_like(other): self, a new tensor, in the format of the other. */
static PyObject *method_laid_like(PyObject *self, PyObject *other)
{
    if (!gt__py_is_tensor(other))
        return PyErr_Format(PyExc_TypeError, "expected a Tensor, not %s", Py_TYPE(other)->tp_name);
    return gt__py_preserved(Py_NewRef(self), other);
}

/*
 * self._memory(): (a number, elements) of the memory that self shares with others; the elements are all of it, in their order
 * there, in the dtype of the memory, in a new tensor. The number is that of the memory while a tensor has it. None: self shares
 * its memory with no other, and has all of it in order.
 */
static PyObject *method_memory(PyObject *self, PyObject *unused)
{
    (void)unused;
    gt_alias *alias = ((TensorObject *)self)->alias;
    gt_tensor *plain, *flat;
    if (!alias)
        Py_RETURN_NONE;
    gt_err err = gt__tensor_detach(alias->storage->root.cut, &plain);
    if (err != GT_OK)
        return gt__py_raise(err);
    gt__alias_retain(alias); /* other threads run if an emission waits */
    err = gt__memory_flat(alias->storage, plain, (gt_dtype)alias->storage->root.shell.meta.dtype, &flat);
    gt_tensor_release(plain);
    unsigned long long number = (uintptr_t)alias->storage;
    gt__alias_release(alias);
    PyObject *elements = gt__py_result(err, flat);
    return elements ? Py_BuildValue("(KN)", number, elements) : NULL;
}

PyMethodDef gt__py_layout_methods[] = {
    NOARGS("_memory", method_memory,
           "_memory(): which memory it has, and all elements there; None: its own alone."),
    NOARGS("_packed", method_packed, "_packed(): contiguous."),
    {.ml_name = "_laid_like",
     .ml_meth = method_laid_like,
     .ml_flags = METH_O,
     .ml_doc = "_laid_like(other): a new tensor, in the format of the other."},
    {.ml_name = NULL},
};

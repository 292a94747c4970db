/* batch.c: the batched tensors of src/client/batch.h for python/gt/func/vmap.py. */
#include "client/batch.h"

#include "extension.h"

static PyObject *warned; /* a set of op names */

static void warn_slow(const char *op)
{
    PyObject *name = PyUnicode_FromString(op);
    if (!name || PySet_Contains(warned, name) || PySet_Add(warned, name) < 0) {
        Py_XDECREF(name);
        return;
    }
    Py_DECREF(name);
    if (PyErr_WarnFormat(
            PyExc_UserWarning, 1,
            "There is a performance drop because we have not yet implemented the batching rule for %s. It is "
            "computed sample by sample.",
            op) < 0)
        PyErr_WriteUnraisable(NULL);
}

/* _vmap_enter(size, randomness) -> level */
static PyObject *py_enter(PyObject *module, PyObject *args)
{
    (void)module;
    long long size;
    const char *randomness;
    uint32_t level;
    if (!PyArg_ParseTuple(args, "Ls", &size, &randomness) || (!warned && !(warned = PySet_New(NULL))))
        return NULL;
    gt__batch_slow_hook = warn_slow;
    gt_randomness kind = strcmp(randomness, "same") == 0        ? GT_RANDOMNESS_SAME
                         : strcmp(randomness, "different") == 0 ? GT_RANDOMNESS_DIFFERENT
                                                                : GT_RANDOMNESS_ERROR;
    gt_err err = gt__batch_enter(size, kind, &level);
    return err == GT_OK ? PyLong_FromUnsignedLong(level) : gt__py_raise(err);
}

static PyObject *py_exit(PyObject *module, PyObject *number)
{
    (void)module;
    unsigned long level = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred())
        return NULL;
    gt__batch_exit((uint32_t)level);
    Py_RETURN_NONE;
}

static int tensor_and_level(PyObject *args, gt_tensor **tensor, uint32_t *level)
{
    PyObject *object;
    unsigned long number;
    if (!PyArg_ParseTuple(args, "O!k", gt__py_tensor_type, &object, &number))
        return -1;
    *level = (uint32_t)number;
    *tensor = gt__py_use(object);
    return *tensor ? 0 : -1;
}

/* _vmap_wrap(tensor, level): hide its first axis. */
static PyObject *py_wrap(PyObject *module, PyObject *args)
{
    (void)module;
    gt_tensor *tensor, *out = NULL;
    uint32_t level;
    if (tensor_and_level(args, &tensor, &level) < 0)
        return NULL;
    gt_err err = gt__batch_wrap(tensor, level, &out);
    return gt__py_result(err, out);
}

/* _vmap_unwrap(tensor, level): with the axis in front. */
static PyObject *py_unwrap(PyObject *module, PyObject *args)
{
    (void)module;
    gt_tensor *tensor, *out = NULL;
    uint32_t level;
    if (tensor_and_level(args, &tensor, &level) < 0)
        return NULL;
    gt_err err = gt__batch_unwrap(tensor, level, &out);
    return gt__py_result(err, out);
}

/* _vmap_expand(tensor): batched at every level of this thread. */
static PyObject *py_expand(PyObject *module, PyObject *object)
{
    (void)module;
    if (!gt__py_is_tensor(object))
        return PyErr_Format(PyExc_TypeError, "expected a Tensor, not %s", Py_TYPE(object)->tp_name);
    gt_tensor *tensor = gt__py_use(object), *out = NULL;
    if (!tensor)
        return NULL;
    gt_err err = gt__batch_expand_all(tensor, &out);
    return gt__py_result(err, out);
}

/* _vmap_level(tensor): the level that it is batched at, 0 for other tensors. */
static PyObject *py_level(PyObject *module, PyObject *object)
{
    (void)module;
    if (!gt__py_is_tensor(object))
        return PyErr_Format(PyExc_TypeError, "expected a Tensor, not %s", Py_TYPE(object)->tp_name);
    gt_tensor *tensor = gt__py_use(object);
    return tensor ? PyLong_FromUnsignedLong(tensor->batch) : NULL;
}

static PyObject *py_active(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyBool_FromLong(gt__batch_active());
}

PyMethodDef gt__py_batch_functions[] = {
    {.ml_name = "_vmap_enter", .ml_meth = py_enter, .ml_flags = METH_VARARGS},
    {.ml_name = "_vmap_exit", .ml_meth = py_exit, .ml_flags = METH_O},
    {.ml_name = "_vmap_wrap", .ml_meth = py_wrap, .ml_flags = METH_VARARGS},
    {.ml_name = "_vmap_unwrap", .ml_meth = py_unwrap, .ml_flags = METH_VARARGS},
    {.ml_name = "_vmap_expand", .ml_meth = py_expand, .ml_flags = METH_O},
    {.ml_name = "_vmap_level", .ml_meth = py_level, .ml_flags = METH_O},
    NOARGS("_vmap_active", py_active, "_vmap_active(): whether this thread is inside a vmap."),
    {.ml_name = NULL},
};

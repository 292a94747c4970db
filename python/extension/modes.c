/*
 * modes.c: modes as functions: autocast, the default dtype, anomaly detection, recording and inference mode. The context
 * managers and settings that users see are in python/gt/amp, python/gt/autograd and python/gt/_defaults.py.
 */
#include "client/autograd.h"
#include "client/intercept.h"

#include <stdatomic.h>

#include "extension.h"

/* _autocast(): ((cpu on, dtype), (cuda on, dtype)) of this thread. */
static PyObject *autocast_value(gt_autocast state)
{
    PyObject *value = PyTuple_New(GT_AUTOCAST_DEVICES);
    for (int device = 0; value && device < GT_AUTOCAST_DEVICES; device++) {
        PyObject *pair =
            Py_BuildValue("ON", state.on[device] ? Py_True : Py_False, gt__py_dtype_object(state.dtype[device]));
        if (!pair)
            Py_CLEAR(value);
        else
            PyTuple_SET_ITEM(value, device, pair);
    }
    return value;
}

static PyObject *py_autocast(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return autocast_value(gt__autocast_get());
}

/* _set_autocast(device, on, dtype) -> the previous state of all devices */
static PyObject *py_set_autocast(PyObject *module, PyObject *args)
{
    (void)module;
    int device, on;
    PyObject *dtype;
    gt_autocast state = gt__autocast_get();
    if (!PyArg_ParseTuple(args, "ipO", &device, &on, &dtype))
        return NULL;
    if (device < 0 || device >= GT_AUTOCAST_DEVICES)
        return PyErr_Format(PyExc_ValueError, "no autocast device %d", device);
    if (gt__py_dtype(dtype, &state.dtype[device]) < 0)
        return NULL;
    state.on[device] = on;
    return autocast_value(gt__autocast_set(state));
}

static PyObject *py_default_dtype(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return gt__py_dtype_object(gt__default_dtype);
}

static PyObject *py_set_default_dtype(PyObject *module, PyObject *object)
{
    (void)module;
    gt_dtype dtype = GT_FLOAT32;
    if (gt__py_dtype(object, &dtype) < 0)
        return NULL;
    gt_err err = gt__default_dtype_set(dtype);
    return err == GT_OK ? Py_NewRef(Py_None) : gt__py_raise(err);
}

static PyObject *py_set_anomaly(PyObject *module, PyObject *value)
{
    (void)module;
    bool wanted = false;
    return gt__py_flag(value, &wanted) < 0 ? NULL : PyBool_FromLong(gt__anomaly_set(wanted));
}

static PyObject *py_anomaly(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyBool_FromLong(gt__anomaly_wanted);
}

static PyObject *py_set_fast_products(PyObject *module, PyObject *value)
{
    (void)module;
    bool wanted = false;
    if (gt__py_flag(value, &wanted) < 0)
        return NULL;
    atomic_store_explicit(&gt__fast_products, wanted, memory_order_relaxed);
    return Py_NewRef(Py_None);
}

/* ---- recording ------------------------------------------------------------------------------------------------- */

static _Thread_local bool claimed; /* what is_grad_enabled() tells in inference mode */

static PyObject *py_set_grad_enabled(PyObject *module, PyObject *value)
{
    (void)module;
    bool wanted = true;
    if (gt__py_flag(value, &wanted) < 0)
        return NULL;
    if (!gt__inference_here)
        return PyBool_FromLong(gt__grad_enable(wanted));
    bool before = claimed; /* nothing is recorded in inference mode, but is_grad_enabled() tells what was set */
    claimed = wanted;
    return PyBool_FromLong(before);
}

/* _set_inference(mode): enter or leave inference mode, which disables or enables recording; returns what _restore_inference takes. */
static PyObject *py_set_inference(PyObject *module, PyObject *value)
{
    (void)module;
    bool wanted = true, before = gt__inference_here, claim = claimed;
    if (gt__py_flag(value, &wanted) < 0)
        return NULL;
    bool recorded = gt__grad_enable(!wanted);
    claimed = !wanted;
    gt__py_inference_enable(wanted);
    return Py_BuildValue("(iii)", before, recorded, claim);
}

static PyObject *py_restore_inference(PyObject *module, PyObject *state)
{
    (void)module;
    int inference, recorded, claim;
    if (!PyArg_ParseTuple(state, "iii", &inference, &recorded, &claim))
        return NULL;
    gt__py_inference_enable(inference);
    gt__grad_enable(recorded);
    claimed = claim;
    Py_RETURN_NONE;
}

static PyObject *py_is_inference_mode_enabled(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyBool_FromLong(gt__inference_here);
}

static PyObject *py_is_grad_enabled(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyBool_FromLong(gt__inference_here ? claimed : gt__grad_enabled());
}

PyMethodDef gt__py_mode_functions[] = {
    {.ml_name = "_set_inference", .ml_meth = py_set_inference, .ml_flags = METH_O},
    {.ml_name = "_restore_inference", .ml_meth = py_restore_inference, .ml_flags = METH_O},
    NOARGS("is_inference_mode_enabled", py_is_inference_mode_enabled,
           "is_inference_mode_enabled(): whether this thread is in inference_mode()."),
    {.ml_name = "_set_grad_enabled", .ml_meth = py_set_grad_enabled, .ml_flags = METH_O},
    NOARGS("is_grad_enabled", py_is_grad_enabled, "Whether new operations are recorded."),
    NOARGS("_autocast", py_autocast, "_autocast(): ((cpu, dtype), (cuda, dtype)) of this thread."),
    {.ml_name = "_set_autocast", .ml_meth = py_set_autocast, .ml_flags = METH_VARARGS},
    NOARGS("get_default_dtype", py_default_dtype, "get_default_dtype(): the dtype of floats without one."),
    {.ml_name = "_set_default_dtype", .ml_meth = py_set_default_dtype, .ml_flags = METH_O},
    {.ml_name = "_set_anomaly", .ml_meth = py_set_anomaly, .ml_flags = METH_O},
    NOARGS("_anomaly", py_anomaly, "_anomaly(): whether backward passes of this thread refuse NaN."),
    {.ml_name = "_set_fast_products", .ml_meth = py_set_fast_products, .ml_flags = METH_O},
    {.ml_name = NULL},
};

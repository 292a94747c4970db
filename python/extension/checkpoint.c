/* checkpoint.c: what gt/utils/checkpoint.py needs of the tape: regions that drop their saved values and get them again. */
#include "client/checkpoint.h"

#include "client/signals.h"
#include "extension.h"

static PyObject *py_tape_position(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    gt_client *client = gt__py_client();
    return client ? Py_BuildValue("KI", (unsigned long long)gt__tape_position(client), gt__signal_current().scope)
                  : NULL;
}

static gt_err call_recompute(void *context, gt_tensor **gradient)
{
    (void)gradient;
    PyObject *answer = PyObject_CallNoArgs(context);
    Py_XDECREF(answer);
    return answer ? GT_OK : gt__fail(GT_ERR_INTERNAL, "a hook raised an exception");
}

static void retain_object(void *context)
{
    Py_INCREF((PyObject *)context);
}

static void release_object(void *context)
{
    Py_DECREF((PyObject *)context);
}

static PyObject *py_drop(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned long long begin;
    PyObject *recompute;
    if (!PyArg_ParseTuple(args, "KO:_checkpoint_drop", &begin, &recompute))
        return NULL;
    gt_client *client = gt__py_client();
    if (!client)
        return NULL;
    gt_err err = gt__checkpoint_drop(client, begin, call_recompute, recompute, retain_object, release_object);
    return err == GT_OK ? Py_NewRef(Py_None) : gt__py_raise(err);
}

static PyObject *py_restore(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned long long begin, end, again;
    if (!PyArg_ParseTuple(args, "KKK:_checkpoint_restore", &begin, &end, &again))
        return NULL;
    gt_client *client = gt__py_client();
    if (!client)
        return NULL;
    gt_err err = gt__checkpoint_restore(client, begin, end, again);
    return err == GT_OK ? Py_NewRef(Py_None) : gt__py_raise(err);
}

/* Call a function under the signal of the forward pass, not under the one around the call of backward. */
static PyObject *py_call_in_scope(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned scope;
    PyObject *function;
    if (!PyArg_ParseTuple(args, "IO:_call_in_scope", &scope, &function))
        return NULL;
    gt_signal_state before = gt__signal_replace((gt_signal_state){.scope = scope});
    PyObject *answer = PyObject_CallNoArgs(function);
    gt__signal_replace(before);
    return answer;
}

/* The value and the history that a tensor has now, in an object that later changes of the tensor do not reach. */
static PyObject *py_frozen(PyObject *module, PyObject *self)
{
    (void)module;
    if (!gt__py_is_tensor(self))
        return PyErr_Format(PyExc_TypeError, "_frozen() takes a tensor, not %s", Py_TYPE(self)->tp_name);
    gt_tensor *tensor = gt__py_use(self);
    return tensor ? gt__py_wrap(gt_tensor_retain(tensor)) : NULL;
}

PyMethodDef gt__py_checkpoint_functions[] = {
    NOARGS("_tape_position", py_tape_position,
           "_tape_position(): the number of the next recorded op, and the scope."),
    {.ml_name = "_checkpoint_drop",
     .ml_meth = py_drop,
     .ml_flags = METH_VARARGS,
     .ml_doc =
         "_checkpoint_drop(begin, recompute): drop the values saved since a position; recompute() must bring them "
         "back by _checkpoint_restore before backward needs them."},
    {.ml_name = "_checkpoint_restore",
     .ml_meth = py_restore,
     .ml_flags = METH_VARARGS,
     .ml_doc =
         "_checkpoint_restore(begin, end, again): the ops of a region take the values of those recorded again."},
    {.ml_name = "_call_in_scope",
     .ml_meth = py_call_in_scope,
     .ml_flags = METH_VARARGS,
     .ml_doc = "_call_in_scope(scope, function): call it under a signal's scope."},
    {.ml_name = "_frozen",
     .ml_meth = py_frozen,
     .ml_flags = METH_O,
     .ml_doc = "_frozen(tensor): the tensor as it is now."},
    {.ml_name = NULL},
};

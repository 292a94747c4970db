/* bounds.c: what is known of the values of integer tensors, for functions that take class numbers. See client/bounds.h. */
#include "client/bounds.h"

#include "extension.h"

/* _outside(low, high, ignored=None): a value outside low..high, or None: there is none, or only the worker can tell. */
static PyObject *method_outside(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"low", "high", "ignored"};
    PyObject *values[3];
    int64_t low, high, ignored = 0, value = 0;
    if (gt__py_parse("_outside", args, nargs, kwnames, names, 3, 3, values) < 0)
        return NULL;
    if (!values[0] || !values[1])
        return PyErr_Format(PyExc_TypeError, "_outside() needs low and high");
    bool has_ignored = values[2] && values[2] != Py_None, found;
    if (gt__py_int64(values[0], &low) < 0 || gt__py_int64(values[1], &high) < 0 ||
        (has_ignored && gt__py_int64(values[2], &ignored) < 0))
        return NULL;
    gt_tensor *tensor = gt__py_use(self);
    if (!tensor)
        return NULL;
    gt_tensor_retain(tensor); /* a wait lets other threads rebind self */
    gt_err err = gt__bounds_check(tensor, low, high, has_ignored ? &ignored : NULL, &found, &value);
    gt_tensor_release(tensor);
    if (err != GT_OK)
        return gt__py_raise(err);
    return found ? PyLong_FromLongLong(value) : Py_NewRef(Py_None);
}

PyMethodDef gt__py_bounds_methods[] = {
    FAST("_outside", method_outside, "_outside(low, high, ignored=None): a value outside low..high, or None."),
    {.ml_name = NULL},
};

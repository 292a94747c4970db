/*
 * convert.c: Python arguments to C values: numbers, axes, shapes, operands.
 *
 * Both PyTorch's and NumPy's conventions are accepted: dim or axis, ints or tuples, NumPy scalars as numbers.
 * Read next: dtype.c, element.c (nested lists), interop.c (arrays).
 */
#include "client/intercept.h"

#include "extension.h"

#include <string.h>

/* Is `name` one of the words of "dim|axis"? */
static bool name_matches(const char *names, const char *name)
{
    size_t length = strlen(name);
    for (const char *word = names;; word++) {
        size_t width = strcspn(word, "|");
        if (width == length && memcmp(word, name, length) == 0)
            return true;
        word += width;
        if (!*word)
            return false;
    }
}

int gt__py_parse(const char *function, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames,
                 const char *const *names, int count, int positional, PyObject **values)
{
    for (int k = 0; k < count; k++)
        values[k] = k < nargs ? args[k] : NULL;
    if (nargs > positional) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %d positional arguments (%zd given)", function,
                     positional, nargs);
        return -1;
    }
    Py_ssize_t keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    for (Py_ssize_t i = 0; i < keywords; i++) {
        const char *name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(kwnames, i));
        if (!name)
            return -1;
        int k = 0;
        while (k < count && !name_matches(names[k], name))
            k++;
        if (k == count) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%s'", function, name);
            return -1;
        }
        if (values[k]) {
            PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%s'", function, name);
            return -1;
        }
        values[k] = args[nargs + i];
    }
    return 0;
}

int gt__py_int64(PyObject *object, int64_t *value)
{
    PyObject *index = PyNumber_Index(object);
    if (!index)
        return -1;
    *value = PyLong_AsLongLong(index);
    Py_DECREF(index);
    return *value == -1 && PyErr_Occurred() ? -1 : 0;
}

int gt__py_flag(PyObject *object, bool *value)
{
    int truth = object ? PyObject_IsTrue(object) : *value;
    *value = truth > 0;
    return truth < 0 ? -1 : 0;
}

/* ---- numbers --------------------------------------------------------------------------------------------- */

/* NumPy scalars and 0-d arrays, through their buffer: importing NumPy to know its types would cost 100 ms. */
static int literal_from_buffer(PyObject *object, gt_literal *kind, gt_imm *value)
{
    Py_buffer view;
    if (PyObject_GetBuffer(object, &view, PyBUF_STRIDED_RO | PyBUF_FORMAT) < 0) {
        PyErr_Clear();
        return 0;
    }
    gt_dtype dtype;
    bool swap;
    int found = 0;
    if (view.ndim == 0) {
        found = gt__py_buffer_dtype(&view, &dtype, &swap);
        PyObject *number = found < 0 || swap ? NULL : gt__py_element(dtype, view.buf);
        if (found == 0)
            found = number ? gt__py_literal(number, kind, value) : 0;
        Py_XDECREF(number);
    }
    PyBuffer_Release(&view);
    return found;
}

int gt__py_literal(PyObject *object, gt_literal *kind, gt_imm *value)
{
    if (PyFloat_Check(object)) {
        *kind = GT_LITERAL_FLOAT;
        value->f = PyFloat_AS_DOUBLE(object);
        return 1;
    }
    if (PyBool_Check(object)) {
        *kind = GT_LITERAL_BOOL;
        value->i = object == Py_True;
        return 1;
    }
    if (PyLong_Check(object)) {
        *kind = GT_LITERAL_INT;
        value->i = PyLong_AsLongLong(object);
        return value->i == -1 && PyErr_Occurred() ? -1 : 1;
    }
    if (PyObject_CheckBuffer(object) && !PyBytes_Check(object) && !PyByteArray_Check(object))
        return literal_from_buffer(object, kind, value);
    return 0;
}

int gt__py_complex(PyObject *object, double *real, double *imaginary)
{
    PyObject *number = NULL;
    if (PyComplex_Check(object))
        number = Py_NewRef(object);
    else if (gt__py_is_tensor(object) &&
             gt__dtype_is_complex((gt_dtype)((TensorObject *)object)->tensor->meta.dtype))
        number = PyObject_CallMethod(object, "item", NULL); /* waits */
    else if (PyFloat_Check(object) || PyLong_Check(object) || !PyObject_CheckBuffer(object) ||
             !PyObject_HasAttrString(object, "__complex__") || !PyObject_HasAttrString(object, "imag"))
        return 0;
    else { /* a NumPy number: complex64 has no base class of Python's */
        number = PyObject_CallMethod(object, "item", NULL);
        if (number && !PyComplex_Check(number)) {
            Py_DECREF(number);
            return 0;
        }
    }
    if (!number)
        return -1;
    Py_complex value = PyComplex_AsCComplex(number);
    Py_DECREF(number);
    *real = value.real;
    *imaginary = value.imag;
    return PyErr_Occurred() ? -1 : 1;
}

int gt__py_check_parts(PyObject *object, gt_dtype dtype)
{
    if (!PyComplex_Check(object) || gt__dtype_is_complex(dtype))
        return 0;
    gt__py_raise(gt__fail(GT_ERR_VALUE, "value cannot be converted to type %s without overflow",
                          gt__dtype_scalar_name(dtype)));
    return -1;
}

/* gt.device; borrowed. NULL: exception. */
static PyObject *device_type(void)
{
    static PyObject *type;
    if (!type) {
        PyObject *module = PyImport_ImportModule("gt.client.device");
        type = module ? PyObject_GetAttrString(module, "device") : NULL;
        Py_XDECREF(module);
    }
    return type;
}

bool gt__py_is_device(PyObject *object)
{
    PyObject *type = device_type();
    if (!type)
        PyErr_Clear(); /* while the package is imported */
    return (PyObject *)Py_TYPE(object) == type;
}

int gt__py_check_device(PyObject *object)
{
    static PyObject *good; /* the text that was checked last */
    if (!object || object == Py_None || object == good || gt__py_is_device(object))
        return 0;
    PyObject *device = device_type() ? PyObject_CallOneArg(device_type(), object) : NULL;
    if (!device)
        return -1;
    Py_DECREF(device);
    if (PyUnicode_CheckExact(object))
        Py_XSETREF(good, Py_NewRef(object));
    return 0;
}

int gt__py_number(PyObject *object, gt_literal *kind, gt_imm *value)
{
    int found = gt__py_literal(object, kind, value);
    if (found == 0 && gt__py_is_tensor(object)) { /* a tensor in place of a number: waits, as in PyTorch */
        PyObject *number = PyObject_CallMethod(object, "item", NULL);
        found = number ? gt__py_literal(number, kind, value) : -1;
        Py_XDECREF(number);
    }
    if (found == 0)
        PyErr_Format(PyExc_TypeError, "expected a number, not %s", Py_TYPE(object)->tp_name);
    return found == 1 ? 0 : -1;
}

double gt__py_literal_double(gt_literal kind, gt_imm value)
{
    return kind == GT_LITERAL_FLOAT ? value.f : (double)value.i;
}

/* ---- axes and shapes ------------------------------------------------------------------------------------- */

int gt__py_wrap_axis(int64_t given, int rank, int *axis)
{
    int limit = rank ? rank : 1;
    if (given < -limit || given >= limit) {
        PyErr_Format(PyExc_IndexError,
                     "Dimension out of range (expected to be in range of [%d, %d], but got %lld)", -limit,
                     limit - 1, (long long)given);
        return -1;
    }
    *axis = (int)(given < 0 ? given + limit : given);
    return 0;
}

int gt__py_dim(PyObject *object, int64_t *given)
{
    return object ? gt__py_int64(object, given) : 0;
}

int gt__py_ints(PyObject *object, int *count, int64_t *values)
{
    if (PyIndex_Check(object)) { /* ints, and one-element arrays and tensors; longer ones are sequences */
        *count = 1;
        if (gt__py_int64(object, values) == 0)
            return 0;
        if (!PySequence_Check(object) || !PyErr_ExceptionMatches(PyExc_TypeError))
            return -1;
        PyErr_Clear();
    }
    PyObject *given = PySequence_Fast(object, "expected an int or a sequence of ints");
    PyObject *sequence = given ? PySequence_Tuple(given) : NULL; /* an element's __index__ may shrink a list */
    Py_XDECREF(given);
    if (!sequence)
        return -1;
    Py_ssize_t length = PyTuple_GET_SIZE(sequence);
    int status = 0;
    if (length > GT_MAX_RANK) {
        PyErr_Format(PyExc_RuntimeError, "tensors have at most %d dimensions, not %zd", GT_MAX_RANK, length);
        status = -1;
    }
    for (Py_ssize_t k = 0; k < length && status == 0; k++)
        status = gt__py_int64(PyTuple_GET_ITEM(sequence, k), &values[k]);
    *count = (int)length;
    Py_DECREF(sequence);
    return status;
}

int gt__py_dims(PyObject *object, int *count, int64_t *given)
{
    *count = 0;
    return object && object != Py_None ? gt__py_ints(object, count, given) : 0;
}

int gt__py_wrap_axes(const int64_t *given, int count, int rank, uint32_t *axes)
{
    *axes = 0;
    for (int k = 0; k < count; k++) {
        int axis;
        if (gt__py_wrap_axis(given[k], rank, &axis) < 0)
            return -1;
        if (*axes >> axis & 1) {
            PyErr_Format(PyExc_RuntimeError, "dim %d appears multiple times in the list of dims", axis);
            return -1;
        }
        *axes |= 1u << axis;
    }
    if (rank == 0)
        *axes = 0;
    return 0;
}

int gt__py_shape(gt_py_args args, Py_ssize_t nargs, int *rank, int64_t *shape)
{
    if (nargs == 1)
        return gt__py_ints(args[0], rank, shape);
    if (nargs > GT_MAX_RANK) {
        PyErr_Format(PyExc_RuntimeError, "tensors have at most %d dimensions, not %zd", GT_MAX_RANK, nargs);
        return -1;
    }
    for (Py_ssize_t k = 0; k < nargs; k++)
        if (gt__py_int64(args[k], &shape[k]) < 0)
            return -1;
    *rank = (int)nargs;
    return 0;
}

/* ---- operands -------------------------------------------------------------------------------------------- */

/* A complex number is a 0-d tensor. Its dtype is such that promotion treats it as PyTorch treats a number: it never widens the
 * other operand. */
static int complex_operand(PyObject *object, gt_client *client, gt_dtype other, gt_tensor **tensor)
{
    double real, imaginary;
    int found = gt__py_complex(object, &real, &imaginary);
    if (found != 1)
        return found;
    gt_err err = gt_full_complex(client, gt__dtype_complex(other), 0, NULL, real, imaginary, tensor);
    if (err != GT_OK)
        gt__py_raise(err);
    return err == GT_OK ? 1 : -1;
}

int gt__py_operand(PyObject *object, gt_client *client, gt_dtype other, gt_tensor **tensor, gt_literal *kind,
                   gt_imm *value)
{
    *tensor = NULL;
    if (gt__py_is_tensor(object)) {
        gt_tensor *used = gt__py_use(object);
        if (!used)
            return -1;
        *tensor = gt_tensor_retain(used);
        return 1;
    }
    if (PyComplex_Check(object))
        return complex_operand(object, client, other, tensor);
    int found = gt__py_literal(object, kind, value);
    if (found != 0)
        return found;
    if (PyList_Check(object) || PyTuple_Check(object) || PyUnicode_Check(object) || PyBytes_Check(object))
        return 0;
    return gt__py_from_array(object, client, tensor);
}

int gt__py_tensor_argument(PyObject *object, gt_client *client, const char *what, gt_tensor **tensor)
{
    gt_literal kind;
    gt_imm value;
    int found = gt__py_operand(object, client, GT_FLOAT32, tensor, &kind, &value);
    if (found == 1 && !*tensor) {
        gt_dtype dtype = kind == GT_LITERAL_FLOAT ? gt__default_dtype
                         : kind == GT_LITERAL_INT ? GT_INT64
                                                  : GT_BOOL;
        gt_err err = gt__emit_full(client, dtype, 0, NULL, kind, value, tensor);
        if (err != GT_OK) {
            gt__py_raise(err);
            return -1;
        }
    }
    if (found == 0)
        PyErr_Format(PyExc_TypeError, "%s must be a Tensor, not %s", what, Py_TYPE(object)->tp_name);
    return found == 1 ? 0 : -1;
}

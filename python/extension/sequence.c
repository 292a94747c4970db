/*
 * sequence.c: tensors from nested sequences of numbers, tensors and arrays.
 *
 * Types follow PyTorch: ints make int64, floats the default dtype, bools bool; tensors, NumPy's numbers and arrays have their own
 * dtype. The promoted one of all of them is the result's. A tensor with one element is a number, whatever its shape. Ragged
 * lists raise ValueError.
 */
#include "client/intercept.h"

#include "extension.h"

#include "core/convert.h"

typedef struct Nest {
    int rank;
    int64_t shape[GT_MAX_RANK];
    gt_dtype dtype; /* of the result */
    bool found;     /* while it is inferred: an element was seen */
    uint8_t *next;  /* where the next element goes */
} Nest;

static bool is_number(PyObject *object)
{
    return PyFloat_Check(object) || PyLong_Check(object) || PyComplex_Check(object);
}

static bool is_leaf(PyObject *object)
{
    if (is_number(object) || gt__py_is_tensor(object))
        return true;
    if (PyList_Check(object) || PyTuple_Check(object))
        return false;
    if (PySequence_Check(object) && PySequence_Size(object) >= 0)
        return false;
    PyErr_Clear(); /* 0-d arrays are sequences without a length */
    return true;
}

/* Strings are sequences, of strings. */
static bool is_text(PyObject *object)
{
    return PyUnicode_Check(object) || PyBytes_Check(object);
}

/* An array or a number of NumPy's. */
static bool is_array(PyObject *object)
{
    return PyObject_CheckBuffer(object) && !PyBytes_Check(object) && !PyByteArray_Check(object);
}

static int refuse_text(PyObject *object)
{
    PyErr_Format(PyExc_TypeError, "new(): invalid data type '%s'", Py_TYPE(object)->tp_name);
    return -1;
}

/* ---- shape ----------------------------------------------------------------------------------------------- */

/* The shape is that of the first element of the first element and so on. */
static int nest_shape(PyObject *object, Nest *nest)
{
    if (is_text(object))
        return refuse_text(object);
    Py_INCREF(object);
    for (nest->rank = 0; !is_leaf(object); nest->rank++) {
        if (nest->rank == GT_MAX_RANK || is_text(object)) {
            if (nest->rank == GT_MAX_RANK)
                PyErr_Format(PyExc_ValueError, "too many dimensions: tensors have at most %d", GT_MAX_RANK);
            else if (PyBytes_Check(object))
                refuse_text(object);
            else
                PyErr_Format(PyExc_ValueError, "too many dimensions '%s'", Py_TYPE(object)->tp_name);
            Py_DECREF(object);
            return -1;
        }
        Py_ssize_t length = PySequence_Size(object);
        nest->shape[nest->rank] = length;
        if (length == 0) {
            nest->rank++;
            break;
        }
        PyObject *first = length > 0 ? PySequence_GetItem(object, 0) : NULL;
        Py_DECREF(object);
        if (!first)
            return -1;
        object = first;
    }
    Py_DECREF(object);
    return 0;
}

/* ---- dtype ----------------------------------------------------------------------------------------------- */

static void widen(Nest *nest, gt_dtype dtype)
{
    nest->dtype = nest->found ? gt__dtype_promote(nest->dtype, dtype) : dtype;
    nest->found = true;
}

static int array_dtype(PyObject *object, gt_dtype *dtype)
{
    Py_buffer view;
    bool swap;
    if (PyObject_GetBuffer(object, &view, PyBUF_STRIDED_RO | PyBUF_FORMAT) < 0)
        return -1;
    int status = gt__py_buffer_dtype(&view, dtype, &swap);
    PyBuffer_Release(&view);
    return status;
}

static int infer_dtype(PyObject *object, Nest *nest);

static int infer_items(PyObject *object, Nest *nest)
{
    PyObject *sequence = PySequence_Fast(object, "expected a sequence");
    if (!sequence)
        return -1;
    int status = 0;
    if (PySequence_Fast_GET_SIZE(sequence) == 0)
        widen(nest, gt__default_dtype);
    for (Py_ssize_t k = 0; status == 0 && k < PySequence_Fast_GET_SIZE(sequence); k++) {
        PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(sequence, k));
        status = infer_dtype(item, nest);
        Py_DECREF(item);
    }
    Py_DECREF(sequence);
    return status;
}

/* Give the nest a dtype that holds this object, too. */
static int infer_dtype(PyObject *object, Nest *nest)
{
    gt_dtype dtype;
    if (PyFloat_CheckExact(object)) {
        dtype = gt__default_dtype;
    } else if (PyLong_Check(object)) {
        dtype = PyBool_Check(object) ? GT_BOOL : GT_INT64;
    } else if (gt__py_is_tensor(object)) {
        dtype = (gt_dtype)((TensorObject *)object)->tensor->meta.dtype;
    } else if (is_array(object)) {
        if (array_dtype(object, &dtype) < 0)
            return -1;
    } else if (PyFloat_Check(object)) {
        dtype = gt__default_dtype;
    } else if (PyComplex_Check(object)) {
        dtype = gt__default_dtype == GT_FLOAT64 ? GT_COMPLEX128 : GT_COMPLEX64;
    } else if (is_text(object)) {
        return refuse_text(object);
    } else if (!is_leaf(object)) {
        if (Py_EnterRecursiveCall(" while making a tensor"))
            return -1;
        int status = infer_items(object, nest);
        Py_LeaveRecursiveCall();
        return status;
    } else {
        PyErr_Format(PyExc_RuntimeError, "Could not infer dtype of %s", Py_TYPE(object)->tp_name);
        return -1;
    }
    widen(nest, dtype);
    return 0;
}

/* ---- elements -------------------------------------------------------------------------------------------- */

static void store_complex(gt_dtype dtype, double real, double imaginary, uint8_t *at)
{
    double wide[2] = {real, imaginary};
    float narrow[2] = {(float)real, (float)imaginary};
    if (dtype == GT_COMPLEX128)
        memcpy(at, wide, sizeof wide);
    else
        memcpy(at, narrow, sizeof narrow);
}

static int store_element(gt_dtype dtype, gt_literal kind, gt_imm value, uint8_t *at)
{
    double f = gt__py_literal_double(kind, value);
    if (gt__dtype_is_complex(dtype)) {
        store_complex(dtype, f, 0, at);
    } else if (dtype == GT_FLOAT64) {
        memcpy(at, &f, sizeof f);
    } else if (dtype == GT_FLOAT32) {
        float narrow = (float)f;
        memcpy(at, &narrow, sizeof narrow);
    } else if (gt__dtype_is_float(dtype)) {
        uint16_t half = dtype == GT_FLOAT16 ? gt__float_to_half((float)f) : gt__float_to_bfloat16((float)f);
        memcpy(at, &half, sizeof half);
    } else if (dtype == GT_BOOL) {
        *at = f != 0;
    } else {
        if (gt__dtype_check_number(dtype, kind, value) !=
            GT_OK) { /* PyTorch names the dtype here, not its C type */
            PyErr_Format(PyExc_RuntimeError, "value cannot be converted to type %s without overflow",
                         gt__dtype_name(dtype));
            return -1;
        }
        int64_t i = kind == GT_LITERAL_FLOAT ? gt__double_to_int64(f) : value.i;
        int32_t i32 = (int32_t)i;
        int16_t i16 = (int16_t)i;
        if (dtype == GT_INT64)
            memcpy(at, &i, sizeof i);
        else if (dtype == GT_INT32)
            memcpy(at, &i32, sizeof i32);
        else if (dtype == GT_INT16)
            memcpy(at, &i16, sizeof i16);
        else
            *at = (uint8_t)i;
    }
    return 0;
}

/* 1: the element was a complex number. */
static int store_parts(PyObject *object, Nest *nest)
{
    double real, imaginary;
    int found = gt__py_complex(object, &real, &imaginary);
    if (found != 1)
        return found;
    if (nest->dtype == GT_BOOL) {
        *nest->next++ = real != 0 || imaginary != 0;
        return 1;
    }
    if (!gt__dtype_is_complex(nest->dtype)) {
        PyErr_SetString(PyExc_TypeError, gt__dtype_is_float(nest->dtype)
                                             ? "must be real number, not complex"
                                             : "'complex' object cannot be interpreted as an integer");
        return -1;
    }
    store_complex(nest->dtype, real, imaginary, nest->next);
    nest->next += gt__dtype_size(nest->dtype);
    return 1;
}

/* PyTorch's errors for an element that is no number, or an integer beyond 64 bits. Floats of any size are fine. */
static int unusual_number(PyObject *object, gt_dtype dtype, gt_literal *kind, gt_imm *value)
{
    bool large = PyErr_ExceptionMatches(PyExc_OverflowError) && PyLong_Check(object);
    if (large && !gt__dtype_is_inexact(dtype)) {
        PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long");
        return -1;
    }
    PyErr_Clear();
    if (gt__dtype_is_inexact(dtype)) { /* what has a __float__ */
        *kind = GT_LITERAL_FLOAT;
        value->f = PyFloat_AsDouble(object);
    } else {
        *kind = GT_LITERAL_INT;
        PyObject *index = PyNumber_Index(object);
        value->i = index ? PyLong_AsLongLong(index) : -1;
        Py_XDECREF(index);
    }
    return PyErr_Occurred() ? -1 : 0;
}

static int check_one_element(PyObject *tensor, gt_dtype dtype)
{
    const gt_meta *meta = &((TensorObject *)tensor)->tensor->meta;
    if (meta->numel != 1) {
        PyErr_SetString(PyExc_ValueError, "only one element tensors can be converted to Python scalars");
        return -1;
    }
    if (gt__dtype_is_inexact((gt_dtype)meta->dtype) && !gt__dtype_is_inexact(dtype)) {
        PyErr_SetString(PyExc_TypeError, "only integer tensors of a single element can be converted to an index");
        return -1;
    }
    return 0;
}

static int store_leaf(PyObject *object, Nest *nest)
{
    gt_literal kind = GT_LITERAL_NONE;
    gt_imm value = {.i = 0};
    if (gt__py_is_tensor(object) && check_one_element(object, nest->dtype) < 0)
        return -1;
    int found = store_parts(object, nest);
    if (found != 0)
        return found < 0 ? -1 : 0;
    if (gt__py_number(object, &kind, &value) < 0 && unusual_number(object, nest->dtype, &kind, &value) < 0)
        return -1;
    uint8_t *at = nest->next;
    nest->next += gt__dtype_size(nest->dtype);
    return store_element(nest->dtype, kind, value, at);
}

/* ---- arrays ---------------------------------------------------------------------------------------------- */

/* Store one element of an array. */
static int convert_element(gt_dtype from, const uint8_t *at, Nest *nest)
{
    PyObject *element = gt__py_element(from, at);
    int status = element ? store_leaf(element, nest) : -1;
    Py_XDECREF(element);
    return status;
}

static int store_array(const Py_buffer *view, gt_dtype dtype, int axis, const uint8_t *at, Nest *nest)
{
    if (axis == view->ndim)
        return convert_element(dtype, at, nest);
    bool plain = axis == view->ndim - 1 && dtype == nest->dtype && view->strides[axis] == view->itemsize;
    if (plain) {
        size_t bytes = (size_t)(view->shape[axis] * view->itemsize);
        memcpy(nest->next, at, bytes);
        nest->next += bytes;
        return 0;
    }
    int status = 0;
    for (Py_ssize_t k = 0; status == 0 && k < view->shape[axis]; k++)
        status = store_array(view, dtype, axis + 1, at + k * view->strides[axis], nest);
    return status;
}

/* Store an array that fills the dimensions from `axis` on: 1: done, 0: it does not fit and is looked at as a sequence. */
static int visit_array(PyObject *object, int axis, Nest *nest)
{
    Py_buffer view;
    gt_dtype dtype;
    bool swap;
    if (PyObject_GetBuffer(object, &view, PyBUF_STRIDED_RO | PyBUF_FORMAT) < 0)
        return -1;
    int status = gt__py_buffer_dtype(&view, &dtype, &swap);
    bool fits = status == 0 && !swap && view.ndim == nest->rank - axis;
    for (int k = 0; fits && k < view.ndim; k++)
        fits = view.shape[k] == nest->shape[axis + k];
    if (status == 0 && fits)
        status = store_array(&view, dtype, 0, view.buf, nest);
    PyBuffer_Release(&view);
    return status < 0 ? -1 : fits;
}

/* ---- the walk -------------------------------------------------------------------------------------------- */

static int visit(PyObject *object, int axis, Nest *nest);

static int visit_items(PyObject *object, int axis, Nest *nest)
{
    PyObject *sequence = PySequence_Fast(object, "not a sequence");
    if (!sequence)
        return -1;
    int status = 0;
    if (PySequence_Fast_GET_SIZE(sequence) != nest->shape[axis]) {
        PyErr_Format(PyExc_ValueError, "expected sequence of length %lld at dim %d (got %zd)",
                     (long long)nest->shape[axis], axis, PySequence_Fast_GET_SIZE(sequence));
        status = -1;
    }
    /* Converting an element may run code that changes the list, so its size is read each time. */
    for (Py_ssize_t k = 0; status == 0 && k < nest->shape[axis]; k++) {
        if (k >= PySequence_Fast_GET_SIZE(sequence)) {
            PyErr_SetString(PyExc_RuntimeError, "the sequence changed size");
            status = -1;
            break;
        }
        PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(sequence, k));
        status = visit(item, axis + 1, nest);
        Py_DECREF(item);
    }
    Py_DECREF(sequence);
    return status;
}

/* Store all elements of an object that is the dimensions from `axis` on. */
static int visit(PyObject *object, int axis, Nest *nest)
{
    if (axis == nest->rank)
        return store_leaf(object, nest);
    if (is_number(object) || (is_leaf(object) && !gt__py_is_tensor(object))) {
        PyErr_SetString(PyExc_TypeError, "not a sequence");
        return -1;
    }
    int stored = !PyList_Check(object) && is_array(object) ? visit_array(object, axis, nest) : 0;
    return stored ? (stored < 0 ? -1 : 0) : visit_items(object, axis, nest);
}

static int from_sequence(PyObject *object, gt_client *client, bool given, gt_dtype dtype, gt_tensor **tensor)
{
    Nest nest = {.dtype = dtype};
    if (nest_shape(object, &nest) < 0 || (!given && infer_dtype(object, &nest) < 0))
        return -1;
    gt_meta meta;
    gt_err err = gt__meta_set(&meta, nest.dtype, (unsigned)nest.rank, nest.shape);
    if (err != GT_OK) {
        gt__py_raise(err);
        return -1;
    }
    uint8_t *data = PyMem_Malloc(gt__meta_bytes(&meta) + 1);
    if (!data) {
        PyErr_NoMemory();
        return -1;
    }
    nest.next = data;
    int status = visit(object, 0, &nest);
    if (status == 0)
        status = gt__py_enter(client);
    if (status == 0) {
        err = gt_from_data(client, nest.dtype, nest.rank, nest.shape, data, tensor);
        if (err != GT_OK) {
            gt__py_raise(err);
            status = -1;
        }
    }
    PyMem_Free(data);
    return status;
}

int gt__py_from_sequence(PyObject *object, gt_client *client, bool given, gt_dtype dtype, gt_tensor **tensor)
{
    gt__py_pin(client); /* runs code of the elements */
    int status = from_sequence(object, client, given, dtype, tensor);
    gt__py_unpin(client);
    return status;
}

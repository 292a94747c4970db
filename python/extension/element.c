/*
 * element.c: elements as Python numbers, and tensors from and to nested lists.
 *
 * Types follow PyTorch: ints make int64, floats float32, bools bool; the widest kind in the list decides. Ragged
 * lists raise ValueError.
 */
#include "client/intercept.h"

#include "extension.h"

#include "core/half.h"

PyObject *gt__py_element(gt_dtype dtype, const void *data)
{
    union {
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        uint16_t u16;
        float f32;
        double f64;
        float c64[2];
        double c128[2];
    } element;
    memcpy(&element, data, gt__dtype_size(dtype));
    switch (dtype) {
    case GT_BOOL:
        return PyBool_FromLong(element.i8 != 0);
    case GT_UINT8:
        return PyLong_FromLong((uint8_t)element.i8);
    case GT_INT8:
        return PyLong_FromLong(element.i8);
    case GT_INT16:
        return PyLong_FromLong(element.i16);
    case GT_INT32:
        return PyLong_FromLong(element.i32);
    case GT_INT64:
        return PyLong_FromLongLong(element.i64);
    case GT_FLOAT16:
        return PyFloat_FromDouble((double)gt__half_to_float(element.u16));
    case GT_BFLOAT16:
        return PyFloat_FromDouble((double)gt__bfloat16_to_float(element.u16));
    case GT_FLOAT32:
        return PyFloat_FromDouble((double)element.f32);
    case GT_FLOAT64:
        return PyFloat_FromDouble(element.f64);
    case GT_COMPLEX64:
        return PyComplex_FromDoubles((double)element.c64[0], (double)element.c64[1]);
    case GT_COMPLEX128:
        return PyComplex_FromDoubles(element.c128[0], element.c128[1]);
    case GT_DTYPE_COUNT:
        break;
    }
    Py_UNREACHABLE();
}

/* The list of axis `axis` at *data, which moves past what was read. */
static PyObject *list_axis(const gt_meta *meta, int axis, const uint8_t **data)
{
    if (axis == meta->rank) {
        const uint8_t *element = *data;
        *data += gt__dtype_size((gt_dtype)meta->dtype);
        return gt__py_element((gt_dtype)meta->dtype, element);
    }
    PyObject *list = PyList_New(meta->shape[axis]);
    for (Py_ssize_t k = 0; list && k < meta->shape[axis]; k++) {
        PyObject *item = list_axis(meta, axis + 1, data);
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, k, item);
    }
    return list;
}

PyObject *gt__py_list(const gt_meta *meta, const void *data)
{
    const uint8_t *cursor = data;
    return list_axis(meta, 0, &cursor);
}

/* ---- nested sequences ------------------------------------------------------------------------------------ */

typedef struct Nest {
    int rank;
    int64_t shape[GT_MAX_RANK];
    gt_literal kind; /* the widest seen */
    bool is_complex; /* a complex number was seen, which is wider */
    gt_dtype dtype;  /* wanted, if `given` */
    bool given;
    uint8_t *next; /* where the next element goes; NULL in the first pass, which finds shape and dtype */
} Nest;

static bool is_leaf(PyObject *object)
{
    if (PyFloat_Check(object) || PyLong_Check(object) || PyComplex_Check(object))
        return true;
    if (PyList_Check(object) || PyTuple_Check(object))
        return false;
    if (gt__py_is_tensor(object))
        return gt_tensor_rank(((TensorObject *)object)->tensor) == 0;
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

static int refuse_text(PyObject *object)
{
    PyErr_Format(PyExc_TypeError, "cannot make a tensor from %s %R: expected a number", Py_TYPE(object)->tp_name,
                 object);
    return -1;
}

/* The shape is that of the first element of the first element and so on. */
static int nest_shape(PyObject *object, Nest *nest)
{
    Py_INCREF(object);
    for (nest->rank = 0; !is_leaf(object); nest->rank++) {
        if (nest->rank == GT_MAX_RANK || is_text(object)) {
            if (nest->rank == GT_MAX_RANK)
                PyErr_Format(PyExc_ValueError, "too many dimensions: tensors have at most %d", GT_MAX_RANK);
            else
                refuse_text(object);
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
        gt_err err = dtype == GT_INT64 && kind != GT_LITERAL_FLOAT ? GT_OK : gt__dtype_check_number(dtype, f);
        if (err != GT_OK) {
            gt__py_raise(err);
            return -1;
        }
        int64_t i = kind == GT_LITERAL_FLOAT ? (int64_t)f : value.i;
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
static int visit_complex(PyObject *object, Nest *nest)
{
    double real, imaginary;
    int found = gt__py_complex(object, &real, &imaginary);
    if (found != 1)
        return found;
    nest->is_complex = true;
    if (nest->given && !gt__dtype_is_complex(nest->dtype)) {
        gt__py_raise(gt__fail(GT_ERR_VALUE, "value cannot be converted to type %s without overflow",
                              gt__dtype_name(nest->dtype)));
        return -1;
    }
    if (nest->next) {
        store_complex(nest->dtype, real, imaginary, nest->next);
        nest->next += gt__dtype_size(nest->dtype);
    }
    return 1;
}

/* PyTorch's errors for an element that is no number, or an integer beyond 64 bits. Floats of any size are fine. */
static int unusual_number(PyObject *object, const Nest *nest, gt_literal *kind, gt_imm *value)
{
    bool large = PyErr_ExceptionMatches(PyExc_OverflowError) && PyLong_Check(object);
    if (large && nest->given && gt__dtype_is_inexact(nest->dtype)) {
        PyErr_Clear();
        *kind = GT_LITERAL_FLOAT;
        value->f = PyLong_AsDouble(object);
        return PyErr_Occurred() ? -1 : 0;
    }
    if (large)
        PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long");
    else if (PyErr_ExceptionMatches(PyExc_TypeError) && !nest->given)
        PyErr_Format(PyExc_RuntimeError, "Could not infer dtype of %s", Py_TYPE(object)->tp_name);
    return -1;
}

static int visit_leaf(PyObject *object, Nest *nest)
{
    gt_literal kind = GT_LITERAL_NONE;
    gt_imm value = {.i = 0};
    int found = visit_complex(object, nest);
    if (found != 0)
        return found < 0 ? -1 : 0;
    if (gt__py_number(object, &kind, &value) < 0 && unusual_number(object, nest, &kind, &value) < 0)
        return -1;
    if (kind > nest->kind)
        nest->kind = kind;
    if (!nest->next)
        return 0;
    uint8_t *at = nest->next;
    nest->next += gt__dtype_size(nest->dtype);
    return store_element(nest->dtype, kind, value, at);
}

/* Walk all elements: find the widest kind, or store them. */
static int visit(PyObject *object, int axis, Nest *nest)
{
    if (is_text(object))
        return refuse_text(object);
    if (axis == nest->rank) {
        if (is_leaf(object))
            return visit_leaf(object, nest);
        PyErr_SetString(PyExc_ValueError, "the nested sequences have different depths");
        return -1;
    }
    if (is_leaf(object)) {
        PyErr_SetString(PyExc_ValueError, "the nested sequences have different depths");
        return -1;
    }
    PyObject *sequence = PySequence_Fast(object, "expected a sequence");
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

static int from_sequence(PyObject *object, gt_client *client, bool given, gt_dtype dtype, gt_tensor **tensor)
{
    Nest nest = {.kind = GT_LITERAL_NONE, .dtype = dtype, .given = given};
    if (nest_shape(object, &nest) < 0 || visit(object, 0, &nest) < 0)
        return -1;
    if (!given)
        dtype = nest.is_complex && gt__default_dtype == GT_FLOAT64 ? GT_COMPLEX128
                : nest.is_complex                                  ? GT_COMPLEX64
                : nest.kind == GT_LITERAL_INT                      ? GT_INT64
                : nest.kind == GT_LITERAL_BOOL                     ? GT_BOOL
                                                                   : gt__default_dtype;
    gt_meta meta;
    gt_err err = gt__meta_set(&meta, dtype, (unsigned)nest.rank, nest.shape);
    if (err != GT_OK) {
        gt__py_raise(err);
        return -1;
    }
    uint8_t *data = PyMem_Malloc(gt__meta_bytes(&meta) + 1);
    if (!data) {
        PyErr_NoMemory();
        return -1;
    }
    nest.dtype = dtype;
    nest.next = data;
    int status = visit(object, 0, &nest);
    if (status == 0)
        status = gt__py_enter(client);
    if (status == 0) {
        err = gt_from_data(client, dtype, nest.rank, nest.shape, data, tensor);
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

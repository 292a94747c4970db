/* element.c: elements as Python numbers, and as nested lists. sequence.c does the opposite. */
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

/*
 * spatial.c: convolutions, pooling, im2col and resample as functions of gt._gt, with positional arguments and any
 * number of axes. python/gt/nn/spatial.py adds PyTorch's names, defaults and signatures.
 */
#include "extension.h"
#include "client/spatial.h"

enum { MOST_ARGUMENTS = 9, MOST_TENSORS = 3 };

/* The arguments of one call: tensors first (held), then lists of numbers, one for each spatial axis, then the
 * rest. */
typedef struct Arguments {
    gt_tensor *tensor[MOST_TENSORS];
    int tensors, spatial;
    int64_t numbers[MOST_ARGUMENTS][GT_MAX_RANK];
    PyObject *rest[MOST_ARGUMENTS];
} Arguments;

static void arguments_clear(Arguments *a)
{
    for (int k = 0; k < a->tensors; k++)
        gt_tensor_release(a->tensor[k]);
}

/* A tensor, retained; NULL for None. */
static int read_tensor(const char *name, PyObject *object, Arguments *a)
{
    if (object != Py_None && !gt__py_is_tensor(object)) {
        PyErr_Format(PyExc_TypeError, "%s() expects a Tensor, not %s", name, Py_TYPE(object)->tp_name);
        return -1;
    }
    gt_tensor *tensor = object == Py_None ? NULL : gt__py_use(object);
    if (!tensor && object != Py_None)
        return -1;
    a->tensor[a->tensors++] = tensor ? gt_tensor_retain(tensor) : NULL;
    return 0;
}

static int read_numbers(const char *name, PyObject *object, int64_t *numbers, Arguments *a)
{
    int count;
    if (gt__py_ints(object, &count, numbers) < 0)
        return -1;
    if (count < 1 || count > 3 || (a->spatial && count != a->spatial)) {
        PyErr_Format(PyExc_RuntimeError,
                     "%s() expects as many numbers as there are spatial dimensions (%d), not %d", name, a->spatial,
                     count);
        return -1;
    }
    a->spatial = count;
    return 0;
}

/* `tensors` tensors, `lists` lists of numbers, `rest` others. Numbers are read first: reading them may run
 * Python code. */
static int read_arguments(const char *name, gt_py_args args, Py_ssize_t nargs, int tensors, int lists, int rest,
                          Arguments *a)
{
    *a = (Arguments){.tensors = 0};
    if (nargs != tensors + lists + rest) {
        PyErr_Format(PyExc_TypeError, "%s() takes %d arguments, not %zd", name, tensors + lists + rest, nargs);
        return -1;
    }
    for (int k = 0; k < lists; k++)
        if (read_numbers(name, args[tensors + k], a->numbers[k], a) < 0)
            return -1;
    for (int k = 0; k < rest; k++)
        a->rest[k] = args[tensors + lists + k];
    for (int k = 0; k < tensors; k++)
        if (read_tensor(name, args[k], a) < 0) {
            arguments_clear(a);
            return -1;
        }
    if (!a->tensor[0]) {
        PyErr_Format(PyExc_TypeError, "%s() expects a Tensor, not None", name);
        arguments_clear(a);
        return -1;
    }
    return 0;
}

static PyObject *finish(Arguments *a, gt_err err, gt_tensor *out)
{
    arguments_clear(a);
    return gt__py_result(err, out);
}

#define FUNCTION(name) static PyObject *py_##name(PyObject *module, gt_py_args args, Py_ssize_t nargs)
#define START(name, tensors, lists, rest)                                                                         \
    Arguments a;                                                                                                  \
    gt_tensor *out = NULL;                                                                                        \
    (void)module;                                                                                                 \
    if (read_arguments(name, args, nargs, tensors, lists, rest, &a) < 0)                                          \
    return NULL

/* A flag or number among the rest. Errors are exceptions. */
static bool flag(const Arguments *a, int k)
{
    return PyObject_IsTrue(a->rest[k]) > 0;
}

static int64_t number(const Arguments *a, int k)
{
    return PyLong_AsLongLong(a->rest[k]);
}

FUNCTION(conv)
{
    START("conv", 3, 4, 1);
    int64_t groups = number(&a, 0);
    if (!a.tensor[1])
        PyErr_SetString(PyExc_TypeError, "conv() expects a weight, not None");
    if (PyErr_Occurred()) {
        arguments_clear(&a);
        return NULL;
    }
    gt_err err = gt__emit_conv(a.tensor[0], a.tensor[1], a.tensor[2], a.spatial, a.numbers[0], a.numbers[1],
                               a.numbers[2], a.numbers[3], groups, &out);
    return finish(&a, err, out);
}

FUNCTION(conv_transpose)
{
    START("conv_transpose", 3, 4, 1);
    int64_t groups = number(&a, 0);
    if (!a.tensor[1])
        PyErr_SetString(PyExc_TypeError, "conv_transpose() expects a weight, not None");
    if (PyErr_Occurred()) {
        arguments_clear(&a);
        return NULL;
    }
    gt_err err = gt_conv_transpose(a.tensor[0], a.tensor[1], a.tensor[2], a.spatial, a.numbers[0], a.numbers[1],
                                   a.numbers[2], groups, a.numbers[3], &out);
    return finish(&a, err, out);
}

FUNCTION(max_pool)
{
    START("max_pool", 1, 4, 1);
    gt_err err = gt_max_pool(a.tensor[0], a.spatial, a.numbers[0], a.numbers[1], a.numbers[2], a.numbers[3],
                             flag(&a, 0), &out);
    return finish(&a, err, out);
}

FUNCTION(max_pool_index)
{
    START("max_pool_index", 1, 4, 1);
    gt_err err = gt_max_pool_index(a.tensor[0], a.spatial, a.numbers[0], a.numbers[1], a.numbers[2], a.numbers[3],
                                   flag(&a, 0), &out);
    return finish(&a, err, out);
}

FUNCTION(avg_pool)
{
    START("avg_pool", 1, 3, 3);
    int64_t divisor = number(&a, 2);
    if (PyErr_Occurred()) {
        arguments_clear(&a);
        return NULL;
    }
    gt_err err = gt_avg_pool(a.tensor[0], a.spatial, a.numbers[0], a.numbers[1], a.numbers[2], flag(&a, 0),
                             flag(&a, 1), divisor, &out);
    return finish(&a, err, out);
}

FUNCTION(adaptive_avg_pool)
{
    START("adaptive_avg_pool", 1, 1, 0);
    gt_err err = gt_adaptive_avg_pool(a.tensor[0], a.spatial, a.numbers[0], &out);
    return finish(&a, err, out);
}

FUNCTION(adaptive_max_pool)
{
    START("adaptive_max_pool", 1, 1, 0);
    gt_err err = gt_adaptive_max_pool(a.tensor[0], a.spatial, a.numbers[0], &out);
    return finish(&a, err, out);
}

FUNCTION(adaptive_max_pool_index)
{
    START("adaptive_max_pool_index", 1, 1, 0);
    gt_err err = gt_adaptive_max_pool_index(a.tensor[0], a.spatial, a.numbers[0], &out);
    return finish(&a, err, out);
}

FUNCTION(im2col)
{
    START("im2col", 1, 4, 0);
    gt_err err = gt_im2col(a.tensor[0], a.spatial, a.numbers[0], a.numbers[1], a.numbers[2], a.numbers[3], &out);
    return finish(&a, err, out);
}

FUNCTION(col2im)
{
    START("col2im", 1, 5, 0);
    gt_err err = gt_col2im(a.tensor[0], a.spatial, a.numbers[0], a.numbers[1], a.numbers[2], a.numbers[3],
                           a.numbers[4], &out);
    return finish(&a, err, out);
}

FUNCTION(resample)
{
    START("resample", 1, 0, 5);
    int64_t axis = number(&a, 0), size = number(&a, 1), mode = number(&a, 2);
    double scale = PyFloat_AsDouble(a.rest[4]);
    if (!PyErr_Occurred() && (axis < 0 || axis >= GT_MAX_RANK || mode < 0 || mode >= GT_RESAMPLE_COUNT))
        PyErr_SetString(PyExc_ValueError, "resample(): no such axis or mode");
    if (PyErr_Occurred()) {
        arguments_clear(&a);
        return NULL;
    }
    gt_err err = gt_resample(a.tensor[0], (int)axis, size, (gt_resample_mode)mode, flag(&a, 3), scale, &out);
    return finish(&a, err, out);
}

#define ENTRY(name, arguments)                                                                                    \
    {                                                                                                             \
        .ml_name = #name, .ml_meth = (PyCFunction)(void (*)(void))(py_##name), .ml_flags = METH_FASTCALL,         \
        .ml_doc = #name arguments "."                                                                             \
    }
PyMethodDef gt__py_spatial_functions[] = {
    ENTRY(conv, "(x, weight, bias, stride, padding, padding_behind, dilation, groups)"),
    ENTRY(conv_transpose, "(x, weight, bias, stride, padding, output_padding, dilation, groups)"),
    ENTRY(max_pool, "(x, kernel, stride, padding, dilation, ceil_mode)"),
    ENTRY(max_pool_index, "(x, kernel, stride, padding, dilation, ceil_mode)"),
    ENTRY(avg_pool, "(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor)"),
    ENTRY(adaptive_avg_pool, "(x, size)"),
    ENTRY(adaptive_max_pool, "(x, size)"),
    ENTRY(adaptive_max_pool_index, "(x, size)"),
    ENTRY(im2col, "(x, kernel, stride, padding, dilation)"),
    ENTRY(col2im, "(x, size, kernel, stride, padding, dilation)"),
    ENTRY(resample, "(x, axis, size, mode, align_corners, scale)"),
    {.ml_name = NULL},
};

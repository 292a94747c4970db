/*
 * training.c: what a training step does for each layer, without Python objects in between: a linear layer, a loss of classes.
 * Read next: optimise.c.
 */
#include "alias.h"

#include "client/layers.h"

/* input @ weight.T + bias, or None: the caller composes it. */
PyObject *gt__py_linear(gt_py_args args)
{
    gt_tensor *in[3] = {NULL, NULL, NULL}, *out = NULL;
    Py_ssize_t count = args[2] == Py_None ? 2 : 3;
    for (Py_ssize_t k = 0; k < count; k++)
        if (!gt__py_is_tensor(args[k]))
            Py_RETURN_NONE;
    gt_err err = GT_OK;
    bool plain = true;
    for (Py_ssize_t k = 0; k < count && plain; k++)
        plain = (in[k] = gt__py_hold(args[k])) && in[k]->client == in[0]->client;
    plain = plain && gt__linear_is_plain(in[0], in[1], in[2]);
    if (plain)
        err = gt__py_linear_input(args[0], args[1], in);
    if (plain && err == GT_OK)
        err = gt__emit_linear(in[0], in[1], in[2], &out);
    for (Py_ssize_t k = 0; k < count; k++)
        gt_tensor_release(in[k]);
    if (!plain)
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    return gt__py_result(err, out);
}

/* _linear(input, weight, bias) */
static PyObject *py_linear(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    return nargs == 3 && !kwnames ? gt__py_linear(args)
                                  : PyErr_Format(PyExc_TypeError, "_linear() takes input, weight and bias");
}

static PyObject *functions;                       /* of gt.nn.functional: its dictionary, */
static PyObject *linear_function, *relu_function; /* and its own functions */
static PyObject *name_linear, *name_relu, *name_weight, *name_bias;

/* _functions(dictionary, linear, relu): what layers compute in place of, while these are there. */
static PyObject *py_functions(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *dictionary, *linear, *relu;
    if (!PyArg_ParseTuple(args, "O!OO", &PyDict_Type, &dictionary, &linear, &relu))
        return NULL;
    Py_XSETREF(functions, Py_NewRef(dictionary));
    Py_XSETREF(linear_function, Py_NewRef(linear));
    Py_XSETREF(relu_function, Py_NewRef(relu));
    struct {
        PyObject **place;
        const char *text;
    } names[] = {{&name_linear, "linear"}, {&name_relu, "relu"}, {&name_weight, "weight"}, {&name_bias, "bias"}};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (!*names[k].place && !(*names[k].place = PyUnicode_InternFromString(names[k].text)))
            return NULL;
    Py_RETURN_NONE;
}

bool gt__py_functions_are_ours(void)
{
#if PY_VERSION_HEX < 0x030C0000
    static uint64_t known; /* the version of the dictionary when they were */
    uint64_t version = functions ? ((PyDictObject *)functions)->ma_version_tag : 0;
    if (LIKELY(version && version == known))
        return true;
#endif
    bool ours = functions && PyDict_GetItemWithError(functions, name_linear) == linear_function &&
                PyDict_GetItemWithError(functions, name_relu) == relu_function;
#if PY_VERSION_HEX < 0x030C0000
    known = ours ? version : known;
#endif
    return ours;
}

/* _linear_layer(layer, input): the output of nn.Linear, or None: functional.linear is a program's own, which the caller calls. */
static PyObject *py_linear_layer(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    if (nargs != 2 || kwnames || !functions)
        return PyErr_Format(PyExc_TypeError, "_linear_layer() takes a layer and its input");
    if (UNLIKELY(!gt__py_functions_are_ours()))
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    PyObject *weight = PyObject_GetAttr(args[0], name_weight);
    PyObject *bias = weight ? PyObject_GetAttr(args[0], name_bias) : NULL;
    PyObject *result = bias ? gt__py_linear((PyObject *[]){args[1], weight, bias}) : NULL;
    if (result == Py_None) /* with these values: to read a parametrised weight again would compute it again */
        Py_SETREF(result, PyObject_CallFunctionObjArgs(linear_function, args[1], weight, bias, NULL));
    Py_XDECREF(weight);
    Py_XDECREF(bias);
    return result;
}

/* The arguments of a loss of classes: scores, target, ignore_index, reduction. */
typedef struct Classes {
    gt_tensor *scores, *target;
    gt_reduction reduction;
} Classes;

/* 1: the loss is plain, and the tensors are retained; 0: the caller composes it, because a target may be ignored or out of range,
 * or is not of the right shape or type; -1: exception. */
static int classes_read(gt_py_args args, Py_ssize_t nargs, PyObject *kwnames, Classes *classes)
{
    static const char *const names[] = {
        [GT_REDUCE_NONE] = "none", [GT_REDUCE_SUM] = "sum", [GT_REDUCE_MEAN] = "mean"};
    int64_t ignored;
    int reduction = 2;
    *classes = (Classes){.scores = NULL};
    if (nargs != 4 || kwnames) {
        PyErr_SetString(PyExc_TypeError, "a loss takes scores, target, ignore_index and reduction");
        return -1;
    }
    if (gt__py_int64(args[2], &ignored) < 0)
        return -1;
    if (!gt__py_is_tensor(args[0]) || !gt__py_is_tensor(args[1]) || !PyUnicode_Check(args[3]))
        return 0;
    while (reduction >= 0 && PyUnicode_CompareWithASCIIString(args[3], names[reduction]))
        reduction--;
    if (reduction < 0)
        return 0;
    classes->reduction = (gt_reduction)reduction;
    if ((classes->scores = gt__py_hold(args[0])) && (classes->target = gt__py_hold(args[1])) &&
        gt__nll_is_plain(classes->scores, classes->target, ignored))
        return 1;
    gt_tensor_release(classes->scores);
    gt_tensor_release(classes->target);
    return PyErr_Occurred() ? -1 : 0;
}

/* _nll(scores, target, ignore_index, reduction): the negative score of each target class. None: the caller composes it. */
static PyObject *py_nll(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    Classes classes;
    gt_tensor *out = NULL;
    int plain = classes_read(args, nargs, kwnames, &classes);
    if (plain != 1)
        return plain < 0 ? NULL : Py_NewRef(Py_None);
    gt_err err = gt__emit_nll(classes.scores, classes.target, classes.reduction, &out);
    gt_tensor_release(classes.scores);
    gt_tensor_release(classes.target);
    return gt__py_result(err, out);
}

/* _cross_entropy(scores, target, ignore_index, reduction): the same of log_softmax(scores). */
static PyObject *py_cross_entropy(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    Classes classes;
    gt_tensor *logs = NULL, *out = NULL;
    if (nargs == 4 && !Py_IS_TYPE(args[0], gt__py_tensor_type)) /* a subclass may have its own log_softmax() */
        Py_RETURN_NONE;
    int plain = classes_read(args, nargs, kwnames, &classes);
    if (plain != 1)
        return plain < 0 ? NULL : Py_NewRef(Py_None);
    gt_err err = gt__emit_along(GT_OP_log_softmax, classes.scores, NULL, classes.scores->meta.rank > 1, &logs);
    if (err == GT_OK)
        err = gt__emit_nll(logs, classes.target, classes.reduction, &out);
    gt_tensor_release(logs);
    gt_tensor_release(classes.scores);
    gt_tensor_release(classes.target);
    return gt__py_result(err, out);
}

PyMethodDef gt__py_training_functions[] = {
    FAST("_linear", py_linear, "_linear(input, weight, bias): input @ weight.T + bias, or None."),
    FAST("_linear_layer", py_linear_layer, "_linear_layer(layer, input): the output of nn.Linear, or None."),
    {.ml_name = "_functions", .ml_meth = py_functions, .ml_flags = METH_VARARGS},
    FAST("_cross_entropy", py_cross_entropy,
         "_cross_entropy(scores, target, ignore_index, reduction): _nll() of log_softmax(scores), or None."),
    FAST("_nll", py_nll,
         "_nll(scores, target, ignore_index, reduction): the negative scores of classes, or None."),
    {.ml_name = NULL},
};

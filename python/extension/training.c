/*
 * training.c: what a training step does for each layer and each parameter, without Python objects in between: a linear
 * layer, a loss of classes, the gradients of an optimiser's parameters.
 */
#include "alias.h"

#include "client/layers.h"

/* input @ weight.T + bias, or None: the caller composes it. */
static PyObject *linear(gt_py_args args)
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
    return nargs == 3 && !kwnames ? linear(args)
                                  : PyErr_Format(PyExc_TypeError, "_linear() takes input, weight and bias");
}

static PyObject *functions, *linear_function; /* of gt.nn.functional: its dictionary, and its own linear() */
static PyObject *name_linear, *name_weight, *name_bias;

/* _linear_layer_by(functions, linear): what _linear_layer computes in place of, while it is there. */
static PyObject *py_linear_layer_by(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *dictionary, *function;
    if (!PyArg_ParseTuple(args, "O!O", &PyDict_Type, &dictionary, &function))
        return NULL;
    Py_XSETREF(functions, Py_NewRef(dictionary));
    Py_XSETREF(linear_function, Py_NewRef(function));
    if (!name_linear)
        name_linear = PyUnicode_InternFromString("linear");
    if (!name_weight)
        name_weight = PyUnicode_InternFromString("weight");
    if (!name_bias)
        name_bias = PyUnicode_InternFromString("bias");
    return name_linear && name_weight && name_bias ? Py_NewRef(Py_None) : NULL;
}

/* _linear_layer(layer, input): the output of nn.Linear, or None: the caller calls functional.linear, which may be a program's own. */
static PyObject *py_linear_layer(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    if (nargs != 2 || kwnames || !functions)
        return PyErr_Format(PyExc_TypeError, "_linear_layer() takes a layer and its input");
    if (UNLIKELY(PyDict_GetItemWithError(functions, name_linear) != linear_function))
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    PyObject *weight = PyObject_GetAttr(args[0], name_weight);
    PyObject *bias = weight ? PyObject_GetAttr(args[0], name_bias) : NULL;
    PyObject *result = bias ? linear((PyObject *[]){args[1], weight, bias}) : NULL;
    Py_XDECREF(weight);
    Py_XDECREF(bias);
    return result;
}

/*
 * _nll(scores, target, ignore_index, reduction): the negative score of each target class. None: the caller composes it, because a
 * target may be ignored or out of range, or is not of the right shape or type.
 */
static PyObject *py_nll(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    static const char *const names[] = {
        [GT_REDUCE_NONE] = "none", [GT_REDUCE_SUM] = "sum", [GT_REDUCE_MEAN] = "mean"};
    gt_tensor *scores = NULL, *target = NULL, *out = NULL;
    int64_t ignored;
    int reduction = 0;
    if (nargs != 4 || kwnames)
        return PyErr_Format(PyExc_TypeError, "_nll() takes scores, target, ignore_index and reduction");
    if (gt__py_int64(args[2], &ignored) < 0)
        return NULL;
    if (!gt__py_is_tensor(args[0]) || !gt__py_is_tensor(args[1]) || !PyUnicode_Check(args[3]))
        Py_RETURN_NONE;
    while (reduction < 3 && PyUnicode_CompareWithASCIIString(args[3], names[reduction]))
        reduction++;
    bool plain = reduction < 3 && (scores = gt__py_hold(args[0])) && (target = gt__py_hold(args[1])) &&
                 gt__nll_is_plain(scores, target, ignored);
    gt_err err = plain ? gt__emit_nll(scores, target, (gt_reduction)reduction, &out) : GT_OK;
    gt_tensor_release(scores);
    gt_tensor_release(target);
    if (!plain)
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    return gt__py_result(err, out);
}

/*
 * The parameter at a place of an optimiser's group, retained; NULL with an exception: no tensor. Asked for one by one, because a
 * gradient may have to be cut, and while that waits, another thread may change the list.
 */
static PyObject *parameter_at(PyObject *parameters, Py_ssize_t k)
{
    PyObject *parameter = PyList_GET_ITEM(parameters, k);
    if (gt__py_is_tensor(parameter))
        return Py_NewRef(parameter);
    PyErr_SetString(PyExc_TypeError, "the parameters of a group must be tensors");
    return NULL;
}

static int check_list(PyObject *parameters)
{
    if (PyList_Check(parameters))
        return 0;
    PyErr_SetString(PyExc_TypeError, "the parameters of a group must be a list");
    return -1;
}

/* The value of x.grad at this moment, as a tensor of its own. NULL without an exception: there is none. */
static PyObject *gradient_value(PyObject *parameter)
{
    gt_node *node = gt__py_node(parameter);
    gt_tensor *gradient = NULL;
    if (!node || !gt__node_has_gradient(node))
        return NULL;
    gt__node_retain(node); /* to cut it may wait, and other threads run */
    gt_err err = gt__node_gradient(node, &gradient);
    PyObject *result = NULL;
    if (err != GT_OK || gradient)
        result = gt__py_result(err, err == GT_OK ? gt_tensor_retain(gradient) : NULL);
    gt__node_release(node);
    return result;
}

/* _gradients(parameters): [(parameter, gradient)] of those that have one. Later changes of .grad do not show in them. */
static PyObject *py_gradients(PyObject *module, PyObject *parameters)
{
    (void)module;
    if (check_list(parameters) < 0)
        return NULL;
    PyObject *pairs = PyList_New(0);
    for (Py_ssize_t k = 0; pairs && k < PyList_GET_SIZE(parameters); k++) {
        PyObject *parameter = parameter_at(parameters, k),
                 *gradient = parameter ? gradient_value(parameter) : NULL;
        PyObject *pair = gradient ? PyTuple_Pack(2, parameter, gradient) : NULL;
        Py_XDECREF(gradient);
        Py_XDECREF(parameter);
        if (pair ? PyList_Append(pairs, pair) < 0 : PyErr_Occurred() != NULL)
            Py_CLEAR(pairs);
        Py_XDECREF(pair);
    }
    return pairs;
}

/* _drop_gradients(parameters): x.grad = None for each. */
static PyObject *py_drop_gradients(PyObject *module, PyObject *parameters)
{
    (void)module;
    if (check_list(parameters) < 0)
        return NULL;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(parameters); k++) {
        PyObject *parameter = parameter_at(parameters, k);
        gt_node *node = parameter ? gt__py_node(parameter) : NULL;
        if (node)
            gt__node_drop_gradient(node);
        Py_XDECREF(parameter);
        if (!node && PyErr_Occurred())
            return NULL;
    }
    Py_RETURN_NONE;
}

PyMethodDef gt__py_training_functions[] = {
    FAST("_linear", py_linear, "_linear(input, weight, bias): input @ weight.T + bias, or None."),
    FAST("_linear_layer", py_linear_layer, "_linear_layer(layer, input): the output of nn.Linear, or None."),
    {.ml_name = "_linear_layer_by", .ml_meth = py_linear_layer_by, .ml_flags = METH_VARARGS},
    FAST("_nll", py_nll,
         "_nll(scores, target, ignore_index, reduction): the negative scores of classes, or None."),
    {.ml_name = "_gradients", .ml_meth = py_gradients, .ml_flags = METH_O},
    {.ml_name = "_drop_gradients", .ml_meth = py_drop_gradients, .ml_flags = METH_O},
    {.ml_name = NULL},
};

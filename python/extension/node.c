/*
 * node.c: the graph in Python: nodes of the tape as objects, and operations whose gradient is a Python function.
 *
 * python/gt/autograd/graph.py makes classes of these; function.py writes autograd.Function on _custom.
 */
#include "client/autograd.h"
#include "client/intercept.h"

#include "alias.h"

static const char NODE[] = "gt.node";

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static void release_node(PyObject *capsule)
{
    gt_node *node = PyCapsule_GetPointer(capsule, NODE);
    gt_client *client = node->client;
    gt__node_release(node);
    gt__py_unpin(client);
}

static PyObject *node_capsule(gt_node *node)
{
    PyObject *capsule = PyCapsule_New(node, NODE, release_node);
    if (capsule) {
        gt__node_retain(node);
        gt__py_pin(node->client);
    }
    return capsule;
}

/* _node(tensor): its node, None for a tensor without a gradient. */
static PyObject *py_node(PyObject *module, PyObject *object)
{
    (void)module;
    if (!gt__py_is_tensor(object))
        return PyErr_Format(PyExc_TypeError, "expected a Tensor, not %s", Py_TYPE(object)->tp_name);
    gt_tensor *tensor = gt__py_use(object);
    gt_node *node = tensor ? tensor->node : NULL;
    if (!tensor)
        return NULL;
    if (((TensorObject *)object)->alias)
        gt__alias_follow(((TensorObject *)object)->alias);
    return node ? node_capsule(node) : Py_NewRef(Py_None);
}

/* _node_info(node): (name, number, whether it is a leaf, nodes of the operands or None) */
static PyObject *py_node_info(PyObject *module, PyObject *capsule)
{
    (void)module;
    gt_node *node = PyCapsule_GetPointer(capsule, NODE);
    if (!node)
        return NULL;
    PyObject *operands = PyTuple_New((Py_ssize_t)node->count);
    for (unsigned k = 0; operands && k < node->count; k++) {
        gt_node *from = node->operands[k].node;
        PyObject *item = from ? node_capsule(from) : Py_NewRef(Py_None);
        if (!item)
            Py_CLEAR(operands);
        else
            PyTuple_SET_ITEM(operands, (Py_ssize_t)k, item);
    }
    char name[128];
    return operands
               ? Py_BuildValue("sKON", gt__node_name(node, name, sizeof name), (unsigned long long)node->sequence,
                               node->op == GT_OP_INVALID ? Py_True : Py_False, operands)
               : NULL;
}

/* _attach(value, node): a tensor of this value that the node computed. */
static PyObject *py_attach(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *value, *capsule;
    if (!PyArg_ParseTuple(args, "O!O", gt__py_tensor_type, &value, &capsule))
        return NULL;
    gt_node *node = PyCapsule_GetPointer(capsule, NODE);
    gt_tensor *out = NULL;
    if (!node)
        return NULL;
    gt_tensor *tensor = gt__py_use(value);
    if (!tensor)
        return NULL;
    gt_err err = gt__tensor_alias(tensor, node, &out);
    return gt__py_result(err, out);
}

/* _copied(tensor): as PyTorch's copy of it is to the graph: in-place operations on the tensor do not concern it. */
static PyObject *py_copied(PyObject *module, PyObject *object)
{
    (void)module;
    gt_tensor *tensor = gt__py_is_tensor(object) && gt__grad_enabled() ? gt__py_use(object) : NULL, *out = NULL;
    if (!tensor)
        return PyErr_Occurred() ? NULL : Py_NewRef(object);
    gt_err err = gt__tensor_alias(tensor, tensor->node, &out);
    return gt__py_result(err, out);
}

/* ---- operations with a Python rule ------------------------------------------------------------------------------- */

typedef struct Rule {
    PyObject *callback; /* callback(gradient, node, wanted) -> a gradient or None for each operand */
    PyObject *drop;     /* called without arguments when the saved values are no longer needed, or None */
    PyObject *name;
} Rule;

static void rule_free(void *context)
{
    Rule *rule = context;
    Py_XDECREF(rule->callback);
    Py_XDECREF(rule->drop);
    Py_XDECREF(rule->name);
    PyMem_Free(rule);
}

/* Runs in destructors too: an exception cannot be raised there. */
static void rule_drop(void *context)
{
    Rule *rule = context;
    PyObject *drop = rule->drop;
    rule->drop = Py_NewRef(Py_None);
    if (drop != Py_None) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        PyObject *done = PyObject_CallNoArgs(drop);
        if (!done)
            PyErr_WriteUnraisable(drop);
        Py_XDECREF(done);
        PyErr_Restore(type, value, trace);
    }
    Py_DECREF(drop);
}

/* The gradients that the callback returned, as tensors. */
static int take_results(const gt_node *node, PyObject *answer, const bool *wanted, gt_tensor **results)
{
    PyObject *list = PySequence_Tuple(answer);
    if (list && PyTuple_GET_SIZE(list) != (Py_ssize_t)node->count) {
        PyErr_Format(PyExc_RuntimeError,
                     "function %s returned an incorrect number of gradients (expected %u, got %zd)",
                     node->custom.name, node->count, PyTuple_GET_SIZE(list));
        Py_CLEAR(list);
    }
    for (unsigned k = 0; list && k < node->count; k++) {
        PyObject *item = PyTuple_GET_ITEM(list, (Py_ssize_t)k);
        if (item == Py_None || !wanted[k])
            continue;
        if (!gt__py_is_tensor(item)) {
            PyErr_Format(PyExc_TypeError, "expected Variable or None (got %s)", Py_TYPE(item)->tp_name);
            Py_CLEAR(list);
            break;
        }
        results[k] = gt_tensor_retain(gt__py_use(item));
        if (!results[k]) {
            Py_CLEAR(list);
            break;
        }
    }
    int status = list ? 0 : -1;
    Py_XDECREF(list);
    return status;
}

static gt_err rule_run(void *context, gt_node *node, gt_tensor *gradient, const bool *wanted, gt_tensor **results)
{
    Rule *rule = context;
    PyObject *callback = Py_NewRef(rule->callback), *flags = PyTuple_New((Py_ssize_t)node->count), *answer = NULL;
    for (unsigned k = 0; flags && k < node->count; k++)
        PyTuple_SET_ITEM(flags, (Py_ssize_t)k, PyBool_FromLong(wanted[k]));
    PyObject *argument = gt__py_wrap(gt_tensor_retain(gradient)), *capsule = node_capsule(node);
    if (flags && argument && capsule)
        answer = PyObject_CallFunctionObjArgs(callback, argument, capsule, flags, NULL);
    int status = answer ? take_results(node, answer, wanted, results) : -1;
    Py_XDECREF(answer);
    Py_XDECREF(flags);
    Py_XDECREF(argument);
    Py_XDECREF(capsule);
    Py_DECREF(callback);
    return status == 0 ? GT_OK : gt__fail(GT_ERR_INTERNAL, "a backward function raised an exception");
}

/* _custom(value, inputs, callback, drop, name, keeps): a tensor of the value that depends on the inputs by the rule. */
static PyObject *py_custom(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *value, *inputs, *callback, *drop, *name;
    int keeps;
    if (!PyArg_ParseTuple(args, "O!O!OOUp", gt__py_tensor_type, &value, &PyTuple_Type, &inputs, &callback, &drop,
                          &name, &keeps))
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(inputs);
    gt_tensor **in = PyMem_Calloc((size_t)count + 1, sizeof *in), *out = NULL;
    Rule *rule = PyMem_Malloc(sizeof *rule);
    const char *text = PyUnicode_AsUTF8(name);
    if (!in || !rule || !text) {
        PyMem_Free(in);
        PyMem_Free(rule);
        return text ? PyErr_NoMemory() : NULL;
    }
    bool usable = true;
    for (Py_ssize_t k = 0; usable && k < count;
         k++) /* retained: using the next may change the object of this one */
        if (gt__py_is_tensor(PyTuple_GET_ITEM(inputs, k)))
            usable = (in[k] = gt_tensor_retain(gt__py_use(PyTuple_GET_ITEM(inputs, k)))) != NULL;
    gt_tensor *of = usable ? gt__py_use(value) : NULL;
    *rule = (Rule){.callback = Py_NewRef(callback), .drop = Py_NewRef(drop), .name = Py_NewRef(name)};
    gt_custom_rule custom = {
        .rule = rule_run, .drop = rule_drop, .free = rule_free, .context = rule, .name = text};
    gt_err err = of ? gt__autograd_custom(of, in, (unsigned)count, custom, keeps, &out) : GT_ERR_INTERNAL;
    for (Py_ssize_t k = 0; k < count; k++)
        gt_tensor_release(in[k]);
    PyMem_Free(in);
    if (err != GT_OK)
        rule_free(rule);
    if (!of)
        return NULL;
    return gt__py_result(err, out);
}

PyMethodDef gt__py_node_functions[] = {
    {.ml_name = "_node", .ml_meth = py_node, .ml_flags = METH_O},
    {.ml_name = "_node_info", .ml_meth = py_node_info, .ml_flags = METH_O},
    {.ml_name = "_attach", .ml_meth = py_attach, .ml_flags = METH_VARARGS},
    {.ml_name = "_copied", .ml_meth = py_copied, .ml_flags = METH_O},
    {.ml_name = "_custom", .ml_meth = py_custom, .ml_flags = METH_VARARGS},
    {.ml_name = NULL},
};

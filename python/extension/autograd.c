/*
 * autograd.c: gradients in Python: requires_grad, grad, backward, hooks, the tape.
 *
 * The tape and the rules are in src/client (autograd.c, gradients/). This file wraps tensors and calls hooks; inplace.c is about
 * operations that change a tensor.
 */

#include "alias.h"

/* ---- requires_grad ----------------------------------------------------------------------------------------------- */

/* Give the object its own gt_tensor, so that setting a node changes no other object. */
static gt_err own_tensor(TensorObject *object)
{
    gt_tensor *tensor = object->tensor, *alias;
    if (tensor->references == 1)
        return GT_OK;
    GT_TRY(gt__tensor_detach(tensor, &alias));
    alias->version = tensor->version;
    object->tensor = alias;
    gt_tensor_release(tensor);
    return GT_OK;
}

bool gt__py_requires_grad(PyObject *self)
{
    const TensorObject *object = (TensorObject *)self;
    return object->alias ? gt__alias_requires_grad(object->alias) : object->tensor->node != NULL;
}

/* A leaf that has a gradient, or that a graph leads to, keeps its node while it requires none. */
static gt_err set_aside(TensorObject *object, gt_node *node)
{
    if (!gt__py_alias((PyObject *)object))
        return GT_ERR_MEMORY;
    gt_node *before = object->alias->idle;
    object->alias->idle = gt__node_retain(node);
    gt__node_release(before);
    return GT_OK;
}

/* Set or remove the node of a leaf. */
static gt_err set_leaf(TensorObject *object, bool wanted)
{
    gt_node *node = object->alias ? gt__alias_node(object->alias) : object->tensor->node;
    if (!wanted && node && (gt__node_has_gradient(node) || node->references > 1 || node->hooks)) {
        GT_TRY(set_aside(object, node));
        node->discards = true; /* gradients that arrive meanwhile */
    }
    node = NULL;
    if (wanted && object->alias && object->alias->idle) {
        node = object->alias->idle;
        node->discards = false;
        object->alias->idle = NULL;
    } else if (wanted) {
        GT_TRY(gt__node_new_leaf(object->tensor->client, &object->tensor->meta, &node));
    }
    gt_err err = object->alias ? gt__alias_set_node(object->alias, node) : own_tensor(object);
    if (err != GT_OK)
        gt__node_release(node);
    if (err != GT_OK || object->alias)
        return err;
    gt_node *before = object->tensor->node;
    object->tensor->node = node;
    gt__node_release(before); /* last: it frees hooks, which may run Python code */
    return GT_OK;
}

static int refuse_computed(void)
{
    PyErr_SetString(PyExc_RuntimeError,
                    "you can only change requires_grad flags of leaf variables. If you want to "
                    "use a computed variable in a subgraph that doesn't require "
                    "differentiation use var_no_grad = var.detach().");
    return -1;
}

static int change_leaf(PyObject *self, bool wanted)
{
    gt_err err = set_leaf((TensorObject *)self, wanted);
    if (err != GT_OK && !PyErr_Occurred())
        gt__py_raise(err);
    return err == GT_OK ? 0 : -1;
}

int gt__py_set_requires_grad(PyObject *self, bool wanted)
{
    const gt_alias *alias = ((TensorObject *)self)->alias;
    bool view = alias && !gt__alias_is_base(alias);
    /* A view without a history, of a base that requires a gradient, can become a leaf with a gradient of its own. */
    bool bare = view && !alias->tracked && (!alias->node || alias->node->discards);
    if (gt__py_requires_grad(self) == wanted && !(wanted && bare))
        return 0;
    if (wanted && ((TensorObject *)self)->tensor->inference && !gt__inference_here) {
        PyErr_SetString(PyExc_RuntimeError,
                        "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
        return -1;
    }
    if (view && !wanted) {
        if (gt__alias_is_known(alias))
            return refuse_computed();
        return bare ? 0 : change_leaf(self, false);
    }
    gt_tensor *tensor = gt__py_use(self);
    if (!tensor)
        return -1;
    if (!gt__py_is_leaf(tensor)) /* with a history that was unknown until now it requires one already */
        return wanted ? 0 : refuse_computed();
    return change_leaf(self, wanted);
}

static PyObject *get_requires_grad(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(gt__py_requires_grad(self));
}

static int set_requires_grad(PyObject *self, PyObject *value, void *closure)
{
    (void)closure;
    if (!value) {
        PyErr_SetString(PyExc_AttributeError, "requires_grad cannot be deleted");
        return -1;
    }
    if (!PyBool_Check(value)) {
        PyErr_SetString(PyExc_RuntimeError, "requires_grad must be a bool");
        return -1;
    }
    return gt__py_set_requires_grad(self, value == Py_True);
}

static PyObject *method_requires_grad(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"requires_grad"};
    PyObject *values[1];
    bool wanted = true;
    if (gt__py_parse("requires_grad_", args, nargs, kwnames, names, 1, 1, values) < 0)
        return NULL;
    if (values[0] && !PyBool_Check(values[0]))
        return PyErr_Format(PyExc_TypeError,
                            "requires_grad_(): argument 'requires_grad' (position 1) must be bool, not %s",
                            Py_TYPE(values[0])->tp_name);
    if (values[0])
        wanted = values[0] == Py_True;
    if (gt__py_set_requires_grad(self, wanted) < 0)
        return NULL;
    return Py_NewRef(self);
}

static PyObject *get_is_leaf(PyObject *self, void *closure)
{
    (void)closure;
    if (!gt__py_requires_grad(self))
        Py_RETURN_TRUE;
    gt_tensor *tensor = gt__py_use(self);
    if (((TensorObject *)self)->alias)
        gt__alias_follow(((TensorObject *)self)->alias);
    return tensor ? PyBool_FromLong(gt__py_is_leaf(tensor)) : NULL;
}

/* ---- grad -------------------------------------------------------------------------------------------------------- */

gt_node *gt__py_node(PyObject *self)
{
    const TensorObject *object = (TensorObject *)self;
    if (!object->alias)
        return object->tensor->node;
    if (!gt__alias_requires_grad(object->alias))
        return object->alias->idle;
    if (UNLIKELY(object->alias->retaining != NULL))
        return object->alias->retaining; /* PyTorch moves it when the view is used */
    gt_tensor *tensor = gt__py_use(self);
    return tensor ? tensor->node : NULL;
}

/* While its object lives, x.grad is that object. */
static PyObject *get_grad(PyObject *self, void *closure)
{
    (void)closure;
    gt_node *node = gt__py_node(self);
    if (!node || !gt__node_has_gradient(node))
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    gt_alias *alias;
    gt_err err = gt__node_share_gradient(node, &alias);
    if (err != GT_OK)
        return gt__py_raise(err);
    return gt__py_object_of(alias);
}

static int set_grad(PyObject *self, PyObject *value, void *closure)
{
    (void)closure;
    gt_node *node = gt__py_node(self);
    if (PyErr_Occurred())
        return -1;
    if (!value || value == Py_None) {
        if (node)
            gt__node_drop_gradient(node);
        return 0;
    }
    if (!gt__py_is_tensor(value)) {
        PyErr_Format(PyExc_TypeError, "assigned grad expected to be a Tensor or None but got grad of type %s",
                     Py_TYPE(value)->tp_name);
        return -1;
    }
    if (self == value) {
        PyErr_SetString(PyExc_RuntimeError, "can't assign Variable as its own grad");
        return -1;
    }
    const gt_meta *wanted = gt__py_meta(self), *given = gt__py_meta(value);
    if (!gt__meta_same_shape(given, wanted)) {
        PyObject *mine = gt__py_size_list(wanted->rank, wanted->shape);
        PyObject *its = mine ? gt__py_size_list(given->rank, given->shape) : NULL;
        if (its)
            PyErr_Format(
                PyExc_RuntimeError,
                "attempting to assign a gradient of size '%R' to a tensor of size '%R'. Please ensure that "
                "the gradient and the tensor are the same size",
                its, mine);
        Py_XDECREF(mine);
        Py_XDECREF(its);
        return -1;
    }
    if (given->dtype != wanted->dtype) {
        PyErr_Format(
            PyExc_RuntimeError,
            "attempting to assign a gradient with dtype '%s' to a tensor with dtype '%s'. Please ensure that "
            "the gradient and the tensor have the same dtype",
            gt__dtype_name((gt_dtype)given->dtype), gt__dtype_name((gt_dtype)wanted->dtype));
        return -1;
    }
    gt_alias *alias = gt__py_alias(value);
    if (!alias)
        return -1;
    if (!node) { /* it requires no gradient, and may have one */
        gt_err err = gt__node_new_leaf(((TensorObject *)self)->tensor->client, wanted, &node);
        if (err == GT_OK)
            err = set_aside((TensorObject *)self, node);
        gt__node_release(err == GT_OK ? node : NULL);
        if (err != GT_OK) {
            if (!PyErr_Occurred())
                gt__py_raise(err);
            return -1;
        }
    }
    gt__node_retain(node); /* dropping the old gradient may run Python code */
    gt__node_set_gradient(node, alias);
    gt__node_release(node);
    return 0;
}

static PyObject *method_retain_grad(PyObject *self, PyObject *unused)
{
    (void)unused;
    gt_node *node = gt__py_node(self);
    if (!node) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_RuntimeError, "can't retain_grad on Tensor that has requires_grad=False");
        return NULL;
    }
    node->keeps_gradient = true;
    Py_RETURN_NONE;
}

static PyObject *get_retains_grad(PyObject *self, void *closure)
{
    (void)closure;
    const gt_node *node = gt__py_node(self);
    if (!node && PyErr_Occurred())
        return NULL;
    return PyBool_FromLong(node && node->keeps_gradient && node->op != GT_OP_INVALID);
}

static PyObject *method_detach(PyObject *self, PyObject *unused)
{
    (void)unused;
    return gt__py_detached(self, true);
}

static PyObject *method_detach_(PyObject *self, PyObject *unused)
{
    (void)unused;
    TensorObject *object = (TensorObject *)self;
    gt_tensor *out = NULL, *tensor = object->tensor;
    gt_err err = GT_OK;
    if (object->alias && !gt__alias_is_base(object->alias))
        return PyErr_Format(PyExc_RuntimeError, "Can't detach views in-place. Use detach() instead.");
    gt_node *node = gt__py_node(self);
    if (!node && PyErr_Occurred())
        return NULL;
    if (node && node->op == GT_OP_INVALID) /* a leaf keeps its gradient */
        return gt__py_set_requires_grad(self, false) < 0 ? NULL : Py_NewRef(self);
    if (object->alias)
        err = gt__alias_set_node(object->alias, NULL);
    else if ((err = gt__tensor_detach(tensor, &out)) == GT_OK) {
        out->version = tensor->version;
        object->tensor = out;
        gt_tensor_release(tensor);
    }
    return err == GT_OK ? Py_NewRef(self) : gt__py_raise(err);
}

/* _pieces(views, maker): the results of an operation that returns several views, which PyTorch treats in its own way. */
static PyObject *py_pieces(PyObject *module, PyObject *args)
{
    (void)module;
    static const char *const makers[] = {"SplitBackward0", "SplitWithSizesBackward0", "UnbindBackward0"};
    PyObject *views;
    int maker;
    if (!PyArg_ParseTuple(args, "O!i:_pieces", &PyTuple_Type, &views, &maker))
        return NULL;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(views); k++)
        gt__py_mark_piece(PyTuple_GET_ITEM(views, k), makers[maker], (unsigned)k);
    return Py_NewRef(views);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* The tensors of a sequence, or of one Tensor, retained. None becomes NULL where it is allowed. */
static int collect(PyObject *object, const char *what, bool none_allowed, gt_tensor ***tensors, Py_ssize_t *count)
{
    PyObject *list =
        gt__py_is_tensor(object) || object == Py_None ? PyTuple_Pack(1, object) : PySequence_Tuple(object);
    if (!list)
        return -1;
    *count = PyTuple_GET_SIZE(list);
    *tensors = PyMem_Calloc((size_t)*count + 1, sizeof(gt_tensor *));
    for (Py_ssize_t k = 0; *tensors && k < *count; k++) {
        PyObject *item = PyTuple_GET_ITEM(list, k);
        bool given = gt__py_is_tensor(item);
        gt_tensor *tensor = given ? gt__py_use(item) : NULL;
        if (tensor)
            (*tensors)[k] = gt_tensor_retain(tensor);
        else if (given || !(item == Py_None && none_allowed)) {
            if (!given)
                PyErr_Format(PyExc_TypeError, "%s must be tensors, not %s", what, Py_TYPE(item)->tp_name);
            for (Py_ssize_t j = 0; j < k; j++)
                gt_tensor_release((*tensors)[j]);
            PyMem_Free(*tensors);
            *tensors = NULL;
            break;
        }
    }
    Py_DECREF(list);
    if (!*tensors && !PyErr_Occurred())
        PyErr_NoMemory();
    return *tensors ? 0 : -1;
}

static void release_all(gt_tensor **tensors, Py_ssize_t count)
{
    for (Py_ssize_t k = 0; tensors && k < count; k++)
        gt_tensor_release(tensors[k]);
    PyMem_Free(tensors);
}

/* If a hook raised an exception, that one is shown. */
static PyObject *raise_run(gt_err err)
{
    return PyErr_Occurred() ? NULL : gt__py_raise(err);
}

/* retain_graph=None means the value of create_graph. */
static int read_options(PyObject *retain_graph, PyObject *create_graph, gt_backward_options *options)
{
    if (gt__py_flag(create_graph, &options->create_graph) < 0)
        return -1;
    options->retain_graph = options->create_graph;
    return gt__py_flag(retain_graph == Py_None ? NULL : retain_graph, &options->retain_graph);
}

/* Gradients of the outputs, added to .grad of all leaves or of `inputs`, if given. */
static PyObject *run_backward(gt_tensor **outputs, gt_tensor **gradients, Py_ssize_t count, PyObject *inputs,
                              gt_backward_options options)
{
    gt_tensor **wanted = NULL;
    Py_ssize_t wanted_count = 0;
    if (inputs && inputs != Py_None) {
        if (collect(inputs, "inputs", false, &wanted, &wanted_count) < 0)
            return NULL;
        if (!wanted_count) {
            release_all(wanted, wanted_count);
            return PyErr_Format(PyExc_RuntimeError, "`inputs` argument to `backward()` cannot be empty.");
        }
    }
    gt__py_site_pin();
    gt_err err =
        gt__autograd_run(outputs, gradients, (unsigned)count, wanted, (unsigned)wanted_count, NULL, options);
    gt__py_site_unpin();
    release_all(wanted, wanted_count);
    return err == GT_OK ? Py_NewRef(Py_None) : raise_run(err);
}

static PyObject *method_backward(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"gradient", "retain_graph", "create_graph", "inputs"};
    PyObject *values[4];
    gt_backward_options options = {0};
    if (gt__py_parse("backward", args, nargs, kwnames, names, 4, 4, values) < 0 ||
        read_options(values[1], values[2], &options) < 0)
        return NULL;
    gt_tensor *output = gt__py_use(self), *gradient = NULL;
    if (!output)
        return NULL;
    gt_tensor_retain(output); /* a conversion or a hook may rebind self */
    PyObject *done = NULL;
    if (!values[0] || values[0] == Py_None ||
        gt__py_tensor_argument(values[0], output->client, "gradient", &gradient) == 0)
        done = run_backward(&output, &gradient, 1, values[3], options);
    gt_tensor_release(output);
    gt_tensor_release(gradient);
    return done;
}

/* Several outputs at once, each with a gradient or None. */
static PyObject *py_backward(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"tensors", "gradients", "retain_graph", "create_graph", "inputs"};
    (void)module;
    PyObject *values[5], *done = NULL;
    gt_backward_options options = {0};
    if (gt__py_parse("backward", args, nargs, kwnames, names, 5, 5, values) < 0)
        return NULL;
    if (nargs < 2)
        return PyErr_Format(PyExc_TypeError, "backward() needs tensors and gradients");
    if (read_options(values[2], values[3], &options) < 0)
        return NULL;
    gt_tensor **outputs = NULL, **gradients = NULL;
    Py_ssize_t count = 0, gradient_count = 0;
    if (collect(values[0], "tensors", false, &outputs, &count) == 0 &&
        collect(values[1], "grad_tensors", true, &gradients, &gradient_count) == 0) {
        if (count == gradient_count)
            done = run_backward(outputs, gradients, count, values[4], options);
        else
            PyErr_Format(PyExc_RuntimeError, "got %zd tensors and %zd gradients", count, gradient_count);
    }
    release_all(outputs, count);
    release_all(gradients, gradient_count);
    return done;
}

static PyObject *wrap_results(gt_tensor **results, Py_ssize_t count)
{
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t k = 0; tuple && k < count; k++) {
        PyObject *item = results[k] ? gt__py_wrap(gt_tensor_retain(results[k])) : Py_NewRef(Py_None);
        if (!item)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, k, item);
    }
    return tuple;
}

static PyObject *py_grad(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"outputs",      "inputs",       "grad_outputs",     "retain_graph",
                                        "create_graph", "allow_unused", "is_grads_batched", "materialize_grads"};
    (void)module;
    PyObject *values[8], *answer = NULL;
    bool materialize = false, batched = false;
    gt_backward_options options = {0};
    if (gt__py_parse("grad", args, nargs, kwnames, names, 8, 8, values) < 0 ||
        gt__py_flag(values[6], &batched) < 0 || gt__py_flag(values[7], &materialize) < 0)
        return NULL;
    if (!values[0] || !values[1]) {
        PyErr_SetString(PyExc_TypeError, "grad() needs outputs and inputs");
        return NULL;
    }
    if (read_options(values[3], values[4], &options) < 0 || gt__py_flag(values[5], &options.allow_unused) < 0)
        return NULL;
    if (batched) {
        PyErr_SetString(PyExc_NotImplementedError, "grad(): is_grads_batched is not supported");
        return NULL;
    }
    options.allow_unused = options.allow_unused || materialize;
    gt_tensor **outputs = NULL, **inputs = NULL, **gradients = NULL, **results = NULL;
    Py_ssize_t count = 0, input_count = 0, gradient_count = 0;
    if (collect(values[0], "outputs", false, &outputs, &count) < 0 ||
        collect(values[1], "inputs", false, &inputs, &input_count) < 0)
        goto done;
    if (!input_count) {
        PyErr_SetString(PyExc_ValueError, "grad requires non-empty inputs.");
        goto done;
    }
    if (values[2] && values[2] != Py_None) {
        if (collect(values[2], "grad_outputs", true, &gradients, &gradient_count) < 0)
            goto done;
        if (gradient_count != count) {
            PyErr_Format(PyExc_RuntimeError, "got %zd tensors and %zd gradients", count, gradient_count);
            goto done;
        }
    }
    results = PyMem_Calloc((size_t)input_count + 1, sizeof(gt_tensor *));
    if (!results) {
        PyErr_NoMemory();
        goto done;
    }
    gt_err err =
        gt__autograd_run(outputs, gradients, (unsigned)count, inputs, (unsigned)input_count, results, options);
    for (Py_ssize_t k = 0; err == GT_OK && materialize && k < input_count; k++)
        if (!results[k])
            err = gt_full(inputs[k]->client, (gt_dtype)inputs[k]->meta.dtype, inputs[k]->meta.rank,
                          inputs[k]->meta.shape, 0.0, &results[k]);
    answer = err == GT_OK ? wrap_results(results, input_count) : raise_run(err);
done:
    release_all(outputs, count);
    release_all(inputs, input_count);
    release_all(gradients, gradient_count);
    release_all(results, input_count);
    return answer;
}

/* ---- hooks ------------------------------------------------------------------------------------------------------- */

static gt_err call_hook(void *context, gt_tensor **gradient)
{
    gt_tensor *own; /* in-place changes of the argument mark this one, not the gradient, which others may have */
    GT_TRY(gt__tensor_alias(*gradient, (*gradient)->node, &own));
    PyObject *argument = gt__py_wrap(own);
    PyObject *answer = argument ? PyObject_CallOneArg(context, argument) : NULL;
    if (answer && answer != Py_None && !gt__py_is_tensor(answer)) {
        PyErr_SetString(PyExc_TypeError, "a hook must return a tensor or None");
        Py_CLEAR(answer);
    }
    /* Its answer is the gradient, or the argument, which it may have changed in place. */
    gt_tensor *result = answer ? gt__py_use(answer == Py_None ? argument : answer) : NULL;
    if (result && result != own)
        *gradient = gt_tensor_retain(result);
    else if (!result)
        Py_CLEAR(answer);
    Py_XDECREF(argument);
    Py_XDECREF(answer);
    return answer ? GT_OK : gt__fail(GT_ERR_INTERNAL, "a hook raised an exception");
}

static void free_hook(void *context)
{
    Py_DECREF((PyObject *)context);
}

static const char HOOK_ENTRY[] = "gt.hook_entry";

static void release_entry(PyObject *capsule)
{
    gt__hook_release(PyCapsule_GetPointer(capsule, HOOK_ENTRY));
}

/* _register_hook(hook) -> the entry, for _remove_hook; gt/autograd.py makes the handle. */
static PyObject *register_hook(PyObject *self, PyObject *hook, bool after)
{
    gt_hook_entry *entry;
    if (!PyCallable_Check(hook)) {
        PyErr_SetString(PyExc_TypeError, "a hook must be callable");
        return NULL;
    }
    gt_tensor *tensor = gt__py_use(self);
    if (!tensor)
        return NULL;
    gt_err err = gt__tensor_hook(tensor, call_hook, hook, free_hook, after, &entry);
    if (err != GT_OK)
        return gt__py_raise(err);
    Py_INCREF(hook);
    PyObject *capsule = PyCapsule_New(entry, HOOK_ENTRY, release_entry);
    if (!capsule) {
        gt__hook_remove(entry);
        gt__hook_release(entry);
    }
    return capsule;
}

static PyObject *method_register_hook(PyObject *self, PyObject *hook)
{
    return register_hook(self, hook, false);
}

/* _register_hook_after(hook): hook(gradient), when it was added to .grad. */
static PyObject *method_register_hook_after(PyObject *self, PyObject *hook)
{
    return register_hook(self, hook, true);
}

static PyObject *py_remove_hook(PyObject *module, PyObject *capsule)
{
    (void)module;
    gt_hook_entry *entry = PyCapsule_GetPointer(capsule, HOOK_ENTRY);
    if (!entry)
        return NULL;
    gt__hook_remove(entry);
    Py_RETURN_NONE;
}

/* ---- tape -------------------------------------------------------------------------------------------------------- */

static PyObject *method_is_inference(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(((TensorObject *)self)->tensor->inference);
}

/* One node: (number, op name or "leaf", shape, operand numbers, consumed). */
static PyObject *tape_entry(const gt_node *node)
{
    PyObject *shape = gt__py_sizes(node->out.rank, node->out.shape), *operands = PyList_New(0);
    for (unsigned k = 0; operands && k < node->count; k++) {
        if (!node->operands[k].node)
            continue;
        PyObject *number = PyLong_FromUnsignedLongLong(node->operands[k].node->sequence);
        if (!number || PyList_Append(operands, number) < 0)
            Py_CLEAR(operands);
        Py_XDECREF(number);
    }
    if (!shape || !operands) {
        Py_XDECREF(shape);
        Py_XDECREF(operands);
        return NULL;
    }
    return Py_BuildValue("KsNNO", (unsigned long long)node->sequence,
                         node->op == GT_OP_INVALID    ? "leaf"
                         : node->op == GT_NODE_CUSTOM ? node->custom.name
                                                      : gt__op_table[node->op].name,
                         shape, operands, node->consumed ? Py_True : Py_False);
}

static PyObject *py_tape(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    gt_client *client = gt__py_client();
    PyObject *tape = client ? PyList_New(0) : NULL;
    /* This node and the next are retained: creating objects may run the garbage collector, which may free tensors. */
    gt_node *node = client && client->oldest_node ? gt__node_retain(client->oldest_node) : NULL;
    while (node) {
        PyObject *entry = tape ? tape_entry(node) : NULL;
        if (!entry || PyList_Append(tape, entry) < 0)
            Py_CLEAR(tape);
        Py_XDECREF(entry);
        gt_node *next = node->newer ? gt__node_retain(node->newer) : NULL;
        gt__node_release(node);
        node = next;
    }
    return tape;
}

PyMethodDef gt__py_autograd_methods[] = {
    NOARGS("is_inference", method_is_inference, "is_inference(): whether it was made in inference_mode()."),
    FAST("requires_grad_", method_requires_grad, "requires_grad_(requires_grad=True)"),
    FAST("backward", method_backward,
         "backward(gradient=None, retain_graph=None, create_graph=False, inputs=None)"),
    NOARGS("retain_grad", method_retain_grad, "Keep the gradient of this non-leaf tensor in .grad."),
    NOARGS("detach", method_detach, "The same value, without a gradient."),
    NOARGS("detach_", method_detach_, "Forget how this tensor was computed."),
    {.ml_name = "_register_hook", .ml_meth = method_register_hook, .ml_flags = METH_O},
    {.ml_name = "_register_hook_after", .ml_meth = method_register_hook_after, .ml_flags = METH_O},
    {.ml_name = NULL},
};

PyGetSetDef gt__py_autograd_attributes[] = {
    {.name = "requires_grad",
     .get = get_requires_grad,
     .set = set_requires_grad,
     .doc = "whether a gradient is wanted"},
    {.name = "grad", .get = get_grad, .set = set_grad, .doc = "the gradient that backward() left here, or None"},
    {.name = "retains_grad", .get = get_retains_grad, .doc = "Whether retain_grad() keeps its gradient."},
    {.name = "is_leaf", .get = get_is_leaf, .doc = "made by the user, not by an op that is recorded"},
    {.name = NULL},
};

PyMethodDef gt__py_autograd_functions[] = {
    FAST("grad", py_grad,
         "grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, allow_unused=False)"),
    FAST("_backward", py_backward, "_backward(tensors, gradients, retain_graph, create_graph, inputs)"),
    {.ml_name = "_parts", .ml_meth = gt__py_parts, .ml_flags = METH_O},
    {.ml_name = "_own", .ml_meth = gt__py_own, .ml_flags = METH_O},
    {.ml_name = "_pieces", .ml_meth = py_pieces, .ml_flags = METH_VARARGS},
    {.ml_name = "_remove_hook", .ml_meth = py_remove_hook, .ml_flags = METH_O},
    NOARGS("_tape", py_tape, "The recorded ops of this thread's client, oldest first."),
    {.ml_name = NULL},
};

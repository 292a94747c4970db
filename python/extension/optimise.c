/*
 * optimise.c: the gradients of an optimiser's parameters, and the updates of SGD and Adam without Python objects in between. They
 * emit what the Python code of gt.optim does, and leave to it every parameter that is not plain, such as one without a state.
 */
#include "extension.h"

#include <math.h>

#include "client/autograd.h"
#include "client/storage.h"

/* ---- parameters and gradients ------------------------------------------------------------------------------------ */

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

/* The value of x.grad at this moment, retained. NULL: there is none, or an exception. */
static gt_tensor *gradient_value(PyObject *parameter)
{
    gt_node *node = gt__py_node(parameter);
    gt_tensor *gradient = NULL;
    if (!node || !gt__node_has_gradient(node))
        return NULL;
    gt__node_retain(node); /* to cut it may wait, and other threads run */
    gt_err err = gt__node_gradient(node, &gradient);
    if (err != GT_OK)
        gt__py_raise(err);
    gradient = err == GT_OK && gradient ? gt_tensor_retain(gradient) : NULL;
    gt__node_release(node);
    return gradient;
}

/* _gradients(parameters): [(parameter, gradient)] of those that have one. Later changes of .grad do not show in them. */
static PyObject *py_gradients(PyObject *module, PyObject *parameters)
{
    (void)module;
    if (check_list(parameters) < 0)
        return NULL;
    PyObject *pairs = PyList_New(0);
    for (Py_ssize_t k = 0; pairs && k < PyList_GET_SIZE(parameters); k++) {
        PyObject *parameter = parameter_at(parameters, k);
        gt_tensor *value = parameter ? gradient_value(parameter) : NULL;
        PyObject *gradient = value ? gt__py_wrap(value) : NULL;
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

/* ---- options and state ------------------------------------------------------------------------------------------- */

/* Keys of groups and of states. */
#define KEYS(X)                                                                                                   \
    X(params)                                                                                                     \
    X(lr)                                                                                                         \
    X(betas)                                                                                                      \
    X(eps)                                                                                                        \
    X(weight_decay)                                                                                               \
    X(decoupled_weight_decay)                                                                                     \
    X(amsgrad)                                                                                                    \
    X(maximize)                                                                                                   \
    X(momentum)                                                                                                   \
    X(dampening)                                                                                                  \
    X(nesterov)                                                                                                   \
    X(momentum_buffer)                                                                                            \
    X(step)                                                                                                       \
    X(exp_avg)                                                                                                    \
    X(exp_avg_sq)
#define KEY(name) KEY_##name,
enum { KEYS(KEY) KEY_COUNT };
#undef KEY
static PyObject *keys[KEY_COUNT];

static int keys_make(void)
{
#define TEXT(name) #name,
    static const char *const texts[] = {KEYS(TEXT)};
#undef TEXT
    for (int k = 0; k < KEY_COUNT; k++)
        if (!(keys[k] = PyUnicode_InternFromString(texts[k])))
            return -1;
    return 0;
}

static bool is_float(PyObject *object, double *value)
{
    bool is = object && PyFloat_CheckExact(object);
    if (is)
        *value = PyFloat_AS_DOUBLE(object);
    return is;
}

/* An option that is a float, or the 0 that stands for none. */
static bool number_option(PyObject *group, int key, double *value)
{
    PyObject *object = PyDict_GetItemWithError(group, keys[key]);
    *value = 0;
    return is_float(object, value) ||
           (object && PyLong_CheckExact(object) && PyObject_RichCompareBool(object, Py_False, Py_EQ) == 1);
}

static bool flag_option(PyObject *group, int key, bool *value)
{
    PyObject *object = PyDict_GetItemWithError(group, keys[key]);
    *value = object == Py_True;
    return object && PyBool_Check(object);
}

/* A tensor of a parameter's state, borrowed; NULL: none, or one of a class of the program's. */
static PyObject *state_tensor(PyObject *state, int key)
{
    PyObject *found = PyDict_GetItemWithError(state, keys[key]);
    return found && Py_IS_TYPE(found, gt__py_tensor_type) ? found : NULL;
}

/* Whether the operators of an update are those of Tensor. */
static bool has_plain_operators(PyObject *parameter)
{
    const PyNumberMethods *ours = gt__py_tensor_type->tp_as_number, *its = Py_TYPE(parameter)->tp_as_number;
    return ours == its ||
           (its->nb_inplace_subtract == ours->nb_inplace_subtract &&
            its->nb_inplace_multiply == ours->nb_inplace_multiply && its->nb_multiply == ours->nb_multiply);
}

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

/* Operations in a row: after the first that fails (*err), the others return NULL. Operands are borrowed in these, */
static gt_tensor *of_number(gt_err *err, gt_opcode op, gt_tensor *a, double number)
{
    gt_tensor *out = NULL;
    if (*err == GT_OK)
        *err = gt__emit_binary_literal(op, a, GT_LITERAL_FLOAT, (gt_imm){.f = number}, false, &out);
    return out;
}

static gt_tensor *of_one(gt_err *err, gt_opcode op, gt_tensor *a)
{
    gt_tensor *out = NULL;
    if (*err == GT_OK)
        *err = gt__emit_unary(op, a, &out);
    return out;
}

/* and taken in these. */
static gt_tensor *of_two(gt_err *err, gt_opcode op, gt_tensor *a, gt_tensor *b)
{
    gt_tensor *out = NULL;
    if (*err == GT_OK)
        *err = gt__emit_binary(op, a, b, &out);
    gt_tensor_release(a);
    gt_tensor_release(b);
    return out;
}

static gt_tensor *then_number(gt_err *err, gt_opcode op, gt_tensor *a, double number)
{
    gt_tensor *out = of_number(err, op, a, number);
    gt_tensor_release(a);
    return out;
}

/* gradient (taken) + parameter * decay. NULL: exception. */
static gt_tensor *decayed(PyObject *parameter, gt_tensor *gradient, double decay)
{
    gt_err err = GT_OK;
    gt_tensor *p = gt__py_hold(parameter);
    if (!p) {
        gt_tensor_release(gradient);
        return NULL;
    }
    gt_tensor *result = of_two(&err, GT_OP_add, gradient, then_number(&err, GT_OP_mul, p, decay));
    if (err != GT_OK)
        gt__py_raise(err);
    return result;
}

/* self -= value (taken), which failed if err says so. */
static int subtract(PyObject *self, gt_err err, gt_tensor *value)
{
    if (err == GT_OK)
        return gt__py_update(GT_OP_sub, self, value, 0);
    gt_tensor_release(value);
    gt__py_raise(err);
    return -1;
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

typedef struct Group {
    PyObject *states; /* optimizer.state */
    double lr, weight_decay;
    double momentum, keep; /* SGD */
    bool nesterov;
    double beta1, beta2, eps; /* Adam */
    bool decoupled;
    double counted, rate, least; /* of parameters that have made so many steps */
    PyObject *step;              /* that number; strong */
} Group;

/* Update a parameter with its gradient (taken): 1: done, 0: it is left to the caller, -1: exception. */
typedef int update_one(Group *group, PyObject *parameter, gt_tensor *gradient);

/* The parameters of a group that are left to the caller: a new list, or None. */
static PyObject *update_all(Group *group, PyObject *parameters, update_one *update)
{
    PyObject *rest = Py_NewRef(Py_None);
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(parameters); k++) {
        PyObject *parameter = parameter_at(parameters, k);
        gt_tensor *gradient = parameter ? gradient_value(parameter) : NULL;
        int done = PyErr_Occurred() ? -1 : 1;
        if (gradient && has_plain_operators(parameter)) {
            done = update(group, parameter, gradient);
        } else if (gradient) {
            gt_tensor_release(gradient);
            done = 0;
        }
        if (done == 0) {
            if (rest == Py_None)
                Py_SETREF(rest, PyList_New(0));
            done = rest ? PyList_Append(rest, parameter) : -1;
        }
        Py_XDECREF(parameter);
        if (done < 0) {
            Py_XDECREF(rest);
            return NULL;
        }
    }
    return rest;
}

/* What both optimisers have. Sets *parameters, borrowed; false: the caller updates the group, or there is an exception. */
static bool read_group(PyObject *object, PyObject *states, Group *group, PyObject **parameters)
{
    bool maximize;
    *group = (Group){.states = states};
    *parameters = PyDict_GetItemWithError(object, keys[KEY_params]);
    return *parameters && PyList_Check(*parameters) &&
           is_float(PyDict_GetItemWithError(object, keys[KEY_lr]), &group->lr) &&
           number_option(object, KEY_weight_decay, &group->weight_decay) &&
           flag_option(object, KEY_maximize, &maximize) && !maximize;
}

/* _sgd(group, states), _adam(group, states): see update_all. */
static PyObject *update_group(gt_py_args args, Py_ssize_t nargs, bool (*read)(PyObject *, Group *),
                              update_one *update)
{
    PyObject *parameters;
    Group group;
    if (nargs != 2 || !PyDict_Check(args[0]))
        return PyErr_Format(PyExc_TypeError, "an update takes a group and the states of parameters");
    if (!read_group(args[0], args[1], &group, &parameters) || !read(args[0], &group)) {
        if (!PyErr_Occurred() && !parameters)
            PyErr_SetObject(PyExc_KeyError, keys[KEY_params]);
        return PyErr_Occurred() ? NULL : Py_NewRef(parameters);
    }
    gt__py_site_pin();
    Py_INCREF(parameters);
    PyObject *rest = update_all(&group, parameters, update);
    gt__py_site_unpin();
    Py_DECREF(parameters);
    Py_XDECREF(group.step);
    return rest;
}

/* ---- SGD --------------------------------------------------------------------------------------------------------- */

static bool read_sgd(PyObject *object, Group *group)
{
    double dampening;
    bool read = number_option(object, KEY_momentum, &group->momentum) &&
                number_option(object, KEY_dampening, &dampening) &&
                flag_option(object, KEY_nesterov, &group->nesterov);
    group->keep = read ? 1 - dampening : 1;
    return read;
}

/* The gradient (taken) with momentum: a tensor of the caller's. NULL: exception. */
static gt_tensor *with_momentum(const Group *group, PyObject *buffer, gt_tensor *gradient)
{
    gt_err err = GT_OK;
    int status = gt__py_update(GT_OP_mul, buffer, NULL, group->momentum);
    gt_tensor *added = NULL, *value = NULL;
    if (status == 0) {
        added = group->keep == 1 ? gt_tensor_retain(gradient) : of_number(&err, GT_OP_mul, gradient, group->keep);
        status = err == GT_OK ? gt__py_update(GT_OP_add, buffer, added, 0) : -1;
    }
    if (status == 0 && (value = gt__py_hold(buffer)) && group->nesterov)
        value = of_two(&err, GT_OP_add, gt_tensor_retain(gradient),
                       then_number(&err, GT_OP_mul, value, group->momentum));
    gt_tensor_release(gradient);
    if (err != GT_OK)
        gt__py_raise(err);
    return value;
}

static int update_sgd(Group *group, PyObject *parameter, gt_tensor *gradient)
{
    PyObject *buffer = NULL;
    if (group->momentum) {
        PyObject *state = PyObject_GetItem(group->states, parameter);
        buffer = state && PyDict_Check(state) ? Py_XNewRef(state_tensor(state, KEY_momentum_buffer)) : NULL;
        Py_XDECREF(state);
        if (!buffer) {
            gt_tensor_release(gradient);
            return PyErr_Occurred() ? -1 : 0;
        }
    }
    if (group->weight_decay)
        gradient = decayed(parameter, gradient, group->weight_decay);
    if (buffer && gradient)
        gradient = with_momentum(group, buffer, gradient);
    Py_XDECREF(buffer);
    if (!gradient)
        return -1;
    gt_err err = GT_OK;
    gt_tensor *change = then_number(&err, GT_OP_mul, gradient, group->lr);
    return subtract(parameter, err, change) < 0 ? -1 : 1;
}

static PyObject *py_sgd(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    return update_group(args, kwnames ? -1 : nargs, read_sgd, update_sgd);
}

/* ---- Adam -------------------------------------------------------------------------------------------------------- */

static bool read_adam(PyObject *object, Group *group)
{
    bool amsgrad;
    PyObject *betas = PyDict_GetItemWithError(object, keys[KEY_betas]);
    return betas && PyTuple_CheckExact(betas) && PyTuple_GET_SIZE(betas) == 2 &&
           is_float(PyTuple_GET_ITEM(betas, 0), &group->beta1) &&
           is_float(PyTuple_GET_ITEM(betas, 1), &group->beta2) && number_option(object, KEY_eps, &group->eps) &&
           flag_option(object, KEY_decoupled_weight_decay, &group->decoupled) &&
           flag_option(object, KEY_amsgrad, &amsgrad) && !amsgrad;
}

/* The number of steps of a parameter, one more than before: 1; 0: it is not a float; -1: exception. */
static int count_step(Group *group, PyObject *state)
{
    double step;
    if (!is_float(PyDict_GetItemWithError(state, keys[KEY_step]), &step))
        return PyErr_Occurred() ? -1 : 0;
    step++;
    if (!group->step || step != group->counted) {
        /* lr * (mean / c1) / (sqrt(squares / c2) + eps), with c1 and c2 folded into scalars */
        double c2 = sqrt(1 - pow(group->beta2, step));
        group->counted = step;
        group->rate = group->lr * c2 / (1 - pow(group->beta1, step));
        group->least = group->eps * c2;
        Py_XSETREF(group->step, PyFloat_FromDouble(step));
    }
    return group->step && PyDict_SetItem(state, keys[KEY_step], group->step) == 0 ? 1 : -1;
}

/* self = self * factor + gradient * (1 - factor), in place; of the square of the gradient, if so. */
static int run_mean(PyObject *self, double factor, gt_tensor *gradient, bool square)
{
    gt_err err = GT_OK;
    gt_tensor *before = gt__py_hold(self);
    if (!before)
        return -1;
    gt_tensor *kept = then_number(&err, GT_OP_mul, before, factor);
    gt_tensor *value = square ? of_one(&err, GT_OP_square, gradient) : gt_tensor_retain(gradient);
    gt_tensor *sum = of_two(&err, GT_OP_add, kept, then_number(&err, GT_OP_mul, value, 1 - factor));
    return gt__py_become(self, err, sum);
}

/* parameter -= mean * rate / (sqrt(squares) + least) */
static int step_along(const Group *group, PyObject *parameter, PyObject *mean, PyObject *squares)
{
    gt_err err = GT_OK;
    gt_tensor *m = gt__py_hold(mean), *s = m ? gt__py_hold(squares) : NULL;
    if (!s) {
        gt_tensor_release(m);
        return -1;
    }
    gt_tensor *top = then_number(&err, GT_OP_mul, m, group->rate);
    gt_tensor *root = of_one(&err, GT_OP_sqrt, s);
    gt_tensor_release(s);
    gt_tensor *change = of_two(&err, GT_OP_div, top, then_number(&err, GT_OP_add, root, group->least));
    return subtract(parameter, err, change);
}

/* With the tensors of its state, which the caller holds; the gradient is taken. */
static int update_adam_with(const Group *group, PyObject *parameter, gt_tensor *gradient, PyObject *mean,
                            PyObject *squares)
{
    bool decays = group->weight_decay != 0;
    if (decays && !group->decoupled && !(gradient = decayed(parameter, gradient, group->weight_decay)))
        return -1;
    int status = run_mean(mean, group->beta1, gradient, false);
    if (status == 0)
        status = run_mean(squares, group->beta2, gradient, true);
    gt_tensor_release(gradient);
    if (status == 0 && decays && group->decoupled)
        status = gt__py_update(GT_OP_mul, parameter, NULL, 1 - group->lr * group->weight_decay);
    return status == 0 ? step_along(group, parameter, mean, squares) : status;
}

static int update_adam(Group *group, PyObject *parameter, gt_tensor *gradient)
{
    PyObject *state = PyObject_GetItem(group->states, parameter);
    PyObject *mean = NULL, *squares = NULL;
    if (state && PyDict_Check(state) && (mean = Py_XNewRef(state_tensor(state, KEY_exp_avg))))
        squares = Py_XNewRef(state_tensor(state, KEY_exp_avg_sq));
    int done = PyErr_Occurred() ? -1 : squares ? count_step(group, state) : 0;
    if (done == 1)
        done = update_adam_with(group, parameter, gradient, mean, squares) < 0 ? -1 : 1;
    else
        gt_tensor_release(gradient);
    Py_XDECREF(mean);
    Py_XDECREF(squares);
    Py_XDECREF(state);
    return done;
}

static PyObject *py_adam(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    return update_group(args, kwnames ? -1 : nargs, read_adam, update_adam);
}

PyMethodDef gt__py_optimise_functions[] = {
    {.ml_name = "_gradients", .ml_meth = py_gradients, .ml_flags = METH_O},
    {.ml_name = "_drop_gradients", .ml_meth = py_drop_gradients, .ml_flags = METH_O},
    FAST("_sgd", py_sgd, "_sgd(group, states): update parameters; returns those that were not, or None."),
    FAST("_adam", py_adam, "_adam(group, states): update parameters; returns those that were not, or None."),
    {.ml_name = NULL},
};

int gt__py_optimise_init(PyObject *module)
{
    (void)module;
    return keys_make();
}

/*
 * random.c: random functions of other tensors, and the state of the random numbers. rand, randn and randint are in
 * create.c; functions composed of these are in client/random.py.
 */
#include "extension.h"

static PyObject *py_randperm(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    static const char *const names[] = {"n", "dtype", "requires_grad", "device"};
    PyObject *values[4];
    int64_t n;
    gt_dtype dtype = GT_INT64;
    bool requires_grad = false;
    if (gt__py_parse("randperm", args, nargs, kwnames, names, 4, 1, values) < 0)
        return NULL;
    if (!values[0])
        return PyErr_Format(PyExc_TypeError, "randperm() missing required argument 'n'");
    if (gt__py_int64(values[0], &n) < 0 || gt__py_dtype(values[1], &dtype) < 0 ||
        gt__py_flag(values[2], &requires_grad) < 0 || gt__py_check_device(values[3]) < 0)
        return NULL;
    gt_client *client = gt__py_client();
    gt_tensor *out = NULL;
    if (!client || gt__py_enter(client) < 0)
        return NULL;
    gt_err err = gt_randperm(client, dtype, n, &out);
    PyObject *self = gt__py_result(err, out);
    if (self && gt__py_set_requires_grad(self, requires_grad) < 0)
        Py_CLEAR(self);
    return self;
}

static gt_tensor *probabilities(const char *function, PyObject *object)
{
    if (!object || !gt__py_is_tensor(object)) {
        PyErr_Format(PyExc_TypeError, "%s(): argument 'input' must be Tensor, not %s", function,
                     object ? Py_TYPE(object)->tp_name : "missing");
        return NULL;
    }
    return gt__py_use(object);
}

static PyObject *py_bernoulli(PyObject *module, PyObject *input)
{
    (void)module;
    gt_tensor *p = probabilities("bernoulli", input), *out = NULL;
    if (!p)
        return NULL;
    gt_err err = gt_bernoulli(p, &out);
    return gt__py_result(err, out);
}

static PyObject *py_multinomial(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    static const char *const names[] = {"input", "num_samples", "replacement"};
    PyObject *values[3];
    int64_t samples;
    bool replacement = false;
    if (gt__py_parse("multinomial", args, nargs, kwnames, names, 3, 3, values) < 0)
        return NULL;
    if (!values[1])
        return PyErr_Format(PyExc_TypeError, "multinomial() missing required argument 'num_samples'");
    if (gt__py_int64(values[1], &samples) < 0 || gt__py_flag(values[2], &replacement) < 0)
        return NULL;
    gt_tensor *weights = probabilities("multinomial", values[0]), *out = NULL;
    if (!weights)
        return NULL;
    gt_err err = gt_multinomial(weights, samples, replacement, &out);
    return gt__py_result(err, out);
}

#define DRAW(name)                                                                                                \
    static PyObject *py_##name(PyObject *module, PyObject *input)                                                 \
    {                                                                                                             \
        (void)module;                                                                                             \
        gt_tensor *a = probabilities(#name, input), *out = NULL;                                                  \
        if (!a)                                                                                                   \
            return NULL;                                                                                          \
        gt_err err = gt_##name(a, &out);                                                                          \
        return gt__py_result(err, out);                                                                           \
    }
DRAW(poisson)
DRAW(binomial)
DRAW(standard_gamma)
DRAW(dirichlet)

static PyObject *py_random_state(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    uint64_t seed;
    if (gt__py_waiting_seed(&seed))
        return Py_BuildValue("(KK)", (unsigned long long)seed, 0ULL);
    gt_client *client = gt__py_client();
    return client ? Py_BuildValue("(KK)", (unsigned long long)client->seed, (unsigned long long)client->stream)
                  : NULL;
}

static PyObject *py_set_random_state(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned long long seed, stream;
    if (!PyArg_ParseTuple(args, "KK:_set_random_state", &seed, &stream))
        return NULL;
    gt_client *client = gt__py_client();
    if (!client)
        return NULL;
    client->seed = seed;
    client->stream = stream;
    return Py_NewRef(Py_None);
}

/* A Generator (client/random.py) keeps its state as (seed, stream) in _state. */
int gt__py_generator_enter(PyObject *generator, gt_client *client)
{
    unsigned long long seed, stream;
    PyObject *state = PyObject_GetAttrString(generator, "_state");
    bool fine = state && PyTuple_Check(state) && PyArg_ParseTuple(state, "KK", &seed, &stream);
    Py_XDECREF(state);
    if (!fine) {
        PyErr_Format(PyExc_TypeError, "expected a gt.Generator, not %s", Py_TYPE(generator)->tp_name);
        return -1;
    }
    client->seed = seed;
    client->stream = stream;
    return 0;
}

int gt__py_generator_leave(PyObject *generator, gt_client *client, gt_random ours)
{
    PyObject *state = Py_BuildValue("(KK)", (unsigned long long)client->seed, (unsigned long long)client->stream);
    client->seed = ours.seed;
    client->stream = ours.stream;
    int status = state ? PyObject_SetAttrString(generator, "_state", state) : -1;
    Py_XDECREF(state);
    return status;
}

PyMethodDef gt__py_random_functions[] = {
    FAST("randperm", py_randperm, "randperm(n, *, dtype=gt.int64): the numbers 0 .. n-1 in random order."),
    {.ml_name = "bernoulli",
     .ml_meth = py_bernoulli,
     .ml_flags = METH_O,
     .ml_doc = "bernoulli(input): 1 with probability input, elementwise, else 0."},
#define DRAWN(name, of)                                                                                           \
    {                                                                                                             \
        .ml_name = #name, .ml_meth = py_##name, .ml_flags = METH_O, .ml_doc = #name of                            \
    }
    DRAWN(poisson, "(input): draws of these rates."),
    DRAWN(binomial, "(input): draws of input[0] trials with probabilities input[1]."),
    DRAWN(standard_gamma, "(input): draws of these shapes, of scale 1."),
    DRAWN(dirichlet, "(input): draws of these concentrations, along the last dimension."),
    FAST("multinomial", py_multinomial,
         "multinomial(input, num_samples, replacement=False): positions drawn by their weights, for each row."),
    NOARGS("_random_state", py_random_state,
           "_random_state(): the seed, and how many random tensors it has given."),
    {.ml_name = "_set_random_state",
     .ml_meth = py_set_random_state,
     .ml_flags = METH_VARARGS,
     .ml_doc = "_set_random_state(seed, stream)"},
    {.ml_name = NULL},
};

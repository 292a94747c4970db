/*
 * create.c: functions that make tensors: tensor, zeros, full, arange, rand, ... and their _like forms.
 *
 * Sizes are given one by one or as a tuple. All take dtype= and requires_grad=. device= is checked and has no
 * other effect: the dispatcher places tensors.
 */
#include "client/intercept.h"

#include "alias.h"

#include "client/autograd.h"

#include <math.h>

typedef struct Creation {
    gt_client *client;
    gt_dtype dtype;
    bool has_dtype, requires_grad;
    PyObject *generator; /* the source of random numbers; NULL or None: the client */
    PyObject *like;      /* borrowed; NULL: made of a shape */
    gt_py_format format;
    int rank;
    int64_t shape[GT_MAX_RANK];
} Creation;

static PyObject *finish(const Creation *creation, gt_err err, gt_tensor *tensor)
{
    PyObject *object = gt__py_result(err, tensor);
    if (creation->like)
        object = gt__py_formatted(object, creation->like, creation->format);
    if (object && creation->requires_grad && PyObject_SetAttrString(object, "requires_grad", Py_True) < 0)
        Py_CLEAR(object);
    return object;
}

/* The options that are in every signature. */
#define OPTIONS "dtype", "requires_grad", "device", "layout", "pin_memory"
enum { OPTION_COUNT = 5 };

static int check_layout(PyObject *layout)
{
    PyObject *text = layout && layout != Py_None ? PyObject_Repr(layout) : NULL;
    bool strided = text && PyUnicode_CompareWithASCIIString(text, "gt.strided") == 0;
    if (text && !strided)
        PyErr_Format(PyExc_NotImplementedError, "layout=%U: this function makes strided tensors only", text);
    Py_XDECREF(text);
    return PyErr_Occurred() ? -1 : 0;
}

static int options(PyObject *const *values, gt_dtype default_dtype, Creation *creation)
{
    creation->dtype = default_dtype;
    creation->has_dtype = values[0] && values[0] != Py_None;
    creation->requires_grad = false;
    creation->like = NULL;
    if (values[1] && !PyBool_Check(values[1])) {
        PyErr_Format(PyExc_TypeError, "argument 'requires_grad' must be bool, not %s",
                     Py_TYPE(values[1])->tp_name);
        return -1;
    }
    return gt__py_dtype(values[0], &creation->dtype) < 0 || gt__py_flag(values[1], &creation->requires_grad) < 0 ||
                   gt__py_check_device(values[2]) < 0 || (values[3] && check_layout(values[3]) < 0)
               ? -1
               : 0;
}

/* name(*size, OPTIONS, generator=) */
static int sized(const char *name, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames, Creation *creation)
{
    static const char *const names[] = {"size|shape", OPTIONS, "generator"};
    PyObject *values[OPTION_COUNT + 2];
    if (gt__py_parse(name, args + nargs, 0, kwnames, names, OPTION_COUNT + 2, 0, values) < 0)
        return -1;
    int status = values[0] ? gt__py_ints(values[0], &creation->rank, creation->shape)
                           : gt__py_shape(args, nargs, &creation->rank, creation->shape);
    if (status < 0 || options(values + 1, gt__default_dtype, creation) < 0)
        return -1;
    creation->generator = values[OPTION_COUNT + 1];
    creation->client = gt__py_client();
    return creation->client ? 0 : -1;
}

/* Shape, client and default dtype of the tensor that a _like function was given. */
static int like(PyObject *input, PyObject *const *values, PyObject *format, Creation *creation)
{
    if (!input || !gt__py_is_tensor(input)) {
        PyErr_SetString(PyExc_TypeError, "a _like function needs a Tensor");
        return -1;
    }
    const gt_tensor *tensor = ((TensorObject *)input)->tensor;
    if (gt__py_enter(tensor->client) < 0)
        return -1;
    tensor = ((TensorObject *)input)->tensor; /* while we waited, it may have got another one */
    creation->client = tensor->client;
    creation->rank = tensor->meta.rank;
    memcpy(creation->shape, tensor->meta.shape, sizeof creation->shape);
    if (options(values, (gt_dtype)tensor->meta.dtype, creation) < 0)
        return -1;
    creation->like = input;
    creation->format = GT_PY_PRESERVE;
    return gt__py_format(format, &creation->format);
}

/* PyTorch's error for a dtype that a function does not have. */
static int refuse_dtype(const char *function, gt_dtype dtype)
{
    PyErr_Format(PyExc_NotImplementedError, "\"%s\" not implemented for '%s'", function, gt__dtype_kind(dtype));
    return -1;
}

/* ---- constants and random numbers ------------------------------------------------------------------------ */

static gt_err emit_full(const Creation *creation, gt_literal kind, gt_imm value, gt_tensor **out)
{
    if (creation->rank) /* as in PyTorch, a single number becomes infinite in halves */
        GT_TRY(gt__dtype_check_number(creation->dtype, kind, value));
    return gt__emit_full(creation->client, creation->dtype, (unsigned)creation->rank, creation->shape, kind, value,
                         out);
}

/* A complex tensor's parts are drawn as reals; those of a normal distribution share its variance of 1. */
static gt_err draw_reals(const Creation *creation, gt_opcode op, gt_tensor **out)
{
    gt_err (*const function)(gt_client *, gt_dtype, int, const int64_t *, gt_tensor **) =
        op == GT_OP_rand ? gt_rand : gt_randn;
    if (!gt__dtype_is_complex(creation->dtype))
        return function(creation->client, creation->dtype, creation->rank, creation->shape, out);
    int64_t shape[GT_MAX_RANK + 1];
    gt_tensor *parts = NULL, *scaled = NULL;
    memcpy(shape, creation->shape, (size_t)creation->rank * sizeof *shape);
    shape[creation->rank] = 2;
    gt_err err = function(creation->client, gt__dtype_real(creation->dtype), creation->rank + 1, shape, &parts);
    if (err == GT_OK && op == GT_OP_randn)
        err = gt_mul_scalar(parts, M_SQRT1_2, &scaled);
    if (err == GT_OK)
        err = gt_view_as_complex(scaled ? scaled : parts, out);
    gt_tensor_release(parts);
    gt_tensor_release(scaled);
    return err;
}

/* The dtype must hold low and high - 1. */
static int check_range(gt_dtype dtype, int64_t low, int64_t high)
{
    if (gt__dtype_is_complex(dtype)) {
        PyErr_SetString(PyExc_RuntimeError,
                        "check_random_bounds handles only integral, floating-point and boolean types");
        return -1;
    }
    bool whole = !gt__dtype_is_float(dtype);
    bool has_sign = dtype != GT_BOOL && dtype != GT_UINT8;
    int bits = dtype == GT_BOOL ? 1 : (int)(8 * gt__dtype_size(dtype)) - has_sign;
    int64_t most = bits < 63 ? ((int64_t)1 << bits) - 1 : INT64_MAX, least = has_sign ? -most - 1 : 0;
    bool first = low < least || low > most;
    if (!whole || (!first && high - 1 <= most))
        return 0;
    PyErr_Format(PyExc_RuntimeError, "%s is out of bounds for %s", first ? "from" : "to - 1",
                 gt__dtype_c_name(dtype));
    return -1;
}

/* Draw from the generator, if one was given; the client's own numbers do not advance. */
static PyObject *draw(const Creation *creation, gt_opcode op, int64_t low, int64_t high)
{
    gt_client *client = creation->client;
    gt_tensor *out = NULL;
    if (op != GT_OP_randint && !gt__dtype_is_inexact(creation->dtype)) {
        refuse_dtype(op == GT_OP_rand ? "check_uniform_bounds" : "normal_kernel_cpu", creation->dtype);
        return NULL;
    }
    if (op == GT_OP_randint && check_range(creation->dtype, low, high) < 0)
        return NULL;
    gt_random ours = {.seed = client->seed, .stream = client->stream};
    bool borrowed = creation->generator && creation->generator != Py_None;
    if (borrowed && gt__py_generator_enter(creation->generator, client) < 0)
        return NULL;
    gt_err err;
    if (op == GT_OP_randint)
        err = gt_randint(client, creation->dtype, creation->rank, creation->shape, low, high, &out);
    else
        err = draw_reals(creation, op, &out);
    PyObject *object = finish(creation, err, out);
    if (borrowed && gt__py_generator_leave(creation->generator, client, ours) < 0)
        Py_CLEAR(object);
    return object;
}

static PyObject *make(const Creation *creation, gt_opcode op, int64_t value)
{
    gt_tensor *out = NULL;
    if (op != GT_OP_full)
        return draw(creation, op, 0, 1);
    gt_err err = emit_full(creation, GT_LITERAL_INT, (gt_imm){.i = value}, &out);
    return finish(creation, err, out);
}

#define SIZED(name, op, value)                                                                                    \
    static PyObject *py_##name(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)            \
    {                                                                                                             \
        (void)module;                                                                                             \
        Creation creation = {.like = NULL};                                                                       \
        return sized(#name, args, nargs, kwnames, &creation) < 0 ? NULL : make(&creation, op, value);             \
    }                                                                                                             \
    static PyObject *py_##name##_like(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)     \
    {                                                                                                             \
        (void)module;                                                                                             \
        static const char *const names[] = {"input", OPTIONS, "generator", "memory_format"};                      \
        PyObject *values[OPTION_COUNT + 3];                                                                       \
        Creation creation = {.like = NULL};                                                                       \
        if (gt__py_parse(#name "_like", args, nargs, kwnames, names, OPTION_COUNT + 3, 1, values) < 0 ||          \
            like(values[0], values + 1, values[OPTION_COUNT + 2], &creation) < 0)                                 \
            return NULL;                                                                                          \
        creation.generator = values[OPTION_COUNT + 1];                                                            \
        return make(&creation, op, value);                                                                        \
    }
SIZED(zeros, GT_OP_full, 0)
SIZED(ones, GT_OP_full, 1)
SIZED(rand, GT_OP_rand, 0)
SIZED(randn, GT_OP_randn, 0)
#undef SIZED

static gt_dtype literal_dtype(gt_literal kind)
{
    return kind == GT_LITERAL_BOOL ? GT_BOOL : kind == GT_LITERAL_INT ? GT_INT64 : gt__default_dtype;
}

static PyObject *full_complex(const Creation *creation, const double *parts)
{
    gt_tensor *out = NULL;
    if (creation->dtype == GT_BOOL) {
        gt_imm truth = {.i = parts[0] != 0 || parts[1] != 0};
        gt_err filled = emit_full(creation, GT_LITERAL_BOOL, truth, &out);
        return finish(creation, filled, out);
    }
    gt_err err = gt_full_complex(creation->client, creation->dtype, creation->rank, creation->shape, parts[0],
                                 parts[1], &out);
    return finish(creation, err, out);
}

static PyObject *py_full(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    static const char *const names[] = {"size|shape", "fill_value", OPTIONS};
    PyObject *values[OPTION_COUNT + 2];
    Creation creation = {.like = NULL};
    gt_literal kind = GT_LITERAL_NONE;
    gt_imm value;
    gt_tensor *out = NULL;
    if (gt__py_parse("full", args, nargs, kwnames, names, OPTION_COUNT + 2, 2, values) < 0)
        return NULL;
    if (!values[0] || !values[1])
        return PyErr_Format(PyExc_TypeError, "full() needs size and fill_value");
    double parts[2];
    int is_complex = gt__py_complex(values[1], &parts[0], &parts[1]);
    if (is_complex < 0 || gt__py_ints(values[0], &creation.rank, creation.shape) < 0 ||
        (!is_complex && gt__py_number(values[1], &kind, &value) < 0) ||
        options(values + 2, is_complex ? GT_COMPLEX64 : literal_dtype(kind), &creation) < 0 ||
        !(creation.client = gt__py_client()))
        return NULL;
    if (is_complex)
        return full_complex(&creation, parts);
    gt_err err = emit_full(&creation, kind, value, &out);
    return finish(&creation, err, out);
}

static PyObject *py_full_like(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    static const char *const names[] = {"input", "fill_value", OPTIONS, "memory_format"};
    PyObject *values[OPTION_COUNT + 3];
    Creation creation = {.like = NULL};
    gt_literal kind = GT_LITERAL_NONE;
    gt_imm value;
    gt_tensor *out = NULL;
    if (gt__py_parse("full_like", args, nargs, kwnames, names, OPTION_COUNT + 3, 2, values) < 0)
        return NULL;
    if (!values[1])
        return PyErr_Format(PyExc_TypeError, "full_like() missing required argument 'fill_value'");
    double parts[2];
    int is_complex = gt__py_complex(values[1], &parts[0], &parts[1]);
    if (is_complex < 0 || (!is_complex && gt__py_number(values[1], &kind, &value) < 0) ||
        like(values[0], values + 2, values[OPTION_COUNT + 2], &creation) < 0)
        return NULL;
    if (is_complex)
        return full_complex(&creation, parts);
    gt_err err = emit_full(&creation, kind, value, &out);
    return finish(&creation, err, out);
}

/* low and high may be given as (high) or (low, high). */
static int bounds(PyObject *low_object, PyObject *high_object, int64_t *low, int64_t *high)
{
    *low = 0;
    if (!low_object && !high_object) {
        PyErr_SetString(PyExc_TypeError, "randint() needs high");
        return -1;
    }
    if (high_object && low_object && gt__py_int64(low_object, low) < 0)
        return -1;
    if (gt__py_int64(high_object ? high_object : low_object, high) < 0)
        return -1;
    if (*low >= *high)
        PyErr_Format(PyExc_RuntimeError,
                     "random_ expects 'from' to be less than 'to', but got from=%lld >= to=%lld", (long long)*low,
                     (long long)*high);
    return *low < *high ? 0 : -1;
}

static PyObject *py_randint(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    static const char *const names[] = {"low", "high", "size|shape", OPTIONS, "generator"};
    PyObject *values[OPTION_COUNT + 4];
    Creation creation = {.like = NULL};
    int64_t low, high;
    if (gt__py_parse("randint", args, nargs, kwnames, names, OPTION_COUNT + 4, 3, values) < 0)
        return NULL;
    if (nargs == 2 && !values[2] && !PyIndex_Check(args[1])) { /* randint(high, size) */
        values[2] = values[1];
        values[1] = NULL;
    }
    if (!values[2])
        return PyErr_Format(PyExc_TypeError, "randint() missing required argument 'size'");
    if (bounds(values[0], values[1], &low, &high) < 0 ||
        gt__py_ints(values[2], &creation.rank, creation.shape) < 0 ||
        options(values + 3, GT_INT64, &creation) < 0 || !(creation.client = gt__py_client()))
        return NULL;
    creation.generator = values[OPTION_COUNT + 3];
    return draw(&creation, GT_OP_randint, low, high);
}

static PyObject *py_randint_like(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    static const char *const names[] = {"input", "low", "high", OPTIONS, "generator", "memory_format"};
    PyObject *values[OPTION_COUNT + 5];
    Creation creation = {.like = NULL};
    int64_t low, high;
    if (gt__py_parse("randint_like", args, nargs, kwnames, names, OPTION_COUNT + 5, 3, values) < 0 ||
        bounds(values[1], values[2], &low, &high) < 0 ||
        like(values[0], values + 3, values[OPTION_COUNT + 4], &creation) < 0)
        return NULL;
    creation.generator = values[OPTION_COUNT + 3];
    return draw(&creation, GT_OP_randint, low, high);
}

/* ---- ranges ---------------------------------------------------------------------------------------------- */

typedef struct Number {
    gt_literal kind;
    gt_imm value;
} Number;

static int arange_count(const Number *n, bool exact, int64_t *count)
{
    double start = gt__py_literal_double(n[0].kind, n[0].value),
           end = gt__py_literal_double(n[1].kind, n[1].value);
    double step = gt__py_literal_double(n[2].kind, n[2].value);
    if (step == 0 || isnan(step)) {
        PyErr_SetString(PyExc_RuntimeError, "step must be nonzero");
        return -1;
    }
    if (!isfinite(start) || !isfinite(end)) {
        PyErr_SetString(PyExc_RuntimeError, "unsupported range: the bounds of arange must be finite");
        return -1;
    }
    if ((step > 0 && end < start) || (step < 0 && end > start)) {
        PyErr_SetString(PyExc_RuntimeError, "upper bound and lower bound inconsistent with step sign");
        return -1;
    }
    double size = ceil((end - start) / step);
    *count = size < 0x1p62 ? (int64_t)size : INT64_MAX;
    if (exact) {
        int64_t distance, by = n[2].value.i;
        bool far = __builtin_sub_overflow(n[1].value.i, n[0].value.i, &distance) || distance == INT64_MIN;
        if (!far)
            *count = distance / by + (distance % by != 0);
    }
    return 0;
}

static PyObject *py_arange(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    static const char *const names[] = {"start", "end|stop", "step", OPTIONS};
    PyObject *values[OPTION_COUNT + 3];
    Creation creation = {.like = NULL};
    if (gt__py_parse("arange", args, nargs, kwnames, names, OPTION_COUNT + 3, 3, values) < 0)
        return NULL;
    if (!values[1] && values[0]) { /* arange(end) */
        values[1] = values[0];
        values[0] = NULL;
    }
    if (!values[1])
        return PyErr_Format(PyExc_TypeError, "arange() missing required argument 'end'");
    Number n[3] = {
        {.kind = GT_LITERAL_INT, .value.i = 0}, {.kind = GT_LITERAL_INT}, {.kind = GT_LITERAL_INT, .value.i = 1}};
    bool exact = true;
    for (int k = 0; k < 3; k++) {
        if (values[k] && gt__py_number(values[k], &n[k].kind, &n[k].value) < 0)
            return NULL;
        exact = exact && n[k].kind != GT_LITERAL_FLOAT;
    }
    int64_t count;
    if (options(values + 3, exact ? GT_INT64 : gt__default_dtype, &creation) < 0)
        return NULL;
    if (!exact &&
        !gt__dtype_is_float(creation.dtype)) { /* as in PyTorch the bounds of integers are cut to integers */
        for (int k = 0; k < 3; k++) {
            double value = gt__py_literal_double(n[k].kind, n[k].value);
            if (!(fabs(value) < 0x1p63))
                return PyErr_Format(PyExc_RuntimeError, "unsupported range: the bounds of arange must be finite");
            n[k] = (Number){.kind = GT_LITERAL_INT, .value.i = (int64_t)value};
        }
        exact = true;
    }
    if (creation.dtype == GT_BOOL || gt__dtype_is_complex(creation.dtype)) {
        refuse_dtype("arange_cpu", creation.dtype);
        return NULL;
    }
    if (arange_count(n, exact, &count) < 0 || !(creation.client = gt__py_client()))
        return NULL;
    gt_literal kind = exact ? GT_LITERAL_INT : GT_LITERAL_FLOAT;
    for (int k = 0; k < 3 && !exact; k++)
        n[k].value.f = gt__py_literal_double(n[k].kind, n[k].value);
    gt_tensor *out = NULL;
    gt_err err = gt__emit_arange(creation.client, creation.dtype, count, kind, n[0].value, n[2].value, &out);
    return finish(&creation, err, out);
}

static PyObject *py_linspace(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    static const char *const names[] = {"start", "end|stop", "steps|num", OPTIONS};
    PyObject *values[OPTION_COUNT + 3];
    Creation creation = {.like = NULL};
    Number n[2];
    int64_t steps;
    if (gt__py_parse("linspace", args, nargs, kwnames, names, OPTION_COUNT + 3, 3, values) < 0)
        return NULL;
    if (!values[0] || !values[1] || !values[2])
        return PyErr_Format(PyExc_TypeError, "linspace() needs start, end and steps");
    for (int k = 0; k < 2; k++)
        if (gt__py_number(values[k], &n[k].kind, &n[k].value) < 0)
            return NULL;
    if (gt__py_int64(values[2], &steps) < 0 || options(values + 3, gt__default_dtype, &creation) < 0)
        return NULL;
    if (steps < 0)
        return PyErr_Format(PyExc_RuntimeError, "number of steps must be non-negative");
    creation.client = gt__py_client();
    if (!creation.client)
        return NULL;
    double start = gt__py_literal_double(n[0].kind, n[0].value),
           end = gt__py_literal_double(n[1].kind, n[1].value);
    gt_imm first = {.f = start}, step = {.f = steps > 1 ? (end - start) / (double)(steps - 1) : 0};
    gt_tensor *out = NULL;
    gt_tensor *exact = NULL; /* converted to integers at the end, since a step may be a fraction */
    bool whole = !gt__dtype_is_float(creation.dtype);
    gt_err err = gt__emit_arange(creation.client, whole ? GT_FLOAT64 : creation.dtype, steps, GT_LITERAL_FLOAT,
                                 first, step, whole ? &exact : &out);
    if (err == GT_OK && whole)
        err = gt_cast(exact, creation.dtype, &out);
    gt_tensor_release(exact);
    return finish(&creation, err, out);
}

static PyObject *py_eye(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    static const char *const names[] = {"n", "m", OPTIONS};
    PyObject *values[OPTION_COUNT + 2];
    Creation creation = {.like = NULL};
    int64_t rows, columns;
    gt_tensor *out = NULL;
    if (gt__py_parse("eye", args, nargs, kwnames, names, OPTION_COUNT + 2, 2, values) < 0)
        return NULL;
    if (!values[0])
        return PyErr_Format(PyExc_TypeError, "eye() missing required argument 'n'");
    if (gt__py_int64(values[0], &rows) < 0)
        return NULL;
    columns = rows;
    if ((values[1] && values[1] != Py_None && gt__py_int64(values[1], &columns) < 0) ||
        options(values + 2, gt__default_dtype, &creation) < 0 || !(creation.client = gt__py_client()))
        return NULL;
    gt_err err = gt_eye(creation.client, creation.dtype, rows, columns, &out);
    return finish(&creation, err, out);
}

/* ---- from data ------------------------------------------------------------------------------------------- */

static PyObject *from_object(PyObject *object, Creation *creation)
{
    gt_tensor *tensor = NULL;
    creation->client = gt__py_is_tensor(object) ? ((TensorObject *)object)->tensor->client : gt__py_client();
    int found = 0;
    if (!creation->client)
        return NULL;
    if (gt__py_is_tensor(object)) {
        tensor = gt__py_hold(object);
        found = tensor ? 1 : -1;
    } else if (!PyList_Check(object) && !PyTuple_Check(object) && !PyFloat_CheckExact(object) &&
               !PyLong_CheckExact(object)) {
        found = gt__py_from_array(object, creation->client, &tensor);
    }
    if (found == 0)
        found = gt__py_from_sequence(object, creation->client, creation->has_dtype, creation->dtype, &tensor);
    if (found < 0)
        return NULL;
    if (creation->has_dtype && (gt_dtype)tensor->meta.dtype != creation->dtype) {
        gt_tensor *given = tensor;
        gt_err err =
            gt__py_enter(creation->client) < 0 ? GT_ERR_INTERRUPTED : gt_cast(given, creation->dtype, &tensor);
        gt_tensor_release(given);
        return finish(creation, err, tensor);
    }
    if (gt__py_is_tensor(object)) { /* a copy: the value apart from the object's gradients and writes */
        gt_tensor *given = tensor;
        gt_err err = gt__tensor_detach(given, &tensor);
        if (err == GT_OK)
            tensor->inference = 0;
        gt_tensor_release(given);
        return finish(creation, err, tensor);
    }
    return finish(creation, GT_OK, tensor);
}

static PyObject *py_tensor(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    static const char *const names[] = {"data", OPTIONS};
    PyObject *values[OPTION_COUNT + 1];
    Creation creation = {.like = NULL};
    if (gt__py_parse("tensor", args, nargs, kwnames, names, OPTION_COUNT + 1, 2, values) < 0 ||
        options(values + 1, GT_FLOAT32, &creation) < 0)
        return NULL;
    return values[0] ? from_object(values[0], &creation)
                     : PyErr_Format(PyExc_TypeError, "tensor() missing required argument 'data'");
}

/* The same, but a tensor of the wanted dtype is returned itself. */
static PyObject *py_as_tensor(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    static const char *const names[] = {"data", OPTIONS};
    PyObject *values[OPTION_COUNT + 1];
    Creation creation = {.like = NULL};
    if (gt__py_parse("as_tensor", args, nargs, kwnames, names, OPTION_COUNT + 1, 2, values) < 0 ||
        options(values + 1, GT_FLOAT32, &creation) < 0)
        return NULL;
    if (!values[0])
        return PyErr_Format(PyExc_TypeError, "as_tensor() missing required argument 'data'");
    if (gt__py_is_tensor(values[0]) &&
        (!creation.has_dtype || creation.dtype == (gt_dtype)((TensorObject *)values[0])->tensor->meta.dtype))
        return Py_NewRef(values[0]);
    return from_object(values[0], &creation);
}

static PyObject *py_from_numpy(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    static const char *const names[] = {"array|ndarray", "requires_grad"};
    PyObject *values[2];
    Creation creation = {.requires_grad = false};
    gt_tensor *out = NULL;
    if (gt__py_parse("from_numpy", args, nargs, kwnames, names, 2, 2, values) < 0 ||
        gt__py_flag(values[1], &creation.requires_grad) < 0)
        return NULL;
    if (!values[0])
        return PyErr_Format(PyExc_TypeError, "from_numpy() missing required argument 'array'");
    gt_client *client = gt__py_client();
    int found = client ? gt__py_from_array(values[0], client, &out) : -1;
    if (found == 0)
        PyErr_Format(PyExc_TypeError, "expected np.ndarray (got %s)", Py_TYPE(values[0])->tp_name);
    return found == 1 ? finish(&creation, GT_OK, out) : NULL;
}

PyMethodDef gt__py_create_functions[] = {
    FAST("tensor", py_tensor, "tensor(data, *, dtype=None, requires_grad=False): from lists, numbers or arrays."),
    FAST("as_tensor", py_as_tensor, "as_tensor(data, dtype=None): the same; a Tensor stays itself."),
    FAST("from_numpy", py_from_numpy,
         "from_numpy(array, requires_grad=False): a copy of the array, its dtype kept."),
    FAST("zeros", py_zeros, "zeros(*size, dtype=None, requires_grad=False)"),
    FAST("ones", py_ones, "ones(*size, dtype=None, requires_grad=False)"),
    FAST("empty", py_zeros, "empty(*size, dtype=None, requires_grad=False): zeros."),
    FAST("rand", py_rand, "rand(*size, generator=None, dtype=None, requires_grad=False): uniform in [0, 1)."),
    FAST("randn", py_randn, "randn(*size, generator=None, dtype=None, requires_grad=False): standard normal."),
    FAST("full", py_full, "full(size, fill_value, *, dtype=None, requires_grad=False)"),
    FAST("randint", py_randint, "randint(low=0, high, size, *, dtype=None): integers in [low, high)."),
    FAST("zeros_like", py_zeros_like, "zeros_like(input, *, dtype=None, requires_grad=False)"),
    FAST("ones_like", py_ones_like, "ones_like(input, *, dtype=None, requires_grad=False)"),
    FAST("empty_like", py_zeros_like, "empty_like(input, *, dtype=None, requires_grad=False): zeros."),
    FAST("rand_like", py_rand_like, "rand_like(input, *, dtype=None, requires_grad=False)"),
    FAST("randn_like", py_randn_like, "randn_like(input, *, dtype=None, requires_grad=False)"),
    FAST("full_like", py_full_like, "full_like(input, fill_value, *, dtype=None, requires_grad=False)"),
    FAST("randint_like", py_randint_like, "randint_like(input, low=0, high, *, dtype=None)"),
    FAST("arange", py_arange, "arange(start=0, end, step=1, *, dtype=None, requires_grad=False)"),
    FAST("linspace", py_linspace, "linspace(start, end, steps, *, dtype=None, requires_grad=False)"),
    FAST("eye", py_eye, "eye(n, m=None, *, dtype=None, requires_grad=False): ones on the diagonal."),
    {.ml_name = NULL},
};

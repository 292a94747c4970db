/*
 * reduce.c: reductions and scans. A REDUCE row of ops.def is a method name(dim=None, keepdim=False, dtype=None);
 * dim may be spelled axis, be an int or a tuple; keepdim may be spelled keepdims.
 */
#include "extension.h"

#include "client/autograd.h"

#include <string.h>

typedef struct Reduction {
    uint32_t axes; /* 0: all */
    bool keepdim;
    double correction;
    gt_dtype dtype; /* the dtype= argument, or the input's */
    bool has_dtype;
    gt_tensor *input; /* retained: the tensor, or its cast to dtype= */
} Reduction;

enum { DIM, KEEPDIM, DTYPE, CORRECTION, UNBIASED, PARAMETERS };

/* var(dim, unbiased, keepdim) and var(unbiased) are PyTorch's older positional forms. */
static void var_positions(gt_py_args args, Py_ssize_t nargs, PyObject **values)
{
    if (nargs >= 1 && PyBool_Check(args[0])) {
        values[UNBIASED] = args[0];
        values[DIM] = NULL;
    } else if (nargs >= 2) {
        values[UNBIASED] = args[1];
        values[KEEPDIM] = nargs >= 3 ? args[2] : NULL;
        values[DTYPE] = NULL;
    }
}

static int correction_from(PyObject *const *values, double *correction)
{
    bool unbiased = true;
    if (gt__py_flag(values[UNBIASED] == Py_None ? NULL : values[UNBIASED], &unbiased) < 0)
        return -1;
    *correction = unbiased;
    if (values[CORRECTION] && values[CORRECTION] != Py_None) {
        *correction = PyFloat_AsDouble(values[CORRECTION]);
        if (*correction == -1 && PyErr_Occurred())
            return -1;
    }
    return 0;
}

static int reduction_parse(const char *name, PyObject *self, bool is_var, gt_py_args args, Py_ssize_t nargs,
                           PyObject *kwnames, Reduction *reduction)
{
    static const char *const names[] = {"dim|axis", "keepdim|keepdims", "dtype", "correction|ddof", "unbiased"};
    PyObject *values[PARAMETERS];
    *reduction = (Reduction){.keepdim = false};
    if (gt__py_parse(name, args, nargs, kwnames, names, is_var ? PARAMETERS : DTYPE, is_var ? 3 : 2, values) < 0) {
        if (is_var || !kwnames) /* the last two are for var only */
            return -1;
        PyErr_Clear();
        if (gt__py_parse(name, args, nargs, kwnames, names, CORRECTION, 2, values) < 0)
            return -1;
    } else if (!is_var) {
        values[DTYPE] = NULL;
    }
    if (is_var) {
        var_positions(args, nargs, values);
        if (correction_from(values, &reduction->correction) < 0)
            return -1;
    }
    int64_t dims[GT_MAX_RANK];
    int count;
    gt_dtype dtype = GT_FLOAT32;
    if (gt__py_dims(values[DIM], &count, dims) < 0 || gt__py_flag(values[KEEPDIM], &reduction->keepdim) < 0 ||
        gt__py_dtype(values[DTYPE], &dtype) < 0)
        return -1;
    gt_tensor *a = gt__py_use(self);
    if (!a || gt__py_wrap_axes(dims, count, a->meta.rank, &reduction->axes) < 0)
        return -1;
    reduction->has_dtype = values[DTYPE] && values[DTYPE] != Py_None;
    reduction->dtype = reduction->has_dtype ? dtype : (gt_dtype)a->meta.dtype;
    if (reduction->dtype == (gt_dtype)a->meta.dtype) {
        reduction->input = gt_tensor_retain(a);
        return 0;
    }
    gt_err err = gt_cast(a, reduction->dtype, &reduction->input);
    if (err != GT_OK)
        gt__py_raise(err);
    return err == GT_OK ? 0 : -1;
}

/* sum(dtype=int32) of integers is computed in int64, like every sum of integers. */
static gt_err narrow_result(bool has_dtype, gt_dtype dtype, gt_tensor **out)
{
    gt_tensor *wide = *out;
    if (!has_dtype || (gt_dtype)wide->meta.dtype == dtype)
        return GT_OK;
    gt_err err = gt_cast(wide, dtype, out);
    gt_tensor_release(wide);
    return err;
}

/* As in PyTorch, any() and all() of uint8 are uint8. */
static gt_err answer_in_bytes(gt_opcode op, gt_tensor **out)
{
    return narrow_result(gt__op_table[op].types == GT_TYPES_BOOL, GT_UINT8, out);
}

/* As in PyTorch, a mean, variance or deviation of integers needs a floating dtype=, where there is one. */
static bool takes_dtype(gt_opcode op, gt_dtype dtype, bool optional)
{
    if (gt__dtype_is_inexact(dtype) || (op != GT_OP_mean && op != GT_OP_var))
        return true;
    if (op == GT_OP_var)
        PyErr_SetString(PyExc_RuntimeError, "std and var only support floating point and complex dtypes");
    else
        PyErr_Format(PyExc_RuntimeError,
                     "mean(): could not infer output dtype. %s dtype must be either a floating point or complex "
                     "dtype. Got: %s",
                     optional ? "Optional" : "Input", gt__dtype_kind(dtype));
    return false;
}

/* Whether dimensions are given, which logsumexp() needs. */
static bool names_axes(Py_ssize_t nargs, PyObject *kwnames)
{
    bool found = nargs > 0;
    for (Py_ssize_t k = 0; !found && kwnames && k < PyTuple_GET_SIZE(kwnames); k++)
        found = PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, k), "dim") == 0 ||
                PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, k), "axis") == 0;
    return found;
}

static PyObject *reduce(gt_opcode op, const char *name, PyObject *self, gt_py_args args, Py_ssize_t nargs,
                        PyObject *kwnames)
{
    gt_tensor *out = NULL;
    gt_err err;
    if (op == GT_OP_logsumexp && !names_axes(nargs, kwnames))
        return PyErr_Format(PyExc_TypeError, "%s() missing 1 required positional arguments: \"dim\"", name);
    if (nargs == 0 && !kwnames && op != GT_OP_var) {
        gt_tensor *a = gt__py_use(self);
        if (!a || !takes_dtype(op, (gt_dtype)a->meta.dtype, false))
            return NULL;
        err = gt__emit_reduce(op, a, 0, false, 0, &out);
        if (err == GT_OK && (gt_dtype)a->meta.dtype == GT_UINT8)
            err = answer_in_bytes(op, &out);
        return gt__py_result(err, out);
    }
    Reduction reduction;
    if (reduction_parse(name, self, op == GT_OP_var, args, nargs, kwnames, &reduction) < 0)
        return NULL;
    if (!takes_dtype(op, reduction.dtype, reduction.has_dtype)) {
        gt_tensor_release(reduction.input);
        return NULL;
    }
    err = gt__emit_reduce(op, reduction.input, reduction.axes, reduction.keepdim, reduction.correction, &out);
    gt_tensor_release(reduction.input);
    if (err == GT_OK && reduction.dtype == GT_UINT8)
        err = answer_in_bytes(op, &out);
    if (err == GT_OK && gt__op_table[op].types == GT_TYPES_SUM)
        err = narrow_result(reduction.has_dtype, reduction.dtype, &out);
    return gt__py_result(err, out);
}

#define REDUCE(name, types, grad)                                                                                 \
    static PyObject *method_##name(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)          \
    {                                                                                                             \
        return reduce(GT_OP_##name, #name, self, args, nargs, kwnames);                                           \
    }
#include "core/ops.def"

/* The square root of a variance. Where that is 0 the gradient is 0, as in PyTorch. */
static gt_err root_of_variance(gt_tensor *variance, gt_tensor **out)
{
    if (!variance->node)
        return gt_sqrt(variance, out);
    gt_tensor *positive = NULL, *kept = NULL;
    gt_imm zero = {.i = 0};
    gt_err err = gt__emit_binary_literal(GT_OP_ne, variance, GT_LITERAL_INT, zero, false, &positive);
    if (err == GT_OK)
        err = gt__emit_ternary(GT_OP_where, positive, variance, GT_LITERAL_NONE, zero, NULL, GT_LITERAL_INT, zero,
                               &kept);
    if (err == GT_OK)
        err = gt_sqrt(kept, out);
    gt_tensor_release(positive);
    gt_tensor_release(kept);
    return err;
}

/* Halves are rounded once, after the root: a variance may be too large for float16. */
static PyObject *std_of_halves(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    gt_tensor *a = gt__py_hold(self), *wide = NULL, *root = NULL, *out = NULL;
    if (!a)
        return NULL;
    gt_dtype dtype = (gt_dtype)a->meta.dtype;
    gt_err cast = gt_cast(a, GT_FLOAT32, &wide);
    PyObject *widened = gt__py_result(cast, wide);
    PyObject *variance = widened ? reduce(GT_OP_var, "std", widened, args, nargs, kwnames) : NULL;
    gt_tensor_release(a);
    Py_XDECREF(widened);
    if (!variance)
        return NULL;
    gt_err err = root_of_variance(((TensorObject *)variance)->tensor, &root);
    if (err == GT_OK)
        err = gt_cast(root, dtype, &out);
    gt_tensor_release(root);
    Py_DECREF(variance);
    return gt__py_result(err, out);
}

static PyObject *method_std(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (gt__dtype_is_half((gt_dtype)((TensorObject *)self)->tensor->meta.dtype))
        return std_of_halves(self, args, nargs, kwnames);
    PyObject *variance = reduce(GT_OP_var, "std", self, args, nargs, kwnames);
    if (!variance)
        return NULL;
    gt_tensor *out = NULL;
    gt_err err = root_of_variance(((TensorObject *)variance)->tensor, &out);
    Py_DECREF(variance);
    return gt__py_result(err, out);
}

/* ---- along one axis -------------------------------------------------------------------------------------- */

typedef gt_err arg_function(gt_tensor *a, int axis, bool keepdims, gt_tensor **out);

static PyObject *arg_reduce(arg_function *function, const char *name, PyObject *self, gt_py_args args,
                            Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"dim|axis", "keepdim|keepdims"};
    PyObject *values[2];
    bool keepdim = false;
    int64_t dim;
    int axis = -1;
    if (gt__py_parse(name, args, nargs, kwnames, names, 2, 2, values) < 0 || gt__py_flag(values[1], &keepdim) < 0)
        return NULL;
    bool has_dim = values[0] && values[0] != Py_None;
    if (has_dim && gt__py_int64(values[0], &dim) < 0)
        return NULL;
    gt_tensor *a = gt__py_use(self), *out = NULL;
    if (!a || (has_dim && gt__py_wrap_axis(dim, a->meta.rank, &axis) < 0))
        return NULL;
    if (a->meta.rank == 0)
        axis = -1;
    gt_err err = function(a, axis, keepdim, &out);
    return gt__py_result(err, out);
}

static PyObject *method_argmax(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    return arg_reduce(gt_argmax, "argmax", self, args, nargs, kwnames);
}

static PyObject *method_argmin(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    return arg_reduce(gt_argmin, "argmin", self, args, nargs, kwnames);
}

/* A row of form SCAN or SOFTMAX: name(dim, dtype=None). */
static PyObject *along(gt_opcode op, const char *name, PyObject *self, gt_py_args args, Py_ssize_t nargs,
                       PyObject *kwnames)
{
    static const char *const names[] = {"dim|axis", "dtype"};
    PyObject *values[2];
    int64_t dim;
    int axis;
    gt_dtype dtype = GT_FLOAT32;
    if (gt__py_parse(name, args, nargs, kwnames, names, 2, 2, values) < 0)
        return NULL;
    if (!values[0])
        return PyErr_Format(PyExc_TypeError, "%s() missing required argument 'dim'", name);
    if (gt__py_int64(values[0], &dim) < 0 || gt__py_dtype(values[1], &dtype) < 0)
        return NULL;
    gt_tensor *a = gt__py_use(self), *input = NULL, *out = NULL;
    if (!a || gt__py_wrap_axis(dim, a->meta.rank, &axis) < 0)
        return NULL;
    bool has_dtype = values[1] && values[1] != Py_None;
    bool softmax = op == GT_OP_softmax || op == GT_OP_log_softmax;
    dtype = has_dtype ? dtype : (gt_dtype)a->meta.dtype;
    gt_err err = GT_OK;
    if (softmax && !gt__dtype_is_inexact(dtype)) {
        if (a->meta.numel)
            return PyErr_Format(PyExc_NotImplementedError, "\"%s%s_kernel_impl\" not implemented for '%s'", name,
                                axis == a->meta.rank - 1 ? "_lastdim" : "", gt__dtype_kind(dtype));
        err = dtype == (gt_dtype)a->meta.dtype ? gt_copy(a, &out) : gt_cast(a, dtype, &out);
        return gt__py_result(err, out);
    }
    if (dtype != (gt_dtype)a->meta.dtype)
        err = gt_cast(a, dtype, &input);
    else
        input = gt_tensor_retain(a);
    if (err == GT_OK)
        err = gt__emit_along(op, input, NULL, axis, &out);
    gt_tensor_release(input);
    if (err == GT_OK && gt__op_table[op].types == GT_TYPES_SUM)
        err = narrow_result(has_dtype, dtype, &out);
    return gt__py_result(err, out);
}

/* Retained; NULL for None. *err is -1 where it is neither None nor a tensor. */
static gt_tensor *optional_tensor(PyObject *object, int *err)
{
    if (!object || object == Py_None)
        return NULL;
    if (gt__py_is_tensor(object))
        return gt__py_hold(object);
    PyErr_Format(PyExc_TypeError, "normalisation: weight and bias must be tensors or None, not %s",
                 Py_TYPE(object)->tp_name);
    *err = -1;
    return NULL;
}

/* For layer_norm and group_norm of nn.functional. */
static PyObject *method_layer_norm(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"dims", "weight", "bias", "eps"};
    PyObject *values[4];
    int64_t dims = 1;
    int bad = 0;
    if (gt__py_parse("_layer_norm", args, nargs, kwnames, names, 4, 4, values) < 0 ||
        (values[0] && gt__py_int64(values[0], &dims) < 0))
        return NULL;
    double eps = values[3] ? PyFloat_AsDouble(values[3]) : 1e-5;
    if (eps == -1 && PyErr_Occurred())
        return NULL;
    gt_tensor *a = gt__py_hold(self), *weight = optional_tensor(values[1], &bad),
              *bias = optional_tensor(values[2], &bad);
    gt_tensor *out = NULL;
    bool ready = a && !bad && !PyErr_Occurred();
    gt_err err = ready ? gt_layer_norm(a, weight, bias, (int)(a->meta.rank - dims), eps, &out) : GT_OK;
    gt_tensor_release(a);
    gt_tensor_release(weight);
    gt_tensor_release(bias);
    return ready ? gt__py_result(err, out) : NULL;
}

static PyObject *method_batch_moments(PyObject *self, PyObject *unused)
{
    (void)unused;
    gt_tensor *a = gt__py_hold(self), *out = NULL;
    if (!a)
        return NULL;
    gt_err err = gt_batch_moments(a, &out);
    gt_tensor_release(a);
    return gt__py_result(err, out);
}

/* For batch_norm of nn.functional. With a variance, moments are the mean, and neither is of self. */
static PyObject *method_batch_norm(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"moments", "variance", "weight", "bias", "eps"};
    PyObject *values[5];
    gt_tensor *in[4] = {NULL}, *both = NULL, *out = NULL;
    int bad = 0;
    if (gt__py_parse("_batch_norm", args, nargs, kwnames, names, 5, 5, values) < 0)
        return NULL;
    double eps = PyFloat_AsDouble(values[4]);
    if (eps == -1 && PyErr_Occurred())
        return NULL;
    gt_tensor *a = gt__py_hold(self);
    for (int k = 0; k < 4; k++)
        in[k] = optional_tensor(values[k], &bad);
    bool ready = a && in[0] && !bad && !PyErr_Occurred();
    gt_err err = GT_OK;
    if (ready && in[1])
        err = gt__channel_rows(a, in[0], 0, in[1], 1, &both);
    if (ready && err == GT_OK)
        err = gt_batch_norm(a, both ? both : in[0], in[2], in[3], !in[1], eps, &out);
    gt_tensor_release(a);
    gt_tensor_release(both);
    for (int k = 0; k < 4; k++)
        gt_tensor_release(in[k]);
    return ready ? gt__py_result(err, out) : NULL;
}

#define ALONG(name)                                                                                               \
    static PyObject *method_##name(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)          \
    {                                                                                                             \
        return along(GT_OP_##name, #name, self, args, nargs, kwnames);                                            \
    }
ALONG(cumsum)
ALONG(cumprod)
ALONG(logcumsumexp)
ALONG(cummax)
ALONG(cummin)
ALONG(softmax)
ALONG(log_softmax)
#undef ALONG

/* The norm of order p; client/statistics.py has the other forms. */
static PyObject *method_vector_norm(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"p", "dim", "keepdim"};
    PyObject *values[3];
    int64_t dims[GT_MAX_RANK];
    int count;
    uint32_t axes;
    bool keepdim = false;
    if (gt__py_parse("norm", args, nargs, kwnames, names, 3, 3, values) < 0 ||
        gt__py_dims(values[1], &count, dims) < 0 || gt__py_flag(values[2], &keepdim) < 0)
        return NULL;
    double p = values[0] ? PyFloat_AsDouble(values[0]) : 2;
    if (p == -1 && PyErr_Occurred())
        return NULL;
    gt_tensor *a = gt__py_use(self), *out = NULL;
    if (!a || gt__py_wrap_axes(dims, count, a->meta.rank, &axes) < 0)
        return NULL;
    gt_err err = gt_norm(a, p, axes, keepdim, &out);
    return gt__py_result(err, out);
}

/* x.max() has another gradient than x.amax() where elements are NaN or were overwritten. */
static PyObject *extreme_of_all(PyObject *self, gt_opcode op)
{
    gt_tensor *a = gt__py_use(self), *out = NULL;
    if (!a)
        return NULL;
    gt_err err = gt__emit_reduce(op, a, 0, false, GT_EXTREME_OF_ALL, &out);
    return gt__py_result(err, out);
}

static PyObject *method_max_of_all(PyObject *self, PyObject *unused)
{
    (void)unused;
    return extreme_of_all(self, GT_OP_amax);
}

static PyObject *method_min_of_all(PyObject *self, PyObject *unused)
{
    (void)unused;
    return extreme_of_all(self, GT_OP_amin);
}

/* self._as_median(value, skips_nan): the value, computed from detached elements, with the gradient of a median. The value is that of
 * the last axes of self. */
static PyObject *method_as_median(PyObject *self, PyObject *args)
{
    PyObject *value;
    int skips_nan;
    if (!PyArg_ParseTuple(args, "O!p", gt__py_tensor_type, &value, &skips_nan))
        return NULL;
    gt_tensor *a = gt_tensor_retain(gt__py_use(self)), *of = a ? gt__py_use(value) : NULL, *out = NULL;
    if (!of) {
        gt_tensor_release(a);
        return NULL;
    }
    uint32_t axes = (1u << a->meta.rank) - (1u << of->meta.rank);
    gt_err err = gt_copy(of, &out);
    if (err == GT_OK && a->node && gt__grad_enabled())
        err = gt__autograd_record_reduce(GT_OP_amax, a, axes, skips_nan ? GT_NANMEDIAN_OF_ALL : GT_MEDIAN_OF_ALL,
                                         &out);
    gt_tensor_release(a);
    if (err != GT_OK) {
        gt_tensor_release(out);
        out = NULL;
    }
    return gt__py_result(err, out);
}

PyMethodDef gt__py_reduce_methods[] = {
#define REDUCE(name, types, grad)                                                                                 \
    FAST(#name, method_##name, #name "(dim=None, keepdim=False, *, dtype=None): reduce."),
#include "core/ops.def"
    FAST("std", method_std, "std(dim=None, *, correction=1, keepdim=False): the standard deviation."),
    FAST("argmax", method_argmax, "argmax(dim=None, keepdim=False): where the largest element is."),
    FAST("argmin", method_argmin, "argmin(dim=None, keepdim=False): where the smallest element is."),
    NOARGS("_batch_moments", method_batch_moments,
           "_batch_moments(): mean and variance of each channel, (2, channels)."),
    FAST("_batch_norm", method_batch_norm,
         "_batch_norm(moments, variance, weight, bias, eps): each channel normalised."),
    FAST("_layer_norm", method_layer_norm,
         "_layer_norm(dims, weight, bias, eps): over the last `dims` dimensions."),
    FAST("cumsum", method_cumsum, "cumsum(dim, *, dtype=None): the running sum along a dimension."),
    FAST("cumprod", method_cumprod, "cumprod(dim, *, dtype=None): the running product along a dimension."),
    FAST("logcumsumexp", method_logcumsumexp,
         "logcumsumexp(dim): the logarithm of the running sum of exponentials."),
    {.ml_name = "_max_of_all", .ml_meth = method_max_of_all, .ml_flags = METH_NOARGS, .ml_doc = "_max_of_all()"},
    {.ml_name = "_min_of_all", .ml_meth = method_min_of_all, .ml_flags = METH_NOARGS, .ml_doc = "_min_of_all()"},
    {.ml_name = "_as_median", .ml_meth = method_as_median, .ml_flags = METH_VARARGS},
    FAST("_cummax_indices", method_cummax, "_cummax_indices(dim): where the largest so far is."),
    FAST("_cummin_indices", method_cummin, "_cummin_indices(dim): where the smallest so far is."),
    FAST("softmax", method_softmax, "softmax(dim, dtype=None): exp(x) normalised to sum 1 along a dimension."),
    FAST("log_softmax", method_log_softmax, "log_softmax(dim, dtype=None): the logarithm of softmax, stable."),
    FAST("_vector_norm", method_vector_norm, "_vector_norm(p=2, dim=None, keepdim=False)."),
    {.ml_name = NULL},
};

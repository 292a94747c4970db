/* gather.c: elements picked and written by index tensors: gather, scatter and its kin, index_select, searchsorted. */
#include "alias.h"

#include <string.h>

#include "client/signals.h"

typedef struct Addressing { /* both tensors are retained: converting other arguments runs Python code */
    gt_tensor *a;
    gt_tensor *index;
    int axis;
    bool scalar;     /* a is 0-d and was reshaped to (1,) */
    unsigned looked; /* dimensions that index had before */
} Addressing;

static void address_clear(Addressing *at)
{
    gt_tensor_release(at->a);
    gt_tensor_release(at->index);
}

/* Reshape a 0-d tensor to (1,). */
static gt_err as_list(gt_tensor **tensor)
{
    gt_tensor *list;
    if ((*tensor)->meta.rank)
        return GT_OK;
    GT_TRY(gt_reshape(*tensor, 1, (int64_t[]){1}, &list));
    gt_tensor_release(*tensor);
    *tensor = list;
    return GT_OK;
}

/* Reshape the result back to 0 dimensions, if `scalar`. */
static gt_err as_scalar(gt_err err, bool scalar, gt_tensor **out)
{
    gt_tensor *single;
    if (err != GT_OK || !scalar)
        return err;
    err = gt_reshape(*out, 0, NULL, &single);
    gt_tensor_release(*out);
    *out = err == GT_OK ? single : NULL;
    return err;
}

/* The worker checks the elements of an index. */
static int address(PyObject *self, PyObject *dim, PyObject *index, Addressing *at)
{
    gt_tensor *given, *wide = NULL;
    int64_t axis;
    *at = (Addressing){.index = NULL};
    if (gt__py_int64(dim, &axis) < 0 || !(at->a = gt__py_use(self)))
        return -1;
    gt_tensor_retain(at->a);
    if (gt__py_wrap_axis(axis, at->a->meta.rank, &at->axis) < 0 ||
        gt__py_tensor_argument(index, at->a->client, "index", &given) < 0) {
        address_clear(at);
        return -1;
    }
    gt_err err = GT_OK;
    if (given->meta.dtype == GT_BOOL || gt__dtype_is_inexact((gt_dtype)given->meta.dtype))
        err = gt__fail(GT_ERR_TYPE, "Expected dtype int32/int64 for index, not %s",
                       gt__dtype_name((gt_dtype)given->meta.dtype));
    if (err == GT_OK && given->meta.dtype != GT_INT64)
        err = gt_cast(given, GT_INT64, &wide);
    if (wide)
        gt_tensor_release(given);
    at->index = wide ? wide : given;
    at->scalar = at->a->meta.rank == 0;
    at->looked = at->index->meta.rank;
    if (err == GT_OK && at->scalar)
        err = as_list(&at->a);
    if (err == GT_OK && at->scalar)
        err = as_list(&at->index);
    if (err == GT_OK)
        return 0;
    address_clear(at);
    gt__py_raise(err);
    return -1;
}

/* index_select; a 0-d index counts as a list of one. */
static gt_err take_rows(gt_tensor *a, gt_tensor *index, int axis, gt_tensor **out)
{
    gt_tensor *list = NULL;
    if (index->meta.rank)
        return gt__emit_pick(a, index, axis, GT_TAKE_SELECTED, out);
    gt_err err = gt_reshape(index, 1, (int64_t[]){1}, &list);
    if (err == GT_OK)
        err = gt__emit_pick(a, list, axis, GT_TAKE_SELECTED, out);
    gt_tensor_release(list);
    return err;
}

/* No elements of `a`, in the shape of the index; recorded. */
static gt_err no_elements(gt_tensor *a, const gt_meta *index, gt_tensor **out)
{
    const int64_t start = 0, step = 1, count = 0;
    gt_tensor *flat, *none;
    GT_TRY(gt_reshape(a, 1, &a->meta.numel, &flat));
    gt_err err = gt_slice(flat, &start, &step, &count, &none);
    gt_tensor_release(flat);
    GT_TRY(err);
    err = gt_reshape(none, index->rank, index->shape, out);
    gt_tensor_release(none);
    return err;
}

static PyObject *gather(const char *name, gt_err (*function)(gt_tensor *, gt_tensor *, int, gt_tensor **),
                        PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"dim|axis", "index|indices", "sparse_grad"};
    PyObject *values[3];
    Addressing at;
    if (gt__py_parse(name, args, nargs, kwnames, names, function == take_rows ? 2 : 3, 2, values) < 0)
        return NULL;
    if (!values[0] || !values[1])
        return PyErr_Format(PyExc_TypeError, "%s() needs dim and index", name);
    if (address(self, values[0], values[1], &at) < 0)
        return NULL;
    gt_tensor *out = NULL;
    gt_err err;
    if (at.index->meta.numel == 0 && function == gt_gather) /* of any rank, as in PyTorch */
        err = no_elements(at.a, &at.index->meta, &out);
    else
        err = function(at.a, at.index, at.axis, &out);
    err = as_scalar(err, at.scalar && (!at.looked || function == take_rows), &out);
    address_clear(&at);
    return gt__py_result(err, out);
}

static PyObject *method_gather(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    return gather("gather", gt_gather, self, args, nargs, kwnames);
}

static PyObject *method_take_rows(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    return gather("index_select", take_rows, self, args, nargs, kwnames);
}

/* take by int64 indices that need no conversion, for embeddings, which want them `plain`: not negative. */
static PyObject *method_pick_rows(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"dim", "index", "plain"};
    PyObject *values[3];
    int64_t dim = 0;
    bool plain = false;
    int axis;
    if (gt__py_parse("take", args, nargs, kwnames, names, 3, 3, values) < 0 || gt__py_dim(values[0], &dim) < 0 ||
        gt__py_flag(values[2], &plain) < 0)
        return NULL;
    if (!values[1] || !gt__py_is_tensor(values[1]))
        return PyErr_Format(PyExc_TypeError, "take() needs an index");
    if (gt__py_wrap_axis(dim, ((TensorObject *)self)->tensor->meta.rank, &axis) < 0)
        return NULL;
    gt_tensor *a = gt__py_hold(self), *index = a ? gt__py_hold(values[1]) : NULL, *out = NULL;
    gt_err err = GT_OK;
    if (index && !a->meta.rank)
        err = gt_copy(a, &out);
    else if (index)
        err = gt__emit_pick(a, index, axis, plain ? GT_TAKE_PLAIN : GT_TAKE_WRAPPED, &out);
    gt_tensor_release(a);
    gt_tensor_release(index);
    return index ? gt__py_result(err, out) : NULL;
}

/* src is a tensor of a's dtype, or a number, expanded to the index's shape. */
static gt_tensor *scatter_source(PyObject *object, const Addressing *at)
{
    gt_tensor *given, *fitting = NULL;
    gt_literal kind = GT_LITERAL_NONE;
    gt_imm value = {.i = 0};
    gt_dtype dtype = (gt_dtype)at->a->meta.dtype;
    if (gt__py_check_parts(object, dtype) < 0)
        return NULL;
    int found = gt__py_operand(object, at->a->client, (gt_dtype)at->a->meta.dtype, &given, &kind, &value);
    if (found == 0)
        PyErr_Format(PyExc_TypeError, "src must be a Tensor or a number, not %s", Py_TYPE(object)->tp_name);
    if (found != 1)
        return NULL;
    gt_err err = GT_OK;
    if (!given) {
        bool inner = gt__signal_inner(true);
        err = gt__dtype_check_number(dtype, kind, value);
        if (err == GT_OK)
            err = gt__emit_full(at->a->client, dtype, at->index->meta.rank, at->index->meta.shape, kind, value,
                                &fitting);
        gt__signal_inner(inner);
    } else if ((gt_dtype)given->meta.dtype != dtype) {
        gt_tensor_release(given);
        PyErr_SetString(PyExc_RuntimeError, "scatter(): Expected self.dtype to be equal to src.dtype");
        return NULL;
    } else {
        fitting = given;
    }
    if (err == GT_OK && at->scalar)
        err = as_list(&fitting);
    if (err == GT_OK)
        return fitting;
    gt_tensor_release(fitting);
    gt__py_raise(err);
    return NULL;
}

/* The scatter rows: a new tensor, or in place. `how` is what gt__emit_scatter takes. */
static PyObject *scatter_at(gt_opcode op, PyObject *self, PyObject *const *values, int64_t how, bool in_place)
{
    Addressing at;
    if (in_place && (gt__py_check_operands(self, NULL, 0) < 0 || gt__py_check_apart(self, values + 1, 2) < 0))
        return NULL;
    if (address(self, values[0], values[1], &at) < 0)
        return NULL;
    gt_tensor *src = scatter_source(values[2], &at), *out = NULL;
    PyObject *result = NULL;
    if (src) {
        unsigned held = 0;
        gt_err err = gt__py_held(in_place ? self : NULL, at.a, 1, &held);
        if (err == GT_OK)
            err = gt__emit_scatter(op, at.a, at.index, src, at.axis, how, held, &out);
        err = as_scalar(err, at.scalar, &out);
        const gt_alias *alias = ((TensorObject *)self)->alias;
        bool view = in_place && alias && alias->parent;
        if (view) /* a cut of the memory would keep the worker from writing into it */
            address_clear(&at);
        if (err != GT_OK || !in_place)
            result = gt__py_result(err, out);
        else if (gt__py_rebind(self, out) == 0)
            result = Py_NewRef(self);
        if (view) {
            gt_tensor_release(src);
            return result;
        }
    }
    gt_tensor_release(src);
    address_clear(&at);
    return result;
}

static PyObject *scatter(gt_opcode op, int64_t how, bool in_place, PyObject *self, gt_py_args args,
                         Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"dim|axis", "index", "src|value"};
    PyObject *values[3];
    const char *name = gt__op_table[op].name;
    if (gt__py_parse(name, args, nargs, kwnames, names, 3, 3, values) < 0)
        return NULL;
    if (!values[0] || !values[1] || !values[2])
        return PyErr_Format(PyExc_TypeError, "%s() needs dim, index and src", name);
    return scatter_at(op, self, values, how, in_place);
}

static int reduction_from(PyObject *object)
{
    static const char *const names[] = {"sum", "prod", "mean", "amax", "amin"};
    for (int k = 0; k < GT_SCATTER_KINDS; k++)
        if (PyUnicode_Check(object) && PyUnicode_CompareWithASCIIString(object, names[k]) == 0)
            return k;
    PyErr_Format(PyExc_RuntimeError, "reduce argument must be either sum, prod, mean, amax or amin, got %S.",
                 object);
    return -1;
}

static PyObject *scatter_reduce(bool in_place, PyObject *self, gt_py_args args, Py_ssize_t nargs,
                                PyObject *kwnames)
{
    static const char *const names[] = {"dim|axis", "index", "src", "reduce", "include_self"};
    PyObject *values[5];
    bool include_self = true;
    if (gt__py_parse("scatter_reduce", args, nargs, kwnames, names, 5, 4, values) < 0)
        return NULL;
    if (!values[0] || !values[1] || !values[2] || !values[3])
        return PyErr_Format(PyExc_TypeError, "scatter_reduce() needs dim, index, src and reduce");
    int reduction = reduction_from(values[3]);
    if (reduction < 0 || gt__py_flag(values[4], &include_self) < 0)
        return NULL;
    int64_t how = reduction | (include_self ? 0 : GT_SCATTER_WITHOUT_SELF);
    return scatter_at(GT_OP_scatter_reduce, self, values, how, in_place);
}

#define METHOD(name, function, ...)                                                                               \
    static PyObject *method_##name(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)          \
    {                                                                                                             \
        return function(__VA_ARGS__, self, args, nargs, kwnames);                                                 \
    }
METHOD(scatter, scatter, GT_OP_scatter, 0, false)
METHOD(scatter_inplace, scatter, GT_OP_scatter, 0, true)
METHOD(scatter_add, scatter, GT_OP_scatter_add, 0, false)
METHOD(scatter_add_inplace, scatter, GT_OP_scatter_add, 0, true)
METHOD(add_stepwise, scatter, GT_OP_scatter_add, GT_SCATTER_STEPWISE, false)
METHOD(add_stepwise_inplace, scatter, GT_OP_scatter_add, GT_SCATTER_STEPWISE, true)
METHOD(scatter_reduce, scatter_reduce, false)
METHOD(scatter_reduce_inplace, scatter_reduce, true)
#undef METHOD

/* The searchsorted row: sorted._search(values, right). searchsorted in client/picking.py handles dtypes and options. */
static PyObject *method_search(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"values", "right"};
    PyObject *values[2];
    bool right = false;
    if (gt__py_parse("searchsorted", args, nargs, kwnames, names, 2, 2, values) < 0 ||
        gt__py_flag(values[1], &right) < 0)
        return NULL;
    gt_tensor *a = gt__py_use(self), *other, *out = NULL;
    if (!a)
        return NULL;
    gt_tensor_retain(a);
    if (gt__py_tensor_argument(values[0] ? values[0] : Py_None, a->client, "values", &other) < 0) {
        gt_tensor_release(a);
        return NULL;
    }
    gt_err err = gt_searchsorted(a, other, right, &out);
    gt_tensor_release(a);
    gt_tensor_release(other);
    return gt__py_result(err, out);
}

PyMethodDef gt__py_gather_methods[] = {
    FAST("gather", method_gather, "gather(dim, index): elements picked along a dimension."),
    FAST("index_select", method_take_rows, "index_select(dim, index): whole slices picked along a dimension."),
    FAST("scatter", method_scatter, "scatter(dim, index, src): a copy with src written at index."),
    FAST("scatter_add", method_scatter_add, "scatter_add(dim, index, src): a copy with src added at index."),
    FAST("scatter_reduce", method_scatter_reduce,
         "scatter_reduce(dim, index, src, reduce, include_self=True): sum, prod, mean, amax or amin of what "
         "meets."),
    FAST("scatter_", method_scatter_inplace, "scatter_(dim, index, src): in place."),
    FAST("_add_stepwise", method_add_stepwise,
         "_add_stepwise(dim, index, src): scatter_add, halves rounded at each step."),
    FAST("_add_stepwise_", method_add_stepwise_inplace, "_add_stepwise_(dim, index, src): in place."),
    FAST("scatter_add_", method_scatter_add_inplace, "scatter_add_(dim, index, src): in place."),
    FAST("scatter_reduce_", method_scatter_reduce_inplace,
         "scatter_reduce_(dim, index, src, reduce, include_self=True): in place."),
    FAST("_pick_rows", method_pick_rows,
         "_pick_rows(dim, index, plain=False): whole slices by int64 indices; plain: negative ones are refused."),
    FAST("_search", method_search, "_search(values, right): searchsorted of one dtype."),
    {.ml_name = NULL},
};

/*
 * movement.c: data movement: cast, cat, stack, where, sorting orders, triangles; gather.c has gather and scatter. Each is one or two calls of the client. PyTorch's composed functions (sort, topk, split, roll, ...)
 * are written in Python, in python/gt/client.
 */
#include "alias.h"

#include <string.h>

#include "client/batch.h"
#include "client/signals.h"

/* ---- dtypes and copies ----------------------------------------------------------------------------------- */

/* A copy in the given format. Tensors are values, so an alias serves as one, unless autograd must distinguish the two. */
static PyObject *copy_of(PyObject *self, gt_py_format format)
{
    gt_tensor *tensor = gt__py_use(self), *out = NULL;
    if (!tensor)
        return NULL;
    gt_err err = tensor->node ? gt_copy(tensor, &out) : gt__tensor_detach(tensor, &out);
    if (err == GT_OK)
        out->inference = 0;
    return gt__py_formatted(gt__py_result(err, out), self, format);
}

static PyObject *cast(PyObject *self, gt_dtype dtype, gt_py_format format)
{
    gt_tensor *a = gt__py_use(self), *out = NULL;
    if (!a)
        return NULL;
    if ((gt_dtype)a->meta.dtype == dtype)
        return gt__py_has_format(self, format) ? Py_NewRef(self) : copy_of(self, format);
    gt_err err = gt_cast(a, dtype, &out);
    return gt__py_formatted(gt__py_result(err, out), self, format);
}

/* The dtype that an argument of to() names: 1: found, 0: a device, -1: an exception. */
static int wanted_dtype(PyObject *object, gt_dtype *dtype)
{
    if (gt__py_is_tensor(object)) {
        *dtype = (gt_dtype)((TensorObject *)object)->tensor->meta.dtype;
        return 1;
    }
    if (gt__py_is_device(object))
        return 0;
    if (gt__py_dtype(object, dtype) == 0)
        return 1;
    if (!PyUnicode_Check(object) && !PyLong_Check(object))
        return -1;
    PyErr_Clear();
    return gt__py_check_device(object);
}

/*
 * to(dtype, non_blocking, copy), to(other, ...), to(device, dtype, ...): a device changes nothing, since the dispatcher places
 * tensors.
 */
static PyObject *method_to(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"other|device", "dtype", "non_blocking", "copy", "memory_format"};
    PyObject *values[5];
    gt_dtype dtype = (gt_dtype)((TensorObject *)self)->tensor->meta.dtype;
    if (gt__py_parse("to", args, nargs, kwnames, names, 5, 4, values) < 0)
        return NULL;
    int first = values[0] && values[0] != Py_None ? wanted_dtype(values[0], &dtype) : 0;
    if (first < 0)
        return NULL;
    if (first && nargs > 1) { /* the positions after a dtype or a tensor */
        if (nargs > 2)
            values[3] = args[2];
        values[1] = NULL;
    } else if (values[1] && values[1] != Py_None && wanted_dtype(values[1], &dtype) < 0) {
        return NULL;
    }
    bool copy = false;
    gt_py_format format = GT_PY_PRESERVE;
    if (gt__py_flag(values[3], &copy) < 0 || gt__py_format(values[4], &format) < 0)
        return NULL;
    if (copy && (gt_dtype)((TensorObject *)self)->tensor->meta.dtype == dtype)
        return copy_of(self, format);
    return cast(self, dtype, format);
}

static PyObject *method_astype(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"dtype", "copy"};
    PyObject *values[2];
    gt_dtype dtype = (gt_dtype)((TensorObject *)self)->tensor->meta.dtype;
    if (gt__py_parse("astype", args, nargs, kwnames, names, 2, 1, values) < 0)
        return NULL;
    if (!values[0] || values[0] == Py_None)
        return PyErr_Format(PyExc_TypeError, "astype() missing required argument 'dtype'");
    return gt__py_dtype(values[0], &dtype) < 0 ? NULL : cast(self, dtype, GT_PY_PRESERVE);
}

/* name(memory_format=): 0, or -1. */
static int only_format(const char *name, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames,
                       gt_py_format *format)
{
    static const char *const names[] = {"memory_format"};
    PyObject *values[1];
    if (LIKELY(!nargs && !kwnames))
        return 0;
    return gt__py_parse(name, args, nargs, kwnames, names, 1, 1, values) < 0 ? -1
                                                                             : gt__py_format(values[0], format);
}

static PyObject *named_cast(const char *name, gt_dtype dtype, PyObject *self, gt_py_args args, Py_ssize_t nargs,
                            PyObject *kwnames)
{
    gt_py_format format = GT_PY_PRESERVE;
    return only_format(name, args, nargs, kwnames, &format) < 0 ? NULL : cast(self, dtype, format);
}

#define CAST(name, dtype)                                                                                         \
    static PyObject *method_##name(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)          \
    {                                                                                                             \
        return named_cast(#name, dtype, self, args, nargs, kwnames);                                              \
    }
CAST(float, GT_FLOAT32)
CAST(double, GT_FLOAT64)
CAST(half, GT_FLOAT16)
CAST(bfloat16, GT_BFLOAT16)
CAST(byte, GT_UINT8)
CAST(char, GT_INT8)
CAST(short, GT_INT16)
CAST(int, GT_INT32)
CAST(long, GT_INT64)
CAST(cfloat, GT_COMPLEX64)
CAST(cdouble, GT_COMPLEX128)
CAST(bool, GT_BOOL)
#undef CAST

static PyObject *method_clone(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    gt_py_format format = GT_PY_PRESERVE;
    return only_format("clone", args, nargs, kwnames, &format) < 0 ? NULL : copy_of(self, format);
}

/* A tensor that is not contiguous is copied, as far as the user can see. */
static PyObject *method_contiguous(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    gt_py_format format = GT_PY_CONTIGUOUS;
    if (only_format("contiguous", args, nargs, kwnames, &format) < 0)
        return NULL;
    return gt__py_has_format(self, format) ? Py_NewRef(self) : copy_of(self, format);
}

static PyObject *method_self(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)args;
    (void)nargs;
    (void)kwnames;
    return Py_NewRef(self);
}

/* ---- where ----------------------------------------------------------------------------------------------- */

static gt_dtype dtype_beside(PyObject *object)
{
    return gt__py_is_tensor(object) ? (gt_dtype)((TensorObject *)object)->tensor->meta.dtype : GT_FLOAT32;
}

/* A condition that is not bool: PyTorch still takes bytes. Takes the reference to *condition. */
static int where_condition(gt_tensor **condition)
{
    gt_tensor *given = *condition;
    gt_dtype dtype = (gt_dtype)given->meta.dtype;
    *condition = NULL;
    int status = -1;
    if (dtype != GT_UINT8)
        PyErr_Format(PyExc_RuntimeError,
                     "where expected condition to be a boolean tensor, but got a tensor with dtype %s",
                     gt__dtype_kind(dtype));
    else
        status =
            PyErr_WarnEx(PyExc_UserWarning,
                         "where received a uint8 condition tensor. This behavior is deprecated. Use a boolean "
                         "condition instead.",
                         1);
    gt_err err = status == 0 ? gt_cast(given, GT_BOOL, condition) : GT_OK;
    gt_tensor_release(given);
    if (err != GT_OK)
        gt__py_raise(err);
    return err == GT_OK ? status : -1;
}

/* where(condition, a, b), each a tensor or a number. The client is that of the first tensor. */
static PyObject *where(PyObject *const *objects, bool contiguous)
{
    gt_client *client = NULL;
    for (int k = 0; k < 3 && !client; k++)
        if (gt__py_is_tensor(objects[k])) {
            gt_tensor *tensor = gt__py_use(objects[k]);
            if (!tensor)
                return NULL;
            client = tensor->client;
        }
    if (!client && !(client = gt__py_client()))
        return NULL;
    gt_tensor *condition, *a = NULL, *b = NULL, *out = NULL;
    gt_literal kinds[2] = {GT_LITERAL_NONE, GT_LITERAL_NONE};
    gt_imm values[2] = {{.i = 0}, {.i = 0}};
    if (gt__py_tensor_argument(objects[0], client, "condition", &condition) < 0)
        return NULL;
    if (UNLIKELY(condition->meta.dtype != GT_BOOL) && where_condition(&condition) < 0)
        return NULL;
    int found = gt__py_operand(objects[1], client, dtype_beside(objects[2]), &a, &kinds[0], &values[0]);
    if (found == 1)
        found = gt__py_operand(objects[2], client, a ? (gt_dtype)a->meta.dtype : GT_FLOAT32, &b, &kinds[1],
                               &values[1]);
    PyObject *result = NULL;
    if (found == 1) {
        gt_err err =
            gt__emit_ternary(GT_OP_where, condition, a, kinds[0], values[0], b, kinds[1], values[1], &out);
        result = gt__py_elementwise(err, out, objects, contiguous ? 0 : 3);
    } else if (found == 0)
        PyErr_SetString(PyExc_TypeError, "where() takes Tensors and numbers");
    gt_tensor_release(condition);
    gt_tensor_release(a);
    gt_tensor_release(b);
    return result;
}

PyObject *gt__py_where(PyObject *const *objects)
{
    return where(objects, false);
}

static PyObject *py_where(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    static const char *const names[] = {"condition", "input|x", "other|y"};
    PyObject *values[3];
    if (gt__py_parse("where", args, nargs, kwnames, names, 3, 3, values) < 0)
        return NULL;
    if (values[0] && gt__py_is_tensor(values[0]) && !values[1] && !values[2])
        return PyObject_CallMethod(values[0], "nonzero", "O", Py_True); /* as_tuple */
    if (!values[0] || !values[1] || !values[2])
        return PyErr_Format(PyExc_TypeError, "where() needs condition, input and other");
    return gt__py_where(values);
}

/* a.where(condition, other) */
static PyObject *method_where(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"condition", "other"};
    PyObject *values[2];
    if (gt__py_parse("where", args, nargs, kwnames, names, 2, 2, values) < 0)
        return NULL;
    if (!values[0] || !values[1])
        return PyErr_Format(PyExc_TypeError, "where() needs condition and other");
    return gt__py_where((PyObject *[]){values[0], self, values[1]});
}

/* Whether some number of a dtype is too large for elements of another. */
static bool may_overflow(gt_dtype from, gt_dtype to)
{
    size_t size = gt__dtype_size(from);
    if (from == to || from == GT_BOOL || to == GT_BOOL || gt__dtype_is_complex(to))
        return false;
    if (!gt__dtype_is_float(to))
        return gt__dtype_is_float(from) || size >= gt__dtype_size(to);
    return gt__dtype_is_float(from) ? size > gt__dtype_size(to) || (from == GT_BFLOAT16 && to == GT_FLOAT16)
                                    : to == GT_FLOAT16 && size > 2;
}

/* As in PyTorch, a tensor with one number is read and checked like a number; it waits only if the number may be too large. */
static int check_filler(PyObject *value, gt_dtype dtype)
{
    if (!gt__py_is_tensor(value))
        return PyComplex_Check(value) ? 0 : gt__py_check_number(value, dtype);
    gt_dtype from = (gt_dtype)((TensorObject *)value)->tensor->meta.dtype;
    if (!gt__dtype_is_complex(dtype) && gt__dtype_is_complex(from)) {
        PyErr_Format(PyExc_RuntimeError, "value cannot be converted to type %s without overflow",
                     gt__dtype_scalar_name(dtype));
        return -1;
    }
    if (!may_overflow(from, dtype) || gt__batch_active())
        return 0;
    PyObject *number = PyObject_CallMethod(value, "item", NULL);
    int checked = number ? gt__py_check_number(number, dtype) : -1;
    Py_XDECREF(number);
    return checked;
}

static PyObject *method_masked_fill(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"mask", "value"};
    PyObject *values[2];
    if (gt__py_parse("masked_fill", args, nargs, kwnames, names, 2, 2, values) < 0)
        return NULL;
    if (!values[0] || !values[1])
        return PyErr_Format(PyExc_TypeError, "masked_fill() needs mask and value");
    if (gt__py_is_tensor(values[1]) && ((TensorObject *)values[1])->tensor->meta.rank)
        return PyErr_Format(
            PyExc_RuntimeError,
            "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with %d dimension(s).",
            ((TensorObject *)values[1])->tensor->meta.rank);
    if (gt__py_is_tensor(values[0]) && ((TensorObject *)values[0])->tensor->meta.dtype != GT_BOOL)
        return PyErr_Format(PyExc_RuntimeError,
                            "masked_fill_ only supports boolean masks, but got mask with dtype %s",
                            gt__dtype_c_name((gt_dtype)((TensorObject *)values[0])->tensor->meta.dtype));
    gt_dtype dtype = (gt_dtype)((TensorObject *)self)->tensor->meta.dtype;
    if (gt__py_check_parts(values[1], dtype) < 0 || check_filler(values[1], dtype) < 0)
        return NULL;
    if (dtype == GT_BOOL && PyFloat_Check(values[1]))
        values[1] = PyFloat_AS_DOUBLE(values[1]) != 0 ? Py_True : Py_False;
    PyObject *filled = where((PyObject *[]){values[0], values[1], self}, true);
    PyObject *result = filled ? cast(filled, dtype, GT_PY_PRESERVE) : NULL;
    Py_XDECREF(filled);
    return result;
}

/* ---- joining --------------------------------------------------------------------------------------------- */

/* As in PyTorch, tensors of shape (0,) can be joined with any others: they are ignored where the others have another rank. */
static bool counts_for_nothing(const gt_tensor *tensor)
{
    return tensor->meta.rank == 1 && tensor->meta.numel == 0;
}

/* The tensors of a sequence, retained; for stack, each with a new axis. */
static int join_operands(bool stacks, PyObject *sequence, int64_t dim, gt_tensor **tensors, int *axis)
{
    Py_ssize_t count = PyTuple_GET_SIZE(sequence);
    bool counted = false; /* from the end of the first tensor that has axes */
    *axis = 0;
    for (Py_ssize_t k = 0; k < count; k++) {
        PyObject *item = PyTuple_GET_ITEM(sequence, k);
        if (!gt__py_is_tensor(item)) {
            PyErr_Format(PyExc_TypeError, "expected Tensor as element %zd in argument 0, but got %s", k,
                         Py_TYPE(item)->tp_name);
            return -1;
        }
        gt_tensor *tensor = gt__py_use(item);
        if (!tensor)
            return -1;
        int rank = tensor->meta.rank;
        if (!stacks && rank == 0) {
            PyErr_Format(PyExc_RuntimeError, "zero-dimensional tensor (at position %zd) cannot be concatenated",
                         k);
            return -1;
        }
        if (!counted && (stacks || !counts_for_nothing(tensor) || k == count - 1)) {
            counted = true;
            if (gt__py_wrap_axis(dim, rank + stacks, axis) < 0)
                return -1;
        }
        if (!stacks || *axis > rank) {
            tensors[k] = gt_tensor_retain(tensor);
            continue;
        }
        int64_t shape[GT_MAX_RANK + 1];
        for (int j = 0; j <= rank; j++)
            shape[j] = j < *axis ? tensor->meta.shape[j] : j == *axis ? 1 : tensor->meta.shape[j - 1];
        gt_err err = gt_reshape(tensor, rank + 1, shape, &tensors[k]);
        if (err != GT_OK) {
            gt__py_raise(err);
            return -1;
        }
    }
    return 0;
}

/* Tensors that are ignored count for the dtype of the result, as in PyTorch: the first that remains is cast to it. */
static gt_err drop_empties(gt_tensor **tensors, int count, int *kept)
{
    bool others = false;
    gt_dtype dtype = (gt_dtype)tensors[0]->meta.dtype;
    *kept = 0;
    for (int k = 0; k < count; k++)
        others = others || tensors[k]->meta.rank != 1;
    for (int k = 0; others && k < count; k++)
        dtype = gt__dtype_promote(dtype, (gt_dtype)tensors[k]->meta.dtype);
    for (int k = 0; k < count; k++)
        if (others && counts_for_nothing(tensors[k]))
            gt_tensor_release(tensors[k]);
        else
            tensors[(*kept)++] = tensors[k];
    for (int k = *kept; k < count; k++)
        tensors[k] = NULL;
    if (*kept == count || dtype == (gt_dtype)tensors[0]->meta.dtype)
        return GT_OK;
    gt_tensor *cast;
    GT_TRY(gt_cast(tensors[0], dtype, &cast));
    gt_tensor_release(tensors[0]);
    tensors[0] = cast;
    return GT_OK;
}

/* The error of stack, with the shapes that it was given: its operands already have the new axis. */
static gt_err check_equal_sizes(gt_tensor *const *tensors, int count, int axis)
{
    for (int k = 1; k < count; k++) {
        const gt_meta *metas[] = {&tensors[0]->meta, &tensors[k]->meta};
        char texts[2][128];
        if (gt__meta_same_shape(metas[0], metas[1]))
            continue;
        for (int which = 0; which < 2; which++) {
            int64_t shape[GT_MAX_RANK];
            unsigned rank = 0;
            for (int j = 0; j < metas[which]->rank; j++)
                if (j != axis)
                    shape[rank++] = metas[which]->shape[j];
            gt__sizes_text(rank, shape, texts[which], sizeof texts[which]);
        }
        return gt__fail(GT_ERR_VALUE,
                        "stack expects each tensor to be equal size, but got %s at entry 0 and %s at entry %d",
                        texts[0], texts[1], k);
    }
    return GT_OK;
}

static PyObject *join(const char *name, bool stacks, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"tensors|arrays", "dim|axis"};
    PyObject *values[2], *result = NULL;
    if (gt__py_parse(name, args, nargs, kwnames, names, 2, 2, values) < 0)
        return NULL;
    if (!values[0])
        return PyErr_Format(PyExc_TypeError, "%s() missing required argument 'tensors'", name);
    if (gt__py_is_tensor(values[0]))
        return PyErr_Format(PyExc_TypeError,
                            "%s(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor", name);
    int64_t dim = 0;
    PyObject *sequence = gt__py_dim(values[1], &dim) < 0 ? NULL : PySequence_Tuple(values[0]);
    if (!sequence)
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(sequence);
    gt_tensor **tensors = PyMem_Calloc((size_t)count + 1, sizeof *tensors), *out = NULL;
    int axis;
    if (!tensors) {
        PyErr_NoMemory();
    } else if (count == 0) {
        if (stacks)
            PyErr_SetString(PyExc_RuntimeError, "stack expects a non-empty TensorList");
        else
            PyErr_Format(PyExc_ValueError, "%s(): expected a non-empty list of Tensors", name);
    } else if (join_operands(stacks, sequence, dim, tensors, &axis) == 0) {
        int used = (int)count;
        gt_err err = stacks ? check_equal_sizes(tensors, used, axis) : drop_empties(tensors, used, &used);
        err = err == GT_OK ? gt_cat(tensors, used, axis, &out) : err;
        result = gt__py_result(err, out);
    }
    for (Py_ssize_t k = 0; tensors && k < count; k++)
        gt_tensor_release(tensors[k]);
    PyMem_Free(tensors);
    Py_DECREF(sequence);
    return result;
}

static PyObject *py_cat(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    return join("cat", false, args, nargs, kwnames);
}

static PyObject *py_stack(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    return join("stack", true, args, nargs, kwnames);
}

/* ---- triangles, orders ----------------------------------------------------------------------------------- */

static PyObject *triangle(const char *name, gt_err (*function)(gt_tensor *, int64_t, gt_tensor **), PyObject *self,
                          gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"diagonal|k"};
    PyObject *value;
    int64_t diagonal = 0;
    if (gt__py_parse(name, args, nargs, kwnames, names, 1, 1, &value) < 0 || gt__py_dim(value, &diagonal) < 0)
        return NULL;
    gt_tensor *a = gt__py_use(self), *out = NULL;
    if (!a)
        return NULL;
    gt_err err = function(a, diagonal, &out);
    return gt__py_result(err, out);
}

static PyObject *method_tril(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    return triangle("tril", gt_tril, self, args, nargs, kwnames);
}

static PyObject *method_triu(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    return triangle("triu", gt_triu, self, args, nargs, kwnames);
}

/* The order of a 0-d tensor is that of its one element. */
static gt_tensor *zero_index(gt_tensor *a, gt_err *err)
{
    gt_tensor *out = NULL;
    *err = gt__emit_full(a->client, GT_INT64, 0, NULL, GT_LITERAL_INT, (gt_imm){.i = 0}, &out);
    return out;
}

static PyObject *method_argsort(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"dim|axis", "descending", "stable"};
    PyObject *values[3];
    bool descending = false;
    int64_t dim = -1;
    int axis;
    if (gt__py_parse("argsort", args, nargs, kwnames, names, 3, 3, values) < 0 ||
        gt__py_dim(values[0], &dim) < 0 || gt__py_flag(values[1], &descending) < 0)
        return NULL;
    gt_tensor *a = gt__py_use(self), *out = NULL;
    if (!a || gt__py_wrap_axis(dim, a->meta.rank, &axis) < 0)
        return NULL;
    gt_err err;
    if (a->meta.rank == 0)
        out = zero_index(a, &err);
    else
        err = gt_argsort(a, axis, descending, &out);
    return gt__py_result(err, out);
}

/* The indices alone; topk in tensor.py gathers the values. */
static PyObject *method_topk_indices(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"k", "dim|axis", "largest"};
    PyObject *values[3];
    bool largest = true;
    int64_t k, dim = -1;
    int axis;
    if (gt__py_parse("topk", args, nargs, kwnames, names, 3, 3, values) < 0)
        return NULL;
    if (!values[0])
        return PyErr_Format(PyExc_TypeError, "topk() missing required argument 'k'");
    if (gt__py_int64(values[0], &k) < 0 || gt__py_dim(values[1], &dim) < 0 || gt__py_flag(values[2], &largest) < 0)
        return NULL;
    gt_tensor *a = gt__py_use(self), *out = NULL;
    if (!a || gt__py_wrap_axis(dim, a->meta.rank, &axis) < 0)
        return NULL;
    int64_t size = a->meta.rank ? a->meta.shape[axis] : 1;
    if (k < 0 || k > size)
        return PyErr_Format(PyExc_RuntimeError, "selected index k out of range");
    gt_err err;
    if (a->meta.rank == 0)
        out = zero_index(a, &err);
    else
        err = gt_topk(a, k, axis, largest, &out);
    return gt__py_result(err, out);
}

PyMethodDef gt__py_movement_functions[] = {
    FAST(
        "where", py_where,
        "where(condition, input, other): input where condition holds, else other; alone, nonzero(as_tuple=True)."),
    FAST("cat", py_cat, "cat(tensors, dim=0): join along a dimension."),
    FAST("concat", py_cat, "concat(tensors, dim=0): cat."),
    FAST("concatenate", py_cat, "concatenate(tensors, axis=0): cat."),
    FAST("stack", py_stack, "stack(tensors, dim=0): join along a new dimension."),
    {.ml_name = NULL},
};

PyMethodDef gt__py_movement_methods[] = {
    FAST("to", method_to, "to(dtype): convert; devices are accepted and change nothing."),
    FAST("type", method_astype, "type(dtype): convert."),
    FAST("cast", method_astype, "cast(dtype): convert."),
    FAST("astype", method_astype, "astype(dtype): convert."),
    FAST("float", method_float, "float(): to float32."),
    FAST("double", method_double, "double(): to float64."),
    FAST("half", method_half, "half(): to float16."),
    FAST("bfloat16", method_bfloat16, "bfloat16(): to bfloat16."),
    FAST("byte", method_byte, "byte(): to uint8."),
    FAST("char", method_char, "char(): to int8."),
    FAST("cfloat", method_cfloat, "cfloat(): to complex64."),
    FAST("cdouble", method_cdouble, "cdouble(): to complex128."),
    FAST("short", method_short, "short(): to int16."),
    FAST("int", method_int, "int(): to int32."),
    FAST("long", method_long, "long(): to int64."),
    FAST("bool", method_bool, "bool(): to bool."),
    FAST("clone", method_clone, "clone(): another tensor with this value."),
    FAST("copy", method_clone, "copy(): another tensor with this value."),
    FAST("contiguous", method_contiguous, "contiguous(): self."),
    FAST("cpu", method_self, "cpu(): self."),
    FAST("cuda", method_self, "cuda(): self."),
    FAST("where", method_where, "where(condition, other): self where condition holds, else other."),
    FAST("masked_fill", method_masked_fill, "masked_fill(mask, value): value where mask holds."),
    FAST("tril", method_tril, "tril(diagonal=0): the lower triangle."),
    FAST("triu", method_triu, "triu(diagonal=0): the upper triangle."),
    FAST("argsort", method_argsort,
         "argsort(dim=-1, descending=False, stable=False): the order that sorts; stable."),
    FAST("_topk_indices", method_topk_indices, "_topk_indices(k, dim=-1, largest=True)."),
    {.ml_name = NULL},
};

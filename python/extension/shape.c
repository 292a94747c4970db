/*
 * shape.c: methods that rearrange a tensor without touching its elements: reshape, permute, expand, squeeze,
 * slices of one axis. Their results are views, which share the tensor's memory (alias.h). Indexing is in indexing.c.
 */
#include "alias.h"

/* Sizes and dimensions by position, or by one keyword. */
static int sizes(const char *name, const char *keyword, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames,
                 int *count, int64_t *values)
{
    if (kwnames && PyTuple_GET_SIZE(kwnames)) {
        PyObject *value;
        if (gt__py_parse(name, args, nargs, kwnames, &keyword, 1, 1, &value) < 0)
            return -1;
        return gt__py_ints(value, count, values);
    }
    return gt__py_shape(args, nargs, count, values);
}

static PyObject *method_reshape(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    int64_t shape[GT_MAX_RANK];
    int rank;
    if (sizes("reshape", "shape|size", args, nargs, kwnames, &rank, shape) < 0)
        return NULL;
    return gt__py_reshape(self, rank, shape, false);
}

/* PyTorch's view(dtype), which reinterprets bits, is not supported. */
static PyObject *method_view(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    int64_t shape[GT_MAX_RANK];
    int rank;
    if (nargs == 1 && Py_TYPE(args[0]) == gt__py_dtype_type)
        return PyErr_Format(PyExc_NotImplementedError, "view(dtype) is not supported; use to(dtype) to convert");
    if (sizes("view", "size|shape", args, nargs, kwnames, &rank, shape) < 0)
        return NULL;
    return gt__py_reshape(self, rank, shape, true);
}

static const gt_meta *other_meta(PyObject *other, const char *name)
{
    if (gt__py_is_tensor(other))
        return gt__py_meta(other);
    PyErr_Format(PyExc_TypeError, "%s() needs a Tensor, not %s", name, Py_TYPE(other)->tp_name);
    return NULL;
}

static PyObject *method_view_as(PyObject *self, PyObject *other)
{
    const gt_meta *meta = other_meta(other, "view_as");
    return meta ? gt__py_reshape(self, meta->rank, meta->shape, true) : NULL;
}

static PyObject *method_reshape_as(PyObject *self, PyObject *other)
{
    const gt_meta *meta = other_meta(other, "reshape_as");
    return meta ? gt__py_reshape(self, meta->rank, meta->shape, false) : NULL;
}

static PyObject *method_expand_as(PyObject *self, PyObject *other)
{
    const gt_meta *meta = other_meta(other, "expand_as");
    return meta ? gt__py_expand(self, meta->rank, meta->shape) : NULL;
}

static PyObject *method_flatten(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"start_dim", "end_dim"};
    PyObject *values[2];
    int64_t given[2] = {0, -1};
    if (gt__py_parse("flatten", args, nargs, kwnames, names, 2, 2, values) < 0 ||
        gt__py_dim(values[0], &given[0]) < 0 || gt__py_dim(values[1], &given[1]) < 0)
        return NULL;
    const gt_meta *meta = gt__py_meta(self);
    int first, last, rank = 0;
    if (gt__py_wrap_axis(given[0], meta->rank, &first) < 0 || gt__py_wrap_axis(given[1], meta->rank, &last) < 0)
        return NULL;
    if (meta->rank && first == last)
        return Py_NewRef(self);
    if (first > last)
        return PyErr_Format(PyExc_RuntimeError, "flatten() has invalid args: start_dim cannot come after end_dim");
    int64_t shape[GT_MAX_RANK] = {1};
    for (int k = 0; k < meta->rank; k++)
        if (k > first && k <= last)
            shape[rank - 1] *= meta->shape[k];
        else
            shape[rank++] = meta->shape[k];
    return gt__py_reshape(self, rank ? rank : 1, shape, false);
}

/* contiguous().view(-1): a view, or a copy also where reshape(-1) would be a view. */
static PyObject *method_ravel(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *ordered = PyObject_CallMethod(self, "contiguous", NULL);
    PyObject *flat = ordered ? gt__py_reshape(ordered, 1, (int64_t[]){-1}, true) : NULL;
    Py_XDECREF(ordered);
    return flat;
}

static PyObject *method_squeeze(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"dim|axis"};
    PyObject *dim;
    int64_t given[GT_MAX_RANK];
    int count;
    uint32_t axes;
    if (gt__py_parse("squeeze", args, nargs, kwnames, names, 1, 1, &dim) < 0 ||
        gt__py_dims(dim, &count, given) < 0)
        return NULL;
    const gt_meta *meta = gt__py_meta(self);
    if (gt__py_wrap_axes(given, count, meta->rank, &axes) < 0)
        return NULL;
    if (!dim || dim == Py_None)
        axes = ~0u;
    int kept[GT_MAX_RANK];
    unsigned rank = 0;
    for (int k = 0; k < meta->rank; k++)
        if (meta->shape[k] != 1 || !(axes >> k & 1))
            kept[rank++] = k;
    return gt__py_with_axes(self, rank, kept);
}

static PyObject *method_unsqueeze(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"dim|axis"};
    PyObject *dim;
    int64_t given;
    int axis;
    if (gt__py_parse("unsqueeze", args, nargs, kwnames, names, 1, 1, &dim) < 0)
        return NULL;
    if (!dim)
        return PyErr_Format(PyExc_TypeError, "unsqueeze() missing required argument 'dim'");
    if (gt__py_int64(dim, &given) < 0)
        return NULL;
    int rank = gt__py_meta(self)->rank, axes[GT_MAX_RANK];
    if (gt__py_wrap_axis(given, rank + 1, &axis) < 0)
        return NULL;
    if (rank == GT_MAX_RANK)
        return PyErr_Format(PyExc_RuntimeError, "tensors have at most %d dimensions", GT_MAX_RANK);
    for (int k = 0; k <= rank; k++)
        axes[k] = k < axis ? k : k == axis ? -1 : k - 1;
    return gt__py_with_axes(self, (unsigned)rank + 1, axes);
}

/* ---- order of axes --------------------------------------------------------------------------------------- */

static PyObject *permute(PyObject *self, int count, const int64_t *given)
{
    int axes[GT_MAX_RANK], rank = gt__py_meta(self)->rank;
    uint32_t seen = 0;
    if (count != rank)
        return PyErr_Format(
            PyExc_RuntimeError,
            "permute(): number of dimensions in the tensor input does not match the "
            "length of the desired ordering of dimensions i.e. input.dim() = %d is not equal to len(dims) = %d",
            rank, count);
    for (int k = 0; k < count; k++) {
        if (gt__py_wrap_axis(given[k], count, &axes[k]) < 0)
            return NULL;
        if (seen >> axes[k] & 1)
            return PyErr_Format(PyExc_RuntimeError, "permute(): duplicate dims are not allowed.");
        seen |= 1u << axes[k];
    }
    return gt__py_permute(self, axes);
}

static PyObject *method_permute(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    int64_t given[GT_MAX_RANK];
    int count;
    if (sizes("permute", "dims|axes", args, nargs, kwnames, &count, given) < 0)
        return NULL;
    return permute(self, count, given);
}

static PyObject *reverse_axes(PyObject *self)
{
    int axes[GT_MAX_RANK], rank = gt__py_meta(self)->rank;
    for (int k = 0; k < rank; k++)
        axes[k] = rank - 1 - k;
    return gt__py_permute(self, axes);
}

/* transpose(dim0, dim1) as PyTorch; without dimensions all of them are reversed, as NumPy. */
static PyObject *method_transpose(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"dim0|axis0", "dim1|axis1"};
    PyObject *values[2];
    int64_t given[2];
    int axis0, axis1;
    if (!kwnames && nargs != 2)
        return nargs ? method_permute(self, args, nargs, NULL) : reverse_axes(self);
    if (gt__py_parse("transpose", args, nargs, kwnames, names, 2, 2, values) < 0)
        return NULL;
    if (!values[0] || !values[1])
        return PyErr_Format(PyExc_TypeError, "transpose() needs two dimensions");
    if (gt__py_int64(values[0], &given[0]) < 0 || gt__py_int64(values[1], &given[1]) < 0)
        return NULL;
    int rank = gt__py_meta(self)->rank, axes[GT_MAX_RANK];
    if (gt__py_wrap_axis(given[0], rank, &axis0) < 0 || gt__py_wrap_axis(given[1], rank, &axis1) < 0)
        return NULL;
    for (int k = 0; k < rank; k++)
        axes[k] = k == axis0 ? axis1 : k == axis1 ? axis0 : k;
    return gt__py_permute(self, axes);
}

static PyObject *method_t(PyObject *self, PyObject *unused)
{
    (void)unused;
    int rank = gt__py_meta(self)->rank;
    if (rank > 2)
        return PyErr_Format(PyExc_RuntimeError, "t() expects a tensor with <= 2 dimensions, but self is %dD",
                            rank);
    return reverse_axes(self);
}

/* ---- broadcasting ---------------------------------------------------------------------------------------- */

static PyObject *method_expand(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    int64_t shape[GT_MAX_RANK];
    int rank;
    if (sizes("expand", "size|shape", args, nargs, kwnames, &rank, shape) < 0)
        return NULL;
    const gt_meta *meta = gt__py_meta(self);
    for (int k = 0; k < rank; k++) {
        int own = k - (rank - meta->rank);
        if (shape[k] != -1)
            continue;
        if (own < 0)
            return PyErr_Format(PyExc_RuntimeError,
                                "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing "
                                "dimension %d",
                                k);
        shape[k] = meta->shape[own];
    }
    return gt__py_expand(self, rank, shape);
}

/* ---- slices of one axis ---------------------------------------------------------------------------------- */

typedef struct Window {
    int64_t start[GT_MAX_RANK], step[GT_MAX_RANK], count[GT_MAX_RANK];
} Window;

static Window whole(const gt_meta *meta)
{
    Window window;
    for (int k = 0; k < meta->rank; k++) {
        window.start[k] = 0;
        window.step[k] = 1;
        window.count[k] = meta->shape[k];
    }
    return window;
}

static PyObject *method_flip(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    int64_t given[GT_MAX_RANK];
    int count, axis;
    uint32_t seen = 0;
    if (!nargs && !(kwnames && PyTuple_GET_SIZE(kwnames)))
        return PyErr_Format(PyExc_TypeError, "flip() missing 1 required positional arguments: \"dims\"");
    if (sizes("flip", "dims", args, nargs, kwnames, &count, given) < 0)
        return NULL;
    if (!nargs && PyIndex_Check(args[0]) && !gt__py_is_tensor(args[0]))
        return PyErr_Format(PyExc_TypeError, "flip(): argument 'dims' must be tuple of ints, not %s",
                            Py_TYPE(args[0])->tp_name);
    gt_tensor *a = gt__py_use(self), *out = NULL;
    if (!a)
        return NULL;
    Window window = whole(&a->meta);
    for (int k = 0; k < count; k++) {
        if (gt__py_wrap_axis(given[k], a->meta.rank, &axis) < 0)
            return NULL;
        if (seen >> axis & 1)
            return PyErr_Format(PyExc_RuntimeError, "dim %d appears multiple times in the list of dims", axis);
        seen |= 1u << axis;
        if (a->meta.rank == 0 || a->meta.shape[axis] == 0)
            continue;
        window.start[axis] = a->meta.shape[axis] - 1;
        window.step[axis] = -1;
    }
    gt_err err = gt_slice(a, window.start, window.step, window.count, &out);
    return gt__py_preserved(gt__py_result(err, out), self);
}

static PyObject *method_narrow(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"dim|axis", "start", "length"};
    PyObject *values[3];
    int64_t given, start, length;
    int axis;
    if (gt__py_parse("narrow", args, nargs, kwnames, names, 3, 3, values) < 0)
        return NULL;
    if (!values[0] || !values[1] || !values[2])
        return PyErr_Format(PyExc_TypeError, "narrow() needs dim, start and length");
    if (gt__py_int64(values[0], &given) < 0 || gt__py_int64(values[1], &start) < 0 ||
        gt__py_int64(values[2], &length) < 0)
        return NULL;
    const gt_meta *meta = gt__py_meta(self);
    if (meta->rank == 0)
        return PyErr_Format(PyExc_RuntimeError, "narrow() cannot be applied to a 0-dim tensor.");
    if (gt__py_wrap_axis(given, meta->rank, &axis) < 0)
        return NULL;
    int64_t size = meta->shape[axis];
    if (start < 0)
        start += size;
    if (start < 0 || start > size)
        return PyErr_Format(PyExc_IndexError, "start out of range (expected to be in range of [%lld, %lld])",
                            (long long)-size, (long long)size);
    if (length < 0 || length > size - start)
        return PyErr_Format(PyExc_RuntimeError, "start (%lld) + length (%lld) exceeds dimension size (%lld).",
                            (long long)start, (long long)length, (long long)size);
    gt_cut_arguments window;
    int axes[GT_MAX_RANK];
    for (int k = 0; k < meta->rank; k++) {
        window.window[0][k] = k == axis ? start : 0;
        window.window[1][k] = 1;
        window.window[2][k] = k == axis ? length : meta->shape[k];
        axes[k] = k;
    }
    return gt__py_slice(self, &window, meta->rank, axes);
}

/* ---- views that only strides can tell ---------------------------------------------------------------------- */

static PyObject *method_diagonal(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"offset", "dim1|axis1", "dim2|axis2"};
    PyObject *values[3];
    int64_t offset = 0, given[2] = {0, 1};
    int axis1, axis2;
    if (gt__py_parse("diagonal", args, nargs, kwnames, names, 3, 3, values) < 0 ||
        gt__py_dim(values[0], &offset) < 0 || gt__py_dim(values[1], &given[0]) < 0 ||
        gt__py_dim(values[2], &given[1]) < 0)
        return NULL;
    int rank = gt__py_meta(self)->rank;
    if (gt__py_wrap_axis(given[0], rank, &axis1) < 0 || gt__py_wrap_axis(given[1], rank, &axis2) < 0)
        return NULL;
    return gt__py_diagonal(self, offset, axis1, axis2);
}

static PyObject *method_unfold(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"dimension|dim|axis", "size", "step"};
    PyObject *values[3];
    int64_t given, size, step;
    int axis;
    if (gt__py_parse("unfold", args, nargs, kwnames, names, 3, 3, values) < 0)
        return NULL;
    if (!values[0] || !values[1] || !values[2])
        return PyErr_Format(PyExc_TypeError, "unfold() needs dimension, size and step");
    if (gt__py_int64(values[0], &given) < 0 || gt__py_int64(values[1], &size) < 0 ||
        gt__py_int64(values[2], &step) < 0)
        return NULL;
    if (gt__py_wrap_axis(given, gt__py_meta(self)->rank, &axis) < 0)
        return NULL;
    return gt__py_unfold(self, axis, size, step);
}

static PyObject *method_as_strided(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"size", "stride", "storage_offset"};
    PyObject *values[3], *out = NULL;
    int64_t shape[GT_MAX_RANK];
    gt_strides strides;
    int rank, count;
    if (gt__py_parse("as_strided", args, nargs, kwnames, names, 3, 3, values) < 0)
        return NULL;
    if (!values[0] || !values[1])
        return PyErr_Format(PyExc_TypeError, "as_strided() needs size and stride");
    gt__py_strides(self, &strides);
    if (gt__py_ints(values[0], &rank, shape) < 0 || gt__py_ints(values[1], &count, strides.step) < 0 ||
        (values[2] && values[2] != Py_None && gt__py_int64(values[2], &strides.offset) < 0))
        return NULL;
    if (rank != count)
        return PyErr_Format(PyExc_RuntimeError, "mismatch in length of strides and shape: %d and %d", count, rank);
    for (int k = 0; k < rank; k++)
        if (strides.step[k] < 0)
            return PyErr_Format(PyExc_RuntimeError,
                                "as_strided: Negative strides are not supported at the moment, got strides: %R",
                                values[1]);
    return gt__py_strided(self, rank, shape, &strides, &out) < 0 ? NULL : out;
}

PyMethodDef gt__py_shape_methods[] = {
    FAST("reshape", method_reshape, "reshape(*shape): the same elements in another shape; one size may be -1."),
    FAST("view", method_view, "view(*shape): the same memory in another shape."),
    {.ml_name = "view_as",
     .ml_meth = method_view_as,
     .ml_flags = METH_O,
     .ml_doc = "view_as(other): view in its shape."},
    {.ml_name = "reshape_as", .ml_meth = method_reshape_as, .ml_flags = METH_O, .ml_doc = "reshape_as(other)."},
    FAST("flatten", method_flatten, "flatten(start_dim=0, end_dim=-1): merge dimensions into one."),
    NOARGS("ravel", method_ravel, "ravel(): all elements in one dimension."),
    FAST("squeeze", method_squeeze, "squeeze(dim=None): drop dimensions of size 1."),
    FAST("unsqueeze", method_unsqueeze, "unsqueeze(dim): add a dimension of size 1."),
    FAST("permute", method_permute, "permute(*dims): reorder the dimensions."),
    FAST("transpose", method_transpose, "transpose(dim0, dim1): swap two dimensions; without any, reverse all."),
    FAST("swapaxes", method_transpose, "swapaxes(axis0, axis1): transpose."),
    FAST("swapdims", method_transpose, "swapdims(dim0, dim1): transpose."),
    NOARGS("t", method_t, "t(): the transpose of a matrix."),
    FAST("expand", method_expand, "expand(*sizes): broadcast; -1 keeps a size."),
    FAST("broadcast_to", method_expand, "broadcast_to(shape): expand."),
    {.ml_name = "expand_as", .ml_meth = method_expand_as, .ml_flags = METH_O, .ml_doc = "expand_as(other)."},
    FAST("flip", method_flip, "flip(*dims): reverse the order along dimensions."),
    FAST("narrow", method_narrow, "narrow(dim, start, length): a slice of one dimension."),
    FAST("diagonal", method_diagonal,
         "diagonal(offset=0, dim1=0, dim2=1): a diagonal of two dimensions, as the last."),
    FAST("as_strided", method_as_strided,
         "as_strided(size, stride, storage_offset=None): any elements of its memory, at these distances."),
    FAST("unfold", method_unfold,
         "unfold(dimension, size, step): windows; their elements are the last dimension."),
    {.ml_name = NULL},
};

/*
 * pyengine_call.c: the immediates, flags and tail of a call as keyword arguments. The table in core/op.h says where each form
 * has them; docs/engines.md lists the names.
 *
 * The names of an op's arguments are always the same, so the tuple of them is made with its first call.
 */
#include "pyengine.h"

#include "core/fft.h"
#include "core/linalg.h"
#include "core/window.h"

typedef struct Attributes {
    PyObject **values;
    const char *names[GT_PY_ATTRIBUTES];
    int count;
    bool failed;
} Attributes;

/* Takes the value; NULL: an exception is set. */
static void put(Attributes *a, const char *name, PyObject *value)
{
    assert(a->count < GT_PY_ATTRIBUTES);
    a->failed |= !value;
    a->names[a->count] = name;
    a->values[a->count++] = value;
}

static void put_integer(Attributes *a, const char *name, int64_t value)
{
    put(a, name, PyLong_FromLongLong(value));
}

static void put_unsigned(Attributes *a, const char *name, uint64_t value)
{
    put(a, name, PyLong_FromUnsignedLongLong(value));
}

static void put_real(Attributes *a, const char *name, double value)
{
    put(a, name, PyFloat_FromDouble(value));
}

static void put_truth(Attributes *a, const char *name, bool value)
{
    put(a, name, PyBool_FromLong(value));
}

static void put_text(Attributes *a, const char *name, const char *value)
{
    put(a, name, PyUnicode_InternFromString(value));
}

static void put_integers(Attributes *a, const char *name, unsigned count, const int64_t *values)
{
    put(a, name, gt__py_integers(count, values));
}

/* The axes of a mask, ascending; no bits: all `rank` of them. */
static void put_axes(Attributes *a, const char *name, uint64_t mask, unsigned rank)
{
    int64_t axes[GT_MAX_RANK];
    unsigned count = 0;
    for (unsigned axis = 0; axis < rank; axis++)
        if (!mask || mask >> axis & 1)
            axes[count++] = axis;
    put_integers(a, name, count, axes);
}

/* An immediate that is an element of a created tensor. */
static PyObject *element(gt_dtype dtype, gt_imm value, gt_imm imaginary)
{
    if (gt__dtype_is_complex(dtype))
        return PyComplex_FromDoubles(value.f, imaginary.f);
    if (gt__dtype_is_float(dtype))
        return PyFloat_FromDouble(value.f);
    return dtype == GT_BOOL ? PyBool_FromLong(value.i != 0) : PyLong_FromLongLong(value.i);
}

/* ---- by form --------------------------------------------------------------------------------------------------- */

/* Rows that take the numbers p and q. */
static const bool takes_numbers[GT_OP_COUNT] = {
#define UNARY_PQ(name, types, expr, grad) [GT_OP_##name] = true,
#define BINARY_PQ(name, types, expr, grad) [GT_OP_##name] = true,
#include "core/ops.def"
};

static void elementwise(Attributes *a, const gt_call *call)
{
    put(a, "compute", Py_NewRef(gt__py_dtype_text(call->compute)));
    if (takes_numbers[call->op]) {
        put_real(a, "p", call->ins->imm[0].f);
        put_real(a, "q", call->ins->imm[1].f);
    }
}

static void reduce(Attributes *a, const gt_call *call)
{
    put_axes(a, "axes", call->ins->imm[0].u, call->in[0]->meta.rank);
    put_truth(a, "keepdim", call->ins->flags & GT_FLAG_KEEPDIM);
    if (call->op == GT_OP_var)
        put_real(a, "correction", call->ins->imm[1].f);
    if (call->op == GT_OP_norm)
        put_real(a, "p", call->ins->imm[1].f);
}

static void argreduce(Attributes *a, const gt_call *call)
{
    int64_t axis = call->ins->imm[0].i;
    put(a, "axis", axis < 0 ? Py_NewRef(Py_None) : PyLong_FromLongLong(axis));
    put_truth(a, "keepdim", call->ins->flags & GT_FLAG_KEEPDIM);
}

static void fft(Attributes *a, const gt_call *call)
{
    static const char *const kinds[] = {
        [GT_FFT_COMPLEX] = "complex", [GT_FFT_REAL] = "real", [GT_FFT_TO_REAL] = "to_real"};
    gt_fft_spec spec = gt__fft_unpack(call->ins->imm[0].u);
    put_text(a, "kind", kinds[spec.kind]);
    put_axes(a, "axes", spec.axes, call->in[0]->meta.rank);
    put_integer(a, "half", spec.half);
    put_truth(a, "inverse", spec.inverse);
    put_real(a, "scale", call->ins->imm[1].f);
}

static void window(Attributes *a, const gt_call *call)
{
    gt_window w = gt__window_read(call->tail);
    unsigned spatial = call->ins->rank;
    put_integers(a, "kernel", spatial, w.kernel);
    put_integers(a, "strides", spatial, w.stride);
    put_integers(a, "padding", spatial, w.padding);
    put_integers(a, "dilation", spatial, w.dilation);
    put_integers(a, "size", spatial, w.size);
    put_integers(a, "windows", spatial, w.from);
    put_integer(a, "groups", w.groups);
    put_integer(a, "divisor", w.divisor);
    put_truth(a, "count_padding", w.count_padding);
}

static void resample(Attributes *a, const gt_call *call)
{
    static const char *const modes[GT_RESAMPLE_COUNT] = {[GT_RESAMPLE_NEAREST] = "nearest",
                                                         [GT_RESAMPLE_NEAREST_EXACT] = "nearest-exact",
                                                         [GT_RESAMPLE_LINEAR] = "linear",
                                                         [GT_RESAMPLE_CUBIC] = "cubic"};
    put_integer(a, "axis", call->ins->imm[0].i & 0xff);
    put_text(a, "mode", modes[call->ins->imm[0].i >> 8]);
    put_real(a, "step", call->ins->imm[1].f);
    put_truth(a, "align_corners", call->tail[0].i64[1]);
}

static void matrix(Attributes *a, const gt_call *call)
{
    static const char *const vectors[] = {
        [GT_VECTORS_REDUCED] = "reduced", [GT_VECTORS_FULL] = "full", [GT_VECTORS_NONE] = "none"};
    const gt_imm *imm = call->ins->imm;
    switch ((unsigned)call->op) {
    case GT_OP_pinv:
        put_real(a, "rtol", imm[0].f);
        put_real(a, "atol", imm[1].f);
        break;
    case GT_OP_cholesky:
        put_truth(a, "never_fail", imm[0].i);
        break;
    case GT_OP_lu:
        put_truth(a, "fail_if_singular", imm[0].i);
        break;
    case GT_OP_eigh:
    case GT_OP_qr:
    case GT_OP_svd:
    case GT_OP_eig:
        put_text(a, "vectors", vectors[imm[0].i]);
        if (call->op == GT_OP_eigh)
            put_truth(a, "upper", imm[1].i);
        break;
    default:
        break;
    }
}

static void scatter(Attributes *a, const gt_call *call)
{
    static const char *const kinds[GT_SCATTER_KINDS] = {[GT_SCATTER_SUM] = "sum",
                                                        [GT_SCATTER_PROD] = "prod",
                                                        [GT_SCATTER_MEAN] = "mean",
                                                        [GT_SCATTER_AMAX] = "amax",
                                                        [GT_SCATTER_AMIN] = "amin"};
    int64_t kind = call->ins->imm[1].i;
    put_integer(a, "axis", call->ins->imm[0].i);
    if (call->op == GT_OP_scatter_reduce) {
        put_text(a, "reduce", kinds[kind & ~GT_SCATTER_WITHOUT_SELF]);
        put_truth(a, "include_self", !(kind & GT_SCATTER_WITHOUT_SELF));
    }
}

static void sample(Attributes *a, const gt_call *call)
{
    put_unsigned(a, "seed", call->ins->imm[0].u);
    put_unsigned(a, "stream", call->ins->imm[1].u);
    if (call->op == GT_OP_multinomial) {
        put_integer(a, "samples", call->tail[0].i64[0]);
        put_truth(a, "replacement", call->tail[0].i64[1]);
    }
}

static void created(Attributes *a, const gt_call *call)
{
    gt_dtype dtype = (gt_dtype)call->out->meta.dtype;
    const gt_imm *imm = call->ins->imm;
    if (call->op == GT_OP_full)
        put(a, "value", element(dtype, imm[0], imm[1]));
    else if (call->op == GT_OP_eye)
        put_integer(a, "column", call->tail[0].i64[2]); /* of the diagonal in the first row */
    else {
        put(a, "start", element(dtype, imm[0], imm[1]));
        put(a, "step", element(dtype, imm[1], imm[1]));
        put_integer(a, "first", call->tail[0].i64[1]);
    }
}

static void drawn(Attributes *a, const gt_call *call)
{
    static const char *const names[] = {"low", "high", "first", "run", "run_step"};
    put_unsigned(a, "seed", call->ins->imm[0].u);
    put_unsigned(a, "stream", call->ins->imm[1].u);
    for (int k = 0; k < 5; k++)
        put_integer(a, names[k], call->tail[1].i64[k]);
}

/* Forms with one or two immediates, and those without. */
static void others(Attributes *a, const gt_call *call)
{
    const gt_imm *imm = call->ins->imm;
    switch ((gt_form)gt__op_table[call->op].form) {
    case GT_FORM_SCAN:
    case GT_FORM_SOFTMAX:
    case GT_FORM_SOFTMAX_BACKWARD:
    case GT_FORM_CAT:
    case GT_FORM_GATHER:
        put_integer(a, "axis", imm[0].i);
        break;
    case GT_FORM_SPARSE:
        put_truth(a, "transposed", imm[1].i);
        break;
    case GT_FORM_ATTENTION:
        put_real(a, "scale", imm[0].f);
        put_integer(a, "period", imm[1].i);
        break;
    case GT_FORM_LAYER_NORM:
        put_integer(a, "axis", imm[0].i);
        put_real(a, "eps", imm[1].f);
        break;
    case GT_FORM_BATCH_NORM:
        put_integer(a, "elements", imm[0].i);
        put_real(a, "eps", imm[1].f);
        break;
    case GT_FORM_SOLVE:
        put_truth(a, "upper", imm[0].i & GT_TRIANGLE_UPPER);
        put_truth(a, "unit", imm[0].i & GT_TRIANGLE_UNIT);
        break;
    case GT_FORM_TRIANGLE:
        put_integer(a, "diagonal", imm[0].i);
        break;
    case GT_FORM_TAKE:
        put_integer(a, "axis", imm[0].i);
        put_truth(a, "negative", !imm[1].i);
        break;
    case GT_FORM_ASSIGN:
        put_integers(a, "start", call->out->meta.rank, call->tail[0].i64);
        put_integers(a, "step", call->out->meta.rank, call->tail[1].i64);
        put_integers(a, "count", call->out->meta.rank, call->tail[2].i64);
        break;
    case GT_FORM_WRAP_INDEX:
        put_integer(a, "size", imm[0].i);
        put_integer(a, "axis", imm[1].i);
        break;
    case GT_FORM_MASK_INDEX:
        put_integer(a, "count", imm[0].i);
        break;
    case GT_FORM_ARGSORT:
        put_integer(a, "axis", imm[0].i);
        put_truth(a, "descending", imm[1].i);
        break;
    case GT_FORM_TOPK:
        put_integer(a, "axis", imm[0].i);
        put_integer(a, "k", imm[1].i);
        put_truth(a, "largest", !(call->ins->flags & GT_FLAG_SMALLEST));
        break;
    case GT_FORM_SEARCH:
        put_truth(a, "right", imm[0].i);
        break;
    default: /* MATMUL, RESHAPE, CAST, COPY */
        break;
    }
}

static void attributes(Attributes *a, const gt_call *call)
{
    static void (*const by_form[])(Attributes *, const gt_call *) = {
        [GT_FORM_UNARY] = elementwise, [GT_FORM_BINARY] = elementwise,  [GT_FORM_TERNARY] = elementwise,
        [GT_FORM_REDUCE] = reduce,     [GT_FORM_ARGREDUCE] = argreduce, [GT_FORM_FFT] = fft,
        [GT_FORM_CONV] = window,       [GT_FORM_CONV_WEIGHT] = window,  [GT_FORM_MAX_POOL] = window,
        [GT_FORM_MAX_INDEX] = window,  [GT_FORM_POOL] = window,         [GT_FORM_IM2COL] = window,
        [GT_FORM_RESAMPLE] = resample, [GT_FORM_MATRIX] = matrix,       [GT_FORM_SCATTER] = scatter,
        [GT_FORM_SAMPLE] = sample,     [GT_FORM_FULL] = created,        [GT_FORM_ARANGE] = created,
        [GT_FORM_EYE] = created,       [GT_FORM_RANDOM] = drawn,        [GT_FORM_CONTROL] = NULL,
    };
    unsigned form = gt__op_table[call->op].form;
    (by_form[form] ? by_form[form] : others)(a, call);
}

/* ---- the arguments --------------------------------------------------------------------------------------------- */

static PyObject *tuple_of_names(const Attributes *a)
{
    PyObject *names = PyTuple_New(a->count);
    for (int k = 0; names && k < a->count; k++) {
        PyObject *name = PyUnicode_InternFromString(a->names[k]);
        if (!name)
            Py_CLEAR(names);
        else
            PyTuple_SET_ITEM(names, k, name);
    }
    return names;
}

int gt__py_call_attributes(const gt_call *call, PyObject **values, PyObject **names)
{
    static PyObject *names_of[GT_OP_COUNT];
    Attributes a;
    a.values = values;
    a.count = 0;
    a.failed = false;
    attributes(&a, call);
    if (UNLIKELY(a.count && !a.failed && !names_of[call->op]))
        a.failed = !(names_of[call->op] = tuple_of_names(&a));
    if (UNLIKELY(a.failed)) {
        while (a.count)
            Py_XDECREF(values[--a.count]);
        return -1;
    }
    *names = names_of[call->op];
    return a.count;
}

PyObject *gt__py_call_literal(const gt_call *call, unsigned k)
{
    gt_imm value = call->value[k];
    switch ((gt_dtype)call->in[k]->meta.dtype) {
    case GT_BOOL:
        return PyBool_FromLong(*(const uint8_t *)&value != 0);
    case GT_INT64:
        return PyLong_FromLongLong(value.i);
    default:
        return PyFloat_FromDouble(value.f);
    }
}

/* spectral.c: views of complex tensors as real ones and back, Fourier transforms (gt/fft.py has PyTorch's signatures), and
 * products with sparse matrices (gt/sparse.py), and attention. */
#include "alias.h"

static PyObject *view_as(PyObject *object, gt_err (*function)(gt_tensor *, gt_tensor **))
{
    if (!gt__py_is_tensor(object))
        return PyErr_Format(PyExc_TypeError, "expected Tensor, not %s", Py_TYPE(object)->tp_name);
    gt_tensor *a = gt__py_use(object), *out = NULL;
    if (!a)
        return NULL;
    gt_err err = function(a, &out);
    return gt__py_result(err, out);
}

/* _as_real(a), _as_complex(a): new tensors, for composed functions. */
static PyObject *py_as_real(PyObject *module, PyObject *object)
{
    (void)module;
    return view_as(object, gt_view_as_real);
}

static PyObject *py_as_complex(PyObject *module, PyObject *object)
{
    (void)module;
    return view_as(object, gt_view_as_complex);
}

static PyObject *py_view_as_real(PyObject *module, PyObject *object)
{
    (void)module;
    if (!gt__py_is_tensor(object))
        return PyErr_Format(PyExc_TypeError, "view_as_real(): argument 'input' must be Tensor, not %s",
                            Py_TYPE(object)->tp_name);
    return gt__py_view_as_real(object);
}

static PyObject *py_view_as_complex(PyObject *module, PyObject *object)
{
    (void)module;
    if (!gt__py_is_tensor(object))
        return PyErr_Format(PyExc_TypeError, "view_as_complex(): argument 'input' must be Tensor, not %s",
                            Py_TYPE(object)->tp_name);
    return gt__py_view_as_complex(object);
}

/* _fft(a, kind, axes, inverse, scale): kind 'c', 'r' (real to half) or 'h' (half to real, an even number) or 'o' (odd). The
 * last of the axes is the one that is halved. */
static PyObject *py_fft(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *object, *axes_object;
    int kind, inverse, count;
    int64_t axes[GT_MAX_RANK];
    uint32_t mask = 0;
    double scale;
    if (!PyArg_ParseTuple(args, "O!COpd:_fft", gt__py_tensor_type, &object, &kind, &axes_object, &inverse,
                          &scale) ||
        gt__py_ints(axes_object, &count, axes) < 0)
        return NULL;
    for (int k = 0; k < count; k++)
        mask |= axes[k] >= 0 && axes[k] < GT_MAX_RANK ? 1u << axes[k] : 1u << GT_MAX_RANK;
    gt_tensor *a = gt__py_use(object), *out = NULL;
    if (!a)
        return NULL;
    int half = count ? (int)axes[count - 1] : 0;
    gt_err err = kind == 'c'   ? gt_fft(a, mask, inverse, scale, &out)
                 : kind == 'r' ? gt_fft_real(a, mask, half, inverse, scale, &out)
                               : gt_fft_to_real(a, mask, half, kind == 'o', inverse, scale, &out);
    return gt__py_result(err, out);
}

/* The tensors of three objects, held; false: exception. */
static bool hold_three(PyObject *const *objects, gt_tensor **tensors)
{
    bool all = true;
    for (int k = 0; k < 3; k++)
        all = all && (tensors[k] = gt__py_hold(objects[k]));
    return all;
}

static PyObject *release_three(bool held, gt_tensor **tensors, gt_err err, gt_tensor *out)
{
    for (int k = 0; k < 3; k++)
        gt_tensor_release(tensors[k]);
    return held ? gt__py_result(err, out) : NULL;
}

/* _sparse_mm(indices, values, dense, rows, transposed) */
static PyObject *py_sparse_mm(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *objects[3];
    long long rows;
    int transposed;
    if (!PyArg_ParseTuple(args, "O!O!O!Lp:_sparse_mm", gt__py_tensor_type, &objects[0], gt__py_tensor_type,
                          &objects[1], gt__py_tensor_type, &objects[2], &rows, &transposed))
        return NULL;
    gt_tensor *in[3] = {NULL, NULL, NULL}, *out = NULL;
    bool held = hold_three(objects, in);
    gt_err err = held ? gt_sparse_mm(in[0], in[1], in[2], rows, transposed, &out) : GT_OK;
    return release_three(held, in, err, out);
}

/* _attention(query, key, value, scale, period): core/attention.h */
static PyObject *py_attention(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *objects[3];
    double scale;
    long long period;
    if (!PyArg_ParseTuple(args, "O!O!O!dL:_attention", gt__py_tensor_type, &objects[0], gt__py_tensor_type,
                          &objects[1], gt__py_tensor_type, &objects[2], &scale, &period))
        return NULL;
    gt_tensor *in[3] = {NULL, NULL, NULL}, *out = NULL;
    bool held = hold_three(objects, in);
    gt_err err = held ? gt_attention(in[0], in[1], in[2], scale, period, &out) : GT_OK;
    return release_three(held, in, err, out);
}

/* _sampled_mm(indices, a, b) */
static PyObject *py_sampled_mm(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *objects[3];
    if (!PyArg_ParseTuple(args, "O!O!O!:_sampled_mm", gt__py_tensor_type, &objects[0], gt__py_tensor_type,
                          &objects[1], gt__py_tensor_type, &objects[2]))
        return NULL;
    gt_tensor *in[3] = {NULL, NULL, NULL}, *out = NULL;
    bool held = hold_three(objects, in);
    gt_err err = held ? gt_sampled_mm(in[0], in[1], in[2], &out) : GT_OK;
    return release_three(held, in, err, out);
}

PyMethodDef gt__py_spectral_functions[] = {
    {.ml_name = "_sparse_mm",
     .ml_meth = py_sparse_mm,
     .ml_flags = METH_VARARGS,
     .ml_doc = "_sparse_mm(indices, values, dense, rows, transposed)"},
    {.ml_name = "_attention",
     .ml_meth = py_attention,
     .ml_flags = METH_VARARGS,
     .ml_doc = "_attention(query, key, value, scale, period): for nn.functional.scaled_dot_product_attention"},
    {.ml_name = "_sampled_mm",
     .ml_meth = py_sampled_mm,
     .ml_flags = METH_VARARGS,
     .ml_doc = "_sampled_mm(indices, a, b)"},
    {.ml_name = "_as_real",
     .ml_meth = py_as_real,
     .ml_flags = METH_O,
     .ml_doc = "_as_real(a): pairs of real numbers."},
    {.ml_name = "_as_complex",
     .ml_meth = py_as_complex,
     .ml_flags = METH_O,
     .ml_doc = "_as_complex(a): complex numbers of pairs."},
    {.ml_name = "view_as_real",
     .ml_meth = py_view_as_real,
     .ml_flags = METH_O,
     .ml_doc = "view_as_real(input): a complex tensor with its parts as a last dimension of size 2."},
    {.ml_name = "view_as_complex",
     .ml_meth = py_view_as_complex,
     .ml_flags = METH_O,
     .ml_doc = "view_as_complex(input): pairs along the last dimension, which has size 2, as complex numbers."},
    {.ml_name = "_fft",
     .ml_meth = py_fft,
     .ml_flags = METH_VARARGS,
     .ml_doc = "_fft(a, kind, axes, inverse, scale)"},
    {.ml_name = NULL},
};

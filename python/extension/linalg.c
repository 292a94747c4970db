/*
 * linalg.c: linear algebra with positional arguments; gt/linalg.py adds PyTorch's names and signatures. Functions with
 * several results return tuples.
 */
#include "extension.h"

enum { MOST_RESULTS = 3 };

/* The tensor of an argument; NULL: exception. */
static gt_tensor *tensor_of(PyObject *object)
{
    if (!gt__py_is_tensor(object)) {
        PyErr_Format(PyExc_TypeError, "expected Tensor, not %s", Py_TYPE(object)->tp_name);
        return NULL;
    }
    return gt__py_use(object);
}

/* A tuple of `count` new objects; takes the tensors, also on failure. */
static PyObject *tuple_of(gt_err err, gt_tensor **tensors, int count)
{
    if (err != GT_OK)
        return gt__py_raise(err);
    PyObject *tuple = PyTuple_New(count);
    for (int k = 0; k < count; k++) {
        PyObject *object = gt__py_wrap(tensors[k]);
        if (!tuple || !object) {
            Py_CLEAR(tuple);
            Py_XDECREF(object);
        } else {
            PyTuple_SET_ITEM(tuple, k, object);
        }
    }
    return tuple;
}

/* ---- of one tensor ------------------------------------------------------------------------------------------ */

#define ONE(name)                                                                                                 \
    static PyObject *py_##name(PyObject *module, PyObject *object)                                                \
    {                                                                                                             \
        (void)module;                                                                                             \
        gt_tensor *a = tensor_of(object), *out = NULL;                                                            \
        if (!a)                                                                                                   \
            return NULL;                                                                                          \
        gt_err err = gt_##name(a, &out);                                                                          \
        return gt__py_result(err, out);                                                                           \
    }
ONE(inverse)
ONE(det)
ONE(cholesky)
ONE(svdvals)
ONE(eigvals)
#undef ONE

static PyObject *py_cofactor(PyObject *module, PyObject *object)
{
    (void)module;
    gt_tensor *a = tensor_of(object), *out = NULL;
    if (!a)
        return NULL;
    gt_err err = gt__emit_matrix(GT_OP_cofactor, a, (gt_imm){.i = 0}, (gt_imm){.i = 0}, &out);
    return gt__py_result(err, out);
}

static PyObject *py_cholesky_ex(PyObject *module, PyObject *object)
{
    (void)module;
    gt_tensor *a = tensor_of(object), *out = NULL;
    if (!a)
        return NULL;
    gt_err err = gt__emit_matrix(GT_OP_cholesky, a, (gt_imm){.i = 1}, (gt_imm){.i = 0}, &out);
    return gt__py_result(err, out);
}

/* (A, flag): a row whose packed result gt/linalg.py cuts; core/linalg.h says how it is packed. */
#define PACKED(name)                                                                                              \
    static PyObject *py_##name(PyObject *module, PyObject *args)                                                  \
    {                                                                                                             \
        (void)module;                                                                                             \
        PyObject *object;                                                                                         \
        int flag;                                                                                                 \
        if (!PyArg_ParseTuple(args, "Op:" #name, &object, &flag))                                                 \
            return NULL;                                                                                          \
        gt_tensor *a = tensor_of(object), *out = NULL;                                                            \
        if (!a)                                                                                                   \
            return NULL;                                                                                          \
        gt_err err = gt__emit_matrix(GT_OP_##name, a, (gt_imm){.i = flag}, (gt_imm){.i = 0}, &out);               \
        return gt__py_result(err, out);                                                                           \
    }
PACKED(lu)
PACKED(ldl)
PACKED(geqrf)
#undef PACKED

#define PAIR(name)                                                                                                \
    static PyObject *py_##name(PyObject *module, PyObject *object)                                                \
    {                                                                                                             \
        (void)module;                                                                                             \
        gt_tensor *a = tensor_of(object), *out[MOST_RESULTS];                                                     \
        if (!a)                                                                                                   \
            return NULL;                                                                                          \
        gt_err err = gt_##name(a, &out[0], &out[1]);                                                              \
        return tuple_of(err, out, 2);                                                                             \
    }
PAIR(slogdet)
PAIR(eig)
#undef PAIR

static PyObject *py_pinv(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *object;
    double rtol, atol;
    if (!PyArg_ParseTuple(args, "Odd:pinv", &object, &rtol, &atol))
        return NULL;
    gt_tensor *a = tensor_of(object), *out = NULL;
    if (!a)
        return NULL;
    gt_err err = gt_pinv(a, rtol, atol, &out);
    return gt__py_result(err, out);
}

/* (tensor, flag) -> a tuple of tensors */
#define DECOMPOSITION(name, count, ...)                                                                           \
    static PyObject *py_##name(PyObject *module, PyObject *args)                                                  \
    {                                                                                                             \
        (void)module;                                                                                             \
        PyObject *object;                                                                                         \
        int flag;                                                                                                 \
        if (!PyArg_ParseTuple(args, "Op:" #name, &object, &flag))                                                 \
            return NULL;                                                                                          \
        gt_tensor *a = tensor_of(object), *out[MOST_RESULTS];                                                     \
        if (!a)                                                                                                   \
            return NULL;                                                                                          \
        gt_err err = gt_##name(a, flag != 0, __VA_ARGS__);                                                        \
        return tuple_of(err, out, count);                                                                         \
    }
DECOMPOSITION(qr, 2, &out[0], &out[1])
DECOMPOSITION(svd, 3, &out[0], &out[1], &out[2])
DECOMPOSITION(eigh, 2, &out[0], &out[1])
DECOMPOSITION(eigvalsh, 1, &out[0])
#undef DECOMPOSITION

/* ---- of two tensors ----------------------------------------------------------------------------------------- */

/* (a, b, upper, unitriangular): the last two are for solve_triangular only. */
static PyObject *solve(PyObject *args, bool triangular)
{
    PyObject *first, *second;
    int upper = 0, unit = 0;
    if (!PyArg_ParseTuple(args, "OO|pp", &first, &second, &upper, &unit))
        return NULL;
    if (!tensor_of(first))
        return NULL;
    gt_tensor *b = tensor_of(second), *a = b ? tensor_of(first) : NULL, *out = NULL;
    if (!a)
        return NULL;
    gt_err err = triangular ? gt_solve_triangular(a, b, upper, unit, &out) : gt_solve(a, b, &out);
    return gt__py_result(err, out);
}

static PyObject *py_solve(PyObject *module, PyObject *args)
{
    (void)module;
    return solve(args, false);
}

static PyObject *py_solve_triangular(PyObject *module, PyObject *args)
{
    (void)module;
    return solve(args, true);
}

/* (packed, b, hermitian): packed is the result of _ldl. */
static PyObject *py_ldl_solve(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *first, *second;
    int hermitian;
    if (!PyArg_ParseTuple(args, "OOp:ldl_solve", &first, &second, &hermitian))
        return NULL;
    if (!tensor_of(first))
        return NULL;
    gt_tensor *b = tensor_of(second), *a = b ? tensor_of(first) : NULL, *out = NULL;
    if (!a)
        return NULL;
    gt_instruction prototype = {.op = GT_OP_ldl_solve, .imm = {{.i = hermitian}}};
    gt_err err = gt__emit(a->client, prototype, NULL, (gt_tensor *[]){a, b}, 2, &out);
    return gt__py_result(err, out);
}

#define ARGUMENT(name, doc)                                                                                       \
    {                                                                                                             \
        .ml_name = "_" #name, .ml_meth = py_##name, .ml_flags = METH_O, .ml_doc = doc                             \
    }
#define ARGUMENTS(name, doc)                                                                                      \
    {                                                                                                             \
        .ml_name = "_" #name, .ml_meth = py_##name, .ml_flags = METH_VARARGS, .ml_doc = doc                       \
    }

PyMethodDef gt__py_linalg_functions[] = {
    ARGUMENT(inverse, "_inverse(A)"),
    ARGUMENT(det, "_det(A)"),
    ARGUMENT(cofactor, "_cofactor(A): the gradient of det(A)."),
    ARGUMENT(slogdet, "_slogdet(A): (sign, logabsdet)"),
    ARGUMENT(cholesky, "_cholesky(A)"),
    ARGUMENT(cholesky_ex, "_cholesky_ex(A): never fails."),
    ARGUMENT(svdvals, "_svdvals(A)"),
    ARGUMENT(eig, "_eig(A): (w, V), complex; without gradients"),
    ARGUMENT(eigvals, "_eigvals(A): w, complex; without gradients"),
    ARGUMENTS(lu, "_lu(A, check): packed; check: singular matrices fail."),
    ARGUMENTS(ldl, "_ldl(A, hermitian): packed"),
    ARGUMENTS(ldl_solve, "_ldl_solve(packed, B, hermitian)"),
    ARGUMENTS(geqrf, "_geqrf(A, False): packed"),
    ARGUMENTS(pinv, "_pinv(A, rtol, atol): rtol < 0 is the default."),
    ARGUMENTS(qr, "_qr(A, complete): (Q, R)"),
    ARGUMENTS(svd, "_svd(A, full_matrices): (U, S, Vh)"),
    ARGUMENTS(eigh, "_eigh(A, upper): (w, V)"),
    ARGUMENTS(eigvalsh, "_eigvalsh(A, upper): (w,)"),
    ARGUMENTS(solve, "_solve(A, B)"),
    ARGUMENTS(solve_triangular, "_solve_triangular(A, B, upper, unitriangular)"),
    {.ml_name = NULL},
};

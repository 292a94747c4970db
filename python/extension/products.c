/*
 * products.c: matrix products, and which of their operands PyTorch copies.
 *
 * PyTorch computes a product of more than two dimensions as one of two matrices (folded), or as a batch of such products. If the
 * strides of an operand do not allow that shape, it is copied, and the graph has saved the copy: a later in-place operation on the
 * operand is no error there, and a write through x.data changes no gradient. Here no copy is needed, but the node saves another
 * tensor of the same value, which later writes do not concern.
 */
#include "alias.h"

#include <string.h>

#include "client/autograd.h"

/* ---- what PyTorch copies ----------------------------------------------------------------------------------------- */

typedef struct Operand {
    gt_meta meta;
    gt_strides strides;
    bool requires_grad;
    bool copied;
} Operand;

static void swap_last(Operand *o)
{
    unsigned last = o->meta.rank - 1u;
    int64_t size = o->meta.shape[last], step = o->strides.step[last];
    o->meta.shape[last] = o->meta.shape[last - 1];
    o->meta.shape[last - 1] = size;
    o->strides.step[last] = o->strides.step[last - 1];
    o->strides.step[last - 1] = step;
}

/* Whether a view of the operand can have its leading axes as one, and the last `kept` as they are. */
static bool can_merge(const Operand *o, unsigned kept)
{
    gt_meta merged = {.numel = o->meta.numel, .dtype = o->meta.dtype, .rank = (uint8_t)(kept + 1)};
    gt_strides strides;
    unsigned leading = o->meta.rank - kept;
    merged.shape[0] = 1;
    for (unsigned axis = 0; axis < leading; axis++)
        merged.shape[0] *= o->meta.shape[axis];
    for (unsigned k = 0; k < kept; k++)
        merged.shape[k + 1] = o->meta.shape[leading + k];
    return gt__strides_reshape(&o->meta, &o->strides, &merged, &strides);
}

/* Whether the larger operand becomes one matrix. It is transposed if it is the second. */
static bool is_folded(const Operand *larger, const Operand *smaller, bool second)
{
    if (larger->meta.rank < 3 || smaller->meta.rank > 2)
        return false;
    if (smaller->requires_grad) /* else its gradient would be one for each matrix of the batch */
        return true;
    if (second && smaller->meta.rank == 2)
        return false;
    for (unsigned axis = 0; larger->meta.numel && axis + 2u < larger->meta.rank; axis++)
        if (larger->strides.step[axis] != larger->strides.step[axis + 1] * larger->meta.shape[axis + 1])
            return false;
    return true;
}

/* The operand in a batch of matrices whose leading axes are those of both: a vector is a row, or (second) a column. */
static void expand_batch(Operand *o, const Operand *other, bool second)
{
    Operand wide = {.meta = {.numel = 1, .dtype = o->meta.dtype}};
    int own = o->meta.rank > 2 ? o->meta.rank - 2 : 0, others = other->meta.rank > 2 ? other->meta.rank - 2 : 0;
    int batch = own > others ? own : others;
    for (int axis = 0; axis < batch; axis++) {
        int mine = axis - (batch - own), its = axis - (batch - others);
        int64_t size = mine >= 0 ? o->meta.shape[mine] : 1;
        bool stretched = size == 1 && its >= 0 && other->meta.shape[its] != 1;
        wide.meta.shape[axis] = stretched ? other->meta.shape[its] : size;
        wide.strides.step[axis] = mine >= 0 && !stretched ? o->strides.step[mine] : 0;
    }
    for (int k = 0; k < 2; k++) {
        int axis = o->meta.rank == 1 ? (k == !second ? 0 : -1) : o->meta.rank - 2 + k;
        wide.meta.shape[batch + k] = axis < 0 ? 1 : o->meta.shape[axis];
        wide.strides.step[batch + k] = axis < 0 ? 1 : o->strides.step[axis];
    }
    wide.meta.rank = (uint8_t)(batch + 2);
    for (int axis = 0; axis < batch + 2; axis++)
        wide.meta.numel *= wide.meta.shape[axis];
    o->copied = !can_merge(&wide, 2);
}

/* A batch of one matrix is a matrix, if the other is a batch of several. */
static Operand without_batch(const Operand *o, const Operand *other)
{
    Operand matrix = *o;
    if (o->meta.rank != 3 || other->meta.rank != 3 || o->meta.shape[0] != 1 || other->meta.shape[0] == 1)
        return matrix;
    matrix.meta.rank = 2;
    for (unsigned axis = 0; axis < 2; axis++) {
        matrix.meta.shape[axis] = o->meta.shape[axis + 1];
        matrix.strides.step[axis] = o->strides.step[axis + 1];
    }
    return matrix;
}

static void find_copies(Operand *first, Operand *other)
{
    Operand left = without_batch(first, other), right = without_batch(other, first), *a = &left, *b = &right;
    bool second = a->meta.rank < b->meta.rank;
    Operand larger = second ? *b : *a, *smaller = second ? a : b, original = *a;
    if (second)
        swap_last(&larger);
    if (is_folded(&larger, smaller, second)) {
        (second ? b : a)->copied = !can_merge(&larger, 1);
    } else {
        expand_batch(a, b, false);
        expand_batch(b, &original, true);
    }
    first->copied = left.copied;
    other->copied = right.copied;
}

static Operand operand(PyObject *object, const gt_tensor *tensor)
{
    Operand o = {.meta = tensor->meta, .requires_grad = tensor->node != NULL};
    if (gt__py_is_tensor(object))
        gt__py_strides(object, &o.strides);
    else
        gt__strides_contiguous(&o.meta, &o.strides);
    return o;
}

static bool is_packed(PyObject *object)
{
    return !gt__py_is_tensor(object) || !((TensorObject *)object)->alias;
}

/* Whether the product is recorded, and of operands that PyTorch may have to copy. */
static bool may_copy(PyObject *x, const gt_tensor *a, PyObject *y, const gt_tensor *b)
{
    unsigned rank = a->meta.rank;
    if (LIKELY(rank <= 2 && b->meta.rank <= 2) || !rank || !b->meta.rank || !(a->node || b->node) ||
        !gt__grad_enabled())
        return false;
    if (!is_packed(x))
        return true;
    if (b->meta.rank <= 2) /* the usual case: the first is folded */
        return false;
    return !is_packed(y) || rank != b->meta.rank ||
           memcmp(a->meta.shape, b->meta.shape, (rank - 2) * sizeof *a->meta.shape) != 0;
}

typedef gt_err product_function(gt_tensor *a, gt_tensor *b, gt_tensor **out);

static gt_err multiply(product_function *emit, PyObject *x, gt_tensor *a, PyObject *y, gt_tensor *b,
                       gt_tensor **out)
{
    gt_tensor *left = NULL, *right = NULL;
    gt_err err = GT_OK;
    if (may_copy(x, a, y, b)) {
        Operand first = operand(x, a), second = operand(y, b);
        find_copies(&first, &second);
        if (first.copied)
            err = gt__tensor_alias(a, a->node, &left);
        if (err == GT_OK && second.copied)
            err = gt__tensor_alias(b, b->node, &right);
    }
    if (err == GT_OK)
        err = emit(left ? left : a, right ? right : b, out);
    gt_tensor_release(left);
    gt_tensor_release(right);
    return err;
}

gt_err gt__py_multiply(PyObject *x, gt_tensor *a, PyObject *y, gt_tensor *b, gt_tensor **out)
{
    return multiply(gt_matmul, x, a, y, b, out);
}

gt_err gt__py_linear_input(PyObject *x, PyObject *weight, gt_tensor **in)
{
    if (!may_copy(x, in[0], weight, in[1]))
        return GT_OK;
    Operand first = operand(x, in[0]), second = operand(weight, in[1]);
    if (second.meta.rank != 2)
        return GT_OK;
    swap_last(&second);
    find_copies(&first, &second);
    gt_tensor *copy;
    if (!first.copied)
        return GT_OK;
    GT_TRY(gt__tensor_alias(in[0], in[0]->node, &copy));
    gt_tensor_release(in[0]);
    in[0] = copy;
    return GT_OK;
}

/* ---- methods ----------------------------------------------------------------------------------------------------- */

/* The one operand of a product, borrowed; NULL: exception. */
static PyObject *operand_of(const char *function, const char *name, gt_py_args args, Py_ssize_t nargs,
                            PyObject *kwnames)
{
    if (nargs == 1 && !kwnames)
        return args[0];
    PyObject *value;
    if (gt__py_parse(function, args, nargs, kwnames, &name, 1, 1, &value) < 0)
        return NULL;
    return value ? value : PyErr_Format(PyExc_TypeError, "%s() missing required argument '%s'", function, name);
}

static PyObject *method_matmul(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *other = operand_of("matmul", "other", args, nargs, kwnames);
    return other ? PyNumber_MatrixMultiply(self, other) : NULL;
}

static PyObject *product(product_function *emit, PyObject *self, PyObject *other)
{
    gt_tensor *a = gt__py_hold(self), *b = a ? gt__py_hold(other) : NULL, *out = NULL;
    gt_err err = b ? multiply(emit, self, a, other, b, &out) : GT_OK;
    gt_tensor_release(a);
    gt_tensor_release(b);
    return b ? gt__py_result(err, out) : NULL;
}

/* mm, bmm, mv, dot: matmul of tensors of fixed ranks. */
static PyObject *ranked_product(const char *name, int rank_a, int rank_b, PyObject *self, PyObject *other)
{
    if (!gt__py_is_tensor(other))
        return PyErr_Format(PyExc_TypeError, "%s() needs a Tensor, not %s", name, Py_TYPE(other)->tp_name);
    int given_a = ((TensorObject *)self)->tensor->meta.rank, given_b = ((TensorObject *)other)->tensor->meta.rank;
    if (given_a != rank_a || given_b != rank_b)
        return PyErr_Format(PyExc_RuntimeError, "%s(): expected tensors of %d and %d dimensions, got %d and %d",
                            name, rank_a, rank_b, given_a, given_b);
    return product(gt_matmul, self, other);
}

#define PRODUCT(name, parameter, rank_a, rank_b)                                                                  \
    static PyObject *method_##name(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)          \
    {                                                                                                             \
        PyObject *other = operand_of(#name, parameter, args, nargs, kwnames);                                     \
        return other ? ranked_product(#name, rank_a, rank_b, self, other) : NULL;                                 \
    }
PRODUCT(mm, "mat2", 2, 2)
PRODUCT(bmm, "mat2", 3, 3)
PRODUCT(mv, "vec", 2, 1)
PRODUCT(dot, "tensor|other", 1, 1)
#undef PRODUCT

static PyObject *method_wide_product(PyObject *self, PyObject *other)
{
    if (!gt__py_is_tensor(other))
        return PyErr_Format(PyExc_TypeError, "_wide_product() needs a Tensor, not %s", Py_TYPE(other)->tp_name);
    return product(gt__emit_wide_product, self, other);
}

PyMethodDef gt__py_product_methods[] = {
    FAST("matmul", method_matmul, "matmul(other): the matrix product, batches broadcast."),
    FAST("mm", method_mm, "mm(mat2): the product of two matrices."),
    FAST("bmm", method_bmm, "bmm(mat2): the product of two batches of matrices."),
    FAST("mv", method_mv, "mv(vec): a matrix times a vector."),
    FAST("dot", method_dot, "dot(other): the inner product of two vectors."),
    {.ml_name = "_wide_product", .ml_meth = method_wide_product, .ml_flags = METH_O},
    {.ml_name = NULL},
};

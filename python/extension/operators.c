/*
 * operators.c: arithmetic: Python's operators, and a method for every elementwise row of the op table.
 *
 * `a + b` on two tensors is the hot path of a program that emits small instructions: two type checks, one call
 * into the client, one recycled object. Everything else (NumPy operands, subclasses, reflected operands) is in
 * binary_slow. A new UNARY or BINARY row of ops.def is a method here without another line: name() and the
 * in-place name_().
 */
#include "extension.h"

#include <math.h>

/* ---- binary operators ------------------------------------------------------------------------------------ */

/* `x op y` where one is a Tensor and the other anything. */
static gt_err emit_operands(gt_opcode op, gt_tensor *a, gt_tensor *other, gt_literal kind, gt_imm value,
                            bool reflected, gt_tensor **out)
{
    if (!other)
        return gt__emit_binary_literal(op, a, kind, value, reflected, out);
    return reflected ? gt__emit_binary(op, other, a, out) : gt__emit_binary(op, a, other, out);
}

/* NotImplemented where the other operand is not ours to convert, so that Python tries its operator. */
static PyObject *binary_slow(gt_opcode op, PyObject *x, PyObject *y)
{
    bool reflected = !gt__py_is_tensor(x);
    PyObject *self = reflected ? y : x, *object = reflected ? x : y;
    gt_literal kind = GT_LITERAL_NONE;
    gt_imm value = {.i = 0};
    gt_tensor *other, *out = NULL;
    gt_tensor *a = gt__py_use(self);
    if (!a)
        return NULL;
    gt_tensor_retain(a); /* converting the other may run code that rebinds self */
    gt_err err = GT_OK;
    int found = gt__py_operand(object, a->client, &other, &kind, &value);
    if (found == 1) {
        err = emit_operands(op, a, other, kind, value, reflected, &out);
        gt_tensor_release(other);
    }
    gt_tensor_release(a);
    return found == 1 ? gt__py_result(err, out) : found < 0 ? NULL : Py_NewRef(Py_NotImplemented);
}

static inline PyObject *binary(gt_opcode op, PyObject *x, PyObject *y)
{
    if (LIKELY(Py_TYPE(x) == gt__py_tensor_type)) {
        gt_tensor *a = ((TensorObject *)x)->tensor, *out = NULL;
        if (LIKELY(!a->client->waiting)) {
            if (LIKELY(Py_TYPE(y) == gt__py_tensor_type)) {
                gt_err err = gt__emit_binary(op, a, ((TensorObject *)y)->tensor, &out);
                return gt__py_result(err, out);
            }
            if (PyFloat_CheckExact(y)) {
                gt_imm value = {.f = PyFloat_AS_DOUBLE(y)};
                gt_err err = gt__emit_binary_literal(op, a, GT_LITERAL_FLOAT, value, false, &out);
                return gt__py_result(err, out);
            }
        }
    }
    return binary_slow(op, x, y);
}

#define OPERATOR(name, op)                                                                                        \
    static PyObject *number_##name(PyObject *x, PyObject *y)                                                      \
    {                                                                                                             \
        return binary(op, x, y);                                                                                  \
    }
OPERATOR(add, GT_OP_add)
OPERATOR(subtract, GT_OP_sub)
OPERATOR(multiply, GT_OP_mul)
OPERATOR(true_divide, GT_OP_div)
OPERATOR(floor_divide, GT_OP_floor_divide)
OPERATOR(remainder, GT_OP_remainder)
#undef OPERATOR

static PyObject *unary(gt_opcode op, PyObject *self)
{
    gt_tensor *a = gt__py_use(self), *out = NULL;
    if (!a)
        return NULL;
    gt_err err = gt__emit_unary(op, a, &out);
    return gt__py_result(err, out);
}

/* x ** 2 is so common that it deserves its own, cheaper op. */
static bool is_square(const gt_tensor *a, PyObject *exponent)
{
    if (a->meta.dtype == GT_BOOL)
        return false;
    if (PyFloat_CheckExact(exponent))
        return PyFloat_AS_DOUBLE(exponent) == 2 && gt__dtype_is_float((gt_dtype)a->meta.dtype);
    return PyLong_CheckExact(exponent) && PyLong_AsLong(exponent) == 2;
}

static PyObject *number_power(PyObject *x, PyObject *y, PyObject *modulus)
{
    if (modulus != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
    if (gt__py_is_tensor(x) && is_square(((TensorObject *)x)->tensor, y)) {
        return unary(GT_OP_square, x);
    }
    PyErr_Clear(); /* an exponent beyond long */
    return binary(GT_OP_pow, x, y);
}

static PyObject *number_matmul(PyObject *x, PyObject *y)
{
    bool first = gt__py_is_tensor(x);
    gt_tensor *a = gt__py_use(first ? x : y), *other = NULL, *out = NULL;
    gt_literal kind;
    gt_imm value;
    if (!a)
        return NULL;
    gt_tensor_retain(a);
    gt_err err = GT_OK;
    int found = gt__py_operand(first ? y : x, a->client, &other, &kind, &value);
    if (other)
        err = first ? gt_matmul(a, other, &out) : gt_matmul(other, a, &out);
    gt_tensor_release(a);
    gt_tensor_release(other);
    if (found < 0)
        return NULL;
    return other ? gt__py_result(err, out) : Py_NewRef(Py_NotImplemented);
}

static PyObject *tensor_richcompare(PyObject *x, PyObject *y, int operation)
{
    static const gt_opcode opcodes[] = {
        [Py_LT] = GT_OP_lt, [Py_LE] = GT_OP_le, [Py_EQ] = GT_OP_eq,
        [Py_NE] = GT_OP_ne, [Py_GT] = GT_OP_gt, [Py_GE] = GT_OP_ge,
    };
    return binary(opcodes[operation], x, y);
}

/* & | ^ are the logical operations; on integers they would be bitwise, which the op table does not have. */
static PyObject *bitwise(gt_opcode op, const char *symbol, PyObject *x, PyObject *y)
{
    PyObject *operands[] = {x, y};
    for (int k = 0; k < 2; k++) {
        bool is_bool = gt__py_is_tensor(operands[k]) ? ((TensorObject *)operands[k])->tensor->meta.dtype == GT_BOOL
                                                     : !PyLong_Check(operands[k]) || PyBool_Check(operands[k]);
        if (!is_bool)
            return PyErr_Format(PyExc_TypeError, "%s is supported for bool tensors only", symbol);
    }
    return binary(op, x, y);
}

static PyObject *number_and(PyObject *x, PyObject *y)
{
    return bitwise(GT_OP_logical_and, "&", x, y);
}

static PyObject *number_or(PyObject *x, PyObject *y)
{
    return bitwise(GT_OP_logical_or, "|", x, y);
}

static PyObject *number_xor(PyObject *x, PyObject *y)
{
    return bitwise(GT_OP_logical_xor, "^", x, y);
}

/* ---- unary operators ------------------------------------------------------------------------------------- */

static PyObject *number_negative(PyObject *self)
{
    return unary(GT_OP_neg, self);
}

static PyObject *number_absolute(PyObject *self)
{
    return unary(GT_OP_abs, self);
}

static PyObject *number_positive(PyObject *self)
{
    return Py_NewRef(self);
}

static PyObject *number_invert(PyObject *self)
{
    gt_tensor *a = gt__py_use(self), *out = NULL;
    if (!a)
        return NULL;
    if (a->meta.dtype == GT_BOOL)
        return unary(GT_OP_logical_not, self);
    if (gt__dtype_is_float((gt_dtype)a->meta.dtype))
        return PyErr_Format(PyExc_TypeError, "~ is supported for integer and bool tensors only");
    gt_err err = gt__emit_binary_literal(GT_OP_sub, a, GT_LITERAL_INT, (gt_imm){.i = -1}, true, &out);
    return gt__py_result(err, out);
}

/* ---- in place -------------------------------------------------------------------------------------------- */

/*
 * Give `self` the value `result` (taken), if it fits: the same shape, and a dtype that may be cast to its own.
 * Returns self, as in-place operators do.
 */
static PyObject *assign_result(PyObject *self, gt_err err, gt_tensor *result)
{
    if (err != GT_OK)
        return gt__py_raise(err);
    const gt_meta *meta = &((TensorObject *)self)->tensor->meta;
    gt_dtype dtype = (gt_dtype)meta->dtype, from = (gt_dtype)result->meta.dtype;
    char mine[128], theirs[128];
    if (!gt__meta_same_shape(meta, &result->meta)) {
        PyErr_Format(PyExc_RuntimeError, "output with shape %s doesn't match the broadcast shape %s",
                     gt__shape_text(meta->rank, meta->shape, mine, sizeof mine),
                     gt__shape_text(result->meta.rank, result->meta.shape, theirs, sizeof theirs));
    } else if ((gt__dtype_is_float(from) && !gt__dtype_is_float(dtype)) || (dtype == GT_BOOL && from != GT_BOOL)) {
        PyErr_Format(PyExc_RuntimeError, "result type %s can't be cast to the desired output type %s",
                     gt__dtype_name(from), gt__dtype_name(dtype));
    } else {
        gt_tensor *fitting = result;
        if (from != dtype)
            err = gt_cast(result, dtype, &fitting);
        else
            gt_tensor_retain(result);
        gt_tensor_release(result);
        if (err != GT_OK)
            return gt__py_raise(err);
        return gt__py_rebind(self, fitting) < 0 ? NULL : Py_NewRef(self);
    }
    gt_tensor_release(result);
    return NULL;
}

static PyObject *inplace(gt_opcode op, PyObject *self, PyObject *object)
{
    gt_literal kind = GT_LITERAL_NONE;
    gt_imm value = {.i = 0};
    gt_tensor *a = gt__py_use(self), *other = NULL, *out = NULL;
    if (!a)
        return NULL;
    gt_tensor_retain(a);
    gt_err err = GT_OK;
    int found = gt__py_operand(object, a->client, &other, &kind, &value);
    if (found == 1)
        err = emit_operands(op, a, other, kind, value, false, &out);
    gt_tensor_release(a);
    gt_tensor_release(other);
    return found == 1 ? assign_result(self, err, out) : found < 0 ? NULL : Py_NewRef(Py_NotImplemented);
}

#define INPLACE(name, op)                                                                                         \
    static PyObject *inplace_##name(PyObject *self, PyObject *other)                                              \
    {                                                                                                             \
        return inplace(op, self, other);                                                                          \
    }
INPLACE(add, GT_OP_add)
INPLACE(subtract, GT_OP_sub)
INPLACE(multiply, GT_OP_mul)
INPLACE(true_divide, GT_OP_div)
INPLACE(floor_divide, GT_OP_floor_divide)
INPLACE(remainder, GT_OP_remainder)
#undef INPLACE

static PyObject *inplace_power(PyObject *self, PyObject *other, PyObject *modulus)
{
    return modulus == Py_None ? inplace(GT_OP_pow, self, other) : Py_NewRef(Py_NotImplemented);
}

/* ---- methods of the table -------------------------------------------------------------------------------- */

/* add(other, alpha=) is self + alpha * other; div(other, rounding_mode='floor') is //. */
static PyObject *binary_options(gt_opcode op, const char *name, PyObject *self, PyObject *const values[3])
{
    PyObject *other = values[0], *alpha = values[1], *rounding = values[2];
    if ((alpha && op != GT_OP_add && op != GT_OP_sub) || (rounding && op != GT_OP_div))
        return PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%s'", name,
                            alpha ? "alpha" : "rounding_mode");
    if (alpha) {
        PyObject *scaled = PyNumber_Multiply(other, alpha);
        PyObject *result = scaled ? binary(op, self, scaled) : NULL;
        Py_XDECREF(scaled);
        return result;
    }
    if (!rounding || rounding == Py_None)
        return binary(op, self, other);
    if (PyUnicode_Check(rounding) && PyUnicode_CompareWithASCIIString(rounding, "floor") == 0)
        return binary(GT_OP_floor_divide, self, other);
    return PyErr_Format(PyExc_ValueError, "div() supports rounding_mode None or 'floor', not %R", rounding);
}

static PyObject *binary_method(gt_opcode op, const char *name, PyObject *self, gt_py_args args, Py_ssize_t nargs,
                               PyObject *kwnames)
{
    static const char *const names[] = {"other|exponent", "alpha", "rounding_mode"};
    PyObject *values[3] = {nargs == 1 ? args[0] : NULL}, *result;
    if (nargs == 1 && !kwnames) {
        result = binary(op, self, values[0]);
    } else {
        if (gt__py_parse(name, args, nargs, kwnames, names, 3, 1, values) < 0)
            return NULL;
        if (!values[0])
            return PyErr_Format(PyExc_TypeError, "%s() missing required argument 'other'", name);
        result = binary_options(op, name, self, values);
    }
    if (result != Py_NotImplemented)
        return result;
    Py_DECREF(result);
    return PyErr_Format(PyExc_TypeError, "%s(): argument 'other' must be Tensor or a number, not %s", name,
                        Py_TYPE(values[0])->tp_name);
}

/* self.name_(...): what self.name(...) gives becomes self's value. */
static PyObject *adopt(PyObject *self, PyObject *result)
{
    if (!result)
        return NULL;
    gt_tensor *tensor = gt_tensor_retain(((TensorObject *)result)->tensor);
    Py_DECREF(result);
    return assign_result(self, GT_OK, tensor);
}

/* A bound of clamp: a number, or a tensor, for which it is minimum or maximum. */
typedef struct Bound {
    bool is_tensor;
    gt_literal kind; /* NONE: open */
    double value;
} Bound;

static int bound_from(PyObject *object, double open, Bound *bound)
{
    *bound = (Bound){.value = open};
    if (!object || object == Py_None)
        return 0;
    bound->is_tensor = gt__py_is_tensor(object);
    if (bound->is_tensor)
        return 0;
    gt_literal kind;
    gt_imm value;
    if (gt__py_number(object, &kind, &value) < 0)
        return -1;
    bound->value = gt__py_literal_double(kind, value);
    bound->kind = kind;
    return 0;
}

typedef gt_err unary_pq(gt_tensor *a, double p, double q, gt_tensor **out);

static PyObject *bounds_tensors(PyObject *self, PyObject *low, PyObject *high)
{
    PyObject *result = Py_NewRef(self);
    if (low && low != Py_None)
        Py_SETREF(result, binary(GT_OP_maximum, result, low));
    if (result && high && high != Py_None)
        Py_SETREF(result, binary(GT_OP_minimum, result, high));
    return result;
}

static PyObject *pq_method(unary_pq *function, const char *name, PyObject *self, gt_py_args args, Py_ssize_t nargs,
                           PyObject *kwnames)
{
    static const char *const names[] = {"min|a_min|p", "max|a_max|q"};
    PyObject *values[2];
    Bound low, high;
    if (gt__py_parse(name, args, nargs, kwnames, names, 2, 2, values) < 0 ||
        bound_from(values[0], -INFINITY, &low) < 0 || bound_from(values[1], INFINITY, &high) < 0)
        return NULL;
    if ((!values[0] || values[0] == Py_None) && (!values[1] || values[1] == Py_None))
        return PyErr_Format(PyExc_RuntimeError, "%s(): at least one of 'min' or 'max' must not be None", name);
    if (low.is_tensor || high.is_tensor)
        return bounds_tensors(self, values[0], values[1]);
    gt_tensor *a = gt__py_use(self), *out = NULL, *wide = NULL;
    if (!a)
        return NULL;
    gt_literal widest = low.kind > high.kind ? low.kind : high.kind;
    gt_err err = GT_OK;
    if (widest == GT_LITERAL_FLOAT && !gt__dtype_is_float((gt_dtype)a->meta.dtype))
        err = gt_cast(a, GT_FLOAT32, &wide);
    else if (widest == GT_LITERAL_INT && a->meta.dtype == GT_BOOL)
        err = gt_cast(a, GT_INT64, &wide);
    if (err == GT_OK)
        err = function(wide ? wide : a, low.value, high.value, &out);
    gt_tensor_release(wide);
    return gt__py_result(err, out);
}

#define UNARY(name, types, expr, grad)                                                                            \
    static PyObject *method_##name(PyObject *self, PyObject *unused)                                              \
    {                                                                                                             \
        (void)unused;                                                                                             \
        return unary(GT_OP_##name, self);                                                                         \
    }                                                                                                             \
    static PyObject *method_##name##_inplace(PyObject *self, PyObject *unused)                                    \
    {                                                                                                             \
        (void)unused;                                                                                             \
        return adopt(self, unary(GT_OP_##name, self));                                                            \
    }
#define UNARY_PQ(name, types, expr, grad)                                                                         \
    static PyObject *method_##name(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)          \
    {                                                                                                             \
        return pq_method(gt_##name, #name, self, args, nargs, kwnames);                                           \
    }                                                                                                             \
    static PyObject *method_##name##_inplace(PyObject *self, gt_py_args args, Py_ssize_t nargs,                   \
                                             PyObject *kwnames)                                                   \
    {                                                                                                             \
        return adopt(self, method_##name(self, args, nargs, kwnames));                                            \
    }
#define BINARY(name, types, expr, grad)                                                                           \
    static PyObject *method_##name(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)          \
    {                                                                                                             \
        return binary_method(GT_OP_##name, #name, self, args, nargs, kwnames);                                    \
    }                                                                                                             \
    static PyObject *method_##name##_inplace(PyObject *self, gt_py_args args, Py_ssize_t nargs,                   \
                                             PyObject *kwnames)                                                   \
    {                                                                                                             \
        return adopt(self, method_##name(self, args, nargs, kwnames));                                            \
    }
#include "ops.def"

PyMethodDef gt__py_operator_methods[] = {
#define UNARY(name, types, expr, grad)                                                                            \
    NOARGS(#name, method_##name, #name "(): elementwise."),                                                       \
        NOARGS(#name "_", method_##name##_inplace, #name "_(): in place."),
#define UNARY_PQ(name, types, expr, grad)                                                                         \
    FAST(#name, method_##name, #name "(min=None, max=None): elementwise."),                                       \
        FAST(#name "_", method_##name##_inplace, #name "_(min=None, max=None): in place."),
#define BINARY(name, types, expr, grad)                                                                           \
    FAST(#name, method_##name, #name "(other): elementwise, broadcast."),                                         \
        FAST(#name "_", method_##name##_inplace, #name "_(other): in place."),
#include "ops.def"
    /* other names of the same things */
    FAST("clip", method_clamp, "clip(min=None, max=None): clamp."),
    FAST("subtract", method_sub, "subtract(other): sub."),
    FAST("multiply", method_mul, "multiply(other): mul."),
    FAST("divide", method_div, "divide(other): div."),
    FAST("true_divide", method_div, "true_divide(other): div."),
    FAST("not_equal", method_ne, "not_equal(other): ne."),
    FAST("less", method_lt, "less(other): lt."),
    FAST("less_equal", method_le, "less_equal(other): le."),
    FAST("greater", method_gt, "greater(other): gt."),
    FAST("greater_equal", method_ge, "greater_equal(other): ge."),
    NOARGS("negative", method_neg, "negative(): neg."),
    NOARGS("absolute", method_abs, "absolute(): abs."),
    {.ml_name = NULL},
};

const PyType_Slot gt__py_number_slots[] = {
    SLOT(Py_nb_add, number_add),
    SLOT(Py_nb_subtract, number_subtract),
    SLOT(Py_nb_multiply, number_multiply),
    SLOT(Py_nb_true_divide, number_true_divide),
    SLOT(Py_nb_floor_divide, number_floor_divide),
    SLOT(Py_nb_remainder, number_remainder),
    SLOT(Py_nb_power, number_power),
    SLOT(Py_nb_matrix_multiply, number_matmul),
    SLOT(Py_nb_negative, number_negative),
    SLOT(Py_nb_positive, number_positive),
    SLOT(Py_nb_absolute, number_absolute),
    SLOT(Py_nb_invert, number_invert),
    SLOT(Py_nb_and, number_and),
    SLOT(Py_nb_or, number_or),
    SLOT(Py_nb_xor, number_xor),
    SLOT(Py_nb_inplace_add, inplace_add),
    SLOT(Py_nb_inplace_subtract, inplace_subtract),
    SLOT(Py_nb_inplace_multiply, inplace_multiply),
    SLOT(Py_nb_inplace_true_divide, inplace_true_divide),
    SLOT(Py_nb_inplace_floor_divide, inplace_floor_divide),
    SLOT(Py_nb_inplace_remainder, inplace_remainder),
    SLOT(Py_nb_inplace_power, inplace_power),
    SLOT(Py_tp_richcompare, tensor_richcompare),
    {.slot = 0},
};

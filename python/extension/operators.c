/*
 * operators.c: arithmetic: Python's operators, and a method for every elementwise row of the op table.
 *
 * `a + b` on two tensors is the hot path of a program that emits small instructions: two type checks, one call
 * into the client, one recycled object. Everything else (NumPy operands, subclasses, reflected operands) is in
 * binary_slow. Each UNARY or BINARY row of ops.def is a method here: name() and the in-place name_(). Rows that
 * also take numbers are in numbers.c.
 */
#include "site.h"

#include "client/quick.h"
#include "core/convert.h"
#include "alias.h"

/* ---- binary operators ------------------------------------------------------------------------------------ */

/* `x op y` of a tensor and another tensor or a literal. */
static gt_err emit_operands(gt_opcode op, gt_tensor *a, gt_tensor *other, gt_literal kind, gt_imm value,
                            bool reflected, gt_tensor **out)
{
    if (!other)
        return gt__emit_binary_literal(op, a, kind, value, reflected, out);
    return reflected ? gt__emit_binary(op, other, a, out) : gt__emit_binary(op, a, other, out);
}

/* NotImplemented if the other operand cannot be converted, so that Python tries the other's operator. `updates`: the result will be
 * the next value of x. */
static PyObject *binary_slow(gt_opcode op, PyObject *x, PyObject *y, bool updates)
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
    int found = gt__py_operand(object, a->client, (gt_dtype)a->meta.dtype, &other, &kind, &value);
    if (found == 1) {
        err = updates ? gt__emit_update(op, a, gt__py_has_name(self, a), other, kind, value, &out)
                      : emit_operands(op, a, other, kind, value, reflected, &out);
        gt_tensor_release(other);
    }
    gt_tensor_release(a);
    if (found != 1)
        return found < 0 ? NULL : Py_NewRef(Py_NotImplemented);
    return gt__py_elementwise(err, out, (PyObject *[]){x, y}, 2);
}

/* The object is a Tensor, and of no subtype, that shares no memory. */
static inline bool is_plain(PyObject *object)
{
    return Py_TYPE(object) == gt__py_tensor_type && !((TensorObject *)object)->alias;
}

static PyObject *binary_unexpected(gt_opcode op, PyObject *x, PyObject *y)
{
    if (LIKELY(is_plain(x))) {
        gt_tensor *a = ((TensorObject *)x)->tensor, *out = NULL;
        if (LIKELY(!a->client->waiting)) {
            if (LIKELY(is_plain(y))) {
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
    return binary_slow(op, x, y, false);
}

static inline PyObject *binary(gt_opcode op, PyObject *x, PyObject *y)
{
    gt_tensor *out = NULL;
    if (LIKELY(is_plain(x)) && gt__quick_may(((TensorObject *)x)->tensor)) {
        gt_tensor *a = ((TensorObject *)x)->tensor;
        if (LIKELY(is_plain(y))) {
            gt_tensor *b = ((TensorObject *)y)->tensor;
            out = gt__quick_emit(a, b, gt__word_head(op, 0, 0), b->id, gt__py_at());
        } else if (PyFloat_CheckExact(y)) {
            gt_imm value = {.f = PyFloat_AS_DOUBLE(y)};
            out = gt__quick_emit(a, NULL, gt__word_head(op, GT_LITERAL_FLOAT << 2, 0), value.u, gt__py_at());
        }
    }
    return out ? gt__py_wrap(out) : binary_unexpected(op, x, y);
}

#define OPERATOR(name, op)                                                                                        \
    static PyObject *number_##name(PyObject *x, PyObject *y)                                                      \
    {                                                                                                             \
        return binary(op, x, y);                                                                                  \
    }
OPERATOR(add, GT_OP_add)
OPERATOR(subtract, GT_OP_sub)
OPERATOR(multiply, GT_OP_mul)
OPERATOR(floor_divide, GT_OP_floor_divide)
OPERATOR(remainder, GT_OP_remainder)
OPERATOR(and, GT_OP_bitwise_and)
OPERATOR(or, GT_OP_bitwise_or)
OPERATOR(xor, GT_OP_bitwise_xor)
OPERATOR(lshift, GT_OP_bitwise_left_shift)
OPERATOR(rshift, GT_OP_bitwise_right_shift)
#undef OPERATOR

static PyObject *unary(gt_opcode op, PyObject *self)
{
    bool aliased = ((TensorObject *)self)->alias != NULL;
    gt_tensor *a = ((TensorObject *)self)->tensor, *out = NULL;
    if (LIKELY(!aliased) && gt__quick_may(a) &&
        (out = gt__quick_emit(a, NULL, gt__word_head(op, 0, 0), 0, gt__py_at())))
        return gt__py_wrap(out);
    if (!(a = gt__py_use(self)))
        return NULL;
    gt_err err = gt__emit_unary(op, a, &out);
    return LIKELY(!aliased) ? gt__py_result(err, out) : gt__py_elementwise(err, out, &self, 1);
}

/* Halves: number / x is x.reciprocal() * number, as in PyTorch. */
static PyObject *number_true_divide(PyObject *x, PyObject *y)
{
    if (UNLIKELY(!gt__py_is_tensor(x)) && (PyFloat_Check(x) || PyLong_Check(x)) &&
        gt__dtype_is_half((gt_dtype)((TensorObject *)y)->tensor->meta.dtype)) {
        PyObject *reciprocal = unary(GT_OP_reciprocal, y);
        PyObject *quotient = reciprocal ? binary(GT_OP_mul, reciprocal, x) : NULL;
        Py_XDECREF(reciprocal);
        return quotient;
    }
    return binary(GT_OP_div, x, y);
}

/* x ** 2 is common and has a cheaper op. */
static bool is_square(const gt_tensor *a, PyObject *exponent)
{
    if (a->meta.dtype == GT_BOOL)
        return false;
    if (PyFloat_CheckExact(exponent))
        return PyFloat_AS_DOUBLE(exponent) == 2 && gt__dtype_is_inexact((gt_dtype)a->meta.dtype);
    return PyLong_CheckExact(exponent) && PyLong_AsLong(exponent) == 2;
}

/* As in PyTorch the exponent of halves must be an element of their dtype; that of integers is checked by inference. */
static int check_exponent(PyObject *x, PyObject *y)
{
    bool halves = gt__py_is_tensor(x) && gt__dtype_is_half((gt_dtype)gt__py_meta(x)->dtype);
    if (!halves || !(PyFloat_Check(y) || PyLong_Check(y)))
        return 0;
    return gt__py_check_number(y, (gt_dtype)gt__py_meta(x)->dtype);
}

/* x ** y however it is spelled: operator, method or in place. */
static PyObject *power(PyObject *x, PyObject *y)
{
    if (gt__py_is_tensor(x) && is_square(((TensorObject *)x)->tensor, y)) {
        return unary(GT_OP_square, x);
    }
    PyErr_Clear(); /* the exponent does not fit a long */
    if (UNLIKELY(PyBool_Check(y)) && gt__py_is_tensor(x) && gt__py_meta(x)->dtype == GT_BOOL)
        return binary(GT_OP_bitwise_or, x, y == Py_True ? Py_False : Py_True); /* x ** 1 is x, x ** 0 is 1 */
    return check_exponent(x, y) < 0 ? NULL : binary(GT_OP_pow, x, y);
}

static PyObject *number_power(PyObject *x, PyObject *y, PyObject *modulus)
{
    return modulus == Py_None ? power(x, y) : Py_NewRef(Py_NotImplemented);
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
    int found = gt__py_operand(first ? y : x, a->client, (gt_dtype)a->meta.dtype, &other, &kind, &value);
    if (other)
        err = first ? gt__py_multiply(x, a, y, other, &out) : gt__py_multiply(x, other, y, a, &out);
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
    return unary(GT_OP_bitwise_not, self);
}

/* ---- in place -------------------------------------------------------------------------------------------- */

/* Give `self` the value `result` (taken), if it fits: the same shape, and a dtype that may be cast to its own. */
static PyObject *fit_result(PyObject *self, gt_err err, gt_tensor *result)
{
    if (err != GT_OK)
        return gt__py_raise(err);
    const gt_meta *meta = &((TensorObject *)self)->tensor->meta;
    gt_dtype dtype = (gt_dtype)meta->dtype, from = (gt_dtype)result->meta.dtype;
    char mine[128], theirs[128];
    if (!gt__meta_same_shape(meta, &result->meta)) {
        PyErr_Format(PyExc_RuntimeError, "output with shape %s doesn't match the broadcast shape %s",
                     gt__sizes_text(meta->rank, meta->shape, mine, sizeof mine),
                     gt__sizes_text(result->meta.rank, result->meta.shape, theirs, sizeof theirs));
    } else if ((gt__dtype_is_inexact(from) && !gt__dtype_is_inexact(dtype)) ||
               (gt__dtype_is_complex(from) && !gt__dtype_is_complex(dtype)) ||
               (dtype == GT_BOOL && from != GT_BOOL)) {
        PyErr_Format(PyExc_RuntimeError, "result type %s can't be cast to the desired output type %s",
                     gt__dtype_kind(from), gt__dtype_kind(dtype));
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

/* The same, as the last step of an in-place operation. Returns self. */
static PyObject *assign_result(PyObject *self, gt_err err, gt_tensor *result)
{
    PyObject *assigned = fit_result(self, err, result);
    return LIKELY(assigned != NULL) ? assigned : gt__py_fail_write(self);
}

static PyObject *inplace(gt_opcode op, PyObject *self, PyObject *object)
{
    gt_literal kind = GT_LITERAL_NONE;
    gt_imm value = {.i = 0};
    bool aliased = ((TensorObject *)self)->alias || (gt__py_is_tensor(object) && ((TensorObject *)object)->alias);
    if (UNLIKELY(aliased && gt__py_check_operands(self, &object, 1) < 0))
        return NULL;
    gt_tensor *a = gt__py_use(self), *other = NULL, *out = NULL;
    if (!a)
        return NULL;
    gt_tensor_retain(a);
    gt_err err = GT_OK;
    int found = gt__py_operand(object, a->client, (gt_dtype)a->meta.dtype, &other, &kind, &value);
    if (found == 1)
        err = gt__emit_update(op, a, gt__py_has_name(self, a), other, kind, value, &out);
    gt_tensor_release(a);
    gt_tensor_release(other);
    if (found == 1)
        return assign_result(self, err, out);
    gt__py_fail_write(self);
    return found < 0 ? NULL : Py_NewRef(Py_NotImplemented);
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
INPLACE(and, GT_OP_bitwise_and)
INPLACE(or, GT_OP_bitwise_or)
INPLACE(xor, GT_OP_bitwise_xor)
INPLACE(lshift, GT_OP_bitwise_left_shift)
INPLACE(rshift, GT_OP_bitwise_right_shift)
#undef INPLACE

static PyObject *inplace_power(PyObject *self, PyObject *other, PyObject *modulus)
{
    if (modulus != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
    if (gt__py_check_operands(self, &other, 1) < 0)
        return NULL;
    PyObject *result = power(self, other);
    return result == Py_NotImplemented ? result : gt__py_adopt(self, result);
}

/* ---- methods of the table -------------------------------------------------------------------------------- */

/* self // other as div() rounds it: with gradients of 0, where floor_divide() has none. */
static PyObject *quotient_rounded_down(PyObject *self, PyObject *other)
{
    PyObject *result = binary(GT_OP_floor_divide, self, other);
    if (result && gt__py_is_tensor(result) && gt__py_requires_grad(result))
        gt__autograd_rounds(gt__py_node(result));
    return result;
}

/* A tensor of the same dtype, of one element; promotion asks whether it has dimensions. */
static gt_meta one_element(PyObject *tensor)
{
    const gt_meta *meta = gt__py_meta(tensor);
    return (gt_meta){.numel = 1, .rank = meta->rank > 0, .dtype = meta->dtype, .shape = {1}};
}

/* The dtype of `self op other`, which may be a number. */
static int result_dtype(gt_opcode op, PyObject *self, PyObject *other, gt_dtype *dtype)
{
    gt_instruction ins = {.op = (uint16_t)op};
    gt_meta given[2] = {one_element(self)};
    const gt_meta *in[GT_MAX_OPERANDS] = {&given[0], NULL};
    gt_literal kind = GT_LITERAL_FLOAT;
    gt_meta out;
    if (gt__py_is_tensor(other)) {
        given[1] = one_element(other);
        in[1] = &given[1];
    } else {
        if (!PyComplex_Check(other) && gt__py_number(other, &kind, &ins.literal[1]) < 0)
            return -1;
        ins.literals = (uint8_t)(kind << 2);
    }
    gt_dtype compute;
    gt_err err = gt__op_infer(&ins, NULL, in, &out, &compute);
    if (err != GT_OK)
        gt__py_raise(err);
    *dtype = PyComplex_Check(other) ? gt__dtype_complex((gt_dtype)out.dtype) : (gt_dtype)out.dtype;
    return err == GT_OK ? 0 : -1;
}

/* self._result_dtype(other): of self + other; nothing is computed. */
static PyObject *method_result_dtype(PyObject *self, PyObject *other)
{
    gt_dtype dtype;
    return result_dtype(GT_OP_add, self, other, &dtype) < 0 ? NULL : gt__py_dtype_object(dtype);
}

/* PyTorch's refusals of an alpha that the result cannot have as an element; sub() converts its opposite. */
static int check_alpha(gt_opcode op, gt_dtype dtype, PyObject *alpha)
{
    if (PyBool_Check(alpha) && dtype != GT_BOOL)
        PyErr_SetString(PyExc_RuntimeError, "Boolean alpha only supported for Boolean results.");
    else if (PyFloat_Check(alpha) && !gt__dtype_is_inexact(dtype))
        PyErr_SetString(PyExc_RuntimeError,
                        "For integral input tensors, argument alpha must not be a floating point number.");
    else if (PyComplex_Check(alpha) && !gt__dtype_is_complex(dtype))
        PyErr_SetString(PyExc_RuntimeError,
                        "For non-complex input tensors, argument alpha must not be a complex number.");
    else if (PyComplex_Check(alpha))
        return 0;
    else {
        PyObject *factor = op == GT_OP_sub ? PyNumber_Negative(alpha) : Py_NewRef(alpha);
        int status = factor ? gt__py_check_number(factor, dtype) : -1;
        Py_XDECREF(factor);
        return status;
    }
    return -1;
}

/* alpha as an element of the dtype: of halves it is rounded, and for bools it is whether it is 0. A new reference. */
static PyObject *rounded_alpha(gt_dtype dtype, PyObject *alpha)
{
    if (dtype == GT_BOOL)
        return PyBool_FromLong(PyObject_IsTrue(alpha));
    if (!gt__dtype_is_half(dtype) || PyComplex_Check(alpha))
        return Py_NewRef(alpha);
    double number = PyFloat_AsDouble(alpha);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    return PyFloat_FromDouble(dtype == GT_FLOAT16 ? gt__load_float16(gt__store_float16_from_double(number))
                                                  : gt__load_bfloat16(gt__store_bfloat16_from_double(number)));
}

/* alpha * other, as a part of an operation that saves nothing for its gradient. */
static PyObject *scaled(PyObject *other, PyObject *factor)
{
    PyObject *result = PyNumber_Multiply(other, factor);
    if (result && gt__py_is_tensor(result) && gt__py_requires_grad(result))
        gt__autograd_save_nothing(gt__py_node(result), GT_OP_mul);
    return result;
}

/* self._scaled(number): as above. */
static PyObject *method_scaled(PyObject *self, PyObject *factor)
{
    return scaled(self, factor);
}

/* binary() for a method, or for one in place, whose result is the next value of self. */
static PyObject *method_result(gt_opcode op, PyObject *self, PyObject *other, bool in_place)
{
    return in_place ? binary_slow(op, self, other, true) : binary(op, self, other);
}

/* self + alpha * other, or minus. The product has the dtype of the result. */
static PyObject *scaled_sum(gt_opcode op, PyObject *self, PyObject *other, PyObject *alpha, bool in_place)
{
    gt_dtype dtype;
    if (result_dtype(op, self, other, &dtype) < 0 || check_alpha(op, dtype, alpha) < 0)
        return NULL;
    bool differs = gt__py_is_tensor(other) && gt__py_meta(other)->dtype != dtype;
    PyObject *same =
        differs ? PyObject_CallMethod(other, "to", "N", gt__py_dtype_object(dtype)) : Py_NewRef(other);
    PyObject *factor = same ? rounded_alpha(dtype, alpha) : NULL;
    PyObject *product = factor ? scaled(same, factor) : NULL;
    if (product && dtype == GT_BOOL && !gt__py_is_tensor(product)) /* True * True is 1 in Python */
        Py_SETREF(product, PyBool_FromLong(PyObject_IsTrue(product)));
    PyObject *result = product ? method_result(op, self, product, in_place) : NULL;
    Py_XDECREF(same);
    Py_XDECREF(factor);
    Py_XDECREF(product);
    return result;
}

/* add(other, alpha=) is self + alpha * other; div(other, rounding_mode='floor') is //, and 'trunc' rounds to zero. */
static PyObject *binary_options(gt_opcode op, const char *name, PyObject *self, PyObject *const values[3],
                                bool in_place)
{
    PyObject *other = values[0], *alpha = values[1], *rounding = values[2];
    if ((alpha && op != GT_OP_add && op != GT_OP_sub) || (rounding && op != GT_OP_div))
        return PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%s'", name,
                            alpha ? "alpha" : "rounding_mode");
    if (alpha)
        return scaled_sum(op, self, other, alpha, in_place);
    if (!rounding || rounding == Py_None)
        return op == GT_OP_pow ? power(self, other) : method_result(op, self, other, in_place);
    if (PyUnicode_Check(rounding) && PyUnicode_CompareWithASCIIString(rounding, "floor") == 0)
        return quotient_rounded_down(self, other);
    if (PyUnicode_Check(rounding) && PyUnicode_CompareWithASCIIString(rounding, "trunc") == 0)
        return binary(GT_OP_trunc_divide, self, other);
    return PyErr_Format(PyExc_RuntimeError,
                        "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found %R",
                        rounding);
}

/* PyTorch's deprecated overload add(alpha, other). */
static bool number_first(gt_opcode op, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    return (op == GT_OP_add || op == GT_OP_sub) && nargs == 2 && !kwnames && !gt__py_is_tensor(args[0]) &&
           gt__py_is_tensor(args[1]) &&
           (PyFloat_Check(args[0]) || PyLong_Check(args[0]) || PyComplex_Check(args[0]));
}

static PyObject *binary_method(gt_opcode op, const char *name, PyObject *self, gt_py_args args, Py_ssize_t nargs,
                               PyObject *kwnames, bool in_place)
{
    static const char *const names[] = {"other|exponent", "alpha", "rounding_mode"};
    PyObject *values[3] = {nargs == 1 ? args[0] : NULL}, *result;
    if (nargs == 1 && !kwnames) {
        result = op == GT_OP_pow ? power(self, values[0]) : method_result(op, self, values[0], in_place);
    } else {
        if (number_first(op, args, nargs, kwnames)) {
            if (PyErr_WarnFormat(PyExc_UserWarning, 1,
                                 "This overload of %s is deprecated:\n\t%s(Number alpha, Tensor other)\nConsider "
                                 "using one of the following signatures instead:\n\t%s(Tensor other, *, Number "
                                 "alpha = 1)",
                                 name, name, name) < 0)
                return NULL;
            values[0] = args[1];
            values[1] = args[0];
        } else if (gt__py_parse(name, args, nargs, kwnames, names, 3, 1, values) < 0) {
            return NULL;
        }
        if (!values[0])
            return PyErr_Format(PyExc_TypeError, "%s() missing required argument 'other'", name);
        result = binary_options(op, name, self, values, in_place);
    }
    if (result != Py_NotImplemented)
        return result;
    Py_DECREF(result);
    return PyErr_Format(PyExc_TypeError, "%s(): argument 'other' must be Tensor or a number, not %s", name,
                        Py_TYPE(values[0])->tp_name);
}

/* Methods that take no number as the other operand, as in PyTorch. */
static inline bool tensors_only(gt_opcode op)
{
    return op == GT_OP_maximum || op == GT_OP_minimum || op == GT_OP_atan2 || op == GT_OP_hypot ||
           op == GT_OP_logaddexp || op == GT_OP_logaddexp2 || op == GT_OP_igamma || op == GT_OP_igammac ||
           op == GT_OP_logical_and || op == GT_OP_logical_or || op == GT_OP_logical_xor;
}

static PyObject *refuse_operand(const char *name, PyObject *operand)
{
    return PyErr_Format(PyExc_TypeError, "%s(): argument 'other' (position 2) must be Tensor, not %s", name,
                        Py_TYPE(operand)->tp_name);
}

PyObject *gt__py_binary(gt_opcode op, PyObject *x, PyObject *y)
{
    return binary(op, x, y);
}

PyObject *gt__py_unary(gt_opcode op, PyObject *self)
{
    return unary(op, self);
}

PyObject *gt__py_adopt(PyObject *self, PyObject *result)
{
    gt_tensor *tensor = result ? gt__py_use(result) : NULL;
    gt_tensor_retain(tensor);
    Py_XDECREF(result);
    return tensor ? assign_result(self, GT_OK, tensor) : gt__py_fail_write(self);
}

int gt__py_become(PyObject *self, gt_err err, gt_tensor *result)
{
    PyObject *assigned = assign_result(self, err, result);
    Py_XDECREF(assigned);
    return assigned ? 0 : -1;
}

int gt__py_update(gt_opcode op, PyObject *self, gt_tensor *other, double number)
{
    if (UNLIKELY(((TensorObject *)self)->alias != NULL)) {
        PyObject *object = other ? gt__py_wrap(other) : PyFloat_FromDouble(number);
        PyObject *updated = object ? inplace(op, self, object) : NULL;
        Py_XDECREF(object);
        Py_XDECREF(updated);
        return updated ? 0 : -1;
    }
    gt_tensor *a = gt__py_hold(self), *out = NULL;
    gt_err err = a ? gt__emit_update(op, a, a->name, other, GT_LITERAL_FLOAT, (gt_imm){.f = number}, &out) : GT_OK;
    gt_tensor_release(a);
    gt_tensor_release(other);
    return a ? gt__py_become(self, err, out) : -1;
}

/* self._become(value): the last step of an in-place method that is written in Python. */
static PyObject *method_become(PyObject *self, PyObject *value)
{
    if (!gt__py_is_tensor(value))
        return PyErr_Format(PyExc_TypeError, "expected a Tensor, not %s", Py_TYPE(value)->tp_name);
    return gt__py_adopt(self, Py_NewRef(value));
}

/* self._replace(value): self becomes a view (squeeze_(), t_()), or gets a value of another shape (resize_()). */
static PyObject *method_replace(PyObject *self, PyObject *value)
{
    if (!gt__py_is_tensor(value))
        return PyErr_Format(PyExc_TypeError, "expected a Tensor, not %s", Py_TYPE(value)->tp_name);
    if (gt__py_check_write(self, false) < 0)
        return NULL;
    if (!((TensorObject *)value)->alias && gt__meta_same_shape(gt__py_meta(self), gt__py_meta(value)))
        return gt__py_adopt(self, Py_NewRef(value));
    if (!gt__py_alias(value))
        return NULL;
    return gt__py_become_view(self, value) < 0 ? NULL : Py_NewRef(self);
}

/* As in PyTorch it is int64. */
static PyObject *square_of_bool(PyObject *self)
{
    gt_tensor *a = gt__py_use(self), *wide = NULL;
    if (!a)
        return NULL;
    gt_err err = gt_cast(a, GT_INT64, &wide);
    return gt__py_elementwise(err, wide, &self, 1);
}

#define UNARY(name, types, expr, grad)                                                                            \
    static PyObject *method_##name(PyObject *self, PyObject *unused)                                              \
    {                                                                                                             \
        (void)unused;                                                                                             \
        if (GT_OP_##name == GT_OP_square && ((TensorObject *)self)->tensor->meta.dtype == GT_BOOL)                \
            return square_of_bool(self);                                                                          \
        return unary(GT_OP_##name, self);                                                                         \
    }                                                                                                             \
    static PyObject *method_##name##_inplace(PyObject *self, PyObject *unused)                                    \
    {                                                                                                             \
        if (GT_OP_##name == GT_OP_abs && gt__dtype_is_complex((gt_dtype)gt__py_meta(self)->dtype))                \
            return PyErr_Format(PyExc_RuntimeError, "In-place abs is not supported for complex tensors.");        \
        return gt__py_check_operands(self, NULL, 0) < 0 ? NULL : gt__py_adopt(self, method_##name(self, unused)); \
    }
#define BINARY(name, types, expr, grad)                                                                           \
    static PyObject *method_##name(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)          \
    {                                                                                                             \
        if (tensors_only(GT_OP_##name) && nargs && !gt__py_is_tensor(args[0]))                                    \
            return refuse_operand(#name, args[0]);                                                                \
        return binary_method(GT_OP_##name, #name, self, args, nargs, kwnames, false);                             \
    }                                                                                                             \
    static PyObject *method_##name##_inplace(PyObject *self, gt_py_args args, Py_ssize_t nargs,                   \
                                             PyObject *kwnames)                                                   \
    {                                                                                                             \
        if (gt__py_check_operands(self, args, gt__py_argument_count(nargs, kwnames)) < 0)                         \
            return NULL;                                                                                          \
        if (tensors_only(GT_OP_##name) && nargs && !gt__py_is_tensor(args[0]))                                    \
            return gt__py_adopt(self, refuse_operand(#name, args[0]));                                            \
        return gt__py_adopt(self, binary_method(GT_OP_##name, #name, self, args, nargs, kwnames, true));          \
    }
#include "core/ops.def"

PyMethodDef gt__py_operator_methods[] = {
#define UNARY(name, types, expr, grad)                                                                            \
    NOARGS(#name, method_##name, #name "(): elementwise."),                                                       \
        NOARGS(#name "_", method_##name##_inplace, #name "_(): in place."),
#define BINARY(name, types, expr, grad)                                                                           \
    FAST(#name, method_##name, #name "(other): elementwise, broadcast."),                                         \
        FAST(#name "_", method_##name##_inplace, #name "_(other): in place."),
#include "core/ops.def"
    {.ml_name = "_become", .ml_meth = method_become, .ml_flags = METH_O, .ml_doc = "_become(value): in place."},
    {.ml_name = "_scaled",
     .ml_meth = method_scaled,
     .ml_flags = METH_O,
     .ml_doc = "_scaled(number): times alpha."},
    {.ml_name = "_result_dtype",
     .ml_meth = method_result_dtype,
     .ml_flags = METH_O,
     .ml_doc = "_result_dtype(other): the dtype of self + other."},
    {.ml_name = "_replace",
     .ml_meth = method_replace,
     .ml_flags = METH_O,
     .ml_doc = "_replace(value): of any shape."},
/* aliases */
#define TOO(alias, name)                                                                                          \
    FAST(#alias, method_##name, #alias ": " #name),                                                               \
        FAST(#alias "_", method_##name##_inplace, #alias "_: " #name "_"),
#define TOO_UNARY(alias, name)                                                                                    \
    NOARGS(#alias, method_##name, #alias ": " #name),                                                             \
        NOARGS(#alias "_", method_##name##_inplace, #alias "_: " #name "_"),
    TOO(subtract, sub) TOO(multiply, mul) TOO(divide, div) TOO(true_divide, div) TOO(not_equal, ne) TOO(less, lt)
        TOO(less_equal, le) TOO(greater, gt) TOO(greater_equal, ge) TOO(arctan2, atan2) TOO_UNARY(negative, neg)
            TOO_UNARY(absolute, abs) TOO_UNARY(fix, trunc) TOO_UNARY(arcsin, asin) TOO_UNARY(arccos, acos)
                TOO_UNARY(arctan, atan) TOO_UNARY(arcsinh, asinh) TOO_UNARY(arccosh, acosh)
                    TOO_UNARY(arctanh, atanh){.ml_name = NULL},
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
    SLOT(Py_nb_lshift, number_lshift),
    SLOT(Py_nb_rshift, number_rshift),
    SLOT(Py_nb_inplace_add, inplace_add),
    SLOT(Py_nb_inplace_subtract, inplace_subtract),
    SLOT(Py_nb_inplace_multiply, inplace_multiply),
    SLOT(Py_nb_inplace_true_divide, inplace_true_divide),
    SLOT(Py_nb_inplace_floor_divide, inplace_floor_divide),
    SLOT(Py_nb_inplace_remainder, inplace_remainder),
    SLOT(Py_nb_inplace_power, inplace_power),
    SLOT(Py_nb_inplace_and, inplace_and),
    SLOT(Py_nb_inplace_or, inplace_or),
    SLOT(Py_nb_inplace_xor, inplace_xor),
    SLOT(Py_nb_inplace_lshift, inplace_lshift),
    SLOT(Py_nb_inplace_rshift, inplace_rshift),
    SLOT(Py_tp_richcompare, tensor_richcompare),
    {.slot = 0},
};

/*
 * numbers.c: methods of the elementwise rows that take numbers besides tensors (_PQ), and of those with three operands.
 * clamp, whose bounds may be tensors, and lerp are written out; the others are generated from the table of names and
 * defaults below. Read operators.c first.
 */
#include "core/convert.h"
#include "alias.h"

#include <math.h>

/* ---- clamp ------------------------------------------------------------------------------------------------ */

/* A bound of clamp: a number, or a tensor, which is applied by minimum or maximum. */
typedef struct Bound {
    bool is_tensor;
    gt_literal kind; /* NONE: no bound */
    gt_imm number;
    double value;
} Bound;

/* The number of an object, which must fit the dtype. */
static int fitting_number(PyObject *object, gt_dtype dtype, gt_literal *kind, gt_imm *value)
{
    if (gt__py_number(object, kind, value) < 0)
        return -1;
    gt_err err = gt__dtype_check_number(dtype, *kind, *value);
    if (err != GT_OK)
        gt__py_raise(err);
    return err == GT_OK ? 0 : -1;
}

int gt__py_check_number(PyObject *object, gt_dtype dtype)
{
    gt_literal kind;
    gt_imm value;
    return fitting_number(object, dtype, &kind, &value);
}

/* self._fit(number, dtype=None): the number as an element of a dtype, or of self's. Floats lose their fraction in integers;
 * they are not rounded. */
static PyObject *method_fit(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"number", "dtype"};
    PyObject *values[2];
    gt_dtype dtype = (gt_dtype)gt__py_meta(self)->dtype;
    gt_literal kind;
    gt_imm value;
    if (gt__py_parse("_fit", args, nargs, kwnames, names, 2, 2, values) < 0 ||
        (values[1] && gt__py_dtype(values[1], &dtype) < 0))
        return NULL;
    PyObject *number = values[0];
    if (!number)
        return PyErr_Format(PyExc_TypeError, "_fit() needs a number");
    if (PyComplex_Check(number))
        return gt__py_check_parts(number, dtype) < 0 ? NULL : Py_NewRef(number);
    if (fitting_number(number, dtype, &kind, &value) < 0)
        return NULL;
    double real = gt__py_literal_double(kind, value);
    if (dtype == GT_BOOL)
        return PyBool_FromLong(real != 0);
    if (gt__dtype_is_inexact(dtype))
        return PyFloat_FromDouble(real);
    int64_t integer = kind == GT_LITERAL_FLOAT ? gt__double_to_int64(real) : value.i;
    return PyLong_FromLongLong(dtype == GT_UINT8 && integer < 0 ? integer + UINT8_MAX + 1 : integer);
}

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
    bound->number = value;
    return 0;
}

/* PyTorch converts a bound to the dtype of the result: -1 is 255 in uint8. */
static gt_err fit_bound(Bound *bound, gt_dtype dtype)
{
    if (bound->kind == GT_LITERAL_NONE || isnan(bound->value))
        return GT_OK;
    GT_TRY(gt__dtype_check_number(dtype, bound->kind, bound->number));
    if (dtype == GT_UINT8 && bound->value < 0)
        bound->value += UINT8_MAX + 1;
    return GT_OK;
}

/* Whether the row, which has doubles for its bounds, can be given this one. */
static bool fits_double(const Bound *bound)
{
    return bound->kind != GT_LITERAL_INT ||
           (bound->number.i <= INT64_C(1) << 53 && bound->number.i >= -(INT64_C(1) << 53));
}

/* PyTorch's refusals. */
static int check_clamp(gt_dtype dtype, const Bound *low, const Bound *high)
{
    if (gt__dtype_is_complex(dtype))
        PyErr_SetString(PyExc_NotImplementedError, "clamp is not supported for complex types");
    else if (dtype == GT_BOOL && low->kind <= GT_LITERAL_BOOL && high->kind <= GT_LITERAL_BOOL)
        PyErr_Format(PyExc_NotImplementedError, "\"clamp_%sscalar_cpu\" not implemented for 'Bool'",
                     low->kind && high->kind ? ""
                     : low->kind             ? "min_"
                                             : "max_");
    else
        return 0;
    return -1;
}

/*
 * One bound. The gradient of an element that is equal to its bound goes to the element, as in PyTorch; that of maximum and
 * minimum would go to both in halves.
 */
static PyObject *bounded(PyObject *x, PyObject *bound, gt_opcode op)
{
    PyObject *limited = gt__py_binary(op, x, bound);
    if (!limited || (!gt__py_is_recorded(x) && !gt__py_is_recorded(bound)))
        return limited;
    Py_DECREF(limited);
    PyObject *beyond = gt__py_binary(op == GT_OP_maximum ? GT_OP_lt : GT_OP_gt, x, bound);
    PyObject *strange = beyond ? gt__py_binary(GT_OP_ne, bound, bound) : NULL; /* a bound that is NaN */
    PyObject *chosen = strange ? gt__py_binary(GT_OP_bitwise_or, beyond, strange) : NULL;
    PyObject *result = chosen ? gt__py_where((PyObject *[]){chosen, bound, x}) : NULL;
    Py_XDECREF(beyond);
    Py_XDECREF(strange);
    Py_XDECREF(chosen);
    return result;
}

static PyObject *bounds_tensors(PyObject *self, PyObject *low, PyObject *high)
{
    PyObject *result = Py_NewRef(self);
    if (low && low != Py_None)
        Py_SETREF(result, bounded(result, low, GT_OP_maximum));
    if (result && high && high != Py_None)
        Py_SETREF(result, bounded(result, high, GT_OP_minimum));
    return result;
}

static PyObject *clamp(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"min|a_min", "max|a_max"};
    PyObject *values[2];
    Bound low, high;
    if (gt__py_parse("clamp", args, nargs, kwnames, names, 2, 2, values) < 0 ||
        bound_from(values[0], -INFINITY, &low) < 0 || bound_from(values[1], INFINITY, &high) < 0)
        return NULL;
    if ((!values[0] || values[0] == Py_None) && (!values[1] || values[1] == Py_None))
        return PyErr_Format(PyExc_RuntimeError, "clamp: At least one of 'min' or 'max' must not be None");
    bool both = low.kind && high.kind; /* of two numbers, PyTorch ignores no NaN */
    if (!low.is_tensor && !high.is_tensor && check_clamp((gt_dtype)gt__py_meta(self)->dtype, &low, &high) < 0)
        return NULL;
    gt_dtype given = (gt_dtype)gt__py_meta(self)->dtype;
    bool exact = (given != GT_INT64 && given != GT_BOOL) || (fits_double(&low) && fits_double(&high));
    if (low.is_tensor || high.is_tensor || !exact || (both && (isnan(low.value) || isnan(high.value))))
        return bounds_tensors(self, values[0], values[1]);
    gt_tensor *a = gt__py_use(self), *out = NULL, *wide = NULL;
    if (!a)
        return NULL;
    gt_literal widest = low.kind > high.kind ? low.kind : high.kind;
    gt_dtype dtype = (gt_dtype)a->meta.dtype;
    if (widest == GT_LITERAL_FLOAT && !gt__dtype_is_float(dtype))
        dtype = GT_FLOAT32;
    else if (widest == GT_LITERAL_INT && dtype == GT_BOOL)
        dtype = GT_INT64;
    gt_err err = fit_bound(&low, dtype);
    if (err == GT_OK)
        err = fit_bound(&high, dtype);
    if (err == GT_OK && dtype != a->meta.dtype)
        err = gt_cast(a, dtype, &wide);
    if (err == GT_OK)
        err = gt_clamp(wide ? wide : a, low.value, high.value, &out);
    gt_tensor_release(wide);
    return gt__py_elementwise(err, out, &self, 1);
}

/* ---- the others ------------------------------------------------------------------------------------------- */

/* The names of a row's p and q, and their defaults. */
static const struct {
    const char *names[2];
    double defaults[2];
} parameters[GT_OP_COUNT] = {
    [GT_OP_hardtanh] = {.names = {"min_val", "max_val"}, .defaults = {-1, 1}},
    [GT_OP_leaky_relu] = {.names = {"negative_slope", "unused"}, .defaults = {0.01, 0}},
    [GT_OP_elu] = {.names = {"alpha", "input_scale"}, .defaults = {1, 1}},
    [GT_OP_logit] = {.names = {"eps", "unused"}, .defaults = {-1, 0}},
    [GT_OP_polygamma] = {.names = {"n", "unused"}, .defaults = {0, 0}},
    [GT_OP_bessel] = {.names = {"kind", "unused"}, .defaults = {0, 0}},
    [GT_OP_polynomial] = {.names = {"kind", "unused"}, .defaults = {0, 0}},
    [GT_OP_nextafter] = {.names = {"bits", "unused"}, .defaults = {23, 0}},
    [GT_OP_clamp_backward] = {.names = {"min", "max"}, .defaults = {-INFINITY, INFINITY}},
    [GT_OP_hardtanh_backward] = {.names = {"min_val", "max_val"}, .defaults = {-1, 1}},
    [GT_OP_leaky_relu_backward] = {.names = {"negative_slope", "unused"}, .defaults = {0.01, 0}},
    [GT_OP_elu_backward] = {.names = {"alpha", "input_scale"}, .defaults = {1, 1}},
};

/*
 * PyTorch's refusals of activations: hardtanh converts its numbers to the dtype, the others to the dtype that they compute in,
 * and have no kernels for integers.
 */
static int check_activation(gt_opcode op, gt_dtype dtype, PyObject *const *numbers)
{
    if (op != GT_OP_hardtanh && op != GT_OP_leaky_relu && op != GT_OP_elu)
        return 0;
    if (op != GT_OP_hardtanh && !gt__dtype_is_float(dtype)) {
        PyErr_Format(PyExc_NotImplementedError, "\"%s_cpu\" not implemented for '%s'", gt__op_table[op].name,
                     gt__dtype_kind(dtype));
        return -1;
    }
    if (op == GT_OP_hardtanh && dtype == GT_UINT8 && numbers[0]) {
        PyObject *zero = PyLong_FromLong(0);
        int negative = zero ? PyObject_RichCompareBool(numbers[0], zero, Py_LT) : -1;
        Py_XDECREF(zero);
        if (negative > 0)
            PyErr_SetString(PyExc_RuntimeError, "cannot do hardtanh on an unsigned type with negative limits");
        if (negative)
            return -1;
    }
    gt_dtype checked = op != GT_OP_hardtanh && gt__dtype_is_half(dtype) ? GT_FLOAT32 : dtype;
    for (int k = 0; k < 2; k++)
        if (numbers[k] && gt__py_check_number(numbers[k], checked) < 0)
            return -1;
    return 0;
}

/* self, `tensors` more, then p and q. */
static PyObject *numbers_method(gt_opcode op, PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames,
                                int tensors)
{
    const char *function = gt__op_table[op].name;
    const char *names[3] = {"other", parameters[op].names[0], parameters[op].names[1]};
    PyObject *values[3] = {NULL};
    double number[2] = {parameters[op].defaults[0], parameters[op].defaults[1]};
    if (op == GT_OP_clamp)
        return clamp(self, args, nargs, kwnames);
    if (gt__py_parse(function, args, nargs, kwnames, names + 1 - tensors, 2 + tensors, 2 + tensors, values) < 0)
        return NULL;
    if (!tensors && check_activation(op, (gt_dtype)gt__py_meta(self)->dtype, values) < 0)
        return NULL;
    if (tensors && (!values[0] || !gt__py_is_tensor(values[0])))
        return PyErr_Format(PyExc_TypeError, "%s(): argument 'other' must be Tensor", function);
    for (int k = 0; k < 2; k++) {
        gt_literal kind;
        gt_imm value;
        if (!values[tensors + k])
            continue;
        if (gt__py_number(values[tensors + k], &kind, &value) < 0)
            return NULL;
        number[k] = gt__py_literal_double(kind, value);
    }
    gt_tensor *a = gt__py_hold(self), *other = a && tensors ? gt__py_hold(values[0]) : NULL, *out = NULL;
    gt_err err = GT_OK;
    bool ready = a && (other || !tensors);
    if (ready)
        err = tensors ? gt__emit_binary_numbers(op, a, other, number[0], number[1], &out)
                      : gt__emit_numbers(op, a, number[0], number[1], &out);
    gt_tensor_release(a);
    gt_tensor_release(other);
    return ready ? gt__py_elementwise(err, out, (PyObject *[]){self, tensors ? values[0] : self}, 1 + tensors)
                 : NULL;
}

/* PyTorch's refusals of lerp(end, weight): integers, and tensors of another dtype than self's. */
static int check_lerp(PyObject *self, PyObject *const operands[2])
{
    gt_dtype dtype = (gt_dtype)gt__py_meta(self)->dtype;
    for (int k = 0; k < 2; k++) {
        if (!gt__py_is_tensor(operands[k]) || gt__py_meta(operands[k])->dtype == dtype)
            continue;
        PyErr_Format(PyExc_RuntimeError, "expected dtype %s for `%s` but got dtype %s", gt__dtype_c_name(dtype),
                     k ? "weight" : "end", gt__dtype_c_name((gt_dtype)gt__py_meta(operands[k])->dtype));
        return -1;
    }
    bool scalar = !gt__py_is_tensor(operands[1]);
    if (!gt__dtype_is_inexact(dtype))
        PyErr_Format(PyExc_NotImplementedError, "\"lerp_kernel_%s\" not implemented for '%s'",
                     scalar ? "scalar" : "tensor", gt__dtype_kind(dtype));
    else if (!scalar || PyComplex_Check(operands[1]))
        return 0;
    else
        return gt__py_check_number(operands[1], gt__dtype_is_half(dtype) ? GT_FLOAT32 : dtype);
    return -1;
}

/* self and two more operands, tensors or numbers. */
static PyObject *ternary_method(gt_opcode op, const char *const names[2], PyObject *self, gt_py_args args,
                                Py_ssize_t nargs, PyObject *kwnames)
{
    const char *function = gt__op_table[op].name;
    PyObject *values[2];
    gt_tensor *tensors[2] = {NULL}, *out = NULL;
    gt_literal kinds[2] = {GT_LITERAL_NONE};
    gt_imm numbers[2] = {{.i = 0}};
    if (gt__py_parse(function, args, nargs, kwnames, names, 2, 2, values) < 0)
        return NULL;
    if (!values[0] || !values[1])
        return PyErr_Format(PyExc_TypeError, "%s() needs %s and %s", function, names[0], names[1]);
    if (op == GT_OP_lerp && check_lerp(self, values) < 0)
        return NULL;
    gt_tensor *a = gt__py_use(self);
    if (!a)
        return NULL;
    gt_tensor_retain(a); /* converting the others may run code that rebinds self */
    int found = 1;
    for (int k = 0; found == 1 && k < 2; k++)
        found = gt__py_operand(values[k], a->client, (gt_dtype)a->meta.dtype, &tensors[k], &kinds[k], &numbers[k]);
    gt_err err = GT_OK;
    if (found == 1)
        err = gt__emit_ternary(op, a, tensors[0], kinds[0], numbers[0], tensors[1], kinds[1], numbers[1], &out);
    if (found == 1 && err == GT_OK && op == GT_OP_lerp && !tensors[1])
        gt__autograd_save_nothing(out->node, op);
    gt_tensor_release(a);
    gt_tensor_release(tensors[0]);
    gt_tensor_release(tensors[1]);
    if (found == 0)
        PyErr_Format(PyExc_TypeError, "%s() takes Tensors and numbers", function);
    return found == 1 ? gt__py_elementwise(err, out, (PyObject *[]){self, values[0], values[1]}, 3) : NULL;
}

static PyObject *method_lerp(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    return ternary_method(GT_OP_lerp, (const char *const[]){"end", "weight"}, self, args, nargs, kwnames);
}

static PyObject *method_dirichlet_grad(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    return ternary_method(GT_OP_dirichlet_grad, (const char *const[]){"alpha", "total"}, self, args, nargs,
                          kwnames);
}

/* ---- the methods ------------------------------------------------------------------------------------------ */

#define INPLACE(name)                                                                                             \
    static PyObject *method_##name##_inplace(PyObject *self, gt_py_args args, Py_ssize_t nargs,                   \
                                             PyObject *kwnames)                                                   \
    {                                                                                                             \
        if (gt__py_check_operands(self, args, gt__py_argument_count(nargs, kwnames)) < 0)                         \
            return NULL;                                                                                          \
        return gt__py_adopt(self, method_##name(self, args, nargs, kwnames));                                     \
    }
#define METHOD(name, tensors)                                                                                     \
    static PyObject *method_##name(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)          \
    {                                                                                                             \
        return numbers_method(GT_OP_##name, self, args, nargs, kwnames, tensors);                                 \
    }                                                                                                             \
    INPLACE(name)
#define UNARY_PQ(name, types, expr, grad) METHOD(name, 0)
#define BINARY_PQ(name, types, expr, grad) METHOD(name, 1)
#include "core/ops.def"
INPLACE(lerp)

/* where's method is in movement.c: its first operand is the condition, not self. */
PyMethodDef gt__py_number_methods[] = {
#define BOTH(name, arguments)                                                                                     \
    FAST(#name, method_##name, #name arguments ": elementwise."),                                                 \
        FAST(#name "_", method_##name##_inplace, #name "_" arguments ": in place."),
#define UNARY_PQ(name, types, expr, grad) BOTH(name, "(...)")
#define BINARY_PQ(name, types, expr, grad) BOTH(name, "(other, ...)")
#include "core/ops.def"
    FAST("_fit", method_fit, "_fit(number, dtype=None): as an element of the dtype, or of self's."),
    FAST("dirichlet_grad", method_dirichlet_grad, "dirichlet_grad(alpha, total): how a Dirichlet sample moves."),
    BOTH(lerp, "(end, weight)") FAST("clip", method_clamp, "clip(min=None, max=None): clamp."),
    FAST("clip_", method_clamp_inplace, "clip_(min=None, max=None): clamp_."),
    {.ml_name = NULL},
};

/*
 * numbers.c: methods of the elementwise rows that take numbers besides tensors (_PQ), and of those with three operands.
 * clamp, whose bounds may be tensors, and lerp are written out; the others are generated from the table of names and
 * defaults below. Read operators.c first.
 */
#include "alias.h"

#include <math.h>

/* ---- clamp ------------------------------------------------------------------------------------------------ */

/* A bound of clamp: a number, or a tensor, which is applied by minimum or maximum. */
typedef struct Bound {
    bool is_tensor;
    gt_literal kind; /* NONE: no bound */
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
        if (gt__py_check_operands(self, args, nargs) < 0)                                                         \
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
    FAST("dirichlet_grad", method_dirichlet_grad, "dirichlet_grad(alpha, total): how a Dirichlet sample moves."),
    BOTH(lerp, "(end, weight)") FAST("clip", method_clamp, "clip(min=None, max=None): clamp."),
    FAST("clip_", method_clamp_inplace, "clip_(min=None, max=None): clamp_."),
    {.ml_name = NULL},
};

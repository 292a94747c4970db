/*
 * functions.c: gt.add, gt.pow and other functions whose first operand may be a number, as in PyTorch.
 *
 * Other functions gt.name are Tensor.name itself. These take a number first, too: gt.pow(2, t) is 2 ** t.
 * client/tensor.py adds them to the package.
 */
#include "extension.h"

/* self is a pair: the method, and the equivalent Python operator. */
static PyObject *either_order(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (nargs == 2 && !kwnames && !gt__py_is_tensor(args[0]) && PyNumber_Check(args[0]) &&
        gt__py_is_tensor(args[1]))
        return PyObject_Vectorcall(PyTuple_GET_ITEM(self, 1), args, 2, NULL);
    return PyObject_Vectorcall(PyTuple_GET_ITEM(self, 0), args, (size_t)nargs, kwnames);
}

static struct {
    const char *operator; /* of the module operator */
    PyMethodDef function;
} either[] = {
    {"add", FAST("add", either_order, "add(input, other, *, alpha=1): input + alpha * other.")},
    {"sub", FAST("sub", either_order, "sub(input, other, *, alpha=1): input - alpha * other.")},
    {"sub", FAST("subtract", either_order, "subtract(input, other, *, alpha=1): sub.")},
    {"mul", FAST("mul", either_order, "mul(input, other): input * other.")},
    {"mul", FAST("multiply", either_order, "multiply(input, other): mul.")},
    {"truediv", FAST("div", either_order, "div(input, other, *, rounding_mode=None): input / other.")},
    {"truediv", FAST("divide", either_order, "divide(input, other, *, rounding_mode=None): div.")},
    {"truediv", FAST("true_divide", either_order, "true_divide(input, other): input / other.")},
    {"floordiv", FAST("floor_divide", either_order, "floor_divide(input, other): input // other.")},
    {"mod", FAST("remainder", either_order, "remainder(input, other): input % other.")},
    {"pow", FAST("pow", either_order, "pow(input, exponent): input ** exponent.")},
    {"and_", FAST("bitwise_and", either_order, "bitwise_and(input, other): input & other.")},
    {"or_", FAST("bitwise_or", either_order, "bitwise_or(input, other): input | other.")},
    {"xor", FAST("bitwise_xor", either_order, "bitwise_xor(input, other): input ^ other.")},
};

static int add_function(PyObject *functions, PyObject *tensor_type, PyObject *operators, const char *operator,
                        PyMethodDef * function)
{
    PyObject *method = PyObject_GetAttrString(tensor_type, function->ml_name);
    PyObject *reflected = PyObject_GetAttrString(operators, operator);
    PyObject *pair = method && reflected ? PyTuple_Pack(2, method, reflected) : NULL;
    PyObject *made = pair ? PyCFunction_NewEx(function, pair, NULL) : NULL;
    int status = made ? PyDict_SetItemString(functions, function->ml_name, made) : -1;
    Py_XDECREF(method);
    Py_XDECREF(reflected);
    Py_XDECREF(pair);
    Py_XDECREF(made);
    return status;
}

/* module.either_order: the functions by name. After gt__py_tensor_init. */
int gt__py_functions_init(PyObject *module)
{
    PyObject *functions = PyDict_New(), *operators = PyImport_ImportModule("_operator");
    PyObject *tensor_type = PyObject_GetAttrString(module, "Tensor");
    int status = functions && operators && tensor_type ? 0 : -1;
    for (size_t k = 0; status == 0 && k < sizeof either / sizeof *either; k++)
        status = add_function(functions, tensor_type, operators, either[k].operator, & either[k].function);
    if (status == 0)
        status = PyModule_AddObjectRef(module, "either_order", functions);
    Py_XDECREF(functions);
    Py_XDECREF(operators);
    Py_XDECREF(tensor_type);
    return status;
}

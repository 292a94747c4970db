/*
 * functions.c: gt.add, gt.pow and other functions whose first operand may be a number, as in PyTorch.
 *
 * Other functions gt.name are Tensor.name itself. These take a number first, too: gt.pow(2, t) is 2 ** t.
 * client/tensor.py adds them to the package.
 *
 * gt.name is a call of a method whose first argument may be named input=. Of a method in C it is a builtin function, which
 * calls the method's C function directly; of one in Python an object of the type `function`.
 */
#include "extension.h"

#include <stddef.h>
#include <structmember.h>

/* ---- functions of the package ---------------------------------------------------------------------------------- */

typedef struct FunctionObject {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *method;       /* Tensor.name, or a function whose first argument is the tensor */
    PyCFunction code;       /* of a method in C: what it calls, */
    PyMethodDef definition; /* and the builtin function, whose self this object is */
} FunctionObject;

static PyTypeObject *function_type;
static PyObject *input_name; /* "input" */

/* f(dim=0, input=t): move the input to the front. */
static PyObject *call_named(PyObject *method, gt_py_args args, PyObject *kwnames)
{
    Py_ssize_t count = kwnames ? PyTuple_GET_SIZE(kwnames) : 0, where = 0;
    while (where < count && PyUnicode_Compare(PyTuple_GET_ITEM(kwnames, where), input_name) != 0)
        where++;
    if (where == count)
        return PyObject_Vectorcall(method, args, 0, kwnames);
    PyObject **moved = PyMem_Malloc((size_t)count * sizeof *moved), *names = PyTuple_New(count - 1),
             *result = NULL;
    if (moved && names) {
        moved[0] = args[where];
        for (Py_ssize_t k = 0, to = 0; k < count; k++)
            if (k != where) {
                PyTuple_SET_ITEM(names, to, Py_NewRef(PyTuple_GET_ITEM(kwnames, k)));
                moved[++to] = args[k];
            }
        result = PyObject_Vectorcall(method, moved, 1, count > 1 ? names : NULL);
    } else if (!moved)
        PyErr_NoMemory();
    PyMem_Free(moved);
    Py_XDECREF(names);
    return result;
}

static PyObject *function_vectorcall(PyObject *self, gt_py_args args, size_t nargsf, PyObject *kwnames)
{
    PyObject *method = ((FunctionObject *)self)->method;
    if (LIKELY(PyVectorcall_NARGS(nargsf) > 0))
        return PyObject_Vectorcall(method, args, nargsf & ~PY_VECTORCALL_ARGUMENTS_OFFSET, kwnames);
    return call_named(method, args, kwnames);
}

/* The builtin functions, one for each way of passing arguments. */
static PyObject *call_noargs(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (LIKELY(nargs == 1 && !kwnames && gt__py_is_tensor(args[0])))
        return ((FunctionObject *)self)->code(args[0], NULL);
    return function_vectorcall(self, args, (size_t)nargs, kwnames);
}

static PyObject *call_fast(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    typedef PyObject *(*Fast)(PyObject *, gt_py_args, Py_ssize_t, PyObject *);
    if (LIKELY(nargs > 0 && gt__py_is_tensor(args[0])))
        return ((Fast)(void (*)(void))((FunctionObject *)self)->code)(args[0], args + 1, nargs - 1, kwnames);
    return function_vectorcall(self, args, (size_t)nargs, kwnames);
}

/* function(method): the function of the package. */
static PyObject *function_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *method;
    static char *names[] = {"method", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:function", names, &method))
        return NULL;
    FunctionObject *self = (FunctionObject *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->vectorcall = function_vectorcall;
    self->method = Py_NewRef(method);
    if (!Py_IS_TYPE(method, &PyMethodDescr_Type))
        return (PyObject *)self;
    const PyMethodDef *definition = ((PyMethodDescrObject *)method)->d_method;
    bool noargs = definition->ml_flags == METH_NOARGS;
    if (!noargs && definition->ml_flags != (METH_FASTCALL | METH_KEYWORDS))
        return (PyObject *)self;
    self->code = definition->ml_meth;
    self->definition =
        (PyMethodDef)FAST(definition->ml_name, noargs ? call_noargs : call_fast, definition->ml_doc);
    PyObject *function = PyCFunction_NewEx(&self->definition, (PyObject *)self, NULL);
    Py_DECREF(self); /* the function's now */
    return function;
}

static void function_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((FunctionObject *)self)->method);
    type->tp_free(self);
    Py_DECREF(type);
}

/* Name and documentation are the method's; inspect.signature follows __wrapped__. */
static PyObject *function_getattr(PyObject *self, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);
    bool ours = text && (strcmp(text, "__class__") == 0 || strcmp(text, "__wrapped__") == 0 ||
                         strcmp(text, "__reduce__") == 0 || strcmp(text, "__reduce_ex__") == 0);
    if (!text)
        return NULL;
    return ours ? PyObject_GenericGetAttr(self, name) : PyObject_GetAttr(((FunctionObject *)self)->method, name);
}

static PyObject *function_repr(PyObject *self)
{
    PyObject *name = PyObject_GetAttrString(((FunctionObject *)self)->method, "__name__");
    PyObject *text = name ? PyUnicode_FromFormat("<function gt.%U>", name) : NULL;
    Py_XDECREF(name);
    return text;
}

/* Pickled by name. A builtin function is pickled as an attribute of its self, so that self becomes the package. */
static PyObject *function_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    FunctionObject *function = (FunctionObject *)self;
    PyObject *module = PyImport_ImportModule(function->code ? "importlib" : "gt.client.registry");
    PyObject *getter = module ? PyObject_GetAttrString(module, function->code ? "import_module" : "named") : NULL;
    PyObject *name =
        function->code ? PyUnicode_FromString("gt") : PyObject_GetAttrString(function->method, "__name__");
    PyObject *parts = getter && name ? Py_BuildValue("O(O)", getter, name) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(getter);
    Py_XDECREF(name);
    return parts;
}

static int function_init(PyObject *module)
{
    static PyMemberDef members[] = {
        {.name = "__vectorcalloffset__",
         .type = T_PYSSIZET,
         .offset = offsetof(FunctionObject, vectorcall),
         .flags = READONLY},
        {.name = "__wrapped__",
         .type = T_OBJECT_EX,
         .offset = offsetof(FunctionObject, method),
         .flags = READONLY},
        {.name = NULL},
    };
    static PyMethodDef methods[] = {NOARGS("__reduce__", function_reduce, "Pickle by name."), {.ml_name = NULL}};
    static PyType_Slot slots[] = {
        SLOT(Py_tp_new, function_new),
        SLOT(Py_tp_dealloc, function_dealloc),
        SLOT(Py_tp_call, PyVectorcall_Call),
        SLOT(Py_tp_repr, function_repr),
        SLOT(Py_tp_getattro, function_getattr),
        SLOT(Py_tp_members, members),
        SLOT(Py_tp_methods, methods),
        SLOT(Py_tp_doc, "function(method): a function whose first argument may be named input=."),
        {.slot = 0},
    };
    static PyType_Spec spec = {
        .name = "gt._gt.function",
        .basicsize = sizeof(FunctionObject),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };
    input_name = PyUnicode_InternFromString("input");
    function_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return input_name && function_type ? PyModule_AddObjectRef(module, "function", (PyObject *)function_type) : -1;
}

/* ---- numbers first ------------------------------------------------------------------------------------------------- */

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
    int status = functions && operators && tensor_type ? function_init(module) : -1;
    for (size_t k = 0; status == 0 && k < sizeof either / sizeof *either; k++)
        status = add_function(functions, tensor_type, operators, either[k].operator, & either[k].function);
    if (status == 0)
        status = PyModule_AddObjectRef(module, "either_order", functions);
    Py_XDECREF(functions);
    Py_XDECREF(operators);
    Py_XDECREF(tensor_type);
    return status;
}

/*
 * functions.c: gt.Function, the type of gt.add, gt.exp, gt.cat and the other functions of the package.
 *
 * A function of the package calls a method of Tensor or another callable. It adds what PyTorch's functions have and
 * methods do not: out=, input= for the first operand, a number as the first operand of gt.pow(2, t), and sparse operands of
 * gt.matmul. A call without keyword arguments goes straight to the C function of the method. client/outputs.py does the rest,
 * in Python. gt/_help.py finds the docstring and the signature of a function when they are asked for.
 */
#include "extension.h"

#include <structmember.h>

typedef struct FunctionObject {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *call;      /* the method or function */
    PyObject *reflected; /* the Python operator if the first operand may be a number; else NULL */
    PyObject *others;    /* called instead if one of the first two operands is not a tensor; else NULL */
    PyMethodDef *
        method; /* that of `call`, if it is a method of Tensor in C that takes FASTCALL or no arguments; else NULL */
    PyObject *options; /* called as options(call, arguments, keywords) if there is out= or input= */
    PyObject *name, *module;
} FunctionObject;

typedef PyObject *(*fast_function)(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames);

static bool is_special(PyObject *keyword)
{
    return PyUnicode_CompareWithASCIIString(keyword, "out") == 0 ||
           PyUnicode_CompareWithASCIIString(keyword, "input") == 0;
}

static PyObject *call_with_options(FunctionObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *arguments = PyTuple_New(nargs), *keywords = PyDict_New(), *result = NULL;
    for (Py_ssize_t k = 0; arguments && k < nargs; k++)
        PyTuple_SET_ITEM(arguments, k, Py_NewRef(args[k]));
    int status = arguments && keywords ? 0 : -1;
    for (Py_ssize_t k = 0; status == 0 && k < PyTuple_GET_SIZE(kwnames); k++)
        status = PyDict_SetItem(keywords, PyTuple_GET_ITEM(kwnames, k), args[nargs + k]);
    if (status == 0)
        result = PyObject_CallFunctionObjArgs(self->options, (PyObject *)self, arguments, keywords, NULL);
    Py_XDECREF(arguments);
    Py_XDECREF(keywords);
    return result;
}

/* The C function of the method. The interpreter's own way there checks again what is known here. */
static PyObject *call_method(PyMethodDef *method, gt_py_args args, Py_ssize_t nargs)
{
    if (method->ml_flags & METH_NOARGS)
        return method->ml_meth(args[0], NULL);
    fast_function function = (fast_function)(void (*)(void))method->ml_meth;
    return function(args[0], args + 1, nargs - 1, NULL);
}

static PyObject *call_without_keywords(FunctionObject *self, gt_py_args args, size_t nargsf)
{
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    bool fits = self->method && nargs > 0 && (nargs == 1 || !(self->method->ml_flags & METH_NOARGS));
    if (LIKELY(fits && gt__py_is_tensor(args[0])))
        return call_method(self->method, args, nargs);
    if (self->method && nargs == 0)
        return PyErr_Format(PyExc_TypeError, "%U() missing 1 required positional arguments: \"input\"",
                            self->name);
    if (self->method && !gt__py_is_tensor(args[0]))
        return PyErr_Format(PyExc_TypeError, "%U(): argument 'input' (position 1) must be Tensor, not %s",
                            self->name, Py_TYPE(args[0])->tp_name);
    return PyObject_Vectorcall(self->call, args, nargsf, NULL);
}

static PyObject *function_vectorcall(PyObject *object, gt_py_args args, size_t nargsf, PyObject *kwnames)
{
    FunctionObject *self = (FunctionObject *)object;
    if (LIKELY(!kwnames))
        return call_without_keywords(self, args, nargsf);
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(kwnames); k++)
        if (is_special(PyTuple_GET_ITEM(kwnames, k)))
            return call_with_options(self, args, PyVectorcall_NARGS(nargsf), kwnames);
    return PyObject_Vectorcall(self->call, args, nargsf, kwnames);
}

/* gt.add(1, 2) is a tensor, as in PyTorch. */
static bool takes_numbers(PyObject *name)
{
    static const char *const names[] = {"add",      "sub",    "mul",         "div",         "subtract",
                                        "multiply", "divide", "true_divide", "floor_divide"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
        if (PyUnicode_CompareWithASCIIString(name, names[k]) == 0)
            return true;
    return false;
}

static PyObject *of_numbers(PyObject *function, gt_py_args args)
{
    gt_client *client = gt__py_client();
    gt_tensor *tensor;
    if (!client || gt__py_tensor_argument(args[0], client, "input", &tensor) < 0)
        return NULL;
    PyObject *first = gt__py_result(GT_OK, tensor);
    PyObject *result = first ? PyObject_CallFunctionObjArgs(function, first, args[1], NULL) : NULL;
    Py_XDECREF(first);
    return result;
}

/* Of a function with two operands, one of which may be something else than a tensor. */
static PyObject *mixed_vectorcall(PyObject *object, gt_py_args args, size_t nargsf, PyObject *kwnames)
{
    FunctionObject *self = (FunctionObject *)object;
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    if (self->reflected && !kwnames && nargs == 2 && !gt__py_is_tensor(args[0]) && PyNumber_Check(args[0]) &&
        gt__py_is_tensor(args[1]))
        return PyObject_Vectorcall(self->reflected, args, 2, NULL);
    if (!kwnames && nargs == 2 && PyNumber_Check(args[0]) && PyNumber_Check(args[1]) &&
        takes_numbers(self->name) && !gt__py_is_tensor(args[0]) && !gt__py_is_tensor(args[1]))
        return of_numbers(object, args);
    if (self->others && ((nargs > 0 && !gt__py_is_tensor(args[0])) || (nargs > 1 && !gt__py_is_tensor(args[1]))))
        return PyObject_Vectorcall(self->others, args, nargsf, kwnames);
    return function_vectorcall(object, args, nargsf, kwnames);
}

static PyMethodDef *direct_method(PyObject *call)
{
    if (!Py_IS_TYPE(call, &PyMethodDescr_Type) || PyDescr_TYPE(call) != gt__py_tensor_type)
        return NULL;
    PyMethodDef *method = ((PyMethodDescrObject *)call)->d_method;
    return method->ml_flags == METH_NOARGS || method->ml_flags == (METH_FASTCALL | METH_KEYWORDS) ? method : NULL;
}

/* Function(name, call, options, reflected=None, others=None) */
static PyObject *function_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"name", "call", "options", "reflected", "others", NULL};
    PyObject *name, *call, *options, *reflected = Py_None, *others = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "UOO|OO:Function", names, &name, &call, &options, &reflected,
                                     &others))
        return NULL;
    FunctionObject *self = (FunctionObject *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->vectorcall = reflected == Py_None && others == Py_None ? function_vectorcall : mixed_vectorcall;
    self->name = Py_NewRef(name);
    self->call = Py_NewRef(call);
    self->options = Py_NewRef(options);
    self->reflected = reflected == Py_None ? NULL : Py_NewRef(reflected);
    self->others = others == Py_None ? NULL : Py_NewRef(others);
    self->method = direct_method(call); /* of a type that lives as long as the module */
    self->module = PyUnicode_FromString("gt");
    if (!self->module)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static int function_traverse(PyObject *object, visitproc visit, void *arg)
{
    FunctionObject *self = (FunctionObject *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->call);
    Py_VISIT(self->reflected);
    Py_VISIT(self->others);
    Py_VISIT(self->options);
    return 0;
}

static int function_clear(PyObject *object)
{
    FunctionObject *self = (FunctionObject *)object;
    Py_CLEAR(self->call);
    Py_CLEAR(self->reflected);
    Py_CLEAR(self->others);
    Py_CLEAR(self->options);
    Py_CLEAR(self->name);
    Py_CLEAR(self->module);
    return 0;
}

static void function_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    function_clear(object);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *function_repr(PyObject *object)
{
    FunctionObject *self = (FunctionObject *)object;
    return PyUnicode_FromFormat("<function %U.%U>", self->module, self->name);
}

/* pickle finds it again by module and name. */
static PyObject *function_reduce(PyObject *object, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(((FunctionObject *)object)->name);
}

/* As an attribute of a class it stays itself: with a __get__, help() and inspect see a function. */
static PyObject *function_get(PyObject *object, PyObject *instance, PyObject *type)
{
    (void)instance;
    (void)type;
    return Py_NewRef(object);
}

/* gt._help.name(function); `closure` is the name. */
static PyObject *function_help(PyObject *object, void *closure)
{
    PyObject *help = PyImport_ImportModule("gt._help");
    PyObject *result = help ? PyObject_CallMethod(help, (const char *)closure, "O", object) : NULL;
    Py_XDECREF(help);
    return result;
}

static PyGetSetDef function_attributes[] = {
    {.name = "__doc__", .get = function_help, .closure = "doc_of"},
    {.name = "__signature__", .get = function_help, .closure = "signature_of"},
    {.name = NULL},
};

static PyMethodDef function_methods[] = {
    NOARGS("__reduce__", function_reduce, "For pickle: its name."),
    {.ml_name = NULL},
};

#define MEMBER(name_, type_, field, flags_)                                                                       \
    {                                                                                                             \
        .name = name_, .type = type_, .offset = offsetof(FunctionObject, field), .flags = flags_                  \
    }
static PyMemberDef function_members[] = {
    MEMBER("__vectorcalloffset__", T_PYSSIZET, vectorcall, READONLY),
    MEMBER("__wrapped__", T_OBJECT, call, READONLY),
    MEMBER("__name__", T_OBJECT, name, READONLY),
    MEMBER("__qualname__", T_OBJECT, name, READONLY),
    MEMBER("__module__", T_OBJECT, module, 0),
    {.name = NULL},
};

static PyType_Slot function_slots[] = {
    SLOT(Py_tp_new, function_new),
    SLOT(Py_tp_dealloc, function_dealloc),
    SLOT(Py_tp_traverse, function_traverse),
    SLOT(Py_tp_clear, function_clear),
    SLOT(Py_tp_repr, function_repr),
    SLOT(Py_tp_call, PyVectorcall_Call),
    SLOT(Py_tp_methods, function_methods),
    SLOT(Py_tp_members, function_members),
    SLOT(Py_tp_getset, function_attributes),
    SLOT(Py_tp_descr_get, function_get),
    {.slot = 0},
};

/*
 * _document(object, text): the docstring of a method, attribute or function that is written in C. A text that begins with
 * "name(parameters)\n--\n\n" gives the signature too. The text lives as long as the process, as the table of methods does.
 */
static PyObject *py_document(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *object, *text;
    if (!PyArg_ParseTuple(args, "OU:_document", &object, &text))
        return NULL;
    const char *doc = PyUnicode_AsUTF8(text);
    if (!doc)
        return NULL;
    if (PyCFunction_Check(object))
        ((PyCFunctionObject *)object)->m_ml->ml_doc = doc;
    else if (Py_IS_TYPE(object, &PyMethodDescr_Type))
        ((PyMethodDescrObject *)object)->d_method->ml_doc = doc;
    else if (Py_IS_TYPE(object, &PyGetSetDescr_Type))
        ((PyGetSetDescrObject *)object)->d_getset->doc = doc;
    else
        return PyErr_Format(PyExc_TypeError, "%s has a __doc__ of its own", Py_TYPE(object)->tp_name);
    Py_INCREF(text);
    Py_RETURN_NONE;
}

PyMethodDef gt__py_function_functions[] = {
    {.ml_name = "_document",
     .ml_meth = py_document,
     .ml_flags = METH_VARARGS,
     .ml_doc = "_document(object, text): the docstring of what is written in C."},
    {.ml_name = NULL},
};

/* module.Function. */
int gt__py_functions_init(PyObject *module)
{
    static PyType_Spec spec = {
        .name = "gt.Function",
        .basicsize = sizeof(FunctionObject),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = function_slots,
    };
    PyObject *type = PyType_FromSpec(&spec);
    int status = type ? PyModule_AddObjectRef(module, "Function", type) : -1;
    Py_XDECREF(type);
    return status;
}

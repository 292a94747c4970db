/*
 * dtype.c: gt.float32 and the other dtype objects: immutable singletons.
 *
 * A dtype equals its name ('float32') and hashes like it. numpy.dtype(gt.float32) works through the attribute `dtype`.
 * gt__py_dtype converts arguments; it accepts the dtypes of NumPy and PyTorch and Python's types, too.
 */
#include "extension.h"

#include <string.h>

typedef struct DtypeObject {
    PyObject_HEAD gt_dtype dtype;
    PyObject *name;
} DtypeObject;

PyTypeObject *gt__py_dtype_type;
static PyObject *singletons[GT_DTYPE_COUNT];

PyObject *gt__py_dtype_object(gt_dtype dtype)
{
    return Py_NewRef(singletons[dtype]);
}

static int find_name(const char *name, gt_dtype *dtype)
{
    static const struct {
        const char *alias, *name;
    } aliases[] = {
        {.alias = "float", .name = "float32"},      {.alias = "double", .name = "float64"},
        {.alias = "half", .name = "float16"},       {.alias = "long", .name = "int64"},
        {.alias = "int", .name = "int32"},          {.alias = "short", .name = "int16"},
        {.alias = "bool_", .name = "bool"},         {.alias = "cfloat", .name = "complex64"},
        {.alias = "cdouble", .name = "complex128"},
    };
    const char *dot = strrchr(name, '.'); /* "torch.float32", "gt.float32" */
    if (dot)
        name = dot + 1;
    for (size_t k = 0; k < sizeof aliases / sizeof *aliases; k++)
        if (strcmp(name, aliases[k].alias) == 0)
            name = aliases[k].name;
    for (int k = 0; k < GT_DTYPE_COUNT; k++)
        if (strcmp(name, gt__dtype_name((gt_dtype)k)) == 0) {
            *dtype = (gt_dtype)k;
            return 1;
        }
    return 0;
}

/* numpy.dtype has a name; numpy.float32 (the class) a __name__; torch.float32 says "torch.float32". */
static int find_foreign(PyObject *object, gt_dtype *dtype)
{
    PyObject *name = PyObject_GetAttrString(object, PyType_Check(object) ? "__name__" : "name");
    if (!name) {
        PyErr_Clear();
        name = PyObject_Str(object);
    }
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    int found = text ? find_name(text, dtype) : 0;
    Py_XDECREF(name);
    return PyErr_Occurred() ? -1 : found;
}

int gt__py_dtype(PyObject *object, gt_dtype *dtype)
{
    if (!object || object == Py_None)
        return 0;
    if (Py_TYPE(object) == gt__py_dtype_type) {
        *dtype = ((DtypeObject *)object)->dtype;
        return 0;
    }
    int found = 0;
    if (object == (PyObject *)&PyComplex_Type) { /* as in PyTorch, Python's own precision */
        *dtype = GT_COMPLEX128;
        found = 1;
    } else if (object == (PyObject *)&PyFloat_Type || object == (PyObject *)&PyLong_Type ||
               object == (PyObject *)&PyBool_Type) {
        *dtype = object == (PyObject *)&PyFloat_Type  ? GT_FLOAT64
                 : object == (PyObject *)&PyLong_Type ? GT_INT64
                                                      : GT_BOOL;
        found = 1;
    } else {
        found = find_foreign(object, dtype);
    }
    if (found == 0)
        PyErr_Format(PyExc_TypeError,
                     "%R is not a dtype of GT (bool, uint8, int8, int16, int32, int64, float16, bfloat16, "
                     "float32, float64, complex64, complex128)",
                     object);
    return found == 1 ? 0 : -1;
}

/* ---- the type -------------------------------------------------------------------------------------------- */

static PyObject *dtype_repr(PyObject *self)
{
    return PyUnicode_FromFormat("gt.%U", ((DtypeObject *)self)->name);
}

static Py_hash_t dtype_hash(PyObject *self)
{
    return PyObject_Hash(((DtypeObject *)self)->name);
}

static PyObject *dtype_richcompare(PyObject *self, PyObject *other, int operation)
{
    if (operation != Py_EQ && operation != Py_NE)
        Py_RETURN_NOTIMPLEMENTED;
    if (PyUnicode_Check(other))
        return PyObject_RichCompare(((DtypeObject *)self)->name, other, operation);
    if (Py_TYPE(other) != gt__py_dtype_type)
        Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((self == other) == (operation == Py_EQ));
}

static PyObject *dtype_itemsize(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(gt__dtype_size(((DtypeObject *)self)->dtype));
}

static PyObject *dtype_is_floating_point(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(gt__dtype_is_float(((DtypeObject *)self)->dtype));
}

static PyObject *dtype_is_complex(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(gt__dtype_is_complex(((DtypeObject *)self)->dtype));
}

static PyObject *dtype_to_complex(PyObject *self, PyObject *unused)
{
    (void)unused;
    gt_dtype dtype = ((DtypeObject *)self)->dtype;
    return gt__py_dtype_object(gt__dtype_complex(dtype));
}

static PyObject *dtype_to_real(PyObject *self, PyObject *unused)
{
    (void)unused;
    return gt__py_dtype_object(gt__dtype_real(((DtypeObject *)self)->dtype));
}

static PyObject *dtype_name(PyObject *self, void *closure)
{
    (void)closure;
    return Py_NewRef(((DtypeObject *)self)->name);
}

static PyObject *dtype_kind(PyObject *self, void *closure)
{
    (void)closure;
    return PyUnicode_FromString(gt__dtype_kind(((DtypeObject *)self)->dtype));
}

static PyObject *dtype_c_name(PyObject *self, void *closure)
{
    (void)closure;
    return PyUnicode_FromString(gt__dtype_c_name(((DtypeObject *)self)->dtype));
}

static PyObject *dtype_numpy(PyObject *self, void *closure)
{
    (void)closure;
    PyObject *numpy = PyImport_ImportModule("numpy");
    if (!numpy)
        return NULL;
    PyObject *dtype = PyObject_CallMethod(numpy, "dtype", "O", ((DtypeObject *)self)->name);
    Py_DECREF(numpy);
    return dtype;
}

/* Pickled and copied by name: the singletons stay singletons. */
static PyObject *dtype_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_BuildValue("O(O)", gt__py_dtype_type, ((DtypeObject *)self)->name);
}

static PyObject *dtype_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)type;
    PyObject *object;
    gt_dtype dtype = GT_FLOAT32;
    static char *names[] = {"name", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:dtype", names, &object))
        return NULL;
    if (object == Py_None) {
        PyErr_SetString(PyExc_TypeError, "None is not a dtype");
        return NULL;
    }
    return gt__py_dtype(object, &dtype) < 0 ? NULL : gt__py_dtype_object(dtype);
}

static void dtype_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((DtypeObject *)self)->name);
    type->tp_free(self);
    Py_DECREF(type);
}

int gt__py_dtype_init(PyObject *module)
{
    static PyGetSetDef attributes[] = {
        {.name = "name", .get = dtype_name, .doc = "The dtype's name, such as 'float32'."},
        {.name = "_kind", .get = dtype_kind, .doc = "The name in messages: 'Float'."},
        {.name = "_c_name", .get = dtype_c_name, .doc = "The name in other messages: 'float'."},
        {.name = "itemsize", .get = dtype_itemsize, .doc = "Bytes of one element."},
        {.name = "is_floating_point", .get = dtype_is_floating_point, .doc = "Whether it is a float dtype."},
        {.name = "is_complex", .get = dtype_is_complex, .doc = "Whether it is a complex dtype."},
        {.name = "dtype", .get = dtype_numpy, .doc = "The numpy.dtype; bfloat16 has none."},
        {.name = NULL},
    };
    static PyMethodDef methods[] = {
        NOARGS("__reduce__", dtype_reduce, "Pickle by name."),
        NOARGS("to_complex", dtype_to_complex, "to_complex(): the complex dtype that holds its numbers."),
        NOARGS("to_real", dtype_to_real, "to_real(): the dtype of a complex dtype's parts."),
        {.ml_name = NULL}};
    static PyType_Slot slots[] = {
        SLOT(Py_tp_repr, dtype_repr),
        SLOT(Py_tp_hash, dtype_hash),
        SLOT(Py_tp_richcompare, dtype_richcompare),
        SLOT(Py_tp_getset, attributes),
        SLOT(Py_tp_methods, methods),
        SLOT(Py_tp_new, dtype_new),
        SLOT(Py_tp_dealloc, dtype_dealloc),
        SLOT(Py_tp_doc, "dtype(name)\n--\n\nThe type of a tensor's elements."),
        {.slot = 0},
    };
    static PyType_Spec spec = {
        .name = "gt.dtype",
        .basicsize = sizeof(DtypeObject),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };
    gt__py_dtype_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (!gt__py_dtype_type || PyModule_AddObjectRef(module, "dtype", (PyObject *)gt__py_dtype_type) < 0)
        return -1;
    for (int k = 0; k < GT_DTYPE_COUNT; k++) {
        DtypeObject *object = PyObject_New(DtypeObject, gt__py_dtype_type);
        if (!object)
            return -1;
        object->dtype = (gt_dtype)k;
        object->name = PyUnicode_InternFromString(gt__dtype_name((gt_dtype)k));
        singletons[k] = (PyObject *)object;
        if (!object->name || PyModule_AddObjectRef(module, gt__dtype_name((gt_dtype)k), singletons[k]) < 0)
            return -1;
    }
    return 0;
}

/* size.c: gt.Size, the type of Tensor.shape: a tuple with numel() that prints as gt.Size([2, 3]). */
#include "extension.h"

static PyTypeObject *size_type;

/* Freed sizes, kept for reuse by their length: shapes are read often and dropped at once. */
enum { SPARES = 32 };
static PyObject *spares[GT_MAX_RANK + 1][SPARES];
static int spare_count[GT_MAX_RANK + 1];

static PyObject *size_alloc(Py_ssize_t count)
{
    if (count <= GT_MAX_RANK && spare_count[count]) {
        PyObject *sizes = spares[count][--spare_count[count]];
        Py_SET_REFCNT(sizes, 1);
        return sizes;
    }
    PyTupleObject *sizes = PyObject_GC_NewVar(PyTupleObject, size_type, count);
    if (sizes) /* not tracked: integers form no cycles */
        memset(sizes->ob_item, 0, (size_t)count * sizeof *sizes->ob_item);
    return (PyObject *)sizes;
}

static void size_dealloc(PyObject *self)
{
    Py_ssize_t count = PyTuple_GET_SIZE(self);
    if (PyObject_GC_IsTracked(self))
        PyObject_GC_UnTrack(self);
    for (Py_ssize_t k = 0; k < count; k++)
        Py_CLEAR(((PyTupleObject *)self)->ob_item[k]);
    if (Py_IS_TYPE(self, size_type) && count <= GT_MAX_RANK && spare_count[count] < SPARES) {
        spares[count][spare_count[count]++] = self; /* with its reference to the type */
        return;
    }
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyObject *gt__py_sizes(int rank, const int64_t *shape)
{
    PyObject *sizes = size_alloc(rank);
    for (int axis = 0; sizes && axis < rank; axis++) {
        PyObject *size = PyLong_FromLongLong(shape[axis]);
        if (!size)
            Py_CLEAR(sizes);
        else
            PyTuple_SET_ITEM(sizes, axis, size);
    }
    return sizes;
}

/* A Size of the items of a tuple (taken, may be NULL). */
static PyObject *from_tuple(PyObject *tuple)
{
    if (!tuple || !PyTuple_Check(tuple))
        return tuple;
    Py_ssize_t count = PyTuple_GET_SIZE(tuple);
    PyObject *sizes = size_alloc(count);
    for (Py_ssize_t k = 0; sizes && k < count; k++)
        PyTuple_SET_ITEM(sizes, k, Py_NewRef(PyTuple_GET_ITEM(tuple, k)));
    Py_DECREF(tuple);
    return sizes;
}

static PyObject *size_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *given = PyTuple_Type.tp_new(type, args, keywords);
    for (Py_ssize_t k = 0; given && k < PyTuple_GET_SIZE(given); k++) {
        PyObject *item = PyTuple_GET_ITEM(given, k);
        if (PyLong_Check(item))
            continue;
        PyObject *number = PyNumber_Index(item);
        if (!number) {
            PyErr_Format(PyExc_TypeError, "gt.Size() takes an iterable of 'int' (item %zd is '%s')", k,
                         Py_TYPE(item)->tp_name);
            Py_CLEAR(given);
        } else {
            PyTuple_SET_ITEM(given, k, number);
            Py_DECREF(item);
        }
    }
    return given;
}

static PyObject *size_repr(PyObject *self)
{
    PyObject *list = PySequence_List(self);
    PyObject *text = list ? PyUnicode_FromFormat("gt.Size(%R)", list) : NULL;
    Py_XDECREF(list);
    return text;
}

static PyObject *size_numel(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *product = PyLong_FromLong(1);
    for (Py_ssize_t k = 0; product && k < PyTuple_GET_SIZE(self); k++) {
        PyObject *next = PyNumber_Multiply(product, PyTuple_GET_ITEM(self, k));
        Py_DECREF(product);
        product = next;
    }
    return product;
}

static PyObject *size_subscript(PyObject *self, PyObject *key)
{
    PyObject *found = PyTuple_Type.tp_as_mapping->mp_subscript(self, key);
    return PySlice_Check(key) ? from_tuple(found) : found;
}

static PyObject *size_concat(PyObject *self, PyObject *other)
{
    return from_tuple(PyTuple_Type.tp_as_sequence->sq_concat(self, other));
}

static PyObject *size_repeat(PyObject *self, Py_ssize_t count)
{
    return from_tuple(PyTuple_Type.tp_as_sequence->sq_repeat(self, count));
}

static PyObject *size_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *list = PySequence_List(self);
    PyObject *parts = list ? Py_BuildValue("O(O)", size_type, list) : NULL;
    Py_XDECREF(list);
    return parts;
}

int gt__py_size_init(PyObject *module)
{
    static PyMethodDef methods[] = {
        NOARGS("numel", size_numel, "numel(): the number of elements of a tensor of this size."),
        NOARGS("__reduce__", size_reduce, "Pickle as a tuple."),
        {.ml_name = NULL},
    };
    static PyType_Slot slots[] = {
        SLOT(Py_tp_new, size_new),
        SLOT(Py_tp_dealloc, size_dealloc),
        SLOT(Py_tp_repr, size_repr),
        SLOT(Py_tp_methods, methods),
        SLOT(Py_mp_subscript, size_subscript),
        SLOT(Py_sq_concat, size_concat),
        SLOT(Py_sq_repeat, size_repeat),
        SLOT(Py_tp_doc, "The sizes of a tensor: a tuple of ints with numel()."),
        {.slot = 0},
    };
    static PyType_Spec spec = {.name = "gt.Size", .flags = Py_TPFLAGS_DEFAULT, .slots = slots};
    size_type = (PyTypeObject *)PyType_FromSpecWithBases(&spec, (PyObject *)&PyTuple_Type);
    return size_type ? PyModule_AddObjectRef(module, "Size", (PyObject *)size_type) : -1;
}

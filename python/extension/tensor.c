/*
 * tensor.c: the Tensor type: lifetime, attributes, and methods that wait for an element.
 *
 * A Tensor object holds one gt_tensor, an immutable value, and in-place operations give the object another one. A view, and
 * what it is a view of, has an alias instead (alias.c).
 * A hot loop spends half its time on temporaries, so freed objects are kept for reuse, and freeing one only queues
 * its id. Read next: operators.c, indexing.c, interop.c.
 */
#include "client/intercept.h"
#include "client/quick.h"

#include "alias.h"

#include <stddef.h>
#include <structmember.h>

enum { METHOD_LIMIT = 800, ATTRIBUTE_LIMIT = 50, SLOT_LIMIT = 100 };

PyTypeObject *gt__py_tensor_type;
static PyTypeObject *attributed_type; /* of a Tensor that has attributes of the user's */
TensorObject *gt__py_spares[GT_PY_SPARES];
int gt__py_spare_count, gt__py_spare_room = GT_PY_SPARES;
/* While a thread is in inference mode, gt__py_wrap finds no spares, so that it comes here, and tensors are marked at no cost to
 * others. The spares are in the same place; this is their number. */
static int hidden_spares, inference_threads;

void gt__py_inference_enable(bool wanted)
{
    inference_threads += wanted - gt__inference_here;
    gt__inference_here = wanted;
    if (inference_threads && gt__py_spare_room) {
        hidden_spares = gt__py_spare_count;
        gt__py_spare_count = gt__py_spare_room = 0;
    } else if (!inference_threads && !gt__py_spare_room) {
        gt__py_spare_count = hidden_spares;
        gt__py_spare_room = GT_PY_SPARES;
        hidden_spares = 0;
    }
}

/* ---- lifetime -------------------------------------------------------------------------------------------- */

PyObject *gt__py_wrap_new(gt_tensor *tensor)
{
    if (tensor && tensor->references == 1 &&
        gt__inference_here) /* a result, and not the value of another object */
        tensor->inference = 1;
    if (hidden_spares) {
        TensorObject *spare = gt__py_spares[--hidden_spares];
        Py_SET_REFCNT((PyObject *)spare, 1);
        spare->tensor = tensor;
        return (PyObject *)spare;
    }
    TensorObject *self = PyObject_New(TensorObject, gt__py_tensor_type);
    if (!self) {
        gt_tensor_release(tensor);
        return NULL;
    }
    self->tensor = tensor;
    self->weakrefs = NULL;
    self->alias = NULL;
    self->dict = NULL;
    return (PyObject *)self;
}

/* Take the attributes away from a Tensor that dies. */
static void drop_attributes(PyObject *object)
{
    Py_CLEAR(((TensorObject *)object)->dict);
    if (Py_IS_TYPE(object, attributed_type)) {
        Py_SET_TYPE(object, (PyTypeObject *)Py_NewRef(gt__py_tensor_type));
        Py_DECREF(attributed_type);
    }
}

/*
 * t.foo = 1: an object of the type itself has no dictionary, so that most tensors need none. The first such attribute makes
 * it one of a subtype that has. Its references are invisible to the garbage collector, as those of hooks are.
 */
static int tensor_setattr(PyObject *self, PyObject *name, PyObject *value)
{
    int status = PyObject_GenericSetAttr(self, name, value);
    if (status == 0 || !value || !Py_IS_TYPE(self, gt__py_tensor_type) ||
        !PyErr_ExceptionMatches(PyExc_AttributeError) || _PyType_Lookup(gt__py_tensor_type, name))
        return status;
    PyErr_Clear();
    Py_SET_TYPE(self, (PyTypeObject *)Py_NewRef(attributed_type));
    Py_DECREF(gt__py_tensor_type);
    return PyObject_GenericSetAttr(self, name, value);
}

/* Free an object, or keep it for reuse. */
static __attribute__((noinline)) void keep_or_free(TensorObject *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    if (type == gt__py_tensor_type && gt__py_spare_count < gt__py_spare_room) {
        gt__py_spares[gt__py_spare_count++] = self;
        return;
    }
    if (type == gt__py_tensor_type && inference_threads && hidden_spares < GT_PY_SPARES) {
        gt__py_spares[hidden_spares++] = self;
        return;
    }
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static __attribute__((noinline)) void dealloc_any(PyObject *object)
{
    TensorObject *self = (TensorObject *)object;
    gt_alias *alias = self->alias;
    if (UNLIKELY(alias != NULL)) { /* first: it leads to this object, and what follows may run Python code */
        self->alias = NULL;
        self->tensor = NULL;
        gt__alias_disown(alias);
    }
    if (UNLIKELY(self->weakrefs != NULL))
        PyObject_ClearWeakRefs(object);
    if (UNLIKELY(self->dict != NULL))
        drop_attributes(object);
    gt_tensor_release(self->tensor);
    keep_or_free(self);
}

/* The same where there is a tensor alone, as nearly always. Its release may run Python code, which frees others. */
static __attribute__((noinline)) void dealloc_plain(TensorObject *self)
{
    gt__tensor_release_any(self->tensor);
    if (LIKELY(gt__py_spare_count < gt__py_spare_room))
        gt__py_spares[gt__py_spare_count++] = self;
    else
        keep_or_free(self);
}

static void tensor_dealloc(PyObject *object)
{
    TensorObject *self = (TensorObject *)object;
    bool plain = Py_TYPE(object) == gt__py_tensor_type && !self->alias && !self->weakrefs && !self->dict;
    if (UNLIKELY(!plain || !self->tensor || gt__py_spare_count >= gt__py_spare_room))
        dealloc_any(object);
    else if (gt__quick_release(self->tensor))
        gt__py_spares[gt__py_spare_count++] = self;
    else
        dealloc_plain(self);
}

/* Tensor(2, 3), Tensor([1, 2]): PyTorch's old constructor, of the default dtype. NULL without an exception: other arguments. */
static PyObject *tensor_of_floats(PyObject *args)
{
    Py_ssize_t count = PyTuple_GET_SIZE(args);
    bool sizes = true;
    for (Py_ssize_t k = 0; k < count; k++)
        sizes = sizes && PyLong_CheckExact(PyTuple_GET_ITEM(args, k));
    if (!sizes && (count != 1 || gt__py_is_tensor(PyTuple_GET_ITEM(args, 0))))
        return NULL;
    gt_client *client = gt__py_client();
    gt_tensor *given = NULL, *out = NULL;
    if (!client)
        return NULL;
    if (sizes) {
        int rank = 1;
        int64_t shape[GT_MAX_RANK] = {0};
        if (count && gt__py_shape(PySequence_Fast_ITEMS(args), count, &rank, shape) < 0)
            return NULL;
        gt_err err = gt_full(client, gt__default_dtype, rank, shape, 0.0, &out);
        return gt__py_result(err, out);
    }
    int found = gt__py_from_array(PyTuple_GET_ITEM(args, 0), client, &given);
    if (found == 0)
        found = gt__py_from_sequence(PyTuple_GET_ITEM(args, 0), client, true, gt__default_dtype, &given);
    if (found < 0)
        return NULL;
    gt_err err = gt_cast(given, gt__default_dtype, &out);
    gt_tensor_release(given);
    return gt__py_result(err, out);
}

/* For subclasses Tensor(data) is tensor(data), and shares the value of an existing tensor. */
static PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"data", "requires_grad", NULL};
    PyObject *data, *floats = type == gt__py_tensor_type && !keywords ? tensor_of_floats(args) : NULL;
    int requires_grad = 0;
    if (floats || PyErr_Occurred())
        return floats;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|p:Tensor", names, &data, &requires_grad))
        return NULL;
    gt_tensor *tensor = NULL;
    bool shares = gt__py_is_tensor(data);
    if (!shares) {
        gt_client *client = gt__py_client();
        int found = client ? gt__py_from_array(data, client, &tensor) : -1;
        if (found == 0)
            found = gt__py_from_sequence(data, client, false, GT_FLOAT32, &tensor);
        if (found < 0)
            return NULL;
    }
    TensorObject *self = (TensorObject *)type->tp_alloc(type, 0);
    if (!self) {
        gt_tensor_release(tensor);
        return NULL;
    }
    self->tensor = tensor;
    if (shares && gt__py_share((PyObject *)self, data, NULL, true) < 0)
        Py_CLEAR(self);
    if (self && requires_grad && gt__py_set_requires_grad((PyObject *)self, true) < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

/* ---- attributes ------------------------------------------------------------------------------------------ */

static const gt_meta *meta_of(PyObject *self)
{
    return gt__py_meta(self);
}

static PyObject *get_shape(PyObject *self, void *closure)
{
    (void)closure;
    return gt__py_sizes(meta_of(self)->rank, meta_of(self)->shape);
}

static PyObject *get_dtype(PyObject *self, void *closure)
{
    (void)closure;
    return gt__py_dtype_object((gt_dtype)meta_of(self)->dtype);
}

static PyObject *get_ndim(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromLong(meta_of(self)->rank);
}

static PyObject *get_itemsize(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(gt__dtype_size((gt_dtype)meta_of(self)->dtype));
}

static PyObject *get_nbytes(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(gt__meta_bytes(meta_of(self)));
}

static PyObject *get_data(PyObject *self, void *closure)
{
    (void)closure;
    return gt__py_detached(self, false);
}

static int set_data(PyObject *self, PyObject *value, void *closure)
{
    (void)closure;
    if (!value || !gt__py_is_tensor(value)) {
        PyErr_SetString(PyExc_TypeError, "data must be a Tensor");
        return -1;
    }
    return gt__py_set_value(self, value, false);
}

/* ---- methods that only look at the metadata -------------------------------------------------------------- */

static PyObject *method_size(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"dim|axis"};
    PyObject *dim;
    int64_t given;
    int axis;
    if (gt__py_parse("size", args, nargs, kwnames, names, 1, 1, &dim) < 0)
        return NULL;
    if (!dim || dim == Py_None)
        return get_shape(self, NULL);
    if (gt__py_int64(dim, &given) < 0 || gt__py_wrap_axis(given, meta_of(self)->rank, &axis) < 0)
        return NULL;
    if (meta_of(self)->rank == 0)
        return PyErr_Format(PyExc_IndexError, "Dimension specified as %d but tensor has no dimensions", axis);
    return PyLong_FromLongLong(meta_of(self)->shape[axis]);
}

static PyObject *method_numel(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromLongLong(meta_of(self)->numel);
}

static PyObject *method_dim(PyObject *self, PyObject *unused)
{
    (void)unused;
    return get_ndim(self, NULL);
}

static PyObject *method_element_size(PyObject *self, PyObject *unused)
{
    (void)unused;
    return get_itemsize(self, NULL);
}

static PyObject *method_is_floating_point(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(gt__dtype_is_float((gt_dtype)meta_of(self)->dtype));
}

static PyObject *method_is_complex(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(gt__dtype_is_complex((gt_dtype)meta_of(self)->dtype));
}

static PyObject *method_is_contiguous(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"memory_format"};
    PyObject *format_object = NULL;
    gt_py_format format = GT_PY_CONTIGUOUS;
    if ((nargs || kwnames) &&
        (gt__py_parse("is_contiguous", args, nargs, kwnames, names, 1, 1, &format_object) < 0 ||
         gt__py_format(format_object, &format) < 0))
        return NULL;
    return PyBool_FromLong(gt__py_has_format(self, format));
}

static PyObject *method_stride(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"dim"};
    PyObject *dim;
    int64_t given;
    int axis;
    gt_strides strides;
    if (gt__py_parse("stride", args, nargs, kwnames, names, 1, 1, &dim) < 0)
        return NULL;
    if (dim && dim != Py_None) {
        if (gt__py_int64(dim, &given) < 0 || gt__py_wrap_axis(given, meta_of(self)->rank, &axis) < 0)
            return NULL;
        gt__py_strides(self, &strides);
        return PyLong_FromLongLong(strides.step[axis]);
    }
    gt__py_strides(self, &strides);
    PyObject *steps = PyTuple_New(meta_of(self)->rank); /* not a gt.Size, as in PyTorch */
    for (int k = 0; steps && k < meta_of(self)->rank; k++) {
        PyObject *step = PyLong_FromLongLong(strides.step[k]);
        if (!step)
            Py_CLEAR(steps);
        else
            PyTuple_SET_ITEM(steps, k, step);
    }
    return steps;
}

static PyObject *method_storage_offset(PyObject *self, PyObject *unused)
{
    (void)unused;
    const gt_alias *alias = ((TensorObject *)self)->alias;
    return PyLong_FromLongLong(alias ? alias->strides.offset : 0);
}

/* ---- waiting for elements -------------------------------------------------------------------------------- */

static PyObject *method_item(PyObject *self, PyObject *unused)
{
    (void)unused;
    gt_tensor *tensor = gt__py_use(self);
    uint8_t element[16];
    if (!tensor)
        return NULL;
    if (tensor->meta.numel != 1)
        return PyErr_Format(PyExc_RuntimeError, "a Tensor with %lld elements cannot be converted to Scalar",
                            (long long)tensor->meta.numel);
    gt_dtype dtype = (gt_dtype)tensor->meta.dtype;
    gt_err err = gt_fetch(tensor, element, gt__dtype_size(dtype));
    return err == GT_OK ? gt__py_element(dtype, element) : gt__py_raise(err);
}

static PyObject *method_tolist(PyObject *self, PyObject *unused)
{
    (void)unused;
    gt_tensor *tensor = gt__py_use(self);
    if (!tensor)
        return NULL;
    gt_meta meta = tensor->meta;
    size_t bytes = gt__meta_bytes(&meta);
    void *data = PyMem_Malloc(bytes + 1);
    if (!data)
        return PyErr_NoMemory();
    gt_err err = gt_fetch(tensor, data, bytes);
    PyObject *list = err == GT_OK ? gt__py_list(&meta, data) : gt__py_raise(err);
    PyMem_Free(data);
    return list;
}

static int tensor_bool(PyObject *self)
{
    int64_t numel = meta_of(self)->numel;
    if (numel != 1) {
        PyErr_SetString(PyExc_RuntimeError, numel ? "Boolean value of Tensor with more than one value is ambiguous"
                                                  : "Boolean value of Tensor with no values is ambiguous");
        return -1;
    }
    PyObject *item = method_item(self, NULL);
    int truth = item ? PyObject_IsTrue(item) : -1;
    Py_XDECREF(item);
    return truth;
}

/* The only element, for float() and int(), which raise a different exception in PyTorch. */
static PyObject *only_element(PyObject *self)
{
    if (meta_of(self)->numel == 1)
        return method_item(self, NULL);
    PyErr_SetString(PyExc_ValueError, "only one element tensors can be converted to Python scalars");
    return NULL;
}

static PyObject *tensor_float(PyObject *self)
{
    PyObject *item = only_element(self);
    PyObject *number = item ? PyNumber_Float(item) : NULL;
    Py_XDECREF(item);
    return number;
}

static PyObject *method_complex(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *item = only_element(self);
    Py_complex number = item ? PyComplex_AsCComplex(item) : (Py_complex){.real = -1};
    Py_XDECREF(item);
    return PyErr_Occurred() ? NULL : PyComplex_FromCComplex(number);
}

static PyObject *tensor_int(PyObject *self)
{
    PyObject *item = only_element(self);
    PyObject *number = item ? PyNumber_Long(item) : NULL;
    Py_XDECREF(item);
    return number;
}

static PyObject *tensor_index(PyObject *self)
{
    if (meta_of(self)->numel != 1 || gt__dtype_is_inexact((gt_dtype)meta_of(self)->dtype)) {
        PyErr_SetString(PyExc_TypeError, "only integer tensors of a single element can be converted to an index");
        return NULL;
    }
    return tensor_int(self);
}

/* ---- repr and iteration ---------------------------------------------------------------------------------- */

static PyObject *tensor_repr(PyObject *self)
{
    PyObject *module = PyImport_ImportModule("gt._repr");
    PyObject *text = module ? PyObject_CallMethod(module, "tensor_repr", "O", self) : NULL;
    Py_XDECREF(module);
    return text;
}

/* By identity, since == compares elements. The low four bits of an address are always 0. */
static Py_hash_t tensor_hash(PyObject *self)
{
    uintptr_t address = (uintptr_t)self;
    return (Py_hash_t)(address >> 4 | address << (8 * sizeof address - 4));
}

static PyObject *tensor_iter(PyObject *self)
{
    if (meta_of(self)->rank == 0) {
        PyErr_SetString(PyExc_TypeError, "iteration over a 0-d tensor");
        return NULL;
    }
    if (Py_TYPE(self) == gt__py_tensor_type)
        return PySeqIter_New(self);
    /* The iterator of a subclass, nn.Parameter, would call its __getitem__: x[k] is not a piece of unbind(). */
    ssizeargfunc item = (ssizeargfunc)PyType_GetSlot(gt__py_tensor_type, Py_sq_item);
    Py_ssize_t count = (Py_ssize_t)meta_of(self)->shape[0];
    PyObject *rows = PyTuple_New(count), *row;
    for (Py_ssize_t k = 0; rows && k < count; k++) {
        if ((row = item(self, k)))
            PyTuple_SET_ITEM(rows, k, row);
        else
            Py_CLEAR(rows);
    }
    PyObject *iterator = rows ? PyObject_GetIter(rows) : NULL;
    Py_XDECREF(rows);
    return iterator;
}

static PyMethodDef own_methods[] = {
    FAST("size", method_size, "size(dim=None): the shape, or the size of one dimension."),
    NOARGS("numel", method_numel, "numel(): the number of elements."),
    NOARGS("nelement", method_numel, "nelement(): the number of elements."),
    NOARGS("dim", method_dim, "dim(): the number of dimensions."),
    NOARGS("ndimension", method_dim, "ndimension(): the number of dimensions."),
    NOARGS("element_size", method_element_size, "element_size(): bytes of one element."),
    NOARGS("is_floating_point", method_is_floating_point,
           "is_floating_point(): whether the dtype is a float one."),
    NOARGS("is_complex", method_is_complex, "is_complex(): whether the dtype is a complex one."),
    NOARGS("__complex__", method_complex, "The only element as a Python complex."),
    FAST("is_contiguous", method_is_contiguous,
         "is_contiguous(): whether its elements lie in memory in their order."),
    FAST("stride", method_stride,
         "stride(dim=None): the distance of neighbours along each dimension, in elements."),
    NOARGS("storage_offset", method_storage_offset,
           "storage_offset(): where in its memory it begins, in elements."),
    NOARGS("item", method_item, "item(): the one element as a Python number; waits for it."),
    NOARGS("tolist", method_tolist, "tolist(): the elements as nested lists; waits for them."),
    {.ml_name = NULL},
};

static PyGetSetDef own_attributes[] = {
    {.name = "shape", .get = get_shape, .doc = "The sizes, as a tuple."},
    {.name = "dtype", .get = get_dtype, .doc = "The type of the elements."},
    {.name = "ndim", .get = get_ndim, .doc = "The number of dimensions."},
    {.name = "itemsize", .get = get_itemsize, .doc = "Bytes of one element."},
    {.name = "nbytes", .get = get_nbytes, .doc = "Bytes of all elements."},
    {.name = "data",
     .get = get_data,
     .set = set_data,
     .doc = "The same value, apart from autograd; changes in place go both ways."},
    {.name = NULL},
};

static PyMemberDef own_members[] = {
    {.name = "__weaklistoffset__",
     .type = T_PYSSIZET,
     .offset = offsetof(TensorObject, weakrefs),
     .flags = READONLY},
    {.name = NULL},
};

/* ---- assembling the type --------------------------------------------------------------------------------- */

static PyMethodDef all_methods[METHOD_LIMIT];
static PyGetSetDef all_attributes[ATTRIBUTE_LIMIT];

static void collect_attributes(void)
{
    PyGetSetDef *const tables[] = {own_attributes, gt__py_alias_attributes, gt__py_autograd_attributes,
                                   gt__py_inplace_attributes};
    int count = 0;
    for (size_t k = 0; k < sizeof tables / sizeof *tables; k++)
        for (PyGetSetDef *attribute = tables[k]; attribute->name; attribute++) {
            assert(count < ATTRIBUTE_LIMIT - 1);
            all_attributes[count++] = *attribute;
        }
}

static void collect_methods(void)
{
    PyMethodDef *const tables[] = {own_methods,
                                   gt__py_operator_methods,
                                   gt__py_number_methods,
                                   gt__py_alias_methods,
                                   gt__py_gather_methods,
                                   gt__py_layout_methods,
                                   gt__py_reduce_methods,
                                   gt__py_shape_methods,
                                   gt__py_movement_methods,
                                   gt__py_product_methods,
                                   gt__py_index_methods,
                                   gt__py_index_write_methods,
                                   gt__py_interop_methods,
                                   gt__py_autograd_methods,
                                   gt__py_inplace_methods,
                                   gt__py_bounds_methods};
    int count = 0;
    for (size_t k = 0; k < sizeof tables / sizeof *tables; k++)
        for (PyMethodDef *method = tables[k]; method->ml_name; method++) {
            assert(count < METHOD_LIMIT - 1);
            all_methods[count++] = *method;
        }
}

static int collect_slots(PyType_Slot *slots, int count, const PyType_Slot *more)
{
    for (; more->slot; more++) {
        assert(count < SLOT_LIMIT - 1);
        slots[count++] = *more;
    }
    return count;
}

static int attributed_init(void)
{
    static PyMemberDef members[] = {
        {.name = "__dictoffset__", .type = T_PYSSIZET, .offset = offsetof(TensorObject, dict), .flags = READONLY},
        {.name = NULL},
    };
    static PyGetSetDef attributes[] = {
        {.name = "__dict__", .get = PyObject_GenericGetDict, .set = PyObject_GenericSetDict},
        {.name = NULL},
    };
    PyType_Slot slots[] = {
        SLOT(Py_tp_dealloc, tensor_dealloc),
        SLOT(Py_tp_members, members),
        SLOT(Py_tp_getset, attributes),
        {.slot = 0},
    };
    PyType_Spec spec = {
        .name = "gt.Tensor", .basicsize = sizeof(TensorObject), .flags = Py_TPFLAGS_DEFAULT, .slots = slots};
    attributed_type = (PyTypeObject *)PyType_FromSpecWithBases(&spec, (PyObject *)gt__py_tensor_type);
    return attributed_type ? 0 : -1;
}

int gt__py_tensor_init(PyObject *module)
{
    static const PyType_Slot own_slots[] = {
        SLOT(Py_tp_new, tensor_new),
        SLOT(Py_tp_dealloc, tensor_dealloc),
        SLOT(Py_tp_repr, tensor_repr),
        SLOT(Py_tp_setattro, tensor_setattr),
        SLOT(Py_tp_iter, tensor_iter),
        SLOT(Py_tp_hash, tensor_hash),
        SLOT(Py_tp_methods, all_methods),
        SLOT(Py_tp_getset, all_attributes),
        SLOT(Py_tp_members, own_members),
        SLOT(Py_nb_bool, tensor_bool),
        SLOT(Py_nb_float, tensor_float),
        SLOT(Py_nb_int, tensor_int),
        SLOT(Py_nb_index, tensor_index),
        SLOT(Py_tp_doc,
             "Tensor(*data, requires_grad=False)\n--\n\nA tensor on the server. Views of it share its memory."),
        {.slot = 0},
    };
    PyType_Slot slots[SLOT_LIMIT] = {{.slot = 0}};
    collect_methods();
    collect_attributes();
    int count = collect_slots(slots, 0, own_slots);
    count = collect_slots(slots, count, gt__py_number_slots);
    collect_slots(slots, count, gt__py_index_slots);
    PyType_Spec spec = {
        .name = "gt.Tensor",
        .basicsize = sizeof(TensorObject),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
        .slots = slots,
    };
    gt__py_tensor_type = (PyTypeObject *)PyType_FromSpec(&spec);
    PyObject *type = (PyObject *)gt__py_tensor_type;
    return type && attributed_init() == 0 ? PyModule_AddObjectRef(module, "Tensor", type) : -1;
}

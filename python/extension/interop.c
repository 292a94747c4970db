/*
 * interop.c: conversion from and to other libraries' arrays: the buffer protocol, NumPy, DLPack, pickle.
 *
 * In: one copy, from the caller's memory into a segment that the worker shares. Out: the worker writes into memory
 * that the client lends; a Lease object holds it, as the base of a NumPy array or a DLPack manager. NumPy is
 * imported only when an array is wanted.
 */
#include "alias.h"

#include "client/autograd.h"
#include "dlpack.h"

#include <string.h>

/* ---- in: dtypes and strides ------------------------------------------------------------------------------ */

static void unsupported_buffer(const Py_buffer *view)
{
    PyObject *dtype = view->obj ? PyObject_GetAttrString(view->obj, "dtype") : NULL;
    PyErr_Clear();
    PyObject *name = dtype ? PyObject_Str(dtype) : PyUnicode_FromString(view->format ? view->format : "B");
    if (name)
        PyErr_Format(
            PyExc_TypeError,
            "can't convert an array of type %U. The supported types are: complex128, complex64, float64, float32, "
            "float16, int64, int32, int16, int8, uint8, and bool.",
            name);
    Py_XDECREF(dtype);
    Py_XDECREF(name);
}

int gt__py_buffer_dtype(const Py_buffer *view, gt_dtype *dtype, bool *swap)
{
    const char *format = view->format ? view->format : "B";
    bool little = true;
    if (*format && strchr("@=<>!", *format))
        little = *format != '>' && *format != '!', format++;
    *swap = little != PY_LITTLE_ENDIAN && view->itemsize > 1;
    int found = -1;
    if (format[0] == 'Z' && (format[1] == 'f' || format[1] == 'd') && !format[2])
        found = format[1] == 'f' ? GT_COMPLEX64 : GT_COMPLEX128;
    if (format[0] && !format[1]) {
        if (format[0] == '?')
            found = GT_BOOL;
        else if (format[0] == 'B')
            found = GT_UINT8;
        else if (format[0] == 'b')
            found = GT_INT8;
        else if (format[0] == 'h')
            found = GT_INT16;
        else if (strchr("ilqn", format[0]))
            found = view->itemsize == 4 ? GT_INT32 : view->itemsize == 8 ? GT_INT64 : -1;
        else if (format[0] == 'e' || format[0] == 'f' || format[0] == 'd')
            found = format[0] == 'e' ? GT_FLOAT16 : format[0] == 'f' ? GT_FLOAT32 : GT_FLOAT64;
    }
    if (found < 0 || gt__dtype_size((gt_dtype)found) != (size_t)view->itemsize) {
        unsupported_buffer(view);
        return -1;
    }
    *dtype = (gt_dtype)found;
    return 0;
}

/* An array of another library, with strides in bytes. */
typedef struct Strided {
    const uint8_t *data;
    gt_dtype dtype;
    int rank;
    int64_t shape[GT_MAX_RANK], strides[GT_MAX_RANK];
    bool swap;
} Strided;

static bool is_packed(const Strided *array)
{
    int64_t expected = (int64_t)gt__dtype_size(array->dtype);
    for (int k = array->rank - 1; k >= 0; k--) {
        if (array->shape[k] != 1 && array->strides[k] != expected)
            return false;
        expected *= array->shape[k];
    }
    return !array->swap;
}

static uint8_t *pack_axis(const Strided *array, int axis, const uint8_t *from, uint8_t *to)
{
    size_t size = gt__dtype_size(array->dtype);
    if (axis == array->rank) {
        for (size_t k = 0; k < size; k++)
            to[k] = from[array->swap ? size - 1 - k : k];
        return to + size;
    }
    int64_t count = array->shape[axis], stride = array->strides[axis];
    if (axis == array->rank - 1 &&
        !array->swap) { /* constant sizes, so that each memcpy becomes one load and store */
        for (int64_t k = 0; k < count; k++, from += stride, to += size) {
            if (size == 4)
                memcpy(to, from, 4);
            else if (size == 8)
                memcpy(to, from, 8);
            else
                memcpy(to, from, size);
        }
        return to;
    }
    for (int64_t k = 0; k < count; k++, from += stride)
        to = pack_axis(array, axis + 1, from, to);
    return to;
}

static int upload(const Strided *array, gt_client *client, gt_tensor **tensor)
{
    gt_meta meta;
    gt_err err = gt__meta_set(&meta, array->dtype, (unsigned)array->rank, array->shape);
    const void *data = array->data;
    uint8_t *packed = NULL;
    if (err == GT_OK && meta.numel && !is_packed(array)) {
        data = packed = PyMem_RawMalloc(gt__meta_bytes(&meta));
        if (!packed) {
            PyErr_NoMemory();
            return -1;
        }
        pack_axis(array, 0, array->data, packed);
    }
    int status = gt__py_enter(client);
    if (status == 0 && err == GT_OK)
        err = gt_from_data(client, array->dtype, array->rank, array->shape, data, tensor);
    PyMem_RawFree(packed);
    if (status == 0 && err != GT_OK)
        gt__py_raise(err);
    return status == 0 && err == GT_OK ? 1 : -1;
}

static int too_many_axes(int rank)
{
    PyErr_Format(PyExc_RuntimeError, "tensors have at most %d dimensions, not %d", GT_MAX_RANK, rank);
    return -1;
}

static int from_buffer(PyObject *object, gt_client *client, gt_tensor **tensor)
{
    Py_buffer view;
    if (PyObject_GetBuffer(object, &view, PyBUF_STRIDED_RO | PyBUF_FORMAT) < 0) {
        PyErr_Clear(); /* NumPy dtypes that no format describes: datetimes, extension types */
        unsupported_buffer(&(Py_buffer){.obj = object, .format = "unknown"});
        return -1;
    }
    Strided array = {.data = view.buf, .rank = view.ndim};
    int status =
        view.ndim > GT_MAX_RANK ? too_many_axes(view.ndim) : gt__py_buffer_dtype(&view, &array.dtype, &array.swap);
    for (int k = 0; status == 0 && k < view.ndim; k++) {
        array.shape[k] = view.shape[k];
        array.strides[k] = view.strides[k];
    }
    if (status == 0)
        status = upload(&array, client, tensor);
    PyBuffer_Release(&view);
    return status;
}

/* ---- in: DLPack ------------------------------------------------------------------------------------------ */

const gt_py_dlpack_dtype gt__py_dlpack_dtypes[GT_DTYPE_COUNT] = {
    [GT_BOOL] = {.code = DL_BOOL, .bits = 8},          [GT_UINT8] = {.code = DL_UINT, .bits = 8},
    [GT_INT8] = {.code = DL_INT, .bits = 8},           [GT_INT16] = {.code = DL_INT, .bits = 16},
    [GT_INT32] = {.code = DL_INT, .bits = 32},         [GT_INT64] = {.code = DL_INT, .bits = 64},
    [GT_FLOAT16] = {.code = DL_FLOAT, .bits = 16},     [GT_BFLOAT16] = {.code = DL_BFLOAT, .bits = 16},
    [GT_FLOAT32] = {.code = DL_FLOAT, .bits = 32},     [GT_FLOAT64] = {.code = DL_FLOAT, .bits = 64},
    [GT_COMPLEX64] = {.code = DL_COMPLEX, .bits = 64}, [GT_COMPLEX128] = {.code = DL_COMPLEX, .bits = 128},
};

static int from_dltensor(const DLTensor *source, gt_client *client, gt_tensor **tensor)
{
    Strided array = {.data = (const uint8_t *)source->data + source->byte_offset, .rank = source->ndim};
    int found = -1;
    for (int k = 0; k < GT_DTYPE_COUNT; k++)
        if (gt__py_dlpack_dtypes[k].code == source->dtype.code &&
            gt__py_dlpack_dtypes[k].bits == source->dtype.bits)
            found = k;
    if (found < 0 || source->dtype.lanes != 1) {
        PyErr_Format(PyExc_TypeError, "can't convert a DLPack tensor of type code %d with %d bits",
                     source->dtype.code, source->dtype.bits);
        return -1;
    }
    if (source->device.device_type != DL_CPU && source->device.device_type != DL_CUDA_HOST) {
        PyErr_SetString(PyExc_BufferError, "only DLPack tensors in host memory can be imported");
        return -1;
    }
    if (source->ndim > GT_MAX_RANK)
        return too_many_axes(source->ndim);
    array.dtype = (gt_dtype)found;
    int64_t size = (int64_t)gt__dtype_size(array.dtype), packed = size;
    for (int k = source->ndim - 1; k >= 0; k--) {
        array.shape[k] = source->shape[k];
        array.strides[k] = source->strides ? source->strides[k] * size : packed;
        packed *= source->shape[k];
    }
    return upload(&array, client, tensor);
}

static int from_dlpack(PyObject *object, gt_client *client, gt_tensor **tensor)
{
    PyObject *capsule =
        PyCapsule_CheckExact(object) ? Py_NewRef(object) : PyObject_CallMethod(object, "__dlpack__", NULL);
    if (!capsule)
        return -1;
    DLManagedTensor *managed = PyCapsule_GetPointer(capsule, "dltensor");
    int status = -1;
    if (managed) {
        status = from_dltensor(&managed->tensor, client, tensor);
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback); /* may run code of the producer */
        PyCapsule_SetName(capsule, "used_dltensor");
        if (managed->deleter)
            managed->deleter(managed);
        PyErr_Restore(type, value, traceback);
    }
    Py_DECREF(capsule);
    return status;
}

static bool has_attribute(PyObject *object, const char *name)
{
    PyObject *attribute = PyObject_GetAttrString((PyObject *)Py_TYPE(object), name);
    if (!attribute)
        PyErr_Clear();
    Py_XDECREF(attribute);
    return attribute != NULL;
}

static int from_protocol(PyObject *object, gt_client *client, gt_tensor **tensor)
{
    if (PyBytes_Check(object) || PyByteArray_Check(object)) /* sequences, as in PyTorch */
        return 0;
    if (PyObject_CheckBuffer(object))
        return from_buffer(object, client, tensor);
    if (has_attribute(object, "__dlpack__"))
        return from_dlpack(object, client, tensor);
    if (!has_attribute(object, "__array__"))
        return 0;
    PyObject *array = PyObject_CallMethod(object, "__array__", NULL);
    int status = array ? from_buffer(array, client, tensor) : -1;
    Py_XDECREF(array);
    return status;
}

int gt__py_from_array(PyObject *object, gt_client *client, gt_tensor **tensor)
{
    if (PyUnicode_Check(object) || PyList_Check(object) || PyTuple_Check(object) || PyLong_Check(object) ||
        PyFloat_CheckExact(object))
        return 0;
    gt__py_pin(client); /* runs code of the object */
    int status = from_protocol(object, client, tensor);
    gt__py_unpin(client);
    return status;
}

static PyObject *py_from_dlpack(PyObject *module, PyObject *object)
{
    (void)module;
    gt_client *client = gt__py_client();
    gt_tensor *tensor = NULL;
    if (!client)
        return NULL;
    gt__py_pin(client);
    int status = from_dlpack(object, client, &tensor);
    gt__py_unpin(client);
    return status == 1 ? gt__py_wrap(tensor) : NULL;
}

/* ---- out: leases ----------------------------------------------------------------------------------------- */

typedef struct LeaseObject {
    PyObject_HEAD gt_lease *lease; /* NULL: an empty array, which needs no memory */
    void *data;
    gt_meta meta;
    Py_ssize_t shape[GT_MAX_RANK], strides[GT_MAX_RANK];
} LeaseObject;

PyTypeObject *gt__py_lease_type;
static const char *const formats[GT_DTYPE_COUNT] = {
    [GT_BOOL] = "?",    [GT_UINT8] = "B",   [GT_INT8] = "b",       [GT_INT16] = "h",
    [GT_INT32] = "i",   [GT_INT64] = "q",   [GT_FLOAT16] = "e",    [GT_BFLOAT16] = "H",
    [GT_FLOAT32] = "f", [GT_FLOAT64] = "d", [GT_COMPLEX64] = "Zf", [GT_COMPLEX128] = "Zd",
};

/* Waits for the elements. */
static LeaseObject *lease_new(gt_tensor *tensor)
{
    static uint64_t nothing[8];
    LeaseObject *self = PyObject_New(LeaseObject, gt__py_lease_type);
    if (!self)
        return NULL;
    self->lease = NULL;
    self->data = nothing;
    self->meta = tensor->meta;
    gt_err err = tensor->meta.numel ? gt__fetch_lease(tensor, &self->data, &self->lease) : GT_OK;
    if (err != GT_OK) {
        self->lease = NULL;
        Py_DECREF(self);
        return (LeaseObject *)gt__py_raise(err);
    }
    Py_ssize_t stride = (Py_ssize_t)gt__dtype_size((gt_dtype)self->meta.dtype);
    for (int k = self->meta.rank - 1; k >= 0; k--) {
        self->shape[k] = (Py_ssize_t)self->meta.shape[k];
        self->strides[k] = stride;
        stride *= self->shape[k];
    }
    return self;
}

static void lease_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    if (((LeaseObject *)object)->lease)
        gt__lease_end(((LeaseObject *)object)->lease);
    type->tp_free(object);
    Py_DECREF(type);
}

static int lease_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    LeaseObject *self = (LeaseObject *)object;
    *view = (Py_buffer){
        .obj = Py_NewRef(object),
        .buf = self->data,
        .len = (Py_ssize_t)gt__meta_bytes(&self->meta),
        .itemsize = (Py_ssize_t)gt__dtype_size((gt_dtype)self->meta.dtype),
        .format = flags & PyBUF_FORMAT ? (char *)formats[self->meta.dtype] : NULL,
        .ndim = self->meta.rank,
        .shape = flags & PyBUF_ND ? self->shape : NULL,
        .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? self->strides : NULL,
    };
    return 0;
}

/* numpy.ndarray(shape, dtype, lease): the array owns the lease; no copy. */
static PyObject *array_from_lease(LeaseObject *lease)
{
    static PyObject *ndarray, *dtypes[GT_DTYPE_COUNT];
    gt_dtype dtype = (gt_dtype)lease->meta.dtype;
    if (!ndarray) {
        PyObject *numpy = PyImport_ImportModule("numpy");
        ndarray = numpy ? PyObject_GetAttrString(numpy, "ndarray") : NULL;
        Py_XDECREF(numpy);
        if (!ndarray)
            return NULL;
    }
    if (!dtypes[dtype]) {
        PyObject *object = gt__py_dtype_object(dtype);
        dtypes[dtype] = PyObject_GetAttrString(object, "dtype");
        Py_DECREF(object);
        if (!dtypes[dtype])
            return NULL;
    }
    PyObject *shape = gt__py_sizes(lease->meta.rank, lease->meta.shape);
    PyObject *arguments[] = {shape, dtypes[dtype], (PyObject *)lease};
    PyObject *array = shape ? PyObject_Vectorcall(ndarray, arguments, 3, NULL) : NULL;
    Py_XDECREF(shape);
    return array;
}

/* PyTorch's rule: a value leaves autograd by detach() only, so that a lost gradient is seen. */
static int refuse_gradient(PyObject *self, bool forced)
{
    if (forced || !gt__py_requires_grad(self))
        return 0;
    PyErr_SetString(PyExc_RuntimeError, "Can't call numpy() on Tensor that requires grad. Use "
                                        "tensor.detach().numpy() instead.");
    return -1;
}

/* NumPy has no bfloat16: such a tensor comes out as float32. */
static PyObject *to_numpy(PyObject *self, bool forced)
{
    if (refuse_gradient(self, forced) < 0)
        return NULL;
    gt_tensor *tensor = gt__py_use(self), *wide = NULL;
    if (!tensor)
        return NULL;
    if (tensor->meta.dtype == GT_BFLOAT16) {
        gt_err err = gt_cast(tensor, GT_FLOAT32, &wide);
        if (err != GT_OK)
            return gt__py_raise(err);
        tensor = wide;
    }
    LeaseObject *lease = lease_new(tensor);
    gt_tensor_release(wide);
    PyObject *array = lease ? array_from_lease(lease) : NULL;
    Py_XDECREF(lease);
    return array;
}

static PyObject *method_numpy(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"force"};
    PyObject *force;
    bool forced = false;
    if (gt__py_parse("numpy", args, nargs, kwnames, names, 1, 0, &force) < 0 || gt__py_flag(force, &forced) < 0)
        return NULL;
    return to_numpy(self, forced);
}

static PyObject *method_array(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"dtype", "copy"};
    PyObject *values[2];
    if (gt__py_parse("__array__", args, nargs, kwnames, names, 2, 2, values) < 0)
        return NULL;
    if (values[1] == Py_False)
        return PyErr_Format(PyExc_ValueError, "the elements are on the server: an array of them is always a copy");
    PyObject *array = to_numpy(self, false);
    if (array && values[0] && values[0] != Py_None)
        Py_SETREF(array, PyObject_CallMethod(array, "astype", "O", values[0]));
    return array;
}

/* ---- out: DLPack ----------------------------------------------------------------------------------------- */

typedef struct Export {
    DLManagedTensor managed;
    LeaseObject *lease;
} Export;

/* The consumer may call this from a thread without the GIL. */
static void export_delete(DLManagedTensor *managed)
{
    Export *export = (Export *)managed;
    if (Py_IsInitialized()) {
        PyGILState_STATE state = PyGILState_Ensure();
        Py_DECREF(export->lease);
        PyGILState_Release(state);
    }
    free(export);
}

void gt__py_dlpack_capsule_delete(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor")) { /* not consumed */
        DLManagedTensor *managed = PyCapsule_GetPointer(capsule, "dltensor");
        managed->deleter(managed);
    }
}

static PyObject *method_dlpack(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"stream", "max_version", "dl_device", "copy"};
    PyObject *values[4];
    if (gt__py_requires_grad(self)) {
        PyErr_SetString(PyExc_BufferError, "Can't export tensors that require gradient, use tensor.detach()");
        return NULL;
    }
    gt_tensor *tensor = gt__py_use(self);
    if (!tensor || gt__py_parse("__dlpack__", args, nargs, kwnames, names, 4, 1, values) < 0)
        return NULL;
    LeaseObject *lease = lease_new(tensor);
    Export *export = lease ? calloc(1, sizeof *export) : NULL;
    if (!export) {
        if (lease)
            PyErr_NoMemory();
        Py_XDECREF(lease);
        return NULL;
    }
    export->lease = lease;
    DLTensor *out = &export->managed.tensor;
    out->data = lease->data;
    out->device.device_type = DL_CPU;
    out->ndim = lease->meta.rank;
    out->dtype.code = gt__py_dlpack_dtypes[lease->meta.dtype].code;
    out->dtype.bits = gt__py_dlpack_dtypes[lease->meta.dtype].bits;
    out->dtype.lanes = 1;
    out->shape = lease->meta.shape;
    export->managed.deleter = export_delete;
    PyObject *capsule = PyCapsule_New(export, "dltensor", gt__py_dlpack_capsule_delete);
    if (!capsule)
        export_delete(&export->managed);
    return capsule;
}

static PyObject *method_dlpack_device(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return Py_BuildValue("(ii)", DL_CPU, 0);
}

/* ---- pickle and copy ------------------------------------------------------------------------------------- */

static PyObject *rebuild_function;

static PyObject *method_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    gt_tensor *tensor = gt__py_use(self);
    PyObject *data = tensor ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)gt__meta_bytes(&tensor->meta)) : NULL;
    if (!data)
        return NULL;
    gt_meta meta = tensor->meta; /* self may be rebound during the wait */
    bool requires_grad = tensor->node != NULL;
    gt_err err = gt_fetch(tensor, PyBytes_AS_STRING(data), (size_t)PyBytes_GET_SIZE(data));
    if (err != GT_OK) {
        Py_DECREF(data);
        return gt__py_raise(err);
    }
    return Py_BuildValue("O(NNNN)", rebuild_function, data, gt__py_dtype_object((gt_dtype)meta.dtype),
                         gt__py_sizes(meta.rank, meta.shape), PyBool_FromLong(requires_grad));
}

/* A tensor of these bytes, for unpickling and for reading files (serialization.py passes parts of a memory map). */
static PyObject *rebuild(const Py_buffer *data, gt_dtype dtype, int rank, const int64_t *shape, bool requires_grad)
{
    gt_meta meta;
    gt_err err = gt__meta_set(&meta, dtype, (unsigned)rank, shape);
    if (err != GT_OK)
        return gt__py_raise(err);
    if (gt__meta_bytes(&meta) != (size_t)data->len)
        return PyErr_Format(PyExc_ValueError, "a pickled tensor has %zd bytes where its shape needs %zu",
                            data->len, gt__meta_bytes(&meta));
    gt_client *client = gt__py_client();
    gt_tensor *tensor = NULL;
    if (!client || gt__py_enter(client) < 0)
        return NULL;
    err = gt_from_data(client, dtype, rank, shape, data->buf, &tensor);
    PyObject *self = gt__py_result(err, tensor);
    if (self && gt__py_set_requires_grad(self, requires_grad) < 0)
        Py_CLEAR(self);
    return self;
}

static PyObject *py_rebuild(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer data;
    PyObject *dtype_object, *shape_object, *self = NULL;
    int requires_grad, rank;
    int64_t shape[GT_MAX_RANK];
    gt_dtype dtype = GT_FLOAT32;
    if (!PyArg_ParseTuple(args, "y*OOp:_rebuild", &data, &dtype_object, &shape_object, &requires_grad))
        return NULL;
    if (gt__py_dtype(dtype_object, &dtype) == 0 && gt__py_ints(shape_object, &rank, shape) == 0)
        self = rebuild(&data, dtype, rank, shape, requires_grad != 0);
    PyBuffer_Release(&data);
    return self;
}

/* The elements as a buffer in memory that the client lends, for writing files; any dtype. Waits. */
static PyObject *method_elements(PyObject *self, PyObject *unused)
{
    (void)unused;
    gt_tensor *tensor = gt__py_use(self);
    return tensor ? (PyObject *)lease_new(tensor) : NULL;
}

PyMethodDef gt__py_interop_methods[] = {
    FAST("numpy", method_numpy, "numpy(): the elements as an array; waits for them. bfloat16 comes as float32."),
    FAST("__array__", method_array, "__array__(dtype=None, copy=None): for numpy.asarray."),
    FAST("__dlpack__", method_dlpack, "__dlpack__(): the elements in host memory, as a DLPack capsule."),
    NOARGS("__dlpack_device__", method_dlpack_device, "__dlpack_device__(): host memory."),
    NOARGS("_elements", method_elements, "_elements(): the elements as a buffer, also of bfloat16; waits."),
    NOARGS("__reduce__", method_reduce, "Pickle by value."),
    {.ml_name = NULL},
};

PyMethodDef gt__py_interop_functions[] = {
    {.ml_name = "from_dlpack",
     .ml_meth = py_from_dlpack,
     .ml_flags = METH_O,
     .ml_doc = "from_dlpack(x): a copy of any DLPack tensor in host memory."},
    {.ml_name = "_rebuild",
     .ml_meth = py_rebuild,
     .ml_flags = METH_VARARGS,
     .ml_doc = "_rebuild(bytes, dtype, shape, requires_grad): a tensor of these bytes."},
    {.ml_name = NULL},
};

int gt__py_interop_init(PyObject *module)
{
    static PyType_Slot slots[] = {
        SLOT(Py_tp_dealloc, lease_dealloc),
        SLOT(Py_bf_getbuffer, lease_getbuffer),
        SLOT(Py_tp_doc, "Memory lent by a client to the array made of it."),
        {.slot = 0},
    };
    static PyType_Spec spec = {
        .name = "gt.Lease",
        .basicsize = sizeof(LeaseObject),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };
    gt__py_lease_type = (PyTypeObject *)PyType_FromSpec(&spec);
    rebuild_function = PyObject_GetAttrString(module, "_rebuild");
    return gt__py_lease_type && rebuild_function ? 0 : -1;
}

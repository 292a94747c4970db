/*
 * pyengine_view.c: gt._gt.EngineView, an operand or the result of a call as an engine in Python sees it: shape, strides,
 * dtype and memory. On the host's memory numpy.asarray(view) and torch.from_dlpack(view) make arrays of it without a copy.
 *
 * A view is lent for one call. Afterwards its memory has other contents, so it refuses to be used.
 */
#include "pyengine.h"

#include "dlpack.h"

static PyTypeObject *view_type;
static PyObject *dtype_texts[GT_DTYPE_COUNT];

/* NumPy's codes. There is none for bfloat16: its bits come as integers. */
static const char *const formats[GT_DTYPE_COUNT] = {
    [GT_BOOL] = "?",    [GT_UINT8] = "B",   [GT_INT8] = "b",       [GT_INT16] = "h",
    [GT_INT32] = "i",   [GT_INT64] = "l",   [GT_FLOAT16] = "e",    [GT_BFLOAT16] = "H",
    [GT_FLOAT32] = "f", [GT_FLOAT64] = "d", [GT_COMPLEX64] = "Zf", [GT_COMPLEX128] = "Zd",
};
static const char kinds[GT_DTYPE_COUNT] = {
    [GT_BOOL] = 'b',    [GT_UINT8] = 'u',   [GT_INT8] = 'i',      [GT_INT16] = 'i',
    [GT_INT32] = 'i',   [GT_INT64] = 'i',   [GT_FLOAT16] = 'f',   [GT_BFLOAT16] = 'u',
    [GT_FLOAT32] = 'f', [GT_FLOAT64] = 'f', [GT_COMPLEX64] = 'c', [GT_COMPLEX128] = 'c',
};

PyObject *gt__py_dtype_text(gt_dtype dtype)
{
    return dtype_texts[dtype];
}

/* ---- life ----------------------------------------------------------------------------------------------------- */

static EngineView *view_new(const gt_view *view, bool writable, PyObject *memory, size_t offset)
{
    EngineView *self = PyObject_New(EngineView, view_type);
    if (!self)
        return NULL;
    Py_ssize_t size = (Py_ssize_t)gt__dtype_size((gt_dtype)view->meta.dtype);
    self->view.data = view->data;
    self->view.contiguous = view->contiguous;
    gt__meta_copy(&self->view.meta, &view->meta);
    for (unsigned axis = 0; axis < view->meta.rank; axis++) {
        self->view.stride[axis] = view->stride[axis];
        self->strides[axis] = view->stride[axis] * size;
    }
    self->memory = Py_XNewRef(memory);
    self->offset = offset;
    self->lender = NULL;
    self->exports = 0;
    self->writable = writable;
    self->ended = false;
    return self;
}

EngineView *gt__py_engine_view(const gt_view *view, bool writable, const gt_py_block *block)
{
    return view_new(view, writable, block ? block->memory : NULL,
                    block ? (uintptr_t)view->data - block->address : 0);
}

bool gt__py_engine_view_end(EngineView *view)
{
    bool used = view->exports != 0;
    view->ended = true;
    Py_DECREF(view);
    return used;
}

static void view_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(((EngineView *)object)->memory);
    Py_XDECREF(((EngineView *)object)->lender);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* The view that ends with the call and counts exports. */
static EngineView *view_of_call(EngineView *self)
{
    return UNLIKELY(self->lender) ? self->lender : self;
}

static int check_lent(EngineView *self)
{
    if (LIKELY(!view_of_call(self)->ended))
        return 0;
    PyErr_SetString(PyExc_RuntimeError, "the call that lent this view is over, and its memory has other contents");
    return -1;
}

/* An address that the host can use. */
static int check_host(EngineView *self)
{
    if (check_lent(self) < 0)
        return -1;
    if (LIKELY(!self->memory))
        return 0;
    PyErr_SetString(PyExc_BufferError,
                    "this view is on the engine's own memory: see its attributes memory and offset");
    return -1;
}

/* ---- as an array ----------------------------------------------------------------------------------------------- */

/* Whether the elements lie as a consumer with these flags takes them to. */
static bool has_layout(const EngineView *self, int flags)
{
    /* The constants contain the bits of PyBUF_STRIDES. */
    const int rows = (PyBUF_C_CONTIGUOUS | PyBUF_ANY_CONTIGUOUS) & ~PyBUF_STRIDES;
    const int columns = PyBUF_F_CONTIGUOUS & ~PyBUF_STRIDES;
    if (flags & columns)
        return self->view.contiguous && self->view.meta.rank <= 1;
    return self->view.contiguous || ((flags & PyBUF_STRIDES) == PyBUF_STRIDES && !(flags & rows));
}

static int view_getbuffer(PyObject *object, Py_buffer *buffer, int flags)
{
    EngineView *self = (EngineView *)object;
    const gt_meta *meta = &self->view.meta;
    buffer->obj = NULL;
    if (check_host(self) < 0)
        return -1;
    if (!has_layout(self, flags)) {
        PyErr_SetString(PyExc_BufferError, "the elements of this view are not contiguous");
        return -1;
    }
    if (!self->writable && (flags & PyBUF_WRITABLE)) {
        PyErr_SetString(PyExc_BufferError, "an operand is read-only");
        return -1;
    }
    static char no_elements; /* consumers take an address of NULL for an error */
    *buffer = (Py_buffer){.buf = self->view.data ? self->view.data : &no_elements,
                          .obj = Py_NewRef(object),
                          .len = (Py_ssize_t)gt__meta_bytes(meta),
                          .readonly = !self->writable,
                          .itemsize = (Py_ssize_t)gt__dtype_size((gt_dtype)meta->dtype),
                          .ndim = meta->rank,
                          .format = flags & PyBUF_FORMAT ? (char *)formats[meta->dtype] : NULL,
                          .shape = flags & PyBUF_ND ? (Py_ssize_t *)meta->shape : NULL,
                          .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? self->strides : NULL};
    view_of_call(self)->exports++;
    return 0;
}

static void view_releasebuffer(PyObject *object, Py_buffer *buffer)
{
    (void)buffer;
    view_of_call((EngineView *)object)->exports--;
}

PyObject *gt__py_integers(unsigned count, const int64_t *numbers)
{
    PyObject *tuple = PyTuple_New(count);
    for (unsigned k = 0; tuple && k < count; k++) {
        PyObject *number = PyLong_FromLongLong(numbers[k]);
        if (!number)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, k, number);
    }
    return tuple;
}

static PyObject *view_interface(PyObject *object, void *closure)
{
    (void)closure;
    EngineView *self = (EngineView *)object;
    gt_meta *meta = &self->view.meta;
    if (check_host(self) < 0)
        return NULL;
    char type[8];
    PyOS_snprintf(type, sizeof type, "%c%c%zu", PY_LITTLE_ENDIAN ? '<' : '>', kinds[meta->dtype],
                  gt__dtype_size((gt_dtype)meta->dtype));
    int64_t strides[GT_MAX_RANK];
    for (unsigned axis = 0; axis < meta->rank; axis++)
        strides[axis] = self->strides[axis];
    return Py_BuildValue("{s:i,s:N,s:N,s:s,s:(NO)}", "version", 3, "shape",
                         gt__py_integers(meta->rank, meta->shape), "strides", gt__py_integers(meta->rank, strides),
                         "typestr", type, "data", PyLong_FromVoidPtr(self->view.data),
                         self->writable ? Py_False : Py_True);
}

typedef struct Export {
    DLManagedTensor managed;
    EngineView *view;
} Export;

/* The consumer may call this from a thread without the GIL. */
static void export_delete(DLManagedTensor *managed)
{
    Export *export = (Export *)managed;
    if (Py_IsInitialized()) {
        PyGILState_STATE state = PyGILState_Ensure();
        view_of_call(export->view)->exports--;
        Py_DECREF(export->view);
        PyGILState_Release(state);
    }
    free(export);
}

static PyObject *view_dlpack(PyObject *object, PyObject *args, PyObject *keywords)
{
    (void)args;
    (void)keywords; /* stream, max_version, ...: there is one memory, and version 0 is enough */
    EngineView *self = (EngineView *)object;
    if (check_host(self) < 0)
        return NULL;
    Export *export = calloc(1, sizeof *export);
    if (!export)
        return PyErr_NoMemory();
    export->view = self;
    DLTensor *out = &export->managed.tensor;
    out->data = self->view.data;
    out->device.device_type = DL_CPU;
    out->ndim = self->view.meta.rank;
    out->dtype.code = gt__py_dlpack_dtypes[self->view.meta.dtype].code;
    out->dtype.bits = gt__py_dlpack_dtypes[self->view.meta.dtype].bits;
    out->dtype.lanes = 1;
    out->shape = self->view.meta.shape;
    out->strides = self->view.stride;
    export->managed.deleter = export_delete;
    Py_INCREF(self);
    view_of_call(self)->exports++;
    PyObject *capsule = PyCapsule_New(export, "dltensor", gt__py_dlpack_capsule_delete);
    if (!capsule)
        export_delete(&export->managed);
    return capsule;
}

static PyObject *view_dlpack_device(PyObject *object, PyObject *unused)
{
    (void)unused;
    return check_host((EngineView *)object) < 0 ? NULL : Py_BuildValue("(ii)", DL_CPU, 0);
}

/* ---- attributes ------------------------------------------------------------------------------------------------ */

/* PyTorch has no negative strides: the view from its lowest address on, and the axes to flip. */
static PyObject *view_ascending(PyObject *object, PyObject *unused)
{
    (void)unused;
    EngineView *self = (EngineView *)object;
    gt_view view = self->view;
    int64_t flipped[GT_MAX_RANK], lowest = 0;
    unsigned count = 0;
    if (check_lent(self) < 0)
        return NULL;
    for (unsigned axis = 0; axis < view.meta.rank; axis++)
        if (view.stride[axis] < 0) {
            lowest += view.stride[axis] * (view.meta.numel ? view.meta.shape[axis] - 1 : 0);
            view.stride[axis] = -view.stride[axis];
            flipped[count++] = axis;
        }
    if (!count)
        return Py_BuildValue("(O())", object);
    lowest *= (int64_t)gt__dtype_size((gt_dtype)view.meta.dtype);
    view.data = (char *)view.data + lowest;
    EngineView *made = view_new(&view, self->writable, self->memory, (size_t)((int64_t)self->offset + lowest));
    if (made)
        made->lender = (EngineView *)Py_NewRef(view_of_call(self));
    return made ? Py_BuildValue("(NN)", made, gt__py_integers(count, flipped)) : NULL;
}

static PyObject *view_shape(PyObject *object, void *closure)
{
    (void)closure;
    gt_meta *meta = &((EngineView *)object)->view.meta;
    return gt__py_integers(meta->rank, meta->shape);
}

static PyObject *view_stride(PyObject *object, void *closure)
{
    (void)closure;
    EngineView *self = (EngineView *)object;
    return gt__py_integers(self->view.meta.rank, self->view.stride);
}

static PyObject *view_dtype(PyObject *object, void *closure)
{
    (void)closure;
    return Py_NewRef(dtype_texts[((EngineView *)object)->view.meta.dtype]);
}

static PyObject *view_contiguous(PyObject *object, void *closure)
{
    (void)closure;
    return PyBool_FromLong(((EngineView *)object)->view.contiguous);
}

static PyObject *view_descending(PyObject *object, void *closure)
{
    (void)closure;
    const gt_view *view = &((EngineView *)object)->view;
    bool negative = false;
    for (unsigned axis = 0; axis < view->meta.rank; axis++)
        negative |= view->stride[axis] < 0;
    return PyBool_FromLong(negative);
}

static PyObject *view_numel(PyObject *object, void *closure)
{
    (void)closure;
    return PyLong_FromLongLong(((EngineView *)object)->view.meta.numel);
}

static PyObject *view_address(PyObject *object, void *closure)
{
    (void)closure;
    EngineView *self = (EngineView *)object;
    return check_host(self) < 0 ? NULL : PyLong_FromVoidPtr(self->view.data);
}

static PyObject *view_memory(PyObject *object, void *closure)
{
    (void)closure;
    EngineView *self = (EngineView *)object;
    return check_lent(self) < 0 ? NULL : Py_NewRef(self->memory ? self->memory : Py_None);
}

static PyObject *view_offset(PyObject *object, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(((EngineView *)object)->offset);
}

static PyObject *view_repr(PyObject *object)
{
    EngineView *self = (EngineView *)object;
    PyObject *shape = view_shape(object, NULL), *stride = view_stride(object, NULL), *text = NULL;
    if (shape && stride)
        text = PyUnicode_FromFormat("<EngineView %U %S, stride %S>", dtype_texts[self->view.meta.dtype], shape,
                                    stride);
    Py_XDECREF(shape);
    Py_XDECREF(stride);
    return text;
}

int gt__py_engine_view_init(PyObject *module)
{
    static PyGetSetDef attributes[] = {
        {.name = "shape", .get = view_shape, .doc = "The sizes, a tuple."},
        {.name = "stride", .get = view_stride, .doc = "In elements, a tuple; 0: broadcast; may be negative."},
        {.name = "dtype", .get = view_dtype, .doc = "The name of the dtype, such as 'float32'."},
        {.name = "contiguous", .get = view_contiguous, .doc = "Row-major, without gaps."},
        {.name = "descending", .get = view_descending, .doc = "Whether a stride is negative."},
        {.name = "numel", .get = view_numel, .doc = "The number of elements."},
        {.name = "address", .get = view_address, .doc = "Of the first element, in the host's memory."},
        {.name = "memory",
         .get = view_memory,
         .doc = "What the engine's allocate() returned; None: the host's memory."},
        {.name = "offset", .get = view_offset, .doc = "Bytes from the start of memory to the first element."},
        {.name = "__array_interface__", .get = view_interface, .doc = "For NumPy and others; bfloat16 as uint16."},
        {.name = NULL},
    };
    static PyMethodDef methods[] = {
        {.ml_name = "__dlpack__",
         .ml_meth = (PyCFunction)(void (*)(void))view_dlpack,
         .ml_flags = METH_VARARGS | METH_KEYWORDS,
         .ml_doc = "__dlpack__(): the elements as a DLPack capsule, without a copy."},
        NOARGS("__dlpack_device__", view_dlpack_device, "__dlpack_device__(): host memory."),
        NOARGS("ascending", view_ascending,
               "ascending(): (view, axes): a view without negative strides, and the axes to flip."),
        {.ml_name = NULL},
    };
    static PyType_Slot slots[] = {
        SLOT(Py_tp_dealloc, view_dealloc),
        SLOT(Py_tp_repr, view_repr),
        SLOT(Py_tp_getset, attributes),
        SLOT(Py_tp_methods, methods),
        SLOT(Py_bf_getbuffer, view_getbuffer),
        SLOT(Py_bf_releasebuffer, view_releasebuffer),
        SLOT(Py_tp_doc, "An operand or the result of an engine's method. It is lent until the method returns."),
        {.slot = 0},
    };
    static PyType_Spec spec = {
        .name = "gt._gt.EngineView",
        .basicsize = sizeof(EngineView),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };
    view_type = (PyTypeObject *)PyType_FromSpec(&spec);
    for (int k = 0; view_type && k < GT_DTYPE_COUNT; k++)
        if (!(dtype_texts[k] = PyUnicode_InternFromString(gt__dtype_name((gt_dtype)k))))
            return -1;
    return view_type ? PyModule_AddObjectRef(module, "EngineView", (PyObject *)view_type) : -1;
}

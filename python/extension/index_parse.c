/*
 * index_parse.c: reads subscripts: ints, slices, None, ..., tensors, arrays and lists, alone or in a tuple. Checks
 * bounds, except those of index tensors, whose elements only the worker knows.
 */
#include "indexing.h"

#include "client/signals.h"

void gt__py_key_clear(Key *key)
{
    for (int k = 0; k < key->count; k++)
        gt_tensor_release(key->items[k].tensor);
    key->count = 0;
}

/* One element of the subscript, before its axis is known. */
typedef struct Element {
    PyObject *object;  /* borrowed: None, a slice, Ellipsis or an int; unused if there is a tensor */
    gt_tensor *tensor; /* ours */
    bool bytes;        /* a mask that was given as uint8 */
} Element;

/* The longest list that PyTorch reads as a tuple has one element less. */
enum { LIST_LIMIT = 32 };

PyObject *gt__py_key_tuple(PyObject *object)
{
    if (LIKELY(!PyList_Check(object)) || PyList_GET_SIZE(object) >= LIST_LIMIT)
        return Py_NewRef(object);
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(object); k++) {
        PyObject *item = PyList_GET_ITEM(object, k);
        if (item != Py_None && item != Py_Ellipsis && !PySlice_Check(item) && !PySequence_Check(item))
            continue;
        if (PyErr_WarnEx(
                PyExc_UserWarning,
                "Using a non-tuple sequence for multidimensional indexing is deprecated; use x[tuple(seq)] "
                "instead of x[seq]",
                1) < 0)
            return NULL;
        return PyList_AsTuple(object);
    }
    return Py_NewRef(object);
}

/* The dtype of an index: bool and int64 stay. PyTorch refuses some tensors, but converts all lists and arrays. */
static gt_err index_dtype(const gt_meta *meta, bool is_tensor, gt_dtype *dtype)
{
    *dtype = (gt_dtype)meta->dtype;
    if (*dtype == GT_BOOL || *dtype == GT_INT64)
        return GT_OK;
    bool number = meta->rank == 0 && !gt__dtype_is_inexact(*dtype);
    if (is_tensor && *dtype != GT_UINT8 && *dtype != GT_INT32 && !number)
        return gt__fail(GT_ERR_INDEX, "tensors used as indices must be long, int, byte or bool tensors, not %s",
                        gt__dtype_name(*dtype));
    *dtype = *dtype == GT_UINT8 ? GT_BOOL : GT_INT64;
    return GT_OK;
}

/* Tensors, arrays and lists become int64 or bool tensors; everything else stays. */
static int element_from(PyObject *object, gt_client *client, Element *element)
{
    *element = (Element){.object = object};
    gt_tensor *given = NULL;
    int found = 0;
    if (PyBool_Check(object)) { /* a mask without axes: a new axis of one or no elements */
        gt_err err = gt__emit_full(client, GT_BOOL, 0, NULL, GT_LITERAL_INT, (gt_imm){.i = object == Py_True},
                                   &element->tensor);
        if (err != GT_OK)
            gt__py_raise(err);
        return err == GT_OK ? 0 : -1;
    }
    if (object == Py_None || object == Py_Ellipsis || PySlice_Check(object) || PyLong_Check(object))
        return 0;
    if (gt__py_is_tensor(object)) {
        gt_tensor *used = gt__py_use(object);
        given = gt_tensor_retain(used);
        found = used ? 1 : -1;
    } else if (PyList_Check(object) || PyTuple_Check(object) || PyRange_Check(object)) {
        found = gt__py_from_sequence(object, client, false, GT_INT64, &given) < 0 ? -1 : 1;
    } else if (PyIndex_Check(object) && !PySequence_Check(object)) {
        return 0; /* NumPy integers */
    } else {
        found = gt__py_from_array(object, client, &given);
    }
    if (found == 0)
        PyErr_Format(
            PyUnicode_Check(object) ? PyExc_TypeError : PyExc_IndexError,
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
            "(got %s)",
            Py_TYPE(object)->tp_name);
    if (found != 1)
        return -1;
    gt_dtype dtype, from = (gt_dtype)given->meta.dtype;
    gt_err err = index_dtype(&given->meta, gt__py_is_tensor(object), &dtype);
    if (err == GT_OK && dtype == from) {
        element->tensor = given;
        return 0;
    }
    element->bytes = from == GT_UINT8;
    if (err == GT_OK)
        err = gt_cast(given, dtype, &element->tensor);
    bool warns = element->bytes && given->meta.rank;
    gt_tensor_release(given);
    if (err != GT_OK)
        gt__py_raise(err);
    else if (warns &&
             PyErr_WarnEx(PyExc_UserWarning,
                          "indexing with dtype gt.uint8 is now deprecated, please use a dtype gt.bool instead.",
                          1) < 0)
        return -1;
    return err == GT_OK ? 0 : -1;
}

static int element_axes(const Element *element)
{
    if (element->tensor)
        return element->tensor->meta.dtype == GT_BOOL ? element->tensor->meta.rank : 1;
    return element->object == Py_None || element->object == Py_Ellipsis ? 0 : 1;
}

static int mask_item(const gt_tensor *mask, const gt_meta *meta, int axis)
{
    for (int k = 0; k < mask->meta.rank; k++)
        if (mask->meta.shape[k] != meta->shape[axis + k]) {
            char mine[128], theirs[128];
            PyErr_Format(PyExc_IndexError,
                         "The shape of the mask %s at index %d does not match the shape of the indexed tensor "
                         "%s at index %d",
                         gt__sizes_text(mask->meta.rank, mask->meta.shape, mine, sizeof mine), k,
                         gt__sizes_text(meta->rank, meta->shape, theirs, sizeof theirs), axis + k);
            return -1;
        }
    return 0;
}

static int int_item(PyObject *object, int64_t size, int axis, Item *item)
{
    int64_t given;
    if (gt__py_int64(object, &given) < 0)
        return -1;
    if (given < -size || given >= size) {
        PyErr_Format(PyExc_IndexError, "index %lld is out of bounds for dimension %d with size %lld",
                     (long long)given, axis, (long long)size);
        return -1;
    }
    *item = (Item){.kind = ITEM_INT, .axes = 1, .start = given < 0 ? given + size : given, .step = 1, .count = 1};
    return 0;
}

static int slice_item(PyObject *object, int64_t size, Item *item)
{
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(object, &start, &stop, &step) < 0)
        return -1;
    bool whole = start == 0 && stop >= size && step == 1;
    Py_ssize_t count = PySlice_AdjustIndices((Py_ssize_t)size, &start, &stop, step);
    if (count <= 1 && (step < 0 || step > INT32_MAX)) /* with at most one element it matters only to stride() */
        step = 1;
    *item = (Item){
        .kind = ITEM_SLICE, .axes = 1, .whole = whole, .start = count ? start : 0, .step = step, .count = count};
    return 0;
}

/* Append one element's item; takes its tensor on success. */
static int add_item(Key *key, Element *element, const gt_meta *meta, int axis)
{
    Item *item = &key->items[key->count];
    int status = 0;
    if (key->count == MAX_ITEMS) {
        PyErr_SetString(PyExc_IndexError, "too many indices");
        return -1;
    }
    if (element->tensor) {
        bool is_mask = element->tensor->meta.dtype == GT_BOOL;
        *item = (Item){
            .kind = is_mask ? ITEM_MASK : ITEM_INDEX, .axes = element_axes(element), .bytes = element->bytes};
        status = is_mask ? mask_item(element->tensor, meta, axis) : 0;
        if (status == 0) {
            item->tensor = element->tensor;
            element->tensor = NULL;
            key->advanced++;
        }
    } else if (element->object == Py_None) {
        *item = (Item){.kind = ITEM_NEW, .step = 1, .count = 1};
    } else if (PySlice_Check(element->object)) {
        status = slice_item(element->object, meta->shape[axis], item);
    } else {
        status = int_item(element->object, meta->shape[axis], axis, item);
    }
    if (status == 0)
        key->count++;
    return status;
}

static int add_whole_axes(Key *key, const gt_meta *meta, int axis, int count)
{
    for (int k = 0; k < count; k++) {
        if (key->count == MAX_ITEMS) {
            PyErr_SetString(PyExc_IndexError, "too many indices");
            return -1;
        }
        key->items[key->count++] =
            (Item){.kind = ITEM_SLICE, .axes = 1, .whole = true, .step = 1, .count = meta->shape[axis + k]};
    }
    return 0;
}

/* The elements in order; an ellipsis covers all remaining axes. */
static int key_build(Element *elements, int count, const gt_meta *meta, Key *key)
{
    int named = 0, axis = 0;
    bool ellipsis = false;
    for (int k = 0; k < count; k++)
        named += element_axes(&elements[k]);
    if (named > meta->rank) {
        if (meta->rank == 0 && count == 1 && named == 1)
            PyErr_SetString(PyExc_IndexError,
                            "invalid index of a 0-dim tensor. Use `tensor.item()` to convert a 0-dim "
                            "tensor to a number");
        else
            PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", meta->rank);
        return -1;
    }
    for (int k = 0; k < count; k++) {
        if (!elements[k].tensor && elements[k].object == Py_Ellipsis) {
            if (ellipsis) {
                PyErr_SetString(PyExc_IndexError, "an index can only have a single ellipsis ('...')");
                return -1;
            }
            ellipsis = true;
            if (add_whole_axes(key, meta, axis, meta->rank - named) < 0)
                return -1;
            axis += meta->rank - named;
            continue;
        }
        int axes = element_axes(&elements[k]);
        if (add_item(key, &elements[k], meta, axis) < 0)
            return -1;
        axis += axes;
    }
    return add_whole_axes(key, meta, axis, meta->rank - axis);
}

int gt__py_key_parse(PyObject *object, gt_client *client, const gt_meta *of, Key *key)
{
    Element elements[MAX_ITEMS];
    bool is_tuple = PyTuple_Check(object);
    Py_ssize_t count = is_tuple ? PyTuple_GET_SIZE(object) : 1;
    const gt_meta meta = *of; /* conversions below may run Python code that rebinds the tensor */
    key->count = key->advanced = 0;
    if (count > MAX_ITEMS) {
        PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", meta.rank);
        return -1;
    }
    int made = 0, status = 0;
    bool inner = gt__signal_inner(true); /* tensors made of lists are not placed by a signal */
    for (; made < count && status == 0; made++)
        status = element_from(is_tuple ? PyTuple_GET_ITEM(object, made) : object, client, &elements[made]);
    gt__signal_inner(inner);
    if (status == 0)
        status = key_build(elements, made, &meta, key);
    for (int k = 0; k < made; k++)
        gt_tensor_release(elements[k].tensor); /* tensors that the key took are NULL */
    if (status < 0)
        gt__py_key_clear(key);
    return status;
}

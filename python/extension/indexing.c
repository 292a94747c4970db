/*
 * indexing.c: t[key] and t[key] = value.
 *
 * A key is a list of items: an int, a slice, None, an index tensor, or a mask, each covering some axes. Basic keys
 * are views: one slice. An index tensor becomes a take along its axis. Several are combined into one
 * index over their merged axes, which come first if they were not adjacent, as in PyTorch. A mask is converted to
 * the positions of its true elements; their number must be fetched, which is the only wait here. Assignment through
 * index tensors (index_write.c) computes the position of every element and scatters. index_parse.c reads keys.
 */
#include "indexing.h"

#include "client/signals.h"

/* ---- temporaries ----------------------------------------------------------------------------------------- */

gt_tensor *gt__index_keep(Scratch *scratch, gt_tensor *tensor)
{
    assert(scratch->count < (int)(sizeof scratch->tensors / sizeof *scratch->tensors));
    scratch->tensors[scratch->count++] = tensor;
    return tensor;
}

void gt__index_begin(Scratch *scratch, gt_tensor *a)
{
    scratch->count = 0;
    scratch->inner = gt__signal_inner(true);
    gt__index_keep(scratch, gt_tensor_retain(a));
}

void gt__index_end(Scratch *scratch)
{
    gt__signal_inner(scratch->inner);
    while (scratch->count)
        gt_tensor_release(scratch->tensors[--scratch->count]);
}

/* ---- index tensors --------------------------------------------------------------------------------------- */

gt_err gt__index_of_mask(gt_tensor *mask, Scratch *scratch, gt_tensor **out)
{
    gt_tensor *total;
    int64_t count;
    GT_TRY(gt_sum(mask, 0, false, &total));
    gt__index_keep(scratch, total);
    GT_TRY(gt_fetch(total, &count, sizeof count));
    GT_TRY(gt__emit_mask_index(mask, count, out));
    gt__index_keep(scratch, *out);
    return GT_OK;
}

gt_err gt__index_of_item(const Item *item, const gt_tensor *a, int axis, Scratch *scratch, gt_tensor **out)
{
    if (item->kind == ITEM_MASK)
        return gt__index_of_mask(item->tensor, scratch, out);
    GT_TRY(gt__emit_wrap_index(item->tensor, a->meta.shape[axis], axis, out));
    gt__index_keep(scratch, *out);
    return GT_OK;
}

gt_err gt__index_scaled(gt_tensor *a, int64_t factor, Scratch *scratch, gt_tensor **out)
{
    *out = a;
    if (factor != 1) {
        GT_TRY(gt__emit_binary_literal(GT_OP_mul, a, GT_LITERAL_INT, (gt_imm){.i = factor}, false, out));
        gt__index_keep(scratch, *out);
    }
    return GT_OK;
}

gt_err gt__index_sum(gt_tensor *a, gt_tensor *b, Scratch *scratch, gt_tensor **out)
{
    GT_TRY(gt__emit_binary(GT_OP_add, a, b, out));
    gt__index_keep(scratch, *out);
    return GT_OK;
}

gt_err gt__index_combine(gt_tensor *a, gt_tensor *b, Scratch *scratch, gt_tensor **out)
{
    gt_err err = gt__index_sum(a, b, scratch, out);
    if (err != GT_ERR_VALUE)
        return err;
    char left[128], right[128];
    return gt__fail(GT_ERR_INDEX,
                    "shape mismatch: indexing tensors could not be broadcast together with shapes %s, %s",
                    gt__sizes_text(a->meta.rank, a->meta.shape, left, sizeof left),
                    gt__sizes_text(b->meta.rank, b->meta.shape, right, sizeof right));
}

/* ---- reading --------------------------------------------------------------------------------------------- */

/* Apply the ints, slices and Nones of the key. Axes of index tensors stay whole, those of a mask are merged. */
static gt_err basic_view(gt_tensor *a, const Key *key, Scratch *scratch, gt_tensor **out, int *advanced_axes)
{
    int64_t start[GT_MAX_RANK], step[GT_MAX_RANK], count[GT_MAX_RANK], shape[2 * MAX_ITEMS];
    int axis = 0, rank = 0, advanced = 0;
    bool slices = false;
    for (int k = 0; k < key->count; k++) {
        const Item *item = &key->items[k];
        int64_t size = 1;
        for (int j = 0; j < item->axes; j++, axis++) {
            bool whole = item->kind == ITEM_INDEX || item->kind == ITEM_MASK;
            start[axis] = whole ? 0 : item->start;
            step[axis] = whole ? 1 : item->step;
            count[axis] = whole ? a->meta.shape[axis] : item->count;
            slices = slices || count[axis] != a->meta.shape[axis] || step[axis] != 1;
            size *= count[axis];
        }
        if (item->kind == ITEM_INT)
            continue;
        if (item->kind == ITEM_INDEX || item->kind == ITEM_MASK)
            advanced_axes[advanced++] = rank;
        shape[rank++] = size;
    }
    *out = a;
    if (slices) {
        GT_TRY(gt_slice(a, start, step, count, out));
        gt__index_keep(scratch, *out);
    }
    if (rank > GT_MAX_RANK)
        return gt__fail(GT_ERR_VALUE, "the result would have %d dimensions; tensors have at most %d", rank,
                        GT_MAX_RANK);
    bool same = rank == (*out)->meta.rank;
    for (int k = 0; same && k < rank; k++)
        same = shape[k] == (*out)->meta.shape[k];
    if (!same) {
        GT_TRY(gt_reshape(*out, rank, shape, out));
        gt__index_keep(scratch, *out);
    }
    return GT_OK;
}

/* Index tensors that others separate come first. Numbers, also those in 0-d tensors, separate none. */
int gt__index_place(const Key *key)
{
    int plain = 0, before = 0, number_before = -1, position = 0, first = 0, last = 0, count = 0;
    for (int k = 0; k < key->count; k++) {
        const Item *item = &key->items[k];
        bool number = item->kind == ITEM_INDEX && item->tensor->meta.rank == 0;
        if (number && number_before < 0)
            number_before = plain;
        if (number || item->kind == ITEM_INT)
            continue;
        if (item->kind == ITEM_SLICE || item->kind == ITEM_NEW) {
            plain++;
        } else {
            before = count ? before : plain;
            first = count++ ? first : position;
            last = position;
        }
        position++;
    }
    if (!count)
        return number_before;
    return last - first + 1 == count ? before : 0;
}

/* Merge the axes of several index tensors into one, `axis`. */
static gt_err merge_axes(gt_tensor *view, const int *axes, int count, int axis, Scratch *scratch, gt_tensor **out)
{
    if (axes[0] != axis || axes[count - 1] - axes[0] != count - 1) {
        int order[GT_MAX_RANK], plain = 0;
        uint32_t moved = 0;
        for (int k = 0; k < count; k++) {
            order[axis + k] = axes[k];
            moved |= 1u << axes[k];
        }
        for (int k = 0; k < view->meta.rank; k++)
            if (!(moved >> k & 1)) {
                order[plain < axis ? plain : plain + count] = k;
                plain++;
            }
        GT_TRY(gt_permute(view, order, &view));
        gt__index_keep(scratch, view);
    }
    int64_t shape[GT_MAX_RANK];
    int rank = 0;
    for (int k = 0; k < view->meta.rank; k++)
        if (k > axis && k < axis + count)
            shape[rank - 1] *= view->meta.shape[k];
        else
            shape[rank++] = view->meta.shape[k];
    GT_TRY(gt_reshape(view, rank, shape, out));
    gt__index_keep(scratch, *out);
    return GT_OK;
}

static gt_err read_key(gt_tensor *a, const Key *key, Scratch *scratch, gt_tensor **out)
{
    int axes[MAX_ITEMS], advanced = 0;
    gt_tensor *view, *index = NULL;
    GT_TRY(basic_view(a, key, scratch, &view, axes));
    for (int k = 0, axis = 0; k < key->count; axis += key->items[k++].axes) {
        const Item *item = &key->items[k];
        if (item->kind != ITEM_INDEX && item->kind != ITEM_MASK)
            continue;
        int64_t size = view->meta.shape[axes[advanced]];
        gt_tensor *positions;
        GT_TRY(gt__index_of_item(item, a, axis, scratch, &positions));
        if (advanced++) {
            GT_TRY(gt__index_scaled(index, size, scratch, &index));
            GT_TRY(gt__index_combine(index, positions, scratch, &positions));
        }
        index = positions;
    }
    if (!advanced) {
        *out = gt_tensor_retain(view);
        return GT_OK;
    }
    int axis = advanced > 1 ? gt__index_place(key) : axes[0];
    if (advanced > 1)
        GT_TRY(merge_axes(view, axes, advanced, axis, scratch, &view));
    return gt_take(view, index, axis, out);
}

int gt__index_window(const Key *key, gt_cut_arguments *window, int *axes)
{
    int axis = 0, rank = 0;
    for (int k = 0; k < key->count; k++) {
        const Item *item = &key->items[k];
        if (item->kind != ITEM_INT)
            axes[rank++] = item->axes ? axis : -1 - axis;
        if (!item->axes)
            continue;
        window->window[0][axis] = item->start;
        window->window[1][axis] = item->step;
        window->window[2][axis++] = item->count;
    }
    return rank;
}

/* The result of index tensors on a permuted tensor keeps the order of the axes that they do not take. */
static PyObject *lay_picked(PyObject *result, PyObject *self, const Key *key)
{
    gt_strides strides, taken = {.offset = 0}, index = {.offset = 0}, out;
    int axis = 0, plain = 0, before = gt__index_place(key);
    int64_t steps[2 * MAX_ITEMS];
    if (!result || !((TensorObject *)self)->alias)
        return result;
    gt__py_strides(self, &strides);
    for (int k = 0; k < key->count; axis += key->items[k++].axes) {
        const Item *item = &key->items[k];
        if (item->kind == ITEM_SLICE || item->kind == ITEM_NEW)
            steps[plain++] = item->axes ? strides.step[axis] * item->step : 0;
    }
    const gt_meta *meta = gt__py_meta(result);
    int block = meta->rank - plain;
    int64_t inner = 1;
    for (int k = meta->rank - 1; k >= 0; k--) {
        bool picked = k >= before && k < before + block;
        taken.step[k] = picked ? 0 : steps[k < before ? k : k - block];
        index.step[k] = picked || meta->shape[k] == 1 ? inner : 0;
        inner *= picked ? meta->shape[k] : 1;
    }
    gt__strides_of_result(meta, (gt_laid[]){{meta, &taken}, {meta, &index}}, 2, &out);
    return gt__py_lay(result, &out);
}

static PyObject *read_subscript(PyObject *self, PyObject *object)
{
    const gt_tensor *tensor = ((TensorObject *)self)->tensor;
    gt_client *client = tensor->client;
    gt_meta meta = tensor->meta; /* reading a key runs Python code, and a mask waits: both may rebind self */
    Key key;
    gt__py_pin(client);
    int status = gt__py_key_parse(object, client, &meta, &key);
    gt__py_unpin(client);
    if (status < 0)
        return NULL;
    if (!key.advanced) {
        gt_cut_arguments window;
        int axes[2 * MAX_ITEMS], rank = gt__index_window(&key, &window, axes);
        return gt__py_slice(self, &window, rank, axes);
    }
    gt_tensor *a = gt__py_use(self), *out = NULL;
    gt_err err = GT_OK;
    if (a) {
        Scratch scratch;
        gt__index_begin(&scratch, a);
        err = read_key(a, &key, &scratch, &out);
        gt__index_end(&scratch);
    }
    PyObject *result = a ? lay_picked(gt__py_result(err, out), self, &key) : NULL;
    gt__py_key_clear(&key);
    if (result && gt__py_watch_key(result, object) < 0)
        Py_CLEAR(result);
    return result;
}

static PyObject *tensor_subscript(PyObject *self, PyObject *object)
{
    if (LIKELY(!PyList_Check(object)))
        return read_subscript(self, object);
    PyObject *key = gt__py_key_tuple(object);
    PyObject *result = key ? read_subscript(self, key) : NULL;
    Py_XDECREF(key);
    return result;
}

/* Iteration and x[i] from C. */
static PyObject *tensor_item(PyObject *self, Py_ssize_t position)
{
    const gt_meta *meta = gt__py_meta(self);
    gt_cut_arguments window;
    int axes[GT_MAX_RANK];
    if (meta->rank == 0 || position < 0 || position >= meta->shape[0]) {
        PyErr_SetString(PyExc_IndexError, "index out of range");
        return NULL;
    }
    for (int k = 0; k < meta->rank; k++) {
        window.window[0][k] = k ? 0 : position;
        window.window[1][k] = 1;
        window.window[2][k] = k ? meta->shape[k] : 1;
        axes[k] = k + 1;
    }
    PyObject *row = gt__py_slice(self, &window, meta->rank - 1, axes);
    if (row) /* iteration is unbind() in PyTorch */
        gt__py_mark_piece(row, "UnbindBackward0", (unsigned)position);
    return row;
}

/* ---- the rest of the container protocol ------------------------------------------------------------------ */

static Py_ssize_t tensor_length(PyObject *self)
{
    const gt_meta *meta = gt__py_meta(self);
    if (meta->rank == 0) {
        PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
        return -1;
    }
    return (Py_ssize_t)meta->shape[0];
}

static int tensor_contains(PyObject *self, PyObject *element)
{
    if (!PyNumber_Check(element)) {
        PyErr_Format(PyExc_RuntimeError,
                     "Tensor.__contains__ only supports Tensor or scalar, but you passed in a %R.",
                     Py_TYPE(element));
        return -1;
    }
    PyObject *equal = PyObject_RichCompare(self, element, Py_EQ);
    PyObject *any = equal && gt__py_is_tensor(equal) ? PyObject_CallMethod(equal, "any", NULL) : NULL;
    int found = any ? PyObject_IsTrue(any) : equal ? 0 : -1;
    if (PyErr_Occurred())
        found = -1;
    Py_XDECREF(equal);
    Py_XDECREF(any);
    return found;
}

static PyObject *method_select(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"dim|axis", "index"};
    PyObject *values[2];
    int64_t given;
    int axis;
    if (gt__py_parse("select", args, nargs, kwnames, names, 2, 2, values) < 0)
        return NULL;
    if (!values[0] || !values[1])
        return PyErr_Format(PyExc_TypeError, "select() needs dim and index");
    if (gt__py_int64(values[0], &given) < 0 || gt__py_wrap_axis(given, gt__py_meta(self)->rank, &axis) < 0)
        return NULL;
    int64_t place, size = gt__py_meta(self)->rank ? gt__py_meta(self)->shape[axis] : 0;
    if (PyLong_Check(values[1]) && gt__py_int64(values[1], &place) == 0 && gt__py_meta(self)->rank &&
        (place < -size || place >= size)) {
        char text[128];
        return PyErr_Format(
            PyExc_IndexError, "select(): index %lld out of range for tensor of size %s at dimension %d",
            (long long)place, gt__sizes_text(gt__py_meta(self)->rank, gt__py_meta(self)->shape, text, sizeof text),
            axis);
    }
    PyObject *key = PyTuple_New(axis + 1);
    for (int k = 0; key && k < axis; k++) {
        PyObject *whole = PySlice_New(NULL, NULL, NULL);
        if (!whole)
            Py_CLEAR(key);
        else
            PyTuple_SET_ITEM(key, k, whole);
    }
    if (!key)
        return NULL;
    PyTuple_SET_ITEM(key, axis, Py_NewRef(values[1]));
    PyObject *result = tensor_subscript(self, key);
    Py_DECREF(key);
    return result;
}

PyMethodDef gt__py_index_methods[] = {
    FAST("select", method_select, "select(dim, index): one slice of a dimension, which goes."),
    {.ml_name = NULL},
};

const PyType_Slot gt__py_index_slots[] = {
    SLOT(Py_mp_length, tensor_length),
    SLOT(Py_mp_subscript, tensor_subscript),
    SLOT(Py_mp_ass_subscript, gt__py_ass_subscript),
    SLOT(Py_sq_length, tensor_length),
    SLOT(Py_sq_item, tensor_item),
    SLOT(Py_sq_contains, tensor_contains),
    {.slot = 0},
};

/* index_write.c: t[key] = value, copy_(), index_put_(). See indexing.c. */
#include "indexing.h"

#include "client/signals.h"

/* What is assigned: a tensor of a's dtype, or a number. */
typedef struct Value {
    gt_tensor *tensor; /* ours; NULL: the number */
    gt_literal kind;
    gt_imm number;
} Value;

/* Conversions run Python code: the caller pins the client. */
static int value_from(PyObject *object, gt_client *client, gt_dtype dtype, Value *value)
{
    *value = (Value){.tensor = NULL};
    if (gt__py_check_parts(object, dtype) < 0)
        return -1;
    int found = gt__py_operand(object, client, dtype, &value->tensor, &value->kind, &value->number);
    if (found < 0 && PyErr_ExceptionMatches(PyExc_OverflowError)) /* PyTorch's words */
        PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long");
    if (found == 0) /* a list: PyTorch refuses, NumPy does not */
        found = gt__py_from_sequence(object, client, false, GT_FLOAT32, &value->tensor) < 0 ? -1 : 1;
    if (found < 0)
        return -1;
    if (!value->tensor || value->tensor->meta.dtype == dtype)
        return 0;
    gt_tensor *given = value->tensor;
    value->tensor = NULL;
    gt_err err = gt_cast(given, dtype, &value->tensor);
    gt_tensor_release(given);
    if (err != GT_OK)
        gt__py_raise(err);
    return err == GT_OK ? 0 : -1;
}

static gt_err mismatch(const gt_meta *value, int rank, const int64_t *shape)
{
    char given[128], wanted[128];
    return gt__fail(GT_ERR_VALUE,
                    "shape mismatch: value tensor of shape %s cannot be broadcast to indexing result of shape %s",
                    gt__sizes_text(value->rank, value->shape, given, sizeof given),
                    gt__sizes_text((unsigned)rank, shape, wanted, sizeof wanted));
}

/*
 * Basic keys: one assign. The value's axes are aligned with those of t[key] and mapped to the axes of a: axes that an
 * int removed come back with size 1, and axes that None added are dropped.
 */
static gt_err assign_basic(gt_tensor *a, const Key *key, const Value *value, Scratch *scratch, PyObject *self,
                           gt_tensor **out)
{
    int64_t start[GT_MAX_RANK], step[GT_MAX_RANK], count[GT_MAX_RANK], shape[GT_MAX_RANK], result[2 * MAX_ITEMS];
    int axis = 0, rank = 0, at[2 * MAX_ITEMS];
    for (int k = 0; k < key->count; k++) {
        const Item *item = &key->items[k];
        if (item->kind != ITEM_INT) {
            at[rank] = item->axes ? axis : -1;
            result[rank++] = item->axes ? item->count : 1;
        }
        if (item->axes) {
            start[axis] = item->start;
            step[axis] = item->step;
            count[axis] = item->count;
            shape[axis++] = 1;
        }
    }
    gt_tensor *source = value->tensor;
    if (source) {
        const gt_meta *meta = &source->meta;
        for (int k = 0; k < meta->rank; k++) {
            int own = rank - meta->rank + k;
            if (meta->shape[k] != 1 && (own < 0 || meta->shape[k] != result[own]))
                return mismatch(meta, rank, result);
            if (own >= 0 && at[own] >= 0)
                shape[at[own]] = meta->shape[k];
        }
        GT_TRY(gt_reshape(source, a->meta.rank, shape, &source));
        gt__index_keep(scratch, source);
    }
    unsigned held;
    GT_TRY(gt__py_held(self, a, 1 + 3, &held));
    return gt__emit_assign(a, start, step, count, source, value->kind, value->number, held, out);
}

/* a[mask] = one value, where the key has nothing but the mask: one `where`, and no need to count. */
static gt_err assign_masked(gt_tensor *a, const Key *key, int at, const Value *value, Scratch *scratch,
                            gt_tensor **out)
{
    gt_tensor *mask = key->items[at].tensor, *scalar = value->tensor;
    int64_t shape[GT_MAX_RANK];
    int rank = mask->meta.rank, first = 0;
    for (int k = 0; k < at; k++)
        first += key->items[k].axes;
    memcpy(shape, mask->meta.shape, sizeof shape);
    while (first + rank < a->meta.rank)
        shape[rank++] = 1;
    if (!scalar && !gt__dtype_is_half((gt_dtype)a->meta.dtype))
        GT_TRY(gt__dtype_check_number((gt_dtype)a->meta.dtype, value->kind, value->number));
    GT_TRY(gt_reshape(mask, rank, shape, &mask));
    gt__index_keep(scratch, mask);
    if (scalar) {
        GT_TRY(gt_reshape(scalar, 0, NULL, &scalar));
        gt__index_keep(scratch, scalar);
    }
    gt_tensor *mixed;
    bool truth = !scalar && a->meta.dtype == GT_BOOL && value->kind == GT_LITERAL_FLOAT;
    gt_literal kind = truth ? GT_LITERAL_BOOL : value->kind;
    gt_imm number = truth ? (gt_imm){.i = value->number.f != 0} : value->number;
    GT_TRY(
        gt__emit_ternary(GT_OP_where, mask, scalar, kind, number, a, GT_LITERAL_NONE, (gt_imm){.i = 0}, &mixed));
    gt__index_keep(scratch, mixed);
    *out = gt_tensor_retain(mixed);
    if (mixed->meta.dtype == a->meta.dtype)
        return GT_OK;
    gt_tensor_release(*out); /* a float was assigned to integers */
    return gt_cast(mixed, (gt_dtype)a->meta.dtype, out);
}

/* Flat positions in the axes of a mask, as positions in memory: each axis has its own distance. */
static gt_err spread_positions(gt_tensor *flat, const int64_t *shape, const int64_t *steps, int count,
                               Scratch *scratch, gt_tensor **out)
{
    gt_tensor *sum = NULL, *part;
    int64_t inner = 1;
    for (int k = count - 1; k >= 0; inner *= shape[k--]) {
        GT_TRY(
            gt__emit_binary_literal(GT_OP_floor_divide, flat, GT_LITERAL_INT, (gt_imm){.i = inner}, false, &part));
        gt__index_keep(scratch, part);
        GT_TRY(gt__emit_binary_literal(GT_OP_remainder, part, GT_LITERAL_INT,
                                       (gt_imm){.i = shape[k] ? shape[k] : 1}, false, &part));
        gt__index_keep(scratch, part);
        GT_TRY(gt__index_scaled(part, steps[k], scratch, &part));
        if (sum)
            GT_TRY(gt__index_sum(sum, part, scratch, &part));
        sum = part;
    }
    *out = sum;
    return GT_OK;
}

/* What an index tensor or a mask adds to the positions of elements. */
static gt_err item_offsets(const Item *item, const gt_tensor *a, int axis, const gt_strides *strides,
                           Scratch *scratch, gt_tensor **out)
{
    const int64_t *shape = a->meta.shape + axis, *steps = strides->step + axis;
    bool merges = true;
    GT_TRY(gt__index_of_item(item, a, axis, scratch, out));
    if (!item->axes)
        return GT_OK; /* a mask without axes: position 0 or none */
    for (int k = 0; k + 1 < item->axes; k++)
        merges = merges && steps[k] == steps[k + 1] * shape[k + 1];
    return merges ? gt__index_scaled(*out, steps[item->axes - 1], scratch, out)
                  : spread_positions(*out, shape, steps, item->axes, scratch, out);
}

/* The flat positions of all elements of t[key], in the shape of t[key], where the elements of t lie as `memory` says. */
static gt_err key_positions(gt_tensor *a, const gt_strides *memory, const Key *key, Scratch *scratch,
                            gt_tensor **out)
{
    int64_t offset = memory->offset;

    /* The contribution of the index tensors, combined. */
    gt_tensor *block = NULL, *part;
    int axis = 0, plain = 0;
    for (int k = 0; k < key->count; axis += key->items[k++].axes) {
        const Item *item = &key->items[k];
        if (item->kind == ITEM_INT) {
            offset += item->start * memory->step[axis];
            continue;
        }
        if (item->kind == ITEM_INDEX || item->kind == ITEM_MASK) {
            GT_TRY(item_offsets(item, a, axis, memory, scratch, &part));
            if (block)
                GT_TRY(gt__index_combine(block, part, scratch, &part));
            block = part;
        } else {
            plain++;
        }
    }
    int before = gt__index_place(key); /* plain axes before the block */
    int rank = plain + block->meta.rank;
    if (rank > GT_MAX_RANK)
        return gt__fail(GT_ERR_VALUE, "the indexing result would have %d dimensions", rank);

    int64_t shape[GT_MAX_RANK];
    memcpy(shape, block->meta.shape, sizeof shape);
    for (int k = block->meta.rank; k < rank - before; k++)
        shape[k] = 1;
    int block_rank = block->meta.rank;
    GT_TRY(gt_reshape(block, rank - before, shape, &block));
    gt__index_keep(scratch, block);

    /* Each slice adds a ramp along its own axis of the result. */
    axis = 0;
    for (int k = 0, seen = 0; k < key->count; axis += key->items[k++].axes) {
        const Item *item = &key->items[k];
        if (item->kind != ITEM_SLICE && item->kind != ITEM_NEW)
            continue;
        int own = seen < before ? seen : seen + block_rank;
        int64_t stride = item->axes ? memory->step[axis] : 0, count = item->axes ? item->count : 1;
        seen++;
        gt_imm begin = {.i = item->axes ? item->start * stride : 0},
               step = {.i = item->axes ? item->step * stride : 0};
        GT_TRY(gt__emit_arange(a->client, GT_INT64, count, GT_LITERAL_INT, begin, step, &part));
        gt__index_keep(scratch, part);
        shape[0] = count;
        for (int j = 1; j < rank - own; j++)
            shape[j] = 1;
        GT_TRY(gt_reshape(part, rank - own, shape, &part));
        gt__index_keep(scratch, part);
        GT_TRY(gt__index_sum(block, part, scratch, &block));
    }
    if (offset) {
        GT_TRY(gt__emit_binary_literal(GT_OP_add, block, GT_LITERAL_INT, (gt_imm){.i = offset}, false, &block));
        gt__index_keep(scratch, block);
    }
    *out = block;
    return GT_OK;
}

/* The value as a flat tensor, one element for each position. */
static gt_err flat_source(gt_tensor *a, const Value *value, const gt_meta *positions, Scratch *scratch,
                          gt_tensor **out)
{
    int64_t flat = positions->numel;
    if (!value->tensor) {
        GT_TRY(gt__emit_full(a->client, (gt_dtype)a->meta.dtype, 1, &flat, value->kind, value->number, out));
        gt__index_keep(scratch, *out);
        return GT_OK;
    }
    gt_tensor *source = value->tensor;
    const gt_meta *meta = &source->meta;
    int extra = meta->rank > positions->rank ? meta->rank - positions->rank : 0;
    for (int k = 0; k < meta->rank; k++) {
        int own = positions->rank - meta->rank + k;
        if (meta->shape[k] != 1 && (own < 0 || meta->shape[k] != positions->shape[own]))
            return mismatch(meta, positions->rank, positions->shape);
    }
    if (extra) {
        GT_TRY(gt_reshape(source, meta->rank - extra, meta->shape + extra, &source));
        gt__index_keep(scratch, source);
    }
    GT_TRY(gt_expand(source, positions->rank, positions->shape, &source));
    gt__index_keep(scratch, source);
    GT_TRY(gt_reshape(source, 1, &flat, out));
    gt__index_keep(scratch, *out);
    return GT_OK;
}

/* The positions of t[key] and what goes there, both flat. */
static gt_err scattered_operands(gt_tensor *a, const gt_strides *memory, const Key *key, const Value *value,
                                 Scratch *scratch, gt_tensor **positions, gt_tensor **source)
{
    GT_TRY(key_positions(a, memory, key, scratch, positions));
    int64_t count = (*positions)->meta.numel;
    GT_TRY(flat_source(a, value, &(*positions)->meta, scratch, source));
    GT_TRY(gt_reshape(*positions, 1, &count, positions));
    gt__index_keep(scratch, *positions);
    return GT_OK;
}

/*
 * Scatter into the flat tensor. In place, each step consumes the result of the one before, so that the memory has one owner
 * at the scatter.
 */
static gt_err assign_scattered(gt_tensor *a, const Key *key, const Value *value, bool accumulate, Scratch *scratch,
                               PyObject *self, gt_tensor **out)
{
    gt_opcode op = accumulate ? GT_OP_scatter_add : GT_OP_scatter;
    int64_t how = accumulate ? GT_SCATTER_STEPWISE : 0; /* as in PyTorch */
    gt_tensor *positions, *source, *flat;
    gt_strides memory;
    int64_t numel = a->meta.numel;
    gt__strides_contiguous(&a->meta, &memory);
    GT_TRY(scattered_operands(a, &memory, key, value, scratch, &positions, &source));
    unsigned held;
    GT_TRY(gt__py_held(self, a, 2 + 1 + 2, &held));
    if (a->meta.rank == 1)
        return gt__emit_scatter(op, a, positions, source, 0, how, held, out);
    GT_TRY(gt__emit_reshape(a, 1, &numel, held, &flat));
    gt__index_keep(scratch, flat);
    GT_TRY(gt__emit_scatter(op, flat, positions, source, 0, how, 1, &flat));
    gt__index_keep(scratch, flat);
    return gt__emit_reshape(flat, a->meta.rank, a->meta.shape, 1, out);
}

/* The position of the mask in a key of one mask and whole axes; otherwise -1. */
static int only_mask(const gt_tensor *a, const Key *key)
{
    int found = -1, axis = 0;
    for (int k = 0; k < key->count; axis += key->items[k++].axes) {
        const Item *item = &key->items[k];
        if (item->kind == ITEM_MASK && found < 0)
            found = k;
        else if (item->kind != ITEM_SLICE || item->count != a->meta.shape[axis] || item->step != 1)
            return -1;
    }
    return found;
}

/* *out: a after a[key] = value, or += if accumulate. In place, if self is given: the object of value a, which will get *out. */
static gt_err assign_key(gt_tensor *a, const Key *key, const Value *value, bool accumulate, Scratch *scratch,
                         PyObject *self, gt_tensor **out)
{
    if (accumulate && !key->advanced)
        return gt__fail(GT_ERR_VALUE, "index_put: indices must be tensors");
    if (!key->advanced)
        return assign_basic(a, key, value, scratch, self, out);
    int mask = only_mask(a, key);
    if (!accumulate && mask >= 0 && (!value->tensor || value->tensor->meta.numel == 1))
        return assign_masked(a, key, mask, value, scratch, out);
    return assign_scattered(a, key, value, accumulate, scratch, self, out);
}

/* The value may not share memory with what is written. */
static int check_value(PyObject *self, const Key *key, PyObject *value)
{
    gt_cut_arguments window;
    gt_meta meta = *gt__py_meta(self);
    gt_strides strides;
    int axes[2 * MAX_ITEMS];
    if (LIKELY(!((TensorObject *)self)->alias))
        return 0;
    gt__py_strides(self, &strides);
    if (!key->advanced &&
        gt__py_slice_strides(self, &window, gt__index_window(key, &window, axes), axes, &meta, &strides) < 0)
        return -1;
    /* PyTorch expands a smaller value first, and fills where a mask is true; it does not see then where the value lies. */
    bool is_tensor = gt__py_is_tensor(value);
    if (is_tensor && !key->advanced && !gt__meta_same_shape(&meta, gt__py_meta(value)))
        return 0;
    if (is_tensor && key->advanced && gt__py_meta(value)->rank == 0 &&
        only_mask(&((TensorObject *)self)->alias->shell, key) >= 0)
        return 0;
    return gt__py_check_operand(self, &meta, &strides, value, !key->advanced);
}

/*
 * PyTorch's two ways to assign: one value where a single mask is true is masked_fill_(), which converts the value, but takes
 * no bytes; everything else with index tensors is index_put_(), which does not convert. Numbers have no dtype of their own.
 */
static int check_dtypes(PyObject *self, const Key *key, PyObject *value, bool accumulate, bool is_method)
{
    int indices = 0, masks = 0;
    const Item *mask = NULL;
    const gt_meta *given = gt__py_is_tensor(value) ? gt__py_meta(value) : NULL;
    for (int k = 0; key->advanced && k < key->count; k++) {
        const Item *item = &key->items[k];
        if (item->kind == ITEM_MASK && item->axes) {
            mask = item;
            masks++;
        } else if (item->kind == ITEM_MASK ||
                   (item->kind == ITEM_INDEX && (item->tensor->meta.rank || is_method))) {
            indices++; /* x[tensor(1)] is x[1], a view */
        }
    }
    bool one = given ? given->numel == 1 : PyNumber_Check(value) && !PySequence_Check(value);
    if (masks == 1 && !indices && !accumulate && one) {
        if (!mask->bytes)
            return 0;
        PyErr_SetString(PyExc_RuntimeError,
                        "masked_fill_ only supports boolean masks, but got mask with dtype unsigned char");
        return -1;
    }
    if (!given || given->dtype == gt__py_meta(self)->dtype || !(masks + indices))
        return 0;
    PyErr_Format(
        PyExc_RuntimeError,
        "Index put requires the source and destination dtypes match, got %s for the destination and %s for "
        "the source.",
        gt__dtype_kind((gt_dtype)gt__py_meta(self)->dtype), gt__dtype_kind((gt_dtype)given->dtype));
    return -1;
}

/* Whether a value broadcasts to a shape. */
static gt_err check_fits(const gt_meta *meta, const Value *value)
{
    const gt_meta *given = value->tensor ? &value->tensor->meta : NULL;
    for (int k = 0; given && k < given->rank; k++) {
        int own = meta->rank - given->rank + k;
        if (given->shape[k] != 1 && (own < 0 || given->shape[k] != meta->shape[own]))
            return mismatch(given, meta->rank, meta->shape);
    }
    return GT_OK;
}

/* self[key] = value through a view of self, which shares its memory. */
static int put_through_view(PyObject *self, const Key *key, const Value *value, PyObject *object)
{
    gt_cut_arguments window;
    gt_meta meta;
    gt_strides strides;
    gt_alias *parent = gt__py_alias(self), *view;
    int axes[2 * MAX_ITEMS], rank = gt__index_window(key, &window, axes);
    if (!parent || gt__py_slice_strides(self, &window, rank, axes, &meta, &strides) < 0)
        return -1;
    gt_err err = gt__alias_check_use(parent);
    if (err == GT_OK)
        err = gt__alias_view(parent, GT_CUT_SLICE, &window, &meta, &strides, NULL, &view);
    if (err == GT_OK) {
        err = gt__alias_check_write(view, value->tensor && value->tensor->node);
        if (err == GT_OK && gt__py_refuse_places(&meta, &strides) < 0) {
            gt__alias_release(view);
            return -1;
        }
        if (err == GT_OK)
            err = check_fits(&meta, value);
        if (err == GT_OK && gt__py_same_memory(view, &meta, &strides, object)) /* x[k] += y has written it */
            err = gt__alias_touch(view);
        else if (err == GT_OK)
            err = gt__alias_write(view, &(gt_written){value->tensor, value->kind, value->number});
        gt__alias_release(view);
    }
    if (err != GT_OK)
        gt__py_raise(err);
    return err == GT_OK ? 0 : -1;
}

/* self[key] = value with index tensors, where self is a view: scattered into the memory it shares. */
static int put_into_memory(PyObject *self, const Key *key, const Value *value, bool accumulate)
{
    gt_alias *alias = gt__alias_retain(((TensorObject *)self)->alias);
    gt_tensor *positions, *source;
    Scratch scratch;
    gt__index_begin(&scratch, NULL);
    gt_err err = gt__alias_check_write(alias, value->tensor && value->tensor->node);
    if (err == GT_OK)
        err = scattered_operands(&alias->shell, &alias->strides, key, value, &scratch, &positions, &source);
    if (err == GT_OK)
        err = gt__alias_scatter(alias, accumulate ? GT_OP_scatter_add : GT_OP_scatter, positions, source);
    gt__index_end(&scratch);
    gt__alias_release(alias);
    if (err != GT_OK)
        gt__py_raise(err);
    return err == GT_OK ? 0 : -1;
}

/* Whether put_into_memory is the way: a mask with one value is cheaper as a whole, unless elements share places. */
static bool goes_into_memory(PyObject *self, const Key *key, const Value *value)
{
    const gt_alias *alias = ((TensorObject *)self)->alias;
    if (!alias || !alias->parent || !key->advanced ||
        !gt__alias_can_scatter(alias, value->tensor && value->tensor->node))
        return false;
    if (gt__strides_overlap(&alias->shell.meta, &alias->strides))
        return true;
    return only_mask(&alias->shell, key) < 0 || (value->tensor && value->tensor->meta.numel != 1);
}

/* Read key and value. Both may run Python code; the tensor must have the same shape after it. */
static int parse_put(PyObject *self, PyObject *key_object, PyObject *value_object, Key *key, Value *value)
{
    gt_client *client = ((TensorObject *)self)->tensor->client;
    gt_meta meta = *gt__py_meta(self);
    gt__py_pin(client);
    int status = gt__py_enter(client) < 0 ? -1 : gt__py_key_parse(key_object, client, &meta, key);
    if (status == 0 && value_from(value_object, client, (gt_dtype)meta.dtype, value) < 0) {
        gt__py_key_clear(key);
        status = -1;
    }
    gt__py_unpin(client);
    if (status == 0 && !gt__meta_same_shape(&meta, gt__py_meta(self))) {
        PyErr_SetString(PyExc_RuntimeError, "the tensor got another shape while its subscript was read");
        gt_tensor_release(value->tensor);
        gt__py_key_clear(key);
        status = -1;
    }
    return status;
}

/* Make the whole value of self with [key] = value; in place self gets it. */
static int put_value(PyObject *self, const Key *key, const Value *value, bool accumulate, bool in_place,
                     gt_tensor **out)
{
    gt_tensor *a = gt__py_use(self);
    if (!a)
        return -1;
    if (in_place && !key->advanced && a->node && a->node->op == GT_OP_INVALID && gt__grad_enabled()) {
        PyErr_SetString(PyExc_RuntimeError,
                        "a view of a leaf Variable that requires grad is being used in an in-place operation.");
        return -1;
    }
    const gt_alias *alias = ((TensorObject *)self)->alias;
    bool view = alias && alias->parent;
    Scratch scratch;
    gt__index_begin(&scratch, a); /* its reference is one of the two that gt__py_held counts */
    gt_err err = assign_key(a, key, value, accumulate, &scratch, in_place ? self : NULL, out);
    if (err == GT_OK && in_place && !key->advanced && (*out)->node)
        (*out)->node->keeps_values = true; /* PyTorch's CopySlices */
    if (view)
        gt__index_end(&scratch); /* a cut of the memory would keep the worker from writing into it */
    if (err != GT_OK)
        gt__py_raise(err);
    int status = err != GT_OK ? -1 : in_place ? gt__py_rebind(self, *out) : 0;
    if (!view)
        gt__index_end(&scratch); /* last: releasing may run Python code, which may use self */
    return status;
}

/* All elements of a tensor without an alias, or of a root: one assignment. */
static gt_err assign_all(PyObject *self, gt_tensor *a, const Value *value, gt_tensor **out)
{
    int64_t start[GT_MAX_RANK] = {0}, step[GT_MAX_RANK];
    gt_tensor *source = value->tensor, *fitted = NULL;
    unsigned held;
    for (int k = 0; k < GT_MAX_RANK; k++)
        step[k] = 1;
    if (source && source->meta.rank > a->meta.rank) /* leading sizes of 1 */
        GT_TRY(gt_reshape(source, a->meta.rank, source->meta.shape + (source->meta.rank - a->meta.rank), &fitted));
    gt_err err = gt__py_held(self, a, 1 + 3, &held);
    if (err == GT_OK)
        err = gt__emit_assign(a, start, step, a->meta.shape, fitted ? fitted : source, value->kind, value->number,
                              held, out);
    gt_tensor_release(fitted);
    return err;
}

/* Write the value to all elements of self. */
static int write_value(PyObject *self, const Value *value)
{
    gt_tensor *a = NULL, *out;
    int status = gt__py_check_write(self, value->tensor && value->tensor->node);
    gt_err err = status == 0 ? check_fits(gt__py_meta(self), value) : GT_OK;
    const gt_alias *alias = ((TensorObject *)self)->alias;
    if (status == 0 && err == GT_OK && alias && alias->parent) {
        status = gt__py_write(self, &(gt_written){value->tensor, value->kind, value->number});
    } else if (status == 0 && err == GT_OK) {
        a = gt__py_hold(self);
        status = a ? 0 : -1;
        if (a && (err = assign_all(self, a, value, &out)) == GT_OK)
            status = gt__py_rebind(self, out);
    }
    if (err != GT_OK)
        gt__py_raise(err);
    gt_tensor_release(a);
    return err == GT_OK ? status : -1;
}

/* x[:, ...] */
static bool is_whole(PyObject *self, const Key *key)
{
    bool whole = key->count == gt__py_meta(self)->rank;
    for (int k = 0; whole && k < key->count; k++)
        whole = key->items[k].whole;
    return whole;
}

/*
 * self[key] = value, or += if accumulate. In place self gets the result, otherwise *out is a new tensor. A method takes 0-d
 * tensors as indices; in a subscript they are numbers.
 */
static int put(PyObject *self, PyObject *key_object, PyObject *value_object, bool accumulate, bool in_place,
               bool is_method, gt_tensor **out)
{
    Key key;
    Value value;
    if (parse_put(self, key_object, value_object, &key, &value) < 0)
        return -1;
    int status = in_place && key.advanced ? gt__py_check_operands(self, NULL, 0) : 0;
    if (status == 0 && key_object != Py_True) /* x[True] is x[None], a view */
        status = check_dtypes(self, &key, value_object, accumulate, is_method);
    if (status == 0 && in_place)
        status = gt__py_check_inference(self) < 0 ? -1 : check_value(self, &key, value_object);
    const gt_alias *alias = ((TensorObject *)self)->alias;
    if (status == 0 && in_place && is_whole(self, &key)) /* self itself, not a view of it */
        status = gt__py_refuse_overlap(self) < 0 ? -1 : write_value(self, &value);
    else if (status == 0 && in_place && !key.advanced && alias)
        status = put_through_view(self, &key, &value, value_object);
    else if (status == 0 && in_place && goes_into_memory(self, &key, &value))
        status = put_into_memory(self, &key, &value, accumulate);
    else if (status == 0)
        status = put_value(self, &key, &value, accumulate, in_place, out);
    gt_tensor_release(value.tensor);
    gt__py_key_clear(&key);
    return status;
}

/* A value of the dtype of self. */
static int read_value(PyObject *self, PyObject *object, Value *value)
{
    gt_client *client = ((TensorObject *)self)->tensor->client;
    *value = (Value){.tensor = NULL};
    gt__py_pin(client);
    int status = gt__py_enter(client);
    if (status == 0)
        status = value_from(object, client, (gt_dtype)gt__py_meta(self)->dtype, value);
    gt__py_unpin(client);
    return status;
}

static int write_all(PyObject *self, PyObject *object)
{
    Value value;
    int status = read_value(self, object, &value);
    if (status == 0)
        status = write_value(self, &value);
    gt_tensor_release(value.tensor);
    return status;
}

/* x[False] = value: PyTorch reads the value, but does not look at its shape. */
static int write_nothing(PyObject *self, PyObject *object)
{
    Value value;
    int status = read_value(self, object, &value);
    gt_tensor_release(value.tensor);
    return status;
}

/* self._fill(number or tensor of one element): also of an expanded tensor. */
static PyObject *method_fill(PyObject *self, PyObject *value)
{
    if (gt__dtype_is_half((gt_dtype)gt__py_meta(self)->dtype) && !gt__py_is_tensor(value) &&
        !PyComplex_Check(value) && gt__py_check_number(value, (gt_dtype)gt__py_meta(self)->dtype) < 0)
        return NULL; /* the others are checked when the number is assigned */
    return write_all(self, value) < 0 ? NULL : Py_NewRef(self);
}

/* x.copy_(x) of a tensor without an alias: nothing changes but its version. */
static PyObject *copy_to_itself(PyObject *self)
{
    gt_tensor *a = gt__py_use(self), *same;
    if (!a || gt__py_check_write(self, false) < 0)
        return NULL;
    gt_err err = gt__tensor_alias(a, a->node, &same);
    if (err != GT_OK)
        return gt__py_raise(err);
    return gt__py_rebind(self, same) < 0 ? NULL : Py_NewRef(self);
}

static PyObject *method_copy_(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"src|other", "non_blocking"};
    PyObject *values[2];
    if (gt__py_parse("copy_", args, nargs, kwnames, names, 2, 2, values) < 0)
        return NULL;
    if (!values[0])
        return PyErr_Format(PyExc_TypeError, "copy_() missing required argument 'src'");
    gt_alias *alias = ((TensorObject *)self)->alias;
    if (values[0] == self && !alias)
        return copy_to_itself(self);
    if (alias && gt__py_same_memory(alias, &alias->shell.meta, &alias->strides, values[0])) {
        if (gt__py_check_write(self, gt__py_requires_grad(values[0])) < 0)
            return NULL;
        gt_err err = gt__alias_check_use(((TensorObject *)values[0])->alias);
        if (err == GT_OK)
            err = gt__alias_touch(alias);
        return err == GT_OK ? Py_NewRef(self) : gt__py_raise(err);
    }
    if (gt__py_check_operands(self, values, 1) < 0 || gt__py_refuse_overlap(self) < 0)
        return NULL;
    return write_all(self, values[0]) < 0 ? NULL : Py_NewRef(self);
}

/* x[:] */
static bool is_all(PyObject *self, PyObject *key)
{
    const gt_meta *meta = gt__py_meta(self);
    Py_ssize_t start, stop, step;
    if (!PySlice_Check(key) || !meta->rank || ((PySliceObject *)key)->step != Py_None)
        return false;
    if (PySlice_Unpack(key, &start, &stop, &step) < 0) {
        PyErr_Clear(); /* the key is read again, and raises it */
        return false;
    }
    return start == 0 && stop >= meta->shape[0];
}

int gt__py_ass_subscript(PyObject *self, PyObject *key, PyObject *value)
{
    if (!value) {
        PyErr_SetString(PyExc_TypeError, "elements of a tensor cannot be deleted");
        return -1;
    }
    if (key == Py_Ellipsis || is_all(self, key)) /* self itself, not a view of it */
        return gt__py_check_write(self, false) < 0 || gt__py_refuse_overlap(self) < 0 ? -1
                                                                                      : write_all(self, value);
    if (key == Py_False)
        return write_nothing(self, value);
    gt_tensor *out;
    PyObject *tuple = gt__py_key_tuple(key);
    int status =
        !tuple || put(self, tuple, value, false, true, false, &out) < 0 ? -1 : gt__py_watch_key(self, tuple);
    Py_XDECREF(tuple);
    return status;
}

static PyObject *index_put(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames, bool in_place)
{
    static const char *const names[] = {"indices", "values", "accumulate"};
    PyObject *values[3];
    bool accumulate = false;
    gt_tensor *out;
    if (gt__py_parse("index_put", args, nargs, kwnames, names, 3, 3, values) < 0 ||
        gt__py_flag(values[2], &accumulate) < 0)
        return NULL;
    if (!values[0] || !values[1])
        return PyErr_Format(PyExc_TypeError, "index_put() needs indices and values");
    if (put(self, values[0], values[1], accumulate, in_place, true, &out) < 0)
        return NULL;
    PyObject *result = in_place ? Py_NewRef(self) : gt__py_wrap(out);
    if (result && gt__py_watch_key(result, values[0]) < 0)
        Py_CLEAR(result);
    return result;
}

/* self._index_put(key, value, accumulate): a copy with [key] = value, or +=, where repeated indices add up. */
static PyObject *method_index_put(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    return index_put(self, args, nargs, kwnames, false);
}

static PyObject *method_index_put_inplace(PyObject *self, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    return index_put(self, args, nargs, kwnames, true);
}

static PyObject *method_overlaps(PyObject *self, PyObject *unused)
{
    (void)unused;
    gt_strides strides;
    gt__py_strides(self, &strides);
    return PyBool_FromLong(gt__strides_overlap(gt__py_meta(self), &strides));
}

/* Flat positions of a mask's true elements; waits for their number. */
static PyObject *method_positions(PyObject *self, PyObject *unused)
{
    (void)unused;
    gt_tensor *mask = gt__py_use(self), *out = NULL;
    if (!mask)
        return NULL;
    Scratch scratch;
    gt__index_begin(&scratch, mask);
    gt_err err = mask->meta.dtype == GT_BOOL ? gt__index_of_mask(mask, &scratch, &out)
                                             : gt__fail(GT_ERR_TYPE, "a mask must be a bool tensor");
    if (err == GT_OK)
        gt_tensor_retain(out);
    gt__index_end(&scratch);
    return gt__py_result(err, out);
}

PyMethodDef gt__py_index_write_methods[] = {
    {.ml_name = "_fill", .ml_meth = method_fill, .ml_flags = METH_O, .ml_doc = "_fill(value): all elements."},
    FAST("copy_", method_copy_,
         "copy_(src, non_blocking=False): copy the elements of src, broadcast and converted."),
    FAST("_index_put", method_index_put, "_index_put(indices, values, accumulate=False)."),
    FAST("_index_put_", method_index_put_inplace, "_index_put_(indices, values, accumulate=False): in place."),
    NOARGS("_overlaps", method_overlaps, "_overlaps(): whether it is expanded, so that elements share memory."),
    NOARGS("_positions", method_positions, "_positions(): where in the flat tensor a mask is True."),
    {.ml_name = NULL},
};

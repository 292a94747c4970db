/*
 * storage_memory.c: the elements of a storage in the order of memory. See storage.h.
 *
 * The value of a storage has the shape of its root, and its elements may lie in memory in another order. Some aliases are known
 * only by where their elements lie: elements of another type (the real numbers of complex ones), or those of a part of the
 * memory that has a node of its own. For these the value becomes flat, in the order of memory, in the type of the alias.
 */
#include "client/storage.h"

/* The axes of the root as they lie in memory, the outermost first. */
static void memory_axes(const gt_alias *root, int *order)
{
    const int64_t *step = root->strides.step;
    for (int axis = 0; axis < root->shell.meta.rank; axis++) {
        int place = axis;
        while (place && step[order[place - 1]] < step[axis]) {
            order[place] = order[place - 1];
            place--;
        }
        order[place] = axis;
    }
}

/* Real numbers in rows of two; the last one of an odd count is in none. */
static gt_err in_pairs(gt_tensor *flat, gt_tensor **out)
{
    int64_t count = flat->meta.numel / 2;
    gt_tensor *even = NULL;
    if (flat->meta.numel % 2)
        GT_TRY(gt_slice(flat, &(int64_t){0}, &(int64_t){1}, &(int64_t){2 * count}, &even));
    gt_err err = gt_reshape(even ? even : flat, 2, (int64_t[]){count, 2}, out);
    gt_tensor_release(even);
    return err;
}

gt_err gt__memory_as(gt_tensor *flat, gt_dtype dtype, gt_tensor **out)
{
    gt_tensor *pairs;
    if ((gt_dtype)flat->meta.dtype == dtype) {
        *out = gt_tensor_retain(flat);
        return GT_OK;
    }
    bool to_complex = gt__dtype_is_complex(dtype);
    GT_TRY(to_complex ? in_pairs(flat, &pairs) : gt_view_as_real(flat, &pairs));
    gt_err err =
        to_complex ? gt_view_as_complex(pairs, out) : gt_reshape(pairs, 1, (int64_t[]){pairs->meta.numel}, out);
    gt_tensor_release(pairs);
    return err;
}

/* *pairs, the caller's, has all real numbers of `flat` but the last: that is added. */
static gt_err add_last(gt_tensor *flat, gt_tensor **pairs)
{
    gt_tensor *parts[] = {*pairs, NULL}, *all = NULL;
    gt_err err = gt_slice(flat, &(int64_t){flat->meta.numel - 1}, &(int64_t){1}, &(int64_t){1}, &parts[1]);
    if (err == GT_OK)
        err = gt_cat(parts, 2, 0, &all);
    gt_tensor_release(parts[1]);
    gt__replace(pairs, err == GT_OK ? all : NULL);
    return err;
}

gt_err gt__memory_replace(gt_tensor *flat, const gt_meta *view, const gt_strides *strides,
                          const gt_written *written, gt_tensor **out)
{
    gt_tensor *typed, *next;
    GT_TRY(gt__memory_as(flat, (gt_dtype)view->dtype, &typed));
    gt_err err = gt__memory_assign(typed, view, strides, written, &next);
    gt_tensor_release(typed);
    GT_TRY(err);
    err = gt__memory_as(next, (gt_dtype)flat->meta.dtype, out);
    gt_tensor_release(next);
    return err == GT_OK && (*out)->meta.numel != flat->meta.numel ? add_last(flat, out) : err;
}

gt_err gt__memory_flat(const gt_storage *storage, gt_tensor *value, gt_dtype dtype, gt_tensor **out)
{
    int order[GT_MAX_RANK];
    gt_tensor *permuted = NULL, *flat;
    if (storage->permuted) {
        memory_axes(&storage->root, order);
        GT_TRY(gt_permute(value, order, &permuted));
    }
    gt_err err = gt_reshape(permuted ? permuted : value, 1, &value->meta.numel, &flat);
    gt_tensor_release(permuted);
    GT_TRY(err);
    err = gt__memory_as(flat, dtype, out);
    gt_tensor_release(flat);
    return err;
}

gt_err gt__memory_value(const gt_storage *storage, gt_tensor *flat, gt_tensor **out)
{
    const gt_meta *meta = &storage->root.shell.meta;
    int64_t shape[GT_MAX_RANK];
    int order[GT_MAX_RANK], back[GT_MAX_RANK];
    gt_tensor *shaped;
    memory_axes(&storage->root, order);
    for (int axis = 0; axis < meta->rank; axis++) {
        int from = storage->permuted ? order[axis] : axis;
        shape[axis] = meta->shape[from];
        back[from] = axis;
    }
    gt_err err = gt_reshape(flat, meta->rank, shape, &shaped);
    if (err != GT_OK || !storage->permuted) {
        *out = err == GT_OK ? shaped : NULL;
        return err;
    }
    err = gt_permute(shaped, back, out);
    gt_tensor_release(shaped);
    return err;
}

gt_err gt__memory_with(const gt_alias *part, gt_tensor *own, gt_dtype dtype, gt_tensor **out)
{
    const gt_storage *storage = part->storage;
    gt_tensor *plain, *flat, *mixed;
    GT_TRY(gt__tensor_detach(storage->root.cut, &plain));
    gt_err err = gt__memory_flat(storage, plain, (gt_dtype)storage->root.shell.meta.dtype, &flat);
    gt_tensor_release(plain);
    GT_TRY(err);
    err = gt__memory_replace(flat, &part->shell.meta, &part->strides, &(gt_written){.tensor = own}, &mixed);
    gt_tensor_release(flat);
    GT_TRY(err);
    err = gt__memory_as(mixed, dtype, out);
    gt_tensor_release(mixed);
    return err;
}

gt_err gt__memory_take(gt_tensor *flat, const gt_meta *meta, const gt_strides *strides, gt_tensor **out)
{
    gt_storage usual = {.root = {.shell = {.client = flat->client}}};
    gt_tensor *positions, *taken;
    GT_TRY(gt__emit_positions(&usual, meta, strides, &positions));
    gt_err err = gt_take(flat, positions, 0, &taken);
    gt_tensor_release(positions);
    GT_TRY(err);
    err = gt_reshape(taken, meta->rank, meta->shape, out);
    gt_tensor_release(taken);
    return err;
}

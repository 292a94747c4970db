/* indexing.h: a parsed subscript. index_parse.c makes it, indexing.c and index_write.c apply it. */
#ifndef GT_PYTHON_INDEXING_H
#define GT_PYTHON_INDEXING_H

#include "alias.h"

#include <string.h>

/* The most items of a key: one for each axis, and as many Nones. */
enum { MAX_ITEMS = 2 * GT_MAX_RANK };

typedef enum ItemKind { ITEM_INT, ITEM_SLICE, ITEM_NEW, ITEM_INDEX, ITEM_MASK } ItemKind;

typedef struct Item {
    ItemKind kind;
    int axes;   /* axes of the tensor that it covers: 0 for NEW, the mask's rank for MASK, otherwise 1 */
    bool whole; /* SLICE: x[:], which PyTorch does not take */
    bool bytes; /* MASK: given as uint8 */
    int64_t start, step, count; /* INT (count 1) and SLICE */
    gt_tensor *tensor;          /* INDEX: int64; MASK: bool; ours */
} Item;

typedef struct Key {
    Item items[MAX_ITEMS];
    int count;
    int advanced; /* items that are INDEX or MASK */
} Key;

/* A new reference: the tuple that a list of tensors, lists, slices, None or ... stands for; otherwise the object itself. */
PyObject *gt__py_key_tuple(PyObject *object);
/* The items cover every axis of a tensor with this metadata. Clear the key after success only. */
int gt__py_key_parse(PyObject *object, gt_client *client, const gt_meta *of, Key *key);
void gt__py_key_clear(Key *key);

/* ---- between indexing.c and index_write.c ---------------------------------------------------------------- */

/* Intermediate tensors, released together at the end. */
typedef struct Scratch {
    gt_tensor *tensors[128];
    int count;
    bool inner; /* the previous setting: tensors made here are not placed by a signal */
} Scratch;

gt_tensor *gt__index_keep(Scratch *scratch, gt_tensor *tensor);
void gt__index_begin(Scratch *scratch, gt_tensor *a);
void gt__index_end(Scratch *scratch);
/* Flat positions of a mask's true elements. */
gt_err gt__index_of_mask(gt_tensor *mask, Scratch *scratch, gt_tensor **out);
/* The item's index, non-negative: into axis `axis` of `a`, or into the merged axes of a mask. */
gt_err gt__index_of_item(const Item *item, const gt_tensor *a, int axis, Scratch *scratch, gt_tensor **out);
gt_err gt__index_scaled(gt_tensor *a, int64_t factor, Scratch *scratch, gt_tensor **out);
gt_err gt__index_sum(gt_tensor *a, gt_tensor *b, Scratch *scratch, gt_tensor **out);
/* Index tensors of different axes broadcast. */
gt_err gt__index_combine(gt_tensor *a, gt_tensor *b, Scratch *scratch, gt_tensor **out);
/* How many axes of slices and Nones come before those of the index tensors in t[key]. */
int gt__index_place(const Key *key);
/* The window of a key without index tensors, and the axes of the result: -1 - k for a new one before axis k. Returns how many. */
int gt__index_window(const Key *key, gt_cut_arguments *window, int *axes);
int gt__py_ass_subscript(PyObject *self, PyObject *key, PyObject *value);

#endif

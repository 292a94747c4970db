/* indexing.h: a parsed subscript. index_parse.c makes it, indexing.c applies it. */
#ifndef GT_PYTHON_INDEXING_H
#define GT_PYTHON_INDEXING_H

#include "alias.h"

#include <string.h>

/* The most items of a key: one for each axis, and as many Nones. */
enum { MAX_ITEMS = 2 * GT_MAX_RANK };

typedef enum ItemKind { ITEM_INT, ITEM_SLICE, ITEM_NEW, ITEM_INDEX, ITEM_MASK } ItemKind;

typedef struct Item {
    ItemKind kind;
    int axes; /* axes of the tensor that it covers: 0 for NEW, the mask's rank for MASK, otherwise 1 */
    int64_t start, step, count; /* INT (count 1) and SLICE */
    gt_tensor *tensor;          /* INDEX: int64; MASK: bool; ours */
} Item;

typedef struct Key {
    Item items[MAX_ITEMS];
    int count;
    int advanced; /* items that are INDEX or MASK */
} Key;

/* The items cover every axis of a tensor with this metadata. Clear the key after success only. */
int gt__py_key_parse(PyObject *object, gt_client *client, const gt_meta *of, Key *key);
void gt__py_key_clear(Key *key);

#endif

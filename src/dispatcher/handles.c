/* handles.c: see handles.h. Deletion shifts entries back, so there are no tombstones. */
#include "dispatcher/handles.h"

#include <stdlib.h>
#include <string.h>

#include "dispatcher/quota.h"

enum { FIRST_BITS = 5, FIRST_HANDLES = 16 };

gt_err gt__handles_init(gt_handles *table)
{
    *table = (gt_handles){.bits = FIRST_BITS, .first_free = GT_NO_HANDLE};
    table->refs = calloc((size_t)1 << FIRST_BITS, sizeof *table->refs);
    return table->refs ? GT_OK : gt__fail(GT_ERR_MEMORY, "out of memory");
}

void gt__handles_free(gt_handles *table)
{
    free(table->refs);
    free(table->handles);
    *table = (gt_handles){0};
}

static void place_ref(gt_handles *table, gt_handle_ref ref)
{
    uint32_t mask = (1u << table->bits) - 1, position = gt__handles_hash(table, ref.id);
    while (table->refs[position].id)
        position = (position + 1) & mask;
    table->refs[position] = ref;
}

static gt_err grow_index(gt_handles *table)
{
    gt_handle_ref *old = table->refs;
    size_t old_size = (size_t)1 << table->bits;
    gt_handle_ref *refs = table->bits < 31 ? calloc(old_size * 2, sizeof *refs) : NULL;
    if (!refs)
        return gt__fail(GT_ERR_MEMORY, "too many tensors");
    table->refs = refs;
    table->bits++;
    for (size_t position = 0; position < old_size; position++)
        if (old[position].id)
            place_ref(table, old[position]);
    free(old);
    return GT_OK;
}

static gt_err grow_handles(gt_handles *table)
{
    uint32_t capacity = table->capacity ? table->capacity * 2 : FIRST_HANDLES;
    gt_handle *handles = realloc(table->handles, capacity * sizeof *handles);
    if (!handles)
        return gt__fail(GT_ERR_MEMORY, "too many tensors");
    table->handles = handles;
    table->capacity = capacity;
    return GT_OK;
}

gt_err gt__handles_insert(gt_handles *table, uint64_t id, gt_handle **handle)
{
    if (table->count >= 1u << (table->bits - 1))
        GT_TRY(grow_index(table));
    uint32_t mask = (1u << table->bits) - 1, position = gt__handles_hash(table, id);
    while (table->refs[position].id && table->refs[position].id != id)
        position = (position + 1) & mask;
    if (table->refs[position].id || id == 0)
        return gt__fail(GT_ERR_PROTOCOL, "tensor id %llu is not a new one", (unsigned long long)id);
    uint32_t index = table->first_free;
    if (index != GT_NO_HANDLE)
        table->first_free = table->handles[index].slot;
    else {
        if (table->used == table->capacity)
            GT_TRY(grow_handles(table));
        index = table->used++;
    }
    table->refs[position] = (gt_handle_ref){.id = id, .index = index};
    table->count++;
    *handle = &table->handles[index];
    (*handle)->id = id;
    return GT_OK;
}

bool gt__handles_remove(gt_handles *table, uint64_t id, int32_t *worker, uint32_t *slot)
{
    uint32_t mask = (1u << table->bits) - 1, hole = gt__handles_hash(table, id);
    while (table->refs[hole].id != id) {
        if (!table->refs[hole].id)
            return false;
        hole = (hole + 1) & mask;
    }
    if (id == 0)
        return false;
    uint32_t index = table->refs[hole].index;
    gt_handle *handle = &table->handles[index];
    *worker = handle->worker;
    *slot = handle->slot;
    if (__builtin_expect(table->quota != NULL, 0))
        gt__quota_drop(table->quota, index);
    handle->id = 0;
    handle->slot = table->first_free;
    table->first_free = index;
    table->count--;
    /* Move later entries of the same run into the hole where their probe sequence allows it. */
    for (uint32_t position = (hole + 1) & mask; table->refs[position].id; position = (position + 1) & mask) {
        uint32_t home = gt__handles_hash(table, table->refs[position].id);
        if (((position - home) & mask) >= ((position - hole) & mask)) {
            table->refs[hole] = table->refs[position];
            hole = position;
        }
    }
    table->refs[hole].id = 0;
    return true;
}

gt_handle *gt__handles_pop(gt_handles *table)
{
    while (table->used) {
        gt_handle *handle = &table->handles[--table->used];
        if (handle->id)
            return handle;
    }
    return NULL;
}

void gt__handles_shrink(gt_handles *table)
{
    size_t used = (size_t)table->used + 1; /* not 0 */
    void *handles = realloc(table->handles, used * sizeof *table->handles);
    void *refs = 2 * used < (size_t)1 << table->bits ? realloc(table->refs, 2 * used * sizeof *table->refs) : NULL;
    table->handles = handles ? handles : table->handles;
    table->refs = refs ? refs : table->refs;
}

gt_handle *gt__handles_next(gt_handles *table, uint32_t *cursor)
{
    while (*cursor < table->used) {
        gt_handle *handle = &table->handles[(*cursor)++];
        if (handle->id)
            return handle;
    }
    return NULL;
}

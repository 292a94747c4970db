/*
 * handles.h: a session's tensors: a table from the client's 64-bit ids to shape, dtype and place.
 *
 * An open-addressing index of 16-byte entries over a dense array of handles. Ids grow by one, so a multiplicative hash
 * spreads them evenly; live handles stay few and warm.
 */
#ifndef GT_DISPATCHER_HANDLES_H
#define GT_DISPATCHER_HANDLES_H

#include "core/op.h"

typedef struct gt_handle {
    uint64_t id;
    uint32_t slot;  /* on the worker; next free handle while unused */
    int32_t worker; /* index in the dispatcher's worker table; GT_NO_WORKER: lost with the worker that had it */
    uint32_t scope, site; /* of the instruction that made it */
    gt_meta meta;
} gt_handle;

enum { GT_NO_WORKER = -1, GT_SPREAD = -2 /* over several: spread.h */ };
#define GT_NO_HANDLE UINT32_MAX /* ends the list of free handles */

typedef struct gt_handle_ref {
    uint64_t id; /* 0: empty */
    uint32_t index;
} gt_handle_ref;

typedef struct gt_quota gt_quota;

typedef struct gt_handles {
    gt_handle_ref *refs; /* capacity is a power of two, at most half full */
    unsigned bits;
    uint64_t salt; /* so that a client cannot choose ids that collide; set while the table is empty */
    gt_handle *handles;
    uint32_t capacity, used, first_free;
    uint32_t count;
    gt_quota *quota; /* is told of handles that are removed; NULL: they are not counted */
} gt_handles;

gt_err gt__handles_init(gt_handles *table);
void gt__handles_free(gt_handles *table);

static inline uint32_t gt__handles_hash(const gt_handles *table, uint64_t id)
{
    return (uint32_t)((id ^ table->salt) * 0x9E3779B97F4A7C15u >> (64 - table->bits));
}

/* NULL: there is no such id. Valid until the next insert. */
static inline gt_handle *gt__handles_find(const gt_handles *table, uint64_t id)
{
    uint32_t mask = (1u << table->bits) - 1, position = gt__handles_hash(table, id);
    while (table->refs[position].id != id) {
        if (!table->refs[position].id)
            return NULL;
        position = (position + 1) & mask;
    }
    return id ? &table->handles[table->refs[position].index] : NULL;
}

/* A new handle for a new id, not 0; the caller fills in the rest. */
gt_err gt__handles_insert(gt_handles *table, uint64_t id, gt_handle **handle);

/* The same if that allocates nothing and moves no handle; NULL otherwise, and for an id that is already there. */
static inline gt_handle *gt__handles_insert_now(gt_handles *table, uint64_t id)
{
    uint32_t mask = (1u << table->bits) - 1, position = gt__handles_hash(table, id), index = table->first_free;
    if (table->count > mask / 2 || index == GT_NO_HANDLE || !id)
        return NULL;
    while (table->refs[position].id) {
        if (table->refs[position].id == id)
            return NULL;
        position = (position + 1) & mask;
    }
    gt_handle *handle = &table->handles[index];
    table->first_free = handle->slot;
    table->refs[position] = (gt_handle_ref){.id = id, .index = index};
    table->count++;
    handle->id = id;
    return handle;
}

/* Remove an id and return where its tensor was; false: there is no such id. */
bool gt__handles_remove(gt_handles *table, uint64_t id, int32_t *worker, uint32_t *slot);

/* Walk all: *cursor starts at 0; NULL at the end. Those that it has passed may be removed meanwhile. No inserts. */
gt_handle *gt__handles_next(gt_handles *table, uint32_t *cursor);

/* To take a table apart, from its end: no id is found in it any more. Its last handle leaves it, and is there until the next
 * gt__handles_shrink; NULL: there are no more. */
gt_handle *gt__handles_pop(gt_handles *table);
/* Give back the memory of those that left. At the end, all at once, that of a large table takes long. */
void gt__handles_shrink(gt_handles *table);

#endif

/*
 * store.h: the worker's tensors, by slot number, and the pool their memory comes from.
 *
 * A tensor is a view on a reference-counted buffer, or poison: the first failure that led to it. Buffers are recycled by
 * size class, because fresh pages cost several times what computing on them costs.
 *
 * A buffer remembers the session that used it last. One that goes to another session is cleared first, and so is memory of the
 * engine that may have been another's.
 */
#ifndef GT_WORKER_STORE_H
#define GT_WORKER_STORE_H

#include "engines/engine.h"
#include "link/segment.h"
#include "worker/late.h"
#include "worker/origin.h"

/* Memory shared by the views on it. Comes from the pool, or is a client's segment used in place. */
typedef struct gt_buffer {
    uint32_t references;
    uint32_t size_class;
    void *memory;
    size_t bytes;           /* at memory */
    gt_segment *segment;    /* NULL: pooled */
    struct gt_buffer *next; /* in its class's free list */
    uint64_t owner;         /* the session that used it last; 0: not known */
} gt_buffer;

/* Why a tensor does not exist. Shared by all tensors computed from it. */
struct gt_poison {
    uint32_t references;
    gt_err err;
    gt_origin origin;
    char text[];
};

typedef enum gt_entry_state {
    GT_ENTRY_EMPTY = 0,
    GT_ENTRY_TENSOR,
    GT_ENTRY_POISON,
    GT_ENTRY_FILLING, /* an incomplete upload: the old contents of its memory must not be read */
    GT_ENTRY_LATE,    /* a tensor that the engine still computes: late.h */
} gt_entry_state;

typedef struct gt_entry {
    gt_entry_state state;
    gt_view view;
    gt_buffer *buffer;
    union {
        gt_poison *poison; /* GT_ENTRY_POISON */
        gt_flight *flight; /* GT_ENTRY_LATE; GT_ENTRY_FILLING: the write of a piece, NULL if none is pending */
    };
    uint64_t filled; /* bytes that have arrived, while an upload is under way */
} gt_entry;

_Static_assert(sizeof(gt_entry) == 192, "three cache lines");

enum {
    GT_STORE_CLASSES = 4 * 60, /* buffer sizes: four per power of two */
    GT_STORE_SMALLEST = 64,    /* bytes; also the alignment */
};

typedef struct gt_store {
    gt_engine *engine;
    gt_worker *worker; /* for its pending operations (late.h); NULL if the engine is synchronous */
    gt_entry *entries; /* by slot */
    size_t capacity;
    gt_entry *
        hidden; /* from GT_STORE_HIDDEN on: of tensors whose slots the dispatcher has given to others, see peers/aside.h */
    size_t hidden_count, hidden_capacity;
    gt_buffer *free[GT_STORE_CLASSES];
    gt_buffer *spare;                       /* buffer headers without memory */
    uint64_t bytes_used, bytes_held, limit; /* handed out; and in the pool; the most that may be held */
    unsigned adopted;                       /* buffers that are segments */
    uint64_t owner;                         /* the session that memory is handed out to; or GT_STORE_NOBODY */
    bool used;                              /* by a session */
    struct {
        uint64_t tensors, at_ns, took_ns; /* when they were last counted, for the statistics */
    } counted;
} gt_store;

/* The owner of records that belong to no session, or to one that is not known: no buffer was last used by it. */
#define GT_STORE_NOBODY UINT64_MAX

gt_err gt__store_new(gt_engine *engine, gt_store **store);
/* From now on memory is handed out to this session (not 0), or to GT_STORE_NOBODY. Before the first call there is one session. */
void gt__store_set_owner(gt_store *store, uint64_t owner);
/* The engine is asynchronous: segments return to their clients when the worker's flights have settled. */
void gt__store_set_late(gt_store *store, gt_worker *worker);
void gt__store_free(gt_store **store);

#define GT_STORE_HIDDEN ((uint64_t)1 << 40) /* the first slot that the dispatcher does not know */

/* A new hidden slot. False: out of memory. */
bool gt__store_hide(gt_store *store, uint64_t *hidden);
/* The tensor in a slot, if there is one, goes to another, which is empty. */
void gt__store_move(gt_store *store, uint64_t from, uint64_t to);
/* All hidden slots are empty, and may be used again. */
void gt__store_unhide(gt_store *store);

bool gt__store_grow(gt_store *store, uint64_t slot);
/* An entry that is not in the table: a hidden one, or NULL. */
gt_entry *gt__store_find_hidden(const gt_store *store, uint64_t slot);
/* The entry of a slot, created empty on first use. NULL if the number is absurd. Later calls may move entries. */
static inline gt_entry *gt__store_entry(gt_store *store, uint64_t slot)
{
    if (__builtin_expect(slot >= store->capacity, 0) && !gt__store_grow(store, slot))
        return gt__store_find_hidden(store, slot);
    return &store->entries[slot];
}

/* The entry of a slot that was used before, or NULL. Moves nothing. */
static inline gt_entry *gt__store_find(gt_store *store, uint64_t slot)
{
    return __builtin_expect(slot < store->capacity, 1) ? &store->entries[slot]
                                                       : gt__store_find_hidden(store, slot);
}

void gt__store_clear_fully(gt_store *store, gt_entry *entry);
/* Make the entry empty. */
static inline void gt__store_clear(gt_store *store, gt_entry *entry)
{
    gt_buffer *buffer = entry->buffer;
    if (__builtin_expect(entry->state == GT_ENTRY_TENSOR && buffer->references == 1 && !buffer->segment, 1)) {
        store->bytes_used -= buffer->bytes;
        buffer->next = store->free[buffer->size_class];
        store->free[buffer->size_class] = buffer;
        entry->state = GT_ENTRY_EMPTY;
    } else
        gt__store_clear_fully(store, entry);
}

void gt__store_settle_fully(gt_store *store, gt_entry *entry);
/* An entry whose flight has settled becomes a tensor or poison. Call this before reading its state. */
static inline void gt__store_settle(gt_store *store, gt_entry *entry)
{
    if (__builtin_expect(entry->state == GT_ENTRY_LATE && entry->flight->settled, 0))
        gt__store_settle_fully(store, entry);
}

/* A tensor, complete or late: calls to the engine may use its view. */
static inline bool gt__entry_is_tensor(const gt_entry *entry)
{
    return entry->state == GT_ENTRY_TENSOR || entry->state == GT_ENTRY_LATE;
}

/* The size class of a buffer for so many bytes: 64, 80, 96, 112, 128, 160, ...: at most a quarter is wasted. */
static inline unsigned gt__store_class(size_t bytes)
{
    if (bytes <= GT_STORE_SMALLEST)
        return 0;
    unsigned power = 63u - (unsigned)__builtin_clzll(bytes - 1); /* bytes is in (2^power, 2^(power+1)] */
    unsigned quarter = (unsigned)((bytes - 1) >> (power - 2)) & 3;
    return 4 * (power - 6) + quarter + 1;
}

/* The same where the first buffer of the class was another session's: one of this session if there is one near, else that one,
 * cleared. */
gt_buffer *gt__store_reuse_cleared(gt_store *store, unsigned size_class);
/* A recycled buffer of a class, with one reference for the caller; NULL if none. */
static inline gt_buffer *gt__store_reuse(gt_store *store, unsigned size_class)
{
    gt_buffer *buffer = store->free[size_class];
    if (__builtin_expect(buffer != NULL, 1)) {
        if (__builtin_expect(buffer->owner != store->owner, 0))
            return gt__store_reuse_cleared(store, size_class);
        store->free[size_class] = buffer->next;
        store->bytes_used += buffer->bytes;
        buffer->references = 1;
    }
    return buffer;
}

/* Row-major memory for view->meta; fills the rest of the view; one reference for the caller. GT_ERR_MEMORY leaves the
 * store as it was. */
gt_err gt__store_allocate(gt_store *store, gt_view *view, gt_buffer **buffer);
/* A buffer on a client's segment. It counts against the limit as one of the pool does. */
gt_err gt__store_wrap_segment(gt_store *store, gt_segment *segment, gt_buffer **buffer);
void gt__buffer_release(gt_store *store, gt_buffer *buffer);
/* Give the pool's unused memory back to the engine. */
void gt__store_trim(gt_store *store);
/* Note which blocks of the pool are unused now, and later: give those back that were not used since. */
void gt__store_note_unused(gt_store *store);
void gt__store_trim_unused(gt_store *store);
/* Give back the memory of entries behind the last that is used. Moves entries. */
void gt__store_shrink(gt_store *store);

gt_poison *gt__poison_new(gt_err err, const char *text);
void gt__poison_release(gt_poison *poison);

/* Row-major strides for the view's shape. */
void gt__view_set_contiguous(gt_view *view);
void gt__view_update_contiguous(gt_view *view);

typedef struct gt_store_stats {
    uint64_t tensors;
    uint64_t bytes_used;   /* handed out */
    uint64_t bytes_pooled; /* kept for reuse */
} gt_store_stats;
/* Counting a million tensors takes milliseconds: the number may be a little old then. */
void gt__store_stats(gt_store *store, gt_store_stats *stats);

#endif

/* store.c: slots, buffers and the pool. See store.h; read worker.c next. */
#include "worker/store.h"

#include <stdio.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "worker/paths.h"
#include "worker/worker.h"

enum {
    MAX_SLOTS = 1 << 26,
    FIRST_SLOTS = 256,
    PATIENCE_NS = 1000000, /* a count of tensors that took longer than that is kept, */
    KEPT_FOR = 50,         /* for so many times as long as it took */
    OWN_WITHIN = 16,       /* buffers of a class that are looked through for one of the same session */
    ZEROS = 64 << 10,      /* bytes that are cleared at a time by writing */
};
#define UNUSED UINT32_MAX /* references of a pooled buffer since gt__store_note_unused; a reuse sets them to 1 */

/* ---- buffers ----------------------------------------------------------------------------------------------- */

static size_t class_bytes(unsigned size_class)
{
    unsigned power = 6 + size_class / 4, quarter = size_class % 4;
    return ((size_t)4 + quarter) << (power - 2);
}

static gt_buffer *header_new(gt_store *store)
{
    gt_buffer *buffer = store->spare;
    if (buffer)
        store->spare = buffer->next;
    else
        buffer = malloc(sizeof *buffer);
    return buffer;
}

static void header_free(gt_store *store, gt_buffer *buffer)
{
    buffer->next = store->spare;
    store->spare = buffer;
}

static void free_headers(gt_store *store)
{
    while (store->spare) {
        gt_buffer *next = store->spare->next;
        free(store->spare);
        store->spare = next;
    }
}

/* Give blocks of the pool back: all of them, or those that are noted as unused. */
static void trim(gt_store *store, bool all)
{
    for (unsigned size_class = 0; size_class < GT_STORE_CLASSES; size_class++)
        for (gt_buffer **where = &store->free[size_class]; *where;) {
            gt_buffer *buffer = *where;
            if (!all && buffer->references != UNUSED) {
                where = &buffer->next;
                continue;
            }
            *where = buffer->next;
            store->engine->ops->release(store->engine, buffer->memory, buffer->bytes);
            store->bytes_held -= buffer->bytes;
            header_free(store, buffer);
        }
    free_headers(store); /* they lie between small blocks, whose pages malloc could not give back */
#if defined(__GLIBC__)
    malloc_trim(0); /* smaller blocks of host memory are malloc's, which would keep them */
#endif
}

void gt__store_trim(gt_store *store)
{
    trim(store, true);
}

void gt__store_note_unused(gt_store *store)
{
    for (unsigned size_class = 0; size_class < GT_STORE_CLASSES; size_class++)
        for (gt_buffer *buffer = store->free[size_class]; buffer; buffer = buffer->next)
            buffer->references = UNUSED;
}

void gt__store_trim_unused(gt_store *store)
{
    trim(store, false);
}

/* Whether so many bytes more may be handed out; makes room for them in what is held. */
static gt_err make_room(gt_store *store, size_t bytes)
{
    if (store->bytes_used + bytes > store->limit) /* nothing that is pooled would help */
        return gt__fail(GT_ERR_MEMORY, "the limit is reached");
    if (store->bytes_held + bytes > store->limit)
        gt__store_trim(store);
    return GT_OK;
}

static gt_err refuse(const gt_store *store, gt_err err, size_t bytes)
{
    char why[256];
    snprintf(why, sizeof why, "%s", gt_error_text());
    return gt__fail(err, "the worker cannot allocate %zu bytes (%llu of %llu in use): %s", bytes,
                    (unsigned long long)store->bytes_used, (unsigned long long)store->limit, why);
}

/* Memory of the engine. If it has none, pooled memory may be what is lacking. */
static gt_err memory_new(gt_store *store, size_t bytes, void **memory)
{
    gt_engine *engine = store->engine;
    GT_TRY(make_room(store, bytes));
    if (engine->ops->alloc(engine, bytes, memory) == GT_OK)
        return GT_OK;
    gt__store_trim(store);
    if (store->worker)
        gt__worker_paths_trim(store->worker);
    return engine->ops->alloc(engine, bytes, memory);
}

/* ---- sessions ----------------------------------------------------------------------------------------------- */

/* Of all stores of the process: they take memory from the same system. Sessions of a server that was restarted have the numbers of
 * others, so a store that was used and is gone counts as another session. */
static atomic_uint_least64_t last_owner;
static atomic_bool several_owners;

void gt__store_set_owner(gt_store *store, uint64_t owner)
{
    if (owner != GT_STORE_NOBODY) {
        uint64_t before = atomic_exchange(&last_owner, owner);
        if (before && before != owner)
            atomic_store(&several_owners, true);
        store->used = true;
    }
    store->owner = owner;
}

/* The owner that a buffer keeps. 0: the worker's own memory, which is cleared before any session gets it. */
static uint64_t owner_to_keep(const gt_store *store)
{
    return store->owner == GT_STORE_NOBODY ? 0 : store->owner;
}

static gt_err clear_by_writing(gt_store *store, char *memory, size_t bytes)
{
    static const char zeros[ZEROS];
    gt_engine *engine = store->engine;
    for (size_t at = 0; at < bytes; at += ZEROS) {
        gt_token token = 0;
        size_t piece = bytes - at < ZEROS ? bytes - at : ZEROS;
        GT_TRY(engine->ops->write(engine, memory + at, zeros, piece, false, &token));
        if (store->worker)
            gt__late_given(&store->worker->late, token);
    }
    return GT_OK;
}

/* Set to zero, behind the work that uses the memory. */
static gt_err clear(gt_store *store, void *memory, size_t bytes)
{
    gt_engine *engine = store->engine;
    if (engine->ops->clear)
        return engine->ops->clear(engine, memory, bytes);
    if (!engine->ops->host_memory || engine->ops->asynchronous)
        return clear_by_writing(store, memory, bytes);
    memset(memory, 0, bytes);
    return GT_OK;
}

gt_buffer *gt__store_reuse_cleared(gt_store *store, unsigned size_class)
{
    gt_buffer **where = &store->free[size_class], *buffer = *where;
    for (unsigned k = 1; k < OWN_WITHIN && buffer && buffer->owner != store->owner; k++) {
        where = &buffer->next;
        buffer = *where;
    }
    if (!buffer || buffer->owner != store->owner) {
        where = &store->free[size_class];
        buffer = *where;
        if (clear(store, buffer->memory, buffer->bytes) != GT_OK)
            return NULL;
        buffer->owner = owner_to_keep(store);
    }
    *where = buffer->next;
    store->bytes_used += buffer->bytes;
    buffer->references = 1;
    return buffer;
}

/* Memory that no session has seen; while there is one session, it may be its own. */
static gt_err memory_fresh(gt_store *store, size_t bytes, void **memory)
{
    const gt_engine_ops *ops = store->engine->ops;
    GT_TRY(memory_new(store, bytes, memory));
    if (!atomic_load_explicit(&several_owners, memory_order_relaxed) ||
        (ops->zeroed_from && bytes >= ops->zeroed_from))
        return GT_OK;
    gt_err err = clear(store, *memory, bytes);
    if (err != GT_OK)
        ops->release(store->engine, *memory, bytes);
    return err;
}

/* ---- handing out -------------------------------------------------------------------------------------------- */

static gt_err buffer_fresh(gt_store *store, unsigned size_class, gt_buffer **out)
{
    size_t bytes = class_bytes(size_class);
    gt_buffer *buffer = header_new(store);
    void *memory;
    gt_err err = buffer ? memory_fresh(store, bytes, &memory) : gt__fail(GT_ERR_MEMORY, "out of memory");
    if (err != GT_OK) {
        if (buffer)
            header_free(store, buffer);
        return refuse(store, err, bytes);
    }
    *buffer = (gt_buffer){.references = 1, .memory = memory, .size_class = size_class, .bytes = bytes};
    buffer->owner = owner_to_keep(store);
    store->bytes_held += bytes;
    store->bytes_used += bytes;
    *out = buffer;
    return GT_OK;
}

gt_err gt__store_allocate(gt_store *store, gt_view *view, gt_buffer **out)
{
    unsigned size_class = gt__store_class(gt__meta_bytes(&view->meta));
    gt_buffer *buffer = gt__store_reuse(store, size_class);
    if (!buffer)
        GT_TRY(buffer_fresh(store, size_class, &buffer));
    view->data = buffer->memory;
    gt__view_set_contiguous(view);
    *out = buffer;
    return GT_OK;
}

gt_err gt__store_wrap_segment(gt_store *store, gt_segment *segment, gt_buffer **out)
{
    size_t bytes = segment->bytes;
    gt_err err = make_room(store, bytes);
    gt_buffer *buffer = err == GT_OK ? header_new(store) : NULL;
    if (err == GT_OK && !buffer)
        err = gt__fail(GT_ERR_MEMORY, "out of memory");
    if (err != GT_OK)
        return refuse(store, err, bytes);
    *buffer = (gt_buffer){.references = 1, .memory = segment->data, .bytes = bytes};
    buffer->segment = gt__segment_retain(segment);
    store->bytes_held += bytes;
    store->bytes_used += bytes;
    store->adopted++;
    *out = buffer;
    return GT_OK;
}

/* The client may write to its segment again. */
static void give_segment_back(gt_store *store, gt_buffer *buffer)
{
    gt__segment_done(buffer->segment);
    gt__segment_release(buffer->segment);
    store->bytes_held -= buffer->bytes;
    store->bytes_used -= buffer->bytes;
    store->adopted--;
    header_free(store, buffer);
}

static void segment_unused(gt_worker *worker, void *object, const gt_completion *done)
{
    (void)done;
    give_segment_back(worker->store, object);
}

void gt__buffer_release(gt_store *store, gt_buffer *buffer)
{
    if (--buffer->references)
        return;
    if (buffer->segment) {
        if (store->worker) /* queued work may read it */
            gt__late_when(store->worker, store->worker->late.last, segment_unused, buffer);
        else
            give_segment_back(store, buffer);
        return;
    }
    store->bytes_used -= buffer->bytes;
    buffer->next = store->free[buffer->size_class];
    store->free[buffer->size_class] = buffer;
}

/* ---- poison ------------------------------------------------------------------------------------------------ */

/* Used when there is no memory for a new one. Never freed: it holds a reference to itself. One per thread, as stores
 * are. */
static gt_poison *last_words(void)
{
    static const char text[] = "the worker is out of memory";
    static _Thread_local union {
        gt_poison poison;
        char room[sizeof(gt_poison) + sizeof text];
    } words;
    if (!words.poison.references) {
        words.poison.references = 1;
        words.poison.err = GT_ERR_MEMORY;
        memcpy(words.room + offsetof(gt_poison, text), text, sizeof text);
    }
    words.poison.references++;
    return &words.poison;
}

gt_poison *gt__poison_new(gt_err err, const char *text)
{
    size_t length = strlen(text);
    gt_poison *poison = malloc(sizeof *poison + length + 1);
    if (!poison)
        return last_words(); /* no memory even for the text */
    *poison = (gt_poison){.references = 1, .err = err};
    memcpy(poison->text, text, length + 1);
    return poison;
}

void gt__poison_release(gt_poison *poison)
{
    if (--poison->references == 0)
        free(poison);
}

/* ---- entries ----------------------------------------------------------------------------------------------- */

gt_err gt__store_new(gt_engine *engine, gt_store **out)
{
    gt_store *store = calloc(1, sizeof *store);
    if (!store)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    store->engine = engine;
    store->limit = engine->ops->memory_limit(engine, 1);
    *out = store;
    return GT_OK;
}

void gt__store_free(gt_store **where)
{
    gt_store *store = *where;
    if (!store)
        return;
    if (store->used)
        atomic_store(&several_owners, true);
    for (size_t slot = 0; slot < store->capacity; slot++)
        gt__store_clear(store, &store->entries[slot]);
    for (size_t slot = 0; slot < store->hidden_count; slot++)
        gt__store_clear(store, &store->hidden[slot]);
    gt__store_trim(store);
    free(store->entries);
    free(store->hidden);
    free(store);
    *where = NULL;
}

void gt__store_shrink(gt_store *store)
{
    size_t used = store->capacity, capacity = FIRST_SLOTS;
    while (used && store->entries[used - 1].state == GT_ENTRY_EMPTY)
        used--;
    while (capacity < used)
        capacity *= 2;
    gt_entry *entries =
        capacity <= store->capacity / 4 ? realloc(store->entries, capacity * sizeof *entries) : NULL;
    if (!entries)
        return;
    store->entries = entries;
    store->capacity = capacity;
}

bool gt__store_grow(gt_store *store, uint64_t slot)
{
    if (slot >= MAX_SLOTS)
        return false;
    size_t capacity = store->capacity ? store->capacity : FIRST_SLOTS;
    while (capacity <= slot)
        capacity *= 2;
    gt_entry *entries = realloc(store->entries, capacity * sizeof *entries);
    if (!entries)
        return false;
    memset(entries + store->capacity, 0, (capacity - store->capacity) * sizeof *entries);
    store->entries = entries;
    store->capacity = capacity;
    return true;
}

static void drop_flight(gt_store *store, gt_entry *entry)
{
    if (entry->flight)
        gt__flight_release(&store->worker->late, entry->flight);
    entry->flight = NULL;
}

void gt__store_set_late(gt_store *store, gt_worker *worker)
{
    store->worker = worker;
}

void gt__store_settle_fully(gt_store *store, gt_entry *entry)
{
    gt_poison *poison = entry->flight->poison;
    if (poison)
        poison->references++;
    drop_flight(store, entry);
    entry->state = GT_ENTRY_TENSOR;
    if (poison) {
        gt__buffer_release(store, entry->buffer);
        entry->poison = poison;
        entry->state = GT_ENTRY_POISON;
    }
}

void gt__store_clear_fully(gt_store *store, gt_entry *entry)
{
    if (entry->state == GT_ENTRY_LATE || entry->state == GT_ENTRY_FILLING)
        drop_flight(store, entry);
    if (gt__entry_is_tensor(entry) || entry->state == GT_ENTRY_FILLING)
        gt__buffer_release(store, entry->buffer);
    else if (entry->state == GT_ENTRY_POISON)
        gt__poison_release(entry->poison);
    entry->state = GT_ENTRY_EMPTY;
}

void gt__view_set_contiguous(gt_view *view)
{
    int64_t stride = 1;
    for (unsigned axis = view->meta.rank; axis-- > 0;) {
        view->stride[axis] = stride;
        stride *= view->meta.shape[axis] ? view->meta.shape[axis] : 1;
    }
    view->contiguous = true;
}

void gt__view_update_contiguous(gt_view *view)
{
    int64_t expected = 1;
    bool contiguous = true;
    for (unsigned axis = view->meta.rank; axis-- > 0;) {
        contiguous &= view->meta.shape[axis] == 1 || view->stride[axis] == expected;
        expected *= view->meta.shape[axis];
    }
    view->contiguous = false;
    if (contiguous || view->meta.numel == 0)
        gt__view_set_contiguous(view);
}

/* ---- hidden slots ------------------------------------------------------------------------------------------- */

bool gt__store_hide(gt_store *store, uint64_t *hidden)
{
    if (store->hidden_count == store->hidden_capacity) {
        size_t capacity = store->hidden_capacity ? 2 * store->hidden_capacity : FIRST_SLOTS;
        gt_entry *entries = realloc(store->hidden, capacity * sizeof *entries);
        if (!entries)
            return false;
        store->hidden = entries;
        store->hidden_capacity = capacity;
    }
    store->hidden[store->hidden_count] = (gt_entry){0};
    *hidden = GT_STORE_HIDDEN + store->hidden_count++;
    return true;
}

gt_entry *gt__store_find_hidden(const gt_store *store, uint64_t slot)
{
    return slot >= GT_STORE_HIDDEN && slot - GT_STORE_HIDDEN < store->hidden_count
               ? &store->hidden[slot - GT_STORE_HIDDEN]
               : NULL;
}

void gt__store_move(gt_store *store, uint64_t from, uint64_t to)
{
    gt_entry *source = gt__store_find(store, from), *target = gt__store_find(store, to);
    if (!source || source->state == GT_ENTRY_EMPTY)
        return;
    *target = *source;
    *source = (gt_entry){0};
}

void gt__store_unhide(gt_store *store)
{
    for (size_t slot = 0; slot < store->hidden_count; slot++) /* what a failed record left */
        gt__store_clear(store, &store->hidden[slot]);
    store->hidden_count = 0;
}

/* ---- statistics --------------------------------------------------------------------------------------------- */

/* They are not counted as they come and go, which would cost every record something. */
static void count_tensors(gt_store *store)
{
    uint64_t now = gt__now_ns();
    bool old =
        store->counted.took_ns < PATIENCE_NS || now - store->counted.at_ns > KEPT_FOR * store->counted.took_ns;
    if (!old)
        return;
    store->counted.tensors = 0;
    for (size_t slot = 0; slot < store->capacity; slot++)
        store->counted.tensors += store->entries[slot].state != GT_ENTRY_EMPTY;
    for (size_t slot = 0; slot < store->hidden_count; slot++)
        store->counted.tensors += store->hidden[slot].state != GT_ENTRY_EMPTY;
    store->counted.at_ns = gt__now_ns();
    store->counted.took_ns = store->counted.at_ns - now;
}

void gt__store_stats(gt_store *store, gt_store_stats *stats)
{
    count_tensors(store);
    *stats = (gt_store_stats){.tensors = store->counted.tensors,
                              .bytes_used = store->bytes_used,
                              .bytes_pooled = store->bytes_held - store->bytes_used};
}

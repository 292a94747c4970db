/* heap.c: blocks of the card's memory. See heap.h. */
#include "engines/cuda/heap.h"

#include <stdlib.h>
#include <string.h>

enum {
    SMALL = 1 << 20,           /* bytes: larger blocks are in the other pool */
    SMALL_SEGMENT = 16 << 20,  /* bytes of a segment for small blocks */
    LARGE_SEGMENT = 64 << 20,  /* at least, for large ones */
    LARGEST_SEGMENT = 1 << 30, /* that is taken for one smaller request */
    SEGMENT_UNIT = 2 << 20,    /* what the driver maps */
    SAME_CLASS_TRIES = 16,     /* blocks of the request's own class that are looked at */
};

struct gt_cuda_block {
    uint64_t address;
    size_t bytes;
    bool free;
    uint8_t pool;
    gt_cuda_block *before, *after;        /* neighbours in the segment */
    gt_cuda_block *next_free, *last_free; /* free: of the class; in use: next_free is the next of the bucket */
    gt_cuda_block *next_segment;          /* of a segment's first block */
    size_t segment_bytes;                 /* likewise; 0: not the first */
    bool kept;                            /* likewise: the segment is */
};

/* ---- classes -------------------------------------------------------------------------------------------------- */

/* The class of blocks with at least so many bytes: four per power of two. */
static unsigned class_of(size_t bytes)
{
    size_t units = bytes / GT_CUDA_HEAP_UNIT;
    if (units < 4)
        return (unsigned)units;
    unsigned power = 63u - (unsigned)__builtin_clzll(units);
    unsigned class = 4 * (power - 1) + (unsigned)(units >> (power - 2) & 3);
    return class < GT_CUDA_HEAP_CLASSES ? class : GT_CUDA_HEAP_CLASSES - 1;
}

static void insert_free(gt_cuda_heap *heap, gt_cuda_block *block)
{
    unsigned class = class_of(block->bytes);
    gt_cuda_block **head = &heap->free[block->pool][class];
    block->free = true;
    block->last_free = NULL;
    block->next_free = *head;
    if (*head)
        (*head)->last_free = block;
    *head = block;
    heap->filled[block->pool][class / 64] |= (uint64_t)1 << class % 64;
}

static void remove_free(gt_cuda_heap *heap, gt_cuda_block *block)
{
    unsigned class = class_of(block->bytes);
    if (block->last_free)
        block->last_free->next_free = block->next_free;
    else
        heap->free[block->pool][class] = block->next_free;
    if (block->next_free)
        block->next_free->last_free = block->last_free;
    if (!heap->free[block->pool][class])
        heap->filled[block->pool][class / 64] &= ~((uint64_t)1 << class % 64);
    block->free = false;
}

/* A free block of at least so many bytes; NULL if none is known. */
static gt_cuda_block *find_free(gt_cuda_heap *heap, unsigned pool, size_t bytes)
{
    unsigned class = class_of(bytes);
    gt_cuda_block *block = heap->free[pool][class];
    for (int tries = 0; block && tries < SAME_CLASS_TRIES; tries++, block = block->next_free)
        if (block->bytes >= bytes)
            return block;
    for (unsigned word = (class + 1) / 64; word < GT_CUDA_HEAP_CLASSES / 64; word++) {
        uint64_t bits = heap->filled[pool][word];
        if (word == (class + 1) / 64)
            bits &= ~(uint64_t)0 << (class + 1) % 64;
        if (bits) /* every block of a higher class is larger */
            return heap->free[pool][64 * word + (unsigned)__builtin_ctzll(bits)];
    }
    return NULL;
}

/* ---- blocks in use, by address ---------------------------------------------------------------------------------- */

static size_t bucket_of(const gt_cuda_heap *heap, uint64_t address)
{
    return (size_t)(address / GT_CUDA_HEAP_UNIT * 0x9e3779b97f4a7c15u >> 32) & (heap->buckets - 1);
}

static bool grow_table(gt_cuda_heap *heap)
{
    size_t buckets = heap->buckets ? 2 * heap->buckets : 1024, old = heap->buckets;
    gt_cuda_block **table = calloc(buckets, sizeof *table), **before = heap->by_address;
    if (!table)
        return old != 0; /* longer chains */
    heap->by_address = table;
    heap->buckets = buckets;
    for (size_t k = 0; k < old; k++)
        for (gt_cuda_block *block = before[k], *next; block; block = next) {
            size_t bucket = bucket_of(heap, block->address);
            next = block->next_free;
            block->next_free = table[bucket];
            table[bucket] = block;
        }
    free(before);
    return true;
}

static void remember(gt_cuda_heap *heap, gt_cuda_block *block)
{
    size_t bucket = bucket_of(heap, block->address);
    block->next_free = heap->by_address[bucket];
    heap->by_address[bucket] = block;
    heap->in_use++;
    heap->bytes_used += block->bytes;
}

static gt_cuda_block *forget(gt_cuda_heap *heap, uint64_t address)
{
    if (!heap->buckets)
        return NULL;
    gt_cuda_block **link = &heap->by_address[bucket_of(heap, address)];
    while (*link && (*link)->address != address)
        link = &(*link)->next_free;
    gt_cuda_block *block = *link;
    if (block) {
        *link = block->next_free;
        heap->in_use--;
        heap->bytes_used -= block->bytes;
    }
    return block;
}

/* ---- cutting and joining ---------------------------------------------------------------------------------------- */

static gt_cuda_block *block_new(gt_cuda_heap *heap)
{
    gt_cuda_block *block = heap->spare;
    if (block)
        heap->spare = block->next_free;
    else
        block = malloc(sizeof *block);
    if (block)
        *block = (gt_cuda_block){0};
    return block;
}

static void block_free(gt_cuda_heap *heap, gt_cuda_block *block)
{
    block->next_free = heap->spare;
    heap->spare = block;
}

/* Keep so many bytes of a block that is in no list; the rest becomes a free block. Without memory for one it keeps all. */
static void cut(gt_cuda_heap *heap, gt_cuda_block *block, size_t bytes)
{
    gt_cuda_block *rest = block->bytes > bytes ? block_new(heap) : NULL;
    if (!rest)
        return;
    rest->address = block->address + bytes;
    rest->bytes = block->bytes - bytes;
    rest->pool = block->pool;
    rest->before = block;
    rest->after = block->after;
    if (rest->after)
        rest->after->before = rest;
    block->after = rest;
    block->bytes = bytes;
    insert_free(heap, rest);
}

/* The block takes over the one after it, which is in no list. */
static void join(gt_cuda_heap *heap, gt_cuda_block *block)
{
    gt_cuda_block *after = block->after;
    block->bytes += after->bytes;
    block->after = after->after;
    if (block->after)
        block->after->before = block;
    block_free(heap, after);
}

/* ---- segments --------------------------------------------------------------------------------------------------- */

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* Segments grow with what is held already, so that there are few of them. */
static size_t segment_size(const gt_cuda_heap *heap, unsigned pool, size_t bytes)
{
    size_t size = pool == 0 ? SMALL_SEGMENT : LARGE_SEGMENT;
    while (pool != 0 && size < LARGEST_SEGMENT && size < heap->bytes_held / 8)
        size *= 2;
    return bytes > size ? round_up(bytes, SEGMENT_UNIT) : size;
}

static gt_cuda_block *segment_new(gt_cuda_heap *heap, unsigned pool, size_t bytes)
{
    gt_cuda_block *block = block_new(heap);
    size_t sizes[] = {segment_size(heap, pool, bytes), round_up(bytes, SEGMENT_UNIT)};
    for (int k = 0; block && k < 2; k++) {
        block->address = heap->source.take(heap->source.context, sizes[k]);
        if (!block->address)
            continue;
        block->bytes = block->segment_bytes = sizes[k];
        block->pool = (uint8_t)pool;
        block->next_segment = heap->segments;
        heap->segments = block;
        heap->bytes_held += sizes[k];
        return block;
    }
    if (block)
        block_free(heap, block);
    return NULL;
}

void gt__cuda_heap_trim(gt_cuda_heap *heap)
{
    for (gt_cuda_block **link = &heap->segments; *link;) {
        gt_cuda_block *block = *link;
        if (!block->free || block->bytes != block->segment_bytes || block->kept) {
            link = &block->next_segment;
            continue;
        }
        *link = block->next_segment;
        remove_free(heap, block);
        heap->bytes_held -= block->segment_bytes;
        heap->source.give(heap->source.context, block->address);
        block_free(heap, block);
    }
}

/* ---- the interface ------------------------------------------------------------------------------------------------ */

void gt__cuda_heap_init(gt_cuda_heap *heap, const gt_cuda_heap_source *source)
{
    *heap = (gt_cuda_heap){.source = *source};
}

void gt__cuda_heap_clear(gt_cuda_heap *heap)
{
    for (gt_cuda_block *segment = heap->segments, *next; segment; segment = next) {
        next = segment->next_segment;
        heap->source.give(heap->source.context, segment->address);
        for (gt_cuda_block *block = segment, *after; block; block = after) {
            after = block->after;
            free(block);
        }
    }
    for (gt_cuda_block *block = heap->spare, *next; block; block = next) {
        next = block->next_free;
        free(block);
    }
    free(heap->by_address);
    gt__cuda_heap_init(heap, &(gt_cuda_heap_source){0});
}

gt_err gt__cuda_heap_take(gt_cuda_heap *heap, size_t bytes, uint64_t *address)
{
    if (bytes > SIZE_MAX / 4)
        return gt__fail(GT_ERR_MEMORY, "no card has %zu bytes", bytes);
    bytes = round_up(bytes ? bytes : 1, GT_CUDA_HEAP_UNIT);
    unsigned pool = bytes > SMALL;
    if (heap->in_use >= heap->buckets && !grow_table(heap))
        return gt__fail(GT_ERR_MEMORY, "the host has no memory to keep track of the card's");
    gt_cuda_block *block = find_free(heap, pool, bytes);
    if (block)
        remove_free(heap, block);
    else
        block = segment_new(heap, pool, bytes);
    if (!block) {
        gt__cuda_heap_trim(heap);
        block = segment_new(heap, pool, bytes);
    }
    if (!block)
        return gt__fail(GT_ERR_MEMORY, "the card has no block of %zu bytes left; this worker holds %llu", bytes,
                        (unsigned long long)heap->bytes_held);
    cut(heap, block, bytes);
    remember(heap, block);
    *address = block->address;
    return GT_OK;
}

bool gt__cuda_heap_keep(gt_cuda_heap *heap, uint64_t address, uint64_t *segment, size_t *bytes)
{
    for (gt_cuda_block *block = heap->segments; block; block = block->next_segment)
        if (address - block->address < block->segment_bytes) {
            block->kept = true;
            *segment = block->address;
            *bytes = block->segment_bytes;
            return true;
        }
    return false;
}

bool gt__cuda_heap_give(gt_cuda_heap *heap, uint64_t address)
{
    gt_cuda_block *block = forget(heap, address);
    if (!block)
        return false;
    if (block->after && block->after->free) {
        remove_free(heap, block->after);
        join(heap, block);
    }
    gt_cuda_block *before = block->before;
    if (before && before->free) {
        remove_free(heap, before);
        join(heap, before);
        block = before;
    }
    insert_free(heap, block);
    return true;
}

/*
 * heap.h: memory of the card for tensors and scratch, cut from a few large segments so that the driver is rarely asked.
 *
 * All bookkeeping is on the host: the memory itself is never touched. Free neighbours are joined; a request takes the
 * smallest block that fits, to a quarter of a power of two. Small and large blocks have segments of their own, so that
 * small ones do not cut up large ones. The engine has one stream, and a block that is released may be handed out at once:
 * work that was queued before still uses it, and everything that is queued later comes after that work.
 */
#ifndef GT_ENGINES_CUDA_HEAP_H
#define GT_ENGINES_CUDA_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

enum {
    GT_CUDA_HEAP_UNIT = 256, /* bytes: alignment and granularity */
    GT_CUDA_HEAP_CLASSES = 192,
    GT_CUDA_HEAP_POOLS = 2, /* small and large blocks */
};

/* Where segments come from. `take` returns 0 if there is no memory. */
typedef struct gt_cuda_heap_source {
    uint64_t (*take)(void *context, size_t bytes);
    void (*give)(void *context, uint64_t address);
    void *context;
} gt_cuda_heap_source;

typedef struct gt_cuda_block gt_cuda_block;

typedef struct gt_cuda_heap {
    gt_cuda_heap_source source;
    gt_cuda_block *free[GT_CUDA_HEAP_POOLS][GT_CUDA_HEAP_CLASSES];
    uint64_t filled[GT_CUDA_HEAP_POOLS][GT_CUDA_HEAP_CLASSES / 64]; /* bit c: free[c] is not empty */
    gt_cuda_block *segments;                                        /* their first blocks */
    gt_cuda_block **by_address;                                     /* hash table of the blocks in use */
    size_t buckets, in_use;
    gt_cuda_block *spare;
    uint64_t bytes_held, bytes_used; /* from the source; handed out */
} gt_cuda_heap;

void gt__cuda_heap_init(gt_cuda_heap *heap, const gt_cuda_heap_source *source);
/* Gives all segments back. */
void gt__cuda_heap_clear(gt_cuda_heap *heap);

/* 256-byte aligned. 0 bytes are served, too. GT_ERR_MEMORY: the source has none, even after a trim. */
gt_err gt__cuda_heap_take(gt_cuda_heap *heap, size_t bytes, uint64_t *address);
/* False: no block starts at this address. */
bool gt__cuda_heap_give(gt_cuda_heap *heap, uint64_t address);
/* The segment in which an address lies: its first byte, and how many it has. False: none. It is not given back before the heap is
 * cleared: other processes may have it. */
bool gt__cuda_heap_keep(gt_cuda_heap *heap, uint64_t address, uint64_t *segment, size_t *bytes);
/* Gives segments that are wholly free back to the source. */
void gt__cuda_heap_trim(gt_cuda_heap *heap);

#endif

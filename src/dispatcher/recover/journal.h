/*
 * journal.h: the records that a client sent, in order, since the last snapshot of its tensors.
 *
 * The stream is functional: the same records on the same tensors give the same results. A journal is a list of blocks.
 * To append is to copy, with no allocation for each record. Records are never split over two blocks.
 */
#ifndef GT_DISPATCHER_RECOVER_JOURNAL_H
#define GT_DISPATCHER_RECOVER_JOURNAL_H

#include "core/instruction.h"

typedef struct gt_journal_block {
    struct gt_journal_block *next;
    uint32_t used, capacity; /* slots */
    gt_slot slots[];
} gt_journal_block;

/* Blocks that any journal may use again: fresh pages cost more than the copy. A zeroed pool is empty. */
typedef struct gt_journal_pool {
    gt_journal_block *spare;
    size_t bytes;
} gt_journal_pool;

typedef struct gt_journal {
    gt_journal_pool *pool;
    gt_journal_block *first, *last;
    uint32_t start; /* slots of the first block that were dropped */
    size_t bytes;   /* allocated */
} gt_journal;

/* Between two records. */
typedef struct gt_journal_position {
    gt_journal_block *block; /* NULL: at the start of a journal that had no blocks */
    uint32_t at;
} gt_journal_position;

/* Room for a record at its end; commit follows. NULL: out of memory. */
gt_slot *gt__journal_reserve(gt_journal *journal, unsigned slots);
static inline void gt__journal_commit(gt_journal *journal, unsigned slots)
{
    journal->last->used += slots;
}
/* Room for at least one record of one slot; *slots: for how many. Commit follows. NULL: out of memory. */
gt_slot *gt__journal_window(gt_journal *journal, size_t *slots);

gt_journal_position gt__journal_start(const gt_journal *journal);
gt_journal_position gt__journal_end(const gt_journal *journal);
/* The record at the position, which moves behind it. NULL: there are no more. Borrowed until it is dropped. */
const gt_slot *gt__journal_next(const gt_journal *journal, gt_journal_position *position);
/* Drop the records before the position. */
void gt__journal_drop(gt_journal *journal, gt_journal_position position);
void gt__journal_free(gt_journal *journal);
void gt__journal_pool_free(gt_journal_pool *pool);

#endif

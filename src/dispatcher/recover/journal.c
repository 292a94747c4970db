/* journal.c: see journal.h. */
#include "dispatcher/recover/journal.h"

#include <stdlib.h>

/* Slots of a block. The first is small, for the many clients that send little. The largest is below the size from which
 * malloc maps fresh pages. */
enum { LEAST = 64, MOST = 1536 };
enum { POOL_BYTES = 64 << 20 };

_Static_assert((int)MOST >= (int)GT_MAX_TAIL + 1, "a record fits into a block");

static size_t size_of(unsigned capacity)
{
    return sizeof(gt_journal_block) + capacity * sizeof(gt_slot);
}

static bool add_block(gt_journal *journal, unsigned slots)
{
    unsigned capacity = journal->last ? 2 * journal->last->capacity : LEAST;
    capacity = capacity < MOST ? capacity : MOST;
    capacity = capacity > slots ? capacity : slots;
    size_t bytes = size_of(capacity);
    gt_journal_pool *pool = journal->pool;
    gt_journal_block *block = capacity == MOST ? pool->spare : NULL;
    if (block) {
        pool->spare = block->next;
        pool->bytes -= bytes;
    } else if (!(block = malloc(bytes)))
        return false;
    *block = (gt_journal_block){.capacity = capacity};
    *(journal->last ? &journal->last->next : &journal->first) = block;
    journal->last = block;
    journal->bytes += bytes;
    return true;
}

gt_slot *gt__journal_reserve(gt_journal *journal, unsigned slots)
{
    if ((!journal->last || journal->last->capacity - journal->last->used < slots) && !add_block(journal, slots))
        return NULL;
    return journal->last->slots + journal->last->used;
}

gt_slot *gt__journal_window(gt_journal *journal, size_t *slots)
{
    gt_slot *to = gt__journal_reserve(journal, 1);
    *slots = to ? journal->last->capacity - journal->last->used : 0;
    return to;
}

gt_journal_position gt__journal_start(const gt_journal *journal)
{
    return (gt_journal_position){.block = journal->first, .at = journal->start};
}

gt_journal_position gt__journal_end(const gt_journal *journal)
{
    return (gt_journal_position){.block = journal->last, .at = journal->last ? journal->last->used : 0};
}

const gt_slot *gt__journal_next(const gt_journal *journal, gt_journal_position *position)
{
    if (!position->block)
        *position = gt__journal_start(journal);
    while (position->block && position->at == position->block->used && position->block->next)
        *position = (gt_journal_position){.block = position->block->next};
    if (!position->block || position->at == position->block->used)
        return NULL;
    const gt_slot *record = position->block->slots + position->at;
    uint32_t left = position->block->used - position->at, length = 1u + record->ins.tail;
    position->at += length < left ? length : left;
    return length <= left ? record : NULL;
}

static void drop_first(gt_journal *journal)
{
    gt_journal_block *block = journal->first;
    journal->first = block->next;
    journal->bytes -= size_of(block->capacity);
    if (!journal->first)
        journal->last = NULL;
    journal->start = 0;
    if (block->capacity != MOST || journal->pool->bytes + size_of(MOST) > POOL_BYTES) {
        free(block);
        return;
    }
    block->next = journal->pool->spare;
    journal->pool->spare = block;
    journal->pool->bytes += size_of(MOST);
}

void gt__journal_drop(gt_journal *journal, gt_journal_position position)
{
    while (position.block && journal->first != position.block)
        drop_first(journal);
    if (!position.block)
        return;
    journal->start = position.at;
    if (!position.block->next && position.at == position.block->used) { /* all are gone: use the block again */
        position.block->used = 0;
        journal->start = 0;
    }
}

void gt__journal_free(gt_journal *journal)
{
    while (journal->first)
        drop_first(journal);
}

void gt__journal_pool_free(gt_journal_pool *pool)
{
    while (pool->spare) {
        gt_journal_block *next = pool->spare->next;
        free(pool->spare);
        pool->spare = next;
    }
}

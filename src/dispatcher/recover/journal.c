/* journal.c: see journal.h. */
#include "dispatcher/recover/journal.h"

#include <stdlib.h>

/* Slots of a block. The first is small, for the many clients that send little. The largest is below the size from which
 * malloc maps fresh pages. */
enum { LEAST = 64, MOST = 1536 };

_Static_assert((int)MOST >= (int)GT_MAX_TAIL + 1, "a record fits into a block");

static bool add_block(gt_journal *journal, unsigned slots)
{
    unsigned capacity = journal->last ? 2 * journal->last->capacity : LEAST;
    capacity = capacity < MOST ? capacity : MOST;
    capacity = capacity > slots ? capacity : slots;
    size_t bytes = sizeof(gt_journal_block) + capacity * sizeof(gt_slot);
    gt_journal_block *block = malloc(bytes);
    if (!block)
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

bool gt__journal_append(gt_journal *journal, const gt_slot *slots, size_t count)
{
    while (count) {
        gt_slot *to = gt__journal_reserve(journal, 1);
        if (!to)
            return false;
        size_t room = journal->last->capacity - journal->last->used, piece = count < room ? count : room;
        memcpy(to, slots, piece * sizeof *to);
        gt__journal_commit(journal, (unsigned)piece);
        slots += piece;
        count -= piece;
    }
    return true;
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
    return length <= left ? record : NULL; /* else the client has changed its record since it was checked */
}

static void drop_first(gt_journal *journal)
{
    gt_journal_block *block = journal->first;
    journal->first = block->next;
    journal->bytes -= sizeof *block + block->capacity * sizeof(gt_slot);
    if (!journal->first)
        journal->last = NULL;
    journal->start = 0;
    free(block);
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

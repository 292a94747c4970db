/* tape.c: reads tapes, trusting nothing. See tape.h. */
#include "core/tape.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct gt_tape {
    FILE *file;
    uint64_t blocks;    /* read so far */
    uint64_t position;  /* of the current block in the file */
    uint64_t records;   /* returned so far */
    size_t bytes, next; /* of entries in the block; offset of the next one */
    gt_tape_entry entry;
    gt_slot slots[GT_MAX_TAIL + 1];
    uint8_t block[GT_TAPE_BLOCK];
};

uint64_t gt__tape_checksum(uint64_t seed, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    uint64_t sum = seed ^ 0x9E3779B97F4A7C15u;
    for (size_t k = 0; k + 8 <= bytes; k += 8) {
        uint64_t word;
        memcpy(&word, at + k, sizeof word);
        sum = (sum ^ word) * 0xFF51AFD7ED558CCDu;
        sum ^= sum >> 32;
    }
    return sum;
}

uint64_t gt__tape_block_checksum(const gt_tape_block *block, const void *entries)
{
    return gt__tape_checksum(gt__tape_checksum(block->number, &block->bytes, sizeof block->bytes), entries,
                             block->bytes);
}

gt_err gt__tape_open(const char *path, gt_tape **out)
{
    gt_tape_header header;
    gt_tape *tape = calloc(1, sizeof *tape);
    if (!tape)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    tape->file = fopen(path, "rbe");
    gt_err err = GT_OK;
    if (!tape->file)
        err = gt__fail(GT_ERR_VALUE, "%s: %s", path, strerror(errno));
    else if (fread(&header, sizeof header, 1, tape->file) != 1 || header.magic != GT_TAPE_MAGIC ||
             header.checksum != gt__tape_checksum(0, &header, offsetof(gt_tape_header, checksum)))
        err = gt__fail(GT_ERR_VALUE, "%s is not a tape", path);
    else if (header.version != GT_TAPE_VERSION || !gt__op_table_extends(header.table_hash))
        err = gt__fail(GT_ERR_VALUE, "%s was recorded by another version of GT", path);
    tape->position = sizeof header;
    if (err != GT_OK)
        gt__tape_close(&tape);
    *out = tape;
    return err;
}

static gt_err damaged(const gt_tape *tape, const char *what)
{
    return gt__fail(GT_ERR_PROTOCOL, "the tape is damaged at byte %llu, after instruction %llu: %s",
                    (unsigned long long)tape->position, (unsigned long long)tape->records, what);
}

/* *more is false at the end. */
static gt_err read_block(gt_tape *tape, bool *more)
{
    gt_tape_block block;
    size_t got = fread(&block, 1, sizeof block, tape->file);
    *more = got > 0;
    if (!got)
        return ferror(tape->file) ? damaged(tape, strerror(errno)) : GT_OK;
    if (got < sizeof block)
        return damaged(tape, "it ends in the middle of a block");
    if (block.magic != GT_TAPE_BLOCK_MAGIC || block.number != tape->blocks || block.bytes > GT_TAPE_BLOCK ||
        block.bytes % 8)
        return damaged(tape, "no block begins here");
    if (fread(tape->block, 1, block.bytes, tape->file) != block.bytes)
        return damaged(tape, "it ends in the middle of a block");
    if (block.checksum != gt__tape_block_checksum(&block, tape->block))
        return damaged(tape, "the checksum is wrong");
    tape->blocks++;
    tape->bytes = block.bytes;
    tape->next = 0;
    return GT_OK;
}

/* The checksum is right, but the writer may have been faulty or hostile. */
static gt_err check_entry(const gt_tape *tape)
{
    const gt_tape_entry *entry = &tape->entry;
    unsigned length;
    if (entry->kind < GT_TAPE_RECORD || entry->kind > GT_TAPE_NOTE)
        return damaged(tape, "unknown kind of entry");
    if (entry->kind == GT_TAPE_OPEN)
        return entry->slots == 1 ? GT_OK : damaged(tape, "a client's name is missing");
    if (entry->kind == GT_TAPE_CLOSE)
        return entry->slots == 0 ? GT_OK : damaged(tape, "a close entry has slots");
    if (entry->number != tape->records + (entry->kind == GT_TAPE_RECORD))
        return damaged(tape, "an instruction is missing");
    if (!entry->slots || gt__instruction_check(tape->slots, entry->slots, &length) != GT_OK ||
        length != entry->slots)
        return damaged(tape, "malformed instruction");
    return GT_OK;
}

gt_err gt__tape_next(gt_tape *tape, const gt_tape_entry **entry, const gt_slot **slots)
{
    *entry = NULL;
    while (tape->next == tape->bytes) {
        bool more;
        tape->position += tape->blocks ? sizeof(gt_tape_block) + tape->bytes : 0;
        GT_TRY(read_block(tape, &more));
        if (!more)
            return GT_OK;
    }
    size_t left = tape->bytes - tape->next;
    if (left < sizeof tape->entry)
        return damaged(tape, "an entry ends beyond its block");
    memcpy(&tape->entry, tape->block + tape->next, sizeof tape->entry);
    left -= sizeof tape->entry;
    if (tape->entry.slots > GT_MAX_TAIL + 1 || tape->entry.slots * sizeof(gt_slot) > left)
        return damaged(tape, "an entry ends beyond its block");
    memcpy(tape->slots, tape->block + tape->next + sizeof tape->entry, tape->entry.slots * sizeof(gt_slot));
    GT_TRY(check_entry(tape));
    tape->next += sizeof tape->entry + tape->entry.slots * sizeof(gt_slot);
    tape->records += tape->entry.kind == GT_TAPE_RECORD;
    *entry = &tape->entry;
    *slots = tape->slots;
    return GT_OK;
}

void gt__tape_close(gt_tape **where)
{
    gt_tape *tape = *where;
    *where = NULL;
    if (tape && tape->file)
        fclose(tape->file);
    free(tape);
}

/*
 * tape.h: a tape is a file with everything clients sent to a dispatcher: every record in the order it was handled, with
 * the bytes of every upload. `gt replay` executes it again. dispatcher/observe/tape_writer.c writes it, tape.c reads it.
 *
 *     header   gt_tape_header, 64 bytes
 *     blocks   gt_tape_block, 32 bytes, then `bytes` bytes of entries
 *     entry    gt_tape_entry, 32 bytes, then its slots
 *
 * Each block has a checksum of its bytes and its number, so that a truncated or damaged file is readable up to the
 * damage. Little-endian, no pointers. Records are what a client sends (instruction.h), except that uploads by shared
 * segment have become uploads and `data` with their bytes in the stream.
 */
#ifndef GT_CORE_TAPE_H
#define GT_CORE_TAPE_H

#include <stdio.h>

#include "core/instruction.h"

enum { GT_TAPE_VERSION = 1, GT_TAPE_BLOCK = 128 * 1024 }; /* GT_TAPE_BLOCK: the most bytes of entries in a block */

#define GT_TAPE_MAGIC 0x0a65706174207467u       /* "gt tape\n" */
#define GT_TAPE_BLOCK_MAGIC 0x6b636f6c62207467u /* "gt block" */

typedef struct gt_tape_header {
    uint64_t magic;
    uint32_t version, reserved;
    uint64_t table_hash; /* of the op table: a tape is replayed by a GT that has the same one, or a longer one */
    uint64_t wall_ns;    /* when it began, since 1970 */
    uint64_t unused[3];
    uint64_t checksum; /* of the fields before it */
} gt_tape_header;

typedef struct gt_tape_block {
    uint64_t magic;
    uint64_t number; /* from 0 */
    uint64_t bytes;
    uint64_t checksum; /* of number, bytes and the entries */
} gt_tape_block;

typedef enum gt_tape_kind {
    GT_TAPE_RECORD = 1, /* slots: the record */
    GT_TAPE_OPEN,       /* a client connected; one slot: its name */
    GT_TAPE_CLOSE,      /* a client left */
    GT_TAPE_NOTE,       /* slots: a record without an effect of its own: it names a place, a scope, ... */
} gt_tape_kind;

typedef struct gt_tape_entry {
    uint32_t kind;  /* gt_tape_kind */
    uint32_t slots; /* that follow */
    uint64_t session;
    uint64_t number; /* of the record, counted from 1; a note has that of the record before it */
    uint64_t line;   /* in the instruction log; 0: no log was written */
} gt_tape_entry;

_Static_assert(sizeof(gt_tape_header) == 64 && sizeof(gt_tape_block) == 32 && sizeof(gt_tape_entry) == 32,
               "fixed sizes");

uint64_t gt__tape_checksum(uint64_t seed, const void *data, size_t bytes); /* bytes: a multiple of 8 */
uint64_t gt__tape_block_checksum(const gt_tape_block *block, const void *entries);

/* ---- reading ------------------------------------------------------------------------------------------------ */

typedef struct gt_tape gt_tape;

/* GT_ERR_VALUE: not a tape, or of another build, or unreadable. */
gt_err gt__tape_open(const char *path, gt_tape **tape);
/*
 * The next entry; NULL at the end. Its slots are valid until the next call; if it is a record, they are checked to be a
 * whole one. GT_ERR_PROTOCOL: the tape is damaged here; the text says where. Everything before was intact.
 */
gt_err gt__tape_next(gt_tape *tape, const gt_tape_entry **entry, const gt_slot **slots);
void gt__tape_close(gt_tape **tape);

#endif

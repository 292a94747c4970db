/*
 * log_code.h: the compact form of the instruction log: events (log_text.h) in about ten bytes each, where a line of text
 * has 160.
 *
 *     file     gt_log_head, then blocks
 *     block    gt_log_block, then entries until its end
 *     entry    a text or a path (log_run.h) that later entries of the block name by its number, an event, or a run of a path,
 *              which stands for an event of each of its records
 *
 * Blocks do not depend on each other: numbers, differences and texts begin anew in each. So a log can be rotated between any
 * two of them, and a file that was cut or damaged is readable up to that place. The dispatcher encodes, because what it writes
 * is what the memory, the disk and the log's thread have to move. That thread sets the length and the checksum of a
 * block (gt__log_seal) and writes it as it is; or it decodes it again, if the file is to be text.
 *
 * Entries are bytes and varints (seven bits to a byte, the lowest first). A signed difference d is the varint of
 * d << 1 ^ d >> 63. They begin with a tag: 15 a text, 14 a path, 13 a run; the others are events:
 *
 *     tag       bits 0-3 gt_event, 4: a time follows, 5: failed, 6: notes follow, 7: a text of its own follows
 *     time      since the event before, or the block's at_ns: ns
 *     source    number of a text, plus one; 0: not known
 *     op
 *     RECV         mask, with a bit for each of the record's first seven words that differs from those of the last record of
 *                  the same op in the block, bit 7: the bytes are not those of the record's slots; the differences; the bytes;
 *                  of each further slot a mask of the words that are not 0, and these words
 *     others       bytes
 *     SEND         tensor
 *     WORKER_SEND, WORKER_RECV   session, tensor as a difference to the last such event
 *     WORKER_RECV  duration << 1 | whether the start is known; the start as a difference to the last one
 *     notes     each: number of a text << 1 | whether another note follows
 *     text      length, bytes
 *
 * Ops have the numbers of this build's op table, whose hash is in the file's head.
 */
#ifndef GT_DISPATCHER_OBSERVE_LOG_CODE_H
#define GT_DISPATCHER_OBSERVE_LOG_CODE_H

#include "dispatcher/observe/log_text.h"

enum {
    GT_LOG_VERSION = 2,
    GT_LOG_ENTRY = 4096, /* the most bytes that one event takes, with the texts before it and a block's head */
    GT_LOG_MOST_BLOCK = 1 << 18, /* bytes, those of a buffer (file_writer.h); a reader refuses longer ones */
};

#define GT_LOG_MAGIC 0x0a676f6c74672e01u /* a file of text does not begin with the byte 1 */
#define GT_LOG_BLOCK_MAGIC 0x6b6c6267u   /* "gblk" */

typedef struct gt_log_head {
    uint64_t magic;
    uint32_t version, reserved;
    uint64_t table_hash; /* of the op table */
    uint64_t wall_ns;    /* when it began, since 1970 */
} gt_log_head;

typedef struct gt_log_block {
    uint32_t magic;
    uint32_t bytes;           /* with this head */
    uint64_t sequence, at_ns; /* of its first event */
    uint64_t checksum;        /* of the block, with 0 here */
} gt_log_block;

_Static_assert(sizeof(gt_log_head) == 32 && sizeof(gt_log_block) == 32, "fixed sizes");

/* Whether a log of this name is to have the compact form: "run.gtlog". All others are text. */
bool gt__log_is_compact(const char *path);
gt_log_head gt__log_head_now(void);

/* ---- writing ------------------------------------------------------------------------------------------------ */

typedef struct gt_log_encoder gt_log_encoder;

gt_log_encoder *gt__log_encoder_new(void); /* NULL: out of memory */
void gt__log_encoder_free(gt_log_encoder *encoder);
/* Append an event at `room`, which has GT_LOG_ENTRY bytes, and return its end. If `room` is not where the last one ended,
 * a block begins there. Sequences of a block grow by one. */
char *gt__log_encode(gt_log_encoder *encoder, const gt_log_event *event, char *room);
/* A run of a path, and where its records come from. */
typedef struct gt_log_run {
    uint64_t sequence; /* of its first record's event */
    uint64_t at_ns;
    gt_log_text *source;
    const gt_path *path;
    const gt_slot *run; /* checked against the path */
    /* The text of a place; NULL: none. It stays until the next call. */
    gt_log_text *(*place)(void *context, uint32_t scope, uint32_t site);
    void *context;
} gt_log_run;

/* The room that a run needs at most, in a block of its own, and how many events it is; 0: it is not to be encoded as one:
 * it is too long, or the first one of its path in this block. */
size_t gt__log_run_bytes(gt_log_encoder *encoder, const gt_path *path, const gt_slot *run, uint32_t *lines);
/* Append a run; otherwise as gt__log_encode. */
char *gt__log_encode_run(gt_log_encoder *encoder, const gt_log_run *run, char *room);
/* Complete the head of a block. */
void gt__log_seal(void *unused, char *block, size_t bytes);

/* ---- reading ------------------------------------------------------------------------------------------------ */

typedef struct gt_log_decoder gt_log_decoder;

gt_log_decoder *gt__log_decoder_new(void); /* NULL: out of memory */
void gt__log_decoder_free(gt_log_decoder *decoder);
/* Begin a block of so many bytes, which stay where they are until its end. `sealed`: check its head first; otherwise it is
 * what gt__log_encode wrote in this process. GT_ERR_PROTOCOL: it is damaged. */
gt_err gt__log_block_open(gt_log_decoder *decoder, const char *block, size_t bytes, bool sealed);
/* The next event, valid until the next call; *there is false at the end of the block. GT_ERR_PROTOCOL: it is damaged here.
 * Whatever the bytes are, the event is safe to be made a line of. */
gt_err gt__log_block_next(gt_log_decoder *decoder, gt_log_event *event, bool *there);

#endif

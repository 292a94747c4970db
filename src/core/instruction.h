/*
 * instruction.h: the one record that every stream is made of, on both hops and in both directions.
 *
 * A record is one 64-byte slot followed by `tail` more slots. Little-endian, no pointers. Streams are arrays of
 * slots: shared-memory rings hold them, ZeroMQ frames hold them, tapes hold them.
 *
 * Client to dispatcher, ids are the client's own 64-bit ids (never reused, never 0). Dispatcher to worker they are
 * the worker's dense slot numbers (reused, never 0), so the worker looks tensors up in an array.
 */
#ifndef GT_CORE_INSTRUCTION_H
#define GT_CORE_INSTRUCTION_H

#include <stdint.h>
#include <string.h>

#include "core/op.h"

typedef union gt_imm {
    int64_t i;
    uint64_t u;
    double f;
} gt_imm;

enum {
    GT_FLAG_KEEPDIM = 1 << 0,
    GT_FLAG_SMALLEST = 1 << 1,
    GT_FLAG_CONSUMES = 1 << 2, /* operand 0 dies with this instruction: it may be updated in place */
    GT_FLAG_LAST = 1 << 3,     /* reply: the final piece; send: behind all records before it */
    GT_FLAG_SEGMENTS = 1 << 4, /* welcome: bulk data may go through shared segments */
    GT_FLAG_REFUSED = 1 << 4,  /* computing records inside the dispatcher: `site` is the reason why (session.h) */
    GT_FLAG_UNASKED = 1 << 5,  /* failure: an instruction just failed; nobody asked */
    GT_FLAG_INNER = 1 << 5,    /* creation, copy: the user did not ask for it; replicated if it has no such axis */
    GT_FLAG_WORKERS = 1 << 6,  /* stats: what the workers know, too */
    GT_FLAG_POISON = 1 << 6,   /* failure: the tensor itself has failed; to ask again gives the same answer */
    GT_FLAG_UPDATES =
        1 << 6, /* computing records: the next value of operand 0's tensor, whose name it gets. For replays */
    GT_FLAG_BACKWARD = 1 << 7, /* a gradient: `scope` is the forward op's, whose backward scope applies */
};

/* An operand may be a literal: its 64 bits lie in operand[k] itself. Two bits per operand in `literals`. */
typedef enum gt_literal {
    GT_LITERAL_NONE = 0,
    GT_LITERAL_BOOL = 1,
    GT_LITERAL_INT = 2,
    GT_LITERAL_FLOAT = 3,
} gt_literal;

/* Can a number that the user wrote be an element of this dtype? GT_ERR_VALUE, with PyTorch's text, if it is out of range. As in
 * PyTorch the int -1 may be written for a uint8 (the float -1.0 may not), and infinities and NaN for floats. */
gt_err gt__dtype_check_number(gt_dtype dtype, gt_literal kind, gt_imm number); /* dtype.c */

typedef struct gt_instruction {
    uint16_t op; /* gt_opcode */
    uint8_t dtype;
    uint8_t flags;
    uint8_t literals;
    uint8_t rank; /* of the shape in the tail, where there is one */
    uint16_t tail;
    uint64_t result;
    union {
        uint64_t operand[GT_MAX_OPERANDS];
        gt_imm literal[GT_MAX_OPERANDS];
    };
    gt_imm imm[2];
    uint32_t scope; /* the signal scope it was issued under; 0: none */
    uint32_t site;  /* where the user's code issued it; 0: unknown */
} gt_instruction;

typedef union gt_slot {
    gt_instruction ins;
    int64_t i64[8];
    uint64_t u64[8];
    double f64[8];
    uint8_t bytes[64];
} gt_slot;

_Static_assert(sizeof(gt_instruction) == 64, "an instruction is one cache line");
_Static_assert(sizeof(gt_slot) == 64, "a slot is one cache line");

static inline gt_literal gt__literal(const gt_instruction *ins, unsigned k)
{
    return (gt_literal)(ins->literals >> (2 * k) & 3);
}

static inline unsigned gt__slots_for(size_t bytes)
{
    return (unsigned)((bytes + sizeof(gt_slot) - 1) / sizeof(gt_slot));
}

/* Clear what follows `bytes` in the last of their slots: what lay there before may be somebody else's. */
static inline void gt__slots_pad(gt_slot *slots, size_t bytes)
{
    if (bytes % sizeof *slots)
        memset((uint8_t *)slots + bytes, 0, sizeof *slots - bytes % sizeof *slots);
}

enum {
    GT_PROTOCOL_VERSION = 14,
    GT_MAX_CHUNK = 32 * 1024,                              /* payload bytes one record carries */
    GT_MAX_TAIL = 4 + GT_MAX_CHUNK / (int)sizeof(gt_slot), /* slots */
    GT_MAX_CAT = 256,                                      /* operands of one cat */
    GT_HELLO_TAIL = 4, /* slots: the names of a peer, where a worker listens, its right to join */
    GT_NAME_SLOTS = 2, /* slots: the name of a signal */
    GT_MAX_NAME = GT_NAME_SLOTS * (int)sizeof(gt_slot) - 1,
    GT_MAX_PARTIES = 256,      /* workers that one tensor is spread over */
    GT_GOODBYE_TAIL = 2,       /* slots: a reason */
    GT_SITE_TAIL = 2,          /* slots: file:line */
    GT_MAX_SITES = 1 << 16,    /* of a client that are named */
    GT_MAX_TIMINGS = 256,      /* instructions one timing record tells of */
    GT_MOST_WEIGHT = 1000000,  /* of a client; the least is 1 / GT_MOST_WEIGHT */
    GT_PATH_PIECE = 256,       /* slots of a path's definition that one record has */
    GT_MOST_PARCEL = 16 << 20, /* bytes that a client leaves for the one that attaches its session */
};

/*
 * Control records.
 *
 *   hello    peer -> dispatcher  imm[0] version, imm[1] table hash, flags role (gt_role), result: the process id,
 *                                tail: a slot each with the peer's name, a worker's engine, where that worker
 *                                listens for others ("host:port"), and the server's secret for workers (link/keys.h),
 *                                64 digits, or of a client the token of the session that it attaches; the others are NUL-ended text. operand[0]: the number a worker would like,
 *                                plus one, and GT_HELLO_ bits (link/hello.h); operand[1]: which memory it draws on, the same number for the
 *                                same memory; operand[2]: whose memory its engine reads, scope and site: with whose it
 *                                holds collectives (group and league, engine.h)
 *   welcome  dispatcher -> peer  imm[0] version, imm[1] number of workers now, result: the peer's number;
 *                                operand[0]: entries in the table of workers; to workers: operand[1] the key by
 *                                which they know each other, operand[2] a number that no other worker ever had, and
 *                                later ones have larger ones. Sent again when workers come and go
 *   goodbye  either way          the sender is leaving; tail: a reason, may be empty
 *   data     client -> worker    more bytes for an upload: operand[0] the tensor, imm[0] offset, imm[1] bytes,
 *                                tail: the bytes
 *   free     client -> worker    ids in result, operand[0..2], imm[0..1]; 0 = unused
 *   fetch    client -> worker    operand[0] the tensor, result: a ticket, imm[0] segment (0: send the bytes),
 *                                imm[1] offset in the segment
 *   sync     client -> worker    result: a ticket
 *            disp. -> worker     imm[0] the index of a worker, plus one: it fails if that is gone, so that what it sent may be lost
 *   forget   client -> worker    imm[0] a segment that will not be named again
 *   stats    client -> disp.     result: a ticket; the reply's text is the dispatcher's statistics as JSON, with
 *                                GT_FLAG_WORKERS after the workers have reported
 *            disp. -> worker     the reply is a gt_report and its rows (report.h); with GT_FLAG_LAST it comes
 *                                behind all earlier records of its session, also those put aside (deferred.h)
 *            To a worker, the ticket of a fetch, sync or stats is the dispatcher's: no two questions have the same
 *   reply    worker -> client    result: the ticket, imm[0] offset, imm[1] bytes in the tail; GT_FLAG_LAST on the last.
 *                                To the dispatcher, while it watches: operand[0] start, operand[1] duration, in ns
 *   failure  worker -> client    result: the ticket, imm[0] the gt_err, imm[1] text bytes, tail: the text.
 *                                Where an instruction failed: operand[0] its op, operand[1] its number in the worker's
 *                                stream (to the client: in the log, 0 if there is none), operand[2] the index of the
 *                                worker where it did, plus one (0: this one), scope and site are its own.
 *                                GT_FLAG_UNASKED: no ticket; told when it happens, while the dispatcher watches
 *                                GT_FLAG_POISON: it is the tensor that failed, not the question
 *            disp. -> worker     the result, which is no ticket but a tensor, is refused: for the reason in the tail it is not
 *                                computed. imm[], scope, site and operand[0] as above. GT_FLAG_POISON: it had failed before,
 *                                as in this answer of another worker
 *   site     client -> disp.     imm[0] a number that the `site` of later records has, tail: its file:line as text
 *   watch    disp. -> worker     imm[0] 1: tell how long each record takes, 0: no more
 *            monitor -> disp.    imm[0] topics, imm[1] milliseconds between statistics (monitor.h)
 *   order    monitor -> disp.    imm[0] a gt_monitor_order (report.h), tail: a slot with its text, the name of a worker
 *   timing   worker -> disp.     result: the number of the first record told of, imm[1] how many,
 *                                tail: a gt_timing_entry each
 *   scope    client -> disp.     imm[0] a new scope id, imm[1] the scope around it (0: none), tail: two slots with the
 *                                signal's name, two with the name of its backward signal (empty: the config's)
 *   config   client -> disp.     what a signal means: flags gt_config_flags, rank: axes of its mesh, imm[0] axis, imm[1]
 *                                workers, tail: two slots with the signal's name, two with its backward signal's,
 *                                workers, 8 to a slot, gt_mesh_axis, 2 to a slot
 *   mark     client -> disp.     `scope`: a name to see in the log
 *            disp. -> worker     the reply's imm[0] is its busy time in ns, operand[0] 1 if its engine is asynchronous,
 *                                operand[1] 1 if records wait for another worker
 *   name     client -> disp.     operand[0] a tensor, tail: its name in the program, "layer2.weight". imm[0] 1: instead of the
 *                                name that this tensor has; otherwise, if it has another, two tensors of the program have
 *                                this value. Only for the tape
 *   placement client -> disp.    operand[0] the tensor, result: a ticket; the reply's text says where it lives
 *   path, repeat                 hot paths: core/path.h
 *   detach   client -> disp.     the session stays without this client. A piece of its parcel: result: a ticket, imm[0] offset,
 *                                imm[1] bytes in the tail, operand[0] bytes of all pieces, operand[1] how many ids of tensors the
 *                                parcel ends with: the others are freed. The reply to the last piece is the token, 64 digits; the
 *                                server then ends the connection
 *   attach   client -> disp.     result: a ticket; the reply is the parcel of the session that its hello has attached
 *
 * Between workers. A tag is a number that no other transfer has.
 *
 *   peer     disp. -> worker     result: a worker's index, operand[0] the number that only it ever had,
 *                                operand[1] and [2] its engine's group and league, tail: a slot
 *                                with its name, one with where it listens. Whoever had that index before is gone
 *   share    disp. -> worker     imm[1] is a gt_share_kind: how many workers draw on the memory of this one (imm[0]); the client
 *                                of session imm[0] has left; or the records that follow are of the session imm[0] (0: not
 *                                known, or of none)
 *            worker -> disp.     many records of session imm[0] wait for another worker; or few do again; or those that had
 *                                waited took operand[0] ns, which the answers to marks do not count
 *            client -> disp.     imm[0] its weight
 *   stand_in disp. -> worker     join once more, as the worker of number imm[0], which is dead; tail: a slot with its name
 *            worker -> disp.     it cannot: imm[0] the number
 *   send     disp. -> worker     operand[0] the tensor, imm[0] the worker to send it to, imm[1] tag. Never waits, but
 *                                with GT_FLAG_LAST: for all records of its session before it
 *   recv     disp. -> worker     result: the tensor, imm[0] the worker it comes from, imm[1] tag, dtype, rank, tail: shape
 *   all_reduce, reduce_scatter, all_gather, broadcast, all_to_all
 *            disp. -> worker     result and operand[0] tensors, operand[1] which party this worker is, operand[2] axis of
 *                                the parts before and, in the second byte, after; imm[0] tag, imm[1] parties; dtype,
 *                                rank, tail: the whole tensor's shape, then gt_partner, two to a slot. broadcast: from
 *                                party 0. A worker gets them in the same order as the others do
 *
 * The pieces of an answer come in order, and the last may be a failure. Between those of a long one (the dispatcher's
 * download.c) other answers may come, whole.
 */
enum gt_config_flags {
    GT_CONFIG_SHARD = 1 << 0,
    GT_CONFIG_AXIS = 1 << 1,
    GT_CONFIG_REPLICATED = 1 << 2,
    GT_CONFIG_COMPILE = 1 << 3,
    GT_CONFIG_AUTOMATIC = 1 << 4, /* no signal: spread what is large by itself (GT_AUTO_SHARD) */
    GT_CONFIG_GPIPE = 1 << 5,     /* a stage of a pipeline, in this order: for the client only */
    GT_CONFIG_1F1B = 1 << 6,
};

enum gt_share_kind {
    GT_SHARE_MEMORY = 0,
    GT_SHARE_LEFT = 1,
    GT_SHARE_OWNER = 2,
    GT_SHARE_FULL = 3,
    GT_SHARE_ROOM = 4,
    GT_SHARE_RAN = 5
};

/* One party of a collective: its worker and where its part starts, before and after, along the axes. */
typedef struct gt_partner {
    int64_t worker, start, start_after, unused;
} gt_partner;

/* What party k has of an axis of `extent`, before or after: from its start to the next party's. */
static inline void gt__partner_part(const gt_partner *party, unsigned parties, unsigned k, bool after,
                                    int64_t extent, int64_t *start, int64_t *count)
{
    int64_t begin = after ? party[k].start_after : party[k].start, end = extent;
    for (unsigned other = 0; other < parties; other++) {
        int64_t next = after ? party[other].start_after : party[other].start;
        if (next > begin && next < end)
            end = next;
    }
    *start = begin;
    *count = end - begin;
}

typedef enum gt_role { GT_ROLE_CLIENT = 1, GT_ROLE_WORKER = 2, GT_ROLE_MONITOR = 3 } gt_role;

/* How long one record took, on the worker's clock: 16 bytes, four to a slot. */
typedef struct gt_timing_entry {
    uint64_t start_ns;
    uint64_t duration_ns : 46;
    uint64_t failed : 1; /* its result is poison */
    uint64_t told : 1;   /* the answer to it tells how long it took */
    uint64_t op : 16;
} gt_timing_entry;

_Static_assert(sizeof(gt_timing_entry) == 16, "four entries to a slot");

/*
 * Check one record at `slots`, of which `available` may be read: known op, tail within bounds and within what is
 * available, dtype, rank and literals in range, the tail as long as the form wants it. Flags are not checked: a bit that
 * a record has no use for means nothing. Shapes against operands, and whether there is something to consume, is
 * gt__op_infer's job. On success *length is the record's slots. GT_ERR_PROTOCOL otherwise.
 */
gt_err gt__instruction_check_fully(const gt_slot *slots, size_t available, unsigned *length);

static inline gt_err gt__instruction_check(const gt_slot *slots, size_t available, unsigned *length)
{
    const gt_instruction *ins = &slots->ins;
    /* The common case, an op of one slot, at a glance. */
    if (__builtin_expect(available >= 1 && ins->op < GT_OP_COUNT && gt__op_table[ins->op].tail == 0 &&
                             ins->tail == 0 && ins->op && gt__dtype_valid(ins->dtype) &&
                             ins->rank <= GT_MAX_RANK && !(ins->literals >> (2 * GT_MAX_OPERANDS)),
                         1)) {
        *length = 1;
        return GT_OK;
    }
    return gt__instruction_check_fully(slots, available, length);
}

/* "add 7 = 3, 4", "free 5, 6", "fetch 7 (ticket 1)": one line for logs and errors; returns `text`. */
char *gt__instruction_text(const gt_instruction *ins, char *text, size_t size);

#endif

/*
 * frame.h: the file of the dispatcher's journal (journaled.h), byte by byte.
 *
 * DIR/journal.N is generation N: a header, then frames, each with a checksum. Frames are numbered through all generations. The
 * numbers are those of this processor: one of the other byte order finds a foreign magic.
 *
 * What a session is at the end of the file is what its frames make of it, in order:
 *
 *     SESSION   who it is. A new description begins: until the TURN that ends it, the one before counts. So a session can be written
 *               anew, into this file or the next, and a crash in the middle leaves what was there
 *     DETACHED  it has no client: the token and the parcel for the one that attaches it. Behind SESSION, whose secret is zero then
 *     SUCCESSORS  the workers that have taken the places of drained ones
 *     STATE     slots of recovery->state before the cut
 *     TENSOR    one of a snapshot, with a number of its own (not its id: an id can have another layout later)
 *     DATA      bytes of one of its parts; the parts are complete before a CUT names the tensor
 *     FAILURE   one of its parts does not exist: the answer of the worker, which says why, in the place of the part's DATA. Also of a
 *               part without bytes, which has no DATA
 *     CUT       a snapshot: the numbers of its tensors, and where the stream goes on behind it. Records and refusals before that are void
 *     TURN      what the client's records of one turn have changed: the records, new texts, refusals, workers that it uses; with the
 *               slots that were consumed from its link. It counts as a whole, when the frame of it that is the last has come
 *     END       the session has left, or cannot be restored any more
 *
 * and for session 0, WORKERS: the table of workers.
 *
 * Changed from the first design: the parts of a turn (records, sites, weight, refusals) are in one frame, because a site without its record in the
 * consumed slots would come twice and end the session. Records that belong to the state are not written twice: the reader takes them from
 * the records that a CUT drops.
 */
#ifndef GT_DISPATCHER_JOURNAL_FRAME_H
#define GT_DISPATCHER_JOURNAL_FRAME_H

#include <time.h>

#include "core/instruction.h"
#include "core/mesh.h"
#include "core/op.h"
#include "link/link.h"

#define GT_JOURNAL_MAGIC 0x006C6E72756F6A67u /* "gjournl" on x86-64 and arm64 */

enum {
    GT_JOURNAL_LAYOUT = 4,      /* of everything in this file: a change makes it another one */
    GT_JOURNAL_PIECE = 1 << 20, /* bytes of a tensor or of slots in one frame, at most */
};

typedef struct gt_journal_header {
    uint64_t magic;
    uint32_t layout, protocol; /* GT_JOURNAL_LAYOUT, GT_PROTOCOL_VERSION */
    uint64_t table_hash;       /* gt__op_table_hash */
    uint64_t generation;
    uint64_t sequence; /* of its first frame */
    uint32_t port;     /* of the server */
    uint32_t crc;      /* of all before it */
} gt_journal_header;

typedef enum gt_frame_kind {
    GT_FRAME_SESSION = 1,
    GT_FRAME_STATE,
    GT_FRAME_TENSOR,
    GT_FRAME_DATA,
    GT_FRAME_CUT,
    GT_FRAME_TURN,
    GT_FRAME_END,
    GT_FRAME_WORKERS,
    GT_FRAME_DETACHED,
    GT_FRAME_SUCCESSORS,
    GT_FRAME_FAILURE,
} gt_frame_kind;

typedef struct gt_frame {
    uint32_t bytes; /* behind this, without the padding to a multiple of 8, which is zero */
    uint32_t kind;
    uint64_t session;
    uint64_t sequence; /* one more than that of the frame before */
    uint32_t unused;   /* zero */
    uint32_t crc;      /* of all before it, then of the bytes with their padding */
} gt_frame;

typedef struct gt_frame_session {
    uint8_t secret[GT_LINK_SECRET];
    char user[48], host[64], key[48], name[64]; /* link->user, host, key; session->name */
    uint64_t first_record, first_refusal;       /* the next of each has this number */
} gt_frame_session;

/* Behind it: the parcel. */
typedef struct gt_frame_detached {
    char token[72];    /* gt_handover's */
    uint64_t until_ns; /* when it expires, since 1970 */
    uint64_t bytes, kept;
} gt_frame_detached;

/* One of the list. */
typedef struct gt_frame_successor {
    int32_t number, worker;
} gt_frame_successor;

/* Behind it, each padded: the workers of the copies, and of the parts, as int32_t; the layout, if there is one. */
typedef struct gt_frame_tensor {
    uint64_t number, id;
    uint32_t scope, site, reason;
    uint8_t dtype, rank, ahead, has_layout;
    uint32_t copies, parts; /* parts 0: it is lost, for the reason of that number */
    int64_t shape[GT_MAX_RANK];
} gt_frame_tensor;

/* Behind it: the members; the target that asked for it, if there is one. */
typedef struct gt_frame_layout {
    uint32_t kind, axis, members, has_target;
    gt_mesh mesh;
    uint32_t unused;
} gt_frame_layout;

typedef struct gt_frame_member {
    int64_t worker, start, count;
} gt_frame_member;

/* Behind it: `workers` of int32_t, padded. */
typedef struct gt_frame_target {
    uint32_t scope;
    uint8_t backward, split, automatic, unused;
    int64_t axis;
    gt_mesh mesh;
    uint32_t workers;
} gt_frame_target;

/* Behind it: the bytes. */
typedef struct gt_frame_data {
    uint64_t number; /* of the tensor */
    uint64_t offset;
    uint32_t part, unused;
} gt_frame_data;

/* Behind it: the slots of a failure. */
typedef struct gt_frame_failure {
    uint64_t number; /* of the tensor */
    uint32_t part, unused;
} gt_frame_failure;

/* Behind it: the numbers of its tensors. */
typedef struct gt_frame_cut {
    uint64_t record, refusal; /* the first behind it */
    uint64_t epoch;
    int32_t sums_when; /* gt_snapshot's */
    uint32_t tensors;
} gt_frame_cut;

/* Behind it: the slots; the numbers of workers as int32_t, padded; the refusals; the texts, each a gt_frame_text. */
typedef struct gt_frame_turn {
    uint64_t consumed; /* slots of the link: in the last frame of a turn */
    uint64_t first; /* the number of the first slot: how many the journal had before it, since the session began */
    uint32_t slots;
    uint32_t last; /* frames of the turn follow: 0; none does: 1 */
    double weight;
    int32_t home;      /* the number of its home worker; -1: it has none */
    uint32_t workers;  /* that it uses besides: all of them each time, in the last frame */
    uint32_t refusals; /* new ones, */
    uint32_t sites;    /* new texts of each kind, in this order */
    uint32_t reasons;
    uint32_t left_out; /* 0 or 1, in the last frame: session->left_out */
} gt_frame_turn;

typedef struct gt_frame_refusal {
    uint64_t id, limit, used, more;
} gt_frame_refusal;

typedef struct gt_frame_text {
    uint64_t bytes; /* behind it, padded to a multiple of 8, without a NUL */
} gt_frame_text;

/* Behind it: the entries. */
typedef struct gt_frame_workers {
    uint64_t worker_key, lives, next_session, next_segment, next_tag;
    uint64_t count;
} gt_frame_workers;

typedef struct gt_frame_worker {
    uint64_t life;
    uint32_t present, relief;
    char name[64], engine[64];
} gt_frame_worker;

/* Nanoseconds since 1970: times that outlive a process. */
static inline uint64_t gt__frame_wall_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* How many bytes a frame with so many behind it takes. */
static inline size_t gt__frame_size(size_t bytes)
{
    return sizeof(gt_frame) + (bytes + 7) / 8 * 8;
}

/* Number a frame, whose bytes and padding follow it in memory, and give it its checksum. */
void gt__frame_seal(gt_frame *frame, uint64_t sequence);
/* The frame at the beginning of `bytes`, with its padding; NULL: there is none that is whole, has this number and its checksum. */
const gt_frame *gt__frame_check(const void *at, size_t bytes, uint64_t sequence);

void gt__journal_header_make(gt_journal_header *header, uint64_t generation, uint64_t sequence, int port);
/* GT_ERR_VALUE: not this journal's; the text names `path`, and both magics, layouts, versions, op tables or ports. */
gt_err gt__journal_header_check(const gt_journal_header *header, const char *path, int port);

#endif

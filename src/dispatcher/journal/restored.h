/*
 * restored.h: what a journal says of the sessions of the server that wrote it.
 *
 * The generations are read in order. The reading of a file ends at the first frame that is not whole or has another checksum: what a crash left
 * behind. If a later generation begins with a frame behind that, frames are missing: the sessions that it does not describe
 * anew are left out, and named. A client that was given credit for slots that its session has not consumed here cannot send them again;
 * the link refuses it by its numbers: it must compare `consumed` with what the client has kept.
 *
 * How a session goes on: gt__session_new with this number and name, with a link that is expected (secret, user, key) and has consumed `consumed` slots;
 * its recovery gets `saved`, `state`, the records and refusals, and waits (GT_RECOVER_WAIT) for its home and `workers`. Take what you use out of the struct
 * (set it to NULL); gt__restored_free frees the rest. Uploads whose pieces have not all come are only in the records: note them (fillings.h) before the
 * client's next record is served. Questions among the records were not answered, or were: leave them out, the client asks again.
 * When all are there: gt__journaled_begin for each, then gt__disk_journal_restored.
 */
#ifndef GT_DISPATCHER_JOURNAL_RESTORED_H
#define GT_DISPATCHER_JOURNAL_RESTORED_H

#include "core/slot_queue.h"
#include "dispatcher/journal/frame.h"
#include "dispatcher/recover/recover.h"
#include "dispatcher/successors.h"
#include "dispatcher/texts.h"

typedef struct gt_restored_session {
    uint64_t number;
    uint8_t secret[GT_LINK_SECRET];
    char user[48], host[64], key[48], name[64];
    double weight;
    uint64_t consumed; /* slots of its link */
    int32_t home;      /* the number of a worker; -1: it had none */
    int32_t *workers;  /* numbers of those that it used; home among them, or not */
    uint32_t worker_count;
    gt_snapshot *saved;   /* NULL: the beginning. Position, held and refused are 0; `state` counts slots of: */
    gt_slot_queue state;  /* all scopes, configs and paths: before the snapshot, then those of the records */
    gt_slot *records;     /* behind the snapshot, whole ones */
    size_t slots;         /* of them */
    gt_refusal *refusals; /* of the records, in their order */
    uint32_t refusal_count;
    gt_texts sites, reasons; /* session->sites and reasons */
    char *left_out;          /* session->left_out */
    gt_successors successors;
    char token[72]; /* gt_handover's; "": it has a client. Otherwise: */
    uint8_t *parcel;
    uint64_t parcel_bytes, parcel_kept, until_ns; /* gt_frame_detached's */
} gt_restored_session;

typedef struct gt_restored_worker {
    uint64_t life;
    bool present, relief;
    char name[64], engine[64];
} gt_restored_worker;

typedef struct gt_restored {
    gt_restored_session **session; /* by number */
    uint32_t session_count;
    gt_restored_worker *worker; /* by number */
    uint32_t worker_count;
    uint64_t worker_key;                                  /* 0: no worker was written */
    uint64_t lives, next_session, next_segment, next_tag; /* at least; next_session is above all sessions */
    uint64_t oldest;               /* the first generation that was there; that of the writer, if there was none */
    uint64_t generation, sequence; /* of a writer that goes on: above all that were read */
    uint64_t frames;               /* that were read */
    unsigned files;
} gt_restored;

/* Read DIR/journal.*, which no other process writes to. Damage is logged, with the offset, and the file is cut there if it is the newest. No files: an empty
 * result. GT_ERR_VALUE: a file is foreign, or cannot be read; GT_ERR_MEMORY: memory is short, and nothing is cut. The server must not start then. */
gt_err gt__restored_read(const char *directory, int port, gt_restored **restored);
/* The same for the bytes of one file; *good: where it is cut. They are aligned to 8 bytes. */
gt_err gt__restored_parse(const void *bytes, size_t size, int port, size_t *good, gt_restored **restored);
/* The session of this number; NULL: there is none. */
gt_restored_session *gt__restored_find(const gt_restored *restored, uint64_t number);
/* May be NULL inside. */
void gt__restored_free(gt_restored **restored);

#endif

/*
 * snapshot.h: the values of all tensors of a session, at one position of its stream.
 *
 * To take one, the dispatcher asks the workers for the parts of each tensor, by ordinary fetches in the stream: tensors do not
 * change, so the stream goes on meanwhile. A tensor that the snapshot before has, with the same layout, is not asked
 * for again. The values lie in the server's memory, or on disk (spool.h). Layouts are kept with them: a tensor that is restored has its
 * parts on the same workers, so that what follows is computed in the same way, bit for bit.
 */
#ifndef GT_DISPATCHER_RECOVER_SNAPSHOT_H
#define GT_DISPATCHER_RECOVER_SNAPSHOT_H

#include "dispatcher/recover/hold.h"
#include "dispatcher/recover/journal.h"
#include "dispatcher/recover/spool.h"
#include "dispatcher/session.h"
#include "dispatcher/spread/layout.h"

/* The bytes of a tensor on one worker. Of a replicated tensor there is one part, for all members. */
typedef struct gt_saved_part {
    int32_t worker;
    gt_meta meta;
    uint8_t *data; /* NULL: empty, not here yet, or in one of the following */
    gt_hold *hold;
    gt_spooled *spooled;
    gt_slot *failure; /* it does not exist: why, as the worker has answered. NULL: it does */
    bool postponed;   /* there was no room, and only its first element was asked for: it may have failed */
} gt_saved_part;

/* A tensor. Consecutive snapshots share it. */
typedef struct gt_saved {
    uint32_t references;
    uint32_t reason; /* handle->slot of a tensor that is lost */
    uint64_t id;
    uint32_t scope, site; /* handle's */
    gt_meta meta;
    gt_layout *layout;       /* NULL: on one worker, or lost */
    bool ahead;              /* gt_spread's */
    uint64_t journal_number; /* in the server's journal (journal/journaled.h); 0: none */
    int32_t *copies;         /* workers that have whole copies, as in gt_spread */
    unsigned copy_count;
    unsigned part_count; /* 0: lost. The last is the whole tensor if there are copies of a split one */
    gt_saved_part part[];
} gt_saved;

typedef struct gt_snapshot {
    gt_journal_position position; /* of the first record behind it */
    uint64_t epoch;               /* of the session: later ones are behind it */
    uint32_t held;                /* of the session's holds, those before it */
    uint32_t refused;             /* of its refusals, the same */
    size_t state;                 /* of the session's state records, those before it (recover.c) */
    int sums_when;                /* gt_sums.when, which is learned from the program; -1: nothing is spread */
    gt_saved **tensor;
    uint32_t count, capacity;
    uint32_t *index;      /* a hash table by id: places in `tensor` plus one, 0: unused */
    unsigned index_bits;  /* of its size */
    bool asking;          /* not all tensors were asked for: */
    uint32_t cursor;      /* in the session's handles */
    uint32_t postponed;   /* parts that are asked for when all answers so far have come */
    bool waits;           /* for these answers, before it asks for the first of them */
    uint32_t rest;        /* in `tensor`: postponed parts before it were asked for */
    uint32_t outstanding; /* parts that have not come yet */
    bool strided;         /* views that are not contiguous are taken, too */
    bool failed;          /* one of them cannot be had */
    bool behind;          /* because the disk is too slow */
    uint64_t bytes;       /* of memory */
    uint64_t asked_bytes; /* of the parts that were asked for, without those that have failed */
    uint64_t due_bytes;   /* of those of them that have not come yet */
} gt_snapshot;

/* Parts that are being uploaded again: a long one takes many turns of the dispatcher. */
typedef struct gt_fill {
    const gt_saved_part *part;
    int32_t worker;
    uint32_t slot;
    uint64_t offset; /* bytes that were sent */
} gt_fill;

typedef struct gt_fills {
    gt_fill *fill;
    uint32_t count, capacity;
} gt_fills;

/* A snapshot of all tensors that the session has now. gt__snapshot_ask asks for them; until it has, the session must not make or free
 * any. It fails if one of them cannot be had or, unless `strided`, is a view that is not contiguous: restored, it would be, and what is
 * computed from it may round in another way. */
gt_err gt__snapshot_new(const gt_session *session, bool strided, gt_snapshot **snapshot);
/* One that is complete, of these tensors; takes them, unless it fails. */
gt_err gt__snapshot_of(gt_saved **tensors, uint32_t count, gt_snapshot **snapshot);
/* Ask for the next tensor, unless `before`, which may be NULL, has it. While `asking`. Returns how many slots that takes of a turn. */
gt_err gt__snapshot_ask(gt_session *session, gt_snapshot *snapshot, const gt_snapshot *before, unsigned *slots);
/* Whether answers must come before it can ask for more: how much memory the rest may have depends on which tensors have failed. */
static inline bool gt__snapshot_waits(const gt_snapshot *snapshot)
{
    return snapshot->waits && !snapshot->rest && snapshot->outstanding && !snapshot->failed;
}
/* Whether a snapshot, which may be NULL, has this tensor as it is placed now: the next one need not ask for it. */
bool gt__snapshot_has(const gt_session *session, const gt_snapshot *snapshot, const gt_handle *handle);
/* A piece of a part, or a failure. */
void gt__snapshot_piece(gt_session *session, gt_saved_part *part, const gt_slot *record);
/* Give the tensor to the session again: a handle, and uploads to the workers. Those of its parts that take more than one record are in
 * the session's fills. */
gt_err gt__saved_restore(gt_session *session, const gt_saved *saved);
/* Whether the next piece of the fills, if there are any, can be sent without waiting for the disk. */
bool gt__saved_fill_is_ready(const gt_session *session);
/* Send the next piece of one of the fills; there is one. */
gt_err gt__saved_fill(gt_session *session);
/* Its tensors are restored on the worker `to` where they were on `from`, which no longer has any. False: out of memory. */
bool gt__snapshot_moved(gt_snapshot *snapshot, int32_t from, int32_t to);
/* None of its tensors is spread, and all are restored on this worker. Returns whether one was elsewhere. */
bool gt__snapshot_gathered(const gt_snapshot *snapshot, int32_t worker);
/* One reference less. May be NULL. */
void gt__saved_release(gt_saved *saved);
/* No worker may owe it a part any more. NULL is fine. */
void gt__snapshot_free(gt_snapshot **snapshot);
/* So many of its tensors; *snapshot is NULL when it is free. */
void gt__snapshot_free_some(gt_snapshot **snapshot, size_t *tensors);

#endif

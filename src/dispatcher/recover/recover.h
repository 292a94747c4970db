/*
 * recover.h: a session goes on when a worker dies, as if nothing had happened.
 *
 * With `gt server --recover` each session keeps a journal of what its client sent (journal.h) since the last snapshot of
 * its tensors (snapshot.h). When a worker that the session uses is lost, the session is rolled back: its tensors on all
 * workers are dropped, the snapshot is uploaded to the replacement or to another worker, and the journal is placed again.
 * Questions that the client has an answer to are left out, the others are answered. The client notices only the delay.
 *
 * A session without sharding goes to any worker. A session with sharding waits until each worker that it used, its
 * replacement or, after a moment, another that stands in for it (stand_in.h) is there. Without any worker the tensors are
 * lost in the end, as without recovery.
 *
 * Read next: recover.c has the phases of a recovery, keep.c what is done while nothing happens.
 */
#ifndef GT_DISPATCHER_RECOVER_RECOVER_H
#define GT_DISPATCHER_RECOVER_RECOVER_H

#include "dispatcher/recover/snapshot.h"
#include "dispatcher/pending.h"
#include "dispatcher/session.h"

typedef enum gt_recover_phase {
    GT_RECOVER_NOTHING, /* all is well */
    GT_RECOVER_WAIT,    /* for workers */
    GT_RECOVER_RESTORE, /* the tensors of the snapshot are uploaded */
    GT_RECOVER_REPLAY,  /* the journal is placed */
} gt_recover_phase;

/* An answer that the client waits for. */
typedef struct gt_owed {
    uint64_t ticket;
    uint64_t sent; /* bytes of it that the client has */
    bool placed;   /* the question is with the worker: only `sent` is still of use */
} gt_owed;

/* A record of the journal that a limit of the session refused: it is refused again when it is placed again. */
typedef struct gt_refusal {
    uint64_t id; /* of its result */
    gt_limit limit;
    uint64_t used, more; /* as in the text */
} gt_refusal;

typedef struct gt_recovery {
    gt_journal journal;
    gt_refusal *refusals; /* in the order of the journal */
    uint32_t refusal_count, refusal_capacity;
    uint32_t refusal_at;  /* the next one, while the journal is placed again */
    gt_holds holds;       /* those of its uploads whose data stays in the client's segments, in order */
    gt_slot_queue state;  /* the records that change what later ones mean: scopes, configs, paths */
    gt_snapshot *saved;   /* NULL: the beginning */
    gt_snapshot *saving;  /* under way; NULL: none */
    gt_snapshot *dropped; /* what is left of the one before `saved`; NULL: nothing */
    uint64_t charged;     /* bytes of this in dispatcher->recovery.used */
    bool defining;        /* a path whose pieces have not all come: no snapshot may be between them */
    bool hopeless;        /* a record is missing in `state` */

    /* When the next snapshot is due: keep.c. On the scale of gt__recover_clock. */
    enum { GT_KEEP_REST, GT_KEEP_WATCH, GT_KEEP_STRIKE } stage;
    double look_ns, since_ns, until_ns;
    double upload_ns;  /* that the client took for the uploads that were held, about */
    uint32_t low;      /* tensors: the fewest while it was watched */
    unsigned failures; /* of snapshots, in a row */
    bool
        restarted; /* from the server's journal, without a snapshot since: one is due, lest the next restart takes longer */

    gt_recover_phase phase;
    uint64_t deadline_ns; /* of the wait */
    uint64_t stand_in_ns; /* when other workers are asked to stand in */
    uint64_t doubt_ns;    /* until then a worker may be dead although it is still there; 0: there is no doubt */
    bool *needed;         /* by worker: the session used it */
    int32_t needed_count;
    int32_t home;        /* the index of its home worker */
    bool alone;          /* any worker will do; decided when the recovery begins, and kept until its end */
    bool intact;         /* tensors were not dropped since the loss */
    unsigned attempts;   /* recoveries in a row that workers did not execute to the end: suspect.h */
    uint64_t asked;      /* the number of the question whether they have; 0: none counts */
    unsigned unexecuted; /* workers that have not answered it */
    char reason[160];
    size_t state_at;
    uint32_t tensor_at;
    gt_fills fills; /* of the tensors before it */
    gt_journal_position journal_at;
    uint32_t hold_at;     /* the next hold that the journal names */
    uint64_t hold_offset; /* bytes of it that were placed */
    gt_owed *owed;
    uint32_t owed_count, owed_capacity;
} gt_recovery;

/* keep.c */
/* The session is recoverable from now on, if the server wants that and its modifiers allow it. */
void gt__recovery_new(gt_session *session);
/* It is not any more. What it kept is freed in a bounded number of tensors a turn: remains.h. */
void gt__recovery_end(gt_session *session);
/* Tensors of the snapshots. */
size_t gt__recovery_tensors(const gt_recovery *recovery);
/* So many of them; *recovery is NULL when all is free. */
void gt__recovery_free_some(gt_recovery **recovery, size_t *tensors);
/* Where the client's next records go, of one slot each; *count, which is at least 1, becomes how many at most. NULL: the session
 * is not recoverable any more. gt__recover_noted says how many there were. */
gt_slot *gt__recover_window(gt_session *session, size_t *count);
static inline void gt__recover_noted(gt_session *session, unsigned count)
{
    gt__journal_commit(&session->recovery->journal, count);
}
/* Where a record that the client sends is to be copied, of any kind, given its first slot. NULL: anywhere. */
gt_slot *gt__recover_reserve(gt_session *session, const gt_instruction *ins);
/* It is there. While the session is recoverable. */
void gt__recover_note(gt_session *session, const gt_slot *record);
/* Whether the session has to go on with a snapshot before it takes more of the client's records. */
static inline bool gt__recover_keeps(const gt_session *session)
{
    const gt_recovery *recovery = session->recovery;
    return recovery && (recovery->dropped || (recovery->saving && recovery->saving->asking));
}
/* Whether it does that when answers of workers have come. */
static inline bool gt__recover_keeps_later(const gt_session *session)
{
    return gt__recover_keeps(session) && session->recovery->saving &&
           gt__snapshot_waits(session->recovery->saving);
}
/* In the place of the client's records: go on with it, *left slots at most. A program with many tensors takes many turns for this. */
gt_err gt__recover_keep(gt_session *session, size_t *left);
/* A part of the snapshot under way. */
void gt__recover_piece(gt_session *session, gt_saved_part *part, const gt_slot *record);
/* A record was refused, while nothing is recovered. */
void gt__recover_note_refusal(gt_session *session, const gt_refusal *refusal);
/* Path definitions among the first `slots` state records that later ones of them replace are dropped. Returns how many slots are left. */
size_t gt__recover_compact_state(gt_slot_queue *state, size_t slots);
/* Whether a record changes what later ones mean, and so belongs to recovery->state. */
static inline bool gt__recover_is_state(gt_opcode op)
{
    return op == GT_OP_scope || op == GT_OP_config || op == GT_OP_path;
}
/* See gt__recover_consider. */
void gt__recover_weigh(gt_session *session);
/* The session's work so far: the workers' time and, since large uploads take them none, the client's time for these. */
static inline double gt__recover_clock(const gt_session *session)
{
    return session->account.total_ns + session->recovery->upload_ns;
}
/* Between two records, with none waiting: take a snapshot if one is due. */
static inline void gt__recover_consider(gt_session *session)
{
    if (session->recovery && gt__recover_clock(session) >= session->recovery->look_ns)
        gt__recover_weigh(session);
}

/* recover.c */
/* The session was restored from the journal of a server that ended, with all that it keeps: it waits for its workers, of these numbers
 * (home -1: it had none). */
gt_err gt__recover_restart(gt_session *session, int32_t home, const int32_t *workers, uint32_t count);
/* Whether it has, or had before a loss, something on this worker. */
bool gt__recover_uses(const gt_session *session, int32_t worker);
/* What the session had on the worker `from` is on `to` from now on. */
void gt__recover_moved(gt_session *session, int32_t from, int32_t to);
/* `worker` is gone: before anything else is told so. */
void gt__recover_lose(gt_session *session, const gt_dispatch_worker *worker, const char *reason);
/* A worker answers that it lost the connection to another. That one is dead, perhaps, and its own end was not noticed yet: a
 * process that ends closes its connections one after the other, and has memory to give back between them. The client must not
 * have this answer. */
void gt__recover_doubt(gt_session *session, const gt_pending *asked, const gt_slot *failure);
static inline bool gt__recover_active(const gt_session *session)
{
    return session->recovery && session->recovery->phase != GT_RECOVER_NOTHING;
}
static inline bool gt__recover_waits(const gt_session *session)
{
    return session->recovery && session->recovery->phase == GT_RECOVER_WAIT;
}
/* While the journal is placed again: the refusal of the record with this result; NULL: it was not refused. */
const gt_refusal *gt__recover_refusal(gt_session *session, uint64_t id);
/* Whether a record of the journal that is still to be placed was refused. */
static inline bool gt__recover_refuses(const gt_session *session)
{
    return session->recovery->refusal_at < session->recovery->refusal_count;
}
/* Whether the workers that it waits for are there, and it need not wait for another session. */
bool gt__recover_ready(const gt_session *session);
/* In the place of the client's records: those of the recovery, *left slots at most. */
gt_err gt__recover_serve(gt_session *session, size_t *left);
/* Whether the client has this piece of an answer already. */
bool gt__recover_has(gt_session *session, const gt_slot *answer);
/* Now and then: end the recoveries that have waited for too long. */
void gt__recover_look(gt_dispatcher *dispatcher);

#endif

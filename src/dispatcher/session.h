/*
 * session.h: one client: its tensors, its chain of modifiers, and the worker that its tensors live on.
 *
 * The parts have files of their own: handles.h its tensors, output.h records that wait, answers.h its answers,
 * relays.h its shared segments, download.h its long fetches, spread/spread.h tensors on several workers, recover/recover.h
 * what happens when a worker dies.
 */
#ifndef GT_DISPATCHER_SESSION_H
#define GT_DISPATCHER_SESSION_H

#include "dispatcher/fillings.h"
#include "dispatcher/handles.h"
#include "dispatcher/modifier.h"
#include "dispatcher/observe/observe.h"
#include "dispatcher/output.h"
#include "dispatcher/paths.h"
#include "dispatcher/peer.h"
#include "dispatcher/quota.h"
#include "dispatcher/relays.h"
#include "dispatcher/successors.h"
#include "dispatcher/share.h"
#include "dispatcher/texts.h"

typedef struct gt_download gt_download;
typedef struct gt_signals gt_signals;
typedef struct gt_spreading gt_spreading;
typedef struct gt_recovery gt_recovery;
typedef struct gt_handover gt_handover;
typedef struct gt_journaled gt_journaled;

/* The bytes of a session's tensors, when they were last summed up: stats.c. */
typedef struct gt_counted {
    uint64_t bytes, instructions, at_ns, took_ns;
} gt_counted;

/* Where a worker was last seen executing the session's records: stats.c. */
typedef struct gt_seen {
    uint32_t scope, site;
    uint32_t path;    /* the number of the hot path that it was, plus one; 0: it was none */
    uint64_t waiting; /* records that the client has emitted and the dispatcher has not taken yet */
} gt_seen;

/* Why a fetch into shared memory fails when the session has got another home worker meanwhile. */
#define GT_HOME_LOST                                                                                              \
    "fetch: a worker was lost while the tensor was read, and the present one has no shared memory: read it again"

struct gt_session {
    gt_dispatcher *dispatcher;
    gt_peer *peer;
    gt_link *link;
    gt_modifier *chain;
    gt_output output;         /* records that wait between the modifiers and placement */
    gt_dispatch_worker *home; /* where this session's tensors live; NULL: there is no worker */
    gt_signals *signals;      /* NULL: it names none */
    uint32_t plain_scope;     /* the last scope of which it is known that it places nothing; 0: none */
    gt_spreading *spreading;  /* NULL: all its tensors are at home */
    gt_recovery *recovery;    /* NULL: it is lost with its worker (recover/recover.h) */
    gt_journaled *journaled;  /* NULL: it ends with the server (journal/journaled.h) */
    gt_handover *handover;    /* NULL: no client leaves it to another (live/handover.h) */
    gt_handles handles;
    gt_fillings fillings;
    gt_successors successors;
    struct {
        bool resharded; /* are to be placed as the signals say now */
        bool wanted;    /* its tensors are to be moved: nothing more is placed once they can be */
        uint64_t asked,
            answered; /* the number of the last question behind what was placed before, and of the last that was answered */
    } moving;        /* live/evacuate.h */
    gt_quota *quota; /* NULL: its tensors are not limited */
    gt_paths *paths; /* NULL: none was defined */
    bool holding;    /* a run on spread tensors is recorded: what the workers get is held back (spread/replay.h) */
    bool
        unannounced; /* its client is not welcomed before the journal has the session: a restarted server must know it then */
    bool settled;   /* the modifiers were told that the client is idle */
    uint64_t epoch; /* counts snapshots: recover/snapshot.h */
    uint64_t instructions;
    uint64_t number;
    char name[64];
    gt_watched_client watched;
    gt_texts reasons; /* why tensors are lost, by handle->slot; 0: `lost` */
    char lost[160];   /* why tensors without a worker are lost */
    bool ended;       /* for that reason it ends: its client is told when it is served next */
    char *left_out;   /* why tensors were refused that have no handle (quota.h); NULL: there are none */
    gt_texts sites;   /* places in the client's code, by number */
    gt_relays relays;
    gt_download *downloads; /* in the order asked for; the first gets its parts */
    gt_dispatch_worker
        *download_at; /* the worker whose link has no room to ask for a part; NULL: it does not wait */
    gt_session *download_previous, *download_next; /* others that do */
    gt_slot_queue unread;                          /* answers the client has not made room for yet: answers.h */
    gt_account account;                            /* its share of the workers' time */
    gt_counted counted;
    gt_seen seen;
};

gt_err gt__session_new(gt_peer *peer, const gt_slot *hello);
/* Frees its tensors on the workers. `reason`: why it ends. */
void gt__session_free(gt_session *session, const char *reason);
/* Handle at most `budget` slots of the client's records. *progress is set if any. An error ends the session. */
gt_err gt__session_serve(gt_session *session, size_t budget, bool *progress);

/* "train.py:12": a place in the client's code; NULL: unknown. */
const char *gt__session_site(const gt_session *session, uint32_t site);
/* Tell the client what it has to know of the session and the workers. */
void gt__session_welcome(gt_session *session);
/* The journal has the session, or will not have it. */
void gt__session_announce(gt_session *session);
/* A worker has joined. */
void gt__session_new_worker(gt_session *session);
/* `worker` is gone: its tensors are lost. */
void gt__session_lose_worker(gt_session *session, gt_dispatch_worker *worker, const char *reason);
/* Make `worker` its home, unless it is that already, and tell the client. NULL: there is no worker. */
void gt__session_give_home(gt_session *session, gt_dispatch_worker *worker);
/* Free all its tensors on the workers, and forget its handles and signals. */
gt_err gt__session_drop_tensors(gt_session *session);
/* Why a handle without a worker is lost. */
const char *gt__session_lost(const gt_session *session, const gt_handle *handle);
/* A number for such a reason, for handle->slot. */
uint32_t gt__session_reason(gt_session *session, const char *text);
/* The error of a record that names a tensor that the session does not have. */
gt_err gt__session_unknown(const gt_instruction *ins, uint64_t id);
/* The home worker owes an answer to this record. */
gt_err gt__session_expect(gt_session *session, const gt_slot *record, gt_instruction *question);

#endif

/* workers.h: the dispatcher's side of each worker: the table of workers, from joining to leaving, and their answers.
 * worker_stream.h writes to them. */
#ifndef GT_DISPATCHER_WORKERS_H
#define GT_DISPATCHER_WORKERS_H

#include "core/slot_queue.h"
#include "dispatcher/observe/observe.h"
#include "dispatcher/observe/reports.h"
#include "dispatcher/paths.h"
#include "dispatcher/peer.h"
#include "dispatcher/pending.h"
#include "dispatcher/relays.h"
#include "dispatcher/runs.h"
#include "dispatcher/share.h"
#include "dispatcher/slot_numbers.h"

/* Records and frees that wait to be written to a worker: worker_stream.c. */
typedef struct gt_backlog {
    gt_slot_queue outbox;                         /* records that its link had no room for */
    bool into_outbox;                             /* where the last reserve was */
    bool behind;                                  /* something waits for room in its link: gt__worker_catch_up */
    gt_session *downloads_first, *downloads_last; /* sessions that wait to ask for a part: download.c */
    gt_instruction frees;                         /* slots to be freed in one record */
    unsigned free_count;
    bool holding;     /* all records go to the outbox, while a run is recorded: spread/replay.h */
    size_t held_from; /* slots that it had before */
} gt_backlog;

/* What moves and collectives brought to a worker; gathers: ops without a sharding rule. */
typedef struct gt_traffic {
    uint64_t moves, collectives, gathers, bytes;
} gt_traffic;

/* A worker that stands in for a dead one: recover/stand_in.h. */
typedef struct gt_stand_in {
    bool present;       /* the worker of this number is one */
    bool dismissed;     /* and was told to leave */
    int32_t host;       /* the number of the worker that was asked to run it */
    uint64_t host_life; /* and that worker's generation */
    uint64_t asked_by;  /* when it must have joined; 0: none was asked for */
} gt_stand_in_state;

typedef struct gt_moved {
    uint64_t tensors, bytes;
} gt_moved;

/* A worker that leaves, with its tensors moved to others before: live/drain.h. */
typedef struct gt_leaving {
    bool wanted;
    bool dismissed;       /* a goodbye is at the end of its stream */
    int32_t relief;       /* the number of the stand-in for sharded sessions, plus one; 0: none was asked for */
    unsigned unconfirmed; /* of its sessions, those whose tensors may not have arrived elsewhere yet */
    uint64_t lost_by_ns; /* tensors did not arrive, so it is gone, which will be noticed by then; 0: all is well */
    uint64_t arriving;   /* of any worker: bytes that come from others */
    gt_moved moved;
} gt_leaving;

struct gt_dispatch_worker {
    int32_t index;
    bool observed; /* each of its records is reported to the observer */
    bool closed;   /* sessions must wait for their turn: share.h. Here because every record asks */
    uint64_t
        owner; /* the session whose records its stream has now; 0: not known, or of none: worker_stream.h. The same */
    gt_peer *peer; /* NULL: gone; the entry may be reused */
    gt_link *link;
    bool draining; /* it gets no new sessions: orders.h */
    uint64_t instructions, sessions;
    uint64_t records; /* in its stream since it joined: the number of the last one */
    gt_backlog backlog;
    gt_slot_numbers slots;
    gt_pendings pendings;
    gt_relays_known relays;
    bool paths[GT_WORKER_PATHS]; /* by number: the worker knows a path of this number */
    gt_stand_in_state stand_in;
    bool
        relief; /* a stand-in for one that left: it serves the sessions that were moved to it, and configs cannot name it */
    gt_leaving leaving;
    bool cannot_host; /* a stand-in that it was asked for did not come */
    uint64_t life;    /* its generation: no worker before it, of any index, had this number */
    char name[64], engine[64], listens[64];
    const char *exchange; /* by which it passes data to others, one of gt__exchange_names */
    uint64_t sweep_ns;    /* when to remove the socket that it left, if it was killed; 0: never */
    uint64_t memory;      /* which memory it draws on */
    uint64_t group;       /* whose memory its engine reads; 0: no other's (engine.h) */
    uint64_t league;      /* with whom its engine holds collectives; 0: with none */
    uint64_t host;        /* on which it is, for other workers */
    unsigned sharers;     /* how many workers do: it was told so */
    gt_traffic traffic;
    gt_watched watched;
    gt_reported reported;
    gt_share share;
    gt_runs runs;
};

/* `peer` has said hello as a worker. May replace another worker; its peer is freed in a later turn. */
gt_err gt__worker_join(gt_peer *peer, const gt_slot *hello);
/* Tell a worker that has been welcomed the addresses of the others, and the others its own. */
void gt__worker_introduce(gt_dispatch_worker *worker);
void gt__worker_leave(gt_dispatch_worker *worker, const char *reason);
/* Workers that draw on the same memory divide it: tell those whose share has changed. */
void gt__workers_divide_memory(gt_dispatcher *dispatcher);
/* Pass on its answers, at most `budget` slots. *progress is set if any. An error ends the worker's connection. */
gt_err gt__worker_serve(gt_dispatch_worker *worker, size_t budget, bool *progress);
/* Behind the frees of all tensors of a session that ended: memory that the others do not need can go back to the system. */
void gt__workers_session_left(gt_dispatcher *dispatcher, uint64_t session);
/* The session is leaving: answers that it is owed are dropped when they come. */
void gt__worker_forget_session(gt_dispatch_worker *worker, gt_session *session);
/* Only its client is: the answers to that client's questions are dropped. */
void gt__worker_forget_client(gt_dispatch_worker *worker, gt_session *session);

/* Another entry, without a worker. */
gt_err gt__worker_entry_add(gt_dispatcher *dispatcher, gt_dispatch_worker **worker);
/* An entry without a worker that no config names yet; NULL: out of memory, or there are too many. */
gt_dispatch_worker *gt__worker_vacant(gt_dispatcher *dispatcher);
/* Put a goodbye at the end of its stream. False: out of memory. */
bool gt__worker_dismiss(gt_dispatch_worker *worker);
/* The worker with the fewest sessions, of those that take new ones; NULL: none. */
gt_dispatch_worker *gt__worker_choose(gt_dispatcher *dispatcher);
int gt__worker_present_count(const gt_dispatcher *dispatcher);
/* Called now and then: a worker that does not respond is lost after GT_TIMEOUT. Clients may be stopped for any time. */
void gt__workers_look(gt_dispatcher *dispatcher);
/* The server stops, and keeps a log: tell the workers, and wait until they have executed what they were sent and reported it,
 * for a few seconds at most. */
void gt__workers_finish(gt_dispatcher *dispatcher);
void gt__workers_free(gt_dispatcher *dispatcher);

#endif

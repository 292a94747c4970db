/*
 * dispatcher.h: the middle of the system: many clients' streams in, each worker's stream out.
 *
 * One thread runs gt__dispatcher_run: an event loop (loop.c) over peers. A peer becomes a session (a client: session.c)
 * or a worker (workers.c) with its hello. Records of a session go through its chain of modifiers (modifier.h) to
 * placement (place.c), which writes into worker links. The dispatcher computes nothing and never waits for anyone.
 */
#ifndef GT_DISPATCHER_DISPATCHER_H
#define GT_DISPATCHER_DISPATCHER_H

#include "core/config.h"
#include "dispatcher/handles.h"
#include "link/link.h"
#include "dispatcher/modifier.h"
#include "dispatcher/observe/observe.h"
#include "core/report.h"
#include "core/slot_queue.h"

typedef struct gt_dispatcher gt_dispatcher;

typedef struct gt_dispatcher_options {
    const char *host; /* NULL: "localhost" */
    int port;         /* 0: any free one */
    bool listen;      /* false: only links given to gt__dispatcher_adopt (the embedded server), and monitors */
    const char *modifiers; /* names for each session's chain; NULL: GT_MODIFIERS, else the default */
    gt_observer_options observer;
    const char *config; /* YAML: what signals mean where a client does not say; NULL: none */
} gt_dispatcher_options;

gt_err gt__dispatcher_new(const gt_dispatcher_options *options, gt_dispatcher **dispatcher);
/* Add a peer whose link already exists; takes it. Before gt__dispatcher_run only. */
gt_err gt__dispatcher_adopt(gt_dispatcher *dispatcher, gt_link *link);
int gt__dispatcher_port(const gt_dispatcher *dispatcher);
/* Serve until gt__dispatcher_stop; then say goodbye to everyone. */
gt_err gt__dispatcher_run(gt_dispatcher *dispatcher);
/* From any thread or signal handler. */
void gt__dispatcher_stop(gt_dispatcher *dispatcher);
void gt__dispatcher_free(gt_dispatcher **dispatcher);

/* ---- inside the dispatcher --------------------------------------------------------------------------------- */

typedef struct gt_peer gt_peer;
typedef struct gt_monitor gt_monitor; /* monitor.h */
typedef struct gt_inquiry gt_inquiry; /* reports.c */

/* A long fetch, which reaches the client in parts: download.c. */
typedef struct gt_download {
    struct gt_download *next;
    uint64_t ticket, tensor; /* the client's */
    uint32_t row;            /* slot on the session's worker: the tensor, flat */
    unsigned element_bytes;
    int64_t elements, asked; /* of them: in the parts so far */
    uint64_t offset;         /* bytes before the part that is under way */
    bool under_way;          /* the worker owes us a part */
} gt_download;

/* An answer a worker owes, in the order it was asked. */
typedef struct gt_pending {
    gt_session *session;   /* NULL: it left meanwhile */
    uint64_t ticket;       /* the client's */
    gt_download *download; /* the answer is a part of this; NULL: it is whole */
    gt_opcode op;          /* the question: fetch, sync, or stats (ours: the answer is a report) */
    uint64_t tensor;       /* the client's id, of a fetch */
    uint64_t bytes;        /* of the answer, so far */
    uint64_t asked_ns;     /* a report */
    gt_inquiry *inquiry;   /* a report that somebody waits for */
} gt_pending;

enum { GT_PARKED_SLOTS = 1024 };

typedef struct gt_dispatch_worker {
    int32_t index;
    gt_peer *peer; /* NULL: gone; the entry may be reused */
    uint64_t life; /* counts all workers that ever joined: tells who has an entry from who had it */
    gt_link *link;
    char name[64], engine[64], listens[64];
    uint32_t *free_slots, free_count, free_capacity, next_slot; /* slot numbers to hand out; 0 is never one */
    gt_pending *pending;                                        /* ring */
    uint32_t pending_first, pending_count, pending_capacity;
    gt_slot_queue outbox; /* records that its link had no room for */
    bool into_outbox;     /* where the last reserve was */
    uint32_t parked[GT_PARKED_SLOTS], parked_count,
        parked_next;      /* ring of slots that are free but not used again yet */
    gt_instruction frees; /* slots to be freed in one record */
    unsigned free_waiting;
    bool behind; /* something waits for room in its link: gt__worker_catch_up */
    uint64_t instructions, sessions;
    uint64_t records; /* in its stream since it joined: the number of the last one */
    bool observed;    /* each of them is told of */
    gt_watched watched;
    gt_report report; /* the last one, and its rows */
    uint64_t queue;   /* records that it had been sent, and not executed, when that came */
    gt_report_row rows[GT_OP_COUNT];
    unsigned row_count;
    unsigned reports_due;                              /* asked for and not there yet */
    uint64_t clock_error_ns;                           /* of watched.clock_offset_ns */
    uint64_t moves, collectives, gathers, bytes_moved; /* to it; gathers: for want of a rule */
} gt_dispatch_worker;

/* A record of so many slots is written at the end of the worker's stream. */
static inline void gt__worker_commit(gt_dispatch_worker *worker, unsigned slots)
{
    const gt_slot *record = worker->link->write_next;
    gt__link_commit(worker->link, slots);
    worker->records++;
    if (__builtin_expect(worker->observed, 0))
        gt__observe_sent(worker, record);
}

/* A client's segment under the number by which our workers know it. The segment itself stays with the client's link. */
typedef struct gt_relay {
    struct gt_relay *next;
    uint64_t client_id, id;
    gt_dispatch_worker *shared_with; /* NULL: nobody yet */
    bool orphaned; /* the worker it was shared with is gone, perhaps before it was done with the data */
} gt_relay;

struct gt_session {
    gt_dispatcher *dispatcher;
    gt_peer *peer;
    gt_link *link;
    uint64_t number;
    char name[64];
    uint32_t source; /* its number in the log's events */
    gt_handles handles;
    gt_modifier *chain;
    struct gt_spreading *spreading; /* spread.h; NULL: all its tensors are at home */
    char **reasons;                 /* why tensors are lost, by handle->slot minus one; 0: `lost` */
    uint32_t reason_count;
    gt_dispatch_worker *home; /* where this session's tensors live; NULL: no worker is there */
    char lost[160];           /* why tensors without a worker are lost */
    gt_relay *relays;
    bool orphans;           /* among them */
    gt_download *downloads; /* in the order asked for; the first gets its parts */
    gt_slot_queue overflow; /* answers the client has not made room for yet */
    uint32_t last_scope;    /* told of in the log; and whether for gradients */
    bool last_backward;
    char **sites; /* places in the client's code, by number minus one */
    uint32_t site_count;
    uint64_t instructions;
    unsigned next_length; /* slots of the record that comes next */
};

struct gt_peer {
    gt_dispatcher *dispatcher;
    gt_link *link;
    gt_session *session; /* at most one of these three */
    gt_dispatch_worker *worker;
    gt_monitor *monitor;
    gt_peer *previous, *next; /* all peers */
    bool stranger;            /* it connected; nobody adopted it */
    bool active;              /* looked at every turn; otherwise its doorbell wakes us */
    bool blocked;             /* a session that waits for room in its worker's link */
};

struct gt_dispatcher {
    gt_acceptor *acceptors[2];
    unsigned acceptor_count;
    int port;
    int epoll, stop_fd;
    const char *modifiers;
    gt_config config;
    uint64_t worker_key; /* by which workers know each other */
    uint64_t lives;      /* workers that ever joined */
    uint64_t next_tag;   /* of moves and collectives */
    gt_peer *peers;
    gt_dispatch_worker **workers;
    int32_t worker_count; /* entries, present or not */
    uint64_t next_session, next_segment;
    unsigned worker_batch; /* slots to collect for a worker before flushing within a turn; 0: the link's own */
    uint64_t past_instructions; /* of sessions that have left */
    uint64_t turns, sleeps;
    uint64_t started_ns;
    gt_observer *observer;
    gt_monitor *monitors;
    bool observing;     /* clients' records are told of */
    bool watching;      /* and everything else too: lines are wanted */
    bool monitors_only; /* who connects may only look: this server is a program's own */
    bool retry;         /* a session waits for what rings no bell: descriptors that its worker has to take */
    gt_slot record[1 + GT_MAX_TAIL];  /* the one being handled, copied out of its link */
    gt_slot nowhere[1 + GT_MAX_TAIL]; /* where records go that have no worker */
};

/* session.c */
gt_err gt__session_new(gt_peer *peer, const gt_slot *hello);
/* Frees its tensors on the workers. `reason`: why it ends. */
void gt__session_free(gt_session *session, const char *reason);
/* Handle at most `budget` slots of what the client sent. *progress is set if any. An error ends the session. */
gt_err gt__session_serve(gt_session *session, size_t budget, bool *progress);
/* Pass on one answer record; never waits. */
void gt__session_answer(gt_session *session, const gt_slot *record);
void gt__session_answer_failure(gt_session *session, uint64_t ticket, gt_err err, const char *text);
void gt__session_answer_stats(gt_session *session, uint64_t ticket);
/* Whether the session's worker has room for the record that comes next. */
bool gt__session_has_room(gt_session *session);
/* "train.py:12": a place in the client's code; NULL: unknown. */
const char *gt__session_site(const gt_session *session, uint32_t site);
/* Give a session without a worker one, if there is one, and tell the client. */
void gt__session_find_home(gt_session *session);
/* A worker has come. */
void gt__session_new_worker(gt_session *session);
/* Why a handle without a worker is lost. */
const char *gt__session_lost(const gt_session *session, const gt_handle *handle);
/* A number for such a reason, for handle->slot. */
uint32_t gt__session_reason(gt_session *session, const char *text);
/* `worker` is gone: its tensors are lost. */
void gt__session_lose_worker(gt_session *session, gt_dispatch_worker *worker, const char *reason);
/* A record names a tensor that the session does not have. */
gt_err gt__session_unknown(const gt_instruction *ins, uint64_t id);
/* The home worker owes an answer to this record. */
gt_err gt__session_expect(gt_session *session, const gt_slot *record);
/* The home worker's number for a segment that a record names. False: its link cannot share any; its predecessor's
 * could. */
bool gt__session_name_segment(const gt_session *session, uint64_t *segment);
/* An upload from this segment of the client's is dropped: nobody will use its data. */
void gt__session_unused(gt_session *session, uint64_t client_id);

/* workers.c */
gt_err gt__worker_join(gt_peer *peer, const gt_slot *hello);
void gt__worker_leave(gt_dispatch_worker *worker, const char *reason);
/* Called now and then: a worker that is stopped is lost after GT_TIMEOUT. Clients may be stopped for as long as their
 * users like. */
void gt__workers_look(gt_dispatcher *dispatcher);
gt_err gt__worker_serve(gt_dispatch_worker *worker, size_t budget, bool *progress);
uint32_t gt__worker_slot_new(gt_dispatch_worker *worker); /* 0: out of memory */
static inline void gt__worker_slot_free(gt_dispatch_worker *worker, uint32_t slot)
{
    worker->free_slots[worker->free_count++] = slot;
}
/* An answer will come: behind all those expected before. */
gt_err gt__worker_expect(gt_dispatch_worker *worker, const gt_pending *pending);
/* Send a free (of worker slots) or a forget, now or when there is room. The slots of a free can be handed out again
 * once it is in the stream. */
void gt__worker_tell(gt_dispatch_worker *worker, const gt_instruction *ins);
/* The link had no room just now: have gt__worker_catch_up called when it has some. */
void gt__worker_wait_for_room(gt_dispatch_worker *worker);
/* Send what waits for room, as far as there is any; true if something went. */
bool gt__worker_catch_up(gt_dispatch_worker *worker);
/* Room for a record in its stream, in the link or else in the outbox, behind what waits there; then put it there. NULL: out
 * of memory. */
gt_slot *gt__worker_reserve(gt_dispatch_worker *worker, unsigned slots);
void gt__worker_put(gt_dispatch_worker *worker, unsigned slots);
/* Room in the link, unless something waits for it already. */
gt_slot *gt__worker_room(gt_dispatch_worker *worker, unsigned slots);
/* Free a slot with the next record that is full of them, or when gt__worker_flush_frees says so. */
void gt__worker_free_tensor(gt_dispatch_worker *worker, uint32_t slot);
void gt__worker_flush_frees(gt_dispatch_worker *worker);
/* Tell a worker that has been welcomed of the others, and them of it. */
void gt__worker_introduce(gt_dispatch_worker *worker);
void gt__worker_forget_session(gt_dispatch_worker *worker, gt_session *session);
/* The worker with the fewest sessions; NULL: none. */
gt_dispatch_worker *gt__worker_choose(gt_dispatcher *dispatcher);
int gt__worker_present_count(const gt_dispatcher *dispatcher);

/* download.c */
enum {
    GT_DOWNLOAD_PART = 4 << 20, /* bytes; what is longer is fetched in parts of this */
    GT_DOWNLOAD_ROOM = 2,       /* slots its start takes in the worker's link */
};
gt_err gt__download_start(gt_session *session, const gt_handle *handle, uint64_t ticket);
/* Ask for the next part, if it is time. */
void gt__download_continue(gt_session *session);
/* Make a piece of a part a piece of the whole. */
void gt__download_piece(const gt_download *download, gt_slot *record);
void gt__download_part_done(gt_session *session, bool failed);
/* `lost`: what to tell the client of those it still waits for; NULL: it is leaving. */
void gt__download_drop_all(gt_session *session, const char *lost);

/* reports.c */
/* Have every worker report that is not about to. */
void gt__reports_ask(gt_dispatcher *dispatcher);
/* Answer a client's `stats` once the workers have reported. */
gt_err gt__reports_inquire(gt_session *session, uint64_t ticket);
gt_err gt__report_take(gt_dispatch_worker *worker, const gt_pending *asked, const gt_slot *record);
void gt__inquiry_settle(gt_inquiry *inquiry); /* one worker less to wait for; NULL is nobody's */
void gt__inquiry_forget_session(gt_inquiry *inquiry, const gt_session *session);

/* stats.c: the dispatcher's statistics as JSON; malloc'ed. */
char *gt__dispatcher_stats(const gt_dispatcher *dispatcher);

#endif

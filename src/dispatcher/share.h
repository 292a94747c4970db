/*
 * share.h: how a worker's time is divided among sessions.
 *
 * Each worker has a window: the estimated time of the records that it got and has not yet executed. While the window is
 * full, or other sessions wait for it, a session's next record waits in front of placement (output.h), and the rest of
 * its backlog stays in the client's link. So a worker's own queue is short, whatever the clients send.
 *
 * Sessions that wait are served in the order of the time that they have used, divided by their weight: start-time fair
 * queueing. A session that was idle starts at the time of those that are served now, so that idle time cannot be saved up.
 *
 * A new session begins where those that left have ended: clients that connect, compute a little and leave, one after the other, get as
 * much as one that stays.
 *
 * What a record costs is estimated from its form and the sizes of its operands. Behind each part of a window the
 * worker gets a `mark`, and answers with how long it has worked: that corrects the accounts of the sessions whose records
 * came before the mark, and the estimates of the forms. Small records are counted in batches and cost nothing each. Where the
 * records of another session begin there is a mark as well, so that no session pays for what was estimated wrongly of another.
 *
 * A session that is spread writes to several workers at once, so all of their windows must be open. Such sessions stand in one
 * line, in the order of the time that they have used (turns.c). At each worker all of them together count as one that waits there,
 * with the sum of their weights. When it is their turn there, the worker is kept for the first in the line, until it was served:
 * one session at a time, so sessions cannot wait for each other. While one of its workers is far from open the others are not kept.
 * A session overtakes those in front of it if none of them reaches its workers, or only the first, which does not keep them.
 *
 * A worker puts records aside that wait for another one, and goes on with those of other sessions. It answers marks as if they were
 * executed, and tells later how long they took. Of a session of which many are put aside it says so, and no more are placed for it:
 * neither does it keep workers then. A worker that does not answer for a while is far from open, whatever its window says.
 *
 * The window of a spread session that is alone grows while records for one of its workers keep another one idle: in a pipeline the
 * records for the next worker come behind all of those for this one.
 */
#ifndef GT_DISPATCHER_SHARE_H
#define GT_DISPATCHER_SHARE_H

#include "core/instruction.h"
#include "core/op.h"

typedef struct gt_dispatcher gt_dispatcher;
typedef struct gt_session gt_session;
typedef struct gt_dispatch_worker gt_dispatch_worker;

/* What estimates are learnt for: each form of computing records, and these. */
enum {
    GT_WORK_SMALL = GT_FORM_CONTROL, /* a record beside its elements */
    GT_WORK_SPECIAL,                 /* special functions, which take long for an element */
    GT_WORK_PATH,                    /* a run of a hot path */
    GT_WORK_SLICE,                   /* a slice of one: may find nothing to do, so the estimate is not corrected */
    GT_WORK_REPLAY,                  /* and on spread tensors */
    GT_WORK_BYTES,                   /* data on its way to or from a client */
    GT_WORKS
};

/* Elements: a pass of additions over fewer is not estimated by itself. Of an op that is slower (gt_op_row.slowness), fewer are. */
enum { GT_SHARE_SMALL = 2048 };

/* Estimated time of a session's records between two marks. */
typedef struct gt_charge {
    gt_session *session; /* NULL: it left */
    uint32_t work;
    float part; /* of it that counts for the session: 1, or less if other workers do the same at the same time */
    double inverse;      /* of the session's weight when it was charged: corrections count by that, too */
    double line_inverse; /* of a spread session: of the weights in the line, with its own; otherwise 0 */
    uint64_t ns;
    uint64_t records; /* that the session had sent for it */
} gt_charge;

/* Sessions that wait, least used_ns first. */
typedef struct gt_waiting {
    gt_session *first, *last;
    gt_dispatch_worker *worker; /* that they wait for; NULL: in the line */
} gt_waiting;

/* The spread sessions that wait. */
typedef struct gt_spread_line {
    gt_waiting waiting;
    const gt_session *serving;         /* the one of them that is being served */
    gt_session *keeps;                 /* the one that workers are kept for; NULL: none */
    const gt_dispatch_worker *awaited; /* the worker of it that is far from open */
    const gt_dispatch_worker *yields;  /* one that was not kept, because its own sessions had the next turn */
    double clock_ns;                   /* used_ns of the one that was served last, when it was */
    double left_ns;                    /* used_ns of those that left: gt_share.left_ns */
    uint64_t walk;                     /* number of looks through the line: gt_share.claimed */
} gt_spread_line;

/* A session's part of the division. */
typedef struct gt_account {
    double used_ns; /* time used, divided by the weight, on the scale of the clock_ns where it waits */
    bool spread;    /* it reaches other workers than its home: it waits in the line */
    bool insists;   /* all of its workers are kept until it was served: no worker is awaited any more */
    double
        total_ns; /* time used since it connected, for the statistics: measured, and estimated of what was not measured yet */
    double ahead_ns; /* of that, what no worker has executed yet: gt__share_look */
    double shown_ns; /* total_ns - ahead_ns, as far as it grew */
    double weight, inverse;
    gt_waiting *waits_in;                     /* of its home worker, or the line; NULL: it does not wait */
    gt_session *previous, *next;              /* there */
    uint64_t waits_since_ns, waited_until_ns; /* the last time in the line */
    double waits_with;                        /* the weight that it has there */
    uint64_t turn;                            /* of the loop in which it was last served from there */
    uint64_t full_at[GT_MAX_PARTIES /
                     64]; /* workers at which many of its records wait for another worker: it gets no more */
    uint64_t patience_ns; /* how long it insists on workers of which one does not answer; 0: the first time */
    uint64_t queued;      /* records that its home worker has not executed yet */
    uint64_t most_queued; /* no more are taken from the client then (--max-queued) */
} gt_account;

/* A worker's part. */
typedef struct gt_share {
    bool late;              /* its engine is asynchronous: the window is larger */
    bool shared;            /* several sessions used it lately: the window is smaller */
    uint64_t depth_ns;      /* the window of its only session, which is spread; 0: as for others */
    uint64_t idle_since_ns; /* when it last answered its last mark */
    uint64_t
        silent_since_ns; /* when it last answered a mark, or got one that it has not answered yet, with none before */
    const gt_session *marked;    /* whose charges the last mark had, or its first ones; to compare only */
    unsigned alone;              /* marks in a row with work of one session only */
    uint64_t placed_ns, done_ns; /* estimates of all records placed, and of those executed */
    uint64_t unmarked_ns;        /* of those behind the last mark */
    bool asked;                  /* a mark is wanted although it is not due */
    double clock_ns;             /* used_ns of the session that was served last, when it was */
    double left_ns;              /* used_ns of the sessions that left, one after the other: new ones begin there */
    uint64_t busy_ns;            /* that the worker had worked at the last mark's answer */
    gt_waiting waiting;          /* sessions that need this worker only */
    const gt_session *serving;   /* the one of them that is being served */
    uint32_t in_line;            /* spread sessions that wait and reach this worker */
    double line_weight;          /* of these */
    uint64_t claimed;            /* the last look through the line in which one of them was passed over */
    double line_ns;              /* time that spread sessions used here, divided by their weights, as used_ns is */
    const gt_session *kept_for;  /* the spread session that this worker is kept open for */
    float factor[GT_WORKS];      /* measured time in units of the estimate */
    uint8_t measurements[GT_WORKS];             /* that it was learnt from, as far as they are counted */
    double estimated_ns[GT_WORKS], measured_ns; /* since the last one */
    gt_charge *charges;                         /* a ring: those of each mark in turn */
    uint32_t charge_first, charge_count, charge_capacity;
    uint32_t charge_unmarked; /* of the charges, those behind the last mark */
} gt_share;

/* A worker joined: forget what is known of its predecessor. */
void gt__share_join(gt_dispatch_worker *worker);
void gt__share_free(gt_dispatch_worker *worker);
/* The worker is gone: the sessions that wait for it wait no more. */
void gt__share_leave(gt_dispatch_worker *worker);
/* The session asks for this weight; it gets no more than the server allows. */
gt_err gt__share_weigh(gt_session *session, double weight);
/* The session has another home worker, whose clock tells another time. */
void gt__share_move(gt_session *session);
/* The session ends: what it has used counts for the next new one. Before gt__share_gather and gt__share_forget. */
void gt__share_depart(const gt_session *session);
/* Nothing of the session is waited for or measured any more. */
void gt__share_forget(gt_session *session);

/* Floating-point operations of a product; 0: it is none. */
double gt__share_flops(const gt_instruction *ins, const gt_meta *const *metas, unsigned count, const gt_meta *out);
/* The estimate for a computing record before what was learnt; 0: it counts as a small record only. */
double gt__share_estimate(const gt_instruction *ins, const gt_meta *const *metas, unsigned count,
                          const gt_meta *out);
/* `ns`, estimated without what was learnt, were placed on the worker for the session, and as much on the others of
 * `workers` workers. */
void gt__share_charge(gt_session *session, gt_dispatch_worker *worker, unsigned work, double ns, unsigned workers);
/* The same estimate with what was learnt. */
double gt__share_cost(const gt_dispatch_worker *worker, unsigned work, double ns);
/* What the estimates of an op are learnt for. */
unsigned gt__share_work(unsigned op);
/* A computing record was placed. */
void gt__share_placed(gt_session *session, gt_dispatch_worker *worker, const gt_instruction *ins,
                      const gt_meta *const *metas, unsigned count, const gt_meta *out);
/* So many records of a path's run on `workers` workers, which took this estimated time when the run was recorded. */
void gt__share_replayed(gt_session *session, gt_dispatch_worker *worker, uint64_t records, uint64_t recorded_ns,
                        unsigned workers);
/* Bytes are on their way between the client and the worker. */
void gt__share_bytes(gt_session *session, gt_dispatch_worker *worker, uint64_t bytes);
/* So many elements in one pass of this elementwise op. */
void gt__share_pass(gt_session *session, gt_dispatch_worker *worker, unsigned op, int64_t elements);
/* So many records were taken from the session. */
void gt__share_records(gt_session *session, gt_dispatch_worker *worker, size_t records);
/* The answer to a mark, which came behind `charges` charges and `placed_ns` of estimated work. aside: the worker has put records
 * aside, that wait for another one. */
void gt__share_marked(gt_dispatch_worker *worker, uint32_t charges, uint64_t placed_ns, uint64_t busy_ns,
                      bool aside);
/* A worker's `share` record: it executed records of a session that had been put aside, or has many, or few again. */
void gt__share_take_news(gt_dispatch_worker *worker, const gt_instruction *ins);
/*
 * For the statistics: tell executed time from time that was charged in advance, up to this moment, in the middle of an
 * operation. gt__share_look for each worker that is there, between _look_begin and _look_end for all sessions. busy_ns: how long it
 * has worked until now. `at`: the session whose record it executes, as far as it is known, or NULL.
 */
void gt__share_look_begin(gt_account *account);
void gt__share_look(gt_dispatch_worker *worker, const gt_session *at, uint64_t busy_ns);
void gt__share_look_end(gt_account *account);
/* Whether the session has as many records queued as it may. If so, it can go on after an answer of its home worker. */
bool gt__share_has_queued(const gt_session *session);
/* Records of another session come next: measure those before by themselves. Takes a slot of the link if there is one. */
void gt__share_turn(gt_dispatch_worker *worker);
/* Write marks that had no room. */
void gt__share_retry(gt_dispatch_worker *worker);

/* Between share.c and turns.c: whether the window is full, and whether much more than full; after any change, whether sessions may
 * go on without waiting; records of one session, or all that the worker had, are not measured any more. */
bool gt__share_is_full(const gt_share *share);
bool gt__share_is_far(const gt_share *share);
/* It has not answered a mark for so long. */
bool gt__share_is_silent(const gt_share *share, uint64_t for_ns);
void gt__share_deepen(gt_dispatch_worker *worker);
/* A spread session has records for a worker that was idle. If it was for most of the time that the session last waited, alone, for another
 * worker, larger windows would have kept it busy. */
void gt__share_fed(gt_session *session, const gt_share *idle);
void gt__share_decide(gt_dispatch_worker *worker);
void gt__share_reset(gt_dispatch_worker *worker);
void gt__share_drop(gt_dispatch_worker *worker, const gt_session *session);
void gt__share_drop_all(gt_dispatch_worker *worker);
/* Whether many of its records wait at this worker for another one. */
void gt__share_set_full(gt_session *session, const gt_dispatch_worker *worker, bool full);
/* How many workers the session reaches. */
unsigned gt__share_workers(const gt_session *session);
/* The session's account has changed: its place among those that wait may, too. */
void gt__share_reorder(gt_session *session);

/* The session reaches another worker than its home, from now on; or only that. */
void gt__share_spread(gt_session *session);
void gt__share_gather(gt_session *session);
/* Whether the workers of the session take records of it now. */
bool gt__share_open(const gt_session *session);
/* The session has records to place, and no room: it waits at its home worker, or in the line. */
void gt__share_wait(gt_session *session);
/* Take it out again, if it waits. */
void gt__share_stop_waiting(gt_session *session);
/* The session whose turn it is at the worker; it waits no more. NULL: none, or there is no room. gt__share_served follows
 * when it was served. */
gt_session *gt__share_next(gt_dispatch_worker *worker);
void gt__share_served(gt_dispatch_worker *worker);
/* The same for the line. */
gt_session *gt__share_next_spread(gt_dispatcher *dispatcher);
void gt__share_served_spread(gt_dispatcher *dispatcher);
/* Milliseconds after which the first in the line may have to let workers go; -1: it keeps none. */
int gt__share_patience_ms(const gt_dispatcher *dispatcher);

#endif

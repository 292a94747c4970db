/*
 * worker.h: a worker takes its instruction stream in order and executes it on an engine.
 */
#ifndef GT_WORKER_WORKER_H
#define GT_WORKER_WORKER_H

#include <stdatomic.h>

#include "worker/cancel.h"
#include "worker/card.h"
#include "worker/peers/collective.h"
#include "worker/peers/deferred.h"
#include "worker/peers/direct.h"
#include "engines/engine.h"
#include "worker/peers/exchange.h"
#include "worker/peers/loans.h"
#include "link/link.h"
#include "worker/pins.h"
#include "worker/store.h"
#include "worker/timing.h"

typedef struct gt_worker_options {
    const char *name;      /* NULL: gt__worker_default_name, or "worker_<index>" with a number */
    bool named;            /* a worker that has this name, or number, is replaced */
    const char *backend;   /* NULL: GT_BACKEND, else cuda where there is an NVIDIA GPU, else cpu */
    const char *address;   /* "host:port", see gt_client_connect; not used when a link is given */
    const char *key_file;  /* of keys (link/keys.h); NULL: GT_KEY_FILE, else none */
    const char *listen;    /* host at which workers of other hosts reach it, or "auto"; NULL: it has no tcp port */
    int timeout_ms;        /* for the server to appear; 0: the default */
    bool wait;             /* after that, say so and wait on */
    int threads;           /* 0: let the engine decide */
    double max_op_seconds; /* an operation that runs longer is cancelled; 0: GT_MAX_OP_SECONDS. The server may have
                            * a lower limit */
    atomic_bool *stop;     /* set from anywhere to end the worker after the running instruction; may be NULL */
    int number;            /* the worker index it asks for, plus one; 0: any */
    bool stand_in;         /* for the dead worker of that number: stand_in.h */
    gt_board *board;       /* where it finds the other workers of this process; NULL: it uses links */
    int stop_poll_ms;      /* how often an idle worker checks *stop; 0: never, setting *stop also ends the link */
    /* Called in the worker's thread when its engine is open, or could not be opened. NULL: not called. */
    void (*opened)(void *context, gt_err err);
    void *context;
} gt_worker_options;

/*
 * Run a worker until the dispatcher leaves, or *stop. `link` is taken; NULL: connect to options->address, and again if the
 * server vanishes, for as long as at the start: it may be restarted. A server that refuses us ends it in any case.
 * GT_OK after an orderly end, an error when the server could not be reached, refused us, or vanished.
 */
gt_err gt__worker_run(const gt_worker_options *options, gt_link *link);
/* "worker_<pid>", or "worker_<host>" for process 1: in containers all are, and each has a host name of its own. The server tells
 * workers apart whose names are equal nevertheless. */
void gt__worker_default_name(char *name, size_t size);
/* The threads of an engine when a process has several workers; 0: the environment says it to the engine. */
int gt__threads_per_worker(int workers);

/* What paths did, for reports. */
typedef struct gt_path_counts {
    uint64_t runs, fallbacks, plans, programs, compile_ns;
    struct gt_sequence *newest; /* planned, and not reported yet; NULL: none */
} gt_path_counts;

/* How far a worker came with its server. */
typedef enum gt_joining {
    GT_JOINING_FAILED, /* it was refused, or could not greet */
    GT_JOINING_CUT,    /* the link ended before the server's answer: the server may be about to be restarted */
    GT_JOINING_DONE,   /* the server has welcomed it */
} gt_joining;

/* What the dispatcher has told of another worker. */
typedef struct gt_introduced {
    uint64_t group, league, host; /* as gt_worker has its own */
    gt_life life;                 /* its generation; 0: it was not introduced */
} gt_introduced;

/* One that had its index before. */
typedef struct gt_predecessor {
    struct gt_predecessor *before;
    gt_introduced worker;
    uint64_t until; /* the record that named its successor */
} gt_predecessor;

/* The running worker. */
struct gt_worker {
    gt_link *link;
    gt_engine *engine;
    gt_store *store;
    gt_exchange *exchange; /* with other workers */
    gt_collective *collective;
    uint64_t group, league;                      /* our engine's (engine.h); 0: none */
    uint64_t host;                               /* a number for the host, with GT_HOST_TIERS */
    gt_introduced introduced[GT_MAX_PARTIES];    /* by worker; gt__worker_meant */
    gt_predecessor *predecessor[GT_MAX_PARTIES]; /* the last one; NULL: no record that was put aside means one */
    gt_loans loans;
    gt_deferred deferred;
    gt_late late; /* pending operations */
    gt_pins pins;
    struct gt_worker_paths *paths; /* NULL: none was defined */
    gt_path_counts path_counts;
    const char *name;
    const gt_worker_options *options;
    gt_timing timing;
    gt_card_watch *card; /* NULL: the engine has no graphics card */
    uint64_t trim_ns;    /* when the pool's unused memory is given back: trim.h; 0: no client has left */
    bool trim_again;     /* and another client has left since it was set */
    gt_canceller cancel;
    struct gt_stand_in *stand_ins; /* that this process runs besides */
    gt_joining joining;
};

/* Whether the worker should end. */
bool gt__worker_stopping(const gt_worker *worker);
/* Milliseconds that a wait may take before the next check of gt__worker_stopping; -1: no limit. */
int gt__worker_patience_ms(const gt_worker *worker);

/* The worker with this index that the current record means. A record that was put aside means the one that had the index when it
 * came: all parties must see the same, however late they execute it. */
static inline const gt_introduced *gt__worker_meant(const gt_worker *worker, int64_t index)
{
    const gt_introduced *meant = &worker->introduced[index];
    for (const gt_predecessor *one = worker->predecessor[index]; one && one->until > worker->exchange->record;
         one = one->before)
        meant = &one->worker;
    return meant;
}

/* The origin of a failure of the current record. */
static inline gt_origin gt__worker_origin(const gt_worker *worker, const gt_instruction *ins)
{
    return (gt_origin){.number = gt__deferred_number(&worker->deferred, worker->timing.records),
                       .scope = ins->scope,
                       .site = ins->site,
                       .op = ins->op};
}

/* Execute one checked computing record: stores a tensor or poison in its result slot. execute.c */
void gt__worker_execute(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail);
/* The same, but it fails without being run, with this error and the text that is set. */
void gt__worker_fail(gt_worker *worker, const gt_instruction *ins, gt_err err);
/* The dispatcher has refused a record (failure): its result is poison. */
void gt__worker_refuse(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail);
/* A failure with origin `origin`; its text names the operation and the worker. One reference for the caller. */
gt_poison *gt__worker_failure(gt_worker *worker, const gt_origin *origin, gt_err err, const char *why);
/* Execute one record of any kind. False: the dispatcher said goodbye. worker.c */
bool gt__worker_run_record(gt_worker *worker, const gt_slot *record);
/* Execute an instruction that involves other workers. False: it is of another kind. peers.c */
bool gt__peers_handle(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail);
/*
 * A collective in pieces that do not wait for other workers (collective.h): start it, advance it until it is over (true), then
 * finish it, which keeps its result. `number`: of the record in the stream. NULL: it can only be executed whole. Abandon: the
 * worker ends.
 */
gt_under_way *gt__peers_start(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail, uint64_t number);
bool gt__peers_advance(gt_worker *worker, gt_under_way *under_way);
/* Add it to a list, which it leaves when it is over; advance all of a list. */
void gt__peers_list(gt_under_way *under_way, gt_under_way **list);
void gt__peers_advance_all(gt_worker *worker, gt_under_way *list);
void gt__peers_finish(gt_worker *worker, gt_under_way *under_way, const gt_instruction *ins);
void gt__peers_abandon(gt_worker *worker, gt_under_way *under_way);
/* Whether a collective must be executed when all records before it are. */
bool gt__peers_keep_order(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail, uint64_t number);
/* Take back memory that other workers are done with. */
void gt__peers_reclaim(gt_worker *worker);
/* At the end: forget the predecessors of other workers. */
void gt__peers_forget(gt_worker *worker);
/* Queue a copy to contiguous memory, whose end is the token. */
gt_err gt__worker_copy(gt_worker *worker, const gt_view *from, const gt_view *to, bool timed, gt_token *token);
/* A contiguous tensor: the tensor's own memory or a copy. It may be late. */
typedef struct gt_whole {
    gt_view view; /* contiguous */
    gt_buffer *buffer;
    gt_flight *flight; /* NULL if complete */
} gt_whole;
gt_err gt__worker_whole(gt_worker *worker, const gt_entry *entry, gt_whole *whole);
/* Why its engine can compute nothing any more; NULL: it can. */
const char *gt__worker_broken(const gt_worker *worker);
void gt__whole_release(gt_worker *worker, gt_whole *whole);
/* Wait until it is complete. Returns the failure of the work that makes it. */
gt_err gt__whole_wait(gt_worker *worker, const gt_whole *whole);

#endif

/*
 * dispatcher.h: the middle of the system: many clients' streams in, each worker's stream out.
 *
 * This is what its owner sees: the server command and the embedded server. One thread runs gt__dispatcher_run: an event
 * loop (loop.c) over peers (peer.h). A peer becomes a session (a client: session.h) or a worker (workers.h) with its
 * hello. Records of a session go through its chain of modifiers (modifier.h) to placement (place.h), which writes into
 * the links of workers. The dispatcher computes nothing and never waits for a peer.
 */
#ifndef GT_DISPATCHER_DISPATCHER_H
#define GT_DISPATCHER_DISPATCHER_H

#include "core/limits.h"
#include "dispatcher/observe/observe.h"
#include "link/link.h"

typedef struct gt_dispatcher gt_dispatcher;

enum { GT_RECOVER_WAIT_S = 10 };
#define GT_RECOVER_STAND_IN_S 2.0
#define GT_DETACHED_S 3600.0
#define GT_RECOVER_EVERY_S 0.5
#define GT_RECOVER_BYTES ((uint64_t)4 << 30)
#define GT_RECOVER_DISK ((uint64_t)64 << 30)

typedef struct gt_dispatcher_options {
    const char *host; /* NULL: "localhost" */
    int port;         /* 0: any free one */
    bool listen;      /* false: only links given to gt__dispatcher_adopt (the embedded server), and monitors */
    bool unseen;      /* and not even monitors: `gt simulate` */
    const char *modifiers; /* names for each session's chain; NULL: GT_MODIFIERS, else the default */
    const struct gt_modifier_ops *last_modifier; /* of each chain, behind those named; NULL: none */
    gt_observer_options observer;
    const char *key_file;   /* the server's keys (link/keys.h); NULL: none */
    const char *allow_keys; /* list of keys that may connect; set together with key_file */
    bool insecure;          /* without keys: everyone who reaches the port may be a client */
    double max_weight;      /* that a client may ask for (share.h); 0: 1 */
    double max_op_seconds;  /* workers cancel an operation that runs longer; 0: GT_MAX_OP_SECONDS, else no limit */
    const char *config;     /* YAML: what signals mean where a client does not say, and limits; NULL: none */
    gt_limits limits;       /* of clients and users; those of the config where these say nothing */
    bool recover;           /* sessions outlive their workers (recover/recover.h) */
    double recover_wait_s;  /* for the replacement of a worker; 0: GT_RECOVER_WAIT_S */
    double recover_stand_in_s;     /* the same, before another worker stands in for it; 0: GT_RECOVER_STAND_IN_S */
    double recover_every_s;        /* of a program's work, a snapshot; 0: GT_RECOVER_EVERY_S */
    uint64_t recover_bytes;        /* of memory for that; 0: GT_RECOVER_BYTES */
    const char *recover_snapshots; /* a directory: snapshots are there instead of in memory; NULL: none */
    uint64_t recover_disk;         /* bytes of it; 0: GT_RECOVER_DISK */
    const char *journal; /* a directory: sessions outlive the server's process (journal/journaled.h); NULL: none */
    uint64_t journal_bytes;   /* of its files; 0: GT_JOURNAL_BYTES */
    const char *journal_sync; /* "always", "interval" or "never"; NULL: "interval" */
    double detached_s;        /* a detached session is kept for so long (live/handover.h); 0: GT_DETACHED_S */
    bool attach_by_any; /* any user with the token may attach a session; false: only the user that detached it */
} gt_dispatcher_options;

gt_err gt__dispatcher_new(const gt_dispatcher_options *options, gt_dispatcher **dispatcher);
/* Add a peer whose link already exists; takes it. Before gt__dispatcher_run only. */
gt_err gt__dispatcher_adopt(gt_dispatcher *dispatcher, gt_link *link);
/* Whether it was started with an instruction log. NULL: no. */
bool gt__dispatcher_logs(const gt_dispatcher *dispatcher);
int gt__dispatcher_port(const gt_dispatcher *dispatcher);
/* Serve until gt__dispatcher_stop; then say goodbye to all peers. */
gt_err gt__dispatcher_run(gt_dispatcher *dispatcher);
/* Instead of running it: one turn, which never sleeps. False: there was nothing to do. So one thread can be all parties in turn,
 * and what is sent does not depend on time. */
bool gt__dispatcher_turn(gt_dispatcher *dispatcher);
/* From any thread or signal handler. */
void gt__dispatcher_stop(gt_dispatcher *dispatcher);
/* Have it read its config and its list of keys again. From any thread or signal handler. */
void gt__dispatcher_reload(gt_dispatcher *dispatcher);
/* Have its loop look at what its owner wants (orders.h). From any thread. */
void gt__dispatcher_wake(gt_dispatcher *dispatcher);
void gt__dispatcher_free(gt_dispatcher **dispatcher);

#endif

/* state.h: the state of one dispatcher, grouped by the file that owns it. */
#ifndef GT_DISPATCHER_STATE_H
#define GT_DISPATCHER_STATE_H

#include <stdatomic.h>

#include "core/config.h"
#include "dispatcher/dispatcher.h"
#include "dispatcher/observe/failures.h"
#include "dispatcher/observe/link_traffic.h"
#include "dispatcher/orders.h"
#include "dispatcher/peer.h"
#include "dispatcher/quota.h"
#include "dispatcher/recover/journal.h"
#include "dispatcher/recover/spool.h"
#include "dispatcher/share.h"
#include "dispatcher/workers.h"
#include "link/keys.h"

struct gt_dispatcher {
    /* loop.c */
    gt_acceptor *acceptors[2];
    unsigned acceptor_count;
    int port;
    int epoll, stop_fd;
    atomic_bool stopping, reloading; /* asked for: stop_fd rings */
    gt_orders orders;                /* the same */
    gt_peer *peers;
    gt_peer *active_first, *active_last; /* those that the next turn serves, in this order */
    gt_secrets secrets;                  /* of peers on this host */
    gt_secrets_file secrets_file;
    gt_allowed *allowed;                 /* keys of peers elsewhere; NULL: none */
    char *allowed_file;                  /* where they are from */
    gt_peer *silent_first, *silent_last; /* peers that connected and have not said hello, by their deadlines */
    bool monitors_only; /* peers that connect may only monitor: this server belongs to one program */
    bool retry;         /* a session waits for something that rings no bell (output.h) */
    uint64_t turns, sleeps, started_ns;
    uint64_t polled_turns; /* `turns` at the last look at epoll */
    uint64_t unpolled;     /* records of clients since then */

    /* workers.c */
    gt_dispatch_worker **workers;
    int32_t worker_count;    /* entries, present or not */
    uint64_t worker_key;     /* by which workers know each other */
    uint64_t lives;          /* workers that ever joined */
    uint64_t worker_changes; /* how often one joined or left */
    bool reliefs;            /* there may be stand-ins for workers that left */
    gt_moved resharded;      /* since the config was read */
    bool changing;           /* tensors are being moved: live/drain.h */
    bool reload_waits;       /* until no program is being recovered */
    double max_op_seconds;   /* workers cancel an operation that runs longer; 0: no limit */
    unsigned worker_batch;   /* slots to collect for a worker before flushing within a turn; 0: the link's own */

    /* session.c */
    const char *modifiers;
    const struct gt_modifier_ops *last_modifier; /* behind those; NULL: none */
    uint64_t next_session, next_segment;
    uint64_t turn; /* the number of the session whose records are written; 0: of none (runs.h) */
    unsigned session_count;
    unsigned detached;                              /* of these: without a client (live/handover.h) */
    int detached_ms;                                /* that one is kept */
    bool attach_by_any;                             /* also by another user than the one who detached it */
    uint64_t past_instructions;                     /* of sessions that have left */
    gt_link_traffic past_traffic[GT_TRANSPORTS][2]; /* of peers that have left, by transport and role */
    struct gt_remains *remains;                     /* of sessions that ended: remains.h */
    gt_slot record[1 + GT_MAX_TAIL];                /* the one being handled, copied out of its link */
    gt_slot scratch[1 + GT_MAX_TAIL];               /* where records are written that have no worker */

    /* spread/ */
    gt_config config;  /* of the server; sessions have their own besides */
    char *config_file; /* where it is from; NULL: it has none */
    uint64_t next_tag; /* of moves and collectives */

    /* quota.c */
    gt_limits limits; /* of the command line */
    gt_user_account *users;
    uint64_t connections; /* of clients and monitors */

    /* share.c */
    double max_weight;   /* of a session */
    gt_spread_line line; /* the spread sessions that wait */

    /* recover/ */
    struct {
        bool on;                    /* sessions are recoverable */
        int wait_ms;                /* for the replacement of a worker */
        int stand_in_ms;            /* the same, before another one stands in for it */
        double every_ns;            /* of a session's work, a snapshot */
        uint64_t most, used;        /* bytes of memory for it, of all sessions */
        uint64_t count;             /* sessions that were recovered */
        uint64_t snapshots;         /* that were taken */
        uint32_t holds;             /* segments of clients that are held, of all sessions */
        uint64_t stand_ins_look_ns; /* when to look which stand-ins are used: stand_in.c */
        gt_session *suspect; /* the one whose recovery the others wait for, until then; NULL: none: suspect.h */
        uint64_t suspect_until_ns;
        gt_journal_pool pool;
        gt_spool *spool; /* NULL: snapshots are in memory */
    } recovery;

    struct gt_disk_journal *journal; /* NULL: there is none: journal/journaled.h */

    /* observe/ */
    gt_observer *observer;
    gt_monitor *monitors;
    gt_failures failures;
    unsigned held;  /* answers (synced.h) */
    bool logs;      /* it was started with an instruction log */
    bool observing; /* clients' records are reported to the observer */
    bool watching;  /* and everything else too: a log or a monitor wants lines */
};

#endif

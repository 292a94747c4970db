/* peer.h: one connection to the dispatcher, from its greeting to its end. The loop owns peers (loop.c). */
#ifndef GT_DISPATCHER_PEER_H
#define GT_DISPATCHER_PEER_H

#include "core/log.h"
#include "link/link.h"

typedef struct gt_dispatcher gt_dispatcher;
typedef struct gt_session gt_session;
typedef struct gt_dispatch_worker gt_dispatch_worker;
typedef struct gt_monitor gt_monitor;

typedef struct gt_peer {
    gt_dispatcher *dispatcher;
    gt_link *link;
    gt_session *session; /* at most one of these three; none before its hello */
    gt_dispatch_worker *worker;
    gt_monitor *monitor;
    struct gt_peer *previous, *next; /* all peers */
    struct gt_peer *active_previous, *active_next;
    struct gt_peer *silent_previous, *silent_next; /* while its hello is awaited */
    struct gt_user_account *user;                  /* quota.h; NULL: a worker, or it has not said hello */
    bool stranger;                                 /* it connected; it was not adopted */
    bool overdue;                                  /* its hello is, and it got more time */
    uint64_t hello_by;                             /* when its hello is overdue; 0: it has said it, or need not */
    bool active;          /* in the list of peers that every turn serves; otherwise its doorbell wakes the loop */
    bool rang;            /* something came for it, or its link is lost: the next turn looks */
    bool blocked;         /* a session that waits for room in its worker's link (output.h) */
    unsigned quiet_turns; /* in a row in which it did nothing */
} gt_peer;

/* Have the loop serve it from the next turn on, until it has been quiet for a while. */
void gt__peer_wake(gt_peer *peer);
/*
 * Who it is, for people: `client 1 (train.py:4711, uid 1000, this host)`, `worker w0 (cpu, uid 1000, 10.0.0.5)`. What the peer
 * chose itself has no control characters. Writes at most `size` bytes and returns `text`.
 */
char *gt__peer_who(const gt_peer *peer, char *text, size_t size);
/* A line about a peer (core/log.h): who it is, then the text. */
void gt__peer_log(const gt_peer *peer, gt_log_topic topic, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Have another link from now on, which may be another peer's until now. The one of before is the caller's. */
void gt__peer_take_link(gt_peer *peer, gt_link *link);
/* Disconnect it and free it. `reason`: sent to it if its link still works. */
void gt__peer_end(gt_peer *peer, const char *reason);

#endif

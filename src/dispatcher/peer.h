/* peer.h: one connection to the dispatcher, from its greeting to its end. The loop owns peers (loop.c). */
#ifndef GT_DISPATCHER_PEER_H
#define GT_DISPATCHER_PEER_H

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
    struct gt_user_account *user; /* quota.h; NULL: a worker, or it has not said hello */
    bool stranger;                /* it connected; it was not adopted */
    uint64_t hello_by;            /* when its hello is overdue; 0: it has said it, or need not */
    bool active;          /* in the list of peers that every turn serves; otherwise its doorbell wakes the loop */
    bool blocked;         /* a session that waits for room in its worker's link (output.h) */
    unsigned quiet_turns; /* in a row in which it did nothing */
} gt_peer;

/* Have the loop serve it from the next turn on, until it has been quiet for a while. */
void gt__peer_wake(gt_peer *peer);
/* Disconnect it and free it. `reason`: sent to it if its link still works. */
void gt__peer_end(gt_peer *peer, const char *reason);

#endif

/*
 * link/zmq_router.h: the listening end of ZeroMQ links, shared by zmq_router.c (peers, the socket), zmq_listen.c
 * (where it is found) and zmq_router_page.c (the pages of peers).
 */
#ifndef GT_LINK_ZMQ_ROUTER_H
#define GT_LINK_ZMQ_ROUTER_H

#include "link/address.h"
#include "link/zmq.h"
#include "link/zmq_guard.h"

enum {
    GT_ZMQ_BUCKETS = 4096,
    GT_ZMQ_IDENTITY_BYTES =
        5, /* a zero byte and 32 bits, chosen by the ROUTER; peers that choose their own are refused */
};

typedef struct gt_zmq_peer gt_zmq_peer;

typedef struct gt_zmq_router {
    gt_acceptor base; /* fd: an epoll over the socket's descriptor and the timer */
    void *context, *socket;
    void *monitor;          /* reports connections that ended */
    gt_door door;           /* who may connect by tcp */
    gt_address_file file;   /* of the ipc socket: ZeroMQ does not remove it */
    int timer;              /* runs while there are peers, to wake a sleeping loop for heartbeats */
    uint64_t alive_next_ns; /* time of the next heartbeats; 0: no peers */
    uint64_t probe_next_ns; /* of those to suspects; 0: there are none */
    gt_zmq_peer *peers[GT_ZMQ_BUCKETS];
    gt_zmq_peer *pages[GT_ZMQ_BUCKETS];   /* by the identities of their pages' connections */
    gt_zmq_peer *tokens[GT_ZMQ_BUCKETS];  /* those that have a page, by its number */
    gt_zmq_peer *sources[GT_ZMQ_BUCKETS]; /* by ZeroMQ's descriptors of their connections */
    gt_zmq_peer *expected;                /* that have no connection: of the server's process before this one */
    gt_zmq_peer *suspects;                /* whose connections have ended, perhaps */
    unsigned peer_count, peers_ever;
    gt_zmq_peer *fresh; /* not yet returned by poll, newest first */
    uint64_t life;      /* random */
    bool journal;       /* its clients outlive it */
} gt_zmq_router;

/* The page of a peer: link/zmq_page.h. */
typedef struct gt_zmq_peer_page {
    uint8_t identity[GT_ZMQ_IDENTITY_BYTES]; /* of its connection */
    bool is_open;
    gt_page_time time;
    uint64_t asked_ns; /* the question that is not answered yet; 0: none */
    gt_slot *copy;     /* GT_LINK_PAGE bytes; NULL: none came yet */
} gt_zmq_peer_page;

struct gt_zmq_peer {
    gt_zmq_link base;
    gt_zmq_router *router; /* NULL once the acceptor is closed */
    uint8_t identity[GT_ZMQ_IDENTITY_BYTES];
    bool is_expected;      /* it is in router.expected, and has neither an identity nor a connection */
    int connection;        /* ZeroMQ's descriptor */
    int resume_ms;         /* how long it may be cut */
    uint64_t cut_until_ns; /* when it is */
    unsigned probes;       /* its connection has ended, perhaps: heartbeats that it still gets to find out */
    gt_zmq_peer *suspect_next;
    gt_zmq_peer *next; /* in its bucket, or in router.expected */
    gt_zmq_peer *source_next;
    uint64_t token; /* under which it is in `tokens`; 0: it is not */
    gt_zmq_peer *token_next;
    gt_zmq_peer_page page;
    gt_zmq_peer *page_next;  /* in the bucket of its page */
    gt_zmq_peer *fresh_next; /* in router.fresh */
};

/* ROUTER counts up, from a random number. */
static inline unsigned gt__zmq_bucket(const uint8_t *identity)
{
    return ((unsigned)identity[3] << 8 | identity[4]) % GT_ZMQ_BUCKETS;
}

/* ---- zmq_router.c ------------------------------------------------------------------------------------------- */

/* One that is not bound to an address yet. base.ops->close frees it. */
gt_err gt__zmq_router_new(gt_zmq_router **out);
/* Have the acceptor's descriptor become readable with this socket. */
bool gt__zmq_router_watch(gt_zmq_router *r, void *socket);
/* Take what the monitor says: it watches the connections of an address from then on. */
void gt__zmq_router_take_events(gt_zmq_router *r);

/* ---- zmq_router_page.c -------------------------------------------------------------------------------------- */

/* The peer whose page has this connection, or NULL. */
gt_zmq_peer *gt__zmq_page_find(const gt_zmq_router *r, const uint8_t *identity);
/* The page's connection is gone. */
void gt__zmq_page_remove(gt_zmq_peer *peer);
/* The number of the peer's page is known, or another than before; 0: it has none any more. */
void gt__zmq_page_number(gt_zmq_peer *peer, uint64_t token);
/* A connection shows the number of a peer's page: it has it from now on. */
void gt__zmq_page_open(gt_zmq_router *r, const uint8_t *identity, uint64_t token, int connection);
/* An answer of a page. Frames of another size are dropped. */
void gt__zmq_page_received(gt_zmq_peer *peer, zmq_msg_t *frame);
/* Of gt_link_ops. */
const void *gt__zmq_peer_page(gt_link *link, gt_page_time *time);
bool gt__zmq_ask_page(gt_link *link);

#endif

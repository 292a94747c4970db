/*
 * link.h: how two parties exchange streams of slots. A transport is one symbol: gt__transport_memory
 * (link/memory.c the rings, link/memory_socket.c how they are set up), gt__transport_ipc and gt__transport_tcp
 * (link/zmq.c the flow of frames, link/zmq_dealer.c and link/zmq_router.c the two ends).
 *
 * A link is a full-duplex, ordered, reliable pair of slot streams with flow control. Both ends write records in
 * place and read them in place. Nothing here knows what a record means beyond its length.
 *
 * Writing:  slots = gt__link_reserve(link, n); fill; gt__link_commit(link, n); now and then gt__link_flush(link).
 *           reserve returns NULL when the peer has not kept up (flow control) or the link is dead: flush and, if
 *           you may wait, gt__link_wait(link, GT_WAIT_WRITE, ...). A record is reserved whole: it is contiguous.
 * Reading:  while ((slots = gt__link_peek(link, &available))) {... gt__link_consume(link, n); }
 *           A record is never split across two windows. Slots stay valid until the peek that follows their
 *           consumption. In shared memory the peer can still write to them: copy before you check.
 *           A reader that finds nonsense ends the link with gt__link_kill.
 * Death:    when the peer is gone, peek returns what had arrived, then NULL, and link->dead is set with the
 *           reason. arm and wait notice at once, peek alone only after many empty calls. A peer that is stopped, or
 *           whose host vanished, is gone after GT_TIMEOUT; one that computes for long is not.
 *
 * Threads: a link end belongs to one thread at a time. The links of one ZeroMQ acceptor share its socket, so they
 * belong to the acceptor's thread.
 */
#ifndef GT_LINK_LINK_H
#define GT_LINK_LINK_H

#include "core/instruction.h"
#include "link/segment.h"

typedef struct gt_link gt_link;
typedef struct gt_transport gt_transport;
typedef struct gt_acceptor gt_acceptor;

typedef enum gt_wait { GT_WAIT_READ = 1, GT_WAIT_WRITE = 2 } gt_wait;

/* What a transport implements for one end of a connection. */
typedef struct gt_link_ops {
    gt_slot *(*reserve)(gt_link *link, unsigned slots); /* the window is too small: make room or return NULL */
    void (*flush)(gt_link *link);  /* publish what was committed; wake the peer if it sleeps */
    bool (*refill)(gt_link *link); /* the read window is empty: get the next, false if none */
    /* Flush, yield-spin at most GT_SPIN_US, then block. GT_OK, GT_ERR_TIMEOUT, GT_ERR_INTERRUPTED (a signal came),
     * GT_ERR_CONNECTION (dead). timeout_ms < 0 waits for ever. `what` may be both: either will do. */
    gt_err (*wait)(gt_link *link, gt_wait what, int timeout_ms);
    /* Event-loop use, after the last flush: announce that we are going to sleep on link->fd. False: there is
     * something to read, room to write where the last reserve got none (said once: try again), or the link died:
     * do not sleep. fd < 0 means the acceptor's fd covers this link. */
    bool (*arm)(gt_link *link);
    /* Make `segment` known to the peer, once: a second call for the same id does nothing. Must be called before
     * flushing a record that names it. Never blocks: GT_ERR_TIMEOUT when the peer has not taken earlier ones yet
     * (try again after a wait). Optional (NULL). */
    gt_err (*share)(gt_link *link, gt_segment *segment);
    /* The segment the peer shared under this id, or NULL. Never blocks. Borrowed: valid while the link lives. */
    gt_segment *(*segment)(gt_link *link, uint64_t id);
    /* Forget a segment in both directions (the peer that shared it says it is gone). Optional (NULL). */
    void (*forget)(gt_link *link, uint64_t id);
    void (*look)(gt_link *link);    /* see link->watched; may be NULL where that is never set */
    void (*close)(gt_link *link);   /* flushes, closes, frees; never blocks for more than a second */
    void (*abandon)(gt_link *link); /* gt__link_abandon */
} gt_link_ops;

enum {
    GT_SPIN_US = 20,
    GT_LINK_MAX_RESERVE = 1024, /* slots one reserve may ask for on any link; holds the longest record */
};

_Static_assert((int)GT_MAX_TAIL + 1 <= (int)GT_LINK_MAX_RESERVE, "a record is reserved whole");

struct gt_link {
    const gt_link_ops *ops;
    const gt_transport *transport;
    gt_slot *write_next, *write_end;     /* the window reserve hands out from */
    const gt_slot *read_next, *read_end; /* the window peek hands out from */
    unsigned unflushed;                  /* slots committed since the last flush */
    unsigned batch;                      /* a good number of slots to flush at: 64 memory, 1024 ZeroMQ */
    int origin;       /* the processor that wrote what we read, or that it came from; -1: unknown */
    int passes_on;    /* the origin of what we write, where it only passes through us; -1: we are */
    int fd;           /* readable when the peer did something; -1: see arm */
    bool watched;     /* whoever sleeps otherwise than in gt__link_wait calls look every
                                          * GT_LIVENESS_MS, so that a peer that is stopped is lost in time */
    bool gone;        /* the peer is gone: no more writing, what had arrived can be read */
    bool dead;        /* no more reading either */
    char reason[128]; /* why it is dead */
    char peer[64];    /* for messages: "pid 1234", "the server at tcp://localhost:12345" */
    void *owner;      /* for the event loop */
};

static inline gt_slot *gt__link_reserve(gt_link *link, unsigned slots)
{
    if (__builtin_expect(link->write_end - link->write_next >= (ptrdiff_t)slots, 1))
        return link->write_next;
    return link->ops->reserve(link, slots);
}

static inline void gt__link_commit(gt_link *link, unsigned slots)
{
    link->write_next += slots;
    link->unflushed += slots;
}

static inline void gt__link_flush(gt_link *link)
{
    if (link->unflushed)
        link->ops->flush(link);
}

static inline const gt_slot *gt__link_peek(gt_link *link, size_t *available)
{
    if (link->read_next == link->read_end && !link->ops->refill(link))
        return NULL;
    *available = (size_t)(link->read_end - link->read_next);
    return link->read_next;
}

/* Never past the window: a link that was killed since the peek has an empty one, and stays without anything to read. */
static inline void gt__link_consume(gt_link *link, size_t slots)
{
    size_t left = (size_t)(link->read_end - link->read_next);
    link->read_next += slots < left ? slots : left;
    /* The lines come from another core's cache: ask for them a few records ahead. */
    __builtin_prefetch(link->read_next + 8);
}

static inline gt_err gt__link_wait(gt_link *link, gt_wait what, int timeout_ms)
{
    return link->ops->wait(link, what, timeout_ms);
}

static inline void gt__link_close(gt_link *link)
{
    link->ops->close(link);
}

/* In a forked child: free our copy of a link without touching the parent's connection. Frees `link`. */
static inline void gt__link_abandon(gt_link *link)
{
    link->ops->abandon(link);
}

/* End the link for a reason of our own (the peer sent nonsense): nothing more is read or written. The first reason
 * stays. Still to be closed. */
void gt__link_kill(gt_link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* For transports: the peer is gone; the link dies once what had arrived was read. */
void gt__link_lose(gt_link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* How every transport waits: `ready` looks without blocking, `arm` prepares to sleep on `fd` for `what` (false: do
 * not sleep, look again). */
typedef struct gt_waiter {
    int fd;
    bool (*ready)(gt_link *link, gt_wait what);
    bool (*arm)(gt_link *link, gt_wait what);
} gt_waiter;

gt_err gt__link_wait_with(gt_link *link, gt_wait what, int timeout_ms, const gt_waiter *waiter);

/* Milliseconds left until `deadline_ns` (gt__now_ns time), rounded up, 0 when past; -1 when deadline_ns is 0:
 * never. */
int gt__remaining_ms(uint64_t deadline_ns);
uint64_t gt__now_ns(void);
/* Now plus timeout_ms; 0 when timeout_ms < 0. */
uint64_t gt__deadline_ns(int timeout_ms);

/* The dispatcher's side: where peers arrive. */
typedef struct gt_acceptor_ops {
    /* Move what has arrived into the links; returns a new link (to be closed by the caller) or NULL when there is
     * no more. Call it until NULL whenever fd was readable or arm said so. */
    gt_link *(*poll)(gt_acceptor *acceptor);
    bool (*arm)(gt_acceptor *acceptor);   /* false: something is waiting, do not sleep */
    void (*close)(gt_acceptor *acceptor); /* ZeroMQ: its links die with it; they are still to be closed */
} gt_acceptor_ops;

struct gt_acceptor {
    const gt_acceptor_ops *ops;
    int fd;
};

enum { GT_PORT_HIDDEN = -1 };

struct gt_transport {
    const char *name; /* "memory", "ipc", "tcp" */
    bool same_host_only;
    /* Bind. port 0 picks a free one, and so does GT_PORT_HIDDEN (memory only: see address.h); *bound gets it. tcp on a loopback or wildcard host serves ipc as well. */
    gt_err (*listen)(const char *host, int port, gt_acceptor **acceptor, int *bound);
    /* GT_ERR_CONNECTION when nobody is there, GT_ERR_TIMEOUT when somebody is but does not answer. */
    gt_err (*connect)(const char *host, int port, int timeout_ms, gt_link **link);
};

extern const gt_transport gt__transport_memory;
extern const gt_transport gt__transport_ipc;
extern const gt_transport gt__transport_tcp;

/* "memory", "ipc" or "tcp". */
static inline const char *gt__link_name(const gt_link *link)
{
    return link->transport ? link->transport->name : gt__transport_memory.name;
}

/* Both ends of a memory link inside one process, for the embedded server. */
gt_err gt__link_memory_pair(gt_link **a, gt_link **b);

#endif

/*
 * link.h: how two parties exchange streams of slots. A transport is one symbol: gt__transport_memory
 * (link/memory.c the rings, link/memory_socket.c how they are set up), gt__transport_ipc and gt__transport_tcp
 * (link/zmq.c the flow of frames, link/zmq_dealer.c and link/zmq_router.c the two ends).
 *
 * A link is a full-duplex, ordered, reliable pair of slot streams with flow control. Both ends write records in
 * place and read them in place. Nothing here knows what a record means beyond its length.
 *
 * Writing:  slots = gt__link_reserve(link, n); fill; gt__link_commit(link, n); now and then gt__link_flush(link).
 *           reserve returns NULL when the peer is behind (flow control) or the link is dead: flush and, if you
 *           may wait, gt__link_wait(link, GT_WAIT_WRITE, ...). A record is reserved whole, so it is contiguous.
 *           A full link still has GT_LINK_LAST_ROOM slots for a goodbye (link->ending).
 * Reading:  while ((slots = gt__link_peek(link, &available))) {... gt__link_consume(link, n); }
 *           A record is never split across two windows. Slots stay valid until the peek that follows their
 *           consumption. In shared memory the peer can still write to them: copy before you check.
 *           A reader that finds a malformed record ends the link with gt__link_kill.
 * Death:    when the peer is gone, peek returns what has arrived, then NULL, and link->dead is set with the
 *           reason. arm and wait notice at once, peek alone only after many empty calls. A peer that is stopped, or
 *           whose host is unreachable, counts as gone after GT_TIMEOUT; a peer that computes for long does not.
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

/* What one side of a link knows about the other. */
typedef enum gt_trust {
    GT_TRUST_NONE,   /* nothing, and others may read what it sends: tcp without keys */
    GT_TRUST_USER,   /* a process of this user on this host */
    GT_TRUST_KEY,    /* it has a key that is allowed (keys.h), and the link is encrypted */
    GT_TRUST_WORKER, /* the same, and the key is a worker's */
} gt_trust;

typedef enum gt_wait { GT_WAIT_READ = 1, GT_WAIT_WRITE = 2 } gt_wait;

/* All that has gone over a link, in slots. */
typedef struct gt_link_slots {
    uint64_t sent, received; /* committed; consumed */
} gt_link_slots;

/* When a peer's page was as it is here. */
typedef struct gt_page_time {
    uint64_t at_ns;    /* on the peer's clock */
    int64_t offset_ns; /* the peer's clock minus ours, */
    uint64_t error_ns; /* give or take; 0: the clock is the same */
    bool awaited;      /* a newer one was asked for */
} gt_page_time;

/* What a transport implements for one end of a connection. */
typedef struct gt_link_ops {
    gt_slot *(*reserve)(gt_link *link, unsigned slots); /* the window is too small: make room or return NULL */
    void (*flush)(gt_link *link);  /* publish the committed slots; wake the peer if it sleeps */
    bool (*refill)(gt_link *link); /* the read window is empty: get the next, false if none */
    /* Flush, yield-spin at most GT_SPIN_US, then block. GT_OK, GT_ERR_TIMEOUT, GT_ERR_INTERRUPTED (a signal arrived),
     * GT_ERR_CONNECTION (dead). timeout_ms < 0: no timeout. `what` may be both: the first that happens ends the wait. */
    gt_err (*wait)(gt_link *link, gt_wait what, int timeout_ms);
    /* For event loops, after the last flush: announce that we will sleep on link->fd. False: do not sleep, because
     * there is something to read, or the link died, or there is room again after a reserve that failed (reported
     * once). fd < 0: the acceptor's fd covers this link. */
    bool (*arm)(gt_link *link);
    /* Make `segment` known to the peer, once: a second call for the same id does nothing. Must be called before
     * flushing a record that names it. Never blocks: GT_ERR_TIMEOUT when the peer has not received earlier ones
     * yet (try again after a wait). Optional (NULL). */
    gt_err (*share)(gt_link *link, gt_segment *segment);
    /* The segment the peer shared under this id, or NULL. Never blocks. Borrowed: valid while the link lives. */
    gt_segment *(*segment)(gt_link *link, uint64_t id);
    /* Forget a segment in both directions: the peer that shared it has dropped it. Optional (NULL). */
    void (*forget)(gt_link *link, uint64_t id);
    /* Beside the stream: words that overtake everything in it. A word is lost if the peer does not take it for long, or is
     * gone. `urged` takes the peer's next word; false: none. Neither blocks. */
    void (*urge)(gt_link *link, uint64_t word);
    bool (*urged)(gt_link *link, uint64_t *word);
    /* Outlive the connection: if it is lost, go on by another one that comes within this time. Both ends must ask for it, the
     * connecting one before its hello. Negative: GT_RESUME_MS if the peer is on another host. Optional (NULL). */
    void (*resumes)(gt_link *link, int within_ms);
    /* How long a peer that has lost its connection is still waited for; negative: it has one. Optional (NULL). */
    int (*away_ms)(const gt_link *link);
    /* GT_LINK_SECRET bytes by which the peer shows, on another connection, that it is the one of this link. NULL, or returns NULL:
     * there are none. */
    const uint8_t *(*secret)(const gt_link *link);
    /* See gt__link_durable. Optional (NULL). */
    void (*durable)(gt_link *link, uint64_t slots);
    /* See gt__link_leave. Optional (NULL). */
    void (*leave)(gt_link *link);
    void (*slots)(gt_link *link, gt_link_slots *slots);
    /* How many records have arrived and were not read yet, for statistics: counted up to some number of slots, and estimated from
     * those beyond. Takes microseconds. */
    uint64_t (*unread)(gt_link *link);
    /* Also beside the stream: GT_LINK_PAGE bytes, zero at first, that this side writes and the peer reads at any moment, word
     * by word. They live as long as the link. NULL, or they return NULL: there are none, or nothing came yet. */
    void *(*page)(gt_link *link);
    const void *(*peer_page)(gt_link *link, gt_page_time *time);
    /* Ask for the peer's page, which comes later, without waiting for what the peer does. False: it cannot be asked. NULL: the
     * page is always as the peer has it. */
    bool (*ask_page)(gt_link *link);
    void (*look)(gt_link *link);    /* see link->watched; may be NULL if that is never set */
    void (*close)(gt_link *link);   /* flushes, closes, frees; never blocks for more than a second */
    void (*abandon)(gt_link *link); /* gt__link_abandon */
} gt_link_ops;

enum {
    GT_SPIN_US = 50,            /* an answer of a GPU takes 10 to 30 */
    GT_LINK_URGENT = 64,        /* urgent words that wait for the reader at most: a power of two */
    GT_LINK_PAGE = 28 * 1024,   /* bytes */
    GT_LINK_MAX_RESERVE = 1024, /* slots one reserve may ask for on any link; holds the longest record */
    GT_LINK_SECRET = 32,        /* bytes */
    GT_LINK_LAST_ROOM = 8,      /* slots that only the last record gets (link->ending): why the link ends */
};

_Static_assert((int)GT_MAX_TAIL + 1 <= (int)GT_LINK_MAX_RESERVE, "a record is reserved whole");

struct gt_link {
    const gt_link_ops *ops;
    const gt_transport *transport;
    gt_slot *write_next, *write_end;     /* the window that reserve takes from */
    const gt_slot *read_next, *read_end; /* the window that peek takes from */
    unsigned unflushed;                  /* slots committed since the last flush */
    unsigned batch;                      /* flush when this many slots wait: 64 memory, 1024 ZeroMQ */
    int origin;                          /* the processor on which the stream we read begins; -1: unknown */
    int passes_on;                       /* the origin of a stream that we only forward; -1: it begins here */
    int fd;                              /* readable when the peer did something; -1: see arm */
    bool watched;                        /* a loop that does not sleep in gt__link_wait must call look every
                                          * GT_LIVENESS_MS to notice a stopped peer */
    bool lean;                           /* set by its owner: its memory counts more than its speed */
    bool ending;      /* set by its owner: the next record is the last, a full link has room for it */
    bool gone;        /* the peer is gone: no more writing, but what has arrived can be read */
    bool stopped;     /* its process may still live: it may write to shared memory when it wakes */
    bool dead;        /* no more reading either */
    char reason[256]; /* why it is dead */
    char peer[64];    /* for messages: "pid 1234", "the server at tcp://localhost:12345" */
    void *owner;      /* for the event loop */
    uint64_t records_sent, records_received; /* counted by the owner, as far as it wants to know */
    /* For the event loop: called when something came for a link that shares its acceptor's fd, or when that link is
     * lost. NULL: not called. */
    void (*arrived)(gt_link *link);
    gt_trust trust;    /* how far we know the peer */
    char user[48];     /* the accepting side: "uid 1000", or the name that goes with the peer's key */
    char host[64];     /* the accepting side: the peer's address, "10.0.0.5"; empty: this host */
    char key[41];      /* the accepting side: the peer's public key (keys.h), if it has shown one */
    int port;          /* the connecting side: of a server on this host; 0: elsewhere */
    unsigned restarts; /* the connecting side: how often the server was another process, which owes no answers */
};

/* Slots of the link's room that a record now may not take. */
static inline unsigned gt__link_kept(const gt_link *link)
{
    return link->ending ? 0 : GT_LINK_LAST_ROOM;
}

/* Whether a slot can be written at write_next. */
static inline bool gt__link_has_room(const gt_link *link)
{
    return __builtin_expect(link->write_next < link->write_end, 1);
}

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
    /* The cache lines come from another core: prefetch a few records ahead. */
    __builtin_prefetch(link->read_next + 8);
}

static inline gt_err gt__link_wait(gt_link *link, gt_wait what, int timeout_ms)
{
    return link->ops->wait(link, what, timeout_ms);
}

void gt__link_close(gt_link *link);

static inline void gt__link_resumes(gt_link *link, int within_ms)
{
    if (link->ops->resumes && within_ms != 0)
        link->ops->resumes(link, within_ms);
}

static inline int gt__link_away_ms(const gt_link *link)
{
    return link->ops->away_ms ? link->ops->away_ms(link) : -1;
}

static inline const uint8_t *gt__link_secret(const gt_link *link)
{
    return link->ops->secret ? link->ops->secret(link) : NULL;
}

/* A server with a journal: of the slots that were consumed, so many are in the journal. The peer gets credit for these only, and keeps the others.
 * From the first call on; UINT64_MAX: for all, from now on. */
static inline void gt__link_durable(gt_link *link, uint64_t slots)
{
    if (link->ops->durable)
        link->ops->durable(link, slots);
}

/* A server with a journal stops: nothing more is sent, so that the peer takes the connection for lost, and comes back to the next process. */
static inline void gt__link_leave(gt_link *link)
{
    if (link->ops->leave)
        link->ops->leave(link);
}

/* In a forked child: free our copy of a link without touching the parent's connection. Frees `link`. */
static inline void gt__link_abandon(gt_link *link)
{
    link->ops->abandon(link);
}

/* End the link from this side (the peer sent a malformed record): nothing more is read or written. The first reason is
 * kept. The link must still be closed. */
void gt__link_kill(gt_link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* For transports, to implement `unread`: the slots looked at so far, and those of all. */
typedef struct gt_unread {
    uint64_t records, looked_at, slots;
} gt_unread;

/* Another `count` slots, which begin with a record; they need not be aligned. */
void gt__unread_add(gt_unread *unread, const void *slots, uint64_t count);
uint64_t gt__unread_records(const gt_unread *unread);

/* For transports: the peer is a process of this user on this host. */
void gt__link_same_user(gt_link *link);

/* For transports: the peer is gone; the link dies once everything that has arrived is read. */
void gt__link_lose(gt_link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* How every transport waits: `ready` checks without blocking, `arm` prepares to sleep on `fd` for `what` (false: do
 * not sleep, check again). */
typedef struct gt_waiter {
    int fd;
    bool (*ready)(gt_link *link, gt_wait what);
    bool (*arm)(gt_link *link, gt_wait what);
} gt_waiter;

gt_err gt__link_wait_with(gt_link *link, gt_wait what, int timeout_ms, const gt_waiter *waiter);

/* Milliseconds left until `deadline_ns` (gt__now_ns time), rounded up, 0 when past; -1 (no deadline) when
 * deadline_ns is 0. */
int gt__remaining_ms(uint64_t deadline_ns);
uint64_t gt__now_ns(void);
/* Now plus timeout_ms; 0 when timeout_ms < 0. */
uint64_t gt__deadline_ns(int timeout_ms);

/* The dispatcher's side: where peers arrive. */
typedef struct gt_acceptor_ops {
    /* Move what has arrived into the links; returns a new link, which the caller closes, or NULL: no more. Call it
     * whenever fd is readable or arm returns false, which they are until it returns NULL. */
    gt_link *(*poll)(gt_acceptor *acceptor);
    bool (*arm)(gt_acceptor *acceptor);   /* false: something is waiting, do not sleep */
    void (*close)(gt_acceptor *acceptor); /* ZeroMQ: its links die with it; they must still be closed */
} gt_acceptor_ops;

struct gt_acceptor {
    const gt_acceptor_ops *ops;
    int fd;
};

enum { GT_PORT_HIDDEN = -1 };

struct gt_transport {
    const char *name; /* "memory", "ipc", "tcp" */
    bool same_host_only;
    /* Bind. port 0 picks a free port, and so does GT_PORT_HIDDEN (memory only: see address.h); *bound gets it. tcp on a
     * loopback or wildcard host serves ipc as well. */
    gt_err (*listen)(const char *host, int port, gt_acceptor **acceptor, int *bound);
    /* GT_ERR_CONNECTION when no server listens, GT_ERR_TIMEOUT when one does but does not answer. */
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

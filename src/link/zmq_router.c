/*
 * link/zmq_router.c: the end of ZeroMQ links that listens: the dispatcher, with one ROUTER socket for all its
 * peers.
 *
 * A ROUTER puts a peer's identity before each frame, which selects the link. A peer becomes a link when its first frame is
 * GT_ZMQ_OPEN; frames of unknown peers are dropped, also late frames of a peer that was closed or killed.
 *
 * A ROUTER reports that a peer is gone only when something is sent to it. So a peer gets empty frames when ZeroMQ's monitor says that
 * its connection has ended, and every peer gets one now and then, in case that was missed.
 *
 * The flow of slots is in link/zmq.c, the other end in link/zmq_dealer.c.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "link/address.h"
#include "link/zmq.h"
#include "link/zmq_guard.h"
#include "link/zmq_intake.h"
#include "link/zmq_page.h"

enum {
    PUMP_FRAMES = 1000,
    BUCKETS = 4096,
    IDENTITY_BYTES =
        5,           /* a zero byte and 32 bits, chosen by the ROUTER; peers that choose their own are refused */
    ALIVE_MS = 1000, /* between heartbeats */
    /* The monitor is told before the socket is, so a frame may still go out to a connection that has ended. */
    PROBE_MS = 10,
    PROBES = 10,
    HANDSHAKE_MS = 3000, /* time for a connection to prove to be ZeroMQ */
    BACKLOG = 4096,      /* connections that the kernel holds for us; it may allow fewer. ZeroMQ's own is 100 */
    PAGE_LOST_MS = 1000, /* a question for a page that is not answered after this was lost */
    MAX_UNREAD = 1000,   /* frames: then ZeroMQ stops reading from a peer that ignores credit */
};

typedef struct router_link router_link;

typedef struct router {
    gt_acceptor base; /* fd: an epoll over the socket's descriptor and the timer */
    void *context, *socket;
    void *monitor;          /* reports connections that ended */
    gt_door door;           /* who may connect by tcp */
    gt_address_file file;   /* of the ipc socket: ZeroMQ does not remove it */
    int timer;              /* runs while there are peers, to wake a sleeping loop for heartbeats */
    uint64_t alive_next_ns; /* time of the next heartbeats; 0: no peers */
    uint64_t probe_next_ns; /* of those to suspects; 0: there are none */
    router_link *peers[BUCKETS];
    router_link *pages[BUCKETS];   /* by the identities of their pages' connections */
    router_link *tokens[BUCKETS];  /* those that have a page, by its number */
    router_link *sources[BUCKETS]; /* by ZeroMQ's descriptors of their connections */
    router_link *suspects;         /* whose connections have ended, perhaps */
    unsigned peer_count, peers_ever;
    router_link *fresh; /* not yet returned by poll, newest first */
} router;

/* The page of a peer: link/zmq_page.h. */
typedef struct peer_page {
    uint8_t identity[IDENTITY_BYTES]; /* of its connection */
    bool is_open;
    gt_page_time time;
    uint64_t asked_ns; /* the question that is not answered yet; 0: none */
    gt_slot *copy;     /* GT_LINK_PAGE bytes; NULL: none came yet */
} peer_page;

struct router_link {
    gt_zmq_link base;
    router *router; /* NULL once the acceptor is closed */
    uint8_t identity[IDENTITY_BYTES];
    int connection;  /* ZeroMQ's descriptor */
    unsigned probes; /* its connection has ended, perhaps: heartbeats that it still gets to find out */
    router_link *suspect_next;
    router_link *next; /* in its bucket */
    router_link *source_next;
    uint64_t token; /* under which it is in `tokens`; 0: it is not */
    router_link *token_next;
    peer_page page;
    router_link *page_next;  /* in the bucket of its page */
    router_link *fresh_next; /* in router.fresh */
};

/* ---- peers -------------------------------------------------------------------------------------------------- */

/* ROUTER counts up, from a random number. */
static unsigned bucket_number(const uint8_t *identity)
{
    return ((unsigned)identity[3] << 8 | identity[4]) % BUCKETS;
}

/* Numbers are the peers' own choice: one who chooses many with the same bucket only finds its own more slowly. */
static router_link **token_bucket(router *r, uint64_t token)
{
    return &r->tokens[token % BUCKETS];
}

static router_link **source_bucket(router *r, int connection)
{
    return &r->sources[(unsigned)connection % BUCKETS];
}

static router_link **bucket_of(router *r, const uint8_t *identity)
{
    return &r->peers[bucket_number(identity)];
}

static router_link *peer_find(router *r, const uint8_t *identity)
{
    router_link *peer = *bucket_of(r, identity);
    while (peer && memcmp(peer->identity, identity, IDENTITY_BYTES))
        peer = peer->next;
    return peer;
}

/* When heartbeats are due next; 0: never. */
static uint64_t next_beat_ns(const router *r)
{
    return r->probe_next_ns && r->probe_next_ns < r->alive_next_ns ? r->probe_next_ns : r->alive_next_ns;
}

/* Once, at that time: a timer that rang before would keep the loop awake. It is silent from now until then. */
static void set_timer(router *r)
{
    uint64_t next_ns = next_beat_ns(r);
    struct itimerspec spec = {
        .it_value = {.tv_sec = (time_t)(next_ns / 1000000000u), .tv_nsec = (long)(next_ns % 1000000000u)}};
    timerfd_settime(r->timer, TFD_TIMER_ABSTIME, &spec, NULL);
}

static router_link *page_find(const router *r, const uint8_t *identity)
{
    router_link *peer = r->pages[bucket_number(identity)];
    while (peer && memcmp(peer->page.identity, identity, IDENTITY_BYTES))
        peer = peer->page_next;
    return peer;
}

static void page_remove(router_link *peer)
{
    if (!peer->page.is_open)
        return;
    router_link **at = &peer->router->pages[bucket_number(peer->page.identity)];
    while (*at != peer)
        at = &(*at)->page_next;
    *at = peer->page_next;
    peer->page.is_open = false;
}

/* The number of the peer's page is known, or another than before; 0: it has none any more. */
static void set_token(router_link *peer, uint64_t token)
{
    if (peer->token) {
        router_link **at = token_bucket(peer->router, peer->token);
        while (*at != peer)
            at = &(*at)->token_next;
        *at = peer->token_next;
    }
    peer->token = token;
    if (token) {
        router_link **bucket = token_bucket(peer->router, token);
        peer->token_next = *bucket;
        *bucket = peer;
    }
}

static void peer_remove(router_link *peer)
{
    router *r = peer->router;
    page_remove(peer);
    set_token(peer, 0);
    if (peer->probes) {
        router_link **suspected = &r->suspects;
        while (*suspected != peer)
            suspected = &(*suspected)->suspect_next;
        *suspected = peer->suspect_next;
    }
    router_link **source = source_bucket(r, peer->connection);
    while (*source != peer)
        source = &(*source)->source_next;
    *source = peer->source_next;
    router_link **at = bucket_of(r, peer->identity);
    while (*at != peer)
        at = &(*at)->next;
    *at = peer->next;
    peer->router = NULL;
    if (--r->peer_count)
        return;
    r->alive_next_ns = r->probe_next_ns = 0;
    set_timer(r);
}

/* Tell the event loop that there is something to do for this link. */
static void announce(gt_link *link)
{
    if (link->arrived)
        link->arrived(link);
}

/* ---- what link/zmq.c asks for ------------------------------------------------------------------------------- */

static bool router_send(gt_zmq_link *link, zmq_msg_t *frame)
{
    const router_link *peer = (router_link *)link;
    int rc = -1;
    if (peer->router) {
        do
            rc = zmq_send(peer->router->socket, peer->identity, IDENTITY_BYTES, ZMQ_SNDMORE | ZMQ_DONTWAIT);
        while (rc < 0 && errno == EINTR);
    }
    if (rc >= 0) {
        do
            rc = zmq_msg_send(frame, peer->router->socket, ZMQ_DONTWAIT);
        while (rc < 0 && errno == EINTR);
    }
    if (rc >= 0)
        return true;
    zmq_msg_close(frame);
    gt__link_lose(&link->base, "%s closed the connection, or was silent for too long", link->base.peer);
    announce(&link->base);
    return false;
}

/* To the connection of its page; false: it is gone. */
static bool page_send(const router_link *peer, gt_zmq_kind kind, uint64_t value)
{
    gt_zmq_control control = gt__zmq_control_of(kind, value);
    void *socket = peer->router->socket;
    return zmq_send(socket, peer->page.identity, IDENTITY_BYTES, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0 &&
           zmq_send(socket, &control, sizeof control, ZMQ_DONTWAIT) >= 0;
}

static void pump(router *r);

static void router_pump(gt_zmq_link *link)
{
    router *r = ((router_link *)link)->router;
    if (r)
        pump(r);
}

static const gt_zmq_side router_side = {.send = router_send, .pump = router_pump, .pump_on_refill = false};

/* ---- waiting ------------------------------------------------------------------------------------------------ */

static bool readable(const router *r)
{
    return gt__zmq_readable(r->socket) || gt__zmq_readable(r->monitor) ||
           (r->door.socket && gt__zmq_readable(r->door.socket));
}

static bool router_ready(gt_link *link, gt_wait what)
{
    if (gt__zmq_has(link, what))
        return true;
    router_pump((gt_zmq_link *)link);
    return gt__zmq_has(link, what);
}

static bool wait_arm(gt_link *link, gt_wait what)
{
    return !router_ready(link, what) && !link->gone && !readable(((router_link *)link)->router);
}

static bool router_arm(gt_link *link)
{
    gt_zmq_link *base = (gt_zmq_link *)link;
    if (!gt__zmq_has(link, gt__zmq_interest(link)) && !link->gone)
        return true;
    base->wanted = 0; /* reported once */
    return false;
}

static gt_err router_wait(gt_link *link, gt_wait what, int timeout_ms)
{
    const router *r = ((router_link *)link)->router;
    gt_waiter waiter = {.fd = r ? r->base.fd : -1, .ready = router_ready, .arm = wait_arm};
    return gt__link_wait_with(link, what, timeout_ms, &waiter);
}

/* ---- one peer's beginning and end --------------------------------------------------------------------------- */

static void router_link_abandon(gt_link *link)
{
    gt__zmq_link_clear((gt_zmq_link *)link);
    free(((router_link *)link)->page.copy);
    free(link);
}

static void router_link_close(gt_link *link)
{
    router_link *peer = (router_link *)link;
    gt__link_flush(link);
    if (peer->router) {
        gt__zmq_send_control(&peer->base, GT_ZMQ_CLOSE, 0);
        peer_remove(peer);
    }
    router_link_abandon(link);
}

/* ---- pages -------------------------------------------------------------------------------------------------- */

/* A connection shows the number of a peer's page: it has it from now on. */
static void page_open(router *r, const uint8_t *identity, uint64_t token, int connection)
{
    router_link *peer = token ? *token_bucket(r, token) : NULL;
    while (peer && peer->token != token)
        peer = peer->token_next;
    if (!peer)
        return;
    gt__intake_delivered(connection, true);
    page_remove(peer);
    memcpy(peer->page.identity, identity, IDENTITY_BYTES);
    router_link **bucket = &r->pages[bucket_number(identity)];
    peer->page_next = *bucket;
    *bucket = peer;
    peer->page.is_open = true;
    peer->page.asked_ns = 0;
    page_send(peer, GT_ZMQ_ACCEPT, 0);
}

/* An answer of a page. Frames of another size are dropped. */
static void page_received(router_link *peer, zmq_msg_t *frame)
{
    peer_page *page = &peer->page;
    if (zmq_msg_size(frame) != sizeof(gt_zmq_page_frame) ||
        (!page->copy && !(page->copy = aligned_alloc(sizeof(gt_slot), GT_LINK_PAGE))))
        return;
    const gt_zmq_page_frame *answer = zmq_msg_data(frame);
    uint64_t asked, at_ns; /* not aligned, perhaps */
    memcpy(&asked, &answer->asked, sizeof asked);
    memcpy(&at_ns, &answer->at_ns, sizeof at_ns);
    memcpy(page->copy, answer->words, GT_LINK_PAGE);
    page->time.at_ns = at_ns;
    if (asked != page->asked_ns || !page->asked_ns)
        return;
    uint64_t took = gt__now_ns() - page->asked_ns;
    if (peer->base.base.transport == &gt__transport_tcp &&
        (!page->time.error_ns || took <= page->time.error_ns)) { /* the quickest exchange so far */
        page->time.error_ns = took;
        page->time.offset_ns = (int64_t)(at_ns - (page->asked_ns + took / 2));
    }
    page->asked_ns = 0;
}

static const void *router_peer_page(gt_link *link, gt_page_time *time)
{
    const router_link *peer = (router_link *)link;
    *time = peer->page.time;
    time->awaited = peer->page.asked_ns != 0;
    return peer->page.copy;
}

/* A question that was lost is asked again. */
static bool router_ask_page(gt_link *link)
{
    router_link *peer = (router_link *)link;
    uint64_t now = gt__now_ns();
    if (!peer->router || !peer->page.is_open || link->gone)
        return false;
    if (peer->page.asked_ns && now - peer->page.asked_ns < PAGE_LOST_MS * 1000000ull)
        return true;
    peer->page.asked_ns = now;
    if (!page_send(peer, GT_ZMQ_PAGE_ASK, now))
        page_remove(peer); /* the connection is lost; its end makes another */
    return peer->page.is_open;
}

static const gt_link_ops router_link_ops = {
    .reserve = gt__zmq_reserve,
    .flush = gt__zmq_flush,
    .refill = gt__zmq_refill,
    .urge = gt__zmq_urge,
    .urged = gt__zmq_urged,
    .slots = gt__zmq_slots,
    .unread = gt__zmq_unread,
    .peer_page = router_peer_page,
    .ask_page = router_ask_page,
    .wait = router_wait,
    .arm = router_arm,
    .close = router_link_close,
    .abandon = router_link_abandon,
};

/* A new peer, by its first frame. ZeroMQ's text for its address is 127.0.0.1, ::ffff:127.0.0.1; for ipc none, or
 * localhost:UID:GID:PID. */
static void peer_new(router *r, const uint8_t *identity, zmq_msg_t *frame)
{
    const char *address = zmq_msg_gets(frame, "Peer-Address");
    router_link *peer = calloc(1, sizeof *peer);
    if (!peer)
        return; /* the peer will time out */
    gt_link *link = &peer->base.base;
    gt__zmq_link_init(&peer->base);
    peer->base.side = &router_side;
    peer->base.accepted = true;
    peer->router = r;
    memcpy(peer->identity, identity, IDENTITY_BYTES);
    peer->connection = zmq_msg_get(frame, ZMQ_SRCFD);
    bool local = !address || !address[0] || !strchr("0123456789abcdef:", address[0]);
    link->ops = &router_link_ops;
    link->transport = local ? &gt__transport_ipc : &gt__transport_tcp;
    if (!local)
        snprintf(link->host, sizeof link->host, "%s", strncmp(address, "::ffff:", 7) == 0 ? address + 7 : address);
    gt__door_user(&r->door, frame, link);
    /* Never the identity: those of later peers follow from it. */
    snprintf(link->peer, sizeof link->peer, "%s peer %u%s%s", link->transport->name, ++r->peers_ever,
             *link->user ? " of " : "", link->user);
    router_link **bucket = bucket_of(r, identity);
    peer->next = *bucket;
    *bucket = peer;
    router_link **source = source_bucket(r, peer->connection);
    peer->source_next = *source;
    *source = peer;
    peer->fresh_next = r->fresh;
    r->fresh = peer;
    if (r->peer_count++ == 0) {
        r->alive_next_ns = gt__now_ns();
        set_timer(r);
    }
    gt__intake_delivered(peer->connection, true);
    gt__zmq_send_control(&peer->base, GT_ZMQ_ACCEPT, GT_ZMQ_VERSION);
}

/* ---- the socket --------------------------------------------------------------------------------------------- */

/* One frame with its sender. `more`: others follow in the same message. Takes the frame. */
static void deliver(router *r, zmq_msg_t *identity, zmq_msg_t *frame, bool more)
{
    gt_zmq_control control;
    const uint8_t *id = zmq_msg_data(identity);
    bool ours = zmq_msg_size(identity) == IDENTITY_BYTES && id[0] == 0;
    router_link *peer = ours ? peer_find(r, id) : NULL;
    gt__intake_delivered(peer ? peer->connection : zmq_msg_get(frame, ZMQ_SRCFD), peer);
    if (peer) {
        gt__zmq_receive(&peer->base, frame, more);
        if (__builtin_expect(peer->base.page_token != peer->token, 0))
            set_token(peer, peer->base.page_token);
        announce(&peer->base.base);
        return;
    }
    bool is_control = ours && !more && gt__zmq_control(frame, &control);
    router_link *page_of = ours && !more ? page_find(r, id) : NULL;
    if (is_control && control.kind == GT_ZMQ_OPEN && control.value == GT_ZMQ_VERSION && !page_of)
        peer_new(r, id, frame);
    else if (is_control && control.kind == GT_ZMQ_PAGE_OPEN && !page_of)
        page_open(r, id, control.value, zmq_msg_get(frame, ZMQ_SRCFD));
    else if (!is_control && page_of)
        page_received(page_of, frame);
    zmq_msg_close(frame);
}

/* A heartbeat; false: the peer is gone. */
static bool beat(router_link *peer)
{
    zmq_msg_t empty;
    zmq_msg_init(&empty);
    return !peer->base.base.gone && router_send(&peer->base, &empty);
}

static void beat_all(router *r)
{
    for (unsigned k = 0; k < BUCKETS; k++)
        for (router_link *peer = r->peers[k]; peer; peer = peer->next)
            beat(peer);
}

/* To those that are suspected; sending fails for those that are gone. */
static void beat_suspects(router *r)
{
    for (router_link **at = &r->suspects; *at;) {
        router_link *peer = *at;
        peer->probes--;
        if (!beat(peer))
            peer->probes = 0;
        if (peer->probes)
            at = &peer->suspect_next;
        else
            *at = peer->suspect_next;
    }
}

/* The descriptor of a connection that ended may belong to a new one by now. */
static void suspect(router *r, int connection)
{
    for (router_link *peer = *source_bucket(r, connection); peer; peer = peer->source_next)
        if (peer->connection == connection && !peer->base.base.gone) {
            if (!peer->probes) {
                peer->suspect_next = r->suspects;
                r->suspects = peer;
            }
            peer->probes = PROBES;
            r->probe_next_ns = gt__now_ns();
        }
}

/* What ZeroMQ's monitor reports: sockets that listen, and connections that ended. */
static void take_events(router *r)
{
    unsigned event;
    int fd;
    while (gt__zmq_event(r->monitor, &event, &fd)) {
        if (event == ZMQ_EVENT_LISTENING)
            gt__intake_watch(fd);
        else
            suspect(r, fd);
    }
}

/* Notice who is gone. */
static void look_after_peers(router *r)
{
    take_events(r);
    if (!r->alive_next_ns)
        return;
    uint64_t now = gt__now_ns();
    if (now < next_beat_ns(r))
        return;
    if (now >= r->alive_next_ns) {
        r->alive_next_ns = now + ALIVE_MS * 1000000ull;
        beat_all(r);
    }
    beat_suspects(r);
    r->probe_next_ns = r->suspects ? now + PROBE_MS * 1000000ull : 0;
    set_timer(r);
}

static int receive_part(void *socket, zmq_msg_t *part)
{
    int rc;
    zmq_msg_init(part);
    do
        rc = zmq_msg_recv(part, socket, ZMQ_DONTWAIT);
    while (rc < 0 && errno == EINTR);
    return rc;
}

/* Move what has arrived into the links. Bounded, so that busy peers cannot block the event loop. */
static void pump(router *r)
{
    zmq_msg_t identity, frame;
    look_after_peers(r);
    gt__door_answer(&r->door);
    for (int k = 0; k < PUMP_FRAMES; k++) {
        int got = receive_part(r->socket, &identity);
        bool more = got >= 0 && zmq_msg_more(&identity);
        while (more) { /* the parts of a message arrive together */
            if (receive_part(r->socket, &frame) < 0) {
                zmq_msg_close(&frame);
                break;
            }
            more = zmq_msg_more(&frame);
            deliver(r, &identity, &frame, more);
        }
        zmq_msg_close(&identity);
        if (got < 0)
            return;
    }
}

static gt_link *router_poll(gt_acceptor *acceptor)
{
    router *r = (router *)acceptor;
    if (!r->fresh)
        pump(r);
    router_link *peer = r->fresh;
    if (!peer)
        return NULL;
    r->fresh = peer->fresh_next;
    return &peer->base.base;
}

static bool acceptor_arm(gt_acceptor *acceptor)
{
    const router *r = (router *)acceptor;
    return !r->fresh && !readable(r);
}

static void router_close(gt_acceptor *acceptor)
{
    router *r = (router *)acceptor;
    router_link *peer;
    while ((peer = r->fresh)) {
        r->fresh = peer->fresh_next;
        router_link_close(&peer->base.base);
    }
    for (unsigned k = 0; k < BUCKETS; k++) {
        while ((peer = r->peers[k])) {
            gt__link_flush(&peer->base.base);
            gt__zmq_send_control(&peer->base, GT_ZMQ_CLOSE, 0);
            gt__link_kill(&peer->base.base, "this server is closing");
            peer_remove(peer);
        }
    }
    gt__address_remove(&r->file);
    if (r->monitor) {
        zmq_socket_monitor(r->socket, NULL, 0);
        zmq_close(r->monitor);
    }
    if (r->socket)
        zmq_close(r->socket);
    gt__door_close(&r->door);
    if (r->context)
        while (zmq_ctx_term(r->context) && errno == EINTR)
            continue;
    if (r->base.fd >= 0)
        close(r->base.fd);
    if (r->timer >= 0)
        close(r->timer);
    free(r);
}

static const gt_acceptor_ops router_ops = {.poll = router_poll, .arm = acceptor_arm, .close = router_close};

/* ---- listening ---------------------------------------------------------------------------------------------- */

/* Have the acceptor's descriptor become readable with this socket. */
static bool watch(router *r, void *socket)
{
    struct epoll_event event = {.events = EPOLLIN};
    int fd = -1;
    size_t size = sizeof fd;
    return !zmq_getsockopt(socket, ZMQ_FD, &fd, &size) && !epoll_ctl(r->base.fd, EPOLL_CTL_ADD, fd, &event);
}

static bool open_monitor(router *r)
{
    static const char address[] = "inproc://monitor";
    int unbounded = 0; /* ZeroMQ's thread would wait for room otherwise */
    r->monitor = zmq_socket(r->context, ZMQ_PAIR);
    return r->monitor && !zmq_setsockopt(r->monitor, ZMQ_RCVHWM, &unbounded, sizeof unbounded) &&
           !zmq_socket_monitor(r->socket, address, ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_LISTENING) &&
           !zmq_connect(r->monitor, address) && watch(r, r->monitor);
}

static gt_err router_new(router **out)
{
    router *r = calloc(1, sizeof *r);
    if (!r)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    r->base = (gt_acceptor){.ops = &router_ops, .fd = epoll_create1(EPOLL_CLOEXEC)};
    r->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    gt__identities_seed();
    r->context = zmq_ctx_new();
    r->socket = r->context ? zmq_socket(r->context, ZMQ_ROUTER) : NULL;
    int mandatory = 1, handshake_ms = HANDSHAKE_MS, unread = MAX_UNREAD, backlog = BACKLOG;
    struct epoll_event event = {.events = EPOLLIN};
    if (!r->socket || r->timer < 0 || r->base.fd < 0 || !watch(r, r->socket) || !open_monitor(r) ||
        epoll_ctl(r->base.fd, EPOLL_CTL_ADD, r->timer, &event)) {
        gt_err err = gt__fail(GT_ERR_CONNECTION, "cannot create a socket: %s", zmq_strerror(zmq_errno()));
        router_close(&r->base);
        return err;
    }
    gt__zmq_socket_options(r->socket);
    zmq_setsockopt(r->socket, ZMQ_ROUTER_MANDATORY, &mandatory, sizeof mandatory);
    zmq_setsockopt(r->socket, ZMQ_HANDSHAKE_IVL, &handshake_ms, sizeof handshake_ms);
    zmq_setsockopt(r->socket, ZMQ_RCVHWM, &unread, sizeof unread);
    zmq_setsockopt(r->socket, ZMQ_BACKLOG, &backlog, sizeof backlog);
    *out = r;
    return GT_OK;
}

static gt_err watch_door(router *r)
{
    if (!r->door.socket || watch(r, r->door.socket))
        return GT_OK;
    return gt__fail(GT_ERR_CONNECTION, "cannot set up authentication: %s", strerror(errno));
}

static gt_err bind_tcp(router *r, const char *host, int port, const gt_guard *guard, int *bound)
{
    char endpoint[GT_ADDRESS_MAX + 16], actual[256] = "";
    size_t size = sizeof actual;
    GT_TRY(gt__zmq_endpoint("tcp", host, port, endpoint, sizeof endpoint));
    GT_TRY(gt__door_open(&r->door, r->context, r->socket, guard));
    GT_TRY(watch_door(r));
    int rc = zmq_bind(r->socket, endpoint);
    gt__door_pass(r->socket, guard);
    if (rc) {
        if (zmq_errno() == EADDRINUSE)
            return gt__fail(GT_ERR_CONNECTION, "port %d is already in use", port);
        return gt__fail(GT_ERR_CONNECTION, "cannot listen at %s: %s", endpoint, zmq_strerror(zmq_errno()));
    }
    take_events(r); /* it listens: connections are watched from now on */
    zmq_getsockopt(r->socket, ZMQ_LAST_ENDPOINT, actual, &size);
    const char *colon = strrchr(actual, ':');
    *bound = colon ? atoi(colon + 1) : port;
    return GT_OK;
}

static gt_err bind_ipc(router *r, int port)
{
    char endpoint[GT_ADDRESS_MAX + 16];
    int lock;
    GT_TRY(gt__zmq_endpoint("ipc", NULL, port, endpoint, sizeof endpoint));
    GT_TRY(gt__address_lock(&lock));
    /* ZeroMQ would remove the socket file of a running server. */
    gt_err err = gt__address_clear(endpoint + strlen("ipc://"), SOCK_STREAM, port);
    if (err == GT_OK && zmq_bind(r->socket, endpoint))
        err = gt__fail(GT_ERR_CONNECTION, "cannot listen at %s: %s", endpoint, zmq_strerror(zmq_errno()));
    if (err == GT_OK) {
        take_events(r); /* as above */
        gt__address_own(&r->file, endpoint + strlen("ipc://"));
    }
    close(lock);
    return err;
}

static gt_err finish(router *r, gt_err err, gt_acceptor **acceptor)
{
    if (err == GT_OK)
        *acceptor = &r->base;
    else
        router_close(&r->base);
    return err;
}

gt_err gt__tcp_listen(const char *host, int port, const gt_guard *guard, gt_acceptor **acceptor, int *bound)
{
    router *r = NULL;
    GT_TRY(router_new(&r));
    gt_err err = bind_tcp(r, host, port, guard, bound);
    if (err == GT_OK && gt__address_is_local(host))
        err = bind_ipc(r, *bound);
    return finish(r, err, acceptor);
}

static gt_err listen_tcp(const char *host, int port, gt_acceptor **acceptor, int *bound)
{
    return gt__tcp_listen(host, port, NULL, acceptor, bound);
}

static gt_err listen_ipc(const char *host, int port, gt_acceptor **acceptor, int *bound)
{
    router *r = NULL;
    (void)host; /* only this host can reach the socket */
    GT_TRY(router_new(&r));
    *bound = port;
    gt_err err = port ? bind_ipc(r, port) : GT_ERR_CONNECTION;
    for (int k = 0; !port && err != GT_OK && k < GT_ADDRESS_ATTEMPTS; k++) {
        *bound = gt__address_candidate(k);
        err = bind_ipc(r, *bound);
    }
    return finish(r, err, acceptor);
}

const gt_transport gt__transport_tcp = {
    .name = "tcp", .same_host_only = false, .listen = listen_tcp, .connect = gt__zmq_connect_tcp};

const gt_transport gt__transport_ipc = {
    .name = "ipc", .same_host_only = true, .listen = listen_ipc, .connect = gt__zmq_connect_ipc};

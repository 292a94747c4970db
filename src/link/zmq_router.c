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
 * The flow of slots is in link/zmq.c, the other end in link/zmq_dealer.c, the addresses in link/zmq_listen.c.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "core/log.h"
#include "link/expected.h"
#include "link/zmq_intake.h"
#include "link/zmq_resume.h"
#include "link/zmq_router.h"

enum {
    PUMP_FRAMES = 1000,
    ALIVE_MS = 1000, /* between heartbeats */
    /* The monitor is told before the socket is, so a frame may still go out to a connection that has ended. */
    PROBE_MS = 10,
    PROBES = 10,
    HANDSHAKE_MS = 3000, /* time for a connection to prove to be ZeroMQ */
    BACKLOG = 4096,      /* connections that the kernel holds for us; it may allow fewer. ZeroMQ's own is 100 */
    MAX_UNREAD = 1000,   /* frames: then ZeroMQ stops reading from a peer that ignores credit */
};

/* ---- peers -------------------------------------------------------------------------------------------------- */

static gt_zmq_peer **source_bucket(gt_zmq_router *r, int connection)
{
    return &r->sources[(unsigned)connection % GT_ZMQ_BUCKETS];
}

static gt_zmq_peer **bucket_of(gt_zmq_router *r, const uint8_t *identity)
{
    return &r->peers[gt__zmq_bucket(identity)];
}

static gt_zmq_peer *peer_find(gt_zmq_router *r, const uint8_t *identity)
{
    gt_zmq_peer *peer = *bucket_of(r, identity);
    while (peer && memcmp(peer->identity, identity, GT_ZMQ_IDENTITY_BYTES))
        peer = peer->next;
    return peer;
}

/* When heartbeats are due next; 0: never. */
static uint64_t next_beat_ns(const gt_zmq_router *r)
{
    return r->probe_next_ns && r->probe_next_ns < r->alive_next_ns ? r->probe_next_ns : r->alive_next_ns;
}

/* Once, at that time: a timer that rang before would keep the loop awake. It is silent from now until then. */
static void set_timer(gt_zmq_router *r)
{
    uint64_t next_ns = next_beat_ns(r);
    struct itimerspec spec = {
        .it_value = {.tv_sec = (time_t)(next_ns / 1000000000u), .tv_nsec = (long)(next_ns % 1000000000u)}};
    timerfd_settime(r->timer, TFD_TIMER_ABSTIME, &spec, NULL);
}

/* The peer has this connection from now on. */
static void connection_enter(gt_zmq_peer *peer, const uint8_t *identity, int connection)
{
    memcpy(peer->identity, identity, GT_ZMQ_IDENTITY_BYTES);
    peer->connection = connection;
    gt_zmq_peer **bucket = bucket_of(peer->router, identity);
    peer->next = *bucket;
    *bucket = peer;
    gt_zmq_peer **source = source_bucket(peer->router, connection);
    peer->source_next = *source;
    *source = peer;
}

static void unchain(gt_zmq_peer **list, const gt_zmq_peer *peer)
{
    while (*list != peer)
        list = &(*list)->next;
    *list = peer->next;
}

static void connection_leave(gt_zmq_peer *peer)
{
    gt_zmq_router *r = peer->router;
    if (peer->is_expected) {
        unchain(&r->expected, peer);
        peer->is_expected = false;
        return;
    }
    if (peer->probes) {
        gt_zmq_peer **suspected = &r->suspects;
        while (*suspected != peer)
            suspected = &(*suspected)->suspect_next;
        *suspected = peer->suspect_next;
    }
    gt_zmq_peer **source = source_bucket(r, peer->connection);
    while (*source != peer)
        source = &(*source)->source_next;
    *source = peer->source_next;
    unchain(bucket_of(r, peer->identity), peer);
}

static void peer_remove(gt_zmq_peer *peer)
{
    gt_zmq_router *r = peer->router;
    gt__zmq_page_remove(peer);
    gt__zmq_page_number(peer, 0);
    connection_leave(peer);
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

/* The connection has ended. The peer may make another one, if it gave a secret for that. */
static void connection_lost(gt_zmq_peer *peer)
{
    gt_link *link = &peer->base.base;
    if (!link->gone && peer->base.keeps && peer->router) {
        peer->base.cut = true;
        peer->cut_until_ns = gt__deadline_ns(peer->resume_ms);
        gt__log(GT_LOG_STATUS, "%s lost its connection; it has %g s to come back", link->peer,
                peer->resume_ms / 1000.0);
        return;
    }
    gt__link_lose(link, "%s closed the connection, or was silent for too long", link->peer);
    announce(link);
}

static bool router_send(gt_zmq_link *link, zmq_msg_t *frame)
{
    gt_zmq_peer *peer = (gt_zmq_peer *)link;
    int rc = -1;
    if (peer->router) {
        do
            rc = zmq_send(peer->router->socket, peer->identity, GT_ZMQ_IDENTITY_BYTES, ZMQ_SNDMORE | ZMQ_DONTWAIT);
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
    connection_lost(peer);
    return false;
}

static void router_resumes(gt_link *link, int within_ms)
{
    gt_zmq_peer *peer = (gt_zmq_peer *)link;
    if (!gt__zmq_knows_secret(&peer->base, peer->base.secret)) /* it has given none */
        return;
    peer->resume_ms = within_ms < 0 ? GT_RESUME_MS : within_ms;
    gt__zmq_keep(&peer->base);
}

static int router_away_ms(const gt_link *link)
{
    const gt_zmq_peer *peer = (const gt_zmq_peer *)link;
    return peer->base.cut ? gt__remaining_ms(peer->cut_until_ns) : -1;
}

/* As if the connection were lost: nothing more is sent. */
static void router_leave(gt_link *link)
{
    ((gt_zmq_link *)link)->cut = true;
}

static const uint8_t *router_secret(const gt_link *link)
{
    const gt_zmq_link *base = &((const gt_zmq_peer *)link)->base;
    return base->keeps ? base->secret : NULL;
}

static void pump(gt_zmq_router *r);

static void router_pump(gt_zmq_link *link)
{
    gt_zmq_router *r = ((gt_zmq_peer *)link)->router;
    if (r)
        pump(r);
}

static const gt_zmq_side router_side = {.send = router_send, .pump = router_pump, .pump_on_refill = false};

/* ---- waiting ------------------------------------------------------------------------------------------------ */

static bool readable(const gt_zmq_router *r)
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
    return !router_ready(link, what) && !link->gone && !readable(((gt_zmq_peer *)link)->router);
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
    const gt_zmq_router *r = ((gt_zmq_peer *)link)->router;
    gt_waiter waiter = {.fd = r ? r->base.fd : -1, .ready = router_ready, .arm = wait_arm};
    return gt__link_wait_with(link, what, timeout_ms, &waiter);
}

/* ---- one peer's beginning and end --------------------------------------------------------------------------- */

static void router_link_abandon(gt_link *link)
{
    gt__zmq_link_clear((gt_zmq_link *)link);
    free(((gt_zmq_peer *)link)->page.copy);
    free(link);
}

static void router_link_close(gt_link *link)
{
    gt_zmq_peer *peer = (gt_zmq_peer *)link;
    gt__link_flush(link);
    if (peer->router) {
        gt__zmq_send_control(&peer->base, GT_ZMQ_CLOSE, 0);
        peer_remove(peer);
    }
    router_link_abandon(link);
}

static const gt_link_ops router_link_ops = {
    .reserve = gt__zmq_reserve,
    .flush = gt__zmq_flush,
    .refill = gt__zmq_refill,
    .urge = gt__zmq_urge,
    .urged = gt__zmq_urged,
    .resumes = router_resumes,
    .away_ms = router_away_ms,
    .durable = gt__zmq_durable,
    .secret = router_secret,
    .leave = router_leave,
    .slots = gt__zmq_slots,
    .unread = gt__zmq_unread,
    .peer_page = gt__zmq_peer_page,
    .ask_page = gt__zmq_ask_page,
    .wait = router_wait,
    .arm = router_arm,
    .close = router_link_close,
    .abandon = router_link_abandon,
};

static gt_zmq_peer *peer_alloc(gt_zmq_router *r)
{
    gt_zmq_peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        return NULL;
    gt__zmq_link_init(&peer->base);
    peer->base.side = &router_side;
    peer->base.accepted = true;
    peer->base.life = r->life;
    peer->base.base.ops = &router_link_ops;
    peer->router = r;
    return peer;
}

/* It is in one of the router's lists now. */
static void peer_entered(gt_zmq_router *r)
{
    if (r->peer_count++)
        return;
    r->alive_next_ns = gt__now_ns();
    set_timer(r);
}

/* Never the identity: those of later peers follow from it. */
static void peer_name(gt_zmq_router *r, gt_link *link)
{
    snprintf(link->peer, sizeof link->peer, "%s peer %u%s%s", link->transport->name, ++r->peers_ever,
             *link->user ? " of " : "", link->user);
}

/* Where a frame comes from. ZeroMQ's text for it is 127.0.0.1, ::ffff:127.0.0.1; for ipc none, or localhost:UID:GID:PID. */
static void peer_address(zmq_msg_t *frame, gt_link *link)
{
    const char *address = zmq_msg_gets(frame, "Peer-Address");
    bool local = !address || !address[0] || !strchr("0123456789abcdef:", address[0]);
    link->transport = local ? &gt__transport_ipc : &gt__transport_tcp;
    if (!local)
        snprintf(link->host, sizeof link->host, "%s", strncmp(address, "::ffff:", 7) == 0 ? address + 7 : address);
}

/* A new peer, by its first frame. */
static void peer_new(gt_zmq_router *r, const uint8_t *identity, zmq_msg_t *frame)
{
    gt_zmq_peer *peer = peer_alloc(r);
    if (!peer)
        return; /* the peer will time out */
    gt_link *link = &peer->base.base;
    peer_address(frame, link);
    gt__door_user(&r->door, frame, link);
    peer_name(r, link);
    connection_enter(peer, identity, zmq_msg_get(frame, ZMQ_SRCFD));
    peer->fresh_next = r->fresh;
    r->fresh = peer;
    peer_entered(r);
    gt__intake_delivered(peer->connection, true);
    gt__zmq_send_control(&peer->base, GT_ZMQ_ACCEPT,
                         GT_ZMQ_VERSION | (r->journal ? GT_ZMQ_JOURNAL : 0) | r->life << GT_ZMQ_LIFE_SHIFT);
}

/* ---- links that go on by another connection ----------------------------------------------------------------- */

static gt_zmq_peer *find_secret(gt_zmq_peer *list, const uint8_t *secret)
{
    for (gt_zmq_peer *peer = list; peer; peer = peer->next)
        if (peer->base.keeps && !peer->base.base.gone && gt__zmq_knows_secret(&peer->base, secret))
            return peer;
    return NULL;
}

/* Which link has this secret. The sender must be who the link's peer was. NULL: none. */
static gt_zmq_peer *find_resumed(gt_zmq_router *r, const gt_zmq_resume *resume, zmq_msg_t *frame)
{
    gt_zmq_peer *found = find_secret(r->expected, resume->secret);
    for (unsigned k = 0; k < GT_ZMQ_BUCKETS && !found; k++)
        found = find_secret(r->peers[k], resume->secret);
    if (!found)
        return NULL;
    gt_link *link = &found->base.base, sender = {0};
    peer_address(frame, &sender);
    gt__door_user(&r->door, frame, &sender);
    if (strcmp(sender.user, link->user) || strcmp(sender.key, link->key))
        return NULL;
    if (found->is_expected) { /* what the journal does not say */
        link->trust = sender.trust;
        link->transport = sender.transport;
    }
    return sender.trust == link->trust && sender.transport == link->transport ? found : NULL;
}

/* The first frame of a connection shows a secret. The connection before, if there still is one, is not listened to any more. */
static void peer_resume(gt_zmq_router *r, const uint8_t *identity, gt_zmq_resume *resume, zmq_msg_t *frame)
{
    gt_zmq_control unknown = gt__zmq_control_of(GT_ZMQ_UNKNOWN, 0);
    gt_zmq_peer *peer = find_resumed(r, resume, frame);
    explicit_bzero(resume->secret, sizeof resume->secret);
    if (!peer) {
        if (zmq_send(r->socket, identity, GT_ZMQ_IDENTITY_BYTES, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
            zmq_send(r->socket, &unknown, sizeof unknown, ZMQ_DONTWAIT);
        return;
    }
    connection_leave(peer);
    peer->probes = 0;
    connection_enter(peer, identity, zmq_msg_get(frame, ZMQ_SRCFD));
    gt__intake_delivered(peer->connection, true);
    if (resume->life != r->life) /* it counts what the process before this one has sent */
        resume->arrived = resume->given = 0;
    gt__log(GT_LOG_STATUS, "%s has a new connection; %llu slots are sent again", peer->base.base.peer,
            (unsigned long long)(peer->base.sent - resume->arrived));
    if (gt__zmq_resume_send(&peer->base, GT_ZMQ_RESUMED))
        gt__zmq_resumed(&peer->base, resume);
    announce(&peer->base.base);
}

/* ---- links of the process before ---------------------------------------------------------------------------- */

void gt__acceptor_outlives(gt_acceptor *acceptor)
{
    ((gt_zmq_router *)acceptor)->journal = true;
}

gt_err gt__acceptor_expect(gt_acceptor *acceptor, const gt_link_expected *expected, gt_link **out)
{
    gt_zmq_router *r = (gt_zmq_router *)acceptor;
    gt_zmq_peer *peer = peer_alloc(r);
    if (!peer)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    gt_link *link = &peer->base.base;
    link->transport = *expected->host ? &gt__transport_tcp : &gt__transport_ipc; /* most probably */
    memcpy(peer->base.secret, expected->secret, sizeof peer->base.secret);
    snprintf(link->user, sizeof link->user, "%s", expected->user);
    snprintf(link->host, sizeof link->host, "%s", expected->host);
    snprintf(link->key, sizeof link->key, "%s", expected->key);
    peer_name(r, link);
    gt__zmq_keep(&peer->base);
    peer->base.arrived = expected->arrived;
    peer->base.cut = true;
    peer->resume_ms = expected->within_ms < 0 ? GT_RESTART_MS : expected->within_ms;
    peer->cut_until_ns = gt__deadline_ns(peer->resume_ms);
    peer->is_expected = true;
    peer->next = r->expected;
    r->expected = peer;
    peer_entered(r);
    *out = link;
    return GT_OK;
}

/* ---- the socket --------------------------------------------------------------------------------------------- */

/* One frame with its sender. `more`: others follow in the same message. Takes the frame. */
static void deliver(gt_zmq_router *r, zmq_msg_t *identity, zmq_msg_t *frame, bool more)
{
    gt_zmq_control control;
    gt_zmq_resume resume;
    const uint8_t *id = zmq_msg_data(identity);
    bool ours = zmq_msg_size(identity) == GT_ZMQ_IDENTITY_BYTES && id[0] == 0;
    gt_zmq_peer *peer = ours ? peer_find(r, id) : NULL;
    gt__intake_delivered(peer ? peer->connection : zmq_msg_get(frame, ZMQ_SRCFD), peer);
    if (peer) {
        gt__zmq_receive(&peer->base, frame, more);
        if (__builtin_expect(peer->base.page_token != peer->token, 0))
            gt__zmq_page_number(peer, peer->base.page_token);
        announce(&peer->base.base);
        return;
    }
    bool is_control = ours && !more && gt__zmq_control(frame, &control);
    gt_zmq_peer *page_of = ours && !more ? gt__zmq_page_find(r, id) : NULL;
    if (is_control && control.kind == GT_ZMQ_OPEN && control.value == GT_ZMQ_VERSION && !page_of)
        peer_new(r, id, frame);
    else if (is_control && control.kind == GT_ZMQ_PAGE_OPEN && !page_of)
        gt__zmq_page_open(r, id, control.value, zmq_msg_get(frame, ZMQ_SRCFD));
    else if (ours && !more && !page_of && gt__zmq_resume_read(frame, &resume) && resume.kind == GT_ZMQ_RESUME)
        peer_resume(r, id, &resume, frame);
    else if (!is_control && page_of)
        gt__zmq_page_received(page_of, frame);
    zmq_msg_close(frame);
}

/* A heartbeat; false: the peer is gone. */
static bool beat(gt_zmq_peer *peer)
{
    gt_link *link = &peer->base.base;
    zmq_msg_t empty;
    zmq_msg_init(&empty);
    if (peer->base.cut && !gt__remaining_ms(peer->cut_until_ns)) {
        peer->base.cut = false;
        gt__link_lose(link, "the connection to %s was lost, and it has not come back within %g s", link->peer,
                      peer->resume_ms / 1000.0);
        announce(link);
    }
    return !peer->base.cut && !peer->base.base.gone && router_send(&peer->base, &empty);
}

static void beat_all(gt_zmq_router *r)
{
    for (gt_zmq_peer *peer = r->expected; peer; peer = peer->next)
        beat(peer);
    for (unsigned k = 0; k < GT_ZMQ_BUCKETS; k++)
        for (gt_zmq_peer *peer = r->peers[k]; peer; peer = peer->next)
            beat(peer);
}

/* To those that are suspected; sending fails for those that are gone. */
static void beat_suspects(gt_zmq_router *r)
{
    for (gt_zmq_peer **at = &r->suspects; *at;) {
        gt_zmq_peer *peer = *at;
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
static void suspect(gt_zmq_router *r, int connection)
{
    for (gt_zmq_peer *peer = *source_bucket(r, connection); peer; peer = peer->source_next)
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
void gt__zmq_router_take_events(gt_zmq_router *r)
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
static void look_after_peers(gt_zmq_router *r)
{
    gt__zmq_router_take_events(r);
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
static void pump(gt_zmq_router *r)
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
    gt_zmq_router *r = (gt_zmq_router *)acceptor;
    if (!r->fresh)
        pump(r);
    gt_zmq_peer *peer = r->fresh;
    if (!peer)
        return NULL;
    r->fresh = peer->fresh_next;
    return &peer->base.base;
}

static bool acceptor_arm(gt_acceptor *acceptor)
{
    const gt_zmq_router *r = (gt_zmq_router *)acceptor;
    return !r->fresh && !readable(r);
}

/* The acceptor is closed, and the owner of the link still has it. */
static void disconnect(gt_zmq_peer *peer)
{
    gt__link_flush(&peer->base.base);
    gt__zmq_send_control(&peer->base, GT_ZMQ_CLOSE, 0);
    gt__link_kill(&peer->base.base, "this server is closing");
    peer_remove(peer);
}

static void router_close(gt_acceptor *acceptor)
{
    gt_zmq_router *r = (gt_zmq_router *)acceptor;
    gt_zmq_peer *peer;
    while ((peer = r->fresh)) {
        r->fresh = peer->fresh_next;
        router_link_close(&peer->base.base);
    }
    while (r->expected)
        disconnect(r->expected);
    for (unsigned k = 0; k < GT_ZMQ_BUCKETS; k++)
        while (r->peers[k])
            disconnect(r->peers[k]);
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

/* ---- beginning ---------------------------------------------------------------------------------------------- */

bool gt__zmq_router_watch(gt_zmq_router *r, void *socket)
{
    struct epoll_event event = {.events = EPOLLIN};
    int fd = -1;
    size_t size = sizeof fd;
    return !zmq_getsockopt(socket, ZMQ_FD, &fd, &size) && !epoll_ctl(r->base.fd, EPOLL_CTL_ADD, fd, &event);
}

static bool open_monitor(gt_zmq_router *r)
{
    static const char address[] = "inproc://monitor";
    int unbounded = 0; /* ZeroMQ's thread would wait for room otherwise */
    r->monitor = zmq_socket(r->context, ZMQ_PAIR);
    return r->monitor && !zmq_setsockopt(r->monitor, ZMQ_RCVHWM, &unbounded, sizeof unbounded) &&
           !zmq_socket_monitor(r->socket, address, ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_LISTENING) &&
           !zmq_connect(r->monitor, address) && gt__zmq_router_watch(r, r->monitor);
}

gt_err gt__zmq_router_new(gt_zmq_router **out)
{
    gt_zmq_router *r = calloc(1, sizeof *r);
    if (!r)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    r->base = (gt_acceptor){.ops = &router_ops, .fd = epoll_create1(EPOLL_CLOEXEC)};
    r->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    gt__identities_seed();
    if (getrandom(&r->life, sizeof r->life, 0) != (ssize_t)sizeof r->life)
        r->life = gt__now_ns();
    r->life >>= GT_ZMQ_LIFE_SHIFT; /* as much of it as ACCEPT has room for */
    r->context = zmq_ctx_new();
    r->socket = r->context ? zmq_socket(r->context, ZMQ_ROUTER) : NULL;
    int mandatory = 1, handshake_ms = HANDSHAKE_MS, unread = MAX_UNREAD, backlog = BACKLOG;
    struct epoll_event event = {.events = EPOLLIN};
    if (!r->socket || r->timer < 0 || r->base.fd < 0 || !gt__zmq_router_watch(r, r->socket) || !open_monitor(r) ||
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

/*
 * link/zmq_dealer.c: the end of a ZeroMQ link that connects: clients and workers.
 *
 * A DEALER socket with a context of its own, so that a process without ZeroMQ links runs no ZeroMQ threads. A monitor
 * socket reports what a DEALER does not: that no server listens, or that the server is gone. ZeroMQ does not reconnect: a lost
 * connection is a dead link, or one that makes another connection (zmq_resume.h), with sockets of its own.
 *
 * The flow of slots is in link/zmq.c, the other end in link/zmq_router.c.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "core/log.h"
#include "link/address.h"
#include "link/zmq.h"
#include "link/zmq_guard.h"
#include "link/zmq_page.h"
#include "link/zmq_resume.h"

enum {
    PUMP_FRAMES = 1000,
    IDLE_LOOKS = 1024,
    RETRY_MS = 50,                /* between attempts to connect again */
    ATTEMPT_MS = 1000,            /* for the first one: packets may be lost. Each one gets twice as long */
    RETURNS = GT_ZMQ_WINDOW / 64, /* slots: the server keeps what it sent to each client until credit comes back */
};

/* A connection that was lost, and the attempts to make another. */
typedef struct reconnection {
    int within_ms; /* 0: there are none */
    bool failed;   /* the sockets are of no more use */
    bool local;    /* the server is on this host: where none listens, it has ended */
    unsigned attempts;
    uint64_t lost_ns, give_up_ns; /* 0: it is not lost */
    uint64_t next_ns;             /* when the next attempt begins, or this one has failed */
    int timer;                    /* wakes a wait while the link is cut; -1: it never was */
} reconnection;

typedef struct dealer_link {
    gt_zmq_link base;
    void *context, *socket, *monitor;
    gt_zmq_page *page; /* NULL until it is asked for */
    char endpoint[GT_ADDRESS_MAX + 16];
    int port;
    gt_keys keys; /* for the page's connection */
    bool has_keys;
    int connection;    /* ZeroMQ's descriptor of the connection; -1: not connected */
    unsigned idle;     /* pumps in a row that found nothing */
    unsigned monitors; /* that it had */
    reconnection again;
} dealer_link;

/* Take up to `most` frames that have arrived; returns how many there were. */
static int receive_frames(dealer_link *dealer, int most)
{
    zmq_msg_t frame;
    for (int k = 0; k < most; k++) {
        zmq_msg_init(&frame);
        if (zmq_msg_recv(&frame, dealer->socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&frame);
            return k;
        }
        bool more = zmq_msg_more(&frame);
        gt__zmq_receive(&dealer->base, &frame, more);
    }
    return most;
}

static void connection_lost(dealer_link *dealer)
{
    dealer->base.cut = !dealer->base.base.gone;
    dealer->again.failed = true;
}

/* ---- the monitor -------------------------------------------------------------------------------------------- */

static void event_seen(dealer_link *dealer, unsigned event, int value)
{
    gt_link *link = &dealer->base.base;
    if (dealer->base.cut && dealer->again.failed)
        return;                                            /* the end of one connection can be several events */
    if (event != ZMQ_EVENT_CONNECTED && !dealer->base.cut) /* its last frames may have arrived since we looked */
        while (receive_frames(dealer, PUMP_FRAMES) == PUMP_FRAMES)
            continue;
    if (event == ZMQ_EVENT_CONNECTED)
        dealer->connection = value;
    else if (dealer->base.cut && dealer->connection < 0 && dealer->again.local)
        gt__link_lose(link, "%s has ended", link->peer);
    else if (dealer->base.cut || (dealer->connection >= 0 && dealer->base.keeps && dealer->base.accepted))
        connection_lost(dealer);
    else if (dealer->connection < 0)
        gt__link_lose(link, "no %s", link->peer + strlen("the "));
    else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
        gt__link_lose(link, "%s refused: it does not allow this key", link->peer);
    else if (!dealer->base.accepted && dealer->again.local && link->trust == GT_TRUST_NONE)
        gt__link_lose(
            link,
            "%s refused the connection, or has ended: is it GT, and was it started by this user and with the same "
            "XDG_RUNTIME_DIR, or has a key (--key-file)?",
            link->peer);
    else if (!dealer->base.accepted)
        gt__link_lose(link, "%s refused the connection, or has ended: is it GT, and the key right (--key-file)?",
                      link->peer);
    else
        gt__link_lose(link, "%s closed the connection, or was silent for too long", link->peer);
    if (event != ZMQ_EVENT_CONNECTED)
        dealer->connection = -1; /* closed; the number may be in use for another file by now */
}

static void monitor_drain(dealer_link *dealer)
{
    unsigned event;
    int connection;
    while (gt__zmq_event(dealer->monitor, &event, &connection))
        event_seen(dealer, event, connection);
}

/* ---- what link/zmq.c asks for ------------------------------------------------------------------------------- */

static bool dealer_send(gt_zmq_link *link, zmq_msg_t *frame)
{
    dealer_link *dealer = (dealer_link *)link;
    int rc;
    do
        rc = zmq_msg_send(frame, dealer->socket, ZMQ_DONTWAIT);
    while (rc < 0 && errno == EINTR);
    if (rc >= 0)
        return true;
    zmq_msg_close(frame);
    if (link->keeps)
        connection_lost(dealer);
    else
        gt__link_lose(&link->base, "%s closed the connection", link->base.peer);
    return false;
}

static void reconnect(dealer_link *dealer);

static void dealer_pump(gt_zmq_link *link)
{
    dealer_link *dealer = (dealer_link *)link;
    if (__builtin_expect(link->cut, 0))
        reconnect(dealer);
    else if (receive_frames(dealer, PUMP_FRAMES) == 0 && ++dealer->idle % IDLE_LOOKS == 0)
        monitor_drain(dealer);
}

static const gt_zmq_side dealer_side = {.send = dealer_send, .pump = dealer_pump, .pump_on_refill = true};

/* ---- waiting ------------------------------------------------------------------------------------------------ */

static bool dealer_ready(gt_link *link, gt_wait what)
{
    if (gt__zmq_has(link, what))
        return true;
    dealer_pump((gt_zmq_link *)link);
    return gt__zmq_has(link, what);
}

/* A ZeroMQ descriptor can be relied on only after ZMQ_EVENTS was read, and until the next use of its socket. */
static bool quiet(dealer_link *dealer)
{
    monitor_drain(dealer);
    if (dealer->base.cut && (dealer->again.failed || !dealer->socket))
        return !dealer->again.failed; /* its timer rings */
    return !dealer->base.base.gone && !gt__zmq_readable(dealer->monitor) && !gt__zmq_readable(dealer->socket);
}

static bool arm_for(gt_link *link, gt_wait what)
{
    return !dealer_ready(link, what) && quiet((dealer_link *)link);
}

static bool dealer_arm(gt_link *link)
{
    bool quiet_now = arm_for(link, gt__zmq_interest(link));
    if (!quiet_now)
        ((gt_zmq_link *)link)->wanted = 0; /* reported once */
    return quiet_now;
}

static gt_err dealer_wait(gt_link *link, gt_wait what, int timeout_ms)
{
    gt_waiter waiter = {.fd = link->fd, .ready = dealer_ready, .arm = arm_for};
    return gt__link_wait_with(link, what, timeout_ms, &waiter);
}

/* ---- the page ----------------------------------------------------------------------------------------------- */

static void set_keys(dealer_link *dealer, void *socket)
{
    gt_link *link = &dealer->base.base;
    if (link->transport == &gt__transport_tcp)
        gt__door_keys(link, socket, dealer->endpoint, dealer->port, dealer->has_keys ? &dealer->keys : NULL);
    else
        gt__link_same_user(link);
}

static gt_zmq_page *page_open(dealer_link *dealer)
{
    uint64_t token;
    if (getrandom(&token, sizeof token, 0) != (ssize_t)sizeof token || !token)
        return NULL;
    void *socket = zmq_socket(dealer->context, ZMQ_DEALER);
    if (!socket)
        return NULL;
    gt__zmq_socket_options(socket);
    set_keys(dealer, socket);
    if (zmq_connect(socket, dealer->endpoint)) {
        zmq_close(socket);
        return NULL;
    }
    gt__zmq_send_control(&dealer->base, GT_ZMQ_PAGE, token);
    return gt__zmq_page_new(socket, token);
}

static void *dealer_page(gt_link *link)
{
    dealer_link *dealer = (dealer_link *)link;
    if (!dealer->page && !link->gone)
        dealer->page = page_open(dealer);
    return dealer->page ? gt__zmq_page_bytes(dealer->page) : NULL;
}

/* ---- beginning and end -------------------------------------------------------------------------------------- */

static void dealer_free(dealer_link *dealer)
{
    if (dealer->base.base.fd >= 0)
        close(dealer->base.base.fd);
    if (dealer->again.timer >= 0)
        close(dealer->again.timer);
    gt__zmq_link_clear(&dealer->base);
    explicit_bzero(&dealer->keys, sizeof dealer->keys);
    free(dealer);
}

static void close_sockets(dealer_link *dealer, int linger_ms)
{
    if (dealer->socket) {
        zmq_setsockopt(dealer->socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
        zmq_socket_monitor(dealer->socket, NULL, 0);
        zmq_close(dealer->socket);
    }
    if (dealer->monitor)
        zmq_close(dealer->monitor);
    dealer->socket = dealer->monitor = NULL;
    dealer->connection = -1;
}

static void dealer_close(gt_link *link)
{
    dealer_link *dealer = (dealer_link *)link;
    gt__zmq_page_free(dealer->page);
    gt__link_flush(link);
    if (dealer->socket && !link->gone && dealer->base.accepted)
        gt__zmq_send_control(&dealer->base, GT_ZMQ_CLOSE, 0);
    close_sockets(dealer, dealer->connection < 0 || !dealer->base.accepted ? 0 : GT_ZMQ_LINGER_MS);
    if (dealer->context)
        while (zmq_ctx_term(dealer->context) && errno == EINTR)
            continue;
    dealer_free(dealer);
}

/* The context's threads are in the parent, so the context cannot be freed here. Only the connection is closed, which the
 * server would otherwise see open while this process lives. */
static void dealer_abandon(gt_link *link)
{
    dealer_link *dealer = (dealer_link *)link;
    if (dealer->connection >= 0)
        close(dealer->connection);
    gt__zmq_page_abandon(dealer->page);
    dealer_free(dealer);
}

/* Links by ipc are lost only with the server. So are those by tcp on one host, if no tunnel is between, and there the server shall free
 * what a killed client had at once. A server with a journal may come back, wherever it is. */
static void dealer_resumes(gt_link *link, int within_ms)
{
    dealer_link *dealer = (dealer_link *)link;
    bool journal = dealer->base.journal;
    if (within_ms < 0)
        within_ms = journal ? GT_RESTART_MS : dealer->again.local ? 0 : GT_RESUME_MS;
    dealer->again.local &= !journal;
    if (!within_ms || (link->transport != &gt__transport_tcp && !journal) ||
        getrandom(dealer->base.secret, GT_ZMQ_SECRET_BYTES, 0) != GT_ZMQ_SECRET_BYTES)
        return;
    dealer->again.within_ms = within_ms;
    dealer->base.returns = RETURNS;
    if (gt__zmq_resume_send(&dealer->base, GT_ZMQ_SECRET))
        gt__zmq_keep(&dealer->base);
}

static const gt_link_ops dealer_ops = {
    .reserve = gt__zmq_reserve,
    .flush = gt__zmq_flush,
    .refill = gt__zmq_refill,
    .urge = gt__zmq_urge,
    .urged = gt__zmq_urged,
    .resumes = dealer_resumes,
    .slots = gt__zmq_slots,
    .unread = gt__zmq_unread,
    .page = dealer_page,
    .wait = dealer_wait,
    .arm = dealer_arm,
    .close = dealer_close,
    .abandon = dealer_abandon,
};

static bool watch(int epoll, void *socket)
{
    struct epoll_event event = {.events = EPOLLIN};
    int fd = -1;
    size_t size = sizeof fd;
    return !zmq_getsockopt(socket, ZMQ_FD, &fd, &size) && !epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

/* Open the sockets and start connecting; false and errno on failure. */
static bool open_sockets(dealer_link *dealer)
{
    /* No limit on unread messages beyond the credit we give: at a limit ZeroMQ would stop reading, heartbeats included,
     * and a worker that is busy for long would count as dead. The timeout of connecting is ours. A lost connection is dead to
     * us; but told never to reconnect, ZeroMQ drops what had arrived before. So it waits, for longer than the link lives. */
    int unbounded = 0, no_limit = 0;
    int much_later = 3600000, watched = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CLOSED | ZMQ_EVENT_DISCONNECTED |
                                        ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                                        ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
    char monitor[32]; /* a name of its own: ZeroMQ gives up the last one when it gets to it */
    snprintf(monitor, sizeof monitor, "inproc://monitor%u", dealer->monitors++);
    dealer->socket = zmq_socket(dealer->context, ZMQ_DEALER);
    dealer->monitor = zmq_socket(dealer->context, ZMQ_PAIR);
    if (!dealer->socket || !dealer->monitor)
        return false;
    gt__zmq_socket_options(dealer->socket);
    zmq_setsockopt(dealer->socket, ZMQ_RCVHWM, &unbounded, sizeof unbounded);
    zmq_setsockopt(dealer->socket, ZMQ_HANDSHAKE_IVL, &no_limit, sizeof no_limit);
    zmq_setsockopt(dealer->socket, ZMQ_RECONNECT_IVL, &much_later, sizeof much_later);
    set_keys(dealer, dealer->socket);
    return !zmq_socket_monitor(dealer->socket, monitor, watched) && !zmq_connect(dealer->monitor, monitor) &&
           watch(dealer->base.base.fd, dealer->socket) && watch(dealer->base.base.fd, dealer->monitor) &&
           !zmq_connect(dealer->socket, dealer->endpoint);
}

static bool dealer_open(dealer_link *dealer)
{
    dealer->base.base.fd = epoll_create1(EPOLL_CLOEXEC);
    dealer->context = zmq_ctx_new();
    return dealer->context && dealer->base.base.fd >= 0 && open_sockets(dealer);
}

/* ---- another connection ------------------------------------------------------------------------------------- */

static void set_timer(reconnection *again, int every_ms)
{
    struct timespec every = {.tv_nsec = every_ms * 1000000L};
    struct itimerspec spec = {.it_value = every, .it_interval = every};
    timerfd_settime(again->timer, 0, &spec, NULL);
}

/* The connection was lost just now. */
static bool begin_attempts(dealer_link *dealer)
{
    reconnection *again = &dealer->again;
    struct epoll_event event = {.events = EPOLLIN};
    if (again->timer < 0) {
        again->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        if (again->timer < 0 || epoll_ctl(dealer->base.base.fd, EPOLL_CTL_ADD, again->timer, &event))
            return false;
    }
    set_timer(again, RETRY_MS);
    again->attempts = 0;
    again->lost_ns = again->next_ns = gt__now_ns();
    again->give_up_ns = gt__deadline_ns(again->within_ms);
    return true;
}

static void next_attempt(dealer_link *dealer, uint64_t now)
{
    reconnection *again = &dealer->again;
    unsigned doubled = again->attempts < 6 ? again->attempts : 6;
    again->attempts++;
    again->next_ns = now + ((uint64_t)ATTEMPT_MS << doubled) * 1000000u;
    if (!open_sockets(dealer) || !gt__zmq_resume_send(&dealer->base, GT_ZMQ_RESUME))
        again->failed = true;
}

/* While the link is cut: go on with making a connection. Never blocks. */
static void reconnect(dealer_link *dealer)
{
    reconnection *again = &dealer->again;
    gt_link *link = &dealer->base.base;
    uint64_t rings, now = gt__now_ns();
    if (!again->give_up_ns && !begin_attempts(dealer))
        gt__link_lose(link, "the connection to %s was lost: %s", link->peer, strerror(errno));
    else if (now >= again->give_up_ns)
        gt__link_lose(link, "the connection to %s was lost, and could not be made again within %g s", link->peer,
                      again->within_ms / 1000.0);
    if (link->gone)
        return;
    ssize_t got = read(again->timer, &rings, sizeof rings);
    (void)got; /* it may not have rung */
    if (again->failed || (dealer->socket && now >= again->next_ns)) {
        close_sockets(dealer, 0);
        again->next_ns = again->attempts && again->failed ? now + RETRY_MS * 1000000u : now;
        again->failed = false;
    }
    if (!dealer->socket && now >= again->next_ns)
        next_attempt(dealer, now);
    receive_frames(dealer, PUMP_FRAMES);
    monitor_drain(dealer); /* last: the new connection may have been lost, too */
    if (dealer->base.cut || link->gone)
        return;
    gt__log(GT_LOG_STATUS, "connected again to %s after %.3f s", link->peer,
            (double)(gt__now_ns() - again->lost_ns) / 1e9);
    again->give_up_ns = 0;
    set_timer(again, 0);
}

static bool accepted_ready(gt_link *link, gt_wait what)
{
    (void)what;
    dealer_pump((gt_zmq_link *)link);
    return ((gt_zmq_link *)link)->accepted;
}

static bool accepted_arm(gt_link *link, gt_wait what)
{
    return !accepted_ready(link, what) && quiet((dealer_link *)link);
}

/* Wait until the server accepts. */
static gt_err dealer_handshake(dealer_link *dealer, int timeout_ms)
{
    gt_link *link = &dealer->base.base;
    gt_waiter waiter = {.fd = link->fd, .ready = accepted_ready, .arm = accepted_arm};
    gt__zmq_send_control(&dealer->base, GT_ZMQ_OPEN, GT_ZMQ_VERSION);
    gt_err err = gt__link_wait_with(link, GT_WAIT_WRITE, timeout_ms, &waiter);
    if (err == GT_ERR_TIMEOUT && dealer->connection < 0)
        return gt__fail(GT_ERR_CONNECTION, "no %s", link->peer + strlen("the "));
    if (err == GT_ERR_TIMEOUT)
        return gt__fail(err, "%s did not answer within %d ms", link->peer, timeout_ms);
    return err;
}

static gt_err dealer_connect(const gt_transport *transport, const char *host, int port, const gt_keys *keys,
                             int timeout_ms, gt_link **out)
{
    if (port < 1 || port > 65535)
        return gt__fail(GT_ERR_CONNECTION, "%d is not a port", port);
    dealer_link *dealer = calloc(1, sizeof *dealer);
    if (!dealer)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    gt_err err = gt__zmq_endpoint(transport->name, host, port, dealer->endpoint, sizeof dealer->endpoint);
    if (err != GT_OK) {
        free(dealer);
        return err;
    }
    dealer->port = port;
    if (keys) {
        dealer->keys = *keys;
        dealer->has_keys = true;
    }
    gt_link *link = &dealer->base.base;
    gt__zmq_link_init(&dealer->base);
    dealer->base.side = &dealer_side;
    dealer->connection = dealer->again.timer = -1;
    dealer->again.local = gt__address_is_local(host);
    link->ops = &dealer_ops;
    link->transport = transport;
    snprintf(link->peer, sizeof link->peer, "the server at %s://%.32s:%d", transport->name, host ? host : "",
             port);
    err = dealer_open(dealer) ? dealer_handshake(dealer, timeout_ms)
                              : gt__fail(GT_ERR_CONNECTION, "cannot connect to %s: %s", dealer->endpoint,
                                         zmq_strerror(zmq_errno()));
    if (err != GT_OK) {
        dealer_close(link);
        return err;
    }
    *out = link;
    return GT_OK;
}

gt_err gt__tcp_connect(const char *host, int port, const gt_keys *keys, int timeout_ms, gt_link **link)
{
    return dealer_connect(&gt__transport_tcp, host, port, keys, timeout_ms, link);
}

gt_err gt__zmq_connect_tcp(const char *host, int port, int timeout_ms, gt_link **link)
{
    return gt__tcp_connect(host, port, NULL, timeout_ms, link);
}

gt_err gt__zmq_connect_ipc(const char *host, int port, int timeout_ms, gt_link **link)
{
    if (!gt__address_is_local(host))
        return gt__fail(GT_ERR_CONNECTION, "'%s' is another host: ipc works only within one host", host);
    return dealer_connect(&gt__transport_ipc, host, port, NULL, timeout_ms, link);
}

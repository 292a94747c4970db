/*
 * link/memory_socket.c: establishes memory links: a unix socket at a private path, and descriptors sent over it.
 *
 *     connecting side                  accepting side
 *     connect, hello          --->     checks the user; makes the rings and the bells
 *     maps them               <---     welcome, with three descriptors
 *
 * The acceptor never blocks on a peer: connections that have not sent a hello wait in a table, for a few seconds.
 * link/memory.c is the established link.
 */
#include "link/memory.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "link/address.h"

#define MESSAGE_MAGIC 0x796d656d2d746721u

enum {
    MESSAGE_VERSION = 3,
    BACKLOG = 4096,       /* connections that the kernel holds for us; it may allow fewer */
    MAX_PENDING = 4096,   /* connections that have not sent a hello */
    PENDING_MS = 3000,    /* how long they may take for it */
    EVENTS = 64,          /* handled in one call of poll */
    CLOSED_AGAIN_MS = 20, /* between attempts, when a busy server closed the connection */
    REST_MS = 100,        /* between attempts to accept, when there are no descriptors */
};

typedef struct pending_peer {
    int fd;
    uint64_t deadline;
} pending_peer;

typedef struct memory_acceptor {
    gt_acceptor base; /* fd: an epoll over everything below */
    int listener;
    int spare;             /* a reserve descriptor: at the limit it is closed to accept and refuse a peer */
    int timer;             /* rings when the listener is to be watched again */
    pending_peer *pending; /* oldest first */
    unsigned pending_count, pending_room;
    gt_address_file file;
} memory_acceptor;

/* ---- messages ----------------------------------------------------------------------------------------------- */

gt_err gt__memory_send(int socket, gt_memory_kind kind, uint64_t value, const int *fds, int count)
{
    assert(count <= GT_MEMORY_PARTS);
    gt_memory_message message = {
        .magic = MESSAGE_MAGIC, .version = MESSAGE_VERSION, .kind = (uint32_t)kind, .value = value};
    union {
        char bytes[CMSG_SPACE(GT_MEMORY_PARTS * sizeof(int))];
        struct cmsghdr align;
    } control;
    memset(&control, 0, sizeof control);
    struct iovec vector = {.iov_base = &message, .iov_len = sizeof message};
    struct msghdr header = {.msg_iov = &vector, .msg_iovlen = 1};
    if (count) {
        header.msg_control = control.bytes;
        header.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(rights), fds, (size_t)count * sizeof(int));
    }
    ssize_t sent;
    do
        sent = sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent == (ssize_t)sizeof message)
        return GT_OK;
    if (errno == EAGAIN || errno == ETOOMANYREFS)
        return gt__fail(GT_ERR_TIMEOUT, "the peer has not received the descriptors sent before");
    return gt__fail(GT_ERR_CONNECTION, "cannot send to the peer: %s", strerror(errno));
}

/* In a message: the kernel's limit. Those without room it would close in this thread, which may block. */
enum { MOST_DESCRIPTORS = 253 };

/* Up to `count` descriptors of a message into `fds`; any more are closed. */
static void take_descriptors(struct msghdr *header, int *fds, int count)
{
    int taken = 0, others = 0, other[MOST_DESCRIPTORS];
    for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t total = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t k = 0; k < total; k++) {
            int fd;
            memcpy(&fd, CMSG_DATA(part) + k * sizeof fd, sizeof fd);
            if (taken < count)
                fds[taken++] = fd;
            else if (others < MOST_DESCRIPTORS)
                other[others++] = fd;
        }
    }
    gt__descriptors_discard(other, others);
}

gt_memory_received gt__memory_receive(int socket, gt_memory_message *message, int *fds, int count)
{
    union {
        char bytes[CMSG_SPACE(MOST_DESCRIPTORS * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr align;
    } control;
    struct iovec vector = {.iov_base = message, .iov_len = sizeof *message};
    struct msghdr header = {
        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    for (int k = 0; k < count; k++)
        fds[k] = -1;
    ssize_t got;
    do
        got = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN)
        return GT_MEMORY_NOTHING;
    if (got < 0 || (got == 0 && header.msg_controllen == 0))
        return GT_MEMORY_GONE;
    take_descriptors(&header, fds, count);
    /* MSG_CTRUNC is not the peer's fault: descriptors beyond our limit are not delivered. */
    bool ours = got == (ssize_t)sizeof *message && !(header.msg_flags & MSG_TRUNC) &&
                message->magic == MESSAGE_MAGIC && message->version == MESSAGE_VERSION;
    return ours ? GT_MEMORY_RECEIVED : GT_MEMORY_GARBAGE;
}

/* What the peer had sent is received, so that its descriptors are not closed with the socket, in this thread. With credentials an empty
 * packet can be told from the end. */
void gt__memory_hang_up(int socket)
{
    gt_memory_message message;
    gt_memory_received got;
    const int on = 1;
    shutdown(socket, SHUT_RD);
    setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
    do {
        int fd = -1;
        got = gt__memory_receive(socket, &message, &fd, 1);
        if (fd >= 0)
            gt__descriptor_discard(fd);
    } while (got == GT_MEMORY_RECEIVED || got == GT_MEMORY_GARBAGE);
    close(socket);
}

/* Does the process at the other end belong to this user? Returns its pid too. */
static bool same_user(int socket, int *pid)
{
    struct ucred who;
    socklen_t size = sizeof who;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) || who.uid != geteuid())
        return false;
    *pid = (int)who.pid;
    return true;
}

/* ---- connecting --------------------------------------------------------------------------------------------- */

static gt_err open_socket(int port, uint64_t deadline, int *out)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    GT_TRY(gt__address_path(port, "memory", address.sun_path));
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return gt__fail(GT_ERR_CONNECTION, "cannot create a socket: %s", strerror(errno));
    socklen_t length = sizeof address;
    while (connect(fd, (struct sockaddr *)&address, length)) {
        int error = errno;
        if (address.sun_path[0] &&
            (error == ENOENT || error == ECONNREFUSED)) { /* perhaps a server inside a program */
            length = (socklen_t)offsetof(struct sockaddr_un, sun_path) + gt__address_hide(address.sun_path);
            continue;
        }
        if (error == EAGAIN && gt__remaining_ms(deadline)) {
            poll(NULL, 0, 1); /* the server's queue is full, and there is nothing to poll for that */
            continue;
        }
        close(fd);
        if (error == EAGAIN)
            return gt__fail(GT_ERR_TIMEOUT, "the server at port %d of this host does not answer", port);
        if (gt__address_has_ipc(port))
            return gt__fail(GT_ERR_CONNECTION,
                            "the server at port %d of this host has a journal, and so no links by shared memory: "
                            "connect to ipc://localhost:%d",
                            port, port);
        return gt__fail(GT_ERR_CONNECTION, "no server at port %d of this host", port);
    }
    *out = fd;
    return GT_OK;
}

static gt_err handshake(int fd, int port, uint64_t deadline, gt_memory_parts *parts)
{
    GT_TRY(gt__memory_send(fd, GT_MEMORY_HELLO, 0, NULL, 0));
    struct pollfd wake = {.fd = fd, .events = POLLIN};
    int rc = poll(&wake, 1, gt__remaining_ms(deadline));
    if (rc == 0)
        return gt__fail(GT_ERR_TIMEOUT, "the server at port %d of this host does not answer", port);
    if (rc < 0)
        return gt__fail(errno == EINTR ? GT_ERR_INTERRUPTED : GT_ERR_INTERNAL, "poll: %s", strerror(errno));
    gt_memory_message message;
    int fds[GT_MEMORY_PARTS];
    gt_memory_received got = gt__memory_receive(fd, &message, fds, GT_MEMORY_PARTS);
    *parts = (gt_memory_parts){.rings = fds[0], .ring = fds[1], .watch = fds[2]};
    if (got == GT_MEMORY_RECEIVED && message.kind == GT_MEMORY_WELCOME && fds[GT_MEMORY_PARTS - 1] >= 0)
        return GT_OK;
    gt__memory_parts_close(parts);
    if (got == GT_MEMORY_GARBAGE || got == GT_MEMORY_RECEIVED)
        return gt__fail(GT_ERR_PROTOCOL, "the server at port %d of this host is not this version of GT", port);
    return gt__fail(GT_ERR_CONNECTION, "the server at port %d of this host closed the connection", port);
}

static gt_err memory_connect(const char *host, int port, int timeout_ms, gt_link **link)
{
    uint64_t deadline = gt__deadline_ns(timeout_ms);
    int fd = -1, pid = 0;
    gt_memory_parts parts;
    if (!gt__address_is_local(host))
        return gt__fail(GT_ERR_CONNECTION, "'%s' is another host: the memory transport works only within one host",
                        host);
    for (;;) {
        GT_TRY(open_socket(port, deadline, &fd));
        if (!same_user(fd, &pid)) {
            close(fd);
            return gt__fail(GT_ERR_CONNECTION, "the server at port %d belongs to another user", port);
        }
        gt_err err = handshake(fd, port, deadline, &parts);
        if (err == GT_OK)
            break;
        close(fd);
        if (err != GT_ERR_CONNECTION)
            return err;
        /* There is a server, and it closed the connection: it is stopping, or it has no descriptors left. Not a reason
         * for another transport, which the caller would try after GT_ERR_CONNECTION. */
        if (!gt__remaining_ms(deadline))
            return gt__fail(GT_ERR_TIMEOUT,
                            "the server at port %d of this host closes connections: too many clients?", port);
        poll(NULL, 0, CLOSED_AGAIN_MS);
    }
    char peer[64];
    snprintf(peer, sizeof peer, "the server (pid %d)", pid);
    return gt__memory_link_new(0, fd, &parts, peer, link);
}

/* ---- accepting ---------------------------------------------------------------------------------------------- */

static void pending_drop(memory_acceptor *a, unsigned k)
{
    memmove(&a->pending[k], &a->pending[k + 1], (--a->pending_count - k) * sizeof a->pending[0]);
}

static void pending_close(memory_acceptor *a, unsigned k)
{
    gt__memory_hang_up(a->pending[k].fd);
    pending_drop(a, k);
}

/* Room for one more; false: out of memory. */
static bool pending_grow(memory_acceptor *a)
{
    if (a->pending_count < a->pending_room)
        return true;
    unsigned room = a->pending_room ? 2 * a->pending_room : EVENTS;
    pending_peer *grown = realloc(a->pending, room * sizeof *grown);
    if (!grown)
        return false;
    a->pending = grown;
    a->pending_room = room;
    return true;
}

static bool watch(const memory_acceptor *a, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return !epoll_ctl(a->base.fd, EPOLL_CTL_ADD, fd, &event);
}

static void pending_add(memory_acceptor *a, int fd)
{
    if (a->pending_count == MAX_PENDING) /* drop the one that has been silent longest */
        pending_close(a, 0);
    if (!pending_grow(a) || !watch(a, fd))
        gt__memory_hang_up(fd);
    else
        a->pending[a->pending_count++] = (pending_peer){.fd = fd, .deadline = gt__deadline_ns(PENDING_MS)};
}

static void pending_expire(memory_acceptor *a)
{
    while (a->pending_count && !gt__remaining_ms(a->pending[0].deadline))
        pending_close(a, 0);
}

/* Do not look at the listener for a while: connections in its queue would wake the event loop again and again. */
static void rest(const memory_acceptor *a)
{
    const struct itimerspec once = {.it_value.tv_nsec = REST_MS * 1000000L};
    if (!timerfd_settime(a->timer, 0, &once, NULL))
        epoll_ctl(a->base.fd, EPOLL_CTL_DEL, a->listener, NULL);
}

static void rest_is_over(const memory_acceptor *a)
{
    uint64_t rings;
    ssize_t got = read(a->timer, &rings, sizeof rings);
    (void)got;
    watch(a, a->listener);
}

/* There is no descriptor for the next connection: refuse it. False: not now. The one that was given up for it comes back when
 * another thread has closed the connection, which may take a moment. */
static bool refuse_one(memory_acceptor *a)
{
    gt__descriptors_exhausted();
    if (a->spare < 0)
        a->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (a->spare < 0)
        return false;
    close(a->spare);
    int fd = accept4(a->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0)
        gt__descriptor_discard(fd);
    a->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return fd >= 0;
}

/* Take connections from the listener; those that remain keep it readable. */
static void accept_all(memory_acceptor *a)
{
    int pid;
    for (int k = 0; k < EVENTS; k++) {
        int fd = accept4(a->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        bool full = fd < 0 && (errno == EMFILE || errno == ENFILE);
        if (full && refuse_one(a))
            continue;
        if (full || (fd < 0 && errno != EAGAIN))
            rest(a);
        if (fd < 0)
            return;
        if (same_user(fd, &pid))
            pending_add(a, fd);
        else
            gt__memory_hang_up(fd);
    }
}

/* The peer sent a hello: answer with the parts of a connection. Takes fd. NULL: the peer is gone, or no resources. */
static gt_link *welcome(memory_acceptor *a, int fd)
{
    gt_memory_parts parts[2];
    gt_link *link;
    int pid;
    epoll_ctl(a->base.fd, EPOLL_CTL_DEL, fd, NULL);
    bool same = same_user(fd, &pid);
    if (!same || gt__memory_parts_new(parts) != GT_OK) {
        if (same && (errno == EMFILE || errno == ENFILE))
            gt__descriptors_exhausted();
        gt__memory_hang_up(fd);
        return NULL;
    }
    const int fds[GT_MEMORY_PARTS] = {parts[0].rings, parts[0].ring, parts[0].watch};
    gt_err err = gt__memory_send(fd, GT_MEMORY_WELCOME, 0, fds, GT_MEMORY_PARTS);
    gt__memory_parts_close(&parts[0]);
    if (err != GT_OK) {
        gt__memory_parts_close(&parts[1]);
        gt__memory_hang_up(fd);
        return NULL;
    }
    char peer[64];
    snprintf(peer, sizeof peer, "pid %d", pid);
    return gt__memory_link_new(1, fd, &parts[1], peer, &link) == GT_OK ? link : NULL;
}

/* A pending connection has sent something; NULL: it is no link yet. */
static gt_link *pending_heard(memory_acceptor *a, int fd)
{
    gt_memory_message message;
    int stray = -1;
    unsigned k = 0;
    while (k < a->pending_count && a->pending[k].fd != fd)
        k++;
    gt_memory_received got = gt__memory_receive(fd, &message, &stray, 1);
    if (stray >= 0)
        gt__descriptor_discard(stray);
    if (got == GT_MEMORY_NOTHING)
        return NULL;
    pending_drop(a, k);
    if (got == GT_MEMORY_RECEIVED && message.kind == GT_MEMORY_HELLO)
        return welcome(a, fd);
    gt__memory_hang_up(fd);
    return NULL;
}

static gt_link *acceptor_poll(gt_acceptor *acceptor)
{
    memory_acceptor *a = (memory_acceptor *)acceptor;
    struct epoll_event event;
    pending_expire(a);
    for (int k = 0; k < EVENTS && epoll_wait(a->base.fd, &event, 1, 0) > 0; k++) {
        if (event.data.fd == a->listener) {
            accept_all(a);
            continue;
        }
        if (event.data.fd == a->timer) {
            rest_is_over(a);
            continue;
        }
        gt_link *link = pending_heard(a, event.data.fd);
        if (link)
            return link;
    }
    return NULL;
}

static bool acceptor_arm(gt_acceptor *acceptor)
{
    (void)acceptor; /* the descriptor stays readable while there is something to do */
    return true;
}

static void acceptor_close(gt_acceptor *acceptor)
{
    memory_acceptor *a = (memory_acceptor *)acceptor;
    gt__address_remove(&a->file);
    for (unsigned k = 0; k < a->pending_count; k++)
        gt__memory_hang_up(a->pending[k].fd);
    free(a->pending);
    int fds[] = {a->base.fd, a->listener, a->spare, a->timer};
    for (size_t k = 0; k < sizeof fds / sizeof *fds; k++)
        if (fds[k] >= 0)
            close(fds[k]);
    free(a);
}

static const gt_acceptor_ops acceptor_ops = {.poll = acceptor_poll, .arm = acceptor_arm, .close = acceptor_close};

/* With the address lock held. */
static gt_err bind_port(memory_acceptor *a, int port)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    GT_TRY(gt__address_path(port, "memory", address.sun_path));
    GT_TRY(gt__address_clear(address.sun_path, SOCK_SEQPACKET, port));
    if (bind(a->listener, (struct sockaddr *)&address, sizeof address) || listen(a->listener, BACKLOG))
        return gt__fail(GT_ERR_CONNECTION, "cannot listen at %s: %s", address.sun_path, strerror(errno));
    gt__address_own(&a->file, address.sun_path);
    return GT_OK;
}

/* A socket in the abstract namespace: no file. */
static gt_err bind_hidden(memory_acceptor *a, int port)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    GT_TRY(gt__address_path(port, "memory", address.sun_path));
    socklen_t length = (socklen_t)offsetof(struct sockaddr_un, sun_path) + gt__address_hide(address.sun_path);
    if (bind(a->listener, (struct sockaddr *)&address, length) || listen(a->listener, BACKLOG))
        return gt__fail(GT_ERR_CONNECTION, "cannot listen at port %d: %s", port, strerror(errno));
    return GT_OK;
}

/* `port`, or a free one for 0 and GT_PORT_HIDDEN. These have numbers of their own: a file of the same number would be found first. */
static gt_err bind_some_port(memory_acceptor *a, int port, int *bound)
{
    *bound = port;
    if (port > 0)
        return bind_port(a, port);
    bool hidden = port == GT_PORT_HIDDEN;
    for (int k = 0; k < GT_ADDRESS_ATTEMPTS; k++) {
        *bound = gt__address_candidate(k) + (hidden ? GT_ADDRESS_ATTEMPTS : 0);
        if ((hidden ? bind_hidden : bind_port)(a, *bound) == GT_OK)
            return GT_OK;
    }
    return GT_ERR_CONNECTION;
}

static gt_err memory_listen(const char *host, int port, gt_acceptor **acceptor, int *bound)
{
    int lock;
    (void)host; /* only this host can reach the sockets */
    GT_TRY(gt__address_lock(&lock));
    memory_acceptor *a = calloc(1, sizeof *a);
    if (!a) {
        close(lock);
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    }
    a->base = (gt_acceptor){.ops = &acceptor_ops, .fd = epoll_create1(EPOLL_CLOEXEC)};
    a->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    a->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    a->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    gt_err err;
    if (!watch(a, a->listener) || !watch(a, a->timer))
        err = gt__fail(GT_ERR_CONNECTION, "cannot create a socket: %s", strerror(errno));
    else
        err = bind_some_port(a, port, bound);
    gt__address_sweep();
    close(lock);
    if (err != GT_OK) {
        acceptor_close(&a->base);
        return err;
    }
    *acceptor = &a->base;
    return GT_OK;
}

const gt_transport gt__transport_memory = {
    .name = "memory", .same_host_only = true, .listen = memory_listen, .connect = memory_connect};

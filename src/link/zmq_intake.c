/* link/zmq_intake.c: see zmq_intake.h. Read link/zmq_router.c first. */
#include "link/zmq_intake.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "link/zmq.h"

enum {
    /* Bytes since the last whole message. An honest peer sends no more than its credit, in messages. */
    MOST_BYTES = 4 * GT_ZMQ_WINDOW * (int)sizeof(gt_slot),
    IDLE_BYTES = 64,    /* a second that do not count: heartbeats of an idle peer */
    SILENT_MS = 5000,   /* from the connection to its first message; */
    OVERDUE_MS = 10000, /* and how much longer, in case it was us who did not run */
    RESERVE = 32,       /* descriptors that are kept for all else */
    REST_MS = 10,       /* when a connection can neither be taken nor refused */
    MOST_ENTRIES = 1 << 20,
};

typedef enum watch_state {
    UNWATCHED,
    LISTENER,
    SILENT,  /* a connection without a message so far */
    OVERDUE, /* the same, for too long */
    HEARD,
} watch_state;

typedef struct entry {
    _Atomic int state;
    _Atomic uint64_t received, delivered; /* bytes, and how many there were when the last message was delivered; */
    _Atomic uint64_t delivered_ns;        /* when that was, or the connection was made */
    _Atomic uint64_t cookie;              /* the socket's: the descriptor may be another's by now */
    _Atomic uint64_t hello_by;
} entry;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards making the table, and the spare descriptor */
static entry *_Atomic table;                              /* by descriptor */
static _Atomic int table_size;
static int spare = -1; /* given up for a connection that has to be refused */

static entry *find(int fd)
{
    return fd >= 0 && fd < atomic_load_explicit(&table_size, memory_order_acquire) ? &atomic_load(&table)[fd]
                                                                                   : NULL;
}

static int state_of(const entry *e)
{
    return e ? atomic_load_explicit(&e->state, memory_order_acquire)
             : UNWATCHED; /* and what belongs to the state */
}

static uint64_t cookie_of(int fd)
{
    uint64_t cookie = 0;
    socklen_t size = sizeof cookie;
    return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) ? 0 : cookie;
}

void gt__intake_watch(int listener)
{
    struct rlimit limit;
    pthread_mutex_lock(&mutex);
    if (!atomic_load(&table) && !getrlimit(RLIMIT_NOFILE, &limit)) {
        int size = limit.rlim_max < MOST_ENTRIES ? (int)limit.rlim_max : MOST_ENTRIES;
        atomic_store(&table, calloc((size_t)size, sizeof(entry)));
        atomic_store(&table_size, atomic_load(&table) ? size : 0);
    }
    pthread_mutex_unlock(&mutex);
    entry *e = find(listener);
    if (!e)
        return;
    e->cookie = cookie_of(listener);
    atomic_store(&e->state, LISTENER);
}

void gt__intake_delivered(int connection, bool known)
{
    entry *e = find(connection);
    if (state_of(e) < SILENT)
        return;
    atomic_store_explicit(&e->delivered, atomic_load_explicit(&e->received, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(&e->delivered_ns, gt__now_ns(), memory_order_relaxed);
    if (known)
        atomic_store_explicit(&e->state, HEARD, memory_order_relaxed);
}

/* ---- descriptors -------------------------------------------------------------------------------------------- */

static void keep_spare(void)
{
    pthread_mutex_lock(&mutex);
    if (spare < 0)
        spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pthread_mutex_unlock(&mutex);
}

/* There is no descriptor for the next connection. Left in the queue it would wake libzmq's thread again and again; if it cannot be
 * helped, not too often. */
static void refuse_one(gt_accept_function *system_accept, int listener)
{
    gt__descriptors_exhausted();
    pthread_mutex_lock(&mutex);
    if (spare >= 0)
        close(spare);
    spare = -1;
    int fd = system_accept(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    pthread_mutex_unlock(&mutex);
    keep_spare();
    if (fd < 0)
        poll(NULL, 0, REST_MS);
}

static bool is_watched(int listener)
{
    const entry *e = find(listener);
    return state_of(e) == LISTENER && cookie_of(listener) == e->cookie;
}

static bool is_reserved(int fd)
{
    struct rlimit limit;
    return !getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur > 2 * RESERVE &&
           (rlim_t)fd >= limit.rlim_cur - RESERVE;
}

int gt__intake_accept(gt_accept_function *system_accept, int listener, struct sockaddr *address, socklen_t *length,
                      int flags)
{
    bool watched = is_watched(listener);
    if (watched)
        keep_spare();
    int fd = system_accept(listener, address, length, flags);
    if (watched && fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        refuse_one(system_accept, listener);
        errno = EAGAIN;
    }
    if (watched && fd >= 0 && is_reserved(fd)) {
        gt__descriptors_exhausted();
        close(fd);
        fd = -1;
        errno = EAGAIN;
    }
    entry *e = find(fd);
    if (!e)
        return fd;
    e->cookie = cookie_of(fd);
    atomic_store(&e->delivered_ns, gt__now_ns());
    e->hello_by = gt__deadline_ns(SILENT_MS);
    atomic_store(&e->received, 0);
    atomic_store(&e->delivered, 0);
    atomic_store(&e->state, watched && e->cookie ? SILENT : UNWATCHED);
    return fd;
}

/* ---- bytes -------------------------------------------------------------------------------------------------- */

/* True: for the second time, so it is not that we did not run. */
static bool is_silent(entry *e)
{
    int state = state_of(e);
    if ((state != SILENT && state != OVERDUE) || gt__remaining_ms(e->hello_by))
        return false;
    e->hello_by = gt__deadline_ns(OVERDUE_MS);
    if (state == SILENT) /* unless a message was delivered just now */
        atomic_compare_exchange_strong(&e->state, &state, OVERDUE);
    return state == OVERDUE;
}

static bool is_endless(const entry *e)
{
    uint64_t received = atomic_load(&e->received), delivered = atomic_load(&e->delivered);
    if (received <
        delivered + MOST_BYTES) /* or what was delivered is of the connection that had the descriptor before */
        return false;
    uint64_t idle_s = (gt__now_ns() - atomic_load(&e->delivered_ns)) / 1000000000u;
    return received - delivered > MOST_BYTES + idle_s * IDLE_BYTES;
}

ssize_t gt__intake_receive(gt_receive_function *system_receive, int connection, void *to, size_t bytes, int flags)
{
    ssize_t got = system_receive(connection, to, bytes, flags);
    entry *e = find(connection);
    if (got <= 0 || state_of(e) < SILENT)
        return got;
    atomic_fetch_add_explicit(&e->received, (uint64_t)got, memory_order_relaxed);
    if (!is_silent(e) && !is_endless(e))
        return got;
    if (cookie_of(connection) != e->cookie) { /* not the connection that was accepted */
        atomic_store(&e->state, UNWATCHED);
        return got;
    }
    errno = ECONNRESET;
    return -1;
}

/*
 * link/memory.c: a link between two parties on one host: two rings of slots in shared memory.
 *
 * Each ring has one producer and one consumer. Positions count all slots ever written and are taken modulo the ring's
 * size. The producer publishes `tail`, the consumer `head`, each on cache lines of its own. The data is mapped
 * twice, back to back, so that every record is contiguous and nothing here wraps.
 *
 * Sleeping: a side that finds nothing sets its flag in the ring (reader_sleeps, writer_sleeps), checks once more, and
 * sleeps on its bell. The other side stores its position, checks the flag, and rings only if it is set. Position
 * and flag are accessed with sequential consistency, so one of the two always sees the other's store.
 *
 * The unix socket of the connection stays open: it carries the descriptors of segments, and end of file on it means that
 * the peer is gone. A peer that is only stopped closes nothing: see liveness.h. The peer is not trusted: its positions
 * are checked each time they are read.
 *
 * Read link.h first; link/memory_socket.c establishes connections.
 */
#include "link/memory.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "link/liveness.h"

enum {
    /* 512 KiB a ring: it holds 15 of the longest records, so bulk data streams while the peer works; more would
     * only let a fast client run further ahead and fall out of the second-level cache. */
    RING_SLOTS = 8192,
    RING_MASK = RING_SLOTS - 1,
    SECTION = RING_SLOTS / 4, /* the target size of a read window: the head is published this often */
    MARKS = 8,          /* sections remembered: more than the ring holds, so that none is mistaken for another */
    WRITE_WINDOW = 512, /* with GT_LINK_MAX_RESERVE, records are published at least once a section */
    HEADER_BYTES = 64 * 1024,                   /* of the shared memory: a page of any size */
    PAGES_AT = HEADER_BYTES - 2 * GT_LINK_PAGE, /* in the header */
    RING_BYTES = RING_SLOTS * (int)sizeof(gt_slot),
    SHARED_BYTES = HEADER_BYTES + 2 * RING_BYTES,
    LEAN_SLOTS = 256,     /* that a lean link gives back at a time: 16 KiB, or a page */
    CROWDED = 2,          /* full sections read on a crowded processor before we move */
    IDLE_LOOKS = 1024,    /* empty peeks between two looks at the socket */
    MAX_SEGMENTS = 16384, /* that a peer may share at a time; the dispatcher shares those of all its clients */
    MAX_SHARED = MAX_SEGMENTS / 2, /* that we share: the peer may forget later than we do */
};

_Static_assert(WRITE_WINDOW + GT_LINK_MAX_RESERVE <= SECTION, "a section has a mark");
_Static_assert(GT_LINK_MAX_RESERVE <= RING_SLOTS / 2, "a writer that waits for half a ring gets its slots");

typedef struct ring_state {
    _Alignas(128) _Atomic uint64_t tail; /* slots published; the producer's */
    _Atomic uint64_t mark[MARKS];        /* the last tail published in each section: always between two records */
    _Atomic int origin;                  /* the processor that the stream begins on; see step_aside */
    _Atomic uint32_t lean;               /* the producer wants a lean link */
    _Alignas(128) _Atomic uint64_t head; /* slots consumed; the consumer's */
    _Alignas(128) _Atomic uint32_t reader_sleeps;
    _Alignas(128) _Atomic uint32_t writer_sleeps;
    _Alignas(128) _Atomic uint64_t urgent_tail; /* words beside the stream: written, */
    _Atomic uint64_t urgent[GT_LINK_URGENT];
    _Alignas(128) _Atomic uint64_t urgent_head; /* and taken */
} ring_state;

_Static_assert(2 * sizeof(ring_state) <= PAGES_AT, "the pages are behind the rings' states");

/* One mapping of the shared memory; the two ends of a pair use the same one. */
typedef struct shared_memory {
    ring_state *ring;  /* two rings: [0] is written by the connecting side */
    gt_slot *slots[2]; /* RING_SLOTS, then a second mapping of the same */
    _Atomic int references;
} shared_memory;

typedef struct memory_link {
    gt_link base;
    shared_memory *shared;
    ring_state *out, *in;
    gt_slot *out_slots, *in_slots;
    uint64_t out_tail; /* what we have published */
    uint64_t out_head; /* the peer's head when we last read it */
    uint64_t in_end;   /* position of base.read_end */
    uint64_t in_head;  /* the head that we have published */
    unsigned wanted;   /* slots that the last reserve failed to get; 0: it succeeded */
    unsigned idle;     /* empty refills in a row */
    unsigned crowded;  /* full refills in a row while we shared the origin's processor */
    bool armed;        /* our sleep flags may be set */
    bool lean;         /* one of the two sides wants it; see publish_head */
    int socket;
    gt_liveness process;   /* of the peer */
    int bell, peer_bell;   /* watched and rung: memory.h */
    bool nested;           /* our bell is an epoll */
    gt_segment **segments; /* shared by the peer, in no order */
    unsigned segment_count;
    uint64_t *shared_ids; /* of the segments that we share */
    unsigned shared_count;
} memory_link;

/* ---- shared memory -------------------------------------------------------------------------------------- */

static void shared_release(shared_memory *shared)
{
    if (!shared || atomic_fetch_sub(&shared->references, 1) != 1)
        return;
    if (shared->ring)
        munmap(shared->ring, HEADER_BYTES);
    for (int k = 0; k < 2; k++)
        if (shared->slots[k])
            munmap(shared->slots[k], 2 * RING_BYTES);
    free(shared);
}

/* RING_BYTES of the file at `offset`, twice in a row; NULL on failure. */
static gt_slot *map_twice(int fd, off_t offset)
{
    char *base = mmap(NULL, 2 * RING_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    for (int k = 0; k < 2; k++) {
        void *at =
            mmap(base + k * RING_BYTES, RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, offset);
        if (at == MAP_FAILED) {
            munmap(base, 2 * RING_BYTES);
            return NULL;
        }
    }
    return (gt_slot *)(void *)base;
}

static gt_err shared_map(int fd, shared_memory **out)
{
    struct stat info;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &info) || info.st_size != SHARED_BYTES)
        return gt__fail(GT_ERR_PROTOCOL, "the server sent shared memory of an unexpected size");
    shared_memory *shared = calloc(1, sizeof *shared);
    if (!shared)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    atomic_init(&shared->references, 1);
    void *ring = mmap(NULL, HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    shared->ring = ring == MAP_FAILED ? NULL : ring;
    for (int k = 0; k < 2; k++)
        shared->slots[k] = map_twice(fd, HEADER_BYTES + k * RING_BYTES);
    if (!shared->ring || !shared->slots[0] || !shared->slots[1]) {
        gt_err err = gt__fail(GT_ERR_MEMORY, "cannot map the rings of a link: %s", strerror(errno));
        shared_release(shared);
        return err;
    }
    *out = shared;
    return GT_OK;
}

static bool watch(int epoll, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    return !epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

gt_err gt__memory_parts_new(gt_memory_parts parts[2])
{
    int rings = memfd_create("gt-link", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    for (int side = 0; side < 2; side++)
        parts[side] = (gt_memory_parts){.rings = side ? rings : fcntl(rings, F_DUPFD_CLOEXEC, 0),
                                        .ring = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    parts[0].watch = epoll_create1(EPOLL_CLOEXEC);
    parts[1].watch = fcntl(parts[0].ring, F_DUPFD_CLOEXEC, 0);
    if (parts[0].rings >= 0 && parts[1].watch >= 0 && watch(parts[0].watch, parts[1].ring, EPOLLIN | EPOLLET) &&
        !ftruncate(rings, SHARED_BYTES) && !fcntl(rings, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        return GT_OK;
    int error = errno;
    for (int side = 0; side < 2; side++)
        gt__memory_parts_close(&parts[side]);
    errno = error; /* the caller may want to know */
    return gt__fail(GT_ERR_MEMORY, "cannot create the rings of a link: %s", strerror(error));
}

void gt__memory_parts_close(gt_memory_parts *parts)
{
    int *fds[] = {&parts->rings, &parts->ring, &parts->watch};
    for (int k = 0; k < GT_MEMORY_PARTS; k++) {
        if (*fds[k] >= 0)
            close(*fds[k]);
        *fds[k] = -1;
    }
}

/* ---- the peer's bell and the socket ----------------------------------------------------------------------- */

/* After storing a position: wake the peer if it sleeps. */
static void wake(_Atomic uint32_t *sleeps, int bell)
{
    if (atomic_load(sleeps) && atomic_exchange(sleeps, 0)) {
        uint64_t one = 1;
        ssize_t written = write(bell, &one, sizeof one);
        (void)written; /* it never fails: the counter does not reach its end */
    }
}

static void segment_put(memory_link *m, uint64_t id, int fd)
{
    gt_segment *segment, **grown;
    if (m->segment_count >= MAX_SEGMENTS) {
        if (fd >= 0)
            gt__descriptor_discard(fd);
        gt__link_kill(&m->base, "protocol error: %s shared more than %d segments", m->base.peer, MAX_SEGMENTS);
        return;
    }
    if (gt__segment_adopt(id, fd, &segment) != GT_OK) {
        gt__link_kill(&m->base, "protocol error: %s: %s", m->base.peer, gt_error_text());
        return;
    }
    m->base.ops->forget(&m->base, id);
    grown = realloc(m->segments, (m->segment_count + 1) * sizeof *grown);
    if (!grown) {
        gt__segment_release(segment);
        gt__link_kill(&m->base, "out of memory");
        return;
    }
    m->segments = grown;
    m->segments[m->segment_count++] = segment;
}

/* Read what waits on the socket: descriptors, or end of file. Not what comes meanwhile: a peer that sends as fast as we read would keep
 * us here for ever. Its bell rings again for that. */
static void socket_drain(memory_link *m)
{
    int bytes = 0;
    ioctl(m->socket, FIONREAD, &bytes);
    for (size_t left = (size_t)bytes / sizeof(gt_memory_message) + 1; left && !m->base.gone; left--) {
        gt_memory_message message;
        int fd = -1;
        gt_memory_received got = gt__memory_receive(m->socket, &message, &fd, 1);
        if (got == GT_MEMORY_NOTHING)
            return;
        if (got == GT_MEMORY_GONE) {
            gt__link_lose(&m->base, "%s closed the connection", m->base.peer);
            epoll_ctl(m->base.fd, EPOLL_CTL_DEL, m->socket, NULL);
        } else if (got == GT_MEMORY_RECEIVED &&
                   message.kind == GT_MEMORY_SEGMENT) { /* fd < 0: the descriptor was lost */
            segment_put(m, message.value, fd);
        } else {
            if (fd >= 0)
                gt__descriptor_discard(fd);
            gt__link_kill(&m->base, "protocol error: %s sent a malformed message", m->base.peer);
        }
    }
}

/* Reset our bell and check the socket; one system call when neither has anything. */
static void attend(memory_link *m)
{
    struct epoll_event events[2], inner;
    int count = epoll_wait(m->base.fd, events, 2, 0);
    for (int k = 0; k < count; k++) {
        if (events[k].data.fd == m->socket)
            socket_drain(m);
        else if (m->nested) /* each ring is reported once */
            epoll_wait(m->bell, &inner, 1, 0);
    }
}

/* ---- writing ------------------------------------------------------------------------------------------------ */

static void memory_flush(gt_link *link)
{
    memory_link *m = (memory_link *)link;
    m->out_tail += link->unflushed;
    link->unflushed = 0;
    if (link->gone)
        return;
    atomic_store_explicit(&m->out->mark[m->out_tail / SECTION % MARKS], m->out_tail, memory_order_relaxed);
    int origin = link->passes_on >= 0 ? link->passes_on : sched_getcpu();
    atomic_store_explicit(&m->out->origin, origin, memory_order_relaxed);
    atomic_store(&m->out->tail, m->out_tail);
    wake(&m->out->reader_sleeps, m->peer_bell);
}

/* Slots that may be written at out_tail, as far as is known: none of those that are kept for the last record. */
static unsigned known_room(const memory_link *m)
{
    unsigned used = (unsigned)(m->out_tail - m->out_head), most = RING_SLOTS - gt__link_kept(&m->base);
    return used < most ? most - used : 0;
}

/* The same; reads the peer's head. */
static unsigned room(memory_link *m)
{
    uint64_t head = atomic_load(&m->out->head);
    if (head - m->out_head > m->out_tail - m->out_head) {
        gt__link_kill(&m->base, "protocol error: %s moved its position out of the ring", m->base.peer);
        return 0;
    }
    m->out_head = head;
    return known_room(m);
}

static gt_slot *memory_reserve(gt_link *link, unsigned slots)
{
    memory_link *m = (memory_link *)link;
    assert(slots <= GT_LINK_MAX_RESERVE);
    if (link->gone)
        return NULL;
    gt__link_flush(link); /* so that published records are never far apart: see next_window */
    unsigned window = slots > WRITE_WINDOW ? slots : WRITE_WINDOW;
    unsigned available = known_room(m);
    if (available < window)
        available = room(m);
    if (available < slots) {
        m->wanted = slots;
        return NULL;
    }
    m->wanted = 0;
    link->write_next = m->out_slots + (m->out_tail & RING_MASK);
    link->write_end = link->write_next + (available < window ? available : window);
    return link->write_next;
}

/* ---- reading ------------------------------------------------------------------------------------------------ */

static bool is_lean(memory_link *m)
{
    if (__builtin_expect(m->base.lean && !m->lean, 0)) {
        m->lean = true;
        atomic_store_explicit(&m->out->lean, 1, memory_order_relaxed);
    }
    return m->lean || atomic_load_explicit(&m->in->lean, memory_order_relaxed);
}

static uint64_t lean_part(void)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE) / sizeof(gt_slot);
    return page > LEAN_SLOTS ? page : LEAN_SLOTS;
}

/* Give the whole parts of slots that we have read back to the system. The peer cannot write there until the head is published. */
static void give_back(const memory_link *m, uint64_t from, uint64_t to)
{
    from = (from + lean_part() - 1) / lean_part() *
           lean_part(); /* it was not lean when a part of this was published */
    if (from < to)      /* the second mapping makes it one piece */
        madvise(m->in_slots + (from & RING_MASK), (to - from) * sizeof(gt_slot), MADV_REMOVE);
}

/* Tell the peer how far we have read. It is woken once half the ring is free: waking it for every slot would
 * make the two sides alternate. A link that was used for long has touched all of its rings. A lean one publishes whole parts,
 * without their memory. */
static void publish_head(memory_link *m)
{
    uint64_t position = m->in_end - (uint64_t)(m->base.read_end - m->base.read_next);
    if (__builtin_expect(is_lean(m), 0)) {
        position = position / lean_part() * lean_part();
        if (position <= m->in_head)
            return;
        give_back(m, m->in_head, position);
    }
    if (position == m->in_head)
        return;
    m->in_head = position;
    atomic_store(&m->in->head, position);
    if (atomic_load(&m->in->writer_sleeps) &&
        atomic_load_explicit(&m->in->tail, memory_order_acquire) - position <= RING_SLOTS / 2)
        wake(&m->in->writer_sleeps, m->peer_bell);
}

static void disarm(memory_link *m)
{
    m->armed = false;
    atomic_store_explicit(&m->in->reader_sleeps, 0, memory_order_relaxed);
    atomic_store_explicit(&m->out->writer_sleeps, 0, memory_order_relaxed);
}

/* Slots that can be read after in_end. */
static uint64_t readable(memory_link *m)
{
    uint64_t available = atomic_load(&m->in->tail) - m->in_end;
    if (available <= RING_SLOTS)
        return available;
    gt__link_kill(&m->base, "protocol error: %s moved its position out of the ring", m->base.peer);
    return 0;
}

/* How much of `available` to take at once: about a section, so that the peer gets slots back while we process others,
 * and up to a mark, so that no record is cut. A false mark only hurts the peer: its records become malformed. */
static uint64_t next_window(const memory_link *m, uint64_t available)
{
    if (available <= SECTION)
        return available;
    for (unsigned k = 0; k < 2; k++) {
        unsigned which = (unsigned)((m->in_end / SECTION + k) % MARKS);
        uint64_t length = atomic_load_explicit(&m->in->mark[which], memory_order_relaxed) - m->in_end;
        if (length > 0 && length <= available && length <= 2 * SECTION)
            return length;
    }
    return available;
}

/*
 * We are a section behind and share a processor with the party where the stream begins. The two alternate while another
 * processor may be idle, and the scheduler does not move us because both always have work. Move to another processor
 * once; afterwards we may run anywhere again.
 */
static void step_aside(memory_link *m)
{
    int here = sched_getcpu();
    cpu_set_t allowed, others;
    m->base.origin = atomic_load_explicit(&m->in->origin, memory_order_relaxed);
    m->crowded = here >= 0 && m->base.origin == here ? m->crowded + 1 : 0;
    if (m->crowded < CROWDED || sched_getaffinity(0, sizeof allowed, &allowed))
        return;
    m->crowded = 0;
    others = allowed;
    CPU_CLR(here, &others);
    if (CPU_COUNT(&others) && !sched_setaffinity(0, sizeof others, &others))
        sched_setaffinity(0, sizeof allowed, &allowed);
}

static bool memory_refill(gt_link *link)
{
    memory_link *m = (memory_link *)link;
    if (link->dead)
        return false;
    if (m->armed)
        disarm(m);
    publish_head(m);
    uint64_t available = readable(m);
    if (!available && !link->gone && ++m->idle % IDLE_LOOKS == 0)
        attend(m);
    if (!available && link->gone) {
        available = readable(m); /* slots that arrived between the checks of ring and socket */
        if (!available)
            gt__link_kill(link, "closed");
    }
    if (!available)
        return false;
    m->idle = 0;
    if (available > SECTION)
        step_aside(m);
    available = next_window(m, available);
    link->read_next = m->in_slots + (m->in_end & RING_MASK);
    link->read_end = link->read_next + available;
    m->in_end += available;
    return true;
}

/* ---- waiting ------------------------------------------------------------------------------------------------ */

static bool memory_ready(gt_link *link, gt_wait what)
{
    memory_link *m = (memory_link *)link;
    if ((what & GT_WAIT_READ) && !link->dead) {
        if (link->read_next != link->read_end || readable(m))
            return true;
        if (link->gone)
            gt__link_kill(link, "closed");
    }
    return (what & GT_WAIT_WRITE) && !link->gone && room(m) >= (m->wanted ? m->wanted : 1);
}

static bool arm_for(gt_link *link, gt_wait what)
{
    memory_link *m = (memory_link *)link;
    if (!link->gone) {
        publish_head(m);
        attend(m);
        m->armed = true;
        if (what & GT_WAIT_READ)
            atomic_store(&m->in->reader_sleeps, 1);
        if (what & GT_WAIT_WRITE)
            atomic_store(&m->out->writer_sleeps, 1);
    }
    if (!memory_ready(link, what) && !link->gone)
        return true;
    disarm(m);
    return false;
}

static bool memory_arm(gt_link *link)
{
    memory_link *m = (memory_link *)link;
    if (arm_for(link, m->wanted ? GT_WAIT_READ | GT_WAIT_WRITE : GT_WAIT_READ))
        return true;
    m->wanted = 0; /* reported once */
    return false;
}

static gt_err memory_wait(gt_link *link, gt_wait what, int timeout_ms)
{
    gt_waiter waiter = {.fd = link->fd, .ready = memory_ready, .arm = arm_for};
    return gt__link_wait_with(link, what, timeout_ms, &waiter);
}

static void memory_look(gt_link *link)
{
    memory_link *m = (memory_link *)link;
    if (link->gone || !gt__liveness_lost(&m->process))
        return;
    link->stopped = true;
    gt__link_lose(link, "%s has been stopped for %d s", link->peer, (int)(m->process.stopped_ns / 1000000000u));
}

/* ---- segments ----------------------------------------------------------------------------------------------- */

static gt_err memory_share(gt_link *link, gt_segment *segment)
{
    memory_link *m = (memory_link *)link;
    if (link->gone)
        return gt__fail(GT_ERR_CONNECTION, "%s", link->reason);
    for (unsigned k = 0; k < m->shared_count; k++)
        if (m->shared_ids[k] == segment->id)
            return GT_OK;
    if (m->shared_count >= MAX_SHARED) /* or the peer would end the link */
        return gt__fail(GT_ERR_MEMORY, "already sharing %d segments with %s", MAX_SHARED, link->peer);
    uint64_t *grown = realloc(m->shared_ids, (m->shared_count + 1) * sizeof *grown);
    if (!grown)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    m->shared_ids = grown;
    GT_TRY(gt__memory_send(m->socket, GT_MEMORY_SEGMENT, segment->id, &segment->fd, segment->fd >= 0));
    m->shared_ids[m->shared_count++] = segment->id;
    return GT_OK;
}

static gt_segment *segment_find(const memory_link *m, uint64_t id)
{
    for (unsigned k = 0; k < m->segment_count; k++)
        if (m->segments[k]->id == id)
            return m->segments[k];
    return NULL;
}

static gt_segment *memory_segment(gt_link *link, uint64_t id)
{
    memory_link *m = (memory_link *)link;
    gt_segment *found = segment_find(m, id);
    if (found || link->gone)
        return found;
    socket_drain(m);
    return segment_find(m, id);
}

static void memory_forget(gt_link *link, uint64_t id)
{
    memory_link *m = (memory_link *)link;
    for (unsigned k = 0; k < m->segment_count; k++) {
        if (m->segments[k]->id == id) {
            gt__segment_release(m->segments[k]);
            m->segments[k] = m->segments[--m->segment_count];
            break;
        }
    }
    for (unsigned k = 0; k < m->shared_count; k++) {
        if (m->shared_ids[k] == id) {
            m->shared_ids[k] = m->shared_ids[--m->shared_count];
            break;
        }
    }
}

/* ---- beside the stream -------------------------------------------------------------------------------------- */

/* The peer may write anything into its side: a word is only ever a word. */
static void memory_urge(gt_link *link, uint64_t word)
{
    ring_state *out = ((memory_link *)link)->out;
    uint64_t tail = atomic_load_explicit(&out->urgent_tail, memory_order_relaxed);
    if (link->gone || tail - atomic_load_explicit(&out->urgent_head, memory_order_acquire) >= GT_LINK_URGENT)
        return;
    atomic_store_explicit(&out->urgent[tail % GT_LINK_URGENT], word, memory_order_relaxed);
    atomic_store_explicit(&out->urgent_tail, tail + 1, memory_order_release);
}

static bool memory_urged(gt_link *link, uint64_t *word)
{
    ring_state *in = ((memory_link *)link)->in;
    uint64_t head = atomic_load_explicit(&in->urgent_head, memory_order_relaxed);
    if (atomic_load_explicit(&in->urgent_tail, memory_order_acquire) == head)
        return false;
    *word = atomic_load_explicit(&in->urgent[head % GT_LINK_URGENT], memory_order_relaxed);
    atomic_store_explicit(&in->urgent_head, head + 1, memory_order_release);
    return true;
}

static void memory_slots(gt_link *link, gt_link_slots *slots)
{
    const memory_link *m = (memory_link *)link;
    slots->sent = m->out_tail + link->unflushed;
    slots->received = m->in_end - (uint64_t)(link->read_end - link->read_next);
}

static uint64_t memory_unread(gt_link *link)
{
    memory_link *m = (memory_link *)link;
    gt_unread unread = {0};
    uint64_t window = (uint64_t)(link->read_end - link->read_next);
    uint64_t slots = window + (link->dead ? 0 : readable(m));
    if (!link->dead && slots <= RING_SLOTS) /* the second mapping makes it one piece */
        gt__unread_add(&unread, m->in_slots + ((m->in_end - window) & RING_MASK), slots);
    return gt__unread_records(&unread);
}

static void *page_of(const memory_link *m, bool peer)
{
    bool second = (m->out == &m->shared->ring[1]) != peer;
    return (char *)m->shared->ring + PAGES_AT + (second ? GT_LINK_PAGE : 0);
}

static void *memory_page(gt_link *link)
{
    return page_of((memory_link *)link, false);
}

static const void *memory_peer_page(gt_link *link, gt_page_time *time)
{
    *time = (gt_page_time){.at_ns = gt__now_ns()};
    return page_of((memory_link *)link, true);
}

/* ---- beginning and end -------------------------------------------------------------------------------------- */

/* Frees this process's copies. A forked child needs nothing more: the parent has its own. */
static void memory_abandon(gt_link *link)
{
    memory_link *m = (memory_link *)link;
    int fds[] = {link->fd, m->socket, m->bell, m->peer_bell};
    for (size_t k = 0; k < sizeof fds / sizeof *fds; k++)
        if (fds[k] >= 0)
            close(fds[k]);
    for (unsigned k = 0; k < m->segment_count; k++)
        gt__segment_release(m->segments[k]);
    free(m->segments);
    free(m->shared_ids);
    shared_release(m->shared);
    free(m);
}

static void memory_close(gt_link *link)
{
    memory_link *m = (memory_link *)link;
    gt__link_flush(link);
    gt__memory_hang_up(m->socket); /* this tells the peer, which can still read the ring */
    m->socket = -1;
    memory_abandon(link);
}

static const gt_link_ops memory_ops = {
    .reserve = memory_reserve,
    .flush = memory_flush,
    .refill = memory_refill,
    .wait = memory_wait,
    .arm = memory_arm,
    .share = memory_share,
    .segment = memory_segment,
    .forget = memory_forget,
    .urge = memory_urge,
    .urged = memory_urged,
    .slots = memory_slots,
    .unread = memory_unread,
    .page = memory_page,
    .peer_page = memory_peer_page,
    .look = memory_look,
    .close = memory_close,
    .abandon = memory_abandon,
};

/* Takes everything, also on failure. */
static gt_err link_new(int side, int socket, const gt_memory_parts *parts, shared_memory *shared, const char *peer,
                       gt_link **out)
{
    close(parts->rings); /* mapped */
    memory_link *m = calloc(1, sizeof *m);
    if (!m) {
        close(socket);
        close(parts->watch);
        close(parts->ring);
        shared_release(shared);
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    }
    *m = (memory_link){
        .base = {.ops = &memory_ops,
                 .transport = &gt__transport_memory,
                 .batch = 64,
                 .origin = -1,
                 .passes_on = -1,
                 .fd = epoll_create1(EPOLL_CLOEXEC)},
        .shared = shared,
        .out = &shared->ring[side],
        .in = &shared->ring[!side],
        .out_slots = shared->slots[side],
        .in_slots = shared->slots[!side],
        .socket = socket,
        .bell = parts->watch,
        .peer_bell = parts->ring,
        .nested = side == 0,
    };
    snprintf(m->base.peer, sizeof m->base.peer, "%s", peer);
    gt__link_same_user(&m->base); /* checked when it connected */
    gt__liveness_watch(&m->process, socket);
    m->base.watched = m->process.pid != 0;
    m->base.write_next = m->base.write_end = m->out_slots;
    m->base.read_next = m->base.read_end = m->in_slots;
    if (!watch(m->base.fd, m->bell, m->nested ? EPOLLIN : EPOLLIN | EPOLLET) ||
        !watch(m->base.fd, socket, EPOLLIN)) {
        gt_err err = gt__fail(GT_ERR_MEMORY, "cannot watch a link: %s", strerror(errno));
        memory_abandon(&m->base);
        return err;
    }
    *out = &m->base;
    return GT_OK;
}

gt_err gt__memory_link_new(int side, int socket, gt_memory_parts *parts, const char *peer, gt_link **out)
{
    shared_memory *shared;
    gt_err err = shared_map(parts->rings, &shared);
    if (err != GT_OK) {
        gt__memory_parts_close(parts);
        close(socket);
        return err;
    }
    return link_new(side, socket, parts, shared, peer, out);
}

gt_err gt__link_memory_pair(gt_link **a, gt_link **b)
{
    gt_memory_parts parts[2];
    shared_memory *shared = NULL;
    int sockets[2];
    GT_TRY(gt__memory_parts_new(parts));
    gt_err err = shared_map(parts[0].rings, &shared);
    if (err == GT_OK && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets))
        err = gt__fail(GT_ERR_MEMORY, "cannot create a pair of links: %s", strerror(errno));
    if (err != GT_OK) {
        shared_release(shared);
        for (int side = 0; side < 2; side++)
            gt__memory_parts_close(&parts[side]);
        return err;
    }
    atomic_fetch_add(&shared->references, 1);
    gt_link *first = NULL, *second = NULL;
    err = link_new(0, sockets[0], &parts[0], shared, "this process", &first);
    gt_err other = link_new(1, sockets[1], &parts[1], shared, "this process", &second);
    if (err == GT_OK && other == GT_OK) {
        *a = first;
        *b = second;
        return GT_OK;
    }
    if (first)
        memory_close(first);
    if (second)
        memory_close(second);
    return err != GT_OK ? err : other;
}

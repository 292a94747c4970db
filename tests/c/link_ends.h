/*
 * link_ends.h: what tests of links stand on: both ends of any kind of link, and records whose content tells
 * whether they arrived whole and in order. Used by test_link.c, test_link_memory.c and test_link_hostile.c.
 */
#ifndef GT_TESTS_LINK_ENDS_H
#define GT_TESTS_LINK_ENDS_H

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "link/address.h"
#include "check.h"
#include "link/link.h"

enum { PATIENCE_MS = 10000, MAX_RECORD = GT_MAX_TAIL + 1 };

/* Which links a test is for. */
enum {
    PAIR = 1,
    MEMORY = 2,
    IPC = 4,
    TCP = 8,
    RINGS = PAIR | MEMORY,
    ZEROMQ = IPC | TCP,
    LISTENING = MEMORY | ZEROMQ
};

typedef struct kind {
    const char *name;
    const gt_transport *transport; /* NULL: gt__link_memory_pair */
    int which;
} kind;

static const kind kinds[] = {
    {.name = "pair", .transport = NULL, .which = PAIR},
    {.name = "memory", .transport = &gt__transport_memory, .which = MEMORY},
    {.name = "ipc", .transport = &gt__transport_ipc, .which = IPC},
    {.name = "tcp", .transport = &gt__transport_tcp, .which = TCP},
};

/* ---- both ends ---------------------------------------------------------------------------------------------- */

typedef struct ends {
    gt_acceptor *acceptor; /* NULL for a pair */
    gt_link *server, *client;
    const gt_transport *transport;
    int port;
} ends;

/* Wait for the next peer. */
static inline gt_link *accept_one(gt_acceptor *acceptor)
{
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    while (gt__remaining_ms(deadline)) {
        gt_link *link = acceptor->ops->poll(acceptor);
        if (link)
            return link;
        struct pollfd wake = {.fd = acceptor->fd, .events = POLLIN};
        if (acceptor->ops->arm(acceptor))
            poll(&wake, 1, gt__remaining_ms(deadline));
    }
    return NULL;
}

static inline void *connect_thread(void *argument)
{
    ends *e = argument;
    if (e->transport->connect("localhost", e->port, PATIENCE_MS, &e->client) != GT_OK) {
        fprintf(stderr, "connect: %s\n", gt_error_text());
        e->client = NULL;
    }
    return NULL;
}

/* Another client of the same server. */
static inline bool connect_more(ends *e)
{
    pthread_t thread;
    pthread_create(&thread, NULL, connect_thread, e);
    e->server = accept_one(e->acceptor);
    pthread_join(thread, NULL);
    return CHECK(e->server) && CHECK(e->client);
}

static inline bool ends_open(ends *e, const kind *k)
{
    *e = (ends){.transport = k->transport};
    if (!k->transport)
        return CHECK_EQ(gt__link_memory_pair(&e->client, &e->server), GT_OK);
    if (!CHECK_EQ(k->transport->listen("localhost", 0, &e->acceptor, &e->port), GT_OK))
        return false;
    CHECK(e->port > 0);
    return connect_more(e);
}

static inline void ends_close(ends *e)
{
    if (e->client)
        gt__link_close(e->client);
    if (e->server)
        gt__link_close(e->server);
    if (!e->acceptor)
        return;
    e->acceptor->ops->close(e->acceptor);
    /* Nothing is left lying. */
    static const char *const suffixes[] = {"memory", "ipc"};
    for (int k = 0; k < 2; k++) {
        char path[GT_ADDRESS_MAX];
        CHECK_EQ(gt__address_path(e->port, suffixes[k], path), GT_OK);
        CHECK(access(path, F_OK) && errno == ENOENT);
    }
}

/* ---- records ------------------------------------------------------------------------------------------------ */

static inline uint64_t mix(uint64_t value)
{
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

/* Record `number`: mostly short, now and then as long as records get. */
static inline unsigned record_length(uint64_t number)
{
    uint64_t random = mix(number + 77);
    if (random % 64 == 0)
        return 1 + (unsigned)(random >> 8) % MAX_RECORD;
    return 1 + (unsigned)(random >> 8) % 3;
}

static inline void record_fill(gt_slot *slots, uint64_t number)
{
    unsigned length = record_length(number);
    memset(&slots[0], 0, sizeof slots[0]);
    slots[0].ins.tail = (uint16_t)(length - 1);
    slots[0].ins.result = number;
    for (unsigned k = 1; k < length; k++)
        for (unsigned word = 0; word < 8; word++)
            slots[k].u64[word] = number * 8 + k + word;
}

static inline bool record_right(const gt_slot *slots, size_t available, uint64_t number)
{
    unsigned length = record_length(number);
    if (available < length || slots[0].ins.result != number || slots[0].ins.tail != length - 1)
        return false;
    uint64_t wrong = 0;
    for (unsigned k = 1; k < length; k++)
        for (unsigned word = 0; word < 8; word++)
            wrong |= slots[k].u64[word] ^ (number * 8 + k + word);
    return wrong == 0;
}

/* Read one record, waiting for it. */
static inline bool read_record(gt_link *link, uint64_t number)
{
    const gt_slot *slots;
    size_t available;
    while (!(slots = gt__link_peek(link, &available)))
        if (gt__link_wait(link, GT_WAIT_READ, PATIENCE_MS) != GT_OK)
            return false;
    bool right = record_right(slots, available, number);
    gt__link_consume(link, record_length(number));
    return right;
}

static inline bool write_record(gt_link *link, uint64_t number)
{
    gt_slot *slots;
    while (!(slots = gt__link_reserve(link, record_length(number))))
        if (gt__link_wait(link, GT_WAIT_WRITE, PATIENCE_MS) != GT_OK)
            return false;
    record_fill(slots, number);
    gt__link_commit(link, record_length(number));
    return true;
}

static inline bool send_record(gt_link *link, uint64_t number)
{
    bool written = write_record(link, number);
    gt__link_flush(link);
    return written;
}

/* ---- death -------------------------------------------------------------------------------------------------- */

/* Wait until the link is dead; what had arrived before is thrown away. */
static inline bool dies_with(gt_link *link, pid_t stopped)
{
    size_t available;
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    while (!link->dead && gt__remaining_ms(deadline)) {
        while (gt__link_peek(link, &available))
            gt__link_consume(link, available);
        gt__link_wait(link, GT_WAIT_READ, 100);
        if (stopped)
            kill(stopped, SIGSTOP); /* another signal may have woken it */
    }
    return link->dead && link->reason[0] && !gt__link_reserve(link, 1) && !gt__link_peek(link, &available) &&
           gt__link_wait(link, GT_WAIT_READ, 0) == GT_ERR_CONNECTION &&
           gt__link_wait(link, GT_WAIT_WRITE, 0) == GT_ERR_CONNECTION;
}

static inline bool dies(gt_link *link)
{
    return dies_with(link, 0);
}

/* ---- every kind of link --------------------------------------------------------------------------------------- */

typedef struct link_test {
    const char *name;
    void (*run)(const void *argument); /* of a kind */
    int which;
} link_test;

static inline void run_link_tests(const link_test *tests, size_t count)
{
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (size_t t = 0; t < count; t++) {
            char name[64];
            snprintf(name, sizeof name, "%s: %s", kinds[k].name, tests[t].name);
            if (tests[t].which & kinds[k].which)
                check_run(name, tests[t].run, &kinds[k]);
        }
    }
}

#endif

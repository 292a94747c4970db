/*
 * test_link.c: one suite that every link passes: both ends in one process, memory over a socket, ZeroMQ ipc and
 * tcp. A new transport is tested by a row in `kinds` (link_ends.h). test_link_memory.c has what only memory links have,
 * test_link_hostile.c peers that do not follow the protocol.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "link/hello.h"
#include "link_ends.h"
#include "link/memory.h"

/* ---- order -------------------------------------------------------------------------------------------------- */

enum { STREAM_SLOTS = 1000000 };

typedef struct stream {
    gt_link *link;
    bool right;
} stream;

/* Write and read STREAM_SLOTS at once, flushing at odd moments. */
static void *stream_thread(void *argument)
{
    stream *s = argument;
    uint64_t out = 0, in = 0, out_slots = 0, in_slots = 0;
    s->right = true;
    while (s->right && (out_slots < STREAM_SLOTS || in_slots < STREAM_SLOTS)) {
        bool moved = false;
        gt_slot *space;
        for (int k = 0; k < 100 && out_slots < STREAM_SLOTS; k++) {
            unsigned length = record_length(out);
            if (!(space = gt__link_reserve(s->link, length)))
                break;
            record_fill(space, out);
            gt__link_commit(s->link, length);
            out_slots += length;
            moved = true;
            if (mix(out++) % 50 == 0)
                gt__link_flush(s->link);
        }
        size_t available;
        const gt_slot *slots = gt__link_peek(s->link, &available);
        while (slots && available && s->right) {
            unsigned length = record_length(in);
            s->right = record_right(slots, available, in++);
            slots += length;
            available -= length;
            in_slots += length;
            gt__link_consume(s->link, length);
            moved = true;
        }
        gt_wait what = out_slots < STREAM_SLOTS ? GT_WAIT_READ | GT_WAIT_WRITE : GT_WAIT_READ;
        if (!moved && gt__link_wait(s->link, what, PATIENCE_MS) != GT_OK) {
            fprintf(stderr, "wait: %s\n", gt_error_text());
            s->right = false;
        }
    }
    gt__link_flush(s->link);
    return NULL;
}

static void test_order(const void *argument)
{
    ends e;
    if (!ends_open(&e, argument))
        return;
    stream client = {.link = e.client}, server = {.link = e.server};
    pthread_t thread;
    pthread_create(&thread, NULL, stream_thread, &client);
    stream_thread(&server);
    pthread_join(thread, NULL);
    CHECK(client.right);
    CHECK(server.right);
    CHECK(!e.client->dead && !e.server->dead);
    ends_close(&e);
}

/* ---- flow control ------------------------------------------------------------------------------------------- */

static void test_flow(const void *argument)
{
    ends e;
    if (!ends_open(&e, argument))
        return;
    uint64_t out = 0, in = 0, slots = 0;
    gt_slot *space;
    /* Nobody reads: the writer is stopped. */
    while (slots < 200000 && (space = gt__link_reserve(e.client, record_length(out)))) {
        record_fill(space, out);
        gt__link_commit(e.client, record_length(out));
        slots += record_length(out++);
    }
    CHECK(slots > 4 * MAX_RECORD);
    CHECK(slots < 100000);
    CHECK(!gt__link_reserve(e.client, MAX_RECORD));
    CHECK_EQ(gt__link_wait(e.client, GT_WAIT_WRITE, 20), GT_ERR_TIMEOUT);
    CHECK(!gt__link_reserve(e.client, MAX_RECORD));
    CHECK(e.client->ops->arm(e.client));
    /* The reader reads half: the writer, asleep, is told that it can go on, and told once. */
    while (in < out / 2 && CHECK(read_record(e.server, in)))
        in++;
    struct pollfd wake = {.fd = e.client->fd, .events = POLLIN};
    while (e.client->ops->arm(e.client) && CHECK_EQ(poll(&wake, 1, PATIENCE_MS), 1))
        continue;
    CHECK(e.client->ops->arm(e.client));
    CHECK_EQ(gt__link_wait(e.client, GT_WAIT_WRITE, PATIENCE_MS), GT_OK);
    CHECK(send_record(e.client, out++));
    while (in < out && CHECK(read_record(e.server, in)))
        in++;
    CHECK_EQ(gt__link_wait(e.server, GT_WAIT_READ, 0), GT_ERR_TIMEOUT);
    ends_close(&e);
}

/* ---- waiting ------------------------------------------------------------------------------------------------ */

static void on_alarm(int signal_number)
{
    (void)signal_number;
}

static void test_wait(const void *argument)
{
    ends e;
    if (!ends_open(&e, argument))
        return;
    gt_link *both[] = {e.client, e.server};
    struct sigaction action = {.sa_handler = on_alarm}, before;
    sigaction(SIGALRM, &action, &before);
    for (int k = 0; k < 2; k++) {
        uint64_t start = gt__now_ns();
        CHECK_EQ(gt__link_wait(both[k], GT_WAIT_READ, 30), GT_ERR_TIMEOUT);
        uint64_t took = gt__now_ns() - start;
        CHECK(took >= 30000000u && took < 5000000000u);
        CHECK_EQ(gt__link_wait(both[k], GT_WAIT_READ, 0), GT_ERR_TIMEOUT);
        CHECK_EQ(gt__link_wait(both[k], GT_WAIT_READ | GT_WAIT_WRITE, 0), GT_OK);
        /* Again and again, so that none can be lost before the sleep. */
        struct itimerval often = {.it_interval = {.tv_usec = 20000}, .it_value = {.tv_usec = 20000}}, never = {0};
        setitimer(ITIMER_REAL, &often, NULL);
        CHECK_EQ(gt__link_wait(both[k], GT_WAIT_READ, PATIENCE_MS), GT_ERR_INTERRUPTED);
        setitimer(ITIMER_REAL, &never, NULL);
    }
    sigaction(SIGALRM, &before, NULL);
    CHECK(send_record(e.client, 1));
    CHECK(read_record(e.server, 1));
    ends_close(&e);
}

static void *send_late(void *argument)
{
    ends *e = argument;
    CHECK(send_record(e->client, 5));
    return NULL;
}

/* As an event loop does: arm all, sleep in poll, look. */
static void test_loop(const void *argument)
{
    ends e;
    if (!ends_open(&e, argument))
        return;
    size_t available;
    for (int turn = 0; turn < 100; turn++) {
        pthread_t thread;
        const gt_slot *slots;
        pthread_create(&thread, NULL, send_late, &e);
        uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
        while (!(slots = gt__link_peek(e.server, &available)) && CHECK(gt__remaining_ms(deadline))) {
            struct pollfd wake = {.fd = e.server->fd >= 0 ? e.server->fd : e.acceptor->fd, .events = POLLIN};
            if (e.server->ops->arm(e.server) && (!e.acceptor || e.acceptor->ops->arm(e.acceptor)))
                poll(&wake, 1, gt__remaining_ms(deadline));
            if (e.acceptor)
                CHECK(!e.acceptor->ops->poll(e.acceptor));
        }
        pthread_join(thread, NULL);
        if (!slots)
            break;
        CHECK(record_right(slots, available, 5));
        gt__link_consume(e.server, available);
    }
    ends_close(&e);
}

/* After a time in which the loop was busy, nothing wakes it but a heartbeat now and then. */
static void test_sleep(const void *argument)
{
    enum { BUSY_MS = 1300, ASLEEP_MS = 1500, MOST_WAKES = 100 };
    ends e;
    int wakes = 0;
    if (!ends_open(&e, argument))
        return;
    for (uint64_t end = gt__deadline_ns(BUSY_MS); gt__remaining_ms(end); usleep(1000))
        CHECK(!e.acceptor->ops->poll(e.acceptor));
    for (uint64_t end = gt__deadline_ns(ASLEEP_MS); gt__remaining_ms(end) && wakes < MOST_WAKES; wakes++) {
        struct pollfd wake = {.fd = e.acceptor->fd, .events = POLLIN};
        if (e.acceptor->ops->arm(e.acceptor))
            poll(&wake, 1, gt__remaining_ms(end));
        CHECK(!e.acceptor->ops->poll(e.acceptor));
    }
    CHECK(wakes < MOST_WAKES);
    ends_close(&e);
}

/* ---- death -------------------------------------------------------------------------------------------------- */

/* A peer that is killed is noticed at once, one that is stopped after GT_TIMEOUT. The far end is in a child, which connects and then
 * waits for that. Returns how long it took to notice. */
static uint64_t client_ends(const gt_transport *transport, int how, uint64_t at_most_ns)
{
    int ports[2], port = 0;
    uint64_t took_ns = UINT64_MAX;
    if (!CHECK(!pipe(ports)))
        return took_ns;
    pid_t child = fork();
    if (child == 0) {
        gt_link *link;
        if (read(ports[0], &port, sizeof port) != sizeof port ||
            transport->connect("localhost", port, PATIENCE_MS, &link) != GT_OK)
            _exit(1);
        send_record(link, 3);
        for (;;)
            pause();
    }
    gt_acceptor *acceptor;
    gt_link *link = NULL;
    if (CHECK_EQ(transport->listen("localhost", 0, &acceptor, &port), GT_OK)) {
        CHECK_EQ(write(ports[1], &port, sizeof port), sizeof port);
        link = accept_one(acceptor);
        CHECK(link && gt__link_wait(link, GT_WAIT_READ, PATIENCE_MS) == GT_OK);
    }
    kill(child, how);
    waitpid(child, NULL, WUNTRACED);
    if (CHECK(link)) {
        CHECK(read_record(link, 3)); /* sent before it died */
        uint64_t start = gt__now_ns();
        CHECK(dies_with(link, how == SIGSTOP ? child : 0));
        took_ns = gt__now_ns() - start;
        CHECK(took_ns < at_most_ns);
        gt__link_close(link);
    }
    acceptor->ops->close(acceptor);
    if (how != SIGKILL) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    close(ports[0]);
    close(ports[1]);
    return took_ns;
}

static void server_ends(const gt_transport *transport, int how, uint64_t at_most_ns)
{
    int ports[2], port = 0;
    if (!CHECK(!pipe(ports)))
        return;
    pid_t child = fork();
    if (child == 0) {
        gt_acceptor *acceptor;
        if (transport->listen("localhost", 0, &acceptor, &port) != GT_OK ||
            write(ports[1], &port, sizeof port) != sizeof port)
            _exit(1);
        gt_link *link = accept_one(acceptor);
        if (link)
            send_record(link, 3);
        for (;;)
            pause();
    }
    gt_link *link = NULL;
    CHECK_EQ(read(ports[0], &port, sizeof port), sizeof port);
    if (CHECK_EQ(transport->connect("localhost", port, PATIENCE_MS, &link), GT_OK))
        CHECK_EQ(gt__link_wait(link, GT_WAIT_READ, PATIENCE_MS), GT_OK);
    kill(child, how);
    waitpid(child, NULL, WUNTRACED);
    if (link) {
        CHECK(read_record(link, 3));
        uint64_t start = gt__now_ns();
        CHECK(dies_with(link, how == SIGSTOP ? child : 0));
        CHECK(gt__now_ns() - start < at_most_ns);
        CHECK(strstr(link->reason, "the server"));
        CHECK(strstr(link->reason, how == SIGKILL                       ? "closed"
                                   : transport == &gt__transport_memory ? "stopped"
                                                                        : "silent"));
        gt__link_close(link);
    }
    if (how != SIGKILL) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    /* Its sockets are stale now: the port can be had again. */
    gt_acceptor *acceptor;
    if (CHECK_EQ(transport->listen("localhost", port, &acceptor, &port), GT_OK))
        acceptor->ops->close(acceptor);
    close(ports[0]);
    close(ports[1]);
}

static void test_client_killed(const void *argument)
{
    bool soon = false;
    for (int k = 0; k < 5 && !soon; k++) /* once will do: the machine may have other work */
        soon = client_ends(((const kind *)argument)->transport, SIGKILL, 4000000000u) < 500000000u;
    CHECK(soon);
}

static void test_server_killed(const void *argument)
{
    server_ends(((const kind *)argument)->transport, SIGKILL, 4000000000u);
}

static void test_stopped(const void *argument)
{
    setenv("GT_TIMEOUT", "2", 1);
    client_ends(((const kind *)argument)->transport, SIGSTOP, PATIENCE_MS * 1000000ull);
    server_ends(((const kind *)argument)->transport, SIGSTOP, PATIENCE_MS * 1000000ull);
    unsetenv("GT_TIMEOUT");
}

/* Messages name the transport and the peer: both ends know which it is. */
static void test_names(const void *argument)
{
    ends e;
    if (!ends_open(&e, argument))
        return;
    CHECK(e.client->transport == e.transport && e.server->transport == e.transport);
    CHECK(strstr(e.client->peer, "the server") && e.server->peer[0]);
    ends_close(&e);
}

/* What was committed before a close arrives; then the link is dead. */
static void test_goodbye(const void *argument)
{
    ends e;
    for (int who = 0; who < 2; who++) {
        if (!ends_open(&e, argument))
            return;
        gt_link **closing = who ? &e.client : &e.server, *staying = who ? e.server : e.client;
        for (uint64_t k = 0; k < 50; k++)
            CHECK(write_record(*closing, k));
        gt__link_close(*closing);
        *closing = NULL;
        for (uint64_t k = 0; k < 50; k++)
            CHECK(read_record(staying, k));
        CHECK(dies(staying));
        ends_close(&e);
    }
}

static void *hear_main(void *argument)
{
    CHECK(read_record(argument, 1));
    return NULL;
}

/* A server that speaks and leaves at once, while the client waits: it is heard. Often, because it is a matter of timing. */
static void test_last_words(const void *argument)
{
    enum { TIMES = CHECK_SANITIZED ? 10 : 100 };
    for (int k = 0; k < TIMES; k++) {
        pthread_t thread;
        ends e;
        if (!ends_open(&e, argument))
            return;
        pthread_create(&thread, NULL, hear_main, e.client);
        CHECK(send_record(e.server, 1));
        gt__link_close(e.server);
        e.server = NULL;
        e.acceptor->ops->close(e.acceptor);
        e.acceptor = NULL;
        pthread_join(thread, NULL);
        ends_close(&e);
    }
}

/* A link that is killed between peek and consume has nothing more to read. */
static void test_killed_while_read(const void *argument)
{
    ends e;
    size_t available;
    if (!ends_open(&e, argument))
        return;
    for (uint64_t k = 0; k < 50; k++)
        CHECK(write_record(e.client, k));
    gt__link_flush(e.client);
    CHECK(read_record(e.server, 0));
    CHECK_EQ(gt__link_wait(e.server, GT_WAIT_READ, PATIENCE_MS), GT_OK);
    if (CHECK(gt__link_peek(e.server, &available))) {
        gt__link_kill(e.server, "enough");
        gt__link_consume(e.server, 1);
        CHECK(!gt__link_peek(e.server, &available));
        CHECK(!gt__link_peek(e.server, &available));
    }
    CHECK(e.server->dead && strcmp(e.server->reason, "enough") == 0);
    ends_close(&e);
}

/* A child that drops its copies does not disturb the parent's link, nor keep it alive. */
static void test_abandon(const void *argument)
{
    ends e;
    int ready[2];
    if (!ends_open(&e, argument) || !CHECK(!pipe(ready)))
        return;
    CHECK(send_record(e.client, 1));
    pid_t child = fork();
    if (child == 0) {
        gt__link_abandon(e.client);
        gt__link_abandon(e.server);
        if (write(ready[1], "x", 1) == 1)
            for (;;)
                pause();
        _exit(1);
    }
    char byte;
    CHECK_EQ(read(ready[0], &byte, 1), 1);
    CHECK(read_record(e.server, 1));
    CHECK(send_record(e.server, 2));
    CHECK(read_record(e.client, 2));
    gt__link_close(e.client);
    e.client = NULL;
    CHECK(dies(e.server)); /* though the child lives */
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ready[0]);
    close(ready[1]);
    ends_close(&e);
}

static int descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void test_leaks(const void *argument)
{
    ends e;
    int before = descriptors();
    for (int turn = 0; turn < 10; turn++) {
        if (!ends_open(&e, argument))
            return;
        CHECK(send_record(e.client, 1));
        CHECK(send_record(e.server, 1));
        CHECK(e.client->ops->page(e.client));
        ends_close(&e);
    }
    CHECK_EQ(descriptors(), before);
}

/* ---- all of them -------------------------------------------------------------------------------------------- */

/* Words beside the stream arrive in order although records before them are not read; those beyond the bound are lost. */
static void test_urgent(const void *argument)
{
    enum { RECORDS = 20 };
    const kind *k = argument;
    ends e;
    uint64_t word = 0, next = 0, deadline = gt__deadline_ns(PATIENCE_MS);
    if (!CHECK(ends_open(&e, k)))
        return;
    for (uint64_t number = 0; number < RECORDS; number++)
        CHECK(send_record(e.server, number));
    for (uint64_t number = 0; number < 2 * GT_LINK_URGENT; number++)
        e.server->ops->urge(e.server, UINT64_MAX - number);
    while (next < GT_LINK_URGENT && gt__remaining_ms(deadline))
        if (e.client->ops->urged(e.client, &word))
            CHECK_EQ(word, UINT64_MAX - next++);
    CHECK_EQ(next, GT_LINK_URGENT);
    for (uint64_t number = 0; number < RECORDS; number++)
        CHECK(read_record(e.client, number));
    e.client->ops->urge(e.client, 7);
    while (!e.server->ops->urged(e.server, &word) && gt__remaining_ms(deadline))
        continue;
    CHECK_EQ(word, 7);
    ends_close(&e);
}

/* What the client has in its page can be read though the client does nothing but write there. */
static bool page_has(ends *e, uint64_t expected)
{
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    gt_page_time time = {0};
    for (; gt__remaining_ms(deadline); poll(NULL, 0, 1)) {
        if (e->server->ops->ask_page)
            e->server->ops->ask_page(e->server);
        if (e->acceptor) /* the loop of a server does that */
            CHECK(!e->acceptor->ops->poll(e->acceptor));
        const uint64_t *words = e->server->ops->peer_page(e->server, &time);
        if (words && words[0] == expected && words[GT_LINK_PAGE / sizeof *words - 1] == ~expected)
            break;
    }
    uint64_t now = gt__now_ns();
    return gt__remaining_ms(deadline) && time.at_ns <= now && now - time.at_ns < PATIENCE_MS * 1000000ull;
}

static void test_page(const void *argument)
{
    ends e;
    if (!CHECK(ends_open(&e, argument)))
        return;
    _Atomic uint64_t *page = e.client->ops->page(e.client);
    if (!CHECK(page))
        return;
    CHECK(e.client->ops->page(e.client) == (void *)page);
    for (uint64_t value = 1; value < 4; value++) {
        page[0] = value;
        page[GT_LINK_PAGE / sizeof *page - 1] = ~value;
        CHECK(page_has(&e, value));
    }
    CHECK(send_record(e.client, 1)); /* the stream goes on beside it */
    CHECK(read_record(e.server, 1));
    ends_close(&e);
}

/* Records that wait are counted, short and long ones. */
static void test_unread(const void *argument)
{
    ends e;
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    if (!CHECK(ends_open(&e, argument)))
        return;
    CHECK_EQ(e.server->ops->unread(e.server), 0);
    for (uint64_t number = 0; number < 7; number++)
        CHECK(send_record(e.client, number));
    while (e.server->ops->unread(e.server) < 7 && gt__remaining_ms(deadline))
        if (e.acceptor)
            CHECK(!e.acceptor->ops->poll(e.acceptor));
    for (uint64_t number = 0; number < 7; number++) {
        CHECK_EQ(e.server->ops->unread(e.server), 7 - number);
        CHECK(read_record(e.server, number));
    }
    CHECK_EQ(e.server->ops->unread(e.server), 0);
    ends_close(&e);
}

static void *connect_any_thread(void *argument)
{
    ends *e = argument;
    char address[32];
    snprintf(address, sizeof address, "localhost:%d", e->port);
    if (gt__address_connect(address, NULL, PATIENCE_MS, &e->client) != GT_OK)
        e->client = NULL;
    return NULL;
}

/* A server that starts opens one socket after another: a peer that found the first of them only still gets the fastest link. */
static void test_faster_link(const void *subject)
{
    const kind *k = subject;
    ends e = {0};
    gt_acceptor *memory = NULL;
    pthread_t thread;
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    if (!CHECK_EQ(k->transport->listen("localhost", 0, &e.acceptor, &e.port), GT_OK))
        return;
    pthread_create(&thread, NULL, connect_any_thread, &e);
    struct pollfd wake = {.fd = e.acceptor->fd, .events = POLLIN};
    if (e.acceptor->ops->arm(e.acceptor)) /* its request is there: it has tried shared memory before */
        CHECK(poll(&wake, 1, gt__remaining_ms(deadline)) > 0);
    int bound = 0; /* the thread reads e.port */
    CHECK_EQ(gt__transport_memory.listen("localhost", e.port, &memory, &bound), GT_OK);
    CHECK_EQ(bound, e.port);
    gt_link *slow = NULL, *fast = NULL;
    while (memory && !fast && gt__remaining_ms(deadline)) {
        slow = slow ? slow : e.acceptor->ops->poll(e.acceptor);
        fast = memory->ops->poll(memory);
        struct pollfd wakes[2] = {wake, {.fd = memory->fd, .events = POLLIN}};
        bool idle = e.acceptor->ops->arm(e.acceptor), fast_idle = memory->ops->arm(memory);
        if (!fast && idle && fast_idle)
            poll(wakes, 2, gt__remaining_ms(deadline));
    }
    pthread_join(thread, NULL);
    CHECK(fast && e.client && e.client->transport == &gt__transport_memory);
    if (slow)
        gt__link_close(slow);
    if (memory)
        memory->ops->close(memory);
    e.server = fast;
    ends_close(&e);
}

/* A deadline that is farther away than an int has milliseconds. */
static void test_far_deadlines(const void *argument)
{
    const uint64_t day_ns = 86400ull * 1000000000;
    (void)argument;
    CHECK_EQ(gt__remaining_ms(0), -1);
    CHECK_EQ(gt__remaining_ms(1), 0);
    CHECK_EQ(gt__remaining_ms(gt__now_ns() + 30 * day_ns), INT_MAX);
    CHECK_EQ(gt__remaining_ms(gt__now_ns() + 60 * day_ns), INT_MAX);
    CHECK_EQ(gt__remaining_ms(UINT64_MAX), INT_MAX);
    int left = gt__remaining_ms(gt__now_ns() + day_ns);
    CHECK(left > 0 && left <= 86400 * 1000);
}

/* ---- any free port ------------------------------------------------------------------------------------------ */

enum { ANY_FIRST = 30000, ANY_PORTS = 4 };

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return written;
}

/* In a process of its own: a network with ANY_PORTS ports to choose from, and `files` for the sockets of servers. */
static bool enter_small_network(char *files)
{
    char range[32];
    struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    snprintf(range, sizeof range, "%d %d", ANY_FIRST, ANY_FIRST + ANY_PORTS - 1);
    int fd = -1;
    bool made = mkdtemp(files) && !setenv("XDG_RUNTIME_DIR", files, 1) && !unshare(CLONE_NEWNET) &&
                write_file("/proc/sys/net/ipv4/ip_local_port_range", range) &&
                (fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) >= 0 && !ioctl(fd, SIOCSIFFLAGS, &loopback);
    if (fd >= 0)
        close(fd);
    return made;
}

/* Workers that listen at other loopback addresses have the socket files of all ports but one. */
static void listen_at_the_one_left(int left)
{
    gt_acceptor *held[ANY_PORTS] = {0}, *acceptor, *second;
    int port = 0;
    for (int k = 0; k < ANY_PORTS; k++)
        if (k != left)
            CHECK_EQ(gt__transport_memory.listen("localhost", ANY_FIRST + k, &held[k], &port), GT_OK);
    if (CHECK_EQ(gt__transport_tcp.listen("localhost", 0, &acceptor, &port), GT_OK)) {
        CHECK_EQ(port, ANY_FIRST + left);
        CHECK(gt__transport_tcp.listen("localhost", 0, &second, &port) != GT_OK); /* and not forever */
        acceptor->ops->close(acceptor);
    }
    for (int k = 0; k < ANY_PORTS; k++)
        if (held[k])
            held[k]->ops->close(held[k]);
}

static void test_any_port(const void *argument)
{
    enum { FAILED = 1, FORBIDDEN };
    (void)argument;
    pid_t child = fork();
    if (child == 0) {
        char files[] = "/tmp/gt_test_link.XXXXXX", sockets[sizeof files + 3];
        if (!enter_small_network(files))
            _exit(FORBIDDEN);
        for (int left = 0; left < ANY_PORTS; left++)
            listen_at_the_one_left(left);
        snprintf(sockets, sizeof sockets, "%s/gt", files);
        CHECK(!rmdir(sockets) && !rmdir(files));
        _exit(atomic_load(&check_state.failures) ? FAILED : 0);
    }
    int status = -1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == FORBIDDEN)
        puts("skipped: this user may not make a network namespace");
    else
        CHECK_EQ(status, 0);
}

int main(int argc, char **argv)
{
    static const link_test tests[] = {
        {.name = "order", .run = test_order, .which = PAIR | LISTENING},
        {.name = "flow", .run = test_flow, .which = PAIR | LISTENING},
        {.name = "wait", .run = test_wait, .which = PAIR | LISTENING},
        {.name = "loop", .run = test_loop, .which = PAIR | LISTENING},
        {.name = "sleep", .run = test_sleep, .which = LISTENING},
        {.name = "goodbye", .run = test_goodbye, .which = PAIR | LISTENING},
        {.name = "last words", .run = test_last_words, .which = LISTENING},
        {.name = "urgent", .run = test_urgent, .which = PAIR | LISTENING},
        {.name = "page", .run = test_page, .which = PAIR | LISTENING},
        {.name = "unread", .run = test_unread, .which = PAIR | LISTENING},
        {.name = "killed while read", .run = test_killed_while_read, .which = PAIR | LISTENING},
        {.name = "abandon", .run = test_abandon, .which = PAIR | LISTENING},
        {.name = "leaks", .run = test_leaks, .which = PAIR | LISTENING},
        {.name = "client killed", .run = test_client_killed, .which = LISTENING},
        {.name = "server killed", .run = test_server_killed, .which = LISTENING},
        {.name = "stopped", .run = test_stopped, .which = LISTENING},
        {.name = "names", .run = test_names, .which = LISTENING},
        {.name = "faster link", .run = test_faster_link, .which = IPC},
    };
    check_begin(argc, argv);
    run_link_tests(tests, sizeof tests / sizeof *tests);
    check_run("any port of which the files are free, too", test_any_port, NULL);
    check_run("deadlines that are far away", test_far_deadlines, NULL);
    return check_end();
}

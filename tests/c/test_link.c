/*
 * test_link.c: one suite that every link passes: both ends in one process, memory over a socket, ZeroMQ ipc and
 * tcp. A new transport is tested by a row in `kinds` (link_ends.h). What only some links have (segments, rings)
 * comes at the end.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "link/address.h"
#include "link_ends.h"
#include "link/memory.h"
#include "link/zmq.h"

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

/* ---- death -------------------------------------------------------------------------------------------------- */

/* Wait until the link is dead; what had arrived before is thrown away. */
static bool dies_with(gt_link *link, pid_t stopped)
{
    size_t available;
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    while (!link->dead && gt__remaining_ms(deadline)) {
        while (gt__link_peek(link, &available))
            gt__link_consume(link, available);
        gt__link_wait(link, GT_WAIT_READ, 100);
        if (stopped)
            kill(stopped, SIGSTOP); /* whoever else may have woken it */
    }
    return link->dead && link->reason[0] && !gt__link_reserve(link, 1) && !gt__link_peek(link, &available) &&
           gt__link_wait(link, GT_WAIT_READ, 0) == GT_ERR_CONNECTION &&
           gt__link_wait(link, GT_WAIT_WRITE, 0) == GT_ERR_CONNECTION;
}

static bool dies(gt_link *link)
{
    return dies_with(link, 0);
}

/* The far end is in a child, which connects and then waits to be killed. */
/* A peer that is killed is noticed at once, one that is stopped after GT_TIMEOUT. */
static void client_ends(const gt_transport *transport, int how, uint64_t at_most_ns)
{
    int ports[2], port = 0;
    if (!CHECK(!pipe(ports)))
        return;
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
        CHECK(gt__now_ns() - start < at_most_ns);
        gt__link_close(link);
    }
    acceptor->ops->close(acceptor);
    if (how != SIGKILL) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    close(ports[0]);
    close(ports[1]);
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
    client_ends(((const kind *)argument)->transport, SIGKILL, 4000000000u);
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
        ends_close(&e);
    }
    CHECK_EQ(descriptors(), before);
}

/* ---- wrong addresses ---------------------------------------------------------------------------------------- */

/* A socket of the transport's family at a port of its own, *port. */
static int raw_bind(const gt_transport *transport, int *port)
{
    if (transport == &gt__transport_tcp) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof address;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(!bind(fd, (struct sockaddr *)&address, size) &&
              !getsockname(fd, (struct sockaddr *)&address, &size));
        *port = ntohs(address.sin_port);
        return fd;
    }
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    bool memory = transport == &gt__transport_memory;
    int fd = socket(AF_UNIX, (memory ? SOCK_SEQPACKET : SOCK_STREAM) | SOCK_CLOEXEC, 0);
    for (*port = 50000; *port < 60000; ++*port) {
        CHECK_EQ(gt__address_path(*port, memory ? "memory" : "ipc", address.sun_path), GT_OK);
        if (!bind(fd, (struct sockaddr *)&address, sizeof address))
            break;
    }
    return fd;
}

static int raw_connect(const gt_transport *transport, int port)
{
    if (transport == &gt__transport_tcp) {
        struct sockaddr_in address = {
            .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(!connect(fd, (struct sockaddr *)&address, sizeof address));
        return fd;
    }
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    bool memory = transport == &gt__transport_memory;
    CHECK_EQ(gt__address_path(port, memory ? "memory" : "ipc", address.sun_path), GT_OK);
    int fd = socket(AF_UNIX, (memory ? SOCK_SEQPACKET : SOCK_STREAM) | SOCK_CLOEXEC, 0);
    CHECK(!connect(fd, (struct sockaddr *)&address, sizeof address));
    return fd;
}

/* Which names and numbers mean this host. */
static void test_hosts(const void *argument)
{
    (void)argument;
    static const char *const loopback[] = {"localhost", "LocalHost", "127.0.0.1",       "127.8.9.10",
                                           "::1",       "[::1]",     "::ffff:127.0.0.1"};
    static const char *const local[] = {"", "*", "0.0.0.0", "::", "[::]"};
    static const char *const others[] = {
        "127.example.org",       "127.0.0.1.example.org", "127.", "128.0.0.1", "::2",
        "localhost.example.org", "[127.example.org]"};
    char self[256] = "";
    for (size_t k = 0; k < sizeof loopback / sizeof *loopback; k++)
        if (!CHECK(gt__address_is_loopback(loopback[k])) || !CHECK(gt__address_is_local(loopback[k])))
            fprintf(stderr, "  %s\n", loopback[k]);
    for (size_t k = 0; k < sizeof local / sizeof *local; k++)
        if (!CHECK(!gt__address_is_loopback(local[k])) || !CHECK(gt__address_is_local(local[k])))
            fprintf(stderr, "  %s\n", local[k]);
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        if (!CHECK(!gt__address_is_loopback(others[k])) || !CHECK(!gt__address_is_local(others[k])))
            fprintf(stderr, "  %s\n", others[k]);
    CHECK(gt__address_is_local(NULL));
    CHECK(!gethostname(self, sizeof self - 1) && gt__address_is_local(self));
}

static void test_nobody(const void *argument)
{
    const gt_transport *transport = ((const kind *)argument)->transport;
    gt_link *link;
    gt_acceptor *acceptor;
    int port, bound;
    int fd = raw_bind(transport, &port);
    uint64_t start = gt__now_ns();
    CHECK_EQ(transport->connect("localhost", port, 2000, &link), GT_ERR_CONNECTION);
    CHECK(strstr(gt_error_text(), "no server at"));
    /* Somebody who never answers. */
    CHECK(!listen(fd, 10));
    CHECK_EQ(transport->connect("localhost", port, 200, &link), GT_ERR_TIMEOUT);
    CHECK(gt__now_ns() - start < 4000000000u);
    CHECK_EQ(transport->listen("localhost", port, &acceptor, &bound), GT_ERR_CONNECTION);
    CHECK(strstr(gt_error_text(), "is already in use"));
    close(fd);
    if (transport->same_host_only) {
        CHECK_EQ(transport->connect("elsewhere.example", port, 200, &link), GT_ERR_CONNECTION);
        /* Nobody answers at the file any more. */
        if (CHECK_EQ(transport->listen("localhost", port, &acceptor, &bound), GT_OK))
            acceptor->ops->close(acceptor);
    }
}

/* ---- garbage ------------------------------------------------------------------------------------------------ */

static void test_garbage(const void *argument)
{
    const kind *k = argument;
    ends e;
    if (!ends_open(&e, argument))
        return;
    int raw[20];
    for (int n = 0; n < 20; n++) {
        uint8_t bytes[700];
        for (size_t at = 0; at < sizeof bytes; at++)
            bytes[at] = (uint8_t)mix((uint64_t)n * 1000 + at);
        raw[n] = raw_connect(k->transport, e.port);
        ssize_t sent = send(raw[n], bytes, sizeof bytes - (size_t)n * 30, MSG_NOSIGNAL);
        CHECK(sent > 0);
        if (n % 3 == 0)
            close(raw[n]);
        CHECK(send_record(e.client, (uint64_t)n));
        CHECK(read_record(e.server, (uint64_t)n));
        CHECK(!e.acceptor->ops->poll(e.acceptor));
        CHECK(send_record(e.server, (uint64_t)n));
        CHECK(read_record(e.client, (uint64_t)n));
    }
    for (int n = 0; n < 20; n++)
        if (n % 3)
            close(raw[n]);
    /* And another peer can still come. */
    ends first = e;
    if (connect_more(&e)) {
        CHECK(send_record(e.client, 9));
        CHECK(read_record(e.server, 9));
        gt__link_close(first.client);
        gt__link_close(first.server);
    }
    ends_close(&e);
}

/* A peer that speaks ZeroMQ, and even opens a link, but then sends frames that are none. */
static void test_bad_frames(const void *argument)
{
    static const struct {
        size_t bytes;
        bool parts;
    } bad[] = {{.bytes = 7}, {.bytes = 65}, {.bytes = 16}, {.bytes = 64, .parts = true}};
    const kind *k = argument;
    ends e;
    char endpoint[200];
    if (!ends_open(&e, argument))
        return;
    CHECK_EQ(gt__zmq_endpoint(k->transport->name, "localhost", e.port, endpoint, sizeof endpoint), GT_OK);
    void *context = zmq_ctx_new();
    for (size_t n = 0; n < sizeof bad / sizeof *bad; n++) {
        char bytes[128] = {0};
        int linger = 0;
        void *socket = zmq_socket(context, ZMQ_DEALER);
        zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
        CHECK(!zmq_connect(socket, endpoint));
        gt_zmq_control open = {.magic = 0x7167747au, .kind = GT_ZMQ_OPEN, .value = GT_ZMQ_VERSION};
        zmq_send(socket, bytes, 64, 0); /* before it opened: dropped */
        zmq_send(socket, &open, sizeof open, 0);
        gt_link *link = accept_one(e.acceptor);
        if (!CHECK(link))
            break;
        zmq_send(socket, bytes, bad[n].bytes, bad[n].parts ? ZMQ_SNDMORE : 0);
        if (bad[n].parts)
            zmq_send(socket, bytes, bad[n].bytes, 0);
        CHECK(dies(link));
        CHECK(strstr(link->reason, "protocol error"));
        gt__link_close(link);
        zmq_send(socket, bytes, 64, 0); /* after it was closed: dropped */
        CHECK(send_record(e.client, n));
        CHECK(read_record(e.server, n));
        CHECK(!e.acceptor->ops->poll(e.acceptor));
        zmq_close(socket);
    }
    zmq_ctx_term(context);
    ends_close(&e);
}

/* ---- memory only -------------------------------------------------------------------------------------------- */

static void test_segments(const void *argument)
{
    ends e;
    gt_segment *mine, *other;
    if (!ends_open(&e, argument) || !CHECK_EQ(gt__segment_new(100000, &mine), GT_OK))
        return;
    CHECK(mine->bytes >= 100000);
    CHECK(!e.server->ops->segment(e.server, mine->id));
    CHECK_EQ(e.client->ops->share(e.client, mine), GT_OK);
    CHECK_EQ(e.client->ops->share(e.client, mine), GT_OK); /* once is enough */
    for (uint64_t turn = 0; turn < 10; turn++) {
        CHECK_EQ(atomic_load(mine->busy), 0);
        memset(mine->data, (int)turn + 1, 100000);
        atomic_store(mine->busy, 1);
        CHECK(send_record(e.client, turn));
        CHECK(read_record(e.server, turn));
        other = e.server->ops->segment(e.server, mine->id);
        if (!CHECK(other) || !CHECK_EQ(gt__segment_map(other), GT_OK))
            break;
        CHECK(other->bytes == mine->bytes && other->data[0] == turn + 1 && other->data[99999] == turn + 1);
        CHECK(other->data == mine->data); /* one process: one mapping */
        atomic_store(other->busy, 0);
    }
    other = gt__segment_retain(e.server->ops->segment(e.server, mine->id));
    e.server->ops->forget(e.server, mine->id);
    CHECK(!e.server->ops->segment(e.server, mine->id));
    gt__segment_release(mine);
    CHECK_EQ(other->data[1], 10); /* lives as long as its last user */
    gt__segment_release(other);
    /* Memory that could shrink under the reader is refused, and so is its sender. */
    gt_segment bad = {.id = 77, .fd = memfd_create("bad", MFD_CLOEXEC)};
    CHECK(!ftruncate(bad.fd, 65536));
    CHECK_EQ(e.client->ops->share(e.client, &bad), GT_OK);
    CHECK(!e.server->ops->segment(e.server, 77));
    CHECK(e.server->dead && strstr(e.server->reason, "protocol error"));
    close(bad.fd);
    ends_close(&e);
}

/* A peer that never takes its descriptors stops the sender, which learns of it. */
static void test_segments_flow(const void *argument)
{
    ends e;
    gt_segment *mine;
    if (!ends_open(&e, argument) || !CHECK_EQ(gt__segment_new(100, &mine), GT_OK))
        return;
    gt_err err = GT_OK;
    uint64_t id = mine->id;
    for (int n = 0; n < 100000 && err == GT_OK; n++) {
        mine->id = id + (uint64_t)n % 500;
        e.client->ops->forget(e.client, mine->id);
        err = e.client->ops->share(e.client, mine);
    }
    CHECK_EQ(err, GT_ERR_TIMEOUT);
    CHECK(e.server->ops->segment(e.server, id));
    CHECK_EQ(e.client->ops->share(e.client, mine), GT_OK);
    CHECK(!e.server->dead && !e.client->dead);
    gt__segment_release(mine);
    ends_close(&e);
}

/* The peer takes a number of segments and no more: who shares too many is told, and the link lives on. */
static void test_segments_many(const void *argument)
{
    (void)argument;
    enum { ABSURD = 1 << 16 };
    gt_link *a, *b;
    uint64_t id = 0;
    gt_err err = GT_OK;
    if (!CHECK_EQ(gt__link_memory_pair(&a, &b), GT_OK))
        return;
    while (err == GT_OK && id < ABSURD) {
        gt_segment lost = {.id = ++id, .fd = -1}; /* without a descriptor: as many as we like */
        while ((err = a->ops->share(a, &lost)) == GT_ERR_TIMEOUT)
            CHECK(!b->ops->segment(b, UINT64_MAX)); /* takes what has come */
    }
    CHECK_EQ(err, GT_ERR_MEMORY);
    CHECK(!b->ops->segment(b, UINT64_MAX));
    CHECK(!b->gone && !a->gone);
    a->ops->forget(a, 1);
    b->ops->forget(b, 1);
    CHECK_EQ(a->ops->share(a, &(gt_segment){.id = id, .fd = -1}), GT_OK);
    CHECK(b->ops->segment(b, id));
    gt__link_close(a);
    gt__link_close(b);
}

/* A process that may have no more descriptors loses the one that comes, and not the link. */
static void test_segment_lost(const void *argument)
{
    ends e;
    gt_segment *mine, *theirs;
    struct rlimit before, none;
    if (!ends_open(&e, argument) || !CHECK_EQ(gt__segment_new(100, &mine), GT_OK))
        return;
    CHECK_EQ(e.client->ops->share(e.client, mine), GT_OK);
    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    none.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &none);
    theirs = e.server->ops->segment(e.server, mine->id);
    setrlimit(RLIMIT_NOFILE, &before);
    if (CHECK(theirs)) {
        CHECK_EQ(gt__segment_map(theirs), GT_ERR_MEMORY);
        CHECK(strstr(gt_error_text(), "too many open files"));
    }
    /* The next one is as good as ever, and the lost one can be passed on as lost. */
    e.client->ops->forget(e.client, mine->id);
    CHECK_EQ(e.client->ops->share(e.client, mine), GT_OK);
    CHECK_EQ(e.server->ops->share(e.server, theirs), GT_OK);
    gt_segment *passed = e.client->ops->segment(e.client, theirs->id);
    CHECK(passed && gt__segment_map(passed) == GT_ERR_MEMORY);
    send_record(e.client, 1);
    CHECK(gt__link_wait(e.server, GT_WAIT_READ, PATIENCE_MS) == GT_OK && read_record(e.server, 1));
    e.server->ops->forget(e.server, mine->id);
    theirs = e.server->ops->segment(e.server, mine->id);
    CHECK(theirs && gt__segment_map(theirs) == GT_OK);
    CHECK(!e.server->dead && !e.client->dead);
    gt__segment_release(mine);
    ends_close(&e);
}

/* A reader that lags behind a writer on its own processor moves to another, and may run anywhere again afterwards. */
static void test_crowded(const void *argument)
{
    ends e;
    cpu_set_t before, after;
    if (!ends_open(&e, argument) || !CHECK(!sched_getaffinity(0, sizeof before, &before)))
        return;
    bool moved = CPU_COUNT(&before) == 1;
    for (int turn = 0; turn < 1000 && !moved; turn++) {
        size_t available;
        int writer = sched_getcpu();
        for (gt_slot *space; (space = gt__link_reserve(e.client, 1)); gt__link_commit(e.client, 1))
            space->ins = (gt_instruction){.op = GT_OP_add};
        gt__link_flush(e.client);
        while (gt__link_peek(e.server, &available)) {
            moved |= sched_getcpu() != writer;
            gt__link_consume(e.server, available);
        }
    }
    CHECK(moved);
    CHECK(!sched_getaffinity(0, sizeof after, &after));
    CHECK(CPU_EQUAL(&before, &after));
    ends_close(&e);
}

/* A peer that follows the handshake and then writes nonsense into the rings' state. */
static void test_hostile_rings(const void *argument)
{
    (void)argument;
    gt_acceptor *acceptor;
    gt_memory_message message;
    int port, fds[GT_MEMORY_PARTS];
    if (!CHECK_EQ(gt__transport_memory.listen("localhost", 0, &acceptor, &port), GT_OK))
        return;
    for (int writing = 0; writing < 2; writing++) {
        int fd = raw_connect(&gt__transport_memory, port);
        CHECK_EQ(gt__memory_send(fd, GT_MEMORY_HELLO, 0, NULL, 0), GT_OK);
        gt_link *link = accept_one(acceptor);
        CHECK_EQ(gt__memory_receive(fd, &message, fds, GT_MEMORY_PARTS), GT_MEMORY_RECEIVED);
        if (!CHECK(link))
            return;
        char *state = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
        CHECK(state != MAP_FAILED);
        memset(state, 0x5a, 4096);
        size_t available;
        uint64_t slots = 0;
        if (writing)
            while (slots++ < 100000 && gt__link_reserve(link, 1))
                gt__link_commit(link, 1);
        else
            CHECK(!gt__link_peek(link, &available));
        CHECK(link->dead && strstr(link->reason, "protocol error"));
        gt__link_close(link);
        munmap(state, 4096);
        for (int k = 0; k < GT_MEMORY_PARTS; k++)
            close(fds[k]);
        close(fd);
    }
    acceptor->ops->close(acceptor);
}

/* ---- all of them -------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(const void *argument);
        int which;
    } tests[] = {
        {.name = "order", .run = test_order, .which = PAIR | LISTENING},
        {.name = "flow", .run = test_flow, .which = PAIR | LISTENING},
        {.name = "wait", .run = test_wait, .which = PAIR | LISTENING},
        {.name = "loop", .run = test_loop, .which = PAIR | LISTENING},
        {.name = "goodbye", .run = test_goodbye, .which = PAIR | LISTENING},
        {.name = "killed while read", .run = test_killed_while_read, .which = PAIR | LISTENING},
        {.name = "abandon", .run = test_abandon, .which = PAIR | LISTENING},
        {.name = "leaks", .run = test_leaks, .which = PAIR | LISTENING},
        {.name = "client killed", .run = test_client_killed, .which = LISTENING},
        {.name = "server killed", .run = test_server_killed, .which = LISTENING},
        {.name = "stopped", .run = test_stopped, .which = LISTENING},
        {.name = "names", .run = test_names, .which = LISTENING},
        {.name = "nobody", .run = test_nobody, .which = LISTENING},
        {.name = "garbage", .run = test_garbage, .which = LISTENING},
        {.name = "bad frames", .run = test_bad_frames, .which = ZEROMQ},
        {.name = "segments", .run = test_segments, .which = RINGS},
        {.name = "segment flow", .run = test_segments_flow, .which = RINGS},
        {.name = "many segments", .run = test_segments_many, .which = PAIR},
        {.name = "segment lost", .run = test_segment_lost, .which = RINGS},
        {.name = "crowded", .run = test_crowded, .which = RINGS},
        {.name = "hostile rings", .run = test_hostile_rings, .which = MEMORY},
    };
    check_begin(argc, argv);
    check_run("hosts", test_hosts, NULL);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (size_t t = 0; t < sizeof tests / sizeof *tests; t++) {
            char name[64];
            snprintf(name, sizeof name, "%s: %s", kinds[k].name, tests[t].name);
            if (tests[t].which & kinds[k].which)
                check_run(name, tests[t].run, &kinds[k]);
        }
    }
    return check_end();
}

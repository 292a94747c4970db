/*
 * test_link_hostile.c: wrong addresses, and peers that do not follow the protocol, on every kind of link. Read test_link.c first.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include "link/address.h"
#include "link_ends.h"
#include "link/memory.h"
#include "link/zmq.h"
#include "link/zmq_guard.h"

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

static void test_no_listener(const void *argument)
{
    const gt_transport *transport = ((const kind *)argument)->transport;
    gt_link *link;
    gt_acceptor *acceptor;
    int port, bound;
    int fd = raw_bind(transport, &port);
    uint64_t start = gt__now_ns();
    CHECK_EQ(transport->connect("localhost", port, 2000, &link), GT_ERR_CONNECTION);
    CHECK(strstr(gt_error_text(), "no server at"));
    /* A peer that never answers. */
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

/* A peer that reads nothing and returns credit all the same: what it is sent would pile up in ZeroMQ. */
static void test_blind_credit(const void *argument)
{
    const kind *k = argument;
    ends e;
    char endpoint[200];
    int linger = 0;
    uint64_t written = 0;
    if (!ends_open(&e, argument))
        return;
    CHECK_EQ(gt__zmq_endpoint(k->transport->name, "localhost", e.port, endpoint, sizeof endpoint), GT_OK);
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_DEALER);
    gt_zmq_control control = {.magic = 0x7167747au, .kind = GT_ZMQ_OPEN, .value = GT_ZMQ_VERSION};
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    CHECK(!zmq_connect(socket, endpoint));
    zmq_send(socket, &control, sizeof control, 0);
    gt_link *link = accept_one(e.acceptor);
    control.kind = GT_ZMQ_CREDIT;
    control.value = GT_ZMQ_WINDOW / 4;
    for (int round = 0; CHECK(link) && round < 100 && !link->dead; round++) {
        for (gt_slot *slot; (slot = gt__link_reserve(link, 1)); written++) {
            memset(slot, 0, sizeof *slot);
            gt__link_commit(link, 1);
        }
        zmq_send(socket, &control, sizeof control, 0);
        gt__link_wait(link, GT_WAIT_WRITE, 1000);
        CHECK(!e.acceptor->ops->poll(e.acceptor));
    }
    CHECK(link->dead && strstr(link->reason, "more credit than it received"));
    CHECK(written >= GT_ZMQ_WINDOW && written <= 2 * GT_ZMQ_WINDOW);
    gt__link_close(link);
    CHECK(send_record(e.client, 1));
    CHECK(read_record(e.server, 1));
    zmq_close(socket);
    zmq_ctx_term(context);
    ends_close(&e);
}

/* ---- rings --------------------------------------------------------------------------------------------------- */

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

/* A peer that makes its bells blocking, and fills them: ringing one must not wait for it. */
static void test_full_bells(const void *argument)
{
    (void)argument;
    enum {
        RINGS_BYTES = 4096,
        SLEEPS = 1536
    }; /* SLEEPS: where a reader of the server's ring says that it sleeps */
    gt_acceptor *acceptor;
    gt_memory_message message;
    int port, fds[GT_MEMORY_PARTS];
    if (!CHECK_EQ(gt__transport_memory.listen("localhost", 0, &acceptor, &port), GT_OK))
        return;
    int fd = raw_connect(&gt__transport_memory, port);
    CHECK_EQ(gt__memory_send(fd, GT_MEMORY_HELLO, 0, NULL, 0), GT_OK);
    gt_link *link = accept_one(acceptor);
    CHECK_EQ(gt__memory_receive(fd, &message, fds, GT_MEMORY_PARTS), GT_MEMORY_RECEIVED);
    char *state = mmap(NULL, RINGS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    if (!CHECK(link) || !CHECK(state != MAP_FAILED))
        return;
    for (int k = 1; k < GT_MEMORY_PARTS; k++) {
        uint64_t most = UINT64_MAX - 1;
        ssize_t written = write(fds[k], &most, sizeof most);
        (void)written; /* not every one of them can be written to */
        CHECK(!fcntl(fds[k], F_SETFL, fcntl(fds[k], F_GETFL) & ~O_NONBLOCK));
    }
    _Atomic uint32_t *sleeps = (_Atomic uint32_t *)(void *)(state + SLEEPS);
    atomic_store(sleeps, 1);
    CHECK(send_record(link, 1));
    gt__link_flush(link);
    CHECK_EQ(atomic_load(sleeps), 0); /* it was rung */
    link->ops->arm(link);
    gt__link_close(link);
    munmap(state, RINGS_BYTES);
    for (int k = 0; k < GT_MEMORY_PARTS; k++)
        close(fds[k]);
    close(fd);
    acceptor->ops->close(acceptor);
}

static int count_descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

/* Other threads close what was discarded. */
static void expect_descriptors(int count)
{
    uint64_t deadline = gt__deadline_ns(60000);
    while (count_descriptors() > count && gt__remaining_ms(deadline))
        sched_yield();
    CHECK_EQ(count_descriptors(), count);
}

/* A socket with data that its receiver never takes, and whose close waits for that. */
static int lingering_socket(int *receiver)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct linger forever = {.l_onoff = 1, .l_linger = 1000};
    socklen_t size = sizeof address;
    static char data[1 << 16];
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(!bind(listener, (struct sockaddr *)&address, size) && !listen(listener, 1));
    CHECK(!getsockname(listener, (struct sockaddr *)&address, &size));
    CHECK(!connect(fd, (struct sockaddr *)&address, size));
    *receiver = accept(listener, NULL, NULL);
    close(listener);
    while (send(fd, data, sizeof data, MSG_DONTWAIT) > 0)
        continue;
    CHECK(!setsockopt(fd, SOL_SOCKET, SO_LINGER, &forever, sizeof forever));
    return fd;
}

/* Descriptors that take long to close, taken and not taken: ending the connection does not wait for them. */
static void test_lingering_descriptors(const void *argument)
{
    ends e;
    int receivers[3], before = count_descriptors();
    if (!ends_open(&e, argument))
        return;
    for (int k = 0; k < 3; k++) {
        gt_segment bad = {.id = 70 + (uint64_t)k, .fd = lingering_socket(&receivers[k])};
        CHECK_EQ(e.client->ops->share(e.client, &bad), GT_OK);
        close(bad.fd);
    }
    uint64_t start = gt__now_ns();
    CHECK(!e.server->ops->segment(e.server, 70));
    CHECK(e.server->dead && strstr(e.server->reason, "protocol error"));
    gt__link_close(e.server);
    e.server = NULL;
    CHECK(gt__now_ns() - start < 100000000000u);
    for (int k = 0; k < 3; k++)
        close(receivers[k]);
    ends_close(&e);
    expect_descriptors(before);
}

/* Connections for which a server has no descriptors: its loop is not woken by them again and again, and takes them when it has
 * some. */
static void test_no_descriptors(const void *argument)
{
    (void)argument;
    enum { CROWD = 20, MOST_TURNS = 100 };
    ends e = {.transport = &gt__transport_memory};
    int crowd[CROWD], turns = 0;
    if (!CHECK_EQ(gt__transport_memory.listen(NULL, 0, &e.acceptor, &e.port), GT_OK))
        return;
    for (int k = 0; k < CROWD; k++)
        crowd[k] = raw_connect(&gt__transport_memory, e.port);
    struct rlimit before, none;
    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    none.rlim_cur = (rlim_t)fcntl(e.acceptor->fd, F_DUPFD_CLOEXEC, 0); /* all below are in use */
    close((int)none.rlim_cur);
    setrlimit(RLIMIT_NOFILE, &none);
    struct pollfd wake = {.fd = e.acceptor->fd, .events = POLLIN};
    for (; turns < MOST_TURNS && poll(&wake, 1, 0) > 0; turns++)
        CHECK(!e.acceptor->ops->poll(e.acceptor));
    setrlimit(RLIMIT_NOFILE, &before);
    CHECK(turns < MOST_TURNS);
    connect_more(&e);
    for (int k = 0; k < CROWD; k++)
        close(crowd[k]);
    ends_close(&e);
}

static void send_packet(int socket, size_t size, const int *fds, unsigned count)
{
    char data[64] = {0};
    union {
        char bytes[CMSG_SPACE(16 * sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec vector = {.iov_base = data, .iov_len = size};
    struct msghdr header = {.msg_iov = &vector, .msg_iovlen = 1};
    if (count) {
        header.msg_control = control.bytes;
        header.msg_controllen = CMSG_SPACE(count * sizeof *fds);
        control.align = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(count * sizeof *fds), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.align), fds, count * sizeof *fds);
    }
    CHECK_EQ(sendmsg(socket, &header, MSG_NOSIGNAL), (ssize_t)size);
}

/* Descriptors in empty packets, in large numbers, and behind empty packets are neither kept nor closed by who would wait for it. */
static void test_stray_descriptors(const void *argument)
{
    (void)argument;
    enum { EMPTY = 20 };
    gt_acceptor *acceptor;
    int port, receivers[2], plain = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (!CHECK_EQ(gt__transport_memory.listen("localhost", 0, &acceptor, &port), GT_OK))
        return;
    uint64_t start = gt__now_ns();
    int before = count_descriptors();
    for (int k = 0; k < EMPTY; k++) {
        int fd = raw_connect(&gt__transport_memory, port);
        send_packet(fd, 0, (int[]){plain, plain, plain}, 3);
        CHECK(!acceptor->ops->poll(acceptor));
        CHECK(!acceptor->ops->poll(acceptor));
        close(fd);
    }
    int many[6] = {plain, plain, plain, plain, plain, lingering_socket(&receivers[0])};
    int fd = raw_connect(&gt__transport_memory, port);
    send_packet(fd, 24, many, 6);
    close(many[5]);
    CHECK(!acceptor->ops->poll(acceptor));
    CHECK(!acceptor->ops->poll(acceptor));
    close(fd);
    fd = raw_connect(&gt__transport_memory, port);
    send_packet(fd, 0, NULL, 0);
    send_packet(fd, 0, NULL, 0);
    int late = lingering_socket(&receivers[1]);
    send_packet(fd, 1, &late, 1);
    close(late);
    CHECK(!acceptor->ops->poll(acceptor));
    CHECK(!acceptor->ops->poll(acceptor));
    close(fd);
    CHECK(gt__now_ns() - start < 100000000000u); /* the sockets linger for 1,000 s */
    for (int k = 0; k < 2; k++)
        close(receivers[k]);
    expect_descriptors(before);
    acceptor->ops->close(acceptor);
    close(plain);
}

/* A peer that is as fast as we are: for each of its messages that is received there is the next one. */
static struct {
    int socket, segment; /* where it sends the descriptor of a segment */
    unsigned left;       /* how often */
} flood;

ssize_t recvmsg(int socket, struct msghdr *header, int flags)
{
    ssize_t got = syscall(SYS_recvmsg, socket, header, flags);
    if (got > 0 && flood.left) {
        flood.left--;
        gt__memory_send(flood.socket, GT_MEMORY_SEGMENT, 7, &flood.segment, 1);
    }
    return got;
}

/* Descriptors without end: a look at the socket ends all the same. */
static void test_endless_descriptors(const void *argument)
{
    (void)argument;
    enum { FLOOD = 10000 }; /* far more than a socket holds */
    gt_acceptor *acceptor;
    gt_memory_message message;
    gt_segment *segment;
    int port, fds[GT_MEMORY_PARTS];
    CHECK_EQ(gt__segment_new(1, &segment), GT_OK);
    if (!CHECK_EQ(gt__transport_memory.listen("localhost", 0, &acceptor, &port), GT_OK))
        return;
    int fd = raw_connect(&gt__transport_memory, port);
    CHECK_EQ(gt__memory_send(fd, GT_MEMORY_HELLO, 0, NULL, 0), GT_OK);
    gt_link *link = accept_one(acceptor);
    CHECK_EQ(gt__memory_receive(fd, &message, fds, GT_MEMORY_PARTS), GT_MEMORY_RECEIVED);
    CHECK_EQ(gt__memory_send(fd, GT_MEMORY_SEGMENT, 7, &segment->fd, 1), GT_OK);
    flood.socket = fd;
    flood.segment = segment->fd;
    flood.left = FLOOD;
    CHECK(!link->ops->segment(link, 8));
    CHECK(flood.left > FLOOD / 2);
    link->ops->arm(link);
    CHECK(flood.left > FLOOD / 2);
    CHECK(link->ops->segment(link, 7) && !link->dead);
    flood.left = 0;
    gt__link_close(link);
    for (int k = 0; k < GT_MEMORY_PARTS; k++)
        close(fds[k]);
    close(fd);
    acceptor->ops->close(acceptor);
    gt__segment_release(segment);
}

/* Many connect at once and say hello only later: all of them get a link. */
static void test_crowd(const void *argument)
{
    (void)argument;
    enum { CROWD = 200 };
    static int fds[CROWD];
    static gt_link *links[CROWD];
    gt_acceptor *acceptor;
    int port, welcome[GT_MEMORY_PARTS];
    gt__descriptors_raise();
    if (!CHECK_EQ(gt__transport_memory.listen("localhost", 0, &acceptor, &port), GT_OK))
        return;
    for (int k = 0; k < CROWD; k++) {
        fds[k] = raw_connect(&gt__transport_memory, port);
        CHECK(!acceptor->ops->poll(acceptor));
    }
    for (int k = 0; k < CROWD; k++)
        CHECK_EQ(gt__memory_send(fds[k], GT_MEMORY_HELLO, 0, NULL, 0), GT_OK);
    for (int k = 0; k < CROWD; k++)
        if (!CHECK(links[k] = accept_one(acceptor)))
            return;
    for (int k = 0; k < CROWD; k++) {
        gt_memory_message message;
        CHECK_EQ(gt__memory_receive(fds[k], &message, welcome, GT_MEMORY_PARTS), GT_MEMORY_RECEIVED);
        for (int part = 0; part < GT_MEMORY_PARTS; part++)
            close(welcome[part]);
        gt__link_close(links[k]);
        close(fds[k]);
    }
    acceptor->ops->close(acceptor);
}

/* ---- all of them -------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    static const link_test tests[] = {
        {.name = "no listener", .run = test_no_listener, .which = LISTENING},
        {.name = "garbage", .run = test_garbage, .which = LISTENING},
        {.name = "bad frames", .run = test_bad_frames, .which = ZEROMQ},
        {.name = "blind credit", .run = test_blind_credit, .which = ZEROMQ},
        {.name = "hostile rings", .run = test_hostile_rings, .which = MEMORY},
        {.name = "full bells", .run = test_full_bells, .which = MEMORY},
        {.name = "lingering descriptors", .run = test_lingering_descriptors, .which = MEMORY},
        {.name = "stray descriptors", .run = test_stray_descriptors, .which = MEMORY},
        {.name = "no descriptors", .run = test_no_descriptors, .which = MEMORY},
        {.name = "a crowd", .run = test_crowd, .which = MEMORY},
        {.name = "endless descriptors", .run = test_endless_descriptors, .which = MEMORY},
    };
    check_begin(argc, argv);
    check_run("hosts", test_hosts, NULL);
    run_link_tests(tests, sizeof tests / sizeof *tests);
    return check_end();
}

/*
 * test_resume.c: links by tcp that outlive their connection (link/zmq_resume.h). Connections are cut by shutting the process's own
 * descriptors of them down, after a number of records. Servers are restarted by closing the acceptor and opening another.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <zmq.h>

#include "link_ends.h"
#include "link/expected.h"
#include "link/zmq_resume.h"

enum { WITHIN_MS = 60000, RECORDS = 30000, MOST_AHEAD = 3000, HIGHEST_FD = 512 };

static const kind tcp = {.name = "tcp", .transport = &gt__transport_tcp, .which = TCP};
static const kind ipc = {.name = "ipc", .transport = &gt__transport_ipc, .which = IPC};

static int port_of(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET    ? ntohs(((const struct sockaddr_in *)address)->sin_port)
           : address->ss_family == AF_INET6 ? ntohs(((const struct sockaddr_in6 *)address)->sin6_port)
                                            : 0;
}

static bool is_at(const struct sockaddr_storage *address, int port)
{
    char path[GT_ADDRESS_MAX];
    if (address->ss_family == AF_UNIX)
        return gt__address_path(port, "ipc", path) == GT_OK &&
               !strcmp(((const struct sockaddr_un *)address)->sun_path, path);
    return port_of(address) == port;
}

/* Cut every connection with that port at either end. Returns how many ends there were. */
static unsigned cut(int port)
{
    unsigned ends_cut = 0;
    for (int fd = 0; fd < HIGHEST_FD; fd++) {
        struct sockaddr_storage here = {0}, there = {0};
        socklen_t here_size = sizeof here, there_size = sizeof there;
        if (getpeername(fd, (struct sockaddr *)&there, &there_size) ||
            getsockname(fd, (struct sockaddr *)&here, &here_size))
            continue;
        if (is_at(&here, port) || is_at(&there, port))
            ends_cut += !shutdown(fd, SHUT_RDWR);
    }
    return ends_cut;
}

/* Both ends, as a client and a dispatcher set them up. */
static bool resumable(ends *e, int server_ms, int client_ms)
{
    if (!ends_open(e, &tcp))
        return false;
    gt__link_resumes(e->client, client_ms);
    bool said_hello = send_record(e->client, 0) && read_record(e->server, 0);
    gt__link_resumes(e->server, server_ms);
    return CHECK(said_hello && send_record(e->server, 0) && read_record(e->client, 0));
}

/* The dispatcher's thread. */
typedef struct server_thread {
    pthread_t thread;
    const ends *e;
    uint64_t records; /* to be answered, each by the same one */
    bool right;
    atomic_bool over;
} server_thread;

static void *serve(void *argument)
{
    server_thread *server = argument;
    gt_link *link = server->e->server;
    server->right = true;
    for (uint64_t number = 1; server->right && number <= server->records; number++)
        server->right = read_record(link, number) && send_record(link, number);
    while (!atomic_load(&server->over)) { /* the client may have to come back for the last ones */
        CHECK(!server->e->acceptor->ops->poll(server->e->acceptor));
        gt__link_wait(link, GT_WAIT_READ, 1);
    }
    return NULL;
}

static void serve_begin(server_thread *server)
{
    pthread_create(&server->thread, NULL, serve, server);
}

static bool serve_end(server_thread *server)
{
    atomic_store(&server->over, true);
    pthread_join(server->thread, NULL);
    return server->right;
}

/* All slots of the window are either credit of the sender or with the receiver, once the last controls have come. */
static bool no_credit_is_lost(const ends *e)
{
    const gt_zmq_link *near = (gt_zmq_link *)e->client, *far = (gt_zmq_link *)e->server;
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    bool whole = false;
    while (!whole && gt__remaining_ms(deadline)) {
        gt__link_wait(e->client, GT_WAIT_READ, 1);
        gt__link_wait(e->server, GT_WAIT_READ, 1);
        whole = near->credit + far->received == GT_ZMQ_WINDOW && far->credit + near->received == GT_ZMQ_WINDOW;
    }
    return whole;
}

static void test_cuts(const void *argument)
{
    (void)argument;
    ends e;
    server_thread server = {.e = &e, .records = RECORDS};
    if (!resumable(&e, WITHIN_MS, WITHIN_MS))
        return;
    serve_begin(&server);
    unsigned cuts = 0;
    bool right = true;
    for (uint64_t sent = 0, got = 0, turn = 0; right && got < RECORDS; turn++) {
        uint64_t ahead = 1 + mix(turn) % MOST_AHEAD, reads = mix(turn + 1000) % MOST_AHEAD;
        for (; right && sent < RECORDS && sent - got < ahead; sent++)
            right = write_record(e.client, sent + 1);
        if (turn % 2)
            gt__link_flush(e.client);
        cuts += cut(e.port) > 0;
        for (; right && got < sent && reads; reads--, got++) {
            right = read_record(e.client, got + 1);
            if (mix(got) % 2000 == 0)
                cuts += cut(e.port) > 0;
        }
    }
    if (!CHECK(right && serve_end(&server)))
        fprintf(stderr, "  client: %s; server: %s; %s\n", e.client->reason, e.server->reason, gt_error_text());
    CHECK(cuts > 10);
    gt_link_slots near, far;
    e.client->ops->slots(e.client, &near);
    e.server->ops->slots(e.server, &far);
    CHECK(near.sent == far.received && far.sent == near.received);
    CHECK(no_credit_is_lost(&e));
    ends_close(&e);
}

/* What is kept for a peer that reads is bounded, and less on the server, which has many clients. */
static void test_kept(const void *argument)
{
    (void)argument;
    ends e;
    server_thread server = {.e = &e, .records = RECORDS};
    if (!resumable(&e, WITHIN_MS, WITHIN_MS))
        return;
    serve_begin(&server);
    for (uint64_t number = 1; number <= RECORDS; number++)
        if (!CHECK(send_record(e.client, number) && read_record(e.client, number)))
            break;
    CHECK(serve_end(&server));
    const gt_zmq_link *near = (gt_zmq_link *)e.client, *far = (gt_zmq_link *)e.server;
    CHECK(near->sent > GT_ZMQ_WINDOW && near->sent - near->kept_from <= GT_ZMQ_WINDOW / 2);
    CHECK(far->sent - far->kept_from <= GT_ZMQ_WINDOW / 16);
    ends_close(&e);
}

/* ---- other peers -------------------------------------------------------------------------------------------- */

/* The kind of the control that answers `resume`, sent as the first frame of a connection; the server's end is served meanwhile. */
static unsigned answer_to(const ends *e, const gt_zmq_resume *resume)
{
    char endpoint[64];
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_DEALER);
    int at_once = 0;
    gt_zmq_control answer = {0};
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%d", e->port);
    zmq_setsockopt(socket, ZMQ_LINGER, &at_once, sizeof at_once);
    CHECK(!zmq_connect(socket, endpoint));
    CHECK(zmq_send(socket, resume, sizeof *resume, 0) == (int)sizeof *resume);
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    while (gt__remaining_ms(deadline) && zmq_recv(socket, &answer, sizeof answer, ZMQ_DONTWAIT) < 0) {
        CHECK(!e->acceptor->ops->poll(e->acceptor));
        gt__link_wait(e->server, GT_WAIT_READ, 10);
    }
    zmq_close(socket);
    zmq_ctx_term(context);
    return answer.kind;
}

static gt_zmq_resume taken_from(const ends *e)
{
    const gt_zmq_link *client = (gt_zmq_link *)e->client;
    gt_zmq_resume resume = {.magic = gt__zmq_control_of(GT_ZMQ_RESUME, 0).magic,
                            .kind = GT_ZMQ_RESUME,
                            .arrived = client->arrived,
                            .given = client->arrived - client->received,
                            .sent = client->sent,
                            .life = client->life};
    memcpy(resume.secret, client->secret, sizeof resume.secret);
    return resume;
}

static void test_strangers(const void *argument)
{
    (void)argument;
    ends e;
    if (!resumable(&e, WITHIN_MS, WITHIN_MS))
        return;
    gt_zmq_resume stolen = taken_from(&e), guessed = stolen;
    guessed.secret[31] ^= 1;
    CHECK_EQ(answer_to(&e, &guessed), GT_ZMQ_UNKNOWN);
    memset(guessed.secret, 0, sizeof guessed.secret); /* what a link without a secret has */
    CHECK_EQ(answer_to(&e, &guessed), GT_ZMQ_UNKNOWN);
    snprintf(e.server->user, sizeof e.server->user, "alice"); /* the secret is right, and the key another one */
    CHECK_EQ(answer_to(&e, &stolen), GT_ZMQ_UNKNOWN);
    *e.server->user = 0;
    CHECK(send_record(e.client, 1) && read_record(e.server, 1));
    CHECK(send_record(e.server, 1) && read_record(e.client, 1));
    stolen.arrived += 5; /* more than was sent: only who knows the secret can end the link */
    CHECK_EQ(answer_to(&e, &stolen), GT_ZMQ_RESUMED);
    CHECK(e.server->dead && strstr(e.server->reason, "says that it got what was not sent"));
    ends_close(&e);
}

static void test_no_secret(const void *argument)
{
    (void)argument;
    ends e;
    if (!ends_open(&e, &tcp))
        return;
    gt__link_resumes(e.server, WITHIN_MS); /* the client has not asked for it */
    CHECK(send_record(e.client, 0) && read_record(e.server, 0));
    CHECK(cut(e.port));
    CHECK(dies(e.client) && dies(e.server));
    ends_close(&e);
}

/* ---- giving up ---------------------------------------------------------------------------------------------- */

static void test_too_late(const void *argument)
{
    (void)argument;
    ends e;
    server_thread server = {.e = &e};
    if (!resumable(&e, 1, WITHIN_MS))
        return;
    CHECK(cut(e.port));
    CHECK(dies(e.server));
    CHECK(strstr(e.server->reason, "has not come back within 0.001 s"));
    serve_begin(&server);
    CHECK(dies(e.client));
    CHECK(strstr(e.client->reason, "does not know this client any more"));
    CHECK(serve_end(&server));
    ends_close(&e);
}

static void test_no_server(const void *argument)
{
    (void)argument;
    ends e;
    if (!resumable(&e, WITHIN_MS, WITHIN_MS))
        return;
    CHECK(cut(e.port));
    e.acceptor->ops->close(e.acceptor);
    e.acceptor = NULL;
    CHECK(dies(e.client));
    CHECK(strstr(e.client->reason, "has ended")); /* nothing listens on this host: no need to wait */
    ends_close(&e);
}

static void test_no_answer(const void *argument)
{
    (void)argument;
    ends e;
    if (!resumable(&e, WITHIN_MS, 300))
        return;
    CHECK(cut(e.port)); /* and the server is not served any more */
    CHECK(dies(e.client));
    CHECK(strstr(e.client->reason, "could not be made again within 0.3 s"));
    ends_close(&e);
}

/* ---- restarts ----------------------------------------------------------------------------------------------- */

enum { RESTARTED_RECORDS = 20000, RESTARTS = 12, MOST_TURN = 800 };

/* A client, and a server that has a journal: it would remember that it took `journal` records, of so many slots. */
typedef struct restarting {
    ends e;
    uint64_t taken;                  /* records that the server has taken, and answered each by the same one */
    uint64_t journal, journal_slots; /* of these */
    uint8_t secret[GT_LINK_SECRET];
    char user[48], key[41];
} restarting;

static uint64_t slots_taken(const restarting *r)
{
    gt_link_slots slots;
    r->e.server->ops->slots(r->e.server, &slots);
    return slots.received;
}

static void write_journal(restarting *r)
{
    r->journal = r->taken;
    r->journal_slots = slots_taken(r);
}

static bool restarting_open(restarting *r, const kind *k)
{
    *r = (restarting){.e.transport = k->transport};
    if (!CHECK_EQ(k->transport->listen("localhost", 0, &r->e.acceptor, &r->e.port), GT_OK))
        return false;
    gt__acceptor_outlives(r->e.acceptor);
    if (!connect_more(&r->e))
        return false;
    gt__link_resumes(r->e.client, WITHIN_MS);
    bool said_hello = send_record(r->e.client, 0) && read_record(r->e.server, 0);
    gt__link_resumes(r->e.server, WITHIN_MS);
    gt__link_durable(r->e.server, 0);
    write_journal(r);
    memcpy(r->secret, gt__link_secret(r->e.server), sizeof r->secret);
    memcpy(r->user, r->e.server->user, sizeof r->user);
    memcpy(r->key, r->e.server->key, sizeof r->key);
    return CHECK(said_hello);
}

/* The process ends without a word, and another begins with the journal. */
static bool restart(restarting *r)
{
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    gt_err err;
    CHECK(cut(r->e.port) > 0);
    gt__link_close(r->e.server);
    r->e.acceptor->ops->close(r->e.acceptor);
    r->e.acceptor = NULL;
    r->e.server = NULL;
    do /* the port may be another program's for a moment */
        err = r->e.transport->listen("localhost", r->e.port, &r->e.acceptor, &r->e.port);
    while (err != GT_OK && gt__remaining_ms(deadline));
    if (!CHECK_EQ(err, GT_OK))
        return false;
    gt__acceptor_outlives(r->e.acceptor);
    r->taken = r->journal;
    gt_link_expected expected = {.secret = r->secret,
                                 .user = r->user,
                                 .host = "",
                                 .key = r->key,
                                 .arrived = r->journal_slots,
                                 .within_ms = WITHIN_MS};
    return CHECK_EQ(gt__acceptor_expect(r->e.acceptor, &expected, &r->e.server), GT_OK);
}

/* Read a record from either end; both ends are served meanwhile. */
static bool read_from(const restarting *r, gt_link *link, uint64_t number)
{
    size_t available;
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    while (!gt__link_peek(link, &available) && gt__remaining_ms(deadline)) {
        CHECK(!r->e.acceptor->ops->poll(r->e.acceptor));
        gt__link_wait(r->e.client, GT_WAIT_READ, 1);
        gt__link_wait(r->e.server, GT_WAIT_READ, 0);
    }
    return read_record(link, number);
}

/* The server takes a record and answers it. */
static bool take(restarting *r)
{
    bool right = read_from(r, r->e.server, r->taken + 1) && send_record(r->e.server, r->taken + 1);
    r->taken += right;
    return right;
}

/* The process ends without a word, and another begins with the journal: the client sends the rest again, and hears no more of before. */
static bool kill_and_start(restarting *r)
{
    unsigned before = r->e.client->restarts;
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    if (!restart(r))
        return false;
    while (r->e.client->restarts == before && !r->e.client->gone && gt__remaining_ms(deadline)) {
        size_t available; /* answers from before, until it notices */
        while (r->e.client->restarts == before && gt__link_peek(r->e.client, &available))
            gt__link_consume(r->e.client, available);
        CHECK(!r->e.acceptor->ops->poll(r->e.acceptor));
        gt__link_wait(r->e.client, GT_WAIT_READ, 1);
    }
    return r->e.client->restarts == before + 1;
}

static void test_restarts(const void *argument)
{
    restarting r;
    if (!restarting_open(&r, argument))
        return;
    const gt_zmq_link *near = (gt_zmq_link *)r.e.client;
    uint64_t sent = 0, got = 0, durable = 0;
    bool right = true;
    for (uint64_t turn = 0; right && got < RESTARTED_RECORDS; turn++) {
        uint64_t writes = mix(turn) % MOST_TURN, takes = mix(turn + 1000) % MOST_TURN,
                 reads = mix(turn + 2000) % MOST_TURN;
        for (; writes && sent < RESTARTED_RECORDS && gt__link_reserve(r.e.client, record_length(sent + 1));
             writes--)
            right &= write_record(r.e.client, ++sent);
        gt__link_flush(r.e.client);
        for (; right && takes && r.taken < sent; takes--) {
            right = take(&r);
            if (mix(r.taken) % 8 == 0)
                write_journal(&r);
        }
        if (turn % 4 == 1) {
            durable = r.journal_slots;
            gt__link_durable(r.e.server, durable);
        }
        right &= CHECK(near->returned <= durable);
        if (right && turn % 3 == 2 && r.e.client->restarts < RESTARTS) {
            right = kill_and_start(&r);
            gt__link_durable(r.e.server, durable = r.journal_slots);
            got = r.journal;
        }
        for (; right && reads && got < r.taken; reads--)
            right = read_from(&r, r.e.client, ++got);
    }
    if (!CHECK(right))
        fprintf(stderr, "  client: %s; server: %s; %s\n", r.e.client->reason, r.e.server->reason, gt_error_text());
    CHECK(r.taken == RESTARTED_RECORDS && r.e.client->restarts == RESTARTS);
    ends_close(&r.e);
}

/* Without credit the client keeps all that it sent. */
static void test_not_durable(const void *argument)
{
    restarting r;
    if (!restarting_open(&r, argument))
        return;
    const gt_zmq_link *near = (gt_zmq_link *)r.e.client;
    uint64_t sent = 0;
    while (gt__link_reserve(r.e.client, record_length(sent + 1)) && CHECK(write_record(r.e.client, sent + 1)))
        sent++;
    gt__link_flush(r.e.client);
    while (r.taken < sent && CHECK(read_from(&r, r.e.server, r.taken + 1)))
        r.taken++;
    CHECK(near->returned == 0 && near->kept_from < 10 && !gt__link_reserve(r.e.client, MAX_RECORD));
    gt__link_durable(r.e.server, slots_taken(&r));
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    while (!near->returned && gt__remaining_ms(deadline))
        gt__link_wait(r.e.client, GT_WAIT_READ, 1);
    CHECK(near->returned > 0 && near->returned <= slots_taken(&r) && gt__link_reserve(r.e.client, MAX_RECORD));
    ends_close(&r.e);
}

/* A journal that has lost what it was said to have: the client must not go on. */
static void test_lost_journal(const void *argument)
{
    restarting r;
    if (!restarting_open(&r, argument))
        return;
    const gt_zmq_link *near = (gt_zmq_link *)r.e.client;
    for (uint64_t sent = 0; !near->returned && CHECK(sent < RESTARTED_RECORDS); sent++) {
        CHECK(send_record(r.e.client, sent + 1) && read_from(&r, r.e.server, sent + 1));
        gt__link_durable(r.e.server, slots_taken(&r));
        gt__link_wait(r.e.client, GT_WAIT_READ, 0);
    }
    CHECK(!kill_and_start(&r) || r.e.client->dead);
    CHECK(strstr(r.e.client->reason, "its journal has lost them"));
    ends_close(&r.e);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("cuts", test_cuts, NULL);
    check_run("what is kept", test_kept, NULL);
    check_run("strangers", test_strangers, NULL);
    check_run("no secret", test_no_secret, NULL);
    check_run("too late", test_too_late, NULL);
    check_run("no server", test_no_server, NULL);
    check_run("no answer", test_no_answer, NULL);
    check_run("restarts by tcp", test_restarts, &tcp);
    check_run("restarts by ipc", test_restarts, &ipc);
    check_run("not durable", test_not_durable, &tcp);
    check_run("lost journal", test_lost_journal, &ipc);
    return check_end();
}

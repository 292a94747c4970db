/*
 * exchange_mesh.c: the exchange between workers of different processes and hosts: links, and a thread that serves
 * them.
 *
 * Every worker listens, and tells the dispatcher where; the dispatcher tells the others. Two workers that
 * exchange data get a link, over shared memory on one host and ZeroMQ otherwise. Either side may connect, the receiver
 * too, so it is enough if one of them can reach the other. A thread of its own moves messages: a worker never waits to
 * send, and data travels while it computes. On a link a message is
 *
 *     send   result: tag, operand[0] number, operand[1] bytes, imm[0] a failure's gt_err, imm[1] a segment with
 *            the bytes
 *     data   imm[1] the next bytes, until all are there (none if a segment has them)
 *
 * A link starts with a hello that carries the key which the dispatcher gave only to its workers. Workers of one user on one
 * host meet in shared memory. Between hosts, one of two needs a tcp port (gt worker --listen), with CURVE keys: "host:port KEY"
 * is what it tells the dispatcher, which tells only workers.
 * Read exchange.h first; mesh_link.c has the two ends of a message on a link.
 */
#include "worker/peers/exchange_mesh.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "link/address.h"
#include "link/hello.h"
#include "link/liveness.h"
#include "link/zmq_guard.h"
#include "core/log.h"

enum {
    IDLE_MS = GT_LIVENESS_MS, /* longest sleep of the thread: it polls whether peers live */
    ATTEMPT_MS = 2000,        /* timeout of one attempt to connect */
    AGAIN_MS = 200,           /* between attempts */
    GRACE_MS =
        1000, /* a way to a worker ended: its links end, too, unless they do so by themselves within this time */
    REFUSALS = 3, /* attempts: a worker that refuses all of them does not listen any more */
    MAX_MESH_WORKERS = 4096,
};

/* ---- the worker's side: with the mutex --------------------------------------------------------------------- */

void gt__mesh_wake(gt_mesh *mesh)
{
    uint64_t one = 1;
    ssize_t written = write(mesh->bell, &one, sizeof one);
    (void)written; /* it can only fail if the bell is set already */
}

gt_mesh_peer *gt__mesh_peer(gt_mesh *mesh, int32_t worker)
{
    if (worker < 0 || worker >= MAX_MESH_WORKERS)
        return NULL;
    while (mesh->peer_count <= worker) {
        gt_mesh_peer **peers = realloc(mesh->peers, ((size_t)mesh->peer_count + 1) * sizeof(*peers));
        if (peers)
            mesh->peers = peers;
        gt_mesh_peer *peer = peers ? calloc(1, sizeof *peer) : NULL;
        if (!peer)
            return NULL;
        peer->last = &peer->queue;
        peers[mesh->peer_count++] = peer;
    }
    return mesh->peers[worker];
}

/* Whether the generation that our stream refers to is gone: it left, or a later one has its index. */
static bool is_gone(const gt_mesh_peer *peer)
{
    return *peer->gone || (peer->life && peer->newest > peer->life);
}

/* Whether it is only that we could not reach it: it may have a way to us, and what is queued for it is kept for a while. */
static bool may_still_come(const gt_mesh_peer *peer)
{
    return *peer->gone && peer->unreached && peer->deadline && peer->newest <= peer->life;
}

static void put(gt_exchange *exchange, int32_t to, gt_message *message)
{
    gt_mesh *mesh = (gt_mesh *)exchange;
    pthread_mutex_lock(&mesh->mutex);
    gt_mesh_peer *peer = gt__mesh_peer(mesh, to);
    if (peer && (!is_gone(peer) || may_still_come(peer))) {
        *peer->last = message;
        peer->last = &message->next;
    } else /* the receiver is gone */
        gt__mesh_return(mesh, message);
    pthread_mutex_unlock(&mesh->mutex);
    gt__mesh_wake(mesh);
}

static gt_err expect(gt_exchange *exchange, int32_t from)
{
    gt_mesh *mesh = (gt_mesh *)exchange;
    gt_mesh_peer *peer = gt__mesh_peer(mesh, from);
    if (!peer)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    if (*peer->gone && peer->unreached)
        return gt__fail(GT_ERR_CONNECTION, "worker %s could not be reached at %s", peer->name, peer->gone);
    if (is_gone(peer))
        return gt__fail(GT_ERR_CONNECTION, "worker %s is gone: %s", peer->name,
                        *peer->gone ? peer->gone : "another has taken its place");
    if (!peer->wanted) { /* the receiver connects too: perhaps only it can reach the sender */
        peer->wanted = true;
        gt__mesh_wake(mesh);
    }
    return GT_OK;
}

static void done(gt_exchange *exchange, gt_message *message)
{
    gt_mesh *mesh = (gt_mesh *)exchange;
    gt_segment *segment = message->owner;
    if (message->lent) { /* its place, in which the receiver found nothing of use */
        pthread_mutex_lock(&mesh->mutex);
        gt__mesh_return(mesh, message);
        pthread_mutex_unlock(&mesh->mutex);
        return;
    }
    if (segment) {
        gt__segment_done(segment);
        gt__segment_release(segment);
    }
    free(message);
}

/* Not what lies in a segment of the sender, who waits for it. */
static gt_segment *keep(gt_exchange *exchange, gt_message *message)
{
    (void)exchange;
    gt_segment *segment = message->owner;
    if (!segment || segment->adopted)
        return NULL;
    free(message);
    return segment;
}

static void *reclaim(gt_exchange *exchange)
{
    gt_mesh *mesh = (gt_mesh *)exchange;
    void *lent = NULL;
    if (!atomic_load_explicit(&mesh->any_returned, memory_order_relaxed)) /* most often */
        return NULL;
    pthread_mutex_lock(&mesh->mutex);
    while (mesh->returned && !lent) {
        gt_message *message = mesh->returned;
        mesh->returned = message->next;
        lent = message->lent;
        gt__message_free(exchange, message);
    }
    atomic_store_explicit(&mesh->any_returned, mesh->returned != NULL, memory_order_relaxed);
    pthread_mutex_unlock(&mesh->mutex);
    return lent;
}

/* With the mutex: drop the messages queued for this worker. */
static void return_queue(gt_mesh *mesh, gt_mesh_peer *peer)
{
    while (peer->queue) {
        gt_message *message = peer->queue;
        peer->queue = message->next;
        gt__mesh_return(mesh, message);
    }
    peer->last = &peer->queue;
}

static void introduce(gt_exchange *exchange, int32_t worker, gt_life life, const char *name, const char *address)
{
    gt_mesh *mesh = (gt_mesh *)exchange;
    const char *space = strchr(address, ' '); /* a key may contain colons, but no space */
    char place[sizeof((gt_mesh_peer *)0)->address];
    snprintf(place, sizeof place, "%.*s", space ? (int)(space - address) : (int)strlen(address), address);
    const char *port = strrchr(place, ':');
    gt_link *stale = NULL;
    pthread_mutex_lock(&mesh->mutex);
    gt_mesh_peer *peer = gt__mesh_peer(mesh, worker);
    if (peer) {
        snprintf(peer->name, sizeof peer->name, "%s", name);
        /* A worker on the dispatcher's own host announces this name. Workers elsewhere replace it by the server's
         * host. */
        bool beside = port && strncmp(place, "localhost:", strlen("localhost:")) == 0;
        snprintf(peer->address, sizeof peer->address, "%.100s%s", beside ? mesh->server_host : place,
                 beside ? port : "");
        snprintf(peer->key, sizeof peer->key, "%s", space ? space + 1 : "");
        if (peer->life && peer->life != life) { /* messages for its predecessor */
            return_queue(mesh, peer);
            stale = peer->fresh;
            peer->fresh = NULL;
        }
        peer->life = life;
        if (life > peer->newest)
            peer->newest = life;
        if (peer->gone_life < life)
            *peer->gone = 0; /* not if this generation has connected and gone since */
        if (!*peer->gone)
            peer->deadline = peer->refusals = 0;
    }
    pthread_mutex_unlock(&mesh->mutex);
    if (stale)
        gt__link_close(stale);
}

/* ---- connecting -------------------------------------------------------------------------------------------- */

/* Connecting waits for the peer's thread, which may wait for ours: it gets a thread of its own. */
typedef struct attempt {
    gt_mesh *mesh;
    int32_t worker;
    gt_life life;
    char address[sizeof((gt_mesh_peer *)0)->address];
    gt_keys keys;
} attempt;

/* Whether it is possible at all that we connect to that address; if not, its worker may still connect to us. */
static bool can_connect(const char *address, size_t host_length, bool beside, const gt_keys *keys)
{
    char host[sizeof((gt_mesh_peer *)0)->address];
    snprintf(host, sizeof host, "%.*s", (int)host_length, address);
    return beside || *keys->server || gt__address_is_local(host);
}

/* Without a key only by shared memory: another program may have taken the tcp port of a worker that is gone. *refused: nothing
 * listens there. */
static gt_err connect_attempt(const attempt *a, gt_link **link, bool *refused)
{
    char address[sizeof "memory://localhost" + sizeof a->address];
    const char *port = strrchr(a->address, ':'), *own_port = strrchr(a->mesh->place, ':');
    uint64_t refused_by =
        gt__deadline_ns(ATTEMPT_MS / 2); /* the end of an attempt without any answer is the same error */
    *refused = false;
    if (!port)
        return GT_ERR_CONNECTION;
    /* A worker with our own address is on this host, though the name does not say so. */
    bool beside = port - a->address == own_port - a->mesh->place &&
                  !strncmp(a->address, a->mesh->place, (size_t)(port - a->address));
    gt_err err = GT_ERR_CONNECTION;
    if (beside || !*a->keys.server) {
        snprintf(address, sizeof address, "memory://%s%s", beside ? "localhost" : a->address, beside ? port : "");
        err = gt__address_connect_with(address, NULL, ATTEMPT_MS, link);
    }
    if (err != GT_OK && *a->keys.server)
        err = gt__address_connect_with(a->address, &a->keys, ATTEMPT_MS, link);
    *refused = err == GT_ERR_CONNECTION && gt__remaining_ms(refused_by) &&
               can_connect(a->address, (size_t)(port - a->address), beside, &a->keys);
    return err;
}

static void *connect_main(void *argument)
{
    attempt *a = argument;
    gt_mesh *mesh = a->mesh;
    gt_link *link = NULL;
    bool refused;
    gt_err err = connect_attempt(a, &link, &refused);
    pthread_mutex_lock(&mesh->mutex);
    gt_mesh_peer *peer = mesh->peers[a->worker];
    peer->connecting = false;
    peer->again_ns = gt__deadline_ns(AGAIN_MS);
    bool meant = peer->life == a->life;
    if (meant)
        peer->refusals = refused ? peer->refusals + 1 : 0;
    if (err == GT_OK && meant)
        peer->fresh = link;
    mesh->attempts--;
    pthread_cond_broadcast(&mesh->changed);
    gt__mesh_wake(mesh);
    pthread_mutex_unlock(&mesh->mutex); /* the mesh may be closed from here on */
    if (err == GT_OK && !meant)
        gt__link_close(link);
    free(a);
    return NULL;
}

/* With the mutex: start an attempt to connect to this peer, if it is time. */
static void connect_peer(gt_mesh *mesh, int32_t worker)
{
    gt_mesh_peer *peer = mesh->peers[worker];
    if (!peer->deadline)
        peer->deadline = gt__deadline_ns(gt__connect_timeout_ms(0));
    if (gt__remaining_ms(peer->deadline) == 0 || peer->refusals >= REFUSALS) {
        peer->gone_life = peer->life;
        peer->unreached = true;
        snprintf(peer->gone, sizeof peer->gone, "%s%s", *peer->address ? peer->address : "all",
                 *peer->key || peer->refusals ? "" : "; on another host it needs `gt worker --listen auto`");
        gt__mesh_news(mesh);
        return;
    }
    if (peer->connecting || (peer->again_ns && gt__remaining_ms(peer->again_ns)))
        return;
    attempt *a = malloc(sizeof *a);
    pthread_t thread;
    if (!a)
        return;
    *a = (attempt){.mesh = mesh, .worker = worker, .life = peer->life, .keys = mesh->keys};
    memcpy(a->keys.server, peer->key, sizeof a->keys.server);
    memcpy(a->address, peer->address, sizeof a->address);
    peer->connecting = true;
    mesh->attempts++;
    if (pthread_create(&thread, NULL, connect_main, a) == 0)
        pthread_detach(thread);
    else {
        peer->connecting = false;
        mesh->attempts--;
        free(a);
    }
}

/* ---- the thread -------------------------------------------------------------------------------------------- */

static gt_mesh_link *add_link(gt_mesh *mesh, gt_link *link, int32_t worker, gt_life life)
{
    gt_mesh_link *end = calloc(1, sizeof *end);
    if (!end) {
        gt__link_close(link);
        return NULL;
    }
    *end = (gt_mesh_link){.link = link, .worker = worker, .life = life, .next = mesh->links};
    mesh->links = end;
    return end;
}

static void say_hello(const gt_mesh *mesh, gt_link *link)
{
    gt_slot *hello = gt__link_reserve(link, 1 + GT_HELLO_TAIL);
    if (!hello)
        return; /* the link is lost already */
    memset(hello, 0, (1 + GT_HELLO_TAIL) * sizeof *hello);
    hello->ins = (gt_instruction){.op = GT_OP_hello, .tail = GT_HELLO_TAIL, .flags = GT_ROLE_WORKER};
    hello->ins.result = (uint64_t)mesh->base.self;
    hello->ins.operand[0] = mesh->life;
    hello->ins.imm[0].i = GT_PROTOCOL_VERSION;
    hello->ins.imm[1].u = mesh->key;
    gt__link_commit(link, 1 + GT_HELLO_TAIL);
}

/* With the mutex: an attempt has made a link. */
static void adopt_fresh(gt_mesh *mesh, gt_mesh_peer *peer, int32_t worker)
{
    gt_link *link = peer->fresh;
    peer->fresh = NULL;
    if (gt__mesh_lost(peer, peer->life)) { /* that of its own attempt, meanwhile */
        gt__link_kill(link, "a link with it was lost before");
        add_link(mesh, link, -1, 0);
        return;
    }
    if (peer->gone_life == peer->life)
        *peer->gone = 0; /* it was reached after all */
    say_hello(mesh, link);
    gt_mesh_link *end = add_link(mesh, link, worker, peer->life);
    if (end)
        gt__mesh_lane_offer(mesh, end);
}

/* With the mutex: which peers have a link, and which of these a lane. */
static void note_links(gt_mesh *mesh)
{
    for (int32_t worker = 0; worker < mesh->peer_count; worker++)
        mesh->peers[worker]->linked = mesh->peers[worker]->lane_open = false;
    for (const gt_mesh_link *end = mesh->links; end; end = end->next) {
        bool known = end->worker >= 0 && end->worker < mesh->peer_count;
        gt_mesh_peer *peer = known ? mesh->peers[end->worker] : NULL;
        if (!peer || end->link->gone || !gt__mesh_leads_to(end, peer))
            continue;
        peer->linked = true;
        peer->lane_open |= gt__mesh_has_lane(end);
    }
}

/* Connect to peers with queued messages and no link; adopt links that attempts have made. */
static void look_after_peers(gt_mesh *mesh)
{
    pthread_mutex_lock(&mesh->mutex);
    for (int32_t worker = 0; worker < mesh->peer_count && mesh->joined; worker++)
        if (mesh->peers[worker]->fresh)
            adopt_fresh(mesh, mesh->peers[worker], worker);
    note_links(mesh);
    for (int32_t worker = 0; worker < mesh->peer_count && mesh->joined; worker++) {
        gt_mesh_peer *peer = mesh->peers[worker];
        if (peer->linked)
            peer->deadline = peer->refusals = 0;
        else if (may_still_come(peer) && !gt__remaining_ms(peer->deadline)) {
            return_queue(mesh, peer);
            peer->deadline = 0;
        } else if ((peer->queue || peer->wanted) && *peer->name && !is_gone(peer))
            connect_peer(mesh, worker);
    }
    pthread_mutex_unlock(&mesh->mutex);
}

static void accept_links(gt_mesh *mesh)
{
    for (unsigned k = 0; k < mesh->acceptor_count; k++) {
        gt_link *link;
        while ((link = mesh->acceptors[k]->ops->poll(mesh->acceptors[k])))
            add_link(mesh, link, -1, 0);
    }
}

void gt__mesh_link_doom(gt_mesh_link *end, const char *why)
{
    if (end->ends_by)
        return;
    end->ends_by = gt__deadline_ns(GRACE_MS);
    snprintf(end->why, sizeof end->why, "%s", why);
}

/* All links to that worker, if two connected at the same time. True: progress. */
static bool end_doomed(gt_mesh *mesh, const gt_mesh_link *end)
{
    if (!end->ends_by || end->link->gone || gt__remaining_ms(end->ends_by))
        return false;
    for (gt_mesh_link *link = mesh->links; link; link = link->next)
        if (link->worker == end->worker && link->life == end->life)
            gt__link_kill(link->link, "%s", end->why);
    return true;
}

/* A worker whose last link died is gone, until another has its place. */
static void link_died(gt_mesh *mesh, gt_mesh_link *end)
{
    bool another = false;
    for (gt_mesh_link *other = end->worker >= 0 ? mesh->links : NULL; other; other = other->next)
        if (other->worker == end->worker && other->life == end->life && !other->link->dead) {
            gt__mesh_link_doom(other, end->link->reason);
            another = true;
        }
    pthread_mutex_lock(&mesh->mutex);
    gt_mesh_peer *peer = end->worker >= 0 ? gt__mesh_peer(mesh, end->worker) : NULL;
    if (peer && !another && end->life >= peer->newest) {
        snprintf(peer->gone, sizeof peer->gone, "%s", end->link->reason);
        peer->unreached = false;
        peer->gone_life = end->life;
        return_queue(mesh, peer);
    }
    gt__mesh_news(mesh);
    pthread_mutex_unlock(&mesh->mutex);
}

/* True: progress was made. */
static bool serve_links(gt_mesh *mesh)
{
    bool progress = mesh->lane && mesh->lane_ops->progress(mesh->lane);
    progress |= gt__mesh_lane_fetch_all(mesh);
    for (gt_mesh_link **where = &mesh->links; *where;) {
        gt_mesh_link *end = *where;
        progress |= end_doomed(mesh, end);
        progress |= gt__mesh_read(mesh, end);
        progress |= gt__mesh_write(mesh, end);
        gt__link_flush(end->link);
        if (!end->link->dead) {
            where = &end->next;
            continue;
        }
        gt__mesh_lane_drain(mesh, end);
        *where = end->next;
        link_died(mesh, end);
        gt__mesh_link_free(mesh, end);
        progress = true;
    }
    return progress;
}

static void sleep_until_rung(gt_mesh *mesh)
{
    enum { MOST = 1024 };
    struct pollfd fds[MOST] = {{.fd = mesh->bell, .events = POLLIN}};
    nfds_t count = 1;
    bool quiet = true, attempts = false;
    for (unsigned k = 0; k < mesh->acceptor_count; k++) {
        quiet &= mesh->acceptors[k]->ops->arm(mesh->acceptors[k]);
        fds[count++] = (struct pollfd){.fd = mesh->acceptors[k]->fd, .events = POLLIN};
    }
    if (mesh->lane) {
        quiet &= mesh->lane_ops->arm(mesh->lane);
        fds[count++] = (struct pollfd){.fd = mesh->lane_ops->fd(mesh->lane), .events = POLLIN};
    }
    for (gt_mesh_link *end = mesh->links; end; end = end->next) {
        attempts |= end->ends_by != 0;
        if (end->link->watched)
            end->link->ops->look(end->link);
        quiet &= end->link->ops->arm(end->link);
        if (end->link->fd >= 0 && count < MOST)
            fds[count++] = (struct pollfd){.fd = end->link->fd, .events = POLLIN};
    }
    pthread_mutex_lock(&mesh->mutex);
    for (int32_t worker = 0; worker < mesh->peer_count; worker++)
        attempts |= mesh->peers[worker]->deadline != 0;
    pthread_mutex_unlock(&mesh->mutex);
    uint64_t rung;
    int ready = poll(fds, count, quiet ? attempts ? AGAIN_MS : IDLE_MS : 0);
    if (!ready && quiet)
        gt__mesh_lane_idle(mesh);
    if (ready > 0 && fds[0].revents)
        while (read(mesh->bell, &rung, sizeof rung) == (ssize_t)sizeof rung)
            ;
}

static void *mesh_main(void *argument)
{
    gt_mesh *mesh = argument;
    pthread_setname_np(pthread_self(), "gt mesh");
    while (!atomic_load(&mesh->ending)) {
        accept_links(mesh);
        look_after_peers(mesh);
        if (!serve_links(mesh))
            sleep_until_rung(mesh);
    }
    return NULL;
}

/* ---- life -------------------------------------------------------------------------------------------------- */

/* Our address on the route to the server: other workers reach us there. */
static gt_err own_address(const char *server_host, char *own, size_t size)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM}, *list;
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    if (gt__address_is_local(server_host)) {
        snprintf(own, size, "localhost");
        return GT_OK;
    }
    int rc = getaddrinfo(server_host, "9", &hints, &list);
    if (rc)
        return gt__fail(GT_ERR_CONNECTION, "cannot find the host '%s': %s", server_host, gai_strerror(rc));
    int probe = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool found = probe >= 0 && connect(probe, list->ai_addr, list->ai_addrlen) == 0 &&
                 getsockname(probe, (struct sockaddr *)&address, &length) == 0 &&
                 inet_ntop(AF_INET, &address.sin_addr, own, (socklen_t)size);
    if (probe >= 0)
        close(probe);
    freeaddrinfo(list);
    return found ? GT_OK : gt__fail(GT_ERR_CONNECTION, "no way to '%s': %s", server_host, strerror(errno));
}

/* Acceptors of all transports at one port, which is chosen. */
static gt_err open_port(gt_mesh *mesh, const char *host, const char *listen, int *port)
{
    const gt_guard guard = {.secret_key = mesh->keys.secret}; /* only workers learn the public key */
    gt_acceptor *acceptor;
    *port = 0;
    if (listen) { /* first: it chooses the port */
        GT_TRY(gt__tcp_listen(listen, *port, &guard, &acceptor, port));
        mesh->acceptors[mesh->acceptor_count++] = acceptor;
        GT_TRY(gt__tcp_serve_ipc(acceptor, listen, *port));
    }
    GT_TRY(gt__transport_memory.listen(host, *port, &acceptor, port));
    mesh->acceptors[mesh->acceptor_count++] = acceptor;
    return GT_OK;
}

static void close_port(gt_mesh *mesh)
{
    while (mesh->acceptor_count) {
        gt_acceptor *acceptor = mesh->acceptors[--mesh->acceptor_count];
        acceptor->ops->close(acceptor);
    }
}

/* `listen`: where to open a tcp port; NULL: none. `host`: what others call this host. Another worker, at another address of this host, may
 * get the same port at the same time: one of them has its socket files, and the other takes another port. */
static gt_err listen_for_peers(gt_mesh *mesh, const char *host, const char *listen)
{
    enum { ATTEMPTS = 16 };
    int port;
    gt_err err = open_port(mesh, host, listen, &port);
    for (int k = 1; k < ATTEMPTS && err == GT_ERR_CONNECTION && mesh->acceptor_count; k++) {
        close_port(mesh);
        err = open_port(mesh, host, listen, &port);
    }
    GT_TRY(err);
    snprintf(mesh->place, sizeof mesh->place, "%s:%d", host, port);
    snprintf(mesh->address, sizeof mesh->address, "%s%s%s", mesh->place, listen ? " " : "",
             listen ? mesh->keys.public_key : "");
    return GT_OK;
}

static const char *address(gt_exchange *exchange)
{
    return ((gt_mesh *)exchange)->address;
}

static gt_err join(gt_exchange *exchange, int32_t self, gt_life life, uint64_t key)
{
    gt_mesh *mesh = (gt_mesh *)exchange;
    pthread_mutex_lock(&mesh->mutex);
    exchange->self = self;
    mesh->key = key;
    mesh->life = life;
    mesh->joined = true;
    pthread_mutex_unlock(&mesh->mutex);
    gt__mesh_wake(mesh);
    return GT_OK;
}

/* Free messages of other workers that were not taken. */
static void free_arrived(gt_message *message)
{
    while (message) {
        gt_message *next = message->next;
        if (message->owner)
            gt__segment_release(message->owner);
        free(message);
        message = next;
    }
}

static void free_returned(gt_exchange *exchange, gt_message *message)
{
    while (message) {
        gt_message *next = message->next;
        gt__message_free(exchange, message);
        message = next;
    }
}

/* Messages that were not sent are returned. */
static void leave(gt_exchange *exchange)
{
    gt_mesh *mesh = (gt_mesh *)exchange;
    atomic_store(&mesh->ending, true);
    gt__mesh_wake(mesh);
    if (mesh->running)
        pthread_join(mesh->thread, NULL);
    pthread_mutex_lock(&mesh->mutex);
    while (mesh->attempts)
        pthread_cond_wait(&mesh->changed, &mesh->mutex);
    pthread_mutex_unlock(&mesh->mutex);
    gt__mesh_lane_close(mesh);
    while (mesh->links) {
        gt_mesh_link *next = mesh->links->next;
        gt__mesh_link_free(mesh, mesh->links);
        mesh->links = next;
    }
    pthread_mutex_lock(&mesh->mutex);
    for (int32_t worker = 0; worker < mesh->peer_count; worker++)
        return_queue(mesh, mesh->peers[worker]);
    gt__mesh_lane_return_places(mesh);
    pthread_mutex_unlock(&mesh->mutex);
    mesh->left = true;
}

static void close_mesh(gt_exchange *exchange)
{
    gt_mesh *mesh = (gt_mesh *)exchange;
    if (!mesh->left)
        leave(exchange);
    close_port(mesh);
    for (int32_t worker = 0; worker < mesh->peer_count; worker++) {
        if (mesh->peers[worker]->fresh)
            gt__link_close(mesh->peers[worker]->fresh);
        free(mesh->peers[worker]);
    }
    free(mesh->peers);
    free_arrived(gt__mailbox_empty(&mesh->arrived));
    free_returned(exchange, mesh->returned);
    if (mesh->bell >= 0)
        close(mesh->bell);
    explicit_bzero(&mesh->keys, sizeof mesh->keys);
    pthread_mutex_destroy(&mesh->mutex);
    pthread_cond_destroy(&mesh->changed);
    gt__exchange_free(exchange);
}

static const gt_exchange_ops mesh_ops = {
    .name = "mesh",
    .put = put,
    .expect = expect,
    .done = done,
    .keep = keep,
    .reclaim = reclaim,
    .attach = gt__mesh_lane_attach,
    .takes_exposed = gt__mesh_lane_takes_exposed,
    .fetch = gt__mesh_lane_fetch,
    .introduce = introduce,
    .address = address,
    .join = join,
    .leave = leave,
    .close = close_mesh,
};

static gt_err open_mesh(gt_mesh *mesh, const char *server, const char *listen)
{
    const char *scheme = server ? strstr(server, "://") : NULL, *host = scheme   ? scheme + 3
                                                                        : server ? server
                                                                                 : "localhost";
    const char *colon = strrchr(host, ':');
    char own[64];
    snprintf(mesh->server_host, sizeof mesh->server_host, "%.*s", (int)(colon ? colon - host : (int)strlen(host)),
             host);
    if (mesh->bell < 0)
        return gt__fail(GT_ERR_INTERNAL, "no descriptor is left: %s", strerror(errno));
    GT_TRY(own_address(mesh->server_host, own, sizeof own));
    GT_TRY(gt__keys_make(&mesh->keys));
    bool named = listen && strcmp(listen, "auto") && !gt__address_is_any(listen);
    if (named && snprintf(own, sizeof own, "%s", listen) >= (int)sizeof own)
        return gt__fail(GT_ERR_VALUE, "'%.40s...' is too long for a host", listen);
    GT_TRY(listen_for_peers(mesh, own, listen && !strcmp(listen, "auto") ? own : listen));
    GT_TRY(gt__mesh_lane_open(mesh, own, listen != NULL));
    if (pthread_create(&mesh->thread, NULL, mesh_main, mesh))
        return gt__fail(GT_ERR_INTERNAL, "no thread could be started");
    mesh->running = true;
    return GT_OK;
}

gt_err gt__exchange_mesh(const char *server, const char *listen, const atomic_bool *stop, gt_exchange **exchange)
{
    gt_mesh *mesh = calloc(1, sizeof *mesh);
    if (!mesh)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    gt_err err = gt__exchange_init(&mesh->base, &mesh_ops, stop);
    pthread_mutex_init(&mesh->mutex, NULL);
    gt__condition_init(&mesh->changed);
    mesh->base.mutex = &mesh->mutex;
    mesh->base.arrived = &mesh->changed;
    mesh->base.news = &mesh->news;
    mesh->base.mailbox = &mesh->arrived;
    mesh->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (err == GT_OK)
        err = open_mesh(mesh, server, listen);
    if (err != GT_OK) {
        close_mesh(&mesh->base);
        return err;
    }
    *exchange = &mesh->base;
    return GT_OK;
}

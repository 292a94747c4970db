/*
 * loop.c: the dispatcher's event loop.
 *
 * A turn: accept new peers, serve every active peer a bounded amount, flush their links once. A peer that has been quiet
 * for a while is armed (its next record rings a doorbell that epoll sees) and leaves the list of active peers until then,
 * so the work of a turn does not depend on how many peers are idle. When all are quiet the loop yield-spins for a moment,
 * then sleeps. It never waits for anything else.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "core/log.h"
#include "core/settings.h"
#include "dispatcher/observe/synced.h"
#include "dispatcher/observe/monitor.h"
#include "dispatcher/live/drain.h"
#include "dispatcher/journal/journaled.h"
#include "dispatcher/journal/revive.h"
#include "dispatcher/listen.h"
#include "dispatcher/live/handover.h"
#include "dispatcher/recover/recover.h"
#include "dispatcher/recover/stand_in.h"
#include "dispatcher/reload.h"
#include "dispatcher/remains.h"
#include "dispatcher/session.h"
#include "dispatcher/state.h"
#include "dispatcher/worker_stream.h"
#include "link/hello.h"
#include "link/liveness.h"

enum {
    BUDGET = 1024,        /* slots one peer may have handled in one turn */
    POLL_TURNS = 64,      /* between looks at epoll while busy: so many turns */
    POLL_RECORDS = 16384, /* or so many records of clients */
    QUIET_TURNS = 512,    /* after so many turns without anything a peer is armed, even while others are busy */
    KEEPALIVE_MS = GT_LIVENESS_MS, /* how long to sleep at most while peers of other processes need watching */
    RETRY_MS = 1,                  /* between attempts at something that rings no bell */
    MAX_EVENTS = 64,
    ACCEPTED = 32,   /* connections that are accepted at a time */
    HELLO_MS = 3500, /* how long a peer that connected may take for its hello; and once more, see drop_silent */
};

/* The data.ptr of an epoll event is a gt_peer, or one of these markers. */
static char stop_marker, acceptor_marker;

/* ---- peers ------------------------------------------------------------------------------------------------- */

static gt_err watch(gt_dispatcher *dispatcher, int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
    if (epoll_ctl(dispatcher->epoll, EPOLL_CTL_ADD, fd, &event) == 0)
        return GT_OK;
    return gt__fail(GT_ERR_INTERNAL, "epoll: %s", strerror(errno));
}

void gt__peer_wake(gt_peer *peer)
{
    gt_dispatcher *dispatcher = peer->dispatcher;
    peer->quiet_turns = 0;
    if (peer->active)
        return;
    peer->active = true;
    peer->active_next = NULL;
    peer->active_previous = dispatcher->active_last;
    *(peer->active_previous ? &peer->active_previous->active_next : &dispatcher->active_first) = peer;
    dispatcher->active_last = peer;
}

static void deactivate(gt_peer *peer)
{
    gt_dispatcher *dispatcher = peer->dispatcher;
    if (!peer->active)
        return;
    peer->active = false;
    *(peer->active_previous ? &peer->active_previous->active_next : &dispatcher->active_first) = peer->active_next;
    *(peer->active_next ? &peer->active_next->active_previous : &dispatcher->active_last) = peer->active_previous;
}

/* Each turn begins with another peer. */
static void rotate(gt_dispatcher *dispatcher)
{
    gt_peer *first = dispatcher->active_first;
    if (first == dispatcher->active_last)
        return;
    deactivate(first);
    unsigned quiet_turns = first->quiet_turns;
    gt__peer_wake(first);
    first->quiet_turns = quiet_turns;
}

/* A peer's bell rang. A session that waits is not served now: silence its bell, which would ring until it is. If its
 * client is gone, it ends without what is left of its backlog, except for a log. */
static void rouse(gt_peer *peer)
{
    gt__peer_wake(peer);
    peer->rang = false;
    if (!peer->blocked)
        return;
    if (peer->link->fd >= 0)
        peer->link->ops->arm(peer->link);
    if (!peer->link->gone || peer->dispatcher->observing)
        return;
    gt__link_kill(peer->link, "%s", peer->link->reason);
    gt__share_stop_waiting(peer->session);
    peer->blocked = false;
}

/* Any use of a link may find what came for another one: also while it is decided whose turn it is. So the peer is roused later. */
static void link_arrived(gt_link *link)
{
    gt_peer *peer = link->owner;
    gt__peer_wake(peer);
    peer->rang = true;
}

/* Its hello is awaited from now on: always for the same time, so the list is in the order of the deadlines. */
static void await_hello(gt_peer *peer)
{
    gt_dispatcher *dispatcher = peer->dispatcher;
    peer->hello_by = gt__deadline_ns(HELLO_MS);
    peer->silent_next = NULL;
    peer->silent_previous = dispatcher->silent_last;
    *(peer->silent_previous ? &peer->silent_previous->silent_next : &dispatcher->silent_first) = peer;
    dispatcher->silent_last = peer;
}

/* The peer has said hello, or is leaving. */
static void no_longer_silent(gt_peer *peer)
{
    gt_dispatcher *dispatcher = peer->dispatcher;
    if (!peer->hello_by)
        return;
    peer->hello_by = 0;
    *(peer->silent_previous ? &peer->silent_previous->silent_next : &dispatcher->silent_first) = peer->silent_next;
    *(peer->silent_next ? &peer->silent_next->silent_previous : &dispatcher->silent_last) = peer->silent_previous;
}

gt_err gt__dispatcher_adopt(gt_dispatcher *dispatcher, gt_link *link)
{
    gt_peer *peer = calloc(1, sizeof *peer);
    gt_err err = peer ? GT_OK : gt__fail(GT_ERR_MEMORY, "out of memory");
    if (err == GT_OK && link->fd >= 0)
        err = watch(dispatcher, link->fd, peer);
    if (err != GT_OK) {
        free(peer);
        gt__link_close(link);
        return err;
    }
    peer->dispatcher = dispatcher;
    peer->link = link;
    link->owner = peer;
    link->arrived = link_arrived;
    gt__peer_wake(peer);
    peer->next = dispatcher->peers;
    if (peer->next)
        peer->next->previous = peer;
    dispatcher->peers = peer;
    return GT_OK;
}

void gt__peer_take_link(gt_peer *peer, gt_link *link)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};
    gt_link *before = peer->link;
    if (before->fd >= 0)
        epoll_ctl(peer->dispatcher->epoll, EPOLL_CTL_DEL, before->fd, NULL);
    before->owner = NULL;
    before->arrived = NULL;
    peer->link = link;
    link->owner = peer;
    link->arrived = link_arrived;
    if (link->fd >= 0 && epoll_ctl(peer->dispatcher->epoll, EPOLL_CTL_MOD, link->fd, &event) < 0)
        gt__link_kill(link, "epoll: %s", strerror(errno));
}

void gt__peer_end(gt_peer *peer, const char *reason)
{
    gt_dispatcher *dispatcher = peer->dispatcher;
    gt__peer_log(peer, GT_LOG_DISPATCHER, "ends: %s", reason);
    peer->link->arrived = NULL; /* its last records may find that the link is lost */
    no_longer_silent(peer);
    gt__link_traffic_keep(dispatcher, peer);
    if (peer->worker)
        gt__worker_leave(peer->worker, reason);
    if (peer->session)
        gt__session_free(peer->session, reason);
    if (peer->monitor)
        gt__monitor_free(peer->monitor);
    gt__quota_disconnect(peer);
    if (peer->link->fd >= 0)
        epoll_ctl(dispatcher->epoll, EPOLL_CTL_DEL, peer->link->fd, NULL);
    gt__goodbye_send(peer->link, reason);
    gt__link_close(peer->link);
    deactivate(peer);
    *(peer->previous ? &peer->previous->next : &dispatcher->peers) = peer->next;
    if (peer->next)
        peer->next->previous = peer->previous;
    free(peer);
}

static void send_welcome(gt_peer *peer, uint64_t number)
{
    gt_slot *out = gt__link_reserve(peer->link, 1);
    if (!out)
        return;
    out->ins = (gt_instruction){.op = GT_OP_welcome, .result = number};
    if (peer->worker) { /* the key is for workers alone */
        out->ins.operand[1] = peer->dispatcher->worker_key;
        out->ins.operand[2] = peer->worker->life;
        out->ins.imm[1].f = peer->dispatcher->max_op_seconds;
    }
    out->ins.imm[0].i = GT_PROTOCOL_VERSION;
    gt__link_commit(peer->link, 1);
}

/* Whether a peer may join as a worker: it gets the data of every client. */
static gt_err check_worker(const gt_peer *peer, const gt_slot *hello)
{
    char secret[GT_SECRET_SIZE] = "";
    memcpy(secret, hello[4].bytes, sizeof secret - 1);
    if (!peer->stranger || peer->link->trust == GT_TRUST_WORKER ||
        (peer->link->trust == GT_TRUST_USER && gt__secret_equal(secret, peer->dispatcher->secrets.worker)))
        return GT_OK;
    return gt__fail(GT_ERR_CONNECTION, "a worker of another host or user needs a key that the server lists as a "
                                       "worker's: gt worker --key-file");
}

/* The list may have been read again between the handshake, which asked it, and the first frame. */
static gt_err check_key(const gt_peer *peer)
{
    bool worker = peer->link->trust == GT_TRUST_WORKER, keyed = worker || peer->link->trust == GT_TRUST_KEY;
    const gt_allowed *allowed = peer->dispatcher->allowed;
    if (keyed && allowed && !gt__allowed_knows(allowed, peer->link->key, peer->link->user, worker))
        return gt__fail(GT_ERR_CONNECTION, "this key is not allowed any more");
    return GT_OK;
}

static gt_err take_role(gt_peer *peer, const gt_slot *hello)
{
    GT_TRY(check_key(peer));
    if (hello->ins.flags == GT_ROLE_MONITOR) {
        if (peer->stranger) /* the server's own dashboard takes no connection of others */
            GT_TRY(gt__quota_connect(peer));
        GT_TRY(gt__monitor_new(peer));
        send_welcome(peer, 0);
        return GT_OK;
    }
    if (peer->stranger && peer->dispatcher->monitors_only)
        return gt__fail(GT_ERR_CONNECTION, "this is a program's own server: others may only monitor it");
    if (hello->ins.flags == GT_ROLE_CLIENT)
        gt__link_resumes(peer->link, gt__setting_ms(GT_SETTING_RESUME));
    if (hello->ins.flags == GT_ROLE_CLIENT && *hello[4].bytes) {
        GT_TRY(gt__handover_take(peer, hello));
        return gt__fail(GT_ERR_CONNECTION, "the peer of the session that it attached has its link now");
    }
    if (hello->ins.flags == GT_ROLE_CLIENT) {
        GT_TRY(gt__quota_connect(peer));
        GT_TRY(gt__session_new(peer, hello));
        gt__journaled_begin(peer->session);
        return GT_OK;
    }
    if (hello->ins.flags != GT_ROLE_WORKER)
        return gt__fail(GT_ERR_PROTOCOL, "unknown role %u", hello->ins.flags);
    GT_TRY(check_worker(peer, hello));
    GT_TRY(gt__worker_join(peer, hello));
    send_welcome(peer, (uint64_t)peer->worker->index);
    gt__observe_worker(peer->worker, NULL);
    gt__worker_introduce(peer->worker);
    gt__workers_divide_memory(peer->dispatcher);
    gt__disk_journal_workers(peer->dispatcher);
    return GT_OK;
}

/* A worker replaces a stand-in, which leaves first: it may still write to the segments of clients. */
static bool must_wait(gt_peer *peer, const gt_slot *hello)
{
    if (hello->ins.flags != GT_ROLE_WORKER || check_key(peer) != GT_OK || check_worker(peer, hello) != GT_OK ||
        !gt__stand_in_makes_room(peer->dispatcher, hello))
        return false;
    if (peer->hello_by) {
        no_longer_silent(peer);
        await_hello(peer);
    }
    peer->dispatcher->retry = true;
    return true;
}

static gt_err serve_hello(gt_peer *peer, bool *progress)
{
    size_t available;
    const gt_slot *slots = gt__link_peek(peer->link, &available);
    if (!slots)
        return peer->link->dead ? gt__fail(GT_ERR_CONNECTION, "%s", peer->link->reason) : GT_OK;
    gt_slot hello[1 + GT_HELLO_TAIL];
    unsigned length;
    hello[0] = slots[0];
    GT_TRY(gt__instruction_check(hello, available, &length));
    if (hello->ins.op != GT_OP_hello)
        return gt__fail(GT_ERR_PROTOCOL, "the first record must be a greeting, not %s",
                        gt__op_table[hello->ins.op].name);
    memcpy(hello + 1, slots + 1, GT_HELLO_TAIL * sizeof *hello);
    *progress = true;
    if (hello->ins.imm[0].i != GT_PROTOCOL_VERSION)
        return gt__fail(GT_ERR_PROTOCOL, "it speaks protocol version %lld, this server version %d",
                        (long long)hello->ins.imm[0].i, GT_PROTOCOL_VERSION);
    if (hello->ins.imm[1].u != gt__op_table_hash())
        return gt__fail(GT_ERR_PROTOCOL, "it was built with another op table than this server");
    if (peer->link->gone)
        return gt__fail(GT_ERR_CONNECTION, "%s", peer->link->reason);
    *progress = !must_wait(peer, hello);
    if (!*progress)
        return GT_OK;
    gt__link_consume(peer->link, length);
    no_longer_silent(peer);
    return take_role(peer, hello);
}

/* Now and then: end connections that have not said hello in time. At first they get the same time again: if it was us who did not
 * run, their hello is still to be read. */
static void drop_silent(gt_dispatcher *dispatcher)
{
    gt_peer *peer;
    while ((peer = dispatcher->silent_first) && !gt__remaining_ms(peer->hello_by)) {
        if (peer->overdue) {
            gt__peer_end(peer, "no greeting came");
            continue;
        }
        peer->overdue = true;
        no_longer_silent(peer);
        await_hello(peer);
    }
}

/* ---- turns ------------------------------------------------------------------------------------------------- */

/* A bounded number: connections may come as fast as they are taken, and those that are left ring again. */
static void accept_peers(gt_dispatcher *dispatcher)
{
    for (unsigned k = 0; k < dispatcher->acceptor_count; k++) {
        gt_link *link;
        for (unsigned left = ACCEPTED;
             left && (link = dispatcher->acceptors[k]->ops->poll(dispatcher->acceptors[k])); left--)
            if (gt__dispatcher_adopt(dispatcher, link) == GT_OK) {
                dispatcher->peers->stranger = true;
                await_hello(dispatcher->peers);
            } else
                gt__log_error("a connection was refused: %s", gt_error_text());
    }
}

/* Serve a peer; *progress is set if it did something. An error ends it. */
static void serve_peer(gt_peer *peer, bool *progress)
{
    gt_err err = peer->worker    ? gt__worker_serve(peer->worker, BUDGET, progress)
                 : peer->session ? gt__session_serve(peer->session, BUDGET, progress)
                 : peer->monitor ? gt__monitor_serve(peer->monitor, progress)
                                 : serve_hello(peer, progress);
    if (err != GT_OK) {
        char reason[256];
        strncpy(reason, gt_error_text(), sizeof reason - 1);
        reason[sizeof reason - 1] = 0;
        gt__peer_end(peer, reason);
        *progress = true;
        return;
    }
    peer->quiet_turns = *progress ? 0 : peer->quiet_turns + 1;
}

/* Arm a peer, which then does nothing until its doorbell rings. False: there is something to do for it. */
static bool put_to_rest(gt_peer *peer)
{
    bool retry = peer->session && peer->session->output.retry;
    if (retry || !peer->link->ops->arm(peer->link))
        return false;
    deactivate(peer);
    return true;
}

/* Publish what was written in this turn. Peers that have long been quiet leave the list. Workers stay: sessions wait for
 * their answers, and they are few. */
static void flush_links(gt_dispatcher *dispatcher)
{
    for (int32_t index = 0; index < dispatcher->worker_count; index++)
        if (dispatcher->workers[index]->link) {
            gt__share_retry(dispatcher->workers[index]);
            gt__link_flush(dispatcher->workers[index]->link);
        }
    for (gt_peer *peer = dispatcher->active_first, *next; peer; peer = next) {
        next = peer->active_next;
        gt__link_flush(peer->link);
        if (peer->quiet_turns > QUIET_TURNS && !peer->worker && !peer->blocked && !put_to_rest(peer))
            peer->quiet_turns = 0;
    }
}

/* Serve the sessions that wait for their workers, as far as it is their turn. */
static bool serve_waiting(gt_dispatcher *dispatcher)
{
    bool progress = false;
    gt_session *session;
    while ((session = gt__share_next_spread(dispatcher))) {
        session->peer->blocked = false;
        serve_peer(session->peer, &progress);
        gt__share_served_spread(dispatcher);
        progress = true;
    }
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        gt_dispatch_worker *worker = dispatcher->workers[index];
        while ((session = gt__share_next(worker))) {
            session->peer->blocked = false;
            serve_peer(session->peer, &progress);
            gt__share_served(worker);
            progress = true;
        }
    }
    return progress;
}

static bool serve_peers(gt_dispatcher *dispatcher)
{
    bool progress = false;
    for (int32_t index = 0; index < dispatcher->worker_count; index++)
        if (dispatcher->workers[index]->backlog.behind) /* first: the sessions would take all the room */
            progress |= gt__worker_catch_up(dispatcher->workers[index]);
    for (gt_peer *peer = dispatcher->active_first, *next; peer; peer = next) {
        bool busy = false;
        next = peer->active_next;
        if (peer->rang)
            rouse(peer);
        if (peer->blocked) {
            if (peer->session->account.waits_in)
                continue;
            if (!gt__output_has_room(peer->session)) {
                /* It lost its place with a worker: it queues again. In a recovery, or over its limit, it waits for no turn. */
                if (gt__output_waits(&peer->session->output) && !gt__recover_waits(peer->session))
                    gt__share_wait(peer->session);
                continue;
            }
            peer->blocked = false;
        }
        serve_peer(peer, &busy);
        progress |= busy;
    }
    progress |= serve_waiting(dispatcher);
    if (__builtin_expect(dispatcher->remains != NULL, 0))
        progress |= gt__remains_turn(dispatcher);
    if (__builtin_expect(dispatcher->changing, 0))
        gt__live_turn(dispatcher);
    if (__builtin_expect(dispatcher->monitors != NULL, 0))
        gt__monitors_turn(dispatcher);
    if (__builtin_expect(dispatcher->held, 0))
        gt__synced_release(dispatcher);
    if (__builtin_expect(dispatcher->journal != NULL, 0))
        progress |= gt__disk_journal_turn(dispatcher);
    flush_links(dispatcher);
    if (progress)
        rotate(dispatcher);
    return progress;
}

/* The owner's bell rang. False: the loop must end. */
static bool take_order(gt_dispatcher *dispatcher)
{
    uint64_t rings;
    ssize_t got = read(dispatcher->stop_fd, &rings, sizeof rings); /* first: a ring may stand for both orders */
    (void)got;                                                     /* the flags say what to do */
    if (atomic_load(&dispatcher->stopping))
        return false;
    if (atomic_exchange(&dispatcher->reloading, false))
        gt__reload(dispatcher);
    gt__orders_take(dispatcher);
    return true;
}

/* Make the peers active whose doorbell rang. False: the loop must end. */
static bool poll_events(gt_dispatcher *dispatcher, int timeout_ms)
{
    struct epoll_event events[MAX_EVENTS];
    int count = epoll_wait(dispatcher->epoll, events, MAX_EVENTS, timeout_ms);
    bool ordered = false;
    for (int k = 0; k < count; k++) {
        ordered |= events[k].data.ptr == &stop_marker;
        if (events[k].data.ptr != &acceptor_marker && events[k].data.ptr != &stop_marker)
            rouse(events[k].data.ptr);
    }
    if (__builtin_expect(ordered, 0) && !take_order(dispatcher))
        return false;
    accept_peers(dispatcher);
    gt__workers_look(dispatcher);
    if (dispatcher->recovery.on)
        gt__recover_look(dispatcher);
    else if (__builtin_expect(dispatcher->reliefs, 0))
        gt__stand_ins_look(dispatcher);
    drop_silent(dispatcher);
    if (__builtin_expect(dispatcher->detached, 0))
        gt__handovers_look(dispatcher);
    return true;
}

/* While the loop does not sleep: is it time to look whose doorbell rang? */
static bool poll_is_due(gt_dispatcher *dispatcher)
{
    if (dispatcher->turns - dispatcher->polled_turns < POLL_TURNS && dispatcher->unpolled < POLL_RECORDS)
        return false;
    dispatcher->polled_turns = dispatcher->turns;
    dispatcher->unpolled = 0;
    return true;
}

/* Arm all links before the loop sleeps; false: there is something to do after all. */
static bool arm_all(gt_dispatcher *dispatcher)
{
    bool quiet = true;
    for (gt_peer *peer = dispatcher->active_first, *next; peer; peer = next) {
        next = peer->active_next;
        quiet &= peer->blocked ? !peer->rang : put_to_rest(peer);
    }
    for (unsigned k = 0; k < dispatcher->acceptor_count; k++)
        if (!dispatcher->acceptors[k]->ops->arm(dispatcher->acceptors[k])) {
            accept_peers(dispatcher);
            quiet = false;
        }
    return quiet;
}

/* Milliseconds to sleep if no doorbell rings. */
static int patience_ms(gt_dispatcher *dispatcher, bool quiet)
{
    int awake_ms = dispatcher->retry ? RETRY_MS : 0;
    int asleep_ms =
        dispatcher->silent_first || (dispatcher->acceptor_count && !dispatcher->monitors_only) ? KEEPALIVE_MS : -1;
    if (!quiet)
        return awake_ms;
    gt__observer_flush(dispatcher);
    if (dispatcher->held || dispatcher->changing)
        return RETRY_MS;
    int due_ms = gt__monitors_timeout_ms(dispatcher), kept_ms = gt__share_patience_ms(dispatcher);
    due_ms = kept_ms >= 0 && (due_ms < 0 || kept_ms < due_ms) ? kept_ms : due_ms;
    return due_ms >= 0 && (asleep_ms < 0 || due_ms < asleep_ms) ? due_ms : asleep_ms;
}

/* Whether a client has sent what is not placed yet. */
static bool is_behind(const gt_peer *peer)
{
    size_t available;
    return peer->session && (gt__output_waits(&peer->session->output) || gt__link_peek(peer->link, &available));
}

/* Take what clients had sent before the order to stop came. Those that go on sending are not waited for. */
static void take_last_records(gt_dispatcher *dispatcher)
{
    enum { PATIENCE_MS = 2000 };
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    for (bool behind = true; behind && gt__remaining_ms(deadline);) {
        poll_events(dispatcher, 0);
        behind = serve_peers(dispatcher);
        for (const gt_peer *peer = dispatcher->peers; peer && !behind; peer = peer->next)
            behind = is_behind(peer);
        sched_yield(); /* workers make room */
    }
}

/* A server with a journal may be started again: workers and the sessions of the journal wait for that, and are not told goodbye. */
static bool leave(gt_dispatcher *dispatcher)
{
    bool leaves = dispatcher->journal;
    for (gt_peer *peer = dispatcher->peers; leaves && peer; peer = peer->next)
        if (peer->worker || (peer->session && peer->session->journaled))
            gt__link_leave(peer->link);
    gt__disk_journal_close(dispatcher);
    return leaves;
}

/* The loop has ended. For a log the workers are heard out, after the clients' last records. */
static void finish(gt_dispatcher *dispatcher)
{
    gt__handovers_name(dispatcher);
    bool left = leave(dispatcher);
    const char *reason = left ? GT_SERVER_PAUSES : GT_SERVER_STOPS;
    if (dispatcher->watching && !left)
        take_last_records(dispatcher);
    for (gt_peer *peer = dispatcher->peers, *next; dispatcher->watching && peer; peer = next) {
        next = peer->next;
        if (!peer->worker)
            gt__peer_end(peer, reason);
    }
    if (dispatcher->watching && !left)
        gt__workers_finish(dispatcher);
    while (dispatcher->peers)
        gt__peer_end(dispatcher->peers, reason);
}

gt_err gt__dispatcher_run(gt_dispatcher *dispatcher)
{
    uint64_t last_progress = gt__now_ns();
    locale_t before = uselocale(gt__plain_locale()); /* statistics and logs are read by programs, too */
    for (bool running = true; running; dispatcher->turns++) {
        if (serve_peers(dispatcher)) {
            if (poll_is_due(dispatcher))
                running = poll_events(dispatcher, 0);
            last_progress = 0;
            continue;
        }
        uint64_t now = gt__now_ns();
        if (!last_progress)
            last_progress = now;
        if (now - last_progress < GT_SPIN_US * 1000) {
            sched_yield();
            continue;
        }
        bool quiet = arm_all(dispatcher);
        dispatcher->sleeps += quiet;
        int timeout_ms = patience_ms(dispatcher, quiet);
        dispatcher->retry = false;
        running = poll_events(dispatcher, timeout_ms); /* also without sleeping: other bells may have rung */
        last_progress = 0;
    }
    finish(dispatcher);
    uselocale(before);
    return GT_OK;
}

bool gt__dispatcher_turn(gt_dispatcher *dispatcher)
{
    dispatcher->turns++;
    bool progress = serve_peers(dispatcher);
    if (!progress || poll_is_due(dispatcher))
        poll_events(dispatcher, 0); /* bells of peers that were put to rest */
    return progress;
}

/* ---- life -------------------------------------------------------------------------------------------------- */

static gt_err open_acceptors(gt_dispatcher *dispatcher, const gt_dispatcher_options *options)
{
    GT_TRY(gt__dispatcher_listen(dispatcher, options));
    for (unsigned k = 0; k < dispatcher->acceptor_count; k++)
        GT_TRY(watch(dispatcher, dispatcher->acceptors[k]->fd, &acceptor_marker));
    return options->journal ? gt__dispatcher_revive(dispatcher, options) : GT_OK;
}

static gt_err open_spool(gt_dispatcher *dispatcher, const gt_dispatcher_options *options)
{
    if (!dispatcher->recovery.on)
        return gt__fail(GT_ERR_VALUE, "--recover-snapshots has no effect without --recover");
    return gt__spool_new(options->recover_snapshots,
                         options->recover_disk ? options->recover_disk : GT_RECOVER_DISK,
                         &dispatcher->recovery.spool);
}

gt_err gt__dispatcher_new(const gt_dispatcher_options *options, gt_dispatcher **out)
{
    gt__log_init();
    gt_dispatcher *dispatcher = calloc(1, sizeof *dispatcher);
    if (!dispatcher)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    dispatcher->worker_batch = (unsigned)gt__setting(GT_SETTING_WORKER_BATCH_SIZE);
    dispatcher->modifiers = options->modifiers ? options->modifiers : getenv("GT_MODIFIERS");
    dispatcher->last_modifier = options->last_modifier;
    dispatcher->next_session = dispatcher->next_segment = dispatcher->next_tag = 1;
    dispatcher->started_ns = gt__now_ns();
    dispatcher->secrets_file.lock = -1;
    gt__orders_init(&dispatcher->orders);
    dispatcher->limits = options->limits;
    dispatcher->max_weight = options->max_weight > 0 ? options->max_weight : 1;
    dispatcher->recovery.on = options->recover || options->journal;
    dispatcher->recovery.wait_ms =
        (int)(1000 * (options->recover_wait_s > 0 ? options->recover_wait_s : GT_RECOVER_WAIT_S));
    dispatcher->recovery.stand_in_ms =
        (int)(1000 * (options->recover_stand_in_s > 0 ? options->recover_stand_in_s : GT_RECOVER_STAND_IN_S));
    dispatcher->recovery.every_ns =
        1e9 * (options->recover_every_s > 0 ? options->recover_every_s : GT_RECOVER_EVERY_S);
    dispatcher->recovery.most = options->recover_bytes ? options->recover_bytes : GT_RECOVER_BYTES;
    dispatcher->detached_ms = (int)(1000 * (options->detached_s > 0 ? options->detached_s : GT_DETACHED_S));
    dispatcher->attach_by_any = options->attach_by_any;
    dispatcher->max_op_seconds =
        options->max_op_seconds > 0 ? options->max_op_seconds : gt__setting(GT_SETTING_MAX_OP_SECONDS);
    dispatcher->epoll = epoll_create1(EPOLL_CLOEXEC);
    dispatcher->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    gt_err err = dispatcher->epoll < 0 || dispatcher->stop_fd < 0
                     ? gt__fail(GT_ERR_INTERNAL, "the dispatcher cannot open descriptors: %s", strerror(errno))
                     : watch(dispatcher, dispatcher->stop_fd, &stop_marker);
    if (err == GT_OK && options->recover_snapshots)
        err = open_spool(dispatcher, options);
    if (err == GT_OK)
        err = gt__chain_check(dispatcher->modifiers);
    if (err == GT_OK)
        err = gt__observer_new(dispatcher, &options->observer);
    dispatcher->logs = err == GT_OK && dispatcher->watching;
    if (err == GT_OK && getrandom(&dispatcher->worker_key, sizeof dispatcher->worker_key, 0) < 0)
        err = gt__fail(GT_ERR_INTERNAL, "no random numbers: %s", strerror(errno));
    if (err == GT_OK && options->config && *options->config) {
        dispatcher->config_file = strdup(options->config);
        err = gt__config_load(&dispatcher->config, options->config);
    }
    /* An embedded server that cannot be monitored still serves. */
    if (err == GT_OK && !options->unseen) {
        gt_err opened = open_acceptors(dispatcher, options);
        err = options->listen ? opened : GT_OK;
    }
    if (err != GT_OK)
        gt__dispatcher_free(&dispatcher);
    *out = dispatcher;
    return err;
}

bool gt__dispatcher_logs(const gt_dispatcher *dispatcher)
{
    return dispatcher && dispatcher->logs;
}

int gt__dispatcher_port(const gt_dispatcher *dispatcher)
{
    return dispatcher->port;
}

void gt__dispatcher_wake(gt_dispatcher *dispatcher)
{
    uint64_t one = 1;
    ssize_t written = write(dispatcher->stop_fd, &one, sizeof one);
    (void)written; /* it can only fail when it rings already */
}

void gt__dispatcher_stop(gt_dispatcher *dispatcher)
{
    atomic_store(&dispatcher->stopping, true);
    gt__dispatcher_wake(dispatcher);
}

void gt__dispatcher_reload(gt_dispatcher *dispatcher)
{
    atomic_store(&dispatcher->reloading, true);
    gt__dispatcher_wake(dispatcher);
}

void gt__dispatcher_free(gt_dispatcher **where)
{
    gt_dispatcher *dispatcher = *where;
    if (!dispatcher)
        return;
    gt__disk_journal_close(dispatcher);
    while (dispatcher->peers)
        gt__peer_end(dispatcher->peers, GT_SERVER_STOPS);
    for (unsigned k = 0; k < dispatcher->acceptor_count; k++)
        dispatcher->acceptors[k]->ops->close(dispatcher->acceptors[k]);
    gt__secrets_withdraw(&dispatcher->secrets_file);
    gt__allowed_free(dispatcher->allowed);
    explicit_bzero(&dispatcher->secrets, sizeof dispatcher->secrets);
    gt__observer_free(dispatcher);
    gt__remains_free(dispatcher);
    gt__workers_free(dispatcher);
    gt__quota_users_free(dispatcher);
    gt__journal_pool_free(&dispatcher->recovery.pool);
    gt__spool_free(&dispatcher->recovery.spool);
    gt__orders_free(&dispatcher->orders);
    gt__config_free(&dispatcher->config);
    free(dispatcher->config_file);
    free(dispatcher->allowed_file);
    if (dispatcher->epoll >= 0)
        close(dispatcher->epoll);
    if (dispatcher->stop_fd >= 0)
        close(dispatcher->stop_fd);
    free(dispatcher);
    *where = NULL;
}

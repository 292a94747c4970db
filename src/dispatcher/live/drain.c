/* drain.c: see drain.h. Place in the flow: a monitor's order -> here, every turn of the loop -> evacuate.c. */
#include "dispatcher/live/drain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "dispatcher/journal/journaled.h"
#include "dispatcher/live/evacuate.h"
#include "dispatcher/live/reshard.h"
#include "dispatcher/observe/monitor.h"
#include "dispatcher/recover/recover.h"
#include "dispatcher/recover/stand_in.h"
#include "dispatcher/reload.h"
#include "dispatcher/spread/spread.h"
#include "dispatcher/state.h"

enum { TEXT = 320 };

/* "3.2 MB" */
static char *bytes_text(uint64_t bytes, char *text, size_t size)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    double number = (double)bytes;
    unsigned unit = 0;
    for (; number >= 1000 && unit < 4; unit++)
        number /= 1000;
    snprintf(text, size, unit ? "%.3g %s" : "%.0f %s", number, units[unit]);
    return text;
}

/* ---- where to --------------------------------------------------------------------------------------------- */

/* The client and the worker share memory, and records under way name it: the next worker must know it, too. */
static bool can_share(const gt_session *session, const gt_dispatch_worker *from, const gt_dispatch_worker *to)
{
    bool shares = session->home == from && session->link->ops->segment && from->link->ops->share;
    return !shares || to->link->ops->share;
}

static bool has_memory(const gt_dispatch_worker *to, uint64_t bytes)
{
    const gt_report *report = &to->reported.report;
    return !report->bytes_limit || report->bytes_used + to->leaving.arriving + bytes <= report->bytes_limit;
}

/* The worker with the fewest sessions of those that can take what the session has on `from`. NULL: there is none, and the error text
 * says why. */
static gt_dispatch_worker *choose(gt_session *session, const gt_dispatch_worker *from, uint64_t bytes)
{
    const gt_dispatcher *dispatcher = session->dispatcher;
    gt_dispatch_worker *best = NULL;
    const gt_dispatch_worker *small = NULL, *far = NULL;
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        gt_dispatch_worker *worker = dispatcher->workers[index];
        if (worker == from || !worker->peer || worker->link->gone || worker->stand_in.present ||
            worker->draining || worker->leaving.wanted || gt__session_uses(session, worker) ||
            (session->spreading && gt__signals_part(session, from->index, index)))
            continue;
        if (!can_share(session, from, worker))
            far = worker;
        else if (!has_memory(worker, bytes))
            small = worker;
        else if (!best || worker->sessions < best->sessions)
            best = worker;
    }
    char text[32];
    unsigned long long client = session->number;
    if (!best && small)
        gt__error_set("worker %s has no room for the %s of client %llu", small->name,
                      bytes_text(bytes, text, sizeof text), client);
    else if (!best && far)
        gt__error_set("client %llu shares memory with worker %s, and cannot with worker %s", client, from->name,
                      far->name);
    else if (!best)
        gt__error_set("no other worker can take the tensors of client %llu", client);
    return best;
}

/* Where the session's tensors go. NULL: not now if *later, else there is no such worker, and the error text says why. */
static gt_dispatch_worker *successor(gt_session *session, gt_dispatch_worker *from, bool *later)
{
    uint64_t bytes = gt__evacuation_bytes(session, from);
    gt_dispatch_worker *to = choose(session, from, bytes);
    *later = false;
    if (to || !session->spreading)
        return to;
    to = gt__stand_in_for_leaving(from, later);
    if (to && (!can_share(session, from, to) || !has_memory(to, bytes) || gt__session_uses(session, to))) {
        gt__error_set("no other worker has room for the tensors of client %llu",
                      (unsigned long long)session->number);
        return NULL;
    }
    return to;
}

/* ---- leaving ------------------------------------------------------------------------------------------------ */

static gt_dispatch_worker *find(const gt_dispatcher *dispatcher, const char *which)
{
    char *end;
    long number = strtol(which, &end, 10);
    for (int32_t index = 0; index < dispatcher->worker_count; index++)
        if (dispatcher->workers[index]->peer && !strcmp(dispatcher->workers[index]->name, which))
            return dispatcher->workers[index];
    bool is_number = *which && !*end && number >= 0 && number < dispatcher->worker_count;
    return is_number && dispatcher->workers[number]->peer ? dispatcher->workers[number] : NULL;
}

void gt__drain_worker(gt_dispatch_worker *worker)
{
    gt_dispatcher *dispatcher = worker->peer->dispatcher;
    if (worker->leaving.wanted)
        return;
    worker->leaving.wanted = dispatcher->changing = true;
    worker->leaving.moved = (gt_moved){0};
    gt__peer_log(worker->peer, GT_LOG_STATUS, "is drained: its tensors go to other workers, then it leaves");
    for (int32_t index = 0; index < dispatcher->worker_count; index++) { /* they end with their host */
        gt_dispatch_worker *other = dispatcher->workers[index];
        if (other->peer && other->stand_in.present && other->stand_in.host == worker->index &&
            other->stand_in.host_life == worker->life)
            gt__drain_worker(other);
    }
}

gt_err gt__drain_order(gt_dispatcher *dispatcher, const char *which, uint64_t *life)
{
    gt_dispatch_worker *worker = find(dispatcher, which);
    if (dispatcher->monitors_only)
        return gt__fail(GT_ERR_VALUE, "this is a program's own server: its workers leave with it");
    if (!worker)
        return gt__fail(GT_ERR_VALUE, "the server has no worker %s", which);
    if (worker->stand_in.present)
        return gt__fail(GT_ERR_VALUE, "worker %s stands in for another one, and leaves when that is back", which);
    *life = worker->life;
    gt__reports_refresh(dispatcher); /* for their memory */
    gt__drain_worker(worker);
    return GT_OK;
}

/* A session that waits to be moved goes on. */
static void let_go_on(gt_session *session)
{
    if (!session->moving.wanted)
        return;
    session->moving.wanted = false;
    gt__peer_wake(session->peer);
}

/* The same for all. Those that another worker, which leaves too, waits for are asked again. */
static void let_all_go_on(const gt_dispatcher *dispatcher)
{
    for (const gt_peer *peer = dispatcher->peers; peer; peer = peer->next)
        if (peer->session)
            let_go_on(peer->session);
}

/* The worker stays, and so do those that would have left with it. */
static void give_up(gt_dispatch_worker *worker)
{
    gt_dispatcher *dispatcher = worker->peer->dispatcher;
    char text[TEXT];
    snprintf(text, sizeof text, "worker %s stays: %s", worker->name, gt_error_text());
    gt__log(GT_LOG_STATUS, "%s", text);
    gt__monitors_tell(dispatcher, worker->life, GT_TOPIC_ORDER_FAILED, text);
    worker->leaving.wanted = false;
    worker->leaving.relief = 0;
    worker->leaving.lost_by_ns = 0;
    let_all_go_on(dispatcher);
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        gt_dispatch_worker *other = dispatcher->workers[index];
        if (!other->peer || !other->leaving.wanted || !other->stand_in.present)
            continue;
        bool with_it = other->stand_in.host == worker->index && other->stand_in.host_life == worker->life;
        bool its_host = worker->stand_in.present && worker->stand_in.host == index;
        if (with_it || its_host)
            other->leaving.wanted = false;
    }
}

bool gt__drain_revoke(const gt_session *session, const gt_dispatch_worker *dead)
{
    const gt_dispatcher *dispatcher = session->dispatcher;
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        gt_dispatch_worker *worker = dispatcher->workers[index];
        if (!worker->peer || worker->link->gone || worker->stand_in.present || !worker->leaving.wanted ||
            worker->leaving.dismissed)
            continue;
        gt__error_set("no other worker can stand in for worker %s, which is dead, and client %llu needs that",
                      dead->name, (unsigned long long)session->number);
        give_up(worker);
        return true;
    }
    return false;
}

static void tell_moved(const gt_session *session, gt_dispatch_worker *from, const gt_dispatch_worker *to,
                       const gt_moved *moved)
{
    char text[TEXT], who[160], bytes[32];
    gt__peer_who(session->peer, who, sizeof who);
    snprintf(text, sizeof text, "%s: %llu tensor%s, %s to worker %s", who, (unsigned long long)moved->tensors,
             moved->tensors == 1 ? "" : "s", bytes_text(moved->bytes, bytes, sizeof bytes), to->name);
    gt__log(GT_LOG_STATUS, "%s", text);
    from->leaving.moved.tensors += moved->tensors;
    from->leaving.moved.bytes += moved->bytes;
    gt__monitors_tell(session->dispatcher, from->life, GT_TOPIC_ORDER_NEWS, text);
}

/* Move what the session has on one worker to another, now or when it can be. True: now; the session may have ended. */
static bool move(gt_session *session, gt_dispatch_worker *from, gt_dispatch_worker *to, bool named)
{
    gt_moved moved;
    if (!session->moving.wanted)
        session->moving.asked = 0;
    session->moving.wanted = true;
    if (gt__evacuation_obstacle(session) || !gt__evacuation_settled(session, from))
        return false;
    session->moving.wanted = false;
    if (gt__evacuate(session, from, to, named, &moved) == GT_OK)
        tell_moved(session, from, to, &moved);
    else
        gt__peer_end(session->peer, gt_error_text());
    return true;
}

/* Whether it uses the worker, or will again when it is recovered. */
static bool needs(const gt_session *session, const gt_dispatch_worker *worker)
{
    return gt__session_uses(session, worker) ||
           (gt__recover_active(session) && gt__recover_uses(session, worker->index));
}

/* One turn of a worker that is to leave. */
static void drain(gt_dispatch_worker *worker)
{
    gt_dispatcher *dispatcher = worker->peer->dispatcher;
    bool used = worker->leaving.lost_by_ns; /* which is noticed soon */
    if (used && !gt__remaining_ms(worker->leaving.lost_by_ns)) {
        gt__error_set("tensors that it sent to another worker did not arrive, and are lost");
        give_up(worker);
    }
    for (gt_peer *peer = dispatcher->peers, *next; peer && worker->leaving.wanted; peer = next) {
        bool later = true;
        next = peer->next;
        if (!peer->session || !needs(peer->session, worker))
            continue;
        gt_dispatch_worker *to =
            gt__recover_active(peer->session) ? NULL : successor(peer->session, worker, &later);
        if (!to)
            let_go_on(peer->session); /* until there is one */
        if (!to && !later)
            give_up(worker);
        else
            used |= !to || !move(peer->session, worker, to,
                                 !worker->relief && gt__signals_mean(peer->session, worker->index));
    }
    if (worker->leaving.wanted && !used && !worker->leaving.unconfirmed && !gt__stand_ins_of(worker))
        worker->leaving.dismissed = gt__worker_dismiss(worker);
}

void gt__drain_ended(gt_dispatch_worker *worker, const char *reason)
{
    char text[TEXT], bytes[32];
    const gt_moved *moved = &worker->leaving.moved;
    if (!worker->leaving.wanted)
        return;
    let_all_go_on(worker->peer->dispatcher);
    if (worker->leaving.dismissed)
        snprintf(text, sizeof text, "worker %s is drained: %llu tensor%s moved, %s", worker->name,
                 (unsigned long long)moved->tensors, moved->tensors == 1 ? "" : "s",
                 bytes_text(moved->bytes, bytes, sizeof bytes));
    else
        snprintf(text, sizeof text, "worker %s was lost before all of its tensors were moved: %s", worker->name,
                 reason);
    gt__monitors_tell(worker->peer->dispatcher, worker->life,
                      worker->leaving.dismissed ? GT_TOPIC_ORDER_DONE : GT_TOPIC_ORDER_FAILED, text);
}

/* ---- coming back -------------------------------------------------------------------------------------------- */

/* The worker of this number is there, and another one has what the session means by it. */
static bool is_back(const gt_session *session, const gt_successor *entry)
{
    const gt_dispatch_worker *worker = session->dispatcher->workers[entry->number];
    return worker->peer && !worker->relief && !worker->leaving.wanted;
}

void gt__live_joined(gt_dispatch_worker *worker)
{
    for (const gt_peer *peer = worker->peer->dispatcher->peers; peer; peer = peer->next)
        if (peer->session && gt__successors_find(&peer->session->successors, worker->index) != worker->index)
            worker->peer->dispatcher->changing = true;
}

/* Give one that is back its tensors. True: none is. */
static bool give_back(gt_session *session)
{
    for (unsigned k = 0; k < session->successors.count; k++) {
        gt_successor entry = session->successors.list[k];
        gt_dispatch_worker *holder = session->dispatcher->workers[entry.worker];
        if (!is_back(session, &entry))
            continue;
        if (gt__recover_active(session))
            return false;
        bool meant = gt__signals_mean(session, entry.number);
        if (meant && holder->peer) {
            move(session, holder, session->dispatcher->workers[entry.number], false);
            return false;
        }
        if (meant) /* its tensors are lost */
            gt__successors_pass(&session->successors, entry.worker, entry.number, false);
        else /* by a config of before: what the holder has, it has by its own number or another one's */
            gt__successors_forget(&session->successors, entry.number);
        if (session->journaled)
            gt__journaled_again(session);
        return false;
    }
    return true;
}

/* Place the session's tensors as its signals say now, if that is possible. */
static void reshard(gt_session *session)
{
    gt_moved moved;
    session->moving.wanted = gt__evacuation_obstacle(session) != NULL;
    if (session->moving.wanted)
        return;
    session->moving.resharded = false;
    if (gt__reshard(session, &moved) != GT_OK) {
        gt__peer_end(session->peer, gt_error_text());
        return;
    }
    session->dispatcher->resharded.tensors += moved.tensors;
    session->dispatcher->resharded.bytes += moved.bytes;
    if (moved.tensors)
        gt__peer_log(session->peer, GT_LOG_STATUS, "has %llu tensors that are placed in another way now",
                     (unsigned long long)moved.tensors);
}

/* True: there is more to do. */
static bool change_session(gt_session *session)
{
    if (!session->moving.resharded)
        return session->successors.count && !give_back(session);
    reshard(session);
    return true;
}

void gt__live_turn(gt_dispatcher *dispatcher)
{
    if (dispatcher->reload_waits)
        gt__reload_later(dispatcher);
    bool more = dispatcher->reload_waits;
    for (gt_peer *peer = dispatcher->peers, *next; peer; peer = next) {
        next = peer->next;
        if (peer->session)
            more |= change_session(peer->session);
    }
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        gt_dispatch_worker *worker = dispatcher->workers[index];
        if (worker->peer && worker->leaving.wanted && !worker->leaving.dismissed)
            drain(worker);
        more |= worker->peer && worker->leaving.wanted && !worker->leaving.dismissed;
    }
    dispatcher->changing = more;
    dispatcher->retry |= more; /* sessions that wait have input that is not taken: the loop must not spin for it */
}

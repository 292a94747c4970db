/* stand_in.c: see stand_in.h. Place in the flow: recover.c -> here -> the stream of the worker that is asked. */
#include "dispatcher/recover/stand_in.h"

#include <string.h>

#include "core/log.h"
#include "dispatcher/live/drain.h"
#include "dispatcher/recover/recover.h"
#include "dispatcher/state.h"
#include "dispatcher/worker_stream.h"
#include "link/hello.h"

enum {
    JOIN_MS = 10000, /* how long one may take to join: what its host's stream has before it comes first */
    LOOK_MS = 100,   /* between two looks whether those that are there are used */
};

/* ---- asking ------------------------------------------------------------------------------------------------- */

/* Stand-ins that a worker runs, or was asked to. */
static unsigned hosted_by(const gt_dispatcher *dispatcher, const gt_dispatch_worker *host)
{
    unsigned count = 0;
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        const gt_stand_in_state *state = &dispatcher->workers[index]->stand_in;
        count += (state->present || state->asked_by) && state->host == host->index;
    }
    return count;
}

/* One with the engine of the dead worker, if there is one, and with few stand-ins. NULL: there is none, or all have failed. */
static gt_dispatch_worker *choose_host(const gt_dispatcher *dispatcher, const gt_dispatch_worker *dead)
{
    gt_dispatch_worker *best = NULL;
    unsigned best_rank = 0;
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        gt_dispatch_worker *worker = dispatcher->workers[index];
        if (!worker->peer || worker->link->gone || worker->stand_in.present || worker->cannot_host ||
            worker->leaving.wanted)
            continue;
        unsigned other = strcmp(worker->engine, dead->engine) ? GT_MAX_PARTIES : 0;
        unsigned rank = other + hosted_by(dispatcher, worker);
        if (best && rank >= best_rank)
            continue;
        best = worker;
        best_rank = rank;
    }
    return best;
}

/* The worker that was asked for this stand-in, which has not come; NULL: none was, or it is gone. */
static gt_dispatch_worker *asked_host(const gt_dispatcher *dispatcher, const gt_stand_in_state *state)
{
    gt_dispatch_worker *host = state->asked_by ? dispatcher->workers[state->host] : NULL;
    return host && host->peer && host->life == state->host_life ? host : NULL;
}

bool gt__stand_in_ask(gt_dispatcher *dispatcher, int32_t index)
{
    gt_dispatch_worker *dead = dispatcher->workers[index];
    gt_stand_in_state *state = &dead->stand_in;
    gt_dispatch_worker *asked = asked_host(dispatcher, state);
    if (asked && gt__remaining_ms(state->asked_by) > 0)
        return true;
    if (asked)
        asked->cannot_host = true;
    state->asked_by = 0;
    gt_dispatch_worker *host = choose_host(dispatcher, dead);
    gt_slot *out = host ? gt__worker_reserve(host, 2) : NULL;
    if (!out) {
        for (int32_t k = 0; k < dispatcher->worker_count; k++)
            dispatcher->workers[k]->cannot_host = false; /* the next session may ask again */
        return false;
    }
    out->ins = (gt_instruction){.op = GT_OP_stand_in, .tail = 1};
    out->ins.imm[0].u = (uint64_t)index;
    memset(out + 1, 0, sizeof *out);
    memcpy(out + 1, dead->name, sizeof dead->name);
    gt__worker_put(host, 2);
    *state =
        (gt_stand_in_state){.host = host->index, .host_life = host->life, .asked_by = gt__deadline_ns(JOIN_MS)};
    gt__peer_log(host->peer, GT_LOG_STATUS, "stands in for worker %s, which %s", dead->name,
                 dead->relief ? "leaves" : "was not replaced");
    return true;
}

gt_dispatch_worker *gt__stand_in_for_leaving(gt_dispatch_worker *leaving, bool *coming)
{
    gt_dispatcher *dispatcher = leaving->peer->dispatcher;
    gt_dispatch_worker *relief = leaving->leaving.relief ? dispatcher->workers[leaving->leaving.relief - 1] : NULL;
    *coming = false;
    if (relief && relief->peer && relief->relief && !relief->leaving.wanted)
        return relief;
    if (!relief || relief->peer) { /* none was asked for, or another worker has taken its number */
        if (!(relief = gt__worker_vacant(dispatcher)))
            return NULL;
        relief->relief = dispatcher->reliefs = true;
        memcpy(relief->name, leaving->name, sizeof relief->name);
        memcpy(relief->engine, leaving->engine, sizeof relief->engine);
        leaving->leaving.relief = relief->index + 1;
    }
    *coming = gt__stand_in_ask(dispatcher, relief->index);
    return NULL;
}

void gt__stand_in_refused(gt_dispatch_worker *host, uint64_t index)
{
    const gt_dispatcher *dispatcher = host->peer->dispatcher;
    gt_stand_in_state *state =
        index < (uint64_t)dispatcher->worker_count ? &dispatcher->workers[index]->stand_in : NULL;
    if (!state || asked_host(dispatcher, state) != host)
        return;
    state->asked_by = gt__now_ns(); /* it is too late: the next look asks another worker */
    gt__log(GT_LOG_STATUS, "worker %s cannot stand in for %s", host->name, dispatcher->workers[index]->name);
}

unsigned gt__stand_ins_of(const gt_dispatch_worker *host)
{
    const gt_dispatcher *dispatcher = host->peer->dispatcher;
    unsigned count = 0;
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        const gt_stand_in_state *state = &dispatcher->workers[index]->stand_in;
        count += state->present && state->host == host->index && state->host_life == host->life;
    }
    return count;
}

/* ---- leaving ------------------------------------------------------------------------------------------------ */

static void dismiss(gt_dispatch_worker *worker)
{
    if (worker->relief) /* its tensors go elsewhere first */
        gt__drain_worker(worker);
    else if (!worker->stand_in.dismissed)
        worker->stand_in.dismissed = gt__worker_dismiss(worker);
}

/* The stand-in whose number or name a worker with this hello gets; NULL: there is none. workers.c has the order. */
static gt_dispatch_worker *in_the_way(const gt_dispatcher *dispatcher, const gt_slot *hello)
{
    int64_t wanted = (int64_t)(hello->ins.operand[0] & ~GT_HELLO_BITS) - 1;
    gt_dispatch_worker *any = NULL;
    bool has_room = wanted >= 0;
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        gt_dispatch_worker *worker = dispatcher->workers[index];
        bool same = !strncmp(worker->name, (const char *)hello[1].bytes, sizeof worker->name - 1);
        if ((same || index == wanted) && worker->stand_in.present)
            return worker;
        has_room |= !worker->peer || same;
        any = worker->stand_in.present && !worker->relief && !any ? worker : any;
    }
    return has_room ? NULL : any;
}

bool gt__stand_in_makes_room(gt_dispatcher *dispatcher, const gt_slot *hello)
{
    gt_dispatch_worker *worker = hello->ins.operand[0] & GT_HELLO_STAND_IN ? NULL : in_the_way(dispatcher, hello);
    if (worker)
        dismiss(worker);
    return worker;
}

static bool is_used(const gt_dispatcher *dispatcher, int32_t index)
{
    if (dispatcher->workers[index]->leaving.unconfirmed)
        return true;
    for (int32_t k = 0; k < dispatcher->worker_count; k++)
        if (dispatcher->workers[k]->leaving.wanted && dispatcher->workers[k]->leaving.relief == index + 1)
            return true; /* it will be */
    for (const gt_peer *peer = dispatcher->peers; peer; peer = peer->next)
        if (peer->session && gt__recover_uses(peer->session, index))
            return true;
    return false;
}

/* Whether one is used takes a look at every session, so it is asked now and then only. */
void gt__stand_ins_look(gt_dispatcher *dispatcher)
{
    if (gt__remaining_ms(dispatcher->recovery.stand_ins_look_ns) > 0)
        return;
    dispatcher->recovery.stand_ins_look_ns = gt__deadline_ns(LOOK_MS);
    for (int32_t index = 0; index < dispatcher->worker_count; index++)
        if (dispatcher->workers[index]->stand_in.present && !is_used(dispatcher, index))
            /* At once: with a goodbye in its stream only, tensors could be placed behind it. */
            gt__peer_end(dispatcher->workers[index]->peer, "no program needs this stand-in");
}

/*
 * session.c: one client: takes its records off the link, checks them, and sends them down the chain.
 *
 * A record is copied out of the link before it is checked: in shared memory the client could change it afterwards.
 * What is wrong with it ends this session with a reason, and nobody else's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatcher/dispatcher.h"
#include "core/log.h"
#include "dispatcher/spread/spread.h"

enum {
    MAX_OVERFLOW = (64 << 20) / (int)sizeof(gt_slot), /* slots of unread answers a client may leave with us */
    MAX_REASONS = 1024,                               /* why tensors are lost, of one client */
    MAX_RELAYS = 1024, /* segments of one client: its worker's link has a number of them for all */
    PREFETCH = 8,      /* records: they come from another core's cache, so ask for them ahead */
};

/* ---- answers ----------------------------------------------------------------------------------------------- */

static bool flush_overflow(gt_session *session)
{
    const gt_slot *record;
    bool progress = false;
    while ((record = gt__slot_queue_first(&session->overflow))) {
        unsigned length = 1u + record->ins.tail;
        gt_slot *out = gt__link_reserve(session->link, length);
        if (!out)
            break;
        memcpy(out, record, length * sizeof *out);
        gt__link_commit(session->link, length);
        gt__slot_queue_pop(&session->overflow);
        progress = true;
    }
    return progress;
}

void gt__session_answer(gt_session *session, const gt_slot *record)
{
    unsigned length = 1u + record->ins.tail;
    gt_slot *out = gt__slot_queue_empty(&session->overflow) ? gt__link_reserve(session->link, length) : NULL;
    if (out) {
        memcpy(out, record, length * sizeof *out);
        gt__link_commit(session->link, length);
    } else if (!session->link->dead && !gt__slot_queue_append(&session->overflow, record))
        gt__link_kill(session->link, "the client does not read its answers");
    session->peer->active = true;
}

void gt__session_answer_failure(gt_session *session, uint64_t ticket, gt_err err, const char *text)
{
    gt__observe_refused(session, ticket, text);
    gt_slot record[1 + 32] = {0};
    size_t bytes = strlen(text), most = sizeof record - sizeof record[0];
    bytes = bytes < most ? bytes : most;
    record->ins.op = GT_OP_failure;
    record->ins.tail = (uint16_t)gt__slots_for(bytes);
    record->ins.result = ticket;
    record->ins.imm[0].i = err;
    record->ins.imm[1].u = bytes;
    memcpy(record + 1, text, bytes);
    gt__session_answer(session, record);
}

static void answer_text(gt_session *session, uint64_t ticket, const char *text)
{
    size_t bytes = strlen(text), offset = 0;
    do {
        gt_slot record[1 + GT_MAX_TAIL];
        size_t piece = bytes - offset < GT_MAX_CHUNK ? bytes - offset : GT_MAX_CHUNK;
        record->ins =
            (gt_instruction){.op = GT_OP_reply, .tail = (uint16_t)gt__slots_for(piece), .result = ticket};
        record->ins.flags = offset + piece == bytes ? GT_FLAG_LAST : 0;
        record->ins.imm[0].u = offset;
        record->ins.imm[1].u = piece;
        if (piece)
            memcpy(record + 1, text + offset, piece);
        gt__slots_pad(record + 1, piece);
        gt__session_answer(session, record);
        offset += piece;
    } while (offset < bytes);
}

void gt__session_answer_stats(gt_session *session, uint64_t ticket)
{
    char *json = gt__dispatcher_stats(session->dispatcher);
    answer_text(session, ticket, json ? json : "");
    if (session->dispatcher->watching)
        gt__observe_answered(session, GT_OP_stats, 0, json ? strlen(json) : 0, false);
    free(json);
}

gt_err gt__session_unknown(const gt_instruction *ins, uint64_t id)
{
    return gt__fail(GT_ERR_PROTOCOL, "%s names tensor %llu, which does not exist", gt__op_table[ins->op].name,
                    (unsigned long long)id);
}

gt_err gt__session_expect(gt_session *session, const gt_slot *record)
{
    gt_pending pending = {.session = session, .ticket = record->ins.result, .op = (gt_opcode)record->ins.op};
    pending.tensor = record->ins.operand[0];
    return gt__worker_expect(session->home, &pending);
}

static gt_err answer_placement(gt_session *session, const gt_instruction *ins)
{
    const gt_handle *handle = gt__handles_find(&session->handles, ins->operand[0]);
    char text[4096];
    if (!handle)
        return gt__session_unknown(ins, ins->operand[0]);
    answer_text(session, ins->result, gt__spread_text(session, handle, text, sizeof text));
    return GT_OK;
}

/* ---- segments ---------------------------------------------------------------------------------------------- */

static gt_relay *relay_find(const gt_session *session, uint64_t client_id)
{
    for (gt_relay *relay = session->relays; relay; relay = relay->next)
        if (relay->client_id == client_id)
            return relay;
    return NULL;
}

bool gt__session_name_segment(const gt_session *session, uint64_t *segment)
{
    const gt_relay *relay = relay_find(session, *segment); /* made when the record came: handle_rare */
    *segment = relay->id;
    return relay->shared_with == session->home;
}

static gt_segment *clients_segment(gt_session *session, uint64_t client_id)
{
    return session->link->ops->segment ? session->link->ops->segment(session->link, client_id) : NULL;
}

void gt__session_unused(gt_session *session, uint64_t client_id)
{
    gt_segment *segment = clients_segment(session, client_id);
    if (segment)
        gt__segment_done(segment);
}

static gt_err relay_new(gt_session *session, uint64_t client_id, gt_relay **out)
{
    if (!clients_segment(session, client_id))
        return gt__fail(GT_ERR_PROTOCOL, "segment %llu was never shared", (unsigned long long)client_id);
    unsigned count = 0;
    for (const gt_relay *other = session->relays; other; other = other->next)
        count++;
    if (count >= MAX_RELAYS)
        return gt__fail(GT_ERR_PROTOCOL, "more than %d segments at a time", MAX_RELAYS);
    gt_relay *relay = calloc(1, sizeof *relay);
    if (!relay)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    relay->client_id = client_id;
    relay->id = session->dispatcher->next_segment++;
    relay->next = session->relays;
    session->relays = relay;
    *out = relay;
    return GT_OK;
}

/* Make the segment a record names known to the session's worker. *later: not now, the worker must catch up first. */
static gt_err share_segment(gt_session *session, uint64_t client_id, bool *later)
{
    gt_dispatch_worker *worker = session->home;
    gt_relay *relay = relay_find(session, client_id);
    if (!relay)
        GT_TRY(relay_new(session, client_id, &relay));
    if (!worker || relay->shared_with == worker)
        return GT_OK;
    const gt_segment *segment = clients_segment(session, client_id);
    if (!segment)
        return gt__fail(GT_ERR_PROTOCOL, "segment %llu is gone", (unsigned long long)client_id);
    if (!worker->link->ops->share)
        return GT_OK; /* the client has not heard yet that the worker it had was replaced; see place.c */
    gt_segment renamed = *segment;
    renamed.id = relay->id;
    gt_err err = worker->link->ops->share(worker->link, &renamed);
    /* A worker that is gone will leave in a moment; that ends no session. */
    *later = err == GT_ERR_TIMEOUT || err == GT_ERR_CONNECTION || (err != GT_OK && worker->link->gone);
    if (err == GT_OK) {
        relay->shared_with = worker;
        relay->orphaned = false;
    }
    return *later ? GT_OK : err;
}

/* What a worker that is gone had of the client's, the client may use again: but not before all that it had sent until
 * then was read, for an upload for the next worker may be among it. */
static void release_orphans(gt_session *session)
{
    session->orphans = false;
    for (gt_relay *relay = session->relays; relay; relay = relay->next)
        if (relay->orphaned) {
            relay->orphaned = false;
            gt__session_unused(session, relay->client_id);
        }
}

static void relay_free(gt_relay *relay)
{
    gt_dispatch_worker *worker = relay->shared_with;
    if (worker && worker->peer) {
        gt_instruction forget = {.op = GT_OP_forget};
        forget.imm[0].u = relay->id;
        gt__worker_tell(worker, &forget);
        worker->link->ops->forget(worker->link, relay->id);
    }
    free(relay);
}

static void forget_segment(gt_session *session, uint64_t client_id)
{
    for (gt_relay **where = &session->relays; *where; where = &(*where)->next)
        if ((*where)->client_id == client_id) {
            gt_relay *relay = *where;
            *where = relay->next;
            relay_free(relay);
            break;
        }
    if (session->link->ops->forget)
        session->link->ops->forget(session->link, client_id);
}

/* ---- records ----------------------------------------------------------------------------------------------- */

static uint64_t segment_named(const gt_instruction *ins)
{
    return ins->op == GT_OP_upload ? ins->imm[1].u : ins->op == GT_OP_fetch ? ins->imm[0].u : 0;
}

bool gt__session_has_room(gt_session *session)
{
    gt_dispatch_worker *home = session->home;
    if (__builtin_expect(session->spreading != NULL, 0) && !gt__spread_has_room(session))
        return false;
    return !home ||
           gt__worker_room(home, session->next_length); /* a dead link has none until its worker has left */
}

/* Served again when its worker has room, for which that worker's link must be armed before we sleep. */
static void block(gt_session *session)
{
    session->peer->blocked = true;
    if (session->home)
        session->home->peer->active = true;
}

static bool has_room_for(gt_session *session, unsigned slots)
{
    session->next_length = slots;
    if (gt__session_has_room(session))
        return true;
    block(session);
    return false;
}

/* Records that the dispatcher answers by itself: a worker that is busy does not hold them up. */
static bool needs_worker(const gt_instruction *ins)
{
    return ins->op != GT_OP_stats && ins->op != GT_OP_forget && ins->op != GT_OP_goodbye &&
           ins->op != GT_OP_site && ins->op != GT_OP_placement;
}

/* The client names a place in its code: numbers come in order. */
static gt_err learn_site(gt_session *session, const gt_slot *record)
{
    if (record->ins.imm[0].u != session->site_count + 1 || session->site_count == GT_MAX_SITES)
        return gt__fail(GT_ERR_PROTOCOL, "site %llu is not the next one",
                        (unsigned long long)record->ins.imm[0].u);
    if (!(session->site_count & (session->site_count + 1))) { /* full: 0, 1, 3, 7, ... */
        char **sites = realloc(session->sites, 2 * (size_t)(session->site_count + 1) * sizeof *sites);
        if (!sites)
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        session->sites = sites;
    }
    char place[GT_SITE_TAIL * sizeof(gt_slot) + 1] = "", name[sizeof place];
    memcpy(place, record + 1, sizeof place - 1);
    gt__log_place_make(place, name, sizeof name);
    char *kept = strdup(name);
    if (!kept)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    session->sites[session->site_count++] = kept;
    return GT_OK;
}

const char *gt__session_site(const gt_session *session, uint32_t site)
{
    return site && site <= session->site_count ? session->sites[site - 1] : NULL;
}

/* A record with a tail, or one that does not compute. *later: it must wait for the worker to catch up. */
static gt_err handle_rare(gt_session *session, const gt_slot *record, bool *later)
{
    uint64_t segment = segment_named(&record->ins);
    if (segment)
        GT_TRY(share_segment(session, segment, later));
    else if (record->ins.op == GT_OP_fetch)
        *later = !has_room_for(session, GT_DOWNLOAD_ROOM);
    if (*later)
        return GT_OK;
    if (session->dispatcher->observing)
        gt__observe_received(session, record);
    switch ((gt_opcode)record->ins.op) {
    case GT_OP_fetch:
    case GT_OP_sync:
        GT_TRY(gt__chain_flush(session->chain));
        break;
    case GT_OP_stats:
        GT_TRY(gt__chain_flush(session->chain));
        if (record->ins.flags & GT_FLAG_WORKERS)
            return gt__reports_inquire(session, record->ins.result);
        gt__session_answer_stats(session, record->ins.result);
        return GT_OK;
    case GT_OP_site:
        return learn_site(session, record);
    case GT_OP_forget:
        forget_segment(session, record->ins.imm[0].u);
        return GT_OK;
    case GT_OP_goodbye:
        return gt__fail(GT_ERR_CONNECTION, "the client said goodbye");
    case GT_OP_scope:
        return gt__spread_scope(session, record);
    case GT_OP_config:
        return gt__spread_config(session, record);
    case GT_OP_placement:
        return answer_placement(session, &record->ins);
    case GT_OP_mark:
        return GT_OK; /* it has been seen: logs show what comes */
    case GT_OP_free:
    case GT_OP_data:
        break;
    default:
        if (gt__op_table[record->ins.op].form == GT_FORM_CONTROL)
            return gt__fail(GT_ERR_PROTOCOL, "a client may not send %s", gt__op_table[record->ins.op].name);
    }
    return session->chain->ops->step(session->chain, record);
}

/* One record at `slots`, whatever it is. *done: its slots, 0: it must wait for the worker to catch up. */
static gt_err serve_record(gt_session *session, const gt_slot *slots, size_t available, unsigned *done)
{
    gt_slot *record = session->dispatcher->record;
    unsigned length;
    *done = 0;
    record[0] = slots[0];
    GT_TRY(gt__instruction_check(record, available, &length));
    if (needs_worker(&record->ins) && !has_room_for(session, length))
        return GT_OK;
    memcpy(record + 1, slots + 1, (length - 1) * sizeof *record);
    bool later = false;
    if (length == 1 && record->ins.op < GT_OP_FIRST_CONTROL) {
        if (session->dispatcher->observing)
            gt__observe_received(session, record);
        GT_TRY(session->chain->ops->step(session->chain, record));
    } else
        GT_TRY(handle_rare(session, record, &later));
    if (later)
        session->dispatcher->retry |= !session->peer->blocked;
    else
        *done = length;
    return GT_OK;
}

/* The bulk of every stream: ops of one slot and frees, as many in a row as there is room for. *done: how many. */
static gt_err serve_run(gt_session *session, const gt_slot *slots, size_t count, unsigned *done)
{
    gt_modifier *chain = session->chain;
    bool observing = session->dispatcher->observing;
    gt_slot record;
    unsigned length;
    for (*done = 0; *done < count; ++*done) {
        __builtin_prefetch(slots + *done + PREFETCH);
        record = slots[*done]; /* a copy: the client can still write to its own */
        if ((record.ins.op >= GT_OP_FIRST_CONTROL && record.ins.op != GT_OP_free) || record.ins.tail)
            break;
        GT_TRY(gt__instruction_check(&record, 1, &length));
        if (__builtin_expect(observing, 0))
            gt__observe_received(session, &record);
        GT_TRY(chain->ops->step(chain, &record));
    }
    return GT_OK;
}

gt_err gt__session_serve(gt_session *session, size_t budget, bool *progress)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    size_t available, left = budget;
    const gt_slot *slots = NULL;
    if (!gt__slot_queue_empty(&session->overflow) && flush_overflow(session)) {
        *progress = true;
        gt__download_continue(session);
    }
    while (left && (slots = gt__link_peek(session->link, &available))) {
        gt_link *worker = session->home ? session->home->link : NULL;
        if (worker)
            worker->passes_on = session->link->origin;
        unsigned flush_at = dispatcher->worker_batch ? dispatcher->worker_batch : worker ? worker->batch : 0;
        size_t run = available < left ? available : left;
        unsigned done = 0;
        if (worker) {
            size_t room = (size_t)(worker->write_end - worker->write_next);
            run = run < room ? run : room;
            run = run < flush_at ? run : flush_at;
        }
        /* What may become several records, or has to wait behind some, is looked at one by one. */
        bool plain = !session->spreading && !(session->home && !gt__slot_queue_empty(&session->home->outbox));
        if (plain)
            GT_TRY(serve_run(session, slots, run, &done));
        session->instructions += done;
        if (!done) {
            GT_TRY(serve_record(session, slots, available, &done));
            if (!done)
                break;
            session->instructions++;
        }
        gt__link_consume(session->link, done);
        left -= done < left ? done : left;
        if (worker && worker->unflushed >= flush_at)
            gt__link_flush(worker);
    }
    if (dispatcher->observing)
        gt__observe_handled(dispatcher);
    if (__builtin_expect(session->orphans, 0) && !slots)
        release_orphans(session);
    *progress |= left < budget;
    if (__builtin_expect(session->spreading != NULL, 0))
        gt__spread_turn_over(session);
    return session->link->dead ? gt__fail(GT_ERR_CONNECTION, "%s", session->link->reason) : GT_OK;
}

/* ---- life -------------------------------------------------------------------------------------------------- */

static void send_welcome(gt_session *session)
{
    gt_slot record = {0};
    record.ins.op = GT_OP_welcome;
    record.ins.result = session->number;
    record.ins.imm[0].i = GT_PROTOCOL_VERSION;
    record.ins.imm[1].i = gt__worker_present_count(session->dispatcher);
    record.ins.operand[0] = (uint64_t)session->dispatcher->worker_count;
    if (session->home && session->home->link->ops->share && session->link->ops->segment)
        record.ins.flags = GT_FLAG_SEGMENTS;
    gt__session_answer(session, &record);
}

void gt__session_find_home(gt_session *session)
{
    session->home = gt__worker_choose(session->dispatcher);
    if (session->home)
        session->home->sessions++;
    send_welcome(session);
}

void gt__session_new_worker(gt_session *session)
{
    if (session->spreading)
        session->spreading->target_valid = false;
    if (session->home && session->instructions) {
        send_welcome(session);
        return;
    }
    if (session->home) /* it has nothing there yet: choose again */
        session->home->sessions--;
    gt__session_find_home(session);
}

uint32_t gt__session_reason(gt_session *session, const char *text)
{
    for (uint32_t k = 0; k < session->reason_count; k++)
        if (strcmp(session->reasons[k], text) == 0)
            return k + 1;
    if (session->reason_count == MAX_REASONS - 1)
        text = "too many tensors are lost, for too many reasons, to keep each of them";
    else if (session->reason_count == MAX_REASONS)
        return MAX_REASONS;
    char **reasons = realloc(session->reasons, (session->reason_count + 1) * sizeof(*reasons));
    if (reasons)
        session->reasons = reasons;
    if (!reasons || !(reasons[session->reason_count] = strdup(text)))
        return 0;
    return ++session->reason_count;
}

const char *gt__session_lost(const gt_session *session, const gt_handle *handle)
{
    return handle->slot && handle->slot <= session->reason_count ? session->reasons[handle->slot - 1]
                                                                 : session->lost;
}

void gt__session_lose_worker(gt_session *session, gt_dispatch_worker *worker, const char *reason)
{
    uint32_t cursor = 0, number = 0;
    gt_handle *handle;
    while ((handle = gt__handles_next(&session->handles, &cursor))) {
        bool lost = handle->worker == worker->index ||
                    (handle->worker == GT_SPREAD && gt__spread_lose(session, handle, worker->index));
        if (!lost)
            continue;
        if (!number)
            number = gt__session_reason(session, reason);
        handle->worker = GT_NO_WORKER;
        handle->slot = number;
    }
    if (session->spreading)
        session->spreading->target_valid = false;
    for (gt_relay *relay = session->relays; relay; relay = relay->next)
        if (relay->shared_with == worker) {
            relay->shared_with = NULL;
            relay->orphaned = session->orphans = true;
        }
    if (session->home != worker) {
        send_welcome(session); /* there is one less */
        return;
    }
    snprintf(session->lost, sizeof session->lost, "%s", reason);
    session->home = NULL;
    gt__download_drop_all(session, reason);
    gt__session_find_home(session);
}

gt_err gt__session_new(gt_peer *peer, const gt_slot *hello)
{
    gt_session *session = calloc(1, sizeof *session);
    if (!session)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    session->dispatcher = peer->dispatcher;
    session->peer = peer;
    session->link = peer->link;
    session->number = peer->dispatcher->next_session++;
    session->overflow.most = MAX_OVERFLOW;
    snprintf(session->name, sizeof session->name, "%.63s", (const char *)hello[1].bytes);
    snprintf(session->lost, sizeof session->lost, "no worker is there");
    gt_err err = gt__handles_init(&session->handles);
    session->handles.salt = peer->dispatcher->worker_key; /* which clients do not know */
    if (err == GT_OK)
        err = gt__chain_open(peer->dispatcher->modifiers, session, &session->chain);
    if (err != GT_OK) {
        gt__handles_free(&session->handles);
        free(session);
        return err;
    }
    peer->session = session;
    gt__log(GT_LOG_STATUS, "client %llu (%s) connected by %s", (unsigned long long)session->number,
            peer->link->peer, gt__link_name(peer->link));
    gt__observe_client(session, NULL);
    gt__session_find_home(session);
    return GT_OK;
}

/* Free every tensor of the session on its worker. */
static void free_tensors(gt_session *session)
{
    gt_dispatch_worker *worker = session->home;
    uint32_t cursor = 0;
    const gt_handle *handle;
    while (worker && (handle = gt__handles_next(&session->handles, &cursor)))
        if (handle->worker == worker->index)
            gt__worker_free_tensor(worker, handle->slot);
    if (worker)
        gt__worker_flush_frees(worker);
}

void gt__session_free(gt_session *session, const char *reason)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    gt__log(GT_LOG_STATUS, "client %llu left: %s", (unsigned long long)session->number, reason);
    gt__observe_client(session, reason);
    gt__chain_close(&session->chain);
    gt__download_drop_all(session, NULL);
    gt__spreading_free(session);
    free_tensors(session);
    if (session->home)
        session->home->sessions--;
    dispatcher->past_instructions += session->instructions;
    for (int32_t index = 0; index < dispatcher->worker_count; index++)
        gt__worker_forget_session(dispatcher->workers[index], session);
    while (session->relays) {
        gt_relay *next = session->relays->next;
        relay_free(session->relays);
        session->relays = next;
    }
    session->peer->session = NULL;
    for (uint32_t k = 0; k < session->site_count; k++)
        free(session->sites[k]);
    free(session->sites);
    gt__handles_free(&session->handles);
    for (uint32_t k = 0; k < session->reason_count; k++)
        free(session->reasons[k]);
    free(session->reasons);
    gt__slot_queue_free(&session->overflow);
    free(session);
}

/*
 * session.c: one client: takes its records off the link, checks them, and sends them down the chain.
 *
 * A record is copied out of the link before it is checked: in shared memory the client could change it afterwards.
 * A malformed record ends this session with a reason, and no other session.
 */
#include "dispatcher/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "dispatcher/answers.h"
#include "dispatcher/download.h"
#include "dispatcher/journal/journaled.h"
#include "dispatcher/live/evacuate.h"
#include "dispatcher/live/handover.h"
#include "dispatcher/observe/synced.h"
#include "dispatcher/recover/recover.h"
#include "dispatcher/remains.h"
#include "dispatcher/spread/spread.h"
#include "dispatcher/state.h"
#include "dispatcher/worker_stream.h"

enum {
    MAX_REASONS = 1024, /* texts kept of why tensors of one client are lost */
    MAX_REASON = 1024,  /* bytes of one */
    REFUSED_SLOTS = 8,  /* of a record that is copied without an allocation */
    LEAN_FROM = 32, /* sessions: the links of others are lean, since full rings of 1000 clients would take 1 GiB */
    PREFETCH = 8,   /* records: they come from another core's cache, so ask for them ahead */
};

gt_err gt__session_unknown(const gt_instruction *ins, uint64_t id)
{
    return gt__fail(GT_ERR_PROTOCOL, "%s names tensor %llu, which does not exist", gt__op_table[ins->op].name,
                    (unsigned long long)id);
}

gt_err gt__session_expect(gt_session *session, const gt_slot *record, gt_instruction *question)
{
    gt_pending pending = {.session = session, .ticket = record->ins.result, .op = (gt_opcode)record->ins.op};
    pending.tensor = record->ins.operand[0];
    return gt__pendings_add(&session->home->pendings, &pending, question);
}

/* ---- records ----------------------------------------------------------------------------------------------- */

/* The client names a place in its code: numbers come in order. */
static gt_err learn_site(gt_session *session, const gt_slot *record)
{
    if (record->ins.imm[0].u != session->sites.count + 1 || session->sites.count == GT_MAX_SITES)
        return gt__fail(GT_ERR_PROTOCOL, "site %llu is not the next one",
                        (unsigned long long)record->ins.imm[0].u);
    char place[GT_SITE_TAIL * sizeof(gt_slot) + 1] = "", name[sizeof place];
    memcpy(place, record + 1, sizeof place - 1);
    gt__log_place_make(place, name, sizeof name);
    return gt__texts_add(&session->sites, name) ? GT_OK : gt__fail(GT_ERR_MEMORY, "out of memory");
}

const char *gt__session_site(const gt_session *session, uint32_t site)
{
    return gt__texts_get(&session->sites, site);
}

/* A record that does not compute. The modifiers are flushed before questions and before records that must keep their
 * place in the order. */
static gt_err handle_control(gt_session *session, const gt_slot *record)
{
    switch ((gt_opcode)record->ins.op) {
    case GT_OP_fetch:
    case GT_OP_sync:
        GT_TRY(gt__chain_flush(session->chain, GT_FLUSH_SYNC));
        break;
    case GT_OP_free:
    case GT_OP_data:
        break;
    case GT_OP_path: /* only records that come later name it */
        return gt__paths_define(session, record);
    case GT_OP_repeat:
        return gt__paths_run(session, record);
    case GT_OP_stats: /* not for the modifiers, but in order */
        GT_TRY(gt__chain_flush(session->chain, GT_FLUSH_SYNC));
        return gt__output_put(session, record);
    case GT_OP_placement:
    case GT_OP_config:
    case GT_OP_forget:
        GT_TRY(gt__chain_flush(session->chain, GT_FLUSH_ORDER));
        return gt__output_put(session, record);
    case GT_OP_scope: /* only records that come later name it */
        return gt__spread_scope(session, record);
    case GT_OP_site:
        return learn_site(session, record);
    case GT_OP_detach:
        return gt__handover_piece(session, record);
    case GT_OP_attach:
        return gt__handover_collect(session, record);
    case GT_OP_share:
        return gt__share_weigh(session, record->ins.imm[0].f);
    case GT_OP_mark:
    case GT_OP_name:
        return GT_OK; /* only for the log or the tape, which has it */
    case GT_OP_goodbye:
        return gt__fail(GT_ERR_CONNECTION, "the client said goodbye");
    default:
        return gt__fail(GT_ERR_PROTOCOL, "a client may not send %s", gt__op_table[record->ins.op].name);
    }
    return session->chain->ops->step(session->chain, record);
}

/* One record at `slots`, of any kind: *op. The client may write to it meanwhile, so it is read once. */
static gt_err serve_record(gt_session *session, const gt_slot *slots, size_t available, unsigned *length,
                           gt_opcode *op)
{
    gt_slot head, *record = session->dispatcher->record;
    memcpy(&head, slots, sizeof head);
    *op = (gt_opcode)head.ins.op;
    GT_TRY(gt__instruction_check(&head, available, length));
    gt_slot *journal = session->recovery ? gt__recover_reserve(session, &head.ins) : NULL;
    record = journal ? journal : record;
    record[0] = head;
    memcpy(record + 1, slots + 1, (*length - 1) * sizeof *record);
    if (session->recovery) /* before the worker has it: it may be done with a segment at any time after that */
        gt__recover_note(session, record);
    if (session->dispatcher->observing)
        gt__observe_received(session, record);
    return record->ins.op < GT_OP_FIRST_CONTROL ? session->chain->ops->step(session->chain, record)
                                                : handle_control(session, record);
}

/* The bulk of every stream: ops of one slot and frees, as many in a row as there is room for. *done: how many. */
static gt_err serve_run(gt_session *session, const gt_slot *slots, size_t count, unsigned *done)
{
    gt_modifier *chain = session->chain;
    bool observing = session->dispatcher->observing;
    gt_slot copy, *journal = session->recovery && count ? gt__recover_window(session, &count) : NULL;
    gt_slot *record = journal ? journal : &copy;
    size_t stride = journal ? 1 : 0;
    unsigned length;
    gt_err err = GT_OK;
    for (*done = 0; *done < count && !gt__output_waits(&session->output); ++*done, record += stride) {
        __builtin_prefetch(slots + *done + PREFETCH);
        __builtin_prefetch(record + PREFETCH * stride, 1);
        /* A copy, as the client can still write to its own: the journal's, or one for the moment. The first word goes through
         * a register: the checks that follow would wait for a copy in memory. */
        uint64_t head = *(const volatile uint64_t *)slots[*done].u64;
        *record = slots[*done];
        record->u64[0] = head;
        if ((record->ins.op >= GT_OP_FIRST_CONTROL && record->ins.op != GT_OP_free) || record->ins.tail)
            break;
        err = gt__instruction_check(record, 1, &length);
        if (__builtin_expect(observing && err == GT_OK, 0))
            gt__observe_received(session, record);
        if (err == GT_OK)
            err = chain->ops->step(chain, record);
        if (__builtin_expect(err != GT_OK, 0))
            break;
    }
    if (journal)
        gt__recover_noted(session, *done);
    return err;
}

/* Records of the client, in the order they came, `left` slots of them at most, until one has to wait. */
static gt_err serve_input(gt_session *session, size_t *left, bool *idle)
{
    size_t available;
    while (*left && !gt__output_waits(&session->output) && !gt__evacuation_awaited(session) &&
           !gt__recover_keeps(session) && !gt__handover_begun(session)) {
        const gt_slot *slots = gt__link_peek(session->link, &available);
        *idle = !slots;
        if (!slots)
            break;
        gt_dispatch_worker *worker = session->home;
        size_t run = available < *left ? available : *left;
        unsigned done = 0;
        size_t before = session->instructions;
        bool statistics = false;
        if (gt__share_has_queued(session)) {
            session->peer->blocked = true;
            break;
        }
        if (worker) {
            size_t most = gt__worker_batch_room(worker);
            uint64_t left_queued = session->account.most_queued - session->account.queued;
            run = run < most ? run : most;
            run = run < left_queued ? run : (size_t)left_queued;
            worker->link->passes_on = session->link->origin;
        }
        GT_TRY(serve_run(session, slots, run, &done));
        session->instructions += done;
        session->link->records_received += done ? done : 1;
        if (!done) {
            gt_opcode op;
            GT_TRY(serve_record(session, slots, available, &done, &op));
            statistics = op == GT_OP_stats;
            session->instructions++;
            if (statistics) /* it is long: once a turn, so that others are served between two of them */
                *left = done;
        }
        session->settled = false;
        session->dispatcher->unpolled += done;
        gt__link_consume(session->link, done);
        *left -= done < *left ? done : *left;
        if (worker && !statistics) /* which takes no time of the worker */
            gt__share_records(session, worker, session->instructions - before);
        if (worker)
            gt__worker_flush_batch(worker);
        gt__recover_consider(session);
    }
    return GT_OK;
}

static gt_err serve(gt_session *session, size_t budget, bool *progress)
{
    size_t left = budget;
    bool idle = false;
    if (__builtin_expect(session->ended, 0))
        return gt__fail(GT_ERR_CONNECTION, "%s", session->lost);
    if (!gt__slot_queue_empty(&session->unread) && gt__answers_flush(session)) {
        *progress = true;
        gt__download_continue(session);
    }
    if (__builtin_expect(gt__recover_active(session), 0))
        GT_TRY(gt__recover_serve(session, &left));
    else {
        if (__builtin_expect(gt__output_waits(&session->output), 0) && !gt__evacuation_awaited(session)) {
            GT_TRY(gt__output_drain(session, &left));
            gt__recover_consider(session);
        }
        if (__builtin_expect(gt__recover_keeps(session) && !gt__output_waits(&session->output), 0))
            GT_TRY(gt__recover_keep(session, &left));
        GT_TRY(serve_input(session, &left, &idle));
    }
    if (idle && !session->settled) {
        session->settled = true;
        GT_TRY(gt__chain_flush(session->chain, GT_FLUSH_IDLE));
    }
    if (session->dispatcher->observing)
        gt__observe_handled(session->dispatcher);
    if (__builtin_expect(session->relays.orphans, 0) && idle && !gt__output_waits(&session->output))
        gt__relays_release_orphans(session);
    *progress |= left < budget;
    if (__builtin_expect(session->spreading != NULL, 0))
        gt__spread_turn_over(session);
    if (__builtin_expect(session->ended, 0)) /* in this turn */
        return gt__fail(GT_ERR_CONNECTION, "%s", session->lost);
    return session->link->dead ? gt__fail(GT_ERR_CONNECTION, "%s", session->link->reason) : GT_OK;
}

gt_err gt__session_serve(gt_session *session, size_t budget, bool *progress)
{
    gt__runs_begin(session);
    gt_err err = serve(session, budget, progress);
    if (err == GT_OK && __builtin_expect(session->handover != NULL, 0))
        err = gt__handover_turn(session, progress);
    if (err == GT_OK && __builtin_expect(session->journaled != NULL, 0))
        gt__journaled_turn(session);
    gt__runs_end(session);
    return err;
}

/* The reason goes with the record to placement, in the place of the line, which it names. */
gt_err gt__modifier_refuse(gt_modifier *modifier, const gt_slot *record, const char *why)
{
    gt_session *session = modifier->session;
    unsigned length = 1u + record->ins.tail;
    gt_slot few[REFUSED_SLOTS], *copy = length <= REFUSED_SLOTS ? few : malloc(length * sizeof *copy);
    const char *site = gt__session_site(session, record->ins.site);
    char text[MAX_REASON];
    if (!copy)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    snprintf(text, sizeof text, site ? "%s: %s, issued at %s" : "%s: %s", gt__op_table[record->ins.op].name, why,
             site);
    memcpy(copy, record, length * sizeof *copy);
    copy->ins.flags |= GT_FLAG_REFUSED;
    copy->ins.site = gt__session_reason(session, text);
    gt_err err = gt__modifier_emit(modifier, copy);
    if (copy != few)
        free(copy);
    return err;
}

/* ---- life -------------------------------------------------------------------------------------------------- */

void gt__session_welcome(gt_session *session)
{
    gt_slot record = {0};
    if (session->unannounced)
        return;
    record.ins.op = GT_OP_welcome;
    record.ins.result = session->number;
    record.ins.imm[0].i = GT_PROTOCOL_VERSION;
    record.ins.imm[1].i = gt__worker_present_count(session->dispatcher);
    record.ins.operand[0] = (uint64_t)session->dispatcher->worker_count;
    if (session->home && session->home->link->ops->share && session->link->ops->segment)
        record.ins.flags = GT_FLAG_SEGMENTS;
    gt__answer_send(session, &record);
}

void gt__session_announce(gt_session *session)
{
    if (!session->unannounced)
        return;
    session->unannounced = false;
    gt__session_welcome(session);
    gt__peer_wake(session->peer);
}

void gt__session_give_home(gt_session *session, gt_dispatch_worker *worker)
{
    bool moved = worker && session->home != worker;
    if (moved)
        worker->sessions++;
    session->home = worker;
    if (moved)
        gt__share_move(session);
    gt__session_welcome(session);
}

/* Give a session without a worker one, if there is one, and tell the client. */
static void find_home(gt_session *session)
{
    gt_dispatch_worker *worker = gt__worker_choose(session->dispatcher);
    if (!worker && !session->home && gt__worker_present_count(session->dispatcher))
        snprintf(session->lost, sizeof session->lost,
                 "no worker takes new clients: all of them are being drained");
    gt__session_give_home(session, worker);
}

void gt__session_new_worker(gt_session *session)
{
    if (session->spreading)
        session->spreading->target_valid = false;
    if (gt__recover_active(session) && !session->home)
        return; /* when all its workers are there */
    if (session->home && session->instructions) {
        gt__session_welcome(session);
        return;
    }
    if (session->home) /* it has no tensors there yet: choose again */
        session->home->sessions--;
    session->home = NULL;
    find_home(session);
}

uint32_t gt__session_reason(gt_session *session, const char *text)
{
    uint32_t known = gt__texts_find(&session->reasons, text);
    if (!known && session->reasons.count >= MAX_REASONS - 1) {
        text = "too many tensors are lost, for too many reasons, to keep each of them";
        known = gt__texts_find(&session->reasons, text);
    }
    return known ? known : gt__texts_add(&session->reasons, text);
}

const char *gt__session_lost(const gt_session *session, const gt_handle *handle)
{
    const char *reason = gt__texts_get(&session->reasons, handle->slot);
    return reason ? reason : session->lost;
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
        if (session->quota)
            gt__quota_drop(session->quota, (uint32_t)(handle - session->handles.handles));
    }
    if (session->spreading)
        session->spreading->target_valid = false;
    gt__relays_lose_worker(session, worker);
    gt__share_stop_waiting(session);
    if (session->home != worker) {
        gt__session_welcome(session); /* the number of workers changed */
        return;
    }
    snprintf(session->lost, sizeof session->lost, "%s", reason);
    session->home = NULL;
    bool recovers = gt__recover_active(session);
    gt__download_drop_all(session, recovers ? NULL : reason);
    if (recovers)
        gt__peer_wake(session->peer);
    else
        find_home(session);
}

static gt_err init_handles(gt_session *session)
{
    gt_err err = gt__handles_init(&session->handles);
    session->handles.salt = session->dispatcher->worker_key; /* which clients do not know */
    return err;
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
    gt__answers_init(session);
    gt__share_weigh(session, 1);
    session->settled = true;
    session->unannounced = peer->dispatcher->journal;
    gt__output_init(&session->output);
    snprintf(session->name, sizeof session->name, "%.63s", (const char *)hello[1].bytes);
    snprintf(session->lost, sizeof session->lost, "no worker is there");
    gt_err err = init_handles(session);
    if (err == GT_OK)
        err = gt__quota_apply(session);
    if (err == GT_OK)
        err =
            gt__chain_open(peer->dispatcher->modifiers, peer->dispatcher->last_modifier, session, &session->chain);
    if (err != GT_OK) {
        gt__quota_free(session);
        gt__handles_free(&session->handles);
        free(session);
        return err;
    }
    peer->session = session;
    peer->link->lean = peer->dispatcher->session_count++ >= LEAN_FROM;
    gt__recovery_new(session);
    gt__peer_log(peer, GT_LOG_STATUS, "connected by %s", gt__link_name(peer->link));
    char context[sizeof(gt_slot)];
    snprintf(context, sizeof context, "%.63s", (const char *)hello[2].bytes);
    gt__observe_client(session, NULL, context);
    find_home(session);
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

gt_err gt__session_drop_tensors(gt_session *session)
{
    gt__spreading_free(session);
    gt__signals_free(session);
    free_tensors(session);
    gt__quota_free(session);
    gt__handles_free(&session->handles);
    gt__fillings_free(&session->fillings);
    GT_TRY(init_handles(session));
    return gt__quota_apply(session);
}

void gt__session_free(gt_session *session, const char *reason)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    /* Place the records that were held back, as far as there is room. The results of the others are not needed: only this
     * client could have asked for them. */
    gt__runs_begin(session);
    gt__chain_flush(session->chain, GT_FLUSH_CLOSE);
    gt__handover_free(session);
    gt__peer_log(session->peer, GT_LOG_STATUS, "left: %s", reason);
    gt__synced_forget(session);
    gt__observe_client(session, reason, NULL);
    gt__chain_close(&session->chain);
    gt__runs_end(session);
    if (!dispatcher->observing) /* logs show what was computed */
        gt__runs_cancel(session);
    gt__output_free(&session->output);
    gt__download_drop_all(session, NULL);
    gt__share_depart(session);
    bool kept = gt__remains_keep_tensors(session);
    gt__spreading_free(session);
    gt__signals_free(session);
    gt__paths_free(session);
    free_tensors(session);
    if (session->home)
        session->home->sessions--;
    dispatcher->past_instructions += session->instructions;
    for (int32_t index = 0; index < dispatcher->worker_count; index++)
        gt__worker_forget_session(dispatcher->workers[index], session);
    gt__recovery_end(session);
    gt__share_forget(session);
    dispatcher->session_count--;
    gt__relays_free(session);
    if (!kept) /* or when they are free */
        gt__workers_session_left(dispatcher, session->number);
    session->peer->session = NULL;
    gt__texts_free(&session->sites);
    gt__texts_free(&session->reasons);
    free(session->left_out);
    gt__quota_free(session);
    gt__handles_free(&session->handles);
    gt__fillings_free(&session->fillings);
    gt__successors_free(&session->successors);
    gt__slot_queue_free(&session->unread);
    free(session);
}

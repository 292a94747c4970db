/*
 * recover.c: from the loss of a worker to the end of the journal. See recover.h.
 *
 *     WAIT     nothing of the session's is served. Its tensors on the lost worker are lost, the others stay: if no worker
 *              comes in time the session goes on like this, as it would without recovery
 *     RESTORE  all tensors are dropped, then those of the snapshot are uploaded
 *     REPLAY   the journal is placed, in the order in which the records came
 *
 * The client's own records wait in its link meanwhile. Another loss begins it again with WAIT.
 */
#include "dispatcher/recover/recover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "dispatcher/answers.h"
#include "dispatcher/download.h"
#include "dispatcher/journal/journaled.h"
#include "dispatcher/live/drain.h"
#include "dispatcher/live/evacuate.h"
#include "dispatcher/recover/stand_in.h"
#include "dispatcher/recover/suspect.h"
#include "dispatcher/spread/spread.h"
#include "dispatcher/state.h"
#include "dispatcher/worker_stream.h"

enum {
    MOST_ATTEMPTS = 5, /* see suspect.h */
    MOST_REASON = 100, /* bytes of why a worker is lost, behind how often that happened */
};
/* How long the first doubt about a worker lasts, if its end is not noticed meanwhile; each later one lasts four times as long. */
enum { DOUBT_MS = 50 };

/* ---- answers ------------------------------------------------------------------------------------------------ */

static bool is_question(gt_opcode op)
{
    return op == GT_OP_fetch || op == GT_OP_sync || op == GT_OP_stats || op == GT_OP_placement;
}

static gt_owed *find_owed(const gt_recovery *recovery, uint64_t ticket)
{
    for (uint32_t k = 0; k < recovery->owed_count; k++)
        if (recovery->owed[k].ticket == ticket)
            return &recovery->owed[k];
    return NULL;
}

/* The client waits for the answer to this ticket, of which it has `sent` bytes. */
static bool owe(gt_recovery *recovery, uint64_t ticket, uint64_t sent)
{
    gt_owed *owed = find_owed(recovery, ticket);
    if (!owed) {
        if (recovery->owed_count == recovery->owed_capacity) {
            uint32_t capacity = recovery->owed_capacity ? 2 * recovery->owed_capacity : 4;
            gt_owed *grown = realloc(recovery->owed, capacity * sizeof *grown);
            if (!grown)
                return false;
            recovery->owed = grown;
            recovery->owed_capacity = capacity;
        }
        owed = &recovery->owed[recovery->owed_count++];
        *owed = (gt_owed){.ticket = ticket};
    }
    owed->placed = false;
    owed->sent = sent > owed->sent ? sent : owed->sent;
    return true;
}

static void settle(gt_recovery *recovery, gt_owed *owed)
{
    *owed = recovery->owed[--recovery->owed_count];
}

bool gt__recover_has(gt_session *session, const gt_slot *answer)
{
    gt_recovery *recovery = session->recovery;
    gt_owed *owed = find_owed(recovery, answer->ins.result);
    bool whole = answer->ins.op == GT_OP_failure || answer->ins.flags & GT_FLAG_LAST;
    if (!owed || !owed->placed)
        return false;
    if (!whole)
        return answer->ins.imm[0].u + answer->ins.imm[1].u <= owed->sent;
    settle(recovery, owed);
    return false;
}

/* Take the questions back that any worker has from this session. False: out of memory. */
static bool take_questions(gt_session *session)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    bool ok = true;
    for (const gt_download *download = session->downloads; download; download = download->next)
        ok &= owe(session->recovery, download->ticket,
                  download->under_way ? download->offset : (uint64_t)download->asked * download->element_bytes);
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        const gt_pendings *pendings = &dispatcher->workers[index]->pendings;
        for (uint32_t k = 0; k < pendings->count; k++) {
            gt_pending *pending = gt__pendings_at(pendings, k);
            uint64_t ticket;
            if (gt__inquiry_take_back(pending->inquiry, session, &ticket))
                ok &= owe(session->recovery, ticket, 0);
            if (pending->session != session || pending->departed || pending->settles)
                continue;
            if (!pending->save && !pending->clears)
                ok &= owe(session->recovery, pending->ticket,
                          pending->bytes + (pending->download ? pending->download->offset : 0));
            pending->session = NULL;
            pending->download = NULL;
            pending->save = NULL;
        }
    }
    return ok;
}

/* And those that wait to be placed. */
static bool take_waiting(gt_session *session)
{
    const gt_slot_queue *waiting = &session->output.waiting;
    bool ok = true;
    for (size_t at = waiting->first; at < waiting->end; at += 1u + waiting->slots[at].ins.tail) {
        const gt_instruction *ins = &waiting->slots[at + 1].ins;
        if (is_question((gt_opcode)ins->op))
            ok &= owe(session->recovery, ins->result, 0);
        if (ins->op == GT_OP_upload && ins->imm[1].u) /* its data comes from the journal */
            gt__relay_unused(session, ins->imm[1].u);
    }
    return ok;
}

/* ---- losing a worker ---------------------------------------------------------------------------------------- */

bool gt__recover_uses(const gt_session *session, int32_t worker)
{
    const gt_recovery *recovery = session->recovery;
    const gt_spreading *spreading = session->spreading;
    return (session->home && session->home->index == worker) ||
           (spreading && worker < spreading->reached_capacity && spreading->reached[worker]) ||
           (recovery && worker < recovery->needed_count && recovery->needed[worker]);
}

void gt__recover_moved(gt_session *session, int32_t from, int32_t to)
{
    gt_recovery *recovery = session->recovery;
    bool moved = gt__snapshot_moved(recovery->saved, from, to) && gt__snapshot_moved(recovery->saving, from, to);
    recovery->hopeless |= !moved;
    if (from < recovery->needed_count)
        recovery->needed[from] = false;
    if (session->journaled)
        gt__journaled_again(session);
}

static bool has_shards(const gt_config *config)
{
    for (size_t k = 0; k < config->count; k++)
        if (config->signals[k]->flags & GT_CONFIG_SHARD)
            return true;
    return false;
}

/* Whether records of the session name workers. */
static bool is_sharded(const gt_session *session)
{
    const gt_spreading *spreading = session->spreading;
    const gt_snapshot *saved = session->recovery->saved;
    for (uint32_t k = 0; saved && k < saved->count; k++) /* it may have another config by now */
        if (saved->tensor[k]->layout)
            return true;
    return spreading && (spreading->automatic || (session->signals && has_shards(&session->signals->config)) ||
                         has_shards(&session->dispatcher->config));
}

/* Which workers must be there again. */
static bool note_needs(gt_session *session)
{
    gt_recovery *recovery = session->recovery;
    int32_t count = session->dispatcher->worker_count;
    if (recovery->needed_count < count) {
        bool *needed = realloc(recovery->needed, (size_t)count * sizeof *needed);
        if (!needed)
            return false;
        memset(needed + recovery->needed_count, 0, (size_t)(count - recovery->needed_count) * sizeof *needed);
        recovery->needed = needed;
        recovery->needed_count = count;
    }
    for (int32_t index = 0; index < count; index++)
        recovery->needed[index] = gt__recover_uses(session, index);
    if (session->home)
        recovery->home = session->home->index;
    return true;
}

/* Without recovery, from here on. If the tensors were dropped already, that is the end of the session. */
static void abandon(gt_session *session)
{
    gt_recovery *recovery = session->recovery;
    bool intact = recovery->phase == GT_RECOVER_WAIT && recovery->intact;
    session->peer->blocked = session->output.retry = false;
    gt__peer_wake(session->peer);
    gt__peer_log(session->peer, GT_LOG_WARNING, "is not recovered: %s", recovery->reason);
    if (session->journaled)
        gt__journaled_end(session, recovery->reason);
    for (uint32_t k = 0; k < recovery->owed_count; k++)
        if (!recovery->owed[k].placed)
            gt__answer_failure(session, recovery->owed[k].ticket, GT_ERR_CONNECTION, recovery->reason);
    if (intact) {
        gt__download_drop_all(session, NULL);
        gt__session_give_home(session, session->home ? session->home : gt__worker_choose(session->dispatcher));
    } else {
        snprintf(session->lost, sizeof session->lost, "%s", recovery->reason);
        session->ended = true;
    }
    gt__recovery_end(session);
}

/* It was not seen to end: it may go on, and write to segments that the client uses for something else by then. */
static bool may_wake(const gt_dispatch_worker *worker)
{
    return worker->link->ops->share && worker->link->stopped;
}

/* How long it waits for workers, from now on. */
static void begin_wait(gt_session *session)
{
    gt_recovery *recovery = session->recovery;
    recovery->deadline_ns = gt__deadline_ns(session->dispatcher->recovery.wait_ms);
    recovery->stand_in_ns = gt__deadline_ns(session->dispatcher->recovery.stand_in_ms);
}

/* Why it is not recovered once more. */
static void add_deaths(gt_recovery *recovery)
{
    char text[sizeof recovery->reason];
    snprintf(text, sizeof text, "%u workers died while they repeated its instructions; %.*s",
             recovery->attempts - 1, MOST_REASON, recovery->reason);
    memcpy(recovery->reason, text, sizeof text);
}

/* Begin again with the snapshot, when the workers are there. */
static void roll_back(gt_session *session, const char *reason, bool possible)
{
    gt_recovery *recovery = session->recovery;
    bool again = recovery->phase != GT_RECOVER_NOTHING;
    snprintf(recovery->reason, sizeof recovery->reason, "%s", reason);
    recovery->intact |= !again;
    recovery->asked = 0;
    gt__suspect_end(session);
    gt__share_forget(session); /* it waits for no turn, and other sessions not for it */
    recovery->attempts += recovery->phase != GT_RECOVER_WAIT;
    if (!again) /* later its configuration may be dropped and not placed again yet */
        recovery->alone = !is_sharded(session);
    bool taken = take_questions(session); /* always: workers owe the snapshot and the downloads nothing more */
    possible &= taken && note_needs(session) && !recovery->hopeless;
    if (possible && recovery->attempts > MOST_ATTEMPTS) {
        possible = false;
        add_deaths(recovery);
    }
    gt__snapshot_free(&recovery->saving);
    recovery->phase = GT_RECOVER_WAIT;
    recovery->doubt_ns = 0;
    begin_wait(session);
    gt__peer_wake(session->peer);
    if (!possible)
        abandon(session);
}

/* Whether the session's own configuration, which is not placed yet, names workers. */
static bool asks_for_shards(const gt_slot_queue *state)
{
    gt_signal_config signal;
    for (size_t at = state->first; at < state->end; at += 1u + state->slots[at].ins.tail)
        if (state->slots[at].ins.op == GT_OP_config && gt__config_read(&state->slots[at], &signal) == GT_OK &&
            signal.flags & (GT_CONFIG_AUTOMATIC | GT_CONFIG_SHARD))
            return true;
    return false;
}

gt_err gt__recover_restart(gt_session *session, int32_t home, const int32_t *workers, uint32_t count)
{
    gt_recovery *recovery = session->recovery;
    const gt_dispatcher *dispatcher = session->dispatcher;
    if (!note_needs(session))
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    if (home < 0 && count)
        home = workers[0];
    recovery->alone =
        !is_sharded(session) && !asks_for_shards(&recovery->state) && !has_shards(&dispatcher->config);
    if (home < 0 && recovery->saved && recovery->saved->count && !recovery->alone)
        return gt__fail(GT_ERR_VALUE, "the journal does not say which workers it used");
    for (uint32_t k = 0; k <= count; k++) {
        int32_t index = k < count ? workers[k] : home;
        if (index >= recovery->needed_count)
            return gt__fail(GT_ERR_VALUE, "the journal does not name its worker %d", index);
        if (index >= 0)
            recovery->needed[index] = true;
    }
    recovery->home = home;
    recovery->alone |= home < 0;
    recovery->phase = GT_RECOVER_WAIT;
    recovery->restarted = true;
    snprintf(recovery->reason, sizeof recovery->reason, "the server was restarted without its workers");
    begin_wait(session);
    gt__peer_wake(session->peer);
    return GT_OK;
}

void gt__recover_lose(gt_session *session, const gt_dispatch_worker *worker, const char *reason)
{
    if (session->recovery && (gt__recover_uses(session, worker->index) || gt__evacuation_open(session, worker)))
        roll_back(session, reason, !may_wake(worker));
}

void gt__recover_doubt(gt_session *session, const gt_pending *asked, const gt_slot *failure)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    const gt_recovery *recovery = session->recovery;
    char reason[sizeof recovery->reason];
    uint64_t bytes = failure->ins.imm[1].u, most = failure->ins.tail * sizeof *failure;
    snprintf(reason, sizeof reason, "%.*s", (int)(bytes < most ? bytes : most), (const char *)(failure + 1));
    bool owed =
        owe(session->recovery, asked->ticket, asked->bytes + (asked->download ? asked->download->offset : 0));
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        gt_dispatch_worker *worker = dispatcher->workers[index];
        if (!worker->peer || !gt__recover_uses(session, index))
            continue;
        worker->link->ops->arm(worker->link); /* notices if it is dead */
        gt__peer_wake(worker->peer);
    }
    roll_back(session, reason, owed);
    if (session->recovery)
        session->recovery->doubt_ns = gt__deadline_ns(DOUBT_MS << 2 * (session->recovery->attempts - 1));
}

static bool is_there(const gt_dispatch_worker *worker)
{
    return worker->peer && !worker->link->gone;
}

static bool has_workers(const gt_session *session)
{
    const gt_recovery *recovery = session->recovery;
    if (recovery->alone)
        return gt__worker_choose(session->dispatcher) != NULL;
    for (int32_t index = 0; index < recovery->needed_count; index++)
        if (recovery->needed[index] && !is_there(session->dispatcher->workers[index]))
            return false;
    return true;
}

bool gt__recover_ready(const gt_session *session)
{
    return has_workers(session) && gt__suspect_may_begin(session);
}

/* A worker that leaves waits for this session, so it is asked if there is no other one: it stays. */
static bool ask_for_stand_in(const gt_session *session, int32_t index)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    return gt__stand_in_ask(dispatcher, index) ||
           (gt__drain_revoke(session, dispatcher->workers[index]) && gt__stand_in_ask(dispatcher, index));
}

/* Have other workers stand in for those that the session waits for. False: one of them will not come. */
static bool ask_for_stand_ins(const gt_session *session)
{
    const gt_recovery *recovery = session->recovery;
    bool all = !recovery->alone;
    for (int32_t index = 0; index < recovery->needed_count && !recovery->alone; index++)
        if (recovery->needed[index] && !is_there(session->dispatcher->workers[index]))
            all &= ask_for_stand_in(session, index);
    return all;
}

void gt__recover_look(gt_dispatcher *dispatcher)
{
    /* Sessions that wait are blocked, and blocked peers stay active. */
    for (gt_peer *peer = dispatcher->active_first; peer; peer = peer->active_next) {
        gt_session *session = peer->session;
        if (!session || !gt__recover_waits(session))
            continue;
        if (has_workers(session)) { /* it waits for none, whatever else it waits for */
            begin_wait(session);
            continue;
        }
        bool late = !gt__remaining_ms(session->recovery->deadline_ns);
        bool come = (late || !gt__remaining_ms(session->recovery->stand_in_ns)) && ask_for_stand_ins(session);
        if (late && !come)
            abandon(session);
    }
    gt__stand_ins_look(dispatcher);
}

/* ---- restoring ---------------------------------------------------------------------------------------------- */

/* It needs no other worker than its home, where it goes now: a server that is started again must not wait for those of before. */
static void settle_alone(gt_session *session)
{
    gt_recovery *recovery = session->recovery;
    bool moved = gt__snapshot_gathered(recovery->saved, session->home->index);
    for (int32_t index = 0; index < recovery->needed_count; index++) {
        moved |= recovery->needed[index] && index != session->home->index;
        recovery->needed[index] = false;
    }
    if (moved && session->journaled)
        gt__journaled_again(session);
}

/* Begin with nothing, as after the client's hello. */
static gt_err clear(gt_session *session)
{
    gt_recovery *recovery = session->recovery;
    if (!take_waiting(session))
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    gt__peer_log(session->peer, GT_LOG_STATUS, "is recovered: %s", recovery->reason);
    recovery->intact = false;
    gt__suspect_begin(session);
    gt__output_free(&session->output);
    gt__output_init(&session->output);
    gt__download_drop_all(session, NULL);
    gt__share_stop_waiting(session);
    GT_TRY(gt__session_drop_tensors(session));
    gt__session_give_home(session, session->home     ? session->home
                                   : recovery->alone ? gt__worker_choose(session->dispatcher)
                                                     : session->dispatcher->workers[recovery->home]);
    if (recovery->alone)
        settle_alone(session);
    gt__paths_rollback(session, recovery->saved ? recovery->saved->epoch : 0);
    recovery->phase = GT_RECOVER_RESTORE;
    recovery->state_at = recovery->tensor_at = recovery->hold_at = 0;
    recovery->hold_offset = recovery->fills.count = recovery->refusal_at = 0;
    recovery->journal_at = gt__journal_start(&recovery->journal);
    return GT_OK;
}

/* A path that is still defined has not changed since. */
static bool is_defined(const gt_session *session, const gt_slot *record)
{
    return record->ins.op == GT_OP_path && gt__paths_find(session, record);
}

static gt_err place_state(gt_session *session, const gt_slot *record)
{
    return record->ins.op == GT_OP_path    ? gt__paths_define(session, record)
           : record->ins.op == GT_OP_scope ? gt__spread_scope(session, record)
                                           : gt__spread_config(session, record);
}

/* Records that had no room wait in the outboxes of workers. */
static bool has_room(const gt_session *session)
{
    return gt__slot_queue_empty(&session->home->backlog.outbox) &&
           (!session->spreading || gt__spread_has_room(session));
}

static gt_err restore(gt_session *session, size_t *left)
{
    gt_recovery *recovery = session->recovery;
    const gt_snapshot *saved = recovery->saved;
    for (; saved && recovery->state_at < saved->state;
         recovery->state_at += 1u + recovery->state.slots[recovery->state_at].ins.tail)
        if (!is_defined(session, recovery->state.slots + recovery->state_at))
            GT_TRY(place_state(session, recovery->state.slots + recovery->state_at));
    if (saved && saved->sums_when >= 0) { /* its tensors may be spread although the config of now spreads none */
        GT_TRY(gt__spreading_new(session));
        session->spreading->sums.when = (gt_sums_when)saved->sums_when;
    }
    while (saved && (recovery->fills.count || recovery->tensor_at < saved->count)) {
        if (!*left || !has_room(session) || !gt__saved_fill_is_ready(session)) {
            session->output.retry = session->dispatcher->retry = true;
            return GT_OK;
        }
        if (recovery->fills.count) {
            GT_TRY(gt__saved_fill(session));
            *left -= *left < GT_MAX_TAIL ? *left : GT_MAX_TAIL;
            continue;
        }
        GT_TRY(gt__saved_restore(session, saved->tensor[recovery->tensor_at++]));
        --*left;
    }
    session->output.retry = false;
    recovery->phase = GT_RECOVER_REPLAY;
    /* This is progress, also if there was nothing to restore: the loop must not sleep before the journal is placed. */
    if (*left)
        --*left;
    return GT_OK;
}

/* ---- replaying ---------------------------------------------------------------------------------------------- */

const gt_refusal *gt__recover_refusal(gt_session *session, uint64_t id)
{
    gt_recovery *recovery = session->recovery;
    const gt_refusal *next = recovery->refusals + recovery->refusal_at;
    if (!gt__recover_refuses(session) || next->id != id)
        return NULL;
    recovery->refusal_at++;
    return next;
}

/* The checks of session.c and paths.c: the journal has what came, before they refused anything. */
static gt_err place_again(gt_session *session, const gt_slot *record)
{
    unsigned length;
    GT_TRY(gt__instruction_check(record, 1u + record->ins.tail, &length));
    switch ((gt_opcode)record->ins.op) {
    case GT_OP_path:
    case GT_OP_scope:
        return place_state(session, record);
    case GT_OP_repeat: {
        const gt_path *path = gt__paths_find(session, record);
        if (!path)
            return gt__fail(GT_ERR_PROTOCOL, "repeat: the path is not defined");
        GT_TRY(gt__path_check_run(path, record));
        if (record->ins.imm[1].u)
            return gt__fail(GT_ERR_PROTOCOL, "repeat: it names slices");
        break;
    }
    case GT_OP_fetch:
    case GT_OP_sync:
    case GT_OP_stats:
    case GT_OP_placement: {
        gt_owed *owed = find_owed(session->recovery, record->ins.result);
        if (!owed || owed->placed)
            return GT_OK; /* the client has the answer */
        owed->placed = true;
        if (!owed->sent)
            settle(session->recovery, owed);
        break;
    }
    default:
        if (record->ins.op >= GT_OP_FIRST_CONTROL && record->ins.op != GT_OP_free &&
            record->ins.op != GT_OP_data && record->ins.op != GT_OP_config && record->ins.op != GT_OP_forget)
            return gt__fail(GT_ERR_PROTOCOL, "a client may not send %s", gt__op_table[record->ins.op].name);
    }
    return gt__output_put(session, record);
}

/* An upload whose data is in a segment that is held, in pieces. False in *whole: the output is full; the rest comes later. */
static gt_err place_held(gt_session *session, const gt_slot *record, size_t *left, bool *whole)
{
    gt_recovery *recovery = session->recovery;
    gt_slot *piece = session->dispatcher->record;
    *whole = false;
    if (recovery->hold_at >= recovery->holds.count)
        return gt__fail(GT_ERR_INTERNAL, "a segment of the journal is missing");
    const gt_segment *segment = recovery->holds.hold[recovery->hold_at]->segment;
    while (recovery->hold_offset < record->ins.imm[0].u) {
        if (!*left || gt__output_waits(&session->output))
            return GT_OK;
        recovery->hold_offset = gt__relay_piece(segment, record, recovery->hold_offset, piece);
        if (!recovery->hold_offset)
            return gt__fail(GT_ERR_CONNECTION, "a shared segment of the client cannot be read");
        size_t slots = 1u + piece->ins.tail;
        *left -= slots < *left ? slots : *left;
        GT_TRY(gt__output_put(session, piece));
        gt__worker_flush_batch(session->home);
    }
    recovery->hold_at++;
    recovery->hold_offset = 0;
    *whole = true;
    return GT_OK;
}

static gt_err replay(gt_session *session, size_t *left)
{
    gt_recovery *recovery = session->recovery;
    while (*left && !gt__output_waits(&session->output)) {
        gt_journal_position at = recovery->journal_at;
        const gt_slot *record = gt__journal_next(&recovery->journal, &recovery->journal_at);
        if (!record) {
            recovery->phase = GT_RECOVER_NOTHING;
            /* What it uses now is in its spreading again. Stand-ins stay for it: it may name their numbers later. */
            for (int32_t k = 0; recovery->needed && k < recovery->needed_count; k++)
                recovery->needed[k] = recovery->needed[k] && k < session->dispatcher->worker_count &&
                                      session->dispatcher->workers[k]->stand_in.present;
            session->dispatcher->recovery.count++;
            gt__suspect_ask(session);
            gt__peer_log(session->peer, GT_LOG_STATUS, "goes on");
            return GT_OK;
        }
        size_t slots = 1u + record->ins.tail;
        *left -= slots < *left ? slots : *left;
        gt__share_records(session, session->home, 1);
        if (record->ins.op == GT_OP_upload && record->ins.imm[1].u) {
            bool whole;
            GT_TRY(place_held(session, record, left, &whole));
            recovery->journal_at = whole ? recovery->journal_at : at;
            continue;
        }
        GT_TRY(place_again(session, record));
        gt__worker_flush_batch(session->home);
    }
    return GT_OK;
}

gt_err gt__recover_serve(gt_session *session, size_t *left)
{
    const gt_recovery *recovery = session->recovery;
    if (recovery->phase == GT_RECOVER_WAIT) {
        session->peer->blocked = !gt__recover_ready(session);
        if (session->peer->blocked)
            return GT_OK;
        if (recovery->doubt_ns && gt__remaining_ms(recovery->doubt_ns)) {
            session->output.retry = session->dispatcher->retry = true;
            return GT_OK;
        }
        GT_TRY(clear(session));
    }
    if (recovery->phase == GT_RECOVER_RESTORE)
        return restore(session, left);
    if (gt__output_waits(&session->output))
        GT_TRY(gt__output_drain(session, left));
    return replay(session, left);
}

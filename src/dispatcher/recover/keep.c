/*
 * keep.c: what a recoverable session keeps while its workers are well: the journal, and snapshots of its tensors.
 *
 * When to take a snapshot. It costs the workers and the dispatcher time, which must be a small part of the session's own
 * (COST). A long journal takes memory, and time to replay. In a training loop most tensors live within a step, and few
 * between two steps. So when a snapshot is due, the number of tensors is watched for a while, and the snapshot is taken when
 * it is next as low as it was.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "dispatcher/journal/journaled.h"
#include "dispatcher/recover/recover.h"
#include "dispatcher/recover/suspect.h"
#include "dispatcher/remains.h"
#include "dispatcher/state.h"
#include "dispatcher/workers.h"

enum {
    JOURNAL_BYTES =
        1 << 18, /* a journal of this size asks for a snapshot, too: it fits into the cache of a core */
    SHORT_JOURNAL = 1 << 17, /* the same, if memory is scarce */
    LONG_JOURNAL = 64 << 20, /* a journal of this size does not wait for a good moment */
    LOOKS = 1000,            /* in an interval: is a snapshot due? */
    WATCH = 4,               /* so many parts of the time since the last one are spent watching */
    COST = 100,              /* a snapshot takes at most one part of this of the session's time, */
    SCARCE_COST = 10,        /* or of this, if memory is scarce, */
    JOURNALED_COST = 5,      /* or of this, if it is in the server's journal */
    MOST_STATE = 1 << 20,    /* slots of state records */
    STRICT = 4,              /* attempts at a snapshot without strided tensors, before they are taken, too */
};

/* Estimated nanoseconds of a snapshot. */
#define TENSOR_NS 2000.0
#define BYTE_NS 1.0
/* And of the client's copy into a segment, at least. */
#define UPLOAD_BYTE_NS 0.1

/* ---- life --------------------------------------------------------------------------------------------------- */

void gt__recovery_new(gt_session *session)
{
    /* The journal is placed without the modifiers. */
    if (!session->dispatcher->recovery.on || !gt__chain_passes(session->chain))
        return;
    session->recovery = calloc(1, sizeof *session->recovery); /* without memory it is not recoverable */
    session->epoch = 1;
    if (session->recovery)
        *session->recovery = (gt_recovery){
            .journal.pool = &session->dispatcher->recovery.pool,
            .holds.total = &session->dispatcher->recovery.holds,
            .state.most = MOST_STATE,
        };
}

static void charge(gt_session *session)
{
    gt_recovery *recovery = session->recovery;
    uint64_t bytes = recovery->journal.bytes + recovery->state.capacity * sizeof(gt_slot);
    bytes += recovery->refusal_capacity * sizeof *recovery->refusals;
    bytes += recovery->saved ? recovery->saved->bytes : 0;
    bytes += recovery->saving ? recovery->saving->bytes : 0;
    bytes += recovery->holds.bytes;
    session->dispatcher->recovery.used += bytes - recovery->charged;
    recovery->charged = bytes;
}

/* No worker owes the snapshot under way its parts any more. */
static void forget_parts(gt_session *session)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        const gt_pendings *pendings = &dispatcher->workers[index]->pendings;
        for (uint32_t k = 0; k < pendings->count; k++) {
            gt_pending *pending = gt__pendings_at(pendings, k);
            if (pending->save && pending->session == session) {
                pending->save = NULL;
                pending->session = NULL;
            }
        }
    }
}

void gt__recovery_end(gt_session *session)
{
    gt_recovery *recovery = session->recovery;
    if (!recovery)
        return;
    if (recovery->saving)
        forget_parts(session);
    if (session->journaled)
        gt__journaled_end(session, NULL);
    gt__suspect_end(session);
    session->dispatcher->recovery.used -= recovery->charged;
    session->recovery = NULL;
    gt__remains_keep_recovery(session->dispatcher, recovery);
}

size_t gt__recovery_tensors(const gt_recovery *recovery)
{
    const gt_snapshot *snapshots[] = {recovery->saved, recovery->saving, recovery->dropped};
    size_t count = 0;
    for (size_t k = 0; k < sizeof snapshots / sizeof *snapshots; k++)
        count += snapshots[k] ? snapshots[k]->count : 0;
    return count;
}

void gt__recovery_free_some(gt_recovery **where, size_t *tensors)
{
    gt_recovery *recovery = *where;
    gt_snapshot **snapshots[] = {&recovery->saved, &recovery->saving, &recovery->dropped};
    for (size_t k = 0; k < sizeof snapshots / sizeof *snapshots; k++)
        if (*snapshots[k])
            gt__snapshot_free_some(snapshots[k], tensors);
    if (recovery->saved || recovery->saving || recovery->dropped)
        return;
    gt__journal_free(&recovery->journal);
    gt__slot_queue_free(&recovery->state);
    gt__holds_free(&recovery->holds); /* behind the snapshots, which have some of them */
    free(recovery->fills.fill);
    free(recovery->refusals);
    free(recovery->needed);
    free(recovery->owed);
    free(recovery);
    *where = NULL;
}

/* The session is not recoverable from now on. */
static void give_up(gt_session *session, const char *why)
{
    gt__peer_log(session->peer, GT_LOG_WARNING, "cannot be recovered from now on if a worker is lost: %s", why);
    if (session->journaled)
        gt__journaled_end(session, why);
    gt__recovery_end(session);
}

/* All sessions together take more memory than they may: the one that takes most is given up. */
static void give_up_largest(gt_dispatcher *dispatcher)
{
    gt_session *largest = NULL;
    for (const gt_peer *peer = dispatcher->peers; peer; peer = peer->next)
        if (peer->session && peer->session->recovery && !gt__recover_active(peer->session) &&
            (!largest || peer->session->recovery->charged > largest->recovery->charged))
            largest = peer->session;
    if (largest)
        give_up(largest, "its journal and its tensors take more memory than --recover-memory allows");
}

/* ---- the journal -------------------------------------------------------------------------------------------- */

/* Records that mean nothing to a replay. */
static bool is_passing(gt_opcode op)
{
    return op == GT_OP_site || op == GT_OP_share || op == GT_OP_mark || op == GT_OP_name || op == GT_OP_goodbye ||
           op == GT_OP_detach || op == GT_OP_attach;
}

static bool is_segment_upload(const gt_instruction *ins)
{
    return ins->op == GT_OP_upload && ins->imm[1].u;
}

gt_slot *gt__recover_reserve(gt_session *session, const gt_instruction *ins)
{
    if (is_passing((gt_opcode)ins->op) || is_segment_upload(ins))
        return NULL;
    gt_slot *room = gt__journal_reserve(&session->recovery->journal, 1u + ins->tail);
    if (!room)
        give_up(session, "out of memory");
    return room;
}

/* An upload from a segment. The client may write to it when the worker has read it, unless it is held: the journal has the bytes
 * otherwise. */
static void append_upload(gt_session *session, const gt_slot *record)
{
    gt_recovery *recovery = session->recovery;
    gt_segment *segment = gt__relay_segment(session, record);
    if (segment && gt__holds_take(&recovery->holds, segment, record)) {
        recovery->upload_ns += (double)record->ins.imm[0].u * UPLOAD_BYTE_NS;
        gt_slot *to = gt__journal_reserve(&recovery->journal, 1u + record->ins.tail);
        if (to) {
            memcpy(to, record, (1u + record->ins.tail) * sizeof *to);
            gt__journal_commit(&recovery->journal, 1u + record->ins.tail);
        } else
            give_up(session, "out of memory");
        return;
    }
    uint64_t offset = 0, bytes = record->ins.imm[0].u, most = session->dispatcher->recovery.most;
    if (bytes > most || session->dispatcher->recovery.used > most - bytes) { /* before anything is copied */
        give_up(session, "an upload does not fit into --recover-memory");
        return;
    }
    while (segment && offset < bytes) {
        unsigned slots = gt__relay_piece_slots(record, offset);
        gt_slot *to = gt__journal_reserve(&recovery->journal, slots);
        if (!to || !(offset = gt__relay_piece(segment, record, offset, to)))
            break;
        gt__journal_commit(&recovery->journal, slots);
    }
    if (!segment || offset < bytes)
        give_up(session, "it uploaded from a shared segment that cannot be read, or memory is short");
}

gt_slot *gt__recover_window(gt_session *session, size_t *count)
{
    size_t room;
    gt_slot *window = gt__journal_window(&session->recovery->journal, &room);
    if (!window)
        give_up(session, "out of memory");
    else
        *count = *count < room ? *count : room;
    return window;
}

void gt__recover_note(gt_session *session, const gt_slot *record)
{
    gt_recovery *recovery = session->recovery;
    const gt_instruction *ins = &record->ins;
    if (is_passing((gt_opcode)ins->op))
        return;
    if (is_segment_upload(ins)) {
        append_upload(session, record);
        return;
    }
    if (session->fillings.lost_count) {
        recovery->hopeless = true;
        recovery->look_ns = 0;
    }
    if (ins->op == GT_OP_path) /* its pieces follow each other */
        recovery->defining = ins->imm[0].u + ins->tail < ins->imm[1].u;
    gt__journal_commit(&recovery->journal, 1u + ins->tail);
    if (gt__recover_is_state((gt_opcode)ins->op) && !gt__slot_queue_append(&recovery->state, record)) {
        recovery->hopeless = true; /* given up when the record, which the journal has, was served */
        recovery->look_ns = 0;
    }
}

void gt__recover_note_refusal(gt_session *session, const gt_refusal *refusal)
{
    gt_recovery *recovery = session->recovery;
    if (recovery->refusal_count == recovery->refusal_capacity) {
        uint32_t capacity = recovery->refusal_capacity ? 2 * recovery->refusal_capacity : 8;
        gt_refusal *grown = realloc(recovery->refusals, capacity * sizeof *grown);
        if (!grown) {
            recovery->hopeless = true;
            recovery->look_ns = 0;
            return;
        }
        recovery->refusals = grown;
        recovery->refusal_capacity = capacity;
    }
    recovery->refusals[recovery->refusal_count++] = *refusal;
}

static void drop_refusals(gt_recovery *recovery, uint32_t count)
{
    recovery->refusal_count -= count;
    if (recovery->refusal_count)
        memmove(recovery->refusals, recovery->refusals + count,
                recovery->refusal_count * sizeof *recovery->refusals);
}

/* ---- snapshots ---------------------------------------------------------------------------------------------- */

size_t gt__recover_compact_state(gt_slot_queue *state, size_t slots)
{
    size_t last[GT_PATHS] = {0}, to = 0; /* by path: where its last definition begins, plus one */
    for (size_t at = 0; at < slots; at += 1u + state->slots[at].ins.tail) {
        const gt_instruction *ins = &state->slots[at].ins;
        if (ins->op == GT_OP_path && !ins->imm[0].u && ins->result < GT_PATHS)
            last[ins->result] = at + 1;
    }
    for (size_t at = 0; at < slots;) {
        const gt_instruction *ins = &state->slots[at].ins;
        size_t length = 1u + ins->tail;
        bool old = ins->op == GT_OP_path && ins->result < GT_PATHS && at + 1 < last[ins->result];
        if (!old) {
            memmove(state->slots + to, state->slots + at, length * sizeof *state->slots);
            to += length;
        }
        at += length;
    }
    if (state->end > slots)
        memmove(state->slots + to, state->slots + slots, (state->end - slots) * sizeof *state->slots);
    state->end -= slots - to;
    return to;
}

static void rest(gt_session *session)
{
    gt_recovery *recovery = session->recovery;
    recovery->stage = GT_KEEP_REST;
    recovery->since_ns = gt__recover_clock(session);
    recovery->look_ns = recovery->since_ns + session->dispatcher->recovery.every_ns / LOOKS;
}

/* It is freed in the session's next turns. */
static void drop(gt_session *session, gt_snapshot *snapshot)
{
    gt__snapshot_free(&session->recovery->dropped);
    session->recovery->dropped = snapshot;
    gt__peer_wake(session->peer);
}

/* The snapshot under way is complete, or has failed. */
static void finish(gt_session *session)
{
    gt_recovery *recovery = session->recovery;
    gt_snapshot *saving = recovery->saving;
    recovery->saving = NULL;
    if (saving->failed) { /* the journal makes its tensors again */
        recovery->failures += !saving->behind;
        drop(session, saving);
    } else {
        recovery->failures = saving->strided ? STRICT : 0;
        drop(session, recovery->saved);
        recovery->saved = saving;
        if (session->journaled)
            gt__journaled_cut(session);
        gt__journal_drop(&recovery->journal, saving->position);
        gt__holds_drop(&recovery->holds, saving->held);
        drop_refusals(recovery, saving->refused);
        saving->state = gt__recover_compact_state(&recovery->state, saving->state);
        recovery->attempts = 0;
        session->dispatcher->recovery.snapshots++;
    }
    rest(session);
    charge(session);
}

void gt__recover_piece(gt_session *session, gt_saved_part *part, const gt_slot *record)
{
    const gt_snapshot *saving = session->recovery->saving;
    gt__snapshot_piece(session, part, record);
    if (!saving->outstanding && !saving->asking)
        finish(session);
}

gt_err gt__recover_keep(gt_session *session, size_t *left)
{
    const gt_instruction fetch = {.op = GT_OP_sync}; /* one that takes a slot */
    gt_recovery *recovery = session->recovery;
    gt_snapshot *saving = recovery->saving;
    if (recovery->dropped)
        gt__snapshot_free_some(&recovery->dropped, left);
    if (!saving || !saving->asking)
        return GT_OK;
    while (*left && saving->asking) {
        bool ready;
        unsigned slots;
        if (gt__snapshot_waits(saving)) {
            session->peer->blocked = true;
            return GT_OK;
        }
        GT_TRY(gt__output_ready(session, &fetch, &ready));
        if (!ready)
            return GT_OK;
        if (gt__snapshot_ask(session, saving, recovery->saved, &slots) == GT_ERR_MEMORY) {
            give_up(session, gt_error_text());
            return GT_OK;
        }
        *left -= slots < *left ? slots : *left;
    }
    if (saving->asking)
        return GT_OK;
    charge(session);
    if (!saving->outstanding)
        finish(session);
    return GT_OK;
}

static void begin(gt_session *session)
{
    gt_recovery *recovery = session->recovery;
    if (gt__snapshot_new(session, recovery->failures >= STRICT, &recovery->saving) != GT_OK) {
        give_up(session, gt_error_text());
        return;
    }
    recovery->saving->position = gt__journal_end(&recovery->journal);
    recovery->saving->state = recovery->state.end;
    recovery->saving->held = recovery->holds.count;
    recovery->saving->refused = recovery->refusal_count;
    recovery->saving->epoch = session->epoch++;
    recovery->restarted = false;
}

/* Bytes of this tensor, if it is alive, on one worker. */
static uint64_t bytes_of(const gt_session *session, uint64_t id)
{
    const gt_handle *handle = gt__handles_find(&session->handles, id);
    return handle && handle->worker >= 0 ? gt__meta_bytes(&handle->meta) : 0;
}

static double cost_ns(gt_session *session)
{
    uint32_t cursor = 0;
    uint64_t bytes = 0, held = 0;
    const gt_handle *handle;
    const gt_holds *holds = &session->recovery->holds;
    /* What the last snapshot has, or is in segments that are held, is not asked for. */
    while ((handle = gt__handles_next(&session->handles, &cursor)))
        if (!gt__snapshot_has(session, session->recovery->saved, handle))
            bytes += gt__meta_bytes(&handle->meta);
    for (uint32_t k = 0; k < holds->count; k++)
        held += bytes_of(session, holds->hold[k]->id);
    bytes -= held < bytes ? held : bytes;
    return session->handles.count * TENSOR_NS + (double)bytes * BYTE_NS;
}

/* That of the last snapshot, which was taken at a good moment; 0: there was none in this process. */
static double last_cost_ns(const gt_session *session)
{
    const gt_snapshot *saved = session->recovery->saved;
    return saved && saved->asked_bytes ? saved->count * TENSOR_NS + (double)saved->asked_bytes * BYTE_NS : 0;
}

/* One of so many parts of the session's time may be spent on snapshots. */
static double cost_limit(const gt_session *session, bool scarce)
{
    double every_ns = session->dispatcher->recovery.every_ns;
    /* A replay should take less than the 2 s within which programs go on after a restart of the server. */
    double cost = session->journaled ? JOURNALED_COST : scarce ? SCARCE_COST : COST;
    return cost * fmin(1, every_ns / (GT_RECOVER_EVERY_S * 1e9)); /* who asks for more of them pays for them */
}

/* Nothing is under way: is a snapshot due? */
static bool is_due(gt_session *session)
{
    gt_recovery *recovery = session->recovery;
    double now_ns = gt__recover_clock(session), elapsed_ns = now_ns - recovery->since_ns;
    recovery->look_ns = now_ns + session->dispatcher->recovery.every_ns / LOOKS;
    bool scarce = session->dispatcher->recovery.used > session->dispatcher->recovery.most / 4;
    if (recovery->restarted || gt__journaled_needs_snapshot(session))
        return true;
    if (elapsed_ns < session->dispatcher->recovery.every_ns &&
        recovery->journal.bytes + recovery->holds.recent < (scarce ? SHORT_JOURNAL : JOURNAL_BYTES))
        return false;
    double cost = cost_limit(session, scarce), least_ns = cost * session->handles.count * TENSOR_NS;
    if (elapsed_ns >= least_ns) /* else they need not be counted */
        least_ns = cost * cost_ns(session);
    if (session->journaled &&
        last_cost_ns(session) > 0) /* within a step there are more tensors than between two */
        least_ns = fmin(least_ns, cost * last_cost_ns(session));
    if (elapsed_ns < least_ns) {
        recovery->look_ns = recovery->since_ns + least_ns;
        return false;
    }
    return true;
}

/* Its journal does not wait for a good moment. */
static bool is_long(const gt_session *session)
{
    return session->recovery->journal.bytes >= LONG_JOURNAL || gt__journaled_needs_snapshot(session);
}

void gt__recover_weigh(gt_session *session)
{
    gt_recovery *recovery = session->recovery;
    double now_ns = gt__recover_clock(session);
    uint32_t count = session->handles.count;
    if (recovery->phase != GT_RECOVER_NOTHING || (recovery->saving && !recovery->hopeless) ||
        gt__output_waits(&session->output))
        return;
    if (recovery->hopeless) {
        give_up(session,
                "it has too many signals, paths, refused tensors or unfinished uploads, or memory is short");
        return;
    }
    charge(session);
    if (session->dispatcher->recovery.used > session->dispatcher->recovery.most) {
        give_up_largest(session->dispatcher);
        if (!session->recovery)
            return;
    }
    if (recovery->stage == GT_KEEP_REST) {
        if (!is_due(session))
            return;
        recovery->stage = GT_KEEP_WATCH;
        recovery->look_ns = 0; /* at every occasion */
        recovery->until_ns = now_ns + (now_ns - recovery->since_ns) / WATCH;
        recovery->low = count;
    }
    if (recovery->stage == GT_KEEP_WATCH) {
        recovery->low = count < recovery->low ? count : recovery->low;
        if (now_ns < recovery->until_ns && !is_long(session))
            return;
        recovery->stage = GT_KEEP_STRIKE;
        recovery->until_ns = now_ns + (now_ns - recovery->since_ns) / WATCH;
    }
    bool good = count <= recovery->low || now_ns >= recovery->until_ns || is_long(session);
    if (good && !recovery->defining && !gt__disk_journal_is_behind(session->dispatcher) &&
        !gt__fillings_any(&session->fillings, &session->handles))
        begin(session);
}

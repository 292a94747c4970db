/* output.c: see output.h. Place in the flow: session.c -> modifiers -> here, if there is no room -> place.c. */
#include "dispatcher/output.h"

#include "dispatcher/download.h"
#include "dispatcher/place.h"
#include "dispatcher/recover/recover.h"
#include "dispatcher/session.h"
#include "dispatcher/spread/spread.h"
#include "dispatcher/state.h"
#include "dispatcher/worker_stream.h"

enum { MOST_SLOTS = (64 << 20) / (int)sizeof(gt_slot) }; /* that the modifiers may make of one record */

void gt__output_init(gt_output *output)
{
    *output = (gt_output){.waiting.most = MOST_SLOTS};
}

void gt__output_free(gt_output *output)
{
    gt__slot_queue_free(&output->waiting);
}

/* ---- room --------------------------------------------------------------------------------------------------- */

/* Records that the dispatcher answers itself, or that only change what it knows. */
static bool needs_worker(const gt_instruction *ins)
{
    if (ins->op == GT_OP_stats)
        return ins->flags & GT_FLAG_WORKERS;
    return ins->op != GT_OP_forget && ins->op != GT_OP_placement && ins->op != GT_OP_config;
}

static bool has_room(gt_session *session, const gt_instruction *ins)
{
    unsigned slots = ins->op == GT_OP_fetch    ? GT_DOWNLOAD_ROOM
                     : ins->op == GT_OP_repeat ? GT_PATH_ROOM
                                               : 1u + ins->tail;
    if (!needs_worker(ins) || session->holding)
        return true;
    if (!gt__share_open(session))
        return false;
    if (session->spreading && !gt__spread_has_room(session))
        return false;
    gt_dispatch_worker *home = session->home;
    if (!home)
        return true;
    slots += home->owner != session->number ? 2 : 0; /* room for a mark, and for saying so */
    return gt__worker_room(home, slots);
}

/* There is room for the record: tell the worker whose it is. False: out of memory. */
static bool claim_home(gt_session *session, const gt_instruction *ins)
{
    gt_dispatch_worker *home = session->home;
    if (!needs_worker(ins) || session->holding || !home || home->owner == session->number)
        return true;
    gt__share_turn(home);
    return gt__worker_own(home, session->number);
}

/* A session that is not spread yet, and whose record will be: it waits in the line, not in the list of its home, where it would get turns
 * of other workers. If its scope cannot be placed, placement says so. */
static gt_err foresee_spread(gt_session *session, const gt_instruction *ins)
{
    gt_target *target = NULL;
    if (!session->spreading || session->account.spread || session->holding || ins->op >= GT_OP_FIRST_CONTROL ||
        gt__spread_target(session, ins, &target) != GT_OK || !target)
        return GT_OK;
    for (unsigned k = 0; k < target->count; k++)
        GT_TRY(gt__spread_reach(session, target->worker[k]));
    return GT_OK;
}

/* Whether a record can be placed now: there is room, and the worker knows the segment that the record names. */
static gt_err is_ready(gt_session *session, const gt_instruction *ins, bool *ready)
{
    uint64_t segment = ins->op == GT_OP_upload ? ins->imm[1].u : ins->op == GT_OP_fetch ? ins->imm[0].u : 0;
    bool shared = true;
    if (segment)
        GT_TRY(gt__relay_share(session, segment, &shared));
    GT_TRY(foresee_spread(session, ins));
    session->output.retry = !shared;
    /* Room last: sharing may find that the link is lost. */
    *ready = shared && has_room(session, ins) && claim_home(session, ins);
    return GT_OK;
}

/* The link of the session's worker must be armed for room before the loop sleeps. */
static void watch_home(const gt_session *session)
{
    if (session->home)
        gt__peer_wake(session->home->peer);
}

/* The session is served again when there is room, and it is its turn. The backlog of a client that is gone is not needed,
 * except for a log. */
static void wait_for_room(gt_session *session)
{
    session->peer->blocked = !session->output.retry;
    session->dispatcher->retry |= session->output.retry;
    watch_home(session);
    if (session->peer->blocked)
        gt__share_wait(session);
    if (session->link->gone && !session->dispatcher->observing)
        gt__link_kill(session->link, "%s", session->link->reason);
}

/* ---- waiting ------------------------------------------------------------------------------------------------ */

/* A record that waits is the tail of one of our own, which keeps its cause for the log. */
static void write_waiting(const gt_session *session, const gt_slot *record, gt_slot *out)
{
    unsigned length = 1u + record->ins.tail;
    out->ins = (gt_instruction){.tail = (uint16_t)length};
    gt__observe_cause(session->dispatcher, &out->ins.imm[0].u, &out->ins.imm[1].u);
    memcpy(out + 1, record, length * sizeof *record);
}

static bool append(gt_session *session, const gt_slot *record)
{
    unsigned slots = 2u + record->ins.tail;
    gt_slot *out = gt__slot_queue_reserve(&session->output.waiting, slots);
    if (!out)
        return false;
    write_waiting(session, record, out);
    gt__slot_queue_commit(&session->output.waiting, slots);
    return true;
}

gt_err gt__output_ready(gt_session *session, const gt_instruction *ins, bool *ready)
{
    GT_TRY(is_ready(session, ins, ready));
    if (!*ready)
        wait_for_room(session);
    return GT_OK;
}

gt_err gt__output_put(gt_session *session, const gt_slot *record)
{
    bool ready = false;
    if (!gt__output_waits(&session->output))
        GT_TRY(is_ready(session, &record->ins, &ready));
    if (ready)
        return gt__place(session, record);
    if (!gt__output_waits(&session->output))
        wait_for_room(session);
    if (append(session, record))
        return GT_OK;
    if (gt__slot_queue_slots(&session->output.waiting) + record->ins.tail + 2 <= MOST_SLOTS)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    return gt__fail(GT_ERR_MEMORY, "the stream modifiers made more than 64 MiB of records out of one");
}

gt_err gt__output_put_back(gt_session *session, const gt_slot *record)
{
    if (!gt__output_waits(&session->output))
        return gt__output_put(session, record);
    write_waiting(session, record, gt__slot_queue_unpop(&session->output.waiting, 2u + record->ins.tail));
    return GT_OK;
}

/* Place the record that waits longest. A run of a path may become records that wait in turn, so it leaves the queue first:
 * whether it had to wait is a matter of time, and must not decide in which way it is placed (spread/replay.c). */
static gt_err place_first(gt_session *session, const gt_slot *record)
{
    gt_slot run[GT_PATH_ROOM];
    bool is_run = record->ins.op == GT_OP_repeat;
    if (is_run) {
        memcpy(run, record, (1u + record->ins.tail) * sizeof *run);
        record = run;
        gt__slot_queue_pop(&session->output.waiting);
    }
    gt_err err = gt__place(session, record);
    if (!is_run)
        gt__slot_queue_pop(&session->output.waiting);
    return err;
}

gt_err gt__output_drain(gt_session *session, size_t *left)
{
    gt_slot_queue *waiting = &session->output.waiting;
    const gt_slot *entry;
    while (*left && (entry = gt__slot_queue_first(waiting))) {
        const gt_slot *record = entry + 1;
        bool ready;
        GT_TRY(gt__output_ready(session, &record->ins, &ready));
        if (!ready)
            return GT_OK;
        if (session->dispatcher->observing)
            gt__observe_resume(session, entry->ins.imm[0].u, entry->ins.imm[1].u);
        size_t slots = entry->ins.tail;
        if (session->home)
            gt__share_records(session, session->home, 1);
        *left -= slots < *left ? slots : *left;
        GT_TRY(place_first(session, record));
        if (session->home)
            gt__worker_flush_batch(session->home);
    }
    gt__slot_queue_relax(waiting);
    return GT_OK;
}

bool gt__output_has_room(gt_session *session)
{
    const gt_slot *entry = gt__slot_queue_first(&session->output.waiting);
    if (gt__recover_waits(session))
        return gt__recover_ready(session);
    if (gt__recover_keeps_later(session))
        return false;
    if (entry ? has_room(session, &entry[1].ins) : !gt__share_has_queued(session))
        return true;
    watch_home(session);
    return false;
}

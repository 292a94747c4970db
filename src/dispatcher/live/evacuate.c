/* evacuate.c: see evacuate.h. Place in the flow: drain.c -> here -> the streams of both workers. */
#include "dispatcher/live/evacuate.h"

#include "dispatcher/download.h"
#include "dispatcher/moves.h"
#include "dispatcher/recover/recover.h"
#include "dispatcher/spread/spread.h"
#include "dispatcher/state.h"
#include "dispatcher/worker_stream.h"

bool gt__session_uses(const gt_session *session, const gt_dispatch_worker *worker)
{
    const gt_spreading *spreading = session->spreading;
    return session->home == worker ||
           (spreading && worker->index < spreading->reached_capacity && spreading->reached[worker->index]);
}

/* The rest of a run that was begun belongs to the worker that began it (paths.c). */
static bool is_in_slices(const gt_session *session)
{
    const gt_slot *entry = gt__slot_queue_first(&session->output.waiting);
    return entry && entry[1].ins.op == GT_OP_repeat && entry[1].ins.imm[1].u;
}

const char *gt__evacuation_obstacle(gt_session *session)
{
    if (gt__recover_active(session))
        return "it is being recovered";
    if (session->fillings.lost_count)
        return "it has too many uploads that are not complete";
    if (gt__fillings_any(&session->fillings, &session->handles))
        return "an upload is not complete";
    return is_in_slices(session) ? "a run of a hot path is not complete" : NULL;
}

bool gt__evacuation_settled(gt_session *session, gt_dispatch_worker *from)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    if (session->moving.asked && session->moving.answered == session->moving.asked)
        return true;
    if (session->moving.asked)
        return false;
    gt__runs_begin(session);
    gt_slot *out = gt__worker_reserve(from, 1);
    gt__runs_end(session);
    gt_pending pending = {.session = session, .op = GT_OP_sync, .settles = dispatcher->next_tag};
    gt_instruction question = {.op = GT_OP_sync};
    if (!out || gt__pendings_add(&from->pendings, &pending, &question) != GT_OK)
        return false; /* out of memory: again in the next turn */
    out->ins = question;
    gt__worker_put(from, 1);
    session->moving.asked = dispatcher->next_tag++;
    return false;
}

/* ---- one tensor --------------------------------------------------------------------------------------------- */

typedef struct evacuation {
    gt_session *session;
    gt_dispatch_worker *from, *to;
    gt_moved moved;
    gt_layout *before, *after; /* the layout that was changed last, and what became of it: tensors share them */
} evacuation;

/* *slot on the one worker becomes a slot on the other. */
static gt_err move_slot(evacuation *e, const gt_handle *handle, const gt_meta *meta, uint32_t *slot)
{
    uint32_t arrives = gt__slot_number_new(&e->to->slots);
    if (!arrives)
        return gt__fail(GT_ERR_MEMORY, "too many tensors on worker %s", e->to->name);
    gt_move move = {.from = e->from, .to = e->to, .slot = *slot, .arrives = arrives, .meta = meta};
    move.scope = handle->scope;
    move.site = handle->site;
    GT_TRY(gt__worker_move(&move));
    gt__worker_free_tensor(e->from, *slot);
    *slot = arrives;
    size_t bytes = gt__meta_bytes(meta);
    e->moved.bytes += bytes;
    gt__share_bytes(e->session, e->to, bytes);
    return GT_OK;
}

/* The same layout with the other worker in the place of the one. */
static gt_layout *changed_layout(evacuation *e, gt_layout *layout)
{
    if (layout != e->before) {
        gt_layout *after = gt__layout_moved(layout, e->from->index, e->to->index);
        if (!after)
            return NULL;
        gt__layout_release(e->before);
        gt__layout_release(e->after);
        e->before = gt__layout_retain(layout);
        e->after = after;
    }
    return gt__layout_retain(e->after);
}

static gt_err move_spread(evacuation *e, const gt_handle *handle)
{
    gt_spread *spread = e->session->spreading->table[handle->slot];
    int member = gt__layout_find(spread->layout, e->from->index);
    bool touched = member >= 0;
    if (touched) {
        gt_meta part;
        gt_layout *layout = changed_layout(e, spread->layout);
        if (!layout)
            return gt__spread_no_memory();
        gt__layout_part(spread->layout, (unsigned)member, &handle->meta, &part);
        gt__layout_release(spread->layout);
        spread->layout = layout;
        GT_TRY(move_slot(e, handle, &part, &spread->slot[member]));
    }
    for (gt_whole_copy *copy = spread->copies; copy; copy = copy->next)
        if (copy->worker == e->from->index) {
            touched = true;
            copy->worker = e->to->index;
            GT_TRY(move_slot(e, handle, &handle->meta, &copy->slot));
        }
    e->moved.tensors += touched;
    return GT_OK;
}

static gt_err move_tensors(evacuation *e)
{
    uint32_t cursor = 0;
    gt_handle *handle;
    while ((handle = gt__handles_next(&e->session->handles, &cursor))) {
        if (handle->worker == GT_SPREAD)
            GT_TRY(move_spread(e, handle));
        if (handle->worker != e->from->index)
            continue;
        handle->worker = e->to->index;
        GT_TRY(move_slot(e, handle, &handle->meta, &handle->slot));
        e->moved.tensors++;
    }
    return GT_OK;
}

static gt_err move_downloads(evacuation *e)
{
    for (gt_download *download = e->session->downloads; download; download = download->next) {
        gt_meta row;
        gt_handle handle = {.id = download->tensor};
        GT_TRY(gt__meta_set(&row, download->dtype, 1, &download->elements));
        GT_TRY(move_slot(e, &handle, &row, &download->row));
    }
    return GT_OK;
}

/* ---- the session -------------------------------------------------------------------------------------------- */

uint64_t gt__evacuation_bytes(gt_session *session, const gt_dispatch_worker *worker)
{
    uint32_t cursor = 0;
    uint64_t bytes = 0;
    const gt_handle *handle;
    while ((handle = gt__handles_next(&session->handles, &cursor))) {
        const gt_spread *spread = handle->worker == GT_SPREAD ? session->spreading->table[handle->slot] : NULL;
        int member = spread ? gt__layout_find(spread->layout, worker->index) : -1;
        gt_meta part;
        if (handle->worker == worker->index)
            bytes += gt__meta_bytes(&handle->meta);
        if (member >= 0) {
            gt__layout_part(spread->layout, (unsigned)member, &handle->meta, &part);
            bytes += gt__meta_bytes(&part);
        }
        for (const gt_whole_copy *copy = spread ? spread->copies : NULL; copy; copy = copy->next)
            bytes += copy->worker == worker->index ? gt__meta_bytes(&handle->meta) : 0;
    }
    return bytes;
}

/* Behind all that arrives. */
static gt_err ask(const evacuation *e)
{
    gt_slot *out = gt__worker_reserve(e->to, 1);
    gt_pending pending = {.session = e->session, .op = GT_OP_sync, .departed = e->from->life};
    pending.bytes = e->moved.bytes;
    if (!out)
        return gt__spread_no_memory();
    gt_instruction question = {.op = GT_OP_sync};
    question.imm[0].u = (uint64_t)e->from->index + 1;
    GT_TRY(gt__pendings_add(&e->to->pendings, &pending, &question));
    out->ins = question;
    gt__worker_put(e->to, 1);
    e->from->leaving.unconfirmed++;
    e->to->leaving.arriving += e->moved.bytes;
    return GT_OK;
}

/* From now on the session has nothing on the worker, and what was recorded with it does not hold any more. */
static void let_go(const evacuation *e)
{
    gt_session *session = e->session;
    gt_spreading *spreading = session->spreading;
    gt__relays_take_back(session, e->from);
    if (spreading && e->from->index < spreading->reached_capacity)
        spreading->reached[e->from->index] = false;
    if (spreading)
        spreading->target_valid = false;
    session->dispatcher->worker_changes++;
    if (session->home == e->from) {
        e->from->sessions--;
        gt__session_give_home(session, e->to);
    }
    if (session->recovery) /* behind the new home, which the server's journal names */
        gt__recover_moved(session, e->from->index, e->to->index);
    session->moving.asked = 0;
    e->from->share.asked = true; /* the records that it still has count until a mark behind them is answered */
    gt__download_continue(session);
}

static gt_err evacuate(evacuation *e, bool named)
{
    gt_session *session = e->session;
    bool from_home = session->home == e->from;
    if (session->spreading && !gt__successors_pass(&session->successors, e->from->index, e->to->index, named))
        return gt__spread_no_memory();
    if (session->spreading)
        GT_TRY(gt__spread_reach(session, e->to->index));
    gt_err err = move_tensors(e);
    if (err == GT_OK && from_home) {
        gt__download_pause(session);
        err = move_downloads(e);
    }
    gt__layout_release(e->before);
    gt__layout_release(e->after);
    GT_TRY(err);
    gt__worker_flush_frees(e->from);
    if (e->moved.bytes || e->moved.tensors)
        GT_TRY(ask(e));
    let_go(e);
    return GT_OK;
}

gt_err gt__evacuate(gt_session *session, gt_dispatch_worker *from, gt_dispatch_worker *to, bool named,
                    gt_moved *moved)
{
    evacuation e = {.session = session, .from = from, .to = to};
    gt__share_stop_waiting(session);
    session->peer->blocked = false;
    gt__peer_wake(session->peer);
    gt__runs_begin(session);
    gt_err err = evacuate(&e, named);
    gt__runs_end(session);
    *moved = e.moved;
    return err;
}

void gt__evacuation_confirmed(gt_dispatcher *dispatcher, gt_dispatch_worker *receiver, const gt_pending *asked,
                              bool arrived)
{
    enum { NOTICED_MS = 3000 };
    if (asked->settles) {
        if (asked->session)
            asked->session->moving.answered = asked->settles;
        return;
    }
    receiver->leaving.arriving -= asked->bytes;
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        gt_dispatch_worker *worker = dispatcher->workers[index];
        if (!worker->peer || worker->life != asked->departed)
            continue;
        worker->leaving.unconfirmed--;
        if (arrived || !receiver->peer)
            continue;
        worker->leaving.lost_by_ns = gt__deadline_ns(NOTICED_MS);
        worker->link->ops->arm(worker->link); /* notices if it is dead */
        gt__peer_wake(worker->peer);
    }
}

bool gt__evacuation_open(const gt_session *session, const gt_dispatch_worker *worker)
{
    const gt_dispatcher *dispatcher = session->dispatcher;
    for (int32_t index = 0; worker->leaving.unconfirmed && index < dispatcher->worker_count; index++) {
        const gt_pendings *pendings = &dispatcher->workers[index]->pendings;
        for (uint32_t k = 0; k < pendings->count; k++) {
            const gt_pending *pending = gt__pendings_at(pendings, k);
            if (pending->departed == worker->life && pending->session == session)
                return true;
        }
    }
    return false;
}

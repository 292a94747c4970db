/* remains.c: see remains.h. Place in the flow: session.c and recover/keep.c -> here -> the workers' streams. */
#include "dispatcher/remains.h"

#include <stdlib.h>

#include "dispatcher/peer.h"
#include "dispatcher/recover/recover.h"
#include "dispatcher/session.h"
#include "dispatcher/spread/spread.h"
#include "dispatcher/state.h"
#include "dispatcher/worker_stream.h"

enum { AT_ONCE = 64 }; /* tensors between two looks whether the workers have room */

struct gt_remains {
    gt_remains *next;
    uint64_t session; /* its number; 0: there are no tensors */
    gt_handles handles;
    gt_spread **spreads; /* by handle->slot of those that are spread */
    gt_quota *quota;     /* NULL: they are not counted */
    gt_recovery *recovery;
    int32_t worker_count;
    uint64_t life[]; /* of each worker when the session ended: its successors have other tensors in these slots */
};

static gt_remains *keep(gt_dispatcher *dispatcher)
{
    size_t workers = (size_t)dispatcher->worker_count;
    gt_remains *remains = calloc(1, sizeof *remains + workers * sizeof remains->life[0]);
    if (!remains)
        return NULL;
    remains->worker_count = dispatcher->worker_count;
    for (size_t index = 0; index < workers; index++)
        remains->life[index] = dispatcher->workers[index]->life;
    remains->next = dispatcher->remains;
    dispatcher->remains = remains;
    return remains;
}

bool gt__remains_keep_tensors(gt_session *session)
{
    gt_spreading *spreading = session->spreading;
    gt_remains *remains = session->handles.count > GT_REMAINS_PIECE ? keep(session->dispatcher) : NULL;
    if (!remains)
        return false; /* or there is no memory: all at once */
    remains->session = session->number;
    remains->handles = session->handles;
    remains->quota = session->quota;
    session->handles = (gt_handles){0};
    session->quota = NULL;
    if (spreading) {
        remains->spreads = spreading->table;
        spreading->table = NULL;
    }
    return true;
}

void gt__remains_keep_recovery(gt_dispatcher *dispatcher, gt_recovery *recovery)
{
    gt_remains *remains = gt__recovery_tensors(recovery) > GT_REMAINS_PIECE ? keep(dispatcher) : NULL;
    if (remains)
        remains->recovery = recovery;
    else
        gt__recovery_free_some(&recovery, &(size_t){SIZE_MAX});
}

/* ---- pieces ------------------------------------------------------------------------------------------------- */

/* The worker that had them is still there. */
static bool is_there(const gt_dispatcher *dispatcher, const gt_remains *remains, int32_t index)
{
    const gt_dispatch_worker *worker = dispatcher->workers[index];
    return index < remains->worker_count && worker->peer && worker->life == remains->life[index];
}

/* Room in the stream of each worker. Otherwise the loop is woken when there is some. */
static bool has_room(const gt_dispatcher *dispatcher, const gt_remains *remains)
{
    for (int32_t index = 0; index < remains->worker_count; index++)
        if (is_there(dispatcher, remains, index) && !gt__worker_room(dispatcher->workers[index], AT_ONCE)) {
            gt__peer_wake(
                dispatcher->workers[index]->peer); /* its link is armed for room before the loop sleeps */
            return false;
        }
    return true;
}

static void free_slot(const gt_dispatcher *dispatcher, const gt_remains *remains, int32_t index, uint32_t slot)
{
    if (is_there(dispatcher, remains, index))
        gt__worker_free_tensor(dispatcher->workers[index], slot);
}

/* Its parts and copies. */
static void free_spread(const gt_dispatcher *dispatcher, const gt_remains *remains, gt_spread *spread)
{
    for (unsigned k = 0; k < spread->layout->count; k++)
        free_slot(dispatcher, remains, spread->layout->member[k].worker, spread->slot[k]);
    while (spread->copies) {
        gt_whole_copy *copy = spread->copies;
        free_slot(dispatcher, remains, copy->worker, copy->slot);
        spread->copies = copy->next;
        free(copy);
    }
    gt__layout_release(spread->layout);
    free(spread);
}

/* Returns whether there was one. */
static bool free_next(const gt_dispatcher *dispatcher, gt_remains *remains)
{
    const gt_handle *handle = gt__handles_pop(&remains->handles);
    if (!handle)
        return false;
    if (handle->worker == GT_SPREAD)
        free_spread(dispatcher, remains, remains->spreads[handle->slot]);
    else if (handle->worker != GT_NO_WORKER)
        free_slot(dispatcher, remains, handle->worker, handle->slot);
    if (remains->quota)
        gt__quota_drop(remains->quota, remains->handles.used);
    return true;
}

/* True: all its tensors are free. */
static bool free_tensors(const gt_dispatcher *dispatcher, gt_remains *remains, size_t *left)
{
    bool more = true;
    while (more && *left && has_room(dispatcher, remains)) {
        for (unsigned k = 0; more && k < AT_ONCE && *left; k++, --*left)
            more = free_next(dispatcher, remains);
        for (int32_t index = 0; index < remains->worker_count; index++)
            if (is_there(dispatcher, remains, index))
                gt__worker_flush_frees(dispatcher->workers[index]);
    }
    gt__handles_shrink(&remains->handles);
    return !more;
}

static void drop(gt_remains *remains)
{
    gt__quota_release(remains->quota);
    gt__handles_free(&remains->handles);
    free(remains->spreads);
    if (remains->recovery)
        gt__recovery_free_some(&remains->recovery, &(size_t){SIZE_MAX});
    free(remains);
}

bool gt__remains_turn(gt_dispatcher *dispatcher)
{
    bool progress = false;
    for (gt_remains **where = &dispatcher->remains, *remains; (remains = *where);) {
        size_t left = GT_REMAINS_PIECE;
        if (remains->recovery)
            gt__recovery_free_some(&remains->recovery, &left);
        bool done = (!remains->session || free_tensors(dispatcher, remains, &left)) && !remains->recovery;
        progress |= left < GT_REMAINS_PIECE || done;
        if (!done) {
            where = &remains->next;
            continue;
        }
        *where = remains->next;
        if (remains->session)
            gt__workers_session_left(dispatcher, remains->session);
        drop(remains);
    }
    return progress;
}

void gt__remains_free(gt_dispatcher *dispatcher)
{
    gt_remains *remains;
    while ((remains = dispatcher->remains)) {
        const gt_handle *handle;
        while ((handle = gt__handles_pop(&remains->handles)))
            if (handle->worker == GT_SPREAD)
                free_spread(dispatcher, remains, remains->spreads[handle->slot]);
        dispatcher->remains = remains->next;
        drop(remains);
    }
}

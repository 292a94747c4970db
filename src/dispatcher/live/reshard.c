/* reshard.c: see reshard.h. Place in the flow: reload.c, then drain.c every turn -> here -> spread/move.c. */
#include "dispatcher/live/reshard.h"

#include <stdlib.h>

#include "dispatcher/spread/spread.h"
#include "dispatcher/worker_stream.h"

/* What the scopes of a session asked for before, and ask for now: [2 * (scope - 1) + backward]. NULL: nothing. */
typedef struct changes {
    gt_target **before, **now;
    uint32_t count;
} changes;

static void changes_free(changes *c)
{
    for (uint32_t k = 0; k < c->count; k++) {
        gt__target_release(c->before[k]);
        gt__target_release(c->now[k]);
    }
    free(c->before);
    free(c->now);
}

static gt_err changes_find(gt_session *session, changes *c)
{
    uint32_t count = 2 * session->signals->count;
    *c = (changes){.before = calloc(count + 1, sizeof(*c->before)), .now = calloc(count + 1, sizeof(*c->now))};
    if (!c->before || !c->now)
        return gt__spread_no_memory();
    for (; c->count < count; c->count++) {
        uint32_t scope = c->count / 2 + 1;
        bool backward = c->count % 2;
        gt_target *now;
        c->before[c->count] = gt__target_retain(session->signals->scopes[scope - 1].target[backward]);
        gt_err err = gt__scope_target(session, scope, backward, &now);
        if (err == GT_OK)
            c->now[c->count] = gt__target_retain(now);
        else if (err == GT_ERR_MEMORY)
            return err; /* otherwise it names a worker that is not there: what has to be there is an error, what is there stays */
    }
    return GT_OK;
}

static bool is_over(const gt_layout *layout, const gt_target *target)
{
    if (layout->count != target->count)
        return false;
    for (unsigned k = 0; k < layout->count; k++)
        if (layout->member[k].worker != target->worker[k])
            return false;
    return true;
}

/* The layout that a tensor gets for which one target was asked before and another is now. *layout stays NULL: so does the
 * tensor. */
static gt_err changed(const gt_layout *have, gt_target *before, gt_target *now, const gt_meta *meta,
                      gt_layout **layout)
{
    gt_layout *exact = gt__target_layout(before, GT_FLAG_INNER, meta);
    if (!exact)
        return gt__spread_no_memory();
    bool as_said = gt__layout_equal(have, exact), over = have->kind != GT_MESHED && is_over(have, before);
    gt__layout_release(exact);
    if (!as_said && !over)
        return GT_OK;
    if (as_said)
        *layout = gt__target_layout(now, GT_FLAG_INNER, meta);
    else if (have->kind == GT_REPLICATED)
        *layout = gt__layout_asked(gt__layout_replicated(now->worker, now->count), now);
    else
        *layout =
            gt__layout_asked(gt__layout_even(have->axis, meta->shape[have->axis], now->worker, now->count), now);
    return *layout ? GT_OK : gt__spread_no_memory();
}

/* Where a tensor that is only on one worker goes: there is no layout of its own that knows its signal, but the instruction that made it
 * had one. */
static gt_err changed_single(gt_session *session, const changes *c, const gt_handle *handle,
                             const gt_layout *alone, gt_layout **layout)
{
    uint32_t at = 2 * (handle->scope - 1);
    if (!handle->scope || at >= c->count || !c->now[at] || !handle->meta.rank)
        return GT_OK;
    if (c->before[at])
        return gt__target_equal(c->before[at], c->now[at])
                   ? GT_OK
                   : changed(alone, c->before[at], c->now[at], &handle->meta, layout);
    if (session->home->index == alone->member[0].worker) /* no signal had asked for it */
        *layout = gt__target_layout(c->now[at], GT_FLAG_INNER, &handle->meta);
    return GT_OK;
}

static gt_err reshard_tensor(gt_session *session, const changes *c, gt_handle *handle, gt_moved *moved)
{
    gt_layout *layout = NULL;
    if (handle->worker == GT_NO_WORKER)
        return GT_OK;
    const gt_layout *have = gt__spread_source(session, handle).layout;
    if (!have)
        return gt__spread_no_memory();
    gt_target *asked = have->asked;
    uint32_t at = asked ? 2 * (asked->scope - 1) + asked->backward : 0;
    if (asked && at < c->count && c->now[at] && !gt__layout_is_partial(have) &&
        !gt__target_equal(asked, c->now[at]))
        GT_TRY(changed(have, asked, c->now[at], &handle->meta, &layout));
    if (!asked && have->count == 1)
        GT_TRY(changed_single(session, c, handle, have, &layout));
    if (!layout)
        return GT_OK;
    session->spreading->scope = handle->scope;
    session->spreading->site = handle->site;
    gt_err err = gt__spread_place(session, handle, layout);
    gt__layout_release(layout);
    gt__spread_free_temporaries(session);
    moved->tensors++;
    moved->bytes += gt__meta_bytes(&handle->meta);
    return err;
}

static gt_err reshard(gt_session *session, gt_moved *moved)
{
    changes c;
    uint32_t cursor = 0;
    gt_handle *handle;
    gt_err err = changes_find(session, &c);
    while (err == GT_OK && (handle = gt__handles_next(&session->handles, &cursor)))
        err = reshard_tensor(session, &c, handle, moved);
    changes_free(&c);
    gt__spread_turn_over(session);
    return err;
}

gt_err gt__reshard(gt_session *session, gt_moved *moved)
{
    *moved = (gt_moved){0};
    if (!session->spreading || !session->signals || !session->home)
        return GT_OK;
    gt__share_stop_waiting(session);
    session->peer->blocked = false;
    gt__peer_wake(session->peer);
    gt__runs_begin(session);
    gt_err err = reshard(session, moved);
    gt__runs_end(session);
    return err;
}

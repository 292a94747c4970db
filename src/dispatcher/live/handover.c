/* handover.c: see handover.h. Place in the flow: session.c and loop.c -> here. */
#include "dispatcher/live/handover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/record.h"
#include "dispatcher/answers.h"
#include "dispatcher/download.h"
#include "dispatcher/journal/journaled.h"
#include "dispatcher/live/evacuate.h"
#include "dispatcher/recover/recover.h"
#include "dispatcher/state.h"
#include "link/hello.h"
#include "link/parked.h"

enum {
    MOST_DETACHED = 1024, /* sessions: they have no descriptor that would limit them */
    PIECE = 1024,         /* tensors looked at in a turn */
};

void gt__handover_free(gt_session *session)
{
    gt_handover *handover = session->handover;
    if (!handover)
        return;
    if (handover->phase == GT_HANDOVER_DETACHED)
        session->dispatcher->detached--;
    if (handover->parked)
        gt__link_close(handover->parked);
    explicit_bzero(handover->token, sizeof handover->token);
    free(handover->parcel);
    free(handover->stays);
    free(handover);
    session->handover = NULL;
}

/* ---- detaching ---------------------------------------------------------------------------------------------- */

/* The first piece. */
static gt_err begin(gt_session *session, const gt_instruction *ins)
{
    uint64_t bytes = ins->operand[0], kept = ins->operand[1];
    if (session->journaled) /* until all tensors are sorted, and there is a token */
        gt__journaled_end(session, NULL);
    gt__handover_free(session); /* of the client before, whose parcel is not wanted any more */
    if (bytes > GT_MOST_PARCEL || kept > bytes / sizeof(uint64_t))
        return gt__fail(GT_ERR_PROTOCOL, "detach: a parcel of %llu bytes with %llu tensors; the most are %d bytes",
                        (unsigned long long)bytes, (unsigned long long)kept, GT_MOST_PARCEL);
    session->handover = calloc(1, sizeof *session->handover);
    if (!session->handover)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    *session->handover =
        (gt_handover){.phase = GT_HANDOVER_PARCEL, .bytes = bytes, .kept = kept, .ticket = ins->result};
    return gt__link_parked(session->link, &session->handover->parked);
}

/* As if the client had sent it. */
static gt_err send_free(gt_session *session, const gt_slot *record)
{
    gt_slot *journal = session->recovery ? gt__recover_reserve(session, &record->ins) : NULL;
    if (journal) {
        *journal = *record;
        gt__recover_note(session, journal);
    }
    return session->chain->ops->step(session->chain, record);
}

/* The tensors of the parcel must be the session's. They are marked. */
static gt_err mark_some(gt_session *session)
{
    gt_handover *handover = session->handover;
    const uint8_t *ids = handover->parcel + handover->bytes - handover->kept * sizeof(uint64_t);
    if (!handover->stays && !(handover->stays = calloc((size_t)session->handles.used / 8 + 1, 1)))
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    for (unsigned k = 0; k < PIECE && handover->marked < handover->kept; k++) {
        uint64_t id;
        memcpy(&id, ids + handover->marked++ * sizeof id, sizeof id);
        const gt_handle *handle = gt__handles_find(&session->handles, id);
        if (!handle && !session->left_out)
            return gt__fail(GT_ERR_PROTOCOL, "detach names tensor %llu, which does not exist",
                            (unsigned long long)id);
        size_t index = handle ? (size_t)(handle - session->handles.handles) : 0;
        if (handle)
            handover->stays[index / 8] |= (uint8_t)(1u << index % 8);
    }
    if (handover->marked == handover->kept)
        handover->phase = GT_HANDOVER_FREES;
    return GT_OK;
}

/* No client can name the others. */
static gt_err free_some(gt_session *session)
{
    gt_handover *handover = session->handover;
    const gt_handle *handle = NULL;
    gt_slot record = {0};
    unsigned ids = 0, looked = 0;
    while (looked++ < PIECE && (handle = gt__handles_next(&session->handles, &handover->cursor))) {
        size_t index = handover->cursor - 1;
        if (handover->stays[index / 8] & 1u << index % 8 || !gt__free_append(&record.ins, &ids, handle->id))
            continue;
        GT_TRY(send_free(session, &record));
        record = (gt_slot){0};
        ids = 0;
    }
    if (ids)
        GT_TRY(send_free(session, &record));
    if (handle)
        return GT_OK;
    handover->phase = GT_HANDOVER_WANTED;
    return gt__chain_flush(session->chain, GT_FLUSH_SYNC);
}

/* Go on with the tensors, a piece in each turn: there may be a million. A recovery makes the session's table anew. */
static gt_err sort_tensors(gt_session *session, bool *progress)
{
    gt_handover *handover = session->handover;
    if (gt__recover_active(session)) {
        free(handover->stays);
        handover->stays = NULL;
        handover->marked = handover->cursor = 0;
        handover->phase = GT_HANDOVER_MARKS;
        return GT_OK;
    }
    if (gt__output_waits(&session->output) || gt__recover_keeps(session) || gt__evacuation_awaited(session))
        return GT_OK;
    *progress = true;
    return handover->phase == GT_HANDOVER_MARKS ? mark_some(session) : free_some(session);
}

/* The session stays with its client. */
static gt_err refuse(gt_session *session, const char *why)
{
    gt__answer_failure(session, session->handover->ticket, GT_ERR_CONNECTION, why);
    gt__handover_free(session);
    gt__journaled_begin(session);
    return GT_OK;
}

/* The parcel is complete. */
static gt_err want_token(gt_session *session)
{
    if (session->dispatcher->monitors_only)
        return refuse(session, "this is a program's own server, which ends with it: no other can attach to it");
    if (session->dispatcher->detached >= MOST_DETACHED)
        return refuse(session, "the server keeps as many detached sessions as it can");
    session->handover->phase = GT_HANDOVER_MARKS;
    return gt__chain_flush(session->chain, GT_FLUSH_SYNC);
}

gt_err gt__handover_piece(gt_session *session, const gt_slot *record)
{
    const gt_instruction *ins = &record->ins;
    uint64_t offset = ins->imm[0].u, bytes = ins->imm[1].u;
    if (!offset)
        GT_TRY(begin(session, ins));
    gt_handover *handover = session->handover;
    if (!handover || handover->phase != GT_HANDOVER_PARCEL || offset != handover->received ||
        bytes > handover->bytes - handover->received || (!bytes && handover->bytes))
        return gt__fail(GT_ERR_PROTOCOL, "detach: a piece of the parcel is out of order");
    uint8_t *parcel = realloc(handover->parcel, handover->received + bytes + 1);
    if (!parcel)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    memcpy(parcel + handover->received, record + 1, bytes);
    handover->parcel = parcel;
    handover->received += bytes;
    return handover->received == handover->bytes ? want_token(session) : GT_OK;
}

/* The client has its token: it goes, and the session stays. */
static void park(gt_session *session)
{
    gt_handover *handover = session->handover;
    gt_dispatcher *dispatcher = session->dispatcher;
    gt_link *link = session->link;
    gt__relays_free(session); /* before their link is closed */
    /* Before the downloads are freed; and the next client must not get answers to questions that it never asked. */
    for (int32_t index = 0; index < dispatcher->worker_count; index++)
        gt__worker_forget_client(dispatcher->workers[index], session);
    gt__download_drop_all(session, NULL);
    gt__link_traffic_keep(dispatcher, session->peer);
    gt__peer_take_link(session->peer, handover->parked);
    session->link = handover->parked;
    handover->parked = NULL;
    handover->phase = GT_HANDOVER_DETACHED;
    dispatcher->detached++;
    gt__goodbye_send(link, "the session was detached");
    gt__link_close(link);
    gt__peer_log(session->peer, GT_LOG_STATUS, "is detached, with %u tensors", session->handles.count);
}

gt_err gt__handover_turn(gt_session *session, bool *progress)
{
    gt_handover *handover = session->handover;
    bool sorts = handover->phase == GT_HANDOVER_MARKS || handover->phase == GT_HANDOVER_FREES;
    bool open = sorts || handover->phase == GT_HANDOVER_WANTED || handover->phase == GT_HANDOVER_WRITTEN ||
                handover->phase == GT_HANDOVER_TOLD;
    if (open && session->link->gone) /* the token was not delivered: no client can attach */
        return gt__fail(GT_ERR_CONNECTION, "%s", session->link->reason);
    if (sorts)
        GT_TRY(sort_tensors(session, progress));
    bool placed = !gt__output_waits(&session->output) && !gt__recover_active(session) && !session->moving.wanted;
    if (handover->phase == GT_HANDOVER_WANTED && placed) {
        GT_TRY(gt__secret_make(handover->token));
        handover->expires_ns = gt__deadline_ns(session->dispatcher->detached_ms);
        handover->phase = GT_HANDOVER_WRITTEN;
        gt__journaled_begin(session);
    }
    if (handover->phase == GT_HANDOVER_WRITTEN && gt__journaled_is_safe(session)) {
        handover->phase = GT_HANDOVER_TOLD;
        gt__answer_bytes(session, handover->ticket, handover->token, strlen(handover->token));
    }
    if (handover->phase == GT_HANDOVER_TOLD && gt__slot_queue_empty(&session->unread))
        park(session);
    return GT_OK;
}

/* ---- attaching ---------------------------------------------------------------------------------------------- */

static gt_session *find(const gt_dispatcher *dispatcher, const char *token)
{
    gt_session *found = NULL;
    for (const gt_peer *peer = dispatcher->peers; peer; peer = peer->next)
        if (peer->session && gt__session_is_detached(peer->session) &&
            gt__secret_equal(token, peer->session->handover->token))
            found = peer->session;
    return found;
}

/* The session counts for another user from now on. Where that user's limits do not allow it, everything stays as it is. */
static gt_err change_user(gt_session *session, gt_peer *newcomer)
{
    gt_peer *peer = session->peer;
    GT_TRY(gt__quota_connect(newcomer));
    struct gt_user_account *before = peer->user;
    peer->user = newcomer->user;
    newcomer->user = before; /* who has one connection less when the newcomer ends */
    gt__quota_free(session);
    return gt__quota_apply(session);
}

gt_err gt__handover_take(gt_peer *newcomer, const gt_slot *hello)
{
    gt_dispatcher *dispatcher = newcomer->dispatcher;
    char token[GT_SECRET_SIZE] = "";
    memcpy(token, hello[4].bytes, sizeof token - 1);
    gt_session *session = find(dispatcher, token);
    if (!session)
        return gt__fail(
            GT_ERR_CONNECTION,
            "no session is detached under this token: it is wrong, was used already, has expired, or ended "
            "with a server");
    gt_peer *peer = session->peer;
    bool same = !strcmp(newcomer->link->user, peer->link->user);
    if (!same && !dispatcher->attach_by_any)
        return gt__fail(GT_ERR_CONNECTION,
                        "the session was detached by %s, and only that user may attach it (see gt server "
                        "--attach-by)",
                        *peer->link->user ? peer->link->user : "an unknown user");
    if (!same)
        GT_TRY(change_user(session, newcomer));
    gt_link *parked = peer->link;
    newcomer->link->lean = parked->lean;
    gt__peer_take_link(peer, newcomer->link);
    session->link = peer->link;
    newcomer->link = parked;
    session->handover->phase = GT_HANDOVER_TAKEN; /* the journal needs its token until the parcel is collected */
    if (session->journaled)
        gt__link_durable(session->link, 0);
    dispatcher->detached--;
    snprintf(session->name, sizeof session->name, "%.63s", (const char *)hello[1].bytes);
    gt__peer_log(peer, GT_LOG_STATUS, "is attached by %s", gt__link_name(peer->link));
    gt__session_welcome(session);
    gt__peer_wake(peer);
    return GT_OK;
}

gt_err gt__handover_collect(gt_session *session, const gt_slot *record)
{
    gt_handover *handover = session->handover;
    if (!handover || handover->phase != GT_HANDOVER_TAKEN)
        return gt__fail(GT_ERR_PROTOCOL, "attach: the session was not attached, or its parcel was collected");
    gt__answer_bytes(session, record->ins.result, handover->parcel, handover->bytes);
    gt__handover_free(session);
    gt__journaled_begin(session);
    return GT_OK;
}

/* ---- the end ------------------------------------------------------------------------------------------------ */

double gt__handover_left_s(const gt_session *session)
{
    return gt__remaining_ms(session->handover->expires_ns) / 1000.0;
}

void gt__handovers_look(gt_dispatcher *dispatcher)
{
    for (gt_peer *peer = dispatcher->peers, *next; peer; peer = next) {
        next = peer->next;
        if (!peer->session || !gt__session_is_detached(peer->session) ||
            gt__remaining_ms(peer->session->handover->expires_ns))
            continue;
        gt__peer_log(peer, GT_LOG_WARNING, "was detached, and not attached within %g s: its %u tensors are freed",
                     dispatcher->detached_ms / 1000.0, peer->session->handles.count);
        gt__peer_end(peer, "its token has expired");
    }
}

void gt__handovers_name(const gt_dispatcher *dispatcher)
{
    for (const gt_peer *peer = dispatcher->peers; peer && dispatcher->detached; peer = peer->next)
        if (peer->session && gt__session_is_detached(peer->session) && !peer->session->journaled)
            gt__peer_log(peer, GT_LOG_WARNING,
                         "is detached, and was not attached: its %u tensors are lost with the server",
                         peer->session->handles.count);
}

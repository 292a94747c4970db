/*
 * revive.c: see revive.h. Place in the flow: loop.c, once, before it runs -> here -> recover/recover.c, which waits for the workers.
 *
 * For a session, the end of the server is the loss of all workers: they rejoin without tensors. So what the journal says becomes what its
 * recovery keeps, and the recovery begins. Its client sends what the journal does not have.
 */
#include "dispatcher/journal/revive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/settings.h"
#include "dispatcher/journal/journaled.h"
#include "dispatcher/live/handover.h"
#include "dispatcher/recover/recover.h"
#include "dispatcher/state.h"
#include "link/expected.h"
#include "link/parked.h"

/* ---- workers ------------------------------------------------------------------------------------------------ */

/* Each has the number of its name when it joins. */
static gt_err revive_workers(gt_dispatcher *dispatcher, const gt_restored *restored)
{
    for (uint32_t k = 0; k < restored->worker_count; k++) {
        const gt_restored_worker *known = &restored->worker[k];
        gt_dispatch_worker *worker;
        GT_TRY(gt__worker_entry_add(dispatcher, &worker));
        worker->life = known->life;
        worker->relief = known->relief;
        snprintf(worker->name, sizeof worker->name, "%.*s", (int)sizeof known->name - 1, known->name);
        snprintf(worker->engine, sizeof worker->engine, "%.*s", (int)sizeof known->engine - 1, known->engine);
    }
    if (restored->worker_key)
        dispatcher->worker_key = restored->worker_key;
    dispatcher->lives = restored->lives;
    return GT_OK;
}

/* ---- sessions ----------------------------------------------------------------------------------------------- */

/* What the client has sent since the snapshot. */
static gt_err revive_records(gt_session *session, const gt_restored_session *known)
{
    gt_recovery *recovery = session->recovery;
    for (size_t at = 0; at < known->slots;) {
        const gt_slot *record = known->records + at;
        unsigned length;
        GT_TRY(gt__instruction_check(record, known->slots - at, &length));
        gt_slot *to = gt__journal_reserve(&recovery->journal, length);
        if (!to)
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        memcpy(to, record, length * sizeof *to);
        gt__journal_commit(&recovery->journal, length);
        if (record->ins.op == GT_OP_path)
            recovery->defining = record->ins.imm[0].u + record->ins.tail < record->ins.imm[1].u;
        session->instructions++;
        at += length;
    }
    return GT_OK;
}

/* Takes all that the session keeps out of `known`. */
static void take_state(gt_session *session, gt_restored_session *known)
{
    gt_recovery *recovery = session->recovery;
    size_t most = recovery->state.most;
    recovery->saved = known->saved;
    known->saved = NULL;
    recovery->state = known->state;
    recovery->state.most = most;
    known->state = (gt_slot_queue){0};
    recovery->refusals = known->refusals;
    recovery->refusal_count = recovery->refusal_capacity = known->refusal_count;
    known->refusals = NULL;
    known->refusal_count = 0;
    gt__texts_free(&session->sites);
    gt__texts_free(&session->reasons);
    session->sites = known->sites;
    session->reasons = known->reasons;
    known->sites = known->reasons = (gt_texts){0};
    session->left_out = known->left_out;
    known->left_out = NULL;
    session->successors = known->successors;
    known->successors = (gt_successors){0};
    session->epoch = recovery->saved ? recovery->saved->epoch + 1 : 1;
}

static gt_err check_successors(const gt_session *session)
{
    for (unsigned k = 0; k < session->successors.count; k++) {
        gt_successor entry = session->successors.list[k];
        if (entry.number >= session->dispatcher->worker_count || entry.worker >= session->dispatcher->worker_count)
            return gt__fail(GT_ERR_VALUE,
                            "the journal does not name worker %d, which has the tensors of worker %d",
                            entry.worker, entry.number);
    }
    return GT_OK;
}

/* It was detached, and waits for a client with its token. */
static gt_err revive_handover(gt_session *session, gt_restored_session *known)
{
    gt_handover *handover = session->handover = calloc(1, sizeof *handover);
    if (!handover)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    uint64_t now_ns = gt__frame_wall_ns(), most_ms = (uint64_t)session->dispatcher->detached_ms;
    uint64_t left_ms = known->until_ns > now_ns ? (known->until_ns - now_ns) / 1000000u : 0;
    *handover = (gt_handover){.phase = GT_HANDOVER_DETACHED,
                              .parcel = known->parcel,
                              .received = known->parcel_bytes,
                              .bytes = known->parcel_bytes,
                              .kept = known->parcel_kept,
                              .expires_ns = gt__deadline_ns((int)(left_ms < most_ms ? left_ms : most_ms))};
    known->parcel = NULL;
    snprintf(handover->token, sizeof handover->token, "%.*s", (int)sizeof handover->token - 1, known->token);
    session->dispatcher->detached++;
    session->unannounced = false; /* the next client is welcomed when it comes */
    return GT_OK;
}

static gt_err begin_session(gt_peer *peer, gt_restored_session *known)
{
    gt_dispatcher *dispatcher = peer->dispatcher;
    gt_slot hello[1 + GT_HELLO_TAIL] = {0};
    uint64_t next = dispatcher->next_session;
    snprintf((char *)hello[1].bytes, sizeof hello[1].bytes, "%.*s", (int)sizeof known->name - 1, known->name);
    peer->stranger = true;
    GT_TRY(gt__quota_connect(peer));
    dispatcher->next_session = known->number;
    gt_err err = gt__session_new(peer, hello);
    dispatcher->next_session = next;
    GT_TRY(err);
    gt_session *session = peer->session;
    if (!session->recovery)
        return gt__fail(GT_ERR_VALUE,
                        "it cannot be recovered: memory is short, or modifiers need to see all of it");
    GT_TRY(gt__share_weigh(session, known->weight));
    take_state(session, known);
    GT_TRY(check_successors(session));
    if (*known->token)
        GT_TRY(revive_handover(session, known));
    GT_TRY(revive_records(session, known));
    return gt__recover_restart(session, known->home, known->workers, known->worker_count);
}

/* The link of its client, who is expected; or one for the time until there is a client. */
static gt_err revive_link(gt_dispatcher *dispatcher, const gt_restored_session *known, gt_link **link)
{
    gt_link_expected expected = {.secret = known->secret,
                                 .user = known->user,
                                 .host = known->host,
                                 .key = known->key,
                                 .arrived = known->consumed,
                                 .within_ms = gt__setting_ms(GT_SETTING_RESUME)};
    GT_TRY(gt__acceptor_expect(dispatcher->acceptors[0], &expected, link));
    if (!*known->token)
        return GT_OK;
    gt_link *awaited = *link;
    gt_err err = gt__link_parked(awaited, link);
    gt__link_close(awaited);
    return err;
}

/* Without this session the others go on. */
static void revive_session(gt_dispatcher *dispatcher, gt_restored_session *known)
{
    gt_link *link;
    gt_err err = revive_link(dispatcher, known, &link);
    if (err == GT_OK)
        err = gt__dispatcher_adopt(dispatcher, link);
    if (err == GT_OK) {
        gt_peer *peer = dispatcher->peers;
        gt__link_durable(link, known->consumed);
        err = begin_session(peer, known);
        if (err == GT_OK) {
            gt__peer_log(peer, GT_LOG_STATUS, "is restored from the journal, %s",
                         *known->token ? "and detached" : "and expected");
            gt__journaled_begin(peer->session);
            return;
        }
        char reason[256];
        snprintf(reason, sizeof reason, "%s", gt_error_text());
        gt__peer_end(peer, reason);
        gt__log_error("client %llu (%s) is not restored from the journal: %s", (unsigned long long)known->number,
                      known->name, reason);
        return;
    }
    gt__log_error("client %llu (%s) is not restored from the journal: %s", (unsigned long long)known->number,
                  known->name, gt_error_text());
}

gt_err gt__dispatcher_revive(gt_dispatcher *dispatcher, const gt_dispatcher_options *options)
{
    gt_disk_journal_options journal = {.directory = options->journal, .bytes = options->journal_bytes};
    gt_restored *restored = NULL;
    if (options->journal_sync && !gt__journal_sync_read(options->journal_sync, &journal.sync))
        return gt__fail(GT_ERR_VALUE, "--journal-sync is always, interval or never, not '%s'",
                        options->journal_sync);
    GT_TRY(gt__disk_journal_open(dispatcher, &journal, &restored));
    gt_err err = revive_workers(dispatcher, restored);
    if (err == GT_OK) {
        dispatcher->next_session = restored->next_session > 1 ? restored->next_session : 1;
        dispatcher->next_segment = restored->next_segment > 1 ? restored->next_segment : 1;
        dispatcher->next_tag = restored->next_tag > 1 ? restored->next_tag : 1;
        gt__observer_tape_from(dispatcher, dispatcher->next_session);
        for (uint32_t k = 0; k < restored->session_count; k++)
            revive_session(dispatcher, restored->session[k]);
        gt__disk_journal_restored(dispatcher);
    }
    gt__restored_free(&restored);
    return err;
}

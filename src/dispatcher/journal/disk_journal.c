/*
 * disk_journal.c: the journal of a dispatcher as a whole: its life, its generations, and what is safe. See journaled.h.
 *
 * Sizes: a generation ends at half of --journal-size; what sessions keep, and thus a snapshot, is a quarter at most. So the old file with one
 * snapshot more and the new one with all sessions fit.
 */
#include "dispatcher/journal/disk_journal.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/log.h"
#include "dispatcher/live/handover.h"
#include "dispatcher/state.h"
#include "dispatcher/workers.h"

enum { MOST_BEHIND = 64 << 20 }; /* bytes that wait for the disk, before snapshots wait for it, too */

/* ---- sessions ------------------------------------------------------------------------------------------------- */

void gt__disk_journal_add(gt_session *session)
{
    gt_disk_journal *journal = session->dispatcher->journal;
    gt_journaled *journaled = session->journaled;
    journaled->next = journal->sessions;
    if (journaled->next)
        journaled->next->previous = journaled;
    journal->sessions = journaled;
}

static void take_out(gt_journaled *journaled)
{
    gt_session *session = journaled->session;
    session->journaled = NULL;
    *(journaled->previous ? &journaled->previous->next : &session->dispatcher->journal->sessions) =
        journaled->next;
    if (journaled->next)
        journaled->next->previous = journaled->previous;
    free(journaled);
}

/* A session that waits until all of it is safe goes on, if it is, or is not in the journal any more. */
static void rouse(gt_session *session)
{
    if (!gt__handover_waits_for_journal(session) || !gt__journaled_is_safe(session))
        return;
    gt__peer_wake(session->peer);
    session->dispatcher->journal->roused = true;
}

void gt__disk_journal_remove(gt_session *session)
{
    take_out(session->journaled);
    gt__link_durable(session->link, UINT64_MAX);
    gt__session_announce(session);
    rouse(session);
}

void gt__disk_journal_promise(gt_session *session)
{
    gt_journaled *journaled = session->journaled;
    gt_journal_promise promise = {.mark = gt__journal_mark(session->dispatcher->journal->writer),
                                  .consumed = journaled->consumed};
    *(journaled->awaited.mark ? &journaled->later : &journaled->awaited) = promise;
}

/* Keep the promises. The one that is awaited stays while others come: a disk that is always a little behind gives credit all the same. */
static void tell_links(gt_disk_journal *journal, uint64_t safe)
{
    for (gt_journaled *journaled = journal->sessions; journaled; journaled = journaled->next) {
        uint64_t consumed = 0;
        while (journaled->awaited.mark && journaled->awaited.mark <= safe) {
            consumed = journaled->awaited.consumed;
            journaled->awaited = journaled->later;
            journaled->later = (gt_journal_promise){0};
        }
        rouse(journaled->session);
        if (!consumed)
            continue;
        gt__link_durable(journaled->session->link, consumed);
        gt__session_announce(journaled->session);
    }
}

/* ---- generations ---------------------------------------------------------------------------------------------- */

/* Give up the largest sessions until the others fit. */
static void make_room(gt_disk_journal *journal)
{
    for (;;) {
        uint64_t all = 0, most = 0;
        gt_session *largest = NULL;
        for (const gt_journaled *journaled = journal->sessions; journaled; journaled = journaled->next) {
            uint64_t bytes = gt__journaled_bytes(journaled->session);
            largest = bytes > most ? journaled->session : largest;
            most = bytes > most ? bytes : most;
            all += bytes;
        }
        if (all <= journal->most / GT_JOURNAL_SHARE)
            return;
        gt__journaled_end(largest, "the programs together take more than a quarter of --journal-size");
    }
}

static void next_generation(gt_dispatcher *dispatcher)
{
    gt_disk_journal *journal = dispatcher->journal;
    make_room(journal);
    if (!gt__journal_put_generation(journal->writer))
        return; /* it is tried again, or has failed */
    gt__disk_journal_workers(dispatcher);
    for (gt_journaled *journaled = journal->sessions, *next; journaled; journaled = next) {
        next = journaled->next;
        gt__journaled_again(journaled->session);
    }
    if (!gt__journal_put_removal(journal->writer))
        gt__journal_spoil(journal->writer); /* it would never end */
}

void gt__disk_journal_workers(gt_dispatcher *dispatcher)
{
    gt_disk_journal *journal = dispatcher->journal;
    if (!journal || journal->failed)
        return;
    uint32_t count = (uint32_t)dispatcher->worker_count;
    gt_frame_workers *frame =
        gt__journal_put(journal->writer, GT_FRAME_WORKERS, 0, sizeof *frame + count * sizeof(gt_frame_worker));
    if (!frame) {
        gt__journal_spoil(journal->writer);
        return;
    }
    *frame = (gt_frame_workers){.worker_key = dispatcher->worker_key,
                                .lives = dispatcher->lives,
                                .next_session = dispatcher->next_session,
                                .next_segment = dispatcher->next_segment,
                                .next_tag = dispatcher->next_tag,
                                .count = count};
    gt_frame_worker *entry = (gt_frame_worker *)(frame + 1);
    for (uint32_t k = 0; k < count; k++) {
        const gt_dispatch_worker *worker = dispatcher->workers[k];
        entry[k] =
            (gt_frame_worker){.life = worker->life, .present = worker->peer != NULL, .relief = worker->relief};
        memcpy(entry[k].name, worker->name, sizeof worker->name);
        memcpy(entry[k].engine, worker->engine, sizeof worker->engine);
    }
}

/* ---- turns ---------------------------------------------------------------------------------------------------- */

/* The log has a line of why. */
static void give_up(gt_disk_journal *journal)
{
    journal->failed = true;
    while (journal->sessions)
        gt__disk_journal_remove(journal->sessions->session);
}

bool gt__disk_journal_turn(gt_dispatcher *dispatcher)
{
    gt_disk_journal *journal = dispatcher->journal;
    gt_journal_writer *writer = journal->writer;
    if (!journal->failed && gt__journal_bytes(writer) >= journal->most / 2 && !gt__journal_has_old(writer))
        next_generation(dispatcher);
    gt__journal_flush(writer);
    uint64_t safe = gt__journal_safe(writer);
    if (safe < gt__journal_mark(writer)) {
        gt__journal_await(writer); /* before it is looked at: it may grow in between */
        safe = gt__journal_safe(writer);
    }
    if (!journal->failed && gt__journal_failure(writer))
        give_up(journal);
    if (journal->failed) /* nothing gets safe any more, but tensors that were to be written are given back */
        gt__journal_reap(writer);
    if (safe != journal->safe) {
        journal->safe = safe;
        gt__journal_reap(writer);
        tell_links(journal, safe);
    }
    bool roused = journal->roused;
    journal->roused = false;
    return roused;
}

bool gt__disk_journal_is_behind(const gt_dispatcher *dispatcher)
{
    return dispatcher->journal && gt__journal_behind(dispatcher->journal->writer) > MOST_BEHIND;
}

/* ---- life ----------------------------------------------------------------------------------------------------- */

static void wake(void *dispatcher)
{
    gt__dispatcher_wake(dispatcher);
}

gt_err gt__disk_journal_open(gt_dispatcher *dispatcher, const gt_disk_journal_options *options, gt_restored **out)
{
    gt_journal_writer_options how = {.directory = options->directory,
                                     .port = dispatcher->port,
                                     .sync = options->sync,
                                     .notify = wake,
                                     .context = dispatcher};
    gt_restored *restored;
    *out = NULL;
    GT_TRY(gt__journal_lock(options->directory, &how.lock));
    gt_err err = gt__restored_read(options->directory, dispatcher->port, &restored);
    gt_disk_journal *journal = err == GT_OK ? calloc(1, sizeof *journal) : NULL;
    if (err == GT_OK && !journal)
        err = gt__fail(GT_ERR_MEMORY, "out of memory");
    if (err != GT_OK) {
        close(how.lock);
        gt__restored_free(&restored);
        return err;
    }
    how.generation = restored->generation;
    how.oldest = restored->oldest;
    how.sequence = restored->sequence;
    journal->most = options->bytes ? options->bytes : GT_JOURNAL_BYTES;
    journal->next_tensor = 1;
    err = gt__journal_writer_new(&how, &journal->writer);
    if (err != GT_OK) {
        free(journal);
        gt__restored_free(&restored);
        return err;
    }
    dispatcher->journal = journal;
    *out = restored;
    return GT_OK;
}

void gt__disk_journal_restored(gt_dispatcher *dispatcher)
{
    gt_disk_journal *journal = dispatcher->journal;
    gt__disk_journal_workers(dispatcher);
    if (gt__journal_has_old(journal->writer) && !gt__journal_put_removal(journal->writer))
        gt__journal_spoil(journal->writer);
}

void gt__disk_journal_close(gt_dispatcher *dispatcher)
{
    gt_disk_journal *journal = dispatcher->journal;
    if (!journal)
        return;
    while (journal->sessions) /* their links get no more credit: what comes from now on is not in the journal */
        take_out(journal->sessions);
    gt__journal_writer_free(&journal->writer);
    free(journal);
    dispatcher->journal = NULL;
}

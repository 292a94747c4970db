/*
 * journaled.c: what sessions write to the journal. See journaled.h. Place in the flow: session.c and keep.c -> here -> writer.c; disk_journal.c
 * begins generations and tells links what is safe.
 */
#include "dispatcher/journal/journaled.h"

#include <stdlib.h>

#include "core/log.h"
#include "dispatcher/journal/codec.h"
#include "dispatcher/journal/disk_journal.h"
#include "dispatcher/live/handover.h"
#include "dispatcher/state.h"

static const char no_memory[] = "memory is short", from_segments[] = "it uploads from shared memory";

/* ---- parts of the recovery ------------------------------------------------------------------------------------ */

/* Slots of the journal before a position. */
static uint64_t slots_before(const gt_journal *journal, gt_journal_position position)
{
    uint64_t slots = 0;
    for (const gt_journal_block *block = journal->first; block && position.block; block = block->next) {
        slots += block == position.block ? position.at : block->used;
        if (block == position.block)
            break;
    }
    return slots - (position.block ? journal->start : 0);
}

static uint64_t slots_in(const gt_journal *journal)
{
    return slots_before(journal, gt__journal_end(journal));
}

static size_t text_bytes(const char *text)
{
    return sizeof(gt_frame_text) + (strlen(text) + 7) / 8 * 8;
}

static size_t texts_bytes(const gt_texts *texts, uint32_t from)
{
    size_t bytes = 0;
    for (uint32_t k = from; k < texts->count; k++)
        bytes += text_bytes(texts->text[k]);
    return bytes;
}

static uint8_t *put_text(uint8_t *to, const char *text)
{
    gt_frame_text *head = (gt_frame_text *)to;
    head->bytes = strlen(text);
    memcpy(head + 1, text, head->bytes);
    return to + text_bytes(text);
}

static uint8_t *put_texts(uint8_t *to, const gt_texts *texts, uint32_t from)
{
    for (uint32_t k = from; k < texts->count; k++)
        to = put_text(to, texts->text[k]);
    return to;
}

/* Whether it has no client, and a token for the next one. */
static bool waits_for_client(const gt_session *session)
{
    return session->handover && *session->handover->token;
}

/* What its data takes, or the failure in its place. */
static uint64_t part_bytes(const gt_saved_part *part)
{
    const gt_slot *failure = part->failure;
    return failure ? gt__frame_size(sizeof(gt_frame_failure) + (1u + failure->ins.tail) * sizeof *failure)
                   : gt__frame_size(sizeof(gt_frame_data) + gt__meta_bytes(&part->meta));
}

/* With the first `void_slots` of its records left out. */
static uint64_t bytes_without(const gt_session *session, uint64_t void_slots)
{
    const gt_recovery *recovery = session->recovery;
    const gt_snapshot *saved = recovery->saved;
    uint64_t bytes = (slots_in(&recovery->journal) - void_slots) * sizeof(gt_slot) +
                     recovery->refusal_count * sizeof(gt_frame_refusal);
    bytes += sizeof(gt_frame_session) + sizeof(gt_frame_turn) + texts_bytes(&session->sites, 0) +
             texts_bytes(&session->reasons, 0);
    bytes += saved ? saved->state * sizeof(gt_slot) : 0;
    bytes += waits_for_client(session) ? sizeof(gt_frame_detached) + session->handover->bytes : 0;
    for (uint32_t k = 0; saved && k < saved->count; k++) {
        bytes += gt__frame_size(gt__saved_frame_bytes(saved->tensor[k])) + sizeof(uint64_t);
        for (unsigned part = 0; part < saved->tensor[k]->part_count; part++)
            bytes += part_bytes(&saved->tensor[k]->part[part]);
    }
    return bytes;
}

uint64_t gt__journaled_bytes(const gt_session *session)
{
    return bytes_without(session, 0);
}

/* ---- turns ---------------------------------------------------------------------------------------------------- */

/* The numbers of the workers that it goes on with; returns how many. How a sharded session places its next tensors depends on who is there: the
 * server that is started again must not go on with fewer. */
static uint32_t used_workers(const gt_session *session, int32_t *workers)
{
    uint32_t count = 0;
    bool many = session->spreading || session->recovery->needed;
    for (int32_t index = 0; many && index < session->dispatcher->worker_count && index < GT_MAX_PARTIES; index++) {
        const gt_dispatch_worker *worker = session->dispatcher->workers[index];
        bool stays = worker->peer && !worker->leaving.wanted;
        if (gt__recover_uses(session, index) || (session->spreading && stays))
            workers[count++] = index;
    }
    return count;
}

/* The number of its home worker, also while it waits for that one; -1: it has none. */
static int32_t home_of(const gt_session *session)
{
    return session->home ? session->home->index : gt__recover_active(session) ? session->recovery->home : -1;
}

/* Some slots of the turn, which others follow. */
static bool put_slots(gt_session *session, const gt_slot *slots, uint32_t count)
{
    gt_journaled *journaled = session->journaled;
    gt_frame_turn *turn = gt__journal_put(session->dispatcher->journal->writer, GT_FRAME_TURN, session->number,
                                          sizeof *turn + count * sizeof *slots);
    if (!turn)
        return false;
    *turn = (gt_frame_turn){
        .first = journaled->next_slot, .slots = count, .weight = session->account.weight, .home = -1};
    memcpy(turn + 1, slots, count * sizeof *slots);
    journaled->next_slot += count;
    return true;
}

/* The last frame of a turn: some slots, and all the rest. */
static bool put_last(gt_session *session, const gt_slot *slots, uint32_t count)
{
    gt_journaled *journaled = session->journaled;
    const gt_recovery *recovery = session->recovery;
    int32_t workers[GT_MAX_PARTIES];
    uint32_t worker_count = used_workers(session, workers);
    uint32_t refusals = recovery->refusal_count - journaled->refusals;
    bool left_out = session->left_out && !journaled->left_out;
    size_t worker_bytes = (worker_count * sizeof *workers + 7) / 8 * 8;
    size_t bytes = sizeof(gt_frame_turn) + count * sizeof *slots + worker_bytes +
                   refusals * sizeof(gt_frame_refusal) + texts_bytes(&session->sites, journaled->sites) +
                   texts_bytes(&session->reasons, journaled->reasons) +
                   (left_out ? text_bytes(session->left_out) : 0);
    gt_frame_turn *turn =
        gt__journal_put(session->dispatcher->journal->writer, GT_FRAME_TURN, session->number, bytes);
    if (!turn)
        return false;
    *turn = (gt_frame_turn){.consumed = journaled->consumed,
                            .first = journaled->next_slot,
                            .slots = count,
                            .last = 1,
                            .weight = session->account.weight,
                            .home = home_of(session),
                            .workers = worker_count,
                            .refusals = refusals,
                            .sites = session->sites.count - journaled->sites,
                            .reasons = session->reasons.count - journaled->reasons,
                            .left_out = left_out};
    uint8_t *at = (uint8_t *)(turn + 1);
    if (count)
        memcpy(at, slots, count * sizeof *slots);
    at += count * sizeof *slots;
    memcpy(at, workers, worker_count * sizeof *workers);
    gt_frame_refusal *refusal = (gt_frame_refusal *)(at + worker_bytes);
    for (uint32_t k = 0; k < refusals; k++) {
        const gt_refusal *from = &recovery->refusals[journaled->refusals + k];
        refusal[k] =
            (gt_frame_refusal){.id = from->id, .limit = from->limit, .used = from->used, .more = from->more};
    }
    at = put_texts((uint8_t *)(refusal + refusals), &session->sites, journaled->sites);
    at = put_texts(at, &session->reasons, journaled->reasons);
    if (left_out)
        put_text(at, session->left_out);
    journaled->next_slot += count;
    journaled->refusals = recovery->refusal_count;
    journaled->sites = session->sites.count;
    journaled->reasons = session->reasons.count;
    journaled->left_out |= left_out;
    return true;
}

/* All that is not written yet. Records never span two blocks. */
static bool put_turn(gt_session *session)
{
    gt_journaled *journaled = session->journaled;
    const gt_journal *journal = &session->recovery->journal;
    gt_journal_position *at = &journaled->written;
    if (!at->block)
        *at = gt__journal_start(journal);
    for (; at->block && at->block->next; *at = (gt_journal_position){.block = at->block->next})
        if (at->at < at->block->used && !put_slots(session, at->block->slots + at->at, at->block->used - at->at))
            return false;
    uint32_t left = at->block ? at->block->used - at->at : 0;
    if (!put_last(session, left ? at->block->slots + at->at : NULL, left))
        return false;
    at->at += left;
    gt__disk_journal_promise(session);
    return true;
}

static uint64_t consumed_by(const gt_session *session)
{
    gt_link_slots slots = {0};
    session->link->ops->slots(session->link, &slots);
    return slots.received;
}

bool gt__journaled_is_safe(const gt_session *session)
{
    return !session->journaled || !session->journaled->awaited.mark;
}

bool gt__journaled_needs_snapshot(const gt_session *session)
{
    return session->journaled &&
           session->recovery->journal.bytes >= session->dispatcher->journal->most / GT_JOURNAL_LONG;
}

void gt__journaled_turn(gt_session *session)
{
    gt_journaled *journaled = session->journaled;
    uint64_t consumed = consumed_by(session);
    if (consumed == journaled->consumed && session->recovery->refusal_count == journaled->refusals)
        return;
    journaled->consumed = consumed;
    if (gt__journaled_needs_snapshot(session))
        session->recovery->look_ns = 0; /* uploads take no time of workers: its clock may stand still */
    if (session->recovery->holds.count)
        gt__journaled_end(session, from_segments);
    else if (!put_turn(session))
        gt__journaled_end(session, no_memory);
}

/* ---- snapshots ------------------------------------------------------------------------------------------------ */

static void release_saved(void *saved)
{
    gt__saved_release(saved);
}

static bool put_failure(gt_session *session, const gt_saved *saved, uint32_t part)
{
    const gt_slot *failure = saved->part[part].failure;
    size_t bytes = (1u + failure->ins.tail) * sizeof *failure;
    gt_frame_failure *frame = gt__journal_put(session->dispatcher->journal->writer, GT_FRAME_FAILURE,
                                              session->number, sizeof *frame + bytes);
    if (!frame)
        return false;
    *frame = (gt_frame_failure){.number = saved->journal_number, .part = part};
    memcpy(frame + 1, failure, bytes);
    return true;
}

/* A tensor with its data. Its memory, or its place on the disk, stays as it is until it is written. */
static bool put_tensor(gt_session *session, gt_saved *saved)
{
    gt_disk_journal *journal = session->dispatcher->journal;
    void *frame = gt__journal_put(journal->writer, GT_FRAME_TENSOR, session->number, gt__saved_frame_bytes(saved));
    if (!frame)
        return false;
    saved->journal_number = journal->next_tensor++;
    gt__saved_encode(saved, saved->journal_number, frame);
    for (unsigned k = 0; k < saved->part_count; k++) {
        const gt_saved_part *part = &saved->part[k];
        gt_journal_source source = {.data = part->data,
                                    .spooled = part->spooled,
                                    .bytes = gt__meta_bytes(&part->meta),
                                    .release = release_saved,
                                    .context = saved};
        if (part->failure) {
            if (!put_failure(session, saved, k))
                return false;
            continue;
        }
        if (!source.bytes)
            continue;
        if (!gt__journal_put_data(journal->writer, session->number, saved->journal_number, k, &source))
            return false;
        saved->references++;
    }
    return true;
}

/* The CUT, behind the tensors that this description of the session does not have yet. */
static bool put_snapshot(gt_session *session, gt_snapshot *saved, uint64_t slot, uint64_t refusal)
{
    gt_journal_writer *writer = session->dispatcher->journal->writer;
    for (uint32_t k = 0; k < saved->count; k++)
        if (saved->tensor[k]->journal_number < session->journaled->first_tensor &&
            !put_tensor(session, saved->tensor[k]))
            return false;
    size_t bytes = sizeof(gt_frame_cut) + saved->count * sizeof(uint64_t);
    gt_frame_cut *cut = gt__journal_put(writer, GT_FRAME_CUT, session->number, bytes);
    if (!cut)
        return false;
    *cut = (gt_frame_cut){.record = slot,
                          .refusal = refusal,
                          .epoch = saved->epoch,
                          .sums_when = saved->sums_when,
                          .tensors = saved->count};
    uint64_t *numbers = (uint64_t *)(cut + 1);
    for (uint32_t k = 0; k < saved->count; k++)
        numbers[k] = saved->tensor[k]->journal_number;
    return true;
}

/* Uploads that lie in segments of the client are not read by the writer: the client may use them for something else. */
static bool has_holds(const gt_recovery *recovery, const gt_snapshot *saved)
{
    for (uint32_t k = 0; saved && k < saved->count; k++)
        for (unsigned part = 0; part < saved->tensor[k]->part_count; part++)
            if (saved->tensor[k]->part[part].hold)
                return true;
    return recovery->holds.count;
}

/* Why it cannot be in the journal; NULL: it can. The first `void_slots` of its records are needed no more. */
static const char *unfit(const gt_session *session, uint64_t void_slots)
{
    const gt_recovery *recovery = session->recovery;
    if (has_holds(recovery, recovery->saved))
        return from_segments;
    if (bytes_without(session, void_slots) > session->dispatcher->journal->most / GT_JOURNAL_SHARE)
        return "its tensors and instructions take more than a quarter of --journal-size";
    return NULL;
}

void gt__journaled_cut(gt_session *session)
{
    gt_journaled *journaled = session->journaled;
    const gt_recovery *recovery = session->recovery;
    gt_snapshot *saved = recovery->saved;
    uint64_t before = slots_before(&recovery->journal, saved->position), all = slots_in(&recovery->journal);
    const char *why = unfit(session, before);
    if (!why) {
        journaled->consumed = consumed_by(session);
        why = put_turn(session) && put_snapshot(session, saved, journaled->first_slot + before,
                                                journaled->first_refusal + saved->refused)
                  ? NULL
                  : no_memory;
    }
    if (why) {
        gt__journaled_end(session, why);
        return;
    }
    journaled->first_slot += before;
    journaled->first_refusal += saved->refused;
    journaled->refusals -= saved->refused;
    if (before == all) /* its last block is used again from the beginning */
        journaled->written = (gt_journal_position){0};
}

/* ---- whole sessions ------------------------------------------------------------------------------------------- */

/* The state before the snapshot, in frames of whole records. */
static bool put_state(const gt_session *session, size_t slots)
{
    const gt_slot *state = session->recovery->state.slots;
    for (size_t at = 0; at < slots;) {
        size_t end = at;
        while (end < slots && (end - at) * sizeof *state < GT_JOURNAL_PIECE)
            end += 1u + state[end].ins.tail;
        void *frame = gt__journal_put(session->dispatcher->journal->writer, GT_FRAME_STATE, session->number,
                                      (end - at) * sizeof *state);
        if (!frame)
            return false;
        memcpy(frame, state + at, (end - at) * sizeof *state);
        at = end;
    }
    return true;
}

/* Who may attach it, if it is detached. */
static bool put_detached(const gt_session *session)
{
    const gt_handover *handover = session->handover;
    if (!waits_for_client(session))
        return true;
    gt_frame_detached *frame = gt__journal_put(session->dispatcher->journal->writer, GT_FRAME_DETACHED,
                                               session->number, sizeof *frame + handover->bytes);
    if (!frame)
        return false;
    _Static_assert(sizeof frame->token >= sizeof handover->token, "it has the 0 at its end, too");
    memcpy(frame->token, handover->token, sizeof handover->token);
    frame->until_ns = gt__frame_wall_ns() + (uint64_t)gt__remaining_ms(handover->expires_ns) * 1000000u;
    frame->bytes = handover->bytes;
    frame->kept = handover->kept;
    memcpy(frame + 1, handover->parcel, handover->bytes);
    return true;
}

static bool put_successors(const gt_session *session)
{
    const gt_successors *successors = &session->successors;
    if (!successors->count)
        return true;
    gt_frame_successor *list = gt__journal_put(session->dispatcher->journal->writer, GT_FRAME_SUCCESSORS,
                                               session->number, successors->count * sizeof *list);
    for (unsigned k = 0; list && k < successors->count; k++)
        list[k] = (gt_frame_successor){.number = successors->list[k].number, .worker = successors->list[k].worker};
    return list;
}

static bool describe(gt_session *session)
{
    gt_disk_journal *journal = session->dispatcher->journal;
    gt_journaled *journaled = session->journaled;
    const gt_recovery *recovery = session->recovery;
    const gt_link *link = session->link;
    gt_frame_session *frame = gt__journal_put(journal->writer, GT_FRAME_SESSION, session->number, sizeof *frame);
    if (!frame)
        return false;
    if (!waits_for_client(session))
        memcpy(frame->secret, gt__link_secret(link), sizeof frame->secret);
    memcpy(frame->user, link->user, sizeof link->user);
    memcpy(frame->host, link->host, sizeof link->host);
    memcpy(frame->key, link->key, sizeof link->key);
    memcpy(frame->name, session->name, sizeof session->name);
    frame->first_record = journaled->first_slot;
    frame->first_refusal = journaled->first_refusal;
    journaled->written = (gt_journal_position){0};
    journaled->next_slot = journaled->first_slot;
    journaled->refusals = journaled->sites = journaled->reasons = 0;
    journaled->left_out = false;
    journaled->first_tensor = journal->next_tensor;
    if (!put_detached(session) || !put_successors(session))
        return false;
    if (recovery->saved &&
        (!put_state(session, recovery->saved->state) ||
         !put_snapshot(session, recovery->saved, journaled->first_slot, journaled->first_refusal)))
        return false;
    journaled->consumed = consumed_by(session);
    return put_turn(session);
}

void gt__journaled_again(gt_session *session)
{
    const char *why = unfit(session, 0);
    if (!why && !describe(session))
        why = no_memory;
    if (why)
        gt__journaled_end(session, why);
}

void gt__journaled_begin(gt_session *session)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    if (!dispatcher->journal || dispatcher->journal->failed) {
        gt__session_announce(session);
        return;
    }
    bool comes_back = waits_for_client(session) || gt__link_secret(session->link);
    const char *why = !session->recovery ? "it is not recoverable"
                      : !comes_back      ? "its link ends with the server"
                                         : NULL;
    if (session->journaled) { /* with another client */
        session->journaled->awaited = session->journaled->later = (gt_journal_promise){0};
        gt__link_durable(session->link, 0);
        if (why)
            gt__journaled_end(session, why);
        else
            gt__journaled_again(session);
        return;
    }
    session->journaled = why ? NULL : calloc(1, sizeof *session->journaled);
    if (!session->journaled) {
        gt__peer_log(session->peer, GT_LOG_STATUS, "is not in the journal: %s", why ? why : no_memory);
        gt__session_announce(session);
        return;
    }
    session->journaled->session = session;
    gt__disk_journal_add(session);
    gt__link_durable(session->link, 0);
    gt__journaled_again(session);
}

void gt__journaled_end(gt_session *session, const char *why)
{
    gt_disk_journal *journal = session->dispatcher->journal;
    if (why && !gt__journal_failure(journal->writer)) /* of which the log has a line */
        gt__peer_log(session->peer, GT_LOG_WARNING,
                     "ends with the server from now on, without a place in the journal: %s", why);
    /* What the journal has of it would be wrong: rather none of it than that. */
    if (!gt__journal_put(journal->writer, GT_FRAME_END, session->number, 0))
        gt__journal_spoil(journal->writer);
    gt__disk_journal_remove(session);
}

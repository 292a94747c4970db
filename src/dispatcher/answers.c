/* answers.c: see answers.h. Place in the flow: workers.c, place.c -> here -> the client's link. */
#include "dispatcher/answers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatcher/spread/spread.h"
#include "dispatcher/state.h"
#include "dispatcher/stats.h"

enum {
    MOST_UNREAD_MIB = 64, /* of answers that a client may leave unread */
    MOST_UNREAD = (MOST_UNREAD_MIB << 20) / (int)sizeof(gt_slot),
};

void gt__answers_init(gt_session *session)
{
    session->unread.most = MOST_UNREAD;
}

bool gt__answers_flush(gt_session *session)
{
    const gt_slot *record;
    bool progress = false;
    while ((record = gt__slot_queue_first(&session->unread))) {
        unsigned length = 1u + record->ins.tail;
        gt_slot *out = gt__link_reserve(session->link, length);
        if (!out)
            break;
        memcpy(out, record, length * sizeof *out);
        gt__link_commit(session->link, length);
        session->link->records_sent++;
        gt__slot_queue_pop(&session->unread);
        progress = true;
    }
    gt__slot_queue_relax(&session->unread);
    return progress;
}

/* The client leaves too much unread: it gets nothing more, except for the reason. What waits is of no use: the link has no
 * room for it. */
static void give_up(gt_session *session)
{
    gt_slot_queue *unread = &session->unread;
    bool full = gt__slot_queue_slots(unread) + GT_LINK_MAX_RESERVE > unread->most;
    if (full)
        snprintf(session->lost, sizeof session->lost,
                 "the client has left %d MiB of answers unread: it must read them while it asks for more",
                 MOST_UNREAD_MIB);
    else
        snprintf(session->lost, sizeof session->lost, "out of memory for the client's answers");
    session->ended = true;
    gt__slot_queue_free(unread);
    gt__share_stop_waiting(session); /* it is served once more, to end */
    session->peer->blocked = false;
}

void gt__answer_send(gt_session *session, const gt_slot *record)
{
    unsigned length = 1u + record->ins.tail;
    if (session->ended)
        return;
    if (record->ins.op == GT_OP_failure)
        gt__failures_note(session, record);
    gt_slot *out = gt__slot_queue_empty(&session->unread) ? gt__link_reserve(session->link, length) : NULL;
    if (out) {
        memcpy(out, record, length * sizeof *out);
        gt__link_commit(session->link, length);
        session->link->records_sent++;
    } else if (!session->link->gone && !gt__slot_queue_append(&session->unread, record))
        give_up(session);
    gt__peer_wake(session->peer);
}

void gt__answer_failure(gt_session *session, uint64_t ticket, gt_err err, const char *text)
{
    gt__observe_refused(session, ticket, text);
    gt_slot record[1 + 32] = {0};
    size_t bytes = strlen(text), most = sizeof record - sizeof record[0];
    bytes = bytes < most ? bytes : most;
    record->ins.op = GT_OP_failure;
    record->ins.tail = (uint16_t)gt__slots_for(bytes);
    record->ins.result = ticket;
    record->ins.imm[0].i = err;
    record->ins.imm[1].u = bytes;
    memcpy(record + 1, text, bytes);
    gt__answer_send(session, record);
}

gt_err gt__answer_unknown(gt_session *session, const gt_instruction *question)
{
    if (!session->left_out)
        return gt__session_unknown(question, question->operand[0]);
    gt__answer_failure(session, question->result, GT_ERR_MEMORY, session->left_out);
    return GT_OK;
}

void gt__answer_bytes(gt_session *session, uint64_t ticket, const void *data, size_t bytes)
{
    size_t offset = 0;
    do {
        gt_slot record[1 + GT_MAX_TAIL];
        size_t piece = bytes - offset < GT_MAX_CHUNK ? bytes - offset : GT_MAX_CHUNK;
        record->ins =
            (gt_instruction){.op = GT_OP_reply, .tail = (uint16_t)gt__slots_for(piece), .result = ticket};
        record->ins.flags = offset + piece == bytes ? GT_FLAG_LAST : 0;
        record->ins.imm[0].u = offset;
        record->ins.imm[1].u = piece;
        if (piece)
            memcpy(record + 1, (const char *)data + offset, piece);
        gt__slots_pad(record + 1, piece);
        gt__answer_send(session, record);
        offset += piece;
    } while (offset < bytes);
}

static void answer_text(gt_session *session, uint64_t ticket, const char *text)
{
    gt__answer_bytes(session, ticket, text, strlen(text));
}

void gt__answer_stats(gt_session *session, uint64_t ticket)
{
    char *json = gt__dispatcher_stats(session->dispatcher, session->peer);
    answer_text(session, ticket, json ? json : "");
    if (session->dispatcher->watching)
        gt__observe_answered(session, GT_OP_stats, 0, json ? strlen(json) : 0, false);
    free(json);
}

gt_err gt__answer_placement(gt_session *session, const gt_instruction *ins)
{
    const gt_handle *handle = gt__handles_find(&session->handles, ins->operand[0]);
    char text[4096];
    if (!handle)
        return gt__answer_unknown(session, ins);
    answer_text(session, ins->result, gt__spread_text(session, handle, text, sizeof text));
    return GT_OK;
}

/*
 * download.c: fetches too long to pass on in one go.
 *
 * A worker writes an answer faster than most clients read it; the difference would pile up in the dispatcher. So a long
 * fetch is made of parts: the tensor as one row (a reshape, which costs nothing where memory is contiguous), and of that
 * row a slice at a time, each asked for when the client has taken most of the one before. The client sees one answer.
 * The row is a tensor of its own on the worker, so the client may free the fetched one meanwhile. A client that does not
 * read costs the memory of one part; its worker and the worker's other clients do not wait for it.
 *
 * Place in the flow: place.c -> here -> worker link; workers.c hands the parts' answers back.
 */
#include "dispatcher/download.h"

#include <stdlib.h>
#include <string.h>

#include "dispatcher/answers.h"
#include "dispatcher/recover/recover.h"
#include "dispatcher/worker_stream.h"

enum {
    MAX_DOWNLOADS = 256, /* that one session may have waiting; clients have one, or a few that were interrupted */
    PART_SLOTS = GT_DOWNLOAD_PART / (int)sizeof(gt_slot),
};

/* The records that ask for a part, in slots. */
enum { SLICE = 4, FETCH = 1, FREE = 1, PART_ROOM = SLICE + FETCH + FREE };

gt_err gt__download_start(gt_session *session, const gt_handle *handle, uint64_t ticket)
{
    gt_dispatch_worker *worker = session->home;
    gt_download **end = &session->downloads;
    unsigned waiting = 0;
    for (; *end; end = &(*end)->next)
        waiting++;
    if (waiting == MAX_DOWNLOADS)
        return gt__fail(GT_ERR_PROTOCOL, "more than %d long fetches at a time", MAX_DOWNLOADS);
    gt_download *download = calloc(1, sizeof *download);
    uint32_t row = download ? gt__slot_number_new(&worker->slots) : 0;
    if (!row) {
        free(download);
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    }
    *download = (gt_download){.ticket = ticket,
                              .tensor = handle->id,
                              .row = row,
                              .dtype = (gt_dtype)handle->meta.dtype,
                              .element_bytes = (unsigned)gt__dtype_size((gt_dtype)handle->meta.dtype),
                              .elements = handle->meta.numel};
    *end = download;
    gt_slot *out = gt__worker_reserve(worker, GT_DOWNLOAD_ROOM);
    if (!out)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    out[0].ins =
        (gt_instruction){.op = GT_OP_reshape, .rank = 1, .tail = 1, .result = row, .operand = {handle->slot}};
    out[1] = (gt_slot){.i64 = {handle->meta.numel}};
    gt__worker_put(worker, GT_DOWNLOAD_ROOM);
    gt__download_continue(session);
    return GT_OK;
}

/* Ask the worker for the next part: slice, fetch, free. False: its link has no room. */
static bool ask_for_part(gt_session *session, gt_download *download, gt_err *err)
{
    gt_dispatch_worker *worker = session->home;
    int64_t left = download->elements - download->asked, count = GT_DOWNLOAD_PART / download->element_bytes;
    gt_slot *out = gt__worker_room(worker, PART_ROOM);
    if (!out)
        return false;
    uint32_t part = gt__slot_number_new(&worker->slots);
    gt_pending pending = {.session = session, .ticket = download->ticket, .download = download, .op = GT_OP_fetch};
    pending.tensor = download->tensor;
    gt_instruction fetch = {.op = GT_OP_fetch, .operand = {part}};
    *err = part ? gt__pendings_add(&worker->pendings, &pending, &fetch)
                : gt__fail(GT_ERR_MEMORY, "too many tensors on worker %s", worker->name);
    if (*err != GT_OK) {
        if (part)
            gt__slot_number_free(&worker->slots, part);
        return true;
    }
    count = count < left ? count : left;
    out[0].ins = (gt_instruction){.op = GT_OP_slice, .tail = 3, .result = part, .operand = {download->row}};
    out[1] = (gt_slot){.i64 = {download->asked}};
    out[2] = (gt_slot){.i64 = {1}};
    out[3] = (gt_slot){.i64 = {count}};
    out[SLICE].ins = fetch;
    out[SLICE + FETCH].ins = (gt_instruction){.op = GT_OP_free, .result = part};
    gt__worker_commit(worker, SLICE);
    gt__worker_commit(worker, FETCH);
    gt__worker_commit(worker, FREE);
    gt__share_bytes(session, worker, (uint64_t)count * download->element_bytes);
    gt__slot_number_free(&worker->slots, part); /* as in place.c: records that use it come later in the stream */
    download->offset = (uint64_t)download->asked * download->element_bytes;
    download->asked += count;
    download->under_way = true;
    return true;
}

/* The first download is complete, or has failed. */
static void drop_first(gt_session *session)
{
    gt_download *download = session->downloads;
    session->downloads = download->next;
    if (session->home)
        gt__worker_tell(session->home, &(gt_instruction){.op = GT_OP_free, .result = download->row});
    free(download);
}

/* The worker's link has no room: sessions ask again in the order in which they came here. */
static void wait_for_room(gt_session *session)
{
    gt_dispatch_worker *worker = session->home;
    gt_backlog *backlog = &worker->backlog;
    gt__worker_wait_for_room(worker);
    if (session->download_at)
        return;
    session->download_at = worker;
    session->download_next = NULL;
    session->download_previous = backlog->downloads_last;
    *(backlog->downloads_last ? &backlog->downloads_last->download_next : &backlog->downloads_first) = session;
    backlog->downloads_last = session;
}

static void stop_waiting(gt_session *session)
{
    gt_session *previous = session->download_previous, *next = session->download_next;
    if (!session->download_at)
        return;
    gt_backlog *backlog = &session->download_at->backlog;
    *(previous ? &previous->download_next : &backlog->downloads_first) = next;
    *(next ? &next->download_previous : &backlog->downloads_last) = previous;
    session->download_at = NULL;
}

/* Ask for the first download's next part. */
static void ask_in_turn(gt_session *session)
{
    gt_download *download;
    if (gt__recover_waits(session)) /* all that is missing is asked for again */
        return;
    while ((download = session->downloads) && !download->under_way &&
           gt__slot_queue_slots(&session->unread) <= PART_SLOTS) {
        gt_err err = GT_OK;
        if (!ask_for_part(session, download, &err)) {
            wait_for_room(session);
            return;
        }
        if (err == GT_OK)
            return;
        gt__answer_failure(session, download->ticket, err, gt_error_text());
        drop_first(session);
    }
}

void gt__download_pause(gt_session *session)
{
    stop_waiting(session);
}

void gt__download_continue(gt_session *session)
{
    const gt_download *download = session->downloads;
    if (!download || download->under_way || session->download_at)
        return;
    if (session->home->backlog.downloads_first)
        wait_for_room(session); /* behind those that came before */
    else
        ask_in_turn(session);
}

void gt__downloads_continue(gt_dispatch_worker *worker)
{
    gt_session *session;
    while ((session = worker->backlog.downloads_first)) {
        if (!gt__worker_room(worker, PART_ROOM)) {
            gt__worker_wait_for_room(worker); /* all keep their places */
            return;
        }
        stop_waiting(session);
        ask_in_turn(session);
    }
}

void gt__download_piece(const gt_download *download, gt_slot *record)
{
    if (record->ins.op != GT_OP_reply)
        return;
    record->ins.imm[0].u += download->offset;
    if (download->asked < download->elements)
        record->ins.flags &= (uint8_t)~GT_FLAG_LAST;
}

void gt__download_part_done(gt_session *session, bool failed)
{
    gt_download *download = session->downloads; /* only the first has parts under way */
    download->under_way = false;
    if (failed || download->asked == download->elements)
        drop_first(session);
    gt__download_continue(session);
}

void gt__download_drop_all(gt_session *session, const char *lost)
{
    stop_waiting(session);
    while (session->downloads) {
        /* The failure of a part under way was sent with those of the other answers that the worker owed. */
        if (lost && !session->downloads->under_way)
            gt__answer_failure(session, session->downloads->ticket, GT_ERR_CONNECTION, lost);
        drop_first(session);
    }
}

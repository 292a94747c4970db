/* answer.c: see answer.h. */
#include "worker/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/worker.h"

/* ---- records ------------------------------------------------------------------------------------------------- */

gt_slot *gt__worker_reserve_answer(gt_worker *worker, unsigned slots)
{
    for (;;) {
        gt_slot *answer = gt__link_reserve(worker->link, slots);
        if (answer || worker->link->gone || gt__worker_stopping(worker))
            return answer;
        gt__link_flush(worker->link);
        gt__link_wait(worker->link, GT_WAIT_WRITE, gt__worker_patience_ms(worker));
    }
}

/* NULL: the dispatcher is gone; or the engine is broken, and our end is the answer: with --recover, others compute it. */
static gt_instruction *reserve_text(gt_worker *worker, uint64_t ticket, gt_err err, const char *text)
{
    size_t bytes = strlen(text);
    unsigned tail = gt__slots_for(bytes);
    gt_slot *answer = gt__worker_broken(worker) ? NULL : gt__worker_reserve_answer(worker, 1 + tail);
    if (!answer)
        return NULL;
    answer->ins = (gt_instruction){.op = GT_OP_failure, .tail = (uint16_t)tail, .result = ticket};
    answer->ins.imm[0].i = err;
    answer->ins.imm[1].u = bytes;
    memcpy(answer + 1, text, bytes);
    gt__slots_pad(answer + 1, bytes);
    return &answer->ins;
}

static void send_failure(gt_worker *worker, uint64_t ticket, gt_err err, const char *text)
{
    const gt_instruction *answer = reserve_text(worker, ticket, err, text);
    if (answer)
        gt__link_commit(worker->link, 1u + answer->tail);
}

void gt__worker_answer_poison(gt_worker *worker, uint64_t ticket, const gt_poison *poison, uint8_t flags)
{
    gt_instruction *answer = reserve_text(worker, ticket, poison->err, poison->text);
    if (!answer)
        return;
    answer->flags = flags | GT_FLAG_POISON;
    answer->operand[0] = poison->origin.op;
    answer->operand[1] = poison->origin.number;
    answer->operand[2] = poison->origin.worker;
    answer->scope = poison->origin.scope;
    answer->site = poison->origin.site;
    gt__link_commit(worker->link, 1u + answer->tail);
}

/* A piece of a reply: the caller fills in its bytes and commits it. NULL: the dispatcher is gone. */
static gt_slot *reserve_piece(gt_worker *worker, uint64_t ticket, uint64_t offset, uint64_t bytes, bool last,
                              uint64_t start_ticks)
{
    unsigned tail = gt__slots_for(bytes);
    gt_slot *answer = gt__worker_reserve_answer(worker, 1 + tail);
    if (!answer)
        return NULL;
    answer->ins = (gt_instruction){.op = GT_OP_reply, .tail = (uint16_t)tail, .result = ticket};
    answer->ins.flags = last ? GT_FLAG_LAST : 0;
    answer->ins.imm[0].u = offset;
    answer->ins.imm[1].u = bytes;
    if (last && worker->timing.watched)
        gt__timing_so_far(worker, start_ticks, &answer->ins.operand[0], &answer->ins.operand[1]);
    return answer;
}

static void send_last(gt_worker *worker, uint64_t ticket, uint64_t start_ticks)
{
    if (reserve_piece(worker, ticket, 0, 0, true, start_ticks))
        gt__link_commit(worker->link, 1);
}

static void send_stats(gt_worker *worker, uint64_t ticket)
{
    gt_slot report[GT_MAX_CHUNK / sizeof(gt_slot)];
    size_t bytes = gt__timing_report(worker, report);
    gt_slot *answer = reserve_piece(worker, ticket, 0, bytes, true, 0);
    if (!answer)
        return;
    answer->ins.operand[0] = answer->ins.operand[1] = 0;
    memcpy(answer + 1, report, bytes);
    gt__slots_pad(answer + 1, bytes);
    gt__link_commit(worker->link, 1u + answer->ins.tail);
}

static void send_mark(gt_worker *worker)
{
    gt__deferred_tell(worker);
    gt_slot *answer = gt__worker_reserve_answer(worker, 1);
    if (!answer)
        return;
    answer->ins = (gt_instruction){.op = GT_OP_reply, .flags = GT_FLAG_LAST};
    answer->ins.imm[0].u = gt__timing_busy_ns(&worker->timing);
    answer->ins.operand[0] = worker->engine->ops->asynchronous;
    answer->ins.operand[1] = worker->deferred.count != 0;
    gt__link_commit(worker->link, 1);
}

/* ---- fetches at once ----------------------------------------------------------------------------------------- */

/* The engine is synchronous: read straight into the stream. GT_ERR_CONNECTION: the dispatcher is gone. */
static gt_err send_tensor(gt_worker *worker, const gt_instruction *ins, const gt_view *view)
{
    gt_engine *engine = worker->engine;
    uint64_t bytes = gt__meta_bytes(&view->meta), offset = 0;
    do {
        uint64_t piece = bytes - offset < GT_MAX_CHUNK ? bytes - offset : GT_MAX_CHUNK;
        gt_slot *answer =
            reserve_piece(worker, ins->result, offset, piece, offset + piece == bytes, worker->timing.start_ticks);
        if (!answer)
            return GT_ERR_CONNECTION;
        if (piece)
            GT_TRY(engine->ops->read(engine, (uint8_t *)view->data + offset, answer + 1, piece, false,
                                     &(gt_token){0}));
        gt__slots_pad(answer + 1, piece);
        gt__link_commit(worker->link, 1u + answer->ins.tail);
        offset += piece;
    } while (offset < bytes);
    return GT_OK;
}

/* ---- answers that wait --------------------------------------------------------------------------------------- */

/* A pending answer. */
typedef struct answer {
    gt_opcode op; /* fetch, sync, stats or mark */
    uint64_t ticket;
    uint64_t start_ticks; /* of the question */
    unsigned weight;      /* of its measurement */
    gt_err err;           /* a failure that is known already, with `text` */
    char *text;
    gt_poison *poison; /* a reference */
    gt_whole whole;    /* fetch: the tensor */
    uint8_t *host;     /* fetch: its bytes; NULL: they go into `segment` */
    uint64_t bytes;
    gt_segment *segment; /* a reference */
} answer;

static void answer_free(gt_worker *worker, answer *a)
{
    gt__whole_release(worker, &a->whole);
    if (a->segment)
        gt__segment_release(a->segment);
    if (a->poison)
        gt__poison_release(a->poison);
    free(a->host);
    free(a->text);
    free(a);
}

static void send_bytes(gt_worker *worker, const answer *a)
{
    uint64_t offset = 0;
    do {
        uint64_t piece = a->bytes - offset < GT_MAX_CHUNK ? a->bytes - offset : GT_MAX_CHUNK;
        gt_slot *record =
            reserve_piece(worker, a->ticket, offset, piece, offset + piece == a->bytes, a->start_ticks);
        if (!record)
            return;
        memcpy(record + 1, a->host + offset, piece);
        gt__slots_pad(record + 1, piece);
        gt__link_commit(worker->link, 1u + record->ins.tail);
        offset += piece;
    } while (offset < a->bytes);
}

static void give(gt_worker *worker, void *object, const gt_completion *done)
{
    answer *a = object;
    const gt_poison *poison = a->whole.flight ? a->whole.flight->poison : a->poison;
    worker->late.answers--;
    worker->late.marks -= a->op == GT_OP_mark;
    worker->late.host_bytes -= a->host ? a->bytes : 0;
    if (a->segment)
        gt__segment_done(a->segment);
    if (done && done->start_ns && a->op == GT_OP_fetch) {
        gt__timing_count(&worker->timing, GT_OP_fetch, 0, a->weight, done);
        a->start_ticks = gt__tick_of_ns(&worker->timing.clock, done->start_ns);
    }
    if (worker->timing.watched)
        gt__timing_flush(worker); /* the log shows earlier records before the answer */
    if (poison)
        gt__worker_answer_poison(worker, a->ticket, poison, 0);
    else if (a->err != GT_OK)
        send_failure(worker, a->ticket, a->err, a->text ? a->text : "out of memory");
    else if (done && done->err != GT_OK && a->op == GT_OP_fetch)
        send_failure(worker, a->ticket, done->err, done->text);
    else if (a->op == GT_OP_stats)
        send_stats(worker, a->ticket);
    else if (a->op == GT_OP_mark)
        send_mark(worker);
    else if (a->op == GT_OP_fetch && !a->segment)
        send_bytes(worker, a);
    else
        send_last(worker, a->ticket, a->start_ticks);
    gt__link_flush(worker->link);
    answer_free(worker, a);
}

/* Must this answer wait? Behind another, or for the engine. */
static bool waits(const gt_worker *worker)
{
    return worker->late.answers || gt__late_busy(&worker->late);
}

/* NULL: out of memory. The answer is lost, so the link ends. */
static answer *answer_new(gt_worker *worker, const gt_instruction *ins)
{
    answer *a = calloc(1, sizeof *a);
    if (!a) {
        gt__link_kill(worker->link, "the worker is out of memory");
        return NULL;
    }
    a->op = (gt_opcode)ins->op;
    a->ticket = ins->result;
    a->start_ticks = worker->timing.start_ticks;
    a->weight = worker->timing.weight;
    return a;
}

static void answer_when(gt_worker *worker, gt_token token, answer *a)
{
    worker->late.answers++;
    worker->late.marks += a->op == GT_OP_mark;
    worker->late.host_bytes += a->host ? a->bytes : 0;
    worker->late.last_owed = gt__late_when(worker, token, give, a);
}

static void answer_failure(gt_worker *worker, const gt_instruction *ins, gt_err err, const char *text)
{
    if (!waits(worker)) {
        send_failure(worker, ins->result, err, text);
        return;
    }
    answer *a = answer_new(worker, ins);
    if (!a)
        return;
    a->err = err;
    a->text = strdup(text);
    answer_when(worker, 0, a);
}

/* ---- fetch --------------------------------------------------------------------------------------------------- */

static gt_err find_segment(gt_worker *worker, const gt_instruction *ins, size_t bytes, gt_segment **out)
{
    gt_segment *segment =
        worker->link->ops->segment ? worker->link->ops->segment(worker->link, ins->imm[0].u) : NULL;
    if (segment)
        GT_TRY(gt__segment_map(segment));
    if (!segment || ins->imm[1].u > segment->bytes || bytes > segment->bytes - ins->imm[1].u)
        return gt__fail(GT_ERR_INTERNAL, "fetch: the segment is missing or too small");
    gt__pins_use(worker, segment, bytes);
    gt__segment_busy(segment); /* the client gave it to us to fill */
    *out = segment;
    return GT_OK;
}

static gt_err fetch_now(gt_worker *worker, const gt_instruction *ins, const gt_view *view)
{
    gt_engine *engine = worker->engine;
    size_t bytes = gt__meta_bytes(&view->meta);
    gt_segment *segment = NULL;
    if (!ins->imm[0].u)
        return send_tensor(worker, ins, view);
    GT_TRY(find_segment(worker, ins, bytes, &segment));
    gt_err err =
        engine->ops->read(engine, view->data, segment->data + ins->imm[1].u, bytes, false, &(gt_token){0});
    gt__segment_done(segment);
    if (err == GT_OK)
        send_last(worker, ins->result, worker->timing.start_ticks);
    return err;
}

/* Queue the read; the answer follows when it is done. Takes `whole`. */
static gt_err fetch_later(gt_worker *worker, const gt_instruction *ins, gt_whole *whole)
{
    gt_engine *engine = worker->engine;
    gt__late_make_room(worker, ins->imm[0].u ? 0 : gt__meta_bytes(&whole->view.meta));
    answer *a = answer_new(worker, ins);
    if (!a) {
        gt__whole_release(worker, whole);
        return GT_ERR_CONNECTION;
    }
    a->whole = *whole;
    a->bytes = gt__meta_bytes(&whole->view.meta);
    gt_err err = GT_OK;
    void *to = NULL;
    if (ins->imm[0].u) {
        err = find_segment(worker, ins, a->bytes, &a->segment);
        if (err == GT_OK) {
            gt__segment_retain(a->segment);
            to = a->segment->data + ins->imm[1].u;
        } else
            a->segment = NULL;
    } else if (!(to = a->host = malloc(a->bytes + 1)))
        err = gt__fail(GT_ERR_MEMORY, "out of memory");
    gt_token token = 0;
    if (err == GT_OK && a->bytes && !whole->flight && engine->ops->host_memory)
        memcpy(to, whole->view.data, a->bytes); /* complete: it does not wait for what is queued */
    else if (err == GT_OK && a->bytes)
        err = engine->ops->read(engine, whole->view.data, to, a->bytes, gt__timing_on(&worker->timing), &token);
    gt__late_given(&worker->late, token);
    worker->late.record_is_told = token != 0;
    if (err != GT_OK) {
        if (a->segment)
            gt__segment_done(a->segment);
        answer_free(worker, a);
        return err;
    }
    if (!token && whole->flight) /* the engine read at once: the flight's work is done */
        token = whole->flight->token;
    if (!token && !worker->late.answers) {
        worker->late.answers++;
        worker->late.host_bytes += a->host ? a->bytes : 0;
        give(worker, a, NULL);
    } else
        answer_when(worker, token, a);
    return GT_OK;
}

static gt_err fetch_tensor(gt_worker *worker, const gt_instruction *ins, const gt_entry *entry)
{
    gt_whole whole;
    GT_TRY(gt__worker_whole(worker, entry, &whole));
    if (worker->engine->ops->asynchronous)
        return fetch_later(worker, ins, &whole);
    gt_err err = fetch_now(worker, ins, &whole.view);
    gt__whole_release(worker, &whole);
    return err;
}

static void fetch_poison(gt_worker *worker, const gt_instruction *ins, gt_poison *poison)
{
    if (!waits(worker)) {
        gt__worker_answer_poison(worker, ins->result, poison, 0);
        return;
    }
    answer *a = answer_new(worker, ins);
    if (!a)
        return;
    a->poison = poison;
    poison->references++;
    answer_when(worker, 0, a);
}

void gt__worker_answer_fetch(gt_worker *worker, const gt_instruction *ins)
{
    gt_entry *entry = gt__store_find(worker->store, ins->operand[0]);
    if (entry)
        gt__store_settle(worker->store, entry);
    if (!entry || entry->state == GT_ENTRY_EMPTY)
        answer_failure(worker, ins, GT_ERR_INTERNAL, "fetch: the worker has no such tensor");
    else if (entry->state == GT_ENTRY_FILLING)
        answer_failure(worker, ins, GT_ERR_PROTOCOL, "fetch: the upload is not complete");
    else if (entry->state == GT_ENTRY_POISON)
        fetch_poison(worker, ins, entry->poison);
    else if (ins->flags & GT_FLAG_INNER &&
             !entry->view.contiguous) /* for a snapshot, which is better without it */
        answer_failure(worker, ins, GT_ERR_UNSUPPORTED, "fetch: the tensor is a view that is not contiguous");
    else {
        gt_err err = fetch_tensor(worker, ins, entry);
        if (err != GT_OK && err != GT_ERR_CONNECTION)
            answer_failure(worker, ins, err, gt_error_text());
    }
    gt__link_flush(worker->link);
}

/* ---- the others ---------------------------------------------------------------------------------------------- */

void gt__worker_answer_sync(gt_worker *worker, const gt_instruction *ins)
{
    gt_err reached = ins->imm[0].u ? gt__exchange_reaches(worker->exchange, (int32_t)(ins->imm[0].u - 1)) : GT_OK;
    if (reached != GT_OK)
        answer_failure(worker, ins, reached, gt_error_text());
    else if (!waits(worker))
        send_last(worker, ins->result, worker->timing.start_ticks);
    else {
        answer *a = answer_new(worker, ins);
        if (a)
            answer_when(worker, worker->late.last, a);
    }
    gt__link_flush(worker->link);
}

void gt__worker_answer_stats(gt_worker *worker, const gt_instruction *ins)
{
    if (!worker->late.answers)
        send_stats(worker, ins->result);
    else {
        answer *a = answer_new(worker, ins);
        if (a)
            answer_when(worker, 0, a);
    }
    gt__link_flush(worker->link);
}

void gt__worker_answer_mark(gt_worker *worker, const gt_instruction *ins)
{
    if (!waits(worker))
        send_mark(worker);
    else {
        answer *a = answer_new(worker, ins);
        if (a)
            answer_when(worker, worker->late.last, a);
    }
    gt__link_flush(worker->link);
}

/*
 * worker.c: the worker's loop: introduce itself, then take records in order until the dispatcher leaves.
 *
 * Place in the flow: dispatcher -> link -> here -> execute.c -> engine. Answers (fetch, sync) go back on the same link.
 */
#include "worker/worker.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "link/hello.h"
#include "core/log.h"

static bool stopping(const gt_worker_options *options)
{
    return options->stop && atomic_load_explicit(options->stop, memory_order_relaxed);
}

/* Milliseconds that a wait may go without a look at *stop; -1: any number. */
static int patience_ms(const gt_worker_options *options)
{
    return options->stop_poll_ms ? options->stop_poll_ms : -1;
}

enum {
    RETRY_MS = 50,        /* between attempts to reach a server that is not there yet */
    DEFERRED_WAIT_MS = 1, /* for another worker's data, before the stream is looked at again */
    ATTEMPT_MS = 1000,    /* of one that does not answer: as long as nobody looks at *stop */
};

/* ---- answers ----------------------------------------------------------------------------------------------- */

gt_slot *gt__worker_reserve_answer(gt_worker *worker, unsigned slots)
{
    for (;;) {
        gt_slot *answer = gt__link_reserve(worker->link, slots);
        if (answer || worker->link->gone || stopping(worker->options))
            return answer;
        gt__link_flush(worker->link);
        gt__link_wait(worker->link, GT_WAIT_WRITE, patience_ms(worker->options));
    }
}

static gt_instruction *answer_text(gt_worker *worker, uint64_t ticket, gt_err err, const char *text)
{
    size_t bytes = strlen(text);
    unsigned tail = gt__slots_for(bytes);
    gt_slot *answer = gt__worker_reserve_answer(worker, 1 + tail);
    if (!answer)
        return NULL;
    answer->ins = (gt_instruction){.op = GT_OP_failure, .tail = (uint16_t)tail, .result = ticket};
    answer->ins.imm[0].i = err;
    answer->ins.imm[1].u = bytes;
    memcpy(answer + 1, text, bytes);
    gt__slots_pad(answer + 1, bytes);
    return &answer->ins;
}

static void answer_failure(gt_worker *worker, uint64_t ticket, gt_err err, const char *text)
{
    const gt_instruction *answer = answer_text(worker, ticket, err, text);
    if (answer)
        gt__link_commit(worker->link, 1u + answer->tail);
}

void gt__worker_answer_poison(gt_worker *worker, uint64_t ticket, const gt_poison *poison, uint8_t flags)
{
    gt_instruction *answer = answer_text(worker, ticket, poison->err, poison->text);
    if (!answer)
        return;
    answer->flags = flags;
    answer->operand[0] = poison->origin.op;
    answer->operand[1] = poison->origin.number;
    answer->operand[2] = poison->origin.worker;
    answer->scope = poison->origin.scope;
    answer->site = poison->origin.site;
    gt__link_commit(worker->link, 1u + answer->tail);
}

/* One piece of a fetched tensor, read straight from the engine into the stream. GT_ERR_CONNECTION: nobody is there to
 * answer to. */
static gt_err answer_piece(gt_worker *worker, uint64_t ticket, const gt_view *view, uint64_t offset,
                           uint64_t bytes, bool last)
{
    unsigned tail = gt__slots_for(bytes);
    gt_slot *answer = gt__worker_reserve_answer(worker, 1 + tail);
    if (!answer)
        return GT_ERR_CONNECTION;
    answer->ins = (gt_instruction){.op = GT_OP_reply, .tail = (uint16_t)tail, .result = ticket};
    answer->ins.flags = last ? GT_FLAG_LAST : 0;
    answer->ins.imm[0].u = offset;
    answer->ins.imm[1].u = bytes;
    if (last && worker->timing.watched) {
        gt__timing_so_far(worker, &answer->ins.operand[0], &answer->ins.operand[1]);
    }
    if (bytes)
        GT_TRY(worker->engine->ops->read(worker->engine, (uint8_t *)view->data + offset, answer + 1, bytes, &(gt_token){0}));
    gt__slots_pad(answer + 1, bytes);
    gt__link_commit(worker->link, 1 + tail);
    return GT_OK;
}

static gt_err fetch_into_segment(gt_worker *worker, const gt_instruction *ins, const gt_view *view, size_t bytes)
{
    gt_segment *segment =
        worker->link->ops->segment ? worker->link->ops->segment(worker->link, ins->imm[0].u) : NULL;
    if (segment)
        GT_TRY(gt__segment_map(segment));
    if (!segment || ins->imm[1].u > segment->bytes || bytes > segment->bytes - ins->imm[1].u)
        return gt__fail(GT_ERR_INTERNAL, "fetch: the segment is missing or too small");
    gt__segment_busy(segment); /* the client gave it to us to fill */
    GT_TRY(worker->engine->ops->read(worker->engine, view->data, segment->data + ins->imm[1].u, bytes, &(gt_token){0}));
    gt__segment_done(segment);
    return answer_piece(worker, ins->result, view, 0, 0, true);
}

static gt_err fetch_tensor(gt_worker *worker, const gt_instruction *ins, const gt_view *view)
{
    uint64_t bytes = gt__meta_bytes(&view->meta), offset = 0;
    if (ins->imm[0].u)
        return fetch_into_segment(worker, ins, view, bytes);
    do {
        uint64_t piece = bytes - offset < GT_MAX_CHUNK ? bytes - offset : GT_MAX_CHUNK;
        GT_TRY(answer_piece(worker, ins->result, view, offset, piece, offset + piece == bytes));
        offset += piece;
    } while (offset < bytes);
    return GT_OK;
}

static void answer_fetch(gt_worker *worker, const gt_instruction *ins)
{
    gt_entry *entry = gt__store_find(worker->store, ins->operand[0]);
    if (!entry || entry->state == GT_ENTRY_EMPTY)
        answer_failure(worker, ins->result, GT_ERR_INTERNAL, "fetch: the worker has no such tensor");
    else if (entry->state == GT_ENTRY_FILLING)
        answer_failure(worker, ins->result, GT_ERR_PROTOCOL, "fetch: the upload is not complete");
    else if (entry->state == GT_ENTRY_POISON)
        gt__worker_answer_poison(worker, ins->result, entry->poison, 0);
    else {
        gt_view view;
        gt_buffer *temporary;
        gt_err err = gt__worker_contiguous(worker, entry, &view, &temporary);
        if (err == GT_OK)
            err = fetch_tensor(worker, ins, &view);
        if (err != GT_OK && err != GT_ERR_CONNECTION)
            answer_failure(worker, ins->result, err, gt_error_text());
        if (temporary)
            gt__buffer_release(worker->store, temporary);
    }
    gt__link_flush(worker->link);
}

static void answer_stats(gt_worker *worker, uint64_t ticket)
{
    gt_slot report[GT_MAX_CHUNK / sizeof(gt_slot)];
    size_t bytes = gt__timing_report(worker, report);
    unsigned tail = gt__slots_for(bytes);
    gt_slot *answer = gt__worker_reserve_answer(worker, 1 + tail);
    if (!answer)
        return;
    answer->ins =
        (gt_instruction){.op = GT_OP_reply, .tail = (uint16_t)tail, .flags = GT_FLAG_LAST, .result = ticket};
    answer->ins.imm[1].u = bytes;
    memcpy(answer + 1, report, bytes);
    gt__slots_pad(answer + 1, bytes);
    gt__link_commit(worker->link, 1 + tail);
    gt__link_flush(worker->link);
}

/* ---- the stream -------------------------------------------------------------------------------------------- */

static void free_slots(gt_worker *worker, const gt_instruction *ins)
{
    const uint64_t slots[] = {ins->result,     ins->operand[0], ins->operand[1],
                              ins->operand[2], ins->imm[0].u,   ins->imm[1].u};
    for (size_t k = 0; k < sizeof slots / sizeof slots[0]; k++) {
        gt_entry *entry = slots[k] ? gt__store_find(worker->store, slots[k]) : NULL;
        if (entry)
            gt__store_clear(worker->store, entry);
    }
}

/* False: the dispatcher said goodbye. */
static bool handle_control(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail)
{
    switch ((gt_opcode)ins->op) {
    case GT_OP_free:
        free_slots(worker, ins);
        gt__peers_reclaim(worker);
        return true;
    case GT_OP_data:
        gt__worker_append(worker, ins, tail);
        return true;
    case GT_OP_fetch:
        answer_fetch(worker, ins);
        return true;
    case GT_OP_sync:
        answer_piece(worker, ins->result, NULL, 0, 0, true);
        gt__link_flush(worker->link);
        return true;
    case GT_OP_stats:
        answer_stats(worker, ins->result);
        return true;
    case GT_OP_watch:
        gt__timing_watch(worker, ins->imm[0].u != 0);
        return true;
    case GT_OP_forget:
        if (worker->link->ops->forget)
            worker->link->ops->forget(worker->link, ins->imm[0].u);
        return true;
    case GT_OP_goodbye:
        return false;
    default:
        if (gt__peers_handle(worker, ins, tail))
            return true;
    }
    gt__log_error("worker %s: unexpected %s record", worker->name, gt__op_table[ins->op].name);
    return true;
}

static void debug_record(const gt_worker *worker, const gt_instruction *ins)
{
    char text[128];
    gt__log(GT_LOG_WORKER, "%s: %s", worker->name, gt__instruction_text(ins, text, sizeof text));
}

bool gt__worker_run_record(gt_worker *worker, const gt_slot *record)
{
    bool more = true;
    gt__timing_before(worker, &worker->timing, worker->store, &record->ins);
    if (__builtin_expect(record->ins.op < GT_OP_FIRST_CONTROL, 1))
        gt__worker_execute(worker, &record->ins, record + 1);
    else
        more = handle_control(worker, &record->ins, record + 1);
    gt__timing_after(worker, &worker->timing, &record->ins);
    return more;
}

/* Take the records of one window in turn. *more is false once the dispatcher said goodbye. */
static gt_err run_window(gt_worker *worker, const gt_slot *slots, size_t available, bool *more)
{
    const gt_slot *end = slots + available;
    bool debug = gt__log_on(GT_LOG_WORKER);
    unsigned length;
    for (; slots < end && *more && !stopping(worker->options); slots += length) {
        GT_TRY(gt__instruction_check(slots, (size_t)(end - slots), &length));
        if (debug)
            debug_record(worker, &slots->ins);
        bool aside = __builtin_expect(worker->deferred.count || slots->ins.op == GT_OP_recv, 0) &&
                     gt__deferred_takes(worker, slots);
        if (!aside)
            *more = gt__worker_run_record(worker, slots);
        gt__link_consume(worker->link, length);
    }
    return GT_OK;
}

static gt_err run_stream(gt_worker *worker, const gt_worker_options *options)
{
    bool more = true;
    while (more && !stopping(options)) {
        size_t available;
        const gt_slot *slots = gt__link_peek(worker->link, &available);
        if (slots)
            GT_TRY(run_window(worker, slots, available, &more));
        else if (worker->deferred.count && !worker->link->gone)
            gt__deferred_run(worker, DEFERRED_WAIT_MS);
        else if (worker->link->dead)
            return gt__fail(GT_ERR_CONNECTION, "%s", worker->link->reason);
        else {
            uint64_t began_ns = gt__timing_wait_begin(worker);
            gt__link_wait(worker->link, GT_WAIT_READ, patience_ms(options));
            gt__timing_wait_end(worker, began_ns);
        }
    }
    return GT_OK;
}

/* ---- life -------------------------------------------------------------------------------------------------- */

static gt_err open_engine(const gt_worker_options *options, gt_engine **engine)
{
    const char *backend = options->backend && *options->backend ? options->backend : getenv("GT_BACKEND");
    const gt_engine_ops *ops;
    GT_TRY(gt__engine_find(backend, &ops));
    gt_engine_options engine_options = {.threads = options->threads};
    return ops->open(&engine_options, engine);
}

static gt_err serve(gt_worker *worker, const gt_worker_options *options)
{
    gt_welcome welcome;
    const char *listens = worker->exchange->ops->address(worker->exchange);
    GT_TRY(gt__hello_send_worker(worker->link, worker->name, worker->engine->ops->name, listens,
                                 options->number - 1));
    uint64_t deadline = gt__deadline_ns(gt__connect_timeout_ms(options->timeout_ms));
    gt_err err;
    do {
        int left = gt__remaining_ms(deadline), look_ms = patience_ms(options);
        err = gt__hello_wait(worker->link,
                             look_ms > 0 && left > look_ms ? look_ms
                             : left > 0                    ? left
                                                           : 1,
                             &welcome);
        if (err != GT_OK && stopping(options))
            return GT_OK;
    } while (err == GT_ERR_INTERRUPTED || (err == GT_ERR_TIMEOUT && gt__remaining_ms(deadline) > 0));
    GT_TRY(err);
    gt__timing_init(&worker->timing);
    GT_TRY(worker->exchange->ops->join(worker->exchange, (int32_t)welcome.number, welcome.life, welcome.key));
    gt__log(GT_LOG_STATUS, "worker %s (%s) joined %s", worker->name, worker->engine->ops->name,
            worker->link->peer);
    err = run_stream(worker, options);
    gt__goodbye_send(worker->link, err == GT_OK ? "" : gt_error_text());
    return err;
}

/* Workers and servers are started side by side: whoever is first waits for the other. */
static gt_err connect_patiently(const gt_worker_options *options, gt_link **link)
{
    uint64_t deadline = gt__deadline_ns(gt__connect_timeout_ms(options->timeout_ms));
    for (;;) {
        int left = gt__remaining_ms(deadline), look_ms = patience_ms(options);
        gt_err err = gt__address_connect(options->address,
                                         look_ms > 0 && left > ATTEMPT_MS ? ATTEMPT_MS
                                         : left > 0                       ? left
                                                                          : 1,
                                         link);
        bool again = err == GT_ERR_CONNECTION || err == GT_ERR_TIMEOUT || err == GT_ERR_INTERRUPTED;
        if (!again || stopping(options) || gt__remaining_ms(deadline) == 0)
            return err;
        poll(NULL, 0, RETRY_MS);
    }
}

static gt_err meet_peers(gt_worker *worker, const gt_worker_options *options)
{
    GT_TRY(options->board ? gt__exchange_local(options->board, options->stop, &worker->exchange)
                          : gt__exchange_mesh(options->address, options->stop, &worker->exchange));
    return gt__collective_host(worker->exchange, worker->engine, worker->store, &worker->collective);
}

/* While the store is there: what others still read lies in it. */
static void leave_peers(gt_worker *worker)
{
    if (worker->collective)
        worker->collective->ops->close(worker->collective);
    if (!worker->exchange)
        return;
    gt__peers_reclaim(worker);
    worker->exchange->ops->close(worker->exchange);
}

gt_err gt__worker_run(const gt_worker_options *options, gt_link *link)
{
    gt__log_init();
    char name[64];
    if (options->name && *options->name)
        snprintf(name, sizeof name, "%s", options->name);
    else
        snprintf(name, sizeof name, "worker_%d", (int)getpid());
    gt_worker worker = {.link = link, .name = name, .options = options};
    gt_err err = open_engine(options, &worker.engine);
    if (err == GT_OK)
        err = gt__store_new(worker.engine, &worker.store);
    if (err == GT_OK && !worker.link)
        err = connect_patiently(options, &worker.link);
    if (err == GT_OK)
        err = meet_peers(&worker, options);
    if (err == GT_OK)
        err = serve(&worker, options);
    gt__deferred_free(&worker.deferred);
    leave_peers(&worker);
    /* The store before the link: buffers may lie in segments that the link maps. */
    gt__store_free(&worker.store);
    if (worker.link)
        gt__link_close(worker.link);
    if (worker.engine)
        worker.engine->ops->close(worker.engine);
    return err;
}

/*
 * observe.c: turns what passes through the dispatcher into lines. See observe.h; log_text.c writes the lines themselves.
 */
#include "observe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatcher.h"
#include "file_writer.h"
#include "log.h"
#include "monitor.h"
#include "settings.h"
#include "spread.h"
#include "tape_writer.h"

enum {
    CLOCK_EVERY = 16, /* lines between two looks at the clock */
    KEEP_LOGS = 4,    /* rotated ones */
};

/* A record in a worker's stream. */
typedef struct gt_sent {
    uint64_t number;   /* in that stream */
    uint64_t sequence; /* of the line that told of its arrival; 0: it came from no client */
    uint64_t session, tensor;
    uint16_t op;
} gt_sent;

struct gt_observer {
    gt_file_writer *log;
    gt_tape_writer *tape;
    bool console, traced;
    uint64_t sequence;
    gt_log_clock clock;
    unsigned until_clock;
    const gt_slot *record; /* the client's record being handled, if what is sent comes from one */
    gt_session *session;
    uint64_t received; /* its line */
    char line[GT_LOG_LINE];
};

/* ---- lines -------------------------------------------------------------------------------------------------- */

static char *line_begin(gt_observer *observer)
{
    char *at = observer->log ? gt__file_reserve(observer->log, GT_LOG_LINE) : NULL;
    return at ? at : observer->line;
}

static char *head(gt_dispatcher *dispatcher, char *at, gt_event event, const gt_log_source *source, gt_opcode op,
                  uint64_t bytes)
{
    gt_observer *observer = dispatcher->observer;
    if (!observer->until_clock--) {
        observer->until_clock = CLOCK_EVERY;
        gt__log_clock_set(&observer->clock, gt__now_ns());
    }
    return gt__log_head(at, &observer->clock, ++observer->sequence, event, source, op, bytes);
}

static void line_end(gt_dispatcher *dispatcher, char *begin, char *end)
{
    gt_observer *observer = dispatcher->observer;
    *end++ = '\n';
    size_t length = (size_t)(end - begin);
    if (observer->console)
        fwrite(begin, 1, length, stdout);
    if (observer->traced)
        gt__monitors_line(dispatcher, begin, length);
    if (begin != observer->line)
        gt__file_commit(observer->log, length);
}

static uint64_t record_bytes(const gt_instruction *ins)
{
    uint64_t segment = ins->op == GT_OP_upload && ins->imm[1].u ? ins->imm[0].u : 0;
    return (1u + ins->tail) * sizeof(gt_slot) + segment;
}

/* ---- clients ------------------------------------------------------------------------------------------------ */

/* What only gives names to things. */
static bool is_note(gt_opcode op)
{
    return op == GT_OP_site || op == GT_OP_scope || op == GT_OP_config;
}

/* What comes now is issued under another signal; or the program put a mark there. */
static void log_signal(gt_session *session, uint32_t scope)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    const char *name = gt__spread_scope_name(session, scope);
    if (!name)
        return;
    char *begin = line_begin(dispatcher->observer);
    char *at = head(dispatcher, begin, GT_EVENT_SIGNAL, &session->source, GT_OP_INVALID, 0);
    line_end(dispatcher, begin, gt__log_quoted(at, "name=", name, strlen(name)));
}

static void log_received(gt_session *session, const gt_slot *record)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    gt_observer *observer = dispatcher->observer;
    char *begin = line_begin(observer);
    char *at = head(dispatcher, begin, GT_EVENT_RECV, &session->source, (gt_opcode)record->ins.op,
                    record_bytes(&record->ins));
    observer->received = observer->sequence;
    at = gt__log_received(at, record);
    const char *scope = gt__spread_scope_name(session, record->ins.scope);
    if (scope)
        at = gt__log_scope(at, scope);
    const char *site = gt__session_site(session, record->ins.site);
    line_end(dispatcher, begin, site ? gt__log_place(at, site) : at);
}

void gt__observe_received(gt_session *session, const gt_slot *record)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    gt_observer *observer = dispatcher->observer;
    if (gt__log_on(GT_LOG_DISPATCHER)) {
        char text[128];
        gt__log(GT_LOG_DISPATCHER, "client %llu: %s", (unsigned long long)session->number,
                gt__instruction_text(&record->ins, text, sizeof text));
    }
    observer->record = record;
    observer->session = session;
    if (dispatcher->watching && record->ins.op < GT_OP_FIRST_CONTROL && record->ins.scope != session->last_scope) {
        session->last_scope = record->ins.scope;
        log_signal(session, record->ins.scope);
    }
    if (dispatcher->watching && record->ins.op == GT_OP_mark)
        log_signal(session, record->ins.scope);
    else if (dispatcher->watching && record->ins.op != GT_OP_goodbye && !is_note((gt_opcode)record->ins.op))
        log_received(session, record);
    if (observer->tape)
        gt__tape_writer_record(observer->tape, session, dispatcher->watching ? observer->received : 0, record);
}

void gt__observe_handled(gt_dispatcher *dispatcher)
{
    dispatcher->observer->record = NULL;
    dispatcher->observer->until_clock = 0;
}

void gt__observe_answered(gt_session *session, gt_opcode op, uint64_t tensor, uint64_t bytes, bool failed)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    char *begin = line_begin(dispatcher->observer);
    char *at = head(dispatcher, begin, GT_EVENT_SEND, &session->source, op, bytes);
    at = gt__log_word(at, failed ? "success=False" : "success=True");
    line_end(dispatcher, begin, tensor ? gt__log_number(at, " tensor_id=", tensor) : at);
}

void gt__observe_refused(gt_session *session, uint64_t ticket, const char *text)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    if (!dispatcher->watching)
        return;
    char *begin = line_begin(dispatcher->observer);
    char *at = head(dispatcher, begin, GT_EVENT_ERROR, &session->source, GT_OP_INVALID, strlen(text));
    at = gt__log_number(at, "ticket=", ticket);
    line_end(dispatcher, begin, gt__log_quoted(at, " error=", text, strlen(text)));
}

void gt__observe_client(gt_session *session, const char *left)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    if (!left) {
        char number[24];
        snprintf(number, sizeof number, "%llu", (unsigned long long)session->number);
        gt__log_source_set(&session->source, "CLIENT", number);
    } else
        dispatcher->observer->record = NULL;
    if (dispatcher->observer->tape)
        gt__tape_writer_client(dispatcher->observer->tape, session, left);
    if (!dispatcher->watching)
        return;
    char *begin = line_begin(dispatcher->observer);
    char *at = head(dispatcher, begin, left ? GT_EVENT_DISCONNECT : GT_EVENT_CONNECT, &session->source,
                    left ? GT_OP_goodbye : GT_OP_hello, (1u + (left ? GT_GOODBYE_TAIL : GT_HELLO_TAIL)) * sizeof(gt_slot));
    if (left)
        at = gt__log_quoted(at, "reason=", left, strlen(left));
    else {
        at = gt__log_word(gt__log_word(at, "link="), gt__link_name(session->link));
        if (session->name[0])
            at = gt__log_quoted(at, " name=", session->name, strlen(session->name));
    }
    line_end(dispatcher, begin, at);
}

/* ---- workers ------------------------------------------------------------------------------------------------ */

static void remember_sent(gt_watched *watched, const gt_sent *sent)
{
    if (watched->sent_count == watched->sent_capacity) {
        uint32_t capacity = watched->sent_capacity ? watched->sent_capacity * 2 : 1024;
        gt_sent *ring = malloc(capacity * sizeof *ring);
        if (!ring)
            return; /* its line will be missing */
        for (uint32_t k = 0; k < watched->sent_count; k++)
            ring[k] = watched->sent[(watched->sent_first + k) & (watched->sent_capacity - 1)];
        free(watched->sent);
        watched->sent = ring;
        watched->sent_capacity = capacity;
        watched->sent_first = 0;
    }
    watched->sent[(watched->sent_first + watched->sent_count++) & (watched->sent_capacity - 1)] = *sent;
}

/* What was sent under this number; what was sent before it will not be asked for again. NULL: nothing. */
static const gt_sent *recall_sent(gt_watched *watched, uint64_t number)
{
    while (watched->sent_count) {
        const gt_sent *first = &watched->sent[watched->sent_first];
        if (first->number > number)
            return NULL;
        watched->sent_first = (watched->sent_first + 1) & (watched->sent_capacity - 1);
        watched->sent_count--;
        if (first->number == number)
            return first;
    }
    return NULL;
}

void gt__observe_sent(gt_dispatch_worker *worker, const gt_slot *record)
{
    gt_dispatcher *dispatcher = worker->peer->dispatcher;
    gt_observer *observer = dispatcher->observer;
    gt_sent sent = {.number = worker->records, .op = record->ins.op};
    if (record->ins.op == GT_OP_watch || record->ins.op == GT_OP_stats || record->ins.op == GT_OP_peer)
        return; /* our own business */
    if (observer->record) {
        sent.sequence = observer->received;
        sent.session = observer->session->number;
        sent.tensor = gt__log_tensor(&observer->record->ins);
    } else
        sent.tensor = gt__log_tensor(&record->ins);
    remember_sent(&worker->watched, &sent);
    char *begin = line_begin(observer);
    char *at = head(dispatcher, begin, GT_EVENT_WORKER_SEND, &worker->watched.source, (gt_opcode)record->ins.op,
                    record_bytes(&record->ins));
    line_end(dispatcher, begin, gt__log_subject(at, (gt_opcode)record->ins.op, sent.session, sent.tensor));
}

/* On our clock, as time since the start. */
static uint64_t since_start(const gt_dispatch_worker *worker, uint64_t worker_ns)
{
    uint64_t started = worker->peer->dispatcher->started_ns, ns = worker_ns - (uint64_t)worker->watched.clock_offset_ns;
    return ns > started ? ns - started : 0;
}

static void worker_received(gt_dispatch_worker *worker, const gt_sent *sent, uint64_t bytes, bool failed,
                            uint64_t start_ns, uint64_t duration_ns)
{
    gt_dispatcher *dispatcher = worker->peer->dispatcher;
    char *begin = line_begin(dispatcher->observer);
    char *at = head(dispatcher, begin, GT_EVENT_WORKER_RECV, &worker->watched.source, (gt_opcode)sent->op, bytes);
    at = gt__log_word(at, failed ? "success=False " : "success=True ");
    at = gt__log_subject(at, (gt_opcode)sent->op, sent->session, sent->tensor);
    if (start_ns) {
        at = gt__log_seconds(at, " start=", since_start(worker, start_ns));
        at = gt__log_seconds(at, " duration=", duration_ns);
    }
    line_end(dispatcher, begin, at);
}

void gt__observe_timing(gt_dispatch_worker *worker, const gt_slot *record)
{
    worker->peer->dispatcher->observer->until_clock = 0; /* told of after it happened */
    for (uint64_t k = 0; k < record->ins.imm[1].u; k++) {
        gt_timing_entry entry;
        memcpy(&entry, record[1].bytes + k * sizeof entry, sizeof entry);
        const gt_sent *sent = recall_sent(&worker->watched, record->ins.result + k);
        if (sent && sent->op == entry.op && !entry.told)
            worker_received(worker, sent, sizeof entry, entry.failed, entry.start_ns, entry.duration_ns);
        if (sent && entry.failed)
            worker->watched.last_failed = (struct gt_failed){.number = sent->number, .sequence = sent->sequence};
    }
}

void gt__observe_worker_answer(gt_dispatch_worker *worker, gt_opcode op, const gt_session *session, uint64_t tensor,
                               uint64_t bytes, const gt_slot *answer)
{
    const gt_instruction *ins = &answer->ins;
    bool failed = ins->op == GT_OP_failure;
    worker->peer->dispatcher->observer->until_clock = 0;
    gt_sent sent = {.op = (uint16_t)op, .session = session ? session->number : 0, .tensor = session ? tensor : 0};
    worker_received(worker, &sent, bytes, failed, failed ? 0 : ins->operand[0], ins->operand[1]);
}

uint64_t gt__observe_log_number(const gt_dispatch_worker *worker, const gt_instruction *failure)
{
    const gt_dispatcher *dispatcher = worker->peer->dispatcher;
    uint64_t number = failure->operand[1], origin = failure->operand[2];
    if (origin && origin <= (uint64_t)dispatcher->worker_count)
        worker = dispatcher->workers[origin - 1];
    if (!worker || !number)
        return 0;
    const gt_watched *watched = &worker->watched;
    for (unsigned k = 0; k < GT_WATCHED_FAILURES; k++)
        if (watched->failures[k].number == number)
            return watched->failures[k].sequence;
    for (uint32_t k = 0; k < watched->sent_count; k++) { /* another worker's, which has not been listened to yet */
        const gt_sent *sent = &watched->sent[(watched->sent_first + k) & (watched->sent_capacity - 1)];
        if (sent->number == number)
            return sent->sequence;
    }
    return 0;
}

void gt__observe_failure(gt_dispatch_worker *worker, const gt_slot *record)
{
    gt_dispatcher *dispatcher = worker->peer->dispatcher;
    if (!dispatcher->watching)
        return;
    gt_watched *watched = &worker->watched;
    uint64_t op = record->ins.operand[0], number = 0;
    if (watched->last_failed.number == record->ins.operand[1]) { /* told just before */
        watched->failures[watched->failure_next++ % GT_WATCHED_FAILURES] = watched->last_failed;
        number = watched->last_failed.sequence;
    }
    char *begin = line_begin(dispatcher->observer);
    char *at = head(dispatcher, begin, GT_EVENT_ERROR, &worker->watched.source,
                    op < GT_OP_COUNT ? (gt_opcode)op : GT_OP_INVALID, record_bytes(&record->ins));
    at = gt__log_line_number(at, "instruction=", number);
    line_end(dispatcher, begin, gt__log_quoted(at, " error=", (const char *)record[1].bytes, record->ins.imm[1].u));
}

static void set_watching(gt_dispatch_worker *worker, bool watching)
{
    worker->watched.sent_count = 0;
    gt_instruction watch = {.op = GT_OP_watch};
    watch.imm[0].u = watching;
    gt__worker_tell(worker, &watch);
    worker->observed = watching;
}

void gt__observe_worker(gt_dispatch_worker *worker, const char *left)
{
    gt_dispatcher *dispatcher = worker->peer->dispatcher;
    gt_watched *watched = &worker->watched;
    if (!left)
        gt__log_source_set(&watched->source, "WORKER", worker->name);
    if (dispatcher->watching) {
        char *begin = line_begin(dispatcher->observer);
        char *at = head(dispatcher, begin, left ? GT_EVENT_DISCONNECT : GT_EVENT_CONNECT, &watched->source,
                        left ? GT_OP_goodbye : GT_OP_hello, (1u + (left ? GT_GOODBYE_TAIL : GT_HELLO_TAIL)) * sizeof(gt_slot));
        if (left)
            at = gt__log_quoted(at, "reason=", left, strlen(left));
        else {
            at = gt__log_word(gt__log_word(at, "link="), gt__link_name(worker->link));
            at = gt__log_quoted(at, " engine=", worker->engine, strlen(worker->engine));
        }
        line_end(dispatcher, begin, at);
    }
    if (left) {
        free(watched->sent);
        memset(watched, 0, sizeof *watched);
        worker->observed = false;
    } else if (dispatcher->watching)
        set_watching(worker, true);
}

/* ---- life --------------------------------------------------------------------------------------------------- */

static void decide(gt_dispatcher *dispatcher)
{
    gt_observer *observer = dispatcher->observer;
    bool watching = observer->log || observer->console || observer->traced;
    dispatcher->observing = watching || observer->tape || gt__log_on(GT_LOG_DISPATCHER);
    if (watching == dispatcher->watching)
        return;
    dispatcher->watching = watching;
    observer->until_clock = 0;
    for (int32_t index = 0; index < dispatcher->worker_count; index++)
        if (dispatcher->workers[index]->peer)
            set_watching(dispatcher->workers[index], watching);
}

void gt__observer_trace(gt_dispatcher *dispatcher, bool wanted)
{
    dispatcher->observer->traced = wanted;
    decide(dispatcher);
}

void gt__observer_flush(gt_dispatcher *dispatcher)
{
    gt_observer *observer = dispatcher->observer;
    if (observer->console)
        fflush(stdout);
    if (observer->log)
        gt__file_flush(observer->log);
    if (observer->tape)
        gt__tape_writer_flush(observer->tape);
    observer->until_clock = 0;
}

gt_err gt__observer_new(gt_dispatcher *dispatcher, const gt_observer_options *options)
{
    gt_observer *observer = calloc(1, sizeof *observer);
    if (!observer)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    dispatcher->observer = observer;
    gt__log_text_init();
    observer->clock.started_ns = dispatcher->started_ns;
    observer->console = options->console;
    const char *path = options->log ? options->log : getenv("GT_INSTRUCTION_LOG");
    gt_file_options log = {.path = path, .what = "instruction log", .keep = KEEP_LOGS};
    log.rotate_bytes = options->log_bytes ? options->log_bytes : (uint64_t)gt__setting(GT_SETTING_INSTRUCTION_LOG_SIZE);
    if (path && *path)
        GT_TRY(gt__file_open(&log, &observer->log));
    const char *tape = options->tape ? options->tape : getenv("GT_TAPE");
    if (tape && *tape)
        GT_TRY(gt__tape_writer_new(tape, &observer->tape));
    decide(dispatcher);
    return GT_OK;
}

void gt__observer_free(gt_dispatcher *dispatcher)
{
    if (!dispatcher->observer)
        return;
    gt__file_close(&dispatcher->observer->log);
    gt__tape_writer_free(&dispatcher->observer->tape);
    free(dispatcher->observer);
    dispatcher->observer = NULL;
}

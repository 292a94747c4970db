/*
 * observe.c: turns the records that pass through the dispatcher into events. See observe.h; log_text.c makes lines of them.
 */
#include "dispatcher/observe/observe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatcher/observe/file_writer.h"
#include "core/log.h"
#include "core/record.h"
#include "dispatcher/observe/monitor.h"
#include "dispatcher/observe/sent.h"
#include "core/settings.h"
#include "dispatcher/session.h"
#include "dispatcher/spread/spread.h"
#include "dispatcher/state.h"
#include "dispatcher/worker_stream.h"
#include "dispatcher/observe/tape_writer.h"

enum {
    CLOCK_EVERY = 64,     /* lines between two readings of the clock */
    KEEP_LOGS = 4,        /* rotated ones, and those of processes before this one */
    TEXT_BUFFERS = 128,   /* of GT_FILE_BUFFER: how many events may wait to become text, */
    COMPACT_BUFFERS = 32, /* or to be written as they are */
    MOST_LINES = 1 << 15, /* of runs, in a buffer that becomes text */
};

struct gt_observer {
    gt_file_writer *log;
    gt_log_encoder *encoder;
    struct gt_log_writer *writer; /* its thread's, if it is text */
    gt_log_format *format;        /* for lines made in this thread: console and monitors */
    gt_tape_writer *tape;
    gt_shapes *shapes;
    gt_trace_ids *ids; /* NULL: not wanted */
    bool console, traced;
    uint64_t sequence;
    uint64_t now_ns; /* since the start */
    unsigned until_clock;
    uint32_t run_lines; /* that the present buffer has, and earlier ones that were ended otherwise */
    bool handling;      /* a client's record: it is the cause of records sent now */
    uint64_t session, tensor, received; /* its client, its tensor, its line */
    uint32_t trace;                     /* of its client */
    char own[GT_LOG_OWN];               /* the text of the event that is being made */
    char line[GT_LOG_LINE];
};

/* ---- events ------------------------------------------------------------------------------------------------- */

/* `lines` more lines: read the clock now and then. */
static inline void keep_clock(gt_dispatcher *dispatcher, uint32_t lines)
{
    gt_observer *observer = dispatcher->observer;
    if (observer->until_clock >= lines) {
        observer->until_clock -= lines;
        return;
    }
    observer->until_clock = CLOCK_EVERY;
    observer->now_ns = gt__now_ns() - dispatcher->started_ns;
}

/* Begin an event, which event_end writes. */
static inline gt_log_event event_begin(gt_dispatcher *dispatcher, gt_event kind, gt_log_text *source, gt_opcode op,
                                       uint64_t bytes)
{
    gt_observer *observer = dispatcher->observer;
    keep_clock(dispatcher, 1);
    gt_log_event event; /* set field by field: clearing all of it at once takes as long as encoding it */
    event.sequence = ++observer->sequence;
    event.at_ns = observer->now_ns;
    event.bytes = bytes;
    event.op = (uint16_t)op;
    event.event = (uint8_t)kind;
    event.failed = false;
    event.slots = 0;
    event.record = NULL;
    event.session = event.tensor = event.start_ns = event.duration_ns = 0;
    event.source = source;
    for (unsigned k = 0; k < GT_LOG_NOTES; k++)
        event.notes[k] = NULL;
    event.text = NULL;
    event.text_length = 0;
    return event;
}

static inline void event_end(gt_dispatcher *dispatcher, const gt_log_event *event)
{
    gt_observer *observer = dispatcher->observer;
    if (observer->console || observer->traced) {
        size_t length = (size_t)(gt__log_line(observer->format, event, observer->line) - observer->line);
        if (observer->console)
            fwrite(observer->line, 1, length, stdout);
        if (observer->traced)
            gt__monitors_line(dispatcher, observer->line, length);
    }
    char *room = observer->log ? gt__file_reserve(observer->log, GT_LOG_ENTRY) : NULL;
    if (room)
        gt__file_commit(observer->log, (size_t)(gt__log_encode(observer->encoder, event, room) - room));
}

/* The same for an event with a text of its own, which was written to observer->own. */
static void event_end_text(gt_dispatcher *dispatcher, gt_log_event *event, const char *end)
{
    event->text = dispatcher->observer->own;
    event->text_length = (size_t)(end - dispatcher->observer->own);
    event_end(dispatcher, event);
}

/* Name the trace of an event of a client, and the span of the instruction that is its cause (its line; 0: it has none). */
static void add_trace(gt_observer *observer, gt_log_event *event, uint32_t trace, uint64_t session, uint64_t line)
{
    gt_log_text *text = gt__trace_text(observer->ids, trace, session);
    unsigned k = 0;
    while (k < GT_LOG_NOTES && event->notes[k])
        k++;
    if (!text || k == GT_LOG_NOTES)
        return;
    event->notes[k] = text;
    if (line) {
        event->text = observer->own;
        event->text_length = (size_t)(gt__trace_span(observer->ids, observer->own, trace, line) - observer->own);
    }
}

/* What the log's thread needs to turn events into text. */
typedef struct gt_log_writer {
    gt_log_decoder *decoder;
    gt_log_format *format;
    const char *end; /* of the block that it is in the middle of; NULL: none */
} gt_log_writer;

static void writer_free(gt_log_writer *writer)
{
    if (!writer)
        return;
    gt__log_decoder_free(writer->decoder);
    gt__log_format_free(writer->format);
    free(writer);
}

static gt_err writer_new(gt_log_writer **out)
{
    gt_log_writer *writer = *out = calloc(1, sizeof *writer);
    if (writer) {
        writer->decoder = gt__log_decoder_new();
        writer->format = gt__log_format_new();
    }
    return writer && writer->decoder && writer->format ? GT_OK : gt__fail(GT_ERR_MEMORY, "out of memory");
}

/* The log's thread: a block of events into text. Returns the bytes of text; *from moves to the end of the block once all of it
 * has been written. */
static size_t write_lines(void *argument, const char **from, const char *end, char *to, size_t room)
{
    gt_log_writer *writer = argument;
    char *at = to;
    if (!writer->end) {
        writer->end = end;
        if (gt__log_block_open(writer->decoder, *from, (size_t)(end - *from), false) != GT_OK)
            gt__log_error("lines of the instruction log are missing: %s", gt_error_text());
    }
    bool there = true;
    for (const char *stop = to + room - GT_LOG_LINE; there && at <= stop;) {
        gt_log_event event;
        if (gt__log_block_next(writer->decoder, &event, &there) != GT_OK)
            gt__log_error("lines of the instruction log are missing: %s", gt_error_text());
        else if (there)
            at = gt__log_line(writer->format, &event, at);
    }
    if (!there) {
        writer->end = NULL;
        *from = end;
    }
    return (size_t)(at - to);
}

static uint64_t record_bytes(const gt_instruction *ins)
{
    uint64_t segment = ins->op == GT_OP_upload && ins->imm[1].u ? ins->imm[0].u : 0;
    return (1u + ins->tail) * sizeof(gt_slot) + segment;
}

/* ---- clients ------------------------------------------------------------------------------------------------ */

/* Records that only define names. */
static bool is_note(gt_opcode op)
{
    return op == GT_OP_site || op == GT_OP_scope || op == GT_OP_config || op == GT_OP_share || op == GT_OP_name ||
           op == GT_OP_detach || op == GT_OP_attach;
}

/* The next records have another signal; or the program placed a mark. A line of the first kind has the scope as those of records
 * have it: `enters scope=forward name="forward (backward)"`. */
static void log_signal(gt_session *session, uint32_t scope, bool mark, bool backward)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    const char *name = gt__spread_scope_name(session, scope), *entered = name;
    char gradient[GT_MAX_NAME + sizeof " (backward)"];
    if (!name)
        return;
    if (backward) {
        const char *other = gt__spread_backward_name(session, scope);
        snprintf(gradient, sizeof gradient, *other ? "%s" : "%s (backward)", *other ? other : name);
        name = gradient;
    }
    gt_log_event event = event_begin(dispatcher, GT_EVENT_SIGNAL, session->watched.source, GT_OP_INVALID, 0);
    char *at = dispatcher->observer->own;
    if (!mark)
        at = gt__log_scope(gt__log_word(at, "enters"), entered);
    event_end_text(dispatcher, &event, gt__log_quoted(at, mark ? "name=" : " name=", name, strlen(name)));
}

/* A computing record is next in the log: has it another signal than the last? */
static inline void follow_signal(gt_session *session, const gt_instruction *ins)
{
    bool backward = ins->scope && ins->flags & GT_FLAG_BACKWARD;
    if (ins->scope == session->watched.last_scope && backward == session->watched.last_backward)
        return;
    session->watched.last_scope = ins->scope;
    session->watched.last_backward = backward;
    log_signal(session, ins->scope, false, backward);
}

/* " scope=layer1 at=train.py:12" of a record; NULL: neither is known. */
static gt_log_text *place_new(const gt_session *session, uint32_t scope, uint32_t site)
{
    char text[GT_LOG_TEXT], *at = text;
    const char *signal = gt__spread_scope_name(session, scope), *place = gt__session_site(session, site);
    if (signal)
        at = gt__log_scope(at, signal);
    if (place)
        at = gt__log_place(at, place);
    return at > text ? gt__log_text_new(text, (size_t)(at - text)) : NULL;
}

static inline gt_log_text *place_of(gt_session *session, uint32_t scope, uint32_t site)
{
    gt_watched_client *watched = &session->watched;
    if (!scope && !site)
        return NULL;
    if (!watched->places && !(watched->places = calloc(GT_WATCHED_PLACES, sizeof *watched->places)))
        return NULL;
    struct gt_watched_place *place = &watched->places[(site + scope * 37u) % GT_WATCHED_PLACES];
    if (place->text && place->scope == scope && place->site == site)
        return place->text;
    free(place->text);
    *place = (struct gt_watched_place){.scope = scope, .site = site, .text = place_new(session, scope, site)};
    return place->text;
}

static void forget_places(gt_watched_client *watched)
{
    for (unsigned k = 0; watched->places && k < GT_WATCHED_PLACES; k++)
        free(watched->places[k].text);
    free(watched->places);
    watched->places = NULL;
}

static gt_log_text *path_of(gt_session *session, const gt_path *path)
{
    gt_watched_client *watched = &session->watched;
    if (path->serial != watched->path) {
        char text[GT_LOG_TEXT];
        free(watched->path_text);
        watched->path = path->serial;
        watched->path_text = gt__log_text_new(text, (size_t)(gt__log_path(text, path) - text));
    }
    return watched->path_text;
}

static void log_received(gt_session *session, const gt_slot *record)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    gt_observer *observer = dispatcher->observer;
    gt_log_event event = event_begin(dispatcher, GT_EVENT_RECV, session->watched.source, (gt_opcode)record->ins.op,
                                     record_bytes(&record->ins));
    observer->received = observer->sequence;
    event.record = record;
    event.slots = record->ins.tail < GT_LOG_RECORD ? 1 + (uint8_t)record->ins.tail : GT_LOG_RECORD;
    const gt_path *path = record->ins.op == GT_OP_repeat ? gt__paths_find(session, record) : NULL;
    gt_log_text *ops = path ? path_of(session, path) : NULL,
                *place = place_of(session, record->ins.scope, record->ins.site);
    event.notes[0] = ops ? ops : place;
    event.notes[1] = ops ? place : NULL;
    if (observer->ids)
        add_trace(observer, &event, session->watched.trace, session->number, event.sequence);
    event_end(dispatcher, &event);
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
    observer->handling = true;
    observer->session = session->number;
    observer->trace = session->watched.trace;
    observer->tensor = gt__path_is(&record->ins) ? record->ins.result + 1 : gt__record_subject(&record->ins);
    if (dispatcher->watching && record->ins.op < GT_OP_FIRST_CONTROL)
        follow_signal(session, &record->ins);
    if (dispatcher->watching && record->ins.op == GT_OP_mark)
        log_signal(session, record->ins.scope, true, false);
    else if (dispatcher->watching && record->ins.op != GT_OP_goodbye && !is_note((gt_opcode)record->ins.op))
        log_received(session, record);
    if (observer->tape)
        gt__tape_writer_record(observer->tape, session, dispatcher->watching ? observer->received : 0, record);
}

/* A block that becomes text stays short in lines, too: so many of them wait for that at most, in all buffers. */
static void end_long_block(gt_observer *observer, uint32_t lines)
{
    observer->run_lines += lines;
    if (observer->run_lines < MOST_LINES)
        return;
    observer->run_lines = 0;
    gt__file_next_buffer(observer->log);
}

static gt_log_text *place_in_run(void *context, uint32_t scope, uint32_t site)
{
    return place_of(context, scope, site);
}

bool gt__observe_run(gt_session *session, const gt_path *path, const gt_slot *run)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    gt_observer *observer = dispatcher->observer;
    uint32_t lines;
    if (!observer->log || observer->console || observer->traced || observer->tape || observer->ids ||
        !path->one_signal || gt__log_on(GT_LOG_DISPATCHER))
        return false;
    size_t bytes = gt__log_run_bytes(observer->encoder, path, run, &lines);
    if (!bytes || bytes > gt__file_most(observer->log))
        return false;
    follow_signal(session, gt__path_maker(path, 0));
    keep_clock(dispatcher, lines);
    char *room = gt__file_reserve(observer->log, bytes);
    gt_log_run what = {.sequence = observer->sequence + 1,
                       .at_ns = observer->now_ns,
                       .source = session->watched.source,
                       .path = path,
                       .run = run,
                       .place = place_in_run,
                       .context = session};
    observer->sequence += lines;
    if (room)
        gt__file_commit(observer->log, (size_t)(gt__log_encode_run(observer->encoder, &what, room) - room));
    if (room && observer->writer)
        end_long_block(observer, lines);
    return true;
}

void gt__observe_cause(const gt_dispatcher *dispatcher, uint64_t *line, uint64_t *tensor)
{
    const gt_observer *observer = dispatcher->observer;
    *line = observer->handling ? observer->received : 0;
    *tensor = observer->handling ? observer->tensor : 0;
}

void gt__observe_resume(const gt_session *session, uint64_t line, uint64_t tensor)
{
    gt_observer *observer = session->dispatcher->observer;
    observer->handling = true;
    observer->session = session->number;
    observer->trace = session->watched.trace;
    observer->received = line;
    observer->tensor = tensor;
}

void gt__observe_handled(gt_dispatcher *dispatcher)
{
    dispatcher->observer->handling = false;
    dispatcher->observer->until_clock = 0;
}

void gt__observe_answered(gt_session *session, gt_opcode op, uint64_t tensor, uint64_t bytes, bool failed)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    gt_log_event event = event_begin(dispatcher, GT_EVENT_SEND, session->watched.source, op, bytes);
    event.failed = failed;
    event.tensor = tensor;
    if (dispatcher->observer->ids)
        add_trace(dispatcher->observer, &event, session->watched.trace, session->number, 0);
    event_end(dispatcher, &event);
}

void gt__observe_refused(gt_session *session, uint64_t ticket, const char *text)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    if (!dispatcher->watching)
        return;
    gt_log_event event =
        event_begin(dispatcher, GT_EVENT_ERROR, session->watched.source, GT_OP_INVALID, strlen(text));
    char *at = gt__log_number(dispatcher->observer->own, "ticket=", ticket);
    event_end_text(dispatcher, &event, gt__log_quoted(at, " error=", text, strlen(text)));
}

/* A peer joined or left; of one that joined, its link and `key` with its value. */
static void log_presence(gt_dispatcher *dispatcher, gt_log_text *source, const gt_log_text *trace,
                         const char *parent, const char *left, const char *link, const char *key, const char *text)
{
    uint64_t slots = 1u + (left ? (unsigned)GT_GOODBYE_TAIL : (unsigned)GT_HELLO_TAIL);
    gt_log_event event = event_begin(dispatcher, left ? GT_EVENT_DISCONNECT : GT_EVENT_CONNECT, source,
                                     left ? GT_OP_goodbye : GT_OP_hello, slots * sizeof(gt_slot));
    char *at = dispatcher->observer->own;
    if (left)
        at = gt__log_quoted(at, "reason=", left, strlen(left));
    else
        at = gt__log_word(gt__log_word(at, "link="), link);
    if (!left && trace) {
        memcpy(at, trace->text, trace->length);
        at = gt__log_word(at + trace->length, parent);
    }
    if (!left && key)
        at = gt__log_quoted(at, key, text, strlen(text));
    event_end_text(dispatcher, &event, at);
}

void gt__observe_client(gt_session *session, const char *left, const char *context)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    gt_trace_ids *ids = dispatcher->observer->ids;
    char parent[GT_TRACE_PARENT] = "";
    if (!left && ids)
        session->watched.trace = gt__trace_join(ids, session->number, context, parent);
    if (!left) {
        char number[24];
        snprintf(number, sizeof number, "%llu", (unsigned long long)session->number);
        session->watched.source = gt__log_source("CLIENT", number);
    } else
        dispatcher->observer->handling = false;
    if (dispatcher->observer->tape)
        gt__tape_writer_client(dispatcher->observer->tape, session, left);
    if (dispatcher->watching)
        log_presence(dispatcher, session->watched.source,
                     ids ? gt__trace_text(ids, session->watched.trace, session->number) : NULL, parent, left,
                     gt__link_name(session->link), session->name[0] ? " name=" : NULL, session->name);
    if (left) {
        if (ids)
            gt__trace_leave(ids, session->watched.trace);
        forget_places(&session->watched);
        free(session->watched.path_text);
        free(session->watched.source);
        memset(&session->watched, 0, sizeof session->watched);
    }
}

/* ---- workers ------------------------------------------------------------------------------------------------ */

/* The bytes sent because of a record: the record, or, between workers, the tensor, counted where it arrives. */
static uint64_t travelling(const gt_slot *record)
{
    const gt_instruction *ins = &record->ins;
    gt_meta meta;
    bool arrives = ins->op >= GT_OP_recv && ins->op <= GT_OP_all_to_all &&
                   gt__meta_set(&meta, (gt_dtype)ins->dtype, ins->rank, record[1].i64) == GT_OK;
    return arrives ? gt__meta_bytes(&meta) : record_bytes(ins);
}

void gt__observe_part(gt_dispatch_worker *worker, uint32_t slot, const gt_layout *layout, unsigned member,
                      const gt_meta *whole)
{
    gt_meta part;
    gt__layout_part(layout, member, whole, &part);
    gt_shape_part which = {
        .member = (uint16_t)member, .members = layout->count, .kind = layout->kind, .axis = layout->axis};
    for (unsigned d = 0; layout->kind == GT_MESHED && d < layout->mesh.rank; d++)
        if (layout->mesh.axis[d].kind == GT_SPLIT)
            which.axis |= (uint8_t)(1u << layout->mesh.axis[d].axis);
    if (layout->kind == GT_MESHED && !which.axis)
        which.kind = GT_PARTIAL;
    gt__shapes_announce(worker->peer->dispatcher->observer->shapes, &worker->watched.shapes, slot, &part, &which);
}

void gt__observe_path_result(gt_dispatch_worker *worker, uint32_t slot, const gt_meta *meta)
{
    gt__shapes_note(worker->peer->dispatcher->observer->shapes, &worker->watched.shapes, slot, meta);
}

void gt__observe_sent(gt_dispatch_worker *worker, const gt_slot *record)
{
    gt_dispatcher *dispatcher = worker->peer->dispatcher;
    gt_observer *observer = dispatcher->observer;
    gt_sent sent = {.number = worker->records, .op = record->ins.op};
    if (record->ins.op == GT_OP_watch || record->ins.op == GT_OP_stats || record->ins.op == GT_OP_peer ||
        record->ins.op == GT_OP_share || record->ins.op == GT_OP_stand_in || record->ins.op == GT_OP_mark)
        return; /* between the dispatcher and the worker only */
    if (observer->handling) {
        sent.sequence = observer->received;
        sent.session = observer->session;
        sent.trace = observer->trace;
        sent.tensor = observer->tensor;
    } else
        sent.tensor = gt__record_subject(&record->ins);
    sent.shape = gt__shapes_follow(observer->shapes, &worker->watched.shapes, record);
    sent.generation = gt__shapes_generation(observer->shapes);
    gt__sent_remember(&worker->watched, &sent);
    gt_log_event event = event_begin(dispatcher, GT_EVENT_WORKER_SEND, worker->watched.source,
                                     (gt_opcode)record->ins.op, travelling(record));
    event.session = sent.session;
    event.tensor = sent.tensor;
    event.notes[0] = gt__shapes_text(observer->shapes, sent.shape, sent.generation);
    if (observer->ids)
        add_trace(observer, &event, sent.trace, sent.session, sent.sequence);
    event_end(dispatcher, &event);
}

/* From the worker's clock to the time since the dispatcher started. */
static uint64_t since_start(const gt_dispatch_worker *worker, uint64_t worker_ns)
{
    uint64_t started = worker->peer->dispatcher->started_ns,
             ns = worker_ns - (uint64_t)worker->watched.clock_offset_ns;
    return ns > started ? ns - started : 0;
}

static void worker_received(gt_dispatch_worker *worker, const gt_sent *sent, uint64_t bytes, bool failed,
                            uint64_t start_ns, uint64_t duration_ns)
{
    gt_dispatcher *dispatcher = worker->peer->dispatcher;
    gt_log_event event =
        event_begin(dispatcher, GT_EVENT_WORKER_RECV, worker->watched.source, (gt_opcode)sent->op, bytes);
    event.failed = failed;
    event.session = sent->session;
    event.tensor = sent->tensor;
    event.notes[0] = gt__shapes_text(dispatcher->observer->shapes, sent->shape, sent->generation);
    if (dispatcher->observer->ids)
        add_trace(dispatcher->observer, &event, sent->trace, sent->session, sent->sequence);
    event.start_ns = start_ns ? since_start(worker, start_ns) : 0;
    event.duration_ns = duration_ns;
    event_end(dispatcher, &event);
}

void gt__observe_timing(gt_dispatch_worker *worker, const gt_slot *record)
{
    worker->peer->dispatcher->observer->until_clock = 0; /* it happened some time ago: read the clock */
    for (uint64_t k = 0; k < record->ins.imm[1].u; k++) {
        gt_timing_entry entry;
        memcpy(&entry, record[1].bytes + k * sizeof entry, sizeof entry);
        const gt_sent *sent = gt__sent_recall(&worker->watched, record->ins.result + k);
        if (sent && sent->op == entry.op && !entry.told)
            worker_received(worker, sent, sizeof entry, entry.failed, entry.start_ns, entry.duration_ns);
        if (sent && entry.failed)
            worker->watched.last_failed = (struct gt_failed){.number = sent->number, .sequence = sent->sequence};
    }
}

void gt__observe_worker_answer(gt_dispatch_worker *worker, gt_opcode op, const gt_session *session,
                               uint64_t tensor, uint64_t bytes, const gt_slot *answer)
{
    const gt_instruction *ins = &answer->ins;
    bool failed = ins->op == GT_OP_failure;
    worker->peer->dispatcher->observer->until_clock = 0;
    gt_sent sent = {.op = (uint16_t)op, .session = session ? session->number : 0, .tensor = session ? tensor : 0};
    sent.trace = session ? session->watched.trace : 0;
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
    for (uint32_t k = 0; k < watched->sent_count;
         k++) { /* another worker's, whose records have not been read yet */
        const gt_sent *sent = gt__sent_at(watched, k);
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
    if (watched->last_failed.number == record->ins.operand[1]) { /* its failure was logged just before */
        watched->failures[watched->failure_next++ % GT_WATCHED_FAILURES] = watched->last_failed;
        number = watched->last_failed.sequence;
    }
    gt_log_event event = event_begin(dispatcher, GT_EVENT_ERROR, worker->watched.source,
                                     op < GT_OP_COUNT ? (gt_opcode)op : GT_OP_INVALID, record_bytes(&record->ins));
    char *at = gt__log_line_number(dispatcher->observer->own, "instruction=", number);
    event_end_text(dispatcher, &event,
                   gt__log_quoted(at, " error=", (const char *)record[1].bytes, record->ins.imm[1].u));
}

static void set_watching(gt_dispatch_worker *worker, bool watching)
{
    worker->watched.sent_count = 0;
    gt__slot_shapes_free(&worker->watched.shapes); /* it was not followed before */
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
        watched->source = gt__log_source("WORKER", worker->name);
    if (dispatcher->watching)
        log_presence(dispatcher, watched->source, NULL, "", left, gt__link_name(worker->link),
                     " engine=", worker->engine);
    if (left) {
        free(watched->source);
        free(watched->sent);
        gt__slot_shapes_free(&watched->shapes);
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
    /* A log that cannot be written any more is switched off. */
    if (observer->log && gt__file_failed(observer->log))
        gt__file_close(&observer->log);
    else if (observer->tape && gt__tape_writer_failed(observer->tape))
        gt__tape_writer_free(&observer->tape);
    else
        return;
    decide(dispatcher);
}

void gt__observer_write(gt_dispatcher *dispatcher)
{
    if (dispatcher->observer->log)
        gt__file_drain(dispatcher->observer->log);
}

bool gt__observer_awaits(const gt_dispatch_worker *worker)
{
    const gt_watched *watched = &worker->watched;
    return watched->sent_count && watched->sent[watched->sent_first].number <= watched->awaited;
}

void gt__observer_tape_from(gt_dispatcher *dispatcher, uint64_t number)
{
    if (dispatcher->observer->tape)
        gt__tape_writer_from(dispatcher->observer->tape, number);
}

static gt_err open_log(gt_observer *observer, const gt_observer_options *options, const char *path)
{
    uint64_t rotate_bytes =
        options->log_bytes ? options->log_bytes : (uint64_t)gt__setting(GT_SETTING_INSTRUCTION_LOG_SIZE);
    bool compact = gt__log_is_compact(path);
    gt_log_head head = gt__log_head_now();
    gt_file_options log = {
        .path = path, .what = "instruction log", .keep = KEEP_LOGS, .rotate_bytes = rotate_bytes};
    log.keep_old = options->keep_old;
    log.buffers = compact ? COMPACT_BUFFERS : TEXT_BUFFERS;
    if (compact) {
        log.seal = gt__log_seal;
        log.head = &head;
        log.head_bytes = sizeof head;
    } else {
        GT_TRY(writer_new(&observer->writer));
        log.translate = write_lines;
        log.context = observer->writer;
    }
    observer->encoder = gt__log_encoder_new();
    return observer->encoder ? gt__file_open(&log, &observer->log) : gt__fail(GT_ERR_MEMORY, "out of memory");
}

gt_err gt__observer_new(gt_dispatcher *dispatcher, const gt_observer_options *options)
{
    gt_observer *observer = calloc(1, sizeof *observer);
    if (!observer)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    dispatcher->observer = observer;
    observer->console = options->console;
    observer->format = gt__log_format_new();
    observer->shapes = gt__shapes_new();
    if (!observer->format || !observer->shapes)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    if (options->trace_ids || gt__setting(GT_SETTING_TRACE_IDS) > 0) {
        observer->ids = gt__trace_ids_new();
        if (!observer->ids)
            return gt__fail(GT_ERR_MEMORY, "out of memory");
    }
    const char *path = options->log ? options->log : getenv("GT_INSTRUCTION_LOG");
    if (path && *path)
        GT_TRY(open_log(observer, options, path));
    const char *tape = options->tape ? options->tape : getenv("GT_TAPE");
    if (tape && *tape)
        GT_TRY(gt__tape_writer_new(tape, options->keep_old ? KEEP_LOGS : 0, &observer->tape));
    decide(dispatcher);
    return GT_OK;
}

void gt__observer_free(gt_dispatcher *dispatcher)
{
    if (!dispatcher->observer)
        return;
    gt_observer *observer = dispatcher->observer;
    gt__file_close(&observer->log);
    gt__tape_writer_free(&observer->tape);
    writer_free(observer->writer);
    gt__log_encoder_free(observer->encoder);
    gt__log_format_free(observer->format);
    gt__shapes_free(observer->shapes);
    gt__trace_ids_free(observer->ids);
    free(observer);
    dispatcher->observer = NULL;
}

/*
 * cli/visualize/chrome.c: a timeline as a trace that Perfetto, speedscope and chrome://tracing open.
 *
 * Clients, the dispatcher and the workers are processes, each party a thread. What takes time is a complete event ("X"):
 * operations, inside the scope that they belong to, and waits. So are messages, which last a nanosecond: flows ("s" to "t" to
 * "f", from the client's line by the dispatcher to the worker) connect slices only. The slices of a thread are one after
 * another or one inside another, as viewers demand: those that overlap go to further threads of the party. Signals, connections and
 * errors are instants ("i"); the program's marks have a thread of their own, since Perfetto shows global instants without a name. Times are in microseconds, with three digits behind the point.
 *
 * Perfetto takes thread numbers for those of one machine: a thread with the number of a process is its main thread, and a number
 * that two processes use is one thread. So each thread has a number of its own, behind those of the processes.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "cli/visualize/visualize.h"

enum {
    MOST_ROWS = 64, /* threads of a party */
    CLOSE_NS = 5,   /* what rounding makes overlap */
    PROCESSES = 3,  /* numbers 1 to 3 */
    MARKS = 4,      /* the thread of marks, among those of the workers */
};

/* ANSWER: a client waits for one; WAIT: a worker for others. */
typedef enum slice_kind { SLICE_SCOPE, SLICE_ANSWER, SLICE_WAIT, SLICE_WORK, SLICE_MESSAGE } slice_kind;

/* Whether it may enclose others. */
static bool encloses(slice_kind kind)
{
    return kind == SLICE_SCOPE || kind == SLICE_ANSWER;
}

typedef struct slice {
    int32_t party, row;
    int64_t start_ns, end_ns;
    slice_kind kind;
    int32_t event; /* SLICE_SCOPE: of the spans; SLICE_ANSWER: of the waits */
} slice;

typedef struct trace {
    FILE *json;
    const gt_timeline *timeline;
    gt_scope_span *spans;
    size_t span_count;
    slice *slices;
    size_t slice_count, slice_capacity;
    int32_t *rows;    /* of each party */
    int32_t *work_of; /* of each event: the slice of its work or message, plus one; 0: it has none */
} trace;

static int64_t nanoseconds(double seconds)
{
    return llround(fmin(fmax(seconds, 0), 1e9) * 1e9);
}

/* ---- slices ------------------------------------------------------------------------------------------------- */

/* A flow finds no slice of no length: all but scopes last a nanosecond. */
static void add_slice(trace *t, int32_t party, slice_kind kind, int64_t start_ns, int64_t end_ns, int32_t event)
{
    int64_t least_ns = start_ns + (kind != SLICE_SCOPE);
    *GT_PUSH(t->slices, t->slice_count, t->slice_capacity) =
        (slice){.party = party,
                .start_ns = start_ns,
                .end_ns = end_ns > least_ns ? end_ns : least_ns,
                .kind = kind,
                .event = event};
}

/* When a message was sent: those of one party at the same moment are a nanosecond apart. */
static int64_t message_time(const gt_timeline_event *event, int64_t *last_ns)
{
    int64_t at = nanoseconds(event->time);
    at = at > *last_ns ? at : *last_ns;
    *last_ns = at + 1;
    return at;
}

static void collect(trace *t)
{
    const gt_timeline *timeline = t->timeline;
    int64_t *last_ns = gt__zeroed(timeline->party_count, sizeof *last_ns);
    int32_t *wait_of = gt__zeroed(timeline->count + 1, sizeof *wait_of); /* of each request; plus one */
    for (size_t k = 0; k < timeline->wait_count; k++) {
        const gt_timeline_wait *wait = &timeline->waits[k];
        if (wait->request >= 0)
            wait_of[wait->request] = (int32_t)k + 1;
        else
            add_slice(t, wait->event.party, SLICE_ANSWER, nanoseconds(wait->start), nanoseconds(wait->end),
                      (int32_t)k);
    }
    for (size_t k = 0; k < timeline->count; k++) {
        const gt_timeline_event *event = &timeline->events[k];
        int32_t index = (int32_t)k, sender = event->event == GT_EVENT_RECV ? event->party : 0;
        double ready = event->start + event->wait;
        int64_t at;
        switch ((gt_event)event->event) {
        case GT_EVENT_RECV:
        case GT_EVENT_WORKER_SEND:
            at = message_time(event, &last_ns[sender]);
            if (sender && wait_of[k])
                add_slice(t, sender, SLICE_ANSWER, at, nanoseconds(timeline->waits[wait_of[k] - 1].end),
                          wait_of[k] - 1);
            else
                add_slice(t, sender, SLICE_MESSAGE, at, at, index);
            break;
        case GT_EVENT_WORKER_RECV:
            if (event->wait > 0)
                add_slice(t, event->party, SLICE_WAIT, nanoseconds(event->start), nanoseconds(ready), index);
            add_slice(t, event->party, SLICE_WORK, nanoseconds(ready), nanoseconds(event->start + event->duration),
                      index);
            break;
        default:
            break;
        }
    }
    for (size_t k = 0; k < t->span_count; k++)
        if (t->spans[k].scope >= 0)
            add_slice(t, t->spans[k].party, SLICE_SCOPE, nanoseconds(t->spans[k].start),
                      nanoseconds(t->spans[k].end), (int32_t)k);
    free(last_ns);
    free(wait_of);
}

/* By party and time; what encloses comes first. */
static int by_place(const void *left, const void *right)
{
    const slice *a = left, *b = right;
    if (a->party != b->party)
        return a->party < b->party ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    if (encloses(a->kind) != encloses(b->kind))
        return encloses(a->kind) ? -1 : 1;
    if (a->end_ns != b->end_ns)
        return a->end_ns > b->end_ns ? -1 : 1;
    return (a->event > b->event) - (a->event < b->event);
}

/* A thread while its slices are put into it: where the last one ends that may enclose others, and the last of the others. */
typedef struct row {
    int64_t outer_end, inner_end;
} row;

/* Put a slice into a row, unless it would overlap what is there. */
static bool fits(row *r, slice *s)
{
    int64_t busy = r->inner_end;
    if (s->start_ns < busy && busy - s->start_ns <= CLOSE_NS && busy <= s->end_ns)
        s->start_ns = busy;
    if (s->start_ns < busy)
        return false;
    bool outer = encloses(s->kind), within = s->start_ns < r->outer_end;
    if (within && (outer || s->end_ns > r->outer_end))
        return false;
    if (outer)
        r->outer_end = s->end_ns;
    else
        r->inner_end = s->end_ns;
    return true;
}

static void choose_rows(trace *t)
{
    row rows[MOST_ROWS];
    size_t kept = 0;
    int32_t party = -1;
    if (t->slice_count)
        qsort(t->slices, t->slice_count, sizeof *t->slices, by_place);
    for (size_t k = 0; k < t->slice_count; k++) {
        slice *s = &t->slices[k];
        if (s->party != party)
            memset(rows, 0, sizeof rows);
        party = s->party;
        while (s->row < MOST_ROWS && !fits(&rows[s->row], s))
            s->row++;
        if (s->row == MOST_ROWS)
            continue; /* more at once than any engine runs */
        if (s->row >= t->rows[s->party])
            t->rows[s->party] = s->row + 1;
        t->slices[kept++] = *s;
    }
    t->slice_count = kept;
    for (size_t k = 0; k < kept; k++) {
        const slice *s = &t->slices[k];
        int32_t event = s->kind == SLICE_ANSWER ? t->timeline->waits[s->event].request : s->event;
        if (s->kind != SLICE_SCOPE && s->kind != SLICE_WAIT && event >= 0)
            t->work_of[event] = (int32_t)k + 1;
    }
}

/* ---- writing ------------------------------------------------------------------------------------------------ */

static int32_t process_of(const trace *t, int32_t party)
{
    return (int32_t)t->timeline->parties[party].kind + 1;
}

static int64_t thread_of(const trace *t, int32_t party, int32_t row_number)
{
    return (int64_t)row_number * (int64_t)t->timeline->party_count + party + 1 + MARKS;
}

/* The fields common to all events, up to and including "ts". */
static void begin_in(const trace *t, const char *name, const char *phase, int32_t process, int64_t thread,
                     int64_t at_ns)
{
    fputs(",\n{\"name\": ", t->json);
    gt__json_string(t->json, name);
    fprintf(t->json, ", \"ph\": \"%s\", \"pid\": %d, \"tid\": %lld, \"ts\": %lld.%03lld", phase, process,
            (long long)thread, (long long)(at_ns / 1000), (long long)(at_ns % 1000));
}

static void begin(const trace *t, const char *name, const char *phase, int32_t party, int32_t row_number,
                  int64_t at_ns)
{
    begin_in(t, name, phase, process_of(t, party), thread_of(t, party, row_number), at_ns);
}

static void write_piece(FILE *json, const char *key, gt_piece piece)
{
    char text[256];
    if (!piece.length)
        return;
    snprintf(text, sizeof text, "%.*s", piece.length, piece.at);
    gt__text_whole(text);
    fprintf(json, ", \"%s\": ", key);
    gt__json_string(json, text);
}

/* The arguments, and the end of the event. */
static void write_arguments(const trace *t, const gt_timeline_event *event)
{
    fprintf(t->json, ", \"args\": {\"sequence\": %llu, \"bytes\": %llu", (unsigned long long)event->sequence,
            (unsigned long long)event->bytes);
    write_piece(t->json, "line", event->place);
    write_piece(t->json, "shape", event->shape);
    if (event->scope >= 0) {
        fputs(", \"scope\": ", t->json);
        gt__json_string(t->json, t->timeline->scopes[event->scope].name);
    }
    fputs(", \"command\": ", t->json);
    gt__json_string(t->json, event->command);
    fputs(", \"details\": ", t->json);
    gt__json_string(t->json, event->details);
    fputs("}}", t->json);
}

/* A signal('NAME') of the program, where the workers reach it; not the beginning of a scope. */
static bool is_mark(const gt_timeline_event *event)
{
    return event->event == GT_EVENT_SIGNAL && !event->is_band;
}

static bool has_marks(const gt_timeline *timeline)
{
    for (size_t k = 0; k < timeline->count; k++)
        if (is_mark(&timeline->events[k]))
            return true;
    return false;
}

static void write_thread_name(const trace *t, int32_t process, int64_t thread, const char *name, int64_t place)
{
    fprintf(t->json,
            ",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": %d, \"tid\": %lld, \"args\": {\"name\": ",
            process, (long long)thread);
    gt__json_string(t->json, name);
    fprintf(t->json,
            "}},\n{\"name\": \"thread_sort_index\", \"ph\": \"M\", \"pid\": %d, \"tid\": %lld, \"args\": "
            "{\"sort_index\": %lld}}",
            process, (long long)thread, (long long)place);
}

static void write_names(const trace *t)
{
    static const char *const kinds[PROCESSES] = {"Clients", "Dispatcher", "Workers"};
    FILE *json = t->json;
    for (int kind = 0; kind < PROCESSES; kind++)
        fprintf(json,
                "%s\n{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": %d, \"tid\": %d, \"args\": {\"name\": "
                "\"%s\"}},\n"
                "{\"name\": \"process_sort_index\", \"ph\": \"M\", \"pid\": %d, \"tid\": %d, \"args\": "
                "{\"sort_index\": %d}}",
                kind ? "," : "", kind + 1, kind + 1, kinds[kind], kind + 1, kind + 1, kind);
    for (size_t k = 0; k < t->timeline->party_count; k++)
        for (int32_t number = 0; number == 0 || number < t->rows[k]; number++) {
            const gt_party *party = &t->timeline->parties[k];
            char name[256], more[16] = "";
            if (number)
                snprintf(more, sizeof more, " (%d)", number + 1);
            if (party->program)
                snprintf(name, sizeof name, "%.128s (client %.64s)%s", party->program, party->name, more);
            else
                snprintf(name, sizeof name, "%s%.128s%s", party->kind == GT_PARTY_CLIENT ? "client " : "",
                         *party->name ? party->name : "dispatcher", more);
            gt__text_whole(name);
            write_thread_name(t, process_of(t, (int32_t)k), thread_of(t, (int32_t)k, number), name,
                              (int64_t)k * MOST_ROWS + number);
        }
    if (has_marks(t->timeline))
        write_thread_name(t, (int32_t)GT_PARTY_WORKER + 1, MARKS, "signals", 0);
}

/* What a slice shows; NULL: a scope. */
static const gt_timeline_event *event_of(const trace *t, const slice *s)
{
    const gt_timeline_wait *wait = s->kind == SLICE_ANSWER ? &t->timeline->waits[s->event] : NULL;
    if (wait)
        return wait->request >= 0 ? &t->timeline->events[wait->request] : &wait->event;
    return s->kind == SLICE_SCOPE ? NULL : &t->timeline->events[s->event];
}

static void write_slice(const trace *t, const slice *s)
{
    static const char *const categories[] = {
        [SLICE_SCOPE] = "scope", [SLICE_ANSWER] = "wait", [SLICE_WAIT] = "wait", [SLICE_MESSAGE] = "message"};
    const gt_timeline_event *event = event_of(t, s);
    char name[128];
    if (!event)
        snprintf(name, sizeof name, "%s", t->timeline->scopes[t->spans[s->event].scope].name);
    else
        snprintf(name, sizeof name, "%s%s", s->kind == SLICE_WAIT || s->kind == SLICE_ANSWER ? "wait: " : "",
                 event->label);
    gt__text_whole(name);
    begin(t, name, "X", s->party, s->row, s->start_ns);
    int64_t took = s->end_ns - s->start_ns;
    fprintf(t->json, ", \"dur\": %lld.%03lld, \"cat\": \"%s\"", (long long)(took / 1000), (long long)(took % 1000),
            s->kind == SLICE_WORK ? gt__category_table[event->category].name : categories[s->kind]);
    if (event)
        write_arguments(t, event);
    else
        fprintf(t->json, ", \"args\": {\"operations\": %zu}}", t->spans[s->event].operations);
}

/* A step of a flow, inside the slice. */
static void write_step(const trace *t, const char *phase, const slice *s, int64_t *at_ns, size_t id)
{
    *at_ns = s->start_ns > *at_ns ? s->start_ns : *at_ns;
    begin(t, "instruction", phase, s->party, s->row, *at_ns);
    fprintf(t->json, ", \"cat\": \"flow\", \"id\": %zu%s}", id, *phase == 'f' ? ", \"bp\": \"e\"" : "");
}

/* From the client's line, if it is known, by the dispatcher to the worker's operation, if it began later. */
static void write_flow(const trace *t, size_t index, int32_t cause)
{
    const gt_timeline_event *request = &t->timeline->events[index];
    const slice *sent = t->work_of[index] ? &t->slices[t->work_of[index] - 1] : NULL;
    const slice *work = request->partner >= 0 && t->work_of[request->partner]
                            ? &t->slices[t->work_of[request->partner] - 1]
                            : NULL;
    const slice *line = cause >= 0 && t->work_of[cause] ? &t->slices[t->work_of[cause] - 1] : NULL;
    int64_t at_ns = 0;
    if (!sent || !work || work->start_ns < sent->start_ns)
        return;
    line = line && line->start_ns <= sent->start_ns ? line : NULL;
    if (line)
        write_step(t, "s", line, &at_ns, index);
    write_step(t, line ? "t" : "s", sent, &at_ns, index);
    write_step(t, "f", work, &at_ns, index);
}

static void write_instant(const trace *t, const gt_timeline_event *event)
{
    char name[128];
    bool signal = event->event == GT_EVENT_SIGNAL;
    gt_piece text = {0};
    if (signal || event->event == GT_EVENT_ERROR)
        text = gt__detail_text(event->details, signal ? "name" : "error");
    if (text.length)
        snprintf(name, sizeof name, "%.*s", text.length, text.at);
    else
        snprintf(name, sizeof name, "%s", gt__event_name(event->event));
    gt__text_whole(name);
    if (is_mark(event))
        begin_in(t, name, "i", (int32_t)GT_PARTY_WORKER + 1, MARKS, nanoseconds(event->start));
    else
        begin(t, name, "i", event->party, 0, nanoseconds(event->time));
    fprintf(t->json, ", \"s\": \"t\", \"cat\": \"%s\"", gt__event_name(event->event));
    write_arguments(t, event);
}

static void write_events(const trace *t)
{
    for (size_t k = 0; k < t->slice_count; k++)
        write_slice(t, &t->slices[k]);
    for (size_t k = 0; k < t->timeline->count; k++) {
        const gt_timeline_event *event = &t->timeline->events[k];
        if (event->event == GT_EVENT_WORKER_SEND)
            write_flow(t, k, event->cause);
        else if (event->event >= GT_EVENT_CONNECT || (event->event == GT_EVENT_SEND && event->partner < 0))
            write_instant(t, event);
    }
}

/* ---- files -------------------------------------------------------------------------------------------------- */

static ssize_t write_compressed(void *file, const char *bytes, size_t count)
{
    return gzwrite(file, bytes, (unsigned)count); /* 0: it failed */
}

static int close_compressed(void *file)
{
    return gzclose(file) == Z_OK ? 0 : -1;
}

static FILE *open_output(const char *path)
{
    size_t length = strlen(path);
    if (length < 3 || strcmp(path + length - 3, ".gz") != 0)
        return fopen(path, "we");
    gzFile compressed = gzopen(path, "wbe");
    if (!compressed)
        return NULL;
    FILE *file = fopencookie(compressed, "w",
                             (cookie_io_functions_t){.write = write_compressed, .close = close_compressed});
    if (!file)
        gzclose(compressed);
    return file;
}

gt_err gt__timeline_chrome(const gt_timeline *timeline, const char *path)
{
    trace t = {.json = open_output(path), .timeline = timeline};
    if (!t.json)
        return gt__fail(GT_ERR_VALUE, "cannot write %s: %s", path, strerror(errno));
    t.spans = gt__timeline_scope_spans(timeline, &t.span_count);
    t.rows = gt__zeroed(timeline->party_count, sizeof *t.rows);
    t.work_of = gt__zeroed(timeline->count + 1, sizeof *t.work_of);
    collect(&t);
    choose_rows(&t);
    fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [", t.json);
    write_names(&t);
    write_events(&t);
    fputs("\n]}\n", t.json);
    free(t.spans);
    free(t.rows);
    free(t.work_of);
    free(t.slices);
    bool failed = ferror(t.json);
    if (fclose(t.json) || failed)
        return gt__fail(GT_ERR_VALUE, "cannot write %s: %s", path, strerror(errno));
    return GT_OK;
}

/*
 * cli/simulate/timeline.c: writes a simulated run as an instruction log (dispatcher/observe/log_text.h), for `gt visualize` and all
 * that reads logs: the instructions of the programs, what workers were sent, and when they did it.
 */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/simulate/simulate.h"
#include "dispatcher/observe/log_text.h"

/* A line: of a cause, or of an item of a worker. */
typedef struct line {
    double at;
    uint32_t order; /* of those at the same time */
    uint32_t number, worker;
    uint8_t event;
} line;

typedef struct writer {
    const gt_streams *streams;
    const gt_outcome *outcome;
    FILE *file;
    gt_log_format *format;
    line *lines;
    size_t count, capacity;
    gt_log_text **workers, **clients, **shapes; /* shapes: by number, from 1 */
    double *busy_until;                         /* by worker */
} writer;

static void add(writer *w, gt_event event, double at, uint32_t worker, uint32_t number)
{
    line *l = GT_PUSH(w->lines, w->count, w->capacity);
    *l =
        (line){.at = at, .order = (uint32_t)w->count, .event = (uint8_t)event, .worker = worker, .number = number};
}

static int compare(const void *a, const void *b)
{
    const line *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* All lines, in the order of their times. */
static void collect(writer *w)
{
    const gt_streams *s = w->streams;
    for (uint32_t k = 0; k < s->cause_count; k++) {
        const gt_sim_cause *cause = &s->causes[k];
        if (!cause->left && w->outcome->emitted[k] < DBL_MAX)
            add(w, GT_EVENT_RECV, w->outcome->emitted[k], 0, k);
    }
    for (uint32_t worker = 0; worker < s->workers; worker++)
        for (uint32_t k = 0; k < s->stream[worker].count; k++)
            add(w, GT_EVENT_WORKER_SEND, w->outcome->emitted[s->stream[worker].items[k].cause], worker, k);
    for (uint32_t worker = 0; worker < s->workers; worker++)
        for (uint32_t k = 0; k < s->stream[worker].count; k++)
            add(w, GT_EVENT_WORKER_RECV, w->outcome->end[worker][k], worker, k);
    for (uint32_t k = 0; k < s->cause_count; k++)
        if (w->outcome->answered[k] < DBL_MAX)
            add(w, GT_EVENT_SEND, w->outcome->answered[k], 0, k);
    qsort(w->lines, w->count, sizeof *w->lines, compare);
}

/* In the order of the lines: when the worker did it. While an item was put aside it did others, which end before. */
static void set_time(writer *w, const line *l, gt_log_event *event)
{
    double end = w->outcome->end[l->worker][l->number];
    double start = fmax(w->outcome->start[l->worker][l->number], w->busy_until[l->worker]);
    w->busy_until[l->worker] = end;
    event->start_ns = start < 1 ? 1 : (uint64_t)start; /* 0 would be: not known */
    event->duration_ns = (uint64_t)(end - start);
}

static gt_log_event event_of(writer *w, const line *l)
{
    const gt_streams *s = w->streams;
    bool of_client = l->event == GT_EVENT_RECV || l->event == GT_EVENT_SEND;
    const gt_sim_item *item = of_client ? NULL : &s->stream[l->worker].items[l->number];
    const gt_sim_cause *cause = &s->causes[item ? item->cause : l->number];
    gt_log_event event = {.at_ns = (uint64_t)l->at,
                          .event = l->event,
                          .op = item ? s->works[item->work].op : cause->op,
                          .session = cause->session,
                          .tensor = cause->tensor,
                          .source = item ? w->workers[l->worker] : w->clients[cause->session - 1]};
    if (item) {
        event.notes[0] = item->shape ? w->shapes[item->shape] : NULL;
        event.bytes = l->event == GT_EVENT_WORKER_SEND ? item->bytes : sizeof(gt_timing_entry);
    }
    if (l->event == GT_EVENT_WORKER_RECV)
        set_time(w, l, &event);
    if (l->event == GT_EVENT_RECV) {
        const gt_slot *record = &s->records[cause->record];
        event.record = record;
        event.slots = (uint8_t)(record->ins.tail >= GT_LOG_RECORD ? GT_LOG_RECORD : 1 + record->ins.tail);
        event.bytes = (1u + record->ins.tail) * sizeof *record;
    }
    return event;
}

static gt_err write_lines(writer *w)
{
    char text[GT_LOG_LINE + 1];
    for (size_t k = 0; k < w->count; k++) {
        gt_log_event event = event_of(w, &w->lines[k]);
        event.sequence = k + 1;
        size_t length = (size_t)(gt__log_line(w->format, &event, text) - text);
        if (fwrite(text, 1, length, w->file) != length)
            return gt__fail(GT_ERR_VALUE, "the log cannot be written: %s", strerror(errno));
    }
    return GT_OK;
}

static gt_log_text **sources(const char *kind, unsigned count, bool workers)
{
    gt_log_text **texts = gt__zeroed(count + 1, sizeof(gt_log_text *));
    for (unsigned k = 0; k < count; k++) {
        char name[32];
        snprintf(name, sizeof name, workers ? "worker_%u" : "%u", workers ? k : k + 1);
        if (!(texts[k] = gt__log_source(kind, name)))
            gt__out_of_memory();
    }
    return texts;
}

static void free_texts(gt_log_text **texts, size_t count)
{
    for (size_t k = 0; k < count; k++)
        free(texts[k]);
    free(texts);
}

static void make_texts(writer *w)
{
    const gt_streams *s = w->streams;
    w->workers = sources("WORKER", s->workers, true);
    w->clients = sources("CLIENT", s->sessions, false);
    w->shapes = gt__zeroed(s->shape_count + 1, sizeof(gt_log_text *));
    for (size_t k = 0; k < s->shape_count; k++) {
        char text[GT_LOG_TEXT];
        const char *end = gt__log_shape(text, s->shapes[k].rank, s->shapes[k].shape);
        if (!(w->shapes[k + 1] = gt__log_text_new(text, (size_t)(end - text))))
            gt__out_of_memory();
    }
}

gt_err gt__timeline_write(const gt_streams *streams, const gt_outcome *outcome, const char *path)
{
    writer w = {.streams = streams, .outcome = outcome, .file = fopen(path, "we")};
    if (!w.file)
        return gt__fail(GT_ERR_VALUE, "%s: %s", path, strerror(errno));
    gt__log_text_init();
    w.format = gt__log_format_new();
    if (!w.format)
        gt__out_of_memory();
    make_texts(&w);
    w.busy_until = gt__zeroed(streams->workers, sizeof *w.busy_until);
    collect(&w);
    gt_err err = write_lines(&w);
    if (fclose(w.file) && err == GT_OK)
        err = gt__fail(GT_ERR_VALUE, "%s: %s", path, strerror(errno));
    gt__log_format_free(w.format);
    free_texts(w.workers, streams->workers);
    free_texts(w.clients, streams->sessions);
    free_texts(w.shapes, streams->shape_count + 1);
    free(w.lines);
    free(w.busy_until);
    return err;
}

/*
 * cli/visualize/chrome.c: a timeline as a trace that Perfetto and chrome://tracing open.
 *
 * Clients, the dispatcher and the workers are processes, each party a thread. Operations are complete events
 * ("X"), log lines instant ones ("i"), messages flows ("s" to "f"), signals global instants. Times are in
 * microseconds.
 */
#include <errno.h>
#include <string.h>

#include "cli/visualize/visualize.h"

enum { MICROSECONDS = 1000000 };

/* The fields common to all events, up to and including "ts". */
static void begin(FILE *json, const char *name, const char *phase, int32_t process, int32_t thread, double seconds)
{
    fputs(",\n{\"name\": ", json);
    gt__json_string(json, name);
    fprintf(json, ", \"ph\": \"%s\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f", phase, process, thread,
            seconds * MICROSECONDS);
}

static void write_arguments(FILE *json, const gt_timeline_event *event)
{
    fprintf(json,
            ", \"args\": {\"sequence\": %llu, \"bytes\": %llu, \"command\": ", (unsigned long long)event->sequence,
            (unsigned long long)event->bytes);
    gt__json_string(json, event->command);
    fputs(", \"details\": ", json);
    gt__json_string(json, event->details);
    fputs("}}", json);
}

static void write_names(FILE *json, const gt_timeline *timeline)
{
    static const char *const kinds[] = {"Clients", "Dispatcher", "Workers"};
    for (int kind = 0; kind < 3; kind++)
        fprintf(json,
                "%s\n{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": %d, \"tid\": 0, \"args\": {\"name\": "
                "\"%s\"}},\n"
                "{\"name\": \"process_sort_index\", \"ph\": \"M\", \"pid\": %d, \"tid\": 0, \"args\": "
                "{\"sort_index\": %d}}",
                kind ? "," : "", kind + 1, kinds[kind], kind + 1, kind);
    for (size_t k = 0; k < timeline->party_count; k++) {
        const gt_party *party = &timeline->parties[k];
        fprintf(json,
                ",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": %d, \"tid\": %zu, \"args\": {\"name\": ",
                (int)party->kind + 1, k + 1);
        gt__json_string(json, *party->name ? party->name : "dispatcher");
        fputs("}}", json);
    }
}

/* A message from one thread to another. */
static void write_flow(FILE *json, const gt_timeline_event *event, size_t id, int32_t from, int32_t from_thread,
                       double sent, int32_t to, int32_t to_thread, double received)
{
    begin(json, event->label, "s", from, from_thread, sent);
    fprintf(json, ", \"cat\": \"flow\", \"id\": %zu}", id);
    begin(json, event->label, "f", to, to_thread, received > sent ? received : sent);
    fprintf(json, ", \"cat\": \"flow\", \"id\": %zu, \"bp\": \"e\"}", id);
}

static void write_event(FILE *json, const gt_timeline *timeline, size_t index)
{
    enum { DISPATCHER_PROCESS = GT_PARTY_DISPATCHER + 1, DISPATCHER_THREAD = 1 };
    const gt_timeline_event *event = &timeline->events[index];
    int32_t process = (int32_t)timeline->parties[event->party].kind + 1, thread = event->party + 1;
    const gt_timeline_event *request = event->partner >= 0 ? &timeline->events[event->partner] : NULL;
    bool wait = event->event == GT_EVENT_SEND && request;
    if (event->event == GT_EVENT_WORKER_RECV || wait) {
        begin(json, event->label, "X", process, thread, wait ? request->time : event->start);
        fprintf(json, ", \"dur\": %.3f, \"cat\": \"%s\"",
                (wait ? event->time - request->time : event->duration) * MICROSECONDS,
                wait ? "wait" : gt__category_table[event->category].name);
    } else {
        begin(json, event->label, "i", process, thread, event->time);
        fprintf(json, ", \"s\": \"%c\", \"cat\": \"%s\"", event->event == GT_EVENT_SIGNAL ? 'g' : 't',
                gt__event_name(event->event));
    }
    write_arguments(json, event);
    switch ((gt_event)event->event) {
    case GT_EVENT_RECV:
        write_flow(json, event, index, process, thread, event->time, DISPATCHER_PROCESS, DISPATCHER_THREAD,
                   event->time);
        break;
    case GT_EVENT_WORKER_SEND:
        if (request) /* a request's partner is its answer, which has the start time */
            write_flow(json, event, index, DISPATCHER_PROCESS, DISPATCHER_THREAD, event->time, process, thread,
                       request->start);
        break;
    case GT_EVENT_WORKER_RECV:
        write_flow(json, event, index, process, thread, event->start + event->duration, DISPATCHER_PROCESS,
                   DISPATCHER_THREAD, event->time);
        break;
    default:
        break;
    }
}

gt_err gt__timeline_chrome(const gt_timeline *timeline, const char *path)
{
    FILE *json = fopen(path, "w");
    if (!json)
        return gt__fail(GT_ERR_VALUE, "cannot write %s: %s", path, strerror(errno));
    fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [", json);
    write_names(json, timeline);
    for (size_t k = 0; k < timeline->count; k++)
        write_event(json, timeline, k);
    fputs("\n]}\n", json);
    bool failed = ferror(json);
    if (fclose(json) || failed)
        return gt__fail(GT_ERR_VALUE, "cannot write %s: %s", path, strerror(errno));
    return GT_OK;
}

/*
 * cli/visualize/cause.c: connects the lines of a timeline. A worker's line names the tensor, `1_3`: the client's line that made
 * tensor 3 of client 1 says where in the program it stands, and in which signal's scope. From that follows when the workers reached
 * a signal, which the log has where the program emitted it, long before. And it finds out who waited for whom inside
 * collectives. Part of gt__timeline_finish (cli/visualize/parse.c).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/visualize/visualize.h"

/* ---- scopes ------------------------------------------------------------------------------------------------- */

/* A client's position in its stream. */
typedef struct stream {
    gt_piece word, name; /* of the scope entered last: as lines write it, and the signal's name */
    gt_piece signal;     /* the name of a signal just before; of an older log, perhaps a scope's */
    bool entered;        /* no line with a scope since then */
    gt_piece used;       /* the word of `scope` */
    int32_t scope;       /* -1: none yet */
    uint32_t visit;
    double done;    /* the end of all work emitted so far */
    int32_t *marks; /* signals since the last line that caused work */
    size_t mark_count, mark_capacity;
    gt_path_reader paths;
} stream;

static bool same_piece(gt_piece a, gt_piece b)
{
    return a.length == b.length && (!a.length || memcmp(a.at, b.at, (size_t)a.length) == 0);
}

/* Whether a signal's name is written as this word in scope=, itself or as that of its gradients. */
static bool is_written(gt_piece name, gt_piece word)
{
    static const char backward[] = " (backward)";
    for (int k = 0; k < word.length; k++)
        if (k >= name.length || (name.at[k] != word.at[k] && word.at[k] != '_'))
            return false;
    gt_piece rest = {.at = name.at + word.length, .length = name.length - word.length};
    return !rest.length || same_piece(rest, (gt_piece){.at = backward, .length = sizeof backward - 1});
}

static int32_t find_scope(gt_timeline *timeline, gt_piece name)
{
    for (size_t k = timeline->scope_count; k > 0; k--) /* mostly one of the last */
        if (same_piece(name, (gt_piece){.at = timeline->scopes[k - 1].name,
                                        .length = (int)strlen(timeline->scopes[k - 1].name)}))
            return (int32_t)k - 1;
    char *copy = gt__zeroed((size_t)name.length + 1, 1);
    if (name.length)
        memcpy(copy, name.at, (size_t)name.length);
    *GT_PUSH(timeline->texts, timeline->text_count, timeline->text_capacity) = copy;
    *GT_PUSH(timeline->scopes, timeline->scope_count, timeline->scope_capacity) =
        (gt_timeline_scope){.name = copy};
    return (int32_t)timeline->scope_count - 1;
}

enum { MOST_SCOPES = 4096 }; /* told apart; a program has a few, a hostile log any number */

/* The scope of a client's line, the event of this number. */
static void enter_scope(gt_timeline *timeline, stream *s, size_t index)
{
    gt_timeline_event *event = &timeline->events[index];
    gt_piece word = gt__detail(event->details, "scope");
    if (word.length && s->signal.length && is_written(s->signal, word)) {
        s->word = word;
        s->name = s->signal;
        s->entered = true;
    }
    s->signal = (gt_piece){0};
    if (!word.length)
        return;
    bool announced = same_piece(word, s->word);
    if (s->scope < 0 || !same_piece(word, s->used) || (announced && s->entered)) {
        if (timeline->scope_count < MOST_SCOPES)
            s->scope = find_scope(timeline, announced ? s->name : word);
        s->used = word;
        s->visit = (uint32_t)index + 1;
    }
    s->entered = false;
    event->scope = s->scope;
    event->visit = s->visit;
}

/* A SIGNAL line: the beginning of a scope, or a mark. */
static void see_signal(const gt_timeline_event *event, stream *s)
{
    gt_piece name = gt__detail_text(event->details, "name"), word = gt__detail(event->details, "scope");
    if (word.length) {
        s->word = word;
        s->name = name;
        s->entered = true;
    } else
        s->signal = name;
}

/* ---- causes ------------------------------------------------------------------------------------------------- */

/* The last line of each client about each tensor: a hash table of indices of events plus one. */
typedef struct subjects {
    int32_t *lines;
    size_t size;
} subjects;

typedef struct subject {
    int32_t party;
    bool path; /* the number is a hot path's */
    uint64_t number;
} subject;

/* The tensor of a client's line. */
static bool subject_of(const gt_timeline_event *event, subject *out)
{
    static const char *const keys[] = {"result", "tensor_id", "path"};
    for (int k = 0; k < 3; k++) {
        gt_piece value = gt__detail(event->details, keys[k]);
        if (!value.length)
            continue;
        *out = (subject){.party = event->party, .path = k == 2, .number = strtoull(value.at, NULL, 10)};
        return true;
    }
    return false;
}

/* The tensor of a worker's line: "1_3", of client 1. */
static bool client_subject(gt_timeline *timeline, const gt_timeline_event *event, subject *out)
{
    static const char *const keys[] = {"result", "tensor_id", "path"};
    for (int k = 0; k < 3; k++) {
        gt_piece value = gt__detail(event->details, keys[k]);
        char text[96], *number;
        if (!value.length)
            continue;
        snprintf(text, sizeof text, "%.*s", value.length, value.at);
        if (!(number = strrchr(text, '_')))
            return false;
        *number++ = 0;
        *out = (subject){.party = gt__timeline_party(timeline, GT_PARTY_CLIENT, text), .path = k == 2};
        out->number = strtoull(number, NULL, 10);
        return out->party >= 0;
    }
    return false;
}

static int32_t *find_line(const subjects *table, const gt_timeline *timeline, const subject *wanted)
{
    uint64_t hash = (wanted->number * 2 + wanted->path + 1) * 0x9e3779b97f4a7c15u ^
                    (uint64_t)wanted->party * 0xff51afd7ed558ccdu;
    for (hash ^= hash >> 29;; hash++) {
        int32_t *place = &table->lines[hash & (table->size - 1)];
        subject other;
        if (!*place || (subject_of(&timeline->events[*place - 1], &other) && other.party == wanted->party &&
                        other.path == wanted->path && other.number == wanted->number))
            return place;
    }
}

/* Whether what a worker did counts as work of the program's lines. */
static bool is_work(const gt_timeline_event *event)
{
    return event->category != GT_CATEGORY_FREE && event->category != GT_CATEGORY_SYNC;
}

/* What a line says itself, and what the one says that caused it. */
static void learn(gt_timeline_event *event, const gt_timeline_event *cause)
{
    gt_piece place = gt__detail(event->details, "at"), shape = gt__detail(event->details, "shape");
    event->place = place.length || !cause ? place : cause->place;
    event->shape = shape.length || !cause ? shape : cause->shape;
    if (cause) {
        event->scope = cause->scope;
        event->visit = cause->visit;
    }
}

/* When a client's line was executed: by the first worker, and until when by the last. */
typedef struct execution {
    double start, end;
} execution;

/* Find the cause of each worker's line, and when each client's line was executed. */
static void find_causes(gt_timeline *timeline, stream *streams, execution *executed, gt_path_member *members)
{
    subjects table = {.size = 64};
    while (table.size < 2 * timeline->count)
        table.size *= 2;
    table.lines = gt__zeroed(table.size, sizeof *table.lines);
    for (size_t k = 0; k < timeline->count; k++) {
        gt_timeline_event *event = &timeline->events[k];
        subject about;
        if (event->event == GT_EVENT_SIGNAL)
            see_signal(event, &streams[event->party]);
        if (event->event == GT_EVENT_RECV) {
            enter_scope(timeline, &streams[event->party], k);
            learn(event, NULL);
            gt__path_read(&streams[event->party].paths, event, (int32_t)k, members);
            if (is_work(event) && subject_of(event, &about))
                *find_line(&table, timeline, &about) = (int32_t)k + 1;
        }
        if (event->event == GT_EVENT_WORKER_SEND) {
            int32_t *line = is_work(event) && client_subject(timeline, event, &about)
                                ? find_line(&table, timeline, &about)
                                : NULL;
            learn(event, line && *line ? &timeline->events[*line - 1] : NULL);
            event->cause = line ? *line - 1 : -1;
            if (event->cause < 0 || event->partner < 0)
                continue;
            const gt_timeline_event *answer = &timeline->events[event->partner];
            execution *when = &executed[event->cause];
            when->start = fmin(when->start, answer->start);
            when->end = fmax(when->end, answer->start + answer->duration);
        }
    }
    for (size_t k = 0; k < timeline->count; k++) {
        gt_timeline_event *event = &timeline->events[k];
        if (event->event == GT_EVENT_WORKER_RECV)
            learn(event, event->partner >= 0 ? &timeline->events[event->partner] : NULL);
    }
    free(table.lines);
}

/* ---- signals ------------------------------------------------------------------------------------------------ */

/* The workers reached the marks before a line, which they began at `next` (infinity: there is none), when they had done what was
 * emitted before them; but not before they were emitted. */
static void reach_marks(gt_timeline *timeline, stream *s, double next)
{
    for (size_t k = 0; k < s->mark_count; k++) {
        gt_timeline_event *mark = &timeline->events[s->marks[k]];
        mark->start = fmax(mark->time, fmin(s->done, next));
    }
    s->mark_count = 0;
}

/* The lines inside of paths were executed in a part of the path's time. */
static void execute_members(const gt_timeline *timeline, const gt_path_member *members, execution *executed)
{
    for (size_t k = 0; k < timeline->count; k++) {
        if (timeline->events[k].event != GT_EVENT_RECV || members[k].path < 0)
            continue;
        const execution *path = &executed[members[k].path];
        double took = path->end - path->start;
        if (took >= 0)
            executed[k] = (execution){.start = path->start + members[k].from * took,
                                      .end = path->start + members[k].to * took};
    }
}

/* When the workers reached each signal; those whose scope has work are shown as bands. */
static void place_signals(gt_timeline *timeline, stream *streams, const execution *executed)
{
    for (size_t k = 0; k < timeline->party_count; k++) {
        streams[k].mark_count = 0;
        streams[k].done = -INFINITY;
    }
    for (size_t k = 0; k < timeline->count; k++) {
        gt_timeline_event *event = &timeline->events[k];
        stream *s = &streams[event->party];
        if (event->event == GT_EVENT_SIGNAL)
            *GT_PUSH(s->marks, s->mark_count, s->mark_capacity) = (int32_t)k;
        if (event->event != GT_EVENT_RECV || event->part_count || executed[k].end < executed[k].start)
            continue; /* of a path, its lines follow */
        for (size_t m = 0; m < s->mark_count && event->scope >= 0; m++) {
            gt_timeline_event *mark = &timeline->events[s->marks[m]];
            gt_piece name = gt__detail_text(mark->details, "name");
            const char *scope = timeline->scopes[event->scope].name;
            mark->is_band = same_piece(name, (gt_piece){.at = scope, .length = (int)strlen(scope)});
        }
        reach_marks(timeline, s, executed[k].start);
        s->done = fmax(s->done, executed[k].end);
    }
    for (size_t k = 0; k < timeline->party_count; k++)
        reach_marks(timeline, &streams[k], INFINITY);
}

/* ---- waits -------------------------------------------------------------------------------------------------- */

static bool moves(const gt_timeline_event *event)
{
    return event->category == GT_CATEGORY_MOVE || event->category == GT_CATEGORY_ALL_REDUCE ||
           event->category == GT_CATEGORY_ALL_GATHER;
}

/* Whether two successive requests belong to the same collective, or are a send and its recv: the same tensor, another
 * worker. */
static bool together(const gt_timeline_event *before, const gt_timeline_event *event)
{
    return moves(event) && before->event == GT_EVENT_WORKER_SEND && before->category == event->category &&
           before->party != event->party && gt__event_same_tensor(before, event);
}

/* The other worker of an instruction that moves data: from to= or from= in its details, or its neighbour in a
 * collective. A send's peer is the worker of its recv. */
static void find_peers(gt_timeline *timeline)
{
    for (size_t k = 0; k < timeline->count; k++) {
        gt_timeline_event *event = &timeline->events[k], *before = k ? event - 1 : event;
        if (event->event != GT_EVENT_WORKER_SEND)
            continue;
        gt_piece to = gt__detail(event->details, "to"), from = gt__detail(event->details, "from");
        if (to.at || from.at) {
            char name[64];
            snprintf(name, sizeof name, "%.*s", to.at ? to.length : from.length, to.at ? to.at : from.at);
            event->peer = gt__timeline_party(timeline, GT_PARTY_WORKER, name);
        } else if (together(before, event)) {
            bool received = strcmp(event->label, before->label) != 0;
            *(received ? &before->peer : &event->peer) = received ? event->party : before->party;
        }
    }
    for (size_t k = 0; k < timeline->count; k++) {
        gt_timeline_event *event = &timeline->events[k];
        if (event->event == GT_EVENT_WORKER_RECV && event->partner >= 0)
            event->peer = timeline->events[event->partner].peer;
    }
}

/* Nothing moves before `ready`: until then the worker waited. */
static void wait_until(gt_timeline_event *event, double ready)
{
    event->wait = fmin(fmax(ready - event->start, 0), event->duration);
}

/* Whether other workers of a collective need what this one, the k-th of them, brings. A broadcast goes to its sender first
 * (dispatcher/spread/move.c). */
static bool is_needed(const gt_timeline_event *request, size_t k)
{
    return strcmp(request->label, "broadcast") == 0 ? k == 0 : strcmp(request->label, "recv") != 0;
}

/* Whether it needs what others bring. */
static bool needs_others(const gt_timeline_event *request, size_t k)
{
    return strcmp(request->label, "broadcast") == 0 ? k > 0 : strcmp(request->label, "send") != 0;
}

/* What the workers of a collective did, which they can only do together: those that came early waited for the last one. The
 * receivers of a send and of a broadcast waited for the sender. */
static void find_waits(gt_timeline *timeline, size_t first, size_t end)
{
    double last = -INFINITY;
    for (size_t k = first; k < end; k++) {
        const gt_timeline_event *request = &timeline->events[k];
        if (request->partner < 0)
            return; /* the log ends before it */
        if (is_needed(request, k - first))
            last = fmax(last, timeline->events[request->partner].start);
    }
    for (size_t k = first; k < end; k++)
        if (needs_others(&timeline->events[k], k - first))
            wait_until(&timeline->events[timeline->events[k].partner], last);
}

/* Collectives are successive requests, one for each of their workers. */
static void find_collectives(gt_timeline *timeline)
{
    size_t first = 0;
    uint32_t *joined = gt__zeroed(timeline->party_count, sizeof *joined),
             number = 0; /* the last collective of each worker */
    for (size_t k = 0; k <= timeline->count; k++) {
        const gt_timeline_event *event = k < timeline->count ? &timeline->events[k] : NULL;
        bool goes_on = event && k > first && event->event == GT_EVENT_WORKER_SEND && together(event - 1, event) &&
                       joined[event->party] != number;
        if (!goes_on) {
            if (k > first + 1)
                find_waits(timeline, first, k);
            first = k;
            number++;
        }
        if (event)
            joined[event->party] = number;
    }
    free(joined);
}

/* ---- programs ----------------------------------------------------------------------------------------------- */

/* The name that a client gave when it connected. */
static void name_clients(gt_timeline *timeline)
{
    for (size_t k = 0; k < timeline->count; k++) {
        const gt_timeline_event *event = &timeline->events[k];
        gt_party *party = &timeline->parties[event->party];
        gt_piece name = gt__detail_text(event->details, "name");
        if (event->event != GT_EVENT_CONNECT || party->kind != GT_PARTY_CLIENT || !name.length || party->program)
            continue;
        char *copy = gt__zeroed((size_t)name.length + 1, 1);
        memcpy(copy, name.at, (size_t)name.length);
        *GT_PUSH(timeline->texts, timeline->text_count, timeline->text_capacity) = copy;
        party->program = copy;
    }
}

void gt__timeline_causes(gt_timeline *timeline)
{
    stream *streams = gt__zeroed(timeline->party_count + 1, sizeof *streams);
    execution *executed = gt__zeroed(timeline->count + 1, sizeof *executed);
    for (size_t k = 0; k < timeline->party_count; k++)
        streams[k].scope = -1;
    for (size_t k = 0; k < timeline->count; k++)
        executed[k] = (execution){.start = INFINITY, .end = -INFINITY};
    gt_path_member *members = gt__zeroed(timeline->count + 1, sizeof *members);
    name_clients(timeline);
    find_causes(timeline, streams, executed, members);
    gt__timeline_inside(timeline, members);
    execute_members(timeline, members, executed);
    place_signals(timeline, streams, executed);
    find_peers(timeline);
    find_collectives(timeline);
    for (size_t k = 0; k < timeline->party_count; k++)
        free(streams[k].marks);
    free(streams);
    free(executed);
    free(members);
}

/*
 * cli/visualize/parse.c: parses the lines of a log into a gt_timeline. First stage of `gt visualize`; layout.c is next.
 *
 *     1.608s | #0012 | WORKER_SEND  | WORKER auto_worker | WorkerBinaryOp |  152B | op=add result=006b8b4568_2
 *
 * Logs are not trusted: a malformed line is reported with its number and skipped, and bytes that are not text become
 * question marks, so that later stages need not care.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/log_file.h"
#include "cli/visualize/visualize.h"

const char *gt__event_name(gt_event event)
{
    static char names[GT_EVENT_COUNT][GT_EVENT_WIDTH + 1];
    size_t length = strcspn(gt__event_columns[event], " ");
    memcpy(names[event], gt__event_columns[event], length);
    return names[event];
}

enum { COLUMNS = 7, COMPLAINTS = 10, LOOK = 4096 };
static const double LONGEST = 1e9; /* the longest time of a log, in seconds: 30 years */

/* ---- text --------------------------------------------------------------------------------------------------- */

/* Bytes of the UTF-8 character at `text`; 0: not UTF-8. */
static unsigned utf8_length(const unsigned char *text)
{
    unsigned length = *text < 0x80 ? 1 : *text >> 5 == 6 ? 2 : *text >> 4 == 14 ? 3 : *text >> 3 == 30 ? 4 : 0;
    uint32_t code = length == 1 ? *text : *text & (0x7fu >> length);
    for (unsigned k = 1; k < length; k++) {
        if (text[k] >> 6 != 2)
            return 0;
        code = code << 6 | (text[k] & 0x3f);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    bool valid = length && code >= least[length] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    return valid ? length : 0;
}

static void keep_text_only(char *text, size_t size)
{
    for (size_t k = 0; k < size;) {
        unsigned char c = (unsigned char)text[k];
        unsigned length = utf8_length((unsigned char *)text + k);
        if (!length || (c < ' ' && c != '\n') || c == 127) {
            text[k++] = c == '\t' || c == '\r' ? ' ' : '?';
        } else
            k += length;
    }
}

void gt__text_whole(char *text)
{
    size_t last = strlen(text);
    while (last && (text[last - 1] & 0xc0) == 0x80)
        last--;
    if (last && !utf8_length((unsigned char *)text + last - 1))
        text[last - 1] = 0;
}

/* Remove blanks at both ends, in place. */
static char *trim(char *text)
{
    text += strspn(text, " ");
    size_t length = strlen(text);
    while (length && text[length - 1] == ' ')
        text[--length] = 0;
    return text;
}

gt_piece gt__detail(const char *details, const char *key)
{
    size_t length = strlen(key);
    const char *end_of_keys = details + strcspn(details, "\"");
    for (const char *at = details; (at = strstr(at, key)) && at < end_of_keys; at += length)
        if ((at == details || at[-1] == ' ') && at[length] == '=')
            return (gt_piece){.at = at + length + 1, .length = (int)strcspn(at + length + 1, " ")};
    return (gt_piece){0};
}

gt_piece gt__detail_text(const char *details, const char *key)
{
    gt_piece found = gt__detail(details, key);
    if (found.length && *found.at == '"') {
        found.at++;
        found.length = (int)strcspn(found.at, "\"");
    }
    return found;
}

/* The same, copied into `value`; NULL: no such key. */
static const char *detail(const char *details, const char *key, char *value, size_t size)
{
    gt_piece found = gt__detail(details, key);
    if (!found.at)
        return NULL;
    snprintf(value, size, "%.*s", found.length, found.at);
    return value;
}

/* A number with one of `units`; units[k] means factor[k]. */
static bool parse_quantity(const char *text, const char *const *units, const double *factors, double *value)
{
    char *unit;
    double number = strtod(text, &unit);
    if (unit == text || !isfinite(number) || number < 0)
        return false;
    for (unsigned k = 0; units[k]; k++)
        if (strcmp(unit, units[k]) == 0) {
            *value = number * factors[k];
            return true;
        }
    return false;
}

static bool parse_seconds(const char *text, double *seconds)
{
    static const char *const units[] = {"s", "", "ms", "us", "µs", "ns", NULL};
    static const double factors[] = {1, 1, 1e-3, 1e-6, 1e-6, 1e-9};
    return parse_quantity(text, units, factors, seconds) && *seconds <= LONGEST;
}

static bool parse_bytes(const char *text, uint64_t *bytes)
{
    static const char *const units[] = {"B", "", "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB", NULL};
    static const double factors[] = {1, 1, 0x1p10, 0x1p20, 0x1p30, 0x1p40, 0x1p10, 0x1p20, 0x1p30, 0x1p40};
    double value = 0;
    if (strcmp(text, "-") != 0 && *text && !parse_quantity(text, units, factors, &value))
        return false;
    *bytes = (uint64_t)fmin(value, 1e18);
    return true;
}

/* ---- lines -------------------------------------------------------------------------------------------------- */

/* The place of a party in the index, or its free place. */
static int32_t *party_place(const gt_timeline *timeline, gt_party_kind kind, const char *name)
{
    uint64_t hash = 14695981039346656037u ^ kind;
    for (const char *at = name; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 1099511628211u;
    for (hash ^= hash >> 32;; hash++) {
        int32_t *place = &timeline->party_index[hash % timeline->index_size];
        const gt_party *party = *place ? &timeline->parties[*place - 1] : NULL;
        if (!party || (party->kind == kind && strcmp(party->name, name) == 0))
            return place;
    }
}

/* Double the index when it is half full: a long-running server has many clients. */
static void grow_index(gt_timeline *timeline)
{
    if (2 * timeline->party_count < timeline->index_size)
        return;
    free(timeline->party_index);
    timeline->index_size = timeline->index_size ? 2 * timeline->index_size : 64;
    timeline->party_index = gt__zeroed(timeline->index_size, sizeof *timeline->party_index);
    for (size_t k = 0; k < timeline->party_count; k++)
        *party_place(timeline, timeline->parties[k].kind, timeline->parties[k].name) = (int32_t)k + 1;
}

static int32_t find_party(gt_timeline *timeline, gt_party_kind kind, const char *name, bool add)
{
    grow_index(timeline);
    int32_t *place = party_place(timeline, kind, name);
    if (!*place && add) {
        *GT_PUSH(timeline->parties, timeline->party_count, timeline->party_capacity) =
            (gt_party){.kind = kind, .name = name};
        *place = (int32_t)timeline->party_count;
    }
    return *place - 1;
}

int32_t gt__timeline_party(gt_timeline *timeline, gt_party_kind kind, const char *name)
{
    return find_party(timeline, kind, name, false);
}

static int32_t parse_party(gt_timeline *timeline, char *source)
{
    static const char *const kinds[] = {"CLIENT", "DISPATCHER", "WORKER"};
    for (int kind = 0; kind < 3; kind++) {
        size_t length = strlen(kinds[kind]);
        if (strncmp(source, kinds[kind], length) != 0 || (source[length] && source[length] != ' '))
            continue;
        return kind == GT_PARTY_DISPATCHER ? 0 : find_party(timeline, kind, trim(source + length), true);
    }
    return -1;
}

/* The label of a path's run is what is in it: the client's line says that, those of workers name the path as "1_3". */
static void label_path(gt_timeline *timeline, gt_timeline_event *event)
{
    char value[64], count[64], *number;
    const char *ops = strstr(event->details, " ops="), *path = detail(event->details, "path", value, sizeof value);
    int32_t party = event->party;
    if (!path)
        return;
    if ((number = strchr(value, '_'))) {
        *number++ = 0;
        party = find_party(timeline, GT_PARTY_CLIENT, value, false);
    } else
        number = value;
    uint64_t wanted = strtoull(number, NULL, 10);
    gt_timeline_path *known = NULL;
    for (size_t k = timeline->path_count; k > 0 && !known; k--)
        if (timeline->paths[k - 1].party == party && timeline->paths[k - 1].number == wanted)
            known = &timeline->paths[k - 1];
    if (ops && !known)
        known = GT_PUSH(timeline->paths, timeline->path_count, timeline->path_capacity);
    if (ops)
        *known = (gt_timeline_path){.party = party, .number = wanted, .ops = ops + sizeof " ops=" - 1};
    if (ops && detail(event->details, "instructions", count, sizeof count))
        known->instructions = (uint32_t)strtoul(count, NULL, 10);
    if (known) {
        event->label = known->ops;
        event->instructions = known->instructions;
    }
}

/* Add the line to the timeline and return NULL, or return what is wrong with it. The line is cut into pieces. */
static const char *parse_line(gt_timeline *timeline, char *line)
{
    char *column[COLUMNS] = {trim(line)};
    int columns = 1;
    for (char *at = column[0]; columns < COLUMNS && (at = strstr(at, " |")); columns++) {
        *at = 0;
        column[columns] = at += 2;
    }
    if (columns < COLUMNS - 1)
        return "fewer than six columns";
    for (int k = 0; k < columns; k++)
        column[k] = trim(column[k]);
    gt_timeline_event event = {.partner = -1, .peer = -1, .cause = -1, .scope = -1, .duration = -1};
    char *end, value[64], *source = column[3];
    if (!parse_seconds(column[0], &event.time))
        return "the first column is not a time";
    if (column[1][0] != '#' || (event.sequence = strtoull(column[1] + 1, &end, 10), *end || end == column[1] + 1))
        return "the second column is not a #number";
    while (event.event < GT_EVENT_COUNT && strcmp(column[2], gt__event_name(event.event)) != 0)
        event.event++;
    if (event.event == GT_EVENT_COUNT)
        return "the third column is not an event";
    if (!parse_bytes(column[5], &event.bytes))
        return "the sixth column is not a size";
    if ((event.party = parse_party(timeline, source)) < 0)
        return "the fourth column is not a CLIENT, WORKER or DISPATCHER";
    event.command = column[4];
    event.details = columns == COLUMNS ? column[6] : "";
    event.failed = event.event == GT_EVENT_ERROR || strstr(event.details, "success=False") != NULL;
    const char *op = detail(event.details, "op", value, sizeof value);
    event.category = (uint8_t)gt__category_of_command(event.command, op);
    const gt_op_row *row = op ? gt__op_find(op, NULL) : NULL;
    event.label = row ? row->name : event.command + (strncmp(event.command, "Worker", 6) == 0 ? 6 : 0);
    if (strcmp(event.label, "RunPath") == 0)
        label_path(timeline, &event);
    if (event.event == GT_EVENT_WORKER_RECV && detail(event.details, "duration", value, sizeof value) &&
        !parse_seconds(value, &event.duration))
        return "the duration is not a time";
    event.told = event.time;
    event.start = event.duration >= 0 ? event.time - event.duration : event.time;
    if (event.duration >= 0 && detail(event.details, "start", value, sizeof value) &&
        !parse_seconds(value, &event.start))
        return "the start is not a time";
    timeline->parties[event.party].events++;
    *GT_PUSH(timeline->events, timeline->count, timeline->capacity) = event;
    return NULL;
}

gt_err gt__timeline_read(gt_timeline *timeline, const char *path, FILE *complaints)
{
    if (!timeline->party_count)
        find_party(timeline, GT_PARTY_DISPATCHER, "", true);
    char *text = NULL;
    size_t size, before = timeline->malformed;
    gt_err err = gt__log_file_read(path, complaints, &text, &size);
    *GT_PUSH(timeline->texts, timeline->text_count, timeline->text_capacity) = text;
    GT_TRY(err);
    keep_text_only(text, size);
    size_t number = 1;
    for (char *line = text, *next; line; line = next, number++) {
        if ((next = strchr(line, '\n')))
            *next++ = 0;
        char *content = trim(line);
        if (!*content)
            continue;
        const char *problem = parse_line(timeline, content);
        if (problem && timeline->malformed++ - before < COMPLAINTS)
            fprintf(complaints, "%s:%zu: not a log line: %s\n", path, number, problem);
    }
    if (timeline->malformed - before > COMPLAINTS)
        fprintf(complaints, "%s: and %zu more lines that are not log lines\n", path,
                timeline->malformed - before - COMPLAINTS);
    return GT_OK;
}

/* ---- partners ----------------------------------------------------------------------------------------------- */

/* The unanswered requests of one party, oldest first. */
typedef struct open_requests {
    int32_t *events; /* -1: it is answered */
    size_t first, count, capacity;
    double last_end; /* end of the previous operation */
} open_requests;

bool gt__event_same_tensor(const gt_timeline_event *a, const gt_timeline_event *b)
{
    static const char *const keys[] = {"result", "tensor_id"};
    for (int k = 0; k < 2; k++) {
        gt_piece one = gt__detail(a->details, keys[k]), other = gt__detail(b->details, keys[k]);
        if (one.at && other.at)
            return one.length == other.length && memcmp(one.at, other.at, (size_t)one.length) == 0;
    }
    return true;
}

static bool answers(const gt_timeline_event *request, const gt_timeline_event *answer)
{
    bool same = strcmp(request->command, answer->command) == 0 || strstr(answer->command, "Response");
    return same && gt__event_same_tensor(request, answer);
}

/* For a log without measured durations: the operation began when it was requested, or when the previous one ended. */
static void find_duration(gt_timeline_event *event, const gt_timeline_event *request, double *last_end)
{
    if (event->duration < 0) {
        event->start = fmin(event->time, fmax(request->time, *last_end));
        event->duration = event->time - event->start;
    }
    *last_end = event->start + event->duration;
}

/* An answer without details takes those of its request. */
static void pair(gt_timeline *timeline, int32_t request, int32_t answer)
{
    gt_timeline_event *asked = &timeline->events[request], *told = &timeline->events[answer];
    asked->partner = answer;
    told->partner = request;
    char op[64];
    if (!detail(told->details, "op", op, sizeof op)) {
        told->label = asked->label;
        told->category = asked->category;
    }
}

/*
 * The oldest request that matches an answer, as index into the queue; queue->count: none. It is near the beginning of the
 * queue if everything is answered (workers), and near the end if most is not: a client emits thousands of operations
 * and then asks for one value.
 */
static size_t find_request(const gt_timeline *timeline, const open_requests *queue,
                           const gt_timeline_event *answer)
{
    size_t open = queue->count - queue->first, at = queue->first;
    for (; at < queue->count; at++) {
        if (open > 2 * LOOK && at == queue->first + LOOK)
            at = queue->count - LOOK;
        if (queue->events[at] >= 0 && answers(&timeline->events[queue->events[at]], answer))
            break;
    }
    return at;
}

/* The request is answered. Clients are answered in order: older requests of them will not be. A worker may have put older ones
 * aside, which wait for another worker. */
static void close_request(open_requests *queue, size_t at, bool in_order)
{
    queue->events[at] = -1;
    if (in_order)
        queue->first = at + 1;
    while (queue->first < queue->count && queue->events[queue->first] < 0)
        queue->first++;
}

/* Not everything is answered. An answer belongs to the oldest request that matches. */
static void find_partners(gt_timeline *timeline)
{
    open_requests *open = gt__zeroed(timeline->party_count, sizeof *open);
    for (size_t k = 0; k < timeline->count; k++) {
        gt_timeline_event *event = &timeline->events[k];
        open_requests *queue = &open[event->party];
        if (event->event == GT_EVENT_RECV || event->event == GT_EVENT_WORKER_SEND)
            *GT_PUSH(queue->events, queue->count, queue->capacity) = (int32_t)k;
        if (event->event != GT_EVENT_SEND && event->event != GT_EVENT_WORKER_RECV)
            continue;
        size_t at = find_request(timeline, queue, event);
        if (at < queue->count) {
            pair(timeline, queue->events[at], (int32_t)k);
            close_request(queue, at, event->event == GT_EVENT_SEND);
        }
        if (event->event == GT_EVENT_WORKER_RECV)
            find_duration(event, event->partner < 0 ? event : &timeline->events[event->partner], &queue->last_end);
    }
    for (size_t k = 0; k < timeline->party_count; k++)
        free(open[k].events);
    free(open);
}

static int by_time(const void *left, const void *right)
{
    const gt_timeline_event *a = left, *b = right;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return (a->sequence > b->sequence) - (a->sequence < b->sequence);
}

/* Whether an event happens in the window: an operation when the worker ran it, which may be long before its line, and a
 * signal when the workers reached it. What reaches beyond the window is cut. */
static bool falls_within(gt_timeline_event *event, double from, double to)
{
    if (event->event == GT_EVENT_SIGNAL)
        event->time = event->start;
    if (event->event != GT_EVENT_WORKER_RECV)
        return event->time >= from && event->time <= to;
    double end = event->start + event->duration, work = event->start + event->wait;
    if (end < from || event->start > to)
        return false;
    event->start = fmax(event->start, from);
    event->time = fmin(end, to);
    event->duration = event->time - event->start;
    event->wait = fmin(fmax(work - event->start, 0), event->duration);
    return true;
}

/* The waits of clients, before the window cuts them. */
static void find_waits(gt_timeline *timeline)
{
    for (size_t k = 0; k < timeline->count; k++) {
        const gt_timeline_event *event = &timeline->events[k];
        if (event->event != GT_EVENT_SEND || event->partner < 0)
            continue;
        *GT_PUSH(timeline->waits, timeline->wait_count, timeline->wait_capacity) =
            (gt_timeline_wait){.event = *event,
                               .start = timeline->events[event->partner].time,
                               .end = event->time,
                               .request = event->partner,
                               .answer = (int32_t)k};
        timeline->parties[event->party].waits++;
    }
}

/* Cut the waits to the window; moved: where events are now. */
static void keep_waits(gt_timeline *timeline, double from, double to, const int32_t *moved)
{
    size_t kept = 0;
    for (size_t k = 0; k < timeline->wait_count; k++) {
        gt_timeline_wait wait = timeline->waits[k];
        if (wait.end < from || wait.start > to) {
            timeline->parties[wait.event.party].waits--;
            continue;
        }
        wait.start = fmax(wait.start, from);
        wait.end = fmin(wait.end, to);
        wait.request = moved[wait.request];
        wait.answer = moved[wait.answer];
        timeline->waits[kept++] = wait;
    }
    timeline->wait_count = kept;
}

static int by_event_time(const void *left, const void *right, void *events)
{
    const gt_timeline_event *all = events;
    return by_time(&all[*(const int32_t *)left], &all[*(const int32_t *)right]);
}

/* Keep what happens between `from` and `to`, sorted by time again: operations end earlier than their lines were written. */
static void keep_window(gt_timeline *timeline, double from, double to)
{
    size_t kept = 0;
    int32_t *order = gt__zeroed(timeline->count, sizeof *order),
            *moved = gt__zeroed(timeline->count, sizeof *moved);
    gt_timeline_event *events = gt__zeroed(timeline->count, sizeof *events);
    for (size_t k = 0; k < timeline->count; k++) {
        moved[k] = -1;
        if (falls_within(&timeline->events[k], from, to))
            order[kept++] = (int32_t)k;
        else
            timeline->parties[timeline->events[k].party].events--;
    }
    qsort_r(order, kept, sizeof *order, by_event_time, timeline->events);
    for (size_t k = 0; k < kept; k++) {
        moved[order[k]] = (int32_t)k;
        events[k] = timeline->events[order[k]];
    }
    for (size_t k = 0; k < kept; k++) {
        if (events[k].partner >= 0)
            events[k].partner = moved[events[k].partner];
        if (events[k].cause >= 0)
            events[k].cause = moved[events[k].cause];
    }
    keep_waits(timeline, from, to, moved);
    free(timeline->events);
    timeline->events = events;
    timeline->capacity = timeline->count;
    timeline->count = kept;
    free(order);
    free(moved);
}

void gt__timeline_finish(gt_timeline *timeline, double from, double to)
{
    if (timeline->count)
        qsort(timeline->events, timeline->count, sizeof *timeline->events, by_time);
    find_partners(timeline);
    for (size_t k = 0; k < timeline->count; k++) {
        timeline->events[k].whole_start = timeline->events[k].start;
        timeline->events[k].whole_duration = timeline->events[k].duration;
    }
    gt__timeline_causes(timeline);
    find_waits(timeline);
    if (timeline->count && (from > 0 || to < INFINITY))
        keep_window(timeline, from, to);
}

double gt__timeline_begin(const gt_timeline *timeline)
{
    double begin = timeline->count ? timeline->events[0].time : 0;
    for (size_t k = 0; k < timeline->count; k++)
        if (timeline->events[k].event == GT_EVENT_WORKER_RECV)
            begin = fmin(begin, timeline->events[k].start);
    for (size_t k = 0; k < timeline->wait_count; k++)
        begin = fmin(begin, timeline->waits[k].start);
    return begin;
}

double gt__timeline_end(const gt_timeline *timeline)
{
    double end = timeline->count ? timeline->events[timeline->count - 1].time : 0;
    for (size_t k = 0; k < timeline->count; k++)
        if (timeline->events[k].event == GT_EVENT_WORKER_RECV)
            end = fmax(end, timeline->events[k].start + timeline->events[k].duration);
    for (size_t k = 0; k < timeline->wait_count; k++)
        end = fmax(end, timeline->waits[k].end);
    return end;
}

size_t gt__timeline_workers(const gt_timeline *timeline)
{
    size_t workers = 0;
    for (size_t k = 0; k < timeline->party_count; k++)
        workers += timeline->parties[k].kind == GT_PARTY_WORKER && timeline->parties[k].events > 0;
    return workers;
}

void gt__timeline_free(gt_timeline *timeline)
{
    for (size_t k = 0; k < timeline->text_count; k++)
        free(timeline->texts[k]);
    free(timeline->texts);
    free(timeline->parties);
    free(timeline->paths);
    free(timeline->parts);
    free(timeline->waits);
    free(timeline->scopes);
    free(timeline->party_index);
    free(timeline->events);
    *timeline = (gt_timeline){0};
}

/*
 * cli/simulate/run.c: lets time pass. Clients emit, workers take the items of their streams in order, one at a time, and wait for
 * each other's data. Nothing here is real: the clock jumps from one event to the next.
 *
 * As a worker does (worker/peers/deferred.h), one that would wait for another puts the item aside, with those that need it, and goes
 * on with others; unless the engine has collectives of its own, which keep the order. Busy workers of a host that has fewer cores
 * than they have threads go on more slowly, all alike.
 *
 * A send takes the link between the two as long as its bytes need, and so does a collective, once all parties are there. What the
 * processor does for them (copies, sums) is the worker's own time, after that.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/simulate/simulate.h"

#define NEVER DBL_MAX
#define NO_ITEM UINT32_MAX

/* A send and its recv, or a collective: by tag. */
typedef struct meeting {
    uint32_t arrived;
    double there; /* when the data is; NEVER: not known */
} meeting;

typedef enum idle_reason { IDLE_PROGRAM, IDLE_WORKERS, IDLE_DATA } idle_reason;

typedef struct sim_worker {
    const gt_sim_stream *stream;
    double *start, *end;
    uint32_t next;    /* the first item that was not taken */
    uint32_t running; /* or NO_ITEM */
    double left;      /* ns of its work, on a core of its own */
    double wake;      /* when there may be something to do */
    idle_reason idle;
    uint32_t *aside; /* items put aside, in order: from aside_first */
    size_t aside_first, aside_count, aside_capacity;
    double link_out, link_in; /* until then they are taken */
} sim_worker;

typedef struct sim_client {
    uint32_t *causes;
    size_t count, capacity, next;
    uint32_t waits_for; /* cause, or NO_ITEM */
    uint32_t answers;   /* that it waits for */
} sim_client;

typedef struct simulation {
    const gt_streams *streams;
    const gt_costs *costs;
    const gt_run_options *options;
    gt_outcome *outcome;
    double now, dispatcher; /* until then the dispatcher is busy */
    sim_worker *workers;
    sim_client *clients;
    meeting *meetings;
    double *arrival; /* by cause: when its records are at the workers */
    uint8_t **state; /* by worker and item: */
} simulation;

enum { STARTED = 1 }; /* a recv or collective that the worker has come to */

static const gt_sim_work *work_of(const simulation *s, const gt_sim_item *item)
{
    return &s->streams->works[item->work];
}

/* ---- clients ------------------------------------------------------------------------------------------------- */

/* The client goes on at this time: it emits until it waits. */
static void emit(simulation *s, sim_client *client, double clock)
{
    while (client->next < client->count) {
        uint32_t number = client->causes[client->next++];
        const gt_sim_cause *cause = &s->streams->causes[number];
        clock += s->costs->client_ns;
        s->outcome->emitted[number] = clock;
        s->dispatcher = fmax(s->dispatcher, clock) + cause->items * s->costs->dispatch_ns;
        s->arrival[number] = s->dispatcher;
        if (cause->waits && cause->answers) {
            client->waits_for = number;
            client->answers = cause->answers;
            break;
        }
    }
    for (unsigned w = 0; w < s->streams->workers; w++) {
        sim_worker *worker = &s->workers[w];
        if (worker->next < worker->stream->count) {
            double arrives = s->arrival[worker->stream->items[worker->next].cause];
            worker->wake = fmin(worker->wake, fmax(arrives, s->now));
        }
    }
}

/* A worker has answered. With the last answer the client goes on. */
static void take_answer(simulation *s, uint32_t cause)
{
    sim_client *client = &s->clients[s->streams->causes[cause].session - 1];
    if (client->waits_for != cause || --client->answers)
        return;
    client->waits_for = NO_ITEM;
    s->outcome->answered[cause] = s->now + s->costs->answer_ns;
    emit(s, client, s->outcome->answered[cause]);
}

/* ---- data between workers ------------------------------------------------------------------------------------ */

static double link_ns(const simulation *s, double bytes, unsigned steps)
{
    const gt_sim_link *link = &s->costs->link;
    return steps * link->latency_ns + (link->bytes_per_ns > 0 ? bytes / link->bytes_per_ns : 0);
}

static void post(simulation *s, sim_worker *from, const gt_sim_item *item)
{
    sim_worker *to = &s->workers[item->peer];
    meeting *m = &s->meetings[item->tag];
    double begins = fmax(s->now, fmax(from->link_out, to->link_in));
    double bytes = work_of(s, item)->sent;
    double taken = begins + link_ns(s, bytes, 0);
    from->link_out = to->link_in = taken;
    m->there = taken + link_ns(s, 0, 1);
    to->wake = fmin(to->wake, s->now); /* from now on it waits for data */
}

/* A party has come to a collective. With the last one the data begins to move. */
static void arrive(simulation *s, const gt_sim_item *item)
{
    const gt_sim_work *work = work_of(s, item);
    meeting *m = &s->meetings[item->tag];
    if (++m->arrived < work->parties)
        return;
    m->there = s->now + link_ns(s, work->sent, work->steps);
    for (unsigned w = 0; w < s->streams->workers; w++)
        s->workers[w].wake = fmin(s->workers[w].wake, s->now); /* those that wait wait for data from now on */
}

/* ---- workers ------------------------------------------------------------------------------------------------- */

static bool has_needs(const sim_worker *worker, const gt_sim_item *item)
{
    for (uint32_t k = 0; k < item->need_count; k++)
        if (worker->end[worker->stream->needs[item->needs + k]] == NEVER)
            return false;
    return true;
}

/* Whether the item can run now. A collective is begun by asking. */
static bool is_ready(simulation *s, unsigned w, uint32_t number)
{
    sim_worker *worker = &s->workers[w];
    const gt_sim_item *item = &worker->stream->items[number];
    if (!has_needs(worker, item))
        return false;
    bool waits = item->kind == GT_SIM_COLLECTIVE || item->kind == GT_SIM_RECV;
    if (waits && !(s->state[w][number] & STARTED)) {
        s->state[w][number] |= STARTED;
        worker->start[number] = s->now;
        if (item->kind == GT_SIM_COLLECTIVE)
            arrive(s, item);
    }
    return !waits || s->meetings[item->tag].there <= s->now;
}

static void run_item(simulation *s, unsigned w, uint32_t number)
{
    sim_worker *worker = &s->workers[w];
    const gt_sim_item *item = &worker->stream->items[number];
    if (!(s->state[w][number] & STARTED))
        worker->start[number] = s->now;
    worker->running = number;
    worker->left = work_of(s, item)->ns;
}

static void put_aside(sim_worker *worker, uint32_t number)
{
    *GT_PUSH(worker->aside, worker->aside_count, worker->aside_capacity) = number;
}

static idle_reason reason_of(const simulation *s, const sim_worker *worker, uint32_t number)
{
    const gt_sim_item *item = &worker->stream->items[number];
    bool moves = item->kind == GT_SIM_COLLECTIVE || item->kind == GT_SIM_RECV;
    return moves && s->meetings[item->tag].there < NEVER ? IDLE_DATA : IDLE_WORKERS;
}

/* The first of those put aside can run: it does. */
static bool run_aside(simulation *s, unsigned w)
{
    sim_worker *worker = &s->workers[w];
    if (worker->aside_first == worker->aside_count || !is_ready(s, w, worker->aside[worker->aside_first]))
        return false;
    uint32_t number = worker->aside[worker->aside_first++];
    if (worker->aside_first == worker->aside_count)
        worker->aside_first = worker->aside_count = 0;
    run_item(s, w, number);
    return true;
}

/* An idle worker looks for something to do. */
static void look(simulation *s, unsigned w)
{
    sim_worker *worker = &s->workers[w];
    const gt_sim_stream *stream = worker->stream;
    worker->wake = NEVER;
    while (!run_aside(s, w)) {
        bool waits = worker->aside_first < worker->aside_count;
        worker->idle = waits ? reason_of(s, worker, worker->aside[worker->aside_first]) : IDLE_PROGRAM;
        if (waits && worker->idle == IDLE_DATA)
            worker->wake = s->meetings[stream->items[worker->aside[worker->aside_first]].tag].there;
        if (worker->next == stream->count || (waits && s->costs->in_order))
            return;
        uint32_t number = worker->next;
        const gt_sim_item *item = &stream->items[number];
        if (s->arrival[item->cause] > s->now) {
            worker->wake = fmin(worker->wake, s->arrival[item->cause]);
            return;
        }
        worker->next++;
        if ((item->last && waits) || !is_ready(s, w, number)) {
            put_aside(worker, number);
            continue;
        }
        run_item(s, w, number);
        return;
    }
}

static void complete(simulation *s, unsigned w)
{
    sim_worker *worker = &s->workers[w];
    uint32_t number = worker->running;
    const gt_sim_item *item = &worker->stream->items[number];
    gt_sim_usage *usage = &s->outcome->usage[w];
    worker->running = NO_ITEM;
    worker->end[number] = s->now;
    worker->wake = s->now;
    usage->instructions += item->kind == GT_SIM_COMPUTE;
    usage->moves += item->kind == GT_SIM_RECV;
    usage->collectives += item->kind == GT_SIM_COLLECTIVE;
    if (item->kind == GT_SIM_RECV || item->kind == GT_SIM_COLLECTIVE)
        usage->bytes += (double)item->bytes;
    if (item->kind == GT_SIM_SEND)
        post(s, worker, item);
    if (item->kind == GT_SIM_ANSWER)
        take_answer(s, item->cause);
}

/* ---- the clock ----------------------------------------------------------------------------------------------- */

/* How fast busy workers go on: 1 on cores of their own. */
static double speed(const simulation *s)
{
    unsigned busy = 0;
    for (unsigned w = 0; w < s->streams->workers; w++)
        busy += s->workers[w].running != NO_ITEM;
    double wanted = (double)busy * s->options->threads;
    if (s->options->cores <= 0 || wanted <= s->options->cores)
        return 1;
    double left = s->costs->crowded > 0 ? s->costs->crowded : 1;
    return left * s->options->cores / wanted;
}

static void spend(simulation *s, double ns, double rate)
{
    for (unsigned w = 0; w < s->streams->workers; w++) {
        sim_worker *worker = &s->workers[w];
        gt_sim_usage *usage = &s->outcome->usage[w];
        if (worker->running == NO_ITEM) {
            *(worker->idle == IDLE_PROGRAM   ? &usage->waits_program
              : worker->idle == IDLE_WORKERS ? &usage->waits_workers
                                             : &usage->waits_data) += ns;
            continue;
        }
        uint8_t kind = worker->stream->items[worker->running].kind;
        bool moves = kind == GT_SIM_SEND || kind == GT_SIM_RECV || kind == GT_SIM_COLLECTIVE;
        *(moves ? &usage->transfer : &usage->compute) += ns;
        worker->left -= ns * rate;
    }
    s->now += ns;
}

/* The next event. False: there is none. */
static bool advance(simulation *s)
{
    const double nothing = 1e-3; /* ns: the clock is a double, and rounds */
    double rate = speed(s), next = NEVER;
    for (unsigned w = 0; w < s->streams->workers; w++) {
        const sim_worker *worker = &s->workers[w];
        next = fmin(next, worker->running != NO_ITEM ? s->now + worker->left / rate : worker->wake);
    }
    if (next == NEVER)
        return false;
    spend(s, fmax(0, next - s->now), rate);
    s->now = fmax(s->now, next);
    for (unsigned w = 0; w < s->streams->workers; w++)
        if (s->workers[w].running != NO_ITEM && s->workers[w].left <= nothing)
            complete(s, w);
    for (unsigned w = 0; w < s->streams->workers; w++)
        if (s->workers[w].running == NO_ITEM && s->workers[w].wake <= s->now)
            look(s, w);
    return true;
}

static gt_err check_end(const simulation *s)
{
    for (unsigned w = 0; w < s->streams->workers; w++) {
        const sim_worker *worker = &s->workers[w];
        if (worker->aside_first < worker->aside_count || worker->next < worker->stream->count)
            return gt__fail(GT_ERR_INTERNAL, "worker %u waits without end at instruction %u of %zu", w,
                            worker->next, worker->stream->count);
    }
    return GT_OK;
}

/* ---- life ---------------------------------------------------------------------------------------------------- */

static void begin(simulation *s)
{
    const gt_streams *streams = s->streams;
    for (size_t k = 0; k < streams->cause_count; k++) {
        sim_client *client = &s->clients[streams->causes[k].session - 1];
        *GT_PUSH(client->causes, client->count, client->capacity) = (uint32_t)k;
        s->arrival[k] = s->outcome->emitted[k] = s->outcome->answered[k] = NEVER;
    }
    for (uint64_t k = 0; k < streams->tags; k++)
        s->meetings[k].there = NEVER;
    for (unsigned w = 0; w < streams->workers; w++) {
        const gt_sim_stream *stream = &streams->stream[w];
        sim_worker *worker = &s->workers[w];
        worker->stream = stream;
        worker->start = s->outcome->start[w] = gt__zeroed(stream->count + 1, sizeof *worker->start);
        worker->end = s->outcome->end[w] = gt__zeroed(stream->count + 1, sizeof *worker->end);
        s->state[w] = gt__zeroed(stream->count + 1, 1);
        for (size_t k = 0; k < stream->count; k++)
            worker->end[k] = NEVER;
        worker->running = NO_ITEM;
        worker->wake = NEVER;
    }
    for (unsigned k = 0; k < streams->sessions; k++) {
        s->clients[k].waits_for = NO_ITEM;
        emit(s, &s->clients[k], 0);
    }
}

static void end(simulation *s)
{
    for (unsigned w = 0; w < s->streams->workers; w++) {
        free(s->workers[w].aside);
        free(s->state[w]);
    }
    for (unsigned k = 0; k < s->streams->sessions; k++)
        free(s->clients[k].causes);
    free(s->workers);
    free(s->clients);
    free(s->meetings);
    free(s->arrival);
    free(s->state);
}

gt_err gt__outcome_new(const gt_streams *streams, const gt_costs *costs, const gt_run_options *options,
                       gt_outcome **out)
{
    gt_outcome *outcome = gt__zeroed(1, sizeof *outcome);
    simulation s = {.streams = streams, .costs = costs, .options = options, .outcome = outcome};
    outcome->usage = gt__zeroed(streams->workers, sizeof *outcome->usage);
    outcome->start = gt__zeroed(streams->workers, sizeof *outcome->start);
    outcome->end = gt__zeroed(streams->workers, sizeof *outcome->end);
    outcome->emitted = gt__zeroed(streams->cause_count + 1, sizeof *outcome->emitted);
    outcome->answered = gt__zeroed(streams->cause_count + 1, sizeof *outcome->answered);
    s.workers = gt__zeroed(streams->workers, sizeof *s.workers);
    s.clients = gt__zeroed(streams->sessions + 1, sizeof *s.clients);
    s.meetings = gt__zeroed(streams->tags + 1, sizeof *s.meetings);
    s.arrival = gt__zeroed(streams->cause_count + 1, sizeof *s.arrival);
    s.state = gt__zeroed(streams->workers, sizeof *s.state);
    begin(&s);
    while (advance(&s))
        continue;
    gt_err err = check_end(&s);
    outcome->total_ns = s.now;
    end(&s);
    if (err != GT_OK)
        gt__outcome_free(streams, &outcome);
    *out = outcome;
    return err;
}

void gt__outcome_free(const gt_streams *streams, gt_outcome **where)
{
    gt_outcome *outcome = *where;
    *where = NULL;
    if (!outcome)
        return;
    for (unsigned w = 0; w < streams->workers; w++) {
        free(outcome->start[w]);
        free(outcome->end[w]);
    }
    free(outcome->usage);
    free(outcome->start);
    free(outcome->end);
    free(outcome->emitted);
    free(outcome->answered);
    free(outcome);
}

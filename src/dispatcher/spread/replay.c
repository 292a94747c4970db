/* replay.c: see replay.h. */
#include "dispatcher/spread/replay.h"

#include <stdlib.h>
#include <string.h>

#include "core/record.h"
#include "dispatcher/worker_stream.h"

/* ---- life --------------------------------------------------------------------------------------------------- */

bool gt__placed_get(gt_session *session, const gt_handle *handle, uint64_t which, gt_placed *placed)
{
    const gt_spread *spread = handle->worker == GT_SPREAD ? session->spreading->table[handle->slot] : NULL;
    uint32_t members = spread ? spread->layout->count : 1, count = members;
    for (const gt_whole_copy *copy = spread ? spread->copies : NULL; copy; copy = copy->next)
        count++;
    *placed = (gt_placed){.which = which, .meta = handle->meta, .count = count};
    if (!(placed->place = malloc(count * sizeof *placed->place)))
        return false;
    if (!spread) {
        placed->place[0] = (gt_place){.worker = handle->worker, .source = handle->slot};
        return true;
    }
    placed->layout = gt__layout_retain(spread->layout);
    for (uint32_t k = 0; k < members; k++)
        placed->place[k] = (gt_place){.worker = spread->layout->member[k].worker, .source = spread->slot[k]};
    for (const gt_whole_copy *copy = spread->copies; copy; copy = copy->next)
        placed->place[members++] = (gt_place){.worker = copy->worker, .source = copy->slot};
    return true;
}

void gt__placed_free(gt_placed *placed)
{
    gt__layout_release(placed->layout);
    free(placed->place);
}

bool gt__replays_have(const gt_replays *replays, int32_t worker, uint32_t number)
{
    for (unsigned k = 0; k < GT_REPLAYS; k++) {
        const gt_replay *replay = replays->replay[k];
        for (uint32_t s = 0; replay && replay->recorded && s < replay->streams; s++)
            for (uint32_t told = 0; replay->stream[s].worker == worker && told < replay->stream[s].told_count;
                 told++)
                if (replay->stream[s].told[told].number == number)
                    return true;
    }
    return false;
}

static void stream_free(gt_session *session, gt_stream *stream)
{
    gt_dispatch_worker *worker = gt__spread_worker(session, stream->worker);
    for (uint32_t k = 0; k < stream->told_count; k++) {
        if (worker->peer && worker->life == stream->life && worker->paths[stream->told[k].number])
            gt__worker_forget_path(worker, stream->told[k].number);
        free(stream->told[k].definition);
    }
    free(stream->told);
    free(stream->records);
    free(stream->gaps);
    free(stream->gone);
}

/* Forget what was recorded, and keep how the inputs are placed. */
static void forget_record(gt_session *session, gt_replay *replay)
{
    for (uint32_t k = 0; k < replay->results; k++)
        gt__placed_free(&replay->result[k]);
    for (uint32_t k = 0; k < replay->streams; k++)
        stream_free(session, &replay->stream[k]);
    free(replay->result);
    free(replay->stream);
    free(replay->start);
    replay->result = NULL;
    replay->stream = NULL;
    replay->start = NULL;
    replay->starts = replay->results = replay->streams = replay->tags = replay->first_input = replay->sources = 0;
    for (uint32_t k = 0; k < replay->input_count; k++)
        replay->sources += replay->input[k].count;
}

static void replay_free(gt_session *session, gt_replay **where)
{
    gt_replay *replay = *where;
    if (!replay)
        return;
    forget_record(session, replay);
    for (uint32_t k = 0; k < replay->input_count; k++)
        gt__placed_free(&replay->input[k]);
    free(replay->input);
    free(replay);
    *where = NULL;
}

void gt__replays_free(gt_session *session, gt_replays *replays)
{
    for (unsigned k = 0; k < GT_REPLAYS; k++)
        replay_free(session, &replays->replay[k]);
}

/* The runs of a path in the stream get its new number. */
static void renumber(gt_stream *stream, uint32_t from, uint32_t to)
{
    for (uint32_t at = 0; at < stream->slots; at += 1u + stream->records[at].ins.tail)
        if (stream->records[at].ins.op == GT_OP_repeat && stream->records[at].ins.result == from)
            stream->records[at].ins.result = to;
}

/* Have the worker that replaces the stream's know its paths. False: it cannot. */
static bool tell_again(gt_dispatch_worker *worker, gt_stream *stream)
{
    uint32_t count = stream->told_count;
    stream->told_count = 0; /* those that this worker knows */
    stream->life = worker->life;
    for (uint32_t k = 0; k < count; k++) /* out of the way of the new numbers */
        renumber(stream, stream->told[k].number, GT_WORKER_PATHS + k);
    for (uint32_t k = 0; k < count; k++) {
        gt_told *told = &stream->told[k];
        told->number = gt__worker_path_number(worker);
        if (!told->definition || told->number == GT_WORKER_PATHS ||
            !gt__worker_tell_path(worker, told->number, told->definition, told->slots)) {
            for (; k < count; k++)
                free(stream->told[k].definition);
            return false;
        }
        renumber(stream, GT_WORKER_PATHS + k, told->number);
        stream->told_count++;
    }
    return true;
}

static bool roll_back(gt_session *session, gt_replay *replay, uint64_t epoch)
{
    if (replay->epoch > epoch)
        return false;
    for (uint32_t k = 0; k < replay->streams; k++) {
        gt_dispatch_worker *worker = gt__spread_worker(session, replay->stream[k].worker);
        if (!worker->peer || (worker->life != replay->stream[k].life && !tell_again(worker, &replay->stream[k])))
            return false;
    }
    replay->workers = session->dispatcher->worker_changes;
    return true;
}

void gt__replays_rollback(gt_session *session, gt_replays *replays, uint64_t epoch)
{
    for (unsigned k = 0; k < GT_REPLAYS; k++)
        if (replays->replay[k] && !roll_back(session, replays->replay[k], epoch)) {
            replay_free(session, &replays->replay[k]);
            replays->added--;
        }
}

/* For inputs that are placed as those of this run are. NULL: out of memory, or one of them is lost. */
static gt_replay *replay_new(gt_session *session, const gt_path *path, const gt_slot *run)
{
    gt_replay *replay = calloc(1, sizeof *replay);
    bool good = replay && (replay->input = malloc((path->inputs + 1) * sizeof *replay->input));
    for (uint32_t k = 0; k < path->inputs && good; k++) {
        const gt_handle *handle = gt__handles_find(&session->handles, gt__path_word(run, k));
        good = handle && handle->worker != GT_NO_WORKER &&
               gt__placed_get(session, handle, GT_PATH_INPUT + k, &replay->input[k]);
        if (good)
            replay->sources += replay->input[replay->input_count++].count;
    }
    if (!good) {
        replay_free(session, &replay);
        return NULL;
    }
    replay->workers = session->dispatcher->worker_changes;
    replay->config = session->spreading->config_changes;
    replay->epoch = session->epoch;
    return replay;
}

/* ---- finding ------------------------------------------------------------------------------------------------ */

/* The input is placed in this way: its slots go to slots[], by place. */
static bool input_fits(gt_session *session, const gt_placed *input, const gt_handle *handle, uint64_t *slots)
{
    if (handle->meta.dtype != input->meta.dtype || !gt__meta_same_shape(&handle->meta, &input->meta))
        return false;
    if (handle->worker != GT_SPREAD) {
        slots[0] = handle->slot;
        return !input->layout && input->place[0].worker == handle->worker;
    }
    gt_spread *spread = session->spreading->table[handle->slot];
    if (!input->layout || !gt__layout_equal(spread->layout, input->layout))
        return false;
    if (spread->layout != input->layout &&
        spread->layout->asked == input->layout->asked) { /* compared sooner next time */
        gt__layout_release(spread->layout);
        spread->layout = gt__layout_retain(input->layout);
    }
    uint32_t at = 0;
    for (; at < input->layout->count; at++)
        slots[at] = spread->slot[at];
    for (const gt_whole_copy *copy = spread->copies; copy; copy = copy->next, at++) {
        if (at == input->count || input->place[at].worker != copy->worker)
            return false;
        slots[at] = copy->slot;
    }
    return at == input->count;
}

static bool replay_fits(gt_session *session, const gt_replay *replay, const gt_slot *run, uint64_t *slots)
{
    for (uint32_t k = 0; k < replay->starts; k++) {
        const gt_start *start = &replay->start[k];
        int64_t at = (int64_t)gt__path_word(run, replay->input_count + start->parameter);
        if (at < start->least || at > start->most)
            return false;
    }
    for (uint32_t k = 0; k < replay->input_count; k++) {
        const gt_handle *handle = gt__handles_find(&session->handles, gt__path_word(run, k));
        if (!handle || !input_fits(session, &replay->input[k], handle, slots))
            return false;
        slots += replay->input[k].count;
    }
    return true;
}

static bool grow(gt_replay_scratch *scratch, size_t wanted)
{
    if (wanted <= scratch->capacity)
        return true;
    uint64_t *source = realloc(scratch->source, 2 * wanted * sizeof *source);
    if (!source)
        return false;
    scratch->source = source;
    scratch->capacity = 2 * wanted;
    return true;
}

static bool is_outdated(const gt_session *session, const gt_replay *replay)
{
    return replay->workers != session->dispatcher->worker_changes ||
           replay->config != session->spreading->config_changes;
}

/* The replay for the way in which the run's inputs are placed, whose slots are then among the scratch's sources. One that is recorded
 * comes first: the others do not know yet where their slices may begin. */
static gt_replay *find(gt_session *session, gt_replays *replays, gt_replay_scratch *scratch, const gt_slot *run)
{
    for (unsigned k = 0; k < 2 * GT_REPLAYS; k++) {
        unsigned which = (replays->last + k) % GT_REPLAYS;
        gt_replay *replay = replays->replay[which];
        if (replay && is_outdated(session, replay))
            replay_free(session, &replays->replay[which]);
        else if (replay && replay->recorded == (k < GT_REPLAYS) && grow(scratch, replay->sources) &&
                 replay_fits(session, replay, run, scratch->source + replay->first_input)) {
            replays->last = which;
            return replay;
        }
    }
    return NULL;
}

/* No two inputs are the same tensor. */
static bool are_distinct(const gt_path *path, const gt_slot *run)
{
    uint16_t index[2 * GT_PATH_WORDS]; /* an input plus one; 0: unused */
    uint32_t mask = 15;
    while (mask + 1 < 2 * path->inputs)
        mask = 2 * mask + 1;
    memset(index, 0, (mask + 1) * sizeof *index);
    for (uint32_t k = 0; k < path->inputs; k++) {
        uint64_t id = gt__path_word(run, k);
        uint32_t at = (uint32_t)(id * 0x9E3779B97F4A7C15u >> 32) & mask;
        for (; index[at]; at = (at + 1) & mask)
            if (gt__path_word(run, index[at] - 1u) == id)
                return false;
        index[at] = (uint16_t)(k + 1);
    }
    return true;
}

/* ---- replaying ---------------------------------------------------------------------------------------------- */

/* What a run needs before anything is sent: all of it, or none. */
typedef struct needs {
    gt_slot **out;      /* by stream: where its records go */
    gt_spread **spread; /* by result; NULL: on one worker */
    uint32_t streams;   /* that have their slots */
} needs;

static void spread_discard(gt_spread *spread)
{
    while (spread && spread->copies) {
        gt_whole_copy *copy = spread->copies;
        spread->copies = copy->next;
        free(copy);
    }
    if (spread)
        gt__layout_release(spread->layout);
    free(spread);
}

static void needs_free(gt_session *session, const gt_replay *replay, const uint64_t *source, needs *n)
{
    for (uint32_t k = 0; k < n->streams; k++)
        for (uint32_t s = 0; s < replay->stream[k].fresh_count; s++) {
            uint64_t slot = source[replay->stream[k].fresh + s];
            if (slot)
                gt__slot_number_free(&gt__spread_worker(session, replay->stream[k].worker)->slots, (uint32_t)slot);
        }
    for (uint32_t k = 0; n->spread && k < replay->results; k++)
        spread_discard(n->spread[k]);
    free(n->out);
    free(n->spread);
}

/* NULL: out of memory. */
static gt_spread *make_spread(const gt_placed *result, const uint64_t *source)
{
    uint32_t members = result->layout->count;
    gt_spread *spread = malloc(sizeof *spread + members * sizeof spread->slot[0]);
    if (!spread)
        return NULL;
    *spread = (gt_spread){.layout = gt__layout_retain(result->layout)};
    for (uint32_t k = 0; k < members; k++)
        spread->slot[k] = (uint32_t)source[result->place[k].source];
    for (uint32_t k = result->count; k > members; k--) {
        gt_whole_copy *copy = malloc(sizeof *copy);
        if (!copy) {
            spread_discard(spread);
            return NULL;
        }
        *copy = (gt_whole_copy){.next = spread->copies,
                                .worker = result->place[k - 1].worker,
                                .slot = (uint32_t)source[result->place[k - 1].source]};
        spread->copies = copy;
    }
    return spread;
}

/* New slots for a stream, and room for it in the link or the outbox. */
static bool prepare_stream(gt_dispatch_worker *worker, const gt_stream *stream, uint64_t *source, gt_slot **out)
{
    bool good = true;
    for (uint32_t k = 0; k < stream->fresh_count; k++) {
        uint32_t slot = good ? gt__slot_number_new(&worker->slots) : 0;
        source[stream->fresh + k] = slot;
        good = slot != 0;
    }
    good = good && gt__worker_own(worker, worker->peer->dispatcher->turn);
    *out = stream->slots <= GT_LINK_MAX_RESERVE ? gt__worker_room(worker, stream->slots) : NULL;
    worker->backlog.into_outbox = !*out;
    if (!*out)
        *out = gt__slot_queue_reserve(&worker->backlog.outbox, stream->slots);
    return good && *out;
}

static uint64_t id_of(const gt_path *path, const gt_slot *run, uint64_t which)
{
    return which >= GT_PATH_INPUT ? gt__path_word(run, (uint32_t)(which - GT_PATH_INPUT))
                                  : run->ins.operand[0] + path->offset[which - 1];
}

static gt_err prepare(gt_session *session, const gt_replay *replay, const gt_path *path, const gt_slot *run,
                      uint64_t *source, needs *n)
{
    uint32_t spread = 0;
    n->out = malloc((replay->streams + 1) * sizeof(*n->out));
    n->spread = calloc(replay->results + 1, sizeof(*n->spread));
    bool good = n->out && n->spread;
    for (; n->streams < replay->streams && good; n->streams++) {
        const gt_stream *stream = &replay->stream[n->streams];
        good = prepare_stream(gt__spread_worker(session, stream->worker), stream, source, &n->out[n->streams]);
    }
    for (uint32_t k = 0; k < replay->results && good; k++)
        if (replay->result[k].layout) {
            spread++;
            good = (n->spread[k] = make_spread(&replay->result[k], source));
        }
    if (!good)
        return gt__spread_no_memory();
    GT_TRY(gt__spread_make_room(session, spread));
    for (uint32_t k = 0; k < replay->results; k++) {
        const gt_placed *result = &replay->result[k];
        gt_handle *handle;
        if (result->which >= GT_PATH_INPUT)
            continue;
        GT_TRY(gt__handles_insert(&session->handles, id_of(path, run, result->which), &handle));
        handle->worker = GT_NO_WORKER;
        handle->slot = 0;
        handle->scope = gt__path_maker(path, result->which - 1)->scope;
        handle->site = gt__path_maker(path, result->which - 1)->site;
        gt__meta_copy(&handle->meta, &result->meta);
        if (session->quota)
            GT_TRY(gt__quota_hold(session, handle));
    }
    return GT_OK;
}

static void send_stream(gt_dispatch_worker *worker, const gt_stream *stream, const uint64_t *source, gt_slot *out)
{
    uint64_t *word = out->u64;
    memcpy(out, stream->records, stream->slots * sizeof *out);
    for (uint32_t k = 0; k < stream->gap_count; k++)
        word[stream->gaps[k].word] = source[stream->gaps[k].source] + (uint64_t)stream->gaps[k].plus;
    for (uint32_t at = 0, length; at < stream->slots; at += length) {
        length = 1u + out[at].ins.tail;
        gt__worker_put(worker, length);
        if (out[at].ins.op == GT_OP_free && !worker->backlog.into_outbox)
            gt__worker_slots_are_free(worker, &out[at].ins);
    }
    for (uint32_t k = 0; k < stream->gone_count; k++)
        gt__slot_number_park(&worker->slots, (uint32_t)source[stream->gone[k]]);
    if (!worker->backlog.into_outbox)
        gt__worker_flush_batch(worker);
    worker->instructions += stream->instructions;
    worker->traffic.moves += stream->traffic.moves;
    worker->traffic.collectives += stream->traffic.collectives;
    worker->traffic.gathers += stream->traffic.gathers;
    worker->traffic.bytes += stream->traffic.bytes;
}

/* Tensors that the run freed, beyond those of the path. */
static gt_err free_others(gt_session *session, const gt_path *path, const gt_slot *run)
{
    gt_slot record;
    unsigned count = 0;
    for (uint32_t k = gt__path_run_words(path); k < run->ins.imm[0].u; k++)
        if (gt__free_append(&record.ins, &count, gt__path_word(run, k)) || k + 1 == run->ins.imm[0].u) {
            GT_TRY(gt__spread_free(session, &record));
            count = 0;
        }
    return GT_OK;
}

/* What the workers have of it stays, or was freed by the run. */
static void take_spread(gt_session *session, uint32_t number)
{
    gt_spread *spread = gt__spread_take(session, number);
    gt__sums_leave(session, spread);
    spread_discard(spread);
}

/* The run was sent: its tensors are where the replay says. */
static void place_results(gt_session *session, const gt_replay *replay, const gt_path *path, const gt_slot *run,
                          const uint64_t *source, gt_spread **spread)
{
    for (uint32_t k = 0; k < replay->results; k++) {
        const gt_placed *result = &replay->result[k];
        gt_handle *handle = gt__handles_find(&session->handles, id_of(path, run, result->which));
        if (handle->worker == GT_SPREAD)
            take_spread(session, handle->slot);
        if (spread[k])
            gt__spread_put(session, handle, spread[k]);
        else {
            handle->worker = result->place[0].worker;
            handle->slot = (uint32_t)source[result->place[0].source];
        }
    }
    for (uint32_t k = 0; k < path->inputs; k++) {
        int32_t worker;
        uint32_t slot;
        if (path->dies[k] && gt__handles_remove(&session->handles, gt__path_word(run, k), &worker, &slot) &&
            worker == GT_SPREAD)
            take_spread(session, slot);
    }
}

static gt_err replay_run(gt_session *session, const gt_replay *replay, const gt_path *path, const gt_slot *run,
                         uint64_t *source)
{
    needs n = {0};
    for (uint32_t k = 0; k < path->parameters; k++)
        source[k] = gt__path_word(run, path->inputs + k);
    for (uint32_t k = 0; k < replay->tags; k++)
        source[path->parameters + k] = session->dispatcher->next_tag + k;
    gt_err err = prepare(session, replay, path, run, source, &n);
    if (err != GT_OK) {
        needs_free(session, replay, source, &n);
        return err;
    }
    session->dispatcher->next_tag += replay->tags;
    for (uint32_t k = 0; k < replay->streams; k++)
        send_stream(gt__spread_worker(session, replay->stream[k].worker), &replay->stream[k], source, n.out[k]);
    for (uint32_t k = 0; k < replay->streams; k++) /* behind all of them: it may write to the workers */
        gt__share_replayed(session, gt__spread_worker(session, replay->stream[k].worker),
                           replay->stream[k].instructions, replay->stream[k].estimated_ns, replay->streams);
    place_results(session, replay, path, run, source, n.spread);
    free(n.out);
    free(n.spread);
    return GT_OK;
}

/* ------------------------------------------------------------------------------------------------------------- */

static gt_err put(void *session, gt_slot *record)
{
    return gt__output_put(session, record);
}

/* Prepare to record runs whose inputs are placed as those of this one are. NULL: not this one. The first few ways of a path
 * are recorded at once, later ones if they come again. */
static gt_replay *add(gt_session *session, gt_replays *replays, gt_replay_scratch *scratch, const gt_path *path,
                      const gt_slot *run)
{
    unsigned which = replays->added++ % GT_REPLAYS;
    replay_free(session, &replays->replay[which]);
    replays->replay[which] = replay_new(session, path, run);
    replays->last = which;
    return replays->added <= GT_REPLAYS ? find(session, replays, scratch, run) : NULL;
}

/* Whether the new tensors of a recorded run are within the session's limits. */
static bool is_within_limits(const gt_session *session, const gt_replay *replay, const gt_path *path,
                             const gt_slot *run)
{
    uint64_t tensors = 0, bytes = 0;
    for (uint32_t k = 0; session->quota && k < replay->results; k++)
        if (replay->result[k].which < GT_PATH_INPUT) {
            tensors++;
            bytes += gt__meta_bytes(&replay->result[k].meta);
        }
    return gt__paths_within_limits(session, path, run, tensors, bytes);
}

static gt_err record(gt_session *session, gt_replay *replay, const gt_path *path, const gt_slot *run,
                     const uint64_t *slots)
{
    uint64_t refusals = session->quota ? session->quota->refusals : 0;
    gt_err err = gt__replay_record(session, replay, path, run, slots);
    bool refused = session->quota && session->quota->refusals != refusals;
    replay->recorded = replay->recorded && err == GT_OK && !refused;
    if (!replay->recorded)
        forget_record(session, replay);
    replay->cannot = !replay->recorded;
    return err;
}

gt_err gt__replay_place(gt_session *session, gt_replays *replays, gt_replay_scratch *scratch, const gt_path *path,
                        const gt_slot *run)
{
    GT_TRY(gt__sums_before_run(session, path, run));
    bool placed = !session->spreading->unplaced, expand = !placed;
    gt_replay *replay = placed ? find(session, replays, scratch, run) : NULL;
    if (placed && !replay)
        replay = add(session, replays, scratch, path, run);
    if (!replay || replay->cannot || (replay->recorded && replay->alone && !are_distinct(path, run)))
        expand = true;
    else if (replay->recorded && !is_within_limits(session, replay, path, run))
        expand = true;
    else if (!replay->recorded && (gt__output_waits(&session->output) || !are_distinct(path, run)))
        expand = true;
    if (expand)
        return gt__path_expand(path, run, put, session);
    GT_TRY(replay->recorded ? replay_run(session, replay, path, run, scratch->source)
                            : record(session, replay, path, run, scratch->source));
    GT_TRY(gt__sums_after_run(session, path, run));
    return free_others(session, path, run);
}

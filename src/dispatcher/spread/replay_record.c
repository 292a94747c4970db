/*
 * replay_record.c: records a run on spread tensors for replay.c. Read replay.h first.
 *
 * While the run is expanded, what the workers get is held back in their outboxes. Then, worker by worker:
 *
 *     1. slots become values: those of inputs, and those that the records make
 *     2. stretches of computing records become paths of the worker, other records stay as they are
 *     3. a value that is freed dies with the last record that reads it; values that live and die within a stretch need no slot
 *     4. the held records are sent as they are: the first replay uses the paths
 *
 * Words that may be parameters (gt__path_parameter_words) are copied from the client's record to those of the workers, and no
 * rule looks at them. So a worker's record with the op of the client's record has its parameters. Where a slice begins is the
 * exception: which workers have a part of it depends on that (moving.h). The replay then holds for some starts only.
 */
#include <stdlib.h>
#include <string.h>

#include "core/record.h"
#include "dispatcher/spread/moving.h"
#include "dispatcher/spread/replay.h"
#include "dispatcher/worker_stream.h"

enum { SHORTEST = 2 /* computing records that become a path */ };

/* Word `word` of the record at a worker's held slot `slot` is a parameter. */
typedef struct note {
    int32_t worker;
    uint32_t slot, word, parameter;
    int64_t plus; /* this */
} note;

/* A tensor on the worker. */
typedef struct value {
    uint32_t source; /* UINT32_MAX: it lives and dies within one path */
    uint32_t last;   /* the last record that names it; UINT32_MAX: none */
    bool freed;      /* after that */
    bool released;   /* its free is in the stream */
    uint32_t path;   /* the path being made in which it has a number, */
    uint64_t number; /* this one */
} value;

typedef struct growing {
    void *memory;
    size_t count, capacity;
} growing;

typedef struct recording {
    gt_session *session;
    gt_replay *replay;
    const gt_path *path;
    bool failed;
    growing notes, starts_of_slices; /* note, gt_start */
    uint32_t at, parameter;          /* of the path: the record to come and its first parameter */
    uint32_t *before;                /* by worker: slots that were held before the record at hand */
    gt_stream *stats;                /* by worker: what was counted before the run */
    uint64_t first_tag;
    const uint64_t *slots; /* of the inputs */
    /* of the worker at hand */
    gt_dispatch_worker *worker;
    growing held;      /* gt_slot */
    growing starts;    /* uint32_t: records but for frees */
    growing values;    /* value */
    uint32_t *by_slot; /* value plus one; 0: none */
    uint32_t path_serial;
    growing records, gaps, gone, told; /* of the stream */
    gt_instruction frees;              /* sources, to be freed in one record */
    unsigned free_count;
} recording;

/* ---- memory --------------------------------------------------------------------------------------------------- */

/* Room for `count` more of `size` bytes at the end; NULL: out of memory, and the recording has failed. */
static void *extend(recording *r, growing *g, size_t count, size_t size)
{
    if (g->count + count > g->capacity) {
        size_t capacity = 2 * (g->count + count);
        void *memory = realloc(g->memory, capacity * size);
        if (!memory) {
            r->failed = true;
            return NULL;
        }
        g->memory = memory;
        g->capacity = capacity;
    }
    g->count += count;
    return (char *)g->memory + (g->count - count) * size;
}

static gt_slot *held_record(const recording *r, uint32_t slot)
{
    return (gt_slot *)r->held.memory + slot;
}

static value *value_at(const recording *r, uint32_t number)
{
    return (value *)r->values.memory + number;
}

static void recording_free(recording *r)
{
    free(r->notes.memory);
    free(r->starts_of_slices.memory);
    free(r->before);
    free(r->stats);
    free(r->held.memory);
    free(r->starts.memory);
    free(r->values.memory);
    free(r->records.memory);
    free(r->gaps.memory);
    free(r->gone.memory);
    free(r->told.memory); /* empty: what was told is part of a stream */
}

/* ---- the run is expanded -------------------------------------------------------------------------------------- */

static uint32_t held_slots(const gt_dispatch_worker *worker)
{
    return (uint32_t)(gt__slot_queue_slots(&worker->backlog.outbox) - worker->backlog.held_from);
}

static void hold(recording *r)
{
    const gt_dispatcher *dispatcher = r->session->dispatcher;
    r->session->holding = true;
    for (int32_t k = 0; k < dispatcher->worker_count; k++) {
        gt_dispatch_worker *worker = dispatcher->workers[k];
        if (!worker->peer)
            continue;
        gt__worker_flush_frees(worker);
        r->failed |= !gt__worker_own(worker, r->session->number); /* not part of what is recorded */
        worker->backlog.holding = true;
        worker->backlog.held_from = gt__slot_queue_slots(&worker->backlog.outbox);
        if (r->stats)
            r->stats[k] = (gt_stream){.instructions = worker->instructions,
                                      .estimated_ns = worker->share.placed_ns,
                                      .traffic = worker->traffic};
    }
}

/* The parameters of a client's record, in a record that a worker got for it. first: of the client's record, what its tail begins with;
 * NULL: it has no start among the parameters. */
static void note_record(recording *r, int32_t worker, uint32_t slot, const gt_slot *held, const gt_slot *first,
                        uint32_t count)
{
    note *notes = extend(r, &r->notes, count, sizeof *notes);
    for (uint32_t p = 0; notes && p < count; p++) {
        const gt_path_word *word = &r->path->parameter[r->parameter + p];
        notes[p] = (note){.worker = worker, .slot = slot, .word = word->word, .parameter = r->parameter + p};
        if (first)
            notes[p].plus = held[1].i64[word->word - GT_WORD_TAIL] - first->i64[word->word - GT_WORD_TAIL];
    }
}

/* The same for all records that the workers got. moving: its start is among the parameters; else NULL. */
static void note_parameters(recording *r, gt_opcode op, uint32_t count, const gt_moving *moving,
                            const gt_slot *first)
{
    const gt_dispatcher *dispatcher = r->session->dispatcher;
    for (int32_t k = 0; k < dispatcher->worker_count && !r->failed; k++) {
        const gt_dispatch_worker *worker = dispatcher->workers[k];
        if (!worker->backlog.holding)
            continue;
        const gt_slot_queue *outbox = &worker->backlog.outbox;
        const gt_slot *held = outbox->slots + outbox->end - held_slots(worker);
        for (uint32_t slot = r->before[k]; slot < held_slots(worker); slot += 1u + held[slot].ins.tail)
            if (held[slot].ins.op == op &&
                (!moving || gt__moving_is_copy(moving, k, held[slot].ins.result))) /* else a part for a move */
                note_record(r, k, slot, held + slot, moving ? first : NULL, count);
    }
}

/* The replay holds for starts that the rules have planned alike. */
static void note_starts(recording *r, const gt_moving *moving, uint32_t count)
{
    gt_start *starts = extend(r, &r->starts_of_slices, count, sizeof *starts);
    r->failed |= moving->unknown || !moving->copies;
    for (uint32_t k = 0; starts && k < count; k++) {
        unsigned axis = r->path->parameter[r->parameter + k].word - GT_WORD_TAIL;
        starts[k] =
            (gt_start){.parameter = r->parameter + k, .least = moving->least[axis], .most = moving->most[axis]};
    }
}

static gt_err put(void *context, gt_slot *record)
{
    recording *r = context;
    const gt_dispatcher *dispatcher = r->session->dispatcher;
    uint32_t count = 0;
    while (r->parameter + count < r->path->parameters && r->path->parameter[r->parameter + count].slot == r->at)
        count++;
    for (int32_t k = 0; k < dispatcher->worker_count && count; k++)
        if (dispatcher->workers[k]->backlog.holding)
            r->before[k] = held_slots(dispatcher->workers[k]);
    gt_moving moving;
    bool moves = gt__moving_begin(&moving, r->session, record, r->path->parameter + r->parameter, count);
    const gt_slot first = record->ins.tail ? record[1] : (gt_slot){0};
    r->session->spreading->moving = moves ? &moving : NULL;
    gt_err err = gt__output_put(r->session, record);
    r->session->spreading->moving = NULL;
    GT_TRY(err);
    if (count)
        note_parameters(r, (gt_opcode)record->ins.op, count, moves ? &moving : NULL, &first);
    if (moves)
        note_starts(r, &moving, count);
    r->parameter += count;
    r->at += 1u + record->ins.tail;
    return GT_OK;
}

/* ---- where the results are ------------------------------------------------------------------------------------ */

static bool is_unchanged(const gt_placed *before, const gt_placed *after, const uint64_t *slots)
{
    if (before->count != after->count || !before->layout != !after->layout ||
        (before->layout && !gt__layout_equal(before->layout, after->layout)))
        return false;
    for (uint32_t k = 0; k < before->count; k++)
        if (before->place[k].worker != after->place[k].worker || slots[k] != after->place[k].source)
            return false;
    return true;
}

/* Inputs of the next run are often results of this one: the same layouts should be the same pointers. */
static void share_layout(const gt_replay *replay, gt_placed *placed)
{
    for (uint32_t k = 0; k < replay->input_count && placed->layout; k++) {
        gt_layout *layout = replay->input[k].layout;
        if (layout && layout != placed->layout && gt__layout_equal(layout, placed->layout)) {
            gt__layout_release(placed->layout);
            placed->layout = gt__layout_retain(layout);
            return;
        }
    }
}

/* The replay's results, with slots in the place of sources. */
static bool find_results(const recording *r, const gt_slot *run)
{
    gt_replay *replay = r->replay;
    const gt_path *path = r->path;
    const uint64_t *slots = r->slots;
    replay->result = malloc(((size_t)path->outputs + path->inputs + 1) * sizeof *replay->result);
    if (!replay->result)
        return false;
    for (uint32_t k = 0; k < path->outputs; k++) {
        gt_placed *result = &replay->result[replay->results];
        uint64_t id = run->ins.operand[0] + path->offset[path->output[k]];
        const gt_handle *handle = gt__handles_find(&r->session->handles, id);
        if (!handle || handle->worker == GT_NO_WORKER ||
            !gt__placed_get(r->session, handle, path->output[k] + 1, result))
            return false;
        replay->results++;
        share_layout(replay, result);
    }
    for (uint32_t k = 0; k < path->inputs; slots += replay->input[k++].count) {
        gt_placed *result = &replay->result[replay->results];
        replay->alone |= path->dies[k];
        if (path->dies[k])
            continue;
        const gt_handle *handle = gt__handles_find(&r->session->handles, gt__path_word(run, k));
        if (!handle || handle->worker == GT_NO_WORKER ||
            !gt__placed_get(r->session, handle, GT_PATH_INPUT + k, result))
            return false;
        if (is_unchanged(&replay->input[k], result, slots)) {
            gt__placed_free(result);
            continue;
        }
        replay->results++;
        replay->alone = true;
    }
    return true;
}

/* Of the results, what is on this worker. */
static void resolve_results(recording *r)
{
    for (uint32_t k = 0; k < r->replay->results; k++)
        for (uint32_t p = 0; p < r->replay->result[k].count; p++) {
            gt_place *place = &r->replay->result[k].place[p];
            if (place->worker != r->worker->index)
                continue;
            uint32_t number = r->by_slot[place->source];
            r->failed |= !number;
            if (number)
                place->source = value_at(r, number - 1)->source;
            r->failed |= place->source == UINT32_MAX;
        }
}

/* ---- values --------------------------------------------------------------------------------------------------- */

static value *add_value(recording *r, uint64_t slot, uint32_t source)
{
    value *v = extend(r, &r->values, 1, sizeof *v);
    if (!v || slot > r->worker->slots.last || r->by_slot[slot]) {
        r->failed = true;
        return NULL;
    }
    *v = (value){.source = source, .last = UINT32_MAX};
    r->by_slot[slot] = (uint32_t)r->values.count;
    return v;
}

/* Replace the slots of a record by values, counted from 1. */
static void number_record(recording *r, gt_slot *record, uint32_t index)
{
    for (gt_record_ids ids = gt__record_ids(record); gt__record_ids_next(&ids) && !r->failed;) {
        uint64_t slot = *ids.id;
        if (ids.use == GT_ID_WRITTEN && !add_value(r, slot, UINT32_MAX))
            return;
        uint32_t number = slot <= r->worker->slots.last ? r->by_slot[slot] : 0;
        if (!number) {
            r->failed = true;
            return;
        }
        value *v = value_at(r, number - 1);
        if (ids.use == GT_ID_FREED) {
            v->freed = true;
            r->by_slot[slot] = 0;
        } else
            v->last = index;
        *ids.id = number;
    }
}

static bool computes(const gt_slot *record)
{
    return record->ins.op < GT_OP_FIRST_CONTROL && record->ins.op != GT_OP_upload;
}

static bool moves(const gt_slot *record)
{
    switch ((gt_opcode)record->ins.op) {
    case GT_OP_send:
    case GT_OP_recv:
    case GT_OP_all_reduce:
    case GT_OP_reduce_scatter:
    case GT_OP_all_gather:
    case GT_OP_broadcast:
    case GT_OP_all_to_all:
        return true;
    default:
        return false;
    }
}

static void number_values(recording *r)
{
    const gt_replay *replay = r->replay;
    for (uint32_t k = 0, at = 0; k < replay->input_count; k++)
        for (uint32_t p = 0; p < replay->input[k].count; p++, at++)
            if (replay->input[k].place[p].worker == r->worker->index)
                add_value(r, r->slots[at], replay->first_input + at);
    for (uint32_t slot = 0; slot < r->held.count && !r->failed; slot += 1u + held_record(r, slot)->ins.tail) {
        gt_slot *record = held_record(r, slot);
        bool frees = record->ins.op == GT_OP_free;
        uint32_t *start = frees ? NULL : extend(r, &r->starts, 1, sizeof *start);
        if (start)
            *start = slot;
        r->failed |= !frees && !computes(record) && !moves(record);
        number_record(r, record, (uint32_t)r->starts.count - 1);
    }
}

/* ---- the stream ----------------------------------------------------------------------------------------------- */

static void add_gap_plus(recording *r, size_t word, uint32_t source, int64_t plus)
{
    gt_gap *gap = extend(r, &r->gaps, 1, sizeof *gap);
    if (gap)
        *gap = (gt_gap){.word = (uint32_t)word, .source = source, .plus = plus};
}

static void add_gap(recording *r, size_t word, uint32_t source)
{
    add_gap_plus(r, word, source, 0);
}

/* A slot that is new in each run, for a value that is needed outside of the path that makes it. */
static void give_slot(recording *r, value *v)
{
    v->source = r->replay->sources++;
}

static void flush_frees(recording *r)
{
    size_t at = r->records.count * 8;
    gt_slot *record = r->free_count ? extend(r, &r->records, 1, sizeof *record) : NULL;
    if (!record)
        return;
    record->ins = r->frees;
    for (unsigned k = 0; k < r->free_count; k++)
        add_gap(r, at + GT_WORD_RESULT + k, (uint32_t)gt__free_ids(&r->frees)[k]);
    r->free_count = 0;
}

static void release(recording *r, value *v)
{
    v->released = true;
    if (gt__free_append(&r->frees, &r->free_count, v->source))
        flush_frees(r);
}

static uint32_t start_of(const recording *r, uint32_t index)
{
    return ((const uint32_t *)r->starts.memory)[index];
}

/* The notes of the worker's record at a slot: *next is the first one to look at. */
static const note *next_note(const recording *r, size_t *next, uint32_t slot)
{
    const note *notes = r->notes.memory;
    while (*next < r->notes.count && (notes[*next].worker != r->worker->index || notes[*next].slot < slot))
        ++*next;
    return *next < r->notes.count && notes[*next].slot == slot ? &notes[(*next)++] : NULL;
}

/* A record that is sent as it is. */
static void write_record(recording *r, uint32_t index, size_t *next)
{
    uint32_t slot = start_of(r, index);
    const gt_slot *from = held_record(r, slot);
    unsigned length = 1u + from->ins.tail;
    size_t at = r->records.count * 8;
    gt_slot *record = extend(r, &r->records, length, sizeof *record);
    if (!record)
        return;
    memcpy(record, from, length * sizeof *record);
    for (gt_record_ids ids = gt__record_ids(record); gt__record_ids_next(&ids);) {
        value *v = value_at(r, (uint32_t)*ids.id - 1);
        if (ids.use == GT_ID_WRITTEN)
            give_slot(r, v);
        add_gap(r, at + (size_t)(ids.id - record->u64), v->source);
    }
    if (moves(record)) {
        bool two = record->ins.op == GT_OP_send || record->ins.op == GT_OP_recv;
        uint64_t tag = record->ins.imm[two].u - r->first_tag;
        r->failed |= tag >= r->replay->tags;
        add_gap(r, at + GT_WORD_IMM + two, r->path->parameters + (uint32_t)tag);
    }
    for (const note *n; (n = next_note(r, next, slot));)
        add_gap_plus(r, at + n->word, n->parameter, n->plus);
    for (gt_record_ids ids = gt__record_ids(from); gt__record_ids_next(&ids);) {
        value *v = value_at(r, (uint32_t)*ids.id - 1);
        if (v->freed && v->last == index && !v->released)
            release(r, v);
    }
}

/* ---- paths of the worker -------------------------------------------------------------------------------------- */

/* The records first to end, which become a path. */
typedef struct stretch {
    uint32_t first, end;
    uint32_t inputs, locals, outputs, parameters;
    gt_slot *records;
    uint32_t slots, room;
    uint32_t *input, *output; /* sources */
    uint32_t *offset;
    gt_path_word *parameter;
    const note **from; /* by parameter: the path's */
} stretch;

static void stretch_free(stretch *s)
{
    free(s->records);
    free(s->input);
    free(s->output);
    free(s->offset);
    free(s->parameter);
    free(s->from);
}

static bool dies_within(const value *v, const stretch *s)
{
    return v->freed && v->last < s->end;
}

/* Give the values numbers of the path. */
static void number_stretch(recording *r, stretch *s)
{
    r->path_serial++;
    for (uint32_t k = s->first; k < s->end; k++) {
        const gt_slot *record = held_record(r, start_of(r, k));
        s->room += 1u + record->ins.tail;
        for (gt_record_ids ids = gt__record_ids(record); gt__record_ids_next(&ids);) {
            value *v = value_at(r, (uint32_t)*ids.id - 1);
            if (v->path == r->path_serial)
                continue;
            v->path = r->path_serial;
            v->number = ids.use == GT_ID_WRITTEN ? ++s->locals : GT_PATH_INPUT + s->inputs++;
            s->outputs += ids.use == GT_ID_WRITTEN && !dies_within(v, s);
            s->room++; /* it may be freed by a record of its own */
        }
    }
}

static bool stretch_room(const recording *r, stretch *s)
{
    size_t parameters = (size_t)r->path->parameters * (s->end - s->first);
    parameters = parameters < GT_PATH_WORDS ? parameters : GT_PATH_WORDS;
    s->records = malloc(s->room * sizeof *s->records);
    s->input = malloc((s->inputs + 1) * sizeof *s->input);
    s->output = malloc((s->outputs + 1) * sizeof *s->output);
    s->offset = malloc((s->locals + 1) * sizeof *s->offset);
    s->parameter = malloc((parameters + 1) * sizeof *s->parameter);
    s->from = malloc((parameters + 1) * sizeof(*s->from));
    return s->records && s->input && s->output && s->offset && s->parameter && s->from;
}

/* Free what dies with a record of the stretch. */
static void write_deaths(recording *r, stretch *s, uint32_t index)
{
    gt_instruction frees;
    unsigned count = 0;
    for (gt_record_ids ids = gt__record_ids(held_record(r, start_of(r, index))); gt__record_ids_next(&ids);) {
        value *v = value_at(r, (uint32_t)*ids.id - 1);
        if (!v->freed || v->last != index || v->released)
            continue;
        v->released = true;
        if (v->number >= GT_PATH_INPUT) {
            uint32_t *gone = extend(r, &r->gone, 1, sizeof *gone);
            if (gone)
                *gone = v->source;
        }
        if (gt__free_append(&frees, &count, v->number)) {
            s->records[s->slots++].ins = frees;
            count = 0;
        }
    }
    if (count)
        s->records[s->slots++].ins = frees;
}

/* The records of the path, and the words of its runs. False: it has too many of them. */
static bool write_stretch(recording *r, stretch *s, size_t *next)
{
    uint32_t inputs = 0, outputs = 0, locals = 0;
    for (uint32_t k = s->first; k < s->end; k++) {
        const gt_slot *from = held_record(r, start_of(r, k));
        gt_slot *record = s->records + s->slots;
        for (const note *n; (n = next_note(r, next, start_of(r, k)));) {
            if (s->parameters + s->inputs + s->outputs >= GT_PATH_WORDS)
                return false;
            s->from[s->parameters] = n;
            s->parameter[s->parameters++] = (gt_path_word){.slot = s->slots, .word = n->word};
        }
        memcpy(record, from, (1u + from->ins.tail) * sizeof *record);
        s->slots += 1u + from->ins.tail;
        for (gt_record_ids ids = gt__record_ids(record); gt__record_ids_next(&ids);) {
            value *v = value_at(r, (uint32_t)*ids.id - 1);
            *ids.id = v->number;
            if (v->number == GT_PATH_INPUT + inputs)
                s->input[inputs++] = v->source;
            else if (ids.use == GT_ID_WRITTEN) {
                s->offset[locals] = locals;
                locals++;
                if (!dies_within(v, s)) {
                    give_slot(r, v);
                    s->output[outputs++] = v->source;
                }
            }
        }
        write_deaths(r, s, k);
    }
    return true;
}

/* Have the worker know the path; GT_WORKER_PATHS: it does not. */
static uint32_t tell(recording *r, const stretch *s)
{
    uint32_t number = gt__worker_path_number(r->worker);
    size_t slots = gt__path_definition_slots(s->slots, s->locals, s->parameters);
    gt_told *told = extend(r, &r->told, 1, sizeof *told);
    gt_slot *definition = told && number < GT_WORKER_PATHS ? malloc(slots * sizeof *definition) : NULL;
    if (definition) {
        gt__path_define(s->records, s->slots, s->locals, s->offset, s->parameter, s->parameters, definition);
        gt__path_mark(definition, r->path->marked);
    }
    bool good = definition && gt__worker_tell_path(r->worker, number, definition, slots);
    if (good)
        *told = (gt_told){.number = number, .slots = (uint32_t)slots};
    else if (told)
        r->told.count--;
    if (good && r->session->recovery)
        told->definition = definition;
    else
        free(definition);
    return good ? number : GT_WORKER_PATHS;
}

/* The record that runs the path. */
static void write_run(recording *r, const stretch *s, uint32_t number)
{
    uint32_t words = s->inputs + s->outputs + s->parameters;
    unsigned tail = gt__slots_for(words * sizeof(uint64_t));
    size_t at = (r->records.count + 1) * 8;
    gt_slot *record = extend(r, &r->records, 1 + tail, sizeof *record);
    if (!record)
        return;
    memset(record, 0, (1 + tail) * sizeof *record);
    record->ins =
        (gt_instruction){.op = GT_OP_repeat, .result = number, .tail = (uint16_t)tail, .imm = {{.u = words}}};
    for (uint32_t k = 0; k < s->inputs; k++)
        add_gap(r, at++, s->input[k]);
    for (uint32_t k = 0; k < s->outputs; k++)
        add_gap(r, at++, s->output[k]);
    for (uint32_t k = 0; k < s->parameters; k++)
        add_gap_plus(r, at++, s->from[k]->parameter, s->from[k]->plus);
}

/* False: the records are sent as they are. */
static bool write_path(recording *r, uint32_t first, uint32_t end, size_t *next)
{
    stretch s = {.first = first, .end = end};
    if (end - first < SHORTEST)
        return false;
    number_stretch(r, &s);
    if (s.room > GT_PATH_SLOTS || s.inputs + s.outputs > GT_PATH_WORDS)
        return false;
    uint32_t number = GT_WORKER_PATHS;
    if (stretch_room(r, &s) && write_stretch(r, &s, next))
        number = tell(r, &s);
    r->failed |= number == GT_WORKER_PATHS;
    if (!r->failed)
        write_run(r, &s, number);
    stretch_free(&s);
    return true;
}

static void write_stream(recording *r)
{
    uint32_t count = (uint32_t)r->starts.count;
    size_t next = 0;
    for (uint32_t k = 0; k < count && !r->failed;) {
        uint32_t end = k;
        while (end < count && computes(held_record(r, start_of(r, end))))
            end++;
        bool single = !write_path(r, k, end, &next);
        end += k == end; /* a move */
        for (; k < end && single && !r->failed; k++)
            write_record(r, k, &next);
        k = end;
    }
    for (uint32_t k = 0; k < r->values.count && !r->failed; k++) /* inputs that die and are not read */
        if (value_at(r, k)->freed && !value_at(r, k)->released)
            release(r, value_at(r, k));
    flush_frees(r);
}

/* ---- worker by worker ----------------------------------------------------------------------------------------- */

static void take_stream(recording *r, uint32_t fresh)
{
    const gt_dispatch_worker *worker = r->worker;
    const gt_stream *before = &r->stats[worker->index];
    gt_stream *stream = &r->replay->stream[r->replay->streams++];
    *stream = (gt_stream){.worker = worker->index,
                          .life = worker->life,
                          .records = r->records.memory,
                          .slots = (uint32_t)r->records.count,
                          .gaps = r->gaps.memory,
                          .gap_count = (uint32_t)r->gaps.count,
                          .fresh = fresh,
                          .fresh_count = r->replay->sources - fresh,
                          .gone = r->gone.memory,
                          .gone_count = (uint32_t)r->gone.count,
                          .told = r->told.memory,
                          .told_count = (uint32_t)r->told.count,
                          .instructions = worker->instructions - before->instructions,
                          .estimated_ns = worker->share.placed_ns - before->estimated_ns};
    stream->traffic.moves = worker->traffic.moves - before->traffic.moves;
    stream->traffic.collectives = worker->traffic.collectives - before->traffic.collectives;
    stream->traffic.gathers = worker->traffic.gathers - before->traffic.gathers;
    stream->traffic.bytes = worker->traffic.bytes - before->traffic.bytes;
    r->records = r->gaps = r->gone = r->told = (growing){0};
}

/* Make the worker's stream of what is held back for it. */
static void record_worker(recording *r)
{
    const gt_slot_queue *outbox = &r->worker->backlog.outbox;
    uint32_t slots = held_slots(r->worker), fresh = r->replay->sources;
    r->held.count = r->starts.count = r->values.count = 0;
    r->path_serial = 0;
    gt_slot *held = slots ? extend(r, &r->held, slots, sizeof *held) : NULL;
    r->by_slot = calloc((size_t)r->worker->slots.last + 1, sizeof *r->by_slot);
    if ((slots && !held) || !r->by_slot) {
        r->failed = true;
        free(r->by_slot);
        return;
    }
    if (slots)
        memcpy(held, outbox->slots + outbox->end - slots, slots * sizeof *held);
    number_values(r);
    if (!r->failed)
        write_stream(r);
    if (!r->failed)
        resolve_results(r);
    free(r->by_slot);
    if (slots) /* also if it failed: the worker knows its paths */
        take_stream(r, fresh);
}

/* Send what is held back for the worker. */
static gt_err send_held(gt_dispatch_worker *worker, growing *copy, recording *r)
{
    gt_slot_queue *outbox = &worker->backlog.outbox;
    size_t slots = held_slots(worker);
    copy->count = 0;
    gt_slot *records = slots ? extend(r, copy, slots, sizeof *records) : NULL;
    if (!records)
        return GT_OK; /* out of memory: they are sent from the outbox */
    memcpy(records, outbox->slots + outbox->end - slots, slots * sizeof *records);
    outbox->end -= slots;
    if (outbox->first == outbox->end)
        gt__slot_queue_clear(outbox);
    for (size_t at = 0; at < slots; at += 1u + records[at].ins.tail) {
        unsigned length = 1u + records[at].ins.tail;
        gt_slot *out = gt__worker_reserve(worker, length);
        if (!out)
            return gt__spread_no_memory();
        memcpy(out, records + at, length * sizeof *out);
        gt__worker_put(worker, length);
        if (records[at].ins.op == GT_OP_free && !worker->backlog.into_outbox)
            gt__worker_slots_are_free(worker, &records[at].ins);
    }
    return GT_OK;
}

/* The run was expanded: what is held back is recorded and sent. */
static gt_err record_all(recording *r)
{
    const gt_dispatcher *dispatcher = r->session->dispatcher;
    growing copy = {0};
    gt_err err = GT_OK;
    r->session->holding = false;
    for (int32_t k = 0; k < dispatcher->worker_count; k++) {
        r->worker = dispatcher->workers[k];
        if (!r->worker->backlog.holding)
            continue;
        gt__worker_flush_frees(r->worker);
        if (!r->failed)
            record_worker(r);
        r->worker->backlog.holding = false;
        gt_err one = send_held(r->worker, &copy, r);
        err = err == GT_OK ? one : err;
        if (!gt__slot_queue_empty(&r->worker->backlog.outbox))
            gt__worker_wait_for_room(r->worker);
        else
            gt__worker_flush_batch(r->worker);
    }
    free(copy.memory);
    return err;
}

gt_err gt__replay_record(gt_session *session, gt_replay *replay, const gt_path *path, const gt_slot *run,
                         const uint64_t *slots)
{
    size_t workers = (size_t)session->dispatcher->worker_count;
    recording r = {.session = session, .replay = replay, .path = path, .slots = slots};
    gt_slot own[GT_PATH_ROOM];
    memcpy(own, run, (1u + run->ins.tail) * sizeof *own);
    own->ins.imm[0].u = gt__path_run_words(path); /* the caller frees the others */
    r.first_tag = session->dispatcher->next_tag;
    r.before = malloc(workers * sizeof *r.before);
    r.stats = malloc(workers * sizeof *r.stats);
    replay->stream = malloc(workers * sizeof *replay->stream);
    r.failed = !r.before || !r.stats || !replay->stream;
    if (r.failed) {
        recording_free(&r);
        return gt__spread_no_memory();
    }
    hold(&r);
    gt_err err = gt__sums_record(session, path, run);
    if (err == GT_OK)
        err = gt__path_expand(path, own, put, &r);
    if (err == GT_OK)
        err = gt__sums_recorded(session);
    replay->tags = (uint32_t)(session->dispatcher->next_tag - r.first_tag);
    replay->first_input = path->parameters + replay->tags;
    replay->sources += replay->first_input;
    r.failed |= err != GT_OK || !find_results(&r, run);
    gt_err sent = record_all(&r);
    replay->recorded = !r.failed;
    replay->start = r.starts_of_slices.memory;
    replay->starts = (uint32_t)r.starts_of_slices.count;
    r.starts_of_slices.memory = NULL;
    recording_free(&r);
    return err == GT_OK ? sent : err;
}

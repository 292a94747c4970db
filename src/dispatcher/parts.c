/* parts.c: see parts.h. */
#include "dispatcher/parts.h"

#include <stdlib.h>
#include <string.h>

#include "core/expected.h"
#include "core/record.h"
#include "dispatcher/session.h"
#include "dispatcher/state.h"
#include "dispatcher/worker_stream.h"

enum {
    SHORTEST = 2,        /* computing records of a part */
    ALIKE = 4,           /* parts for one stretch: its layouts may change */
    MOST_CELLS = 1 << 15 /* of a part */
};

/* Ids in a part: those of a path (core/path.h), and slots that are freed and nothing else. */
#define OTHER ((uint64_t)1 << 33)

struct gt_part {
    gt_part *next;
    int32_t worker;
    uint64_t life;    /* of the worker */
    uint32_t ordinal; /* which stretch of the run it is, on this worker */
    bool told;        /* the worker has it, as `number` */
    bool numbered;
    uint32_t number;
    gt_slot *records; /* computing records and frees */
    uint32_t slots, count;
    uint32_t inputs, locals, parameter_count, others;
    bool *lives;         /* by local: it is not freed */
    uint8_t *parameters; /* by record: bits of words that are parameters */
    gt_expected *expected;
    gt_expected_id *cat_ids;
};

/* ---- paths on a worker ---------------------------------------------------------------------------------------- */

uint32_t gt__worker_path_number(const gt_dispatch_worker *worker)
{
    uint32_t number = 0;
    while (number < GT_WORKER_PATHS && worker->paths[number])
        number++;
    return number;
}

bool gt__worker_tell_path(gt_dispatch_worker *worker, uint32_t number, const gt_slot *definition, size_t slots)
{
    for (size_t at = 0; at < slots; at += GT_PATH_PIECE) {
        unsigned length = slots - at < GT_PATH_PIECE ? (unsigned)(slots - at) : GT_PATH_PIECE;
        gt_slot *out = gt__worker_reserve(worker, 1 + length);
        if (!out)
            return false;
        out->ins = (gt_instruction){.op = GT_OP_path, .result = number, .tail = (uint16_t)length};
        out->ins.imm[0].u = at;
        out->ins.imm[1].u = slots;
        memcpy(out + 1, definition + at, length * sizeof *out);
        gt__worker_put(worker, 1 + length);
    }
    worker->paths[number] = true;
    return true;
}

void gt__worker_forget_path(gt_dispatch_worker *worker, uint32_t number)
{
    gt_slot *out = gt__worker_reserve(worker, 1);
    if (!out)
        return;
    out->ins = (gt_instruction){.op = GT_OP_path, .result = number};
    gt__worker_put(worker, 1);
    worker->paths[number] = false;
}

/* ---- memory --------------------------------------------------------------------------------------------------- */

static bool grow(void **memory, size_t *capacity, size_t wanted, size_t size)
{
    if (wanted <= *capacity)
        return true;
    void *grown = realloc(*memory, 2 * wanted * size);
    if (!grown)
        return false;
    *memory = grown;
    *capacity = 2 * wanted;
    return true;
}

/* Room to tell slots up to `last` apart. */
static bool grow_slots(gt_parts_scratch *s, size_t last)
{
    size_t before = s->slot_capacity, capacity = before;
    if (last < before)
        return true;
    if (!grow((void **)&s->number, &capacity, last + 1, sizeof *s->number))
        return false;
    uint32_t *stamp = realloc(s->stamp, capacity * sizeof *stamp);
    if (!stamp)
        return false;
    memset(stamp + before, 0, (capacity - before) * sizeof *stamp);
    s->stamp = stamp;
    s->slot_capacity = capacity;
    return true;
}

void gt__parts_scratch_free(gt_parts_scratch *s)
{
    free(s->records);
    free(s->cell);
    free(s->number);
    free(s->stamp);
}

static void part_free(gt_part *part)
{
    free(part->records);
    free(part->lives);
    free(part->parameters);
    free(part->expected);
    free(part->cat_ids);
    free(part);
}

/* ---- making --------------------------------------------------------------------------------------------------- */

static uint64_t find(const gt_parts_scratch *s, uint64_t slot)
{
    return s->stamp[slot] == s->now ? s->number[slot] : 0;
}

static void set(gt_parts_scratch *s, uint64_t slot, uint64_t number)
{
    s->stamp[slot] = s->now;
    s->number[slot] = number;
}

/* Replace slots by the part's numbers. */
static void number_record(gt_part *part, gt_parts_scratch *s, gt_slot *record)
{
    for (gt_record_ids ids = gt__record_ids(record); gt__record_ids_next(&ids);) {
        uint64_t slot = *ids.id, number = find(s, slot);
        if (ids.use == GT_ID_WRITTEN) {
            number = ++part->locals;
            set(s, slot, number);
        } else if (!number && ids.use & GT_ID_FREED)
            number = OTHER + part->others++;
        else if (!number) {
            number = GT_PATH_INPUT + part->inputs++;
            set(s, slot, number);
        } else if (ids.use & GT_ID_FREED)
            s->stamp[slot] = 0;
        if (ids.use & GT_ID_FREED && number < GT_PATH_INPUT)
            part->lives[number - 1] = false;
        *ids.id = number;
    }
}

static uint16_t cell_of(const gt_part *part, uint64_t number)
{
    uint64_t first = GT_CELL_WORDS + part->inputs + part->parameter_count;
    return (uint16_t)(number >= OTHER           ? first + part->locals + (number - OTHER)
                      : number >= GT_PATH_INPUT ? GT_CELL_WORDS + (number - GT_PATH_INPUT)
                                                : first + number - 1);
}

static size_t cells_of(const gt_part *part)
{
    return (size_t)GT_CELL_WORDS + part->inputs + part->parameter_count + part->locals + part->others;
}

/* One word of a record, which is an id. */
static void expect_id(const gt_part *part, gt_expected *e, unsigned word, uint32_t *seen)
{
    uint64_t number = e->word[word];
    unsigned place = word - GT_CELL_FROM;
    if (!number)
        return;
    e->word[word] = 0;
    e->cell[place] = cell_of(part, number);
    if (number >= OTHER)
        e->stores |= (uint8_t)(1u << place);
    else if (number == GT_PATH_INPUT + *seen) {
        e->binds |= (uint8_t)(1u << place);
        ++*seen;
    }
}

static gt_expected expect_record(const gt_part *part, const gt_slot *record, uint8_t parameters, uint32_t *seen,
                                 uint32_t *parameter, gt_expected_id **ids)
{
    gt_operands operands = gt__record_operands(&record->ins, record + 1);
    gt_expected e = {
        .tail = record->ins.tail != 0, .slots = (uint16_t)(1u + record->ins.tail), .tails = {.slot = record + 1}};
    memcpy(e.word, record->u64, sizeof e.word);
    if (record->ins.op == GT_OP_free) {
        for (unsigned k = 0; k < GT_FREE_IDS; k++)
            expect_id(part, &e, GT_WORD_RESULT + k, seen);
        return e;
    }
    e.word[GT_WORD_RESULT] = 0;
    e.cell[0] = cell_of(part, record->ins.result);
    e.stores = 1;
    if (record->ins.op == GT_OP_cat) {
        e.tails.id = *ids;
        for (unsigned k = 0; k < operands.count; k++) {
            bool first = operands.id[k] == GT_PATH_INPUT + *seen;
            *seen += first;
            *(*ids)++ = (gt_expected_id){.cell = cell_of(part, operands.id[k]), .binds = first};
        }
    } else
        for (unsigned k = 0; k < operands.count; k++)
            if (gt__operand_is_tensor(&operands, k))
                expect_id(part, &e, GT_WORD_OPERAND + k, seen);
    for (unsigned bits = parameters; bits; bits &= bits - 1) {
        unsigned word = (unsigned)__builtin_ctz(bits);
        e.word[word] = 0;
        e.cell[word - GT_CELL_FROM] = (uint16_t)(GT_CELL_WORDS + part->inputs + (*parameter)++);
        e.stores |= (uint8_t)(1u << (word - GT_CELL_FROM));
    }
    return e;
}

static void expect_records(gt_part *part)
{
    uint32_t seen = 0, parameter = 0;
    gt_expected_id *ids = part->cat_ids;
    part->parameter_count = 0;
    for (uint32_t k = 0; k < part->count; k++)
        part->parameter_count += (uint32_t)__builtin_popcount(part->parameters[k]);
    for (uint32_t k = 0, at = 0; k < part->count; at += part->expected[k++].slots)
        part->expected[k] = expect_record(part, part->records + at, part->parameters[k], &seen, &parameter, &ids);
}

/* A part of these records; NULL: out of memory, or there are too many. */
static gt_part *part_new(gt_parts_scratch *s, const gt_slot *records, uint32_t slots, uint32_t count)
{
    gt_part *part = calloc(1, sizeof *part);
    size_t ids = 1;
    if (!part)
        return NULL;
    part->slots = slots;
    part->count = count;
    part->records = malloc(slots * sizeof *records);
    part->lives = malloc(count * sizeof *part->lives);
    part->parameters = calloc(count, sizeof *part->parameters);
    part->expected = malloc(count * sizeof *part->expected);
    bool good = part->records && part->lives && part->parameters && part->expected;
    if (good) {
        memcpy(part->records, records, slots * sizeof *records);
        memset(part->lives, true, count * sizeof *part->lives);
        s->now++;
        for (uint32_t at = 0; at < slots; at += 1u + records[at].ins.tail) {
            number_record(part, s, part->records + at);
            ids += records[at].ins.op == GT_OP_cat ? records[at].ins.imm[1].u : 0;
        }
        part->cat_ids = malloc(ids * sizeof *part->cat_ids);
        good = part->cat_ids && cells_of(part) < MOST_CELLS;
    }
    if (good)
        expect_records(part);
    else
        part_free(part);
    return good ? part : NULL;
}

/* ---- comparing ------------------------------------------------------------------------------------------------ */

/* Make parameters of the words that differ. */
static bool adapt(gt_part *part, uint32_t number, const gt_slot *expected, const gt_slot *record)
{
    unsigned different = 0;
    if (expected->u64[GT_WORD_HEAD] != record->u64[GT_WORD_HEAD] || record->ins.op == GT_OP_free)
        return false;
    for (unsigned bits = gt__path_parameter_words(&expected->ins) & ~(unsigned)part->parameters[number]; bits;
         bits &= bits - 1)
        if (expected->u64[__builtin_ctz(bits)] != record->u64[__builtin_ctz(bits)])
            different |= bits & -bits;
    if (!different || cells_of(part) + 8 >= MOST_CELLS)
        return false;
    part->parameters[number] |= (uint8_t)different;
    part->told = false;
    expect_records(part);
    return true;
}

/* The inputs are different tensors, and none of them has a slot that the part makes. */
static bool is_sound(const gt_part *part, gt_parts_scratch *s)
{
    const uint64_t *local = s->cell + GT_CELL_WORDS + part->inputs + part->parameter_count;
    s->now++;
    for (uint32_t k = 0; k < part->inputs; k++) {
        uint64_t slot = s->cell[GT_CELL_WORDS + k];
        if (find(s, slot))
            return false;
        set(s, slot, 1);
    }
    for (uint32_t k = 0; k < part->locals; k++)
        if (find(s, local[k]))
            return false;
    return true;
}

static bool part_fits(gt_part *part, gt_parts_scratch *s, const gt_slot *records, uint32_t slots)
{
    if (slots != part->slots || !grow((void **)&s->cell, &s->cell_capacity, MOST_CELLS, sizeof *s->cell))
        return false;
    s->cell[GT_CELL_ZERO] = 0;
    s->cell[GT_CELL_FIRST] = UINT64_MAX; /* slots have no order: any may be an input */
    for (uint32_t k = 0, at = 0; k < part->count;) {
        if (gt__expected_fits(&part->expected[k], s->cell, records + at))
            at += part->expected[k++].slots;
        else if (adapt(part, k, part->records + at, records + at))
            k = at = 0;
        else
            return false;
    }
    return is_sound(part, s);
}

/* ---- sending -------------------------------------------------------------------------------------------------- */

/* Frees of slots that are not the part's are not in its path. Returns the slots written. */
static uint32_t define_record(const gt_slot *record, gt_slot *out)
{
    unsigned kept = 0;
    if (record->ins.op != GT_OP_free) {
        memcpy(out, record, (1u + record->ins.tail) * sizeof *out);
        return 1u + record->ins.tail;
    }
    for (unsigned k = 0; k < GT_FREE_IDS; k++) {
        uint64_t id = gt__free_ids(&record->ins)[k];
        if (id && id < OTHER)
            gt__free_append(&out->ins, &kept, id);
    }
    return kept != 0;
}

/* The definition of the part's path; the caller frees it. NULL: out of memory. */
static gt_slot *define(const gt_part *part, size_t *slots)
{
    gt_slot *records = malloc(part->slots * sizeof *records), *definition = NULL;
    uint32_t *offset = malloc(part->locals * sizeof *offset);
    gt_path_word *parameter = malloc((part->parameter_count + 1) * sizeof *parameter);
    uint32_t written = 0, parameters = 0;
    if (records && offset && parameter) {
        for (uint32_t k = 0, at = 0; k < part->count; at += part->expected[k++].slots) {
            for (unsigned bits = part->parameters[k]; bits; bits &= bits - 1)
                parameter[parameters++] = (gt_path_word){.slot = written, .word = (uint32_t)__builtin_ctz(bits)};
            written += define_record(part->records + at, records + written);
        }
        for (uint32_t k = 0; k < part->locals; k++)
            offset[k] = k;
        *slots = gt__path_definition_slots(written, part->locals, parameters);
        definition = malloc(*slots * sizeof *definition);
    }
    if (definition)
        gt__path_define(records, written, part->locals, offset, parameter, parameters, definition);
    free(records);
    free(offset);
    free(parameter);
    return definition;
}

/* Have the worker know the part. */
static bool tell(gt_dispatch_worker *worker, gt_part *part)
{
    size_t slots;
    if (part->told)
        return true;
    uint32_t number = part->numbered ? part->number : gt__worker_path_number(worker);
    if (number == GT_WORKER_PATHS)
        return false;
    gt_slot *definition = define(part, &slots);
    part->told = definition && gt__worker_tell_path(worker, number, definition, slots);
    free(definition);
    if (part->told) { /* else another part may get the number */
        part->number = number;
        part->numbered = true;
    }
    return part->told;
}

/* The slots that the stretch has freed: those of the part's own tensors are free with the run, others need a record. */
static void send_frees(gt_dispatch_worker *worker, const gt_part *part, const gt_slot *records)
{
    for (uint32_t k = 0, at = 0; k < part->count; at += part->expected[k++].slots) {
        const uint64_t *numbers = gt__free_ids(&part->records[at].ins), *slots = gt__free_ids(&records[at].ins);
        if (records[at].ins.op != GT_OP_free)
            continue;
        for (unsigned id = 0; id < GT_FREE_IDS; id++)
            if (numbers[id] >= OTHER)
                gt__worker_free_tensor(worker, (uint32_t)slots[id]);
            else if (numbers[id])
                gt__slot_number_park(&worker->slots, (uint32_t)slots[id]);
    }
    gt__worker_flush_frees(worker);
}

/* Send a run of the part, with the cells that it was compared with. False: nothing was sent. */
static bool send_run(gt_dispatch_worker *worker, gt_part *part, const uint64_t *cell, const gt_slot *records)
{
    const uint64_t *local = cell + GT_CELL_WORDS + part->inputs + part->parameter_count;
    uint32_t outputs = 0;
    for (uint32_t k = 0; k < part->locals; k++)
        outputs += part->lives[k];
    uint32_t words = part->inputs + outputs + part->parameter_count;
    unsigned tail = gt__slots_for(words * sizeof(uint64_t));
    gt_slot *out = words <= GT_PATH_WORDS && tell(worker, part) ? gt__worker_reserve(worker, 1 + tail) : NULL;
    if (!out)
        return false;
    out->ins = (gt_instruction){
        .op = GT_OP_repeat, .result = part->number, .tail = (uint16_t)tail, .imm = {{.u = words}}};
    uint64_t *word = out[1].u64;
    memcpy(word, cell + GT_CELL_WORDS, part->inputs * sizeof *word);
    word += part->inputs;
    for (uint32_t k = 0; k < part->locals; k++)
        if (part->lives[k])
            *word++ = local[k];
    memcpy(word, cell + GT_CELL_WORDS + part->inputs, part->parameter_count * sizeof *word);
    gt__slots_pad(out + 1, words * sizeof *word);
    gt__worker_put(worker, 1 + tail);
    send_frees(worker, part, records);
    return true;
}

static gt_err send_records(gt_dispatch_worker *worker, const gt_slot *records, uint32_t slots)
{
    for (uint32_t at = 0; at < slots; at += 1u + records[at].ins.tail) {
        unsigned length = 1u + records[at].ins.tail;
        gt_slot *out = gt__worker_reserve(worker, length);
        if (!out)
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        memcpy(out, records + at, length * sizeof *out);
        gt__worker_put(worker, length);
        if (records[at].ins.op == GT_OP_free && !worker->backlog.into_outbox)
            gt__worker_slots_are_free(worker, &records[at].ins);
    }
    return GT_OK;
}

/* ---- stretches ------------------------------------------------------------------------------------------------ */

static void drop_part(gt_session *session, gt_part **where)
{
    gt_part *part = *where;
    gt_dispatch_worker *worker = session->dispatcher->workers[part->worker];
    *where = part->next;
    if (part->numbered && worker->peer && worker->life == part->life && worker->paths[part->number])
        gt__worker_forget_path(worker, part->number);
    part_free(part);
}

/* A stretch of computing records and frees, `count` of them, of which `computing` compute. */
static gt_err send_stretch(gt_session *session, gt_parts_scratch *s, gt_part **parts, gt_dispatch_worker *worker,
                           uint32_t ordinal, const gt_slot *records, uint32_t slots, uint32_t count,
                           uint32_t computing)
{
    unsigned alike = 0;
    gt_part **oldest = NULL;
    if (computing < SHORTEST || slots > GT_PATH_SLOTS || !grow_slots(s, worker->slots.last))
        return send_records(worker, records, slots);
    for (gt_part **where = parts; *where;) {
        gt_part *part = *where;
        if (part->worker == worker->index && part->life != worker->life) {
            drop_part(session, where);
            continue;
        }
        if (part->worker == worker->index && part->ordinal == ordinal) {
            if (part_fits(part, s, records, slots))
                return send_run(worker, part, s->cell, records) ? GT_OK : send_records(worker, records, slots);
            alike++;
            oldest = where; /* new ones are put in front */
        }
        where = &part->next;
    }
    if (alike >= ALIKE)
        drop_part(session, oldest);
    gt_part *part = part_new(s, records, slots, count);
    if (part) {
        part->worker = worker->index;
        part->life = worker->life;
        part->ordinal = ordinal;
        part->next = *parts;
        *parts = part;
    }
    return send_records(worker, records, slots);
}

static gt_err send_held(gt_session *session, gt_parts_scratch *s, gt_part **parts, gt_dispatch_worker *worker,
                        const gt_slot *records, uint32_t slots)
{
    uint32_t ordinal = 0;
    for (uint32_t at = 0; at < slots;) {
        uint32_t end = at, count = 0, computing = 0;
        for (; end < slots; end += 1u + records[end].ins.tail, count++) {
            unsigned op = records[end].ins.op;
            if (op != GT_OP_free && (op >= GT_OP_FIRST_CONTROL || op == GT_OP_upload))
                break;
            computing += op != GT_OP_free;
        }
        if (end > at)
            GT_TRY(send_stretch(session, s, parts, worker, ordinal++, records + at, end - at, count, computing));
        at = end;
        if (at < slots) { /* a move or a collective */
            GT_TRY(send_records(worker, records + at, 1u + records[at].ins.tail));
            at += 1u + records[at].ins.tail;
        }
    }
    return GT_OK;
}

/* ---- runs ----------------------------------------------------------------------------------------------------- */

void gt__parts_begin(gt_session *session)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    session->holding = true;
    for (int32_t k = 0; k < dispatcher->worker_count; k++) {
        gt_dispatch_worker *worker = dispatcher->workers[k];
        if (!worker->peer)
            continue;
        gt__worker_flush_frees(worker);
        worker->backlog.holding = true;
        worker->backlog.held_from = gt__slot_queue_slots(&worker->backlog.outbox);
    }
}

static gt_err end_worker(gt_session *session, gt_parts_scratch *s, gt_part **parts, gt_dispatch_worker *worker)
{
    gt_slot_queue *outbox = &worker->backlog.outbox;
    gt__worker_flush_frees(worker);
    worker->backlog.holding = false;
    size_t slots = gt__slot_queue_slots(outbox) - worker->backlog.held_from;
    if (!slots)
        return GT_OK;
    if (!grow((void **)&s->records, &s->record_capacity, slots, sizeof *s->records))
        return GT_OK; /* they are sent from the outbox, as they are */
    memcpy(s->records, outbox->slots + outbox->end - slots, slots * sizeof *s->records);
    outbox->end -= slots;
    if (outbox->first == outbox->end)
        gt__slot_queue_clear(outbox);
    return send_held(session, s, parts, worker, s->records, (uint32_t)slots);
}

gt_err gt__parts_end(gt_session *session, gt_parts_scratch *scratch, gt_part **parts)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    gt_err err = GT_OK;
    session->holding = false;
    for (int32_t k = 0; k < dispatcher->worker_count; k++) {
        gt_dispatch_worker *worker = dispatcher->workers[k];
        if (!worker->backlog.holding)
            continue;
        gt_err one = end_worker(session, scratch, parts, worker);
        err = err == GT_OK ? one : err;
        if (!gt__slot_queue_empty(&worker->backlog.outbox))
            gt__worker_wait_for_room(worker);
        else
            gt__worker_flush_batch(worker);
    }
    return err;
}

void gt__parts_free(gt_session *session, gt_part **parts)
{
    while (*parts)
        drop_part(session, parts);
}

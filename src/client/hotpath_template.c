/* hotpath_template.c: see hotpath_template.h. */
#include "client/hotpath_template.h"

#include <stdlib.h>
#include <string.h>

#include "core/record.h"

enum { MOST_SPAN = 1 << 20 };

bool gt__ids_add(gt_ids *ids, uint64_t id)
{
    if (ids->count == ids->capacity) {
        size_t capacity = ids->capacity ? 2 * ids->capacity : 64;
        uint64_t *grown = realloc(ids->id, capacity * sizeof *grown);
        if (!grown)
            return false;
        ids->id = grown;
        ids->capacity = capacity;
    }
    ids->id[ids->count++] = id;
    return true;
}

/* ---- making ------------------------------------------------------------------------------------------------- */

/* The local of an id, if it is one; counted from 0. */
static inline bool find_local(const gt_template *t, uint64_t first, uint64_t id, uint32_t *local)
{
    uint64_t difference = id - first;
    if (id < first || difference >= t->span || !t->local[difference])
        return false;
    *local = t->local[difference] - 1;
    return true;
}

/* The input of an id: the last ones first, as programs use them. */
static uint32_t find_input(const gt_ids *inputs, uint64_t id)
{
    for (size_t k = inputs->count; k > 0; k--)
        if (inputs->id[k - 1] == id)
            return (uint32_t)(k - 1);
    return UINT32_MAX;
}

static bool number_locals(gt_template *t)
{
    uint64_t first = t->records->ins.result, last = first;
    uint32_t slot = 0;
    for (uint32_t k = 0; k < t->count; k++, slot += 1u + t->records[slot].ins.tail) {
        uint64_t id = t->records[slot].ins.result;
        if (id < last || id - first >= MOST_SPAN)
            return false;
        t->at[k] = slot;
        t->offset[k] = (uint32_t)(id - first);
        last = id;
    }
    t->span = t->offset[t->count - 1] + 1;
    t->local = calloc(t->span, sizeof *t->local);
    for (uint32_t k = 0; t->local && k < t->count; k++)
        t->local[t->offset[k]] = k + 1;
    return t->local != NULL;
}

/* Replace ids by the template's numbers; `inputs` gets the ids of the inputs. */
static bool number_ids(gt_template *t, gt_ids *inputs)
{
    uint64_t first = t->records->ins.result;
    for (uint32_t k = 0; k < t->count; k++)
        for (gt_record_ids ids = gt__record_ids(t->records + t->at[k]); gt__record_ids_next(&ids);) {
            uint32_t local, input;
            if (find_local(t, first, *ids.id, &local)) {
                *ids.id = local + 1;
                continue;
            }
            input = find_input(inputs, *ids.id);
            if (input == UINT32_MAX) {
                input = (uint32_t)inputs->count;
                if (input == GT_PATH_WORDS || !gt__ids_add(inputs, *ids.id))
                    return false;
            }
            *ids.id = GT_PATH_INPUT + input;
        }
    t->inputs = (uint32_t)inputs->count;
    return true;
}

static bool mark_dead(gt_template *t, uint64_t first, const gt_ids *inputs, const uint64_t *freed, size_t count)
{
    t->dead = calloc(t->count, sizeof *t->dead);
    t->dying = calloc(t->inputs + 1, sizeof *t->dying);
    t->sole = calloc(t->inputs + 1, sizeof *t->sole);
    if (!t->dead || !t->dying || !t->sole)
        return false;
    for (size_t k = 0; k < count; k++) {
        uint32_t local, input = find_input(inputs, freed[k]);
        if (find_local(t, first, freed[k], &local))
            t->dead[local] = true;
        else if (input != UINT32_MAX)
            t->dying[input] = t->sole[input] = t->any_sole = true;
        else
            continue;
        t->deaths++;
    }
    for (uint32_t k = 0; k < t->count; k++) {
        uint64_t consumed = gt__record_consumed(&t->records[t->at[k]].ins);
        if (consumed >= GT_PATH_INPUT)
            t->sole[consumed - GT_PATH_INPUT] = t->any_sole = true;
    }
    return true;
}

/* ---- what is expected --------------------------------------------------------------------------------------- */

/* How a template's number is compared. Inputs are numbered in the order of their first use; *seen of them were used. */
static gt_expected_id expect_id(const gt_template *t, uint64_t number, uint32_t *seen)
{
    if (number < GT_PATH_INPUT)
        return (gt_expected_id){.word = t->offset[number - 1], .cell = GT_CELL_FIRST};
    uint32_t input = (uint32_t)(number - GT_PATH_INPUT);
    bool first = input == *seen;
    *seen += first;
    return (gt_expected_id){.cell = (uint16_t)(GT_CELL_WORDS + input), .binds = first};
}

/* Record `number`; *ids: where the operands of a cat go. */
static gt_expected expect_record(const gt_template *t, uint32_t number, uint32_t *seen, uint32_t *parameters,
                                 gt_expected_id **ids)
{
    const gt_slot *record = t->records + t->at[number];
    gt_operands operands = gt__record_operands(&record->ins, record + 1);
    gt_expected e = {.first = number == 0,
                     .last = number + 1 == t->count && !t->at_leave,
                     .tail = record->ins.tail != 0,
                     .slots = (uint16_t)(1u + record->ins.tail),
                     .tails = {.slot = record + 1}};
    memcpy(e.word, record->u64, sizeof e.word);
    e.word[GT_WORD_RESULT] = t->offset[number];
    e.cell[0] = GT_CELL_FIRST;
    e.stores = number == 0;
    if (record->ins.op == GT_OP_cat) {
        e.tails.id = *ids;
        for (unsigned k = 0; k < operands.count; k++)
            *(*ids)++ = expect_id(t, operands.id[k], seen);
    } else
        for (unsigned k = 0; k < operands.count; k++)
            if (gt__operand_is_tensor(&operands, k)) {
                gt_expected_id id = expect_id(t, operands.id[k], seen);
                unsigned place = GT_WORD_OPERAND + k - GT_CELL_FROM;
                e.word[GT_WORD_OPERAND + k] = id.word;
                e.cell[place] = id.cell;
                e.binds |= (uint8_t)(id.binds << place);
            }
    for (unsigned bits = t->parameters[number]; bits; bits &= bits - 1) {
        unsigned word = (unsigned)__builtin_ctz(bits);
        uint16_t cell = (uint16_t)(GT_CELL_WORDS + t->inputs + (*parameters)++);
        if (word >= GT_WORD_TAIL) {
            e.tail_cell = e.tail_stores ? e.tail_cell : cell;
            e.tail_stores |= (uint8_t)(1u << (word - GT_WORD_TAIL));
            continue;
        }
        e.word[word] = 0;
        e.cell[word - GT_CELL_FROM] = cell;
        e.stores |= (uint8_t)(1u << (word - GT_CELL_FROM));
    }
    e.plain = !e.tail && !((e.stores | e.binds) & ~7u) && !e.cell[3] && !e.word[GT_WORD_OPERAND + 2] &&
              !e.word[GT_WORD_IMM] && !e.word[GT_WORD_IMM + 1];
    return e;
}

/* Results that live on after a run: neither freed nor consumed in it. */
static uint32_t count_outputs(const gt_template *t)
{
    uint32_t outputs = 0;
    for (uint32_t k = 0; k < t->count; k++) {
        outputs += !t->dead[k];
        uint64_t consumed = gt__record_consumed(&t->records[t->at[k]].ins);
        outputs -= consumed && consumed <= t->count && !t->dead[consumed - 1];
    }
    return outputs;
}

/* What each record must be, with the present parameters. False: a run would have too many words. */
static bool expect_records(gt_template *t)
{
    uint32_t seen = 0, parameters = 0;
    gt_expected_id *ids = t->cat_ids;
    for (uint32_t k = 0; k < t->count; k++)
        parameters += (uint32_t)__builtin_popcount(t->parameters[k]);
    if (t->inputs + parameters + count_outputs(t) > GT_PATH_WORDS)
        return false;
    t->parameter_count = parameters;
    parameters = 0;
    for (uint32_t k = 0; k < t->count; k++)
        t->expected[k] = expect_record(t, k, &seen, &parameters, &ids);
    t->expected[t->count] = (gt_expected){.word = {UINT64_MAX}};
    return true;
}

static bool expect_first(gt_template *t)
{
    size_t ids = 1;
    for (uint32_t k = 0; k < t->count; k++)
        if (t->records[t->at[k]].ins.op == GT_OP_cat)
            ids += t->records[t->at[k]].ins.imm[1].u;
    t->expected = malloc((t->count + 1) * sizeof *t->expected);
    t->cat_ids = malloc(ids * sizeof *t->cat_ids);
    t->canonical = malloc(t->count * sizeof *t->canonical);
    if (!t->expected || !t->cat_ids || !t->canonical)
        return false;
    for (uint32_t k = 0; k < t->count; k++)
        t->canonical[k] = gt__canonical(t->records + t->at[k]);
    return expect_records(t);
}

/* ---- life --------------------------------------------------------------------------------------------------- */

gt_template *gt__template_new(const gt_template_source *from)
{
    gt_template *t = calloc(1, sizeof *t);
    gt_ids inputs = {0};
    uint32_t count = from->count, slots = from->slots;
    if (!t || !count || slots > GT_PATH_SLOTS / 2) {
        free(t);
        return NULL;
    }
    t->slots = slots;
    t->count = count;
    t->at_leave = from->at_leave;
    t->frees = SIZE_MAX; /* no run so far */
    t->records = malloc(slots * sizeof *t->records);
    t->at = malloc(count * sizeof *t->at);
    t->offset = malloc(count * sizeof *t->offset);
    t->parameters = calloc(count, sizeof *t->parameters);
    t->live = malloc(count * sizeof *t->live);
    bool good = t->records && t->at && t->offset && t->parameters && t->live;
    if (good) {
        memcpy(t->records, from->records, slots * sizeof *t->records);
        memcpy(t->live, from->live, count * sizeof *t->live);
        good = number_locals(t) && number_ids(t, &inputs) &&
               mark_dead(t, from->records->ins.result, &inputs, from->freed, from->freed_count) && expect_first(t);
    }
    free(inputs.id);
    if (good)
        return t;
    gt__template_free(t);
    return NULL;
}

void gt__template_free(gt_template *t)
{
    if (!t)
        return;
    free(t->records);
    free(t->expected);
    free(t->cat_ids);
    free(t->canonical);
    free(t->live);
    free(t->at);
    free(t->offset);
    free(t->local);
    free(t->parameters);
    free(t->dead);
    free(t->dying);
    free(t->sole);
    free(t->free);
    free(t->other);
    free(t);
}

/* Whether the records, which are of the same ops and shapes, read the same inputs and results of one another. */
static bool is_wired_the_same(const gt_template *a, const gt_template *b)
{
    for (uint32_t k = 0; k < a->count; k++) {
        gt_record_ids ours = gt__record_ids(a->records + a->at[k]), theirs = gt__record_ids(b->records + b->at[k]);
        bool more = gt__record_ids_next(&ours), more_theirs = gt__record_ids_next(&theirs);
        while (more && more_theirs && *ours.id == *theirs.id) {
            more = gt__record_ids_next(&ours);
            more_theirs = gt__record_ids_next(&theirs);
        }
        if (more || more_theirs)
            return false;
    }
    return true;
}

bool gt__template_same(const gt_template *a, const gt_template *b)
{
    return a->count == b->count && a->slots == b->slots && a->inputs == b->inputs && a->at_leave == b->at_leave &&
           memcmp(a->dead, b->dead, a->count * sizeof *a->dead) == 0 &&
           memcmp(a->dying, b->dying, a->inputs * sizeof *a->dying) == 0 &&
           memcmp(a->canonical, b->canonical, a->count * sizeof *a->canonical) == 0 &&
           memcmp(a->offset, b->offset, a->count * sizeof *a->offset) == 0 && is_wired_the_same(a, b);
}

/* ---- comparing ---------------------------------------------------------------------------------------------- */

/* Make parameters of the words that differ, if the record fits then. */
static bool adapt(gt_template *t, uint64_t *cell, uint32_t number, const gt_slot *record)
{
    const gt_slot *expected = t->records + t->at[number];
    unsigned different = 0;
    if (expected->u64[GT_WORD_HEAD] != record->u64[GT_WORD_HEAD])
        return false;
    for (unsigned bits = gt__path_parameter_words(&expected->ins) & ~(unsigned)t->parameters[number]; bits;
         bits &= bits - 1)
        if (*gt__record_word(expected, (unsigned)__builtin_ctz(bits)) !=
            *gt__record_word(record, (unsigned)__builtin_ctz(bits)))
            different |= bits & -bits;
    t->parameters[number] |= (uint16_t)different;
    bool room = !different || expect_records(t);
    if (different && room && gt__expected_fits(&t->expected[number], cell, record)) {
        t->number = 0; /* another definition */
        return true;
    }
    t->full |= !room;
    t->parameters[number] &= (uint16_t)~different;
    if (different)
        expect_records(t);
    return false;
}

bool gt__template_fits(gt_template *t, uint64_t *cell, const gt_slot *records, uint32_t slots, uint32_t *fitted)
{
    uint32_t at = 0;
    *fitted = 0;
    while (at < slots && *fitted < t->count) {
        if (gt__expected_fits(&t->expected[*fitted], cell, records + at))
            at += t->expected[(*fitted)++].slots;
        else if (adapt(t, cell, *fitted, records + at))
            at = *fitted = 0; /* the parameters' cells are others now */
        else
            return false;
    }
    return at == slots;
}

bool gt__template_odd_again(gt_template *t, uint32_t at, gt_canonical canonical)
{
    for (unsigned k = 0; k < GT_TEMPLATE_ODD; k++)
        if (t->odd[k].place == at + 1 && t->odd[k].exact == canonical.exact) {
            t->odd[k].place = 0; /* what is learned now may turn out to be no path */
            return true;
        }
    t->odd[t->odd_next++ % GT_TEMPLATE_ODD] = (gt_odd_record){.place = at + 1, .exact = canonical.exact};
    return false;
}

/* The place of an id among the inputs, whether it is one or not. index[]: an input plus one; 0: unused. */
static inline uint16_t *place_of(const uint64_t *input, uint16_t *index, uint32_t mask, uint64_t id)
{
    uint32_t at = (uint32_t)(id * 0x9E3779B97F4A7C15u >> 32) & mask;
    while (index[at] && input[index[at] - 1] != id)
        at = (at + 1) & mask;
    return &index[at];
}

/* Returns the mask. *distinct false: a tensor that dies is two inputs at once, and may be read as one after it has died as the
 * other. */
static uint32_t index_inputs(const gt_template *t, const uint64_t *input, uint16_t *index, bool *distinct)
{
    uint32_t mask = 15;
    while (mask + 1 < 2 * t->inputs)
        mask = 2 * mask + 1;
    memset(index, 0, (mask + 1) * sizeof *index);
    *distinct = true;
    for (uint32_t k = 0; k < t->inputs; k++) {
        uint16_t *place = place_of(input, index, mask, input[k]);
        *distinct &= !*place || !(t->sole[k] || t->sole[*place - 1]);
        *place = (uint16_t)(k + 1);
    }
    return mask;
}

/* The same was freed as in the last run, in the same order. */
static bool frees_are_the_same(const gt_template *t, const uint64_t *cell, const uint64_t *freed, size_t count)
{
    uint64_t different = 0;
    if (count != t->frees)
        return false;
    for (size_t k = 0; k < count; k++)
        different |= (freed[k] - cell[t->free[k].cell]) ^ t->free[k].word;
    return !different;
}

static bool free_room(gt_template *t, size_t count)
{
    if (count <= t->free_capacity)
        return true;
    gt_expected_free *grown = realloc(t->free, 2 * count * sizeof *grown);
    t->free = grown ? grown : t->free;
    uint32_t *other = grown ? realloc(t->other, 2 * count * sizeof *other) : NULL;
    if (!other)
        return false;
    t->other = other;
    t->free_capacity = 2 * count;
    return true;
}

bool gt__template_ends(gt_template *t, const uint64_t *cell, const uint64_t *freed, size_t count)
{
    uint16_t index[2 * GT_PATH_WORDS];
    const uint64_t *input = cell + GT_CELL_WORDS;
    uint32_t deaths = 0, others = 0, mask = 0;
    bool distinct = true, same = frees_are_the_same(t, cell, freed, count);
    if (t->any_sole || !same)
        mask = index_inputs(t, input, index, &distinct);
    if (same || !distinct)
        return distinct;
    t->frees = SIZE_MAX;
    if (!free_room(t, count))
        return false;
    for (size_t k = 0; k < count; k++) {
        gt_expected_free *expected = &t->free[k];
        uint32_t local;
        bool ours;
        *expected = (gt_expected_free){.word = freed[k] - cell[GT_CELL_FIRST], .cell = GT_CELL_FIRST};
        if (find_local(t, cell[GT_CELL_FIRST], freed[k], &local)) {
            ours = t->dead[local];
        } else {
            uint16_t place = *place_of(input, index, mask, freed[k]);
            ours = place && t->dying[place - 1];
            if (ours)
                *expected = (gt_expected_free){.cell = (uint16_t)(GT_CELL_WORDS + place - 1)};
        }
        deaths += ours;
        if (!ours)
            t->other[others++] = (uint32_t)k;
    }
    t->others = others;
    if (deaths == t->deaths)
        t->frees = count;
    return deaths == t->deaths;
}

/* ---- the path ----------------------------------------------------------------------------------------------- */

/* Frees of what is dead at the end, after its last use. by_record: a list of ids to be freed after each record. */
static void find_last_uses(const gt_template *t, uint32_t *local_last, uint32_t *input_last)
{
    for (uint32_t k = 0; k < t->count; k++) {
        local_last[k] = k;
        for (gt_record_ids ids = gt__record_ids(t->records + t->at[k]); gt__record_ids_next(&ids);)
            if (*ids.id >= GT_PATH_INPUT)
                input_last[*ids.id - GT_PATH_INPUT] = k;
            else
                local_last[*ids.id - 1] = k;
    }
}

typedef struct writing {
    gt_slot *records;
    uint32_t slots;
    gt_path_word *parameter;
    uint32_t parameters;
} writing;

/* heads[r], next[]: lists of what to free after record r. Numbers from `count` on are inputs. */
static void write_record(const gt_template *t, uint32_t number, const uint32_t *heads, const uint32_t *next,
                         writing *w)
{
    const gt_slot *record = t->records + t->at[number];
    gt_instruction frees;
    unsigned count = 0;
    for (unsigned word = 0; word < GT_PARAMETER_WORDS; word++)
        if (t->parameters[number] >> word & 1)
            w->parameter[w->parameters++] = (gt_path_word){.slot = w->slots, .word = word};
    memcpy(w->records + w->slots, record, (1u + record->ins.tail) * sizeof *record);
    w->slots += 1u + record->ins.tail;
    for (uint32_t k = heads[number]; k; k = next[k - 1]) {
        bool full = gt__free_append(&frees, &count, k <= t->count ? k : GT_PATH_INPUT + k - 1 - t->count);
        if (full || !next[k - 1]) {
            w->records[w->slots++].ins = frees;
            count = 0;
        }
    }
}

gt_slot *gt__template_define(const gt_template *t, size_t *slots)
{
    uint32_t values = t->count + t->inputs;
    uint32_t *last = calloc(values, sizeof *last), *heads = calloc(t->count, sizeof *heads),
             *next = calloc(values, sizeof *next);
    writing w = {.records = malloc(((size_t)t->slots + values + 1) * sizeof *w.records),
                 .parameter = malloc(((size_t)t->count * GT_PARAMETER_WORDS + 1) * sizeof *w.parameter)};
    gt_slot *definition = NULL;
    if (last && heads && next && w.records && w.parameter) {
        find_last_uses(t, last, last + t->count);
        for (uint32_t k = 0; k < values; k++)
            if (k < t->count ? t->dead[k] : t->dying[k - t->count]) {
                next[k] = heads[last[k]];
                heads[last[k]] = k + 1;
            }
        for (uint32_t k = 0; k < t->count; k++)
            write_record(t, k, heads, next, &w);
        *slots = gt__path_definition_slots(w.slots, t->count, w.parameters);
        if (w.slots <= GT_PATH_SLOTS && w.parameters + t->inputs <= GT_PATH_WORDS)
            definition = malloc(*slots * sizeof *definition);
    }
    if (definition)
        gt__path_define(w.records, w.slots, t->count, t->offset, w.parameter, w.parameters, definition);
    free(last);
    free(heads);
    free(next);
    free(w.records);
    free(w.parameter);
    return definition;
}

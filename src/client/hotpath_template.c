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

static bool mark_dead(gt_template *t, uint64_t first, const gt_ids *inputs, const gt_ids *freed)
{
    t->dead = calloc(t->count, sizeof *t->dead);
    t->dying = calloc(t->inputs + 1, sizeof *t->dying);
    if (!t->dead || !t->dying)
        return false;
    for (size_t k = 0; k < freed->count; k++) {
        uint32_t local, input = find_input(inputs, freed->id[k]);
        if (find_local(t, first, freed->id[k], &local))
            t->dead[local] = true;
        else if (input != UINT32_MAX)
            t->dying[input] = true;
    }
    return true;
}

gt_template *gt__template_new(const gt_slot *records, uint32_t slots, uint32_t count, const gt_ids *freed)
{
    gt_template *t = calloc(1, sizeof *t);
    gt_ids inputs = {0};
    if (!t || !count || slots > GT_PATH_SLOTS / 2) {
        free(t);
        return NULL;
    }
    t->slots = slots;
    t->count = count;
    t->records = malloc(slots * sizeof *t->records);
    t->at = malloc(count * sizeof *t->at);
    t->offset = malloc(count * sizeof *t->offset);
    t->parameters = calloc(count, sizeof *t->parameters);
    bool good = t->records && t->at && t->offset && t->parameters;
    if (good) {
        memcpy(t->records, records, slots * sizeof *records);
        good = number_locals(t) && number_ids(t, &inputs) && mark_dead(t, records->ins.result, &inputs, freed);
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
    free(t->at);
    free(t->offset);
    free(t->local);
    free(t->parameters);
    free(t->dead);
    free(t->dying);
    free(t);
}

bool gt__template_same(const gt_template *a, const gt_template *b)
{
    if (a->count != b->count || a->slots != b->slots || a->inputs != b->inputs ||
        memcmp(a->dead, b->dead, a->count * sizeof *a->dead) != 0 ||
        memcmp(a->dying, b->dying, a->inputs * sizeof *a->dying) != 0)
        return false;
    for (uint32_t k = 0; k < a->count; k++) {
        gt_canonical x = gt__canonical(a->records + a->at[k]), y = gt__canonical(b->records + b->at[k]);
        if (x.shape != y.shape || x.exact != y.exact || a->offset[k] != b->offset[k])
            return false;
    }
    return true;
}

/* ---- comparing ---------------------------------------------------------------------------------------------- */

static inline bool id_fits(const gt_template *t, gt_occurrence *o, uint64_t number, uint64_t id)
{
    if (number < GT_PATH_INPUT)
        return id == o->first + t->offset[number - 1];
    uint64_t *input = &o->input[number - GT_PATH_INPUT];
    if (*input || id >= o->first)
        return *input == id;
    *input = id;
    return true;
}

static bool ids_fit(const gt_template *t, gt_occurrence *o, const gt_slot *expected, const gt_slot *record)
{
    gt_operands numbers = gt__record_operands(&expected->ins, expected + 1);
    const uint64_t *ids = gt__record_operands(&record->ins, record + 1).id;
    for (unsigned k = 0; k < numbers.count; k++)
        if (gt__operand_is_tensor(&numbers, k) && !id_fits(t, o, numbers.id[k], ids[k]))
            return false;
    return true;
}

/* Words that are not ids: those that may be parameters become some if they differ. */
static bool words_fit(gt_template *t, uint32_t number, const gt_slot *expected, const gt_slot *record)
{
    unsigned different = 0, operands = gt__op_operands((gt_opcode)expected->ins.op);
    for (unsigned k = 0; k < operands; k++)
        if (gt__literal(&expected->ins, k) != GT_LITERAL_NONE &&
            expected->u64[GT_WORD_OPERAND + k] != record->u64[GT_WORD_OPERAND + k])
            different |= 1u << (GT_WORD_OPERAND + k);
    for (unsigned k = GT_WORD_IMM; k < GT_WORD_PLACE; k++)
        if (expected->u64[k] != record->u64[k])
            different |= 1u << k;
    different &= ~(unsigned)t->parameters[number];
    if (__builtin_expect(different, 0)) {
        if (different & ~gt__path_parameter_words(&expected->ins))
            return false;
        t->parameters[number] |= (uint8_t)different;
        t->number = 0; /* another definition */
    }
    return true;
}

bool gt__template_fits(gt_template *t, gt_occurrence *o, const gt_slot *record)
{
    const gt_slot *expected = t->records + t->at[o->fitted];
    if (!o->fitted) {
        o->first = record->ins.result;
        memset(o->input, 0, t->inputs * sizeof *o->input);
    }
    if (expected->u64[GT_WORD_HEAD] != record->u64[GT_WORD_HEAD] ||
        expected->u64[GT_WORD_PLACE] != record->u64[GT_WORD_PLACE] ||
        record->ins.result != o->first + t->offset[o->fitted] || !ids_fit(t, o, expected, record) ||
        (record->ins.tail && record->ins.op != GT_OP_cat &&
         memcmp(expected + 1, record + 1, record->ins.tail * sizeof *record) != 0) ||
        !words_fit(t, o->fitted, expected, record))
        return false;
    o->fitted++;
    return true;
}

/* The place of an id among the inputs, whether it is one or not. index[]: an input plus one; 0: unused. */
static inline uint16_t *place_of(const gt_occurrence *o, uint16_t *index, uint32_t mask, uint64_t id)
{
    uint32_t at = (uint32_t)(id * 0x9E3779B97F4A7C15u >> 32) & mask;
    while (index[at] && o->input[index[at] - 1] != id)
        at = (at + 1) & mask;
    return &index[at];
}

/* False: a tensor that dies is two inputs at once, and may be read as one after it has died as the other. */
static bool index_inputs(const gt_template *t, const gt_occurrence *o, uint16_t *index, uint32_t mask)
{
    memset(index, 0, (mask + 1) * sizeof *index);
    for (uint32_t k = 0; k < t->inputs; k++) {
        uint16_t *place = place_of(o, index, mask, o->input[k]);
        if (*place && (t->dying[k] || t->dying[*place - 1]))
            return false;
        *place = (uint16_t)(k + 1);
    }
    return true;
}

bool gt__template_ends(const gt_template *t, const gt_occurrence *o, gt_ids *freed, size_t *others)
{
    uint16_t index[2 * GT_PATH_WORDS];
    uint32_t dead = 0, dying = 0, mask = 15;
    size_t kept = 0;
    while (mask + 1 < 2 * t->inputs)
        mask = 2 * mask + 1;
    if (!index_inputs(t, o, index, mask))
        return false;
    for (uint32_t k = 0; k < t->count; k++)
        dead += t->dead[k];
    for (uint32_t k = 0; k < t->inputs; k++)
        dying += t->dying[k];
    for (size_t k = 0; k < freed->count; k++) {
        uint64_t id = freed->id[k];
        uint32_t local;
        bool expected = false;
        if (find_local(t, o->first, id, &local)) {
            expected = t->dead[local];
            dead -= expected;
        } else {
            uint16_t input = *place_of(o, index, mask, id);
            expected = input && t->dying[input - 1];
            dying -= expected;
        }
        if (!expected) { /* swapped: if the sequence does not end here, all of them are still needed */
            freed->id[k] = freed->id[kept];
            freed->id[kept++] = id;
        }
    }
    *others = kept;
    return !dead && !dying;
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
    for (unsigned word = 0; word < 8; word++)
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
                 .parameter = malloc(((size_t)t->count * 8 + 1) * sizeof *w.parameter)};
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

uint32_t gt__template_words(const gt_template *t, const gt_occurrence *o, const gt_slot *records, uint64_t *word)
{
    uint32_t words = t->inputs;
    memcpy(word, o->input, t->inputs * sizeof *word);
    for (uint32_t k = 0; k < t->count; k++)
        for (unsigned bits = t->parameters[k]; bits; bits &= bits - 1) {
            if (words == GT_PATH_WORDS)
                return GT_PATH_WORDS + 1;
            word[words++] = records[t->at[k]].u64[__builtin_ctz(bits)];
        }
    return words;
}

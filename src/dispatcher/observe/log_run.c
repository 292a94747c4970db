/* log_run.c: see log_run.h. */
#include "dispatcher/observe/log_run.h"

#include <stdlib.h>
#include <string.h>

#include "core/record.h"

/* ---- writing ------------------------------------------------------------------------------------------------ */

/* The number of a place, counted from 1; 0: none. False: there are too many. */
static bool number_place(gt_log_path *known, uint32_t scope, uint32_t site, uint32_t *number)
{
    *number = 0;
    if (!scope && !site)
        return true;
    uint32_t k = known->places; /* the last one first: neighbours are of the same line */
    while (k && (known->place[k - 1].scope != scope || known->place[k - 1].site != site))
        k--;
    if (!k) {
        if (known->places == GT_LOG_PLACES)
            return false;
        known->place[known->places].scope = scope;
        known->place[known->places].site = site;
        k = ++known->places;
    }
    *number = k;
    return true;
}

/* Number the places of the definition's records, and count what they free. False: too many places. */
static bool number_records(gt_log_path *known, const gt_path *path, gt_slot *definition)
{
    for (uint32_t at = 0; at < path->slots; at += 1u + path->records[at].ins.tail) {
        gt_instruction *ins = &definition[1 + at].ins;
        uint32_t place;
        if (!number_place(known, ins->scope, ins->site, &place))
            return false;
        ins->scope = 0;
        ins->site = place;
        known->records += ins->op != GT_OP_free;
        const uint64_t *ids = gt__free_ids(ins);
        for (unsigned k = 0; ins->op == GT_OP_free && k < GT_FREE_IDS; k++)
            known->frees += ids[k] != 0;
    }
    return true;
}

static uint8_t *put_slots(uint8_t *at, const gt_slot *slots, size_t count)
{
    at = gt__put_varint(at, count);
    for (size_t slot = 0; slot < count; slot++) {
        uint8_t *mask = at++;
        *mask = 0;
        for (unsigned k = 0; k < 8; k++)
            if (slots[slot].u64[k]) {
                *mask |= (uint8_t)(1u << k);
                at = gt__put_varint(at, slots[slot].u64[k]);
            }
    }
    return at;
}

bool gt__log_path_make(gt_log_path *known, const gt_path *path)
{
    gt__log_path_drop(known);
    size_t slots = gt__path_definition_slots(path->slots, path->count, path->parameters);
    gt_slot *definition = malloc(slots * sizeof *definition);
    uint8_t *code = malloc(GT_LOG_VARINT + slots * (1 + 8 * (size_t)GT_LOG_VARINT));
    known->word = calloc(gt__path_run_words(path) + 1u, sizeof *known->word);
    if (definition && code && known->word) {
        gt__path_define(path->records, path->slots, path->count, path->offset, path->parameter, path->parameters,
                        definition);
        if (number_records(known, path, definition)) {
            known->bytes = (size_t)(put_slots(code, definition, slots) - code);
            known->code = known->bytes <= GT_LOG_PATH_CODE ? realloc(code, known->bytes) : NULL;
            code = known->code ? NULL : code;
        }
        known->serial = path->serial;
    }
    free(definition);
    free(code);
    return known->serial;
}

void gt__log_path_drop(gt_log_path *known)
{
    free(known->code);
    free(known->word);
    *known = (gt_log_path){0};
}

uint32_t gt__log_run_lines(const gt_log_path *known, const gt_path *path, const gt_slot *run)
{
    uint32_t frees = known->frees;
    for (uint32_t k = gt__path_run_words(path); k < run->ins.imm[0].u; k++)
        frees += gt__path_word(run, k) != 0;
    return known->records + (frees + GT_FREE_IDS - 1) / GT_FREE_IDS;
}

uint8_t *gt__log_run_put(gt_log_path *known, const gt_path *path, const gt_slot *run, uint8_t *at)
{
    uint64_t first = run->ins.operand[0];
    at = gt__put_difference(at, first, known->first);
    known->first = first;
    at = gt__put_varint(at, run->ins.imm[0].u);
    uint32_t k = 0;
    for (; k < gt__path_run_words(path); k++) {
        at = gt__put_difference(at, gt__path_word(run, k), known->word[k]);
        known->word[k] = gt__path_word(run, k);
    }
    for (; k < run->ins.imm[0].u; k++)
        at = gt__put_difference(at, gt__path_word(run, k), first);
    return at;
}

/* ---- reading ------------------------------------------------------------------------------------------------ */

static gt_err broken(gt_log_input *in)
{
    in->broken = true;
    return gt__fail(GT_ERR_PROTOCOL, "a path of a block is damaged");
}

/* A definition; the caller frees it. */
static gt_err get_slots(gt_log_input *in, gt_slot **out, size_t *count)
{
    *out = NULL;
    *count = gt__get_varint(in);
    if (in->broken || *count > (size_t)(in->end - in->at)) /* each has at least a byte */
        return broken(in);
    gt_slot *slots = *out = calloc(*count + 1, sizeof *slots);
    if (!slots)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    for (size_t slot = 0; slot < *count; slot++) {
        uint8_t mask = gt__get_byte(in);
        for (unsigned k = 0; k < 8; k++)
            if (mask >> k & 1)
                slots[slot].u64[k] = gt__get_varint(in);
    }
    return in->broken ? broken(in) : GT_OK;
}

static gt_err get_places(gt_log_input *in, gt_log_path_read *read)
{
    uint64_t count = gt__get_varint(in);
    if (in->broken || count > GT_LOG_PLACES)
        return broken(in);
    read->place = calloc(count + 1, sizeof *read->place);
    read->word = calloc(gt__path_run_words(read->path) + 1u, sizeof *read->word);
    if (!read->place || !read->word)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    read->places = (uint32_t)count;
    for (uint32_t k = 0; k < count; k++)
        read->place[k] = (uint32_t)gt__get_varint(in);
    return in->broken ? broken(in) : GT_OK;
}

gt_err gt__log_path_get(gt_log_input *in, gt_log_path_read *read)
{
    *read = (gt_log_path_read){0};
    uint64_t bytes = gt__get_varint(in);
    if (in->broken || bytes > GT_LOG_PATH_CODE || bytes > (size_t)(in->end - in->at))
        return broken(in);
    gt_log_input code = {.at = in->at, .end = in->at + bytes};
    gt_slot *definition;
    size_t slots;
    in->at += bytes;
    gt_err err = get_slots(&code, &definition, &slots);
    if (err == GT_OK)
        err = gt__path_new(definition, slots, &read->path);
    free(definition);
    if (err == GT_OK)
        err = get_places(in, read);
    if (err != GT_OK)
        gt__log_path_read_drop(read);
    return err == GT_OK || err == GT_ERR_MEMORY ? err : broken(in);
}

void gt__log_path_read_drop(gt_log_path_read *read)
{
    gt__path_free(&read->path);
    free(read->place);
    free(read->word);
    *read = (gt_log_path_read){0};
}

gt_err gt__log_run_get(gt_log_input *in, gt_log_path_read *read, gt_slot *run)
{
    read->first = gt__get_difference(in, read->first);
    uint64_t words = gt__get_varint(in);
    if (in->broken || words > GT_PATH_WORDS)
        return broken(in);
    memset(run, 0, GT_PATH_ROOM * sizeof *run);
    run->ins.op = GT_OP_repeat;
    run->ins.tail = (uint16_t)gt__slots_for(words * sizeof(uint64_t));
    run->ins.operand[0] = read->first;
    run->ins.imm[0].u = words;
    for (uint32_t k = 0; k < words; k++) {
        bool kept = k < gt__path_run_words(read->path);
        uint64_t word = gt__get_difference(in, kept ? read->word[k] : read->first);
        run[1 + k / 8].u64[k % 8] = word;
        if (kept)
            read->word[k] = word;
    }
    return in->broken || gt__path_check_run(read->path, run) != GT_OK ? broken(in) : GT_OK;
}

/* path.c: see path.h. */
#include "core/path.h"

#include <stdlib.h>

#include "core/record.h"

/* ---- parameters --------------------------------------------------------------------------------------------- */

unsigned gt__path_parameter_words(const gt_instruction *ins)
{
    const unsigned imms = 3u << GT_WORD_IMM;
    unsigned literals = 0;
    if (ins->op == GT_OP_where || ins->op == GT_OP_clamp)
        return 0; /* inference checks these numbers against the dtype */
    switch ((gt_form)gt__op_table[ins->op].form) {
    case GT_FORM_UNARY:
    case GT_FORM_BINARY:
    case GT_FORM_TERNARY:
        for (unsigned k = 0; k < gt__op_operands((gt_opcode)ins->op); k++)
            if (gt__literal(ins, k) != GT_LITERAL_NONE)
                literals |= 1u << (GT_WORD_OPERAND + k);
        return literals | imms;
    case GT_FORM_FULL:
    case GT_FORM_ARANGE:
    case GT_FORM_RANDOM:
    case GT_FORM_SAMPLE:
        return imms;
    case GT_FORM_SLICE:
    case GT_FORM_ASSIGN:
        return 0xffu << GT_WORD_TAIL;
    default:
        return 0;
    }
}

/* ---- definitions -------------------------------------------------------------------------------------------- */

void gt__path_define(const gt_slot *records, uint32_t slots, uint32_t count, const uint32_t *offset,
                     const gt_path_word *parameter, uint32_t parameters, gt_slot *definition)
{
    memset(definition, 0, gt__path_definition_slots(slots, count, parameters) * sizeof *definition);
    definition->u64[0] = slots;
    definition->u64[1] = count;
    definition->u64[2] = parameters;
    memcpy(definition + 1, records, slots * sizeof *records);
    uint64_t *word = definition[1 + slots].u64;
    for (uint32_t k = 0; k < count; k++)
        *word++ = offset[k];
    for (uint32_t k = 0; k < parameters; k++)
        *word++ = (uint64_t)parameter[k].slot << 8 | parameter[k].word;
}

void gt__path_free(gt_path **where)
{
    gt_path *path = *where;
    if (!path)
        return;
    free(path->records);
    free(path->offset);
    free(path->output);
    free(path->maker);
    free(path->dies);
    free(path->parameter);
    free(path);
    *where = NULL;
}

/* What a definition has told so far. */
typedef struct reading {
    gt_path *path;
    bool *gone;      /* by local: freed or consumed */
    uint32_t locals; /* made */
    uint32_t most_inputs;
} reading;

static gt_err bad(const char *why)
{
    return gt__fail(GT_ERR_PROTOCOL, "path: %s", why);
}

/* An id that a record reads, or frees. */
static gt_err read_id(reading *r, uint64_t id, unsigned use)
{
    gt_path *path = r->path;
    if (id >= GT_PATH_INPUT) {
        uint64_t input = id - GT_PATH_INPUT;
        if (input > path->inputs || input >= r->most_inputs || (input == path->inputs && use == GT_ID_FREED))
            return bad("an input out of order");
        path->inputs += input == path->inputs;
        if (path->dies[input])
            return bad("an input that is gone");
        path->dies[input] = use & GT_ID_FREED;
        return GT_OK;
    }
    if (id > r->locals || r->gone[id - 1])
        return bad("a tensor that is not there");
    r->gone[id - 1] = use & GT_ID_FREED;
    return GT_OK;
}

static gt_err read_record(reading *r, const gt_slot *record)
{
    const gt_instruction *ins = &record->ins;
    if (ins->op != GT_OP_free && (ins->op >= GT_OP_FIRST_CONTROL || ins->op == GT_OP_upload))
        return bad("a record that cannot be part of one");
    gt_operands operands = gt__record_operands(ins, record + 1);
    for (unsigned k = 0; k < operands.count; k++)
        if (gt__operand_is_tensor(&operands, k) && !operands.id[k])
            return bad("an operand without a tensor");
    for (gt_record_ids ids = gt__record_ids(record); gt__record_ids_next(&ids);)
        if (ids.use != GT_ID_WRITTEN)
            GT_TRY(read_id(r, *ids.id, ids.use));
    if (ins->op == GT_OP_free)
        return GT_OK;
    if (r->locals == r->path->count || ins->result != r->locals + 1)
        return bad("a result out of order");
    r->locals++;
    return GT_OK;
}

static gt_err read_records(reading *r)
{
    gt_path *path = r->path;
    for (uint32_t at = 0; at < path->slots;) {
        unsigned length;
        GT_TRY(gt__instruction_check(path->records + at, path->slots - at, &length));
        uint32_t before = r->locals;
        GT_TRY(read_record(r, path->records + at));
        if (r->locals > before)
            path->maker[before] = at;
        at += length;
    }
    if (!r->locals || r->locals != path->count)
        return bad("fewer results than it says");
    const gt_instruction *first = gt__path_maker(path, 0);
    path->one_signal = true;
    for (uint32_t k = 0; k < path->count; k++) {
        const gt_instruction *ins = gt__path_maker(path, k);
        path->one_signal &= ins->scope == first->scope && !((ins->flags ^ first->flags) & GT_FLAG_BACKWARD);
        if (!r->gone[k])
            path->output[path->outputs++] = k;
    }
    return GT_OK;
}

/* A parameter must be a word of a record that may be one. */
static gt_err read_parameters(gt_path *path, const uint64_t *word)
{
    uint32_t at = 0;
    for (uint32_t k = 0; k < path->parameters; k++) {
        gt_path_word p = {.slot = (uint32_t)(word[k] >> 8), .word = (uint32_t)(word[k] & 0xff)};
        while (at < path->slots && at < p.slot)
            at += 1u + path->records[at].ins.tail;
        if (at >= path->slots || at != p.slot || word[k] >> 40 || p.word >= GT_PARAMETER_WORDS ||
            p.word / 8 > path->records[at].ins.tail ||
            !(gt__path_parameter_words(&path->records[at].ins) >> p.word & 1))
            return bad("a parameter that cannot be one");
        path->parameter[k] = p;
    }
    return GT_OK;
}

static gt_err read_definition(gt_path *path, const gt_slot *definition)
{
    const uint64_t *word = definition[1 + path->slots].u64;
    reading r = {.path = path, .most_inputs = GT_PATH_WORDS};
    memcpy(path->records, definition + 1, path->slots * sizeof *path->records);
    for (uint32_t k = 0; k < path->count; k++) {
        if (word[k] > UINT32_MAX || (k ? word[k] <= path->offset[k - 1] : word[k] != 0))
            return bad("ids out of order");
        path->offset[k] = (uint32_t)word[k];
    }
    r.gone = calloc(path->count, sizeof *r.gone);
    gt_err err = r.gone ? read_records(&r) : gt__fail(GT_ERR_MEMORY, "out of memory");
    free(r.gone);
    GT_TRY(err);
    GT_TRY(read_parameters(path, word + path->count));
    return gt__path_run_words(path) + path->outputs <= GT_PATH_WORDS ? GT_OK : bad("too many tensors");
}

gt_err gt__path_new(const gt_slot *definition, size_t slots, gt_path **out)
{
    *out = NULL;
    uint64_t records = slots ? definition->u64[0] : 0, count = slots ? definition->u64[1] : 0,
             parameters = slots ? definition->u64[2] : 0;
    if (!records || !count || records > GT_PATH_SLOTS || count > records || parameters > GT_PATH_WORDS ||
        slots != gt__path_definition_slots((uint32_t)records, (uint32_t)count, (uint32_t)parameters))
        return bad("a definition of the wrong length");
    static _Atomic uint64_t serials;
    gt_path *path = calloc(1, sizeof *path);
    if (!path)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    path->serial = ++serials;
    path->slots = (uint32_t)records;
    path->count = (uint32_t)count;
    path->parameters = (uint32_t)parameters;
    path->marked = definition->u64[3] & 1;
    path->records = malloc(records * sizeof *path->records);
    path->offset = malloc(count * sizeof *path->offset);
    path->output = malloc(count * sizeof *path->output);
    path->maker = malloc(count * sizeof *path->maker);
    path->dies = calloc(GT_PATH_WORDS, sizeof *path->dies);
    path->parameter = malloc((parameters + 1) * sizeof *path->parameter);
    bool all = path->records && path->offset && path->output && path->maker && path->dies && path->parameter;
    gt_err err = all ? read_definition(path, definition) : gt__fail(GT_ERR_MEMORY, "out of memory");
    if (err != GT_OK)
        gt__path_free(&path);
    *out = path;
    return err;
}

gt_err gt__path_piece(gt_path_pieces *pieces, const gt_slot *record, gt_path **path)
{
    const gt_instruction *ins = &record->ins;
    *path = NULL;
    if (!ins->imm[0].u) /* the sender may have given up a definition for lack of room */
        gt__path_pieces_free(pieces);
    if (ins->imm[0].u != pieces->have || ins->imm[1].u > 2 * GT_PATH_SLOTS || !ins->imm[1].u ||
        (pieces->have && ins->imm[1].u != pieces->whole) || pieces->have + ins->tail > ins->imm[1].u)
        return bad("pieces that do not fit");
    if (!pieces->have) {
        pieces->slots = malloc(ins->imm[1].u * sizeof *pieces->slots);
        if (!pieces->slots)
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        pieces->whole = ins->imm[1].u;
    }
    memcpy(pieces->slots + pieces->have, record + 1, ins->tail * sizeof *record);
    pieces->have += ins->tail;
    if (pieces->have < pieces->whole)
        return GT_OK;
    gt_err err = gt__path_new(pieces->slots, pieces->whole, path);
    gt__path_pieces_free(pieces);
    return err;
}

void gt__path_pieces_free(gt_path_pieces *pieces)
{
    free(pieces->slots);
    *pieces = (gt_path_pieces){0};
}

/* ---- runs --------------------------------------------------------------------------------------------------- */

gt_err gt__path_check_run(const gt_path *path, const gt_slot *run)
{
    uint64_t words = run->ins.imm[0].u;
    if (words < gt__path_run_words(path) || words > GT_PATH_WORDS ||
        run->ins.tail != gt__slots_for(words * sizeof(uint64_t)))
        return gt__fail(GT_ERR_PROTOCOL, "repeat: %llu words where the path has %u", (unsigned long long)words,
                        gt__path_run_words(path));
    if (!run->ins.operand[0] || run->ins.operand[0] > UINT64_MAX / 2)
        return gt__fail(GT_ERR_PROTOCOL, "repeat: a bad id");
    return GT_OK;
}

static uint64_t id_in_run(const gt_path *path, const gt_slot *run, uint64_t id)
{
    return id >= GT_PATH_INPUT ? gt__path_word(run, (uint32_t)(id - GT_PATH_INPUT))
                               : run->ins.operand[0] + path->offset[id - 1];
}

gt_err gt__path_expand(const gt_path *path, const gt_slot *run, gt_err (*emit)(void *context, gt_slot *record),
                       void *context)
{
    gt_slot record[1 + GT_MAX_TAIL];
    const gt_path_word *parameter = path->parameter, *end = parameter + path->parameters;
    for (uint32_t at = 0, word = path->inputs; at < path->slots; at += 1u + record->ins.tail) {
        const gt_slot *from = path->records + at;
        memcpy(record, from, sizeof *record); /* of fixed length: most have no tail */
        if (from->ins.tail)
            memcpy(record + 1, from + 1, from->ins.tail * sizeof *record);
        for (gt_record_ids ids = gt__record_ids(record); gt__record_ids_next(&ids);)
            *ids.id = id_in_run(path, run, *ids.id);
        for (; parameter < end && parameter->slot == at; parameter++)
            *gt__record_word(record, parameter->word) = gt__path_word(run, word++);
        GT_TRY(emit(context, record));
    }
    unsigned count = 0;
    for (uint32_t k = gt__path_run_words(path); k < run->ins.imm[0].u; k++)
        if (gt__free_append(&record->ins, &count, gt__path_word(run, k)) || k + 1 == run->ins.imm[0].u) {
            GT_TRY(emit(context, record));
            count = 0;
        }
    return GT_OK;
}

/* The records of a run on their way to `emit`. */
typedef struct packing {
    gt_err (*emit)(void *context, gt_slot *record);
    void *context;
    gt_slot frees;
    unsigned freed;
} packing;

static gt_err emit_frees(packing *to)
{
    unsigned freed = to->freed;
    to->freed = 0;
    return freed ? to->emit(to->context, &to->frees) : GT_OK;
}

static gt_err emit_packed(void *context, gt_slot *record)
{
    packing *to = context;
    if (record->ins.op != GT_OP_free)
        return to->emit(to->context, record);
    const uint64_t *ids = gt__free_ids(&record->ins);
    for (unsigned k = 0; k < GT_FREE_IDS; k++)
        if (ids[k] && gt__free_append(&to->frees.ins, &to->freed, ids[k]))
            GT_TRY(emit_frees(to));
    return GT_OK;
}

gt_err gt__path_expand_packed(const gt_path *path, const gt_slot *run,
                              gt_err (*emit)(void *context, gt_slot *record), void *context)
{
    packing to = {.emit = emit, .context = context};
    GT_TRY(gt__path_expand(path, run, emit_packed, &to));
    return emit_frees(&to);
}

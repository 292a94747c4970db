/*
 * cli/replay/nonfinite.c: `gt replay --find-nan`: where the first NaN came from. Each result that is not finite is remembered with
 * the operand that it got this from. So a NaN is told together with the instruction where its operand left the finite range, and
 * with what carried it from one step of a loop to the next: often a weight.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/array.h"
#include "cli/replay/replay.h"
#include "core/record.h"

enum { MOST_RESULTS = 1 << 18, SLOTS_KEPT = 3 }; /* SLOTS_KEPT: of a record, to show it */

/* A result that is not finite. */
typedef struct bad_result {
    int32_t parent; /* the operand that was not finite before; -1: it began here */
    gt_tape_entry entry;
    gt_slot record[SLOTS_KEPT];
    gt_meta meta;
    int64_t at;
    double value;
    gt_moment moment;
    uint32_t birth; /* the line, as a number of the client, that first made the tensor; 0: unknown */
    uint32_t name;  /* what the program calls the tensor (gt__machine_name); 0: unknown */
} bad_result;

/* Of a tensor in a slot of the machine. */
typedef struct tensor_state {
    uint8_t flags;  /* GT_HAS_NAN, GT_HAS_INFINITY */
    int32_t bad;    /* of the results; -1: none */
    uint32_t birth; /* as above */
} tensor_state;

struct gt_nonfinite {
    tensor_state *states; /* by slot */
    uint64_t state_count;
    bad_result *results;
    size_t count, capacity;
    int32_t first_infinity; /* that is no constant of the program; -1: none */
    int32_t
        first_carried; /* a result that has an infinity from a constant; -1: none. A mask of -inf does not count */
    bool masks;        /* results have -inf from constants */
};

gt_nonfinite *gt__nonfinite_new(void)
{
    gt_nonfinite *n = gt__zeroed(1, sizeof *n);
    n->first_infinity = n->first_carried = -1;
    return n;
}

void gt__nonfinite_free(gt_nonfinite **where)
{
    if (!*where)
        return;
    free((*where)->states);
    free((*where)->results);
    free(*where);
    *where = NULL;
}

static tensor_state *state_of(gt_nonfinite *n, uint64_t slot)
{
    if (slot >= n->state_count) {
        uint64_t count = 2 * slot + 64;
        tensor_state *states = realloc(n->states, count * sizeof *states);
        if (!states)
            gt__out_of_memory();
        for (uint64_t k = n->state_count; k < count; k++)
            states[k] = (tensor_state){.bad = -1};
        n->states = states;
        n->state_count = count;
    }
    return &n->states[slot];
}

/* What the operands of the record just executed have; the machine's copy of the record has slots. *parent: the bad result of the
 * first that has something. */
static unsigned operand_flags(gt_nonfinite *n, const gt_machine *machine, int32_t *parent)
{
    const gt_instruction *ins = &machine->record->ins;
    gt_operands operands = gt__record_operands(ins, (gt_slot *)machine->record + 1);
    unsigned flags = 0;
    *parent = -1;
    for (unsigned k = 0; k < operands.count; k++)
        if (gt__operand_is_tensor(&operands, k)) {
            const tensor_state *state = state_of(n, operands.id[k]);
            flags |= state->flags;
            if (state->flags && state->bad >= 0 &&
                !n->results[state->bad].name) /* it may be named after it was made */
                n->results[state->bad].name = gt__machine_name(machine, operands.id[k]);
            if (state->flags && *parent < 0)
                *parent = state->bad;
        } else if (gt__literal(ins, k) == GT_LITERAL_FLOAT)
            flags |= isnan(ins->literal[k].f) ? GT_HAS_NAN : isinf(ins->literal[k].f) ? GT_HAS_INFINITY : 0;
    return flags;
}

/* The line that first made the tensor: an elementwise result continues its first operand, as an optimiser's update does. */
static uint32_t birth_of(gt_nonfinite *n, const gt_machine *machine, uint32_t site)
{
    const gt_instruction *ins = &machine->record->ins;
    bool elementwise = ins->op < GT_OP_FIRST_CONTROL && gt__op_table[ins->op].form <= GT_FORM_BINARY;
    if (!elementwise || gt__literal(ins, 0) != GT_LITERAL_NONE)
        return site;
    uint32_t before = state_of(n, ins->operand[0])->birth;
    return before ? before : site;
}

/* If there are too many, a result counts as its operand. */
static int32_t remember(gt_nonfinite *n, const bad_result *result)
{
    if (n->count == MOST_RESULTS)
        return result->parent;
    *GT_PUSH(n->results, n->count, n->capacity) = *result;
    return (int32_t)n->count - 1;
}

/* ---- telling ------------------------------------------------------------------------------------------------ */

/* `value`: with it, as "inf"; a NaN has no sign that means something. */
static void tell_value(const char *what, const bad_result *bad, bool value)
{
    char position[128], text[32] = "";
    if (value)
        snprintf(text, sizeof text, "%g ", isnan(bad->value) ? (double)NAN : bad->value);
    printf("%s %sat %s of %s\n", what, text, gt__look_position(&bad->meta, bad->at, position, sizeof position),
           gt__op_table[bad->record->ins.op].name);
}

static void tell_instruction(const gt_machine *machine, const bad_result *bad)
{
    gt__replay_print(machine, &bad->entry, bad->record, bad->moment);
}

/* What the NaN was made of, last, among the tensors that the program has a name for; NULL: none is. */
static const bad_result *find_named(const gt_nonfinite *n, const bad_result *nan)
{
    for (int32_t k = nan->parent; k >= 0; k = n->results[k].parent)
        if (n->results[k].name && n->results[k].entry.session == nan->entry.session)
            return &n->results[k];
    return NULL;
}

/* What was written in an earlier step than the NaN, last; NULL: nothing was. */
static const bad_result *find_carrier(const gt_nonfinite *n, const bad_result *nan)
{
    for (int32_t k = nan->parent; k >= 0; k = n->results[k].parent)
        if (n->results[k].moment.step && n->results[k].moment.step < nan->moment.step &&
            n->results[k].entry.session == nan->entry.session)
            return &n->results[k];
    return NULL;
}

/* "step 37 wrote ", "sub wrote " */
static void tell_writer(const bad_result *bad, bool step)
{
    if (step)
        printf("step %u wrote ", bad->moment.step);
    else
        printf("%s wrote ", gt__op_table[bad->record->ins.op].name);
}

static void tell_carrier(const gt_machine *machine, const bad_result *carrier)
{
    char shape[128];
    const char *birth = gt__machine_site(machine, carrier->entry.session, carrier->birth);
    const char *name = gt__machine_name_text(machine, carrier->entry.session, carrier->name);
    tell_writer(carrier, carrier->moment.step != 0);
    printf("it into %s%s of shape %s", name ? name : "a tensor", name ? "," : "",
           gt__shape_text(carrier->meta.rank, carrier->meta.shape, shape, sizeof shape));
    if (birth && carrier->birth != carrier->record->ins.site)
        printf(", first made at %s", birth);
    printf("\n");
    tell_instruction(machine, carrier);
}

/* "step 37 wrote inf into layer2.weight at train.py:41; step 38's exp made NaN of it" */
static void tell_story(const gt_machine *machine, const bad_result *named, const bad_result *nan)
{
    const char *site = gt__machine_site(machine, named->entry.session, named->record->ins.site);
    bool steps = named->moment.step && nan->moment.step; /* one alone would seem to be the other's, too */
    tell_writer(named, steps);
    printf("%g into %s", named->value, gt__machine_name_text(machine, named->entry.session, named->name));
    if (site)
        printf(" at %s", site);
    if (steps)
        printf("; step %u's %s made NaN of it", nan->moment.step, gt__op_table[nan->record->ins.op].name);
    else
        printf("; %s made NaN of it", gt__op_table[nan->record->ins.op].name);
    bool shared = gt__machine_name_shared(machine, named->entry.session, named->name);
    printf(shared ? " (another tensor has the same name)\n" : "\n");
}

/* An infinity that is older than all operands of the NaN points at the cause: a loss that overflowed before its gradients did. */
static void tell_first_infinity(const gt_nonfinite *n, const gt_machine *machine, const bad_result *origin)
{
    const bad_result *first = n->first_infinity < 0 ? NULL : &n->results[n->first_infinity];
    if (!first || first >= origin)
        return;
    tell_value("before it, and not among its operands:", first, true);
    tell_instruction(machine, first);
}

static void tell_nan(const gt_nonfinite *n, const gt_machine *machine, const bad_result *nan)
{
    if (nan->parent < 0) {
        bool first = n->first_infinity < 0;
        tell_value(first ? "the first non-finite value is" : "the first NaN is", nan, first);
        tell_instruction(machine, nan);
        tell_first_infinity(n, machine, nan);
        return;
    }
    const bad_result *origin = nan, *named = find_named(n, nan), *carrier = named ? named : find_carrier(n, nan);
    while (origin->parent >= 0)
        origin = &n->results[origin->parent];
    if (named)
        tell_story(machine, named, nan);
    tell_value("the first NaN is", nan, false);
    tell_instruction(machine, nan);
    tell_value("its operand left the finite range before:", origin, true);
    tell_instruction(machine, origin);
    if (carrier && carrier != origin)
        tell_carrier(machine, carrier);
    tell_first_infinity(n, machine, origin);
}

/* ---- looking ------------------------------------------------------------------------------------------------ */

/* A result whose operand was infinite already. Masks of attention hold -inf and are harmless; a positive infinity, or one in a
 * tensor that has a name, is not: an infinite gradient makes one of them. */
static void note_carried(gt_nonfinite *n, int32_t bad, unsigned has)
{
    bool harmful = has & GT_HAS_POSITIVE_INFINITY || n->results[bad].name;
    n->masks |= !harmful;
    if (harmful && n->first_carried < 0)
        n->first_carried = bad;
}

gt_err gt__nonfinite_look(gt_nonfinite *n, const gt_replayed *r, bool *found)
{
    gt_machine *machine = r->machine;
    const gt_instruction *ins = &r->slots->ins;
    bad_result bad = {.meta = r->result->view.meta, .entry = *r->entry};
    memcpy(bad.record, r->slots, (r->entry->slots < SLOTS_KEPT ? r->entry->slots : SLOTS_KEPT) * sizeof *r->slots);
    void *data;
    GT_TRY(gt__machine_read(machine, r->result, &data));
    unsigned has = gt__look_nonfinite(&bad.meta, data, &bad.at), had = operand_flags(n, machine, &bad.parent);
    bad.value = has ? gt__element((gt_dtype)bad.meta.dtype, data, bad.at) : 0;
    free(data);
    bad.moment = gt__machine_moment(machine, r->entry, ins->site);
    bad.birth = birth_of(n, machine, ins->site);
    tensor_state *state = state_of(n, gt__record_subject(&machine->record->ins));
    *state = (tensor_state){.flags = (uint8_t)has, .bad = -1, .birth = bad.birth};
    if (!has)
        return GT_OK;
    bad.name = gt__machine_name(machine, gt__record_subject(&machine->record->ins));
    state->bad = remember(n, &bad);
    bool asked_for = ins->op == GT_OP_full, is_new = !asked_for && has & GT_HAS_INFINITY && !had;
    *found = !asked_for && has & ~had & GT_HAS_NAN;
    if (*found)
        tell_nan(n, machine, &bad);
    else if (is_new && n->first_infinity < 0)
        n->first_infinity = state->bad;
    else if (!asked_for && has & GT_HAS_INFINITY && !is_new && state->bad >= 0)
        note_carried(n, state->bad, has);
    return GT_OK;
}

bool gt__nonfinite_end(const gt_nonfinite *n, const gt_machine *machine)
{
    int32_t first = n->first_infinity >= 0 ? n->first_infinity : n->first_carried;
    if (first < 0)
        return false;
    const bad_result *bad = &n->results[first], *origin = bad;
    while (origin->parent >= 0)
        origin = &n->results[origin->parent];
    tell_value(origin == bad ? "the first non-finite value is" : "no NaN, but an infinity:", bad, true);
    tell_instruction(machine, bad);
    if (origin != bad) {
        tell_value("its operand was infinite before: the program wrote", origin, true);
        tell_instruction(machine, origin);
    }
    return true;
}

bool gt__nonfinite_masks(const gt_nonfinite *n)
{
    return n->masks;
}

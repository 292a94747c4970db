/*
 * cli/replay/replay.c: `gt replay`: executes a tape (core/tape.h) again, on any engine, and inspects the results.
 *
 * One pass over the tape: execute an entry, inspect its result as the options say. With --diff a second side runs in
 * parallel: the same tape on another engine, or another tape.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "dispatcher/observe/log_text.h"
#include "cli/options.h"
#include "cli/replay/replay.h"
#include "core/record.h"

enum { MOST_NAMES = 64 }; /* of --print and --save */

typedef struct wanted {
    const char *name;
    uint64_t session, id; /* session 0: the only client */
    bool save, done;
} wanted;

/* One pass over a tape. */
typedef struct side {
    gt_tape *tape;
    gt_machine *machine;
    const gt_tape_entry *entry;
    const gt_slot *slots;
    gt_entry *result; /* the tensor that the entry made; NULL: none */
} side;

typedef struct replay {
    const char *path, *engine, *directory, *other;
    uint64_t stop;
    bool stop_at_line, list, find_nan, differ;
    double tolerance;
    wanted names[MOST_NAMES];
    unsigned name_count;
    side first, second;
    gt_nonfinite *nonfinite; /* --find-nan */
    gt_steps *steps;         /* of the first side's tape */
    bool *same;              /* --diff, by slot of the first machine: both sides have the same bits */
    uint64_t same_count;
    uint64_t instructions, failures;
} replay;

/* ---- options ------------------------------------------------------------------------------------------------ */

/* Parse digits and set *end behind them; 0: no digits, or too many. */
static uint64_t parse_digits(const char *text, char **end)
{
    errno = 0;
    uint64_t number = *text >= '0' && *text <= '9' ? strtoull(text, end, 10) : (*end = (char *)text, 0);
    return errno ? 0 : number;
}

/* "5", "2_5" */
static const char *take_name(void *target, const char *text, bool save)
{
    replay *r = target;
    char *end;
    wanted name = {.name = text, .save = save, .id = parse_digits(text, &end)};
    if (name.id && *end == '_') {
        name.session = name.id;
        name.id = parse_digits(end + 1, &end);
    }
    if (!name.id || *end)
        return "a tensor";
    if (r->name_count == MOST_NAMES)
        return "possible: at most 64 tensors can be shown";
    r->names[r->name_count++] = name;
    return NULL;
}

static const char *take_print(void *target, const char *text)
{
    return take_name(target, text, false);
}

static const char *take_save(void *target, const char *text)
{
    return take_name(target, text, true);
}

static const char *take_stop(void *target, const char *text)
{
    replay *r = target;
    char *end;
    r->stop_at_line = text[0] == '#';
    r->stop = parse_digits(text + r->stop_at_line, &end);
    return r->stop && !*end ? NULL : "an instruction";
}

static int parse(int argc, char **argv, replay *r)
{
    char **operands;
    int count = 0;
    const gt_option options[] = {
        {.name = "engine",
         .kind = GT_OPTION_TEXT,
         .target = &r->engine,
         .value = "E",
         .help =
             "engine to run on: cuda (default where there is an NVIDIA GPU), cpu (default elsewhere), reference, "
             "or a plug-in's name"},
        {.name = "stop",
         .kind = GT_OPTION_OWN,
         .target = r,
         .take = take_stop,
         .value = "N",
         .help = "stop after instruction N of the tape; #N: after line N of the instruction log"},
        {.name = "list", .target = &r->list, .help = "print every instruction"},
        {.name = "print",
         .kind = GT_OPTION_OWN,
         .target = r,
         .take = take_print,
         .value = "NAME",
         .help = "print a tensor: 5 is tensor 5 of the only client, 2_5 tensor 5 of client 2, as in the log"},
        {.name = "save",
         .kind = GT_OPTION_OWN,
         .target = r,
         .take = take_save,
         .value = "NAME",
         .help = "write a tensor to NAME.npy in --dir; --print and --save may be repeated"},
        {.name = "dir",
         .kind = GT_OPTION_TEXT,
         .target = &r->directory,
         .value = "D",
         .help = "directory of --save (default: the current one)"},
        {.name = "find-nan",
         .target = &r->find_nan,
         .help =
             "find the first NaN and where its operand left the finite range; without a NaN, the first infinity"},
        {.name = "diff",
         .kind = GT_OPTION_TEXT,
         .target = &r->other,
         .value = "X",
         .help = "find the first result that differs on engine X, or on the tape X"},
        {.name = "tolerance",
         .kind = GT_OPTION_NUMBER,
         .target = &r->tolerance,
         .most = 1,
         .value = "T",
         .help = "the relative tolerance of --diff (default: by dtype, 1e-4 for float32)"},
        {0},
    };
    const gt_usage usage = {
        .command = "gt replay",
        .line = "TAPE [OPTIONS]",
        .about = "Executes a tape (GT_TAPE=file, gt server --tape file) again and reports the results.\n",
        .after = "Exit status: 0; 1 if --find-nan or --diff found something, or the tape is damaged; 2 for wrong "
                 "arguments.\n",
        .options = options,
        .operands = &operands,
        .operand_count = &count,
    };
    int status = gt__options_parse(&usage, argc, argv);
    if (status < 0 && count == 0)
        return gt__options_wrong(&usage, "a tape is required");
    if (status < 0 && count > 1)
        return gt__options_wrong(&usage, "unexpected '%s': only one tape at a time", operands[1]);
    if (status < 0)
        r->path = operands[0];
    return status;
}

/* ---- telling ------------------------------------------------------------------------------------------------ */

void gt__replay_print(const gt_machine *machine, const gt_tape_entry *entry, const gt_slot *slots,
                      gt_moment moment)
{
    char text[GT_LOG_LINE];
    const gt_instruction *ins = &slots->ins;
    *gt__log_received(NULL, text, slots) = 0;
    printf("instruction %llu", (unsigned long long)entry->number);
    if (entry->line)
        printf(" (line #%04llu of the log)", (unsigned long long)entry->line);
    printf(", client %llu: %s %s", (unsigned long long)entry->session, gt__log_command((gt_opcode)ins->op, false),
           text);
    const char *site = gt__machine_site(machine, entry->session, ins->site);
    const char *scope = gt__machine_scope(machine, entry->session, ins->scope);
    const char *mark = gt__machine_scope(machine, entry->session, moment.mark);
    if (site)
        printf(", issued at %s", site);
    if (scope)
        printf(" in %ssignal '%s'", ins->flags & GT_FLAG_BACKWARD ? "the gradients of " : "", scope);
    if (moment.step)
        printf(", step %u", moment.step);
    if (mark)
        printf(", after signal '%s'", mark);
    printf("\n");
}

static void print_instruction(const side *s)
{
    gt__replay_print(s->machine, s->entry, s->slots, gt__machine_moment(s->machine, s->entry, s->slots->ins.site));
}

static bool is_tensor(const side *s)
{
    return s->result && s->result->state == GT_ENTRY_TENSOR;
}

/* The tensor that the entry made or completed. */
static uint64_t made(const side *s)
{
    return gt__record_subject(&s->slots->ins);
}

static gt_err show(replay *r, wanted *name)
{
    const side *s = &r->first;
    void *data = NULL;
    char path[4096];
    GT_TRY(gt__machine_read(s->machine, s->result, &data));
    gt_err err = GT_OK;
    if (name->save) {
        snprintf(path, sizeof path, "%s/%s.npy", r->directory, name->name);
        err = gt__look_save(path, &s->result->view.meta, data);
        if (err == GT_OK)
            printf("%s: saved to %s\n", name->name, path);
    } else {
        printf("%s = ", name->name);
        gt__look_print(&s->result->view.meta, data);
    }
    free(data);
    name->done = true;
    return err;
}

/* ---- looking ------------------------------------------------------------------------------------------------ */

static bool same_kind(const side *a, const side *b)
{
    if (!is_tensor(a) || !is_tensor(b))
        return is_tensor(a) == is_tensor(b);
    const gt_meta *x = &a->result->view.meta, *y = &b->result->view.meta;
    return x->dtype == y->dtype && gt__meta_same_shape(x, y);
}

static void print_difference(const replay *r, int64_t at, const void *a, const void *b)
{
    const gt_meta *meta = &r->first.result->view.meta;
    char position[128];
    if (at >= 0)
        printf("the first difference is at %s: %.9g here, %.9g with %s\n",
               gt__look_position(meta, at, position, sizeof position), gt__element((gt_dtype)meta->dtype, a, at),
               gt__element((gt_dtype)meta->dtype, b, at), r->other);
    print_instruction(&r->first);
}

/* Whether each element is rounded once, from the same bits on both sides: then it is compared by itself. */
static bool is_exact(const replay *r)
{
    const gt_instruction *ins = &r->first.machine->record->ins;
    bool from_tape = ins->op == GT_OP_upload || ins->op == GT_OP_data || ins->op == GT_OP_full;
    bool plain = ins->op == GT_OP_add || ins->op == GT_OP_sub || ins->op == GT_OP_mul || ins->op == GT_OP_div ||
                 ins->op == GT_OP_where || ins->op == GT_OP_maximum || ins->op == GT_OP_minimum;
    if (from_tape || !plain)
        return from_tape;
    gt_operands operands = gt__record_operands(ins, r->first.machine->record + 1);
    for (unsigned k = 0; k < operands.count; k++)
        if (gt__operand_is_tensor(&operands, k) && (operands.id[k] >= r->same_count || !r->same[operands.id[k]]))
            return false;
    return true;
}

static gt_err note_same(replay *r, bool same)
{
    uint64_t slot = gt__record_subject(&r->first.machine->record->ins);
    if (slot >= r->same_count) {
        uint64_t count = 2 * slot + 64;
        bool *grown = realloc(r->same, count * sizeof *grown);
        if (!grown)
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        memset(grown + r->same_count, 0, (count - r->same_count) * sizeof *grown);
        r->same = grown;
        r->same_count = count;
    }
    r->same[slot] = same;
    return GT_OK;
}

static gt_err look_for_difference(replay *r, bool *found)
{
    const side *a = &r->first, *b = &r->second;
    void *x = NULL, *y = NULL;
    *found = a->slots->ins.op != b->slots->ins.op || !same_kind(a, b);
    if (*found) {
        printf("the first difference: %s here, %s with %s\n", gt__op_table[a->slots->ins.op].name,
               gt__op_table[b->slots->ins.op].name, r->other);
        print_instruction(a);
        print_instruction(b);
        return GT_OK;
    }
    if (!is_tensor(a))
        return GT_OK;
    gt_err err = gt__machine_read(a->machine, a->result, &x);
    if (err == GT_OK)
        err = gt__machine_read(b->machine, b->result, &y);
    const gt_meta *meta = &a->result->view.meta;
    int64_t at = err == GT_OK ? gt__look_difference(meta, x, y, r->tolerance, !is_exact(r)) : -1;
    *found = at >= 0;
    if (err == GT_OK)
        err = note_same(r, memcmp(x, y, gt__meta_bytes(meta)) == 0);
    if (*found)
        print_difference(r, at, x, y);
    free(x);
    free(y);
    return err;
}

/* ---- walking ------------------------------------------------------------------------------------------------ */

/* The next entry, executed. entry is NULL at the end. */
static gt_err advance(side *s)
{
    GT_TRY(gt__tape_next(s->tape, &s->entry, &s->slots));
    s->result = NULL;
    return s->entry ? gt__machine_step(s->machine, s->entry, s->slots, &s->result) : GT_OK;
}

/* Whether the entry makes or continues a tensor. */
static bool computes(const side *s)
{
    return s->entry->kind == GT_TAPE_RECORD &&
           (s->slots->ins.op < GT_OP_FIRST_CONTROL || s->slots->ins.op == GT_OP_data);
}

/* Advance to the next entry that both sides must have. */
static gt_err advance_to_computing(side *s)
{
    do
        GT_TRY(advance(s));
    while (s->entry && !computes(s));
    return GT_OK;
}

static gt_err advance_other(replay *r, bool *found)
{
    side *s = &r->second;
    GT_TRY(advance_to_computing(s));
    *found = !s->entry;
    if (*found) {
        printf("the first difference: %s ends before this\n", r->other);
        print_instruction(&r->first);
        return GT_OK;
    }
    return look_for_difference(r, found);
}

static void note_failure(replay *r)
{
    const side *s = &r->first;
    const gt_poison *poison = s->result->poison;
    r->failures++;
    if (poison->origin.number == s->machine->worker.timing.records) { /* the failure began here */
        printf("failed: %s\n", poison->text);
        print_instruction(s);
    }
}

/* After one entry of the first side: do what the options ask. *found ends the pass. */
static gt_err look(replay *r, bool *found)
{
    side *s = &r->first;
    r->instructions++;
    if (r->list)
        print_instruction(s);
    if (!computes(s))
        return GT_OK;
    if (s->result && s->result->state == GT_ENTRY_POISON)
        note_failure(r);
    for (unsigned k = 0; k < r->name_count; k++)
        if (is_tensor(s) && !r->names[k].done && r->names[k].id == made(s) &&
            (!r->names[k].session || r->names[k].session == s->entry->session))
            GT_TRY(show(r, &r->names[k]));
    if (r->find_nan && is_tensor(s))
        GT_TRY(gt__nonfinite_look(
            r->nonfinite,
            &(gt_replayed){.machine = s->machine, .entry = s->entry, .slots = s->slots, .result = s->result},
            found));
    if (r->differ && !*found)
        GT_TRY(advance_other(r, found));
    return GT_OK;
}

static bool is_last(const replay *r)
{
    const gt_tape_entry *entry = r->first.entry;
    return r->stop && entry->kind == GT_TAPE_RECORD && (r->stop_at_line ? entry->line : entry->number) >= r->stop;
}

/* The first side has ended: check that the other one has too. */
static gt_err look_for_more(replay *r, bool *found)
{
    GT_TRY(advance_to_computing(&r->second));
    *found = r->second.entry != NULL;
    if (*found) {
        printf("the first difference: %s goes on where this tape ends\n", r->other);
        print_instruction(&r->second);
    }
    return GT_OK;
}

static gt_err walk(replay *r, bool *found)
{
    for (*found = false; !*found;) {
        GT_TRY(advance(&r->first));
        if (!r->first.entry)
            return r->differ ? look_for_more(r, found) : GT_OK;
        if (r->first.entry->kind == GT_TAPE_RECORD)
            GT_TRY(look(r, found));
        if (is_last(r))
            return GT_OK;
    }
    return GT_OK;
}

/* ---- life --------------------------------------------------------------------------------------------------- */

static gt_err open_side(const char *path, const char *engine, side *s)
{
    GT_TRY(gt__tape_open(path, &s->tape));
    return gt__machine_new(engine, &s->machine);
}

static gt_err open_all(replay *r)
{
    const gt_engine_ops *ops;
    GT_TRY(open_side(r->path, r->engine, &r->first));
    GT_TRY(gt__steps_new(r->path, &r->steps));
    r->first.machine->steps = r->steps;
    r->nonfinite = gt__nonfinite_new();
    r->differ = r->other != NULL;
    if (!r->differ)
        return GT_OK;
    bool is_file = access(r->other, F_OK) == 0;
    if (!is_file && gt__engine_find(r->other, &ops) != GT_OK) {
        char why[768];
        snprintf(why, sizeof why, "%s", gt_error_text());
        return gt__fail(GT_ERR_VALUE, "--diff %s is not a file, and as an engine: %s", r->other, why);
    }
    return is_file ? open_side(r->other, r->engine, &r->second) : open_side(r->path, r->other, &r->second);
}

static void close_all(replay *r)
{
    gt__machine_free(&r->first.machine);
    gt__machine_free(&r->second.machine);
    gt__tape_close(&r->first.tape);
    gt__tape_close(&r->second.tape);
    gt__nonfinite_free(&r->nonfinite);
    gt__steps_free(&r->steps);
    free(r->same);
}

static int summary(const replay *r, bool found)
{
    int status = found;
    printf("replayed %llu instruction%s on %s", (unsigned long long)r->instructions,
           r->instructions == 1 ? "" : "s", r->first.machine->worker.engine->ops->name);
    if (r->failures)
        printf(", %llu results failed", (unsigned long long)r->failures);
    if (r->find_nan && !found)
        printf("%s", gt__nonfinite_masks(r->nonfinite)
                         ? ", no NaN; the only infinities are -inf that the program wrote, as masks have"
                         : ", every result is finite");
    if (r->differ && !found)
        printf(", no difference from %s", r->other);
    printf("\n");
    for (unsigned k = 0; k < r->name_count; k++)
        if (!r->names[k].done) {
            fprintf(stderr, "gt replay: there is no tensor %s\n", r->names[k].name);
            status = 1;
        }
    return status;
}

int gt__command_replay(int argc, char **argv)
{
    replay r = {.directory = "."};
    int status = parse(argc, argv, &r);
    if (status >= 0)
        return status;
    bool found = false;
    gt__log_text_init();
    gt_err err = open_all(&r);
    if (err == GT_OK) {
        err = walk(&r, &found);
        if (r.find_nan && !found)
            found = gt__nonfinite_end(r.nonfinite, r.first.machine);
        status = summary(&r, found);
    }
    if (err != GT_OK) {
        fflush(stdout);
        fprintf(stderr, "gt replay: %s\n", gt_error_text());
        status = 1;
    }
    close_all(&r);
    return status;
}

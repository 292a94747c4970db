/*
 * cli/simulate/search.c: `gt simulate --search`: tries configs for the signals of a tape, and proposes the fastest.
 *
 * A config gives each signal one of a few placements: none, split along an axis, copied to all workers, on one worker; and on a mesh
 * split along one of its axes. All placements of all signals are too many. So the search begins with plain configs (data parallel, a
 * stage on each worker, every mesh that has as many members as there are workers) and changes one signal at a time, as long as
 * that helps. Configs that a program could not run with are left out.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/json.h"
#include "cli/simulate/simulate.h"
#include "core/tape.h"

enum { MOST_SIGNALS = 32, MOST_ROUNDS = 3, SHOWN = 3, YAML = 16 << 10 };

/* Where the tensors of a signal are. */
typedef enum placement {
    UNPLACED,
    SPLIT_0,
    SPLIT_1,
    COPIED,
    ONE_WORKER, /* stages: signal k of n is on worker k * workers / n */
    PLAIN_PLACEMENTS,
    DATA_0 = PLAIN_PLACEMENTS, /* along the mesh's first axis, and its second */
    MODEL_0,
    MODEL_1,
    PLACEMENTS
} placement;

typedef struct candidate {
    unsigned data, model; /* of a mesh; data 0: there is none */
    uint8_t place[MOST_SIGNALS];
    double ns;      /* of a step, or of all; < 0: it cannot be run */
    double step_ns; /* 0: the program has no steps that are certain */
    double total_ns;
} candidate;

typedef struct search {
    const gt_search_options *options;
    char file[64]; /* for a config */
    char (*signals)[GT_MAX_NAME + 1];
    size_t signal_count, signal_capacity;
    candidate *tried;
    size_t count, capacity;
} search;

/* ---- configs as text ----------------------------------------------------------------------------------------- */

static void write_signal(const search *s, const candidate *c, unsigned k, FILE *out)
{
    static const char *const texts[PLACEMENTS] = {
        [SPLIT_0] = "axis: 0", [SPLIT_1] = "axis: 1",  [COPIED] = "replicated: true",
        [DATA_0] = "0: data",  [MODEL_0] = "0: model", [MODEL_1] = "1: model"};
    const char *name = s->signals[k];
    bool plain = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == strlen(name);
    if (plain)
        fputs(name, out);
    else
        gt__json_string(out, name); /* quoted as in YAML */
    if (c->place[k] == UNPLACED)
        fputs(": {}\n", out);
    else if (c->place[k] == ONE_WORKER)
        fprintf(out, ": {shard: {workers: [%zu]}}\n", k * s->options->feed.workers / s->signal_count);
    else
        fprintf(out, ": {shard: {%s}}\n", texts[c->place[k]]);
}

static void write_yaml(const search *s, const candidate *c, FILE *out)
{
    if (c->data)
        fprintf(out, "mesh: {data: %u, model: %u}\n", c->data, c->model);
    for (unsigned k = 0; k < s->signal_count; k++)
        write_signal(s, c, k, out);
}

/* ---- trying -------------------------------------------------------------------------------------------------- */

static const candidate *find_tried(const search *s, const candidate *c)
{
    for (size_t k = 0; k < s->count; k++)
        if (s->tried[k].data == c->data && s->tried[k].model == c->model &&
            memcmp(s->tried[k].place, c->place, sizeof c->place) == 0)
            return &s->tried[k];
    return NULL;
}

/* Simulate a config. A config that cannot be run is no error. */
static gt_err simulate(const search *s, candidate *c)
{
    gt_feed_options feed = s->options->feed;
    gt_streams *streams = NULL;
    gt_outcome *outcome = NULL;
    unsigned steps;
    FILE *file = fopen(s->file, "we");
    if (!file)
        return gt__fail(GT_ERR_VALUE, "%s: %s", s->file, strerror(errno));
    write_yaml(s, c, file);
    if (fclose(file))
        return gt__fail(GT_ERR_VALUE, "%s: %s", s->file, strerror(errno));
    feed.config = s->file;
    c->ns = -1;
    if (gt__streams_new(&feed, &streams) != GT_OK)
        return GT_OK;
    gt_err err = s->options->price(s->options->context, streams);
    if (err == GT_OK)
        err = gt__outcome_new(streams, s->options->costs, &s->options->run, &outcome);
    if (err == GT_OK) {
        c->total_ns = outcome->total_ns;
        c->step_ns = gt__step_ns(streams, outcome, &steps);
        c->ns = c->step_ns > 0 ? c->step_ns : c->total_ns;
    }
    gt__outcome_free(streams, &outcome);
    gt__streams_free(&streams);
    return err;
}

/* Its time, simulated unless it was before. */
static gt_err try(search *s, candidate *c)
{
    const candidate *before = find_tried(s, c);
    if (before) {
        *c = *before;
        return GT_OK;
    }
    GT_TRY(simulate(s, c));
    *GT_PUSH(s->tried, s->count, s->capacity) = *c;
    return GT_OK;
}

/* Change one signal after the other, as long as it helps. */
static gt_err improve(search *s, candidate *best)
{
    GT_TRY(try(s, best));
    bool better = true;
    for (unsigned round = 0; round < MOST_ROUNDS && better; round++) {
        better = false;
        for (unsigned k = 0; k < s->signal_count; k++)
            for (unsigned place = UNPLACED; place < PLACEMENTS; place++) {
                bool meshed = place >= PLAIN_PLACEMENTS;
                if (place != UNPLACED && meshed != (best->data > 0))
                    continue;
                candidate c = *best;
                c.place[k] = (uint8_t)place;
                GT_TRY(try(s, &c));
                if (c.ns >= 0 && (best->ns < 0 || c.ns < best->ns)) {
                    *best = c;
                    better = true;
                }
            }
    }
    return GT_OK;
}

/* ---- results ------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if ((x->ns < 0) != (y->ns < 0))
        return x->ns < 0 ? 1 : -1;
    return x->ns < y->ns ? -1 : x->ns > y->ns;
}

static size_t runnable(const search *s)
{
    size_t count = 0;
    while (count < s->count && s->tried[count].ns >= 0)
        count++;
    return count;
}

static void print_text(const search *s, const candidate *alone, FILE *out)
{
    size_t count = runnable(s);
    fprintf(out, "# %zu configs for %u workers were simulated; %zu more cannot be run.\n", count,
            s->options->feed.workers, s->count - count);
    for (size_t k = 0; k < count && k < SHOWN; k++) {
        const candidate *c = &s->tried[k];
        char yaml[YAML] = "";
        FILE *text = fmemopen(yaml, sizeof yaml, "w");
        if (!text)
            gt__out_of_memory();
        write_yaml(s, c, text);
        fclose(text);
        fprintf(out, "\n# %.4g ms%s, %.2f times as fast as on one worker%s\n", c->ns / 1e6,
                c->step_ns > 0 ? " a step" : "", alone->ns / c->ns, k ? ":" : "");
        for (char *line = yaml, *end; (end = strchr(line, '\n')); line = end + 1)
            fprintf(out, "%s%.*s\n", k ? "# " : "", (int)(end - line), line);
    }
}

static void print_json(const search *s, const candidate *alone, FILE *out)
{
    size_t count = runnable(s);
    fprintf(out, "{\"simulated\": %zu, \"one_worker_seconds\": %.9f,\n \"configs\": [", count, alone->ns / 1e9);
    for (size_t k = 0; k < count && k < SHOWN; k++) {
        char yaml[YAML] = "";
        FILE *text = fmemopen(yaml, sizeof yaml, "w");
        if (!text)
            gt__out_of_memory();
        write_yaml(s, &s->tried[k], text);
        fclose(text);
        fprintf(out, "%s\n  {\"seconds\": %.9f, \"step_seconds\": %.9f, \"yaml\": ", k ? "," : "",
                s->tried[k].total_ns / 1e9, s->tried[k].step_ns / 1e9);
        gt__json_string(out, yaml);
        fputc('}', out);
    }
    fprintf(out, "\n ]}\n");
}

/* ---- all of it ----------------------------------------------------------------------------------------------- */

static void note_signal(search *s, const gt_slot *record)
{
    char name[GT_MAX_NAME + 1] = "";
    memcpy(name, record + 1, GT_MAX_NAME);
    for (size_t k = 0; k < s->signal_count; k++)
        if (!strcmp(s->signals[k], name))
            return;
    memcpy(GT_PUSH(s->signals, s->signal_count, s->signal_capacity), name, sizeof name);
}

/* The signals that the tape's programs enter. */
static gt_err find_signals(search *s)
{
    gt_tape *tape;
    const gt_tape_entry *entry;
    const gt_slot *slots;
    GT_TRY(gt__tape_open(s->options->feed.tape, &tape));
    gt_err err;
    while ((err = gt__tape_next(tape, &entry, &slots)) == GT_OK && entry)
        if (entry->kind == GT_TAPE_NOTE && slots->ins.op == GT_OP_scope)
            note_signal(s, slots);
    gt__tape_close(&tape);
    GT_TRY(err);
    if (!s->signal_count)
        return gt__fail(GT_ERR_VALUE, "the program enters no signal, so there is nothing to place: "
                                      "gt.signal.context('name')");
    return s->signal_count <= MOST_SIGNALS
               ? GT_OK
               : gt__fail(GT_ERR_VALUE, "the program has %zu signals; --search is for at most %d", s->signal_count,
                          MOST_SIGNALS);
}

static gt_err try_all(search *s, candidate *alone)
{
    unsigned workers = s->options->feed.workers;
    *alone = (candidate){0};
    GT_TRY(try(s, alone));
    if (workers == 1)
        return GT_OK;
    static const uint8_t starts[] = {UNPLACED, SPLIT_0, ONE_WORKER};
    for (unsigned k = 0; k < sizeof starts; k++) {
        candidate start = {0};
        memset(start.place, starts[k], s->signal_count);
        GT_TRY(improve(s, &start));
    }
    for (unsigned data = 2; data < workers; data++)
        if (workers % data == 0) {
            candidate start = {.data = data, .model = workers / data};
            GT_TRY(improve(s, &start));
        }
    return GT_OK;
}

gt_err gt__search(const gt_search_options *options, bool json, FILE *out)
{
    search s = {.options = options, .file = "/tmp/gt_simulate_XXXXXX"};
    candidate alone;
    int file = mkstemp(s.file);
    if (file < 0)
        return gt__fail(GT_ERR_VALUE, "%s: %s", s.file, strerror(errno));
    gt_err err = find_signals(&s);
    if (err == GT_OK)
        err = try_all(&s, &alone);
    if (err == GT_OK) {
        qsort(s.tried, s.count, sizeof *s.tried, compare);
        (json ? print_json : print_text)(&s, &alone, out);
    }
    close(file);
    unlink(s.file);
    free(s.signals);
    free(s.tried);
    return err;
}

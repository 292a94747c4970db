/*
 * cli/simulate/costs.c: how long works take. A file of costs is text:
 *
 *     gt costs 1
 *     rate MatMul:bfloat16 4.3 4000 690000    # a kind of work, op or category: us a call, GB/s, GFLOP/s (0: no limit)
 *     rate * 4.3 4000 0                       # all others
 *     exact 130.2 matmul float32(500,64) float32(64,64) = float32(500,64)     # us
 *     exact 151.9 2 at once: matmul ...       # measured, while two cores did the same
 *     link 5 450                              # us, GB/s; 0 GB/s: workers read each other's memory
 *     client 1.5                              # us an instruction takes in the program
 *     dispatch 0.05                           # us a record of a worker takes in the dispatcher
 *     answer 3                                # us from a worker to the program
 *     crowded 0.92                            # of a core's speed is left where workers take turns on it
 *     order strict                            # or free: what waits for another worker is put aside
 *     moves device                            # or host: the worker itself copies and adds up
 *
 * An exact time comes first, one that was measured second. Otherwise a call takes its overhead, and then as long as memory or
 * arithmetic need, whichever is more.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "cli/category.h"
#include "cli/simulate/simulate.h"

typedef struct rate {
    bool set;
    double overhead_ns, bytes_per_ns, flops_per_ns;
} rate;

enum { TF32 = GT_DTYPE_COUNT, ANY = GT_DTYPE_COUNT + 1, TYPES };

typedef struct exact {
    char *key;
    double ns;
} exact;

struct gt_cost_table {
    rate of_op[GT_OP_COUNT][TYPES], of_category[GT_CATEGORY_COUNT][TYPES], other;
    exact *exact; /* hash table */
    size_t count, size;
};

/* ---- devices ------------------------------------------------------------------------------------------------- */

/* Parties and links of an embedded server: what a training step of a small network takes for each instruction in Python (0.4 us), the
 * dispatcher's time for one of 8 workers and `item()` (docs/numbers.md); until a worker notices a message of another thread. Four workers of
 * one thread on two cores do 0.92 of the work of two. */
static const char this_machine[] = "gt costs 1\n"
                                   "link 5 0\n"
                                   "client 0.4\n"
                                   "dispatch 0.05\n"
                                   "answer 4\n"
                                   "crowded 0.92\n"
                                   "order free\n"
                                   "moves host\n";

/*
 * One H200, as measured in docs/numbers.md ("On a GPU"): products, memory (a + b, sums, softmax), attention (B8 H12 T1024 D64).
 * A call takes 4.3 us without a hot path (the launch), a small one less, by the resident kernel; in one, which is a CUDA graph, 1.5 us: a node
 * takes 0.7 to 0.85, and those of the small MLP 2.9 (12 nodes, 35 us). Its link was not measured: 450 GB/s
 * each way is what the data sheet says of NVLink, 10 us what a small NCCL call takes elsewhere; --link says otherwise.
 */
static const char h200[] = "gt costs 1\n"
                           "rate * 4.3 3900 0\n"
                           "rate View 0.1 0 0\n"
                           "rate FreeTensor 0.05 0 0\n"
                           "rate Sync 1 0 0\n"
                           "rate HotPath 1.5 3900 0\n"
                           "rate cast 4.3 3900 0\n"
                           "rate copy 4.3 3900 0\n"
                           "rate Sum 4.3 3250 0\n"
                           "rate softmax 4.3 3600 0\n"
                           "rate MatMul 4.3 3900 47000\n"
                           "rate MatMul:tf32 4.3 3900 345000\n"
                           "rate MatMul:bfloat16 4.3 3900 690000\n"
                           "rate MatMul:float16 4.3 3900 690000\n"
                           "rate attention:bfloat16 4.3 3900 400000\n"
                           "rate upload 4.3 45 0\n"
                           "rate fetch 12 51 0\n"
                           "link 10 450\n"
                           "client 1.5\n"
                           "dispatch 0.05\n"
                           "answer 5\n"
                           "order strict\n"
                           "moves device\n";

static const struct {
    const char *name, *text;
} devices[] = {{"this", this_machine}, {"h200", h200}};

enum { DEVICES = sizeof devices / sizeof devices[0] };

/* ---- exact times --------------------------------------------------------------------------------------------- */

static exact *place_of(const struct gt_cost_table *t, const char *key)
{
    uint64_t hash = 14695981039346656037u;
    for (const char *at = key; *at; at++)
        hash = (hash ^ (uint8_t)*at) * 1099511628211u;
    size_t at = hash % t->size;
    while (t->exact[at].key && strcmp(t->exact[at].key, key) != 0)
        at = (at + 1) % t->size;
    return &t->exact[at];
}

void gt__costs_set_exact(gt_costs *costs, const char *key, double ns)
{
    struct gt_cost_table *t = costs->table;
    if (2 * (t->count + 1) >= t->size) {
        exact *before = t->exact;
        size_t size = t->size;
        t->size = size ? 4 * size : 1024;
        t->exact = gt__zeroed(t->size, sizeof *t->exact);
        for (size_t k = 0; k < size; k++)
            if (before[k].key)
                *place_of(t, before[k].key) = before[k];
        free(before);
    }
    exact *place = place_of(t, key);
    if (!place->key) {
        place->key = strdup(key);
        if (!place->key)
            gt__out_of_memory();
        t->count++;
    }
    place->ns = ns;
}

static double exact_of(const gt_costs *costs, const char *key)
{
    const exact *place = costs->table->size ? place_of(costs->table, key) : NULL;
    return place && place->key ? place->ns : -1;
}

static double measured_of(const gt_costs *costs, const gt_sim_work *work, unsigned at_once)
{
    char key[GT_SIM_KEY + 32];
    gt__costs_measured_key(work, at_once, key, sizeof key);
    return exact_of(costs, key);
}

void gt__costs_measured_key(const gt_sim_work *work, unsigned at_once, char *key, size_t size)
{
    snprintf(key, size, "%u at once: %s", at_once, work->key);
}

double gt__costs_exact(const gt_costs *costs, const gt_sim_work *work)
{
    double ns = exact_of(costs, work->key);
    if (ns < 0)
        ns = measured_of(costs, work, costs->at_once);
    for (unsigned other = costs->at_once; ns < 0 && !costs->measures && other > 1;)
        ns = measured_of(costs, work, --other);
    for (unsigned other = costs->at_once; ns < 0 && !costs->measures && other < GT_MAX_PARTIES;)
        ns = measured_of(costs, work, ++other);
    return ns;
}

/* ---- reading ------------------------------------------------------------------------------------------------- */

/* So many numbers, not negative, at the front of the text; *rest is behind them. */
static bool read_numbers(const char *text, unsigned count, double *numbers, const char **rest)
{
    for (unsigned k = 0; k < count; k++) {
        char *end;
        numbers[k] = strtod(text, &end);
        if (end == text || !isfinite(numbers[k]) || numbers[k] < 0)
            return false;
        text = end;
    }
    *rest = text + strspn(text, " \t");
    return true;
}

/* "MatMul:bfloat16", "softmax", "*": the row of a kind of work; NULL: there is no such kind. */
static rate *find_row(struct gt_cost_table *t, const char *name)
{
    char kind[64];
    unsigned type = ANY;
    gt_opcode op;
    const char *colon = strchr(name, ':');
    snprintf(kind, sizeof kind, "%.*s", (int)(colon ? colon - name : (ptrdiff_t)strlen(name)), name);
    if (colon && !strcmp(colon + 1, "tf32"))
        type = TF32;
    else if (colon)
        for (type = 0; type < GT_DTYPE_COUNT && strcmp(gt__dtype_name((gt_dtype)type), colon + 1) != 0;)
            type++;
    if (colon && type == GT_DTYPE_COUNT && strcmp(colon + 1, "tf32") != 0)
        return NULL;
    if (!strcmp(kind, "*"))
        return &t->other;
    for (unsigned k = 0; k < GT_CATEGORY_COUNT; k++)
        if (!strcmp(kind, gt__category_table[k].name))
            return &t->of_category[k][type];
    return gt__op_find(kind, &op) ? &t->of_op[op][type] : NULL;
}

/* NULL: the line was taken; else what is wrong. */
static const char *take_rate(gt_costs *costs, const char *text)
{
    char name[64];
    double number[3];
    int length = 0;
    const char *rest;
    if (sscanf(text, "%63s%n", name, &length) != 1)
        return "rate needs a kind of work";
    rate *row = find_row(costs->table, name);
    if (!row)
        return "there is no such op, category or dtype";
    if (!read_numbers(text + length, 3, number, &rest) || *rest)
        return "rate needs three numbers: us, GB/s, GFLOP/s";
    *row =
        (rate){.set = true, .overhead_ns = 1e3 * number[0], .bytes_per_ns = number[1], .flops_per_ns = number[2]};
    return NULL;
}

static const char *take_word(const char *text, const char *yes, const char *no, bool *target)
{
    *target = !strcmp(text, yes);
    return *target || !strcmp(text, no) ? NULL : "unknown word";
}

static const char *take_line(gt_costs *costs, char *line)
{
    char word[16];
    int length = 0;
    double number[2];
    const char *rest;
    if (sscanf(line, "%15s%n", word, &length) != 1)
        return NULL; /* empty */
    const char *text = line + length + strspn(line + length, " \t");
    if (!strcmp(word, "rate"))
        return take_rate(costs, text);
    if (!strcmp(word, "order"))
        return take_word(text, "strict", "free", &costs->in_order);
    if (!strcmp(word, "moves"))
        return take_word(text, "device", "host", &costs->on_device);
    bool link = !strcmp(word, "link"), measured = !strcmp(word, "exact");
    double *target = !strcmp(word, "client")     ? &costs->client_ns
                     : !strcmp(word, "dispatch") ? &costs->dispatch_ns
                     : !strcmp(word, "answer")   ? &costs->answer_ns
                                                 : NULL;
    bool share = !strcmp(word, "crowded");
    if (share)
        target = &costs->crowded;
    if (!link && !measured && !target)
        return "unknown word";
    if (!read_numbers(text, link ? 2 : 1, number, &rest) || (measured ? !*rest : *rest != 0))
        return measured ? "exact needs microseconds and a work" : "a number is missing, or there are too many";
    if (link)
        costs->link = (gt_sim_link){.latency_ns = 1e3 * number[0], .bytes_per_ns = number[1]};
    else if (measured)
        gt__costs_set_exact(costs, rest, 1e3 * number[0]);
    else
        *target = share ? number[0] : 1e3 * number[0];
    return NULL;
}

/* `name`: of the file, for errors. */
static gt_err read_lines(gt_costs *costs, FILE *file, const char *name)
{
    char line[2 * GT_SIM_KEY];
    for (unsigned number = 1; fgets(line, sizeof line, file); number++) {
        line[strcspn(line, "#\r\n")] = 0;
        for (size_t end = strlen(line); end && (line[end - 1] == ' ' || line[end - 1] == '\t');)
            line[--end] = 0;
        const char *wrong = NULL;
        if (number == 1)
            wrong = strcmp(line, "gt costs 1") ? "a file of costs begins with `gt costs 1`" : NULL;
        else
            wrong = take_line(costs, line);
        if (wrong)
            return gt__fail(GT_ERR_VALUE, "%s:%u: %s", name, number, wrong);
    }
    return ferror(file) ? gt__fail(GT_ERR_VALUE, "%s: %s", name, strerror(errno)) : GT_OK;
}

gt_err gt__costs_read(gt_costs *costs, const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return gt__fail(GT_ERR_VALUE, "%s: %s", path, strerror(errno));
    flock(fileno(file), LOCK_SH); /* another simulation may be writing; where that cannot be known, go on */
    gt_err err = read_lines(costs, file, path);
    fclose(file);
    return err;
}

gt_err gt__costs_new(const char *device, gt_costs *costs)
{
    char known[128] = "";
    *costs = (gt_costs){.table = gt__zeroed(1, sizeof *costs->table)};
    for (unsigned k = 0; k < DEVICES; k++) {
        if (!strcmp(device, devices[k].name)) {
            FILE *file = fmemopen((void *)devices[k].text, strlen(devices[k].text), "r");
            gt_err err = file ? read_lines(costs, file, device) : gt__fail(GT_ERR_MEMORY, "out of memory");
            if (file)
                fclose(file);
            return err;
        }
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", k ? ", " : "", devices[k].name);
    }
    return gt__fail(GT_ERR_VALUE, "no costs are known of a device '%s', only of: %s; --costs FILE has others",
                    device, known);
}

void gt__costs_free(gt_costs *costs)
{
    struct gt_cost_table *t = costs->table;
    for (size_t k = 0; t && k < t->size; k++)
        free(t->exact[k].key);
    if (t)
        free(t->exact);
    free(t);
    *costs = (gt_costs){0};
}

/* ---- the time of works --------------------------------------------------------------------------------------- */

static const rate *rate_of(const struct gt_cost_table *t, const gt_sim_work *work)
{
    gt_category category = gt__category_of_op((gt_opcode)work->op);
    unsigned type = work->fast && work->dtype == GT_FLOAT32 ? TF32 : work->dtype;
    const rate *rows[] = {&t->of_op[work->op][type], &t->of_op[work->op][ANY], &t->of_category[category][type],
                          &t->of_category[category][ANY], &t->other};
    for (unsigned k = 0; k < sizeof rows / sizeof rows[0]; k++)
        if (rows[k]->set)
            return rows[k];
    return NULL;
}

static bool is_free_of_charge(const gt_sim_work *work)
{
    return !work->record && !work->path && !work->part_count;
}

static gt_err set_time(const gt_costs *costs, gt_streams *streams, gt_sim_work *work);

/*
 * A run of a hot path: its products and the like one by one, and what is elementwise around them as a kernel before, between and behind
 * them. Such a kernel reads and writes what they do; those at the ends, the operands and results of the path.
 */
static gt_err set_path_time(const gt_costs *costs, gt_streams *streams, gt_sim_work *work, const rate *row)
{
    double bytes = work->bytes;
    work->ns = row->overhead_ns;
    for (size_t k = 0; k < work->part_count; k++) {
        gt_sim_work *part = &streams->works[work->parts[k].work];
        if (part->ns < 0)
            GT_TRY(set_time(costs, streams, part));
        const rate *alone = rate_of(costs->table, part);
        bool launched = gt__costs_exact(costs, part) < 0 && alone; /* by itself: here it is one of many */
        work->ns += fmax(0, part->ns - (launched ? alone->overhead_ns : 0)) + 2 * row->overhead_ns;
        bytes += part->bytes;
    }
    work->ns += row->bytes_per_ns > 0 ? bytes / row->bytes_per_ns : 0;
    return GT_OK;
}

static gt_err set_time(const gt_costs *costs, gt_streams *streams, gt_sim_work *work)
{
    work->ns = gt__costs_exact(costs, work);
    if (work->ns >= 0)
        return GT_OK;
    bool between = work->op >= GT_OP_recv && work->op <= GT_OP_all_to_all;
    if (between && costs->on_device) {
        work->ns = 0; /* the time of the link is all of it */
        return GT_OK;
    }
    const rate *row = rate_of(costs->table, work);
    if (work->path && row)
        return set_path_time(costs, streams, work, row);
    if (work->part_count && (between || !row)) {
        work->ns = 0;
        for (unsigned k = 0; k < work->part_count; k++) {
            gt_sim_work *part = &streams->works[work->parts[k].work];
            if (part->ns < 0)
                GT_TRY(set_time(costs, streams, part));
            work->ns += work->parts[k].times * part->ns;
        }
        return GT_OK;
    }
    if (!row && !is_free_of_charge(work))
        return gt__fail(GT_ERR_VALUE, "there is no cost of: %s", work->key);
    if (!row) {
        work->ns = 0;
        return GT_OK;
    }
    double memory = row->bytes_per_ns > 0 ? work->bytes / row->bytes_per_ns : 0;
    double arithmetic = row->flops_per_ns > 0 ? work->flops / row->flops_per_ns : 0;
    work->ns = row->overhead_ns + fmax(memory, arithmetic);
    return GT_OK;
}

gt_err gt__costs_apply(const gt_costs *costs, gt_streams *streams)
{
    for (size_t k = 0; k < streams->work_count; k++)
        streams->works[k].ns = -1;
    for (size_t k = 0; k < streams->work_count; k++)
        if (streams->works[k].ns < 0)
            GT_TRY(set_time(costs, streams, &streams->works[k]));
    return GT_OK;
}

/* ---- links --------------------------------------------------------------------------------------------------- */

enum {
    DEFAULT_LATENCY_US = 10,  /* of a network, in place of the memory of a host */
    MEMORY_LATENCY_NS = 5000, /* until a worker notices a message of another thread */
};

gt_err gt__link_parse(const char *text, gt_sim_link *link)
{
    static const struct {
        const char *unit;
        double bytes_per_ns;
    } units[] = {{"Tb", 125},    {"Gb", 0.125}, {"Mb", 0.125e-3}, {"Kb", 0.125e-6},
                 {"TB", 1000.0}, {"GB", 1.0},   {"MB", 1e-3},     {"KB", 1e-6}};
    char unit[8] = "", *end;
    if (!strcmp(text, "memory")) {
        *link = (gt_sim_link){.latency_ns = MEMORY_LATENCY_NS};
        return GT_OK;
    }
    double number = strtod(text, &end),
           latency_us = link->bytes_per_ns > 0 ? link->latency_ns / 1e3 : DEFAULT_LATENCY_US;
    int length = 0;
    sscanf(end, "%2[A-Za-z]%n", unit, &length);
    const char *rest = end + length;
    bool later = *rest == ',' && rest[1] >= '0' && rest[1] <= '9';
    if (later) {
        latency_us = strtod(rest + 1, &end);
        rest = !strcmp(end, "us") ? "" : end;
    }
    for (unsigned k = 0; k < sizeof units / sizeof units[0]; k++)
        if (!strcmp(unit, units[k].unit) && !*rest && isfinite(number) && number > 0 && isfinite(latency_us)) {
            *link = (gt_sim_link){.latency_ns = 1e3 * latency_us, .bytes_per_ns = number * units[k].bytes_per_ns};
            return GT_OK;
        }
    return gt__fail(GT_ERR_VALUE,
                    "'%s' is no link: 400Gb (bits a second), 50GB (bytes), 400Gb,2us with a latency, "
                    "or memory",
                    text);
}

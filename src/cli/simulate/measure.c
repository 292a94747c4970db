/*
 * cli/simulate/measure.c: measures works on this machine: the worker's own code executes an instruction, or a run of a hot path, on
 * operands of the right shapes, some times. The results are kept in a file of costs (costs.c), so that the next simulation needs
 * only what is new.
 *
 * Workers that run at once share memory, caches and, on some machines, the units of a core. So there are as many benches, each with a
 * thread of its own, as cores would be busy; all measure the same work at the same time.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/simulate/simulate.h"
#include "core/record.h"
#include "core/thread.h"
#include "worker/run.h"
#include "worker/worker.h"

enum {
    LEAST_ROUNDS = 3,
    MOST_ROUNDS = 201,
    WARM_ROUNDS = 2,
    PASSES = 4,
    ENOUGH_NS = 20000000, /* for one work in a pass */
    /* Bytes that are used between two rounds, as a program does: some times those of the work, within these limits. */
    OTHER_TIMES = 8,
    LEAST_OTHER = 4 << 20,
    MOST_OTHER = 64 << 20,
    CACHE_LINE = 64,
    RESULT = 1, /* slots: the result, and another one for updates in place */
    OTHER,
    FIRST_OPERAND,
};

struct crew;

typedef struct bench {
    struct crew *crew;
    pthread_t thread;
    bool started;
    gt_worker worker;
    uint64_t next; /* slot */
    uint8_t *other_data;
    clockid_t clock; /* of one thread its processor's time, which others on the machine do not lengthen */
} bench;

/* The program uses other data, before it comes here again. */
static void use_other_data(bench *b, const gt_sim_work *work)
{
    double wanted = OTHER_TIMES * work->bytes;
    size_t bytes = wanted < LEAST_OTHER ? LEAST_OTHER : wanted > MOST_OTHER ? MOST_OTHER : (size_t)wanted;
    for (size_t k = 0; k < bytes; k += CACHE_LINE)
        ((volatile uint8_t *)b->other_data)[k]++;
}

static double now_ns(const bench *b)
{
    struct timespec now;
    clock_gettime(b->clock, &now);
    return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

/* ---- operands ------------------------------------------------------------------------------------------------ */

static void clear(bench *b, uint64_t slot)
{
    gt_entry *entry = gt__store_find(b->worker.store, slot);
    if (entry)
        gt__store_clear(b->worker.store, entry);
}

static void execute(bench *b, const gt_slot *record)
{
    gt__worker_execute(&b->worker, &record->ins, record + 1);
    gt__late_drain(&b->worker);
}

/* What an operation fails with, as one that needs more memory than there is: then it has no time. */
static gt_err check_result(bench *b, uint64_t slot)
{
    const gt_entry *entry = gt__store_find(b->worker.store, slot);
    if (entry && gt__entry_is_tensor(entry))
        return GT_OK;
    return entry && entry->state == GT_ENTRY_POISON ? gt__fail(entry->poison->err, "%s", entry->poison->text)
                                                    : gt__fail(GT_ERR_INTERNAL, "there is no result");
}

/* Matrices have an inverse, and are positive definite as far as factorizations read them. */
static void raise_diagonals(const gt_view *view)
{
    const gt_meta *meta = &view->meta;
    int64_t side = meta->rank >= 2 ? meta->shape[meta->rank - 1] : 0;
    if (side < 1 || meta->shape[meta->rank - 2] != side)
        return;
    for (int64_t at = 0; at < meta->numel; at += side * side)
        for (int64_t k = 0; k < side; k++)
            if (meta->dtype == GT_FLOAT32)
                ((float *)view->data)[at + k * (side + 1)] += (float)side;
            else if (meta->dtype == GT_FLOAT64)
                ((double *)view->data)[at + k * (side + 1)] += (double)side;
}

/* Whole numbers are 0, which any index may be; others random, since the time of sort, svd and the like depends on them. */
static void make_tensor(bench *b, uint64_t slot, const gt_sim_tensor *tensor)
{
    gt_meta meta = tensor->meta;
    for (unsigned k = 0; tensor->permuted && k < meta.rank; k++) /* axis k of the view is this one of the tensor */
        meta.shape[tensor->permuted >> 8 * k & 0xff] = tensor->meta.shape[k];
    uint64_t base = tensor->permuted ? b->next++ : slot;
    bool random = gt__dtype_is_float((gt_dtype)meta.dtype);
    gt_slot make[3] = {{.ins = {.op = random ? GT_OP_rand : GT_OP_full,
                                .dtype = meta.dtype,
                                .rank = meta.rank,
                                .tail = random ? 2 : 1,
                                .result = base}}};
    if (random)
        make[2].i64[1] = 1;
    else if (gt__dtype_is_complex((gt_dtype)meta.dtype))
        make->ins.imm[0].f = 0.5;
    memcpy(make[1].i64, meta.shape, meta.rank * sizeof meta.shape[0]);
    execute(b, make);
    const gt_entry *entry = gt__store_find(b->worker.store, base);
    if (random && entry && gt__entry_is_tensor(entry))
        raise_diagonals(&entry->view);
    if (!tensor->permuted)
        return;
    gt_slot permute = {.ins = {.op = GT_OP_permute, .result = slot, .operand = {base}}};
    permute.ins.imm[0].u = tensor->permuted;
    execute(b, &permute);
}

static void clear_all(bench *b)
{
    for (uint64_t slot = RESULT; slot < b->next; slot++)
        clear(b, slot);
    b->next = FIRST_OPERAND;
}

/* ---- rounds -------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The median of some rounds; `round` returns the time of one. */
static double measure_rounds(bench *b, const gt_sim_work *work,
                             double (*round)(bench *b, const gt_sim_work *work, void *state), void *state)
{
    double times[MOST_ROUNDS];
    unsigned count = 0;
    for (unsigned k = 0; k < WARM_ROUNDS; k++)
        round(b, work, state);
    uint64_t until = gt__now_ns() + ENOUGH_NS;
    while (count < LEAST_ROUNDS || (count < MOST_ROUNDS && gt__now_ns() < until))
        times[count++] = round(b, work, state);
    qsort(times, count, sizeof *times, compare);
    return times[count / 2];
}

/* An instruction whose operands are made. state: the record. Freeing the result belongs to it. */
static double round_of_record(bench *b, const gt_sim_work *work, void *state)
{
    gt_slot *record = state;
    use_other_data(b, work);
    double before = now_ns(b);
    execute(b, record);
    if (gt__record_consumed(&record->ins)) { /* the next round updates the result of this one */
        clear(b, record->ins.operand[0]);
        uint64_t result = record->ins.result;
        record->ins.result = record->ins.operand[0];
        record->ins.operand[0] = result;
    } else
        clear(b, record->ins.result);
    return now_ns(b) - before;
}

/* Once, before it is measured; a record that updates its operand may only do so if the result looks like it. */
static gt_err try_record(bench *b, const gt_sim_work *work, gt_slot *record)
{
    bool consumes = gt__record_consumed(&record->ins);
    record->ins.flags &= (uint8_t)~GT_FLAG_CONSUMES;
    execute(b, record);
    GT_TRY(check_result(b, RESULT));
    const gt_view *result = &gt__store_find(b->worker.store, RESULT)->view;
    const gt_meta *updated = consumes ? &work->operands[0].meta : NULL;
    if (consumes && result->meta.dtype == updated->dtype && gt__meta_same_shape(&result->meta, updated))
        record->ins.flags |= GT_FLAG_CONSUMES;
    clear(b, RESULT);
    return GT_OK;
}

static gt_err measure_record(bench *b, const gt_sim_work *work, double *ns)
{
    size_t slots = 1u + work->record->ins.tail;
    gt_slot *record = gt__zeroed(slots, sizeof *record);
    memcpy(record, work->record, slots * sizeof *record);
    gt_operands operands = gt__record_operands(&record->ins, record + 1);
    uint64_t first = b->next;
    b->next += work->operand_count;
    for (unsigned k = 0; k < work->operand_count; k++)
        if (gt__operand_is_tensor(&operands, k)) {
            make_tensor(b, first + k, &work->operands[k]);
            operands.id[k] = first + k;
        }
    record->ins.result = RESULT;
    gt_err err = try_record(b, work, record);
    if (err == GT_OK)
        *ns = measure_rounds(b, work, round_of_record, record);
    free(record);
    clear_all(b);
    return err;
}

/* ---- hot paths ----------------------------------------------------------------------------------------------- */

typedef struct path_state {
    gt_sequence *sequence;
    uint64_t *inputs, *outputs; /* slots */
    gt_err err;                 /* of a run */
} path_state;

static double round_of_path(bench *b, const gt_sim_work *work, void *state)
{
    path_state *p = state;
    for (uint32_t k = 0; k < work->path->inputs; k++)
        if (work->path->dies[k]) /* with the last round */
            make_tensor(b, p->inputs[k], &work->operands[k]);
    use_other_data(b, work);
    double before = now_ns(b);
    gt_err err = gt__sequence_run(&b->worker, p->sequence, p->inputs, p->outputs);
    gt__late_drain(&b->worker);
    for (uint32_t k = 0; k < work->path->outputs; k++) {
        err = err == GT_OK ? check_result(b, p->outputs[k]) : err;
        clear(b, p->outputs[k]);
    }
    p->err = p->err == GT_OK ? err : p->err;
    return now_ns(b) - before;
}

static gt_err plan_path(bench *b, const gt_sim_work *work, path_state *p)
{
    const gt_path *path = work->path;
    gt_plan_input *given = gt__zeroed(path->inputs + 1, sizeof *given);
    gt_plan *plan;
    for (uint32_t k = 0; k < path->inputs; k++) {
        p->inputs[k] = b->next++;
        make_tensor(b, p->inputs[k], &work->operands[k]);
    }
    for (uint32_t k = 0; k < path->outputs; k++)
        p->outputs[k] = b->next++;
    for (uint32_t k = 0; k < path->inputs; k++) {
        gt_entry *entry = gt__store_find(b->worker.store, p->inputs[k]);
        given[k] = (gt_plan_input){.id = GT_PATH_INPUT + k, .view = &entry->view, .memory = entry->buffer};
    }
    gt_err err = gt__plan_new(path->records, path->slots, given, path->inputs, &plan);
    free(given);
    return err == GT_OK ? gt__sequence_new(&b->worker, plan, &p->sequence) : err;
}

static gt_err measure_path(bench *b, const gt_sim_work *work, double *ns)
{
    path_state p = {.inputs = gt__zeroed(work->path->inputs + 1, sizeof *p.inputs),
                    .outputs = gt__zeroed(work->path->outputs + 1, sizeof *p.outputs)};
    gt_err err = plan_path(b, work, &p);
    if (err == GT_OK)
        *ns = measure_rounds(b, work, round_of_path, &p);
    err = err == GT_OK ? p.err : err;
    if (p.sequence)
        gt__sequence_free(&b->worker, &p.sequence);
    free(p.inputs);
    free(p.outputs);
    clear_all(b);
    return err;
}

/* ---- all of them --------------------------------------------------------------------------------------------- */

/* The benches that measure at once. */
typedef struct crew {
    const gt_streams *streams;
    const gt_costs *costs;
    unsigned count, threads; /* benches, and threads of the engine of each */
    bench *benches;
    pthread_mutex_t starting; /* held until all have started */
    pthread_barrier_t barrier;
    double *times; /* of one work, by bench */
    double *ns;    /* by work; < 0: not measured here */
    atomic_bool failed;
    gt_err err;
    char text[1024]; /* of the error */
} crew;

static gt_err bench_open(bench *b)
{
    const gt_engine_ops *ops;
    unsigned threads = b->crew->threads;
    b->worker.name = "simulate";
    b->next = FIRST_OPERAND;
    b->other_data = gt__zeroed(MOST_OTHER, 1);
    b->clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    GT_TRY(gt__engine_find("cpu", &ops));
    gt__canceller_init(&b->worker);
    gt_engine_options options = {.threads = (int)threads, .ops = ops, .cancel = &b->worker.cancel.engine};
    GT_TRY(ops->open(&options, &b->worker.engine));
    return gt__store_new(b->worker.engine, &b->worker.store);
}

static void bench_close(bench *b)
{
    free(b->other_data);
    gt__store_free(&b->worker.store);
    gt__late_free(&b->worker.late);
    if (b->worker.engine)
        b->worker.engine->ops->close(b->worker.engine);
}

static bool is_missing(const gt_costs *costs, const gt_sim_work *work)
{
    return (work->record || work->path) && gt__costs_exact(costs, work) < 0;
}

static size_t count_missing(const gt_streams *streams, const gt_costs *costs)
{
    size_t count = 0;
    for (size_t k = 0; k < streams->work_count; k++)
        count += is_missing(costs, &streams->works[k]);
    return count;
}

/* The first error of all threads is kept. work: that it is about, or NULL. */
static void fail(crew *c, gt_err err, const gt_sim_work *work)
{
    if (atomic_exchange(&c->failed, true))
        return;
    c->err = err;
    if (work)
        snprintf(c->text, sizeof c->text,
                 "%.300s cannot be measured on this machine: %s; a file of --costs can say how long it takes",
                 work->key, gt_error_text());
    else
        snprintf(c->text, sizeof c->text, "%s", gt_error_text());
}

/* One work by all benches: its time is that of the slowest, for which the others would wait. */
static void measure_together(bench *b, size_t number)
{
    crew *c = b->crew;
    const gt_sim_work *work = &c->streams->works[number];
    double *time = &c->times[b - c->benches], slowest = 0;
    gt_err err = work->path ? measure_path(b, work, time) : measure_record(b, work, time);
    if (err != GT_OK)
        fail(c, err, work);
    if (pthread_barrier_wait(&c->barrier) != PTHREAD_BARRIER_SERIAL_THREAD)
        return;
    for (unsigned k = 0; k < c->count; k++)
        slowest = c->times[k] > slowest ? c->times[k] : slowest;
    c->ns[number] = c->ns[number] < 0 || slowest < c->ns[number] ? slowest : c->ns[number];
}

/* The works that have no exact time, each in its turn, and all of that some times: the shortest time of each is without what others on
 * the machine did to it, which lasts longer than the rounds of one work. */
static void measure_all(bench *b)
{
    crew *c = b->crew;
    for (unsigned pass = 0; pass < PASSES; pass++)
        for (size_t k = 0; k < c->streams->work_count; k++) {
            if (!is_missing(c->costs, &c->streams->works[k]))
                continue;
            pthread_barrier_wait(&c->barrier); /* behind it all know whether one has failed */
            if (atomic_load(&c->failed))
                return;
            measure_together(b, k);
        }
}

static void *bench_main(void *argument)
{
    bench *b = argument;
    crew *c = b->crew;
    pthread_mutex_lock(&c->starting);
    bool failed = atomic_load(&c->failed);
    pthread_mutex_unlock(&c->starting);
    if (failed) /* not all could be started */
        return NULL;
    gt_err err = bench_open(b);
    if (err != GT_OK)
        fail(c, err, NULL);
    measure_all(b);
    bench_close(b);
    return NULL;
}

static gt_err crew_run(crew *c)
{
    pthread_mutex_init(&c->starting, NULL);
    pthread_barrier_init(&c->barrier, NULL, c->count);
    pthread_mutex_lock(&c->starting);
    for (unsigned k = 0; k < c->count && !atomic_load(&c->failed); k++) {
        bench *b = &c->benches[k];
        b->crew = c;
        gt_err err = gt__thread_start(&b->thread, bench_main, b);
        b->started = err == GT_OK;
        if (err != GT_OK)
            fail(c, err, NULL);
    }
    pthread_mutex_unlock(&c->starting);
    for (unsigned k = 0; k < c->count; k++)
        if (c->benches[k].started)
            pthread_join(c->benches[k].thread, NULL);
    pthread_barrier_destroy(&c->barrier);
    pthread_mutex_destroy(&c->starting);
    return c->err == GT_OK ? GT_OK : gt__fail(c->err, "%s", c->text);
}

static gt_err measure_missing(const gt_streams *streams, const gt_costs *costs, unsigned threads, double *ns)
{
    crew c = {.streams = streams, .costs = costs, .count = costs->at_once, .threads = threads, .ns = ns};
    for (size_t k = 0; k < streams->work_count; k++)
        ns[k] = -1;
    c.benches = gt__zeroed(c.count, sizeof *c.benches);
    c.times = gt__zeroed(c.count, sizeof *c.times);
    gt_err err = crew_run(&c);
    free(c.benches);
    free(c.times);
    return err;
}

/* To add lines. Other simulations may do so at the same time: the file is ours until it is closed. NULL: errno says why. */
static FILE *open_file(const char *path)
{
    struct stat status;
    FILE *file = fopen(path, "a+e");
    if (!file)
        return NULL;
    if (flock(fileno(file), LOCK_EX) || fstat(fileno(file), &status)) {
        fclose(file);
        return NULL;
    }
    if (status.st_size == 0)
        fprintf(file, "gt costs 1\n# measured by gt simulate: microseconds\n");
    else {
        bool ended = !fseek(file, -1, SEEK_END) && fgetc(file) == '\n';
        fseek(file, 0, SEEK_END);
        if (!ended)
            fputc('\n', file);
    }
    return file;
}

static void keep(const gt_streams *streams, const double *ns, gt_costs *costs, FILE *file)
{
    char key[GT_SIM_KEY + 32];
    for (size_t k = 0; k < streams->work_count; k++) {
        if (ns[k] < 0)
            continue;
        gt__costs_measured_key(&streams->works[k], costs->at_once, key, sizeof key);
        gt__costs_set_exact(costs, key, ns[k]);
        if (file)
            fprintf(file, "exact %.3f %s\n", ns[k] / 1e3, key);
    }
}

gt_err gt__measure(const gt_streams *streams, unsigned threads, gt_costs *costs, const char *path)
{
    size_t count = count_missing(streams, costs);
    if (!count)
        return GT_OK;
    FILE *file = path ? fopen(path, "ae") : NULL; /* an error comes before the work */
    if (path && (!file || fclose(file)))
        return gt__fail(GT_ERR_VALUE, "%s: %s", path, strerror(errno));
    if (isatty(STDERR_FILENO)) /* someone who waits is told what for */
        fprintf(stderr, "gt simulate: measuring %zu kinds of instructions\n", count);
    double *ns = gt__zeroed(streams->work_count, sizeof *ns);
    gt_err err = measure_missing(streams, costs, threads, ns);
    file = err == GT_OK && path ? open_file(path) : NULL;
    if (err == GT_OK)
        keep(streams, ns, costs, file);
    free(ns);
    if (err == GT_OK && path && (!file || fclose(file)))
        err = gt__fail(GT_ERR_VALUE, "%s: %s", path, strerror(errno));
    return err;
}

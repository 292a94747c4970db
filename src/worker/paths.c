/* paths.c: see paths.h. */
#include "worker/paths.h"

#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/path.h"
#include "core/record.h"
#include "worker/answer.h"
#include "worker/path_plans.h"
#include "worker/run.h"
#include "worker/worker.h"

/* The update of one parameter may be a path: a model has parameters of many shapes. */
enum { PATHS = 1024 };

typedef struct worker_path {
    gt_path_plans *plans; /* NULL: no path has this number */
    gt_sequence *paused;  /* its run has not ended; NULL: none */
    bool reported;        /* how it is run */
} worker_path;

struct gt_worker_paths {
    worker_path path[PATHS];
    gt_path_pieces pieces;
    gt_path_cache cache;
};

/* The rest of a paused run is dropped. */
static void drop_paused(gt_worker *worker, worker_path *known)
{
    if (known->paused)
        gt__sequence_rest(worker, known->paused);
    known->paused = NULL;
}

static void forget(gt_worker *worker, worker_path *known)
{
    if (!known->plans)
        return;
    drop_paused(worker, known);
    gt__path_plans_leave(worker, &worker->paths->cache, known->plans);
    *known = (worker_path){0};
}

void gt__worker_paths_free(gt_worker *worker)
{
    if (!worker->paths)
        return;
    for (unsigned k = 0; k < PATHS; k++)
        forget(worker, &worker->paths->path[k]);
    gt__worker_paths_trim(worker);
    gt__path_pieces_free(&worker->paths->pieces);
    free(worker->paths);
    worker->paths = NULL;
}

void gt__worker_paths_trim(gt_worker *worker)
{
    if (worker->paths)
        gt__path_plans_trim(worker, &worker->paths->cache, 0);
}

void gt__worker_define_path(gt_worker *worker, const gt_slot *record)
{
    gt_path *path = NULL;
    if (!worker->paths)
        worker->paths = calloc(1, sizeof *worker->paths);
    if (!worker->paths || record->ins.result >= PATHS) {
        gt__log_error("worker %s: a path cannot be kept", worker->name);
        return;
    }
    worker_path *known = &worker->paths->path[record->ins.result];
    if (!record->ins.imm[1].u) {
        forget(worker, known);
        return;
    }
    if (gt__path_piece(&worker->paths->pieces, record, &path) != GT_OK)
        gt__log_error("worker %s: %s", worker->name, gt_error_text());
    if (!path)
        return;
    forget(worker, known);
    known->plans = gt__path_plans_take(&worker->paths->cache, path);
}

/* ---- running ------------------------------------------------------------------------------------------------ */

/* Plan the path for inputs that look as those of a run do. An error: they cannot be planned for, one of them may have failed. */
static gt_err plan(gt_worker *worker, const gt_path_plans *plans, const uint64_t *words, gt_sequence **sequence)
{
    const gt_path *path = plans->path;
    gt_plan_input *given = malloc((path->inputs + 1) * sizeof *given);
    gt_plan *made = NULL;
    gt_err err = given ? GT_OK : gt__fail(GT_ERR_MEMORY, "out of memory");
    for (uint32_t k = 0; k < path->inputs && err == GT_OK; k++) {
        gt_entry *entry = gt__store_find(worker->store, words[k]);
        if (entry)
            gt__store_settle(worker->store, entry);
        if (!entry || !gt__entry_is_tensor(entry))
            err = gt__fail(GT_ERR_INTERNAL, "an input of a path is not there, or failed");
        else
            given[k] = (gt_plan_input){
                .id = GT_PATH_INPUT + k, .view = &entry->view, .memory = plans->moves ? NULL : entry->buffer};
    }
    if (err == GT_OK)
        err = gt__plan_make(&(gt_plan_source){.records = path->records,
                                              .slots = path->slots,
                                              .inputs = given,
                                              .input_count = path->inputs,
                                              .parameter = path->parameter,
                                              .value = words + path->inputs + path->outputs,
                                              .parameters = path->parameters,
                                              .fixed_addresses = worker->engine->ops->fixed_addresses},
                            &made);
    free(given);
    if (err == GT_OK && (made->input_count != path->inputs || made->output_count != path->outputs)) {
        gt__plan_free(&made);
        err = gt__fail(GT_ERR_PROTOCOL, "the plan of a path has other inputs or outputs");
    }
    if (err == GT_OK)
        made->marked = path->marked;
    return err == GT_OK ? gt__sequence_new(worker, made, sequence) : err;
}

static void set_parameters(gt_sequence *sequence, const gt_path *path, const uint64_t *value)
{
    for (uint32_t k = 0; k < path->parameters; k++)
        gt__sequence_set_word(sequence, path->parameter[k].slot, path->parameter[k].word, value[k]);
}

/* For reports: the results of a run. */
static void count_bytes(gt_worker *worker, const gt_sequence *sequence)
{
    unsigned count;
    const gt_op_bytes *bytes = gt__sequence_bytes(sequence, &count);
    for (unsigned k = 0; k < count; k++)
        gt__statement_add(&worker->timing.statement->row[bytes[k].op].bytes, bytes[k].bytes);
}

/* GT_ERR_VALUE: it was planned for other inputs. */
static gt_err run_variant(gt_worker *worker, worker_path *known, gt_sequence *sequence, const uint64_t *words)
{
    const gt_path *path = known->plans->path;
    set_parameters(sequence, path, words + path->inputs + path->outputs);
    gt_err err = gt__sequence_run(worker, sequence, words, words + path->inputs);
    known->paused = gt__sequence_paused(sequence) ? sequence : NULL;
    if (err == GT_OK)
        count_bytes(worker, sequence);
    return err;
}

/* ---- one by one --------------------------------------------------------------------------------------------- */

/* A run whose records are executed as if they had come alone. Locals are numbered from LOCALS on in its records. */
#define LOCALS ((uint64_t)1 << 62)

typedef struct single_run {
    gt_worker *worker;
    const gt_path *path;
    uint64_t *slot; /* by local */
} single_run;

static uint64_t slot_of_local(const single_run *run, uint64_t offset)
{
    uint32_t low = 0, high = run->path->count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        *(run->path->offset[middle] <= offset ? &low : &high) = middle;
    }
    return run->slot[low];
}

static gt_err run_record(void *context, gt_slot *record)
{
    const single_run *run = context;
    gt_store *store = run->worker->store;
    for (gt_record_ids ids = gt__record_ids(record); gt__record_ids_next(&ids);) {
        if (*ids.id >= LOCALS)
            *ids.id = slot_of_local(run, *ids.id - LOCALS);
        if (record->ins.op == GT_OP_free && gt__store_find(store, *ids.id))
            gt__store_clear(store, gt__store_find(store, *ids.id));
    }
    if (record->ins.op == GT_OP_free)
        return GT_OK;
    gt__cancel_step(&run->worker->cancel.engine, record->ins.op);
    if (gt__cancel_skips(run->worker))
        gt__worker_fail(run->worker, &record->ins, GT_ERR_CANCELLED);
    else
        gt__worker_execute(run->worker, &record->ins, record + 1);
    return GT_OK;
}

static int compare_slots(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/*
 * Outputs have their slots; the other locals get slots that no tensor has, and are freed by the path's end. Slots that exist are
 * taken first, from the last on: a table that grew with every such run would never stop to grow.
 */
static gt_err choose_slots(const gt_store *store, const gt_path *path, const uint64_t *outputs, uint64_t *slot)
{
    uint64_t *taken = malloc((path->outputs + 1) * sizeof *taken), at = store->capacity, beyond = store->capacity;
    if (!taken)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    memcpy(taken, outputs, path->outputs * sizeof *taken);
    qsort(taken, path->outputs, sizeof *taken, compare_slots);
    uint32_t left = path->outputs; /* outputs below `at` */
    if (left && taken[left - 1] >= beyond)
        beyond = taken[left - 1] + 1;
    for (uint32_t k = 0; k < path->count; k++)
        slot[k] = UINT64_MAX;
    for (uint32_t k = 0; k < path->outputs; k++)
        slot[path->output[k]] = outputs[k];
    for (uint32_t k = 0; k < path->count; k++) {
        if (slot[k] != UINT64_MAX)
            continue;
        bool found = false;
        while (at && !found) {
            at--;
            while (left && taken[left - 1] > at)
                left--;
            found = store->entries[at].state == GT_ENTRY_EMPTY && !(left && taken[left - 1] == at);
        }
        slot[k] = found ? at : beyond++;
    }
    free(taken);
    return GT_OK;
}

static gt_err run_singly(gt_worker *worker, const gt_path *path, const uint64_t *words)
{
    gt_slot run[1 + GT_PATH_WORDS / 8] = {{.ins = {.op = GT_OP_repeat, .operand = {LOCALS}}}};
    const uint64_t *outputs = words + path->inputs;
    worker->path_counts.fallbacks++;
    single_run single = {.worker = worker, .path = path, .slot = malloc(path->count * sizeof *single.slot)};
    if (!single.slot)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    gt_err err = choose_slots(worker->store, path, outputs, single.slot);
    if (err != GT_OK) {
        free(single.slot);
        return err;
    }
    run->ins.imm[0].u = gt__path_run_words(path);
    memcpy(run[1].u64, words, path->inputs * sizeof *words);
    memcpy(run[1].u64 + path->inputs, outputs + path->outputs, path->parameters * sizeof *words);
    err = gt__path_expand(path, run, run_record, &single);
    free(single.slot);
    return err;
}

/* ---- runs --------------------------------------------------------------------------------------------------- */

/* A number for the shapes, strides and dtypes of the inputs. */
static uint64_t key_of(gt_worker *worker, const gt_path *path, const uint64_t *inputs)
{
    uint64_t key = 0;
    for (uint32_t k = 0; k < path->inputs; k++) {
        const gt_entry *entry = gt__store_find(worker->store, inputs[k]);
        if (!entry || !gt__entry_is_tensor(entry))
            continue;
        const gt_view *view = &entry->view;
        key = (key ^ (view->meta.dtype + 256u * view->meta.rank)) * 0x9E3779B97F4A7C15u;
        for (unsigned axis = 0; axis < view->meta.rank; axis++) {
            key = (key ^ (uint64_t)view->meta.shape[axis]) * 0x9E3779B97F4A7C15u;
            key = (key ^ key >> 29 ^ (uint64_t)view->stride[axis]) * 0xBF58476D1CE4E5B9u;
        }
    }
    return key;
}

/* Run one of the variants that were planned for inputs with this key. GT_ERR_VALUE: there is none, or their memory is shared in
 * another way. */
static gt_err run_planned(gt_worker *worker, worker_path *known, uint64_t key, const uint64_t *words)
{
    gt_path_plans *plans = known->plans;
    gt_err err = GT_ERR_VALUE;
    for (unsigned k = 0; k < plans->count && err == GT_ERR_VALUE; k++) {
        if (plans->variants[k].key != key)
            continue;
        err = run_variant(worker, known, plans->variants[k].sequence, words);
        plans->moves |= err == GT_ERR_VALUE;
        plans->last = k;
    }
    return err;
}

/* GT_ERR_UNSUPPORTED: it cannot be planned, or the plan cannot be kept. GT_ERR_MEMORY: there is none for all that the plan needs at a
 * time. Nothing was done then. */
static gt_err run_as_planned(gt_worker *worker, worker_path *known, const uint64_t *words)
{
    gt_path_plans *plans = known->plans;
    gt_err err = GT_ERR_VALUE;
    if (plans->count)
        err = run_variant(worker, known, plans->variants[plans->last].sequence, words);
    if (err != GT_ERR_VALUE)
        return err;
    uint64_t key = key_of(worker, plans->path, words);
    err = run_planned(worker, known, key, words);
    if (err != GT_ERR_VALUE)
        return err;
    gt_sequence *sequence = NULL;
    if (plan(worker, plans, words, &sequence) != GT_OK || !gt__path_plans_add(worker, plans, sequence, key))
        return GT_ERR_UNSUPPORTED;
    return run_variant(worker, known, sequence, words);
}

/* One by one the records may need less memory than the plan, whose values lie in one block; and if there is too little, the record that
 * lacks it fails, and not all of them. */
static gt_err run_known(gt_worker *worker, worker_path *known, const uint64_t *words)
{
    gt_err err = run_as_planned(worker, known, words);
    return err == GT_ERR_UNSUPPORTED || err == GT_ERR_MEMORY ? run_singly(worker, known->plans->path, words) : err;
}

/* The path could not be run at all: all its outputs fail. */
static void fail(gt_worker *worker, const gt_path *path, const uint64_t *words, gt_err err)
{
    gt_origin origin = gt__worker_origin(worker, &path->records->ins);
    gt_poison *poison = gt__worker_failure(worker, &origin, err, gt_error_text());
    for (uint32_t k = 0; k < path->outputs; k++) {
        gt_entry *entry = gt__store_entry(worker->store, words[path->inputs + k]);
        if (!entry)
            continue;
        gt__store_clear(worker->store, entry);
        entry->poison = poison;
        entry->state = GT_ENTRY_POISON;
        poison->references++;
    }
    for (uint32_t k = 0; k < path->inputs; k++)
        if (path->dies[k] && gt__store_find(worker->store, words[k]))
            gt__store_clear(worker->store, gt__store_find(worker->store, words[k]));
    gt__poison_release(poison);
}

/* Tell the dispatcher how a path is run that was just planned, or whose plans were kept: how long those took is not told. */
static void report_plan(gt_worker *worker, uint64_t number, const gt_sequence *sequence)
{
    uint64_t compile_ns;
    const gt_plan *plan = gt__sequence_plan(sequence, &compile_ns);
    if (worker->path_counts.newest != sequence)
        compile_ns = compile_ns != 0;
    size_t bytes = sizeof(gt_path_news) + plan->step_count * sizeof(uint16_t);
    unsigned tail = gt__slots_for(bytes);
    gt_slot *out = tail <= GT_PATH_PIECE ? gt__worker_reserve_answer(worker, 1 + tail) : NULL;
    if (!out)
        return;
    out->ins = (gt_instruction){.op = GT_OP_path, .result = number, .tail = (uint16_t)tail};
    out->ins.imm[1].u = tail;
    gt_path_news *news = (gt_path_news *)(void *)(out + 1);
    *news = (gt_path_news){.compile_ns = compile_ns, .count = plan->step_count};
    for (unsigned k = 0; k < plan->step_count; k++)
        news->group[k] = (uint16_t)plan->steps[k].group;
    gt__slots_pad(out + 1, bytes);
    gt__link_commit(worker->link, 1 + tail);
}

/* Go on with a paused run; there is none if it needed less time than expected. */
static void resume(gt_worker *worker, worker_path *known)
{
    gt_sequence *sequence = known->paused;
    if (!sequence)
        return;
    gt_err err = gt__sequence_resume(worker, sequence);
    if (gt__sequence_paused(sequence))
        return;
    known->paused = NULL;
    if (err != GT_OK)
        fail(worker, known->plans->path, gt__sequence_slots(sequence), err);
}

/* For reports, where a path counts as the records that it stands for. */
static void count_records(gt_worker *worker, const gt_path *path)
{
    for (uint32_t at = 0; at < path->slots; at += 1u + path->records[at].ins.tail)
        gt__statement_add(&worker->timing.statement->row[path->records[at].ins.op].count, 1);
}

static worker_path *path_of(gt_worker *worker, const gt_slot *record)
{
    return worker->paths && record->ins.result < PATHS ? &worker->paths->path[record->ins.result] : NULL;
}

static bool is_whole(const gt_path *path, const gt_slot *record)
{
    return path && record->ins.imm[0].u == (uint64_t)path->inputs + path->outputs + path->parameters;
}

gt_path_plans *gt__worker_path_plans(gt_worker *worker, const gt_slot *record)
{
    const worker_path *known = path_of(worker, record);
    bool begins = known && known->plans && !record->ins.operand[0];
    return begins && is_whole(known->plans->path, record) ? known->plans : NULL;
}

void gt__worker_path_let_go(gt_worker *worker, gt_path_plans *plans)
{
    if (!--plans->held && plans->left)
        gt__path_plans_leave(worker, &worker->paths->cache, plans);
}

/* The path that a run put aside began with: it may be forgotten, and its number another's. */
static worker_path *put_aside(worker_path *known, worker_path *forgotten, gt_path_plans *plans)
{
    if (known->plans == plans)
        return known;
    *forgotten = (worker_path){.plans = plans, .reported = true};
    return forgotten;
}

void gt__worker_run_path(gt_worker *worker, const gt_slot *record)
{
    worker_path *known = path_of(worker, record), forgotten;
    if (worker->deferred.plans) {
        known = put_aside(known, &forgotten, worker->deferred.plans);
        worker->cancel.engine.pause_ns = 0;
        resume(worker, known); /* the same plans may be in the middle of a run that was not put aside */
    }
    worker->cancel.engine.pause_ns = record->ins.imm[1].u ? gt__now_ns() + record->ins.imm[1].u : 0;
    gt_path_plans *plans = known ? known->plans : NULL;
    if (plans)
        gt__timing_path(worker, record->ins.result, plans->path->records->ins.site);
    if (plans && record->ins.operand[0]) {
        resume(worker, known);
        return;
    }
    const gt_path *path = plans ? plans->path : NULL;
    if (!is_whole(path, record)) {
        gt__log_error("worker %s: a run of a path that is not known", worker->name);
        return;
    }
    drop_paused(worker, known);
    count_records(worker, path);
    gt_err err = gt__cancel_skips(worker) ? GT_ERR_CANCELLED : run_known(worker, known, record[1].u64);
    if (err != GT_OK)
        fail(worker, path, record[1].u64, err);
    worker->path_counts.runs++;
    if (plans->count && (worker->path_counts.newest || !known->reported))
        report_plan(worker, record->ins.result, plans->variants[plans->last].sequence);
    known->reported |= plans->count != 0;
    worker->path_counts.newest = NULL;
}

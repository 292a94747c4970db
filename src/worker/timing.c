/* timing.c: measures and reports how long instructions take. See timing.h. */
#include "worker/timing.h"

#include <string.h>

#include "worker/answer.h"
#include "worker/worker.h"

/* `average` on average. */
static unsigned next_distance(gt_timing *timing, unsigned average)
{
    timing->random = timing->random * 1664525u + 1013904223u;
    return 1 + (timing->random >> 16) % (2 * average - 1);
}

static void state(_Atomic uint64_t *field, uint64_t value)
{
    atomic_store_explicit(field, value, memory_order_relaxed);
}

void gt__timing_memory(gt_worker *worker)
{
    gt_statement *statement = worker->timing.statement;
    const gt_store *store = worker->store;
    state(&statement->bytes_used, store->bytes_used);
    state(&statement->bytes_pooled, store->bytes_held - store->bytes_used);
    state(&statement->bytes_limit, store->limit);
}

static void state_paths(gt_worker *worker)
{
    gt_statement *statement = worker->timing.statement;
    state(&statement->path_runs, worker->path_counts.runs);
    state(&statement->path_fallbacks, worker->path_counts.fallbacks);
    state(&statement->path_plans, worker->path_counts.plans);
    state(&statement->path_programs, worker->path_counts.programs);
    state(&statement->path_compile_ns, worker->path_counts.compile_ns);
}

void gt__timing_init(gt_worker *worker)
{
    gt_timing *timing = &worker->timing;
    memset(timing, 0, sizeof *timing);
    void *page = worker->link && worker->link->ops->page ? worker->link->ops->page(worker->link) : NULL;
    timing->statement = page ? page : (void *)timing->own;
    timing->random = 1;
    timing->until = next_distance(timing, GT_TIMING_SAMPLE);
    timing->joined_ns = gt__now_ns();
    gt__tick_clock_init(&timing->clock);
    timing->reading_ticks = UINT64_MAX;
    for (int k = 0; k < 8; k++) {
        uint64_t before = gt__ticks(), cost = gt__ticks() - before;
        if (cost < timing->reading_ticks)
            timing->reading_ticks = cost;
    }
    gt__timing_memory(worker);
    worker->cancel.engine.doing = &timing->statement->step;
    state(&timing->statement->joined_ns, timing->joined_ns);
}

static bool is_answered(unsigned op)
{
    return op == GT_OP_fetch || op == GT_OP_sync || op == GT_OP_stats;
}

/* A large instruction of an asynchronous engine: is it timed? Then *weight is what it counts for. */
static bool is_measured(gt_timing *timing, unsigned op, unsigned *weight)
{
    if (atomic_load_explicit(&timing->statement->row[op].count, memory_order_relaxed) <= GT_TIMING_FIRST)
        return true;
    unsigned average = timing->large[op].is_short ? GT_TIMING_SHORT : GT_TIMING_LARGE;
    if (!timing->large[op].left)
        timing->large[op].left = timing->large[op].distance = (uint8_t)next_distance(timing, average);
    *weight = timing->large[op].distance;
    return --timing->large[op].left == 0;
}

/* The line of the current record. Publishing it costs little beside what is timed. */
static void state_line(gt_worker *worker, uint32_t scope, uint32_t site)
{
    gt_timing *timing = &worker->timing;
    uint64_t owner = worker->store->owner;
    timing->line = owner == GT_STORE_NOBODY || !site ? 0 : gt__line_key(owner, site);
    if (!timing->line)
        return;
    state(&timing->statement->line, timing->line);
    state(&timing->statement->scope, (uint64_t)scope << 32 | site);
}

void gt__timing_path(gt_worker *worker, uint64_t number, uint32_t site)
{
    state(&worker->timing.statement->step, GT_OP_INVALID);
    if (gt__timing_on(&worker->timing) && site)
        state_line(worker, (uint32_t)number + 1, site | GT_LINE_PATH);
}

/* A record begins that may take long. */
static void state_beginning(gt_worker *worker, unsigned op)
{
    gt_timing *timing = &worker->timing;
    const uint64_t FRESH_NS = 1000000000;
    if (gt__tick_span_ns(&timing->clock, timing->start_ticks - timing->clock.ticks) > FRESH_NS)
        gt__tick_clock_set(&timing->clock);
    uint64_t since_ns = gt__tick_time_ns(&timing->clock, timing->start_ticks);
    state(&timing->statement->doing, gt__doing_pack(op, since_ns));
    state_paths(worker);
}

void gt__timing_start(gt_worker *worker, const gt_instruction *ins, bool sampled)
{
    gt_timing *timing = &worker->timing;
    timing->op = ins->op;
    timing->weight = sampled ? GT_TIMING_SAMPLE : 1;
    state_line(worker, ins->scope, ins->site);
    if (!sampled && !timing->watched && worker->engine->ops->asynchronous &&
        !is_measured(timing, ins->op, &timing->weight))
        return;
    worker->late.record_is_late = worker->late.record_is_told = false;
    if (sampled)
        timing->until = next_distance(timing, GT_TIMING_SAMPLE);
    if (timing->watched && is_answered(ins->op))
        gt__timing_flush(worker); /* the log shows earlier records before the answer */
    timing->start_ticks = timing->watched && timing->last_ticks ? timing->last_ticks : gt__ticks();
    if (!sampled)
        state_beginning(worker, ins->op);
}

/* Report the first failure of a chain at once. */
static void tell_failure(gt_worker *worker, const gt_poison *poison)
{
    gt__timing_flush(worker);
    gt__worker_answer_poison(worker, 0, poison, GT_FLAG_UNASKED);
}

/* The result of a record; NULL if the record makes no tensor. */
static const gt_entry *result_of(const gt_worker *worker, const gt_instruction *ins)
{
    bool makes = ins->op < GT_OP_FIRST_CONTROL || ins->op == GT_OP_failure ||
                 (ins->op >= GT_OP_recv && ins->op <= GT_OP_all_to_all);
    return makes ? gt__store_find(worker->store, ins->result) : NULL;
}

static void keep_entry(gt_worker *worker, const gt_instruction *ins, const gt_entry *result, uint64_t ticks)
{
    gt_timing *timing = &worker->timing;
    const gt_late *late = &worker->late;
    uint64_t number = gt__deferred_number(&worker->deferred, timing->records);
    if (timing->entry_count == GT_MAX_TIMINGS) /* the first is not complete yet */
        gt__late_wait(worker, timing->entry_token[0]);
    if (timing->entry_count == GT_MAX_TIMINGS)
        gt__timing_flush(worker);
    bool waits = late->record_is_late || (late->answers && is_answered(ins->op));
    timing->entry_number[timing->entry_count] = number;
    timing->entry_token[timing->entry_count] = waits ? late->last : 0;
    const gt_poison *poison = result && result->state == GT_ENTRY_POISON ? result->poison : NULL;
    timing->entries[timing->entry_count++] = (gt_timing_entry){.start_ns = timing->start_ticks,
                                                               .duration_ns = ticks,
                                                               .failed = poison != NULL,
                                                               .told = is_answered(ins->op),
                                                               .op = ins->op};
    if (poison && !poison->origin.worker && poison->origin.number == number)
        tell_failure(worker, poison);
    else if (timing->entry_count == GT_MAX_TIMINGS)
        gt__timing_flush(worker);
}

static void add_time(gt_timing *timing, unsigned op, uint64_t line, uint64_t ns, unsigned weight)
{
    gt__statement_add(&timing->statement->row[op].ns, ns);
    if (line)
        gt__line_time_add(timing->statement, &timing->line_ages, line, ns, weight);
}

void gt__timing_end(gt_worker *worker, const gt_instruction *ins)
{
    gt_timing *timing = &worker->timing;
    struct gt_statement_row *row = &timing->statement->row[ins->op];
    uint64_t now = gt__ticks(), took = now - timing->start_ticks;
    const gt_entry *result = result_of(worker, ins);
    uint64_t bytes = result && gt__entry_is_tensor(result) ? gt__meta_bytes(&result->view.meta) : 0;
    uint64_t weight = timing->weight;
    uint64_t net = took > timing->reading_ticks ? took - timing->reading_ticks : 0;
    if (!worker->late.record_is_told) /* else the engine reports its duration */
        add_time(timing, ins->op, timing->line, gt__tick_span_ns(&timing->clock, net) * weight, weight);
    state(&timing->statement->doing, gt__doing_pack(ins->op, 0)); /* its time is in the sums now */
    gt__statement_add(&row->bytes, bytes * weight);
    if (!timing->watched)
        return;
    timing->last_ticks = now;
    keep_entry(worker, ins, result, took);
}

/* From ticks to time. The ratio of the clocks is known better from one look to the next; spans stay in order. */
static void tell_span(gt_timing *timing, uint64_t start, uint64_t end, uint64_t *start_ns, uint64_t *duration_ns)
{
    uint64_t from = gt__tick_time_ns(&timing->clock, start), to = gt__tick_time_ns(&timing->clock, end);
    *start_ns = from > timing->told_ns ? from : timing->told_ns;
    timing->told_ns = to > *start_ns ? to : *start_ns;
    *duration_ns = timing->told_ns - *start_ns;
}

void gt__timing_so_far(gt_worker *worker, uint64_t start_ticks, uint64_t *start_ns, uint64_t *duration_ns)
{
    gt_timing *timing = &worker->timing;
    gt__tick_clock_set(&timing->clock);
    tell_span(timing, start_ticks ? start_ticks : timing->clock.ticks, timing->clock.ticks, start_ns, duration_ns);
}

/* The entry of a record; NULL if it was sent or was not recorded. */
static gt_timing_entry *find_entry(gt_timing *timing, uint64_t number)
{
    const uint64_t *numbers = timing->entry_number;
    uint64_t distance = timing->entry_count ? number - numbers[0] : 0;
    if (distance < timing->entry_count && numbers[distance] == number) /* as long as none was put aside */
        return &timing->entries[distance];
    for (unsigned k = 0; k < timing->entry_count; k++)
        if (numbers[k] == number)
            return &timing->entries[k];
    return NULL;
}

void gt__timing_fly(gt_worker *worker, gt_flight *flight, unsigned op, bool follows)
{
    if (!flight)
        return;
    flight->timed_op = gt__timing_on(&worker->timing) ? (uint16_t)op : 0;
    flight->record_op = (uint16_t)worker->timing.op;
    flight->weight = worker->timing.weight;
    flight->line = worker->timing.line;
    flight->follows = follows;
    worker->late.record_is_late = true;
    worker->late.record_is_told = !follows;
}

void gt__timing_count(gt_timing *timing, unsigned op, uint64_t line, unsigned weight, const gt_completion *done)
{
    add_time(timing, op, line, (done->end_ns - done->start_ns) * weight, weight);
}

void gt__timing_measured(gt_worker *worker, const gt_origin *origin, unsigned op, uint64_t line, unsigned weight,
                         bool follows, const gt_completion *done)
{
    gt_timing *timing = &worker->timing;
    gt__timing_count(timing, op, line, weight, done);
    gt_timing_entry *entry = timing->watched && done->start_ns ? find_entry(timing, origin->number) : NULL;
    if (!entry)
        return;
    uint64_t start = gt__tick_of_ns(&timing->clock, done->start_ns);
    uint64_t end = gt__tick_of_ns(&timing->clock, done->end_ns);
    if (!follows)
        entry->start_ns = start;
    entry->duration_ns = end > entry->start_ns ? end - entry->start_ns : 0;
}

void gt__timing_settle(gt_worker *worker, const gt_flight *flight, const gt_completion *done)
{
    gt_timing *timing = &worker->timing;
    if (done && flight->timed_op) {
        timing->large[flight->record_op].is_short = done->end_ns - done->start_ns < GT_TIMING_SHORT_NS;
        gt__timing_measured(worker, &flight->origin, flight->timed_op, flight->line, flight->weight,
                            flight->follows, done);
    }
    gt_timing_entry *entry = timing->watched ? find_entry(timing, flight->origin.number) : NULL;
    if (entry)
        entry->failed = flight->poison != NULL;
    const gt_poison *poison = flight->poison;
    if (entry && poison && !poison->origin.worker && poison->origin.number == flight->origin.number)
        tell_failure(worker, poison);
}

void gt__timing_watch(gt_worker *worker, bool watched)
{
    gt_timing *timing = &worker->timing;
    gt__timing_flush(worker);
    timing->entry_count = 0; /* entries that are not complete are dropped */
    timing->watched = watched;
    timing->last_ticks = 0;
    timing->start_ticks = 0; /* the `watch` record itself is not timed */
    timing->until = next_distance(timing, GT_TIMING_SAMPLE);
}

/* The first `count` entries, whose numbers follow each other, in a record of 1 + tail slots. */
static void send_entries(gt_worker *worker, gt_slot *record, unsigned count, unsigned tail)
{
    gt_timing *timing = &worker->timing;
    record->ins = (gt_instruction){.op = GT_OP_timing, .tail = (uint16_t)tail};
    record->ins.imm[1].u = count;
    record->ins.result = timing->entry_number[0];
    gt__tick_clock_set(&timing->clock);
    for (unsigned k = 0; k < count; k++) {
        gt_timing_entry *entry = &timing->entries[k];
        uint64_t start_ns, duration_ns;
        tell_span(timing, entry->start_ns, entry->start_ns + entry->duration_ns, &start_ns, &duration_ns);
        entry->start_ns = start_ns;
        entry->duration_ns = duration_ns & ((1ull << 46) - 1);
    }
    memcpy(record + 1, timing->entries, count * sizeof timing->entries[0]);
    gt__slots_pad(record + 1, count * sizeof timing->entries[0]);
    gt__link_commit(worker->link, 1 + tail);
}

/* Entries at the beginning whose work is complete, of records that follow each other. */
static unsigned complete_entries(const gt_worker *worker)
{
    const gt_timing *timing = &worker->timing;
    unsigned count = 0;
    while (count < timing->entry_count && timing->entry_token[count] <= worker->late.done &&
           timing->entry_number[count] == timing->entry_number[0] + count)
        count++;
    return count;
}

void gt__timing_flush(gt_worker *worker)
{
    gt_timing *timing = &worker->timing;
    for (unsigned count; (count = complete_entries(worker));) {
        unsigned tail = gt__slots_for(count * sizeof timing->entries[0]);
        gt_slot *record = gt__worker_reserve_answer(worker, 1 + tail);
        if (record)
            send_entries(worker, record, count, tail);
        unsigned left = timing->entry_count -= count; /* also if sending failed: the dispatcher is gone then */
        memmove(timing->entries, timing->entries + count, left * sizeof timing->entries[0]);
        memmove(timing->entry_number, timing->entry_number + count, left * sizeof timing->entry_number[0]);
        memmove(timing->entry_token, timing->entry_token + count, left * sizeof timing->entry_token[0]);
    }
}

void gt__timing_begin(gt_timing *timing)
{
    if (!timing->last_ticks)
        timing->last_ticks = gt__ticks();
}

void gt__timing_peer_wait(gt_worker *worker, unsigned op, uint64_t since_ns)
{
    state(&worker->timing.statement->doing, gt__doing_pack(op, since_ns));
}

void gt__timing_more(gt_timing *timing, unsigned op, uint64_t ticks)
{
    add_time(timing, op, 0, gt__tick_span_ns(&timing->clock, ticks), 1);
}

uint64_t gt__timing_wait_begin(gt_worker *worker)
{
    if (worker->timing.entry_count) {
        gt__timing_flush(worker);
        gt__link_flush(worker->link);
    }
    gt_timing *timing = &worker->timing;
    timing->last_ticks = 0;
    uint64_t now_ns = gt__now_ns();
    gt__timing_memory(worker);
    state_paths(worker);
    state(&timing->statement->doing, gt__doing_pack(GT_OP_INVALID, now_ns));
    state(&timing->statement->idle, gt__idle_pack(timing->idle_ns, true, now_ns));
    return now_ns;
}

void gt__timing_engine_wait(gt_worker *worker)
{
    unsigned op = gt__late_first_op(&worker->late);
    if (op)
        state(&worker->timing.statement->doing, gt__doing_pack(op, 0));
}

void gt__timing_wait_end(gt_worker *worker, uint64_t began_ns)
{
    uint64_t waited_ns = gt__now_ns() - began_ns;
    worker->timing.idle_ns += waited_ns;
    state(&worker->timing.statement->idle, gt__idle_pack(worker->timing.idle_ns, false, 0));
    if (!gt__late_busy(&worker->late))
        worker->timing.free_ns += waited_ns;
}

uint64_t gt__timing_busy_ns(const gt_timing *timing)
{
    return gt__now_ns() - timing->joined_ns - timing->free_ns - timing->aside_ns;
}

size_t gt__timing_report(gt_worker *worker, void *to)
{
    const gt_timing *timing = &worker->timing;
    gt_store_stats stats;
    gt__store_stats(worker->store, &stats);
    uint64_t now = gt__now_ns();
    gt_report *report = to;
    *report = (gt_report){.now_ns = now,
                          .up_ns = now - timing->joined_ns,
                          .idle_ns = timing->idle_ns,
                          .records = timing->records,
                          .tensors = stats.tensors,
                          .bytes_used = stats.bytes_used,
                          .bytes_pooled = stats.bytes_pooled,
                          .bytes_limit = worker->store->limit,
                          .path_runs = worker->path_counts.runs,
                          .path_fallbacks = worker->path_counts.fallbacks,
                          .path_plans = worker->path_counts.plans,
                          .path_programs = worker->path_counts.programs,
                          .path_compile_ns = worker->path_counts.compile_ns};
    gt__report_card(timing->statement, report);
    gt_report_row *row = (gt_report_row *)(report + 1);
    for (unsigned op = 1; op < GT_OP_COUNT; op++)
        if (timing->statement->row[op].count && op != GT_OP_mark) { /* marks are the dispatcher's own */
            const struct gt_statement_row *sums = &timing->statement->row[op];
            *row = (gt_report_row){.count = sums->count, .ns = sums->ns, .bytes = sums->bytes};
            row->on_host = worker->engine->ops->host_calls
                               ? worker->engine->ops->host_calls(worker->engine, (gt_opcode)op)
                               : 0;
            row++->op = op;
        }
    return (size_t)((uint8_t *)row - (uint8_t *)to);
}

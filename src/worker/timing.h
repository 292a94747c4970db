/*
 * timing.h: how long a worker's instructions take: the sums in its reports, and, while the dispatcher watches (for an
 * instruction log or a trace), each record's start and duration.
 *
 * Even reading the processor's counter (ticks.h) is expensive compared with a small instruction. So, while the
 * dispatcher does not watch, the worker times a random sample of small instructions, one in GT_TIMING_SAMPLE on
 * average, and each counts for the whole interval. It always times large instructions and the first few of each op.
 * Asynchronous engines measure with events of the device, which cost more than queueing an instruction. There the worker
 * samples large instructions, too, each op by itself: a measurement counts for those of its op since the last one. Short
 * ones are sampled less often: what is timed is launched by itself, and that is much beside a kernel of some ten microseconds.
 * While the dispatcher watches, the end of one instruction is the start of the next: one reading per instruction.
 *
 * The sums are kept in the worker's statement (core/report.h), where the dispatcher reads them even while the worker computes.
 */
#ifndef GT_WORKER_TIMING_H
#define GT_WORKER_TIMING_H

#include "core/report.h"
#include "worker/lines.h"
#include "worker/store.h"
#include "worker/ticks.h"

typedef struct gt_worker gt_worker;

enum {
    GT_TIMING_SAMPLE = 64,  /* small instructions per timed one */
    GT_TIMING_SMALL = 4096, /* elements */
    GT_TIMING_LARGE = 16,   /* asynchronous engines: large instructions of an op per timed one */
    GT_TIMING_SHORT = 64,   /* and if the last one that was timed was short: took less than GT_TIMING_SHORT_NS */
    GT_TIMING_SHORT_NS = 1000000,
    GT_TIMING_FIRST = 16, /* of each op: always timed */
};

typedef struct gt_timing {
    bool watched;
    unsigned until; /* small instructions to the next timed one */
    uint32_t random;
    uint64_t records; /* taken from the stream: the number of the one being executed */
    gt_tick_clock clock;
    uint64_t joined_ns;
    uint64_t idle_ns;        /* it waited for records; */
    uint64_t free_ns;        /* of that, while the engine had nothing to do */
    uint64_t aside_ns;       /* it executed records that had been put aside: peers/deferred.h */
    uint64_t reading_ticks;  /* the cost of a reading */
    uint64_t last_ticks;     /* watched: the end of the previous record; 0 after a wait */
    uint64_t start_ticks;    /* of the current record; 0: it is not timed */
    unsigned op;             /* of the current record, if it is timed */
    unsigned weight;         /* of the current record, if it is timed: how many instructions it counts for */
    uint64_t line;           /* gt__line_key of the current record, if it is timed; 0: it counts for no line */
    gt_statement *statement; /* sums by op, and what the dispatcher may read at any moment */
    struct {
        uint8_t left, distance; /* large instructions to the next timed one, and from the last */
        bool is_short;          /* the last timed one was */
    } large[GT_OP_COUNT];       /* of asynchronous engines */
    unsigned entry_count;
    gt_timing_entry entries[GT_MAX_TIMINGS]; /* in ticks, until they are sent */
    uint64_t entry_number[GT_MAX_TIMINGS];   /* of the entry's record, in the stream */
    gt_token entry_token[GT_MAX_TIMINGS];    /* of work that completes the entry */
    uint64_t told_ns;                        /* the end of the last reported span */
    gt_line_ages line_ages;
    _Alignas(64) char own[GT_STATEMENT_BYTES]; /* the statement of a worker whose link has no page */
} gt_timing;

_Static_assert((int)GT_STATEMENT_BYTES <= (int)GT_LINK_PAGE, "a statement fits into a page");

/* The worker has joined: begin its statement. */
void gt__timing_init(gt_worker *worker);
void gt__timing_start(gt_worker *worker, const gt_instruction *ins, bool sampled);
void gt__timing_end(gt_worker *worker, const gt_instruction *ins);
/* The start and the duration until now of a record that began at `start_ticks`; 0: it was not timed, and counts as if it began now. */
void gt__timing_so_far(gt_worker *worker, uint64_t start_ticks, uint64_t *start_ns, uint64_t *duration_ns);
/* The engine has queued work of the current record, to be reported with its times: they count for `op` when the flight
 * settles. `follows`: and so does the time that the record took on the host; otherwise that was enqueueing. */
void gt__timing_fly(gt_worker *worker, gt_flight *flight, unsigned op, bool follows);
/* The work of a record of this line (gt__line_key; 0: none) is done: add its duration to the sums. */
void gt__timing_count(gt_timing *timing, unsigned op, uint64_t line, unsigned weight, const gt_completion *done);
/* The current record runs the hot path of this number, which begins at this site. */
void gt__timing_path(gt_worker *worker, uint64_t number, uint32_t site);
/* The same, and correct the record's own measurement. */
void gt__timing_measured(gt_worker *worker, const gt_origin *origin, unsigned op, uint64_t line, unsigned weight,
                         bool follows, const gt_completion *done);
/* A flight has settled: add its duration, which `done` has. `done` NULL: it was not measured. */
void gt__timing_settle(gt_worker *worker, const gt_flight *flight, const gt_completion *done);
/* The dispatcher sent `watch`. */
void gt__timing_watch(gt_worker *worker, bool watched);
/* Send the measurements that are complete. Called before every wait and every answer. */
void gt__timing_flush(gt_worker *worker);
/* Around a wait for work. */
uint64_t gt__timing_wait_begin(gt_worker *worker);
void gt__timing_wait_end(gt_worker *worker, uint64_t began_ns);
/* There are no records, and the engine is busy: state which op it executes. */
void gt__timing_engine_wait(gt_worker *worker);
/* An operation has its memory and begins: state how much the worker uses now. */
void gt__timing_memory(gt_worker *worker);
/* While the dispatcher watches: the next record to be executed begins now, if the worker did not execute any just before. */
void gt__timing_begin(gt_timing *timing);
/* The worker waits for another one, to go on with a record of this op, since this moment. Between _wait_begin and _wait_end. */
void gt__timing_peer_wait(gt_worker *worker, unsigned op, uint64_t since_ns);
/* A record that was counted, or will be, took so many ticks more. */
void gt__timing_more(gt_timing *timing, unsigned op, uint64_t ticks);
/* How long the worker has not waited for work, except for records that had been put aside. */
uint64_t gt__timing_busy_ns(const gt_timing *timing);
/* Fill a report; returns its bytes. `to` has room for GT_MAX_CHUNK. */
size_t gt__timing_report(gt_worker *worker, void *to);

/* Whether a record may take less time than reading the clock: a pass over few elements, a view, a free. */
static inline bool gt__timing_small(const gt_store *store, const gt_instruction *ins)
{
    unsigned form = gt__op_table[ins->op].form;
    if (form > GT_FORM_COPY || form == GT_FORM_MATMUL || form == GT_FORM_LINEAR)
        return ins->op == GT_OP_free;
    uint64_t slot = ins->operand[ins->literals & 3 ? 1 : 0];
    return slot < store->capacity && store->entries[slot].view.meta.numel < GT_TIMING_SMALL;
}

/* Is the current record timed? */
static inline bool gt__timing_on(const gt_timing *timing)
{
    return timing->start_ticks != 0;
}

/* Before and after each record. True: it is not known to be small. */
static inline bool gt__timing_before(gt_worker *worker, gt_timing *timing, const gt_store *store,
                                     const gt_instruction *ins)
{
    gt_statement *statement = timing->statement;
    uint64_t count = atomic_load_explicit(&statement->row[ins->op].count, memory_order_relaxed);
    atomic_store_explicit(&statement->row[ins->op].count, count + 1, memory_order_relaxed);
    atomic_store_explicit(&statement->records, ++timing->records, memory_order_relaxed);
    atomic_store_explicit(&statement->doing, gt__doing_pack(ins->op, 0), memory_order_relaxed);
    timing->start_ticks = 0;
    bool small = count >= GT_TIMING_FIRST && gt__timing_small(store, ins);
    if (__builtin_expect(timing->watched || !small || --timing->until == 0, 0))
        gt__timing_start(worker, ins, small && !timing->watched);
    return !small;
}

static inline void gt__timing_after(gt_worker *worker, gt_timing *timing, const gt_instruction *ins)
{
    if (__builtin_expect(timing->start_ticks != 0, 0))
        gt__timing_end(worker, ins);
}

#endif

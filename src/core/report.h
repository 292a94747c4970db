/*
 * report.h: a worker's statistics. Counts are exact. Times of small instructions are estimated from a sample
 * (worker/timing.h). There are two ways to them:
 *
 * - Its report is its answer to the dispatcher's `stats`, in order with its other records: a gt_report, then a row for each
 *   op it has executed.
 * - Its statement is in the page beside its stream (link.h): readable at any moment, also in the middle of an operation.
 */
#ifndef GT_CORE_REPORT_H
#define GT_CORE_REPORT_H

#include <stdatomic.h>
#include <string.h>

#include "core/cards.h"
#include "core/instruction.h"

/* What a monitor asks for (dispatcher/observe/monitor.h). */
enum { GT_TOPIC_STATS = 1, GT_TOPIC_LINES = 2, GT_TOPIC_CLIENT = 4, GT_TOPIC_PROGRESS = 8 };
/* What it gets after an order: lines of text about it, the last of which is one of the other two. */
enum { GT_TOPIC_ORDER_NEWS = 16, GT_TOPIC_ORDER_DONE = 32, GT_TOPIC_ORDER_FAILED = 64 };
/* What it can order. */
typedef enum gt_monitor_order { GT_ORDERS_DRAIN = 1, GT_ORDERS_RELOAD = 2 } gt_monitor_order;

typedef struct gt_report {
    uint64_t now_ns;     /* the worker's clock */
    uint64_t up_ns;      /* since it joined */
    uint64_t idle_ns;    /* of up_ns: waiting for work */
    uint64_t records;    /* taken from its stream */
    uint64_t tensors;    /* in its store */
    uint64_t bytes_used; /* by those tensors */
    uint64_t bytes_pooled;
    uint64_t bytes_limit;
    uint64_t path_runs;       /* of hot paths */
    uint64_t path_fallbacks;  /* of these: executed record by record */
    uint64_t path_plans;      /* made: one for each path and look of its inputs */
    uint64_t path_programs;   /* of these: compiled by the engine */
    uint64_t path_compile_ns; /* that took so long, together */
    uint64_t card;            /* gt__card_pack: of its graphics card; 0: it has none, or nothing is known of it */
    uint64_t card_used, card_memory; /* bytes */
    char card_name[GT_CARD_NAME];
} gt_report;

typedef struct gt_report_row {
    uint32_t op;      /* gt_opcode */
    uint32_t on_host; /* of `count`: the engine had no kernel for them, and they ran on the host */
    uint64_t count;   /* executed */
    uint64_t ns;      /* spent executing them */
    uint64_t bytes;   /* of their results */
} gt_report_row;

/* Device time by line of the clients' programs. */
enum {
    GT_LINES = 512,          /* that a worker keeps: a power of two */
    GT_LINE_PATH = 1u << 31, /* in the number of a site: the hot path that begins there */
};

/* A key: the client's number in its upper half (a client that is that much older is gone), the site in its lower half. */
static inline uint64_t gt__line_key(uint64_t client, uint32_t site)
{
    return client << 32 | site;
}

typedef struct gt_line {
    uint64_t key, ns, count; /* key 0: none. count: instructions, or runs of a hot path */
} gt_line;

/*
 * Only the worker writes it, each field by one relaxed store; the fields of its card are another thread's (worker/card.c). Fields that
 * must agree share a word. The reader copies before it checks: the worker may be another process.
 */
typedef struct gt_statement {
    _Alignas(64) _Atomic uint64_t records; /* taken from its stream */
    _Atomic uint64_t line;                 /* gt__line_key of the last record that was large or timed */
    _Atomic uint64_t
        scope; /* its scope in the upper half, or the number of its path, plus one; its site again in the lower */
    _Atomic uint64_t doing;     /* gt__doing_pack: the op of the record that it executes, and since when */
    _Atomic uint64_t idle;      /* gt__idle_pack: how long it has waited for records, and whether it waits */
    _Atomic uint64_t joined_ns; /* on its clock; 0: nothing was published yet */
    _Atomic uint64_t bytes_used, bytes_pooled, bytes_limit;
    _Atomic uint64_t step; /* while it executes a hot path: the op of the step that it is in; 0: not known */
    _Alignas(64) struct gt_statement_line {
        _Atomic uint64_t key, ns, count; /* as in gt_line; a key may be replaced by another at any time */
    } lines[GT_LINES];                   /* worker/lines.c */
    /* Its graphics card, as in gt_report, by worker/card.c: `card` is written last, and released. */
    _Alignas(64) _Atomic uint64_t card, card_used, card_memory, card_name[GT_CARD_NAME / sizeof(uint64_t)];
    _Alignas(64) _Atomic uint64_t path_runs, path_fallbacks, path_plans, path_programs, path_compile_ns;
    struct gt_statement_row {
        _Atomic uint64_t count, ns, bytes; /* as in gt_report_row */
    } row[];                               /* GT_OP_COUNT */
} gt_statement;

enum { GT_STATEMENT_BYTES = sizeof(gt_statement) + GT_OP_COUNT * sizeof(struct gt_statement_row) };

/* Add to a counter that only this thread writes. */
static inline void gt__statement_add(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

/* The op in 12 bits, then the time in units of 1024 ns. Time 0: the record is small, and is not timed. Op 0: it waits. */
static inline uint64_t gt__doing_pack(unsigned op, uint64_t since_ns)
{
    return since_ns >> 10 << 12 | op;
}

static inline unsigned gt__doing_op(uint64_t doing)
{
    return doing & 0xfff;
}

static inline uint64_t gt__doing_since_ns(uint64_t doing)
{
    return doing >> 12 << 10;
}

/* While it waits, `idle_ns` grows with the clock: the word has their difference. */
static inline uint64_t gt__idle_pack(uint64_t idle_ns, bool waits, uint64_t now_ns)
{
    return (waits ? now_ns - idle_ns : idle_ns) << 1 | waits;
}

/* 0 if it began to wait after `now_ns`, which the reader may have looked at before. */
static inline uint64_t gt__idle_ns(uint64_t idle, uint64_t now_ns)
{
    uint64_t value = idle >> 1;
    return !(idle & 1) ? value : now_ns > value ? now_ns - value : 0;
}

/* Copy what a statement says of the card. */
static inline void gt__report_card(const gt_statement *statement, gt_report *report)
{
    report->card = atomic_load_explicit(&statement->card, memory_order_acquire);
    report->card_used = statement->card_used;
    report->card_memory = statement->card_memory;
    for (size_t k = 0; k < sizeof report->card_name / sizeof(uint64_t); k++) {
        uint64_t word = statement->card_name[k];
        memcpy(report->card_name + k * sizeof word, &word, sizeof word);
    }
}

_Static_assert(GT_OP_COUNT <= 0xfff, "an op fits into gt_statement.doing");
_Static_assert(sizeof(gt_report) == 3 * sizeof(gt_slot) && sizeof(gt_report_row) * 2 == sizeof(gt_slot), "slots");
_Static_assert(sizeof(gt_report) + GT_OP_COUNT * sizeof(gt_report_row) <= GT_MAX_CHUNK, "a report is one record");

#endif

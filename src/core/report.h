/*
 * report.h: a worker's statistics, its answer to the dispatcher's `stats`: a gt_report, then a row for each op it has
 * executed. Counts are exact. Times of small instructions are estimated from a sample (worker/timing.h).
 */
#ifndef GT_CORE_REPORT_H
#define GT_CORE_REPORT_H

#include "core/instruction.h"

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
    uint64_t unused[3];
} gt_report;

typedef struct gt_report_row {
    uint32_t op;      /* gt_opcode */
    uint32_t on_host; /* of `count`: the engine had no kernel for them, and they ran on the host */
    uint64_t count;   /* executed */
    uint64_t ns;      /* spent executing them */
    uint64_t bytes;   /* of their results */
} gt_report_row;

_Static_assert(sizeof(gt_report) == 2 * sizeof(gt_slot) && sizeof(gt_report_row) * 2 == sizeof(gt_slot), "slots");
_Static_assert(sizeof(gt_report) + GT_OP_COUNT * sizeof(gt_report_row) <= GT_MAX_CHUNK, "a report is one record");

#endif

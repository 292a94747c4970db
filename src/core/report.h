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
} gt_report;

typedef struct gt_report_row {
    uint64_t op : 16;   /* gt_opcode */
    uint64_t host : 48; /* calls that the engine could not run itself and computed on the host */
    uint64_t count;     /* executed */
    uint64_t ns;        /* spent executing them */
    uint64_t bytes;     /* of their results */
} gt_report_row;

_Static_assert(sizeof(gt_report) == sizeof(gt_slot) && sizeof(gt_report_row) * 2 == sizeof(gt_slot), "slots");
_Static_assert(sizeof(gt_report) + GT_OP_COUNT * sizeof(gt_report_row) <= GT_MAX_CHUNK, "a report is one record");

#endif

/* sort.h: what sort.c has for other ops: records of a key and an index, sorted by key. */
#ifndef GT_ENGINES_CPU_SORT_H
#define GT_ENGINES_CPU_SORT_H

#include <string.h>

#include "engines/cpu/parallel.h"

typedef struct gt_wide_record {
    uint64_t key;
    uint64_t index;
} gt_wide_record;

/* The bits of a float as a number in its order: -0 is 0, every NaN is the greatest. */
static inline uint64_t gt__sort_key(double value)
{
    double positive_zero = value + 0.0; /* -0 + 0 is +0 */
    uint64_t bits;
    memcpy(&bits, &positive_zero, sizeof bits);
    bits = bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
    return value != value ? UINT64_MAX : bits;
}

/* Makes records[0..k) the least of n, in order; equal ones stay in their order. There is room for n more behind them. False: the work
 * was cancelled. */
bool gt__cpu_sort_least(gt_parallel *parallel, gt_wide_record *records, int64_t n, int64_t k);

#endif

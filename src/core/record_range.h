/*
 * record_range.h: records of a worker's stream, by number, in one word: how the dispatcher tells a worker which records are not
 * wanted any more (worker/cancel.h).
 */
#ifndef GT_CORE_RECORD_RANGE_H
#define GT_CORE_RECORD_RANGE_H

#include <stdint.h>

typedef struct gt_record_range {
    uint64_t first, end;
} gt_record_range;

#define GT_RANGE_LENGTH_BITS 24
#define GT_RANGE_MOST_LENGTH (((uint64_t)1 << GT_RANGE_LENGTH_BITS) - 1)

/* The last 40 bits of the first number, and the length. A longer range loses its end. */
static inline uint64_t gt__record_range_pack(gt_record_range range)
{
    uint64_t length = range.end - range.first;
    return range.first << GT_RANGE_LENGTH_BITS | (length < GT_RANGE_MOST_LENGTH ? length : GT_RANGE_MOST_LENGTH);
}

/* Of the ranges that the word may mean, the one that is nearest to record `near`. */
static inline gt_record_range gt__record_range_unpack(uint64_t word, uint64_t near)
{
    uint64_t away = (word - (near << GT_RANGE_LENGTH_BITS)) & ~GT_RANGE_MOST_LENGTH; /* has a sign */
    uint64_t first = near + (uint64_t)((int64_t)away >> GT_RANGE_LENGTH_BITS);
    return (gt_record_range){.first = first, .end = first + (word & GT_RANGE_MOST_LENGTH)};
}

#endif

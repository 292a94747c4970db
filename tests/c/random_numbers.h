/* random_numbers.h: the seeded numbers behind tests that try many cases. The same seed, the same cases. */
#ifndef GT_TESTS_RANDOM_NUMBERS_H
#define GT_TESTS_RANDOM_NUMBERS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct numbers {
    uint64_t state;
} numbers;

static inline uint64_t numbers_next(numbers *n)
{
    uint64_t value = n->state += 0x9E3779B97F4A7C15u;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

/* From 0 to limit - 1. */
static inline uint64_t numbers_below(numbers *n, uint64_t limit)
{
    return numbers_next(n) % limit;
}

static inline void numbers_fill(numbers *n, void *memory, size_t bytes)
{
    uint8_t *at = memory;
    for (uint64_t value; bytes; at += sizeof value, bytes -= bytes < sizeof value ? bytes : sizeof value) {
        value = numbers_next(n);
        memcpy(at, &value, bytes < sizeof value ? bytes : sizeof value);
    }
}

#endif

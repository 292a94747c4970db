/*
 * philox.h: Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw ("Parallel random numbers:
 * as easy as 1, 2, 3", 2011): a block of four random words is a function of a counter and a key, so any element of
 * any tensor can be drawn without drawing the others. random.h says what GT counts. GPU kernels compute the same.
 */
#ifndef GT_CORE_PHILOX_H
#define GT_CORE_PHILOX_H

#include <stdint.h>

typedef struct gt_philox_block {
    uint32_t word[4];
} gt_philox_block;

static inline gt_philox_block gt__philox(gt_philox_block counter, uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < 10; round++) {
        uint64_t product0 = (uint64_t)0xd2511f53u * counter.word[0];
        uint64_t product1 = (uint64_t)0xcd9e8d57u * counter.word[2];
        counter = (gt_philox_block){.word = {
                                        (uint32_t)(product1 >> 32) ^ counter.word[1] ^ key0,
                                        (uint32_t)product1,
                                        (uint32_t)(product0 >> 32) ^ counter.word[3] ^ key1,
                                        (uint32_t)product0,
                                    }};
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
    return counter;
}

#endif

/*
 * random.h: the numbers of rand, randn and randint: element i of a tensor is a function of (seed, stream, i)
 * alone.
 *
 * The key is the seed; the counter is the block number (64 bits) and the stream (64 bits, one per tensor). 32-bit
 * elements take one word each, four to a block; 64-bit elements two words, the low one first, two to a block.
 * Normal numbers come in pairs of elements (2k, 2k+1) from the uniform numbers of the same two elements. So any
 * split of a tensor, any number of threads and any device give the same numbers. Every host engine calls these
 * functions; they fill out[0..count) with elements first..first+count of the stream.
 */
#ifndef GT_CORE_RANDOM_H
#define GT_CORE_RANDOM_H

#include <stdint.h>

typedef struct gt_random {
    uint64_t seed;
    uint64_t stream;
} gt_random;

/* Uniform in [0, 1): multiples of 2^-24 and of 2^-53. */
void gt__random_uniform_float(gt_random key, int64_t first, int64_t count, float *out);
void gt__random_uniform_double(gt_random key, int64_t first, int64_t count, double *out);

/* Standard normal, by Box and Muller. */
void gt__random_normal_float(gt_random key, int64_t first, int64_t count, float *out);
void gt__random_normal_double(gt_random key, int64_t first, int64_t count, double *out);

/*
 * multinomial (W rows of n weights, k samples of each) draws from uniform doubles, too. With replacement: sample j of row
 * r is the first category whose running sum of weights, added up in double from the first, exceeds element r * k + j
 * times the row's sum. Without replacement: category i of row r gets the key -log(1 - element r * n + i) / weight, and the
 * k smallest keys are the samples, in that order, ties by index; a weight of 0 is never taken.
 */

/* Integers in [low, high), low < high; the bias is below (high - low) / 2^64. */
void gt__random_integer(gt_random key, int64_t first, int64_t count, int64_t low, int64_t high, int64_t *out);

#endif

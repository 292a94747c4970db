/*
 * draws.h: numbers from distributions that have no closed inverse: element i of a tensor is a function of (seed, stream, i)
 * and of its parameters alone, as in random.h.
 *
 * Each element has its own sequence of Philox blocks: the counter is the element's number (64 bits), the stream (40 bits) and
 * the number of the block in the sequence (24 bits), so that an element may reject as many proposals as it likes. A block
 * gives two uniform doubles. Every host engine calls these functions.
 */
#ifndef GT_CORE_DRAWS_H
#define GT_CORE_DRAWS_H

#include <stdint.h>

#include "core/op.h"
#include "core/random.h"

/* Results may be 0 or NaN where PyTorch's are: no shape is refused here. */
double gt__draw_poisson(gt_random key, int64_t element, double rate);
double gt__draw_binomial(gt_random key, int64_t element, double trials, double p);
/* The logarithm of a number of the gamma distribution, which itself may be too small for a double; -inf for shape 0. */
double gt__draw_log_gamma(gt_random key, int64_t element, double shape);

/* Such a number itself, not below the dtype's smallest normal number. */
double gt__draw_gamma(gt_random key, int64_t element, double shape, gt_dtype dtype);
/* numbers[0..n): concentrations, replaced by a draw of the Dirichlet distribution: positive, below 1, with the sum 1. */
void gt__draw_dirichlet(gt_random key, int64_t first, int64_t n, gt_dtype dtype, double *numbers);

#endif

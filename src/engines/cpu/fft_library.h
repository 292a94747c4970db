/*
 * fft_library.h: one-dimensional transforms of complex numbers, by KISS FFT. fft.c is the only user.
 *
 * Which library, and why: GT's licence is MIT, so FFTW (GPL) is out; MKL and others exist for one processor only. KISS FFT
 * is BSD, in Debian and Ubuntu for every architecture (libkissfft-dev), and its C++ header makes transforms of any
 * precision. Single lines are computed in double. Several lines of float data are computed side by side, in vectors of
 * float, which is three times as fast; the header computes the factors of a float transform in float, which costs two digits,
 * so they are replaced. Sizes with a large prime factor go by Bluestein's algorithm,
 * on top of the library, because it needs n * p steps for a factor p.
 *
 * Complex numbers are pairs of doubles, here and in C++.
 */
#ifndef GT_ENGINES_CPU_FFT_LIBRARY_H
#define GT_ENGINES_CPU_FFT_LIBRARY_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gt_fft_plan gt_fft_plan;

/* For transforms of n >= 1 numbers. NULL: no memory. */
gt_fft_plan *gt__fft_plan_new(int64_t n, bool inverse);
/* The same plan for another thread; may be the plan itself, retained, if threads may share it. NULL: no memory. */
gt_fft_plan *gt__fft_plan_for_thread(gt_fft_plan *plan);
gt_fft_plan *gt__fft_plan_retain(gt_fft_plan *plan);
void gt__fft_plan_release(gt_fft_plan *plan); /* NULL is fine */
/* Complex numbers that gt__fft_plan_run needs room for in `work`. */
int64_t gt__fft_plan_work(const gt_fft_plan *plan);
/* out = the transform of in, without a factor; the two do not overlap. */
void gt__fft_plan_run(const gt_fft_plan *plan, const double *in, double *out, double *work);

/* Lines that are transformed side by side, in float. */
enum { GT_FFT_LANES = 4 };

/* Whether a plan can do that: not for large sizes, nor by Bluestein's algorithm. */
bool gt__fft_plan_has_lanes(const gt_fft_plan *plan);
/* Number k of line l is in[2 k][l] + i in[2 k + 1][l]; the same of out. The two do not overlap and are 16-byte aligned. */
void gt__fft_plan_run_lanes(const gt_fft_plan *plan, const float (*in)[GT_FFT_LANES], float (*out)[GT_FFT_LANES]);

#ifdef __cplusplus
}
#endif

#endif

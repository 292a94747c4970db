/*
 * fft_library.h: one-dimensional transforms of lines, by KISS FFT. fft.c is the only user.
 *
 * Which library, and why: GT's licence is MIT, so FFTW (GPL) is out; MKL and others exist for one processor only. KISS FFT
 * is BSD, in Debian and Ubuntu for every architecture (libkissfft-dev), and its C++ header makes transforms of numbers of any
 * type. Here that is a vector of 16 bytes, so that several transforms are computed side by side:
 *
 *   several lines     one transform of each, in a lane each
 *   one line, or      the elements l, l + L, l + 2 L, ... in lane l of L: L transforms of n / L, and one last step that joins
 *   long ones         them, by hand
 *   the rest          one number at a time, in double
 *
 * Powers of two are transformed here, by Stockham's algorithm: twice as fast as the library for long lines and doubles.
 *
 * The header computes factors in the type of the numbers, which costs two digits in float, so they are replaced. Sizes with a
 * large prime factor go by Bluestein's algorithm, on top of the library, because it needs n * p steps for a factor p. Real lines
 * of even length n are transformed as n / 2 complex numbers.
 */
#ifndef GT_ENGINES_CPU_FFT_LIBRARY_H
#define GT_ENGINES_CPU_FFT_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/fft.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a plan is made for. */
typedef struct gt_fft_use {
    int64_t n; /* elements of a line that is not halved */
    gt_fft_kind kind;
    bool inverse; /* exp(+i...) */
    bool wide;    /* double and not float */
    bool several; /* lines */
} gt_fft_use;

typedef struct gt_fft_plan gt_fft_plan;

/* NULL: no memory. */
gt_fft_plan *gt__fft_plan_new(const gt_fft_use *use);
/* The same plan for another thread; may be the plan itself, retained, if threads may share it. NULL: no memory. */
gt_fft_plan *gt__fft_plan_for_thread(gt_fft_plan *plan);
gt_fft_plan *gt__fft_plan_retain(gt_fft_plan *plan);
void gt__fft_plan_release(gt_fft_plan *plan); /* NULL is fine */

/* Lines that are best transformed at a time: 1 or more. */
int gt__fft_plan_lines(const gt_fft_plan *plan);
/* Bytes of scratch memory that gt__fft_plan_run needs, aligned as malloc does it. */
size_t gt__fft_plan_work(const gt_fft_plan *plan);
/* Transform `count` lines, at most gt__fft_plan_lines: out[k] = scale * the transform of in[k]. Lines are contiguous, and all of
 * them float, or double if the plan is wide; complex numbers are pairs. */
void gt__fft_plan_run(const gt_fft_plan *plan, const void *const *in, void *const *out, int count, double scale,
                      void *work);

/* Complex lines that lie side by side, as columns do: how many are best transformed at a time; 0: not this plan. */
int gt__fft_plan_columns(const gt_fft_plan *plan);
/* Bytes of scratch memory for them. */
size_t gt__fft_plan_columns_work(const gt_fft_plan *plan);
/* Transform `count` such lines: element k of line l is complex number k * stride + l of `in` and of `out`, which may be the same. */
void gt__fft_plan_run_columns(const gt_fft_plan *plan, const void *in, void *out, int64_t stride, int count,
                              double scale, void *work);

/* At most so many lines at a time. */
enum { GT_FFT_MOST_LINES = 4 };

#ifdef __cplusplus
}
#endif

#endif

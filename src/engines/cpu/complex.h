/* engines/cpu/complex.h: the CPU engine's ops on complex tensors: complex.c, complex_elementwise.c, fft.c. */
#ifndef GT_ENGINES_CPU_COMPLEX_H
#define GT_ENGINES_CPU_COMPLEX_H

#include "engines/cpu/cpu.h"

/* Any call that reads, computes or writes complex numbers. */
static inline bool gt__cpu_is_complex(const gt_call *call)
{
    return gt__dtype_is_complex(call->compute) ||
           (call->operands && gt__dtype_is_complex((gt_dtype)call->in[0]->meta.dtype));
}

gt_err gt__cpu_complex(gt_engine *engine, const gt_call *call);

/* UNARY, BINARY, TERNARY. */
gt_err gt__cpu_complex_elementwise(gt_engine *engine, const gt_call *call);
/* The product or sum of a contiguous row: of all its numbers, into out[0]; or of all up to each, in place. */
void gt__cpu_complex_fold(gt_dtype dtype, bool product, const void *row, int64_t count, void *out);
void gt__cpu_complex_scan(gt_dtype dtype, bool product, void *row, int64_t count);
/* fft.c: FFT. */
gt_err gt__cpu_fft(gt_engine *engine, const gt_call *call);
void gt__cpu_plans_free(gt_cpu_plans *plans); /* NULL is fine */

#endif

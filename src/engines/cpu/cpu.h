/*
 * engines/cpu/cpu.h: shared by the files of the CPU engine.
 *
 * cpu.c holds the vtable and passes each call to one function below, by its form. All of them work the same way:
 * collapse the dimensions (engines/loop.c), take a direct path when memory is contiguous and already of the compute type, and
 * otherwise go through tiles in the L1 cache: load (gather and convert), compute, store. Kernels
 * (kernels.h) exist only for the compute types. parallel.h splits big calls over threads.
 */
#ifndef GT_ENGINES_CPU_CPU_H
#define GT_ENGINES_CPU_CPU_H

#include <stdatomic.h>

#include "engines/engine.h"
#include "engines/loop.h"
#include "engines/cpu/kernels.h"
#include "engines/cpu/parallel.h"

typedef struct gt_cpu_plans gt_cpu_plans; /* fft.c */
typedef struct gt_scratch gt_scratch;     /* program_tile.c */

typedef struct gt_cpu {
    gt_engine engine; /* first: a gt_engine * of this engine is a gt_cpu * */
    gt_parallel *parallel;
    const gt_kernels *kernels;
    uint64_t memory_limit; /* the worker's, in bytes */
    _Atomic size_t
        taken; /* bytes taken from the system since the last gt__memory_check; releases are not counted */
    gt_cpu_plans *plans; /* of Fourier transforms; NULL: none yet */
    gt_cancel *cancel;   /* NULL: none */
    gt_scratch *scratch; /* that programs share: one runs at a time; NULL: none yet */
} gt_cpu;

static inline gt_cpu *gt__cpu(gt_engine *engine)
{
    return (gt_cpu *)engine;
}

/* Below this many cheap elements a call runs on the calling thread: waking another costs more. */
enum { GT_CPU_GRAIN = 32 * 1024 };

/*
 * Memory for the time of one call, 64-byte aligned; free() it. A broadcast operand can have any number of
 * elements, so `bytes` can be any size: GT_ERR_MEMORY beyond the worker's limit, even if the system would allocate it.
 */
gt_err gt__cpu_scratch(const gt_cpu *cpu, size_t bytes, void **scratch);

/* ---- tiles -------------------------------------------------------------------------------------------------- */

/* Gather `count` elements of `dtype`, `stride` elements apart, into a contiguous tile of the compute type. */
static inline void gt__cpu_load_tile(const gt_cpu *cpu, gt_compute compute, gt_dtype dtype, const void *from,
                                     int64_t stride, int64_t count, void *tile)
{
    cpu->kernels->load[dtype][compute](tile, from, stride, count);
}

/* Convert a tile of the compute type to `dtype` and store it, `stride` elements apart. */
static inline void gt__cpu_store_tile(const gt_cpu *cpu, gt_compute compute, gt_dtype dtype, const void *tile,
                                      void *to, int64_t stride, int64_t count)
{
    cpu->kernels->store[dtype][compute](to, stride, tile, count);
}

/* The compute type that holds every value of `dtype`. */
static inline gt_compute gt__cpu_compute(gt_dtype dtype)
{
    return dtype == GT_FLOAT64 ? GT_COMPUTE_F64 : dtype >= GT_FLOAT16 ? GT_COMPUTE_F32 : GT_COMPUTE_I64;
}

/* The dtype whose elements lie in memory as kernels of a compute type read them. */
static inline gt_dtype gt__native_dtype(gt_compute compute)
{
    static const gt_dtype natives[] = {
        [GT_COMPUTE_F32] = GT_FLOAT32, [GT_COMPUTE_F64] = GT_FLOAT64, [GT_COMPUTE_I64] = GT_INT64,
        [GT_COMPUTE_I32] = GT_INT32,   [GT_COMPUTE_I8] = GT_INT8,     [GT_COMPUTE_U8] = GT_UINT8};
    return natives[compute];
}

/* Size of one element of a compute type. */
static inline size_t gt__compute_size(gt_compute compute)
{
    return compute == GT_COMPUTE_I8 || compute == GT_COMPUTE_U8     ? 1
           : compute == GT_COMPUTE_F32 || compute == GT_COMPUTE_I32 ? sizeof(float)
                                                                    : sizeof(double);
}

/* The call was cancelled: its error. The engine is ready for the next call. */
gt_err gt__cpu_cancelled(gt_cpu *cpu);

/* Run a call by its form; complex tensors: only movement, matmul and creation (complex.c has the rest). */
gt_err gt__cpu_form(gt_engine *engine, const gt_call *call);

/* ---- one function a form ------------------------------------------------------------------------------------ */

/* UNARY, BINARY, TERNARY; REDUCE; ARGREDUCE; MATMUL. The first reads literals from the call itself; for the others they are
 * views like any other (gt__call_on_host). */
gt_err gt__cpu_elementwise(gt_engine *engine, const gt_call *call);
gt_err gt__cpu_reduce(gt_engine *engine, const gt_call *call);
/* Of rows that are contiguous and of this compute type; what it is for a dtype; whether rows of n elements are better folded side
 * by side. */
gt_compute gt__cpu_reduce_compute(gt_opcode op, gt_dtype dtype);
bool gt__cpu_reduce_beside(const gt_cpu *cpu, gt_compute compute, int64_t rows, int64_t n);
void gt__cpu_reduce_rows(const gt_cpu *cpu, const gt_instruction *ins, gt_compute compute, const void *x,
                         int64_t rows, int64_t n, bool beside, gt_dtype dtype, void *out);
/* Of columns, or of everything, in parts: reductions that take one pass and no parameter. Totals have 8 bytes a result. */
void gt__cpu_fold_start(const gt_instruction *ins, gt_compute compute, int64_t results, void *totals);
void gt__cpu_fold_columns(const gt_cpu *cpu, const gt_instruction *ins, gt_compute compute, const void *x,
                          int64_t rows, int64_t n, void *totals);
void gt__cpu_fold_all(const gt_cpu *cpu, const gt_instruction *ins, gt_compute compute, const void *x,
                      int64_t count, void *total);
void gt__cpu_fold_merge(const gt_cpu *cpu, const gt_instruction *ins, gt_compute compute, int64_t results,
                        void *totals, const void *part);
void gt__cpu_fold_finish(const gt_cpu *cpu, const gt_instruction *ins, gt_compute compute, int64_t results,
                         int64_t elements, void *totals, gt_dtype dtype, void *out);
gt_err gt__cpu_argreduce(gt_engine *engine, const gt_call *call);
gt_err gt__cpu_matmul(gt_engine *engine, const gt_call *call);
gt_err gt__cpu_linear(gt_engine *engine, const gt_call *call);
/* attention.c: ATTENTION. */
gt_err gt__cpu_attention(gt_engine *engine, const gt_call *call);
/* sparse.c: SPARSE. */
gt_err gt__cpu_sparse(gt_engine *engine, const gt_call *call);
/* conv.c; conv_weight.c; pool.c: MAX_POOL and MAX_INDEX, POOL; resample.c: IM2COL, RESAMPLE. */
gt_err gt__cpu_conv(gt_engine *engine, const gt_call *call);
gt_err gt__cpu_conv_weight(gt_engine *engine, const gt_call *call);
gt_err gt__cpu_max_pool(gt_engine *engine, const gt_call *call);
gt_err gt__cpu_average(gt_engine *engine, const gt_call *call);
gt_err gt__cpu_im2col(gt_engine *engine, const gt_call *call);
gt_err gt__cpu_resample(gt_engine *engine, const gt_call *call);
/* linalg.c: MATRIX, SOLVE. */
gt_err gt__cpu_linalg(gt_engine *engine, const gt_call *call);
/* movement.c: copy is CAST, COPY, and a RESHAPE that must copy. */
gt_err gt__cpu_copy(gt_engine *engine, const gt_call *call);
gt_err gt__cpu_cat(gt_engine *engine, const gt_call *call);
gt_err gt__cpu_triangle(gt_engine *engine, const gt_call *call);
gt_err gt__cpu_assign(gt_engine *engine, const gt_call *call);
/* index.c */
gt_err gt__cpu_take(gt_engine *engine, const gt_call *call);
gt_err gt__cpu_gather(gt_engine *engine, const gt_call *call);
gt_err gt__cpu_scatter(gt_engine *engine, const gt_call *call);
gt_err gt__cpu_wrap_index(gt_engine *engine, const gt_call *call);
gt_err gt__cpu_mask_index(gt_engine *engine, const gt_call *call);
/* sort.c */
gt_err gt__cpu_argsort(gt_engine *engine, const gt_call *call);
gt_err gt__cpu_topk(gt_engine *engine, const gt_call *call);
/* create.c */
gt_err gt__cpu_full(gt_engine *engine, const gt_call *call);
gt_err gt__cpu_arange(gt_engine *engine, const gt_call *call);
gt_err gt__cpu_eye(gt_engine *engine, const gt_call *call);
gt_err gt__cpu_random(gt_engine *engine, const gt_call *call);
/* sample.c */
gt_err gt__cpu_sample(gt_engine *engine, const gt_call *call);
/* norm.c */
gt_err gt__cpu_layer_norm(gt_engine *engine, const gt_call *call);
/* Rows of operands that are contiguous and of this compute type: x w b, or g x w. */
void gt__cpu_norm_rows(const gt_cpu *cpu, const gt_instruction *ins, gt_compute compute, const void *const *in,
                       int64_t rows, int64_t n, void *out);
/* Add the rows' part of the weight's gradient to n sums of the compute type. */
void gt__cpu_norm_sum(const gt_cpu *cpu, const gt_instruction *ins, gt_compute compute, const void *g,
                      const void *x, int64_t rows, int64_t n, void *sums);
/* channels.c: MOMENTS and BATCH_NORM. */
gt_err gt__cpu_channels(gt_engine *engine, const gt_call *call);
/* scan.c; softmax.c: SOFTMAX and SOFTMAX_BACKWARD; search.c */
gt_err gt__cpu_scan(gt_engine *engine, const gt_call *call);
gt_err gt__cpu_softmax(gt_engine *engine, const gt_call *call);
/* Rows of operands that are contiguous and of this compute type: x, or g y. */
void gt__cpu_softmax_rows(const gt_cpu *cpu, gt_opcode op, gt_compute compute, const void *const *in, int64_t rows,
                          int64_t n, void *out);
gt_err gt__cpu_search(gt_engine *engine, const gt_call *call);

#endif

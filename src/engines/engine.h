/*
 * engine.h: what executes instructions: one small vtable per kind of device.
 *
 * The worker owns tensors, views, poison and the pool; an engine owns raw memory and arithmetic. The worker checks
 * and infers before it calls: an engine never sees a bad shape, and its output is always allocated, contiguous and
 * distinct from its inputs (except ops marked GT_FLAG_CONSUMES, where out may be in[0] itself).
 * One engine, one file (or folder), one symbol: engines/cpu, engines/reference.c.
 */
#ifndef GT_ENGINES_ENGINE_H
#define GT_ENGINES_ENGINE_H

#include "core/instruction.h"

/* A strided window on an engine's memory. Strides are in elements and may be 0 (broadcast) or negative. */
typedef struct gt_view {
    void *data;      /* of element (0,...,0) */
    bool contiguous; /* row-major, no gaps */
    gt_meta meta;
    int64_t stride[GT_MAX_RANK];
} gt_view;

/* One computing instruction, resolved. Literals appear as 0-d views of bool, int64 or float64. */
typedef struct gt_call {
    gt_opcode op;
    gt_dtype compute;          /* elementwise: convert inputs to this, compute, convert to out's dtype */
    const gt_instruction *ins; /* imm[] and flags; table in op.h */
    const gt_slot *tail;
    unsigned operands;
    const gt_view *const *in;
    const gt_view *out;
} gt_call;

typedef struct gt_engine gt_engine;

typedef struct gt_engine_options {
    int threads; /* 0: decide from GT_NUM_THREADS, OPENBLAS_NUM_THREADS, OMP_NUM_THREADS, then the cores */
} gt_engine_options;

typedef struct gt_engine_ops {
    const char *name;
    bool host_memory; /* views are ordinary host memory: shared segments may be used in place */
    gt_err (*open)(const gt_engine_options *options, gt_engine **engine);
    void (*close)(gt_engine *engine);
    void *(*alloc)(gt_engine *engine, size_t bytes); /* 64-byte aligned; NULL when there is none */
    void (*release)(gt_engine *engine, void *memory, size_t bytes);
    gt_err (*write)(gt_engine *engine, void *to, const void *host, size_t bytes);
    gt_err (*read)(gt_engine *engine, const void *from, void *host, size_t bytes);
    gt_err (*run)(gt_engine *engine, const gt_call *call);
    gt_err (*sync)(gt_engine *engine);
} gt_engine_ops;

struct gt_engine {
    const gt_engine_ops *ops;
};

extern const gt_engine_ops gt__engine_cpu;
extern const gt_engine_ops gt__engine_reference;
extern const gt_engine_ops gt__engine_null;

/* "cpu", "reference", "null"; NULL or "" means the default. Unknown names fail with the list of known ones. */
gt_err gt__engine_find(const char *name, const gt_engine_ops **ops);

#endif

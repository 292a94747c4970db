/*
 * engine.h: executes instructions: one small vtable per kind of device.
 *
 * The worker owns tensors, views, poison and the pool; an engine owns raw memory and arithmetic. The worker checks
 * and infers before it calls: an engine never sees a bad shape, and its output is always allocated, contiguous and
 * distinct from its inputs (except ops marked GT_FLAG_CONSUMES, where out may be in[0] itself).
 *
 * An engine is one queue. It may be asynchronous: run, write and read then return a token before the work is done,
 * and `completed` reports tokens in the order in which they were given. Work takes effect in that order, too: work that
 * was queued before a release or a reuse of memory may still use that memory. The addresses an engine hands out
 * need not be readable by the host; nothing outside the engine touches them unless `host_memory` says so.
 *
 * One engine, one folder, one symbol: engines/cpu, engines/reference. An engine may also be a plug-in: plugin.h.
 */
#ifndef GT_ENGINES_ENGINE_H
#define GT_ENGINES_ENGINE_H

#include <stdatomic.h>
#include <time.h>

#include "core/cards.h"
#include "core/instruction.h"

/* Part of a plug-in's handshake: raised when anything in this file or plan.h changes. */
enum { GT_ENGINE_VERSION = 16 };

/* Work that an engine has accepted. Tokens grow. 0: the work is done. */
typedef uint64_t gt_token;

/* A strided window on an engine's memory. Strides are in elements and may be 0 (broadcast) or negative. */
typedef struct gt_view {
    void *data;      /* of element (0,...,0); NULL for a literal */
    bool contiguous; /* row-major, no gaps */
    gt_meta meta;
    int64_t stride[GT_MAX_RANK];
} gt_view;

/*
 * One computing instruction, resolved. Everything here is borrowed until `run` returns: an asynchronous engine
 * copies what it needs later.
 *
 * A literal operand is a number that the instruction itself carries: its bit is set in `literals`, the number is in
 * value[k], and in[k] is a 0-d view of dtype bool, int64 or float64 without data.
 */
typedef struct gt_call {
    gt_opcode op;
    gt_dtype compute;          /* elementwise: convert inputs to this, compute, convert to out's dtype */
    const gt_instruction *ins; /* imm[] and flags; table in op.h */
    const gt_slot *tail;
    unsigned operands;
    const gt_view *const *in;
    const gt_view *out;
    uint8_t literals;
    bool timed; /* asynchronous engines: report this work by a completion of its own, with its times */
    gt_imm value[GT_MAX_OPERANDS];
} gt_call;

/* Operand k of ins is a literal: its value, and a view of it for gt_call. */
static inline gt_imm gt__literal_operand(const gt_instruction *ins, unsigned k, gt_view *view)
{
    static const uint8_t dtypes[] = {
        [GT_LITERAL_BOOL] = GT_BOOL, [GT_LITERAL_INT] = GT_INT64, [GT_LITERAL_FLOAT] = GT_FLOAT64};
    gt_imm value = ins->literal[k];
    if (gt__literal(ins, k) == GT_LITERAL_BOOL) /* any bit is true; engines read the first byte, 0 or 1 */
        *(uint8_t *)&value = ins->literal[k].i != 0;
    view->data = NULL;
    view->contiguous = true;
    view->meta.numel = 1;
    view->meta.rank = 0;
    view->meta.dtype = dtypes[gt__literal(ins, k)];
    return value;
}

/* What an asynchronous engine reports of its work. Failures and timed work have completions of their own; one
 * completion may report many other tokens, by the last of them. */
typedef struct gt_completion {
    gt_token token;            /* it and everything before it is done */
    gt_err err;                /* of `token` itself: its result does not exist */
    const char *text;          /* err: why; valid until the next call of `completed` */
    unsigned step;             /* err of a program: the step that failed */
    uint64_t start_ns, end_ns; /* of `token` itself, CLOCK_MONOTONIC; 0: not measured */
} gt_completion;

/*
 * A collective that engines hold among themselves (NCCL), one call at each party. Parts and parties are those of the
 * record (core/instruction.h). Every party has its operand: what fails before is told without the engines.
 */
typedef struct gt_group_call {
    gt_opcode op;
    uint64_t tag; /* the same at all parties; no other collective has it */
    unsigned self, count;
    const gt_partner *party;
    const uint64_t *life;      /* by party: a number that no other worker ever has */
    unsigned axis, axis_after; /* of the parts before and after, where there are any */
    const gt_meta *whole;
    const gt_view *in, *out; /* contiguous; `in` is NULL where a party gives nothing (broadcast) */
    bool timed;              /* as in gt_call */
    bool anew;               /* the parties' circles differ: what was kept of earlier calls is of no use */
    /* Party 0's bytes to all. All parties call it equally often; for what they need to find each other. */
    gt_err (*share)(const struct gt_group_call *call, void *bytes, size_t size);
    /* How it went at each party, `err` with its text at this one. GT_OK, at all parties alike: well everywhere. */
    gt_err (*agree)(const struct gt_group_call *call, gt_err err);
    /* These two as long as the work is queued, in the thread that calls the engine. Why a party will not do its part of it: it is
     * gone, or has given up; GT_OK: it will. And giving up: that party hears `err` and its text. */
    gt_err (*lost)(void *context, uint64_t tag, int64_t worker, uint64_t life);
    void (*give_up)(void *context, uint64_t tag, int64_t worker, gt_err err);
    void *context;
} gt_group_call;

/* Instead of a circle's number: the engine declines. */
#define GT_NO_CIRCLE UINT64_MAX

/* Memory of an engine that others of its group may read: what they need to find it. Only they know what is in it. */
typedef struct gt_loan {
    uint64_t word[12];
} gt_loan;

typedef struct gt_engine gt_engine;
typedef struct gt_engine_ops gt_engine_ops;
typedef struct gt_plan gt_plan;       /* plan.h */
typedef struct gt_program gt_program; /* a plan that an engine compiled; opaque */

/*
 * How the worker ends work that takes long: its client is gone, or a limit is passed. An engine that can stop in the middle
 * of a call asks about every GT_CANCEL_MS; the others finish what they have begun.
 */
enum { GT_CANCEL_MS = 10 };

typedef struct gt_cancel {
    /* Called by the thread that called the engine. NULL: go on. Otherwise why the call must end: it fails with
     * GT_ERR_CANCELLED and this text, its result is undefined, and the engine is ready for the next call. */
    const char *(*look)(void *context);
    void *context;
    uint64_t
        step; /* an engine that runs a program counts its steps (gt__cancel_step): a limit is for each of them */
    _Atomic uint64_t *doing; /* the op of that step, for statistics; NULL: not wanted */
    /* When programs pause, CLOCK_MONOTONIC: work of other clients waits. 0: they do not. See run_program. */
    uint64_t pause_ns;
} gt_cancel;

/* A program begins a step, or several that the engine has joined: `op` is the first one's. */
static inline void gt__cancel_step(gt_cancel *cancel, unsigned op)
{
    if (!cancel)
        return;
    cancel->step++;
    if (cancel->doing)
        atomic_store_explicit(cancel->doing, op, memory_order_relaxed);
}

/* Whether a program should pause before its next step. */
static inline bool gt__cancel_pauses(const gt_cancel *cancel)
{
    struct timespec now;
    if (__builtin_expect(!cancel || !cancel->pause_ns, 1))
        return false;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec >= cancel->pause_ns;
}

typedef struct gt_engine_options {
    int threads; /* 0: decide from GT_NUM_THREADS, OPENBLAS_NUM_THREADS, OMP_NUM_THREADS, then the cores */
    /* The table whose `open` is called, for an `open` that serves several tables, as that of engines in Python does. An
     * engine that opens another one sets it. NULL: such an `open` fails. */
    const gt_engine_ops *ops;
    gt_cancel *cancel; /* borrowed until `close`; NULL: work is never cancelled */
} gt_engine_options;

struct gt_engine_ops {
    const char *name;
    bool host_memory;  /* the host may read what is complete, and segments of shared memory may be used in place */
    bool asynchronous; /* tokens may be other than 0; `completed` is implemented */
    gt_err (*open)(const gt_engine_options *options, gt_engine **engine);
    void (*close)(gt_engine *engine); /* waits for queued work */
    /* Bytes that tensors may take from now on. `sharers`: workers that share the device's memory, this one included. */
    uint64_t (*memory_limit)(gt_engine *engine, unsigned sharers);
    /* Which memory that is: engines that draw on the same memory answer the same number. Optional: the host's. */
    uint64_t (*memory_identity)(gt_engine *engine);
    /* 64-byte aligned. GT_ERR_MEMORY: there is no memory, and the text says why. */
    gt_err (*alloc)(gt_engine *engine, size_t bytes, void **memory);
    void (*release)(gt_engine *engine, void *memory, size_t bytes);
    size_t zeroed_from; /* blocks of so many bytes and more are zero when `alloc` returns them; 0: no block is */
    /* Optional. Set memory to zero, in the order of the queue; an error: it is not. Default: memset if the engine is synchronous
     * and its memory is the host's, else `write`. */
    gt_err (*clear)(gt_engine *engine, void *memory, size_t bytes);
    /* *token is 0 before each of these. An error: nothing was queued. Until the token is completed, the host's
     * memory must not change (write), or is undefined (read). `timed`: as in gt_call. */
    gt_err (*write)(gt_engine *engine, void *to, const void *host, size_t bytes, bool timed, gt_token *token);
    gt_err (*read)(gt_engine *engine, const void *from, void *host, size_t bytes, bool timed, gt_token *token);
    gt_err (*run)(gt_engine *engine, const gt_call *call, gt_token *token);
    /* Asynchronous engines: the next completion. `wait`: wait for it. False: none now, or, with `wait`, nothing is
     * queued. */
    bool (*completed)(gt_engine *engine, bool wait, gt_completion *completion);

    /* Optional. Why no call can succeed any more: the device is lost. Then the worker ends, so that others get its work. NULL: it
     * works. */
    const char *(*broken)(gt_engine *engine);
    /* Optional. No more work comes for now: start work that was held back to be batched. */
    void (*flush)(gt_engine *engine);
    /* Optional, together: run a plan as one program. compile may group steps and drop inner buffers (plan.h), and returns
     * GT_ERR_UNSUPPORTED to decline. The plan lives as long as the program. buffer[] has the address of each of the
     * plan's buffers. A failure is that of the first step that failed: *step is its number, or the completion's
     * `step` if the failure comes later. *step is 0 before the call. A synchronous engine may pause before a step that is
     * not its first (gt__cancel_pauses): it returns GT_ERR_INTERRUPTED with that step in *step, and is called again with it,
     * after other work. */
    gt_err (*compile)(gt_engine *engine, gt_plan *plan, gt_program **program);
    gt_err (*run_program)(gt_engine *engine, gt_program *program, void *const *buffer, bool timed, unsigned *step,
                          gt_token *token);
    void (*free_program)(gt_engine *engine, gt_program *program);
    bool
        fixed_addresses; /* programs run faster if addresses stay: slices that begin elsewhere in each run are copied */
    /* Optional, with `collective`: who holds collectives together: engines whose numbers have the same upper half, and no two of them the
     * same lower half, the seat, unless that is 0. 0: with none; the text says why. */
    uint64_t (*league)(gt_engine *engine);
    const char *league_name; /* GT_EXCHANGE must ask for it by this name, "nccl"; NULL: it need not */
    /* A collective of its own. The call is queued like `run`. GT_ERR_UNSUPPORTED, at all parties alike: the worker's serves. */
    gt_err (*collective)(gt_engine *engine, const gt_group_call *call, gt_token *token);
    /* Optional: what it has kept of earlier calls with these parties, the same number at each; 0: nothing; GT_NO_CIRCLE: it does not
     * take this call. Asked before each call: the parties compare, and if one declines the worker's collective serves. */
    uint64_t (*circle)(gt_engine *engine, const gt_group_call *call);
    /* Optional, with lend, borrow and give_back: engines that answer the same number (not 0) can do these with each other. */
    uint64_t (*group)(gt_engine *engine);
    /* Describe memory for the others; all work that writes to it is completed. It stays as it is until they are done. `outside`:
     * for another process. */
    gt_err (*lend)(gt_engine *engine, const void *memory, size_t bytes, bool outside, gt_loan *loan);
    /* Where this engine finds it, for operands of `run`. Ends with give_back, when the work that reads it is completed. */
    gt_err (*borrow)(gt_engine *engine, const gt_loan *loan, void **memory);
    void (*give_back)(gt_engine *engine, const gt_loan *loan);
    /* Optional, together: memory that libraries which move data (UCX) read and write by themselves. Its type, by their names: "cuda". */
    const char *memory_type;
    /* Before such a library gets it: where it finds it. All work that uses it is completed. */
    gt_err (*expose)(gt_engine *engine, void *memory, size_t bytes, void **address);
    /* By the thread that calls the library, once. It may run beside calls of the engine. May be NULL. */
    gt_err (*enter)(gt_engine *engine);
    /* Optional, together: host memory from which and to which large transfers go again and again, until `unpin`. False: it
     * cannot be pinned; transfers work without. No work that uses the memory is queued at unpin. */
    bool (*pin)(gt_engine *engine, void *memory, size_t bytes);
    void (*unpin)(gt_engine *engine, void *memory);
    /* Optional, for statistics: how many calls of an op this engine could not run itself and computed on the host. */
    uint32_t (*host_calls)(gt_engine *engine, gt_opcode op);
    /* Optional, for statistics: the PCI address of the NVIDIA card that it computes on, "0000:1b:00.0". False: there is none. The
     * worker asks the driver about it (core/cards.h). */
    bool (*card)(gt_engine *engine, char bus_id[GT_CARD_BUS_ID]);
};

struct gt_engine {
    const gt_engine_ops *ops;
};

extern const gt_engine_ops gt__engine_cpu;
extern const gt_engine_ops gt__engine_reference;
extern const gt_engine_ops gt__engine_null;

/* "cpu", "reference", "null", an engine of a language binding, or the name of a plug-in; NULL or "" means the default: cuda
 * where there is a GPU, else cpu. Unknown names fail with the list of known ones. */
gt_err gt__engine_find(const char *name, const gt_engine_ops **ops);

/* Engines of a language binding, which sets this before the first engine is looked for. Any thread may call these. */
typedef struct gt_engine_finder {
    /* *ops is NULL, without an error, if it has no engine of this name. Tables stay valid for ever. */
    gt_err (*find)(const char *name, const gt_engine_ops **ops);
    /* Names to list in error messages: "a, b"; "" for none. */
    void (*names)(char *text, size_t size);
} gt_engine_finder;
extern gt_engine_finder gt__engine_finder;

/* ---- for engines on host memory --------------------------------------------------------------------------- */

/*
 * The dtype that a single value, operand k of an elementwise row, is rounded to before it is used. Halves are multiplied and
 * divided by a number that is float32, as in PyTorch; the other rows round it to the halves' dtype.
 */
static inline gt_dtype gt__number_dtype(gt_opcode op, unsigned k, bool literal, gt_dtype compute)
{
    if (!gt__dtype_is_half(compute))
        return compute;
    bool kept = op == GT_OP_mul ? k == 1 || literal
                : op == GT_OP_lerp
                    ? k == 2 && literal
                    : k == 1 && (op == GT_OP_div || op == GT_OP_floor_divide || op == GT_OP_trunc_divide);
    return kept ? GT_FLOAT32 : compute;
}

/* Where the elements of operand k are; a literal's one element is in the call. */
static inline void *gt__call_data(const gt_call *call, unsigned k)
{
    return call->literals >> k & 1 ? (void *)&call->value[k] : call->in[k]->data;
}

/* Room for gt__call_on_host. */
typedef struct gt_host_call {
    gt_call call;
    const gt_view *in[GT_MAX_OPERANDS];
    gt_view literal[GT_MAX_OPERANDS];
} gt_host_call;

/* The same call with literals that look like any other operand: views on their values in `room`. */
static inline const gt_call *gt__call_on_host(const gt_call *call, gt_host_call *room)
{
    if (!call->literals)
        return call;
    /* Field by field: the call was just written, and a copy of it as a whole would wait for those writes. */
    room->call.op = call->op;
    room->call.compute = call->compute;
    room->call.ins = call->ins;
    room->call.tail = call->tail;
    room->call.operands = call->operands;
    room->call.out = call->out;
    room->call.literals = call->literals;
    room->call.timed = call->timed;
    for (unsigned k = 0; k < call->operands; k++) {
        room->in[k] = call->in[k];
        if (!(call->literals >> k & 1))
            continue;
        gt_view *literal = &room->literal[k];
        room->call.value[k] = call->value[k];
        literal->data = &room->call.value[k];
        literal->contiguous = true;
        literal->meta.numel = 1;
        literal->meta.rank = 0;
        literal->meta.dtype = call->in[k]->meta.dtype;
        room->in[k] = literal;
    }
    room->call.in = room->in;
    return &room->call;
}

#endif

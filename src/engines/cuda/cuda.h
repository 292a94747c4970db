/*
 * cuda.h: the CUDA engine's own state and the functions its files share.
 *
 *     api.c       the driver, the run-time compiler, cuBLASLt, cuDNN and NCCL, opened with dlopen
 *     heap.c      memory of the card
 *     queue.c     tokens, completions, failures and times: what is queued and what is done
 *     resident.c  small work by a kernel that stays, without launches
 *     transfer.c  host memory to the card and back, through pinned memory
 *     kernel.c    kernels by key: compiled once, kept in memory and on disk
 *     launch.c    a call as kernel launches
 *     batch.c     chains of several sequences as one launch
 *     product.c   matrix products by cuBLASLt
 *     convolution.c, dnn.c  convolutions by cuDNN
 *     share.c     memory that workers on one card lend to each other
 *     nccl.c, collective.c  collectives with other cards by NCCL: communicators, and moving the data
 *     fallback.c  calls that the card has no kernel for, on the host
 *     program.c   plans, as CUDA graphs
 *     cuda.c      the engine's table; opening and closing
 *     generate.h  from calls to launches, and from keys to source; knows nothing of the driver
 *     chain.h     steps of a plan that are one launch; the same
 *
 * Everything is queued on one stream, so memory is reused and released in the order of the calls.
 */
#ifndef GT_ENGINES_CUDA_CUDA_H
#define GT_ENGINES_CUDA_CUDA_H

#include <limits.h>
#include <string.h>

#include "engines/cuda/api.h"
#include "engines/cuda/chain.h"
#include "engines/cuda/generate.h"
#include "engines/cuda/heap.h"
#include "engines/engine.h"

/* An event that marks a place in the stream, for the times of what is before and after it. */
typedef struct gt_cuda_mark {
    CUevent event;
    unsigned references;
    struct gt_cuda_mark *next; /* in the spare list */
} gt_cuda_mark;

enum { GT_CUDA_STAMPS = 1024 }; /* in use at once */

/* When work of the resident kernel started and ended, by the card's clock; pinned. */
typedef struct gt_cuda_stamp {
    uint64_t start, end;
} gt_cuda_stamp;

/* Work whose end is more than a number: it may have failed on the card, or has failed already, or is timed. Several may
 * belong to one token, as the steps of a program do; they are in the order of the steps. */
typedef struct gt_cuda_item {
    gt_token token;         /* 0: not given yet */
    gt_cuda_errors *errors; /* a slot that a kernel may have written to, or NULL */
    bool keep_slot;         /* the slot belongs to a program */
    gt_cuda_mark *start, *end;
    double part;                /* of the time between them that is the item's */
    const gt_cuda_stamp *stamp; /* of work of the resident kernel, or NULL */
    uint64_t stamp_number;
    bool measured; /* start_ns and end_ns are known, and the marks and the stamp of no more use */
    uint64_t queued_ns, start_ns, end_ns;
    gt_err err; /* it has failed already */
    char *text;
    unsigned step;
    struct gt_cuda_comm *comm; /* of a collective, or NULL */
    uint64_t tag;              /* the collective's */
} gt_cuda_item;

/* A piece of a transfer in pinned memory. Until the token is done, [.., ring_end) of the ring is in use. */
typedef struct gt_cuda_piece {
    gt_token token;
    void *host; /* to copy the piece to; NULL: an upload, or a download that failed */
    const void *staged;
    size_t bytes;
    uint64_t ring_end;
} gt_cuda_piece;

/* Host memory that this worker has pinned. */
typedef struct gt_cuda_pin_range {
    const uint8_t *memory;
    size_t bytes;
} gt_cuda_pin_range;

/* What transfers did, for the log. */
typedef struct gt_cuda_traffic {
    uint64_t direct_bytes;            /* from or to pinned memory */
    uint64_t staged_bytes, staged_ns; /* through the ring; the time that the host took to copy them */
    uint64_t waited_ns;               /* for room in the ring */
} gt_cuda_traffic;

enum {
    GT_CUDA_PIECES = 256,
    GT_CUDA_ERROR_SLOTS = 1024,
};

typedef struct gt_cuda_kernels gt_cuda_kernels;           /* kernel.c */
typedef struct gt_cuda_products gt_cuda_products;         /* product.c */
typedef struct gt_cuda_resident gt_cuda_resident;         /* resident.c */
typedef struct gt_cuda_convolutions gt_cuda_convolutions; /* convolution.c */
typedef struct gt_cuda_batch gt_cuda_batch;               /* batch.c */

/* The call that is being queued. */
typedef struct gt_cuda_timing {
    bool timed;
    bool small;                 /* its last piece is one more small operation in a row: resident.c */
    gt_cuda_mark *start;        /* NULL: not timed, or not by events */
    double part;                /* of the work from there on that is the call's */
    const gt_cuda_stamp *stamp; /* NULL: not timed, or not by the resident kernel */
    uint64_t stamp_number;
    uint64_t queued_ns;
    gt_token before; /* number of the last piece of work before the call */
} gt_cuda_timing;

typedef struct gt_cuda {
    gt_engine engine; /* first */
    const gt_cuda_driver *driver;
    CUdevice device;
    CUcontext context;
    CUstream stream;
    gt_cuda_device card;
    size_t card_bytes;
    uint64_t identity;
    char card_name[96];
    gt_cuda_heap heap;
    struct gt_cuda_mapping *mappings; /* share.c: memory of other processes */
    bool shares_outside;              /* with other processes, too */
    gt_engine *host;                  /* the cpu engine: fallbacks, and copies by several threads */

    /* queue.c */
    uint64_t *counter; /* pinned: the last token that the stream has passed */
    CUdeviceptr counter_address;
    gt_token mail;    /* of the number that the resident kernel sends to the host; 0: there is none */
    gt_token last;    /* number of the last piece of work */
    gt_token given;   /* the last that the caller has */
    gt_token known;   /* the last that was reported */
    gt_token written; /* the last that the stream is told to write */
    gt_cuda_item *items;
    size_t item_first, item_count, item_capacity, item_open; /* a ring; item_open: without a token, at its end */
    gt_cuda_errors *errors;                                  /* pinned, a ring */
    CUdeviceptr errors_address;
    unsigned error_first, error_count;
    gt_cuda_mark *spare_marks,
        *last_mark; /* last_mark: the end of the last timed work, if nothing was queued since */
    CUevent base;   /* of the clock, at base_ns; NULL: none yet */
    uint64_t base_ns, last_end_ns;
    int64_t stamp_offset; /* from the card's clock of stamps to the host's: the least that was seen */
    uint64_t stamp_since_ns;
    uint64_t stamp_head,
        stamp_tail; /* numbers of the resident kernel's stamps: the next, and the first that is in use */
    char *told;     /* the text of the last completion */
    bool broken;
    char broken_text[256];

    /* transfer.c */
    uint8_t *ring; /* pinned */
    CUdeviceptr ring_address;
    uint64_t ring_head, ring_tail;
    gt_cuda_piece pieces[GT_CUDA_PIECES];
    unsigned piece_first, piece_count;
    gt_cuda_traffic traffic[2]; /* to the card, from the card */
    gt_cuda_pin_range *pins;
    unsigned pin_count;

    /* nccl.c */
    const gt_cuda_nccl *nccl;   /* NULL: there is none */
    struct gt_cuda_comm *comms; /* communicators */
    unsigned comm_count;
    uint64_t looked_ns; /* for parties that are gone */

    gt_cuda_kernels *kernels;
    gt_cuda_products *products;
    gt_cuda_convolutions *convolutions;
    gt_cuda_resident *resident; /* NULL: none */
    gt_cuda_batch *batch;       /* NULL: none yet */
    bool batch_waits;           /* it has a launch that is not queued yet */
    gt_cuda_timing running;
    gt_cuda_work work;            /* of the running call */
    bool capturing;               /* program.c: the stream is recorded, not executed */
    struct gt_program *recording; /* program.c: takes over scratch memory and error slots */
    uint64_t launches;
    uint32_t fallbacks[GT_OP_COUNT];
} gt_cuda;

static inline gt_cuda *gt__cuda(gt_engine *engine)
{
    return (gt_cuda *)engine;
}

/* Of a key without padding, whose size is a multiple of eight bytes. */
static inline uint64_t gt__cuda_hash(const void *key, size_t bytes)
{
    uint64_t hash = 0xcbf29ce484222325u, word;
    for (size_t at = 0; at < bytes; at += sizeof word) {
        memcpy(&word, (const char *)key + at, sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

/* A call of the driver failed: GT_ERR_MEMORY or GT_ERR_INTERNAL, with `what` and the driver's text. */
gt_err gt__cuda_fail(gt_cuda *cuda, int result, const char *what);
#define GT_CUDA_TRY(cuda, what, expression)                                                                       \
    do {                                                                                                          \
        int try_result_ = (expression);                                                                           \
        if (__builtin_expect(try_result_ != 0, 0))                                                                \
            return gt__cuda_fail(cuda, try_result_, what);                                                        \
    } while (0)

/* ---- queue.c ------------------------------------------------------------------------------------------------ */

gt_err gt__cuda_queue_open(gt_cuda *cuda);
/* Waits for queued work. */
void gt__cuda_queue_close(gt_cuda *cuda);
/* Work is queued: its number. */
gt_token gt__cuda_queue_number(gt_cuda *cuda);
/* The caller gets this number as its token; open items belong to it. */
void gt__cuda_queue_give(gt_cuda *cuda, gt_token number, gt_token *token);
/* Wait until the stream has passed a number. An error: the card is broken. */
gt_err gt__cuda_queue_wait(gt_cuda *cuda, gt_token token);
/* Tell the stream to write the numbers of all work that is queued. */
void gt__cuda_queue_flush(gt_cuda *cuda);
bool gt__cuda_queue_completed(gt_cuda *cuda, bool wait, gt_completion *completion);
/* An error that no later call can undo? Then the engine is broken, and says so from now on. */
bool gt__cuda_queue_check(gt_cuda *cuda);
/* From now on every call fails, since work whose token was given is lost. */
void gt__cuda_queue_break(gt_cuda *cuda, const char *why);
gt_token gt__cuda_queue_done(const gt_cuda *cuda);

/* One turn of waiting for what the card writes: spin, yield, then sleep. Zero at first. */
typedef struct gt_cuda_patience {
    unsigned turns, naps;
    uint64_t since_ns;
} gt_cuda_patience;
void gt__cuda_wait_a_little(gt_cuda *cuda, gt_cuda_patience *patience);
/* Pinned memory, and its address on the card. */
gt_err gt__cuda_pinned(gt_cuda *cuda, size_t bytes, bool zero, void **memory, CUdeviceptr *address);

/* An open item for a call that may fail on the card; its error slot, as the card sees it. */
gt_err gt__cuda_item_errors(gt_cuda *cuda, unsigned step, CUdeviceptr *address);
/* An open item for a collective. */
gt_err gt__cuda_item_comm(gt_cuda *cuda, struct gt_cuda_comm *comm, uint64_t tag);
/* Item k of those that are not settled, in their order. */
gt_cuda_item *gt__cuda_item_at(const gt_cuda *cuda, size_t k);
/* An open item with a slot of a program. */
gt_err gt__cuda_item_slot(gt_cuda *cuda, unsigned step, gt_cuda_errors *slot);
/* An open item that has failed, with the text of gt_error_text. */
gt_err gt__cuda_item_failed(gt_cuda *cuda, unsigned step, gt_err err);
/* Work whose token was given has failed, with the text of gt_error_text. Items behind it are open. */
gt_err gt__cuda_item_failed_later(gt_cuda *cuda, gt_token token, gt_err err);
/* An open item for work that the resident kernel times. Afterwards one of GT_CUDA_STAMPS stamps is free. */
gt_err gt__cuda_item_stamp(gt_cuda *cuda, const gt_cuda_timing *timing);
/* Around timed work. */
gt_err gt__cuda_item_start(gt_cuda *cuda, gt_cuda_mark **start);
/* part: of the time between the marks that is this work's. */
gt_err gt__cuda_item_end(gt_cuda *cuda, gt_cuda_mark *start, double part, uint64_t queued_ns);
/* Set the card's clock against the host's, if that is due. gt__cuda_item_start does it. */
gt_err gt__cuda_clock_set(gt_cuda *cuda);
/* A mark at this place of the stream, one reference. */
gt_err gt__cuda_mark_here(gt_cuda *cuda, gt_cuda_mark **out);
/* Wait for a program's token, and take what its steps wrote into their slots. No item refers to the slots afterwards, also
 * after an error. */
gt_err gt__cuda_items_collect(gt_cuda *cuda, gt_token token);
/* Drop open items: the call failed, and nothing was queued. */
void gt__cuda_items_drop(gt_cuda *cuda);
/* Work that is not timed comes: the last mark is not the start of what follows it. */
void gt__cuda_mark_drop(gt_cuda *cuda);
static inline void gt__cuda_mark_forget(gt_cuda *cuda)
{
    if (__builtin_expect(cuda->last_mark != NULL, 0))
        gt__cuda_mark_drop(cuda);
}
uint64_t gt__cuda_now_ns(void);

/* ---- cuda.c: memory, and around each call that is queued ---------------------------------------------------------- */

/* Memory of the heap. GT_ERR_INTERNAL: the card is broken. */
gt_err gt__cuda_take(gt_cuda *cuda, size_t bytes, uint64_t *address);

/* Before work that is not the resident kernel's is queued. */
void gt__cuda_launching(gt_cuda *cuda);
gt_err gt__cuda_begin(gt_cuda *cuda, bool timed);
/* The call's result `err` and its token. `number`: of the last piece, if it has one. */
gt_err gt__cuda_end(gt_cuda *cuda, gt_err err, gt_token number, gt_token *token);

/* ---- transfer.c ------------------------------------------------------------------------------------------------ */

gt_err gt__cuda_transfer_open(gt_cuda *cuda);
void gt__cuda_transfer_close(gt_cuda *cuda);
/* Queue a copy. When upload returns the host's memory may change, unless the memory is pinned: then from *number on. Of a
 * download, the host's memory is complete when gt__cuda_transfer_drain was called after its number was passed. */
gt_err gt__cuda_upload(gt_cuda *cuda, CUdeviceptr to, const void *host, size_t bytes, gt_token *number);
gt_err gt__cuda_download(gt_cuda *cuda, CUdeviceptr from, void *host, size_t bytes, gt_token *number);
/* Host memory that is used again and again: the driver copies from and to it directly. False: it does not. */
bool gt__cuda_pin(gt_cuda *cuda, void *memory, size_t bytes);
void gt__cuda_unpin(gt_cuda *cuda, void *memory);
void gt__cuda_transfer_report(const gt_cuda *cuda);
/* Copy the pieces that have arrived to the host's memory. */
void gt__cuda_transfer_drain(gt_cuda *cuda, gt_token done);
/* Downloads with a number above `since` failed: do not copy them to the host's memory, which may be gone. */
void gt__cuda_transfer_forget(gt_cuda *cuda, gt_token since);

/* ---- kernel.c --------------------------------------------------------------------------------------------------- */

gt_err gt__cuda_kernels_open(gt_cuda *cuda);
void gt__cuda_kernels_close(gt_cuda *cuda);
/* The kernel of a key; compiled if need be. GT_ERR_UNSUPPORTED: it cannot be compiled here, which was logged. */
gt_err gt__cuda_kernel(gt_cuda *cuda, const gt_cuda_launch *launch, CUfunction *function);

/* The binary of a source, kept on disk or compiled; free() it. Any thread. False: it cannot be had, which was logged. */
bool gt__cuda_binary(const gt_cuda *cuda, const char *source, const char *then, void **binary);

/* ---- resident.c: small work by a kernel that stays ------------------------------------------------------------------ */

gt_err gt__cuda_resident_open(gt_cuda *cuda);
/* Nothing is queued any more. */
void gt__cuda_resident_close(gt_cuda *cuda);
/* Queue a call there. GT_ERR_UNSUPPORTED: it does not go there. */
gt_err gt__cuda_resident_run(gt_cuda *cuda, const gt_call *call);
/* Queue a small copy between the card's memory and pinned memory, or between places of the card. `fence`: for the host. */
gt_err gt__cuda_resident_copy(gt_cuda *cuda, CUdeviceptr to, CUdeviceptr from, size_t bytes, bool fence);
/* Send a number of the card, of 1, 2, 4 or 8 bytes, to the host without a fence: the next piece of work, which the caller numbers.
 * One at a time. GT_ERR_UNSUPPORTED: not now. */
gt_err gt__cuda_resident_mail(gt_cuda *cuda, CUdeviceptr from, size_t bytes);
/* Has the mail arrived? Its bytes. */
bool gt__cuda_resident_arrived(const gt_cuda *cuda, uint8_t bytes[8]);
/* Queue an upload of a few hundred bytes, which are copied. */
gt_err gt__cuda_resident_put(gt_cuda *cuda, CUdeviceptr to, const void *host, size_t bytes);
/* The kernel leaves before whatever is queued next, or waits for all kernels. gt__cuda_settle calls it. */
void gt__cuda_resident_leave(gt_cuda *cuda);
/* Let the kernel write the numbers of all work that is queued. False: it does not run, so the stream must. */
bool gt__cuda_resident_flush(gt_cuda *cuda);

/* ---- batch.c: equal chains as one launch ------------------------------------------------------------------------------ */

/* Queue a chain whose kernel takes many, sooner or later; gt__cuda_batch_flush queues it now. */
gt_err gt__cuda_batch_add(gt_cuda *cuda, const gt_cuda_part *part, void *const *buffer);
/* Queue one that is a whole timed call, with those that wait, now. Its time is its part of the launch's. */
gt_err gt__cuda_batch_add_timed(gt_cuda *cuda, const gt_cuda_part *part, void *const *buffer);
/* Queue the launch that waits. If that fails, so do the calls whose chains are in it. */
void gt__cuda_batch_launch(gt_cuda *cuda);
static inline void gt__cuda_batch_flush(gt_cuda *cuda)
{
    if (__builtin_expect(cuda->batch_waits, 0))
        gt__cuda_batch_launch(cuda);
}
/* Before anything else goes to the stream or waits for it: what was held back is queued, and the resident kernel leaves. */
static inline void gt__cuda_settle(gt_cuda *cuda)
{
    gt__cuda_batch_flush(cuda);
    gt__cuda_resident_leave(cuda);
}

/* ---- share.c ------------------------------------------------------------------------------------------------------ */

uint64_t gt__cuda_group(gt_engine *engine);
gt_err gt__cuda_lend(gt_engine *engine, const void *memory, size_t bytes, bool outside, gt_loan *loan);
gt_err gt__cuda_borrow(gt_engine *engine, const gt_loan *loan, void **memory);
void gt__cuda_give_back(gt_engine *engine, const gt_loan *loan);
gt_err gt__cuda_expose(gt_engine *engine, void *memory, size_t bytes, void **address);
gt_err gt__cuda_enter(gt_engine *engine);
/* Let go of memory of processes that have ended; `all`: of all. */
void gt__cuda_mappings_close(gt_cuda *cuda, bool all);
/* A segment that other processes may have: one of so many bytes, or up to twice as many, that no engine uses; 0: none. And giving it back; false: it
 * is no such segment. */
uint64_t gt__cuda_lent_take(const gt_cuda *cuda, size_t bytes);
bool gt__cuda_lent_give(const gt_cuda *cuda, uint64_t address);

/* ---- nccl.c, collective.c --------------------------------------------------------------------------------------- */

uint64_t gt__cuda_league(gt_engine *engine);
uint64_t gt__cuda_circle(gt_engine *engine, const gt_group_call *call);
gt_err gt__cuda_collective(gt_engine *engine, const gt_group_call *call, gt_token *token);
gt_err gt__cuda_nccl_fail(const gt_cuda *cuda, int result, const char *what);
/* The communicator of a call's parties, made if need be. GT_ERR_UNSUPPORTED: it cannot be, at all parties alike. */
gt_err gt__cuda_comm(gt_cuda *cuda, const gt_group_call *call, struct gt_cuda_comm **comm);
ncclComm_t gt__cuda_comm_handle(const struct gt_cuda_comm *comm);
/* Whether it was not given up since: waiting for the stream may do that. */
bool gt__cuda_comm_stands(const gt_cuda *cuda, const gt_group_call *call, const struct gt_cuda_comm *comm);
/* NCCL has answered with `result`: wait until it is done on the host. */
gt_err gt__cuda_comm_settle(gt_cuda *cuda, struct gt_cuda_comm *comm, uint64_t tag, int result, const char *what);
/* Abort it: what is queued on it fails with `err` and the text that is set. `tell`: the other parties do not know yet. */
void gt__cuda_comm_drop(gt_cuda *cuda, struct gt_cuda_comm *comm, gt_err err, bool tell);
/* While waiting for the stream: give up a collective of which a party is gone. */
void gt__cuda_comms_look_now(gt_cuda *cuda);
static inline void gt__cuda_comms_look(gt_cuda *cuda)
{
    if (__builtin_expect(cuda->comms != NULL, 0))
        gt__cuda_comms_look_now(cuda);
}
/* Wait for all collectives that are queued, before the driver is called in ways that wait for the card without looking. */
void gt__cuda_comms_wait(gt_cuda *cuda);
/* The card is broken: the others need not wait. */
void gt__cuda_comms_give_up(gt_cuda *cuda);
void gt__cuda_comms_close(gt_cuda *cuda);

/* ---- launch.c, product.c, convolution.c, fallback.c: GT_ERR_UNSUPPORTED: nothing was queued, try the next ---------------------- */

/* Launch a kernel. A launch may need memory of the card: if there is none, the heap gives back what it can. */
gt_err gt__cuda_launch_now(gt_cuda *cuda, CUfunction function, gt_cuda_launch *launch);
#define GT_CUDA_NO_STEP UINT_MAX /* instead of a step: a copy that another kind of work needs */
gt_err gt__cuda_run_kernels(gt_cuda *cuda, const gt_call *call, unsigned step);
/* One launch, now, for chains that gt__cuda_chain_batch takes together. */
gt_err gt__cuda_run_chains(gt_cuda *cuda, const gt_cuda_part *parts, unsigned count, void *const *buffer);
void gt__cuda_products_close(gt_cuda *cuda);
gt_err gt__cuda_product(gt_cuda *cuda, const gt_call *call);
/* a @ b + bias. */
gt_err gt__cuda_linear(gt_cuda *cuda, const gt_call *call);
void gt__cuda_convolutions_close(gt_cuda *cuda);
gt_err gt__cuda_convolution(gt_cuda *cuda, const gt_call *call);
/* Waits for queued work. A failure becomes that of an open item. */
gt_err gt__cuda_fallback(gt_cuda *cuda, const gt_call *call, unsigned step);
void gt__cuda_fallback_report(const gt_cuda *cuda);
/* A call by the first of these that takes it; its token is not given yet. */
gt_err gt__cuda_execute(gt_cuda *cuda, const gt_call *call, unsigned step);

/* Scratch memory for work that is queued next; release it when the work is queued. */
gt_err gt__cuda_scratch_take(gt_cuda *cuda, size_t bytes, CUdeviceptr *address);
void gt__cuda_scratch_release(gt_cuda *cuda, CUdeviceptr address);

/* A launch without the stream: put the addresses that lowering does not know into its parameters. */
void gt__cuda_patch(gt_cuda_launch *launch, CUdeviceptr scratch, CUdeviceptr errors);

/* While a program is recorded: an error slot of its own for a step; and a launch, which is now the last node of the graph. */
CUdeviceptr gt__cuda_recorded_slot(gt_cuda *cuda, unsigned step);
gt_err gt__cuda_recorded_launch(gt_cuda *cuda, unsigned step, const gt_cuda_launch *launch, CUfunction function,
                                CUdeviceptr scratch, CUdeviceptr errors);

/* ---- program.c ---------------------------------------------------------------------------------------------------- */

gt_err gt__cuda_compile(gt_engine *engine, gt_plan *plan, gt_program **program);
gt_err gt__cuda_run_program(gt_engine *engine, gt_program *program, void *const *buffer, bool timed,
                            unsigned *step, gt_token *token);
void gt__cuda_free_program(gt_engine *engine, gt_program *program);

#endif

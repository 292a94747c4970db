/*
 * late.h: pending operations of an asynchronous engine, and the answers and messages that wait for them.
 *
 * A flight is a pending operation: the engine has queued it and has not completed it. Its result is GT_ENTRY_LATE: it
 * has memory and a shape, but the operation may still fail. A flight holds the flights of its operands. The engine
 * completes tokens in order, so the operands of a flight settle before it. The flight fails with an operand's failure
 * if there is one, else with the engine's. An entry checks its flight when it is next used.
 *
 * An action that must wait for a token (an answer, a message to another worker, the return of memory that the engine
 * reads) is an item in one queue, in the order of tokens. It waits for work queued before it, never for work queued
 * after it. Synchronous engines have no flights and no items: `busy` is false, and none of this costs anything.
 *
 * Place in the flow: run.c makes flights; worker.c calls gt__late_poll between records and waits here when it has
 * answers to send and no records to execute.
 */
#ifndef GT_WORKER_LATE_H
#define GT_WORKER_LATE_H

#include "engines/engine.h"
#include "worker/origin.h"

typedef struct gt_worker gt_worker;
typedef struct gt_poison gt_poison; /* store.h */

typedef struct gt_flight {
    uint32_t references;
    bool settled;
    bool follows;       /* timed: work of the record on the host came first; its time counts, too */
    uint8_t operands;   /* in operand[] */
    uint16_t timed_op;  /* the op that its duration counts for, `weight` times; 0: none */
    uint16_t record_op; /* timed: the op of its record, which differs in a hot path */
    uint32_t weight;
    uint64_t line; /* and the line (gt__line_key) */
    gt_token token;
    gt_poison *poison;   /* settled: why the operation failed; NULL if it succeeded */
    gt_origin origin;    /* the instruction */
    const gt_plan *plan; /* of a program: its completion says which step failed. NULL: one instruction */
    struct gt_flight *operand[GT_MAX_OPERANDS];
    struct gt_flight *more; /* stands for the operands beyond operand[]; also links the spare list */
} gt_flight;

/* What to do when a token is completed. `done` is that token's own completion, NULL if the engine reported it together
 * with others: then it succeeded. */
typedef void (*gt_late_action)(gt_worker *worker, void *object, const gt_completion *done);

typedef struct gt_late_item {
    gt_token token; /* when it is completed; not before items that came earlier */
    gt_token own;   /* the token that it was added for */
    gt_late_action action;
    void *object;
} gt_late_item;

typedef struct gt_late {
    gt_token last, done; /* the last token that the engine gave, and completed */
    gt_token last_owed;  /* of the last answer or message to another worker that waits here */
    unsigned answers;    /* items that are answers: later answers queue behind them */
    unsigned marks; /* of those answers, the ones to marks: only the dispatcher waits for them, and not for each */
    unsigned posts; /* items that are messages to other workers */
    size_t host_bytes;   /* host memory that pending answers and messages hold */
    bool record_is_late; /* the engine has queued the current record and not completed it */
    bool record_is_told; /* and the engine will report all of its duration */
    gt_late_item *items; /* ring */
    size_t first, count, capacity;
    gt_flight *spare;
} gt_late;

/* Is there work that is not completed? */
static inline bool gt__late_busy(const gt_late *late)
{
    return late->last != late->done;
}

/* The engine accepted work: remember its token. */
static inline void gt__late_given(gt_late *late, gt_token token)
{
    if (token)
        late->last = token;
}

/* Run `action` when a token is completed: at once if it is completed, or, without memory for an item, after a wait.
 * Items run in the order they were added. Returns the token that the item waits for. */
gt_token gt__late_when(gt_worker *worker, gt_token token, gt_late_action action, void *object);

/* A new flight for the work with this token, one reference for the caller. Borrows the operands' flights, which may be
 * NULL. Without memory it waits for the work and returns NULL; *err is the work's failure. */
gt_flight *gt__late_fly(gt_worker *worker, gt_token token, const gt_origin *origin, gt_flight *const *operands,
                        unsigned count, gt_err *err);
void gt__flight_release(gt_late *late, gt_flight *flight);

/* Process the engine's completions, without waiting. */
void gt__late_poll(gt_worker *worker);
/* Wait until the engine has completed something. */
void gt__late_step(gt_worker *worker);
/* Wait for a token; the result is its own failure. */
gt_err gt__late_wait(gt_worker *worker, gt_token token);
/* Wait for all queued work. */
void gt__late_drain(gt_worker *worker);
/* Before the worker waits for another worker: send its pending answers and messages. Otherwise the two workers could
 * deadlock, and clients would wait for a worker that they do not use. */
void gt__late_pay(gt_worker *worker);
/* Before an answer or message takes `bytes` of host memory: wait while pending ones hold too much. */
void gt__late_make_room(gt_worker *worker, size_t bytes);
/* The op of the first operation that is not completed; 0: not known. */
unsigned gt__late_first_op(const gt_late *late);
/* The largest token of the flights, of which some may be NULL; 0 if none. */
gt_token gt__late_latest(gt_flight *const *flights, unsigned count);
void gt__late_free(gt_late *late);

#endif

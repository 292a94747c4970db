/*
 * late.h: what a worker owes while an asynchronous engine works.
 *
 * Work that an engine has queued and not finished has a flight, and the tensors it makes are GT_ENTRY_LATE: they have
 * memory and a shape, but whether they exist is not known yet. A flight knows the flights of its operands. Tokens are
 * completed in order, so when a flight is settled its operands are: it fails if they did, with their failure, and
 * otherwise if the engine says so. Entries look at their flight when they are next used.
 *
 * Whatever must wait for a token (an answer, a message to another worker, the return of memory that the engine reads)
 * is an item in one queue, in the order of tokens: nothing waits for the whole engine. Synchronous engines have no
 * flights and no items: `busy` is false, and none of this costs anything.
 *
 * Place in the flow: run.c makes flights; worker.c calls gt__late_poll between records and waits here when it has
 * answers to give and nothing else to do.
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
    bool timed;       /* its duration counts, `weight` times */
    uint8_t operands; /* in operand[] */
    uint32_t weight;
    gt_token token;
    gt_poison *poison;   /* settled: why the result does not exist; NULL: it does */
    gt_origin origin;    /* the instruction */
    const gt_plan *plan; /* of a program: its completion says which step failed. NULL: one instruction */
    struct gt_flight *operand[GT_MAX_OPERANDS];
    struct gt_flight
        *more; /* of a long list of operands: a flight that stands for the rest; also the spare list */
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
    gt_token last, done; /* the last token that was given, and completed */
    gt_token last_owed;  /* of the last answer, or message to another worker, that waits here */
    unsigned answers;    /* items that are answers: those that come later go behind them */
    unsigned posts;      /* items that are messages to other workers */
    size_t host_bytes;   /* of answers and messages on their way through host memory */
    bool record_is_late; /* the record being executed is not done when this returns */
    bool record_is_told; /* and the engine will say how long it took */
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

/* Do something when a token is completed; at once if it is, or if there is no memory to remember it (then this waits).
 * Items run in the order they were added. The result is the token that it waits for now. */
gt_token gt__late_when(gt_worker *worker, gt_token token, gt_late_action action, void *object);

/* A flight for work with this token, on these operands' flights (NULL: none; borrowed), one reference for the caller.
 * NULL: no memory, and the work has been waited for; *err is its failure. */
gt_flight *gt__late_fly(gt_worker *worker, gt_token token, const gt_origin *origin, gt_flight *const *operands,
                        unsigned count, gt_err *err);
void gt__flight_release(gt_late *late, gt_flight *flight);

/* Take what the engine has completed, without waiting. */
void gt__late_poll(gt_worker *worker);
/* Wait until the engine has completed something. */
void gt__late_step(gt_worker *worker);
/* Wait for a token; the result is its own failure. */
gt_err gt__late_wait(gt_worker *worker, gt_token token);
/* Wait for everything. */
void gt__late_drain(gt_worker *worker);
/* Before the worker waits for another one: what it owes (answers, messages) goes out. Else both could wait for each
 * other, and clients for a worker that is not theirs. */
void gt__late_pay(gt_worker *worker);
/* Before `bytes` of host memory are taken for an answer or a message: wait while too many are on their way. */
void gt__late_make_room(gt_worker *worker, size_t bytes);
/* The largest token among flights, NULL ones left out; 0: there is none. */
gt_token gt__late_latest(gt_flight *const *flights, unsigned count);
void gt__late_free(gt_late *late);

#endif

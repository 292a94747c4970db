/*
 * loans.h: tensors that another worker's engine reads where they are. Engines of one group (engine.h) can reach each other's
 * memory, so what passes between their workers is a loan, which says where a tensor lies, and back a receipt when it
 * was read. Until then the lender keeps the memory as it is.
 *
 * Both workers of a pair know that they are of one group, by what the dispatcher told them of each other. So the receiver
 * knows that a loan comes instead of bytes.
 */
#ifndef GT_WORKER_PEERS_LOANS_H
#define GT_WORKER_PEERS_LOANS_H

#include "engines/engine.h"
#include "worker/peers/exchange.h"

typedef struct gt_worker gt_worker;
typedef struct gt_buffer gt_buffer;

/* What this worker has lent, until the receipts come: a queue. */
typedef struct gt_loans {
    struct gt_loan_out *first, *last;
} gt_loans;

/* A loan that was taken from another worker. */
typedef struct gt_borrowed {
    void *memory; /* for operands of the engine's calls */
    gt_loan loan;
    int32_t from;
    uint64_t tag;
    uint64_t record; /* gt_exchange.record of who borrowed it: the lender is the worker that had the index then */
} gt_borrowed;

/* Whether tensors go to and come from that worker as loans. */
bool gt__loans_with(const gt_worker *worker, int64_t other);
/* Lend memory that is complete: message 0 of the transfer `tag`. GT_ERR_MEMORY or the engine's error: nothing was sent. */
gt_err gt__loan_post(gt_worker *worker, int32_t to, uint64_t tag, const void *memory, size_t bytes,
                     gt_buffer *buffer);
/* Wait for message 0 of a transfer: a loan of so many bytes, or the failure that came instead. */
gt_err gt__loan_take(gt_worker *worker, int32_t from, uint64_t tag, size_t bytes, gt_borrowed *borrowed);
/* The engine reads it with work that ends with this token: then give it back. */
void gt__loan_return(gt_worker *worker, gt_token token, const gt_borrowed *borrowed);
/* Whether gt__loan_take would return at once. */
bool gt__loan_has_come(gt_worker *worker, int32_t from, uint64_t tag);
/* Release what other workers have read. Never waits. */
void gt__loans_reclaim(gt_worker *worker);
/* Before the worker leaves: wait a while until the others have read what it lent, then release everything. */
void gt__loans_end(gt_worker *worker);

#endif

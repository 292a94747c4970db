/* loans.c: see loans.h. */
#include "worker/peers/loans.h"

#include <stdlib.h>
#include <string.h>

#include "link/link.h"
#include "worker/worker.h"

enum {
    LOAN = 0,           /* the number of its message */
    PATIENCE_MS = 2000, /* of a worker that leaves, for those that still read its memory */
    MOST_LOOKS = 64,    /* at loans that are not read yet, each time */
};

typedef struct gt_loan_out {
    struct gt_loan_out *next;
    int32_t to;
    uint64_t tag;
    uint64_t record; /* gt_exchange.record of who lent it: the receiver is the worker that had the index then */
    gt_buffer *buffer;
} loan_out;

/* The bytes of a message. */
typedef struct letter {
    uint64_t bytes; /* of the tensor */
    gt_loan loan;
} letter;

bool gt__loans_with(const gt_worker *worker, int64_t other)
{
    const gt_engine_ops *ops = worker->engine->ops;
    if (!ops->lend || other < 0 || other >= GT_MAX_PARTIES || other == worker->exchange->self)
        return false;
    uint64_t group = gt__worker_meant(worker, other)->group;
    return group && group == worker->group;
}

/* ---- lending ------------------------------------------------------------------------------------------------ */

static void append(gt_loans *loans, loan_out *out)
{
    out->next = NULL;
    *(loans->first ? &loans->last->next : &loans->first) = out;
    loans->last = out;
}

static loan_out *take_first(gt_loans *loans)
{
    loan_out *out = loans->first;
    loans->first = out->next;
    return out;
}

gt_err gt__loan_post(gt_worker *worker, int32_t to, uint64_t tag, const void *memory, size_t bytes,
                     gt_buffer *buffer)
{
    gt_engine *engine = worker->engine;
    letter content = {.bytes = bytes};
    loan_out *out = malloc(sizeof *out);
    gt_err err = out ? GT_OK : gt__fail(GT_ERR_MEMORY, "out of memory");
    if (err == GT_OK && bytes)
        err = engine->ops->lend(engine, memory, bytes, !worker->exchange->ops->by_reference, &content.loan);
    if (err == GT_OK)
        err = gt__exchange_post(worker->exchange, to, tag, LOAN, &content, sizeof content, NULL);
    if (err != GT_OK) {
        free(out);
        return err;
    }
    buffer->references++;
    *out = (loan_out){.to = to, .tag = tag, .record = worker->exchange->record, .buffer = buffer};
    append(&worker->loans, out);
    return GT_OK;
}

/* Whether the receipt has come, or none will come any more. */
static bool is_settled(gt_worker *worker, const loan_out *out, int timeout_ms)
{
    gt_exchange *exchange = worker->exchange;
    gt_message *receipt = NULL;
    uint64_t at_hand = exchange->record;
    exchange->record = out->record;
    bool settled = gt__exchange_ready(exchange, out->to, out->tag, GT_NOTE_RECEIPT, timeout_ms);
    if (settled && gt__exchange_take(exchange, out->to, out->tag, GT_NOTE_RECEIPT, &receipt) == GT_OK)
        exchange->ops->done(exchange, receipt);
    exchange->record = at_hand;
    return settled;
}

static void release(gt_worker *worker, loan_out *out)
{
    gt__buffer_release(worker->store, out->buffer);
    free(out);
}

/* The oldest come first: most often they are read in their order. Of those that are not read yet, some are looked at each time: there may
 * be as many as a worker has tensors. */
void gt__loans_reclaim(gt_worker *worker)
{
    gt_loans *loans = &worker->loans;
    const loan_out *waits = NULL; /* the first that does */
    for (unsigned looks = 0; loans->first && loans->first != waits && looks < MOST_LOOKS;) {
        loan_out *out = take_first(loans);
        if (is_settled(worker, out, 0)) {
            release(worker, out);
            continue;
        }
        append(loans, out);
        waits = waits ? waits : out;
        looks++;
    }
}

void gt__loans_end(gt_worker *worker)
{
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    const atomic_bool *stop = worker->exchange->stop;
    worker->exchange->stop = NULL; /* that it leaves does not end this wait */
    while (worker->loans.first) {
        int left = gt__remaining_ms(deadline);
        loan_out *out = take_first(&worker->loans);
        is_settled(worker, out, left > 0 ? left : 0);
        release(worker, out);
    }
    worker->exchange->stop = stop;
}

/* ---- borrowing ---------------------------------------------------------------------------------------------- */

static void send_receipt(gt_worker *worker, const gt_borrowed *borrowed)
{
    gt_exchange *exchange = worker->exchange;
    uint64_t at_hand = exchange->record;
    exchange->record = borrowed->record;
    if (gt__exchange_post(exchange, borrowed->from, borrowed->tag, GT_NOTE_RECEIPT, NULL, 0, NULL) != GT_OK)
        gt__exchange_post_failure(exchange, borrowed->from, borrowed->tag, GT_NOTE_RECEIPT, GT_ERR_MEMORY, "");
    exchange->record = at_hand;
}

bool gt__loan_has_come(gt_worker *worker, int32_t from, uint64_t tag)
{
    return gt__exchange_ready(worker->exchange, from, tag, LOAN, 0);
}

gt_err gt__loan_take(gt_worker *worker, int32_t from, uint64_t tag, size_t bytes, gt_borrowed *borrowed)
{
    gt_exchange *exchange = worker->exchange;
    gt_engine *engine = worker->engine;
    gt_message *message = NULL;
    letter content;
    GT_TRY(gt__exchange_take(exchange, from, tag, LOAN, &message));
    if (message->err != GT_OK || message->bytes != sizeof content) {
        gt_err err =
            message->err != GT_OK
                ? gt__exchange_failure(exchange, message)
                : gt__fail(GT_ERR_PROTOCOL, "worker %d sent %zu bytes instead of a loan", from, message->bytes);
        exchange->ops->done(exchange, message);
        return err;
    }
    memcpy(&content, message->data, sizeof content);
    exchange->ops->done(exchange, message);
    *borrowed = (gt_borrowed){.loan = content.loan, .from = from, .tag = tag, .record = exchange->record};
    gt_err err = content.bytes == bytes
                     ? GT_OK
                     : gt__fail(GT_ERR_PROTOCOL, "worker %d lent %llu bytes where %zu were expected", from,
                                (unsigned long long)content.bytes, bytes);
    if (err == GT_OK && bytes)
        err = engine->ops->borrow(engine, &content.loan, &borrowed->memory);
    if (err != GT_OK)
        send_receipt(worker, borrowed);
    return err;
}

static void give_back(gt_worker *worker, const gt_borrowed *borrowed)
{
    if (borrowed->memory)
        worker->engine->ops->give_back(worker->engine, &borrowed->loan);
    send_receipt(worker, borrowed);
}

/* The engine has read it. */
static void was_read(gt_worker *worker, void *object, const gt_completion *done)
{
    (void)done;
    worker->late.posts--;
    give_back(worker, object);
    free(object);
}

void gt__loan_return(gt_worker *worker, gt_token token, const gt_borrowed *borrowed)
{
    gt_borrowed *kept = token > worker->late.done ? malloc(sizeof *kept) : NULL;
    if (!kept) {
        gt__late_wait(worker, token);
        give_back(worker, borrowed);
        return;
    }
    *kept = *borrowed;
    worker->late.posts++;
    gt__late_when(worker, token, was_read, kept);
}

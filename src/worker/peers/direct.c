/* direct.c: see direct.h. */
#include "worker/peers/direct.h"

#include <stdlib.h>

#include "worker/worker.h"

enum { LOOK_UP_MS = 100 }; /* the worker may be told to stop */

bool gt__direct_to(const gt_worker *worker, int32_t to, size_t bytes)
{
    gt_exchange *exchange = worker->exchange;
    return exchange->direct && exchange->ops->takes_exposed(exchange, to, bytes);
}

gt_err gt__direct_post(gt_worker *worker, int32_t to, uint64_t tag, void *memory, size_t bytes, gt_buffer *buffer)
{
    gt_engine *engine = worker->engine;
    void *address;
    GT_TRY(engine->ops->expose(engine, memory, bytes, &address));
    buffer->references++;
    gt_err err = gt__exchange_post_tensor(worker->exchange, to, tag, address, bytes, buffer, true);
    if (err != GT_OK)
        buffer->references--;
    return err;
}

/* ---- arriving ----------------------------------------------------------------------------------------------- */

/* A message that waits until its memory is not used any more. */
typedef struct place {
    gt_message *message;
    gt_view view;
    gt_buffer *buffer;
    uint64_t first; /* bytes of it, which were read behind all queued work */
} place;

/* Takes the place. */
static void fetch(gt_worker *worker, void *object, const gt_completion *done)
{
    place *p = object;
    gt_engine *engine = worker->engine;
    gt_exchange *exchange = worker->exchange;
    void *address = NULL;
    gt_err err = done ? done->err : GT_OK;
    worker->late.posts--;
    if (err == GT_OK)
        err = engine->ops->expose(engine, p->view.data, p->message->bytes, &address);
    if (err != GT_OK) {
        gt__buffer_release(worker->store, p->buffer);
        p->buffer = NULL;
    }
    exchange->ops->fetch(exchange, p->message, err == GT_OK ? address : NULL, p->buffer);
    free(p);
}

/* The end of everything that is queued: of the clearing of the memory, too, which has no token. */
static gt_err queue_end(gt_worker *worker, place *p, gt_token *token)
{
    gt_engine *engine = worker->engine;
    size_t bytes = p->message->bytes < sizeof p->first ? p->message->bytes : sizeof p->first;
    *token = 0;
    if (!engine->ops->asynchronous)
        return GT_OK;
    gt_err err = engine->ops->read(engine, p->view.data, &p->first, bytes, false, token);
    gt__late_given(&worker->late, *token);
    return err;
}

/* Give a message that is announced memory. Without, it becomes a failure. */
static void place_message(gt_worker *worker, gt_message *message, size_t bytes)
{
    gt_exchange *exchange = worker->exchange;
    int64_t shape[GT_MAX_RANK] = {(int64_t)message->bytes};
    place *p = message->bytes == bytes ? malloc(sizeof *p) : NULL;
    gt_token token;
    if (!p) {
        exchange->ops->fetch(exchange, message, NULL, NULL);
        return;
    }
    *p = (place){.message = message};
    gt_err err = gt__meta_set(&p->view.meta, GT_UINT8, 1, shape);
    if (err == GT_OK)
        err = gt__store_allocate(worker->store, &p->view, &p->buffer);
    bool allocated = err == GT_OK;
    if (allocated)
        err = queue_end(worker, p, &token);
    if (err == GT_OK) {
        worker->late.posts++; /* what waits for it goes on like a message of ours */
        worker->late.last_owed = gt__late_when(worker, token, fetch, p);
        return;
    }
    if (allocated)
        gt__buffer_release(worker->store, p->buffer);
    exchange->ops->fetch(exchange, message, NULL, NULL);
    free(p);
}

bool gt__direct_has_come(gt_worker *worker, int32_t from, uint64_t tag, size_t bytes)
{
    gt_exchange *exchange = worker->exchange;
    gt_message *message = exchange->direct ? gt__exchange_claim(exchange, from, tag, 0) : NULL;
    if (message)
        place_message(worker, message, bytes);
    return gt__exchange_ready(exchange, from, tag, 0, 0);
}

void gt__direct_await(gt_worker *worker, int32_t from, uint64_t tag, size_t bytes)
{
    uint64_t seen = 0;
    while (worker->exchange->direct && !gt__direct_has_come(worker, from, tag, bytes)) {
        gt__late_pay(worker);
        gt__exchange_wait(worker->exchange, &seen, LOOK_UP_MS);
    }
}

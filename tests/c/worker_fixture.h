/* worker_fixture.h: a worker without links, that executes records on any engine. */
#ifndef GT_TESTS_WORKER_FIXTURE_H
#define GT_TESTS_WORKER_FIXTURE_H

#include <stdlib.h>

#include "check.h"
#include "worker/run.h"
#include "worker/upload.h"
#include "worker/worker.h"

static inline bool worker_open_threads(gt_worker *worker, const char *engine, int threads)
{
    const gt_engine_ops *ops;
    *worker = (gt_worker){.name = "test"};
    if (gt__engine_find(engine, &ops) != GT_OK) {
        fprintf(stderr, "%s\n", gt_error_text());
        return CHECK(false);
    }
    gt__canceller_init(worker);
    gt_engine_options options = {.threads = threads, .cancel = &worker->cancel.engine};
    if (!CHECK_EQ(ops->open(&options, &worker->engine), GT_OK) ||
        !CHECK_EQ(gt__store_new(worker->engine, &worker->store), GT_OK))
        return false;
    if (ops->asynchronous)
        gt__store_set_late(worker->store, worker);
    return true;
}

static inline bool worker_open(gt_worker *worker, const char *engine)
{
    return worker_open_threads(worker, engine, 1);
}

static inline void worker_close(gt_worker *worker)
{
    gt__late_drain(worker);
    gt__store_free(&worker->store);
    gt__late_free(&worker->late);
    worker->engine->ops->close(worker->engine);
}

/* Execute a record of at most 8 slots; its result's entry, settled if it can be. */
static inline gt_entry *execute(gt_worker *worker, gt_slot *record)
{
    unsigned length;
    CHECK_EQ(gt__instruction_check(record, 8, &length), GT_OK);
    gt__worker_execute(worker, &record->ins, record + 1);
    gt__late_poll(worker);
    gt_entry *entry = gt__store_entry(worker->store, record->ins.result);
    gt__store_settle(worker->store, entry);
    return entry;
}

/* Slot `slot` becomes 0, 1, 2, ... */
static inline gt_entry *execute_arange(gt_worker *worker, uint64_t slot, int64_t count)
{
    gt_slot record[8] = {{.ins = {.op = GT_OP_arange, .dtype = GT_INT64, .rank = 1, .tail = 1, .result = slot}}};
    record->ins.imm[1].i = 1;
    record[1].i64[0] = count;
    return execute(worker, record);
}

/* The elements of a tensor in a row, on the host; free() them. NULL: it does not exist. */
static inline void *read_tensor(gt_worker *worker, uint64_t slot, size_t *bytes)
{
    gt_entry *entry = gt__store_find(worker->store, slot);
    gt_whole whole;
    gt_token token = 0;
    gt__late_drain(worker);
    if (entry)
        gt__store_settle(worker->store, entry);
    if (!entry || !gt__entry_is_tensor(entry) || !CHECK_EQ(gt__worker_whole(worker, entry, &whole), GT_OK))
        return NULL;
    *bytes = gt__meta_bytes(&whole.view.meta);
    void *data = malloc(*bytes + 1);
    CHECK_EQ(worker->engine->ops->read(worker->engine, whole.view.data, data, *bytes, false, &token), GT_OK);
    gt__late_given(&worker->late, token);
    CHECK_EQ(gt__late_wait(worker, token), GT_OK);
    gt__whole_release(worker, &whole);
    return data;
}

#endif

/* test_execute.c: single records on a worker: poison, updates in place, uploads, shared segments. */
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "worker_fixture.h"

static void test_poison(const void *argument)
{
    (void)argument;
    gt_worker worker;
    if (!worker_open(&worker, "reference"))
        return;
    execute_arange(&worker, 1, 5);
    gt_slot take[8] = {{.ins = {.op = GT_OP_take, .result = 3, .operand = {1, 2}}}};
    gt_slot index[8] = {{.ins = {.op = GT_OP_full, .dtype = GT_INT64, .rank = 1, .tail = 1, .result = 2}}};
    index->ins.imm[0].i = 99;
    index[1].i64[0] = 2;
    execute(&worker, index);
    gt_entry *bad = execute(&worker, take);
    CHECK_EQ(bad->state, GT_ENTRY_POISON);
    CHECK_EQ(bad->poison->err, GT_ERR_INDEX);
    gt_poison *poison = bad->poison;
    for (uint64_t slot = 4; slot < 300; slot++) { /* each from the one before: the table grows meanwhile */
        gt_slot add[8] = {{.ins = {.op = GT_OP_add, .result = slot, .operand = {1, slot - 1}}}};
        CHECK(execute(&worker, add)->poison == poison);
    }
    CHECK_EQ(poison->references, 297);
    gt_slot missing[8] = {{.ins = {.op = GT_OP_neg, .result = 300, .operand = {1000}}}};
    CHECK_EQ(execute(&worker, missing)->poison->err, GT_ERR_INTERNAL);
    /* A slot that held poison can hold a tensor again. */
    CHECK_EQ(execute_arange(&worker, 3, 4)->state, GT_ENTRY_TENSOR);
    CHECK_EQ(poison->references, 296);
    worker_close(&worker);
}

/* a[::-1] = src, consuming a. */
static gt_entry *execute_reverse(gt_worker *worker, uint64_t a, uint64_t src, uint64_t result, int64_t count)
{
    gt_slot assign[8] = {
        {.ins = {
             .op = GT_OP_assign, .tail = 3, .flags = GT_FLAG_CONSUMES, .result = result, .operand = {a, src}}}};
    assign[1].i64[0] = count - 1;
    assign[2].i64[0] = -1;
    assign[3].i64[0] = count;
    return execute(worker, assign);
}

static bool holds(const gt_entry *entry, int64_t first, int64_t step, int64_t count)
{
    const int64_t *elements = entry->view.data;
    bool right = entry->state == GT_ENTRY_TENSOR && entry->view.meta.numel == count && entry->view.contiguous;
    for (int64_t k = 0; k < count && right; k++)
        right = elements[k] == first + k * step;
    return right;
}

static void test_in_place(const void *argument)
{
    (void)argument;
    gt_worker worker;
    if (!worker_open(&worker, "reference"))
        return;
    execute_arange(&worker, 1, 6);
    execute_arange(&worker, 2, 6);
    const void *memory = gt__store_entry(worker.store, 1)->view.data;
    CHECK(holds(execute_reverse(&worker, 1, 2, 3, 6), 5, -1, 6));
    CHECK(gt__store_entry(worker.store, 3)->view.data == memory); /* one owner: updated in place */
    CHECK_EQ(gt__store_entry(worker.store, 1)->state, GT_ENTRY_EMPTY);
    /* Somebody who looks at the same memory keeps the old values. */
    gt_slot whole[8] = {{.ins = {.op = GT_OP_permute, .result = 4, .operand = {2}}}};
    execute(&worker, whole);
    CHECK(holds(execute_reverse(&worker, 2, 4, 5, 6), 5, -1, 6));
    CHECK(holds(gt__store_entry(worker.store, 4), 0, 1, 6));
    /* And so does the source when it is the consumed tensor itself. */
    execute_arange(&worker, 6, 6);
    CHECK(holds(execute_reverse(&worker, 6, 6, 7, 6), 5, -1, 6));
    /* A failure consumes just the same. */
    gt_slot bad[8] = {
        {.ins = {.op = GT_OP_assign, .tail = 3, .flags = GT_FLAG_CONSUMES, .result = 8, .operand = {7, 99}}}};
    bad[2].i64[0] = 1;
    CHECK_EQ(execute(&worker, bad)->state, GT_ENTRY_POISON);
    CHECK_EQ(gt__store_entry(worker.store, 7)->state, GT_ENTRY_EMPTY);
    worker_close(&worker);
}

static void append(gt_worker *worker, uint64_t slot, uint64_t offset, uint64_t bytes, uint8_t value)
{
    static gt_slot data[1 + GT_MAX_TAIL];
    data->ins = (gt_instruction){.op = GT_OP_data, .tail = (uint16_t)gt__slots_for(bytes), .operand = {slot}};
    data->ins.imm[0].u = offset;
    data->ins.imm[1].u = bytes;
    memset(data + 1, value, bytes);
    gt__upload_append(worker, &data->ins, data + 1);
}

static gt_entry *start_upload(gt_worker *worker, uint64_t slot, int64_t bytes)
{
    static gt_slot upload[1 + GT_MAX_TAIL];
    unsigned tail = 1 + gt__slots_for((size_t)(bytes < GT_MAX_CHUNK ? bytes : GT_MAX_CHUNK));
    upload->ins =
        (gt_instruction){.op = GT_OP_upload, .dtype = GT_UINT8, .rank = 1, .tail = (uint16_t)tail, .result = slot};
    upload->ins.imm[0].i = bytes;
    upload[1].i64[0] = bytes;
    memset(upload + 2, 1, GT_MAX_CHUNK);
    unsigned length;
    CHECK_EQ(gt__instruction_check(upload, 1 + GT_MAX_TAIL, &length), GT_OK);
    gt__worker_execute(worker, &upload->ins, upload + 1);
    return gt__store_entry(worker->store, slot);
}

/* An incomplete upload must not show what the memory held before. */
static void test_uploads_in_pieces(const void *argument)
{
    (void)argument;
    gt_worker worker;
    enum { BYTES = 3 * GT_MAX_CHUNK - 100 };
    if (!worker_open(&worker, "reference"))
        return;
    start_upload(&worker, 1, BYTES);
    gt_slot copy[8] = {{.ins = {.op = GT_OP_copy, .result = 2, .operand = {1}}}};
    CHECK_EQ(execute(&worker, copy)->state, GT_ENTRY_POISON);
    append(&worker, 1, GT_MAX_CHUNK, GT_MAX_CHUNK, 2);
    CHECK_EQ(execute(&worker, copy)->state, GT_ENTRY_POISON);
    append(&worker, 1, 2 * GT_MAX_CHUNK, GT_MAX_CHUNK - 100, 3);
    const gt_entry *whole = execute(&worker, copy);
    if (CHECK_EQ(whole->state, GT_ENTRY_TENSOR)) {
        const uint8_t *bytes = whole->view.data;
        CHECK(bytes[0] == 1 && bytes[GT_MAX_CHUNK] == 2 && bytes[2 * GT_MAX_CHUNK] == 3 && bytes[BYTES - 1] == 3);
    }
    /* Pieces out of order, too long, or of nothing. */
    start_upload(&worker, 3, BYTES);
    append(&worker, 3, 2 * GT_MAX_CHUNK, 10, 2);
    CHECK_EQ(gt__store_entry(worker.store, 3)->state, GT_ENTRY_POISON);
    start_upload(&worker, 4, GT_MAX_CHUNK + 10);
    append(&worker, 4, GT_MAX_CHUNK, 11, 2);
    CHECK_EQ(gt__store_entry(worker.store, 4)->state, GT_ENTRY_POISON);
    execute_arange(&worker, 5, 3);
    append(&worker, 5, 24, 8, 2);
    append(&worker, 77, 0, 8, 2);
    CHECK_EQ(start_upload(&worker, 6, 0)->state, GT_ENTRY_TENSOR);
    CHECK_EQ(start_upload(&worker, 7, GT_MAX_CHUNK)->state, GT_ENTRY_TENSOR);
    worker_close(&worker);
}

/* ---- segments and failures ---------------------------------------------------------------------------------- */

static gt_segment *only_segment; /* what the link below has, under any number */

static gt_segment *find_only_segment(gt_link *link, uint64_t id)
{
    (void)link;
    (void)id;
    return only_segment;
}

static gt_err failing_write(gt_engine *engine, void *to, const void *host, size_t bytes, bool timed,
                            gt_token *token)
{
    (void)engine;
    (void)to;
    (void)host;
    (void)timed;
    (void)token;
    return gt__fail(GT_ERR_INTERNAL, "the device did not take %zu bytes", bytes);
}

static gt_err failing_run(gt_engine *engine, const gt_call *call, gt_token *token)
{
    (void)token;
    (void)engine;
    (void)call;
    return gt__fail(GT_ERR_INTERNAL, "the device did not compute");
}

static gt_entry *upload_segment(gt_worker *worker, gt_dtype dtype, uint64_t slot, int64_t bytes)
{
    gt_slot upload[8] = {
        {.ins = {.op = GT_OP_upload, .dtype = (uint8_t)dtype, .rank = 1, .tail = 1, .result = slot}}};
    upload->ins.imm[0].i = bytes;
    upload[1].i64[0] = bytes / (int64_t)gt__dtype_size(dtype);
    upload->ins.imm[1].u = 1;
    if (only_segment->busy)
        gt__segment_give(only_segment);
    return execute(worker, upload);
}

static void test_failed_uploads(const void *argument)
{
    (void)argument;
    enum { BYTES = 100000 };
    static const gt_link_ops link_ops = {.segment = find_only_segment};
    gt_link link = {.ops = &link_ops};
    gt_worker worker;
    if (!worker_open(&worker, "reference") || !CHECK_EQ(gt__segment_new(BYTES, &only_segment), GT_OK))
        return;
    worker.link = &link;
    gt_engine_ops failing = *worker.engine->ops;
    failing.write = failing_write;
    CHECK_EQ(start_upload(&worker, 1, 2 * GT_MAX_CHUNK)->state, GT_ENTRY_FILLING);
    gt__store_clear(worker.store, gt__store_entry(worker.store, 1));
    CHECK_EQ(upload_segment(&worker, GT_UINT8, 2, BYTES)->state, GT_ENTRY_TENSOR);
    CHECK_EQ(atomic_load(only_segment->busy), 0); /* copied */
    gt__store_clear(worker.store, gt__store_entry(worker.store, 2));
    const gt_engine_ops *works = worker.engine->ops;
    start_upload(&worker, 3, 2 * GT_MAX_CHUNK);
    worker.engine->ops = &failing;
    append(&worker, 3, GT_MAX_CHUNK, GT_MAX_CHUNK, 2);
    CHECK_EQ(gt__store_entry(worker.store, 3)->state, GT_ENTRY_POISON);
    CHECK_EQ(start_upload(&worker, 4, 2 * GT_MAX_CHUNK)->state, GT_ENTRY_POISON);
    CHECK_EQ(upload_segment(&worker, GT_UINT8, 5, BYTES)->state, GT_ENTRY_POISON);
    CHECK_EQ(atomic_load(only_segment->busy), 0);
    worker.engine->ops = works;
    CHECK_EQ(upload_segment(&worker, GT_UINT8, 6, 100 * BYTES)->state, GT_ENTRY_POISON);
    CHECK_EQ(atomic_load(only_segment->busy), 0);
    CHECK_EQ(worker.store->bytes_used, 0);
    /* A copy for a fetch that fails is given back once. */
    execute_arange(&worker, 7, 6);
    uint64_t used = worker.store->bytes_used;
    gt_entry turned = *gt__store_entry(worker.store, 7);
    turned.view.contiguous = false;
    failing = *works;
    failing.run = failing_run;
    worker.engine->ops = &failing;
    gt_whole whole;
    CHECK_EQ(gt__worker_whole(&worker, &turned, &whole), GT_ERR_INTERNAL);
    CHECK(!whole.buffer);
    CHECK_EQ(worker.store->bytes_used, used);
    worker.engine->ops = works;
    worker_close(&worker);
    gt__segment_release(only_segment);
}

/* A segment whose descriptor did not arrive: its owner hears of it, and the worker lives. */
static void test_lost_segment(const void *argument)
{
    (void)argument;
    static const gt_link_ops link_ops = {.segment = find_only_segment};
    gt_link link = {.ops = &link_ops};
    gt_worker worker;
    if (!worker_open(&worker, "reference") || !CHECK_EQ(gt__segment_adopt(1, -1, &only_segment), GT_OK))
        return;
    worker.link = &link;
    const gt_entry *entry = upload_segment(&worker, GT_FLOAT32, 1, 2 << 20);
    CHECK(entry->state == GT_ENTRY_POISON && entry->poison->err == GT_ERR_MEMORY);
    CHECK(strstr(entry->poison->text, "too many open files"));
    CHECK_EQ(execute_arange(&worker, 2, 6)->state, GT_ENTRY_TENSOR);
    worker_close(&worker);
    gt__segment_release(only_segment);
}

/* Poison that there is no memory for is another, which says so. */
static void test_no_memory_for_poison(const void *argument)
{
    (void)argument;
    if (CHECK_SANITIZED) {
        puts("skipped: a sanitizer ends the program where malloc would fail");
        return;
    }
    struct rlimit before, none;
    static char text[64 << 20];
    memset(text, 'x', sizeof text - 1);
    getrlimit(RLIMIT_AS, &before);
    none = before;
    none.rlim_cur = 1 << 20;
    setrlimit(RLIMIT_AS, &none);
    gt_poison *first = gt__poison_new(GT_ERR_INDEX, text), *second = gt__poison_new(GT_ERR_INDEX, text);
    setrlimit(RLIMIT_AS, &before);
    CHECK(first->err == GT_ERR_MEMORY && strstr(first->text, "out of memory"));
    CHECK(first == second);
    for (int k = 0; k < 2; k++)
        gt__poison_release(first);
    CHECK(strstr(first->text, "out of memory"));
}

/* A segment is used in place, but not by any number of tensors: each one in use is a descriptor with its client. */
static void test_adopted_segments(const void *argument)
{
    (void)argument;
    enum { BYTES = 1 << 20, MOST = 128 };
    static const gt_link_ops link_ops = {.segment = find_only_segment};
    gt_link link = {.ops = &link_ops};
    gt_worker worker;
    gt_segment *made;
    if (!worker_open(&worker, "reference") || !CHECK_EQ(gt__segment_new(BYTES, &made), GT_OK))
        return;
    worker.link = &link;
    CHECK_EQ(gt__segment_adopt(1, dup(made->fd), &only_segment), GT_OK);
    memset(made->data, 5, BYTES);
    atomic_store(made->busy, 1);
    gt__segment_done(only_segment); /* not mapped yet */
    CHECK_EQ(atomic_load(made->busy), 0);
    CHECK(only_segment->fd >= 0);
    CHECK_EQ(gt__segment_map(only_segment), GT_OK);
    CHECK_EQ(only_segment->fd, -1);
    for (uint64_t slot = 1; slot <= MOST + 2; slot++) {
        const gt_entry *entry = upload_segment(&worker, GT_FLOAT32, slot, BYTES);
        bool in_place = slot <= MOST;
        CHECK_EQ(gt__segment_busy(made), in_place);
        CHECK((entry->view.data == only_segment->data) == in_place);
        CHECK(((const uint8_t *)entry->view.data)[BYTES - 1] == 5);
    }
    gt__store_clear(worker.store, gt__store_entry(worker.store, 1));
    CHECK_EQ(atomic_load(made->busy), 0);
    CHECK(upload_segment(&worker, GT_FLOAT16, 1, BYTES)->view.data == only_segment->data);
    /* What can be an index or a mask is copied, so that it stays what it was when it was checked. */
    gt__store_clear(worker.store, gt__store_entry(worker.store, 1));
    for (int dtype = 0; dtype < GT_REAL_DTYPES; dtype++) {
        if (gt__dtype_is_float((gt_dtype)dtype))
            continue;
        CHECK(upload_segment(&worker, (gt_dtype)dtype, 1, BYTES)->view.data != only_segment->data);
        CHECK_EQ(atomic_load(made->busy), 0);
    }
    worker_close(&worker);
    gt__segment_release(only_segment);
    gt__segment_release(made);
}

/* ---- records that are not wanted ----------------------------------------------------------------------------- */

static gt_record_range unwanted;

static bool tell_unwanted(gt_link *link, uint64_t *word)
{
    (void)link;
    bool told = unwanted.end != 0;
    *word = gt__record_range_pack(unwanted);
    unwanted.end = 0;
    return told;
}

static void run_one(gt_worker *worker, gt_opcode op, uint64_t result, uint64_t operand, uint8_t flags)
{
    gt_slot record = {.ins = {.op = (uint16_t)op, .flags = flags, .result = result, .operand = {operand}}};
    CHECK(gt__worker_run_record(worker, &record));
    gt__late_drain(worker);
    gt__store_settle(worker->store, gt__store_entry(worker->store, result));
}

/* Records of a client that is gone fail without being run, their bookkeeping is done, and those of others are executed. */
static void test_unwanted(const void *engine)
{
    static const gt_link_ops link_ops = {.urged = tell_unwanted};
    gt_link link = {.ops = &link_ops};
    gt_worker worker;
    if (!worker_open(&worker, engine))
        return;
    gt__timing_init(&worker);
    worker.link = &link;
    execute_arange(&worker, 1, 2 * GT_TIMING_SMALL);
    unwanted = (gt_record_range){.first = 2, .end = 4};
    run_one(&worker, GT_OP_neg, 2, 1, 0);                /* record 1 */
    run_one(&worker, GT_OP_neg, 3, 1, 0);                /* 2: not run */
    run_one(&worker, GT_OP_neg, 4, 2, GT_FLAG_CONSUMES); /* 3: not run, and 2 is gone */
    run_one(&worker, GT_OP_neg, 5, 1, 0);                /* 4 */
    run_one(&worker, GT_OP_neg, 6, 3, 0);                /* 5: of a failed one */
    static const gt_entry_state expected[] = {[2] = GT_ENTRY_EMPTY,
                                              [3] = GT_ENTRY_POISON,
                                              [4] = GT_ENTRY_POISON,
                                              [5] = GT_ENTRY_TENSOR,
                                              [6] = GT_ENTRY_POISON};
    for (uint64_t slot = 2; slot <= 6; slot++)
        CHECK_EQ(gt__store_entry(worker.store, slot)->state, expected[slot]);
    for (uint64_t slot = 3; slot <= 6; slot += 3)
        CHECK(gt__store_entry(worker.store, slot)->poison->err == GT_ERR_CANCELLED);
    worker_close(&worker);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("poison", test_poison, NULL);
    check_run("in place", test_in_place, NULL);
    check_run("uploads in pieces", test_uploads_in_pieces, NULL);
    check_run("failed uploads", test_failed_uploads, NULL);
    check_run("lost segment", test_lost_segment, NULL);
    check_run("no memory for poison", test_no_memory_for_poison, NULL);
    check_run("adopted segments", test_adopted_segments, NULL);
    check_run("unwanted records", test_unwanted, "cpu");
    check_run("unwanted records of an asynchronous engine", test_unwanted, "late");
    return check_end();
}

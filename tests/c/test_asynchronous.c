/*
 * test_asynchronous.c: a worker whose engine finishes later (`late`): failures belong to their own instruction and client,
 * answers and messages wait for their own tensor, and bytes that the engine has yet to read stay as they are.
 */
#include <pthread.h>
#include <stdlib.h>

#include "link/hello.h"
#include "worker/answer.h"
#include "worker_fixture.h"

static const gt_worker_options no_options;

/* Slot + 1 is poison, when the engine gets there: an index is out of range in slot 1. */
static void execute_failure(gt_worker *worker, uint64_t slot)
{
    gt_slot index[8] = {{.ins = {.op = GT_OP_full, .dtype = GT_INT64, .rank = 1, .tail = 1, .result = slot}}};
    index->ins.imm[0].i = 99;
    index[1].i64[0] = 2;
    execute(worker, index);
    gt_slot take[8] = {{.ins = {.op = GT_OP_take, .result = slot + 1, .operand = {1, slot}}}};
    execute(worker, take);
}

/* `hold`: the engine starts nothing before it is waited for. */
static bool open_late(gt_worker *worker, bool hold)
{
    setenv("GT_LATE_HOLD", hold ? "1" : "0", 1);
    worker->options = NULL;
    if (!worker_open(worker, "late"))
        return false;
    worker->options = &no_options;
    return true;
}

/* A worker and another party of its exchange. */
static gt_exchange *join_board(gt_worker *worker, gt_board *board)
{
    gt_exchange *other;
    CHECK_EQ(gt__exchange_local(board, NULL, &worker->exchange), GT_OK);
    CHECK_EQ(gt__exchange_local(board, NULL, &other), GT_OK);
    worker->exchange->ops->join(worker->exchange, 0, 1, 1);
    other->ops->join(other, 1, 2, 1);
    return other;
}

static void leave_board(gt_worker *worker, gt_board *board, gt_exchange *other)
{
    worker_close(worker);
    other->ops->close(other);
    worker->exchange->ops->close(worker->exchange);
    gt__board_free(board);
}

/* ---- failures ------------------------------------------------------------------------------------------------- */

static void test_fetch_beside_a_failure(const void *argument)
{
    (void)argument;
    gt_worker worker;
    gt_link *other;
    size_t available;
    if (!open_late(&worker, true) || !CHECK_EQ(gt__link_memory_pair(&worker.link, &other), GT_OK))
        return;
    execute_arange(&worker, 1, 5);
    execute_arange(&worker, 2, 0);
    gt__late_drain(&worker);
    execute_failure(&worker, 10);
    gt_instruction good = {.op = GT_OP_fetch, .result = 7, .operand = {2}};
    gt_instruction bad = {.op = GT_OP_fetch, .result = 8, .operand = {11}};
    gt__worker_answer_fetch(&worker,
                            &good); /* an empty tensor: there is nothing to read, so it has no token of its own */
    gt__worker_answer_fetch(&worker, &bad);
    gt__late_drain(&worker);
    const gt_slot *answer = gt__link_peek(other, &available);
    if (CHECK(answer != NULL)) {
        CHECK_EQ(answer->ins.op, GT_OP_reply);
        CHECK_EQ(answer->ins.result, 7);
        answer += 1u + answer->ins.tail;
        CHECK_EQ(answer->ins.op, GT_OP_failure);
        CHECK_EQ(answer->ins.result, 8);
        CHECK_EQ(answer->ins.operand[0], GT_OP_take);
    }
    worker_close(&worker);
    gt__link_close(worker.link);
    gt__link_close(other);
}

/* The answer to a mark waits for the work before it, and says that the engine is asynchronous. It is no reason for the worker to
 * wait for the engine (worker.c): `marks` says so. */
static void test_mark(const void *argument)
{
    (void)argument;
    gt_worker worker;
    gt_link *other;
    size_t available;
    const gt_instruction mark = {.op = GT_OP_mark};
    if (!open_late(&worker, true) || !CHECK_EQ(gt__link_memory_pair(&worker.link, &other), GT_OK))
        return;
    execute_arange(&worker, 1, 5);
    gt__worker_answer_mark(&worker, &mark);
    CHECK(!gt__link_peek(other, &available));
    CHECK_EQ(worker.late.answers, 1);
    CHECK_EQ(worker.late.marks, 1);
    gt__late_drain(&worker);
    const gt_slot *answer = gt__link_peek(other, &available);
    if (CHECK(answer != NULL)) {
        unsigned length;
        CHECK_EQ(gt__instruction_check(answer, available, &length), GT_OK);
        CHECK_EQ(answer->ins.op, GT_OP_reply);
        CHECK_EQ(answer->ins.operand[0], 1);
    }
    CHECK_EQ(worker.late.answers, 0);
    CHECK_EQ(worker.late.marks, 0);
    worker_close(&worker);
    gt__link_close(worker.link);
    gt__link_close(other);
}

/* A tensor that is complete is fetched at once, whatever is queued. */
static void test_fetch_of_a_complete_tensor(const void *argument)
{
    (void)argument;
    gt_worker worker;
    gt_link *other;
    size_t available;
    if (!open_late(&worker, true) || !CHECK_EQ(gt__link_memory_pair(&worker.link, &other), GT_OK))
        return;
    execute_arange(&worker, 1, 5);
    gt__late_drain(&worker);
    execute_arange(&worker, 2, 5); /* held back: the engine does not start it */
    gt_instruction fetch = {.op = GT_OP_fetch, .result = 7, .operand = {1}};
    gt__worker_answer_fetch(&worker, &fetch);
    CHECK(gt__late_busy(&worker.late));
    const gt_slot *answer = gt__link_peek(other, &available);
    if (CHECK(answer != NULL)) {
        CHECK_EQ(answer->ins.result, 7);
        CHECK_EQ(answer[1].i64[4], 4);
    }
    worker_close(&worker);
    gt__link_close(worker.link);
    gt__link_close(other);
}

/* A good tensor, complete or late, is sent while an unrelated failure is the last work in the queue. */
static void test_send_beside_a_failure(const void *argument)
{
    bool complete = argument != NULL;
    gt_worker worker;
    gt_message *message = NULL;
    if (!open_late(&worker, true))
        return;
    gt_board *board = gt__board_new();
    gt_exchange *other = join_board(&worker, board);
    execute_arange(&worker, 1, 5);
    if (complete)
        gt__late_drain(&worker);
    execute_failure(&worker, 10);
    gt_instruction send = {.op = GT_OP_send, .operand = {1}};
    send.imm[0].i = 1;
    send.imm[1].u = 55;
    gt__peers_handle(&worker, &send, NULL);
    gt__late_pay(&worker);
    if (CHECK_EQ(gt__exchange_take(other, 0, 55, 0, &message), GT_OK)) {
        CHECK_EQ(message->err, GT_OK);
        CHECK_EQ(((const int64_t *)message->data)[4], 4);
        other->ops->done(other, message);
    }
    gt__late_drain(&worker);
    gt__peers_reclaim(&worker);
    leave_board(&worker, board, other);
}

/* Views, updates in place and what is computed from a failure fail with it; the rest is there. */
static void test_failure_spreads(const void *argument)
{
    (void)argument;
    gt_worker worker;
    if (!open_late(&worker, true))
        return;
    execute_arange(&worker, 1, 2);
    execute_failure(&worker, 10);
    gt_slot turned[8] = {{.ins = {.op = GT_OP_permute, .result = 12, .operand = {11}}}};
    gt_slot sum[8] = {{.ins = {.op = GT_OP_add, .result = 13, .operand = {12, 1}}}};
    gt_slot assign[8] = {
        {.ins = {.op = GT_OP_assign, .tail = 3, .flags = GT_FLAG_CONSUMES, .result = 14, .operand = {13, 1}}}};
    assign[2].i64[0] = 1;
    assign[3].i64[0] = 2;
    gt_slot good[8] = {{.ins = {.op = GT_OP_neg, .result = 15, .operand = {1}}}};
    execute(&worker, turned);
    execute(&worker, sum);
    execute(&worker, assign);
    execute(&worker, good);
    gt__late_drain(&worker);
    for (uint64_t slot = 11; slot <= 15; slot++) {
        gt_entry *entry = gt__store_find(worker.store, slot);
        if (slot == 13) /* consumed */
            continue;
        gt__store_settle(worker.store, entry);
        CHECK_EQ(entry->state, slot == 15 ? GT_ENTRY_TENSOR : GT_ENTRY_POISON);
        if (slot != 15)
            CHECK_EQ(entry->poison->origin.op, GT_OP_take);
    }
    worker_close(&worker);
}

/* An engine may answer at once (token 0) although an operand is late: its failure still counts. */
static gt_err (*late_run)(gt_engine *engine, const gt_call *call, gt_token *token);

static gt_err skip_neg(gt_engine *engine, const gt_call *call, gt_token *token)
{
    return call->op == GT_OP_neg ? GT_OK : late_run(engine, call, token);
}

static void test_done_at_once_on_late_operands(const void *argument)
{
    (void)argument;
    gt_worker worker;
    if (!open_late(&worker, true))
        return;
    gt_engine_ops ops = *worker.engine->ops;
    late_run = ops.run;
    ops.run = skip_neg;
    worker.engine->ops = &ops;
    execute_arange(&worker, 1, 5);
    execute_failure(&worker, 10);
    gt_slot neg[8] = {{.ins = {.op = GT_OP_neg, .result = 12, .operand = {11}}}};
    execute(&worker, neg);
    gt__late_drain(&worker);
    gt_entry *entry = gt__store_find(worker.store, 12);
    gt__store_settle(worker.store, entry);
    CHECK_EQ(entry->state, GT_ENTRY_POISON);
    worker_close(&worker);
}

/* What a busy engine is said to execute: its first operation that is not completed, and not the last record. */
static void test_doing(const void *argument)
{
    (void)argument;
    gt_worker worker;
    if (!open_late(&worker, true))
        return;
    gt__timing_init(&worker);
    execute_arange(&worker, 1, 2);
    gt__late_drain(&worker);
    CHECK_EQ(gt__late_first_op(&worker.late), GT_OP_INVALID);
    gt_slot exp[8] = {{.ins = {.op = GT_OP_exp, .result = 2, .operand = {1}}}};
    gt_slot neg[8] = {{.ins = {.op = GT_OP_neg, .result = 3, .operand = {1}}}};
    gt__worker_run_record(&worker, exp);
    gt__worker_run_record(&worker, neg);
    gt__timing_engine_wait(&worker);
    CHECK_EQ(gt__doing_op(worker.timing.statement->doing), GT_OP_exp);
    gt__late_wait(&worker, gt__store_find(worker.store, 2)->flight->token);
    gt__timing_engine_wait(&worker);
    CHECK_EQ(gt__doing_op(worker.timing.statement->doing), GT_OP_neg);
    worker_close(&worker);
}

/* ---- times ----------------------------------------------------------------------------------------------------- */

static bool (*late_completed)(gt_engine *engine, bool wait, gt_completion *completion);

static const uint64_t long_ns = 1000000000000; /* a thousand seconds */
static uint64_t takes_ns = 1000000000000;
static int timed_completions;

/* What is timed takes long, or takes_ns. */
static bool completed_after_long(gt_engine *engine, bool wait, gt_completion *completion)
{
    bool found = late_completed(engine, wait, completion);
    timed_completions += found && completion->start_ns;
    if (found && completion->start_ns)
        completion->end_ns = completion->start_ns + takes_ns;
    return found;
}

/* Open a worker on the late engine with its clock, whose timed work takes long. The engine starts nothing unasked. */
static bool open_slow(gt_worker *worker, gt_engine_ops *ops, bool watched)
{
    if (!open_late(worker, true))
        return false;
    gt__timing_init(worker);
    worker->timing.watched = watched;
    *ops = *worker->engine->ops;
    late_completed = ops->completed;
    ops->completed = completed_after_long;
    worker->engine->ops = ops;
    return true;
}

/* The time of an op in the worker's report is that of one execution. */
static void check_took_long(const gt_worker *worker, gt_opcode op)
{
    uint64_t ns = worker->timing.statement->row[op].ns;
    if (!CHECK(ns >= long_ns && ns < 2 * long_ns))
        fprintf(stderr, "%s took %llu ns\n", gt__op_table[op].name, (unsigned long long)ns);
}

/* The pieces of an upload are told with the time that writing took, not with that of queueing. */
static void test_time_of_uploads(const void *argument)
{
    bool watched = argument != NULL;
    gt_worker worker;
    gt_engine_ops ops;
    static gt_slot upload[1 + GT_MAX_TAIL];
    if (!open_slow(&worker, &ops, watched))
        return;
    upload->ins = (gt_instruction){.op = GT_OP_upload, .dtype = GT_UINT8, .rank = 1, .result = 5};
    upload->ins.tail = (uint16_t)(1 + gt__slots_for(GT_MAX_CHUNK));
    upload->ins.imm[0].u = GT_MAX_CHUNK + 64;
    upload[1].i64[0] = GT_MAX_CHUNK + 64;
    gt_slot data[2] = {{.ins = {.op = GT_OP_data, .tail = 1, .operand = {5}}}};
    data->ins.imm[0].u = GT_MAX_CHUNK;
    data->ins.imm[1].u = 64;
    gt__worker_run_record(&worker, upload);
    gt__worker_run_record(&worker, data);
    gt__late_drain(&worker);
    check_took_long(&worker, GT_OP_upload);
    check_took_long(&worker, GT_OP_data);
    CHECK_EQ(worker.timing.entry_count, watched ? 2 : 0);
    for (unsigned k = 0; k < worker.timing.entry_count; k++)
        CHECK(gt__tick_span_ns(&worker.timing.clock, worker.timing.entries[k].duration_ns) >= long_ns / 2);
    worker_close(&worker);
}

/* Few of many large instructions are measured, and count for the others; even fewer if they are short. */
static void test_time_of_many(const void *argument)
{
    bool is_short = argument != NULL;
    enum { TIMES = 1000, ELEMENTS = 2 * GT_TIMING_SMALL };
    const int average = is_short ? GT_TIMING_SHORT : GT_TIMING_LARGE;
    gt_worker worker;
    gt_engine_ops ops;
    if (!open_slow(&worker, &ops, false))
        return;
    takes_ns = is_short ? 1000 : long_ns;
    execute_arange(&worker, 1, ELEMENTS);
    gt__late_drain(&worker);
    timed_completions = 0;
    for (int k = 0; k < TIMES; k++) {
        gt_slot neg[8] = {{.ins = {.op = GT_OP_neg, .result = 2, .operand = {1}}}};
        gt__worker_run_record(&worker, neg);
        gt__late_drain(&worker);
    }
    uint64_t ns = worker.timing.statement->row[GT_OP_neg].ns,
             bytes = worker.timing.statement->row[GT_OP_neg].bytes;
    uint64_t fewest = TIMES - 2 * (uint64_t)average;
    CHECK(timed_completions <= GT_TIMING_FIRST + 4 * TIMES / average);
    CHECK(ns >= fewest * takes_ns && ns <= TIMES * takes_ns);
    CHECK(bytes >= fewest * ELEMENTS * 8 && bytes <= (uint64_t)TIMES * ELEMENTS * 8);
    takes_ns = long_ns;
    worker_close(&worker);
}

static void test_time_of_a_fetch(const void *argument)
{
    (void)argument;
    gt_worker worker;
    gt_engine_ops ops;
    gt_link *other;
    size_t available;
    if (!open_slow(&worker, &ops, false) || !CHECK_EQ(gt__link_memory_pair(&worker.link, &other), GT_OK))
        return;
    execute_arange(&worker, 1, 5);
    gt_slot fetch = {.ins = {.op = GT_OP_fetch, .result = 7, .operand = {1}}};
    gt__worker_run_record(&worker, &fetch);
    gt__late_drain(&worker);
    check_took_long(&worker, GT_OP_fetch);
    const gt_slot *answer = gt__link_peek(other, &available);
    if (CHECK(answer != NULL))
        CHECK_EQ(answer[1].i64[4], 4);
    worker_close(&worker);
    gt__link_close(worker.link);
    gt__link_close(other);
}

/* A worker sends what it owes before it waits for another worker, although its engine has not been asked for anything. */
static void test_answers_before_a_wait_for_a_peer(const void *argument)
{
    (void)argument;
    gt_worker worker;
    gt_link *client;
    size_t available;
    int64_t numbers[] = {1, 2, 3};
    if (!open_late(&worker, true) || !CHECK_EQ(gt__link_memory_pair(&worker.link, &client), GT_OK))
        return;
    gt_board *board = gt__board_new();
    gt_exchange *other = join_board(&worker, board);
    CHECK_EQ(gt__exchange_post(other, 0, 55, 0, numbers, sizeof numbers, NULL), GT_OK);
    execute_arange(&worker, 1, 5);
    gt_instruction fetch = {.op = GT_OP_fetch, .result = 7, .operand = {1}};
    gt__worker_answer_fetch(&worker, &fetch);
    CHECK(gt__link_peek(client, &available) == NULL);
    gt_slot receive[2] = {{.ins = {.op = GT_OP_recv, .dtype = GT_INT64, .rank = 1, .tail = 1, .result = 3}}};
    receive->ins.imm[0].i = 1;
    receive->ins.imm[1].u = 55;
    receive[1].i64[0] = 3;
    gt__peers_handle(&worker, &receive->ins, receive + 1);
    const gt_slot *answer = gt__link_peek(client, &available);
    if (CHECK(answer != NULL)) {
        CHECK_EQ(answer->ins.result, 7);
        CHECK_EQ(answer[1].i64[4], 4);
    }
    size_t bytes = 0;
    int64_t *received = read_tensor(&worker, 3, &bytes);
    CHECK(received && bytes == sizeof numbers && memcmp(received, numbers, bytes) == 0);
    free(received);
    leave_board(&worker, board, other);
    gt__link_close(worker.link);
    gt__link_close(client);
}

/* Messages that wait for the engine hold copies on the host, of 64 MiB together at most. */
static void test_host_copies_are_bounded(const void *argument)
{
    (void)argument;
    enum { BYTES = 24 << 20, MESSAGES = 5 };
    gt_worker worker;
    if (!open_late(&worker, true))
        return;
    gt_engine_ops ops = *worker.engine->ops;
    ops.host_memory = false; /* so that messages need copies */
    worker.engine->ops = &ops;
    gt_board *board = gt__board_new();
    gt_exchange *other = join_board(&worker, board);
    gt_slot full[8] = {{.ins = {.op = GT_OP_full, .dtype = GT_UINT8, .rank = 1, .tail = 1, .result = 1}}};
    full->ins.imm[0].i = 7;
    full[1].i64[0] = BYTES;
    execute(&worker, full);
    for (uint64_t k = 0; k < MESSAGES; k++) {
        gt_instruction send = {.op = GT_OP_send, .operand = {1}};
        send.imm[0].i = 1;
        send.imm[1].u = k;
        gt__peers_handle(&worker, &send, NULL);
        CHECK(worker.late.host_bytes >= BYTES && worker.late.host_bytes <= 64 << 20);
    }
    gt__late_drain(&worker);
    CHECK_EQ(worker.late.host_bytes, 0);
    for (uint64_t k = 0; k < MESSAGES; k++) {
        gt_message *message;
        if (!CHECK_EQ(gt__exchange_take(other, 0, k, 0, &message), GT_OK))
            break;
        CHECK(message->bytes == BYTES && ((const uint8_t *)message->data)[BYTES - 1] == 7);
        other->ops->done(other, message);
    }
    gt__peers_reclaim(&worker);
    leave_board(&worker, board, other);
}

/* One worker sends, another receives. The engines' memory is taken as closed to the host, so the sender reads it. */
static void test_time_of_a_move(const void *argument)
{
    (void)argument;
    gt_worker from, to;
    gt_engine_ops ops, other_ops;
    if (!open_slow(&from, &ops, true) || !open_late(&to, true))
        return;
    gt__timing_init(&to);
    other_ops = *to.engine->ops;
    other_ops.completed = completed_after_long;
    to.engine->ops = &other_ops;
    ops.host_memory = other_ops.host_memory = false;
    gt_board *board = gt__board_new();
    CHECK_EQ(gt__exchange_local(board, NULL, &from.exchange), GT_OK);
    CHECK_EQ(gt__exchange_local(board, NULL, &to.exchange), GT_OK);
    from.exchange->ops->join(from.exchange, 0, 1, 1);
    to.exchange->ops->join(to.exchange, 1, 2, 1);
    execute_arange(&from, 1, 5);
    gt_slot send = {.ins = {.op = GT_OP_send, .operand = {1}}};
    send.ins.imm[0].i = 1;
    send.ins.imm[1].u = 55;
    gt__worker_run_record(&from, &send);
    gt__late_drain(&from);
    check_took_long(&from, GT_OP_send);
    if (CHECK_EQ(from.timing.entry_count, 1))
        CHECK(gt__tick_span_ns(&from.timing.clock, from.timing.entries[0].duration_ns) >= long_ns / 2);
    gt_slot receive[2] = {{.ins = {.op = GT_OP_recv, .dtype = GT_INT64, .rank = 1, .tail = 1, .result = 3}}};
    receive->ins.imm[1].u = 55;
    receive[1].i64[0] = 5;
    gt__worker_run_record(&to, receive);
    gt__late_drain(&to);
    check_took_long(&to, GT_OP_recv);
    gt__peers_reclaim(&from);
    worker_close(&from);
    worker_close(&to);
    to.exchange->ops->close(to.exchange);
    from.exchange->ops->close(from.exchange);
    gt__board_free(board);
}

/* ---- uploads --------------------------------------------------------------------------------------------------- */

static gt_err (*engine_write)(gt_engine *engine, void *to, const void *host, size_t bytes, bool timed,
                              gt_token *token);
static int writes;

static gt_err second_write_fails(gt_engine *engine, void *to, const void *host, size_t bytes, bool timed,
                                 gt_token *token)
{
    return ++writes == 2 ? gt__fail(GT_ERR_MEMORY, "device error")
                         : engine_write(engine, to, host, bytes, timed, token);
}

static void test_failed_piece(const void *engine)
{
    gt_worker worker;
    static gt_slot upload[1 + GT_MAX_TAIL];
    int64_t bytes = GT_MAX_CHUNK + 64;
    setenv("GT_LATE_HOLD", "0", 1);
    if (!worker_open(&worker, engine))
        return;
    gt_engine_ops ops = *worker.engine->ops;
    engine_write = ops.write;
    writes = 0;
    ops.write = second_write_fails;
    worker.engine->ops = &ops;
    upload->ins = (gt_instruction){.op = GT_OP_upload, .dtype = GT_UINT8, .rank = 1, .result = 5};
    upload->ins.tail = (uint16_t)(1 + gt__slots_for(GT_MAX_CHUNK));
    upload->ins.imm[0].u = (uint64_t)bytes;
    upload[1].i64[0] = bytes;
    gt__worker_execute(&worker, &upload->ins, upload + 1);
    CHECK_EQ(gt__store_find(worker.store, 5)->state, GT_ENTRY_FILLING);
    gt_slot data[2] = {{.ins = {.op = GT_OP_data, .tail = 1, .operand = {5}, .site = 9}}};
    data->ins.imm[0].u = GT_MAX_CHUNK;
    data->ins.imm[1].u = 64;
    gt__upload_append(&worker, &data->ins, data + 1);
    const gt_entry *entry = gt__store_find(worker.store, 5);
    if (CHECK_EQ(entry->state, GT_ENTRY_POISON)) {
        CHECK_EQ(entry->poison->origin.op, GT_OP_upload);
        CHECK_EQ(entry->poison->origin.site, 9);
        CHECK(strcmp(entry->poison->text, "upload: device error (on test)") == 0);
    }
    worker_close(&worker);
}

enum { UPLOAD_BYTES = 16384, UPLOADS = CHECK_SANITIZED ? 500 : 4000 };

typedef struct stream {
    gt_link *link;
    long sent, received, wrong;
} stream;

/* Take at most `most` answers: each tensor holds its own number. */
static void take_answers(stream *s, int most)
{
    size_t available;
    const gt_slot *answer;
    while (most-- && (answer = gt__link_peek(s->link, &available))) {
        const uint32_t *words = (const uint32_t *)(const void *)(answer + 1);
        CHECK_EQ(answer->ins.op, GT_OP_reply);
        bool right = answer->ins.imm[1].u == UPLOAD_BYTES;
        for (unsigned k = 0; right && k < UPLOAD_BYTES / 4; k++)
            right = words[k] == (uint32_t)answer->ins.result;
        s->wrong += !right;
        s->received++;
        gt__link_consume(s->link, 1u + answer->ins.tail);
    }
}

/* An upload and its fetch. False: there is no room now. */
static bool send_upload(stream *s)
{
    unsigned data = UPLOAD_BYTES / sizeof(gt_slot);
    gt_slot *record = gt__link_reserve(s->link, 3 + data);
    if (!record)
        return false;
    uint64_t number = (uint64_t)++s->sent, slot = 1 + number % 64;
    memset(record, 0, (3 + data) * sizeof *record);
    record->ins = (gt_instruction){.op = GT_OP_upload, .dtype = GT_INT32, .rank = 1, .result = slot};
    record->ins.tail = (uint16_t)(1 + data);
    record->ins.imm[0].u = UPLOAD_BYTES;
    record[1].i64[0] = UPLOAD_BYTES / 4;
    for (unsigned k = 0; k < UPLOAD_BYTES / 4; k++)
        ((uint32_t *)(void *)(record + 2))[k] = (uint32_t)number;
    record[2 + data].ins = (gt_instruction){.op = GT_OP_fetch, .result = number, .operand = {slot}};
    gt__link_commit(s->link, 2 + data);
    gt__link_commit(s->link, 1);
    gt__link_flush(s->link);
    return true;
}

typedef struct running {
    gt_worker_options options;
    gt_link *link;
    gt_err err;
} running;

static void *run_worker(void *argument)
{
    running *r = argument;
    r->err = gt__worker_run(&r->options, r->link);
    return NULL;
}

/* The client reads its answers only when it cannot write: the worker waits for room while the engine works. */
static void test_uploads_with_a_slow_reader(const void *engine)
{
    stream s = {0};
    running r = {.options = {.backend = engine, .board = gt__board_new(), .threads = 1}};
    pthread_t thread;
    size_t available;
    setenv("GT_LATE_HOLD", "0", 1);
    if (!CHECK_EQ(gt__link_memory_pair(&s.link, &r.link), GT_OK))
        return;
    pthread_create(&thread, NULL, run_worker, &r);
    const gt_slot *hello;
    while (!(hello = gt__link_peek(s.link, &available)))
        gt__link_wait(s.link, GT_WAIT_READ, -1);
    gt__link_consume(s.link, 1u + hello->ins.tail);
    gt_slot *welcome = gt__link_reserve(s.link, 1);
    welcome->ins = (gt_instruction){.op = GT_OP_welcome, .operand = {0, 1, 1}};
    welcome->ins.imm[0].i = GT_PROTOCOL_VERSION;
    gt__link_commit(s.link, 1);
    while (s.sent < UPLOADS)
        if (!send_upload(&s)) {
            gt__link_flush(s.link);
            if (gt__link_wait(s.link, GT_WAIT_WRITE, 1) != GT_OK)
                take_answers(&s, 1);
        }
    while (s.received < UPLOADS && !s.link->dead) {
        gt__link_wait(s.link, GT_WAIT_READ, -1);
        take_answers(&s, 1000);
    }
    CHECK_EQ(s.wrong, 0);
    gt__goodbye_send(s.link, "");
    pthread_join(thread, NULL);
    CHECK_EQ(r.err, GT_OK);
    gt__link_close(s.link);
    gt__board_free(r.options.board);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("fetch beside a failure", test_fetch_beside_a_failure, NULL);
    check_run("fetch of a complete tensor", test_fetch_of_a_complete_tensor, NULL);
    check_run("a mark", test_mark, NULL);
    check_run("send of a late tensor beside a failure", test_send_beside_a_failure, NULL);
    check_run("send of a complete tensor beside a failure", test_send_beside_a_failure, "complete");
    check_run("a failure spreads", test_failure_spreads, NULL);
    check_run("done at once on late operands", test_done_at_once_on_late_operands, NULL);
    check_run("what a busy engine does", test_doing, NULL);
    check_run("answers before a wait for a peer", test_answers_before_a_wait_for_a_peer, NULL);
    check_run("host copies are bounded", test_host_copies_are_bounded, NULL);
    check_run("the time of uploads", test_time_of_uploads, NULL);
    check_run("the time of uploads, watched", test_time_of_uploads, "watched");
    check_run("the time of many", test_time_of_many, NULL);
    check_run("the time of many that are short", test_time_of_many, "short");
    check_run("the time of a fetch", test_time_of_a_fetch, NULL);
    check_run("the time of a move", test_time_of_a_move, NULL);
    check_run("failed piece, cpu", test_failed_piece, "cpu");
    check_run("failed piece, late", test_failed_piece, "late");
    check_run("uploads with a slow reader, cpu", test_uploads_with_a_slow_reader, "cpu");
    check_run("uploads with a slow reader, late", test_uploads_with_a_slow_reader, "late");
    return check_end();
}

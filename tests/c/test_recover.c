/*
 * test_recover.c: what the dispatcher does when workers leave and join, seen from workers that the test plays: raw links that
 * say exactly what a worker would. tests/python/test_recovery.py has whole programs.
 */
#include "server_fixture.h"

#include "core/config.h"

enum { WORKERS = 3 };

/* ---- a sharded session on workers that compute nothing --------------------------------------------------------- */

/* Records of the stream are dropped, marks answered, until one of this op comes. */
static bool await_op(gt_link *worker, gt_opcode op, gt_slot *record)
{
    while (receive_any(worker, record)) {
        if (record->ins.op == GT_OP_mark)
            answer_mark(worker);
        if (record->ins.op == op)
            return true;
    }
    return false;
}

static void send_config(gt_link *client, const char *name)
{
    gt_slot record[GT_CONFIG_SLOTS];
    gt_signal_config signal = {.flags = GT_CONFIG_SHARD | GT_CONFIG_AXIS, .worker_count = WORKERS};
    snprintf(signal.name, sizeof signal.name, "%s", name);
    for (int32_t k = 0; k < WORKERS; k++)
        signal.workers[k] = k;
    gt__config_write(&signal, record);
    send_slots(client, record, 1u + record->ins.tail);
    gt_slot scope[5] = {{.ins = {.op = GT_OP_scope, .tail = 4}}};
    scope->ins.imm[0].u = 1;
    snprintf((char *)scope[1].bytes, sizeof scope[1].bytes, "%s", name);
    send_slots(client, scope, 5);
}

/* A tensor of three parts, and a question, so that every worker has records of the session. */
static void send_split(gt_link *client)
{
    gt_slot record[2] = {
        {.ins = {.op = GT_OP_full, .dtype = GT_FLOAT32, .rank = 1, .tail = 1, .result = 1, .scope = 1}}};
    record[1].i64[0] = 6 * WORKERS;
    send_slots(client, record, 2);
    send_ins(client, (gt_instruction){.op = GT_OP_sync, .result = 1});
    gt__link_flush(client);
}

static void start(server *s, gt_link *workers[WORKERS], gt_link **client)
{
    gt_dispatcher_options options = {.listen = true, .recover = true, .recover_stand_in_s = 0.01};
    char name[16];
    memset(s, 0, sizeof *s);
    if (!CHECK_EQ(gt__dispatcher_new(&options, &s->dispatcher), GT_OK))
        abort();
    server_start(s);
    for (int k = 0; k < WORKERS; k++) {
        workers[k] = server_connect(s, "memory");
        snprintf(name, sizeof name, "raw_%d", k);
        CHECK(join_worker(workers[k], name));
    }
    *client = server_connect(s, "memory");
    CHECK(join_client(*client));
    send_config(*client, "rows");
    send_split(*client);
}

static void refuse_stand_in(gt_link *worker, const gt_slot *asked)
{
    gt_slot answer[2] = {{.ins = {.op = GT_OP_stand_in, .tail = 1}}};
    answer->ins.imm[0].u = asked->ins.imm[0].u;
    send_slots(worker, answer, 2);
    gt__link_flush(worker);
}

/* One of two workers gets the request; the other follows when that one cannot. */
static void test_another_worker_is_asked_to_stand_in(const void *argument)
{
    static gt_slot record[1 + GT_MAX_TAIL];
    gt_link *workers[WORKERS], *client;
    server s;
    (void)argument;
    start(&s, workers, &client);
    for (int k = 0; k < WORKERS; k++)
        CHECK(await_op(workers[k], GT_OP_full, record));
    gt__link_close(workers[1]);
    /* Both have no stand-ins, so the first of them is asked first. */
    CHECK(await_op(workers[0], GT_OP_stand_in, record));
    CHECK_EQ(record->ins.imm[0].u, 1);
    CHECK(!strcmp((const char *)record[1].bytes, "raw_1"));
    refuse_stand_in(workers[0], record);
    CHECK(await_op(workers[2], GT_OP_stand_in, record));
    CHECK_EQ(record->ins.imm[0].u, 1);
    gt__link_close(client);
    gt__link_close(workers[0]);
    gt__link_close(workers[2]);
    server_stop(&s);
}

/* ---- doubt ------------------------------------------------------------------------------------------------------ */

/* For so long, have the worker answer each sync that another is gone. How often it did. */
static int doubt_for(gt_link *worker, int ms)
{
    static const char text[] = "worker raw_1 is gone: pid 1 closed the connection";
    static gt_slot record[1 + GT_MAX_TAIL];
    uint64_t deadline = gt__deadline_ns(ms);
    int doubts = 0;
    size_t available;
    for (int left; (left = gt__remaining_ms(deadline)) > 0;) {
        if (!gt__link_peek(worker, &available)) {
            gt__link_wait(worker, GT_WAIT_READ, left);
            continue;
        }
        if (!CHECK(receive_any(worker, record)))
            break;
        if (record->ins.op == GT_OP_mark)
            answer_mark(worker);
        if (record->ins.op != GT_OP_sync)
            continue;
        gt_slot failure[1 + sizeof text / sizeof(gt_slot) + 1] = {
            {.ins = {.op = GT_OP_failure, .tail = sizeof text / sizeof(gt_slot) + 1}}};
        failure->ins.imm[0].i = GT_ERR_CONNECTION;
        failure->ins.imm[1].u = sizeof text - 1;
        memcpy(failure + 1, text, sizeof text);
        send_slots(worker, failure, 1u + failure->ins.tail);
        gt__link_flush(worker);
        doubts++;
    }
    return doubts;
}

/* Its peers notice that a worker ends, and its own connection ends later: the client hears of none of that. */
static void test_a_worker_may_take_its_time_to_end(const void *argument)
{
    static gt_slot record[1 + GT_MAX_TAIL];
    gt_link *workers[WORKERS], *client;
    server s;
    (void)argument;
    start(&s, workers, &client);
    CHECK(doubt_for(workers[0], 400) > 0);
    gt__link_close(workers[1]);
    CHECK(await_op(workers[0], GT_OP_stand_in, record));
    CHECK_EQ(record->ins.imm[0].u, 1);
    size_t available;
    const gt_slot *slots;
    while ((slots = gt__link_peek(client, &available))) {
        CHECK(slots->ins.op != GT_OP_failure);
        gt__link_consume(client, 1u + slots->ins.tail);
    }
    CHECK(!client->gone);
    gt__link_close(client);
    gt__link_close(workers[0]);
    gt__link_close(workers[2]);
    server_stop(&s);
}

/* ---- replacements ---------------------------------------------------------------------------------------------- */

static bool join_named(gt_link *link, const char *name)
{
    gt_welcome welcome;
    const gt_worker_hello hello = {.name = name, .engine = "raw", .named = true, .number = -1};
    return CHECK_EQ(gt__hello_send_worker(link, &hello), GT_OK) &&
           CHECK_EQ(gt__hello_wait(link, PATIENCE_MS, &welcome), GT_OK);
}

/* The connection of a worker that was replaced while it was idle ends, and the loop sleeps again. */
static void test_a_replaced_worker_is_disconnected(const void *argument)
{
    static gt_slot record[1 + GT_MAX_TAIL];
    server s;
    (void)argument;
    server_new(&s, true);
    server_start(&s);
    gt_link *client = server_connect(&s, "memory"), *first = server_connect(&s, "memory");
    CHECK(join_named(first, "same"));
    CHECK(join_client(client));
    int64_t sleeps = server_statistic(client, 1, "{", "sleeps");
    while (server_statistic(client, 2, "{", "sleeps") < sleeps + 3)
        ; /* idle peers are at rest */
    gt_link *second = server_connect(&s, "memory");
    CHECK(join_named(second, "same"));
    while (receive(first, record) && record->ins.op != GT_OP_goodbye)
        ;
    CHECK_EQ(record->ins.op, GT_OP_goodbye);
    CHECK(!receive(first, record) && first->gone); /* and not for want of patience */
    gt__link_close(first);
    gt__link_close(second);
    gt__link_close(client);
    server_stop(&s);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("another worker is asked to stand in", test_another_worker_is_asked_to_stand_in, NULL);
    check_run("a worker may take its time to end", test_a_worker_may_take_its_time_to_end, NULL);
    check_run("a replaced worker is disconnected", test_a_replaced_worker_is_disconnected, NULL);
    return check_end();
}

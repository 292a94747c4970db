/*
 * test_monitor.c: peers that only look: what they are told, that nobody waits for them, and that nothing is done for them
 * once they are gone.
 */
#include "core/path.h"
#include "link/address.h"
#include "dispatcher/observe/monitor.h"
#include "server_fixture.h"

/* ---- a monitor ---------------------------------------------------------------------------------------------- */

static gt_link *monitor_join(server *s, const char *transport)
{
    gt_link *link = server_connect(s, transport);
    gt_welcome welcome;
    CHECK_EQ(gt__hello_send(link, GT_ROLE_MONITOR, "looker", ""), GT_OK);
    CHECK_EQ(gt__hello_wait(link, PATIENCE_MS, &welcome), GT_OK);
    CHECK(!welcome.key && !welcome.life); /* what workers tell each other is not for monitors */
    return link;
}

static void monitor_ask(gt_link *link, uint64_t topics, uint64_t interval_ms)
{
    gt_instruction watch = {.op = GT_OP_watch};
    watch.imm[0].u = topics;
    watch.imm[1].u = interval_ms;
    send_ins(link, watch);
    gt__link_flush(link);
}

/* One whole text of a topic; false: the link ended. */
static bool monitor_read(gt_link *link, uint64_t topic, char *text, size_t size)
{
    static _Thread_local gt_slot record[1 + GT_MAX_TAIL];
    size_t filled = 0;
    while (receive(link, record)) {
        if (!CHECK_EQ(record->ins.op, GT_OP_reply))
            return false;
        if (record->ins.result != topic)
            continue;
        size_t bytes = record->ins.imm[1].u;
        filled = record->ins.imm[0].u; /* a text that had no room ends early: the next begins at 0 */
        if (!CHECK(filled + bytes < size))
            return false;
        memcpy(text + filled, record + 1, bytes);
        text[filled + bytes] = 0;
        if (record->ins.flags & GT_FLAG_LAST)
            return true;
    }
    return false;
}

static double number_after(const char *json, const char *section, const char *key)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *at = strstr(json, section);
    at = at ? strstr(at, quoted) : NULL;
    return at ? strtod(at + strlen(quoted), NULL) : -1;
}

static char text[1 << 20];

/* ---- tests -------------------------------------------------------------------------------------------------- */

static void test_statistics(const void *transport)
{
    server s;
    server_new(&s, true);
    server_add_worker(&s, false);
    server_start(&s);
    gt_link *client = server_connect(&s, "memory");
    CHECK(join_client(client));
    CHECK(session_works(client, 1));
    gt_link *monitor = monitor_join(&s, transport);
    monitor_ask(monitor, GT_TOPIC_STATS, 20);
    /* The first text comes before the workers were asked; a later one has their report. */
    double adds = -1;
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    while (adds < 1 && gt__remaining_ms(deadline) && monitor_read(monitor, GT_TOPIC_STATS, text, sizeof text))
        adds = number_after(text, "\"add\"", "count");
    CHECK_EQ((int64_t)adds, 1);
    CHECK(number_after(text, "\"add\"", "seconds") > 0);
    CHECK_EQ((int64_t)number_after(text, "\"add\"", "bytes"), 4);
    CHECK(number_after(text, "\"workers\"", "up_seconds") > 0);
    CHECK_EQ((int64_t)number_after(text, "\"clients\"", "number"), 1);
    gt__link_close(monitor);
    CHECK(session_works(client, 11));
    gt__link_close(client);
    server_stop(&s);
}

/* Asking again and again does not make the dispatcher tell all the time. */
static void test_an_impatient_monitor(const void *unused)
{
    (void)unused;
    enum { TIMES = 10, LEAST_MS = 20 };
    server s;
    server_new(&s, true);
    server_add_worker(&s, false);
    server_start(&s);
    gt_link *client = server_connect(&s, "memory"), *monitor = monitor_join(&s, "memory");
    CHECK(join_client(client));
    uint64_t began = gt__now_ns();
    for (int k = 0; k < TIMES; k++) {
        for (int times = 0; times < 100; times++)
            monitor_ask(monitor, GT_TOPIC_STATS, 3600000);
        CHECK(monitor_read(monitor, GT_TOPIC_STATS, text, sizeof text));
    }
    CHECK(gt__now_ns() - began >= (TIMES - 1) * LEAST_MS * 1000000ull);
    CHECK(session_works(client, 1));
    gt__link_close(monitor);
    gt__link_close(client);
    server_stop(&s);
}

/* Lines come while they are wanted, with how long the worker took; a monitor that leaves ends them. */
static void test_lines(const void *transport)
{
    server s;
    server_new(&s, true);
    server_add_worker(&s, false);
    server_start(&s);
    gt_link *client = server_connect(&s, "memory"), *monitor = monitor_join(&s, transport);
    CHECK(join_client(client));
    monitor_ask(monitor, GT_TOPIC_LINES, 1000);
    /* Its wish is fulfilled before a later question of its own is answered. */
    monitor_ask(monitor, GT_TOPIC_LINES | GT_TOPIC_STATS, 1000);
    CHECK(monitor_read(monitor, GT_TOPIC_STATS, text, sizeof text));
    CHECK(session_works(client, 1));
    bool received = false, sent = false, done = false, answered = false;
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    while (!answered && gt__remaining_ms(deadline) && monitor_read(monitor, GT_TOPIC_LINES, text, sizeof text)) {
        CHECK_EQ(text[strlen(text) - 1], '\n');
        received |= strstr(text, "| BinaryOp            |        64B | result=3 op=add left=1 right=2\n") != NULL;
        sent |= strstr(text, "| WORKER_SEND  | WORKER real_0               | WorkerBinaryOp      |") != NULL;
        done |= strstr(text, "success=True op=add result=1_3 shape=(1,) start=") != NULL;
        answered |= strstr(text, "| SEND         | CLIENT 1                    | GetData             |") != NULL;
    }
    CHECK(received && sent && done && answered);
    gt__link_close(monitor);
    CHECK(session_works(client, 11));
    gt__link_close(client);
    server_stop(&s);
}

/* A monitor that does not read costs nobody anything: the client's work goes on, the lost lines are counted. */
static void test_a_monitor_that_does_not_read(const void *argument)
{
    (void)argument;
    server s;
    server_new(&s, true);
    server_add_worker(&s, false);
    server_start(&s);
    gt_link *client = server_connect(&s, "memory"), *monitor = monitor_join(&s, "memory");
    CHECK(join_client(client));
    monitor_ask(monitor, GT_TOPIC_LINES | GT_TOPIC_STATS, 1000);
    CHECK(monitor_read(monitor, GT_TOPIC_STATS, text, sizeof text));
    for (int k = 0; k < 20000; k++)
        if (!CHECK(session_works(client, 1 + 3 * (uint64_t)k)))
            break;
    gt_slot record[1 + GT_MAX_TAIL];
    uint64_t lost = 0, deadline = gt__deadline_ns(PATIENCE_MS);
    while (!lost && gt__remaining_ms(deadline)) {
        session_works(client, 100000 + 3 * deadline);
        while (!lost && receive(monitor, record) && record->ins.result == GT_TOPIC_LINES)
            lost = record->ins.operand[0];
        deadline++;
    }
    CHECK(lost > 0);
    gt__link_close(monitor);
    gt__link_close(client);
    server_stop(&s);
}

/* A hot path of `count` square roots, each of the one before. */
static bool define_path(gt_link *link, uint64_t number, uint32_t count)
{
    static gt_slot records[1000], definition[2000], piece[1 + GT_MAX_TAIL];
    static uint32_t offset[1000];
    for (uint32_t k = 0; k < count; k++) {
        records[k] = (gt_slot){.ins = {.op = GT_OP_sqrt, .result = k + 1}};
        records[k].ins.operand[0] = k ? k : GT_PATH_INPUT;
        offset[k] = k;
    }
    size_t whole = gt__path_definition_slots(count, count, 0);
    gt__path_define(records, count, count, offset, NULL, 0, definition);
    for (size_t at = 0; at < whole;) {
        unsigned tail = whole - at < GT_PATH_PIECE ? (unsigned)(whole - at) : GT_PATH_PIECE;
        piece[0] = (gt_slot){.ins = {.op = GT_OP_path, .tail = (uint16_t)tail, .result = number}};
        piece->ins.imm[0].u = at;
        piece->ins.imm[1].u = whole;
        memcpy(piece + 1, definition + at, tail * sizeof *piece);
        if (!CHECK(send_slots(link, piece, 1 + tail)))
            return false;
        at += tail;
    }
    return true;
}

/* A text that is longer than the link holds comes whole, however late the monitor reads it. */
static void test_a_text_longer_than_the_link_holds(const void *transport)
{
    enum { PATHS = 90, OPS = 1000, LONGEST_RING = 512 * 1024, AN_HOUR_MS = 3600000 };
    server s;
    server_new(&s, true);
    server_add_worker(&s, false);
    server_start(&s);
    gt_link *client = server_connect(&s, "memory"), *monitor = monitor_join(&s, transport);
    CHECK(join_client(client));
    for (uint64_t k = 0; k < PATHS; k++)
        define_path(client, k, OPS);
    CHECK(session_works(client, 1));
    gt_instruction watch = {.op = GT_OP_watch};
    watch.imm[0].u = GT_TOPIC_CLIENT;
    watch.imm[1].u = AN_HOUR_MS;
    watch.operand[0] = 1;
    send_ins(monitor, watch);
    gt__link_flush(monitor);
    CHECK(gt__link_wait(monitor, GT_WAIT_READ, PATIENCE_MS) == GT_OK);
    CHECK(session_works(client, 11)); /* the turn that sent the beginning has ended */
    CHECK(monitor_read(monitor, GT_TOPIC_CLIENT, text, sizeof text));
    CHECK(strlen(text) > LONGEST_RING);
    CHECK(strstr(text, "{\"number\": 1, \"found\": true") == text && strstr(text, "\"number\": 89, \"ops\""));
    size_t ops = 0;
    for (const char *at = text; (at = strstr(at, "\"sqrt\"")); at++)
        ops++;
    CHECK_EQ(ops, PATHS * OPS);
    CHECK(session_works(client, 21));
    gt__link_close(monitor);
    gt__link_close(client);
    server_stop(&s);
}

static void test_what_a_monitor_may_not(const void *argument)
{
    (void)argument;
    server s;
    server_new(&s, true);
    server_start(&s);
    gt_link *monitor = monitor_join(&s, "memory");
    send_full(monitor, 1, 3, 1.0);
    expect_goodbye(monitor, "a monitor may not send full");
    gt__link_close(monitor);
    server_stop(&s);
}

/* A program's own server can be looked at, and only that. */
static void test_an_embedded_server(const void *argument)
{
    (void)argument;
    server s;
    server_new(&s, false);
    server_add_worker(&s, false);
    gt_link *client = server_link(&s);
    server_start(&s);
    CHECK(join_client(client));
    int ports[256], found = 0, count = gt__address_servers(ports, 256);
    for (int k = 0; k < count; k++)
        found += ports[k] == gt__dispatcher_port(s.dispatcher);
    CHECK_EQ(found, 1);
    gt_link *monitor = monitor_join(&s, "memory");
    monitor_ask(monitor, GT_TOPIC_STATS, 1000);
    CHECK(monitor_read(monitor, GT_TOPIC_STATS, text, sizeof text));
    CHECK(strstr(text, "\"real_0\"") != NULL);
    gt_link *intruder = server_connect(&s, "memory");
    CHECK_EQ(gt__hello_send(intruder, GT_ROLE_CLIENT, "intruder", ""), GT_OK);
    expect_goodbye(intruder, "others may only monitor it");
    CHECK(session_works(client, 1));
    gt__link_close(intruder);
    gt__link_close(monitor);
    gt__link_close(client);
    server_stop(&s);
}

/* A worker may begin to wait after the reader has looked at the clock. */
static void test_idle_time_is_never_negative(const void *argument)
{
    (void)argument;
    CHECK_EQ(gt__idle_ns(gt__idle_pack(0, true, 1001), 1000), 0);
    CHECK_EQ(gt__idle_ns(gt__idle_pack(30, true, 1000), 1012), 42);
    CHECK_EQ(gt__idle_ns(gt__idle_pack(30, false, 1000), 1012), 30);
}

/* A worker says that it has executed more than it was sent: nothing is left, rather than nearly endless work. */
static void test_report_beyond_what_was_sent(const void *argument)
{
    (void)argument;
    static gt_slot record[1 + GT_MAX_TAIL];
    static char json[1 << 16];
    server s;
    server_new(&s, false);
    gt_link *client = server_link(&s), *worker = server_link(&s);
    server_start(&s);
    join_worker(worker, "boastful");
    join_client(client);
    send_ins(client, (gt_instruction){.op = GT_OP_stats, .flags = GT_FLAG_WORKERS, .result = 7});
    gt__link_flush(client);
    do
        CHECK(receive(worker, record));
    while (record->ins.op != GT_OP_stats && !worker->dead);
    send_report(worker, record->ins.result, &(gt_report){.records = UINT64_MAX});
    CHECK_EQ(receive_answer(client, 7, json, sizeof json), GT_OK);
    CHECK(strstr(json, "boastful") && strstr(json, "\"queue\": 0,"));
    gt__link_close(worker);
    gt__link_close(client);
    server_stop(&s);
}

/* A worker's page as it was before its report. */
static const void *old_page(gt_link *link, gt_page_time *time)
{
    static gt_statement statement = {.joined_ns = 1, .records = 1, .bytes_used = 1111111};
    (void)link;
    *time = (gt_page_time){.at_ns = gt__now_ns()};
    return &statement;
}

/* What a worker reported is not replaced by an older copy of its page. */
static void test_an_old_copy_of_the_page(const void *argument)
{
    (void)argument;
    static gt_slot record[1 + GT_MAX_TAIL];
    static char json[1 << 16];
    gt_link *theirs, *worker = NULL;
    server s;
    server_new(&s, false);
    if (!CHECK_EQ(gt__link_memory_pair(&worker, &theirs), GT_OK))
        abort();
    gt_link_ops ops = *theirs->ops;
    ops.peer_page = old_page;
    theirs->ops = &ops;
    CHECK_EQ(gt__dispatcher_adopt(s.dispatcher, theirs), GT_OK);
    gt_link *client = server_link(&s);
    server_start(&s);
    join_worker(worker, "far");
    join_client(client);
    CHECK(server_statistic(client, 6, "\"far\"", "used") == 1111111);
    send_ins(client, (gt_instruction){.op = GT_OP_stats, .flags = GT_FLAG_WORKERS, .result = 7});
    gt__link_flush(client);
    do
        CHECK(receive(worker, record));
    while (record->ins.op != GT_OP_stats && !worker->dead);
    send_report(worker, record->ins.result, &(gt_report){.up_ns = 1, .records = 2, .bytes_used = 2222222});
    CHECK_EQ(receive_answer(client, 7, json, sizeof json), GT_OK);
    CHECK(strstr(json, "2222222"));
    CHECK_EQ(server_statistic(client, 8, "\"far\"", "used"), 2222222);
    gt__link_close(worker);
    gt__link_close(client);
    server_stop(&s);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("statistics by memory", test_statistics, "memory");
    check_run("statistics by ipc", test_statistics, "ipc");
    check_run("statistics by tcp", test_statistics, "tcp");
    check_run("impatience", test_an_impatient_monitor, NULL);
    check_run("lines by memory", test_lines, "memory");
    check_run("lines by tcp", test_lines, "tcp");
    check_run("a monitor that does not read", test_a_monitor_that_does_not_read, NULL);
    check_run("a long text by memory", test_a_text_longer_than_the_link_holds, "memory");
    check_run("a long text by tcp", test_a_text_longer_than_the_link_holds, "tcp");
    check_run("what a monitor may not", test_what_a_monitor_may_not, NULL);
    check_run("idle time", test_idle_time_is_never_negative, NULL);
    check_run("an embedded server", test_an_embedded_server, NULL);
    check_run("a report of more than was sent", test_report_beyond_what_was_sent, NULL);
    check_run("an old copy of a worker's page", test_an_old_copy_of_the_page, NULL);
    return check_end();
}

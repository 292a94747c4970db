/* test_drain.c: a worker leaves in the middle of what a client does: uploads in pieces; and the orders of monitors. */
#include "core/report.h"
#include "server_fixture.h"

enum { CHUNKS = 3, BYTES = CHUNKS * GT_MAX_CHUNK, FLOATS = BYTES / (int)sizeof(float) };

static gt_link *connect_monitor(server *s)
{
    gt_link *link = server_connect(s, "memory");
    gt_welcome welcome;
    CHECK_EQ(gt__hello_send(link, GT_ROLE_MONITOR, "owner", ""), GT_OK);
    CHECK_EQ(gt__hello_wait(link, PATIENCE_MS, &welcome), GT_OK);
    return link;
}

static void send_order(gt_link *monitor, uint64_t order, const char *text)
{
    gt_slot record[2] = {{.ins = {.op = GT_OP_order, .tail = 1}}};
    record->ins.imm[0].u = order;
    memcpy(record + 1, text, strlen(text));
    send_slots(monitor, record, 2);
}

/* The next text about an order; returns its topic. */
static uint64_t next_news(gt_link *monitor, char *text, size_t size)
{
    static _Thread_local gt_slot record[1 + GT_MAX_TAIL];
    while (receive(monitor, record)) {
        if (record->ins.op != GT_OP_reply || !CHECK(record->ins.imm[1].u < size))
            continue;
        memcpy(text, record + 1, record->ins.imm[1].u);
        text[record->ins.imm[1].u] = 0;
        return record->ins.result;
    }
    return 0;
}

static bool await_done(gt_link *monitor)
{
    char text[256];
    uint64_t topic;
    while ((topic = next_news(monitor, text, sizeof text)) == GT_TOPIC_ORDER_NEWS)
        ;
    if (topic != GT_TOPIC_ORDER_DONE)
        fprintf(stderr, "  it said: %s\n", text);
    return topic == GT_TOPIC_ORDER_DONE;
}

/* The piece at `offset` of a tensor whose k-th element is k. */
static void send_piece(gt_link *client, uint64_t id, uint64_t offset)
{
    gt_slot record[2 + GT_MAX_CHUNK / sizeof(gt_slot)] = {{.ins = {.op = GT_OP_data, .operand = {id}}}};
    unsigned head = offset ? 1 : 2;
    if (!offset) {
        record->ins = (gt_instruction){.op = GT_OP_upload, .dtype = GT_FLOAT32, .rank = 1, .result = id};
        record[1].i64[0] = FLOATS;
    }
    record->ins.tail = (uint16_t)(head - 1 + GT_MAX_CHUNK / sizeof(gt_slot));
    record->ins.imm[0].u = offset ? offset : BYTES;
    record->ins.imm[1].u = offset ? GT_MAX_CHUNK : 0;
    float *values = (float *)(void *)record[head].bytes;
    for (unsigned k = 0; k < GT_MAX_CHUNK / sizeof(float); k++)
        values[k] = (float)(offset / sizeof(float) + k);
    send_slots(client, record, 1u + record->ins.tail);
}

static bool has_all(gt_link *client, uint64_t id, uint64_t ticket)
{
    static float values[FLOATS + 1];
    bool right = CHECK_EQ(fetch_text(client, id, ticket, (char *)values, sizeof values), GT_OK);
    for (unsigned k = 0; k < FLOATS && right; k++)
        right = values[k] == (float)k;
    return right;
}

static void start(server *s, gt_link **client, gt_link **monitor)
{
    server_new(s, true);
    server_start(s);
    server_add_worker(s, true);
    *client = server_connect(s, "memory");
    CHECK(join_client(*client));
    CHECK(session_works(*client, 100)); /* its home is the first worker */
    server_add_worker(s, true);
    *monitor = connect_monitor(s);
    while (server_statistic(*client, 1, "\"workers\"", "index") >= 0 &&
           server_statistic(*client, 1, "\"index\": 1", "tensors") < 0)
        ;
}

static void finish(server *s, gt_link *client, gt_link *monitor)
{
    gt__link_close(client);
    gt__link_close(monitor);
    server_stop(s);
}

/* The tensor is moved when the upload is complete, not before: pieces that come later would be lost. */
static void test_an_upload_that_is_not_complete(const void *argument)
{
    (void)argument;
    server s;
    gt_link *client, *monitor;
    char text[256];
    start(&s, &client, &monitor);
    send_piece(client, 1, 0);
    send_piece(client, 1, GT_MAX_CHUNK);
    CHECK(session_works(client, 200)); /* both pieces were taken */
    send_order(monitor, GT_ORDERS_DRAIN, "0");
    CHECK_EQ(next_news(monitor, text, sizeof text), GT_TOPIC_ORDER_NEWS);
    CHECK(session_works(client, 300)); /* it goes on until the upload is complete */
    send_piece(client, 1, 2 * GT_MAX_CHUNK);
    CHECK(has_all(client, 1, 2));
    CHECK(await_done(monitor));
    CHECK(has_all(client, 1, 3));
    CHECK(session_works(client, 400));
    finish(&s, client, monitor);
}

/* An upload that was begun and freed is no obstacle. */
static void test_an_upload_that_was_given_up(const void *argument)
{
    (void)argument;
    server s;
    gt_link *client, *monitor;
    start(&s, &client, &monitor);
    send_piece(client, 1, 0);
    send_free(client, 1);
    gt__link_flush(client);
    send_order(monitor, GT_ORDERS_DRAIN, "real_0");
    CHECK(await_done(monitor));
    CHECK(session_works(client, 400));
    finish(&s, client, monitor);
}

static void test_orders_that_are_wrong(const void *argument)
{
    (void)argument;
    server s;
    gt_link *client, *monitor;
    char text[256];
    start(&s, &client, &monitor);
    send_order(monitor, GT_ORDERS_DRAIN, "nobody");
    CHECK_EQ(next_news(monitor, text, sizeof text), GT_TOPIC_ORDER_FAILED);
    CHECK(strstr(text, "has no worker nobody"));
    send_order(monitor, 77, "");
    CHECK_EQ(next_news(monitor, text, sizeof text), GT_TOPIC_ORDER_FAILED);
    send_order(monitor, GT_ORDERS_RELOAD, "");
    CHECK(await_done(monitor));
    gt_slot record[2] = {{.ins = {.op = GT_OP_order, .tail = 1}}}; /* orders are for monitors */
    send_slots(client, record, 2);
    expect_goodbye(client, "a client may not send order");
    finish(&s, client, monitor);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("an upload that is not complete", test_an_upload_that_is_not_complete, NULL);
    check_run("an upload that was given up", test_an_upload_that_was_given_up, NULL);
    check_run("orders that are wrong", test_orders_that_are_wrong, NULL);
    return check_end();
}

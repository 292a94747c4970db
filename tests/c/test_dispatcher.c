/*
 * test_dispatcher.c: the dispatcher among peers that misbehave. Raw links play clients and workers that say the
 * wrong thing, vanish, or do not listen; whatever they do, another session on the same dispatcher keeps getting
 * right answers.
 */
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include "random_numbers.h"
#include "core/config.h"
#include "server_fixture.h"

/* ---- protocol violations ------------------------------------------------------------------------------------ */

enum { NEIGHBOURS_TENSOR = 424242 };

static void send_hello(gt_link *link, int64_t version, uint64_t hash, unsigned role)
{
    gt_slot hello[1 + GT_HELLO_TAIL] = {
        {.ins = {.op = GT_OP_hello, .tail = GT_HELLO_TAIL, .flags = (uint8_t)role}}};
    hello->ins.imm[0].i = version;
    hello->ins.imm[1].u = hash;
    send_slots(link, hello, 1 + GT_HELLO_TAIL);
}

static void no_hello(gt_link *link)
{
    send_ins(link, (gt_instruction){.op = GT_OP_sync, .result = 1});
}

static void wrong_version(gt_link *link)
{
    send_hello(link, GT_PROTOCOL_VERSION + 1, gt__op_table_hash(), GT_ROLE_CLIENT);
}

static void wrong_hash(gt_link *link)
{
    send_hello(link, GT_PROTOCOL_VERSION, gt__op_table_hash() ^ 1, GT_ROLE_CLIENT);
}

static void wrong_role(gt_link *link)
{
    send_hello(link, GT_PROTOCOL_VERSION, gt__op_table_hash(), 99);
}

static void garbage(gt_link *link)
{
    gt_slot slot;
    memset(&slot, 0xff, sizeof slot);
    send_slots(link, &slot, 1);
}

static void second_hello(gt_link *link)
{
    send_hello(link, GT_PROTOCOL_VERSION, gt__op_table_hash(), GT_ROLE_CLIENT);
}

static void unknown_operand(gt_link *link)
{
    send_ins(link, (gt_instruction){.op = GT_OP_neg, .result = 1, .operand = {99}});
}

static void unknown_fetch(gt_link *link)
{
    send_ins(link, (gt_instruction){.op = GT_OP_fetch, .result = 1, .operand = {99}});
}

static void unknown_data(gt_link *link)
{
    gt_slot data[2] = {{.ins = {.op = GT_OP_data, .tail = 1, .operand = {99}}}};
    data->ins.imm[1].u = 8;
    send_slots(link, data, 2);
}

static void unknown_cat(gt_link *link)
{
    gt_slot cat[2] = {{.ins = {.op = GT_OP_cat, .tail = 1, .result = 9}}};
    send_full(link, 1, 4, 0);
    cat->ins.imm[1].i = 2;
    cat[1].u64[0] = 1;
    cat[1].u64[1] = 2;
    send_slots(link, cat, 2);
}

static void free_unknown(gt_link *link)
{
    send_free(link, 99);
}

static void free_twice(gt_link *link)
{
    send_full(link, 1, 4, 0);
    send_free(link, 1);
    send_free(link, 1);
}

static void free_twice_at_once(gt_link *link)
{
    send_full(link, 1, 4, 0);
    send_ins(link, (gt_instruction){.op = GT_OP_free, .result = 1, .operand = {1}});
}

static void reuse_id(gt_link *link)
{
    send_full(link, 1, 4, 0);
    send_full(link, 1, 4, 0);
}

static void id_zero(gt_link *link)
{
    send_full(link, 0, 4, 0);
}

static void own_result(gt_link *link)
{
    send_ins(link, (gt_instruction){.op = GT_OP_neg, .result = 5, .operand = {5}});
}

static void neighbours_tensor(gt_link *link)
{
    send_ins(link, (gt_instruction){.op = GT_OP_neg, .result = 1, .operand = {NEIGHBOURS_TENSOR}});
}

static void free_neighbours(gt_link *link)
{
    send_free(link, NEIGHBOURS_TENSOR);
}

/* On the worker the neighbour's tensor has a small number: nothing of ours may reach it untranslated. */
static void consume_untranslated(gt_link *link)
{
    gt_slot full[2] = {
        {.ins = {.op = GT_OP_full, .flags = GT_FLAG_CONSUMES, .rank = 1, .tail = 1, .result = 1, .operand = {1}}}};
    send_slots(link, full, 2);
}

static void consume_literal(gt_link *link)
{
    send_full(link, 1, 4, 0);
    send_ins(link, (gt_instruction){.op = GT_OP_add,
                                    .flags = GT_FLAG_CONSUMES,
                                    .literals = GT_LITERAL_INT,
                                    .result = 2,
                                    .operand = {1, 1}});
}

static void use_consumed(gt_link *link)
{
    send_full(link, 1, 4, 0);
    send_ins(link, (gt_instruction){.op = GT_OP_neg, .flags = GT_FLAG_CONSUMES, .result = 2, .operand = {1}});
    send_ins(link, (gt_instruction){.op = GT_OP_neg, .result = 3, .operand = {1}});
}

static void send_reply(gt_link *link)
{
    send_ins(link, (gt_instruction){.op = GT_OP_reply, .flags = GT_FLAG_LAST, .result = 1});
}

static void send_failure(gt_link *link)
{
    send_ins(link, (gt_instruction){.op = GT_OP_failure, .result = 1});
}

static void send_welcome(gt_link *link)
{
    send_ins(link, (gt_instruction){.op = GT_OP_welcome});
}

static void truncated_tail(gt_link *link)
{
    send_ins(link, (gt_instruction){.op = GT_OP_full, .rank = 1, .tail = 1, .result = 1});
}

static void endless_tail(gt_link *link)
{
    send_ins(link, (gt_instruction){.op = GT_OP_data, .tail = UINT16_MAX, .operand = {1}});
}

static void upload_unshared(gt_link *link)
{
    gt_slot upload[2] = {{.ins = {.op = GT_OP_upload, .rank = 1, .tail = 1, .result = 1}}};
    upload->ins.imm[0].i = upload[1].i64[0] = 100;
    upload->ins.imm[1].u = 7;
    send_slots(link, upload, 2);
}

static void fetch_unshared(gt_link *link)
{
    gt_instruction fetch = {.op = GT_OP_fetch, .result = 1, .operand = {1}};
    send_full(link, 1, 4, 0);
    fetch.imm[0].u = 7;
    send_ins(link, fetch);
}

static void wrong_shapes(gt_link *link)
{
    send_full(link, 1, 4, 0);
    send_full(link, 2, 3, 0);
    send_ins(link, (gt_instruction){.op = GT_OP_add, .result = 3, .operand = {1, 2}});
}

static void wrong_upload(gt_link *link)
{
    gt_slot upload[3] = {{.ins = {.op = GT_OP_upload, .rank = 1, .tail = 2, .result = 1}}};
    upload->ins.imm[0].i = 8;
    upload[1].i64[0] = 1000;
    send_slots(link, upload, 3);
}

typedef struct violation {
    const char *name;
    void (*commit)(gt_link *link);
    const char *reason;
    bool greets; /* a proper hello first */
} violation;

static const violation violations[] = {
    {.name = "no hello", .commit = no_hello, .reason = "must be a greeting"},
    {.name = "wrong version", .commit = wrong_version, .reason = "protocol version"},
    {.name = "wrong hash", .commit = wrong_hash, .reason = "another op table"},
    {.name = "wrong role", .commit = wrong_role, .reason = "unknown role"},
    {.name = "garbage for a hello", .commit = garbage, .reason = "unknown operation"},
    {.name = "truncated hello", .commit = truncated_tail, .reason = "a tail of 1"},
    {.name = "second hello", .commit = second_hello, .reason = "may not send hello", .greets = true},
    {.name = "garbage", .commit = garbage, .reason = "unknown operation", .greets = true},
    {.name = "unknown operand",
     .commit = unknown_operand,
     .reason = "tensor 99, which does not exist",
     .greets = true},
    {.name = "unknown fetch",
     .commit = unknown_fetch,
     .reason = "tensor 99, which does not exist",
     .greets = true},
    {.name = "unknown data", .commit = unknown_data, .reason = "tensor 99, which does not exist", .greets = true},
    {.name = "unknown cat", .commit = unknown_cat, .reason = "tensor 2, which does not exist", .greets = true},
    {.name = "free unknown", .commit = free_unknown, .reason = "tensor 99, which does not exist", .greets = true},
    {.name = "free twice", .commit = free_twice, .reason = "tensor 1, which does not exist", .greets = true},
    {.name = "free twice at once",
     .commit = free_twice_at_once,
     .reason = "tensor 1, which does not exist",
     .greets = true},
    {.name = "reuse id", .commit = reuse_id, .reason = "not a new one", .greets = true},
    {.name = "id zero", .commit = id_zero, .reason = "not a new one", .greets = true},
    {.name = "own result", .commit = own_result, .reason = "does not exist", .greets = true},
    {.name = "neighbour's tensor", .commit = neighbours_tensor, .reason = "does not exist", .greets = true},
    {.name = "free neighbour's", .commit = free_neighbours, .reason = "does not exist", .greets = true},
    {.name = "consume untranslated",
     .commit = consume_untranslated,
     .reason = "no tensor to consume",
     .greets = true},
    {.name = "consume literal", .commit = consume_literal, .reason = "no tensor to consume", .greets = true},
    {.name = "use consumed", .commit = use_consumed, .reason = "tensor 1, which does not exist", .greets = true},
    {.name = "send reply", .commit = send_reply, .reason = "may not send reply", .greets = true},
    {.name = "send failure", .commit = send_failure, .reason = "may not send failure", .greets = true},
    {.name = "send welcome", .commit = send_welcome, .reason = "may not send welcome", .greets = true},
    {.name = "truncated tail", .commit = truncated_tail, .reason = "a tail of 1", .greets = true},
    {.name = "endless tail", .commit = endless_tail, .reason = "a tail of 65535", .greets = true},
    {.name = "upload unshared", .commit = upload_unshared, .reason = "never shared", .greets = true},
    {.name = "fetch unshared", .commit = fetch_unshared, .reason = "never shared", .greets = true},
    {.name = "wrong shapes", .commit = wrong_shapes, .reason = "must match the size of tensor b", .greets = true},
    {.name = "wrong upload", .commit = wrong_upload, .reason = "8 bytes for a tensor of 1000", .greets = true},
};
enum { VIOLATIONS = sizeof violations / sizeof violations[0] };

/* The neighbour still has its tensor, and its session works. */
static void check_neighbour(gt_link *good, uint64_t id)
{
    char bytes[64];
    float value = 0;
    CHECK(session_works(good, id));
    CHECK_EQ(fetch_text(good, NEIGHBOURS_TENSOR, 1, bytes, sizeof bytes), GT_OK);
    memcpy(&value, bytes, sizeof value);
    CHECK(value == 7.0f);
}

static void test_violations(const void *argument)
{
    const char *transport = argument; /* NULL: pairs */
    server s;
    gt_link *good, *bad[VIOLATIONS];
    server_new(&s, transport != NULL);
    server_add_worker(&s, false);
    good = transport ? NULL : server_link(&s);
    for (int k = 0; k < VIOLATIONS; k++)
        bad[k] = transport ? NULL : server_link(&s);
    server_start(&s);
    if (transport)
        good = server_connect(&s, transport);
    join_client(good);
    send_full(good, NEIGHBOURS_TENSOR, 1, 7.0);
    for (int k = 0; k < VIOLATIONS; k++) {
        int failures = atomic_load(&check_state.failures);
        if (transport)
            bad[k] = server_connect(&s, transport);
        if (!violations[k].greets || join_client(bad[k])) {
            violations[k].commit(bad[k]);
            gt__link_flush(bad[k]);
            expect_goodbye(bad[k], violations[k].reason);
        }
        check_neighbour(good, 1000 + (uint64_t)k * 3);
        gt__link_close(bad[k]);
        if (atomic_load(&check_state.failures) != failures)
            fprintf(stderr, "  in the violation: %s\n", violations[k].name);
    }
    CHECK_EQ(server_statistic(good, 1, "\"workers\"", "tensors"), 1);
    gt__link_close(good);
    server_stop(&s);
}

/* Whole sessions of noise, most of it well formed enough to get past the first checks. */
static void test_noise(const void *argument)
{
    (void)argument;
    enum { SESSIONS = 60 };
    server s;
    gt_link *noisy[SESSIONS];
    numbers n = {.state = 11};
    server_new(&s, false);
    server_add_worker(&s, false);
    gt_link *good = server_link(&s);
    for (int k = 0; k < SESSIONS; k++)
        noisy[k] = server_link(&s);
    server_start(&s);
    join_client(good);
    send_full(good, NEIGHBOURS_TENSOR, 1, 7.0);
    for (int k = 0; k < SESSIONS; k++) {
        join_client(noisy[k]);
        for (int record = 0; record < 300; record++) {
            gt_slot slots[8];
            numbers_fill(&n, slots, sizeof slots);
            slots->ins = (gt_instruction){.op = (uint16_t)(1 + numbers_below(&n, GT_OP_COUNT - 1)),
                                          .flags = (uint8_t)(numbers_below(&n, 4) ? 0 : numbers_next(&n)),
                                          .rank = (uint8_t)numbers_below(&n, 3),
                                          .dtype = (uint8_t)numbers_below(&n, GT_DTYPE_COUNT),
                                          .result = 1 + (uint64_t)record + 1000 * (uint64_t)k,
                                          .operand = {1 + numbers_below(&n, 5), 1 + numbers_below(&n, 5), 1}};
            slots->ins.imm[0].u = numbers_below(&n, 8);
            slots->ins.imm[1].u = numbers_below(&n, 3);
            int8_t tail = gt__op_table[slots->ins.op].tail;
            slots->ins.tail = (uint16_t)(tail < 0 ? numbers_below(&n, 4) : (uint64_t)tail);
            CHECK((size_t)slots->ins.tail < sizeof slots / sizeof slots[0]);
            for (int word = 0; word < 8; word++)
                slots[1].i64[word] = (int64_t)numbers_below(&n, 5);
            if (!send_slots(noisy[k], slots, 1u + slots->ins.tail))
                break;
        }
        gt__link_flush(noisy[k]);
        expect_goodbye(noisy[k], "");
        gt__link_close(noisy[k]);
        check_neighbour(good, 1000 + (uint64_t)k * 3);
    }
    gt__link_close(good);
    server_stop(&s);
}

/* ---- leaving ------------------------------------------------------------------------------------------------ */

static void test_client_leaves(const void *argument)
{
    const char *transport = argument;
    server s;
    server_new(&s, true);
    server_add_worker(&s, true);
    server_start(&s);
    gt_link *good = server_connect(&s, transport);
    join_client(good);
    for (int polite = 0; polite < 2; polite++) {
        gt_link *leaver = server_connect(&s, transport);
        join_client(leaver);
        for (uint64_t id = 1; id <= 1000; id++)
            send_full(leaver, id, 16, 1.0);
        send_ins(leaver, (gt_instruction){.op = GT_OP_sync, .result = 5});
        char text[64];
        CHECK_EQ(receive_answer(leaver, 5, text, sizeof text), GT_OK);
        CHECK_EQ(server_statistic(good, 1, "\"workers\"", "tensors"), 1000);
        /* An answer it never waits for must go to nobody. */
        send_ins(leaver, (gt_instruction){.op = GT_OP_fetch, .result = 6, .operand = {1}});
        if (polite)
            gt__goodbye_send(leaver, "");
        gt__link_close(leaver);
        CHECK(tensors_become(good, 0));
        CHECK(session_works(good, 100 + 10 * (uint64_t)polite));
    }
    gt__link_close(good);
    server_stop(&s);
}

static void test_worker_leaves(const void *argument)
{
    const char *transport = argument;
    server s;
    char text[256];
    server_new(&s, true);
    server_start(&s);
    gt_link *fragile = server_connect(&s, transport), *client = server_connect(&s, transport);
    join_worker(fragile, "fragile");
    join_client(client);
    send_full(client, 1, 4, 1.0);
    send_ins(client, (gt_instruction){.op = GT_OP_sync, .result = 9});
    gt__link_flush(client);
    gt_slot record[1 + GT_MAX_TAIL];
    do /* it has the question, and leaves without an answer */
        CHECK(receive(fragile, record));
    while (record->ins.op != GT_OP_sync);
    gt__link_close(fragile);
    CHECK_EQ(receive_answer(client, 9, text, sizeof text), GT_ERR_CONNECTION);
    CHECK(strstr(text, "fragile"));
    /* What it had is lost, by name; what follows from it too. */
    send_ins(client, (gt_instruction){.op = GT_OP_neg, .result = 2, .operand = {1}});
    CHECK_EQ(fetch_text(client, 2, 10, text, sizeof text), GT_ERR_CONNECTION);
    CHECK(strstr(text, "fragile"));
    send_ins(client, (gt_instruction){.op = GT_OP_sync, .result = 11});
    CHECK_EQ(receive_answer(client, 11, text, sizeof text), GT_ERR_CONNECTION);
    /* A new one is taken into use, and told of. */
    server_add_worker(&s, true);
    do
        CHECK(receive(client, record));
    while (record->ins.op != GT_OP_welcome && !client->dead);
    CHECK_EQ(record->ins.imm[1].i, 1);
    CHECK(session_works(client, 100));
    CHECK_EQ(fetch_text(client, 1, 12, text, sizeof text), GT_ERR_CONNECTION);
    send_ins(client, (gt_instruction){.op = GT_OP_free, .result = 1, .operand = {2}});
    CHECK(session_works(client, 200));
    CHECK(tensors_become(client, 0));
    gt__link_close(client);
    server_stop(&s);
}

/* What computes on a lost tensor is not computed: what it would have used up goes all the same. */
static void test_lost_and_consumed(const void *argument)
{
    (void)argument;
    server s;
    static gt_slot record[1 + GT_MAX_TAIL];
    server_new(&s, false);
    gt_link *fragile = server_link(&s), *other = server_link(&s), *client = server_link(&s);
    server_start(&s);
    join_worker(fragile, "fragile");
    join_client(client);
    send_full(client, 1, 4, 1.0);
    gt__link_flush(client);
    while (CHECK(receive(fragile, record)) && record->ins.op != GT_OP_full)
        continue;
    join_worker(other, "other");
    gt__link_close(fragile);
    do /* it is alone */
        CHECK(receive(client, record));
    while ((record->ins.op != GT_OP_welcome || record->ins.imm[1].i != 2) && !client->dead);
    CHECK(receive(client, record) && record->ins.op == GT_OP_welcome && record->ins.imm[1].i == 1);
    send_full(client, 2, 4, 1.0);
    send_ins(client, (gt_instruction){.op = GT_OP_add, .flags = GT_FLAG_CONSUMES, .result = 3, .operand = {2, 1}});
    send_ins(client, (gt_instruction){.op = GT_OP_sync, .result = 9});
    gt__link_flush(client);
    CHECK(receive(other, record) && record->ins.op == GT_OP_full);
    uint64_t slot = record->ins.result;
    CHECK(receive(other, record) && record->ins.op == GT_OP_free && record->ins.result == slot);
    CHECK(receive(other, record) && record->ins.op == GT_OP_sync);
    gt__link_close(client);
    gt__link_close(other);
    server_stop(&s);
}

/* With another worker there, the session moves on without a pause. */
static void test_worker_replaced(const void *argument)
{
    const char *transport = argument;
    server s;
    char text[256];
    server_new(&s, true);
    server_start(&s);
    for (int round = 0; round < 3; round++) {
        gt_link *fragile = server_connect(&s, transport), *client = server_connect(&s, transport);
        join_worker(fragile, "fragile");
        join_client(client); /* all are on the fragile one, or on the real one of the round before */
        if (round == 0)
            server_add_worker(&s, true);
        send_full(client, 1, 4, 1.0);
        gt__link_flush(client);
        for (int k = 0; k < 20000; k++) { /* it vanishes in the middle of this */
            if (k == 3000)
                gt__link_close(fragile);
            send_ins(client, (gt_instruction){.op = GT_OP_neg, .result = (uint64_t)(10 + k), .operand = {1}});
            send_free(client, (uint64_t)(10 + k));
        }
        gt_err err = fetch_text(client, 1, 1, text, sizeof text);
        CHECK(err == GT_OK || (err == GT_ERR_CONNECTION && strstr(text, "fragile")));
        while (server_statistic(client, 2, "\"workers\"", "index") < 0 && !client->dead)
            sched_yield(); /* the real one has not joined yet */
        CHECK(session_works(client, 50000));
        gt__link_close(client);
    }
    server_stop(&s);
}

static bool welcomed(gt_link *client, int64_t workers)
{
    static gt_slot record[1 + GT_MAX_TAIL];
    while (receive(client, record))
        if (record->ins.op == GT_OP_welcome && record->ins.imm[1].i == workers)
            return true;
    return false;
}

/* An upload is to be spread over two workers, and one of them leaves between its first piece and its last. */
static void test_worker_leaves_upload(const void *argument)
{
    (void)argument;
    enum { PIECE = GT_MAX_CHUNK, ELEMENTS = 2 * PIECE / (int)sizeof(float) };
    static gt_slot record[1 + GT_MAX_TAIL];
    static char text[2 * PIECE + 1];
    server s;
    gt_welcome welcome;
    server_new(&s, false);
    server_add_worker(&s, false);
    gt_link *client = server_link(&s), *fragile = server_link(&s);
    server_start(&s);
    join_client(client); /* the real worker is number 0 now */
    CHECK_EQ(gt__hello_send_worker(fragile, &(gt_worker_hello){.name = "fragile", .engine = "raw", .number = 1}),
             GT_OK);
    CHECK_EQ(gt__hello_wait(fragile, PATIENCE_MS, &welcome), GT_OK);
    CHECK(welcomed(client, 2));
    send_rows_scope(client);

    float *elements = (float *)(record + 2);
    unsigned slots = PIECE / sizeof(gt_slot);
    memset(record, 0, sizeof record);
    record->ins = (gt_instruction){.op = GT_OP_upload,
                                   .dtype = GT_FLOAT32,
                                   .rank = 1,
                                   .tail = (uint16_t)(1 + slots),
                                   .result = 1,
                                   .scope = 1};
    record->ins.imm[0].u = 2 * PIECE;
    record[1].i64[0] = ELEMENTS;
    for (int k = 0; k < ELEMENTS / 2; k++)
        elements[k] = (float)k;
    send_slots(client, record, 2 + slots);
    send_ins(client, (gt_instruction){.op = GT_OP_placement, .result = 5, .operand = {1}});
    CHECK_EQ(receive_answer(client, 5, text, sizeof text), GT_OK); /* the first piece is there */
    gt__link_close(fragile);
    CHECK(welcomed(client, 1));
    record[1].ins = (gt_instruction){.op = GT_OP_data, .tail = (uint16_t)slots, .operand = {1}};
    record[1].ins.imm[0].u = record[1].ins.imm[1].u = PIECE;
    send_slots(client, record + 1, 1 + slots);
    CHECK_EQ(fetch_text(client, 1, 6, text, sizeof text), GT_OK);
    for (int k = 0; k < ELEMENTS; k++) {
        float got;
        memcpy(&got, text + (size_t)k * sizeof got, sizeof got);
        if (!CHECK(got == (float)(k % (ELEMENTS / 2))))
            break;
    }
    CHECK(session_works(client, 10));
    gt__link_close(client);
    server_stop(&s);
}

/* Scopes inside each other have a limit: each lookup may go through all of them. */
static void test_deep_scopes(const void *argument)
{
    (void)argument;
    enum { TOO_DEEP = 1025 };
    static gt_slot record[1 + GT_MAX_TAIL];
    server s;
    server_new(&s, false);
    server_add_worker(&s, false);
    gt_link *client = server_link(&s), *other = server_link(&s);
    server_start(&s);
    join_client(client);
    join_client(other);
    gt_slot scope[1 + 2 * GT_NAME_SLOTS] = {{.ins = {.op = GT_OP_scope, .tail = 2 * GT_NAME_SLOTS}}};
    memcpy(scope + 1, "rows", strlen("rows"));
    for (uint64_t k = 1; k < TOO_DEEP; k++) {
        scope->ins.imm[0].u = k;
        scope->ins.imm[1].u = k - 1;
        send_slots(client, scope, 1 + 2 * GT_NAME_SLOTS);
    }
    CHECK(session_works(client, 10));
    scope->ins.imm[0].u = TOO_DEEP;
    scope->ins.imm[1].u = TOO_DEEP - 1;
    send_slots(client, scope, 1 + 2 * GT_NAME_SLOTS);
    while (receive_any(client, record))
        continue;
    CHECK(client->dead);
    CHECK(session_works(other, 10));
    gt__link_close(client);
    gt__link_close(other);
    server_stop(&s);
}

/* ---- what a worker may not do ------------------------------------------------------------------------------- */

static void test_bad_worker(const void *argument)
{
    (void)argument;
    static const struct {
        gt_instruction says;
        const char *reason;
    } cases[] = {
        {{.op = GT_OP_reply, .flags = GT_FLAG_LAST, .result = 1}, "an answer without a question"},
        {{.op = GT_OP_add, .result = 1}, "unexpected add"},
        {{.op = GT_OP_fetch, .result = 1}, "unexpected fetch"},
        {{.op = UINT16_MAX}, "unknown operation"},
    };
    enum { CASES = sizeof cases / sizeof cases[0] };
    server s;
    gt_link *bad[CASES];
    server_new(&s, false);
    server_add_worker(&s, false);
    gt_link *good = server_link(&s);
    for (int k = 0; k < CASES; k++)
        bad[k] = server_link(&s);
    server_start(&s);
    join_client(good);
    for (int k = 0; k < CASES; k++) {
        join_worker(bad[k], "bad");
        send_ins(bad[k], cases[k].says);
        gt__link_flush(bad[k]);
        expect_goodbye(bad[k], cases[k].reason);
        gt__link_close(bad[k]);
        CHECK(session_works(good, 1 + 3 * (uint64_t)k));
    }
    gt__link_close(good);
    server_stop(&s);
}

/* A client that wants the workers' statistics gets an answer even if one of them sends nonsense. */
static void test_bad_report(const void *argument)
{
    (void)argument;
    static gt_slot record[1 + GT_MAX_TAIL];
    static char json[1 << 16];
    server s;
    server_new(&s, false);
    server_add_worker(&s, false);
    gt_link *client = server_link(&s), *bad = server_link(&s);
    server_start(&s);
    join_client(client);
    join_worker(bad, "bad");
    send_ins(client, (gt_instruction){.op = GT_OP_stats, .flags = GT_FLAG_WORKERS, .result = 7});
    gt__link_flush(client);
    do
        CHECK(receive(bad, record));
    while (record->ins.op != GT_OP_stats && !bad->dead);
    send_ins(bad, (gt_instruction){.op = GT_OP_reply, .flags = GT_FLAG_LAST, .result = record->ins.result});
    expect_goodbye(bad, "malformed report");
    CHECK_EQ(receive_answer(client, 7, json, sizeof json), GT_OK);
    CHECK(session_works(client, 1));
    gt__link_close(bad);
    gt__link_close(client);
    server_stop(&s);
}

/* ---- transports and life ------------------------------------------------------------------------------------ */

static void test_transports(const void *argument)
{
    (void)argument;
    static const char *const transports[] = {"memory", "ipc", "tcp"};
    server s;
    server_new(&s, true);
    CHECK(gt__dispatcher_port(s.dispatcher) > 0);
    server_start(&s);
    server_add_worker(&s, true);
    server_add_worker(&s, true);
    for (int k = 0; k < 3; k++) {
        gt_link *link = server_connect(&s, transports[k]);
        join_client(link);
        for (uint64_t id = 1; id < 300; id += 3)
            CHECK(session_works(link, id));
        gt__link_close(link);
    }
    server_stop(&s);
}

static void test_stop(const void *argument)
{
    (void)argument;
    server s;
    server_new(&s, false);
    server_add_worker(&s, false);
    gt_link *client = server_link(&s), *silent = server_link(&s);
    server_start(&s);
    join_client(client);
    send_full(client, 1, 4, 1.0);
    CHECK(session_works(client, 10));
    server_stop(&s);
    expect_goodbye(client, "the server is stopping");
    gt__link_close(client);
    gt__link_close(silent);
    server_new(&s, true); /* never run */
    gt__dispatcher_free(&s.dispatcher);
    gt_dispatcher *dispatcher = NULL;
    gt_dispatcher_options elsewhere = {.listen = true, .host = "no.such.host.invalid"};
    CHECK(gt__dispatcher_new(&elsewhere, &dispatcher) != GT_OK);
    CHECK(!dispatcher);
}

/* A peer that does not know the server's secret is no worker, though it is a process of the same user. */
static void test_worker_without_secret(const void *argument)
{
    server s;
    server_new(&s, true);
    server_add_worker(&s, false);
    server_start(&s);
    gt_link *bad = server_connect(&s, argument), *good = server_connect(&s, argument);
    bad->port = 0; /* it does not look for the secret */
    CHECK_EQ(gt__hello_send(bad, GT_ROLE_WORKER, "stranger", "raw"), GT_OK);
    expect_goodbye(bad, "needs a key");
    gt__link_close(bad);
    bad = server_connect(&s, argument);
    bad->port = 0;
    gt_slot hello[1 + GT_HELLO_TAIL] = {
        {.ins = {.op = GT_OP_hello, .tail = GT_HELLO_TAIL, .flags = GT_ROLE_WORKER}}};
    hello->ins.imm[0].i = GT_PROTOCOL_VERSION;
    hello->ins.imm[1].u = gt__op_table_hash();
    memset(hello[4].bytes, '0', sizeof hello[4].bytes);
    send_slots(bad, hello, 1 + GT_HELLO_TAIL);
    expect_goodbye(bad, "needs a key");
    gt__link_close(bad);
    CHECK(join_client(good));
    gt__link_close(good);
    server_stop(&s);
}

/* A server that is not run for longer than a greeting may take, and then finds the greetings of that time: it reads them. */
static void test_a_stopped_server(const void *argument)
{
    enum { STOPPED_MS = 5500 };
    static const char *const transports[] = {"memory", "ipc", "tcp"};
    (void)argument;
    server s;
    gt_link *link[3];
    gt_welcome welcome;
    int port, line[2];
    CHECK_EQ(pipe(line), 0);
    pid_t child = fork();
    if (child == 0) {
        server_new(&s, true);
        port = gt__dispatcher_port(s.dispatcher);
        bool told = write(line[1], &port, sizeof port) == sizeof port;
        gt_err err = told ? gt__dispatcher_run(s.dispatcher) : GT_ERR_INTERNAL;
        _exit((int)err);
    }
    if (CHECK(child > 0) && CHECK_EQ(read(line[0], &port, sizeof port), sizeof port)) {
        for (int k = 0; k < 3; k++) {
            char address[64];
            snprintf(address, sizeof address, "%s://localhost:%d", transports[k], port);
            if (!CHECK_EQ(gt__address_connect(address, NULL, PATIENCE_MS, &link[k]), GT_OK))
                abort();
        }
        kill(child, SIGSTOP);
        waitpid(child, NULL, WUNTRACED);
        for (int k = 0; k < 3; k++)
            CHECK_EQ(gt__hello_send(link[k], GT_ROLE_CLIENT, "raw", ""), GT_OK);
        poll(NULL, 0, STOPPED_MS);
        kill(child, SIGCONT);
        for (int k = 0; k < 3; k++) {
            if (!CHECK_EQ(gt__hello_wait(link[k], PATIENCE_MS, &welcome), GT_OK))
                fprintf(stderr, "  by %s: %s\n", transports[k], gt_error_text());
            gt__link_close(link[k]);
        }
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    close(line[0]);
    close(line[1]);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("a stopped server", test_a_stopped_server, NULL); /* first: it forks */
    check_run("violations by pair", test_violations, NULL);
    check_run("violations by memory", test_violations, "memory");
    check_run("violations by tcp", test_violations, "tcp");
    check_run("noise", test_noise, NULL);
    check_run("a client leaves by memory", test_client_leaves, "memory");
    check_run("a client leaves by tcp", test_client_leaves, "tcp");
    check_run("a worker leaves by memory", test_worker_leaves, "memory");
    check_run("a worker leaves by tcp", test_worker_leaves, "tcp");
    check_run("a lost tensor and one used up", test_lost_and_consumed, NULL);
    check_run("a worker is replaced by memory", test_worker_replaced, "memory");
    check_run("a worker is replaced by tcp", test_worker_replaced, "tcp");
    check_run("a worker leaves during an upload", test_worker_leaves_upload, NULL);
    check_run("bad workers", test_bad_worker, NULL);
    check_run("a worker without the secret, by memory", test_worker_without_secret, "memory");
    check_run("a worker without the secret, by tcp", test_worker_without_secret, "tcp");
    check_run("a bad report", test_bad_report, NULL);
    check_run("deep scopes", test_deep_scopes, NULL);
    check_run("transports", test_transports, NULL);
    check_run("stop", test_stop, NULL);
    return check_end();
}

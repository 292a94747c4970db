/* test_handover.c: a session that one client detaches and another attaches; tokens, and parcels that are malformed. */
#include "client_fixture.h"
#include "dispatcher/journal/disk_journal.h"
#include "server_fixture.h"

static void start(server *s, double detached_s)
{
    server_new_from(
        s, &(gt_dispatcher_options){.listen = true, .modifiers = "identity,statistics", .detached_s = detached_s});
    server_start(s);
    server_add_worker(s, true);
}

static gt_client *connect_by(server *s, const char *transport)
{
    char address[64];
    gt_client *client = NULL;
    snprintf(address, sizeof address, "%s://localhost:%d", transport, gt__dispatcher_port(s->dispatcher));
    if (!OK(gt_client_connect(address, PATIENCE_MS, &client)))
        abort();
    return client;
}

static gt_tensor *full(gt_client *client, int64_t size, double value)
{
    gt_tensor *tensor = NULL;
    OK(gt_full(client, GT_FLOAT32, 1, &size, value, &tensor));
    return tensor;
}

/* ---- the whole way ------------------------------------------------------------------------------------------ */

/* Values, names of them, random numbers and the note arrive; what was not listed is freed. */
static void test_a_session_goes_on_by(const void *transport)
{
    server s;
    char token[GT_TOKEN_SIZE];
    gt_parcel parcel = {0};
    double expected[3], got[3];
    start(&s, 0);
    gt_link *other = server_connect(&s, "memory"); /* sees what the worker has */
    CHECK(join_client(other));
    gt_client *client = connect_by(&s, transport);
    gt_manual_seed(client, 7);
    for (int k = 0; k < 3; k++) { /* what an undisturbed client would draw */
        gt_tensor *drawn = NULL;
        OK(gt_randn(client, GT_FLOAT64, 0, NULL, &drawn));
        OK(gt_item(drawn, &expected[k]));
        gt_tensor_release(drawn);
    }
    gt_manual_seed(client, 7);
    gt_tensor *drawn = NULL, *a = full(client, 3, 2), *b = full(client, 2, 5), *lost = full(client, 1000, 1);
    OK(gt_randn(client, GT_FLOAT64, 0, NULL, &drawn));
    gt_tensor *kept[] = {a, b, a, drawn};
    OK(gt_client_detach(&client, kept, 4, "note", 4, token));
    CHECK(client == NULL);
    gt_tensor *refused = NULL;
    CHECK_EQ(gt_add(a, a, &refused), GT_ERR_CONNECTION);
    CHECK(strstr(gt_error_text(), "was detached"));
    CHECK(tensors_become(other, 3));
    gt_tensor_release(a);
    gt_tensor_release(b);
    gt_tensor_release(drawn);
    gt_tensor_release(lost);
    CHECK_EQ(server_statistic(other, 2, "\"detached\": true", "line"), 0); /* it is listed */

    OK(gt_client_attach(token, NULL, NULL, PATIENCE_MS, &parcel, &client));
    if (!CHECK_EQ(parcel.count, 4) || !CHECK_EQ(parcel.note_bytes, 4) || !CHECK(!memcmp(parcel.note, "note", 4)))
        abort();
    OK(gt_item(parcel.tensors[3], &got[0]));
    for (int k = 1; k < 3; k++) {
        gt_tensor *next = NULL;
        OK(gt_randn(client, GT_FLOAT64, 0, NULL, &next));
        OK(gt_item(next, &got[k]));
        gt_tensor_release(next);
    }
    CHECK(!memcmp(got, expected, sizeof got));
    gt_tensor *sum = NULL;
    OK(gt_add(parcel.tensors[0], parcel.tensors[2], &sum)); /* of one id: freed once */
    CHECK(holds(sum, SHAPE(3), VALUES(4, 4, 4)));
    CHECK(holds(gt_tensor_retain(parcel.tensors[1]), SHAPE(2), VALUES(5, 5)));
    gt_parcel_free(&parcel);
    OK(gt_synchronize(client));
    CHECK(tensors_become(other, 0));
    gt_client_close(&client);
    gt__link_close(other);
    server_stop(&s);
}

/* Twice, and by an upload through a shared segment, which ends with its link. */
static void test_twice(const void *argument)
{
    (void)argument;
    enum { COUNT = 1 << 20 };
    server s;
    char token[GT_TOKEN_SIZE];
    gt_parcel parcel = {0};
    double sum = 0;
    float *data = malloc(COUNT * sizeof *data);
    for (int k = 0; k < COUNT; k++)
        data[k] = (float)(k % 7);
    start(&s, 0);
    gt_client *client = connect_by(&s, "memory");
    gt_tensor *large = NULL, *total = NULL;
    OK(gt_from_data(client, GT_FLOAT32, 1, (int64_t[]){COUNT}, data, &large));
    OK(gt_client_detach(&client, &large, 1, NULL, 0, token));
    gt_tensor_release(large);
    for (int round = 0; round < 2; round++) {
        OK(gt_client_attach(token, NULL, NULL, PATIENCE_MS, &parcel, &client));
        if (!CHECK_EQ(parcel.count, 1))
            abort();
        OK(gt_client_detach(&client, parcel.tensors, 1, NULL, 0, token));
        gt_parcel_free(&parcel);
    }
    OK(gt_client_attach(token, NULL, NULL, PATIENCE_MS, &parcel, &client));
    double expected = 0;
    for (int k = 0; k < COUNT; k++)
        expected += data[k];
    OK(gt_sum(parcel.tensors[0], 0, false, &total));
    OK(gt_item(total, &sum));
    CHECK(sum == expected);
    gt_tensor_release(total);
    gt_parcel_free(&parcel);
    gt_client_close(&client);
    free(data);
    server_stop(&s);
}

/* ---- tokens ------------------------------------------------------------------------------------------------- */

static void test_tokens_that_are_good_for_nothing(const void *argument)
{
    (void)argument;
    server s;
    char token[GT_TOKEN_SIZE], wrong[GT_TOKEN_SIZE];
    gt_parcel parcel = {0};
    gt_client *attached = NULL, *second = NULL;
    start(&s, 0);
    gt_client *client = connect_by(&s, "memory");
    gt_tensor *a = full(client, 3, 2);
    OK(gt_client_detach(&client, &a, 1, NULL, 0, token));
    gt_tensor_release(a);
    CHECK_EQ(gt_client_attach("localhost:1", NULL, NULL, 0, &parcel, &attached), GT_ERR_VALUE);
    strcpy(wrong, token);
    char *last = wrong + strlen(wrong) - 1;
    *last = *last == '0' ? '1' : '0';
    CHECK_EQ(gt_client_attach(wrong, NULL, NULL, PATIENCE_MS, &parcel, &attached), GT_ERR_CONNECTION);
    CHECK(strstr(gt_error_text(), "no session is detached under this token"));
    OK(gt_client_attach(token, NULL, NULL, PATIENCE_MS, &parcel, &attached)); /* a wrong one changes nothing */
    CHECK_EQ(parcel.count, 1);
    gt_parcel none;
    CHECK_EQ(gt_client_attach(token, NULL, NULL, PATIENCE_MS, &none, &second), GT_ERR_CONNECTION);
    CHECK(strstr(gt_error_text(), "was used already"));
    CHECK(holds(gt_tensor_retain(parcel.tensors[0]), SHAPE(3), VALUES(2, 2, 2)));
    gt_parcel_free(&parcel);
    gt_client_close(&attached);
    server_stop(&s);
}

static void test_a_token_expires(const void *argument)
{
    (void)argument;
    server s;
    char token[GT_TOKEN_SIZE];
    gt_parcel parcel;
    gt_client *attached = NULL;
    start(&s, 0.05);
    gt_link *other = server_connect(&s, "memory");
    CHECK(join_client(other));
    gt_client *client = connect_by(&s, "memory");
    gt_tensor *a = full(client, 3, 2);
    OK(gt_client_detach(&client, &a, 1, NULL, 0, token));
    gt_tensor_release(a);
    CHECK(tensors_become(other, 0)); /* waits for the expiry */
    CHECK_EQ(gt_client_attach(token, NULL, NULL, PATIENCE_MS, &parcel, &attached), GT_ERR_CONNECTION);
    CHECK(session_works(other, 100));
    gt__link_close(other);
    server_stop(&s);
}

static void test_an_embedded_server_keeps_nothing(const void *argument)
{
    (void)argument;
    char token[GT_TOKEN_SIZE];
    gt_client *client = NULL;
    OK(gt_client_open_embedded(1, &client));
    CHECK_EQ(gt_client_detach(&client, NULL, 0, NULL, 0, token), GT_ERR_VALUE);
    CHECK(strstr(gt_error_text(), "gt server"));
    CHECK(holds(full(client, 2, 3), SHAPE(2), VALUES(3, 3))); /* and goes on */
    gt_client_close(&client);
}

/* ---- malformed parcels -------------------------------------------------------------------------------------- */

static gt_slot detach_head(uint64_t offset, uint64_t bytes, uint64_t all, uint64_t kept)
{
    gt_slot record = {.ins = {.op = GT_OP_detach, .result = 9, .operand = {all, kept}}};
    record.ins.imm[0].u = offset;
    record.ins.imm[1].u = bytes;
    record.ins.tail = (uint16_t)gt__slots_for(bytes);
    return record;
}

/* Each ends its own connection, with a reason, and no other. */
static void test_malformed_parcels(const void *argument)
{
    (void)argument;
    const struct {
        uint64_t offset, bytes, all, kept;
        const char *reason;
    } rows[] = {
        {0, 8, 8, 1, "detach names tensor"},
        {0, 8, 8, 2, "a parcel of 8 bytes with 2 tensors"},
        {0, 8, (uint64_t)1 << 40, 0, "a parcel of"},
        {8, 8, 16, 0, "out of order"},
        {0, 16, 8, 0, "out of order"},
        {0, 0, 8, 0, "out of order"},
        {UINT64_MAX, 8, 16, 0, "out of order"},
    };
    server s;
    start(&s, 0);
    gt_link *other = server_connect(&s, "memory");
    CHECK(join_client(other));
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        gt_link *client = server_connect(&s, "memory");
        CHECK(join_client(client));
        gt_slot record[3] = {detach_head(rows[k].offset, rows[k].bytes, rows[k].all, rows[k].kept)};
        record[1].u64[0] = 12345;
        send_slots(client, record, 1u + record->ins.tail);
        gt__link_flush(client);
        expect_goodbye(client, rows[k].reason);
        gt__link_close(client);
    }
    gt_link *client = server_connect(&s, "memory");
    CHECK(join_client(client));
    send_ins(client, (gt_instruction){.op = GT_OP_attach, .result = 1});
    gt__link_flush(client);
    expect_goodbye(client, "the session was not attached");
    gt__link_close(client);
    CHECK(session_works(other, 100));
    gt__link_close(other);
    server_stop(&s);
}

/* A parcel that the next client cannot read is an error there. An empty one can be collected once. */
static void test_parcels_of_others(const void *argument)
{
    (void)argument;
    server s;
    char secret[128], token[GT_TOKEN_SIZE];
    gt_parcel parcel;
    gt_client *attached = NULL;
    start(&s, 0);
    for (uint64_t bytes = 0; bytes <= 96; bytes += 8) {
        gt_link *client = server_connect(&s, "memory");
        CHECK(join_client(client));
        gt_slot record[4] = {detach_head(0, bytes, bytes, 0)};
        memset(record + 1, 0xff, 3 * sizeof *record);
        record[1].u64[0] = 1; /* the layout; everything else is too large */
        send_slots(client, record, 1u + record->ins.tail);
        CHECK_EQ(receive_answer(client, 9, secret, sizeof secret), GT_OK);
        gt__link_close(client);
        snprintf(token, sizeof token, "memory://localhost:%d#%s", gt__dispatcher_port(s.dispatcher), secret);
        gt_err err = gt_client_attach(token, NULL, NULL, PATIENCE_MS, &parcel, &attached);
        CHECK(err == GT_ERR_PROTOCOL || (!bytes && err == GT_ERR_INTERNAL));
    }
    server_stop(&s);
}

/* ---- questions without an answer ----------------------------------------------------------------------------- */

/*
 * A client asks for more than one part of a long answer, or for a short one, and detaches before the worker has answered. What the
 * worker answers later is for no client: it is dropped, also if the next client is there by then.
 */
static void test_questions_of_the_client_before(const void *argument)
{
    bool is_long = *(const bool *)argument;
    enum { TICKET = 5, LONG_FLOATS = 4 << 20 };
    static gt_slot record[1 + GT_MAX_TAIL];
    server s;
    char secret[128], text[64];
    gt_welcome welcome = {0};
    server_new(&s, true);
    gt_link *worker = server_link(&s);
    server_start(&s);
    join_worker(worker, "raw");
    gt_link *client = server_connect(&s, "memory");
    CHECK(join_client(client));
    send_full(client, 1, is_long ? LONG_FLOATS : 4, 1.0);
    send_ins(client, (gt_instruction){.op = GT_OP_fetch, .result = TICKET, .operand = {1}});
    gt_slot detach[2] = {detach_head(0, 8, 8, 1)};
    detach[1].u64[0] = 1;
    send_slots(client, detach, 2);
    CHECK_EQ(receive_answer(client, 9, secret, sizeof secret), GT_OK);
    gt__link_close(client);
    gt_link *next = server_connect(&s, "memory");
    CHECK_EQ(gt__hello_send_client(next, "raw", NULL, secret), GT_OK);
    CHECK_EQ(gt__hello_wait(next, PATIENCE_MS, &welcome), GT_OK);
    do
        CHECK(receive(worker, record));
    while (record->ins.op != GT_OP_fetch);
    gt_slot reply[2] = {{.ins = {.op = GT_OP_reply, .flags = GT_FLAG_LAST, .tail = 1}}};
    reply->ins.result = record->ins.result;
    reply->ins.imm[1].u = 4 * sizeof(float);
    send_slots(worker, reply, 2);
    gt__link_flush(worker);
    /* Its own questions are answered, and nothing else. */
    send_ins(next, (gt_instruction){.op = GT_OP_sync, .result = 77});
    gt__link_flush(next);
    do
        CHECK(receive(worker, record));
    while (record->ins.op != GT_OP_sync);
    send_ins(worker, (gt_instruction){.op = GT_OP_reply, .flags = GT_FLAG_LAST, .result = record->ins.result});
    gt__link_flush(worker);
    CHECK_EQ(receive_answer(next, 77, text, sizeof text), GT_OK);
    gt__link_close(next);
    server_stop(&s);
    gt__link_close(worker);
}

/* A token is told when it is safe on the disk. The dispatcher sleeps meanwhile. */
static void test_a_token_waits_for_the_disk(const void *argument)
{
    enum { MOST_TURNS = 2000 }; /* without sleep there are tens of thousands in an interval between two syncs */
    server s;
    char directory[] = "/tmp/gt-handover-XXXXXX", command[64], token[GT_TOKEN_SIZE];
    (void)argument;
    CHECK(mkdtemp(directory));
    gt_disk_journal_options journal = {.directory = directory, .sync = GT_JOURNAL_INTERVAL};
    gt_restored *restored = NULL;
    server_new_from(&s, &(gt_dispatcher_options){.listen = true, .recover = true});
    CHECK_EQ(gt__disk_journal_open(s.dispatcher, &journal, &restored), GT_OK);
    gt__restored_free(&restored);
    gt__disk_journal_restored(s.dispatcher);
    server_start(&s);
    server_add_worker(&s, true);
    gt_link *other = server_connect(&s, "tcp");
    CHECK(join_client(other));
    gt_client *client = connect_by(&s, "tcp");
    gt_tensor *kept = full(client, 3, 2);
    CHECK(holds(gt_tensor_retain(kept), SHAPE(3), VALUES(2, 2, 2)));
    int64_t before = server_statistic(other, 1, "{", "turns");
    OK(gt_client_detach(&client, &kept, 1, "", 0, token));
    int64_t after = server_statistic(other, 2, "{", "turns");
    CHECK(before > 0 && after > before);
    CHECK(after < before + MOST_TURNS);
    gt_tensor_release(kept);
    gt__link_close(other);
    server_stop(&s);
    snprintf(command, sizeof command, "rm -r %s", directory);
    CHECK_EQ(system(command), 0);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("a session goes on by memory", test_a_session_goes_on_by, "memory");
    check_run("a session goes on by ipc", test_a_session_goes_on_by, "ipc");
    check_run("a session goes on by tcp", test_a_session_goes_on_by, "tcp");
    check_run("twice", test_twice, NULL);
    check_run("tokens that are good for nothing", test_tokens_that_are_good_for_nothing, NULL);
    check_run("a token expires", test_a_token_expires, NULL);
    check_run("a token waits for the disk", test_a_token_waits_for_the_disk, NULL);
    check_run("an embedded server keeps nothing", test_an_embedded_server_keeps_nothing, NULL);
    check_run("malformed parcels", test_malformed_parcels, NULL);
    check_run("parcels of others", test_parcels_of_others, NULL);
    check_run("questions of the client before, short", test_questions_of_the_client_before, &(bool){false});
    check_run("questions of the client before, long", test_questions_of_the_client_before, &(bool){true});
    return check_end();
}

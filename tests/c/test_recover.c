/*
 * test_recover.c: what the dispatcher does when workers leave and join, seen from workers that the test plays: raw links that
 * say exactly what a worker would. tests/python/test_recovery.py has whole programs.
 */
#include "server_fixture.h"

#include "core/config.h"
#include "dispatcher/recover/recover.h"
#include "dispatcher/state.h"
#include "dispatcher/workers.h"

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

/* The worker's answer to a question: it lost the connection to another worker. */
static void send_lost_peer(gt_link *worker, uint64_t question)
{
    static const char text[] = "worker raw_1 is gone: pid 1 closed the connection";
    gt_slot failure[1 + sizeof text / sizeof(gt_slot) + 1] = {
        {.ins = {.op = GT_OP_failure, .tail = sizeof text / sizeof(gt_slot) + 1, .result = question}}};
    failure->ins.imm[0].i = GT_ERR_CONNECTION;
    failure->ins.imm[1].u = sizeof text - 1;
    memcpy(failure + 1, text, sizeof text);
    send_slots(worker, failure, 1u + failure->ins.tail);
    gt__link_flush(worker);
}

/* For so long, have the worker answer each sync that another is gone. How often it did. */
static int doubt_for(gt_link *worker, int ms)
{
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
        send_lost_peer(worker, record->ins.result);
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

static bool join_named(gt_link *link, const char *name)
{
    gt_welcome welcome;
    const gt_worker_hello hello = {.name = name, .engine = "raw", .named = true, .number = -1};
    return CHECK_EQ(gt__hello_send_worker(link, &hello), GT_OK) &&
           CHECK_EQ(gt__hello_wait(link, PATIENCE_MS, &welcome), GT_OK);
}

/* ---- between restoring and replaying ---------------------------------------------------------------------------- */

/* What the dispatcher's thread does at certain moments, by links whose operations the test takes over. */
static struct {
    gt_link_ops client, worker;
    const gt_link_ops *memory; /* the real ones */
    gt_link *client_end;       /* the dispatcher's */
    unsigned quiet_turns;      /* of the client when the loop last slept */
    int32_t victim;            /* the worker that is lost before the journal is placed; -1: none */
} played;

static gt_peer *played_peer(void)
{
    return played.client_end->owner;
}

static bool is_doubted(const gt_session *session)
{
    return session && gt__recover_waits(session) && session->recovery->doubt_ns;
}

static bool worker_arm(gt_link *link)
{
    played.quiet_turns = played_peer()->quiet_turns;
    return played.memory->arm(link);
}

/* The thread is held up until the doubt is over, after a turn in which the session still waited for that. */
static bool worker_refill(gt_link *link)
{
    const gt_peer *client = played_peer();
    while (is_doubted(client->session) && client->quiet_turns > played.quiet_turns &&
           gt__remaining_ms(client->session->recovery->doubt_ns))
        usleep(1000);
    return played.memory->refill(link);
}

/* The end of a turn, which takes longer than the loop spins. */
static void client_flush(gt_link *link)
{
    gt_peer *client = played_peer();
    played.memory->flush(link);
    if (!client->session || !gt__recover_active(client->session) ||
        client->session->recovery->phase != GT_RECOVER_REPLAY)
        return;
    usleep(2 * GT_SPIN_US);
    if (played.victim < 0)
        return;
    gt_dispatch_worker *worker = client->dispatcher->workers[played.victim];
    gt_peer *lost = worker->peer;
    played.victim = -1;
    gt__worker_leave(worker, "the test ended it");
    gt__link_kill(lost->link, "the test ended it");
    gt__peer_wake(lost);
}

static gt_link *link_with(server *s, const gt_link_ops *ops, gt_link **theirs)
{
    gt_link *ours = NULL;
    if (!CHECK_EQ(gt__link_memory_pair(&ours, theirs), GT_OK))
        abort();
    (*theirs)->ops = ops;
    CHECK_EQ(gt__dispatcher_adopt(s->dispatcher, *theirs), GT_OK);
    return ours;
}

/* A server with recovery, a client and workers whose links are played. */
static void start_played(server *s, gt_link **client, gt_link **workers, int count, int32_t victim)
{
    gt_dispatcher_options options = {.listen = true, .recover = true, .recover_stand_in_s = 0.01};
    gt_link *ends[2];
    char name[16];
    memset(s, 0, sizeof *s);
    if (!CHECK_EQ(gt__dispatcher_new(&options, &s->dispatcher), GT_OK) ||
        !CHECK_EQ(gt__link_memory_pair(&ends[0], &ends[1]), GT_OK))
        abort();
    played.memory = ends[0]->ops;
    gt__link_close(ends[0]);
    gt__link_close(ends[1]);
    played.client = played.worker = *played.memory;
    played.client.flush = client_flush;
    played.worker.arm = worker_arm;
    played.worker.refill = worker_refill;
    played.victim = victim;
    *client = link_with(s, &played.client, &played.client_end);
    for (int k = 0; k < count; k++)
        workers[k] = link_with(s, &played.worker, &ends[0]);
    server_start(s);
    for (int k = 0; k < count; k++) {
        snprintf(name, sizeof name, "raw_%d", k);
        CHECK(join_worker(workers[k], name));
    }
    CHECK(join_client(*client));
}

/* Its journal is placed although nothing was restored before it, and nothing else happens. */
static void test_nothing_to_restore(const void *argument)
{
    static gt_slot record[1 + GT_MAX_TAIL];
    gt_link *worker, *client;
    server s;
    char text[64];
    (void)argument;
    start_played(&s, &client, &worker, 1, -1);
    send_full(client, 1, 6, 1.0);
    send_ins(client, (gt_instruction){.op = GT_OP_sync, .result = 1});
    gt__link_flush(client);
    CHECK(await_op(worker, GT_OP_sync, record));
    send_lost_peer(worker, record->ins.result);
    CHECK(await_op(worker, GT_OP_full, record));
    CHECK(await_op(worker, GT_OP_sync, record));
    send_ins(worker, (gt_instruction){.op = GT_OP_reply, .flags = GT_FLAG_LAST, .result = record->ins.result});
    gt__link_flush(worker);
    CHECK_EQ(receive_answer(client, 1, text, sizeof text), GT_OK);
    gt__link_close(client);
    gt__link_close(worker);
    server_stop(&s);
}

/* A worker is lost that was asked for the client's statistics: it is asked again behind the records that are repeated, and the client
 * gets one answer. */
static void test_statistics_of_a_lost_worker(const void *argument)
{
    static gt_slot record[1 + GT_MAX_TAIL];
    static char json[1 << 16];
    gt_link *worker, *client;
    server s;
    (void)argument;
    start_played(&s, &client, &worker, 1, -1);
    send_full(client, 1, 6, 1.0);
    send_ins(client, (gt_instruction){.op = GT_OP_stats, .flags = GT_FLAG_WORKERS, .result = 1});
    gt__link_flush(client);
    CHECK(await_op(worker, GT_OP_stats, record));
    CHECK(record->ins.flags & GT_FLAG_LAST);
    gt__link_close(worker);
    worker = server_connect(&s, "memory");
    CHECK(join_named(worker, "raw_0"));
    CHECK(await_op(worker, GT_OP_full, record));
    CHECK(await_op(worker, GT_OP_stats, record));
    send_report(worker, record->ins.result, &(gt_report){.up_ns = 1, .records = 2, .bytes_used = 123456});
    CHECK_EQ(receive_answer(client, 1, json, sizeof json), GT_OK);
    CHECK(strstr(json, "123456"));
    send_ins(client, (gt_instruction){.op = GT_OP_stats, .result = 2});
    gt__link_flush(client);
    CHECK_EQ(receive_answer(client, 2, json, sizeof json), GT_OK);
    gt__link_close(client);
    gt__link_close(worker);
    server_stop(&s);
}

/* Another worker is lost when the session's configuration is dropped and not placed again: it stays sharded. */
static void test_a_loss_before_the_journal_is_placed(const void *argument)
{
    static gt_slot record[1 + GT_MAX_TAIL];
    gt_link *workers[WORKERS], *client;
    server s;
    (void)argument;
    start_played(&s, &client, workers, WORKERS, 2);
    send_config(client, "rows");
    send_split(client);
    CHECK(await_op(workers[0], GT_OP_sync, record));
    send_lost_peer(workers[0], record->ins.result);
    CHECK(await_op(workers[0], GT_OP_stand_in, record));
    CHECK_EQ(record->ins.imm[0].u, 2);
    gt__link_close(workers[2]);
    workers[2] = server_connect(&s, "memory");
    CHECK(join_named(workers[2], "raw_2"));
    for (int k = 0; k < WORKERS; k++) {
        CHECK(await_op(workers[k], GT_OP_full, record));
        CHECK_EQ(record[1].i64[0], 6);
    }
    gt__link_close(client);
    for (int k = 0; k < WORKERS; k++)
        gt__link_close(workers[k]);
    server_stop(&s);
}

/* The second worker is lost while the journal is placed, and no third comes: the client hears why its session ends. */
static void test_a_session_that_cannot_be_recovered(const void *argument)
{
    enum { RECORDS = 12000, PART = 1000 }; /* more than a worker's link holds */
    static gt_slot record[1 + GT_MAX_TAIL];
    gt_dispatcher_options options = {.listen = true, .recover = true, .recover_wait_s = 0.2};
    server s = {0};
    char text[64];
    (void)argument;
    if (!CHECK_EQ(gt__dispatcher_new(&options, &s.dispatcher), GT_OK))
        abort();
    server_start(&s);
    gt_link *first = server_connect(&s, "memory"), *client = server_connect(&s, "memory");
    CHECK(join_worker(first, "first"));
    CHECK(join_client(client));
    for (uint64_t id = 1; id <= RECORDS; id++) {
        send_full(client, id, 1, 1.0);
        if (id % PART)
            continue;
        send_ins(client, (gt_instruction){.op = GT_OP_sync, .result = id});
        gt__link_flush(client);
        CHECK(await_op(first, GT_OP_sync, record));
        send_ins(first, (gt_instruction){.op = GT_OP_reply, .flags = GT_FLAG_LAST, .result = record->ins.result});
        gt__link_flush(first);
        CHECK_EQ(receive_answer(client, id, text, sizeof text), GT_OK);
    }
    gt__link_close(first);
    gt_link *second = server_connect(&s, "memory");
    CHECK(join_worker(second, "second"));
    CHECK(await_op(second, GT_OP_full, record)); /* the journal has begun, and will not end */
    gt__link_close(second);
    expect_goodbye(client, "worker second is gone");
    gt__link_close(client);
    server_stop(&s);
}

/* ---- replacements ---------------------------------------------------------------------------------------------- */

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
        usleep(1000); /* the loop sleeps if nothing is asked; then idle peers are at rest */
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

/* Uploads that are begun and never end: all pieces that come are looked for among them, so their number is bounded. Those whose
 * tensors are freed do not count. */
static void test_unfinished_uploads(const void *argument)
{
    enum { BEGUN = 100000, MOST = 1024 };
    const bool freed = *(const bool *)argument;
    gt_dispatcher dispatcher = {0};
    gt_recovery recovery = {.journal.pool = &dispatcher.recovery.pool};
    gt_session session = {.dispatcher = &dispatcher, .recovery = &recovery};
    CHECK_EQ(gt__handles_init(&session.handles), GT_OK);
    for (uint64_t id = 1; id <= BEGUN; id++) {
        gt_slot upload = {.ins = {.op = GT_OP_upload, .result = id}};
        gt_handle *handle;
        upload.ins.imm[0].u = 2 * GT_MAX_CHUNK;
        gt_slot *kept = gt__recover_reserve(&session, &upload.ins);
        if (!CHECK(kept))
            break;
        *kept = upload;
        gt__fillings_note(&session.fillings, &session.handles, &upload.ins);
        gt__recover_note(&session, kept);
        if (!freed)
            CHECK_EQ(gt__handles_insert(&session.handles, id, &handle), GT_OK);
    }
    const gt_fillings *fillings = &session.fillings;
    CHECK(fillings->count <= MOST);
    CHECK_EQ(recovery.hopeless, !freed);
    uint32_t before = fillings->count;
    gt_slot last = {
        .ins = {.op = GT_OP_data, .operand = {fillings->filling[0].id}}}; /* completes the first of them */
    last.ins.imm[0].u = last.ins.imm[1].u = GT_MAX_CHUNK;
    gt__fillings_note(&session.fillings, &session.handles, &last.ins);
    CHECK_EQ(fillings->count, before - 1);
    gt__handles_free(&session.handles);
    gt__journal_free(&recovery.journal);
    gt__journal_pool_free(&dispatcher.recovery.pool);
    gt__fillings_free(&session.fillings);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("another worker is asked to stand in", test_another_worker_is_asked_to_stand_in, NULL);
    check_run("a worker may take its time to end", test_a_worker_may_take_its_time_to_end, NULL);
    check_run("nothing to restore", test_nothing_to_restore, NULL);
    check_run("statistics of a lost worker", test_statistics_of_a_lost_worker, NULL);
    check_run("a loss before the journal is placed", test_a_loss_before_the_journal_is_placed, NULL);
    check_run("a session that cannot be recovered", test_a_session_that_cannot_be_recovered, NULL);
    check_run("unfinished uploads", test_unfinished_uploads, &(bool){false});
    check_run("unfinished uploads of freed tensors", test_unfinished_uploads, &(bool){true});
    check_run("a replaced worker is disconnected", test_a_replaced_worker_is_disconnected, NULL);
    return check_end();
}

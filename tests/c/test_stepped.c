/* test_stepped.c: peers that leave at a bad moment, and how much one turn of the dispatcher does. See stepped_fixture.h. */
#include "core/record.h"
#include "dispatcher/live/handover.h"
#include "dispatcher/remains.h"
#include "stepped_fixture.h"

/* Everything that the worker was sent. Returns how many records of this op were among it. */
static unsigned take_all(gt_link *worker, gt_opcode op)
{
    size_t available;
    unsigned count = 0, length;
    const gt_slot *slots;
    gt__link_wait(worker, GT_WAIT_READ, 0);
    while ((slots = gt__link_peek(worker, &available))) {
        if (!CHECK_EQ(gt__instruction_check(slots, available, &length), GT_OK))
            break;
        count += slots->ins.op == op;
        gt__link_consume(worker, length);
    }
    return count;
}

/* Small spread records, until no more of them can be placed, because the link of the home worker is full. */
static bool fill_home(server *s, gt_link *client, gt_link *other, const gt_session *session)
{
    enum { MOST = 200000 };
    send_rows_scope(client);
    for (uint64_t id = 1; id < MOST && !session->account.waits_in; id++) {
        gt_slot full[2] = {
            {.ins = {.op = GT_OP_full, .dtype = GT_FLOAT32, .rank = 1, .tail = 1, .result = id, .scope = 1}}};
        full[1].i64[0] = 4;
        gt_slot *out;
        while (!(out = gt__link_reserve(client, 2)) && !session->account.waits_in) {
            gt__dispatcher_turn(s->dispatcher);
            take_all(other, GT_OP_full);
        }
        if (!out)
            break;
        memcpy(out, full, sizeof full);
        gt__link_commit(client, 2);
    }
    return session->account.waits_in == &s->dispatcher->line.waiting;
}

/*
 * A spread client waits in the line, as the link of a worker has no room. It leaves, and that is noticed where the dispatcher looks for
 * room in that link: both are read from the same socket. Nothing is kept for it any more.
 */
static void test_leaving_the_line(const void *argument)
{
    server s;
    server_new(&s, true);
    gt_link *home = stepped_connect(&s, argument), *other = stepped_connect(&s, argument);
    stepped_join(&s, home, GT_ROLE_WORKER, "home");
    stepped_join(&s, other, GT_ROLE_WORKER, "other");
    gt_link *client = stepped_connect(&s, argument), *good = stepped_connect(&s, argument);
    stepped_join(&s, client, GT_ROLE_CLIENT, "spread");
    stepped_join(&s, good, GT_ROLE_CLIENT, "good");
    CHECK_EQ(stepped_session(&s, 1)->home->index, 0);
    CHECK_EQ(stepped_session(&s, 2)->home->index, 1);
    CHECK(fill_home(&s, client, other, stepped_session(&s, 1)));
    stepped_settle(&s);
    take_all(other, GT_OP_full);
    stepped_settle(&s);
    gt__link_close(client);
    while (s.dispatcher->acceptors[0]->ops->arm(s.dispatcher->acceptors[0])) /* its goodbye has arrived */
        sched_yield();
    gt__dispatcher_turn(s.dispatcher); /* notices that, in the middle */
    const gt_session *keeps = s.dispatcher->line.keeps;
    CHECK(!keeps || keeps->account.waits_in);
    stepped_settle(&s);
    while (stepped_session(&s, 1))
        gt__dispatcher_turn(s.dispatcher);
    CHECK(!s.dispatcher->line.keeps && !s.dispatcher->line.waiting.first);
    send_full(good, 1, 4, 1.0);
    gt__link_flush(good);
    bool placed = false;
    for (uint64_t deadline = gt__deadline_ns(PATIENCE_MS); !placed && CHECK(gt__remaining_ms(deadline));) {
        gt__dispatcher_turn(s.dispatcher);
        placed = take_all(other, GT_OP_full) != 0;
    }
    gt__link_close(good);
    gt__link_close(home);
    gt__link_close(other);
    stepped_end(&s);
}

/* ---- many tensors ------------------------------------------------------------------------------------------- */

enum { MANY = 60 * GT_REMAINS_PIECE }; /* their frees do not fit into a worker's link */

/* Ids in the frees that the worker was sent since the last time. */
static unsigned take_frees(gt_link *worker)
{
    size_t available;
    unsigned count = 0, length;
    const gt_slot *slots;
    while ((slots = gt__link_peek(worker, &available)) &&
           CHECK_EQ(gt__instruction_check(slots, available, &length), GT_OK)) {
        const uint64_t *ids = gt__free_ids(&slots->ins);
        for (unsigned k = 0; slots->ins.op == GT_OP_free && k < GT_FREE_IDS; k++)
            count += ids[k] != 0;
        if (slots->ins.op == GT_OP_mark)
            answer_mark(worker);
        gt__link_consume(worker, length);
    }
    return count;
}

/* A server with limits that nothing reaches, so that all is counted; raw workers, and a client with many tensors. */
static gt_link *make_many(server *s, gt_link **workers, int worker_count, bool spread)
{
    gt_dispatcher_options options = {.listen = true, .modifiers = "identity"};
    char name[16];
    options.limits.most[GT_LIMIT_TENSORS] = 2 * MANY;
    server_new_from(s, &options);
    for (int w = 0; w < worker_count; w++) {
        snprintf(name, sizeof name, "raw%d", w);
        workers[w] = server_link(s);
        stepped_join(s, workers[w], GT_ROLE_WORKER, name);
    }
    gt_link *client = server_link(s);
    stepped_join(s, client, GT_ROLE_CLIENT, "leaver");
    if (spread)
        send_rows_scope(client);
    for (uint64_t id = 1; id <= MANY; id++) {
        gt_slot *out,
            full[2] = {{.ins = {.op = GT_OP_full, .dtype = GT_FLOAT32, .rank = 1, .tail = 1, .result = id}}};
        full->ins.scope = spread;
        full[1].i64[0] = 4;
        while (!(out = gt__link_reserve(client, 2))) {
            gt__dispatcher_turn(s->dispatcher);
            for (int w = 0; w < worker_count; w++)
                CHECK_EQ(take_frees(workers[w]), 0);
        }
        memcpy(out, full, sizeof full);
        gt__link_commit(client, 2);
    }
    gt__link_flush(client);
    while (stepped_session(s, 1)->handles.count < MANY) {
        gt__dispatcher_turn(s->dispatcher);
        for (int w = 0; w < worker_count; w++)
            CHECK_EQ(take_frees(workers[w]), 0);
    }
    CHECK_EQ(s->dispatcher->users->tensors, MANY);
    return client;
}

/* And it leaves. */
static void leave_many(server *s, gt_link **workers, int worker_count, bool spread)
{
    gt__link_close(make_many(s, workers, worker_count, spread));
    for (uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
         stepped_session(s, 1) && CHECK(gt__remaining_ms(deadline));)
        gt__dispatcher_turn(s->dispatcher);
}

/* A client with many tensors leaves: no turn frees more than a piece of them, and all of them are freed. Those that are not count. */
static void test_many_tensors(const void *argument)
{
    int worker_count = *(const int *)argument;
    server s;
    gt_link *workers[2];
    unsigned freed[2] = {0}, most = 0, turns = 0;
    leave_many(&s, workers, worker_count, worker_count > 1);
    CHECK(s.dispatcher->remains && s.dispatcher->users->tensors >= MANY - GT_REMAINS_PIECE);
    while (freed[0] < MANY && CHECK(turns++ < 10 * MANY)) {
        uint64_t before = s.dispatcher->users->tensors;
        gt__dispatcher_turn(s.dispatcher);
        CHECK(before - s.dispatcher->users->tensors <= GT_REMAINS_PIECE);
        for (int w = 0; w < worker_count; w++) {
            unsigned now = take_frees(workers[w]);
            freed[w] += now;
            most = now > most ? now : most;
        }
    }
    CHECK(most <= 2 * GT_REMAINS_PIECE); /* the first piece was freed in the turn in which the client left */
    CHECK_EQ(freed[worker_count - 1], MANY);
    stepped_settle(&s);
    CHECK(!s.dispatcher->remains && !s.dispatcher->users->tensors);
    CHECK_EQ(gt__slot_numbers_used(&s.dispatcher->workers[0]->slots), 0);
    for (int w = 0; w < worker_count; w++)
        gt__link_close(workers[w]);
    stepped_end(&s);
}

/* A client with many tensors detaches and keeps one of them, which it names many times: no turn frees more than a piece of the others. */
static void test_detaching_from_many(const void *argument)
{
    (void)argument;
    enum { KEPT = 20 * GT_REMAINS_PIECE, IDS = GT_MAX_CHUNK / 8 };
    server s;
    gt_link *worker, *client = make_many(&s, &worker, 1, false);
    static gt_slot piece[1 + GT_MAX_TAIL];
    unsigned freed = 0, turns = 0;
    for (uint64_t at = 0, count; at < KEPT; at += count) {
        count = KEPT - at < IDS ? KEPT - at : IDS;
        piece->ins = (gt_instruction){.op = GT_OP_detach, .result = 9, .operand = {8 * KEPT, KEPT}};
        piece->ins.imm[0].u = 8 * at;
        piece->ins.imm[1].u = 8 * count;
        piece->ins.tail = (uint16_t)gt__slots_for(8 * count);
        for (uint64_t k = 0; k < count; k++)
            memcpy((uint8_t *)(piece + 1) + 8 * k, &(uint64_t){7}, 8);
        send_slots(client, piece, 1u + piece->ins.tail);
    }
    gt__link_flush(client);
    while (!gt__session_is_detached(stepped_session(&s, 1)) && CHECK(turns++ < 10 * MANY)) {
        gt__dispatcher_turn(s.dispatcher);
        unsigned now = take_frees(worker);
        CHECK(now <= GT_REMAINS_PIECE);
        freed += now;
    }
    CHECK(turns > (KEPT + MANY) / GT_REMAINS_PIECE);
    CHECK_EQ(freed + take_frees(worker), MANY - 1);
    CHECK(gt__handles_find(&stepped_session(&s, 1)->handles, 7));
    gt__link_close(client);
    gt__link_close(worker);
    stepped_end(&s);
}

/* A worker that takes nothing: the frees wait, and take no memory. It is replaced: its successor, which has other tensors, gets none. */
static void test_remains_of_a_lost_worker(const void *argument)
{
    (void)argument;
    server s;
    gt_link *worker;
    leave_many(&s, &worker, 1, false);
    stepped_settle(&s);
    CHECK(s.dispatcher->remains);
    CHECK(gt__slot_queue_empty(&s.dispatcher->workers[0]->backlog.outbox));
    gt__link_close(worker);
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    while (s.dispatcher->remains && CHECK(gt__remaining_ms(deadline)))
        gt__dispatcher_turn(s.dispatcher);
    CHECK(!s.dispatcher->users->tensors);
    stepped_end(&s);
    leave_many(&s, &worker, 1, false);
    take_frees(worker);
    gt_link *next = server_link(&s);
    gt__link_close(worker);
    stepped_join(&s, next, GT_ROLE_WORKER, "raw0");
    stepped_settle(&s);
    CHECK_EQ(take_frees(next), 0);
    gt__link_close(next);
    stepped_end(&s);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("leaving the line by ipc", test_leaving_the_line, "ipc");
    check_run("many tensors", test_many_tensors, &(int){1});
    check_run("many spread tensors", test_many_tensors, &(int){2});
    check_run("detaching from many tensors", test_detaching_from_many, NULL);
    check_run("remains of a lost worker", test_remains_of_a_lost_worker, NULL);
    return check_end();
}

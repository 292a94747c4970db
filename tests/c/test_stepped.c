/* test_stepped.c: peers that leave at a bad moment, and how much one turn of the dispatcher does. See stepped_fixture.h. */
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

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("leaving the line by ipc", test_leaving_the_line, "ipc");
    return check_end();
}

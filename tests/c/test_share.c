/* test_share.c: whose records a worker gets, and when. See share_fixture.h. */
#include "share_fixture.h"

/* The heavy client sends a large tensor, and passes over it; the worker has the tensor and a mark. */
static void begin(shared_server *s)
{
    gt_slot record[1 + GT_MAX_TAIL];
    join(s);
    send_full(s->heavy, 1, LARGE, 1.0);
    for (uint64_t k = 1; k <= BACKLOG; k++)
        send_ins(s->heavy, (gt_instruction){.op = GT_OP_neg, .result = 1 + k, .operand = {1}});
    gt__link_flush(s->heavy);
    CHECK(receive_any(s->worker, record) && record->ins.op == GT_OP_full && record[1].i64[0] == LARGE);
    CHECK(receive_any(s->worker, record) && record->ins.op == GT_OP_mark);
    wait_taken(s, 1, 2); /* its first pass waits */
}

/* A client that has used no time goes before the backlog of one that has. */
static void test_light_first(const void *argument)
{
    (void)argument;
    static shared_server s;
    static gt_slot record[1 + GT_MAX_TAIL];
    begin(&s);
    send_light(&s);
    answer_mark(s.worker);
    CHECK(receive_any(s.worker, record) && record->ins.op == GT_OP_full && record[1].i64[0] == SMALL);
    CHECK(receive_any(s.worker, record) && record->ins.op == GT_OP_exp);
    for (int k = 0; k < BACKLOG; k++) { /* then one pass at a time */
        CHECK(receive_any(s.worker, record) && record->ins.op == GT_OP_neg);
        CHECK(receive_any(s.worker, record) && record->ins.op == GT_OP_mark);
        answer_mark(s.worker);
    }
    end(&s);
}

/* A client that waits in front of another one goes behind it when its last record turns out to have taken longer. */
static void test_measured_while_it_waits(const void *argument)
{
    (void)argument;
    static shared_server s;
    static gt_slot record[1 + GT_MAX_TAIL];
    uint64_t busy_ns = 0;
    begin(&s);
    for (uint64_t k = 1; k <= BACKLOG; k++)
        send_full(s.light, k, LARGE / 4, 1.0);
    gt__link_flush(s.light);
    wait_taken(&s, 2, 1);
    answer_worked(s.worker, &busy_ns, PASS_NS);
    CHECK(receive_any(s.worker, record) && record->ins.op == GT_OP_full && record[1].i64[0] == LARGE / 4);
    CHECK(receive_any(s.worker, record) && record->ins.op == GT_OP_mark);
    wait_taken(&s, 2, 2); /* its second waits: by the estimate, it has used less than the other */
    answer_worked(s.worker, &busy_ns, 2 * (uint64_t)PASS_NS);
    CHECK(receive_any(s.worker, record) && record->ins.op == GT_OP_neg);
    end(&s);
}

/* Small records of one client that take much longer than was estimated are not paid by another, whose records follow. */
static void test_turns_are_measured(const void *argument)
{
    (void)argument;
    static shared_server s;
    static gt_slot record[1 + GT_MAX_TAIL];
    begin(&s);
    send_full(s.light, 1, SMALL, 1.0);
    for (uint64_t k = 1; k <= BACKLOG; k++)
        send_ins(s.light, (gt_instruction){.op = GT_OP_exp, .result = 1 + k, .operand = {1}});
    gt__link_flush(s.light);
    wait_taken(&s, 2, 1);
    answer_mark(s.worker);
    CHECK(receive_any(s.worker, record) && record->ins.op == GT_OP_full && record[1].i64[0] == SMALL);
    for (int k = 0; k < BACKLOG; k++)
        CHECK(receive_any(s.worker, record) && record->ins.op == GT_OP_exp);
    CHECK(receive_any(s.worker, record) && record->ins.op == GT_OP_mark);
    CHECK(receive_any(s.worker, record) && record->ins.op == GT_OP_neg);
    end(&s);
}

/* Few elements of a special function are more than a window, and so they are one record at a time. */
static void test_special_functions(const void *argument)
{
    (void)argument;
    enum { ELEMENTS = 2047, AHEAD = 64, RECORDS = 500 };
    static shared_server s;
    join(&s);
    send_full(s.heavy, 1, ELEMENTS, 1.5);
    for (uint64_t k = 1; k <= RECORDS; k++)
        send_ins(s.heavy, (gt_instruction){.op = GT_OP_zeta, .result = 1 + k, .operand = {1, 1}});
    gt__link_flush(s.heavy);
    CHECK(receive_until(s.worker, GT_OP_mark));
    int64_t before, now = taken(&s, 1);
    do {
        before = now;
        now = taken(&s, 1);
    } while (now != before);
    CHECK(now <= AHEAD);
    end(&s);
}

/* The backlog of a client that is gone is not sent. */
static void test_dead_client(const void *argument)
{
    (void)argument;
    static shared_server s;
    static gt_slot record[1 + GT_MAX_TAIL];
    begin(&s);
    gt__link_close(s.heavy);
    s.heavy = NULL;
    wait_taken(&s, 1, -1);
    answer_mark(s.worker);
    send_light(&s);
    do
        CHECK(receive_any(s.worker, record) && record->ins.op != GT_OP_neg);
    while (record->ins.op != GT_OP_exp && !s.worker->dead);
    end(&s);
}

/* A worker that is gone while a client waits for it: the client goes on without. */
static void test_worker_leaves(const void *argument)
{
    (void)argument;
    static shared_server s;
    char text[256];
    begin(&s);
    gt__link_kill(s.worker, "the test ends it");
    gt__link_close(s.worker);
    send_ins(s.heavy, (gt_instruction){.op = GT_OP_fetch, .result = 77, .operand = {1 + BACKLOG}});
    CHECK_EQ(receive_answer(s.heavy, 77, text, sizeof text), GT_ERR_CONNECTION);
    CHECK(strstr(text, "raw"));
    gt__link_close(s.watcher);
    gt__link_close(s.heavy);
    gt__link_close(s.light);
    server_stop(&s.server);
}

/* A correction uses the weight that the charge was made with: a client gains nothing by changing its weight in between. */
static void test_changing_weight(const void *argument)
{
    (void)argument;
    enum { ROUNDS = 40, MARKS_NS = LARGE / 10 * 3 / 50 };
    static server s;
    static gt_slot record[1 + GT_MAX_TAIL];
    uint64_t busy_ns = 0;
    int mine = 0, theirs = 0;
    server_new(&s, false);
    gt_link *worker = server_link(&s), *attacker = server_link(&s), *victim = server_link(&s);
    server_start(&s);
    join_worker(worker, "raw");
    join_client(attacker);
    join_client(victim);
    for (uint64_t k = 1; k <= 100; k++)
        send_full(victim, k, LARGE - 1, 1.0);
    gt__link_flush(victim);
    for (uint64_t k = 1; k <= 100; k++) {
        gt_instruction weigh = {.op = GT_OP_share};
        weigh.imm[0].f = 1;
        send_ins(attacker, weigh);
        send_full(attacker, 2 * k, LARGE, 1.0);
        weigh.imm[0].f = 1e-6;
        send_ins(attacker, weigh);
        send_full(attacker, 2 * k + 1, SMALL, 1.0);
    }
    gt__link_flush(attacker);
    while (mine + theirs < ROUNDS && receive_any(worker, record)) {
        mine += record->ins.op == GT_OP_full && record[1].i64[0] == LARGE;
        theirs += record->ins.op == GT_OP_full && record[1].i64[0] == LARGE - 1;
        if (record->ins.op == GT_OP_mark)
            answer_worked(worker, &busy_ns, MARKS_NS);
    }
    CHECK(theirs >= ROUNDS / 4);
    gt__link_close(attacker);
    gt__link_close(victim);
    server_stop(&s);
    gt__link_close(worker);
}

/* So many large passes come before a small one, BACKLOG at most. The worker says that each took as long as was estimated. */
static int passes_before_small(gt_link *worker)
{
    static gt_slot record[1 + GT_MAX_TAIL];
    gt_instruction reply = {.op = GT_OP_reply, .flags = GT_FLAG_LAST};
    int passes = 0;
    while (passes < BACKLOG && CHECK(receive_any(worker, record))) {
        if (record->ins.op == GT_OP_mark) {
            reply.imm[0].u += PASS_NS;
            send_ins(worker, reply);
            gt__link_flush(worker);
        }
        if (record->ins.op == GT_OP_full && record[1].i64[0] == SMALL)
            break;
        passes += record->ins.op == GT_OP_full;
    }
    return passes;
}

/* A client that has worked much on a worker that is lost starts at another one as its clients do, and not behind all that they
 * will use. */
static void test_moved_client(const void *argument)
{
    (void)argument;
    static shared_server s;
    server_new(&s.server, false);
    gt_link *lost = server_link(&s.server);
    s.worker = server_link(&s.server);
    s.heavy = server_link(&s.server);
    s.light = server_link(&s.server);
    s.watcher = server_link(&s.server);
    server_start(&s.server);
    join_worker(lost, "lost");
    join_worker(s.worker, "second");
    join_client(s.heavy); /* client 1, at the first worker */
    join_client(s.light); /* client 2, at the second */
    join_client(s.watcher);
    send_backlog(s.heavy);
    CHECK_EQ(passes_before_small(lost), BACKLOG);
    gt__link_close(lost);
    CHECK(is_told_of_one_worker(s.heavy));
    send_backlog(s.light);
    wait_taken(&s, 2, 2); /* the second pass waits */
    send_full(s.heavy, BACKLOG + 1, SMALL, 1.0);
    gt__link_flush(s.heavy);
    wait_taken(&s, 1, BACKLOG + 1);
    CHECK(passes_before_small(s.worker) < BACKLOG / 4);
    end(&s);
}

/* A client that waits for one worker while another worker is lost keeps its turn, also if others wait all the time. */
static void test_another_worker_is_lost(const void *argument)
{
    (void)argument;
    static shared_server s;
    server_new(&s.server, false);
    s.worker = server_link(&s.server);
    gt_link *lost = server_link(&s.server), *neighbour = server_link(&s.server), *later = server_link(&s.server);
    s.heavy = server_link(&s.server);
    s.light = server_link(&s.server);
    s.watcher = server_link(&s.server);
    server_start(&s.server);
    join_worker(s.worker, "first");
    join_worker(lost, "lost");
    join_client(s.heavy);   /* client 1, at the first worker */
    join_client(neighbour); /* client 2, at the second */
    join_client(s.light);   /* client 3, at the first */
    join_client(s.watcher);
    send_full(s.heavy, 1, LARGE, 1.0);
    gt__link_flush(s.heavy);
    wait_taken(&s, 1, 1);
    send_full(s.light, 1, SMALL, 1.0); /* the first worker is busy */
    gt__link_flush(s.light);
    wait_taken(&s, 3, 1); /* it waits */
    gt__link_close(lost);
    CHECK(is_told_of_one_worker(neighbour));
    join_client(later);
    send_backlog(later);
    wait_taken(&s, 5, 1);
    CHECK(passes_before_small(s.worker) < BACKLOG / 2);
    gt__link_close(neighbour);
    gt__link_close(later);
    end(&s);
}

static void send_products(gt_link *client, int count)
{
    gt_slot record[2] = {{.ins = {.op = GT_OP_full, .dtype = GT_FLOAT32, .rank = 2, .tail = 1, .result = 1}}};
    record[1].i64[0] = record[1].i64[1] = 8192;
    send_slots(client, record, 2);
    for (int k = 1; k <= count; k++)
        send_ins(client, (gt_instruction){.op = GT_OP_matmul, .result = 1 + (uint64_t)k, .operand = {1, 1}});
    gt__link_flush(client);
}

/* Products that a card computes 10,000 times as fast as was estimated: soon it has the next ones before it is done with the first. */
static void test_fast_card(const void *argument)
{
    (void)argument;
    enum { KNOWN = 6, AHEAD = 4, PRODUCT_NS = 3000000 };
    static gt_slot record[1 + GT_MAX_TAIL];
    gt_instruction reply = {.op = GT_OP_reply, .flags = GT_FLAG_LAST, .operand = {1}}; /* it is asynchronous */
    server s;
    int products = 0, told = 0;
    server_new(&s, false);
    gt_link *worker = server_link(&s), *client = server_link(&s);
    server_start(&s);
    join_worker(worker, "card");
    join_client(client);
    send_products(client, BACKLOG);
    while (products < KNOWN + AHEAD && CHECK(receive_any(worker, record))) {
        products += record->ins.op == GT_OP_matmul;
        if (record->ins.op != GT_OP_mark || products > KNOWN)
            continue;
        reply.imm[0].u += (uint64_t)(products - told) * PRODUCT_NS;
        told = products;
        send_ins(worker, reply);
        gt__link_flush(worker);
    }
    gt__link_close(client);
    server_stop(&s);
    gt__link_close(worker);
}

/* A card's worker answers the marks that it finds complete together: the first with the time of all, the others with none. What it gets
 * is still some windows of work at most, and not all that there is. */
static void test_marks_answered_together(const void *argument)
{
    (void)argument;
    enum { PRODUCTS = 100, KNOWN = 16, PRODUCT_NS = 3000000, MOST_AHEAD = 24 };
    static gt_slot record[1 + GT_MAX_TAIL];
    gt_instruction reply = {.op = GT_OP_reply, .flags = GT_FLAG_LAST, .operand = {1}};
    shared_server s = {0};
    int products = 0, told = 0, marks = 0;
    server_new(&s.server, false);
    s.worker = server_link(&s.server);
    s.heavy = server_link(&s.server);
    s.watcher = server_link(&s.server);
    server_start(&s.server);
    join_worker(s.worker, "card");
    join_client(s.heavy);
    join_client(s.watcher);
    send_products(s.heavy, PRODUCTS);
    while (products < KNOWN && CHECK(receive_any(s.worker, record))) {
        products += record->ins.op == GT_OP_matmul;
        if (record->ins.op != GT_OP_mark)
            continue;
        reply.imm[0].u += marks++ % 2 ? 1000 : 2 * (uint64_t)(products - told) * PRODUCT_NS;
        told = products;
        send_ins(s.worker, reply);
        gt__link_flush(s.worker);
    }
    int64_t before, now = taken(&s, 1);
    do {
        before = now;
        now = taken(&s, 1);
    } while (now != before);
    CHECK(now <= KNOWN + MOST_AHEAD);
    gt__link_close(s.watcher);
    gt__link_close(s.heavy);
    server_stop(&s.server);
    gt__link_close(s.worker);
}

/* Clients that come one after the other, each with one operation: together they get no more than one client that stays. */
static void test_clients_of_one_operation(const void *argument)
{
    enum { TURNS = 12, SHOTS = TURNS };
    (void)argument;
    static gt_slot record[1 + GT_MAX_TAIL];
    static shared_server s;
    gt_link *shots[SHOTS];
    uint64_t busy_ns = 0;
    int served = 0;
    server_new(&s.server, false);
    for (int k = 0; k < SHOTS; k++) /* they join when the test says so */
        shots[k] = server_link(&s.server);
    join_new(&s);
    send_backlog(s.heavy);
    CHECK(receive_until(s.worker, GT_OP_mark));
    for (int turn = 0, next = 0; turn < TURNS; turn++) { /* one of them waits, as the client that stays does */
        if (next == served) {
            join_client(shots[next]);
            send_full(shots[next], 1, LARGE, 2.0);
            gt__link_flush(shots[next]);
            wait_taken(&s, 4 + next++, 1);
        }
        answer_worked(s.worker, &busy_ns, PASS_NS);
        do
            CHECK(receive_any(s.worker, record));
        while (record->ins.op != GT_OP_full);
        bool stays = record->ins.imm[0].f == 1.0;
        CHECK(receive_until(s.worker, GT_OP_mark));
        if (stays)
            continue;
        gt__link_close(shots[served]); /* it has got what it wanted */
        wait_taken(&s, 4 + served++, -1);
    }
    CHECK(served >= TURNS / 2 - 1 && served <= TURNS / 2 + 1);
    for (int k = served; k < SHOTS; k++)
        gt__link_close(shots[k]);
    end(&s);
}

int main(void)
{
    check_run("a light client first", test_light_first, NULL);
    check_run("measured while it waits", test_measured_while_it_waits, NULL);
    check_run("turns are measured", test_turns_are_measured, NULL);
    check_run("special functions of few elements", test_special_functions, NULL);
    check_run("a client that is gone", test_dead_client, NULL);
    check_run("a worker that is gone", test_worker_leaves, NULL);
    check_run("a weight that changes", test_changing_weight, NULL);
    check_run("a client that moves", test_moved_client, NULL);
    check_run("another worker is lost", test_another_worker_is_lost, NULL);
    check_run("a fast card", test_fast_card, NULL);
    check_run("marks answered together", test_marks_answered_together, NULL);
    check_run("clients of one operation", test_clients_of_one_operation, NULL);
    return check_end();
}

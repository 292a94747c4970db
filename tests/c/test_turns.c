/* test_turns.c: whose turn it is among clients that are spread over workers, and others. See share_fixture.h. */
#include "dispatcher/orders.h"
#include "share_fixture.h"

/* A worker that is lost with its queue full: a client that has a part of a tensor there is told so. */
static void test_full_worker_is_lost(const void *argument)
{
    (void)argument;
    static server s;
    char text[256];
    server_new(&s, false);
    gt_link *first = server_link(&s), *second = server_link(&s), *client = server_link(&s);
    server_start(&s);
    join_worker(first, "first");
    join_worker(second, "second");
    join_client(client);
    send_spread_full(client, 512 * (int64_t)LARGE);
    CHECK(receive_until(first, GT_OP_full) && receive_until(second, GT_OP_full));
    CHECK(receive_until(first, GT_OP_mark) && receive_until(second, GT_OP_mark));
    answer_mark(first);
    gt__link_kill(second, "the test ends it");
    gt__link_close(second);
    send_ins(client, (gt_instruction){.op = GT_OP_fetch, .result = 77, .operand = {1}});
    CHECK_EQ(receive_answer(client, 77, text, sizeof text), GT_ERR_CONNECTION);
    CHECK(strstr(text, "second"));
    gt__link_close(client);
    server_stop(&s);
    gt__link_close(first);
}

/* A client has a tensor on another worker, which takes no new clients, and its own is lost: a fetch is refused, and the server goes on. */
static void test_no_worker_is_left_for_it(const void *argument)
{
    (void)argument;
    server s;
    char text[256];
    server_new(&s, false);
    gt_link *lost = server_link(&s), *drained = server_link(&s), *client = server_link(&s),
            *watcher = server_link(&s);
    server_start(&s);
    join_worker(lost, "lost");
    join_worker(drained, "drained");
    join_client(client);
    join_client(watcher);
    send_rows_scope_on(client, 1, 1);
    send_fulls(client, SMALL, 1);
    CHECK(receive_until(drained, GT_OP_full));
    CHECK(gt__dispatcher_order(s.dispatcher, GT_ORDER_DRAIN, 1));
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    while (server_statistic(watcher, 1, "\"draining\": true", "instructions") < 0)
        if (!CHECK(gt__remaining_ms(deadline)))
            break;
    gt__link_close(lost);
    CHECK(is_told_of_one_worker(client));
    send_ins(client, (gt_instruction){.op = GT_OP_fetch, .result = 77, .operand = {1}});
    CHECK_EQ(receive_answer(client, 77, text, sizeof text), GT_ERR_CONNECTION);
    CHECK(strstr(text, "drained"));
    CHECK(server_statistic(watcher, 1, "\"clients\"", "number") > 0);
    gt__link_close(client);
    gt__link_close(watcher);
    server_stop(&s);
    gt__link_close(drained);
}

/* Three clients and the watcher: a spread one and a light one, at the first worker, and a heavy one at the second, which is busy with its
 * pass. The spread one has a tensor on both workers, and waits with its next record. */
static void begin_spread(shared_server *s, gt_link **second, gt_link **spread, gt_link **fifth)
{
    server_new(&s->server, false);
    s->worker = server_link(&s->server);
    *second = server_link(&s->server);
    *spread = server_link(&s->server);
    s->heavy = server_link(&s->server);
    s->light = server_link(&s->server);
    s->watcher = server_link(&s->server);
    if (fifth) /* it joins when the test says so */
        *fifth = server_link(&s->server);
    server_start(&s->server);
    join_worker(s->worker, "first");
    join_worker(*second, "second");
    join_client(*spread);  /* client 1, at the first worker */
    join_client(s->heavy); /* client 2, at the second */
    join_client(s->light); /* client 3, at the first */
    join_client(s->watcher);
    send_spread_full(*spread, SMALL);
    CHECK(receive_until(s->worker, GT_OP_full) && receive_until(*second, GT_OP_full));
    send_full(s->heavy, 1, LARGE, 1.0);
    gt__link_flush(s->heavy);
    CHECK(receive_until(*second, GT_OP_mark));
    send_ins(*spread, (gt_instruction){.op = GT_OP_neg, .result = 2, .operand = {1}, .scope = 1});
    gt__link_flush(*spread);
    wait_taken(s, 1, 4);
    taken(s, 1); /* the turn in which it was taken is over: it keeps a worker */
}

static void end_spread(shared_server *s, gt_link *second, gt_link *spread)
{
    gt__link_close(spread);
    end(s);
    gt__link_close(second);
}

/* While a spread client waits for a long operation on one worker, the other one serves its own client. */
static void test_a_worker_is_lent(const void *argument)
{
    (void)argument;
    static shared_server s;
    gt_link *second, *spread;
    begin_spread(&s, &second, &spread, NULL);
    send_light(&s);
    CHECK(receive_until(s.worker, GT_OP_exp));
    answer_mark(second);
    CHECK(receive_until(second, GT_OP_neg) && receive_until(s.worker, GT_OP_neg));
    end_spread(&s, second, spread);
}

/* Records that came from the second worker. */
static int64_t heard_of_second(shared_server *s)
{
    return server_statistic(s->watcher, 1, "\"name\": \"second\"", "received_records");
}

/* Whether the spread client is served when both workers have done one long operation each. *took_ns: from the first one's mark to its
 * answer, at most. */
static bool is_served_in_turn(uint64_t *took_ns)
{
    static shared_server s;
    gt_link *second, *spread;
    begin_spread(&s, &second, &spread, NULL);
    for (uint64_t k = 2; k <= BACKLOG; k++)
        send_full(s.heavy, k, LARGE, 1.0);
    gt__link_flush(s.heavy);
    uint64_t start = gt__now_ns();
    send_backlog(s.light);
    CHECK(receive_until(s.worker, GT_OP_mark)); /* lent for one pass */
    wait_taken(&s, 2, 2);
    wait_taken(&s, 3, 2);
    int64_t heard = heard_of_second(&s);
    answer_mark(second);
    while (heard_of_second(&s) == heard) /* this answer is read before the next one */
        continue;
    answer_mark(s.worker);
    *took_ns = gt__now_ns() - start;
    static gt_slot record[1 + GT_MAX_TAIL];
    bool served = receive_any(second, record) && record->ins.op == GT_OP_neg;
    served = receive_any(s.worker, record) && record->ins.op == GT_OP_neg && served;
    end_spread(&s, second, spread);
    return served;
}

/* Two workers that have long operations in turn: the spread client that waits for both is served after one on each. A worker that does
 * not answer for 100 ms is not waited for: on a busy machine the test is such a worker at times. */
static void test_workers_are_not_lent_for_ever(const void *argument)
{
    (void)argument;
    enum { ATTEMPTS = 50, SILENT_NS = 100000000 };
    uint64_t took_ns = SILENT_NS;
    bool served = false;
    for (int k = 0; k < ATTEMPTS && !served && took_ns >= SILENT_NS; k++)
        served = is_served_in_turn(&took_ns);
    CHECK(served);
}

/* The size of the next full, up to the mark behind it. */
static int64_t receive_pass(gt_link *worker)
{
    static gt_slot record[1 + GT_MAX_TAIL];
    int64_t size = 0;
    do {
        if (!CHECK(receive_any(worker, record)))
            return -1;
        size = record->ins.op == GT_OP_full ? record[1].i64[0] : size;
    } while (record->ins.op != GT_OP_mark || !size);
    return size;
}

/* Two spread clients whose home is another worker each. Their weights are as 1 to 3, and so are the passes that they get. */
static void test_spread_weights(const void *argument)
{
    (void)argument;
    enum { LARGER = 2 * LARGE, PASSES = 40 };
    server s;
    uint64_t busy_ns[2] = {0};
    int of_light = 0;
    server_new(&s, false);
    gt_link *workers[] = {server_link(&s), server_link(&s)}, *light = server_link(&s), *heavy = server_link(&s);
    server_start(&s);
    join_worker(workers[0], "first");
    join_worker(workers[1], "second");
    join_client(light);
    join_client(heavy);
    gt_instruction weigh = {.op = GT_OP_share};
    weigh.imm[0].f = 1.0 / 3;
    send_ins(light, weigh);
    send_spread_fulls(light, LARGER, PASSES);
    send_spread_fulls(heavy, LARGER + 2, PASSES);
    for (int k = 0; k < PASSES; k++) {
        int64_t size = receive_pass(workers[0]);
        CHECK_EQ(receive_pass(workers[1]), size);
        of_light += size == LARGER / 2;
        answer_worked(workers[0], &busy_ns[0], PASS_NS);
        answer_worked(workers[1], &busy_ns[1], PASS_NS);
    }
    CHECK(of_light >= PASSES / 4 - 2 && of_light <= PASSES / 4 + 2);
    gt__link_close(light);
    gt__link_close(heavy);
    server_stop(&s);
    gt__link_close(workers[0]);
    gt__link_close(workers[1]);
}

/* A spread client and one of each worker: each gets about every second pass of a worker. The
 * spread one gets fewer if a worker is lent while the answer of the other one is on its way. */
static void test_spread_beside_others(const void *argument)
{
    (void)argument;
    enum { LARGER = 2 * LARGE, PASSES = 30 };
    server s;
    uint64_t busy_ns[2] = {0};
    int of_spread[2] = {0}, passes[2] = {0};
    server_new(&s, false);
    gt_link *workers[] = {server_link(&s), server_link(&s)}, *spread = server_link(&s);
    gt_link *clients[] = {server_link(&s), server_link(&s)};
    server_start(&s);
    join_worker(workers[0], "first");
    join_worker(workers[1], "second");
    join_client(clients[0]);
    join_client(clients[1]);
    join_client(spread);
    for (uint64_t k = 1; k <= PASSES; k++) {
        send_full(clients[0], k, LARGE - 1, 1.0);
        send_full(clients[1], k, LARGE - 1, 1.0);
    }
    gt__link_flush(clients[0]);
    gt__link_flush(clients[1]);
    send_spread_fulls(spread, LARGER, PASSES);
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    while (passes[0] + passes[1] < 2 * PASSES && CHECK(gt__remaining_ms(deadline)))
        for (int w = 0; w < 2; w++) { /* one may be kept until the other one is done */
            size_t available;
            if (!gt__link_peek(workers[w], &available))
                continue;
            of_spread[w] += receive_pass(workers[w]) == LARGE;
            passes[w]++;
            answer_worked(workers[w], &busy_ns[w], PASS_NS);
        }
    for (int w = 0; w < 2; w++)
        CHECK(of_spread[w] >= passes[w] / 4 && of_spread[w] <= passes[w] / 2 + 3);
    gt__link_close(spread);
    gt__link_close(clients[0]);
    gt__link_close(clients[1]);
    server_stop(&s);
    gt__link_close(workers[0]);
    gt__link_close(workers[1]);
}

/* Large passes of a spread client, on a worker that is busy with the rest of its clients. */
static void send_spread_passes(gt_link *client, int count)
{
    for (int k = 0; k < count; k++) {
        gt_slot full[2] = {{.ins = {.op = GT_OP_full, .dtype = GT_FLOAT32, .rank = 1, .tail = 1, .scope = 1}}};
        full->ins.result = 100 + (uint64_t)k;
        full[1].i64[0] = 2 * (int64_t)LARGE;
        send_slots(client, full, 2);
    }
    gt__link_flush(client);
}

/* While a worker is lent, the spread clients that could not use it save nothing up: its own client is not kept waiting for as long
 * afterwards. */
static void test_lent_time_is_not_saved_up(const void *argument)
{
    (void)argument;
    static shared_server s;
    uint64_t busy_ns = 0, second_busy_ns = 0;
    int passes = 0, of_own = 0;
    gt_link *second, *spread, *other;
    begin_spread(&s, &second, &spread, &other);
    join_client(other); /* client 5: a second spread one, so that one is always in the line */
    send_spread_full(other, SMALL);
    send_spread_passes(other, 2 * BACKLOG);
    wait_taken(&s, 5, 3);
    send_spread_passes(spread, 2 * BACKLOG);
    for (uint64_t k = 1; k <= 2 * BACKLOG; k++)
        send_full(s.light, k, LARGE - 1, 1.0);
    gt__link_flush(s.light);
    for (int k = 0; k < BACKLOG; k++) { /* the second worker is busy with its pass all the time */
        CHECK_EQ(receive_pass(s.worker), LARGE - 1);
        wait_taken(&s, 3, k + 2);
        if (k + 1 < BACKLOG)
            answer_worked(s.worker, &busy_ns, PASS_NS);
    }
    answer_worked(second, &second_busy_ns, PASS_NS);
    answer_worked(s.worker, &busy_ns, PASS_NS);
    for (; passes < BACKLOG; passes++) {
        int64_t size = receive_pass(s.worker);
        of_own += size == LARGE - 1;
        if (size == LARGE) {
            CHECK_EQ(receive_pass(second), LARGE);
            answer_worked(second, &second_busy_ns, PASS_NS);
        }
        answer_worked(s.worker, &busy_ns, PASS_NS);
    }
    CHECK(of_own >= BACKLOG / 4); /* by the weights, a third */
    gt__link_close(other);
    end_spread(&s, second, spread);
}

/* A spread client waits for a long operation. Another one, on other workers, overtakes it. */
static void test_other_workers_are_not_held_up(const void *argument)
{
    (void)argument;
    shared_server s = {0};
    gt_link *workers[4];
    uint64_t busy_ns[2] = {0};
    char name[16];
    server_new(&s.server, false);
    for (int w = 0; w < 4; w++)
        workers[w] = server_link(&s.server);
    s.heavy = server_link(&s.server);
    s.light = server_link(&s.server);
    s.watcher = server_link(&s.server);
    server_start(&s.server);
    for (int w = 0; w < 4; w++) {
        snprintf(name, sizeof name, "number%d", w);
        join_worker(workers[w], name);
    }
    join_client(s.heavy);   /* client 1, at worker 0, spread over 0 and 1 */
    join_client(s.watcher); /* at worker 1 */
    join_client(s.light);   /* client 3, at worker 2, spread over 2 and 3 */
    send_rows_scope(s.heavy);
    send_rows_scope_on(s.light, 2, 3);
    send_spread_passes(s.heavy, 2);
    wait_taken(&s, 1, 4); /* its second pass waits */
    send_spread_passes(s.light, BACKLOG);
    for (int k = 0; k < BACKLOG; k++) {
        CHECK_EQ(receive_pass(workers[2]), LARGE);
        CHECK_EQ(receive_pass(workers[3]), LARGE);
        answer_worked(workers[2], &busy_ns[0], PASS_NS);
        answer_worked(workers[3], &busy_ns[1], PASS_NS);
    }
    gt__link_close(s.watcher);
    gt__link_close(s.heavy);
    gt__link_close(s.light);
    server_stop(&s.server);
    for (int w = 0; w < 4; w++)
        gt__link_close(workers[w]);
}

/* Spread clients that come one after the other, each with one operation, beside a spread client that stays: together they get no more than
 * that one. */
static void test_spread_clients_of_one_operation(const void *argument)
{
    enum { TURNS = 12, SHOTS = TURNS, LARGER = 2 * LARGE };
    (void)argument;
    static shared_server s;
    gt_link *shots[SHOTS], *second;
    uint64_t busy_ns[2] = {0};
    int served = 0;
    server_new(&s.server, false);
    for (int k = 0; k < SHOTS; k++) /* they join when the test says so */
        shots[k] = server_link(&s.server);
    second = server_link(&s.server);
    join_new(&s);
    join_worker(second, "second");
    send_spread_fulls(s.heavy, LARGER, BACKLOG);
    CHECK_EQ(receive_pass(s.worker), LARGE);
    CHECK_EQ(receive_pass(second), LARGE);
    for (int turn = 0, next = 0; turn < TURNS; turn++) { /* one of them waits, as the client that stays does */
        if (next == served) {
            join_client(shots[next]);
            send_spread_full(shots[next], LARGER + 2);
            wait_taken(&s, 4 + next++, 3);
        }
        answer_worked(s.worker, &busy_ns[0], PASS_NS);
        answer_worked(second, &busy_ns[1], PASS_NS);
        int64_t size = receive_pass(s.worker);
        CHECK_EQ(receive_pass(second), size);
        if (size == LARGE)
            continue;
        gt__link_close(shots[served]); /* it has got what it wanted */
        wait_taken(&s, 4 + served++, -1);
    }
    CHECK(served >= TURNS / 2 - 1 && served <= TURNS / 2 + 1);
    for (int k = served; k < SHOTS; k++)
        gt__link_close(shots[k]);
    end(&s);
    gt__link_close(second);
}

int main(void)
{
    check_run("a full worker is lost", test_full_worker_is_lost, NULL);
    check_run("no worker is left", test_no_worker_is_left_for_it, NULL);
    check_run("weights of spread clients", test_spread_weights, NULL);
    check_run("a spread client beside others", test_spread_beside_others, NULL);
    check_run("a worker is lent", test_a_worker_is_lent, NULL);
    check_run("workers are not lent for ever", test_workers_are_not_lent_for_ever, NULL);
    check_run("lent time is not saved up", test_lent_time_is_not_saved_up, NULL);
    check_run("other workers are not held up", test_other_workers_are_not_held_up, NULL);
    check_run("spread clients of one operation", test_spread_clients_of_one_operation, NULL);
    return check_end();
}

/*
 * test_share.c: whose records a worker gets, and when. The worker is a raw link that answers marks when the test says so:
 * the order of its records does not depend on time.
 */
#include "core/config.h"
#include "dispatcher/orders.h"
#include "server_fixture.h"

enum {
    LARGE = 1 << 26, /* elements: one pass over them is more than a window */
    PASS_NS = LARGE / 10 * 3,
    SMALL = 4,
    BACKLOG = 20,
};

typedef struct shared_server {
    server server;
    gt_link *worker, *heavy, *light, *watcher; /* clients 1, 2 and 3 */
} shared_server;

/* Records of a client that the dispatcher has taken; -1: it has left. */
static int64_t taken(shared_server *s, int client)
{
    char section[32];
    snprintf(section, sizeof section, "\"number\": %d,", client);
    return server_statistic(s->watcher, 1, section, "instructions");
}

static bool wait_taken(shared_server *s, int client, int64_t least)
{
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    while (least < 0 ? taken(s, client) >= 0 : taken(s, client) < least)
        if (!CHECK(gt__remaining_ms(deadline)))
            return false;
    return true;
}

static void join(shared_server *s)
{
    server_new(&s->server, false);
    s->worker = server_link(&s->server);
    s->heavy = server_link(&s->server);
    s->light = server_link(&s->server);
    s->watcher = server_link(&s->server);
    server_start(&s->server);
    join_worker(s->worker, "raw");
    join_client(s->heavy);
    join_client(s->light);
    join_client(s->watcher);
}

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

static void end(shared_server *s)
{
    gt__link_close(s->watcher);
    if (s->heavy)
        gt__link_close(s->heavy);
    gt__link_close(s->light);
    server_stop(&s->server);
    gt__link_close(s->worker);
}

static void send_light(shared_server *s)
{
    send_full(s->light, 1, SMALL, 1.0);
    send_ins(s->light, (gt_instruction){.op = GT_OP_exp, .result = 2, .operand = {1}});
    gt__link_flush(s->light);
    wait_taken(s, 2, 1);
}

/* Everything up to a record of this op; marks are not answered. */
static bool receive_until(gt_link *link, gt_opcode op)
{
    static gt_slot record[1 + GT_MAX_TAIL];
    do
        if (!receive_any(link, record))
            return false;
    while (record->ins.op != op);
    return true;
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

/* Answer a mark: the worker has worked for so long since the last one. */
static void answer_worked(gt_link *worker, uint64_t *busy_ns, uint64_t ns)
{
    gt_instruction reply = {.op = GT_OP_reply, .flags = GT_FLAG_LAST};
    reply.imm[0].u = *busy_ns += ns;
    send_ins(worker, reply);
    gt__link_flush(worker);
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

static void send_fulls(gt_link *client, int64_t size, int count)
{
    for (int k = 1; k <= count; k++) {
        gt_slot full[2] = {
            {.ins = {
                 .op = GT_OP_full, .dtype = GT_FLOAT32, .rank = 1, .tail = 1, .result = (uint64_t)k, .scope = 1}}};
        full[1].i64[0] = size;
        send_slots(client, full, 2);
    }
    gt__link_flush(client);
}

static void send_spread_fulls(gt_link *client, int64_t size, int count)
{
    send_rows_scope(client);
    send_fulls(client, size, count);
}

static void send_spread_full(gt_link *client, int64_t size)
{
    send_spread_fulls(client, size, 1);
}

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

/* Read what the client is told until only one worker is left. */
static bool is_told_of_one_worker(gt_link *client)
{
    static gt_slot record[1 + GT_MAX_TAIL];
    do
        if (!receive_any(client, record))
            return false;
    while (record->ins.op != GT_OP_welcome || record->ins.imm[1].i != 1);
    return true;
}

/* Work for a long time. */
static void send_backlog(gt_link *client)
{
    for (uint64_t k = 1; k <= BACKLOG; k++)
        send_full(client, k, LARGE, 1.0);
    gt__link_flush(client);
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

/* Two workers that have long operations in turn: the spread client that waits for both is served after one on each. */
static void test_workers_are_not_lent_for_ever(const void *argument)
{
    (void)argument;
    static shared_server s;
    gt_link *second, *spread;
    begin_spread(&s, &second, &spread, NULL);
    for (uint64_t k = 2; k <= BACKLOG; k++)
        send_full(s.heavy, k, LARGE, 1.0);
    gt__link_flush(s.heavy);
    send_backlog(s.light);
    CHECK(receive_until(s.worker, GT_OP_mark)); /* lent for one pass */
    wait_taken(&s, 2, 2);
    wait_taken(&s, 3, 2);
    answer_mark(second);
    for (
        int k = 0; k < 200;
        k++) /* turns of the loop: it looks at all links every 64th. So it reads this answer before the next one. */
        taken(&s, 1);
    answer_mark(s.worker);
    static gt_slot record[1 + GT_MAX_TAIL];
    CHECK(receive_any(second, record) && record->ins.op == GT_OP_neg);
    CHECK(receive_any(s.worker, record) && record->ins.op == GT_OP_neg);
    end_spread(&s, second, spread);
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
    wait_taken(&s, 5, 4);
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

int main(void)
{
    check_run("a light client first", test_light_first, NULL);
    check_run("measured while it waits", test_measured_while_it_waits, NULL);
    check_run("turns are measured", test_turns_are_measured, NULL);
    check_run("special functions of few elements", test_special_functions, NULL);
    check_run("a client that is gone", test_dead_client, NULL);
    check_run("a worker that is gone", test_worker_leaves, NULL);
    check_run("a full worker is lost", test_full_worker_is_lost, NULL);
    check_run("a weight that changes", test_changing_weight, NULL);
    check_run("a client that moves", test_moved_client, NULL);
    check_run("no worker is left", test_no_worker_is_left_for_it, NULL);
    check_run("another worker is lost", test_another_worker_is_lost, NULL);
    check_run("a fast card", test_fast_card, NULL);
    check_run("marks answered together", test_marks_answered_together, NULL);
    check_run("weights of spread clients", test_spread_weights, NULL);
    check_run("a spread client beside others", test_spread_beside_others, NULL);
    check_run("a worker is lent", test_a_worker_is_lent, NULL);
    check_run("workers are not lent for ever", test_workers_are_not_lent_for_ever, NULL);
    check_run("lent time is not saved up", test_lent_time_is_not_saved_up, NULL);
    check_run("other workers are not held up", test_other_workers_are_not_held_up, NULL);
    return check_end();
}

/*
 * test_share.c: whose records a worker gets, and when. The worker is a raw link that answers marks when the test says so:
 * the order of its records does not depend on time.
 */
#include "server_fixture.h"

enum {
    LARGE = 1 << 26, /* elements: one pass over them is more than a window */
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

/* The heavy client sends a large tensor, and passes over it; the worker has the tensor and a mark. */
static void begin(shared_server *s)
{
    gt_slot record[1 + GT_MAX_TAIL];
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

int main(void)
{
    check_run("a light client first", test_light_first, NULL);
    check_run("a client that is gone", test_dead_client, NULL);
    check_run("a worker that is gone", test_worker_leaves, NULL);
    return check_end();
}

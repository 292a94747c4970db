/*
 * test_replaced.c: a worker takes the place of another while records of its peers wait that mean the other one. Their streams are written
 * here, as in test_deferred.c.
 */
#include <stdlib.h>

#include "deferred_stage.h"
#include "worker/peers/mailbox.h"

/* Another worker takes the place of one that a sum waits for: the sum fails, and so does what needs it. */
static void test_replaced(const void *argument)
{
    static stage s;
    static const uint64_t in[WORKERS] = {1, 1, 1}, out[WORKERS] = {2, 2, 2};
    if (!stage_open(&s, argument))
        return;
    player *first = &s.players[0];
    gt_slot peer[3] = {{.ins = {.op = GT_OP_peer, .tail = 2, .result = 2, .operand = {30}}}};
    write_record(first, 0, peer);
    write_full(first, 1, 1, SMALL, 1);
    write_full(&s.players[1], 1, 1, SMALL, 2);
    size_t third = s.players[2].count;
    write_sum(&s, 1, SMALL, in, out);
    s.players[2].count = third; /* it does not take part */
    write_ins(first, 1, (gt_instruction){.op = GT_OP_neg, .result = 3, .operand = {2}});
    peer->ins.operand[0] = 31;
    write_record(first, 0, peer);
    write_record(&s.players[1], 0, peer);
    while (first->at < first->count)
        take_one(&s, first);
    while (s.players[1].at < s.players[1].count)
        take_one(&s, &s.players[1]);
    gt__deferred_idle(&first->worker);
    CHECK_EQ(first->worker.deferred.count, 0);
    const gt_entry *result = gt__store_find(first->worker.store, 3);
    if (CHECK_EQ(result->state, GT_ENTRY_POISON)) {
        CHECK_EQ(result->poison->err, GT_ERR_CONNECTION);
        CHECK(strstr(result->poison->text, "worker 2 is gone") != NULL);
    }
    stage_close(&s);
}

typedef struct elsewhere {
    const char *engine;
    bool tiers;     /* the parties are asked for sums in tiers, which are held where they are on several hosts */
    unsigned times; /* that the worker is replaced */
} elsewhere;

/* The worker that takes a place is on another host, and shares no memory with the others. A sum of before is started later at one of
 * them: in the same way as at the other, else both wait for messages that never come. */
static void test_replaced_from_elsewhere(const void *argument)
{
    enum { HOST = 4 | GT_HOST_TIERS, OTHER_HOST = 8 | GT_HOST_TIERS };
    static stage s;
    const elsewhere *how = argument;
    static const uint64_t in[WORKERS] = {1, 1, 1}, out[WORKERS] = {2, 2, 2};
    gt_slot recv[2] = {{.ins = {.op = GT_OP_recv, .dtype = GT_INT64, .rank = 1, .tail = 1, .result = 1}}};
    if (!stage_open(&s, how->engine))
        return;
    player *first = &s.players[0];
    for (uint64_t k = 0; k < WORKERS - 1; k++) {
        gt_worker *worker = &s.players[k].worker;
        worker->host = HOST;
        if (how->tiers)
            CHECK_EQ(gt__collective_tiers(worker, &worker->collective), GT_OK);
        for (uint64_t other = 0; other < WORKERS; other++) {
            gt_slot peer[3] = {{.ins = {.op = GT_OP_peer, .tail = 2, .result = other}}};
            peer->ins.operand[0] = 1 + other;
            peer->ins.operand[1] = worker->group;
            peer->ins.imm[0].u = HOST;
            if (other != k)
                write_record(&s.players[k], 0, peer);
        }
    }
    recv->ins.imm[0].i = 2;
    recv->ins.imm[1].u = UINT64_MAX;
    recv[1].i64[0] = LARGE;
    write_record(first, 1, recv); /* before its operand is known, the sum is not started there */
    write_full(&s.players[1], 1, 1, LARGE, 2);
    write_sum(&s, 1, LARGE, in, out);
    s.players[2].count = 0; /* it does not take part */
    while (first->at < first->count)
        take_one(&s, first);
    first->worker.deferred.turn_ns =
        UINT64_MAX; /* the sum is not looked at before all are replaced, as on a busy machine */
    for (int k = 0; k < WORKERS - 1; k++)
        for (unsigned time = 0; time < how->times; time++) {
            gt_slot peer[3] = {{.ins = {.op = GT_OP_peer, .tail = 2, .result = 2, .operand = {30 + time, 99}}}};
            peer->ins.imm[0].u = OTHER_HOST;
            write_record(&s.players[k], 0, peer);
        }
    finish(&s);
    for (int k = 0; k < WORKERS - 1; k++) {
        const gt_entry *result = gt__store_find(s.players[k].worker.store, 2);
        if (CHECK(result && result->state == GT_ENTRY_POISON)) {
            CHECK_EQ(result->poison->err, GT_ERR_CONNECTION);
            CHECK(strstr(result->poison->text, "worker 2 is gone") != NULL);
        }
    }
    stage_close(&s);
}

/* Predecessors are known as long as a record that was put aside means one of them, and no longer. */
static void test_predecessors_are_forgotten(const void *argument)
{
    static stage s;
    gt_slot recv[2] = {{.ins = {.op = GT_OP_recv, .dtype = GT_INT64, .rank = 1, .tail = 1, .result = 1}}};
    if (!stage_open(&s, argument))
        return;
    player *first = &s.players[0];
    for (uint64_t life = 30; life < 40; life++) {
        gt_slot peer[3] = {{.ins = {.op = GT_OP_peer, .tail = 2, .result = 2, .operand = {life}}}};
        recv->ins.imm[0].i = 1;
        recv->ins.imm[1].u = life;
        recv[1].i64[0] = SMALL;
        write_record(first, 0, peer);
        if (life == 32 || life == 35) /* what it waits for does not come from the one that is replaced */
            write_record(first, life, recv);
    }
    while (first->at < first->count)
        take_one(&s, first);
    unsigned known = 0;
    for (const gt_predecessor *one = first->worker.predecessor[2]; one; one = one->before, known++)
        CHECK_EQ(one->worker.life, 38 - known);
    CHECK_EQ(known, 7);
    for (gt_life life = 32; life < 39; life++) { /* a record before that which names its successor */
        first->worker.exchange->record = 0;
        for (const gt_predecessor *one = first->worker.predecessor[2]; one; one = one->before)
            if (one->worker.life == life)
                first->worker.exchange->record = one->until - 1;
        CHECK_EQ(gt__worker_meant(&first->worker, 2)->life, life);
    }
    first->worker.exchange->record = UINT64_MAX;
    CHECK_EQ(gt__worker_meant(&first->worker, 2)->life, 39);
    CHECK_EQ(gt__exchange_post(s.players[1].worker.exchange, 0, 32, 0, (int64_t[SMALL]){32, 32, 32},
                               SMALL * sizeof(int64_t), NULL),
             GT_OK);
    gt__deferred_idle(&first->worker);
    CHECK_EQ(first->worker.deferred.count, 1);
    write_record(first, 0, &(gt_slot[3]){{.ins = {.op = GT_OP_peer, .tail = 2, .result = 2, .operand = {40}}}}[0]);
    take_one(&s, first);
    known = 0;
    for (const gt_predecessor *one = first->worker.predecessor[2]; one; one = one->before)
        known++;
    CHECK_EQ(known, 5); /* from 35 on */
    stage_close(&s);
}

/* A tensor for a worker that was replaced meanwhile does not go to its successor, which would never take it. */
static void test_nothing_for_the_successor(const void *argument)
{
    static stage s;
    if (!stage_open(&s, argument))
        return;
    player *first = &s.players[0], *other = &s.players[1], *successor = &s.players[2];
    gt_slot peer[3] = {{.ins = {.op = GT_OP_peer, .tail = 2, .result = 2, .operand = {30, first->worker.group}}}};
    write_record(first, 0, peer);
    write_full(other, 1, 1, LARGE, 5);
    write_move(&s, 1, 1, 1, 0, 2, LARGE);
    write_move(&s, 1, 0, 2, 2, 3, LARGE);
    successor->count = 0; /* its predecessor had that */
    peer->ins.operand[0] = 31;
    write_record(first, 0, peer);
    while (first->at < first->count)
        take_one(&s, first);
    CHECK_EQ(first->worker.deferred.count, 2);
    finish(&s);
    CHECK_EQ(value_in(first, 2), 5);
    CHECK_EQ(successor->worker.exchange->mailbox->count, 0);
    write_ins(first, 1, (gt_instruction){.op = GT_OP_free, .result = 2});
    finish(&s);
    gt__peers_reclaim(&first->worker);
    CHECK(!first->worker.loans.first);
    CHECK_EQ(first->worker.store->bytes_used, 0);
    stage_close(&s);
}

/* A worker lends to the successor of one that a sum still waits for. That the sum's party is gone does not end the loan. */
static void test_loan_to_successor(const void *argument)
{
    static stage s;
    static const uint64_t in[WORKERS] = {1, 1, 1}, out[WORKERS] = {2, 2, 2};
    if (!stage_open(&s, argument))
        return;
    player *first = &s.players[0], *successor = &s.players[2];
    gt_slot peer[3] = {{.ins = {.op = GT_OP_peer, .tail = 2, .result = 2, .operand = {30, first->worker.group}}}};
    for (int k = 0; k < WORKERS; k++)
        write_full(&s.players[k], 1, 1, SMALL, k + 1);
    write_record(first, 0, peer);
    size_t before = successor->count;
    write_sum(&s, 1, SMALL, in, out);
    successor->count = before; /* its predecessor had that */
    while (s.players[1].at < s.players[1].count)
        take_one(&s, &s.players[1]);
    while (first->at < first->count)
        take_one(&s, first);
    CHECK_EQ(first->worker.deferred.count, 1);
    first->worker.deferred.turn_ns = UINT64_MAX; /* the sum is not looked at, as it would be on a busy machine */
    peer->ins.operand[0] = 31;
    write_record(first, 0, peer);
    write_full(first, 1, 3, LARGE, 40);
    write_move(&s, 1, 0, 3, 2, 4, LARGE);
    write_ins(first, 1, (gt_instruction){.op = GT_OP_free, .result = 3});
    while (first->at < first->count)
        take_one(&s, first);
    gt__deferred_idle(&first->worker);
    CHECK_EQ(first->worker.deferred.count, 0);
    write_full(first, 1, 5, LARGE, 50); /* in the memory that was lent, if that is free */
    take_one(&s, first);
    while (successor->at < successor->count)
        take_one(&s, successor);
    CHECK_EQ(value_in(successor, 4), 40);
    stage_close(&s);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("a worker is replaced", test_replaced, "cpu");
    check_run("a worker is replaced by one of another host", test_replaced_from_elsewhere,
              &(elsewhere){.engine = "cpu", .tiers = true, .times = 1});
    check_run("a worker is replaced by one of another memory", test_replaced_from_elsewhere,
              &(elsewhere){.engine = "far", .times = 1});
    check_run("a worker is replaced twice, by ones of another host", test_replaced_from_elsewhere,
              &(elsewhere){.engine = "cpu", .tiers = true, .times = 2});
    check_run("a worker is replaced twice, by ones of another memory", test_replaced_from_elsewhere,
              &(elsewhere){.engine = "far", .times = 2});
    check_run("predecessors are forgotten", test_predecessors_are_forgotten, "cpu");
    check_run("nothing for the successor", test_nothing_for_the_successor, "cpu");
    check_run("nothing is lent to the successor", test_nothing_for_the_successor, "far");
    check_run("a loan to the successor of a worker", test_loan_to_successor, "far");
    return check_end();
}

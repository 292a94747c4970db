/*
 * test_collective.c: collectives that engines hold among themselves (`late` has one, among the engines of a process): used
 * where all parties have it, with the worker's own in all other cases, and never with a party that has failed. The same for engines that read
 * each other's memory (`far` in one process).
 */
#include <pthread.h>
#include <stdlib.h>

#include "worker_fixture.h"

enum { PARTIES = 3, ELEMENTS = 1000 };

typedef struct party {
    gt_worker worker;
    gt_engine_ops ops;
    unsigned self;
    bool fails;
    gt_opcode op;
    pthread_t thread;
} party;

static atomic_int engine_calls; /* of `collective` and `lend` */
static gt_err (*engine_lend)(gt_engine *engine, const void *memory, size_t bytes, bool outside, gt_loan *loan);
static gt_err (*engine_collective)(gt_engine *engine, const gt_group_call *call, gt_token *token);

static gt_err counted(gt_engine *engine, const gt_group_call *call, gt_token *token)
{
    uint64_t number = call->self == 0 ? 42 : 0;
    CHECK_EQ(call->share(call, &number, sizeof number), GT_OK);
    CHECK_EQ(number, 42);
    atomic_fetch_add(&engine_calls, 1);
    return engine_collective(engine, call, token);
}

static gt_err counted_lend(gt_engine *engine, const void *memory, size_t bytes, bool outside, gt_loan *loan)
{
    atomic_fetch_add(&engine_calls, 1);
    return engine_lend(engine, memory, bytes, outside, loan);
}

/* Slot 1 has 0, 1, 2, ...; or fails. Slot 2 becomes the result. */
static void *take_part(void *argument)
{
    party *p = argument;
    gt_slot record[3] = {{.ins = {.op = (uint16_t)p->op, .dtype = GT_INT64, .rank = 1, .tail = 3, .result = 2}}};
    gt_slot records[4] = {{{0}}};
    record->ins.operand[0] = 1;
    record->ins.operand[1] = p->self;
    record->ins.imm[0].u = 77;
    record->ins.imm[1].u = PARTIES;
    memcpy(records, record, sizeof *record);
    records[1].i64[0] = ELEMENTS;
    for (int k = 0; k < PARTIES; k++) {
        gt_partner partner = {.worker = k};
        memcpy((gt_partner *)(void *)(records + 2) + k, &partner, sizeof partner);
    }
    if (p->fails) {
        gt_slot missing[8] = {{.ins = {.op = GT_OP_neg, .result = 1, .operand = {1000}}}};
        execute(&p->worker, missing);
    } else
        execute_arange(&p->worker, 1, ELEMENTS);
    CHECK(gt__peers_handle(&p->worker, &records->ins, records + 1));
    gt__late_drain(&p->worker);
    gt_entry *result = gt__store_find(p->worker.store, 2);
    gt__store_settle(p->worker.store, result);
    return NULL;
}

static void run_parties(const char *engine, party *parties, gt_board *board, bool one_group)
{
    static const gt_worker_options options;
    for (unsigned k = 0; k < PARTIES; k++) {
        party *p = &parties[k];
        gt_worker *worker = &p->worker;
        if (!worker_open(worker, engine))
            return;
        worker->options = &options;
        p->self = k;
        p->ops = *worker->engine->ops;
        if (p->ops.collective) {
            engine_collective = p->ops.collective;
            p->ops.collective = counted;
        }
        if (p->ops.lend) {
            engine_lend = p->ops.lend;
            p->ops.lend = counted_lend;
        }
        worker->engine->ops = &p->ops;
        CHECK_EQ(gt__exchange_local(board, NULL, &worker->exchange), GT_OK);
        worker->exchange->ops->join(worker->exchange, (int32_t)k, k + 1, 1);
        CHECK_EQ(gt__collective_host(worker->exchange, worker->engine, worker->store, &worker->collective), GT_OK);
        if (p->ops.lend)
            CHECK_EQ(gt__collective_lent(worker, &worker->collective), GT_OK);
        if (p->ops.collective)
            CHECK_EQ(gt__collective_engine(worker, &worker->collective), GT_OK);
        worker->group = p->ops.group ? p->ops.group(worker->engine) : 0;
        worker->league = p->ops.league ? p->ops.league(worker->engine) : 0;
        for (int other = 0; other < PARTIES; other++) {
            uint64_t apart = one_group ? 0 : k == 2 || other == 2;
            worker->group_of[other] = worker->group + apart;
            worker->league_of[other] = worker->league + (apart << 32);
        }
    }
    for (int k = 0; k < PARTIES; k++)
        pthread_create(&parties[k].thread, NULL, take_part, &parties[k]);
    for (int k = 0; k < PARTIES; k++)
        pthread_join(parties[k].thread, NULL);
}

static void end_parties(party *parties, gt_board *board)
{
    for (int k = 0; k < PARTIES; k++) {
        gt_worker *worker = &parties[k].worker;
        worker->collective->ops->close(worker->collective);
        gt__peers_reclaim(worker);
        CHECK(!worker->loans.first); /* everybody has said that it was read */
        worker->exchange->ops->close(worker->exchange);
        worker->exchange = NULL;
        worker_close(worker);
    }
    gt__board_free(board);
}

typedef struct one_case {
    const char *name, *engine;
    gt_opcode op;
    bool one_group;
    int fails;        /* a party, or -1 */
    int engine_calls; /* expected */
} one_case;

static void test_case(const void *argument)
{
    const one_case *c = argument;
    static party parties[PARTIES];
    gt_board *board = gt__board_new();
    memset(parties, 0, sizeof parties);
    atomic_store(&engine_calls, 0);
    for (int k = 0; k < PARTIES; k++) {
        parties[k].op = c->op;
        parties[k].fails = k == c->fails;
    }
    run_parties(c->engine, parties, board, c->one_group);
    CHECK_EQ(atomic_load(&engine_calls), c->engine_calls);
    for (int k = 0; k < PARTIES; k++) {
        const gt_entry *result = gt__store_find(parties[k].worker.store, 2);
        size_t bytes = 0;
        CHECK_EQ(result->state, c->fails < 0 ? GT_ENTRY_TENSOR : GT_ENTRY_POISON);
        if (result->state == GT_ENTRY_POISON) {
            CHECK_EQ(result->poison->origin.op, GT_OP_neg);
            CHECK(strstr(result->poison->text, "no tensor in slot 1000") != NULL);
            continue;
        }
        int64_t *sums = read_tensor(&parties[k].worker, 2, &bytes);
        bool right = bytes == ELEMENTS * sizeof *sums;
        for (int64_t i = 0; right && i < ELEMENTS; i++)
            right = sums[i] == (c->op == GT_OP_all_reduce ? PARTIES * i : i);
        CHECK(right);
        free(sums);
    }
    end_parties(parties, board);
}

int main(int argc, char **argv)
{
    static const one_case cases[] = {
        {.name = "the engines add",
         .engine = "late",
         .op = GT_OP_all_reduce,
         .one_group = true,
         .fails = -1,
         .engine_calls = PARTIES},
        {.name = "an operation they lack",
         .engine = "late",
         .op = GT_OP_broadcast,
         .one_group = true,
         .fails = -1,
         .engine_calls = PARTIES},
        {.name = "another group", .engine = "late", .op = GT_OP_all_reduce, .one_group = false, .fails = -1},
        {.name = "a failed party", .engine = "late", .op = GT_OP_all_reduce, .one_group = true, .fails = 1},
        {.name = "no such engine", .engine = "cpu", .op = GT_OP_all_reduce, .one_group = true, .fails = -1},
        {.name = "memory that the host cannot touch",
         .engine = "far",
         .op = GT_OP_all_reduce,
         .one_group = false,
         .fails = -1},
        {.name = "loans",
         .engine = "far",
         .op = GT_OP_all_reduce,
         .one_group = true,
         .fails = -1,
         .engine_calls = PARTIES * (PARTIES - 1)},
        {.name = "loans of one party",
         .engine = "far",
         .op = GT_OP_broadcast,
         .one_group = true,
         .fails = -1,
         .engine_calls = PARTIES - 1},
        {.name = "loans without a party that has failed",
         .engine = "far",
         .op = GT_OP_all_reduce,
         .one_group = true,
         .fails = 1,
         .engine_calls = (PARTIES - 1) * (PARTIES - 1)},
    };
    check_begin(argc, argv);
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
        check_run(cases[k].name, test_case, &cases[k]);
    return check_end();
}

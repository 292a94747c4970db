/*
 * test_cuda_group.c: collectives of workers on several cards, by NCCL: every one of them, with parts of all kinds, against plain
 * loops; an operand that failed; a dtype that NCCL lacks; and a party that gives up or is gone while the others' work is queued.
 * GT_TEST_PARTIES workers, each on the next card: 3 on fake cards, 1 on a machine with one.
 */
#include <pthread.h>
#include <stdlib.h>

#include "worker_fixture.h"

enum { MOST = 3, OPERAND = 1, RESULT = 2 };

typedef struct collective_case {
    const char *name;
    gt_opcode op;
    gt_dtype dtype;
    unsigned rank;
    int64_t shape[3];
    unsigned axis, axis_after;
    int64_t start[MOST], start_after[MOST];
    bool elsewhere; /* NCCL has no such sums */
} collective_case;

static const collective_case cases[] = {
    {.name = "sums", .op = GT_OP_all_reduce, .dtype = GT_FLOAT32, .rank = 2, .shape = {7, 5}},
    {.name = "sums again", .op = GT_OP_all_reduce, .dtype = GT_FLOAT32, .rank = 2, .shape = {7, 5}},
    {.name = "sums of integers", .op = GT_OP_all_reduce, .dtype = GT_INT64, .rank = 1, .shape = {33}},
    {.name = "sums of halves", .op = GT_OP_all_reduce, .dtype = GT_BFLOAT16, .rank = 1, .shape = {40}},
    {.name = "complex sums", .op = GT_OP_all_reduce, .dtype = GT_COMPLEX64, .rank = 2, .shape = {3, 4}},
    {.name = "sums of short integers",
     .op = GT_OP_all_reduce,
     .dtype = GT_INT16,
     .rank = 1,
     .shape = {21},
     .elsewhere = true},
    {.name = "nothing", .op = GT_OP_all_reduce, .dtype = GT_FLOAT32, .rank = 2, .shape = {0, 5}},
    {.name = "broadcast", .op = GT_OP_broadcast, .dtype = GT_INT16, .rank = 2, .shape = {5, 3}},
    {.name = "gather",
     .op = GT_OP_all_gather,
     .dtype = GT_FLOAT32,
     .rank = 2,
     .shape = {6, 5},
     .axis = 0,
     .axis_after = 0,
     .start = {0, 2, 4}},
    {.name = "gather of unequal parts",
     .op = GT_OP_all_gather,
     .dtype = GT_BFLOAT16,
     .rank = 2,
     .shape = {7, 5},
     .axis = 0,
     .axis_after = 0,
     .start = {0, 3, 6}},
    {.name = "gather along the last axis",
     .op = GT_OP_all_gather,
     .dtype = GT_INT64,
     .rank = 2,
     .shape = {5, 6},
     .axis = 1,
     .axis_after = 1,
     .start = {0, 2, 4}},
    {.name = "gather of unequal parts in the middle",
     .op = GT_OP_all_gather,
     .dtype = GT_COMPLEX64,
     .rank = 3,
     .shape = {4, 7, 2},
     .axis = 1,
     .axis_after = 1,
     .start = {0, 1, 4}},
    {.name = "gather in another order",
     .op = GT_OP_all_gather,
     .dtype = GT_FLOAT32,
     .rank = 2,
     .shape = {7, 2},
     .axis = 0,
     .axis_after = 0,
     .start = {4, 0, 2}},
    {.name = "gather of an empty part",
     .op = GT_OP_all_gather,
     .dtype = GT_INT16,
     .rank = 2,
     .shape = {2, 3},
     .axis = 0,
     .axis_after = 0,
     .start = {0, 1, 2}},
    {.name = "scattered sums",
     .op = GT_OP_reduce_scatter,
     .dtype = GT_FLOAT32,
     .rank = 2,
     .shape = {6, 5},
     .axis = 0,
     .axis_after = 0,
     .start_after = {0, 2, 4}},
    {.name = "scattered sums of unequal parts",
     .op = GT_OP_reduce_scatter,
     .dtype = GT_BFLOAT16,
     .rank = 2,
     .shape = {7, 5},
     .axis = 0,
     .axis_after = 0,
     .start_after = {0, 3, 6}},
    {.name = "scattered sums along the last axis",
     .op = GT_OP_reduce_scatter,
     .dtype = GT_INT64,
     .rank = 2,
     .shape = {5, 6},
     .axis = 1,
     .axis_after = 1,
     .start_after = {0, 2, 4}},
    {.name = "scattered complex sums",
     .op = GT_OP_reduce_scatter,
     .dtype = GT_COMPLEX64,
     .rank = 3,
     .shape = {4, 7, 2},
     .axis = 1,
     .axis_after = 1,
     .start_after = {0, 1, 4}},
    {.name = "scattered sums of short integers",
     .op = GT_OP_reduce_scatter,
     .dtype = GT_INT16,
     .rank = 1,
     .shape = {9},
     .start_after = {0, 3, 6},
     .elsewhere = true},
    {.name = "rows to columns",
     .op = GT_OP_all_to_all,
     .dtype = GT_FLOAT32,
     .rank = 2,
     .shape = {6, 9},
     .axis = 0,
     .axis_after = 1,
     .start = {0, 2, 4},
     .start_after = {0, 3, 6}},
    {.name = "columns to rows",
     .op = GT_OP_all_to_all,
     .dtype = GT_INT64,
     .rank = 2,
     .shape = {7, 5},
     .axis = 1,
     .axis_after = 0,
     .start = {0, 2, 3},
     .start_after = {0, 1, 4}},
    {.name = "the middle to the end",
     .op = GT_OP_all_to_all,
     .dtype = GT_BFLOAT16,
     .rank = 3,
     .shape = {2, 5, 7},
     .axis = 1,
     .axis_after = 2,
     .start = {0, 1, 3},
     .start_after = {0, 3, 4}},
};
enum { CASES = sizeof cases / sizeof cases[0] };

typedef struct party {
    gt_worker worker;
    gt_engine_ops ops;
    unsigned self, count;
    uint64_t next_tag;
    pthread_t thread;
} party;

static party parties[MOST];
static gt_board *board;
static pthread_barrier_t together;
static atomic_int taken; /* by the engines */
static gt_err (*engine_collective)(gt_engine *engine, const gt_group_call *call, gt_token *token);
static _Thread_local bool gives_up;

static gt_err counted(gt_engine *engine, const gt_group_call *call, gt_token *token)
{
    if (gives_up)
        return gt__fail(GT_ERR_INTERNAL, "this worker does not feel like it");
    gt_err err = engine_collective(engine, call, token);
    atomic_fetch_add(&taken, err != GT_ERR_UNSUPPORTED);
    return err;
}

/* ---- values --------------------------------------------------------------------------------------------------------- */

/* Whole numbers that are exact, and whose sums are, in all dtypes. */
static int64_t value(unsigned k, int64_t element)
{
    return (element * 7 + k * 3) % 11 - 5;
}

static void put(uint8_t *to, gt_dtype dtype, int64_t number)
{
    float real = (float)number, pair[2] = {(float)number, (float)(1 - number)};
    int16_t small = (int16_t)number;
    uint32_t bits;
    memcpy(&bits, &real, sizeof bits);
    uint16_t half = (uint16_t)(bits >> 16);
    const void *from = dtype == GT_FLOAT32     ? (void *)&real
                       : dtype == GT_COMPLEX64 ? (void *)pair
                       : dtype == GT_BFLOAT16  ? (void *)&half
                       : dtype == GT_INT16     ? (void *)&small
                                               : (void *)&number;
    memcpy(to, from, gt__dtype_size(dtype));
}

/* Whether an element of the whole is in a part along an axis: from its start to the next party's. */
static bool in_part(const collective_case *c, int64_t element, unsigned axis, const int64_t *start, unsigned k,
                    unsigned count)
{
    int64_t index = 0, end = c->shape[axis];
    for (unsigned d = c->rank; d-- > 0; element /= c->shape[d])
        if (d == axis) {
            index = element % c->shape[d];
            break;
        }
    for (unsigned other = 0; other < count; other++)
        if (start[other] > start[k] && start[other] < end)
            end = start[other];
    return index >= start[k] && index < end;
}

static int64_t numel(const collective_case *c)
{
    int64_t elements = 1;
    for (unsigned d = 0; d < c->rank; d++)
        elements *= c->shape[d];
    return elements;
}

/* The operand, or the expected result, of a party. Complex sums: the imaginary parts of `count` summands. */
static size_t fill(const collective_case *c, const party *p, bool result, uint8_t *bytes)
{
    bool adds = c->op == GT_OP_all_reduce || c->op == GT_OP_reduce_scatter;
    bool parts = result ? c->op == GT_OP_reduce_scatter || c->op == GT_OP_all_to_all
                        : c->op == GT_OP_all_gather || c->op == GT_OP_all_to_all;
    const int64_t *start = result ? c->start_after : c->start;
    size_t size = gt__dtype_size(c->dtype), used = 0;
    for (int64_t i = 0; i < numel(c); i++) {
        int64_t number = 0;
        if (parts && !in_part(c, i, result ? c->axis_after : c->axis, start, p->self, p->count))
            continue;
        for (unsigned k = 0; k < p->count; k++)
            number += adds && (result || k == p->self) ? value(k, i) : 0;
        if (!adds)
            number = value(0, i);
        put(bytes + used, c->dtype, number);
        if (adds && result && c->dtype == GT_COMPLEX64) {
            float imaginary = (float)((int64_t)p->count - number);
            memcpy(bytes + used + sizeof imaginary, &imaginary, sizeof imaginary);
        }
        used += size;
    }
    return used;
}

/* ---- one party ------------------------------------------------------------------------------------------------------- */

static void make_operand(party *p, const collective_case *c)
{
    gt_worker *worker = &p->worker;
    gt_entry *entry = gt__store_entry(worker->store, OPERAND);
    uint8_t bytes[4096];
    size_t size = fill(c, p, false, bytes), of_one = gt__dtype_size(c->dtype);
    gt_token token = 0;
    gt__store_clear(worker->store, entry);
    CHECK_EQ(gt__meta_set(&entry->view.meta, c->dtype, c->rank, c->shape), GT_OK);
    if (c->op == GT_OP_all_gather || c->op == GT_OP_all_to_all) {
        int64_t others = numel(c) / c->shape[c->axis];
        entry->view.meta.shape[c->axis] = (int64_t)(size / of_one) / others;
        entry->view.meta.numel = (int64_t)(size / of_one);
    }
    CHECK_EQ(gt__store_allocate(worker->store, &entry->view, &entry->buffer), GT_OK);
    entry->flight = NULL;
    entry->state = GT_ENTRY_TENSOR;
    if (size)
        CHECK_EQ(worker->engine->ops->write(worker->engine, entry->view.data, bytes, size, false, &token), GT_OK);
    gt__late_given(&worker->late, token);
    CHECK_EQ(gt__late_wait(worker, token), GT_OK);
}

/* The first `count` workers hold it. */
static gt_entry *hold(party *p, const collective_case *c, unsigned count)
{
    gt_slot record[4] = {{.ins = {.op = (uint16_t)c->op,
                                  .dtype = (uint8_t)c->dtype,
                                  .rank = (uint8_t)c->rank,
                                  .tail = 3,
                                  .result = RESULT}}};
    record->ins.operand[0] = OPERAND;
    record->ins.operand[1] = p->self;
    record->ins.operand[2] = c->axis | c->axis_after << 8;
    record->ins.imm[0].u = p->next_tag++;
    record->ins.imm[1].u = count;
    memcpy(record[1].i64, c->shape, sizeof c->shape);
    for (unsigned k = 0; k < count; k++) {
        gt_partner partner = {.worker = k, .start = c->start[k], .start_after = c->start_after[k]};
        memcpy((gt_partner *)(void *)(record + 2) + k, &partner, sizeof partner);
    }
    CHECK(gt__peers_handle(&p->worker, &record->ins, record + 1));
    gt__late_drain(&p->worker);
    gt_entry *entry = gt__store_find(p->worker.store, RESULT);
    gt__store_settle(p->worker.store, entry);
    return entry;
}

static void hold_case(party *p, const collective_case *c)
{
    uint8_t expected[4096];
    size_t bytes = 0, size = fill(c, p, true, expected);
    make_operand(p, c);
    hold(p, c, p->count);
    uint8_t *got = read_tensor(&p->worker, RESULT, &bytes);
    bool right = got && bytes == size && memcmp(got, expected, size) == 0;
    if (!right)
        fprintf(stderr, "%s: party %u of %u\n", c->name, p->self, p->count);
    CHECK(right);
    free(got);
}

static void hold_all(party *p)
{
    for (int k = 0; k < CASES; k++) {
        if (p->count == 1 && (cases[k].start[0] || cases[k].start_after[0]))
            continue; /* the first part alone is not the whole */
        pthread_barrier_wait(&together);
        if (p->self == 0)
            atomic_store(&taken, 0);
        pthread_barrier_wait(&together);
        hold_case(p, &cases[k]);
        pthread_barrier_wait(&together);
        CHECK_EQ(atomic_load(&taken), cases[k].elsewhere ? 0 : (int)p->count);
    }
}

static void expect_failure(party *p, const char *text)
{
    const gt_entry *entry = hold(p, &cases[0], p->count);
    CHECK_EQ(entry->state, GT_ENTRY_POISON);
    if (entry->state == GT_ENTRY_POISON && !CHECK(strstr(entry->poison->text, text) != NULL))
        fprintf(stderr, "%s\n", entry->poison->text);
}

/* Tell the others that we take part in the next collective, as collective_engine.c does it, and leave without a word. */
static void die(party *p)
{
    enum { STATUS = 2 };
    gt_exchange *exchange = p->worker.exchange;
    gt_partner partners[MOST] = {{.worker = 0}, {.worker = 1}, {.worker = 2}};
    gt_group_call call = {
        .self = p->self, .count = p->count, .party = partners, .life = (const uint64_t[]){1, 2, 3}};
    uint64_t circle = p->ops.circle(p->worker.engine, &call);
    CHECK(circle != 0 && circle != GT_NO_CIRCLE);
    for (int32_t k = 0; k < 2; k++)
        CHECK_EQ(gt__exchange_post(exchange, k, p->next_tag, STATUS, &circle, sizeof circle, NULL), GT_OK);
    exchange->ops->leave(exchange);
}

/* One party's operand has failed; one gives up when the others have queued their part; then all is well again; then one dies. */
static void fail_and_go_on(party *p)
{
    gt_slot missing[8] = {{.ins = {.op = GT_OP_neg, .result = OPERAND, .operand = {1000}}}};
    if (p->count == 1)
        return;
    if (p->self == 1)
        execute(&p->worker, missing);
    expect_failure(p, "no tensor in slot 1000");
    make_operand(p, &cases[0]);
    gives_up = p->self == 2;
    expect_failure(p, "this worker does not feel like it");
    gives_up = false;
    hold_case(p, &cases[0]);
    make_operand(p, &cases[0]);
    if (p->self == 2) {
        die(p);
        return;
    }
    expect_failure(p, "worker 2 is gone");
    p->count = 2;
    hold_case(p, &cases[0]);
}

static void *take_part(void *argument)
{
    static const gt_worker_options options;
    party *p = argument;
    gt_worker *worker = &p->worker;
    if (!worker_open(worker, "cuda"))
        abort();
    worker->options = &options;
    p->ops = *worker->engine->ops;
    engine_collective = p->ops.collective;
    p->ops.collective = counted;
    worker->engine->ops = &p->ops;
    CHECK_EQ(gt__exchange_local(board, NULL, &worker->exchange), GT_OK);
    worker->exchange->ops->join(worker->exchange, (int32_t)p->self, p->self + 1, 1);
    CHECK_EQ(gt__collective_host(worker->exchange, worker->engine, worker->store, &worker->collective), GT_OK);
    CHECK_EQ(gt__collective_engine(worker, &worker->collective), GT_OK);
    worker->league = p->ops.league(worker->engine);
    CHECK(worker->league != 0);
    pthread_barrier_wait(&together);
    for (unsigned k = 0; k < p->count; k++) {
        worker->league_of[k] = parties[k].worker.league;
        worker->life_of[k] = k + 1;
    }
    hold_all(p);
    pthread_barrier_wait(&together);
    fail_and_go_on(p);
    pthread_barrier_wait(&together);
    worker->collective->ops->close(worker->collective);
    gt__peers_reclaim(worker);
    if (p->self < 2)
        worker->exchange->ops->leave(worker->exchange);
    pthread_barrier_wait(&together);
    worker->exchange->ops->close(worker->exchange);
    worker->exchange = NULL;
    worker_close(worker);
    return NULL;
}

static void test_parties(const void *argument)
{
    const char *text = getenv("GT_TEST_PARTIES");
    unsigned count = text ? (unsigned)atoi(text) : 1;
    (void)argument;
    count = count < 1 ? 1 : count > MOST ? MOST : count;
    board = gt__board_new();
    pthread_barrier_init(&together, NULL, count);
    for (unsigned k = 0; k < count; k++) {
        parties[k].self = k;
        parties[k].count = count;
        pthread_create(&parties[k].thread, NULL, take_part, &parties[k]);
    }
    for (unsigned k = 0; k < count; k++)
        pthread_join(parties[k].thread, NULL);
    gt__board_free(board);
}

int main(int argc, char **argv)
{
    const gt_engine_ops *ops;
    check_begin(argc, argv);
    if (gt__engine_find("cuda", &ops) != GT_OK) {
        printf("skipped: %s\n", gt_error_text());
        return 77;
    }
    check_run("parties", test_parties, NULL);
    return check_end();
}

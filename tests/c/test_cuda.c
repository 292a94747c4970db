/*
 * test_cuda.c: the CUDA engine's own logic, on the fake driver of tests/cuda (found through LD_LIBRARY_PATH): memory, order,
 * transfers through pinned memory, tokens, failures, times, products, recorded programs, a card that breaks. What kernels
 * compute is not tested here. On a machine with a card, and without the fake driver, the same tests run on the card.
 */
#include <math.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "cuda_calls.h"
#include "engines/cuda/heap.h"
#include "engines/plan.h"
#include "worker_fixture.h"

/* ---- the heap ------------------------------------------------------------------------------------------------- */

typedef struct card {
    uint64_t next, taken, limit;
    unsigned segments, calls;
} card;

static uint64_t take(void *context, size_t bytes)
{
    card *c = context;
    c->calls++;
    if (c->taken + bytes > c->limit)
        return 0;
    c->taken += bytes;
    c->segments++;
    uint64_t at = c->next;
    c->next += bytes + ((uint64_t)1 << 32);
    return at;
}

static void give(void *context, uint64_t address)
{
    (void)address;
    ((card *)context)->segments--;
}

static void test_heap(const void *argument)
{
    (void)argument;
    enum { BLOCKS = 500, STEPS = 20000 };
    static struct {
        uint64_t at, bytes;
    } blocks[BLOCKS];
    card c = {.next = (uint64_t)1 << 40, .limit = (uint64_t)1 << 40};
    gt_cuda_heap heap;
    uint64_t random = 12345, used = 0;
    gt__cuda_heap_init(&heap, &(gt_cuda_heap_source){.take = take, .give = give, .context = &c});
    for (int step = 0; step < STEPS; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        unsigned k = (unsigned)(random >> 40) % BLOCKS;
        if (blocks[k].bytes) {
            CHECK(gt__cuda_heap_give(&heap, blocks[k].at));
            used -= (blocks[k].bytes + 255) / 256 * 256;
            blocks[k].bytes = 0;
        } else {
            uint64_t bytes = 1 + (random >> 20 & 0xffff) * (1u << (random >> 36 & 7));
            if (!CHECK_EQ(gt__cuda_heap_take(&heap, bytes, &blocks[k].at), GT_OK))
                return;
            CHECK_EQ(blocks[k].at % 256, 0);
            blocks[k].bytes = bytes;
            used += (bytes + 255) / 256 * 256;
            for (int other = 0; step % 16 == 0 && other < BLOCKS; other++)
                if (other != (int)k && blocks[other].bytes)
                    CHECK(blocks[other].at + blocks[other].bytes <= blocks[k].at ||
                          blocks[k].at + bytes <= blocks[other].at);
        }
        CHECK_EQ(heap.bytes_used, used);
    }
    CHECK(!gt__cuda_heap_give(&heap, 12345));
    for (int k = 0; k < BLOCKS; k++)
        if (blocks[k].bytes)
            CHECK(gt__cuda_heap_give(&heap, blocks[k].at));
    CHECK_EQ(heap.bytes_used, 0);
    gt__cuda_heap_trim(&heap); /* all free blocks have joined: whole segments go back */
    CHECK_EQ(c.segments, 0);
    CHECK_EQ(heap.bytes_held, 0);
    gt__cuda_heap_clear(&heap);
}

static void test_heap_asks_rarely(const void *argument)
{
    (void)argument;
    card c = {.next = (uint64_t)1 << 40, .limit = (uint64_t)100 << 20};
    gt_cuda_heap heap;
    uint64_t at[4], last;
    gt__cuda_heap_init(&heap, &(gt_cuda_heap_source){.take = take, .give = give, .context = &c});
    CHECK_EQ(gt__cuda_heap_take(&heap, 30 << 20, &at[0]), GT_OK);
    CHECK_EQ(gt__cuda_heap_take(&heap, 30 << 20, &at[1]), GT_OK);
    unsigned calls = c.calls;
    for (int k = 0; k < 100; k++) {
        CHECK(gt__cuda_heap_give(&heap, at[0]));
        CHECK_EQ(gt__cuda_heap_take(&heap, 20 << 20, &at[2]), GT_OK);
        CHECK(gt__cuda_heap_give(&heap, at[2]));
        CHECK_EQ(gt__cuda_heap_take(&heap, 30 << 20, &at[0]), GT_OK);
    }
    CHECK_EQ(c.calls, calls);
    CHECK_EQ(gt__cuda_heap_take(&heap, 60 << 20, &last), GT_ERR_MEMORY);
    CHECK(gt__cuda_heap_give(&heap, at[0]));
    CHECK(gt__cuda_heap_give(&heap, at[1]));
    c.taken = 0; /* what the trim gives back */
    CHECK_EQ(gt__cuda_heap_take(&heap, 90 << 20, &last), GT_OK);
    gt__cuda_heap_clear(&heap);
    CHECK_EQ(c.segments, 0);
}

/* ---- calls ----------------------------------------------------------------------------------------------------- */

static gt_token take_beyond(gt_engine *engine, void *out, void *a, void *index)
{
    vector_call c;
    gt_token token = 0;
    vector_call_set(&c, GT_OP_take, vector_view(out, GT_FLOAT32, 1), vector(a), vector_view(index, GT_INT64, 1));
    CHECK_EQ(engine->ops->run(engine, &c.call, &token), GT_OK);
    return token;
}

static void test_order(const void *argument)
{
    (void)argument;
    gt_engine *engine = open_engine("cuda");
    if (!engine)
        return;
    gt_completion c;
    CHECK(!engine->ops->completed(engine, false, &c));
    CHECK(!engine->ops->completed(engine, true, &c)); /* nothing is queued: it does not wait */
    void *a = filled(engine, 1), *b = take_memory(engine, BYTES);
    gt_token last = 0;
    for (int k = 0; k < 100; k++) {
        gt_token token = add_number(engine, k % 2 ? a : b, k % 2 ? b : a, 1, false);
        CHECK(token > last);
        last = token;
    }
    check_vector(engine, a, 101);
    engine->ops->release(engine, a, BYTES);
    engine->ops->release(engine, b, BYTES);
    CHECK(!engine->ops->completed(engine, true, &c));
    engine->ops->close(engine);
}

static void test_failures(const void *argument)
{
    (void)argument;
    gt_engine *engine = open_engine("cuda");
    if (!engine)
        return;
    int64_t index[] = {7777, -3333};
    void *a = filled(engine, 1), *out = take_memory(engine, BYTES), *where = take_memory(engine, sizeof index);
    put(engine, where, index, sizeof index);
    gt_token bad = take_beyond(engine, out, a, where);
    add_number(engine, out, a, 2, false);
    gt_token worse = take_beyond(engine, out, a, (int64_t *)where + 1);
    gt_token last = add_number(engine, out, a, 3, false), seen = 0;
    int failures = 0;
    for (gt_completion c; engine->ops->completed(engine, true, &c);) {
        CHECK(c.token > seen);
        seen = c.token;
        if (!c.err)
            continue;
        CHECK_EQ(c.err, GT_ERR_INDEX);
        CHECK_EQ(c.token, failures ? worse : bad);
        CHECK(strstr(c.text, failures ? "index -3333 is" : "index 7777 is") != NULL);
        failures++;
    }
    CHECK_EQ(failures, 2);
    CHECK_EQ(seen, last);
    check_vector(engine, out, 4);
    engine->ops->release(engine, a, BYTES);
    engine->ops->release(engine, out, BYTES);
    engine->ops->release(engine, where, sizeof index);
    engine->ops->close(engine);
}

/* More failures than there are slots for them, before any is asked for. */
static void test_many_failures(const void *argument)
{
    (void)argument;
    enum { TIMES = 1500 };
    gt_engine *engine = open_engine("cuda");
    if (!engine)
        return;
    int64_t index = 7777;
    int failures = 0;
    void *a = filled(engine, 1), *out = take_memory(engine, BYTES), *where = take_memory(engine, sizeof index);
    put(engine, where, &index, sizeof index);
    for (int k = 0; k < TIMES; k++)
        take_beyond(engine, out, a, where);
    for (gt_completion c; engine->ops->completed(engine, true, &c);)
        failures += c.err == GT_ERR_INDEX;
    CHECK_EQ(failures, TIMES);
    engine->ops->release(engine, a, BYTES);
    engine->ops->release(engine, out, BYTES);
    engine->ops->release(engine, where, sizeof index);
    engine->ops->close(engine);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void test_times(const void *argument)
{
    (void)argument;
    enum { TIMED = 6 };
    gt_engine *engine = open_engine("cuda");
    if (!engine)
        return;
    static float host[SIZE];
    gt_token tokens[TIMED] = {0};
    void *a = filled(engine, 1), *out = take_memory(engine, BYTES);
    uint64_t before = now_ns();
    for (int k = 0; k < TIMED - 2; k++) {
        if (k == 2)
            add_number(engine, out, a, 1, false);
        tokens[k] = add_number(engine, out, a, 1, true);
    }
    CHECK_EQ(engine->ops->write(engine, a, host, BYTES, true, &tokens[TIMED - 2]), GT_OK);
    CHECK_EQ(engine->ops->read(engine, a, host, BYTES, true, &tokens[TIMED - 1]), GT_OK);
    gt_token plain = add_number(engine, out, a, 1, false);
    int seen = 0;
    gt_completion c;
    while (engine->ops->completed(engine, true, &c)) {
        if (!c.start_ns)
            continue;
        CHECK_EQ(c.token, tokens[seen++]);
        CHECK(c.start_ns >= before && c.end_ns >= c.start_ns && c.end_ns <= now_ns());
        before = c.end_ns;
    }
    CHECK_EQ(seen, TIMED);
    CHECK_EQ(c.token, plain);
    engine->ops->release(engine, a, BYTES);
    engine->ops->release(engine, out, BYTES);
    engine->ops->close(engine);
}

static void test_release_while_in_use(const void *argument)
{
    (void)argument;
    gt_engine *engine = open_engine("cuda");
    if (!engine)
        return;
    void *a = filled(engine, 1), *out = take_memory(engine, BYTES);
    add_number(engine, out, a, 1, false);
    engine->ops->release(engine, a, BYTES);
    void *b = filled(engine, 50); /* it may be the same memory: the stream is in order */
    check_vector(engine, out, 2);
    check_vector(engine, b, 50);
    engine->ops->release(engine, b, BYTES);
    engine->ops->release(engine, out, BYTES);
    engine->ops->close(engine);
}

/* Behind the work that reads the memory. */
static void test_clear(const void *argument)
{
    (void)argument;
    gt_engine *engine = open_engine("cuda");
    if (!engine)
        return;
    void *a = filled(engine, 1), *out = take_memory(engine, BYTES);
    for (int k = 0; k < 10; k++)
        add_number(engine, out, a, 1, false);
    CHECK_EQ(engine->ops->clear(engine, a, BYTES), GT_OK);
    check_vector(engine, out, 2);
    check_vector(engine, a, 0);
    engine->ops->release(engine, a, BYTES);
    engine->ops->release(engine, out, BYTES);
    engine->ops->close(engine);
}

/* Sizes around those of pieces and of the ring, several on the way at once. */
static void test_transfers(const void *argument)
{
    (void)argument;
    static const size_t sizes[] = {1,        7, 255, 4096, 1 << 20, (1 << 20) + 1, (5 << 20) + 3, (70 << 20) + 5,
                                   150 << 20};
    gt_engine *engine = open_engine("cuda");
    if (!engine)
        return;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        size_t bytes = sizes[s];
        uint8_t *host = malloc(bytes), *back = malloc(bytes), *again = malloc(bytes);
        uint8_t *memory = take_memory(engine, bytes);
        gt_token token = 0;
        for (size_t k = 0; k < bytes; k++)
            host[k] = (uint8_t)(k * 2654435761u >> 13);
        put(engine, memory, host, bytes);
        CHECK_EQ(engine->ops->read(engine, memory, back, bytes, false, &token), GT_OK);
        CHECK_EQ(engine->ops->read(engine, memory, again, bytes, false, &token), GT_OK);
        uint8_t other = (uint8_t)~host[bytes / 2];
        put(engine, memory + bytes / 2, &other, 1); /* at an offset, after the reads */
        wait_for(engine, token);
        CHECK(memcmp(host, back, bytes) == 0);
        CHECK(memcmp(host, again, bytes) == 0);
        get(engine, memory, back, bytes);
        CHECK_EQ(back[bytes / 2], other);
        engine->ops->release(engine, memory, bytes);
        free(host);
        free(back);
        free(again);
    }
    gt_token token = 0;
    CHECK_EQ(engine->ops->write(engine, NULL, NULL, 0, false, &token), GT_OK);
    wait_for(engine, token);
    engine->ops->close(engine);
}

/* Pinned memory is used in place, and by two engines of a process. */
static void test_pinned(const void *argument)
{
    (void)argument;
    enum { LARGE = 6 << 20 };
    gt_engine *engine = open_engine("cuda"), *other = open_engine("cuda");
    if (!engine || !other)
        return;
    uint8_t *host = aligned_alloc(4096, LARGE);
    uint8_t *memory = take_memory(engine, LARGE);
    gt_token token = 0;
    CHECK(engine->ops->pin(engine, host, LARGE));
    CHECK(other->ops->pin(other, host, LARGE));
    for (int round = 0; round < 3; round++) {
        memset(host, 10 + round, LARGE);
        wait_for(engine, put(engine, memory, host, LARGE));
        memset(host, 0, LARGE);
        CHECK_EQ(engine->ops->read(engine, memory, host, LARGE, false, &token), GT_OK);
        wait_for(engine, token);
        CHECK(host[0] == 10 + round && host[LARGE - 1] == 10 + round);
        if (round == 0)
            other->ops->unpin(other, host);
        if (round == 1)
            engine->ops->unpin(engine, host);
    }
    engine->ops->release(engine, memory, LARGE);
    engine->ops->close(engine);
    other->ops->close(other);
    free(host);
}

/* Memory that only another worker has pinned is staged: that worker may unpin it while the copy is queued. */
static void test_pinned_elsewhere(const void *argument)
{
    (void)argument;
    enum { LARGE = 6 << 20 };
    gt_engine *engine = open_engine("cuda"), *other = open_engine("cuda");
    if (!engine || !other)
        return;
    uint8_t *host = aligned_alloc(4096, LARGE), *memory = take_memory(other, LARGE);
    gt_token token = 0;
    CHECK(engine->ops->pin(engine, host, LARGE));
    memset(host, 7, LARGE);
    put(other, memory, host, LARGE);
    memset(host, 0, LARGE); /* a staged write is done with it */
    engine->ops->unpin(engine, host);
    CHECK_EQ(other->ops->read(other, memory, host, LARGE, false, &token), GT_OK);
    wait_for(other, token);
    CHECK(host[0] == 7 && host[LARGE - 1] == 7);
    other->ops->release(other, memory, LARGE);
    engine->ops->close(engine);
    other->ops->close(other);
    free(host);
}

/* A worker pins a segment that is used a second time. When its client forgets it, queued transfers may still use it. */
static void test_pinned_segments(const void *argument)
{
    (void)argument;
    enum { LARGE = 3 << 20 };
    gt_worker worker;
    gt_segment *segment;
    gt_token token = 0;
    if (!worker_open(&worker, "cuda") || !CHECK_EQ(gt__segment_new(LARGE, &segment), GT_OK))
        return;
    gt_engine *engine = worker.engine;
    void *memory = take_memory(engine, LARGE);
    for (int use = 0; use < 3; use++) {
        gt__pins_use(&worker, segment, LARGE);
        CHECK_EQ(worker.pins.bytes, use ? segment->bytes : 0);
        CHECK_EQ(engine->ops->write(engine, memory, segment->data, LARGE, false, &token), GT_OK);
        gt__late_given(&worker.late, token);
    }
    gt__pins_forget(&worker, segment->id);
    CHECK_EQ(worker.pins.count, 0);
    gt__late_drain(&worker);
    CHECK_EQ(worker.pins.bytes, 0);
    gt__pins_use(&worker, segment, LARGE);
    gt__pins_use(&worker, segment, LARGE);
    CHECK_EQ(worker.pins.bytes, segment->bytes);
    gt__pins_free(&worker);
    gt__segment_release(segment);
    engine->ops->release(engine, memory, LARGE);
    worker_close(&worker);
}

static void test_close_finishes(const void *argument)
{
    (void)argument;
    float back[SIZE] = {0};
    gt_token token = 0;
    gt_engine *engine = open_engine("cuda");
    if (!engine)
        return;
    void *a = filled(engine, 1);
    for (int k = 0; k < 50; k++)
        add_number(engine, a, a, 1, k % 3 == 0);
    CHECK_EQ(engine->ops->read(engine, a, back, BYTES, false, &token), GT_OK);
    engine->ops->release(engine, a, BYTES);
    engine->ops->close(engine);
    CHECK(back[0] == 51 && back[SIZE - 1] == 51);
}

static void test_memory_runs_out(const void *argument)
{
    (void)argument;
    gt_engine *engine = open_engine("cuda");
    if (!engine)
        return;
    uint64_t limit = engine->ops->memory_limit(engine, 1);
    void *memory = NULL;
    CHECK(limit > 0 && engine->ops->memory_limit(engine, 3) <= limit / 3 + 1);
    CHECK(engine->ops->memory_identity(engine) != 0);
    CHECK_EQ(engine->ops->alloc(engine, (size_t)1 << 45, &memory), GT_ERR_MEMORY);
    CHECK(strstr(gt_error_text(), "the card has no block") != NULL);
    void *a = filled(engine, 2); /* and the engine works on */
    check_vector(engine, a, 2);
    engine->ops->release(engine, a, BYTES);
    engine->ops->close(engine);
}

/* ---- programs -------------------------------------------------------------------------------------------------- */

/* out = (a @ b) @ b with square matrices: two products and a buffer between them. */
enum { SIDE = 16, SQUARE = SIDE * SIDE };

typedef struct products_plan {
    gt_plan plan;
    gt_slot records[2];
    gt_plan_step steps[2];
    gt_plan_value values[4];
    gt_plan_buffer buffers[4];
    uint32_t operands[2][2];
} products_plan;

static void plan_products(products_plan *p)
{
    memset(p, 0, sizeof *p);
    for (uint32_t k = 0; k < 4; k++) {
        p->values[k].buffer = k;
        p->values[k].view = vector_view(NULL, GT_FLOAT32, SQUARE);
        p->values[k].view.meta.rank = 2;
        p->values[k].view.meta.shape[0] = p->values[k].view.meta.shape[1] = SIDE;
        p->values[k].view.stride[0] = SIDE;
        p->values[k].view.stride[1] = 1;
        p->buffers[k].bytes = SQUARE * sizeof(float);
        p->buffers[k].role = k < 2 ? GT_PLAN_INPUT : k == 2 ? GT_PLAN_INNER : GT_PLAN_OUTPUT;
    }
    for (uint32_t k = 0; k < 2; k++) {
        p->records[k].ins.op = GT_OP_matmul;
        p->operands[k][0] = k == 0 ? 0 : 2;
        p->operands[k][1] = 1;
        p->steps[k] = (gt_plan_step){.op = GT_OP_matmul,
                                     .compute = GT_FLOAT32,
                                     .record = &p->records[k],
                                     .operands = 2,
                                     .operand = p->operands[k],
                                     .result = 2 + k,
                                     .group = k};
    }
    p->plan = (gt_plan){.steps = p->steps,
                        .step_count = 2,
                        .values = p->values,
                        .value_count = 4,
                        .buffers = p->buffers,
                        .buffer_count = 4};
}

static void test_programs(const void *argument)
{
    (void)argument;
    products_plan p;
    float one[SQUARE] = {0}, ones[SQUARE], back[SQUARE];
    gt_engine *engine = open_engine("cuda");
    if (!engine)
        return;
    gt_program *program = NULL;
    void *buffers[5];
    plan_products(&p);
    if (!CHECK_EQ(engine->ops->compile(engine, &p.plan, &program), GT_OK))
        return;
    for (int k = 0; k < 5; k++)
        buffers[k] = take_memory(engine, sizeof ones);
    for (int k = 0; k < SQUARE; k++)
        ones[k] = 1;
    for (int k = 0; k < SIDE; k++)
        one[k * SIDE + k] = 2;
    put(engine, buffers[1], one, sizeof one);
    for (int run = 0; run < 12; run++) {
        unsigned step;
        gt_token token = 0;
        void *addresses[] = {buffers[0], buffers[1], buffers[2], buffers[3 + run % 2]}; /* results alternate */
        for (int k = 0; k < SQUARE; k++)
            ones[k] = (float)(run + k);
        put(engine, buffers[0], ones, sizeof ones);
        CHECK_EQ(engine->ops->run_program(engine, program, addresses, run % 5 == 0, &step, &token), GT_OK);
        CHECK(token != 0);
        get(engine, addresses[3], back, sizeof back);
        for (int k = 0; k < SQUARE; k++)
            if (!CHECK(back[k] == 4 * (float)(run + k)))
                break;
    }
    engine->ops->free_program(engine, program);
    for (int k = 0; k < 5; k++)
        engine->ops->release(engine, buffers[k], sizeof ones);
    engine->ops->close(engine);
}

/* The layers of a model are one sequence that runs at many places in turn: each place has its recording. */
static void test_programs_at_many_places(const void *argument)
{
    (void)argument;
    enum { PLACES = 40, ROUNDS = 4 };
    products_plan p;
    float ones[SQUARE], back[SQUARE];
    gt_engine *engine = open_engine("cuda");
    if (!engine)
        return;
    gt_program *program = NULL;
    void *inputs[3], *results[PLACES];
    plan_products(&p);
    if (!CHECK_EQ(engine->ops->compile(engine, &p.plan, &program), GT_OK))
        return;
    for (int k = 0; k < 3; k++)
        inputs[k] = take_memory(engine, sizeof ones);
    for (int k = 0; k < SQUARE; k++)
        ones[k] = 1;
    put(engine, inputs[0], ones, sizeof ones);
    put(engine, inputs[1], ones, sizeof ones);
    for (int k = 0; k < PLACES; k++)
        results[k] = take_memory(engine, sizeof ones);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t before = driver_calls();
        for (int k = 0; k < PLACES; k++) {
            unsigned step;
            gt_token token = 0;
            void *addresses[] = {inputs[0], inputs[1], inputs[2], results[k]};
            CHECK_EQ(engine->ops->run_program(engine, program, addresses, false, &step, &token), GT_OK);
        }
        if (before &&
            round == ROUNDS - 1) /* a launch of a graph each; products by themselves are no calls of the driver */
            CHECK(driver_calls() - before >= PLACES);
        get(engine, results[PLACES - 1], back, sizeof back);
        CHECK(back[0] == (float)SQUARE);
    }
    engine->ops->free_program(engine, program);
    for (int k = 0; k < 3; k++)
        engine->ops->release(engine, inputs[k], sizeof ones);
    for (int k = 0; k < PLACES; k++)
        engine->ops->release(engine, results[k], sizeof ones);
    engine->ops->close(engine);
}

/* t = a + number; out = t[index]: the number changes from run to run, and some runs have an index that does not exist. */
typedef struct picks_plan {
    gt_plan plan;
    gt_slot records[2];
    gt_plan_step steps[2];
    gt_plan_value values[4];
    gt_plan_buffer buffers[4];
    uint32_t operands[2][2];
} picks_plan;

static void plan_picks(picks_plan *p)
{
    static const gt_plan_role roles[] = {GT_PLAN_INPUT, GT_PLAN_INPUT, GT_PLAN_INNER, GT_PLAN_OUTPUT};
    memset(p, 0, sizeof *p);
    for (uint32_t k = 0; k < 4; k++) {
        p->values[k].buffer = k;
        p->values[k].view = k == 1   ? vector_view(NULL, GT_INT64, 1)
                            : k == 3 ? vector_view(NULL, GT_FLOAT32, 1)
                                     : vector_view(NULL, GT_FLOAT32, SIZE);
        p->buffers[k] = (gt_plan_buffer){.role = roles[k], .bytes = BYTES};
    }
    p->records[0].ins.op = GT_OP_add;
    p->records[0].ins.literals = GT_LITERAL_FLOAT << 2;
    p->records[1].ins.op = GT_OP_take;
    p->operands[0][1] = GT_PLAN_LITERAL;
    p->operands[1][0] = 2;
    p->operands[1][1] = 1;
    for (uint32_t k = 0; k < 2; k++)
        p->steps[k] = (gt_plan_step){.op = (gt_opcode)p->records[k].ins.op,
                                     .compute = GT_FLOAT32,
                                     .record = &p->records[k],
                                     .operands = 2,
                                     .operand = p->operands[k],
                                     .result = 2 + k,
                                     .group = k};
    p->plan = (gt_plan){.steps = p->steps,
                        .step_count = 2,
                        .values = p->values,
                        .value_count = 4,
                        .buffers = p->buffers,
                        .buffer_count = 4};
}

static void test_programs_with_numbers(const void *argument)
{
    (void)argument;
    enum { RUNS = 12 };
    picks_plan p;
    gt_engine *engine = open_engine("cuda");
    if (!engine)
        return;
    gt_program *program = NULL;
    gt_token tokens[RUNS] = {0};
    float results[RUNS] = {0};
    plan_picks(&p);
    if (!CHECK_EQ(engine->ops->compile(engine, &p.plan, &program), GT_OK))
        return;
    void *a = filled(engine, 5),
         *buffers[] = {a, take_memory(engine, BYTES), take_memory(engine, BYTES), take_memory(engine, BYTES)};
    for (int run = 0; run < RUNS; run++) { /* all are queued before anything is asked for */
        unsigned step;
        gt_token token = 0;
        int64_t index = run % 4 == 3 ? 7000 + run : run;
        p.records[0].ins.literal[1].f = run;
        put(engine, buffers[1], &index, sizeof index);
        CHECK_EQ(engine->ops->run_program(engine, program, buffers, run == 5, &step, &tokens[run]), GT_OK);
        CHECK_EQ(engine->ops->read(engine, buffers[3], &results[run], sizeof(float), false, &token), GT_OK);
    }
    int failures = 0, run = 3;
    for (gt_completion c; engine->ops->completed(engine, true, &c);)
        if (c.err) {
            char words[32];
            snprintf(words, sizeof words, "index %d is", 7000 + run);
            CHECK_EQ(c.err, GT_ERR_INDEX);
            CHECK_EQ(c.token, tokens[run]);
            CHECK_EQ(c.step, 1);
            if (!CHECK(strstr(c.text, words) != NULL))
                fprintf(stderr, "%s\n", c.text);
            failures++;
            run += 4;
        }
    CHECK_EQ(failures, RUNS / 4);
    for (run = 0; run < RUNS; run++)
        CHECK(run % 4 == 3 || results[run] == 5 + (float)run);
    engine->ops->free_program(engine, program);
    for (int k = 0; k < 4; k++)
        engine->ops->release(engine, buffers[k], BYTES);
    engine->ops->close(engine);
}

/* t = a[start:start + 8]; out = t + 1: the start changes from run to run, and is put into the recorded graph. */
static void test_programs_with_slices(const void *argument)
{
    (void)argument;
    enum { RUNS = 12, PART = 8 };
    static const gt_plan_role roles[] = {GT_PLAN_INPUT, GT_PLAN_INNER, GT_PLAN_OUTPUT};
    gt_slot records[5] = {{.ins = {.op = GT_OP_slice, .tail = 3}}, {.i64 = {0}}, {.i64 = {1}}, {.i64 = {PART}}};
    uint32_t operands[2][2] = {{0}, {1, GT_PLAN_LITERAL}}, moving = 0;
    gt_plan_step steps[2] = {
        {.op = GT_OP_slice,
         .record = &records[0],
         .operands = 1,
         .operand = operands[0],
         .result = 1,
         .moves = true},
        {.op = GT_OP_add, .record = &records[4], .operands = 2, .operand = operands[1], .result = 2, .group = 1}};
    gt_plan_value values[3] = {{.buffer = 0}, {.buffer = 1}, {.buffer = 2}};
    gt_plan_buffer buffers[3];
    float numbers[SIZE], results[RUNS][PART] = {0};
    gt_engine *engine = open_engine("cuda");
    if (!engine)
        return;
    CHECK(engine->ops->fixed_addresses);
    records[4].ins = (gt_instruction){.op = GT_OP_add, .literals = GT_LITERAL_FLOAT << 2};
    records[4].ins.literal[1].f = 1;
    for (uint32_t k = 0; k < 3; k++) {
        values[k].view = vector_view(NULL, GT_FLOAT32, k ? PART : SIZE);
        buffers[k] = (gt_plan_buffer){.role = roles[k], .bytes = BYTES};
    }
    for (uint32_t k = 0; k < 2; k++)
        steps[k].compute = GT_FLOAT32;
    gt_plan plan = {.steps = steps,
                    .step_count = 2,
                    .values = values,
                    .value_count = 3,
                    .buffers = buffers,
                    .buffer_count = 3,
                    .moving = &moving,
                    .moving_count = 1};
    gt_program *program = NULL;
    if (!CHECK_EQ(engine->ops->compile(engine, &plan, &program), GT_OK))
        return;
    void *addresses[] = {take_memory(engine, BYTES), take_memory(engine, BYTES), take_memory(engine, BYTES)};
    for (int k = 0; k < SIZE; k++)
        numbers[k] = (float)k;
    put(engine, addresses[0], numbers, sizeof numbers);
    for (int run = 0; run < RUNS; run++) { /* all are queued before anything is asked for */
        unsigned step;
        gt_token token = 0;
        records[1].i64[0] = run * 4 % (SIZE - PART);
        CHECK_EQ(engine->ops->run_program(engine, program, addresses, run == 5, &step, &token), GT_OK);
        CHECK_EQ(engine->ops->read(engine, addresses[2], results[run], sizeof results[run], false, &token), GT_OK);
    }
    for (gt_completion c; engine->ops->completed(engine, true, &c);)
        CHECK_EQ(c.err, GT_OK);
    for (int run = 0; run < RUNS; run++)
        for (int k = 0; k < PART; k++)
            CHECK(results[run][k] == (float)(run * 4 % (SIZE - PART) + k + 1));
    engine->ops->free_program(engine, program);
    for (int k = 0; k < 3; k++)
        engine->ops->release(engine, addresses[k], BYTES);
    engine->ops->close(engine);
}

/* Products for which there was no memory once run on the card later. */
static void test_products_after_memory_ran_out(const void *argument)
{
    (void)argument;
    enum { MOST = 1024, PART = 16 << 20 };
    static void *parts[MOST];
    int count = 0;
    vector_call c;
    gt_token token = 0;
    gt_engine *engine = open_engine("cuda");
    if (!engine)
        return;
    products_plan p;
    plan_products(&p);
    gt_view square = p.values[0].view;
    square.data = take_memory(engine, SQUARE * sizeof(float));
    gt_view out = square;
    out.data = take_memory(engine, SQUARE * sizeof(float));
    vector_call_set(&c, GT_OP_matmul, out, square, square);
    while (count < MOST && (parts[count] = take_memory(engine, PART)))
        count++;
    CHECK_EQ(engine->ops->run(engine, &c.call, &token), GT_ERR_MEMORY);
    while (count)
        engine->ops->release(engine, parts[--count], PART);
    CHECK_EQ(engine->ops->run(engine, &c.call, &token), GT_OK);
    CHECK_EQ(engine->ops->host_calls(engine, GT_OP_matmul), 0);
    wait_for(engine, token);
    engine->ops->release(engine, square.data, SQUARE * sizeof(float));
    engine->ops->release(engine, out.data, SQUARE * sizeof(float));
    engine->ops->close(engine);
}

static void test_fork(const void *argument)
{
    (void)argument;
    const gt_engine_ops *ops;
    int status = 0;
    CHECK_EQ(gt__engine_find("cuda", &ops), GT_OK);
    pid_t child = fork();
    if (child == 0) {
        gt_engine *engine;
        gt_err err = ops->open(&(gt_engine_options){.threads = 1}, &engine);
        _exit(err == GT_ERR_UNSUPPORTED && strstr(gt_error_text(), "does not survive fork") ? 0 : 1);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- a card that breaks or refuses: in a process of its own, since the fake driver counts operations --------------- */

static int after_the_break(void)
{
    gt_engine *engine = open_engine("cuda");
    int failures = 0;
    gt_completion c;
    if (!engine)
        return 2;
    float host[SIZE] = {0};
    void *a = take_memory(engine, BYTES);
    gt_token token = 0;
    for (int k = 0; k < 100 && engine->ops->write(engine, a, host, BYTES, false, &token) == GT_OK; k++)
        continue;
    while (engine->ops->completed(engine, true, &c))
        failures += c.err == GT_ERR_INTERNAL && strstr(c.text, "Fake GPU failed") != NULL;
    CHECK(failures > 0);
    CHECK_EQ(engine->ops->write(engine, a, host, BYTES, false, &token), GT_ERR_INTERNAL);
    CHECK(strstr(gt_error_text(), "this worker cannot compute any more") != NULL);
    void *large;
    CHECK_EQ(engine->ops->alloc(engine, 256 << 20, &large), GT_ERR_INTERNAL);
    CHECK(strstr(gt_error_text(), "this worker cannot compute any more") != NULL);
    engine->ops->release(engine, a, BYTES);
    engine->ops->close(engine);
    return atomic_load(&check_state.failures) ? 1 : 0;
}

/* A program whose steps may fail is freed after the card broke. */
static int program_at_the_break(void)
{
    gt_engine *engine = open_engine("cuda");
    gt_program *program = NULL;
    gt_token token;
    gt_completion c;
    unsigned step;
    picks_plan p;
    plan_picks(&p);
    if (!engine || !CHECK_EQ(engine->ops->compile(engine, &p.plan, &program), GT_OK))
        return 2;
    void *buffers[4];
    for (int k = 0; k < 4; k++)
        buffers[k] = take_memory(engine, BYTES);
    put(engine, buffers[1], &(int64_t){0}, sizeof(int64_t));
    while (engine->ops->run_program(engine, program, buffers, false, &step, &token) == GT_OK)
        continue;
    CHECK(strstr(gt_error_text(), "this worker cannot compute any more") != NULL);
    engine->ops->free_program(engine, program);
    while (engine->ops->completed(engine, true, &c))
        CHECK(c.err == GT_OK || c.err == GT_ERR_INTERNAL);
    engine->ops->close(engine);
    return atomic_load(&check_state.failures) ? 1 : 0;
}

/* Memory that faults when it is used after its release. */
static void *map_pages(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return CHECK(pages != MAP_FAILED) ? pages : NULL;
}

/* A read into memory that is gone as soon as the call or its completion fails. */
static int read_at_the_break(void)
{
    enum { LARGE = 8 << 20 };
    gt_engine *engine = open_engine("cuda");
    gt_token token = 0;
    gt_completion c;
    int failures = 0;
    if (!engine)
        return 2;
    void *a = take_memory(engine, LARGE), *host = map_pages(LARGE);
    if (engine->ops->read(engine, a, host, LARGE, false, &token) == GT_OK)
        while (engine->ops->completed(engine, true, &c))
            failures += c.err == GT_ERR_INTERNAL;
    else
        failures++;
    CHECK(failures > 0);
    munmap(host, LARGE);
    engine->ops->close(engine);
    return atomic_load(&check_state.failures) ? 1 : 0;
}

/* Every third download is refused: a read and a call on the host fail midway, and the engine goes on. */
static int refused_downloads(void)
{
    enum { LARGE = 8 << 20 };
    gt_engine *engine = open_engine("cuda");
    gt_token token = 0;
    vector_call call;
    if (!engine)
        return 2;
    void *a = take_memory(engine, LARGE), *b = take_memory(engine, LARGE), *host = map_pages(LARGE);
    CHECK_EQ(engine->ops->read(engine, a, host, LARGE, false, &token), GT_ERR_MEMORY);
    munmap(host, LARGE);
    wait_for(engine, put(engine, a, &(float){1}, sizeof(float)));
    gt_view view = vector_view(a, GT_COMPLEX64, LARGE / 8), out = vector_view(b, GT_COMPLEX64, LARGE / 8);
    vector_call_set(&call, GT_OP_pow, out, view, view);
    call.call.compute = GT_COMPLEX64;
    CHECK_EQ(engine->ops->run(engine, &call.call, &token), GT_ERR_MEMORY);
    wait_for(engine, put(engine, a, &(float){1}, sizeof(float)));
    engine->ops->close(engine);
    return atomic_load(&check_state.failures) ? 1 : 0;
}

/* A program is queued, and its end cannot be timed: all its steps may have run, and written over inputs. */
static int refused_events(void)
{
    products_plan p;
    gt_engine *engine = open_engine("cuda");
    gt_program *program = NULL;
    plan_products(&p);
    if (!engine || !CHECK_EQ(engine->ops->compile(engine, &p.plan, &program), GT_OK))
        return 2;
    void *buffers[4];
    for (int k = 0; k < 4; k++)
        buffers[k] = take_memory(engine, SQUARE * sizeof(float));
    for (int run = 0; run < 6; run++) {
        bool timed = run == 4; /* by then it is a recording: the clock is set, it starts, and its end is refused */
        unsigned step = 0;
        gt_token token = 0;
        gt_err err = engine->ops->run_program(engine, program, buffers, timed, &step, &token);
        CHECK_EQ(err, timed ? GT_ERR_MEMORY : GT_OK);
        if (timed)
            CHECK_EQ(step, p.plan.step_count - 1);
    }
    engine->ops->free_program(engine, program);
    engine->ops->close(engine);
    return atomic_load(&check_state.failures) ? 1 : 0;
}

static const struct hard_case {
    const char *name, *variable, *value;
    int (*run)(void);
} hard_cases[] = {
    {"after the break", "FAKE_CUDA_BREAK", "40", after_the_break},
    {"a read at the break", "FAKE_CUDA_BREAK", "3", read_at_the_break},
    {"a program at the break", "FAKE_CUDA_BREAK", "41", program_at_the_break},
    {"refused downloads", "FAKE_CUDA_REFUSE", "3", refused_downloads},
    {"refused events", "FAKE_CUDA_REFUSE_EVENTS", "3", refused_events},
};
enum { HARD_CASES = sizeof hard_cases / sizeof hard_cases[0] };

static void test_hard_case(const void *argument)
{
    const struct hard_case *hard = argument;
    pid_t child = fork();
    if (child == 0) {
        setenv(hard->variable, hard->value, true);
        execv("/proc/self/exe", (char *[]){"test_cuda", (char *)(uintptr_t)hard->name, NULL});
        _exit(3);
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char **argv)
{
    for (int k = 0; k < HARD_CASES; k++)
        if (argc > 1 && strcmp(argv[1], hard_cases[k].name) == 0)
            return hard_cases[k].run();
    check_begin(argc, argv);
    check_run("heap", test_heap, NULL);
    check_run("heap asks rarely", test_heap_asks_rarely, NULL);
    const gt_engine_ops *ops;
    if (gt__engine_find("cuda", &ops) != GT_OK) {
        printf("skipped: %s\n", gt_error_text());
        return check_end();
    }
    check_run("order", test_order, NULL);
    check_run("failures", test_failures, NULL);
    check_run("many failures", test_many_failures, NULL);
    check_run("times", test_times, NULL);
    check_run("release while in use", test_release_while_in_use, NULL);
    check_run("clearing", test_clear, NULL);
    check_run("transfers", test_transfers, NULL);
    check_run("pinned memory", test_pinned, NULL);
    check_run("pinned elsewhere", test_pinned_elsewhere, NULL);
    check_run("pinned segments", test_pinned_segments, NULL);
    check_run("close finishes", test_close_finishes, NULL);
    check_run("memory runs out", test_memory_runs_out, NULL);
    check_run("programs", test_programs, NULL);
    check_run("programs at many places", test_programs_at_many_places, NULL);
    check_run("programs with numbers", test_programs_with_numbers, NULL);
    check_run("programs with slices", test_programs_with_slices, NULL);
    if (getenv("FAKE_CUDA_MEMORY")) {
        check_run("products after memory ran out", test_products_after_memory_ran_out, NULL);
        check_run("fork", test_fork, NULL);
    }
    for (int k = 0; k < HARD_CASES && getenv("FAKE_CUDA_MEMORY"); k++)
        check_run(hard_cases[k].name, test_hard_case, &hard_cases[k]);
    return check_end();
}

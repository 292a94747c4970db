/*
 * test_late.c: what an engine that finishes later promises (engine.h), on the late engine: order, tokens, failures,
 * coalesced and timed completions, memory in use, programs. With GT_LATE_HOLD nothing starts before flush or a wait, so
 * that "later" does not depend on luck.
 */
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "engine_calls.h"
#include "engines/plan.h"

enum { SIZE = 1000, BYTES = SIZE * (int)sizeof(float) };

static gt_engine *open_late(bool hold, const char *queue)
{
    setenv("GT_LATE_HOLD", hold ? "1" : "0", true);
    setenv("GT_LATE_QUEUE", queue, true);
    return open_engine("late");
}

static gt_view vector(void *data)
{
    return vector_view(data, GT_FLOAT32, SIZE);
}

/* Memory of the engine, filled with a number, which is queued; `host` stays until it is done. */
static void *filled(gt_engine *engine, float *host, float number)
{
    void *memory = take_memory(engine, BYTES);
    gt_token token = 0;
    for (int k = 0; k < SIZE; k++)
        host[k] = number;
    CHECK(memory != NULL);
    CHECK_EQ(engine->ops->write(engine, memory, host, BYTES, false, &token), GT_OK);
    CHECK(token != 0);
    return memory;
}

/* Queue out = a + number; everything borrowed is gone when this returns. */
static gt_token add_number(gt_engine *engine, void *out, void *a, double number, bool timed)
{
    vector_call *c = malloc(sizeof *c);
    gt_token token = 0;
    vector_call_literal(c, GT_OP_add, vector(out), vector(a), number);
    c->call.timed = timed;
    CHECK_EQ(engine->ops->run(engine, &c->call, &token), GT_OK);
    memset(c, 0xee, sizeof *c);
    free(c);
    return token;
}

/* Queue a take with an index that does not exist. */
static gt_token take_beyond(gt_engine *engine, void *out, void *a, void *index)
{
    vector_call c;
    gt_token token = 0;
    vector_call_set(&c, GT_OP_take, vector_view(out, GT_FLOAT32, 1), vector(a), vector_view(index, GT_INT64, 1));
    CHECK_EQ(engine->ops->run(engine, &c.call, &token), GT_OK);
    return token;
}

/* Wait for a token; nothing may fail before. */
static void wait_for(gt_engine *engine, gt_token token)
{
    for (gt_completion c = {0}; c.token < token;) {
        if (!CHECK(engine->ops->completed(engine, true, &c)))
            return;
        CHECK_EQ(c.err, GT_OK);
    }
}

static void check_vector(gt_engine *engine, const void *from, float number)
{
    float host[SIZE];
    gt_token token = 0;
    CHECK_EQ(engine->ops->read(engine, from, host, BYTES, false, &token), GT_OK);
    wait_for(engine, token);
    for (int k = 0; k < SIZE; k++)
        if (!CHECK(host[k] == number))
            return;
}

static void test_order(const void *argument)
{
    (void)argument;
    for (int seed = 1; seed < 6; seed++) {
        char text[8];
        float host[SIZE];
        snprintf(text, sizeof text, "%d", seed);
        setenv("GT_LATE_SEED", text, true);
        gt_engine *engine = open_late(false, "256");
        if (!engine)
            return;
        void *a = filled(engine, host, 1), *b = take_memory(engine, BYTES);
        gt_token last = 0;
        for (int k = 0; k < 400; k++) {
            gt_token token = add_number(engine, k % 2 ? a : b, k % 2 ? b : a, 1, false);
            CHECK(token > last);
            last = token;
        }
        check_vector(engine, a, 401);
        engine->ops->release(engine, a, BYTES);
        engine->ops->release(engine, b, BYTES);
        engine->ops->close(engine);
    }
    unsetenv("GT_LATE_SEED");
}

static void test_nothing_starts_before_it_may(const void *argument)
{
    (void)argument;
    float host[SIZE], back[SIZE] = {0};
    gt_engine *engine = open_late(true, "256");
    if (!engine)
        return;
    gt_token token = 0;
    gt_completion c;
    CHECK(!engine->ops->completed(engine, false, &c));
    CHECK(!engine->ops->completed(engine, true, &c)); /* nothing is queued: it does not wait */
    void *a = filled(engine, host, 3);
    CHECK_EQ(engine->ops->read(engine, a, back, BYTES, false, &token), GT_OK);
    CHECK(!engine->ops->completed(engine, false, &c));
    CHECK(back[0] == 0);
    engine->ops->flush(engine);
    wait_for(engine, token);
    CHECK(back[0] == 3 && back[SIZE - 1] == 3);
    CHECK(!engine->ops->completed(engine, true, &c));
    engine->ops->release(engine, a, BYTES);
    CHECK(!engine->ops->completed(engine, true, &c)); /* a release has no token */
    engine->ops->close(engine);
}

static void test_failures_have_their_tokens(const void *argument)
{
    (void)argument;
    float host[SIZE];
    int64_t index[] = {7777, -3333};
    gt_engine *engine = open_late(true, "256");
    if (!engine)
        return;
    void *a = filled(engine, host, 1), *out = take_memory(engine, BYTES);
    gt_token first = add_number(engine, out, a, 1, false);
    gt_token bad = take_beyond(engine, out, a, &index[0]);
    gt_token between = add_number(engine, out, a, 2, false);
    gt_token worse = take_beyond(engine, out, a, &index[1]);
    gt_token last = add_number(engine, out, a, 3, false);
    gt_completion c = {0};
    gt_token seen = 0;
    int failures = 0;
    while (engine->ops->completed(engine, true, &c)) {
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
    CHECK(first < bad && bad < between && between < worse);
    check_vector(engine, out, 4); /* what follows a failure is executed */
    engine->ops->release(engine, a, BYTES);
    engine->ops->release(engine, out, BYTES);
    engine->ops->close(engine);
}

/* Runs everything that is queued without asking for completions: the limit waits for the queue. */
static void drain(gt_engine *engine)
{
    CHECK(engine->ops->memory_limit(engine, 1) > 0);
}

static void test_completions_are_coalesced(const void *argument)
{
    (void)argument;
    float host[SIZE];
    int64_t index = 7777;
    gt_engine *engine = open_late(false, "256");
    if (!engine)
        return;
    void *a = filled(engine, host, 1), *out = take_memory(engine, BYTES);
    gt_token last = 0;
    gt_completion c = {0};
    for (int k = 0; k < 5; k++)
        last = add_number(engine, out, a, 1, false);
    drain(engine);
    CHECK(engine->ops->completed(engine, false, &c));
    CHECK_EQ(c.token, last);
    CHECK_EQ(c.err, GT_OK);
    CHECK(!engine->ops->completed(engine, false, &c));

    add_number(engine, out, a, 1, false);
    gt_token bad = take_beyond(engine, out, a, &index);
    add_number(engine, out, a, 1, false);
    last = add_number(engine, out, a, 1, false);
    drain(engine);
    CHECK(engine->ops->completed(engine, false, &c));
    CHECK(c.token == bad && c.err == GT_ERR_INDEX);
    CHECK(engine->ops->completed(engine, false, &c));
    CHECK(c.token == last && c.err == GT_OK);
    CHECK(!engine->ops->completed(engine, false, &c));
    engine->ops->release(engine, a, BYTES);
    engine->ops->release(engine, out, BYTES);
    engine->ops->close(engine);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void test_timed_work(const void *argument)
{
    (void)argument;
    float host[SIZE];
    gt_engine *engine = open_late(true, "256");
    if (!engine)
        return;
    void *a = filled(engine, host, 1), *out = take_memory(engine, BYTES);
    enum { CALLS = 2, TIMED = CALLS + 2 };
    gt_token tokens[TIMED] = {0}, plain;
    for (int k = 0; k < CALLS; k++)
        tokens[k] = add_number(engine, out, a, 1, true);
    CHECK_EQ(engine->ops->write(engine, a, host, BYTES, true, &tokens[CALLS]), GT_OK);
    CHECK_EQ(engine->ops->read(engine, a, host, BYTES, true, &tokens[CALLS + 1]), GT_OK);
    plain = add_number(engine, out, a, 1, false);
    uint64_t enqueued = now_ns(), before = enqueued;
    drain(engine);
    uint64_t after = now_ns();
    gt_completion c = {0};
    for (int k = 0; k < TIMED; k++) {
        CHECK(engine->ops->completed(engine, false, &c));
        CHECK_EQ(c.token, tokens[k]);
        /* It was executed after everything was queued, one after another. */
        CHECK(c.start_ns >= before && c.end_ns >= c.start_ns && c.end_ns <= after);
        before = c.end_ns;
    }
    CHECK(engine->ops->completed(engine, false, &c));
    CHECK(c.token == plain && c.start_ns == 0 && c.end_ns == 0);
    engine->ops->release(engine, a, BYTES);
    engine->ops->release(engine, out, BYTES);
    engine->ops->close(engine);
}

/* Memory that is released stays what it is for the work that was queued before. */
static void test_release_while_in_use(const void *argument)
{
    (void)argument;
    float host[SIZE], others[SIZE];
    gt_engine *engine = open_late(true, "256");
    if (!engine)
        return;
    void *a = filled(engine, host, 1), *out = take_memory(engine, BYTES);
    add_number(engine, out, a, 1, false);
    engine->ops->release(engine, a, BYTES);
    void *b = filled(engine, others, 50);
    CHECK(b != a);
    check_vector(engine, out, 2);
    check_vector(engine, b, 50);
    engine->ops->release(engine, b, BYTES);
    engine->ops->release(engine, out, BYTES);
    engine->ops->close(engine);
}

static void test_close_finishes_what_is_queued(const void *argument)
{
    (void)argument;
    for (int hold = 0; hold < 2; hold++) {
        float host[SIZE], back[SIZE] = {0};
        int64_t index = 7777;
        gt_token token = 0;
        gt_engine *engine = open_late(hold, "256");
        if (!engine)
            return;
        void *a = filled(engine, host, 1), *out = take_memory(engine, BYTES);
        for (int k = 0; k < 50; k++)
            add_number(engine, a, a, 1, false);
        take_beyond(engine, out, a, &index); /* a failure that is never asked for */
        CHECK_EQ(engine->ops->read(engine, a, back, BYTES, false, &token), GT_OK);
        engine->ops->release(engine, a, BYTES);
        engine->ops->release(engine, out, BYTES);
        engine->ops->close(engine);
        CHECK(back[0] == 51 && back[SIZE - 1] == 51);
    }
}

/* More than the queue holds, with failures that wait to be asked for: the caller is blocked, not stuck. */
static void test_full_queue(const void *argument)
{
    (void)argument;
    static const char *const sizes[] = {"1", "4"};
    for (int k = 0; k < 4; k++) {
        float host[SIZE];
        int64_t index = 7777;
        int failures = 0;
        gt_engine *engine = open_late(k % 2, sizes[k / 2]);
        if (!engine)
            return;
        void *a = filled(engine, host, 1), *out = take_memory(engine, BYTES);
        for (int times = 0; times < 100; times++) {
            add_number(engine, a, a, 1, false);
            take_beyond(engine, out, a, &index);
        }
        for (gt_completion c; engine->ops->completed(engine, true, &c);)
            failures += c.err != GT_OK;
        CHECK_EQ(failures, 100);
        check_vector(engine, a, 101);
        engine->ops->release(engine, a, BYTES);
        engine->ops->release(engine, out, BYTES);
        engine->ops->close(engine);
    }
}

/* A cat has many operands, whose views and ids in the tail are borrowed, too. */
static void test_many_operands(const void *argument)
{
    (void)argument;
    enum { PARTS = GT_MAX_CAT };
    static float parts[PARTS], all[PARTS];
    gt_engine *engine = open_late(true, "256");
    gt_view *in = calloc(PARTS, sizeof *in), out = vector_view(all, GT_FLOAT32, PARTS);
    const gt_view **views = calloc(PARTS, sizeof *views);
    gt_slot *tail = calloc(PARTS / 8, sizeof *tail);
    gt_instruction ins = {.op = GT_OP_cat, .tail = PARTS / 8, .imm = {{.i = 0}, {.i = PARTS}}};
    if (!engine)
        return;
    for (int k = 0; k < PARTS; k++) {
        parts[k] = (float)k;
        in[k] = vector_view(&parts[k], GT_FLOAT32, 1);
        views[k] = &in[k];
    }
    gt_call call = {.op = GT_OP_cat,
                    .compute = GT_FLOAT32,
                    .ins = &ins,
                    .tail = tail,
                    .operands = PARTS,
                    .in = views,
                    .out = &out};
    gt_token token = 0;
    CHECK_EQ(engine->ops->run(engine, &call, &token), GT_OK);
    memset(in, 0, PARTS * sizeof *in);
    free(in);
    free(views);
    free(tail);
    wait_for(engine, token);
    for (int k = 0; k < PARTS; k++)
        if (!CHECK(all[k] == (float)k))
            break;
    engine->ops->close(engine);
}

/* ---- programs ------------------------------------------------------------------------------------------------ */

/*
 * t = a + 2; v = t backwards, a view; t2 = v * a, in memory of its own; out = t2[index]. The records are written as a
 * worker's plan has them; only what an engine reads is filled in.
 */
typedef struct example_plan {
    gt_plan plan;
    gt_slot records[16];
    gt_plan_step steps[4];
    gt_plan_value values[6];
    gt_plan_buffer buffers[5];
    uint32_t operands[4][2];
} example_plan;

enum { VALUE_A, VALUE_INDEX, VALUE_T, VALUE_V, VALUE_T2, VALUE_OUT };

static gt_plan_value plan_value(uint32_t buffer, gt_view view)
{
    return (gt_plan_value){.buffer = buffer, .view = view};
}

static void example_plan_make(example_plan *e)
{
    *e = (example_plan){0};
    gt_view backwards = vector_view(NULL, GT_FLOAT32, SIZE);
    backwards.stride[0] = -1;
    backwards.contiguous = false;
    e->values[VALUE_A] = plan_value(0, vector_view(NULL, GT_FLOAT32, SIZE));
    e->values[VALUE_INDEX] = plan_value(1, vector_view(NULL, GT_INT64, 2));
    e->values[VALUE_T] = plan_value(2, vector_view(NULL, GT_FLOAT32, SIZE));
    e->values[VALUE_V] = plan_value(2, backwards);
    e->values[VALUE_V].offset = BYTES - (int)sizeof(float);
    e->values[VALUE_T2] = plan_value(3, vector_view(NULL, GT_FLOAT32, SIZE));
    e->values[VALUE_OUT] = plan_value(4, vector_view(NULL, GT_FLOAT32, 2));
    static const uint32_t operands[4][2] = {
        {VALUE_A, GT_PLAN_LITERAL}, {VALUE_T}, {VALUE_V, VALUE_A}, {VALUE_T2, VALUE_INDEX}};
    memcpy(e->operands, operands, sizeof operands);
    e->records[0].ins = (gt_instruction){.op = GT_OP_add, .literals = GT_LITERAL_FLOAT << 2};
    e->records[0].ins.literal[1].f = 2;
    e->records[1].ins = (gt_instruction){.op = GT_OP_slice, .tail = 3};
    e->records[5].ins = (gt_instruction){.op = GT_OP_mul};
    e->records[6].ins = (gt_instruction){.op = GT_OP_take};
    static const unsigned record[] = {0, 1, 5, 6}, counts[] = {2, 1, 2, 2};
    static const uint32_t results[] = {VALUE_T, VALUE_V, VALUE_T2, VALUE_OUT};
    for (int k = 0; k < 4; k++)
        e->steps[k] = (gt_plan_step){.kind = k == 1 ? GT_STEP_VIEW : GT_STEP_RUN,
                                     .op = (gt_opcode)e->records[record[k]].ins.op,
                                     .compute = GT_FLOAT32,
                                     .record = &e->records[record[k]],
                                     .operands = counts[k],
                                     .operand = e->operands[k],
                                     .result = results[k]};
    e->plan = (gt_plan){.records = e->records,
                        .steps = e->steps,
                        .step_count = 4,
                        .values = e->values,
                        .value_count = 6,
                        .buffers = e->buffers,
                        .buffer_count = 5};
}

static void test_programs(const void *argument)
{
    (void)argument;
    static float a[SIZE], t[SIZE], t2[SIZE], out[2][2];
    static int64_t good[] = {0, 10}, bad[] = {0, 4321};
    gt_engine *engine = open_late(true, "256");
    example_plan *e = malloc(sizeof *e);
    gt_program *program = NULL;
    if (!engine)
        return;
    for (int k = 0; k < SIZE; k++)
        a[k] = (float)k;
    example_plan_make(e);
    CHECK_EQ(engine->ops->compile(engine, &e->plan, &program), GT_OK);
    gt_token token[3] = {0};
    for (int k = 0; k < 3; k++) {
        void *buffer[] = {a, k == 1 ? bad : good, t, t2, out[k / 2]};
        CHECK_EQ(engine->ops->run_program(engine, program, buffer, k == 2, &(unsigned){0}, &token[k]), GT_OK);
        memset(buffer, 0, sizeof buffer);
    }
    engine->ops->free_program(engine, program); /* it waits for its turn */
    memset(e, 0xee, sizeof *e);                 /* runs have what they need */
    free(e);
    int failures = 0;
    for (gt_completion c; engine->ops->completed(engine, true, &c);)
        if (c.err) {
            CHECK(c.token == token[1] && c.err == GT_ERR_INDEX && c.step == 3 && strstr(c.text, "4321"));
            failures++;
        } else if (c.token == token[2])
            CHECK(c.start_ns > 0 && c.end_ns >= c.start_ns);
    CHECK_EQ(failures, 1);
    for (int k = 0; k < 2; k++)
        CHECK(out[k][0] == 0 && out[k][1] == 10 * (SIZE - 1 - 10 + 2));
    engine->ops->close(engine);
}

/* A literal in a program is what it is in a call: a bool that is not 0 is true, in whichever byte it has its bits. */
static void test_program_bools(const void *argument)
{
    (void)argument;
    static const int64_t bools[] = {0, 1, 256, INT64_MIN};
    static float a[SIZE], t[SIZE], t2[SIZE], out[2];
    static int64_t index[] = {0, 10};
    void *buffer[] = {a, index, t, t2, out};
    gt_engine *engine = open_late(false, "256");
    if (!engine)
        return;
    for (int k = 0; k < SIZE; k++)
        a[k] = (float)k;
    for (size_t k = 0; k < sizeof bools / sizeof *bools; k++) {
        example_plan e;
        gt_program *program = NULL;
        gt_token token = 0;
        example_plan_make(&e);
        e.records[0].ins.literals = GT_LITERAL_BOOL << 2;
        e.records[0].ins.literal[1].i = bools[k];
        CHECK_EQ(engine->ops->compile(engine, &e.plan, &program), GT_OK);
        CHECK_EQ(engine->ops->run_program(engine, program, buffer, false, &(unsigned){0}, &token), GT_OK);
        wait_for(engine, token);
        CHECK_EQ(out[1], 10 * (SIZE - 1 - 10 + (bools[k] != 0)));
        engine->ops->free_program(engine, program);
    }
    engine->ops->close(engine);
}

/* The group of an engine in a child that is process 1 of a namespace of its own, as in a container; 0: not permitted here. */
static uint64_t group_in_container(gt_engine *engine)
{
    int ends[2];
    uint64_t group = 0;
    CHECK_EQ(pipe(ends), 0);
    long child = syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        group = getpid() == 1 ? engine->ops->league(engine) : 0;
        _exit(write(ends[1], &group, sizeof group) != sizeof group);
    }
    close(ends[1]);
    if (child > 0) {
        CHECK_EQ(read(ends[0], &group, sizeof group), sizeof group);
        CHECK_EQ(waitpid((pid_t)child, NULL, 0), child);
    }
    close(ends[0]);
    return group;
}

static void test_containers_are_different_groups(const void *unused)
{
    (void)unused;
    gt_engine *engine = open_late(false, "256"), *other = open_late(false, "256");
    if (!engine || !other)
        return;
    uint64_t one = group_in_container(engine), two = group_in_container(engine);
    CHECK(one == 0 || one != two);
    CHECK_EQ(engine->ops->league(engine), other->ops->league(other));
    CHECK(engine->ops->league(engine) != 0);
    engine->ops->close(engine);
    other->ops->close(other);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("order", test_order, NULL);
    check_run("nothing starts before it may", test_nothing_starts_before_it_may, NULL);
    check_run("failures have their tokens", test_failures_have_their_tokens, NULL);
    check_run("completions are coalesced", test_completions_are_coalesced, NULL);
    check_run("timed work", test_timed_work, NULL);
    check_run("release while in use", test_release_while_in_use, NULL);
    check_run("close finishes what is queued", test_close_finishes_what_is_queued, NULL);
    check_run("a full queue", test_full_queue, NULL);
    check_run("many operands", test_many_operands, NULL);
    check_run("programs", test_programs, NULL);
    check_run("bools in programs", test_program_bools, NULL);
    check_run("containers are different groups", test_containers_are_different_groups, NULL);
    return check_end();
}

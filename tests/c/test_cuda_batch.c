/*
 * test_cuda_batch.c: runs of a short planned sequence, on tensors of their own each, are few launches; and they compute what they
 * compute one by one, whatever they share. Without a card on the fake driver, whose kernels are compiled for the host.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cuda_calls.h"
#include "engines/plan.h"
#include "random_numbers.h"

/* t = a * number; out = t + b. */
typedef struct update_plan {
    gt_plan plan;
    gt_slot records[2];
    gt_plan_step steps[2];
    gt_plan_value values[4];
    gt_plan_buffer buffers[4];
    uint32_t operands[2][2];
} update_plan;

static void plan_update(update_plan *p)
{
    static const gt_plan_role roles[] = {GT_PLAN_INPUT, GT_PLAN_INPUT, GT_PLAN_INNER, GT_PLAN_OUTPUT};
    memset(p, 0, sizeof *p);
    for (uint32_t k = 0; k < 4; k++) {
        p->values[k].buffer = k;
        p->values[k].view = vector_view(NULL, GT_FLOAT32, SIZE);
        p->buffers[k] = (gt_plan_buffer){.role = roles[k],
                                         .bytes = BYTES,
                                         .last_use = k == 3   ? GT_PLAN_LIVES
                                                     : k == 0 ? 0
                                                              : 1};
    }
    p->records[0].ins.op = GT_OP_mul;
    p->records[0].ins.literals = GT_LITERAL_FLOAT << 2;
    p->records[1].ins.op = GT_OP_add;
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

typedef struct fixture {
    gt_engine *engine;
    update_plan plan;
    gt_program *program;
} fixture;

static bool fixture_open(fixture *f)
{
    f->engine = open_engine("cuda");
    f->program = NULL;
    plan_update(&f->plan);
    return f->engine && CHECK_EQ(f->engine->ops->compile(f->engine, &f->plan.plan, &f->program), GT_OK);
}

static void fixture_close(fixture *f)
{
    f->engine->ops->free_program(f->engine, f->program);
    f->engine->ops->close(f->engine);
}

static gt_token update(fixture *f, void *out, void *a, void *b, double number, bool timed)
{
    unsigned step;
    gt_token token = 0;
    void *buffers[] = {a, b, NULL, out};
    f->plan.records[0].ins.literal[1].f = number;
    CHECK_EQ(f->engine->ops->run_program(f->engine, f->program, buffers, timed, &step, &token), GT_OK);
    return token;
}

static void test_few_launches(const void *argument)
{
    (void)argument;
    enum { RUNS = 60 };
    fixture f;
    void *memory[3 * RUNS];
    if (!fixture_open(&f))
        return;
    for (int k = 0; k < 3 * RUNS; k++)
        memory[k] = filled(f.engine, (float)k);
    uint64_t before = driver_calls();
    for (int k = 0; k < RUNS; k++)
        update(&f, memory[3 * k], memory[3 * k + 1], memory[3 * k + 2], 2, false);
    f.engine->ops->flush(f.engine);
    CHECK(!before || driver_calls() - before < RUNS / 4);
    for (int k = 0; k < RUNS; k++)
        check_vector(f.engine, memory[3 * k], (float)((3 * k + 1) * 2 + 3 * k + 2));
    for (int k = 0; k < 3 * RUNS; k++)
        f.engine->ops->release(f.engine, memory[k], BYTES);
    fixture_close(&f);
}

/* How many timed runs there are until a token is complete; their times are in order. */
static int count_timed(fixture *f, gt_token token)
{
    gt_completion done = {0};
    uint64_t last = 0;
    int timed = 0;
    f->engine->ops->flush(f->engine);
    while (done.token < token && CHECK(f->engine->ops->completed(f->engine, true, &done))) {
        if (!done.start_ns)
            continue;
        CHECK(done.start_ns >= last && done.end_ns >= done.start_ns);
        last = done.end_ns;
        timed++;
    }
    return timed;
}

/* A timed run goes with those that wait: a launch and two events each. */
static void test_timed_runs_join(const void *argument)
{
    (void)argument;
    enum { RUNS = 60, EVERY = 4 };
    fixture f;
    void *memory[3 * RUNS];
    gt_token token = 0;
    if (!fixture_open(&f))
        return;
    for (int k = 0; k < 3 * RUNS; k++)
        memory[k] = filled(f.engine, (float)k);
    for (int round = 0; round < 2; round++) { /* the first makes events */
        uint64_t before = driver_calls();
        for (int k = 0; k < RUNS; k++)
            token = update(&f, memory[3 * k], memory[3 * k + 1], memory[3 * k + 2], 2, k % EVERY == EVERY - 1);
        CHECK(!before || !round || driver_calls() - before < 3 * RUNS / EVERY + 6);
        CHECK_EQ(count_timed(&f, token), RUNS / EVERY);
    }
    for (int k = 0; k < RUNS; k++)
        check_vector(f.engine, memory[3 * k], (float)((3 * k + 1) * 2 + 3 * k + 2));
    for (int k = 0; k < 3 * RUNS; k++)
        f.engine->ops->release(f.engine, memory[k], BYTES);
    fixture_close(&f);
}

/* Runs read what others wrote, and write what others read. Other work, times and waits come between. */
static void test_random(const void *argument)
{
    (void)argument;
    enum { TENSORS = 24, RUNS = 600 };
    fixture f;
    void *memory[TENSORS];
    float expected[TENSORS];
    numbers n = {.state = 11};
    if (!fixture_open(&f))
        return;
    for (int k = 0; k < TENSORS; k++) {
        expected[k] = (float)k;
        memory[k] = filled(f.engine, expected[k]);
    }
    for (int run = 0; run < RUNS; run++) {
        size_t out = numbers_below(&n, TENSORS), a = numbers_below(&n, TENSORS), b = numbers_below(&n, TENSORS);
        double number = run / 40 % 2 ? 0.5 : -0.25;
        switch (numbers_below(&n, 24)) {
        case 0:
            if (a != out) {
                add_number(f.engine, memory[out], memory[a], 1, false);
                expected[out] = expected[a] + 1;
            }
            break;
        case 1:
            check_vector(f.engine, memory[a], expected[a]);
            break;
        case 2:
            wait_for(f.engine, update(&f, memory[out], memory[a], memory[b], number, true));
            expected[out] = expected[a] * (float)number + expected[b];
            break;
        default:
            update(&f, memory[out], memory[a], memory[b], number, false);
            expected[out] = expected[a] * (float)number + expected[b];
        }
    }
    for (int k = 0; k < TENSORS; k++) {
        check_vector(f.engine, memory[k], expected[k]);
        f.engine->ops->release(f.engine, memory[k], BYTES);
    }
    fixture_close(&f);
}

/* What waits is done when the engine closes. */
static void test_close(const void *argument)
{
    (void)argument;
    fixture f;
    if (!fixture_open(&f))
        return;
    void *a = filled(f.engine, 1), *b = filled(f.engine, 2), *out = filled(f.engine, 0);
    update(&f, out, a, b, 3, false);
    f.engine->ops->release(f.engine, a, BYTES);
    f.engine->ops->release(f.engine, b, BYTES);
    f.engine->ops->release(f.engine, out, BYTES);
    fixture_close(&f);
}

/* ---- a driver that refuses a call ------------------------------------------------------------------------------------ */

/* Call number `call` from now on, with this result. */
static void refuse(int call, int result)
{
    void (*set)(int64_t, int) = NULL;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    *(void **)&set = dlsym(library, "fake_driver_refuse");
    set(call, result);
}

enum { MEMBERS = 8 }; /* runs whose launches wait for each other; there is another call in the middle */

/* Queue them while a call is refused. Returns how many of them failed. */
static int queue_refused(fixture *f, void *const *memory, void *other, bool *failed)
{
    gt_token token[MEMBERS] = {0}, unused;
    gt_completion done;
    vector_call c;
    int failures = 0;
    vector_call_literal(&c, GT_OP_add, vector(other), vector(other), 0);
    f->plan.records[0].ins.literal[1].f = 2;
    for (int k = 0; k < MEMBERS; k++) {
        unsigned step;
        void *buffers[] = {memory[3 * k + 1], memory[3 * k + 2], NULL, memory[3 * k]};
        failed[k] = f->engine->ops->run_program(f->engine, f->program, buffers, false, &step, &token[k]) != GT_OK;
        if (k == MEMBERS / 2)
            f->engine->ops->run(f->engine, &c.call, &unused);
    }
    f->engine->ops->flush(f->engine);
    while (f->engine->ops->completed(f->engine, true, &done))
        for (int k = 0; k < MEMBERS; k++)
            failed[k] |= done.err != GT_OK && done.token == token[k];
    for (int k = 0; k < MEMBERS; k++)
        failures += failed[k];
    return failures;
}

typedef struct refusal {
    int result; /* of the driver's call */
    int most;   /* runs that may fail: with memory, a launch is tried again */
    bool some;  /* some do */
} refusal;

/* What has not failed is right, and the engine goes on. */
static void test_refused(const void *argument)
{
    const refusal *r = argument;
    enum { CALLS = 8 };
    fixture f;
    void *memory[3 * MEMBERS];
    bool failed[MEMBERS];
    int most = 0;
    if (!fixture_open(&f))
        return;
    void *other = filled(f.engine, 5);
    for (int k = 0; k < 3 * MEMBERS; k++)
        memory[k] = filled(f.engine, (float)k);
    for (int call = 1; call <= CALLS; call++) {
        refuse(call, r->result);
        int failures = queue_refused(&f, memory, other, failed);
        refuse(0, 0);
        most = failures > most ? failures : most;
        for (int k = 0; k < MEMBERS; k++)
            if (!failed[k])
                check_vector(f.engine, memory[3 * k], (float)((3 * k + 1) * 2 + 3 * k + 2));
        wait_for(f.engine, update(&f, memory[0], memory[1], memory[2], 3, false));
        check_vector(f.engine, memory[0], 1 * 3 + 2);
    }
    CHECK(most <= r->most && (most > 0) == r->some);
    f.engine->ops->release(f.engine, other, BYTES);
    for (int k = 0; k < 3 * MEMBERS; k++)
        f.engine->ops->release(f.engine, memory[k], BYTES);
    fixture_close(&f);
}

int main(int argc, char **argv)
{
    const gt_engine_ops *ops;
    check_begin(argc, argv);
    if (gt__engine_find("cuda", &ops) != GT_OK) {
        printf("skipped: %s\n", gt_error_text());
        return check_end();
    }
    check_run("few launches", test_few_launches, NULL);
    check_run("timed runs join", test_timed_runs_join, NULL);
    check_run("random runs", test_random, NULL);
    check_run("close", test_close, NULL);
    if (getenv("FAKE_CUDA_MEMORY")) {
        check_run("refused calls", test_refused, &(refusal){.result = 1, .most = MEMBERS, .some = true});
        check_run("memory for a call", test_refused, &(refusal){.result = 2, .most = 0});
    }
    return check_end();
}

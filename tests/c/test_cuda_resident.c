/*
 * test_cuda_resident.c: small operations on the CUDA engine: calls of the driver, and the resident kernel. On the fake driver of
 * tests/cuda with kernels that run there, or on a card.
 */
#include <math.h>
#include <time.h>

#include "check.h"
#include "cuda_calls.h"
#include "engines/cuda/generate_resident.h"

static gt_engine *open_resident(const char *mode)
{
    setenv("GT_CUDA_RESIDENT", mode, true);
    gt_engine *engine = open_engine("cuda");
    unsetenv("GT_CUDA_RESIDENT");
    return engine;
}

/* Without the resident kernel a small operation is one call of the driver: its launch. */
static void test_one_call_each(const void *argument)
{
    (void)argument;
    enum { ADDS = 16 };
    gt_engine *engine = open_resident("0");
    if (!engine)
        return;
    void *a = filled(engine, 1), *b = take_memory(engine, BYTES);
    check_vector(engine, a, 1);
    wait_for(engine, add_number(engine, b, a, 1, false)); /* the kernel is made */
    uint64_t before = driver_calls();
    for (int k = 0; k < ADDS; k++)
        add_number(engine, b, a, k, false);
    CHECK_EQ(driver_calls() - before, ADDS);
    check_vector(engine, b, ADDS);
    engine->ops->release(engine, a, BYTES);
    engine->ops->release(engine, b, BYTES);
    engine->ops->close(engine);
}

/* With it, a chain of small operations and reads needs hardly any. */
static void test_resident_chain(const void *argument)
{
    (void)argument;
    enum { ADDS = 3000, ROUNDS = 20 };
    gt_engine *engine = open_resident("always");
    if (!engine)
        return;
    void *a = filled(engine, 1), *b = take_memory(engine, BYTES);
    check_vector(engine, a, 1);
    uint64_t before = driver_calls();
    for (int k = 0; k < ADDS; k++)
        add_number(engine, k % 2 ? a : b, k % 2 ? b : a, 1, false);
    check_vector(engine, a, ADDS + 1);
    for (int k = 0; k < ROUNDS; k++) {
        add_number(engine, a, a, 1, false);
        check_vector(engine, a, (float)(ADDS + 2 + k));
    }
    if (!CHECK(driver_calls() - before < ADDS / 2)) /* the kernel may have left now and then */
        fprintf(stderr, "%llu calls\n", (unsigned long long)(driver_calls() - before));
    engine->ops->release(engine, a, BYTES);
    engine->ops->release(engine, b, BYTES);
    engine->ops->close(engine);
}

/* More timed operations than the kernel has stamps, before anybody asks for the times: each has its own. */
static void test_times_of_many(const void *argument)
{
    (void)argument;
    enum { ADDS = 3000 };
    gt_engine *engine = open_resident("always");
    if (!engine)
        return;
    void *a = filled(engine, 1);
    uint64_t last_ns = 0;
    unsigned seen = 0, lasted = 0;
    gt_completion completion = {0};
    gt_token last = 0;
    for (int k = 0; k < ADDS; k++)
        last = add_number(engine, a, a, 1, true);
    while (completion.token < last && CHECK(engine->ops->completed(engine, true, &completion))) {
        if (!completion.start_ns)
            continue;
        seen++;
        lasted += completion.end_ns > completion.start_ns;
        CHECK(completion.start_ns >= last_ns && completion.end_ns >= completion.start_ns);
        last_ns = completion.end_ns;
    }
    CHECK_EQ(seen, ADDS);
    CHECK(lasted > ADDS / 2); /* times that were overwritten by later ones leave none for those between */
    check_vector(engine, a, ADDS + 1);
    engine->ops->release(engine, a, BYTES);
    engine->ops->close(engine);
}

/* Operations on short rows are among those that it executes. */
static void test_resident_rows(const void *argument)
{
    static const struct {
        gt_opcode op;
        unsigned operands;
        bool weights; /* operands after the first are of a row; else only the third */
    } rows[] = {{GT_OP_softmax, 1, false},          {GT_OP_log_softmax, 1, false},
                {GT_OP_softmax_backward, 2, false}, {GT_OP_log_softmax_backward, 2, false},
                {GT_OP_layer_norm, 3, true},        {GT_OP_layer_norm_backward, 3, false}};
    enum { ROUNDS = 100 };
    (void)argument;
    gt_engine *engine = open_resident("always");
    if (!engine)
        return;
    void *a = filled(engine, 1), *b = take_memory(engine, BYTES);
    check_vector(engine, a, 1);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        gt_view row = vector_view(a, GT_FLOAT32, 32), whole = row, out;
        whole.meta.rank = 2;
        whole.meta.shape[0] = 4;
        whole.meta.shape[1] = whole.stride[0] = 32;
        whole.stride[1] = 1;
        whole.meta.numel = 4 * 32;
        out = whole;
        out.data = b;
        gt_instruction ins = {.op = (uint16_t)rows[k].op, .imm = {{.i = 1}, {.f = 1e-5}}};
        const gt_view *in[] = {&whole, rows[k].weights ? &row : &whole, &row};
        gt_call call = {.op = rows[k].op,
                        .compute = GT_FLOAT32,
                        .ins = &ins,
                        .operands = rows[k].operands,
                        .in = in,
                        .out = &out};
        uint64_t before = driver_calls();
        gt_token token = 0;
        for (int round = 0; round < ROUNDS; round++)
            CHECK_EQ(engine->ops->run(engine, &call, &token), GT_OK);
        wait_for(engine, token);
        if (!CHECK(driver_calls() - before < ROUNDS / 2))
            fprintf(stderr, "%s: %llu calls\n", gt__op_table[rows[k].op].name,
                    (unsigned long long)(driver_calls() - before));
    }
    engine->ops->release(engine, a, BYTES);
    engine->ops->release(engine, b, BYTES);
    engine->ops->close(engine);
}

static gt_token start_get(gt_engine *engine, const void *from, void *host, size_t bytes)
{
    gt_token token = 0;
    CHECK_EQ(engine->ops->read(engine, from, host, bytes, false, &token), GT_OK);
    return token;
}

/* Single numbers of every size come by a way of their own, one at a time; others that are asked for meanwhile do not. */
static void test_single_numbers(const void *argument)
{
    (void)argument;
    enum { ROUNDS = 50 };
    gt_engine *engine = open_resident("always");
    if (!engine)
        return;
    uint8_t *a = filled(engine, 1);
    for (int k = 0; k < ROUNDS; k++) {
        float expected[2] = {(float)(k + 2), (float)(k + 2)}, one[4] = {0}, many[3] = {0};
        uint8_t bytes[8];
        add_number(engine, a, a, 1, false);
        for (size_t size = 1; size <= 8; size *= 2) {
            memset(bytes, 0xee, sizeof bytes);
            get(engine, a + 8 * k, bytes, size);
            CHECK(memcmp(bytes, expected, size) == 0);
            CHECK(size == 8 || bytes[size] == 0xee);
        }
        memset(bytes, 0xee, sizeof bytes);
        get(engine, a + 1, bytes, 4); /* a card would fail if it read a word there */
        CHECK(memcmp(bytes, (const uint8_t *)expected + 1, 4) == 0);
        start_get(engine, a, &one[0], 4);
        start_get(engine, a + 12, &one[1], 4);
        start_get(engine, a + 4 * (size_t)k, many, 12);
        wait_for(engine, start_get(engine, a + 4, &one[2], 4));
        for (int j = 0; j < 3; j++)
            CHECK(one[j] == expected[0] && many[j] == expected[0]);
    }
    engine->ops->release(engine, a, BYTES);
    engine->ops->close(engine);
}

/* Runs of small operations until the kernel that stays executes them: it is compiled meanwhile. */
static bool wait_for_resident(gt_engine *engine, void *a)
{
    enum { ADDS = 200, LONGEST_S = 200 };
    float sum = 0;
    time_t end = time(NULL) + LONGEST_S;
    for (bool started = false; !started; sum += ADDS) {
        if (time(NULL) >= end)
            return false;
        uint64_t before = driver_calls();
        for (int k = 0; k < ADDS; k++)
            add_number(engine, a, a, 1, false);
        started = driver_calls() - before < ADDS / 2;
        check_vector(engine, a, sum + ADDS);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    return true;
}

/* Where it is used when it pays, a long run of small operations starts it, though the first of them were launched. Among large work it
 * soon stays away, though runs were long before. */
static void test_resident_when_it_pays(const void *argument)
{
    (void)argument;
    enum { LARGE = 6000, TURNS = 200 };
    gt_engine *engine = open_resident("1");
    if (!engine)
        return;
    void *a = filled(engine, 0), *large = take_memory(engine, LARGE * sizeof(float));
    CHECK(wait_for_resident(engine, a));
    uint64_t before = driver_calls();
    for (int turn = 0; turn < TURNS; turn++) {
        gt_token token = 0;
        vector_call c;
        gt_view view = vector_view(large, GT_FLOAT32, LARGE);
        add_number(engine, a, a, 1, false);
        add_number(engine, a, a, 1, false);
        vector_call_literal(&c, GT_OP_mul, view, view, 2);
        CHECK_EQ(engine->ops->run(engine, &c.call, &token), GT_OK);
    }
    CHECK(driver_calls() - before > 3 * TURNS - TURNS / 4);
    engine->ops->release(engine, a, BYTES);
    engine->ops->release(engine, large, LARGE * sizeof(float));
    engine->ops->close(engine);
}

/* Small and large work in one order, with pauses in which the kernel leaves by itself. */
static void test_resident_order(const void *argument)
{
    (void)argument;
    enum { LARGE = 6000, SMALL = 100, STEPS = 2000 };
    gt_engine *engine = open_resident("always");
    if (!engine)
        return;
    static float expected[LARGE], back[LARGE];
    float *memory = take_memory(engine, sizeof expected), *other = take_memory(engine, sizeof expected);
    uint64_t random = 4711;
    put(engine, memory, expected, sizeof expected);
    for (int step = 0; step < STEPS; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        unsigned what = (unsigned)(random >> 40) % 16, at = (unsigned)(random >> 44) % (LARGE - SMALL);
        gt_token token = 0;
        vector_call c;
        if (what == 0) { /* large: by a launch */
            gt_view view = vector_view(memory, GT_FLOAT32, LARGE);
            vector_call_literal(&c, GT_OP_add, view, view, 2);
            for (int k = 0; k < LARGE; k++)
                expected[k] += 2;
        } else {
            gt_view view = vector_view(memory + at, GT_FLOAT32, SMALL);
            vector_call_literal(&c, GT_OP_add, view, view, what);
            for (unsigned k = 0; k < SMALL; k++)
                expected[at + k] += (float)what;
        }
        c.call.timed = step % 97 == 0;
        CHECK_EQ(engine->ops->run(engine, &c.call, &token), GT_OK);
        if (what == 1) {
            float number = 1;
            put(engine, memory + at, &number, sizeof number);
            expected[at] = number;
        }
        if (what == 2) {
            float number;
            get(engine, memory + at, &number, sizeof number);
            CHECK(number == expected[at]);
        }
        if (what == 3) { /* memory changes hands in the same order */
            engine->ops->release(engine, other, sizeof expected);
            other = take_memory(engine, sizeof expected);
        }
        if (step % 100 == 0)
            nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
    }
    get(engine, memory, back, sizeof back);
    CHECK(memcmp(expected, back, sizeof back) == 0);
    engine->ops->release(engine, memory, sizeof expected);
    engine->ops->release(engine, other, sizeof expected);
    engine->ops->close(engine);
}

/* A call on the host: operands come down, some after a kernel has gathered them. */
static void test_resident_and_gathered(const void *argument)
{
    (void)argument;
    enum { COUNT = 8, APART = 40000, LARGE = COUNT * APART * 8 };
    gt_engine *engine = open_resident("always");
    if (!engine)
        return;
    float back[2 * COUNT];
    gt_token token = 0;
    vector_call c;
    char *memory = take_memory(engine, LARGE), *few = take_memory(engine, sizeof back);
    for (int k = 0; k < COUNT; k++) {
        float base[] = {(float)(k + 1), 0}, exponent[] = {2, 0};
        put(engine, memory + k * APART * 8, base, sizeof base);
        put(engine, few + 8 * k, exponent, sizeof exponent);
    }
    gt_view bases = vector_view(memory, GT_COMPLEX64, COUNT), exponents = vector_view(few, GT_COMPLEX64, COUNT);
    bases.stride[0] = APART;
    bases.contiguous = false;
    vector_call_set(&c, GT_OP_div, exponents, exponents, bases); /* the kernel of the card: 2 / (k + 1) */
    c.call.compute = GT_COMPLEX64;
    CHECK_EQ(engine->ops->run(engine, &c.call, &token), GT_OK);
    vector_call_set(&c, GT_OP_pow, exponents, exponents, bases); /* on the host */
    c.call.compute = GT_COMPLEX64;
    CHECK_EQ(engine->ops->run(engine, &c.call, &token), GT_OK);
    CHECK(engine->ops->host_calls(engine, GT_OP_pow) == 1);
    get(engine, few, back, sizeof back);
    for (int k = 0; k < COUNT; k++)
        CHECK(fabs(back[2 * k] - pow(2.0 / (k + 1), k + 1)) < 1e-4);
    engine->ops->release(engine, memory, LARGE);
    engine->ops->release(engine, few, sizeof back);
    engine->ops->close(engine);
}

/* Two workers in one process, each with a kernel. */
static void test_two_resident(const void *argument)
{
    (void)argument;
    enum { ADDS = 300 };
    gt_engine *engines[] = {open_resident("always"), open_resident("always")};
    void *memory[2];
    for (int k = 0; k < 2; k++) {
        if (!engines[k])
            return;
        memory[k] = filled(engines[k], (float)k);
    }
    for (int round = 0; round < ADDS; round++)
        for (int k = 0; k < 2; k++)
            add_number(engines[k], memory[k], memory[k], 1 + k, round % 50 == 7);
    for (int k = 0; k < 2; k++) {
        check_vector(engines[k], memory[k], (float)(k + ADDS * (1 + k)));
        engines[k]->ops->release(engines[k], memory[k], BYTES);
    }
    engines[0]->ops->close(engines[0]);
    engines[1]->ops->close(engines[1]);
}

/* The kernel's offsets have 32 bits: rows of a view that are further apart are summed by a launch. */
static void test_far_apart(const void *argument)
{
    (void)argument;
    const gt_cuda_device device = {.processors = 132};
    for (int64_t stride = 1000; stride <= 1100000; stride *= 1100) {
        gt_view in = {.data = (void *)4096, .stride = {stride}}, out = {.data = (void *)4096};
        CHECK(gt__meta_set(&in.meta, GT_INT8, 1, (int64_t[]){2000}) == GT_OK &&
              gt__meta_set(&out.meta, GT_INT64, 0, NULL) == GT_OK);
        out.contiguous = true;
        gt_instruction ins = {.op = GT_OP_sum, .dtype = GT_INT64};
        const gt_view *operand = &in;
        gt_call call = {
            .op = GT_OP_sum, .compute = GT_INT64, .ins = &ins, .operands = 1, .in = &operand, .out = &out};
        gt_cuda_work work = {0};
        gt_cuda_slot slot;
        if (!CHECK(gt__cuda_lower(&call, &device, &work) == GT_OK) || !CHECK_EQ(work.count, 1))
            return;
        CHECK_EQ(gt__cuda_resident_slot(&work.launch[0], &slot), stride == 1000);
    }
}

int main(int argc, char **argv)
{
    const gt_engine_ops *ops;
    check_begin(argc, argv);
    check_run("far apart", test_far_apart, NULL);
    if (gt__engine_find("cuda", &ops) != GT_OK) {
        printf("skipped: %s\n", gt_error_text());
        return check_end();
    }
    if (getenv("FAKE_CUDA_KERNELS")) {
        check_run("one call each", test_one_call_each, NULL);
        check_run("resident when it pays", test_resident_when_it_pays, NULL);
    }
    check_run("a resident chain", test_resident_chain, NULL);
    check_run("times of many", test_times_of_many, NULL);
    check_run("resident rows", test_resident_rows, NULL);
    check_run("single numbers", test_single_numbers, NULL);
    check_run("resident and launched work", test_resident_order, NULL);
    check_run("resident and gathered", test_resident_and_gathered, NULL);
    check_run("two resident kernels", test_two_resident, NULL);
    return check_end();
}

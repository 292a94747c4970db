/*
 * test_far.c: the far engine: the host cannot touch its memory, addresses of others are refused, and memory that is
 * released is given back.
 */
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"
#include "engine_calls.h"

/* Whether the host may read this byte: the system looks, so that nothing faults. */
static bool readable(const void *address)
{
    int ends[2];
    if (!CHECK(pipe(ends) == 0))
        return true;
    long written = syscall(SYS_write, ends[1], address, 1);
    bool fault = written < 0 && errno == EFAULT;
    close(ends[0]);
    close(ends[1]);
    return !fault;
}

static void test_out_of_reach(const void *argument)
{
    (void)argument;
    static const size_t sizes[] = {1, 64, 4096, 100000, 5 << 20};
    gt_engine *engine = open_engine("far");
    if (!engine)
        return;
    CHECK(!engine->ops->host_memory);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        char *memory = take_memory(engine, sizes[k]);
        CHECK((uintptr_t)memory % 64 == 0);
        CHECK(!readable(memory) && !readable(memory + sizes[k] - 1));
        engine->ops->release(engine, memory, sizes[k]);
    }
    CHECK(take_memory(engine, SIZE_MAX - 10) == NULL);
    CHECK(take_memory(engine, (size_t)1 << 60) == NULL);
    engine->ops->close(engine);
}

static void test_round_trip(const void *argument)
{
    (void)argument;
    enum { SIZE = 1000, BYTES = SIZE * (int)sizeof(float) };
    float host[SIZE], back[SIZE];
    vector_call c;
    gt_token token = 0;
    gt_engine *engine = open_engine("far");
    if (!engine)
        return;
    for (int k = 0; k < SIZE; k++)
        host[k] = (float)k;
    float *a = take_memory(engine, BYTES), *out = take_memory(engine, BYTES);
    CHECK_EQ(engine->ops->write(engine, a, host, BYTES, false, &token), GT_OK);
    gt_view backwards = vector_view(a + SIZE - 1, GT_FLOAT32, SIZE);
    backwards.stride[0] = -1;
    backwards.contiguous = false;
    vector_call_literal(&c, GT_OP_add, vector_view(out, GT_FLOAT32, SIZE), backwards, 0.5);
    CHECK_EQ(engine->ops->run(engine, &c.call, &token), GT_OK);
    CHECK_EQ(engine->ops->read(engine, out + 10, back, BYTES - 40, false, &token), GT_OK);
    CHECK_EQ(token, 0);
    CHECK(back[0] == SIZE - 11 + 0.5f && back[SIZE - 11] == 0.5f);

    /* Host memory is not the engine's. */
    CHECK_EQ(engine->ops->write(engine, back, host, BYTES, false, &token), GT_ERR_INTERNAL);
    CHECK_EQ(engine->ops->read(engine, host, back, BYTES, false, &token), GT_ERR_INTERNAL);
    c.in[0].data = host;
    CHECK_EQ(engine->ops->run(engine, &c.call, &token), GT_ERR_INTERNAL);
    CHECK(strstr(gt_error_text(), "not an address of the far engine") != NULL);
    engine->ops->release(engine, a, BYTES);
    engine->ops->release(engine, out, BYTES);
    engine->ops->close(engine);
}

static long resident_bytes(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!CHECK(file != NULL))
        return 0;
    CHECK_EQ(fscanf(file, "%*d %ld", &pages), 1);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

/* 40 times 16 MiB, written, one after another and of different sizes: what stays is less than two of them. */
static void test_memory_is_given_back(const void *argument)
{
    (void)argument;
    enum { LARGE = 16 << 20 };
    gt_engine *engine = open_engine("far");
    char *host = calloc(1, LARGE);
    gt_token token = 0;
    if (!engine || !CHECK(host != NULL))
        return;
    memset(host, 1, LARGE);
    long before = resident_bytes();
    for (size_t k = 0; k < 40; k++) {
        size_t bytes = LARGE - k % 5 * 100000;
        void *memory = take_memory(engine, bytes), *other = take_memory(engine, bytes);
        CHECK(memory && other && memory != other);
        CHECK_EQ(engine->ops->write(engine, memory, host, bytes, false, &token), GT_OK);
        engine->ops->release(engine, memory, bytes);
        engine->ops->release(engine, other, bytes);
    }
    CHECK(resident_bytes() - before < 2 * LARGE || CHECK_SANITIZED);
    free(host);
    engine->ops->close(engine);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("out of reach", test_out_of_reach, NULL);
    check_run("round trip", test_round_trip, NULL);
    check_run("memory is given back", test_memory_is_given_back, NULL);
    return check_end();
}

/*
 * test_link_memory.c: what only links through shared memory have: segments of bulk data, rings without room. Read test_link.c
 * first.
 */
#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "link_ends.h"
#include "link/memory.h"

/* ---- segments ------------------------------------------------------------------------------------------------ */

static void test_segments(const void *argument)
{
    ends e;
    gt_segment *mine, *other;
    if (!ends_open(&e, argument) || !CHECK_EQ(gt__segment_new(100000, &mine), GT_OK))
        return;
    CHECK(mine->bytes >= 100000);
    CHECK(!e.server->ops->segment(e.server, mine->id));
    CHECK_EQ(e.client->ops->share(e.client, mine), GT_OK);
    CHECK_EQ(e.client->ops->share(e.client, mine), GT_OK); /* once is enough */
    for (uint64_t turn = 0; turn < 10; turn++) {
        CHECK_EQ(atomic_load(mine->busy), 0);
        memset(mine->data, (int)turn + 1, 100000);
        atomic_store(mine->busy, 1);
        CHECK(send_record(e.client, turn));
        CHECK(read_record(e.server, turn));
        other = e.server->ops->segment(e.server, mine->id);
        if (!CHECK(other))
            break;
        gt__segment_hold(other, true); /* in the first turn it is not mapped */
        if (!CHECK_EQ(gt__segment_map(other), GT_OK))
            break;
        CHECK(other->bytes == mine->bytes && other->data[0] == turn + 1 && other->data[99999] == turn + 1);
        CHECK(other->data == mine->data); /* one process: one mapping */
        gt__segment_done(other);
        CHECK(gt__segment_busy(mine));
        gt__segment_hold(other, false);
        CHECK(!gt__segment_busy(mine));
    }
    other = gt__segment_retain(e.server->ops->segment(e.server, mine->id));
    e.server->ops->forget(e.server, mine->id);
    CHECK(!e.server->ops->segment(e.server, mine->id));
    gt__segment_release(mine);
    CHECK_EQ(other->data[1], 10); /* lives as long as its last user */
    gt__segment_release(other);
    /* Memory that could shrink under the reader is refused, and so is its sender. */
    gt_segment bad = {.id = 77, .fd = memfd_create("bad", MFD_CLOEXEC)};
    CHECK(!ftruncate(bad.fd, 65536));
    CHECK_EQ(e.client->ops->share(e.client, &bad), GT_OK);
    CHECK(!e.server->ops->segment(e.server, 77));
    CHECK(e.server->dead && strstr(e.server->reason, "protocol error"));
    close(bad.fd);
    ends_close(&e);
}

/* A peer that never takes its descriptors stops the sender, which learns of it. */
static void test_segments_flow(const void *argument)
{
    ends e;
    gt_segment *mine;
    if (!ends_open(&e, argument) || !CHECK_EQ(gt__segment_new(100, &mine), GT_OK))
        return;
    gt_err err = GT_OK;
    uint64_t id = mine->id;
    for (int n = 0; n < 100000 && err == GT_OK; n++) {
        mine->id = id + (uint64_t)n % 500;
        e.client->ops->forget(e.client, mine->id);
        err = e.client->ops->share(e.client, mine);
    }
    CHECK_EQ(err, GT_ERR_TIMEOUT);
    CHECK(e.server->ops->segment(e.server, id));
    CHECK_EQ(e.client->ops->share(e.client, mine), GT_OK);
    CHECK(!e.server->dead && !e.client->dead);
    gt__segment_release(mine);
    ends_close(&e);
}

/* The peer takes a number of segments and no more: who shares too many is told, and the link lives on. */
static void test_segments_many(const void *argument)
{
    (void)argument;
    enum { ABSURD = 1 << 16 };
    gt_link *a, *b;
    uint64_t id = 0;
    gt_err err = GT_OK;
    if (!CHECK_EQ(gt__link_memory_pair(&a, &b), GT_OK))
        return;
    while (err == GT_OK && id < ABSURD) {
        gt_segment lost = {.id = ++id, .fd = -1}; /* without a descriptor: as many as we like */
        while ((err = a->ops->share(a, &lost)) == GT_ERR_TIMEOUT)
            CHECK(!b->ops->segment(b, UINT64_MAX)); /* takes what has come */
    }
    CHECK_EQ(err, GT_ERR_MEMORY);
    CHECK(!b->ops->segment(b, UINT64_MAX));
    CHECK(!b->gone && !a->gone);
    a->ops->forget(a, 1);
    b->ops->forget(b, 1);
    CHECK_EQ(a->ops->share(a, &(gt_segment){.id = id, .fd = -1}), GT_OK);
    CHECK(b->ops->segment(b, id));
    gt__link_close(a);
    gt__link_close(b);
}

/* A process that may have no more descriptors loses the one that comes, and not the link. */
static void test_segment_lost(const void *argument)
{
    ends e;
    gt_segment *mine, *theirs;
    struct rlimit before, none;
    if (!ends_open(&e, argument) || !CHECK_EQ(gt__segment_new(100, &mine), GT_OK))
        return;
    CHECK_EQ(e.client->ops->share(e.client, mine), GT_OK);
    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    none.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &none);
    theirs = e.server->ops->segment(e.server, mine->id);
    setrlimit(RLIMIT_NOFILE, &before);
    if (CHECK(theirs)) {
        CHECK_EQ(gt__segment_map(theirs), GT_ERR_MEMORY);
        CHECK(strstr(gt_error_text(), "too many open files"));
    }
    /* The next one is as good as ever, and the lost one can be passed on as lost. */
    e.client->ops->forget(e.client, mine->id);
    CHECK_EQ(e.client->ops->share(e.client, mine), GT_OK);
    CHECK_EQ(e.server->ops->share(e.server, theirs), GT_OK);
    gt_segment *passed = e.client->ops->segment(e.client, theirs->id);
    CHECK(passed && gt__segment_map(passed) == GT_ERR_MEMORY);
    send_record(e.client, 1);
    CHECK(gt__link_wait(e.server, GT_WAIT_READ, PATIENCE_MS) == GT_OK && read_record(e.server, 1));
    e.server->ops->forget(e.server, mine->id);
    theirs = e.server->ops->segment(e.server, mine->id);
    CHECK(theirs && gt__segment_map(theirs) == GT_OK);
    CHECK(!e.server->dead && !e.client->dead);
    gt__segment_release(mine);
    ends_close(&e);
}

/* KiB of shared memory that this process has touched. */
static long shared_kib(void)
{
    char line[128];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "RssShmem: %ld", &kib) == 1)
            break;
    if (status)
        fclose(status);
    return kib;
}

/* A lean link gives the memory of what was read back, in both directions; its records are the same. */
static void test_lean(const void *argument)
{
    enum { RECORDS = 20000, FULL_KIB = 1024, LEAN_KIB = 256, BATCH = 100 };
    for (int lean = 0; lean < 2; lean++) {
        ends e;
        if (!ends_open(&e, argument))
            return;
        long before = shared_kib();
        e.server->lean = lean;
        bool right = true;
        for (uint64_t k = 0; k < RECORDS && right; k += BATCH) {
            for (uint64_t number = k; number < k + BATCH; number++)
                right &= write_record(e.client, number) && write_record(e.server, number);
            gt__link_flush(e.client);
            gt__link_flush(e.server);
            for (uint64_t number = k; number < k + BATCH; number++)
                right &= read_record(e.client, number) && read_record(e.server, number);
        }
        CHECK(right);
        long touched = shared_kib() - before; /* of a pair both ends are in this process, and share the mapping */
        if (!CHECK(lean ? touched <= LEAN_KIB : touched >= FULL_KIB))
            fprintf(stderr, "  lean %d: %ld KiB\n", lean, touched);
        ends_close(&e);
    }
}

/* A reader that lags behind a writer on its own processor moves to another, and may run anywhere again afterwards. */
static void test_crowded(const void *argument)
{
    ends e;
    cpu_set_t before, after;
    if (!ends_open(&e, argument) || !CHECK(!sched_getaffinity(0, sizeof before, &before)))
        return;
    bool moved = CPU_COUNT(&before) == 1;
    for (int turn = 0; turn < 1000 && !moved; turn++) {
        size_t available;
        int writer = sched_getcpu();
        for (gt_slot *space; (space = gt__link_reserve(e.client, 1)); gt__link_commit(e.client, 1))
            space->ins = (gt_instruction){.op = GT_OP_add};
        gt__link_flush(e.client);
        while (gt__link_peek(e.server, &available)) {
            moved |= sched_getcpu() != writer;
            gt__link_consume(e.server, available);
        }
    }
    CHECK(moved);
    CHECK(!sched_getaffinity(0, sizeof after, &after));
    CHECK(CPU_EQUAL(&before, &after));
    ends_close(&e);
}

/* ---- all of them -------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    static const link_test tests[] = {
        {.name = "segments", .run = test_segments, .which = RINGS},
        {.name = "segment flow", .run = test_segments_flow, .which = RINGS},
        {.name = "many segments", .run = test_segments_many, .which = PAIR},
        {.name = "segment lost", .run = test_segment_lost, .which = RINGS},
        {.name = "lean", .run = test_lean, .which = RINGS},
        {.name = "crowded", .run = test_crowded, .which = RINGS},
    };
    check_begin(argc, argv);
    run_link_tests(tests, sizeof tests / sizeof *tests);
    return check_end();
}

/*
 * test_hotpath_programs.c: random programs with hot paths. Expanded, the stream is the one that the client would have sent without them; and
 * what is sent as paths is the same however fast the server reads, also if the link is full.
 */
#include <pthread.h>

#include "hotpath_fixture.h"
#include "random_numbers.h"

/* ---- programs ----------------------------------------------------------------------------------------------- */

enum { TENSORS = 12, MOST_BODY = 40 };

typedef struct body {
    struct {
        unsigned op, a, b, to;
    } step[MOST_BODY];
    unsigned steps;
} body;

/* a + the sum of so many ones */
static gt_err add_sum(gt_tensor *a, int64_t rows, gt_tensor **out)
{
    gt_tensor *ones, *sum;
    CHECK_EQ(gt_full(a->client, GT_FLOAT32, 1, &rows, 1, &ones), GT_OK);
    CHECK_EQ(gt_sum(ones, 0, false, &sum), GT_OK);
    gt_tensor_release(ones);
    gt_err err = gt_add(a, sum, out);
    gt_tensor_release(sum);
    return err;
}

static void run_step(const body *it, unsigned k, gt_tensor **t, double number, int64_t rows)
{
    unsigned a = it->step[k].a, b = it->step[k].b, to = it->step[k].to;
    gt_tensor *out = NULL;
    gt_err err = GT_OK;
    switch (it->step[k].op) {
    case 0:
        err = gt_add(t[a], t[b], &out);
        break;
    case 1:
        err = gt_mul_scalar(t[a], number, &out);
        break;
    case 2:
        err = gt_neg(t[a], &out);
        break;
    case 3:
        err = gt_sub(t[a], t[a], &out);
        break;
    case 4:
        err = add_sum(t[a], rows, &out);
        break;
    default:
        err = gt_mul(t[b], t[a], &out);
        break;
    }
    CHECK_EQ(err, GT_OK);
    gt_tensor_release(t[to]);
    t[to] = out;
}

static body any_body(numbers *n)
{
    body b = {.steps = 2 + (unsigned)numbers_below(n, MOST_BODY - 2)};
    for (unsigned k = 0; k < b.steps; k++) {
        b.step[k].op = (unsigned)numbers_below(n, 6);
        b.step[k].a = (unsigned)numbers_below(n, TENSORS);
        b.step[k].b = (unsigned)numbers_below(n, TENSORS);
        b.step[k].to = (unsigned)numbers_below(n, TENSORS);
    }
    return b;
}

/* Loops, some of which leave early, exchange tensors, have another shape, or are interrupted by a flush. regions: the program marks them. */
static void run_program(gt_client *client, uint64_t seed, unsigned loops, bool regions)
{
    numbers n = {seed};
    gt_tensor *t[TENSORS];
    body bodies[3];
    for (unsigned k = 0; k < TENSORS; k++)
        CHECK_EQ(gt_full(client, GT_FLOAT32, 1, (int64_t[]){4}, k, &t[k]), GT_OK);
    for (unsigned k = 0; k < 3; k++)
        bodies[k] = any_body(&n);
    for (unsigned loop = 0; loop < loops; loop++) {
        uint64_t which = numbers_below(&n, 3);
        const body *b = &bodies[which];
        for (uint64_t turns = 1 + numbers_below(&n, 12); turns; turns--) {
            uint64_t detour = numbers_below(&n, 16);
            unsigned steps = detour == 0 ? (unsigned)numbers_below(&n, b->steps) : b->steps;
            if (regions && detour != 3)
                gt__hotpath_enter(client, which);
            for (unsigned k = 0; k < steps; k++) {
                run_step(b, k, t, (double)turns, detour == 6 ? 3 : 8);
                if (detour == 4 && k == steps / 2)
                    gt__client_flush(client);
            }
            if (detour == 5)
                gt__client_flush(client);
            if (regions && detour != 3)
                gt__hotpath_leave(client);
            if (detour == 1)
                gt__client_flush(client);
            if (detour == 2) { /* two names of one tensor */
                unsigned from = (unsigned)numbers_below(&n, TENSORS), to = (unsigned)numbers_below(&n, TENSORS);
                gt_tensor *old = t[to];
                t[to] = gt_tensor_retain(t[from]);
                gt_tensor_release(old);
            }
        }
    }
    for (unsigned k = 0; k < TENSORS; k++)
        gt_tensor_release(t[k]);
    gt__client_flush(client);
}

enum { BRANCHES = 6, PARTS = BRANCHES + 2 };

/* A call of a function that the program may mark: a part, one of several branches, and another part. It may wait, return early, have other
 * shapes, or call a function that is marked as well. */
static void run_call(gt_client *client, numbers *n, const body *part, gt_tensor **t, bool marked)
{
    uint64_t branch = numbers_below(n, 2) ? 0 : numbers_below(n, BRANCHES), detour = numbers_below(n, 24);
    uint64_t shapes = numbers_below(n, 3), inner = numbers_below(n, 4), number = numbers_below(n, 5);
    const unsigned called[3] = {0, 1 + (unsigned)branch, PARTS - 1};
    for (unsigned k = 0; k < 3; k++) {
        const body *it = &part[called[k]];
        unsigned steps = detour == 3 + k ? it->steps / 2 : it->steps;
        if (marked && k && inner == k)
            gt__hotpath_enter(client, 100 + branch);
        for (unsigned step = 0; step < steps; step++)
            run_step(it, step, t, (double)number, (int64_t)(shapes ? 8 : branch == 2 ? numbers_below(n, 100) : 3));
        if (detour < 3 && detour == k)
            upload_and_free(client);
        if (detour == 6 + k || detour == 9)
            gt__client_flush(client);
        if (marked && k && inner == k)
            gt__hotpath_leave(client);
        if (detour == 3 + k)
            return;
    }
}

/* Calls of functions, each of which takes a branch that is drawn by lot. */
static void run_calls(gt_client *client, uint64_t seed, unsigned calls, bool marked)
{
    enum { FUNCTIONS = 2 };
    numbers n = {seed};
    gt_tensor *t[TENSORS], *own;
    body part[FUNCTIONS][PARTS];
    for (unsigned k = 0; k < TENSORS; k++)
        CHECK_EQ(gt_full(client, GT_FLOAT32, 1, (int64_t[]){4}, k, &t[k]), GT_OK);
    for (unsigned k = 0; k < FUNCTIONS * PARTS; k++)
        part[k / PARTS][k % PARTS] = any_body(&n);
    for (unsigned call = 0; call < 10 * calls; call++) {
        uint64_t which = numbers_below(&n, FUNCTIONS);
        if (marked)
            gt__hotpath_enter(client, which);
        run_call(client, &n, part[which], t, marked);
        CHECK_EQ(gt_neg(t[0], &own), GT_OK);
        gt_tensor_release(own);
        if (marked)
            gt__hotpath_leave(client);
        if (numbers_below(&n, 8) == 0) /* something else */
            run_step(&part[0][0], 0, t, 1, 8);
    }
    for (unsigned k = 0; k < TENSORS; k++)
        gt_tensor_release(t[k]);
    gt__client_flush(client);
}

/* A short loop, and something else after every so many turns: a path runs most of the time, and not always what it expects comes next. */
static void run_epochs(gt_client *client, uint64_t seed, unsigned epochs, bool marked)
{
    numbers n = {seed};
    gt_tensor *x, *h, *next;
    const uint64_t turns = 20 + numbers_below(&n, 20);
    CHECK_EQ(gt_full(client, GT_FLOAT32, 1, (int64_t[]){4}, 1, &x), GT_OK);
    CHECK_EQ(gt_neg(x, &h), GT_OK);
    for (unsigned epoch = 0; epoch < epochs; epoch++) {
        for (uint64_t turn = 0; turn < turns; turn++) {
            if (marked)
                CHECK_EQ(gt__hotpath_enter(client, 1), GT_OK);
            CHECK_EQ(gt_mul_scalar(h, 0.5, &next), GT_OK);
            gt_tensor_release(h);
            CHECK_EQ(gt_add(next, x, &h), GT_OK);
            gt_tensor_release(next);
            if (marked)
                CHECK_EQ(gt__hotpath_leave(client), GT_OK);
        }
        CHECK_EQ(gt_sum(h, 0, false, &next), GT_OK);
        gt_tensor_release(next);
        if (numbers_below(&n, 50) == 0)
            upload_and_free(client);
    }
    gt_tensor_release(x);
    gt_tensor_release(h);
    gt__client_flush(client);
}

/* How the server reads. */
typedef enum pace { FAST, SLOW, TRICKLE, PACES } pace;

typedef struct program {
    void (*run)(gt_client *client, uint64_t seed, unsigned loops, bool marked);
    pace pace;
} program;

/* Run it while the server's side reads; *o gets what it has read. */
static gt_hotpath_stats run_with_reader(const program *it, uint64_t seed, unsigned loops, unsigned mode,
                                        observed *o)
{
    gt_link *ours, *theirs;
    pthread_t thread;
    CHECK_EQ(gt__link_memory_pair(&ours, &theirs), GT_OK);
    gt_client *client = client_of(ours, mode & 1);
    *o = observed_new(theirs);
    o->waits_for = it->pace == FAST ? NULL : client;
    o->trickles = it->pace == TRICKLE;
    pthread_create(&thread, NULL, read_all, o);
    it->run(client, seed, loops, mode & 2);
    gt_hotpath_stats stats = gt__hotpath_stats(client);
    while (client->draining || client->free_count) { /* the link is full */
        gt_slot *room;
        CHECK_EQ(gt__client_reserve(client, 512, &room), GT_OK);
        gt__client_flush(client);
    }
    atomic_store(&o->stop, true);
    pthread_join(thread, NULL);
    gt_client_close(&client);
    while (read_link(o))
        continue;
    stats.bytes_saved = 0; /* frees that had to wait go with the runs */
    return stats;
}

/* The same program without hot paths, with those that the client finds, with those that the program marks, and with both. */
static void test_programs(const void *argument)
{
    const program *it = argument;
    bool slow = it->pace != FAST;
    unsigned programs = slow ? 2 : CHECK_SANITIZED ? 10 : 40, loops = slow ? 1500 : 60;
    uint64_t runs[4] = {0};
    for (uint64_t seed = 1; seed <= programs; seed++) {
        uint64_t hashes[4], records[4];
        for (unsigned mode = 0; mode < 4; mode++) {
            observed o;
            run_with_reader(it, seed, loops, mode, &o);
            CHECK(o.said_goodbye);
            CHECK_EQ(o.alive, 0);
            hashes[mode] = o.hash;
            records[mode] = o.records;
            runs[mode] += o.runs;
            observed_free(&o);
            if (!CHECK(hashes[0] == hashes[mode] && records[0] == records[mode]))
                fprintf(stderr, "  seed %d, mode %u\n", (int)seed, mode);
        }
    }
    CHECK(runs[0] == 0 && runs[1] > 0 && runs[2] > 0 && runs[3] > 0);
}

typedef struct paced {
    void (*run)(gt_client *client, uint64_t seed, unsigned loops, bool marked);
    uint64_t seed;
    unsigned loops;
} paced;

/* What runs as a path, and so how sums are rounded, is the same however fast the server reads. */
static void test_paces(const void *argument)
{
    const paced *it = argument;
    unsigned loops = CHECK_SANITIZED ? it->loops / 10 : it->loops;
    for (unsigned mode = 1; mode < 4; mode++) {
        gt_hotpath_stats stats[PACES];
        uint64_t sent[PACES];
        for (unsigned k = FAST; k < PACES; k++) {
            observed o;
            stats[k] = run_with_reader(&(program){it->run, (pace)k}, it->seed, loops, mode, &o);
            sent[k] = o.sent;
            observed_free(&o);
            if (!CHECK(stats[0].runs && sent[k] == sent[0] && !memcmp(&stats[k], &stats[0], sizeof *stats)))
                fprintf(stderr, "  mode %u, pace %u\n", mode, k);
        }
    }
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("programs", test_programs, &(program){run_program, FAST});
    check_run("programs on a slow link", test_programs, &(program){run_program, SLOW});
    check_run("calls with branches", test_programs, &(program){run_calls, FAST});
    check_run("calls with branches on a slow link", test_programs, &(program){run_calls, SLOW});
    check_run("epochs at any pace", test_paces, &(paced){run_epochs, 1, 4000});
    check_run("loops at any pace", test_paces, &(paced){run_program, 3, 800});
    check_run("calls at any pace", test_paces, &(paced){run_calls, 1, 150});
    return check_end();
}

/*
 * test_hotpath.c: templates, and what a client does with the records that it holds back: regions and their branches, other lives,
 * frees, a full or lost link, interrupts, fork. test_hotpath_programs.c has random programs.
 */
#include <pthread.h>

#include "client/hotpath_state.h"
#include "client/hotpath_template.h"
#include "hotpath_fixture.h"
#include "random_numbers.h"

/* ---- templates ---------------------------------------------------------------------------------------------- */

/* first + 0 = a op b; first + 1 = first + c. */
static void write_two(gt_slot *records, uint64_t first, uint64_t a, uint64_t b, uint64_t c)
{
    memset(records, 0, 2 * sizeof *records);
    records[0].ins = (gt_instruction){.op = GT_OP_add, .result = first, .operand = {a, b}};
    records[1].ins = (gt_instruction){.op = GT_OP_sub, .result = first + 1, .operand = {first, c}};
}

static gt_template *template_of(const gt_slot *records, const uint64_t *freed, size_t count)
{
    return gt__template_new(&(gt_template_source){.records = records,
                                                  .slots = 2,
                                                  .count = 2,
                                                  .live = (uint32_t[]){0, 0},
                                                  .freed = freed,
                                                  .freed_count = count});
}

static bool fits(gt_template *t, uint64_t *cell, const gt_slot *records)
{
    uint32_t fitted;
    return gt__template_fits(t, cell, records, 2, &fitted) && fitted == 2;
}

static void test_templates(const void *argument)
{
    (void)argument;
    static uint64_t cell[GT_CELLS];
    gt_slot records[2];
    write_two(records, 10, 1, 2, 3);
    gt_template *t = template_of(records, (uint64_t[]){10, 1}, 2);
    write_two(records, 20, 11, 3, 2);
    CHECK(fits(t, cell, records));
    CHECK(!gt__template_ends(t, cell, (uint64_t[]){5, 20}, 2)); /* 11 is still alive */
    CHECK(gt__template_ends(t, cell, (uint64_t[]){5, 20, 11}, 3));
    CHECK(t->others == 1 && t->other[0] == 0); /* 5 is something else */
    write_two(records, 30, 21, 3, 2);
    CHECK(fits(t, cell, records));
    CHECK(gt__template_ends(t, cell, (uint64_t[]){15, 30, 21}, 3) && t->others == 1); /* the same again */
    CHECK(!gt__template_ends(t, cell, (uint64_t[]){15, 30}, 2));
    CHECK(gt__template_ends(t, cell, (uint64_t[]){21, 30}, 2) && t->others == 0);
    write_two(records, 30, 11, 11, 12); /* one tensor as two inputs, which dies as one of them */
    CHECK(fits(t, cell, records));
    CHECK(!gt__template_ends(t, cell, (uint64_t[]){11, 30}, 2));
    write_two(records, 30, 11, 12, 12); /* as two that live on */
    CHECK(fits(t, cell, records) && gt__template_ends(t, cell, (uint64_t[]){30, 11}, 2) && t->others == 0);
    write_two(records, 40, 11, 40, 12); /* an input that the run makes itself */
    CHECK(!fits(t, cell, records));
    write_two(records, 40, 11, 12, 12);
    records[1].ins.op = GT_OP_mul;
    CHECK(!fits(t, cell, records));
    gt__template_free(t);
}

/* Literals that differ become parameters, whose values are words of the run after the inputs; other differences do not. */
static void test_parameters(const void *argument)
{
    (void)argument;
    static uint64_t cell[GT_CELLS];
    gt_slot records[2];
    uint32_t fitted;
    write_two(records, 10, 1, 2, 3);
    records[1].ins.literals = GT_LITERAL_FLOAT << 2;
    gt_template *t = template_of(records, NULL, 0);
    CHECK(t->inputs == 2 && t->parameter_count == 0);
    t->number = 7;
    write_two(records, 20, 11, 3, 4);
    records[1].ins.literals = GT_LITERAL_FLOAT << 2;
    records[1].ins.site = 1;
    CHECK(!gt__template_fits(t, cell, records, 2, &fitted) && t->parameter_count == 0 && t->number == 7);
    records[1].ins.site = 0;
    CHECK(gt__template_fits(t, cell, records, 2, &fitted) && t->parameter_count == 1 && t->number == 0);
    CHECK(cell[GT_CELL_FIRST] == 20 && cell[GT_CELL_WORDS] == 11 && cell[GT_CELL_WORDS + 1] == 3);
    CHECK_EQ(cell[GT_CELL_WORDS + 2], 4);
    gt__template_free(t);
}

/* ---- a client ---------------------------------------------------------------------------------------------- */

/* A region that is called again and again: a path from its third call on, whose own values are dead when it is left. */
static void test_region(const void *argument)
{
    (void)argument;
    enum { CALLS = 50 };
    gt_link *ours, *theirs;
    gt_tensor *x, *own, *result = NULL;
    CHECK_EQ(gt__link_memory_pair(&ours, &theirs), GT_OK);
    gt_client *client = client_of(ours, false);
    observed o = observed_new(theirs);
    CHECK_EQ(gt_full(client, GT_FLOAT32, 1, (int64_t[]){4}, 1, &x), GT_OK);
    for (int call = 0; call < CALLS; call++) {
        gt_tensor_release(result);
        gt__hotpath_enter(client, 1);
        CHECK_EQ(gt_mul_scalar(x, call, &own), GT_OK);
        CHECK_EQ(gt_neg(own, &result), GT_OK);
        gt_tensor_release(own); /* after the last record */
        gt__hotpath_leave(client);
    }
    gt__hotpath_leave(client);                           /* one too many has no effect */
    for (uint64_t region = 2; region < 1000; region++) { /* empty ones, of which only some are kept */
        gt__hotpath_enter(client, region);
        gt__hotpath_leave(client);
    }
    CHECK_EQ(gt__hotpath_stats(client).runs, CALLS - 2);
    CHECK_EQ(gt__hotpath_stats(client).hot_sequences, 1);
    CHECK_EQ(gt__hotpath_stats(client).misses, 0);
    gt__client_flush(client);
    while (read_link(&o))
        continue;
    CHECK_EQ(o.records, 1 + 2 * CALLS);
    CHECK_EQ(o.alive, 2);
    for (unsigned k = 0; k < GT_PATHS; k++)
        if (o.path[k])
            CHECK_EQ(o.path[k]->outputs, 1);
    gt_tensor_release(x);
    gt_tensor_release(result);
    gt_client_close(&client);
    observed_free(&o);
}

static bool always(void)
{
    return true;
}

/* Turns of a loop of two instructions, until so many paths were sent, or there is no room. before_frees: the next turn begins before the last
 * values of the last path are freed. */
static bool turn_around(gt_client *client, gt_tensor **h, uint64_t runs, bool before_frees)
{
    gt_tensor *own, *next, *first;
    while (gt__hotpath_stats(client).runs < runs) {
        if (gt_neg(*h, &own) != GT_OK)
            return false;
        gt_err err = gt_abs(own, &next);
        if (err == GT_OK && before_frees && client->finish_at) {
            CHECK_EQ(gt_neg(next, &first), GT_OK);
            gt_tensor_release(first);
            before_frees = false;
            runs = 0;
        }
        gt_tensor_release(own);
        if (err != GT_OK)
            return false;
        gt_tensor_release(*h);
        *h = next;
    }
    return true;
}

/* A record waits for room, and then begins a path: frees that came meanwhile find room only then, and have to wait for its end. */
static void test_frees_behind_a_record(const void *argument)
{
    (void)argument;
    enum { KEPT = 40 };
    uint64_t full = 0;
    gt__wait_hooks.interrupted = always;
    for (int again = 0; again < 2; again++) {
        gt_link *ours, *theirs;
        gt_tensor *h, *kept[KEPT];
        CHECK_EQ(gt__link_memory_pair(&ours, &theirs), GT_OK);
        gt_client *client = client_of(ours, true);
        observed o = observed_new(theirs);
        for (int k = 0; k < KEPT; k++)
            CHECK_EQ(gt_full(client, GT_FLOAT32, 1, (int64_t[]){4 + k}, k, &kept[k]), GT_OK);
        CHECK_EQ(gt_full(client, GT_FLOAT32, 1, (int64_t[]){4}, 1, &h), GT_OK);
        CHECK_EQ(turn_around(client, &h, full ? full : UINT64_MAX, false), again);
        if (again) {
            CHECK(turn_around(client, &h, UINT64_MAX, true));
            CHECK(client->draining && client->hotpath->fresh.slots);
            for (int k = 0; k < KEPT / 2; k++)
                gt_tensor_release(kept[k]);
            while (read_link(&o))
                continue;
            for (int k = KEPT / 2; k < KEPT; k++)
                gt_tensor_release(kept[k]);
            while (read_link(&o))
                continue;
            turn_around(client, &h, gt__hotpath_stats(client).runs + 3, false);
            gt_tensor_release(h);
            gt__client_flush(client);
            while (read_link(&o))
                continue;
            CHECK_EQ(o.alive, 0);
        }
        full = gt__hotpath_stats(client).runs - 1;
        gt_client_close(&client);
        for (int k = 0; k < KEPT && !again; k++)
            gt_tensor_release(kept[k]);
        if (!again)
            gt_tensor_release(h);
        observed_free(&o);
    }
    gt__wait_hooks.interrupted = NULL;
}

/* More frees wait than a run has words: it is sent with as many as it has, and the others go after it. */
static void test_frees_beside_a_run(const void *argument)
{
    (void)argument;
    enum { KEPT = 3 * GT_PATH_WORDS, CALLS = 10 };
    gt_link *ours, *theirs;
    gt_tensor *x, *own, *result;
    static gt_tensor *kept[KEPT];
    CHECK_EQ(gt__link_memory_pair(&ours, &theirs), GT_OK);
    gt_client *client = client_of(ours, false);
    observed o = observed_new(theirs);
    CHECK_EQ(gt_full(client, GT_FLOAT32, 1, (int64_t[]){4}, 1, &x), GT_OK);
    for (int k = 0; k < KEPT; k++) {
        CHECK_EQ(gt_neg(x, &kept[k]), GT_OK);
        read_link(&o);
    }
    for (int call = 0; call < CALLS; call++) {
        CHECK_EQ(gt__hotpath_enter(client, 1), GT_OK);
        CHECK_EQ(gt_neg(x, &own), GT_OK);
        for (int k = 0; k < KEPT && call == CALLS / 2; k++)
            gt_tensor_release(kept[k]);
        CHECK_EQ(gt_abs(own, &result), GT_OK);
        gt_tensor_release(own);
        gt_tensor_release(result);
        CHECK_EQ(gt__hotpath_leave(client), GT_OK);
        read_link(&o);
    }
    CHECK_EQ(gt__hotpath_stats(client).runs, CALLS - 2);
    gt_tensor_release(x);
    gt__client_flush(client);
    while (read_link(&o))
        continue;
    CHECK_EQ(o.alive, 0);
    gt_client_close(&client);
    observed_free(&o);
}

/* A call of a function of two records. `left` gets what leaving it says. */
static gt_err call_of_two(gt_client *client, gt_tensor *x, gt_err *left)
{
    gt_tensor *own = NULL, *result = NULL;
    *left = GT_OK;
    GT_TRY(gt__hotpath_enter(client, 1));
    gt_err err = gt_neg(x, &own);
    err = err == GT_OK ? gt_abs(own, &result) : err;
    gt_tensor_release(own);
    gt_tensor_release(result);
    *left = gt__hotpath_leave(client);
    return err;
}

/* Calls of a region until the link is full: the run of one has to wait for room when it is left, and that is interrupted. So is the wait when
 * the next one is entered, which then is not. With a reader all goes on, and nothing is lost. */
static void test_interrupted_region(const void *argument)
{
    (void)argument;
    gt_link *ours, *theirs;
    gt_tensor *x, *other;
    gt_err left = GT_OK;
    pthread_t thread;
    CHECK_EQ(gt__link_memory_pair(&ours, &theirs), GT_OK);
    gt_client *client = client_of(ours, false);
    observed o = observed_new(theirs);
    CHECK_EQ(gt_full(client, GT_FLOAT32, 1, (int64_t[]){4}, 1, &x), GT_OK);
    gt__wait_hooks.interrupted = always;
    uint64_t calls = 0, others = 0, runs;
    while (left == GT_OK && others < 4) {
        gt_err err = call_of_two(client, x, &left);
        calls += err == GT_OK;
        if (err != GT_OK) { /* no slot was left for its first record: move the next runs by one */
            CHECK_EQ(err, GT_ERR_INTERRUPTED);
            while (read_link(&o))
                continue;
            CHECK_EQ(gt_neg(x, &other), GT_OK);
            gt_tensor_release(other);
            others++;
        }
    }
    runs = gt__hotpath_stats(client).runs;
    CHECK(left == GT_ERR_INTERRUPTED && client->draining && runs > 100);
    CHECK_EQ(client->hotpath->recording.depth, 0);
    CHECK_EQ(gt__hotpath_enter(client, 1), GT_ERR_INTERRUPTED);
    CHECK_EQ(client->hotpath->recording.depth, 0);
    CHECK_EQ(gt_neg(x, &other), GT_ERR_INTERRUPTED);
    gt__wait_hooks.interrupted = NULL;
    pthread_create(&thread, NULL, read_all, &o);
    for (int k = 0; k < 10; k++, calls++)
        CHECK(call_of_two(client, x, &left) == GT_OK && left == GT_OK);
    CHECK_EQ(gt__hotpath_stats(client).runs, runs + 10);
    gt_tensor_release(x);
    gt__client_flush(client);
    atomic_store(&o.stop, true);
    pthread_join(thread, NULL);
    CHECK_EQ(o.records, 1 + 2 * calls + others);
    CHECK_EQ(o.alive, 0);
    gt_client_close(&client);
    observed_free(&o);
}

/* A path is expected to begin, since it did last time, and another branch of the call comes: it is learned as it came. */
static void test_other_branch(const void *argument)
{
    (void)argument;
    enum { CALLS = 60, PART = 3 };
    gt_err (*const op[3][PART])(gt_tensor *, gt_tensor **) = {
        {gt_neg, gt_abs, gt_neg}, {gt_exp, gt_abs, gt_exp}, {gt_abs, gt_exp, gt_neg}};
    gt_link *ours, *theirs;
    gt_tensor *x, *next;
    gt_hotpath_stats before = {0};
    CHECK_EQ(gt__link_memory_pair(&ours, &theirs), GT_OK);
    gt_client *client = client_of(ours, false);
    observed o = observed_new(theirs);
    CHECK_EQ(gt_full(client, GT_FLOAT32, 1, (int64_t[]){4}, 1, &x), GT_OK);
    for (int call = 0; call < CALLS; call++) {
        bool divided = call < CALLS / 3;
        if (call == CALLS - 10)
            before = gt__hotpath_stats(client);
        gt__hotpath_enter(client, 1);
        for (int k = 0; k < 2 * PART; k++) {
            if (k == PART && divided)
                upload_and_free(client);
            CHECK_EQ(op[k < PART ? 0 : divided ? 1 : 1 + call % 2][k % PART](x, &next), GT_OK);
            gt_tensor_release(x);
            x = next;
        }
        upload_and_free(client);
        gt__hotpath_leave(client);
    }
    gt_hotpath_stats last = gt__hotpath_stats(client);
    CHECK_EQ(last.hot_sequences, 3);
    CHECK_EQ(last.hot_instructions - before.hot_instructions, 10 * 2 * PART);
    CHECK_EQ(last.misses, 0);
    gt_tensor_release(x);
    gt__client_flush(client);
    while (read_link(&o))
        continue;
    CHECK_EQ(o.alive, 0);
    gt_client_close(&client);
    observed_free(&o);
}

/* Other results live on after each turn of a loop: the client does not learn each case, and sends what it should. */
static void test_lives(const void *argument)
{
    (void)argument;
    enum { RESULTS = 6, TURNS = 600 };
    gt_link *ours, *theirs;
    gt_tensor *x, *kept[RESULTS] = {NULL};
    numbers n = {3};
    pthread_t thread;
    CHECK_EQ(gt__link_memory_pair(&ours, &theirs), GT_OK);
    gt_client *client = client_of(ours, true);
    observed o = observed_new(theirs);
    pthread_create(&thread, NULL, read_all, &o);
    CHECK_EQ(gt_full(client, GT_FLOAT32, 1, (int64_t[]){4}, 1, &x), GT_OK);
    for (int turn = 0; turn < TURNS; turn++) {
        uint64_t lives = turn < 60 ? 0 : numbers_next(&n);
        gt_tensor *results[RESULTS];
        for (int k = 0; k < RESULTS; k++)
            CHECK_EQ(k ? gt_neg(results[k - 1], &results[k]) : gt_add(x, x, &results[k]), GT_OK);
        for (int k = 0; k < RESULTS; k++) {
            gt_tensor_release(lives >> k & 1 ? kept[k] : results[k]);
            kept[k] = lives >> k & 1 ? results[k] : kept[k];
        }
    }
    CHECK(gt__hotpath_stats(client).runs > 0);
    CHECK(gt__hotpath_stats(client).hot_sequences <= 16);
    gt_tensor_release(x);
    for (int k = 0; k < RESULTS; k++)
        gt_tensor_release(kept[k]);
    gt__client_flush(client);
    atomic_store(&o.stop, true);
    pthread_join(thread, NULL);
    CHECK_EQ(o.records, 1 + RESULTS * TURNS);
    CHECK_EQ(o.alive, 0);
    gt_client_close(&client);
    observed_free(&o);
}

/* A program with many loops, one after the other: the last ones are found, too. */
static void test_many(const void *argument)
{
    (void)argument;
    enum { LOOPS = 300, STEPS = 9 };
    gt_link *ours, *theirs;
    gt_tensor *x, *next;
    pthread_t thread;
    uint64_t before = 0;
    CHECK_EQ(gt__link_memory_pair(&ours, &theirs), GT_OK);
    gt_client *client = client_of(ours, true);
    observed o = observed_new(theirs);
    pthread_create(&thread, NULL, read_all, &o);
    CHECK_EQ(gt_full(client, GT_FLOAT32, 1, (int64_t[]){4}, 1, &x), GT_OK);
    for (unsigned loop = 0; loop < LOOPS; loop++) {
        before = gt__hotpath_stats(client).runs;
        for (int turn = 0; turn < 40; turn++)
            for (unsigned k = 0; k <= STEPS; k++) {
                gt_err err = k == STEPS ? gt_exp(x, &next) : loop >> k & 1 ? gt_neg(x, &next) : gt_abs(x, &next);
                CHECK_EQ(err, GT_OK);
                gt_tensor_release(x);
                x = next;
            }
        gt__client_flush(client);
    }
    CHECK(gt__hotpath_stats(client).runs > before);
    CHECK(gt__hotpath_stats(client).hot_sequences < 200);
    gt_tensor_release(x);
    gt__client_flush(client);
    atomic_store(&o.stop, true);
    pthread_join(thread, NULL);
    CHECK_EQ(o.records, 1 + LOOPS * 40 * (STEPS + 1));
    CHECK_EQ(o.alive, 0);
    gt_client_close(&client);
    observed_free(&o);
}

/* Epochs of ten batches and a smaller one: each kind is a path, and the small one does not divide the other. */
static void test_last_batch(const void *argument)
{
    (void)argument;
    enum { EPOCHS = 30, BATCHES = 11, RECORDS = 6 };
    gt_link *ours, *theirs;
    pthread_t thread;
    CHECK_EQ(gt__link_memory_pair(&ours, &theirs), GT_OK);
    gt_client *client = client_of(ours, true);
    observed o = observed_new(theirs);
    gt_hotpath_stats early = {0};
    pthread_create(&thread, NULL, read_all, &o);
    for (int batch = 0; batch < EPOCHS * BATCHES; batch++) {
        int64_t rows = batch % BATCHES == BATCHES - 1 ? 3 : 8;
        gt_tensor *t[RECORDS];
        for (int k = 0; k < RECORDS; k++)
            CHECK_EQ(k == 0   ? gt_full(client, GT_FLOAT32, 1, (int64_t[]){64}, 1, &t[k])
                     : k == 2 ? gt_full(client, GT_FLOAT32, 1, &rows, 1, &t[k])
                              : gt_neg(t[k - 1], &t[k]),
                     GT_OK);
        for (int k = 0; k < RECORDS; k++)
            gt_tensor_release(t[k]);
        if (batch == 5 * BATCHES)
            early = gt__hotpath_stats(client);
    }
    gt_hotpath_stats late = gt__hotpath_stats(client);
    CHECK_EQ(late.misses, early.misses);
    CHECK_EQ(late.hot_instructions - early.hot_instructions, late.instructions - early.instructions);
    CHECK(late.runs - early.runs <= (EPOCHS - 5) * BATCHES);
    gt__client_flush(client);
    atomic_store(&o.stop, true);
    pthread_join(thread, NULL);
    CHECK_EQ(o.records, EPOCHS * BATCHES * RECORDS);
    CHECK_EQ(o.alive, 0);
    gt_client_close(&client);
    observed_free(&o);
}

/* A loop until the client holds records back. */
static gt_client *holding_client(gt_link *link, gt_tensor **x)
{
    gt_client *client = client_of(link, true);
    gt_tensor *next;
    CHECK_EQ(gt_full(client, GT_FLOAT32, 1, (int64_t[]){4}, 1, x), GT_OK);
    for (int k = 0; k < 400; k++) {
        CHECK_EQ(k % 2 ? gt_neg(*x, &next) : gt_add(*x, *x, &next), GT_OK);
        gt_tensor_release(*x);
        *x = next;
    }
    CHECK(gt__hotpath_stats(client).runs > 0);
    gt_slot *room = NULL;
    for (int k = 0; k < 3; k++) { /* the last one is in a path that is not complete */
        CHECK_EQ(gt__client_reserve(client, 1, &room), GT_OK);
        CHECK_EQ(k % 2 ? gt_neg(*x, &next) : gt_add(*x, *x, &next), GT_OK);
        gt_tensor_release(*x);
        *x = next;
    }
    return client;
}

/* Closing sends what was held back, and the goodbye as the last record. */
static void test_close(const void *argument)
{
    (void)argument;
    gt_link *ours, *theirs;
    gt_tensor *x;
    CHECK_EQ(gt__link_memory_pair(&ours, &theirs), GT_OK);
    observed o = observed_new(theirs);
    gt_client *client = holding_client(ours, &x);
    gt_client_close(&client);
    while (read_link(&o))
        continue;
    CHECK(o.said_goodbye);
    CHECK_EQ(o.records, 404);
    gt_tensor_release(x);
    observed_free(&o);
}

/* A forked child has the parent's records in its memory, and sends none of them. */
static void test_fork(const void *argument)
{
    (void)argument;
    gt_link *ours, *theirs;
    gt_tensor *x;
    CHECK_EQ(gt__link_memory_pair(&ours, &theirs), GT_OK);
    observed o = observed_new(theirs);
    gt_client *client = holding_client(ours, &x);
    gt__link_flush(client->link);
    while (read_link(&o))
        continue;
    uint64_t before = o.records;
    CHECK(before < 404);
    gt__fork_generation++; /* as in the child */
    gt__client_flush(client);
    read_link(&o);
    CHECK_EQ(o.records, before);
    gt__fork_generation--;
    gt__client_flush(client);
    while (read_link(&o))
        continue;
    CHECK_EQ(o.records, 404);
    gt_tensor_release(x);
    gt_client_close(&client);
    observed_free(&o);
}

/* The link is lost while records are held back: the next op says so, and nothing is written. */
static void test_lost(const void *argument)
{
    (void)argument;
    gt_link *ours, *theirs;
    gt_tensor *x, *next = NULL;
    CHECK_EQ(gt__link_memory_pair(&ours, &theirs), GT_OK);
    observed o = observed_new(theirs);
    gt_client *client = holding_client(ours, &x);
    gt__link_kill(client->link, "the server is gone");
    gt__client_flush(client);
    CHECK_EQ(gt_neg(x, &next), GT_ERR_CONNECTION);
    gt_tensor_release(x);
    gt_client_close(&client);
    observed_free(&o);
}

/* A program frees many tensors while records are learned, which do not go on: what it remembers of these frees has a limit. */
static void test_many_frees(const void *argument)
{
    bool region = *(const bool *)argument;
    gt_link *ours, *theirs;
    gt_tensor *x, *next;
    CHECK_EQ(gt__link_memory_pair(&ours, &theirs), GT_OK);
    observed o = observed_new(theirs);
    gt_client *client = client_of(ours, true);
    const gt_hotpath *hot = client->hotpath;
    CHECK_EQ(gt_full(client, GT_FLOAT32, 1, (int64_t[]){4}, 1, &x), GT_OK);
    if (region)
        gt__hotpath_enter(client, 1);
    for (unsigned k = 0; k < 1000 && (region ? k < 8 : hot->state != GT_HOT_LEARNING); k++) {
        CHECK_EQ((k % 4 ? gt_neg : gt_exp)(x, &next), GT_OK);
        gt_tensor_release(x);
        x = next;
    }
    CHECK(region || hot->state == GT_HOT_LEARNING);
    for (unsigned k = 0; k < 3 * GT_HOT_FREES; k++) {
        if (region) {
            CHECK_EQ(gt_neg(x, &next), GT_OK);
            gt_tensor_release(next);
        } else
            upload_and_free(client);
        read_link(&o);
    }
    CHECK(hot->freed.capacity <= GT_HOT_FREES);
    CHECK(region ? hot->recording.broken : hot->state == GT_HOT_WATCHING);
    if (region)
        gt__hotpath_leave(client);
    gt_tensor_release(x);
    gt_client_close(&client);
    observed_free(&o);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("templates", test_templates, NULL);
    check_run("templates: parameters", test_parameters, NULL);
    check_run("client: region", test_region, NULL);
    check_run("client: a region whose wait is interrupted", test_interrupted_region, NULL);
    check_run("client: more frees than a run has words", test_frees_beside_a_run, NULL);
    check_run("client: frees behind a record that waits", test_frees_behind_a_record, NULL);
    check_run("client: another branch than expected", test_other_branch, NULL);
    check_run("client: other lives", test_lives, NULL);
    check_run("client: many loops", test_many, NULL);
    check_run("client: last batch", test_last_batch, NULL);
    check_run("client: many frees in a region", test_many_frees, &(bool){true});
    check_run("client: many frees while it learns", test_many_frees, &(bool){false});
    check_run("client: close", test_close, NULL);
    check_run("client: fork", test_fork, NULL);
    check_run("client: lost link", test_lost, NULL);
    return check_end();
}

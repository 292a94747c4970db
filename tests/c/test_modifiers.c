/*
 * test_modifiers.c: modifiers that emit several records for one, none, or some later, in front of real workers and of
 * workers that do not keep up: results are those of the plain stream, in order, and nothing is left over.
 *
 * test_chain.c has the chain alone; output.h says where records wait.
 */
#include <stdlib.h>

#include "client_fixture.h"
#include "core/config.h"
#include "core/record.h"
#include "core/slot_queue.h"
#include "dispatcher/modifier.h"
#include "client/signals.h"
#include "server_fixture.h"

/* ---- modifiers ---------------------------------------------------------------------------------------------- */

/* What the modifiers did since counts_clear; sessions are served by one thread each at a time. */
static struct {
    _Atomic uint64_t added, dropped, delayed;
} counts;

static void counts_clear(void)
{
    counts.added = counts.dropped = counts.delayed = 0;
}

/* Whether a record may be repeated or left out: it computes, from nothing but its operands. */
static bool is_pure(const gt_instruction *ins)
{
    return ins->op < GT_OP_FIRST_CONTROL && ins->op != GT_OP_upload && !gt__record_consumed(ins);
}

/* Every pure record three times: twice for tensors of its own, which it frees again. */
static gt_err multiply_step(gt_modifier *modifier, const gt_slot *record)
{
    enum { COPIES = 2, MOST_SLOTS = 8 };
    static _Atomic uint64_t next; /* one for all: a chain may have several of these */
    gt_slot copy[MOST_SLOTS], frees = {0};
    unsigned length = 1u + record->ins.tail, count = 0;
    if (!is_pure(&record->ins) || length > MOST_SLOTS)
        return gt__modifier_emit(modifier, record);
    memcpy(copy, record, length * sizeof *copy);
    for (int k = 0; k < COPIES; k++) {
        copy->ins.result = GT_MODIFIER_ID + ++next;
        gt__free_append(&frees.ins, &count, copy->ins.result);
        GT_TRY(gt__modifier_emit(modifier, copy));
    }
    counts.added += COPIES;
    GT_TRY(gt__modifier_emit(modifier, record));
    return gt__modifier_emit(modifier, &frees);
}

static const gt_modifier_ops multiply = {.name = "multiply", .size = sizeof(gt_modifier), .step = multiply_step};

/* The next records, in order: what the two modifiers below hold back. */
enum { HELD = 300 };

typedef struct holder {
    gt_modifier base;
    gt_slot_queue held;
    unsigned count;
} holder;

static gt_err holder_emit_first(holder *h)
{
    const gt_slot *first = gt__slot_queue_first(&h->held);
    gt_err err = first->ins.op ? gt__modifier_emit(&h->base, first) : GT_OK; /* 0: it was dropped */
    gt__slot_queue_pop(&h->held);
    h->count--;
    return err;
}

static gt_err holder_hold(holder *h, const gt_slot *record)
{
    if (!gt__slot_queue_append(&h->held, record))
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    return ++h->count > HELD ? holder_emit_first(h) : GT_OK;
}

static gt_err holder_flush(gt_modifier *modifier, gt_flush why)
{
    (void)why;
    holder *h = (holder *)modifier;
    while (h->count)
        GT_TRY(holder_emit_first(h));
    return GT_OK;
}

static void holder_close(gt_modifier *modifier)
{
    holder *h = (holder *)modifier;
    CHECK(!h->count); /* there was a flush before */
    gt__slot_queue_free(&h->held);
}

static bool may_be_held(const gt_instruction *ins)
{
    return ins->op < GT_OP_FIRST_CONTROL || ins->op == GT_OP_free || ins->op == GT_OP_data;
}

static gt_err delay_step(gt_modifier *modifier, const gt_slot *record)
{
    if (!may_be_held(&record->ins))
        return gt__modifier_emit(modifier, record);
    counts.delayed++;
    return holder_hold((holder *)modifier, record);
}

static const gt_modifier_ops delay = {
    .name = "delay", .size = sizeof(holder), .step = delay_step, .flush = holder_flush, .close = holder_close};

static bool reads(const gt_slot *record, uint64_t id)
{
    for (gt_record_ids ids = gt__record_ids(record); gt__record_ids_next(&ids);)
        if (ids.use != GT_ID_WRITTEN && *ids.id == id)
            return true;
    return false;
}

/* Drop the record that made a tensor, if it still waits and no other that waits reads the tensor. */
static bool drop_maker(holder *h, uint64_t id)
{
    gt_slot *maker = NULL;
    for (size_t at = h->held.first; at < h->held.end; at += 1u + h->held.slots[at].ins.tail) {
        gt_slot *record = &h->held.slots[at];
        if (!record->ins.op)
            continue;
        if (maker && reads(record, id))
            return false;
        if (is_pure(&record->ins) && record->ins.result == id)
            maker = record;
    }
    if (maker)
        maker->ins.op = GT_OP_INVALID;
    return maker;
}

/* Records whose results are freed before any other needs them are not executed at all. */
static gt_err swallow_step(gt_modifier *modifier, const gt_slot *record)
{
    holder *h = (holder *)modifier;
    gt_slot free_record = *record;
    uint64_t left = 0;
    if (!may_be_held(&record->ins))
        return gt__modifier_emit(modifier, record);
    if (record->ins.op != GT_OP_free)
        return holder_hold(h, record);
    uint64_t *ids = gt__free_ids(&free_record.ins);
    for (unsigned k = 0; k < GT_FREE_IDS; k++) {
        if (ids[k] && drop_maker(h, ids[k])) {
            ids[k] = 0;
            counts.dropped++;
        }
        left |= ids[k];
    }
    return left ? holder_hold(h, &free_record) : GT_OK;
}

static const gt_modifier_ops swallow = {
    .name = "swallow", .size = sizeof(holder), .step = swallow_step, .flush = holder_flush, .close = holder_close};

/* One `sign` becomes records without end. */
static gt_err explode_step(gt_modifier *modifier, const gt_slot *record)
{
    gt_slot copy = *record;
    if (record->ins.op != GT_OP_sign)
        return gt__modifier_emit(modifier, record);
    for (uint64_t k = 0;; k++) {
        copy.ins.result = GT_MODIFIER_ID + k;
        GT_TRY(gt__modifier_emit(modifier, &copy));
    }
}

static const gt_modifier_ops explode = {.name = "explode", .size = sizeof(gt_modifier), .step = explode_step};

/* ---- programs through every chain --------------------------------------------------------------------------- */

enum { ADDS = CHECK_SANITIZED ? 20000 : 100000, ELEMENTS = 64, RESULTS = 6 };

typedef float results[RESULTS][ELEMENTS];

static void keep(gt_tensor *tensor, float *to)
{
    gt_tensor *flat;
    OK(gt_reshape(tensor, SHAPE(-1), &flat));
    OK(gt_fetch(flat, to, (size_t)gt_tensor_numel(flat) * sizeof *to));
    gt_tensor_release(flat);
    gt_tensor_release(tensor);
}

/* x + b, `count` times; every other time the result is not used. */
static gt_tensor *add_often(gt_tensor *x, gt_tensor *b, int count)
{
    gt_tensor *next;
    gt_tensor_retain(x);
    for (int k = 0; k < count; k++) {
        if (!OK(gt_add(x, b, &next)))
            break;
        if (k % 2)
            gt_tensor_release(next);
        else {
            gt_tensor_release(x);
            x = next;
        }
    }
    return x;
}

/* Long runs without a question, uploads, records with tails, in-place updates, and questions of both kinds. */
static void run_program(gt_client *client, const char *signal, int adds, results out)
{
    float values[ELEMENTS];
    gt_tensor *x, *b, *t, *u, *one;
    for (int k = 0; k < ELEMENTS; k++)
        values[k] = (float)(k % 8);
    if (signal)
        OK(gt_signal_enter(client, signal, NULL));
    OK(gt_from_data(client, GT_FLOAT32, SHAPE(8, 8), values, &x));
    OK(gt_full(client, GT_FLOAT32, SHAPE(8, 8), 1, &b));
    t = add_often(x, b, adds);
    keep(t, out[0]);
    t = add_often(x, b, 1000);
    OK(gt_synchronize(client));
    keep(t, out[1]);
    OK(gt_cat((gt_tensor *[]){x, b}, 2, 0, &t));
    OK(gt_slice(t, (int64_t[]){4, 0}, (int64_t[]){1, 1}, (int64_t[]){8, 8}, &u));
    gt_tensor_release(t);
    keep(u, out[2]);
    OK(gt_matmul(x, b, &t));
    OK(gt_full(client, GT_FLOAT32, SHAPE(1, 1), -1, &one));
    OK(gt_assign(t, (int64_t[]){1, 1}, (int64_t[]){2, 2}, (int64_t[]){2, 2}, one, &u));
    gt_tensor_release(one);
    gt_tensor_release(t);
    keep(u, out[3]);
    OK(gt_sum(x, 1, true, &t));
    OK(gt_add(t, x, &u));
    gt_tensor_release(t);
    keep(u, out[4]);
    t = add_often(x, b, 10);
    gt_tensor_release(x);
    gt_tensor_release(b);
    keep(t, out[5]);
    if (signal)
        OK(gt_signal_exit(signal));
}

/* The program on an embedded server with this chain. */
static void run_with(const char *modifiers, bool spread, int adds, results out)
{
    memset(out, 0, sizeof(results));
    setenv("GT_MODIFIERS", modifiers, 1);
    counts_clear();
    gt_client *client = open_client(spread ? 2 : 1);
    run_program(client, spread ? "rows" : NULL, adds, out);
    gt_client_close(&client);
    unsetenv("GT_MODIFIERS");
}

static void test_chains(const void *argument)
{
    bool spread = argument != NULL;
    static const gt_modifier_ops *const own[] = {&multiply, &swallow, &delay};
    static results plain, brief, changed;
    gt_signal_config rows = {
        .name = "rows", .flags = GT_CONFIG_SHARD | GT_CONFIG_AXIS, .worker_count = 2, .workers = {0, 1}};
    OK(gt__signal_config_set(&rows));
    run_with("", spread, ADDS, plain);
    run_with("", spread, ADDS / 10, brief);
    CHECK(plain[0][0] == ADDS / 2 && plain[0][63] == ADDS / 2 + 7);
    const gt_modifier_ops *listed;
    for (unsigned number = 0; (listed = gt__modifier_at(number)); number++)
        for (size_t k = 0; k < 2 * sizeof own / sizeof own[0]; k++) {
            char names[64];
            const char *mine = own[k / 2]->name;
            if (listed == &explode)
                continue;
            snprintf(names, sizeof names, "%s,%s", k % 2 ? mine : listed->name, k % 2 ? listed->name : mine);
            bool ours =
                listed == &multiply || listed == &swallow || listed == &delay; /* many of these: less each */
            run_with(names, spread, ours ? ADDS / 10 : ADDS, changed);
            if (!CHECK(memcmp(ours ? brief : plain, changed, sizeof changed) == 0))
                fprintf(stderr, "  with %s\n", names);
            bool multiplied = own[k / 2] == &multiply || listed == &multiply;
            bool swallowed = own[k / 2] == &swallow || listed == &swallow;
            bool delayed = own[k / 2] == &delay || listed == &delay;
            CHECK(multiplied == (counts.added > 0) && swallowed == (counts.dropped > 0) &&
                  delayed == (counts.delayed > 0));
        }
}

/* ---- data --------------------------------------------------------------------------------------------------- */

/* Uploads of every size: in the record, in pieces, and through shared segments, which are used again. */
static void test_uploads(const void *argument)
{
    enum { LARGEST = 1 << 20 };
    float *values = malloc(LARGEST * sizeof *values), *back = malloc(LARGEST * sizeof *back);
    setenv("GT_MODIFIERS", argument, 1);
    gt_client *client = open_client(1);
    for (int round = 0; round < 12; round++)
        for (int64_t elements = 16; elements <= LARGEST; elements *= 16) {
            gt_tensor *t, *u;
            for (int64_t k = 0; k < elements; k++)
                values[k] = (float)(round + k % 1000);
            OK(gt_from_data(client, GT_FLOAT32, SHAPE(elements), values, &t));
            OK(gt_add(t, t, &u));
            gt_tensor_release(t);
            memset(back, 0, (size_t)elements * sizeof *back);
            OK(gt_fetch(u, back, (size_t)elements * sizeof *back));
            gt_tensor_release(u);
            for (int64_t k = 0; k < elements; k++)
                if (!CHECK(back[k] == 2 * values[k]))
                    break;
        }
    gt_client_close(&client);
    unsetenv("GT_MODIFIERS");
    free(values);
    free(back);
}

/* ---- order, and what is held back --------------------------------------------------------------------------- */

static void send_add(gt_link *link, uint64_t result, uint64_t a, uint64_t b)
{
    send_ins(link, (gt_instruction){.op = GT_OP_add, .result = result, .operand = {a, b}});
}

/* Questions of both kinds in the middle of long runs: asked before the first answer is read, answered in order. */
static void test_answers(const void *argument)
{
    enum { QUESTIONS = 200, RUN = 500 };
    static gt_slot record[1 + GT_MAX_TAIL];
    server s;
    server_new_with(&s, false, argument);
    server_add_worker(&s, false);
    gt_link *client = server_link(&s);
    server_start(&s);
    join_client(client);
    send_full(client, 1, 1, 1.0);
    uint64_t id = 1;
    for (uint64_t ticket = 1; ticket <= QUESTIONS; ticket++) {
        for (int k = 0; k < RUN; k++, id++) {
            send_add(client, id + 1, id, id);
            send_ins(client,
                     (gt_instruction){.op = GT_OP_mul, .result = (uint64_t)1 << 40 | id, .operand = {id, id}});
            send_ins(client,
                     (gt_instruction){.op = GT_OP_free, .result = id, .operand = {(uint64_t)1 << 40 | id}});
        }
        send_full(client, ++id, 1, (double)ticket);
        send_free(client, id - 1);
        send_ins(client,
                 (gt_instruction){.op = ticket % 3 ? GT_OP_fetch : GT_OP_sync, .result = ticket, .operand = {id}});
    }
    for (uint64_t ticket = 1; ticket <= QUESTIONS; ticket++) {
        float value = 0;
        if (!CHECK(receive(client, record)) || !CHECK_EQ(record->ins.op, GT_OP_reply) ||
            !CHECK_EQ(record->ins.result, ticket))
            break;
        memcpy(&value, record + 1, sizeof value);
        if (ticket % 3)
            CHECK(value == (float)ticket);
    }
    send_free(client, id);
    CHECK(tensors_become(client, 0));
    gt__link_close(client);
    server_stop(&s);
}

/* Statistics and placement are about all that came before them. */
static void test_questions_see_all(const void *argument)
{
    (void)argument;
    char text[256];
    server s;
    server_new_with(&s, false, "delay,statistics");
    server_add_worker(&s, false);
    gt_link *client = server_link(&s);
    server_start(&s);
    join_client(client);
    for (uint64_t round = 1; round < 50; round++) {
        send_full(client, 2 * round, 4, 1.0);
        send_add(client, 2 * round + 1, 2 * round, 2 * round);
        if (round % 2) {
            CHECK_EQ(server_statistic(client, 1, "\"statistics\"", "add"), (int64_t)round);
            continue;
        }
        send_ins(client, (gt_instruction){.op = GT_OP_placement, .result = 1, .operand = {2 * round + 1}});
        CHECK_EQ(receive_answer(client, 1, text, sizeof text), GT_OK);
        CHECK(strcmp(text, "single(worker=0)") == 0);
    }
    gt__link_close(client);
    server_stop(&s);
}

/* A client that only pauses, without a question: another one sees its work done. */
static void test_idle(const void *argument)
{
    (void)argument;
    enum { ROUNDS = 20 };
    char bytes[64];
    float value;
    server s;
    server_new_with(&s, false, "delay,multiply,statistics");
    server_add_worker(&s, false);
    gt_link *pausing = server_link(&s), *watching = server_link(&s);
    server_start(&s);
    join_client(pausing);
    join_client(watching);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        send_full(pausing, 2 * round, 1, (double)round);
        send_add(pausing, 2 * round + 1, 2 * round, 2 * round);
        gt__link_flush(pausing);
        CHECK(tensors_become(watching, 2 * (int64_t)round));
    }
    CHECK_EQ(fetch_text(pausing, 2 * ROUNDS + 1, 1, bytes, sizeof bytes), GT_OK);
    memcpy(&value, bytes, sizeof value);
    CHECK(value == 2 * ROUNDS);
    gt__link_close(pausing);
    CHECK(tensors_become(watching, 0));
    gt__link_close(watching);
    server_stop(&s);
}

/* ---- workers that do not keep up ---------------------------------------------------------------------------- */

/* A worker that executes nothing, and keeps account of its slots: what a record reads is there, what it makes is not. */
typedef struct accountant {
    gt_link *link;
    bool used[1 << 18];
    uint64_t live, records;
} accountant;

static void account(accountant *a, const gt_slot *record)
{
    for (gt_record_ids ids = gt__record_ids(record); gt__record_ids_next(&ids);) {
        if (!CHECK(*ids.id < sizeof a->used))
            return;
        bool *used = &a->used[*ids.id];
        CHECK_EQ(*used, ids.use != GT_ID_WRITTEN);
        if (ids.use == GT_ID_WRITTEN)
            a->live++;
        if (ids.use & GT_ID_FREED)
            a->live--;
        *used = !(ids.use & GT_ID_FREED);
    }
    a->records++;
}

static void *accountant_thread(void *argument)
{
    accountant *a = argument;
    gt_slot record[1 + GT_MAX_TAIL];
    while (receive(a->link, record) && record->ins.op != GT_OP_goodbye)
        if (record->ins.op == GT_OP_sync) {
            send_ins(a->link,
                     (gt_instruction){.op = GT_OP_reply, .flags = GT_FLAG_LAST, .result = record->ins.result});
            gt__link_flush(a->link);
        } else
            account(a, record);
    return NULL;
}

/* Adds until there is no more room in the client's link. Ids from 2 on; returns the last. */
static uint64_t flood(gt_link *client)
{
    gt_slot *out;
    uint64_t id = 1;
    for (;; id++) {
        while (!(out = gt__link_reserve(client, 1)))
            if (gt__link_wait(client, GT_WAIT_WRITE, 200) != GT_OK)
                return id;
        out->ins = (gt_instruction){.op = GT_OP_add, .result = id + 1, .operand = {1, 1}};
        gt__link_commit(client, 1);
    }
}

/* The worker takes nothing, so the client has to wait, and nothing grows. Then the client leaves, or waits for all. */
static void test_back_pressure(const void *argument)
{
    static accountant a;
    pthread_t thread;
    server s;
    char text[64];
    server_new_with(&s, false, "multiply,delay");
    a = (accountant){.link = server_link(&s)};
    gt_link *good = server_link(&s), *client = server_link(&s);
    server_start(&s);
    join_worker(a.link, "accountant");
    join_client(good);
    join_client(client);
    send_full(client, 1, 16, 1.0);
    uint64_t last = flood(client);
    CHECK(last < 4 * 8192);
    CHECK(server_statistic(good, 1, "\"workers\"", "tensors") < 8192); /* a full link holds up no question */
    if (argument)
        gt__link_close(client);
    pthread_create(&thread, NULL, accountant_thread, &a);
    if (!argument) {
        send_ins(client, (gt_instruction){.op = GT_OP_sync, .result = 77});
        CHECK_EQ(receive_answer(client, 77, text, sizeof text), GT_OK);
        CHECK_EQ(server_statistic(client, 1, "\"workers\"", "tensors"), (int64_t)last);
        gt__link_close(client);
    }
    CHECK(tensors_become(good, 0));
    gt__link_close(good);
    server_stop(&s);
    pthread_join(thread, NULL);
    CHECK_EQ(a.live, 0);
    if (!argument)                          /* what was left of its backlog goes with a client that leaves */
        CHECK(a.records >= 4 * (last - 1)); /* three adds and a free for each */
    gt__link_close(a.link);
}

/* The worker leaves while records wait for room in its link: the next one gets what can still be computed. */
static void test_worker_leaves(const void *argument)
{
    (void)argument;
    char text[256];
    server s;
    server_new_with(&s, true, "multiply,delay");
    gt_link *fragile = server_link(&s), *client = server_link(&s);
    server_start(&s);
    join_worker(fragile, "fragile");
    join_client(client);
    send_full(client, 1, 16, 1.0);
    flood(client);
    gt__link_close(fragile);
    CHECK_EQ(fetch_text(client, 2, 1, text, sizeof text), GT_ERR_CONNECTION);
    CHECK(strstr(text, "fragile"));
    server_add_worker(&s, true);
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    while (server_statistic(client, 1, "\"workers\"", "sessions") != 1)
        if (!CHECK(gt__remaining_ms(deadline)))
            break;
    CHECK(session_works(client, (uint64_t)1 << 32));
    gt__link_close(client);
    server_stop(&s);
}

/* A modifier that does not stop ends its session, and only that. */
static void test_bound(const void *argument)
{
    (void)argument;
    server s;
    server_new_with(&s, true, "explode");
    server_add_worker(&s, false);
    gt_link *good = server_link(&s), *client = server_link(&s);
    server_start(&s);
    join_client(good);
    join_client(client);
    CHECK(session_works(client, 1));
    send_full(client, 10, 16, 1.0);
    send_ins(client, (gt_instruction){.op = GT_OP_sign, .result = 11, .operand = {10}});
    expect_goodbye(client, "more than 64 MiB of records out of one");
    CHECK(session_works(good, 1));
    CHECK(tensors_become(good, 0));
    gt__link_close(client);
    gt__link_close(good);
    server_stop(&s);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    OK(gt__modifier_register(&multiply));
    OK(gt__modifier_register(&swallow));
    OK(gt__modifier_register(&delay));
    OK(gt__modifier_register(&explode));
    check_run("every chain on one worker", test_chains, NULL);
    check_run("every chain with tensors on two workers", test_chains, "spread");
    check_run("uploads, multiplied", test_uploads, "multiply");
    check_run("uploads, delayed", test_uploads, "delay");
    check_run("uploads, delayed and multiplied", test_uploads, "delay,multiply");
    check_run("answers in order, multiplied", test_answers, "multiply");
    check_run("answers in order, delayed and multiplied", test_answers, "delay,multiply");
    check_run("answers in order, swallowed", test_answers, "swallow,statistics");
    check_run("questions see all", test_questions_see_all, NULL);
    check_run("a client that pauses", test_idle, NULL);
    check_run("a worker that is slow", test_back_pressure, NULL);
    check_run("a worker that is slow, and the client leaves", test_back_pressure, "leaves");
    check_run("a worker leaves", test_worker_leaves, NULL);
    check_run("records without end", test_bound, NULL);
    return check_end();
}

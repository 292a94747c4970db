/*
 * test_deferred.c: workers that do not wait for each other: records that need another worker's data are put aside, those of other
 * sessions go on, and in the end all have the values of a program that was executed in order. The workers' streams are written here
 * and executed in one thread, in any order: a worker that waited would wait for ever.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "core/path.h"
#include "deferred_stage.h"
#include "link/hello.h"
#include "random_numbers.h"

/* ---- cases ---------------------------------------------------------------------------------------------------- */

/* A sum waits: the fetch of another session is answered, and an instruction that does not need the sum is executed. Those that need it
 * are, when the others have come. */
static void test_others_go_on(const void *argument)
{
    static stage s;
    static const uint64_t in[WORKERS] = {1, 1, 1}, out[WORKERS] = {2, 2, 2};
    if (!stage_open(&s, argument))
        return;
    player *first = &s.players[0];
    for (int k = 0; k < WORKERS; k++)
        write_full(&s.players[k], 1, 1, LARGE, k + 1);
    write_sum(&s, 1, LARGE, in, out);
    write_ins(first, 1, (gt_instruction){.op = GT_OP_neg, .result = 3, .operand = {2}});
    write_ins(first, 1, (gt_instruction){.op = GT_OP_neg, .result = 4, .operand = {1}});
    write_fetch(&s, 1, 0, 3, -6);
    write_fetch(&s, 1, 0, 4, -1);
    write_full(first, 2, 5, SMALL, 77);
    write_fetch(&s, 2, 0, 5, 77);
    while (first->at < first->count)
        take_one(&s, first);
    gt__deferred_idle(&first->worker);
    CHECK_EQ(s.heard[3], 77);
    CHECK_EQ(s.heard[1], -1);
    CHECK_EQ(s.heard[2], -1); /* answers to one session keep their order */
    CHECK_EQ(value_in(first, 4), -1);
    CHECK_EQ(gt__doing_op(first->worker.timing.statement->doing), GT_OP_all_reduce);
    finish(&s);
    for (uint64_t k = 1; k <= s.next_question; k++)
        CHECK_EQ(s.heard[k], s.expected[k]);
    for (int k = 0; k < WORKERS; k++)
        CHECK_EQ(value_in(&s.players[k], 2), 6);
    stage_close(&s);
}

/* The time of a wait, and of what waited, is not counted as the worker's work for those that did not wait. */
static void test_times(const void *argument)
{
    static stage s;
    static const uint64_t in[WORKERS] = {1, 1, 1}, out[WORKERS] = {2, 2, 2};
    if (!stage_open(&s, argument))
        return;
    player *first = &s.players[0];
    const gt_timing *timing = &first->worker.timing;
    for (int k = 0; k < WORKERS; k++)
        write_full(&s.players[k], 1, 1, SMALL, k + 1);
    write_sum(&s, 1, SMALL, in, out);
    while (first->at < first->count)
        take_one(&s, first);
    uint64_t began_ns = gt__now_ns(), busy_ns = gt__timing_busy_ns(timing);
    for (int k = 0; k < 20; k++)
        gt__deferred_idle(&first->worker);
    uint64_t passed_ns = gt__now_ns() - began_ns, waited_ns = timing->free_ns;
    CHECK(waited_ns > 0 && waited_ns <= passed_ns);
    CHECK(gt__timing_busy_ns(timing) - busy_ns <= gt__now_ns() - began_ns - waited_ns);
    finish(&s);
    CHECK(timing->aside_ns > 0);
    CHECK(first->worker.deferred.asides && first->worker.deferred.asides->ran_ns == timing->aside_ns);
    stage_close(&s);
}

/* The dispatcher watches: others go on all the same, and the timing of each record comes once, with its number. */
static void test_watched(const void *argument)
{
    static stage s;
    static const uint64_t in[WORKERS] = {1, 1, 1}, out[WORKERS] = {2, 2, 2};
    if (!stage_open(&s, argument))
        return;
    player *first = &s.players[0];
    for (int k = 0; k < WORKERS; k++) {
        gt__timing_watch(&s.players[k].worker, true);
        write_full(&s.players[k], 1, 1, LARGE, k + 1);
    }
    write_sum(&s, 1, LARGE, in, out);
    write_ins(first, 1, (gt_instruction){.op = GT_OP_neg, .result = 3, .operand = {2}});
    write_full(first, 2, 5, SMALL, 77);
    write_fetch(&s, 2, 0, 5, 77);
    write_fetch(&s, 1, 0, 3, -6);
    while (first->at < first->count)
        take_one(&s, first);
    CHECK_EQ(s.heard[1], 77);
    CHECK_EQ(s.heard[2], -1);
    finish(&s);
    CHECK_EQ(s.heard[2], -6);
    for (int k = 0; k < WORKERS; k++) {
        player *p = &s.players[k];
        gt__timing_flush(&p->worker);
        hear(&s, p);
        CHECK(p->worker.timing.records > 0);
        for (uint64_t number = 1; number <= p->worker.timing.records; number++)
            CHECK_EQ(p->told[number], 1);
    }
    stage_close(&s);
}

/* Many sums, each followed by what needs it: a few rounds of messages are enough for all of them. */
static void test_round_trips(const void *argument)
{
    enum { SUMS = 50, MOST_ROUNDS = 4 };
    static stage s;
    if (!stage_open(&s, argument))
        return;
    for (uint64_t k = 0; k < SUMS; k++) {
        const uint64_t in[WORKERS] = {3 * k + 1, 3 * k + 1, 3 * k + 1},
                       out[WORKERS] = {3 * k + 2, 3 * k + 2, 3 * k + 2};
        int64_t size = k % 2 ? SMALL : LARGE;
        for (int w = 0; w < WORKERS; w++)
            write_full(&s.players[w], 1, in[w], size, w + (int64_t)k);
        write_sum(&s, 1, size, in, out);
        for (int w = 0; w < WORKERS; w++)
            write_ins(&s.players[w], 1,
                      (gt_instruction){.op = GT_OP_neg, .result = 3 * k + 3, .operand = {out[w]}});
    }
    int rounds = 0;
    for (; !is_done(&s) && rounds < MOST_ROUNDS; rounds++)
        for (int w = 0; w < WORKERS; w++) { /* all that it can do before it needs more messages */
            while (s.players[w].at < s.players[w].count)
                take_one(&s, &s.players[w]);
            do /* however slow the machine is: its turn may have been over */
                idle(&s.players[w]);
            while (s.players[w].worker.deferred.more && s.players[w].worker.deferred.count);
        }
    CHECK(is_done(&s));
    for (uint64_t k = 0; k < SUMS; k++)
        CHECK_EQ(value_in(&s.players[1], 3 * k + 3), -(int64_t)(WORKERS * k + 3));
    finish(&s);
    stage_close(&s);
}

/* The slot of a tensor whose free waits becomes another session's. */
static void test_slot_of_another(const void *argument)
{
    static stage s;
    static const uint64_t in[WORKERS] = {1, 1, 1}, out[WORKERS] = {2, 2, 2};
    if (!stage_open(&s, argument))
        return;
    player *first = &s.players[0];
    for (int k = 0; k < WORKERS; k++)
        write_full(&s.players[k], 1, 1, SMALL, k + 1);
    write_full(first, 1, 7, SMALL, 100);
    write_sum(&s, 1, SMALL, in, out);
    write_ins(first, 1, (gt_instruction){.op = GT_OP_add, .result = 3, .operand = {2, 7}});
    write_ins(first, 1, (gt_instruction){.op = GT_OP_neg, .flags = GT_FLAG_CONSUMES, .result = 6, .operand = {3}});
    write_ins(first, 0, (gt_instruction){.op = GT_OP_free, .result = 7, .operand = {1, 2}});
    write_full(first, 2, 7, LARGE, 55);
    write_full(first, 2, 3, SMALL, 44);
    write_ins(first, 2, (gt_instruction){.op = GT_OP_neg, .result = 1, .operand = {7}});
    write_fetch(&s, 2, 0, 7, 55);
    write_fetch(&s, 2, 0, 1, -55);
    write_fetch(&s, 1, 0, 6, -106);
    while (first->at < first->count)
        take_one(&s, first);
    CHECK_EQ(s.heard[1], 55);
    CHECK_EQ(s.heard[2], -55);
    finish(&s);
    CHECK_EQ(s.heard[3], -106);
    CHECK_EQ(value_in(first, 7), 55);
    CHECK_EQ(value_in(first, 3), 44);
    CHECK_EQ(first->worker.store->hidden_count, 0);
    stage_close(&s);
}

/* A session waits for ever, and others whose sums come use slots of each other: hidden slots are used again. */
static void test_hidden_slots_are_few(const void *argument)
{
    enum { TURNS = 100, MOST_HIDDEN = 8 };
    static stage s;
    static const uint64_t in[WORKERS] = {1, 1, 1}, out[WORKERS] = {2, 2, 2};
    if (!stage_open(&s, argument))
        return;
    player *first = &s.players[0];
    gt_slot never[2] = {{.ins = {.op = GT_OP_recv, .dtype = GT_INT64, .rank = 1, .tail = 1, .result = 9}}};
    never->ins.imm[0].i = 1;
    never->ins.imm[1].u = UINT64_MAX;
    never[1].i64[0] = SMALL;
    write_record(first, 3, never);
    for (int turn = 0; turn < TURNS; turn++) {
        for (int k = 0; k < WORKERS; k++)
            write_full(&s.players[k], 1, 1, SMALL, k + turn);
        write_sum(&s, 1, SMALL, in, out);
        for (int k = 0; k < WORKERS; k++)
            write_ins(&s.players[k], 1, (gt_instruction){.op = GT_OP_neg, .result = 3, .operand = {2}});
        write_ins(first, 1, (gt_instruction){.op = GT_OP_free, .result = 1, .operand = {2}});
        write_full(first, 2, 1, SMALL, 50 + turn);
        write_full(first, 2, 2, SMALL, 60 + turn);
        for (int k = 0; k < WORKERS; k++) /* the first waits for the others */
            while (s.players[k].at < s.players[k].count)
                take_one(&s, &s.players[k]);
        for (int rounds = 0; first->worker.deferred.count > 1 && CHECK(rounds < ROUNDS); rounds++)
            for (int k = 0; k < WORKERS; k++)
                idle(&s.players[k]);
        CHECK_EQ(value_in(first, 1), 50 + turn);
        CHECK_EQ(value_in(first, 2), 60 + turn);
        CHECK_EQ(value_in(first, 3), -(WORKERS * turn + 3));
        write_ins(first, 2, (gt_instruction){.op = GT_OP_free, .result = 1, .operand = {2}});
    }
    CHECK(first->worker.store->hidden_count > 0 && first->worker.store->hidden_count <= MOST_HIDDEN);
    stage_close(&s);
}

/* The records that a report of the first worker counts; -1: it has not come. */
static int64_t reported_records(player *p, uint64_t question)
{
    const gt_slot *answer;
    size_t available;
    int64_t records = -1;
    gt__link_flush(p->worker.link);
    while (records < 0 && (answer = gt__link_peek(p->link, &available))) {
        gt_report report;
        if (answer->ins.op == GT_OP_reply && CHECK_EQ(answer->ins.result, question)) {
            memcpy(&report, answer + 1, sizeof report);
            records = (int64_t)report.records;
        }
        gt__link_consume(p->link, 1u + answer->ins.tail);
    }
    return records;
}

static void take_report_question(stage *s, uint64_t session, uint64_t question, unsigned flags)
{
    player *first = &s->players[0];
    write_ins(first, session,
              (gt_instruction){.op = GT_OP_stats, .flags = (uint8_t)flags, .result = ANSWERS + question});
    while (first->at < first->count) {
        const gt_slot *record = first->stream + first->at;
        if (!gt__deferred_takes(&first->worker, record))
            gt__worker_run_record(&first->worker, record);
        first->at += 1u + record->ins.tail;
    }
}

/* A report that shall count all records of a session comes behind those put aside; others come at once. */
static void test_reports(const void *argument)
{
    static stage s;
    static const uint64_t in[WORKERS] = {1, 1, 1}, out[WORKERS] = {2, 2, 2};
    if (!stage_open(&s, argument))
        return;
    player *first = &s.players[0];
    for (int k = 0; k < WORKERS; k++)
        write_full(&s.players[k], 1, 1, LARGE, k + 1);
    write_sum(&s, 1, LARGE, in, out);
    write_ins(first, 1, (gt_instruction){.op = GT_OP_neg, .result = 3, .operand = {2}});
    while (first->at < first->count)
        take_one(&s, first);
    take_report_question(&s, 1, 1, GT_FLAG_LAST);
    CHECK_EQ(reported_records(first, ANSWERS + 1), -1);
    take_report_question(&s, 1, 2, 0);
    int64_t before = reported_records(first, ANSWERS + 2);
    CHECK(before > 0);
    take_report_question(&s, 2, 3, GT_FLAG_LAST); /* nothing of this session waits */
    CHECK(reported_records(first, ANSWERS + 3) > before);
    for (int rounds = 0; first->worker.deferred.count && CHECK(rounds < ROUNDS); rounds++)
        for (unsigned k = 0; k < WORKERS; k++) {
            while (s.players[k].at < s.players[k].count)
                take_one(&s, &s.players[k]);
            idle(&s.players[k]);
        }
    int64_t all = reported_records(first, ANSWERS + 1);
    CHECK(all == (int64_t)first->worker.timing.records && all > before);
    CHECK_EQ(value_in(first, 3), -6);
    finish(&s);
    stage_close(&s);
}

/* A client leaves: what of it waits is not computed when it can be. */
static void test_unwanted(const void *argument)
{
    static stage s;
    static const uint64_t in[WORKERS] = {1, 1, 1}, out[WORKERS] = {2, 2, 2};
    if (!stage_open(&s, argument))
        return;
    player *first = &s.players[0];
    for (int k = 0; k < WORKERS; k++)
        write_full(&s.players[k], 1, 1, 2 * GT_TIMING_SMALL, k + 1);
    write_sum(&s, 1, 2 * GT_TIMING_SMALL, in, out);
    write_ins(first, 1, (gt_instruction){.op = GT_OP_neg, .result = 3, .operand = {2}});
    gt_instruction left = {.op = GT_OP_share};
    left.imm[0].u = 1;
    left.imm[1].u = GT_SHARE_LEFT;
    write_ins(first, 0, left);
    finish(&s);
    for (int k = 0; k < WORKERS; k++)
        CHECK_EQ(value_in(&s.players[k], 2), 6); /* others take part in it */
    const gt_entry *result = gt__store_find(first->worker.store, 3);
    CHECK(result->state == GT_ENTRY_POISON && result->poison->err == GT_ERR_CANCELLED);
    stage_close(&s);
}

/* The first worker has this much room for the records of session 1, one of which waits. */
static void leave_no_room(player *p)
{
    gt_slot_queue *items = &p->worker.deferred.asides->items;
    items->most = gt__slot_queue_slots(items);
    p->worker.deferred.turn_ns = UINT64_MAX; /* records put aside run when they must, not in between */
}

/* Two sums of the same parties: the second waits at all workers but the first one for the result of the first. */
static void write_dependent_sums(stage *s)
{
    static const uint64_t in[WORKERS] = {1, 1, 1}, out[WORKERS] = {2, 2, 2};
    static const uint64_t next_in[WORKERS] = {3, 4, 4}, next_out[WORKERS] = {5, 5, 5};
    for (int k = 0; k < WORKERS; k++) {
        write_full(&s->players[k], 1, 1, LARGE, k + 1);
        write_full(&s->players[k], 1, 3, LARGE, 10);
    }
    write_sum(s, 1, LARGE, in, out);
    for (int k = 1; k < WORKERS; k++)
        write_ins(&s->players[k], 1, (gt_instruction){.op = GT_OP_neg, .result = 4, .operand = {2}});
    write_sum(s, 1, LARGE, next_in, next_out);
}

typedef struct other_worker {
    stage *s;
    player *p;
} other_worker;

static void *run_other(void *argument)
{
    const other_worker *other = argument;
    while (other->p->at < other->p->count)
        take_one(other->s, other->p);
    while (other->p->worker.deferred.count)
        idle(other->p);
    return NULL;
}

/* There is no room for a sum. The others come to it when they have what they need for the sum before, which is put aside. */
static void test_no_room(const void *argument)
{
    static stage s;
    pthread_t threads[WORKERS];
    other_worker others[WORKERS];
    if (!stage_open(&s, argument))
        return;
    player *first = &s.players[0];
    write_dependent_sums(&s);
    while (!first->worker.deferred.count)
        take_one(&s, first);
    leave_no_room(first);
    for (int k = 1; k < WORKERS; k++) {
        others[k] = (other_worker){.s = &s, .p = &s.players[k]};
        pthread_create(&threads[k], NULL, run_other, &others[k]);
    }
    while (first->at < first->count)
        take_one(&s, first);
    while (first->worker.deferred.count)
        idle(first);
    for (int k = 1; k < WORKERS; k++)
        pthread_join(threads[k], NULL);
    for (int k = 0; k < WORKERS; k++) {
        CHECK_EQ(value_in(&s.players[k], 2), 6);
        CHECK_EQ(value_in(&s.players[k], 5), 10 - 6 - 6);
    }
    stage_close(&s);
}

/* The dispatcher leaves meanwhile: the others do not come any more. */
static void test_no_room_at_the_end(const void *argument)
{
    static stage s;
    if (!stage_open(&s, argument))
        return;
    player *first = &s.players[0];
    write_dependent_sums(&s);
    while (!first->worker.deferred.count)
        take_one(&s, first);
    leave_no_room(first);
    gt__link_kill(first->worker.link, "a test");
    while (first->at < first->count)
        take_one(&s, first);
    CHECK_EQ(first->worker.deferred.count, 1);
    stage_close(&s);
}

/* A record waits for room, and is put aside with its own number: a worker that was replaced before it has not left since. */
static void test_number_after_waiting_for_room(const void *argument)
{
    static stage s;
    static const uint64_t in[WORKERS] = {1, 1, 1}, out[WORKERS] = {2, 2, 2};
    if (!stage_open(&s, argument))
        return;
    player *first = &s.players[0];
    const gt_deferred *deferred = &first->worker.deferred;
    gt_slot recv[2] = {{.ins = {.op = GT_OP_recv, .dtype = GT_INT64, .rank = 1, .tail = 1, .result = 3}}};
    recv->ins.imm[0].i = 1;
    recv->ins.imm[1].u = UINT64_MAX;
    recv[1].i64[0] = SMALL;
    for (int k = 0; k < WORKERS; k++)
        write_full(&s.players[k], 1, 1, SMALL, k + 1);
    write_sum(&s, 1, SMALL, in, out);
    while (first->at < first->count)
        take_one(&s, first);
    leave_no_room(first);
    for (int k = 1; k < WORKERS; k++)
        while (s.players[k].at < s.players[k].count)
            take_one(&s, &s.players[k]);
    for (int k = 0; k < 3; k++) /* records that have numbers in between */
        write_full(first, 1, 4, SMALL, k);
    write_record(first, 1, recv);
    while (first->at < first->count)
        take_one(&s, first);
    if (CHECK_EQ(deferred->count, 1))
        CHECK_EQ(gt__aside_first(deferred->asides).number, first->worker.timing.records + deferred->ahead);
    stage_close(&s);
}

/* The dispatcher holds a session back until it is told that there is room again. */
static void test_room_is_told(const void *argument)
{
    static stage s;
    static const uint64_t in[WORKERS] = {1, 1, 1}, out[WORKERS] = {2, 2, 2};
    if (!stage_open(&s, argument))
        return;
    player *first = &s.players[0];
    for (int k = 0; k < WORKERS; k++)
        write_full(&s.players[k], 1, 1, SMALL, k + 1);
    write_sum(&s, 1, SMALL, in, out);
    finish(&s);
    gt_aside *aside = first->worker.deferred.asides;
    if (CHECK(aside && !aside->count)) {
        aside->full = true; /* it was told so, and could not be told more when the last record had run */
        gt__deferred_tell(&first->worker);
        gt__link_flush(first->worker.link);
        bool told = false;
        size_t available;
        for (const gt_slot *answer; (answer = gt__link_peek(first->link, &available));) {
            told |= answer->ins.op == GT_OP_share && answer->ins.imm[1].u == GT_SHARE_ROOM;
            gt__link_consume(first->link, 1u + answer->ins.tail);
        }
        CHECK(told);
        CHECK(!first->worker.deferred.asides);
    }
    stage_close(&s);
}

static void put_on_link(gt_link *link, const gt_slot *record)
{
    unsigned length = 1u + record->ins.tail;
    gt_slot *out = gt__link_reserve(link, length);
    if (!CHECK(out != NULL))
        return;
    memcpy(out, record, length * sizeof *record);
    gt__link_commit(link, length);
}

/* The worker ends while a run of a path, of which it knows or which was forgotten, waits for another worker. */
static void test_end(const void *forgotten)
{
    gt_worker_options options = {.backend = "cpu", .board = gt__board_new(), .threads = 1};
    gt_link *link, *workers;
    gt_slot welcome = {.ins = {.op = GT_OP_welcome, .operand = {0, 1, 1}}};
    gt_slot recv[2] = {{.ins = {.op = GT_OP_recv, .dtype = GT_INT64, .rank = 1, .tail = 1, .result = 1}}};
    gt_slot neg = {.ins = {.op = GT_OP_neg, .result = 1, .operand = {GT_PATH_INPUT}}}, path[8] = {{{0}}},
            run[2] = {{{0}}};
    if (!CHECK_EQ(gt__link_memory_pair(&link, &workers), GT_OK))
        return;
    welcome.ins.imm[0].i = GT_PROTOCOL_VERSION;
    recv->ins.imm[0].i = recv->ins.imm[1].i = 1;
    recv[1].i64[0] = SMALL;
    size_t slots = gt__path_definition_slots(1, 1, 0);
    gt__path_define(&neg, 1, 1, &(uint32_t){0}, NULL, 0, path + 1);
    path->ins = (gt_instruction){.op = GT_OP_path, .tail = (uint16_t)slots, .imm = {{.u = 0}, {.u = slots}}};
    run->ins = (gt_instruction){.op = GT_OP_repeat, .tail = 1, .imm = {{.u = 2}}};
    run[1].u64[0] = 1;
    run[1].u64[1] = 2;
    put_on_link(link, &welcome);
    put_on_link(link, recv);
    put_on_link(link, path);
    put_on_link(link, run);
    if (forgotten)
        put_on_link(link, &(gt_slot){.ins = {.op = GT_OP_path}});
    gt__goodbye_send(link, "");
    CHECK_EQ(gt__worker_run(&options, workers), GT_OK);
    gt__link_close(link);
    gt__board_free(options.board);
}

/* ---- random programs ------------------------------------------------------------------------------------------ */

typedef struct tensor {
    uint64_t session, slot;
    unsigned worker;
    int64_t size, value;
} tensor;

typedef struct program {
    stage *s;
    numbers random;
    tensor tensors[TENSORS];
    unsigned count;
} program;

static tensor *add_tensor(program *p, uint64_t session, unsigned worker, int64_t size, int64_t value)
{
    tensor *t = &p->tensors[p->count++];
    *t = (tensor){.session = session, .worker = worker, .size = size, .value = value};
    t->slot = new_slot(&p->s->players[worker]);
    return t;
}

/* Any tensor of this kind; -1: none. */
static int pick(program *p, uint64_t session, int worker, int64_t size)
{
    unsigned from = (unsigned)numbers_below(&p->random, p->count + 1);
    for (unsigned k = 0; k < p->count; k++) {
        unsigned at = (from + k) % p->count;
        const tensor *t = &p->tensors[at];
        if (t->session == session && (worker < 0 || t->worker == (unsigned)worker) && (!size || t->size == size))
            return (int)at;
    }
    return -1;
}

/* The number of its slot may be used again by the next record. */
static void drop(program *p, unsigned at)
{
    player *owner = &p->s->players[p->tensors[at].worker];
    owner->free[owner->free_count++] = p->tensors[at].slot;
    p->tensors[at] = p->tensors[--p->count];
}

static void make_tensor(program *p, uint64_t session, unsigned worker, int64_t size)
{
    int64_t value = (int64_t)numbers_below(&p->random, 1000);
    const tensor *t = add_tensor(p, session, worker, size, value);
    write_full(&p->s->players[worker], session, t->slot, size, value);
}

static void add_two(program *p, uint64_t session, bool consumes)
{
    int a = pick(p, session, -1, 0);
    int b = a < 0 ? -1 : pick(p, session, (int)p->tensors[a].worker, p->tensors[a].size);
    if (b < 0 || (consumes && a == b))
        return;
    tensor x = p->tensors[a], y = p->tensors[b];
    const tensor *t = add_tensor(p, session, x.worker, x.size, x.value + y.value);
    write_ins(&p->s->players[x.worker], session,
              (gt_instruction){.op = GT_OP_add,
                               .flags = consumes ? GT_FLAG_CONSUMES : 0,
                               .result = t->slot,
                               .operand = {x.slot, y.slot}});
    if (consumes)
        drop(p, (unsigned)a);
}

static void sum_all(program *p, uint64_t session, int64_t size)
{
    uint64_t in[WORKERS], out[WORKERS];
    int64_t sum = 0;
    for (int k = 0; k < WORKERS; k++) {
        int at = pick(p, session, k, size);
        if (at < 0)
            return;
        in[k] = p->tensors[at].slot;
        sum += p->tensors[at].value;
    }
    for (unsigned k = 0; k < WORKERS; k++)
        out[k] = add_tensor(p, session, k, size, sum)->slot;
    write_sum(p->s, session, size, in, out);
}

static void move_one(program *p, uint64_t session, unsigned to)
{
    int at = pick(p, session, -1, 0);
    if (at < 0 || p->tensors[at].worker == to)
        return;
    tensor from = p->tensors[at];
    const tensor *t = add_tensor(p, session, to, from.size, from.value);
    write_move(p->s, session, from.worker, from.slot, to, t->slot, from.size);
}

/* Several tensors of one worker, of any sessions, in one record that belongs to none. */
static void free_some(program *p, unsigned worker)
{
    gt_instruction ins = {.op = GT_OP_free};
    uint64_t *slots[] = {&ins.result, &ins.operand[0], &ins.operand[1]};
    unsigned count = 0;
    for (uint64_t session = 1; session <= SESSIONS; session++) {
        int at = pick(p, session, (int)worker, 0);
        if (at < 0 || numbers_below(&p->random, 2))
            continue;
        *slots[count++] = p->tensors[at].slot;
        drop(p, (unsigned)at);
    }
    if (count)
        write_ins(&p->s->players[worker], 0, ins);
}

static void write_step(program *p)
{
    numbers *random = &p->random;
    uint64_t session = 1 + numbers_below(random, SESSIONS);
    unsigned worker = (unsigned)numbers_below(random, WORKERS);
    int64_t size = numbers_below(random, 2) ? SMALL : LARGE;
    int at = pick(p, session, (int)worker, 0);
    if (p->count > TENSORS - 2 * WORKERS) {
        free_some(p, worker);
        return;
    }
    switch (numbers_below(random, 8)) {
    case 0:
        make_tensor(p, session, worker, size);
        return;
    case 1:
    case 2:
        add_two(p, session, numbers_below(random, 2));
        return;
    case 3:
        sum_all(p, session, size);
        return;
    case 4:
        move_one(p, session, worker);
        return;
    case 5:
    case 6:
        free_some(p, worker);
        return;
    default:
        if (at >= 0)
            write_fetch(p->s, session, worker, p->tensors[at].slot, p->tensors[at].value);
    }
}

/* One worker is far ahead of the others at a time. */
static void take_all(stage *s, numbers *random)
{
    for (int rounds = 0; !is_done(s) && CHECK(rounds < ROUNDS); rounds++) {
        player *p = &s->players[numbers_below(random, WORKERS)];
        uint64_t most = 1 + numbers_below(random, 100);
        for (uint64_t k = 0; k < most && p->at < p->count; k++)
            take_one(s, p);
        if (p->at == p->count)
            idle(p);
    }
}

static void test_random(const void *argument)
{
    enum { PROGRAMS = 12, STEPS = 600 };
    static stage s;
    static program p;
    for (uint64_t seed = 0; seed < PROGRAMS; seed++) {
        if (!stage_open(&s, argument))
            return;
        p = (program){.s = &s, .random.state = seed};
        for (uint64_t session = 1; session <= SESSIONS; session++)
            for (unsigned k = 0; k < WORKERS; k++) {
                make_tensor(&p, session, k, SMALL);
                make_tensor(&p, session, k, LARGE);
            }
        for (int k = 0; k < STEPS; k++)
            write_step(&p);
        take_all(&s, &p.random);
        finish(&s);
        for (unsigned k = 0; k < p.count; k++)
            CHECK_EQ(value_in(&s.players[p.tensors[k].worker], p.tensors[k].slot), p.tensors[k].value);
        for (uint64_t k = 1; k <= s.next_question; k++)
            CHECK_EQ(s.heard[k], s.expected[k]);
        stage_close(&s);
    }
}

/* A worker lends as many tensors as a drained one sends at once. Those that the other has read are found without a look at all of them
 * for each record. */
static void test_many_loans(const void *argument)
{
    enum { MANY = 30000, MOST_S = 10 };
    static stage s;
    if (!stage_open(&s, argument))
        return;
    player *lender = &s.players[0], *reader = &s.players[1];
    gt_worker *worker = &lender->worker;
    clock_t before = clock();
    write_full(lender, 1, 1, SMALL, 5);
    for (int k = 0; k < MANY; k++)
        write_move(&s, 1, 0, 1, 1, 1, SMALL);
    while (lender->at < lender->count && clock() - before < MOST_S * CLOCKS_PER_SEC)
        take_one(&s, lender);
    CHECK(worker->loans.first);
    while (reader->at < reader->count && clock() - before < MOST_S * CLOCKS_PER_SEC) {
        take_one(&s, reader);
        gt__peers_reclaim(worker);
    }
    if (CHECK(clock() - before < MOST_S * CLOCKS_PER_SEC)) {
        CHECK(!worker->loans.first);
        CHECK_EQ(value_in(reader, 1), 5);
    }
    stage_close(&s);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("others go on", test_others_go_on, "cpu");
    check_run("times", test_times, "cpu");
    check_run("the dispatcher watches", test_watched, "cpu");
    check_run("few round trips", test_round_trips, "cpu");
    check_run("a slot that becomes another's", test_slot_of_another, "cpu");
    check_run("hidden slots are few", test_hidden_slots_are_few, "cpu");
    check_run("reports", test_reports, "cpu");
    check_run("a client has left", test_unwanted, "cpu");
    check_run("no room for a sum", test_no_room, "cpu");
    check_run("no room for a sum, and the dispatcher leaves", test_no_room_at_the_end, "cpu");
    check_run("the number of a record that waited for room", test_number_after_waiting_for_room, "cpu");
    check_run("the dispatcher is told of room", test_room_is_told, "cpu");
    check_run("the worker ends", test_end, NULL);
    check_run("the worker ends, and a path was forgotten", test_end, "forgotten");
    check_run("random programs", test_random, "cpu");
    check_run("random programs on an asynchronous engine", test_random, "late");
    check_run("random programs in memory that the host cannot touch", test_random, "far");
    check_run("many loans", test_many_loans, "far");
    return check_end();
}

/*
 * test_record.c: which tensors a record names (record.h), against the table of records in instruction.h and op.h, and
 * the queue that records wait in (slot_queue.h).
 */
#include "core/record.h"

#include <stdlib.h>

#include "core/record_range.h"
#include "core/slot_queue.h"
#include "random_numbers.h"
#include "record_examples.h"

/* ---- ids ---------------------------------------------------------------------------------------------------- */

enum { MOST_IDS = GT_MAX_CAT + 1 };

typedef struct named {
    uint64_t id[MOST_IDS];
    unsigned use[MOST_IDS], count;
} named;

static void look_at(const gt_slot *record, named *n)
{
    n->count = 0;
    for (gt_record_ids ids = gt__record_ids(record); gt__record_ids_next(&ids) && CHECK(n->count < MOST_IDS);) {
        n->id[n->count] = *ids.id;
        n->use[n->count++] = ids.use;
    }
}

static void expect(const gt_slot *record, const named *wanted)
{
    named found;
    look_at(record, &found);
    CHECK_EQ(found.count, wanted->count);
    for (unsigned k = 0; k < wanted->count && k < found.count; k++) {
        CHECK_EQ(found.id[k], wanted->id[k]);
        CHECK_EQ(found.use[k], wanted->use[k]);
    }
}

/* Every computing op with operands 101, 102, ... and result 7: what the row says, and what the literals leave of it. */
static void test_computing(const void *argument)
{
    (void)argument;
    for (unsigned op = 1; op < GT_OP_FIRST_CONTROL; op++)
        for (unsigned literal = 0; literal <= GT_MAX_OPERANDS; literal++) {
            gt_slot record[2] = {{.ins = {.op = (uint16_t)op, .result = 7, .operand = {101, 102, 103}}}};
            unsigned operands = gt__op_table[op].operands;
            named wanted = {0};
            if (op == GT_OP_cat || literal > operands)
                continue;
            if (literal) /* counted from one; 0: all are tensors */
                record->ins.literals = (uint8_t)(GT_LITERAL_FLOAT << (2 * (literal - 1)));
            for (unsigned k = 0; k < operands; k++)
                if (k + 1 != literal) {
                    wanted.use[wanted.count] = GT_ID_READ;
                    wanted.id[wanted.count++] = 101 + k;
                }
            wanted.use[wanted.count] = GT_ID_WRITTEN;
            wanted.id[wanted.count++] = 7;
            expect(record, &wanted);
            gt_operands o = gt__record_operands(&record->ins, record + 1);
            CHECK_EQ(o.count, operands);
            for (unsigned k = 0; k < o.count; k++) {
                CHECK_EQ(o.id[k], 101 + k);
                CHECK_EQ(gt__operand_is_tensor(&o, k), k + 1 != literal);
            }
        }
}

static void test_consumed(const void *argument)
{
    (void)argument;
    gt_slot record[4] = {{.ins = {.op = GT_OP_assign, .tail = 3, .result = 7, .operand = {5, 6}}}};
    CHECK_EQ(gt__record_consumed(&record->ins), 0);
    record->ins.flags = GT_FLAG_CONSUMES;
    CHECK_EQ(gt__record_consumed(&record->ins), 5);
    expect(record,
           &(named){.id = {5, 6, 7}, .use = {GT_ID_READ | GT_ID_FREED, GT_ID_READ, GT_ID_WRITTEN}, .count = 3});
    record->ins = (gt_instruction){.op = GT_OP_fetch, .flags = GT_FLAG_CONSUMES, .operand = {5}};
    CHECK_EQ(gt__record_consumed(&record->ins), 0);
}

/* The list in the tail, of every length; what the fields of the record itself hold means nothing. */
static void test_cat(const void *argument)
{
    (void)argument;
    for (unsigned count = 1; count <= GT_MAX_CAT; count += count < 20 ? 1 : 59) {
        static gt_slot record[1 + GT_MAX_CAT / 8];
        static named wanted;
        record->ins = (gt_instruction){.op = GT_OP_cat, .result = 9, .literals = 0x3f, .operand = {1, 2, 3}};
        record->ins.tail = (uint16_t)((count + 7) / 8);
        record->ins.imm[1].u = count;
        wanted.count = count + 1;
        for (unsigned k = 0; k < count; k++) {
            record[1 + k / 8].u64[k % 8] = wanted.id[k] = 1000 + k;
            wanted.use[k] = GT_ID_READ;
        }
        wanted.id[count] = 9;
        wanted.use[count] = GT_ID_WRITTEN;
        expect(record, &wanted);
        gt_operands o = gt__record_operands(&record->ins, record + 1);
        CHECK_EQ(o.count, count);
        CHECK(gt__operand_is_tensor(&o, count - 1));
    }
}

static void test_control(const void *argument)
{
    (void)argument;
    static const struct {
        gt_opcode op;
        unsigned operand, result; /* uses; 0: no id */
    } rows[] = {
        {.op = GT_OP_data, .operand = GT_ID_WRITTEN},
        {.op = GT_OP_fetch, .operand = GT_ID_READ},
        {.op = GT_OP_placement, .operand = GT_ID_READ},
        {.op = GT_OP_name, .operand = GT_ID_READ},
        {.op = GT_OP_send, .operand = GT_ID_READ},
        {.op = GT_OP_recv, .result = GT_ID_WRITTEN},
        {.op = GT_OP_all_reduce, .operand = GT_ID_READ, .result = GT_ID_WRITTEN},
        {.op = GT_OP_reduce_scatter, .operand = GT_ID_READ, .result = GT_ID_WRITTEN},
        {.op = GT_OP_all_gather, .operand = GT_ID_READ, .result = GT_ID_WRITTEN},
        {.op = GT_OP_broadcast, .operand = GT_ID_READ, .result = GT_ID_WRITTEN},
        {.op = GT_OP_all_to_all, .operand = GT_ID_READ, .result = GT_ID_WRITTEN},
    };
    for (unsigned op = GT_OP_FIRST_CONTROL; op < GT_OP_COUNT; op++) {
        gt_slot record = {.ins = {.op = (uint16_t)op, .result = 7, .operand = {5, 1, 2}}};
        named wanted = {0};
        if (op == GT_OP_free)
            continue;
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
            if (rows[k].op != op)
                continue;
            if (rows[k].operand) {
                wanted.use[wanted.count] = rows[k].operand;
                wanted.id[wanted.count++] = 5;
            }
            if (rows[k].result) {
                wanted.use[wanted.count] = rows[k].result;
                wanted.id[wanted.count++] = 7;
            }
        }
        expect(&record, &wanted);
    }
}

static void test_free(const void *argument)
{
    (void)argument;
    gt_slot record = {.ins = {.op = GT_OP_free, .result = 1, .operand = {2, 0, 4}}};
    record.ins.imm[1].u = 6;
    expect(&record,
           &(named){.id = {1, 2, 4, 6}, .use = {GT_ID_FREED, GT_ID_FREED, GT_ID_FREED, GT_ID_FREED}, .count = 4});
    gt_instruction packed = {.op = GT_OP_add, .scope = 3, .site = 4}; /* what was there before goes */
    unsigned count = 0;
    for (uint64_t id = 1; id <= GT_FREE_IDS; id++)
        CHECK_EQ(gt__free_append(&packed, &count, id), id == GT_FREE_IDS);
    CHECK(packed.op == GT_OP_free && packed.result == 1 && packed.operand[0] == 2 && packed.operand[2] == 4);
    CHECK(packed.imm[0].u == 5 && packed.imm[1].u == 6 && !packed.scope && !packed.site);
    count = 0;
    CHECK(!gt__free_append(&packed, &count, 9));
    CHECK(packed.result == 9 && !packed.operand[0] && !packed.imm[1].u);
}

/* Ids can be replaced where they are, and nothing else is touched. */
static void test_replace(const void *argument)
{
    (void)argument;
    for (unsigned op = 1; op < GT_OP_COUNT; op++) {
        example e;
        example_make((gt_opcode)op, &e);
        gt_slot before[1 + GT_MAX_TAIL], *record = e.record;
        size_t bytes = (1u + record->ins.tail) * sizeof *record;
        memcpy(before, record, bytes);
        for (gt_record_ids ids = gt__record_ids(record); gt__record_ids_next(&ids);)
            *ids.id += 1000;
        named was, is;
        look_at(before, &was);
        look_at(record, &is);
        CHECK_EQ(was.count, is.count);
        for (unsigned k = 0; k < is.count; k++)
            CHECK_EQ(is.id[k], was.id[k] + 1000);
        for (gt_record_ids ids = gt__record_ids(record); gt__record_ids_next(&ids);)
            *ids.id -= 1000;
        CHECK(memcmp(before, record, bytes) == 0);
    }
}

/* ---- the queue ---------------------------------------------------------------------------------------------- */

/* A record of a random length, its slots full of its number. */
static void make_record(gt_slot *record, uint64_t number, numbers *n)
{
    unsigned tail = (unsigned)(numbers_next(n) % 40);
    for (unsigned k = 0; k <= tail; k++)
        for (unsigned word = 0; word < 8; word++)
            record[k].u64[word] = number;
    record->ins.op = GT_OP_data;
    record->ins.tail = (uint16_t)tail;
}

static bool is_record(const gt_slot *record, uint64_t number)
{
    if (!record || record->ins.op != GT_OP_data || record->ins.imm[0].u != number)
        return false;
    for (unsigned k = 1; k <= record->ins.tail; k++)
        if (record[k].u64[0] != number || record[k].u64[7] != number)
            return false;
    return true;
}

static void test_queue_order(const void *argument)
{
    (void)argument;
    gt_slot_queue queue = {0};
    numbers n = {.state = 11};
    uint64_t in = 0, out = 0;
    size_t slots = 0, most = 0;
    CHECK(gt__slot_queue_empty(&queue) && !gt__slot_queue_first(&queue));
    for (int turn = 0; turn < 200000; turn++) {
        bool filling = turn / 5000 % 2 == 0; /* grows for a while, then drains */
        if (numbers_next(&n) % 5 < (filling ? 3u : 2u)) {
            gt_slot record[40];
            make_record(record, ++in, &n);
            CHECK(gt__slot_queue_append(&queue, record));
            slots += 1u + record->ins.tail;
        } else if (!gt__slot_queue_empty(&queue)) {
            const gt_slot *first = gt__slot_queue_first(&queue);
            CHECK(is_record(first, ++out));
            slots -= 1u + first->ins.tail;
            gt__slot_queue_pop(&queue);
        }
        CHECK_EQ(gt__slot_queue_slots(&queue), slots);
        CHECK_EQ(gt__slot_queue_empty(&queue), in == out);
        most = slots > most ? slots : most;
    }
    CHECK(queue.capacity <= 4 * most); /* what is done with does not pile up */
    for (; out < in; gt__slot_queue_pop(&queue))
        CHECK(is_record(gt__slot_queue_first(&queue), ++out));
    CHECK(gt__slot_queue_empty(&queue));
    gt__slot_queue_free(&queue);
    CHECK(!queue.slots && !queue.capacity);
}

static void test_queue_bound(const void *argument)
{
    (void)argument;
    gt_slot_queue queue = {.most = 100};
    gt_slot ten[10] = {{.ins = {.op = GT_OP_data, .tail = 9}}}, one = {.ins = {.op = GT_OP_sync}};
    for (int k = 0; k < 10; k++)
        CHECK(gt__slot_queue_append(&queue, ten));
    CHECK(!gt__slot_queue_append(&queue, &one));
    CHECK_EQ(gt__slot_queue_slots(&queue), 100);
    gt__slot_queue_pop(&queue);
    for (int k = 0; k < 10; k++) /* it counts what waits, not what has passed */
        CHECK(gt__slot_queue_append(&queue, &one));
    CHECK(!gt__slot_queue_reserve(&queue, 1));
    for (int turn = 0; turn < 1000; turn++) {
        gt__slot_queue_pop(&queue);
        while (gt__slot_queue_append(&queue, &one))
            continue;
        CHECK_EQ(gt__slot_queue_slots(&queue), 100);
    }
    gt__slot_queue_clear(&queue);
    CHECK(gt__slot_queue_empty(&queue) && gt__slot_queue_append(&queue, ten));
    gt__slot_queue_free(&queue);
    CHECK_EQ(queue.most, 100);
}

/* Written in place, and a room that is not used costs nothing. */
static void test_queue_reserve(const void *argument)
{
    (void)argument;
    gt_slot_queue queue = {0};
    for (unsigned k = 0; k < 1000; k++) {
        gt_slot *unused = gt__slot_queue_reserve(&queue, 3);
        gt_slot *out = unused ? gt__slot_queue_reserve(&queue, 2) : NULL;
        if (!CHECK(out))
            return;
        out->ins = (gt_instruction){.op = GT_OP_full, .tail = 1, .result = k};
        gt__slot_queue_commit(&queue, 2);
    }
    CHECK_EQ(gt__slot_queue_slots(&queue), 2000);
    for (unsigned k = 0; k < 1000; k++) {
        CHECK_EQ(gt__slot_queue_first(&queue)->ins.result, k);
        gt__slot_queue_pop(&queue);
    }
    gt__slot_queue_free(&queue);
}

/* ---- ranges ------------------------------------------------------------------------------------------------- */

static void check_range(uint64_t first, uint64_t length, uint64_t near)
{
    uint64_t word = gt__record_range_pack((gt_record_range){first, first + length});
    gt_record_range range = gt__record_range_unpack(word, near);
    CHECK_EQ(range.first, first);
    CHECK_EQ(range.end, first + (length < GT_RANGE_MOST_LENGTH ? length : GT_RANGE_MOST_LENGTH));
}

static void test_ranges(const void *argument)
{
    static const uint64_t nears[] = {0, 1, 1000, (1ull << 40) - 5, (1ull << 40) + 5, 3ull << 41, UINT64_MAX >> 1};
    (void)argument;
    for (size_t k = 0; k < sizeof nears / sizeof *nears; k++)
        for (uint64_t away = 0; away < 1ull << 30; away = 3 * away + 1) {
            check_range(nears[k] + away, 1 + away % 100000, nears[k]);
            if (nears[k] >= away)
                check_range(nears[k] - away, 1ull << 30, nears[k]);
        }
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("computing records", test_computing, NULL);
    check_run("an operand that is consumed", test_consumed, NULL);
    check_run("cat", test_cat, NULL);
    check_run("control records", test_control, NULL);
    check_run("free", test_free, NULL);
    check_run("ids are replaced in place", test_replace, NULL);
    check_run("queue: order", test_queue_order, NULL);
    check_run("queue: bound", test_queue_bound, NULL);
    check_run("queue: reserve", test_queue_reserve, NULL);
    check_run("ranges of records", test_ranges, NULL);
    return check_end();
}

/* test_journal.c: the journal of a session against a plain array of the records that went in, and the segments that it holds. */
#include <stdlib.h>

#include "check.h"
#include "dispatcher/recover/hold.h"
#include "dispatcher/recover/journal.h"
#include "random_numbers.h"

enum { RECORDS = 20000 };

static gt_slot record_of(uint64_t number, unsigned tail)
{
    return (gt_slot){.ins = {.op = GT_OP_add, .tail = (uint16_t)tail, .result = number}};
}

static void put(gt_journal *journal, uint64_t number, unsigned tail)
{
    gt_slot *out = gt__journal_reserve(journal, 1 + tail);
    if (!CHECK(out))
        return;
    out[0] = record_of(number, tail);
    for (unsigned k = 0; k < tail; k++)
        out[1 + k] = (gt_slot){.u64 = {number}};
    gt__journal_commit(journal, 1 + tail);
}

/* Whether the journal from `position` on has the records from..to. */
static bool has(const gt_journal *journal, gt_journal_position position, uint64_t from, uint64_t to)
{
    const gt_slot *record;
    for (; (record = gt__journal_next(journal, &position)); from++) {
        if (!CHECK_EQ(record->ins.result, from))
            return false;
        for (unsigned k = 1; k <= record->ins.tail; k++)
            if (!CHECK_EQ(record[k].u64[0], from))
                return false;
    }
    return CHECK_EQ(from, to);
}

/* Records of one slot each, as session.c writes them. */
static bool append_run(gt_journal *journal, const gt_slot *run, size_t count)
{
    while (count) {
        size_t room;
        gt_slot *to = gt__journal_window(journal, &room);
        if (!to || !room)
            return false;
        size_t piece = count < room ? count : room;
        memcpy(to, run, piece * sizeof *run);
        gt__journal_commit(journal, (unsigned)piece);
        run += piece;
        count -= piece;
    }
    return true;
}

static void test_records_come_back(const void *unused)
{
    (void)unused;
    numbers random = {.state = 5};
    gt_journal_pool pool = {0};
    gt_journal journal = {.pool = &pool};
    uint64_t first = 0, next = 0, marked = 0;
    gt_journal_position mark = gt__journal_end(&journal);
    while (next < RECORDS) {
        uint64_t what = numbers_below(&random, 100);
        if (what < 60) {
            gt_slot run[70];
            unsigned count = 1 + (unsigned)numbers_below(&random, 70);
            for (unsigned k = 0; k < count; k++)
                run[k] = record_of(next + k, 0);
            CHECK(append_run(&journal, run, count));
            next += count;
        } else if (what < 95)
            put(&journal, next++, (unsigned)numbers_below(&random, GT_MAX_TAIL + 1));
        else if (what < 97) {
            mark = gt__journal_end(&journal);
            marked = next;
        } else {
            gt__journal_drop(&journal, mark);
            first = marked > first ? marked : first;
            mark = gt__journal_start(&journal);
            marked = first;
            if (!has(&journal, mark, first, next))
                break;
        }
    }
    has(&journal, gt__journal_start(&journal), first, next);
    gt__journal_drop(&journal, gt__journal_end(&journal));
    has(&journal, gt__journal_start(&journal), next, next);
    put(&journal, 7, 3);
    has(&journal, gt__journal_start(&journal), 7, 8);
    gt__journal_free(&journal);
    CHECK_EQ(journal.bytes, 0);
    CHECK(pool.spare); /* the large blocks are kept for others */
    gt__journal_pool_free(&pool);
}

/* A client may change a record in shared memory after it was checked. */
static void test_a_length_that_does_not_fit(const void *unused)
{
    (void)unused;
    gt_journal_pool pool = {0};
    gt_journal journal = {.pool = &pool};
    gt_slot run[3] = {record_of(0, 0), record_of(1, 500), record_of(2, 0)};
    CHECK(append_run(&journal, run, 3));
    gt_journal_position position = gt__journal_start(&journal);
    CHECK(gt__journal_next(&journal, &position));
    CHECK(!gt__journal_next(&journal, &position));
    CHECK(!gt__journal_next(&journal, &position));
    gt__journal_free(&journal);
    gt__journal_pool_free(&pool);
}

/* A large upload is held, however many there are: the dispatcher must not copy it, as everybody would wait. The others are held up to a
 * number, as descriptors are few. */
static void test_large_uploads_are_held(const void *unused)
{
    (void)unused;
    enum { MANY = 80 };
    const uint64_t large = (uint64_t)600 << 20, small = 1 << 20;
    uint32_t total = 0;
    gt_holds holds = {.total = &total};
    gt_segment *segment;
    if (!CHECK_EQ(gt__segment_new(large, &segment), GT_OK)) /* its pages are never touched */
        return;
    gt_slot upload = {.ins = {.op = GT_OP_upload, .result = 1}};
    for (int k = 0; k < MANY; k++) {
        upload.ins.imm[0].u = large;
        CHECK(gt__holds_take(&holds, segment, &upload));
    }
    CHECK(gt__segment_busy(segment)); /* the client leaves it alone */
    upload.ins.imm[0].u = small;
    CHECK(!gt__holds_take(&holds, segment, &upload));
    CHECK_EQ(holds.bytes, MANY * large);
    gt__holds_drop(&holds, holds.count);
    CHECK(gt__holds_take(&holds, segment, &upload));
    gt__holds_free(&holds);
    CHECK_EQ(total, 0);
    CHECK(!gt__segment_busy(segment));
    gt__segment_release(segment);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("records come back", test_records_come_back, NULL);
    check_run("a length that does not fit", test_a_length_that_does_not_fit, NULL);
    check_run("large uploads are held", test_large_uploads_are_held, NULL);
    return check_end();
}

/*
 * test_hotpath_detect.c: the detector of hot paths (client/hotpath_detect.h) on made-up streams: letters are records.
 */
#include <string.h>
#include <time.h>

#include "check.h"
#include "client/hotpath_detect.h"

typedef struct stream {
    gt_detector detector;
    uint64_t found; /* periods that became hot */
} stream;

static stream stream_new(unsigned threshold, unsigned shortest)
{
    stream s = {.found = 0};
    CHECK(gt__detector_init(&s.detector, 4096, threshold, shortest));
    return s;
}

static gt_canonical letter(unsigned kind, unsigned exact)
{
    return (gt_canonical){.shape = (kind + 1) * 0x9E3779B9u, .exact = exact};
}

static bool see(stream *s, unsigned kind, unsigned exact)
{
    bool hot =
        gt__detector_see(&s->detector, letter(kind, exact), 10, 100, false) || gt__detector_resumes(&s->detector);
    s->found += hot;
    return hot;
}

/* A word's letters, one record each; its number of hot reports. */
static unsigned see_word(stream *s, const char *word)
{
    unsigned found = 0;
    for (; *word; word++)
        found += see(s, (unsigned)*word, 0);
    return found;
}

static void test_period(const void *argument)
{
    (void)argument;
    for (unsigned threshold = 2; threshold < 6; threshold++) {
        stream s = stream_new(threshold, 2);
        unsigned turns = 0;
        while (!see_word(&s, "abcde") && turns < 100)
            turns++;
        CHECK(turns + 1 == threshold || turns == threshold);
        CHECK_EQ(s.detector.period, 5);
        CHECK_EQ(see_word(&s, "abcdeabcde"), 0); /* told once */
        see_word(&s, "xyz");
        for (turns = 0; turns < threshold + 1; turns++)
            see_word(&s, "abcde");
        CHECK_EQ(s.found, 2); /* and again after something else */
        gt__detector_free(&s.detector);
    }
    stream s = stream_new(2, 2);
    for (unsigned k = 0; k < 5000; k++)
        see(&s, k * 7919, 0); /* nothing repeats */
    CHECK_EQ(s.found, 0);
    gt__detector_free(&s.detector);
}

static void test_shortest(const void *argument)
{
    (void)argument;
    stream s = stream_new(3, 16);
    unsigned seen = 0;
    while (!see(&s, 'a', 0) && seen < 1000)
        seen++;
    CHECK(seen >= 32 && seen < 40); /* two times the shortest, after the first */
    gt_segment_plan segments[GT_HOT_SEGMENTS];
    CHECK_EQ(gt__detector_cut(&s.detector, segments), 1);
    CHECK(segments[0].begin == s.detector.position && segments[0].end - segments[0].begin >= 16);
    gt__detector_free(&s.detector);
}

/* The inner loop is short; the outer one is found, if the inner one is not long enough to be hot itself. */
static void test_nested(const void *argument)
{
    (void)argument;
    stream s = stream_new(3, 8);
    for (int k = 0; k < 20 && !s.found; k++)
        see_word(&s, "xababyzuvw");
    CHECK_EQ(s.found, 1);
    CHECK_EQ(s.detector.period, 10);
    gt__detector_free(&s.detector);
}

/* No record comes only once in a turn: the turn is found by several records together. */
static void test_ambiguous(const void *argument)
{
    (void)argument;
    stream s = stream_new(4, 20);
    for (int k = 0; k < 20 && !s.found; k++)
        see_word(&s, "ababbbaabbaaababab");
    CHECK_EQ(s.found, 1);
    CHECK_EQ(s.detector.period, 18);
    gt__detector_free(&s.detector);
}

/* Two loops that take turns, each of them several times. */
static void test_alternating(const void *argument)
{
    (void)argument;
    for (int each = 2; each < 5; each++) {
        stream s = stream_new(6, 5);
        for (int k = 0; k < 20 * each; k++)
            see_word(&s, k / each % 2 ? "abcdefghijklmn" : "opqrstuvwxyz");
        CHECK_EQ(s.found, 1);
        CHECK_EQ(s.detector.period, 26 * each);
        gt__detector_free(&s.detector);
    }
}

/* A rare detour costs one period; two loops take turns. */
static void test_detours(const void *argument)
{
    (void)argument;
    stream s = stream_new(2, 4);
    for (int k = 0; k < 3; k++) {
        unsigned found = 0;
        for (int turn = 0; turn < 5; turn++)
            found += see_word(&s, "abcdefgh");
        CHECK_EQ(found, 1);
        see_word(&s, "pq");
    }
    for (int k = 0; k < 6; k++)
        see_word(&s, k % 2 ? "abcdefgh" : "ijklmn");
    CHECK_EQ(s.detector.period, 14);
    gt__detector_free(&s.detector);
}

/* Steps of a loop until one is learned as hotpath_learn.c does it: from where the cut says, unless something unforeseen comes. A detour
 * follows every so many steps. */
static unsigned steps_until_learned(unsigned step, unsigned every, unsigned detour)
{
    stream s = stream_new(10, 5);
    gt_segment_plan segments[GT_HOT_SEGMENTS] = {{.end = 0}};
    unsigned steps = 0;
    for (bool learned = false; !learned && steps < 1000; steps++)
        for (unsigned k = 0; !learned && k < step + (steps % every == every - 1 ? detour : 0); k++) {
            if (segments->end && !gt__detector_foresees(&s.detector, letter(k, 0)))
                segments->end = 0;
            if (see(&s, k, 0) && !segments->end)
                CHECK_EQ(gt__detector_cut(&s.detector, segments), 1);
            learned = segments->end && s.detector.position == segments->end;
        }
    gt__detector_free(&s.detector);
    return steps;
}

/* A loop with a detour every seven steps or more is found in about 20 steps, or less: not with the period from detour to detour, which takes
 * twelve times as many as it has. That is the one that is found if the detours are more frequent than that. */
static void test_frequent_detours(const void *argument)
{
    (void)argument;
    const struct {
        unsigned every, most;
    } rows[] = {{3, 36}, {4, 48}, {5, 60}, {7, 21}, {9, 16}, {10, 13}, {11, 11}, {100, 11}};
    const unsigned detours[] = {1, 8, 39, 79};
    for (unsigned row = 0; row < sizeof rows / sizeof *rows; row++)
        for (unsigned k = 0; k < sizeof detours / sizeof *detours; k++) {
            unsigned steps = steps_until_learned(79, rows[row].every, detours[k]);
            printf("     a detour of %u records every %u steps: %u steps\n", detours[k], rows[row].every, steps);
            CHECK(steps <= rows[row].most);
        }
    /* an evaluation that is longer than what came before it */
    CHECK(steps_until_learned(79, 10, 2000) <= 20);
}

static void test_cuts(const void *argument)
{
    (void)argument;
    gt_segment_plan segments[GT_HOT_SEGMENTS];
    stream s = stream_new(3, 2);
    for (int turn = 0; turn < 20 && !s.found; turn++) {
        s.detector.separator = true; /* the client waited before each turn */
        see_word(&s, "abcd");
        see(&s, 'e', (unsigned)turn); /* another each time */
        see_word(&s, "fghij");
    }
    CHECK_EQ(s.found, 1);
    if (CHECK_EQ(gt__detector_cut(&s.detector, segments), 2)) {
        uint64_t lengths[2], where = s.detector.position;
        for (int k = 0; k < 2; k++) {
            lengths[k] = segments[k].end - segments[k].begin;
            CHECK(segments[k].begin >= where && segments[k].end <= s.detector.position + 2 * s.detector.period);
            where = segments[k].end;
        }
        CHECK(lengths[0] + lengths[1] == 9 && (lengths[0] == 4 || lengths[0] == 5));
    }
    gt__detector_free(&s.detector);
}

/* A loop without waits is cut where no record uses what was made just before, wherever it is when it is found. */
static void test_begin(const void *argument)
{
    (void)argument;
    for (unsigned first = 0; first < 5; first++) {
        gt_segment_plan segments[GT_HOT_SEGMENTS];
        stream s = stream_new(3, 2);
        unsigned at = first;
        for (bool hot = false; !hot && at < 100; at++) {
            hot = see(&s, 'a' + at % 5, 0);
            gt_instruction ins = {.result = 1000, .operand = {at % 5 ? 999 : 1000 - 500}};
            gt__detector_reach(&s.detector, &ins, 1);
        }
        if (CHECK_EQ(gt__detector_cut(&s.detector, segments), 1))
            CHECK_EQ((first + segments[0].begin) % 5, 0);
        gt__detector_free(&s.detector);
    }
}

/* Literals that a path cannot have as parameters tell records apart; those that it can do not. */
static void test_canonical(const void *argument)
{
    (void)argument;
    gt_slot a[4] = {{.ins = {.op = GT_OP_mul, .literals = GT_LITERAL_FLOAT << 2}}}, b[4];
    memcpy(b, a, sizeof b);
    b->ins.literal[1].f = 3;
    CHECK(gt__canonical(a).exact == gt__canonical(b).exact);
    a->ins.op = b->ins.op = GT_OP_where;
    CHECK(gt__canonical(a).shape == gt__canonical(b).shape && gt__canonical(a).exact != gt__canonical(b).exact);
    a->ins.op = b->ins.op = GT_OP_assign;
    a->ins.tail = b->ins.tail = 3;
    CHECK(gt__canonical(a).exact != gt__canonical(b).exact);
    a->ins = (gt_instruction){.literals = GT_LITERAL_FLOAT << 2, .operand = {5, 6}, .imm = {{.u = 7}, {.u = 8}}};
    for (a->ins.op = 1; a->ins.op < GT_OP_FIRST_CONTROL; a->ins.op++) { /* the shortcut makes no difference */
        gt_canonical quick = gt__canonical(a), any = gt__canonical_any(a);
        CHECK(quick.shape == any.shape && quick.exact == any.exact);
    }
}

/* Most of the period runs in a few paths, as the updates of an optimizer do, but not all of it: it becomes one path. */
static void test_partly_in_paths(const void *argument)
{
    (void)argument;
    for (unsigned loose = 0; loose < 40; loose += 39) {
        stream s = stream_new(3, 2);
        for (unsigned turn = 0; turn < 10; turn++) {
            s.detector.separator = true; /* the client waited before each turn */
            for (unsigned k = 0; k < 160; k++) {
                uint32_t run = k < loose ? 0 : k % 40 ? GT_WITHIN_RUN : 1000 + k;
                s.found += gt__detector_see(&s.detector, letter(k, 0), 10, 100, run);
            }
        }
        CHECK_EQ(s.found, loose ? 1 : 0);
        gt__detector_free(&s.detector);
    }
}

/* Steps that run as one path each, and now and then something else: that becomes a path beside it. */
static void test_kept(const void *argument)
{
    (void)argument;
    enum { STEP = 100, STEPS = 10, OTHER = 20, PATH = 77 };
    gt_segment_plan segments[GT_HOT_SEGMENTS];
    stream s = stream_new(3, 5);
    for (unsigned k = 0; k < 10 * (STEPS * STEP + OTHER) && !s.found; k++) {
        unsigned at = k % (STEPS * STEP + OTHER);
        if (at < STEPS * STEP)
            s.found +=
                gt__detector_see(&s.detector, letter(at % STEP, 0), 10, 100, at % STEP ? GT_WITHIN_RUN : PATH);
        else
            see(&s, 1000 + at, 0);
    }
    CHECK_EQ(s.found, 1);
    if (CHECK_EQ(gt__detector_cut(&s.detector, segments), 1)) {
        CHECK_EQ(segments[0].end - segments[0].begin, OTHER);
        CHECK_EQ(segments[0].begin % (STEPS * STEP + OTHER), STEPS * STEP);
    }
    gt__detector_free(&s.detector);
}

/* A record that is another in one turn of eleven does not cut the loop; one that changes in every turn does. */
static void test_odd_turns(const void *argument)
{
    (void)argument;
    for (unsigned often = 0; often < 2; often++)
        for (unsigned odd = 0; odd < 11; odd++) {
            gt_segment_plan segments[GT_HOT_SEGMENTS];
            stream s = stream_new(10, 2);
            for (unsigned turn = 0; turn < 30 && !s.found; turn++) {
                see_word(&s, "abcd");
                see(&s, 'e', often ? turn : turn % 11 == odd);
                see_word(&s, "fghij");
            }
            CHECK_EQ(s.found, 1);
            CHECK_EQ(gt__detector_cut(&s.detector, segments), 1);
            CHECK(often ? segments[0].end - segments[0].begin == 9
                        : (segments[0].end - segments[0].begin) % 10 == 0);
            gt__detector_free(&s.detector);
        }
}

static void test_cost(const void *argument)
{
    (void)argument;
    enum { RECORDS = CHECK_SANITIZED ? 100000 : 5000000 };
    stream s = stream_new(10, 16);
    gt_slot records[64] = {{.ins = {.op = GT_OP_INVALID}}};
    for (unsigned k = 0; k < 64; k++)
        records[k].ins = (gt_instruction){.op = GT_OP_add, .site = k, .operand = {k, k}};
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    for (unsigned k = 0; k < RECORDS; k++)
        s.found += gt__detector_see(&s.detector, gt__canonical(&records[k % 61]), k, 100, false);
    clock_gettime(CLOCK_MONOTONIC, &after);
    double ns = (double)(after.tv_sec - before.tv_sec) * 1e9 + (double)(after.tv_nsec - before.tv_nsec);
    printf("     %.1f ns for each record\n", ns / RECORDS);
    CHECK_EQ(s.found, 1);
    gt__detector_free(&s.detector);
}

/* While a loop runs in paths the detector rests; what comes then is compared with the last turn. */
static void test_rest(const void *argument)
{
    (void)argument;
    enum { PATH = 77 };
    stream s = stream_new(3, 2);
    gt_detector *d = &s.detector;
    for (int turn = 0; turn < 6; turn++) {
        for (const char *word = "abcde"; *word; word++)
            gt__detector_see(d, letter((unsigned)*word, 0), 10, 100,
                             *word == 'a'   ? PATH
                             : *word == 'e' ? 0
                                            : GT_WITHIN_RUN);
        CHECK_EQ(d->turn, 0);
    }
    for (const char *word = "abcd"; *word; word++)
        gt__detector_see(d, letter((unsigned)*word, 0), 10, 100, *word == 'a' ? PATH : GT_WITHIN_RUN);
    gt__detector_rest(d, PATH, 4);
    CHECK_EQ(d->turn, 5);
    uint64_t position = d->position;
    for (int turn = 0; turn < 4; turn++) {
        CHECK(gt__detector_follow_record(d, letter('e', 0).shape));
        CHECK(gt__detector_follow_run(d, PATH, 4));
    }
    CHECK_EQ(d->position, position);
    CHECK(gt__detector_follow_record(d, letter('e', 0).shape));
    CHECK(!gt__detector_follow_record(d, letter('x', 0).shape)); /* awake again, the e was seen */
    CHECK(d->turn == 0 && d->position == position + 1 && d->period == 5);
    CHECK(!gt__detector_follow_run(d, PATH, 4));
    gt__detector_free(d);
}

static uint32_t draw(uint64_t *state, uint32_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % below);
}

/* The record to the one detector in full, and to the other one noted if that is enough. Whether it was. */
static bool see_both(stream *full, stream *quick, gt_canonical canonical, uint32_t live)
{
    gt_detector *d = &quick->detector;
    bool noted = gt__detector_goes_on(d, canonical.shape), behind = d->indexed < d->position;
    bool hot = gt__detector_see(&full->detector, canonical, live, 100, 0) || gt__detector_resumes(&full->detector);
    full->found += hot;
    if (noted)
        gt__detector_note(d, canonical, live, 100);
    else
        quick->found += gt__detector_see(d, canonical, live, 100, 0) || gt__detector_resumes(d);
    CHECK(full->found == quick->found && full->detector.told == d->told);
    CHECK(full->detector.period == d->period && full->detector.matched == d->matched);
    const gt_lapsed *lapsed = &d->lapsed, *expected_lapsed = &full->detector.lapsed;
    CHECK(expected_lapsed->period == lapsed->period && expected_lapsed->run == lapsed->run &&
          expected_lapsed->credit == lapsed->credit && expected_lapsed->needed == lapsed->needed);
    if (behind && !noted) /* the index is up to date again */
        CHECK(!memcmp(full->detector.last, d->last, (2 * sizeof *d->last) << d->index_bits));
    if (hot) {
        gt_segment_plan expected[GT_HOT_SEGMENTS], cut[GT_HOT_SEGMENTS];
        unsigned segments = gt__detector_cut(&full->detector, expected);
        CHECK_EQ(gt__detector_cut(d, cut), segments);
        for (unsigned k = 0; k < segments; k++)
            CHECK(expected[k].begin == cut[k].begin && expected[k].end == cut[k].end);
    }
    return noted;
}

/* Records that are only noted change nothing of what is found: short and long loops, broken off anywhere, with detours and waits, while
 * the ring grows and after it was overwritten. */
static void test_noted(const void *argument)
{
    (void)argument;
    enum { RECORDS = CHECK_SANITIZED ? 40000 : 200000 };
    uint64_t noted = 0, found = 0, state = 1;
    for (unsigned threshold = 2; threshold < 12; threshold += 3) {
        stream full = stream_new(threshold, 5), quick = stream_new(threshold, 5);
        for (unsigned at = 0; at < RECORDS;) {
            unsigned period = 1 + draw(&state, draw(&state, 3) ? 40 : 700), kinds = 1 + draw(&state, 60);
            unsigned first = draw(&state, 1000), count = draw(&state, 40) * period + draw(&state, period);
            bool waits = draw(&state, 4) == 0;
            for (unsigned k = 0; k < count; k++, at++) {
                unsigned kind = (first + k % period * k % period) % kinds;
                full.detector.separator |= waits && k % period == 0;
                quick.detector.separator |= waits && k % period == 0;
                kind = draw(&state, 2000) ? kind : 1000 + draw(&state, 9);
                noted += see_both(&full, &quick, letter(kind, draw(&state, 20) == 0), draw(&state, 10));
            }
        }
        found += full.found;
        gt__detector_free(&full.detector);
        gt__detector_free(&quick.detector);
    }
    CHECK(noted > RECORDS && found > 100); /* else nothing was compared */
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("period", test_period, NULL);
    check_run("shortest", test_shortest, NULL);
    check_run("nested loops", test_nested, NULL);
    check_run("turns of few kinds of records", test_ambiguous, NULL);
    check_run("alternating loops", test_alternating, NULL);
    check_run("detours", test_detours, NULL);
    check_run("frequent detours", test_frequent_detours, NULL);
    check_run("cuts", test_cuts, NULL);
    check_run("begin", test_begin, NULL);
    check_run("canonical form", test_canonical, NULL);
    check_run("partly in paths", test_partly_in_paths, NULL);
    check_run("steps and an evaluation", test_kept, NULL);
    check_run("odd turns", test_odd_turns, NULL);
    check_run("cost", test_cost, NULL);
    check_run("rest", test_rest, NULL);
    check_run("records that are only noted", test_noted, NULL);
    return check_end();
}

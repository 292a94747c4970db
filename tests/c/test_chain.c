/*
 * test_chain.c: chains of stream modifiers: how they are built by name, that records pass them whole and in order,
 * and what they count. A modifier of the test's own takes placement's place at the end and keeps what reaches it.
 */
#include <stdlib.h>

#include "dispatcher/modifier.h"
#include "random_numbers.h"
#include "record_examples.h"

/* ---- the end of the chain ----------------------------------------------------------------------------------- */

enum { KEPT_SLOTS = 4096 };

typedef struct keeper {
    gt_modifier base;
    gt_slot kept[KEPT_SLOTS];
    unsigned slots, records, flushes;
} keeper;

static gt_err keeper_step(gt_modifier *modifier, const gt_slot *record)
{
    keeper *k = (keeper *)modifier;
    unsigned length = 1u + record->ins.tail;
    if (k->slots + length > KEPT_SLOTS)
        return gt__fail(GT_ERR_MEMORY, "the keeper is full");
    memcpy(k->kept + k->slots, record, length * sizeof *record);
    k->slots += length;
    k->records++;
    return GT_OK;
}

static gt_err keeper_flush(gt_modifier *modifier, gt_flush why)
{
    (void)why;
    ((keeper *)modifier)->flushes++;
    return GT_OK;
}

static const gt_modifier_ops keeper_ops = {
    .name = "keeper", .size = sizeof(keeper), .step = keeper_step, .flush = keeper_flush};

typedef struct chain {
    gt_modifier *first, *place;
    keeper end;
} chain;

static gt_modifier **last_of(gt_modifier **first)
{
    while ((*first)->next)
        first = &(*first)->next;
    return first;
}

/* A chain as a session would have it, except that the keeper stands where placement was. */
static bool chain_open(chain *c, const char *names)
{
    memset(c, 0, sizeof *c);
    if (!CHECK_EQ(gt__chain_open(names, NULL, NULL, &c->first), GT_OK))
        return false;
    gt_modifier **last = last_of(&c->first);
    c->place = *last;
    CHECK(c->place->ops == &gt__modifier_place);
    c->end.base.ops = &keeper_ops;
    *last = &c->end.base;
    return true;
}

static void chain_close(chain *c)
{
    *last_of(&c->first) = c->place;
    gt__chain_close(&c->first);
    CHECK(!c->first);
}

static char *chain_stats(const chain *c)
{
    char *text = NULL;
    size_t size = 0;
    FILE *json = open_memstream(&text, &size);
    gt__chain_stats(c->first, json);
    fclose(json);
    return text;
}

/* ---- names -------------------------------------------------------------------------------------------------- */

static void test_names(const void *argument)
{
    (void)argument;
    static const struct {
        const char *names;
        const char *stages[5];
    } cases[] = {
        {NULL, {"statistics", "place"}},
        {"", {"place"}},
        {"identity", {"identity", "place"}},
        {"statistics", {"statistics", "place"}},
        {"identity,statistics", {"identity", "statistics", "place"}},
        {"statistics,identity,statistics", {"statistics", "identity", "statistics", "place"}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        gt_modifier *first;
        unsigned count = 0;
        if (!CHECK_EQ(gt__chain_open(cases[k].names, NULL, NULL, &first), GT_OK))
            continue;
        for (const gt_modifier *stage = first; stage; stage = stage->next, count++)
            CHECK(cases[k].stages[count] && strcmp(stage->ops->name, cases[k].stages[count]) == 0);
        CHECK(!cases[k].stages[count]);
        gt__chain_close(&first);
    }
}

static void test_unknown_names(const void *argument)
{
    (void)argument;
    static const char *const wrong[] = {"identit",           "identityy", "place",
                                        "identity,nonsense", ",",         "identity, statistics"};
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        gt_modifier *first = (gt_modifier *)&first;
        CHECK_EQ(gt__chain_open(wrong[k], NULL, NULL, &first), GT_ERR_VALUE);
        CHECK(!first);
        CHECK(strstr(gt_error_text(), "identity") && strstr(gt_error_text(), "statistics"));
    }
    gt_modifier *first;
    gt__chain_open("identity,nonsense", NULL, NULL, &first);
    CHECK(strstr(gt_error_text(), "'nonsense'"));
}

/* ---- records ------------------------------------------------------------------------------------------------ */

/* One record of every op, its fields and tail full of noise that no stage may touch. */
static unsigned noisy_records(gt_slot *slots)
{
    numbers n = {.state = 5};
    unsigned total = 0;
    for (unsigned op = 1; op < GT_OP_COUNT; op++) {
        example e;
        example_make((gt_opcode)op, &e);
        unsigned length = 1u + e.record->ins.tail;
        e.record->ins.scope = (uint32_t)numbers_next(&n);
        e.record->ins.site = (uint32_t)numbers_next(&n);
        numbers_fill(&n, e.record + 1, (length - 1) * sizeof(gt_slot));
        memcpy(slots + total, e.record, length * sizeof(gt_slot));
        total += length;
    }
    return total;
}

static void test_unchanged(const void *argument)
{
    static gt_slot slots[KEPT_SLOTS];
    static chain c;
    unsigned total = noisy_records(slots), records = 0;
    if (!chain_open(&c, argument))
        return;
    for (unsigned at = 0; at < total; at += 1u + slots[at].ins.tail, records++)
        CHECK_EQ(c.first->ops->step(c.first, slots + at), GT_OK);
    CHECK_EQ(c.end.records, records);
    CHECK_EQ(c.end.slots, total);
    CHECK(memcmp(c.end.kept, slots, total * sizeof *slots) == 0);
    chain_close(&c);
}

static void test_statistics(const void *argument)
{
    (void)argument;
    static chain c;
    if (!chain_open(&c, "statistics"))
        return;
    gt_slot add = {.ins = {.op = GT_OP_add}};
    gt_slot full[2] = {{.ins = {.op = GT_OP_full, .tail = 1}}};
    for (int k = 0; k < 7; k++)
        CHECK_EQ(c.first->ops->step(c.first, &add), GT_OK);
    for (int k = 0; k < 3; k++)
        CHECK_EQ(c.first->ops->step(c.first, full), GT_OK);
    CHECK_EQ(gt__chain_flush(c.first, GT_FLUSH_SYNC), GT_OK);
    CHECK_EQ(gt__chain_flush(c.first, GT_FLUSH_SYNC), GT_OK);
    CHECK_EQ(c.end.flushes, 2);
    char *json = chain_stats(&c);
    CHECK(strcmp(json, "{\"statistics\": {\"records\": 10, \"bytes\": 832, \"syncs\": 2, \"ops\": {\"add\": 7, "
                       "\"full\": 3}}, \"keeper\": {}}") == 0);
    free(json);
    chain_close(&c);
    if (!chain_open(&c, "identity"))
        return;
    json = chain_stats(&c);
    CHECK(strcmp(json, "{\"identity\": {}, \"keeper\": {}}") == 0); /* counts nothing, but is there */
    free(json);
    chain_close(&c);
}

/* What the end refuses comes back through every stage, and later records still pass. */
static void test_failure(const void *argument)
{
    (void)argument;
    static chain c;
    if (!chain_open(&c, "identity,statistics,identity"))
        return;
    gt_slot sync = {.ins = {.op = GT_OP_sync}};
    c.end.slots = KEPT_SLOTS;
    CHECK_EQ(c.first->ops->step(c.first, &sync), GT_ERR_MEMORY);
    c.end.slots = 0;
    CHECK_EQ(c.first->ops->step(c.first, &sync), GT_OK);
    CHECK_EQ(c.end.records, 1);
    chain_close(&c);
}

/* ---- a modifier of our own ---------------------------------------------------------------------------------- */

/* Drops frees, doubles syncs, and holds the last computing record back until the next sync point. */
typedef struct rewriter {
    gt_modifier base;
    gt_slot held;
    bool holds;
} rewriter;

static gt_err rewriter_release(rewriter *r)
{
    if (!r->holds)
        return GT_OK;
    r->holds = false;
    return gt__modifier_emit(&r->base, &r->held);
}

static gt_err rewriter_step(gt_modifier *modifier, const gt_slot *record)
{
    rewriter *r = (rewriter *)modifier;
    if (record->ins.op == GT_OP_free)
        return GT_OK;
    if (record->ins.op == GT_OP_sync)
        GT_TRY(gt__modifier_emit(modifier, record));
    else {
        GT_TRY(rewriter_release(r));
        r->held = *record;
        r->holds = true;
        return GT_OK;
    }
    return gt__modifier_emit(modifier, record);
}

static gt_err rewriter_flush(gt_modifier *modifier, gt_flush why)
{
    (void)why;
    return rewriter_release((rewriter *)modifier);
}

static const gt_modifier_ops rewriter_ops = {
    .name = "rewriter", .size = sizeof(rewriter), .step = rewriter_step, .flush = rewriter_flush};

static void test_own_modifier(const void *argument)
{
    (void)argument;
    static chain c;
    if (!chain_open(&c, "identity,statistics"))
        return;
    gt_modifier *first = c.first;
    rewriter r = {.base = {.ops = &rewriter_ops, .next = first->next}};
    first->next = &r.base; /* between the two */
    static const gt_opcode in[] = {GT_OP_add,  GT_OP_free, GT_OP_mul, GT_OP_sync,
                                   GT_OP_free, GT_OP_neg,  GT_OP_sync};
    static const gt_opcode out[] = {GT_OP_add, GT_OP_mul,  GT_OP_sync, GT_OP_sync,
                                    GT_OP_neg, GT_OP_sync, GT_OP_sync};
    for (size_t k = 0; k < sizeof in / sizeof in[0]; k++) {
        gt_slot record = {.ins = {.op = (uint16_t)in[k]}};
        if (in[k] == GT_OP_sync)
            CHECK_EQ(gt__chain_flush(first, GT_FLUSH_SYNC), GT_OK);
        CHECK_EQ(first->ops->step(first, &record), GT_OK);
    }
    CHECK_EQ(c.end.records, sizeof out / sizeof out[0]);
    for (unsigned k = 0; k < c.end.records; k++)
        CHECK_EQ(c.end.kept[k].ins.op, out[k]);
    char *json = chain_stats(&c);
    CHECK(strstr(json, "\"records\": 7") && strstr(json, "\"sync\": 4") && !strstr(json, "\"free\""));
    free(json);
    first->next = r.base.next;
    chain_close(&c);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("names", test_names, NULL);
    check_run("unknown names", test_unknown_names, NULL);
    check_run("unchanged by identity", test_unchanged, "identity");
    check_run("unchanged by statistics", test_unchanged, "statistics");
    check_run("unchanged by several", test_unchanged, "identity,statistics,identity");
    check_run("statistics", test_statistics, NULL);
    check_run("failure", test_failure, NULL);
    check_run("a modifier of our own", test_own_modifier, NULL);
    return check_end();
}

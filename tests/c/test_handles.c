/* test_handles.c: a session's table of tensors against the plainest model there is: an array that is searched. */
#include <stdlib.h>

#include "check.h"
#include "dispatcher/handles.h"
#include "random_numbers.h"

/* ---- the model ---------------------------------------------------------------------------------------------- */

enum { MODEL_SIZE = 3000 };

typedef struct model {
    uint64_t id[MODEL_SIZE];
    uint32_t slot[MODEL_SIZE];
    unsigned count;
} model;

static int model_find(const model *m, uint64_t id)
{
    for (unsigned k = 0; k < m->count; k++)
        if (m->id[k] == id)
            return (int)k;
    return -1;
}

/* The slot of the removed handle, -1 if there was none. */
static int64_t remove_id(gt_handles *table, uint64_t id)
{
    int32_t worker;
    uint32_t slot;
    return gt__handles_remove(table, id, &worker, &slot) ? (int64_t)slot : -1;
}

static bool insert(gt_handles *table, uint64_t id, uint32_t slot)
{
    gt_handle *handle = NULL;
    if (!CHECK_EQ(gt__handles_insert(table, id, &handle), GT_OK))
        return false;
    handle->slot = slot;
    handle->worker = (int32_t)(slot % 5);
    return CHECK(handle->id == id);
}

static void compare(gt_handles *table, const model *m)
{
    CHECK_EQ(table->count, m->count);
    for (unsigned k = 0; k < m->count; k++) {
        const gt_handle *handle = gt__handles_find(table, m->id[k]);
        CHECK(handle && handle->id == m->id[k] && handle->slot == m->slot[k] &&
              handle->worker == (int32_t)(m->slot[k] % 5));
    }
    unsigned walked = 0;
    uint32_t cursor = 0;
    for (const gt_handle *handle; (handle = gt__handles_next(table, &cursor)); walked++)
        CHECK(model_find(m, handle->id) >= 0);
    CHECK_EQ(walked, m->count);
}

/* Ids by temper: growing by one as clients make them, equal in their high hash bits, or from a small set. */
static uint64_t pick_id(numbers *n, int temper, uint64_t *next)
{
    static const uint64_t inverse = 0xF1DE83E19937733Du; /* of the hash's multiplier, modulo 2^64 */
    switch (temper) {
    case 0:
        return ++*next;
    case 1:
        return (numbers_below(n, 4000) + 1) * inverse; /* the hash undone: all of these have one home */
    default:
        return 1 + numbers_below(n, 500);
    }
}

static void test_against_model(const void *argument)
{
    int temper = *(const int *)argument;
    static model m;
    numbers n = {.state = (uint64_t)temper};
    gt_handles table;
    uint64_t next = 0;
    m.count = 0;
    if (!CHECK_EQ(gt__handles_init(&table), GT_OK))
        return;
    for (int step = 0; step < 40000; step++) {
        bool growing = step / 5000 % 2 == 0;
        uint64_t id = pick_id(&n, temper, &next);
        int at = model_find(&m, id);
        if (numbers_below(&n, 3) < (growing ? 2u : 1u) && m.count < MODEL_SIZE) {
            gt_handle *handle;
            if (at >= 0) {
                CHECK_EQ(gt__handles_insert(&table, id, &handle), GT_ERR_PROTOCOL);
            } else if (insert(&table, id, (uint32_t)step)) {
                m.id[m.count] = id;
                m.slot[m.count++] = (uint32_t)step;
            }
        } else {
            if (m.count && numbers_below(&n, 2)) {
                at = (int)numbers_below(&n, m.count);
                id = m.id[at];
            }
            CHECK_EQ(remove_id(&table, id),
                     at >= 0 ? (int64_t)m.slot[at] : -1); /* sometimes one that is not there */
            if (at >= 0) {
                m.id[at] = m.id[--m.count];
                m.slot[at] = m.slot[m.count];
            }
            CHECK(!gt__handles_find(&table, id));
        }
        if (step % 1000 == 0)
            compare(&table, &m);
    }
    compare(&table, &m);
    gt__handles_free(&table);
}

/* ---- the edges ---------------------------------------------------------------------------------------------- */

static void test_zero(const void *argument)
{
    (void)argument;
    gt_handles table;
    gt_handle *handle;
    CHECK_EQ(gt__handles_init(&table), GT_OK);
    CHECK(!gt__handles_find(&table, 0));
    CHECK_EQ(gt__handles_insert(&table, 0, &handle), GT_ERR_PROTOCOL);
    remove_id(&table, 0);
    CHECK_EQ(table.count, 0);
    CHECK(insert(&table, UINT64_MAX, 1));
    remove_id(&table, 0);
    CHECK(gt__handles_find(&table, UINT64_MAX));
    gt__handles_free(&table);
}

static void test_growth(const void *argument)
{
    (void)argument;
    enum { MANY = 100000 };
    gt_handles table;
    CHECK_EQ(gt__handles_init(&table), GT_OK);
    for (uint64_t id = 1; id <= MANY; id++)
        insert(&table, id, (uint32_t)id);
    CHECK_EQ(table.count, MANY);
    for (uint64_t id = 1; id <= MANY; id++) {
        const gt_handle *handle = gt__handles_find(&table, id);
        CHECK(handle && handle->slot == id);
    }
    CHECK(!gt__handles_find(&table, MANY + 1));
    for (uint64_t id = 1; id <= MANY; id++)
        remove_id(&table, id);
    CHECK_EQ(table.count, 0);
    uint32_t cursor = 0;
    CHECK(!gt__handles_next(&table, &cursor));
    /* A long life of few tensors stays small: handles are reused. */
    uint32_t used = table.used;
    for (uint64_t id = MANY + 1; id <= 3 * MANY; id++) {
        insert(&table, id, 1);
        remove_id(&table, id);
    }
    CHECK_EQ(table.used, used);
    gt__handles_free(&table);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("growing ids", test_against_model, &(int){0});
    check_run("colliding ids", test_against_model, &(int){1});
    check_run("returning ids", test_against_model, &(int){2});
    check_run("id zero", test_zero, NULL);
    check_run("growth", test_growth, NULL);
    return check_end();
}

/*
 * program_values.h: what the sequences of program_sequences.h are given, how their steps are run one by one, and whether results are
 * the same.
 */
#ifndef GT_TESTS_PROGRAM_VALUES_H
#define GT_TESTS_PROGRAM_VALUES_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engines/cpu/movement.h"
#include "program_sequences.h"
#include "random_numbers.h"
#include "worker/views.h"
#include "worker_fixture.h"

static inline const char *tested_engine(void)
{
    const char *name = getenv("GT_TEST_ENGINE");
    return name ? name : "cpu";
}

static inline bool is_tested(const char *name)
{
    return strcmp(tested_engine(), name) == 0;
}

/* ---- inputs -------------------------------------------------------------------------------------------------- */

static inline double any_number(numbers *n, gt_dtype dtype, bool smooth)
{
    static const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e-41, -3e-310, 1e30, 7e4, 200};
    if (dtype == GT_BOOL)
        return (double)numbers_below(n, 2);
    if (!gt__dtype_is_float(dtype))
        return (double)numbers_below(n, 120) - 50 * (dtype != GT_UINT8);
    if (!smooth && numbers_below(n, 24) == 0)
        return special[numbers_below(n, sizeof special / sizeof *special)];
    return (double)(int64_t)(numbers_next(n) >> 11) / (double)(1ll << 51) - 2;
}

static inline void make_tensor(gt_worker *worker, const program *p, uint64_t id, gt_dtype dtype, unsigned rank,
                               const int64_t *shape, numbers *n)
{
    gt_slot record[8] = {
        {.ins = {.op = GT_OP_full, .dtype = (uint8_t)dtype, .rank = (uint8_t)rank, .tail = 1, .result = id}}};
    for (unsigned k = 0; k < rank; k++)
        record[1].i64[k] = shape[k];
    const gt_entry *entry = execute(worker, record);
    size_t bytes = gt__meta_bytes(&entry->view.meta);
    char *host = malloc(bytes + 1);
    gt_token token = 0;
    for (int64_t k = 0; k < entry->view.meta.numel; k++) {
        double number = any_number(n, dtype, p->smooth);
        gt__cpu_row_mover(dtype, GT_FLOAT64)(host + k * (int64_t)gt__dtype_size(dtype), 1, &number, 1, 1);
    }
    if (bytes) {
        CHECK_EQ(worker->engine->ops->write(worker->engine, entry->view.data, host, bytes, false, &token), GT_OK);
        gt__late_given(&worker->late, token);
        CHECK_EQ(gt__late_wait(worker, token), GT_OK);
    }
    free(host);
}

/* A part of a larger tensor, which begins at its second element. */
static inline void make_part(gt_worker *worker, const program *p, uint64_t id, gt_dtype dtype, unsigned rank,
                             const int64_t *shape, numbers *n)
{
    int64_t numel = 1;
    gt_slot part[8] = {{.ins = {.op = GT_OP_slice, .tail = 3, .result = KEPT, .operand = {KEPT + id}}}},
            shaped[8] = {
                {.ins = {.op = GT_OP_reshape, .rank = (uint8_t)rank, .tail = 1, .result = id, .operand = {KEPT}}}};
    for (unsigned k = 0; k < rank; k++)
        numel *= shaped[1].i64[k] = shape[k];
    make_tensor(worker, p, KEPT + id, dtype, 1, &(int64_t){numel + 1}, n);
    part[1].i64[0] = part[2].i64[0] = 1;
    part[3].i64[0] = numel;
    execute(worker, part);
    execute(worker, shaped);
}

/* Whole, as rows, as columns, single numbers, transposed, of three dimensions; the same for the same seed. Of those that share their
 * memory, every other seed has some at addresses that are no multiple of anything. */
static inline void make_inputs(gt_worker *worker, const program *p, uint64_t seed)
{
    numbers n = {.state = seed};
    int64_t r = p->rows, c = p->columns;
    const int64_t shapes[INPUTS][3] = {{r, c}, {r, c}, {r, c}, {c}, {r, 1}, {1}, {1, c}, {c, r}, {r, c}};
    const unsigned ranks[INPUTS] = {2, 2, 2, 1, 2, 0, 2, 2, 2};
    for (uint64_t id = 1; id <= INPUTS; id++) {
        gt_dtype dtype = p->dtypes[id % 3];
        if (p->shared[id] && (seed + id) % 4 == 1) {
            make_part(worker, p, id, dtype, ranks[id - 1], shapes[id - 1], &n);
            continue;
        }
        make_tensor(worker, p, id, dtype, ranks[id - 1], shapes[id - 1], &n);
        gt_slot keep[8] = {{.ins = {.op = GT_OP_permute, .result = KEPT + id, .operand = {id}}}};
        keep->ins.imm[0].u = ranks[id - 1] == 2 ? 1 : 0; /* a view: the memory has two users */
        if (p->shared[id])
            execute(worker, keep);
        else
            gt__store_clear(worker->store, gt__store_entry(worker->store, KEPT + id));
    }
}

/* ---- running ------------------------------------------------------------------------------------------------- */

static inline void run_record(gt_worker *worker, const gt_slot *record)
{
    gt__worker_execute(worker, &record->ins, record + 1);
    gt__late_drain(worker);
    gt__store_settle(worker->store, gt__store_entry(worker->store, record->ins.result));
}

static inline void run_directly(gt_worker *worker, const program *p)
{
    for (size_t at = 0; at < p->slots; at += 1u + p->records[at].ins.tail)
        if (p->records[at].ins.op != GT_OP_free)
            run_record(worker, p->records + at);
}

/* ---- comparing ----------------------------------------------------------------------------------------------- */

/* The same numbers, or nearly; which NaN it is depends on the order of operands, which compilers choose. */
static inline bool close_enough(gt_dtype dtype, const char *a, const char *b, int64_t count, bool nearly)
{
    double tolerance = dtype == GT_BFLOAT16 || dtype == GT_FLOAT16 ? 0.1 : 1e-3; /* doubles may come from floats */
    for (int64_t k = 0; k < count; k++) {
        double x, y;
        int64_t at = k * (int64_t)gt__dtype_size(dtype);
        gt__cpu_row_mover(GT_FLOAT64, dtype)(&x, 1, a + at, 1, 1);
        gt__cpu_row_mover(GT_FLOAT64, dtype)(&y, 1, b + at, 1, 1);
        bool same = (x == y && signbit(x) == signbit(y)) || (isnan(x) && isnan(y)) ||
                    (nearly && fabs(x - y) <= tolerance * (1 + fabs(x)));
        if (!same)
            return false;
    }
    return true;
}

static inline bool same_value(gt_worker *worker, const program *p, uint64_t a, uint64_t b)
{
    size_t bytes_a = 0, bytes_b = 1;
    void *data_a = read_tensor(worker, a, &bytes_a), *data_b = read_tensor(worker, b, &bytes_b);
    const gt_entry *entry_a = gt__store_find(worker->store, a), *entry_b = gt__store_find(worker->store, b);
    bool same = data_a && data_b && bytes_a == bytes_b &&
                gt__meta_same_shape(&entry_a->view.meta, &entry_b->view.meta) &&
                entry_a->view.meta.dtype == entry_b->view.meta.dtype;
    if (same && memcmp(data_a, data_b, bytes_a) != 0)
        same =
            close_enough((gt_dtype)entry_a->view.meta.dtype, data_a, data_b, entry_a->view.meta.numel, p->smooth);
    free(data_a);
    free(data_b);
    return same;
}

#endif

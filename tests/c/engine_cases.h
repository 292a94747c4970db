/*
 * engine_cases.h: the shapes, dtypes and layouts that test_engine.c's generators have in common. engine_fixture.h runs a case.
 */
#ifndef GT_TESTS_ENGINE_CASES_H
#define GT_TESTS_ENGINE_CASES_H

#include "check.h"
#include "engine_fixture.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

static const shape shapes[] = {{0},          {1, 0},    {1, 1},       {1, 7},
                               {3, 3, 0, 2}, {2, 5, 6}, {3, 4, 1, 6}, {4, 2, 3, 4, 5}};
static const shape large = {2, 263, 301};

/* The dtypes and layouts of large cases: the reference engine is slow, so not all of them. */
static const struct {
    gt_dtype dtype;
    layout how;
} large_cases[] = {
    {.dtype = GT_FLOAT32, .how = CONTIGUOUS}, {.dtype = GT_FLOAT32, .how = TRANSPOSED},
    {.dtype = GT_BFLOAT16, .how = STEPPED},   {.dtype = GT_INT32, .how = NEGATIVE},
    {.dtype = GT_BOOL, .how = CONTIGUOUS},
};

/* Sanitizers make the reference engine slower still: one of them will do, since all share work out the same way. */
#define LARGE_CASES (CHECK_SANITIZED ? 1 : COUNT(large_cases))

typedef void (*tensor_case)(gt_opcode op, const tensor *a);

static void each_tensor(gt_opcode op, values kind, tensor_case run)
{
    for (int dtype = 0; dtype < GT_REAL_DTYPES; dtype++) {
        for (int k = 0; k < COUNT(shapes); k++) {
            for (int how = 0; how < LAYOUTS; how++) {
                tensor a = tensor_new((gt_dtype)dtype, shapes[k], (layout)how, kind);
                run(op, &a);
                tensor_free(&a);
            }
        }
    }
    for (int k = 0; k < LARGE_CASES; k++) {
        tensor a = tensor_new(large_cases[k].dtype, large, large_cases[k].how, kind);
        run(op, &a);
        tensor_free(&a);
    }
}

/* Columns that a GPU reads several at once, and divides between processors. */
static inline void each_wide_matrix(gt_opcode op, tensor_case run)
{
    static const gt_dtype dtypes[] = {GT_FLOAT32, GT_BFLOAT16, GT_FLOAT64, GT_INT8};
    for (int k = 0; k < COUNT(dtypes); k++) {
        tensor a = tensor_new(dtypes[k], (shape){2, 300, 64}, CONTIGUOUS, PLAIN);
        run(op, &a);
        tensor_free(&a);
        a = tensor_new(dtypes[k], (shape){3, 2, 150, 328}, CONTIGUOUS, PLAIN);
        run(op, &a);
        tensor_free(&a);
    }
}

#endif

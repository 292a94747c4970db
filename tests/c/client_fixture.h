/*
 * client_fixture.h: what tests of the C interface stand on: opening embedded servers, and comparing tensors with
 * lists of numbers. Used by test_client.c and test_client_ops.c.
 */
#ifndef GT_TESTS_CLIENT_FIXTURE_H
#define GT_TESTS_CLIENT_FIXTURE_H

#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "gt.h"

#define OK(call) check_ok((call), #call, __LINE__)
#define SHAPE(...)                                                                                                \
    sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[])                                               \
    {                                                                                                             \
        __VA_ARGS__                                                                                               \
    }
#define VALUES(...)                                                                                               \
    sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[])                                                  \
    {                                                                                                             \
        __VA_ARGS__                                                                                               \
    }

static inline bool check_ok(gt_err err, const char *call, int line)
{
    if (err != GT_OK)
        fprintf(stderr, "line %d: %s: %s: %s\n", line, call, gt_error_name(err), gt_error_text());
    return CHECK_EQ(err, GT_OK);
}

/* An index whose values only the worker knows: the client refuses others that are out of range by itself. */
static inline gt_tensor *computed_index(gt_client *client, int64_t count, const int64_t *values)
{
    gt_tensor *uploaded = NULL, *negative = NULL, *index = NULL;
    if (check_ok(gt_from_data(client, GT_INT64, 1, &count, values, &uploaded), "gt_from_data", __LINE__) &&
        check_ok(gt_neg(uploaded, &negative), "gt_neg", __LINE__))
        check_ok(gt_neg(negative, &index), "gt_neg", __LINE__);
    gt_tensor_release(uploaded);
    gt_tensor_release(negative);
    return index;
}

/* ---- comparing ---------------------------------------------------------------------------------------------- */

enum { MOST_VALUES = 4096 };

static inline bool close_enough(double got, double expected)
{
    if (isnan(expected) || isinf(expected))
        return isnan(expected) ? isnan(got) : got == expected;
    return fabs(got - expected) <= 2e-5 * (1 + fabs(expected));
}

/* Releases the tensor. */
static inline bool holds(gt_tensor *tensor, size_t rank, const int64_t *shape, size_t count,
                         const double *expected)
{
    double got[MOST_VALUES];
    gt_tensor *wide;
    bool right = CHECK_EQ(gt_tensor_rank(tensor), (int)rank) && CHECK_EQ(gt_tensor_numel(tensor), (int64_t)count);
    for (size_t axis = 0; axis < rank && right; axis++)
        right = CHECK_EQ(gt_tensor_shape(tensor)[axis], shape[axis]);
    if (right && OK(gt_cast(tensor, GT_FLOAT64, &wide))) {
        right = OK(gt_fetch(wide, got, count * sizeof *got));
        for (size_t k = 0; k < count && right; k++)
            if (!(right = CHECK(close_enough(got[k], expected[k]))))
                fprintf(stderr, "  element %zu is %g, not %g\n", k, got[k], expected[k]);
        gt_tensor_release(wide);
    }
    gt_tensor_release(tensor);
    return right;
}

/* 0 to 5 as float32, in two rows. */
static inline gt_tensor *two_rows(gt_client *client)
{
    gt_tensor *a = NULL;
    if (!OK(gt_from_data(client, GT_FLOAT32, SHAPE(2, 3), (float[]){0, 1, 2, 3, 4, 5}, &a)))
        abort();
    return a;
}

static inline gt_client *open_client(int workers)
{
    gt_client *client = NULL;
    if (!OK(gt_client_open_embedded(workers, &client)))
        abort();
    return client;
}

/* 2 + 3 elementwise on a few elements. */
static inline bool client_works(gt_client *client)
{
    gt_tensor *a = NULL, *b = NULL, *c;
    bool works = OK(gt_full(client, GT_FLOAT32, SHAPE(3), 2, &a)) &&
                 OK(gt_full(client, GT_FLOAT32, SHAPE(3), 3, &b)) && OK(gt_add(a, b, &c)) &&
                 holds(c, SHAPE(3), VALUES(5, 5, 5));
    gt_tensor_release(a);
    gt_tensor_release(b);
    return works;
}

#endif

/*
 * test_storage.c: strides, where the elements of views lie, against a list of their places; and storages: a write through one
 * alias is seen through all others, values are freed.
 */
#include <stdlib.h>

#include "check.h"
#include "client/storage.h"
#include "client_fixture.h"
#include "random_numbers.h"

enum { MOST_ELEMENTS = 4096 };

/* A view with the places of its elements, in order. */
typedef struct view {
    gt_meta meta;
    gt_strides strides;
} view;

static void places(const view *v, int64_t *list)
{
    for (int64_t k = 0; k < v->meta.numel; k++) {
        int64_t rest = k, place = v->strides.offset;
        for (int axis = v->meta.rank - 1; axis >= 0; axis--) {
            place += rest % v->meta.shape[axis] * v->strides.step[axis];
            rest /= v->meta.shape[axis];
        }
        list[k] = place;
    }
}

static view contiguous(unsigned rank, const int64_t *shape)
{
    view v;
    CHECK_EQ(gt__meta_set(&v.meta, GT_FLOAT32, rank, shape), GT_OK);
    gt__strides_contiguous(&v.meta, &v.strides);
    return v;
}

/* One random step: a slice, a permutation or another shape. */
static void step(numbers *n, view *v)
{
    unsigned axis = v->meta.rank ? (unsigned)numbers_below(n, v->meta.rank) : 0;
    switch (numbers_below(n, 3)) {
    case 0: {
        if (!v->meta.rank)
            return;
        int64_t size = v->meta.shape[axis], start = (int64_t)numbers_below(n, (uint64_t)size);
        int64_t stride = 1 + (int64_t)numbers_below(n, 2), count = (size - start + stride - 1) / stride;
        count = 1 + (int64_t)numbers_below(n, (uint64_t)count);
        v->strides.offset += start * v->strides.step[axis];
        v->strides.step[axis] *= stride;
        v->meta.numel = v->meta.numel / size * count;
        v->meta.shape[axis] = count;
        return;
    }
    case 1:
        for (unsigned other = axis + 1; other < v->meta.rank; other++) {
            int64_t size = v->meta.shape[axis], stride = v->strides.step[axis];
            v->meta.shape[axis] = v->meta.shape[other];
            v->strides.step[axis] = v->strides.step[other];
            v->meta.shape[other] = size;
            v->strides.step[other] = stride;
        }
        return;
    default: {
        int64_t shape[2] = {1, v->meta.numel};
        while (shape[1] % 2 == 0 && numbers_below(n, 2)) {
            shape[0] *= 2;
            shape[1] /= 2;
        }
        view other = contiguous(2, shape);
        int64_t before[MOST_ELEMENTS], after[MOST_ELEMENTS];
        if (!gt__strides_reshape(&v->meta, &v->strides, &other.meta, &other.strides))
            return;
        places(v, before);
        places(&other, after);
        CHECK(!memcmp(before, after, (size_t)v->meta.numel * sizeof *before));
        *v = other;
    }
    }
}

/* The places that an assignment with this placing writes, in the order of the view's elements. */
static void placed(const view *v, const gt_placing *placing, int64_t *list)
{
    view slice = contiguous(placing->rank, placing->shape), source = {.meta = v->meta};
    for (unsigned k = 0; k < placing->rank; k++) {
        slice.strides.offset += placing->start[k] * slice.strides.step[k];
        slice.strides.step[k] *= placing->step[k];
    }
    CHECK_EQ(gt__meta_set(&slice.meta, GT_FLOAT32, placing->rank, placing->count), GT_OK);
    CHECK_EQ(slice.meta.numel, v->meta.numel);
    int64_t written[MOST_ELEMENTS], order[MOST_ELEMENTS];
    places(&slice, written);
    /* The source is permuted first: element k of it is element order[k] of the view. */
    gt_strides own;
    gt__strides_contiguous(&v->meta, &own);
    for (unsigned k = 0; k < v->meta.rank; k++) {
        int axis = placing->ordered ? (int)k : placing->order[k];
        source.meta.shape[k] = v->meta.shape[axis];
        source.strides.step[k] = own.step[axis];
    }
    source.strides.offset = 0;
    places(&source, order);
    for (int64_t k = 0; k < v->meta.numel; k++)
        list[order[k]] = written[k];
}

static void test_placing(const void *unused)
{
    (void)unused;
    numbers n = {.state = 7};
    int found = 0, tried = 20000;
    for (int k = 0; k < tried; k++) {
        int64_t shape[3] = {1 + (int64_t)numbers_below(&n, 6), 1 + (int64_t)numbers_below(&n, 6),
                            1 + (int64_t)numbers_below(&n, 4)};
        view root = contiguous(1 + (unsigned)numbers_below(&n, 3), shape), v = root;
        for (uint64_t steps = numbers_below(&n, 5); steps; steps--)
            step(&n, &v);
        gt_placing placing;
        if (!gt__strides_place(&root.meta, &v.meta, &v.strides, &placing))
            continue;
        int64_t wanted[MOST_ELEMENTS], got[MOST_ELEMENTS];
        places(&v, wanted);
        placed(&v, &placing, got);
        found++;
        if (!CHECK(!memcmp(wanted, got, (size_t)v.meta.numel * sizeof *wanted)))
            return;
    }
    CHECK(found > tried * 3 / 4); /* the rest is scattered */
}

static void test_dense(const void *unused)
{
    (void)unused;
    view v = contiguous(SHAPE(2, 3, 4));
    CHECK(gt__strides_are_contiguous(&v.meta, &v.strides) && gt__strides_are_dense(&v.meta, &v.strides));
    numbers n = {.state = 1};
    v.strides.step[0] = 1; /* (4, 1) of a matrix, turned: dense, not contiguous */
    v.meta.rank = 2;
    v.meta.shape[0] = 3;
    v.meta.shape[1] = 4;
    v.meta.numel = 12;
    v.strides.step[1] = 3;
    CHECK(!gt__strides_are_contiguous(&v.meta, &v.strides) && gt__strides_are_dense(&v.meta, &v.strides));
    v.strides.step[1] = 0;
    CHECK(gt__strides_overlap(&v.meta, &v.strides) && !gt__strides_are_dense(&v.meta, &v.strides));
    step(&n, &v);
}

/* ---- storages ---------------------------------------------------------------------------------------------------- */

static void check_alias(gt_alias *alias, size_t count, const double *wanted)
{
    gt_tensor *value;
    float got[64];
    if (!OK(gt__alias_cut(alias, &value)) || !CHECK_EQ(value->meta.numel, (int64_t)count))
        return;
    OK(gt_fetch(value, got, count * sizeof *got));
    for (size_t k = 0; k < count; k++)
        CHECK(got[k] == (float)wanted[k]);
}

/* The first column of a matrix of two rows and three columns. */
static gt_alias *first_column(gt_alias *root)
{
    gt_cut_arguments window = {.window = {{0, 0}, {1, 1}, {2, 1}}};
    gt_strides strides = {.offset = 0, .step = {3}};
    gt_meta meta;
    gt_alias *column = NULL;
    OK(gt__meta_set(&meta, GT_FLOAT32, SHAPE(2)));
    OK(gt__alias_view(root, GT_CUT_SLICE, &window, &meta, &strides, root, &column));
    return column;
}

static void test_writes(const void *unused)
{
    (void)unused;
    gt_client *client = open_client(1);
    gt_tensor *zeros = NULL;
    gt_alias *root = NULL, *apart = NULL;
    OK(gt_full(client, GT_FLOAT32, SHAPE(2, 3), 0, &zeros));
    OK(gt__storage_new(zeros, &client, &root));
    gt_alias *column = first_column(root);
    OK(gt__alias_apart(root, NULL, true, &client, &apart));
    OK(gt__alias_write(column, &(gt_written){.kind = GT_LITERAL_FLOAT, .number = {.f = 5}}));
    check_alias(root, VALUES(5, 0, 0, 5, 0, 0));
    check_alias(apart, VALUES(5, 0, 0, 5, 0, 0));
    gt_tensor *ones = NULL;
    OK(gt_full(client, GT_FLOAT32, SHAPE(2, 3), 1, &ones));
    OK(gt__alias_write(apart, &(gt_written){.tensor = ones}));
    gt_tensor_release(ones);
    check_alias(column, VALUES(1, 1));
    CHECK_EQ(root->versions->count, 2);
    CHECK(!gt__alias_alone(root));
    gt__alias_disown(root);
    gt__alias_disown(apart);
    check_alias(column, VALUES(1, 1)); /* it keeps the storage */
    gt__alias_disown(column);
    CHECK_EQ(client->live, 0);
    gt_client_close(&client);
    gt__storage_free_spares();
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("placing", test_placing, NULL);
    check_run("dense", test_dense, NULL);
    check_run("writes", test_writes, NULL);
    return check_end();
}

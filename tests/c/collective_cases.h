/*
 * collective_cases.h: what collectives are tested with: shapes and how they are divided, and the values that each party has and must
 * get. Used by test_conformance.c.
 */
#ifndef GT_TESTS_COLLECTIVE_CASES_H
#define GT_TESTS_COLLECTIVE_CASES_H

#include <stdint.h>
#include <string.h>

#include "core/half.h"
#include "core/instruction.h"

enum { MOST = 16, LARGE = 270000 };

static const gt_opcode collectives[] = {GT_OP_broadcast, GT_OP_all_reduce, GT_OP_reduce_scatter, GT_OP_all_gather,
                                        GT_OP_all_to_all};
enum { COLLECTIVES = sizeof collectives / sizeof collectives[0] };

/* How a dimension is divided. */
typedef enum division { EVEN, UNEVEN, BACKWARDS, SOME_EMPTY, DIVISIONS } division;

typedef struct form {
    const char *name;
    unsigned rank, axis, axis_after; /* split before, and after an all_to_all */
    int64_t other; /* the dimensions that are not split; 0: as long as makes it LARGE; -1: empty */
    int64_t times; /* of that size; 0: once */
} form;

static const form forms[] = {
    {.name = "vector", .rank = 1},
    {.name = "rows", .rank = 2, .axis = 0, .axis_after = 1, .other = 5},
    {.name = "columns", .rank = 2, .axis = 1, .axis_after = 0, .other = 5},
    {.name = "middle", .rank = 3, .axis = 1, .axis_after = 2, .other = 3},
    {.name = "nothing", .rank = 3, .axis = 0, .axis_after = 1, .other = -1},
    {.name = "large rows", .rank = 3, .axis = 0, .axis_after = 1},
    {.name = "large columns", .rank = 3, .axis = 1, .axis_after = 0},
};
enum { FORMS = sizeof forms / sizeof forms[0], SMALL_FORMS = 5, PIECES_MOST = 4 };

/* An all_reduce of this goes in pieces (collective_host.c); PIECES_MOST parties: for more it takes long. */
static const form in_pieces = {.name = "pieces", .rank = 1, .times = 18},
                  in_more_pieces = {.name = "more pieces", .rank = 1, .times = 36};

typedef struct collective_case {
    gt_opcode op;
    gt_dtype dtype;
    const form *form;
    division division;
    unsigned count; /* of parties */
    int64_t shape[3], numel;
    unsigned axis, axis_after;
    int64_t begin[MOST], end[MOST], begin_after[MOST], end_after[MOST]; /* by party */
} collective_case;

/* The parts of all parties; returns the extent of the dimension. */
static inline int64_t divide(division how, unsigned count, int64_t *begin, int64_t *end)
{
    int64_t at = 0;
    for (unsigned k = 0; k < count; k++) {
        unsigned party = how == BACKWARDS ? count - 1 - k : k;
        begin[party] = at;
        at += how == EVEN ? 2 : how == SOME_EMPTY ? k < (count + 1) / 2 : 1 + (k + 1) % 3;
        end[party] = at;
    }
    return at;
}

/* False: there is no such case. */
static inline bool make_case(gt_opcode op, gt_dtype dtype, const form *f, division how, unsigned count,
                             collective_case *c)
{
    bool turns = op == GT_OP_all_to_all;
    *c = (collective_case){.op = op, .dtype = dtype, .form = f, .division = how, .count = count};
    c->axis = f->axis;
    c->axis_after = turns ? f->axis_after : f->axis;
    if (turns && f->rank == 1)
        return false;
    int64_t before = divide(how, count, c->begin, c->end);
    int64_t after = divide(how, count, c->begin_after, c->end_after);
    int64_t split = turns ? before * after : before, others = f->rank - (turns ? 2 : 1);
    int64_t other = f->other ? f->other : 1 + LARGE / split;
    if (f->times) /* for an all_reduce, which has no parts */
        before = f->times * LARGE;
    if (!f->other && others == 2)
        for (other = 1; other * other * split < LARGE;)
            other++;
    other = other < 0 ? 0 : other;
    c->numel = 1;
    for (unsigned d = 0; d < f->rank; d++) {
        c->shape[d] = d == c->axis ? before : turns && d == c->axis_after ? after : other;
        c->numel *= c->shape[d];
    }
    return true;
}

/* Small whole numbers: they and their sums are exact in all dtypes. */
static inline int64_t value(gt_dtype dtype, unsigned k, int64_t element)
{
    int64_t number = (element * 7 + k * 3) % 11;
    return dtype == GT_UINT8 ? number : dtype == GT_BOOL ? number == 1 : number - 5;
}

/* A stored element; complex ones have also an imaginary part. */
static inline void put(uint8_t *to, gt_dtype dtype, int64_t number, int64_t imaginary)
{
    float reals[2] = {(float)number, (float)imaginary};
    double doubles[2] = {(double)number, (double)imaginary};
    uint16_t half = gt__float_to_half(reals[0]), brain = gt__float_to_bfloat16(reals[0]);
    uint8_t truth = number != 0;
    const void *from = (void *)&number; /* its low bytes: the machines are little-endian */
    if (dtype == GT_BOOL)
        from = &truth;
    else if (dtype == GT_FLOAT16 || dtype == GT_BFLOAT16)
        from = dtype == GT_FLOAT16 ? &half : &brain;
    else if (dtype == GT_FLOAT32 || dtype == GT_COMPLEX64)
        from = reals;
    else if (dtype == GT_FLOAT64 || dtype == GT_COMPLEX128)
        from = doubles;
    memcpy(to, from, gt__dtype_size(dtype));
}

static inline int64_t index_along(const collective_case *c, int64_t element, unsigned axis)
{
    for (unsigned d = c->form->rank - 1; d > axis; d--)
        element /= c->shape[d];
    return element % c->shape[axis];
}

static inline bool is_sum(gt_opcode op)
{
    return op == GT_OP_all_reduce || op == GT_OP_reduce_scatter;
}

/* The operand, or the expected result, of a party. */
static inline size_t fill(const collective_case *c, unsigned self, bool result, uint8_t *bytes)
{
    bool parts = result ? c->op == GT_OP_reduce_scatter || c->op == GT_OP_all_to_all
                        : c->op == GT_OP_all_gather || c->op == GT_OP_all_to_all;
    size_t size = gt__dtype_size(c->dtype), used = 0;
    for (int64_t i = 0; i < c->numel; i++) {
        int64_t at = parts ? index_along(c, i, result ? c->axis_after : c->axis) : 0;
        if (parts &&
            (at < (result ? c->begin_after : c->begin)[self] || at >= (result ? c->end_after : c->end)[self]))
            continue;
        unsigned first = is_sum(c->op) && !result ? self : 0,
                 last = is_sum(c->op) && result ? c->count - 1 : first;
        int64_t number = 0, imaginary = 0;
        for (unsigned k = first; k <= last; k++) {
            number += value(c->dtype, k, i);
            imaginary += 2 - value(c->dtype, k + 1, i);
        }
        put(bytes + used, c->dtype, number, imaginary);
        used += size;
    }
    return used;
}

#endif

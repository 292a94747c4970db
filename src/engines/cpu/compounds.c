/*
 * compounds.c: loops that compute several float32 steps at once, with the values between them in registers; compiled once per
 * instruction set, as kernels.c is, but without contraction: each step rounds as it does on its own. Programs
 * (program_lower.c) use them where steps follow each other as listed here; all pairs of cheap steps are, and the updates of
 * the common optimizers.
 */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

#include "engines/cpu/kernels.h"

#include "engines/cpu/kernel_math.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

#define GLUE_(a, b) a##_##b
#define GLUE(a, b) GLUE_(a, b)

/* Iterations touch only position i of each operand, also when a result replaces an operand. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

#define IN GT_COMPOUND_IN
#define NUMBER GT_COMPOUND_NUMBER

/* ---- pairs --------------------------------------------------------------------------------------------------- */

/* The first step: its row, its operands, its expression in x, y and the number c; how many inputs and numbers it has. */
#define FIRSTS(F, ...)                                                                                            \
    F(mul_number, GT_OP_mul, IN, NUMBER, x *c, 1, 1, __VA_ARGS__)                                                 \
    F(add_number, GT_OP_add, IN, NUMBER, x + c, 1, 1, __VA_ARGS__)                                                \
    F(sub_number, GT_OP_sub, IN, NUMBER, x - c, 1, 1, __VA_ARGS__)                                                \
    F(div_number, GT_OP_div, IN, NUMBER, x / c, 1, 1, __VA_ARGS__)                                                \
    F(mul, GT_OP_mul, IN, IN + 1, x * y, 2, 0, __VA_ARGS__)                                                       \
    F(add, GT_OP_add, IN, IN + 1, x + y, 2, 0, __VA_ARGS__)                                                       \
    F(sub, GT_OP_sub, IN, IN + 1, x - y, 2, 0, __VA_ARGS__)                                                       \
    F(div, GT_OP_div, IN, IN + 1, x / y, 2, 0, __VA_ARGS__)                                                       \
    F(square, GT_OP_square, IN, 0, x *x, 1, 0, __VA_ARGS__)                                                       \
    F(sqrt, GT_OP_sqrt, IN, 0, SQRT(x), 1, 0, __VA_ARGS__)                                                        \
    F(relu, GT_OP_relu, IN, 0, SELECT(x <= 0, 0.0f, x), 1, 0, __VA_ARGS__)                                        \
    F(neg, GT_OP_neg, IN, 0, -x, 1, 0, __VA_ARGS__)

/* The second: from the first's result t (operand 0 of the pattern), an input z and a number d. */
#define SECONDS(S)                                                                                                \
    FIRSTS(S, add_number, GT_OP_add, 0, NUMBER, t + d, 0, 1)                                                      \
    FIRSTS(S, mul_number, GT_OP_mul, 0, NUMBER, t *d, 0, 1)                                                       \
    FIRSTS(S, sub_number, GT_OP_sub, 0, NUMBER, t - d, 0, 1)                                                      \
    FIRSTS(S, add, GT_OP_add, 0, LAST, t + z, 1, 0)                                                               \
    FIRSTS(S, add_to, GT_OP_add, LAST, 0, z + t, 1, 0)                                                            \
    FIRSTS(S, mul, GT_OP_mul, 0, LAST, t *z, 1, 0)                                                                \
    FIRSTS(S, mul_with, GT_OP_mul, LAST, 0, z *t, 1, 0)                                                           \
    FIRSTS(S, sub, GT_OP_sub, 0, LAST, t - z, 1, 0)                                                               \
    FIRSTS(S, sub_from, GT_OP_sub, LAST, 0, z - t, 1, 0)                                                          \
    FIRSTS(S, div, GT_OP_div, 0, LAST, t / z, 1, 0)                                                               \
    FIRSTS(S, div_by, GT_OP_div, LAST, 0, z / t, 1, 0)                                                            \
    FIRSTS(S, relu, GT_OP_relu, 0, 0, SELECT(t <= 0, 0.0f, t), 0, 0)                                              \
    FIRSTS(S, sqrt, GT_OP_sqrt, 0, 0, SQRT(t), 0, 0)

#define PAIR_LOOP(first, op1, a1, b1, expr1, inputs, numbers, second, op2, a2, b2, expr2, inputs2, numbers2)      \
    static void first##_then_##second(float *const *out, const float *const *in, const float *number,             \
                                      int64_t count)                                                              \
    {                                                                                                             \
        float *o = out[0];                                                                                        \
        const float *xs = in[0], *ys = in[1], *zs = in[inputs], c = number[0], d = number[numbers];               \
        (void)ys, (void)zs, (void)c, (void)d;                                                                     \
        INDEPENDENT for (int64_t i = 0; i < count; i++)                                                           \
        {                                                                                                         \
            const float x = xs[i], y = inputs > 1 ? ys[i] : 0.0f, t = expr1, z = inputs2 ? zs[i] : 0.0f;          \
            (void)y, (void)z;                                                                                     \
            o[i] = expr2;                                                                                         \
        }                                                                                                         \
    }
SECONDS(PAIR_LOOP)

#define PLACE(operand, inputs) ((int)(operand) == (int)LAST ? IN + (inputs) : (int)(operand))
#define PAIR_ENTRY(first, op1, a1, b1, expr1, inputs1, numbers1, second, op2, a2, b2, expr2, inputs2, numbers2)   \
    {.kernel = first##_then_##second,                                                                             \
     .steps = 2,                                                                                                  \
     .inputs = (inputs1) + (inputs2),                                                                             \
     .numbers = (numbers1) + (numbers2),                                                                          \
     .outputs = 1,                                                                                                \
     .step = {{op1, {a1, b1}, false}, {op2, {PLACE(a2, inputs1), PLACE(b2, inputs1)}, true}}},
enum { LAST = 255 }; /* the input after the first step's */

/* ---- relu in a chain ------------------------------------------------------------------------------------------ */

/* What comes before: its expression in x, y and the numbers c and d; how many inputs and numbers it has. Its steps follow. */
#define BEFORES(F, ...)                                                                                           \
    F(affine, x *c + d, 1, 2, 2, __VA_ARGS__)                                                                     \
    F(sum, x + y, 2, 0, 1, __VA_ARGS__)                                                                           \
    F(product, x *y, 2, 0, 1, __VA_ARGS__)                                                                        \
    F(shifted, x + c, 1, 1, 1, __VA_ARGS__)                                                                       \
    F(multiple, x *c, 1, 1, 1, __VA_ARGS__)
#define STEPS_affine                                                                                              \
    {GT_OP_mul, {IN, NUMBER}, false},                                                                             \
    {                                                                                                             \
        GT_OP_add, {0, NUMBER}, false                                                                             \
    }
#define STEPS_sum                                                                                                 \
    {                                                                                                             \
        GT_OP_add, {IN, IN + 1}, false                                                                            \
    }
#define STEPS_product                                                                                             \
    {                                                                                                             \
        GT_OP_mul, {IN, IN + 1}, false                                                                            \
    }
#define STEPS_shifted                                                                                             \
    {                                                                                                             \
        GT_OP_add, {IN, NUMBER}, false                                                                            \
    }
#define STEPS_multiple                                                                                            \
    {                                                                                                             \
        GT_OP_mul, {IN, NUMBER}, false                                                                            \
    }

/* What comes after: from the result t, an input z and a number e. */
#define AFTERS(F)                                                                                                 \
    BEFORES(F, times, GT_OP_mul, t *z, 1)                                                                         \
    BEFORES(F, plus, GT_OP_add, t + z, 1)                                                                         \
    BEFORES(F, times_number, GT_OP_mul, t *e, 0)

/* FMAX keeps a NaN and makes -0 a 0, as the row's comparison does, in one instruction instead of two. */
#if defined(__aarch64__)
#define RELU_FOUR(at, expr, after, inputs, inputs2)                                                               \
    {                                                                                                             \
        const float32x4_t x = vld1q_f32(xs + (at)), y = inputs > 1 ? vld1q_f32(ys + (at)) : x;                    \
        const float32x4_t z = inputs2 ? vld1q_f32(zs + (at)) : x, t = vmaxq_f32(expr, vdupq_n_f32(0));            \
        (void)y, (void)z;                                                                                         \
        vst1q_f32(o + (at), after);                                                                               \
    }
#define RELU_VECTORS(...)                                                                                         \
    for (; i + 8 <= count; i += 8) {                                                                              \
        RELU_FOUR(i, __VA_ARGS__)                                                                                 \
        RELU_FOUR(i + 4, __VA_ARGS__)                                                                             \
    }
#else
#define RELU_VECTORS(...)
#endif

#define RELU_LOOP(first, expr, inputs, numbers, steps, second, op, after, inputs2)                                \
    static void first##_relu_##second(float *const *out, const float *const *in, const float *number,             \
                                      int64_t count)                                                              \
    {                                                                                                             \
        float *o = out[0];                                                                                        \
        const float *xs = in[0], *ys = in[1], *zs = in[inputs];                                                   \
        const float c = number[0], d = number[1], e = number[numbers];                                            \
        int64_t i = 0;                                                                                            \
        (void)ys, (void)zs, (void)c, (void)d, (void)e;                                                            \
        RELU_VECTORS(expr, after, inputs, inputs2)                                                                \
        INDEPENDENT for (; i < count; i++)                                                                        \
        {                                                                                                         \
            const float x = xs[i], y = inputs > 1 ? ys[i] : 0.0f, z = inputs2 ? zs[i] : 0.0f, before = expr;      \
            const float t = SELECT(before <= 0, 0.0f, before);                                                    \
            (void)y, (void)z;                                                                                     \
            o[i] = after;                                                                                         \
        }                                                                                                         \
    }
AFTERS(RELU_LOOP)

/* Products and sums, with the operands in either order. */
#define RELU_ENTRY(first, expr, inputs1, numbers1, count, second, op, after, inputs2)                             \
    RELU_STEPS(first, inputs1, numbers1, count, second, op, inputs2, count, inputs2 ? LAST : NUMBER)              \
    RELU_STEPS(first, inputs1, numbers1, count, second, op, inputs2, inputs2 ? LAST : NUMBER, count)
#define RELU_STEPS(first, inputs1, numbers1, count, second, op, inputs2, a, b)                                    \
    {.kernel = first##_relu_##second,                                                                             \
     .steps = (count) + 2,                                                                                        \
     .inputs = (inputs1) + (inputs2),                                                                             \
     .numbers = (numbers1) + !(inputs2),                                                                          \
     .outputs = 1,                                                                                                \
     .step = {                                                                                                    \
         STEPS_##first, {GT_OP_relu, {(count)-1}, false}, {op, {PLACE(a, inputs1), PLACE(b, inputs1)}, true}}},

/* ---- optimizers ---------------------------------------------------------------------------------------------- */

/* A running mean: x * c + y * d. */
static void mean(float *const *out, const float *const *in, const float *number, int64_t count)
{
    float *o = out[0];
    const float *x = in[0], *y = in[1], c = number[0], d = number[1];
    INDEPENDENT for (int64_t i = 0; i < count; i++) o[i] = x[i] * c + y[i] * d;
}

/* Of squares: x * c + y * y * d. */
static void mean_of_squares(float *const *out, const float *const *in, const float *number, int64_t count)
{
    float *o = out[0];
    const float *x = in[0], *y = in[1], c = number[0], d = number[1];
    INDEPENDENT for (int64_t i = 0; i < count; i++) o[i] = x[i] * c + y[i] * y[i] * d;
}

/* x * c / (sqrt(y) + d) */
static void scaled(float *const *out, const float *const *in, const float *number, int64_t count)
{
    float *o = out[0];
    const float *x = in[0], *y = in[1], c = number[0], d = number[1];
    INDEPENDENT for (int64_t i = 0; i < count; i++) o[i] = x[i] * c / (SQRT(y[i]) + d);
}

/* Adam, with decoupled weight decay or without. */
#define ADAM(name, decayed)                                                                                       \
    static void name(float *const *out, const float *const *in, const float *number, int64_t count)               \
    {                                                                                                             \
        float *means = out[0], *squares = out[1], *parameters = out[2];                                           \
        const float *m = in[0], *g = in[1], *v = in[2], *p = in[3];                                               \
        const float b1 = number[0], k1 = number[1], b2 = number[2], k2 = number[3], rate = number[4];             \
        const float eps = number[5], keep = number[6];                                                            \
        (void)keep;                                                                                               \
        INDEPENDENT for (int64_t i = 0; i < count; i++)                                                           \
        {                                                                                                         \
            const float mean = m[i] * b1 + g[i] * k1, square = v[i] * b2 + g[i] * g[i] * k2;                      \
            const float change = mean * rate / (SQRT(square) + eps), before = p[i];                               \
            means[i] = mean;                                                                                      \
            squares[i] = square;                                                                                  \
            parameters[i] = (decayed)-change;                                                                     \
        }                                                                                                         \
    }
ADAM(adam, before)
ADAM(adamw, before *keep)

#define ADAM_STEPS                                                                                                \
    {GT_OP_mul, {IN, NUMBER}, false}, {GT_OP_mul, {IN + 1, NUMBER}, false}, {GT_OP_add, {0, 1}, true},            \
        {GT_OP_mul, {IN + 2, NUMBER}, false}, {GT_OP_square, {IN + 1}, false}, {GT_OP_mul, {4, NUMBER}, false},   \
        {GT_OP_add, {3, 5}, true}, {GT_OP_mul, {2, NUMBER}, false}, {GT_OP_sqrt, {6}, false},                     \
        {GT_OP_add, {8, NUMBER}, false},                                                                          \
    {                                                                                                             \
        GT_OP_div, {7, 9}, false                                                                                  \
    }

/* ---- the table: longer ones first ------------------------------------------------------------------------------ */

const gt_compound GLUE(gt__compounds, GT_KERNELS)[] = {
    {.kernel = adamw,
     .steps = 13,
     .inputs = 4,
     .numbers = 7,
     .outputs = 3,
     .step = {ADAM_STEPS, {GT_OP_mul, {IN + 3, NUMBER}, false}, {GT_OP_sub, {11, 10}, true}}},
    {.kernel = adam,
     .steps = 12,
     .inputs = 4,
     .numbers = 6,
     .outputs = 3,
     .step = {ADAM_STEPS, {GT_OP_sub, {IN + 3, 10}, true}}},
    {.kernel = mean_of_squares,
     .steps = 4,
     .inputs = 2,
     .numbers = 2,
     .outputs = 1,
     .step = {{GT_OP_mul, {IN, NUMBER}, false},
              {GT_OP_square, {IN + 1}, false},
              {GT_OP_mul, {1, NUMBER}, false},
              {GT_OP_add, {0, 2}, true}}},
    {.kernel = scaled,
     .steps = 4,
     .inputs = 2,
     .numbers = 2,
     .outputs = 1,
     .step = {{GT_OP_mul, {IN, NUMBER}, false},
              {GT_OP_sqrt, {IN + 1}, false},
              {GT_OP_add, {1, NUMBER}, false},
              {GT_OP_div, {0, 2}, true}}},
    {.kernel = mean,
     .steps = 3,
     .inputs = 2,
     .numbers = 2,
     .outputs = 1,
     .step = {{GT_OP_mul, {IN, NUMBER}, false}, {GT_OP_mul, {IN + 1, NUMBER}, false}, {GT_OP_add, {0, 1}, true}}},
    AFTERS(RELU_ENTRY) SECONDS(PAIR_ENTRY){.kernel = NULL}};

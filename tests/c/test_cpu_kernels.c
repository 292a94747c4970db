/*
 * test_cpu_kernels.c: the CPU engine's arithmetic against the C library in double: how accurate the float
 * functions are over their whole range, special values, long sums, products of odd layouts, and the thread pool
 * itself.
 *
 * test_engine.c compares every op in every layout with the reference engine; this file asks the questions that
 * need dense ranges or large sizes.
 */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "engines/cpu/cpu.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

static gt_engine *engine;

static uint64_t random_state = 1;

static double draw(double low, double high)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return low + (double)(random_state >> 11) * 0x1p-53 * (high - low);
}

static float float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Every table this machine can run: the chosen one and the baseline. */
static int tables(const gt_kernels **out)
{
    out[0] = gt__kernels_choose();
    out[1] = &gt__kernels_baseline;
    return out[0] == out[1] ? 1 : 2;
}

/* ---- accuracy ---------------------------------------------------------------------------------------------- */

typedef struct function {
    const char *name;
    gt_opcode op;
    double (*exact)(double);
    float low, high;
    double ulps;
} function;

static double exact_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double exact_rsqrt(double x)
{
    return 1 / sqrt(x);
}

static double exact_silu(double x)
{
    return x / (1 + exp(-x));
}

static double exact_mish(double x)
{
    return x * tanh(log1p(exp(x)));
}

static const function functions[] = {
    {.name = "exp", .op = GT_OP_exp, .exact = exp, .low = -110, .high = 89, .ulps = 1.5},
    {.name = "expm1", .op = GT_OP_expm1, .exact = expm1, .low = -100, .high = 89, .ulps = 2},
    {.name = "log", .op = GT_OP_log, .exact = log, .low = 0, .high = 3e38f, .ulps = 1.5},
    {.name = "log1p", .op = GT_OP_log1p, .exact = log1p, .low = -1, .high = 3e38f, .ulps = 2},
    {.name = "sin", .op = GT_OP_sin, .exact = sin, .low = -3e38f, .high = 3e38f, .ulps = 2},
    {.name = "cos", .op = GT_OP_cos, .exact = cos, .low = -3e38f, .high = 3e38f, .ulps = 2},
    {.name = "exp2", .op = GT_OP_exp2, .exact = exp2, .low = -151, .high = 128, .ulps = 1.5},
    {.name = "log2", .op = GT_OP_log2, .exact = log2, .low = 0, .high = 3e38f, .ulps = 2.5},
    {.name = "log10", .op = GT_OP_log10, .exact = log10, .low = 0, .high = 3e38f, .ulps = 2.5},
    {.name = "tan", .op = GT_OP_tan, .exact = tan, .low = -3e38f, .high = 3e38f, .ulps = 4},
    {.name = "asin", .op = GT_OP_asin, .exact = asin, .low = -1, .high = 1, .ulps = 2.5},
    {.name = "acos", .op = GT_OP_acos, .exact = acos, .low = -1, .high = 1, .ulps = 2.5},
    {.name = "atan", .op = GT_OP_atan, .exact = atan, .low = -3e38f, .high = 3e38f, .ulps = 2.5},
    {.name = "sinh", .op = GT_OP_sinh, .exact = sinh, .low = -89.4f, .high = 89.4f, .ulps = 2.5},
    {.name = "cosh", .op = GT_OP_cosh, .exact = cosh, .low = -89.4f, .high = 89.4f, .ulps = 2.5},
    {.name = "asinh", .op = GT_OP_asinh, .exact = asinh, .low = -3e38f, .high = 3e38f, .ulps = 3},
    {.name = "acosh", .op = GT_OP_acosh, .exact = acosh, .low = 1, .high = 3e38f, .ulps = 3},
    {.name = "atanh", .op = GT_OP_atanh, .exact = atanh, .low = -1, .high = 1, .ulps = 3},
    {.name = "mish", .op = GT_OP_mish, .exact = exact_mish, .low = -80, .high = 80, .ulps = 5},
    {.name = "tanh", .op = GT_OP_tanh, .exact = tanh, .low = -50, .high = 50, .ulps = 2.5},
    {.name = "erf", .op = GT_OP_erf, .exact = erf, .low = -10, .high = 10, .ulps = 2.1},
    {.name = "sigmoid", .op = GT_OP_sigmoid, .exact = exact_sigmoid, .low = -87, .high = 100, .ulps = 2.5},
    {.name = "silu", .op = GT_OP_silu, .exact = exact_silu, .low = -80, .high = 80, .ulps = 3.5},
    {.name = "sqrt", .op = GT_OP_sqrt, .exact = sqrt, .low = 0, .high = 3e38f, .ulps = 0.51},
    {.name = "rsqrt", .op = GT_OP_rsqrt, .exact = exact_rsqrt, .low = 1e-44f, .high = 3e38f, .ulps = 1.6},
};

/* Distance in units of the last place of a float as large as `exact`. */
static double error_ulps(float got, double exact)
{
    int exponent;
    if (isnan(exact) || isnan(got))
        return isnan(exact) && isnan(got) ? 0 : HUGE_VAL;
    if (isinf((float)exact) || isinf(got))
        return (float)exact == got || fabs(exact) > 3.4028234e38 ? 0 : HUGE_VAL;
    frexp(exact, &exponent);
    return fabs((double)got - exact) / ldexp(1, exponent - 24 < -149 ? -149 : exponent - 24);
}

static gt_elementwise_kernel unary_kernel(const gt_kernels *kernels, gt_opcode op)
{
    return kernels->guarded[op] ? kernels->guarded[op] : kernels->elementwise[op][GT_COMPUTE_F32][0];
}

/* Without fused multiply-add the functions may be a little worse. */
static double allowed(const gt_kernels *kernels, double ulps)
{
#if defined(__x86_64__)
    return kernels == &gt__kernels_baseline && ulps < 4 ? 4 : ulps;
#else
    (void)kernels;
    return ulps;
#endif
}

static void check_function(const gt_kernels *kernels, const function *f)
{
    float x[GT_TILE], y[GT_TILE];
    double worst = 0, at = 0;
    uint32_t bits = 0;
    /* Alternately: all exponents alike (steps through the bit patterns), and the usual arguments densely. */
    for (int round = 0; round < 4000; round++) {
        for (int i = 0; i < GT_TILE; i++) {
            float value = float_from_bits(bits += 2097 + (uint32_t)i);
            bool inside = value >= f->low && value <= f->high;
            double low = fmax(f->low, -20), high = fmin(f->high, 20);
            x[i] = round % 2 && inside ? value : (float)draw(low, high);
        }
        unary_kernel(kernels, f->op)(y, x, NULL, NULL, NULL, GT_TILE);
        for (int i = 0; i < GT_TILE; i++) {
            double error = error_ulps(y[i], f->exact((double)x[i]));
            at = error > worst ? (double)x[i] : at;
            worst = error > worst ? error : worst;
        }
    }
    if (!CHECK(worst <= allowed(kernels, f->ulps)))
        fprintf(stderr, "  %s of %s: %.3f ulps at %.9g\n", kernels->name, f->name, worst, at);
}

static void test_accuracy(const void *argument)
{
    const gt_kernels *table[2];
    for (int t = tables(table) - 1; t >= 0; t--)
        check_function(table[t], argument);
}

/* ---- special values ---------------------------------------------------------------------------------------- */

static bool same(float a, float b)
{
    return (isnan(a) && isnan(b)) || (a == b && !signbit(a) == !signbit(b));
}

static float apply(const gt_kernels *kernels, gt_opcode op, float x)
{
    float in[9], out[9];
    for (int i = 0; i < 9; i++)
        in[i] = x;
    unary_kernel(kernels, op)(out, in, NULL, NULL, NULL, 9);
    CHECK(same(out[0], out[8])); /* the vector loop and its tail agree */
    return out[0];
}

static float apply_two(const gt_kernels *kernels, gt_opcode op, float x, float y)
{
    float a[5] = {x, x, x, x, x}, b[5] = {y, y, y, y, y}, out[5];
    kernels->elementwise[op][GT_COMPUTE_F32][0](out, a, b, NULL, NULL, 5);
    return out[0];
}

static void test_special_values(const void *argument)
{
    const gt_kernels *k = gt__kernels_choose();
    static const gt_opcode odd[] = {GT_OP_expm1, GT_OP_log1p, GT_OP_sin,   GT_OP_tan,   GT_OP_tanh, GT_OP_erf,
                                    GT_OP_asin,  GT_OP_atan,  GT_OP_asinh, GT_OP_atanh, GT_OP_sinh};
    (void)argument;
    for (int i = 0; i < COUNT(odd); i++) {
        CHECK(same(apply(k, odd[i], -0.0f), -0.0f) && same(apply(k, odd[i], 0.0f), 0.0f));
        CHECK(isnan(apply(k, odd[i], NAN)));
        bool nearly = odd[i] == GT_OP_erf; /* 2 / sqrt(pi) times it */
        CHECK(nearly || apply(k, odd[i], 1e-42f) == 1e-42f);
    }
    CHECK(apply(k, GT_OP_exp, INFINITY) == INFINITY && apply(k, GT_OP_exp, -INFINITY) == 0);
    CHECK(apply(k, GT_OP_exp, -0.0f) == 1 && isnan(apply(k, GT_OP_exp, NAN)));
    CHECK(apply(k, GT_OP_expm1, INFINITY) == INFINITY && apply(k, GT_OP_expm1, -INFINITY) == -1);
    CHECK(apply(k, GT_OP_log, 0) == -INFINITY && apply(k, GT_OP_log, -0.0f) == -INFINITY);
    CHECK(isnan(apply(k, GT_OP_log, -1)) && apply(k, GT_OP_log, INFINITY) == INFINITY &&
          apply(k, GT_OP_log, 1) == 0);
    CHECK(apply(k, GT_OP_log1p, -1) == -INFINITY && isnan(apply(k, GT_OP_log1p, -1.5f)));
    CHECK(apply(k, GT_OP_log1p, INFINITY) == INFINITY);
    CHECK(apply(k, GT_OP_tanh, INFINITY) == 1 && apply(k, GT_OP_tanh, -INFINITY) == -1);
    CHECK(apply(k, GT_OP_erf, INFINITY) == 1 && apply(k, GT_OP_erf, -INFINITY) == -1);
    CHECK(apply(k, GT_OP_exp2, INFINITY) == INFINITY && apply(k, GT_OP_exp2, -INFINITY) == 0);
    CHECK(apply(k, GT_OP_exp2, 10) == 1024 && apply(k, GT_OP_exp2, 128) == INFINITY);
    CHECK(apply(k, GT_OP_log2, 8) == 3 && apply(k, GT_OP_log2, 0) == -INFINITY && isnan(apply(k, GT_OP_log2, -1)));
    CHECK(apply(k, GT_OP_log10, INFINITY) == INFINITY && apply(k, GT_OP_log10, 1) == 0);
    CHECK(isnan(apply(k, GT_OP_asin, 1.5f)) && isnan(apply(k, GT_OP_acos, -1.5f)) && apply(k, GT_OP_acos, 1) == 0);
    CHECK(apply(k, GT_OP_atan, INFINITY) == (float)M_PI_2 && apply(k, GT_OP_atan, -INFINITY) == (float)-M_PI_2);
    CHECK(apply(k, GT_OP_sinh, -INFINITY) == -INFINITY && apply(k, GT_OP_cosh, -INFINITY) == INFINITY);
    CHECK(apply(k, GT_OP_cosh, 0) == 1 && apply(k, GT_OP_asinh, -INFINITY) == -INFINITY);
    CHECK(isnan(apply(k, GT_OP_acosh, 0.5f)) && apply(k, GT_OP_acosh, INFINITY) == INFINITY);
    CHECK(apply(k, GT_OP_atanh, 1) == INFINITY && isnan(apply(k, GT_OP_atanh, 2)) &&
          isnan(apply(k, GT_OP_tan, INFINITY)));
    CHECK(isnan(apply(k, GT_OP_sin, INFINITY)) && isnan(apply(k, GT_OP_cos, -INFINITY)));
    CHECK(isnan(apply(k, GT_OP_relu, NAN)) && same(apply(k, GT_OP_relu, -0.0f), 0.0f));
    CHECK(apply(k, GT_OP_sign, NAN) == 0 && same(apply(k, GT_OP_abs, -0.0f), 0.0f));
    CHECK(apply(k, GT_OP_round, 0.5f) == 0 && apply(k, GT_OP_round, 1.5f) == 2 &&
          apply(k, GT_OP_round, -2.5f) == -2);
    CHECK(isnan(apply_two(k, GT_OP_maximum, NAN, 1)) && isnan(apply_two(k, GT_OP_maximum, 1, NAN)));
    CHECK(isnan(apply_two(k, GT_OP_minimum, NAN, 1)) && isnan(apply_two(k, GT_OP_minimum, 1, NAN)));
    CHECK(apply_two(k, GT_OP_remainder, -5, 3) == 1 && apply_two(k, GT_OP_remainder, 5, -3) == -1);
    CHECK(apply_two(k, GT_OP_remainder, -1, INFINITY) == INFINITY && isnan(apply_two(k, GT_OP_remainder, 1, 0)));
    CHECK(apply_two(k, GT_OP_floor_divide, -5, 3) == -2 && apply_two(k, GT_OP_floor_divide, 1, 0) == INFINITY);
    CHECK(same(apply_two(k, GT_OP_floor_divide, 0, -3), -0.0f));
}

/* Two operands: every pair of these as the C library has it, and pairs of moderate numbers closely. */
static void check_pairs(gt_opcode op, float (*library)(float, float), double (*exact)(double, double), double ulps)
{
    static const float special[] = {0, -0.0f, INFINITY, -INFINITY, NAN,     1,    -1,
                                    2, -3.5f, 1e-45f,   1e30f,     -1e-30f, 3e38f};
    const gt_kernels *k = gt__kernels_choose();
    const char *name = gt__op_table[op].name;
    for (int i = 0; i < COUNT(special); i++)
        for (int j = 0; j < COUNT(special); j++) {
            float x = special[i], y = special[j], got = apply_two(k, op, x, y), want = library(x, y);
            if (!CHECK(same(got, want) || error_ulps(got, exact((double)x, (double)y)) <= ulps))
                fprintf(stderr, "  %s(%g, %g): got %g, want %g\n", name, (double)x, (double)y, (double)got,
                        (double)want);
        }
    double worst = 0;
    for (int i = 0; i < 200000; i++) {
        float x = (float)(draw(-1, 1) * exp(draw(-9, 9))), y = (float)(draw(-1, 1) * exp(draw(-9, 9)));
        worst = fmax(worst, error_ulps(apply_two(k, op, x, y), exact((double)x, (double)y)));
    }
    if (!CHECK(worst <= ulps))
        fprintf(stderr, "  %s: %.3f ulps\n", name, worst);
}

static void test_two_operands(const void *argument)
{
    (void)argument;
    check_pairs(GT_OP_atan2, atan2f, atan2, 2.5);
    check_pairs(GT_OP_hypot, hypotf, hypot, 2);
    check_pairs(GT_OP_fmod, fmodf, fmod, 0);
}

static void test_pow(const void *argument)
{
    static const float special[] = {0,     -0.0f,  INFINITY, -INFINITY, NAN,  1,  -1,
                                    2,     -2,     0.5f,     -1.5f,     3,    -3, 1e-45f,
                                    1e30f, -1e30f, 8388609,  33554432,  -7.5f};
    const gt_kernels *k = gt__kernels_choose();
    (void)argument;
    for (int i = 0; i < COUNT(special); i++)
        for (int j = 0; j < COUNT(special); j++) {
            float got = apply_two(k, GT_OP_pow, special[i], special[j]), want = powf(special[i], special[j]);
            if (!CHECK(same(got, want) || error_ulps(got, (double)want) <= 1))
                fprintf(stderr, "  pow(%g, %g): got %g, want %g\n", (double)special[i], (double)special[j],
                        (double)got, (double)want);
        }
    double worst = 0;
    for (int i = 0; i < 200000; i++) {
        float x = (float)exp(draw(-80, 80)), y = (float)draw(-10, 10);
        worst = fmax(worst, error_ulps(apply_two(k, GT_OP_pow, x, y), pow((double)x, (double)y)));
    }
    CHECK(worst < 1);
}

/*
 * ---- the engine, at sizes that several threads share ---------------------------------------------------------
 */

static gt_view view_new(gt_dtype dtype, unsigned rank, const int64_t *shape)
{
    gt_view view = {.contiguous = true};
    int64_t stride = 1;
    if (gt__meta_set(&view.meta, dtype, rank, shape) != GT_OK)
        abort();
    for (int axis = (int)rank - 1; axis >= 0; axis--) {
        view.stride[axis] = stride;
        stride *= shape[axis];
    }
    if (engine->ops->alloc(engine, gt__meta_bytes(&view.meta), &view.data) != GT_OK)
        abort();
    return view;
}

static void view_free(gt_view *view)
{
    engine->ops->release(engine, view->data, gt__meta_bytes(&view->meta));
}

static void fill(gt_view *view, double low, double high)
{
    for (int64_t i = 0; i < view->meta.numel; i++)
        ((float *)view->data)[i] = (float)draw(low, high);
}

static gt_err run(gt_opcode op, gt_dtype compute, gt_imm imm, const gt_view *a, const gt_view *b,
                  const gt_view *out)
{
    gt_instruction ins = {.op = (uint16_t)op, .imm = {imm, {.f = 1}}};
    const gt_view *in[] = {a, b};
    gt_call call = {.op = op, .compute = compute, .ins = &ins, .operands = b ? 2 : 1, .in = in, .out = out};
    return engine->ops->run(engine, &call, &(gt_token){0});
}

static void test_long_sums(const void *argument)
{
    gt_view x = view_new(GT_FLOAT32, 2, (int64_t[]){2048, 2048});
    gt_view total = view_new(GT_FLOAT32, 0, NULL), columns = view_new(GT_FLOAT32, 1, (int64_t[]){2048});
    const float *data = x.data;
    double exact = 0, worst = 0;
    (void)argument;
    fill(&x, 0, 1);
    for (int64_t i = 0; i < x.meta.numel; i++)
        exact += (double)data[i];
    CHECK(run(GT_OP_sum, GT_FLOAT32, (gt_imm){.i = 0}, &x, NULL, &total) == GT_OK);
    CHECK(fabs((double)*(float *)total.data - exact) <= 1e-7 * exact);
    for (int axis = 0; axis < 2; axis++) {
        CHECK(run(GT_OP_sum, GT_FLOAT32, (gt_imm){.i = 1 << axis}, &x, NULL, &columns) == GT_OK);
        for (int64_t j = 0; j < 2048; j++) {
            exact = 0;
            for (int64_t i = 0; i < 2048; i++)
                exact += (double)data[axis ? j * 2048 + i : i * 2048 + j];
            worst = fmax(worst, fabs((double)((float *)columns.data)[j] - exact) / exact);
        }
        CHECK(worst <= 1e-6);
    }
    /* A mean far from zero is where a careless variance fails. */
    fill(&x, 9999, 10001);
    CHECK(run(GT_OP_var, GT_FLOAT32, (gt_imm){.i = 0}, &x, NULL, &total) == GT_OK);
    CHECK(fabs((double)*(float *)total.data - 1.0 / 3) < 1e-3);
    view_free(&x), view_free(&total), view_free(&columns);
}

/* Element (i, j) of a matrix laid out in one of four ways inside `memory`. */
static gt_view lay_out(gt_view *memory, int64_t rows, int64_t columns, int layout)
{
    gt_view view = *memory;
    if (gt__meta_set(&view.meta, GT_FLOAT32, 2, (int64_t[]){rows, columns}) != GT_OK)
        abort();
    view.stride[0] = layout == 0 ? columns : layout == 1 ? 1 : layout == 2 ? columns + 5 : 3 * columns;
    view.stride[1] = layout == 0 ? 1 : layout == 1 ? rows : layout == 2 ? 1 : 3;
    view.contiguous = layout == 0;
    return view;
}

static void check_product(gt_view *a, gt_view *b)
{
    int64_t m = a->meta.shape[0], k = a->meta.shape[1], n = b->meta.shape[1];
    gt_view out = view_new(GT_FLOAT32, 2, (int64_t[]){m, n});
    double worst = 0;
    CHECK(run(GT_OP_matmul, GT_FLOAT32, (gt_imm){.i = 0}, a, b, &out) == GT_OK);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double exact = 0;
            for (int64_t l = 0; l < k; l++)
                exact += (double)((float *)a->data)[i * a->stride[0] + l * a->stride[1]] *
                         (double)((float *)b->data)[l * b->stride[0] + j * b->stride[1]];
            worst = fmax(worst, fabs((double)((float *)out.data)[i * n + j] - exact));
        }
    CHECK(worst <= 1e-6 * (double)(k + 10));
    view_free(&out);
}

static void test_products(const void *argument)
{
    static const int64_t sizes[][3] = {{1, 1, 1},     {8, 8, 8},     {1, 300, 500}, {300, 1, 500}, {1, 1, 5000},
                                       {7, 5, 3},     {130, 70, 90}, {70, 130, 33}, {64, 256, 78}, {257, 1, 64},
                                       {33, 257, 1},  {2, 3, 1000},  {100, 100, 0}, {16, 9, 385},  {17, 13, 769},
                                       {24, 24, 384}, {139, 493, 21}};
    (void)argument;
    for (int s = 0; s < COUNT(sizes); s++)
        for (int layout = 0; layout < 16; layout++) {
            int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
            gt_view memory_a = view_new(GT_FLOAT32, 1, (int64_t[]){3 * m * k + 5 * m + 5 * k});
            gt_view memory_b = view_new(GT_FLOAT32, 1, (int64_t[]){3 * k * n + 5 * k + 5 * n});
            fill(&memory_a, -1, 1);
            fill(&memory_b, -1, 1);
            gt_view a = lay_out(&memory_a, m, k, layout / 4), b = lay_out(&memory_b, k, n, layout % 4);
            check_product(&a, &b);
            view_free(&memory_a), view_free(&memory_b);
        }
}

/* A product of matrices has the same bits however many threads share it. */
static void test_products_of_threads(const void *argument)
{
    static const int64_t sizes[][3] = {{300, 200, 1000}, {40, 1000, 70}, {1000, 24, 70}};
    (void)argument;
    for (int s = 0; s < COUNT(sizes); s++) {
        int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
        gt_view a = view_new(GT_FLOAT32, 2, (int64_t[]){m, k}), b = view_new(GT_FLOAT32, 2, (int64_t[]){k, n});
        gt_view out = view_new(GT_FLOAT32, 2, (int64_t[]){m, n}),
                alone = view_new(GT_FLOAT32, 2, (int64_t[]){m, n});
        gt_engine *before = engine;
        fill(&a, -1, 1);
        fill(&b, -1, 1);
        CHECK(run(GT_OP_matmul, GT_FLOAT32, (gt_imm){.i = 0}, &a, &b, &out) == GT_OK);
        if (!CHECK(gt__engine_cpu.open(&(gt_engine_options){.threads = 1}, &engine) == GT_OK))
            return;
        CHECK(run(GT_OP_matmul, GT_FLOAT32, (gt_imm){.i = 0}, &a, &b, &alone) == GT_OK);
        CHECK(memcmp(out.data, alone.data, (size_t)(m * n) * sizeof(float)) == 0);
        engine->ops->close(engine);
        engine = before;
        view_free(&a), view_free(&b), view_free(&out), view_free(&alone);
    }
}

/* Large enough to be computed in slabs, of several terms each: (2, K) times (K, N), whose element (l, j) is number l + j. */
static void test_long_integer_products(const void *argument)
{
    enum { K = 70, N = 1 << 18 };
    gt_engine *before = engine;
    if (!CHECK(gt__engine_cpu.open(&(gt_engine_options){.threads = 1}, &engine) == GT_OK)) /* all in one piece */
        return;
    gt_view a = view_new(GT_INT64, 2, (int64_t[]){2, K}), numbers = view_new(GT_INT64, 1, (int64_t[]){K + N});
    gt_view out = view_new(GT_INT64, 2, (int64_t[]){2, N}), b = numbers;
    int64_t *x = a.data, *y = numbers.data, *z = out.data;
    (void)argument;
    if (gt__meta_set(&b.meta, GT_INT64, 2, (int64_t[]){K, N}) != GT_OK)
        abort();
    b.stride[0] = b.stride[1] = 1;
    b.contiguous = false;
    for (int64_t i = 0; i < 2 * K; i++)
        x[i] = (int64_t)draw(-1000, 1000);
    for (int64_t i = 0; i < K + N; i++)
        y[i] = (int64_t)draw(-1000, 1000);
    CHECK(run(GT_OP_matmul, GT_INT64, (gt_imm){.i = 0}, &a, &b, &out) == GT_OK);
    for (int64_t i = 0; i < 2; i++)
        for (int64_t j = 0; j < N; j++) {
            int64_t exact = 0;
            for (int64_t l = 0; l < K; l++)
                exact += x[i * K + l] * y[l + j];
            CHECK_EQ(z[i * N + j], exact);
        }
    view_free(&a), view_free(&numbers), view_free(&out);
    engine->ops->close(engine);
    engine = before;
}

static void test_integer_division(const void *argument)
{
    int64_t sizes[] = {70000};
    gt_view a = view_new(GT_INT64, 1, sizes), b = view_new(GT_INT64, 1, sizes), out = view_new(GT_INT64, 1, sizes);
    int64_t *x = a.data, *y = b.data, *z = out.data;
    (void)argument;
    for (int64_t i = 0; i < sizes[0]; i++) {
        x[i] = (int64_t)draw(-1000, 1000);
        y[i] = (int64_t)draw(1, 9) * (i % 2 ? 1 : -1);
    }
    x[5] = INT64_MIN, y[5] = -1;
    CHECK(run(GT_OP_floor_divide, GT_INT64, (gt_imm){.i = 0}, &a, &b, &out) == GT_OK);
    CHECK(z[5] == INT64_MIN);
    for (int64_t i = 6; i < sizes[0]; i++)
        CHECK(z[i] == (int64_t)floor((double)x[i] / (double)y[i]));
    CHECK(run(GT_OP_remainder, GT_INT64, (gt_imm){.i = 0}, &a, &b, &out) == GT_OK);
    CHECK(z[5] == 0);
    y[69999] = 0;
    CHECK(run(GT_OP_floor_divide, GT_INT64, (gt_imm){.i = 0}, &a, &b, &out) == GT_ERR_VALUE);
    CHECK(run(GT_OP_remainder, GT_INT64, (gt_imm){.i = 0}, &a, &b, &out) == GT_ERR_VALUE);
    view_free(&a), view_free(&b), view_free(&out);
}

/* ---- the thread pool --------------------------------------------------------------------------------------- */

static void count_up(void *context, int64_t begin, int64_t end)
{
    int *counts = context;
    for (int64_t i = begin; i < end; i++)
        counts[i]++;
}

static void test_parallel(const void *argument)
{
    enum { POSITIONS = 1000, CALLS = 300 };
    gt_parallel *pool;
    int counts[POSITIONS] = {0};
    (void)argument;
    if (!CHECK(gt__parallel_new(4, NULL, &pool) == GT_OK))
        return;
    for (int call = 0; call < CALLS; call++)
        gt__parallel_for(pool, POSITIONS, 1 + call % 50, count_up, counts);
    gt__parallel_for(pool, 0, 1, count_up, counts);
    for (int i = 0; i < POSITIONS; i++)
        CHECK_EQ(counts[i], CALLS);
    gt__parallel_free(pool);
    if (CHECK(gt__parallel_new(3, NULL, &pool) == GT_OK))
        gt__parallel_free(pool); /* threads that never worked still end */
}

/* ---- cancelled work ---------------------------------------------------------------------------------------- */

static const char *never_mind(void *context)
{
    *(int *)context += 1;
    return "never mind";
}

/* Cancelled work is not done, nor is later work, until the pool is told to go on. */
static void test_cancelled_parallel(const void *argument)
{
    enum { POSITIONS = 1000 };
    const int *threads = argument;
    int counts[POSITIONS] = {0}, looks = 0;
    gt_cancel cancel = {.look = never_mind, .context = &looks};
    gt_parallel *pool;
    if (!CHECK(gt__parallel_new(*threads, &cancel, &pool) == GT_OK))
        return;
    gt__parallel_for(pool, POSITIONS, POSITIONS, count_up, counts); /* small: it does not look */
    CHECK_EQ(looks, 0);
    CHECK(gt__parallel_poll(pool) && gt__parallel_cancelled(pool));
    gt__parallel_for(pool, POSITIONS, POSITIONS, count_up, counts);
    gt__parallel_for(pool, POSITIONS, 1, count_up, counts);
    CHECK_EQ(looks, 1);
    CHECK(!strcmp(gt__parallel_resume(pool), "never mind") && !gt__parallel_cancelled(pool));
    gt__parallel_for(pool, POSITIONS, POSITIONS, count_up, counts);
    for (int i = 0; i < POSITIONS; i++)
        CHECK_EQ(counts[i], 2);
    gt__parallel_free(pool);
}

/* A sum that would take minutes ends with the reason, and the engine goes on. */
static void test_cancelled_sum(const void *argument)
{
    const int *threads = argument;
    int looks = 0;
    gt_cancel cancel = {.look = never_mind, .context = &looks};
    gt_engine *own = NULL, *before = engine;
    if (!CHECK(gt__engine_cpu.open(&(gt_engine_options){.threads = *threads, .cancel = &cancel}, &own) == GT_OK))
        return;
    engine = own;
    int64_t sizes[] = {1};
    gt_view a = view_new(GT_FLOAT32, 1, sizes), out = view_new(GT_FLOAT32, 0, sizes), wide = a;
    *(float *)a.data = 3;
    wide.meta.shape[0] = wide.meta.numel = (int64_t)1 << 40;
    wide.stride[0] = 0;
    wide.contiguous = false;
    CHECK_EQ(run(GT_OP_sum, GT_FLOAT32, (gt_imm){.i = 0}, &wide, NULL, &out), GT_ERR_CANCELLED);
    CHECK(!strcmp(gt_error_text(), "never mind"));
    CHECK_EQ(looks, 1);
    CHECK_EQ(run(GT_OP_sum, GT_FLOAT32, (gt_imm){.i = 0}, &a, NULL, &out), GT_OK);
    CHECK(*(float *)out.data == 3);
    view_free(&a), view_free(&out);
    own->ops->close(own);
    engine = before;
}

int main(int argc, char **argv)
{
    char name[64];
    check_begin(argc, argv);
    if (gt__engine_cpu.open(&(gt_engine_options){.threads = 3}, &engine) != GT_OK)
        return 1;
    printf("kernels: %s\n", gt__kernels_choose()->name);
    for (int i = 0; i < COUNT(functions); i++) {
        snprintf(name, sizeof name, "accuracy of %s", functions[i].name);
        check_run(name, test_accuracy, &functions[i]);
    }
    check_run("special values", test_special_values, NULL);
    check_run("pow", test_pow, NULL);
    check_run("atan2, hypot, fmod", test_two_operands, NULL);
    check_run("long sums", test_long_sums, NULL);
    check_run("products", test_products, NULL);
    check_run("products of several threads", test_products_of_threads, NULL);
    check_run("long integer products", test_long_integer_products, NULL);
    check_run("integer division", test_integer_division, NULL);
    check_run("parallel", test_parallel, NULL);
    check_run("cancelled, one thread", test_cancelled_parallel, &(int){1});
    check_run("cancelled, several threads", test_cancelled_parallel, &(int){3});
    check_run("cancelled sum, one thread", test_cancelled_sum, &(int){1});
    check_run("cancelled sum, several threads", test_cancelled_sum, &(int){3});
    engine->ops->close(engine);
    return check_end();
}

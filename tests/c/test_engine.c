/*
 * test_engine.c: every row of the op table, on the CPU engine and on the reference engine, with the same result. With
 * GT_TEST_ENGINE, on another engine than the CPU's.
 *
 * One generator a form makes the cases: every dtype; 0-d, empty, ordinary and large shapes; broadcasts;
 * transposed, stepped, flipped and expanded views. A row whose form has no generator fails the test, so a new row
 * is tested the day it is written, and an elementwise or reducing one without new code. engine_fixture.h runs and
 * compares; engine_cases.h has the shapes; engine_lines.h, engine_movement.h, engine_windows.h and engine_linalg.h have
 * the generators of their families.
 */
#include "check.h"
#include "engine_complex.h"
#include "engine_cases.h"
#include "engine_linalg.h"
#include "engine_lines.h"
#include "engine_movement.h"
#include "engine_windows.h"

/* ---- elementwise -------------------------------------------------------------------------------------------- */

static void unary_case(gt_opcode op, const tensor *a)
{
    operation o = operation_new(op, 1, a, NULL, NULL);
    o.ins.imm[0].f = draw_integer(0, 4) ? -1 : -INFINITY;
    o.ins.imm[1].f = draw_integer(0, 4) ? 2 : INFINITY;
    o.terms = op == GT_OP_digamma ? 16 : o.terms; /* left of 0 its two terms cancel in places */
    run_case(&o);
}

static void generate_unary(gt_opcode op)
{
    each_tensor(op, PLAIN, unary_case);
    each_tensor(op, ANY, unary_case);
}

static const shape pairs[][2] = {
    {{0}, {0}},
    {{0}, {1, 7}},
    {{1, 0}, {1, 1}},
    {{1, 7}, {1, 7}},
    {{2, 5, 6}, {2, 5, 6}},
    {{2, 5, 6}, {1, 6}},
    {{2, 1, 6}, {2, 5, 1}},
    {{3, 4, 1, 6}, {2, 3, 1}},
    {{3, 3, 0, 2}, {1, 2}},
    {{2, 5, 6}, {0}},
};

/* Gradient rows multiply a number with a slope that is a small difference of large numbers in places. */
static bool is_slope(gt_opcode op)
{
    return strstr(gt__op_table[op].name, "_backward") != NULL;
}

static void binary_case(gt_opcode op, const int64_t *size_a, const int64_t *size_b, gt_dtype dtype_a,
                        gt_dtype dtype_b, layout how)
{
    bool slope = is_slope(op);
    tensor a = tensor_new(dtype_a, size_a, how, how % 2 || slope ? PLAIN : ANY);
    /* Both engines refuse to divide integers by zero; mostly they should not have to. */
    tensor b = tensor_new(dtype_b, size_b, (layout)((how * 2 + 1) % LAYOUTS),
                          how == CONTIGUOUS && !slope ? ANY : NONZERO);
    operation o = operation_new(op, 2, &a, &b, NULL);
    o.ins.imm[0].f = 0.5;
    o.ins.imm[1].f = draw_integer(0, 4) ? 2 : INFINITY;
    /* The last digits of these depend on how products and sums are fused. */
    bool sensitive = op == GT_OP_standard_gamma_grad || op == GT_OP_igamma || op == GT_OP_igammac;
    o.terms = slope || sensitive ? 16 : o.terms;
    run_case(&o);
    for (unsigned k = 0; k < 2; k++) {
        operation literal = o;
        set_literal(&literal, k, GT_LITERAL_INT, (gt_imm){.i = 3});
        run_case(&literal);
        literal = o;
        set_literal(&literal, k, GT_LITERAL_FLOAT, (gt_imm){.f = -1.5});
        run_case(&literal);
        literal = o;
        set_literal(&literal, k, GT_LITERAL_BOOL, (gt_imm){.i = 1});
        run_case(&literal);
    }
    tensor_free(&a);
    tensor_free(&b);
}

static void generate_binary(gt_opcode op)
{
    for (int dtype = 0; dtype < GT_REAL_DTYPES; dtype++) {
        for (int k = 0; k < COUNT(pairs); k++) {
            for (int how = 0; how < LAYOUTS; how++)
                binary_case(op, pairs[k][0], pairs[k][1], (gt_dtype)dtype, (gt_dtype)dtype, (layout)how);
            gt_dtype other = (gt_dtype)draw_integer(0, GT_REAL_DTYPES);
            binary_case(op, pairs[k][0], pairs[k][1], (gt_dtype)dtype, other, NEGATIVE);
        }
    }
    for (int k = 0; k < LARGE_CASES; k++) {
        static const shape row = {1, 301}, column = {2, 263, 1};
        const int64_t *other[] = {large, row, column};
        tensor a = tensor_new(large_cases[k].dtype, large, large_cases[k].how, is_slope(op) ? PLAIN : ANY);
        tensor b = tensor_new(large_cases[k].dtype, other[k % 3], CONTIGUOUS, NONZERO);
        operation o = operation_new(op, 2, &a, &b, NULL);
        o.terms = is_slope(op) ? 16 : o.terms;
        run_case(&o);
        tensor_free(&a);
        tensor_free(&b);
    }
}

static void ternary_case(gt_opcode op, const int64_t *size_a, const int64_t *size_b, gt_dtype dtype, layout how)
{
    tensor condition = tensor_new(op == GT_OP_where ? GT_BOOL : dtype, size_b, how, FEW);
    tensor a = tensor_new(dtype, size_a, (layout)((how + 1) % LAYOUTS), ANY);
    tensor b = tensor_new(how == STEPPED ? (gt_dtype)draw_integer(0, GT_REAL_DTYPES) : dtype, size_b, how, ANY);
    operation o = operation_new(op, 3, &condition, &a, &b);
    o.terms = op == GT_OP_where ? o.terms : 16; /* the others add products, whose sum can be small */
    run_case(&o);
    set_literal(&o, 1, GT_LITERAL_INT, (gt_imm){.i = 7});
    run_case(&o);
    set_literal(&o, 2, GT_LITERAL_FLOAT, (gt_imm){.f = 0.25});
    run_case(&o);
    double terms = o.terms;
    o = operation_new(op, 3, &condition, &a, &b);
    o.terms = terms;
    set_literal(&o, 2, GT_LITERAL_BOOL, (gt_imm){.i = 1});
    run_case(&o);
    tensor_free(&condition);
    tensor_free(&a);
    tensor_free(&b);
}

static void generate_ternary(gt_opcode op)
{
    for (int dtype = 0; dtype < GT_REAL_DTYPES; dtype++)
        for (int k = 0; k < COUNT(pairs); k++)
            for (int how = 0; how < LAYOUTS; how++)
                ternary_case(op, pairs[k][0], pairs[k][1], (gt_dtype)dtype, (layout)how);
    for (int k = 0; k < LARGE_CASES; k++)
        ternary_case(op, large, large, large_cases[k].dtype, large_cases[k].how);
}

/* ---- reductions ---------------------------------------------------------------------------------------------- */

static void reduce_case(gt_opcode op, const tensor *a)
{
    static const double orders[] = {0, 1, 2, 3, 0.5, -1, INFINITY, -INFINITY};
    const gt_meta *meta = &a->view.meta;
    for (int64_t mask = 0; mask < (1 << meta->rank); mask++) {
        operation o = operation_new(op, 1, a, NULL, NULL);
        o.ins.imm[0].i = mask;
        o.ins.imm[1].f = op == GT_OP_norm ? orders[draw_integer(0, COUNT(orders))] : (double)draw_integer(0, 3);
        o.ins.flags = draw_integer(0, 2) ? GT_FLAG_KEEPDIM : 0;
        for (int axis = 0; axis < meta->rank; axis++)
            o.terms *= mask >> axis & 1 || !mask ? (double)meta->shape[axis] + 1 : 1;
        run_case(&o);
    }
}

/* Lines that engines may read by vectors, of several images. */
static void reduce_images(gt_opcode op)
{
    static const shape images = {4, 3, 5, 4, 8};
    for (int k = 0; k < 2; k++) {
        tensor a = tensor_new(k ? GT_BFLOAT16 : GT_FLOAT32, images, (layout)0, PLAIN);
        reduce_case(op, &a);
        tensor_free(&a);
    }
}

static void generate_reduce(gt_opcode op)
{
    if (op == GT_OP_sum || op == GT_OP_var)
        reduce_images(op);
    each_tensor(op, op == GT_OP_prod ? NEAR_ONE : PLAIN, reduce_case);
    each_tensor(op, FEW, reduce_case);
    if (op != GT_OP_prod) /* of so many it is 0 or infinite */
        each_wide_matrix(op, reduce_case);
}

static void argreduce_case(gt_opcode op, const tensor *a)
{
    for (int64_t axis = -1; axis < (a->view.meta.rank ? a->view.meta.rank : 1); axis++) {
        operation o = operation_new(op, 1, a, NULL, NULL);
        o.ins.imm[0].i = axis;
        o.ins.flags = draw_integer(0, 2) ? GT_FLAG_KEEPDIM : 0;
        run_case(&o);
    }
}

static void generate_argreduce(gt_opcode op)
{
    each_tensor(op, PLAIN, argreduce_case);
    each_wide_matrix(op, argreduce_case);
    each_tensor(op, FEW, argreduce_case);
}

/* ---- products ----------------------------------------------------------------------------------------------- */

static void generate_matmul(gt_opcode op)
{
    static const shape products[][2] = {
        {{1, 4}, {1, 4}},          {{2, 3, 4}, {2, 4, 5}},          {{2, 3, 4}, {1, 4}},
        {{1, 4}, {2, 4, 5}},       {{3, 2, 3, 4}, {1, 4}},          {{1, 4}, {3, 2, 4, 5}},
        {{3, 2, 3, 4}, {2, 4, 5}}, {{4, 2, 1, 3, 4}, {3, 5, 4, 2}}, {{2, 0, 4}, {2, 4, 3}},
        {{2, 3, 0}, {2, 0, 2}},    {{2, 1, 4}, {2, 4, 1}},          {{2, 65, 70}, {2, 70, 33}},
        {{3, 0, 3, 4}, {2, 4, 5}}, {{3, 3, 17, 9}, {3, 3, 9, 18}},  {{2, 3, 4}, {2, 5, 4}},
    };
    for (int dtype = 0; dtype < GT_REAL_DTYPES; dtype++) {
        for (int k = 0; k < COUNT(products); k++) {
            for (int how = 0; how < LAYOUTS * LAYOUTS; how++) {
                tensor a = tensor_new((gt_dtype)dtype, products[k][0], (layout)(how % LAYOUTS), PLAIN);
                tensor b = tensor_new((gt_dtype)dtype, products[k][1], (layout)(how / LAYOUTS), PLAIN);
                operation o = operation_new(op, 2, &a, &b, NULL);
                o.terms = 16 * (double)(products[k][0][products[k][0][0]] + 1);
                run_case(&o);
                o.ins.imm[0].i = GT_PRODUCT_WIDE;
                run_case(&o);
                tensor_free(&a);
                tensor_free(&b);
            }
        }
    }
}

static void generate_linear(gt_opcode op)
{
    static const shape products[][3] = {
        {{1, 4}, {2, 4, 5}, {1, 5}},         {{2, 3, 4}, {2, 4, 5}, {1, 5}},    {{3, 2, 3, 4}, {2, 4, 5}, {1, 5}},
        {{2, 0, 4}, {2, 4, 3}, {1, 3}},      {{2, 3, 0}, {2, 0, 2}, {1, 2}},    {{2, 1, 4}, {2, 4, 1}, {1, 1}},
        {{2, 65, 72}, {2, 72, 40}, {1, 40}}, {{3, 0, 3, 4}, {2, 4, 5}, {1, 5}}, {{2, 9, 8}, {2, 8, 16}, {1, 16}},
    };
    for (int dtype = GT_FLOAT16; dtype < GT_REAL_DTYPES; dtype++)
        for (int k = 0; k < COUNT(products); k++)
            for (int how = 0; how < LAYOUTS * LAYOUTS; how++) {
                tensor a = tensor_new((gt_dtype)dtype, products[k][0], (layout)(how % LAYOUTS), PLAIN);
                tensor b = tensor_new((gt_dtype)dtype, products[k][1], (layout)(how / LAYOUTS), PLAIN);
                tensor bias = tensor_new((gt_dtype)dtype, products[k][2], (layout)(how % LAYOUTS), PLAIN);
                operation o = operation_new(op, 3, &a, &b, &bias);
                o.terms = 16 * (double)(products[k][0][products[k][0][0]] + 2);
                run_case(&o);
                tensor_free(&a);
                tensor_free(&b);
                tensor_free(&bias);
            }
}

static void attention_case(gt_opcode op, const tensor *q, const tensor *k, const tensor *v, int64_t period)
{
    operation o = operation_new(op, 3, q, k, v);
    o.ins.imm[0].f = 0.5;
    o.ins.imm[1].i = period;
    o.terms =
        16 * (double)(q->view.meta.shape[q->view.meta.rank - 2] + k->view.meta.shape[k->view.meta.rank - 2] + 16);
    run_case(&o);
}

/* (2, heads, length, width), where the heads of a position lie side by side, as a model's projection makes them. */
static tensor tensor_of_heads(gt_dtype dtype, int64_t length, int64_t heads, int64_t width)
{
    tensor t = tensor_new(dtype, (shape){4, 2, length, heads, width}, CONTIGUOUS, NEAR_ONE);
    t.view.meta.shape[1] = heads;
    t.view.meta.shape[2] = length;
    t.view.stride[1] = width;
    t.view.stride[2] = heads * width;
    t.view.contiguous = heads == 1;
    return t;
}

static void generate_attention(gt_opcode op)
{
    static const struct {
        shape q, k, v;
        int64_t period;
    } cases[] = {
        {.q = {2, 3, 4}, .k = {2, 5, 4}, .v = {2, 5, 2}, .period = 0},
        {.q = {2, 5, 4}, .k = {2, 5, 4}, .v = {2, 5, 4}, .period = 5},
        {.q = {4, 2, 3, 7, 4}, .k = {4, 2, 3, 5, 4}, .v = {4, 2, 3, 5, 3}, .period = 7},
        {.q = {3, 2, 130, 16}, .k = {3, 2, 67, 16}, .v = {3, 2, 67, 8}, .period = 65},
        {.q = {2, 300, 4}, .k = {2, 250, 4}, .v = {2, 250, 3}, .period = 0},
        {.q = {3, 2, 130, 32}, .k = {3, 2, 67, 32}, .v = {3, 2, 67, 32}, .period = 65},
        {.q = {3, 2, 100, 64}, .k = {3, 2, 100, 64}, .v = {3, 2, 100, 64}, .period = 100},
        {.q = {2, 70, 16}, .k = {2, 90, 16}, .v = {2, 90, 16}, .period = 0},
        {.q = {3, 2, 200, 64}, .k = {3, 2, 150, 64}, .v = {3, 2, 150, 64}, .period = 0},
        {.q = {3, 3, 129, 80}, .k = {3, 3, 65, 80}, .v = {3, 3, 65, 80}, .period = 43},
        {.q = {2, 1, 128}, .k = {2, 1, 128}, .v = {2, 1, 128}, .period = 1},
        {.q = {2, 130, 128}, .k = {2, 129, 128}, .v = {2, 129, 128}, .period = 130},
        {.q = {3, 0, 3, 4}, .k = {3, 0, 2, 4}, .v = {3, 0, 2, 4}, .period = 0},
        {.q = {2, 3, 4}, .k = {2, 0, 4}, .v = {2, 0, 2}, .period = 0},
        {.q = {2, 0, 4}, .k = {2, 3, 4}, .v = {2, 3, 2}, .period = 1},
        {.q = {2, 3, 0}, .k = {2, 2, 0}, .v = {2, 2, 2}, .period = 0},
    };
    for (int dtype = GT_FLOAT16; dtype < GT_REAL_DTYPES; dtype++)
        for (int k = 0; k < COUNT(cases); k++)
            for (int how = 0; how < LAYOUTS; how++) {
                shape q;
                memcpy(q, cases[k].q, sizeof q);
                if (op == GT_OP_attention_backward)
                    q[q[0]] += cases[k].v[cases[k].v[0]];
                tensor a = tensor_new((gt_dtype)dtype, q, (layout)how, NEAR_ONE);
                tensor b = tensor_new((gt_dtype)dtype, cases[k].k, (layout)((how + 1) % LAYOUTS), NEAR_ONE);
                tensor c = tensor_new((gt_dtype)dtype, cases[k].v, (layout)((how + 2) % LAYOUTS), NEAR_ONE);
                attention_case(op, &a, &b, &c, cases[k].period);
                tensor_free(&a);
                tensor_free(&b);
                tensor_free(&c);
            }
    for (int dtype = GT_FLOAT16; dtype <= GT_FLOAT32; dtype++)
        for (int64_t heads = 1; heads <= 3; heads++) {
            tensor a = tensor_of_heads((gt_dtype)dtype, 70, heads, op == GT_OP_attention ? 32 : 64);
            tensor b = tensor_of_heads((gt_dtype)dtype, 65, heads, 32);
            tensor c = tensor_of_heads((gt_dtype)dtype, 65, heads, 32);
            attention_case(op, &a, &b, &c, heads == 2 ? 0 : 70);
            b.view.contiguous = c.view.contiguous = false;
            b.view.stride[1] = c.view.stride[1] = 0; /* one head of keys and values for all */
            attention_case(op, &a, &b, &c, 35);
            tensor_free(&a);
            tensor_free(&b);
            tensor_free(&c);
        }
}

/* ---- normalisation ------------------------------------------------------------------------------------------ */

static void layer_norm_case(gt_opcode op, const tensor *a)
{
    const gt_meta *meta = &a->view.meta;
    for (int64_t first = 0; first < meta->rank; first++) {
        shape line = {meta->rank - first}, whole = {meta->rank};
        for (int k = 0; k < meta->rank; k++) {
            whole[k + 1] = meta->shape[k];
            if (k >= first)
                line[k + 1 - first] = meta->shape[k];
        }
        layout how = (layout)draw_integer(0, LAYOUTS);
        tensor weight = tensor_new((gt_dtype)meta->dtype, line, how, PLAIN);
        tensor bias = tensor_new((gt_dtype)meta->dtype, line, how, PLAIN);
        tensor gradient = tensor_new((gt_dtype)meta->dtype, whole, how, PLAIN);
        bool forward = op == GT_OP_layer_norm;
        operation o =
            forward ? operation_new(op, 3, a, &weight, &bias) : operation_new(op, 3, &gradient, a, &weight);
        o.ins.imm[0].i = first;
        o.ins.imm[1].f = 0.1;
        o.terms = (double)meta->numel + 64; /* of what cancels */
        run_case(&o);
        set_literal(&o, 2, GT_LITERAL_FLOAT, (gt_imm){.f = 0.5});
        run_case(&o);
        tensor_free(&weight);
        tensor_free(&bias);
        tensor_free(&gradient);
    }
}

static void generate_layer_norm(gt_opcode op)
{
    each_tensor(op, PLAIN, layer_norm_case);
    each_wide_matrix(op, layer_norm_case);
}

/* Positive numbers in the second row: variances. */
static tensor moments_new(gt_dtype dtype, int64_t rows, int64_t channels, layout how)
{
    tensor moments = tensor_new(dtype, (shape){2, rows, channels}, how, PLAIN);
    for (int64_t k = channels; k < 2 * channels; k++)
        gt__reference_put_real(&moments.view, k, fabs(gt__reference_real(&moments.view, k)) + 0.25);
    return moments;
}

static void batch_norm_case(gt_opcode op, const tensor *a)
{
    const gt_meta *meta = &a->view.meta;
    if (meta->rank < 2 || !gt__dtype_is_float((gt_dtype)meta->dtype))
        return;
    gt_dtype wide = meta->dtype == GT_FLOAT64 ? GT_FLOAT64 : GT_FLOAT32;
    layout how = (layout)draw_integer(0, LAYOUTS);
    bool forward = op == GT_OP_batch_norm, of_x = draw_integer(0, 2);
    int64_t rows = op != GT_OP_batch_norm_backward ? 2 : 2 * draw_integer(1 + of_x, 3 + of_x);
    shape whole = {meta->rank};
    for (int k = 0; k < meta->rank; k++)
        whole[k + 1] = meta->shape[k];
    tensor moments = moments_new(wide, rows, meta->shape[1], how);
    tensor affine = tensor_new(wide, (shape){2, 2, meta->shape[1]}, how, PLAIN);
    tensor gradient = tensor_new((gt_dtype)meta->dtype, whole, how, PLAIN);
    operation o = op == GT_OP_batch_moments ? operation_new(op, 1, a, NULL, NULL)
                  : forward                 ? operation_new(op, 3, a, &moments, &affine)
                                            : operation_new(op, 3, &gradient, a, &moments);
    o.ins.imm[0].i = forward ? of_x
                     : op == GT_OP_batch_norm_backward && of_x
                         ? meta->numel / (meta->shape[1] ? meta->shape[1] : 1)
                         : 0;
    o.ins.imm[1].f = 0.1;
    o.terms = (double)meta->numel + 64;
    run_case(&o);
    if (forward) {
        set_literal(&o, 2, GT_LITERAL_FLOAT, (gt_imm){.f = 1});
        run_case(&o);
    }
    tensor_free(&moments);
    tensor_free(&affine);
    tensor_free(&gradient);
}

/* Planes that vectors divide, planes that they do not, planes of one element, and channels that take several blocks. */
static void generate_batch_norm(gt_opcode op)
{
    static const shape planes[] = {{3, 3, 5, 49},   {4, 2, 3, 4, 4}, {2, 65, 7},   {2, 40, 72},       {3, 2, 9, 2},
                                   {3, 3, 2, 2048}, {3, 5, 3, 12},   {2, 2100, 2}, {5, 2, 2, 3, 2, 5}};
    each_tensor(op, PLAIN, batch_norm_case);
    for (unsigned k = 0; k < sizeof planes / sizeof *planes; k++)
        for (int dtype = GT_FLOAT16; dtype < GT_COMPLEX64; dtype++)
            for (int how = 0; how < LAYOUTS; how++) {
                tensor a = tensor_new((gt_dtype)dtype, planes[k], (layout)how, PLAIN);
                batch_norm_case(op, &a);
                tensor_free(&a);
            }
}

/* ---- draws with given probabilities -------------------------------------------------------------------------- */

static void sample_case(gt_opcode op, const tensor *a)
{
    int64_t n = a->view.meta.rank ? a->view.meta.shape[a->view.meta.rank - 1] : 1;
    for (int64_t replacement = 0; replacement < 2; replacement++) {
        operation o = operation_new(op, 1, a, NULL, NULL);
        o.ins.imm[0].u = draw_bits();
        o.ins.imm[1].u = draw_bits();
        o.ins.tail = 1;
        o.tail[0].i64[0] = replacement ? draw_integer(1, 2 * n + 2) : draw_integer(0, n + 1);
        o.tail[0].i64[1] = replacement;
        run_case(&o);
    }
}

/* Numbers between 0 and 1, with some zeros; one in four tensors keeps what is no probability. */
static void probability_case(gt_opcode op, const tensor *a)
{
    for (int64_t k = 0; k < a->view.meta.numel && draw_integer(0, 4); k++) {
        double p = fabs(gt__reference_real(&a->view, k)) / 4;
        gt__reference_put_real(&a->view, k, p <= 1 ? p : 1);
    }
    sample_case(op, a);
}

/* Larger parameters, for the samplers that reject: trials (or rates, shapes) up to some hundreds, then probabilities. */
static void generate_large_draws(gt_opcode op)
{
    for (int dtype = GT_FLOAT16; dtype < GT_DTYPE_COUNT; dtype++)
        for (int how = 0; how < LAYOUTS; how++) {
            tensor a = tensor_new((gt_dtype)dtype, (shape){2, 2, 150}, (layout)how, PLAIN);
            for (int64_t k = 0; k < a.view.meta.numel; k++) {
                double x = fabs(gt__reference_real(&a.view, k));
                gt__reference_put_real(&a.view, k, k < 150 ? ceil(40 * x) : fmod(x, 1));
            }
            sample_case(op, &a);
            tensor_free(&a);
        }
}

static void generate_sample(gt_opcode op)
{
    generate_large_draws(op);
    for (int times = 0; times < 8; times++)
        each_tensor(op, PLAIN, probability_case);
    each_tensor(op, ANY, sample_case);
    tensor a = tensor_new(GT_FLOAT32, (shape){2, 3, 20011}, TRANSPOSED, PLAIN);
    for (int64_t k = 0; k < a.view.meta.numel; k++)
        gt__reference_put_real(&a.view, k, draw_real(0, 1));
    for (int times = 0; times < 3; times++) {
        operation o = operation_new(op, 1, &a, NULL, NULL);
        o.ins.tail = 1;
        o.tail[0].i64[0] = 50;
        o.tail[0].i64[1] = times == 0;
        run_case(&o);
    }
    tensor_free(&a);
}

/* ---- creation ----------------------------------------------------------------------------------------------- */

static void create_case(gt_opcode op, gt_dtype dtype, const int64_t *sizes)
{
    bool real = gt__dtype_is_float(dtype);
    operation o = operation_new(op, 0, NULL, NULL, NULL);
    set_shape(&o, dtype, sizes);
    o.ins.imm[0] = real ? (gt_imm){.f = -1.25} : (gt_imm){.i = -3};
    o.ins.imm[1] = real ? (gt_imm){.f = 0.1} : (gt_imm){.i = 7};
    if (gt__op_table[op].form == GT_FORM_RANDOM) {
        o.ins.imm[0].u = draw_bits();
        o.ins.imm[1].u = draw_bits();
        o.tail[1].i64[0] = -20;
        o.tail[1].i64[1] = 100;
        o.ins.tail = 2;
    }
    o.exact = true;
    run_case(&o);
}

/* Zeros and other real numbers, and one with an imaginary part. */
static void complex_full_cases(gt_opcode op)
{
    for (int dtype = GT_REAL_DTYPES; dtype < GT_DTYPE_COUNT; dtype++)
        for (int k = 0; k < 3 * COUNT(shapes); k++) {
            operation o = operation_new(op, 0, NULL, NULL, NULL);
            set_shape(&o, (gt_dtype)dtype, shapes[k / 3]);
            o.ins.imm[0].f = k % 3 ? -1.25 : 0;
            o.ins.imm[1].f = k % 3 == 2 ? 0.1 : 0;
            o.exact = true;
            run_case(&o);
        }
}

static void generate_creation(gt_opcode op)
{
    if (op == GT_OP_full)
        complex_full_cases(op);
    for (int dtype = 0; dtype < GT_REAL_DTYPES; dtype++) {
        for (int k = 0; k < COUNT(shapes); k++)
            create_case(op, (gt_dtype)dtype, shapes[k]);
        create_case(op, (gt_dtype)dtype, large);
        create_case(op, (gt_dtype)dtype, (shape){1, 70001});
    }
}

/* ---- the table ---------------------------------------------------------------------------------------------- */

static void (*const generators[])(gt_opcode) = {
    [GT_FORM_UNARY] = generate_unary,
    [GT_FORM_BINARY] = generate_binary,
    [GT_FORM_TERNARY] = generate_ternary,
    [GT_FORM_REDUCE] = generate_reduce,
    [GT_FORM_ARGREDUCE] = generate_argreduce,
    [GT_FORM_SCAN] = generate_scan,
    [GT_FORM_SOFTMAX] = generate_softmax,
    [GT_FORM_SOFTMAX_BACKWARD] = generate_softmax_backward,
    [GT_FORM_MATMUL] = generate_matmul,
    [GT_FORM_LINEAR] = generate_linear,
    [GT_FORM_LAYER_NORM] = generate_layer_norm,
    [GT_FORM_MOMENTS] = generate_batch_norm,
    [GT_FORM_BATCH_NORM] = generate_batch_norm,
    [GT_FORM_CONV] = generate_conv,
    [GT_FORM_ATTENTION] = generate_attention,
    [GT_FORM_SPARSE] = generate_sparse,
    [GT_FORM_FFT] = generate_fft,
    [GT_FORM_AS_COMPLEX] = generate_as_complex,
    [GT_FORM_CONV_WEIGHT] = generate_conv,
    [GT_FORM_MAX_POOL] = generate_pool,
    [GT_FORM_MAX_INDEX] = generate_pool,
    [GT_FORM_POOL] = generate_pool,
    [GT_FORM_IM2COL] = generate_im2col,
    [GT_FORM_RESAMPLE] = generate_resample,
    [GT_FORM_MATRIX] = generate_matrix,
    [GT_FORM_SOLVE] = generate_solve,
    [GT_FORM_RESHAPE] = generate_copy,
    [GT_FORM_CAST] = generate_cast,
    [GT_FORM_COPY] = generate_copy,
    [GT_FORM_CAT] = generate_cat,
    [GT_FORM_TRIANGLE] = generate_triangle,
    [GT_FORM_TAKE] = generate_take,
    [GT_FORM_GATHER] = generate_gather,
    [GT_FORM_SCATTER] = generate_scatter,
    [GT_FORM_ASSIGN] = generate_assign,
    [GT_FORM_WRAP_INDEX] = generate_wrap_index,
    [GT_FORM_MASK_INDEX] = generate_mask_index,
    [GT_FORM_ARGSORT] = generate_argsort,
    [GT_FORM_TOPK] = generate_topk,
    [GT_FORM_SAMPLE] = generate_sample,
    [GT_FORM_SEARCH] = generate_search,
    [GT_FORM_FULL] = generate_creation,
    [GT_FORM_ARANGE] = generate_creation,
    [GT_FORM_EYE] = generate_creation,
    [GT_FORM_RANDOM] = generate_creation,
};

/* The worker answers these itself. */
static bool needs_no_engine(gt_form form)
{
    return form == GT_FORM_PERMUTE || form == GT_FORM_EXPAND || form == GT_FORM_SLICE ||
           form == GT_FORM_DIAGONAL || form == GT_FORM_AS_REAL || form == GT_FORM_UNFOLD ||
           form == GT_FORM_UPLOAD || form == GT_FORM_CONTROL;
}

static void test_row(const void *argument)
{
    gt_opcode op = *(const gt_opcode *)argument;
    unsigned form = gt__op_table[op].form;
    if (needs_no_engine((gt_form)form))
        return;
    if (!CHECK(form < (unsigned)COUNT(generators) && generators[form])) {
        fprintf(stderr, "%s: this form has no generator: write one above\n", gt__op_table[op].name);
        return;
    }
    long cases = fixture_now.cases, failed = fixture_now.failed;
    fixture_now.described = 0;
    draw_seed(gt__op_table[op].name);
    fixture_now.every = cases_left_out();
    fixture_now.turn = 0;
    generators[form](op);
    fixture_now.every = 0;
    CHECK(fixture_now.cases > cases);
    CHECK_EQ(fixture_now.failed, failed);
}

/* ---- what is not in the table ------------------------------------------------------------------------------- */

static void check_bad_index(gt_opcode op, const tensor *a, const tensor *index, const tensor *src,
                            const char *text)
{
    operation o = operation_new(op, src ? 3 : 2, a, index, src);
    CHECK_EQ(run_case(&o), GT_ERR_INDEX);
    if (!CHECK(strcmp(gt_error_text(), text) == 0))
        fprintf(stderr, "%s: %s\n", gt__op_table[op].name, gt_error_text());
}

static void test_bad_indices(const void *argument)
{
    (void)argument;
    tensor a = tensor_new(GT_FLOAT32, (shape){2, 5, 3}, CONTIGUOUS, PLAIN);
    tensor index = index_new(GT_INT32, (shape){2, 5, 3}, TRANSPOSED, 0, 5);
    gt__reference_put_integer(&index.view, 11, 7);
    static const char *beyond = "index 7 is out of bounds for dimension 0 with size 5";
    check_bad_index(GT_OP_take, &a, &index, NULL, beyond);
    check_bad_index(GT_OP_gather, &a, &index, NULL, beyond);
    check_bad_index(GT_OP_scatter, &a, &index, &a, beyond);
    check_bad_index(GT_OP_scatter_add, &a, &index, &a, beyond);
    gt__reference_put_integer(&index.view, 11, -1);
    static const char *negative = "index -1 is out of bounds for dimension 0 with size 5";
    check_bad_index(GT_OP_gather, &a, &index, NULL, negative);
    check_bad_index(GT_OP_scatter, &a, &index, &a, negative);
    operation o = operation_new(GT_OP_take, 2, &a, &index, NULL);
    CHECK_EQ(run_case(&o), GT_OK);
    tensor_free(&a);
    tensor_free(&index);
}

/* The same bits from one thread as from three: scans, scatters and random numbers. */
static void test_threads(const void *argument)
{
    (void)argument;
    static const gt_opcode ops[] = {GT_OP_cumsum, GT_OP_scatter_add, GT_OP_randn, GT_OP_bernoulli};
    gt_engine *one;
    if (!CHECK_EQ(gt__engine_cpu.open(&(gt_engine_options){.threads = 1}, &one), GT_OK))
        return;
    tensor a = tensor_new(GT_FLOAT32, (shape){2, 400, 500}, CONTIGUOUS, PLAIN);
    tensor index = index_new(GT_INT64, (shape){2, 400, 500}, REPEATED, 0, 400);
    for (int64_t k = 0; k < a.view.meta.numel; k++)
        gt__reference_put_real(&a.view, k, draw_real(0, 1));
    for (int k = 0; k < COUNT(ops); k++) {
        operation o = operation_new(ops[k], gt__op_operands(ops[k]), &a, &index, &a);
        const gt_meta *metas[] = {&a.view.meta, &index.view.meta, &a.view.meta};
        if (ops[k] == GT_OP_randn) {
            set_shape(&o, GT_FLOAT32, (shape){1, 200000});
            o.ins.tail = 2;
        }
        gt_meta meta = {0};
        gt_dtype compute;
        gt_view alone, together;
        bool overrun;
        CHECK_EQ(gt__op_infer(&o.ins, o.tail, metas, &meta, &compute), GT_OK);
        CHECK_EQ(run_on(one, &o, &meta, compute, &alone, &overrun), GT_OK);
        CHECK_EQ(run_on(fixture_now.tested, &o, &meta, compute, &together, &overrun), GT_OK);
        if (!CHECK(memcmp(alone.data, together.data, gt__meta_bytes(&meta)) == 0))
            fprintf(stderr, "%s depends on the number of threads\n", gt__op_table[ops[k]].name);
        free(alone.data);
        free(together.data);
    }
    tensor_free(&a);
    tensor_free(&index);
    one->ops->close(one);
}

/* GT_TEST_PART=k/n: every n-th row from the k-th, so that several processes share the table. */
static bool in_part(gt_opcode op)
{
    const char *text = getenv("GT_TEST_PART");
    unsigned part, parts;
    return !text || sscanf(text, "%u/%u", &part, &parts) != 2 || !parts || (unsigned)op % parts == part;
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    if (fixture_open(3) != GT_OK) {
        fprintf(stderr, "%s\n", gt_error_text());
        return 1;
    }
    for (gt_opcode op = 1; op < GT_OP_COUNT; op++)
        if (!needs_no_engine((gt_form)gt__op_table[op].form) && in_part(op))
            check_run(gt__op_table[op].name, test_row, &op);
    for (gt_opcode op = 1; op < GT_OP_COUNT; op++)
        if (gt__op_complex[op] && in_part(op))
            check_run("complex", test_complex_row, &op);
    check_run("bad indices", test_bad_indices, NULL);
    check_run("matrices without a result", test_no_result, NULL);
    check_run("threads", test_threads, NULL);
    fixture_close();
    printf("%ld cases, %ld refused by inference\n", fixture_now.cases, fixture_now.refused);
    return check_end();
}

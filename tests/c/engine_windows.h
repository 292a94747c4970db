/*
 * engine_windows.h: test_engine.c's generators for convolutions, pooling, im2col and resample: random windows
 * of one to three axes, in every dtype and layout, some of them partly or wholly outside the tensor.
 */
#ifndef GT_TESTS_ENGINE_WINDOWS_H
#define GT_TESTS_ENGINE_WINDOWS_H

#include "engine_fixture.h"
#include "core/window.h"

/* A convolution or pooling drawn at random: spatial sizes of both sides, and the windows that lead from one to
 * the other. */
typedef struct geometry {
    gt_window w;
    int spatial;
    int64_t x[GT_MAX_SPATIAL], y[GT_MAX_SPATIAL], kernel[GT_MAX_SPATIAL];
} geometry;

static geometry draw_geometry(int64_t longest)
{
    geometry g = {.spatial = (int)draw_integer(1, 4), .w = {.groups = 1}};
    for (int axis = 0; axis < g.spatial; axis++) {
        int64_t kernel = draw_integer(1, 5), stride = draw_integer(1, 4), dilation = draw_integer(1, 3);
        int64_t padding = draw_integer(0, 3), size = draw_integer(1, longest + 1);
        int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
        g.kernel[axis] = g.w.kernel[axis] = kernel;
        g.w.stride[axis] = stride;
        g.w.dilation[axis] = dilation;
        g.w.padding[axis] = padding;
        g.x[axis] = size;
        g.y[axis] = room >= 0 ? room / stride + 1 : 1;
        if (draw_integer(0, 6) == 0)
            g.y[axis] += draw_integer(0, 3); /* windows behind the end: padding */
    }
    return g;
}

static void set_sizes(int64_t *sizes, int64_t first, int64_t second, const int64_t *spatial, int count)
{
    sizes[0] = count + 2;
    sizes[1] = first;
    sizes[2] = second;
    memcpy(sizes + 3, spatial, (size_t)count * sizeof *sizes);
}

static void run_window(operation *o, geometry *g, const int64_t *size)
{
    memcpy(g->w.size, size, sizeof g->w.size);
    o->ins.rank = (uint8_t)g->spatial;
    o->ins.tail = GT_WINDOW_TAIL;
    gt__window_write(o->tail, &g->w);
    run_case(o);
}

static void conv_case(gt_opcode op, gt_dtype dtype, geometry g, int64_t images, int64_t groups, int64_t inner,
                      int64_t outer)
{
    shape x_size, y_size, weight_size;
    layout how = (layout)draw_integer(0, LAYOUTS);
    g.w.groups = groups;
    set_sizes(x_size, images, groups * inner, g.x, g.spatial);
    set_sizes(y_size, images, groups * outer, g.y, g.spatial);
    set_sizes(weight_size, groups * outer, inner, g.kernel, g.spatial);
    tensor x = tensor_new(dtype, x_size, how, PLAIN), y = tensor_new(dtype, y_size, how, PLAIN);
    tensor weight = tensor_new(dtype, weight_size, (layout)draw_integer(0, LAYOUTS), PLAIN);
    tensor bias = tensor_new(dtype, (shape){1, groups * (op == GT_OP_conv ? outer : inner)}, STEPPED, PLAIN);
    operation o = operation_new(op, op == GT_OP_conv_weight ? 2 : 3, op == GT_OP_conv ? &x : &y,
                                op == GT_OP_conv_weight ? &x : &weight, &bias);
    double terms =
        op == GT_OP_conv_weight ? (double)(y.view.meta.numel + 1) : (double)(weight.view.meta.numel + 1);
    o.terms = 16 * terms;
    if (op != GT_OP_conv_weight && draw_integer(0, 2))
        set_literal(&o, 2, GT_LITERAL_INT, (gt_imm){.i = 0});
    run_window(&o, &g, op == GT_OP_conv ? g.y : op == GT_OP_conv_input ? g.x : g.kernel);
    tensor_free(&x);
    tensor_free(&y);
    tensor_free(&weight);
    tensor_free(&bias);
}

static void generate_conv(gt_opcode op)
{
    for (int trial = 0; trial < 600; trial++) {
        gt_dtype dtype = trial % 3 ? GT_FLOAT32 : (gt_dtype)draw_integer(0, GT_REAL_DTYPES);
        int64_t groups = draw_integer(0, 3) ? 1 : draw_integer(1, 5);
        conv_case(op, dtype, draw_geometry(trial % 2 ? 7 : 4), draw_integer(0, 4), groups, draw_integer(0, 4),
                  draw_integer(1, 4));
    }
    for (int trial = 0; trial < 60;
         trial++) { /* whole tiles, and what is left of them; several boxes and chunks */
        geometry g = draw_geometry(trial % 4 ? 12 : 30);
        if (g.spatial == 3)
            g.spatial = 2;
        conv_case(op, trial % 5 ? GT_FLOAT32 : GT_FLOAT64, g, draw_integer(1, 6), 1, draw_integer(1, 12),
                  draw_integer(1, 20));
    }
    geometry point = {.spatial = 2, .x = {9, 16}, .y = {9, 16}, .kernel = {1, 1}};
    point.w = (gt_window){.stride = {1, 1}, .dilation = {1, 1}};
    for (int k = 0; k < 4; k++) { /* 1x1, and more taps than are done at once */
        conv_case(op, k % 2 ? GT_FLOAT64 : GT_FLOAT32, point, 2, 1 + k / 2, 17, 11);
        conv_case(op, GT_FLOAT32, point, 1, 1, 1100, 9);
        point.x[1] = point.y[1] = 13 + k;
    }
    long every = fixture_now.every;
    fixture_now.every = 0; /* not left out: GPUs add up the long sums of a small weight's gradient in parts */
    point.x[0] = point.y[0] = point.x[1] = point.y[1] = 40;
    conv_case(op, GT_FLOAT32, point, 2, 1, 3, 5);
    conv_case(op, GT_FLOAT64, point, 2, 2, 3, 5);
    fixture_now.every = every;
}

static void pool_case(gt_opcode op, gt_dtype dtype, geometry g)
{
    shape x_size, y_size;
    bool backward = op == GT_OP_max_pool_input || op == GT_OP_avg_pool_input;
    for (int axis = 0; axis < g.spatial; axis++) {
        if (gt__op_table[op].form == GT_FORM_POOL)
            g.w.dilation[axis] = 1;
        if (draw_integer(0, 5) == 0)
            g.w.kernel[axis] = g.w.padding[axis] = 0; /* adaptive */
    }
    g.w.count_padding = draw_integer(0, 2);
    g.w.divisor = draw_integer(0, 4) ? 0 : draw_integer(1, 9);
    set_sizes(x_size, draw_integer(0, 4), draw_integer(1, 4), g.x, g.spatial);
    set_sizes(y_size, x_size[1], x_size[2], g.y, g.spatial);
    tensor x = tensor_new(dtype, x_size, (layout)draw_integer(0, LAYOUTS), draw_integer(0, 2) ? FEW : PLAIN);
    tensor a = tensor_new(dtype, backward ? y_size : x_size, (layout)draw_integer(0, LAYOUTS), PLAIN);
    unsigned operands = gt__op_operands(op);
    bool itself = op == GT_OP_max_pool_index || (op == GT_OP_max_pool && draw_integer(0, 2));
    operation o = operation_new(op, operands, itself ? &x : &a, operands > 1 ? &x : NULL, NULL);
    o.terms = 64;
    run_window(&o, &g, backward ? g.x : g.y);
    tensor_free(&x);
    tensor_free(&a);
}

static void generate_pool(gt_opcode op)
{
    for (int trial = 0; trial < 900; trial++) {
        gt_dtype dtype = trial % 3 ? GT_FLOAT32 : (gt_dtype)draw_integer(0, GT_REAL_DTYPES);
        pool_case(op, dtype, draw_geometry(trial % 2 ? 9 : 5));
    }
    for (int trial = 0; trial < 40; trial++)
        pool_case(op, GT_FLOAT32, draw_geometry(trial % 3 ? 20 : 40));
}

static void generate_im2col(gt_opcode op)
{
    for (int trial = 0; trial < 500; trial++) {
        gt_dtype dtype = trial % 3 ? GT_FLOAT32 : (gt_dtype)draw_integer(0, GT_REAL_DTYPES);
        geometry g = draw_geometry(trial % 2 ? 7 : 4);
        int64_t kernel = 1, windows = 1, images = draw_integer(0, 3), channels = draw_integer(1, 4);
        shape size;
        for (int axis = 0; axis < g.spatial; axis++) {
            kernel *= g.kernel[axis];
            windows *= g.y[axis];
            g.w.from[axis] = g.y[axis];
        }
        set_sizes(size, images, channels, g.x, g.spatial);
        if (op == GT_OP_col2im)
            memcpy(size, (shape){3, images, channels * kernel, windows}, sizeof size);
        tensor a = tensor_new(dtype, size, (layout)draw_integer(0, LAYOUTS), PLAIN);
        operation o = operation_new(op, 1, &a, NULL, NULL);
        o.terms = (double)kernel;
        run_window(&o, &g, op == GT_OP_im2col ? g.y : g.x);
        tensor_free(&a);
    }
}

static void generate_resample(gt_opcode op)
{
    for (int trial = 0; trial < 600; trial++) {
        gt_dtype dtype = trial % 2 ? GT_FLOAT32 : (gt_dtype)draw_integer(0, GT_REAL_DTYPES);
        shape size = {3, draw_integer(0, 4), draw_integer(1, 9), trial % 10 ? draw_integer(1, 5) : 1500};
        tensor a = tensor_new(dtype, size, (layout)draw_integer(0, LAYOUTS), PLAIN);
        operation o = operation_new(op, 1, &a, NULL, NULL);
        int64_t axis = draw_integer(0, 3);
        o.ins.imm[0].i = axis | draw_integer(0, GT_RESAMPLE_COUNT) << 8;
        o.ins.imm[1].f = draw_real(0.2, 3);
        o.ins.tail = 1;
        o.tail[0].i64[0] = draw_integer(1, 12);
        o.tail[0].i64[1] = draw_integer(0, 2);
        /* A result of resample is a sum of a few elements. One of resample_input may be a sum of the whole line. */
        o.terms = 64 * (op == GT_OP_resample_input ? 1 + (double)size[axis + 1] : 1);
        run_case(&o);
        tensor_free(&a);
    }
}

#endif

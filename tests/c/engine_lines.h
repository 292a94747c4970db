/* engine_lines.h: test_engine.c's generators for rows that work on lines along an axis: scans, softmax, sorts, searches. */
#ifndef GT_TESTS_ENGINE_LINES_H
#define GT_TESTS_ENGINE_LINES_H

#include "engine_cases.h"

/* ---- scans and softmax -------------------------------------------------------------------------------------- */

static void scan_case(gt_opcode op, const tensor *a)
{
    for (int64_t axis = 0; axis < (a->view.meta.rank ? a->view.meta.rank : 1); axis++) {
        operation o = operation_new(op, 1, a, NULL, NULL);
        o.ins.imm[0].i = axis;
        o.terms = 1 + (a->view.meta.rank ? (double)a->view.meta.shape[axis] : 0);
        run_case(&o);
    }
}

static void generate_scan(gt_opcode op)
{
    each_tensor(op, op == GT_OP_cumprod ? NEAR_ONE : PLAIN, scan_case);
    each_tensor(op, FEW, scan_case);
}

/* Lines that fill a GPU's registers, and longer ones. */
static void each_very_long_line(gt_opcode op, tensor_case run)
{
    static const int64_t sizes[] = {1537, 16640, 20001, 33024, 40001, 70000};
    for (int k = 0; k < 2 * COUNT(sizes); k++) {
        gt_dtype dtype = k < COUNT(sizes) ? GT_FLOAT32 : GT_BFLOAT16;
        tensor a = tensor_new(dtype, (shape){1, sizes[k % COUNT(sizes)]}, CONTIGUOUS, PLAIN);
        run(op, &a);
        tensor_free(&a);
        a = tensor_new(dtype, (shape){2, 3, sizes[k % COUNT(sizes)]}, CONTIGUOUS, PLAIN);
        run(op, &a);
        tensor_free(&a);
    }
}

static void generate_softmax(gt_opcode op)
{
    each_tensor(op, PLAIN, scan_case);
    each_very_long_line(op, scan_case);
    each_tensor(op, FEW, scan_case);
    static const gt_dtype dtypes[] = {GT_FLOAT32, GT_FLOAT64, GT_FLOAT16};
    for (int k = 0; k < COUNT(dtypes); k++) { /* far below the largest: exponentials of nothing */
        tensor a = tensor_new(dtypes[k], (shape){2, 3, 5000}, CONTIGUOUS, PLAIN);
        for (int64_t at = 0; at < a.view.meta.numel; at += 3)
            gt__reference_put_real(&a.view, at, at % 2 ? -INFINITY : -300);
        scan_case(op, &a);
        tensor_free(&a);
    }
}

/*
 * The result is any tensor of moderate numbers: the row does not check that it is a softmax. Of log_softmax it has no
 * positive numbers: exp(4) would multiply the rounding error of the sum by 55.
 */
static void softmax_backward_case(gt_opcode op, const tensor *a)
{
    const gt_meta *meta = &a->view.meta;
    shape sizes = {meta->rank};
    memcpy(sizes + 1, meta->shape, meta->rank * sizeof *sizes);
    tensor out = tensor_new((gt_dtype)meta->dtype, sizes, (layout)draw_integer(0, LAYOUTS), PLAIN);
    for (int64_t k = 0; op == GT_OP_log_softmax_backward && k < out.view.meta.numel; k++)
        gt__reference_put_real(&out.view, k, -fabs(gt__reference_real(&out.view, k)));
    for (int64_t axis = 0; axis < (meta->rank ? meta->rank : 1); axis++) {
        operation o = operation_new(op, 2, a, &out, NULL);
        o.ins.imm[0].i = axis;
        o.terms = 64 * (1 + (meta->rank ? (double)meta->shape[axis] : 0)); /* a sum of products up to 4 * 4 */
        run_case(&o);
    }
    tensor_free(&out);
}

static void generate_softmax_backward(gt_opcode op)
{
    each_tensor(op, PLAIN, softmax_backward_case);
    each_very_long_line(op, softmax_backward_case);
}

/* ---- sorting ------------------------------------------------------------------------------------------------ */

static void argsort_case(gt_opcode op, const tensor *a)
{
    for (int64_t axis = 0; axis < (a->view.meta.rank ? a->view.meta.rank : 1); axis++) {
        operation o = operation_new(op, 1, a, NULL, NULL);
        o.ins.imm[0].i = axis;
        o.ins.imm[1].i = draw_integer(0, 2);
        run_case(&o);
    }
}

static void topk_case(gt_opcode op, const tensor *a)
{
    for (int64_t axis = 0; axis < (a->view.meta.rank ? a->view.meta.rank : 1); axis++) {
        int64_t size = a->view.meta.rank ? a->view.meta.shape[axis] : 1;
        for (int64_t k = 0; k < 3; k++) {
            operation o = operation_new(op, 1, a, NULL, NULL);
            o.ins.imm[0].i = axis;
            o.ins.imm[1].i = k == 2 ? size : draw_integer(0, size + 1);
            o.ins.flags = draw_integer(0, 2) ? GT_FLAG_SMALLEST : 0;
            run_case(&o);
        }
    }
}

/* One long line of a dtype with short keys and one with long ones, with ties. None of these cases is left out: GPUs have kernels that
 * nothing else needs. */
static void each_long_line(gt_opcode op, tensor_case run)
{
    static const gt_dtype dtypes[] = {GT_FLOAT32, GT_FLOAT64, GT_INT64, GT_FLOAT16};
    long every = fixture_now.every;
    fixture_now.every = 0;
    for (int k = 0; k < COUNT(dtypes); k++) {
        tensor a = tensor_new(dtypes[k], (shape){1, 20011}, (layout)k, ANY);
        run(op, &a);
        tensor_free(&a);
    }
    tensor many = tensor_new(GT_FLOAT32, (shape){2, 64, 4100}, 0, ANY);
    run(op, &many);
    tensor_free(&many);
    fixture_now.every = every;
}

static void generate_argsort(gt_opcode op)
{
    each_tensor(op, ANY, argsort_case);
    each_tensor(op, FEW, argsort_case);
    each_long_line(op, argsort_case);
}

static void generate_topk(gt_opcode op)
{
    each_tensor(op, ANY, topk_case);
    each_tensor(op, FEW, topk_case);
    each_long_line(op, topk_case);
}

/* ---- searches ----------------------------------------------------------------------------------------------- */

static void search_case(gt_opcode op, const tensor *a)
{
    const gt_meta *meta = &a->view.meta;
    static const shape lines[] = {{1, 0}, {1, 1}, {1, 50}};
    for (int k = 0; k < COUNT(lines) + (meta->rank > 0); k++) {
        shape sizes;
        memcpy(sizes, lines[k % COUNT(lines)], sizeof sizes);
        if (k == COUNT(lines)) { /* a line for each */
            sizes[0] = meta->rank;
            memcpy(sizes + 1, meta->shape, meta->rank * sizeof *sizes);
            sizes[meta->rank] = 9;
        }
        tensor sorted = tensor_new((gt_dtype)meta->dtype, sizes, (layout)draw_integer(0, REPEATED), PLAIN);
        for (int64_t at = 0; at < sorted.view.meta.numel; at++) {
            if (gt__dtype_is_float(meta->dtype))
                gt__reference_put_real(&sorted.view, at, (double)(at % sizes[sizes[0]] / 3) - 2.0);
            else
                gt__reference_put_integer(&sorted.view, at, at % sizes[sizes[0]] / 3);
        }
        operation o = operation_new(op, 2, &sorted, a, NULL);
        o.ins.imm[0].i = draw_integer(0, 2);
        run_case(&o);
        tensor_free(&sorted);
    }
}

static void generate_search(gt_opcode op)
{
    each_tensor(op, FEW, search_case);
    each_tensor(op, ANY, search_case);
}

#endif

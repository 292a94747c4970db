/*
 * engine_lines.h: the part of test_engine.c that makes cases for softmax, its gradient and searches in sorted lines. Included
 * in the middle of it, after each_tensor and scan_case.
 */
#ifndef GT_TESTS_ENGINE_LINES_H
#define GT_TESTS_ENGINE_LINES_H

static void generate_softmax(gt_opcode op)
{
    each_tensor(op, PLAIN, scan_case);
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

/* The result is any tensor of moderate numbers: the rule does not ask where it came from. */
static void softmax_backward_case(gt_opcode op, const tensor *a)
{
    const gt_meta *meta = &a->view.meta;
    shape sizes = {meta->rank};
    memcpy(sizes + 1, meta->shape, meta->rank * sizeof *sizes);
    tensor out = tensor_new((gt_dtype)meta->dtype, sizes, (layout)draw_integer(0, LAYOUTS), PLAIN);
    for (int64_t axis = 0; axis < (meta->rank ? meta->rank : 1); axis++) {
        operation o = operation_new(op, 2, a, &out, NULL);
        o.ins.imm[0].i = axis;
        o.terms = 64 * (1 + (meta->rank ? (double)meta->shape[axis] : 0)); /* the sum meets exp(4) */
        run_case(&o);
    }
    tensor_free(&out);
}

static void generate_softmax_backward(gt_opcode op)
{
    each_tensor(op, PLAIN, softmax_backward_case);
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

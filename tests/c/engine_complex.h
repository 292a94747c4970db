/*
 * engine_complex.h: cases of test_engine.c on complex tensors, for every row of core/complex.def, and the forms FFT,
 * AS_COMPLEX and SPARSE. Fewer shapes than for real dtypes: the loops are the same for all rows.
 */
#ifndef GT_TESTS_ENGINE_COMPLEX_H
#define GT_TESTS_ENGINE_COMPLEX_H

#include "core/fft.h"
#include "engine_cases.h"

/* Errors of a transcendental function of a product, and of what cancels in it. */
enum { COMPLEX_TERMS = 256 };

static const shape complex_shapes[] = {{0}, {1, 7}, {3, 4, 1, 6}, {3, 3, 0, 2}, {2, 40, 90}};

static void run_complex(operation *o, double terms)
{
    o->terms = terms;
    run_case(o);
}

static void complex_elementwise(gt_opcode op, const tensor *a)
{
    static const gt_dtype others[] = {GT_COMPLEX64, GT_COMPLEX128, GT_FLOAT32, GT_INT64};
    unsigned operands = gt__op_operands(op);
    operation o = operation_new(op, 1, a, NULL, NULL);
    if (operands == 1) {
        run_complex(&o, COMPLEX_TERMS);
        return;
    }
    shape sizes = {a->view.meta.rank};
    memcpy(sizes + 1, a->view.meta.shape, sizeof(int64_t) * (size_t)a->view.meta.rank);
    for (int k = 0; k < COUNT(others); k++) {
        tensor b = tensor_new(others[k], sizes, (layout)draw_integer(0, LAYOUTS), NONZERO);
        tensor c = tensor_new(op == GT_OP_where ? GT_BOOL : GT_COMPLEX64, sizes, CONTIGUOUS, PLAIN);
        o = operands == 2       ? operation_new(op, 2, a, &b, NULL)
            : op == GT_OP_where ? operation_new(op, 3, &c, a, &b)
                                : operation_new(op, 3, a, &b, &c);
        run_complex(&o, COMPLEX_TERMS);
        if (operands == 2) {
            o = operation_new(op, 2, &b, a, NULL);
            run_complex(&o, COMPLEX_TERMS);
            set_literal(&o, 0, GT_LITERAL_FLOAT, (gt_imm){.f = 1.5});
            run_complex(&o, COMPLEX_TERMS);
        }
        tensor_free(&b);
        tensor_free(&c);
    }
}

static void complex_lines(gt_opcode op, const tensor *a)
{
    operation o = operation_new(op, 1, a, NULL, NULL);
    bool scans = gt__op_table[op].form == GT_FORM_SCAN;
    for (int64_t axis = 0; axis < (a->view.meta.rank ? a->view.meta.rank : 1); axis++) {
        o.ins.imm[0].i = scans ? axis : a->view.meta.rank ? 1 << axis : 0;
        o.ins.flags = axis % 2 ? GT_FLAG_KEEPDIM : 0;
        run_complex(&o, (double)a->view.meta.numel + 1);
    }
    o.ins.imm[0].i = 0;
    run_complex(&o, (double)a->view.meta.numel + 1);
}

static void complex_matmul(gt_dtype dtype)
{
    for (int how = 0; how < LAYOUTS; how++) {
        tensor a = tensor_new(dtype, (shape){3, 2, 5, 33}, (layout)how, PLAIN);
        tensor b = tensor_new(dtype, (shape){2, 33, 7}, (layout)((how + 1) % LAYOUTS), PLAIN);
        tensor v = tensor_new(dtype, (shape){1, 33}, CONTIGUOUS, PLAIN);
        operation o = operation_new(GT_OP_matmul, 2, &a, &b, NULL);
        run_complex(&o, 33);
        o = operation_new(GT_OP_matmul, 2, &a, &v, NULL);
        run_complex(&o, 33);
        tensor_free(&a);
        tensor_free(&b);
        tensor_free(&v);
    }
}

/* Rows that move elements: those of real dtypes have all the cases, here the sizes of elements are tried. */
static void complex_movement(gt_opcode op, const tensor *a)
{
    operation o = operation_new(op, 1, a, NULL, NULL);
    if (op == GT_OP_cast) {
        for (int dtype = 0; dtype < GT_DTYPE_COUNT; dtype++) {
            o.ins.dtype = (uint8_t)dtype;
            run_complex(&o, 1);
        }
    } else if (op == GT_OP_copy || op == GT_OP_tril || op == GT_OP_triu) {
        run_complex(&o, 1);
    } else if (a->view.meta.rank == 2 && a->view.meta.numel) {
        shape sizes = {2, a->view.meta.shape[0], a->view.meta.shape[1]};
        tensor index = index_new(GT_INT64, sizes, CONTIGUOUS, 0, sizes[1]);
        o = operation_new(op, gt__op_operands(op), a, &index, a);
        if (gt__op_table[op].form == GT_FORM_SCATTER || op == GT_OP_gather || op == GT_OP_take)
            run_complex(&o, (double)a->view.meta.numel);
        tensor_free(&index);
    }
}

static void test_complex_row(const void *argument)
{
    gt_opcode op = *(const gt_opcode *)argument;
    gt_form form = (gt_form)gt__op_table[op].form;
    long failed = fixture_now.failed;
    fixture_now.described = 0;
    draw_seed(gt__op_table[op].name);
    for (int dtype = GT_COMPLEX64; dtype <= GT_COMPLEX128; dtype++) {
        for (int k = 0; k < COUNT(complex_shapes) * LAYOUTS; k++) {
            bool products = op == GT_OP_prod || op == GT_OP_cumprod;
            tensor a = tensor_new((gt_dtype)dtype, complex_shapes[k / LAYOUTS], (layout)(k % LAYOUTS),
                                  products ? NEAR_ONE : NONZERO);
            if (form == GT_FORM_UNARY || form == GT_FORM_BINARY || form == GT_FORM_TERNARY)
                complex_elementwise(op, &a);
            else if ((form == GT_FORM_REDUCE || form == GT_FORM_SCAN) && !(products && a.view.meta.numel > 1000))
                complex_lines(op, &a);
            else
                complex_movement(op, &a);
            tensor_free(&a);
        }
        if (op == GT_OP_matmul)
            complex_matmul((gt_dtype)dtype);
    }
    CHECK_EQ(fixture_now.failed, failed);
}

/* ---- forms of their own ------------------------------------------------------------------------------------- */

static void generate_as_complex(gt_opcode op)
{
    for (int dtype = GT_FLOAT32; dtype <= GT_FLOAT64; dtype++)
        for (int how = 0; how < LAYOUTS; how++) {
            tensor a = tensor_new((gt_dtype)dtype, (shape){3, 4, 5, 2}, (layout)how, ANY);
            operation o = operation_new(op, 1, &a, NULL, NULL);
            run_case(&o);
            tensor_free(&a);
        }
}

/* Sorted and unsorted entries, some rows without any, widths with and without a rest. */
static void generate_sparse(gt_opcode op)
{
    static const int64_t widths[] = {0, 1, 7, 16, 21};
    for (int k = 0; k < COUNT(widths) * 2 * LAYOUTS; k++) {
        gt_dtype dtype = k % 2 ? GT_FLOAT32 : GT_FLOAT64;
        layout how = (layout)(k / 2 % LAYOUTS);
        int64_t width = widths[k / 2 / LAYOUTS], rows = 9, columns = 6, count = k % 3 ? 40 : 0;
        bool transposed = k % 5 == 0 && op == GT_OP_sparse_mm;
        tensor indices = index_new(k % 7 ? GT_INT64 : GT_INT32, (shape){2, 2, count},
                                   how == REPEATED ? NEGATIVE : how, 0, columns);
        tensor entries = tensor_new(dtype, (shape){1, count}, how, PLAIN);
        tensor a = tensor_new(dtype, (shape){2, rows, width}, how, PLAIN);
        tensor b = tensor_new(dtype, (shape){2, columns, width}, how, PLAIN);
        for (int64_t e = 0; e < count && k % 2; e++)
            gt__reference_put_integer(&indices.view, e, e * columns / count);
        operation o = operation_new(op, 3, &indices, op == GT_OP_sparse_mm ? &entries : &a, &b);
        o.ins.imm[0].i = rows;
        o.ins.imm[1].i = transposed;
        run_complex(&o, (double)(count + width + 1));
        tensor_free(&indices);
        tensor_free(&entries);
        tensor_free(&a);
        tensor_free(&b);
    }
}

static void fft_case(gt_opcode op, gt_fft_spec spec, const tensor *a, int64_t n)
{
    operation o = operation_new(op, 1, a, NULL, NULL);
    spec.odd &= spec.kind == GT_FFT_TO_REAL;
    o.ins.imm[0].u = gt__fft_pack(spec);
    o.ins.imm[1].f = 0.5;
    run_complex(&o, (double)n * 64);
}

/* Small and large factors, even and odd, Bluestein's from 29. */
static void generate_fft(gt_opcode op)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 7, 8, 9, 15, 22, 29, 58, 64, 72, 100, 130};
    for (int k = 0; k < COUNT(sizes) * GT_FFT_KINDS * 2; k++) {
        gt_fft_kind kind = (gt_fft_kind)(k % GT_FFT_KINDS);
        bool wide = k / GT_FFT_KINDS % 2;
        int64_t n = sizes[k / GT_FFT_KINDS / 2];
        gt_dtype dtype = kind == GT_FFT_REAL ? wide ? GT_FLOAT64 : GT_FLOAT32
                         : wide              ? GT_COMPLEX128
                                             : GT_COMPLEX64;
        for (unsigned axes = 1; axes < 8; axes++) {
            unsigned half = kind == GT_FFT_COMPLEX ? 0 : axes & 4 ? 2 : axes & 2 ? 1 : 0;
            gt_fft_spec spec = {
                .kind = kind, .axes = axes, .half = half, .inverse = axes % 3 == 0, .odd = axes % 2};
            shape lengths = {3, 2, 3, 4};
            lengths[axes & 4 ? 3 : axes & 2 ? 2 : 1] = n;
            tensor a = tensor_new(dtype, lengths, (layout)draw_integer(0, LAYOUTS), PLAIN);
            fft_case(op, spec, &a, n);
            tensor_free(&a);
        }
        for (int trial = 0; trial < 4; trial++) { /* one line, which is transformed in another way than several */
            gt_fft_spec spec = {.kind = kind, .axes = 1, .inverse = trial % 2, .odd = trial / 2};
            tensor a = tensor_new(dtype, (shape){1, n}, (layout)draw_integer(0, LAYOUTS), PLAIN);
            fft_case(op, spec, &a, n);
            tensor_free(&a);
        }
    }
}

#endif

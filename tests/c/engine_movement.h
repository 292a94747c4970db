/* engine_movement.h: test_engine.c's generators for data movement and indexing. */
#ifndef GT_TESTS_ENGINE_MOVEMENT_H
#define GT_TESTS_ENGINE_MOVEMENT_H

#include "engine_cases.h"

/* ---- movement ----------------------------------------------------------------------------------------------- */

static void cast_case(gt_opcode op, const tensor *a)
{
    for (int dtype = 0; dtype < GT_REAL_DTYPES; dtype++) {
        operation o = operation_new(op, 1, a, NULL, NULL);
        o.ins.dtype = (uint8_t)dtype;
        o.exact = true;
        run_case(&o);
    }
}

static void generate_cast(gt_opcode op)
{
    each_tensor(op, ANY, cast_case);
}

static void copy_case(gt_opcode op, const tensor *a)
{
    operation o = operation_new(op, 1, a, NULL, NULL);
    set_shape(&o, (gt_dtype)a->view.meta.dtype, (shape){1, a->view.meta.numel});
    o.exact = true;
    run_case(&o);
}

static void generate_copy(gt_opcode op)
{
    each_tensor(op, ANY, copy_case);
}

static void cat_case(gt_opcode op, const tensor *a)
{
    const gt_meta *meta = &a->view.meta;
    for (int64_t axis = 0; axis < meta->rank; axis++) {
        shape other = {meta->rank}, none = {meta->rank};
        memcpy(other + 1, meta->shape, meta->rank * sizeof *other);
        memcpy(none + 1, meta->shape, meta->rank * sizeof *none);
        other[axis + 1] += 2;
        none[axis + 1] = 0;
        tensor b = tensor_new((gt_dtype)meta->dtype, other, TRANSPOSED, ANY);
        tensor c = tensor_new((gt_dtype)draw_integer(0, GT_REAL_DTYPES), none, CONTIGUOUS, ANY);
        tensor d = tensor_new((gt_dtype)draw_integer(0, GT_REAL_DTYPES), other, NEGATIVE, ANY);
        operation o = operation_new(op, 4, a, &b, &c);
        o.in[3] = &d;
        o.operands = (unsigned)draw_integer(1, 5);
        o.ins.imm[0].i = axis;
        o.ins.imm[1].i = o.operands;
        o.ins.tail = 1;
        o.exact = true;
        run_case(&o);
        tensor_free(&b);
        tensor_free(&c);
        tensor_free(&d);
    }
}

static void generate_cat(gt_opcode op)
{
    each_tensor(op, ANY, cat_case);
}

static void triangle_case(gt_opcode op, const tensor *a)
{
    static const int64_t diagonals[] = {0, 1, -1, 3, -4, 1000, -1000, INT64_MAX, INT64_MIN};
    for (int k = 0; k < COUNT(diagonals); k++) {
        operation o = operation_new(op, 1, a, NULL, NULL);
        o.ins.imm[0].i = diagonals[k];
        o.exact = true;
        run_case(&o);
    }
}

static void generate_triangle(gt_opcode op)
{
    each_tensor(op, ANY, triangle_case);
}

/* A slice of every axis: sometimes flipped, sometimes stepped, sometimes nothing. Sets the tail and its sizes. */
static void draw_slice(operation *o, const gt_meta *meta, int64_t *sizes)
{
    o->ins.tail = 3;
    sizes[0] = meta->rank;
    for (int axis = 0; axis < meta->rank; axis++) {
        int64_t size = meta->shape[axis], step = draw_integer(1, 3);
        int64_t start = size ? draw_integer(0, size) : 0, count = size ? (size - start + step - 1) / step : 0;
        if (count && draw_integer(0, 3) == 0) {
            start += (count - 1) * step;
            step = -step;
        }
        if (draw_integer(0, 12) == 0) {
            count = 0;
            start = size;
        }
        if (count < 2 && draw_integer(0, 3) == 0)
            step = draw_integer(0, 2) ? INT64_MAX : INT64_MIN;
        o->tail[0].i64[axis] = start;
        o->tail[1].i64[axis] = step;
        o->tail[2].i64[axis] = sizes[axis + 1] = count;
    }
}

static void assign_case(gt_opcode op, const tensor *a)
{
    const gt_meta *meta = &a->view.meta;
    for (int variant = 0; variant < 4; variant++) {
        operation o = operation_new(op, 2, a, NULL, NULL);
        shape sizes;
        draw_slice(&o, meta, sizes);
        if (variant == 2 && meta->rank)
            sizes[draw_integer(1, meta->rank + 1)] = 1; /* broadcast */
        gt_dtype dtype = variant == 1 ? (gt_dtype)draw_integer(0, GT_REAL_DTYPES) : (gt_dtype)meta->dtype;
        tensor src = tensor_new(dtype, sizes, (layout)draw_integer(0, LAYOUTS), ANY);
        o.in[1] = &src;
        if (variant == 3)
            set_literal(&o, 1, GT_LITERAL_FLOAT, (gt_imm){.f = 2.75});
        o.exact = true;
        o.in_place = a->view.contiguous && draw_integer(0, 2);
        run_case(&o);
        tensor_free(&src);
    }
}

static void generate_assign(gt_opcode op)
{
    each_tensor(op, ANY, assign_case);
    for (int how = 0; how < LAYOUTS; how++) {
        tensor a = tensor_new(how % 2 ? GT_COMPLEX64 : GT_COMPLEX128, (shape){2, 5, 6}, (layout)how, PLAIN);
        assign_case(op, &a);
        tensor_free(&a);
    }
}

/* ---- indexing ----------------------------------------------------------------------------------------------- */

static gt_dtype draw_index_dtype(void)
{
    static const gt_dtype dtypes[] = {GT_INT64, GT_INT32, GT_INT16, GT_INT8, GT_UINT8};
    return dtypes[draw_integer(0, COUNT(dtypes))];
}

/* Numbers for a dimension of this size: as many as fit the index dtype. */
static tensor index_for(gt_dtype dtype, const int64_t *sizes, layout how, bool negative, int64_t size)
{
    int64_t high = size < 1 ? 1 : size;
    if (dtype == GT_INT8 && high > 127)
        high = 127;
    bool may_be_negative = negative && dtype != GT_UINT8;
    int64_t low = may_be_negative ? (dtype == GT_INT8 && high < size ? -128 : -high) : 0;
    return index_new(dtype, sizes, how, low < -size ? -size : low, dtype == GT_UINT8 && high > 255 ? 255 : high);
}

static void take_case(gt_opcode op, const tensor *a)
{
    static const shape indices[] = {{0}, {1, 0}, {1, 5}, {2, 3, 2}, {1, 40000}};
    const gt_meta *meta = &a->view.meta;
    for (int64_t axis = 0; axis < meta->rank; axis++) {
        for (int k = 0; k < COUNT(indices) - (meta->rank > 1); k++) {
            tensor index = index_for(draw_index_dtype(), indices[k], (layout)draw_integer(0, LAYOUTS), true,
                                     meta->shape[axis]);
            operation o = operation_new(op, 2, a, &index, NULL);
            o.ins.imm[0].i = axis;
            o.exact = true;
            run_case(&o);
            tensor_free(&index);
        }
    }
}

static void generate_take(gt_opcode op)
{
    each_tensor(op, ANY, take_case);
}

/* An index of a's shape, but shorter here and there, and of any length below `longest` along the axis. */
static tensor index_along(const gt_meta *meta, int64_t axis, int64_t longest)
{
    shape sizes = {meta->rank};
    for (int k = 0; k < meta->rank; k++)
        sizes[k + 1] = k == axis ? draw_integer(0, longest)
                                 : meta->shape[k] - (meta->shape[k] > 0 && draw_integer(0, 3) == 0);
    return index_for(draw_index_dtype(), sizes, (layout)draw_integer(0, LAYOUTS), false, meta->shape[axis]);
}

static void gather_case(gt_opcode op, const tensor *a)
{
    for (int64_t axis = 0; axis < a->view.meta.rank; axis++) {
        tensor index = index_along(&a->view.meta, axis, 9);
        operation o = operation_new(op, 2, a, &index, NULL);
        o.ins.imm[0].i = axis;
        o.exact = true;
        run_case(&o);
        tensor_free(&index);
    }
}

static void generate_gather(gt_opcode op)
{
    each_tensor(op, ANY, gather_case);
    each_tensor(op, PLAIN, gather_case);
}

static void scatter_along(gt_opcode op, const tensor *a, int64_t longest)
{
    const gt_meta *meta = &a->view.meta;
    for (int64_t axis = 0; axis < meta->rank; axis++) {
        tensor index = index_along(meta, axis, longest);
        shape sizes = {meta->rank};
        for (int k = 0; k < meta->rank; k++)
            sizes[k + 1] = index.view.meta.shape[k] + draw_integer(0, 2);
        tensor src = tensor_new((gt_dtype)meta->dtype, sizes, (layout)draw_integer(0, LAYOUTS), PLAIN);
        operation o = operation_new(op, 3, a, &index, &src);
        o.ins.imm[0].i = axis;
        o.ins.imm[1].i = op == GT_OP_scatter_reduce ? draw_integer(0, GT_SCATTER_KINDS) +
                                                          (draw_integer(0, 2) ? GT_SCATTER_WITHOUT_SELF : 0)
                         : draw_integer(0, 2) ? GT_SCATTER_STEPWISE
                                              : 0;
        o.exact = true; /* the same additions in the same order */
        o.in_place = a->view.contiguous && draw_integer(0, 2);
        run_case(&o);
        set_literal(&o, 2, GT_LITERAL_FLOAT, (gt_imm){.f = 1.5});
        run_case(&o);
        tensor_free(&index);
        tensor_free(&src);
    }
}

static void scatter_case(gt_opcode op, const tensor *a)
{
    scatter_along(op, a, 9);
}

/* Long lines of indices, most of which meet others. */
static void generate_long_scatter(gt_opcode op)
{
    static const shape sizes[] = {{1, 50}, {2, 40, 7}, {3, 3, 30, 5}};
    static const gt_dtype dtypes[] = {GT_FLOAT32, GT_BFLOAT16, GT_FLOAT64, GT_INT32, GT_INT64, GT_UINT8};
    for (int k = 0; k < (int)(sizeof dtypes / sizeof dtypes[0]); k++)
        for (int how = 0; how < LAYOUTS; how++)
            for (int j = 0; j < 3; j++) {
                tensor a = tensor_new(dtypes[k], sizes[j], (layout)how, PLAIN);
                scatter_along(op, &a, 300);
                tensor_free(&a);
            }
}

static void generate_scatter(gt_opcode op)
{
    each_tensor(op, PLAIN, scatter_case);
    each_tensor(op, ANY, scatter_case);
    generate_long_scatter(op);
}

static void wrap_index_case(gt_opcode op, const tensor *a)
{
    static const int64_t sizes[] = {1000, 128, 101,
                                    5}; /* the last ones are sometimes exceeded: both must say so */
    for (int k = 0; k < COUNT(sizes); k++) {
        operation o = operation_new(op, 1, a, NULL, NULL);
        o.ins.imm[0].i = sizes[k];
        run_case(&o);
    }
}

static void generate_wrap_index(gt_opcode op)
{
    each_tensor(op, PLAIN, wrap_index_case);
}

static void mask_index_case(gt_opcode op, const tensor *a)
{
    int64_t count = 0;
    for (int64_t k = 0; k < a->view.meta.numel; k++)
        count += gt__reference_integer(&a->view, k) != 0;
    for (int64_t off = 0; off < 2; off++) {
        operation o = operation_new(op, 1, a, NULL, NULL);
        o.ins.imm[0].i = count - off; /* a wrong count is an error on both */
        run_case(&o);
    }
}

static void generate_mask_index(gt_opcode op)
{
    each_tensor(op, FEW, mask_index_case);
    each_tensor(op, PLAIN, mask_index_case);
}

#endif

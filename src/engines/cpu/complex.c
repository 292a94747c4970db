/*
 * complex.c: calls on complex tensors: which of them are calls on the real parts, and the folds and scans that are not.
 *
 * A complex tensor is a real one with one more axis, of size 2: moving, adding up and averaging are the same for both, so the
 * code for real numbers serves. Movement and indexing only need the size of an element and need nothing here. Products are in
 * complex_elementwise.c, matmul.c and fft.c.
 */
#include "engines/cpu/complex.h"

#include <stdlib.h>

#include "engines/cpu/movement.h"

/* The parts of `view` as a last axis of size 2. Its rank is below GT_MAX_RANK. */
static gt_view as_real(const gt_view *view)
{
    gt_view real = *view;
    for (int axis = 0; axis < view->meta.rank; axis++)
        real.stride[axis] *= 2;
    real.stride[view->meta.rank] = 1;
    real.meta.shape[real.meta.rank++] = 2;
    real.meta.numel *= 2;
    real.meta.dtype = (uint8_t)gt__dtype_real((gt_dtype)view->meta.dtype);
    return real;
}

/* ---- rows --------------------------------------------------------------------------------------------------- */

/* The view with the axes of the mask behind the others. */
static gt_view axes_last(const gt_view *view, uint64_t mask)
{
    gt_view turned = *view;
    int to = 0;
    for (int last = 0; last < 2; last++)
        for (int axis = 0; axis < view->meta.rank; axis++)
            if ((int)(mask >> axis & 1) == last) {
                turned.meta.shape[to] = view->meta.shape[axis];
                turned.stride[to++] = view->stride[axis];
            }
    turned.contiguous = false;
    return turned;
}

typedef struct rows {
    gt_dtype dtype;
    bool product;
    char *data;
    int64_t count; /* elements in a row */
    char *out;
} rows;

static void fold_rows(void *context, int64_t begin, int64_t end)
{
    const rows *r = context;
    int64_t size = (int64_t)gt__dtype_size(r->dtype);
    for (int64_t row = begin; row < end; row++)
        gt__cpu_complex_fold(r->dtype, r->product, r->data + row * r->count * size, r->count, r->out + row * size);
}

static void scan_rows(void *context, int64_t begin, int64_t end)
{
    const rows *r = context;
    int64_t size = (int64_t)gt__dtype_size(r->dtype);
    for (int64_t row = begin; row < end; row++)
        gt__cpu_complex_scan(r->dtype, r->product, r->data + row * r->count * size, r->count);
}

/* ---- reductions --------------------------------------------------------------------------------------------- */

static uint64_t reduced_axes(const gt_call *call)
{
    uint64_t mask = call->ins->imm[0].u;
    return mask ? mask : ((uint64_t)1 << call->in[0]->meta.rank) - 1;
}

static gt_err fold(gt_cpu *cpu, const gt_call *call)
{
    gt_view in = axes_last(call->in[0], reduced_axes(call));
    rows r = {
        .dtype = (gt_dtype)in.meta.dtype, .product = call->op == GT_OP_prod, .out = call->out->data, .count = 1};
    for (int axis = 0; axis < in.meta.rank; axis++)
        r.count *= reduced_axes(call) >> axis & 1 ? call->in[0]->meta.shape[axis] : 1;
    void *scratch;
    GT_TRY(gt__cpu_scratch(cpu, gt__meta_bytes(&in.meta), &scratch));
    gt__cpu_copy_view(cpu, &in, r.dtype, scratch);
    r.data = scratch;
    gt__parallel_for(cpu->parallel, call->out->meta.numel, gt__grain(r.count), fold_rows, &r);
    free(scratch);
    return GT_OK;
}

/* A call with one operand, on another operand and result. */
static gt_err rerun(gt_engine *engine, const gt_call *call, gt_err (*run)(gt_engine *, const gt_call *),
                    const gt_view *in, const gt_view *out, uint64_t imm)
{
    gt_instruction ins = *call->ins;
    gt_call real = *call;
    ins.imm[0].u = imm;
    real.ins = &ins;
    real.in = &in;
    real.out = out;
    real.compute = (gt_dtype)out->meta.dtype == GT_BOOL ? GT_BOOL : gt__dtype_real(call->compute);
    return run(engine, &real);
}

static gt_err reduce_parts(gt_engine *engine, const gt_call *call)
{
    gt_view in = as_real(call->in[0]), out = as_real(call->out);
    return rerun(engine, call, gt__cpu_reduce, &in, &out, reduced_axes(call));
}

/* any, all: of bools. */
static gt_err reduce_truth(gt_engine *engine, const gt_call *call)
{
    gt_cpu *cpu = gt__cpu(engine);
    gt_view truth = *call->in[0];
    GT_TRY(gt__cpu_scratch(cpu, (size_t)truth.meta.numel, &truth.data));
    gt__cpu_copy_view(cpu, call->in[0], GT_BOOL, truth.data);
    truth.meta.dtype = GT_BOOL;
    int64_t stride = 1;
    for (int axis = truth.meta.rank - 1; axis >= 0; axis--) {
        truth.stride[axis] = stride;
        stride *= truth.meta.shape[axis];
    }
    truth.contiguous = true;
    gt_err err = rerun(engine, call, gt__cpu_reduce, &truth, call->out, call->ins->imm[0].u);
    free(truth.data);
    return err;
}

static gt_err reduce(gt_engine *engine, const gt_call *call)
{
    int rank = call->in[0]->meta.rank;
    if (call->op == GT_OP_any || call->op == GT_OP_all)
        return reduce_truth(engine, call);
    if (rank == 0)
        return gt__cpu_copy(engine, call);
    if (call->op == GT_OP_prod || rank == GT_MAX_RANK)
        return fold(gt__cpu(engine), call);
    return reduce_parts(engine, call);
}

/* ---- scans -------------------------------------------------------------------------------------------------- */

/* A contiguous copy with the axis last is scanned row by row and moved to its place. */
static gt_err scan(gt_cpu *cpu, const gt_call *call)
{
    const gt_view *a = call->in[0];
    if (a->meta.numel == 0 || a->meta.rank == 0) {
        gt__cpu_move(cpu, call->out, a);
        return GT_OK;
    }
    uint64_t mask = (uint64_t)1 << call->ins->imm[0].i;
    gt_view in = axes_last(a, mask), out = axes_last(call->out, mask), lines = in;
    rows r = {.dtype = (gt_dtype)a->meta.dtype,
              .product = call->op == GT_OP_cumprod,
              .count = a->meta.shape[call->ins->imm[0].i]};
    GT_TRY(gt__cpu_scratch(cpu, gt__meta_bytes(&a->meta), &lines.data));
    gt__cpu_copy_view(cpu, &in, r.dtype, lines.data);
    r.data = lines.data;
    gt__parallel_for(cpu->parallel, a->meta.numel / r.count, gt__grain(r.count), scan_rows, &r);
    int64_t stride = 1;
    for (int axis = lines.meta.rank - 1; axis >= 0; axis--) {
        lines.stride[axis] = stride;
        stride *= lines.meta.shape[axis];
    }
    gt__cpu_move(cpu, &out, &lines);
    free(lines.data);
    return GT_OK;
}

/* ------------------------------------------------------------------------------------------------------------- */

/* Pairs that could not be read where they are. */
static gt_err join_parts(gt_cpu *cpu, const gt_call *call)
{
    gt_view parts = as_real(call->out);
    gt__cpu_move(cpu, &parts, call->in[0]);
    return GT_OK;
}

gt_err gt__cpu_complex(gt_engine *engine, const gt_call *call)
{
    switch ((gt_form)gt__op_table[call->op].form) {
    case GT_FORM_UNARY:
    case GT_FORM_BINARY:
    case GT_FORM_TERNARY:
        return gt__cpu_complex_elementwise(engine, call);
    case GT_FORM_REDUCE:
        return reduce(engine, call);
    case GT_FORM_SCAN:
        return scan(gt__cpu(engine), call);
    case GT_FORM_AS_COMPLEX:
        return join_parts(gt__cpu(engine), call);
    case GT_FORM_FFT:
        return gt__cpu_fft(engine, call);
    default: /* rows that serve every dtype */
        return gt__cpu_form(engine, call);
    }
}

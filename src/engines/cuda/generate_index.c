/*
 * generate_index.c: TAKE, GATHER, SCATTER and WRAP_INDEX. device/index.cuh has the kernels.
 *
 * A scatter goes line by line along its axis, one thread a line, where lines are short or many: it adds and overwrites in
 * the same order as the CPU engine. Otherwise floats are added in that order, too, after a sort of the indices, and so are halves
 * that are summed in float32; integers are added atomically; and of several positions that write one element the last one wins,
 * found by a pass before.
 */
#include <string.h>

#include "engines/cuda/generate_family.h"

enum { TAKE, GATHER, SCATTER_LINES, SCATTER_ATOMIC, SCATTER_SORTED, SCATTER_CLAIM, SCATTER_WRITE, WRAP };
enum { SCATTER_SET = GT_SCATTER_KINDS, SHORT_LINE = 32, MANY_LINES = 1 << 16, LONGEST_LINE = 4096 };

/* ---- source ------------------------------------------------------------------------------------------------- */

static void write_limits(gt_dtype dtype, gt_cuda_text *text)
{
    static const char *const least[] = {[GT_BOOL] = "0",
                                        [GT_UINT8] = "0",
                                        [GT_INT8] = "-128",
                                        [GT_INT16] = "-32768",
                                        [GT_INT32] = "(-2147483647 - 1)",
                                        [GT_INT64] = "(-9223372036854775807LL - 1)"};
    static const char *const most[] = {
        [GT_BOOL] = "1",      [GT_UINT8] = "255",        [GT_INT8] = "127",
        [GT_INT16] = "32767", [GT_INT32] = "2147483647", [GT_INT64] = "9223372036854775807LL"};
    bool integer = dtype <= GT_INT64;
    gt__cuda_add(text, "static constexpr int64_t LEAST = %s, MOST = %s;\n", integer ? least[dtype] : "0",
                 integer ? most[dtype] : "0");
}

void gt__cuda_write_index(const gt_cuda_key *key, const char *name, gt_cuda_text *text)
{
    static const char *const functions[] = {
        [TAKE] = "take",
        [GATHER] = "gather",
        [SCATTER_LINES] = "scatter_lines",
        [SCATTER_ATOMIC] = "scatter_atomic",
        [SCATTER_SORTED] = "scatter_sorted",
        [SCATTER_CLAIM] = "scatter_claim",
        [SCATTER_WRITE] = "scatter_write",
        [WRAP] = "wrap_index",
    };
    bool moves = key->variant == TAKE || key->variant == GATHER || key->variant == WRAP;
    gt_dtype dtype = (gt_dtype)key->in[0];
    gt__cuda_add(text, "struct %s_k {\ntypedef %s D0;\ntypedef D0::T T;\n", name,
                 moves ? gt__cuda_moved(key->in[0]) : gt__cuda_dtype(dtype));
    gt__cuda_add(text, "typedef %s D1;\n", gt__cuda_dtype((gt_dtype)key->in[1]));
    gt__cuda_add(text, "enum { WIDE = %u, LITERAL = %u, KIND = %u, ALONE = %u, STEPWISE = %u };\n", key->wide,
                 key->mode[2], key->option[0], key->option[1], key->mode[1]);
    write_limits(moves ? GT_FLOAT32 : dtype, text);
    gt__cuda_add(text, "};\nGT_ENTRY(256) %s(GT_PARAM(gt_index_params) p)\n{\ngt_%s<%s_k>(p);\n}\n", name,
                 functions[key->variant], name);
}

/* ---- launches ----------------------------------------------------------------------------------------------- */

typedef struct params {
    void *out;
    uint64_t in, index, src;
    void *errors;
    uint64_t value;
    int64_t count;
    int64_t axis, size, low;
    int64_t inner;
    int64_t indices;
    int64_t length;
    int64_t rank;
    int64_t shape[GT_MAX_RANK];
    int64_t in_stride[GT_MAX_RANK], index_stride[GT_MAX_RANK], src_stride[GT_MAX_RANK];
    int64_t in_axis, index_axis, src_axis;
} params;

_Static_assert(sizeof(params) <= GT_CUDA_PARAM_MAX, "parameters fit");

static gt_cuda_launch *launch_index(gt_cuda_work *work, const gt_call *call, unsigned variant, const params *p,
                                    unsigned element, unsigned index)
{
    gt_cuda_launch *launch = gt__cuda_launch(work, GT_CUDA_INDEX, p, sizeof *p);
    launch->key.variant = (uint8_t)variant;
    launch->key.op = (uint16_t)call->op;
    launch->key.in[0] = (uint8_t)element;
    launch->key.in[1] = (uint8_t)index;
    launch->key.wide = p->count >= INT32_MAX;
    launch->grid[0] = gt__cuda_blocks(p->count, GT_CUDA_BLOCK);
    launch->errors_at = offsetof(params, errors);
    return launch;
}

gt_err gt__cuda_lower_take(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work)
{
    (void)device;
    const gt_view *a = call->in[0], *index = call->in[1];
    int axis = (int)call->ins->imm[0].i;
    size_t bytes = gt__dtype_size((gt_dtype)a->meta.dtype), unit = 16;
    params p = {.out = call->out->data, .axis = axis, .indices = index->meta.numel};
    if (call->literals)
        return GT_CUDA_DECLINE;
    p.size = a->meta.shape[axis];
    p.low = call->ins->imm[1].i ? 0 : -p.size;
    for (int k = axis + 1; k < a->meta.rank; k++)
        bytes *= (size_t)a->meta.shape[k];
    gt_cuda_operand from = gt__cuda_operand(work, a, (gt_dtype)a->meta.dtype);
    gt_cuda_operand numbers = gt__cuda_operand(work, index, (gt_dtype)index->meta.dtype);
    while (bytes % unit || from.address % unit || (uintptr_t)p.out % unit)
        unit /= 2;
    p.inner = (int64_t)(bytes / unit);
    p.count = (int64_t)(gt__meta_bytes(&call->out->meta) / unit);
    gt_cuda_launch *launch = launch_index(work, call, TAKE, &p, (unsigned)unit, index->meta.dtype);
    gt__cuda_bind(launch, offsetof(params, in), &from);
    gt__cuda_bind(launch, offsetof(params, index), &numbers);
    return GT_OK;
}

/* The axes of an index with their strides in the indexed tensor (0 along the axis) and in src. `without`: leave the axis out. */
static void set_axes(params *p, const gt_view *index, const gt_view *indexed, const gt_view *src, int axis,
                     bool without)
{
    p->rank = 0;
    p->count = 1;
    for (int k = 0; k < index->meta.rank; k++) {
        if (k == axis && without)
            continue;
        p->shape[p->rank] = index->meta.shape[k];
        p->count *= index->meta.shape[k];
        p->in_stride[p->rank] = k == axis || !indexed ? 0 : indexed->stride[k];
        p->index_stride[p->rank] = index->stride[k];
        p->src_stride[p->rank] = src ? src->stride[k] : 0;
        p->rank++;
    }
    if (index->meta.rank > 0 && axis >= 0) {
        p->length = index->meta.shape[axis];
        p->in_axis = indexed ? indexed->stride[axis] : 0;
        p->index_axis = index->stride[axis];
        p->src_axis = src ? src->stride[axis] : 0;
    }
}

gt_err gt__cuda_lower_gather(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work)
{
    (void)device;
    const gt_view *a = call->in[0], *index = call->in[1];
    int axis = (int)call->ins->imm[0].i;
    if (call->literals || a->meta.rank == 0)
        return GT_CUDA_DECLINE;
    params p = {.out = call->out->data, .in = (uintptr_t)a->data, .index = (uintptr_t)index->data, .axis = axis};
    p.size = a->meta.shape[axis];
    set_axes(&p, index, a, NULL, axis, false);
    launch_index(work, call, GATHER, &p, (unsigned)gt__dtype_size((gt_dtype)a->meta.dtype), index->meta.dtype);
    return GT_OK;
}

gt_err gt__cuda_lower_wrap_index(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work)
{
    (void)device;
    const gt_view *index = call->in[0];
    if (call->literals)
        return GT_CUDA_DECLINE;
    params p = {.out = call->out->data, .index = (uintptr_t)index->data, .axis = call->ins->imm[1].i};
    p.size = call->ins->imm[0].i;
    p.low = -p.size;
    set_axes(&p, index, NULL, NULL, -1, false);
    launch_index(work, call, WRAP, &p, 8, index->meta.dtype);
    return GT_OK;
}

/* ---- scatter ------------------------------------------------------------------------------------------------ */

static void finish_scatter(gt_cuda_launch *launch, const gt_call *call, unsigned kind, bool alone)
{
    launch->key.mode[2] = call->literals >> 2 & 1;
    launch->key.option[0] = kind;
    launch->key.option[1] = alone;
}

static bool is_stepwise(const gt_call *call)
{
    return call->op == GT_OP_scatter_add && call->ins->imm[1].i & GT_SCATTER_STEPWISE;
}

/* Without an order: integers. */
static void add_atomically(gt_cuda_work *work, const gt_call *call, params *p, gt_dtype dtype, unsigned index)
{
    if (call->out->data != call->in[0]->data)
        gt__cuda_move(work, call->out, call->in[0]);
    finish_scatter(launch_index(work, call, SCATTER_ATOMIC, p, dtype, index), call, GT_SCATTER_SUM, false);
}

/* The index with its axis last, and without axes along which it repeats itself; the strides of its axes in a contiguous copy
 * go to p->index_stride, 0 for those. */
static gt_view without_repeats(const gt_view *index, int axis, params *p)
{
    gt_view once = *index;
    int64_t stride = p->length;
    int to = 0;
    for (int k = 0; k < index->meta.rank; k++) {
        if (k == axis)
            continue;
        bool repeats = index->stride[k] == 0;
        once.meta.shape[to] = repeats ? 1 : index->meta.shape[k];
        once.stride[to++] = index->stride[k];
    }
    once.meta.shape[to] = index->meta.shape[axis];
    once.stride[to] = index->stride[axis];
    for (int k = to - 1; k >= 0; k--) {
        p->index_stride[k] = once.meta.shape[k] == 1 ? 0 : stride;
        stride *= once.meta.shape[k];
    }
    once.meta.numel = stride;
    once.contiguous = false;
    return once;
}

/* In the order of positions: sums of floats, and what is computed in float32 for halves. p has the axes without the indexed one. */
static void combine_sorted(gt_cuda_work *work, const gt_call *call, params *p, gt_dtype dtype, unsigned kind,
                           bool alone)
{
    int axis = (int)call->ins->imm[0].i;
    const gt_view *index = call->in[1];
    gt_view once = without_repeats(index, axis, p);
    if (call->out->data != call->in[0]->data)
        gt__cuda_move(work, call->out, call->in[0]);
    gt_cuda_operand numbers = gt__cuda_operand(work, &once, (gt_dtype)index->meta.dtype);
    gt_cuda_operand order = gt__cuda_scratch(work, (size_t)once.meta.numel * sizeof(int64_t));
    gt__cuda_sort(work, &numbers, (gt_dtype)index->meta.dtype, once.meta.numel / p->length, p->length, &order);
    gt_cuda_launch *launch = launch_index(work, call, SCATTER_SORTED, p, dtype, index->meta.dtype);
    launch->grid[0] = gt__cuda_blocks(p->count * p->length, GT_CUDA_BLOCK);
    gt__cuda_bind(launch, offsetof(params, in), &order);
    gt__cuda_bind(launch, offsetof(params, index), &numbers);
    finish_scatter(launch, call, kind, alone);
    launch->key.mode[1] = is_stepwise(call);
}

/* Of the positions that write an element, the last. */
static void write_last(gt_cuda_work *work, const gt_call *call, params *p, gt_dtype dtype, unsigned index)
{
    gt_view claims = *call->out;
    claims.meta.dtype = GT_INT32;
    gt_cuda_operand words = gt__cuda_scratch(work, (size_t)claims.meta.numel * sizeof(int32_t));
    claims.data = (void *)(uintptr_t)words.address;
    if (call->out->data != call->in[0]->data)
        gt__cuda_move(work, call->out, call->in[0]);
    gt__cuda_bind_move(gt__cuda_fill(work, &claims, GT_INT64, (gt_imm){.i = 0}), &words, NULL);
    for (unsigned variant = SCATTER_CLAIM; variant <= SCATTER_WRITE; variant++) {
        gt_cuda_launch *launch = launch_index(work, call, variant, p, dtype, index);
        gt__cuda_bind(launch, offsetof(params, in), &words);
        finish_scatter(launch, call, SCATTER_SET, false);
    }
}

gt_err gt__cuda_lower_scatter(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work)
{
    (void)device;
    const gt_view *out = call->out, *index = call->in[1];
    gt_dtype dtype = (gt_dtype)out->meta.dtype;
    int axis = (int)call->ins->imm[0].i;
    bool literal = call->literals >> 2 & 1, reduces = call->op == GT_OP_scatter_reduce;
    bool alone = reduces && call->ins->imm[1].i & GT_SCATTER_WITHOUT_SELF;
    unsigned kind = reduces ? (unsigned)call->ins->imm[1].i & ~(unsigned)GT_SCATTER_WITHOUT_SELF
                    : call->op == GT_OP_scatter ? SCATTER_SET
                                                : GT_SCATTER_SUM;
    if (call->literals & 3 || out->meta.rank == 0 || gt__dtype_is_complex(dtype) ||
        (!literal && call->in[2]->meta.dtype != out->meta.dtype))
        return GT_CUDA_DECLINE;
    const gt_view *src = literal || call->in[2]->meta.rank == 0 ? NULL : call->in[2];
    params p = {.out = out->data, .index = (uintptr_t)index->data, .axis = axis, .size = out->meta.shape[axis]};
    if (literal)
        p.value = gt__cuda_number((gt_dtype)call->in[2]->meta.dtype, call->value[2], dtype);
    else
        p.src = (uintptr_t)call->in[2]->data;
    set_axes(&p, index, out, src, axis, true);
    bool many = p.length <= SHORT_LINE || (p.count >= MANY_LINES && p.length <= LONGEST_LINE);
    bool sum = kind == GT_SCATTER_SUM && !reduces, last = kind == SCATTER_SET && p.count * p.length < INT32_MAX;
    bool atomic = sum && (dtype == GT_INT32 || dtype == GT_INT64);
    /* Sums, products and means of halves are kept in float32 until they are complete. */
    bool wide = gt__dtype_is_half(dtype) && kind <= GT_SCATTER_MEAN && !is_stepwise(call);
    if (index->meta.numel > 0 && (wide || (!many && sum && gt__dtype_is_float(dtype))) && p.length < INT32_MAX) {
        combine_sorted(work, call, &p, dtype, kind, alone);
        return GT_OK;
    }
    if (wide && index->meta.numel > 0)
        return GT_CUDA_DECLINE;
    if (!many && (atomic || last)) {
        set_axes(&p, index, out, src, axis, false);
        (atomic ? add_atomically : write_last)(work, call, &p, dtype, index->meta.dtype);
        return GT_OK;
    }
    if (p.length > LONGEST_LINE || (kind == GT_SCATTER_MEAN && p.length > SHORT_LINE))
        return GT_CUDA_DECLINE;
    if (out->data != call->in[0]->data)
        gt__cuda_move(work, out, call->in[0]);
    if (index->meta.numel > 0)
        finish_scatter(launch_index(work, call, SCATTER_LINES, &p, dtype, index->meta.dtype), call, kind, alone);
    return GT_OK;
}

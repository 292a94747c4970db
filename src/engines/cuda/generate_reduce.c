/*
 * generate_reduce.c: REDUCE and ARGREDUCE: sum, prod, mean, var, amax, amin, any, all, logsumexp, norm, argmax, argmin.
 * device/reduce.cuh has the kernels.
 *
 * The axes of the operand fall into kept and reduced ones. Threads run along whichever has its elements closer together.
 * Few results of many elements are divided into parts, so that every processor has work; a second launch merges the parts.
 */
#include <math.h>
#include <string.h>

#include "engines/cuda/generate_family.h"

enum {
    ROWS,
    BLOCK_ROWS,
    COLUMNS,
    FINISH,
    FINISH_FEW,
    PARTIAL = 8, /* added to the variant: states are stored instead of results */
    COLUMN_TILE = 32,
    COLUMN_SHARES = 8,
    MOST_COLUMNS = 8, /* that a thread has at once */
    FEW_RESULTS = 32,
    LONG_ROW = 2048,   /* elements from which a row gets a block */
    PART_GRAIN = 4096, /* elements worth a block of their own */
};

/* ---- source ------------------------------------------------------------------------------------------------- */

gt_cuda_type gt__cuda_accumulator(gt_opcode op, gt_dtype dtype)
{
    gt_cuda_type type = gt__cuda_type(dtype);
    if (type == GT_CUDA_I32 || type == GT_CUDA_I64)
        return gt__op_table[op].types == GT_TYPES_FLT ? GT_CUDA_F64 : GT_CUDA_I64;
    return type;
}

static unsigned norm_order(double p)
{
    return p == 0 ? 0 : p == 1 ? 1 : p == 2 ? 2 : p == HUGE_VAL ? 3 : p == -HUGE_VAL ? 4 : 5;
}

void gt__cuda_write_reduce(const gt_cuda_key *key, const char *name, gt_cuda_text *text)
{
    static const char *const functions[] = {
        [ROWS] = "rows",     [BLOCK_ROWS] = "rows",       [COLUMNS] = "columns",
        [FINISH] = "finish", [FINISH_FEW] = "finish_few",
    };
    unsigned shape = key->variant & ~(unsigned)PARTIAL;
    gt_opcode op = (gt_opcode)key->op;
    gt__cuda_add(text, "struct %s_k {\ntypedef %s A;\ntypedef %s D;\ntypedef %s DO;\n", name,
                 gt__cuda_type_name(gt__cuda_accumulator(op, (gt_dtype)key->in[0])),
                 gt__cuda_dtype((gt_dtype)key->in[0]), gt__cuda_dtype((gt_dtype)key->out));
    if (op == GT_OP_norm)
        gt__cuda_add(text, "typedef gt_reduce_norm<A, %u> R;\n", key->option[0]);
    else if (op == GT_OP_argmax || op == GT_OP_argmin)
        gt__cuda_add(text, "typedef gt_reduce_arg<A, %s> R;\n", op == GT_OP_argmax ? "true" : "false");
    else
        gt__cuda_add(text, "typedef gt_reduce_%s<A> R;\n", gt__op_table[op].name);
    gt__cuda_add(text, "enum { V = %u, WIDE = %u, BLOCK = %u, PARTIAL = %u };\n};\n", key->vector, key->wide,
                 shape == BLOCK_ROWS, key->variant & PARTIAL ? 1 : 0);
    gt__cuda_add(text, "GT_ENTRY(256) %s(GT_PARAM(gt_reduce_params) p)\n{\ngt_reduce_%s<%s_k>(p);\n}\n", name,
                 functions[shape], name);
}

/* ---- launches ----------------------------------------------------------------------------------------------- */

typedef struct params {
    void *out;
    const void *in;
    uint64_t partial;
    int64_t results, elements;
    int64_t parts, share;
    int64_t width;
    int64_t kept_rank, reduced_rank;
    int64_t kept_shape[GT_MAX_RANK], kept_stride[GT_MAX_RANK];
    int64_t reduced_shape[GT_MAX_RANK], reduced_stride[GT_MAX_RANK];
    double divisor, parameter;
} params;

_Static_assert(sizeof(params) <= GT_CUDA_PARAM_MAX, "parameters fit");

int64_t gt__cuda_select_axes(const gt_view *view, uint64_t mask, gt_loop *loop)
{
    int64_t count = 1;
    loop->views = 1;
    loop->rank = 0;
    for (int axis = 0; axis < view->meta.rank; axis++) {
        if (!(mask >> axis & 1))
            continue;
        loop->shape[loop->rank] = view->meta.shape[axis];
        loop->stride[0][loop->rank++] = view->stride[axis];
        count *= view->meta.shape[axis];
    }
    gt__loop_collapse(loop);
    return count;
}

static int64_t last_stride(const gt_loop *loop)
{
    int64_t stride = loop->stride[0][loop->rank - 1];
    return stride < 0 ? -stride : stride;
}

static bool by_column(const gt_loop *kept, const gt_loop *reduced, int64_t elements)
{
    if (kept->shape[kept->rank - 1] < 2 || last_stride(kept) == 0 || elements < 2)
        return false;
    return last_stride(kept) < last_stride(reduced) || last_stride(reduced) == 0;
}

/* Elements that a thread of a row reads at once. */
static unsigned row_vector(const gt_view *in, const gt_loop *kept, const gt_loop *reduced)
{
    size_t size = gt__dtype_size((gt_dtype)in->meta.dtype);
    int last = reduced->rank - 1;
    int64_t vector = 16 / (int64_t)size, odd = (int64_t)((uintptr_t)in->data / size);
    if (reduced->stride[0][last] != 1 || reduced->shape[last] < vector)
        return 1;
    for (int axis = 0; axis < kept->rank; axis++)
        odd |= kept->stride[0][axis];
    for (int axis = 0; axis < last; axis++)
        odd |= reduced->stride[0][axis];
    if (last > 0) /* vectors lie within a line of the last axis */
        odd |= reduced->shape[last];
    while (odd & (vector - 1))
        vector /= 2;
    return (unsigned)vector;
}

/* Neighbouring results whose elements a thread reads at once. */
static unsigned column_vector(const gt_view *in, const gt_loop *kept, const gt_loop *reduced)
{
    int64_t vector = 16 / (int64_t)gt__dtype_size((gt_dtype)in->meta.dtype);
    vector = vector > MOST_COLUMNS ? MOST_COLUMNS : vector;
    if (kept->stride[0][kept->rank - 1] != 1 || kept->shape[kept->rank - 1] % vector || (uintptr_t)in->data % 16)
        return 1;
    for (int axis = 0; axis + 1 < kept->rank; axis++)
        if (kept->stride[0][axis] % vector != 0)
            return 1;
    for (int axis = 0; axis < reduced->rank; axis++)
        if (reduced->stride[0][axis] % vector != 0)
            return 1;
    return (unsigned)vector;
}

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void set_axes(params *p, const gt_loop *kept, const gt_loop *reduced)
{
    p->kept_rank = kept->rank;
    p->reduced_rank = reduced->rank;
    memcpy(p->kept_shape, kept->shape, (size_t)kept->rank * sizeof(int64_t));
    memcpy(p->kept_stride, kept->stride[0], (size_t)kept->rank * sizeof(int64_t));
    memcpy(p->reduced_shape, reduced->shape, (size_t)reduced->rank * sizeof(int64_t));
    memcpy(p->reduced_stride, reduced->stride[0], (size_t)reduced->rank * sizeof(int64_t));
}

/* Divide the elements so that each processor has `each` blocks. `groups`: blocks without that. */
static void set_parts(params *p, const gt_cuda_device *device, unsigned each, int64_t groups, int64_t per_block,
                      int64_t multiple)
{
    int64_t enough = each * (int64_t)device->processors;
    int64_t wanted = groups < enough ? (enough + groups - 1) / groups : 1;
    int64_t parts = at_most(at_most(wanted, p->elements * per_block / PART_GRAIN), 1024);
    p->parts = parts > 1 ? parts : 1;
    p->share = (p->elements + p->parts - 1) / p->parts;
    p->share = (p->share + multiple - 1) / multiple * multiple;
    p->share = p->share > 0 ? p->share : 1;
    p->parts = p->elements > 0 ? (p->elements + p->share - 1) / p->share : 1;
}

static void finish_parts(gt_cuda_work *work, const gt_cuda_key *first, params *p)
{
    gt_cuda_launch *launch = &work->launch[work->count - 1];
    gt_cuda_operand partial = gt__cuda_scratch(work, (size_t)(p->results * p->parts) * GT_CUDA_LARGEST_STATE);
    launch->key.variant |= PARTIAL;
    launch->grid[1] = (uint32_t)p->parts;
    gt__cuda_bind(launch, offsetof(params, partial), &partial);
    launch = gt__cuda_launch(work, GT_CUDA_REDUCE, p, sizeof *p);
    launch->key = *first;
    launch->key.variant = p->results < FEW_RESULTS ? FINISH_FEW : FINISH;
    launch->key.vector = 1;
    launch->key.wide = 0;
    launch->grid[0] = gt__cuda_blocks(p->results, p->results < FEW_RESULTS ? GT_CUDA_BLOCK / 32 : COLUMN_TILE);
    gt__cuda_bind(launch, offsetof(params, partial), &partial);
}

bool gt__cuda_reduces_simply(gt_opcode op)
{
    return op == GT_OP_sum || op == GT_OP_mean || op == GT_OP_prod || op == GT_OP_amax || op == GT_OP_amin ||
           op == GT_OP_any || op == GT_OP_all;
}

void gt__cuda_merge_states(gt_cuda_work *work, gt_opcode op, gt_dtype in, const gt_view *out, int64_t elements,
                           const gt_cuda_operand *states, int64_t parts)
{
    params p = {.out = out->data, .results = 1, .elements = elements, .parts = parts, .divisor = (double)elements};
    gt_cuda_launch *launch = gt__cuda_launch(work, GT_CUDA_REDUCE, &p, sizeof p);
    launch->key.op = (uint16_t)op;
    launch->key.in[0] = (uint8_t)in;
    launch->key.out = out->meta.dtype;
    launch->key.variant = FINISH_FEW;
    launch->key.vector = 1;
    gt__cuda_bind(launch, offsetof(params, partial), states);
}

/* The largest distance between two elements of a view, in elements. */
static int64_t reach(const gt_view *view)
{
    int64_t all = 0;
    for (unsigned axis = 0; axis < view->meta.rank && view->meta.numel; axis++)
        all += (view->meta.shape[axis] - 1) * (view->stride[axis] < 0 ? -view->stride[axis] : view->stride[axis]);
    return all;
}

gt_err gt__cuda_lower_reduce(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work)
{
    const gt_view *in = call->in[0];
    gt_dtype dtype = (gt_dtype)in->meta.dtype;
    bool argument = gt__op_table[call->op].form == GT_FORM_ARGREDUCE;
    uint64_t all = ((uint64_t)1 << in->meta.rank) - 1, mask = argument ? 0 : call->ins->imm[0].u;
    gt_loop kept, reduced;
    params p = {.out = call->out->data, .in = in->data, .parameter = argument ? 0 : call->ins->imm[1].f};
    if (gt__dtype_is_complex(dtype) || gt__dtype_is_complex((gt_dtype)call->out->meta.dtype) || call->literals)
        return GT_CUDA_DECLINE;
    if (argument && call->ins->imm[0].i >= 0)
        mask = (uint64_t)1 << call->ins->imm[0].i;
    mask = mask ? mask & all : all;
    p.results = gt__cuda_select_axes(in, all & ~mask, &kept);
    p.elements = gt__cuda_select_axes(in, mask, &reduced);
    p.divisor = (double)p.elements - (call->op == GT_OP_var ? p.parameter : 0);
    p.divisor = p.divisor > 0 ? p.divisor : 0; /* too few elements: infinity or NaN, as PyTorch has it */
    bool columns = by_column(&kept, &reduced, p.elements);
    gt_cuda_key key = {.family = GT_CUDA_REDUCE, .op = (uint16_t)call->op, .out = call->out->meta.dtype};
    key.in[0] = in->meta.dtype;
    key.option[0] = call->op == GT_OP_norm ? norm_order(p.parameter) : 0;
    key.wide = in->meta.numel >= INT32_MAX || reach(in) >= INT32_MAX;
    set_axes(&p, &kept, &reduced);
    uint32_t blocks;
    if (columns) {
        key.variant = COLUMNS;
        key.vector = (uint8_t)column_vector(in, &kept, &reduced);
        blocks = gt__cuda_blocks(p.results, COLUMN_TILE * key.vector);
        set_parts(&p, device, key.vector > 1 ? 2 : 4, blocks, COLUMN_TILE * key.vector, COLUMN_SHARES);
    } else {
        key.vector = (uint8_t)row_vector(in, &kept, &reduced);
        int64_t vectors = (p.elements + key.vector - 1) / key.vector;
        bool block_row = p.elements >= LONG_ROW;
        for (p.width = 1; p.width < 32 && p.width < vectors; p.width *= 2)
            ;
        key.variant = block_row ? BLOCK_ROWS : ROWS;
        blocks = gt__cuda_blocks(p.results, block_row ? 1 : GT_CUDA_BLOCK / (unsigned)p.width);
        set_parts(&p, device, 4, blocks, block_row ? 1 : 0, key.vector);
    }
    gt_cuda_launch *launch = gt__cuda_launch(work, GT_CUDA_REDUCE, &p, sizeof p);
    launch->key = key;
    launch->grid[0] = blocks;
    if (p.parts > 1)
        finish_parts(work, &key, &p);
    return GT_OK;
}

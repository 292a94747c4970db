/*
 * generate_lines.c: SCAN, ARGSORT, TOPK, SEARCH and MASK_INDEX: what depends on the order of elements along an axis.
 * device/lines.cuh has the kernels, for contiguous operands.
 *
 * Many lines are sorted by a block each: in shared memory if they fit, else by digits in memory. Few lines are sorted by all blocks: tiles in
 * shared memory, then eight sorted runs become one, until one is left.
 */
#include <string.h>

#include "engines/cuda/generate_family.h"

enum {
    SCAN_ROWS,
    SCAN_ACROSS,
    SORT_SHARED,
    SORT_DIGITS,
    SORT_TILES,
    SORT_MERGE,
    SEARCH,
    MASK_COUNT,
    MASK_STARTS,
    MASK_WRITE
};
enum {
    LONGEST_SHARED = 4096,
    SORT_THREADS = 512,
    MASK_BLOCK = 4096,
    MOST_SORTERS = 1024,
    TILE = 1024,
    WAYS = 8,
    FEW_LINES = 64 /* that leave most of a card idle, with a block for each */
};

/* ---- source ------------------------------------------------------------------------------------------------- */

static bool is_integer(unsigned dtype)
{
    return dtype <= GT_INT64;
}

static void write_scan(const gt_cuda_key *key, gt_cuda_text *text)
{
    if (key->op == GT_OP_cummax || key->op == GT_OP_cummin)
        gt__cuda_add(text, "typedef D::T A;\ntypedef gt_scan_best<A, %s> R;\n",
                     key->op == GT_OP_cummax ? "true" : "false");
    else
        gt__cuda_add(text, "typedef %s A;\ntypedef gt_scan_%s<A> R;\n",
                     is_integer(key->out) ? "int64_t" : "double", gt__op_table[key->op].name);
}

void gt__cuda_write_lines(const gt_cuda_key *key, const char *name, gt_cuda_text *text)
{
    static const char *const functions[] = {
        [SCAN_ROWS] = "scan_rows",     [SCAN_ACROSS] = "scan_across", [SORT_SHARED] = "sort_shared",
        [SORT_DIGITS] = "sort_digits", [SORT_TILES] = "sort_tiles",   [SORT_MERGE] = "sort_merge",
        [SEARCH] = "search",           [MASK_COUNT] = "mask_count",   [MASK_STARTS] = "mask_starts",
        [MASK_WRITE] = "mask_write",
    };
    gt__cuda_add(text, "struct %s_k {\ntypedef %s D;\ntypedef %s DO;\n", name,
                 gt__cuda_dtype((gt_dtype)key->in[0]), gt__cuda_dtype((gt_dtype)key->out));
    if (key->variant <= SCAN_ACROSS)
        write_scan(key, text);
    gt__cuda_add(text, "typedef %s U;\nenum { DESCENDING = %u, RIGHT = %u };\n};\n",
                 gt__dtype_size((gt_dtype)key->in[0]) == 8 ? "uint64_t" : "uint32_t", key->option[0],
                 key->option[0]);
    gt__cuda_add(text, "GT_ENTRY(%u) %s(GT_PARAM(gt_lines_params) p)\n{\ngt_%s<%s_k>(p);\n}\n",
                 key->variant >= SORT_SHARED && key->variant <= SORT_TILES ? SORT_THREADS : GT_CUDA_BLOCK, name,
                 functions[key->variant], name);
}

/* ---- launches ----------------------------------------------------------------------------------------------- */

typedef struct params {
    void *out;
    uint64_t in, values;
    uint64_t scratch, spare;
    void *errors;
    int64_t lines, n, inner;
    int64_t kept;
    int64_t count;
    int64_t per_line;
    int64_t blocks, expected;
    int64_t size;
} params;

static gt_cuda_launch *launch_lines(gt_cuda_work *work, const gt_call *call, unsigned variant, const params *p,
                                    const gt_cuda_operand *in)
{
    gt_cuda_launch *launch = gt__cuda_launch(work, GT_CUDA_LINES, p, sizeof *p);
    launch->key.op = (uint16_t)call->op;
    launch->key.variant = (uint8_t)variant;
    launch->key.in[0] = call->in[0]->meta.dtype;
    launch->key.out = call->out->meta.dtype;
    gt__cuda_bind(launch, offsetof(params, in), in);
    return launch;
}

/* The lines of a tensor along an axis. */
static params lines_of(const gt_call *call, int64_t axis)
{
    const gt_meta *meta = &call->in[0]->meta;
    params p = {.out = call->out->data, .inner = 1, .n = meta->rank ? meta->shape[axis] : 1};
    for (int k = (int)axis + 1; k < meta->rank; k++)
        p.inner *= meta->shape[k];
    p.lines = meta->numel / p.n;
    return p;
}

static bool declines(const gt_call *call)
{
    return call->literals || gt__dtype_is_complex((gt_dtype)call->in[0]->meta.dtype) ||
           call->in[0]->meta.numel == 0;
}

gt_err gt__cuda_lower_scan(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work)
{
    (void)device;
    if (declines(call))
        return GT_CUDA_DECLINE;
    params p = lines_of(call, call->ins->imm[0].i);
    gt_cuda_operand in = gt__cuda_operand(work, call->in[0], (gt_dtype)call->in[0]->meta.dtype);
    gt_cuda_launch *launch = launch_lines(work, call, p.inner > 1 ? SCAN_ACROSS : SCAN_ROWS, &p, &in);
    launch->grid[0] = gt__cuda_blocks(p.lines, p.inner > 1 ? GT_CUDA_BLOCK : 1);
    return GT_OK;
}

static gt_cuda_launch *launch_sorter(gt_cuda_work *work, unsigned variant, gt_dtype dtype, const params *p,
                                     const gt_cuda_operand *in, bool descending)
{
    gt_cuda_launch *launch = gt__cuda_launch(work, GT_CUDA_LINES, p, sizeof *p);
    launch->key.op = GT_OP_argsort;
    launch->key.variant = (uint8_t)variant;
    launch->key.in[0] = (uint8_t)dtype;
    launch->key.out = GT_INT64;
    launch->key.option[0] = descending;
    launch->block[0] = variant == SORT_MERGE ? GT_CUDA_BLOCK : SORT_THREADS;
    gt__cuda_bind(launch, offsetof(params, in), in);
    return launch;
}

/* Launches that merge tiles of a line of n. */
static unsigned merges_of(int64_t n)
{
    unsigned merges = 0;
    for (int64_t size = TILE; size < n; size *= WAYS)
        merges++;
    return merges;
}

/* By all blocks; the last launch writes the result. */
static gt_cuda_launch *launch_tiles(gt_cuda_work *work, gt_dtype dtype, params *p, const gt_cuda_operand *in,
                                    bool descending, size_t item)
{
    gt_cuda_operand from = gt__cuda_scratch(work, (size_t)(p->lines * p->n) * item);
    gt_cuda_operand to = gt__cuda_scratch(work, (size_t)(p->lines * p->n) * item);
    p->size = TILE;
    gt_cuda_launch *launch = launch_sorter(work, SORT_TILES, dtype, p, in, descending);
    launch->shared = (uint32_t)(TILE * item);
    launch->grid[0] = gt__cuda_blocks(p->lines * ((p->n + TILE - 1) / TILE), 1);
    gt__cuda_bind(launch, offsetof(params, scratch), &from);
    for (; p->size < p->n; p->size *= WAYS) {
        p->count = p->size * WAYS >= p->n;
        launch = launch_sorter(work, SORT_MERGE, dtype, p, in, descending);
        launch->grid[0] = gt__cuda_blocks(p->lines * p->n, GT_CUDA_BLOCK);
        gt__cuda_bind(launch, offsetof(params, scratch), &from);
        gt__cuda_bind(launch, offsetof(params, spare), &to);
        gt_cuda_operand other = from;
        from = to;
        to = other;
    }
    return launch;
}

/* Sort lines of a contiguous operand into positions, p->kept of each line. There is room for a launch behind it. */
static gt_cuda_launch *launch_sort(gt_cuda_work *work, gt_dtype dtype, params *p, const gt_cuda_operand *in,
                                   bool descending)
{
    size_t item = gt__dtype_size(dtype) == 8 ? 16 : 8;
    if (p->lines < FEW_LINES && p->n > TILE && work->count + merges_of(p->n) + 2 <= GT_CUDA_LAUNCHES)
        return launch_tiles(work, dtype, p, in, descending, item);
    for (p->size = 2; p->size < p->n; p->size *= 2)
        ;
    bool shared = p->size <= LONGEST_SHARED;
    int64_t sorters = p->lines < MOST_SORTERS ? p->lines : MOST_SORTERS;
    gt_cuda_launch *launch = launch_sorter(work, shared ? SORT_SHARED : SORT_DIGITS, dtype, p, in, descending);
    if (shared) {
        while (launch->block[0] > 32 && launch->block[0] > p->size / 2)
            launch->block[0] /= 2;
        launch->shared = (uint32_t)((size_t)p->size * item);
        launch->grid[0] = gt__cuda_blocks(p->lines, 1);
        return launch;
    }
    gt_cuda_operand room = gt__cuda_scratch(work, (size_t)(sorters * p->n) * item);
    gt_cuda_operand spare = gt__cuda_scratch(work, (size_t)(sorters * p->n) * item);
    gt__cuda_bind(launch, offsetof(params, scratch), &room);
    gt__cuda_bind(launch, offsetof(params, spare), &spare);
    launch->grid[0] = (uint32_t)sorters;
    return launch;
}

void gt__cuda_sort(gt_cuda_work *work, const gt_cuda_operand *in, gt_dtype dtype, int64_t lines, int64_t n,
                   const gt_cuda_operand *out)
{
    params p = {.lines = lines, .n = n, .inner = 1, .kept = n};
    gt__cuda_bind(launch_sort(work, dtype, &p, in, false), offsetof(params, out), out);
}

gt_err gt__cuda_lower_sort(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work)
{
    gt_dtype dtype = (gt_dtype)call->in[0]->meta.dtype;
    (void)device;
    if (declines(call))
        return GT_CUDA_DECLINE;
    params p = lines_of(call, call->ins->imm[0].i);
    p.kept = call->out->meta.rank ? call->out->meta.shape[call->ins->imm[0].i] : 1;
    if (p.n >= INT32_MAX)
        return GT_CUDA_DECLINE;
    gt_cuda_operand in = gt__cuda_operand(work, call->in[0], dtype);
    bool descending = call->op == GT_OP_topk ? !(call->ins->flags & GT_FLAG_SMALLEST) : call->ins->imm[1].i != 0;
    launch_sort(work, dtype, &p, &in, descending);
    return GT_OK;
}

gt_err gt__cuda_lower_search(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work)
{
    (void)device;
    const gt_view *sorted = call->in[0], *values = call->in[1];
    if (call->literals || gt__dtype_is_complex((gt_dtype)sorted->meta.dtype) ||
        sorted->meta.dtype != values->meta.dtype)
        return GT_CUDA_DECLINE;
    params p = {.out = call->out->data,
                .n = sorted->meta.shape[sorted->meta.rank - 1],
                .count = values->meta.numel,
                .per_line = sorted->meta.rank == 1 ? 0 : values->meta.shape[values->meta.rank - 1]};
    gt_cuda_operand lines = gt__cuda_operand(work, sorted, (gt_dtype)sorted->meta.dtype);
    gt_cuda_operand searched = gt__cuda_operand(work, values, (gt_dtype)values->meta.dtype);
    gt_cuda_launch *launch = launch_lines(work, call, SEARCH, &p, &lines);
    gt__cuda_bind(launch, offsetof(params, values), &searched);
    launch->key.option[0] = call->ins->imm[0].i != 0;
    launch->grid[0] = gt__cuda_blocks(p.count, GT_CUDA_BLOCK);
    return GT_OK;
}

gt_err gt__cuda_lower_mask_index(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work)
{
    (void)device;
    if (declines(call))
        return GT_CUDA_DECLINE;
    params p = {.out = call->out->data, .count = call->in[0]->meta.numel, .expected = call->ins->imm[0].i};
    p.blocks = (p.count + MASK_BLOCK - 1) / MASK_BLOCK;
    if (p.blocks > INT32_MAX)
        return GT_CUDA_DECLINE;
    gt_cuda_operand mask = gt__cuda_operand(work, call->in[0], GT_BOOL);
    gt_cuda_operand starts = gt__cuda_scratch(work, (size_t)p.blocks * sizeof(int64_t));
    for (unsigned variant = MASK_COUNT; variant <= MASK_WRITE; variant++) {
        gt_cuda_launch *launch = launch_lines(work, call, variant, &p, &mask);
        gt__cuda_bind(launch, offsetof(params, scratch), &starts);
        launch->key.in[0] = GT_BOOL;
        launch->grid[0] = variant == MASK_STARTS ? 1 : (uint32_t)p.blocks;
        if (variant == MASK_STARTS)
            launch->errors_at = offsetof(params, errors);
    }
    return GT_OK;
}

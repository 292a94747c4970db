/*
 * generate_attention.c: ATTENTION and its gradients, tile by tile. device/attention.cuh has the kernels, and
 * device/attention_mma.cuh those for tensor cores. The gradients take three launches: moments of each query, the gradients
 * of the queries, and those of keys and values. No sums are divided between blocks, so results are reproducible.
 */
#include <string.h>

#include "core/attention.h"
#include "engines/cuda/generate_family.h"

/* KEEP: FORWARD that keeps the first moment of each query; DELTA: the second, of the result. For tensor cores only. */
enum { FORWARD, MOMENTS, KEEP, DELTA, QUERIES, KEYS };
enum { DELTA_ROWS = 32, WIDEST = 128, MMA_THREADS = 128, MMA_TILE = 64, LONGEST_ROW = 1 << 24 };

/* How a kernel for tensor cores divides its work; the words of attention_mma.cuh. */
typedef struct mma_shape {
    unsigned rows;   /* MR: 16 rows each for a warp */
    unsigned tiles;  /* N: columns at a time, in tiles of 8 */
    bool held;       /* the rows' own tiles are in registers */
    unsigned blocks; /* on a processor, as far as registers go */
} mma_shape;

/* As much in registers as there is room for. */
static mma_shape choose_shape(unsigned variant, unsigned width)
{
    bool wide = width > 64;
    if (variant <= KEEP)
        return (mma_shape){.rows = wide ? 1 : 2, .tiles = 8, .held = true, .blocks = 2};
    if (variant == QUERIES)
        return (mma_shape){.rows = 1, .tiles = 4, .held = !wide, .blocks = 3};
    return (mma_shape){.rows = 1, .tiles = width > 96 ? 4 : 8, .held = !wide, .blocks = 2};
}

/* ---- source ------------------------------------------------------------------------------------------------- */

void gt__cuda_write_attention(const gt_cuda_key *key, const char *name, gt_cuda_text *text)
{
    static const char *const functions[] = {[FORWARD] = "forward", [MOMENTS] = "forward", [KEEP] = "forward",
                                            [DELTA] = "delta",     [QUERIES] = "queries", [KEYS] = "keys"};
    gt__cuda_add(text, "struct %s_k {\ntypedef %s T;\ntypedef %s DO;\n", name,
                 gt__cuda_type_name(gt__cuda_type((gt_dtype)key->compute)), gt__cuda_dtype((gt_dtype)key->out));
    for (unsigned k = 0; k < GT_MAX_OPERANDS; k++)
        gt__cuda_add(text, "typedef %s D%u;\n", gt__cuda_dtype((gt_dtype)key->in[k]), k);
    mma_shape shape = choose_shape(key->variant, key->option[3]);
    gt__cuda_add(text, "enum { B = %u, EC = %u, FC = %u, MOMENTS = %u, KEEP = %u };\n", key->option[0],
                 key->option[1], key->option[2], key->variant == MOMENTS, key->variant == KEEP);
    gt__cuda_add(text, "enum { HD = %u, MR = %u, N = %u, HELD = %u };\n};\n", key->option[3], shape.rows,
                 shape.tiles, shape.held);
    gt__cuda_add(text, "GT_ENTRY(%u, %u) %s(GT_PARAM(gt_attention_params) p)\n{\ngt_attention_%s%s<%s_k>(p);\n}\n",
                 key->option[3] ? MMA_THREADS : GT_CUDA_BLOCK, key->option[3] ? shape.blocks : 1, name,
                 key->option[3] ? "mma_" : "", functions[key->variant], name);
}

/* ---- launches ----------------------------------------------------------------------------------------------- */

typedef struct params {
    void *out;
    uint64_t in[3];
    uint64_t moments;
    int64_t batches, queries, keys, width, value_width;
    int64_t q_row;
    int64_t result;
    int64_t period;
    double scale;
    int64_t row[4], step[4], leap[4];
    int64_t inner;
    void *kept;
    uint64_t g;
    int64_t out_at[3], out_row, out_step, out_leap;
} params;

typedef struct attention {
    gt_cuda_key key;
    params p;
    gt_cuda_operand in[4], moments; /* q, k, v, g */
    size_t size;
    int64_t tile;
} attention;

/* Columns of 16 threads, rounded up to a power of two: fewer kernels. */
static uint32_t column_count(int64_t width)
{
    uint32_t count = 1;
    while (16 * (int64_t)count < width)
        count *= 2;
    return count;
}

static uint32_t shared_bytes(const attention *a, unsigned variant)
{
    int64_t E = a->p.width + 1, F = a->p.value_width + 1, S = a->tile + 1;
    int64_t row = variant <= MOMENTS ? 2 * E + F + S : 2 * E + 2 * F + (variant == KEYS ? 2 : 1) * S;
    return (uint32_t)(row * a->tile * (int64_t)a->size);
}

/* With tensor cores: the rows' own tiles, and two stages of two tiles, rows 16 bytes longer; for KEYS also the moments of
 * each stage's queries. */
static uint32_t mma_shared_bytes(int64_t width, unsigned variant)
{
    if (variant == DELTA)
        return 0;
    unsigned own = choose_shape(variant, (unsigned)width).rows * (variant <= KEEP ? 1 : 2);
    return (own + 4) * MMA_TILE * ((uint32_t)width + 8) * 2 + (variant == KEYS ? 2 * MMA_TILE * 8 : 0);
}

static void launch_attention(gt_cuda_work *work, const attention *a, unsigned variant)
{
    gt_cuda_launch *launch = gt__cuda_launch(work, GT_CUDA_ATTENTION, &a->p, sizeof a->p);
    int64_t rows = variant == KEYS ? a->p.keys : a->p.queries;
    launch->key = a->key;
    launch->key.family = GT_CUDA_ATTENTION;
    launch->key.variant = (uint8_t)variant;
    int64_t tile = a->key.option[3] ? MMA_TILE * choose_shape(variant, a->key.option[3]).rows : a->tile;
    launch->grid[0] = variant == DELTA ? gt__cuda_blocks(rows * a->p.batches, DELTA_ROWS)
                                       : gt__cuda_blocks((rows + tile - 1) / tile * a->p.batches, 1);
    if (a->key.option[3])
        launch->block[0] = MMA_THREADS;
    launch->shared = a->key.option[3] ? mma_shared_bytes(a->p.width, variant) : shared_bytes(a, variant);
    for (unsigned k = 0; k < 3; k++)
        gt__cuda_bind(launch, offsetof(params, in) + k * sizeof a->p.in[0], &a->in[k]);
    if (variant != FORWARD)
        gt__cuda_bind(launch, offsetof(params, moments), &a->moments);
    if (a->key.option[3] && variant != FORWARD && variant != KEEP)
        gt__cuda_bind(launch, offsetof(params, g), &a->in[3]);
}

/* Whether the kernels for tensor cores can read an operand where it lies: rows of 16-byte pieces, at most two axes before
 * them. */
static bool lies_well(const gt_view *view)
{
    unsigned rank = view->meta.rank;
    bool well = rank <= 4 && (uintptr_t)view->data % 16 == 0 && view->stride[rank - 1] == 1 &&
                view->stride[rank - 2] < LONGEST_ROW && view->stride[rank - 2] > -LONGEST_ROW;
    for (unsigned axis = 0; axis + 1 < rank; axis++)
        well &= view->stride[axis] % 8 == 0;
    return well;
}

/* Whether they serve: halves of one dtype and one width, sizes in 32 bits. What does not lie well they read from a copy. */
static bool has_tensor_cores(const gt_call *call, const attention *a, const gt_cuda_device *device)
{
    gt_dtype out = (gt_dtype)call->out->meta.dtype;
    bool serves = (out == GT_FLOAT16 || out == GT_BFLOAT16) && (uintptr_t)call->out->data % 16 == 0;
    for (unsigned k = 0; k < call->operands; k++)
        if (k < 3 || (k == 5 && call->in[5]->data)) /* read by 16 bytes, where they are or as a copy */
            serves &= call->in[k]->meta.dtype == out &&
                      (!call->in[k]->contiguous || (uintptr_t)call->in[k]->data % 16 == 0);
    return serves && device->capability >= 80 && a->p.width == a->p.value_width && a->p.width % 16 == 0 &&
           a->p.width > 0 && a->p.scale > 0 && a->p.keys < INT32_MAX / 2 && a->p.queries < INT32_MAX / 2 &&
           mma_shared_bytes(a->p.width, KEYS) <= device->shared_limit;
}

/* Operand k for tensor cores, in place or as a copy. */
static void place_operand(gt_cuda_work *work, attention *a, const gt_view *view, unsigned k)
{
    unsigned rank = view->meta.rank;
    int64_t rows = k == 0 || k == 3 ? a->p.queries : a->p.keys, row = k == 0 ? a->p.q_row : a->p.width;
    a->p.inner = rank > 2 ? view->meta.shape[rank - 3] : 1;
    if (lies_well(view)) {
        a->in[k] = (gt_cuda_operand){.address = (uintptr_t)view->data};
        a->p.row[k] = view->stride[rank - 2];
        a->p.step[k] = rank > 2 ? view->stride[rank - 3] : 0;
        a->p.leap[k] = rank > 3 ? view->stride[rank - 4] : 0;
    } else {
        a->in[k] = gt__cuda_operand(work, view, (gt_dtype)view->meta.dtype);
        a->p.row[k] = row;
        a->p.step[k] = rows * row;
        a->p.leap[k] = a->p.inner * rows * row;
    }
}

/* The gradient of the result for tensor cores: behind the queries in their rows, or by itself. */
static void place_gradient(gt_cuda_work *work, attention *a, const gt_view *view)
{
    if (view) {
        place_operand(work, a, view, 3);
        return;
    }
    a->in[3] = a->in[0];
    a->in[3].address += (uint64_t)a->p.width * 2;
    a->p.row[3] = a->p.row[0];
    a->p.step[3] = a->p.step[0];
    a->p.leap[3] = a->p.leap[0];
}

/* Where results go, of tensor cores: one after the other, or as spread_form.c says. */
static void place_result(attention *a, const gt_view *spread)
{
    params *p = &a->p;
    p->out_row = spread ? spread->stride[2] : p->width;
    p->out_step = spread ? spread->stride[1] : p->result;
    p->out_leap = spread ? spread->stride[0] : p->inner * p->result;
    for (int k = 0; k < 3; k++)
        p->out_at[k] = spread ? spread->meta.shape[k] : k == 0 ? 0 : (p->queries + (k - 1) * p->keys) * p->width;
}

gt_err gt__cuda_lower_attention(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work)
{
    bool forward = call->op == GT_OP_attention, wide = call->compute == GT_FLOAT64;
    bool paired = call->operands > 3, apart = call->operands > 5 && call->in[5]->data; /* pair_form.c */
    const gt_view *spread = call->operands > 6 && call->in[6]->data ? call->in[6] : NULL;
    attention a = {.size = wide ? sizeof(double) : sizeof(float), .tile = wide ? 32 : 64};
    if (call->literals || gt__dtype_is_complex((gt_dtype)call->out->meta.dtype))
        return GT_CUDA_DECLINE;
    gt_attention_sizes n = gt__attention_sizes(&call->in[0]->meta, &call->in[1]->meta, &call->in[2]->meta);
    a.p = (params){.out = call->out->data,
                   .batches = n.batches,
                   .queries = n.queries,
                   .keys = n.keys,
                   .width = n.width,
                   .value_width = n.value_width,
                   .q_row = forward || apart ? n.width : n.width + n.value_width,
                   .period = call->ins->imm[1].i,
                   .scale = call->ins->imm[0].f};
    a.p.result = forward ? n.queries * n.value_width : n.queries * n.width + n.keys * (n.width + n.value_width);
    if (n.width > WIDEST || n.value_width > WIDEST || shared_bytes(&a, KEYS) > device->shared_limit ||
        n.keys == 0 || n.queries == 0)
        return GT_CUDA_DECLINE;
    a.key.op = (uint16_t)call->op;
    a.key.compute = (uint8_t)call->compute;
    a.key.out = call->out->meta.dtype;
    a.key.option[0] = (uint32_t)a.tile;
    a.key.option[1] = column_count(n.width);
    a.key.option[2] = column_count(n.value_width);
    bool tensor_cores = has_tensor_cores(call, &a, device);
    for (unsigned k = 0; k < 3; k++) {
        a.key.in[k] = call->in[k]->meta.dtype;
        if (tensor_cores)
            place_operand(work, &a, call->in[k], k);
        else
            a.in[k] = gt__cuda_operand(work, call->in[k], (gt_dtype)call->in[k]->meta.dtype);
    }
    if (tensor_cores) {
        a.key.option[0] = a.key.option[1] = a.key.option[2] = 1; /* not used */
        a.key.option[3] = (uint32_t)n.width;
    }
    if (paired && !tensor_cores)
        return GT_CUDA_DECLINE;
    if (tensor_cores && !forward)
        place_gradient(work, &a, apart ? call->in[5] : NULL);
    place_result(&a, spread);
    if (paired)
        a.moments = (gt_cuda_operand){.address = (uintptr_t)call->in[3]->data};
    if (forward) {
        launch_attention(work, &a, paired ? KEEP : FORWARD);
        return GT_OK;
    }
    if (paired)
        a.p.kept = call->in[4]->data;
    else
        a.moments = gt__cuda_scratch(work, (size_t)(2 * n.batches * n.queries) * a.size);
    launch_attention(work, &a, paired ? DELTA : MOMENTS);
    launch_attention(work, &a, QUERIES);
    launch_attention(work, &a, KEYS);
    return GT_OK;
}

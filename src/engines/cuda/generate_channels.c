/*
 * generate_channels.c: MOMENTS and BATCH_NORM: normalisation of channels. device/channels.cuh has the kernels. They want
 * contiguous operands; others are copied to scratch memory first.
 */
#include <string.h>

#include "engines/cuda/generate_family.h"

enum {
    PLANES,
    COLUMNS,
    FINISH,
    APPLY,
    PARTIAL = 8,       /* added to the variant: states are stored instead of results */
    ITEMS = 4,         /* vectors of a thread; with two operands half as many */
    STATE = 3,         /* numbers of a state */
    PART_GRAIN = 1024, /* vectors worth a block of their own */
    BLOCKS = 16,       /* for a multiprocessor, which holds fewer: the last ones to run leave few idle */
};

/* ---- source ------------------------------------------------------------------------------------------------- */

void gt__cuda_write_channels(const gt_cuda_key *key, const char *name, gt_cuda_text *text)
{
    static const char *const functions[] = {
        [PLANES] = "planes", [COLUMNS] = "columns", [FINISH] = "finish", [APPLY] = "apply"};
    unsigned shape = key->variant & ~(unsigned)PARTIAL;
    bool backward = key->op == GT_OP_batch_norm_backward,
         two = backward || key->op == GT_OP_batch_norm_backward_affine;
    gt__cuda_add(text, "struct %s_k {\ntypedef %s T;\ntypedef %s D;\ntypedef %s I;\n", name,
                 gt__cuda_type_name(gt__cuda_type((gt_dtype)key->compute)), gt__cuda_dtype((gt_dtype)key->in[0]),
                 key->wide ? "int64_t" : "uint32_t");
    if (shape != APPLY)
        gt__cuda_add(text, "typedef gt_sum_%s<%s_k> R;\n",
                     key->op == GT_OP_batch_moments ? "moments" : "gradients", name);
    gt__cuda_add(text, "enum { V = %u, ITEMS = %u, PARTIAL = %u, BACKWARD = %u, AFFINE = %u, WITHIN = %u };\n};\n",
                 key->vector, two ? ITEMS / 2 : ITEMS, key->variant & PARTIAL ? 1 : 0, backward, key->option[0],
                 key->option[1]);
    gt__cuda_add(text, "GT_ENTRY(256) %s(GT_PARAM(gt_channels_params) p)\n{\ngt_channel_%s<%s_k>(p);\n}\n", name,
                 functions[shape], name);
}

/* ---- launches ----------------------------------------------------------------------------------------------- */

typedef struct params {
    void *out;
    uint64_t in[3];
    uint64_t partial;
    int64_t samples, channels, inner;
    int64_t parts, share;
    int64_t rows;
    double elements, eps;
} params;

typedef struct channels {
    gt_cuda_key key;
    params p;
    gt_cuda_operand in[3];
    unsigned operands;
} channels;

/* Elements that a thread may read at once, where lines of `n` elements begin at a multiple of that. */
static int64_t vector_of(const channels *c, const gt_view *out, bool stores, int64_t n)
{
    int64_t vector = 16 / (int64_t)gt__dtype_size((gt_dtype)c->key.in[0]);
    uint64_t bits = stores ? (uint64_t)(uintptr_t)out->data : 0;
    for (unsigned k = 0; k < c->operands && k < 2; k++)
        if (k == 0 || c->key.op != GT_OP_batch_norm) /* the second operand is of channels there */
            bits |= c->in[k].address;
    while (vector > 1 &&
           (n % vector || bits % (uint64_t)(vector * (int64_t)gt__dtype_size((gt_dtype)c->key.in[0]))))
        vector /= 2;
    return vector;
}

static gt_cuda_launch *launch_channels(gt_cuda_work *work, const channels *c, unsigned variant)
{
    gt_cuda_launch *launch = gt__cuda_launch(work, GT_CUDA_CHANNELS, &c->p, sizeof c->p);
    launch->key = c->key;
    launch->key.family = GT_CUDA_CHANNELS;
    launch->key.variant = (uint8_t)variant;
    for (unsigned k = 0; k < c->operands; k++)
        gt__cuda_bind(launch, offsetof(params, in) + k * sizeof c->p.in[0], &c->in[k]);
    return launch;
}

static void lower_apply(gt_cuda_work *work, const gt_view *out, channels *c)
{
    int64_t count = out->meta.numel;
    c->key.vector = (uint8_t)vector_of(c, out, true, count);
    c->key.option[1] = c->p.inner % c->key.vector == 0;
    c->key.wide = count > UINT32_MAX / 2;
    unsigned items = c->key.op == GT_OP_batch_norm_backward ? ITEMS / 2 : ITEMS;
    gt_cuda_launch *launch = launch_channels(work, c, APPLY);
    launch->grid[0] = (uint32_t)((count / c->key.vector + GT_CUDA_BLOCK * items - 1) / (GT_CUDA_BLOCK * items));
}

static void lower_sums(const gt_cuda_device *device, gt_cuda_work *work, const gt_view *out, channels *c)
{
    bool columns = c->p.inner == 1;
    c->key.vector = (uint8_t)vector_of(c, out, false, columns ? c->p.channels : c->p.inner);
    if (columns && c->key.vector > 4)
        c->key.vector = 4;
    c->key.wide = c->p.samples * c->p.inner > UINT32_MAX / 2;
    int64_t tile = 32 * (int64_t)c->key.vector;
    int64_t blocks = columns ? (c->p.channels + tile - 1) / tile : c->p.channels;
    int64_t units =
        columns ? c->p.samples : c->p.samples * c->p.inner / c->key.vector; /* to be divided into parts */
    int64_t wanted = BLOCKS * (int64_t)device->processors / blocks + 1;
    int64_t most = units / (columns ? 32 : PART_GRAIN) + 1, parts = wanted < most ? wanted : most;
    c->p.share = (units + parts - 1) / parts;
    c->p.parts = (units + c->p.share - 1) / c->p.share;
    gt_cuda_operand partial = {0};
    if (c->p.parts > 1)
        partial = gt__cuda_scratch(work, (size_t)(c->p.parts * c->p.channels * STATE) *
                                             gt__dtype_size((gt_dtype)c->key.compute));
    gt_cuda_launch *launch =
        launch_channels(work, c, (columns ? COLUMNS : PLANES) + (c->p.parts > 1 ? PARTIAL : 0));
    launch->grid[0] = (uint32_t)blocks;
    launch->grid[1] = (uint32_t)c->p.parts;
    if (c->p.parts == 1)
        return;
    gt__cuda_bind(launch, offsetof(params, partial), &partial);
    c->key.vector = 1;
    c->key.wide = 0;
    launch = launch_channels(work, c, FINISH);
    gt__cuda_bind(launch, offsetof(params, partial), &partial);
    launch->grid[0] = gt__cuda_blocks(c->p.channels, 32);
}

gt_err gt__cuda_lower_channels(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work)
{
    channels c;
    bool forward = call->op == GT_OP_batch_moments || call->op == GT_OP_batch_norm;
    const gt_meta *x = &call->in[forward ? 0 : 1]->meta;
    memset(&c, 0, sizeof c);
    if (call->literals & 3 || x->numel == 0 || x->numel / x->shape[1] > INT32_MAX / 2 || x->shape[1] > INT32_MAX)
        return GT_CUDA_DECLINE;
    c.key.op = (uint16_t)call->op;
    c.key.compute = (uint8_t)call->compute;
    c.p.out = call->out->data;
    c.p.samples = x->shape[0];
    c.p.channels = x->shape[1];
    c.p.inner = x->numel / (x->shape[0] * x->shape[1]);
    c.p.eps = call->ins->imm[1].f;
    c.p.elements = (double)call->ins->imm[0].i;
    c.operands = call->operands - (call->literals >> 2 & 1);
    for (unsigned k = 0; k < c.operands; k++)
        c.in[k] = gt__cuda_operand(work, call->in[k], (gt_dtype)call->in[k]->meta.dtype);
    c.key.in[0] = call->in[0]->meta.dtype;
    if (call->op == GT_OP_batch_norm_backward) {
        c.p.rows = call->in[2]->meta.shape[0];
        c.key.option[0] = c.p.rows == (call->ins->imm[0].i ? 6 : 4);
    } else
        c.key.option[0] = call->op == GT_OP_batch_norm && !call->literals;
    if (call->op == GT_OP_batch_norm || call->op == GT_OP_batch_norm_backward)
        lower_apply(work, call->out, &c);
    else
        lower_sums(device, work, call->out, &c);
    return GT_OK;
}

/* generate_resample.c: RESAMPLE and its gradient. device/resample.cuh has the kernels, for contiguous operands. */
#include <string.h>

#include "engines/cuda/generate_family.h"

void gt__cuda_write_resample(const gt_cuda_key *key, const char *name, gt_cuda_text *text)
{
    gt__cuda_add(text, "struct %s_k {\ntypedef %s T;\ntypedef %s D;\ntypedef %s DO;\nenum { MODE = %u };\n};\n",
                 name, gt__cuda_type_name(gt__cuda_type((gt_dtype)key->out)), gt__cuda_dtype((gt_dtype)key->in[0]),
                 gt__cuda_dtype((gt_dtype)key->out), key->option[0]);
    gt__cuda_add(text, "GT_ENTRY(256) %s(GT_PARAM(gt_resample_params) p)\n{\ngt_%s<%s_k>(p);\n}\n", name,
                 gt__op_table[key->op].name, name);
}

typedef struct params {
    void *out;
    uint64_t in;
    int64_t count;
    int64_t size;
    int64_t longer;
    int64_t inner;
    int64_t aligned;
    double step;
} params;

gt_err gt__cuda_lower_resample(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work)
{
    (void)device;
    const gt_view *in = call->in[0], *out = call->out;
    bool forward = call->op == GT_OP_resample;
    int axis = (int)(call->ins->imm[0].i & 0xff);
    params p = {.out = out->data,
                .count = out->meta.numel,
                .size = (forward ? in : out)->meta.shape[axis],
                .longer = (forward ? out : in)->meta.shape[axis],
                .inner = 1,
                .aligned = call->tail[0].i64[1] != 0,
                .step = call->ins->imm[1].f};
    if (call->literals || !gt__dtype_is_float((gt_dtype)out->meta.dtype) || in->meta.dtype != out->meta.dtype ||
        in->meta.numel == 0)
        return GT_CUDA_DECLINE;
    for (int k = axis + 1; k < in->meta.rank; k++)
        p.inner *= in->meta.shape[k];
    gt_cuda_operand operand = gt__cuda_operand(work, in, (gt_dtype)in->meta.dtype);
    gt_cuda_launch *launch = gt__cuda_launch(work, GT_CUDA_RESAMPLE, &p, sizeof p);
    gt__cuda_bind(launch, offsetof(params, in), &operand);
    launch->key.op = (uint16_t)call->op;
    launch->key.in[0] = in->meta.dtype;
    launch->key.out = out->meta.dtype;
    launch->key.option[0] = (uint32_t)(call->ins->imm[0].i >> 8);
    launch->grid[0] = gt__cuda_blocks(p.count, GT_CUDA_BLOCK);
    return GT_OK;
}

/* generate_join.c: CAT of small tensors that end up one behind the other: one launch for all. device/join.cuh has the kernel. */
#include <string.h>

#include "engines/cuda/generate_family.h"

enum { PARTS = 8, LARGEST = 1 << 16 /* elements; above, a launch costs less than the copy */ };

void gt__cuda_write_join(const gt_cuda_key *key, const char *name, gt_cuda_text *text)
{
    gt__cuda_add(text, "GT_ENTRY(256) %s(GT_PARAM(gt_join_params) p)\n{\ngt_join<%s>(p);\n}\n", name,
                 gt__cuda_moved(key->option[0]));
}

typedef struct params {
    void *out;
    const void *in[PARTS];
    int64_t end[PARTS];
} params;

bool gt__cuda_join(const gt_call *call, gt_cuda_work *work)
{
    const gt_view *out = call->out;
    params p = {.out = out->data};
    unsigned parts = 0;
    int64_t end = 0;
    for (int64_t axis = 0; axis < call->ins->imm[0].i; axis++)
        if (out->meta.shape[axis] != 1)
            return false;
    if (out->meta.numel > LARGEST)
        return false;
    for (unsigned k = 0; k < call->operands; k++) {
        const gt_view *in = call->in[k];
        if (in->meta.numel == 0)
            continue;
        if (parts == PARTS || !in->contiguous || in->meta.dtype != out->meta.dtype)
            return false;
        p.in[parts] = in->data;
        p.end[parts++] = end += in->meta.numel;
    }
    for (; parts < PARTS; parts++)
        p.end[parts] = end;
    gt_cuda_launch *launch = gt__cuda_launch(work, GT_CUDA_JOIN, &p, sizeof p);
    launch->key.op = GT_OP_cat;
    launch->key.option[0] = (uint32_t)gt__dtype_size((gt_dtype)out->meta.dtype);
    launch->grid[0] = gt__cuda_blocks(end, GT_CUDA_BLOCK);
    return true;
}

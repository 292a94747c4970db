/* generate_transpose.c: copies that change which elements are neighbours, by tiles. device/transpose.cuh has the kernel. */
#include <string.h>

#include "engines/cuda/generate_family.h"

enum { TILE = 32, PAIRS_TILE = 64, SHORTEST = 8 };

void gt__cuda_write_transpose(const gt_cuda_key *key, const char *name, gt_cuda_text *text)
{
    gt__cuda_add(text, "struct %s_k {\ntypedef %s D;\n};\n", name, gt__cuda_moved(key->out));
    gt__cuda_add(text, "GT_ENTRY(256) %s(GT_PARAM(gt_transpose_params) p)\n{\ngt_transpose%s<%s_k>(p);\n}\n", name,
                 key->vector == 2 ? "_pairs" : "", name);
}

typedef struct params {
    void *out;
    const void *in;
    int64_t count;
    int64_t rank;
    int64_t shape[GT_MAX_RANK], in_stride[GT_MAX_RANK], out_stride[GT_MAX_RANK];
} params;

_Static_assert(offsetof(params, in) == sizeof(void *), "gt__cuda_bind_move relies on it");

/* Elements of two bytes, and every pair of neighbours is aligned, on both sides. Scratch memory always is. */
static bool by_pairs(const params *p, size_t size)
{
    int last = (int)p->rank - 1;
    uint64_t odd = (uint64_t)p->shape[last] | (uint64_t)p->shape[last - 1] | (uint64_t)(uintptr_t)p->in >> 1 |
                   (uint64_t)(uintptr_t)p->out >> 1;
    for (int axis = 0; axis <= last; axis++)
        odd |= (axis == last - 1 ? 0 : (uint64_t)p->in_stride[axis]) |
               (axis == last ? 0 : (uint64_t)p->out_stride[axis]);
    return size == 2 && !(odd & 1);
}

gt_cuda_launch *gt__cuda_transpose(gt_cuda_work *work, const gt_view *out, const gt_view *in)
{
    gt_loop loop;
    if (out->meta.dtype != in->meta.dtype || out->meta.numel < work->fewest)
        return NULL;
    gt__loop_start(&loop, &out->meta);
    gt__loop_add(&loop, in);
    gt__loop_add(&loop, out);
    gt__loop_collapse(&loop);
    int last = loop.rank - 1, turned = -1;
    for (int axis = 0; axis < last; axis++)
        if (loop.stride[0][axis] == 1 && loop.shape[axis] >= SHORTEST)
            turned = axis;
    if (turned < 0 || loop.stride[1][last] != 1 || loop.stride[0][last] == 1 || loop.stride[0][last] == 0 ||
        loop.shape[last] < SHORTEST)
        return NULL;
    params p = {.out = out->data, .in = in->data, .rank = loop.rank, .count = 1};
    size_t size = gt__dtype_size((gt_dtype)out->meta.dtype);
    for (int axis = 0, to = 0; axis <= last; axis++) {
        int place = axis == turned ? last - 1 : axis == last ? last : to++;
        p.shape[place] = loop.shape[axis];
        p.in_stride[place] = loop.stride[0][axis];
        p.out_stride[place] = loop.stride[1][axis];
    }
    bool pairs = by_pairs(&p, size);
    int64_t tile = pairs ? PAIRS_TILE : TILE;
    for (int axis = 0; axis <= last; axis++)
        p.count *= axis >= last - 1 ? (p.shape[axis] + tile - 1) / tile : p.shape[axis];
    gt_cuda_launch *launch = gt__cuda_launch(work, GT_CUDA_TRANSPOSE, &p, sizeof p);
    launch->key.op = GT_OP_copy;
    launch->key.out = (uint8_t)size;
    launch->key.vector = pairs ? 2 : 1;
    launch->grid[0] = gt__cuda_blocks(p.count, 1);
    return launch;
}

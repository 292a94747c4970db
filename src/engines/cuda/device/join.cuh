R"cuda(
/* join.cuh: small contiguous tensors one behind the other, in one launch. */

enum { GT_JOIN_PARTS = 8 };

struct gt_join_params {
    void *out;
    const void *in[GT_JOIN_PARTS];
    int64_t end[GT_JOIN_PARTS]; /* of each part in the result; unused ones: of the last */
};

template <class D> GT_F void gt_join(const gt_join_params &p)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.end[GT_JOIN_PARTS - 1];
         i += (int64_t)gridDim.x * blockDim.x) {
        const void *in = p.in[0];
        int64_t begin = 0;
#pragma unroll
        for (int k = 1; k < GT_JOIN_PARTS; k++)
            if (i >= p.end[k - 1]) {
                in = p.in[k];
                begin = p.end[k - 1];
            }
        ((typename D::raw *)p.out)[i] = ((const typename D::raw *)in)[i - begin];
    }
}
)cuda"

R"cuda(
/*
 * chain.cuh: what generated chains of elementwise steps call. Read engines/cuda/chain.h first. elementwise.cuh comes before it.
 */

/* The offset of position i along axes. */
template <int RANK, class I> GT_F I gt_chain_offset(const int64_t *shape, const int64_t *stride, I i)
{
    I offset = 0;
#pragma unroll
    for (int axis = RANK - 1; axis > 0; axis--) {
        I size = (I)shape[axis], next = i / size;
        offset += (i - next * size) * (I)stride[axis];
        i = next;
    }
    return offset + i * (I)stride[0];
}

template <class R, int V> GT_F void gt_chain_flat(const void *from, int64_t i, gt_vector<R, V> *to)
{
    *to = *(const gt_vector<R, V> *)((const R *)from + i);
}

template <class R, int V> GT_F void gt_chain_repeat(const void *from, int64_t i, gt_vector<R, V> *to)
{
    R one = ((const R *)from)[i];
#pragma unroll
    for (int j = 0; j < V; j++)
        to->at[j] = one;
}

template <int RANK, class I, class R, int V>
GT_F void gt_chain_gather(const void *from, const int64_t *shape, const int64_t *stride, I i, gt_vector<R, V> *to)
{
#pragma unroll
    for (int j = 0; j < V; j++)
        to->at[j] = ((const R *)from)[gt_chain_offset<RANK, I>(shape, stride, i + j)];
}

template <class R, int V> GT_F void gt_chain_store(void *to, int64_t i, gt_vector<R, V> v)
{
    *(gt_vector<R, V> *)((R *)to + i) = v;
}

/* The chain of a table that this block works on: the last one that begins no later. */
template <class U> GT_F int gt_chain_find(const U *unit, int64_t units)
{
    int low = 0, high = (int)units;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (unit[middle].first <= (int64_t)blockIdx.x)
            low = middle;
        else
            high = middle;
    }
    return low;
}
)cuda"

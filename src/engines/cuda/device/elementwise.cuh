R"cuda(
/*
 * elementwise.cuh: out = f(x, y, z), element by element, with broadcasts and strides. One thread computes V neighbours of the
 * innermost axis.
 */

/* How an operand is read, gt_cuda_mode of generate_family.h. */
enum { GT_LITERAL, GT_VECTOR, GT_ONE, GT_STRIDED };

struct gt_elementwise_params {
    void *out;
    const void *in[3];
    gt_errors *errors;
    uint64_t value[3]; /* literals: a T */
    uint64_t pq[2];    /* each a T */
    int64_t count;     /* vectors */
    int64_t tail;      /* elements behind them; only with one axis */
    int64_t rank;      /* axes; the innermost is the last one and counts vectors */
    int64_t shape[8];
    int64_t stride[4][8]; /* in elements: of in[0..2] and out; of the innermost axis: of one vector */
    int64_t step[4];      /* from element to element in a vector */
};

template <class T> GT_F T gt_slot(const uint64_t *slot) { return *(const T *)slot; }

/* The offsets of all operands at position i. */
template <int N, class I> GT_F void gt_offsets(const gt_elementwise_params &p, int rank, I i, I *offset)
{
#pragma unroll
    for (int k = 0; k <= N; k++)
        offset[k] = 0;
    for (int axis = rank - 1; axis > 0; axis--) {
        I size = (I)p.shape[axis], next = i / size, within = i - next * size;
        i = next;
#pragma unroll
        for (int k = 0; k < N; k++)
            offset[k] += within * (I)p.stride[k][axis];
        offset[N] += within * (I)p.stride[3][axis];
    }
#pragma unroll
    for (int k = 0; k < N; k++)
        offset[k] += i * (I)p.stride[k][0];
    offset[N] += i * (I)p.stride[3][0];
}

/* ROUND: integers that a half cannot hold are rounded to halves first. */
template <class T, class D, class ROUND> GT_F T gt_read(typename D::raw raw)
{
    return gt_convert<T>::from(ROUND::load(ROUND::store(gt_convert<T>::from(D::load(raw)))));
}

template <class T> struct gt_exact {
    GT_F static T load(T x) { return x; }
    GT_F static T store(T x) { return x; }
};

/* L: the type of numbers in the parameters, T or the type of T's parts. */
template <class T, class L> GT_F T gt_number(const uint64_t *slot) { return gt_convert<T>::from(gt_slot<L>(slot)); }

template <class T, class L, class D, class ROUND, int MODE, int V, class I>
GT_F void gt_load_vector(const gt_elementwise_params &p, int k, I offset, T *x)
{
    typedef typename D::raw R;
    const R *from = (const R *)p.in[k] + offset;
    if constexpr (MODE == GT_LITERAL || MODE == GT_ONE) {
        T one;
        if constexpr (MODE == GT_LITERAL)
            one = gt_number<T, L>(&p.value[k]);
        else
            one = gt_read<T, D, ROUND>(*from);
#pragma unroll
        for (int j = 0; j < V; j++)
            x[j] = one;
    } else if constexpr (MODE == GT_VECTOR) {
        gt_vector<R, V> v = *(const gt_vector<R, V> *)from;
#pragma unroll
        for (int j = 0; j < V; j++)
            x[j] = gt_read<T, D, ROUND>(v.at[j]);
    } else {
#pragma unroll
        for (int j = 0; j < V; j++)
            x[j] = gt_read<T, D, ROUND>(from[j * (I)p.step[k]]);
    }
}

template <class K, int V> GT_F void gt_elementwise_at(const gt_elementwise_params &p, typename K::I i, int rank)
{
    typedef typename K::T T;
    typedef typename K::I I;
    typedef typename K::DO::raw R;
    I offset[K::N + 1];
    T x[V], y[V], z[V];
    gt_offsets<K::N, I>(p, rank, i, offset);
    if constexpr (K::N > 0)
        gt_load_vector<T, typename K::L, typename K::D0, typename K::R0, K::M0, V, I>(p, 0, offset[0], x);
    if constexpr (K::N > 1)
        gt_load_vector<T, typename K::L, typename K::D1, typename K::R1, K::M1, V, I>(p, 1, offset[K::N > 1 ? 1 : 0], y);
    if constexpr (K::N > 2)
        gt_load_vector<T, typename K::L, typename K::D2, typename K::R2, K::M2, V, I>(p, 2, offset[K::N > 2 ? 2 : 0], z);
    gt_vector<R, V> v;
    T pp = gt_number<T, typename K::L>(&p.pq[0]), qq = gt_number<T, typename K::L>(&p.pq[1]);
#pragma unroll
    for (int j = 0; j < V; j++)
        v.at[j] = K::DO::store(K::apply(p, x[j], y[j], z[j], pp, qq));
    R *to = (R *)p.out + offset[K::N];
    if constexpr (K::MO == GT_VECTOR) {
        *(gt_vector<R, V> *)to = v;
    } else {
#pragma unroll
        for (int j = 0; j < V; j++)
            to[j * (I)p.step[3]] = v.at[j];
    }
}

/* The elements behind the last whole vector: strides are those of vectors, so steps count elements. */
template <class K> GT_F void gt_elementwise_tail(const gt_elementwise_params &p, int64_t element)
{
    typedef typename K::T T;
    T x = {}, y = {}, z = {};
    if constexpr (K::N > 0)
        x = K::M0 == GT_LITERAL ? gt_number<T, typename K::L>(&p.value[0])
                                : gt_read<T, typename K::D0, typename K::R0>(
                                      ((const typename K::D0::raw *)p.in[0])[element * p.step[0]]);
    if constexpr (K::N > 1)
        y = K::M1 == GT_LITERAL ? gt_number<T, typename K::L>(&p.value[1])
                                : gt_read<T, typename K::D1, typename K::R1>(
                                      ((const typename K::D1::raw *)p.in[1])[element * p.step[1]]);
    if constexpr (K::N > 2)
        z = K::M2 == GT_LITERAL ? gt_number<T, typename K::L>(&p.value[2])
                                : gt_read<T, typename K::D2, typename K::R2>(
                                      ((const typename K::D2::raw *)p.in[2])[element * p.step[2]]);
    ((typename K::DO::raw *)p.out)[element * p.step[3]] =
        K::DO::store(K::apply(p, x, y, z, gt_number<T, typename K::L>(&p.pq[0]), gt_number<T, typename K::L>(&p.pq[1])));
}

template <class K> GT_F void gt_elementwise(const gt_elementwise_params &p)
{
    typedef typename K::I I;
    I count = (I)p.count, stride = (I)gridDim.x * blockDim.x;
    I first = (I)blockIdx.x * blockDim.x + threadIdx.x;
    for (I i = first; i < count; i += stride)
        gt_elementwise_at<K, K::V>(p, i, (int)p.rank);
    if (K::V > 1 && (int64_t)first < p.tail)
        gt_elementwise_tail<K>(p, p.count * K::V + (int64_t)first);
}
)cuda"

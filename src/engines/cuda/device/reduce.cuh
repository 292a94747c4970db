R"cuda(
/*
 * reduce.cuh: reductions. A reducer has a state S, which starts as first(), takes elements by add, and merges with other
 * states; finish makes the result of it. The order in which states merge depends on the shapes alone, so sums are
 * reproducible.
 *
 *   rows      `width` neighbouring threads, up to a warp, or a whole block for each result
 *   columns   neighbouring threads for neighbouring results, in blocks of 32 V results by 8 shares of their elements; with
 *             V > 1 a thread reads the elements of V results at once
 *   finish    merges the states of parts, where the elements of a result were divided between blocks
 */

struct gt_reduce_params {
    void *out;
    const void *in;
    void *partial; /* states (parts, results) */
    int64_t results, elements;
    int64_t parts, share; /* elements in a part */
    int64_t width;
    int64_t kept_rank, reduced_rank;
    int64_t kept_shape[8], kept_stride[8];
    int64_t reduced_shape[8], reduced_stride[8];
    double divisor, parameter;
};

/* The offset of row-major position i. */
template <bool WIDE> GT_F int64_t gt_walk(int rank, const int64_t *shape, const int64_t *stride, int64_t i)
{
    int64_t offset = 0;
    for (int axis = rank - 1; axis > 0; axis--) {
        int64_t next = WIDE ? i / shape[axis] : (int64_t)((uint32_t)i / (uint32_t)shape[axis]);
        offset += (i - next * shape[axis]) * stride[axis];
        i = next;
    }
    return offset + i * stride[0];
}

/* ---- reducers ----------------------------------------------------------------------------------------------- */

template <class A> struct gt_reduce_sum {
    typedef A S;
    GT_F static S first(const gt_reduce_params &) { return 0; }
    GT_F static void add(const gt_reduce_params &, S &s, A x, int64_t) { s += x; }
    GT_F static S merge(S a, S b) { return a + b; }
    GT_F static A finish(const gt_reduce_params &, S s) { return s; }
};
template <class A> struct gt_reduce_mean : gt_reduce_sum<A> {
    GT_F static A finish(const gt_reduce_params &p, A s) { return (A)(s / (A)p.divisor); }
};
template <class A> struct gt_reduce_prod {
    typedef A S;
    GT_F static S first(const gt_reduce_params &) { return 1; }
    GT_F static void add(const gt_reduce_params &, S &s, A x, int64_t) { s *= x; }
    GT_F static S merge(S a, S b) { return a * b; }
    GT_F static A finish(const gt_reduce_params &, S s) { return s; }
};
template <class A> struct gt_reduce_amax {
    typedef A S;
    GT_F static S first(const gt_reduce_params &) { return gt_traits<A>::least(); }
    GT_F static void add(const gt_reduce_params &, S &s, A x, int64_t) { s = gt_maximum<A>(s, x); }
    GT_F static S merge(S a, S b) { return gt_maximum<A>(a, b); }
    GT_F static A finish(const gt_reduce_params &, S s) { return s; }
};
template <class A> struct gt_reduce_amin {
    typedef A S;
    GT_F static S first(const gt_reduce_params &) { return gt_traits<A>::most(); }
    GT_F static void add(const gt_reduce_params &, S &s, A x, int64_t) { s = gt_minimum<A>(s, x); }
    GT_F static S merge(S a, S b) { return gt_minimum<A>(a, b); }
    GT_F static A finish(const gt_reduce_params &, S s) { return s; }
};
template <class A> struct gt_reduce_any {
    typedef int32_t S;
    GT_F static S first(const gt_reduce_params &) { return 0; }
    GT_F static void add(const gt_reduce_params &, S &s, A x, int64_t) { s |= x != 0; }
    GT_F static S merge(S a, S b) { return a | b; }
    GT_F static int32_t finish(const gt_reduce_params &, S s) { return s; }
};
template <class A> struct gt_reduce_all {
    typedef int32_t S;
    GT_F static S first(const gt_reduce_params &) { return 1; }
    GT_F static void add(const gt_reduce_params &, S &s, A x, int64_t) { s &= x != 0; }
    GT_F static S merge(S a, S b) { return a & b; }
    GT_F static int32_t finish(const gt_reduce_params &, S s) { return s; }
};

/* Welford's recurrence, and Chan's formula to merge. */
template <class A> struct gt_reduce_var {
    struct S {
        A count, mean, squares;
    };
    GT_F static S first(const gt_reduce_params &) { return {0, 0, 0}; }
    GT_F static void add(const gt_reduce_params &, S &s, A x, int64_t)
    {
        A distance = x - s.mean;
        s.count += 1;
        s.mean += distance / s.count;
        s.squares += distance * (x - s.mean);
    }
    GT_F static S merge(S a, S b)
    {
        A count = a.count + b.count, distance = b.mean - a.mean;
        if (a.count == 0)
            return b;
        if (b.count == 0)
            return a;
        A part = b.count / count;
        return {count, a.mean + distance * part, a.squares + b.squares + distance * distance * a.count * part};
    }
    GT_F static A finish(const gt_reduce_params &p, S s)
    {
        return (A)((s.count == 0 ? (A)0 / s.count : s.squares) / (A)p.divisor);
    }
};

/* The greatest number so far, and the sum of exponentials relative to it. */
template <class A> struct gt_reduce_logsumexp {
    struct S {
        A most, sum;
    };
    GT_F static A scaled(A sum, A from, A to) { return from == to ? sum : sum * gt_exp(from - to); }
    GT_F static S first(const gt_reduce_params &) { return {gt_traits<A>::least(), 0}; }
    GT_F static void add(const gt_reduce_params &, S &s, A x, int64_t) { s = merge(s, {x, 1}); }
    GT_F static S merge(S a, S b)
    {
        A most = gt_maximum<A>(a.most, b.most);
        return {most, scaled(a.sum, a.most, most) + scaled(b.sum, b.most, most)};
    }
    GT_F static A finish(const gt_reduce_params &, S s)
    {
        return gt_isinf(s.most) || gt_isnan(s.most) ? s.most : s.most + gt_log(s.sum);
    }
};

/* ORDER: 0, 1, 2, 3: infinity, 4: minus infinity, 5: another. */
template <class A, int ORDER> struct gt_reduce_norm {
    typedef A S;
    GT_F static S first(const gt_reduce_params &) { return ORDER == 4 ? gt_traits<A>::most() : (A)0; }
    GT_F static void add(const gt_reduce_params &p, S &s, A x, int64_t)
    {
        A a = gt_abs(x);
        s = merge(s, ORDER == 0 ? (A)(x != 0) : ORDER == 2 ? x * x : ORDER == 5 ? gt_pow(a, (A)p.parameter) : a);
    }
    GT_F static S merge(S a, S b)
    {
        return ORDER == 3 ? gt_maximum<A>(a, b) : ORDER == 4 ? gt_minimum<A>(a, b) : a + b;
    }
    GT_F static A finish(const gt_reduce_params &p, S s)
    {
        return ORDER == 2 ? gt_sqrt(s) : ORDER == 5 ? gt_pow(s, (A)(1 / p.parameter)) : s;
    }
};

/* The first of the best; NaN is better than any number. */
template <class A, bool GREATEST> struct gt_reduce_arg {
    struct S {
        A best;
        int64_t at;
    };
    GT_F static S first(const gt_reduce_params &) { return {0, gt_traits<int64_t>::most()}; }
    GT_F static void add(const gt_reduce_params &, S &s, A x, int64_t at) { s = merge(s, {x, at}); }
    GT_F static S merge(S a, S b)
    {
        const int64_t none = gt_traits<int64_t>::most();
        if (a.at == none || b.at == none)
            return a.at == none ? b : a;
        bool a_nan = gt_isnan(a.best), b_nan = gt_isnan(b.best);
        if (a_nan || b_nan)
            return a_nan && (!b_nan || a.at < b.at) ? a : b;
        if (a.best == b.best)
            return a.at < b.at ? a : b;
        return (GREATEST ? a.best > b.best : a.best < b.best) ? a : b;
    }
    GT_F static int64_t finish(const gt_reduce_params &, S s) { return s.at; }
};

/* ---- kernels ------------------------------------------------------------------------------------------------ */

/* Merge the states of `width` neighbouring lanes; the first of them has the result. */
template <class R> GT_F typename R::S gt_merge_lanes(typename R::S s, int width)
{
    for (int delta = width / 2; delta > 0; delta /= 2)
        s = R::merge(s, gt_shuffle_down(s, delta, width));
    return s;
}

/* Of all 256 threads of a block; the first thread has the result. */
template <class R> GT_F typename R::S gt_merge_block(const gt_reduce_params &p, typename R::S s)
{
    typedef typename R::S S;
    __shared__ double room[8 * ((sizeof(S) + 7) / 8)];
    S *state = (S *)room;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    s = gt_merge_lanes<R>(s, 32);
    __syncthreads();
    if (lane == 0)
        state[warp] = s;
    __syncthreads();
    if (warp == 0) {
        s = lane < 8 ? state[lane] : R::first(p);
        s = gt_merge_lanes<R>(s, 8);
    }
    return s;
}

template <class K> GT_F void gt_reduce_store(const gt_reduce_params &p, int64_t result, typename K::R::S s)
{
    if constexpr (K::PARTIAL)
        ((typename K::R::S *)p.partial)[blockIdx.y * p.results + result] = s;
    else
        ((typename K::DO::raw *)p.out)[result] = K::DO::store(K::R::finish(p, s));
}

template <class K> GT_F typename K::A gt_reduce_read(typename K::D::raw raw)
{
    return gt_convert<typename K::A>::from(K::D::load(raw));
}

/* The share of one thread of a row, from element `begin` to `end`. */
template <class K>
GT_F typename K::R::S gt_reduce_row_share(const gt_reduce_params &p, const typename K::D::raw *from, int64_t begin,
                                          int64_t end, int lane, int width)
{
    typedef typename K::D::raw raw;
    typename K::R::S s = K::R::first(p);
    if (K::V > 1 && p.reduced_rank > 1) {
#pragma unroll 4
        for (int64_t e = begin + (int64_t)lane * K::V; e < end; e += (int64_t)width * K::V) {
            gt_vector<raw, K::V> v = *(const gt_vector<raw, K::V> *)(from + gt_walk<K::WIDE>((int)p.reduced_rank, p.reduced_shape,
                                                                                              p.reduced_stride, e));
#pragma unroll
            for (int j = 0; j < K::V; j++)
                K::R::add(p, s, gt_reduce_read<K>(v.at[j]), e + j);
        }
    } else if constexpr (K::V > 1) {
        int64_t vectors = begin + (end - begin) / K::V * K::V;
#pragma unroll 4
        for (int64_t e = begin + (int64_t)lane * K::V; e < vectors; e += (int64_t)width * K::V) {
            gt_vector<raw, K::V> v = *(const gt_vector<raw, K::V> *)(from + e);
#pragma unroll
            for (int j = 0; j < K::V; j++)
                K::R::add(p, s, gt_reduce_read<K>(v.at[j]), e + j);
        }
        for (int64_t e = vectors + lane; e < end; e += width)
            K::R::add(p, s, gt_reduce_read<K>(from[e]), e);
    } else if (p.reduced_rank == 1) {
        int64_t stride = p.reduced_stride[0];
#pragma unroll 4
        for (int64_t e = begin + lane; e < end; e += width)
            K::R::add(p, s, gt_reduce_read<K>(from[e * stride]), e);
    } else {
        for (int64_t e = begin + lane; e < end; e += width)
            K::R::add(p, s,
                      gt_reduce_read<K>(
                          from[gt_walk<K::WIDE>((int)p.reduced_rank, p.reduced_shape, p.reduced_stride, e)]),
                      e);
    }
    return s;
}

template <class K> GT_F void gt_reduce_rows(const gt_reduce_params &p)
{
    int width = K::BLOCK ? (int)blockDim.x : (int)p.width;
    int group = threadIdx.x / width, groups = blockDim.x / width, lane = threadIdx.x % width;
    int64_t begin = (int64_t)blockIdx.y * p.share, end = begin + p.share < p.elements ? begin + p.share : p.elements;
    for (int64_t block = blockIdx.x; block * groups < p.results; block += gridDim.x) {
        int64_t result = block * groups + group;
        typename K::R::S s = K::R::first(p);
        if (result < p.results) {
            const typename K::D::raw *from =
                (const typename K::D::raw *)p.in +
                gt_walk<K::WIDE>((int)p.kept_rank, p.kept_shape, p.kept_stride, result);
            s = gt_reduce_row_share<K>(p, from, begin, end, lane, width);
        }
        if constexpr (K::BLOCK)
            s = gt_merge_block<typename K::R>(p, s);
        else
            s = gt_merge_lanes<typename K::R>(s, width);
        if (lane == 0 && result < p.results)
            gt_reduce_store<K>(p, result, s);
    }
}

/* Merge the states of the 8 threads of each column; the threads of the first row have the results. */
template <class R> GT_F typename R::S gt_merge_shares(typename R::S s)
{
    typedef typename R::S S;
    __shared__ double room[256 * ((sizeof(S) + 7) / 8)];
    S *state = (S *)room;
    __syncthreads();
    state[threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.x < 32)
        for (int k = 1; k < 8; k++)
            s = R::merge(s, state[k * 32 + threadIdx.x]);
    return s;
}

/* The share of one thread of V neighbouring columns, whose elements lie next to each other. */
template <class K>
GT_F void gt_reduce_column_share(const gt_reduce_params &p, const typename K::D::raw *from, int64_t begin, int64_t end,
                                 typename K::R::S s[K::V])
{
    typedef gt_vector<typename K::D::raw, K::V> vector;
    int64_t e = begin + threadIdx.x / 32;
    if (p.reduced_rank == 1) {
        int64_t stride = p.reduced_stride[0];
#pragma unroll 4
        for (; e < end; e += 8) {
            vector v = *(const vector *)(from + e * stride);
#pragma unroll
            for (int j = 0; j < K::V; j++)
                K::R::add(p, s[j], gt_reduce_read<K>(v.at[j]), e);
        }
        return;
    }
    for (; e < end; e += 8) {
        vector v = *(const vector *)(from + gt_walk<K::WIDE>((int)p.reduced_rank, p.reduced_shape, p.reduced_stride, e));
#pragma unroll
        for (int j = 0; j < K::V; j++)
            K::R::add(p, s[j], gt_reduce_read<K>(v.at[j]), e);
    }
}

template <class K> GT_F void gt_reduce_columns(const gt_reduce_params &p)
{
    typedef typename K::R::S S;
    int64_t begin = (int64_t)blockIdx.y * p.share, end = begin + p.share < p.elements ? begin + p.share : p.elements;
    for (int64_t block = blockIdx.x; block * 32 * K::V < p.results; block += gridDim.x) {
        int64_t result = (block * 32 + threadIdx.x % 32) * K::V;
        S s[K::V];
#pragma unroll
        for (int j = 0; j < K::V; j++)
            s[j] = K::R::first(p);
        if (result < p.results)
            gt_reduce_column_share<K>(p,
                                      (const typename K::D::raw *)p.in +
                                          gt_walk<K::WIDE>((int)p.kept_rank, p.kept_shape, p.kept_stride, result),
                                      begin, end, s);
#pragma unroll
        for (int j = 0; j < K::V; j++) {
            s[j] = gt_merge_shares<typename K::R>(s[j]);
            if (threadIdx.x < 32 && result < p.results)
                gt_reduce_store<K>(p, result + j, s[j]);
        }
    }
}

/* 32 results by 8 shares of their parts. */
template <class K> GT_F void gt_reduce_finish(const gt_reduce_params &p)
{
    typedef typename K::R::S S;
    for (int64_t block = blockIdx.x; block * 32 < p.results; block += gridDim.x) {
        int64_t result = block * 32 + threadIdx.x % 32;
        S s = K::R::first(p);
        if (result < p.results) {
#pragma unroll 4
            for (int64_t part = threadIdx.x / 32; part < p.parts; part += 8)
                s = K::R::merge(s, ((const S *)p.partial)[part * p.results + result]);
        }
        s = gt_merge_shares<typename K::R>(s);
        if (threadIdx.x < 32 && result < p.results)
            ((typename K::DO::raw *)p.out)[result] = K::DO::store(K::R::finish(p, s));
    }
}

/* The same for few results: a warp each. */
template <class K> GT_F void gt_reduce_finish_few(const gt_reduce_params &p)
{
    typedef typename K::R::S S;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    for (int64_t block = blockIdx.x; block * warps < p.results; block += gridDim.x) {
        int64_t result = block * warps + warp;
        S s = K::R::first(p);
        if (result < p.results)
            for (int64_t part = lane; part < p.parts; part += 32)
                s = K::R::merge(s, ((const S *)p.partial)[part * p.results + result]);
        s = gt_merge_lanes<typename K::R>(s, 32);
        if (lane == 0 && result < p.results)
            ((typename K::DO::raw *)p.out)[result] = K::DO::store(K::R::finish(p, s));
    }
}
)cuda"

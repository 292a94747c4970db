R"cuda(
/*
 * channels.cuh: normalisation of channels, the second axis of x (samples, channels, inner), contiguous: batch_moments,
 * batch_norm and its gradients. Each reads its operands once.
 *
 * Sums: a block has one channel and a share of its vectors (planes), or, where inner is 1, 32 V neighbouring channels and a share
 * of the samples (columns). Shares become states in scratch memory, which a second kernel merges. The order of the sums depends
 * on the shapes and the card alone.
 */

struct gt_channels_params {
    void *out;
    const void *in[3];
    void *partial;              /* (parts, channels) states */
    int64_t samples, channels, inner;
    int64_t parts, share;       /* sums: vectors (planes) or samples (columns) to a part */
    int64_t rows;               /* batch_norm_backward: of its last operand */
    double elements, eps;       /* batch_norm_backward: of a channel; 0: the moments are not of x */
};

template <class T> struct gt_three {
    T count, first, second;
};

/* ---- what is summed ------------------------------------------------------------------------------------------ */

/* Mean and squares around it. A thread sums around its first element, so that a large mean costs no digits. */
template <class K> struct gt_sum_moments {
    typedef typename K::T T;
    typedef gt_three<T> S;
    enum { GRADIENT = 0 };
    T pivot, count, sum, squares;
    /* first: the thread's first element, if it has any. */
    GT_F void open(const gt_channels_params &, int64_t, T first, int64_t elements)
    {
        pivot = first - first == 0 ? first : 0;
        count = (T)elements, sum = 0, squares = 0;
    }
    GT_F void add(T x, T)
    {
        T d = x - pivot;
        sum += d;
        squares += d * d;
    }
    GT_F S close() const
    {
        if (count == 0)
            return {0, 0, 0};
        T apart = sum / count;
        return {count, pivot + apart, squares - sum * apart};
    }
    GT_F static S merge(S a, S b)
    {
        if (a.count == 0 || b.count == 0)
            return a.count == 0 ? b : a;
        T count = a.count + b.count, apart = b.first - a.first, part = b.count / count;
        return {count, a.first + apart * part, a.second + b.second + apart * apart * a.count * part};
    }
    GT_F static void store(const gt_channels_params &p, int64_t channel, S s)
    {
        T *out = (T *)p.out, variance = s.second / s.count;
        out[channel] = s.count == 0 ? s.second / s.count : s.first;
        out[p.channels + channel] = variance < 0 ? 0 : variance;
    }
};

GT_F float gt_inverse_deviation(float variance, double eps) { return 1.0f / sqrtf(variance + (float)eps); }
GT_F double gt_inverse_deviation(double variance, double eps) { return 1.0 / sqrt(variance + eps); }

/* g h and g. */
template <class K> struct gt_sum_gradients {
    typedef typename K::T T;
    typedef gt_three<T> S;
    enum { GRADIENT = 1 };
    T mean, product, sum;
    GT_F void open(const gt_channels_params &p, int64_t channel, T, int64_t)
    {
        mean = ((const T *)p.in[2])[channel];
        product = 0, sum = 0;
    }
    GT_F void add(T x, T g)
    {
        product += g * (x - mean);
        sum += g;
    }
    GT_F S close() const { return {0, product, sum}; }
    GT_F static S merge(S a, S b) { return {0, a.first + b.first, a.second + b.second}; }
    GT_F static void store(const gt_channels_params &p, int64_t channel, S s)
    {
        T *out = (T *)p.out;
        out[channel] = s.first * gt_inverse_deviation(((const T *)p.in[2])[p.channels + channel], p.eps);
        out[p.channels + channel] = s.second;
    }
};

/* ---- sums ---------------------------------------------------------------------------------------------------- */

template <class R> GT_F typename R::S gt_merge_down(typename R::S s, int width)
{
    for (int delta = width / 2; delta > 0; delta /= 2)
        s = R::merge(s, gt_shuffle_down(s, delta, width));
    return s;
}

/* Of all 256 threads; the first has the result. */
template <class R> GT_F typename R::S gt_merge_threads(typename R::S s)
{
    __shared__ typename R::S warps[8];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    s = gt_merge_down<R>(s, 32);
    if (lane == 0)
        warps[warp] = s;
    __syncthreads();
    if (warp == 0)
        s = gt_merge_down<R>(warps[lane % 8], 8);
    return s;
}

template <class K> GT_F void gt_channel_store(const gt_channels_params &p, int64_t channel, typename K::R::S s)
{
    if constexpr (K::PARTIAL)
        ((typename K::R::S *)p.partial)[(int64_t)blockIdx.y * p.channels + channel] = s;
    else
        K::R::store(p, channel, s);
}

/* Turns of a loop from `first` to before `end`. */
GT_F int64_t gt_turns(int64_t first, int64_t end, int64_t step) { return first < end ? (end - first + step - 1) / step : 0; }

/* Vectors e, e + 256, ... of a channel; all loads are under way at once. */
template <class K, int ITEMS>
GT_F void gt_channel_turn(const gt_channels_params &p, typename K::R &sums, int64_t channel, typename K::I plane, typename K::I e)
{
    typedef typename K::T T;
    typedef typename K::D D;
    typedef gt_vector<typename D::raw, K::V> vector;
    vector of_x[ITEMS], of_g[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        typename K::I sample = (e + i * 256) / plane;
        int64_t at = ((int64_t)sample * p.channels + channel) * plane + (e + i * 256 - sample * plane);
        of_x[i] = ((const vector *)p.in[K::R::GRADIENT])[at];
        if constexpr (K::R::GRADIENT)
            of_g[i] = ((const vector *)p.in[0])[at];
    }
#pragma unroll
    for (int i = 0; i < ITEMS; i++)
#pragma unroll
        for (int j = 0; j < K::V; j++) {
            T factor = K::R::GRADIENT ? gt_convert<T>::from(D::load(of_g[i].at[j])) : 0;
            sums.add(gt_convert<T>::from(D::load(of_x[i].at[j])), factor);
        }
}

template <class K> GT_F void gt_channel_planes(const gt_channels_params &p)
{
    typedef typename K::T T;
    typedef typename K::I I;
    typedef gt_vector<typename K::D::raw, K::V> vector;
    typedef typename K::D D;
    int64_t channel = blockIdx.x;
    I plane = (I)(p.inner / K::V), begin = (I)((int64_t)blockIdx.y * p.share), total = (I)(p.samples * plane);
    I end = begin + (I)p.share < total ? begin + (I)p.share : total;
    const vector *x = (const vector *)p.in[K::R::GRADIENT];
    I first = begin + threadIdx.x < end ? begin + threadIdx.x : begin, of_first = first / plane;
    typename K::R sums;
    sums.open(p, channel,
              gt_convert<T>::from(D::load(x[((int64_t)of_first * p.channels + channel) * plane + (first - of_first * plane)].at[0])),
              gt_turns(begin + threadIdx.x, end, 256) * K::V);
    I e = begin + threadIdx.x;
    for (; e + (K::ITEMS - 1) * 256 < end; e += K::ITEMS * 256)
        gt_channel_turn<K, K::ITEMS>(p, sums, channel, plane, e);
    for (; e < end; e += 256)
        gt_channel_turn<K, 1>(p, sums, channel, plane, e);
    typename K::R::S s = gt_merge_threads<typename K::R>(sums.close());
    if (threadIdx.x == 0)
        gt_channel_store<K>(p, channel, s);
}

/* Merge the states of the 8 threads of each channel; the first 32 threads have the results. */
template <class R> GT_F typename R::S gt_merge_columns(typename R::S s)
{
    __shared__ typename R::S shares[256];
    __syncthreads();
    shares[threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.x < 32)
        for (int k = 1; k < 8; k++)
            s = R::merge(s, shares[k * 32 + threadIdx.x]);
    return s;
}

template <class K> GT_F void gt_channel_columns(const gt_channels_params &p)
{
    typedef typename K::T T;
    typedef gt_vector<typename K::D::raw, K::V> vector;
    typedef typename K::D D;
    int64_t channel = ((int64_t)blockIdx.x * 32 + threadIdx.x % 32) * K::V;
    int64_t begin = (int64_t)blockIdx.y * p.share, end = begin + p.share < p.samples ? begin + p.share : p.samples;
    bool inside = channel < p.channels;
    const typename D::raw *x = (const typename D::raw *)p.in[K::R::GRADIENT], *g = (const typename D::raw *)p.in[0];
    typename K::R sums[K::V];
    int64_t first = begin + threadIdx.x / 32, from = first < end ? first : begin;
    for (int j = 0; j < K::V; j++)
        sums[j].open(p, inside ? channel + j : 0,
                     gt_convert<T>::from(D::load(x[from * p.channels + (inside ? channel + j : 0)])),
                     inside ? gt_turns(first, end, 8) : 0);
    if (inside) {
#pragma unroll 4
        for (int64_t sample = first; sample < end; sample += 8) {
            vector of_x = *(const vector *)(x + sample * p.channels + channel), of_g = of_x;
            if constexpr (K::R::GRADIENT)
                of_g = *(const vector *)(g + sample * p.channels + channel);
#pragma unroll
            for (int j = 0; j < K::V; j++)
                sums[j].add(gt_convert<T>::from(D::load(of_x.at[j])), gt_convert<T>::from(D::load(of_g.at[j])));
        }
    }
    for (int j = 0; j < K::V; j++) {
        typename K::R::S s = gt_merge_columns<typename K::R>(sums[j].close());
        if (threadIdx.x < 32 && inside)
            gt_channel_store<K>(p, channel + j, s);
    }
}

/* 32 channels a block, by 8 threads each. */
template <class K> GT_F void gt_channel_finish(const gt_channels_params &p)
{
    typedef typename K::R::S S;
    for (int64_t block = blockIdx.x; block * 32 < p.channels; block += gridDim.x) {
        int64_t channel = block * 32 + threadIdx.x % 32;
        S s = {0, 0, 0};
        if (channel < p.channels)
            for (int64_t part = threadIdx.x / 32; part < p.parts; part += 8)
                s = K::R::merge(s, ((const S *)p.partial)[part * p.channels + channel]);
        s = gt_merge_columns<typename K::R>(s);
        if (threadIdx.x < 32 && channel < p.channels)
            K::R::store(p, channel, s);
    }
}

/* ---- elementwise ---------------------------------------------------------------------------------------------- */

/* out = a g + b (x - mean) + d, of one channel; forward without a. */
template <class K> struct gt_channel {
    typedef typename K::T T;
    T mean, a, b, d;
    GT_F void open(const gt_channels_params &p, int64_t channel)
    {
        if constexpr (K::BACKWARD) {
            const T *s = (const T *)p.in[2] + channel;
            T scale = gt_inverse_deviation(s[p.channels], p.eps);
            mean = s[0];
            a = K::AFFINE ? scale * s[2 * p.channels] : scale;
            b = 0, d = 0;
            if (p.elements != 0) {
                T share = (T)(1 / p.elements);
                b = -a * scale * (s[(p.rows - 2) * p.channels] * share);
                d = -a * (s[(p.rows - 1) * p.channels] * share);
            }
        } else {
            const T *moments = (const T *)p.in[1] + channel, *affine = (const T *)p.in[2] + channel;
            mean = moments[0];
            b = gt_inverse_deviation(moments[p.channels], p.eps);
            a = 0, d = 0;
            if constexpr (K::AFFINE) {
                b *= affine[0];
                d = affine[p.channels];
            }
        }
    }
    GT_F T apply(T x, T g) const { return K::BACKWARD ? a * g + (b * (x - mean) + d) : (x - mean) * b + d; }
};

/* Vectors of neighbouring elements, which may have different channels; ITEMS for each thread. */
template <class K> GT_F void gt_channel_apply(const gt_channels_params &p)
{
    typedef typename K::T T;
    typedef typename K::I I;
    typedef typename K::D D;
    typedef gt_vector<typename D::raw, K::V> vector;
    const vector *x = (const vector *)p.in[K::BACKWARD], *g = (const vector *)p.in[0];
    int64_t first = (int64_t)blockIdx.x * 256 * K::ITEMS + threadIdx.x;
    int64_t vectors = p.samples * p.channels * p.inner / K::V;
    vector of_x[K::ITEMS], of_g[K::ITEMS];
#pragma unroll
    for (int i = 0; i < K::ITEMS; i++)
        if (first + i * 256 < vectors) {
            of_x[i] = x[first + i * 256];
            if constexpr (K::BACKWARD)
                of_g[i] = g[first + i * 256];
        }
#pragma unroll
    for (int i = 0; i < K::ITEMS; i++) {
        if (first + i * 256 >= vectors)
            break;
        I at = (I)(first + i * 256) * K::V, plane = at / (I)p.inner, left = (I)p.inner - (at - plane * (I)p.inner);
        I channel = plane % (I)p.channels;
        gt_channel<K> c;
        vector out;
        c.open(p, channel);
#pragma unroll
        for (int j = 0; j < K::V; j++) {
            if (!K::WITHIN && left == 0) {
                channel = channel + 1 == (I)p.channels ? 0 : channel + 1;
                left = (I)p.inner;
                c.open(p, channel);
            }
            left--;
            T of = K::BACKWARD ? gt_convert<T>::from(D::load(of_g[i].at[j])) : 0;
            out.at[j] = D::store(c.apply(gt_convert<T>::from(D::load(of_x[i].at[j])), of));
        }
        ((vector *)p.out)[first + i * 256] = out;
    }
}
)cuda"

R"cuda(
/* norm.cuh: layer norm and its gradients. Behind rows.cuh. */

/* ---- layer norm --------------------------------------------------------------------------------------------- */

/* The mean of a line, and 1 / sqrt(variance + eps). */
template <class K, class L> GT_F void gt_line_moments(const gt_rows_params &p, L &x, typename K::T *mean, typename K::T *scale)
{
    typedef typename K::T T;
    T sum = 0, squares = 0;
    GT_EACH_VECTOR(x, i)
    {
        T *at = x.at(i);
#pragma unroll
        for (int j = 0; j < K::V; j++)
            sum += at[j];
    }
    *mean = gt_sum_threads<K::WIDTH, T>(sum) / (T)p.n;
    GT_EACH_VECTOR(x, i)
    {
        T *at = x.at(i);
#pragma unroll
        for (int j = 0; j < K::V; j++)
            squares += (at[j] - *mean) * (at[j] - *mean);
    }
    *scale = (T)1 / gt_sqrt(gt_sum_threads<K::WIDTH, T>(squares) / (T)p.n + (T)p.eps);
}

/* x, weight, bias */
template <class K> GT_F void gt_layer_norm(const gt_rows_params &p)
{
    typedef typename K::T T;
    gt_along<K, typename K::D1, K::LITERAL1> weight;
    gt_along<K, typename K::D2, K::LITERAL2> bias;
    weight.open(p, 1);
    bias.open(p, 2);
    GT_EACH_LINE(p, number)
    {
        gt_line<K, typename K::D0> x;
        T mean, scale;
        x.open(p.in[0], number, number < p.lines ? p.n : 0, threadIdx.x % K::WIDTH);
        gt_line_moments<K>(p, x, &mean, &scale);
        GT_EACH_VECTOR(x, i)
        {
            T *at = x.at(i), w[K::V], b[K::V], y[K::V];
            weight.load(x.element(i), w);
            bias.load(x.element(i), b);
#pragma unroll
            for (int j = 0; j < K::V; j++)
                y[j] = (at[j] - mean) * scale * w[j] + b[j];
            gt_store_vector<K>(p, number, x.element(i), y);
        }
    }
}

/* Sums over the lines of a thread, in shared memory: of g times the normalised x, and of g. */
template <class K> struct gt_norm_sums {
    typedef typename K::T T;
    typedef gt_vector<T, K::V> vector;
    T *weight, *bias; /* those of its lines; where it adds, no other thread does */

    GT_F void open(const gt_rows_params &p, T *shared)
    {
        weight = shared + threadIdx.x / K::WIDTH * 2 * p.n;
        bias = weight + p.n;
        for (int64_t k = threadIdx.x; k < blockDim.x / K::WIDTH * 2 * p.n; k += blockDim.x)
            shared[k] = 0;
        __syncthreads();
    }
    GT_F static void add(T *to, const T *x)
    {
        vector sum = *(vector *)to;
#pragma unroll
        for (int j = 0; j < K::V; j++)
            sum.at[j] += x[j];
        *(vector *)to = sum;
    }
    /* A vector of each, at an element of the line. */
    GT_F void add(int64_t element, const T *gh, const T *g) const
    {
        add(weight + element, gh);
        add(bias + element, g);
    }
    GT_F void store(const gt_rows_params &p, const T *shared) const
    {
        __syncthreads();
        for (int64_t k = threadIdx.x; k < 2 * p.n; k += blockDim.x) {
            T sum = 0;
            for (int line = 0; line < blockDim.x / K::WIDTH; line++)
                sum += shared[line * 2 * p.n + k];
            ((T *)p.scratch)[blockIdx.x * 2 * p.n + k] = sum;
        }
    }
};

/* g, x, weight: the element's direct gradient, less the parts through the mean and the variance of its line. SUMS: and the gradients
 * of weight and bias, in parts. */
template <class K> GT_F void gt_layer_norm_backward(const gt_rows_params &p)
{
    typedef typename K::T T;
    GT_DYNAMIC_SHARED(T, shared);
    gt_along<K, typename K::D2, K::LITERAL2> weight;
    gt_norm_sums<K> sums;
    weight.open(p, 2);
    if constexpr (K::SUMS)
        sums.open(p, shared);
    GT_EACH_LINE(p, number)
    {
        gt_line<K, typename K::D0> g;
        gt_line<K, typename K::D1> x;
        T mean = 0, of[3] = {0, 0, 0}; /* sums: of squares of x less its mean, of g, of the product of both */
        int64_t n = number < p.lines ? p.n : 0;
        x.open(p.in[1], number, n, threadIdx.x % K::WIDTH);
        g.open(p.in[0], number, n, threadIdx.x % K::WIDTH);
        GT_EACH_VECTOR(x, i)
        {
            T *b = x.at(i);
#pragma unroll
            for (int j = 0; j < K::V; j++)
                mean += b[j];
        }
        mean = gt_sum_threads<K::WIDTH, T>(mean) / (T)p.n;
        GT_EACH_VECTOR(g, i)
        {
            T *a = g.at(i), *b = x.at(i), w[K::V];
            weight.load(g.element(i), w);
#pragma unroll
            for (int j = 0; j < K::V; j++) {
                T gw = a[j] * w[j], h = b[j] - mean;
                of[0] += h * h;
                of[1] += gw;
                of[2] += gw * h;
            }
        }
        gt_sum_together<K::WIDTH, 3, T>(of);
        T scale = (T)1 / gt_sqrt(of[0] / (T)p.n + (T)p.eps), sum = of[1] / (T)p.n, product = of[2] * scale / (T)p.n;
        GT_EACH_VECTOR(g, i)
        {
            T *a = g.at(i), *b = x.at(i), w[K::V], d[K::V], gh[K::V];
            weight.load(g.element(i), w);
#pragma unroll
            for (int j = 0; j < K::V; j++) {
                T h = (b[j] - mean) * scale;
                d[j] = (a[j] * w[j] - sum - h * product) * scale;
                gh[j] = a[j] * h;
            }
            gt_store_vector<K>(p, number, g.element(i), d);
            if constexpr (K::SUMS)
                sums.add(g.element(i), gh, a);
        }
    }
    if constexpr (K::SUMS)
        sums.store(p, shared);
}

/* x is operand 1: mean and scale of each line, for the next kernel. */
template <class K> GT_F void gt_layer_norm_moments(const gt_rows_params &p)
{
    typedef typename K::T T;
    GT_EACH_LINE(p, number)
    {
        gt_line<K, typename K::D1> x;
        T mean, scale;
        x.open(p.in[1], number, number < p.lines ? p.n : 0, threadIdx.x % K::WIDTH);
        gt_line_moments<K>(p, x, &mean, &scale);
        if (threadIdx.x % K::WIDTH == 0 && number < p.lines) {
            ((T *)p.scratch)[2 * number] = mean;
            ((T *)p.scratch)[2 * number + 1] = scale;
        }
    }
}

/* The sum over the 8 threads of each column; those of the first 32 threads have the results. */
template <class T> GT_F T gt_sum_shares(T sum)
{
    __shared__ T shares[256];
    __syncthreads();
    shares[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x < 32)
        for (int k = 1; k < 8; k++)
            sum += shares[k * 32 + threadIdx.x];
    return sum;
}

/* Sums over the lines of a part of g times the normalised x, for 32 V positions a block, by 8 threads each. */
template <class K> GT_F void gt_layer_norm_columns(const gt_rows_params &p)
{
    typedef typename K::T T;
    typedef typename K::D0 D0;
    typedef typename K::D1 D1;
    const gt_vector<T, 2> *moments = (const gt_vector<T, 2> *)p.scratch;
    T *sums = (T *)p.scratch + 2 * p.lines, sum[K::V];
    int64_t column = ((int64_t)blockIdx.x * 32 + threadIdx.x % 32) * K::V;
    int64_t begin = (int64_t)blockIdx.y * p.share, end = begin + p.share < p.lines ? begin + p.share : p.lines;
#pragma unroll
    for (int j = 0; j < K::V; j++)
        sum[j] = 0;
    if (column < p.n) {
#pragma unroll 4
        for (int64_t line = begin + threadIdx.x / 32; line < end; line += 8) {
            typedef gt_vector<typename D0::raw, K::V> vector_g;
            typedef gt_vector<typename D1::raw, K::V> vector_x;
            vector_g g = *(const vector_g *)((const typename D0::raw *)p.in[0] + line * p.n + column);
            vector_x x = *(const vector_x *)((const typename D1::raw *)p.in[1] + line * p.n + column);
            gt_vector<T, 2> of = moments[line];
#pragma unroll
            for (int j = 0; j < K::V; j++)
                sum[j] += gt_convert<T>::from(D0::load(g.at[j])) *
                          ((gt_convert<T>::from(D1::load(x.at[j])) - of.at[0]) * of.at[1]);
        }
    }
#pragma unroll
    for (int j = 0; j < K::V; j++) {
        sum[j] = gt_sum_shares<T>(sum[j]);
        if (threadIdx.x < 32 && column < p.n)
            sums[(int64_t)blockIdx.y * p.n + column + j] = sum[j];
    }
}

/* The parts of gt_norm_sums together: p.out is the gradient of the weight, p.also that of the bias, or NULL. As gt_layer_norm_finish. */
template <class K> GT_F void gt_layer_norm_sums_finish(const gt_rows_params &p)
{
    typedef typename K::T T;
    typedef typename K::DO::raw raw;
    int64_t columns = p.also ? 2 * p.n : p.n;
    for (int64_t block = blockIdx.x; block * 32 < columns; block += gridDim.x) {
        int64_t column = block * 32 + threadIdx.x % 32;
        T sum = 0;
        if (column < columns) {
#pragma unroll 4
            for (int64_t part = threadIdx.x / 32; part < p.parts; part += 8)
                sum += ((const T *)p.scratch)[part * 2 * p.n + column];
        }
        sum = gt_sum_shares<T>(sum);
        if (threadIdx.x < 32 && column < columns)
            (column < p.n ? (raw *)p.out : (raw *)p.also - p.n)[column] = K::DO::store(sum);
    }
}

/* 32 positions a block, by 8 threads each. */
template <class K> GT_F void gt_layer_norm_finish(const gt_rows_params &p)
{
    typedef typename K::T T;
    const T *sums = (const T *)p.scratch + 2 * p.lines;
    for (int64_t block = blockIdx.x; block * 32 < p.n; block += gridDim.x) {
        int64_t column = block * 32 + threadIdx.x % 32;
        T sum = 0;
        if (column < p.n) {
#pragma unroll 4
            for (int64_t part = threadIdx.x / 32; part < p.parts; part += 8)
                sum += sums[part * p.n + column];
        }
        sum = gt_sum_shares<T>(sum);
        if (threadIdx.x < 32 && column < p.n)
            ((typename K::DO::raw *)p.out)[column] = K::DO::store(sum);
    }
}
)cuda"

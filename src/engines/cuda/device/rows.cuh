R"cuda(
/*
 * rows.cuh: softmax, layer norm and their gradients: operations on lines of n neighbouring elements. Each line is read once
 * into registers where it fits: by a warp, or by a block of WIDTH threads, ITEMS vectors of V elements a thread. Longer lines
 * (ITEMS is 0) are read once into shared memory where one of them fits and is enough (softmax and log_softmax, and the
 * gradient of log_softmax), and else read again for each pass.
 */

struct gt_rows_params {
    void *out;
    const void *in[3];
    void *scratch;        /* layer_norm_backward_weight: mean and scale of each line; then sums (parts, n). SUMS: sums
                           * of each block (blocks, 2, n). KEPT: the maximum of each line, and the logarithm of its sum of exponentials */
    uint64_t value[3];    /* literal operands: a T */
    int64_t lines, n;
    int64_t inner;        /* softmax along another axis than the last: lines that lie side by side */
    int64_t parts, share; /* layer_norm_backward_weight: lines to a part */
    void *also;           /* layer_norm_sums_finish: a second result */
    double eps;
    gt_errors *errors;
};

/* ---- sums over the threads of a line ------------------------------------------------------------------------ */

struct gt_plus {
    template <class T> GT_F static T apply(T a, T b) { return a + b; }
};
struct gt_larger {
    template <class T> GT_F static T apply(T a, T b) { return gt_maximum<T>(a, b); }
};

/* All threads of the line get the result. */
template <class F, int WIDTH, class T> GT_F T gt_combine(T x, T nothing)
{
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2)
        x = F::apply(x, gt_shuffle_xor(x, mask));
    if constexpr (WIDTH > 32) {
        __shared__ T warps[32];
        __syncthreads();
        if (threadIdx.x % 32 == 0)
            warps[threadIdx.x / 32] = x;
        __syncthreads();
        x = threadIdx.x % 32 < WIDTH / 32 ? warps[threadIdx.x % 32] : nothing;
#pragma unroll
        for (int mask = 16; mask > 0; mask /= 2)
            x = F::apply(x, gt_shuffle_xor(x, mask));
    }
    return x;
}

/* Sums of COUNT numbers at once. */
template <int WIDTH, int COUNT, class T> GT_F void gt_sum_together(T *x)
{
    __shared__ T warps[COUNT][32];
#pragma unroll
    for (int k = 0; k < COUNT; k++)
#pragma unroll
        for (int mask = 16; mask > 0; mask /= 2)
            x[k] += gt_shuffle_xor(x[k], mask);
    if constexpr (WIDTH > 32) {
        __syncthreads();
        if (threadIdx.x % 32 == 0) {
#pragma unroll
            for (int k = 0; k < COUNT; k++)
                warps[k][threadIdx.x / 32] = x[k];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < COUNT; k++) {
            x[k] = threadIdx.x % 32 < WIDTH / 32 ? warps[k][threadIdx.x % 32] : (T)0;
#pragma unroll
            for (int mask = 16; mask > 0; mask /= 2)
                x[k] += gt_shuffle_xor(x[k], mask);
        }
    }
}

template <int WIDTH, class T> GT_F T gt_sum_threads(T x) { return gt_combine<gt_plus, WIDTH, T>(x, 0); }

/* ---- a line, as one thread sees it -------------------------------------------------------------------------- */

template <class K, class D> struct gt_line {
    typedef typename K::T T;
    typedef typename D::raw raw;
    enum { V = K::V, STEP = K::WIDTH * K::V };
    const raw *from;
    int64_t n;
    int lane;
    T room[(K::ITEMS ? K::ITEMS : 1) * K::V];

    GT_F int steps() const { return K::ITEMS ? K::ITEMS : (int)((n + STEP - 1) / STEP); }
    GT_F int64_t element(int i) const { return (int64_t)i * STEP + lane * V; }
    GT_F bool has(int i) const { return element(i) < n; }
    GT_F void load(int i, T *to) const
    {
        gt_vector<raw, V> v = *(const gt_vector<raw, V> *)(from + element(i));
#pragma unroll
        for (int j = 0; j < V; j++)
            to[j] = gt_convert<T>::from(D::load(v.at[j]));
    }
    GT_F void open(const void *in, int64_t line, int64_t size, int thread)
    {
        n = size;
        lane = thread;
        from = (const raw *)in + line * size;
        if constexpr (K::ITEMS > 0) {
#pragma unroll
            for (int i = 0; i < K::ITEMS; i++)
                if (has(i))
                    load(i, room + i * V);
        }
    }
    /* Vector i: call for every i in turn, only where has(i). */
    GT_F T *at(int i)
    {
        if constexpr (K::ITEMS > 0)
            return room + i * V;
        load(i, room);
        return room;
    }
};

/* A weight or bias: of the line's positions, or one number. */
template <class K, class D, bool LITERAL> struct gt_along {
    typedef typename K::T T;
    const void *from;
    T one;
    GT_F void open(const gt_rows_params &p, int k)
    {
        from = p.in[k];
        if constexpr (LITERAL)
            one = *(const T *)&p.value[k];
    }
    GT_F void load(int64_t element, T *to) const
    {
        if constexpr (LITERAL) {
#pragma unroll
            for (int j = 0; j < K::V; j++)
                to[j] = one;
        } else {
            typedef typename D::raw raw;
            gt_vector<raw, K::V> v = *(const gt_vector<raw, K::V> *)((const raw *)from + element);
#pragma unroll
            for (int j = 0; j < K::V; j++)
                to[j] = gt_convert<T>::from(D::load(v.at[j]));
        }
    }
};

template <class K> GT_F void gt_store_vector(const gt_rows_params &p, int64_t line, int64_t element, const typename K::T *y)
{
    typedef typename K::DO::raw raw;
    gt_vector<raw, K::V> v;
#pragma unroll
    for (int j = 0; j < K::V; j++)
        v.at[j] = K::DO::store(y[j]);
    *(gt_vector<raw, K::V> *)((raw *)p.out + line * p.n + element) = v;
}

#define GT_EACH_VECTOR(line, i) _Pragma("unroll") for (int i = 0; i < line.steps(); i++) if (line.has(i))

/* Lines first, first + step, ... belong to this thread; all threads of a block take part in each turn. */
#define GT_EACH_LINE(p, line)                                                                                     \
    for (int64_t turn = blockIdx.x, line = turn * (blockDim.x / K::WIDTH) + threadIdx.x / K::WIDTH;               \
         turn * (blockDim.x / K::WIDTH) < p.lines;                                                                \
         turn += gridDim.x, line = turn * (blockDim.x / K::WIDTH) + threadIdx.x / K::WIDTH)

/* ---- softmax ------------------------------------------------------------------------------------------------ */

template <class K> GT_F void gt_softmax(const gt_rows_params &p)
{
    typedef typename K::T T;
    GT_EACH_LINE(p, number)
    {
        gt_line<K, typename K::D0> x;
        x.open(p.in[0], number, number < p.lines ? p.n : 0, threadIdx.x % K::WIDTH);
        T most = gt_traits<T>::least(), sum = 0;
        GT_EACH_VECTOR(x, i)
        {
            T *at = x.at(i);
#pragma unroll
            for (int j = 0; j < K::V; j++)
                most = gt_maximum<T>(most, at[j]);
        }
        most = gt_combine<gt_larger, K::WIDTH, T>(most, gt_traits<T>::least());
        GT_EACH_VECTOR(x, i)
        {
            T *at = x.at(i);
#pragma unroll
            for (int j = 0; j < K::V; j++) {
                T e = gt_exp(at[j] - most);
                sum += e;
                if (K::ITEMS > 0 && !K::LOGARITHM)
                    at[j] = e;
            }
        }
        sum = gt_sum_threads<K::WIDTH, T>(sum);
        T scale = K::LOGARITHM ? gt_log(sum) : (T)1 / sum;
        GT_EACH_VECTOR(x, i)
        {
            T *at = x.at(i), y[K::V];
#pragma unroll
            for (int j = 0; j < K::V; j++)
                y[j] = K::LOGARITHM ? at[j] - most - scale : (K::ITEMS > 0 ? at[j] : gt_exp(at[j] - most)) * scale;
            gt_store_vector<K>(p, number, x.element(i), y);
        }
    }
}

/* Elements of log_softmax from those of its operand, if two numbers of each line were KEPT; else they are what was read. */
template <class K> struct gt_kept_moments {
    typedef typename K::T T;
    T most, scale;
    GT_F gt_kept_moments(const gt_rows_params &p, int64_t line)
    {
        if constexpr (K::KEPT) {
            most = line < p.lines ? ((const T *)p.scratch)[2 * line] : (T)0;
            scale = line < p.lines ? ((const T *)p.scratch)[2 * line + 1] : (T)0;
        }
    }
    GT_F T of(T x) const
    {
        if constexpr (K::KEPT)
            return x - most - scale;
        return x;
    }
};

/* g, y: y (g - sum of g y), or g - exp(y) times the sum of g. */
template <class K> GT_F void gt_softmax_backward(const gt_rows_params &p)
{
    typedef typename K::T T;
    GT_EACH_LINE(p, number)
    {
        gt_line<K, typename K::D0> g;
        gt_line<K, typename K::D1> y;
        int64_t n = number < p.lines ? p.n : 0;
        g.open(p.in[0], number, n, threadIdx.x % K::WIDTH);
        y.open(p.in[1], number, n, threadIdx.x % K::WIDTH);
        gt_kept_moments<K> kept(p, number);
        T sum = 0;
        GT_EACH_VECTOR(g, i)
        {
            T *a = g.at(i), *b = y.at(i);
#pragma unroll
            for (int j = 0; j < K::V; j++)
                sum += K::LOGARITHM ? a[j] : a[j] * b[j];
        }
        sum = gt_sum_threads<K::WIDTH, T>(sum);
        GT_EACH_VECTOR(g, i)
        {
            T *a = g.at(i), *b = y.at(i), d[K::V];
#pragma unroll
            for (int j = 0; j < K::V; j++)
                d[j] = K::LOGARITHM ? a[j] - gt_exp(kept.of(b[j])) * sum : b[j] * (a[j] - sum);
            gt_store_vector<K>(p, number, g.element(i), d);
        }
    }
}

/* g[line * share], y, position[line]: the same for log_softmax, of a gradient that is g at that position and else 0. inner: the
 * number of the axis. */
template <class K> GT_F void gt_log_softmax_sparse_backward(const gt_rows_params &p)
{
    typedef typename K::T T;
    GT_EACH_LINE(p, number)
    {
        gt_line<K, typename K::D1> y;
        int64_t n = number < p.lines ? p.n : 0, position = -1;
        T sum = 0;
        gt_kept_moments<K> kept(p, number);
        y.open(p.in[1], number, n, threadIdx.x % K::WIDTH);
        if (n > 0) {
            position = ((const int64_t *)p.in[2])[number];
            sum = gt_convert<T>::from(K::D0::load(((const typename K::D0::raw *)p.in[0])[number * p.share]));
            if (position < 0 || position >= n) {
                gt_report(p.errors, 2, position, p.inner, n);
                position = -1;
                sum = 0;
            }
        }
        GT_EACH_VECTOR(y, i)
        {
            T *b = y.at(i), d[K::V];
#pragma unroll
            for (int j = 0; j < K::V; j++) {
                T a = y.element(i) + j == position ? sum : (T)0;
                d[j] = a - gt_exp(kept.of(b[j])) * sum;
            }
            gt_store_vector<K>(p, number, y.element(i), d);
        }
    }
}

/* This thread's vectors of a line, in shared memory as they are in memory: those at element threadIdx.x * V and every STEP further.
 * They come in groups, of which up to DEPTH are on their way while the thread computes. No other thread reads them, so no
 * thread waits for another. */
template <class K, class D> struct gt_kept_line {
    typedef typename K::T T;
    typedef typename D::raw raw;
    enum { V = K::V, STEP = K::WIDTH * V, GROUP = 2, DEPTH = 4 };
    raw *kept;
    int64_t n;
    int groups;

    GT_F void open(raw *room, int64_t size)
    {
        kept = room;
        n = size;
        groups = (int)((n - (int64_t)threadIdx.x * V + GROUP * STEP - 1) / (GROUP * STEP));
        groups = groups < 0 ? 0 : groups;
    }
    GT_F int64_t element(int group, int u) const { return (int64_t)(group * GROUP + u) * STEP + threadIdx.x * V; }
    GT_F bool has(int group, int u) const { return element(group, u) < n; }
    /* Begin to copy a group, if the line has it; `line` is NULL: there is no such line. */
    GT_F void copy(const raw *line, int group) const
    {
#pragma unroll
        for (int u = 0; u < GROUP; u++) {
            int64_t at = element(group, u);
            if (!line || at >= n)
                continue;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
            if constexpr (V * sizeof(raw) % 16 == 0) {
#pragma unroll
                for (int piece = 0; piece < (int)(V * sizeof(raw) / 16); piece++)
                    gt_copy_begin<16>((char *)(kept + at) + 16 * piece, (const char *)(line + at) + 16 * piece, true);
                continue;
            }
#endif
#pragma unroll
            for (int j = 0; j < V; j++)
                kept[at + j] = line[at + j];
        }
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
        gt_copy_commit();
#endif
    }
    GT_F void begin(const raw *line) const
    {
#pragma unroll
        for (int group = 0; group < DEPTH; group++)
            copy(line, group);
    }
    /* A group is there; the DEPTH - 1 after it may be on their way. */
    GT_F void wait() const
    {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
        gt_copy_wait<DEPTH - 1>();
#endif
    }
    GT_F void get(int group, int u, T *to) const
    {
        gt_vector<raw, V> v = *(const gt_vector<raw, V> *)(kept + element(group, u));
#pragma unroll
        for (int j = 0; j < V; j++)
            to[j] = gt_convert<T>::from(D::load(v.at[j]));
    }
    /* The place of a group is free: the next line's first groups begin to come. After all groups of a line, `end`. */
    GT_F void free(const raw *next, int group) const
    {
        if (group < DEPTH)
            copy(next, group);
    }
    GT_F void end() const
    {
        for (int group = groups; group < DEPTH; group++)
            copy(nullptr, group);
    }
};

/* The maximum so far, and the sum of exponentials relative to it, for COUNT more elements. */
template <int COUNT, class T> GT_F void gt_softmax_more(T *most, T *sum, const T *x)
{
    T largest = *most;
#pragma unroll
    for (int j = 0; j < COUNT; j++)
        largest = gt_maximum<T>(largest, x[j]);
    T base = largest == gt_traits<T>::least() ? (T)0 : largest;
    if (largest != *most)
        *sum *= gt_exp(*most - base);
#pragma unroll
    for (int j = 0; j < COUNT; j++)
        *sum += gt_exp(x[j] - base);
    *most = largest;
}

/* Keep the maximum of each line and the logarithm of its sum of exponentials, in float32. A thread reads AHEAD vectors before it uses
 * the first of them. A NaN makes the sum one. */
template <class K> GT_F void gt_log_softmax_moments(const gt_rows_params &p)
{
    typedef typename K::D0 D;
    typedef gt_vector<typename D::raw, K::V> vector;
    enum { STEP = K::WIDTH * K::V, AHEAD = 4 };
    const float least = gt_traits<float>::least();
    GT_EACH_LINE(p, number)
    {
        const typename D::raw *from = (const typename D::raw *)p.in[0] + number * p.n;
        int64_t n = number < p.lines ? p.n : 0;
        float most = least, sum = 0;
        for (int64_t at = threadIdx.x % K::WIDTH * K::V; at < n; at += AHEAD * STEP) {
            vector v[AHEAD];
            float largest = most;
#pragma unroll
            for (int u = 0; u < AHEAD; u++)
                if (at + u * STEP < n)
                    v[u] = *(const vector *)(from + at + u * STEP);
#pragma unroll
            for (int u = 0; u < AHEAD; u++)
                if (at + u * STEP < n) {
#pragma unroll
                    for (int j = 0; j < K::V; j++)
                        largest = fmaxf(largest, (float)D::load(v[u].at[j]));
                }
            float base = largest == least ? 0.0f : largest;
            sum *= gt_exp2_fast((most - base) * GT_LOG2_E);
#pragma unroll
            for (int u = 0; u < AHEAD; u++)
                if (at + u * STEP < n) {
#pragma unroll
                    for (int j = 0; j < K::V; j++)
                        sum += gt_exp2_fast(((float)D::load(v[u].at[j]) - base) * GT_LOG2_E);
                }
            most = largest;
        }
        float total = gt_combine<gt_larger, K::WIDTH, float>(most, least);
        sum = gt_sum_threads<K::WIDTH, float>(sum == 0 ? 0.0f : sum * gt_exp2_fast((most - total) * GT_LOG2_E));
        if (threadIdx.x % K::WIDTH == 0 && number < p.lines) {
            ((float *)p.scratch)[2 * number] = total;
            ((float *)p.scratch)[2 * number + 1] = gt_log(sum);
        }
    }
}

/* x, -, position[line]: one element of each line, of log_softmax. */
template <class K> GT_F void gt_log_softmax_pick(const gt_rows_params &p)
{
    typedef typename K::T T;
    for (int64_t line = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; line < p.lines;
         line += (int64_t)gridDim.x * blockDim.x) {
        int64_t position = ((const int64_t *)p.in[2])[line];
        if (position < 0 || position >= p.n) {
            gt_report(p.errors, 2, position, p.inner, p.n);
            continue;
        }
        gt_kept_moments<K> kept(p, line);
        T x = gt_convert<T>::from(K::D0::load(((const typename K::D0::raw *)p.in[0])[line * p.n + position]));
        ((typename K::DO::raw *)p.out)[line] = K::DO::store(kept.of(x));
    }
}

/* Lines in shared memory, by whole blocks. The next line begins to come while a line is stored. */
template <class K> GT_F void gt_softmax_long(const gt_rows_params &p)
{
    typedef typename K::T T;
    typedef typename K::D0::raw raw;
    typedef gt_kept_line<K, typename K::D0> kept_line;
    GT_DYNAMIC_SHARED(raw, room);
    kept_line x;
    x.open(room, p.n);
    x.begin(blockIdx.x < p.lines ? (const raw *)p.in[0] + blockIdx.x * p.n : nullptr);
    for (int64_t line = blockIdx.x; line < p.lines; line += gridDim.x) {
        const raw *from = (const raw *)p.in[0] + line * p.n;
        const raw *next = line + gridDim.x < p.lines ? from + gridDim.x * p.n : nullptr;
        T most = gt_traits<T>::least(), sum = 0;
        for (int group = 0; group < x.groups; group++) {
            T some[kept_line::GROUP * K::V];
            x.wait();
#pragma unroll
            for (int u = 0; u < kept_line::GROUP; u++) {
                if (x.has(group, u))
                    x.get(group, u, some + u * K::V);
                else {
#pragma unroll
                    for (int j = 0; j < K::V; j++)
                        some[u * K::V + j] = gt_traits<T>::least();
                }
            }
            x.copy(from, group + kept_line::DEPTH);
            gt_softmax_more<kept_line::GROUP * K::V, T>(&most, &sum, some);
        }
        T total = gt_combine<gt_larger, K::WIDTH, T>(most, gt_traits<T>::least());
        sum = gt_sum_threads<K::WIDTH, T>(sum == 0 ? (T)0 : sum * gt_exp(most - total));
        T scale = K::LOGARITHM ? gt_log(sum) : (T)1 / sum;
        for (int group = 0; group < x.groups; group++) {
#pragma unroll
            for (int u = 0; u < kept_line::GROUP; u++)
                if (x.has(group, u)) {
                    T y[K::V];
                    x.get(group, u, y);
#pragma unroll
                    for (int j = 0; j < K::V; j++)
                        y[j] = K::LOGARITHM ? y[j] - total - scale : gt_exp(y[j] - total) * scale;
                    gt_store_vector<K>(p, line, x.element(group, u), y);
                }
            x.free(next, group);
        }
        x.end();
    }
}

/* Of log_softmax, where the sum is one of g alone: g is kept, and y is read a group ahead. */
template <class K> GT_F void gt_softmax_backward_long(const gt_rows_params &p)
{
    typedef typename K::T T;
    typedef typename K::D0::raw raw;
    typedef typename K::D1 D1;
    typedef gt_kept_line<K, typename K::D0> kept_line;
    typedef gt_vector<typename D1::raw, K::V> vector_y;
    GT_DYNAMIC_SHARED(raw, room);
    kept_line g;
    g.open(room, p.n);
    g.begin(blockIdx.x < p.lines ? (const raw *)p.in[0] + blockIdx.x * p.n : nullptr);
    for (int64_t line = blockIdx.x; line < p.lines; line += gridDim.x) {
        const raw *from = (const raw *)p.in[0] + line * p.n;
        const raw *next = line + gridDim.x < p.lines ? from + gridDim.x * p.n : nullptr;
        const typename D1::raw *from_y = (const typename D1::raw *)p.in[1] + line * p.n;
        vector_y y[kept_line::GROUP], ahead[kept_line::GROUP];
        T sum = 0;
        for (int group = 0; group < g.groups; group++) {
            g.wait();
#pragma unroll
            for (int u = 0; u < kept_line::GROUP; u++)
                if (g.has(group, u)) {
                    T a[K::V];
                    g.get(group, u, a);
#pragma unroll
                    for (int j = 0; j < K::V; j++)
                        sum += a[j];
                }
            g.copy(from, group + kept_line::DEPTH);
        }
#pragma unroll
        for (int u = 0; u < kept_line::GROUP; u++)
            if (g.has(0, u))
                y[u] = *(const vector_y *)(from_y + g.element(0, u));
        sum = gt_sum_threads<K::WIDTH, T>(sum);
        for (int group = 0; group < g.groups; group++) {
#pragma unroll
            for (int u = 0; u < kept_line::GROUP; u++)
                if (g.has(group + 1, u))
                    ahead[u] = *(const vector_y *)(from_y + g.element(group + 1, u));
#pragma unroll
            for (int u = 0; u < kept_line::GROUP; u++)
                if (g.has(group, u)) {
                    T a[K::V];
                    g.get(group, u, a);
#pragma unroll
                    for (int j = 0; j < K::V; j++)
                        a[j] -= gt_exp(gt_convert<T>::from(D1::load(y[u].at[j]))) * sum;
                    gt_store_vector<K>(p, line, g.element(group, u), a);
                }
            g.free(next, group);
#pragma unroll
            for (int u = 0; u < kept_line::GROUP; u++)
                y[u] = ahead[u];
        }
        g.end();
    }
}

/* One thread a line; neighbouring threads have neighbouring lines. Not K::WIDTH, V, ITEMS. */
template <class K> GT_F void gt_softmax_across(const gt_rows_params &p)
{
    typedef typename K::T T;
    typedef typename K::D0 D0;
    typedef typename K::D1 D1;
    typedef typename K::DO DO;
    for (int64_t line = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; line < p.lines;
         line += (int64_t)gridDim.x * blockDim.x) {
        int64_t first = line / p.inner * p.n * p.inner + line % p.inner;
        const typename D0::raw *x = (const typename D0::raw *)p.in[0] + first;
        const typename D1::raw *y = (const typename D1::raw *)p.in[1] + first;
        typename DO::raw *out = (typename DO::raw *)p.out + first;
        T most = gt_traits<T>::least(), sum = 0;
        if constexpr (K::BACKWARD) {
            for (int64_t k = 0; k < p.n; k++) {
                T g = gt_convert<T>::from(D0::load(x[k * p.inner]));
                sum += K::LOGARITHM ? g : g * gt_convert<T>::from(D1::load(y[k * p.inner]));
            }
            for (int64_t k = 0; k < p.n; k++) {
                T g = gt_convert<T>::from(D0::load(x[k * p.inner])), r = gt_convert<T>::from(D1::load(y[k * p.inner]));
                out[k * p.inner] = DO::store(K::LOGARITHM ? g - gt_exp(r) * sum : r * (g - sum));
            }
        } else {
            for (int64_t k = 0; k < p.n; k++)
                most = gt_maximum<T>(most, gt_convert<T>::from(D0::load(x[k * p.inner])));
            for (int64_t k = 0; k < p.n; k++)
                sum += gt_exp(gt_convert<T>::from(D0::load(x[k * p.inner])) - most);
            T scale = K::LOGARITHM ? gt_log(sum) : (T)1 / sum;
            for (int64_t k = 0; k < p.n; k++) {
                T a = gt_convert<T>::from(D0::load(x[k * p.inner])) - most;
                out[k * p.inner] = DO::store(K::LOGARITHM ? a - scale : gt_exp(a) * scale);
            }
        }
    }
}
)cuda"

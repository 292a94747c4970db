R"cuda(
/*
 * attention.cuh: attention without the matrix of all scores; core/attention.h says what is computed. A block has B queries (or,
 * for the gradients of keys and values, B keys) and walks over tiles of B keys (queries). 16 x 16 threads; each has B / 16 rows
 * of its tile and every 16th column.
 *
 *   forward   softmax(q k' scale) v by the online softmax
 *   moments   of each query: the logarithm of its sum of exponentials, and the product of g with its result
 *   queries   the gradients of q: S k scale with S = P (g v' - that product), P the weights
 *   keys      the gradients of k and v: S' q scale and P' g
 */

struct gt_attention_params {
    void *out;
    const void *q, *k, *v;
    void *moments; /* (batches, queries, 2) of T */
    int64_t batches, queries, keys, width, value_width;
    int64_t q_row;  /* elements in a row of q: width, and with g behind it width + value_width */
    int64_t result; /* elements of a batch's result */
    int64_t period;
    double scale;
    /* For tensor cores, of q, k, v and g in elements: from row to row, from batch to batch, and after `inner` batches. */
    int64_t row[4], step[4], leap[4];
    int64_t inner;
    const void *kept; /* delta: the result of attention */
    const void *g;    /* gradients for tensor cores: behind q in its rows, or elsewhere */
    int64_t out_at[3], out_row, out_step, out_leap; /* tensor cores: of the result, or the gradients of q, k and v */
};

/* A tile of B rows of `columns` elements in shared memory, each row one element longer so that columns are in different
 * banks; rows from `last` on are 0. */
template <class T, class D, int B>
GT_F void gt_load_tile(T *tile, const typename D::raw *from, int64_t first, int64_t last, int columns, int64_t row)
{
    for (int at = threadIdx.x; at < B * columns; at += 256) {
        int r = at / columns, c = at - r * columns;
        tile[r * (columns + 1) + c] = first + r < last ? gt_convert<T>::from(D::load(from[(first + r) * row + c])) : (T)0;
    }
}

GT_F int64_t gt_seen(const gt_attention_params &p, int64_t i)
{
    return p.period && i % p.period < p.keys ? i % p.period + 1 : p.keys;
}

/* The keys that some query of first <= i < last sees. */
GT_F int64_t gt_seen_by_tile(const gt_attention_params &p, int64_t first, int64_t last)
{
    if (!p.period || first / p.period != (last - 1) / p.period)
        return p.keys < p.period || !p.period ? p.keys : p.period;
    return gt_seen(p, last - 1);
}

/* The sum over the 16 threads of a row. */
template <class F, class T> GT_F T gt_combine_row(T x)
{
#pragma unroll
    for (int mask = 8; mask > 0; mask /= 2)
        x = F::apply(x, gt_shuffle_xor(x, mask));
    return x;
}

struct gt_attention_plus {
    template <class T> GT_F static T apply(T a, T b) { return a + b; }
};
struct gt_attention_larger {
    template <class T> GT_F static T apply(T a, T b) { return gt_maximum<T>(a, b); }
};

/* product[i][j] = row ty R + i of a times row tx + 16 j of b */
template <int R, class T> GT_F void gt_tile_product(const T *a, const T *b, int columns, T product[R][R])
{
    int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int j = 0; j < R; j++)
            product[i][j] = 0;
    for (int e = 0; e < columns; e++) {
        T x[R], y[R];
#pragma unroll
        for (int i = 0; i < R; i++)
            x[i] = a[(ty * R + i) * (columns + 1) + e];
#pragma unroll
        for (int j = 0; j < R; j++)
            y[j] = b[(tx + 16 * j) * (columns + 1) + e];
#pragma unroll
        for (int i = 0; i < R; i++)
#pragma unroll
            for (int j = 0; j < R; j++)
                product[i][j] += x[i] * y[j];
    }
}

/* sum[i][c] += row ty R + i of a (B x B; or, TURNED, that column) times column tx + 16 c of b */
template <int R, int C, int B, bool TURNED, class T>
GT_F void gt_tile_add(const T *a, const T *b, int columns, T sum[R][C])
{
    int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
    for (int k = 0; k < B; k++) {
        T x[R];
#pragma unroll
        for (int i = 0; i < R; i++)
            x[i] = TURNED ? a[k * (B + 1) + ty * R + i] : a[(ty * R + i) * (B + 1) + k];
#pragma unroll
        for (int c = 0; c < C; c++) {
            if (tx + 16 * c < columns) {
                T y = b[k * (columns + 1) + tx + 16 * c];
#pragma unroll
                for (int i = 0; i < R; i++)
                    sum[i][c] += x[i] * y;
            }
        }
    }
}

template <int R, int B, class T> GT_F void gt_store_tile(T *tile, const T value[R][R])
{
    int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int j = 0; j < R; j++)
            tile[(ty * R + i) * (B + 1) + tx + 16 * j] = value[i][j];
}

/* Rows first + ty R + i of the result, as far as there are rows. */
template <int R, int C, class DO, class T>
GT_F void gt_store_rows(typename DO::raw *out, int64_t first, int64_t last, int columns, const T sum[R][C])
{
    int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int c = 0; c < C; c++)
            if (first + ty * R + i < last && tx + 16 * c < columns)
                out[(first + ty * R + i) * columns + tx + 16 * c] = DO::store(sum[i][c]);
}

template <class T, int R, int C> GT_F void gt_clear(T x[R][C])
{
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int c = 0; c < C; c++)
            x[i][c] = 0;
}

template <class K> GT_F void gt_attention_forward(const gt_attention_params &p)
{
    typedef typename K::T T;
    enum { B = K::B, R = B / 16, FC = K::FC };
    GT_DYNAMIC_SHARED(T, shared);
    int E = (int)p.width, F = (int)p.value_width, ty = threadIdx.x / 16, tx = threadIdx.x % 16;
    T *q = shared, *k = q + B * (E + 1), *v = k + B * (E + 1), *weight = v + B * (F + 1);
    int64_t tiles = (p.queries + B - 1) / B;
    for (int64_t work = blockIdx.x; work < tiles * p.batches; work += gridDim.x) {
        int64_t batch = work / tiles, first = (tiles - 1 - work % tiles) * B; /* the longest first */
        int64_t last = first + B < p.queries ? first + B : p.queries, seen_most = gt_seen_by_tile(p, first, last);
        const typename K::D0::raw *from_q = (const typename K::D0::raw *)p.q + batch * p.queries * p.q_row;
        T most[R], sum[R], result[R][FC];
        int64_t seen[R];
        gt_clear<T, R, FC>(result);
#pragma unroll
        for (int i = 0; i < R; i++) {
            most[i] = gt_traits<T>::least();
            sum[i] = 0;
            seen[i] = gt_seen(p, first + ty * R + i);
        }
        __syncthreads();
        gt_load_tile<T, typename K::D0, B>(q, from_q, first, p.queries, E, p.q_row);
        for (int64_t key = 0; key < seen_most; key += B) {
            __syncthreads();
            gt_load_tile<T, typename K::D1, B>(k, (const typename K::D1::raw *)p.k + batch * p.keys * E, key, p.keys, E, E);
            gt_load_tile<T, typename K::D2, B>(v, (const typename K::D2::raw *)p.v + batch * p.keys * F, key, p.keys, F, F);
            __syncthreads();
            T score[R][R];
            gt_tile_product<R, T>(q, k, E, score);
#pragma unroll
            for (int i = 0; i < R; i++) {
                T largest = most[i], share = 0;
#pragma unroll
                for (int j = 0; j < R; j++) {
                    score[i][j] = key + tx + 16 * j < seen[i] ? score[i][j] * (T)p.scale : gt_traits<T>::least();
                    largest = gt_maximum<T>(largest, score[i][j]);
                }
                largest = gt_combine_row<gt_attention_larger, T>(largest);
                T base = largest == gt_traits<T>::least() ? (T)0 : largest; /* nothing is seen yet */
                T shrink = gt_exp(most[i] - base);
#pragma unroll
                for (int j = 0; j < R; j++) {
                    score[i][j] = key + tx + 16 * j < seen[i] ? gt_exp(score[i][j] - base) : (T)0;
                    share += score[i][j];
                }
                sum[i] = sum[i] * shrink + gt_combine_row<gt_attention_plus, T>(share);
                most[i] = largest;
#pragma unroll
                for (int c = 0; c < FC; c++)
                    result[i][c] *= shrink;
            }
            gt_store_tile<R, B, T>(weight, score);
            __syncthreads();
            gt_tile_add<R, FC, B, false, T>(weight, v, F, result);
        }
#pragma unroll
        for (int i = 0; i < R; i++)
#pragma unroll
            for (int c = 0; c < FC; c++)
                result[i][c] = p.keys == 0 ? (T)0 : result[i][c] / sum[i];
        if constexpr (K::MOMENTS) {
#pragma unroll
            for (int i = 0; i < R; i++) {
                int64_t query = first + ty * R + i;
                T product = 0;
#pragma unroll
                for (int c = 0; c < FC; c++)
                    if (query < p.queries && tx + 16 * c < F)
                        product += result[i][c] * gt_convert<T>::from(K::D0::load(from_q[query * p.q_row + E + tx + 16 * c]));
                product = gt_combine_row<gt_attention_plus, T>(product);
                if (tx == 0 && query < p.queries) {
                    T *moments = (T *)p.moments + 2 * (batch * p.queries + query);
                    moments[0] = most[i] + gt_log(sum[i]);
                    moments[1] = product;
                }
            }
        } else {
            gt_store_rows<R, FC, typename K::DO, T>((typename K::DO::raw *)p.out + batch * p.result, first, p.queries, F,
                                                    result);
        }
    }
}

/* P and S of a tile: weights, and gradients of the scores times the scale. */
template <class K, int R>
GT_F void gt_attention_slopes(const gt_attention_params &p, const typename K::T *moments, int64_t first, int64_t key,
                              typename K::T score[R][R], typename K::T slope[R][R])
{
    typedef typename K::T T;
    int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
#pragma unroll
    for (int i = 0; i < R; i++) {
        int64_t query = first + ty * R + i, seen = query < p.queries ? gt_seen(p, query) : 0;
        T base = query < p.queries ? moments[2 * query] : (T)0, mean = query < p.queries ? moments[2 * query + 1] : (T)0;
#pragma unroll
        for (int j = 0; j < R; j++) {
            bool sees = key + tx + 16 * j < seen;
            score[i][j] = sees ? gt_exp(score[i][j] * (T)p.scale - base) : (T)0;
            slope[i][j] = sees ? score[i][j] * (slope[i][j] - mean) * (T)p.scale : (T)0;
        }
    }
}

template <class K> GT_F void gt_attention_queries(const gt_attention_params &p)
{
    typedef typename K::T T;
    enum { B = K::B, R = B / 16, EC = K::EC };
    GT_DYNAMIC_SHARED(T, shared);
    int E = (int)p.width, F = (int)p.value_width;
    T *q = shared, *g = q + B * (E + 1), *k = g + B * (F + 1), *v = k + B * (E + 1), *slopes = v + B * (F + 1);
    int64_t tiles = (p.queries + B - 1) / B;
    for (int64_t work = blockIdx.x; work < tiles * p.batches; work += gridDim.x) {
        int64_t batch = work / tiles, first = (tiles - 1 - work % tiles) * B;
        int64_t last = first + B < p.queries ? first + B : p.queries, seen_most = gt_seen_by_tile(p, first, last);
        const typename K::D0::raw *from_q = (const typename K::D0::raw *)p.q + batch * p.queries * p.q_row;
        T result[R][EC];
        gt_clear<T, R, EC>(result);
        __syncthreads();
        gt_load_tile<T, typename K::D0, B>(q, from_q, first, p.queries, E, p.q_row);
        gt_load_tile<T, typename K::D0, B>(g, from_q + E, first, p.queries, F, p.q_row);
        for (int64_t key = 0; key < seen_most; key += B) {
            __syncthreads();
            gt_load_tile<T, typename K::D1, B>(k, (const typename K::D1::raw *)p.k + batch * p.keys * E, key, p.keys, E, E);
            gt_load_tile<T, typename K::D2, B>(v, (const typename K::D2::raw *)p.v + batch * p.keys * F, key, p.keys, F, F);
            __syncthreads();
            T score[R][R], slope[R][R];
            gt_tile_product<R, T>(q, k, E, score);
            gt_tile_product<R, T>(g, v, F, slope);
            gt_attention_slopes<K, R>(p, (const T *)p.moments + 2 * batch * p.queries, first, key, score, slope);
            gt_store_tile<R, B, T>(slopes, slope);
            __syncthreads();
            gt_tile_add<R, EC, B, false, T>(slopes, k, E, result);
        }
        gt_store_rows<R, EC, typename K::DO, T>((typename K::DO::raw *)p.out + batch * p.result, first, p.queries, E, result);
    }
}

template <class K> GT_F void gt_attention_keys(const gt_attention_params &p)
{
    typedef typename K::T T;
    enum { B = K::B, R = B / 16, EC = K::EC, FC = K::FC };
    GT_DYNAMIC_SHARED(T, shared);
    int E = (int)p.width, F = (int)p.value_width;
    T *q = shared, *g = q + B * (E + 1), *k = g + B * (F + 1), *v = k + B * (E + 1), *weights = v + B * (F + 1);
    T *slopes = weights + B * (B + 1);
    int64_t tiles = (p.keys + B - 1) / B;
    for (int64_t work = blockIdx.x; work < tiles * p.batches; work += gridDim.x) {
        int64_t batch = work / tiles, key = work % tiles * B;
        const typename K::D0::raw *from_q = (const typename K::D0::raw *)p.q + batch * p.queries * p.q_row;
        T of_keys[R][EC], of_values[R][FC];
        gt_clear<T, R, EC>(of_keys);
        gt_clear<T, R, FC>(of_values);
        __syncthreads();
        gt_load_tile<T, typename K::D1, B>(k, (const typename K::D1::raw *)p.k + batch * p.keys * E, key, p.keys, E, E);
        gt_load_tile<T, typename K::D2, B>(v, (const typename K::D2::raw *)p.v + batch * p.keys * F, key, p.keys, F, F);
        for (int64_t first = 0; first < p.queries; first += B) {
            int64_t last = first + B < p.queries ? first + B : p.queries;
            if (gt_seen_by_tile(p, first, last) <= key)
                continue;
            __syncthreads();
            gt_load_tile<T, typename K::D0, B>(q, from_q, first, p.queries, E, p.q_row);
            gt_load_tile<T, typename K::D0, B>(g, from_q + E, first, p.queries, F, p.q_row);
            __syncthreads();
            T score[R][R], slope[R][R];
            gt_tile_product<R, T>(q, k, E, score);
            gt_tile_product<R, T>(g, v, F, slope);
            gt_attention_slopes<K, R>(p, (const T *)p.moments + 2 * batch * p.queries, first, key, score, slope);
            gt_store_tile<R, B, T>(weights, score);
            gt_store_tile<R, B, T>(slopes, slope);
            __syncthreads();
            gt_tile_add<R, EC, B, true, T>(slopes, q, E, of_keys);
            gt_tile_add<R, FC, B, true, T>(weights, g, F, of_values);
        }
        typename K::DO::raw *out = (typename K::DO::raw *)p.out + batch * p.result + p.queries * E;
        gt_store_rows<R, EC, typename K::DO, T>(out, key, p.keys, E, of_keys);
        gt_store_rows<R, FC, typename K::DO, T>(out + p.keys * E, key, p.keys, F, of_values);
    }
}
)cuda"

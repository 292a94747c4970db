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

/*
 * ---- tensor cores: the same for halves, E = F = HD, in blocks of four warps with 16 rows each -------------------------
 *
 * mma multiplies A (16 x 16) with B (16 x 8). With g = lane / 4 and t = lane % 4, a lane holds of A the pairs at rows g and
 * g + 8 and columns 2t and 2t + 8; of B the pairs at column g and rows 2t and 2t + 8; of the sum the pairs at rows g and g + 8
 * and column 2t. So the sums of two neighbouring tiles are an A of the next product. Tiles in shared memory have rows of
 * pairs along the axis that is summed over; "turned" tiles are transposed when they are loaded. Exponents are to base 2.
 */

enum { GT_TILE = 64, GT_TURNED_ROW = GT_TILE + 8 };

struct alignas(16) gt_halves {
    uint16_t at[8];
};

template <class D> GT_F uint32_t gt_pack(float low, float high)
{
    return (uint32_t)D::store(low) | (uint32_t)D::store(high) << 16;
}

GT_F uint32_t gt_pair(const uint16_t *at) { return *(const uint32_t *)at; }

#ifdef __CUDACC_RTC__
GT_F void gt_mma(gt_bf16, float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
GT_F void gt_mma(gt_f16, float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#else
template <class D> void gt_mma(D, float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    shim_mma(c, a, b0, b1, [](uint16_t half) { return D::load(half); });
}
#endif

/* 64 rows of HD halves, as they are and (or) turned; rows from `last` on are 0. */
template <int HD>
GT_F void gt_load_halves(uint16_t *tile, uint16_t *turned, const uint16_t *from, int64_t first, int64_t last, int64_t row)
{
    for (int at = threadIdx.x; at < GT_TILE * HD / 8; at += 128) {
        int r = at % GT_TILE, c = at / GT_TILE * 8;
        gt_halves eight = {};
        if (first + r < last)
            eight = *(const gt_halves *)(from + (first + r) * row + c);
        if (tile)
            *(gt_halves *)(tile + r * (HD + 8) + c) = eight;
        if (turned) {
#pragma unroll
            for (int j = 0; j < 8; j++)
                turned[(c + j) * GT_TURNED_ROW + r] = eight.at[j];
        }
    }
}

/* This warp's 16 rows from memory, as A; its first row is number `first` of the tensor. */
template <int HD>
GT_F void gt_load_fragments(uint32_t a[HD / 16][4], const uint16_t *from, int64_t first, int64_t last, int64_t row)
{
    int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const uint16_t *low = from + (first + g) * row + 2 * t, *high = low + 8 * row;
    bool has_low = first + g < last, has_high = first + g + 8 < last;
#pragma unroll
    for (int k = 0; k < HD / 16; k++) {
        a[k][0] = has_low ? gt_pair(low + 16 * k) : 0;
        a[k][1] = has_high ? gt_pair(high + 16 * k) : 0;
        a[k][2] = has_low ? gt_pair(low + 16 * k + 8) : 0;
        a[k][3] = has_high ? gt_pair(high + 16 * k + 8) : 0;
    }
}

/* sum (16 x 64) = a (16 x HD) times the 64 rows of a tile */
template <class D, int HD> GT_F void gt_mma_rows(float sum[8][4], const uint32_t a[HD / 16][4], const uint16_t *tile)
{
    int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < 8; n++) {
        const uint16_t *b = tile + (n * 8 + g) * (HD + 8) + 2 * t;
        sum[n][0] = sum[n][1] = sum[n][2] = sum[n][3] = 0;
#pragma unroll
        for (int k = 0; k < HD / 16; k++)
            gt_mma(D(), sum[n], a[k], gt_pair(b + 16 * k), gt_pair(b + 16 * k + 8));
    }
}

/* sum (16 x HD) += x (16 x 64), which is the sum of another product, times a turned tile */
template <class D, int HD> GT_F void gt_mma_turned(float sum[HD / 8][4], const float x[8][4], const uint16_t *turned)
{
    int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        uint32_t a[4] = {gt_pack<D>(x[2 * k][0], x[2 * k][1]), gt_pack<D>(x[2 * k][2], x[2 * k][3]),
                         gt_pack<D>(x[2 * k + 1][0], x[2 * k + 1][1]), gt_pack<D>(x[2 * k + 1][2], x[2 * k + 1][3])};
#pragma unroll
        for (int n = 0; n < HD / 8; n++) {
            const uint16_t *b = turned + (n * 8 + g) * GT_TURNED_ROW + 16 * k + 2 * t;
            gt_mma(D(), sum[n], a, gt_pair(b), gt_pair(b + 8));
        }
    }
}

/* This warp's 16 rows of a result. */
template <class D, int HD>
GT_F void gt_store_fragments(uint16_t *out, int64_t first, int64_t last, const float sum[HD / 8][4], float low, float high)
{
    int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < HD / 8; n++) {
        uint16_t *to = out + (first + g) * HD + n * 8 + 2 * t;
        if (first + g < last)
            *(uint32_t *)to = gt_pack<D>(sum[n][0] * low, sum[n][1] * low);
        if (first + g + 8 < last)
            *(uint32_t *)(to + 8 * HD) = gt_pack<D>(sum[n][2] * high, sum[n][3] * high);
    }
}

/* Of the four lanes that share a row. */
template <class F> GT_F float gt_combine_quad(float x)
{
    x = F::apply(x, gt_shuffle_xor(x, 1));
    return F::apply(x, gt_shuffle_xor(x, 2));
}

#define GT_LOG2_E 1.44269504088896340736f

template <class K> GT_F void gt_attention_mma_forward(const gt_attention_params &p)
{
    typedef typename K::D0 D;
    enum { HD = K::HD };
    __shared__ gt_halves k_room[GT_TILE * (HD + 8) / 8], v_room[HD * GT_TURNED_ROW / 8];
    uint16_t *k = (uint16_t *)k_room, *v = (uint16_t *)v_room;
    int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    float scale = (float)p.scale * GT_LOG2_E;
    int64_t tiles = (p.queries + GT_TILE - 1) / GT_TILE;
    for (int64_t work = blockIdx.x; work < tiles * p.batches; work += gridDim.x) {
        int64_t batch = work / tiles, first = (tiles - 1 - work % tiles) * GT_TILE;
        int64_t last = first + GT_TILE < p.queries ? first + GT_TILE : p.queries;
        int64_t seen_most = gt_seen_by_tile(p, first, last), row = first + warp * 16 + g;
        const uint16_t *from_q = (const uint16_t *)p.q + batch * p.queries * p.q_row;
        int64_t seen[2] = {gt_seen(p, row), gt_seen(p, row + 8)};
        float most[2] = {-gt_traits<float>::most(), -gt_traits<float>::most()}, sum[2] = {0, 0}, result[HD / 8][4];
        uint32_t q[HD / 16][4];
        gt_load_fragments<HD>(q, from_q, first + warp * 16, p.queries, p.q_row);
        gt_clear<float, HD / 8, 4>(result);
        for (int64_t key = 0; key < seen_most; key += GT_TILE) {
            float score[8][4];
            __syncthreads();
            gt_load_halves<HD>(k, nullptr, (const uint16_t *)p.k + batch * p.keys * HD, key, p.keys, HD);
            gt_load_halves<HD>(nullptr, v, (const uint16_t *)p.v + batch * p.keys * HD, key, p.keys, HD);
            __syncthreads();
            gt_mma_rows<D, HD>(score, q, k);
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float largest = most[half], share = 0;
#pragma unroll
                for (int n = 0; n < 8; n++)
#pragma unroll
                    for (int j = 2 * half; j < 2 * half + 2; j++) {
                        bool sees = key + n * 8 + 2 * t + j % 2 < seen[half];
                        score[n][j] = sees ? score[n][j] * scale : -gt_traits<float>::most();
                        largest = gt_maximum<float>(largest, score[n][j]);
                    }
                largest = gt_combine_quad<gt_attention_larger>(largest);
                float base = largest == -gt_traits<float>::most() ? 0.0f : largest;
                float shrink = gt_exp2(most[half] - base);
#pragma unroll
                for (int n = 0; n < 8; n++)
#pragma unroll
                    for (int j = 2 * half; j < 2 * half + 2; j++) {
                        score[n][j] = gt_exp2(score[n][j] - base);
                        share += score[n][j];
                    }
                sum[half] = sum[half] * shrink + share;
                most[half] = largest;
#pragma unroll
                for (int n = 0; n < HD / 8; n++) {
                    result[n][2 * half] *= shrink;
                    result[n][2 * half + 1] *= shrink;
                }
            }
            gt_mma_turned<D, HD>(result, score, v);
        }
        sum[0] = gt_combine_quad<gt_attention_plus>(sum[0]);
        sum[1] = gt_combine_quad<gt_attention_plus>(sum[1]);
        if constexpr (K::MOMENTS) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int64_t query = row + 8 * half;
                const uint16_t *gradient = from_q + query * p.q_row + HD + 2 * t;
                float product = 0;
#pragma unroll
                for (int n = 0; n < HD / 8; n++)
                    if (query < p.queries)
                        product += result[n][2 * half] * D::load(gradient[n * 8]) +
                                   result[n][2 * half + 1] * D::load(gradient[n * 8 + 1]);
                product = gt_combine_quad<gt_attention_plus>(product) / sum[half];
                if (t == 0 && query < p.queries) {
                    float *moments = (float *)p.moments + 2 * (batch * p.queries + query);
                    moments[0] = most[half] + gt_log2(sum[half]);
                    moments[1] = product;
                }
            }
        } else {
            gt_store_fragments<D, HD>((uint16_t *)p.out + batch * p.result, first + warp * 16, p.queries, result,
                                      1.0f / sum[0], 1.0f / sum[1]);
        }
    }
}

template <class K> GT_F void gt_attention_mma_queries(const gt_attention_params &p)
{
    typedef typename K::D0 D;
    enum { HD = K::HD };
    __shared__ gt_halves k_room[GT_TILE * (HD + 8) / 8], v_room[GT_TILE * (HD + 8) / 8], turned_room[HD * GT_TURNED_ROW / 8];
    uint16_t *k = (uint16_t *)k_room, *v = (uint16_t *)v_room, *turned = (uint16_t *)turned_room;
    int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    float scale = (float)p.scale;
    int64_t tiles = (p.queries + GT_TILE - 1) / GT_TILE;
    for (int64_t work = blockIdx.x; work < tiles * p.batches; work += gridDim.x) {
        int64_t batch = work / tiles, first = (tiles - 1 - work % tiles) * GT_TILE;
        int64_t last = first + GT_TILE < p.queries ? first + GT_TILE : p.queries;
        int64_t seen_most = gt_seen_by_tile(p, first, last), row = first + warp * 16 + g;
        const uint16_t *from_q = (const uint16_t *)p.q + batch * p.queries * p.q_row;
        const float *moments = (const float *)p.moments + 2 * batch * p.queries;
        float base[2], mean[2], result[HD / 8][4];
        int64_t seen[2];
        uint32_t q[HD / 16][4], gradient[HD / 16][4];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            bool inside = row + 8 * half < p.queries;
            seen[half] = inside ? gt_seen(p, row + 8 * half) : 0;
            base[half] = inside ? moments[2 * (row + 8 * half)] : 0.0f;
            mean[half] = inside ? moments[2 * (row + 8 * half) + 1] : 0.0f;
        }
        gt_load_fragments<HD>(q, from_q, first + warp * 16, p.queries, p.q_row);
        gt_load_fragments<HD>(gradient, from_q + HD, first + warp * 16, p.queries, p.q_row);
        gt_clear<float, HD / 8, 4>(result);
        for (int64_t key = 0; key < seen_most; key += GT_TILE) {
            float score[8][4], slope[8][4];
            __syncthreads();
            gt_load_halves<HD>(k, turned, (const uint16_t *)p.k + batch * p.keys * HD, key, p.keys, HD);
            gt_load_halves<HD>(v, nullptr, (const uint16_t *)p.v + batch * p.keys * HD, key, p.keys, HD);
            __syncthreads();
            gt_mma_rows<D, HD>(score, q, k);
            gt_mma_rows<D, HD>(slope, gradient, v);
#pragma unroll
            for (int n = 0; n < 8; n++)
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    bool sees = key + n * 8 + 2 * t + j % 2 < seen[j / 2];
                    float weight = gt_exp2(score[n][j] * (scale * GT_LOG2_E) - base[j / 2]);
                    slope[n][j] = sees ? weight * (slope[n][j] - mean[j / 2]) * scale : 0.0f;
                }
            gt_mma_turned<D, HD>(result, slope, turned);
        }
        gt_store_fragments<D, HD>((uint16_t *)p.out + batch * p.result, first + warp * 16, p.queries, result, 1.0f, 1.0f);
    }
}

/* Rows are keys here, columns are queries. */
template <class K> GT_F void gt_attention_mma_keys(const gt_attention_params &p)
{
    typedef typename K::D0 D;
    enum { HD = K::HD };
    __shared__ gt_halves q_room[GT_TILE * (HD + 8) / 8], q_turned_room[HD * GT_TURNED_ROW / 8];
    __shared__ gt_halves g_room[GT_TILE * (HD + 8) / 8], g_turned_room[HD * GT_TURNED_ROW / 8];
    __shared__ float bases[GT_TILE], means[GT_TILE];
    __shared__ int32_t seens[GT_TILE];
    uint16_t *q = (uint16_t *)q_room, *q_turned = (uint16_t *)q_turned_room;
    uint16_t *gradient = (uint16_t *)g_room, *g_turned = (uint16_t *)g_turned_room;
    int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    float scale = (float)p.scale;
    int64_t tiles = (p.keys + GT_TILE - 1) / GT_TILE;
    for (int64_t work = blockIdx.x; work < tiles * p.batches; work += gridDim.x) {
        int64_t batch = work / tiles, first_key = work % tiles * GT_TILE, row = first_key + warp * 16 + g;
        const uint16_t *from_q = (const uint16_t *)p.q + batch * p.queries * p.q_row;
        const float *moments = (const float *)p.moments + 2 * batch * p.queries;
        float of_keys[HD / 8][4], of_values[HD / 8][4];
        uint32_t k[HD / 16][4], v[HD / 16][4];
        gt_load_fragments<HD>(k, (const uint16_t *)p.k + batch * p.keys * HD, first_key + warp * 16, p.keys, HD);
        gt_load_fragments<HD>(v, (const uint16_t *)p.v + batch * p.keys * HD, first_key + warp * 16, p.keys, HD);
        gt_clear<float, HD / 8, 4>(of_keys);
        gt_clear<float, HD / 8, 4>(of_values);
        for (int64_t first = 0; first < p.queries; first += GT_TILE) {
            int64_t last = first + GT_TILE < p.queries ? first + GT_TILE : p.queries;
            float score[8][4], slope[8][4];
            if (gt_seen_by_tile(p, first, last) <= first_key)
                continue;
            __syncthreads();
            gt_load_halves<HD>(q, q_turned, from_q, first, p.queries, p.q_row);
            gt_load_halves<HD>(gradient, g_turned, from_q + HD, first, p.queries, p.q_row);
            if (threadIdx.x < GT_TILE) {
                int64_t query = first + threadIdx.x;
                bool inside = query < p.queries;
                seens[threadIdx.x] = inside ? (int32_t)gt_seen(p, query) : 0;
                bases[threadIdx.x] = inside ? moments[2 * query] : 0.0f;
                means[threadIdx.x] = inside ? moments[2 * query + 1] : 0.0f;
            }
            __syncthreads();
            gt_mma_rows<D, HD>(score, k, q);
            gt_mma_rows<D, HD>(slope, v, gradient);
#pragma unroll
            for (int n = 0; n < 8; n++)
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    int column = n * 8 + 2 * t + j % 2;
                    bool sees = row + j / 2 * 8 < seens[column];
                    float weight = sees ? gt_exp2(score[n][j] * (scale * GT_LOG2_E) - bases[column]) : 0.0f;
                    score[n][j] = weight;
                    slope[n][j] = sees ? weight * (slope[n][j] - means[column]) * scale : 0.0f;
                }
            gt_mma_turned<D, HD>(of_values, score, g_turned);
            gt_mma_turned<D, HD>(of_keys, slope, q_turned);
        }
        uint16_t *out = (uint16_t *)p.out + batch * p.result + p.queries * HD;
        gt_store_fragments<D, HD>(out, first_key + warp * 16, p.keys, of_keys, 1.0f, 1.0f);
        gt_store_fragments<D, HD>(out + p.keys * HD, first_key + warp * 16, p.keys, of_values, 1.0f, 1.0f);
    }
}
)cuda"

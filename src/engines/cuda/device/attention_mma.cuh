R"cuda(
/*
 * attention_mma.cuh: the kernels of attention.cuh on tensor cores, for halves with E = F = HD and scale > 0.
 *
 * Four warps with MR times 16 rows each. The rows' own tiles lie in shared memory, and, if HELD, in registers as well. Tiles
 * of the other side, 64 rows each, are copied while the tile before them is computed (cp.async, two stages).
 *
 * mma multiplies A (16 x 16) with B (16 x 8). With g = lane / 4 and t = lane % 4, a lane holds of A the pairs at rows g and
 * g + 8 and columns 2t and 2t + 8; of B the pairs at column g and rows 2t and 2t + 8; of the sum the pairs at rows g and g + 8
 * and column 2t. So the sums of two neighbouring tiles are an A of the next product. ldmatrix loads four 8 x 8 matrices, with
 * the addresses of their rows from 8 lanes each; a row in shared memory is 16 bytes longer than HD halves, so that eight rows
 * are in different banks. Exponents are to base 2.
 */

enum { GT_TILE = 64, GT_MMA_THREADS = 128 };

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
GT_F uint32_t gt_pack(gt_bf16, float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
GT_F uint32_t gt_pack(gt_f16, float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
template <bool TURNED> GT_F void gt_load_matrices(uint32_t m[4], const uint16_t *row)
{
    if constexpr (TURNED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                     : "r"(gt_shared_address(row))
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                     : "r"(gt_shared_address(row))
                     : "memory");
}
#else
template <class D> void gt_mma(D, float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    shim_mma(c, a, b0, b1, [](uint16_t half) { return D::load(half); });
}
template <class D> uint32_t gt_pack(D, float low, float high)
{
    return (uint32_t)D::store(low) | (uint32_t)D::store(high) << 16;
}
template <bool TURNED> void gt_load_matrices(uint32_t m[4], const uint16_t *row) { shim_load_matrices(m, row, TURNED); }
#endif

/* The first row of a batch of operand k. */
GT_F const uint16_t *gt_batch_of(const gt_attention_params &p, int k, const void *operand, int64_t batch)
{
    return (const uint16_t *)operand + batch / p.inner * p.leap[k] + batch % p.inner * p.step[k];
}

/* Begin to copy ROWS rows of HD halves; rows from `last` on become 0. */
template <int HD, int ROWS> GT_F void gt_copy_tile(uint16_t *tile, const uint16_t *from, int first, int last, int row)
{
    enum { PIECES = HD / 8, STEP = GT_MMA_THREADS / PIECES }; /* rows that the threads copy at once */
    int r = threadIdx.x / PIECES, c = threadIdx.x % PIECES * 8, left = last - first;
    const uint16_t *at = from + (int64_t)(first + r) * row + c;
    uint16_t *to = tile + r * (HD + 8) + c;
    if (GT_MMA_THREADS % PIECES != 0 && r >= STEP)
        return;
#pragma unroll
    for (int i = 0; i < (ROWS + STEP - 1) / STEP; i++) {
        if (ROWS % STEP == 0 || r + i * STEP < ROWS)
            gt_copy_begin<16>(to + i * STEP * (HD + 8), r + i * STEP < left ? at : from, r + i * STEP < left);
        at += STEP * row;
    }
}

/* This warp's rows of a tile, as A. */
template <int HD, int MR, bool HELD> struct gt_mma_side {
    const uint16_t *from;
    uint32_t held[HELD ? HD / 16 : 1][MR][4];

    /* When the tile is there. */
    GT_F void open(const uint16_t *tile)
    {
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        from = tile + (warp * 16 * MR + lane % 16) * (HD + 8) + lane / 16 * 8;
        if constexpr (HELD) {
#pragma unroll
            for (int k = 0; k < HD / 16; k++)
                load(held[k], k);
        }
    }
    GT_F void load(uint32_t a[MR][4], int k) const
    {
#pragma unroll
        for (int m = 0; m < MR; m++)
            gt_load_matrices<false>(a[m], from + m * 16 * (HD + 8) + k * 16);
    }
};

/* sum (16 MR x 8 N) = this warp's rows times N * 8 rows of a tile */
template <class D, int HD, int MR, int N, bool HELD>
GT_F void gt_mma_rows(float sum[MR][N][4], const gt_mma_side<HD, MR, HELD> &side, const uint16_t *tile)
{
    int lane = threadIdx.x % 32;
    const uint16_t *from = tile + (lane / 16 * 8 + lane % 8) * (HD + 8) + lane / 8 % 2 * 8;
#pragma unroll
    for (int m = 0; m < MR; m++)
        gt_clear<float, N, 4>(sum[m]);
#pragma unroll
    for (int k = 0; k < HD / 16; k++) {
        uint32_t loaded[MR][4];
        if constexpr (!HELD)
            side.load(loaded, k);
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            uint32_t b[4];
            gt_load_matrices<false>(b, from + n * 8 * (HD + 8) + k * 16);
#pragma unroll
            for (int m = 0; m < MR; m++) {
                const uint32_t *a = HELD ? side.held[HELD ? k : 0][m] : loaded[m];
                gt_mma(D(), sum[m][n], a, b[0], b[1]);
                gt_mma(D(), sum[m][n + 1], a, b[2], b[3]);
            }
        }
    }
}

/* sum (16 MR x HD) += x (16 MR x 8 N), which is the sum of another product, times N * 8 rows of a tile */
template <class D, int HD, int MR, int N>
GT_F void gt_mma_columns(float sum[MR][HD / 8][4], const float x[MR][N][4], const uint16_t *tile)
{
    int lane = threadIdx.x % 32;
    const uint16_t *from = tile + lane % 16 * (HD + 8) + lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < N / 2; k++) {
        uint32_t a[MR][4];
#pragma unroll
        for (int m = 0; m < MR; m++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                a[m][j] = gt_pack(D(), x[m][2 * k + j / 2][j % 2 * 2], x[m][2 * k + j / 2][j % 2 * 2 + 1]);
#pragma unroll
        for (int n = 0; n < HD / 8; n += 2) {
            uint32_t b[4];
            gt_load_matrices<true>(b, from + k * 16 * (HD + 8) + n * 8);
#pragma unroll
            for (int m = 0; m < MR; m++) {
                gt_mma(D(), sum[m][n], a[m], b[0], b[1]);
                gt_mma(D(), sum[m][n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* 16 rows of a result, the first of them number `first`; times `low` above, times `high` below. */
template <class D, int HD>
GT_F void gt_store_fragments(const gt_attention_params &p, int k, int64_t batch, int first, int last,
                             const float sum[HD / 8][4], float low, float high)
{
    int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    uint16_t *to = (uint16_t *)p.out + p.out_at[k] + batch / p.inner * p.out_leap + batch % p.inner * p.out_step +
                   (first + g) * p.out_row + 2 * t;
#pragma unroll
    for (int n = 0; n < HD / 8; n++) {
        if (first + g < last)
            *(uint32_t *)(to + n * 8) = gt_pack(D(), sum[n][0] * low, sum[n][1] * low);
        if (first + g + 8 < last)
            *(uint32_t *)(to + n * 8 + 8 * p.out_row) = gt_pack(D(), sum[n][2] * high, sum[n][3] * high);
    }
}

/* Of the four lanes that share a row. */
template <class F> GT_F float gt_combine_quad(float x)
{
    x = F::apply(x, gt_shuffle_xor(x, 1));
    return F::apply(x, gt_shuffle_xor(x, 2));
}

/* NaN is left out; what is computed with it becomes NaN anyway. */
struct gt_attention_most {
    GT_F static float apply(float a, float b) { return fmaxf(a, b); }
};

/* Sizes in 32 bits. */
struct gt_mma_sizes {
    int queries, keys, period;
    GT_F gt_mma_sizes(const gt_attention_params &p)
        : queries((int)p.queries), keys((int)p.keys), period((int)(p.period < p.queries ? p.period : p.queries))
    {
    }
    /* The keys that the query at this place sees; places in the next period are allowed. */
    GT_F int seen(int place) const
    {
        if (period == 0)
            return keys;
        if (place >= period)
            place %= period;
        return place < keys ? place + 1 : keys;
    }
    /* A query's place in its period. */
    GT_F int start(int query) const { return query < period || period == 0 ? query : query % period; }
    /* The most and the fewest keys that a query of first <= i < last sees; the fewest may be too low. */
    GT_F int most_seen(int first, int last) const
    {
        int begin = start(first), count = last - first;
        return seen(begin + count <= period ? begin + count - 1 : period - 1);
    }
    GT_F int fewest_seen(int first, int last) const
    {
        int begin = start(first);
        return period && begin + last - first > period ? 1 : seen(begin);
    }
};

/* What a thread's rows see: it has rows first + g + 8 i of 16 MR rows of a warp. */
template <int MR> struct gt_mma_rows_seen {
    int seen[2 * MR], most, fewest;
    GT_F void open(const gt_mma_sizes &sizes, int first)
    {
        int g = threadIdx.x % 32 / 4, begin = sizes.start(first);
#pragma unroll
        for (int i = 0; i < 2 * MR; i++)
            seen[i] = sizes.seen(begin + g + 8 * i);
        most = sizes.most_seen(first, first + 16 * MR);
        fewest = sizes.fewest_seen(first, first + 16 * MR);
    }
};

template <class K> GT_F void gt_attention_mma_forward(const gt_attention_params &p)
{
    typedef typename K::D0 D;
    enum { HD = K::HD, MR = K::MR, ROWS = GT_TILE * MR, ROOM = GT_TILE * (HD + 8) };
    GT_DYNAMIC_SHARED(uint16_t, shared);
    uint16_t *stages = shared + ROWS * (HD + 8);
    const gt_mma_sizes sizes(p);
    int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    float scale = (float)p.scale * GT_LOG2_E;
    int64_t tiles = (p.queries + ROWS - 1) / ROWS;
    for (int64_t work = blockIdx.x; work < tiles * p.batches; work += gridDim.x) {
        int64_t batch = work % p.batches;
        int first = (int)(tiles - 1 - work / p.batches) * ROWS, row = first + warp * 16 * MR; /* the longest first */
        int last = first + ROWS < sizes.queries ? first + ROWS : sizes.queries, end = sizes.most_seen(first, last);
        const uint16_t *from_q = gt_batch_of(p, 0, p.q, batch);
        const uint16_t *from_k = gt_batch_of(p, 1, p.k, batch);
        const uint16_t *from_v = gt_batch_of(p, 2, p.v, batch);
        __syncthreads();
        gt_copy_tile<HD, ROWS>(shared, from_q, first, sizes.queries, (int)p.row[0]);
        gt_copy_commit();
        gt_copy_tile<HD, GT_TILE>(stages, from_k, 0, sizes.keys, (int)p.row[1]);
        gt_copy_tile<HD, GT_TILE>(stages + ROOM, from_v, 0, sizes.keys, (int)p.row[2]);
        gt_copy_commit();
        gt_mma_rows_seen<MR> rows;
        rows.open(sizes, row);
        float most[2 * MR], sum[2 * MR], result[MR][HD / 8][4];
#pragma unroll
        for (int i = 0; i < 2 * MR; i++) {
            most[i] = -gt_traits<float>::most();
            sum[i] = 0;
        }
#pragma unroll
        for (int m = 0; m < MR; m++)
            gt_clear<float, HD / 8, 4>(result[m]);
        gt_mma_side<HD, MR, K::HELD> q;
        gt_copy_wait<1>();
        __syncthreads();
        q.open(shared);
        for (int key = 0, stage = 0; key < end; key += GT_TILE, stage ^= 1) {
            const uint16_t *k = stages + stage * 2 * ROOM, *v = k + ROOM;
            uint16_t *next = stages + (stage ^ 1) * 2 * ROOM;
            gt_copy_wait<0>();
            __syncthreads();
            if (key + GT_TILE < end) {
                gt_copy_tile<HD, GT_TILE>(next, from_k, key + GT_TILE, sizes.keys, (int)p.row[1]);
                gt_copy_tile<HD, GT_TILE>(next + ROOM, from_v, key + GT_TILE, sizes.keys, (int)p.row[2]);
                gt_copy_commit();
            }
            if (key >= rows.most)
                continue;
            float score[MR][8][4];
            gt_mma_rows<D, HD, MR, 8, K::HELD>(score, q, k);
            if (key + GT_TILE > rows.fewest) {
#pragma unroll
                for (int m = 0; m < MR; m++)
#pragma unroll
                    for (int n = 0; n < 8; n++)
#pragma unroll
                        for (int j = 0; j < 4; j++)
                            if (key + n * 8 + 2 * t + j % 2 >= rows.seen[2 * m + j / 2])
                                score[m][n][j] = -gt_traits<float>::most();
            }
#pragma unroll
            for (int i = 0; i < 2 * MR; i++) {
                float largest = most[i], share = 0;
#pragma unroll
                for (int n = 0; n < 8; n++)
                    largest = fmaxf(largest, fmaxf(score[i / 2][n][i % 2 * 2], score[i / 2][n][i % 2 * 2 + 1]));
                largest = gt_combine_quad<gt_attention_most>(largest);
                float base = largest == -gt_traits<float>::most() ? 0.0f : largest * scale; /* nothing is seen yet */
                float shrink = gt_exp2_fast(most[i] * scale - base);
#pragma unroll
                for (int n = 0; n < 8; n++)
#pragma unroll
                    for (int j = i % 2 * 2; j < i % 2 * 2 + 2; j++) {
                        score[i / 2][n][j] = gt_exp2_fast(score[i / 2][n][j] * scale - base);
                        share += score[i / 2][n][j];
                    }
                sum[i] = sum[i] * shrink + share;
                most[i] = largest;
#pragma unroll
                for (int n = 0; n < HD / 8; n++) {
                    result[i / 2][n][i % 2 * 2] *= shrink;
                    result[i / 2][n][i % 2 * 2 + 1] *= shrink;
                }
            }
            gt_mma_columns<D, HD, MR, 8>(result, score, v);
        }
#pragma unroll
        for (int i = 0; i < 2 * MR; i++)
            sum[i] = gt_combine_quad<gt_attention_plus>(sum[i]);
        if constexpr (K::MOMENTS) {
#pragma unroll
            for (int i = 0; i < 2 * MR; i++) {
                int query = row + g + 8 * i;
                const uint16_t *gradient =
                    gt_batch_of(p, 3, p.g, batch) + (query < sizes.queries ? query * p.row[3] : 0) + 2 * t;
                float product = 0;
#pragma unroll
                for (int n = 0; n < HD / 8; n++) {
                    uint32_t pair = *(const uint32_t *)(gradient + n * 8);
                    product += result[i / 2][n][i % 2 * 2] * D::load((uint16_t)pair) +
                               result[i / 2][n][i % 2 * 2 + 1] * D::load((uint16_t)(pair >> 16));
                }
                product = gt_combine_quad<gt_attention_plus>(product) / sum[i];
                if (t == 0 && query < sizes.queries) {
                    float *moments = (float *)p.moments + 2 * (batch * p.queries + query);
                    moments[0] = most[i] * scale + gt_log2(sum[i]);
                    moments[1] = product;
                }
            }
        } else {
            if constexpr (K::KEEP) {
#pragma unroll
                for (int i = 0; i < 2 * MR; i++) {
                    int query = row + g + 8 * i;
                    if (t == 0 && query < sizes.queries)
                        ((float *)p.moments)[2 * (batch * p.queries + query)] = most[i] * scale + gt_log2(sum[i]);
                }
            }
#pragma unroll
            for (int m = 0; m < MR; m++)
                gt_store_fragments<D, HD>(p, 0, batch, row + 16 * m, sizes.queries, result[m], 1.0f / sum[2 * m],
                                          1.0f / sum[2 * m + 1]);
        }
    }
}

/* The second moment of each query, of the result that was kept: four lanes a query. */
template <class K> GT_F void gt_attention_mma_delta(const gt_attention_params &p)
{
    typedef typename K::D0 D;
    enum { HD = K::HD, PIECE = 8 };
    int t = threadIdx.x % 4;
    int64_t all = p.batches * p.queries;
    for (int64_t first = (int64_t)blockIdx.x * (GT_MMA_THREADS / 4); first < all;
         first += (int64_t)gridDim.x * (GT_MMA_THREADS / 4)) {
        int64_t query = first + threadIdx.x / 4, inside = query < all ? query : all - 1;
        const uint16_t *gradient = gt_batch_of(p, 3, p.g, inside / p.queries) + inside % p.queries * p.row[3];
        const uint16_t *result = (const uint16_t *)p.kept + inside * HD;
        float product = 0;
#pragma unroll
        for (int at = t * PIECE; at < HD; at += 4 * PIECE) {
            gt_vector<uint16_t, PIECE> a = *(const gt_vector<uint16_t, PIECE> *)(gradient + at);
            gt_vector<uint16_t, PIECE> b = *(const gt_vector<uint16_t, PIECE> *)(result + at);
#pragma unroll
            for (int j = 0; j < PIECE; j++)
                product += D::load(a.at[j]) * D::load(b.at[j]);
        }
        product = gt_combine_quad<gt_attention_plus>(product);
        if (t == 0 && query < all)
            ((float *)p.moments)[2 * query + 1] = product;
    }
}

/* The gradients of 64 MR queries; N * 8 keys at a time. */
template <class K> GT_F void gt_attention_mma_queries(const gt_attention_params &p)
{
    typedef typename K::D0 D;
    enum { HD = K::HD, MR = K::MR, N = K::N, ROWS = GT_TILE * MR, ROOM = GT_TILE * (HD + 8) };
    GT_DYNAMIC_SHARED(uint16_t, shared);
    uint16_t *g_tile = shared + ROWS * (HD + 8), *stages = g_tile + ROWS * (HD + 8);
    const gt_mma_sizes sizes(p);
    int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    float scale = (float)p.scale * GT_LOG2_E;
    int64_t tiles = (p.queries + ROWS - 1) / ROWS;
    for (int64_t work = blockIdx.x; work < tiles * p.batches; work += gridDim.x) {
        int64_t batch = work % p.batches;
        int first = (int)(tiles - 1 - work / p.batches) * ROWS, row = first + warp * 16 * MR;
        int last = first + ROWS < sizes.queries ? first + ROWS : sizes.queries, end = sizes.most_seen(first, last);
        const uint16_t *from_q = gt_batch_of(p, 0, p.q, batch);
        const uint16_t *from_k = gt_batch_of(p, 1, p.k, batch);
        const uint16_t *from_v = gt_batch_of(p, 2, p.v, batch);
        const float *moments = (const float *)p.moments + 2 * batch * p.queries;
        __syncthreads();
        gt_copy_tile<HD, ROWS>(shared, from_q, first, sizes.queries, (int)p.row[0]);
        gt_copy_tile<HD, ROWS>(g_tile, gt_batch_of(p, 3, p.g, batch), first, sizes.queries, (int)p.row[3]);
        gt_copy_commit();
        gt_copy_tile<HD, GT_TILE>(stages, from_k, 0, sizes.keys, (int)p.row[1]);
        gt_copy_tile<HD, GT_TILE>(stages + ROOM, from_v, 0, sizes.keys, (int)p.row[2]);
        gt_copy_commit();
        gt_mma_rows_seen<MR> rows;
        rows.open(sizes, row);
        float base[2 * MR], mean[2 * MR], result[MR][HD / 8][4];
#pragma unroll
        for (int i = 0; i < 2 * MR; i++) {
            bool inside = row + g + 8 * i < sizes.queries;
            base[i] = inside ? moments[2 * (row + g + 8 * i)] : 0.0f;
            mean[i] = inside ? moments[2 * (row + g + 8 * i) + 1] : 0.0f;
        }
#pragma unroll
        for (int m = 0; m < MR; m++)
            gt_clear<float, HD / 8, 4>(result[m]);
        gt_mma_side<HD, MR, K::HELD> q, gradient;
        gt_copy_wait<1>();
        __syncthreads();
        q.open(shared);
        gradient.open(g_tile);
        for (int key = 0, stage = 0; key < end; key += GT_TILE, stage ^= 1) {
            const uint16_t *k = stages + stage * 2 * ROOM, *v = k + ROOM;
            uint16_t *next = stages + (stage ^ 1) * 2 * ROOM;
            gt_copy_wait<0>();
            __syncthreads();
            if (key + GT_TILE < end) {
                gt_copy_tile<HD, GT_TILE>(next, from_k, key + GT_TILE, sizes.keys, (int)p.row[1]);
                gt_copy_tile<HD, GT_TILE>(next + ROOM, from_v, key + GT_TILE, sizes.keys, (int)p.row[2]);
                gt_copy_commit();
            }
#pragma unroll 1
            for (int part = 0; part < GT_TILE && key + part < rows.most; part += 8 * N) {
                float score[MR][N][4], slope[MR][N][4];
                gt_mma_rows<D, HD, MR, N, K::HELD>(score, q, k + part * (HD + 8));
                gt_mma_rows<D, HD, MR, N, K::HELD>(slope, gradient, v + part * (HD + 8));
#pragma unroll
                for (int m = 0; m < MR; m++)
#pragma unroll
                    for (int n = 0; n < N; n++)
#pragma unroll
                        for (int j = 0; j < 4; j++) {
                            float weight = gt_exp2_fast(score[m][n][j] * scale - base[2 * m + j / 2]);
                            slope[m][n][j] = weight * (slope[m][n][j] - mean[2 * m + j / 2]);
                        }
                if (key + part + 8 * N > rows.fewest) {
#pragma unroll
                    for (int m = 0; m < MR; m++)
#pragma unroll
                        for (int n = 0; n < N; n++)
#pragma unroll
                            for (int j = 0; j < 4; j++)
                                if (key + part + n * 8 + 2 * t + j % 2 >= rows.seen[2 * m + j / 2])
                                    slope[m][n][j] = 0;
                }
                gt_mma_columns<D, HD, MR, N>(result, slope, k + part * (HD + 8));
            }
        }
#pragma unroll
        for (int m = 0; m < MR; m++)
            gt_store_fragments<D, HD>(p, 0, batch, row + 16 * m, sizes.queries, result[m], (float)p.scale,
                                      (float)p.scale);
    }
}

/* The first tile of queries from `first` on in which a query sees the key; at or behind the last query: none does. */
GT_F int gt_next_queries(const gt_mma_sizes &sizes, int first, int key)
{
    while (first < sizes.queries &&
           sizes.most_seen(first, first + GT_TILE < sizes.queries ? first + GT_TILE : sizes.queries) <= key)
        first += GT_TILE;
    return first;
}

/* A tile of queries, of gradients, and the moments of the queries. */
template <int HD>
GT_F void gt_copy_queries(uint16_t *stage, const uint16_t *from_q, const uint16_t *from_g, const float *moments,
                          const gt_attention_params &p, int first)
{
    gt_copy_tile<HD, GT_TILE>(stage, from_q, first, (int)p.queries, (int)p.row[0]);
    gt_copy_tile<HD, GT_TILE>(stage + GT_TILE * (HD + 8), from_g, first, (int)p.queries, (int)p.row[3]);
    if (threadIdx.x < GT_TILE) {
        int query = first + threadIdx.x;
        bool inside = query < (int)p.queries;
        gt_copy_begin<8>(stage + 2 * GT_TILE * (HD + 8) + 4 * threadIdx.x, moments + (inside ? 2 * query : 0), inside);
    }
    gt_copy_commit();
}

/* The gradients of 64 MR keys and values; N * 8 queries at a time. Rows are keys here, columns are queries. */
template <class K> GT_F void gt_attention_mma_keys(const gt_attention_params &p)
{
    typedef typename K::D0 D;
    enum { HD = K::HD, MR = K::MR, N = K::N, ROWS = GT_TILE * MR, ROOM = GT_TILE * (HD + 8), STAGE = 2 * ROOM + 4 * GT_TILE };
    GT_DYNAMIC_SHARED(uint16_t, shared);
    uint16_t *v_tile = shared + ROWS * (HD + 8), *stages = v_tile + ROWS * (HD + 8);
    const gt_mma_sizes sizes(p);
    int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    float scale = (float)p.scale * GT_LOG2_E;
    int64_t tiles = (p.keys + ROWS - 1) / ROWS;
    for (int64_t work = blockIdx.x; work < tiles * p.batches; work += gridDim.x) {
        int64_t batch = work % p.batches;
        int first_key = (int)(work / p.batches) * ROWS, row = first_key + warp * 16 * MR; /* the longest first */
        const uint16_t *from_q = gt_batch_of(p, 0, p.q, batch), *from_g = gt_batch_of(p, 3, p.g, batch);
        const float *moments = (const float *)p.moments + 2 * batch * p.queries;
        int first = gt_next_queries(sizes, 0, first_key);
        __syncthreads();
        gt_copy_tile<HD, ROWS>(shared, gt_batch_of(p, 1, p.k, batch), first_key, sizes.keys, (int)p.row[1]);
        gt_copy_tile<HD, ROWS>(v_tile, gt_batch_of(p, 2, p.v, batch), first_key, sizes.keys, (int)p.row[2]);
        gt_copy_commit();
        gt_copy_queries<HD>(stages, from_q, from_g, moments, p, first);
        float of_keys[MR][HD / 8][4], of_values[MR][HD / 8][4];
#pragma unroll
        for (int m = 0; m < MR; m++) {
            gt_clear<float, HD / 8, 4>(of_keys[m]);
            gt_clear<float, HD / 8, 4>(of_values[m]);
        }
        gt_mma_side<HD, MR, K::HELD> k, v;
        gt_copy_wait<1>();
        __syncthreads();
        k.open(shared);
        v.open(v_tile);
        for (int stage = 0, after; first < sizes.queries; first = after, stage ^= 1) {
            const uint16_t *q = stages + stage * STAGE, *gradient = q + ROOM;
            const float *moment = (const float *)(gradient + ROOM);
            gt_copy_wait<0>();
            __syncthreads();
            after = gt_next_queries(sizes, first + GT_TILE, first_key);
            if (after < sizes.queries)
                gt_copy_queries<HD>(stages + (stage ^ 1) * STAGE, from_q, from_g, moments, p, after);
#pragma unroll 1
            for (int part = 0; part < GT_TILE; part += 8 * N) {
                if (sizes.most_seen(first + part, first + part + 8 * N) <= row)
                    continue;
                float score[MR][N][4], slope[MR][N][4];
                gt_mma_rows<D, HD, MR, N, K::HELD>(score, k, q + part * (HD + 8));
                gt_mma_rows<D, HD, MR, N, K::HELD>(slope, v, gradient + part * (HD + 8));
#pragma unroll
                for (int n = 0; n < N; n++) {
                    /* base and mean of two queries */
                    gt_vector<float, 4> of = *(const gt_vector<float, 4> *)(moment + 2 * (part + n * 8 + 2 * t));
#pragma unroll
                    for (int m = 0; m < MR; m++)
#pragma unroll
                        for (int j = 0; j < 4; j++) {
                            score[m][n][j] = gt_exp2_fast(score[m][n][j] * scale - of.at[j % 2 * 2]);
                            slope[m][n][j] = score[m][n][j] * (slope[m][n][j] - of.at[j % 2 * 2 + 1]);
                        }
                }
                if (sizes.fewest_seen(first + part, first + part + 8 * N) < row + 16 * MR) {
                    int start = sizes.start(first + part);
#pragma unroll
                    for (int n = 0; n < N; n++)
#pragma unroll
                        for (int side = 0; side < 2; side++) {
                            int seen = sizes.seen(start + n * 8 + 2 * t + side);
#pragma unroll
                            for (int i = 0; i < 2 * MR; i++)
                                if (row + g + 8 * i >= seen)
                                    score[i / 2][n][i % 2 * 2 + side] = slope[i / 2][n][i % 2 * 2 + side] = 0;
                        }
                }
                gt_mma_columns<D, HD, MR, N>(of_values, score, gradient + part * (HD + 8));
                gt_mma_columns<D, HD, MR, N>(of_keys, slope, q + part * (HD + 8));
            }
        }
        gt_copy_wait<0>();
#pragma unroll
        for (int m = 0; m < MR; m++) {
            gt_store_fragments<D, HD>(p, 1, batch, row + 16 * m, sizes.keys, of_keys[m], (float)p.scale, (float)p.scale);
            gt_store_fragments<D, HD>(p, 2, batch, row + 16 * m, sizes.keys, of_values[m], 1.0f, 1.0f);
        }
    }
}
)cuda"

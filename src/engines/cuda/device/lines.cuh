R"cuda(
/*
 * lines.cuh: operations along one axis that depend on the order of elements: scans, sorting, searches in sorted lines, and the
 * positions of true elements. Tensors are contiguous, (outer, n, inner); line l is number l / inner of the outer axes and
 * l % inner of the inner ones.
 */

struct gt_lines_params {
    void *out;
    const void *in, *values;
    void *scratch, *spare;
    gt_errors *errors;
    int64_t lines, n, inner;
    int64_t kept;     /* sorts: elements of the result's line */
    int64_t count;    /* searches: values; masks: elements; merges: not 0: the last one, which writes positions */
    int64_t per_line; /* searches: values of a line; 0: all of one */
    int64_t blocks, expected;
    int64_t size;     /* sorts in shared memory: n, rounded up to a power of two; sorts by tiles: items of a tile; merges: of a run */
};

template <class S> GT_F S gt_shuffle_up(S value, int delta)
{
    union words {
        S value;
        uint32_t word[sizeof(S) / 4];
        GT_F words() {}
    } in, out;
    in.value = value;
#pragma unroll
    for (int k = 0; k < (int)(sizeof(S) / 4); k++)
        out.word[k] = __shfl_up_sync(0xffffffffu, in.word[k], delta, 32);
    return out.value;
}

/* ---- scans -------------------------------------------------------------------------------------------------- */

template <class A> struct gt_scan_cumsum {
    typedef A S;
    GT_F static S first() { return 0; }
    GT_F static S of(A x, int64_t) { return x; }
    GT_F static S merge(S a, S b) { return a + b; }
    GT_F static A finish(S s) { return s; }
};
template <class A> struct gt_scan_cumprod {
    typedef A S;
    GT_F static S first() { return 1; }
    GT_F static S of(A x, int64_t) { return x; }
    GT_F static S merge(S a, S b) { return a * b; }
    GT_F static A finish(S s) { return s; }
};
template <class A> struct gt_scan_logcumsumexp {
    struct S {
        A most, sum;
    };
    GT_F static A scaled(A sum, A from, A to) { return from == to ? sum : sum * gt_exp(from - to); }
    GT_F static S first() { return {gt_traits<A>::least(), 0}; }
    GT_F static S of(A x, int64_t) { return {x, 1}; }
    GT_F static S merge(S a, S b)
    {
        A most = gt_maximum<A>(a.most, b.most);
        return {most, scaled(a.sum, a.most, most) + scaled(b.sum, b.most, most)};
    }
    GT_F static A finish(S s) { return gt_isinf(s.most) || gt_isnan(s.most) ? s.most : s.most + gt_log(s.sum); }
};
/* The last of the best so far; NaN is better than any number. */
template <class A, bool GREATEST> struct gt_scan_best {
    struct S {
        A best;
        int64_t at;
    };
    GT_F static S first() { return {0, -1}; }
    GT_F static S of(A x, int64_t at) { return {x, at}; }
    GT_F static S merge(S a, S b)
    {
        if (a.at < 0 || b.at < 0)
            return a.at < 0 ? b : a;
        if (gt_isnan(b.best))
            return b;
        if (gt_isnan(a.best))
            return a;
        return (GREATEST ? b.best >= a.best : b.best <= a.best) ? b : a;
    }
    GT_F static int64_t finish(S s) { return s.at; }
};

/* The merged states of the threads before this one, and of all threads. */
template <class R, int THREADS> GT_F typename R::S gt_scan_block(typename R::S own, typename R::S *all)
{
    typedef typename R::S S;
    __shared__ double room[32 * ((sizeof(S) + 7) / 8)];
    S *warps = (S *)room, before = R::first();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    S inclusive = own;
    for (int delta = 1; delta < 32; delta *= 2) {
        S other = gt_shuffle_up(inclusive, delta);
        if (lane >= delta)
            inclusive = R::merge(other, inclusive);
    }
    S left = gt_shuffle_up(inclusive, 1);
    __syncthreads();
    if (lane == 31)
        warps[warp] = inclusive;
    __syncthreads();
    *all = R::first();
    for (int k = 0; k < THREADS / 32; k++) {
        if (k == warp)
            before = *all;
        *all = R::merge(*all, warps[k]);
    }
    return lane > 0 ? R::merge(before, left) : before;
}

/* A block scans a line, 1024 elements at a time. */
template <class K> GT_F void gt_scan_rows(const gt_lines_params &p)
{
    typedef typename K::R R;
    typedef typename R::S S;
    enum { ITEMS = 4 };
    for (int64_t line = blockIdx.x; line < p.lines; line += gridDim.x) {
        const typename K::D::raw *in = (const typename K::D::raw *)p.in + line * p.n;
        typename K::DO::raw *out = (typename K::DO::raw *)p.out + line * p.n;
        S carry = R::first(), all;
        for (int64_t first = 0; first < p.n; first += ITEMS * 256) {
            int64_t at = first + threadIdx.x * ITEMS;
            S item[ITEMS], total = R::first();
#pragma unroll
            for (int j = 0; j < ITEMS; j++) {
                item[j] = at + j < p.n ? R::of(gt_convert<typename K::A>::from(K::D::load(in[at + j])), at + j) : R::first();
                total = R::merge(total, item[j]);
            }
            S running = R::merge(carry, gt_scan_block<R, 256>(total, &all));
#pragma unroll
            for (int j = 0; j < ITEMS; j++) {
                running = R::merge(running, item[j]);
                if (at + j < p.n)
                    out[at + j] = K::DO::store(R::finish(running));
            }
            carry = R::merge(carry, all);
        }
    }
}

/* A thread scans a line; neighbouring threads have neighbouring lines. */
template <class K> GT_F void gt_scan_across(const gt_lines_params &p)
{
    typedef typename K::R R;
    for (int64_t line = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; line < p.lines;
         line += (int64_t)gridDim.x * blockDim.x) {
        int64_t base = line / p.inner * p.n * p.inner + line % p.inner;
        typename R::S running = R::first();
        for (int64_t k = 0; k < p.n; k++) {
            int64_t at = base + k * p.inner;
            typename K::A x = gt_convert<typename K::A>::from(K::D::load(((const typename K::D::raw *)p.in)[at]));
            running = R::merge(running, R::of(x, k));
            ((typename K::DO::raw *)p.out)[at] = K::DO::store(R::finish(running));
        }
    }
}

/* ---- sorting ------------------------------------------------------------------------------------------------ */

/* Numbers as unsigned ones in the same order: NaNs are equal and the largest, both zeros are equal. */
GT_F uint32_t gt_order(int32_t x) { return (uint32_t)x ^ 0x80000000u; }
GT_F uint64_t gt_order(int64_t x) { return (uint64_t)x ^ 0x8000000000000000ull; }
GT_F uint32_t gt_order(float x)
{
    uint32_t bits = gt_bits(x == 0 ? 0.0f : x);
    return x != x ? 0xffffffffu : bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
GT_F uint64_t gt_order(double x)
{
    uint64_t bits = gt_bits(x == 0 ? 0.0 : x);
    return x != x ? ~0ull : bits >> 63 ? ~bits : bits | 0x8000000000000000ull;
}

/* An element to sort: its order (descending: inverted), then its position. */
template <class U> struct gt_item {
    U order;
    uint32_t at;
};
template <class U> GT_F bool gt_before(gt_item<U> a, gt_item<U> b)
{
    return a.order < b.order || (a.order == b.order && a.at < b.at);
}

template <class K> GT_F typename K::U gt_sort_key(const gt_lines_params &p, int64_t base, int64_t k)
{
    typename K::U order = gt_order(K::D::load(((const typename K::D::raw *)p.in)[base + k * p.inner]));
    return K::DESCENDING ? (typename K::U)~order : order;
}

/* A block sorts items in shared memory, a power of two: Batcher's bitonic network. */
template <class U> GT_F void gt_sort_items(gt_item<U> *items, int size)
{
    for (int run = 2; run <= size; run *= 2) {
        for (int step = run / 2; step > 0; step /= 2) {
            __syncthreads();
            for (int pair = threadIdx.x; pair < size / 2; pair += blockDim.x) {
                int a = pair / step * step * 2 + pair % step, b = a + step;
                gt_item<U> x = items[a], y = items[b];
                if (gt_before(y, x) == ((a & run) == 0)) {
                    items[a] = y;
                    items[b] = x;
                }
            }
        }
    }
    __syncthreads();
}

/* The items of a line from `first` on into shared memory; behind its end, some that come last. */
template <class K> GT_F void gt_sort_load(const gt_lines_params &p, int64_t base, int64_t first, gt_item<typename K::U> *items)
{
    __syncthreads();
    for (int k = threadIdx.x; k < (int)p.size; k += blockDim.x) {
        gt_item<typename K::U> x = {(typename K::U) ~(typename K::U)0, 0xffffffffu};
        if (first + k < p.n)
            x = {gt_sort_key<K>(p, base, first + k), (uint32_t)(first + k)};
        items[k] = x;
    }
}

/* A block sorts a line. */
template <class K> GT_F void gt_sort_shared(const gt_lines_params &p)
{
    typedef gt_item<typename K::U> item;
    GT_DYNAMIC_SHARED(item, items);
    for (int64_t line = blockIdx.x; line < p.lines; line += gridDim.x) {
        int64_t outer = line / p.inner, base = outer * p.n * p.inner + line % p.inner;
        gt_sort_load<K>(p, base, 0, items);
        gt_sort_items(items, (int)p.size);
        int64_t to = outer * p.kept * p.inner + line % p.inner;
        for (int k = threadIdx.x; k < p.kept; k += blockDim.x)
            ((int64_t *)p.out)[to + k * p.inner] = (int64_t)items[k].at;
    }
}

/* A block sorts a part of a line, and leaves its items in scratch. */
template <class K> GT_F void gt_sort_tiles(const gt_lines_params &p)
{
    typedef gt_item<typename K::U> item;
    GT_DYNAMIC_SHARED(item, items);
    int64_t tiles = (p.n + p.size - 1) / p.size;
    for (int64_t tile = blockIdx.x; tile < p.lines * tiles; tile += gridDim.x) {
        int64_t line = tile / tiles, first = (tile - line * tiles) * p.size;
        gt_sort_load<K>(p, line / p.inner * p.n * p.inner + line % p.inner, first, items);
        gt_sort_items(items, (int)p.size);
        for (int k = threadIdx.x; k < (int)p.size && first + k < p.n; k += blockDim.x)
            ((item *)p.scratch)[line * p.n + first + k] = items[k];
    }
}

/* Eight sorted runs of `size` items become one, from scratch to spare. A thread finds the place of its item: how many items of each run
 * come before it. */
template <class K> GT_F void gt_sort_merge(const gt_lines_params &p)
{
    typedef gt_item<typename K::U> item;
    enum { WAYS = 8 };
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.lines * p.n;
         i += (int64_t)gridDim.x * blockDim.x) {
        int64_t line = i / p.n, group = (i - line * p.n) / (WAYS * p.size) * (WAYS * p.size), place = group;
        const item *runs = (const item *)p.scratch + line * p.n + group;
        item x = ((const item *)p.scratch)[i];
        int64_t before[WAYS];
#pragma unroll
        for (int k = 0; k < WAYS; k++)
            before[k] = 0;
        for (int64_t step = p.size; step > 0; step /= 2) {
#pragma unroll
            for (int k = 0; k < WAYS; k++) {
                int64_t next = before[k] + step, at = k * p.size + next - 1;
                if (next <= p.size && group + at < p.n && gt_before(runs[at], x))
                    before[k] = next;
            }
        }
#pragma unroll
        for (int k = 0; k < WAYS; k++)
            place += before[k];
        if (p.count == 0)
            ((item *)p.spare)[line * p.n + place] = x;
        else if (place < p.kept)
            ((int64_t *)p.out)[line / p.inner * p.kept * p.inner + line % p.inner + place * p.inner] = (int64_t)x.at;
    }
}

/* A block sorts a line in memory, eight bits of the keys at a time from the lowest on; each pass keeps the order of equals.
 * scratch and spare hold n items for each block. */
template <class K> GT_F void gt_sort_digits(const gt_lines_params &p)
{
    typedef typename K::U U;
    typedef gt_item<U> item;
    enum { WARPS = 16 };
    __shared__ uint32_t start[256], counts[WARPS][256];
    item *from = (item *)p.scratch + (int64_t)blockIdx.x * p.n, *to = (item *)p.spare + (int64_t)blockIdx.x * p.n;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int64_t line = blockIdx.x; line < p.lines; line += gridDim.x) {
        int64_t outer = line / p.inner, base = outer * p.n * p.inner + line % p.inner;
        __syncthreads();
        for (int64_t k = threadIdx.x; k < p.n; k += blockDim.x) {
            item x = {gt_sort_key<K>(p, base, k), (uint32_t)k};
            from[k] = x;
        }
        for (int shift = 0; shift < (int)(8 * sizeof(U)); shift += 8) {
            __syncthreads();
            for (int d = threadIdx.x; d < 256; d += blockDim.x)
                start[d] = 0;
            __syncthreads();
            for (int64_t k = threadIdx.x; k < p.n; k += blockDim.x)
                atomicAdd(&start[(uint32_t)(from[k].order >> shift) & 255], 1u);
            __syncthreads();
            if (threadIdx.x == 0) {
                uint32_t before = 0;
                for (int d = 0; d < 256; d++) {
                    uint32_t here = start[d];
                    start[d] = before;
                    before += here;
                }
            }
            for (int64_t first = 0; first < p.n; first += blockDim.x) {
                for (int d = threadIdx.x; d < 256 * WARPS; d += blockDim.x)
                    counts[d / 256][d % 256] = 0;
                __syncthreads();
                int64_t k = first + threadIdx.x;
                item x = {0, 0};
                if (k < p.n)
                    x = from[k];
                uint32_t digit = k < p.n ? (uint32_t)(x.order >> shift) & 255 : 256;
                uint32_t equals = __match_any_sync(0xffffffffu, digit);
                uint32_t rank = (uint32_t)__popc(equals & ((1u << lane) - 1));
                if (rank == 0 && digit < 256)
                    counts[warp][digit] = (uint32_t)__popc(equals);
                __syncthreads();
                for (int d = threadIdx.x; d < 256; d += blockDim.x) {
                    uint32_t before = start[d];
                    for (int w = 0; w < WARPS; w++) {
                        uint32_t here = counts[w][d];
                        counts[w][d] = before;
                        before += here;
                    }
                    start[d] = before;
                }
                __syncthreads();
                if (digit < 256)
                    to[counts[warp][digit] + rank] = x;
                __syncthreads();
            }
            item *other = from;
            from = to;
            to = other;
        }
        __syncthreads();
        int64_t at = outer * p.kept * p.inner + line % p.inner;
        for (int64_t k = threadIdx.x; k < p.kept; k += blockDim.x)
            ((int64_t *)p.out)[at + k * p.inner] = (int64_t)from[k].at;
    }
}

/* ---- searches ----------------------------------------------------------------------------------------------- */

/* The number of elements of a sorted line that are less than a value, or (RIGHT) less or equal. NaN is the largest. */
template <class K> GT_F void gt_search(const gt_lines_params &p)
{
    typedef typename K::D D;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.count;
         i += (int64_t)gridDim.x * blockDim.x) {
        const typename D::raw *sorted = (const typename D::raw *)p.in + (p.per_line ? i / p.per_line * p.n : 0);
        typename D::T x = D::load(((const typename D::raw *)p.values)[i]);
        int64_t low = 0, high = p.n;
        while (low < high) {
            int64_t middle = (low + high) / 2;
            typename D::T s = D::load(sorted[middle]);
            bool before = K::RIGHT ? !(s > x) : !(s >= x);
            if (s != s)
                before = x != x;
            if (before)
                low = middle + 1;
            else
                high = middle;
        }
        ((int64_t *)p.out)[i] = low;
    }
}

/* ---- positions of true elements ----------------------------------------------------------------------------- */

enum { GT_MASK_ITEMS = 16 };

/* scratch[b]: true elements in block b of 4096 */
template <class K> GT_F void gt_mask_count(const gt_lines_params &p)
{
    int64_t all, first = (int64_t)blockIdx.x * 256 * GT_MASK_ITEMS, own = 0;
    for (int j = 0; j < GT_MASK_ITEMS; j++) {
        int64_t at = first + j * 256 + threadIdx.x;
        own += at < p.count && ((const uint8_t *)p.in)[at] != 0;
    }
    gt_scan_block<gt_scan_cumsum<int64_t>, 256>(own, &all);
    if (threadIdx.x == 0)
        ((int64_t *)p.scratch)[blockIdx.x] = all;
}

/* One block: counts to the numbers before each block. */
template <class K> GT_F void gt_mask_starts(const gt_lines_params &p)
{
    int64_t *counts = (int64_t *)p.scratch, carry = 0, all;
    for (int64_t first = 0; first < p.blocks; first += 256) {
        int64_t at = first + threadIdx.x, own = at < p.blocks ? counts[at] : 0;
        int64_t before = gt_scan_block<gt_scan_cumsum<int64_t>, 256>(own, &all);
        if (at < p.blocks)
            counts[at] = carry + before;
        carry += all;
    }
    if (threadIdx.x == 0 && carry != p.expected)
        gt_report(p.errors, 3, carry, p.expected, 0);
}

template <class K> GT_F void gt_mask_write(const gt_lines_params &p)
{
    int64_t all, first = ((int64_t)blockIdx.x * 256 + threadIdx.x) * GT_MASK_ITEMS, own = 0;
    const uint8_t *mask = (const uint8_t *)p.in;
    for (int j = 0; j < GT_MASK_ITEMS; j++)
        own += first + j < p.count && mask[first + j] != 0;
    int64_t at = ((const int64_t *)p.scratch)[blockIdx.x] + gt_scan_block<gt_scan_cumsum<int64_t>, 256>(own, &all);
    for (int j = 0; j < GT_MASK_ITEMS; j++)
        if (first + j < p.count && mask[first + j] != 0 && at < p.expected)
            ((int64_t *)p.out)[at++] = first + j;
}
)cuda"

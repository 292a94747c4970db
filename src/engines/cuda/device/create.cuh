R"cuda(
/*
 * create.cuh: elements that follow from their positions: arange, eye, triangles of matrices, random numbers. The random
 * numbers are those of core/random.c, operation by operation.
 */

struct gt_create_params {
    void *out;
    const void *in;
    gt_errors *errors;
    int64_t count;
    int64_t rows, columns; /* of the last two axes */
    int64_t diagonal;
    int64_t first, run, step; /* of a part of random numbers */
    uint64_t start[2];        /* arange: start and step; randint: low and range */
    uint64_t seed, stream;
};

#define GT_EACH_CREATED(i, count)                                                                                 \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (count);                                 \
         i += (int64_t)gridDim.x * blockDim.x)

/* In int64 or double, whatever the dtype. */
template <class K> GT_F void gt_arange(const gt_create_params &p)
{
    GT_EACH_CREATED(i, p.count)
    {
        int64_t number = p.first + i;
        if (K::REAL)
            ((typename K::DO::raw *)p.out)[i] =
                K::DO::store(gt_exact_add(*(const double *)&p.start[0], gt_exact_product((double)number, *(const double *)&p.start[1])));
        else
            ((typename K::DO::raw *)p.out)[i] = K::DO::store((int64_t)(p.start[0] + (uint64_t)number * p.start[1]));
    }
}

template <class K> GT_F void gt_eye(const gt_create_params &p)
{
    GT_EACH_CREATED(i, p.count)
        ((typename K::DO::raw *)p.out)[i] = K::DO::store((int32_t)(i / p.columns + p.diagonal == i % p.columns));
}

/* in is contiguous */
template <class K> GT_F void gt_triangle(const gt_create_params &p)
{
    typedef typename K::DO::raw raw;
    GT_EACH_CREATED(i, p.count)
    {
        int64_t row = i / p.columns, right = i - row * p.columns - row % p.rows;
        bool kept = K::LOWER ? right <= p.diagonal : right >= p.diagonal;
        raw nothing = {};
        ((raw *)p.out)[i] = kept ? ((const raw *)p.in)[i] : nothing;
    }
}

/* ---- random numbers ----------------------------------------------------------------------------------------- */

struct gt_philox_block {
    uint32_t word[4];
};

GT_F gt_philox_block gt_philox(uint64_t seed, uint64_t stream, uint64_t block)
{
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    uint32_t a = (uint32_t)block, b = (uint32_t)(block >> 32), c = (uint32_t)stream, d = (uint32_t)(stream >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        uint32_t high0 = gt_high_product(0xd2511f53u, a), low0 = 0xd2511f53u * a;
        uint32_t high1 = gt_high_product(0xcd9e8d57u, c), low1 = 0xcd9e8d57u * c;
        a = high1 ^ b ^ key0;
        b = low1;
        c = high0 ^ d ^ key1;
        d = low0;
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
    return {{a, b, c, d}};
}

/* log(x) for 0 < x <= 1 */
GT_F float gt_log_unit(float x)
{
    int32_t bits = (int32_t)gt_bits(x);
    int32_t exponent = (bits - 0x3f3504f3) >> 23;
    float m = gt_from_bits((uint32_t)(bits - exponent * (1 << 23)));
    float s = gt_exact_add(m, -1.0f) / gt_exact_add(m, 1.0f), s2 = gt_exact_product(s, s);
    float series = gt_exact_add(1.0f / 7, gt_exact_product(s2, 1.0f / 9));
    series = gt_exact_add(1.0f / 5, gt_exact_product(s2, series));
    series = gt_exact_add(1.0f / 3, gt_exact_product(s2, series));
    series = gt_exact_add(1.0f, gt_exact_product(s2, series));
    return gt_exact_add(gt_exact_product(gt_exact_product(2.0f, s), series),
                        gt_exact_product((float)exponent, 0.693147180559945309f));
}

/* sin and cos of 2 pi u for 0 <= u < 1 */
GT_F void gt_turn(float u, float *sine, float *cosine)
{
    int32_t quarter = (int32_t)gt_exact_add(gt_exact_product(u, 4.0f), 0.5f);
    float a = gt_exact_product(gt_exact_add(u, -gt_exact_product((float)quarter, 0.25f)), 6.28318530717958648f);
    float a2 = gt_exact_product(a, a);
    float s = gt_exact_add(-1.0f / 5040, gt_exact_product(a2, 1.0f / 362880));
    s = gt_exact_add(1.0f / 120, gt_exact_product(a2, s));
    s = gt_exact_add(-1.0f / 6, gt_exact_product(a2, s));
    s = gt_exact_product(a, gt_exact_add(1.0f, gt_exact_product(a2, s)));
    float c = gt_exact_add(-1.0f / 720, gt_exact_product(a2, 1.0f / 40320));
    c = gt_exact_add(1.0f / 24, gt_exact_product(a2, c));
    c = gt_exact_add(-1.0f / 2, gt_exact_product(a2, c));
    c = gt_exact_add(1.0f, gt_exact_product(a2, c));
    float power = gt_exact_product(gt_exact_product(gt_exact_product(gt_exact_product(a2, a2), a2), a2), a2);
    c = gt_exact_add(c, gt_exact_product(power, -1.0f / 3628800));
    float swapped_sine = quarter & 1 ? c : s, swapped_cosine = quarter & 1 ? s : c;
    *sine = quarter & 2 ? -swapped_sine : swapped_sine;
    *cosine = (quarter + 1) & 2 ? -swapped_cosine : swapped_cosine;
}

/* c + s x */
GT_F double gt_term(double c, double s, double x) { return gt_exact_add(c, gt_exact_product(s, x)); }

/* The same two functions for doubles. */
GT_F double gt_log_unit(double x)
{
    int64_t bits = (int64_t)gt_bits(x), exponent = (bits - 0x3fe6a09e667f3bcdLL) >> 52;
    double m = gt_from_bits((uint64_t)(bits - exponent * ((int64_t)1 << 52)));
    double s = gt_exact_add(m, -1.0) / gt_exact_add(m, 1.0), s2 = gt_exact_product(s, s);
    double series = 1.0 / 23;
    series = gt_term(1.0 / 21, s2, series);
    series = gt_term(1.0 / 19, s2, series);
    series = gt_term(1.0 / 17, s2, series);
    series = gt_term(1.0 / 15, s2, series);
    series = gt_term(1.0 / 13, s2, series);
    series = gt_term(1.0 / 11, s2, series);
    series = gt_term(1.0 / 9, s2, series);
    series = gt_term(1.0 / 7, s2, series);
    series = gt_term(1.0 / 5, s2, series);
    series = gt_term(1.0 / 3, s2, series);
    series = gt_term(1.0, s2, series);
    return gt_exact_add(gt_exact_product(gt_exact_product(2.0, s), series),
                        gt_exact_product((double)exponent, 0.693147180559945309417));
}

GT_F void gt_turn(double u, double *sine, double *cosine)
{
    int32_t quarter = (int32_t)gt_exact_add(gt_exact_product(u, 4.0), 0.5);
    double a = gt_exact_product(gt_exact_add(u, -gt_exact_product((double)quarter, 0.25)), 6.28318530717958647693);
    double a2 = gt_exact_product(a, a), s = 1.0 / 355687428096000LL;
    s = gt_term(-1.0 / 1307674368000LL, a2, s);
    s = gt_term(1.0 / 6227020800LL, a2, s);
    s = gt_term(-1.0 / 39916800, a2, s);
    s = gt_term(1.0 / 362880, a2, s);
    s = gt_term(-1.0 / 5040, a2, s);
    s = gt_term(1.0 / 120, a2, s);
    s = gt_term(-1.0 / 6, a2, s);
    s = gt_term(a, a, gt_exact_product(a2, s));
    double c = -1.0 / 6402373705728000LL;
    c = gt_term(1.0 / 20922789888000LL, a2, c);
    c = gt_term(-1.0 / 87178291200LL, a2, c);
    c = gt_term(1.0 / 479001600, a2, c);
    c = gt_term(-1.0 / 3628800, a2, c);
    c = gt_term(1.0 / 40320, a2, c);
    c = gt_term(-1.0 / 720, a2, c);
    c = gt_term(1.0 / 24, a2, c);
    c = gt_term(-1.0 / 2, a2, c);
    c = gt_term(1.0, a2, c);
    double swapped_sine = quarter & 1 ? c : s, swapped_cosine = quarter & 1 ? s : c;
    *sine = quarter & 2 ? -swapped_sine : swapped_sine;
    *cosine = (quarter + 1) & 2 ? -swapped_cosine : swapped_cosine;
}

GT_F float gt_unit_float(uint32_t word) { return (float)(int32_t)(word >> 8) * 5.9604644775390625e-08f; }
GT_F double gt_unit_double(uint64_t bits) { return (double)(int64_t)(bits >> 11) * 1.1102230246251565e-16; }

/* The four numbers of a block of float32 elements. */
template <class K> GT_F void gt_draw(const gt_create_params &p, uint64_t block, float *number)
{
    gt_philox_block drawn = gt_philox(p.seed, p.stream, block);
#pragma unroll
    for (int k = 0; k < 4; k++)
        number[k] = gt_unit_float(drawn.word[k]);
    if (K::NORMAL) {
#pragma unroll
        for (int k = 0; k < 4; k += 2) {
            float sine, cosine, radius = gt_sqrt(gt_exact_product(-2.0f, gt_log_unit(gt_exact_add(1.0f, -number[k]))));
            gt_turn(number[k + 1], &sine, &cosine);
            number[k] = gt_exact_product(radius, cosine);
            number[k + 1] = gt_exact_product(radius, sine);
        }
    }
}

/* The two numbers of a block of 64-bit elements. */
template <class K> GT_F void gt_draw(const gt_create_params &p, uint64_t block, double *number)
{
    gt_philox_block drawn = gt_philox(p.seed, p.stream, block);
#pragma unroll
    for (int k = 0; k < 2; k++)
        number[k] = gt_unit_double((uint64_t)drawn.word[2 * k + 1] << 32 | drawn.word[2 * k]);
    if (K::NORMAL) {
        double sine, cosine, radius = gt_sqrt(gt_exact_product(-2.0, gt_log_unit(gt_exact_add(1.0, -number[0]))));
        gt_turn(number[1], &sine, &cosine);
        number[0] = gt_exact_product(radius, cosine);
        number[1] = gt_exact_product(radius, sine);
    }
}

template <class K> GT_F void gt_draw(const gt_create_params &p, uint64_t block, int64_t *number)
{
    gt_philox_block drawn = gt_philox(p.seed, p.stream, block);
#pragma unroll
    for (int k = 0; k < 2; k++)
        number[k] = (int64_t)(p.start[0] +
                              gt_high_product((uint64_t)drawn.word[2 * k + 1] << 32 | drawn.word[2 * k], p.start[1]));
}

/* One thread makes the numbers of one block that lie in the tensor; in parts made of runs, one number. */
template <class K> GT_F void gt_random(const gt_create_params &p)
{
    typedef typename K::T T;
    typedef typename K::DO::raw raw;
    const int64_t N = sizeof(T) == 4 ? 4 : 2;
    T number[N];
    if (p.run) {
        GT_EACH_CREATED(i, p.count)
        {
            uint64_t element = (uint64_t)(p.first + i / p.run * p.step + i % p.run);
            gt_draw<K>(p, element / N, number);
            T chosen = number[0];
            for (int k = 1; k < N; k++)
                chosen = (int)(element % N) == k ? number[k] : chosen;
            ((raw *)p.out)[i] = K::DO::store(chosen);
        }
        return;
    }
    int64_t first = p.first / N, blocks = (p.first + p.count + N - 1) / N - first;
    GT_EACH_CREATED(i, blocks)
    {
        gt_draw<K>(p, (uint64_t)(first + i), number);
#pragma unroll
        for (int k = 0; k < N; k++) {
            int64_t at = (first + i) * N + k - p.first;
            if (at >= 0 && at < p.count)
                ((raw *)p.out)[at] = K::DO::store(number[k]);
        }
    }
}

/* For chains: numbers element, element + 1, ..., of which the first is a multiple of V. */
template <bool N> struct gt_random_kind {
    enum { NORMAL = N };
};
template <class D, bool NORMAL, int V>
GT_F void gt_random_vector(uint64_t seed, uint64_t stream, int64_t element, gt_vector<typename D::raw, V> *to)
{
    gt_create_params p;
    p.seed = seed;
    p.stream = stream;
    float number[4];
#pragma unroll
    for (int j = 0; j < V; j += 4) {
        gt_draw<gt_random_kind<NORMAL>>(p, (uint64_t)(element + j) / 4, number);
#pragma unroll
        for (int k = 0; k < 4 && j + k < V; k++) {
            float chosen = number[k];
            if constexpr (V < 4) {
                int at = (int)(element % 4) + k;
                chosen = at == 0 ? number[0] : at == 1 ? number[1] : at == 2 ? number[2] : number[3];
            }
            to->at[j + k] = D::store(chosen);
        }
    }
}

/* 1 with the probability of the element, which is contiguous; numbers as of rand. */
template <class K> GT_F void gt_bernoulli(const gt_create_params &p)
{
    typedef typename K::T T;
    typedef typename K::DO::raw raw;
    const int64_t N = sizeof(T) == 4 ? 4 : 2;
    GT_EACH_CREATED(i, (p.count + N - 1) / N)
    {
        T number[N];
        gt_draw<K>(p, (uint64_t)i, number);
#pragma unroll
        for (int k = 0; k < N; k++) {
            if (i * N + k >= p.count)
                continue;
            T chance = K::DO::load(((const raw *)p.in)[i * N + k]);
            if (!(chance >= 0 && chance <= 1))
                gt_report(p.errors, 4, 0, 0, 0);
            ((raw *)p.out)[i * N + k] = K::DO::store((int32_t)(number[k] < chance));
        }
    }
}
)cuda"

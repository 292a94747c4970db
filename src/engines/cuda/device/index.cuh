R"cuda(
/*
 * index.cuh: take, gather, scatter and its relatives, and checks of indices. An index out of range is reported and not used.
 */

struct gt_index_params {
    void *out;
    const void *in, *index, *src;
    gt_errors *errors;
    uint64_t value;  /* a literal src: a T */
    int64_t count;   /* positions; of lines: lines */
    int64_t axis, size, low;
    int64_t inner;   /* take: units in a row of the axis */
    int64_t indices; /* take */
    int64_t length;  /* along the axis */
    int64_t rank;
    int64_t shape[8];
    int64_t in_stride[8], index_stride[8], src_stride[8];
    int64_t in_axis, index_axis, src_axis; /* strides along the axis */
};

template <class K> GT_F bool gt_index_read(const gt_index_params &p, int64_t at, int64_t *index)
{
    *index = (int64_t)K::D1::load(((const typename K::D1::raw *)p.index)[at]);
    if (*index >= p.low && *index < p.size)
        return true;
    gt_report(p.errors, 2, *index, p.axis, p.size);
    return false;
}

/* The offsets in three views at position i. */
template <class K>
GT_F void gt_index_walk(const gt_index_params &p, int64_t i, int64_t *in, int64_t *index, int64_t *src)
{
    *in = *index = *src = 0;
    for (int axis = (int)p.rank - 1; axis >= 0; axis--) {
        int64_t next = axis == 0 ? 0 : K::WIDE ? i / p.shape[axis] : (int64_t)((uint32_t)i / (uint32_t)p.shape[axis]);
        int64_t within = i - next * p.shape[axis];
        *in += within * p.in_stride[axis];
        *index += within * p.index_stride[axis];
        *src += within * p.src_stride[axis];
        i = next;
    }
}

#define GT_EACH_POSITION(i, count)                                                                                \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (count);                                 \
         i += (int64_t)gridDim.x * blockDim.x)

/* out (outer, index, inner) = in (outer, size, inner), in units of D0's size. */
template <class K> GT_F void gt_take(const gt_index_params &p)
{
    typedef typename K::D0::raw raw;
    GT_EACH_POSITION(i, p.count)
    {
        int64_t row, within, outer, at, index;
        if (K::WIDE) {
            row = i / p.inner;
            outer = row / p.indices;
        } else {
            row = (uint32_t)i / (uint32_t)p.inner;
            outer = (uint32_t)row / (uint32_t)p.indices;
        }
        within = i - row * p.inner;
        at = row - outer * p.indices;
        if (gt_index_read<K>(p, at, &index)) {
            index += index < 0 ? p.size : 0;
            ((raw *)p.out)[i] = ((const raw *)p.in)[(outer * p.size + index) * p.inner + within];
        }
    }
}

/* out, contiguous, of index's shape = in at the index */
template <class K> GT_F void gt_gather(const gt_index_params &p)
{
    typedef typename K::D0::raw raw;
    GT_EACH_POSITION(i, p.count)
    {
        int64_t in, index_at, src, index;
        gt_index_walk<K>(p, i, &in, &index_at, &src);
        if (gt_index_read<K>(p, index_at, &index))
            ((raw *)p.out)[i] = ((const raw *)p.in)[in + index * p.in_axis];
    }
}

/* ---- scatter ------------------------------------------------------------------------------------------------ */

template <class K> GT_F typename K::T gt_scatter_source(const gt_index_params &p, int64_t at)
{
    if constexpr (K::LITERAL)
        return *(const typename K::T *)&p.value;
    else
        return K::D0::load(((const typename K::D0::raw *)p.src)[at]);
}

enum { GT_SCATTER_SUM, GT_SCATTER_PROD, GT_SCATTER_MEAN, GT_SCATTER_AMAX, GT_SCATTER_AMIN, GT_SCATTER_SET };

/* A wider type for what wraps around or is divided. */
template <class T> struct gt_wide {
    typedef T type;
};
template <> struct gt_wide<int32_t> {
    typedef int64_t type;
};

template <class K> GT_F typename K::T gt_scatter_first()
{
    typedef typename K::T T;
    if constexpr (K::KIND == GT_SCATTER_AMAX)
        return gt_traits<T>::integer ? (T)K::LEAST : gt_traits<T>::least();
    else if constexpr (K::KIND == GT_SCATTER_AMIN)
        return gt_traits<T>::integer ? (T)K::MOST : gt_traits<T>::most();
    else
        return (T)(K::KIND == GT_SCATTER_PROD);
}

template <class K> GT_F typename K::D0::raw gt_scatter_combine(typename K::D0::raw stored, typename K::T b)
{
    typedef typename K::T T;
    if constexpr (K::KIND == GT_SCATTER_SET) {
        return K::D0::store(b);
    } else {
        T a = K::D0::load(stored);
        if constexpr (K::KIND == GT_SCATTER_AMAX)
            return K::D0::store(b > a || b != b ? b : a);
        else if constexpr (K::KIND == GT_SCATTER_AMIN)
            return K::D0::store(b < a || b != b ? b : a);
        else if constexpr (K::KIND == GT_SCATTER_PROD)
            return K::D0::store(a * b);
        else
            return K::D0::store(a + b);
    }
}

/* One thread walks one line along the axis, in order: the same result as on the CPU. `out` has the old values. */
template <class K> GT_F void gt_scatter_lines(const gt_index_params &p)
{
    typedef typename K::D0::raw raw;
    GT_EACH_POSITION(line, p.count)
    {
        int64_t out, index_at, src, index;
        gt_index_walk<K>(p, line, &out, &index_at, &src);
        raw *to = (raw *)p.out + out;
        if constexpr (K::ALONE)
            for (int64_t k = 0; k < p.length; k++)
                if (gt_index_read<K>(p, index_at + k * p.index_axis, &index))
                    to[index * p.in_axis] = K::D0::store(gt_scatter_first<K>());
        for (int64_t k = 0; k < p.length; k++)
            if (gt_index_read<K>(p, index_at + k * p.index_axis, &index))
                to[index * p.in_axis] = gt_scatter_combine<K>(to[index * p.in_axis],
                                                              gt_scatter_source<K>(p, src + k * p.src_axis));
        if constexpr (K::KIND == GT_SCATTER_MEAN) {
            typedef typename gt_wide<typename K::T>::type W;
            int64_t other;
            for (int64_t k = 0; k < p.length; k++) { /* the first of equals divides, by their number */
                if (!gt_index_read<K>(p, index_at + k * p.index_axis, &index))
                    continue;
                int64_t count = K::ALONE ? 0 : 1;
                bool first = true;
                for (int64_t j = 0; j < p.length; j++)
                    if (gt_index_read<K>(p, index_at + j * p.index_axis, &other) && other == index) {
                        first &= j >= k;
                        count++;
                    }
                if (!first || count < 2)
                    continue;
                W sum = (W)K::D0::load(to[index * p.in_axis]);
                if (gt_traits<typename K::T>::integer)
                    sum = (W)((int64_t)sum / count - ((int64_t)sum % count < 0));
                else
                    sum = sum / (W)count;
                to[index * p.in_axis] = K::D0::store((typename K::T)sum);
            }
        }
    }
}

/* Sums of integers need no order. D0 is int32 or int64. */
GT_F void gt_atomic_add(int32_t *at, int32_t x) { atomicAdd((int *)at, (int)x); }
GT_F void gt_atomic_add(int64_t *at, int64_t x) { atomicAdd((unsigned long long *)at, (unsigned long long)x); }

template <class K> GT_F void gt_scatter_atomic(const gt_index_params &p)
{
    GT_EACH_POSITION(i, p.count)
    {
        int64_t out, index_at, src, index;
        gt_index_walk<K>(p, i, &out, &index_at, &src);
        if (gt_index_read<K>(p, index_at, &index))
            gt_atomic_add((typename K::D0::raw *)p.out + out + index * p.in_axis, gt_scatter_source<K>(p, src));
    }
}

/*
 * Sums, products and means of floats, in the order of their positions. index has the lines of indices without repeats, one after
 * the other, and in, int64, the positions of each line sorted by index. Threads are numbered by place in the sorted line, then by
 * line; the thread at the first of equal indices combines all of them, and rounds halves once, or after every step.
 */
template <class K> GT_F void gt_scatter_sorted(const gt_index_params &p)
{
    typedef typename K::D0::raw raw;
    GT_EACH_POSITION(i, p.count * p.length)
    {
        int64_t place = i / p.count, out, line, src, index, before;
        gt_index_walk<K>(p, i - place * p.count, &out, &line, &src);
        const int64_t *order = (const int64_t *)p.in + line;
        if (!gt_index_read<K>(p, line + order[place], &index))
            continue;
        if (place > 0 && gt_index_read<K>(p, line + order[place - 1], &before) && before == index)
            continue;
        raw *to = (raw *)p.out + out + index * p.in_axis;
        typename K::T sum = K::ALONE ? gt_scatter_first<K>() : K::D0::load(*to);
        int64_t k = place;
        for (; k < p.length; k++) {
            int64_t other = (int64_t)K::D1::load(((const typename K::D1::raw *)p.index)[line + order[k]]);
            if (other != index)
                break;
            typename K::T element = gt_scatter_source<K>(p, src + order[k] * p.src_axis);
            sum = K::KIND == GT_SCATTER_PROD ? sum * element : sum + element;
            if constexpr (K::STEPWISE)
                sum = K::D0::load(K::D0::store(sum));
        }
        if constexpr (K::KIND == GT_SCATTER_MEAN) /* both rounded, as in PyTorch */
            sum = K::D0::load(K::D0::store(sum)) /
                  K::D0::load(K::D0::store((typename K::T)(k - place + (K::ALONE ? 0 : 1))));
        *to = K::D0::store(sum);
    }
}

/* Which position writes each element: the last one. `in` points to a word for each element, 0 at first. */
template <class K> GT_F void gt_scatter_claim(const gt_index_params &p)
{
    GT_EACH_POSITION(i, p.count)
    {
        int64_t out, index_at, src, index;
        gt_index_walk<K>(p, i, &out, &index_at, &src);
        if (gt_index_read<K>(p, index_at, &index))
            atomicMax((uint32_t *)p.in + out + index * p.in_axis, (uint32_t)i + 1);
    }
}

template <class K> GT_F void gt_scatter_write(const gt_index_params &p)
{
    GT_EACH_POSITION(i, p.count)
    {
        int64_t out, index_at, src, index;
        gt_index_walk<K>(p, i, &out, &index_at, &src);
        if (gt_index_read<K>(p, index_at, &index) &&
            ((const uint32_t *)p.in)[out + index * p.in_axis] == (uint32_t)i + 1)
            ((typename K::D0::raw *)p.out)[out + index * p.in_axis] = K::D0::store(gt_scatter_source<K>(p, src));
    }
}

/* out, int64 = index, wrapped */
template <class K> GT_F void gt_wrap_index(const gt_index_params &p)
{
    GT_EACH_POSITION(i, p.count)
    {
        int64_t in, index_at, src, index;
        gt_index_walk<K>(p, i, &in, &index_at, &src);
        if (gt_index_read<K>(p, index_at, &index))
            ((int64_t *)p.out)[i] = index < 0 ? index + p.size : index;
    }
}
)cuda"

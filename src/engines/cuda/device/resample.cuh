R"cuda(
/*
 * resample.cuh: one axis of a tensor with another number of elements, each from at most four; and the gradient. Tensors are
 * contiguous: (outer, size, inner). Positions and weights as in the reference engine.
 */

struct gt_resample_params {
    void *out;
    const void *in;
    int64_t count;
    int64_t size;   /* of the source's axis */
    int64_t longer; /* of the other side's */
    int64_t inner;
    int64_t aligned;
    double step;
};

enum { GT_NEAREST, GT_NEAREST_EXACT, GT_LINEAR };

GT_F int64_t gt_clamped(int64_t at, int64_t size) { return at < 0 ? 0 : at >= size ? size - 1 : at; }

GT_F double gt_cubic(double distance)
{
    double t = fabs(distance);
    return t <= 1 ? (1.25 * t - 2.25) * t * t + 1 : t < 2 ? ((-0.75 * t + 3.75) * t - 6) * t + 3 : 0;
}

GT_F double gt_resample_position(const gt_resample_params &p, int64_t o)
{
    return p.aligned ? (double)o * p.step : ((double)o + 0.5) * p.step - 0.5;
}

/* The sources of element o and their weights; returns how many. */
template <int MODE> GT_F int gt_sources(const gt_resample_params &p, int64_t o, int64_t *at, double *weight)
{
    double position = gt_resample_position(p, o);
    if constexpr (MODE == GT_NEAREST || MODE == GT_NEAREST_EXACT) {
        float scaled = gt_exact_product((float)o + (MODE == GT_NEAREST ? 0.0f : 0.5f), (float)p.step);
        at[0] = gt_clamped((int64_t)floorf(scaled), p.size);
        weight[0] = 1;
        return 1;
    } else if constexpr (MODE == GT_LINEAR) {
        position = position < 0 ? 0 : position;
        at[0] = gt_clamped((int64_t)position, p.size);
        at[1] = gt_clamped(at[0] + 1, p.size);
        weight[1] = position - (double)at[0] < 1 ? position - (double)at[0] : 1;
        weight[0] = 1 - weight[1];
        return 2;
    } else {
        double whole = floor(position);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            at[k] = gt_clamped((int64_t)whole + k - 1, p.size);
            weight[k] = gt_cubic(position - whole - k + 1);
        }
        return 4;
    }
}

#define GT_EACH_SAMPLE(i, count)                                                                                  \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (count);                                 \
         i += (int64_t)gridDim.x * blockDim.x)

template <class K> GT_F void gt_resample(const gt_resample_params &p)
{
    typedef typename K::T T;
    GT_EACH_SAMPLE(i, p.count)
    {
        int64_t within = i % p.inner, o = i / p.inner % p.longer, outer = i / p.inner / p.longer, at[4];
        double weight[4];
        int sources = gt_sources<K::MODE>(p, o, at, weight);
        T sum = 0;
        for (int k = 0; k < sources; k++)
            sum += gt_convert<T>::from(K::D::load(((const typename K::D::raw *)p.in)[(outer * p.size + at[k]) * p.inner + within])) *
                   (T)weight[k];
        ((typename K::DO::raw *)p.out)[i] = K::DO::store(sum);
    }
}

/* The sum over the elements that have this one as a source. They are neighbours, except at the ends of the axis. */
template <class K> GT_F void gt_resample_input(const gt_resample_params &p)
{
    typedef typename K::T T;
    GT_EACH_SAMPLE(i, p.count)
    {
        int64_t within = i % p.inner, self = i / p.inner % p.size, outer = i / p.inner / p.size, at[4];
        double weight[4], reach = 3;
        int64_t first = 0, last = p.longer - 1;
        if (p.step > 0) {
            double low = ((double)self - reach) / p.step - 1, high = ((double)self + reach + 1) / p.step + 1;
            if (self > 0 && low > 0)
                first = (int64_t)low;
            if (self < p.size - 1 && high < (double)last)
                last = (int64_t)high;
        }
        T sum = 0;
        for (int64_t o = first; o <= last; o++) {
            int sources = gt_sources<K::MODE>(p, o, at, weight);
            for (int k = 0; k < sources; k++)
                if (at[k] == self)
                    sum += gt_convert<T>::from(
                               K::D::load(((const typename K::D::raw *)p.in)[(outer * p.longer + o) * p.inner + within])) *
                           (T)weight[k];
        }
        ((typename K::DO::raw *)p.out)[i] = K::DO::store(sum);
    }
}
)cuda"

R"cuda(
/*
 * window.cuh: convolutions, pooling, im2col. core/window.h says where windows lie. Tensors are contiguous; there are always three
 * spatial axes, the first of them with one element where a record has fewer.
 */

struct gt_window_params {
    void *out;
    const void *in[3];
    void *scratch;
    int64_t count;              /* elements of the result, or of what threads are numbered by */
    int64_t planes;             /* everything before the spatial axes */
    int32_t x_size[3], y_size[3]; /* the long side and the windows */
    int32_t kernel[3], stride[3], padding[3], dilation[3];
    int32_t groups, images;
    int32_t x_channels, y_channels; /* of a group */
    int32_t parts, share;           /* conv_weight: of the sums */
    int32_t has_bias, count_padding;
    double divisor;
};

GT_F int gt_volume(const int32_t *size) { return size[0] * size[1] * size[2]; }

GT_F void gt_split(const int32_t *size, int flat, int *index)
{
    index[2] = flat % size[2];
    flat /= size[2];
    index[1] = flat % size[1];
    index[0] = flat / size[1];
}

GT_F int gt_join(const int32_t *size, const int *index) { return (index[0] * size[1] + index[1]) * size[2] + index[2]; }

/* ---- convolutions: products of matrices whose elements are found by their indices ---------------------------- */

/* The element of x in window o under kernel element k; 0 in the padding. */
template <class K> GT_F typename K::T gt_conv_x(const gt_window_params &p, const typename K::DX::raw *x, int o, int k)
{
    int window[3], at[3], under[3];
    gt_split(p.y_size, o, window);
    gt_split(p.kernel, k, under);
#pragma unroll
    for (int axis = 0; axis < 3; axis++) {
        at[axis] = window[axis] * p.stride[axis] - p.padding[axis] + under[axis] * p.dilation[axis];
        if (at[axis] < 0 || at[axis] >= p.x_size[axis])
            return 0;
    }
    return gt_convert<typename K::T>::from(K::DX::load(x[gt_join(p.x_size, at)]));
}

/* The element of y in the window that has position i under kernel element k; 0 if there is none. */
template <class K> GT_F typename K::T gt_conv_y(const gt_window_params &p, const typename K::DY::raw *y, int i, int k)
{
    int at[3], window[3], under[3];
    gt_split(p.x_size, i, at);
    gt_split(p.kernel, k, under);
#pragma unroll
    for (int axis = 0; axis < 3; axis++) {
        int from = at[axis] + p.padding[axis] - under[axis] * p.dilation[axis];
        window[axis] = from / p.stride[axis];
        if (from < 0 || window[axis] * p.stride[axis] != from || window[axis] >= p.y_size[axis])
            return 0;
    }
    return gt_convert<typename K::T>::from(K::DY::load(y[gt_join(p.y_size, window)]));
}

enum { GT_CONV, GT_CONV_INPUT, GT_CONV_WEIGHT };

/* Rows and columns of the product, and the length of the sums. */
template <class K> struct gt_conv_sizes {
    int rows, columns, length, X, Y, V;
    GT_F gt_conv_sizes(const gt_window_params &p)
    {
        X = gt_volume(p.x_size);
        Y = gt_volume(p.y_size);
        V = gt_volume(p.kernel);
        rows = K::KIND == GT_CONV ? p.images * Y : K::KIND == GT_CONV_INPUT ? p.images * X : p.y_channels;
        columns = K::KIND == GT_CONV ? p.y_channels : K::KIND == GT_CONV_INPUT ? p.x_channels : p.x_channels * V;
        length = K::KIND == GT_CONV ? p.x_channels * V : K::KIND == GT_CONV_INPUT ? p.y_channels * V : p.images * Y;
    }
};

template <class K>
GT_F typename K::T gt_conv_left(const gt_window_params &p, const gt_conv_sizes<K> &n, int group, int row, int k)
{
    const typename K::DX::raw *x = (const typename K::DX::raw *)p.in[K::X_AT];
    const typename K::DY::raw *y = (const typename K::DY::raw *)p.in[0];
    if constexpr (K::KIND == GT_CONV) {
        int64_t image = row / n.Y, channel = k / n.V;
        return gt_conv_x<K>(p, x + ((image * p.groups + group) * p.x_channels + channel) * n.X, row % n.Y, k % n.V);
    } else if constexpr (K::KIND == GT_CONV_INPUT) {
        int64_t image = row / n.X, channel = k / n.V;
        return gt_conv_y<K>(p, y + ((image * p.groups + group) * p.y_channels + channel) * n.Y, row % n.X, k % n.V);
    } else {
        int64_t image = k / n.Y;
        return gt_convert<typename K::T>::from(
            K::DY::load(y[((image * p.groups + group) * p.y_channels + row) * n.Y + k % n.Y]));
    }
}

template <class K>
GT_F typename K::T gt_conv_right(const gt_window_params &p, const gt_conv_sizes<K> &n, int group, int k, int column)
{
    typedef typename K::T T;
    if constexpr (K::KIND == GT_CONV_WEIGHT) {
        const typename K::DX::raw *x = (const typename K::DX::raw *)p.in[K::X_AT];
        int64_t image = k / n.Y, channel = column / n.V;
        return gt_conv_x<K>(p, x + ((image * p.groups + group) * p.x_channels + channel) * n.X, k % n.Y, column % n.V);
    } else {
        const typename K::DW::raw *weight = (const typename K::DW::raw *)p.in[1];
        int64_t at;
        if constexpr (K::KIND == GT_CONV)
            at = ((int64_t)group * p.y_channels + column) * n.length + k;
        else
            at = (((int64_t)group * p.y_channels + k / n.V) * p.x_channels + column) * n.V + k % n.V;
        return gt_convert<T>::from(K::DW::load(weight[at]));
    }
}

template <class K>
GT_F void gt_conv_store(const gt_window_params &p, const gt_conv_sizes<K> &n, int group, int part, int row, int column,
                        typename K::T sum)
{
    typedef typename K::T T;
    int64_t at;
    int channel = 0;
    if constexpr (K::KIND == GT_CONV_WEIGHT) {
        at = ((int64_t)group * p.y_channels + row) * n.columns + column;
        if (p.parts > 1) {
            ((T *)p.scratch)[part * p.count + at] = sum;
            return;
        }
    } else {
        const int plane = K::KIND == GT_CONV ? n.Y : n.X;
        channel = group * n.columns + column;
        at = ((int64_t)(row / plane) * p.groups * n.columns + channel) * plane + row % plane;
        if (p.has_bias)
            sum += gt_convert<T>::from(K::DB::load(((const typename K::DB::raw *)p.in[2])[channel]));
    }
    ((typename K::DO::raw *)p.out)[at] = K::DO::store(sum);
}

/* 64 rows and 64 columns a block; blockIdx.z is the group, and the part of the sums. */
template <class K> GT_F void gt_conv(const gt_window_params &p)
{
    typedef typename K::T T;
    enum { SIDE = 64, DEPTH = 16 };
    __shared__ T left[DEPTH][SIDE + 1], right[DEPTH][SIDE + 1];
    gt_conv_sizes<K> n(p);
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    int group = blockIdx.z / p.parts, part = blockIdx.z % p.parts;
    int first_row = blockIdx.x * SIDE, first_column = blockIdx.y * SIDE;
    int begin = part * p.share, end = p.parts > 1 && p.share < n.length - begin ? begin + p.share : n.length;
    T sum[4][4];
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            sum[i][j] = 0;
    for (int k = begin; k < end; k += DEPTH) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            /* neighbouring threads read neighbouring elements */
            int lk = K::KIND == GT_CONV_WEIGHT ? tx : threadIdx.x / SIDE + 4 * i;
            int lr = K::KIND == GT_CONV_WEIGHT ? ty + 16 * i : threadIdx.x % SIDE;
            bool inside = first_row + lr < n.rows && k + lk < end;
            left[lk][lr] = inside ? gt_conv_left<K>(p, n, group, first_row + lr, k + lk) : (T)0;
            inside = first_column + ty + 16 * i < n.columns && k + tx < end;
            right[tx][ty + 16 * i] = inside ? gt_conv_right<K>(p, n, group, k + tx, first_column + ty + 16 * i) : (T)0;
        }
        __syncthreads();
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
            T a[4], b[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                a[i] = left[d][tx + 16 * i];
                b[i] = right[d][ty + 16 * i];
            }
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    sum[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (first_row + tx + 16 * i < n.rows && first_column + ty + 16 * j < n.columns)
                gt_conv_store<K>(p, n, group, part, first_row + tx + 16 * i, first_column + ty + 16 * j, sum[i][j]);
}

#define GT_EACH_ELEMENT(i, count)                                                                                 \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (count);                                 \
         i += (int64_t)gridDim.x * blockDim.x)

template <class K> GT_F void gt_conv_finish(const gt_window_params &p)
{
    typedef typename K::T T;
    GT_EACH_ELEMENT(i, p.count)
    {
        T sum = 0;
        for (int part = 0; part < p.parts; part++)
            sum += ((const T *)p.scratch)[part * p.count + i];
        ((typename K::DO::raw *)p.out)[i] = K::DO::store(sum);
    }
}

/* ---- pooling ------------------------------------------------------------------------------------------------ */

struct gt_span {
    int first, end, step;
};

/* Positions of window o along an axis, padding included; a kernel of 0 divides the axis evenly. */
GT_F gt_span gt_window_along(const gt_window_params &p, int axis, int o)
{
    if (p.kernel[axis] == 0) {
        int64_t in = p.x_size[axis], windows = p.y_size[axis];
        return {(int)(o * in / windows), (int)(((o + 1) * in + windows - 1) / windows), 1};
    }
    int first = o * p.stride[axis] - p.padding[axis];
    return {first, first + (p.kernel[axis] - 1) * p.dilation[axis] + 1, p.dilation[axis]};
}

/* Calls f(position in the plane) for each element of a window. */
template <class F> GT_F void gt_each_in_window(const gt_window_params &p, const int *window, F f)
{
    gt_span a = gt_window_along(p, 0, window[0]), b = gt_window_along(p, 1, window[1]);
    gt_span c = gt_window_along(p, 2, window[2]);
    for (int i = a.first; i < a.end; i += a.step)
        for (int j = b.first; j < b.end; j += b.step)
            for (int k = c.first; k < c.end; k += c.step)
                if (i >= 0 && i < p.x_size[0] && j >= 0 && j < p.x_size[1] && k >= 0 && k < p.x_size[2])
                    f((i * p.x_size[1] + j) * p.x_size[2] + k);
}

/* Candidates for windows that have position i along an axis: window number `which`, or -1. */
GT_F int gt_windows_of(const gt_window_params &p, int axis, int i)
{
    int64_t in = p.x_size[axis], windows = p.y_size[axis];
    if (p.kernel[axis])
        return p.kernel[axis];
    return (int)(((i + 1) * windows + in - 1) / in - 1 - i * windows / in + 1);
}

GT_F int gt_window_of(const gt_window_params &p, int axis, int i, int which)
{
    if (p.kernel[axis] == 0)
        return (int)((int64_t)i * p.y_size[axis] / p.x_size[axis]) + which;
    int from = i + p.padding[axis] - which * p.dilation[axis], o = from / p.stride[axis];
    return from >= 0 && o * p.stride[axis] == from && o < p.y_size[axis] ? o : -1;
}

/* Calls f(number of the window) for each window that has an element. */
template <class F> GT_F void gt_each_window_of(const gt_window_params &p, const int *at, F f)
{
    int n0 = gt_windows_of(p, 0, at[0]), n1 = gt_windows_of(p, 1, at[1]), n2 = gt_windows_of(p, 2, at[2]);
    for (int i = 0; i < n0; i++) {
        int a = gt_window_of(p, 0, at[0], i);
        for (int j = 0; a >= 0 && j < n1; j++) {
            int b = gt_window_of(p, 1, at[1], j);
            for (int k = 0; b >= 0 && k < n2; k++) {
                int c = gt_window_of(p, 2, at[2], k), window[3] = {a, b, c};
                if (c >= 0)
                    f(window);
            }
        }
    }
}

template <class T> GT_F T gt_window_divisor(const gt_window_params &p, const int *window)
{
    int64_t padded = 1, inside = 1;
    if (p.divisor != 0)
        return (T)p.divisor;
#pragma unroll
    for (int axis = 0; axis < 3; axis++) {
        gt_span s = gt_window_along(p, axis, window[axis]);
        int in = p.x_size[axis], reach = in + (p.kernel[axis] ? p.padding[axis] : 0);
        padded *= (s.end < reach ? s.end : reach) - s.first;
        inside *= (s.end < in ? s.end : in) - (s.first > 0 ? s.first : 0);
    }
    return (T)(p.count_padding ? padded : inside);
}

template <class K> GT_F void gt_avg_pool(const gt_window_params &p)
{
    typedef typename K::T T;
    int X = gt_volume(p.x_size), Y = gt_volume(p.y_size);
    GT_EACH_ELEMENT(i, p.count)
    {
        const typename K::DX::raw *x = (const typename K::DX::raw *)p.in[0] + i / Y * X;
        int window[3];
        T sum = 0;
        bool empty = true; /* a window in the padding: 0 */
        gt_split(p.y_size, (int)(i % Y), window);
        gt_each_in_window(p, window, [&](int at) {
            sum += gt_convert<T>::from(K::DX::load(x[at]));
            empty = false;
        });
        ((typename K::DO::raw *)p.out)[i] = K::DO::store(empty ? (T)0 : sum / gt_window_divisor<T>(p, window));
    }
}

template <class K> GT_F void gt_avg_pool_input(const gt_window_params &p)
{
    typedef typename K::T T;
    int X = gt_volume(p.x_size), Y = gt_volume(p.y_size);
    GT_EACH_ELEMENT(i, p.count)
    {
        const typename K::DX::raw *y = (const typename K::DX::raw *)p.in[0] + i / X * Y;
        int at[3];
        T sum = 0;
        gt_split(p.x_size, (int)(i % X), at);
        gt_each_window_of(p, at, [&](const int *window) {
            sum += gt_convert<T>::from(K::DX::load(y[gt_join(p.y_size, window)])) / gt_window_divisor<T>(p, window);
        });
        ((typename K::DO::raw *)p.out)[i] = K::DO::store(sum);
    }
}

/* Where in its plane the first largest element of window i is; the last NaN, if there is one. -1: only padding. */
template <class K> GT_F int gt_largest(const gt_window_params &p, const typename K::DX::raw *x, const int *window)
{
    typename K::DX::T best = 0;
    int found = -1;
    gt_each_in_window(p, window, [&](int at) {
        typename K::DX::T number = K::DX::load(x[at]);
        if (found < 0 || number != number || number > best) {
            if (found < 0 || number != number || !(best != best)) {
                best = number;
                found = at;
            }
        }
    });
    return found;
}

/* a, x: a at the place of x's largest; or that place itself, as int64 or, for the next kernel, int32. */
template <class K> GT_F void gt_max_pool(const gt_window_params &p)
{
    int X = gt_volume(p.x_size), Y = gt_volume(p.y_size);
    GT_EACH_ELEMENT(i, p.count)
    {
        int64_t plane = i / Y * X;
        int window[3];
        gt_split(p.y_size, (int)(i % Y), window);
        int found = gt_largest<K>(p, (const typename K::DX::raw *)p.in[K::X_AT] + plane, window);
        if constexpr (K::KIND == 0) {
            typename K::DO::raw nothing = {};
            ((typename K::DO::raw *)p.out)[i] = found < 0 ? nothing : ((const typename K::DO::raw *)p.in[0])[plane + found];
        } else if constexpr (K::KIND == 1) {
            ((int64_t *)p.out)[i] = found < 0 ? 0 : found;
        } else {
            ((int32_t *)p.scratch)[i] = found;
        }
    }
}

/* y: the sum of y over the windows whose largest element this is. */
template <class K> GT_F void gt_max_pool_input(const gt_window_params &p)
{
    typedef typename K::T T;
    int X = gt_volume(p.x_size), Y = gt_volume(p.y_size);
    GT_EACH_ELEMENT(i, p.count)
    {
        int64_t plane = i / X * Y;
        int at[3], self = (int)(i % X);
        T sum = 0;
        gt_split(p.x_size, self, at);
        gt_each_window_of(p, at, [&](const int *window) {
            int64_t number = plane + gt_join(p.y_size, window);
            if (((const int32_t *)p.scratch)[number] == self)
                sum += gt_convert<T>::from(K::DX::load(((const typename K::DX::raw *)p.in[0])[number]));
        });
        ((typename K::DO::raw *)p.out)[i] = K::DO::store(sum);
    }
}

/* ---- im2col: (planes, kernel, windows) ---------------------------------------------------------------------- */

template <class K> GT_F void gt_im2col(const gt_window_params &p)
{
    int X = gt_volume(p.x_size), Y = gt_volume(p.y_size), V = gt_volume(p.kernel);
    GT_EACH_ELEMENT(i, p.count)
    {
        int64_t plane = i / Y / V;
        int window[3], under[3], at[3];
        bool inside = true;
        gt_split(p.y_size, (int)(i % Y), window);
        gt_split(p.kernel, (int)(i / Y % V), under);
#pragma unroll
        for (int axis = 0; axis < 3; axis++) {
            at[axis] = window[axis] * p.stride[axis] - p.padding[axis] + under[axis] * p.dilation[axis];
            inside &= at[axis] >= 0 && at[axis] < p.x_size[axis];
        }
        typename K::DO::raw nothing = {};
        ((typename K::DO::raw *)p.out)[i] =
            inside ? ((const typename K::DO::raw *)p.in[0])[plane * X + gt_join(p.x_size, at)] : nothing;
    }
}

template <class K> GT_F void gt_col2im(const gt_window_params &p)
{
    typedef typename K::T T;
    int X = gt_volume(p.x_size), Y = gt_volume(p.y_size), V = gt_volume(p.kernel);
    GT_EACH_ELEMENT(i, p.count)
    {
        int64_t plane = i / X * V * Y;
        int at[3];
        T sum = 0;
        gt_split(p.x_size, (int)(i % X), at);
        for (int k = 0; k < V; k++) {
            int under[3], window[3] = {0, 0, 0};
            bool meets = true;
            gt_split(p.kernel, k, under);
#pragma unroll
            for (int axis = 0; axis < 3; axis++) {
                window[axis] = gt_window_of(p, axis, at[axis], under[axis]);
                meets &= window[axis] >= 0;
            }
            if (meets)
                sum += gt_convert<T>::from(
                    K::DX::load(((const typename K::DX::raw *)p.in[0])[plane + (int64_t)k * Y + gt_join(p.y_size, window)]));
        }
        ((typename K::DO::raw *)p.out)[i] = K::DO::store(sum);
    }
}
)cuda"

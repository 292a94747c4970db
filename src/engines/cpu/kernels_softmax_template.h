/*
 * kernels_softmax_template.h: a template: softmax, its logarithm and their gradients. kernels.c includes it for float and for
 * double, with T and SUFFIX defined and a function exps_below for each. softmax.c is the user.
 *
 * Everything is shifted by the largest element, so no exponential exceeds 1; sums are gathered in double over tiles.
 */

#define KERNEL(name) GLUE(name, SUFFIX)

static void KERNEL(softmax_row)(void *out, const void *xs, int64_t count, bool logarithm, gt_look *look)
{
    T unused[GT_TILE], *to = out;
    const T *x = xs, most = KERNEL(block_max)(x, count, 0);
    double sum = 0;
    for (int64_t i = 0; i < count; i += GT_TILE) {
        int64_t tile = count - i < GT_TILE ? count - i : GT_TILE;
        if (gt__look_due(look, tile))
            return;
        sum += (double)KERNEL(exps_below)(logarithm ? unused : to + i, x + i, tile, most);
    }
    const T scale = logarithm ? (T)log(sum) : (T)(1 / sum);
    if (logarithm)
        INDEPENDENT for (int64_t i = 0; i < count; i++) to[i] = (x[i] - most) - scale;
    else
        INDEPENDENT for (int64_t i = 0; i < count; i++) to[i] *= scale;
}

/* All rows, with a look in front of every `part` of them. */
#define FOR_ROWS(i)                                                                                               \
    for (int64_t from_ = 0, to_; from_ < rows; from_ = to_)                                                       \
        if (to_ = rows - from_ < part ? rows : from_ + part, gt__look_due(look, (to_ - from_) * width))           \
            return;                                                                                               \
        else                                                                                                      \
            for (int64_t i = from_; i < to_; i++)

static void KERNEL(softmax_column)(void *out, int64_t out_stride, const void *xs, int64_t stride, int64_t rows,
                                   int64_t width, bool logarithm, gt_look *look)
{
    T most[GT_SOFTMAX_COLUMNS], scale[GT_SOFTMAX_COLUMNS], exps[GT_SOFTMAX_COLUMNS], *to = out;
    double sum[GT_SOFTMAX_COLUMNS];
    const int64_t part = GT_LOOK_ELEMENTS / width;
    const T *x = xs;
    for (int64_t j = 0; j < width; j++) {
        most[j] = x[j];
        sum[j] = 0;
    }
    FOR_ROWS(i)
    INDEPENDENT for (int64_t j = 0; j < width; j++) most[j] = MAXIMUM(x[i * stride + j], most[j]);
    FOR_ROWS(i)
    {
        T *row = logarithm ? exps : to + i * out_stride;
        INDEPENDENT for (int64_t j = 0; j < width; j++) row[j] = EXP(x[i * stride + j] - most[j]);
        INDEPENDENT for (int64_t j = 0; j < width; j++) sum[j] += (double)row[j];
    }
    for (int64_t j = 0; j < width; j++)
        scale[j] = (T)(logarithm ? log(sum[j]) : 1 / sum[j]);
    FOR_ROWS(i)
    {
        T *row = to + i * out_stride;
        if (logarithm)
            INDEPENDENT for (int64_t j = 0; j < width; j++) row[j] = (x[i * stride + j] - most[j]) - scale[j];
        else
            INDEPENDENT for (int64_t j = 0; j < width; j++) row[j] *= scale[j];
    }
}

/* softmax: y (g - sum(g y));  log_softmax: g - exp(y) sum(g) */
static void KERNEL(softmax_backward_row)(void *out, const void *gs, const void *ys, int64_t count, bool logarithm,
                                         gt_look *look)
{
    T tile[GT_TILE], *to = out;
    const T *g = gs, *y = ys;
    double sum = 0;
    for (int64_t i = 0; i < count; i += GT_TILE) {
        int64_t part = count - i < GT_TILE ? count - i : GT_TILE;
        if (gt__look_due(look, part))
            return;
        if (!logarithm)
            INDEPENDENT for (int64_t k = 0; k < part; k++) tile[k] = g[i + k] * y[i + k];
        sum += (double)KERNEL(block_sum)(logarithm ? g + i : tile, part, 0);
    }
    const T total = (T)sum;
    for (int64_t i = 0; i < count; i += GT_TILE) {
        int64_t part = count - i < GT_TILE ? count - i : GT_TILE;
        if (gt__look_due(look, part))
            return;
        if (logarithm)
            KERNEL(exps_below)(tile, y + i, part, 0);
        if (logarithm)
            INDEPENDENT for (int64_t k = 0; k < part; k++) to[i + k] = g[i + k] - tile[k] * total;
        else
            INDEPENDENT for (int64_t k = 0; k < part; k++) to[i + k] = y[i + k] * (g[i + k] - total);
    }
}

#undef FOR_ROWS
#undef KERNEL
#undef T
#undef SUFFIX

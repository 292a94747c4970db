/*
 * kernels_pool_template.h: a template: pooling of one plane. kernels_template.h includes it for every type with FOLDS and
 * lends it its macros. kernels.h says what the arguments mean, pool.c makes them.
 *
 * Output rows are built tap by tap, so that the inner loops run along a row and become vectors; a stride of 1
 * or 2 is a constant to the compiler.
 */

/* What a row of x costs, in one row of windows. */
#define ROW_ELEMENTS(w) ((w)->even ? (w)->taps * (w)->out : (w)->in + (w)->out)

/* best and arg: one row; `row` is where this row of x is in the plane. */
static inline __attribute__((always_inline)) void KERNEL(max_tap)(const T *x, int64_t count, int64_t stride,
                                                                  int32_t at, T *best, int32_t *arg)
{
    if (!arg) {
        INDEPENDENT
        for (int64_t o = 0; o < count; o++) {
            T value = x[o * stride];
            best[o] = value > best[o] || value != value ? value : best[o];
        }
        return;
    }
    INDEPENDENT
    for (int64_t o = 0; o < count; o++) {
        T value = x[o * stride];
        bool take = (value > best[o]) | (value != value) | (arg[o] < 0);
        best[o] = take ? value : best[o];
        arg[o] = take ? at + (int32_t)(o * stride) : arg[o];
    }
}

static inline __attribute__((always_inline)) void KERNEL(max_row)(const gt_pool_axis *w, const T *x, int64_t row,
                                                                  T *best, int32_t *arg, gt_look *look)
{
    bool is_long = look && w->even && ROW_ELEMENTS(w) > GT_LOOK_ELEMENTS;
    if (look && gt__look_due(look, is_long ? 0 : ROW_ELEMENTS(w)))
        return;
    for (int64_t k = 0; w->even && k < w->taps; k++) {
        int64_t low = w->low[k], count = w->high[k] - low, at = row + w->start[k] + low * w->stride;
        if (is_long && gt__look_due(look, count))
            return;
        int32_t *places = arg ? arg + low : NULL;
        if (w->stride == 1)
            KERNEL(max_tap)(x + at, count, 1, (int32_t)at, best + low, places);
        else if (w->stride == 2)
            KERNEL(max_tap)(x + at, count, 2, (int32_t)at, best + low, places);
        else
            KERNEL(max_tap)(x + at, count, w->stride, (int32_t)at, best + low, places);
    }
    for (int64_t o = 0; !w->even && o < w->out; o++)
        for (int64_t i = w->begin[o]; i < w->end[o]; i += w->step)
            KERNEL(max_tap)(x + row + i, 1, 1, (int32_t)(row + i), best + o, arg ? arg + o : NULL);
}

/* Before a row of windows: whether the work was cancelled. *inner: what its rows of x look at, NULL if they take little time. */
static inline bool KERNEL(stops)(const gt_pool_axis *axes, int64_t d, int64_t h, gt_look *look, gt_look **inner)
{
    int64_t rows = (axes[0].end[d] - axes[0].begin[d]) * (axes[1].end[h] - axes[1].begin[h]);
    int64_t elements = axes[2].out + (rows > 0 ? rows : 0) * ROW_ELEMENTS(&axes[2]);
    *inner = elements > GT_LOOK_ELEMENTS ? look : NULL;
    return gt__look_due(look, *inner ? 0 : elements);
}

/* Run `statement` for each row of x in each row of windows. */
#define EACH_ROW(axes, statement)                                                                                 \
    do {                                                                                                          \
        const gt_pool_axis *depth_ = &(axes)[0], *height_ = &(axes)[1];                                           \
        for (int64_t i_ = depth_->begin[d]; i_ < depth_->end[d]; i_ += depth_->step)                              \
            for (int64_t j_ = height_->begin[h]; j_ < height_->end[h]; j_ += height_->step) {                     \
                int64_t row = (i_ * height_->in + j_) * (axes)[2].in;                                             \
                statement;                                                                                        \
            }                                                                                                     \
    } while (0)

/* Windows of size 2 and stride 2 without padding, the most common case. */
static bool KERNEL(pairs)(const gt_pool_axis *a)
{
    return a->even && a->stride == 2 && a->taps == 2 && a->start[0] == 0 && a->start[1] == 1 &&
           a->high[1] == a->out;
}

/* A row of 2x2 windows, from two rows of x. In a window the first of the largest counts, or the last NaN. */
static inline __attribute__((always_inline)) void KERNEL(max_pairs)(const T *x, int64_t row, int64_t below,
                                                                    int64_t count, T *best, int32_t *arg)
{
    const int64_t places[] = {row, row + 1, below, below + 1};
#if defined(WIDE_PAIRS)
    if (count >= PAIRS) {
        max_pairs_wide(x, row, below, count, best, arg);
        return;
    }
#endif
    INDEPENDENT
    for (int64_t o = 0; o < count; o++) {
        T most = x[row + 2 * o];
        int32_t at = (int32_t)(row + 2 * o);
        for (int k = 1; k < 4; k++) {
            T value = x[places[k] + 2 * o];
            bool take = (value > most) | (value != value);
            most = take ? value : most;
            at = take ? (int32_t)(places[k] + 2 * o) : at;
        }
        best[o] = most;
        if (arg)
            arg[o] = at;
    }
}

static void KERNEL(pool_max_pairs)(const gt_pool_axis *axes, const T *x, T *best, int32_t *arg)
{
    int64_t in = axes[2].in, out = axes[2].out;
    for (int64_t h = 0; h < axes[1].out; h++)
        if (arg)
            KERNEL(max_pairs)(x, 2 * h * in, (2 * h + 1) * in, out, best + h * out, arg + h * out);
        else
            KERNEL(max_pairs)(x, 2 * h * in, (2 * h + 1) * in, out, best + h * out, NULL);
}

/* Windows of pairs along the last two axes, and of one along the first. */
static bool KERNEL(all_pairs)(const gt_pool_axis *axes)
{
    return axes[0].in == 1 && axes[0].out == 1 && axes[0].taps == 1 && KERNEL(pairs)(&axes[1]) &&
           KERNEL(pairs)(&axes[2]);
}

static void KERNEL(pool_max)(const gt_pool_axis *axes, const void *x, void *best, int32_t *arg, gt_look *look)
{
    T *to = best;
    int64_t width = axes[2].out;
    gt_look *inner;
    if (KERNEL(all_pairs)(axes)) {
        KERNEL(pool_max_pairs)(axes, x, best, arg);
        return;
    }
    for (int64_t d = 0; d < axes[0].out; d++)
        for (int64_t h = 0; h < axes[1].out && !KERNEL(stops)(axes, d, h, look, &inner); h++, to += width) {
            for (int64_t o = 0; o < width; o++)
                to[o] = LEAST;
            for (int64_t o = 0; arg && o < width; o++)
                arg[o] = -1;
            if (arg)
                EACH_ROW(axes, KERNEL(max_row)(&axes[2], x, row, to, arg, inner));
            else
                EACH_ROW(axes, KERNEL(max_row)(&axes[2], x, row, to, NULL, inner));
            arg = arg ? arg + width : NULL;
        }
}

#if defined(WIDE_PAIRS)
static bool KERNEL(pool_max_spread)(const gt_pool_axis *axes, const void *x, const void *y, void *out)
{
    int64_t in = axes[2].in, count = axes[2].out, rows = axes[1].out;
    const T *from = x, *g = y;
    T *to = out;
    if (!KERNEL(all_pairs)(axes) || count < PAIRS)
        return false;
    if (in != 2 * count || axes[1].in != 2 * rows) /* a last row or column is in no window */
        memset(to, 0, (size_t)(in * axes[1].in) * sizeof(T));
    for (int64_t h = 0; h < rows; h++, from += 2 * in, to += 2 * in, g += count)
        spread_pairs_wide(from, from + in, count, g, to, to + in);
    return true;
}
#endif

static inline __attribute__((always_inline)) void KERNEL(sum_tap)(const T *x, int64_t count, int64_t stride,
                                                                  T *sum)
{
    INDEPENDENT
    for (int64_t o = 0; o < count; o++)
        sum[o] += x[o * stride];
}

static inline __attribute__((always_inline)) void KERNEL(sum_row)(const gt_pool_axis *w, const T *x, T *sum,
                                                                  gt_look *look)
{
    bool is_long = look && w->even && ROW_ELEMENTS(w) > GT_LOOK_ELEMENTS;
    if (look && gt__look_due(look, is_long ? 0 : ROW_ELEMENTS(w)))
        return;
    for (int64_t k = 0; w->even && k < w->taps; k++) {
        int64_t low = w->low[k], count = w->high[k] - low;
        if (is_long && gt__look_due(look, count))
            return;
        const T *from = x + w->start[k] + low * w->stride;
        if (w->stride == 1)
            KERNEL(sum_tap)(from, count, 1, sum + low);
        else if (w->stride == 2)
            KERNEL(sum_tap)(from, count, 2, sum + low);
        else
            KERNEL(sum_tap)(from, count, w->stride, sum + low);
    }
    for (int64_t o = 0; !w->even && o < w->out; o++)
        for (int64_t i = w->begin[o]; i < w->end[o]; i += w->step)
            sum[o] += x[i];
}

static void KERNEL(pool_sum)(const gt_pool_axis *axes, const void *x, void *y, gt_look *look)
{
    T *to = y;
    int64_t width = axes[2].out;
    gt_look *inner;
    for (int64_t d = 0; d < axes[0].out; d++)
        for (int64_t h = 0; h < axes[1].out && !KERNEL(stops)(axes, d, h, look, &inner); h++, to += width) {
            for (int64_t o = 0; o < width; o++)
                to[o] = 0;
            if (inner)
                EACH_ROW(axes, KERNEL(sum_row)(&axes[2], (const T *)x + row, to, inner));
            else
                EACH_ROW(axes, KERNEL(sum_row)(&axes[2], (const T *)x + row, to, NULL));
        }
}

static inline __attribute__((always_inline)) void KERNEL(spread_tap)(T *x, int64_t count, int64_t stride,
                                                                     const T *y)
{
    INDEPENDENT
    for (int64_t o = 0; o < count; o++)
        x[o * stride] += y[o];
}

static inline __attribute__((always_inline)) void KERNEL(spread_row)(const gt_pool_axis *w, T *x, const T *y,
                                                                     gt_look *look)
{
    bool is_long = look && w->even && ROW_ELEMENTS(w) > GT_LOOK_ELEMENTS;
    if (look && gt__look_due(look, is_long ? 0 : ROW_ELEMENTS(w)))
        return;
    for (int64_t k = 0; w->even && k < w->taps; k++) {
        int64_t low = w->low[k], count = w->high[k] - low;
        if (is_long && gt__look_due(look, count))
            return;
        T *to = x + w->start[k] + low * w->stride;
        if (w->stride == 1)
            KERNEL(spread_tap)(to, count, 1, y + low);
        else if (w->stride == 2)
            KERNEL(spread_tap)(to, count, 2, y + low);
        else
            KERNEL(spread_tap)(to, count, w->stride, y + low);
    }
    for (int64_t o = 0; !w->even && o < w->out; o++)
        for (int64_t i = w->begin[o]; i < w->end[o]; i += w->step)
            x[i] += y[o];
}

static void KERNEL(pool_spread)(const gt_pool_axis *axes, void *x, const void *y, gt_look *look)
{
    const T *from = y;
    gt_look *inner;
    for (int64_t d = 0; d < axes[0].out; d++)
        for (int64_t h = 0; h < axes[1].out && !KERNEL(stops)(axes, d, h, look, &inner); h++, from += axes[2].out)
            if (inner)
                EACH_ROW(axes, KERNEL(spread_row)(&axes[2], (T *)x + row, from, inner));
            else
                EACH_ROW(axes, KERNEL(spread_row)(&axes[2], (T *)x + row, from, NULL));
}

#undef EACH_ROW
#undef ROW_ELEMENTS

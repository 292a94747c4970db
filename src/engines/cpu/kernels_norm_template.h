/*
 * kernels_norm_template.h: a template: layer normalisation of a line, and its gradients. kernels.c includes it for float and for
 * double, with T and SUFFIX defined. norm.c is the user and has the formulas; m and r are the line's mean and scale.
 */

#define KERNEL(name) GLUE(name, SUFFIX)
#define VECTOR KERNEL(vector)
#define LANES ((int64_t)(VECTOR_BYTES / sizeof(T)))

static void KERNEL(norm_row)(void *out, const void *xs, const void *ws, const void *bs, double mean, double scale,
                             int64_t count)
{
    T *to = out;
    const T *x = xs, *w = ws, *b = bs, m = (T)mean, r = (T)scale;
    INDEPENDENT for (int64_t i = 0; i < count; i++) to[i] = (x[i] - m) * r * w[i] + b[i];
}

static void KERNEL(norm_backward_row)(void *out, const void *gs, const void *xs, const void *ws, double mean,
                                      double scale, int64_t count)
{
    T *to = out;
    const T *g = gs, *x = xs, *w = ws, m = (T)mean, r = (T)scale;
    VECTOR sums[2] = {{0}, {0}}, products[2] = {{0}, {0}};
    int64_t i = 0;
    for (; i + 2 * LANES <= count; i += 2 * LANES)
        for (int k = 0; k < 2; k++) {
            int64_t at = i + k * LANES;
            VECTOR gw = *(const VECTOR *)(g + at) * *(const VECTOR *)(w + at);
            sums[k] += gw;
            products[k] += gw * (*(const VECTOR *)(x + at) - m);
        }
    double sum = 0, product = 0;
    for (; i < count; i++) {
        sum += (double)(g[i] * w[i]);
        product += (double)(g[i] * w[i] * (x[i] - m));
    }
    for (int k = 0; k < 2; k++)
        for (int64_t lane = 0; lane < LANES; lane++) {
            sum += (double)sums[k][lane];
            product += (double)products[k][lane];
        }
    const T average = (T)(sum / (double)count), slope = (T)(product * scale * scale / (double)count);
    INDEPENDENT for (i = 0; i < count; i++) to[i] = r * (g[i] * w[i] - average - (x[i] - m) * slope);
}

static void KERNEL(norm_weight_rows)(void *sums, const void *gs, const void *xs, int64_t stride,
                                     const double *mean, const double *scale, int64_t rows, int64_t width)
{
    T *sum = sums;
    for (int64_t row = 0; row < rows; row++) {
        const T *g = (const T *)gs + row * stride, *x = (const T *)xs + row * stride;
        const T m = (T)mean[row], r = (T)scale[row];
        INDEPENDENT for (int64_t j = 0; j < width; j++) sum[j] += g[j] * ((x[j] - m) * r);
    }
}

#undef LANES
#undef VECTOR
#undef KERNEL
#undef SUFFIX
#undef T

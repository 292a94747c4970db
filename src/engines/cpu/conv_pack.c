/*
 * conv_pack.c: the geometry of a convolution on this engine: which planes a pass has, where its taps are in
 * them, and how a tensor is copied into them. Of dtypes only the size matters here. Read conv.h first; conv.c
 * next.
 */
#include <stdlib.h>
#include <string.h>

#include "engines/cpu/conv.h"

/* ---- shapes ------------------------------------------------------------------------------------------------ */

static bool slides(const struct gt_conv_sizes *a)
{
    return a->kernel != 1 || a->stride != 1 || a->padding != 0 || a->x != a->y;
}

void gt__conv_shape(gt_conv_shape *shape, const gt_window *w, int spatial, const int64_t *x, const int64_t *kernel,
                    const int64_t *y)
{
    struct gt_conv_sizes kept[GT_MAX_SPATIAL];
    int count = 0;
    for (int axis = 0; axis < spatial; axis++) {
        struct gt_conv_sizes next = {.x = x[axis],
                                     .kernel = kernel[axis],
                                     .y = y[axis],
                                     .stride = w->stride[axis],
                                     .padding = w->padding[axis],
                                     .dilation = w->dilation[axis]};
        if (count && !slides(&kept[count - 1]) && !slides(&next)) {
            kept[count - 1].x *= next.x;
            kept[count - 1].y *= next.y;
        } else
            kept[count++] = next;
    }
    for (int axis = 0; axis < GT_MAX_SPATIAL; axis++) {
        int from = axis - (GT_MAX_SPATIAL - count);
        shape->axis[axis] = from >= 0
                                ? kept[from]
                                : (struct gt_conv_sizes){.x = 1, .kernel = 1, .y = 1, .stride = 1, .dilation = 1};
    }
}

/* ---- passes ------------------------------------------------------------------------------------------------ */

/* Four arrays of `kernel` numbers an axis. */
static gt_err pass_start(const gt_cpu *cpu, const gt_conv_shape *shape, int64_t channels, gt_conv_pass *pass)
{
    size_t numbers = 0;
    *pass = (gt_conv_pass){.channels = channels};
    for (int axis = 0; axis < GT_MAX_SPATIAL; axis++)
        numbers += 4 * (size_t)shape->axis[axis].kernel;
    GT_TRY(gt__cpu_scratch(cpu, numbers * sizeof(int64_t), &pass->memory));
    int64_t *next = pass->memory;
    for (int axis = 0; axis < GT_MAX_SPATIAL; axis++) {
        gt_conv_axis *a = &pass->axis[axis];
        int64_t **const arrays[] = {&a->tap, &a->plane, &a->shift, &a->phases};
        for (int k = 0; k < 4; k++, next += shape->axis[axis].kernel)
            *arrays[k] = next;
    }
    return GT_OK;
}

void gt__conv_pass_free(gt_conv_pass *pass)
{
    free(pass->memory);
}

/* The plane of a phase; adds it if it is new. */
static int64_t plane_of(gt_conv_axis *a, int64_t phase)
{
    int64_t plane = 0;
    while (plane < a->planes && a->phases[plane] != phase)
        plane++;
    if (plane == a->planes)
        a->phases[a->planes++] = phase;
    return plane;
}

gt_err gt__conv_plan(const gt_cpu *cpu, const gt_conv_shape *shape, int64_t channels, gt_conv_pass *pass)
{
    GT_TRY(pass_start(cpu, shape, channels, pass));
    pass->taps = 1;
    for (int axis = 0; axis < GT_MAX_SPATIAL; axis++) {
        const struct gt_conv_sizes *s = &shape->axis[axis];
        gt_conv_axis *a = &pass->axis[axis];
        a->source = s->x;
        a->stride = s->stride;
        a->padding = s->padding;
        a->count = a->out = s->y;
        a->out_step = 1;
        for (int64_t k = 0; k < s->kernel; k++) {
            a->tap[a->taps] = k;
            a->plane[a->taps] = plane_of(a, k * s->dilation % s->stride);
            a->shift[a->taps++] = a->reach = k * s->dilation / s->stride;
        }
        pass->taps *= a->taps;
    }
    return GT_OK;
}

/*
 * Position i of x gets y[o] * kernel[k] where i + padding = o * stride + k * dilation. With i + padding = q *
 * stride + phase, these are the k with k * dilation = phase modulo stride, and o = q - k * dilation / stride.
 */
gt_err gt__conv_plan_transposed(const gt_cpu *cpu, const gt_conv_shape *shape, int64_t channels,
                                const int64_t *first, gt_conv_pass *pass)
{
    GT_TRY(pass_start(cpu, shape, channels, pass));
    pass->taps = 1;
    for (int axis = 0; axis < GT_MAX_SPATIAL; axis++) {
        const struct gt_conv_sizes *s = &shape->axis[axis];
        gt_conv_axis *a = &pass->axis[axis];
        int64_t phase = (first[axis] + s->padding) % s->stride;
        a->source = s->y;
        a->stride = 1;
        a->planes = 1;
        a->phases[0] = 0;
        a->origin = (first[axis] + s->padding) / s->stride;
        a->out = s->x;
        a->out_start = first[axis];
        a->out_step = s->stride;
        a->count = (s->x - first[axis] + s->stride - 1) / s->stride;
        for (int64_t k = 0; k < s->kernel; k++)
            if (k * s->dilation % s->stride == phase) {
                a->tap[a->taps] = k;
                a->plane[a->taps] = 0;
                a->shift[a->taps++] = a->reach = k * s->dilation / s->stride;
            }
        for (int64_t k = 0; k < a->taps; k++)
            a->shift[k] = a->reach - a->shift[k];
        a->padding = a->reach;
        pass->taps *= a->taps;
    }
    return GT_OK;
}

int64_t gt__conv_tap(const gt_conv_pass *pass, const gt_conv_shape *shape, int64_t tap)
{
    int64_t flat = 0, unit = 1;
    for (int axis = GT_MAX_SPATIAL - 1; axis >= 0; axis--) {
        flat += pass->axis[axis].tap[tap % pass->axis[axis].taps] * unit;
        tap /= pass->axis[axis].taps;
        unit *= shape->axis[axis].kernel;
    }
    return flat;
}

/* ---- boxes ------------------------------------------------------------------------------------------------- */

/* Without padding and stride the source has the layout of the planes, if no vector reads over the end of a row. */
static bool fits_in_place(const gt_conv_pass *pass, const gt_conv_box *box, int64_t width, int lanes)
{
    for (int axis = 0; axis < GT_MAX_SPATIAL; axis++) {
        const gt_conv_axis *a = &pass->axis[axis];
        if (a->stride != 1 || a->padding || a->origin || a->count + a->reach > a->source)
            return false;
    }
    return box->overlap || width % lanes == 0;
}

gt_err gt__conv_box_measure(const gt_conv_pass *pass, int lanes, bool may_overlap, gt_conv_box *box)
{
    int64_t planes = 1, width = box->hi[GT_MAX_SPATIAL - 1] - box->lo[GT_MAX_SPATIAL - 1];
    box->overlap = may_overlap && width >= lanes && pass->axis[GT_MAX_SPATIAL - 1].out_step == 1;
    box->in_place = fits_in_place(pass, box, width, lanes);
    box->plane = 1;
    box->vectors = (width + lanes - 1) / lanes;
    box->touched = pass->channels;
    bool fits = true;
    for (int axis = 0; axis < GT_MAX_SPATIAL; axis++) {
        const gt_conv_axis *a = &pass->axis[axis];
        int64_t needed = box->hi[axis] - box->lo[axis] + a->reach;
        box->length[axis] = box->in_place ? a->source : needed;
        fits &= !__builtin_mul_overflow(box->touched, needed * a->planes, &box->touched);
        fits &= !__builtin_mul_overflow(box->plane, box->length[axis], &box->plane);
        fits &= !__builtin_mul_overflow(planes, a->planes, &planes);
        box->vectors *= axis < GT_MAX_SPATIAL - 1 ? box->hi[axis] - box->lo[axis] : 1;
    }
    fits &= !__builtin_mul_overflow(box->plane, planes, &box->channel) &&
            !__builtin_mul_overflow(box->channel, pass->channels, &box->elements) &&
            box->elements < INT64_MAX / 64;
    box->elements += lanes;
    return fits ? GT_OK : gt__fail(GT_ERR_MEMORY, "a convolution with these strides and dilations is too large");
}

/* ---- copying ----------------------------------------------------------------------------------------------- */

static void copy_row(char *to, const char *from, int64_t count, int64_t stride, size_t size)
{
    if (stride == 1)
        memcpy(to, from, (size_t)count * size);
    else if (size == sizeof(uint32_t))
        for (int64_t k = 0; k < count; k++)
            ((uint32_t *)to)[k] = ((const uint32_t *)from)[k * stride];
    else
        for (int64_t k = 0; k < count; k++)
            ((uint64_t *)to)[k] = ((const uint64_t *)from)[k * stride];
}

/* The source elements in a plane of an axis: index u is element start + u * stride; begin <= u < end are inside. */
typedef struct run {
    int64_t start, begin, end;
} run;

static run run_of(const gt_conv_pass *pass, const gt_conv_box *box, int axis, int64_t plane)
{
    const gt_conv_axis *a = &pass->axis[axis];
    run r = {.start = (a->origin + box->lo[axis]) * a->stride + a->phases[plane] - a->padding};
    r.begin = r.start < 0 ? (-r.start + a->stride - 1) / a->stride : 0;
    r.end = r.start < a->source ? (a->source - r.start + a->stride - 1) / a->stride : 0;
    r.end = gt__min(r.end, box->length[axis]);
    r.begin = gt__min(r.begin, r.end > 0 ? r.end : 0);
    r.end = r.end < r.begin ? r.begin : r.end;
    return r;
}

/* The inside of one plane of one channel, and the zeros around it if it is not padded yet. */
static void pack_plane(const gt_conv_pass *pass, const gt_conv_box *box, size_t size, const char *source,
                       const run *runs, bool padded, char *to)
{
    const int64_t *length = box->length;
    const run *depth = &runs[0], *height = &runs[1], *width = &runs[2];
    size_t row = (size_t)length[2] * size, before = (size_t)width->begin * size;
    if (!padded)
        memset(to, 0, (size_t)(length[0] * length[1]) * row);
    if (width->begin == width->end)
        return;
    for (int64_t d = depth->begin; d < depth->end; d++) {
        int64_t slice = (depth->start + d * pass->axis[0].stride) * pass->axis[1].source;
        char *rows = to + (size_t)(d * length[1]) * row + before;
        for (int64_t h = height->begin; h < height->end; h++) {
            int64_t line = (slice + height->start + h * pass->axis[1].stride) * pass->axis[2].source;
            int64_t at = line + width->start + width->begin * pass->axis[2].stride;
            copy_row(rows + (size_t)h * row, source + at * (int64_t)size, width->end - width->begin,
                     pass->axis[2].stride, size);
        }
    }
}

void gt__conv_pack(const gt_conv_pass *pass, const gt_conv_box *box, size_t size, const void *source,
                   int64_t first, int64_t end, bool padded, void *planes)
{
    const gt_conv_axis *a = pass->axis;
    int64_t numel = a[0].source * a[1].source * a[2].source;
    for (int64_t plane = 0; plane < a[0].planes * a[1].planes * a[2].planes; plane++) {
        run runs[] = {run_of(pass, box, 0, plane / (a[1].planes * a[2].planes)),
                      run_of(pass, box, 1, plane / a[2].planes % a[1].planes),
                      run_of(pass, box, 2, plane % a[2].planes)};
        for (int64_t channel = first; channel < end; channel++)
            pack_plane(pass, box, size, (const char *)source + channel * numel * (int64_t)size, runs, padded,
                       (char *)planes + (channel * box->channel + plane * box->plane) * (int64_t)size);
    }
}

void gt__conv_offsets(const gt_conv_pass *pass, const gt_conv_box *box, int64_t size, int64_t *offsets)
{
    const gt_conv_axis *d = &pass->axis[0], *h = &pass->axis[1], *w = &pass->axis[2];
    for (int64_t channel = 0; channel < pass->channels; channel++)
        for (int64_t i = 0; i < d->taps; i++)
            for (int64_t j = 0; j < h->taps; j++)
                for (int64_t k = 0; k < w->taps; k++) {
                    int64_t plane = (d->plane[i] * h->planes + h->plane[j]) * w->planes + w->plane[k];
                    int64_t at = (d->shift[i] * box->length[1] + h->shift[j]) * box->length[2] + w->shift[k];
                    *offsets++ = (channel * box->channel + plane * box->plane + at) * size;
                }
}

void gt__conv_places(const gt_conv_pass *pass, const gt_conv_box *box, int lanes, gt_conv_place *places)
{
    const gt_conv_axis *a = pass->axis;
    int64_t shift[GT_MAX_SPATIAL]; /* from an output's number to its index in the planes */
    for (int axis = 0; axis < GT_MAX_SPATIAL; axis++)
        shift[axis] = box->in_place ? 0 : box->lo[axis];
    for (int64_t d = box->lo[0]; d < box->hi[0]; d++)
        for (int64_t h = box->lo[1]; h < box->hi[1]; h++) {
            int64_t source = ((d - shift[0]) * box->length[1] + h - shift[1]) * box->length[2];
            int64_t out = (a[0].out_start + d * a[0].out_step) * a[1].out + a[1].out_start + h * a[1].out_step;
            for (int64_t w = box->lo[2]; w < box->hi[2]; w += lanes) {
                int64_t first = box->overlap ? gt__min(w, box->hi[2] - lanes) : w;
                *places++ = (gt_conv_place){.source = source + first - shift[2],
                                            .out = out * a[2].out + a[2].out_start + first * a[2].out_step,
                                            .lanes = (int32_t)gt__min(lanes, box->hi[2] - first)};
            }
        }
}

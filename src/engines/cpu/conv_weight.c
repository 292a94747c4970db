/*
 * conv_weight.c: runs CONV_WEIGHT: the gradient of a convolution by its weight.
 *
 * weight (M, C, taps): each element is the inner product of one channel of y with one channel of x's planes,
 * shifted to the tap, over all images. Some images at a time, both are packed: x into planes, y into rows of
 * whole vectors (the rest zero), a tile's channels innermost. Then tiles of (channels, taps) are added up, each
 * by one thread: the result does not depend on the number of threads. Read conv.h and conv.c first.
 */
#include <stdlib.h>
#include <string.h>

#include "engines/cpu/box.h"
#include "engines/cpu/conv.h"

enum {
    CHUNK_BYTES = 1536 * 1024, /* of packed images at a time */
    VECTORS_AT_ONCE = 256,     /* of y: so many vectors of a tile's channels fit the L1 cache */
    SMALL_WORK = 64 * 1024,    /* multiplications: up to here one thread is faster */
    FEW_CHANNELS = 2,          /* of y, in a group: a depthwise convolution */
};

typedef struct weighting {
    gt_cpu *cpu;
    gt_compute compute;
    int64_t size;
    int lanes, at_once;
    gt_conv_shape shape;
    gt_conv_pass pass;
    gt_conv_box box;
    int64_t images, groups, channels; /* of y, in a group */
    const char *x, *y;
    int64_t x_plane, y_plane, y_row; /* elements: of a channel, of a row as packed */
    bool one;                        /* one channel of y at a time: too few for tiles */
    int64_t tiles, y_tile;           /* of a group; elements of one, packed */
    int64_t chunk, first, count;     /* images at a time; the current ones */
    char *planes, *rows;             /* packed x and y of the chunk */
    gt_conv_place *places;           /* of `joined` images */
    int64_t joined;
    int64_t *offsets;
    int64_t tap_block, tap_blocks;
    char *out;
} weighting;

/* ---- packing ------------------------------------------------------------------------------------------------ */

/* Channels of x: begin <= t < end, over the images of the chunk. */
static void pack_x(void *context, int64_t begin, int64_t end)
{
    const weighting *s = context;
    int64_t channels = s->pass.channels;
    for (int64_t task = begin; task < end;) {
        int64_t block = task / channels, first = task % channels; /* block: an image and group */
        int64_t last = gt__min(channels, first + end - task);
        const char *from = s->x + (s->first * s->groups + block) * channels * s->x_plane * s->size;
        char *planes = s->planes + block * s->box.elements * s->size;
        gt__conv_pack(&s->pass, &s->box, (size_t)s->size, from, first, last, s->first > 0, planes);
        if (last == channels)
            memset(planes + (s->box.elements - s->lanes) * s->size, 0, (size_t)(s->lanes * s->size));
        task += last - first;
    }
}

/* Channels of y side by side, at_once of them; missing channels and the padding of a row are zero. */
static void pack_tile(const weighting *s, const char *y, int64_t channels, char *out)
{
    int64_t width = s->at_once, row = s->shape.axis[2].y;
    size_t bytes = (size_t)(row * width * s->size), all = (size_t)(s->y_row * width * s->size);
    if (channels < width)
        memset(out, 0, (size_t)(s->y_tile * s->size));
    for (int64_t r = 0; r < s->shape.axis[0].y * s->shape.axis[1].y; r++, y += row * s->size, out += all) {
        if (width == 1)
            memcpy(out, y, bytes);
        else
            gt__transpose(s->size, out, width, y, s->y_plane, row, channels);
        memset(out + bytes, 0, all - bytes);
    }
}

static void pack_y(void *context, int64_t begin, int64_t end)
{
    const weighting *s = context;
    for (int64_t task = begin; task < end; task++) {
        int64_t group = task / s->tiles, first = task % s->tiles * s->at_once; /* group: of all images */
        const char *from = s->y + ((s->first * s->groups + group) * s->channels + first) * s->y_plane * s->size;
        pack_tile(s, from, gt__min(s->at_once, s->channels - first), s->rows + task * s->y_tile * s->size);
    }
}

/* ---- tiles -------------------------------------------------------------------------------------------------- */

/* Elements from one image to the next, packed. */
static int64_t x_image(const weighting *s)
{
    return s->groups * (s->box.in_place ? s->pass.channels * s->x_plane : s->box.elements);
}

static int64_t y_image(const weighting *s)
{
    return s->groups * s->tiles * s->y_tile;
}

static void run_tile(const weighting *s, int64_t group, int64_t tile, int64_t tap, int64_t taps)
{
    int64_t all = s->pass.channels * s->pass.taps, first = tile * s->at_once;
    const char *x = s->box.in_place ? s->x + s->first * x_image(s) * s->size : s->planes;
    for (int64_t image = 0; image < s->count; image += s->joined) {
        int64_t vectors = gt__min(s->joined, s->count - image) * s->box.vectors;
        for (int64_t v = 0; v < vectors; v += VECTORS_AT_ONCE)
            s->cpu->kernels->conv_dot[s->compute][s->one](&(gt_conv_dot){
                .gradient = s->rows + (image * y_image(s) + (group * s->tiles + tile) * s->y_tile) * s->size,
                .channels = (int)gt__min(s->at_once, s->channels - first),
                .source = x + (image * x_image(s) + group * (x_image(s) / s->groups)) * s->size,
                .offsets = s->offsets + tap,
                .taps = taps,
                .places = s->places + v,
                .vectors = gt__min(VECTORS_AT_ONCE, vectors - v),
                .out = s->out + ((group * s->channels + first) * all + tap) * s->size,
                .out_stride = all,
            });
    }
}

static void run_tiles(void *context, int64_t begin, int64_t end)
{
    const weighting *s = context;
    int64_t all = s->pass.channels * s->pass.taps;
    for (int64_t task = begin; task < end && !gt__parallel_cancelled(s->cpu->parallel); task++) {
        int64_t tap = task % s->tap_blocks * s->tap_block, number = task / s->tap_blocks;
        run_tile(s, number / s->tiles, number % s->tiles, tap, gt__min(s->tap_block, all - tap));
    }
}

/* ---- the whole ---------------------------------------------------------------------------------------------- */

/* The places of the vectors, in `joined` images one after another: short loops would have too much overhead. */
static gt_err plan_places(weighting *s)
{
    int64_t vectors = s->box.vectors, row = s->y_row / s->lanes, step = y_image(s) / (s->one ? 1 : s->at_once);
    size_t taps = (size_t)(s->pass.channels * s->pass.taps);
    void *places = NULL, *offsets = NULL;
    s->joined = vectors < VECTORS_AT_ONCE ? gt__min(s->chunk, VECTORS_AT_ONCE / vectors) : 1;
    GT_TRY(gt__cpu_scratch(s->cpu, (size_t)(s->joined * vectors) * sizeof *s->places, &places));
    s->places = places;
    gt__conv_places(&s->pass, &s->box, s->lanes, s->places);
    for (int64_t v = 0; v < vectors; v++)
        s->places[v].out = v / row * s->y_row + v % row * s->lanes;
    for (int64_t v = vectors; v < s->joined * vectors; v++) {
        s->places[v].source = s->places[v - vectors].source + x_image(s);
        s->places[v].out = s->places[v - vectors].out + step;
    }
    GT_TRY(gt__cpu_scratch(s->cpu, taps * sizeof *s->offsets, &offsets));
    s->offsets = offsets;
    gt__conv_offsets(&s->pass, &s->box, s->size, s->offsets);
    return GT_OK;
}

/* Enough tasks for the threads, of whole tiles of taps. */
static void plan_tasks(weighting *s)
{
    enum { TAPS = 6 };
    int64_t all = s->pass.channels * s->pass.taps, threads = gt__parallel_threads(s->cpu->parallel);
    int64_t tasks = s->groups * s->tiles, blocks = (4 * threads + tasks - 1) / tasks;
    s->tap_block = s->one ? all : (all + blocks - 1) / blocks;
    s->tap_block = (s->tap_block + TAPS - 1) / TAPS * TAPS;
    s->tap_blocks = (all + s->tap_block - 1) / s->tap_block;
}

static gt_err plan(weighting *s)
{
    const struct gt_conv_sizes *axis = s->shape.axis;
    for (int k = 0; k < GT_MAX_SPATIAL; k++)
        s->box.hi[k] = axis[k].y;
    GT_TRY(gt__conv_box_measure(&s->pass, s->lanes, false, &s->box));
    s->one = s->channels <= FEW_CHANNELS;
    s->at_once = s->one ? 1 : s->cpu->kernels->conv_dot_channels[s->compute];
    s->tiles = (s->channels + s->at_once - 1) / s->at_once;
    s->y_row = (axis[2].y + s->lanes - 1) / s->lanes * s->lanes;
    s->y_tile = axis[0].y * axis[1].y * s->y_row * s->at_once;
    int64_t image = 0;
    if (!s->box.in_place && __builtin_mul_overflow(s->groups * s->size, s->box.elements, &image))
        return gt__fail(GT_ERR_MEMORY, "a convolution with these strides and dilations is too large");
    s->chunk = CHUNK_BYTES / (image + y_image(s) * s->size + 1);
    s->chunk = s->chunk < 1 ? 1 : gt__min(s->chunk, s->images);
    void *planes = NULL, *rows = NULL;
    GT_TRY(gt__cpu_scratch(s->cpu, (size_t)(s->chunk * image), &planes));
    s->planes = planes;
    GT_TRY(gt__cpu_scratch(s->cpu, (size_t)(s->chunk * y_image(s) * s->size), &rows));
    s->rows = rows;
    plan_tasks(s);
    return plan_places(s);
}

static void run_chunks(weighting *s)
{
    gt_parallel *parallel = s->cpu->parallel;
    for (s->first = 0; s->first < s->images && !gt__parallel_poll(parallel); s->first += s->chunk) {
        s->count = gt__min(s->chunk, s->images - s->first);
        int64_t work = s->count * s->box.vectors * s->lanes * s->tap_block * s->at_once;
        if (!s->box.in_place)
            gt__parallel_for(parallel, s->count * s->groups * s->pass.channels, gt__grain(s->box.channel), pack_x,
                             s);
        gt__parallel_for(parallel, s->count * s->groups * s->tiles, gt__grain(s->y_tile), pack_y, s);
        gt__parallel_for(parallel, s->groups * s->tiles * s->tap_blocks,
                         work < SMALL_WORK ? SMALL_WORK / (work + 1) + 1 : 1, run_tiles, s);
    }
}

static gt_err run(weighting *s)
{
    GT_TRY(gt__conv_plan(s->cpu, &s->shape, s->pass.channels, &s->pass));
    gt_err err = plan(s);
    if (err == GT_OK)
        run_chunks(s);
    free(s->planes);
    free(s->rows);
    free(s->places);
    free(s->offsets);
    gt__conv_pass_free(&s->pass);
    return err;
}

gt_err gt__cpu_conv_weight(gt_engine *engine, const gt_call *call)
{
    const gt_meta *y = &call->in[0]->meta, *x = &call->in[1]->meta, *out = &call->out->meta;
    weighting s = {.cpu = gt__cpu(engine), .compute = gt__cpu_compute((gt_dtype)out->dtype)};
    gt_window w = gt__window_read(call->tail);
    gt_dense in[2] = {0}, result = {0};
    if (out->numel == 0)
        return GT_OK;
    s.size = (int64_t)gt__compute_size(s.compute);
    s.lanes = s.cpu->kernels->vector_bytes / (int)s.size;
    gt__conv_shape(&s.shape, &w, call->ins->rank, x->shape + 2, out->shape + 2, y->shape + 2);
    s.images = y->shape[0];
    s.groups = w.groups;
    s.channels = y->shape[1] / w.groups;
    s.pass.channels = x->shape[1] / w.groups;
    s.x_plane = s.shape.axis[0].x * s.shape.axis[1].x * s.shape.axis[2].x;
    s.y_plane = s.shape.axis[0].y * s.shape.axis[1].y * s.shape.axis[2].y;
    gt_err err = gt__dense_read(s.cpu, call->in[0], s.compute, &in[0]);
    if (err == GT_OK)
        err = gt__dense_read(s.cpu, call->in[1], s.compute, &in[1]);
    if (err == GT_OK)
        err = gt__dense_result(s.cpu, call->out, s.compute, &result);
    if (err == GT_OK) {
        s.y = in[0].data;
        s.x = in[1].data;
        s.out = result.data;
        memset(s.out, 0, (size_t)(out->numel * s.size));
        if (y->numel && x->numel)
            err = run(&s);
    }
    if (err == GT_OK)
        gt__dense_finish(s.cpu, call->out, s.compute, &result);
    free(in[0].scratch);
    free(in[1].scratch);
    free(result.scratch);
    return err;
}

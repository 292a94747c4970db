/*
 * conv.c: runs CONV: convolutions and transposed convolutions, by the inner loops of kernels_conv_template.h.
 *
 * A pass (all of a convolution, or one phase of a transposed one) is cut into boxes of outputs whose planes fit
 * the cache. A task is one box of one image and group: pack the planes, then for each stretch of taps and each
 * tile of channels run the panel over the box's vectors. Weights are rearranged once a pass. Read conv.h and
 * conv_pack.c first.
 */
#include "engines/cpu/conv.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    PLANES_BYTES = 256 * 1024, /* of a box: with weights and results they stay in the L2 cache */
    TAPS_AT_ONCE = 512,        /* their weights, and as many lines of the planes, stay in the L1 cache */
    SMALL_WORK = 64 * 1024,    /* multiplications: up to here one thread is faster */
    LEAST_VECTORS = 16,        /* along a row, if rows are cut */
};

typedef struct convolution {
    gt_cpu *cpu;
    gt_compute compute;
    int64_t size; /* of an element, in bytes */
    int lanes, at_once;
    gt_conv_shape shape;
    gt_conv_pass pass;
    bool transposed;
    int64_t images, groups, channels;   /* of the result, in a group */
    int64_t source_plane, out_plane;    /* elements of one channel */
    const char *source, *weight, *bias; /* bias: NULL, or one for each channel of the result */
    char *out;
    int64_t padded; /* channels of a group, in whole tiles */
    char *packed;   /* weights: (groups, padded, source channels, taps), but a tile's channels innermost */
    char *start;    /* the bias: (groups, padded) */
    int64_t box[GT_MAX_SPATIAL], boxes[GT_MAX_SPATIAL];
    atomic_bool failed; /* no memory for a box */
} convolution;

static int64_t taps_of(const convolution *c)
{
    return c->pass.channels * c->pass.taps;
}

/* Overlapping vectors store an output twice, which is wrong if they add to it. */
static bool may_overlap(const convolution *c)
{
    return taps_of(c) <= TAPS_AT_ONCE;
}

/* ---- weights ----------------------------------------------------------------------------------------------- */

static void copy_element(char *to, const char *from, int64_t size)
{
    memcpy(to, from, size == sizeof(float) ? sizeof(float) : sizeof(double));
}

/* The weight from a source channel to a channel of the result, both numbered in their group. */
static const char *weight_at(const convolution *c, int64_t group, int64_t channel, int64_t source, int64_t tap)
{
    const struct gt_conv_sizes *axis = c->shape.axis;
    int64_t row = c->transposed ? group * c->pass.channels + source : group * c->channels + channel;
    int64_t column = c->transposed ? channel : source;
    int64_t columns = c->transposed ? c->channels : c->pass.channels;
    return c->weight +
           ((row * columns + column) * axis[0].kernel * axis[1].kernel * axis[2].kernel + tap) * c->size;
}

static void pack_tile(const convolution *c, int64_t group, gt_conv_tile tile)
{
    int64_t width = tile.one ? 1 : c->at_once;
    char *to = c->packed + (group * c->padded + tile.first) * taps_of(c) * c->size;
    memset(to, 0, (size_t)(width * taps_of(c) * c->size));
    for (int64_t tap = 0; tap < c->pass.taps; tap++) {
        int64_t from = gt__conv_tap(&c->pass, &c->shape, tap);
        for (int64_t source = 0; source < c->pass.channels; source++)
            for (int64_t k = 0; k < tile.channels; k++)
                copy_element(to + ((source * c->pass.taps + tap) * width + k) * c->size,
                             weight_at(c, group, tile.first + k, source, from), c->size);
    }
}

static void pack_tiles(void *context, int64_t begin, int64_t end)
{
    const convolution *c = context;
    int64_t tiles = gt__conv_tiles(c->channels, c->at_once);
    for (int64_t number = begin; number < end; number++)
        pack_tile(c, number / tiles, gt__conv_tile(c->channels, c->at_once, number % tiles));
}

static gt_err pack_weights(convolution *c)
{
    int64_t tiles = gt__conv_tiles(c->channels, c->at_once);
    size_t numbers = (size_t)(c->groups * c->padded);
    void *packed = NULL, *start = NULL;
    GT_TRY(gt__cpu_scratch(c->cpu, numbers * (size_t)(taps_of(c) * c->size), &packed));
    c->packed = packed;
    gt__parallel_for(c->cpu->parallel, c->groups * tiles, gt__grain(c->at_once * taps_of(c)), pack_tiles, c);
    if (!c->bias)
        return GT_OK;
    GT_TRY(gt__cpu_scratch(c->cpu, numbers * (size_t)c->size, &start));
    c->start = start;
    memset(start, 0, numbers * (size_t)c->size);
    for (int64_t group = 0; group < c->groups; group++)
        memcpy(c->start + group * c->padded * c->size, c->bias + group * c->channels * c->size,
               (size_t)(c->channels * c->size));
    return GT_OK;
}

/* ---- one box of one image and group ------------------------------------------------------------------------- */

/* The state of one thread: its current box, and memory for it. */
typedef struct bench {
    gt_conv_box box;
    int64_t number; /* of the box; -1: no box yet */
    bool padded;    /* an image was packed for this box */
    char *planes;
    gt_conv_place *places;
    int64_t *offsets;
    void *memory;
} bench;

static void box_limits(const convolution *c, int64_t number, gt_conv_box *box)
{
    for (int axis = GT_MAX_SPATIAL - 1; axis >= 0; axis--) {
        box->lo[axis] = number % c->boxes[axis] * c->box[axis];
        box->hi[axis] = gt__min(box->lo[axis] + c->box[axis], c->pass.axis[axis].count);
        number /= c->boxes[axis];
    }
}

/* No box is larger than the first. A smaller one may need planes even if the first does not. */
static gt_err bench_start(const convolution *c, bench *w)
{
    gt_conv_box *box = &w->box;
    *w = (bench){.number = -1};
    box_limits(c, 0, box);
    GT_TRY(gt__conv_box_measure(&c->pass, c->lanes, may_overlap(c), box));
    int64_t planes = box->elements * c->size, places = box->vectors * (int64_t)sizeof *w->places;
    if (box->in_place && c->boxes[GT_MAX_SPATIAL - 1] == 1)
        planes = 0;
    planes = (planes + 63) / 64 * 64;
    GT_TRY(gt__cpu_scratch(c->cpu, (size_t)(planes + places + taps_of(c) * (int64_t)sizeof(int64_t)), &w->memory));
    w->planes = w->memory;
    w->places = (gt_conv_place *)(w->planes + planes);
    w->offsets = (int64_t *)(w->places + box->vectors);
    return GT_OK;
}

static void bench_set_box(const convolution *c, bench *w, int64_t number)
{
    if (number == w->number)
        return;
    w->number = number;
    w->padded = false;
    box_limits(c, number, &w->box);
    gt__conv_box_measure(&c->pass, c->lanes, may_overlap(c),
                         &w->box); /* cannot fail: it is no larger than the first */
    gt__conv_offsets(&c->pass, &w->box, c->size, w->offsets);
    gt__conv_places(&c->pass, &w->box, c->lanes, w->places);
}

static void run_panels(const convolution *c, const bench *w, int64_t image, int64_t group, const void *source)
{
    int64_t taps = taps_of(c), tiles = gt__conv_tiles(c->channels, c->at_once);
    for (int64_t first = 0; first == 0 || (first < taps && !gt__parallel_poll(c->cpu->parallel));
         first += TAPS_AT_ONCE)
        for (int64_t number = 0; number < tiles; number++) {
            gt_conv_tile tile = gt__conv_tile(c->channels, c->at_once, number);
            int64_t channel = group * c->padded + tile.first, width = tile.one ? 1 : c->at_once;
            int64_t out = (image * c->groups + group) * c->channels + tile.first;
            c->cpu->kernels->conv_panel[c->compute][tile.one](&(gt_conv_panel){
                .weights = c->packed + (channel * taps + first * width) * c->size,
                .offsets = w->offsets + first,
                .taps = gt__min(taps - first, TAPS_AT_ONCE),
                .source = source,
                .places = w->places,
                .vectors = w->box.vectors,
                .start = c->start && first == 0 ? c->start + channel * c->size : NULL,
                .out = c->out + out * c->out_plane * c->size,
                .channel_stride = c->out_plane,
                .step = c->pass.axis[GT_MAX_SPATIAL - 1].out_step,
                .channels = tile.channels,
                .add = first > 0,
            });
        }
}

/* Tasks begin <= t < end, numbered box by box, so that neighbours share one. */
static void run_tasks(void *context, int64_t begin, int64_t end)
{
    convolution *c = context;
    bench w;
    if (bench_start(c, &w) != GT_OK) {
        atomic_store(&c->failed, true);
        return;
    }
    for (int64_t task = begin; task < end && !gt__parallel_cancelled(c->cpu->parallel); task++) {
        int64_t number = task % (c->images * c->groups);
        const char *source = c->source + number * c->pass.channels * c->source_plane * c->size;
        bench_set_box(c, &w, task / (c->images * c->groups));
        if (!w.box.in_place) {
            gt__conv_pack(&c->pass, &w.box, (size_t)c->size, source, 0, c->pass.channels, w.padded, w.planes);
            w.padded = true;
            memset(w.planes + (w.box.elements - c->lanes) * c->size, 0, (size_t)(c->lanes * c->size));
            source = w.planes;
        }
        run_panels(c, &w, number / c->groups, number % c->groups, source);
    }
    free(w.memory);
}

/* ---- passes ------------------------------------------------------------------------------------------------- */

/* Halve the box along its first long axis; false: it cannot get smaller. */
static bool shrink(convolution *c)
{
    int64_t *width = &c->box[GT_MAX_SPATIAL - 1];
    for (int axis = 0; axis < GT_MAX_SPATIAL - 1; axis++)
        if (c->box[axis] > 1) {
            c->box[axis] = (c->box[axis] + 1) / 2;
            return true;
        }
    if (*width <= LEAST_VECTORS * c->lanes)
        return false;
    *width = ((*width + 1) / 2 + c->lanes - 1) / c->lanes * c->lanes;
    return true;
}

/* Boxes that fit the cache, and enough tasks for the threads. */
static gt_err plan_boxes(convolution *c)
{
    int64_t threads = gt__parallel_threads(c->cpu->parallel), outputs = 1;
    for (int axis = 0; axis < GT_MAX_SPATIAL; axis++) {
        c->box[axis] = c->pass.axis[axis].count;
        outputs *= c->box[axis];
    }
    double work = (double)outputs * (double)taps_of(c) * (double)c->channels * (double)(c->images * c->groups);
    for (;;) {
        gt_conv_box box = {0};
        int64_t tasks = c->images * c->groups;
        for (int axis = 0; axis < GT_MAX_SPATIAL; axis++) {
            c->boxes[axis] = (c->pass.axis[axis].count + c->box[axis] - 1) / c->box[axis];
            tasks *= c->boxes[axis];
        }
        box_limits(c, 0, &box);
        GT_TRY(gt__conv_box_measure(&c->pass, c->lanes, may_overlap(c), &box));
        bool few = tasks < 2 * threads && threads > 1 && work > SMALL_WORK;
        if ((!few && box.touched * c->size <= PLANES_BYTES) || !shrink(c))
            return GT_OK;
    }
}

static gt_err run_pass(convolution *c)
{
    for (int axis = 0; axis < GT_MAX_SPATIAL; axis++)
        if (c->pass.axis[axis].count <= 0)
            return GT_OK;
    GT_TRY(plan_boxes(c));
    gt_err err = pack_weights(c);
    if (err == GT_OK) {
        int64_t tasks = c->images * c->groups * c->boxes[0] * c->boxes[1] * c->boxes[2];
        int64_t work = c->box[0] * c->box[1] * c->box[2] * (taps_of(c) + 1) * c->channels;
        gt__parallel_for(c->cpu->parallel, tasks, work < SMALL_WORK ? SMALL_WORK / work : 1, run_tasks, c);
        if (atomic_load(&c->failed))
            err = gt__fail(GT_ERR_MEMORY, "the worker has no memory for a convolution");
    }
    free(c->packed);
    free(c->start);
    c->packed = c->start = NULL;
    return err;
}

static gt_err run_forward(convolution *c)
{
    GT_TRY(gt__conv_plan(c->cpu, &c->shape, c->pass.channels, &c->pass));
    gt_err err = run_pass(c);
    gt__conv_pass_free(&c->pass);
    return err;
}

/* A pass for each phase of the strides, as far as the result has elements of it. */
static gt_err run_transposed(convolution *c)
{
    int64_t channels = c->pass.channels, first[GT_MAX_SPATIAL], limit[GT_MAX_SPATIAL];
    for (int axis = 0; axis < GT_MAX_SPATIAL; axis++)
        limit[axis] = gt__min(c->shape.axis[axis].stride, c->shape.axis[axis].x);
    for (first[0] = 0; first[0] < limit[0]; first[0]++)
        for (first[1] = 0; first[1] < limit[1]; first[1]++)
            for (first[2] = 0; first[2] < limit[2]; first[2]++) {
                GT_TRY(gt__conv_plan_transposed(c->cpu, &c->shape, channels, first, &c->pass));
                gt_err err = run_pass(c);
                gt__conv_pass_free(&c->pass);
                GT_TRY(err);
            }
    return GT_OK;
}

/* ---- the op ------------------------------------------------------------------------------------------------- */

static int64_t plane_of(const gt_meta *meta)
{
    int64_t plane = 1;
    for (unsigned axis = 2; axis < meta->rank; axis++)
        plane *= meta->shape[axis];
    return plane;
}

static void describe(convolution *c, const gt_call *call)
{
    gt_window w = gt__window_read(call->tail);
    const gt_meta *a = &call->in[0]->meta, *weight = &call->in[1]->meta, *out = &call->out->meta;
    const gt_meta *x = c->transposed ? out : a, *y = c->transposed ? a : out;
    static const int64_t nothing[GT_MAX_SPATIAL];
    /* A weight without elements has no taps, whatever its sizes say. */
    gt__conv_shape(&c->shape, &w, call->ins->rank, x->shape + 2, weight->numel ? weight->shape + 2 : nothing,
                   y->shape + 2);
    c->images = a->shape[0];
    c->groups = w.groups;
    c->channels = out->shape[1] / w.groups;
    c->pass.channels = a->shape[1] / w.groups;
    c->source_plane = plane_of(a);
    c->out_plane = plane_of(out);
    c->at_once = c->cpu->kernels->conv_channels;
    c->lanes = c->cpu->kernels->vector_bytes / (int)c->size;
    c->padded = (c->channels + c->at_once - 1) / c->at_once * c->at_once;
}

gt_err gt__cpu_conv(gt_engine *engine, const gt_call *call)
{
    convolution c = {.cpu = gt__cpu(engine),
                     .compute = gt__cpu_compute((gt_dtype)call->out->meta.dtype),
                     .transposed = call->op == GT_OP_conv_input};
    gt_dense in[3] = {0}, out = {0};
    if (call->out->meta.numel == 0)
        return GT_OK;
    c.size = (int64_t)gt__compute_size(c.compute);
    describe(&c, call);
    gt_err err = GT_OK;
    for (int k = 0; k < 3 && err == GT_OK; k++)
        err = gt__dense_read(c.cpu, call->in[k], c.compute, &in[k]);
    if (err == GT_OK)
        err = gt__dense_result(c.cpu, call->out, c.compute, &out);
    if (err == GT_OK) {
        c.source = in[0].data;
        c.weight = in[1].data;
        c.bias = call->in[2]->meta.rank ? in[2].data : NULL;
        c.out = out.data;
        err = c.transposed ? run_transposed(&c) : run_forward(&c);
    }
    if (err == GT_OK)
        gt__dense_finish(c.cpu, call->out, c.compute, &out);
    for (int k = 0; k < 3; k++)
        free(in[k].scratch);
    free(out.scratch);
    return err;
}

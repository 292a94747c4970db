/*
 * elementwise.c: runs the UNARY, BINARY and TERNARY rows of the op table.
 *
 * Two paths. Direct: every operand is contiguous and of the compute type (or a single value), so one kernel call,
 * or one per chunk and thread, does it all; small float32 ops cost a few nanoseconds here. General: collapse the
 * axes, and let each operand be used in place, held constant, or gathered into a tile, whichever its strides and dtype
 * allow. Long rows are walked one by one. Short rows, and operands that run along different axes, are walked in boxes
 * of several rows (box.h). Read kernels.h first; loop.c collapses.
 */
#include <stdatomic.h>
#include <string.h>

#include "engines/cpu/box.h"
#include "engines/cpu/elementwise.h"

enum {
    SHORT_ROW = 128,                    /* rows shorter than this: a kernel call each would cost too much */
    BOX_SIDE = 32,                      /* of a box that is transposed */
    CROSS_SIDE = 8,                     /* the same if most views are read along the longer side, in place */
    COSTLY_GRAIN = GT_CPU_GRAIN / 4,    /* of rows that compute more than they move */
    LONGEST_SEGMENT = 2 * GT_CPU_GRAIN, /* of a row used in place: bounds the work in one chunk */
};

static int64_t grain_of(gt_opcode op)
{
    return gt__op_table[op].types == GT_TYPES_FLT ? COSTLY_GRAIN : GT_CPU_GRAIN;
}

static bool has_zero(const void *divisors, gt_compute compute, int64_t count)
{
    const int64_t *wide = divisors;
    const int32_t *narrow = divisors;
    const int8_t *bytes = divisors;
    bool found = false;
    if (compute == GT_COMPUTE_I64)
        for (int64_t i = 0; i < count; i++)
            found |= wide[i] == 0;
    else if (compute == GT_COMPUTE_I32)
        for (int64_t i = 0; i < count; i++)
            found |= narrow[i] == 0;
    else
        for (int64_t i = 0; i < count; i++)
            found |= bytes[i] == 0;
    return found;
}

static gt_err zero_division(void)
{
    return gt__fail(GT_ERR_VALUE, "ZeroDivisionError: integer division or remainder by zero");
}

/* ---- direct ------------------------------------------------------------------------------------------------ */

typedef struct direct {
    gt_elementwise_kernel kernel;
    const double *pq;
    char *out;
    const char *in[3];
    unsigned operands;
    size_t out_size;
    size_t in_size[3]; /* 0: a constant */
} direct;

static void run_direct(void *context, int64_t begin, int64_t end)
{
    const direct *d = context;
    const void *in[3] = {NULL, NULL, NULL};
    for (unsigned k = 0; k < d->operands; k++)
        in[k] = d->in[k] + (size_t)begin * d->in_size[k];
    d->kernel(d->out + (size_t)begin * d->out_size, in[0], in[1], in[2], d->pq, end - begin);
}

/* Fill `in` with the addresses of the operands' elements; false: one needs converting or gathering. */
static bool find_direct(const gt_cpu *cpu, const gt_call *call, gt_compute compute, const void **in,
                        gt_scalar *value, unsigned *constants)
{
    int64_t count = call->out->meta.numel;
    gt_dtype native = gt__native_dtype(compute);
    gt_dtype out_dtype = gt__elementwise_written(call->op, compute, (gt_dtype)call->out->meta.dtype);
    unsigned mask = 0;
    if (call->out->meta.dtype != out_dtype)
        return false;
    for (unsigned k = 0; k < call->operands; k++) {
        const gt_view *view = call->in[k];
        in[k] = gt__call_data(call, k);
        if (view->meta.numel == 1) {
            mask |= 1u << k;
            if (!gt__elementwise_reads_as((gt_dtype)view->meta.dtype, native)) {
                gt__cpu_load_tile(cpu, compute, (gt_dtype)view->meta.dtype, in[k], 1, 1, &value[k]);
                in[k] = &value[k];
            }
        } else if (!view->contiguous || view->meta.numel != count ||
                   !gt__elementwise_reads_as((gt_dtype)view->meta.dtype, native)) {
            return false;
        }
    }
    *constants = gt__elementwise_constants(mask, call->operands);
    return *constants == mask || count == 1;
}

static gt_err elementwise_direct(gt_cpu *cpu, const gt_call *call, gt_compute compute, const void **in,
                                 unsigned constants)
{
    int64_t count = call->out->meta.numel, grain = grain_of(call->op);
    double pq[2] = {call->ins->imm[0].f, call->ins->imm[1].f};
    if (gt__elementwise_divides(call->op, compute) &&
        has_zero(in[1], compute, constants & GT_CONSTANT_Y ? 1 : count))
        return zero_division();
    gt_elementwise_kernel kernel = gt__elementwise_kernel(cpu->kernels, call->op, compute, constants, in[1]);
    if (count <= grain) {
        kernel(call->out->data, in[0], in[1], in[2], pq, count);
        return GT_OK;
    }
    direct d = {.kernel = kernel, .pq = pq, .out = call->out->data, .operands = call->operands};
    d.out_size = gt__dtype_size((gt_dtype)call->out->meta.dtype);
    for (unsigned k = 0; k < call->operands; k++) {
        d.in[k] = in[k];
        d.in_size[k] = constants & 1u << k ? 0 : gt__compute_size(compute);
    }
    gt__parallel_for(cpu->parallel, count, grain, run_direct, &d);
    return GT_OK;
}

/* ---- general ----------------------------------------------------------------------------------------------- */

typedef struct operand {
    char *data;
    gt_dtype dtype;
    size_t size;
    int64_t stride;      /* along a row */
    bool reads_in_place; /* its dtype is the kernel's */
    bool in_place;       /* and, along a row, the kernel reads (writes) it where it is */
    bool constant;       /* along a row */
    bool rounds;         /* integers that a half cannot hold: rounded to halves first */
} operand;

typedef struct general {
    const gt_cpu *cpu;
    gt_opcode op;
    gt_compute compute;
    gt_dtype compute_dtype;
    gt_dtype kernel_dtype; /* of what the kernel writes */
    unsigned operands;
    unsigned constants;
    double pq[2];
    operand in[3];
    operand out;
    gt_loop loop; /* views: the operands, then out. The last axis is the row. */
    int64_t row;  /* elements in a row */
    int64_t segment;
    int64_t segments;            /* in a row */
    int64_t extent[GT_MAX_RANK]; /* of a box */
    int64_t count[GT_MAX_RANK];  /* of boxes along an axis */
    int64_t boxes;               /* 0: rows instead */
    int64_t box_size;            /* elements, at most GT_TILE */
    bool one_number;             /* operand 1 */
    bool checks_zero;
    atomic_bool zero;
} general;

typedef struct tiles {
    _Alignas(64) char in[3][GT_TILE * sizeof(double)];
    _Alignas(64) char out[GT_TILE * sizeof(double)];
} tiles;

/* Integers that are to be halves lose the bits that halves do not have. */
static void round_tile(const general *g, void *tile, int64_t count, void *scratch)
{
    gt__cpu_store_tile(g->cpu, g->compute, g->compute_dtype, tile, scratch, 1, count);
    gt__cpu_load_tile(g->cpu, g->compute, g->compute_dtype, scratch, 1, count, tile);
}

static void run_kernel(general *g, void *to, const void **in, int64_t count)
{
    if (g->checks_zero && has_zero(in[1], g->compute, g->constants & GT_CONSTANT_Y ? 1 : count))
        atomic_store_explicit(&g->zero, true, memory_order_relaxed);
    const void *number =
        g->one_number ? in[1] : NULL; /* an operand that is constant in this row may differ in the next */
    gt__elementwise_kernel(g->cpu->kernels, g->op, g->compute, g->constants, number)(to, in[0], in[1], in[2],
                                                                                     g->pq, count);
}

/* The compute type in which the kernel writes: bools are bytes. */
static gt_compute written(const general *g)
{
    return g->kernel_dtype == GT_BOOL ? GT_COMPUTE_U8 : g->compute;
}

static void run_segment(general *g, const int64_t *offset, int64_t start, int64_t count, tiles *t)
{
    const void *in[3] = {NULL, NULL, NULL};
    for (unsigned k = 0; k < g->operands; k++) {
        const operand *o = &g->in[k];
        const char *from = o->data + (offset[k] + start * o->stride) * (int64_t)o->size;
        in[k] = from;
        if (!o->in_place) {
            int64_t numbers = o->constant ? 1 : count;
            gt__cpu_load_tile(g->cpu, g->compute, o->dtype, from, o->stride, numbers, t->in[k]);
            if (o->rounds)
                round_tile(g, t->in[k], numbers, t->out);
            in[k] = t->in[k];
        }
    }
    char *to = g->out.data + (offset[g->operands] + start * g->out.stride) * (int64_t)g->out.size;
    run_kernel(g, g->out.in_place ? to : t->out, in, count);
    if (!g->out.in_place)
        gt__cpu_store_tile(g->cpu, written(g), g->out.dtype, t->out, to, g->out.stride, count);
}

/* Segments begin <= s < end, numbered through all rows. */
static void run_segments(void *context, int64_t begin, int64_t end)
{
    general *g = context;
    tiles t;
    int64_t offset[GT_LOOP_VIEWS];
    for (int64_t s = begin; s < end;) {
        int64_t row = s / g->segments, last = (row + 1) * g->segments;
        gt__loop_offsets(&g->loop, g->loop.rank - 1, row, offset);
        for (; s < end && s < last; s++) {
            int64_t start = (s - row * g->segments) * g->segment;
            int64_t left = g->row - start;
            run_segment(g, offset, start, left < g->segment ? left : g->segment, &t);
        }
    }
}

/* ---- general, in boxes --------------------------------------------------------------------------------------- */

/* Where box number `box` begins in every view, and its shape: less at the edges. */
static int64_t find_box(const general *g, int64_t box, int64_t *offset, int64_t *shape)
{
    const gt_loop *loop = &g->loop;
    int64_t elements = 1;
    for (int view = 0; view < loop->views; view++)
        offset[view] = 0;
    for (int axis = loop->rank - 1; axis >= 0; axis--) {
        int64_t start = box % g->count[axis] * g->extent[axis], left = loop->shape[axis] - start;
        box /= g->count[axis];
        shape[axis] = left < g->extent[axis] ? left : g->extent[axis];
        elements *= shape[axis];
        for (int view = 0; view < loop->views; view++)
            offset[view] += start * loop->stride[view][axis];
    }
    return elements;
}

/* The elements of an operand in a box: where they are, or gathered into its tile. `loaded` is what the tile holds. */
static const void *read_box(const general *g, unsigned k, const char *from, const int64_t *shape, int64_t elements,
                            tiles *t, const char **loaded)
{
    const operand *o = &g->in[k];
    gt_box box;
    if (o->constant)
        box = (gt_box){.rank = 1, .shape = {1}};
    else
        gt__box_set(&box, g->loop.rank, shape, g->loop.stride[k]);
    if (o->reads_in_place && gt__box_is_row(&box))
        return from;
    if (*loaded != from) {
        gt__box_load(g->cpu, g->compute, o->dtype, &box, from, t->in[k]);
        if (o->rounds)
            round_tile(g, t->in[k], o->constant ? 1 : elements, t->out);
    }
    *loaded = from;
    return t->in[k];
}

static void run_boxes(void *context, int64_t begin, int64_t end)
{
    general *g = context;
    tiles t;
    int64_t offset[GT_LOOP_VIEWS], shape[2][GT_MAX_RANK] = {{0}};
    const char *loaded[3] = {NULL, NULL, NULL};
    for (int64_t number = begin; number < end; number++) {
        int64_t *now = shape[number & 1], elements = find_box(g, number, offset, now);
        const void *in[3] = {NULL, NULL, NULL};
        bool same = memcmp(shape[0], shape[1], sizeof shape[0]) == 0;
        for (unsigned k = 0; k < g->operands; k++) {
            if (!same)
                loaded[k] = NULL;
            in[k] =
                read_box(g, k, g->in[k].data + offset[k] * (int64_t)g->in[k].size, now, elements, &t, &loaded[k]);
        }
        gt_box box;
        gt__box_set(&box, g->loop.rank, now, g->loop.stride[g->operands]);
        char *to = g->out.data + offset[g->operands] * (int64_t)g->out.size;
        bool in_place = g->out.reads_in_place && gt__box_is_row(&box);
        run_kernel(g, in_place ? to : t.out, in, elements);
        if (!in_place)
            gt__box_store(g->cpu, written(g), g->out.dtype, &box, t.out, to);
    }
}

/* Whether an axis is where the elements of a view are neighbours. */
static bool runs_along(const gt_loop *loop, int view, int axis)
{
    return loop->stride[view][axis] == 1 && loop->shape[axis] > 1;
}

/* Move an axis to a later place; those between move forward. The order of elements does not matter. */
static void move_axis_to(gt_loop *loop, int from, int to)
{
    for (int axis = from; axis < to; axis++) {
        int64_t size = loop->shape[axis];
        loop->shape[axis] = loop->shape[axis + 1];
        loop->shape[axis + 1] = size;
        for (int view = 0; view < loop->views; view++) {
            int64_t stride = loop->stride[view][axis];
            loop->stride[view][axis] = loop->stride[view][axis + 1];
            loop->stride[view][axis + 1] = stride;
        }
    }
}

/* Rows run along the axis along which most views do. */
static void choose_row_axis(gt_loop *loop)
{
    int last = loop->rank - 1, best = last, most = -1;
    for (int axis = last; axis >= 0; axis--) {
        int views = 0;
        for (int view = 0; view < loop->views; view++)
            views += runs_along(loop, view, axis);
        if (views > most) {
            most = views;
            best = axis;
        }
    }
    move_axis_to(loop, best, last);
}

/* Find a view that runs along another axis than rows do, and make that the second-last axis. */
static bool choose_cross_axis(gt_loop *loop)
{
    int last = loop->rank - 1, best = -1;
    for (int view = 0; view < loop->views; view++)
        for (int axis = 0; axis < last && loop->stride[view][last] != 0; axis++)
            if (runs_along(loop, view, axis) && (best < 0 || loop->shape[axis] > loop->shape[best]))
                best = axis;
    if (best >= 0)
        move_axis_to(loop, best, last - 1);
    return best >= 0;
}

/* Cut the loop into boxes, if that is better than rows; otherwise leave g->boxes 0. */
static void plan_boxes(general *g)
{
    gt_loop *loop = &g->loop;
    int last = loop->rank - 1;
    int64_t size = 1;
    bool crossed = choose_cross_axis(loop);
    if (last == 0 || (!crossed && loop->shape[last] >= SHORT_ROW))
        return;
    g->boxes = 1;
    for (int axis = last; axis >= 0; axis--) {
        int64_t most = GT_TILE / size;
        if (crossed && axis == last) { /* leave room for the other axis */
            bool converts = g->compute_dtype != gt__native_dtype(g->compute);
            int64_t side = g->operands == 1 || converts ? BOX_SIDE : CROSS_SIDE;
            most = GT_TILE / (loop->shape[last - 1] < side ? loop->shape[last - 1] : side);
        }
        g->extent[axis] = loop->shape[axis] < most ? loop->shape[axis] : most;
        size *= g->extent[axis];
        g->count[axis] = (loop->shape[axis] + g->extent[axis] - 1) / g->extent[axis];
        g->boxes *= g->count[axis];
    }
    g->box_size = size;
}

/* Whether a view has one value in each row, or in each box. */
static bool is_constant(const general *g, unsigned view)
{
    bool walked = g->loop.stride[view][g->loop.rank - 1] != 0;
    for (int axis = 0; g->boxes && axis < g->loop.rank; axis++)
        walked |= g->loop.stride[view][axis] != 0 && g->extent[axis] > 1;
    return !walked;
}

/* How the kernel accesses each operand along a row or in a box, and whether rows must be cut into tiles. */
static void plan_operands(general *g, const gt_call *call)
{
    int last = g->loop.rank - 1;
    unsigned constants = 0;
    for (unsigned k = 0; k < g->operands; k++)
        constants |= is_constant(g, k) ? 1u << k : 0;
    g->constants = gt__elementwise_constants(constants, g->operands);
    bool tiled = false;
    for (unsigned k = 0; k <= g->operands; k++) {
        const gt_view *view = k < g->operands ? call->in[k] : call->out;
        operand *o = k < g->operands ? &g->in[k] : &g->out;
        gt_dtype wanted = k < g->operands ? gt__native_dtype(g->compute) : g->kernel_dtype;
        o->data = k < g->operands ? gt__call_data(call, k) : view->data;
        o->dtype = (gt_dtype)view->meta.dtype;
        o->size = gt__dtype_size(o->dtype);
        o->stride = g->loop.stride[k][last];
        o->constant = k < g->operands && g->constants & 1u << k;
        o->reads_in_place = k < g->operands ? gt__elementwise_reads_as(o->dtype, wanted) : o->dtype == wanted;
        o->in_place = o->reads_in_place && (o->stride == 1 || o->constant || g->loop.shape[last] == 1);
        o->rounds = k < g->operands && gt__elementwise_rounds(g->compute_dtype, o->dtype);
        tiled |= !o->in_place && !o->constant;
    }
    g->row = g->loop.shape[last];
    int64_t longest = tiled ? GT_TILE : LONGEST_SEGMENT;
    g->segment = g->row < longest ? g->row : longest;
    g->segments = (g->row + g->segment - 1) / g->segment;
}

static gt_err elementwise_general(gt_cpu *cpu, const gt_call *call, gt_compute compute)
{
    general g = {.cpu = cpu,
                 .op = call->op,
                 .compute = compute,
                 .compute_dtype = call->compute,
                 .operands = call->operands};
    g.kernel_dtype = gt__elementwise_written(call->op, compute, (gt_dtype)call->out->meta.dtype);
    g.pq[0] = call->ins->imm[0].f;
    g.pq[1] = call->ins->imm[1].f;
    g.checks_zero = gt__elementwise_divides(call->op, compute);
    g.one_number = call->operands == 2 && call->in[1]->meta.numel == 1;
    gt__loop_start(&g.loop, &call->out->meta);
    for (unsigned k = 0; k < call->operands; k++)
        gt__loop_add(&g.loop, call->in[k]);
    gt__loop_add(&g.loop, call->out);
    gt__loop_collapse(&g.loop);
    choose_row_axis(&g.loop);
    plan_boxes(&g);
    plan_operands(&g, call);
    int64_t grain = grain_of(call->op) / (g.boxes ? g.box_size : g.segment);
    int64_t chunks = g.boxes ? g.boxes : call->out->meta.numel / g.row * g.segments;
    gt__parallel_for(cpu->parallel, chunks, grain > 1 ? grain : 1, g.boxes ? run_boxes : run_segments, &g);
    return atomic_load(&g.zero) ? zero_division() : GT_OK;
}

/* ---- both -------------------------------------------------------------------------------------------------- */

/* A literal as float32. */
static inline float literal_f32(const gt_call *call, unsigned k)
{
    const gt_imm *value = &call->value[k];
    switch (call->in[k]->meta.dtype) {
    case GT_FLOAT64:
        return (float)value->f;
    case GT_INT64:
        return (float)value->i;
    default:
        return (float)*(const uint8_t *)value; /* a bool */
    }
}

/* Small float32 tensors of one shape, and literals: a call costs more than its arithmetic. False: use the general path. */
static bool elementwise_small(const gt_cpu *cpu, const gt_call *call)
{
    int64_t count = call->out->meta.numel;
    const void *in[3] = {NULL, NULL, NULL};
    unsigned constants = 0;
    float number[3];
    if (call->out->meta.dtype != GT_FLOAT32 || count > COSTLY_GRAIN || cpu->kernels->guarded[call->op])
        return false;
    for (unsigned k = 0; k < call->operands; k++) {
        const gt_view *view = call->in[k];
        if (call->literals >> k & 1) {
            number[k] = literal_f32(call, k);
            in[k] = &number[k];
            constants |= 1u << k;
            continue;
        }
        if (view->meta.dtype != GT_FLOAT32 || view->meta.numel != count || !view->contiguous)
            return false;
        in[k] = view->data;
    }
    gt_elementwise_kernel kernel = cpu->kernels->elementwise[call->op][GT_COMPUTE_F32][constants];
    if (constants) {
        if (constants != gt__elementwise_constants(constants, call->operands))
            return false;
        kernel = gt__elementwise_kernel(cpu->kernels, call->op, GT_COMPUTE_F32, constants, in[1]);
    }
    double pq[2] = {call->ins->imm[0].f, call->ins->imm[1].f};
    kernel(call->out->data, in[0], in[1], in[2], pq, count);
    return true;
}

static gt_err elementwise(gt_cpu *cpu, const gt_call *call)
{
    if (elementwise_small(cpu, call))
        return GT_OK;
    gt_compute compute = gt__elementwise_compute(call->op, call->compute);
    const void *in[3] = {NULL, NULL, NULL};
    gt_scalar value[3];
    unsigned constants;
    if (find_direct(cpu, call, compute, in, value, &constants))
        return elementwise_direct(cpu, call, compute, in, constants);
    return elementwise_general(cpu, call, compute);
}

/*
 * A compute dtype narrower than the kernels' types: the kernels' extra bits are dropped when the result is stored,
 * but a single value of a wider dtype (only those do not take part in promotion, besides integers among halves, which
 * elementwise_general rounds) must lose its own before it is used.
 */
static gt_err elementwise_narrow(gt_cpu *cpu, const gt_call *call)
{
    gt_compute compute = gt__elementwise_compute(call->op, call->compute);
    const gt_view *in[3];
    gt_view narrow[3];
    gt_scalar wide, value[3];
    uint8_t literals = call->literals;
    for (unsigned k = 0; k < call->operands; k++) {
        const gt_view *view = in[k] = call->in[k];
        if (view->meta.numel != 1 || view->meta.dtype == call->compute)
            continue;
        gt_dtype dtype = gt__number_dtype(call->op, k, call->literals >> k & 1, call->compute);
        gt__cpu_load_tile(cpu, compute, (gt_dtype)view->meta.dtype, gt__call_data(call, k), 1, 1, &wide);
        gt__cpu_store_tile(cpu, compute, dtype, &wide, &value[k], 1, 1);
        narrow[k] = *view;
        narrow[k].data = &value[k];
        narrow[k].meta.dtype = (uint8_t)dtype;
        in[k] = &narrow[k];
        literals &= (uint8_t) ~(1u << k);
    }
    gt_call with_narrow = *call;
    with_narrow.in = in;
    with_narrow.literals = literals;
    return elementwise(cpu, &with_narrow);
}

gt_err gt__cpu_elementwise(gt_engine *engine, const gt_call *call)
{
    gt_cpu *cpu = gt__cpu(engine);
    if (call->out->meta.numel == 0)
        return GT_OK;
    return gt__elementwise_narrow(call->compute) ? elementwise_narrow(cpu, call) : elementwise(cpu, call);
}

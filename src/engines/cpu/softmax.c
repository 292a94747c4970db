/*
 * softmax.c: runs softmax, log_softmax and their gradients, each in one pass over memory: a line along the axis stays in the
 * cache between finding its maximum, summing its exponentials and scaling.
 *
 * If the axis is the last in memory, a line is processed in place. If not, neighbouring lines are processed side by side
 * (forward), as are short lines after they are transposed into a tile (box.h), or a line is gathered, computed and
 * stored, as are lines of other dtypes. Threads share the lines. The inner
 * loops are in kernels_softmax_template.h.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "engines/cpu/box.h"
#include "engines/cpu/movement.h"

enum {
    COST = 4,        /* of an element, in copied ones */
    SHORT_LINE = 32, /* elements: shorter lines are processed side by side */
};

typedef struct softmaxing {
    const gt_cpu *cpu;
    gt_loop lines; /* views: out, then the operands */
    int64_t n;
    int64_t stride[3]; /* along the axis: out, operands */
    gt_dtype dtype[3];
    char *data[3];
    int operands;
    gt_compute compute;
    bool native;
    bool logarithm;
    atomic_bool out_of_memory;
} softmaxing;

static void run_row(const softmaxing *s, void *out, const void *x, const void *y, gt_look *look)
{
    if (s->operands == 1)
        s->cpu->kernels->softmax_row[s->compute](out, x, s->n, s->logarithm, look);
    else
        s->cpu->kernels->softmax_backward_row[s->compute](out, x, y, s->n, s->logarithm, look);
}

/* One line, through tiles of the compute type: scratch holds the result's line and one for each operand. */
static void gather_line(const softmaxing *s, const int64_t *offset, char *scratch, gt_look *look)
{
    size_t bytes = (size_t)s->n * gt__compute_size(s->compute);
    for (int k = 1; k <= s->operands; k++)
        gt__cpu_load_tile(s->cpu, s->compute, s->dtype[k], gt__at(s->data[k], s->dtype[k], offset[k]),
                          s->stride[k], s->n, scratch + (size_t)k * bytes);
    run_row(s, scratch, scratch + bytes, scratch + 2 * bytes, look);
    gt__cpu_store_tile(s->cpu, s->compute, s->dtype[0], scratch, gt__at(s->data[0], s->dtype[0], offset[0]),
                       s->stride[0], s->n);
}

/* Positions are lines. */
static void gathered_lines(void *context, int64_t begin, int64_t end)
{
    softmaxing *s = context;
    char *scratch = malloc((size_t)(s->operands + 1) * (size_t)s->n * gt__compute_size(s->compute));
    if (!scratch) {
        atomic_store(&s->out_of_memory, true);
        return;
    }
    gt_look look = {.parallel = s->cpu->parallel, .left = GT_LOOK_ELEMENTS};
    for (; begin < end; begin++) {
        int64_t offset[GT_LOOP_VIEWS];
        gt__loop_offsets(&s->lines, s->lines.rank, begin, offset);
        gather_line(s, offset, scratch, &look);
    }
    free(scratch);
}

static void lines_in_place(void *context, int64_t begin, int64_t end)
{
    const softmaxing *s = context;
    gt_look look = {.parallel = s->cpu->parallel, .left = GT_LOOK_ELEMENTS};
    for (; begin < end; begin++) {
        int64_t offset[GT_LOOP_VIEWS];
        gt__loop_offsets(&s->lines, s->lines.rank, begin, offset);
        run_row(s, gt__at(s->data[0], s->dtype[0], offset[0]), gt__at(s->data[1], s->dtype[1], offset[1]),
                s->operands > 1 ? gt__at(s->data[2], s->dtype[2], offset[2]) : NULL, &look);
    }
}

static void lines_side_by_side(void *context, int64_t begin, int64_t end)
{
    const softmaxing *s = context;
    gt_look look = {.parallel = s->cpu->parallel, .left = GT_LOOK_ELEMENTS};
    int last = s->lines.rank - 1;
    while (begin < end) {
        int64_t offset[GT_LOOP_VIEWS], width = s->lines.shape[last] - begin % s->lines.shape[last];
        width = gt__min(gt__min(width, GT_SOFTMAX_COLUMNS), end - begin);
        gt__loop_offsets(&s->lines, s->lines.rank, begin, offset);
        s->cpu->kernels->softmax_column[s->compute](gt__at(s->data[0], s->dtype[0], offset[0]), s->stride[0],
                                                    gt__at(s->data[1], s->dtype[1], offset[1]), s->stride[1], s->n,
                                                    width, s->logarithm, &look);
        begin += width;
    }
}

/* Lines begin <= l < end, each SHORT_LINE elements at most, side by side in a tile. */
static void short_lines(void *context, int64_t begin, int64_t end)
{
    const softmaxing *s = context;
    _Alignas(64) char in[GT_TILE * sizeof(double)], out[GT_TILE * sizeof(double)];
    gt_look look = {.parallel = s->cpu->parallel, .left = GT_LOOK_ELEMENTS};
    int last = s->lines.rank - 1;
    int64_t most = gt__min(GT_SOFTMAX_COLUMNS, GT_TILE / s->n), offset[GT_LOOP_VIEWS];
    while (begin < end) {
        int64_t width = s->lines.shape[last] - begin % s->lines.shape[last];
        gt_box from, to;
        width = gt__min(gt__min(width, most), end - begin);
        gt__loop_offsets(&s->lines, s->lines.rank, begin, offset);
        gt__box_set(&to, 2, (int64_t[]){s->n, width}, (int64_t[]){s->stride[0], s->lines.stride[0][last]});
        gt__box_set(&from, 2, (int64_t[]){s->n, width}, (int64_t[]){s->stride[1], s->lines.stride[1][last]});
        gt__box_load(s->cpu, s->compute, s->dtype[1], &from, gt__at(s->data[1], s->dtype[1], offset[1]), in);
        s->cpu->kernels->softmax_column[s->compute](out, width, in, width, s->n, width, s->logarithm, &look);
        gt__box_store(s->cpu, s->compute, s->dtype[0], &to, out, gt__at(s->data[0], s->dtype[0], offset[0]));
        begin += width;
    }
}

/* Rows of SHORT_LINE elements at most, side by side in a tile. */
static void short_rows(const softmaxing *s, const char *x, int64_t rows, char *out, gt_look *look)
{
    _Alignas(64) char from[GT_TILE * sizeof(double)], to[GT_TILE * sizeof(double)];
    int64_t size = (int64_t)gt__compute_size(s->compute), most = gt__min(GT_SOFTMAX_COLUMNS, GT_TILE / s->n);
    for (int64_t r = 0, width; r < rows; r += width) {
        width = gt__min(most, rows - r);
        gt__transpose(size, from, width, x + r * s->n * size, s->n, s->n, width);
        s->cpu->kernels->softmax_column[s->compute](to, width, from, width, s->n, width, s->logarithm, look);
        gt__transpose(size, out + r * s->n * size, s->n, to, width, width, s->n);
    }
}

void gt__cpu_softmax_rows(const gt_cpu *cpu, gt_opcode op, gt_compute compute, const void *const *in, int64_t rows,
                          int64_t n, void *out)
{
    bool forward = op == GT_OP_softmax || op == GT_OP_log_softmax;
    softmaxing s = {.cpu = cpu,
                    .n = n,
                    .operands = forward ? 1 : 2,
                    .compute = compute,
                    .logarithm = op == GT_OP_log_softmax || op == GT_OP_log_softmax_backward};
    gt_look look = {.parallel = cpu->parallel, .left = GT_LOOK_ELEMENTS};
    if (forward && n <= SHORT_LINE) {
        short_rows(&s, in[0], rows, out, &look);
        return;
    }
    int64_t bytes = n * (int64_t)gt__compute_size(compute);
    for (int64_t r = 0; r < rows; r++)
        run_row(&s, (char *)out + r * bytes, (const char *)in[0] + r * bytes,
                forward ? NULL : (const char *)in[1] + r * bytes, &look);
}

gt_err gt__cpu_softmax(gt_engine *engine, const gt_call *call)
{
    gt_cpu *cpu = gt__cpu(engine);
    const gt_view *views[] = {call->out, call->in[0], call->operands > 1 ? call->in[1] : NULL};
    int64_t axis = call->ins->imm[0].i;
    softmaxing s = {.cpu = cpu,
                    .n = gt__view_size(call->out, axis),
                    .operands = (int)call->operands,
                    .compute = gt__cpu_compute((gt_dtype)call->out->meta.dtype),
                    .native = true,
                    .logarithm = call->op == GT_OP_log_softmax || call->op == GT_OP_log_softmax_backward};
    if (call->out->meta.numel == 0)
        return GT_OK;
    int64_t count = gt__lines_start(&s.lines, &call->out->meta, axis);
    bool in_place = true;
    for (int k = 0; k <= s.operands; k++) {
        gt__lines_add(&s.lines, views[k], axis);
        s.stride[k] = gt__view_stride(views[k], axis);
        s.dtype[k] = (gt_dtype)views[k]->meta.dtype;
        s.data[k] = views[k]->data;
        s.native &= s.dtype[k] == GT_FLOAT32 || s.dtype[k] == GT_FLOAT64;
        in_place &= s.stride[k] == 1 || s.n == 1;
    }
    gt__loop_collapse(&s.lines);
    int last = s.lines.rank - 1;
    bool side_by_side = s.operands == 1 && s.lines.stride[0][last] == 1 && s.lines.stride[1][last] == 1;
    if (s.operands == 1 && s.n <= SHORT_LINE && !(s.native && side_by_side))
        gt__parallel_for(cpu->parallel, count, gt__grain(COST * s.n), short_lines, &s);
    else if (s.native && in_place)
        gt__parallel_for(cpu->parallel, count, gt__grain(COST * s.n), lines_in_place, &s);
    else if (s.native && side_by_side)
        gt__parallel_for(cpu->parallel, count, gt__lines_across(cpu, count, COST * s.n), lines_side_by_side, &s);
    else
        gt__parallel_for(cpu->parallel, count, gt__grain(COST * s.n), gathered_lines, &s);
    if (atomic_load(&s.out_of_memory))
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    return GT_OK;
}

/*
 * search.c: runs searchsorted: the place of each value in a sorted line, by bisection.
 *
 * The sorted lines are copied into contiguous memory of the compute type, unless they are already; values go through
 * tiles. Comparisons are PyTorch's, so NaN goes to the end. Threads share the values.
 */
#include <stdlib.h>

#include "engines/cpu/movement.h"

typedef struct searching {
    const gt_cpu *cpu;
    gt_compute compute;
    const void *sorted; /* (lines or 1, n) of the compute type */
    int64_t n;
    int64_t per_line; /* values that share a sorted line; 0: all of them */
    bool right;
    gt_loop loop; /* over the values; views: out, values */
    const gt_view *values;
    int64_t *out;
} searching;

#define BISECT(name, type)                                                                                        \
    static int64_t bisect_##name(const void *sorted, int64_t n, const void *tile, int64_t k, bool right)          \
    {                                                                                                             \
        const type *line = sorted, value = ((const type *)tile)[k];                                               \
        int64_t low = 0, high = n;                                                                                \
        while (low < high) {                                                                                      \
            int64_t middle = low + (high - low) / 2;                                                              \
            bool after = right ? !(line[middle] > value) : !(line[middle] >= value);                              \
            low = after ? middle + 1 : low;                                                                       \
            high = after ? high : middle;                                                                         \
        }                                                                                                         \
        return low;                                                                                               \
    }
BISECT(f32, float)
BISECT(f64, double)
BISECT(i64, int64_t)

/* Positions are values, row-major. */
static void search_values(void *context, int64_t begin, int64_t end)
{
    static int64_t (*const bisect[])(const void *, int64_t, const void *, int64_t, bool) = {
        [GT_COMPUTE_F32] = bisect_f32, [GT_COMPUTE_F64] = bisect_f64, [GT_COMPUTE_I64] = bisect_i64};
    _Alignas(64) char tile[GT_TILE * sizeof(double)];
    const searching *s = context;
    gt_dtype dtype = (gt_dtype)s->values->meta.dtype;
    int last = s->loop.rank - 1;
    size_t line_bytes = (size_t)s->n * gt__compute_size(s->compute);
    while (begin < end) {
        int64_t offset[GT_LOOP_VIEWS], width = s->loop.shape[last];
        int64_t count = gt__min(gt__min(width - begin % width, end - begin), GT_TILE);
        gt__loop_offsets(&s->loop, s->loop.rank, begin, offset);
        gt__cpu_load_tile(s->cpu, s->compute, dtype, gt__at(s->values->data, dtype, offset[1]),
                          s->loop.stride[1][last], count, tile);
        for (int64_t k = 0; k < count; k++) {
            const char *line = s->sorted;
            if (s->per_line)
                line += (size_t)((begin + k) / s->per_line) * line_bytes;
            s->out[begin + k] = bisect[s->compute](line, s->n, tile, k, s->right);
        }
        begin += count;
    }
}

gt_err gt__cpu_search(gt_engine *engine, const gt_call *call)
{
    gt_cpu *cpu = gt__cpu(engine);
    const gt_view *sorted = call->in[0], *values = call->in[1];
    gt_dtype dtype = (gt_dtype)sorted->meta.dtype;
    searching s = {.cpu = cpu,
                   .compute = gt__cpu_compute(dtype),
                   .sorted = sorted->data,
                   .n = sorted->meta.shape[sorted->meta.rank - 1],
                   .right = call->ins->imm[0].i != 0,
                   .values = values,
                   .out = call->out->data};
    static const gt_dtype computed[] = {
        [GT_COMPUTE_F32] = GT_FLOAT32, [GT_COMPUTE_F64] = GT_FLOAT64, [GT_COMPUTE_I64] = GT_INT64};
    void *scratch = NULL;
    if (call->out->meta.numel == 0)
        return GT_OK;
    if (!sorted->contiguous || computed[s.compute] != dtype) {
        GT_TRY(gt__cpu_scratch(cpu, (size_t)sorted->meta.numel * gt__compute_size(s.compute), &scratch));
        gt__cpu_copy_view(cpu, sorted, computed[s.compute], scratch);
        s.sorted = scratch;
    }
    if (sorted->meta.rank > 1)
        s.per_line = values->meta.shape[values->meta.rank - 1];
    gt__loop_start(&s.loop, &values->meta);
    gt__loop_add(&s.loop, call->out);
    gt__loop_add(&s.loop, values);
    gt__loop_collapse(&s.loop);
    enum { COST = 16 }; /* of a search, in copied elements */
    gt__parallel_for(cpu->parallel, values->meta.numel, gt__grain(COST), search_values, &s);
    free(scratch);
    return GT_OK;
}

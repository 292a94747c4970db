/*
 * reduce.c: runs the REDUCE rows of the op table: sum, prod, mean, var, amax, amin, any, all, logsumexp, norm.
 *
 * The axes of the input fall into two loops: the kept ones, in the order of the result, and the reduced ones.
 * Results are made in tiles, each with its accumulators in the L1 cache, in one of two ways: by row (each result
 * folds the elements of its own run) or by column (rows of elements are folded into a whole tile of results),
 * whichever walks memory forwards. Few results of many elements are also split along the reduced axes into parts,
 * merged at the end. argreduce.c has argmax and argmin.
 */
#include <math.h>
#include <stdlib.h>

#include "engines/cpu/box.h"
#include "engines/cpu/movement.h"

enum {
    ROW_TILE = 64,          /* results to a tile, by row */
    GATHERED = 4 * GT_TILE, /* elements gathered at a time, by column */
    FEWEST_COLUMNS = 16,    /* in a tile of short runs */
    PART_GRAIN = 16384,     /* elements worth a task of their own */
    MOST_AT_ONCE = 1 << 24, /* elements in one call of a kernel: milliseconds */
    POLL = 1 << 21,         /* gathered elements between two looks whether the work was cancelled */
    ENOUGH_TASKS = 32,      /* for any number of threads: fewer tiles than this are split into parts */
};

typedef union accumulator {
    double f;
    int64_t i;
} accumulator;

typedef struct reduction {
    const gt_cpu *cpu;
    gt_opcode op;
    gt_fold fold;
    gt_fold second; /* of reductions in two passes */
    gt_compute compute;
    const char *data;
    gt_dtype dtype;
    size_t size;
    bool native;     /* elements are already of the compute type */
    gt_loop kept;    /* one view: the input */
    gt_loop reduced; /* one view: the input */
    int64_t results;
    int64_t elements; /* of each result */
    double divisor;   /* mean, var */
    double parameter; /* norm: p */
    bool by_column;
    int64_t tile; /* results in a tile; a tile never leaves its row of the last kept axis */
    int64_t row;  /* of the last kept axis (by row: all results) */
    int64_t tiles;
    int64_t parts; /* of the reduced elements */
    gt_dtype out_dtype;
    char *out;
    accumulator *partial; /* (parts, results), when there are several parts */
    const double *center; /* (results): in parts, second pass of var and logsumexp; norm: p */
} reduction;

static bool is_integer(const reduction *r)
{
    return r->compute == GT_COMPUTE_I64;
}

static accumulator first_value(const reduction *r, gt_fold fold)
{
    bool integer = is_integer(r);
    switch (fold) {
    case GT_FOLD_PROD:
    case GT_FOLD_ALL:
        return integer ? (accumulator){.i = 1} : (accumulator){.f = 1};
    case GT_FOLD_MAX:
        return integer ? (accumulator){.i = INT64_MIN} : (accumulator){.f = -HUGE_VAL};
    case GT_FOLD_MIN:
    case GT_FOLD_ABS_MIN:
        return integer ? (accumulator){.i = INT64_MAX} : (accumulator){.f = HUGE_VAL};
    default:
        return integer ? (accumulator){.i = 0} : (accumulator){.f = 0};
    }
}

/* ---- accumulating a tile ----------------------------------------------------------------------------------- */

/*
 * The next run along the last reduced axis from element `position` on; returns its length, its start in *offset.
 */
static int64_t next_run(const reduction *r, int64_t position, int64_t end, int64_t *offset)
{
    int last = r->reduced.rank - 1;
    int64_t length = r->reduced.shape[last], row = position / length, within = position - row * length;
    gt__loop_offsets(&r->reduced, last, row, offset);
    *offset += within * r->reduced.stride[0][last];
    return end - position < length - within ? end - position : length - within;
}

static void fold_by_row(const reduction *r, gt_fold fold, accumulator *total, int64_t base, int64_t begin,
                        int64_t end, const double *center)
{
    _Alignas(64) char gathered[GT_TILE * sizeof(double)];
    gt_fold_row_kernel kernel = r->cpu->kernels->fold_row[fold][r->compute];
    int64_t stride = r->reduced.stride[0][r->reduced.rank - 1], offset, looked = begin;
    while (begin < end) {
        int64_t count = next_run(r, begin, end, &offset);
        const char *from = r->data + (base + offset) * (int64_t)r->size;
        if (begin - looked >= POLL) {
            looked = begin;
            if (gt__parallel_poll(r->cpu->parallel))
                return;
        }
        if (r->native && stride == 1) {
            count = gt__min(count, MOST_AT_ONCE);
            kernel(total, from, count, center);
        } else {
            count = count < GT_TILE ? count : GT_TILE;
            gt__cpu_load_tile(r->cpu, r->compute, r->dtype, from, stride, count, gathered);
            kernel(total, gathered, count, center);
        }
        begin += count;
    }
}

static void merge(const reduction *r, gt_fold fold, accumulator *total, const accumulator *part, int64_t results)
{
    static const gt_opcode merging[GT_FOLD_COUNT] = {
        [GT_FOLD_SUM] = GT_OP_add,     [GT_FOLD_PROD] = GT_OP_mul,    [GT_FOLD_MAX] = GT_OP_maximum,
        [GT_FOLD_MIN] = GT_OP_minimum, [GT_FOLD_ANY] = GT_OP_maximum, [GT_FOLD_ALL] = GT_OP_minimum,
        [GT_FOLD_SQUARES] = GT_OP_add, [GT_FOLD_ABS] = GT_OP_add,     [GT_FOLD_ABS_MAX] = GT_OP_maximum,
        [GT_FOLD_NONZERO] = GT_OP_add, [GT_FOLD_POWERS] = GT_OP_add,  [GT_FOLD_ABS_MIN] = GT_OP_minimum,
        [GT_FOLD_EXPS] = GT_OP_add,
    };
    gt_compute compute = is_integer(r) ? GT_COMPUTE_I64 : GT_COMPUTE_F64;
    r->cpu->kernels->elementwise[merging[fold]][compute][0](total, total, part, NULL, NULL, results);
}

/* Gather (rows, results) elements into a dense matrix of the compute type. */
static void gather_rows(const reduction *r, const char *from, int64_t stride, int64_t rows, int64_t across,
                        int64_t results, char *to)
{
    int64_t most = GT_TILE / results, size = (int64_t)gt__compute_size(r->compute);
    for (int64_t i = 0; i < rows; i += most) {
        gt_box box;
        gt__box_set(&box, 2, (int64_t[]){rows - i < most ? rows - i : most, results}, (int64_t[]){stride, across});
        gt__box_load(r->cpu, r->compute, r->dtype, &box, from + i * stride * (int64_t)r->size,
                     to + i * results * size);
    }
}

/* The rows of a matrix into total[]. Several rows of a narrow dense matrix make a wide one, whose rows are folded first. */
static void fold_matrix(const reduction *r, gt_fold fold, accumulator *total, const char *x, int64_t stride,
                        int64_t rows, int64_t results, const double *center)
{
    enum { WIDE = 64 };
    gt_fold_column_kernel kernel = r->cpu->kernels->fold_column[fold][r->compute];
    int64_t together = WIDE / results;
    if (!center && stride == results && together > 1 && rows >= 4 * together) {
        accumulator wide[WIDE];
        const accumulator nothing = first_value(r, fold);
        for (int64_t j = 0; j < together * results; j++)
            wide[j] = nothing;
        kernel(wide, x, together * results, rows / together, together * results, NULL);
        for (int64_t k = 0; k < together; k++)
            merge(r, fold, total, wide + k * results, results);
        x += rows / together * together * results * (int64_t)gt__compute_size(r->compute);
        rows %= together;
    }
    kernel(total, x, stride, rows, results, center);
}

static void fold_by_column(const reduction *r, gt_fold fold, accumulator *total, int64_t results, int64_t base,
                           int64_t begin, int64_t end, const double *center)
{
    _Alignas(64) char gathered[GATHERED * sizeof(double)];
    int64_t stride = r->reduced.stride[0][r->reduced.rank - 1], offset;
    int64_t across = r->kept.stride[0][r->kept.rank - 1], looked = begin;
    while (begin < end) {
        int64_t rows = next_run(r, begin, end, &offset);
        const char *from = r->data + (base + offset) * (int64_t)r->size;
        if ((begin - looked) * results >= POLL) {
            looked = begin;
            if (gt__parallel_poll(r->cpu->parallel))
                return;
        }
        if (r->native && across == 1) {
            rows = gt__min(rows, MOST_AT_ONCE / results);
            fold_matrix(r, fold, total, from, stride, rows, results, center);
        } else {
            rows = rows < GATHERED / results ? rows : GATHERED / results;
            gather_rows(r, from, stride, rows, across, results, gathered);
            fold_matrix(r, fold, total, gathered, results, rows, results, center);
        }
        begin += rows;
    }
}

/* The rows of a matrix, each into its own total. */
static void fold_matrix_rows(const reduction *r, gt_fold fold, int64_t first, int64_t results, int64_t begin,
                             int64_t end, const double *center, accumulator *total)
{
    _Alignas(64) char gathered[GT_TILE * sizeof(double)];
    gt_fold_row_kernel kernel = r->cpu->kernels->fold_row[fold][r->compute];
    int64_t length = end - begin, stride = r->kept.stride[0][0], size = (int64_t)r->size;
    int64_t together = r->native ? results : length > 0 ? GT_TILE / length : results;
    for (int64_t i = 0, rows; i < results; i += rows) {
        rows = results - i < together ? results - i : together;
        const char *x = r->data + ((first + i) * stride + begin) * size;
        int64_t step = stride * size;
        if (!r->native && length > 0) {
            gt_box box;
            gt__box_set(&box, 2, (int64_t[]){rows, length}, (int64_t[]){stride, 1});
            gt__box_load(r->cpu, r->compute, r->dtype, &box, x, gathered);
            x = gathered;
            step = length * (int64_t)gt__compute_size(r->compute);
        }
        for (int64_t j = 0; j < rows; j++) {
            kernel(&total[i + j], x + j * step, length, center ? &center[i + j] : NULL);
            if (__builtin_expect(length > POLL, 0) && gt__parallel_poll(r->cpu->parallel))
                return;
        }
    }
}

/* Fold elements begin <= e < end of each of `results` results, from number `first` on, into total[]. */
static void fold_tile(const reduction *r, gt_fold fold, int64_t first, int64_t results, int64_t begin, int64_t end,
                      const double *center, accumulator *total)
{
    int64_t base;
    const accumulator nothing = first_value(r, fold);
    for (int64_t j = 0; j < results; j++)
        total[j] = nothing;
    if (r->by_column) {
        gt__loop_offsets(&r->kept, r->kept.rank, first, &base);
        fold_by_column(r, fold, total, results, base, begin, end, center);
        return;
    }
    if (r->kept.rank == 1 && r->reduced.rank == 1 && r->reduced.stride[0][0] == 1 &&
        end - begin <= (r->native ? MOST_AT_ONCE : GT_TILE)) {
        fold_matrix_rows(r, fold, first, results, begin, end, center, total);
        return;
    }
    for (int64_t j = 0; j < results; j++) {
        gt__loop_offsets(&r->kept, r->kept.rank, first + j, &base);
        fold_by_row(r, fold, &total[j], base, begin, end, center ? &center[j] : NULL);
    }
}

/* ---- results ----------------------------------------------------------------------------------------------- */

/* var and logsumexp take two passes: the second adds squared differences from the mean, or exponentials relative to the
 * maximum. */
static bool looks_twice(const reduction *r)
{
    return r->op == GT_OP_var || r->op == GT_OP_logsumexp;
}

/* The center of the second pass. An infinite maximum would make everything NaN. */
static double center_from(const reduction *r, double total)
{
    if (r->op == GT_OP_logsumexp)
        return isinf(total) ? 0 : total;
    return total / (double)r->elements;
}

static double root(double total, double p)
{
    return p == 2 ? sqrt(total) : p == 1 || p == 0 || isinf(p) ? total : pow(total, 1 / p);
}

static void store_results(const reduction *r, int64_t first, int64_t results, accumulator *total,
                          const double *center)
{
    char *to = r->out + first * (int64_t)gt__dtype_size(r->out_dtype);
    if (r->op == GT_OP_mean || r->op == GT_OP_var)
        for (int64_t j = 0; j < results; j++)
            total[j].f /= r->divisor;
    if (r->op == GT_OP_logsumexp)
        for (int64_t j = 0; j < results; j++)
            total[j].f = log(total[j].f) + center[j];
    if (r->op == GT_OP_norm)
        for (int64_t j = 0; j < results; j++)
            total[j].f = root(total[j].f, r->parameter);
    gt__cpu_store_tile(r->cpu, is_integer(r) ? GT_COMPUTE_I64 : GT_COMPUTE_F64, r->out_dtype, total, to, 1,
                       results);
}

/* Few elements of the compute type for each result, in one run by column: no accumulators. */
static bool fold_directly(const reduction *r, int64_t first, int64_t results)
{
    bool plain = r->op == GT_OP_sum || r->op == GT_OP_prod || r->op == GT_OP_amax || r->op == GT_OP_amin;
    if (!plain || !r->by_column || !r->native || r->out_dtype != r->dtype || r->reduced.rank != 1 ||
        r->elements == 0 || r->elements > GT_FEW_ROWS)
        return false;
    _Alignas(64) char gathered[GATHERED * sizeof(double)];
    int64_t base, stride = r->reduced.stride[0][0], across = r->kept.stride[0][r->kept.rank - 1];
    gt__loop_offsets(&r->kept, r->kept.rank, first, &base);
    const char *from = r->data + base * (int64_t)r->size;
    if (across != 1) {
        if (r->elements * results > GATHERED)
            return false;
        gather_rows(r, from, stride, r->elements, across, results, gathered);
        from = gathered;
        stride = results;
    }
    r->cpu->kernels->fold_few[r->fold][r->compute](r->out + first * (int64_t)r->size, from, stride, r->elements,
                                                   results);
    return true;
}

static void whole_tile(const reduction *r, int64_t first, int64_t results)
{
    if (fold_directly(r, first, results))
        return;
    accumulator total[GT_TILE];
    double center[GT_TILE], *centers = NULL; /* NULL: not filled */
    center[0] = r->parameter;
    if (r->fold == GT_FOLD_POWERS) {
        for (int64_t j = 1; j < results; j++)
            center[j] = r->parameter;
        centers = center;
    }
    fold_tile(r, r->fold, first, results, 0, r->elements, centers, total);
    if (looks_twice(r)) {
        for (int64_t j = 0; j < results; j++)
            center[j] = center_from(r, total[j].f);
        centers = center;
        fold_tile(r, r->second, first, results, 0, r->elements, centers, total);
    }
    store_results(r, first, results, total, centers);
}

static void part_tile(const reduction *r, int64_t part, int64_t first, int64_t results)
{
    int64_t share = (r->elements + r->parts - 1) / r->parts;
    int64_t begin = part * share, end = begin + share < r->elements ? begin + share : r->elements;
    fold_tile(r, r->fold, first, results, begin, end, r->center ? r->center + first : NULL,
              r->partial + part * r->results + first);
}

/* Tasks begin <= t < end, numbered by part and, within it, by tile. */
static void run_tasks(void *context, int64_t begin, int64_t end)
{
    const reduction *r = context;
    int64_t tiles_to_row = (r->row + r->tile - 1) / r->tile;
    for (int64_t task = begin; task < end && !gt__parallel_cancelled(r->cpu->parallel); task++) {
        int64_t part = task / r->tiles, tile = task % r->tiles;
        int64_t row = tile / tiles_to_row, within = tile % tiles_to_row * r->tile;
        int64_t results = r->row - within < r->tile ? r->row - within : r->tile;
        if (r->parts == 1)
            whole_tile(r, row * r->row + within, results);
        else
            part_tile(r, part, row * r->row + within, results);
    }
}

/* One pass over all parts; the totals end in the first part's accumulators. */
static void run_parts(reduction *r)
{
    gt__parallel_for(r->cpu->parallel, r->parts * r->tiles, 1, run_tasks, r);
    for (int64_t part = 1; part < r->parts; part++)
        merge(r, r->fold, r->partial, r->partial + part * r->results, r->results);
}

static gt_err reduce_in_parts(reduction *r)
{
    size_t results = (size_t)r->results;
    double *center = malloc(results * (size_t)r->parts * sizeof *r->partial + results * sizeof *center);
    if (!center)
        return gt__fail(GT_ERR_MEMORY, "no memory for the partial results of %s", gt__op_table[r->op].name);
    r->partial = (accumulator *)(center + results);
    for (int64_t j = 0; j < r->results; j++)
        center[j] = r->parameter;
    r->center = r->fold == GT_FOLD_POWERS ? center : NULL;
    run_parts(r);
    if (looks_twice(r)) {
        for (int64_t j = 0; j < r->results; j++)
            center[j] = center_from(r, r->partial[j].f);
        r->fold = r->second;
        r->center = center;
        run_parts(r);
    }
    store_results(r, 0, r->results, r->partial, center);
    free(center);
    return GT_OK;
}

/* ---- planning ---------------------------------------------------------------------------------------------- */

static gt_fold fold_of_norm(double p)
{
    return p == 2           ? GT_FOLD_SQUARES
           : p == 1         ? GT_FOLD_ABS
           : p == 0         ? GT_FOLD_NONZERO
           : p == HUGE_VAL  ? GT_FOLD_ABS_MAX
           : p == -HUGE_VAL ? GT_FOLD_ABS_MIN
                            : GT_FOLD_POWERS;
}

static gt_fold fold_of(gt_opcode op, double parameter)
{
    switch (op) {
    case GT_OP_norm:
        return fold_of_norm(parameter);
    case GT_OP_logsumexp:
        return GT_FOLD_MAX;
    case GT_OP_prod:
        return GT_FOLD_PROD;
    case GT_OP_amax:
        return GT_FOLD_MAX;
    case GT_OP_amin:
        return GT_FOLD_MIN;
    case GT_OP_any:
        return GT_FOLD_ANY;
    case GT_OP_all:
        return GT_FOLD_ALL;
    default:
        return GT_FOLD_SUM;
    }
}

/* The axes of `view` that `mask` selects, as a loop of its own; returns the number of positions in it. */
static int64_t select_axes(gt_loop *loop, const gt_view *view, uint64_t mask)
{
    int64_t count = 1;
    *loop = (gt_loop){.views = 1};
    for (int axis = 0; axis < view->meta.rank; axis++) {
        if (!(mask >> axis & 1))
            continue;
        loop->shape[loop->rank] = view->meta.shape[axis];
        loop->stride[0][loop->rank++] = view->stride[axis];
        count *= view->meta.shape[axis];
    }
    gt__loop_collapse(loop);
    return count;
}

static int64_t last_stride(const gt_loop *loop)
{
    int64_t stride = loop->stride[0][loop->rank - 1];
    return stride < 0 ? -stride : stride;
}

/* Runs shorter than this are better folded by column, gathered: the kernels for rows take so many elements at a time. */
static int64_t short_run(const gt_cpu *cpu, gt_compute compute)
{
    int64_t elements = 8 * cpu->kernels->vector_bytes / (int64_t)gt__compute_size(compute);
    return elements > 32 ? elements : 32;
}

bool gt__cpu_reduce_beside(const gt_cpu *cpu, gt_compute compute, int64_t rows, int64_t n)
{
    return n < short_run(cpu, compute) && rows > n;
}

static bool better_by_column(const reduction *r)
{
    int64_t across = r->kept.shape[r->kept.rank - 1], along = r->reduced.shape[r->reduced.rank - 1];
    if (across == 1)
        return false;
    if (gt__cpu_reduce_beside(r->cpu, r->compute, across, along))
        return true;
    return last_stride(&r->kept) < last_stride(&r->reduced) && last_stride(&r->kept) != 0;
}

static int64_t tile_of_short_runs(int64_t along)
{
    return along > GT_TILE / FEWEST_COLUMNS ? FEWEST_COLUMNS : GT_TILE / (along > 0 ? along : 1);
}

/*
 * Tiles for locality, parts so that every thread has work. The plan does not depend on the number of threads: where sums
 * are cut decides how they round, and a program should give the same numbers on any machine.
 */
static void plan_tasks(reduction *r)
{
    r->by_column = better_by_column(r);
    r->row = r->by_column ? r->kept.shape[r->kept.rank - 1] : r->results;
    int64_t share = r->results / ENOUGH_TASKS; /* narrower tiles of whole rows are better than parts of rows */
    int64_t widest = r->by_column ? GT_TILE : share < 1 ? 1 : share < ROW_TILE ? share : ROW_TILE;
    if (r->by_column && last_stride(&r->kept) != 1) { /* short runs: a tile has all of its elements in the cache */
        widest = tile_of_short_runs(r->reduced.shape[r->reduced.rank - 1]);
    }
    r->tile = r->row < widest ? r->row : widest;
    r->tiles = r->results / r->row * ((r->row + r->tile - 1) / r->tile);
    r->parts = 1;
    if (r->tiles < ENOUGH_TASKS) {
        int64_t wanted = (ENOUGH_TASKS + r->tiles - 1) / r->tiles;
        int64_t most = r->elements * r->tile / PART_GRAIN;
        most = most < r->elements ? most : r->elements;
        r->parts = wanted < most ? wanted : most > 0 ? most : 1;
    }
}

gt_compute gt__cpu_reduce_compute(gt_opcode op, gt_dtype dtype)
{
    gt_compute compute = gt__cpu_compute(dtype);
    /* The mean or variance of integers is computed in double. */
    return compute == GT_COMPUTE_I64 && gt__op_table[op].types == GT_TYPES_FLT ? GT_COMPUTE_F64 : compute;
}

static void set_op(reduction *r, gt_opcode op, double parameter)
{
    r->op = op;
    r->parameter = parameter;
    r->fold = fold_of(op, parameter);
    r->second = op == GT_OP_var ? GT_FOLD_SQUARES : GT_FOLD_EXPS;
}

static void set_divisor(reduction *r)
{
    r->divisor = (double)r->elements - (r->op == GT_OP_var ? r->parameter : 0.0);
    r->divisor = r->divisor > 0 ? r->divisor : 0; /* too few elements: infinity or NaN, as PyTorch has it */
}

void gt__cpu_reduce_rows(const gt_cpu *cpu, const gt_instruction *ins, gt_compute compute, const void *x,
                         int64_t rows, int64_t n, bool beside, gt_dtype dtype, void *out)
{
    reduction r = {.cpu = cpu, .compute = compute, .native = true, .out_dtype = dtype, .out = out, .data = x};
    r.by_column = beside;
    r.dtype = gt__native_dtype(compute);
    set_op(&r, (gt_opcode)ins->op, ins->imm[1].f);
    r.size = gt__compute_size(compute);
    r.elements = n;
    set_divisor(&r);
    r.kept.rank = r.reduced.rank = r.reduced.stride[0][0] = 1;
    r.kept.views = r.reduced.views = 1;
    r.kept.shape[0] = rows;
    r.kept.stride[0][0] = r.reduced.shape[0] = n;
    int64_t tile = beside ? tile_of_short_runs(n) : ROW_TILE;
    for (int64_t first = 0; first < rows; first += tile)
        whole_tile(&r, first, gt__min(rows - first, tile));
}

/* ---- in parts, for programs -------------------------------------------------------------------------------- */

static reduction part_of(const gt_cpu *cpu, const gt_instruction *ins, gt_compute compute)
{
    reduction r = {.cpu = cpu, .compute = compute};
    set_op(&r, (gt_opcode)ins->op, ins->imm[1].f);
    return r;
}

void gt__cpu_fold_start(const gt_instruction *ins, gt_compute compute, int64_t results, void *totals)
{
    reduction r = part_of(NULL, ins, compute);
    accumulator *total = totals;
    for (int64_t j = 0; j < results; j++)
        total[j] = first_value(&r, r.fold);
}

void gt__cpu_fold_columns(const gt_cpu *cpu, const gt_instruction *ins, gt_compute compute, const void *x,
                          int64_t rows, int64_t n, void *totals)
{
    reduction r = part_of(cpu, ins, compute);
    size_t size = gt__compute_size(compute);
    accumulator *total = totals;
    for (int64_t j = 0; j < n; j += GT_TILE)
        fold_matrix(&r, r.fold, total + j, (const char *)x + (size_t)j * size, n, rows, gt__min(n - j, GT_TILE),
                    NULL);
}

void gt__cpu_fold_all(const gt_cpu *cpu, const gt_instruction *ins, gt_compute compute, const void *x,
                      int64_t count, void *total)
{
    cpu->kernels->fold_row[fold_of((gt_opcode)ins->op, 0)][compute](total, x, count, NULL);
}

void gt__cpu_fold_merge(const gt_cpu *cpu, const gt_instruction *ins, gt_compute compute, int64_t results,
                        void *totals, const void *part)
{
    reduction r = part_of(cpu, ins, compute);
    merge(&r, r.fold, totals, part, results);
}

void gt__cpu_fold_finish(const gt_cpu *cpu, const gt_instruction *ins, gt_compute compute, int64_t results,
                         int64_t elements, void *totals, gt_dtype dtype, void *out)
{
    reduction r = part_of(cpu, ins, compute);
    r.elements = elements;
    set_divisor(&r);
    r.out_dtype = dtype;
    r.out = out;
    store_results(&r, 0, results, totals, NULL);
}

gt_err gt__cpu_reduce(gt_engine *engine, const gt_call *call)
{
    const gt_view *in = call->in[0];
    double parameter = call->ins->imm[1].f;
    reduction r = {.cpu = gt__cpu(engine), .out_dtype = (gt_dtype)call->out->meta.dtype, .out = call->out->data};
    set_op(&r, call->op, parameter);
    uint64_t all = ((uint64_t)1 << in->meta.rank) - 1, mask = call->ins->imm[0].u;
    mask = mask ? mask : all;
    r.data = in->data;
    r.dtype = (gt_dtype)in->meta.dtype;
    r.size = gt__dtype_size(r.dtype);
    r.compute = gt__cpu_reduce_compute(call->op, r.dtype);
    r.native = r.dtype == GT_FLOAT32 || r.dtype == GT_FLOAT64 || (r.dtype == GT_INT64 && is_integer(&r));
    r.results = select_axes(&r.kept, in, all & ~mask);
    r.elements = select_axes(&r.reduced, in, mask);
    set_divisor(&r);
    if (r.results == 0)
        return GT_OK;
    plan_tasks(&r);
    if (r.parts > 1)
        return reduce_in_parts(&r);
    int64_t work = r.tile * (r.elements > 0 ? r.elements : 1);
    gt__parallel_for(r.cpu->parallel, r.tiles, work >= PART_GRAIN ? 1 : PART_GRAIN / work, run_tasks, &r);
    return GT_OK;
}

/*
 * argreduce.c: runs argmax and argmin: the position of the extreme element along an axis (or in the whole tensor).
 *
 * The first of equals wins, and NaN counts as the extreme, as in PyTorch. Each result is one line of elements; a
 * line is searched tile by tile, in place where it is contiguous and of the compute type; lines that lie side by side
 * are searched together, row by row, and so are short lines, after they are transposed into a tile (box.h). A long single
 * line is split over the threads. reduce.c has the reductions that yield values.
 */
#include <stdlib.h>

#include "engines/cpu/box.h"

enum {
    PIECE = GT_CPU_GRAIN, /* elements of a long line searched at once */
    SHORT_LINE = 64,      /* elements; a tile holds at least 16 such lines */
};

enum { POLL = 1 << 21 }; /* elements between two looks whether the work was cancelled */

typedef union value {
    float f32;
    double f64;
    int64_t i64;
} value;

typedef struct best {
    value value;
    int64_t position; /* in the line; -1: none yet */
} best;

typedef struct search {
    const gt_cpu *cpu;
    gt_compute compute;
    bool largest;
    bool native;
    const char *data;
    gt_dtype dtype;
    size_t size;
    gt_loop lines;  /* over the results */
    gt_loop line;   /* along one */
    int64_t length; /* of one */
    int64_t pieces; /* of one */
    best *found;    /* (pieces), when there are several */
    int64_t *out;
} search;

/* Whether b beats a, which comes before it. */
#define BEATS(a, b, largest) (((a) == (a)) & (((largest) ? (b) > (a) : (b) < (a)) | ((b) != (b))))

static bool beats(const search *s, value a, value b)
{
    switch (s->compute) {
    case GT_COMPUTE_F32:
        return BEATS(a.f32, b.f32, s->largest);
    case GT_COMPUTE_F64:
        return BEATS(a.f64, b.f64, s->largest);
    default:
        return s->largest ? b.i64 > a.i64 : b.i64 < a.i64;
    }
}

static value read_value(const search *s, const void *run, int64_t i)
{
    switch (s->compute) {
    case GT_COMPUTE_F32:
        return (value){.f32 = ((const float *)run)[i]};
    case GT_COMPUTE_F64:
        return (value){.f64 = ((const double *)run)[i]};
    default:
        return (value){.i64 = ((const int64_t *)run)[i]};
    }
}

/* Search positions begin <= p < end of the line at `base`. */
static best search_line(const search *s, int64_t base, int64_t begin, int64_t end)
{
    _Alignas(64) char gathered[GT_TILE * sizeof(double)];
    gt_arg_kernel kernel = s->largest ? s->cpu->kernels->argmax[s->compute] : s->cpu->kernels->argmin[s->compute];
    best b = {.position = -1};
    int last = s->line.rank - 1;
    int64_t row_length = s->line.shape[last], stride = s->line.stride[0][last], offset, looked = begin;
    while (begin < end) {
        if (begin - looked >= POLL) {
            looked = begin;
            if (gt__parallel_poll(s->cpu->parallel))
                break;
        }
        int64_t row = begin / row_length, within = begin - row * row_length;
        int64_t count = end - begin < row_length - within ? end - begin : row_length - within;
        count = count < POLL ? count : POLL;
        gt__loop_offsets(&s->line, last, row, &offset);
        const void *run = s->data + (base + offset + within * stride) * (int64_t)s->size;
        if (!s->native || stride != 1) {
            count = count < GT_TILE ? count : GT_TILE;
            gt__cpu_load_tile(s->cpu, s->compute, s->dtype, run, stride, count, gathered);
            run = gathered;
        }
        int64_t i = kernel(run, count);
        value v = read_value(s, run, i);
        if (b.position < 0 || beats(s, b.value, v))
            b = (best){.value = v, .position = begin + i};
        begin += count;
    }
    return b;
}

static void search_lines(void *context, int64_t begin, int64_t end)
{
    const search *s = context;
    int64_t base;
    for (int64_t line = begin; line < end; line++) {
        gt__loop_offsets(&s->lines, s->lines.rank, line, &base);
        s->out[line] = search_line(s, base, 0, s->length).position;
    }
}

/* Lines side by side: the best of each so far, and its position. `place` has the width of the values, so that the loop
 * vectorises. */
enum { COLUMNS = 64 };

#define SEARCH_COLUMNS(name, type, place)                                                                         \
    static void columns_##name(const search *s, const type *x, int64_t stride, int64_t width, int64_t *out)       \
    {                                                                                                             \
        bool largest = s->largest;                                                                                \
        int64_t rows = s->length;                                                                                 \
        type most[COLUMNS];                                                                                       \
        place found[COLUMNS] = {0};                                                                               \
        for (int64_t j = 0; j < width; j++)                                                                       \
            most[j] = x[j];                                                                                       \
        for (int64_t from = 1; from < rows; from += POLL / COLUMNS) {                                             \
            int64_t until = from + POLL / COLUMNS < rows ? from + POLL / COLUMNS : rows;                          \
            if (from > 1 && gt__parallel_poll(s->cpu->parallel))                                                  \
                break;                                                                                            \
            for (int64_t i = from; i < until; i++) {                                                              \
                const type *row = x + i * stride;                                                                 \
                for (int64_t j = 0; j < width; j++) {                                                             \
                    bool better = BEATS(most[j], row[j], largest);                                                \
                    most[j] = better ? row[j] : most[j];                                                          \
                    found[j] = better ? (place)i : found[j];                                                      \
                }                                                                                                 \
            }                                                                                                     \
        }                                                                                                         \
        for (int64_t j = 0; j < width; j++)                                                                       \
            out[j] = found[j];                                                                                    \
    }
SEARCH_COLUMNS(f32, float, int32_t)
SEARCH_COLUMNS(f64, double, int64_t)
SEARCH_COLUMNS(i64, int64_t, int64_t)

static void search_columns(const search *s, const void *x, int64_t stride, int64_t width, int64_t *out)
{
    if (s->compute == GT_COMPUTE_F32)
        columns_f32(s, x, stride, width, out);
    else if (s->compute == GT_COMPUTE_F64)
        columns_f64(s, x, stride, width, out);
    else
        columns_i64(s, x, stride, width, out);
}

/* Lines from `begin` on that one call of search_columns takes. */
static int64_t take_lines(const search *s, int64_t begin, int64_t end, int64_t most)
{
    int64_t row = s->lines.shape[s->lines.rank - 1], left = row - begin % row;
    left = end - begin < left ? end - begin : left;
    return left < most ? left : most;
}

static void search_side_by_side(void *context, int64_t begin, int64_t end)
{
    const search *s = context;
    int64_t base;
    for (int64_t width; begin < end; begin += width) {
        width = take_lines(s, begin, end, COLUMNS);
        gt__loop_offsets(&s->lines, s->lines.rank, begin, &base);
        search_columns(s, s->data + base * (int64_t)s->size, s->line.stride[0][0], width, s->out + begin);
    }
}

static void search_short(void *context, int64_t begin, int64_t end)
{
    const search *s = context;
    _Alignas(64) char tile[GT_TILE * sizeof(double)];
    int64_t base, most = GT_TILE / s->length < COLUMNS ? GT_TILE / s->length : COLUMNS;
    for (int64_t width; begin < end; begin += width) {
        gt_box box;
        width = take_lines(s, begin, end, most);
        gt__loop_offsets(&s->lines, s->lines.rank, begin, &base);
        gt__box_set(&box, 2, (int64_t[]){s->length, width},
                    (int64_t[]){s->line.stride[0][0], s->lines.stride[0][s->lines.rank - 1]});
        gt__box_load(s->cpu, s->compute, s->dtype, &box, s->data + base * (int64_t)s->size, tile);
        search_columns(s, tile, width, width, s->out + begin);
    }
}

static void search_pieces(void *context, int64_t begin, int64_t end)
{
    const search *s = context;
    for (int64_t piece = begin; piece < end; piece++) {
        int64_t from = piece * PIECE, to = from + PIECE < s->length ? from + PIECE : s->length;
        s->found[piece] = search_line(s, 0, from, to);
    }
}

/* The one line of a tensor, in pieces. */
static gt_err search_long_line(search *s)
{
    s->pieces = (s->length + PIECE - 1) / PIECE;
    s->found = calloc((size_t)s->pieces, sizeof *s->found);
    if (!s->found)
        return gt__fail(GT_ERR_MEMORY, "no memory for a search in %lld pieces", (long long)s->pieces);
    gt__parallel_for(s->cpu->parallel, s->pieces, 1, search_pieces, s);
    best b = s->found[0];
    for (int64_t piece = 1; piece < s->pieces; piece++)
        b = beats(s, b.value, s->found[piece].value) ? s->found[piece] : b;
    free(s->found);
    s->out[0] = b.position;
    return GT_OK;
}

/* Split the axes of the input between the two loops. */
static void split_axes(search *s, const gt_view *in, int64_t reduced)
{
    for (int axis = 0; axis < in->meta.rank; axis++) {
        bool inside = reduced == -1 || reduced == axis;
        gt_loop *loop = inside ? &s->line : &s->lines;
        loop->shape[loop->rank] = in->meta.shape[axis];
        loop->stride[0][loop->rank++] = in->stride[axis];
        s->length *= inside ? in->meta.shape[axis] : 1;
    }
    gt__loop_collapse(&s->lines);
    gt__loop_collapse(&s->line);
}

gt_err gt__cpu_argreduce(gt_engine *engine, const gt_call *call)
{
    const gt_view *in = call->in[0];
    search s = {.cpu = gt__cpu(engine), .largest = call->op == GT_OP_argmax, .out = call->out->data};
    s.data = in->data;
    s.dtype = (gt_dtype)in->meta.dtype;
    s.size = gt__dtype_size(s.dtype);
    s.compute = gt__cpu_compute(s.dtype);
    s.native = s.dtype == GT_FLOAT32 || s.dtype == GT_FLOAT64 || s.dtype == GT_INT64;
    s.lines.views = s.line.views = 1;
    s.length = 1;
    split_axes(&s, in, call->ins->imm[0].i);
    int64_t results = call->out->meta.numel;
    if (results == 1 && s.length > 2 * PIECE)
        return search_long_line(&s);
    int64_t grain = GT_CPU_GRAIN / s.length;
    bool side_by_side = s.native && s.line.rank == 1 && s.line.stride[0][0] != 1 && s.length < INT32_MAX &&
                        s.lines.stride[0][s.lines.rank - 1] == 1;
    bool brief = s.line.rank == 1 && s.length <= SHORT_LINE && results >= SHORT_LINE;
    grain = side_by_side && grain < COLUMNS ? COLUMNS : grain > 0 ? grain : 1;
    gt__parallel_for(s.cpu->parallel, results, grain,
                     side_by_side ? search_side_by_side
                     : brief      ? search_short
                                  : search_lines,
                     &s);
    return GT_OK;
}

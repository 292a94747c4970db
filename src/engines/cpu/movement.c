/*
 * movement.c: copies, casts, concatenation, triangles and slice assignment: data moves, nothing is computed.
 *
 * All of it is gt__cpu_move: one strided view written into another, any dtypes. It collapses the axes and
 * then takes one of two paths: rows (runs along the last axis) or, if the source runs along another axis, square tiles
 * that keep both sides in the cache. convert.c has the inner loops; index.c moves by index.
 */
#include "engines/cpu/movement.h"

#include <string.h>

#include "engines/cpu/box.h"

typedef struct move {
    gt_loop loop; /* view 0 is written, view 1 is read */
    gt_dtype to_dtype;
    gt_dtype from_dtype;
    char *to;
    const char *from;
    int64_t to_size; /* bytes in an element */
    int64_t from_size;
    gt_row_mover row;
    int tile_axis; /* tiles: the axis along which the source runs */
    int64_t tile_rows;
    int64_t tile_columns;
} move;

/* ---- rows --------------------------------------------------------------------------------------------------- */

/* Positions are elements in row-major order; a range may begin and end inside a row. */
static void move_rows(void *context, int64_t begin, int64_t end)
{
    const move *m = context;
    const gt_loop *loop = &m->loop;
    int last = loop->rank - 1;
    int64_t width = loop->shape[last], to_step = loop->stride[0][last], from_step = loop->stride[1][last];
    int64_t index[GT_MAX_RANK] = {0}, to = 0, from = 0, rest = begin / width, column = begin % width;
    for (int axis = last - 1; axis >= 0; axis--) {
        index[axis] = rest % loop->shape[axis];
        rest /= loop->shape[axis];
        to += index[axis] * loop->stride[0][axis];
        from += index[axis] * loop->stride[1][axis];
    }
    while (begin < end) {
        int64_t count = gt__min(width - column, end - begin);
        m->row(m->to + (to + column * to_step) * m->to_size, to_step,
               m->from + (from + column * from_step) * m->from_size, from_step, count);
        begin += count;
        column = 0;
        for (int axis = last - 1; axis >= 0; axis--) {
            to += loop->stride[0][axis];
            from += loop->stride[1][axis];
            if (++index[axis] < loop->shape[axis])
                break;
            index[axis] = 0;
            to -= loop->stride[0][axis] * loop->shape[axis];
            from -= loop->stride[1][axis] * loop->shape[axis];
        }
    }
}

/* ---- tiles -------------------------------------------------------------------------------------------------- */

enum { TILE = 32, TILE_BYTES = TILE * TILE * 16 };

/* One tile, at element offsets `to` and `from`. A cast transposes into a buffer first. */
static void move_tile(const move *m, int64_t to, int64_t from, int64_t rows, int64_t columns)
{
    int last = m->loop.rank - 1;
    int64_t to_row = m->loop.stride[0][m->tile_axis], from_column = m->loop.stride[1][last];
    char *target = m->to + to * m->to_size;
    const char *source = m->from + from * m->from_size;
    if (m->to_dtype == m->from_dtype) {
        gt__transpose(m->to_size, target, to_row, source, from_column, rows, columns);
        return;
    }
    _Alignas(64) char buffer[TILE_BYTES];
    gt__transpose(m->from_size, buffer, TILE, source, from_column, rows, columns);
    for (int64_t i = 0; i < rows; i++)
        m->row(target + i * to_row * m->to_size, 1, buffer + i * TILE * m->from_size, 1, columns);
}

/* Positions are tiles: the other axes in order, then tile rows, then tile columns. */
static void move_tiles(void *context, int64_t begin, int64_t end)
{
    const move *m = context;
    const gt_loop *loop = &m->loop;
    int last = loop->rank - 1;
    for (int64_t position = begin; position < end; position++) {
        int64_t column = position % m->tile_columns * TILE;
        int64_t row = position / m->tile_columns % m->tile_rows * TILE;
        int64_t rest = position / m->tile_columns / m->tile_rows;
        int64_t to = row * loop->stride[0][m->tile_axis] + column;
        int64_t from = row + column * loop->stride[1][last];
        for (int axis = last - 1; axis >= 0; axis--) {
            if (axis == m->tile_axis)
                continue;
            to += rest % loop->shape[axis] * loop->stride[0][axis];
            from += rest % loop->shape[axis] * loop->stride[1][axis];
            rest /= loop->shape[axis];
        }
        move_tile(m, to, from, gt__min(TILE, loop->shape[m->tile_axis] - row),
                  gt__min(TILE, loop->shape[last] - column));
    }
}

/* Tiles pay if the source runs along an axis that is not the last, and both axes are long enough. */
static bool wants_tiles(move *m)
{
    enum { WORTH = 8 };
    const gt_loop *loop = &m->loop;
    int last = loop->rank - 1;
    int64_t step = loop->stride[1][last];
    if (loop->stride[0][last] != 1 || (step >= -1 && step <= 1) || loop->shape[last] < WORTH)
        return false;
    for (int axis = last - 1; axis >= 0; axis--) {
        if (loop->stride[1][axis] == 1 && loop->shape[axis] >= WORTH) {
            m->tile_axis = axis;
            m->tile_rows = (loop->shape[axis] + TILE - 1) / TILE;
            m->tile_columns = (loop->shape[last] + TILE - 1) / TILE;
            return true;
        }
    }
    return false;
}

/* ---- whole views -------------------------------------------------------------------------------------------- */

void gt__cpu_move(gt_cpu *cpu, const gt_view *to, const gt_view *from)
{
    if (to->meta.numel == 0)
        return;
    move m = {
        .to_dtype = (gt_dtype)to->meta.dtype,
        .from_dtype = (gt_dtype)from->meta.dtype,
        .to = to->data,
        .from = from->data,
    };
    m.to_size = (int64_t)gt__dtype_size(m.to_dtype);
    m.from_size = (int64_t)gt__dtype_size(m.from_dtype);
    m.row = gt__cpu_row_mover(m.to_dtype, m.from_dtype);
    gt__loop_start(&m.loop, &to->meta);
    gt__loop_add(&m.loop, to);
    gt__loop_add(&m.loop, from);
    gt__loop_collapse(&m.loop);
    if (wants_tiles(&m)) {
        int64_t row_elements = m.loop.shape[m.tile_axis] * m.loop.shape[m.loop.rank - 1];
        int64_t tiles = to->meta.numel / row_elements * m.tile_rows * m.tile_columns;
        gt__parallel_for(cpu->parallel, tiles, GT_CPU_GRAIN / (TILE * TILE), move_tiles, &m);
    } else {
        gt__parallel_for(cpu->parallel, to->meta.numel, GT_CPU_GRAIN, move_rows, &m);
    }
}

/* Row-major strides for a view whose shape is set. */
static void set_contiguous(gt_view *view)
{
    int64_t stride = 1;
    for (int axis = view->meta.rank - 1; axis >= 0; axis--) {
        view->stride[axis] = stride;
        stride *= view->meta.shape[axis];
    }
    view->contiguous = true;
}

void gt__cpu_copy_view(gt_cpu *cpu, const gt_view *view, gt_dtype dtype, void *to)
{
    gt_view target = {.data = to, .meta = view->meta};
    target.meta.dtype = (uint8_t)dtype;
    set_contiguous(&target);
    gt__cpu_move(cpu, &target, view);
}

static gt_dtype dense_dtype(gt_compute compute)
{
    return compute == GT_COMPUTE_F32 ? GT_FLOAT32 : compute == GT_COMPUTE_F64 ? GT_FLOAT64 : GT_INT64;
}

gt_err gt__dense_read(gt_cpu *cpu, const gt_view *view, gt_compute compute, gt_dense *dense)
{
    gt_dtype dtype = dense_dtype(compute);
    *dense = (gt_dense){.data = view->data};
    if (view->meta.dtype == dtype && view->contiguous)
        return GT_OK;
    GT_TRY(gt__cpu_scratch(cpu, (size_t)view->meta.numel * gt__dtype_size(dtype), &dense->scratch));
    gt__cpu_copy_view(cpu, view, dtype, dense->scratch);
    dense->data = dense->scratch;
    return GT_OK;
}

gt_err gt__dense_result(gt_cpu *cpu, const gt_view *out, gt_compute compute, gt_dense *dense)
{
    gt_dtype dtype = dense_dtype(compute);
    *dense = (gt_dense){.data = out->data};
    if (out->meta.dtype == dtype)
        return GT_OK;
    GT_TRY(gt__cpu_scratch(cpu, (size_t)out->meta.numel * gt__dtype_size(dtype), &dense->scratch));
    dense->data = dense->scratch;
    return GT_OK;
}

void gt__dense_finish(gt_cpu *cpu, const gt_view *out, gt_compute compute, const gt_dense *dense)
{
    if (!dense->scratch)
        return;
    gt_view view = *out;
    view.data = dense->scratch;
    view.meta.dtype = (uint8_t)dense_dtype(compute);
    gt__cpu_copy_view(cpu, &view, (gt_dtype)out->meta.dtype, out->data);
}

gt_err gt__cpu_copy(gt_engine *engine, const gt_call *call)
{
    gt__cpu_copy_view(gt__cpu(engine), call->in[0], (gt_dtype)call->out->meta.dtype, call->out->data);
    return GT_OK;
}

/* Contiguous operands of the result's dtype: their pieces lie side by side in each row of the result. */
enum { CAT_OPERANDS = 16 };
typedef struct joining {
    char *to;
    const char *from[CAT_OPERANDS];
    int64_t bytes[CAT_OPERANDS]; /* of a piece */
    int64_t row;                 /* bytes */
    unsigned operands;
} joining;

static void join_rows(void *context, int64_t begin, int64_t end)
{
    const joining *j = context;
    for (int64_t row = begin; row < end; row++) {
        char *to = j->to + row * j->row;
        for (unsigned k = 0; k < j->operands; k++) {
            int64_t bytes = j->bytes[k];
            if (bytes <= GT_SHORT_COPY)
                gt__copy_short(to, j->from[k] + row * bytes, bytes);
            else
                memcpy(to, j->from[k] + row * bytes, (size_t)bytes);
            to += bytes;
        }
    }
}

/* False: something needs more than copying rows, or there is only one. */
static bool cat_rows(gt_cpu *cpu, const gt_call *call, int64_t axis)
{
    int64_t rows = 1, size = (int64_t)gt__dtype_size((gt_dtype)call->out->meta.dtype);
    joining j = {.to = call->out->data, .operands = call->operands};
    for (int before = 0; before < axis; before++)
        rows *= call->out->meta.shape[before];
    if (rows <= 1 || call->operands > CAT_OPERANDS || !call->out->contiguous)
        return false;
    for (unsigned k = 0; k < call->operands; k++) {
        const gt_view *in = call->in[k];
        if (!in->contiguous || in->meta.dtype != call->out->meta.dtype)
            return false;
        j.from[k] = in->data;
        j.bytes[k] = in->meta.numel / rows * size;
        if (j.bytes[k] <= size) /* single elements: a strided loop is faster */
            return false;
        j.row += j.bytes[k];
    }
    gt__parallel_for(cpu->parallel, rows, gt__grain(j.row / size), join_rows, &j);
    return true;
}

gt_err gt__cpu_cat(gt_engine *engine, const gt_call *call)
{
    int64_t axis = call->ins->imm[0].i, before = 0;
    if (cat_rows(gt__cpu(engine), call, axis))
        return GT_OK;
    for (unsigned k = 0; k < call->operands; k++) {
        const gt_view *in = call->in[k];
        gt_view part = *call->out;
        part.meta.shape[axis] = in->meta.shape[axis];
        part.meta.numel = in->meta.numel;
        part.data = gt__at(part.data, (gt_dtype)part.meta.dtype, before * part.stride[axis]);
        gt__cpu_move(gt__cpu(engine), &part, in);
        before += in->meta.shape[axis];
    }
    return GT_OK;
}

gt_err gt__cpu_assign(gt_engine *engine, const gt_call *call)
{
    const int64_t *start = call->tail[0].i64, *step = call->tail[1].i64, *count = call->tail[2].i64;
    gt_cpu *cpu = gt__cpu(engine);
    if (call->out->data != call->in[0]->data)
        gt__cpu_move(cpu, call->out, call->in[0]);
    gt_view slice = *call->out;
    int64_t offset = 0;
    slice.meta.numel = 1;
    for (int axis = 0; axis < slice.meta.rank; axis++) {
        offset += start[axis] * slice.stride[axis];
        slice.stride[axis] *= count[axis] > 1 ? step[axis] : 1; /* else the step may be too large to multiply */
        slice.meta.shape[axis] = count[axis];
        slice.meta.numel *= count[axis];
    }
    if (slice.meta.numel == 0)
        return GT_OK;
    slice.data = gt__at(slice.data, (gt_dtype)slice.meta.dtype, offset);
    gt__cpu_move(cpu, &slice, call->in[1]);
    return GT_OK;
}

/* ---- lines -------------------------------------------------------------------------------------------------- */

int64_t gt__lines_start(gt_loop *lines, const gt_meta *meta, int64_t axis)
{
    int64_t count = 1;
    *lines = (gt_loop){0};
    for (int k = 0; k < meta->rank; k++) {
        if (k == axis)
            continue;
        lines->shape[lines->rank++] = meta->shape[k];
        count *= meta->shape[k];
    }
    return count;
}

void gt__lines_add(gt_loop *lines, const gt_view *view, int64_t axis)
{
    int number = lines->views++, to = 0;
    for (int k = 0; k < view->meta.rank; k++)
        if (k != axis)
            lines->stride[number][to++] = view->stride[k];
}

/* ---- triangles ---------------------------------------------------------------------------------------------- */

typedef struct triangle {
    const gt_view *in;
    const gt_view *out;
    bool lower;
    int64_t diagonal;
    gt_row_mover row;
} triangle;

/* Positions are rows of all the matrices: copy the triangle, clear the rest. */
static void triangle_rows(void *context, int64_t begin, int64_t end)
{
    const triangle *t = context;
    const gt_meta *meta = &t->out->meta;
    gt_dtype dtype = (gt_dtype)meta->dtype;
    int last = meta->rank - 1;
    int64_t columns = meta->shape[last];
    for (int64_t row = begin; row < end; row++) {
        int64_t from = 0, rest = row;
        for (int axis = last - 1; axis >= 0; axis--) {
            from += rest % meta->shape[axis] * t->in->stride[axis];
            rest /= meta->shape[axis];
        }
        /* The first column right of the diagonal (tril) or on it (triu). */
        int64_t edge = row % meta->shape[last - 1] + t->diagonal + (t->lower ? 1 : 0);
        edge = edge < 0 ? 0 : gt__min(edge, columns);
        int64_t keep = t->lower ? 0 : edge, kept = t->lower ? edge : columns - edge;
        int64_t clear = t->lower ? edge : 0;
        t->row(gt__at(t->out->data, dtype, row * columns + keep), 1,
               gt__at(t->in->data, dtype, from + keep * t->in->stride[last]), t->in->stride[last], kept);
        memset(gt__at(t->out->data, dtype, row * columns + clear), 0,
               (size_t)(columns - kept) * gt__dtype_size(dtype));
    }
}

gt_err gt__cpu_triangle(gt_engine *engine, const gt_call *call)
{
    const gt_meta *meta = &call->out->meta;
    if (meta->numel == 0)
        return GT_OK;
    int64_t limit =
        meta->shape[meta->rank - 1] + meta->shape[meta->rank - 2]; /* a larger diagonal changes nothing */
    int64_t diagonal = call->ins->imm[0].i;
    triangle t = {
        .in = call->in[0],
        .out = call->out,
        .lower = call->op == GT_OP_tril,
        .diagonal = diagonal < -limit ? -limit : gt__min(diagonal, limit),
        .row = gt__cpu_row_mover((gt_dtype)meta->dtype, (gt_dtype)meta->dtype),
    };
    int64_t columns = meta->shape[meta->rank - 1];
    gt__parallel_for(gt__cpu(engine)->parallel, meta->numel / columns, gt__grain(columns), triangle_rows, &t);
    return GT_OK;
}

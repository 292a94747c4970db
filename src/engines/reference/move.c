/*
 * engines/reference/move.c: defines the other ops: movement, indexing, sorting, creation and random numbers.
 *
 * Each function says where element `flat` of the result comes from. Indices are checked before anything is
 * written.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"
#include "engines/reference/reference.h"

/* ---- movement ----------------------------------------------------------------------------------------------- */

gt_err gt__reference_copy(const gt_call *call)
{
    for (int64_t flat = 0; flat < call->out->meta.numel; flat++)
        gt__reference_move(call->out, flat, call->in[0], flat);
    return GT_OK;
}

gt_err gt__reference_cat(const gt_call *call)
{
    int64_t axis = call->ins->imm[0].i, index[GT_MAX_RANK], before = 0;
    for (unsigned k = 0; k < call->operands; k++) {
        const gt_view *in = call->in[k];
        for (int64_t flat = 0; flat < in->meta.numel; flat++) {
            gt__reference_index(&in->meta, flat, index);
            index[axis] += before;
            gt__reference_move(call->out, gt__reference_flat(&call->out->meta, index), in, flat);
        }
        before += in->meta.shape[axis];
    }
    return GT_OK;
}

gt_err gt__reference_triangle(const gt_call *call)
{
    const gt_meta *meta = &call->out->meta;
    int64_t diagonal = call->ins->imm[0].i, index[GT_MAX_RANK];
    for (int64_t flat = 0; flat < meta->numel; flat++) {
        gt__reference_index(meta, flat, index);
        int64_t right = index[meta->rank - 1] - index[meta->rank - 2];
        bool kept = call->op == GT_OP_tril ? right <= diagonal : right >= diagonal;
        if (kept)
            gt__reference_move(call->out, flat, call->in[0], flat);
        else
            gt__reference_put_integer(call->out, flat, 0);
    }
    return GT_OK;
}

gt_err gt__reference_assign(const gt_call *call)
{
    const gt_view *out = call->out;
    const int64_t *start = call->tail[0].i64, *step = call->tail[1].i64, *count = call->tail[2].i64;
    if (out->data != call->in[0]->data)
        GT_TRY(gt__reference_copy(call));
    gt_view slice = *out;
    slice.meta.numel = 1;
    for (int axis = 0; axis < out->meta.rank; axis++) {
        slice.meta.shape[axis] = count[axis];
        slice.meta.numel *= count[axis];
    }
    gt_view src = gt__reference_broadcast(call->in[1], &slice.meta);
    for (int64_t flat = 0; flat < slice.meta.numel; flat++) {
        int64_t index[GT_MAX_RANK];
        gt__reference_index(&slice.meta, flat, index);
        for (int axis = 0; axis < out->meta.rank; axis++)
            index[axis] = start[axis] + index[axis] * step[axis];
        gt__reference_move(out, gt__reference_flat(&out->meta, index), &src, flat);
    }
    return GT_OK;
}

/* ---- indexing ----------------------------------------------------------------------------------------------- */

/* All indices must lie in [low, size). */
static gt_err check_indices(const gt_view *index, int64_t low, int64_t axis, int64_t size)
{
    for (int64_t flat = 0; flat < index->meta.numel; flat++) {
        int64_t value = gt__reference_integer(index, flat);
        if (value < low || value >= size)
            return gt__fail(GT_ERR_INDEX, "index %lld is out of bounds for dimension %lld with size %lld",
                            (long long)value, (long long)axis, (long long)size);
    }
    return GT_OK;
}

static int64_t wrapped(int64_t index, int64_t size)
{
    return index < 0 ? index + size : index;
}

gt_err gt__reference_wrap_index(const gt_call *call)
{
    int64_t size = call->ins->imm[0].i;
    GT_TRY(check_indices(call->in[0], -size, call->ins->imm[1].i, size));
    for (int64_t flat = 0; flat < call->out->meta.numel; flat++)
        gt__reference_put_integer(call->out, flat, wrapped(gt__reference_integer(call->in[0], flat), size));
    return GT_OK;
}

gt_err gt__reference_mask_index(const gt_call *call)
{
    int64_t found = 0, expected = call->ins->imm[0].i;
    for (int64_t flat = 0; flat < call->in[0]->meta.numel; flat++)
        found += gt__reference_integer(call->in[0], flat) != 0;
    if (found != expected)
        return gt__fail(GT_ERR_INTERNAL, "mask_index: %lld elements are true, not %lld", (long long)found,
                        (long long)expected);
    found = 0;
    for (int64_t flat = 0; flat < call->in[0]->meta.numel; flat++)
        if (gt__reference_integer(call->in[0], flat))
            gt__reference_put_integer(call->out, found++, flat);
    return GT_OK;
}

gt_err gt__reference_take(const gt_call *call)
{
    const gt_view *a = call->in[0], *index = call->in[1];
    int64_t axis = call->ins->imm[0].i, size = a->meta.shape[axis], inner = 1;
    GT_TRY(check_indices(index, call->ins->imm[1].i ? 0 : -size, axis, size));
    for (int d = (int)axis + 1; d < a->meta.rank; d++)
        inner *= a->meta.shape[d];
    /* out is (outer, index, inner), a is (outer, size, inner) */
    for (int64_t flat = 0; flat < call->out->meta.numel; flat++) {
        int64_t outer = flat / (index->meta.numel * inner), k = flat / inner % index->meta.numel;
        int64_t from = wrapped(gt__reference_integer(index, k), size);
        gt__reference_move(call->out, flat, a, (outer * size + from) * inner + flat % inner);
    }
    return GT_OK;
}

/* The flat index in `meta` of the element that index[flat] selects: the coordinates of flat, with index[flat] at `axis`. */
static int64_t named_element(const gt_meta *meta, const gt_view *index, int64_t flat, int64_t axis)
{
    int64_t position[GT_MAX_RANK];
    gt__reference_index(&index->meta, flat, position);
    position[axis] = gt__reference_integer(index, flat);
    return gt__reference_flat(meta, position);
}

gt_err gt__reference_gather(const gt_call *call)
{
    const gt_view *a = call->in[0], *index = call->in[1];
    int64_t axis = call->ins->imm[0].i;
    GT_TRY(check_indices(index, 0, axis, a->meta.shape[axis]));
    for (int64_t flat = 0; flat < call->out->meta.numel; flat++)
        gt__reference_move(call->out, flat, a, named_element(&a->meta, index, flat, axis));
    return GT_OK;
}

/* ---- scatter ------------------------------------------------------------------------------------------------ */

/* Combine an element of src into an element of the result. */
static void combine(const gt_view *out, int64_t to, const gt_view *src, int64_t from, gt_scatter_kind kind)
{
    bool real = gt__dtype_is_float(out->meta.dtype);
    if (gt__dtype_is_complex(out->meta.dtype)) { /* scatter_add */
        gt__reference_put_complex(out, to, gt__reference_complex(out, to) + gt__reference_complex(src, from));
        return;
    }
    if (kind == GT_SCATTER_AMAX || kind == GT_SCATTER_AMIN) {
        double a = gt__reference_real(out, to), b = gt__reference_real(src, from);
        int64_t i = gt__reference_integer(out, to), j = gt__reference_integer(src, from);
        bool greater = real ? b > a : j > i, less = real ? b < a : j < i;
        if ((real && b != b) || (kind == GT_SCATTER_AMAX ? greater : less))
            gt__reference_move(out, to, src, from);
    } else if (real) {
        double a = gt__reference_real(out, to), b = gt__reference_real(src, from);
        gt__reference_put_real(out, to, kind == GT_SCATTER_PROD ? a * b : a + b);
    } else {
        uint64_t a = (uint64_t)gt__reference_integer(out, to), b = (uint64_t)gt__reference_integer(src, from);
        gt__reference_put_integer(out, to, (int64_t)(kind == GT_SCATTER_PROD ? a * b : a + b));
    }
}

/* The start value, if the old value does not count. */
static void start_afresh(const gt_view *out, int64_t to, gt_scatter_kind kind)
{
    static const int64_t least[] = {
        [GT_INT8] = INT8_MIN, [GT_INT16] = INT16_MIN, [GT_INT32] = INT32_MIN, [GT_INT64] = INT64_MIN};
    static const int64_t most[] = {[GT_BOOL] = 1,          [GT_UINT8] = 255,       [GT_INT8] = INT8_MAX,
                                   [GT_INT16] = INT16_MAX, [GT_INT32] = INT32_MAX, [GT_INT64] = INT64_MAX};
    gt_dtype dtype = (gt_dtype)out->meta.dtype;
    if (kind == GT_SCATTER_PROD || kind == GT_SCATTER_SUM || kind == GT_SCATTER_MEAN)
        gt__reference_put_integer(out, to, kind == GT_SCATTER_PROD);
    else if (gt__dtype_is_float(dtype))
        gt__reference_put_real(out, to, kind == GT_SCATTER_AMAX ? -INFINITY : INFINITY);
    else
        gt__reference_put_integer(out, to,
                                  kind == GT_SCATTER_AMIN ? most[dtype]
                                  : dtype < GT_INT8       ? 0
                                                          : least[dtype]);
}

/* Both rounded to the dtype. */
static void divide(const gt_view *out, const int64_t *counts)
{
    double stored;
    gt_view divisor = {.data = &stored, .meta = {.numel = 1, .dtype = out->meta.dtype}, .contiguous = true};
    for (int64_t k = 0; k < out->meta.numel; k++) {
        if (counts[k] < 2)
            continue;
        int64_t integer = gt__reference_integer(out, k);
        if (gt__dtype_is_float(out->meta.dtype)) {
            gt__reference_put_real(&divisor, 0, (double)counts[k]);
            gt__reference_put_real(out, k, gt__reference_real(out, k) / gt__reference_real(&divisor, 0));
        } else
            gt__reference_put_integer(out, k, integer / counts[k] - (integer % counts[k] < 0));
    }
}

/* counts: how many met at each element. */
static void scatter_into(const gt_call *call, const gt_view *out, const gt_view *src, gt_scatter_kind kind,
                         bool alone, int64_t *counts)
{
    const gt_view *index = call->in[1];
    int64_t axis = call->ins->imm[0].i, position[GT_MAX_RANK];
    for (int64_t k = 0; k < out->meta.numel; k++)
        counts[k] = !alone;
    for (int64_t flat = 0; alone && flat < index->meta.numel; flat++)
        start_afresh(out, named_element(&out->meta, index, flat, axis), kind);
    for (int64_t flat = 0; flat < index->meta.numel; flat++) {
        int64_t to = named_element(&out->meta, index, flat, axis);
        gt__reference_index(&index->meta, flat, position);
        combine(out, to, src, gt__reference_flat(&src->meta, position), kind);
        counts[to]++;
    }
}

/* Sums, products and means of halves are computed in float32 and rounded once, unless stepwise. */
static gt_err scatter_reduce(const gt_call *call, const gt_view *src)
{
    const gt_view *out = call->out;
    bool adds = call->op == GT_OP_scatter_add, alone = !adds && call->ins->imm[1].i & GT_SCATTER_WITHOUT_SELF;
    gt_scatter_kind kind =
        adds ? GT_SCATTER_SUM : (gt_scatter_kind)(call->ins->imm[1].i & ~GT_SCATTER_WITHOUT_SELF);
    bool rounds = (adds && call->ins->imm[1].i & GT_SCATTER_STEPWISE) || kind > GT_SCATTER_MEAN ||
                  !gt__dtype_is_half((gt_dtype)out->meta.dtype);
    gt_view wide = *out;
    int64_t *counts = malloc((size_t)(out->meta.numel + 1) * sizeof *counts);
    if (!rounds) {
        wide.meta.dtype = GT_FLOAT32;
        wide.data = malloc((size_t)(out->meta.numel + 1) * sizeof(float));
    }
    gt_err err = counts && wide.data ? GT_OK : gt__fail(GT_ERR_MEMORY, "out of memory");
    for (int64_t flat = 0; err == GT_OK && !rounds && flat < out->meta.numel; flat++)
        gt__reference_move(&wide, flat, out, flat);
    if (err == GT_OK)
        scatter_into(call, &wide, src, kind, alone, counts);
    for (int64_t flat = 0; err == GT_OK && !rounds && flat < out->meta.numel; flat++)
        gt__reference_move(out, flat, &wide, flat);
    if (err == GT_OK && kind == GT_SCATTER_MEAN)
        divide(out, counts);
    free(counts);
    if (!rounds)
        free(wide.data);
    return err;
}

gt_err gt__reference_scatter(const gt_call *call)
{
    const gt_view *out = call->out, *index = call->in[1];
    int64_t axis = call->ins->imm[0].i, position[GT_MAX_RANK];
    GT_TRY(check_indices(index, 0, axis, out->meta.shape[axis]));
    if (out->data != call->in[0]->data)
        GT_TRY(gt__reference_copy(call));
    gt_view src = *call->in[2];
    double _Complex element; /* room for any dtype */
    gt_view literal = {.data = &element, .meta = {.numel = 1, .dtype = out->meta.dtype}, .contiguous = true};
    if (src.meta.dtype != out->meta.dtype) { /* only a literal may have another dtype */
        gt__reference_move(&literal, 0, &src, 0);
        src = literal;
    }
    if (src.meta.rank == 0)
        src = gt__reference_broadcast(&src, &index->meta);
    if (call->op != GT_OP_scatter)
        return scatter_reduce(call, &src);
    for (int64_t flat = 0; flat < index->meta.numel; flat++) {
        gt__reference_index(&index->meta, flat, position);
        gt__reference_move(out, named_element(&out->meta, index, flat, axis), &src,
                           gt__reference_flat(&src.meta, position));
    }
    return GT_OK;
}

/* ---- sorting ------------------------------------------------------------------------------------------------ */

/* Indices in sorted order by merging halves: stable, because the left half wins ties. */
static void sort_line(const gt_view *line, int64_t first, bool descending, int64_t *index, int64_t *spare,
                      int64_t n)
{
    if (n < 2)
        return;
    int64_t half = n / 2, left = 0, right = half;
    sort_line(line, first, descending, index, spare, half);
    sort_line(line, first, descending, index + half, spare, n - half);
    for (int64_t k = 0; k < n; k++) {
        bool take_right = left == half;
        if (left < half && right < n) {
            int64_t a = first + index[left], b = first + index[right];
            take_right = descending ? gt__reference_less(line, a, b) : gt__reference_less(line, b, a);
        }
        spare[k] = take_right ? index[right++] : index[left++];
    }
    memcpy(index, spare, (size_t)n * sizeof *index);
}

/* ARGSORT writes the whole order, TOPK its beginning. */
gt_err gt__reference_sort(const gt_call *call)
{
    uint64_t axis = UINT64_C(1) << call->ins->imm[0].i;
    bool topk = call->op == GT_OP_topk;
    bool descending = topk ? !(call->ins->flags & GT_FLAG_SMALLEST) : call->ins->imm[1].i != 0;
    int64_t n, k;
    gt_view in = gt__reference_axes_last(call->in[0], axis, &n);
    gt_view out = gt__reference_axes_last(call->out, axis, &k);
    if (out.meta.numel == 0)
        return GT_OK;
    int64_t *index = malloc(2 * (size_t)n * sizeof *index);
    if (!index)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    for (int64_t line = 0; line < out.meta.numel / k; line++) {
        for (int64_t j = 0; j < n; j++)
            index[j] = j;
        sort_line(&in, line * n, descending, index, index + n, n);
        for (int64_t j = 0; j < k; j++)
            gt__reference_put_integer(&out, line * k + j, index[j]);
    }
    free(index);
    return GT_OK;
}

/* ---- creation ----------------------------------------------------------------------------------------------- */

gt_err gt__reference_full(const gt_call *call)
{
    gt_imm value = call->ins->imm[0];
    for (int64_t flat = 0; flat < call->out->meta.numel; flat++) {
        if (gt__dtype_is_float(call->out->meta.dtype))
            gt__reference_put_real(call->out, flat, value.f);
        else
            gt__reference_put_integer(call->out, flat, value.i);
    }
    return GT_OK;
}

gt_err gt__reference_arange(const gt_call *call)
{
    gt_imm start = call->ins->imm[0], step = call->ins->imm[1];
    int64_t origin = call->tail[0].i64[1];
    for (int64_t flat = 0; flat < call->out->meta.numel; flat++) {
        if (gt__dtype_is_float(call->out->meta.dtype))
            gt__reference_put_real(call->out, flat, start.f + (double)(origin + flat) * step.f);
        else
            gt__reference_put_integer(call->out, flat, (int64_t)(start.u + (uint64_t)(origin + flat) * step.u));
    }
    return GT_OK;
}

gt_err gt__reference_eye(const gt_call *call)
{
    int64_t columns = call->out->meta.shape[1];
    for (int64_t flat = 0; flat < call->out->meta.numel; flat++)
        gt__reference_put_integer(call->out, flat, flat / columns + call->tail[0].i64[2] == flat % columns);
    return GT_OK;
}

/* One element at a time: each is a function of the seed, the stream and its own number. */
gt_err gt__reference_random(const gt_call *call)
{
    const gt_view *out = call->out;
    const int64_t *range = call->tail[1].i64;
    gt_random key = {.seed = call->ins->imm[0].u, .stream = call->ins->imm[1].u};
    bool wide = out->meta.dtype == GT_FLOAT64, normal = call->op == GT_OP_randn;
    for (int64_t flat = 0; flat < out->meta.numel; flat++) {
        float number;
        double wide_number;
        int64_t integer, element = range[2] + flat; /* a part is made of runs of the whole tensor's elements */
        if (range[3])
            element = range[2] + flat / range[3] * range[4] + flat % range[3];
        if (call->op == GT_OP_randint) {
            gt__random_integer(key, element, 1, range[0], range[1], &integer);
            gt__reference_put_integer(out, flat, integer);
        } else if (wide) {
            (normal ? gt__random_normal_double : gt__random_uniform_double)(key, element, 1, &wide_number);
            gt__reference_put_real(out, flat, wide_number);
        } else {
            (normal ? gt__random_normal_float : gt__random_uniform_float)(key, element, 1, &number);
            gt__reference_put_real(out, flat, number);
        }
    }
    return GT_OK;
}

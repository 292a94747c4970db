/*
 * index.c: take, gather, scatter, scatter_add, scatter_reduce, and the two ops that make indices.
 *
 * Indices are read as int64_t and checked before anything else happens, so a bad one never reaches memory. Gather
 * and scatter work on lines along the indexed axis: two lines never touch the same element, so threads divide the
 * lines, and a scatter_add adds in the same order with any number of threads. Read movement.h first.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/convert.h"
#include "engines/cpu/movement.h"

/* ---- reading indices ---------------------------------------------------------------------------------------- */

typedef struct bounds {
    const int64_t *numbers;
    int64_t low, size; /* low <= number < size */
    atomic_bool crossed;
} bounds;

static void check_numbers(void *context, int64_t begin, int64_t end)
{
    bounds *b = context;
    uint64_t low = (uint64_t)b->low, span = (uint64_t)b->size - low, crossed = 0;
    for (int64_t k = begin; k < end; k++)
        crossed |= (uint64_t)b->numbers[k] - low >= span;
    if (crossed)
        atomic_store(&b->crossed, true);
}

static gt_err check_range(gt_cpu *cpu, const int64_t *numbers, int64_t count, int64_t low, int64_t axis,
                          int64_t size)
{
    bounds b = {.numbers = numbers, .low = low, .size = size};
    gt__parallel_for(cpu->parallel, count, gt__grain(1), check_numbers, &b);
    if (!atomic_load(&b.crossed))
        return GT_OK;
    int64_t bad = 0;
    while (numbers[bad] >= low && numbers[bad] < size)
        bad++;
    return gt__fail(GT_ERR_INDEX, "index %lld is out of bounds for dimension %lld with size %lld",
                    (long long)numbers[bad], (long long)axis, (long long)size);
}

gt_err gt__cpu_read_index(gt_cpu *cpu, const gt_view *index, int64_t low, int64_t axis, int64_t size,
                          const int64_t **numbers, void **scratch)
{
    *scratch = NULL;
    if (index->contiguous && index->meta.dtype == GT_INT64) {
        *numbers = index->data;
        return check_range(cpu, *numbers, index->meta.numel, low, axis, size);
    }
    GT_TRY(gt__cpu_scratch(cpu, (size_t)index->meta.numel * sizeof(int64_t), scratch));
    gt__cpu_copy_view(cpu, index, GT_INT64, *scratch);
    *numbers = *scratch;
    gt_err err = check_range(cpu, *numbers, index->meta.numel, low, axis, size);
    if (err != GT_OK) {
        free(*scratch);
        *scratch = NULL;
    }
    return err;
}

/* ---- inner loops -------------------------------------------------------------------------------------------- */

/*
 * Two nested loops over elements; strides are {outer, inner}. `axis` is the stride, on the indexed side, of the
 * indexed axis.
 */
typedef struct span {
    int64_t count[2];
    int64_t to[2];
    int64_t from[2];
    int64_t number[2];
    int64_t axis;
} span;

typedef void (*span_kernel)(const span *s, void *to, const void *from, const int64_t *number);

#define MIXED_KERNEL(name, type, from_type, body)                                                                 \
    static void name(const span *s, void *to, const void *from, const int64_t *number)                            \
    {                                                                                                             \
        const int64_t axis = s->axis, to_step = s->to[1], from_step = s->from[1], step = s->number[1];            \
        for (int64_t i = 0; i < s->count[0]; i++) {                                                               \
            type *t = (type *)to + i * s->to[0];                                                                  \
            const from_type *f = (const from_type *)from + i * s->from[0];                                        \
            const int64_t *n = number + i * s->number[0];                                                         \
            for (int64_t j = s->count[1]; j > 0; j--, t += to_step, f += from_step, n += step)                    \
                body;                                                                                             \
        }                                                                                                         \
    }

#define SPAN_KERNEL(name, type, body) MIXED_KERNEL(name, type, type, body)

#define MOVE_KERNELS(type)                                                                                        \
    SPAN_KERNEL(gather_##type, type, *t = f[*n * axis])                                                           \
    SPAN_KERNEL(scatter_##type, type, t[*n * axis] = *f)
MOVE_KERNELS(uint8_t)
MOVE_KERNELS(uint16_t)
MOVE_KERNELS(uint32_t)
MOVE_KERNELS(uint64_t)
MOVE_KERNELS(gt_sixteen_bytes)

/* Integers wrap, which only unsigned arithmetic may do. */
static inline int64_t add_integers(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

#define ADD(a, b)                                                                                                 \
    _Generic((a), float : (a) + (b), double : (a) + (b), default : add_integers((int64_t)(a), (int64_t)(b)))
#define ADD_KERNEL(name, dtype, type)                                                                             \
    SPAN_KERNEL(add_##name, type,                                                                                 \
                t[*n * axis] = GT_STORE_FROM(name, ADD(gt__load_##name(t[*n * axis]), gt__load_##name(*f))))
GT_STORED_TYPES(ADD_KERNEL)
SPAN_KERNEL(add_complex64, float _Complex, t[*n * axis] += *f)
SPAN_KERNEL(add_complex128, double _Complex, t[*n * axis] += *f)

static inline int64_t multiply_integers(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

#define MULTIPLY(a, b)                                                                                            \
    _Generic((a), float : (a) * (b), double : (a) * (b), default : multiply_integers((int64_t)(a), (int64_t)(b)))
#define GREATEST(a, b) ((b) > (a) || (b) != (b) ? (b) : (a)) /* NaN if either is NaN */
#define LEAST(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))
#define COMBINE_KERNELS(name, dtype, type)                                                                        \
    SPAN_KERNEL(multiply_##name, type,                                                                            \
                t[*n * axis] = GT_STORE_FROM(name, MULTIPLY(gt__load_##name(t[*n * axis]), gt__load_##name(*f)))) \
    SPAN_KERNEL(greatest_##name, type,                                                                            \
                t[*n * axis] = GT_STORE_FROM(name, GREATEST(gt__load_##name(t[*n * axis]), gt__load_##name(*f)))) \
    SPAN_KERNEL(least_##name, type,                                                                               \
                t[*n * axis] = GT_STORE_FROM(name, LEAST(gt__load_##name(t[*n * axis]), gt__load_##name(*f))))
GT_STORED_TYPES(COMBINE_KERNELS)

/* Halves in a float32 copy of the elements that an index names: see scatter_halves. */
#define WIDE_KERNELS(name)                                                                                        \
    MIXED_KERNEL(widen_##name, float, uint16_t, t[*n * axis] = gt__load_##name(f[*n * axis]))                     \
    MIXED_KERNEL(narrow_##name, uint16_t, float, t[*n * axis] = gt__store_##name##_from_float(f[*n * axis]))      \
    MIXED_KERNEL(add_to_wide_##name, float, uint16_t, t[*n * axis] += gt__load_##name(*f))                        \
    MIXED_KERNEL(multiply_wide_##name, float, uint16_t, t[*n * axis] *= gt__load_##name(*f))
WIDE_KERNELS(float16)
WIDE_KERNELS(bfloat16)

/* scatter_reduce: by kind and dtype; a mean starts as a sum. */
static span_kernel choose_combination(gt_scatter_kind kind, gt_dtype dtype)
{
    static const span_kernel kernels[GT_SCATTER_KINDS][GT_DTYPE_COUNT] = {
#define COMBINE_ENTRIES(name, dtype, type)                                                                        \
    [GT_SCATTER_SUM][dtype] = add_##name, [GT_SCATTER_PROD][dtype] = multiply_##name,                             \
    [GT_SCATTER_MEAN][dtype] = add_##name, [GT_SCATTER_AMAX][dtype] = greatest_##name,                            \
    [GT_SCATTER_AMIN][dtype] = least_##name,
        GT_STORED_TYPES(COMBINE_ENTRIES)
#undef COMBINE_ENTRIES
    };
    return kernels[kind][dtype];
}

static span_kernel choose_kernel(gt_opcode op, gt_dtype dtype)
{
    static const span_kernel add[] = {
#define ADD_ENTRY(name, dtype, type) [dtype] = add_##name,
        GT_STORED_TYPES(ADD_ENTRY)
#undef ADD_ENTRY
            [GT_COMPLEX64] = add_complex64,
        [GT_COMPLEX128] = add_complex128,
    };
    static const span_kernel gather[] = {[1] = gather_uint8_t,
                                         [2] = gather_uint16_t,
                                         [4] = gather_uint32_t,
                                         [8] = gather_uint64_t,
                                         [16] = gather_gt_sixteen_bytes};
    static const span_kernel scatter[] = {[1] = scatter_uint8_t,
                                          [2] = scatter_uint16_t,
                                          [4] = scatter_uint32_t,
                                          [8] = scatter_uint64_t,
                                          [16] = scatter_gt_sixteen_bytes};
    if (op == GT_OP_scatter_add)
        return add[dtype];
    return (op == GT_OP_scatter ? scatter : gather)[gt__dtype_size(dtype)];
}

/* ---- gather and scatter ------------------------------------------------------------------------------------- */

typedef struct indexing {
    gt_loop lines; /* views: written, read, numbers */
    int64_t axis_count;
    int64_t axis_to; /* strides along the axis, 0 on the indexed side */
    int64_t axis_from;
    int64_t axis_number;
    int64_t axis_indexed;
    bool side_by_side;          /* neighbouring lines are neighbours in memory: the inner loop crosses lines */
    int64_t to_size, from_size; /* of an element */
    char *to;
    const char *from;
    const int64_t *numbers;
    span_kernel kernel;
    gt_parallel *parallel;
} indexing;

enum { POLL = 1 << 20 }; /* elements between two looks whether the work was cancelled */

/* Positions are lines; lines that lie side by side are processed together. */
static void index_lines(void *context, int64_t begin, int64_t end)
{
    const indexing *x = context;
    int last = x->lines.rank - 1;
    int64_t width = x->lines.shape[last];
    int along = x->side_by_side ? 0 : 1, across = 1 - along; /* the index of the inner loop */
    span s = {.axis = x->axis_indexed};
    s.to[along] = x->axis_to;
    s.from[along] = x->axis_from;
    s.number[along] = x->axis_number;
    s.to[across] = x->lines.stride[0][last];
    s.from[across] = x->lines.stride[1][last];
    s.number[across] = x->lines.stride[2][last];
    while (begin < end) {
        int64_t offset[GT_LOOP_VIEWS];
        s.count[across] = gt__min(width - begin % width, end - begin);
        gt__loop_offsets(&x->lines, x->lines.rank, begin, offset);
        int64_t most = POLL / s.count[across] + 1;
        for (int64_t at = 0; at < x->axis_count && !(at && gt__parallel_poll(x->parallel)); at += most) {
            s.count[along] = gt__min(most, x->axis_count - at);
            x->kernel(&s, x->to + (offset[0] + at * x->axis_to) * x->to_size,
                      x->from + (offset[1] + at * x->axis_from) * x->from_size,
                      x->numbers + offset[2] + at * x->axis_number);
        }
        begin += s.count[across];
    }
}

/* An index expanded along some axes repeats itself there: read it once, with size 1, and walk it with stride 0. */
static gt_view without_repeats(const gt_view *index)
{
    gt_view once = *index;
    for (int axis = 0; axis < once.meta.rank; axis++) {
        if (once.stride[axis] == 0 && once.meta.shape[axis] > 1) {
            once.meta.numel /= once.meta.shape[axis];
            once.meta.shape[axis] = 1;
            once.contiguous = false;
        }
    }
    return once;
}

static void set_number_strides(gt_view *numbers, const gt_view *index, const gt_view *once)
{
    int64_t stride = 1;
    *numbers = *index;
    for (int axis = index->meta.rank - 1; axis >= 0; axis--) {
        numbers->stride[axis] = once->meta.shape[axis] == 1 ? 0 : stride;
        stride *= once->meta.shape[axis];
    }
}

/* gather: to = out, from = a (indexed).  scatter: to = out (indexed), from = src. */
static gt_err index_move(gt_cpu *cpu, const gt_call *call, const gt_view *to, const gt_view *from,
                         span_kernel kernel)
{
    const gt_view *index = call->in[1];
    const gt_view *indexed = call->op == GT_OP_gather ? from : to;
    int64_t axis = call->ins->imm[0].i;
    gt_view once = without_repeats(index), numbers;
    indexing x = {
        .axis_count = index->meta.shape[axis],
        .axis_indexed = indexed->stride[axis],
        .to_size = (int64_t)gt__dtype_size((gt_dtype)to->meta.dtype),
        .from_size = (int64_t)gt__dtype_size((gt_dtype)from->meta.dtype),
        .to = to->data,
        .from = from->data,
        .kernel = kernel,
        .parallel = cpu->parallel,
    };
    void *scratch;
    GT_TRY(gt__cpu_read_index(cpu, &once, 0, axis, indexed->meta.shape[axis], &x.numbers, &scratch));
    set_number_strides(&numbers, index, &once);
    x.axis_to = indexed == to ? 0 : to->stride[axis];
    x.axis_from = indexed == from ? 0 : gt__view_stride(from, axis);
    x.axis_number = numbers.stride[axis];
    int64_t count = gt__lines_start(&x.lines, &index->meta, axis);
    gt__lines_add(&x.lines, to, axis);
    gt__lines_add(&x.lines, from, axis);
    gt__lines_add(&x.lines, &numbers, axis);
    gt__loop_collapse(&x.lines);
    x.side_by_side = x.lines.stride[0][x.lines.rank - 1] == 1;
    int64_t grain = x.side_by_side ? gt__lines_across(cpu, count, x.axis_count) : gt__grain(x.axis_count);
    if (index->meta.numel > 0)
        gt__parallel_for(cpu->parallel, count, grain, index_lines, &x);
    free(scratch);
    return GT_OK;
}

gt_err gt__cpu_gather(gt_engine *engine, const gt_call *call)
{
    return index_move(gt__cpu(engine), call, call->out, call->in[0],
                      choose_kernel(call->op, (gt_dtype)call->out->meta.dtype));
}

/* The start value: 0, 1, or the least or greatest number of a dtype. */
static void first_of_kind(gt_scatter_kind kind, gt_dtype dtype, void *to)
{
    static const int64_t least[] = {
        [GT_INT8] = INT8_MIN, [GT_INT16] = INT16_MIN, [GT_INT32] = INT32_MIN, [GT_INT64] = INT64_MIN};
    static const int64_t most[] = {[GT_BOOL] = 1,          [GT_UINT8] = 255,       [GT_INT8] = INT8_MAX,
                                   [GT_INT16] = INT16_MAX, [GT_INT32] = INT32_MAX, [GT_INT64] = INT64_MAX};
    bool real = gt__dtype_is_float(dtype);
    double number = kind == GT_SCATTER_AMAX   ? -HUGE_VAL
                    : kind == GT_SCATTER_AMIN ? HUGE_VAL
                                              : kind == GT_SCATTER_PROD;
    int64_t integer = kind == GT_SCATTER_PROD   ? 1
                      : real                    ? 0
                      : kind == GT_SCATTER_AMAX ? dtype < GT_INT8 ? 0 : least[dtype]
                      : kind == GT_SCATTER_AMIN ? most[dtype]
                                                : 0;
    gt__cpu_row_mover(dtype, real ? GT_FLOAT64 : GT_INT64)(to, 1, real ? (void *)&number : (void *)&integer, 1, 1);
}

/* A mean is the sum divided by the count, both rounded to the dtype, as in PyTorch; integers round down. */
static gt_err divide_by_count(gt_cpu *cpu, const gt_call *call, bool with_self)
{
    int64_t one = 1, numel = call->out->meta.numel;
    gt_view ones = {.data = &one, .meta = {.numel = 1, .dtype = GT_INT64}, .contiguous = true},
            counts = *call->out;
    gt_dtype dtype = (gt_dtype)call->out->meta.dtype;
    GT_TRY(gt__cpu_scratch(cpu, (size_t)numel * sizeof(int64_t), &counts.data));
    counts.meta.dtype = GT_INT64;
    for (int64_t k = 0; k < numel; k++)
        ((int64_t *)counts.data)[k] = with_self;
    gt_err err = index_move(cpu, call, &counts, &ones, add_int64);
    gt_row_mover load = gt__cpu_row_mover(GT_FLOAT64, dtype), store = gt__cpu_row_mover(dtype, GT_FLOAT64);
    gt_row_mover load_integer = gt__cpu_row_mover(GT_INT64, dtype),
                 store_integer = gt__cpu_row_mover(dtype, GT_INT64);
    for (int64_t k = 0; err == GT_OK && k < numel; k++) {
        int64_t count = ((int64_t *)counts.data)[k], integer;
        void *at = gt__at(call->out->data, dtype, k);
        double number, divisor = (double)count, stored;
        if (count < 2)
            continue;
        if (gt__dtype_is_float(dtype)) {
            store(&stored, 1, &divisor, 1, 1);
            load(&divisor, 1, &stored, 1, 1);
            load(&number, 1, at, 1, 1);
            number /= divisor;
            store(at, 1, &number, 1, 1);
        } else {
            load_integer(&integer, 1, at, 1, 1);
            integer = integer / count - (integer % count < 0);
            store_integer(at, 1, &integer, 1, 1);
        }
    }
    free(counts.data);
    return err;
}

/*
 * Sums, products and means of halves are computed in float32 and rounded once. The float32 copy has room for all elements, but
 * only those that the index names are copied, unless the index is longer than the tensor: a few indices touch a few pages.
 */
static gt_err scatter_halves(gt_cpu *cpu, const gt_call *call, const gt_view *src, gt_scatter_kind kind,
                             bool with_self)
{
    const gt_view *out = call->out;
    bool bfloat = out->meta.dtype == GT_BFLOAT16, all = call->in[1]->meta.numel >= out->meta.numel;
    int64_t axis = call->ins->imm[0].i;
    float start = kind == GT_SCATTER_PROD;
    gt_view first = {.data = &start, .meta = {.numel = 1, .dtype = GT_FLOAT32}, .contiguous = true};
    gt_view wide = *out, halves_there = *out, wide_there;
    span_kernel combine = kind == GT_SCATTER_PROD ? bfloat ? multiply_wide_bfloat16 : multiply_wide_float16
                          : bfloat                ? add_to_wide_bfloat16
                                                  : add_to_wide_float16;
    gt_err err = GT_OK;
    GT_TRY(gt__cpu_scratch(cpu, (size_t)out->meta.numel * sizeof(float), &wide.data));
    wide.meta.dtype = GT_FLOAT32;
    wide_there = wide;
    halves_there.stride[axis] = wide_there.stride[axis] = 0; /* the kernel goes along the axis by index */
    if (all)
        gt__cpu_move(cpu, &wide, out);
    else
        err = index_move(cpu, call, &wide, &halves_there, bfloat ? widen_bfloat16 : widen_float16);
    if (err == GT_OK && !with_self)
        err = index_move(cpu, call, &wide, &first, choose_kernel(GT_OP_scatter, GT_FLOAT32));
    if (err == GT_OK)
        err = index_move(cpu, call, &wide, src, combine);
    if (err == GT_OK && all)
        gt__cpu_move(cpu, out, &wide);
    else if (err == GT_OK)
        err = index_move(cpu, call, out, &wide_there, bfloat ? narrow_bfloat16 : narrow_float16);
    free(wide.data);
    return err == GT_OK && kind == GT_SCATTER_MEAN ? divide_by_count(cpu, call, with_self) : err;
}

static gt_err scatter_reduce(gt_cpu *cpu, const gt_call *call, const gt_view *src)
{
    uint64_t bits = 0;
    gt_dtype dtype = (gt_dtype)call->out->meta.dtype;
    gt_scatter_kind kind = (gt_scatter_kind)(call->ins->imm[1].i & ~GT_SCATTER_WITHOUT_SELF);
    bool with_self = !(call->ins->imm[1].i & GT_SCATTER_WITHOUT_SELF);
    if (gt__dtype_is_half(dtype) && kind != GT_SCATTER_AMAX && kind != GT_SCATTER_AMIN)
        return scatter_halves(cpu, call, src, kind, with_self);
    gt_view first = {.data = &bits, .meta = {.numel = 1, .dtype = call->out->meta.dtype}, .contiguous = true};
    first_of_kind(kind, dtype, &bits);
    if (!with_self)
        GT_TRY(index_move(cpu, call, call->out, &first, choose_kernel(GT_OP_scatter, dtype)));
    GT_TRY(index_move(cpu, call, call->out, src, choose_combination(kind, dtype)));
    return kind == GT_SCATTER_MEAN ? divide_by_count(cpu, call, with_self) : GT_OK;
}

gt_err gt__cpu_scatter(gt_engine *engine, const gt_call *call)
{
    gt_cpu *cpu = gt__cpu(engine);
    const gt_view *src = call->in[2];
    double _Complex value; /* room for an element of any dtype */
    gt_view literal = {.data = &value, .meta = {.numel = 1, .dtype = call->out->meta.dtype}, .contiguous = true};
    if (src->meta.dtype != call->out->meta.dtype) {
        gt__cpu_move(cpu, &literal, src); /* only a literal may have another dtype */
        src = &literal;
    }
    if (call->out->data != call->in[0]->data)
        gt__cpu_move(cpu, call->out, call->in[0]);
    if (call->op == GT_OP_scatter_reduce)
        return scatter_reduce(cpu, call, src);
    if (call->op == GT_OP_scatter_add && gt__dtype_is_half((gt_dtype)call->out->meta.dtype) &&
        !(call->ins->imm[1].i & GT_SCATTER_STEPWISE))
        return scatter_halves(cpu, call, src, GT_SCATTER_SUM, true);
    return index_move(cpu, call, call->out, src, choose_kernel(call->op, (gt_dtype)call->out->meta.dtype));
}

/* ---- take --------------------------------------------------------------------------------------------------- */

/* out (outer, index, inner) = a (outer, size, inner) at the wrapped numbers */
typedef struct taking {
    gt_loop outer; /* views: a contiguous tensor of that shape, and a */
    gt_loop inner;
    int64_t inner_count;
    int64_t count; /* of numbers */
    int64_t size;
    int64_t stride; /* of the axis in a */
    gt_dtype dtype;
    char *to;
    const char *from;
    const int64_t *numbers;
    gt_row_mover row;
} taking;

static void take_block(const taking *t, char *to, const char *from)
{
    const gt_loop *inner = &t->inner;
    int last = inner->rank - 1;
    int64_t width = inner->shape[last], size = (int64_t)gt__dtype_size(t->dtype);
    for (int64_t row = 0; row < t->inner_count / width; row++) {
        int64_t offset[GT_LOOP_VIEWS] = {0};
        if (last > 0)
            gt__loop_offsets(inner, last, row, offset);
        t->row(to + row * width * size, 1, from + offset[1] * size, inner->stride[1][last], width);
    }
}

/* Positions are blocks of the result: (outer, index). */
static void take_blocks(void *context, int64_t begin, int64_t end)
{
    const taking *t = context;
    int64_t size = (int64_t)gt__dtype_size(t->dtype);
    for (int64_t position = begin; position < end; position++) {
        int64_t offset[GT_LOOP_VIEWS], number = t->numbers[position % t->count];
        gt__loop_offsets(&t->outer, t->outer.rank, position / t->count, offset);
        offset[1] += (number < 0 ? number + t->size : number) * t->stride;
        take_block(t, t->to + position * t->inner_count * size, t->from + offset[1] * size);
    }
}

/* The same for short blocks that lie in one piece. */
static void take_short(void *context, int64_t begin, int64_t end)
{
    const taking *t = context;
    int64_t size = (int64_t)gt__dtype_size(t->dtype), bytes = t->inner_count * size;
    while (begin < end) {
        int64_t offset[GT_LOOP_VIEWS], first = begin % t->count, count = gt__min(t->count - first, end - begin);
        gt__loop_offsets(&t->outer, t->outer.rank, begin / t->count, offset);
        const char *from = t->from + offset[1] * size;
        for (int64_t k = 0; k < count; k++) {
            int64_t number = t->numbers[first + k];
            number += number < 0 ? t->size : 0;
            gt__copy_short(t->to + (begin + k) * bytes, from + number * t->stride * size, bytes);
        }
        begin += count;
    }
}

/* The same for blocks of one element. */
#define TAKE_ELEMENTS(type)                                                                                       \
    static void take_##type(void *context, int64_t begin, int64_t end)                                            \
    {                                                                                                             \
        const taking *t = context;                                                                                \
        while (begin < end) {                                                                                     \
            int64_t offset[GT_LOOP_VIEWS], first = begin % t->count;                                              \
            int64_t count = gt__min(t->count - first, end - begin);                                               \
            gt__loop_offsets(&t->outer, t->outer.rank, begin / t->count, offset);                                 \
            const type *from = (const type *)t->from + offset[1];                                                 \
            type *to = (type *)t->to + begin;                                                                     \
            for (int64_t k = 0; k < count; k++) {                                                                 \
                int64_t number = t->numbers[first + k];                                                           \
                to[k] = from[(number < 0 ? number + t->size : number) * t->stride];                               \
            }                                                                                                     \
            begin += count;                                                                                       \
        }                                                                                                         \
    }
TAKE_ELEMENTS(uint8_t)
TAKE_ELEMENTS(uint16_t)
TAKE_ELEMENTS(uint32_t)
TAKE_ELEMENTS(uint64_t)
TAKE_ELEMENTS(gt_sixteen_bytes)

/* A loop over the axes begin..end of a view and over a contiguous tensor of that shape; returns its elements. */
static int64_t part_of_axes(gt_loop *loop, const gt_view *view, int begin, int end)
{
    int64_t count = 1;
    *loop = (gt_loop){.rank = end - begin, .views = 2};
    for (int axis = end - 1; axis >= begin; axis--) {
        loop->shape[axis - begin] = view->meta.shape[axis];
        loop->stride[0][axis - begin] = count;
        loop->stride[1][axis - begin] = view->stride[axis];
        count *= view->meta.shape[axis];
    }
    return count;
}

gt_err gt__cpu_take(gt_engine *engine, const gt_call *call)
{
    static const gt_parallel_body elements[] = {[1] = take_uint8_t,
                                                [2] = take_uint16_t,
                                                [4] = take_uint32_t,
                                                [8] = take_uint64_t,
                                                [16] = take_gt_sixteen_bytes};
    gt_cpu *cpu = gt__cpu(engine);
    const gt_view *a = call->in[0], *index = call->in[1];
    int axis = (int)call->ins->imm[0].i;
    taking t = {
        .count = index->meta.numel,
        .size = a->meta.shape[axis],
        .stride = a->stride[axis],
        .dtype = (gt_dtype)a->meta.dtype,
        .to = call->out->data,
        .from = a->data,
        .row = gt__cpu_row_mover((gt_dtype)a->meta.dtype, (gt_dtype)a->meta.dtype),
    };
    void *scratch;
    GT_TRY(gt__cpu_read_index(cpu, index, call->ins->imm[1].i ? 0 : -t.size, axis, t.size, &t.numbers, &scratch));
    int64_t blocks = t.count * part_of_axes(&t.outer, a, 0, axis);
    t.inner_count = part_of_axes(&t.inner, a, axis + 1, a->meta.rank);
    gt__loop_collapse(&t.inner);
    bool brief = t.inner.rank == 1 && t.inner.stride[1][0] == 1 &&
                 t.inner_count * (int64_t)gt__dtype_size(t.dtype) <= GT_SHORT_COPY;
    if (call->out->meta.numel > 0)
        gt__parallel_for(cpu->parallel, blocks, gt__grain(t.inner_count),
                         t.inner_count == 1 ? elements[gt__dtype_size(t.dtype)]
                         : brief            ? take_short
                                            : take_blocks,
                         &t);
    free(scratch);
    return GT_OK;
}

/* ---- making indices ----------------------------------------------------------------------------------------- */

typedef struct wrapping {
    int64_t *numbers, size;
} wrapping;

static void wrap_numbers(void *context, int64_t begin, int64_t end)
{
    const wrapping *w = context;
    for (int64_t k = begin; k < end; k++)
        w->numbers[k] += w->numbers[k] < 0 ? w->size : 0;
}

gt_err gt__cpu_wrap_index(gt_engine *engine, const gt_call *call)
{
    gt_cpu *cpu = gt__cpu(engine);
    wrapping w = {.numbers = call->out->data, .size = call->ins->imm[0].i};
    int64_t count = call->out->meta.numel;
    gt__cpu_copy_view(cpu, call->in[0], GT_INT64, w.numbers);
    GT_TRY(check_range(cpu, w.numbers, count, -w.size, call->ins->imm[1].i, w.size));
    gt__parallel_for(cpu->parallel, count, gt__grain(1), wrap_numbers, &w);
    return GT_OK;
}

typedef struct masking {
    const uint8_t *mask;
    int64_t numel;
    int64_t *before; /* true elements in block k, then before block k */
    int64_t *out;
} masking;

enum { MASK_BLOCK = 16 * 1024 };

static void count_mask(void *context, int64_t begin, int64_t end)
{
    const masking *m = context;
    for (int64_t block = begin; block < end; block++) {
        int64_t found = 0, last = gt__min((block + 1) * MASK_BLOCK, m->numel);
        for (int64_t k = block * MASK_BLOCK; k < last; k++)
            found += m->mask[k] != 0;
        m->before[block] = found;
    }
}

/* Every position is written to a small buffer and overwritten by the next unless its mask is true: no branches. */
static void list_mask(void *context, int64_t begin, int64_t end)
{
    enum { PART = 256 };
    const masking *m = context;
    int64_t buffer[PART];
    for (int64_t block = begin; block < end; block++) {
        int64_t *out = m->out + m->before[block];
        int64_t last = gt__min((block + 1) * MASK_BLOCK, m->numel);
        for (int64_t first = block * MASK_BLOCK; first < last; first += PART) {
            int64_t found = 0, stop = gt__min(first + PART, last);
            for (int64_t k = first; k < stop; k++) {
                buffer[found] = k;
                found += m->mask[k] != 0;
            }
            if (found)
                memcpy(out, buffer, (size_t)found * sizeof *out);
            out += found;
        }
    }
}

static gt_err mask_positions(gt_cpu *cpu, masking *m, int64_t expected)
{
    int64_t blocks = (m->numel + MASK_BLOCK - 1) / MASK_BLOCK, found = 0;
    gt__parallel_for(cpu->parallel, blocks, 4, count_mask, m);
    for (int64_t block = 0; block < blocks; block++) {
        int64_t here = m->before[block];
        m->before[block] = found;
        found += here;
    }
    if (found != expected)
        return gt__fail(GT_ERR_INTERNAL, "mask_index: %lld elements are true, not %lld", (long long)found,
                        (long long)expected);
    gt__parallel_for(cpu->parallel, blocks, 4, list_mask, m);
    return GT_OK;
}

gt_err gt__cpu_mask_index(gt_engine *engine, const gt_call *call)
{
    const gt_view *mask = call->in[0];
    gt_cpu *cpu = gt__cpu(engine);
    size_t counters = ((size_t)mask->meta.numel / MASK_BLOCK + 1) * sizeof(int64_t);
    void *scratch;
    GT_TRY(gt__cpu_scratch(cpu, counters + (mask->contiguous ? 0 : (size_t)mask->meta.numel), &scratch));
    masking m = {.mask = mask->data, .numel = mask->meta.numel, .before = scratch, .out = call->out->data};
    if (!mask->contiguous) {
        uint8_t *copy = (uint8_t *)scratch + counters;
        gt__cpu_copy_view(cpu, mask, GT_BOOL, copy);
        m.mask = copy;
    }
    gt_err err = mask_positions(cpu, &m, call->ins->imm[0].i);
    free(scratch);
    return err;
}

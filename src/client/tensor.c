/*
 * tensor.c: the public ops of gt.h: each fills an instruction and emits it. Elementwise ops and reductions are generated
 * from the op table. Read next: emit.c.
 */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "client/client.h"
#include "client/intercept.h"
#include "core/convert.h"

/* ---- attributes -------------------------------------------------------------------------------------------- */

gt_dtype gt_tensor_dtype(const gt_tensor *tensor)
{
    return tensor ? (gt_dtype)tensor->meta.dtype : GT_DTYPE_COUNT;
}

int gt_tensor_rank(const gt_tensor *tensor)
{
    return tensor ? tensor->meta.rank : 0;
}

const int64_t *gt_tensor_shape(const gt_tensor *tensor)
{
    return tensor ? tensor->meta.shape : NULL;
}

int64_t gt_tensor_numel(const gt_tensor *tensor)
{
    return tensor ? tensor->meta.numel : 0;
}

gt_client *gt_tensor_client(const gt_tensor *tensor)
{
    return tensor ? tensor->client : NULL;
}

gt_tensor *gt_tensor_retain(gt_tensor *tensor)
{
    if (tensor)
        tensor->references++;
    return tensor;
}

/* ---- from the table ---------------------------------------------------------------------------------------- */

static gt_imm imm_f(double value)
{
    return (gt_imm){.f = value};
}

static gt_imm imm_i(int64_t value)
{
    return (gt_imm){.i = value};
}

/* Of complex numbers: the variance is that of the real parts plus that of the imaginary ones; a norm is that of the
 * absolute values. */
static gt_err reduce_complex(gt_opcode op, gt_tensor *a, uint32_t axes, bool keepdims, double parameter,
                             gt_tensor **out)
{
    gt_tensor *parts = NULL, *each = NULL;
    if (op == GT_OP_var && !a->meta.rank) { /* a line of one */
        GT_TRY(gt_reshape(a, 1, (int64_t[]){1}, &parts));
        gt_err reduced = reduce_complex(op, parts, 0, false, parameter, out);
        gt_tensor_release(parts);
        return reduced;
    }
    gt_err err = op == GT_OP_var ? gt_view_as_real(a, &parts) : gt_abs(a, &parts);
    if (err == GT_OK && op == GT_OP_norm)
        err = gt__emit_reduce(op, parts, axes, keepdims, parameter, out);
    if (err == GT_OK && op == GT_OP_var) {
        uint32_t all = (1u << a->meta.rank) - 1;
        err = gt__emit_reduce(op, parts, axes || !all ? axes : all, keepdims, parameter, &each);
        if (err == GT_OK)
            err = gt_sum(each, 1u << (each->meta.rank - 1), false, out);
    }
    gt_tensor_release(parts);
    gt_tensor_release(each);
    return err;
}

gt_err gt__emit_reduce(gt_opcode op, gt_tensor *a, uint32_t axes, bool keepdims, double parameter, gt_tensor **out)
{
    if (gt__dtype_is_complex((gt_dtype)a->meta.dtype) && (op == GT_OP_norm || op == GT_OP_var))
        return reduce_complex(op, a, axes, keepdims, parameter, out);
    gt_instruction prototype = {.op = (uint16_t)op, .flags = keepdims ? GT_FLAG_KEEPDIM : 0};
    prototype.imm[0].u = axes;
    prototype.imm[1].f = parameter;
    return gt__emit(a->client, prototype, NULL, &a, 1, out);
}

static gt_err emit_one(gt_opcode op, gt_tensor *a, gt_imm first, gt_imm second, uint8_t flags, gt_tensor **out)
{
    gt_instruction prototype = {.op = (uint16_t)op, .flags = flags, .imm = {first, second}};
    return gt__emit(a->client, prototype, NULL, &a, 1, out);
}

gt_err gt__emit_numbers(gt_opcode op, gt_tensor *a, double p, double q, gt_tensor **out)
{
    return emit_one(op, a, imm_f(p), imm_f(q), 0, out);
}

gt_err gt__emit_binary_numbers(gt_opcode op, gt_tensor *a, gt_tensor *b, double p, double q, gt_tensor **out)
{
    gt_instruction prototype = {.op = (uint16_t)op, .imm = {imm_f(p), imm_f(q)}};
    return gt__emit(a->client, prototype, NULL, (gt_tensor *[]){a, b}, 2, out);
}

gt_err gt__emit_ternary(gt_opcode op, gt_tensor *a, gt_tensor *b, gt_literal b_kind, gt_imm b_literal,
                        gt_tensor *c, gt_literal c_kind, gt_imm c_literal, gt_tensor **out)
{
    gt_instruction prototype = {.op = (uint16_t)op};
    if (!b)
        prototype.literals |= (uint8_t)(b_kind << 2);
    if (!c)
        prototype.literals |= (uint8_t)(c_kind << 4);
    prototype.literal[1] = b_literal;
    prototype.literal[2] = c_literal;
    return gt__emit(a->client, prototype, NULL, (gt_tensor *[]){a, b, c}, 3, out);
}

/* Rows on bits take the number as an integer. */
static gt_err emit_scalar(gt_opcode op, gt_tensor *a, double value, gt_tensor **out)
{
    bool bits = gt__op_table[op].types == GT_TYPES_BITS || gt__op_table[op].types == GT_TYPES_INT;
    if (bits)
        return gt__emit_binary_literal(op, a, GT_LITERAL_INT, imm_i((int64_t)value), false, out);
    return gt__emit_binary_literal(op, a, GT_LITERAL_FLOAT, imm_f(value), false, out);
}

#define UNARY(name, types, expr, grad)                                                                            \
    gt_err gt_##name(gt_tensor *a, gt_tensor **out)                                                               \
    {                                                                                                             \
        GT_ARGUMENTS(out, a);                                                                                     \
        return gt__emit_unary(GT_OP_##name, a, out);                                                              \
    }
#define UNARY_PQ(name, types, expr, grad)                                                                         \
    gt_err gt_##name(gt_tensor *a, double p, double q, gt_tensor **out)                                           \
    {                                                                                                             \
        GT_ARGUMENTS(out, a);                                                                                     \
        return gt__emit_numbers(GT_OP_##name, a, p, q, out);                                                      \
    }
#define BINARY(name, types, expr, grad)                                                                           \
    gt_err gt_##name(gt_tensor *a, gt_tensor *b, gt_tensor **out)                                                 \
    {                                                                                                             \
        GT_ARGUMENTS(out, a, b);                                                                                  \
        return gt__emit_binary(GT_OP_##name, a, b, out);                                                          \
    }                                                                                                             \
    gt_err gt_##name##_scalar(gt_tensor *a, double b, gt_tensor **out)                                            \
    {                                                                                                             \
        GT_ARGUMENTS(out, a);                                                                                     \
        return emit_scalar(GT_OP_##name, a, b, out);                                                              \
    }
#define BINARY_PQ(name, types, expr, grad)                                                                        \
    gt_err gt_##name(gt_tensor *a, gt_tensor *b, double p, double q, gt_tensor **out)                             \
    {                                                                                                             \
        GT_ARGUMENTS(out, a, b);                                                                                  \
        return gt__emit_binary_numbers(GT_OP_##name, a, b, p, q, out);                                            \
    }
#define TERNARY(name, types, expr, grad)                                                                          \
    gt_err gt_##name(gt_tensor *a, gt_tensor *b, gt_tensor *c, gt_tensor **out)                                   \
    {                                                                                                             \
        GT_ARGUMENTS(out, a, b, c);                                                                               \
        return gt__emit_ternary(GT_OP_##name, a, b, GT_LITERAL_NONE, imm_i(0), c, GT_LITERAL_NONE, imm_i(0),      \
                                out);                                                                             \
    }
#define REDUCE(name, types, grad)                                                                                 \
    gt_err gt_##name(gt_tensor *a, uint32_t axes, bool keepdims, gt_tensor **out)                                 \
    {                                                                                                             \
        GT_ARGUMENTS(out, a);                                                                                     \
        return gt__emit_reduce(GT_OP_##name, a, axes, keepdims, 1.0, out);                                        \
    }
#include "core/ops.def"

gt_err gt__emit_layer_norm(gt_opcode op, gt_tensor *const *in, int64_t first, double eps, gt_tensor **out)
{
    gt_instruction prototype = {.op = (uint16_t)op, .imm = {imm_i(first), imm_f(eps)}};
    for (unsigned k = 1; k < 3; k++)
        if (!in[k]) { /* a missing weight is 1, a missing bias 0 */
            prototype.literals |= (uint8_t)(GT_LITERAL_FLOAT << (2 * k));
            prototype.literal[k] = imm_f(op == GT_OP_layer_norm && k == 2 ? 0 : 1);
        }
    return gt__emit(in[0]->client, prototype, NULL, in, 3, out);
}

gt_err gt_layer_norm(gt_tensor *a, gt_tensor *weight, gt_tensor *bias, int first, double eps, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    return gt__emit_layer_norm(GT_OP_layer_norm, (gt_tensor *[]){a, weight, bias}, first, eps, out);
}

gt_err gt__emit_batch_norm(gt_opcode op, gt_tensor *const *in, int64_t elements, double eps, gt_tensor **out)
{
    gt_instruction prototype = {.op = (uint16_t)op, .imm = {imm_i(elements), imm_f(eps)}};
    if (!in[2]) { /* weight 1, bias 0 */
        prototype.literals = GT_LITERAL_FLOAT << 4;
        prototype.literal[2] = imm_f(1);
    }
    return gt__emit(in[0]->client, prototype, NULL, in, 3, out);
}

gt_err gt_batch_moments(gt_tensor *a, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    return emit_one(GT_OP_batch_moments, a, imm_i(0), imm_i(0), 0, out);
}

/* Numbers of the channels as a row (1, channels) of the dtype; a missing tensor is full of `value`. */
static gt_err channel_row(gt_tensor *a, gt_client *client, gt_dtype dtype, int64_t channels, double value,
                          gt_tensor **out)
{
    if (!a)
        return gt_full(client, dtype, 2, (int64_t[]){1, channels}, value, out);
    gt_tensor *wide = NULL;
    if (a->meta.dtype != dtype) {
        GT_TRY(gt_cast(a, dtype, &wide));
        a = wide;
    }
    gt_err err = gt_reshape(a, 2, (int64_t[]){1, channels}, out);
    gt_tensor_release(wide);
    return err;
}

static gt_err check_channels(const gt_tensor *x)
{
    if (x->meta.rank >= 2)
        return GT_OK;
    return gt__fail(GT_ERR_VALUE, "batch_norm: expected a tensor of at least 2 dimensions, but got one of %u",
                    (unsigned)x->meta.rank);
}

gt_err gt__channel_rows(gt_tensor *x, gt_tensor *first, double without_first, gt_tensor *second,
                        double without_second, gt_tensor **out)
{
    GT_TRY(check_channels(x));
    gt_dtype dtype = x->meta.dtype == GT_FLOAT64 ? GT_FLOAT64 : GT_FLOAT32;
    gt_tensor *row[2] = {NULL, NULL};
    gt_err err = channel_row(first, x->client, dtype, x->meta.shape[1], without_first, &row[0]);
    if (err == GT_OK)
        err = channel_row(second, x->client, dtype, x->meta.shape[1], without_second, &row[1]);
    if (err == GT_OK)
        err = gt_cat(row, 2, 0, out);
    gt_tensor_release(row[0]);
    gt_tensor_release(row[1]);
    return err;
}

gt_err gt_batch_norm(gt_tensor *a, gt_tensor *moments, gt_tensor *weight, gt_tensor *bias, bool of_a, double eps,
                     gt_tensor **out)
{
    GT_ARGUMENTS(out, a, moments);
    GT_TRY(check_channels(a));
    gt_tensor *affine = NULL;
    if (weight || bias)
        GT_TRY(gt__channel_rows(a, weight, 1, bias, 0, &affine));
    gt_err err = gt__emit_batch_norm(GT_OP_batch_norm, (gt_tensor *[]){a, moments, affine}, of_a, eps, out);
    gt_tensor_release(affine);
    return err;
}

gt_err gt_argmax(gt_tensor *a, int axis, bool keepdims, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    return emit_one(GT_OP_argmax, a, imm_i(axis), imm_i(0), keepdims ? GT_FLAG_KEEPDIM : 0, out);
}

gt_err gt_argmin(gt_tensor *a, int axis, bool keepdims, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    return emit_one(GT_OP_argmin, a, imm_i(axis), imm_i(0), keepdims ? GT_FLAG_KEEPDIM : 0, out);
}

gt_err gt_norm(gt_tensor *a, double p, uint32_t axes, bool keepdims, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    return gt__emit_reduce(GT_OP_norm, a, axes, keepdims, p, out);
}

gt_err gt__emit_along(gt_opcode op, gt_tensor *a, gt_tensor *b, int axis, gt_tensor **out)
{
    gt_instruction prototype = {.op = (uint16_t)op, .imm = {imm_i(axis)}};
    return gt__emit(a->client, prototype, NULL, (gt_tensor *[]){a, b}, b ? 2 : 1, out);
}

#define ALONG(name)                                                                                               \
    gt_err gt_##name(gt_tensor *a, int axis, gt_tensor **out)                                                     \
    {                                                                                                             \
        GT_ARGUMENTS(out, a);                                                                                     \
        return gt__emit_along(GT_OP_##name, a, NULL, axis, out);                                                  \
    }
ALONG(cumsum)
ALONG(cumprod)
ALONG(logcumsumexp)
ALONG(cummax)
ALONG(cummin)
ALONG(softmax)
ALONG(log_softmax)
#undef ALONG

/* ---- creation ---------------------------------------------------------------------------------------------- */

/* A record whose first tail slot is a shape. Checks the rank; inference checks the sizes. */
static gt_err shaped(gt_opcode op, gt_dtype dtype, int rank, const int64_t *shape, gt_instruction *prototype,
                     gt_slot *tail)
{
    if (rank < 0 || rank > GT_MAX_RANK)
        return gt__fail(GT_ERR_VALUE, "a tensor has at most %d dimensions, not %d", GT_MAX_RANK, rank);
    *prototype = (gt_instruction){.op = (uint16_t)op, .dtype = (uint8_t)dtype, .rank = (uint8_t)rank, .tail = 1};
    memset(tail, 0, sizeof *tail);
    if (rank && !shape)
        return gt__fail(GT_ERR_VALUE, "%s: the shape is NULL", gt__op_table[op].name);
    if (rank)
        memcpy(tail->i64, shape, (size_t)rank * sizeof *shape);
    return GT_OK;
}

gt_err gt__emit_full(gt_client *client, gt_dtype dtype, unsigned rank, const int64_t *shape, gt_literal kind,
                     gt_imm value, gt_tensor **out)
{
    gt_instruction prototype;
    gt_slot tail;
    GT_TRY(shaped(GT_OP_full, dtype, (int)rank, shape, &prototype, &tail));
    if (!gt__dtype_is_half(dtype)) /* PyTorch refuses them in some functions, and makes them infinite in others */
        GT_TRY(gt__dtype_check_number(dtype, kind, value));
    /* The record carries a double for floats and an integer for the rest. */
    if (gt__dtype_is_inexact(dtype) && kind != GT_LITERAL_FLOAT)
        value.f = (double)value.i;
    else if (!gt__dtype_is_inexact(dtype) && kind == GT_LITERAL_FLOAT)
        value.i = dtype == GT_BOOL ? value.f != 0 : gt__double_to_int64(value.f);
    prototype.imm[0] = value;
    return gt__emit(client, prototype, &tail, NULL, 0, out);
}

gt_err gt_full(gt_client *client, gt_dtype dtype, int rank, const int64_t *shape, double value, gt_tensor **out)
{
    GT_ARGUMENTS(out, client);
    return gt__emit_full(client, dtype, (unsigned)rank, shape, GT_LITERAL_FLOAT, imm_f(value), out);
}

gt_err gt_full_complex(gt_client *client, gt_dtype dtype, int rank, const int64_t *shape, double real,
                       double imaginary, gt_tensor **out)
{
    GT_ARGUMENTS(out, client);
    if (rank > 0)
        GT_REQUIRE(shape);
    gt_instruction prototype;
    gt_slot tail;
    if (!gt__dtype_valid(dtype) || !gt__dtype_is_complex(dtype))
        return gt__fail(GT_ERR_TYPE, "a complex number cannot be converted to %s without losing a part",
                        gt__dtype_name(dtype));
    GT_TRY(shaped(GT_OP_full, dtype, rank, shape, &prototype, &tail));
    prototype.imm[0].f = real;
    prototype.imm[1].f = imaginary;
    return gt__emit(client, prototype, &tail, NULL, 0, out);
}

gt_err gt__emit_arange(gt_client *client, gt_dtype dtype, int64_t count, gt_literal kind, gt_imm start,
                       gt_imm step, gt_tensor **out)
{
    gt_instruction prototype;
    gt_slot tail;
    GT_TRY(shaped(GT_OP_arange, dtype, 1, &count, &prototype, &tail));
    if (gt__dtype_is_float(dtype) && kind != GT_LITERAL_FLOAT) {
        start.f = (double)start.i;
        step.f = (double)step.i;
    } else if (!gt__dtype_is_float(dtype) && kind == GT_LITERAL_FLOAT) {
        start.i = gt__double_to_int64(start.f);
        step.i = gt__double_to_int64(step.f);
    }
    prototype.imm[0] = start;
    prototype.imm[1] = step;
    return gt__emit(client, prototype, &tail, NULL, 0, out);
}

gt_err gt_arange(gt_client *client, gt_dtype dtype, double start, double end, double step, gt_tensor **out)
{
    GT_ARGUMENTS(out, client);
    double count = step != 0 ? ceil((end - start) / step) : -1;
    if (!(count >= 0) || count > 4e18)
        return gt__fail(GT_ERR_VALUE, "arange: step %g does not lead from %g to %g", step, start, end);
    return gt__emit_arange(client, dtype, (int64_t)count, GT_LITERAL_FLOAT, imm_f(start), imm_f(step), out);
}

gt_err gt_eye(gt_client *client, gt_dtype dtype, int64_t rows, int64_t columns, gt_tensor **out)
{
    GT_ARGUMENTS(out, client);
    gt_instruction prototype;
    gt_slot tail;
    GT_TRY(shaped(GT_OP_eye, dtype, 2, (int64_t[]){rows, columns}, &prototype, &tail));
    return gt__emit(client, prototype, &tail, NULL, 0, out);
}

/* Every random tensor takes the next stream number of the client's seed. */
static gt_err emit_random(gt_opcode op, gt_client *client, gt_dtype dtype, int rank, const int64_t *shape,
                          int64_t low, int64_t high, gt_tensor **out)
{
    gt_instruction prototype;
    gt_slot tail[2] = {0};
    GT_TRY(shaped(op, dtype, rank, shape, &prototype, tail));
    prototype.tail = 2;
    prototype.imm[0].u = client->seed;
    prototype.imm[1].u =
        client->stream++; /* before emitting, which may wait while another thread takes the next */
    tail[1].i64[0] = low;
    tail[1].i64[1] = high;
    return gt__emit(client, prototype, tail, NULL, 0, out);
}

gt_err gt_rand(gt_client *client, gt_dtype dtype, int rank, const int64_t *shape, gt_tensor **out)
{
    GT_ARGUMENTS(out, client);
    return emit_random(GT_OP_rand, client, dtype, rank, shape, 0, 1, out);
}

gt_err gt_randn(gt_client *client, gt_dtype dtype, int rank, const int64_t *shape, gt_tensor **out)
{
    GT_ARGUMENTS(out, client);
    return emit_random(GT_OP_randn, client, dtype, rank, shape, 0, 1, out);
}

gt_err gt_randint(gt_client *client, gt_dtype dtype, int rank, const int64_t *shape, int64_t low, int64_t high,
                  gt_tensor **out)
{
    GT_ARGUMENTS(out, client);
    return emit_random(GT_OP_randint, client, dtype, rank, shape, low, high, out);
}

/* ---- products and views ------------------------------------------------------------------------------------ */

gt_err gt_matmul(gt_tensor *a, gt_tensor *b, gt_tensor **out)
{
    GT_ARGUMENTS(out, a, b);
    bool fast = atomic_load_explicit(&gt__fast_products, memory_order_relaxed);
    gt_instruction prototype = {.op = GT_OP_matmul, .imm = {imm_i(fast ? GT_PRODUCT_FAST : GT_PRODUCT_EXACT)}};
    return gt__emit(a->client, prototype, NULL, (gt_tensor *[]){a, b}, 2, out);
}

gt_err gt__emit_wide_product(gt_tensor *a, gt_tensor *b, gt_tensor **out)
{
    gt_instruction prototype = {.op = GT_OP_matmul, .imm = {imm_i(GT_PRODUCT_WIDE)}};
    return gt__emit(a->client, prototype, NULL, (gt_tensor *[]){a, b}, 2, out);
}

gt_err gt__emit_biased_product(gt_tensor *a, gt_tensor *b, gt_tensor *bias, gt_tensor **out)
{
    gt_instruction prototype = {.op = GT_OP_linear, .imm = {imm_i(GT_PRODUCT_EXACT)}};
    return gt__emit(a->client, prototype, NULL, (gt_tensor *[]){a, b, bias}, 3, out);
}

gt_err gt_sparse_mm(gt_tensor *indices, gt_tensor *values, gt_tensor *dense, int64_t rows, bool transposed,
                    gt_tensor **out)
{
    GT_ARGUMENTS(out, indices, values, dense);
    gt_instruction prototype = {.op = GT_OP_sparse_mm, .imm = {imm_i(rows), imm_i(transposed)}};
    return gt__emit(indices->client, prototype, NULL, (gt_tensor *[]){indices, values, dense}, 3, out);
}

gt_err gt__emit_attention(gt_opcode op, gt_tensor *const *in, double scale, int64_t period, gt_tensor **out)
{
    gt_instruction prototype = {.op = (uint16_t)op, .imm = {imm_f(scale), imm_i(period)}};
    return gt__emit(in[0]->client, prototype, NULL, in, 3, out);
}

gt_err gt_attention(gt_tensor *query, gt_tensor *key, gt_tensor *value, double scale, int64_t period,
                    gt_tensor **out)
{
    GT_ARGUMENTS(out, query, key, value);
    return gt__emit_attention(GT_OP_attention, (gt_tensor *[]){query, key, value}, scale, period, out);
}

gt_err gt_sampled_mm(gt_tensor *indices, gt_tensor *a, gt_tensor *b, gt_tensor **out)
{
    GT_ARGUMENTS(out, indices, a, b);
    gt_instruction prototype = {.op = GT_OP_sampled_mm};
    return gt__emit(indices->client, prototype, NULL, (gt_tensor *[]){indices, a, b}, 3, out);
}

gt_err gt_cast(gt_tensor *a, gt_dtype dtype, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    if (!gt__dtype_valid(dtype))
        return gt__fail(GT_ERR_TYPE, "unknown dtype %d", (int)dtype);
    gt_instruction prototype = {.op = GT_OP_cast, .dtype = (uint8_t)dtype};
    return gt__emit(a->client, prototype, NULL, &a, 1, out);
}

gt_err gt_copy(gt_tensor *a, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    return emit_one(GT_OP_copy, a, imm_i(0), imm_i(0), 0, out);
}

static gt_err invalid_dimension(int rank, const int64_t *shape, int axis)
{
    char text[128];
    return gt__fail(GT_ERR_VALUE, "invalid shape dimension %lld at index %d of shape %s", (long long)shape[axis],
                    axis, gt__sizes_text((unsigned)rank, shape, text, sizeof text));
}

gt_err gt__reshape_sizes(const gt_meta *from, int rank, int64_t *shape)
{
    int64_t known = 1;
    int unknown = -1;
    for (int axis = 0; axis < rank; axis++) {
        if (shape[axis] == -1 && unknown < 0)
            unknown = axis;
        else if (shape[axis] == -1)
            return gt__fail(GT_ERR_VALUE, "only one dimension can be inferred");
        else if (shape[axis] < 0)
            return invalid_dimension(rank, shape, axis);
        else if (__builtin_mul_overflow(known, shape[axis], &known))
            return gt__fail(GT_ERR_VALUE, "the shape is too large");
    }
    if (unknown < 0)
        return GT_OK;
    char text[128];
    if (known == 0 && from->numel == 0)
        return gt__fail(GT_ERR_VALUE,
                        "cannot reshape a tensor of 0 elements into shape %s because the unspecified "
                        "dimension size -1 can be any value",
                        gt__sizes_text((unsigned)rank, shape, text, sizeof text));
    if (known == 0 || from->numel % known != 0)
        return gt__fail(GT_ERR_VALUE, "shape '%s' is invalid for input of size %lld",
                        gt__sizes_text((unsigned)rank, shape, text, sizeof text), (long long)from->numel);
    shape[unknown] = from->numel / known;
    return GT_OK;
}

gt_err gt__emit_reshape(gt_tensor *a, int rank, const int64_t *shape, unsigned held, gt_tensor **out)
{
    gt_instruction prototype;
    gt_slot tail;
    GT_TRY(shaped(GT_OP_reshape, (gt_dtype)a->meta.dtype, rank, shape, &prototype, &tail));
    GT_TRY(gt__reshape_sizes(&a->meta, rank, tail.i64));
    prototype.flags = gt__consume_flag(GT_OP_reshape, &a, 1, held);
    return gt__emit(a->client, prototype, &tail, &a, 1, out);
}

gt_err gt_reshape(gt_tensor *a, int rank, const int64_t *shape, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    return gt__emit_reshape(a, rank, shape, 0, out);
}

gt_err gt_permute(gt_tensor *a, const int *axes, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    if (a->meta.rank)
        GT_REQUIRE(axes);
    uint64_t packed = 0;
    for (unsigned axis = 0; axis < a->meta.rank; axis++) {
        if (axes[axis] < 0 || axes[axis] >= a->meta.rank)
            return gt__fail(GT_ERR_INDEX, "permute: axis %d is out of range for a tensor of %u dimensions",
                            axes[axis], a->meta.rank);
        packed |= (uint64_t)axes[axis] << (8 * axis);
    }
    return emit_one(GT_OP_permute, a, (gt_imm){.u = packed}, imm_i(0), 0, out);
}

gt_err gt_transpose(gt_tensor *a, int axis0, int axis1, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    int axes[GT_MAX_RANK], rank = a->meta.rank;
    if (axis0 < 0 || axis0 >= rank || axis1 < 0 || axis1 >= rank)
        return gt__fail(GT_ERR_INDEX, "transpose: axes %d and %d are out of range for a tensor of %d dimensions",
                        axis0, axis1, rank);
    for (int axis = 0; axis < rank; axis++)
        axes[axis] = axis;
    axes[axis0] = axis1;
    axes[axis1] = axis0;
    return gt_permute(a, axes, out);
}

gt_err gt_expand(gt_tensor *a, int rank, const int64_t *shape, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    gt_instruction prototype;
    gt_slot tail;
    GT_TRY(shaped(GT_OP_expand, (gt_dtype)a->meta.dtype, rank, shape, &prototype, &tail));
    return gt__emit(a->client, prototype, &tail, &a, 1, out);
}

static void slice_tail(const gt_tensor *a, const int64_t *start, const int64_t *step, const int64_t *count,
                       gt_slot *tail)
{
    const int64_t *const parts[] = {start, step, count};
    memset(tail, 0, 3 * sizeof *tail);
    for (unsigned k = 0; k < 3 && a->meta.rank; k++)
        memcpy(tail[k].i64, parts[k], a->meta.rank * sizeof(int64_t));
}

gt_err gt_slice(gt_tensor *a, const int64_t *start, const int64_t *step, const int64_t *count, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    if (a->meta.rank)
        GT_REQUIRE(start, step, count);
    gt_instruction prototype = {.op = GT_OP_slice, .tail = 3};
    gt_slot tail[3];
    slice_tail(a, start, step, count, tail);
    return gt__emit(a->client, prototype, tail, &a, 1, out);
}

gt_err gt__emit_assign(gt_tensor *a, const int64_t *start, const int64_t *step, const int64_t *count,
                       gt_tensor *src, gt_literal kind, gt_imm literal, unsigned held, gt_tensor **out)
{
    gt_tensor *in[] = {a, src};
    gt_instruction prototype = {.op = GT_OP_assign, .tail = 3};
    gt_slot tail[3];
    prototype.flags = gt__consume_flag(GT_OP_assign, in, 2, held);
    slice_tail(a, start, step, count, tail);
    if (!src) {
        prototype.literals = (uint8_t)(kind << 2);
        prototype.literal[1] = literal;
    }
    return gt__emit(a->client, prototype, tail, in, 2, out);
}

gt_err gt_assign(gt_tensor *a, const int64_t *start, const int64_t *step, const int64_t *count, gt_tensor *src,
                 gt_tensor **out)
{
    GT_ARGUMENTS(out, a, src);
    if (a->meta.rank)
        GT_REQUIRE(start, step, count);
    return gt__emit_assign(a, start, step, count, src, GT_LITERAL_NONE, imm_i(0), 0, out);
}

/* ---- movement ---------------------------------------------------------------------------------------------- */

static gt_err cat_once(gt_tensor *const *tensors, int count, int axis, gt_tensor **out)
{
    gt_slot tail[GT_MAX_CAT / 8] = {0};
    gt_instruction prototype = {.op = GT_OP_cat, .tail = (uint16_t)((count + 7) / 8)};
    prototype.imm[0].i = axis;
    prototype.imm[1].i = count;
    return gt__emit(tensors[0]->client, prototype, tail, tensors, (unsigned)count, out);
}

/* In stages, if there are more operands than a record holds. */
static gt_err cat_all(gt_tensor *const *tensors, int count, int axis, gt_tensor **out)
{
    if (count < 1)
        return gt__fail(GT_ERR_VALUE, "cat: expected a non-empty list of tensors");
    for (int k = 0; k < count; k++)
        if (!tensors[k])
            return gt__fail(GT_ERR_VALUE, "gt_cat: tensors[%d] is NULL", k);
    if (count <= GT_MAX_CAT)
        return cat_once(tensors, count, axis, out);
    gt_tensor *joined;
    GT_TRY(cat_once(tensors, GT_MAX_CAT, axis, &joined));
    for (int done = GT_MAX_CAT; done < count;) {
        gt_tensor *batch[GT_MAX_CAT], *next;
        int size = 1;
        batch[0] = joined;
        while (size < GT_MAX_CAT && done < count)
            batch[size++] = tensors[done++];
        gt_err err = cat_once(batch, size, axis, &next);
        gt_tensor_release(joined);
        GT_TRY(err);
        joined = next;
    }
    *out = joined;
    return GT_OK;
}

gt_err gt_cat(gt_tensor *const *tensors, int count, int axis, gt_tensor **out)
{
    GT_REQUIRE(out);
    gt_tensor *joined = NULL; /* *out may be one of the tensors: it is set last */
    gt_err err =
        tensors || count < 1 ? cat_all(tensors, count, axis, &joined) : gt__null_argument(__func__, "tensors", 0);
    *out = joined;
    return err;
}

gt_err gt_tril(gt_tensor *a, int64_t diagonal, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    return emit_one(GT_OP_tril, a, imm_i(diagonal), imm_i(0), 0, out);
}

gt_err gt_triu(gt_tensor *a, int64_t diagonal, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    return emit_one(GT_OP_triu, a, imm_i(diagonal), imm_i(0), 0, out);
}

static gt_err emit_indexed(gt_opcode op, gt_tensor *a, gt_tensor *index, int axis, gt_take_kind kind,
                           gt_tensor **out)
{
    gt_instruction prototype = {.op = (uint16_t)op, .imm = {imm_i(axis), imm_i(kind)}};
    return gt__emit(a->client, prototype, NULL, (gt_tensor *[]){a, index}, 2, out);
}

gt_err gt_take(gt_tensor *a, gt_tensor *index, int axis, gt_tensor **out)
{
    GT_ARGUMENTS(out, a, index);
    return emit_indexed(GT_OP_take, a, index, axis, GT_TAKE_WRAPPED, out);
}

gt_err gt__emit_pick(gt_tensor *a, gt_tensor *index, int axis, gt_take_kind kind, gt_tensor **out)
{
    return emit_indexed(GT_OP_take, a, index, axis, kind, out);
}

gt_err gt_gather(gt_tensor *a, gt_tensor *index, int axis, gt_tensor **out)
{
    GT_ARGUMENTS(out, a, index);
    return emit_indexed(GT_OP_gather, a, index, axis, GT_TAKE_WRAPPED, out);
}

gt_err gt__emit_scatter(gt_opcode op, gt_tensor *a, gt_tensor *index, gt_tensor *src, int axis, int64_t how,
                        unsigned held, gt_tensor **out)
{
    gt_tensor *in[] = {a, index, src};
    gt_instruction prototype = {.op = (uint16_t)op, .imm = {imm_i(axis), imm_i(how)}};
    if (!src)
        return gt__fail(GT_ERR_VALUE, "%s: src is missing", gt__op_table[op].name);
    prototype.flags = gt__consume_flag(op, in, 3, held);
    return gt__emit(a->client, prototype, NULL, in, 3, out);
}

gt_err gt_scatter(gt_tensor *a, gt_tensor *index, gt_tensor *src, int axis, gt_tensor **out)
{
    GT_ARGUMENTS(out, a, index, src);
    return gt__emit_scatter(GT_OP_scatter, a, index, src, axis, 0, 0, out);
}

gt_err gt_scatter_add(gt_tensor *a, gt_tensor *index, gt_tensor *src, int axis, gt_tensor **out)
{
    GT_ARGUMENTS(out, a, index, src);
    return gt__emit_scatter(GT_OP_scatter_add, a, index, src, axis, 0, 0, out);
}

gt_err gt_scatter_reduce(gt_tensor *a, gt_tensor *index, gt_tensor *src, int axis, int reduction,
                         bool include_self, gt_tensor **out)
{
    GT_ARGUMENTS(out, a, index, src);
    return gt__emit_scatter(GT_OP_scatter_reduce, a, index, src, axis,
                            reduction | (include_self ? 0 : GT_SCATTER_WITHOUT_SELF), 0, out);
}

gt_err gt_searchsorted(gt_tensor *sorted, gt_tensor *values, bool right, gt_tensor **out)
{
    GT_ARGUMENTS(out, sorted, values);
    gt_instruction prototype = {.op = GT_OP_searchsorted, .imm = {imm_i(right)}};
    return gt__emit(sorted->client, prototype, NULL, (gt_tensor *[]){sorted, values}, 2, out);
}

gt_err gt_diagonal(gt_tensor *a, int64_t offset, int axis1, int axis2, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    if (axis1 < 0 || axis2 < 0 || axis1 >= a->meta.rank || axis2 >= a->meta.rank)
        return gt__fail(GT_ERR_INDEX, "diagonal: axes %d and %d are out of range for a tensor of %u dimensions",
                        axis1, axis2, a->meta.rank);
    return emit_one(GT_OP_diagonal, a, imm_i(offset), imm_i(axis1 | axis2 << 8), 0, out);
}

gt_err gt_unfold(gt_tensor *a, int axis, int64_t size, int64_t step, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    gt_instruction prototype = {.op = GT_OP_unfold, .tail = 1};
    gt_slot tail = {.i64 = {axis, size, step}};
    return gt__emit(a->client, prototype, &tail, &a, 1, out);
}

gt_err gt__emit_wrap_index(gt_tensor *index, int64_t size, int axis, gt_tensor **out)
{
    return emit_one(GT_OP_wrap_index, index, imm_i(size), imm_i(axis), 0, out);
}

gt_err gt__emit_mask_index(gt_tensor *mask, int64_t count, gt_tensor **out)
{
    return emit_one(GT_OP_mask_index, mask, imm_i(count), imm_i(0), 0, out);
}

gt_err gt_argsort(gt_tensor *a, int axis, bool descending, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    return emit_one(GT_OP_argsort, a, imm_i(axis), imm_i(descending), 0, out);
}

gt_err gt_topk(gt_tensor *a, int64_t k, int axis, bool largest, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    return emit_one(GT_OP_topk, a, imm_i(axis), imm_i(k), largest ? 0 : GT_FLAG_SMALLEST, out);
}

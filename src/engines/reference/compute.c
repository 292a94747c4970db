/*
 * engines/reference/compute.c: defines the arithmetic ops: elementwise, reductions, products.
 *
 * The expressions of core/ops.def are pasted with T = double and with T = int64_t, on libm; compiled with -fwrapv, since sums
 * of integers wrap. Reductions accumulate in double or, modulo 2^64, in integers.
 */
#include <math.h>
#include <stdlib.h>

#include "core/convert.h"
#include "engines/reference/reference.h"
#include "engines/special_real.h"

/* ---- elementwise: the table's expressions ----------------------------------------------------------------- */

#define SELECT(condition, a, b) ((condition) ? (a) : (b))

/* FLT rows have no integer version. */
#define INTEGER_NUM(name, expr)                                                                                   \
    case GT_OP_##name:                                                                                            \
        return (T)(expr);
#define INTEGER_ARITH(name, expr) INTEGER_NUM(name, expr)
#define INTEGER_BOOL(name, expr) INTEGER_NUM(name, expr)
#define INTEGER_BITS(name, expr) INTEGER_NUM(name, expr)
#define INTEGER_INT(name, expr) INTEGER_NUM(name, expr)
#define INTEGER_FLT(name, expr)

/* And BITS and INT rows none for floats. */
#define REAL_NUM(name, expr) INTEGER_NUM(name, expr)
#define REAL_ARITH(name, expr) INTEGER_NUM(name, expr)
#define REAL_BOOL(name, expr) INTEGER_NUM(name, expr)
#define REAL_FLT(name, expr) INTEGER_NUM(name, expr)
#define REAL_BITS(name, expr)
#define REAL_INT(name, expr)

/* NaN if either operand is NaN. */
static double real_maximum(double x, double y)
{
    return isnan(x) || x > y ? x : y;
}

static double real_minimum(double x, double y)
{
    return isnan(x) || x < y ? x : y;
}

/* The remainder has the divisor's sign, as in Python. */
static double real_remainder(double x, double y)
{
    double remainder = fmod(x, y);
    return remainder != 0 && (remainder < 0) != (y < 0) ? remainder + y : remainder;
}

/* Rounded down, from the exact remainder: x / y may itself round up to a whole number. */
static double real_floor_divide(double x, double y)
{
    if (y == 0)
        return x / y;
    double remainder = fmod(x, y), quotient = (x - remainder) / y;
    if (remainder != 0 && (remainder < 0) != (y < 0))
        quotient -= 1;
    return quotient == 0 ? copysign(0, x / y) : nearbyint(quotient);
}

static double real_mish(double x)
{
    return x * tanh(log1p(exp(x)));
}

/* With s and t the sigmoid and tanh(softplus) of x: t + x s (1 - t^2). */
static double real_mish_slope(double x)
{
    double s = 1 / (1 + exp(-x)), t = tanh(log1p(exp(x)));
    if (x > 100)
        return 1;
    return t + x * s * (1 - t * t);
}

static double real_gate_slope(double u, double w)
{
    double s = 1 / (1 + exp(-u));
    return s * (1 + w * (1 - s));
}

static double real_compute(gt_opcode op, double x, double y, double z, double p, double q)
{
    typedef double T;
#define MAXIMUM(x, y) real_maximum(x, y)
#define MINIMUM(x, y) real_minimum(x, y)
#define ABS(x) fabs(x)
#define SQRT(x) sqrt(x)
#define EXP(x) exp(x)
#define EXP2(x) exp2(x)
#define EXPM1(x) expm1(x)
#define LOG(x) log(x)
#define LOG2(x) log2(x)
#define LOG10(x) log10(x)
#define LOG1P(x) log1p(x)
#define SIN(x) sin(x)
#define COS(x) cos(x)
#define TAN(x) tan(x)
#define ASIN(x) asin(x)
#define ACOS(x) acos(x)
#define ATAN(x) atan(x)
#define ATAN2(x, y) atan2(x, y)
#define SINH(x) sinh(x)
#define COSH(x) cosh(x)
#define TANH(x) tanh(x)
#define ASINH(x) asinh(x)
#define ACOSH(x) acosh(x)
#define ATANH(x) atanh(x)
#define HYPOT(x, y) hypot(x, y)
#define COPYSIGN(x, y) copysign(x, y)
#define MISH(x) real_mish(x)
#define MISH_SLOPE(x) real_mish_slope(x)
#define GATE_SLOPE(u, w) real_gate_slope(u, w)
#define ISNAN(x) (isnan(x) != 0)
#define ISINF(x) (isinf(x) != 0)
#define ERF(x) erf(x)
#define FLOOR(x) floor(x)
#define CEIL(x) ceil(x)
#define ROUND(x) nearbyint(x)
#define TRUNC(x) trunc(x)
#define POW(x, y) pow(x, y)
#define FMOD(x, y) fmod(x, y)
#define TRUNC_DIVIDE(x, y) trunc((x) / (y))
#define REMAINDER(x, y) real_remainder(x, y)
#define FLOOR_DIVIDE(x, y) real_floor_divide(x, y)
#define CLAMP(x, p, q) real_minimum(real_maximum(x, p), q)
    switch (op) {
#define UNARY(name, types, expr, grad) REAL_##types(name, expr)
#define UNARY_PQ(name, types, expr, grad) REAL_##types(name, expr)
#define BINARY(name, types, expr, grad) REAL_##types(name, expr)
#define BINARY_PQ(name, types, expr, grad) REAL_##types(name, expr)
#define TERNARY(name, types, expr, grad) REAL_##types(name, expr)
#include "core/ops.def"
    default:
        return NAN;
    }
#undef MAXIMUM
#undef MINIMUM
#undef ABS
#undef FLOOR
#undef CEIL
#undef ROUND
#undef TRUNC
#undef POW
#undef FMOD
#undef TRUNC_DIVIDE
#undef ISNAN
#undef ISINF
#undef REMAINDER
#undef FLOOR_DIVIDE
#undef CLAMP
}

static int64_t integer_maximum(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

static int64_t integer_minimum(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

/* Towards minus infinity, as in Python. y is not 0. */
static int64_t integer_floor_divide(int64_t x, int64_t y)
{
    if (y == -1)
        return (int64_t)(0 - (uint64_t)x);
    return x / y - (x % y != 0 && (x < 0) != (y < 0));
}

static int64_t integer_remainder(int64_t x, int64_t y)
{
    return y == -1 ? 0 : x - integer_floor_divide(x, y) * y;
}

/* Towards zero. y is not 0. */
static int64_t integer_trunc_divide(int64_t x, int64_t y)
{
    return y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
}

static int64_t integer_fmod(int64_t x, int64_t y)
{
    return y == -1 ? 0 : x % y;
}

/* A shift by the width or more, or by a negative number, leaves 0 (left) or the sign (right). */
static int64_t integer_shift_left(int64_t x, int64_t y)
{
    return y < 0 || y > 63 ? 0 : (int64_t)((uint64_t)x << y);
}

static int64_t integer_shift_right(int64_t x, int64_t y)
{
    return x >> (y < 0 || y > 63 ? 63 : y);
}

/* Modulo 2^64; a negative exponent is a division by that power, rounded towards zero. */
static int64_t integer_power(int64_t x, int64_t y)
{
    if (y < 0)
        return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
    uint64_t power = 1, square = (uint64_t)x;
    for (; y > 0; y /= 2, square *= square)
        if (y % 2)
            power *= square;
    return (int64_t)power;
}

static uint64_t magnitude(int64_t x)
{
    return x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
}

static int64_t integer_gcd(int64_t x, int64_t y)
{
    uint64_t a = magnitude(x), b = magnitude(y);
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return (int64_t)a;
}

static int64_t integer_lcm(int64_t x, int64_t y)
{
    uint64_t divisor = (uint64_t)integer_gcd(x, y);
    return divisor ? (int64_t)(magnitude(x) / divisor * magnitude(y)) : 0;
}

static int64_t integer_compute(gt_opcode op, int64_t x, int64_t y, int64_t z, int64_t p, int64_t q)
{
    typedef int64_t T;
#define MAXIMUM(x, y) integer_maximum(x, y)
#define MINIMUM(x, y) integer_minimum(x, y)
#define ABS(x) ((x) < 0 ? -(x) : (x))
#define FLOOR(x) (x)
#define CEIL(x) (x)
#define ROUND(x) (x)
#define TRUNC(x) (x)
#define ISNAN(x) 0
#define ISINF(x) 0
#define POW(x, y) integer_power(x, y)
#define FMOD(x, y) integer_fmod(x, y)
#define TRUNC_DIVIDE(x, y) integer_trunc_divide(x, y)
#define GCD(x, y) integer_gcd(x, y)
#define LCM(x, y) integer_lcm(x, y)
#define SHIFT_LEFT(x, y) integer_shift_left(x, y)
#define SHIFT_RIGHT(x, y) integer_shift_right(x, y)
#define REMAINDER(x, y) integer_remainder(x, y)
#define FLOOR_DIVIDE(x, y) integer_floor_divide(x, y)
#define CLAMP(x, p, q) integer_minimum(integer_maximum(x, p), q)
    switch (op) {
#define UNARY(name, types, expr, grad) INTEGER_##types(name, expr)
#define UNARY_PQ(name, types, expr, grad) INTEGER_##types(name, expr)
#define BINARY(name, types, expr, grad) INTEGER_##types(name, expr)
#define BINARY_PQ(name, types, expr, grad) INTEGER_##types(name, expr)
#define TERNARY(name, types, expr, grad) INTEGER_##types(name, expr)
#include "core/ops.def"
    default:
        return 0;
    }
}

/* ---- elementwise: the loop ---------------------------------------------------------------------------------- */

/* Operand k at `flat`, rounded to the dtype the op is computed in, or as gt__number_dtype says. */
static double operand_real(const gt_call *call, unsigned k, const gt_view *from, int64_t flat)
{
    double value;
    gt_dtype dtype = call->in[k]->meta.numel == 1
                         ? gt__number_dtype(call->op, k, call->literals >> k & 1, call->compute)
                         : call->compute;
    gt_view rounded = {.data = &value, .meta = {.numel = 1, .dtype = (uint8_t)dtype}};
    gt__reference_move(&rounded, 0, from, flat);
    return gt__reference_real(&rounded, 0);
}

static int64_t operand_integer(const gt_call *call, const gt_view *from, int64_t flat)
{
    int64_t value;
    gt_view rounded = {.data = &value, .meta = {.numel = 1, .dtype = (uint8_t)call->compute}};
    gt__reference_move(&rounded, 0, from, flat);
    return gt__reference_integer(&rounded, 0);
}

/* A _PQ row's number as an integer of the compute dtype; saturates. */
static int64_t saturated(gt_dtype compute, double number)
{
    return compute == GT_INT64 ? gt__double_to_int64(number) : gt__double_to_int32(number);
}

static bool divides(gt_opcode op)
{
    return op == GT_OP_remainder || op == GT_OP_floor_divide || op == GT_OP_fmod || op == GT_OP_trunc_divide;
}

static gt_err elementwise(const gt_call *call)
{
    double p = call->ins->imm[0].f, q = call->ins->imm[1].f;
    gt_view in[GT_MAX_OPERANDS];
    for (unsigned k = 0; k < call->operands; k++)
        in[k] = gt__reference_broadcast(call->in[k], &call->out->meta);
    for (int64_t flat = 0; flat < call->out->meta.numel; flat++) {
        if (gt__dtype_is_float(call->compute)) {
            double x[GT_MAX_OPERANDS] = {0};
            for (unsigned k = 0; k < call->operands; k++)
                x[k] = operand_real(call, k, &in[k], flat);
            gt__reference_put_real(call->out, flat, real_compute(call->op, x[0], x[1], x[2], p, q));
        } else {
            int64_t x[GT_MAX_OPERANDS] = {0};
            for (unsigned k = 0; k < call->operands; k++)
                x[k] = operand_integer(call, &in[k], flat);
            if (divides(call->op) && x[1] == 0)
                return gt__fail(GT_ERR_VALUE, "ZeroDivisionError: integer division or remainder by zero");
            gt__reference_put_integer(call->out, flat,
                                      integer_compute(call->op, x[0], x[1], x[2], saturated(call->compute, p),
                                                      saturated(call->compute, q)));
        }
    }
    return GT_OK;
}

gt_err gt__reference_unary(const gt_call *call)
{
    return elementwise(call);
}

gt_err gt__reference_binary(const gt_call *call)
{
    return elementwise(call);
}

gt_err gt__reference_ternary(const gt_call *call)
{
    return elementwise(call);
}

/* ---- reductions --------------------------------------------------------------------------------------------- */

static double sum_real(const gt_view *in, int64_t first, int64_t count)
{
    double sum = 0;
    for (int64_t k = 0; k < count; k++)
        sum += gt__reference_real(in, first + k);
    return sum;
}

/* Two passes: the mean, then the squared differences from it. */
static double variance(const gt_view *in, int64_t first, int64_t count, double correction)
{
    double mean = sum_real(in, first, count) / (double)count, sum = 0;
    for (int64_t k = 0; k < count; k++) {
        double distance = gt__reference_real(in, first + k) - mean;
        sum += distance * distance;
    }
    return sum / fmax((double)count - correction, 0);
}

static double product_real(const gt_view *in, int64_t first, int64_t count)
{
    double product = 1;
    for (int64_t k = 0; k < count; k++)
        product *= gt__reference_real(in, first + k);
    return product;
}

static int64_t sum_integer(const gt_view *in, int64_t first, int64_t count)
{
    uint64_t sum = 0;
    for (int64_t k = 0; k < count; k++)
        sum += (uint64_t)gt__reference_integer(in, first + k);
    return (int64_t)sum;
}

static int64_t product_integer(const gt_view *in, int64_t first, int64_t count)
{
    uint64_t product = 1;
    for (int64_t k = 0; k < count; k++)
        product *= (uint64_t)gt__reference_integer(in, first + k);
    return (int64_t)product;
}

/* How many of them are not zero. */
static int64_t count_true(const gt_view *in, int64_t first, int64_t count)
{
    int64_t found = 0;
    for (int64_t k = 0; k < count; k++)
        found += gt__reference_real(in, first + k) != 0;
    return found;
}

/* The position, from `first`, of the first greatest or least element; NaN beats every number. */
static int64_t best(const gt_view *in, int64_t first, int64_t count, bool greatest)
{
    bool real = gt__dtype_is_float(in->meta.dtype);
    int64_t found = 0;
    for (int64_t k = 1; k < count; k++) {
        if (real && isnan(gt__reference_real(in, first + found)))
            break;
        if (greatest ? gt__reference_less(in, first + found, first + k)
                     : gt__reference_less(in, first + k, first + found) ||
                           (real && isnan(gt__reference_real(in, first + k))))
            found = k;
    }
    return found;
}

static double log_sum_exp(const gt_view *in, int64_t first, int64_t count)
{
    double most = -INFINITY, sum = 0;
    for (int64_t k = 0; k < count; k++)
        most = real_maximum(most, gt__reference_real(in, first + k));
    if (isinf(most) || isnan(most))
        return most;
    for (int64_t k = 0; k < count; k++)
        sum += exp(gt__reference_real(in, first + k) - most);
    return most + log(sum);
}

/* (sum |x|^p)^(1/p), and its limits for p = 0, inf and -inf: the number of nonzeros, the greatest, the least. */
static double norm(const gt_view *in, int64_t first, int64_t count, double p)
{
    double total = p == -INFINITY ? INFINITY : 0;
    for (int64_t k = 0; k < count; k++) {
        double x = fabs(gt__reference_real(in, first + k));
        if (isinf(p))
            total = p > 0 ? real_maximum(total, x) : real_minimum(total, x);
        else
            total += p == 0 ? x != 0 : pow(x, p);
    }
    return isinf(p) || p == 0 ? total : pow(total, 1 / p);
}

gt_err gt__reference_reduce(const gt_call *call)
{
    const gt_view *out = call->out;
    uint64_t axes = call->ins->imm[0].u;
    int64_t count;
    gt_view in = gt__reference_axes_last(call->in[0], axes ? axes : UINT64_MAX, &count);
    bool real = gt__dtype_is_float(out->meta.dtype);
    for (int64_t k = 0; k < out->meta.numel; k++) {
        int64_t first = k * count;
        switch ((unsigned)call->op) {
        case GT_OP_sum:
            if (real)
                gt__reference_put_real(out, k, sum_real(&in, first, count));
            else
                gt__reference_put_integer(out, k, sum_integer(&in, first, count));
            break;
        case GT_OP_prod:
            if (real)
                gt__reference_put_real(out, k, product_real(&in, first, count));
            else
                gt__reference_put_integer(out, k, product_integer(&in, first, count));
            break;
        case GT_OP_mean:
            gt__reference_put_real(out, k, sum_real(&in, first, count) / (double)count);
            break;
        case GT_OP_var:
            gt__reference_put_real(out, k, variance(&in, first, count, call->ins->imm[1].f));
            break;
        case GT_OP_amax:
        case GT_OP_amin:
            gt__reference_move(out, k, &in, first + best(&in, first, count, call->op == GT_OP_amax));
            break;
        case GT_OP_logsumexp:
            gt__reference_put_real(out, k, log_sum_exp(&in, first, count));
            break;
        case GT_OP_norm:
            gt__reference_put_real(out, k, norm(&in, first, count, call->ins->imm[1].f));
            break;
        case GT_OP_any:
            gt__reference_put_integer(out, k, count_true(&in, first, count) > 0);
            break;
        case GT_OP_all:
            gt__reference_put_integer(out, k, count_true(&in, first, count) == count);
            break;
        default:
            return gt__fail(GT_ERR_UNSUPPORTED, "the reference engine does not run %s",
                            gt__op_table[call->op].name);
        }
    }
    return GT_OK;
}

gt_err gt__reference_argreduce(const gt_call *call)
{
    int64_t axis = call->ins->imm[0].i, count;
    gt_view in = gt__reference_axes_last(call->in[0], axis < 0 ? UINT64_MAX : UINT64_C(1) << axis, &count);
    for (int64_t k = 0; k < call->out->meta.numel; k++)
        gt__reference_put_integer(call->out, k, best(&in, k * count, count, call->op == GT_OP_argmax));
    return GT_OK;
}

/* ---- products ----------------------------------------------------------------------------------------------- */

/* A vector becomes a row on the left of a product and a column on the right. */
static gt_view as_matrix(const gt_view *view, bool left)
{
    gt_view matrix = *view;
    if (view->meta.rank == 1) {
        matrix.meta.rank = 2;
        matrix.meta.shape[left ? 1 : 0] = view->meta.shape[0];
        matrix.stride[left ? 1 : 0] = view->stride[0];
        matrix.meta.shape[left ? 0 : 1] = 1;
        matrix.stride[left ? 0 : 1] = 0;
    }
    return matrix;
}

/* The batch axes of `view` repeated to those of `batch` (its shape without the last two axes). */
static gt_view broadcast_batch(const gt_view *view, const gt_meta *batch)
{
    gt_meta meta = *batch;
    meta.rank = (uint8_t)(batch->rank + 2);
    meta.shape[batch->rank] = view->meta.shape[view->meta.rank - 2];
    meta.shape[batch->rank + 1] = view->meta.shape[view->meta.rank - 1];
    gt_view wide = gt__reference_broadcast(view, &meta);
    for (int axis = 0; axis < 2; axis++)
        wide.stride[batch->rank + axis] = view->stride[view->meta.rank - 2 + axis];
    return wide;
}

/* out (..., N, M) = a (..., N, K) @ b (..., K, M) */
gt_err gt__reference_matmul(const gt_call *call)
{
    gt_view a = as_matrix(call->in[0], true), b = as_matrix(call->in[1], false);
    gt_meta batch = call->out->meta;
    batch.rank = (uint8_t)(batch.rank - (call->in[0]->meta.rank > 1) - (call->in[1]->meta.rank > 1));
    a = broadcast_batch(&a, &batch);
    b = broadcast_batch(&b, &batch);
    int64_t N = a.meta.shape[batch.rank], K = a.meta.shape[batch.rank + 1], M = b.meta.shape[batch.rank + 1];
    for (int64_t flat = 0; flat < call->out->meta.numel; flat++) {
        int64_t matrix = flat / (N * M), row = flat / M % N, column = flat % M;
        double sum = 0;
        double _Complex complex_sum = 0;
        uint64_t integer_sum = 0;
        for (int64_t k = 0; k < K; k++) {
            int64_t in_a = (matrix * N + row) * K + k, in_b = (matrix * K + k) * M + column;
            if (gt__dtype_is_complex(call->out->meta.dtype))
                complex_sum += gt__reference_complex(&a, in_a) * gt__reference_complex(&b, in_b);
            else if (gt__dtype_is_float(call->out->meta.dtype))
                sum += gt__reference_real(&a, in_a) * gt__reference_real(&b, in_b);
            else
                integer_sum +=
                    (uint64_t)gt__reference_integer(&a, in_a) * (uint64_t)gt__reference_integer(&b, in_b);
        }
        if (gt__dtype_is_complex(call->out->meta.dtype))
            gt__reference_put_complex(call->out, flat, complex_sum);
        else if (gt__dtype_is_float(call->out->meta.dtype))
            gt__reference_put_real(call->out, flat, sum);
        else
            gt__reference_put_integer(call->out, flat, (int64_t)integer_sum);
    }
    return GT_OK;
}

/* out (..., M) = a (..., K) @ b (K, M) + bias (M) */
gt_err gt__reference_linear(const gt_call *call)
{
    const gt_view *a = call->in[0], *b = call->in[1];
    int64_t K = b->meta.shape[0], M = b->meta.shape[1];
    for (int64_t flat = 0; flat < call->out->meta.numel; flat++) {
        int64_t row = flat / M, column = flat % M;
        double sum = gt__reference_real(call->in[2], column);
        for (int64_t k = 0; k < K; k++)
            sum += gt__reference_real(a, row * K + k) * gt__reference_real(b, k * M + column);
        gt__reference_put_real(call->out, flat, sum);
    }
    return GT_OK;
}

/* ---- normalisation ------------------------------------------------------------------------------------------ */

/* A line of n elements from `first` on. (x - mean) * scale is the normalised element h. */
typedef struct line {
    int64_t first, n;
    double mean, scale;
} line;

static line line_at(const gt_call *call, const gt_view *x, int64_t first, int64_t n)
{
    return (line){.first = first,
                  .n = n,
                  .mean = sum_real(x, first, n) / (double)n,
                  .scale = 1 / sqrt(variance(x, first, n, 0) + call->ins->imm[1].f)};
}

static double standardised(const line *l, const gt_view *x, int64_t j)
{
    return (gt__reference_real(x, l->first + j) - l->mean) * l->scale;
}

/* Element j of a weight or bias; a literal is the same everywhere. */
static double along_line(const gt_view *view, int64_t j)
{
    return gt__reference_real(view, view->meta.rank ? j : 0);
}

static void layer_norm_line(const gt_call *call, const line *l)
{
    for (int64_t j = 0; j < l->n; j++)
        gt__reference_put_real(call->out, l->first + j,
                               standardised(l, call->in[0], j) * along_line(call->in[1], j) +
                                   along_line(call->in[2], j));
}

/* The element's direct gradient, minus the parts through the mean and the variance of its line. */
static void layer_norm_backward_line(const gt_call *call, const line *l)
{
    const gt_view *g = call->in[0], *x = call->in[1], *weight = call->in[2];
    double sum = 0, product = 0;
    for (int64_t j = 0; j < l->n; j++) {
        double gw = gt__reference_real(g, l->first + j) * along_line(weight, j);
        sum += gw;
        product += gw * standardised(l, x, j);
    }
    for (int64_t j = 0; j < l->n; j++) {
        double gw = gt__reference_real(g, l->first + j) * along_line(weight, j);
        double taken = sum / (double)l->n + standardised(l, x, j) * product / (double)l->n;
        gt__reference_put_real(call->out, l->first + j, (gw - taken) * l->scale);
    }
}

gt_err gt__reference_layer_norm(const gt_call *call)
{
    const gt_view *x = call->in[call->op == GT_OP_layer_norm ? 0 : 1];
    int64_t n = 1;
    for (int64_t axis = call->ins->imm[0].i; axis < x->meta.rank; axis++)
        n *= x->meta.shape[axis];
    double *sums = calloc((size_t)n + 1, sizeof *sums); /* backward_weight: over all lines */
    if (!sums)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    for (int64_t first = 0; first < x->meta.numel; first += n) {
        line l = line_at(call, x, first, n);
        if (call->op == GT_OP_layer_norm)
            layer_norm_line(call, &l);
        else if (call->op == GT_OP_layer_norm_backward)
            layer_norm_backward_line(call, &l);
        else
            for (int64_t j = 0; j < n; j++)
                sums[j] += gt__reference_real(call->in[0], first + j) * standardised(&l, x, j);
    }
    if (call->op == GT_OP_layer_norm_backward_weight)
        for (int64_t j = 0; j < n; j++)
            gt__reference_put_real(call->out, j, sums[j]);
    free(sums);
    return GT_OK;
}

/*
 * test_client_ops.c: every function of gt.h that computes, on an embedded server, compared with plain C; and what
 * each refuses. Elementwise ops come from the table: a new row is tested by being there.
 */
#include "client_fixture.h"
#include "engines/special_real.h"

/* ---- elementwise rows --------------------------------------------------------------------------------------- */

/* What the table's expressions say, in double and with the C library. */
typedef double T;
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
#define MISH(x) ((x)*tanh(log1p(exp(x))))
#define SIGMOID(x) (1 / (1 + exp(-(x))))
#define MISH_SLOPE(x) (tanh(log1p(exp(x))) + (x)*SIGMOID(x) / pow(cosh(log1p(exp(x))), 2))
#define GATE_SLOPE(u, w) (SIGMOID(u) * (1 + (w)*SIGMOID(-(u))))
#define ISNAN(x) (isnan(x) != 0)
#define ISINF(x) (isinf(x) != 0)
#define ERF(x) erf(x)
#define FLOOR(x) floor(x)
#define CEIL(x) ceil(x)
#define ROUND(x) rint(x)
#define TRUNC(x) trunc(x)
#define SELECT(c, x, y) ((c) ? (x) : (y))
#define MAXIMUM(x, y) fmax(x, y)
#define MINIMUM(x, y) fmin(x, y)
#define CLAMP(x, p, q) fmin(fmax(x, p), q)
#define POW(x, y) pow(x, y)
#define FMOD(x, y) fmod(x, y)
#define TRUNC_DIVIDE(x, y) trunc((x) / (y))
#define FLOOR_DIVIDE(x, y) floor((x) / (y))
#define REMAINDER(x, y) ((x)-floor((x) / (y)) * (y))

/* Rows on bits have no meaning in double: test_bits has them. */
#define ON_BITS(...)
#define ON_NUMBERS(...) __VA_ARGS__
#define ROWS_NUM ON_NUMBERS
#define ROWS_ARITH ON_NUMBERS
#define ROWS_FLT ON_NUMBERS
#define ROWS_BOOL ON_NUMBERS
#define ROWS_BITS ON_BITS
#define ROWS_INT ON_BITS

#define FUNCTION(name, expr)                                                                                      \
    static double c_##name(double x, double y, double p, double q)                                                \
    {                                                                                                             \
        (void)x, (void)y, (void)p, (void)q;                                                                       \
        return (double)(expr);                                                                                    \
    }
#define UNARY(name, types, expr, grad) ROWS_##types(FUNCTION(name, expr))
#define UNARY_PQ(name, types, expr, grad) ROWS_##types(FUNCTION(name, expr))
#define BINARY(name, types, expr, grad) ROWS_##types(FUNCTION(name, expr))
#define BINARY_PQ(name, types, expr, grad) ROWS_##types(FUNCTION(name, expr))
#include "gt/ops.def"

typedef struct elementwise_row {
    const char *name;
    gt_err (*unary)(gt_tensor *a, gt_tensor **out);
    gt_err (*unary_pq)(gt_tensor *a, double p, double q, gt_tensor **out);
    gt_err (*binary)(gt_tensor *a, gt_tensor *b, gt_tensor **out);
    gt_err (*binary_scalar)(gt_tensor *a, double b, gt_tensor **out);
    gt_err (*binary_pq)(gt_tensor *a, gt_tensor *b, double p, double q, gt_tensor **out);
    double (*c)(double x, double y, double p, double q);
} elementwise_row;

#define ENTRY(...) {__VA_ARGS__},
static const elementwise_row elementwise_rows[] = {
#define UNARY(row, types, expr, grad) ROWS_##types(ENTRY(.name = #row, .unary = gt_##row, .c = c_##row))
#define UNARY_PQ(row, types, expr, grad) ROWS_##types(ENTRY(.name = #row, .unary_pq = gt_##row, .c = c_##row))
#define BINARY(row, types, expr, grad)                                                                            \
    ROWS_##types(ENTRY(.name = #row, .binary = gt_##row, .c = c_##row))                                           \
        ROWS_##types(ENTRY(.name = #row ", a number", .binary_scalar = gt_##row##_scalar, .c = c_##row))
#define BINARY_PQ(row, types, expr, grad) ROWS_##types(ENTRY(.name = #row, .binary_pq = gt_##row, .c = c_##row))
#include "gt/ops.def"
};

enum { SAMPLES = 8 };
static const double samples[SAMPLES] = {-2.5, -1, -0.25, 0.125, 0.5, 1, 3, 7.75};
static const double divisors[SAMPLES] = {2, -3, 0.5, 4, -1, 1, 2, 3};

static gt_tensor *from_doubles(gt_client *client, const double *values)
{
    float narrow[SAMPLES];
    gt_tensor *tensor = NULL;
    for (int k = 0; k < SAMPLES; k++)
        narrow[k] = (float)values[k];
    OK(gt_from_data(client, GT_FLOAT32, SHAPE(SAMPLES), narrow, &tensor));
    return tensor;
}

static gt_err run_row(const elementwise_row *r, gt_tensor *x, gt_tensor *y, double number, double p, double q,
                      gt_tensor **out)
{
    if (r->unary)
        return r->unary(x, out);
    if (r->unary_pq)
        return r->unary_pq(x, p, q, out);
    if (r->binary_pq)
        return r->binary_pq(x, y, p, q, out);
    return r->binary ? r->binary(x, y, out) : r->binary_scalar(x, number, out);
}

static void test_elementwise(const void *argument)
{
    const double number = 1.75, p = -1.5, q = 2;
    (void)argument;
    gt_client *client = open_client(1);
    gt_tensor *x = from_doubles(client, samples), *y = from_doubles(client, divisors), *out;
    double expected[SAMPLES];
    for (size_t k = 0; k < sizeof elementwise_rows / sizeof elementwise_rows[0]; k++) {
        const elementwise_row *r = &elementwise_rows[k];
        for (int i = 0; i < SAMPLES; i++)
            expected[i] = r->c(samples[i], r->binary_scalar ? number : divisors[i], p, q);
        if (!OK(run_row(r, x, y, number, p, q, &out)) || !holds(out, SHAPE(SAMPLES), SAMPLES, expected))
            fprintf(stderr, "  in the row of %s\n", r->name);
    }
    gt_tensor_release(x);
    gt_tensor_release(y);
    gt_client_close(&client);
}

static void test_bits(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1);
    gt_tensor *a, *b, *flag, *real, *out;
    OK(gt_from_data(client, GT_INT32, SHAPE(4), (int32_t[]){12, -7, 1, INT32_MIN}, &a));
    OK(gt_from_data(client, GT_INT32, SHAPE(4), (int32_t[]){10, 3, 31, 40}, &b));
    OK(gt_from_data(client, GT_BOOL, SHAPE(2), (uint8_t[]){0, 1}, &flag));
    OK(gt_cast(a, GT_FLOAT32, &real));
    OK(gt_bitwise_and(a, b, &out));
    holds(out, SHAPE(4), VALUES(8, 1, 1, 0));
    OK(gt_bitwise_or(a, b, &out));
    holds(out, SHAPE(4), VALUES(14, -5, 31, (double)INT32_MIN + 40));
    OK(gt_bitwise_xor_scalar(a, -1, &out));
    holds(out, SHAPE(4), VALUES(-13, 6, -2, INT32_MAX));
    OK(gt_bitwise_not(a, &out));
    holds(out, SHAPE(4), VALUES(-13, 6, -2, INT32_MAX));
    OK(gt_bitwise_not(flag, &out));
    CHECK_EQ(gt_tensor_dtype(out), GT_BOOL);
    holds(out, SHAPE(2), VALUES(1, 0));
    OK(gt_bitwise_left_shift(a, b, &out));
    holds(out, SHAPE(4), VALUES(12288, -56, INT32_MIN, 0));
    OK(gt_bitwise_right_shift(a, b, &out));
    holds(out, SHAPE(4), VALUES(0, -1, 0, -1));
    CHECK_EQ(gt_bitwise_and(a, real, &out), GT_ERR_UNSUPPORTED);
    CHECK_EQ(gt_bitwise_not(real, &out), GT_ERR_TYPE);
    CHECK_EQ(gt_bitwise_left_shift(flag, flag, &out), GT_ERR_UNSUPPORTED);
    gt_tensor_release(a), gt_tensor_release(b), gt_tensor_release(flag), gt_tensor_release(real);
    gt_client_close(&client);
}

/* ---- reductions and the rest -------------------------------------------------------------------------------- */

static void test_reductions(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1);
    gt_tensor *a = two_rows(client), *out;
    OK(gt_sum(a, 0, false, &out));
    holds(out, 0, NULL, VALUES(15));
    OK(gt_sum(a, 1 << 1, false, &out));
    holds(out, SHAPE(2), VALUES(3, 12));
    OK(gt_prod(a, 1 << 0, true, &out));
    holds(out, SHAPE(1, 3), VALUES(0, 4, 10));
    OK(gt_mean(a, 3, true, &out));
    holds(out, SHAPE(1, 1), VALUES(2.5));
    OK(gt_var(a, 1 << 1, false, &out));
    holds(out, SHAPE(2), VALUES(1, 1));
    OK(gt_amax(a, 1 << 0, false, &out));
    holds(out, SHAPE(3), VALUES(3, 4, 5));
    OK(gt_amin(a, 1 << 1, false, &out));
    holds(out, SHAPE(2), VALUES(0, 3));
    OK(gt_any(a, 0, false, &out));
    CHECK_EQ(gt_tensor_dtype(out), GT_BOOL);
    holds(out, 0, NULL, VALUES(1));
    OK(gt_all(a, 1 << 1, false, &out));
    holds(out, SHAPE(2), VALUES(0, 1));
    OK(gt_argmax(a, 1, false, &out));
    CHECK_EQ(gt_tensor_dtype(out), GT_INT64);
    holds(out, SHAPE(2), VALUES(2, 2));
    OK(gt_argmin(a, -1, false, &out));
    holds(out, 0, NULL, VALUES(0));
    OK(gt_cumsum(a, 1, &out));
    holds(out, SHAPE(2, 3), VALUES(0, 1, 3, 3, 7, 12));
    gt_tensor_release(a);
    gt_client_close(&client);
}

static void test_creation(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1);
    gt_tensor *out, *again;
    OK(gt_full(client, GT_INT32, SHAPE(2, 2), -7.9, &out));
    holds(out, SHAPE(2, 2), VALUES(-7, -7, -7, -7));
    OK(gt_full(client, GT_BOOL, 0, NULL, 0.5, &out));
    holds(out, 0, NULL, VALUES(1));
    OK(gt_arange(client, GT_INT64, 1, 8, 3, &out));
    holds(out, SHAPE(3), VALUES(1, 4, 7));
    OK(gt_arange(client, GT_FLOAT64, 1, 0, -0.25, &out));
    holds(out, SHAPE(4), VALUES(1, 0.75, 0.5, 0.25));
    OK(gt_eye(client, GT_FLOAT16, 2, 3, &out));
    holds(out, SHAPE(2, 3), VALUES(1, 0, 0, 0, 1, 0));
    float first[1000], second[1000];
    gt_manual_seed(client, 42);
    OK(gt_rand(client, GT_FLOAT32, SHAPE(1000), &out));
    gt_manual_seed(client, 42);
    OK(gt_rand(client, GT_FLOAT32, SHAPE(1000), &again));
    OK(gt_fetch(out, first, sizeof first));
    OK(gt_fetch(again, second, sizeof second));
    CHECK(memcmp(first, second, sizeof first) == 0);
    gt_tensor_release(out);
    gt_tensor_release(again);
    double sum = 0, squares = 0;
    for (int k = 0; k < 1000; k++) {
        CHECK(first[k] >= 0 && first[k] < 1);
        sum += first[k];
    }
    CHECK(fabs(sum / 1000 - 0.5) < 0.05);
    OK(gt_randn(client, GT_FLOAT32, SHAPE(1000), &out));
    OK(gt_fetch(out, first, sizeof first));
    gt_tensor_release(out);
    for (int k = 0; k < 1000; k++)
        squares += (double)first[k] * first[k];
    CHECK(fabs(squares / 1000 - 1) < 0.2);
    int64_t integers[1000], seen = 0;
    OK(gt_randint(client, GT_INT64, SHAPE(1000), -2, 3, &out));
    OK(gt_fetch(out, integers, sizeof integers));
    gt_tensor_release(out);
    for (int k = 0; k < 1000; k++)
        seen |= CHECK(integers[k] >= -2 && integers[k] < 3) ? 1 << (integers[k] + 2) : 0;
    CHECK_EQ(seen, 31);
    gt_client_close(&client);
}

static void test_movement(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(2);
    gt_tensor *a = two_rows(client), *turned, *out;
    OK(gt_transpose(a, 0, 1, &turned));
    OK(gt_matmul(a, turned, &out));
    holds(out, SHAPE(2, 2), VALUES(5, 14, 14, 50));
    gt_tensor *bias;
    OK(gt_arange(client, GT_FLOAT32, 1, 3, 1, &bias));
    OK(gt_linear(a, a, bias, &out));
    holds(out, SHAPE(2, 2), VALUES(6, 16, 15, 52));
    OK(gt_linear(a, a, NULL, &out));
    holds(out, SHAPE(2, 2), VALUES(5, 14, 14, 50));
    gt_tensor_release(bias);
    OK(gt_reshape(turned, SHAPE(2, -1), &out));
    holds(out, SHAPE(2, 3), VALUES(0, 3, 1, 4, 2, 5));
    holds(turned, SHAPE(3, 2), VALUES(0, 3, 1, 4, 2, 5));
    OK(gt_permute(a, (int[]){1, 0}, &out));
    holds(out, SHAPE(3, 2), VALUES(0, 3, 1, 4, 2, 5));
    OK(gt_copy(a, &out));
    holds(out, SHAPE(2, 3), VALUES(0, 1, 2, 3, 4, 5));
    OK(gt_slice(a, (int64_t[]){1, 2}, (int64_t[]){-1, -2}, (int64_t[]){2, 2}, &out));
    holds(out, SHAPE(2, 2), VALUES(5, 3, 2, 0));
    gt_tensor *row;
    OK(gt_arange(client, GT_FLOAT32, 10, 13, 1, &row));
    OK(gt_expand(row, SHAPE(2, 3), &out));
    holds(out, SHAPE(2, 3), VALUES(10, 11, 12, 10, 11, 12));
    OK(gt_assign(a, (int64_t[]){1, 0}, (int64_t[]){1, 1}, (int64_t[]){1, 3}, row, &out));
    holds(out, SHAPE(2, 3), VALUES(0, 1, 2, 10, 11, 12));
    OK(gt_cat((gt_tensor *[]){a, a}, 2, 1, &out));
    holds(out, SHAPE(2, 6), VALUES(0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5));
    OK(gt_tril(a, 0, &out));
    holds(out, SHAPE(2, 3), VALUES(0, 0, 0, 3, 4, 0));
    OK(gt_triu(a, 1, &out));
    holds(out, SHAPE(2, 3), VALUES(0, 1, 2, 0, 0, 5));
    OK(gt_argsort(a, 1, true, &out));
    holds(out, SHAPE(2, 3), VALUES(2, 1, 0, 2, 1, 0));
    OK(gt_topk(a, 2, 1, false, &out));
    holds(out, SHAPE(2, 2), VALUES(0, 1, 0, 1));
    gt_tensor_release(row);
    gt_tensor *many[600];
    for (int k = 0; k < 600; k++)
        many[k] = gt_tensor_retain(a);
    OK(gt_cat(many, 600, 0, &out));
    CHECK_EQ(gt_tensor_shape(out)[0], 1200);
    gt_tensor *sum;
    double total = 0;
    OK(gt_sum(out, 0, false, &sum));
    OK(gt_item(sum, &total));
    CHECK(total == 9000);
    gt_tensor_release(sum);
    gt_tensor_release(out);
    for (int k = 0; k < 600; k++)
        gt_tensor_release(many[k]);
    gt_tensor_release(a);
    gt_client_close(&client);
}

static void test_indexing(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1);
    gt_tensor *a = two_rows(client), *index, *src, *condition, *out;
    OK(gt_from_data(client, GT_INT64, SHAPE(2), (int64_t[]){2, 0}, &index));
    OK(gt_take(a, index, 1, &out));
    holds(out, SHAPE(2, 2), VALUES(2, 0, 5, 3));
    gt_tensor_release(index);
    OK(gt_from_data(client, GT_INT64, SHAPE(2, 1), (int64_t[]){1, 2}, &index));
    OK(gt_gather(a, index, 1, &out));
    holds(out, SHAPE(2, 1), VALUES(1, 5));
    OK(gt_full(client, GT_FLOAT32, SHAPE(2, 1), 100, &src));
    CHECK_EQ(gt_scatter(a, index, NULL, 1, &out), GT_ERR_VALUE);
    OK(gt_scatter(a, index, src, 1, &out));
    holds(out, SHAPE(2, 3), VALUES(0, 100, 2, 3, 4, 100));
    OK(gt_scatter_add(a, index, src, 1, &out));
    holds(out, SHAPE(2, 3), VALUES(0, 101, 2, 3, 4, 105));
    OK(gt_gt_scalar(a, 2.5, &condition));
    OK(gt_where(condition, a, src, &out));
    holds(out, SHAPE(2, 3), VALUES(100, 100, 100, 3, 4, 5));
    CHECK_EQ(gt_tensor_dtype(condition), GT_BOOL);
    CHECK(gt_tensor_client(condition) == client);
    gt_tensor_release(condition);
    gt_tensor_release(src);
    gt_tensor_release(index);
    gt_tensor_release(a);
    gt_tensor_release(NULL);
    gt_client_close(&client);
    gt_client_close(&client);
}

/* ---- errors ------------------------------------------------------------------------------------------------- */

/* The code, a part of the text, and that there is no result. The call delivers to `out`, or nothing. */
#define FAILS(err, part, call)                                                                                    \
    do {                                                                                                          \
        out = strstr(#call, "&out") ? (gt_tensor *)&out : NULL;                                                   \
        CHECK_EQ((call), (err));                                                                                  \
        CHECK(!out);                                                                                              \
        if (!CHECK(strstr(gt_error_text(), (part))))                                                              \
            fprintf(stderr, "  the text is: %s\n", gt_error_text());                                              \
    } while (0)

static void test_errors(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1), *other = open_client(1);
    gt_tensor *a = two_rows(client), *b = two_rows(other), *flags, *out;
    double value;
    OK(gt_full(client, GT_BOOL, SHAPE(5), 1, &flags));
    FAILS(GT_ERR_VALUE, "must match the size of tensor b", gt_add(a, flags, &out));
    FAILS(GT_ERR_VALUE, "different clients", gt_add(a, b, &out));
    FAILS(GT_ERR_TYPE, "bool", gt_neg(flags, &out));
    FAILS(GT_ERR_VALUE, "cannot be multiplied", gt_matmul(a, a, &out));
    FAILS(GT_ERR_VALUE, "must be a matrix", gt_linear(a, flags, NULL, &out));
    FAILS(GT_ERR_VALUE, "different clients", gt_linear(a, b, NULL, &out));
    FAILS(GT_ERR_VALUE, "invalid for input of size 6", gt_reshape(a, SHAPE(4, -1), &out));
    FAILS(GT_ERR_VALUE, "only one dimension", gt_reshape(a, SHAPE(-1, -1), &out));
    FAILS(GT_ERR_VALUE, "at most 8", gt_full(client, GT_FLOAT32, SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1), 0, &out));
    FAILS(GT_ERR_MEMORY, "too large", gt_full(client, GT_FLOAT32, SHAPE(INT64_MAX, 2), 0, &out));
    FAILS(GT_ERR_VALUE, "negative", gt_full(client, GT_FLOAT32, SHAPE(-1), 0, &out));
    FAILS(GT_ERR_INDEX, "axis", gt_argmax(a, 2, false, &out));
    FAILS(GT_ERR_INDEX, "axis", gt_sum(a, 1 << 5, false, &out));
    FAILS(GT_ERR_INDEX, "out of range", gt_transpose(a, 0, 2, &out));
    FAILS(GT_ERR_VALUE, "once", gt_permute(a, (int[]){0, 0}, &out));
    FAILS(GT_ERR_TYPE, "dtype", gt_cast(a, GT_DTYPE_COUNT, &out));
    FAILS(GT_ERR_VALUE, "non-empty", gt_cat(NULL, 0, 0, &out));
    FAILS(GT_ERR_VALUE, "step", gt_arange(client, GT_INT64, 0, 5, -1, &out));
    FAILS(GT_ERR_VALUE, "low < high", gt_randint(client, GT_INT64, SHAPE(2), 3, 3, &out));
    FAILS(GT_ERR_TYPE, "floating", gt_rand(client, GT_INT64, SHAPE(2), &out));
    FAILS(GT_ERR_TYPE, "int32/int64", gt_take(a, a, 0, &out));
    FAILS(GT_ERR_VALUE, "bytes", gt_fetch(a, &value, sizeof value));
    FAILS(GT_ERR_VALUE, "6 elements", gt_item(a, &value));
    FAILS(GT_ERR_VALUE, "1 to 256", gt_client_open_embedded(0, &(gt_client *){NULL}));
    FAILS(GT_ERR_VALUE, "host:port", gt_client_connect("nowhere", 100, &(gt_client *){NULL}));
    FAILS(GT_ERR_VALUE, "transport", gt_client_connect("carrier://localhost:5", 100, &(gt_client *){NULL}));
    FAILS(GT_ERR_CONNECTION, "", gt_client_connect("memory://localhost:1", 100, &(gt_client *){NULL}));
    CHECK(client_works(client) && client_works(other));
    gt_tensor_release(a);
    gt_tensor_release(b);
    gt_tensor_release(flags);
    gt_client_close(&client);
    gt_client_close(&other);
}

/* Windows over the rows of (1,2,3): 0 1 2 and 3 4 5. */
static void test_windows(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1);
    gt_tensor *rows = two_rows(client), *x, *w, *b, *out;
    const int64_t one[] = {1}, two[] = {2}, none[] = {0};
    OK(gt_reshape(rows, SHAPE(1, 2, 3), &x));
    OK(gt_from_data(client, GT_FLOAT32, SHAPE(2, 2, 1), (float[]){1, 10, 0, 1}, &w));
    OK(gt_from_data(client, GT_FLOAT32, SHAPE(2), (float[]){100, 200}, &b));
    OK(gt_conv(x, w, b, 1, one, none, one, 1, &out));
    holds(out, SHAPE(1, 2, 3), VALUES(130, 141, 152, 203, 204, 205));
    OK(gt_conv(x, w, NULL, 1, two, one, one, 1, &out));
    holds(out, SHAPE(1, 2, 3), VALUES(0, 41, 0, 0, 4, 0));
    OK(gt_conv_transpose(x, w, NULL, 1, two, none, one, 1, one, &out));
    holds(out, SHAPE(1, 2, 6), VALUES(0, 0, 1, 0, 2, 0, 3, 0, 14, 0, 25, 0));
    OK(gt_max_pool(x, 1, two, one, none, one, false, &out));
    holds(out, SHAPE(1, 2, 2), VALUES(1, 2, 4, 5));
    OK(gt_max_pool_index(x, 1, two, two, none, one, true, &out));
    holds(out, SHAPE(1, 2, 2), VALUES(1, 2, 1, 2));
    OK(gt_avg_pool(x, 1, two, two, one, false, true, 0, &out));
    holds(out, SHAPE(1, 2, 2), VALUES(0, 1.5, 1.5, 4.5));
    OK(gt_adaptive_avg_pool(x, 1, two, &out));
    holds(out, SHAPE(1, 2, 2), VALUES(0.5, 1.5, 3.5, 4.5));
    OK(gt_adaptive_max_pool(x, 1, two, &out));
    holds(out, SHAPE(1, 2, 2), VALUES(1, 2, 4, 5));
    OK(gt_adaptive_max_pool_index(x, 1, one, &out));
    holds(out, SHAPE(1, 2, 1), VALUES(2, 2));
    gt_tensor *columns;
    OK(gt_im2col(x, 1, two, one, none, one, &columns));
    OK(gt_col2im(columns, 1, (int64_t[]){3}, two, one, none, one, &out));
    holds(out, SHAPE(1, 2, 3), VALUES(0, 2, 2, 3, 8, 5));
    holds(columns, SHAPE(1, 4, 2), VALUES(0, 1, 1, 2, 3, 4, 4, 5));
    OK(gt_resample(x, 2, 5, GT_RESAMPLE_LINEAR, true, 0, &out));
    holds(out, SHAPE(1, 2, 5), VALUES(0, 0.5, 1, 1.5, 2, 3, 3.5, 4, 4.5, 5));
    OK(gt_resample(x, 2, 6, GT_RESAMPLE_NEAREST, false, 0, &out));
    holds(out, SHAPE(1, 2, 6), VALUES(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5));
    FAILS(GT_ERR_VALUE, "a weight of 3 dimensions", gt_conv(x, b, NULL, 1, one, none, one, 1, &out));
    FAILS(GT_ERR_VALUE, "stride", gt_conv(x, w, b, 1, none, none, one, 1, &out));
    FAILS(GT_ERR_VALUE, "too small", gt_max_pool(x, 1, (int64_t[]){4}, one, none, one, false, &out));
    FAILS(GT_ERR_VALUE, "spatial", gt_avg_pool(x, 4, two, two, none, false, true, 0, &out));
    FAILS(GT_ERR_INDEX, "axis", gt_resample(x, 3, 6, GT_RESAMPLE_NEAREST, false, 0, &out));
    gt_tensor *all[] = {rows, x, w, b};
    for (int k = 0; k < 4; k++)
        gt_tensor_release(all[k]);
    gt_client_close(&client);
}

/* Draws with given probabilities: certain ones, so that any right generator gives them. */
static void test_sampling(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1);
    gt_tensor *p, *out = NULL, *order;
    OK(gt_from_data(client, GT_FLOAT32, SHAPE(2, 3), (float[]){0, 1, 0, 1, 0, 0}, &p));
    if (OK(gt_bernoulli(p, &out)))
        holds(out, SHAPE(2, 3), VALUES(0, 1, 0, 1, 0, 0));
    if (OK(gt_multinomial(p, 2, true, &out)))
        holds(out, SHAPE(2, 2), VALUES(1, 1, 0, 0));
    if (OK(gt_multinomial(p, 1, false, &out)))
        holds(out, SHAPE(2, 1), VALUES(1, 0));
    if (OK(gt_randperm(client, GT_INT32, 5, &out)) && OK(gt_argsort(out, 0, false, &order))) {
        gt_tensor *sorted;
        CHECK_EQ(gt_tensor_dtype(out), GT_INT32);
        if (OK(gt_take(out, order, 0, &sorted)))
            holds(sorted, SHAPE(5), VALUES(0, 1, 2, 3, 4));
        gt_tensor_release(order);
        gt_tensor_release(out);
    }
    FAILS(GT_ERR_VALUE, "n_sample", gt_multinomial(p, 4, false, &out));
    FAILS(GT_ERR_VALUE, "non-negative", gt_randperm(client, GT_INT64, -1, &out));
    gt_tensor_release(p);
    gt_client_close(&client);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("elementwise", test_elementwise, NULL);
    check_run("bits", test_bits, NULL);
    check_run("reductions", test_reductions, NULL);
    check_run("creation", test_creation, NULL);
    check_run("movement", test_movement, NULL);
    check_run("indexing", test_indexing, NULL);
    check_run("sampling", test_sampling, NULL);
    check_run("windows", test_windows, NULL);
    check_run("errors", test_errors, NULL);
    return check_end();
}

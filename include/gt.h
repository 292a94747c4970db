/*
 * gt.h: the public C interface of GT, a multiplexing tensor framework.
 *
 *     gt_client *client;
 *     gt_tensor *a, *b, *c;
 *     float sum[4];
 *     gt_client_open_embedded(1, &client);
 *     gt_from_data(client, GT_FLOAT32, 1, (int64_t[]){4}, (float[]){1, 2, 3, 4}, &a);
 *     gt_full(client, GT_FLOAT32, 1, (int64_t[]){4}, 1.0, &b);
 *     gt_add(a, b, &c);
 *     gt_fetch(c, sum, sizeof sum);
 *
 * Every fallible function returns a gt_err and delivers its results last. On failure gt_error_text() says what went wrong,
 * for the calling thread, and what would have been delivered (a tensor, a client) is NULL. Ops return at once: they are only
 * emitted. Waiting happens in gt_fetch, gt_item and gt_synchronize. A client is used by one thread at a time.
 *
 * NULL is refused with GT_ERR_VALUE, except where this header gives it a meaning, and for arrays without elements: a shape
 * of rank 0, data of 0 bytes. Functions that return no gt_err answer NULL with 0, NULL, false, "" or nothing.
 *
 * Ownership: a gt_tensor delivered to you is yours until gt_tensor_release; functions borrow the ones you pass.
 */
#ifndef GT_H
#define GT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GT_API __attribute__((visibility("default")))
#else
#define GT_API
#endif

/* ---- errors ------------------------------------------------------------------------------------------------ */

#define GT_ERRORS(E)                                                                                              \
    E(OK, "ok")                                                                                                   \
    E(ERR_VALUE, "invalid value")                                                                                 \
    E(ERR_TYPE, "invalid dtype")                                                                                  \
    E(ERR_INDEX, "index out of range")                                                                            \
    E(ERR_MEMORY, "out of memory")                                                                                \
    E(ERR_CONNECTION, "connection failed")                                                                        \
    E(ERR_TIMEOUT, "timed out")                                                                                   \
    E(ERR_PROTOCOL, "protocol error")                                                                             \
    E(ERR_INTERRUPTED, "interrupted")                                                                             \
    E(ERR_LINALG, "linear algebra failed")                                                                        \
    E(ERR_UNSUPPORTED, "unsupported")                                                                             \
    E(ERR_INTERNAL, "internal error")                                                                             \
    E(ERR_CANCELLED, "cancelled")

typedef enum gt_err {
#define GT_ERROR_ENUM(name, text) GT_##name,
    GT_ERRORS(GT_ERROR_ENUM)
#undef GT_ERROR_ENUM
} gt_err;

/* The text of the calling thread's last failure. Never NULL. */
GT_API const char *gt_error_text(void);
/* "out of memory" for GT_ERR_MEMORY. */
GT_API const char *gt_error_name(gt_err err);

/* ---- dtypes ------------------------------------------------------------------------------------------------ */

typedef enum gt_dtype {
    GT_BOOL,
    GT_UINT8,
    GT_INT8,
    GT_INT16,
    GT_INT32,
    GT_INT64,
    GT_FLOAT16,
    GT_BFLOAT16,
    GT_FLOAT32,
    GT_FLOAT64,
    GT_COMPLEX64, /* two floats, the real part first */
    GT_COMPLEX128,
    GT_DTYPE_COUNT
} gt_dtype;

/* ---- clients ----------------------------------------------------------------------------------------------- */

typedef struct gt_client gt_client;
typedef struct gt_tensor gt_tensor;

/*
 * Connect to a server: "host:port", or with the transport named: "memory://host:port", "ipc://host:port",
 * "tcp://host:port". Without a transport, the fastest that works is used. Waits at most timeout_ms for the server and for a
 * worker (0: GT_CONNECT_TIMEOUT seconds, 10 by default).
 */
GT_API gt_err gt_client_connect(const char *address, int timeout_ms, gt_client **client);
/* The same with the keys in a file, for a server that asks for them (`gt keygen`). NULL: GT_KEY_FILE, else none. */
GT_API gt_err gt_client_connect_key(const char *address, const char *key_file, int timeout_ms, gt_client **client);
/* Start a dispatcher and `workers` workers as threads of this process and connect to them. */
GT_API gt_err gt_client_open_embedded(int workers, gt_client **client);
/* Disconnect, and stop an embedded server. Afterwards tensors of this client can only be released. */
GT_API void gt_client_close(gt_client **client);
/* "embedded server, 1 worker" or "memory://localhost:12345"; lives as long as the client. */
GT_API const char *gt_client_description(const gt_client *client);

/* Ask for a share of the workers' time in proportion to `weight`, which is 1 at first. The server limits it
 * (`gt server --max-weight`, 1 by default: a client can only ask for less). */
GT_API gt_err gt_client_set_weight(gt_client *client, double weight);

/*
 * Leave the session with the server, for another process or host: wait until everything emitted was executed, keep `tensors` and free
 * all others, then close the client. `note` is for the client that attaches the session. *token is what that client needs: it works once,
 * within an hour (`gt server --detached-for`). On failure the client stays as it is, unless the connection is lost. A server inside this process cannot keep a
 * session.
 */
enum { GT_TOKEN_SIZE = 192 };
GT_API gt_err gt_client_detach(gt_client **client, gt_tensor *const *tensors, size_t count, const void *note,
                               size_t note_bytes, char token[GT_TOKEN_SIZE]);

/* What the client before has left: its tensors, in its order, and its note. Free it with gt_parcel_free, which releases the tensors that
 * are still in it. */
typedef struct gt_parcel {
    gt_tensor **tensors;
    size_t count;
    void *note;
    size_t note_bytes;
} gt_parcel;
GT_API void gt_parcel_free(gt_parcel *parcel);

/* Take a detached session over: its tensors, config, random numbers, limits. `address` NULL: that of the client before. key_file and
 * timeout_ms: as gt_client_connect_key has them. */
GT_API gt_err gt_client_attach(const char *token, const char *address, const char *key_file, int timeout_ms,
                               gt_parcel *parcel, gt_client **client);

/* Wait until everything emitted so far has been executed. */
GT_API gt_err gt_synchronize(gt_client *client);
/* Make random numbers repeat from here. */
GT_API void gt_manual_seed(gt_client *client, uint64_t seed);

/* ---- tensors ----------------------------------------------------------------------------------------------- */

GT_API gt_dtype gt_tensor_dtype(const gt_tensor *tensor); /* of NULL: GT_DTYPE_COUNT */
GT_API int gt_tensor_rank(const gt_tensor *tensor);
GT_API const int64_t *gt_tensor_shape(const gt_tensor *tensor);
GT_API int64_t gt_tensor_numel(const gt_tensor *tensor);
GT_API gt_client *gt_tensor_client(const gt_tensor *tensor);
GT_API gt_tensor *gt_tensor_retain(gt_tensor *tensor);
GT_API void gt_tensor_release(gt_tensor *tensor); /* NULL is fine */

/* Copy a tensor's elements, row-major, into `data`, which holds exactly `bytes` bytes. Waits. */
GT_API gt_err gt_fetch(gt_tensor *tensor, void *data, size_t bytes);
/* The one element of a one-element tensor as a double. Waits. */
GT_API gt_err gt_item(gt_tensor *tensor, double *value);

/* ---- creation ---------------------------------------------------------------------------------------------- */

GT_API gt_err gt_from_data(gt_client *client, gt_dtype dtype, int rank, const int64_t *shape, const void *data,
                           gt_tensor **out);
GT_API gt_err gt_full(gt_client *client, gt_dtype dtype, int rank, const int64_t *shape, double value,
                      gt_tensor **out);
/* Of a complex dtype, filled with real + i * imaginary. */
GT_API gt_err gt_full_complex(gt_client *client, gt_dtype dtype, int rank, const int64_t *shape, double real,
                              double imaginary, gt_tensor **out);
GT_API gt_err gt_arange(gt_client *client, gt_dtype dtype, double start, double end, double step, gt_tensor **out);
GT_API gt_err gt_eye(gt_client *client, gt_dtype dtype, int64_t rows, int64_t columns, gt_tensor **out);
GT_API gt_err gt_rand(gt_client *client, gt_dtype dtype, int rank, const int64_t *shape, gt_tensor **out);
GT_API gt_err gt_randn(gt_client *client, gt_dtype dtype, int rank, const int64_t *shape, gt_tensor **out);
GT_API gt_err gt_randint(gt_client *client, gt_dtype dtype, int rank, const int64_t *shape, int64_t low,
                         int64_t high, gt_tensor **out);
/* The numbers 0 .. n-1 in random order. */
GT_API gt_err gt_randperm(gt_client *client, gt_dtype dtype, int64_t n, gt_tensor **out);
/* 1 with probability p, elementwise, else 0. */
GT_API gt_err gt_bernoulli(gt_tensor *p, gt_tensor **out);
/* `samples` positions for each row of weights (n,) or (rows, n), int64. */
/* Draws of the Poisson distribution; of the binomial one, of a tensor (2,...) of trials and probabilities; of the gamma
 * distribution with scale 1; and of the Dirichlet distribution, along the last axis. */
GT_API gt_err gt_poisson(gt_tensor *rate, gt_tensor **out);
GT_API gt_err gt_binomial(gt_tensor *trials_and_p, gt_tensor **out);
GT_API gt_err gt_standard_gamma(gt_tensor *shape, gt_tensor **out);
GT_API gt_err gt_dirichlet(gt_tensor *concentration, gt_tensor **out);
GT_API gt_err gt_multinomial(gt_tensor *weights, int64_t samples, bool replacement, gt_tensor **out);

/* ---- elementwise and reductions: one function a row of the op table ----------------------------------------- */

/* The kinds of the row `bessel`, its p. */
typedef enum gt_bessel_kind {
    GT_BESSEL_J0,
    GT_BESSEL_J1,
    GT_BESSEL_Y0,
    GT_BESSEL_Y1,
    GT_BESSEL_K0,
    GT_BESSEL_K1,
    GT_BESSEL_SCALED_K0, /* exp(x) K0(x) */
    GT_BESSEL_SCALED_K1,
    GT_BESSEL_SPHERICAL_J0,
    GT_BESSEL_AIRY,
    GT_BESSEL_COUNT
} gt_bessel_kind;

/* The kinds of the row `polynomial`; added to the kind: GT_POLYNOMIAL_SHIFTED takes 2 x - 1 for x. */
typedef enum gt_polynomial_kind {
    GT_POLYNOMIAL_CHEBYSHEV_T,
    GT_POLYNOMIAL_CHEBYSHEV_U,
    GT_POLYNOMIAL_CHEBYSHEV_V,
    GT_POLYNOMIAL_CHEBYSHEV_W,
    GT_POLYNOMIAL_HERMITE_H,
    GT_POLYNOMIAL_HERMITE_HE,
    GT_POLYNOMIAL_LAGUERRE,
    GT_POLYNOMIAL_LEGENDRE,
    GT_POLYNOMIAL_SHIFTED = 8,
} gt_polynomial_kind;

#define UNARY(name, types, expr, grad) GT_API gt_err gt_##name(gt_tensor *a, gt_tensor **out);
#define UNARY_PQ(name, types, expr, grad)                                                                         \
    GT_API gt_err gt_##name(gt_tensor *a, double p, double q, gt_tensor **out);
#define BINARY(name, types, expr, grad)                                                                           \
    GT_API gt_err gt_##name(gt_tensor *a, gt_tensor *b, gt_tensor **out);                                         \
    GT_API gt_err gt_##name##_scalar(gt_tensor *a, double b, gt_tensor **out);
#define BINARY_PQ(name, types, expr, grad)                                                                        \
    GT_API gt_err gt_##name(gt_tensor *a, gt_tensor *b, double p, double q, gt_tensor **out);
#define TERNARY(name, types, expr, grad)                                                                          \
    GT_API gt_err gt_##name(gt_tensor *a, gt_tensor *b, gt_tensor *c, gt_tensor **out);
/* axes: bit k set means axis k; 0 means all of them. */
#define REDUCE(name, types, grad)                                                                                 \
    GT_API gt_err gt_##name(gt_tensor *a, uint32_t axes, bool keepdims, gt_tensor **out);
#include "gt/ops.def"

GT_API gt_err gt_argmax(gt_tensor *a, int axis, bool keepdims, gt_tensor **out); /* axis -1: of all elements */
GT_API gt_err gt_argmin(gt_tensor *a, int axis, bool keepdims, gt_tensor **out);
/* The norm of order p: (sum |x|^p)^(1/p), and its limits at 0 and the infinities. */
GT_API gt_err gt_norm(gt_tensor *a, double p, uint32_t axes, bool keepdims, gt_tensor **out);
GT_API gt_err gt_cumsum(gt_tensor *a, int axis, gt_tensor **out);
GT_API gt_err gt_cumprod(gt_tensor *a, int axis, gt_tensor **out);
GT_API gt_err gt_logcumsumexp(gt_tensor *a, int axis, gt_tensor **out);
GT_API gt_err gt_cummax(gt_tensor *a, int axis, gt_tensor **out); /* indices: where the largest so far is */
GT_API gt_err gt_cummin(gt_tensor *a, int axis, gt_tensor **out);
GT_API gt_err gt_softmax(gt_tensor *a, int axis, gt_tensor **out);
GT_API gt_err gt_log_softmax(gt_tensor *a, int axis, gt_tensor **out);

/* ---- everything else ---------------------------------------------------------------------------------------- */

GT_API gt_err gt_matmul(gt_tensor *a, gt_tensor *b, gt_tensor **out);
/* a (..., inputs) @ transpose(weight (outputs, inputs)) + bias (outputs,), which may be NULL: a layer of a network. */
GT_API gt_err gt_linear(gt_tensor *a, gt_tensor *weight, gt_tensor *bias, gt_tensor **out);
/* The sparse matrix with `values` (n,) at `indices` (2, n), which has `rows` rows, times a dense one (columns, width). If
 * transposed, the second row of the indices names rows. Values at the same place add up. */
GT_API gt_err gt_sparse_mm(gt_tensor *indices, gt_tensor *values, gt_tensor *dense, int64_t rows, bool transposed,
                           gt_tensor **out);
/* a (rows, width) @ transpose(b (columns, width)), only at the indices: (n,). */
GT_API gt_err gt_sampled_mm(gt_tensor *indices, gt_tensor *a, gt_tensor *b, gt_tensor **out);
/* softmax(query key' scale) value on the last two axes: query (..., L, E), key (..., S, E), value (..., S, F). Query i sees the
 * keys 0 to i % period; 0: all keys. */
GT_API gt_err gt_attention(gt_tensor *query, gt_tensor *key, gt_tensor *value, double scale, int64_t period,
                           gt_tensor **out);
/* Mean 0 and variance 1 over axis `first` and those after it, times weight, plus bias (their shape; either may be NULL). */
GT_API gt_err gt_layer_norm(gt_tensor *a, gt_tensor *weight, gt_tensor *bias, int first, double eps,
                            gt_tensor **out);
/* The mean and the variance of each channel (axis 1): (2, channels), float32 for halves. Not differentiable. */
GT_API gt_err gt_batch_moments(gt_tensor *a, gt_tensor **out);
/* Each channel minus its mean, divided by sqrt(variance + eps), times weight, plus bias (channels; either may be NULL). of_a:
 * the moments are gt_batch_moments of a, and the gradient of a goes through them, too. */
GT_API gt_err gt_batch_norm(gt_tensor *a, gt_tensor *moments, gt_tensor *weight, gt_tensor *bias, bool of_a,
                            double eps, gt_tensor **out);
GT_API gt_err gt_cast(gt_tensor *a, gt_dtype dtype, gt_tensor **out);
GT_API gt_err gt_copy(gt_tensor *a, gt_tensor **out);
GT_API gt_err gt_reshape(gt_tensor *a, int rank, const int64_t *shape, gt_tensor **out); /* one size may be -1 */
GT_API gt_err gt_permute(gt_tensor *a, const int *axes, gt_tensor **out);                /* rank axes */
GT_API gt_err gt_transpose(gt_tensor *a, int axis0, int axis1, gt_tensor **out);
GT_API gt_err gt_expand(gt_tensor *a, int rank, const int64_t *shape, gt_tensor **out);
/* start, step, count: one of each per axis of a; step may be negative. */
GT_API gt_err gt_slice(gt_tensor *a, const int64_t *start, const int64_t *step, const int64_t *count,
                       gt_tensor **out);
/* A copy of a in which that slice holds src (broadcast to it). */
GT_API gt_err gt_assign(gt_tensor *a, const int64_t *start, const int64_t *step, const int64_t *count,
                        gt_tensor *src, gt_tensor **out);
GT_API gt_err gt_cat(gt_tensor *const *tensors, int count, int axis, gt_tensor **out);
GT_API gt_err gt_tril(gt_tensor *a, int64_t diagonal, gt_tensor **out);
GT_API gt_err gt_triu(gt_tensor *a, int64_t diagonal, gt_tensor **out);
GT_API gt_err gt_take(gt_tensor *a, gt_tensor *index, int axis, gt_tensor **out);
GT_API gt_err gt_gather(gt_tensor *a, gt_tensor *index, int axis, gt_tensor **out);
GT_API gt_err gt_scatter(gt_tensor *a, gt_tensor *index, gt_tensor *src, int axis, gt_tensor **out);
GT_API gt_err gt_scatter_add(gt_tensor *a, gt_tensor *index, gt_tensor *src, int axis, gt_tensor **out);
/* src combined with a at index; reduction: 0 sum, 1 prod, 2 mean, 3 amax, 4 amin; include_self: a's element counts too. */
GT_API gt_err gt_scatter_reduce(gt_tensor *a, gt_tensor *index, gt_tensor *src, int axis, int reduction,
                                bool include_self, gt_tensor **out);
/* Where in a sorted tensor each value would be inserted: before equal elements or, if right, after them. */
GT_API gt_err gt_searchsorted(gt_tensor *sorted, gt_tensor *values, bool right, gt_tensor **out);
/* Views: the diagonal of two axes, as the last axis; the windows of `size` along an axis, `step` apart. */
GT_API gt_err gt_diagonal(gt_tensor *a, int64_t offset, int axis1, int axis2, gt_tensor **out);
GT_API gt_err gt_unfold(gt_tensor *a, int axis, int64_t size, int64_t step, gt_tensor **out);
/* Views: a complex tensor with its parts as a last axis of size 2, and back. */
GT_API gt_err gt_view_as_real(gt_tensor *a, gt_tensor **out);
GT_API gt_err gt_view_as_complex(gt_tensor *a, gt_tensor **out);
GT_API gt_err gt_argsort(gt_tensor *a, int axis, bool descending, gt_tensor **out);
GT_API gt_err gt_topk(gt_tensor *a, int64_t k, int axis, bool largest, gt_tensor **out); /* indices, best first */

/* ---- Fourier transforms --------------------------------------------------------------------------------------- */

/*
 * Over the axes of the mask; exp(-i...), or exp(i...) if inverse. Results are multiplied by `scale`; nothing else is. The
 * real ones: gt_fft_real leaves n / 2 + 1 elements of axis `half`, the others follow by symmetry; gt_fft_to_real takes such
 * a half and makes 2 (m - 1) elements of m, or one more if `odd`.
 */
GT_API gt_err gt_fft(gt_tensor *a, uint32_t axes, bool inverse, double scale, gt_tensor **out);
GT_API gt_err gt_fft_real(gt_tensor *a, uint32_t axes, int half, bool inverse, double scale, gt_tensor **out);
GT_API gt_err gt_fft_to_real(gt_tensor *a, uint32_t axes, int half, bool odd, bool inverse, double scale,
                             gt_tensor **out);

/* ---- windows: convolutions, pooling, interpolation ----------------------------------------------------------- */

/*
 * These slide over the last `spatial` axes, 1 to 3; kernel, stride, padding, dilation and size hold a number for each. Sizes
 * and results are PyTorch's. Convolutions: x is (N, C, ...), weight (Cout, C / groups, ...), bias (Cout) or NULL; transposed
 * ones take a weight (C, Cout / groups, ...).
 */
GT_API gt_err gt_conv(gt_tensor *x, gt_tensor *weight, gt_tensor *bias, int spatial, const int64_t *stride,
                      const int64_t *padding, const int64_t *dilation, int64_t groups, gt_tensor **out);
GT_API gt_err gt_conv_transpose(gt_tensor *x, gt_tensor *weight, gt_tensor *bias, int spatial,
                                const int64_t *stride, const int64_t *padding, const int64_t *output_padding,
                                int64_t groups, const int64_t *dilation, gt_tensor **out);
GT_API gt_err gt_max_pool(gt_tensor *x, int spatial, const int64_t *kernel, const int64_t *stride,
                          const int64_t *padding, const int64_t *dilation, bool ceil_mode, gt_tensor **out);
/* Where the maxima are: flat positions in the last `spatial` axes. */
GT_API gt_err gt_max_pool_index(gt_tensor *x, int spatial, const int64_t *kernel, const int64_t *stride,
                                const int64_t *padding, const int64_t *dilation, bool ceil_mode, gt_tensor **out);
GT_API gt_err gt_avg_pool(gt_tensor *x, int spatial, const int64_t *kernel, const int64_t *stride,
                          const int64_t *padding, bool ceil_mode, bool count_include_pad, int64_t divisor_override,
                          gt_tensor **out);
/* Windows that divide each axis into `size` parts. */
GT_API gt_err gt_adaptive_avg_pool(gt_tensor *x, int spatial, const int64_t *size, gt_tensor **out);
GT_API gt_err gt_adaptive_max_pool(gt_tensor *x, int spatial, const int64_t *size, gt_tensor **out);
GT_API gt_err gt_adaptive_max_pool_index(gt_tensor *x, int spatial, const int64_t *size, gt_tensor **out);
/* (N, C, ...) to (N, C * kernel, windows): each window a column; and back, where overlaps add up. */
GT_API gt_err gt_im2col(gt_tensor *x, int spatial, const int64_t *kernel, const int64_t *stride,
                        const int64_t *padding, const int64_t *dilation, gt_tensor **out);
GT_API gt_err gt_col2im(gt_tensor *columns, int spatial, const int64_t *size, const int64_t *kernel,
                        const int64_t *stride, const int64_t *padding, const int64_t *dilation, gt_tensor **out);

typedef enum gt_resample_mode {
    GT_RESAMPLE_NEAREST,       /* element floor(o * step) of the source */
    GT_RESAMPLE_NEAREST_EXACT, /* floor((o + 1/2) * step) */
    GT_RESAMPLE_LINEAR,
    GT_RESAMPLE_CUBIC, /* Keys' kernel with a = -3/4 */
    GT_RESAMPLE_COUNT
} gt_resample_mode;

/* Resample one axis to `size` elements. scale, unless 0, is used to compute positions: size / old size, unrounded. */
GT_API gt_err gt_resample(gt_tensor *a, int axis, int64_t size, gt_resample_mode mode, bool align_corners,
                          double scale, gt_tensor **out);

/* ---- linear algebra ------------------------------------------------------------------------------------------ */

/*
 * On the last two axes of a, (..., m, n); the others are a batch. float32 and float64. Errors that depend on the elements (a
 * singular matrix) are reported when the result is read: GT_ERR_LINALG.
 */

GT_API gt_err gt_inverse(gt_tensor *a, gt_tensor **out);
/* The pseudo-inverse (..., n, m): singular values up to the larger of atol and rtol * the largest count as 0. A negative
 * rtol means max(m, n) times the dtype's precision. */
GT_API gt_err gt_pinv(gt_tensor *a, double rtol, double atol, gt_tensor **out);
GT_API gt_err gt_det(gt_tensor *a, gt_tensor **out);
/* det(a) = sign * exp(logabsdet) */
GT_API gt_err gt_slogdet(gt_tensor *a, gt_tensor **sign, gt_tensor **logabsdet);
/* The lower triangular L with a = L L^T; only a's lower triangle is read. */
GT_API gt_err gt_cholesky(gt_tensor *a, gt_tensor **out);
/* a = q r, r (k, n) upper triangular; k = min(m, n), or m if complete. */
GT_API gt_err gt_qr(gt_tensor *a, bool complete, gt_tensor **q, gt_tensor **r);
/* a = u diag(s) vh, s descending; u (m, k), vh (k, n) with k = min(m, n), or square if full. */
GT_API gt_err gt_svd(gt_tensor *a, bool full, gt_tensor **u, gt_tensor **s, gt_tensor **vh);
GT_API gt_err gt_svdvals(gt_tensor *a, gt_tensor **s);
/* a = v diag(w) v^T of symmetric a, w ascending; only the lower triangle is read, or the upper one. */
GT_API gt_err gt_eigh(gt_tensor *a, bool upper, gt_tensor **w, gt_tensor **v);
/* Of any square matrices; w and v are complex, and v has columns of length 1. Not differentiable. */
GT_API gt_err gt_eig(gt_tensor *a, gt_tensor **w, gt_tensor **v);
GT_API gt_err gt_eigvals(gt_tensor *a, gt_tensor **w);
GT_API gt_err gt_eigvalsh(gt_tensor *a, bool upper, gt_tensor **w);
/* The x with a x = b; b (..., n, k), or vectors (n) or (..., n) as many as a has matrices. Batches broadcast. */
GT_API gt_err gt_solve(gt_tensor *a, gt_tensor *b, gt_tensor **out);
/* The same for triangular a, the rest of which is not read; unitriangular: nor its diagonal, which is 1. */
GT_API gt_err gt_solve_triangular(gt_tensor *a, gt_tensor *b, bool upper, bool unitriangular, gt_tensor **out);

/* ---- gradients ---------------------------------------------------------------------------------------------- */

/*
 *     gt_tensor_set_requires_grad(w, true);
 *     ...                                        loss, one number, is computed from w and others
 *     gt_backward(loss, NULL, false);
 *     gt_tensor_grad(w, &gradient);              d loss / d w
 *
 * Ops on a tensor that requires a gradient are recorded, and their results require one, too, if their dtype is
 * floating. The record lives as long as the resulting tensors. Tensors are values, which no op changes: a training
 * step computes new weights, with recording off, and requests their gradients. See examples/c/mlp.c.
 */

/*
 * Request the gradient of a tensor, or no longer. Floating dtypes only. A tensor that was computed from others that require
 * gradients always requires one.
 */
GT_API gt_err gt_tensor_set_requires_grad(gt_tensor *tensor, bool wanted);
GT_API bool gt_tensor_requires_grad(const gt_tensor *tensor);
/* The gradient that gt_backward has accumulated for a tensor of gt_tensor_set_requires_grad; NULL if there is none. */
GT_API gt_err gt_tensor_grad(gt_tensor *tensor, gt_tensor **gradient);
GT_API void gt_tensor_clear_grad(gt_tensor *tensor);

/*
 * Add the gradients of `loss` to the tensors it was computed from. `gradient` is the gradient of the loss itself, of the
 * same shape; NULL means 1, for a loss of one element. Unless retain_graph, saved values are dropped, and the same
 * record cannot be walked again.
 */
GT_API gt_err gt_backward(gt_tensor *loss, gt_tensor *gradient, bool retain_graph);
/*
 * gradients[k], yours, becomes the gradient of the sum of the outputs by inputs[k], or NULL if no output depends on it. The
 * gradients of gt_tensor_grad do not change. output_gradients[k] is the gradient of outputs[k]; NULL means 1, as above, and
 * a NULL array means NULL for each. Only ops that lead to the inputs are walked: after gt_grad by an intermediate tensor,
 * gt_backward may continue from there. With create_graph the gradients are recorded and can be differentiated again; it
 * implies retain_graph.
 */
GT_API gt_err gt_grad(gt_tensor *const *outputs, gt_tensor *const *output_gradients, int output_count,
                      gt_tensor *const *inputs, int input_count, bool retain_graph, bool create_graph,
                      gt_tensor **gradients);

/* Switch the recording of this thread's ops; returns the previous setting. Initially it is on. */
GT_API bool gt_set_grad_enabled(bool enabled);
/* The same value, which requires no gradient. */
GT_API gt_err gt_detach(gt_tensor *a, gt_tensor **out);

/* ---- where it was issued: docs/monitoring.md ---------------------------------------------------------------- */

/* GT_HERE(); before an op sets the line at which this thread's ops are issued. Errors that surface later, the log and the tape
 * name it. Costs a few ns. *site is 0 initially, one variable for each place; `file` must stay valid. */
#define GT_HERE()                                                                                                 \
    do {                                                                                                          \
        static uint32_t gt_site_;                                                                                 \
        gt_here(&gt_site_, __FILE__, __LINE__);                                                                   \
    } while (0)
GT_API void gt_here(uint32_t *site, const char *file, int line);

/* ---- several workers: docs/sharding.md ---------------------------------------------------------------------- */

/* Read the meaning of signals from a YAML file, for all clients of this process. GT_CONFIG names a file that is read first. */
GT_API gt_err gt_config_load(const char *path);
/* Ops of this thread between enter and exit are placed as the signal says, and their gradients as `backward` says. NULL: the
 * backward signal of the config, or else the same signal. Scopes nest. */
GT_API gt_err gt_signal_enter(gt_client *client, const char *name, const char *backward);
GT_API gt_err gt_signal_exit(const char *name);
/* A copy, placed as the signal says. */
GT_API gt_err gt_signal_tensor(gt_tensor *a, const char *name, gt_tensor **out);

#ifdef __cplusplus
}
#endif
#endif

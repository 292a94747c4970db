/*
 * engines/reference/reference.h: the reference engine's view of a tensor: a list of numbers in row-major order.
 *
 * Elements are named by their flat index in the view's shape, whatever the strides; they are read as a double or
 * as an int64_t and rounded to the view's dtype when written. Private to engines/reference.
 */
#ifndef GT_ENGINES_REFERENCE_REFERENCE_H
#define GT_ENGINES_REFERENCE_REFERENCE_H

#include <complex.h>
#include <math.h>

#include "engines/engine.h"

/* The address of an element. */
void *gt__reference_at(const gt_view *view, int64_t flat);
double gt__reference_real(const gt_view *view, int64_t flat);
int64_t gt__reference_integer(const gt_view *view, int64_t flat);
void gt__reference_put_real(const gt_view *view, int64_t flat, double value);
void gt__reference_put_integer(const gt_view *view, int64_t flat, int64_t value);
double _Complex gt__reference_complex(const gt_view *view, int64_t flat); /* of any dtype */
void gt__reference_put_complex(const gt_view *view, int64_t flat, double _Complex value);

/* to[i] = from[j], converted. */
void gt__reference_move(const gt_view *to, int64_t i, const gt_view *from, int64_t j);

/* from[i] sorts before from[j]; NaN is the largest number. */
bool gt__reference_less(const gt_view *from, int64_t i, int64_t j);

/* The flat index of a coordinate, and back. */
int64_t gt__reference_flat(const gt_meta *meta, const int64_t *index);
void gt__reference_index(const gt_meta *meta, int64_t flat, int64_t *index);

/* The view repeated to the shape of `meta`, the NumPy way. */
gt_view gt__reference_broadcast(const gt_view *view, const gt_meta *meta);

/* The view with the axes in `mask` moved behind the others: flat = kept * numel(moved) + moved. */
gt_view gt__reference_axes_last(const gt_view *view, uint64_t mask, int64_t *moved_numel);

/* engines/reference/compute.c: arithmetic */
gt_err gt__reference_unary(const gt_call *call);
gt_err gt__reference_binary(const gt_call *call);
gt_err gt__reference_ternary(const gt_call *call);
gt_err gt__reference_reduce(const gt_call *call);
gt_err gt__reference_argreduce(const gt_call *call);
gt_err gt__reference_matmul(const gt_call *call);
gt_err gt__reference_linear(const gt_call *call);
gt_err gt__reference_sparse(const gt_call *call);
gt_err gt__reference_layer_norm(const gt_call *call);

/* engines/reference/complex.c: the function that runs a call with complex numbers, NULL if the one for real numbers does;
 * Fourier transforms */
gt_err (*gt__reference_complex_form(const gt_call *call))(const gt_call *);
gt_err gt__reference_fft(const gt_call *call);

/* engines/reference/attention.c */
gt_err gt__reference_attention(const gt_call *call);

/* engines/reference/channels.c: normalisation of channels */
gt_err gt__reference_moments(const gt_call *call);
gt_err gt__reference_batch_norm(const gt_call *call);

/* engines/reference/lines.c: ops along one axis, and products with sparse matrices */
gt_err gt__reference_scan(const gt_call *call);
gt_err gt__reference_softmax(const gt_call *call);
gt_err gt__reference_softmax_backward(const gt_call *call);
gt_err gt__reference_search(const gt_call *call);

/* engines/reference/window.c: convolutions (with their gradients), pooling, im2col, resample */
gt_err gt__reference_conv(const gt_call *call);
gt_err gt__reference_average(const gt_call *call);
gt_err gt__reference_max_pool(const gt_call *call);
gt_err gt__reference_im2col(const gt_call *call);
gt_err gt__reference_resample(const gt_call *call);

/* engines/reference/move.c: movement, indexing, sorting, creation */
gt_err gt__reference_copy(const gt_call *call);
gt_err gt__reference_cat(const gt_call *call);
gt_err gt__reference_triangle(const gt_call *call);
gt_err gt__reference_take(const gt_call *call);
gt_err gt__reference_gather(const gt_call *call);
gt_err gt__reference_scatter(const gt_call *call);
gt_err gt__reference_assign(const gt_call *call);
gt_err gt__reference_wrap_index(const gt_call *call);
gt_err gt__reference_mask_index(const gt_call *call);
gt_err gt__reference_sort(const gt_call *call);
gt_err gt__reference_full(const gt_call *call);
gt_err gt__reference_arange(const gt_call *call);
gt_err gt__reference_eye(const gt_call *call);
gt_err gt__reference_random(const gt_call *call);

/* engines/reference/linalg.c: linear algebra */
gt_err gt__reference_matrix(const gt_call *call);
gt_err gt__reference_solve(const gt_call *call);

/*
 * For engines/reference/linalg.c: one matrix, row-major, a (m, n), k = min(m, n). bool: false, no memory.
 *
 * decompose.c:
 * reflections: a becomes r and below its diagonal the vectors of k reflections 1 - tau v v^H, as LAPACK's geqrf has them.
 * qr: q (m, c) and r (c, n) with a = q r; c is k or m.
 * eigh: w ascending and v (n, n) with a = v diag(w) v^H; a is Hermitian and is destroyed.
 * svd: u (m, m), s (k) descending, v (n, n) with a = u diag(s) v^H.
 */
void gt__reference_reflections(double _Complex *a, int64_t m, int64_t n, double _Complex *tau);
bool gt__reference_qr(const double _Complex *a, int64_t m, int64_t n, int64_t c, double _Complex *q,
                      double _Complex *r);
void gt__reference_eigh(double _Complex *a, int64_t n, double *w, double _Complex *v);
bool gt__reference_svd(const double _Complex *a, int64_t m, int64_t n, double _Complex *u, double *s,
                       double _Complex *v);

/*
 * ldl.c:
 * ldl: a (n, n) = L D L^T, of which the lower triangle is given, becomes L and D in one matrix, with pivots as LAPACK's sytrf has
 * them; hermitian: L D L^H, and hetrf.
 * ldl_solve: b (n, k) becomes the x with a x = b; false: no such pivots.
 */
void gt__reference_ldl(double _Complex *a, int64_t n, bool hermitian, double _Complex *pivots);
bool gt__reference_ldl_solve(const double _Complex *a, int64_t n, bool hermitian, const double _Complex *pivots,
                             double _Complex *b, int64_t k);

/* eigenvalues.c: the values of a (n, n), and behind them its vectors, as columns. */
gt_err gt__reference_eig(const double _Complex *a, int64_t n, bool vectors, double _Complex *out);

/* How LAPACK compares pivots. */
static inline double gt__reference_size(double _Complex x)
{
    return fabs(creal(x)) + fabs(cimag(x));
}

/* engines/reference/sample.c: bernoulli and multinomial */
gt_err gt__reference_sample(const gt_call *call);

#endif

/* op_infer_fft.c: inference of Fourier transforms and of products with sparse matrices. Read op_infer.c and fft.h first. */
#include "core/fft.h"
#include "core/op_infer.h"

static gt_err check_dtype(const gt_meta *a, gt_fft_kind kind)
{
    gt_dtype dtype = (gt_dtype)a->dtype;
    bool real = dtype == GT_FLOAT32 || dtype == GT_FLOAT64;
    if (kind == GT_FFT_REAL ? real : gt__dtype_is_complex(dtype))
        return GT_OK;
    return gt__fail(GT_ERR_TYPE, "fft: expected a %s tensor, but got one of %s",
                    kind == GT_FFT_REAL ? "float32 or float64" : "complex", gt__dtype_name(dtype));
}

gt_err gt__infer_fft(gt_inference *s)
{
    const gt_meta *a = s->in[0];
    gt_fft_spec spec = gt__fft_unpack(s->ins->imm[0].u);
    if (spec.kind >= GT_FFT_KINDS || gt__fft_pack(spec) != s->ins->imm[0].u || !spec.axes ||
        spec.axes >> a->rank || (spec.kind != GT_FFT_COMPLEX && !(spec.axes >> spec.half & 1)))
        return gt__fail(GT_ERR_VALUE, "fft: no such transform of a tensor of %u dimensions: %llx", a->rank,
                        (unsigned long long)s->ins->imm[0].u);
    GT_TRY(check_dtype(a, spec.kind));
    int64_t shape[GT_MAX_RANK];
    memcpy(shape, a->shape, sizeof shape);
    if (spec.kind == GT_FFT_REAL)
        shape[spec.half] = shape[spec.half] / 2 + 1;
    else if (spec.kind == GT_FFT_TO_REAL && __builtin_mul_overflow(shape[spec.half] - 1, 2, &shape[spec.half]))
        return gt__fail(GT_ERR_MEMORY, "fft: the result is too large");
    else if (spec.kind == GT_FFT_TO_REAL)
        shape[spec.half] += spec.odd;
    for (unsigned axis = 0; axis < a->rank; axis++)
        if (spec.axes >> axis & 1 && (a->shape[axis] < 1 || shape[axis] < 1))
            return gt__fail(GT_ERR_VALUE, "Invalid number of data points (%lld) specified",
                            (long long)(a->shape[axis] < 1 ? a->shape[axis] : shape[axis]));
    gt_dtype dtype = (gt_dtype)a->dtype;
    if (spec.kind != GT_FFT_COMPLEX)
        dtype = spec.kind == GT_FFT_REAL ? gt__dtype_complex(dtype) : gt__dtype_real(dtype);
    return gt__meta_set(s->out, dtype, a->rank, shape);
}

/* ---- sparse matrices ---------------------------------------------------------------------------------------- */

gt_err gt__infer_sparse(gt_inference *s)
{
    const gt_meta *indices = s->in[0], *a = s->in[1], *b = s->in[2];
    bool samples = s->ins->op == GT_OP_sampled_mm;
    gt_dtype dtype = (gt_dtype)a->dtype;
    if (gt__dtype_is_inexact((gt_dtype)indices->dtype) || indices->dtype == GT_BOOL)
        return gt__fail(GT_ERR_TYPE, "%s: indices must be an integer tensor, not %s", s->row->name,
                        gt__dtype_name((gt_dtype)indices->dtype));
    if ((dtype != GT_FLOAT32 && dtype != GT_FLOAT64) || b->dtype != a->dtype)
        return gt__fail(GT_ERR_TYPE, "%s: expected two tensors of float32 or of float64, but got %s and %s",
                        s->row->name, gt__dtype_name(dtype), gt__dtype_name((gt_dtype)b->dtype));
    bool fits = indices->rank == 2 && indices->shape[0] == 2 && b->rank == 2 &&
                (samples ? a->rank == 2 && a->shape[1] == b->shape[1]
                         : a->rank == 1 && a->shape[0] == indices->shape[1] && s->ins->imm[0].i >= 0 &&
                               s->ins->imm[1].u <= 1);
    if (!fits) {
        char text_i[128], text_a[128], text_b[128];
        return gt__fail(GT_ERR_VALUE, "%s: indices of shape %s do not go with operands of shapes %s and %s",
                        s->row->name, gt__sizes_text(indices->rank, indices->shape, text_i, sizeof text_i),
                        gt__sizes_text(a->rank, a->shape, text_a, sizeof text_a),
                        gt__sizes_text(b->rank, b->shape, text_b, sizeof text_b));
    }
    if (samples)
        return gt__meta_set(s->out, dtype, 1, &indices->shape[1]);
    return gt__meta_set(s->out, dtype, 2, (int64_t[]){s->ins->imm[0].i, b->shape[1]});
}

/* op_infer_fft.c: inference of Fourier transforms. Read op_infer.c and fft.h first. */
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

/* fft.c: Fourier transforms and the two views between complex tensors and their parts. Read emit.c first. */
#include "core/fft.h"

#include "client/client.h"

static gt_err emit_view(gt_opcode op, gt_tensor *a, gt_tensor **out)
{
    gt_instruction prototype = {.op = (uint16_t)op};
    return gt__emit(a->client, prototype, NULL, &a, 1, out);
}

gt_err gt_view_as_real(gt_tensor *a, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    return emit_view(GT_OP_view_as_real, a, out);
}

gt_err gt_view_as_complex(gt_tensor *a, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    return emit_view(GT_OP_view_as_complex, a, out);
}

static gt_err emit_fft(gt_tensor *a, gt_fft_spec spec, double scale, gt_tensor **out)
{
    gt_instruction prototype = {.op = GT_OP_fft, .imm = {{.u = gt__fft_pack(spec)}, {.f = scale}}};
    if (spec.axes > 0xff || spec.half > 7)
        return gt__fail(GT_ERR_INDEX, "fft: an axis is out of range for a tensor of %u dimensions", a->meta.rank);
    return gt__emit(a->client, prototype, NULL, &a, 1, out);
}

gt_err gt_fft(gt_tensor *a, uint32_t axes, bool inverse, double scale, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    return emit_fft(a, (gt_fft_spec){.kind = GT_FFT_COMPLEX, .axes = axes, .inverse = inverse}, scale, out);
}

gt_err gt_fft_real(gt_tensor *a, uint32_t axes, int half, bool inverse, double scale, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    gt_fft_spec spec = {.kind = GT_FFT_REAL, .axes = axes, .half = (unsigned)half, .inverse = inverse};
    return emit_fft(a, spec, scale, out);
}

gt_err gt_fft_to_real(gt_tensor *a, uint32_t axes, int half, bool odd, bool inverse, double scale, gt_tensor **out)
{
    GT_ARGUMENTS(out, a);
    gt_fft_spec spec = {
        .kind = GT_FFT_TO_REAL, .axes = axes, .half = (unsigned)half, .odd = odd, .inverse = inverse};
    return emit_fft(a, spec, scale, out);
}

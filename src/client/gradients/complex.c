/*
 * complex.c: gradient rules of rows about complex numbers. Read steps.h and core/complex.def first.
 *
 * PyTorch's convention: for a real loss the gradient is dL/d(re) + i dL/d(im).
 */
#include "client/gradients/steps.h"
#include "core/fft.h"

static gt_tensor *as_real(gt_frame *f, gt_tensor *a)
{
    STEP(gt_view_as_real(a, &result_));
}

static gt_tensor *as_complex(gt_frame *f, gt_tensor *a)
{
    STEP(gt_view_as_complex(a, &result_));
}

RULE(conj, 0)
{
    GX(CONJ(f->g));
}

RULE(view_as_real, 0)
{
    GX(as_complex(f, f->g));
}

RULE(view_as_complex, 0)
{
    GX(as_real(f, f->g));
}

/* i x / |x|^2, turned by the gradient; 0 at 0. A real number's angle is constant. */
RULE(angle, X)
{
    if (!gt__step_is_complex(f->x)) {
        GX(ZEROS(&f->node->operands[0].meta));
        return;
    }
    gt_tensor *size = EMIT(abs, f->x), *share = DIV(f->g, MUL(size, size));
    gt_tensor *turned = NULL;
    if (f->err == GT_OK) {
        gt_tensor *i = NULL;
        f->err = gt_full_complex(f->node->client, (gt_dtype)f->x->meta.dtype, 0, NULL, 0, 1, &i);
        i = gt__step_keep(f, f->err, i);
        turned = MUL(i, f->x);
    }
    GX(ZERO_WHERE(NUMBER(eq, size, 0), MUL(share, turned)));
}

/* With s = x / |x|: only the part of g across s counts, (g - s Re(g conj(s))) / |x|; 0 at 0. */
RULE(sgn, X | OUT)
{
    if (!gt__step_is_complex(f->x)) {
        GX(ZEROS(&f->node->out));
        return;
    }
    gt_tensor *size = EMIT(abs, f->x);
    gt_tensor *along = CAST(MUL(f->g, EMIT(conj, f->out)), gt__dtype_real((gt_dtype)f->node->out.dtype));
    GX(ZERO_WHERE(NUMBER(eq, size, 0), DIV(SUB(f->g, MUL(f->out, along)), size)));
}

/* ---- Fourier transforms ------------------------------------------------------------------------------------- */

static gt_tensor *transform(gt_frame *f, gt_tensor *a, gt_fft_spec spec)
{
    double scale = f->node->ins.imm[1].f;
    gt_instruction prototype = {.op = GT_OP_fft, .imm = {{.u = gt__fft_pack(spec)}, {.f = scale}}};
    STEP(gt__emit(a->client, prototype, NULL, &a, 1, &result_));
}

static gt_tensor *assign(gt_frame *f, gt_tensor *a, const gt_slot *spec, gt_tensor *src)
{
    STEP(gt__emit_assign(a, spec[0].i64, spec[1].i64, spec[2].i64, src, GT_LITERAL_FLOAT, (gt_imm){.f = 0}, false,
                         &result_));
}

/* Elements first..first+count of one axis, and all of the others. */
static void part_of_axis(const gt_meta *meta, unsigned axis, int64_t first, int64_t count, gt_slot *spec)
{
    for (unsigned d = 0; d < meta->rank; d++) {
        spec[0].i64[d] = d == axis ? first : 0;
        spec[1].i64[d] = 1;
        spec[2].i64[d] = d == axis ? count : meta->shape[d];
    }
}

/* The half spectrum's gradient among zeros, transformed back; what is real of it. */
static gt_tensor *gradient_of_real(gt_frame *f, gt_fft_spec spec)
{
    const gt_meta *in = &f->node->operands[0].meta, *out = &f->node->out;
    gt_meta whole = *in;
    gt_slot part[3];
    whole.dtype = out->dtype;
    part_of_axis(out, spec.half, 0, out->shape[spec.half], part);
    gt_fft_spec back = {.kind = GT_FFT_COMPLEX, .axes = spec.axes, .inverse = !spec.inverse};
    gt_tensor *padded = assign(f, ZEROS(&whole), part, f->g);
    return padded ? CAST(transform(f, padded, back), (gt_dtype)in->dtype) : NULL;
}

/* Every element but the first, and the last if n is even, stands for itself and its mirror image: it counts twice. */
static gt_tensor *gradient_of_half(gt_frame *f, gt_fft_spec spec)
{
    const gt_meta *in = &f->node->operands[0].meta;
    int64_t twice = in->shape[spec.half] - (spec.odd ? 1 : 2);
    gt_fft_spec back = {.kind = GT_FFT_REAL, .axes = spec.axes, .half = spec.half, .inverse = !spec.inverse};
    gt_tensor *gradient = transform(f, f->g, back);
    gt_slot part[3];
    if (!gradient || twice <= 0)
        return gradient;
    part_of_axis(in, spec.half, 1, twice, part);
    return assign(f, gradient, part, SCALE(SLICE(gradient, part), 2));
}

RULE(fft, 0)
{
    gt_fft_spec spec = gt__fft_unpack(f->node->ins.imm[0].u);
    if (!f->wanted[0])
        return;
    if (spec.kind == GT_FFT_REAL)
        GX(gradient_of_real(f, spec));
    else if (spec.kind == GT_FFT_TO_REAL)
        GX(gradient_of_half(f, spec));
    else {
        spec.inverse = !spec.inverse;
        GX(transform(f, f->g, spec));
    }
}

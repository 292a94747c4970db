/*
 * complex.c: the reference engine on complex numbers: in double, one element at a time, rounded once on the way out.
 *
 * Movement is in move.c: it only asks for elements to be moved.
 */
#include <complex.h>
#include <math.h>
#include <stdlib.h>

#include "core/fft.h"
#include "engines/reference/reference.h"

#define C double _Complex
#define R double
#define F(name) name
#define N(name) name##_reference
#include "engines/complex_template.h"

static C compute(gt_opcode op, C x, C y, C z)
{
    switch (op) {
#define COMPLEX(name, rule, expr)                                                                                 \
    case GT_OP_##name:                                                                                            \
        return expr;
#define COMPLEX_REAL(name, rule, expr) COMPLEX(name, rule, expr)
#define COMPLEX_TRUTH(name, expr) COMPLEX(name, NONE, expr)
#include "core/complex.def"
    default:
        return 0;
    }
}

/* An operand, rounded to the dtype that the op is computed in. Through memory: gcc 12 drops a conversion to float and back here. */
static C rounded(const gt_call *call, const gt_view *from, int64_t flat)
{
    C value;
    gt_view to = {.data = &value, .meta = {.numel = 1, .dtype = (uint8_t)call->compute}};
    gt__reference_move(&to, 0, from, flat);
    return gt__reference_complex(&to, 0);
}

static gt_err elementwise(const gt_call *call)
{
    gt_view in[GT_MAX_OPERANDS];
    for (unsigned k = 0; k < call->operands; k++)
        in[k] = gt__reference_broadcast(call->in[k], &call->out->meta);
    for (int64_t flat = 0; flat < call->out->meta.numel; flat++) {
        C x[GT_MAX_OPERANDS] = {0};
        for (unsigned k = 0; k < call->operands; k++)
            x[k] = rounded(call, &in[k], flat);
        gt__reference_put_complex(call->out, flat, compute(call->op, x[0], x[1], x[2]));
    }
    return GT_OK;
}

static gt_err reduce(const gt_call *call)
{
    int64_t count;
    uint64_t axes = call->ins->imm[0].u;
    gt_view in = gt__reference_axes_last(call->in[0], axes ? axes : UINT64_MAX, &count);
    for (int64_t k = 0; k < call->out->meta.numel; k++) {
        C sum = 0, product = 1;
        int64_t true_ones = 0;
        for (int64_t j = 0; j < count; j++) {
            C x = gt__reference_complex(&in, k * count + j);
            sum += x;
            product = MUL(product, x);
            true_ones += TRUTH(x);
        }
        C result = call->op == GT_OP_sum    ? sum
                   : call->op == GT_OP_mean ? MAKE(RE(sum) / (double)count, IM(sum) / (double)count)
                   : call->op == GT_OP_prod ? product
                   : call->op == GT_OP_any  ? (C)(true_ones > 0)
                                            : (C)(true_ones == count);
        gt__reference_put_complex(call->out, k, result);
    }
    return GT_OK;
}

static gt_err scan(const gt_call *call)
{
    const gt_view *a = call->in[0];
    int64_t count = 1;
    uint64_t mask = a->meta.rank ? (uint64_t)1 << call->ins->imm[0].i : 0;
    gt_view in = gt__reference_axes_last(a, mask, &count), out = gt__reference_axes_last(call->out, mask, &count);
    for (int64_t line = 0; count && line < a->meta.numel / count; line++) {
        C so_far = call->op == GT_OP_cumprod;
        for (int64_t k = line * count; k < (line + 1) * count; k++) {
            C x = gt__reference_complex(&in, k);
            so_far = call->op == GT_OP_cumprod ? MUL(so_far, x) : so_far + x;
            gt__reference_put_complex(&out, k, so_far);
        }
    }
    return GT_OK;
}

static gt_err full(const gt_call *call)
{
    for (int64_t k = 0; k < call->out->meta.numel; k++)
        gt__reference_put_complex(call->out, k, MAKE(call->ins->imm[0].f, call->ins->imm[1].f));
    return GT_OK;
}

static gt_err join_parts(const gt_call *call)
{
    for (int64_t k = 0; k < call->out->meta.numel; k++)
        gt__reference_put_complex(
            call->out, k,
            MAKE(gt__reference_real(call->in[0], 2 * k), gt__reference_real(call->in[0], 2 * k + 1)));
    return GT_OK;
}

/* ---- Fourier transforms ------------------------------------------------------------------------------------- */

/* A row-major copy of the tensor that is transformed in place. */
typedef struct spectrum {
    gt_meta meta;
    C *data;
} spectrum;

/* The definition: a sum over j for every k. */
static gt_err transform_axis(spectrum *s, unsigned axis, bool inverse)
{
    int64_t n = s->meta.shape[axis], stride = 1;
    for (unsigned d = axis + 1; d < s->meta.rank; d++)
        stride *= s->meta.shape[d];
    C *line = malloc((size_t)n * sizeof *line);
    if (!line)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    for (int64_t start = 0; start < s->meta.numel; start++) {
        if (start / stride % n)
            continue; /* not the first element of a line */
        for (int64_t k = 0; k < n; k++) {
            line[k] = 0;
            for (int64_t j = 0; j < n; j++) {
                double angle = (inverse ? 2 : -2) * M_PI * (double)(j * k % n) / (double)n;
                line[k] += MUL(s->data[start + j * stride], MAKE(cos(angle), sin(angle)));
            }
        }
        for (int64_t k = 0; k < n; k++)
            s->data[start + k * stride] = line[k];
    }
    free(line);
    return GT_OK;
}

/* An element of the whole spectrum along axis `half`: beyond the half it is the conjugate of its mirror image. */
static C from_half(const gt_view *in, const gt_fft_spec *spec, const gt_meta *whole, int64_t flat)
{
    int64_t index[GT_MAX_RANK];
    gt__reference_index(whole, flat, index);
    bool mirrored = index[spec->half] >= in->meta.shape[spec->half];
    if (mirrored)
        index[spec->half] = whole->shape[spec->half] - index[spec->half];
    C value = gt__reference_complex(in, gt__reference_flat(&in->meta, index));
    return mirrored ? MAKE(RE(value), -IM(value)) : value;
}

/* The other axes first, then the axis `half` of what is a half spectrum along it. */
static gt_err half_to_real(const gt_call *call, const gt_fft_spec *spec)
{
    spectrum s = {.meta = call->in[0]->meta};
    gt_err err = GT_OK;
    s.data = malloc((size_t)s.meta.numel * sizeof *s.data);
    gt_meta whole = call->out->meta;
    spectrum t = {.meta = whole, .data = malloc((size_t)whole.numel * sizeof *t.data)};
    if (!s.data || !t.data)
        err = gt__fail(GT_ERR_MEMORY, "out of memory");
    for (int64_t k = 0; err == GT_OK && k < s.meta.numel; k++)
        s.data[k] = gt__reference_complex(call->in[0], k);
    for (unsigned axis = 0; err == GT_OK && axis < whole.rank; axis++)
        if (spec->axes >> axis & 1 && axis != spec->half)
            err = transform_axis(&s, axis, spec->inverse);
    if (err == GT_OK) {
        gt_view half = {.data = s.data, .meta = s.meta};
        half.meta.dtype = GT_COMPLEX128;
        int64_t stride = 1;
        for (int d = half.meta.rank - 1; d >= 0; d--) {
            half.stride[d] = stride;
            stride *= half.meta.shape[d];
        }
        for (int64_t k = 0; k < whole.numel; k++)
            t.data[k] = from_half(&half, spec, &whole, k);
        err = transform_axis(&t, spec->half, spec->inverse);
    }
    for (int64_t k = 0; err == GT_OK && k < whole.numel; k++)
        gt__reference_put_real(call->out, k, RE(t.data[k]) * call->ins->imm[1].f);
    free(s.data);
    free(t.data);
    return err;
}

gt_err gt__reference_fft(const gt_call *call)
{
    gt_fft_spec spec = gt__fft_unpack(call->ins->imm[0].u);
    if (spec.kind == GT_FFT_TO_REAL)
        return half_to_real(call, &spec);
    const gt_view *in = call->in[0];
    spectrum s = {.meta = in->meta, .data = malloc((size_t)(in->meta.numel + 1) * sizeof(C))};
    gt_err err = s.data ? GT_OK : gt__fail(GT_ERR_MEMORY, "out of memory");
    for (int64_t k = 0; err == GT_OK && k < in->meta.numel; k++)
        s.data[k] = gt__reference_complex(in, k);
    for (unsigned axis = 0; err == GT_OK && axis < in->meta.rank; axis++)
        if (spec.axes >> axis & 1)
            err = transform_axis(&s, axis, spec.inverse);
    for (int64_t k = 0; err == GT_OK && k < call->out->meta.numel; k++) {
        int64_t index[GT_MAX_RANK];
        gt__reference_index(&call->out->meta, k, index);
        C value = s.data[gt__reference_flat(&in->meta, index)];
        gt__reference_put_complex(call->out, k, SCALE(value, call->ins->imm[1].f));
    }
    free(s.data);
    return err;
}

/* ------------------------------------------------------------------------------------------------------------- */

gt_err (*gt__reference_complex_form(const gt_call *call))(const gt_call *)
{
    if (!gt__dtype_is_complex(call->compute) &&
        !(call->operands && gt__dtype_is_complex((gt_dtype)call->in[0]->meta.dtype)))
        return NULL;
    switch ((gt_form)gt__op_table[call->op].form) {
    case GT_FORM_UNARY:
    case GT_FORM_BINARY:
    case GT_FORM_TERNARY:
        return elementwise;
    case GT_FORM_REDUCE:
        return reduce;
    case GT_FORM_SCAN:
        return scan;
    case GT_FORM_FULL:
        return full;
    case GT_FORM_AS_COMPLEX:
        return join_parts;
    default:
        return NULL;
    }
}

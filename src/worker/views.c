/* views.c: stride arithmetic for reshape, permute, expand, slice, diagonal, view_as_real, view_as_complex and unfold. */
#include "worker/views.h"

#include <string.h>

#include "worker/store.h"

/*
 * Walk both shapes from the right, matching runs of old axes whose memory is one arithmetic progression against runs of
 * new axes with the same product. A run that is not a progression cannot be reshaped in place.
 */
static bool reshape_strides(const gt_view *from, gt_view *out)
{
    if (from->contiguous || from->meta.numel == 0) {
        gt__view_set_contiguous(out);
        return true;
    }
    int old_axis = from->meta.rank - 1, new_axis = out->meta.rank - 1;
    while (old_axis >= 0) {
        if (from->meta.shape[old_axis] == 1) {
            old_axis--;
            continue;
        }
        int64_t run = from->meta.shape[old_axis], base = from->stride[old_axis], next = base * run;
        while (--old_axis >= 0 && (from->meta.shape[old_axis] == 1 || from->stride[old_axis] == next)) {
            if (from->meta.shape[old_axis] == 1)
                continue;
            run *= from->meta.shape[old_axis];
            next *= from->meta.shape[old_axis];
        }
        int64_t stride = base, covered = 1;
        while (new_axis >= 0 && covered < run) {
            out->stride[new_axis] = stride;
            covered *= out->meta.shape[new_axis];
            stride *= out->meta.shape[new_axis];
            new_axis--;
        }
        if (covered != run)
            return false;
    }
    for (; new_axis >= 0; new_axis--)
        out->stride[new_axis] = 1; /* sizes of 1: any stride will do */
    gt__view_update_contiguous(out);
    return true;
}

static void permute_strides(const gt_view *from, uint64_t packed, gt_view *out)
{
    for (unsigned axis = 0; axis < from->meta.rank; axis++)
        out->stride[axis] = from->stride[packed >> (8 * axis) & 0xff];
}

static void expand_strides(const gt_view *from, gt_view *out)
{
    unsigned extra = (unsigned)(out->meta.rank - from->meta.rank);
    for (unsigned axis = 0; axis < out->meta.rank; axis++) {
        bool stretched = axis < extra || from->meta.shape[axis - extra] != out->meta.shape[axis];
        out->stride[axis] = stretched ? 0 : from->stride[axis - extra];
    }
}

static void slice_strides(const gt_view *from, const gt_slot *tail, gt_view *out)
{
    int64_t offset = 0;
    for (unsigned axis = 0; axis < from->meta.rank; axis++) {
        /* With at most one element the step does not matter, and may be too large to multiply. */
        int64_t step = out->meta.shape[axis] > 1 ? tail[1].i64[axis] : 1;
        offset += tail[0].i64[axis] * from->stride[axis];
        out->stride[axis] = step * from->stride[axis];
    }
    if (out->meta.numel) /* an empty slice may start past the end */
        out->data = (uint8_t *)from->data + offset * (int64_t)gt__dtype_size((gt_dtype)from->meta.dtype);
}

/* The two axes become one, the last, that walks both. */
static void diagonal_strides(const gt_view *from, const gt_instruction *ins, gt_view *out)
{
    unsigned axis1 = ins->imm[1].u & 0xff, axis2 = ins->imm[1].u >> 8 & 0xff, to = 0;
    int64_t offset = ins->imm[0].i;
    for (unsigned axis = 0; axis < from->meta.rank; axis++)
        if (axis != axis1 && axis != axis2)
            out->stride[to++] = from->stride[axis];
    out->stride[to] = from->stride[axis1] + from->stride[axis2];
    int64_t start = offset >= 0 ? offset * from->stride[axis2] : -offset * from->stride[axis1];
    out->data = (uint8_t *)from->data + start * (int64_t)gt__dtype_size((gt_dtype)from->meta.dtype);
}

static void unfold_strides(const gt_view *from, const int64_t *spec, gt_view *out)
{
    int64_t axis = spec[0], step = spec[2];
    for (unsigned k = 0; k < from->meta.rank; k++)
        out->stride[k] = from->stride[k];
    out->stride[from->meta.rank] = from->meta.rank ? from->stride[axis] : 1;
    if (from->meta.rank && out->meta.shape[axis] > 1) /* else the step may be too large to multiply */
        out->stride[axis] *= step;
}

static void as_real_strides(const gt_view *from, gt_view *out)
{
    for (unsigned axis = 0; axis < from->meta.rank; axis++)
        out->stride[axis] = 2 * from->stride[axis];
    out->stride[from->meta.rank] = 1;
}

/* Pairs must lie side by side, a whole number of pairs apart, and where a complex number may lie. */
static bool as_complex_strides(const gt_view *from, gt_view *out)
{
    unsigned last = from->meta.rank - 1u;
    if (from->stride[last] != 1 || (uintptr_t)from->data % gt__dtype_size((gt_dtype)out->meta.dtype))
        return false;
    for (unsigned axis = 0; axis < last; axis++) {
        if (from->stride[axis] % 2 && from->meta.shape[axis] > 1)
            return false;
        out->stride[axis] = from->stride[axis] / 2;
    }
    return true;
}

bool gt__view_of(const gt_view *from, const gt_instruction *ins, const gt_slot *tail, gt_view *out)
{
    out->data = from->data;
    switch ((gt_form)gt__op_table[ins->op].form) {
    case GT_FORM_RESHAPE:
        return reshape_strides(from, out);
    case GT_FORM_PERMUTE:
        permute_strides(from, ins->imm[0].u, out);
        break;
    case GT_FORM_EXPAND:
        expand_strides(from, out);
        break;
    case GT_FORM_SLICE:
        slice_strides(from, tail, out);
        break;
    case GT_FORM_DIAGONAL:
        if (out->meta.numel) /* an empty diagonal may lie outside */
            diagonal_strides(from, ins, out);
        else
            gt__view_set_contiguous(out);
        break;
    case GT_FORM_AS_REAL:
        as_real_strides(from, out);
        break;
    case GT_FORM_AS_COMPLEX:
        if (!as_complex_strides(from, out))
            return false;
        break;
    case GT_FORM_UNFOLD:
        unfold_strides(from, tail[0].i64, out);
        break;
    default:
        return false;
    }
    gt__view_update_contiguous(out);
    return true;
}

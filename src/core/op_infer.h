/* op_infer.h: shared by the files of inference. Private to op_infer*.c; the entry point is gt__op_infer in op.h. */
#ifndef GT_CORE_OP_INFER_H
#define GT_CORE_OP_INFER_H

#include <string.h>

#include "core/instruction.h"
#include "core/op.h"

/* One instruction being inferred. */
typedef struct gt_inference {
    const gt_instruction *ins;
    const gt_slot *tail;
    const gt_op_row *row;
    const gt_meta *const *in; /* NULL where an operand is a literal */
    gt_meta *out;
    gt_dtype compute;
} gt_inference;

/* ---- helpers: op_infer.c ------------------------------------------------------------------------------------ */

static inline void gt__infer_copy_shape(gt_meta *out, const gt_meta *from)
{
    out->numel = from->numel;
    out->rank = from->rank;
    memcpy(out->shape, from->shape, sizeof out->shape);
}

gt_err gt__infer_check_axis(const gt_inference *s, int64_t axis, unsigned rank);
/* The common dtype of the first `count` operands. */
gt_dtype gt__infer_promoted(const gt_inference *s, unsigned count);
/* If operand k is a number, it must fit the dtype: it becomes an element as it is. */
gt_err gt__infer_check_literal(const gt_inference *s, unsigned k, gt_dtype dtype);
/* From the promoted dtype of the operands to the dtypes of computation and result, by the row's types column. */
gt_err gt__infer_dtype(gt_inference *s, gt_dtype promoted);

/* ---- forms -------------------------------------------------------------------------------------------------- */

/* op_infer.c: the shape of operand 0. */
gt_err gt__infer_unary(gt_inference *s);

/* op_infer_move.c: views, data movement, indexing, samples, creation. */
gt_err gt__infer_reshape(gt_inference *s);
gt_err gt__infer_permute(gt_inference *s);
gt_err gt__infer_expand(gt_inference *s);
gt_err gt__infer_slice(gt_inference *s);
gt_err gt__infer_diagonal(gt_inference *s);
gt_err gt__infer_as_real(gt_inference *s);
gt_err gt__infer_as_complex(gt_inference *s);
gt_err gt__infer_unfold(gt_inference *s);
gt_err gt__infer_cast(gt_inference *s);
gt_err gt__infer_copy(gt_inference *s);
gt_err gt__infer_cat(gt_inference *s);
gt_err gt__infer_triangle(gt_inference *s);
gt_err gt__infer_take(gt_inference *s);
gt_err gt__infer_gather(gt_inference *s);
gt_err gt__infer_scatter(gt_inference *s);
gt_err gt__infer_assign(gt_inference *s);
gt_err gt__infer_wrap_index(gt_inference *s);
gt_err gt__infer_mask_index(gt_inference *s);
gt_err gt__infer_topk(gt_inference *s);
gt_err gt__infer_sample(gt_inference *s);
gt_err gt__infer_search(gt_inference *s);
gt_err gt__infer_full(gt_inference *s);
gt_err gt__infer_eye(gt_inference *s);
gt_err gt__infer_arange(gt_inference *s);
gt_err gt__infer_random(gt_inference *s);
gt_err gt__infer_upload(gt_inference *s);

/* op_infer_window.c: CONV to IM2COL, and RESAMPLE. */
gt_err gt__infer_window(gt_inference *s);
gt_err gt__infer_resample(gt_inference *s);

/* op_infer_attention.c */
gt_err gt__infer_attention(gt_inference *s);

/* op_infer_fft.c: transforms, and products with sparse matrices. */
gt_err gt__infer_fft(gt_inference *s);
gt_err gt__infer_sparse(gt_inference *s);

#endif

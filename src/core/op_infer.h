/* op_infer.h: what the files of inference share. Private to op_infer*.c; the public face is gt__op_infer in
 * op.h. */
#ifndef GT_CORE_OP_INFER_H
#define GT_CORE_OP_INFER_H

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

/* op_infer_window.c: CONV to IM2COL, and RESAMPLE. */
gt_err gt__infer_window(gt_inference *s);
gt_err gt__infer_resample(gt_inference *s);

#endif

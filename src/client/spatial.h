/* spatial.h: functions of spatial.c for gradient rules and language bindings, besides those of gt.h. */
#ifndef GT_CLIENT_SPATIAL_H
#define GT_CLIENT_SPATIAL_H

#include "client/client.h"
#include "core/window.h"

/* One record of a form with a window. b is NULL where the row has one operand, bias where there is none. */
gt_err gt__emit_window(gt_opcode op, gt_tensor *a, gt_tensor *b, gt_tensor *bias, int spatial, const gt_window *w,
                       gt_tensor **out);
/* gt_conv with `padding` before the first element and `behind` after the last. */
gt_err gt__emit_conv(gt_tensor *x, gt_tensor *weight, gt_tensor *bias, int spatial, const int64_t *stride,
                     const int64_t *padding, const int64_t *behind, const int64_t *dilation, int64_t groups,
                     gt_tensor **out);
/* resample or resample_input; op.h documents immediates and tail. */
gt_err gt__emit_resample(gt_opcode op, gt_tensor *a, gt_imm axis_and_mode, double step, int64_t size, bool aligned,
                         gt_tensor **out);

#endif

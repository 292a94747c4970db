/* spatial.h: what spatial.c offers to gradient rules and to language bindings, beyond gt.h. */
#ifndef GT_CLIENT_SPATIAL_H
#define GT_CLIENT_SPATIAL_H

#include "client/client.h"
#include "core/window.h"

/* One record of a form that has a window; tensors that the row has not, and a bias that there is not, are NULL. */
gt_err gt__emit_window(gt_opcode op, gt_tensor *a, gt_tensor *b, gt_tensor *bias, int spatial, const gt_window *w,
                       gt_tensor **out);
/* gt_conv with another padding behind the end than before the beginning. */
gt_err gt__emit_conv(gt_tensor *x, gt_tensor *weight, gt_tensor *bias, int spatial, const int64_t *stride,
                     const int64_t *padding, const int64_t *behind, const int64_t *dilation, int64_t groups,
                     gt_tensor **out);
/* resample or resample_input, as op.h has their immediates and tail. */
gt_err gt__emit_resample(gt_opcode op, gt_tensor *a, gt_imm axis_and_mode, double step, int64_t size, bool aligned,
                         gt_tensor **out);

#endif

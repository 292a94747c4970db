/* views.h: the ops that move no data: they only compute another window on the same memory. */
#ifndef GT_WORKER_VIEWS_H
#define GT_WORKER_VIEWS_H

#include "engines/engine.h"

/*
 * Compute the view that a RESHAPE, PERMUTE, EXPAND or SLICE of `from` is; `out->meta` is the inferred result.
 * False: it cannot be a view (a reshape of strided memory) and must be copied; *out is unspecified.
 */
bool gt__view_of(const gt_view *from, const gt_instruction *ins, const gt_slot *tail, gt_view *out);

#endif

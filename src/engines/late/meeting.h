/*
 * meeting.h: how engines of one process add up their tensors, each on its own thread: the test engine's stand-in for NCCL.
 */
#ifndef GT_ENGINES_LATE_MEETING_H
#define GT_ENGINES_LATE_MEETING_H

#include "engines/engine.h"

/* `out` is the sum of all parties' `in`, added by `cpu` in the order of the parties. Waits for them. */
gt_err gt__meeting_add(gt_engine *cpu, uint64_t tag, unsigned self, unsigned count, const gt_view *in,
                       const gt_view *out);

#endif

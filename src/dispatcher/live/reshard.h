/*
 * reshard.h: the meaning of signals has changed: tensors that are there are placed as it is now.
 *
 * A layout knows the signal that asked for it (layout.h), also that of a tensor computed from others. Tensors whose signal asks for
 * something else now are moved: those that were placed exactly as it said before, as it says now; others on the same workers, such as
 * parameters that data parallel training has copied there, in the same way on the workers that it names now. What no signal asked for
 * stays. Between two records of the session, by instructions like those of any other change of layout.
 */
#ifndef GT_DISPATCHER_LIVE_RESHARD_H
#define GT_DISPATCHER_LIVE_RESHARD_H

#include "dispatcher/session.h"
#include "dispatcher/workers.h"

/* There is no obstacle (evacuate.h). An error: out of memory, and the session must end. */
gt_err gt__reshard(gt_session *session, gt_moved *moved);

#endif

/*
 * evacuate.h: all that one session has on a worker goes to another worker, while the session goes on.
 *
 * Between two records of the session, when the worker has executed those before, its tensors are sent on, by ordinary moves in the
 * streams of both workers. Spread tensors keep their parts; only the worker of
 * one part is another. So results are the same, bit for bit.
 *
 * The worker may end when those that got the tensors have answered (gt__evacuation_confirmed): until then they may still read them
 * from it.
 */
#ifndef GT_DISPATCHER_LIVE_EVACUATE_H
#define GT_DISPATCHER_LIVE_EVACUATE_H

#include "dispatcher/pending.h"
#include "dispatcher/session.h"
#include "dispatcher/workers.h"

/* Whether the session has, or had, something on the worker. */
bool gt__session_uses(const gt_session *session, const gt_dispatch_worker *worker);
/* Why nothing of the session can be moved now, for people: "an upload is not complete"; NULL: it can. */
const char *gt__evacuation_obstacle(gt_session *session);
/* Whether the session waits to be moved: nothing of it may be placed. */
static inline bool gt__evacuation_awaited(gt_session *session)
{
    return __builtin_expect(session->moving.wanted, 0) && !gt__evacuation_obstacle(session);
}
/* Whether `from` has executed all that the session, which waits, has sent to it. If not, it is asked to tell. Otherwise the worker that
 * gets the tensors would wait for that, and its other clients with it. */
bool gt__evacuation_settled(gt_session *session, gt_dispatch_worker *from);
/* Bytes of the session's tensors on the worker. */
uint64_t gt__evacuation_bytes(gt_session *session, const gt_dispatch_worker *worker);
/*
 * Move them. There is no obstacle, and `to` has nothing of the session, unless all that it has is at `from`. `named`: where the
 * session's config names `from`, `to` is meant from now on; otherwise only where `from` was meant by another number (successors.h).
 * An error: out of memory, and the session must end.
 */
gt_err gt__evacuate(gt_session *session, gt_dispatch_worker *from, gt_dispatch_worker *to, bool named,
                    gt_moved *moved);
/* The answer to a question behind tensors, which have arrived or not. Not also if the receiver is gone. */
void gt__evacuation_confirmed(gt_dispatcher *dispatcher, gt_dispatch_worker *receiver, const gt_pending *asked,
                              bool arrived);
/* Whether tensors that the session had on the worker may not have arrived where they went. */
bool gt__evacuation_open(const gt_session *session, const gt_dispatch_worker *worker);

#endif

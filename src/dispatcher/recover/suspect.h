/*
 * suspect.h: which session has the operation that kills its worker.
 *
 * An operation that crashes its worker crashes the next one, too, when it is repeated. All sessions of a dead worker are recovered, so a
 * death alone does not say whose operation it was. A recovery counts as an attempt of its session until the workers answer that they have
 * executed all of it. A session with several attempts is a suspect. Suspects are recovered one at a time: a worker that dies then counts for
 * one of them, and the others wait for their turn. The one with too many attempts is not recovered any more.
 */
#ifndef GT_DISPATCHER_RECOVER_SUSPECT_H
#define GT_DISPATCHER_RECOVER_SUSPECT_H

#include "dispatcher/pending.h"
#include "dispatcher/session.h"

/* Whether the session's recovery may begin as far as other sessions are concerned. */
bool gt__suspect_may_begin(const gt_session *session);
/* Its recovery begins. */
void gt__suspect_begin(gt_session *session);
/* All that it repeats was written to its workers: have them answer when they have executed it. */
void gt__suspect_ask(gt_session *session);
/* Such an answer. executed: it is not an error. */
void gt__suspect_answered(const gt_pending *asked, bool executed);
/* Its recovery begins again, or it is not recovered any more. */
void gt__suspect_end(gt_session *session);

#endif

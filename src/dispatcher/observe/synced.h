/*
 * synced.h: at synchronize() the instruction log is complete, in the file: a program that is killed afterwards has lost no line.
 *
 * For an embedded server alone: it has one program, which waits for this answer. The answer is held until the other workers
 * have sent the timings of what they were given before, and until the log's thread has written all lines. A server of many clients
 * writes its log when it is idle.
 */
#ifndef GT_DISPATCHER_OBSERVE_SYNCED_H
#define GT_DISPATCHER_OBSERVE_SYNCED_H

#include "dispatcher/observe/observe.h"

/* The answer to a session's sync has come from its home. False: it is not held, send it. */
bool gt__synced_hold(gt_session *session, const gt_dispatch_worker *home, const gt_slot *answer);
/* The session ends. */
void gt__synced_forget(gt_session *session);
/* Once a turn, while dispatcher->held: send the answers whose lines are written. */
void gt__synced_release(gt_dispatcher *dispatcher);

#endif

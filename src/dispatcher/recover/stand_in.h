/*
 * stand_in.h: a living worker stands in for a dead one that is not replaced.
 *
 * A session with sharding names its workers by number, and its results depend on how many parts there are. So the number
 * of a dead worker that such a session needs gets a worker again: a process that has one is asked to join a second time
 * (worker/stand_in.h). For placement it is a worker like the others. New sessions do not get it as their home.
 *
 * A replacement that joins has the stand-in leave first, then the sessions are recovered once more. It also leaves when no
 * session uses it.
 */
#ifndef GT_DISPATCHER_RECOVER_STAND_IN_H
#define GT_DISPATCHER_RECOVER_STAND_IN_H

#include "dispatcher/workers.h"

/* Ask for one with this number, unless that was done a moment ago; a worker whose stand-in did not come in time is followed by
 * another. False: there is no worker left that could run it. */
bool gt__stand_in_ask(gt_dispatcher *dispatcher, int32_t index);
/* One that takes over from a worker that leaves, under another number. NULL: it is not there; *coming: it was asked for. */
gt_dispatch_worker *gt__stand_in_for_leaving(gt_dispatch_worker *leaving, bool *coming);
/* A worker answers that it cannot run the stand-in with this number. */
void gt__stand_in_refused(gt_dispatch_worker *host, uint64_t index);
/* How many there are in the process of this worker. They end with it. */
unsigned gt__stand_ins_of(const gt_dispatch_worker *host);
/* A worker says hello. True: it must wait until a stand-in, which was told to leave, has made room. */
bool gt__stand_in_makes_room(gt_dispatcher *dispatcher, const gt_slot *hello);
/* Now and then: dismiss those that no session uses. */
void gt__stand_ins_look(gt_dispatcher *dispatcher);

#endif

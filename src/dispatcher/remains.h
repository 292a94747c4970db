/*
 * remains.h: what sessions leave behind that takes long to free: tensors and snapshots, in great numbers.
 *
 * Freed in one turn, the tensors of one client would keep all others waiting: a million takes tens of milliseconds, and fills the
 * stream of its worker. So those of a session with many are kept here when it ends, and each turn frees a piece, as far as the workers'
 * links have room. Until then they count against the limits of their user. Sessions with few tensors are freed at once.
 */
#ifndef GT_DISPATCHER_REMAINS_H
#define GT_DISPATCHER_REMAINS_H

#include <stdbool.h>

typedef struct gt_dispatcher gt_dispatcher;
typedef struct gt_session gt_session;
typedef struct gt_recovery gt_recovery;
typedef struct gt_remains gt_remains;

enum { GT_REMAINS_PIECE = 1024 }; /* tensors of one session that are freed in a turn, at most */

/* The session ends: takes its tensors, if they are many. It has none then. False: they are few. */
bool gt__remains_keep_tensors(gt_session *session);
/* Takes what was kept for a recovery; no worker owes it anything. */
void gt__remains_keep_recovery(gt_dispatcher *dispatcher, gt_recovery *recovery);
/* Free a piece. True: something was freed. */
bool gt__remains_turn(gt_dispatcher *dispatcher);
/* All at once, without telling the workers. */
void gt__remains_free(gt_dispatcher *dispatcher);

#endif

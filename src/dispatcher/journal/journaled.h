/*
 * journaled.h: sessions outlive the server: `gt server --journal DIR`.
 *
 * All that a recovery needs (recover/recover.h: the records of the client since the last snapshot, and the snapshot) is written to a file as well. A
 * server that is started again reads it (restored.h) and recovers its sessions as if all workers had been lost. The client keeps
 * what the journal may not have: its link gets credit only for slots that are safe here (gt__link_durable).
 *
 * Bounds: a generation ends at half of the size that the journal may have. The next one begins with all that its sessions keep now (a quarter of the
 * size at most, else the largest ones are given up), from memory: no snapshot has to be forced, as the first design had it. Then the old file is removed.
 *
 * A session that cannot be held any more is given up, with a line in the log: it goes on, but ends with the server. That happens when its
 * recovery is given up (keep.c), it is too large, it uploads from shared memory, or the disk fails.
 *
 * A session whose client detaches (live/handover.h) is out of the journal while its tensors are sorted, and in it again, with its token, before the
 * client gets that.
 *
 * Sessions whose link cannot be resumed (memory, monitors) are not journaled.
 */
#ifndef GT_DISPATCHER_JOURNAL_JOURNALED_H
#define GT_DISPATCHER_JOURNAL_JOURNALED_H

#include "dispatcher/journal/restored.h"
#include "dispatcher/journal/writer.h"
#include "dispatcher/session.h"

#define GT_JOURNAL_BYTES ((uint64_t)1 << 30)

/* dispatcher->journal; NULL: there is none. */
typedef struct gt_disk_journal gt_disk_journal;

typedef struct gt_disk_journal_options {
    const char *directory;
    uint64_t bytes; /* of all its files; 0: GT_JOURNAL_BYTES */
    gt_journal_sync sync;
} gt_disk_journal_options;

/* Once the port is known, before anyone is served: read what is there and begin a new generation. *restored is the caller's. The
 * old files stay until gt__disk_journal_restored. GT_ERR_VALUE: see gt__journal_lock and gt__restored_read. */
gt_err gt__disk_journal_open(gt_dispatcher *dispatcher, const gt_disk_journal_options *options,
                             gt_restored **restored);
/* Each restored session was begun, or is not wanted: remove the files of before when that is safe. */
void gt__disk_journal_restored(gt_dispatcher *dispatcher);
/* The server ends. From here on sessions that end do so without a word in the journal, so call it before they are freed. */
void gt__disk_journal_close(gt_dispatcher *dispatcher);
/* Once in a turn of the loop, while there is a journal: hand over what was written, tell links what is safe, begin generations. True:
 * a session that waited for that is to be served. */
bool gt__disk_journal_turn(gt_dispatcher *dispatcher);
/* A worker has joined or left. Without a journal it does nothing. */
void gt__disk_journal_workers(gt_dispatcher *dispatcher);
/* Instructions of the session take so much of the journal that it needs a snapshot, whatever that costs. */
bool gt__journaled_needs_snapshot(const gt_session *session);
/* The disk is so far behind that no snapshot should be begun. */
bool gt__disk_journal_is_behind(const gt_dispatcher *dispatcher);

/* A session begins, is restored, or has got another client: describe all of it, unless it cannot be journaled. Without a journal it does nothing. */
void gt__journaled_begin(gt_session *session);

/* Whether all that was written of it is safe, or it is not in the journal. */
bool gt__journaled_is_safe(const gt_session *session);

/* The following are for sessions with session->journaled. */

/* At the end of its turn, and before a snapshot is begun: what came since the last call. */
void gt__journaled_turn(gt_session *session);
/* recovery->saved is a new snapshot; the journal was not cut yet. */
void gt__journaled_cut(gt_session *session);
/* What was written of it has changed: describe all of it anew. */
void gt__journaled_again(gt_session *session);
/* It leaves: `why` is NULL. Or it goes on without a journal, and the log says why. */
void gt__journaled_end(gt_session *session, const char *why);

#endif

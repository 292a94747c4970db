/* tape_writer.h: writes the records of clients on a tape (tape.h), for the observer. Waits only for a slow disk. */
#ifndef GT_DISPATCHER_OBSERVE_TAPE_WRITER_H
#define GT_DISPATCHER_OBSERVE_TAPE_WRITER_H

#include "core/tape.h"

typedef struct gt_session gt_session;
typedef struct gt_tape_writer gt_tape_writer;

/* With `keep` files of processes before this one (gt_file_options.keep_old); 0: the file is emptied. */
gt_err gt__tape_writer_new(const char *path, unsigned keep, gt_tape_writer **writer);
/* Records of sessions with smaller numbers are left out. */
void gt__tape_writer_from(gt_tape_writer *writer, uint64_t session);
/* A record of a client, before it is handled; `line`: of the log, or 0. */
void gt__tape_writer_record(gt_tape_writer *writer, const gt_session *session, uint64_t line,
                            const gt_slot *record);
void gt__tape_writer_client(gt_tape_writer *writer, const gt_session *session, bool left);
/* Make everything recorded so far readable. */
void gt__tape_writer_flush(gt_tape_writer *writer);
/* Whether writing has failed: nothing more will be written. */
bool gt__tape_writer_failed(const gt_tape_writer *writer);
void gt__tape_writer_free(gt_tape_writer **writer);

#endif

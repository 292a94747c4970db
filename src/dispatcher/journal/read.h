/* read.h: the sessions that a sequence of frames tells of. For restored.c, which has the files, and for tests. */
#ifndef GT_DISPATCHER_JOURNAL_READ_H
#define GT_DISPATCHER_JOURNAL_READ_H

#include "dispatcher/journal/restored.h"

typedef struct gt_journal_reader gt_journal_reader;

gt_journal_reader *gt__journal_reader_new(void); /* NULL: out of memory */
void gt__journal_reader_free(gt_journal_reader *reader);
/* A file begins. `missing`: frames before its first were not read. */
void gt__journal_reader_begin(gt_journal_reader *reader, bool missing);
/* The next frame, which is whole. GT_ERR_PROTOCOL: it is malformed; GT_ERR_MEMORY: memory is short. Nothing more may be read then. */
gt_err gt__journal_reader_frame(gt_journal_reader *reader, const gt_frame *frame);
/* What it has read; it can only be freed then. `lost` is called for sessions that miss frames. */
gt_err gt__journal_reader_result(gt_journal_reader *reader, void (*lost)(const gt_restored_session *session),
                                 gt_restored *restored);
void gt__restored_session_free(gt_restored_session *session);

#endif

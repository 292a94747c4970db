/* disk_journal.h: what journaled.c and disk_journal.c share. */
#ifndef GT_DISPATCHER_JOURNAL_DISK_JOURNAL_H
#define GT_DISPATCHER_JOURNAL_DISK_JOURNAL_H

#include "dispatcher/journal/journaled.h"

enum {
    GT_JOURNAL_SHARE = 4, /* what sessions keep may be one part of so many of the journal's size */
    GT_JOURNAL_LONG = 16, /* instructions of one that take one part of so many ask for a snapshot */
};

/* Slots that were consumed from a session's link when so much was put. */
typedef struct gt_journal_promise {
    uint64_t mark; /* of the writer; 0: none */
    uint64_t consumed;
} gt_journal_promise;

struct gt_journaled {
    gt_session *session;
    struct gt_journaled *previous, *next; /* of all sessions */
    gt_journal_position written;          /* of the session's journal; block NULL: nothing of it */
    uint64_t first_slot, next_slot;    /* the numbers of the first in its journal, and of the next to be written */
    uint64_t first_refusal;            /* the number of the first that it keeps */
    uint32_t refusals, sites, reasons; /* that are written, of those that it has now */
    bool left_out;
    uint64_t consumed;                 /* when it was last written */
    uint64_t first_tensor;             /* earlier numbers are of a description before this one */
    gt_journal_promise awaited, later; /* the next one that will be safe, and the last that was made */
};

struct gt_disk_journal {
    gt_journal_writer *writer;
    uint64_t most; /* bytes */
    uint64_t next_tensor;
    uint64_t safe; /* of the writer, when links were last told */
    gt_journaled *sessions;
    bool failed;
    bool roused; /* since its last turn: a session that waited for it has more to do */
};

/* Bytes that the description of a session takes, about. */
uint64_t gt__journaled_bytes(const gt_session *session);

void gt__disk_journal_add(gt_session *session);
/* Its link gets credit for everything from now on. Frees session->journaled. */
void gt__disk_journal_remove(gt_session *session);
/* What the session consumed is put: its link is told when it is safe. */
void gt__disk_journal_promise(gt_session *session);

#endif

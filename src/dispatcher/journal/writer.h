/*
 * writer.h: the thread that writes the dispatcher's journal, and what is safe in it.
 *
 * The dispatcher copies frames into a buffer, and hands that over once a turn; it never waits for the disk. Data of snapshots is not copied: it
 * must stay as it is until it is given back. The thread numbers the frames, computes the checksums, writes and syncs.
 *
 *     always    a frame is safe when fdatasync has returned: it survives a power failure
 *     interval  a frame is safe when it was given to the system: it survives the end of the server by any signal. It is synced within
 *               100 ms, so a failure of the machine loses as much. A client that was told otherwise is refused then, not served wrong
 *     never     the same, synced when the system likes
 *
 * A disk that is full, or any other failure: one line in the log, and the journal is gone. Its files are emptied and removed: they are behind
 * what clients were told, and a restart with them would be wrong.
 *
 * All calls are the dispatcher's, from one thread.
 */
#ifndef GT_DISPATCHER_JOURNAL_WRITER_H
#define GT_DISPATCHER_JOURNAL_WRITER_H

#include <stdbool.h>

#include "dispatcher/journal/frame.h"
#include "dispatcher/recover/spool.h"

typedef enum gt_journal_sync { GT_JOURNAL_INTERVAL, GT_JOURNAL_ALWAYS, GT_JOURNAL_NEVER } gt_journal_sync;

/* "always", "interval", "never". False: another word. */
bool gt__journal_sync_read(const char *word, gt_journal_sync *sync);

typedef struct gt_journal_writer gt_journal_writer;

typedef struct gt_journal_writer_options {
    const char *directory;
    int lock; /* what gt__journal_lock returned; the writer's from now on */
    int port;
    gt_journal_sync sync;
    uint64_t generation; /* that it begins with: no file has it, or a later one */
    uint64_t oldest;     /* the first generation of which there may be a file */
    uint64_t sequence;   /* of its first frame */
    /* Called in the thread when more is safe than the last time, if gt__journal_await asked for it, or when the writing has failed. */
    void (*notify)(void *context);
    void *context;
} gt_journal_writer_options;

/* Make the directory, if it is not there, and lock it for this process. GT_ERR_VALUE: it cannot be used, or another server uses it. */
gt_err gt__journal_lock(const char *directory, int *lock);

/* Makes the first file. GT_ERR_VALUE: it cannot. The lock is closed then. */
gt_err gt__journal_writer_new(const gt_journal_writer_options *options, gt_journal_writer **writer);
/* Writes and syncs what was put, and unlocks the directory; the files stay. */
void gt__journal_writer_free(gt_journal_writer **writer);

/* Room for a frame with so many bytes, which are zero. To be filled before the next call. NULL: out of memory, or the writing has
 * failed: what the frame says would be missing, so its session must be given up. */
void *gt__journal_put(gt_journal_writer *writer, gt_frame_kind kind, uint64_t session, size_t bytes);

/* Bytes of a tensor: in memory, or in the spool. Borrowed until `release`, which gt__journal_reap calls, in the dispatcher's thread. */
typedef struct gt_journal_source {
    const uint8_t *data;
    gt_spooled *spooled; /* without `data` */
    uint64_t bytes;
    void (*release)(void *context);
    void *context;
} gt_journal_source;

/* All bytes of one part of a tensor, as DATA frames. False: out of memory or failed, and `release` is not called. */
bool gt__journal_put_data(gt_journal_writer *writer, uint64_t session, uint64_t tensor, uint32_t part,
                          const gt_journal_source *source);
/* The next frame begins a new generation. False: out of memory or failed. */
bool gt__journal_put_generation(gt_journal_writer *writer);
/* When all frames before this are safe, the files of earlier generations are removed. False: as above. */
bool gt__journal_put_removal(gt_journal_writer *writer);

/* Something that must be in the journal is not: remove its files, as after a failure of the disk. */
void gt__journal_spoil(gt_journal_writer *writer);

/* Hand over what was put. */
void gt__journal_flush(gt_journal_writer *writer);
/* What was put until now is safe when gt__journal_safe is at least this. */
uint64_t gt__journal_mark(const gt_journal_writer *writer);
uint64_t gt__journal_safe(const gt_journal_writer *writer);
/* Call `notify` when that grows. */
void gt__journal_await(gt_journal_writer *writer);
/* Give back the sources that are written. */
void gt__journal_reap(gt_journal_writer *writer);

/* Bytes of the present generation, with those that wait; those that wait; and whether earlier ones are still there. */
uint64_t gt__journal_bytes(const gt_journal_writer *writer);
uint64_t gt__journal_behind(const gt_journal_writer *writer);
bool gt__journal_has_old(const gt_journal_writer *writer);
/* How many generations were put; the first is 1. */
uint64_t gt__journal_generation(const gt_journal_writer *writer);
/* Why nothing more is written; NULL: all is well. */
const char *gt__journal_failure(const gt_journal_writer *writer);

#endif

/*
 * file_writer.h: a file that is only appended to, by a thread of its own: what the instruction log and the tape are written
 * with. Whoever fills it copies into buffers and does not wait for the disk, unless the disk is slower for long.
 * Or it fills them with something shorter, which the thread turns into what the file gets (translate).
 * A disk that is full, or any other failure, ends the writing, is said once on standard error, and nothing else.
 */
#ifndef GT_DISPATCHER_OBSERVE_FILE_WRITER_H
#define GT_DISPATCHER_OBSERVE_FILE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

typedef struct gt_file_writer gt_file_writer;

typedef struct gt_file_options {
    const char *path;
    const char *what;      /* for messages: "instruction log" */
    uint64_t rotate_bytes; /* beyond this many the file becomes path.1, path.1 becomes path.2, ...; 0: never */
    unsigned keep;         /* old files */
    bool exclusive;        /* if this process has written to the file before, write to path.2, path.3, ... */
    unsigned buffers;      /* that may wait to be written, GT_FILE_BUFFER each; 0: a few */
    /*
     * If not NULL, what the file gets is what this makes, in the thread, of whole reserves from *from on, which it
     * advances up to `end` or until `room`, at least GT_FILE_TEXT, may not be enough: at least one.
     * Returns the bytes it has put to `to`. Such a thread begins when most buffers are full or at a flush, so as not to
     * take a processor from a burst that it can follow later.
     */
    size_t (*translate)(void *context, const char **from, const char *end, char *to, size_t room);
    void *context;
} gt_file_options;

enum {
    GT_FILE_BUFFER = 256 * 1024, /* the most that one reserve may ask for */
    GT_FILE_TEXT = 4096,         /* the most that one reserve may become by translation */
};

/* Creates or empties the file; one that this process has written to before is appended to, unless exclusive. Where another
 * process writes to it, the file is path.<process id> (path.2, ... if exclusive), which is said on standard error. */
gt_err gt__file_open(const gt_file_options *options, gt_file_writer **writer);

/* What a writer begins with: the buffer being filled. */
typedef struct gt_file_room {
    char *at, *end;
} gt_file_room;

char *gt__file_next_buffer(gt_file_writer *writer);

/* Room for `bytes` that belong together: rotation never parts them. NULL: the writing has failed. */
static inline char *gt__file_reserve(gt_file_writer *writer, size_t bytes)
{
    const gt_file_room *room = (gt_file_room *)writer;
    return __builtin_expect((size_t)(room->end - room->at) >= bytes, 1) ? room->at : gt__file_next_buffer(writer);
}

static inline void gt__file_commit(gt_file_writer *writer, size_t bytes)
{
    ((gt_file_room *)writer)->at += bytes;
}

/* Hand what there is to the thread, unless it is behind by all its buffers. Never waits. */
void gt__file_flush(gt_file_writer *writer);
/* Whether the writing has ended before its time. */
bool gt__file_failed(const gt_file_writer *writer);
/* Waits until everything is written. */
void gt__file_close(gt_file_writer **writer);

#endif

/*
 * file_writer.h: a file that is only appended to, by a thread of its own: for the instruction log and the tape. The
 * caller copies into buffers and does not wait for the disk, unless the disk is slower for long. The buffers may hold
 * something shorter than the file, which the thread expands (translate). A full disk, or any other failure, stops the
 * writing with one message on standard error; the program goes on.
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
    bool keep_old;         /* the file of a process before this one is not emptied but becomes path.1, and so on */
    bool exclusive;        /* if this process has written to the file before, write to path.2, path.3, ... */
    unsigned buffers;      /* that may wait to be written, GT_FILE_BUFFER each; 0: a few */
    /*
     * Optional: called in the thread to write, to `to`, what the file gets for a buffer, which begins at *from. It is called
     * until it moves *from to `end`; each time it writes what has room, at least GT_FILE_TEXT bytes. Returns the bytes
     * written. The file is written by another thread meanwhile.
     */
    size_t (*translate)(void *context, const char **from, const char *end, char *to, size_t room);
    /* Optional: called in the thread to complete a buffer before it is written as it is. */
    void (*seal)(void *context, char *data, size_t bytes);
    void *context;
    const void *head; /* what each file begins with: head_bytes bytes, which are copied */
    size_t head_bytes;
} gt_file_options;

enum {
    GT_FILE_BUFFER =
        256 * 1024, /* the most that one reserve may ask for; with `seal` and small files, GT_FILE_LEAST */
    GT_FILE_LEAST = 4096 - 64,
    GT_FILE_TEXT = 4096, /* the most that one reserve may become by translation */
};

/* Creates or empties the file, or keeps it (keep_old); one that this process has written to before is appended to, unless exclusive. If another
 * process writes to it, the file is path.<process id> (path.2, ... if exclusive), with a message on standard error. */
gt_err gt__file_open(const gt_file_options *options, gt_file_writer **writer);

/* What a writer begins with: the buffer being filled. */
typedef struct gt_file_room {
    char *at, *end;
} gt_file_room;

char *gt__file_next_buffer(gt_file_writer *writer);

/* Room for `bytes` that belong together: rotation never separates them. NULL: the writing has failed. */
static inline char *gt__file_reserve(gt_file_writer *writer, size_t bytes)
{
    const gt_file_room *room = (gt_file_room *)writer;
    return __builtin_expect((size_t)(room->end - room->at) >= bytes, 1) ? room->at : gt__file_next_buffer(writer);
}

static inline void gt__file_commit(gt_file_writer *writer, size_t bytes)
{
    ((gt_file_room *)writer)->at += bytes;
}

/* The most that one reserve may ask for. */
size_t gt__file_most(const gt_file_writer *writer);
/* Hand the current buffer to the thread, unless all buffers wait for it. Never waits. */
void gt__file_flush(gt_file_writer *writer);
/* Waits until everything so far is written. */
void gt__file_drain(gt_file_writer *writer);
/* Whether the writing has failed. */
bool gt__file_failed(const gt_file_writer *writer);
/* Waits until everything is written. */
void gt__file_close(gt_file_writer **writer);

#endif

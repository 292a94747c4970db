/*
 * progress.h: what a program says while it waits long: a line in the terminal that tells how many instructions are left and what
 * runs, and, after Ctrl-C, what was waited for.
 *
 * A wait looks up every LOOK_UP_MS (transfer.c). Only then is the clock read: a short wait costs nothing more. The server is
 * asked by a second connection, as a monitor, because the client's own stream waits behind its work.
 */
#ifndef GT_CLIENT_PROGRESS_H
#define GT_CLIENT_PROGRESS_H

#include "core/error.h"
#include "core/op.h"
#include "link/link.h"

typedef struct gt_client gt_client;

/* Of the thread that waits; with the client's lock. */
typedef struct gt_progress {
    uint16_t op;           /* of the question whose answer is awaited; GT_OP_INVALID: room for records is */
    const gt_meta *tensor; /* whose value is awaited; NULL: none. Borrowed, for the time of the wait */
    uint64_t began_ns;     /* 0: the wait is short so far */
    uint64_t drawn_ns;     /* when the line was last drawn; 0: it is not there */
    bool asked;            /* a connection was tried */
    gt_link *link;         /* to the server; NULL: none */
    char text[256];        /* the last that the server said */
} gt_progress;

/* Show progress from now on, or not; returns whether it was shown so far. At first GT_PROGRESS decides. */
bool gt__progress_show(bool show);
/* The wait goes on: it has done so for `looked_ms` since the last look. */
void gt__progress_look(gt_client *client, int looked_ms);
/* The wait has ended; it was a long one. */
void gt__progress_end(gt_client *client);
/* GT_ERR_INTERRUPTED, with a text that says what was waited for. */
gt_err gt__progress_interrupted(gt_client *client);

#endif

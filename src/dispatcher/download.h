/* download.h: fetches too long to pass on in one go reach the client in parts: download.c. */
#ifndef GT_DISPATCHER_DOWNLOAD_H
#define GT_DISPATCHER_DOWNLOAD_H

#include "dispatcher/handles.h"
#include "core/instruction.h"

typedef struct gt_session gt_session;
typedef struct gt_dispatch_worker gt_dispatch_worker;

enum {
    GT_DOWNLOAD_PART = 4 << 20, /* bytes; longer tensors are fetched in parts of this */
    GT_DOWNLOAD_ROOM = 2,       /* slots its start takes in the worker's link */
};

typedef struct gt_download {
    struct gt_download *next;
    uint64_t ticket, tensor; /* the client's */
    uint32_t row;            /* slot on the session's worker: the tensor, flat */
    gt_dtype dtype;
    unsigned element_bytes;
    int64_t elements, asked; /* of them: in the parts so far */
    uint64_t offset;         /* bytes before the part that is under way */
    bool under_way;          /* the worker owes us a part */
} gt_download;

gt_err gt__download_start(gt_session *session, const gt_handle *handle, uint64_t ticket);
/* Ask for the next part, if the client has read enough of the last. */
void gt__download_continue(gt_session *session);
/* Ask for no part until gt__download_continue: the row moves to another worker. */
void gt__download_pause(gt_session *session);
/* There is room in the worker's link again: those that waited for it go on, in the order in which they came. */
void gt__downloads_continue(gt_dispatch_worker *worker);
/* Turn a piece of a part into a piece of the whole answer. */
void gt__download_piece(const gt_download *download, gt_slot *record);
void gt__download_part_done(gt_session *session, bool failed);
/* `lost`: the failure to send for those the client still waits for; NULL: it is leaving. */
void gt__download_drop_all(gt_session *session, const char *lost);

#endif

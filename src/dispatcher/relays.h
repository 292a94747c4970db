/*
 * relays.h: a client's shared segments, passed on to its home worker.
 *
 * The segment itself stays with the client's link; the worker knows it under a number that the dispatcher gives
 * it. A record that names a segment is placed only after the segment was shared with the worker (gt__relay_share); the
 * number in the record is replaced then (gt__relay_name).
 *
 * A worker's link knows a limited number of segments, of all clients together. Where that is reached, the worker forgets the
 * segment that it has known longest. It is shared anew when its client names it again.
 */
#ifndef GT_DISPATCHER_RELAYS_H
#define GT_DISPATCHER_RELAYS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

typedef struct gt_session gt_session;
typedef union gt_slot gt_slot;
typedef struct gt_segment gt_segment;
typedef struct gt_dispatch_worker gt_dispatch_worker;

typedef struct gt_relay {
    struct gt_relay *next;
    uint64_t client_id, id;
    gt_dispatch_worker *shared_with; /* NULL: no worker yet */
    bool orphaned;                   /* its worker is gone, perhaps before it had read the data */
    struct gt_relay *older, *newer;  /* in its worker's list */
} gt_relay;

/* Of a worker: the segments that it knows, of all sessions. */
typedef struct gt_relays_known {
    gt_relay *oldest, *newest;
} gt_relays_known;

typedef struct gt_relays {
    gt_relay *first;
    bool orphans; /* some are orphaned */
} gt_relays;

/* Make a segment that a record names known to the home worker. *shared is false: not now, its link has to catch up. */
gt_err gt__relay_share(gt_session *session, uint64_t client_id, bool *shared);
/* The home worker's number for it. False: this worker's link cannot share segments, its predecessor's could. */
bool gt__relay_name(const gt_session *session, uint64_t *segment);
/* An upload from this segment is dropped: its data will not be used. */
void gt__relay_unused(gt_session *session, uint64_t client_id);
/* The client will not name the segment again. */
void gt__relay_forget(gt_session *session, uint64_t client_id);

/* The segment that an upload of the session's client names; NULL: it is missing, or too small. */
gt_segment *gt__relay_segment(const gt_session *session, const gt_slot *upload);
/* The same upload as records with its bytes: an upload, and `data` records with what does not fit into it. The slots of the one
 * that begins at `offset`. */
unsigned gt__relay_piece_slots(const gt_slot *upload, uint64_t offset);
/* Write it; the bytes are read from `segment`. Returns the offset of the next one; 0: they cannot be read. */
uint64_t gt__relay_piece(const gt_segment *segment, const gt_slot *upload, uint64_t offset, gt_slot *record);

/* The worker will not need the session's segments any more, behind the records that it has. */
void gt__relays_take_back(gt_session *session, const gt_dispatch_worker *worker);
void gt__relays_lose_worker(gt_session *session, const gt_dispatch_worker *worker);
/* The client may use its orphaned segments again. Only when all that it sent was placed: an upload for the next worker
 * may be among it. */
void gt__relays_release_orphans(gt_session *session);
void gt__relays_free(gt_session *session);

#endif

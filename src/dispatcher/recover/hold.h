/*
 * hold.h: uploads that the journal and snapshots do not copy: their data stays in the client's shared segments.
 *
 * An upload that is too long for the stream lies in a segment (link/segment.h) that the worker uses or copies, and never writes to. While it is held the client
 * takes another one for its next upload. A client that writes to a segment all the same changes its own results only. Holds keep
 * descriptors, so there is a limit to those of small uploads; the others are copied. Large uploads are never copied.
 */
#ifndef GT_DISPATCHER_RECOVER_HOLD_H
#define GT_DISPATCHER_RECOVER_HOLD_H

#include "core/instruction.h"
#include "link/segment.h"

/* Shared by the journal and the snapshots that have the tensor. */
typedef struct gt_hold {
    uint32_t references;
    uint64_t id, bytes; /* of the tensor */
    gt_segment *segment;
    struct gt_holds *of;
} gt_hold;

/* Those of one session. A struct with `total` alone is empty. */
typedef struct gt_holds {
    uint32_t *total; /* of all sessions */
    gt_hold **hold;  /* that the journal names, in its order */
    uint32_t count, capacity;
    uint32_t alive;         /* with those that only snapshots have: tensors that live long */
    uint64_t bytes, recent; /* of these, and of those that the journal names */
} gt_holds;

/* Hold the segment of an upload at the end of the journal. False: copy it. */
bool gt__holds_take(gt_holds *holds, gt_segment *segment, const gt_slot *upload);
/* A reference to the one that has the data of this tensor; NULL: none. */
gt_hold *gt__holds_find(const gt_holds *holds, uint64_t id, const gt_meta *meta);
/* The journal does not name the first `count` any more. */
void gt__holds_drop(gt_holds *holds, uint32_t count);
void gt__hold_release(gt_hold *hold); /* may be NULL */
/* After all snapshots of the session. */
void gt__holds_free(gt_holds *holds);

#endif

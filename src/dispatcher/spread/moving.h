/*
 * moving.h: slices and assignments that begin elsewhere in each run of a path.
 *
 * Which workers have a part of a slice depends on where it begins. While a run is recorded (replay_record.c), the rules for such a
 * record say for which starts their plan is the same, and which records of the workers are copies of it. In each copy the start
 * is that of the client's record plus a constant.
 */
#ifndef GT_DISPATCHER_SPREAD_MOVING_H
#define GT_DISPATCHER_SPREAD_MOVING_H

#include "core/path.h"
#include "dispatcher/spread/spread.h"

/* The record of a worker that is a copy of the client's. */
typedef struct gt_moving_copy {
    int32_t worker;
    uint32_t slot; /* of its result */
} gt_moving_copy;

typedef struct gt_moving {
    uint64_t result;                               /* of the client's record */
    uint32_t axes;                                 /* bits of those along which it may begin elsewhere */
    bool unknown;                                  /* how the plan depends on that */
    int64_t least[GT_MAX_RANK], most[GT_MAX_RANK]; /* by axis: starts for which the plan is this one */
    unsigned copies;
    gt_moving_copy copy[GT_MAX_PARTIES];
} gt_moving;

/* These are the record's parameters: if they say where it begins, it may begin elsewhere, but within its tensor. False: they do not. */
bool gt__moving_begin(gt_moving *moving, gt_session *session, const gt_slot *record, const gt_path_word *parameter,
                      uint32_t count);
/* The plan of the task is for a tensor in these parts along an axis, of which the record takes `count` elements. */
void gt__moving_parts(const gt_task *task, unsigned axis, const gt_layout *parts);
/* Where the record may begin with the same plan is not known: the run cannot be recorded. */
void gt__moving_unknown(const gt_task *task);
/* The task's record was copied for a worker; the copy makes this slot. */
void gt__moving_note_copy(const gt_task *task, int32_t worker, uint32_t slot);
bool gt__moving_is_copy(const gt_moving *moving, int32_t worker, uint64_t slot);

#endif

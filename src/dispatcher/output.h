/*
 * output.h: between a session's modifiers and its placement: records that wait for room.
 *
 * A modifier may emit any number of records for one that it reads. Those that the workers have room for are placed at
 * once (place.c); the rest wait here, in order. While records wait the session takes no input, so the client's link fills
 * and the client waits. The bound is therefore on what the modifiers make of a single record, or of a flush.
 */
#ifndef GT_DISPATCHER_OUTPUT_H
#define GT_DISPATCHER_OUTPUT_H

#include "core/slot_queue.h"

typedef struct gt_session gt_session;

typedef struct gt_output {
    gt_slot_queue waiting; /* each record with its cause: output.c */
    bool retry;            /* the first waits for something that rings no bell: try again soon */
} gt_output;

void gt__output_init(gt_output *output);
void gt__output_free(gt_output *output);

/* True while records wait. */
static inline bool gt__output_waits(const gt_output *output)
{
    return !gt__slot_queue_empty(&output->waiting);
}

/* Whether a record can be placed now. If not, the session is served again when it can. */
gt_err gt__output_ready(gt_session *session, const gt_instruction *ins, bool *ready);
/* Place a record, or have it wait behind the others. */
gt_err gt__output_put(gt_session *session, const gt_slot *record);
/* The rest of the record that is being placed, as long as that: it goes before all others. */
gt_err gt__output_put_back(gt_session *session, const gt_slot *record);
/* Place records that wait, as far as there is room, *left slots at most. */
gt_err gt__output_drain(gt_session *session, size_t *left);
/* Whether there is room for the record that waits longest. If not, the loop is woken when there is some. */
bool gt__output_has_room(gt_session *session);

#endif

/* place.h: where a session's records run: place.c. */
#ifndef GT_DISPATCHER_PLACE_H
#define GT_DISPATCHER_PLACE_H

#include "core/instruction.h"

typedef struct gt_session gt_session;

/* Write the record, translated, into the link of its worker or workers. There must be room for it, and the worker must
 * know its segment (output.h). */
gt_err gt__place(gt_session *session, const gt_slot *record);

#endif

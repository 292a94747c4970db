/* sent.h: the records in a worker's stream whose timings have not come, for the lines of the log. Place in the flow: observe.c. */
#ifndef GT_DISPATCHER_OBSERVE_SENT_H
#define GT_DISPATCHER_OBSERVE_SENT_H

#include "dispatcher/observe/observe.h"

/* A record in a worker's stream. */
typedef struct gt_sent {
    uint64_t number;   /* in that stream */
    uint64_t sequence; /* of the line of its arrival; 0: it did not come from a client */
    uint64_t session, tensor;
    uint32_t shape, generation; /* shapes.h */
    uint32_t trace;             /* trace_ids.h */
    uint16_t op;
    bool told; /* its timing has come, before that of an earlier one */
} gt_sent;

void gt__sent_remember(gt_watched *watched, const gt_sent *sent);
/* The record sent under this number, which is told of now; it stays until the next is remembered. Records that wait for another
 * worker are told of behind later ones. NULL: there is none. */
const gt_sent *gt__sent_recall(gt_watched *watched, uint64_t number);

/* The k-th of sent_count, oldest first. */
static inline gt_sent *gt__sent_at(const gt_watched *watched, uint32_t k)
{
    return &watched->sent[(watched->sent_first + k) & (watched->sent_capacity - 1)];
}

#endif

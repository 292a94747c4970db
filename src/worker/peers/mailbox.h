/*
 * mailbox.h: messages for a worker that it has not taken yet, by key. A move of many tensors fills it with as many: finding one takes
 * no longer then.
 *
 * All calls with the exchange's mutex. Messages are in it by `next`.
 */
#ifndef GT_WORKER_PEERS_MAILBOX_H
#define GT_WORKER_PEERS_MAILBOX_H

#include "worker/peers/exchange.h"

/* A zeroed one is empty. */
struct gt_mailbox {
    gt_message **chains; /* 1 << bits lists, by a hash of the key; NULL: one list, `few` */
    gt_message *few;
    unsigned bits;
    size_t count;
};

/* Never fails: without memory for more lists they get longer. */
void gt__mailbox_put(gt_mailbox *mailbox, gt_message *message);
/* One with this key in this state; NULL: there is none. */
gt_message *gt__mailbox_find(const gt_mailbox *mailbox, const gt_message_key *key, gt_message_state state);
/* Take it out, if it is in it. */
void gt__mailbox_remove(gt_mailbox *mailbox, gt_message *message);
/* Take all of them out: a list. What it allocated is freed. */
gt_message *gt__mailbox_empty(gt_mailbox *mailbox);

#endif

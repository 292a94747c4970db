/*
 * aside.h: the records of one session that wait, in their order: what deferred.h puts aside.
 *
 * Sessions have nothing in common but the numbers of slots. The dispatcher gives the slot of a freed tensor to the next one,
 * perhaps of another session, as soon as the free is in the stream. If that free was put aside, the old tensor is still needed:
 * gt__aside_hide gives the tensors that the records of a session free other slots, which only the worker knows.
 *
 * Place in the flow: deferred.c decides which records wait, and runs them.
 */
#ifndef GT_WORKER_PEERS_ASIDE_H
#define GT_WORKER_PEERS_ASIDE_H

#include <stdint.h>

#include "core/slot_queue.h"

typedef struct gt_worker gt_worker;
typedef struct gt_path_plans gt_path_plans;
typedef struct gt_under_way gt_under_way;
typedef struct gt_deferred gt_deferred;

typedef struct gt_aside {
    struct gt_aside *next;
    uint64_t owner; /* the session (store.h) */
    unsigned count;
    gt_slot_queue items;   /* each is a header and a record */
    gt_under_way *started; /* its collectives that are not over */
    uint64_t ran_ns;       /* executing them took so long, and the dispatcher was not told yet */
    unsigned looked;       /* `count` when collectives behind the first were last started */
    bool full;             /* it was told that they are many */
    bool unwanted;         /* the client is gone */
} gt_aside;

/* A record that waits. */
typedef struct gt_aside_item {
    gt_slot *header;       /* its own words: */
    uint64_t number;       /* the record's number in the stream */
    gt_under_way *passage; /* of a collective that was started, else NULL */
    gt_path_plans *plans;  /* of a repeat, held, else NULL */
    bool part;             /* one of several that a record of the stream became: it does not count as one */
    const gt_slot *record;
} gt_aside_item;

/* How many of the records put aside read a slot, and make or free its tensor. All are of one session. */
typedef struct gt_slot_use {
    uint32_t reads, writes;
    gt_aside *aside;
} gt_slot_use;

typedef struct gt_slot_uses {
    gt_slot_use *of; /* by slot */
    size_t capacity;
} gt_slot_uses;

/* The session's; an empty one if it is new. NULL: out of memory. */
gt_aside *gt__aside_of(gt_deferred *deferred, uint64_t owner);
/* The same, or NULL if nothing of it waits. */
gt_aside *gt__aside_find(const gt_deferred *deferred, uint64_t owner);
void gt__aside_free(gt_worker *worker, gt_aside *aside);

/* Put a copy of a record at the end. `passage`, which is taken: see gt_aside_item. False: there is no room. */
bool gt__aside_put(gt_worker *worker, gt_aside *aside, const gt_slot *record, gt_under_way *passage, bool part);
/* The first; there is one. */
gt_aside_item gt__aside_first(const gt_aside *aside);
void gt__aside_set_passage(const gt_aside_item *item, gt_under_way *passage);
/* The first waits. Start the collectives behind it whose operands are there: their messages need not wait for it. */
void gt__aside_start(gt_worker *worker, gt_aside *aside);
/* It was executed. */
void gt__aside_pop(gt_worker *worker, gt_aside *aside);

/* Calls `visit` for each slot that a record names, with what happens to its tensor (gt_id_use). plans: of a repeat. */
void gt__aside_visit(const gt_slot *record, const gt_path_plans *plans,
                     void (*visit)(void *context, uint64_t *slot, unsigned use), void *context);
/* What the records put aside do with a slot; NULL: nothing. */
const gt_slot_use *gt__aside_use(const gt_deferred *deferred, uint64_t slot);
/* The tensors that its records free get hidden slots. False: out of memory. */
bool gt__aside_hide(gt_worker *worker, gt_aside *aside);

#endif

/*
 * collective.h: operations in which several workers take part at once: one small vtable, so that a device's own
 * library (NCCL) can take the place of ours.
 *
 * The dispatcher writes a collective into the streams of all its parties, in the same order everywhere; each party
 * calls `run` when its stream gets there, and `run` returns when its own result is complete. What the parts are is
 * in instruction.h (gt_partner). Implementations: collective_host.c over an exchange.
 */
#ifndef GT_WORKER_PEERS_COLLECTIVE_H
#define GT_WORKER_PEERS_COLLECTIVE_H

#include "engines/engine.h"
#include "worker/peers/exchange.h"
#include "worker/store.h"

typedef struct gt_collective gt_collective;

typedef struct gt_collective_call {
    gt_opcode op;
    uint64_t tag;
    unsigned self, count; /* which party we are, of how many */
    const gt_partner *party;
    unsigned axis, axis_after; /* of the parts before and after, where there are any */
    const gt_meta *whole;      /* the whole tensor */
    const gt_view *in;         /* contiguous; NULL: we have nothing to give (broadcast), or it failed: */
    gt_buffer *buffer;         /* in's */
    const gt_poison *poison;   /* why there is no `in`; the others are told */
    const gt_view *out;        /* allocated, contiguous, distinct from `in`; NULL with `poison`, too */
    gt_buffer *out_buffer;
    gt_token *token; /* set where `out` is complete only with that token; NULL: it must be on return */
} gt_collective_call;

typedef struct gt_collective_ops {
    const char *name;
    /* An error is a party's failure, or that it is gone. Who needs what a failed party was to give gets one; nobody
     * waits for ever. */
    gt_err (*run)(gt_collective *collective, const gt_collective_call *call);
    void (*close)(gt_collective *collective);
} gt_collective_ops;

struct gt_collective {
    const gt_collective_ops *ops;
};

gt_err gt__collective_host(gt_exchange *exchange, gt_engine *engine, gt_store *store, gt_collective **collective);

/* The engine's own collectives where all parties have them, *collective otherwise: it is replaced by one that takes it. */
gt_err gt__collective_engine(gt_worker *worker, gt_collective **collective);

/* What party k holds of the whole: along `axis`, by its start before or after. */
void gt__party_part(const gt_collective_call *call, unsigned k, bool after, unsigned axis, int64_t *start,
                    int64_t *count);

#endif

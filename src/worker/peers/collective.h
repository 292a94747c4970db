/*
 * collective.h: operations that several workers execute together. A small vtable, so that a device's own library
 * (NCCL) can replace ours.
 *
 * The dispatcher writes a collective into the streams of all its parties, in the same order everywhere. Each party
 * starts it when its stream gets there, and advances it as messages of the others arrive, or runs it: then it waits until
 * its own result is complete. gt_partner in instruction.h defines the parts. Implementations: collective_host.c over an
 * exchange; collective_lent.c and collective_engine.c between engines that have more in common.
 */
#ifndef GT_WORKER_PEERS_COLLECTIVE_H
#define GT_WORKER_PEERS_COLLECTIVE_H

#include "engines/engine.h"
#include "worker/peers/exchange.h"
#include "worker/store.h"

typedef struct gt_collective gt_collective;

/* One party's way through a collective that was started. */
typedef struct gt_passage {
    /* Go on as far as messages have arrived. True: it is over, the passage is freed, and *err is what run would have returned. */
    bool (*advance)(struct gt_passage *passage, gt_err *err);
    void (*abandon)(struct gt_passage *passage); /* free it: the worker ends */
} gt_passage;

typedef struct gt_collective_call {
    gt_opcode op;
    uint64_t tag;
    unsigned self, count; /* our party number; the number of parties */
    const gt_partner *party;
    unsigned axis, axis_after; /* the split axis before and after, if split */
    const gt_meta *whole;      /* the whole tensor */
    const gt_view *in;         /* contiguous; NULL for a receiver of a broadcast, or with `poison` */
    gt_buffer *buffer;         /* in's */
    const gt_poison *poison;   /* why `in` or `out` is missing; sent to the other parties */
    const gt_view *out;        /* allocated, contiguous, distinct from `in`; NULL with `poison` */
    gt_buffer *out_buffer;
    bool timed;      /* work with that token is timed, as in gt_call */
    gt_token *token; /* set if `out` is complete only with that token; NULL: must be complete on return */
} gt_collective_call;

typedef struct gt_collective_ops {
    const char *name;
    /* An error: a party failed or is gone. Every party that needs data of a failed party gets the error; no party
     * blocks. */
    gt_err (*run)(gt_collective *collective, const gt_collective_call *call);
    /* The same in pieces that never wait for another party: send what the others need first. NULL: it can only be run. The
     * call, and what it points to, must stay until the end. */
    gt_passage *(*start)(gt_collective *collective, const gt_collective_call *call);
    /* Whether this collective must not overtake others, nor be overtaken. May be NULL. */
    bool (*keeps_order)(gt_collective *collective, const gt_collective_call *call);
    void (*close)(gt_collective *collective);
} gt_collective_ops;

struct gt_collective {
    const gt_collective_ops *ops;
};

gt_err gt__collective_host(gt_exchange *exchange, gt_engine *engine, gt_store *store, gt_collective **collective);

/* The engine's own collectives where all parties have them, *collective otherwise: it is replaced by one that takes it. */
gt_err gt__collective_engine(gt_worker *worker, gt_collective **collective);

/* Collectives in which the parties' engines read each other's memory (loans.h), where all can; *collective otherwise, as above. */
gt_err gt__collective_lent(gt_worker *worker, gt_collective **collective);

/* Collectives of workers on several hosts in tiers (collective_tiers.c), where that is faster; *collective otherwise, as above. It
 * comes last. */
gt_err gt__collective_tiers(gt_worker *worker, gt_collective **collective);
/* A bit of gt_worker.host: its user wants tiers also where no engines hold collectives together. */
#define GT_HOST_TIERS 1u

/* The same with `count` elements along an axis. */
static inline gt_meta gt__meta_narrowed(const gt_meta *meta, unsigned axis, int64_t count)
{
    gt_meta part = *meta;
    part.numel = meta->shape[axis] ? meta->numel / meta->shape[axis] * count : 0;
    part.shape[axis] = count;
    return part;
}

/* What party k holds of the whole: along `axis`, by its start before or after. */
void gt__party_part(const gt_collective_call *call, unsigned k, bool after, unsigned axis, int64_t *start,
                    int64_t *count);

#endif
